//! Splitting large anonymous folios that are partially unmapped or underused.
//!
//! ```text
//!   folio of order 4    │■│■│■│■│ │ │ │ │■│■│■│■│■│■│■│■│      munmap of 4 pages: no memory is freed,
//!                                                               the folio is queued for splitting
//!   split               ■ ■ ■ ■         ■ ■ ■ ■ ■ ■ ■ ■         16 folios of order 0; those that nobody maps are freed
//! ```
//!
//! Since 6.12 huge pages are on the deferred split queue from their first fault on (`shrink_underused`). When
//! memory is short, those with mostly pages of zeroes are split, and the others leave the queue. A split maps
//! the zero page in place of pages of zeroes.
//!
//! In the kernel: `deferred_split_folio`, `deferred_split_scan`, `thp_underused`, `__folio_split` in mm/huge_memory.c,
//! `try_to_map_unused_to_zeropage` in mm/migrate.c.

use super::policy::{self, MapsAfterSplit, Unmapped, defers_split, is_underused, splits_underused};
use super::stats::{MthpStat, MthpStats};
use crate::account::Category;
use crate::address_space::{Mappings, Pte, PteNumber};
use crate::address_space::{MmId, Vpn};
use crate::allocator::page::NR_PAGE_ORDERS;
use crate::counters::Event;
use crate::features::Features;
use crate::kernel::Kernel;
use crate::kernel::Parts;
use crate::lru::Lrus;
use crate::lru::folio::FolioFlags;
use crate::lru::folio::{Census, FolioId, LruvecId};
use crate::lru::lruvec::DeferredSplit;
use crate::lru::lruvec::Lruvec;
use crate::lru::memcontrol::Memcg;
use crate::lru::vmscan::policy::{DEFAULT_SEEKS, SlabScan};
use crate::sysctl::Settings;
use std::collections::BTreeSet;

