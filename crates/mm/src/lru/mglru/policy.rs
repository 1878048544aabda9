//! What the multi-gen LRU decides.
//!
//! ```text
//!   insertion    flags of a folio ─► which generation        tail of the oldest ─► sort: elsewhere, or out
//!   feedback     refaults / evictions of each tier, against those of the first ─► the last tier that may go
//!   aging        how full the generations are ─► is a new one due?
//! ```
//!
//! Pure functions. In the kernel: `lru_gen_folio_seq` in include/linux/mm_inline.h; `positive_ctrl_err`,
//! `get_tier_idx`, `get_type_to_scan`, `sort_folio`, `should_run_aging`, `folio_inc_gen` in mm/vmscan.c.

use crate::lru::folio::{FolioFlags, ListEnd};
use crate::lru::lruvec::TIERS;
use crate::lru::mmzone::{LRU_REFS_WIDTH, LruType, MAX_NR_GENS};
use crate::lru::vmscan::features::{
    ActivateRule, EvictionLoop, FlusherRule, GenFeatures, Placement, RefsScheme,
};
use crate::lru::vmscan::policy::{DEF_PRIORITY, is_all_dirty, mapped_access};
use crate::lru::workingset::policy::{FolioUse, TierCounts, folio_refs};

/// Generations that are never evicted from (`MIN_NR_GENS`).
pub const MIN_NR_GENS: u64 = 2;
/// Pages of a batch of eviction, and the least of them that feedback trusts (`MIN_LRU_BATCH`, on 64-bit).
pub const MIN_LRU_BATCH: u64 = 64;
/// Folios that a batch looks at (`MAX_LRU_BATCH`).
pub const MAX_LRU_BATCH: u64 = 4096;
/// The largest value of `vm.swappiness` (`MAX_SWAPPINESS`).
pub const MAX_SWAPPINESS: u64 = 200;

/// The number of accesses that promotes a folio to the next generation each time its turn comes: as many as the
/// flags can count.
const ALL_REFS: u8 = 1 << LRU_REFS_WIDTH;

/// The generation that a folio enters, at this end of its list (`lru_gen_folio_seq`).
pub fn placement(f: &GenFeatures, flags: FolioFlags, max_seq: u64, min_seq: u64, end: ListEnd) -> u64 {
    let reclaiming = end == ListEnd::Tail;
    let swap_backed = flags.has(FolioFlags::SWAPBACKED) && !flags.has(FolioFlags::SWAPCACHE);
    let written_back = FolioFlags::DIRTY | FolioFlags::WRITEBACK;
    let not_yet = swap_backed || flags.has(FolioFlags::RECLAIM) && flags.any(written_back);
    let active = flags.has(FolioFlags::ACTIVE);
    match f.placement {
        Placement::Oldest | Placement::SecondOldest if active => max_seq,
        Placement::Oldest => min_seq + u64::from(not_yet),
        Placement::SecondOldest if reclaiming => min_seq,
        Placement::SecondOldest if not_yet => max_seq - 1,
        Placement::SecondOldest => min_seq + u64::from(min_seq + MIN_NR_GENS < max_seq),
        Placement::Workingset | Placement::Accessed => {
            let workingset = flags.has(FolioFlags::WORKINGSET);
            let younger =
                workingset || f.placement == Placement::Accessed && flags.has(FolioFlags::REFERENCED);
            let from_youngest = if active {
                u64::from(!workingset)
            } else if reclaiming {
                3
            } else if not_yet {
                1
            } else {
                3 - u64::from(younger)
            };
            max_seq.saturating_sub(from_youngest).max(min_seq)
        }
    }
}

/// A folio has entered a generation, and that says from now on what `PG_active` said; from 6.7 to 6.13 the accesses of one that
/// was active are forgotten (`lru_gen_add_folio`).
pub fn leave_active(f: &GenFeatures, flags: &mut FolioFlags) {
    if flags.take(FolioFlags::ACTIVE) && f.placement == Placement::SecondOldest {
        flags.clear(FolioFlags::REFERENCED);
        flags.set_refs(0);
    }
}

/// A page fault has made a folio, or brought it in: it enters as active, in 7.2 as accessed once unless it had been in the
/// working set (`folio_add_lru`).
#[inline]
pub fn use_in_fault(f: &GenFeatures, flags: &mut FolioFlags) {
    if flags.has(FolioFlags::UNEVICTABLE) {
        return;
    }
    if !f.faults_mark_accessed || flags.has(FolioFlags::WORKINGSET) {
        flags.set(FolioFlags::ACTIVE);
    } else if !flags.has(FolioFlags::REFERENCED) {
        mark_accessed(f, flags);
    }
}

