//! What each kernel decides about which pages leave memory, and what each patch of "Refault distance update with MGLRU
//! support" changes.
//!
//! ```text
//!   classic      distance <= working set ──────── patch 1: rule R, age counts evictions only
//!   multi-gen    6.1 ─► 6.5 ─► 6.7 ─► 6.14 ─► 6.17 ─► 7.1 ─► 7.2      mainline
//!                        └───► patch 4 ─► patch 6      shadows keep the age too, distance promotes
//! ```

use crate::features::by_name::features;

features! {
    /// When a refault distance is small enough.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DistanceRule {
        /// Up to the size of the working set that the page would compete with.
        WorkingsetSize,
        /// refault-distance-1: below what is active, or, where there are as many active pages as inactive ones, below what is inactive.
        Throttled,
    }

    /// What a folio's accesses are counted by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RefsScheme {
        /// `PG_workingset` is one access, the counter those after it.
        WorkingsetCounts,
        /// 6.14: `PG_referenced` is one access, the counter those after it; `PG_workingset` is a tier of its own.
        WorkingsetApart,
    }

    /// Of which shadows the multi-gen LRU says that they are recent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RecentRule {
        /// Those of the oldest generation that there is.
        OldestGeneration,
        /// 6.14: those of the last `MAX_NR_GENS` generations.
        LastGenerations,
    }

    /// Which recent refaults the multi-gen LRU counts as `workingset_activate`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ActivateRule {
        /// None: it counts what it protects from eviction.
        OnProtection,
        /// 6.5: all.
        Recent,
        /// 6.14: those in a page fault.
        InFault,
        /// 7.2: those in a page fault of folios that had been in the working set.
        WorkingsetInFault,
    }

    /// What is compared with the number of generation that a shadow of refault-distance-6 has room for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StoredSeq {
        /// As posted in v3: all of `min_seq`. Nothing is recent once it is 8.
        Whole,
        /// As intended: as many bits of it as were stored.
        StoredBits,
    }

    /// Which generation a folio enters that is not known to be active.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Placement {
        /// The oldest; anonymous ones the one after it.
        Oldest,
        /// 6.7: the one after the oldest if there are enough; anonymous ones the second youngest.
        SecondOldest,
        /// 6.14: counted from the youngest; what was in the working set enters a generation younger.
        Workingset,
        /// 7.2: what was accessed enters a generation younger too.
        Accessed,
    }

    /// How much is evicted from a lruvec, and who makes room for that by aging.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EvictionLoop {
        /// 6.1: kswapd ages all lruvecs of a node first; direct reclaim ages when it gets desperate.
        AgingApart,
        /// 6.3: the same loop for all. Memory cgroups take turns in a list of their own (memcg LRU).
        AgingWithin,
        /// 7.2: an amount is fixed first and evicted in small batches.
        FixedAmount,
    }

    /// When the multi-gen LRU has flushers write, so that it finds clean pages later. The classic LRU does where all that a batch has
    /// taken is dirty and nobody is writing it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FlusherRule {
        /// Never: who makes pages dirty does, or time.
        Never,
        /// 6.13: where a lruvec has been reclaimed from and all of files that was taken, also what was moved on for being dirty, is.
        AllTaken,
        /// 7.2: as the classic LRU.
        AllIsolated,
    }

    /// What the multi-gen LRU of one kernel does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GenFeatures {
        /// 6.7, 6.14, 7.2.
        pub placement: Placement,
        /// 6.3, 7.2.
        pub eviction_loop: EvictionLoop,
        /// 6.17: a batch of eviction looks at no more folios than the priority asks for, and what memory.low and memory.min
        /// protect counts less, as with the classic LRU.
        pub scans_what_is_asked: bool,
        /// 6.13, 7.2.
        pub wakes_flushers: FlusherRule,
        /// 7.1: reclaim for a memory cgroup stops at a lruvec once it has enough.
        pub stops_for_cgroups: bool,
        /// 6.14: generations of both types move on by themselves, aging runs as soon as only one more can be evicted, and
        /// types are compared by all their tiers.
        pub types_apart: bool,
        /// A folio under writeback, or a dirty one of a file, is moved on instead of being isolated. Not in 7.2, nor in
        /// late releases of 6.12.
        pub sorts_writeback: bool,
        /// 7.2: a page fault marks what it reads accessed instead of active.
        pub faults_mark_accessed: bool,
        /// 6.5: every refault counts as `workingset_refault`, not only recent ones.
        pub counts_all_refaults: bool,
        /// 6.7: a walk over groups ends with the generation of groups that it began with (`min_ttl_ms` needs it).
        pub walks_one_generation: bool,
        /// 6.7: a restored folio has all its accesses, not only `PG_workingset`, and one access less is needed for it.
        pub restores_refs: bool,
        /// 6.14.
        pub refs_scheme: RefsScheme,
        /// 6.14.
        pub recent_rule: RecentRule,
        /// 6.5, 6.14, 7.2.
        pub activate_rule: ActivateRule,
        /// refault-distance-4: without its memory cgroup no shadow is recent; before, the root's generations were asked.
        pub recent_needs_memcg: bool,
        /// refault-distance-6: shadows also keep `nonresident_age`, and a refault within the distance promotes.
        pub refault_distance: Option<StoredSeq>,
    }
}

