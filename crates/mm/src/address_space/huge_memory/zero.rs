//! The huge zero folio: one for the whole system, allocated by the first read fault that maps it.
//!
//! ```text
//!   read fault ─► none yet ─► an unmovable huge page         ─► thp_zero_page_alloc
//!        │           │                   └ allocation failed ─► thp_zero_page_alloc_failed: single pages instead
//!        └ every address space holds it from its first fault until it ends
//!
//!   nobody holds it ─► a shrinker frees it
//! ```
//!
//! In the kernel: `get_huge_zero_folio`, `shrink_huge_zero_folio_scan` in mm/huge_memory.c.

use crate::account::Category;
use crate::address_space::AddressSpaces;
use crate::address_space::MmId;
use crate::allocator::page::MigrateType;
use crate::allocator::request::Effort;
use crate::allocator::request::{Placement, Request};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::vmscan::policy::{DEFAULT_SEEKS, SlabScan};
use crate::sysctl::Settings;

impl Kernel<'_> {
    /// Gives an address space a reference to the huge zero folio, allocating the folio if necessary. Returns
    /// whether there is one.
    pub(crate) fn get_huge_zero_folio(&mut self, mm: MmId) -> bool {
        if self.parts.address_spaces.mms[mm].holds_huge_zero {
            return true;
        }
        if self.parts.address_spaces.huge_zero.first.is_none() {
            let thp = &self.on.settings.transparent_hugepage;
            let (order, pages) = (thp.pmd_order(), thp.hpage_pmd_nr());
            let effort = Effort { direct: true, ..Effort::LIGHT };
            let request = Request::new(order, MigrateType::Unmovable, Placement::Local);
            self.parts.address_spaces.huge_zero.first = self.alloc(&Request { effort, ..request });
            if self.parts.address_spaces.huge_zero.first.is_none() {
                self.on.counters.add(Event::ThpZeroPageAllocFailed, 1);
                return false;
            }
            self.on.machine.charge(
                self.on.cpu,
                Category::PageClear,
                self.on.machine.costs.clear(pages.into()),
            );
            self.on.counters.add(Event::ThpZeroPageAlloc, 1);
        }
        self.parts.address_spaces.hold_huge_zero_folio(mm);
        true
    }

    /// Shrinker of the huge zero folio: frees it if nobody holds it and reclaim at this priority asks for
    /// that many pages (`shrink_huge_zero_folio_scan`).
    pub(crate) fn shrink_huge_zero_folio(&mut self, priority: u8) {
        let Some(first) = self
            .parts
            .address_spaces
            .huge_zero
            .first
            .filter(|_| self.parts.address_spaces.huge_zero.holders == 0)
        else {
            return;
        };
        let thp = &self.on.settings.transparent_hugepage;
        let (order, pages) = (thp.pmd_order(), thp.hpage_pmd_nr());
        let mut slab = SlabScan::new(
            pages.into(),
            self.parts.address_spaces.huge_zero.nr_deferred,
            priority,
            Some(DEFAULT_SEEKS),
        );
        if let Some(batch) = slab.batch() {
            slab.scanned(batch);
            self.parts.address_spaces.huge_zero.first = None;
            self.free(first, order);
        }
        self.parts.address_spaces.huge_zero.nr_deferred = slab.deferred();
    }
}

impl AddressSpaces {
    /// Takes a reference for an address space; the huge zero folio must exist.
    pub(crate) fn hold_huge_zero_folio(&mut self, mm: MmId) {
        self.huge_zero.holders += u32::from(!self.mms[mm].holds_huge_zero);
        self.mms[mm].holds_huge_zero = true;
    }

    /// Drops the reference of an address space that ends.
    pub(crate) fn put_huge_zero_folio(&mut self, mm: MmId) {
        self.huge_zero.holders -= u32::from(self.mms[mm].holds_huge_zero);
    }

    /// Pages of the huge zero folio; 0 if it does not exist.
    pub(crate) fn nr_huge_zero_pages(&self, settings: &Settings) -> u64 {
        self.huge_zero.first.map_or(0, |_| settings.transparent_hugepage.hpage_pmd_nr().into())
    }
}
