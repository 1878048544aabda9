//! Pages of zeroes in swap (6.12): noted in a bit of their entry, neither written nor read.
//!
//! ```text
//!   folio of 4 pages     all zeroes ─► 1 1 1 1     no I/O, nothing of it in pswpout and swpout
//!                        else       ─► 0 0 0 0     written, its zeroes too
//!   coming back          1 1 1 1 ─► cleared memory     0 0 0 0 ─► read     0 0 1 1 ─► a smaller folio, each half by itself
//! ```
//!
//! What a program has not stored to is zeroes, and what it has is not ([`Pte::STORED`](crate::address_space::Pte::STORED)):
//! a program that stores zeroes is not known to. Looking at a folio costs what reading zeroes costs; one that holds something
//! shows it in its first lines, which is left out. In the kernel: `is_folio_zero_filled`, `swap_zeromap_folio_set`,
//! `swap_read_folio_zeromap` in mm/page_io.c, `swap_zeromap_batch` in mm/swap.h.

use super::{Swap, SwapEntry};
use crate::account::Category;
use crate::address_space::huge_memory::policy::{looks_for_zeroes, window};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::folio::FolioId;

impl Swap {
    /// Whether the page of an entry is all zeroes, so that the device has nothing of it.
    pub(crate) fn is_zeroes(&self, entry: SwapEntry) -> bool {
        self.zeromap[entry as usize]
    }
}

impl Kernel<'_> {
    /// Notes whether the pages of a folio that goes to swap are zeroes; if so, nothing has to be written.
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

    /// Clears so many pages that swap knows to be zeroes.
    pub(super) fn read_zeroes(&mut self, pages: u64) {
        self.on.machine.charge(self.on.cpu, Category::PageClear, self.on.machine.costs.clear(pages));
        self.on.counters.add(Event::SwpinZero, pages);
    }

    /// Whether the kernel finds that an anonymous folio that is mapped holds nothing but zeroes, and has no need to write
    /// it. A folio of which nobody maps all pages any more is taken for one that holds something.
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
