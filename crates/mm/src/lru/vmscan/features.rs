//! How reclaim differs between kernels: in the releases from 6.1 on, and in the patches of "Refault distance
//! update with MGLRU support".
//!
//! ```text
//!   classic      distance <= working set ──────── patch 1: rule R, age counts evictions only
//!   multi-gen    6.1 ─► 6.5 ─► 6.7 ─► 6.14 ─► 6.17 ─► 7.1 ─► 7.2      mainline
//!                        └───► patch 4 ─► patch 6      shadows keep the age too, distance promotes
//! ```

use crate::features::by_name::features;

features! {
    /// When a refault distance is small enough for the page to be activated.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DistanceRule {
        /// Up to the size of the working set that the page would compete with.
        WorkingsetSize,
        /// refault-distance-1: smaller than the inactive lists if there are at least as many active pages as
        /// inactive ones, else smaller than the working set.
        Throttled,
    }

    /// How the accesses to a folio are counted in its flags.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RefsScheme {
        /// `PG_workingset` is the first access after `PG_referenced`, the counter those after it.
        WorkingsetCounts,
        /// 6.14: `PG_referenced` is the first access, the counter those after it; `PG_workingset` is a tier of
        /// its own.
        WorkingsetApart,
    }

    /// Which shadows count as recent with the multi-gen LRU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RecentRule {
        /// Those of a type's oldest generation.
        OldestGeneration,
        /// 6.14: those of the last `MAX_NR_GENS` generations.
        LastGenerations,
    }

    /// Which recent refaults count as `workingset_activate` with the multi-gen LRU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ActivateRule {
        /// None: pages that are protected from eviction count instead.
        OnProtection,
        /// 6.5: all of them.
        Recent,
        /// 6.14: those in a page fault.
        InFault,
        /// 7.2: those in a page fault, of folios that had been in the working set.
        WorkingsetInFault,
    }

    /// What the generation number in a shadow of refault-distance-6, which has few bits, is compared with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StoredSeq {
        /// As posted in v3: with all bits of `min_seq`, so that no shadow is recent once `min_seq` is 8.
        Whole,
        /// As intended: with as many low bits of `min_seq` as were stored.
        StoredBits,
    }

    /// Which generation a folio enters that is not active.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Placement {
        /// The oldest; anonymous folios enter the one after it.
        Oldest,
        /// 6.7: the one after the oldest, if there are enough generations; anonymous folios enter the second
        /// youngest.
        SecondOldest,
        /// 6.14: a fixed number of generations before the youngest; folios of the working set enter one
        /// generation younger.
        Workingset,
        /// 7.2: as in 6.14, but folios that have been accessed enter one generation younger too.
        Accessed,
    }

    /// How much is evicted from a lruvec, and who ages it when too little is cold.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EvictionLoop {
        /// 6.1: kswapd ages all lruvecs of a node before it evicts; direct reclaim ages once its priority has
        /// dropped.
        AgingApart,
        /// 6.3: one loop for kswapd and direct reclaim, which ages as it goes. Memory cgroups take turns (the
        /// memcg LRU).
        AgingWithin,
        /// 7.2: the number of pages to scan is computed first, and they are evicted in small batches.
        FixedAmount,
    }

    /// When the multi-gen LRU wakes flushers, so that it finds clean pages later. The classic LRU does so if all
    /// folios that a batch has isolated are dirty and none of them is under writeback.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FlusherRule {
        /// Never: only dirtying and the flushers' timers do.
        Never,
        /// 6.13: if all file pages that were taken from a lruvec are dirty, those included that were moved on
        /// instead of being isolated.
        AllTaken,
        /// 7.2: like the classic LRU.
        AllIsolated,
    }

    /// What the multi-gen LRU does in one kernel. The releases beside a field are those in which its value
    /// changes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GenFeatures {
        /// Folios of the oldest generation are told apart by how often they were accessed (tiers), and those of tiers that
        /// refault more than the first are protected. Off: all are of the first tier.
        pub tiers: bool,
        /// Refault rates decide which tiers are protected and which type is evicted (the PID controller, `positive_ctrl_err`).
        /// Off: no tier is protected, and the type follows from `vm.swappiness` alone, anonymous memory above 100.
        pub pid_controller: bool,
        /// Page-table walks pass over tables in which the walk before found few young PTEs. Off: they look at all that were used.
        pub bloom_filter: bool,
        /// The rmap walk of reclaim looks at the PTEs around a young one (`lru_gen_look_around`). Off: at that one only.
        pub look_around: bool,
        /// Which generation a folio enters that is not active.
        pub placement: Placement,
        /// How much is evicted from a lruvec, and who ages it when too little is cold.
        pub eviction_loop: EvictionLoop,
        /// 6.17: a batch of eviction looks at no more folios than the priority asks for, and pages that
        /// memory.low and memory.min protect do not count, as with the classic LRU.
        pub scans_what_is_asked: bool,
        /// When reclaim of dirty folios wakes flushers.
        pub wakes_flushers: FlusherRule,
        /// 7.1: reclaim for a memory cgroup leaves a lruvec as soon as it has enough.
        pub stops_for_cgroups: bool,
        /// 6.14: the generations of the two types advance independently, aging runs as soon as only one more
        /// generation can be evicted, and the types are compared by all their tiers.
        pub types_apart: bool,
        /// A folio under writeback, or a dirty one of a file, is moved to the next generation instead of being
        /// isolated. Not in 7.2, nor in late releases of 6.12.
        pub sorts_writeback: bool,
        /// 7.2: a page fault marks the folio that it makes or reads in as accessed instead of active.
        pub faults_mark_accessed: bool,
        /// 6.5: every refault counts as `workingset_refault`, not only the recent ones.
        pub counts_all_refaults: bool,
        /// 6.7: a walk over memcgs ends with the generation of memcgs that it began with, for the sake of
        /// `min_ttl_ms`.
        pub walks_one_generation: bool,
        /// 6.7: a restored folio gets its full counter of accesses back and not only `PG_workingset`, and one
        /// access less is enough for it.
        pub restores_refs: bool,
        /// How the accesses to a folio are counted in its flags.
        pub refs_scheme: RefsScheme,
        /// Which shadows count as recent with the multi-gen LRU.
        pub recent_rule: RecentRule,
        /// Which recent refaults count as `workingset_activate` with the multi-gen LRU.
        pub activate_rule: ActivateRule,
        /// refault-distance-4: no shadow is recent whose memory cgroup is gone; before, it was compared with the
        /// generations of the root.
        pub recent_needs_memcg: bool,
        /// refault-distance-6: shadows also keep `nonresident_age`, and a refault within the distance promotes
        /// the folio.
        pub refault_distance: Option<StoredSeq>,
    }
}

