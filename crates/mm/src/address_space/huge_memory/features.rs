//! What each version of the series changes in page faults on anonymous memory, and what later kernels
//! changed.
//!
//! ```text
//!              candidates                       search          allocation   charge fails   effect of `enabled`
//!   base       0                                                                            huge pages only
//!   v1         limit of the build .. 2          each            walk         OOM            another limit if eligible
//!   v2         architecture's .. 2              each            once         OOM            none
//!   v2-simple  architecture's                   it only         once         OOM            none
//!   v3         preferred, 3                     each            walk         OOM            "never" means order 0
//!   v4         preferred, 3                     each            walk         OOM            "never" means order 0
//!   v5         preferred, 3                     each            walk         OOM            "never" is about huge pages only
//!   v6 - 6.8   enabled by the administrator     each            walk         OOM            by size
//!   6.9        enabled by the administrator     each            walk         next order     by size
//! ```

use super::orders::Orders;
use crate::features::by_name::{FeatureValue, features, value_of, word_of, words_of};
use crate::swapfile::policy::ClusterSearch;
use machine::PageSize;

/// A folio size that is built into a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolioSize {
    /// log2 of the number of pages.
    Order(u8),
    /// A size in KiB, at least one page.
    Kib(u16),
    /// What arm64's contiguous bit covers: 64 KiB with pages of 4 KiB, 2 MiB with larger ones
    /// (`CONT_PTE_SHIFT`).
    Contpte,
}

impl FolioSize {
    /// The largest size that v4 and later allow without advice, and v1 and v2 on arm64.
    pub const UNHINTED: FolioSize = FolioSize::Kib(64);

    /// The order with pages of this size.
    pub fn order(self, page_size: PageSize) -> u8 {
        match (self, page_size) {
            (FolioSize::Order(order), _) => order,
            (FolioSize::Kib(kib), _) => (u64::from(kib) / page_size.kib()).max(1).ilog2() as u8,
            (FolioSize::Contpte, PageSize::Kib4) => 4,
            (FolioSize::Contpte, PageSize::Kib16) => 7,
            (FolioSize::Contpte, PageSize::Kib64) => 5,
        }
    }
}

/// The orders that a fault may use before its VMA is examined. Order 0 is always the last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Order 0 only.
    Zero,
    /// Every order from a built-in limit down (v1), or from the order that arm64 prefers, which has the same
    /// limits (v2). With [`Search::TopOnly`] only the largest.
    BuildLimit {
        /// The limit for VMAs not eligible for THP (`LARGE_ANON_FOLIO_NOTHP_ORDER_MAX`).
        plain: FolioSize,
        /// The limit for VMAs eligible for THP (`LARGE_ANON_FOLIO_THP_ORDER_MAX`).
        eligible: FolioSize,
    },
    /// Every order from the one that another architecture prefers down (v2).
    DownFrom(FolioSize),
    /// A fixed set, whatever the settings (test kernels).
    List(Orders),
    /// The preferred order, then `PAGE_ALLOC_COSTLY_ORDER` (v3 to v5).
    Preferred {
        /// The order that the architecture prefers (`arch_wants_pte_order`); `None` means 3.
        architecture: Option<FolioSize>,
        /// `transparent_hugepage/enabled` at `never` means order 0 (v3, v4).
        never_is_zero: bool,
        /// The limit for ineligible VMAs is a boot parameter (v3), otherwise 64 KiB.
        limit_at_boot: bool,
    },
    /// The orders that the administrator enabled in the directories of sizes (v7 and later). v6 has bit masks
    /// instead: a bit in `anon_orders` means `inherit`, and one in `anon_always_mask` as well means `always`.
    Enabled,
}

features! {
    /// Which candidates are checked against the VMA and the page table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Search {
        /// The largest only: if it does not fit, order 0.
        TopOnly,
        /// Each from the largest down, until one fits.
        PerCandidate,
    }

    /// What is tried if no block of an order is free.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Allocation {
        /// Order 0 at once.
        Once,
        /// The next smaller candidate.
        Walk,
    }

    /// When userfaultfd limits a fault to order 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UserfaultRule {
        /// If the PTE has the write-protect marker.
        ProtectedEntry,
        /// If the VMA is registered with a userfaultfd.
        Armed,
    }

    /// How hard the allocator tries for a large folio.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FolioGfp {
        /// As for an order-0 page, but without retries (`__GFP_NORETRY`) (v1).
        Ordinary,
        /// As `transparent_hugepage/defrag` says (v2).
        Defrag,
    }

    /// How swapped-out memory is swapped in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LargeSwapIn {
        /// Page by page.
        Never,
        /// As large folios if the device reads synchronously, bypassing the swap cache (6.12).
        PastCache,
        /// As large folios if the device reads synchronously, through the swap cache (7.0).
        ThroughCache,
    }

    /// The sysfs files of `transparent_hugepage` that a kernel has, by the release that added the latest of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ThpFiles {
        /// Those for huge pages only.
        Huge,
        /// The series: a directory for each size.
        Sizes,
        /// Counters of faults and swap-out.
        V6_10,
        /// Counters of splits and of shared memory.
        V6_11,
        /// Counters of existing folios; `shrink_underused`.
        V6_12,
        /// Counters of swap-in.
        V6_13,
        /// Counters of swap-in fallbacks.
        V6_14,
        /// Counters of collapses.
        V7_2,
    }
}

