//! Simplifies a failing case as long as it still fails in the same way.

use crate::case::Case;
use crate::command::{Fault, Verdict, run};
use std::time::{Duration, Instant};

/// Time limit for shrinking; if each run is long, as with a hang, only few simplifications are tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// The simplest case found, and its fault.
pub fn shrink(case: &Case, fault: &Fault, twice: bool) -> (Case, Fault) {
    let (mut best, mut found) = (case.clone(), fault.clone());
    let began = Instant::now();
    'smaller: loop {
        for candidate in best.smaller() {
            if began.elapsed() > PATIENCE {
                break 'smaller;
            }
            if let Verdict::Broken(other) = run(&candidate, twice)
                && other.kind == found.kind
            {
                (best, found) = (candidate, other);
                continue 'smaller;
            }
        }
        break;
    }
    (best, found)
}
