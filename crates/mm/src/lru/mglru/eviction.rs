//! Eviction from the oldest generation.
//!
//! ```text
//!   tail of the oldest ─► sort ─┬─► promoted, of a protected tier, under writeback: to a younger list
//!                               └─► isolate, up to 64 pages ─► folio_list ─► freed, or to a younger list
//! ```
//!
//! In the kernel: `lru_gen_shrink_lruvec`, `try_to_shrink_lruvec`, `evict_folios`, `scan_folios`,
//! `isolate_folio` in mm/vmscan.c.

use super::aging::{inc_gen, positions, tier_of, try_to_inc_min_seq};
use super::policy::{
    self, Abort, Aging, AtTail, Due, Evictable, MAX_LRU_BATCH, MIN_LRU_BATCH, Protection, Round, Sorted,
    Survivor, evictable_types,
};
use crate::address_space::mlock;
use crate::allocator::memory_map::ZoneType;
use crate::allocator::watermark::Mark;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, ListEnd, ListHead, LruvecId};
use crate::lru::lruvec::{GENS, Lruvec, generation, type_of};
use crate::lru::memcontrol::Memcg;
use crate::lru::mmzone::LruType;
use crate::lru::vmscan::features::{GenFeatures, Lru};
use crate::lru::vmscan::policy::{DEF_PRIORITY, compact_gap, unprotected};
use crate::lru::vmscan::{ScanControl, skip_event};
use crate::lru::workingset::policy::folio_refs;
use std::ops::ControlFlow;

/// Eviction from one lruvec, batch by batch.
#[derive(Clone, Debug)]
pub(in crate::lru) struct Eviction {
    /// Which types may be evicted, from 6.3 on.
    swappiness: u64,
    /// The youngest generation when it began.
    seq: u64,
    /// Pages that the reclaim had reclaimed then.
    before: u64,
    /// Pages looked at.
    scanned: u64,
    /// Pages still to be looked at, in 7.2.
    left: u64,
    /// Whether the lruvec has been aged, in 7.2.
    aged: bool,
}

/// The limits of one batch of eviction.
struct Batch<'a> {
    f: &'a GenFeatures,
    /// Which types may be evicted, and which of them is preferred (`vm.swappiness`).
    swappiness: u64,
    /// How many folios the batch may look at.
    most: u64,
}

/// Progress of a batch in one type. `looked_at` counts folios, all other counters pages.
#[derive(Default)]
struct Scan {
    /// The last tier that may be evicted.
    last_tier: u8,
    looked_at: u64,
    scanned: u64,
    /// Pages moved to younger generations.
    sorted: u64,
    /// Pages of the folios isolated.
    taken: u64,
    isolated: Vec<FolioId>,
}

/// What one batch of eviction did.
struct Evicted {
    /// Pages looked at, or 0 if there is no point in going on.
    scanned: u64,
    /// Whether anonymous pages were isolated.
    swapped: bool,
}

