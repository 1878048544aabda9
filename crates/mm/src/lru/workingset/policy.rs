//! What the kernel decides about refaults.
//!
//! ```text
//!   eviction   folio, lruvec ───────► stamp of the shadow, tier of the eviction, does the age advance?
//!   refault    shadow, lruvec ──┬──► recent?      within the distance?
//!                               └──► flags of the new folio, counters, feedback by tier
//! ```
//!
//! The classic LRU compares the refault distance D, which is the age now less the age in the shadow, with the
//! pages that the refaulting page would compete with:
//!
//! ```text
//!                       file                                      anon
//!   working set         AF + [swap] (AA + IA)                     AF + IF + [swap] AA          D <= it
//!   patch 1, act>=inact IF + [swap] IA                            the same                     D <  it
//!   patch 1, else       AF + [swap] (AA + IA)                     AF + IF + [swap] AA          D <  it
//! ```
//!
//! A and I are active and inactive, F and A file and anonymous pages of the shadow's lruvec; terms with
//! `[swap]` count if its memory cgroup has free swap. Pure functions. In the kernel: `workingset_eviction`,
//! `workingset_test_recent`, `workingset_refault`, `lru_gen_eviction`, `lru_gen_refault` in mm/workingset.c,
//! `reset_ctrl_pos` in mm/vmscan.c.

use super::shadow::{SWAP_COUNT_SHIFT, Shadow, ShadowLayout, low};
use crate::lru::mmzone::{LRU_GEN_WIDTH, LRU_REFS_WIDTH, LruType, MAX_NR_GENS};
use crate::lru::vmscan::features::{
    ActivateRule, DistanceRule, GenFeatures, Lru, RecentRule, ReclaimFeatures, RefsScheme, StoredSeq,
};

/// The largest value of a folio's counter of accesses (`LRU_REFS_MASK`).
const REFS_MAX: u8 = (1 << LRU_REFS_WIDTH) - 1;

/// Sizes of a lruvec's lists, in pages. With the multi-gen LRU, the two youngest generations are the active
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruSizes {
    pub active_anon: u64,
    pub inactive_anon: u64,
    pub active_file: u64,
    pub inactive_file: u64,
    /// Whether its memory cgroup has free swap.
    pub has_swap: bool,
}

/// The state of a lruvec that decides on evictions and refaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruvecState {
    /// Evictions and activations so far, in pages.
    pub nonresident_age: u64,
    /// The oldest generation, indexed by type.
    pub min_seq: [u64; 2],
    /// The youngest generation.
    pub max_seq: u64,
    pub sizes: LruSizes,
}

/// The use of a folio, taken from its flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolioUse {
    /// `PG_referenced`.
    pub referenced: bool,
    /// `PG_workingset`.
    pub workingset: bool,
    /// The counter of accesses, 0 to 3 (`LRU_REFS_MASK`).
    pub refs: u8,
}

/// What an eviction stores and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// [`Shadow::eviction`].
    pub stamp: u64,
    /// [`Shadow::workingset`].
    pub workingset: bool,
    /// The tier that the eviction counts in, with the multi-gen LRU.
    pub tier: Option<u8>,
    /// Whether `nonresident_age` of the lruvec and of all above it advances by the folio's pages.
    pub ages: bool,
}

/// Where a shadow comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The lruvec of the shadow's memory cgroup and node; the root's if the memcg is gone.
    pub lruvec: &'a LruvecState,
    /// Whether the memory cgroup still exists.
    pub memcg_exists: bool,
    /// Whether this is the lruvec of the new folio too.
    pub is_folio_s: bool,
}

/// What a refault tells the feedback loop of the multi-gen LRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    None,
    /// It adds a refault to this tier of the current generation (`refaulted`).
    Current(u8),
    /// It adds a refault and an eviction to the averages of this tier (`avg_refaulted`, `avg_total`).
    Average(u8),
}

/// What a refault does. Each counter advances by the pages of the new folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refault {
    /// Counts as `workingset_refault`.
    pub counted: bool,
    /// Counts as `workingset_activate`.
    pub activate: bool,
    /// Counts as `workingset_restore`.
    pub restore: bool,
    /// Sets `PG_active` of the folio.
    pub set_active: bool,
    /// Sets `PG_workingset` of the folio.
    pub set_workingset: bool,
    /// Sets the folio's counter of accesses to this.
    pub set_refs: Option<u8>,
    /// Advances `nonresident_age` of the folio's lruvec and of all above it.
    pub ages: bool,
    /// Counts as a cost of reclaiming the folio's type (`lru_note_cost_refault`).
    pub costs: bool,
    /// What the feedback loop of the multi-gen LRU learns.
    pub feedback: Feedback,
}

