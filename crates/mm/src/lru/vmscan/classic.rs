//! Shrinking the classic lists.
//!
//! ```text
//!   inactive   head ... tail ─► isolate up to 32 ─► folio_list ─► freed, or head of inactive or active
//!   active     head ... tail ─► isolate up to 32 ─► head of inactive, as part of the working set
//! ```
//!
//! In the kernel: `prepare_scan_control`, `shrink_lruvec`, `isolate_lru_folios`, `shrink_inactive_list`,
//! `shrink_active_list` in mm/vmscan.c.

use super::ScanControl;
use super::policy::{
    self, BalanceState, ListsInTurn, SWAP_CLUSTER_MAX, SWAP_CLUSTER_MAX_SKIPPED, StatsFlush, inactive_is_low,
};
use crate::allocator::memory_map::ZoneType;
use crate::allocator::watermark::Mark;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, LruvecId};
use crate::lru::lruvec::LruList;
use crate::lru::memcontrol::Memcg;
use crate::lru::mmzone::LruType;
use machine::Node;

impl Kernel<'_> {
    /// Begins to shrink the lists of a lruvec by the number of pages that the priority asks for (`shrink_lruvec`).
    pub(in crate::lru) fn begin_lists(&mut self, lruvec: LruvecId, sc: &mut ScanControl) -> ListsInTurn {
        let targets = self.get_scan_count(lruvec, sc);
        let all_of_it = policy::scans_all_of_it(sc.is_for_cgroup(), sc.kswapd, sc.priority);
        ListsInTurn::new(targets, sc.nr_to_reclaim, all_of_it)
    }

    /// Makes a turn of the lists. Returns whether there may be another.
    pub(in crate::lru) fn step_lists(
        &mut self,
        lruvec: LruvecId,
        lists: &mut ListsInTurn,
        sc: &mut ScanControl,
    ) -> bool {
        if lists.turn(|list, scan| self.shrink_list(lruvec, list, scan, sc)) {
            return true;
        }
        sc.nr_reclaimed += lists.reclaimed();
        // Anonymous pages are aged even while swap is full, as it may have room later.
        let node = self.parts.lrus.lruvecs[lruvec].node;
        if self.can_age_anon(node) && self.parts.is_inactive_low(lruvec, LruType::Anon) {
            self.shrink_active_list(lruvec, LruList::ActiveAnon, SWAP_CLUSTER_MAX, sc);
        }
        false
    }

    fn shrink_list(&mut self, lruvec: LruvecId, list: LruList, scan: u64, sc: &mut ScanControl) -> u64 {
        if !list.is_active() {
            return self.shrink_inactive_list(lruvec, list, scan, sc);
        }
        if sc.may_deactivate[list.lru_type() as usize] {
            self.shrink_active_list(lruvec, list, scan, sc);
        } else {
            sc.skipped_deactivate = true;
        }
        0
    }

    /// Isolates folios of up to `scan` pages from the tail of a list (`isolate_lru_folios`). Returns them,
    /// and the number of pages looked at, with those of unwanted zones.
    fn isolate_lru_folios(
        &mut self,
        lruvec: LruvecId,
        list: LruList,
        scan: u64,
        sc: &ScanControl,
    ) -> (Vec<FolioId>, u64) {
        let mut taken = Vec::with_capacity(scan as usize);
        let mut skipped = Vec::new();
        let (mut looked_at, mut scanned, mut skipped_pages) = (0, 0, 0);
        let at = &mut self.parts.lrus.lruvecs[lruvec];
        let head = at.list(list);
        self.parts.lrus.folios.prefetch_tail(head);
        while scanned < scan
            && (skipped.len() as u64) < SWAP_CLUSTER_MAX_SKIPPED
            && let Some(id) = self.parts.lrus.folios.tail(head)
        {
            self.parts.lrus.folios.prefetch_next(head);
            let flags = self.parts.lrus.folios.flags[id];
            looked_at += 1;
            if flags.zone() > sc.highest as usize {
                self.parts.lrus.folios.remove(id);
                skipped.push(id);
                skipped_pages += flags.nr_pages();
                continue;
            }
            scanned += flags.nr_pages();
            if !flags.has(FolioFlags::LRU) {
                // It is in a batch of some CPU.
                self.parts.lrus.folios.move_to_head(head, id);
                continue;
            }
            at.remove(&mut self.parts.lrus.folios, id, true);
            self.parts.lrus.folios.flags[id].clear(FolioFlags::LRU);
            taken.push(id);
        }
        for &id in &skipped {
            self.parts.lrus.folios.push_head(head, id);
            let flags = self.parts.lrus.folios.flags[id];
            self.on.counters.add(skip_event(flags.zone()), flags.nr_pages());
        }
        let (at, on) = (&mut self.parts.lrus.lruvecs[lruvec], &mut self.on);
        at.lock.isolate_pages(on, looked_at, taken.len());
        (taken, scanned + skipped_pages)
    }

    fn shrink_inactive_list(
        &mut self,
        lruvec: LruvecId,
        list: LruList,
        scan: u64,
        sc: &mut ScanControl,
    ) -> u64 {
        self.lru_add_drain();
        let (mut folios, scanned) = self.isolate_lru_folios(lruvec, list, scan, sc);
        self.count_scanned(sc, list.lru_type(), scanned);
        if folios.is_empty() {
            return 0;
        }
        let taken = self.parts.lrus.pages_of(&folios);
        let outcome = self.shrink_folio_list(&mut folios, sc);
        self.hold_lru_lock(lruvec, folios.len());
        self.move_folios_to_lru(lruvec, &folios);
        self.count_reclaimed(sc, list.lru_type(), outcome.reclaimed);
        self.lru_note_cost(
            lruvec,
            list.lru_type(),
            outcome.written,
            scanned.saturating_sub(outcome.reclaimed),
        );
        if policy::is_all_dirty(outcome.unqueued_dirty, taken) {
            self.parts.page_cache.wakeup_flusher_threads();
        }
        outcome.reclaimed
    }

    /// Isolates folios from the tail of an active list and moves them to the inactive one, except for
    /// executable file folios that were referenced (`shrink_active_list`).
    pub(super) fn shrink_active_list(
        &mut self,
        lruvec: LruvecId,
        list: LruList,
        scan: u64,
        sc: &ScanControl,
    ) {
        self.lru_add_drain();
        let (folios, scanned) = self.isolate_lru_folios(lruvec, list, scan, sc);
        self.on.counters.add(Event::Pgrefill, scanned);
        let (mut active, mut inactive) = (Vec::new(), Vec::with_capacity(folios.len()));
        for id in folios {
            let referenced = self.folio_referenced(id).is_some_and(|young| !young.is_empty());
            let flags = &mut self.parts.lrus.folios.flags[id];
            if referenced && flags.has(FolioFlags::EXECUTABLE) && list.lru_type() == LruType::File {
                flags.set(FolioFlags::ACTIVE);
                active.push(id);
                continue;
            }
            flags.clear(FolioFlags::ACTIVE);
            flags.set(FolioFlags::WORKINGSET);
            inactive.push(id);
        }
        self.hold_lru_lock(lruvec, active.len() + inactive.len());
        self.move_folios_to_lru(lruvec, &active);
        self.move_folios_to_lru(lruvec, &inactive);
        self.on.counters.add(Event::Pgdeactivate, self.parts.lrus.pages_of(&inactive));
        self.lru_note_cost(lruvec, list.lru_type(), 0, self.parts.lrus.pages_of(&active));
    }

    /// Deactivates anonymous folios on behalf of kswapd, so that the inactive lists do not run empty
    /// (`age_active_anon`).
    pub(in crate::lru) fn age_active_anon(&mut self, node: Node, sc: &ScanControl) {
        let root = self.parts.lrus.lruvec_of(Memcg::ROOT, node);
        if !self.can_age_anon(node) || !self.parts.is_inactive_low(root, LruType::Anon) {
            return;
        }
        for memcg in self.parts.lrus.memcgs.tree(Memcg::ROOT) {
            let lruvec = self.parts.lrus.lruvec_of(memcg, node);
            self.shrink_active_list(lruvec, LruList::ActiveAnon, SWAP_CLUSTER_MAX, sc);
        }
    }

    /// Decides, for the target memcg and all below it, which types may be deactivated and whether file pages
    /// alone will do (`prepare_scan_control`).
    pub(in crate::lru) fn prepare_scan_control(&mut self, node: Node, sc: &mut ScanControl) {
        let now = self.on.machine.now(self.on.cpu);
        match policy::stats_flush(&self.on.features.reclaim) {
            StatsFlush::IfLate => self.parts.lrus.flush_stats_if_late(now),
            StatsFlush::IfMuchChanged => {
                self.parts.lrus.flush_stats_if_needed(now, self.on.machine.topology.cpus());
            }
        }
        let id = self.parts.lrus.lruvec_of(sc.target, node);
        let lruvec = &self.parts.lrus.lruvecs[id];
        sc.cost = lruvec.cost;
        let exact = self.parts.lrus.memcgs.len() == 1;
        let activated = if exact { lruvec.stat.activate } else { lruvec.flushed.activate };
        for lru_type in LruType::ALL {
            let refaulting = activated[lru_type as usize] != lruvec.refaults[lru_type as usize];
            sc.may_deactivate[lru_type as usize] =
                sc.force_deactivate || refaulting || self.parts.is_inactive_low(id, lru_type);
        }
        let [inactive_anon, _, inactive_file, active_file, _] = self.parts.lrus.lru_sizes(id);
        let file_may_be_deactivated = sc.may_deactivate[LruType::File as usize];
        sc.cache_trim_mode =
            inactive_file >> sc.priority > 0 && !file_may_be_deactivated && !sc.no_cache_trim_mode;
        if !sc.is_for_cgroup() {
            let free: u64 =
                self.parts.allocator.zones_of(node).map(|zone| zone.free_pages().max(0) as u64).sum();
            let high: u64 = self.parts.allocator.zones_of(node).map(|zone| zone.wmark(Mark::High)).sum();
            sc.file_is_tiny = inactive_file + active_file + free <= high
                && !sc.may_deactivate[LruType::Anon as usize]
                && inactive_anon >> sc.priority > 0;
        }
    }

    fn get_scan_count(&self, id: LruvecId, sc: &mut ScanControl) -> [u64; 4] {
        let lruvec = &self.parts.lrus.lruvecs[id];
        let balance = policy::scan_balance(&BalanceState {
            can_reclaim_anon: sc.may_swap && self.can_reclaim_anon(lruvec.memcg, lruvec.node),
            cgroup_reclaim: sc.is_for_cgroup(),
            swappiness: self.on.settings.swappiness,
            priority: sc.priority,
            file_is_tiny: sc.file_is_tiny,
            cache_trim_mode: sc.cache_trim_mode,
            cost: sc.cost,
        });
        let protection = self.parts.lrus.protection(lruvec.memcg, sc);
        let usage = self.parts.lrus.memcgs.get(lruvec.memcg).current;
        LruList::EVICTABLE.map(|list| {
            let unprotected = policy::unprotected(lruvec.size(list, sc.highest), protection, usage);
            policy::scan_count(balance, list.lru_type(), unprotected, sc.priority)
        })
    }

    /// Counts pages as scanned (`pgscan_*`).
    pub(crate) fn count_scanned(&mut self, sc: &ScanControl, lru_type: LruType, pages: u64) {
        if policy::counts_by_reclaimer(&self.on.features.reclaim, sc.is_for_cgroup()) {
            self.on.counters.add(if sc.kswapd { Event::PgscanKswapd } else { Event::PgscanDirect }, pages);
        }
        self.on.counters.add([Event::PgscanAnon, Event::PgscanFile][lru_type as usize], pages);
    }

    /// Counts pages as reclaimed (`pgsteal_*`).
    pub(crate) fn count_reclaimed(&mut self, sc: &ScanControl, lru_type: LruType, pages: u64) {
        if policy::counts_by_reclaimer(&self.on.features.reclaim, sc.is_for_cgroup()) {
            self.on.counters.add(if sc.kswapd { Event::PgstealKswapd } else { Event::PgstealDirect }, pages);
        }
        self.on.counters.add([Event::PgstealAnon, Event::PgstealFile][lru_type as usize], pages);
    }
}