/// What a folio's flags say of its use.
#[inline]
pub fn folio_use(flags: FolioFlags) -> FolioUse {
    FolioUse {
        referenced: flags.has(FolioFlags::REFERENCED),
        workingset: flags.has(FolioFlags::WORKINGSET),
        refs: flags.refs(),
    }
}

/// What an access through a file descriptor does to the flags of a folio (`folio_mark_accessed`).
#[inline]
pub fn mark_accessed(f: &GenFeatures, flags: &mut FolioFlags) {
    if flags.has(FolioFlags::UNEVICTABLE) {
        return;
    }
    let all = ALL_REFS - 1;
    let referenced = flags.has(FolioFlags::REFERENCED);
    match f.refs_scheme {
        _ if !referenced => {
            flags.set(FolioFlags::REFERENCED);
            if f.refs_scheme == RefsScheme::WorkingsetApart {
                flags.set_refs(0);
            }
        }
        RefsScheme::WorkingsetCounts if !flags.has(FolioFlags::WORKINGSET) => {
            flags.set(FolioFlags::WORKINGSET)
        }
        RefsScheme::WorkingsetApart if flags.refs() == all => flags.set(FolioFlags::WORKINGSET),
        _ => flags.set_refs((flags.refs() + 1).min(all)),
    }
}

/// Forgets the accesses of a folio that is moved to the next generation (`folio_inc_gen`).
pub fn forget_accesses(f: &GenFeatures, flags: &mut FolioFlags) {
    flags.clear(FolioFlags::REFERENCED);
    flags.set_refs(0);
    if f.refs_scheme == RefsScheme::WorkingsetCounts {
        flags.clear(FolioFlags::WORKINGSET);
    }
}

/// What eviction does to the flags of a folio that it takes (`isolate_folio`): one that was not accessed again begins at nothing,
/// and until 6.13 the first access is forgotten in any case.
pub fn isolate(f: &GenFeatures, flags: &mut FolioFlags) {
    let referenced = flags.has(FolioFlags::REFERENCED);
    if !referenced {
        flags.set_refs(0);
    }
    if f.refs_scheme == RefsScheme::WorkingsetCounts {
        flags.clear(FolioFlags::REFERENCED);
        if !referenced {
            flags.clear(FolioFlags::WORKINGSET);
        }
    }
    flags.clear(FolioFlags::RECLAIM | FolioFlags::LRU);
}

/// What a young page-table entry does to the flags of its folio, which reclaim may have isolated; whether the folio is promoted to
/// the youngest generation (`folio_update_gen`): until 6.13 at once, since then with the second access.
pub fn on_young_entry(f: &GenFeatures, flags: &mut FolioFlags) -> bool {
    let isolated = flags.generation().is_none();
    match f.refs_scheme {
        RefsScheme::WorkingsetCounts if isolated => {
            flags.set(FolioFlags::REFERENCED);
            return false;
        }
        RefsScheme::WorkingsetCounts => flags.clear(FolioFlags::REFERENCED | FolioFlags::WORKINGSET),
        RefsScheme::WorkingsetApart if !flags.any(FolioFlags::REFERENCED | FolioFlags::WORKINGSET) => {
            flags.set(FolioFlags::REFERENCED);
            flags.set_refs(0);
            return false;
        }
        RefsScheme::WorkingsetApart if isolated => return false,
        RefsScheme::WorkingsetApart => {
            flags.set(FolioFlags::WORKINGSET);
            flags.clear(FolioFlags::REFERENCED);
        }
    }
    flags.set_refs(0);
    true
}

/// The same where reclaim walks no page tables and the folio has to wait in a batch to be promoted, which it does unless it is
/// in the `youngest` generation (`lru_gen_look_around`).
pub fn on_young_entry_nearby(f: &GenFeatures, flags: &mut FolioFlags, youngest: usize) -> bool {
    let old = flags.generation();
    let promotes = match f.refs_scheme {
        RefsScheme::WorkingsetCounts if old.is_none() => {
            flags.set(FolioFlags::REFERENCED);
            false
        }
        RefsScheme::WorkingsetCounts => true,
        RefsScheme::WorkingsetApart => mapped_access(f, flags),
    };
    promotes && old.is_some_and(|old| old != youngest)
}

