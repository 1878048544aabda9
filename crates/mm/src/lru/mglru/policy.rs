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

use crate::lru::folio::FolioFlags;
use crate::lru::lruvec::TIERS;
use crate::lru::mmzone::{LRU_REFS_WIDTH, LruType, MAX_NR_GENS};
use crate::lru::vmscan::features::{GenFeatures, Placement, RefsScheme};
use crate::lru::workingset::policy::{FolioUse, TierCounts};

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

/// The generation that a folio enters (`lru_gen_folio_seq`); `reclaiming` where it is to go next.
pub fn placement(f: &GenFeatures, flags: FolioFlags, max_seq: u64, min_seq: u64, reclaiming: bool) -> u64 {
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
    may_do_io: bool,
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
        _ if !may_do_io => return (LruType::File, None),
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
    /// Its tier is used too much to go; to the next generation. Whether that counts as protection.
    Protected(bool),
    /// Its zone is not wanted; to the tail of the next generation.
    Ineligible,
    /// It has to be written first; to the head of the next generation.
    Writeback,
    /// It may be isolated.
    Evictable,
}

/// Sorts a folio: `oldest` is the list of the oldest generation, `tier` and `refs` what its use amounts to, `last_tier`
/// the last that may go, `eligible` whether its zone is one that memory is wanted of.
pub fn sort(
    f: &GenFeatures,
    flags: FolioFlags,
    oldest: usize,
    refs: u8,
    tier: u8,
    last_tier: u8,
    eligible: bool,
) -> Sorted {
    if flags.generation() != Some(oldest) {
        return Sorted::Promoted;
    }
    let lazily_promoted = is_lazily_promoted(f, flags, refs);
    if tier > last_tier || lazily_promoted {
        return Sorted::Protected(!(lazily_promoted && f.types_apart));
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
    } else {
        now[anon] = now[anon].min(now[file]);
        now[file] = now[anon].max(before[file]);
    }
    now
}

const _: () = assert!(MIN_NR_GENS < MAX_NR_GENS);
