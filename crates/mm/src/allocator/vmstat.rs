//! Wake-up times of the per-CPU vmstat workers.
//!
//! The worker of a CPU runs every `vm.stat_interval` seconds as long as it finds work: it folds the CPU's
//! counters and lets its pagesets decay ([`Kernel::vmstat_update`](crate::kernel::Kernel::vmstat_update)). A
//! worker without work sleeps until the shepherd, which runs once an interval, finds unfolded counters on its
//! CPU. The twin wakes a worker at each interval at which it has work, on idle CPUs too, since a real idle
//! CPU runs the worker with its next interrupt of any kind. In the kernel: `vmstat_update`, `vmstat_shepherd`
//! in mm/vmstat.c.

use machine::{Cpu, Time};

/// The next wake-up of each CPU's vmstat worker.
#[derive(Clone, Debug)]
pub struct VmstatTimers {
    next: Vec<Time>,
    interval: Time,
}

impl VmstatTimers {
    /// Timers for `cpus` CPUs, spread over the interval as boot spreads them.
    pub fn new(cpus: usize, interval_seconds: u64) -> VmstatTimers {
        let interval = Time::from_seconds(interval_seconds as f64);
        let next = (0..cpus as u64).map(|cpu| interval.fraction(cpu + 1, cpus as u64)).collect();
        VmstatTimers { next, interval }
    }

    /// When `cpu`'s worker runs next.
    #[inline]
    pub fn due(&self, cpu: Cpu) -> Time {
        self.next[cpu.index()]
    }

    /// Sets `cpu`'s timer to the next interval.
    pub fn advance(&mut self, cpu: Cpu) {
        self.next[cpu.index()] += self.interval;
    }
}
