//! Eviction from the oldest generation.
//!
//! ```text
//!   tail of the oldest ─► sort ─┬─► promoted meanwhile, used too much, being written: to a younger list
//!                               └─► isolate, up to 64 pages ─► folio_list ─► freed; what stays must not be oldest
//! ```
//!
//! In the kernel: `lru_gen_shrink_lruvec`, `try_to_shrink_lruvec`, `evict_folios`, `scan_folios`, `isolate_folio` in
//! mm/vmscan.c.

use super::aging::{inc_gen, positions, tier_of, try_to_inc_min_seq};
use super::policy::{
    self, Evictable, MAX_LRU_BATCH, MIN_LRU_BATCH, Sorted, evictable_types, last_tier, should_run_aging,
    type_to_scan,
};
use crate::address_space::mlock;
use crate::allocator::memory_map::ZoneType;
use crate::allocator::watermark::Mark;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, LruvecId};
use crate::lru::lruvec::{GENS, Lruvec, generation};
use crate::lru::memcontrol::Memcg;
use crate::lru::mmzone::LruType;
use crate::lru::vmscan::features::{ActivateRule, EvictionLoop, FlusherRule, GenFeatures, RefsScheme};
use crate::lru::vmscan::policy::{DEF_PRIORITY, compact_gap, is_all_dirty, unprotected};
use crate::lru::vmscan::{ScanControl, skip_event};
use crate::lru::workingset::policy::folio_refs;

/// What a batch of eviction may take.
struct Batch<'a> {
    f: &'a GenFeatures,
    /// Which types, and which of them rather.
    swappiness: u64,
    /// How many folios it may look at.
    most: u64,
}

/// What one batch of eviction did.
struct Evicted {
    /// Pages looked at, or 0 if there is no point in going on.
    scanned: u64,
    /// Anonymous pages were among those isolated.
    swapped: bool,
}