/// The data structure that orders folios for reclaim. `crates/mm/src/lru/kind.rs` has all places where the
/// two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lru {
    /// Active and inactive lists.
    Classic,
    /// Generations, with the features of one kernel.
    MultiGen(GenFeatures),
}

impl Lru {
    /// The LRU in use on a kernel: the classic one if `lru_gen/enabled` is off.
    pub fn in_use(f: &ReclaimFeatures, lru_gen_enabled: bool) -> Lru {
        if lru_gen_enabled { f.lru } else { Lru::Classic }
    }
}

features! {
    /// How much a write to memory.reclaim asks reclaim for at a time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProactiveBatch {
        /// All that is left to be reclaimed, which takes more than was asked for.
        Whole,
        /// 6.6: 32 pages, which is exact, and slow.
        SwapClusterMax,
        /// 6.9: a quarter of what is left.
        Quarter,
    }
}

features! {
    /// How one kernel reclaims memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReclaimFeatures {
        /// When a refault distance is small enough for the page to be activated.
        pub distance_rule: DistanceRule,
        /// 6.2: besides pages written or read again, each of which counts as 32, pages that were scanned in vain
        /// cost something (`lru_note_cost`).
        pub rotations_cost: bool,
        /// Activations advance `nonresident_age` too: by access, by refault, and of folios that reclaim puts back
        /// as active. Not with refault-distance-1.
        pub ages_on_activation: bool,
        /// 7.1: shadows of anonymous pages have fewer bits, as the count of a swap entry's users takes some.
        pub anon_shadows_narrower: bool,
        /// 6.12: the classic LRU reads statistics of memory cgroups that may be seconds old; before, it flushes
        /// them if enough has changed.
        pub reads_late_stats: bool,
        /// 6.11: direct reclaim stops at the memory cgroup where it has enough, and the next call goes on with the one after it; before,
        /// each call takes from all. With the multi-gen LRU it concerns reclaim for a cgroup's limit (`mem_cgroup_iter`).
        pub incremental_iteration: bool,
        /// 7.1: pages reclaimed for the limit of a memory cgroup count as kswapd's or direct reclaim's too.
        pub counts_cgroup_reclaim: bool,
        /// 6.9: a kswapd that has reclaimed nothing down to the lowest priority starts again, and then takes
        /// anonymous pages even if there are many inactive file pages (without `cache_trim_mode`).
        pub retries_without_cache_trim: bool,
        /// 7.2: compaction wants at most 32 free pages, whatever the order (`compact_gap`).
        pub caps_compact_gap: bool,
        /// 6.6: `vm.drop_caches` drains the folio batches of all CPUs first; before, what is in them stays.
        pub drop_caches_drains: bool,
        /// What a write to memory.reclaim does at a time.
        pub proactive_batch: ProactiveBatch,
    } with parts {
        /// The LRU of the kernel unless `lru_gen/enabled` is off: the multi-gen LRU, from 6.1 on.
        pub lru: Lru,
    }
}

