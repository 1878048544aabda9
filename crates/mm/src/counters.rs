//! Event counters: the kernel's under their /proc/vmstat names, and those that only the twin has.
//!
//! Each is declared once, with what it counts and in which unit: the run's counts, `mmtwin list counters` and the reference page
//! come from there. All of them are whole numbers that only go up.

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal in $unit:literal),* $(,)?) => {
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

            /// What the counter goes up by one for.
            pub fn unit(self) -> &'static str {
                match self { $(Event::$variant => $unit),* }
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
    PgallocDma = "pgalloc_dma" in "pages",
    /// Base pages allocated from ZONE_DMA32.
    PgallocDma32 = "pgalloc_dma32" in "pages",
    /// Base pages allocated from ZONE_NORMAL.
    PgallocNormal = "pgalloc_normal" in "pages",
    /// Base pages allocated from ZONE_MOVABLE.
    PgallocMovable = "pgalloc_movable" in "pages",
    /// Base pages freed.
    Pgfree = "pgfree" in "pages",
    /// Allocations served by the node they preferred.
    NumaHit = "numa_hit" in "allocations",
    /// Allocations served by this node although they preferred another.
    NumaMiss = "numa_miss" in "allocations",
    /// Allocations that preferred this node and were served by another.
    NumaForeign = "numa_foreign" in "allocations",
    /// Allocations served by the node of the allocating CPU.
    NumaLocal = "numa_local" in "allocations",
    /// Allocations served by another node than that of the allocating CPU.
    NumaOther = "numa_other" in "allocations",
    /// Allocations served by the node that interleaving chose.
    NumaInterleave = "numa_interleave" in "allocations",
    /// Allocations that no zone could serve; the kernel would reclaim, compact or call the OOM killer.
    AllocFail = "alloc_fail" in "allocations",
    /// Wake-ups of kswapd.
    KswapdWake = "kswapd_wake" in "wake-ups",
    /// Base pages moved from a zone to a pageset.
    PcpRefilledPages = "pcp_refilled_pages" in "pages",
    /// Refills of pagesets.
    PcpRefills = "pcp_refills" in "refills",
    /// Base pages moved from a pageset back to its zone.
    PcpDrainedPages = "pcp_drained_pages" in "pages",
    /// Bulk frees because a pageset reached its high mark.
    PcpHighDrains = "pcp_high_drains" in "bulk frees",
    /// Bulk frees because high-order blocks were freed in succession ("free_high").
    PcpFreeHighDrains = "pcp_free_high_drains" in "bulk frees",
    /// Base pages given back by decay of pcp->high.
    PcpDecayedPages = "pcp_decayed_pages" in "pages",
    /// Base pages allocated from a zone's buddy lists, bypassing the pagesets.
    ZoneDirectAllocPages = "zone_direct_alloc_pages" in "pages",
    /// Base pages freed to a zone's buddy lists, bypassing the pagesets.
    ZoneDirectFreePages = "zone_direct_free_pages" in "pages",
    /// Allocations that fell back to another migrate type.
    Extfrag = "extfrag" in "allocations",
    /// Writes to vm.drop_caches that dropped page cache.
    DropPagecache = "drop_pagecache" in "writes",
    /// Writes to vm.drop_caches that ran the shrinkers.
    DropSlab = "drop_slab" in "writes",
    /// Slabs that caches took from the page allocator.
    AllocSlab = "alloc_slab" in "slabs",
    /// Slabs that caches gave back to it.
    FreeSlab = "free_slab" in "slabs",
    /// Huge pages that pools got from the buddy allocator.
    HtlbBuddyAllocSuccess = "htlb_buddy_alloc_success" in "huge pages",
    /// Huge pages that pools asked the buddy allocator for and did not get.
    HtlbBuddyAllocFail = "htlb_buddy_alloc_fail" in "huge pages",
    /// Times that hugetlb_lock was taken.
    HugetlbLockHolds = "hugetlb_lock_holds" in "holds",
    /// PMD mappings of the vmemmap that were split into page tables.
    VmemmapPmdSplits = "vmemmap_pmd_splits" in "PMD mappings",
    /// Pages allocated for the vmemmap and for the page tables that map it.
    VmemmapPagesAllocated = "vmemmap_pages_allocated" in "pages",
    /// Pages of the vmemmap that were freed.
    VmemmapPagesFreed = "vmemmap_pages_freed" in "pages",
    /// Full TLB flushes on all CPUs (func=do_flush_tlb_all, or a range above the ceiling).
    TlbFlushAll = "tlb_flush_all" in "flushes",
    /// TLB flushes of a kernel address range on all CPUs (func=do_kernel_range_flush).
    TlbFlushKernelRange = "tlb_flush_kernel_range" in "flushes",
    /// Functions called on other CPUs to flush their TLBs.
    TlbRemoteCalls = "tlb_remote_calls" in "calls",
    /// IPI broadcasts after patching kernel code (func=do_sync_core).
    CodePatchBroadcasts = "code_patch_broadcasts" in "broadcasts",
    /// RCU grace periods waited for before struct pages are remapped (`synchronize_rcu`).
    GracePeriods = "grace_periods" in "grace periods",
    /// Direct reclaims for allocations whose highest zone is ZONE_DMA.
    AllocstallDma = "allocstall_dma" in "reclaims",
    /// Direct reclaims for allocations whose highest zone is ZONE_DMA32.
    AllocstallDma32 = "allocstall_dma32" in "reclaims",
    /// Direct reclaims for allocations whose highest zone is ZONE_NORMAL.
    AllocstallNormal = "allocstall_normal" in "reclaims",
    /// Direct reclaims for allocations whose highest zone is ZONE_MOVABLE.
    AllocstallMovable = "allocstall_movable" in "reclaims",
    /// Runs of kswapd.
    Pageoutrun = "pageoutrun" in "runs",
    /// Pages that kswapd scanned; before 7.2 without reclaim for a memory cgroup's limit.
    PgscanKswapd = "pgscan_kswapd" in "pages",
    /// Pages that direct reclaim scanned; before 7.2 without reclaim for a memory cgroup's limit.
    PgscanDirect = "pgscan_direct" in "pages",
    /// Anonymous pages scanned, whoever reclaimed.
    PgscanAnon = "pgscan_anon" in "pages",
    /// File pages scanned, whoever reclaimed.
    PgscanFile = "pgscan_file" in "pages",
    /// Pages reclaimed by kswapd; before 7.2 without reclaim for a memory cgroup's limit.
    PgstealKswapd = "pgsteal_kswapd" in "pages",
    /// Pages reclaimed by direct reclaim; before 7.2 without reclaim for a memory cgroup's limit.
    PgstealDirect = "pgsteal_direct" in "pages",
    /// Anonymous pages reclaimed, whoever reclaimed.
    PgstealAnon = "pgsteal_anon" in "pages",
    /// File pages reclaimed, whoever reclaimed.
    PgstealFile = "pgsteal_file" in "pages",
    /// Active pages scanned for deactivation; with the multi-gen LRU, pages sorted into younger generations.
    Pgrefill = "pgrefill" in "pages",
    /// Pages activated.
    Pgactivate = "pgactivate" in "pages",
    /// Pages deactivated.
    Pgdeactivate = "pgdeactivate" in "pages",
    /// Pages moved to the tail of their list to be reclaimed next.
    Pgrotated = "pgrotated" in "pages",
    /// Pages of ZONE_DMA that reclaim skipped because it wanted memory of lower zones.
    PgskipDma = "pgskip_dma" in "pages",
    /// Pages of ZONE_DMA32 that reclaim skipped because it wanted memory of lower zones.
    PgskipDma32 = "pgskip_dma32" in "pages",
    /// Pages of ZONE_NORMAL that reclaim skipped because it wanted memory of lower zones.
    PgskipNormal = "pgskip_normal" in "pages",
    /// Pages of ZONE_MOVABLE that reclaim skipped because it wanted memory of lower zones.
    PgskipMovable = "pgskip_movable" in "pages",
    /// File pages dirtied.
    NrDirtied = "nr_dirtied" in "pages",
    /// Pages written back, of files and of swap.
    NrWritten = "nr_written" in "pages",
    /// Dirty file pages that reclaim marked for immediate reclaim after writeback.
    NrVmscanImmediate = "nr_vmscan_immediate_reclaim" in "pages",
    /// Refaults of anonymous pages: evicted pages that were faulted in again.
    WorkingsetRefaultAnon = "workingset_refault_anon" in "pages",
    /// Refaults of file pages: evicted pages that were read again.
    WorkingsetRefaultFile = "workingset_refault_file" in "pages",
    /// Refaulted anonymous pages that were activated at once.
    WorkingsetActivateAnon = "workingset_activate_anon" in "pages",
    /// Refaulted file pages that were activated at once.
    WorkingsetActivateFile = "workingset_activate_file" in "pages",
    /// Refaulted anonymous pages that were in the working set before eviction.
    WorkingsetRestoreAnon = "workingset_restore_anon" in "pages",
    /// Refaulted file pages that were in the working set before eviction.
    WorkingsetRestoreFile = "workingset_restore_file" in "pages",
    /// XArray nodes reclaimed that held nothing but shadow entries.
    WorkingsetNodereclaim = "workingset_nodereclaim" in "nodes",
    /// Pages moved to the unevictable list.
    UnevictablePgsCulled = "unevictable_pgs_culled" in "pages",
    /// Pages moved from the unevictable list to another LRU list.
    UnevictablePgsRescued = "unevictable_pgs_rescued" in "pages",
    /// Pages locked into memory by mlock.
    UnevictablePgsMlocked = "unevictable_pgs_mlocked" in "pages",
    /// Pages unlocked by munlock.
    UnevictablePgsMunlocked = "unevictable_pgs_munlocked" in "pages",
    /// Page faults.
    Pgfault = "pgfault" in "faults",
    /// Major page faults: those that read from a device, or found a page of zeroes in swap.
    Pgmajfault = "pgmajfault" in "faults",
    /// Pages read from swap.
    Pswpin = "pswpin" in "pages",
    /// Pages written to swap.
    Pswpout = "pswpout" in "pages",
    /// Pages decompressed from zswap for faults.
    Zswpin = "zswpin" in "pages",
    /// Pages that zswap took.
    Zswpout = "zswpout" in "pages",
    /// Pages that zswap wrote back to the swap device.
    Zswpwb = "zswpwb" in "pages",
    /// Regions that DAMON_RECLAIM found cold and tried to page out.
    DamonReclaimTriedRegions = "damon_reclaim.nr_reclaim_tried_regions" in "regions",
    /// How much memory was in them.
    DamonReclaimTriedBytes = "damon_reclaim.bytes_reclaim_tried_regions" in "bytes",
    /// Those of them of which something was paged out.
    DamonReclaimReclaimedRegions = "damon_reclaim.nr_reclaimed_regions" in "regions",
    /// How much was paged out.
    DamonReclaimReclaimedBytes = "damon_reclaim.bytes_reclaimed_regions" in "bytes",
    /// Windows of DAMON_RECLAIM's quota that were full.
    DamonReclaimQuotaExceeds = "damon_reclaim.nr_quota_exceeds" in "windows",
    /// Pages of zeroes swapped in without a read.
    SwpinZero = "swpin_zero" in "pages",
    /// Pages of zeroes swapped out without a write (6.12).
    SwpoutZero = "swpout_zero" in "pages",
    /// Pages that swap readahead read.
    SwapRa = "swap_ra" in "pages",
    /// Pages of swap readahead that were faulted in later.
    SwapRaHit = "swap_ra_hit" in "pages",
    /// File pages that readahead read.
    ReadaheadPages = "readahead_pages" in "pages",
    /// Base pages made PROT_NONE by NUMA scanning.
    NumaPteUpdates = "numa_pte_updates" in "pages",
    /// PMD entries among numa_pte_updates.
    NumaHugePteUpdates = "numa_huge_pte_updates" in "PMD entries",
    /// NUMA hint faults: accesses to pages that scanning made PROT_NONE.
    NumaHintFaults = "numa_hint_faults" in "faults",
    /// NUMA hint faults on pages of the thread's own node.
    NumaHintFaultsLocal = "numa_hint_faults_local" in "faults",
    /// Base pages migrated by NUMA hint faults.
    NumaPagesMigrated = "numa_pages_migrated" in "pages",
    /// Base pages migrated, whatever the reason.
    PgmigrateSuccess = "pgmigrate_success" in "pages",
    /// Base pages whose migration failed.
    PgmigrateFail = "pgmigrate_fail" in "pages",
    /// Pages that kswapd demoted to slow memory.
    PgdemoteKswapd = "pgdemote_kswapd" in "pages",
    /// Pages that direct reclaim demoted to slow memory.
    PgdemoteDirect = "pgdemote_direct" in "pages",
    /// Pages of slow memory promoted to fast memory.
    PgpromoteSuccess = "pgpromote_success" in "pages",
    /// Pages hot enough for promotion, promoted or not.
    PgpromoteCandidate = "pgpromote_candidate" in "pages",
    /// Pages promoted without a heat test because the node had room to spare (7.x).
    PgpromoteCandidateNrl = "pgpromote_candidate_nrl" in "pages",
    /// Threads moved to another node to be near their memory.
    NumaTaskMigrated = "numa_task_migrated" in "threads",
    /// Pairs of threads swapped between nodes to be near their memory.
    NumaTaskSwapped = "numa_task_swapped" in "pairs of threads",
    /// NUMA scan passes that a thread claimed.
    NumaScanPasses = "numa_scan_passes" in "passes",
    /// VMAs that a scan pass skipped because their pages cannot migrate (reason of `sched_skip_vma_numa`,
    /// like the next six).
    NumaSkipUnsuitable = "numa_skip_unsuitable" in "VMAs",
    /// VMAs skipped as read-only file mappings.
    NumaSkipSharedRo = "numa_skip_shared_ro" in "VMAs",
    /// VMAs skipped as inaccessible (PROT_NONE).
    NumaSkipInaccessible = "numa_skip_inaccessible" in "VMAs",
    /// VMAs skipped as younger than scan_delay_ms.
    NumaSkipScanDelay = "numa_skip_scan_delay" in "VMAs",
    /// VMAs skipped because the scanning thread took no hint fault in them.
    NumaSkipPidInactive = "numa_skip_pid_inactive" in "VMAs",
    /// VMAs scanned although the thread took no hint fault in them, because an earlier pass scanned part of
    /// them.
    NumaIgnorePidInactive = "numa_ignore_pid_inactive" in "VMAs",
    /// VMAs skipped because this scan sequence covered them already.
    NumaSkipSeqCompleted = "numa_skip_seq_completed" in "VMAs",
    /// Scan passes skipped because the cpuset allows one node only (`sched_skip_cpuset_numa`).
    NumaSkipCpuset = "numa_skip_cpuset" in "passes",
    /// Pages added to the page cache.
    PageCacheAdded = "page_cache_added" in "pages",
    /// Pages that reclaim removed from the page cache.
    PageCacheRemoved = "page_cache_removed" in "pages",
    /// Direct compactions, without those that found too few free pages in every zone.
    CompactStall = "compact_stall" in "compactions",
    /// Direct compactions that yielded a block.
    CompactSuccess = "compact_success" in "compactions",
    /// Direct compactions that yielded none.
    CompactFail = "compact_fail" in "compactions",
    /// Pages that the migrate scanner visited.
    CompactMigrateScanned = "compact_migrate_scanned" in "pages",
    /// Pages that the free scanner visited.
    CompactFreeScanned = "compact_free_scanned" in "pages",
    /// Runs of kcompactd.
    KcompactdWake = "compact_daemon_wake" in "runs",
    /// Huge pages allocated by page faults.
    ThpFaultAlloc = "thp_fault_alloc" in "huge pages",
    /// Page faults that wanted a huge page and fell back to smaller ones.
    ThpFaultFallback = "thp_fault_fallback" in "faults",
    /// Page faults that fell back because the memory cgroup had no room for a huge page.
    ThpFaultFallbackCharge = "thp_fault_fallback_charge" in "faults",
    /// Huge pages split.
    ThpSplitPage = "thp_split_page" in "huge pages",
    /// Huge pages put on the deferred split queue.
    ThpDeferredSplitPage = "thp_deferred_split_page" in "huge pages",
    /// Huge pages split as underused: most of their pages were zero.
    ThpUnderusedSplitPage = "thp_underused_split_page" in "huge pages",
    /// Huge pages whose split failed.
    ThpSplitPageFailed = "thp_split_page_failed" in "huge pages",
    /// Huge pages swapped out whole.
    ThpSwpout = "thp_swpout" in "huge pages",
    /// Huge pages split before swap-out because swap had no room for them in one piece.
    ThpSwpoutFallback = "thp_swpout_fallback" in "huge pages",
    /// Huge pages allocated by khugepaged.
    ThpCollapseAlloc = "thp_collapse_alloc" in "huge pages",
    /// Huge-page allocations of khugepaged that failed.
    ThpCollapseAllocFailed = "thp_collapse_alloc_failed" in "allocations",
    /// Ranges that khugepaged skipped for too many empty PTEs (max_ptes_none).
    ThpScanExceedNonePte = "thp_scan_exceed_none_pte" in "ranges",
    /// Ranges that khugepaged skipped for too many swap PTEs (max_ptes_swap).
    ThpScanExceedSwapPte = "thp_scan_exceed_swap_pte" in "ranges",
    /// Ranges that khugepaged skipped for too many shared pages (max_ptes_shared).
    ThpScanExceedSharePte = "thp_scan_exceed_share_pte" in "ranges",
    /// Allocations of the huge zero page.
    ThpZeroPageAlloc = "thp_zero_page_alloc" in "allocations",
    /// Failed allocations of the huge zero page.
    ThpZeroPageAllocFailed = "thp_zero_page_alloc_failed" in "allocations",
    /// Processes killed by the OOM killer.
    OomKill = "oom_kill" in "processes",
    /// Runs of the vmstat worker.
    VmstatUpdate = "vmstat_update" in "runs",
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
    pub fn pages_from_zone(&self) -> u64 {
        self.get(Event::PcpRefilledPages) + self.get(Event::ZoneDirectAllocPages)
    }
}
