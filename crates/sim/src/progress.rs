//! Progress of a run, for displays.
//!
//! ```text
//!   simulation ── 5 ms of virtual time ──► RunProgress ◄── 5 times a second ── progress bar
//! ```
//!
//! A run of full size takes minutes, so another thread may want to show its progress. Reading it does not
//! affect the result.

use machine::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a run is: the virtual time that it has reached. Clones refer to the same run.
#[derive(Clone, Debug, Default)]
pub struct RunProgress {
    nanoseconds: Arc<AtomicU64>,
}

impl RunProgress {
    /// Records that the run is at `now`.
    pub fn note(&self, now: Time) {
        self.nanoseconds.store(now.picoseconds() / 1000, Ordering::Relaxed);
    }

    pub fn time(&self) -> Time {
        Time::from_nanoseconds(self.nanoseconds.load(Ordering::Relaxed))
    }
}
