//! Collapsing the pages of a page table into a large folio.
//!
//! ```text
//!   │■│■│ │s│■│0│■│ ...   ─► a block is allocated ─► s is swapped in ─► still worth it?    ─► copied, cleared where there
//!                                                                              │ no             was nothing; old pages freed
//!                                                                              └► the block is freed
//! ```
//!
//! In the kernel: `hpage_collapse_scan_pmd`, `collapse_huge_page`, `__collapse_huge_page_swapin`,
//! `__collapse_huge_page_isolate`, `__collapse_huge_page_copy` in mm/khugepaged.c.

use super::policy::{self, EntryState, Found, Limits, MappedPage, ScanResult};
use crate::account::Category;
use crate::address_space::huge_memory::orders::Orders;
use crate::address_space::huge_memory::policy::Failure;
use crate::address_space::huge_memory::stats::MthpStat;
use crate::address_space::memory::Touch;
use crate::address_space::{MmId, Pte, PteNumber, TableId, VmFlags, Vpn};
use crate::allocator::request::{Effort, Placement};
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use machine::Node;
use std::ops::Range;

/// A range of PTEs that may be collapsed into one folio.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    mm: MmId,
    table: TableId,
    /// Place of the first PTE in its table.
    first: usize,
    order: u8,
}

impl Candidate {
    fn places(&self) -> Range<usize> {
        self.first..self.first + (1 << self.order)
    }
}

