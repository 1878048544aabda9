//! How far a run is, for whoever waits for it.
//!
//! ```text
//!   simulation ── 5 ms of virtual time ──► Reached ◄── 5 times a second ── progress bar
//! ```
//!
//! A run at full size takes minutes, and another thread may look on. What it sees has no part in what comes of the run.

use machine::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The virtual time that a run has reached; copies are of the same run.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    nanoseconds: Arc<AtomicU64>,
}

impl Reached {
    /// The run is at `now`.
    pub fn note(&self, now: Time) {
        self.nanoseconds.store(now.picoseconds() / 1000, Ordering::Relaxed);
    }

    /// Where it is.
    pub fn time(&self) -> Time {
        Time::from_nanoseconds(self.nanoseconds.load(Ordering::Relaxed))
    }
}
