//! Swap readahead: reading entries before a fault asks for them.
//!
//! ```text
//!   fault on an entry ─► policy: which pages, or entries, around it?
//!                          └─► those not in memory are read into the swap cache, marked and not mapped
//!                                └─► a fault finds a marked one: a hit, which makes the next window longer
//! ```
//!
//! Neighbouring entries are read in one request. There is no readahead from a device that reads at once
//! (`SWP_SYNCHRONOUS_IO`), unless more than one PTE refers to the entry. Not modelled: a rotating disk turns
//! readahead by address off for all of swap; here `swap/vma_ra_enabled` alone decides. In the kernel:
//! `swapin_readahead`, `swap_vma_readahead`, `swap_cluster_readahead`, `swap_cache_get_folio` in
//! mm/swap_state.c.

pub mod policy;

use super::{Slot, SwapEntry};
use crate::address_space::huge_memory::policy::{SwapInPath, window};
use crate::address_space::memory::Fault;
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::swapfile::Swap;

impl Kernel<'_> {
    /// Reads the entry of a fault and, by readahead, others around it (`swapin_readahead`).
    pub(super) fn swapin_readahead(
        &mut self,
        fault: &Fault,
        swap: SwapEntry,
    ) -> Result<FolioId, OutOfMemory> {
        let page_cluster = self.on.settings.page_cluster;
        let places = if self.on.settings.vma_ra_enabled {
            let table = window(fault.page, self.parts.allocator.geometry().pmd_order);
            let vma = self.parts.address_spaces.mms[fault.mm]
                .vmas
                .find_mut(fault.page)
                .expect("a VMA has the page of a fault");
            let within = vma.start.max(table.start)..vma.end.min(table.end);
            vma.swap_ra.on_miss_of_page(fault.page, page_cluster, within)
        } else {
            self.parts.swap.ra.on_miss_of_entry(swap.into(), page_cluster)
        };
        if places.end - places.start > 1 {
            for place in places {
                let entry = match self.on.settings.vma_ra_enabled {
                    true => self.parts.address_spaces.pte(fault.mm, place).swap_entry(),
                    false => Some(place as SwapEntry),
                };
                let Some(entry) = entry else { continue };
                let Some(&Slot::Out { memcg, .. }) = self.parts.swap.slots.get(entry as usize) else {
                    continue;
                };
                if let Ok(id) = self.read_entry((entry, memcg), fault.added_by)
                    && entry != swap
                {
                    self.parts.lrus.folios.flags[id].set(FolioFlags::READAHEAD);
                    self.on.counters.add(Event::SwapRa, 1);
                }
            }
            self.lru_add_drain();
        }
        match self.parts.swap.slots[swap as usize] {
            Slot::Cached(id) => Ok(id),
            Slot::Out { memcg, .. } => self.read_entry((swap, memcg), fault.added_by),
            Slot::Free => unreachable!("entry {swap}, which a PTE refers to, is in use"),
        }
    }

    /// Reads an entry that is not in memory into a new page of the swap cache, charged to the entry's memcg
    /// (`read_swap_cache_async`).
    fn read_entry(
        &mut self,
        (entry, memcg): (SwapEntry, Memcg),
        by: AddedBy,
    ) -> Result<FolioId, OutOfMemory> {
        let id = self.alloc_folio(memcg, FolioFlags::SWAPBACKED)?;
        if let Some(cached) = self.swapped_in_meanwhile(id, entry) {
            return Ok(cached);
        }
        self.fill_from_swap(id, entry, by, SwapInPath::Readahead);
        self.parts.add_to_swap_cache(entry..entry + 1, id);
        self.folio_add_lru(id, by);
        Ok(id)
    }

    /// Notes that a fault found a folio in the swap cache (`swap_cache_get_folio`).
    pub(super) fn note_swap_cache_hit(&mut self, fault: &Fault, id: FolioId) {
        if self.parts.lrus.folios.flags[id].order() > 0 {
            return;
        }
        let ahead = self.parts.lrus.folios.flags[id].take(FolioFlags::READAHEAD);
        self.on.counters.add(Event::SwapRaHit, u64::from(ahead));
        if self.on.settings.vma_ra_enabled {
            let vma = self.parts.address_spaces.mms[fault.mm]
                .vmas
                .find_mut(fault.page)
                .expect("a VMA has the page of a fault");
            vma.swap_ra.on_hit_of_page(fault.page, ahead);
        } else if ahead {
            self.parts.swap.ra.on_hit_of_entry();
        }
    }
}

impl Swap {
    /// Moves the folios of the next request to the swap device into `folios`, which is empty, in ascending or
    /// descending order of entries. Returns whether there was a request. The folios are locked until
    /// [`Lrus::end_read`](crate::lru::Lrus::end_read), unless the device reads at once.
    pub fn take_submitted_swap_read(&mut self, folios: &mut Vec<FolioId>) -> bool {
        self.reads.take(folios)
    }
}

impl Parts {
    /// Completes all submitted reads from swap, for devices that take no time.
    #[inline]
    pub fn end_swap_reads(&mut self) {
        if self.swap.reads.is_empty() {
            return;
        }
        let mut folios = Vec::new();
        while self.swap.take_submitted_swap_read(&mut folios) {
            folios.drain(..).for_each(|id| self.lrus.end_read(id));
        }
    }
}