/// Whether so many folios around a young entry are promoted at once; before 6.3 from a batch of 15 on, since then never.
pub fn promotes_at_once(f: &GenFeatures, folios: usize) -> bool {
    f.eviction_loop == EvictionLoop::AgingApart && folios >= 15
}

/// One side of a comparison of tiers (`struct ctrl_pos`).
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// What came back, of what went or would have.
    pub counts: TierCounts,
    /// Its weight.
    pub gain: u64,
}

/// Whether `process` comes back no more often than `set_point` does, or too seldom to tell (`positive_ctrl_err`).
pub fn positive_ctrl_err(set_point: Position, process: Position) -> bool {
    let (sp, pv) = (set_point.counts, process.counts);
    pv.refaulted < MIN_LRU_BATCH
        || pv.refaulted * (sp.total + MIN_LRU_BATCH) * set_point.gain
            <= (sp.refaulted + 1) * pv.total * process.gain
}

/// The last tier that may be evicted, by the counts of a type's tiers (`get_tier_idx`).
pub fn last_tier(f: &GenFeatures, tiers: &[TierCounts; TIERS]) -> u8 {
    let (first, other) = if f.types_apart { (2, 3) } else { (1, 2) };
    last_tier_against(Position { counts: tiers[0], gain: first }, tiers, other)
}

fn last_tier_against(set_point: Position, tiers: &[TierCounts; TIERS], gain: u64) -> u8 {
    let goes = |&counts: &TierCounts| positive_ctrl_err(set_point, Position { counts, gain });
    tiers[1..].iter().take_while(|counts| goes(counts)).count() as u8
}

/// Which type to evict from, and its last tier if that came out of the comparison (`get_type_to_scan`).
pub fn type_to_scan(
    f: &GenFeatures,
    swappiness: u64,
    min_seq: [u64; 2],
    tiers: &[[TierCounts; TIERS]; 2],
) -> (LruType, Option<u8>) {
    let gain = |lru_type: LruType| match lru_type {
        LruType::Anon => swappiness,
        LruType::File => MAX_SWAPPINESS.saturating_sub(swappiness),
    };
    if f.types_apart {
        let all = |lru_type: LruType| {
            let mut counts = TierCounts::default();
            for tier in &tiers[lru_type as usize] {
                counts.refaulted += tier.refaulted;
                counts.total += tier.total;
            }
            Position { counts, gain: gain(lru_type) }
        };
        let file = swappiness <= 1
            || swappiness < MAX_SWAPPINESS && positive_ctrl_err(all(LruType::Anon), all(LruType::File));
        return (if file { LruType::File } else { LruType::Anon }, None);
    }
    if swappiness == 0 {
        return (LruType::File, None);
    }
    if min_seq[LruType::Anon as usize] < min_seq[LruType::File as usize] {
        return (LruType::Anon, None);
    }
    match swappiness {
        1 => return (LruType::File, None),
        MAX_SWAPPINESS => return (LruType::Anon, None),
        _ => {}
    }
    let first = |lru_type: LruType| Position { counts: tiers[lru_type as usize][0], gain: gain(lru_type) };
    let chosen = match positive_ctrl_err(first(LruType::Anon), first(LruType::File)) {
        true => LruType::File,
        false => LruType::Anon,
    };
    let other = if chosen == LruType::File { LruType::Anon } else { LruType::File };
    let last = last_tier_against(first(other), &tiers[chosen as usize], gain(chosen));
    (chosen, Some(last))
}

/// What becomes of the folio at the tail of the oldest generation (`sort_folio`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// It is in a younger generation and goes to the head of that one's list.
    Promoted,
    /// Its tier is used too much to go; to the next generation.
    Protected(Protection),
    /// Its zone is not wanted; to the tail of the next generation.
    Ineligible,
    /// It has to be written first; to the head of the next generation.
    Writeback,
    /// It may be isolated.
    Evictable,
}

/// How a folio is protected from eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// It counts for its tier. From 6.14 on, one whose promotion was only put off does not.
    pub counted: bool,
    /// It counts as `workingset_activate`: before 6.5.
    pub activates: bool,
    /// To which end of the next generation's list it goes: to the head from 6.14 on.
    pub end: ListEnd,
}

/// A folio at the tail of the oldest generation's list.
#[derive(Clone, Copy, Debug)]
pub struct AtTail {
    /// Its flags.
    pub flags: FolioFlags,
    /// The oldest generation, by number modulo 4.
    pub oldest: usize,
    /// Its accesses.
    pub refs: u8,
    /// What they amount to.
    pub tier: u8,
    /// Whether memory is wanted of its zone.
    pub eligible: bool,
}