impl Kernel<'_> {
    /// Shrinker of a memory cgroup's deferred split queue on one node: splits as many folios as reclaim at
    /// this priority asks for.
    pub(crate) fn shrink_deferred_splits(&mut self, lruvec: LruvecId, priority: u8) {
        let at = &self.parts.lrus.lruvecs[lruvec].deferred_split;
        let mut slab = SlabScan::new(at.queue.len() as u64, at.nr_deferred, priority, Some(DEFAULT_SEEKS));
        while let Some(batch) = slab.batch() {
            if !self.deferred_split_scan(lruvec, batch) {
                break;
            }
            slab.scanned(batch);
        }
        self.parts.lrus.lruvecs[lruvec].deferred_split.nr_deferred = slab.deferred();
    }

    /// Scans the first `most` folios of the queue (`deferred_split_scan`). Returns whether another scan is
    /// worthwhile.
    fn deferred_split_scan(&mut self, lruvec: LruvecId, most: u64) -> bool {
        let queue = &mut self.parts.lrus.lruvecs[lruvec].deferred_split.queue;
        let taken: Vec<FolioId> = queue.drain(..queue.len().min(most as usize)).collect();
        let (mut any, mut kept) = (false, Vec::new());
        for id in taken {
            self.parts.lrus.folios.flags[id].clear(FolioFlags::DEFERRED_SPLIT);
            let partially = self.parts.lrus.folios.flags[id].has(FolioFlags::PARTIALLY_MAPPED);
            if !partially && (self.parts.lrus.is_mlocked(id) || !self.thp_underused(id)) {
                continue;
            }
            match self.split_folio(id) {
                Ok(_) => {
                    any = true;
                    self.on.counters.add(Event::ThpUnderusedSplitPage, u64::from(!partially));
                }
                Err(id) if partially => kept.push(id),
                Err(_) => {}
            }
        }
        kept.into_iter().for_each(|id| self.parts.lrus.queue_deferred_split(id));
        any || !self.parts.lrus.lruvecs[lruvec].deferred_split.queue.is_empty()
    }

    /// Whether a huge page has so many pages of zeroes that it should be split (`thp_underused`).
    fn thp_underused(&mut self, id: FolioId) -> bool {
        let thp = &self.on.settings.transparent_hugepage;
        let Some(&first) = self.parts.mappings_of(id).first().filter(|_| splits_underused(thp)) else {
            return false;
        };
        let pages = thp.hpage_pmd_nr();
        let zeroes = self.parts.address_spaces.page_tables[first.table()].untouched(0..pages as usize, id);
        // A page of zeroes is read to its end, any other up to its first cache line.
        let filled = u64::from(pages - zeroes);
        let cost = self.on.machine.costs.page_miss * u64::from(zeroes)
            + self.on.machine.own_memory_line(self.on.cpu) * filled;
        self.on.machine.charge(self.on.cpu, Category::Reclaim, cost);
        is_underused(thp, zeroes)
    }

    /// Splits a folio into single pages and frees those that nobody maps. Returns the remaining pages in
    /// order, which are on the folio's LRU list if it was on one. A folio that is held, locked or under
    /// writeback is not split and is returned as the error.
    pub(crate) fn split_folio(&mut self, id: FolioId) -> Result<Vec<FolioId>, FolioId> {
        let flags = self.parts.lrus.folios.flags[id];
        let order = flags.order();
        let busy = FolioFlags::HELD | FolioFlags::LOCKED | FolioFlags::WRITEBACK;
        if flags.any(busy) {
            self.parts.address_spaces.count_mthp_stat(order, MthpStat::SplitFailed, 1);
            self.on.counters.add(Event::ThpSplitPageFailed, u64::from(self.is_pmd_order(order)));
            return Err(id);
        }
        self.split_huge_mappings(id);
        let mut mappings = vec![Mappings::new(); 1 << order];
        for entry in self.parts.mappings_of(id) {
            mappings[entry.place() & ((1 << order) - 1)].push(entry);
        }
        self.on.machine.charge(
            self.on.cpu,
            Category::PageTables,
            self.on.machine.costs.pte_write * self.parts.lrus.folios.mapcount(id),
        );
        self.parts.forget_large_folio(id);
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::Split, 1);
        self.on.counters.add(Event::ThpSplitPage, u64::from(self.is_pmd_order(order)));
        let mut kept = Vec::new();
        for (page, entries) in self.parts.divide_folio(id).into_iter().zip(mappings) {
            self.remap_page(page, &entries);
            if self.parts.lrus.folios[page].mapcount > 0 || !self.parts.folio_free_swap(page) {
                kept.push(page);
            } else {
                self.release_folio(page);
            }
        }
        Ok(kept)
    }

    /// Maps a page of a split folio by its old `entries` again, or the zero page in its place (`remap_page`).
    fn remap_page(&mut self, page: FolioId, entries: &[PteNumber]) {
        self.parts.lrus.folios.set_mappings(page, entries.len() as u16);
        for &entry in entries {
            let pte = self.parts.address_spaces.page_tables[entry];
            self.parts.address_spaces.page_tables[entry] = pte.with_folio(page);
            self.parts.lrus.folios[page].slot = self.parts.address_spaces.page_tables.slot(entries[0]);
        }
        // Locked memory keeps its pages, whatever they hold.
        let is_zeroes = |&entry: &PteNumber| {
            self.parts.address_spaces.page_tables[entry].stored() == Pte::NONE
                && !self.parts.address_spaces.is_locked_entry(entry)
        };
        let zeroes = entries.iter().all(is_zeroes);
        if policy::after_split(&self.on.features.folios, zeroes) == MapsAfterSplit::Zeroes {
            for &entry in entries {
                self.parts.address_spaces.page_tables[entry] = Pte::ZERO;
                self.parts.remove_rmap(entry, page);
            }
        }
        match self.parts.is_in_locked_area(page, entries) {
            true => self.mlock_folio(page),
            false => self.munlock_folio(page),
        }
    }

    /// Ensures that a memory cgroup has a deferred split list. Returns whether it has one.
    pub(crate) fn alloc_deferred_list(&mut self, memcg: Memcg) -> bool {
        let had = self.parts.lrus.memcg(memcg).has_deferred_list;
        if !policy::needs_deferred_list(&self.on.features.folios, memcg == Memcg::ROOT, had) {
            return true;
        }
        let has = !self.parts.allocator.should_failslab(self.on.settings);
        self.parts.lrus.memcg_mut(memcg).has_deferred_list = has;
        has
    }

    /// Notes that `lost` pages of an anonymous folio have lost their last mapping, and queues the folio for
    /// splitting if it is now partially mapped. A folio already known to be so is queued, unless it has
    /// migrated since.
    pub(crate) fn note_partial_unmap(&mut self, id: FolioId, lost: u32) {
        let flags = self.parts.lrus.folios.flags[id];
        let order = flags.order();
        let mapped = self.parts.lrus.folios[id].mapcount.into();
        let in_swap_cache = flags.has(FolioFlags::SWAPCACHE);
        if !defers_split(Unmapped { order, lost, mapped, in_swap_cache })
            || flags.has(FolioFlags::PARTIALLY_MAPPED) && flags.has(FolioFlags::DEFERRED_SPLIT)
        {
            return;
        }
        if !flags.has(FolioFlags::PARTIALLY_MAPPED) {
            self.parts.lrus.folios.flags[id].set(FolioFlags::PARTIALLY_MAPPED);
            self.parts.address_spaces.count_mthp_stat(order, MthpStat::NrAnonPartiallyMapped, 1);
        }
        self.parts.lrus.queue_deferred_split(id);
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::SplitDeferred, 1);
        if self.is_pmd_order(order) {
            self.on.counters.add(Event::ThpDeferredSplitPage, 1);
        }
    }

    /// Queues a new huge page for the check whether it is underused.
    pub(crate) fn watch_for_underuse(&mut self, id: FolioId) {
        let (f, thp) = (&self.on.features.folios, &self.on.settings.transparent_hugepage);
        if policy::may_be_underused(f, thp) {
            self.parts.lrus.queue_deferred_split(id);
        }
    }

    /// Moves a folio that gets other memory to `lruvec`, and to that lruvec's deferred split queue if it
    /// stays queued.
    pub(crate) fn migrate_deferred_split(&mut self, id: FolioId, lruvec: LruvecId) {
        let queued = self.parts.lrus.unqueue_deferred_split(id);
        self.parts.lrus.folios[id].lruvec = lruvec;
        if policy::waits_after_migration(&self.on.features.folios, queued) {
            self.parts.lrus.queue_deferred_split(id);
        }
    }

    /// Counts a folio that is split because swap has no room for it in one piece.
    pub(crate) fn count_swpout_fallback(&mut self, order: u8) {
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::SwpoutFallback, 1);
        if self.is_pmd_order(order) {
            self.on.counters.add(Event::ThpSwpoutFallback, 1);
        }
    }
}

