//! Which VMA was scanned, skipped and touched, and by which threads: what a heat map shows.
//!
//! ```text
//!                  thread 0   1   2   3
//!   VMA 0  touched    9000    .   .  70        who used it, which the kernel does not know
//!          faults        9    .   .   2        and what scanning shows of that
//!          scanned     512    .   .   .        who made its entries PROT_NONE
//!          skipped       pid_inactive 7
//! ```
//!
//! What is touched is counted by whoever goes through memory, and told once in a while.

use super::placement::TaskId;
use super::scan::policy::PAGE_SHIFT;
use super::scan::policy::SkipReason;
use crate::address_space::{MmId, Vpn};
use std::collections::BTreeMap;
use std::ops::Range;

/// What one thread did to one VMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadHeat {
    /// Pages used, each time that one was.
    pub touched: u64,
    /// Hint faults, on pages of other nodes and of the thread's own.
    pub faults: [u64; 2],
    /// Pages whose entries it made PROT_NONE.
    pub scanned: u64,
}

/// What happened to one VMA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmaHeat {
    threads: BTreeMap<TaskId, ThreadHeat>,
    /// The most pages that it had.
    pub pages: u64,
    /// How often passes skipped it, by reason.
    pub skipped: [u64; SkipReason::ALL.len()],
}

impl VmaHeat {
    fn of(&mut self, task: TaskId) -> &mut ThreadHeat {
        self.threads.entry(task).or_default()
    }

    /// The threads that did something to it.
    pub fn threads(&self) -> impl Iterator<Item = (TaskId, ThreadHeat)> {
        self.threads.iter().map(|(&task, &heat)| (task, heat))
    }
}

/// All VMAs that were used or that scanning met.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// By address space and address.
    places: BTreeMap<(MmId, u64), usize>,
    vmas: Vec<VmaHeat>,
    /// The VMA of the last fault: mostly the next one's too.
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

    /// All of them, in the order of address spaces and addresses.
    pub fn iter(&self) -> impl Iterator<Item = (MmId, u64, &VmaHeat)> {
        self.places.iter().map(|(&(mm, start), &place)| (mm, start, &self.vmas[place]))
    }
}