/// Sorts a folio where `last_tier` is the last that may go.
pub fn sort(f: &GenFeatures, folio: &AtTail, last_tier: u8) -> Sorted {
    let AtTail { flags, oldest, refs, tier, eligible } = *folio;
    if flags.generation() != Some(oldest) {
        return Sorted::Promoted;
    }
    let lazily_promoted = is_lazily_promoted(f, flags, refs);
    if tier > last_tier || lazily_promoted {
        return Sorted::Protected(Protection {
            counted: !(lazily_promoted && f.types_apart),
            activates: f.activate_rule == ActivateRule::OnProtection,
            end: if f.types_apart { ListEnd::Head } else { ListEnd::Tail },
        });
    }
    if !eligible {
        return Sorted::Ineligible;
    }
    let file = !flags.has(FolioFlags::SWAPBACKED);
    let writing = flags.has(FolioFlags::WRITEBACK) || file && flags.has(FolioFlags::DIRTY);
    if f.sorts_writeback && (writing || flags.has(FolioFlags::LOCKED) && !f.types_apart) {
        return Sorted::Writeback;
    }
    Sorted::Evictable
}

/// Whether a folio has been used as often as can be counted: its promotion waits until its turn comes.
pub fn is_lazily_promoted(f: &GenFeatures, flags: FolioFlags, refs: u8) -> bool {
    match f.refs_scheme {
        RefsScheme::WorkingsetCounts => f.restores_refs && refs == ALL_REFS,
        RefsScheme::WorkingsetApart => refs + u8::from(flags.has(FolioFlags::WORKINGSET)) == ALL_REFS + 1,
    }
}

/// Whether a folio counts as protected whose generation is the oldest and is given up: from 6.14 on, unless its promotion was only
/// put off (`inc_min_seq`).
pub fn is_protected_by_aging(f: &GenFeatures, flags: FolioFlags) -> bool {
    f.types_apart && !is_lazily_promoted(f, flags, folio_refs(f, folio_use(flags)))
}

/// What becomes of an isolated folio that could not be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivor {
    /// It goes back to a list.
    Kept,
    /// It is looked at a second time: it may have been written since it was isolated.
    Clean,
}

/// Decides that, and sees to it that a folio which is kept does not end up in the oldest generation again (`evict_folios`).
/// `may_retry`: this was the first time; `mapped`: page-table entries map it; generations are those from `min_seq` to `max_seq`.
pub fn survivor(
    f: &GenFeatures,
    flags: &mut FolioFlags,
    mapped: bool,
    may_retry: bool,
    (min_seq, max_seq): (u64, u64),
) -> Survivor {
    let written = FolioFlags::DIRTY | FolioFlags::WRITEBACK;
    if f.types_apart {
        if may_retry && !flags.any(FolioFlags::ACTIVE | written) && !mapped {
            return Survivor::Clean;
        }
        if placement(f, *flags, max_seq, min_seq, ListEnd::Head) == min_seq {
            flags.clear(FolioFlags::REFERENCED);
            flags.set_refs(0);
            flags.set(FolioFlags::ACTIVE);
        }
        return Survivor::Kept;
    }
    if flags.has(FolioFlags::RECLAIM) && flags.any(written) {
        // What isolation cleared.
        if flags.has(FolioFlags::WORKINGSET) {
            flags.set(FolioFlags::REFERENCED);
        }
        return Survivor::Kept;
    }
    let used = FolioFlags::ACTIVE | FolioFlags::REFERENCED | FolioFlags::LOCKED;
    if !may_retry || flags.any(used | written) || mapped {
        flags.clear(FolioFlags::REFERENCED | FolioFlags::WORKINGSET);
        flags.set_refs(0);
        flags.set(FolioFlags::ACTIVE);
        return Survivor::Kept;
    }
    Survivor::Clean
}

/// Pages of a lruvec's evictable types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictable {
    /// Oldest generation of a type that can be evicted.
    pub min_seq: u64,
    /// Youngest generation.
    pub max_seq: u64,
    /// All pages.
    pub total: u64,
    /// Those of the youngest generation.
    pub young: u64,
    /// Those of the generation that is next to be evicted if there are [`MIN_NR_GENS`] + 1.
    pub old: u64,
}

