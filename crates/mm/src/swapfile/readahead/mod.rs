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
use crate::counters::Event;
use crate::folio::{FolioFlags, FolioId};
use crate::huge_memory::policy::window;
use crate::kernel::Kernel;
use crate::memcontrol::Memcg;
use crate::memory::Fault;
use crate::page_alloc::MemoryManager;
use crate::vmscan::OutOfMemory;

impl Kernel<'_> {
    /// Reads the entry of a fault, and others with it.
    pub(super) fn swapin_readahead(
        &mut self,
        fault: &Fault,
        swap: SwapEntry,
    ) -> Result<FolioId, OutOfMemory> {
        let page_cluster = self.mm.settings.page_cluster;
        let places = if self.mm.settings.vma_ra_enabled {
            let table = window(fault.page, self.mm.geometry().pmd_order);
            let vma =
                self.mm.mms[fault.mm].vmas.find_mut(fault.page).expect("a page that is touched is mapped");
            let within = vma.start.max(table.start)..vma.end.min(table.end);
            vma.swap_ra.on_miss_of_page(fault.page, page_cluster, within)
        } else {
            self.mm.swap.ra.on_miss_of_entry(swap.into(), page_cluster)
        };
        if places.end - places.start > 1 {
            for place in places {
                let entry = match self.mm.settings.vma_ra_enabled {
                    true => self.mm.pte(fault.mm, place).swap_entry(),
                    false => Some(place as SwapEntry),
                };
                let Some(entry) = entry else { continue };
                let Some(&Slot::Out { memcg, .. }) = self.mm.swap.slots.get(entry as usize) else { continue };
                if let Ok(id) = self.read_entry((entry, memcg), fault.has_recency)
                    && entry != swap
                {
                    self.mm.folios.flags[id].set(FolioFlags::READAHEAD);
                    self.mm.counters.add(Event::SwapRa, 1);
                }
            }
            self.lru_add_drain();
        }
        match self.mm.swap.slots[swap as usize] {
            Slot::Cached(id) => Ok(id),
            Slot::Out { memcg, .. } => self.read_entry((swap, memcg), fault.has_recency),
            Slot::Free => unreachable!("entry {swap} of a page table is in use"),
        }
    }

    /// Reads an entry that is out into a page of its group in the swap cache (`read_swap_cache_async`).
    fn read_entry(
        &mut self,
        (entry, memcg): (SwapEntry, Memcg),
        in_fault: bool,
    ) -> Result<FolioId, OutOfMemory> {
        let id = self.alloc_folio(memcg, FolioFlags::SWAPBACKED)?;
        self.fill_from_swap(id, entry, in_fault);
        self.mm.add_to_swap_cache(entry..entry + 1, id);
        self.folio_add_lru(id, in_fault);
        Ok(id)
    }
}

impl MemoryManager {
    /// The next request to the swap device, if there is one: its folios, in the order of entries up or down, go into
    /// `folios`, which is empty. Unless the device reads at once they are locked until [`MemoryManager::end_read`].
    pub fn take_submitted_swap_read(&mut self, folios: &mut Vec<FolioId>) -> bool {
        self.swap.reads.take(folios)
    }

    /// All that is to be read from swap is there, for devices that take no time.
    #[inline]
    pub fn end_swap_reads(&mut self) {
        if self.swap.reads.is_empty() {
            return;
        }
        let mut folios = Vec::new();
        while self.take_submitted_swap_read(&mut folios) {
            folios.drain(..).for_each(|id| self.end_read(id));
        }
    }

    /// Notes that a fault found a folio in the swap cache.
    pub(super) fn note_swap_cache_hit(&mut self, fault: &Fault, id: FolioId) {
        if self.folios.flags[id].order() > 0 {
            return;
        }
        let ahead = self.folios.flags[id].take(FolioFlags::READAHEAD);
        self.counters.add(Event::SwapRaHit, u64::from(ahead));
        if self.settings.vma_ra_enabled {
            let vma = self.mms[fault.mm].vmas.find_mut(fault.page).expect("a page that is touched is mapped");
            vma.swap_ra.on_hit_of_page(fault.page, ahead);
        } else if ahead {
            self.swap.ra.on_hit_of_entry();
        }
    }
}
