//! What the multi-gen LRU decides.
//!
//! ```text
//!   insertion    flags of a folio ─► which generation
//!   sorting      tail of the oldest generation ─► another generation, or evicted
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

/// The youngest generations, which are never evicted from (`MIN_NR_GENS`).
pub const MIN_NR_GENS: u64 = 2;
/// Pages of a batch of eviction, and the fewest refaults that the feedback loop trusts (`MIN_LRU_BATCH`, on
/// 64-bit).
pub const MIN_LRU_BATCH: u64 = 64;
/// The most folios that a batch looks at (`MAX_LRU_BATCH`).
pub const MAX_LRU_BATCH: u64 = 4096;
/// The largest value of `vm.swappiness` (`MAX_SWAPPINESS`).
pub const MAX_SWAPPINESS: u64 = 200;

/// The most accesses that a folio's flags can count. A folio with as many moves on one generation each time
/// eviction meets it.
const ALL_REFS: u8 = 1 << LRU_REFS_WIDTH;

/// The generation that a folio enters when it is added to this end of its list (`lru_gen_folio_seq`).
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

/// Clears `PG_active` of a folio that has entered a generation, which stands for it from now on. From 6.7 to
/// 6.13 the accesses of an active folio are forgotten too (`lru_gen_add_folio`).
pub fn leave_active(f: &GenFeatures, flags: &mut FolioFlags) {
    if flags.take(FolioFlags::ACTIVE) && f.placement == Placement::SecondOldest {
        flags.clear(FolioFlags::REFERENCED);
        flags.set_refs(0);
    }
}

/// What a page fault does to the flags of a folio that it makes or reads in: the folio enters as active. In
/// 7.2 it enters as accessed once instead, unless it had been in the working set (`folio_add_lru`).
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

/// The use of a folio, taken from its flags.
#[inline]
pub fn folio_use(flags: FolioFlags) -> FolioUse {
    FolioUse {
        referenced: flags.has(FolioFlags::REFERENCED),
        workingset: flags.has(FolioFlags::WORKINGSET),
        refs: flags.refs(),
    }
}

/// What an access through a file descriptor does to the flags of a folio (`folio_mark_accessed`,
/// `folio_inc_refs`).
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

/// Moves the flags of a folio of the `oldest` generation (modulo 4) on to the next one, unless it was promoted meanwhile. Returns the
/// generation that it is in afterwards (`folio_inc_gen`).
pub fn inc_gen(f: &GenFeatures, flags: &mut FolioFlags, oldest: usize) -> usize {
    let current = flags.generation().unwrap_or(oldest);
    if current != oldest {
        return current;
    }
    let next = (oldest + 1) % MAX_NR_GENS as usize;
    flags.set_generation(Some(next));
    forget_accesses(f, flags);
    next
}

/// Forgets the accesses of a folio that is moved to the next generation (`folio_inc_gen`).
pub fn forget_accesses(f: &GenFeatures, flags: &mut FolioFlags) {
    flags.clear(FolioFlags::REFERENCED);
    flags.set_refs(0);
    if f.refs_scheme == RefsScheme::WorkingsetCounts {
        flags.clear(FolioFlags::WORKINGSET);
    }
}

/// What isolation by eviction does to the flags of a folio (`isolate_folio`). A folio that is not
/// `PG_referenced` loses its counter of accesses, and until 6.13 `PG_referenced` itself is cleared.
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

/// What a young PTE does to the flags of its folio, which reclaim may have isolated (`folio_update_gen`).
/// Returns whether the folio is promoted to the youngest generation: until 6.13 at the first access, from
/// 6.14 on at the second.
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

/// Like [`on_young_entry`], but in the rmap of a reclaim that walks no page tables, so that the folio has to
/// be promoted through a batch. Returns whether it is, which it is not if it is in the `youngest` generation
/// (`lru_gen_look_around`).
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

/// Whether `folios` folios around a young PTE are promoted at once instead of through a batch: before 6.3
/// from 15 of them on, since then never.
pub fn promotes_at_once(f: &GenFeatures, folios: usize) -> bool {
    f.eviction_loop == EvictionLoop::AgingApart && folios >= 15
}