impl GenFeatures {
    /// 6.1 as first released, and 6.2.
    const MAINLINE_6_1_0: GenFeatures = GenFeatures {
        tiers: true,
        pid_controller: true,
        bloom_filter: true,
        look_around: true,
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
    const MAINLINE_6_3: GenFeatures =
        GenFeatures { eviction_loop: EvictionLoop::AgingWithin, ..GenFeatures::MAINLINE_6_1_0 };
    const MAINLINE_6_5: GenFeatures = GenFeatures {
        counts_all_refaults: true,
        activate_rule: ActivateRule::Recent,
        ..GenFeatures::MAINLINE_6_3
    };
    /// Late releases of 6.1 have the changes of 6.7 that concern the page cache.
    const MAINLINE_6_1: GenFeatures = GenFeatures {
        placement: Placement::SecondOldest,
        restores_refs: true,
        ..GenFeatures::MAINLINE_6_1_0
    };
    const MAINLINE_6_7: GenFeatures = GenFeatures {
        placement: Placement::SecondOldest,
        walks_one_generation: true,
        restores_refs: true,
        ..GenFeatures::MAINLINE_6_5
    };
    const MAINLINE_6_13: GenFeatures =
        GenFeatures { wakes_flushers: FlusherRule::AllTaken, ..GenFeatures::MAINLINE_6_7 };
    const MAINLINE_6_14: GenFeatures = GenFeatures {
        placement: Placement::Workingset,
        types_apart: true,
        refs_scheme: RefsScheme::WorkingsetApart,
        recent_rule: RecentRule::LastGenerations,
        activate_rule: ActivateRule::InFault,
        ..GenFeatures::MAINLINE_6_13
    };
    const MAINLINE_6_17: GenFeatures =
        GenFeatures { scans_what_is_asked: true, ..GenFeatures::MAINLINE_6_14 };
    const MAINLINE_7_1: GenFeatures = GenFeatures { stops_for_cgroups: true, ..GenFeatures::MAINLINE_6_17 };
    const MAINLINE_7_2: GenFeatures = GenFeatures {
        placement: Placement::Accessed,
        eviction_loop: EvictionLoop::FixedAmount,
        sorts_writeback: false,
        faults_mark_accessed: true,
        activate_rule: ActivateRule::WorkingsetInFault,
        wakes_flushers: FlusherRule::AllIsolated,
        ..GenFeatures::MAINLINE_7_1
    };
    const REFAULT_DISTANCE_4: GenFeatures =
        GenFeatures { recent_needs_memcg: true, ..GenFeatures::MAINLINE_6_5 };
    const REFAULT_DISTANCE_6_V3: GenFeatures =
        GenFeatures { refault_distance: Some(StoredSeq::Whole), ..GenFeatures::REFAULT_DISTANCE_4 };
    const REFAULT_DISTANCE_6: GenFeatures =
        GenFeatures { refault_distance: Some(StoredSeq::StoredBits), ..GenFeatures::REFAULT_DISTANCE_4 };
}

impl ReclaimFeatures {
    /// The same kernel with the multi-gen LRU off.
    pub const fn classic(self) -> ReclaimFeatures {
        ReclaimFeatures { lru: Lru::Classic, ..self }
    }

    const fn with(self, generations: GenFeatures) -> ReclaimFeatures {
        ReclaimFeatures { lru: Lru::MultiGen(generations), ..self }
    }

