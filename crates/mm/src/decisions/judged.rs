//! Functions of a tree that only judge: no mechanics asks them yet, as their policies are part of a longer decision here.
//!
//! `kernel_tree` loads them and its differential test asks them. A function leaves this list when mechanics ask it.

use super::lru_gen::LruGenState;
use super::pcp::PcpZoneState;
use super::rule::{Rule, flat};

flat! {
    /// A shadow in the slot of a page that is gone, and the lists that it is held against (mm/workingset.c).
    pub struct ShadowState as "mmtwin_shadow" {
        /// The memory cgroup's number.
        pub memcg_id: i32,
        /// The node.
        pub node: i32,
        /// When the page was evicted: an age, or a generation and accesses.
        pub eviction: u64,
        /// It had been in the working set.
        pub workingset: i32,
        /// What the slot holds, without the xarray's mark.
        pub value: u64,
        /// Asked: whether the page is one of a file.
        pub file: i32,
        /// Whether the multi-gen LRU is in use.
        pub lru_gen_enabled: i32,
        /// Whether the memory cgroup is still there.
        pub memcg_exists: i32,
        /// Whether it has free swap.
        pub has_swap: i32,
        /// Low bits that ages lose.
        pub bucket_order: i32,
        /// Evictions and activations so far.
        pub nonresident_age: u64,
        /// Oldest generation of anonymous memory and of files.
        pub min_seq: [u64; 2],
        /// Pages of the lists: inactive and active anonymous, inactive and active of files.
        pub sizes: [u64; 4],
        /// Answered: whether it was evicted recently.
        pub answer: i32,
    }
}

flat! {
    /// A readahead window (mm/readahead.c).
    pub struct ReadaheadState as "mmtwin_readahead" {
        /// Pages asked for, or of the last window.
        pub size: u64,
        /// The longest window.
        pub max: u64,
        /// Answered: pages.
        pub answer: u64,
    }
}

flat! {
    /// A task whose memory is scanned (kernel/sched/fair.c).
    pub struct NumaScanState as "mmtwin_numa_scan" {
        /// `numa_balancing/scan_size_mb`.
        pub scan_size_mb: u32,
        /// `numa_balancing/scan_period_min_ms`.
        pub scan_period_min_ms: u32,
        /// `numa_balancing/scan_period_max_ms`.
        pub scan_period_max_ms: u32,
        /// Whether the task has a group.
        pub has_group: i32,
        /// Resident pages.
        pub rss: u64,
        /// Tasks of its group.
        pub group_refs: u64,
        /// Its group's faults on pages that others had touched.
        pub group_shared: u64,
        /// Its group's other faults.
        pub group_private: u64,
        /// `p->numa_scan_period`, asked and answered.
        pub scan_period: u32,
        /// `p->numa_scan_period_max`.
        pub scan_period_max: u32,
        /// Faults since the last update: remote, local, and pages that could not be moved.
        pub locality: [u64; 3],
        /// New faults on pages that others had touched.
        pub shared: u64,
        /// Other new faults.
        pub private: u64,
        /// Answered: a period, ms.
        pub answer: u32,
        /// Answered by `update_task_scan_period`: the next scan of the address space is put off.
        pub puts_off_scan: i32,
    }
}

flat! {
    /// Free blocks of a zone (mm/vmstat.c and mm/compaction.c).
    pub struct FragmentationState as "mmtwin_fragmentation" {
        /// Free blocks of each order.
        pub free_blocks: [u64; 11],
        /// Asked: which order.
        pub order: i32,
        /// `vm.compaction_proactiveness`.
        pub proactiveness: i32,
        /// Asked of `fragmentation_score_wmark`: which mark.
        pub low: i32,
        /// Answered.
        pub answer: i32,
    }
}

flat! {
    /// How far compaction of a zone is put off (mm/compaction.c).
    pub struct DeferralState as "mmtwin_deferral" {
        /// `zone->compact_considered`.
        pub considered: u32,
        /// `zone->compact_defer_shift`.
        pub shift: u32,
        /// `zone->compact_order_failed`.
        pub order_failed: i32,
        /// Asked: which order.
        pub order: i32,
        /// Asked of `compaction_defer_reset`: whether the request got its block.
        pub alloc_success: i32,
        /// Answered: whether the request goes without compaction.
        pub answer: i32,
    }
}

