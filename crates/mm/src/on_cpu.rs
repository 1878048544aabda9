//! The context that every part of the memory manager works in: the CPU that pays, its machine, the kernel's
//! features, its settings and its counters.
//!
//! ```text
//!   Kernel { parts, on } ─► parts.swap.free(&mut on, slot) ─► on.counters.add(...), on.machine.charge(on.cpu, ...)
//! ```

use crate::account::Category;
use crate::counters::Counters;
use crate::decisions::Decisions;
use crate::features::Features;
use crate::latency::Latencies;
use crate::sysctl::Settings;
use machine::{Cpu, Machine};

/// What a part needs that is not its own state: a zone or a lruvec sees this, and no other part.
pub struct OnCpu<'a> {
    pub machine: &'a mut Machine<Category>,
    /// The CPU that pays.
    pub cpu: Cpu,
    pub features: &'a Features,
    /// Whose functions decide.
    pub decisions: &'a Decisions,
    pub settings: &'a Settings,
    pub counters: &'a mut Counters,
    pub latencies: &'a mut Latencies,
}

impl OnCpu<'_> {
    /// The same context on another CPU, which pays.
    #[inline]
    pub(crate) fn another(&mut self, cpu: Cpu) -> OnCpu<'_> {
        OnCpu {
            machine: self.machine,
            cpu,
            features: self.features,
            decisions: self.decisions,
            settings: self.settings,
            counters: self.counters,
            latencies: self.latencies,
        }
    }
}