impl Lrus {
    fn deferred_split(&mut self, id: FolioId) -> &mut DeferredSplit {
        let lruvec: &mut Lruvec = &mut self.lruvecs[self.folios[id].lruvec];
        &mut lruvec.deferred_split
    }

    fn queue_deferred_split(&mut self, id: FolioId) {
        if !self.folios.flags[id].has(FolioFlags::DEFERRED_SPLIT) {
            self.folios.flags[id].set(FolioFlags::DEFERRED_SPLIT);
            self.deferred_split(id).queue.push_back(id);
        }
    }

    /// Takes a folio off its deferred split queue. Returns whether it was queued.
    fn unqueue_deferred_split(&mut self, id: FolioId) -> bool {
        let queued = self.folios.flags[id].take(FolioFlags::DEFERRED_SPLIT);
        if queued {
            let queue = &mut self.deferred_split(id).queue;
            let place = queue.iter().position(|&other| other == id);
            queue.remove(place.expect("a folio with the flag is on the deferred split queue"));
        }
        queued
    }
}

impl Parts {
    /// Number of pages of a folio without any mapping, now that `entry` no longer maps it. A PMD mapping
    /// loses those of its pages that no PTE of another address space maps (`__folio_remove_rmap`).
    pub(crate) fn pages_lost(&self, entry: PteNumber, id: FolioId) -> u32 {
        let pages = self.address_spaces.page_tables[entry.table()].pages_of_entry();
        let left = || self.address_spaces.page_tables.mappings(entry, id, pages);
        match pages {
            _ if self.lrus.folios[id].mapcount == 0 => pages as u32,
            1 => u32::from(left().next().is_none()),
            // A PMD mapping in another table maps all of the folio.
            _ if left().any(|other| self.address_spaces.page_tables[other.table()].is_huge()) => 0,
            _ => {
                let mapped: BTreeSet<usize> = left().map(|other| other.place()).collect();
                (pages - mapped.len() as u64) as u32
            }
        }
    }

    /// Turns each page of a large folio into a folio of its own, with the same memory, LRU list and swap
    /// entry. Returns them in order.
    fn divide_folio(&mut self, id: FolioId) -> Vec<FolioId> {
        let flags = self.lrus.folios.flags[id];
        let swapped = flags.has(FolioFlags::SWAPCACHE).then(|| self.swap_entries(id).start);
        self.lrus.folios.flags[id].set_order(0);
        let pages = self.lrus.folios.divide(id, 1 << flags.order());
        if let Some(first) = swapped {
            self.swap.split_swap_cache(first, &pages);
        }
        let zone = self.allocator.zone_of(self.lrus.folios[id].pfn);
        for &page in &pages {
            let pfn = self.lrus.folios[page].pfn;
            self.allocator.zone_mut(zone).buddy.set_user(pfn, page.0);
        }
        pages
    }

