//! The features of a kernel as values: every patch of the modelled series is a field or value here, never a
//! fork of the code.
//!
//! ```text
//!   Features ── the page allocator's own fields: "PCP high auto-tuning" as posted and merged, and later changes
//!            ├─ hugetlb: HugetlbFeatures      "Batch hugetlb vmemmap modification operations", and later changes
//!            ├─ reclaim: ReclaimFeatures      "Refault distance update with MGLRU support", and later changes
//!            ├─ readahead: ReadaheadFeatures  changes of readahead between releases
//!            ├─ numa: NumaFeatures            "sched/numa: Enhance vma scanning", and later changes
//!            ├─ sched: SchedFeatures          the scheduler's values for threads on several nodes
//!            ├─ folios: FolioFeatures         "variable-order, large folios for anonymous memory", and later changes
//!            ├─ zswap: ZswapFeatures          compressed swap in memory, between releases
//!            └─ damon: DamonFeatures          paging out what is not accessed, between releases
//! ```
//!
//! The named sets of features are the variants in [`crate::series`].

pub mod by_name;
pub mod sched;

use crate::address_space::huge_memory::features::FolioFeatures;
use crate::damon::policy::DamonFeatures;
use crate::hugetlb::features::HugetlbFeatures;
use crate::lru::vmscan::features::ReclaimFeatures;
use crate::numa::features::NumaFeatures;
use crate::page_cache::readahead::policy::ReadaheadFeatures;
use crate::zswap::policy::ZswapFeatures;
use by_name::features;
use sched::SchedFeatures;

features! {
    /// Cache size from which a CPU's pagesets get `PCPF_FREE_HIGH_BATCH` (patch 3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CacheRule {
        /// As posted: all data caches of a CPU added up hold more than 4 batches.
        SumOfLevelsOverFourBatches,
        /// As merged: the slice of the last-level cache holds more than 3 batches.
        LastLevelOverThreeBatches,
    }
}

/// How a pageset remembers a run of frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMemory {
    /// `free_factor`: log2 of the number of batches to free next. Bulk frees raise it, allocations lower it.
    Factor {
        /// Whether the factor stops at `PCP_BATCH_SCALE_MAX` (patch 4).
        capped: bool,
    },
    /// `free_count`: pages freed lately; every allocation from the pageset halves it (patch 10).
    Count,
}

