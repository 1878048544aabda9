//! What every part of the memory manager works on that is not its own: the CPU that pays and its machine, which kernel
//! this is, its settings, and what is counted.
//!
//! ```text
//!   Kernel { parts, on } ─► parts.swap.free(&mut on, slot) ─► on.counters.add(...), on.machine.charge(on.cpu, ...)
//! ```

use crate::account::Category;
use crate::counters::Counters;
use crate::features::Features;
use crate::latency::Latencies;
use crate::sysctl::Settings;
use machine::{Cpu, Machine};

/// What a part of the memory manager works on that is not its own: a zone or a lruvec knows nothing of other parts.
pub struct OnCpu<'a> {
    /// The machine.
    pub machine: &'a mut Machine<Category>,
    /// The CPU that pays.
    pub cpu: Cpu,
    /// Which kernel this is.
    pub features: &'a Features,
    /// Its settings.
    pub settings: &'a Settings,
    /// Its counters.
    pub counters: &'a mut Counters,
    /// Its latency records.
    pub latencies: &'a mut Latencies,
}

impl OnCpu<'_> {
    /// The same on another CPU, which pays.
    #[inline]
    pub(crate) fn another(&mut self, cpu: Cpu) -> OnCpu<'_> {
        OnCpu {
            machine: self.machine,
            cpu,
            features: self.features,
            settings: self.settings,
            counters: self.counters,
            latencies: self.latencies,
        }
    }
}