    /// Removes a large folio that is freed or split from counters and from the deferred split queue.
    pub(crate) fn forget_large_folio(&mut self, id: FolioId) {
        let flags = self.lrus.folios.flags[id];
        if !flags.has(FolioFlags::SWAPBACKED) {
            return;
        }
        self.address_spaces.count_mthp_stat(flags.order(), MthpStat::NrAnon, -1);
        if self.lrus.folios.flags[id].take(FolioFlags::PARTIALLY_MAPPED) {
            self.address_spaces.count_mthp_stat(flags.order(), MthpStat::NrAnonPartiallyMapped, -1);
        }
        self.lrus.unqueue_deferred_split(id);
    }

    /// Checks the counters and queues of large anonymous folios, and panics with the invariant that is
    /// broken.
    pub(crate) fn validate_large_folios(&self, features: &Features, settings: &Settings, census: &Census) {
        let mut counted = MthpStats::default();
        for (id, folio) in census.all(&self.lrus.folios) {
            let flags = self.lrus.folios.flags[id];
            if flags.order() == 0 || !flags.has(FolioFlags::SWAPBACKED) {
                continue;
            }
            let waits = flags.has(FolioFlags::PARTIALLY_MAPPED);
            counted.add(flags.order(), MthpStat::NrAnon, 1);
            counted.add(flags.order(), MthpStat::NrAnonPartiallyMapped, i64::from(waits));
            let orders = settings.transparent_hugepage.all_anon();
            assert!(orders.has(flags.order()), "{id:?}: {flags:?}");
            assert_eq!(folio.pfn % (1 << flags.order()), 0, "{id:?} is aligned to its size: {folio:?}");
            let queued = flags.has(FolioFlags::DEFERRED_SPLIT);
            let places = self.lrus.lruvecs[folio.lruvec].deferred_split.queue.iter();
            assert_eq!(
                places.filter(|&&other| other == id).count(),
                usize::from(queued),
                "{id:?} is queued once"
            );
            // Before 6.10 migration takes it off the queue.
            let forgets = !features.folios.splits_before_migration;
            assert!(
                queued || !waits || forgets,
                "a partially mapped folio is on the deferred split queue: {flags:?}"
            );
        }
        for (order, stat, _) in counted.iter() {
            if matches!(stat, MthpStat::NrAnon | MthpStat::NrAnonPartiallyMapped) {
                let (count, is) = (counted.get(order, stat), self.address_spaces.mthp_stats.get(order, stat));
                assert_eq!(is, count, "{} of order {order}", stat.name());
            }
        }
    }

    /// Checks that the anonymous folios of all sizes add up to the mapped pages (`nr_anon_pages`), the
    /// unmapped pages of folios that are partially mapped or came back from swap in part, and the unmapped
    /// pages in the swap cache or under writeback to swap. `mapped` is the number of mapped pages of a folio.
    pub(crate) fn validate_anon_pages(&self, census: &Census, mapped: impl Fn(FolioId) -> u64) {
        let (mut single, mut nr_anon_pages, mut parts, mut swap_cache) = (0, 0, 0, 0);
        for (id, _) in census.all(&self.lrus.folios) {
            let flags = self.lrus.folios.flags[id];
            if !flags.has(FolioFlags::SWAPBACKED) {
                continue;
            }
            let unmapped = flags.nr_pages() - mapped(id);
            single += u64::from(flags.order() == 0);
            nr_anon_pages += mapped(id);
            match flags.any(FolioFlags::PARTIALLY_MAPPED | FolioFlags::LEFT_SWAP) {
                true => parts += unmapped,
                false if flags.any(FolioFlags::SWAPCACHE | FolioFlags::WRITEBACK) => swap_cache += unmapped,
                false => {}
            }
        }
        let of_size =
            |(order, stat, count)| if stat == MthpStat::NrAnon { (count as u64) << order } else { 0 };
        let by_size = single + self.address_spaces.mthp_stats.iter().map(of_size).sum::<u64>();
        assert_eq!(by_size, nr_anon_pages + parts + swap_cache, "anonymous pages by size and by place");
    }

    /// Anonymous pages that an address space maps, by the order of their folio.
    pub fn anon_pages_by_order(&self, mm: MmId) -> [u64; NR_PAGE_ORDERS] {
        let mut pages = [0; NR_PAGE_ORDERS];
        for (table, places) in self.address_spaces.mms[mm].directory.tables(0..Vpn::MAX) {
            let table_pages = self.address_spaces.page_tables[table].pages_of_entry();
            for place in self.address_spaces.page_tables[table].places(places) {
                let Some(id) = self.address_spaces.page_tables[table.entry(place)].folio() else { continue };
                let flags = self.lrus.folios.flags[id];
                if flags.has(FolioFlags::SWAPBACKED) {
                    pages[usize::from(flags.order())] += table_pages;
                }
            }
        }
        pages
    }
}
