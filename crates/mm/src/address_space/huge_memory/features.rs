//! What each version of the series changes in page faults of anonymous memory, and what later kernels changed.
//!
//! ```text
//!              candidates                       search          allocation   charge fails   what the knob says
//!   base       0                                                                            transparent huge pages only
//!   v1         limit of the build .. 2          each            walk         OOM            other limit if eligible
//!   v2         architecture's .. 2              each            once         OOM            nothing
//!   v2-simple  architecture's                   it alone        once         OOM            nothing
//!   v3         preferred, 3                     each            walk         OOM            "never" means never
//!   v4         the same                         each            walk         OOM            the same
//!   v5         the same                         each            walk         OOM            "never" still means large
//!   v6 - 6.8   what the administrator enabled   each            walk         OOM            by size
//!   6.9        the same                         each            walk         next order     by size
//! ```

use super::orders::Orders;
use crate::swapfile::policy::ClusterSearch;
use machine::PageSize;

/// A size of folios that is built into a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolioSize {
    /// So many pages, as log2.
    Order(u8),
    /// So many KiB, and at least a page.
    Kib(u16),
    /// What arm64's contiguous bit makes one translation of: 64 KiB with pages of 4 KiB, 2 MiB with larger ones
    /// (`CONT_PTE_SHIFT`).
    Contpte,
}

impl FolioSize {
    /// The most that v4 and later allow where nobody asked for more, and v1 and v2 for arm64.
    pub const UNHINTED: FolioSize = FolioSize::Kib(64);

    /// Its order with pages of this size.
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

/// Which orders a fault may have, before its VMA is looked at; order 0 always is the last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Order 0 alone.
    Zero,
    /// Every order from a limit of the build down (v1), or from what arm64 wants down, which is by the same limits (v2).
    /// A kernel that looks at the largest alone has no other.
    BuildLimit {
        /// The limit (`LARGE_ANON_FOLIO_NOTHP_ORDER_MAX`).
        plain: FolioSize,
        /// The limit where transparent huge pages are eligible (`LARGE_ANON_FOLIO_THP_ORDER_MAX`).
        eligible: FolioSize,
    },
    /// Every order from what another architecture wants down (v2).
    DownFrom(FolioSize),
    /// These, whatever the settings say (test kernels).
    List(Orders),
    /// The preferred order, then `PAGE_ALLOC_COSTLY_ORDER` (v3 to v5).
    Preferred {
        /// What the architecture wants (`arch_wants_pte_order`); without an answer it is 3.
        architecture: Option<FolioSize>,
        /// The knob of transparent huge pages at `never` means order 0 (v3, v4).
        never_is_zero: bool,
        /// Where they are not eligible a boot parameter limits the order (v3); else 64 KiB do.
        limit_at_boot: bool,
    },
    /// The orders that the administrator enabled, as directories of sizes (v7); v6 has them as bits, where a bit of
    /// `anon_orders` is `inherit`, and one that `anon_always_mask` has too is `always`.
    Enabled,
}

/// Which candidates are held against the VMA and the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The largest alone: if it does not fit, order 0.
    TopOnly,
    /// Each, until one fits.
    PerCandidate,
}

/// What follows when no block of an order is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Order 0.
    Once,
    /// The next candidate.
    Walk,
}

/// What userfaultfd makes of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserfaultRule {
    /// Order 0 where the entry carries the write-protect bit.
    ProtectedEntry,
    /// Order 0 where the VMA is registered.
    Armed,
}

/// How far the allocator goes for a large folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolioGfp {
    /// As for a single page, but once (`__GFP_NORETRY`) (v1).
    Ordinary,
    /// As `transparent_hugepage/defrag` says (v2).
    Defrag,
}

/// How swapped-out memory comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeSwapIn {
    /// Page by page.
    Never,
    /// In large folios from devices that read at once, past the swap cache (6.12).
    PastCache,
    /// In large folios from such devices, through the swap cache (7.0).
    ThroughCache,
}

