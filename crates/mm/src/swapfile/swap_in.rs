//! Swapping in: the page fault on a swap entry.
//!
//! ```text
//!   PTEs of a page table    │ s40 │ s41 │ s42 │ s43 │ s9 │       s40: swap entry 40; the fault is on s42
//!                           └─ order 2, contiguous, aligned ─► a folio of 4 pages, from zram
//!
//!   still in the swap cache: the whole folio is mapped if its PTEs have all its entries, else the one page
//! ```
//!
//! In the kernel: `do_swap_page`, `alloc_swap_folio`, `can_swapin_thp` in mm/memory.c.

use super::{SwapEntry, SwapIn};
use crate::address_space::AddressSpaces;
use crate::address_space::huge_memory::features::Search;
use crate::address_space::huge_memory::orders::Orders;
use crate::address_space::huge_memory::policy::{
    Failure, SwapInPath, allowed_orders, fitting, frees_swap, has_file, swap_in_path, swap_orders, window,
};
use crate::address_space::huge_memory::stats::MthpStat;
use crate::address_space::memory::{Fault, Touch};
use crate::address_space::{Pte, VmFlags};
use crate::allocator::request::Effort;
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use std::ops::Range;

impl Kernel<'_> {
    /// Handles a page fault on a PTE with a swap entry (`do_swap_page`).
    pub(crate) fn do_swap_page(&mut self, fault: &Fault, swap: SwapEntry) -> Result<Touch, OutOfMemory> {
        let (id, touch) = match self.parts.swap.swap_entry_state(swap) {
            SwapIn::Cached(id) => {
                self.note_swap_cache_hit(fault, id);
                let there = !self.parts.lrus.folios.flags[id].has(FolioFlags::LOCKED);
                (id, if there { Touch::Minor } else { Touch::AwaitSwap(id) })
            }
            SwapIn::Read(_) => {
                let read = self.swap_in(fault, swap);
                self.parts.swap.reads.end_request();
                let id = read?;
                // Counted now and not at the end of the fault, as the copy for a write may still run out of
                // memory.
                self.on.counters.add(Event::Pgmajfault, 1);
                (id, Touch::ReadSwap(id))
            }
        };
        // A batch of this CPU would be a user of the folio, so that this process could not be seen to be the only one (do_swap_page).
        let flags = self.parts.lrus.folios.flags[id];
        if fault.write && flags.has(FolioFlags::SWAPCACHE) && !flags.has(FolioFlags::LRU) {
            self.lru_add_drain();
        }
        let mine = self.parts.map_swapped(fault, id, swap);
        let order = self.parts.lrus.folios.flags[id].order();
        if fault.flags.has(VmFlags::LOCKED) && order == 0 {
            self.mlock_folio(id);
        }
        // A folio under writeback stays in the swap cache.
        let is_out = !self.parts.lrus.folios.flags[id].has(FolioFlags::WRITEBACK);
        let swap = &self.parts.swap;
        let frees = || {
            let f = &self.on.features.folios;
            frees_swap(f, fault.write, swap.is_full(), swap.is_synchronous())
        };
        if mine && is_out && frees() {
            self.parts.folio_free_swap(id);
        }
        if fault.write && mine {
            self.parts.lrus.folios.flags[id].set(FolioFlags::DIRTY);
            let table = fault.entry.table();
            let around = window(fault.entry.place() as u64, order);
            for place in around.start as usize..around.end as usize {
                let entry = &mut self.parts.address_spaces.page_tables[table.entry(place)];
                if entry.folio() == Some(id) && entry.has(Pte::EXCLUSIVE) {
                    entry.set(Pte::WRITE);
                }
            }
        } else if fault.write {
            self.do_wp_page(fault, id)?;
        }
        Ok(touch)
    }

    /// Reads the page of an entry from the device, and with it those of other entries.
    fn swap_in(&mut self, fault: &Fault, swap: SwapEntry) -> Result<FolioId, OutOfMemory> {
        let (synchronous, users) = (self.parts.swap.is_synchronous(), self.parts.swap.swap_users(swap));
        let path = swap_in_path(&self.on.features.folios, synchronous, users);
        let orders = match path {
            SwapInPath::Readahead => return self.swapin_readahead(fault, swap),
            SwapInPath::SinglePastCache => Orders::NONE,
            SwapInPath::PastCache | SwapInPath::ThroughCache => self.swap_in_orders(fault, swap),
        };
        let id = self.alloc_swap_folio(fault, orders)?;
        let (order, pages) =
            (self.parts.lrus.folios.flags[id].order(), self.parts.lrus.folios.flags[id].nr_pages());
        let first = window(swap.into(), order).start as SwapEntry;
        let entries = first..first + pages as SwapEntry;
        if let Some(cached) = self.swapped_in_meanwhile(id, swap) {
            return Ok(cached);
        }
        self.fill_from_swap(id, first, fault.added_by, path);
        if path == SwapInPath::ThroughCache {
            self.parts.add_to_swap_cache(entries, id);
        } else {
            // A folio that is fast to read does not keep its entries, except those that other PTEs refer to.
            for entry in entries {
                self.parts.swap.swap_map_dec(entry);
                if self.parts.swap.swap_users(entry) == 0 {
                    self.parts.swap_entry_free(entry);
                }
            }
        }
        self.folio_add_lru(id, fault.added_by);
        Ok(id)
    }

    /// The folio that an entry has in the swap cache by now, in place of `new`, which is freed then: the allocation of `new` may have
    /// made zswap write the entry back (`swapcache_prepare`).
    pub(super) fn swapped_in_meanwhile(&mut self, new: FolioId, swap: SwapEntry) -> Option<FolioId> {
        let SwapIn::Cached(cached) = self.parts.swap.swap_entry_state(swap) else { return None };
        self.free_folio(new);
        Some(cached)
    }

    /// Allocates a folio of the largest of `orders` that there is memory for, or a single page
    /// (`alloc_swap_folio`).
    fn alloc_swap_folio(&mut self, fault: &Fault, mut orders: Orders) -> Result<FolioId, OutOfMemory> {
        let (f, thp) = (self.on.features.folios, self.on.settings.transparent_hugepage);
        let vma = self.parts.address_spaces.mms[fault.mm]
            .vmas
            .find(fault.page)
            .expect("a VMA has the page of a fault");
        let state = self.parts.address_spaces.vma_state(fault.mm, vma);
        let large = self.on.decisions.folios.effort(&f, &thp, &state);
        loop {
            let order = orders.highest().unwrap_or(0);
            let mut flags = FolioFlags::SWAPBACKED;
            flags.set_order(order);
            let effort = if order == 0 { Effort::OF_FAULT } else { large };
            match self.vma_alloc_folio(fault.place(), flags, effort) {
                Ok(id) => return Ok(id),
                Err(_) if order == 0 => return Err(OutOfMemory),
                Err(failure) if has_file(&f, MthpStat::SwpinFallback.since()) => {
                    let charge = i64::from(failure == Failure::NoRoom);
                    self.parts.address_spaces.count_mthp_stat(order, MthpStat::SwpinFallback, 1);
                    self.parts.address_spaces.count_mthp_stat(order, MthpStat::SwpinFallbackCharge, charge);
                }
                Err(_) => {}
            }
            orders = orders.below(order);
        }
    }

    /// The orders that the folio of a page may have when it is swapped in.
    fn swap_in_orders(&self, fault: &Fault, swap: SwapEntry) -> Orders {
        let (f, thp) = (&self.on.features.folios, &self.on.settings.transparent_hugepage);
        let settings = &self.on.settings;
        if settings.zswap_ever_enabled || settings.zswap.enabled || self.parts.zswap.was_enabled() {
            // zswap may have stored some of the pages while it was on.
            return Orders::NONE;
        }
        let vma = self.parts.address_spaces.mms[fault.mm]
            .vmas
            .find(fault.page)
            .expect("a VMA has the page of a fault");
        let allowed =
            allowed_orders(f, thp, &self.parts.address_spaces.vma_state(fault.mm, vma)).and(thp.pte_mapped());
        let aligned = swap_orders(allowed, fault.page, swap.into());
        fitting(Search::PerCandidate, aligned, &vma.pages(), fault.page, |window| {
            let (before, pages) = (fault.page - window.start, window.end - window.start);
            let (first, start) = (swap - before as SwapEntry, fault.entry.place() as u64 - before);
            let is_out = |entry| matches!(self.parts.swap.swap_entry_state(entry), SwapIn::Read(_));
            let mut entries = first..first + pages as SwapEntry;
            !(self.parts.address_spaces.has_swap_row(fault, start..start + pages, first)
                && entries.clone().all(is_out)
                && entries.all(|entry| self.parts.swap.is_zeroes(entry) == self.parts.swap.is_zeroes(first)))
        })
    }
}

