//! Delay accounting: time in which a task could have gone on and did not, by cause.
//!
//! ```text
//!   task ── runs ──┬─ a page fault reclaims, compacts, waits for a device ─┬── runs ──
//!                  │  direct reclaim   direct compaction   refault, device │
//!                  └───────────────── a delay, of one or several causes ───┘
//! ```
//!
//! The memory manager adds what its own work takes (`Kernel::delays_task`); who puts tasks to sleep adds what they sleep
//! ([`Delays::add`]). Of each CPU it is kept apart, for the task that runs there. Those for memory are what /proc/pressure/memory counts.
//! In the kernel: kernel/delayacct.c and the callers of `psi_memstall_enter` in mm. Left out: delays of kernel threads.

use machine::{Cpu, Time};

/// Why a task did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Others ran on its CPU, or the CPU was in a long path of the kernel (`run_delay`).
    RunQueue,
    /// It waited for a device.
    Device,
    /// Too much of what it or others had written was dirty (`balance_dirty_pages`).
    DirtyPages,
    /// An allocation found no free page and reclaimed some (`__alloc_pages_direct_reclaim`).
    DirectReclaim,
    /// An allocation made room for a block (`__alloc_pages_direct_compact`).
    DirectCompaction,
    /// Its memory cgroup was at memory.max and was reclaimed from (`try_charge_memcg`).
    MemoryMax,
    /// Its memory cgroup was above memory.high: it reclaimed from it, or slept (`mem_cgroup_handle_over_high`).
    MemoryHigh,
    /// A folio that had been in the working set was evicted and is read back (`folio_wait_bit_common`, `PG_workingset`). Other folios that
    /// come back count as [`Cause::Device`].
    Refault,
}

impl Cause {
    pub const ALL: [Cause; 8] = [
        Cause::RunQueue,
        Cause::Device,
        Cause::DirtyPages,
        Cause::DirectReclaim,
        Cause::DirectCompaction,
        Cause::MemoryMax,
        Cause::MemoryHigh,
        Cause::Refault,
    ];

    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::RunQueue => "run_queue",
            Cause::Device => "device",
            Cause::DirtyPages => "dirty_pages",
            Cause::DirectReclaim => "direct_reclaim",
            Cause::DirectCompaction => "direct_compaction",
            Cause::MemoryMax => "memory.max",
            Cause::MemoryHigh => "memory.high",
            Cause::Refault => "refault",
        }
    }

    /// Whether memory was short: it is a stall of /proc/pressure/memory.
    pub fn is_memory_stall(self) -> bool {
        !matches!(self, Cause::RunQueue | Cause::Device | Cause::DirtyPages)
    }
}

/// How long a task did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Since when.
    pub began: Time,
    /// By [`Cause`].
    causes: [Time; Cause::ALL.len()],
}

impl Delay {
    /// A delay of one cause.
    pub fn new(cause: Cause, (began, time): (Time, Time)) -> Delay {
        let mut causes = [Time::ZERO; Cause::ALL.len()];
        causes[cause as usize] = time;
        Delay { began, causes }
    }

    /// This delay and a later part of it.
    pub fn and(mut self, later: Delay) -> Delay {
        self.causes.iter_mut().zip(later.causes).for_each(|(time, more)| *time += more);
        self
    }

    /// The causes that took time.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, Time)> + Clone {
        Cause::ALL.into_iter().zip(self.causes).filter(|&(_, time)| time > Time::ZERO)
    }

    /// How long memory was the cause.
    pub fn memory_stall(&self) -> Time {
        self.causes().filter(|(cause, _)| cause.is_memory_stall()).map(|(_, time)| time).sum()
    }
}

/// The delays of the tasks on CPUs since they were taken last.
#[derive(Clone, Debug)]
pub struct Delays {
    by_cpu: Vec<Option<Delay>>,
}

impl Delays {
    pub(crate) fn new(cpus: usize) -> Delays {
        Delays { by_cpu: vec![None; cpus] }
    }

    /// Notes that the task on a CPU does not go on from `began` until so much later.
    pub fn add(&mut self, cpu: Cpu, cause: Cause, (began, time): (Time, Time)) {
        if time > Time::ZERO {
            let delay = Delay::new(cause, (began, time));
            let of_cpu = &mut self.by_cpu[cpu.index()];
            *of_cpu = Some(of_cpu.map_or(delay, |earlier| earlier.and(delay)));
        }
    }

    /// Takes the delay of the task on a CPU.
    #[inline]
    pub fn take(&mut self, cpu: Cpu) -> Option<Delay> {
        let of_cpu = &mut self.by_cpu[cpu.index()];
        // Mostly there is none, and to move all of it takes the host longer.
        if of_cpu.is_some() { of_cpu.take() } else { None }
    }
}