impl std::fmt::Display for ThpFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            ThpFiles::Huge => "the first of them",
            ThpFiles::Sizes => "6.8",
            ThpFiles::V6_10 => "6.10",
            ThpFiles::V6_11 => "6.11",
            ThpFiles::V6_12 => "6.12",
            ThpFiles::V6_13 => "6.13",
            ThpFiles::V6_14 => "6.14",
            ThpFiles::V7_2 => "7.2",
        })
    }
}

features! {
    /// What one kernel does with large anonymous folios.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FolioFeatures {
        /// The orders that a fault may use.
        pub candidates: Candidates,
        /// Which of them are checked against the VMA and the page table.
        pub search: Search,
        /// What is tried if no block of an order is free.
        pub allocation: Allocation,
        /// 6.9: an order that the memory cgroup has no room for is skipped, like one without a free block.
        pub charge_walks: bool,
        /// 6.9: consecutive pages of a folio are unmapped in one batch (`zap_present_folio_ptes`); before, each
        /// is removed from the folio's mapcounts by itself. v1 batches anonymous memory ("Batch-zap large
        /// anonymous folio PTE mappings"), which from v2 on became a series of its own; it still clears PTEs one
        /// by one and excludes files, a difference that is not modelled.
        pub unmaps_at_once: bool,
        /// 6.9: arm64 sets the contiguous bit in PTEs if a folio fills the range of one TLB entry (contpte).
        pub marks_contiguous: bool,
        /// 6.9: compaction migrates large folios that are smaller than the wanted block; before, it passes over them.
        pub compacts_large_folios: bool,
        /// When userfaultfd limits a fault to order 0.
        pub userfault: UserfaultRule,
        /// How hard the allocator tries.
        pub gfp: FolioGfp,
        /// 6.10: a partially mapped folio is split before it migrates, and its pages migrate one by one
        /// (`try_split_folio` in `migrate_pages_batch`); before, it migrates whole and leaves the deferred split
        /// queue. Read in the sources: 6.12 does so, 6.1 does not; that 6.10 is the first is a guess.
        pub splits_before_migration: bool,
        /// 7.1: a huge page that may be underused is queued for splitting again after it migrates; before,
        /// migration takes it off the queue (commit a2e0c0668a34 of April 2026, `migrate_folio_move`). Known from
        /// the mail of its backport to 6.12; that 7.1 is the first release is inferred from the date. The 6.12
        /// here is without it; the source of 6.12.117 has it.
        pub requeues_migrated: bool,
        /// 6.12: huge pages that are mostly zero are split (`shrink_underused`), and any split maps the zero page
        /// in place of pages of zeroes.
        pub splits_underused: bool,
        /// Which large folios are swapped out whole, and how swap space is searched for them.
        pub cluster_search: ClusterSearch,
        /// 6.12: pages of zeroes are recorded in a bitmap instead of being written to swap (`swap_zeromap`).
        pub zeromap: bool,
        /// How they are swapped in.
        pub swap_in: LargeSwapIn,
        /// 6.15: a store to a page of a large folio reuses the page if one address space has all mappings of the
        /// folio.
        pub reuses_exclusive: bool,
        /// 7.2: khugepaged collapses to orders below that of a huge page too.
        pub collapses_small: bool,
        /// 7.2: a memory cgroup's deferred split list is allocated with its first large folio.
        pub allocates_deferred_lists: bool,
        /// Which sysfs files there are.
        pub files: ThpFiles,
    }
}

/// The candidates of each kernel, by the version of the series that has them.
const CANDIDATES: &[(&str, Candidates)] = &[
    ("order_0", Candidates::Zero),
    ("v1", FolioFeatures::V1.candidates),
    ("v2_32k", FolioFeatures::V2_32K.candidates),
    ("v3", FolioFeatures::V3.candidates),
    ("v4", FolioFeatures::V4.candidates),
    ("v5", FolioFeatures::V5.candidates),
    ("enabled", Candidates::Enabled),
];

impl FeatureValue for Candidates {
    fn words() -> Vec<String> {
        words_of(CANDIDATES)
    }

    fn word(self) -> String {
        word_of(CANDIDATES, self)
    }

    fn of_word(word: &str) -> Option<Candidates> {
        value_of(CANDIDATES, word)
    }
}

