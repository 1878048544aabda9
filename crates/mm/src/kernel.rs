//! What a task that enters the kernel has at hand: the parts of the memory manager, and what they work on.
//!
//! ```text
//!   program ─► mm.enter(&mut machine, cpu) ─► Kernel ─► fault, read, free, reclaim ...
//!                                            │
//!                                            ├─ parts  what the kernel knows: zones, folios, lists, pools
//!                                            └─ on     the CPU that pays and its machine; which kernel, its settings;
//!                                                      what is counted
//! ```
//!
//! Whatever costs time or is counted and needs several parts is written on [`Kernel`], in the order in which the kernel
//! does it; what one part does alone is written on that part, and is handed `on`. So functions do not hand a
//! machine and a CPU on to the next.

use crate::account::Category;
use crate::address_space::AddressSpaces;
use crate::allocator::PageAllocator;
use crate::allocator::memory_map::MemoryRange;
use crate::counters::Counters;
use crate::features::Features;
use crate::hugetlb::HugetlbPools;
use crate::latency::Latencies;
use crate::lru::Lrus;
use crate::numa::NumaBalancing;
use crate::on_cpu::OnCpu;
use crate::page_cache::PageCache;
use crate::swapfile::Swap;
use crate::sysctl::{SettingError, Settings};
use machine::{Cpu, Machine, Topology};
use rand_pcg::Pcg64Mcg;

/// The memory manager of one machine.
#[derive(Clone, Debug)]
pub struct MemoryManager {
    /// What it knows.
    pub parts: Parts,
    features: Features,
    settings: Settings,
    counters: Counters,
    latencies: Latencies,
}

/// What the kernel knows, by part.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The page allocator.
    pub allocator: PageAllocator,
    /// Folios, and in which order they are reclaimed.
    pub lrus: Lrus,
    /// Files in memory.
    pub page_cache: PageCache,
    /// Address spaces and their page tables.
    pub address_spaces: AddressSpaces,
    /// Swap.
    pub swap: Swap,
    /// Pools of huge pages.
    pub hugetlb: HugetlbPools,
    /// NUMA balancing.
    pub numa: NumaBalancing,
}

/// The kernel, as entered on one CPU.
pub struct Kernel<'a> {
    /// What it knows.
    pub parts: &'a mut Parts,
    /// What it works on.
    pub on: OnCpu<'a>,
}

impl MemoryManager {
    /// Boots: all memory free, watermarks and pagesets computed. `noise` spreads the length of locked
    /// sections where the machine's profile asks for that.
    pub fn new(
        topology: &Topology,
        memory: &[MemoryRange],
        features: Features,
        settings: Settings,
        noise: Pcg64Mcg,
    ) -> MemoryManager {
        let parts = Parts::new(topology, memory, &features, &settings, &noise);
        MemoryManager {
            parts,
            features,
            settings,
            counters: Counters::default(),
            latencies: Latencies::new(noise),
        }
    }

    /// The kernel, entered on `cpu` of `machine`.
    #[inline]
    pub fn enter<'a>(&'a mut self, machine: &'a mut Machine<Category>, cpu: Cpu) -> Kernel<'a> {
        let MemoryManager { parts, features, settings, counters, latencies } = self;
        Kernel { parts, on: OnCpu { machine, cpu, features, settings, counters, latencies } }
    }

    /// Changes a setting as writing to its file would; on error nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let before = self.settings.clone();
        self.settings.set(name, value)?;
        if self.settings != before {
            self.parts.configure(&self.features, &self.settings);
        }
        let limits = |settings: &Settings| (settings.dirty.dirty_ratio, settings.dirty.dirty_bytes);
        if limits(&self.settings) != limits(&before) {
            self.parts.writeback_set_ratelimit(&self.settings);
        }
        Ok(())
    }

    /// Gives all pagesets a batch and a fixed high of `high` pages, as a debugging kernel may.
    pub fn force_pagesets(&mut self, batch: i32, high: i32) {
        self.parts.allocator.force_pagesets(&self.features, batch, high);
    }

    /// Which kernel this is.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How long things took.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Checks what must always hold, `allocated` being the pages that users hold beyond those of pools and
    /// folios; panics with what does not.
    pub fn validate(&self, allocated: u64) {
        self.parts.validate(&self.features, &self.settings, allocated);
    }
}

impl Kernel<'_> {
    /// The same, as another CPU would enter it, which pays.
    #[inline]
    pub(crate) fn on_cpu(&mut self, cpu: Cpu) -> Kernel<'_> {
        Kernel { parts: self.parts, on: self.on.another(cpu) }
    }
}
