//! Reading pages from swap before anybody asks for them.
//!
//! ```text
//!   a page is missing ─► policy: which pages, or entries, around it?
//!                          └─► those that are out come into the swap cache, marked; nobody maps them yet
//!                                └─► a fault finds one, marked: a hit, which makes the next window longer
//! ```
//!
//! What lies together on the device is one request to it. Devices that read at once are not read ahead of, unless a page is
//! shared (`SWP_SYNCHRONOUS_IO`, and one user). Left out: that a rotating disk turns reading by address off for all of
//! swap; `swap/vma_ra_enabled` says it. In the kernel: `swapin_readahead`, `swap_vma_readahead`, `swap_cluster_readahead`,
//! `swap_cache_get_folio` in mm/swap_state.c.

pub mod policy;

use super::{Slot, SwapEntry};
use crate::address_space::huge_memory::policy::window;
use crate::address_space::memory::Fault;
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::swapfile::Swap;

impl Kernel<'_> {
    /// Reads the entry of a fault, and others with it.
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
                .expect("a page that is touched is mapped");
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
            Slot::Free => unreachable!("entry {swap} of a page table is in use"),
        }
    }

    /// Reads an entry that is out into a page of its group in the swap cache (`read_swap_cache_async`).
    fn read_entry(
        &mut self,
        (entry, memcg): (SwapEntry, Memcg),
        by: AddedBy,
    ) -> Result<FolioId, OutOfMemory> {
        let id = self.alloc_folio(memcg, FolioFlags::SWAPBACKED)?;
        self.fill_from_swap(id, entry, by);
        self.parts.add_to_swap_cache(entry..entry + 1, id);
        self.folio_add_lru(id, by);
        Ok(id)
    }

    /// Notes that a fault found a folio in the swap cache.
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
                .expect("a page that is touched is mapped");
            vma.swap_ra.on_hit_of_page(fault.page, ahead);
        } else if ahead {
            self.parts.swap.ra.on_hit_of_entry();
        }
    }
}

impl Swap {
    /// The next request to the swap device, if there is one: its folios, in the order of entries up or down, go into
    /// `folios`, which is empty. Unless the device reads at once they are locked until [`Lrus::end_read`](crate::lru::Lrus::end_read).
    pub fn take_submitted_swap_read(&mut self, folios: &mut Vec<FolioId>) -> bool {
        self.reads.take(folios)
    }
}

impl Parts {
    /// All that is to be read from swap is there, for devices that take no time.
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
