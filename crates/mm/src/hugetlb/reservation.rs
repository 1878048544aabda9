//! Using huge pages: reservations by mmap, allocation in page faults, and freeing.
//!
//! ```text
//!   reserve 3   resv += 3     what free pages do not cover is allocated as surplus, up to nr_overcommit
//!   fault       a free page, resv - 1; without a reservation an unreserved free page, or a surplus page
//!   free        reserved again?  surplus on its node, or temporary? ─► freed, by the worker if it is optimised
//!                                otherwise ─► the free list
//! ```
//!
//! In the kernel: `hugetlb_acct_memory`, `gather_surplus_pages`, `return_unused_surplus_pages`,
//! `alloc_hugetlb_folio`, `free_huge_folio` in mm/hugetlb.c.

use super::folio::{Folio, is_gigantic};
use super::hstate::Page;
use super::policy;
use super::release::Release;
use crate::allocator::request::Placement;
use crate::hugetlb::vmemmap::list::OptimizeList;
use crate::kernel::Kernel;

/// No huge page can be allocated or reserved (ENOMEM; SIGBUS in a page fault).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no huge page is available (ENOMEM); raise nr_hugepages or nr_overcommit_hugepages")]
pub struct NoHugePage;

/// Whether a page was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It uses a reservation.
    Reserved,
    /// It was not reserved.
    Unreserved,
}

impl Kernel<'_> {
    /// Reserves `delta` pages of pool `h` (`hugetlb_acct_memory`). Surplus pages are allocated for what free
    /// pages do not cover.
    pub fn reserve_huge_pages(&mut self, h: usize, delta: u64) -> Result<(), NoHugePage> {
        self.hold_hugetlb_lock(1);
        let mut fresh = Vec::new();
        let missing = loop {
            let hstate = &self.parts.hugetlb.hstates[h];
            let missing = policy::missing_for_reservation(delta, hstate.resv, hstate.counters().free);
            if missing <= fresh.len() as u64 {
                break missing;
            }
            match self.alloc_surplus(h) {
                Some(folio) => fresh.push(folio),
                None => {
                    self.release_surplus(h, fresh);
                    return Err(NoHugePage);
                }
            }
        };
        let spare = fresh.split_off(missing as usize);
        self.hold_hugetlb_lock(fresh.len());
        self.parts.hugetlb.hstates[h].resv += delta;
        for folio in fresh {
            let node = self.parts.allocator.node_of(folio.pfn);
            self.parts.hugetlb.hstates[h].enqueue(node, folio.pfn);
        }
        self.release_surplus(h, spare);
        Ok(())
    }

    /// Returns `n` reservations, and frees surplus pages that they kept (`return_unused_surplus_pages`).
    pub fn unreserve_huge_pages(&mut self, h: usize, n: u64) {
        self.hold_hugetlb_lock(1);
        let nodes = self.parts.allocator.nodes_with_memory();
        let hstate = &mut self.parts.hugetlb.hstates[h];
        let n = n.min(hstate.resv);
        hstate.resv -= n;
        let mut removed = Vec::new();
        if !is_gigantic(hstate.order) {
            for _ in 0..n.min(hstate.counters().surplus) {
                let Some(folio) = self.parts.hugetlb.hstates[h].remove(&nodes, Page::Surplus) else { break };
                self.parts.hugetlb.note_removed(folio);
                removed.push(folio);
            }
        }
        removed.reverse();
        Release::new(&self.on.features.hugetlb, h, removed).finish(self);
    }

    /// Allocates a page of pool `h` in a page fault (`alloc_hugetlb_folio`).
    pub fn take_huge_page(&mut self, h: usize, how: Use) -> Result<Folio, NoHugePage> {
        self.hold_hugetlb_lock(1);
        let nodes = self.on.machine.topology.nodes_by_distance(self.on.machine.node(self.on.cpu));
        let hstate = &mut self.parts.hugetlb.hstates[h];
        let order = hstate.order;
        let free = match how {
            Use::Unreserved if hstate.available() == 0 => None,
            _ => nodes.iter().find_map(|&node| hstate.dequeue(node)),
        };
        if let Some(pfn) = free {
            hstate.resv -= u64::from(how == Use::Reserved);
            return Ok(Folio { pfn, order });
        }
        self.alloc_surplus(h).ok_or(NoHugePage)
    }

    /// Frees `folio` after its last user is gone (`free_huge_folio`). `again`: its reservation becomes valid
    /// again.
    pub fn put_huge_page(&mut self, folio: Folio, again: bool) {
        self.hold_hugetlb_lock(1);
        let h = self.parts.hugetlb.hstate_of(folio.order);
        let node = self.parts.allocator.node_of(folio.pfn);
        let temporary = self.parts.hugetlb.flags(folio).temporary;
        let hstate = &mut self.parts.hugetlb.hstates[h];
        hstate.resv += u64::from(again);
        let surplus = hstate.counters_of(node).surplus > 0;
        if !temporary && !surplus {
            hstate.enqueue(node, folio.pfn);
            return;
        }
        match temporary {
            true => hstate.leave_temporary(node),
            false => hstate.leave(node, Page::Surplus),
        }
        self.parts.hugetlb.note_removed(folio);
        if self.parts.hugetlb.is_optimized(folio) {
            // Restoring vmemmap allocates memory, which is not allowed here.
            self.parts.hugetlb.deferred.push(folio);
        } else {
            self.free_to_allocator(folio);
        }
    }

    /// Allocates a temporary page as the target of a migration. It counts as a page of the pool, and its last
    /// user frees it (`alloc_migrate_hugetlb_folio`).
    pub fn take_temporary_huge_page(&mut self, h: usize) -> Result<Folio, NoHugePage> {
        let folio = self.alloc_fresh(h, Placement::Local).ok_or(NoHugePage)?;
        OptimizeList::single(&self.on.features.hugetlb, folio).finish(self);
        self.hold_hugetlb_lock(1);
        let node = self.parts.allocator.node_of(folio.pfn);
        self.parts.hugetlb.hstates[h].enter(node, Page::Persistent);
        self.parts.hugetlb.flags_mut(folio).temporary = true;
        Ok(folio)
    }

    /// Allocates a surplus page, which is on no free list (`alloc_surplus_hugetlb_folio`).
    fn alloc_surplus(&mut self, h: usize) -> Option<Folio> {
        self.hold_hugetlb_lock(1);
        let may = |hstate: &super::Hstate| hstate.counters().surplus < hstate.nr_overcommit;
        if is_gigantic(self.parts.hugetlb.hstates[h].order) || !may(&self.parts.hugetlb.hstates[h]) {
            return None;
        }
        let folio = self.alloc_fresh(h, Placement::Local)?;
        OptimizeList::single(&self.on.features.hugetlb, folio).finish(self);
        self.hold_hugetlb_lock(1);
        let node = self.parts.allocator.node_of(folio.pfn);
        self.parts.hugetlb.hstates[h].enter(node, Page::Surplus);
        Some(folio)
    }

    /// Removes surplus pages that are on no free list from the pool and releases them.
    fn release_surplus(&mut self, h: usize, folios: Vec<Folio>) {
        for &folio in &folios {
            let node = self.parts.allocator.node_of(folio.pfn);
            self.parts.hugetlb.hstates[h].leave(node, Page::Surplus);
            self.parts.hugetlb.note_removed(folio);
        }
        Release::new(&self.on.features.hugetlb, h, folios).finish(self);
    }
}
