//! What each patch of "sched/numa: Enhance vma scanning" changes in NUMA balancing, and what later kernels
//! changed.
//!
//! ```text
//!   numa-base        every suitable VMA in the order of addresses                          up to 6.3
//!   vma-scanning-1   + a new VMA is not scanned for scan_delay                             1/4
//!   vma-scanning-2   + threads do not scan VMAs in which they took no hint fault           2/4, one word of PIDs
//!   vma-scanning-3   + hint faults are forgotten after two windows                         3/4
//!   vma-scanning-4   + PIDs are hashed                                                     4/4 = 6.4 to 6.6
//!   partial-vmas-4   + windows rotate before the test, skips are traced                    "Track VMA scanning", 1-4, October 2023
//!   partial-vmas-5   + a partly scanned VMA is finished by any thread
//!   partial-vmas-6   + no VMA twice in a sequence; one is forced if all are skipped
//!   numa-6.8         + first sequences counted from the creation of the VMA               6.8 to 6.11
//!   numa-6.12        + a VMA is scanned again after nr_threads sequences                   6.12 to 6.15
//!   numa-6.19        + no scan if the cpuset allows one node                               6.16 on
//! ```

use crate::features::by_name::features;

features! {
    /// How a VMA records which threads took hint faults in it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AccessingPids {
        /// vma-scanning-2: one word with a bit for each PID modulo 64, never cleared.
        OneWord,
        /// vma-scanning-3: two words, the older of which is dropped every four scan delays.
        TwoWindows,
        /// vma-scanning-4: as before, with a bit for each of 64 hash values of the PID.
        TwoWindowsHashed,
    }
}

impl AccessingPids {
    /// Whether there are two windows, of which the older is dropped.
    pub fn has_windows(self) -> bool {
        self != AccessingPids::OneWord
    }
}

features! {
    /// Which PTEs of a scanned range are not made PROT_NONE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FolioTest {
        /// In private mappings, those of pages with more than one reference: shared pages, pages in the page
        /// cache, the swap cache or a CPU's folio batch, and compound pages.
        References,
        /// 6.10: those of pages mapped by more than one address space, and of pinned ones.
        Sharers,
        /// 6.19: the same test for PMD mappings, and pinned pages are left alone everywhere.
        SharersAlsoHuge,
    }

    /// What one kernel does for NUMA balancing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NumaFeatures {
        /// vma-scanning-1: a VMA is not scanned until `scan_delay_ms` after the scanner first met it.
        pub vma_scan_delay: bool,
        /// vma-scanning-2 to vma-scanning-4: threads scan only VMAs in which they took hint faults.
        pub accessing_pids: Option<AccessingPids>,
        /// partial-vmas-4: windows are rotated before the VMA is tested, not after it passed; skips are traced.
        pub turns_windows_first: bool,
        /// partial-vmas-5: the VMA in which a pass stopped is scanned to its end, whichever thread scans.
        pub finishes_begun_vmas: bool,
        /// partial-vmas-6: no VMA is scanned twice in a sequence, and a pass that skipped every VMA as inactive
        /// scans one nevertheless.
        pub once_a_sequence: bool,
        /// numa-6.8: the two initial sequences, in which every thread scans the VMA, are counted from the VMA's
        /// creation.
        pub sequences_of_the_vma: bool,
        /// numa-6.12: a VMA is scanned again after as many sequences as the process has threads.
        pub revisits_idle_vmas: bool,
        /// 6.16: a task whose cpuset allows a single memory node does not scan.
        pub skips_single_node_cpusets: bool,
        /// Until 6.5, munmap in the middle of a VMA leaves the old VMA before the hole; since 6.6 the piece
        /// before the hole is a new VMA, as the piece behind it always was.
        pub munmap_keeps_start: bool,
        /// When failed migrations double the scan period, they are cleared, so that it doubles only once. In
        /// 6.12.117, but not in 6.12.95, 6.1 or 7.2.
        pub loc_clear: bool,
        /// Until 6.1, an entry that is made PROT_NONE remembers that it was writable (`pte_savedwrite`), and so it is
        /// after its page has migrated. Since then the next store to the page takes another fault, and if the entry
        /// is not huge, that fault (`wp_page_reuse`) also forgets who touched the page.
        pub saved_write: bool,
        /// The page is isolated from the LRU under the page-table lock, so a thread that cannot migrate it makes
        /// it accessible at once. 6.12.117 does this. 6.1.192 tries without the lock, and counts nothing if the
        /// PTE has changed when it takes the lock again. Which release changed this is not known.
        pub isolates_under_lock: bool,
        /// Which PTEs of a scanned range are not made PROT_NONE.
        pub folio_test: FolioTest,
        /// 6.10: hint faults on PTE-mapped large folios are counted, and migrate the folio.
        pub large_folios: bool,
        /// 6.7: with interleaving, all pages of a folio have the interleave index that it was allocated with; before,
        /// each page has its own.
        pub folios_take_turns: bool,
        /// 6.18: promotions into free space are counted separately (`pgpromote_candidate_nrl`).
        pub counts_unlimited_promotions: bool,
    }
}

