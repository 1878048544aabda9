//! Event counters: the kernel's under their /proc/vmstat names, and those that only the twin has.

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),* $(,)?) => {
        /// A counted event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Event { $($(#[doc = $doc])+ $variant),* }

        impl Event {
            /// All events, in the order in which they are printed.
            pub const ALL: &'static [Event] = &[$(Event::$variant),*];

            /// The name in tables and files: the one in /proc/vmstat if the kernel has the counter.
            pub fn name(self) -> &'static str {
                match self { $(Event::$variant => $name),* }
            }

            /// What the counter counts, in a line.
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
    /// Allocations served by the node they preferred.
    NumaHit = "numa_hit",
    /// Allocations served by this node although they preferred another.
    NumaMiss = "numa_miss",
    /// Allocations that preferred this node and were served by another.
    NumaForeign = "numa_foreign",
    /// Allocations served by the node of the allocating CPU.
    NumaLocal = "numa_local",
    /// Allocations served by another node than that of the allocating CPU.
    NumaOther = "numa_other",
    /// Allocations served by the node that interleaving chose.
    NumaInterleave = "numa_interleave",
    /// Allocations that no zone could serve; the kernel would reclaim, compact or call the OOM killer.
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
    /// Base pages allocated from a zone's buddy lists, bypassing the pagesets.
    ZoneDirectAllocPages = "zone_direct_alloc_pages",
    /// Base pages freed to a zone's buddy lists, bypassing the pagesets.
    ZoneDirectFreePages = "zone_direct_free_pages",
    /// Allocations that fell back to another migrate type.
    Extfrag = "extfrag",
    /// Huge pages that pools got from the buddy allocator.
    HtlbBuddyAllocSuccess = "htlb_buddy_alloc_success",
    /// Huge pages that pools asked the buddy allocator for and did not get.
    HtlbBuddyAllocFail = "htlb_buddy_alloc_fail",
    /// Times that hugetlb_lock was taken.
    HugetlbLockHolds = "hugetlb_lock_holds",
    /// PMD mappings of the vmemmap that were split into page tables.
    VmemmapPmdSplits = "vmemmap_pmd_splits",
    /// Pages allocated for the vmemmap and for the page tables that map it.
    VmemmapPagesAllocated = "vmemmap_pages_allocated",
    /// Pages of the vmemmap that were freed.
    VmemmapPagesFreed = "vmemmap_pages_freed",
    /// Full TLB flushes on all CPUs (func=do_flush_tlb_all, or a range above the ceiling).
    TlbFlushAll = "tlb_flush_all",
    /// TLB flushes of a kernel address range on all CPUs (func=do_kernel_range_flush).
    TlbFlushKernelRange = "tlb_flush_kernel_range",
    /// Functions called on other CPUs to flush their TLBs.
    TlbRemoteCalls = "tlb_remote_calls",
    /// IPI broadcasts after patching kernel code (func=do_sync_core).
    CodePatchBroadcasts = "code_patch_broadcasts",
    /// RCU grace periods waited for before struct pages are remapped (`synchronize_rcu`).
    GracePeriods = "grace_periods",
    /// Direct reclaims for allocations whose highest zone is ZONE_DMA.
    AllocstallDma = "allocstall_dma",
    /// Direct reclaims for allocations whose highest zone is ZONE_DMA32.
    AllocstallDma32 = "allocstall_dma32",
    /// Direct reclaims for allocations whose highest zone is ZONE_NORMAL.
    AllocstallNormal = "allocstall_normal",
    /// Direct reclaims for allocations whose highest zone is ZONE_MOVABLE.
    AllocstallMovable = "allocstall_movable",
    /// Runs of kswapd.
    Pageoutrun = "pageoutrun",
    /// Pages that kswapd scanned; before 7.2 without reclaim for a memory cgroup's limit.
    PgscanKswapd = "pgscan_kswapd",
    /// Pages that direct reclaim scanned; before 7.2 without reclaim for a memory cgroup's limit.
    PgscanDirect = "pgscan_direct",
    /// Anonymous pages scanned, whoever reclaimed.
    PgscanAnon = "pgscan_anon",
    /// File pages scanned, whoever reclaimed.
    PgscanFile = "pgscan_file",
    /// Pages reclaimed by kswapd; before 7.2 without reclaim for a memory cgroup's limit.
    PgstealKswapd = "pgsteal_kswapd",
    /// Pages reclaimed by direct reclaim; before 7.2 without reclaim for a memory cgroup's limit.
    PgstealDirect = "pgsteal_direct",
    /// Anonymous pages reclaimed, whoever reclaimed.
    PgstealAnon = "pgsteal_anon",
    /// File pages reclaimed, whoever reclaimed.
    PgstealFile = "pgsteal_file",
    /// Active pages scanned for deactivation; with the multi-gen LRU, pages sorted into younger generations.
    Pgrefill = "pgrefill",
    /// Pages activated.
    Pgactivate = "pgactivate",
    /// Pages deactivated.
    Pgdeactivate = "pgdeactivate",
    /// Pages moved to the tail of their list to be reclaimed next.
    Pgrotated = "pgrotated",
    /// Pages of ZONE_DMA that reclaim skipped because it wanted memory of lower zones.
    PgskipDma = "pgskip_dma",
    /// Pages of ZONE_DMA32 that reclaim skipped because it wanted memory of lower zones.
    PgskipDma32 = "pgskip_dma32",
    /// Pages of ZONE_NORMAL that reclaim skipped because it wanted memory of lower zones.
    PgskipNormal = "pgskip_normal",
    /// Pages of ZONE_MOVABLE that reclaim skipped because it wanted memory of lower zones.
    PgskipMovable = "pgskip_movable",
    /// File pages dirtied.
    NrDirtied = "nr_dirtied",
    /// Pages written back, of files and of swap.
    NrWritten = "nr_written",
    /// Dirty file pages that reclaim marked for immediate reclaim after writeback.
    NrVmscanImmediate = "nr_vmscan_immediate_reclaim",
    /// Refaults of anonymous pages: evicted pages that were faulted in again.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// Refaults of file pages: evicted pages that were read again.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Refaulted anonymous pages that were activated at once.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// Refaulted file pages that were activated at once.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Refaulted anonymous pages that were in the working set before eviction.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// Refaulted file pages that were in the working set before eviction.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// XArray nodes reclaimed that held nothing but shadow entries.
    WorkingsetNodereclaim = "workingset_nodereclaim",
    /// Pages moved to the unevictable list.
    UnevictablePgsCulled = "unevictable_pgs_culled",
    /// Pages moved from the unevictable list to another LRU list.
    UnevictablePgsRescued = "unevictable_pgs_rescued",
    /// Pages locked into memory by mlock.
    UnevictablePgsMlocked = "unevictable_pgs_mlocked",
    /// Pages unlocked by munlock.
    UnevictablePgsMunlocked = "unevictable_pgs_munlocked",
    /// Page faults.
    Pgfault = "pgfault",
    /// Major page faults: those that read from a device, or found a page of zeroes in swap.
    Pgmajfault = "pgmajfault",
    /// Pages read from swap.
    Pswpin = "pswpin",
    /// Pages written to swap.
    Pswpout = "pswpout",
    /// Pages of zeroes swapped in without a read.
    SwpinZero = "swpin_zero",
    /// Pages of zeroes swapped out without a write (6.12).
    SwpoutZero = "swpout_zero",
    /// Pages that swap readahead read.
    SwapRa = "swap_ra",
    /// Pages of swap readahead that were faulted in later.
    SwapRaHit = "swap_ra_hit",
    /// File pages that readahead read.
    ReadaheadPages = "readahead_pages",
    /// Base pages made PROT_NONE by NUMA scanning.
    NumaPteUpdates = "numa_pte_updates",
    /// PMD entries among numa_pte_updates.
    NumaHugePteUpdates = "numa_huge_pte_updates",
    /// NUMA hint faults: accesses to pages that scanning made PROT_NONE.
    NumaHintFaults = "numa_hint_faults",
    /// NUMA hint faults on pages of the thread's own node.
    NumaHintFaultsLocal = "numa_hint_faults_local",
    /// Base pages migrated by NUMA hint faults.
    NumaPagesMigrated = "numa_pages_migrated",
    /// Base pages migrated, whatever the reason.
    PgmigrateSuccess = "pgmigrate_success",
    /// Base pages whose migration failed.
    PgmigrateFail = "pgmigrate_fail",
    /// Pages that kswapd demoted to slow memory.
    PgdemoteKswapd = "pgdemote_kswapd",
    /// Pages that direct reclaim demoted to slow memory.
    PgdemoteDirect = "pgdemote_direct",
    /// Pages of slow memory promoted to fast memory.
    PgpromoteSuccess = "pgpromote_success",
    /// Pages hot enough for promotion, promoted or not.
    PgpromoteCandidate = "pgpromote_candidate",
    /// Pages promoted without a heat test because the node had room to spare (7.x).
    PgpromoteCandidateNrl = "pgpromote_candidate_nrl",
    /// Threads moved to another node to be near their memory.
    NumaTaskMigrated = "numa_task_migrated",
    /// Pairs of threads swapped between nodes to be near their memory.
    NumaTaskSwapped = "numa_task_swapped",
    /// NUMA scan passes that a thread claimed.
    NumaScanPasses = "numa_scan_passes",
    /// VMAs that a scan pass skipped because their pages cannot migrate (reason of `sched_skip_vma_numa`,
    /// like the next six).
    NumaSkipUnsuitable = "numa_skip_unsuitable",
    /// VMAs skipped as read-only file mappings.
    NumaSkipSharedRo = "numa_skip_shared_ro",
    /// VMAs skipped as inaccessible (PROT_NONE).
    NumaSkipInaccessible = "numa_skip_inaccessible",
    /// VMAs skipped as younger than scan_delay_ms.
    NumaSkipScanDelay = "numa_skip_scan_delay",
    /// VMAs skipped because the scanning thread took no hint fault in them.
    NumaSkipPidInactive = "numa_skip_pid_inactive",
    /// VMAs scanned although the thread took no hint fault in them, because an earlier pass scanned part of
    /// them.
    NumaIgnorePidInactive = "numa_ignore_pid_inactive",
    /// VMAs skipped because this scan sequence covered them already.
    NumaSkipSeqCompleted = "numa_skip_seq_completed",
    /// Scan passes skipped because the cpuset allows one node only (`sched_skip_cpuset_numa`).
    NumaSkipCpuset = "numa_skip_cpuset",
    /// Pages added to the page cache.
    PageCacheAdded = "page_cache_added",
    /// Pages that reclaim removed from the page cache.
    PageCacheRemoved = "page_cache_removed",
    /// Allocations that entered direct compaction.
    CompactStall = "compact_stall",
    /// Direct compactions that yielded a block.
    CompactSuccess = "compact_success",
    /// Direct compactions that yielded none.
    CompactFail = "compact_fail",
    /// Pages that the migrate scanner visited.
    CompactMigrateScanned = "compact_migrate_scanned",
    /// Pages that the free scanner visited.
    CompactFreeScanned = "compact_free_scanned",
    /// Runs of kcompactd.
    KcompactdWake = "compact_daemon_wake",
    /// Huge pages allocated by page faults.
    ThpFaultAlloc = "thp_fault_alloc",
    /// Page faults that wanted a huge page and fell back to smaller ones.
    ThpFaultFallback = "thp_fault_fallback",
    /// Page faults that fell back because the memory cgroup had no room for a huge page.
    ThpFaultFallbackCharge = "thp_fault_fallback_charge",
    /// Huge pages split.
    ThpSplitPage = "thp_split_page",
    /// Huge pages put on the deferred split queue.
    ThpDeferredSplitPage = "thp_deferred_split_page",
    /// Huge pages split as underused: most of their pages were zero.
    ThpUnderusedSplitPage = "thp_underused_split_page",
    /// Huge pages whose split failed.
    ThpSplitPageFailed = "thp_split_page_failed",
    /// Huge pages swapped out whole.
    ThpSwpout = "thp_swpout",
    /// Huge pages split before swap-out because swap had no room for them in one piece.
    ThpSwpoutFallback = "thp_swpout_fallback",
    /// Huge pages allocated by khugepaged.
    ThpCollapseAlloc = "thp_collapse_alloc",
    /// Huge-page allocations of khugepaged that failed.
    ThpCollapseAllocFailed = "thp_collapse_alloc_failed",
    /// Ranges that khugepaged skipped for too many empty PTEs (max_ptes_none).
    ThpScanExceedNonePte = "thp_scan_exceed_none_pte",
    /// Ranges that khugepaged skipped for too many swap PTEs (max_ptes_swap).
    ThpScanExceedSwapPte = "thp_scan_exceed_swap_pte",
    /// Ranges that khugepaged skipped for too many shared pages (max_ptes_shared).
    ThpScanExceedSharePte = "thp_scan_exceed_share_pte",
    /// Allocations of the huge zero page.
    ThpZeroPageAlloc = "thp_zero_page_alloc",
    /// Failed allocations of the huge zero page.
    ThpZeroPageAllocFailed = "thp_zero_page_alloc_failed",
    /// Processes killed by the OOM killer.
    OomKill = "oom_kill",
    /// Runs of the vmstat worker.
    VmstatUpdate = "vmstat_update",
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; Event::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Counters([0; Event::ALL.len()])
    }
}

impl Counters {
    #[inline]
    pub fn add(&mut self, event: Event, n: u64) {
        self.0[event as usize] += n;
    }

    pub fn get(&self, event: Event) -> u64 {
        self.0[event as usize]
    }

    /// The difference to `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let mut difference = self.clone();
        difference.0.iter_mut().zip(earlier.0).for_each(|(now, then)| *now -= then);
        difference
    }

    /// Base pages allocated plus base pages freed.
    pub fn page_operations(&self) -> u64 {
        use Event::*;
        [PgallocDma, PgallocDma32, PgallocNormal, PgallocMovable, Pgfree]
            .map(|event| self.get(event))
            .iter()
            .sum()
    }

    /// Base pages that came from a zone's buddy lists, not from a pageset's stock ("alloc_zone" in the tables
    /// of the pcp series).
    /// Base pages that came from a zone's buddy lists, not from a pageset's stock ("alloc_zone" in the tables
    /// of the pcp series).
    pub fn pages_from_zone(&self) -> u64 {
        self.get(Event::PcpRefilledPages) + self.get(Event::ZoneDirectAllocPages)
    }
}