impl Kernel<'_> {
    /// Reclaims from one lruvec on behalf of a group's limit, or of a node in 6.1.
    pub(crate) fn lru_gen_shrink_lruvec(&mut self, lruvec: LruvecId, f: GenFeatures, sc: &mut ScanControl) {
        self.lru_add_drain();
        sc.mm_walk = sc.kswapd;
        match f.eviction_loop {
            EvictionLoop::AgingApart => self.shrink_with_aging_apart(lruvec, &f, sc),
            EvictionLoop::AgingWithin | EvictionLoop::FixedAmount => {
                self.try_to_shrink_lruvec(lruvec, &f, sc);
            }
        }
    }

    /// 6.1: kswapd has aged before, others age here when they get desperate.
    fn shrink_with_aging_apart(&mut self, lruvec: LruvecId, f: &GenFeatures, sc: &mut ScanControl) {
        let before = sc.nr_reclaimed;
        let seq = self.parts.lrus.lruvecs[lruvec].generations.max_seq;
        let mut scanned = 0;
        let mut needs_aging;
        loop {
            let swappiness = self.swappiness(lruvec, sc);
            let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
            needs_aging = should_run_aging(f, &evictable);
            let mut aged = false;
            if needs_aging && sc.priority < DEF_PRIORITY {
                if sc.kswapd {
                    return;
                }
                aged = self.try_to_inc_max_seq(lruvec, f, swappiness, sc);
            }
            let wanted = evictable.total >> sc.priority;
            if wanted == 0 || needs_aging && !aged && evictable.is_out_of_cold() {
                return;
            }
            let batch = Batch { f, swappiness, most: MAX_LRU_BATCH };
            let evicted = self.evict_folios(lruvec, &batch, sc);
            if evicted.scanned == 0 {
                return;
            }
            scanned += evicted.scanned;
            if scanned >= wanted || self.parts.is_enough_of_6_1(lruvec, seq, evicted.swapped, sc) {
                break;
            }
        }
        if sc.nr_reclaimed - before >= MIN_LRU_BATCH && !needs_aging {
            sc.memcgs_need_aging = false;
        }
    }

    /// From 6.3 on; whether the group has been aged, so that its turn is over (`try_to_shrink_lruvec`).
    pub(super) fn try_to_shrink_lruvec(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        sc: &mut ScanControl,
    ) -> bool {
        let rotate = match f.eviction_loop {
            EvictionLoop::FixedAmount => self.shrink_fixed_amount(lruvec, f, sc),
            _ => self.shrink_by_priority(lruvec, f, sc),
        };
        if f.wakes_flushers == FlusherRule::AllTaken && is_all_dirty(sc.unqueued_dirty, sc.file_taken) {
            self.parts.page_cache.wakeup_flusher_threads();
        }
        rotate
    }

    /// Until 7.1: what the priority asks for is found anew before each batch.
    fn shrink_by_priority(&mut self, lruvec: LruvecId, f: &GenFeatures, sc: &mut ScanControl) -> bool {
        let swappiness = self.swappiness(lruvec, sc);
        let memcg = self.parts.lrus.lruvecs[lruvec].memcg;
        let mut scanned = 0;
        loop {
            if self.parts.lrus.is_below_min(memcg, sc.target) {
                return true;
            }
            let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
            let due = should_run_aging(f, &evictable);
            let mut total = if evictable.is_out_of_cold() { 0 } else { evictable.total };
            if f.scans_what_is_asked {
                total = self.parts.lrus.apply_proportional_protection(memcg, sc, total);
            }
            // Try to get away without aging at first.
            let wanted = if !due || sc.priority == DEF_PRIORITY {
                total >> sc.priority
            } else {
                return self.try_to_inc_max_seq(lruvec, f, swappiness, sc);
            };
            if wanted == 0 {
                return false;
            }
            let most = if f.scans_what_is_asked { wanted.min(MAX_LRU_BATCH) } else { MAX_LRU_BATCH };
            let batch = Batch { f, swappiness, most };
            let evicted = self.evict_folios(lruvec, &batch, sc);
            scanned += evicted.scanned;
            if evicted.scanned == 0 || scanned >= wanted || self.should_abort_scan(lruvec, f, sc) {
                return false;
            }
        }
    }

    /// 7.2: the amount is fixed first.
    fn shrink_fixed_amount(&mut self, lruvec: LruvecId, f: &GenFeatures, sc: &mut ScanControl) -> bool {
        let swappiness = self.swappiness(lruvec, sc);
        let memcg = self.parts.lrus.lruvecs[lruvec].memcg;
        let total = self.parts.lrus.evictable(lruvec, f, swappiness).total;
        let mut left = self.parts.lrus.apply_proportional_protection(memcg, sc, total) >> sc.priority;
        let mut rotate = false;
        while left > 0 {
            if self.parts.lrus.is_below_min(memcg, sc.target) {
                return true;
            }
            let mut aged = false;
            let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
            let generations = evictable.max_seq - evictable.min_seq;
            if generations < policy::MIN_NR_GENS
                || sc.priority != DEF_PRIORITY && generations == policy::MIN_NR_GENS
            {
                rotate |= self.try_to_inc_max_seq(lruvec, f, swappiness, sc);
                aged = true;
            }
            let batch = Batch { f, swappiness, most: left.min(MIN_LRU_BATCH) };
            let evicted = self.evict_folios(lruvec, &batch, sc);
            if evicted.scanned == 0 || self.should_abort_scan(lruvec, f, sc) || !sc.is_for_cgroup() && aged {
                break;
            }
            left = left.saturating_sub(evicted.scanned);
        }
        rotate
    }

    /// Evicts one batch.
    fn evict_folios(&mut self, id: LruvecId, batch: &Batch, sc: &mut ScanControl) -> Evicted {
        let Batch { f, swappiness, .. } = *batch;
        let fixed_amount = f.eviction_loop == EvictionLoop::FixedAmount;
        if fixed_amount {
            try_to_inc_min_seq(&self.parts.lrus.folios, &mut self.parts.lrus.lruvecs[id], f, swappiness);
        }
        let (mut folios, mut scanned, lru_type) = self.isolate_folios(id, batch, sc);
        let (lruvec, on) = (&mut self.parts.lrus.lruvecs[id], &mut self.on);
        lruvec.lock.isolate_pages(on, scanned, folios.len());
        let lruvec = &mut self.parts.lrus.lruvecs[id];
        if !fixed_amount || scanned > 0 {
            let moved = try_to_inc_min_seq(&self.parts.lrus.folios, lruvec, f, swappiness);
            if !fixed_amount {
                scanned += u64::from(moved);
                if self.parts.lrus.evictable(id, f, swappiness).is_out_of_cold() {
                    scanned = 0;
                }
            }
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
            if f.wakes_flushers == FlusherRule::AllIsolated
                && may_retry
                && is_all_dirty(outcome.unqueued_dirty, isolated)
            {
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
}

impl Kernel<'_> {
    /// `vm.swappiness` for a group; 0 where hardly anything could be swapped (`get_swappiness`).
    pub(super) fn swappiness(&self, lruvec: LruvecId, sc: &ScanControl) -> u64 {
        let &Lruvec { memcg, node, .. } = &self.parts.lrus.lruvecs[lruvec];
        let room = self.parts.lrus.memcgs.swap_margin(memcg, self.parts.swap.free()) >= MIN_LRU_BATCH
            || self.can_demote(node);
        if sc.may_swap && room { self.on.settings.swappiness } else { 0 }
    }

    /// Whether enough has been reclaimed from a node (`should_abort_scan`).
    pub(super) fn should_abort_scan(&self, lruvec: LruvecId, f: &GenFeatures, sc: &ScanControl) -> bool {
        let enough =
            sc.nr_reclaimed >= sc.nr_to_reclaim.max(compact_gap(&self.on.features.reclaim, sc.order));
        if sc.is_for_cgroup() {
            return f.stops_for_cgroups && enough;
        }
        if enough {
            return true;
        }
        // Before 6.7 only the amount counted.
        if !sc.kswapd || sc.order > 0 || !f.restores_refs {
            return false;
        }
        let node = self.parts.lrus.lruvecs[lruvec].node;
        let (margin, mark) = (MIN_LRU_BATCH as i64, self.kswapd_mark());
        self.parts
            .allocator
            .zones_of(node)
            .filter(|zone| zone.kind <= sc.highest)
            .all(|zone| zone.free_pages() >= zone.wmark(mark) as i64 + margin)
    }

    /// Isolates a batch of folios of one type; how many were looked at, and the type.
    fn isolate_folios(
        &mut self,
        id: LruvecId,
        batch: &Batch,
        sc: &mut ScanControl,
    ) -> (Vec<FolioId>, u64, LruType) {
        let Batch { f, swappiness, .. } = *batch;
        let lruvec = &self.parts.lrus.lruvecs[id];
        let tiers = positions(lruvec, f);
        let (mut lru_type, mut tier) = type_to_scan(f, swappiness, lruvec.generations.min_seq, true, &tiers);
        for _ in evictable_types(swappiness) {
            let last = tier.unwrap_or_else(|| last_tier(f, &tiers[lru_type as usize]));
            let (folios, scanned) = self.scan_folios(id, lru_type, last, batch, sc);
            if scanned > 0 {
                return (folios, scanned, lru_type);
            }
            lru_type = if lru_type == LruType::Anon { LruType::File } else { LruType::Anon };
            tier = None;
        }
        (Vec::new(), 0, lru_type)
    }

    /// Sorts what is at the tail of the oldest generation of a type and isolates what may go.
    fn scan_folios(
        &mut self,
        id: LruvecId,
        lru_type: LruType,
        last_tier: u8,
        batch: &Batch,
        sc: &mut ScanControl,
    ) -> (Vec<FolioId>, u64) {
        let Batch { f, most, .. } = *batch;
        let mut isolated = Vec::new();
        let generations = &self.parts.lrus.lruvecs[id].generations;
        if generations.count(lru_type) == policy::MIN_NR_GENS {
            return (isolated, 0);
        }
        let min_seq = generations.min_seq[lru_type as usize];
        // Folios looked at; all others count pages.
        let mut looked_at = 0;
        let (mut scanned, mut sorted, mut taken) = (0, 0, 0);
        for i in 0..ZoneType::COUNT {
            // From the highest wanted zone down, then those above it.
            let zone = (sc.highest as usize + ZoneType::COUNT - i) % ZoneType::COUNT;
            let list = self.parts.lrus.lruvecs[id].generations.list(min_seq, lru_type, zone);
            let mut skipped = Vec::new();
            let mut passed_over = 0;
            self.parts.lrus.folios.prefetch_tail(list);
            while looked_at < most
                && taken.max(passed_over) < MIN_LRU_BATCH
                && let Some(folio) = self.parts.lrus.folios.tail(list)
            {
                self.parts.lrus.folios.prefetch_next(list);
                let pages = self.parts.lrus.folios.flags[folio].nr_pages();
                looked_at += 1;
                scanned += pages;
                if self.sort_folio(id, f, folio, last_tier, sc) {
                    sorted += pages;
                    continue;
                }
                let flags = &mut self.parts.lrus.folios.flags[folio];
                if !flags.has(FolioFlags::LRU) {
                    // A batch of another CPU has it.
                    self.parts.lrus.folios.remove(folio);
                    skipped.push(folio);
                    passed_over += pages;
                    continue;
                }
                if !flags.has(FolioFlags::REFERENCED) {
                    flags.set_refs(0);
                    if f.refs_scheme == RefsScheme::WorkingsetCounts {
                        flags.clear(FolioFlags::WORKINGSET);
                    }
                }
                flags.clear(FolioFlags::RECLAIM | FolioFlags::LRU);
                if f.refs_scheme == RefsScheme::WorkingsetCounts {
                    flags.clear(FolioFlags::REFERENCED);
                }
                self.parts.lrus.lruvecs[id].remove(&mut self.parts.lrus.folios, folio, true);
                isolated.push(folio);
                taken += pages;
            }
            for &folio in &skipped {
                self.parts.lrus.folios.push_head(list, folio);
            }
            self.on.counters.add(skip_event(zone), passed_over);
            if looked_at == most || taken >= MIN_LRU_BATCH {
                break;
            }
        }
        self.on.counters.add(Event::Pgrefill, sorted);
        self.count_scanned(sc, lru_type, taken);
        let exhausted = looked_at == most;
        let counts = !isolated.is_empty() || exhausted || f.eviction_loop == EvictionLoop::FixedAmount;
        (isolated, if counts { scanned } else { 0 })
    }

    /// Moves a folio that must not go to where it belongs; whether it was one.
    fn sort_folio(
        &mut self,
        id: LruvecId,
        f: &GenFeatures,
        folio: FolioId,
        last_tier: u8,
        sc: &mut ScanControl,
    ) -> bool {
        let lruvec = &mut self.parts.lrus.lruvecs[id];
        let flags = self.parts.lrus.folios.flags[folio];
        if flags.has(FolioFlags::MLOCKED | FolioFlags::LRU) {
            lruvec.remove(&mut self.parts.lrus.folios, folio, true);
            mlock::cull(&mut self.parts.lrus.folios.flags[folio], self.on.counters);
            lruvec.add(&mut self.parts.lrus.folios, Some(f), folio, false);
            return true;
        }
        let lru_type = crate::lru::lruvec::type_of(flags);
        let oldest = generation(lruvec.generations.min_seq[lru_type as usize]);
        let refs = folio_refs(f, policy::folio_use(flags));
        let tier = tier_of(f, flags);
        let eligible = flags.zone() <= sc.highest as usize;
        let zone = flags.zone();
        match policy::sort(f, flags, oldest, refs, tier, last_tier, eligible) {
            Sorted::Evictable => return false,
            Sorted::Promoted => {
                let current = flags.generation().unwrap_or(oldest) % GENS;
                self.parts
                    .lrus
                    .folios
                    .move_to_head(lruvec.generations.list_of(current, lru_type, zone), folio);
            }
            Sorted::Protected(counts) => {
                let next = inc_gen(&mut self.parts.lrus.folios, lruvec, f, folio, false);
                let list = lruvec.generations.list_of(next, lru_type, zone);
                match f.types_apart {
                    true => self.parts.lrus.folios.move_to_head(list, folio),
                    false => self.parts.lrus.folios.move_to_tail(list, folio),
                }
                if counts {
                    lruvec.generations.protected[lru_type as usize][tier as usize] += flags.nr_pages();
                }
                if f.activate_rule == ActivateRule::OnProtection {
                    lruvec.count(|stat| &mut stat.activate, lru_type, flags.nr_pages());
                    let event = [Event::WorkingsetActivateAnon, Event::WorkingsetActivateFile];
                    self.on.counters.add(event[lru_type as usize], flags.nr_pages());
                }
            }
            Sorted::Ineligible => {
                let next = inc_gen(&mut self.parts.lrus.folios, lruvec, f, folio, false);
                self.parts.lrus.folios.move_to_tail(lruvec.generations.list_of(next, lru_type, zone), folio);
            }
            Sorted::Writeback => {
                if flags.has(FolioFlags::DIRTY) && lru_type == LruType::File {
                    sc.file_taken += flags.nr_pages();
                    let nobody_writes = !flags.has(FolioFlags::WRITEBACK);
                    sc.unqueued_dirty += if nobody_writes { flags.nr_pages() } else { 0 };
                }
                let next = inc_gen(&mut self.parts.lrus.folios, lruvec, f, folio, true);
                self.parts.lrus.folios.move_to_head(lruvec.generations.list_of(next, lru_type, zone), folio);
            }
        }
        true
    }
}

impl Lrus {
    /// Sizes of the generations that can be evicted with this swappiness.
    pub(crate) fn evictable(&self, lruvec: LruvecId, f: &GenFeatures, swappiness: u64) -> Evictable {
        let generations = &self.lruvecs[lruvec].generations;
        let types = evictable_types(swappiness);
        let mut evictable = Evictable { max_seq: generations.max_seq, ..Evictable::default() };
        // Before 6.14 anonymous pages are never younger than files where both can be evicted.
        let oldest = |lru_type: &LruType| generations.min_seq[*lru_type as usize];
        evictable.min_seq = match f.types_apart {
            true => types.iter().map(oldest).min().unwrap_or_default(),
            false => oldest(&types[0]),
        };
        for &lru_type in types {
            for seq in oldest(&lru_type)..=generations.max_seq {
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

    /// What may be scanned of `total` pages of a group at priority 0, less what memory.low or memory.min protects.
    fn apply_proportional_protection(&self, memcg: Memcg, sc: &mut ScanControl, total: u64) -> u64 {
        unprotected(total, self.protection(memcg, sc), self.memcgs.get(memcg).current)
    }

    /// Makes sure that what could not be freed does not end up in the oldest generation again. Takes from `folios` and
    /// returns what a second try may free: it may have been written since it was isolated.
    fn place_survivors(
        &mut self,
        lruvec: LruvecId,
        f: &GenFeatures,
        lru_type: LruType,
        folios: &mut Vec<FolioId>,
        may_retry: bool,
    ) -> Vec<FolioId> {
        let generations = &self.lruvecs[lruvec].generations;
        let (max_seq, min_seq) = (generations.max_seq, generations.min_seq[lru_type as usize]);
        let written = FolioFlags::DIRTY | FolioFlags::WRITEBACK;
        let mut clean = Vec::new();
        folios.retain(|&id| {
            let mapped = self.folios[id].mapcount > 0;
            let flags = &mut self.folios.flags[id];
            if f.types_apart {
                if may_retry && !flags.any(FolioFlags::ACTIVE | written) && !mapped {
                    clean.push(id);
                    return false;
                }
                if policy::placement(f, *flags, max_seq, min_seq, false) == min_seq {
                    flags.clear(FolioFlags::REFERENCED);
                    flags.set_refs(0);
                    flags.set(FolioFlags::ACTIVE);
                }
                return true;
            }
            if flags.has(FolioFlags::RECLAIM) && flags.any(written) {
                // What isolation cleared.
                if flags.has(FolioFlags::WORKINGSET) {
                    flags.set(FolioFlags::REFERENCED);
                }
                return true;
            }
            let used = FolioFlags::ACTIVE | FolioFlags::REFERENCED | FolioFlags::LOCKED;
            if !may_retry || flags.any(used | written) || mapped {
                flags.clear(FolioFlags::REFERENCED | FolioFlags::WORKINGSET);
                flags.set_refs(0);
                flags.set(FolioFlags::ACTIVE);
                return true;
            }
            clean.push(id);
            false
        });
        clean
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
