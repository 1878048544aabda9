//! What a tree may decide about where memory and tasks go, as records of plain numbers.
//!
//! In the kernel: `should_numa_migrate_memory`, `numa_promotion_adjust_threshold` and `preferred_group_nid` in kernel/sched/fair.c (6.1 to
//! 6.12). Times are in ms.

use super::rule::flat;

/// As many nodes as a record has room for.
pub const MOST_NODES: usize = 8;

flat! {
    /// A hint fault on a page, the thread that took it, and the promotion state of the node that the page would go to.
    pub struct NumaMigrateState as "mmtwin_numa_migrate" {
        /// The thread's PID.
        pub pid: i32,
        /// `p->numa_preferred_nid`, -1 for none.
        pub preferred_nid: i32,
        /// `p->numa_scan_seq`.
        pub scan_seq: i32,
        /// Whether the thread is in a NUMA group.
        pub has_group: i32,
        /// Its group's weighted faults of threads that ran on the source and on the destination node.
        pub cpu_faults: [u64; 2],
        /// Its group's faults on memory of the source and of the destination node.
        pub memory_faults: [u64; 2],
        /// Asked: the node that the page is on.
        pub source: i32,
        /// Asked: the node that the page would go to, of eight CPUs each.
        pub destination: i32,
        /// What the page says about its last fault: a cpupid, or in slow memory a time.
        pub last_cpupid: i32,
        /// Whether memory tiering is on (`NUMA_BALANCING_MEMORY_TIERING`).
        pub tiering: i32,
        /// Whether the source node has slow memory (`!node_is_toptier`).
        pub from_slow_memory: i32,
        /// Whether the destination node has memory to spare (`pgdat_free_space_enough`).
        pub free_space_enough: i32,
        /// Pages of the folio.
        pub nr_pages: u64,
        /// The present time.
        pub now: u32,
        /// `numa_balancing/hot_threshold_ms`.
        pub hot_threshold: u32,
        /// `kernel.numa_balancing_promote_rate_limit_MBps`.
        pub rate_limit: u32,
        /// `numa_balancing/scan_period_max_ms`.
        pub scan_period_max: u32,
        /// `pgdat->nbp_threshold`, asked and answered like all of the node that follow.
        pub threshold: u32,
        /// `pgdat->nbp_th_start`.
        pub threshold_start: u32,
        /// `pgdat->nbp_rl_start`.
        pub rate_start: u32,
        /// `pgdat->nbp_th_nr_cand`.
        pub threshold_candidates: u64,
        /// `pgdat->nbp_rl_nr_cand`.
        pub rate_candidates: u64,
        /// `PGPROMOTE_CANDIDATE`.
        pub candidates: u64,
        /// Answered: whether the page may go.
        pub answer: i32,
    }
}

flat! {
    /// A NUMA group's memory, and the nodes that it is on.
    pub struct GroupNodesState as "mmtwin_group_nodes" {
        /// How many nodes there are.
        pub nodes: i32,
        /// Asked: the node with most of the group's memory.
        pub nid: i32,
        /// Nodes with CPUs, a bit each.
        pub with_cpus: u64,
        /// `node_distance` of all pairs, eight for each node.
        pub distances: [u32; 64],
        /// `enum numa_topology_type`: 0 direct, 1 glueless mesh, 2 backplane.
        pub topology: i32,
        /// `sched_max_numa_distance`.
        pub max_distance: i32,
        /// Distances between nodes with CPUs, a bit each (`find_numa_distance`).
        pub levels: [u64; 4],
        /// The group's faults on memory of each node.
        pub faults: [u64; 8],
        /// Answered: the node that suits the group best.
        pub answer: i32,
    }
}
