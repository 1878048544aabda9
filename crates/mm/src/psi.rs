//! Memory stalls: time in which a task stands still because memory is short, as /proc/pressure/memory counts it.
//!
//! ```text
//!   psi_memstall_enter ─┬─ direct reclaim, for an allocation or for a limit ─┬─► psi_memstall_leave
//!                       ├─ direct compaction                                 │
//!                       ├─ sleep for memory.high                             │
//!                       └─ wait for a folio that had been evicted            ┘
//! ```
//!
//! The memory manager adds what its own work takes ([`Kernel::stands_still`]); who puts tasks to sleep adds what they sleep
//! ([`MemoryStalls::add`]). Of each CPU it is kept apart, for the task that runs there. In the kernel: kernel/sched/psi.c, and the callers
//! of `psi_memstall_enter` in mm. Left out: stalls of kswapd and kcompactd, and pressure itself, the share of time.

use crate::kernel::Kernel;
use machine::{Cpu, Time};

/// Why a task stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryStall {
    /// An allocation finds no free page and reclaims some (`__alloc_pages_direct_reclaim`).
    DirectReclaim,
    /// An allocation makes room for a block (`__alloc_pages_direct_compact`).
    DirectCompaction,
    /// A memory cgroup is at its memory.max and is reclaimed from (`try_charge_memcg`).
    MemoryMax,
    /// A memory cgroup is above its memory.high: the task reclaims from it, or sleeps (`mem_cgroup_handle_over_high`).
    MemoryHigh,
    /// A folio that was used again soon after its eviction is read back (`folio_wait_bit_common`, `PG_workingset`).
    Refault,
}

impl MemoryStall {
    pub const ALL: [MemoryStall; 5] = [
        MemoryStall::DirectReclaim,
        MemoryStall::DirectCompaction,
        MemoryStall::MemoryMax,
        MemoryStall::MemoryHigh,
        MemoryStall::Refault,
    ];

    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            MemoryStall::DirectReclaim => "direct reclaim",
            MemoryStall::DirectCompaction => "direct compaction",
            MemoryStall::MemoryMax => "memory.max",
            MemoryStall::MemoryHigh => "memory.high",
            MemoryStall::Refault => "refault",
        }
    }
}

/// How long a task has stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Since when.
    pub began: Time,
    /// By [`MemoryStall`].
    causes: [Time; MemoryStall::ALL.len()],
}

impl Stall {
    fn new(began: Time) -> Stall {
        Stall { began, causes: Default::default() }
    }

    /// This stall and a later part of it.
    pub fn and(mut self, later: Stall) -> Stall {
        self.causes.iter_mut().zip(later.causes).for_each(|(time, more)| *time += more);
        self
    }

    /// All of it; what the task did in between does not count.
    pub fn length(&self) -> Time {
        self.causes.iter().copied().sum()
    }

    /// The causes that took time.
    pub fn causes(&self) -> impl Iterator<Item = (MemoryStall, Time)> {
        MemoryStall::ALL.into_iter().zip(self.causes).filter(|&(_, time)| time > Time::ZERO)
    }
}

/// What the tasks on CPUs have stood still since it was taken last.
#[derive(Clone, Debug)]
pub struct MemoryStalls {
    by_cpu: Vec<Option<Stall>>,
}

impl MemoryStalls {
    pub(crate) fn new(cpus: usize) -> MemoryStalls {
        MemoryStalls { by_cpu: vec![None; cpus] }
    }

    /// Notes that the task on a CPU stands still for some time from `began` on.
    pub fn add(&mut self, cpu: Cpu, cause: MemoryStall, (began, time): (Time, Time)) {
        if time > Time::ZERO {
            let stall = self.by_cpu[cpu.index()].get_or_insert_with(|| Stall::new(began));
            stall.causes[cause as usize] += time;
        }
    }

    /// Takes what the task on a CPU has stood still.
    #[inline]
    pub fn take(&mut self, cpu: Cpu) -> Option<Stall> {
        self.by_cpu[cpu.index()].take()
    }
}

impl Kernel<'_> {
    /// Does work that makes the task on the CPU stand still.
    pub(crate) fn stands_still<T>(&mut self, cause: MemoryStall, work: impl FnOnce(&mut Self) -> T) -> T {
        let began = self.on.machine.now(self.on.cpu);
        let result = work(self);
        let took = self.on.machine.now(self.on.cpu) - began;
        self.parts.stalls.add(self.on.cpu, cause, (began, took));
        result
    }
}
