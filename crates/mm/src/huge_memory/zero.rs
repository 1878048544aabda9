//! The huge page of zeroes: one for the whole system, made by the first read fault that wants it.
//!
//! ```text
//!   read fault ─► none yet ─► a huge page that does not move ─► thp_zero_page_alloc
//!        │           │                   └ none to be had ────► thp_zero_page_alloc_failed: single pages instead
//!        └ every address space holds it from its first fault until it ends
//!
//!   nobody holds it ─► a shrinker frees it
//! ```
//!
//! In the kernel: `get_huge_zero_folio`, `shrink_huge_zero_folio_scan` in mm/huge_memory.c.

use crate::account::Category;
use crate::address_space::MmId;
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::page::{MigrateType, Pfn};
use crate::page_alloc::{Effort, MemoryManager, Placement, Request};
use crate::vmscan::policy::{DEFAULT_SEEKS, SlabScan};

/// The huge page of zeroes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugeZero {
    first: Option<Pfn>,
    /// Address spaces that hold it.
    holders: u32,
    /// What its shrinker put off.
    nr_deferred: u64,
}

impl Kernel<'_> {
    /// Gives an address space the huge page of zeroes; whether there is one.
    pub(crate) fn get_huge_zero_folio(&mut self, mm: MmId) -> bool {
        if self.mm.mms[mm].holds_huge_zero {
            return true;
        }
        if self.mm.huge_zero.first.is_none() {
            let thp = &self.mm.settings.transparent_hugepage;
            let (order, pages) = (thp.pmd_order(), thp.hpage_pmd_nr());
            let effort = Effort { direct: true, ..Effort::LIGHT };
            let request = Request::new(order, MigrateType::Unmovable, Placement::Local);
            self.mm.huge_zero.first = self.alloc(&Request { effort, ..request });
            if self.mm.huge_zero.first.is_none() {
                self.mm.counters.add(Event::ThpZeroPageAllocFailed, 1);
                return false;
            }
            self.machine.charge(self.cpu, Category::PageClear, self.machine.costs.clear(pages.into()));
            self.mm.counters.add(Event::ThpZeroPageAlloc, 1);
        }
        self.mm.hold_huge_zero_folio(mm);
        true
    }

    /// Frees it if nobody holds it and reclaim of this priority asks for so much.
    pub(crate) fn shrink_huge_zero_folio(&mut self, priority: u8) {
        let Some(first) = self.mm.huge_zero.first.filter(|_| self.mm.huge_zero.holders == 0) else { return };
        let thp = &self.mm.settings.transparent_hugepage;
        let (order, pages) = (thp.pmd_order(), thp.hpage_pmd_nr());
        let mut slab =
            SlabScan::new(pages.into(), self.mm.huge_zero.nr_deferred, priority, Some(DEFAULT_SEEKS));
        if let Some(batch) = slab.batch() {
            slab.scanned(batch);
            self.mm.huge_zero.first = None;
            self.free(first, order);
        }
        self.mm.huge_zero.nr_deferred = slab.deferred();
    }
}

impl MemoryManager {
    /// An address space maps the huge page of zeroes, which there is.
    pub(crate) fn hold_huge_zero_folio(&mut self, mm: MmId) {
        self.huge_zero.holders += u32::from(!self.mms[mm].holds_huge_zero);
        self.mms[mm].holds_huge_zero = true;
    }

    /// An address space ends.
    pub(crate) fn put_huge_zero_folio(&mut self, mm: MmId) {
        self.huge_zero.holders -= u32::from(self.mms[mm].holds_huge_zero);
    }

    /// Pages that it takes.
    pub(crate) fn nr_huge_zero_pages(&self) -> u64 {
        self.huge_zero.first.map_or(0, |_| self.settings.transparent_hugepage.hpage_pmd_nr().into())
    }
}