impl Evictable {
    /// Nothing can be evicted before a new generation begins.
    pub fn is_out_of_cold(&self) -> bool {
        self.min_seq + MIN_NR_GENS > self.max_seq
    }
}

/// Whether a new generation is due (`should_run_aging`).
pub fn should_run_aging(f: &GenFeatures, e: &Evictable) -> bool {
    let generations = e.max_seq - e.min_seq;
    if f.types_apart {
        return generations <= MIN_NR_GENS;
    }
    generations < MIN_NR_GENS
        || generations == MIN_NR_GENS
            && (e.young * MIN_NR_GENS > e.total || e.old * (MIN_NR_GENS + 2) < e.total)
}

/// The oldest generation that can be evicted of `types`. Before 6.14 anonymous pages are never younger than files where both can
/// be.
pub fn oldest_evictable(f: &GenFeatures, types: &[LruType], min_seq: [u64; 2]) -> u64 {
    let mut seqs = types.iter().map(|&lru_type| min_seq[lru_type as usize]);
    if f.types_apart { seqs.min() } else { seqs.next() }.unwrap_or_default()
}

/// The generation whose age `lru_gen/min_ttl_ms` is held against: the oldest that can be evicted; before 6.14 that of files.
pub fn oldest_to_live(f: &GenFeatures, evictable: &Evictable, min_seq: [u64; 2]) -> u64 {
    if f.types_apart { evictable.min_seq } else { min_seq[LruType::File as usize] }
}

/// Who begins new generations when too little is cold, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aging {
    /// kswapd, in all lruvecs of a node before it evicts; others when they get desperate (6.1).
    BeforeEviction,
    /// Whoever evicts from a lruvec, in place of evicting more (6.3).
    InPlaceOfEviction,
    /// Whoever evicts, between two batches of an amount that was fixed first (7.2).
    BetweenBatches,
}

/// The same for one kernel.
pub fn aging(f: &GenFeatures) -> Aging {
    match f.eviction_loop {
        EvictionLoop::AgingApart => Aging::BeforeEviction,
        EvictionLoop::AgingWithin => Aging::InPlaceOfEviction,
        EvictionLoop::FixedAmount => Aging::BetweenBatches,
    }
}

/// Whether memory cgroups have turns when a node is short of memory (memcg LRU): from 6.3 on. A cgroup's own limit is for all below
/// it.
pub fn memcgs_take_turns(f: &GenFeatures, for_cgroup: bool) -> bool {
    !for_cgroup && f.eviction_loop != EvictionLoop::AgingApart
}

/// Which generation of memory cgroups has its turn in a walk that began with `first`, if the oldest is `oldest` now that all of
/// them may have had theirs: before 6.7 the oldest from here on, since then for the next walk (`shrink_many`).
pub fn memcg_generation(f: &GenFeatures, first: usize, oldest: usize) -> usize {
    if f.walks_one_generation { first } else { oldest }
}

/// What to do for a lruvec until enough is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Nothing: it has too little for this priority.
    Done,
    /// A new generation has to begin.
    Age,
    /// A batch of eviction that looks at no more than `most` folios; `wanted` pages are asked for in all.
    Evict {
        /// Pages.
        wanted: u64,
        /// Folios.
        most: u64,
    },
}

/// The next round until 7.1 (`get_nr_to_scan`). What the priority asks for is a share of all that is evictable, from 6.17 on less
/// what memory.low and memory.min protect of it (`unprotected`), and then a batch looks at no more folios than that.
pub fn round(f: &GenFeatures, e: &Evictable, priority: u8, unprotected: impl FnOnce(u64) -> u64) -> Round {
    let mut total = if e.is_out_of_cold() { 0 } else { e.total };
    if f.scans_what_is_asked {
        total = unprotected(total);
    }
    // It tries to get away without aging at first.
    if should_run_aging(f, e) && priority != DEF_PRIORITY {
        return Round::Age;
    }
    match total >> priority {
        0 => Round::Done,
        wanted if f.scans_what_is_asked => Round::Evict { wanted, most: wanted.min(MAX_LRU_BATCH) },
        wanted => Round::Evict { wanted, most: MAX_LRU_BATCH },
    }
}

/// Whether a generation begins between two batches of 7.2: where fewer are left than are never evicted, or as many once the first
/// priority has not been enough.
pub fn ages_between_batches(e: &Evictable, priority: u8) -> bool {
    let generations = e.max_seq - e.min_seq;
    generations < MIN_NR_GENS || priority != DEF_PRIORITY && generations == MIN_NR_GENS
}

