//! `mmtwin verify`: the twin against a real kernel, counter by counter.

use crate::failure::Failure;

/// Compare the twin's decisions and counters with those of a real kernel
#[derive(clap::Args)]
pub struct Arguments {
    /// The mechanism: pcp
    mechanism: String,
}

/// Verifies.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::input(format!("{}: not there yet", arguments.mechanism)))
}
