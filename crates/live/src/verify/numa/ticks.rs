//! When the timer ticked, as nothing recorded says.
//!
//! Threads scan when a tick has interrupted them, so each call of `task_numa_work` comes a few microseconds after a tick:
//!
//! ```text
//!   ticks   |       |       |       |            every 4 ms, and now and then all of them a little later
//!   work            ·               ·
//! ```

use super::recording::Decision;

const TICK_US: u64 = 1_000_000 / mm::jiffies::HZ;
/// A call may come before the time that the last call gives the tick.
const EARLY_US: u64 = 20;

/// The ticks of a recording.
#[derive(Clone, Debug)]
pub struct Ticks {
    /// Since when, and by how many microseconds later than a multiple of a tick.
    phase: u64,
}

impl Ticks {
    /// From calls of `task_numa_work`.
    pub fn new(decisions: &[Decision]) -> Ticks {
        let works = decisions.iter().filter(|decision| decision.event == "work");
        let phases: Vec<u64> = works.map(|decision| decision.time % TICK_US).collect();
        // The start that leaves the calls soonest after their ticks.
        let since =
            |start: u64| -> u64 { phases.iter().map(|phase| (phase + TICK_US - start) % TICK_US).sum() };
        let phase = phases.iter().copied().min_by_key(|&start| since(start)).unwrap_or(0);
        Ticks { phase: (phase + TICK_US - EARLY_US) % TICK_US }
    }

    /// The jiffy of a time in microseconds.
    pub fn at(&self, time: u64) -> u64 {
        (time + TICK_US - self.phase) / TICK_US + 1
    }
}
