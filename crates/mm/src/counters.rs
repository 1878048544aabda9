//! Counters: the kernel's own under their /proc/vmstat names, and what the kernel does not count.

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),* $(,)?) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Event { $($(#[doc = $doc])+ $variant),* }

        impl Event {
            /// All events, in the order in which they are printed.
            pub const ALL: &'static [Event] = &[$(Event::$variant),*];

            /// The name used in tables and files; /proc/vmstat's where the kernel has the counter.
            pub fn name(self) -> &'static str {
                match self { $(Event::$variant => $name),* }
            }

            /// What it counts, in a line.
            pub fn description(self) -> &'static str {
                match self { $(Event::$variant => concat!($($doc),+).trim_ascii()),* }
            }
        }
    };
}

events! {
    /// Base pages allocated from ZONE_DMA.
    PgallocDma = "pgalloc_dma",
    /// Base pages allocated from ZONE_DMA32.
    PgallocDma32 = "pgalloc_dma32",
    /// Base pages allocated from ZONE_NORMAL.
    PgallocNormal = "pgalloc_normal",
    /// Base pages allocated from ZONE_MOVABLE.
    PgallocMovable = "pgalloc_movable",
    /// Base pages freed.
    Pgfree = "pgfree",
    /// Allocations served by the node that was wanted.
    NumaHit = "numa_hit",
    /// Allocations served here although another node was wanted.
    NumaMiss = "numa_miss",
    /// Allocations wanted here and served elsewhere.
    NumaForeign = "numa_foreign",
    /// Allocations served by the node of the CPU that asked.
    NumaLocal = "numa_local",
    /// Allocations served by another node than that of the CPU that asked.
    NumaOther = "numa_other",
    /// Allocations served by the node whose turn it was.
    NumaInterleave = "numa_interleave",
    /// Requests that no zone could serve; the kernel would reclaim, compact or kill.
    AllocFail = "alloc_fail",
    /// Wake-ups of kswapd.
    KswapdWake = "kswapd_wake",
    /// Base pages moved from a zone to a pageset.
    PcpRefilledPages = "pcp_refilled_pages",
    /// Refills of pagesets.
    PcpRefills = "pcp_refills",
    /// Base pages moved from a pageset back to its zone.
    PcpDrainedPages = "pcp_drained_pages",
    /// Bulk frees because a pageset reached its high mark.
    PcpHighDrains = "pcp_high_drains",
    /// Bulk frees because high-order blocks were freed in succession ("free_high").
    PcpFreeHighDrains = "pcp_free_high_drains",
    /// Base pages given back by decay of pcp->high.
    PcpDecayedPages = "pcp_decayed_pages",
    /// Base pages allocated from a zone past any pageset.
    ZoneDirectAllocPages = "zone_direct_alloc_pages",
    /// Base pages freed to a zone past any pageset.
    ZoneDirectFreePages = "zone_direct_free_pages",
    /// Requests served from another migrate type.
    Extfrag = "extfrag",
    /// Huge pages allocated from the buddy allocator for a pool.
    HtlbBuddyAllocSuccess = "htlb_buddy_alloc_success",
    /// Huge pages that the buddy allocator did not have.
    HtlbBuddyAllocFail = "htlb_buddy_alloc_fail",
    /// Holds of hugetlb_lock.
    HugetlbLockHolds = "hugetlb_lock_holds",
    /// PMDs of the vmemmap replaced by page tables.
    VmemmapPmdSplits = "vmemmap_pmd_splits",
    /// Pages allocated for struct pages and for page tables that map them.
    VmemmapPagesAllocated = "vmemmap_pages_allocated",
    /// Frames freed that held struct pages.
    VmemmapPagesFreed = "vmemmap_pages_freed",
    /// Flushes of everything from all translation caches (func=do_flush_tlb_all, or a range above the ceiling).
    TlbFlushAll = "tlb_flush_all",
    /// Flushes of a range of kernel pages from all translation caches (func=do_kernel_range_flush).
    TlbFlushKernelRange = "tlb_flush_kernel_range",
    /// Functions called on other CPUs to flush their translation caches.
    TlbRemoteCalls = "tlb_remote_calls",
    /// Broadcasts because kernel code was patched (func=do_sync_core).
    CodePatchBroadcasts = "code_patch_broadcasts",
    /// Waits for readers of struct pages (`synchronize_rcu`).
    GracePeriods = "grace_periods",
    /// Allocations that had to reclaim themselves and wanted memory of ZONE_DMA at most.
    AllocstallDma = "allocstall_dma",
    /// The same for ZONE_DMA32.
    AllocstallDma32 = "allocstall_dma32",
    /// The same for ZONE_NORMAL.
    AllocstallNormal = "allocstall_normal",
    /// The same for ZONE_MOVABLE.
    AllocstallMovable = "allocstall_movable",
    /// Runs of kswapd.
    Pageoutrun = "pageoutrun",
    /// Pages that kswapd looked at; before 7.2 not those of memory cgroups at their limit.
    PgscanKswapd = "pgscan_kswapd",
    /// Pages that direct reclaim looked at, likewise.
    PgscanDirect = "pgscan_direct",
    /// Anonymous pages that any reclaim looked at.
    PgscanAnon = "pgscan_anon",
    /// Pages of files that any reclaim looked at.
    PgscanFile = "pgscan_file",
    /// Pages that kswapd freed; before 7.2 not those of memory cgroups at their limit.
    PgstealKswapd = "pgsteal_kswapd",
    /// Pages that direct reclaim freed, likewise.
    PgstealDirect = "pgsteal_direct",
    /// Anonymous pages that any reclaim freed.
    PgstealAnon = "pgsteal_anon",
    /// Pages of files that any reclaim freed.
    PgstealFile = "pgsteal_file",
    /// Active pages looked at for deactivation; with the multi-gen LRU, pages sorted to younger generations.
    Pgrefill = "pgrefill",
    /// Pages that became active.
    Pgactivate = "pgactivate",
    /// Active pages that became inactive.
    Pgdeactivate = "pgdeactivate",
    /// Pages put at the tail of their list to be reclaimed next.
    Pgrotated = "pgrotated",
    /// Pages of ZONE_DMA that reclaim passed over, as memory of other zones was wanted.
    PgskipDma = "pgskip_dma",
    /// The same of ZONE_DMA32.
    PgskipDma32 = "pgskip_dma32",
    /// The same of ZONE_NORMAL.
    PgskipNormal = "pgskip_normal",
    /// The same of ZONE_MOVABLE.
    PgskipMovable = "pgskip_movable",
    /// Pages of files that became dirty.
    NrDirtied = "nr_dirtied",
    /// Pages of files and of swap that devices have written.
    NrWritten = "nr_written",
    /// Dirty pages of files that reclaim left to be written.
    NrVmscanImmediate = "nr_vmscan_immediate_reclaim",
    /// Anonymous pages read again that had been evicted.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// Pages of files read again that had been evicted.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Refaulted anonymous pages that became active at once.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// Refaulted pages of files that became active at once.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Refaulted anonymous pages that had been part of the working set.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// Refaulted pages of files that had been part of the working set.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// Nodes of files freed that held nothing but shadows.
    WorkingsetNodereclaim = "workingset_nodereclaim",
    /// Pages put onto the list of those that cannot be evicted.
    UnevictablePgsCulled = "unevictable_pgs_culled",
    /// Pages that left it for another list.
    UnevictablePgsRescued = "unevictable_pgs_rescued",
    /// Pages that were locked in memory.
    UnevictablePgsMlocked = "unevictable_pgs_mlocked",
    /// Pages that no longer are.
    UnevictablePgsMunlocked = "unevictable_pgs_munlocked",
    /// Page faults.
    Pgfault = "pgfault",
    /// Page faults that read from a device, or found a page of zeroes in swap.
    Pgmajfault = "pgmajfault",
    /// Pages read from swap.
    Pswpin = "pswpin",
    /// Pages written to swap.
    Pswpout = "pswpout",
    /// Pages of zeroes that came back from swap without being read.
    SwpinZero = "swpin_zero",
    /// Pages of zeroes that went to swap without being written (6.12).
    SwpoutZero = "swpout_zero",
    /// Pages read from swap without having been asked for.
    SwapRa = "swap_ra",
    /// Those among them that were asked for later.
    SwapRaHit = "swap_ra_hit",
    /// Pages of files that were read without having been asked for.
    ReadaheadPages = "readahead_pages",
    /// Base pages made PROT_NONE by NUMA scanning.
    NumaPteUpdates = "numa_pte_updates",
    /// Huge entries among them.
    NumaHugePteUpdates = "numa_huge_pte_updates",
    /// Accesses to such pages.
    NumaHintFaults = "numa_hint_faults",
    /// Those whose page was on the node of the thread.
    NumaHintFaultsLocal = "numa_hint_faults_local",
    /// Base pages that hint faults moved.
    NumaPagesMigrated = "numa_pages_migrated",
    /// Base pages that migrated, for whatever reason.
    PgmigrateSuccess = "pgmigrate_success",
    /// Base pages that did not although they should have.
    PgmigrateFail = "pgmigrate_fail",
    /// Pages of fast memory that kswapd moved to slow memory.
    PgdemoteKswapd = "pgdemote_kswapd",
    /// Pages of fast memory that others moved to slow memory so as to allocate.
    PgdemoteDirect = "pgdemote_direct",
    /// Pages of slow memory promoted to fast memory.
    PgpromoteSuccess = "pgpromote_success",
    /// Pages that were hot enough, promoted or not.
    PgpromoteCandidate = "pgpromote_candidate",
    /// Pages promoted because there was room to spare (7.x).
    PgpromoteCandidateNrl = "pgpromote_candidate_nrl",
    /// Threads moved to another node for their memory.
    NumaTaskMigrated = "numa_task_migrated",
    /// Pairs of threads that changed places for their memory.
    NumaTaskSwapped = "numa_task_swapped",
    /// NUMA scan passes that were claimed.
    NumaScanPasses = "numa_scan_passes",
    /// VMAs that a scan pass skipped as no page of theirs may move (reason of `sched_skip_vma_numa`, like the next six).
    NumaSkipUnsuitable = "numa_skip_unsuitable",
    /// Those skipped as mappings of files that are only read.
    NumaSkipSharedRo = "numa_skip_shared_ro",
    /// Those skipped as nobody may use them.
    NumaSkipInaccessible = "numa_skip_inaccessible",
    /// Those skipped as they are too new.
    NumaSkipScanDelay = "numa_skip_scan_delay",
    /// Those skipped as the scanning thread took no hint fault in them.
    NumaSkipPidInactive = "numa_skip_pid_inactive",
    /// Those scanned although it took none, as a pass had begun them.
    NumaIgnorePidInactive = "numa_ignore_pid_inactive",
    /// Those skipped as they were scanned in this sequence.
    NumaSkipSeqCompleted = "numa_skip_seq_completed",
    /// Passes left out as a cpuset allows one node (`sched_skip_cpuset_numa`).
    NumaSkipCpuset = "numa_skip_cpuset",
    /// Pages that entered the page cache.
    PageCacheAdded = "page_cache_added",
    /// Pages that reclaim took from the page cache.
    PageCacheRemoved = "page_cache_removed",
    /// Requests that compacted themselves.
    CompactStall = "compact_stall",
    /// Those among them that got a block.
    CompactSuccess = "compact_success",
    /// Those that did not.
    CompactFail = "compact_fail",
    /// Pages that the migrate scanner looked at.
    CompactMigrateScanned = "compact_migrate_scanned",
    /// Pages that the free scanner looked at.
    CompactFreeScanned = "compact_free_scanned",
    /// Runs of kcompactd.
    KcompactdWake = "compact_daemon_wake",
    /// Huge pages that faults made.
    ThpFaultAlloc = "thp_fault_alloc",
    /// Faults that wanted a huge page and did not get it.
    ThpFaultFallback = "thp_fault_fallback",
    /// Those among them whose memory cgroup had no room for it.
    ThpFaultFallbackCharge = "thp_fault_fallback_charge",
    /// Huge pages that were split.
    ThpSplitPage = "thp_split_page",
    /// Huge pages put on the list of those to be split.
    ThpDeferredSplitPage = "thp_deferred_split_page",
    /// Huge pages that were split because they were mostly zero.
    ThpUnderusedSplitPage = "thp_underused_split_page",
    /// Huge pages that could not be split.
    ThpSplitPageFailed = "thp_split_page_failed",
    /// Huge pages swapped out whole.
    ThpSwpout = "thp_swpout",
    /// Huge pages that were split because swap had no room for them.
    ThpSwpoutFallback = "thp_swpout_fallback",
    /// Huge pages that khugepaged allocated.
    ThpCollapseAlloc = "thp_collapse_alloc",
    /// Huge pages that khugepaged did not get.
    ThpCollapseAllocFailed = "thp_collapse_alloc_failed",
    /// Places where khugepaged found too many entries without a page.
    ThpScanExceedNonePte = "thp_scan_exceed_none_pte",
    /// Places where it found too many pages in swap.
    ThpScanExceedSwapPte = "thp_scan_exceed_swap_pte",
    /// Places where it found too many shared pages.
    ThpScanExceedSharePte = "thp_scan_exceed_share_pte",
    /// Times that the huge page of zeroes was made.
    ThpZeroPageAlloc = "thp_zero_page_alloc",
    /// Times that it could not be made.
    ThpZeroPageAllocFailed = "thp_zero_page_alloc_failed",
    /// Processes killed because nothing could be reclaimed.
    OomKill = "oom_kill",
    /// Runs of the vmstat worker.
    VmstatUpdate = "vmstat_update",
}

/// A number for each [`Event`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; Event::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Counters([0; Event::ALL.len()])
    }
}

impl Counters {
    /// Counts `n` more of `event`.
    #[inline]
    pub fn add(&mut self, event: Event, n: u64) {
        self.0[event as usize] += n;
    }

    /// How many there were.
    pub fn get(&self, event: Event) -> u64 {
        self.0[event as usize]
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let mut difference = self.clone();
        difference.0.iter_mut().zip(earlier.0).for_each(|(now, then)| *now -= then);
        difference
    }

    /// Base pages allocated and freed.
    pub fn page_operations(&self) -> u64 {
        use Event::*;
        [PgallocDma, PgallocDma32, PgallocNormal, PgallocMovable, Pgfree]
            .map(|event| self.get(event))
            .iter()
            .sum()
    }

    /// Base pages that came from a zone rather than from a pageset ("alloc_zone" of the series' tables).
    pub fn pages_from_zone(&self) -> u64 {
        self.get(Event::PcpRefilledPages) + self.get(Event::ZoneDirectAllocPages)
    }
}