impl Kernel<'_> {
    /// Scans a PMD range and collapses what is worthwhile (`hpage_collapse_scan_pmd`). Returns whether it
    /// tried a collapse, and the result.
    pub(super) fn khugepaged_scan_pmd(&mut self, mm: MmId, page: Vpn, orders: Orders) -> (bool, ScanResult) {
        let Some(table) = self.parts.address_spaces.mms[mm].directory.table(page) else {
            return (false, ScanResult::PmdNull);
        };
        if self.parts.address_spaces.page_tables[table].is_huge() {
            return (false, ScanResult::PmdMapped);
        }
        let thp = self.on.settings.transparent_hugepage;
        let (huge, pages) = (thp.pmd_order(), thp.hpage_pmd_nr());
        let mut limits = policy::limits(&thp, huge);
        if orders != Orders::one(huge) {
            // With smaller orders, each window's number of empty PTEs is checked by itself.
            limits.none = pages;
        }
        self.on.machine.charge(
            self.on.cpu,
            Category::Khugepaged,
            self.on.machine.costs.paging().pte_scan * u64::from(pages),
        );
        let found = match self.parts.scan_entries(table, 0..pages as usize, &limits) {
            Ok(found) if policy::is_used(&thp, &found) => found,
            Ok(_) => return (false, ScanResult::LackReferencedPage),
            Err(reason) => {
                self.count_exceeded(huge, reason);
                return (false, reason);
            }
        };
        let mut tried = false;
        let (collapsed, result) = policy::collapse_windows(&thp, orders, &found, |order, first| {
            tried = true;
            let candidate = Candidate { mm, table, first: first as usize, order };
            self.collapse_huge_page(candidate)
        });
        self.parts.address_spaces.khugepaged.pages_collapsed += collapsed;
        (tried, result)
    }

    fn collapse_huge_page(&mut self, candidate: Candidate) -> ScanResult {
        let Candidate { mm, table, order, .. } = candidate;
        let large = |&place: &usize| {
            let folio = self.parts.address_spaces.page_tables[table.entry(place)].folio();
            folio.is_some_and(|id| self.parts.lrus.folios.flags[id].order() >= order)
        };
        if !self.is_pmd_order(order) && candidate.places().any(|place| large(&place)) {
            return ScanResult::PteMappedHugepage;
        }
        let id = match self.alloc_charge_folio(&candidate) {
            Ok(id) => id,
            Err(result) => return result,
        };
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::NrAnon, 1);
        let result = self.try_to_collapse(&candidate, id);
        if result == ScanResult::Succeed {
            if self.is_pmd_order(order) {
                self.watch_for_underuse(id);
            }
            self.flush_tlb_range(mm, 1 << order);
        } else {
            self.count_exceeded(order, result);
            self.free_folio(id);
        }
        result
    }

    fn alloc_charge_folio(&mut self, candidate: &Candidate) -> Result<FolioId, ScanResult> {
        let (order, memcg) = (candidate.order, self.parts.address_spaces.mms[candidate.mm].memcg);
        let direct = self.on.settings.transparent_hugepage.khugepaged.defrag;
        let placement = Placement::Bind(self.parts.target_node(candidate));
        let mut flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
        flags.set_order(order);
        let effort = Effort { direct, ..Effort::LIGHT };
        let folio = self.try_alloc_folio(memcg, flags, effort, placement);
        let (event, stat) = match folio {
            Err(Failure::NoBlock) => (Event::ThpCollapseAllocFailed, MthpStat::CollapseAllocFailed),
            Ok(_) | Err(Failure::NoRoom) => (Event::ThpCollapseAlloc, MthpStat::CollapseAlloc),
        };
        self.on.counters.add(event, u64::from(self.is_pmd_order(order)));
        self.parts.address_spaces.count_mthp_stat(order, stat, 1);
        folio.map_err(|failure| match failure {
            Failure::NoBlock => ScanResult::AllocHugePageFail,
            Failure::NoRoom => ScanResult::CgroupChargeFail,
        })
    }

    /// Copies a range into the new folio, unless reclaim for that folio has changed the range so that it may
    /// not be collapsed.
    fn try_to_collapse(&mut self, candidate: &Candidate, id: FolioId) -> ScanResult {
        let Candidate { mm, table, order, first } = *candidate;
        let mut limits = policy::limits(&self.on.settings.transparent_hugepage, order);
        if let Err(reason) = self.swap_in_row(candidate, limits.swap) {
            return reason;
        }
        limits.swap = 0;
        let found = match self.parts.scan_entries(table, candidate.places(), &limits) {
            Ok(found) if found.referenced == 0 => return ScanResult::LackReferencedPage,
            Ok(found) => found,
            Err(reason) => return reason,
        };
        let stored = candidate
            .places()
            .map(|place| self.parts.address_spaces.page_tables[table.entry(place)].stored());
        let stored: Vec<Pte> = stored.collect();
        let (copied, costs) = (found.pages(0..1 << order).into(), &self.on.machine.costs);
        let copy = (costs.page_copy + costs.page_miss + costs.page_unmap) * copied;
        let cost = copy + costs.clear(found.none.into()) + costs.pte_write * (1 << order);
        self.on.machine.charge(self.on.cpu, Category::Khugepaged, cost);
        let page = self.parts.address_spaces.page_tables[table].first + first as Vpn;
        let flags = self.parts.address_spaces.mms[mm].vmas.find(page).expect("the range is in a VMA").flags;
        let (may_write, added_by) = (flags.has(VmFlags::WRITE), self.added_by_fault(flags));
        self.zap_pte_range(table, candidate.places(), flags);
        let mut entry = Pte::of_folio(id).with(Pte::YOUNG.with(Pte::EXCLUSIVE));
        if may_write {
            entry.set(Pte::WRITE);
        }
        self.parts.lrus.folios[id].slot = self.parts.address_spaces.page_tables.slot(table.entry(first));
        if self.is_pmd_order(order) {
            let with_data = candidate.places().zip(stored).filter(|(_, stored)| *stored != Pte::NONE);
            self.parts.address_spaces.page_tables[table].set_huge(entry, with_data.map(|(place, _)| place));
            self.parts.add_rmap(table.entry(first), id);
        } else {
            for (place, stored) in candidate.places().zip(stored) {
                self.parts.address_spaces.page_tables[table.entry(place)] = entry.with(stored);
                self.parts.add_rmap(table.entry(place), id);
            }
        }
        self.folio_add_lru_vma(id, flags, added_by);
        ScanResult::Succeed
    }

    /// Swaps in the pages of a range if they are not more than `most` (`__collapse_huge_page_swapin`). A page
    /// that a device has to read makes this attempt fail, and is there in the next one.
    fn swap_in_row(&mut self, candidate: &Candidate, most: u32) -> Result<(), ScanResult> {
        let Candidate { mm, table, .. } = *candidate;
        let is_swapped = |mm: &Parts, place| mm.address_spaces.page_tables[table.entry(place)].swap_entry();
        let swapped = candidate.places().filter(|&place| is_swapped(self.parts, place).is_some()).count();
        if swapped as u32 > most {
            return Err(ScanResult::ExceedSwapPte);
        }
        for place in candidate.places() {
            let Some(swap) = is_swapped(self.parts, place) else { continue };
            let page = self.parts.address_spaces.page_tables[table].first + place as Vpn;
            let fault = self.load_fault(mm, page, table.entry(place));
            match self.do_swap_page(&fault, swap) {
                Ok(Touch::ReadSwap(id) | Touch::AwaitSwap(id)) if self.parts.lrus.is_locked(id) => {
                    return Err(ScanResult::PageLock);
                }
                Ok(_) => {}
                Err(_) => return Err(ScanResult::AllocHugePageFail),
            }
        }
        // Pages that were just swapped in are still in this CPU's folio batch.
        self.lru_add_drain();
        Ok(())
    }

    fn count_exceeded(&mut self, order: u8, reason: ScanResult) {
        let (event, stat) = match reason {
            ScanResult::ExceedNonePte => (Event::ThpScanExceedNonePte, MthpStat::CollapseExceedNonePte),
            ScanResult::ExceedSwapPte => (Event::ThpScanExceedSwapPte, MthpStat::CollapseExceedSwapPte),
            ScanResult::ExceedSharedPte => (Event::ThpScanExceedSharePte, MthpStat::CollapseExceedSharedPte),
            _ => return,
        };
        self.on.counters.add(event, u64::from(self.is_pmd_order(order)));
        self.parts.address_spaces.count_mthp_stat(order, stat, 1);
    }
}

