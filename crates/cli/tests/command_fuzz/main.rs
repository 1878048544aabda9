//! Fuzzes the command with random scenarios, kernels, settings and machines.
//!
//! ```text
//!   seed ─► Case: a built-in scenario made small, its keys moved; a variant or release; settings; a machine
//!              │
//!              ▼  mmtwin run case.toml --variants V --machine M --set K=V ... --seeds 1 --json
//!           exit 0 and JSON with metrics within their bounds, or exit 2 and an error ──► fine, and now and then the same
//!           again: the same bits?
//!           panic, abort, hang, "contradicts itself", other bits ──► shrunk, and printed as a file and a command
//! ```
//!
//! CI runs a fixed list of seeds; the soak crate describes how to run others. When a fault is found, the code
//! at fault gets a test of its own.

mod case;
mod command;
mod shrink;

use case::Case;
use command::Verdict;

/// Number of seeds in CI: about a minute of CPU time.
const GATING: u64 = 150;

/// One case of this many is run twice.
const TWICE: u64 = 8;

/// Runs the case of a seed.
///
/// # Errors
///
/// The fault, with the shrunk case that reproduces it.
fn check(seed: u64, refused: &mut u64) -> Result<(), String> {
    let twice = seed.is_multiple_of(TWICE);
    let case = Case::of(seed);
    match command::run(&case, twice) {
        Verdict::Made => Ok(()),
        Verdict::GoesOn => {
            soak::note("commands", seed, "was getting on when its time was over");
            Ok(())
        }
        Verdict::Refused => {
            *refused += 1;
            Ok(())
        }
        Verdict::Broken(fault) => {
            let (case, fault) = shrink::shrink(&case, &fault, twice);
            Err(format!("{}\n\n{}\n\n{}", fault.text, case.command(), case.files()))
        }
    }
}

#[test]
fn commands_end_with_a_result_or_an_error() {
    let (mut tried, mut refused) = (0, 0);
    soak::seeds("commands", 0..GATING, |seed| {
        tried += 1;
        check(seed, &mut refused)
    });
    assert!(
        tried < GATING || refused < tried / 2,
        "most cases are to be runs: {refused} of {tried} are refused"
    );
}
