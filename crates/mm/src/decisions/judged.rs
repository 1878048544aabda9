//! Functions of a tree that only judge: no mechanics asks them yet, as their policies are part of a longer decision here.
//!
//! `kernel_tree` loads them and its differential test asks them. A function leaves this list when mechanics ask it.

use super::folios::{ScanPmdState, ThpWindowState};
use super::lru_gen::LruGenState;
use super::numa::{GroupNodesState, NumaMigrateState};
use super::pcp::PcpZoneState;
use super::reclaim::{ReferencesState, ScanCountState, TailFolioState};
use super::rule::{Rule, flat};
use super::scan_pass::ScanPassState;
use super::zone::{FallbackState, ZoneMarkState};

flat! {
    /// A shadow in the slot of a page that is gone, and the lists that it is held against (mm/workingset.c).
    pub struct ShadowState as "mmtwin_shadow" {
        /// The memory cgroup's number.
        pub memcg_id: i32,
        /// The node that the page was on.
        pub node: i32,
        /// When the page was evicted: an age, or a generation and accesses.
        pub eviction: u64,
        /// Whether the page had been in the working set.
        pub workingset: i32,
        /// What the slot holds, without the xarray's mark.
        pub value: u64,
        /// Asked: whether the page is one of a file.
        pub file: i32,
        /// Whether the multi-gen LRU is in use.
        pub lru_gen_enabled: i32,
        /// Whether the memory cgroup is still there.
        pub memcg_exists: i32,
        /// Whether the memory cgroup has free swap.
        pub has_swap: i32,
        /// How many low bits of an age a slot has no room for.
        pub bucket_order: i32,
        /// Evictions and activations so far.
        pub nonresident_age: u64,
        /// The oldest generation of anonymous memory and that of files.
        pub min_seq: [u64; 2],
        /// Pages of the lists: inactive and active anonymous, inactive and active of files.
        pub sizes: [u64; 4],
        /// Answered: whether the page was evicted recently.
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
        /// Answered: pages of the window.
        pub answer: u64,
    }
}

flat! {
    /// Free blocks of a zone (mm/vmstat.c and mm/compaction.c).
    pub struct FragmentationState as "mmtwin_fragmentation" {
        /// Free blocks of each order.
        pub free_blocks: [u64; 11],
        /// Asked: the order that blocks are wanted of.
        pub order: i32,
        /// `vm.compaction_proactiveness`.
        pub proactiveness: i32,
        /// Asked of `fragmentation_score_wmark`: the low mark, at which proactive compaction ends, or the high one.
        pub low: i32,
        /// Answered: a score, an index in thousandths, or a percentage.
        pub answer: i32,
    }
}

flat! {
    /// A zone whose request for a block fails, and whether compaction can help it (mm/compaction.c).
    pub struct SuitableState as "mmtwin_suitable" {
        /// Free blocks of each order.
        pub free_blocks: [u64; 11],
        /// `NR_FREE_PAGES`, which may lag behind the blocks.
        pub free_pages: i64,
        /// `zone->_watermark[WMARK_MIN]`.
        pub min: u64,
        /// `zone->_watermark[WMARK_LOW]`.
        pub low: u64,
        /// `zone->watermark_boost`.
        pub boost: u64,
        /// Pages of the zone that requests for higher zones leave alone.
        pub lowmem_reserve: u64,
        /// Free pages that are reserved for atomic requests of high order.
        pub free_highatomic: u64,
        /// Asked: the order of the request.
        pub order: i32,
        /// `vm.extfrag_threshold`.
        pub extfrag_threshold: i32,
        /// Answered: whether compaction begins.
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
        /// Asked: the order of the request.
        pub order: i32,
        /// Asked of `compaction_defer_reset`: whether the request got its block.
        pub alloc_success: i32,
        /// Answered: whether the request goes without compaction.
        pub answer: i32,
    }
}

flat! {
    /// A flusher and its device (mm/page-writeback.c). Rates are pages a second.
    pub struct WritebackState as "mmtwin_writeback" {
        /// Dirty pages of all files.
        pub dirty: u64,
        /// The dirty limit.
        pub thresh: u64,
        /// The background limit.
        pub bg_thresh: u64,
        /// How many dirty pages are aimed at.
        pub setpoint: u64,
        /// The limit in force.
        pub limit: u64,
        /// How fast the device has written on average.
        pub avg_write_bandwidth: u64,
        /// How fast each task may dirty pages at the setpoint.
        pub dirty_ratelimit: u64,
        /// How fast this task may dirty pages.
        pub task_ratelimit: u64,
        /// Dirty pages of the flusher's device.
        pub wb_dirty: u64,
        /// The longest pause in jiffies.
        pub max_pause: i64,
        /// Answered: pages, a ratio, or a pause in jiffies.
        pub answer: i64,
        /// Answered by `wb_min_pause`: pages until the next pause.
        pub nr_dirtied_pause: i32,
        /// 2^12 for pages of 4 KiB.
        pub page_shift: i32,
    }
}

flat! {
    /// The history of swap readahead, and a miss (mm/swap_state.c).
    pub struct SwapReadaheadState as "mmtwin_swap_readahead" {
        /// Where the last miss was.
        pub prev_offset: u64,
        /// Where this miss is.
        pub offset: u64,
        /// Pages read ahead that faults have found since the last miss.
        pub hits: i32,
        /// The longest window, a power of two.
        pub max_pages: i32,
        /// Pages of the last window.
        pub prev_win: i32,
        /// Answered: pages of the window.
        pub answer: u32,
    }
}

