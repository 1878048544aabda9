//! Per-CPU pagesets: a private stock of free pages for each CPU and zone.
//!
//! ```text
//!   alloc ◄─┐                                ┌─► bulk free: back to the zone, oldest pages first
//!           │  head                    tail  │
//!   free  ──┴─►[ hot | ... | ... | ... cold ]┴◄── refill: fetched from the zone, used last
//!
//!   lists: order 0 to 3 × {unmovable, movable, reclaimable}, and huge-page order (one list, two since 6.10)
//! ```
//!
//! Taking and freeing single pages touches nothing that another CPU can see; only refills and bulk frees take
//! the zone's lock. [`policy`], or functions of a kernel tree (`tree.rs`), decide when and how many; this file moves
//! page numbers. The lists are ring
//! buffers, so that the simulator reads the host's memory in order.
//! In the kernel: `__rmqueue_pcplist`, `free_frozen_page_commit`, `free_pcppages_bulk` in mm/page_alloc.c.

pub mod policy;
mod tree;

use crate::allocator::page::{MigrateType, Pfn};
use crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;
use crate::decisions::PcpDecisions;
use crate::features::Features;
use policy::{BulkFree, Pageset, ZonePressure};
use std::collections::VecDeque;
pub use tree::{Decayed, ZoneSize};

/// Number of lists in a pageset (`NR_PCP_LISTS`), with two of pageblock order.
pub const NR_PCP_LISTS: usize = (PAGE_ALLOC_COSTLY_ORDER as usize + 1) * MigrateType::PCP_TYPES + 2;
/// Index of the first list of pageblock order; all lists of lower orders come before it.
const FIRST_HUGE_LIST: usize = NR_PCP_LISTS - 2;

/// Whether pagesets keep blocks of `order` (`pcp_allowed_order`).
#[inline]
pub fn is_order_allowed(order: u8, pageblock_order: u8) -> bool {
    order <= PAGE_ALLOC_COSTLY_ORDER || order == pageblock_order
}

/// Index of the list for blocks of `order` and type (`order_to_pindex`).
#[inline]
pub fn list_index(f: &Features, order: u8, migrate_type: MigrateType) -> usize {
    let migrate_type = migrate_type.pcp_type();
    if order <= PAGE_ALLOC_COSTLY_ORDER {
        order as usize * MigrateType::PCP_TYPES + migrate_type as usize
    } else {
        FIRST_HUGE_LIST + policy::huge_list(f, migrate_type)
    }
}

/// The order and migrate type of the blocks on list `index`.
#[inline]
pub fn list_contents(f: &Features, index: usize, pageblock_order: u8) -> (u8, MigrateType) {
    match index.checked_sub(FIRST_HUGE_LIST) {
        None => ((index / MigrateType::PCP_TYPES) as u8, MigrateType::ALL[index % MigrateType::PCP_TYPES]),
        Some(list) => (pageblock_order, policy::huge_list_type(f, list)),
    }
}

/// A block on its way from a pageset to the buddy lists of its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainedBlock {
    pub pfn: Pfn,
    pub order: u8,
    /// The migrate type of the pageset list that it was on.
    pub list_type: MigrateType,
}

/// The pageset of one CPU and zone (`struct per_cpu_pages`).
#[derive(Clone, Debug)]
pub struct PerCpuPages {
    /// The numbers that [`policy`] works on.
    pub tuning: Pageset,
    pageblock_order: u8,
    lists: [VecDeque<Pfn>; NR_PCP_LISTS],
}

impl PerCpuPages {
    /// An empty pageset; `pageblock_order` is the order of its huge lists.
    pub fn new(tuning: Pageset, pageblock_order: u8) -> PerCpuPages {
        PerCpuPages { tuning, pageblock_order, lists: Default::default() }
    }

    /// List `index`, head first.
    pub fn list(&self, index: usize) -> &VecDeque<Pfn> {
        &self.lists[index]
    }

    /// List `index`, for a refill to append to.
    pub fn list_mut(&mut self, index: usize) -> &mut VecDeque<Pfn> {
        &mut self.lists[index]
    }

    /// Takes up to `wanted` order-0 pages from list `index` without a refill, with the same result as that
    /// many single allocations. Appends them to `out` and returns how many there were.
    #[inline]
    pub fn take_plain(&mut self, f: &Features, index: usize, wanted: usize, out: &mut Vec<Pfn>) -> usize {
        let list = &mut self.lists[index];
        let taken = wanted.min(list.len());
        out.extend(list.drain(..taken));
        policy::note_plain_allocs(&mut self.tuning, f, taken);
        taken
    }

    /// Takes one order-0 page from list `index` without a refill.
    #[inline]
    pub fn take_plain_page(&mut self, f: &Features, index: usize) -> Option<Pfn> {
        let pfn = self.lists[index].pop_front()?;
        policy::note_plain_allocs(&mut self.tuning, f, 1);
        Some(pfn)
    }

    /// Takes the block at the head of list `index`. [`policy::note_alloc`] must have been called.
    #[inline]
    pub fn take(&mut self, f: &Features, index: usize, order: u8) -> Option<Pfn> {
        let pfn = self.lists[index].pop_front()?;
        self.tuning.count -= 1 << order;
        policy::note_taken(&mut self.tuning, f);
        Some(pfn)
    }

    /// Adds the `got` blocks of `order` that a refill appended to the count.
    pub fn note_refilled(&mut self, got: usize, order: u8) {
        self.tuning.count += (got as i32) << order;
    }

    /// Puts a freed block at the head of list `index`. Returns the bulk free that is now due, if any.
    #[inline]
    pub fn put(
        &mut self,
        f: &Features,
        decisions: &PcpDecisions,
        zone: ZonePressure,
        index: usize,
        order: u8,
        pfn: Pfn,
    ) -> Option<BulkFree> {
        self.lists[index].push_front(pfn);
        decisions.note_free(&mut self.tuning, f, zone, order)
    }

    /// Puts freed pages (order 0, in this order) on list `index` as long as no bulk free is due. Returns how
    /// many it took.
    #[inline]
    pub fn put_plain(
        &mut self,
        f: &Features,
        decisions: &PcpDecisions,
        zone: ZonePressure,
        index: usize,
        pages: &[Pfn],
    ) -> usize {
        let plain = decisions.note_plain_frees(&mut self.tuning, f, zone, pages.len());
        for &pfn in &pages[..plain] {
            self.lists[index].push_front(pfn);
        }
        plain
    }

    /// Takes at least `pages` pages for the zone, or all there are: from the tail of list `first`, then from
    /// the following lists in turn. The last block may exceed the number.
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

    /// Pages on all lists, recounted.
    pub fn counted(&self, f: &Features) -> i32 {
        let order = |index| list_contents(f, index, self.pageblock_order).0;
        self.lists.iter().enumerate().map(|(index, list)| (list.len() as i32) << order(index)).sum()
    }
}
