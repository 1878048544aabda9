//! The kernel as a task enters it: the parts of the memory manager, and the CPU context that they work in.
//!
//! ```text
//!   program ─► mm.enter(&mut machine, cpu) ─► Kernel ─► fault, read, free, reclaim ...
//!                                            │
//!                                            ├─ parts  state of the kernel: zones, folios, lists, pools
//!                                            └─ on     the CPU that pays, its machine, features, settings,
//!                                                      counters
//! ```
//!
//! A path that needs several parts and costs time or counts events is a method of [`Kernel`], in the order in
//! which the kernel runs it. A path within one part is a method of that part and is handed `on`. So no
//! function has to pass a machine and a CPU on to the next.

use crate::account::Category;
use crate::address_space::AddressSpaces;
use crate::allocator::PageAllocator;
use crate::allocator::memory_map::MemoryRange;
use crate::counters::Counters;
use crate::damon::Damon;
use crate::decisions::Decisions;
use crate::delayacct::{Cause, Delays};
use crate::features::Features;
use crate::hugetlb::HugetlbPools;
use crate::latency::Latencies;
use crate::lru::Lrus;
use crate::numa::NumaBalancing;
use crate::on_cpu::OnCpu;
use crate::page_cache::PageCache;
use crate::slub::Slabs;
use crate::swapfile::Swap;
use crate::sysctl::{SettingError, Settings};
use crate::zswap::Zswap;
use machine::{Cpu, Machine, Topology};
use rand_pcg::Pcg64Mcg;

/// The memory manager of one machine.
#[derive(Clone, Debug)]
pub struct MemoryManager {
    pub parts: Parts,
    features: Features,
    decisions: Decisions,
    settings: Settings,
    counters: Counters,
    latencies: Latencies,
}

/// The state of the kernel, by part.
#[derive(Clone, Debug)]
pub struct Parts {
    pub allocator: PageAllocator,
    /// Folios, lruvecs and memory cgroups: which folio is reclaimed when.
    pub lrus: Lrus,
    /// Cached files and their writeback.
    pub page_cache: PageCache,
    /// Processes' address spaces, VMAs and page tables.
    pub address_spaces: AddressSpaces,
    /// Swap space: clusters, swap entries and the swap cache.
    pub swap: Swap,
    /// Pages in swap that are compressed in memory.
    pub zswap: Zswap,
    /// Who watches which memory is accessed.
    pub(crate) damon: Damon,
    /// Pools of huge pages and their vmemmap.
    pub hugetlb: HugetlbPools,
    pub numa: NumaBalancing,
    /// Slab caches of what the kernel keeps of processes.
    pub slabs: Slabs,
    /// How long tasks did not go on.
    pub delays: Delays,
}

/// The kernel, entered on one CPU.
pub struct Kernel<'a> {
    pub parts: &'a mut Parts,
    /// The CPU that pays, its machine, and the kernel's features, settings and counters.
    pub on: OnCpu<'a>,
}

impl MemoryManager {
    /// Boots the kernel: all memory is free, watermarks and pagesets are computed. `noise` is the random
    /// stream for the length of locked sections, if the machine's profile asks for a spread.
    pub fn new(
        topology: &Topology,
        memory: &[MemoryRange],
        features: Features,
        settings: Settings,
        noise: Pcg64Mcg,
    ) -> MemoryManager {
        MemoryManager::deciding_by(Decisions::default(), topology, memory, features, settings, noise)
    }

    /// Like [`MemoryManager::new`], but a function of a kernel tree decides wherever `decisions` has one.
    pub fn deciding_by(
        decisions: Decisions,
        topology: &Topology,
        memory: &[MemoryRange],
        features: Features,
        settings: Settings,
        noise: Pcg64Mcg,
    ) -> MemoryManager {
        let parts = Parts::new(topology, memory, &features, &decisions, &settings, &noise);
        MemoryManager {
            parts,
            features,
            decisions,
            settings,
            counters: Counters::default(),
            latencies: Latencies::new(noise),
        }
    }

    /// Enters the kernel on `cpu` of `machine`.
    #[inline]
    pub fn enter<'a>(&'a mut self, machine: &'a mut Machine<Category>, cpu: Cpu) -> Kernel<'a> {
        let MemoryManager { parts, features, decisions, settings, counters, latencies } = self;
        Kernel { parts, on: OnCpu { machine, cpu, features, decisions, settings, counters, latencies } }
    }

    /// Changes a setting as a write to its sysctl file does. After an error nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let before = self.settings.clone();
        self.settings.set(name, value)?;
        if self.settings != before {
            self.parts.configure(&self.features, &self.decisions, &self.settings);
        }
        let limits = |settings: &Settings| (settings.dirty.dirty_ratio, settings.dirty.dirty_bytes);
        if limits(&self.settings) != limits(&before) {
            self.parts.writeback_set_ratelimit(&self.settings);
        }
        Ok(())
    }

    /// Fixes `batch` and `high` (pages) of all pagesets, as a kernel under test may do.
    pub fn force_pagesets(&mut self, batch: i32, high: i32) {
        self.parts.allocator.force_pagesets(&self.features, batch, high);
    }

    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Whose functions decide.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Checks the invariants of all parts and panics with the one that is broken. `allocated` is the number
    /// of base pages that users hold beyond those of pools and folios.
    pub fn validate(&self, allocated: u64) {
        self.parts.validate(&self.features, &self.settings, allocated);
    }
}

impl Kernel<'_> {
    /// The kernel entered on another CPU, which pays from here on.
    #[inline]
    pub(crate) fn on_cpu(&mut self, cpu: Cpu) -> Kernel<'_> {
        Kernel { parts: self.parts, on: self.on.another(cpu) }
    }

    /// Does work that delays the task on the CPU.
    pub(crate) fn delays_task<T>(&mut self, cause: Cause, work: impl FnOnce(&mut Self) -> T) -> T {
        let began = self.on.machine.now(self.on.cpu);
        let result = work(self);
        let took = self.on.machine.now(self.on.cpu) - began;
        self.parts.delays.add(self.on.cpu, cause, (began, took));
        result
    }
}