/// One side of a comparison of refault rates (`struct ctrl_pos`).
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// Refaulted pages, and pages evicted or protected.
    pub counts: TierCounts,
    /// Weight of this side.
    pub gain: u64,
}

/// No tier is beyond it, so none is protected.
const LAST_TIER: u8 = TIERS as u8 - 1;

/// Whether a page-table walk asks the Bloom filter about a table; a walk of an mm that is new to the node never does.
pub fn asks_bloom_filter(f: &GenFeatures, force_scan: bool) -> bool {
    f.bloom_filter && !force_scan
}

/// Whether the rmap walk of reclaim looks at the PTEs around young ones.
pub fn looks_around(f: &GenFeatures) -> bool {
    f.look_around
}

/// Whether pages of `process` refault no more often than those of `set_point`, or too seldom to tell
/// (`positive_ctrl_err`).
pub fn positive_ctrl_err(set_point: Position, process: Position) -> bool {
    let (sp, pv) = (set_point.counts, process.counts);
    pv.refaulted < MIN_LRU_BATCH
        || pv.refaulted * (sp.total + MIN_LRU_BATCH) * set_point.gain
            <= (sp.refaulted + 1) * pv.total * process.gain
}

/// The last tier of a type that may be evicted, from the counters of its tiers (`get_tier_idx`).
pub fn last_tier(f: &GenFeatures, tiers: &[TierCounts; TIERS]) -> u8 {
    if !f.pid_controller {
        return LAST_TIER;
    }
    let (first, other) = if f.types_apart { (2, 3) } else { (1, 2) };
    last_tier_against(Position { counts: tiers[0], gain: first }, tiers, other)
}

fn last_tier_against(set_point: Position, tiers: &[TierCounts; TIERS], gain: u64) -> u8 {
    let goes = |&counts: &TierCounts| positive_ctrl_err(set_point, Position { counts, gain });
    tiers[1..].iter().take_while(|counts| goes(counts)).count() as u8
}

/// The type to evict from, and the last tier of it that may be evicted if the comparison of types yields one
/// (`get_type_to_scan`).
pub fn type_to_scan(
    f: &GenFeatures,
    swappiness: u64,
    min_seq: [u64; 2],
    tiers: &[[TierCounts; TIERS]; 2],
) -> (LruType, Option<u8>) {
    if !f.pid_controller {
        let anon = swappiness > MAX_SWAPPINESS / 2;
        return (if anon { LruType::Anon } else { LruType::File }, Some(LAST_TIER));
    }
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
    if let Some(settled) = settled_type(f, swappiness, min_seq) {
        return (settled, None);
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

/// The type that goes without a comparison, before 6.14: the other one cannot, or is younger, or `vm.swappiness` says so
/// (`isolate_folios`).
pub fn settled_type(f: &GenFeatures, swappiness: u64, min_seq: [u64; 2]) -> Option<LruType> {
    if f.types_apart {
        return None;
    }
    let anon_is_older = min_seq[LruType::Anon as usize] < min_seq[LruType::File as usize];
    match swappiness {
        0 => Some(LruType::File),
        _ if anon_is_older => Some(LruType::Anon),
        1 => Some(LruType::File),
        MAX_SWAPPINESS => Some(LruType::Anon),
        _ => None,
    }
}

/// What becomes of the folio at the tail of the oldest generation (`sort_folio`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// It has been promoted to a younger generation: to the head of that one's list.
    Promoted,
    /// Its tier is protected: to the next generation.
    Protected(Protection),
    /// Its zone is not wanted: to the tail of the next generation.
    Ineligible,
    /// It is dirty or under writeback: to the head of the next generation.
    Writeback,
    Evictable,
}

/// How a folio is protected from eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// It counts as protected in its tier. From 6.14 on, a folio whose promotion was only put off does not.
    pub counted: bool,
    /// It counts as `workingset_activate` (before 6.5).
    pub activates: bool,
    /// The end of the next generation's list that it goes to: the head from 6.14 on.
    pub end: ListEnd,
}

