//! What each kernel's scheduler decides about threads on several nodes: where they go, and how much it takes until one is moved.
//!
//! ```text
//!   a fault says where a thread belongs ─► placement, small_gain, numa_imbalance_min, imb_numa_shift     task_numa_migrate
//!   a tick on a busy CPU                ─► imbalance_pct, busy_factor, cache_nice_tries                  sched_balance_rq
//! ```
//!
//! The scheduler itself is not the memory manager's, and is none of this crate's: whoever runs threads asks for these values. All
//! modelled releases have the same, so there is one set; a patch of the scheduler is another one, made of it. The kernel keeps
//! them in kernel/sched/fair.c and, by domain, in `sd_init` of kernel/sched/topology.c.

/// How a thread gets to its preferred node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPlacement {
    /// Threads stay.
    Stay,
    /// They move if a CPU is idle there.
    Idle,
    /// They move or change places (`task_numa_migrate`).
    Swap,
}

/// What one kernel's scheduler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedFeatures {
    /// How a thread gets to its preferred node.
    pub placement: TaskPlacement,
    /// A gain that is worth changing places for, in thousandths of all faults (`SMALLIMP`).
    pub small_gain: u32,
    /// By how many threads nodes may differ of which one is nearly idle (`NUMA_IMBALANCE_MIN`).
    pub numa_imbalance_min: u32,
    /// A node is nearly idle with so many of its CPUs busy: all of them, halved as often as this says (`imb_numa_nr`).
    pub imb_numa_shift: u32,
    /// By how much more threads a CPU a part of a domain must have before one of them moves, per cent of the other part's.
    pub imbalance_pct: u32,
    /// A busy CPU balances so much less often than an idle one.
    pub busy_factor: u32,
    /// How many failures it takes until a thread leaves the node where its memory is (of domains of nodes).
    pub cache_nice_tries: u32,
}

impl SchedFeatures {
    pub(crate) const R61: SchedFeatures = SchedFeatures {
        placement: TaskPlacement::Swap,
        small_gain: 30,
        numa_imbalance_min: 2,
        imb_numa_shift: 3,
        imbalance_pct: 117,
        busy_factor: 16,
        cache_nice_tries: 2,
    };
}
