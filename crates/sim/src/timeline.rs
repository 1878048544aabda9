//! A run as it went: what the CPUs did when, with the names of who did it and of what they waited for.
//!
//! The machine notes numbers ([`machine::timeline`]); here they get the names that a reader knows.

use crate::System;
use machine::timeline::LockId;
use machine::{Category as _, Time, Timeline};
use mm::Category;
use mm::lru_lock::LruLock;
use std::collections::BTreeMap;

/// What was noted of a run, with names.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTimeline {
    /// When measuring began.
    pub start: Time,
    pub noted: Timeline,
    /// Names of tasks by number: programs, then threads of the kernel. Empty where a workload is one program.
    pub tasks: Vec<String>,
    /// Locks that were taken.
    pub locks: BTreeMap<LockId, String>,
}

impl RunTimeline {
    /// Gives names to what was noted since `start`.
    pub(crate) fn new(system: &System, noted: Timeline, start: Time) -> RunTimeline {
        let locks = noted.locks().keys().map(|&id| (id, lock_name(system, id))).collect();
        RunTimeline { start, noted, tasks: Vec::new(), locks }
    }
}

/// The name of a lock, as a reader of the kernel knows it.
fn lock_name(system: &System, LockId { waiting, number }: LockId) -> String {
    let is = |category: Category| category.index() == waiting as usize;
    if is(Category::ZoneLockWait) {
        let zone = &system.mm.parts.allocator.zones()[number as usize];
        return format!("zone->lock, node {} {}", zone.node.0, zone.kind.name());
    }
    if is(Category::LruLockWait) {
        let (memcg, node) = LruLock::place(number);
        return format!("lru_lock, memory cgroup {memcg}, node {}", node.0);
    }
    "hugetlb_lock".into()
}