impl Lrus {
    /// Sizes of a lruvec's lists as reclaim sees them: current if there are no memcgs, else those of the last
    /// flush.
    pub(super) fn lru_sizes(&self, lruvec: LruvecId) -> [u64; LruList::COUNT] {
        let lruvec = &self.lruvecs[lruvec];
        if self.memcgs.len() == 1 { lruvec.stat.nr_lru } else { lruvec.flushed.nr_lru }
    }

    /// What protects a memcg from the reclaim `sc`. Notes in `sc` if memory.low does.
    pub(crate) fn protection(&self, memcg: Memcg, sc: &mut ScanControl) -> Option<policy::Protection> {
        let low = self.memcgs.protection(memcg, sc.target, |group| group.low);
        let min = self.memcgs.protection(memcg, sc.target, |group| group.min);
        let protection = policy::protection(low, min, sc.memcg_low_reclaim);
        sc.memcg_low_skipped |= protection.is_some_and(|protection| protection.by_low);
        protection
    }

    pub(crate) fn pages_of(&self, folios: &[FolioId]) -> u64 {
        folios.iter().map(|&id| self.folios.flags[id].nr_pages()).sum()
    }
}

impl Parts {
    fn is_inactive_low(&self, lruvec: LruvecId, lru_type: LruType) -> bool {
        let sizes = self.lrus.lru_sizes(lruvec);
        let [inactive, active] =
            [LruList::inactive(lru_type), LruList::active(lru_type)].map(|list| sizes[list as usize]);
        inactive_is_low(self.allocator.page_size(), inactive, active)
    }
}

/// The counter of pages that were skipped because of their zone (`pgskip_*`).
pub(crate) fn skip_event(zone: usize) -> Event {
    [Event::PgskipDma, Event::PgskipDma32, Event::PgskipNormal, Event::PgskipMovable]
        [zone.min(ZoneType::COUNT - 1)]
}