impl Kernel<'_> {
    /// Begins to reclaim from one lruvec (`try_to_shrink_lruvec`).
    pub(in crate::lru) fn begin_eviction(
        &self,
        lruvec: LruvecId,
        f: &GenFeatures,
        sc: &mut ScanControl,
    ) -> Eviction {
        let swappiness = self.swappiness(lruvec, sc);
        let left = match policy::aging(f) {
            Aging::BeforeEviction | Aging::InPlaceOfEviction => 0,
            Aging::BetweenBatches => {
                let memcg = self.parts.lrus.lruvecs[lruvec].memcg;
                let total = self.parts.lrus.evictable(lruvec, f, swappiness).total;
                self.parts.lrus.apply_proportional_protection(memcg, sc, total) >> sc.priority
            }
        };
        let seq = self.parts.lrus.lruvecs[lruvec].generations.max_seq;
        Eviction { swappiness, seq, before: sc.nr_reclaimed, scanned: 0, left, aged: false }
    }

    /// Evicts a batch. Breaks when there is nothing more to do, with whether the lruvec has been aged, which ends the turn of its memcg.
    pub(in crate::lru) fn step_eviction(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        eviction: &mut Eviction,
        sc: &mut ScanControl,
    ) -> ControlFlow<bool> {
        let step = match policy::aging(f) {
            Aging::BeforeEviction => self.step_with_aging_apart(lruvec, f, eviction, sc),
            Aging::InPlaceOfEviction => self.step_by_priority(lruvec, f, eviction, sc),
            Aging::BetweenBatches => self.step_of_fixed_amount(lruvec, f, eviction, sc),
        };
        if step.is_break() && policy::wakes_flushers_after_lruvec(f, sc.unqueued_dirty, sc.file_taken) {
            self.parts.page_cache.wakeup_flusher_threads();
        }
        step
    }

    /// The loop of 6.1: kswapd has aged the lruvecs before, direct reclaim ages here once its priority has
    /// dropped. Memcgs have no turns in 6.1 that could end.
    fn step_with_aging_apart(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        eviction: &mut Eviction,
        sc: &mut ScanControl,
    ) -> ControlFlow<bool> {
        let swappiness = self.swappiness(lruvec, sc);
        let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
        let due = self.due(lruvec, f, &evictable, swappiness);
        let (priority, kswapd) = (sc.priority, sc.kswapd);
        let age = || self.try_to_inc_max_seq(lruvec, f, swappiness, sc);
        let has_cold = !evictable.is_out_of_cold();
        let wanted = policy::wanted_with_aging_apart(due, has_cold, priority, kswapd, age);
        if wanted == 0 {
            return ControlFlow::Break(false);
        }
        let evicted = self.evict_folios(lruvec, &Batch { f, swappiness, most: MAX_LRU_BATCH }, sc);
        if evicted.scanned == 0 {
            return ControlFlow::Break(false);
        }
        eviction.scanned += evicted.scanned;
        if eviction.scanned < wanted
            && !self.parts.is_enough_of_6_1(lruvec, eviction.seq, evicted.swapped, sc)
        {
            return ControlFlow::Continue(());
        }
        if sc.nr_reclaimed - eviction.before >= MIN_LRU_BATCH && !due.aging {
            sc.memcgs_need_aging = false;
        }
        ControlFlow::Break(false)
    }

    /// The loop of 6.3 to 7.1: before each batch, the number of pages to scan is computed anew from the
    /// priority.
    fn step_by_priority(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        eviction: &mut Eviction,
        sc: &mut ScanControl,
    ) -> ControlFlow<bool> {
        let swappiness = eviction.swappiness;
        let memcg = self.parts.lrus.lruvecs[lruvec].memcg;
        if self.parts.lrus.is_below_min(memcg, sc.target) {
            return ControlFlow::Break(true);
        }
        let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
        let due = self.due(lruvec, f, &evictable, swappiness);
        let priority = sc.priority;
        let unprotected = |total| self.parts.lrus.apply_proportional_protection(memcg, sc, total);
        let (wanted, most) = match policy::round(f, due, priority, unprotected) {
            Round::Done => return ControlFlow::Break(false),
            Round::Age => return ControlFlow::Break(self.try_to_inc_max_seq(lruvec, f, swappiness, sc)),
            Round::Evict { wanted, most } => (wanted, most),
        };
        let evicted = self.evict_folios(lruvec, &Batch { f, swappiness, most }, sc);
        eviction.scanned += evicted.scanned;
        if evicted.scanned == 0 || eviction.scanned >= wanted || self.should_abort_scan(lruvec, f, sc) {
            return ControlFlow::Break(false);
        }
        ControlFlow::Continue(())
    }

    /// The loop of 7.2: the number of pages to scan is computed once, at the beginning.
    fn step_of_fixed_amount(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        eviction: &mut Eviction,
        sc: &mut ScanControl,
    ) -> ControlFlow<bool> {
        if eviction.left == 0 {
            return ControlFlow::Break(eviction.aged);
        }
        let swappiness = eviction.swappiness;
        if self.parts.lrus.is_below_min(self.parts.lrus.lruvecs[lruvec].memcg, sc.target) {
            return ControlFlow::Break(true);
        }
        let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
        let ages = policy::ages_between_batches(&evictable, sc.priority);
        if ages {
            eviction.aged |= self.try_to_inc_max_seq(lruvec, f, swappiness, sc);
        }
        let batch = Batch { f, swappiness, most: eviction.left.min(MIN_LRU_BATCH) };
        let evicted = self.evict_folios(lruvec, &batch, sc);
        if evicted.scanned == 0 || self.should_abort_scan(lruvec, f, sc) || !sc.is_for_cgroup() && ages {
            return ControlFlow::Break(eviction.aged);
        }
        eviction.left = eviction.left.saturating_sub(evicted.scanned);
        ControlFlow::Continue(())
    }

    /// Isolates and evicts one batch (`evict_folios`).
    fn evict_folios(&mut self, id: LruvecId, batch: &Batch, sc: &mut ScanControl) -> Evicted {
        let Batch { f, swappiness, .. } = *batch;
        let passes_first = policy::passes_over_empty_first(f);
        if passes_first {
            try_to_inc_min_seq(&self.parts.lrus.folios, &mut self.parts.lrus.lruvecs[id], f, swappiness);
        }
        let (mut folios, mut scanned, lru_type) = self.isolate_folios(id, batch, sc);
        let (lruvec, on) = (&mut self.parts.lrus.lruvecs[id], &mut self.on);
        lruvec.lock.isolate_pages(on, scanned, folios.len());
        let lruvec = &mut self.parts.lrus.lruvecs[id];
        if !passes_first || scanned > 0 {
            let moved = try_to_inc_min_seq(&self.parts.lrus.folios, lruvec, f, swappiness);
            let is_out_of_cold = || self.parts.lrus.evictable(id, f, swappiness).is_out_of_cold();
            scanned = policy::progress(f, scanned, moved, is_out_of_cold);
        }
        let swapped = lru_type == LruType::Anon && !folios.is_empty();
        let isolated = self.parts.lrus.pages_of(&folios);
        if lru_type == LruType::File {
            sc.file_taken += isolated;
        }
        let mut may_retry = true;
        while !folios.is_empty() {
            let outcome = self.shrink_folio_list(&mut folios, sc);
            sc.nr_reclaimed += outcome.reclaimed;
            sc.unqueued_dirty += outcome.unqueued_dirty;
            if may_retry && policy::wakes_flushers_after_batch(f, outcome.unqueued_dirty, isolated) {
                self.parts.page_cache.wakeup_flusher_threads();
            }
            self.count_reclaimed(sc, lru_type, outcome.reclaimed);
            let clean = self.parts.lrus.place_survivors(id, f, lru_type, &mut folios, may_retry);
            self.hold_lru_lock(id, folios.len());
            self.move_folios_to_lru(id, &folios);
            folios = clean;
            may_retry = false;
        }
        Evicted { scanned, swapped }
    }

    /// What the generations of a lruvec call for.
    pub(super) fn due(
        &self,
        lruvec: LruvecId,
        f: &GenFeatures,
        evictable: &Evictable,
        swappiness: u64,
    ) -> Due {
        let generations = &self.parts.lrus.lruvecs[lruvec].generations;
        self.on.decisions.lru_gen.due(f, evictable, generations, swappiness)
    }

    /// `vm.swappiness` for a memcg, or 0 if there is hardly any swap for it to use (`get_swappiness`).
    pub(super) fn swappiness(&self, lruvec: LruvecId, sc: &ScanControl) -> u64 {
        let &Lruvec { memcg, node, .. } = &self.parts.lrus.lruvecs[lruvec];
        let room = self.parts.lrus.memcgs.swap_margin(memcg, self.parts.swap.free()) >= MIN_LRU_BATCH
            || self.can_demote(node);
        if sc.may_swap && room { self.on.settings.swappiness } else { 0 }
    }

    /// Whether reclaim has enough and leaves the lruvec (`should_abort_scan`).
    pub(super) fn should_abort_scan(&self, lruvec: LruvecId, f: &GenFeatures, sc: &ScanControl) -> bool {
        let enough =
            sc.nr_reclaimed >= sc.nr_to_reclaim.max(compact_gap(&self.on.features.reclaim, sc.order));
        let kswapd_for_pages = sc.kswapd && sc.order == 0;
        match policy::should_abort_scan(f, enough, sc.is_for_cgroup(), kswapd_for_pages) {
            Abort::Yes => return true,
            Abort::No => return false,
            Abort::IfAboveWatermarks => {}
        }
        let node = self.parts.lrus.lruvecs[lruvec].node;
        let (margin, mark) = (MIN_LRU_BATCH as i64, self.kswapd_mark());
        self.parts
            .allocator
            .zones_of(node)
            .filter(|zone| zone.kind <= sc.highest)
            .all(|zone| zone.free_pages() >= zone.wmark(mark) as i64 + margin)
    }

    /// Isolates a batch of folios of one type (`isolate_folios`). Returns them, the number of pages looked
    /// at, and the type.
    fn isolate_folios(
        &mut self,
        id: LruvecId,
        batch: &Batch,
        sc: &mut ScanControl,
    ) -> (Vec<FolioId>, u64, LruType) {
        let Batch { f, swappiness, .. } = *batch;
        let lruvec = &self.parts.lrus.lruvecs[id];
        let tiers = positions(lruvec);
        let decisions = &self.on.decisions.lru_gen;
        let (mut lru_type, mut tier) =
            decisions.type_to_scan(f, swappiness, lruvec.generations.min_seq, &tiers);
        for _ in evictable_types(swappiness) {
            let last = tier.unwrap_or_else(|| decisions.last_tier(f, lru_type, &tiers));
            let (folios, scanned) = self.scan_folios(id, lru_type, last, batch, sc);
            if scanned > 0 {
                return (folios, scanned, lru_type);
            }
            lru_type = if lru_type == LruType::Anon { LruType::File } else { LruType::Anon };
            tier = None;
        }
        (Vec::new(), 0, lru_type)
    }

    /// Sorts the folios at the tail of the oldest generation of a type, and isolates those that may be
    /// evicted (`scan_folios`). Returns these, and the number of pages that count as scanned.
    fn scan_folios(
        &mut self,
        id: LruvecId,
        lru_type: LruType,
        last_tier: u8,
        batch: &Batch,
        sc: &mut ScanControl,
    ) -> (Vec<FolioId>, u64) {
        let generations = &self.parts.lrus.lruvecs[id].generations;
        let mut scan = Scan { last_tier, ..Scan::default() };
        if generations.count(lru_type) == policy::MIN_NR_GENS {
            return (scan.isolated, 0);
        }
        let min_seq = generations.min_seq[lru_type as usize];
        for i in 0..ZoneType::COUNT {
            // From the highest zone that is wanted down, then the zones above it.
            let zone = (sc.highest as usize + ZoneType::COUNT - i) % ZoneType::COUNT;
            let list = self.parts.lrus.lruvecs[id].generations.list(min_seq, lru_type, zone);
            let passed_over = self.scan_list(id, list, &mut scan, batch, sc);
            self.on.counters.add(skip_event(zone), passed_over);
            if scan.looked_at == batch.most || scan.taken >= MIN_LRU_BATCH {
                break;
            }
        }
        self.on.counters.add(Event::Pgrefill, scan.sorted);
        self.count_scanned(sc, lru_type, scan.taken);
        let (some, exhausted) = (!scan.isolated.is_empty(), scan.looked_at == batch.most);
        let scanned = policy::pages_that_count(batch.f, scan.scanned, some, exhausted);
        (scan.isolated, scanned)
    }

    /// Like `scan_folios`, but for the list of one zone. Returns the number of pages that stay where they
    /// are, as a batch holds them.
    fn scan_list(
        &mut self,
        id: LruvecId,
        list: ListHead,
        scan: &mut Scan,
        batch: &Batch,
        sc: &mut ScanControl,
    ) -> u64 {
        let Batch { f, most, .. } = *batch;
        let mut skipped = Vec::new();
        let mut passed_over = 0;
        self.parts.lrus.folios.prefetch_tail(list);
        while scan.looked_at < most
            && scan.taken.max(passed_over) < MIN_LRU_BATCH
            && let Some(folio) = self.parts.lrus.folios.tail(list)
        {
            self.parts.lrus.folios.prefetch_next(list);
            let pages = self.parts.lrus.folios.flags[folio].nr_pages();
            scan.looked_at += 1;
            scan.scanned += pages;
            if self.sort_folio(id, f, folio, scan.last_tier, sc) {
                scan.sorted += pages;
                continue;
            }
            let flags = &mut self.parts.lrus.folios.flags[folio];
            if !flags.has(FolioFlags::LRU) {
                // It is in a batch of another CPU.
                self.parts.lrus.folios.remove(folio);
                skipped.push(folio);
                passed_over += pages;
                continue;
            }
            policy::isolate(f, flags);
            self.parts.lrus.lruvecs[id].remove(&mut self.parts.lrus.folios, folio, true);
            scan.isolated.push(folio);
            scan.taken += pages;
        }
        for &folio in &skipped {
            self.parts.lrus.folios.push_head(list, folio);
        }
        passed_over
    }

    /// Moves a folio that must not be evicted to the generation where it belongs (`sort_folio`). Returns
    /// whether it was one.
    fn sort_folio(
        &mut self,
        id: LruvecId,
        f: &GenFeatures,
        folio: FolioId,
        last_tier: u8,
        sc: &mut ScanControl,
    ) -> bool {
        let lruvec = &mut self.parts.lrus.lruvecs[id];
        let folios = &mut self.parts.lrus.folios;
        let flags = folios.flags[folio];
        if flags.has(FolioFlags::MLOCKED | FolioFlags::LRU) {
            lruvec.remove(folios, folio, true);
            mlock::cull(&mut folios.flags[folio], self.on.counters);
            lruvec.add(folios, &Lru::MultiGen(*f), folio, ListEnd::Head);
            return true;
        }
        let lru_type = type_of(flags);
        let oldest = generation(lruvec.generations.min_seq[lru_type as usize]);
        let refs = folio_refs(f, policy::folio_use(flags));
        let tier = tier_of(f, flags);
        let eligible = flags.zone() <= sc.highest as usize;
        let (generation, end) =
            match policy::sort(f, &AtTail { flags, oldest, refs, tier, eligible }, last_tier) {
                Sorted::Evictable => return false,
                Sorted::Promoted => (flags.generation().unwrap_or(oldest) % GENS, ListEnd::Head),
                Sorted::Protected(protection) => {
                    let next = inc_gen(folios, lruvec, f, folio);
                    self.note_protection(id, flags, tier, &protection);
                    (next, protection.end)
                }
                Sorted::Ineligible => (inc_gen(folios, lruvec, f, folio), ListEnd::Tail),
                Sorted::Writeback => {
                    sc.note_moved_on(flags);
                    let next = inc_gen(folios, lruvec, f, folio);
                    folios.flags[folio].set(FolioFlags::RECLAIM);
                    (next, ListEnd::Head)
                }
            };
        let list = self.parts.lrus.lruvecs[id].generations.list_of(generation, lru_type, flags.zone());
        self.parts.lrus.folios.move_to(list, folio, end);
        true
    }

    /// Counts the pages of a folio with these flags that is kept although it was in the oldest generation.
    fn note_protection(&mut self, id: LruvecId, flags: FolioFlags, tier: u8, protection: &Protection) {
        let (lruvec, lru_type) = (&mut self.parts.lrus.lruvecs[id], type_of(flags));
        if protection.counted {
            lruvec.generations.protected[lru_type as usize][tier as usize] += flags.nr_pages();
        }
        if protection.activates {
            lruvec.count(|stat| &mut stat.activate, lru_type, flags.nr_pages());
            let event = [Event::WorkingsetActivateAnon, Event::WorkingsetActivateFile];
            self.on.counters.add(event[lru_type as usize], flags.nr_pages());
        }
    }
}