impl FolioFeatures {
    /// 6.6, before the series.
    pub(crate) const BASE: FolioFeatures = FolioFeatures {
        candidates: Candidates::Zero,
        search: Search::PerCandidate,
        allocation: Allocation::Walk,
        charge_walks: false,
        unmaps_at_once: false,
        marks_contiguous: false,
        compacts_large_folios: false,
        userfault: UserfaultRule::Armed,
        gfp: FolioGfp::Defrag,
        splits_before_migration: false,
        requeues_migrated: false,
        splits_underused: false,
        cluster_search: ClusterSearch::WholeClusters,
        zeromap: false,
        swap_in: LargeSwapIn::Never,
        reuses_exclusive: false,
        collapses_small: false,
        allocates_deferred_lists: false,
        files: ThpFiles::Huge,
    };
    /// With the limits of arm64, the only architecture that set them.
    pub(crate) const V1: FolioFeatures = FolioFeatures {
        candidates: Candidates::BuildLimit { plain: FolioSize::UNHINTED, eligible: FolioSize::Contpte },
        unmaps_at_once: true,
        userfault: UserfaultRule::ProtectedEntry,
        gfp: FolioGfp::Ordinary,
        ..FolioFeatures::BASE
    };
    pub(crate) const V2: FolioFeatures = FolioFeatures {
        allocation: Allocation::Once,
        unmaps_at_once: false,
        gfp: FolioGfp::Defrag,
        ..FolioFeatures::V1
    };
    pub(crate) const V2_SIMPLE: FolioFeatures =
        FolioFeatures { search: Search::TopOnly, ..FolioFeatures::V2 };
    pub(crate) const V2_32K: FolioFeatures =
        FolioFeatures { candidates: Candidates::DownFrom(FolioSize::Kib(32)), ..FolioFeatures::V2 };
    pub(crate) const V3: FolioFeatures = FolioFeatures {
        candidates: Candidates::Preferred {
            architecture: Some(FolioSize::Contpte),
            never_is_zero: true,
            limit_at_boot: true,
        },
        allocation: Allocation::Walk,
        ..FolioFeatures::V2
    };
    pub(crate) const V4: FolioFeatures = FolioFeatures {
        candidates: Candidates::Preferred {
            architecture: Some(FolioSize::Contpte),
            never_is_zero: true,
            limit_at_boot: false,
        },
        ..FolioFeatures::V3
    };
    pub(crate) const V5: FolioFeatures = FolioFeatures {
        candidates: Candidates::Preferred {
            architecture: Some(FolioSize::Contpte),
            never_is_zero: false,
            limit_at_boot: false,
        },
        userfault: UserfaultRule::Armed,
        ..FolioFeatures::V4
    };
    /// v6 to v9 decide alike; only their sysfs files differ.
    pub(crate) const V6: FolioFeatures =
        FolioFeatures { candidates: Candidates::Enabled, files: ThpFiles::Sizes, ..FolioFeatures::V5 };
    pub(crate) const MAINLINE_6_8: FolioFeatures = FolioFeatures::V6;
    pub(crate) const MAINLINE_6_9: FolioFeatures = FolioFeatures {
        charge_walks: true,
        unmaps_at_once: true,
        marks_contiguous: true,
        compacts_large_folios: true,
        ..FolioFeatures::MAINLINE_6_8
    };
    pub(crate) const MAINLINE_6_10: FolioFeatures = FolioFeatures {
        splits_before_migration: true,
        cluster_search: ClusterSearch::CurrentOrFree,
        files: ThpFiles::V6_10,
        ..FolioFeatures::MAINLINE_6_9
    };
    pub(crate) const MAINLINE_6_11: FolioFeatures =
        FolioFeatures { files: ThpFiles::V6_11, ..FolioFeatures::MAINLINE_6_10 };
    pub(crate) const MAINLINE_6_12: FolioFeatures = FolioFeatures {
        splits_underused: true,
        cluster_search: ClusterSearch::FreeFirst,
        zeromap: true,
        swap_in: LargeSwapIn::PastCache,
        files: ThpFiles::V6_12,
        ..FolioFeatures::MAINLINE_6_11
    };
    pub(crate) const MAINLINE_6_13: FolioFeatures =
        FolioFeatures { files: ThpFiles::V6_13, ..FolioFeatures::MAINLINE_6_12 };
    pub(crate) const MAINLINE_6_14: FolioFeatures =
        FolioFeatures { files: ThpFiles::V6_14, ..FolioFeatures::MAINLINE_6_13 };
    pub(crate) const MAINLINE_6_15: FolioFeatures =
        FolioFeatures { reuses_exclusive: true, ..FolioFeatures::MAINLINE_6_14 };
    pub(crate) const MAINLINE_6_18: FolioFeatures =
        FolioFeatures { cluster_search: ClusterSearch::NonfullFirst, ..FolioFeatures::MAINLINE_6_15 };
    pub(crate) const MAINLINE_7_0: FolioFeatures =
        FolioFeatures { swap_in: LargeSwapIn::ThroughCache, ..FolioFeatures::MAINLINE_6_18 };
    pub(crate) const MAINLINE_7_1: FolioFeatures =
        FolioFeatures { requeues_migrated: true, ..FolioFeatures::MAINLINE_7_0 };
    pub(crate) const MAINLINE_7_2: FolioFeatures = FolioFeatures {
        collapses_small: true,
        allocates_deferred_lists: true,
        files: ThpFiles::V7_2,
        ..FolioFeatures::MAINLINE_7_1
    };
}