features! {
    /// How `vmstat_update` lowers a grown `pcp->high`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Decay {
        /// A fifth (patch 7).
        Fifth,
        /// A fifth, but no more than `count_min`, the pages that were not used since the last decay (patch 9).
        FifthUpToUnused,
        /// An eighth (merged).
        Eighth,
    }

    /// The features of one kernel: those of the page allocator, and a set for each other mechanism.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features {
        /// Patch 1: a high-order free drains the pageset only if the free before it was high-order too
        /// (`PCPF_PREV_FREE_HIGH_ORDER`).
        pub consecutive_high_order_frees: bool,
        /// Patch 3: with a large cache, the pageset keeps up to a batch before it drains
        /// (`PCPF_FREE_HIGH_BATCH`).
        pub free_high_batch: Option<CacheRule>,
        /// Patches 4 and 10: how bulk frees grow with consecutive frees.
        pub free_memory: FreeMemory,
        /// Patch 5: refills grow with consecutive allocations (`alloc_factor`).
        pub scale_refills: bool,
        /// Patch 6: decisions read `high_min`, and the sysctl sets `high_min` and `high_max` to the same value.
        pub high_bounds: bool,
        /// Patch 7: `pcp->high` is tuned between its bounds. `None`: it is fixed.
        pub auto_tuning: Option<Decay>,
        /// Patch 8: `ZONE_BELOW_HIGH` instead of `ZONE_RECLAIM_ACTIVE` keeps `pcp->high` from growing, and frees
        /// lower `pcp->high` while it is set.
        pub below_high: bool,
        /// Review: an allocation skips the high-watermark test while `ZONE_BELOW_HIGH` is set already.
        pub below_high_tested_once: bool,
        /// Review: `pcp->high` shrinks by at least a batch, `max(free_count, batch)`.
        pub shrink_at_least_batch: bool,
        /// 6.7: the vmstat worker stays queued while a remote pageset waits to expire.
        pub vmstat_requeued_while_expiring: bool,
        /// 6.10: pagesets have two lists of pageblock order, movable and other.
        pub two_huge_lists: bool,
        /// 6.10: draining a zone's pagesets releases the pageset lock every `batch << 5` pages.
        pub drain_zone_chunked: bool,
        /// 6.10: a free block is always on the list of its pageblock's migrate type.
        pub strict_freelists: bool,
        /// 6.10: bulk freeing reads the migrate type of the pageblock, not the one remembered when the page was
        /// freed.
        pub pageblock_type_on_bulk_free: bool,
        /// Capacity of a folio batch: 15, from 6.9 on 31 (`PAGEVEC_SIZE`).
        pub folio_batch: u8 => 1..=31,
        /// 6.5: only allocations with `__GFP_KSWAPD_RECLAIM` wake kswapd for a zone with boosted watermarks;
        /// before, all do.
        pub boost_wakes_if_asked: bool,
        /// Until 6.18: a run of kswapd for boosted watermarks that reclaims nothing counts as a failure.
        pub boosted_runs_fail: bool,
        /// 6.12: watermark tests subtract `nr_free_highatomic` instead of `nr_reserved_highatomic`.
        pub free_highatomic_counter: bool,
        /// 6.15: fallback claims whole pageblocks first and steals single blocks last, and remembers which of
        /// them worked.
        pub claim_then_steal: bool,
        /// 6.16: draining on high-order frees starts at `free_count >= batch + high_min / 2`.
        pub late_free_high: bool,
        /// 6.18: the first pass over the zonelist avoids nodes whose kswapd is running.
        pub avoid_reclaiming_nodes: bool,
        /// 6.19, and before it the stable series of 6.18: decay releases the locks after every batch, and a batch
        /// ends with a whole block.
        pub chunked_decay: bool,
        /// 6.19: bulk frees release the locks after every batch.
        pub chunked_bulk_free: bool,
        /// 6.13: /proc/zoneinfo prints `high_min` and `high_max` of each CPU's pageset.
        pub zoneinfo_prints_bounds: bool,
    } with parts {
        /// Pools of huge pages and their vmemmap.
        pub hugetlb: HugetlbFeatures,
        /// Reclaim and refaults.
        pub reclaim: ReclaimFeatures,
        pub readahead: ReadaheadFeatures,
        pub numa: NumaFeatures,
        /// The scheduler's placement of threads.
        pub sched: SchedFeatures,
        pub folios: FolioFeatures,
        pub zswap: ZswapFeatures,
        pub damon: DamonFeatures,
    }
}

