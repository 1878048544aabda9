//! Heat map: which VMAs were touched, scanned and skipped, and by which threads.
//!
//! ```text
//!                  thread 0   1   2   3
//!   VMA 0  touched    9000    .   .  70        page accesses, which the kernel does not see
//!          faults        9    .   .   2        the hint faults among them
//!          scanned     512    .   .   .        PTEs that the thread made PROT_NONE
//!          skipped       pid_inactive 7
//! ```
//!
//! Touched pages are counted by whoever walks through memory, and reported here in batches.

use super::placement::TaskId;
use super::scan::policy::PAGE_SHIFT;
use super::scan::policy::SkipReason;
use crate::address_space::{MmId, Vpn};
use std::collections::BTreeMap;
use std::ops::Range;

/// What one thread did in one VMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadHeat {
    /// Page accesses.
    pub touched: u64,
    /// Hint faults: on pages of other nodes, and on pages of the thread's own node.
    pub faults: [u64; 2],
    /// Pages whose PTEs it made PROT_NONE.
    pub scanned: u64,
}

/// What happened to one VMA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmaHeat {
    threads: BTreeMap<TaskId, ThreadHeat>,
    /// The largest number of pages that it had.
    pub pages: u64,
    /// Number of times that passes skipped it, by reason.
    pub skipped: [u64; SkipReason::ALL.len()],
}

impl VmaHeat {
    fn of(&mut self, task: TaskId) -> &mut ThreadHeat {
        self.threads.entry(task).or_default()
    }

    /// The threads that touched or scanned it.
    pub fn threads(&self) -> impl Iterator<Item = (TaskId, ThreadHeat)> {
        self.threads.iter().map(|(&task, &heat)| (task, heat))
    }
}

/// All VMAs that were touched or that scanning met.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// Index into `vmas`, by address space and start address.
    places: BTreeMap<(MmId, u64), usize>,
    vmas: Vec<VmaHeat>,
    /// The VMA looked up last, which usually is the next one too.
    last: Option<((MmId, u64), usize)>,
}

impl Heat {
    pub(super) fn of(&mut self, mm: MmId, vma: &Range<Vpn>) -> &mut VmaHeat {
        let start = vma.start << PAGE_SHIFT;
        let known = self.last.filter(|(vma, _)| *vma == (mm, start)).map(|(_, place)| place);
        let place = known.unwrap_or_else(|| {
            let next = self.vmas.len();
            let place = *self.places.entry((mm, start)).or_insert(next);
            if place == next {
                self.vmas.push(VmaHeat::default());
            }
            place
        });
        self.last = Some(((mm, start), place));
        let heat = &mut self.vmas[place];
        heat.pages = heat.pages.max(vma.end - vma.start);
        heat
    }

    pub(super) fn touched(&mut self, mm: MmId, vma: &Range<Vpn>, task: TaskId, pages: u64) {
        self.of(mm, vma).of(task).touched += pages;
    }

    pub(super) fn fault(&mut self, mm: MmId, vma: &Range<Vpn>, task: TaskId, local: bool) {
        self.of(mm, vma).of(task).faults[usize::from(local)] += 1;
    }

    pub(super) fn scanned(&mut self, mm: MmId, vma: &Range<Vpn>, task: TaskId, pages: u64) {
        if pages > 0 {
            self.of(mm, vma).of(task).scanned += pages;
        }
    }

    /// All VMAs, by address space and address.
    pub fn iter(&self) -> impl Iterator<Item = (MmId, u64, &VmaHeat)> {
        self.places.iter().map(|(&(mm, start), &place)| (mm, start, &self.vmas[place]))
    }
}