impl Refault {
    /// A refault that does nothing.
    pub const NOTHING: Refault = Refault {
        counted: false,
        activate: false,
        restore: false,
        set_active: false,
        set_workingset: false,
        set_refs: None,
        ages: false,
        costs: false,
        feedback: Feedback::None,
    };
    const COUNTED: Refault = Refault { counted: true, ..Refault::NOTHING };
}

/// Accesses of a folio, 0 to 4 (`folio_lru_refs`).
pub fn folio_refs(f: &GenFeatures, folio: FolioUse) -> u8 {
    let refs = folio.refs.min(REFS_MAX);
    match f.refs_scheme {
        RefsScheme::WorkingsetCounts => refs + u8::from(folio.workingset),
        RefsScheme::WorkingsetApart if folio.referenced => refs + 1,
        RefsScheme::WorkingsetApart => 0,
    }
}

/// The tier of a folio with `refs` accesses (`lru_tier_from_refs`).
pub fn tier(f: &GenFeatures, refs: u8, workingset: bool) -> u8 {
    if !f.tiers {
        return 0;
    }
    match (f.refs_scheme, refs) {
        (RefsScheme::WorkingsetCounts, refs) => order_base_2(refs + 1),
        (RefsScheme::WorkingsetApart, _) if workingset => 3,
        (RefsScheme::WorkingsetApart, refs) => order_base_2(refs),
    }
}

/// Bits that shadows of anonymous pages have less than those of files: from 7.1 on, the most that the count
/// of a swap entry's users takes.
pub(super) fn bits_of_swap_count(f: &ReclaimFeatures) -> u32 {
    if f.anon_shadows_narrower { SWAP_COUNT_SHIFT } else { 0 }
}

/// The smallest n with 2^n >= `number` (`order_base_2`).
fn order_base_2(number: u8) -> u8 {
    (u8::BITS - number.saturating_sub(1).leading_zeros()) as u8
}

/// What the eviction of a folio stores and counts. With the classic LRU, `lruvec` is the one that reclaim is
/// for, with the multi-gen LRU the folio's own.
pub fn eviction(
    f: &ReclaimFeatures,
    layout: &ShadowLayout,
    lru_type: LruType,
    lruvec: &LruvecState,
    folio: FolioUse,
) -> Eviction {
    match &f.lru {
        Lru::Classic => {
            let stamp = lruvec.nonresident_age >> layout.bucket_order(lru_type);
            let stamp = low(layout.eviction_bits(lru_type), stamp);
            Eviction { stamp, workingset: folio.workingset, tier: None, ages: true }
        }
        Lru::MultiGen(generations) => lru_gen_eviction(generations, layout, lru_type, lruvec, folio),
    }
}

fn lru_gen_eviction(
    generations: &GenFeatures,
    layout: &ShadowLayout,
    lru_type: LruType,
    lruvec: &LruvecState,
    folio: FolioUse,
) -> Eviction {
    let refs = folio_refs(generations, folio);
    let mut token = lruvec.min_seq[lru_type as usize] << LRU_REFS_WIDTH | u64::from(refs.saturating_sub(1));
    if generations.refault_distance.is_some() {
        let age = lruvec.nonresident_age >> layout.gen_bucket_order();
        token = token << layout.gen_eviction_bits() | low(layout.gen_eviction_bits(), age);
    }
    Eviction {
        stamp: low(layout.eviction_bits(lru_type), token),
        workingset: match generations.refs_scheme {
            RefsScheme::WorkingsetCounts => refs != 0,
            RefsScheme::WorkingsetApart => folio.workingset,
        },
        tier: Some(tier(generations, refs, folio.workingset)),
        ages: generations.refault_distance.is_some(),
    }
}

/// Pages evicted or activated since the age `stored` in a shadow, which has `bits` bits and lacks the low
/// `bucket_order` ones; `now` is the age now. The age wraps, so a shadow that is old enough looks young.
pub fn refault_distance(bits: u32, bucket_order: u32, stored: u64, now: u64) -> u64 {
    low(bits, now.wrapping_sub(stored << bucket_order))
}