/// A folio at the tail of the oldest generation's list.
#[derive(Clone, Copy, Debug)]
pub struct AtTail {
    pub flags: FolioFlags,
    /// The oldest generation of its type, modulo 4.
    pub oldest: usize,
    /// Its accesses, 0 to 4 (`folio_lru_refs`).
    pub refs: u8,
    /// The tier of these accesses (`lru_tier_from_refs`).
    pub tier: u8,
    /// Whether its zone is one that memory is wanted from.
    pub eligible: bool,
}

/// Decides what becomes of a folio at the tail of the oldest generation. `last_tier` is the last tier that
/// may be evicted.
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

/// Whether a folio has as many accesses as can be counted. Its promotion is put off until eviction meets it.
pub fn is_lazily_promoted(f: &GenFeatures, flags: FolioFlags, refs: u8) -> bool {
    match f.refs_scheme {
        RefsScheme::WorkingsetCounts => f.restores_refs && refs == ALL_REFS,
        RefsScheme::WorkingsetApart => refs + u8::from(flags.has(FolioFlags::WORKINGSET)) == ALL_REFS + 1,
    }
}

/// Whether a folio of a generation that aging gives up counts as protected: from 6.14 on, unless its
/// promotion was only put off (`inc_min_seq`).
pub fn is_protected_by_aging(f: &GenFeatures, flags: FolioFlags) -> bool {
    f.types_apart && !is_lazily_promoted(f, flags, folio_refs(f, folio_use(flags)))
}

/// What becomes of an isolated folio that could not be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivor {
    /// It goes back to a list.
    Kept,
    /// It gets a second try, as it may have become clean since it was isolated.
    Clean,
}

/// Decides what becomes of an isolated folio that could not be freed, and changes the flags of one that is
/// kept so that it does not enter the oldest generation again (`evict_folios`). `mapped` says whether PTEs
/// map it, `may_retry` whether this was its first try; `min_seq` and `max_seq` are the oldest and youngest
/// generation.
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
        // Sets again what isolation has cleared.
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

/// Sizes of the generations of a lruvec's evictable types, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictable {
    /// The oldest generation of a type that can be evicted.
    pub min_seq: u64,
    /// The youngest generation.
    pub max_seq: u64,
    /// Pages of all generations.
    pub total: u64,
    /// Pages of the youngest generation.
    pub young: u64,
    /// Pages of the generation that is evicted next if there are [`MIN_NR_GENS`] + 1 generations.
    pub old: u64,
}

impl Evictable {
    /// Whether nothing can be evicted before a new generation begins.
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

/// What the sizes of a lruvec's generations call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// A new generation.
    pub aging: bool,
    /// Pages that can be evicted at the last priority.
    pub pages: u64,
}

/// What the sizes of a lruvec's generations call for (`should_run_aging`). Since 6.3 there is nothing to evict before a new generation
/// begins if none is cold.
pub fn due(f: &GenFeatures, e: &Evictable) -> Due {
    let waits = f.eviction_loop != EvictionLoop::AgingApart && e.is_out_of_cold();
    Due { aging: should_run_aging(f, e), pages: if waits { 0 } else { e.total } }
}

/// The oldest generation of `types` that can be evicted. Before 6.14 the oldest anonymous generation is never
/// younger than the oldest file generation where both types can be evicted.
pub fn oldest_evictable(f: &GenFeatures, types: &[LruType], min_seq: [u64; 2]) -> u64 {
    let mut seqs = types.iter().map(|&lru_type| min_seq[lru_type as usize]);
    if f.types_apart { seqs.min() } else { seqs.next() }.unwrap_or_default()
}

/// The generation whose age is compared with `lru_gen/min_ttl_ms`: the oldest that can be evicted; before
/// 6.14 the oldest of files.
pub fn oldest_to_live(f: &GenFeatures, evictable: &Evictable, min_seq: [u64; 2]) -> u64 {
    if f.types_apart { evictable.min_seq } else { min_seq[LruType::File as usize] }
}

