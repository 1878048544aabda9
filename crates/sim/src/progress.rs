//! Progress of a run, for displays.
//!
//! ```text
//!   simulation ── 5 ms of virtual time ──► Reached ◄── 5 times a second ── progress bar
//! ```
//!
//! A run of full size takes minutes, so another thread may want to show its progress. Reading it does not
//! affect the result.

use machine::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The virtual time that a run has reached; clones refer to the same run.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    nanoseconds: Arc<AtomicU64>,
}

impl Reached {
    /// Records that the run is at `now`.
    pub fn note(&self, now: Time) {
        self.nanoseconds.store(now.picoseconds() / 1000, Ordering::Relaxed);
    }

    pub fn time(&self) -> Time {
        Time::from_nanoseconds(self.nanoseconds.load(Ordering::Relaxed))
    }
}
