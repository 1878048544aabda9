//! Scheduler features: where each kernel puts threads on a NUMA machine, and how much imbalance moves one.
//!
//! ```text
//!   a hint fault sets the preferred node ─► placement, small_gain, numa_imbalance_min, imb_numa_shift     task_numa_migrate
//!   a tick on a busy CPU                ─► imbalance_pct, busy_factor, cache_nice_tries                  sched_balance_rq
//! ```
//!
//! The scheduler is not part of the memory manager: whoever runs threads asks for these values. All modelled
//! releases have the same ones, so there is one set; a patch of the scheduler is a second set built from it.
//! The kernel keeps the values in kernel/sched/fair.c and, for each domain, in `sd_init` of
//! kernel/sched/topology.c.

use super::by_name::features;

features! {
    /// How a thread gets to its preferred node (`task_numa_migrate`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TaskPlacement {
        /// Threads stay where they are.
        Stay,
        /// A thread moves if a CPU of the node is idle.
        Idle,
        /// A thread moves to an idle CPU or changes places with another thread (`task_numa_migrate`).
        Swap,
    }

    /// The scheduler's values in one kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SchedFeatures {
        /// How a thread gets to its preferred node (`task_numa_migrate`).
        pub placement: TaskPlacement,
        /// The gain that makes changing places worth it, in thousandths of all faults (`SMALLIMP`).
        pub small_gain: u32 => 0..=1024,
        /// Number of threads by which nodes may differ if one of them is nearly idle (`NUMA_IMBALANCE_MIN`).
        pub numa_imbalance_min: u32 => 0..=1024,
        /// A node is nearly idle while at most `CPUs >> imb_numa_shift` of them are busy (`imb_numa_nr`).
        pub imb_numa_shift: u32 => 0..=31,
        /// Load per CPU of the busiest part of a domain at which a thread is moved, per cent of the other part's
        /// (`imbalance_pct`).
        pub imbalance_pct: u32 => 100..=1000,
        /// How many times less often a busy CPU balances than an idle one (`busy_factor`).
        pub busy_factor: u32 => 1..=1024,
        /// Failed attempts before a thread may leave the node of its memory, in NUMA domains
        /// (`cache_nice_tries`).
        pub cache_nice_tries: u32 => 0..=64,
    }
}

impl SchedFeatures {
    pub(crate) const MAINLINE_6_1: SchedFeatures = SchedFeatures {
        placement: TaskPlacement::Swap,
        small_gain: 30,
        numa_imbalance_min: 2,
        imb_numa_shift: 3,
        imbalance_pct: 117,
        busy_factor: 16,
        cache_nice_tries: 2,
    };
}