/// Whether a page with this refault distance would not have been evicted had it been active.
pub fn is_within(rule: DistanceRule, lru_type: LruType, distance: u64, sizes: &LruSizes) -> bool {
    let swap = |pages: u64| if sizes.has_swap { pages } else { 0 };
    let active = sizes.active_file.saturating_add(swap(sizes.active_anon));
    let (inactive_anon, inactive_file) = (swap(sizes.inactive_anon), sizes.inactive_file);
    let inactive = inactive_anon.saturating_add(inactive_file);
    let workingset_size = active.saturating_add(match lru_type {
        LruType::File => inactive_anon,
        LruType::Anon => inactive_file,
    });
    match rule {
        DistanceRule::WorkingsetSize => distance <= workingset_size,
        DistanceRule::Throttled if active >= inactive => distance < inactive,
        DistanceRule::Throttled => distance < workingset_size,
    }
}

/// Whether the page of a shadow was evicted recently; mincore and cachestat ask too
/// (`workingset_test_recent`).
pub fn test_recent(
    f: &ReclaimFeatures,
    layout: &ShadowLayout,
    lru_type: LruType,
    shadow: &Shadow,
    origin: &Origin,
) -> bool {
    match &f.lru {
        Lru::Classic => {
            let bits = layout.eviction_bits(lru_type);
            let age = origin.lruvec.nonresident_age;
            let distance = refault_distance(bits, layout.bucket_order(lru_type), shadow.eviction, age);
            origin.memcg_exists && is_within(f.distance_rule, lru_type, distance, &origin.lruvec.sizes)
        }
        Lru::MultiGen(generations) => {
            (origin.memcg_exists || !generations.recent_needs_memcg)
                && is_recent_generation(generations, layout, lru_type, shadow.eviction, origin.lruvec)
        }
    }
}

/// The generation number and accesses in the stamp of a multi-gen shadow, and the number of bits that the
/// generation number has there.
fn token(f: &GenFeatures, layout: &ShadowLayout, lru_type: LruType, stamp: u64) -> (u64, u8, u32) {
    let (token, bits) = match f.refault_distance {
        Some(_) => (stamp >> layout.gen_eviction_bits(), LRU_GEN_WIDTH),
        None => (stamp, layout.eviction_bits(lru_type) - LRU_REFS_WIDTH),
    };
    (token >> LRU_REFS_WIDTH, low(LRU_REFS_WIDTH, token) as u8, bits)
}

fn is_recent_generation(
    f: &GenFeatures,
    layout: &ShadowLayout,
    lru_type: LruType,
    stamp: u64,
    lruvec: &LruvecState,
) -> bool {
    let (seq, _, stored_bits) = token(f, layout, lru_type, stamp);
    let bits = match f.refault_distance {
        Some(StoredSeq::Whole) => layout.eviction_bits(lru_type) - LRU_REFS_WIDTH,
        Some(StoredSeq::StoredBits) | None => stored_bits,
    };
    match f.recent_rule {
        RecentRule::OldestGeneration => seq == low(bits, lruvec.min_seq[lru_type as usize]),
        RecentRule::LastGenerations => low(bits, lruvec.max_seq).abs_diff(seq) < MAX_NR_GENS,
    }
}

/// What the refault of a page does (`workingset_refault`). `in_fault` says whether a page fault reads it in.
pub fn refault(
    f: &ReclaimFeatures,
    layout: &ShadowLayout,
    lru_type: LruType,
    shadow: &Shadow,
    origin: &Origin,
    in_fault: bool,
) -> Refault {
    let back = Returning { layout, lru_type, shadow, lruvec: origin.lruvec, in_fault };
    match &f.lru {
        Lru::Classic if !test_recent(f, layout, lru_type, shadow, origin) => Refault::COUNTED,
        Lru::Classic => Refault {
            activate: true,
            set_active: true,
            ages: age_by_activation(f, 1) > 0,
            restore: shadow.workingset,
            set_workingset: shadow.workingset,
            costs: shadow.workingset,
            ..Refault::COUNTED
        },
        Lru::MultiGen(_) if !origin.is_folio_s => Refault::NOTHING,
        Lru::MultiGen(generations) if generations.refault_distance.is_some() => {
            refault_by_distance(f.distance_rule, generations, &back)
        }
        Lru::MultiGen(generations) => refault_by_generation(generations, &back),
    }
}

/// A page that is read in again.
struct Returning<'a> {
    layout: &'a ShadowLayout,
    lru_type: LruType,
    /// The shadow that its eviction left.
    shadow: &'a Shadow,
    /// The lruvec that it was evicted from, as it is now.
    lruvec: &'a LruvecState,
    /// Whether a page fault reads it in.
    in_fault: bool,
}

