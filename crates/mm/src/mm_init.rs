//! Boot: builds the parts of the memory manager, and applies settings to all of them.
//!
//! ```text
//!   memory, topology, features, settings ─► every part's `new` ─► Parts ─► configure ◄─ a setting is changed
//! ```
//!
//! The initial state of each part is set up in its own folder: zones, zonelists and watermarks in
//! `allocator/boot.rs`, pools in `hugetlb/boot.rs`. In the kernel: `mm_core_init` in mm/mm_init.c.

use crate::address_space::AddressSpaces;
use crate::address_space::huge_memory::policy::runs_khugepaged;
use crate::allocator::PageAllocator;
use crate::allocator::fault_injection::Injection;
use crate::allocator::memory_map::MemoryRange;
use crate::allocator::page::Geometry;
use crate::damon::Damon;
use crate::decisions::Decisions;
use crate::delayacct::Delays;
use crate::features::Features;
use crate::hugetlb::HugetlbPools;
use crate::kernel::Parts;
use crate::lru::Lrus;
use crate::numa::NumaBalancing;
use crate::page_cache::PageCache;
use crate::slub::Slabs;
use crate::swapfile::Swap;
use crate::sysctl::Settings;
use crate::zswap::Zswap;
use machine::Topology;
use rand_pcg::Pcg64Mcg;

impl Parts {
    /// Builds all parts: all memory is free, watermarks and pagesets are computed. `noise` is the random
    /// stream for the length of locked sections, if the machine's profile asks for a spread.
    pub(crate) fn new(
        topology: &Topology,
        memory: &[MemoryRange],
        features: &Features,
        decisions: &Decisions,
        settings: &Settings,
        noise: &Pcg64Mcg,
    ) -> Parts {
        let geometry = Geometry::of(settings.page_size());
        // Streams of their own, so that injected failures do not depend on how often a section's length was
        // drawn.
        let mut injected = noise.clone();
        injected.advance(1 << 64);
        let mut slab = noise.clone();
        slab.advance(1 << 66);
        let mut turns = noise.clone();
        turns.advance(1 << 65);
        let mut samples = noise.clone();
        samples.advance(1 << 67);
        let allocator = PageAllocator::new(topology, memory, geometry, Injection::new(slab));
        let mut parts = Parts {
            lrus: Lrus::new(topology, features, allocator.totalram_pages(), &turns),
            zswap: Zswap::new(geometry.page_size, allocator.totalram_pages()),
            allocator,
            page_cache: PageCache::default(),
            address_spaces: AddressSpaces::new(geometry),
            swap: Swap::new(geometry.page_size),
            damon: Damon::new(samples),
            hugetlb: HugetlbPools::new(memory, topology.nodes, injected),
            numa: NumaBalancing::new(topology),
            slabs: Slabs::new(topology, geometry.page_size, settings),
            delays: Delays::new(topology.cpus()),
        };
        parts.allocator.set_free_high_batch(features, &decisions.pcp, topology);
        parts.configure(features, decisions, settings);
        parts.writeback_set_ratelimit(settings);
        parts
    }

    /// Applies the settings to all parts, at boot and after each change.
    pub(crate) fn configure(&mut self, features: &Features, decisions: &Decisions, settings: &Settings) {
        self.lrus.configure(features, settings);
        if !settings.damon_reclaim.enabled {
            self.damon.stop();
        }
        let khugepaged = runs_khugepaged(&features.folios, &settings.transparent_hugepage);
        self.allocator.configure(features, decisions, settings, khugepaged);
    }

    /// Checks the invariants of all parts and panics with the one that is broken. `allocated` is the number
    /// of base pages that users hold beyond those of pools and folios.
    pub(crate) fn validate(&self, features: &Features, settings: &Settings, allocated: u64) {
        let (free, managed) = self.allocator.validate(features);
        self.hugetlb.validate();
        self.slabs.validate();
        let allocated = allocated
            + self.hugetlb.held()
            + self.slabs.pages()
            + self.address_spaces.nr_huge_zero_pages(settings)
            + self.validate_folios(features, settings);
        assert_eq!(free + allocated, managed, "free, cached and allocated pages must add up to all pages");
    }
}
