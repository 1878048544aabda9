//! Which VMA was scanned, skipped and touched, and by how many threads: what a heat map shows.

use super::placement::TaskId;
use super::scan::policy::SkipReason;
use crate::address_space::MmId;
use std::collections::{BTreeMap, BTreeSet};

/// What happened to one VMA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmaHeat {
    /// Entries made PROT_NONE.
    pub scanned: u64,
    /// Hint faults, on pages of other nodes and of the thread's own.
    pub faults: [u64; 2],
    /// Threads that took them.
    pub threads: BTreeSet<TaskId>,
    /// How often passes skipped it, by reason.
    pub skipped: [u64; SkipReason::ALL.len()],
}

/// All VMAs that scanning met, by address space and address.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    vmas: BTreeMap<(MmId, u64), VmaHeat>,
    /// The VMA and thread of the last fault: mostly the next one's too.
    last: Option<(MmId, u64, TaskId)>,
}

impl Heat {
    pub(super) fn of(&mut self, mm: MmId, start: u64) -> &mut VmaHeat {
        self.vmas.entry((mm, start)).or_default()
    }

    pub(super) fn fault(&mut self, mm: MmId, start: u64, task: TaskId, local: bool) {
        let repeated = self.last.replace((mm, start, task)) == Some((mm, start, task));
        let heat = self.of(mm, start);
        heat.faults[usize::from(local)] += 1;
        if !repeated {
            heat.threads.insert(task);
        }
    }

    /// All of them, in the order of address spaces and addresses.
    pub fn iter(&self) -> impl Iterator<Item = (MmId, u64, &VmaHeat)> {
        self.vmas.iter().map(|(&(mm, start), heat)| (mm, start, heat))
    }
}
