//! Makes a case that fails smaller, as long as it fails in the same way.

use crate::case::Case;
use crate::command::{Fault, Verdict, run};
use std::time::{Duration, Instant};

/// What shrinking may take: where each run is long, as where one hangs, few are tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// The smallest case that was found, and its fault.
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