/// Who begins new generations when too few pages are cold, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aging {
    /// kswapd does, in all lruvecs of a node before it evicts; direct reclaim does once its priority has
    /// dropped (6.1).
    BeforeEviction,
    /// Whoever evicts from a lruvec does, instead of evicting more (6.3).
    InPlaceOfEviction,
    /// Whoever evicts from a lruvec does, between two batches of an amount that was fixed before (7.2).
    BetweenBatches,
}

/// Who ages, and when, in the kernel with these features.
pub fn aging(f: &GenFeatures) -> Aging {
    match f.eviction_loop {
        EvictionLoop::AgingApart => Aging::BeforeEviction,
        EvictionLoop::AgingWithin => Aging::InPlaceOfEviction,
        EvictionLoop::FixedAmount => Aging::BetweenBatches,
    }
}

/// Whether memory cgroups have turns when a node is short of memory (the memcg LRU): from 6.3 on. Reclaim for
/// the limit of a memcg takes from all memcgs below it.
pub fn memcgs_take_turns(f: &GenFeatures, for_cgroup: bool) -> bool {
    !for_cgroup && f.eviction_loop != EvictionLoop::AgingApart
}

/// The generation of memcgs whose turn it is in a walk that began with generation `first`, when the old
/// generation is `oldest` now: all memcgs may have had their turn meanwhile. Before 6.7 the walk goes on with
/// that one, from 6.7 on it leaves it to the next walk (`shrink_many`).
pub fn memcg_generation(f: &GenFeatures, first: usize, oldest: usize) -> usize {
    if f.walks_one_generation { first } else { oldest }
}

/// What the loop over one lruvec does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Nothing more: the lruvec has too few pages for this priority.
    Done,
    /// It begins a new generation.
    Age,
    /// It evicts a batch.
    Evict {
        /// Pages to scan in all batches together.
        wanted: u64,
        /// Folios that this batch may look at.
        most: u64,
    },
}

/// Decides on the next round of the loop over one lruvec, until 7.1 (`get_nr_to_scan`). The pages to scan are
/// the share of all evictable pages that the priority asks for. From 6.17 on, pages that memory.low and
/// memory.min protect do not count (`unprotected`), and a batch looks at no more folios than there are pages
/// to scan.
pub fn round(f: &GenFeatures, due: Due, priority: u8, unprotected: impl FnOnce(u64) -> u64) -> Round {
    let mut total = due.pages;
    if f.scans_what_is_asked {
        total = unprotected(total);
    }
    // At the first priority it tries to do without aging.
    if due.aging && priority != DEF_PRIORITY {
        return Round::Age;
    }
    match total >> priority {
        0 => Round::Done,
        wanted if f.scans_what_is_asked => Round::Evict { wanted, most: wanted.min(MAX_LRU_BATCH) },
        wanted => Round::Evict { wanted, most: MAX_LRU_BATCH },
    }
}

/// How many pages 6.1 and 6.2 scan at this priority, in which kswapd ages apart (`get_nr_to_scan`). Direct reclaim begins a new generation
/// (`age` says whether it could) once its priority has dropped; kswapd leaves that, and eviction from what needs it, to its walk of the
/// node. `has_cold`: a generation can be evicted as it is.
pub fn wanted_with_aging_apart(
    due: Due,
    has_cold: bool,
    priority: u8,
    kswapd: bool,
    age: impl FnOnce() -> bool,
) -> u64 {
    let evicts = match due.aging && priority < DEF_PRIORITY {
        true if kswapd => false,
        true => age() || has_cold,
        false => !due.aging || has_cold,
    };
    if evicts { due.pages >> priority } else { 0 }
}

/// Whether 7.2 begins a new generation between two batches: if no generation can be evicted, or only one can
/// and the first priority has not been enough.
pub fn ages_between_batches(e: &Evictable, priority: u8) -> bool {
    let generations = e.max_seq - e.min_seq;
    generations < MIN_NR_GENS || priority != DEF_PRIORITY && generations == MIN_NR_GENS
}