impl Parts {
    fn scan_entries(
        &self,
        table: TableId,
        places: Range<usize>,
        limits: &Limits,
    ) -> Result<Found, ScanResult> {
        policy::scan(places.map(|place| self.entry_state(table.entry(place))), limits)
    }

    fn entry_state(&self, number: PteNumber) -> EntryState {
        let entry = self.address_spaces.page_tables[number];
        if entry.swap_entry().is_some() {
            return EntryState::Swapped;
        }
        let Some(id) = entry.folio() else { return EntryState::None };
        let flags = self.lrus.folios.flags[id];
        let elsewhere = || self.mappings_of(id).iter().any(|other| other.table() != number.table());
        let alone = entry.has(Pte::EXCLUSIVE) || self.lrus.folios[id].mapcount == 1;
        policy::entry_of(&MappedPage {
            anon: flags.has(FolioFlags::SWAPBACKED),
            lru: flags.has(FolioFlags::LRU),
            locked: flags.has(FolioFlags::LOCKED),
            held: flags.has(FolioFlags::HELD),
            shared: !alone && elsewhere(),
            young: entry.has(Pte::YOUNG) || flags.has(FolioFlags::REFERENCED),
        })
    }

    /// The node of most pages in the range (`hpage_collapse_find_target_node`).
    fn target_node(&self, candidate: &Candidate) -> Node {
        let mut pages = vec![0; self.allocator.nodes()];
        for place in candidate.places() {
            if let Some(id) = self.address_spaces.page_tables[candidate.table.entry(place)].folio() {
                pages[self.folio_node(id).index()] += 1;
            }
        }
        let most = (0..pages.len()).rev().max_by_key(|&node| pages[node]).unwrap_or(0);
        Node(most as u8)
    }
}
