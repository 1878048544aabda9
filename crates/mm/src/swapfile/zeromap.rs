//! Pages of zeroes in swap (6.12): recorded in one bit of their entry, neither written nor read.
//!
//! ```text
//!   folio of 4 pages     all zeroes ─► 1 1 1 1     no I/O, not counted in pswpout and swpout
//!                        else       ─► 0 0 0 0     written, its pages of zeroes too
//!   swapped in           1 1 1 1 ─► cleared      0 0 0 0 ─► read      0 0 1 1 ─► smaller folios, half by half
//! ```
//!
//! A page that no program has stored to is all zeroes, and any other is not
//! ([`Pte::STORED`](crate::address_space::Pte::STORED)): programs that store zeroes are not modelled. Looking
//! through a folio of zeroes costs as much as reading it; one that is not ends the search in its first lines,
//! which costs nothing here. In the kernel: `is_folio_zero_filled`, `swap_zeromap_folio_set`,
//! `swap_read_folio_zeromap` in mm/page_io.c, `swap_zeromap_batch` in mm/swap.h.

use super::{Swap, SwapEntry};
use crate::account::Category;
use crate::address_space::huge_memory::policy::{looks_for_zeroes, window};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::folio::FolioId;

impl Swap {
    /// Whether an entry stands for a page of zeroes, which is not on the device.
    pub(crate) fn is_zeroes(&self, entry: SwapEntry) -> bool {
        self.zeromap[entry as usize]
    }
}

impl Kernel<'_> {
    /// Records for a folio that is swapped out whether its pages are all zeroes (`swap_zeromap_folio_set`).
    pub(super) fn mark_zeroes(&mut self, id: FolioId, zeroes: bool) {
        for entry in self.parts.swap_entries(id) {
            self.parts.swap.zeromap[entry as usize] = zeroes;
        }
        if zeroes {
            let pages = self.parts.lrus.folios.flags[id].nr_pages();
            self.on.machine.charge(self.on.cpu, Category::Reclaim, self.on.machine.costs.page_miss * pages);
            self.on.counters.add(Event::SwpoutZero, pages);
        }
    }

    /// Clears `pages` pages of a folio whose entries stand for zeroes (`swap_read_folio_zeromap`).
    pub(super) fn read_zeroes(&mut self, pages: u64) {
        self.on.machine.charge(self.on.cpu, Category::PageClear, self.on.machine.costs.clear(pages));
        self.on.counters.add(Event::SwpinZero, pages);
    }

    /// Whether the kernel finds a mapped anonymous folio to be all zeroes, so that it does not write it
    /// (`is_folio_zero_filled`). A folio of which no process maps all pages is taken for one that is not.
    pub(crate) fn is_zero_filled(&self, id: FolioId) -> bool {
        let (folio, flags) = (&self.parts.lrus.folios[id], self.parts.lrus.folios.flags[id]);
        if !looks_for_zeroes(&self.on.features.folios, folio.mapcount) {
            return false;
        }
        let slot = self.parts.address_spaces.page_tables.at_slot(folio.slot);
        let places = window(slot.place() as u64, flags.order());
        let places = places.start as usize..places.end as usize;
        self.parts.address_spaces.page_tables.ring(slot.table()).any(|table| {
            u64::from(self.parts.address_spaces.page_tables[table].untouched(places.clone(), id))
                == flags.nr_pages()
        })
    }
}