impl Lrus {
    /// Sizes of the generations that can be evicted at this swappiness.
    pub(crate) fn evictable(&self, lruvec: LruvecId, f: &GenFeatures, swappiness: u64) -> Evictable {
        let generations = &self.lruvecs[lruvec].generations;
        let types = evictable_types(swappiness);
        let mut evictable = Evictable { max_seq: generations.max_seq, ..Evictable::default() };
        evictable.min_seq = policy::oldest_evictable(f, types, generations.min_seq);
        for &lru_type in types {
            for seq in generations.min_seq[lru_type as usize]..=generations.max_seq {
                let pages = generations.size(seq, lru_type);
                evictable.total += pages;
                if seq == generations.max_seq {
                    evictable.young += pages;
                } else if seq + policy::MIN_NR_GENS == generations.max_seq {
                    evictable.old += pages;
                }
            }
        }
        evictable
    }

    /// Pages of `total` that may be scanned at priority 0: those of a memcg that memory.low or memory.min
    /// protects do not count.
    fn apply_proportional_protection(&self, memcg: Memcg, sc: &mut ScanControl, total: u64) -> u64 {
        unprotected(total, self.protection(memcg, sc), self.memcgs.get(memcg).current)
    }

    /// Keeps folios that could not be freed out of the oldest generation. Removes from `folios`, and returns,
    /// those that are worth a second try, as they may have become clean since they were isolated.
    fn place_survivors(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        lru_type: LruType,
        folios: &mut Vec<FolioId>,
        may_retry: bool,
    ) -> Vec<FolioId> {
        let generations = &self.lruvecs[lruvec].generations;
        let seqs = (generations.min_seq[lru_type as usize], generations.max_seq);
        let mut clean = Vec::new();
        folios.retain(|&id| {
            let mapped = self.folios[id].mapcount > 0;
            match policy::survivor(f, &mut self.folios.flags[id], mapped, may_retry, seqs) {
                Survivor::Kept => true,
                Survivor::Clean => {
                    clean.push(id);
                    false
                }
            }
        });
        clean
    }
}

