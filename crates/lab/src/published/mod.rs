//! Published tables against the twin: what the authors of a series printed, cell by cell.
//!
//! ```text
//!   data/published/*.toml ── tables ─► cells as printed ┐
//!   scenarios ── experiment ─► means by variant ────────┼─► report: predicted, published, error, direction
//!   layout, parameters ─► what needs no simulation ─────┘
//! ```
//!
//! Rows of kind `baseline` are the unpatched kernel: machines may be calibrated with them, so they are shown but
//! take no part in the statistics. A cell that the twin cannot predict is listed with the reason. A miss stays a
//! miss: nothing here rounds, drops or fits.
//!
//! [`Basis`] keeps two things apart: what a simulation predicts, and what follows from the twin's definitions
//! (the layout of a structure, a constant). The overall statistics are of the former; the latter, being exact or
//! wrong, would flatter them.

mod check;
mod claims;
mod layout;
mod parameters;
mod prediction;
mod printed;
mod report;
mod sources;
mod tables;

pub use prediction::{CellValue, Observations};
pub use printed::Printed;
pub use report::{Basis, Cell, Direction, Ordering, Report, Statistics, TableReport};
pub use sources::{Need, needs};
pub use tables::{Column, Kind, PrintedAs, Publication, Row, Table, TablesError, parse, present_id};

#[cfg(test)]
mod tests;
