//! Per-CPU pagesets: each CPU's private stock of free pages of a zone.
//!
//! ```text
//!   alloc ◄─┐                                ┌─► bulk free: back to the zone, oldest pages first
//!           │  head                    tail  │
//!   free  ──┴─►[ hot | ... | ... | ... cold ]┴◄── refill: fetched from the zone, used last
//!
//!   lists: order 0 to 3 × {unmovable, movable, reclaimable}, and huge-page order (one list, two since 6.10)
//! ```
//!
//! Taking and giving single pages touches nothing that another CPU could see; only refills and bulk frees
//! take the zone's lock. When and how much is decided in [`policy`]; this file moves page numbers.
//! The lists are ring buffers, so that the simulation's own hot path reads memory in order too.
//! In the kernel: `__rmqueue_pcplist`, `free_frozen_page_commit`, `free_pcppages_bulk` in mm/page_alloc.c.

pub mod policy;

use crate::allocator::page::{MigrateType, Pfn};
use crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;
use crate::features::Features;
use policy::{BulkFree, Pageset, ZonePressure};
use std::collections::VecDeque;

/// Number of lists when there are two of huge-page order.
pub const NR_PCP_LISTS: usize = (PAGE_ALLOC_COSTLY_ORDER as usize + 1) * MigrateType::PCP_TYPES + 2;
/// The first list of huge-page order; all lists of smaller orders come before it.
const FIRST_HUGE_LIST: usize = NR_PCP_LISTS - 2;

/// Whether blocks of `order` are kept in pagesets at all, where pageblocks are of `pageblock_order` (`pcp_allowed_order`).
#[inline]
pub fn is_order_allowed(order: u8, pageblock_order: u8) -> bool {
    order <= PAGE_ALLOC_COSTLY_ORDER || order == pageblock_order
}

/// The list of blocks of `order` and type (`order_to_pindex`).
#[inline]
pub fn list_index(f: &Features, order: u8, migrate_type: MigrateType) -> usize {
    let migrate_type = migrate_type.pcp_type();
    if order <= PAGE_ALLOC_COSTLY_ORDER {
        order as usize * MigrateType::PCP_TYPES + migrate_type as usize
    } else {
        FIRST_HUGE_LIST + policy::huge_list(f, migrate_type)
    }
}

/// The order and type of the blocks on list `index`.
#[inline]
pub fn list_contents(f: &Features, index: usize, pageblock_order: u8) -> (u8, MigrateType) {
    match index.checked_sub(FIRST_HUGE_LIST) {
        None => ((index / MigrateType::PCP_TYPES) as u8, MigrateType::ALL[index % MigrateType::PCP_TYPES]),
        Some(list) => (pageblock_order, policy::huge_list_type(f, list)),
    }
}

/// A block on its way from a pageset to its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainedBlock {
    /// First page.
    pub pfn: Pfn,
    /// Order of the block.
    pub order: u8,
    /// The type of the list that it was on.
    pub list_type: MigrateType,
}

/// One CPU's pages of one zone (`struct per_cpu_pages`).
#[derive(Clone, Debug)]
pub struct PerCpuPages {
    /// The numbers that decisions are made of.
    pub tuning: Pageset,
    pageblock_order: u8,
    lists: [VecDeque<Pfn>; NR_PCP_LISTS],
}

impl PerCpuPages {
    /// An empty pageset where pageblocks are of `pageblock_order`.
    pub fn new(tuning: Pageset, pageblock_order: u8) -> PerCpuPages {
        PerCpuPages { tuning, pageblock_order, lists: Default::default() }
    }

    /// The list `index`, head first.
    pub fn list(&self, index: usize) -> &VecDeque<Pfn> {
        &self.lists[index]
    }

    /// For a refill to append to.
    pub fn list_mut(&mut self, index: usize) -> &mut VecDeque<Pfn> {
        &mut self.lists[index]
    }

    /// Takes up to `wanted` order-0 pages from list `index` as that many single allocations would, without
    /// reaching for the zone. Returns how many were there.
    #[inline]
    pub fn take_plain(&mut self, f: &Features, index: usize, wanted: usize, out: &mut Vec<Pfn>) -> usize {
        let list = &mut self.lists[index];
        let taken = wanted.min(list.len());
        out.extend(list.drain(..taken));
        policy::note_plain_allocs(&mut self.tuning, f, taken);
        taken
    }

    /// The same for one page.
    #[inline]
    pub fn take_plain_page(&mut self, f: &Features, index: usize) -> Option<Pfn> {
        let pfn = self.lists[index].pop_front()?;
        policy::note_plain_allocs(&mut self.tuning, f, 1);
        Some(pfn)
    }

    /// Takes the head of list `index`, a block of `order`; `note_alloc` has been called before.
    #[inline]
    pub fn take(&mut self, f: &Features, index: usize, order: u8) -> Option<Pfn> {
        let pfn = self.lists[index].pop_front()?;
        self.tuning.count -= 1 << order;
        policy::note_taken(&mut self.tuning, f);
        Some(pfn)
    }

    /// Enters `got` blocks of `order` that a refill appended.
    pub fn note_refilled(&mut self, got: usize, order: u8) {
        self.tuning.count += (got as i32) << order;
    }

    /// Puts a block at the head of list `index`; says whether a bulk free is due.
    #[inline]
    pub fn put(
        &mut self,
        f: &Features,
        zone: ZonePressure,
        index: usize,
        order: u8,
        pfn: Pfn,
    ) -> Option<BulkFree> {
        self.lists[index].push_front(pfn);
        policy::note_free(&mut self.tuning, f, zone, order)
    }

    /// Puts as many of `pages` (order 0, in this order) on list `index` as need nothing from the zone;
    /// returns how many that were.
    #[inline]
    pub fn put_plain(&mut self, f: &Features, zone: ZonePressure, index: usize, pages: &[Pfn]) -> usize {
        let plain = policy::plain_frees(&self.tuning, f, zone, pages.len());
        for &pfn in &pages[..plain] {
            self.lists[index].push_front(pfn);
        }
        policy::note_plain_frees(&mut self.tuning, f, plain);
        plain
    }

    /// Takes out at least `pages` pages for the zone, as far as there are any: empties the list `first` from
    /// its tail, then the following ones. The last block may overshoot.
    pub fn take_for_zone(&mut self, f: &Features, pages: i32, first: usize, out: &mut Vec<DrainedBlock>) {
        let mut remaining = pages.min(self.tuning.count);
        let mut index = first;
        while remaining > 0 {
            let (order, list_type) = list_contents(f, index, self.pageblock_order);
            while remaining > 0
                && let Some(pfn) = self.lists[index].pop_back()
            {
                out.push(DrainedBlock { pfn, order, list_type });
                remaining -= 1 << order;
                self.tuning.count -= 1 << order;
            }
            index = (index + 1) % NR_PCP_LISTS;
        }
    }

    /// Pages on all lists, counted anew.
    pub fn counted(&self, f: &Features) -> i32 {
        let order = |index| list_contents(f, index, self.pageblock_order).0;
        self.lists.iter().enumerate().map(|(index, list)| (list.len() as i32) << order(index)).sum()
    }
}
