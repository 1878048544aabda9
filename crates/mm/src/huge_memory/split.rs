//! Folios that are not wanted whole any more.
//!
//! ```text
//!   folio of order 4    │■│■│■│■│ │ │ │ │■│■│■│■│■│■│■│■│      munmap of 4 pages: no memory is freed,
//!                                                               the folio waits to be split
//!   split               ■ ■ ■ ■         ■ ■ ■ ■ ■ ■ ■ ■         16 folios of order 0; those that nobody maps are freed
//! ```
//!
//! In the kernel: `deferred_split_folio`, `deferred_split_scan`, `__folio_split` in mm/huge_memory.c.

use super::orders::{Orders, PMD_ORDER};
use super::policy::defers_split;
use super::stats::{MthpStat, MthpStats};
use crate::account::Category;
use crate::address_space::{Mappings, PteNumber};
use crate::counters::Event;
use crate::folio::{Census, FolioFlags, FolioId, LruvecId};
use crate::lruvec::Lruvec;
use crate::page_alloc::MemoryManager;
use machine::{Cpu, Machine};
use std::collections::VecDeque;

/// Folios that wait to be split, those that came first at the front (`struct deferred_split`).
pub(crate) type DeferredSplit = VecDeque<FolioId>;

impl MemoryManager {
    fn deferred_split(&mut self, id: FolioId) -> &mut DeferredSplit {
        let lruvec: &mut Lruvec = &mut self.lruvecs[self.folios[id].lruvec.0 as usize];
        &mut lruvec.deferred_split
    }

    /// Whether any entry maps the page of a folio that `entry` mapped until now.
    pub(crate) fn is_page_mapped(&self, entry: PteNumber, id: FolioId) -> bool {
        self.folios[id].mapcount > 0 && self.page_tables.mappings(entry, id, 1).next().is_some()
    }

    /// `lost` pages of an anonymous folio have lost their last mapping: it may be one to split.
    pub(crate) fn note_partial_unmap(&mut self, id: FolioId, lost: u32) {
        let flags = self.folios.flags[id];
        let order = flags.order();
        let in_swap_cache = flags.has(FolioFlags::SWAPCACHE);
        if !defers_split(order, lost, self.folios[id].mapcount.into(), in_swap_cache)
            || flags.has(FolioFlags::PARTIALLY_MAPPED)
        {
            return;
        }
        self.folios.flags[id].set(FolioFlags::PARTIALLY_MAPPED);
        self.deferred_split(id).push_back(id);
        self.mthp_stats.add(order, MthpStat::SplitDeferred, 1);
        self.mthp_stats.add(order, MthpStat::NrAnonPartiallyMapped, 1);
        if order == PMD_ORDER {
            self.counters.add(Event::ThpDeferredSplitPage, 1);
        }
    }

    /// A folio is freed, or no longer what it was.
    pub(crate) fn forget_large_folio(&mut self, id: FolioId) {
        let flags = self.folios.flags[id];
        if flags.order() == 0 || !flags.has(FolioFlags::SWAPBACKED) {
            return;
        }
        self.mthp_stats.add(flags.order(), MthpStat::NrAnon, -1);
        if self.folios.flags[id].take(FolioFlags::PARTIALLY_MAPPED) {
            self.mthp_stats.add(flags.order(), MthpStat::NrAnonPartiallyMapped, -1);
            let queue = self.deferred_split(id);
            let place = queue.iter().position(|&other| other == id);
            queue.remove(place.expect("a folio that is partially mapped waits to be split"));
        }
    }

    /// A folio is split because swap has no room for all of it.
    pub(crate) fn count_swpout_fallback(&mut self, order: u8) {
        self.mthp_stats.add(order, MthpStat::SwpoutFallback, 1);
        if order == PMD_ORDER {
            self.counters.add(Event::ThpSwpoutFallback, 1);
        }
    }

