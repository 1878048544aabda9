//! What each kernel decides about NUMA balancing, and what each patch of "sched/numa: Enhance vma scanning" changes.
//!
//! ```text
//!   numa-base        every suitable VMA in the order of addresses                          up to 6.3
//!   vma-scanning-1   + a new VMA is left alone for scan_delay                              1/4
//!   vma-scanning-2   + a VMA is left alone by threads that have not touched it             2/4, one word of PIDs
//!   vma-scanning-3   + what threads touched is forgotten after two windows                 3/4
//!   vma-scanning-4   + PIDs are hashed                                                     4/4 = 6.4 to 6.6
//!   partial-vmas-4   + windows turn before the test, skips are traced                      "Track VMA scanning", 1-4, October 2023
//!   partial-vmas-5   + a VMA begun is finished, whoever scans
//!   partial-vmas-6   + once a sequence, and one VMA by force where none was touched
//!   numa-6.8         + the first sequences are counted from the VMA's birth                6.8 to 6.11
//!   numa-6.12        + a VMA comes up again after as many sequences as there are threads   6.12 to 6.15
//!   numa-6.19        + no scan where the cpuset allows one node                            6.16 on
//! ```

/// How a VMA remembers which threads touched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessingPids {
    /// vma-scanning-2: one word, a bit for each remainder of the PID by 64, never cleared.
    OneWord,
    /// vma-scanning-3: two words, of which the older one is dropped every four scan delays.
    TwoWindows,
    /// vma-scanning-4: likewise, a bit for each of 64 values of a hash of the PID.
    TwoWindowsHashed,
}

impl AccessingPids {
    /// Whether there are windows that turn.
    pub fn has_windows(self) -> bool {
        self != AccessingPids::OneWord
    }
}

/// Which mappings stay as they are when a range is made PROT_NONE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolioTest {
    /// Of a private mapping those of pages with more than one reference: shared, in the page cache or the swap cache, on the way to
    /// a list in a CPU's batch, or of a compound page.
    References,
    /// 6.10: those of pages that more than one address space maps, and pinned ones.
    Sharers,
    /// 7.2: the same is asked of huge mappings, and pins count everywhere.
    SharersAlsoHuge,
}

/// What one kernel does to balance memory over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumaFeatures {
    /// vma-scanning-1: a VMA is first scanned a `scan_delay_ms` after the scanner met it.
    pub vma_scan_delay: bool,
    /// vma-scanning-2 to vma-scanning-4: threads scan only what they touch.
    pub accessing_pids: Option<AccessingPids>,
    /// partial-vmas-4: windows turn before the VMA is tested, not after it passed; skips are traced.
    pub turns_windows_first: bool,
    /// partial-vmas-5: a VMA that a pass stopped in goes on being scanned.
    pub finishes_begun_vmas: bool,
    /// partial-vmas-6: no VMA twice in a sequence; a pass that skipped all for want of accesses scans one nevertheless.
    pub once_a_sequence: bool,
    /// numa-6.8: the two sequences in which all VMAs are scanned begin with the VMA.
    pub sequences_of_the_vma: bool,
    /// numa-6.12: a VMA is scanned again after as many sequences as the process has threads.
    pub revisits_idle_vmas: bool,
    /// 6.16: a task whose cpuset allows one node of memory does not scan.
    pub skips_single_node_cpusets: bool,
    /// Until 6.5 what munmap leaves before a hole in a VMA is the VMA that was there; from 6.6 on it is a new one, as what is left
    /// behind the hole has been all along.
    pub munmap_keeps_start: bool,
    /// A scan period that doubles after failed migrations forgets them, so that it doubles once. In 6.12.117; neither in
    /// 6.12.95 nor in 6.1 or 7.2.
    pub loc_clear: bool,
    /// A page keeps who touched it last when it migrates. 6.12 loses that, as recordings of 6.12.95 show; when it began to is
    /// not known.
    pub migration_keeps_cpupid: bool,
    /// A page is taken off its list while the page table's lock is held, so a thread that cannot move it makes it accessible at
    /// once. 6.12.117 does, 6.1.192 does not: there it tries without the lock, and counts nothing if the entry has changed
    /// when it has the lock again. Which release began is not known.
    pub isolates_under_lock: bool,
    /// 6.10, 6.19.
    pub folio_test: FolioTest,
    /// 6.10: hint faults on large folios that are mapped by entries count, and migrate them.
    pub large_folios: bool,
    /// 6.7: where nodes take turns, a folio has the turn that it was allocated in; before, each of its pages has its own.
    pub folios_take_turns: bool,
    /// 6.18: promotions into free space are counted apart (`pgpromote_candidate_nrl`).
    pub counts_unlimited_promotions: bool,
}

impl NumaFeatures {
    pub(crate) const B0: NumaFeatures = NumaFeatures {
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
        migration_keeps_cpupid: true,
        isolates_under_lock: false,
        folio_test: FolioTest::References,
        large_folios: false,
        folios_take_turns: false,
        counts_unlimited_promotions: false,
    };
    pub(crate) const P1: NumaFeatures = NumaFeatures { vma_scan_delay: true, ..NumaFeatures::B0 };
    pub(crate) const P2: NumaFeatures =
        NumaFeatures { accessing_pids: Some(AccessingPids::OneWord), ..NumaFeatures::P1 };
    pub(crate) const P3: NumaFeatures =
        NumaFeatures { accessing_pids: Some(AccessingPids::TwoWindows), ..NumaFeatures::P2 };
    pub(crate) const P4: NumaFeatures =
        NumaFeatures { accessing_pids: Some(AccessingPids::TwoWindowsHashed), ..NumaFeatures::P3 };
    pub(crate) const R66: NumaFeatures = NumaFeatures { munmap_keeps_start: false, ..NumaFeatures::P4 };
    pub(crate) const M4: NumaFeatures = NumaFeatures { turns_windows_first: true, ..NumaFeatures::R66 };
    pub(crate) const M5: NumaFeatures = NumaFeatures { finishes_begun_vmas: true, ..NumaFeatures::M4 };
    pub(crate) const M6: NumaFeatures = NumaFeatures { once_a_sequence: true, ..NumaFeatures::M5 };
    /// What 6.7 became; numa-6.8 is what followed it in 6.8.
    pub(crate) const M67: NumaFeatures = NumaFeatures { folios_take_turns: true, ..NumaFeatures::M6 };
    pub(crate) const R67: NumaFeatures = NumaFeatures { sequences_of_the_vma: true, ..NumaFeatures::M67 };
    pub(crate) const R610: NumaFeatures =
        NumaFeatures { folio_test: FolioTest::Sharers, large_folios: true, ..NumaFeatures::R67 };
    pub(crate) const Y612: NumaFeatures = NumaFeatures {
        revisits_idle_vmas: true,
        migration_keeps_cpupid: false,
        isolates_under_lock: true,
        ..NumaFeatures::R610
    };
    pub(crate) const Y612_LOC_CLEAR: NumaFeatures = NumaFeatures { loc_clear: true, ..NumaFeatures::Y612 };
    pub(crate) const C616: NumaFeatures =
        NumaFeatures { skips_single_node_cpusets: true, ..NumaFeatures::Y612 };
    pub(crate) const C618: NumaFeatures =
        NumaFeatures { counts_unlimited_promotions: true, ..NumaFeatures::C616 };
    pub(crate) const C619: NumaFeatures =
        NumaFeatures { folio_test: FolioTest::SharersAlsoHuge, ..NumaFeatures::C618 };
}
