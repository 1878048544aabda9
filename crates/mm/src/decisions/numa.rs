//! What a tree may decide about NUMA balancing, as records of plain numbers: how often and where a thread scans, and where memory and tasks
//! go.
//!
//! In the kernel: `task_scan_min`, `task_scan_max`, `task_scan_start`, `update_task_scan_period`, `vma_is_accessed`,
//! `should_numa_migrate_memory`, `numa_promotion_adjust_threshold` and `preferred_group_nid` in kernel/sched/fair.c (6.1 to
//! 6.12). Times are in ms.

use super::rule::{Rule, flat};

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

flat! {
    /// A task whose memory is scanned (kernel/sched/fair.c).
    pub struct NumaScanState as "mmtwin_numa_scan" {
        /// `numa_balancing/scan_size_mb`.
        pub scan_size_mb: u32,
        /// `numa_balancing/scan_period_min_ms`.
        pub scan_period_min_ms: u32,
        /// `numa_balancing/scan_period_max_ms`.
        pub scan_period_max_ms: u32,
        /// Whether the task is in a NUMA group.
        pub has_group: i32,
        /// Resident pages of the task's address space.
        pub rss: u64,
        /// How many tasks are in its group.
        pub group_refs: u64,
        /// Its group's faults on pages that others had touched.
        pub group_shared: u64,
        /// Its group's faults on pages that only one task had touched.
        pub group_private: u64,
        /// `p->numa_scan_period`, asked and answered.
        pub scan_period: u32,
        /// `p->numa_scan_period_max`.
        pub scan_period_max: u32,
        /// Faults since the last update: remote, local, and pages that could not be moved.
        pub locality: [u64; 3],
        /// New faults on pages that others had touched.
        pub shared: u64,
        /// New faults on pages that only this task had touched.
        pub private: u64,
        /// Answered: a period in milliseconds.
        pub answer: u32,
        /// Answered by `update_task_scan_period`: the next scan of the address space is put off.
        pub puts_off_scan: i32,
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
        /// How many threads the process has.
        pub nr_threads: i32,
        /// The number of the thread that scans.
        pub pid: i32,
        /// Answered: whether it may scan the VMA.
        pub answer: i32,
        /// Answered: that is because an earlier pass scanned part of it (`NUMAB_SKIP_IGNORE_PID`).
        pub ignores_pid: i32,
        /// Who touched the VMA: in the window before, and in this one.
        pub pids_active: [u64; 2],
        /// `mm->numa_scan_offset`.
        pub scan_offset: u64,
        /// `vma->vm_start`.
        pub vm_start: u64,
    }
}

/// Who makes each decision about scanning.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumaDecisions {
    /// The shortest period between two scans of a task's memory.
    pub task_scan_min: Rule<NumaScanState>,
    /// The longest period between two scans of a task's memory.
    pub task_scan_max: Rule<NumaScanState>,
    /// The first period between two scans of a task's memory.
    pub task_scan_start: Rule<NumaScanState>,
    /// The period until the next scan of a task's memory.
    pub update_task_scan_period: Rule<NumaScanState>,
    /// Whether a thread may scan a VMA, because it or the process used it lately.
    pub vma_is_accessed: Rule<VmaAccessState>,
}

impl NumaDecisions {
    /// The twin makes all of them.
    pub const OWN: NumaDecisions = NumaDecisions {
        task_scan_min: Rule::Own,
        task_scan_max: Rule::Own,
        task_scan_start: Rule::Own,
        update_task_scan_period: Rule::Own,
        vma_is_accessed: Rule::Own,
    };
}