impl Parts {
    /// Maps a folio that is swapped in: all of it if the PTEs around the fault have all its entries, else one
    /// page. Returns whether the pages that are mapped now are mapped only here and no PTE has their entries.
    fn map_swapped(&mut self, fault: &Fault, id: FolioId, swap: SwapEntry) -> bool {
        let (order, table) = (self.lrus.folios.flags[id].order(), fault.entry.table());
        let around = window(fault.entry.place() as u64, order);
        let cached = self.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE);
        let first = swap - (fault.entry.place() as u64 - around.start) as SwapEntry;
        let whole = self.address_spaces.is_in_area(fault, order)
            && self.address_spaces.has_swap_row(fault, around.clone(), first);
        let places = if whole { around } else { window(fault.entry.place() as u64, 0) };
        let mut mine = true;
        for place in places.clone() {
            let number = table.entry(place as usize);
            let old = self.address_spaces.page_tables[number];
            let swap = old.swap_entry().expect("the PTE has a swap entry");
            self.address_spaces.page_tables[number] = Pte::of_folio(id).with(Pte::YOUNG).with(old.stored());
            if self.lrus.folios[id].mapcount == 0 {
                self.lrus.folios[id].slot = self.address_spaces.page_tables.slot(number);
            }
            self.add_rmap(number, id);
            if cached {
                self.swap.swap_map_dec(swap);
            }
            let mappings = self.address_spaces.page_tables.mappings(number, id, 1).count();
            mine &= mappings == 1 && !(cached && self.swap.swap_users(swap) > 0);
        }
        if mine {
            places.for_each(|place| {
                self.address_spaces.page_tables[table.entry(place as usize)].set(Pte::EXCLUSIVE)
            });
        }
        mine
    }
}

impl AddressSpaces {
    /// Whether the window of an order around a fault lies inside its VMA.
    fn is_in_area(&self, fault: &Fault, order: u8) -> bool {
        let window = window(fault.page, order);
        let vma = self.mms[fault.mm].vmas.find(fault.page).expect("a VMA has the page of a fault");
        window.start >= vma.start && window.end <= vma.end
    }

    /// Whether these PTEs have contiguous swap entries, beginning with `first`.
    fn has_swap_row(&self, fault: &Fault, places: Range<u64>, first: SwapEntry) -> bool {
        let table = fault.entry.table();
        (first..)
            .zip(places)
            .all(|(swap, place)| self.page_tables[table.entry(place as usize)].swap_entry() == Some(swap))
    }
}