flat! {
    /// A VMA that a pass of scanning meets, and the thread that scans (kernel/sched/fair.c).
    pub struct VmaAccessState as "mmtwin_vma_access" {
        /// `mm->numa_scan_seq`.
        pub scan_seq: i32,
        /// `numab_state->start_scan_seq`.
        pub start_scan_seq: i32,
        /// `numab_state->prev_scan_seq`.
        pub prev_scan_seq: i32,
        /// Threads of the process.
        pub nr_threads: i32,
        /// The thread's number.
        pub pid: i32,
        /// Answered: whether it may scan the VMA.
        pub answer: i32,
        /// Who touched the VMA: in the window before, and in this one.
        pub pids_active: [u64; 2],
        /// `mm->numa_scan_offset`.
        pub scan_offset: u64,
        /// `vma->vm_start`.
        pub vm_start: u64,
    }
}

flat! {
    /// A flusher and its device (mm/page-writeback.c). Rates are pages a second.
    pub struct WritebackState as "mmtwin_writeback" {
        /// Dirty pages.
        pub dirty: u64,
        /// The dirty limit.
        pub thresh: u64,
        /// The background limit.
        pub bg_thresh: u64,
        /// How many dirty pages are aimed at.
        pub setpoint: u64,
        /// The limit in force.
        pub limit: u64,
        /// How fast the device writes.
        pub avg_write_bandwidth: u64,
        /// How fast each task may dirty pages at the setpoint.
        pub dirty_ratelimit: u64,
        /// How fast this task may.
        pub task_ratelimit: u64,
        /// The flusher's dirty pages.
        pub wb_dirty: u64,
        /// The longest pause, jiffies.
        pub max_pause: i64,
        /// Answered.
        pub answer: i64,
        /// Answered by `wb_min_pause`: pages until the next pause.
        pub nr_dirtied_pause: i32,
        /// 2^12 for pages of 4 KiB.
        pub page_shift: i32,
    }
}

/// The functions that only judge, if a tree's are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Whether one tier comes back no more often than another.
    pub positive_ctrl_err: Rule<LruGenState>,
    /// What is known of a tier.
    pub read_ctrl_pos: Rule<LruGenState>,
    /// Whether a new generation is due.
    pub should_run_aging: Rule<LruGenState>,
    /// What a slot holds.
    pub pack_shadow: Rule<ShadowState>,
    /// What it says.
    pub unpack_shadow: Rule<ShadowState>,
    /// Whether a page was evicted in the oldest generation.
    pub lru_gen_test_recent: Rule<ShadowState>,
    /// Whether a page would have stayed.
    pub workingset_test_recent: Rule<ShadowState>,
    /// How long the first window is.
    pub get_init_ra_size: Rule<ReadaheadState>,
    /// How long the next one is.
    pub get_next_ra_size: Rule<ReadaheadState>,
    /// The shortest period between two scans.
    pub task_scan_min: Rule<NumaScanState>,
    /// The longest one.
    pub task_scan_max: Rule<NumaScanState>,
    /// The next one.
    pub update_task_scan_period: Rule<NumaScanState>,
    /// At which score proactive compaction begins and ends.
    pub fragmentation_score_wmark: Rule<FragmentationState>,
    /// Whether lack of memory or fragmentation is why a request would fail.
    pub fragmentation_index: Rule<FragmentationState>,
    /// Which share of free memory is of no use to a request.
    pub extfrag_for_order: Rule<FragmentationState>,
    /// Compaction has failed.
    pub defer_compaction: Rule<DeferralState>,
    /// Whether a request goes without.
    pub compaction_deferred: Rule<DeferralState>,
    /// Compaction has made a block.
    pub compaction_defer_reset: Rule<DeferralState>,
    /// Whether a thread may scan a VMA.
    pub vma_is_accessed: Rule<VmaAccessState>,
    /// How far a CPU's counter may drift.
    pub calculate_normal_threshold: Rule<PcpZoneState>,
    /// What is kept of a generation's counts.
    pub reset_ctrl_pos: Rule<LruGenState>,
    /// Whether active pages are to become inactive.
    pub inactive_is_low: Rule<ShadowState>,
    /// Pages until the number of dirty pages is looked at again.
    pub dirty_poll_interval: Rule<WritebackState>,
    /// Up to how many dirty pages nobody pauses.
    pub dirty_freerun_ceiling: Rule<WritebackState>,
    /// How much of its rate a task gets.
    pub pos_ratio_polynom: Rule<WritebackState>,
    /// The longest pause.
    pub wb_max_pause: Rule<WritebackState>,
    /// The shortest one.
    pub wb_min_pause: Rule<WritebackState>,
    /// The first period between two scans.
    pub task_scan_start: Rule<NumaScanState>,
}