impl NumaFeatures {
    pub(crate) const BASE: NumaFeatures = NumaFeatures {
        vma_scan_delay: false,
        accessing_pids: None,
        turns_windows_first: false,
        finishes_begun_vmas: false,
        once_a_sequence: false,
        sequences_of_the_vma: false,
        revisits_idle_vmas: false,
        skips_single_node_cpusets: false,
        munmap_keeps_start: true,
        loc_clear: false,
        saved_write: false,
        isolates_under_lock: false,
        folio_test: FolioTest::References,
        large_folios: false,
        folios_take_turns: false,
        counts_unlimited_promotions: false,
    };
    pub(crate) const MAINLINE_6_1: NumaFeatures = NumaFeatures { saved_write: true, ..NumaFeatures::BASE };
    pub(crate) const VMA_SCANNING_1: NumaFeatures =
        NumaFeatures { vma_scan_delay: true, ..NumaFeatures::BASE };
    pub(crate) const VMA_SCANNING_2: NumaFeatures =
        NumaFeatures { accessing_pids: Some(AccessingPids::OneWord), ..NumaFeatures::VMA_SCANNING_1 };
    pub(crate) const VMA_SCANNING_3: NumaFeatures =
        NumaFeatures { accessing_pids: Some(AccessingPids::TwoWindows), ..NumaFeatures::VMA_SCANNING_2 };
    pub(crate) const VMA_SCANNING_4: NumaFeatures = NumaFeatures {
        accessing_pids: Some(AccessingPids::TwoWindowsHashed),
        ..NumaFeatures::VMA_SCANNING_3
    };
    pub(crate) const MAINLINE_6_6: NumaFeatures =
        NumaFeatures { munmap_keeps_start: false, ..NumaFeatures::VMA_SCANNING_4 };
    pub(crate) const PARTIAL_VMAS_4: NumaFeatures =
        NumaFeatures { turns_windows_first: true, ..NumaFeatures::MAINLINE_6_6 };
    pub(crate) const PARTIAL_VMAS_5: NumaFeatures =
        NumaFeatures { finishes_begun_vmas: true, ..NumaFeatures::PARTIAL_VMAS_4 };
    pub(crate) const PARTIAL_VMAS_6: NumaFeatures =
        NumaFeatures { once_a_sequence: true, ..NumaFeatures::PARTIAL_VMAS_5 };
    pub(crate) const MAINLINE_6_7: NumaFeatures =
        NumaFeatures { folios_take_turns: true, ..NumaFeatures::PARTIAL_VMAS_6 };
    pub(crate) const MAINLINE_6_8: NumaFeatures =
        NumaFeatures { sequences_of_the_vma: true, ..NumaFeatures::MAINLINE_6_7 };
    pub(crate) const MAINLINE_6_10: NumaFeatures =
        NumaFeatures { folio_test: FolioTest::Sharers, large_folios: true, ..NumaFeatures::MAINLINE_6_8 };
    pub(crate) const MAINLINE_6_12: NumaFeatures =
        NumaFeatures { revisits_idle_vmas: true, isolates_under_lock: true, ..NumaFeatures::MAINLINE_6_10 };
    pub(crate) const MAINLINE_6_12_117: NumaFeatures =
        NumaFeatures { loc_clear: true, ..NumaFeatures::MAINLINE_6_12 };
    pub(crate) const MAINLINE_6_16: NumaFeatures =
        NumaFeatures { skips_single_node_cpusets: true, ..NumaFeatures::MAINLINE_6_12 };
    pub(crate) const MAINLINE_6_18: NumaFeatures =
        NumaFeatures { counts_unlimited_promotions: true, ..NumaFeatures::MAINLINE_6_16 };
    pub(crate) const MAINLINE_6_19: NumaFeatures =
        NumaFeatures { folio_test: FolioTest::SharersAlsoHuge, ..NumaFeatures::MAINLINE_6_18 };
}