/// What keeps folios in the order in which they are reclaimed. Where one does other than another, `crates/mm/src/lru/kind.rs` asks
/// which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lru {
    /// Active and inactive lists.
    Classic,
    /// Generations, as one kernel has them.
    MultiGen(GenFeatures),
}

impl Lru {
    /// The one in use on a kernel: the classic one where `lru_gen/enabled` says no.
    pub fn in_use(f: &ReclaimFeatures, lru_gen_enabled: bool) -> Lru {
        if lru_gen_enabled { f.lru } else { Lru::Classic }
    }
}

features! {
    /// What one kernel does to reclaim memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReclaimFeatures {
        /// refault-distance-1.
        pub distance_rule: DistanceRule,
        /// 6.2: a page of input or output costs as much as 32 pages looked at in vain, which cost too (`lru_note_cost`); before,
        /// only pages written or read again did.
        pub rotations_cost: bool,
        /// `nonresident_age` counts activations too: by access, by refault, and folios that reclaim puts back active.
        /// Not with refault-distance-1.
        pub ages_on_activation: bool,
        /// 7.1: shadows of anonymous pages leave bits to the count of users of their swap entry.
        pub anon_shadows_narrower: bool,
        /// 6.12: the classic LRU reads statistics of memory cgroups that may be seconds old; before, it has them brought up
        /// to date whenever enough has changed.
        pub reads_late_stats: bool,
        /// 7.1: what limits of memory cgroups have reclaimed counts as kswapd's or direct reclaim's too.
        pub counts_cgroup_reclaim: bool,
        /// 6.9: a kswapd that has freed nothing down to the lowest priority begins again, and reclaims anonymous pages even where
        /// there are many inactive pages of files (`cache_trim_mode`).
        pub retries_without_cache_trim: bool,
        /// 7.2: compaction wants no more free pages than 32, whatever the order (`compact_gap`).
        pub caps_compact_gap: bool,
    } with parts {
        /// The multi-gen LRU from 6.1 on, unless it is off.
        pub lru: Lru,
    }
}

impl GenFeatures {
    const G61: GenFeatures = GenFeatures {
        placement: Placement::Oldest,
        eviction_loop: EvictionLoop::AgingApart,
        scans_what_is_asked: false,
        wakes_flushers: FlusherRule::Never,
        stops_for_cgroups: false,
        types_apart: false,
        sorts_writeback: true,
        faults_mark_accessed: false,
        counts_all_refaults: false,
        walks_one_generation: false,
        restores_refs: false,
        refs_scheme: RefsScheme::WorkingsetCounts,
        recent_rule: RecentRule::OldestGeneration,
        activate_rule: ActivateRule::OnProtection,
        recent_needs_memcg: false,
        refault_distance: None,
    };
    const G63: GenFeatures = GenFeatures { eviction_loop: EvictionLoop::AgingWithin, ..GenFeatures::G61 };
    const G65: GenFeatures =
        GenFeatures { counts_all_refaults: true, activate_rule: ActivateRule::Recent, ..GenFeatures::G63 };
    /// Late releases of 6.1 have what 6.7 mended about page cache.
    const G61_LATE: GenFeatures =
        GenFeatures { placement: Placement::SecondOldest, restores_refs: true, ..GenFeatures::G61 };
    const G67: GenFeatures = GenFeatures {
        placement: Placement::SecondOldest,
        walks_one_generation: true,
        restores_refs: true,
        ..GenFeatures::G65
    };
    const G613: GenFeatures = GenFeatures { wakes_flushers: FlusherRule::AllTaken, ..GenFeatures::G67 };
    const G614: GenFeatures = GenFeatures {
        placement: Placement::Workingset,
        types_apart: true,
        refs_scheme: RefsScheme::WorkingsetApart,
        recent_rule: RecentRule::LastGenerations,
        activate_rule: ActivateRule::InFault,
        ..GenFeatures::G613
    };
    const G617: GenFeatures = GenFeatures { scans_what_is_asked: true, ..GenFeatures::G614 };
    const G71: GenFeatures = GenFeatures { stops_for_cgroups: true, ..GenFeatures::G617 };
    const G72: GenFeatures = GenFeatures {
        placement: Placement::Accessed,
        eviction_loop: EvictionLoop::FixedAmount,
        sorts_writeback: false,
        faults_mark_accessed: true,
        activate_rule: ActivateRule::WorkingsetInFault,
        wakes_flushers: FlusherRule::AllIsolated,
        ..GenFeatures::G71
    };
    const RFC4: GenFeatures = GenFeatures { recent_needs_memcg: true, ..GenFeatures::G65 };
    const RFC6_V3: GenFeatures =
        GenFeatures { refault_distance: Some(StoredSeq::Whole), ..GenFeatures::RFC4 };
    const RFC6: GenFeatures =
        GenFeatures { refault_distance: Some(StoredSeq::StoredBits), ..GenFeatures::RFC4 };
}

