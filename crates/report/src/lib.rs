//! What people look at: charts, pages and tables made of what the lab found. Nothing is decided here.
//!
//! ```text
//!   lab: Comparison, Record ─► comparison.rs ─┐
//!   other commands: tables, charts ───────────┴► Page ─┬► html.rs       one file with Vega in it: no network, no eval
//!                                                      ├► markdown.rs   texts and tables
//!                                                      └► Data ─► CSV   figures as they are, a line each
//!
//!   chart/   typed descriptions ─► Vega-Lite specifications     the only place where such are made
//! ```
//!
//! A chart is the same everywhere, because the same scripts draw it everywhere: those in `vega/`, which a browser runs in the report.
//! Its specification opens in Altair and in the Vega editor too.

pub mod again;
pub mod chart;
pub mod comparison;
pub mod event;
pub mod html;
pub mod markdown;
pub mod number;
pub mod page;
#[cfg(feature = "pictures")]
pub mod picture;
mod scripts;
pub mod series;
pub mod timeline;

pub use page::{Cell, Data, Page, Part, Section, Table, Tone};
