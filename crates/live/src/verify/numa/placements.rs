//! When threads were placed, as nothing recorded says.
//!
//! A placement starts the counts of a thread's local and remote faults anew, and the fault that led to it is the first that
//! they count. So from what they were at a call of `task_numa_work` follows which fault that was:
//!
//! ```text
//!   faults     · · · · · · · · · · · ·
//!   work     W                         W   seq + 1, local + remote = 5
//!   placement                ▲ the fifth before
//! ```
//!
//! Where they were not started anew, as after a failed migration, nothing follows.

use std::collections::BTreeMap;

use super::recording::{Decision, Fault};

/// A placement: the number of the fault among those of its thread, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// From 0.
    pub fault: usize,
    /// Microseconds.
    pub time: u64,
}

/// The faults of each thread, and its placements as far as they are known, in order.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    times: BTreeMap<u32, Vec<u64>>,
    of: BTreeMap<u32, Vec<Placement>>,
}

impl Placements {
    /// What follows from a recording.
    pub fn new(faults: &[Fault], decisions: &[Decision]) -> Placements {
        let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for fault in faults {
            times.entry(fault.tid).or_default().push(fault.time);
        }
        let mut of: BTreeMap<u32, Vec<Placement>> = BTreeMap::new();
        // Sequence number and faults of each thread at its last call.
        let mut before: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
        for work in decisions.iter().filter(|decision| decision.event == "work") {
            let field = |name: &str| work.field(name).unwrap_or(0);
            let Some(times) = times.get(&work.tid) else { continue };
            let seen = times.partition_point(|&time| time <= work.time);
            let (seq, seen_before) = before.insert(work.tid, (field("seq"), seen)).unwrap_or((0, 0));
            let since = (field("loc_remote") + field("loc_local")) as usize;
            if field("seq") != seq && (1..=seen - seen_before).contains(&since) {
                let fault = seen - since;
                of.entry(work.tid).or_default().push(Placement { fault, time: times[fault] });
            }
        }
        Placements { times, of }
    }

    /// The next placement of a thread that is about to take its fault number `fault`.
    pub fn next(&self, tid: u32, fault: usize) -> Option<Placement> {
        let own = self.of.get(&tid)?;
        own.get(own.partition_point(|placement| placement.fault < fault)).copied()
    }

    /// When a thread takes the fault that follows its fault number `fault`.
    pub fn fault_after(&self, tid: u32, fault: usize) -> u64 {
        self.times.get(&tid).and_then(|times| times.get(fault + 1)).copied().unwrap_or(u64::MAX)
    }
}