/// Whether empty oldest generations are given up before a batch looks for folios: in 7.2. Other kernels do so
/// only after it.
pub fn passes_over_empty_first(f: &GenFeatures) -> bool {
    f.eviction_loop == EvictionLoop::FixedAmount
}

/// How many of the `scanned` pages that a batch looked at count; 0 says that there is no point in going on.
/// Until 7.1 they count only if folios were `isolated`, or the batch had `exhausted` the folios that it may
/// look at.
pub fn pages_that_count(f: &GenFeatures, scanned: u64, isolated: bool, exhausted: bool) -> u64 {
    if isolated || exhausted || f.eviction_loop == EvictionLoop::FixedAmount { scanned } else { 0 }
}

/// How many pages count as scanned once empty oldest generations have been given up (`moved`). Until 7.1,
/// `moved` counts as one page, and nothing counts if only the youngest generations are left.
pub fn progress(f: &GenFeatures, scanned: u64, moved: bool, is_out_of_cold: impl FnOnce() -> bool) -> u64 {
    match f.eviction_loop {
        EvictionLoop::FixedAmount => scanned,
        EvictionLoop::AgingApart | EvictionLoop::AgingWithin => match is_out_of_cold() {
            true => 0,
            false => scanned + u64::from(moved),
        },
    }
}

/// Whether flushers are woken after a lruvec has been reclaimed from: from 6.13 to 7.1, if all file pages
/// that were `taken` from it are dirty (`try_to_shrink_lruvec`).
pub fn wakes_flushers_after_lruvec(f: &GenFeatures, dirty: u64, taken: u64) -> bool {
    f.wakes_flushers == FlusherRule::AllTaken && is_all_dirty(dirty, taken)
}

/// Whether flushers are woken after a batch of which `isolated` pages were isolated: in 7.2, as with the
/// classic LRU (`evict_folios`).
pub fn wakes_flushers_after_batch(f: &GenFeatures, dirty: u64, isolated: u64) -> bool {
    f.wakes_flushers == FlusherRule::AllIsolated && is_all_dirty(dirty, isolated)
}

/// Whether reclaim leaves a lruvec, or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// It leaves: it has enough.
    Yes,
    /// It goes on.
    No,
    /// It leaves if all zones are above their watermark by now.
    IfAboveWatermarks,
}

/// Decides whether reclaim leaves a lruvec or a node (`should_abort_scan`). For a memory cgroup
/// (`for_cgroup`) it goes on even with `enough` until 7.0. From 6.7 on, a kswapd that wants no larger block
/// (`kswapd_for_pages`) looks at the watermarks.
pub fn should_abort_scan(f: &GenFeatures, enough: bool, for_cgroup: bool, kswapd_for_pages: bool) -> Abort {
    match (for_cgroup, enough) {
        (true, true) if f.stops_for_cgroups => Abort::Yes,
        (true, _) => Abort::No,
        (false, true) => Abort::Yes,
        (false, false) if kswapd_for_pages && f.restores_refs => Abort::IfAboveWatermarks,
        (false, false) => Abort::No,
    }
}

/// The types that may be evicted at this swappiness, in the order in which they are looked at
/// (`for_each_evictable_type`).
pub fn evictable_types(swappiness: u64) -> &'static [LruType] {
    match swappiness {
        0 => &[LruType::File],
        _ if swappiness > MAX_SWAPPINESS => &[LruType::Anon],
        _ => &LruType::ALL,
    }
}

/// The oldest generations of both types after each has given up its empty ones (`try_to_inc_min_seq`):
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
        // A generation that has been given up does not come back.
        now = [anon, file].map(|which| now[which].max(before[which]));
    } else {
        now[anon] = now[anon].min(now[file]);
        now[file] = now[anon].max(before[file]);
    }
    now
}

const _: () = assert!(MIN_NR_GENS < MAX_NR_GENS);
