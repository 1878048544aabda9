//! What a task that enters the kernel has at hand: the memory manager, the machine, and the CPU that it runs on and that pays.
//!
//! ```text
//!   program ─► mm.enter(&mut machine, cpu) ─► Kernel ─► fault, read, free, reclaim ...
//!                                            │
//!                                            ├─ mm       what the kernel knows: zones, folios, lists, pools
//!                                            ├─ machine  what it costs, and when it is
//!                                            └─ cpu      who pays
//! ```
//!
//! Whatever costs time is written on [`Kernel`], in the order in which the kernel does it; what merely knows or notes
//! something is written on [`MemoryManager`]. So functions do not hand a machine and a CPU on to the
//! next, but for a few that only read them to choose a zone.

use crate::account::Category;
use crate::counters::Counters;
use crate::features::Features;
use crate::latency::Latencies;
use crate::page_alloc::MemoryManager;
use crate::sysctl::Settings;
use machine::{Cpu, Machine};

/// The kernel, as entered on one CPU.
pub struct Kernel<'a> {
    /// What it knows.
    pub mm: &'a mut MemoryManager,
    /// The machine that it runs on.
    pub machine: &'a mut Machine<Category>,
    /// The CPU that pays.
    pub cpu: Cpu,
}

/// What a part of the memory manager needs from the rest while it works: a zone or a lruvec knows nothing of other parts.
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

impl MemoryManager {
    /// The kernel, entered on `cpu` of `machine`.
    pub fn enter<'a>(&'a mut self, machine: &'a mut Machine<Category>, cpu: Cpu) -> Kernel<'a> {
        Kernel { mm: self, machine, cpu }
    }
}

impl Kernel<'_> {
    /// The same, as another CPU would enter it, which pays.
    pub(crate) fn on_cpu(&mut self, cpu: Cpu) -> Kernel<'_> {
        Kernel { mm: self.mm, machine: self.machine, cpu }
    }
}
