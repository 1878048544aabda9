//! `mmtwin calibrate`: machine profiles from baseline rows and measurements.

use crate::failure::Failure;

/// Derive a machine's figures from baseline rows and measurements
#[derive(clap::Args)]
pub struct Arguments {
    /// The table
    table: Option<String>,
}

/// Calibrates.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::input(format!("{:?}: not there yet", arguments.table)))
}