impl Returning<'_> {
    fn is_recent(&self, f: &GenFeatures) -> bool {
        is_recent_generation(f, self.layout, self.lru_type, self.shadow.eviction, self.lruvec)
    }

    /// The accesses that its shadow keeps.
    fn stored_refs(&self, f: &GenFeatures) -> u8 {
        let (_, refs, _) = token(f, self.layout, self.lru_type, self.shadow.eviction);
        refs
    }
}

fn refault_by_generation(f: &GenFeatures, back: &Returning) -> Refault {
    if !back.is_recent(f) {
        return Refault { counted: f.counts_all_refaults, ..Refault::NOTHING };
    }
    let (in_fault, workingset) = (back.in_fault, back.shadow.workingset);
    let refs = match f.refs_scheme {
        RefsScheme::WorkingsetCounts => back.stored_refs(f) + u8::from(workingset),
        RefsScheme::WorkingsetApart => back.stored_refs(f) + 1,
    };
    let restore = match f.refs_scheme {
        RefsScheme::WorkingsetCounts => in_fault || refs >= REFS_MAX + u8::from(!f.restores_refs),
        RefsScheme::WorkingsetApart => workingset,
    };
    Refault {
        activate: match f.activate_rule {
            ActivateRule::OnProtection => false,
            ActivateRule::Recent => true,
            ActivateRule::InFault => in_fault,
            ActivateRule::WorkingsetInFault => in_fault && workingset,
        },
        restore,
        set_workingset: restore,
        set_refs: match f.refs_scheme {
            RefsScheme::WorkingsetCounts => (restore && f.restores_refs).then_some(REFS_MAX),
            RefsScheme::WorkingsetApart => (!restore).then_some(refs - 1),
        },
        feedback: Feedback::Current(tier(f, refs, workingset)),
        ..Refault::COUNTED
    }
}

/// Patch 6 of the series: a page within the distance is promoted. If it had been used before, it enters the
/// youngest generation; else it gets a tier more, which protects it once when eviction meets it next.
fn refault_by_distance(rule: DistanceRule, f: &GenFeatures, back: &Returning) -> Refault {
    let Returning { layout, lru_type, shadow, lruvec, in_fault } = *back;
    let bits = layout.gen_eviction_bits();
    let distance = refault_distance(bits, layout.gen_bucket_order(), shadow.eviction, lruvec.nonresident_age);
    let within = is_within(rule, lru_type, distance, &lruvec.sizes);
    let recent = back.is_recent(f);
    if !within && !recent {
        return Refault::COUNTED;
    }
    let refs = back.stored_refs(f) + u8::from(shadow.workingset);
    let all_refs = refs == REFS_MAX + 1;
    // The last tier also stands for all that would be beyond it.
    let tier = tier(f, refs + u8::from(within), shadow.workingset);
    let restore = within || in_fault || all_refs;
    Refault {
        activate: within,
        set_active: within && refs > 0,
        restore,
        set_workingset: restore,
        feedback: if recent { Feedback::Current(tier) } else { Feedback::Average(tier) },
        ..Refault::COUNTED
    }
}

/// By how much `nonresident_age` advances when `pages` pages are activated: with the classic LRU by as many,
/// except with refault-distance-1. With the multi-gen LRU it does not advance; see [`eviction`].
#[inline]
pub fn age_by_activation(f: &ReclaimFeatures, pages: u64) -> u64 {
    match f.lru {
        Lru::Classic if f.ages_on_activation => pages,
        Lru::Classic | Lru::MultiGen(_) => 0,
    }
}

/// Counters of a tier, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Pages that refaulted.
    pub refaulted: u64,
    /// Pages that were evicted or protected.
    pub total: u64,
}

/// The averages of a tier after the generation with the counts `current` is given up: half of their sum with
/// the averages before (`reset_ctrl_pos`). With refault-distance-6, more pages can refault than were evicted,
/// as a refault counts a tier higher.
pub fn carry_over(f: &GenFeatures, average: TierCounts, current: TierCounts) -> TierCounts {
    let refaulted = average.refaulted.saturating_add(current.refaulted);
    let mut total = average.total.saturating_add(current.total);
    if f.refault_distance.is_some() {
        total = total.max(refaulted);
    }
    TierCounts { refaulted: refaulted / 2, total: total / 2 }
}