impl ScanControl {
    /// Counts a folio with these flags that was not isolated because it has to be written first.
    fn note_moved_on(&mut self, flags: FolioFlags) {
        if flags.has(FolioFlags::DIRTY) && type_of(flags) == LruType::File {
            self.file_taken += flags.nr_pages();
            let nobody_writes = !flags.has(FolioFlags::WRITEBACK);
            self.unqueued_dirty += if nobody_writes { flags.nr_pages() } else { 0 };
        }
    }
}

impl Parts {
    fn is_enough_of_6_1(&mut self, lruvec: LruvecId, seq: u64, swapped: bool, sc: &mut ScanControl) -> bool {
        let at = &self.lrus.lruvecs[lruvec];
        if at.generations.max_seq - seq > 1 || sc.nr_reclaimed >= sc.nr_to_reclaim && swapped {
            return true;
        }
        if sc.is_for_cgroup() || sc.priority > DEF_PRIORITY - 2 {
            return false;
        }
        let mark = if sc.kswapd { Mark::High } else { Mark::Low };
        let short = self
            .allocator
            .zones_of(at.node)
            .any(|zone| zone.kind <= sc.highest && zone.wmark(mark) as i64 > zone.free_pages());
        if !short {
            sc.nr_reclaimed += MIN_LRU_BATCH;
        }
        !short
    }
}