impl Features {
    pub(crate) const BASE: Features = Features {
        consecutive_high_order_frees: false,
        free_high_batch: None,
        free_memory: FreeMemory::Factor { capped: false },
        scale_refills: false,
        high_bounds: false,
        auto_tuning: None,
        below_high: false,
        below_high_tested_once: false,
        shrink_at_least_batch: false,
        vmstat_requeued_while_expiring: false,
        two_huge_lists: false,
        drain_zone_chunked: false,
        strict_freelists: false,
        pageblock_type_on_bulk_free: false,
        folio_batch: 15,
        boost_wakes_if_asked: true,
        boosted_runs_fail: true,
        free_highatomic_counter: false,
        claim_then_steal: false,
        late_free_high: false,
        avoid_reclaiming_nodes: false,
        chunked_decay: false,
        chunked_bulk_free: false,
        zoneinfo_prints_bounds: false,
        hugetlb: HugetlbFeatures::BASE,
        reclaim: ReclaimFeatures::MAINLINE_6_6,
        readahead: ReadaheadFeatures::MAINLINE_6_6,
        numa: NumaFeatures::MAINLINE_6_6,
        sched: SchedFeatures::MAINLINE_6_1,
        folios: FolioFeatures::BASE,
        zswap: ZswapFeatures::MAINLINE_6_5,
        damon: DamonFeatures::MAINLINE_6_4,
    };
    pub(crate) const PATCH1: Features = Features { consecutive_high_order_frees: true, ..Features::BASE };
    pub(crate) const PATCH3: Features =
        Features { free_high_batch: Some(CacheRule::SumOfLevelsOverFourBatches), ..Features::PATCH1 };
    pub(crate) const PATCH4: Features =
        Features { free_memory: FreeMemory::Factor { capped: true }, ..Features::PATCH3 };
    pub(crate) const PATCH5: Features = Features { scale_refills: true, ..Features::PATCH4 };
    pub(crate) const PATCH6: Features = Features { high_bounds: true, ..Features::PATCH5 };
    pub(crate) const PATCH7: Features = Features { auto_tuning: Some(Decay::Fifth), ..Features::PATCH6 };
    pub(crate) const PATCH8: Features = Features { below_high: true, ..Features::PATCH7 };
    pub(crate) const PATCH9: Features =
        Features { auto_tuning: Some(Decay::FifthUpToUnused), ..Features::PATCH8 };
    pub(crate) const PATCH10: Features = Features { free_memory: FreeMemory::Count, ..Features::PATCH9 };
    pub(crate) const MAINLINE_6_1: Features = Features {
        boost_wakes_if_asked: false,
        reclaim: ReclaimFeatures::MAINLINE_6_1,
        readahead: ReadaheadFeatures::MAINLINE_6_1,
        numa: NumaFeatures::MAINLINE_6_1,
        zswap: ZswapFeatures::MAINLINE_6_1,
        damon: DamonFeatures::MAINLINE_6_1,
        ..Features::BASE
    };
    /// Unlike 6.1.y, this release was never given the 6.7 fixes of the multi-gen LRU.
    pub(crate) const MAINLINE_6_2: Features = Features {
        reclaim: ReclaimFeatures::MAINLINE_6_2,
        numa: NumaFeatures::BASE,
        ..Features::MAINLINE_6_1
    };
    pub(crate) const MAINLINE_6_3: Features =
        Features { reclaim: ReclaimFeatures::MAINLINE_6_3, ..Features::MAINLINE_6_2 };
    pub(crate) const MAINLINE_6_4: Features = Features {
        numa: NumaFeatures::VMA_SCANNING_4,
        damon: DamonFeatures::MAINLINE_6_4,
        ..Features::MAINLINE_6_3
    };
    pub(crate) const MAINLINE_6_5: Features = Features {
        reclaim: ReclaimFeatures::MAINLINE_6_5,
        readahead: ReadaheadFeatures::MAINLINE_6_1,
        numa: NumaFeatures::VMA_SCANNING_4,
        ..Features::BASE
    };
    pub(crate) const MAINLINE_6_7: Features = Features {
        free_high_batch: Some(CacheRule::LastLevelOverThreeBatches),
        auto_tuning: Some(Decay::Eighth),
        below_high_tested_once: true,
        shrink_at_least_batch: true,
        vmstat_requeued_while_expiring: true,
        hugetlb: HugetlbFeatures::MAINLINE_6_7,
        readahead: ReadaheadFeatures::MAINLINE_6_7,
        reclaim: ReclaimFeatures::MAINLINE_6_7,
        numa: NumaFeatures::MAINLINE_6_7,
        ..Features::PATCH10
    };
    pub(crate) const MAINLINE_6_8: Features = Features {
        folios: FolioFeatures::MAINLINE_6_8,
        zswap: ZswapFeatures::MAINLINE_6_8,
        readahead: ReadaheadFeatures::MAINLINE_6_8,
        numa: NumaFeatures::MAINLINE_6_8,
        ..Features::MAINLINE_6_7
    };
    pub(crate) const MAINLINE_6_9: Features = Features {
        folio_batch: 31,
        hugetlb: HugetlbFeatures::MAINLINE_6_9,
        reclaim: ReclaimFeatures::MAINLINE_6_9,
        folios: FolioFeatures::MAINLINE_6_9,
        zswap: ZswapFeatures::MAINLINE_6_9,
        readahead: ReadaheadFeatures::MAINLINE_6_9,
        ..Features::MAINLINE_6_8
    };
    pub(crate) const MAINLINE_6_10: Features = Features {
        two_huge_lists: true,
        drain_zone_chunked: true,
        strict_freelists: true,
        pageblock_type_on_bulk_free: true,
        hugetlb: HugetlbFeatures::MAINLINE_6_10,
        folios: FolioFeatures::MAINLINE_6_10,
        readahead: ReadaheadFeatures::MAINLINE_6_10,
        numa: NumaFeatures::MAINLINE_6_10,
        damon: DamonFeatures::MAINLINE_6_10,
        ..Features::MAINLINE_6_9
    };
    pub(crate) const MAINLINE_6_11: Features = Features {
        reclaim: ReclaimFeatures::MAINLINE_6_11,
        folios: FolioFeatures::MAINLINE_6_11,
        readahead: ReadaheadFeatures::MAINLINE_6_11,
        damon: DamonFeatures::MAINLINE_6_11,
        ..Features::MAINLINE_6_10
    };
    /// Includes what the stable series took from later kernels up to 6.12.95.
    pub(crate) const MAINLINE_6_12: Features = Features {
        free_highatomic_counter: true,
        reclaim: ReclaimFeatures::MAINLINE_6_12,
        readahead: ReadaheadFeatures::MAINLINE_6_13,
        numa: NumaFeatures::MAINLINE_6_12,
        hugetlb: HugetlbFeatures::MAINLINE_6_12,
        folios: FolioFeatures::MAINLINE_6_12,
        zswap: ZswapFeatures::MAINLINE_6_12,
        ..Features::MAINLINE_6_11
    };
    pub(crate) const MAINLINE_6_13: Features = Features {
        zoneinfo_prints_bounds: true,
        reclaim: ReclaimFeatures::MAINLINE_6_13,
        folios: FolioFeatures::MAINLINE_6_13,
        zswap: ZswapFeatures::MAINLINE_6_13,
        ..Features::MAINLINE_6_12
    };
    pub(crate) const MAINLINE_6_14: Features = Features {
        reclaim: ReclaimFeatures::MAINLINE_6_14,
        readahead: ReadaheadFeatures::MAINLINE_6_14,
        folios: FolioFeatures::MAINLINE_6_14,
        ..Features::MAINLINE_6_13
    };
    pub(crate) const MAINLINE_6_15: Features = Features {
        claim_then_steal: true,
        hugetlb: HugetlbFeatures::MAINLINE_6_15,
        folios: FolioFeatures::MAINLINE_6_15,
        ..Features::MAINLINE_6_14
    };
    pub(crate) const MAINLINE_6_16: Features =
        Features { late_free_high: true, numa: NumaFeatures::MAINLINE_6_16, ..Features::MAINLINE_6_15 };
    pub(crate) const MAINLINE_6_17: Features = Features {
        readahead: ReadaheadFeatures::MAINLINE_6_17,
        reclaim: ReclaimFeatures::MAINLINE_6_17,
        damon: DamonFeatures::MAINLINE_6_17,
        ..Features::MAINLINE_6_16
    };
    pub(crate) const MAINLINE_6_18: Features = Features {
        avoid_reclaiming_nodes: true,
        chunked_decay: true,
        hugetlb: HugetlbFeatures::MAINLINE_6_18,
        readahead: ReadaheadFeatures::MAINLINE_6_18,
        numa: NumaFeatures::MAINLINE_6_18,
        folios: FolioFeatures::MAINLINE_6_18,
        zswap: ZswapFeatures::MAINLINE_6_18,
        ..Features::MAINLINE_6_17
    };
    pub(crate) const MAINLINE_6_19: Features = Features {
        chunked_bulk_free: true,
        boosted_runs_fail: false,
        numa: NumaFeatures::MAINLINE_6_19,
        ..Features::MAINLINE_6_18
    };
    pub(crate) const MAINLINE_7_0: Features =
        Features { folios: FolioFeatures::MAINLINE_7_0, ..Features::MAINLINE_6_19 };
    pub(crate) const MAINLINE_7_1: Features = Features {
        hugetlb: HugetlbFeatures::MAINLINE_7_1,
        reclaim: ReclaimFeatures::MAINLINE_7_1,
        folios: FolioFeatures::MAINLINE_7_1,
        ..Features::MAINLINE_7_0
    };
    pub(crate) const MAINLINE_7_2: Features = Features {
        reclaim: ReclaimFeatures::MAINLINE_7_2,
        folios: FolioFeatures::MAINLINE_7_2,
        ..Features::MAINLINE_7_1
    };
    /// 7.2 in its large folios, 6.19 in everything else.
    pub(crate) const FOLIOS_7_2: Features =
        Features { folios: FolioFeatures::MAINLINE_7_2, ..Features::MAINLINE_6_19 };
}