    pub(crate) const MAINLINE_6_5: ReclaimFeatures = ReclaimFeatures {
        distance_rule: DistanceRule::WorkingsetSize,
        rotations_cost: true,
        ages_on_activation: true,
        anon_shadows_narrower: false,
        reads_late_stats: false,
        incremental_iteration: false,
        counts_cgroup_reclaim: false,
        retries_without_cache_trim: false,
        caps_compact_gap: false,
        drop_caches_drains: false,
        proactive_batch: ProactiveBatch::Whole,
        lru: Lru::MultiGen(GenFeatures::MAINLINE_6_5),
    };
    /// 6.1 as first released.
    pub(crate) const MAINLINE_6_1_0: ReclaimFeatures =
        ReclaimFeatures { rotations_cost: false, ..ReclaimFeatures::MAINLINE_6_2 };
    /// Late releases of 6.1.
    pub(crate) const MAINLINE_6_1: ReclaimFeatures =
        ReclaimFeatures::MAINLINE_6_1_0.with(GenFeatures::MAINLINE_6_1);
    pub(crate) const MAINLINE_6_2: ReclaimFeatures =
        ReclaimFeatures::MAINLINE_6_5.with(GenFeatures::MAINLINE_6_1_0);
    pub(crate) const MAINLINE_6_3: ReclaimFeatures =
        ReclaimFeatures::MAINLINE_6_5.with(GenFeatures::MAINLINE_6_3);
    pub(crate) const MAINLINE_6_6: ReclaimFeatures =
        ReclaimFeatures { drop_caches_drains: true, ..ReclaimFeatures::MAINLINE_6_5 };
    pub(crate) const MAINLINE_6_7: ReclaimFeatures = ReclaimFeatures {
        proactive_batch: ProactiveBatch::SwapClusterMax,
        ..ReclaimFeatures::MAINLINE_6_6.with(GenFeatures::MAINLINE_6_7)
    };
    pub(crate) const MAINLINE_6_9: ReclaimFeatures = ReclaimFeatures {
        retries_without_cache_trim: true,
        proactive_batch: ProactiveBatch::Quarter,
        ..ReclaimFeatures::MAINLINE_6_7
    };
    pub(crate) const MAINLINE_6_11: ReclaimFeatures =
        ReclaimFeatures { incremental_iteration: true, ..ReclaimFeatures::MAINLINE_6_9 };
    pub(crate) const MAINLINE_6_12: ReclaimFeatures =
        ReclaimFeatures { reads_late_stats: true, ..ReclaimFeatures::MAINLINE_6_11 };
    pub(crate) const MAINLINE_6_13: ReclaimFeatures =
        ReclaimFeatures::MAINLINE_6_12.with(GenFeatures::MAINLINE_6_13);
    pub(crate) const MAINLINE_6_14: ReclaimFeatures =
        ReclaimFeatures::MAINLINE_6_12.with(GenFeatures::MAINLINE_6_14);
    pub(crate) const MAINLINE_6_17: ReclaimFeatures =
        ReclaimFeatures::MAINLINE_6_12.with(GenFeatures::MAINLINE_6_17);
    pub(crate) const MAINLINE_7_1: ReclaimFeatures = ReclaimFeatures {
        anon_shadows_narrower: true,
        counts_cgroup_reclaim: true,
        ..ReclaimFeatures::MAINLINE_6_12.with(GenFeatures::MAINLINE_7_1)
    };
    pub(crate) const MAINLINE_7_2: ReclaimFeatures = ReclaimFeatures {
        caps_compact_gap: true,
        ..ReclaimFeatures::MAINLINE_7_1.with(GenFeatures::MAINLINE_7_2)
    };
    pub(crate) const REFAULT_DISTANCE_1: ReclaimFeatures = ReclaimFeatures {
        distance_rule: DistanceRule::Throttled,
        ages_on_activation: false,
        ..ReclaimFeatures::MAINLINE_6_5
    };
    pub(crate) const REFAULT_DISTANCE_4: ReclaimFeatures =
        ReclaimFeatures::REFAULT_DISTANCE_1.with(GenFeatures::REFAULT_DISTANCE_4);
    pub(crate) const REFAULT_DISTANCE_6_V3: ReclaimFeatures =
        ReclaimFeatures::REFAULT_DISTANCE_1.with(GenFeatures::REFAULT_DISTANCE_6_V3);
    pub(crate) const REFAULT_DISTANCE_6: ReclaimFeatures =
        ReclaimFeatures::REFAULT_DISTANCE_1.with(GenFeatures::REFAULT_DISTANCE_6);
}
