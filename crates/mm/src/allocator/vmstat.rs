//! When the per-CPU vmstat workers run.
//!
//! Each CPU's worker wakes every `vm.stat_interval` seconds while it finds something to do, folds the CPU's
//! counters and lets the pagesets decay ([`Kernel::vmstat_update`](crate::kernel::Kernel::vmstat_update)). A worker that found nothing
//! sleeps until the shepherd, which looks once an interval at CPUs with unfolded counters. The twin wakes a
//! worker at each interval at which it has work, on idle CPUs too: a real idle CPU runs it with its next
//! interrupt of any kind.
//! In the kernel: `vmstat_update`, `vmstat_shepherd` in mm/vmstat.c.

use machine::{Cpu, Time};

/// The next wake-up of each CPU's worker.
#[derive(Clone, Debug)]
pub struct VmstatTimers {
    next: Vec<Time>,
    interval: Time,
}

impl VmstatTimers {
    /// Timers for `cpus` CPUs; wake-ups are spread over the interval, as boot spreads them.
    pub fn new(cpus: usize, interval_seconds: u64) -> VmstatTimers {
        let interval = Time::from_seconds(interval_seconds as f64);
        let next = (0..cpus as u64).map(|cpu| interval.fraction(cpu + 1, cpus as u64)).collect();
        VmstatTimers { next, interval }
    }

    /// When `cpu`'s worker wants to run next.
    #[inline]
    pub fn due(&self, cpu: Cpu) -> Time {
        self.next[cpu.index()]
    }

    /// `cpu`'s worker has had its turn.
    pub fn advance(&mut self, cpu: Cpu) {
        self.next[cpu.index()] += self.interval;
    }
}