/// Whether oldest generations that are empty are passed over before a batch looks for folios: in 7.2; in others only after it.
pub fn passes_over_empty_first(f: &GenFeatures) -> bool {
    f.eviction_loop == EvictionLoop::FixedAmount
}

/// What counts of the `scanned` pages that a batch looked at; 0 says that there is no point in going on. Until 7.1 pages count if
/// some were `isolated` or the batch was used up (`exhausted`).
pub fn pages_that_count(f: &GenFeatures, scanned: u64, isolated: bool, exhausted: bool) -> u64 {
    if isolated || exhausted || f.eviction_loop == EvictionLoop::FixedAmount { scanned } else { 0 }
}

/// The same once oldest generations that were empty have been passed over (`moved`): until 7.1 that counts as a page, and nothing
/// does if there is nothing cold left.
pub fn progress(f: &GenFeatures, scanned: u64, moved: bool, is_out_of_cold: impl FnOnce() -> bool) -> u64 {
    match f.eviction_loop {
        EvictionLoop::FixedAmount => scanned,
        EvictionLoop::AgingApart | EvictionLoop::AgingWithin => match is_out_of_cold() {
            true => 0,
            false => scanned + u64::from(moved),
        },
    }
}

/// Whether flushers are to write once a lruvec has been reclaimed from: from 6.13 to 7.1, if all of files that was `taken` from it is
/// dirty (`try_to_shrink_lruvec`).
pub fn wakes_flushers_after_lruvec(f: &GenFeatures, dirty: u64, taken: u64) -> bool {
    f.wakes_flushers == FlusherRule::AllTaken && is_all_dirty(dirty, taken)
}

/// The same after a batch of which so much was `isolated`: in 7.2, as the classic LRU does (`evict_folios`).
pub fn wakes_flushers_after_batch(f: &GenFeatures, dirty: u64, isolated: u64) -> bool {
    f.wakes_flushers == FlusherRule::AllIsolated && is_all_dirty(dirty, isolated)
}

/// Whether reclaim leaves a lruvec, or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// It has enough.
    Yes,
    /// It has not.
    No,
    /// It has if zones are above their watermark meanwhile.
    IfAboveWatermarks,
}

/// Decides that (`should_abort_scan`). For a memory cgroup (`for_cgroup`) it goes on whatever it has until 7.0, and before 6.7 kswapd
/// did not look at zones, as it does where it wants no larger block (`kswapd_for_pages`).
pub fn should_abort_scan(f: &GenFeatures, enough: bool, for_cgroup: bool, kswapd_for_pages: bool) -> Abort {
    match (for_cgroup, enough) {
        (true, true) if f.stops_for_cgroups => Abort::Yes,
        (true, _) => Abort::No,
        (false, true) => Abort::Yes,
        (false, false) if kswapd_for_pages && f.restores_refs => Abort::IfAboveWatermarks,
        (false, false) => Abort::No,
    }
}

/// Types that may be evicted with this swappiness, the first to be looked at first.
pub fn evictable_types(swappiness: u64) -> &'static [LruType] {
    match swappiness {
        0 => &[LruType::File],
        _ if swappiness > MAX_SWAPPINESS => &[LruType::Anon],
        _ => &LruType::ALL,
    }
}

/// Where the oldest generations of both types end up after each has passed over its empty ones (`try_to_inc_min_seq`):
/// neither may fall far behind the other.
pub fn couple_min_seq(
    f: &GenFeatures,
    before: [u64; 2],
    mut now: [u64; 2],
    max_seq: u64,
    swappiness: u64,
) -> [u64; 2] {
    let [anon, file] = [LruType::Anon as usize, LruType::File as usize];
    if swappiness == 0 || swappiness > MAX_SWAPPINESS {
        return now;
    }
    if f.types_apart {
        let youngest_evictable = max_seq.saturating_sub(MIN_NR_GENS);
        if now[anon] > youngest_evictable && now[file] < youngest_evictable {
            now[anon] = youngest_evictable;
        } else if now[file] > youngest_evictable && now[anon] < youngest_evictable {
            now[file] = youngest_evictable;
        }
        // None comes back that is gone.
        now = [anon, file].map(|which| now[which].max(before[which]));
    } else {
        now[anon] = now[anon].min(now[file]);
        now[file] = now[anon].max(before[file]);
    }
    now
}

const _: () = assert!(MIN_NR_GENS < MAX_NR_GENS);