/// Which files of `transparent_hugepage` a kernel has, by the release that the latest came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThpFiles {
    /// Those about huge pages.
    Huge,
    /// The series: a directory for each size.
    Sizes,
    /// Counters of faults and swap.
    V6_10,
    /// Of splits and shared memory.
    V6_11,
    /// Of folios that there are; `shrink_underused`.
    V6_12,
    /// Of swapping in.
    V6_13,
    /// Of sizes that did not come back.
    V6_14,
    /// Of collapses.
    V7_2,
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

/// What one kernel does with large anonymous folios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioFeatures {
    /// Which orders.
    pub candidates: Candidates,
    /// Which of them are held against what is there.
    pub search: Search,
    /// What follows when none is free.
    pub allocation: Allocation,
    /// 6.9: an order that the memory cgroup has no room for is as one that is not free.
    pub charge_walks: bool,
    /// 6.9: pages of a folio that lie one after the other are unmapped at once (`zap_present_folio_ptes`); before, each is taken
    /// off the folio's counts on its own. v1 does so for anonymous memory ("Batch-zap large anonymous folio PTE mappings"), and
    /// left it to a series of its own from v2 on; it clears entries one by one yet, and leaves files alone, which is not told apart
    /// here.
    pub unmaps_at_once: bool,
    /// 6.9: arm64 marks entries for the translation cache where a folio fills as many as one translation takes (contpte).
    pub marks_contiguous: bool,
    /// What userfaultfd does.
    pub userfault: UserfaultRule,
    /// How hard the allocator tries.
    pub gfp: FolioGfp,
    /// 6.10: a folio that is not mapped whole is split before it migrates, and its pages migrate one by one (`try_split_folio`
    /// in `migrate_pages_batch`); before, it migrates whole and waits to be split no longer. Read in the sources: 6.12 does
    /// so, 6.1 does not; that 6.10 is the first is a guess.
    pub splits_before_migration: bool,
    /// 7.1: a huge page that may be underused waits to be split after it has migrated too; before, it leaves the list (commit
    /// a2e0c0668a34 of April 2026, `migrate_folio_move`). Known from the mail of its backport to 6.12; that
    /// 7.1 is the first release is inferred from the date. The 6.12 here is the one without it; source of 6.12.117 has it.
    pub requeues_migrated: bool,
    /// 6.12: huge pages that are mostly zero are split (`shrink_underused`), and whatever is split loses its pages of
    /// zeroes.
    pub splits_underused: bool,
    /// Which are swapped out without being split, and where to.
    pub cluster_search: ClusterSearch,
    /// 6.12: pages of zeroes are noted, not written to swap (`swap_zeromap`).
    pub zeromap: bool,
    /// How they come back.
    pub swap_in: LargeSwapIn,
    /// 6.15: a page of a large folio is written to in place where one address space has all of the folio.
    pub reuses_exclusive: bool,
    /// 7.2: khugepaged collapses to smaller orders too.
    pub collapses_small: bool,
    /// 7.2: a memory cgroup's list of folios to be split is allocated with its first large folio.
    pub allocates_deferred_lists: bool,
    /// What is there to be read and written.
    pub files: ThpFiles,
}

impl FolioFeatures {
    /// Before the series, 6.6.
    pub(crate) const P0: FolioFeatures = FolioFeatures {
        candidates: Candidates::Zero,
        search: Search::PerCandidate,
        allocation: Allocation::Walk,
        charge_walks: false,
        unmaps_at_once: false,
        marks_contiguous: false,
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
    /// The limits of arm64, the one architecture that set them.
    pub(crate) const V1: FolioFeatures = FolioFeatures {
        candidates: Candidates::BuildLimit { plain: FolioSize::UNHINTED, eligible: FolioSize::Contpte },
        unmaps_at_once: true,
        userfault: UserfaultRule::ProtectedEntry,
        gfp: FolioGfp::Ordinary,
        ..FolioFeatures::P0
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
    /// v6 to v9 decide alike; what the administrator writes differs.
    pub(crate) const V6: FolioFeatures =
        FolioFeatures { candidates: Candidates::Enabled, files: ThpFiles::Sizes, ..FolioFeatures::V5 };
    pub(crate) const MAINLINE_6_8: FolioFeatures = FolioFeatures::V6;
    pub(crate) const MAINLINE_6_9: FolioFeatures = FolioFeatures {
        charge_walks: true,
        unmaps_at_once: true,
        marks_contiguous: true,
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