flat! {
    /// Nodes that huge pages may be allocated on in turn (mm/hugetlb.c).
    pub struct NextNodeState as "mmtwin_next_node" {
        /// Asked: the nodes that are allowed, a bit each.
        pub nodes_allowed: u64,
        /// Whose turn it is, asked and answered.
        pub next_node: i32,
        /// Answered: the node.
        pub answer: i32,
    }
}

/// The functions that only judge, if a tree's are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Whether folios of one tier come back no more often than those of another.
    pub positive_ctrl_err: Rule<LruGenState>,
    /// How many folios of a tier were evicted, and how many came back.
    pub read_ctrl_pos: Rule<LruGenState>,
    /// How many pages of a lruvec are scanned, and whether a new generation begins instead.
    pub get_nr_to_scan: Rule<LruGenState>,
    /// Whether a folio of the oldest generation is kept, and in which generation.
    pub sort_folio: Rule<TailFolioState>,
    /// What isolation does to the flags of a folio.
    pub isolate_folio: Rule<TailFolioState>,
    /// What the slot of an evicted page holds.
    pub pack_shadow: Rule<ShadowState>,
    /// What the slot of an evicted page says about it.
    pub unpack_shadow: Rule<ShadowState>,
    /// Whether a page was evicted in the oldest generation.
    pub lru_gen_test_recent: Rule<ShadowState>,
    /// Whether a page that comes back would have stayed had there been a little more memory.
    pub workingset_test_recent: Rule<ShadowState>,
    /// How many pages the first readahead window of a file has.
    pub get_init_ra_size: Rule<ReadaheadState>,
    /// How many pages the readahead window after this one has.
    pub get_next_ra_size: Rule<ReadaheadState>,
    /// Whether a page may go to the node of the thread that touches it.
    pub should_numa_migrate_memory: Rule<NumaMigrateState>,
    /// How soon after a scan a page of slow memory must be touched to be promoted.
    pub numa_promotion_adjust_threshold: Rule<NumaMigrateState>,
    /// Which VMAs a scan pass skips, and how far it gets.
    pub task_numa_work: Rule<ScanPassState>,
    /// The node that suits a group of tasks best.
    pub preferred_group_nid: Rule<GroupNodesState>,
    /// At which score proactive compaction begins and ends.
    pub fragmentation_score_wmark: Rule<FragmentationState>,
    /// Whether lack of memory or fragmentation is why a request would fail.
    pub fragmentation_index: Rule<FragmentationState>,
    /// Which share of free memory is of no use to a request.
    pub extfrag_for_order: Rule<FragmentationState>,
    /// Whether compaction of a zone can help a request.
    pub compaction_suitable: Rule<SuitableState>,
    /// What a failure of compaction does to later attempts.
    pub defer_compaction: Rule<DeferralState>,
    /// Whether a request goes without compaction because it failed before.
    pub compaction_deferred: Rule<DeferralState>,
    /// What a block that compaction made does to later attempts.
    pub compaction_defer_reset: Rule<DeferralState>,
    /// How far a CPU's counter of a zone may drift before it is folded into the zone's.
    pub calculate_normal_threshold: Rule<PcpZoneState>,
    /// What is kept of the counts of tiers when a generation ends.
    pub reset_ctrl_pos: Rule<LruGenState>,
    /// Whether active pages are to become inactive because too few of them are.
    pub inactive_is_low: Rule<ShadowState>,
    /// Pages until the number of dirty pages is looked at again.
    pub dirty_poll_interval: Rule<WritebackState>,
    /// The number of dirty pages up to which no task pauses.
    pub dirty_freerun_ceiling: Rule<WritebackState>,
    /// The share of its rate at which a task may dirty pages.
    pub pos_ratio_polynom: Rule<WritebackState>,
    /// The longest pause of a task that dirties pages.
    pub wb_max_pause: Rule<WritebackState>,
    /// The shortest pause of a task that dirties pages.
    pub wb_min_pause: Rule<WritebackState>,
    /// Whether a request may claim the pageblock of a block of another type.
    pub can_steal_fallback: Rule<FallbackState>,
    /// Which other type serves a request whose own type has no block.
    pub find_suitable_fallback: Rule<FallbackState>,
    /// How far watermarks are raised after a pageblock got pages of several types.
    pub boost_watermark: Rule<ZoneMarkState>,
    /// Whether a zone has enough free pages for a request.
    pub zone_watermark_ok: Rule<ZoneMarkState>,
    /// How many pages of each of the classic lists are scanned.
    pub get_scan_count: Rule<ScanCountState>,
    /// In which steps the classic lists are shrunk, and when that ends.
    pub shrink_lruvec: Rule<ScanCountState>,
    /// What reclaim does with a folio in view of its accesses.
    pub folio_check_references: Rule<ReferencesState>,
    /// How many entries of swap are read for a miss.
    pub swapin_nr_pages: Rule<SwapReadaheadState>,
    /// Which orders of folios are inside of a VMA.
    pub thp_vma_suitable_orders: Rule<ThpWindowState>,
    /// Whether khugepaged makes a huge page out of small ones.
    pub hpage_collapse_scan_pmd: Rule<ScanPmdState>,
    /// The node on which the next huge page is allocated.
    pub hstate_next_node_to_alloc: Rule<NextNodeState>,
    /// The node from which the next huge page is given back.
    pub hstate_next_node_to_free: Rule<NextNodeState>,
    /// How fragmented a zone is, for proactive compaction.
    pub fragmentation_score_zone: Rule<FragmentationState>,
}