    /// Splits of the folios of one memory cgroup on one node that wait for it as many as reclaim of this priority asks
    /// for (`deferred_split_scan`, `do_shrink_slab` with the default seeks).
    pub(crate) fn deferred_split_scan(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        lruvec: LruvecId,
        priority: u8,
    ) {
        let queue = &self.lruvecs[lruvec.0 as usize].deferred_split;
        let most = (queue.len() >> priority) * 2;
        let taken: Vec<FolioId> = queue.iter().copied().take(most).collect();
        for id in taken {
            // One that cannot be split now waits on.
            let _ = self.split_folio(machine, cpu, id);
        }
    }

    /// Checks what is counted of large anonymous folios; panics with what does not hold.
    pub(crate) fn validate_large_folios(&self, census: &Census) {
        let mut counted = MthpStats::default();
        for (id, folio) in census.all(&self.folios) {
            let flags = self.folios.flags[id];
            if flags.order() == 0 || !flags.has(FolioFlags::SWAPBACKED) {
                continue;
            }
            let waits = flags.has(FolioFlags::PARTIALLY_MAPPED);
            counted.add(flags.order(), MthpStat::NrAnon, 1);
            counted.add(flags.order(), MthpStat::NrAnonPartiallyMapped, i64::from(waits));
            assert!(Orders::ALL_ANON.has(flags.order()), "{id:?}: {flags:?}");
            assert_eq!(folio.pfn % (1 << flags.order()), 0, "{id:?} is aligned to its size: {folio:?}");
            let places = self.lruvecs[folio.lruvec.0 as usize].deferred_split.iter();
            assert_eq!(places.filter(|&&other| other == id).count(), usize::from(waits), "{id:?} waits once");
        }
        for (order, stat, _) in counted.iter() {
            if matches!(stat, MthpStat::NrAnon | MthpStat::NrAnonPartiallyMapped) {
                let (count, is) = (counted.get(order, stat), self.mthp_stats.get(order, stat));
                assert_eq!(is, count, "{} of order {order}", stat.name());
            }
        }
    }

    /// Makes single pages of a folio and frees those that nobody maps. The pages that stay, in order; where the folio
    /// was on a list they are there. A folio that somebody else holds stays as it is.
    pub(crate) fn split_folio(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        id: FolioId,
    ) -> Result<Vec<FolioId>, FolioId> {
        let flags = self.folios.flags[id];
        let order = flags.order();
        let held = FolioFlags::HELD | FolioFlags::LOCKED | FolioFlags::WRITEBACK | FolioFlags::SWAPCACHE;
        if flags.any(held) {
            self.mthp_stats.add(order, MthpStat::SplitFailed, 1);
            return Err(id);
        }
        let huge: Vec<_> = self.mappings_of(id).iter().map(|entry| entry.table()).collect();
        huge.into_iter().for_each(|table| self.split_huge_pmd(table));
        let mut mappings = vec![Mappings::new(); 1 << order];
        for entry in self.mappings_of(id) {
            mappings[entry.place() & ((1 << order) - 1)].push(entry);
        }
        machine.charge(
            cpu,
            Category::PageTables,
            machine.costs.pte_write * u64::from(self.folios[id].mapcount),
        );
        self.forget_large_folio(id);
        self.mthp_stats.add(order, MthpStat::Split, 1);
        if order == PMD_ORDER {
            self.counters.add(Event::ThpSplitPage, 1);
        }
        self.folios.flags[id].set_order(0);
        self.folios.flags[id].clear(FolioFlags::PARTIALLY_MAPPED);
        let pages = self.folios.divide(id, 1 << order);
        let zone = self.zone_of(self.folios[id].pfn);
        for &page in &pages {
            let pfn = self.folios[page].pfn;
            self.zone_mut(zone).buddy.set_user(pfn, page.0);
        }
        let mut kept = Vec::new();
        for (page, entries) in pages.into_iter().zip(mappings) {
            self.folios[page].mapcount = entries.len() as u16;
            match entries.first() {
                Some(first) => {
                    self.folios[page].slot = first.0;
                    kept.push(page);
                }
                None => self.release_folio(machine, cpu, page),
            }
            for entry in entries {
                let pte = self.page_tables[entry];
                self.page_tables[entry] = pte.with_folio(page);
            }
        }
        Ok(kept)
    }
}