impl ReclaimFeatures {
    /// This kernel with the multi-gen LRU off.
    pub const fn classic(self) -> ReclaimFeatures {
        ReclaimFeatures { lru: Lru::Classic, ..self }
    }

    const fn with(self, generations: GenFeatures) -> ReclaimFeatures {
        ReclaimFeatures { lru: Lru::MultiGen(generations), ..self }
    }

    pub(crate) const G65: ReclaimFeatures = ReclaimFeatures {
        distance_rule: DistanceRule::WorkingsetSize,
        rotations_cost: true,
        ages_on_activation: true,
        anon_shadows_narrower: false,
        reads_late_stats: false,
        counts_cgroup_reclaim: false,
        retries_without_cache_trim: false,
        caps_compact_gap: false,
        lru: Lru::MultiGen(GenFeatures::G65),
    };
    pub(crate) const G61: ReclaimFeatures = ReclaimFeatures { rotations_cost: false, ..ReclaimFeatures::G62 };
    /// Late releases of 6.1.
    pub(crate) const G61_LATE: ReclaimFeatures = ReclaimFeatures::G61.with(GenFeatures::G61_LATE);
    pub(crate) const G62: ReclaimFeatures = ReclaimFeatures::G65.with(GenFeatures::G61);
    pub(crate) const G63: ReclaimFeatures = ReclaimFeatures::G65.with(GenFeatures::G63);
    pub(crate) const G67: ReclaimFeatures = ReclaimFeatures::G65.with(GenFeatures::G67);
    pub(crate) const G69: ReclaimFeatures =
        ReclaimFeatures { retries_without_cache_trim: true, ..ReclaimFeatures::G67 };
    pub(crate) const G612: ReclaimFeatures =
        ReclaimFeatures { reads_late_stats: true, ..ReclaimFeatures::G69 };
    pub(crate) const G613: ReclaimFeatures = ReclaimFeatures::G612.with(GenFeatures::G613);
    pub(crate) const G614: ReclaimFeatures = ReclaimFeatures::G612.with(GenFeatures::G614);
    pub(crate) const G617: ReclaimFeatures = ReclaimFeatures::G612.with(GenFeatures::G617);
    pub(crate) const G71: ReclaimFeatures = ReclaimFeatures {
        anon_shadows_narrower: true,
        counts_cgroup_reclaim: true,
        ..ReclaimFeatures::G612.with(GenFeatures::G71)
    };
    pub(crate) const G72: ReclaimFeatures =
        ReclaimFeatures { caps_compact_gap: true, ..ReclaimFeatures::G71.with(GenFeatures::G72) };
    pub(crate) const RFC1: ReclaimFeatures = ReclaimFeatures {
        distance_rule: DistanceRule::Throttled,
        ages_on_activation: false,
        ..ReclaimFeatures::G65
    };
    pub(crate) const RFC4: ReclaimFeatures = ReclaimFeatures::RFC1.with(GenFeatures::RFC4);
    pub(crate) const RFC6_V3: ReclaimFeatures = ReclaimFeatures::RFC1.with(GenFeatures::RFC6_V3);
    pub(crate) const RFC6: ReclaimFeatures = ReclaimFeatures::RFC1.with(GenFeatures::RFC6);
}
