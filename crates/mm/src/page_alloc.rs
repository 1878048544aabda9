//! The way of a request through the zones, and of a page back.
//!
//! ```text
//!   alloc(order, type, where)
//!     for each zone of the zonelist, nearest node first, highest zone first:
//!        above HIGH?  ─ yes ─► take from here             (from patch 8 on; no ─► the zone is marked BELOW_HIGH)
//!        above LOW?   ─ yes ─► take from here
//!     nothing: wake kswapd, again with MIN; nothing: the request fails (reclaim is another mechanism's)
//!   take: order 0-3 and 9 through the CPU's pageset, others straight from the free lists
//! ```
//!
//! Single requests go through [`Kernel::alloc`] and [`Kernel::free`], which may take a zone's
//! lock and so belong to the CPU that is furthest behind. [`MemoryManager::alloc_private`] and
//! [`MemoryManager::free_private`] do in one go what many single order-0 requests would do as long as none of
//! them needs anything but the CPU's own pageset. Gigantic pages, which no free list has, come from
//! [`Kernel::alloc_contig`] and [`MemoryManager::alloc_at_boot`].
//! In the kernel: `get_page_from_freelist`, `__alloc_pages_slowpath`, `rmqueue`, `free_frozen_pages`,
//! `alloc_contig_pages` and `build_zonelists` in mm/page_alloc.c.

use crate::account::Category;
use crate::address_space::{AddressSpaces, FileMappings, PageTables};
use crate::buddy::Wanted;
use crate::compaction::{CompactMode, CompactResult, KcompactdState};
use crate::counters::{Counters, Event};
use crate::fault_injection::Injection;
use crate::features::{CacheRule, Features};
use crate::folio::{FolioId, Folios, LruvecId};
use crate::huge_memory::khugepaged::KhugepagedState;
use crate::huge_memory::policy::runs_khugepaged;
use crate::huge_memory::stats::MthpStats;
use crate::huge_memory::zero::HugeZero;
use crate::hugetlb::HugetlbPools;
use crate::kernel::{Kernel, OnCpu};
use crate::latency::Latencies;
use crate::lru::FolioBatches;
use crate::lruvec::{Lruvec, Lruvecs};
use crate::memcontrol::{Memcg, Memcgs};
use crate::memory_map::{MemoryRange, ZoneType};
use crate::mglru::MemcgLru;
use crate::numa::NumaBalancing;
use crate::page::{Geometry, MigrateType, Pfn};
use crate::pcp::{self, is_order_allowed, list_index};
use crate::readahead::Readahead;
use crate::swapfile::Swap;
use crate::sysctl::{SettingError, Settings};
use crate::vmscan::KswapdState;
use crate::vmscan::features::GenFeatures;
use crate::vmscan::policy::PAGE_ALLOC_COSTLY_ORDER;
use crate::watermark::{self, Mark, Reserves};
use crate::workingset::shadow::{NODES_SHIFT_MAX, ShadowLayout};
use crate::writeback::Writeback;
use crate::xarray::{FileId, Files};
use crate::zone::Zone;
use machine::{Cpu, Machine, Node, PageSize, Topology};
use rand_pcg::Pcg64Mcg;

/// Where memory for a request may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The node of the CPU first, then others by distance.
    Local,
    /// This node only (`numactl -m`, `__GFP_THISNODE`).
    Bind(Node),
    /// This node first, then others by distance.
    Prefer(Node),
}

/// How far a request goes (`gfp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// It reclaims itself (`__GFP_DIRECT_RECLAIM`).
    pub direct: bool,
    /// It wakes kswapd (`__GFP_KSWAPD_RECLAIM`).
    pub wakes: bool,
    /// Once is enough (`__GFP_NORETRY`).
    pub no_retry: bool,
}

impl Effort {
    /// As far as it takes.
    pub const ORDINARY: Effort = Effort { direct: true, wakes: true, no_retry: false };
    /// What the free lists have, and no further.
    pub const LIGHT: Effort = Effort { direct: false, wakes: false, no_retry: false };
}

/// A request for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// log2 of its pages.
    pub order: u8,
    /// What it is for.
    pub migrate_type: MigrateType,
    /// The highest zone that it may use.
    pub highest: ZoneType,
    /// Where it may come from.
    pub placement: Placement,
    /// How far it may go below the minimum watermark.
    pub reserves: Reserves,
    /// How far it goes.
    pub effort: Effort,
}

impl Request {
    /// An ordinary request that may sleep: user memory may use every zone, kernel memory none above Normal.
    pub fn new(order: u8, migrate_type: MigrateType, placement: Placement) -> Request {
        let highest = if migrate_type == MigrateType::Movable { ZoneType::Movable } else { ZoneType::Normal };
        let (reserves, effort) = (Reserves::default(), Effort::ORDINARY);
        Request { order, migrate_type, highest, placement, reserves, effort }
    }

    /// Atomic high-order requests have pageblocks of their own (`ALLOC_HIGHATOMIC`).
    fn is_high_atomic(&self) -> bool {
        self.order > 0 && self.reserves.min_reserve && self.reserves.non_block
    }
}

/// One look at all zones that a request may use.
#[derive(Clone, Copy)]
struct Pass {
    /// Free pages that must be left.
    mark: Mark,
    /// Pageblocks are not to be mixed.
    no_fragment: bool,
    /// Zones that kswapd reclaims from are passed over.
    skip_reclaiming: bool,
}

/// The memory manager of one machine.
#[derive(Clone, Debug)]
pub struct MemoryManager {
    features: Features,
    pub(crate) settings: Settings,
    geometry: Geometry,
    zones: Vec<Zone>,
    /// For each node, indices into `zones` in the order in which requests from there try them.
    zonelists: Vec<Vec<usize>>,
    /// For each node, its own zones, highest first.
    own_zones: Vec<Vec<usize>>,
    pub(crate) counters: Counters,
    latencies: Latencies,
    pub(crate) hugetlb: HugetlbPools,
    pub(crate) failslab: Injection,
    min_free_kbytes: u64,
    local_cpus: Vec<u64>,
    online_cpus: u64,
    pub(crate) folios: Folios,
    pub(crate) files: Files,
    pub(crate) mms: AddressSpaces,
    pub(crate) page_tables: PageTables,
    /// Pages that are being unmapped and are yet to be freed (`struct mmu_gather`); none between calls.
    pub(crate) mmu_gather: Vec<Pfn>,
    pub(crate) file_mappings: FileMappings,
    pub(crate) swap: Swap,
    pub(crate) memcgs: Memcgs,
    pub(crate) lruvecs: Lruvecs,
    pub(crate) folio_batches: Vec<FolioBatches>,
    /// By node.
    pub(crate) memcg_lrus: Vec<MemcgLru>,
    /// By node.
    pub(crate) kswapds: Vec<KswapdState>,
    /// A process is to be killed.
    pub(crate) oom_kill_wanted: bool,
    pub(crate) shadow_layout: ShadowLayout,
    /// The multi-gen LRU while it is in use.
    pub(crate) generations: Option<GenFeatures>,
    /// Folios whose writing has begun.
    pub(crate) submitted_writes: Vec<FolioId>,
    pub(crate) writeback: Writeback,
    /// Pages of folios that are locked in memory.
    pub(crate) nr_mlock: u64,
    pub(crate) readahead: Readahead,
    pub(crate) numa: NumaBalancing,
    /// By node.
    pub(crate) kcompactds: Vec<KcompactdState>,
    pub(crate) khugepaged: KhugepagedState,
    pub(crate) huge_zero: HugeZero,
    /// Of each size of anonymous folios.
    pub(crate) mthp_stats: MthpStats,
    /// Pages that have left the page cache, if somebody watches.
    pub(crate) removals: Option<Vec<(FileId, u32)>>,
}

impl Kernel<'_> {
    /// The zones, the lruvecs, and what one of them works on.
    #[inline]
    fn split(&mut self) -> (&mut [Zone], &mut Lruvecs, OnCpu<'_>) {
        let Kernel { mm, machine, cpu } = self;
        let on = OnCpu {
            machine,
            cpu: *cpu,
            features: &mm.features,
            settings: &mm.settings,
            counters: &mut mm.counters,
            latencies: &mut mm.latencies,
        };
        (&mut mm.zones, &mut mm.lruvecs, on)
    }

    /// What a part works on that is none of the memory manager's own.
    #[inline]
    pub fn on(&mut self) -> OnCpu<'_> {
        self.split().2
    }

    /// A zone, and what it works on.
    #[inline]
    pub(crate) fn zone(&mut self, z: usize) -> (&mut Zone, OnCpu<'_>) {
        let (zones, _, on) = self.split();
        (&mut zones[z], on)
    }

    /// A lruvec, and what it works on.
    #[inline]
    pub(crate) fn lruvec(&mut self, id: LruvecId) -> (&mut Lruvec, OnCpu<'_>) {
        let (_, lruvecs, on) = self.split();
        (&mut lruvecs[id], on)
    }

    /// Serves one request. May take locks, so its CPU must be the one furthest behind. `None`: nothing left that
    /// the request may use.
    pub fn alloc(&mut self, request: &Request) -> Option<Pfn> {
        self.alloc_pages(request).map(|(pfn, _)| pfn)
    }

    /// The same; the block and its zone.
    pub(crate) fn alloc_pages(&mut self, request: &Request) -> Option<(Pfn, usize)> {
        let before = self.machine.now(self.cpu);
        let node = MemoryManager::preferred_node(self.machine, self.cpu, request.placement);
        let found = match self.get_page_from_freelist(request, node, Mark::Low) {
            None => self.alloc_slowpath(request, node),
            found => found,
        };
        let waited = self.machine.now(self.cpu) - before;
        if waited > machine::Time::ZERO {
            self.mm.latencies.slow_alloc.saturating_record(waited.picoseconds());
        }
        match found {
            Some((_, zone)) => self.mm.count_alloc(self.machine, self.cpu, node, zone, 1 << request.order, 1),
            None => self.mm.counters.add(Event::AllocFail, 1),
        }
        found
    }

    /// What a request does once no zone is above its low watermark (`__alloc_pages_slowpath`).
    #[inline(never)]
    fn alloc_slowpath(&mut self, request: &Request, node: Node) -> Option<(Pfn, usize)> {
        if request.effort.wakes {
            self.mm.counters.add(Event::KswapdWake, 1);
            self.mm.wake_all_kswapds(request.order, request.highest, request.effort.direct);
        }
        let found = self.get_page_from_freelist(request, node, Mark::Min);
        if found.is_some() || !request.effort.direct {
            return found;
        }
        let costly = request.order > PAGE_ALLOC_COSTLY_ORDER;
        let (mut found, result) = match costly {
            true => self.compact_and_retry(request, node, CompactMode::Async),
            false => (None, CompactResult::Skipped),
        };
        let in_vain = [CompactResult::Skipped, CompactResult::Deferred].contains(&result);
        if costly && request.effort.no_retry && in_vain {
            return found;
        }
        found = found.or_else(|| self.reclaim_and_retry(request, node));
        if found.is_none() && request.order > 0 {
            found = self.compact_and_retry(request, node, CompactMode::SyncLight).0;
        }
        found.or_else(|| self.last_resort(request, node))
    }

    /// One order-0 request: from the CPU's own pageset if the zone may be taken from and that has pages, or as
    /// [`Kernel::alloc_pages`] does it.
    #[inline]
    pub(crate) fn alloc_single(&mut self, request: &Request) -> Option<(Pfn, usize)> {
        if let Some(z) = self.mm.preferred_zone(self.machine, self.cpu, request)
            && (self.mm.zones[z].is_plentiful(request.highest) || self.mm.is_first_choice(z, request))
        {
            let f = &self.mm.features;
            let index = list_index(f, 0, request.migrate_type);
            if let Some(pfn) = self.mm.zones[z].pagesets[self.cpu.index()].take_plain_page(f, index) {
                self.mm.count_alloc(self.machine, self.cpu, self.mm.zones[z].node, z, 1, 1);
                return Some((pfn, z));
            }
        }
        self.alloc_pages(request)
    }

    /// Direct compaction (`__alloc_pages_direct_compact`).
    fn compact_and_retry(
        &mut self,
        request: &Request,
        node: Node,
        mode: CompactMode,
    ) -> (Option<(Pfn, usize)>, CompactResult) {
        let zones = self.mm.zonelist(node, request.placement).iter().copied();
        let zones: Vec<usize> = zones.filter(|&z| self.mm.zones[z].kind <= request.highest).collect();
        let result = self.try_to_compact_pages(request, &zones, mode);
        if result == CompactResult::Skipped {
            return (None, result);
        }
        let found = self.get_page_from_freelist(request, node, Mark::Min);
        if let Some((_, zone)) = found {
            self.mm.zones[zone].compaction.deferral.reset(request.order, true);
        }
        let event = if found.is_some() { Event::CompactSuccess } else { Event::CompactFail };
        self.mm.counters.add(event, 1);
        (found, result)
    }

    /// Direct reclaim, as long as it frees something and the request may wait for it.
    fn reclaim_and_retry(&mut self, request: &Request, node: Node) -> Option<(Pfn, usize)> {
        let nothing_to_reclaim = self.mm.folios.is_empty() && self.mm.nr_huge_zero_pages() == 0;
        if request.reserves.non_block || nothing_to_reclaim {
            return None;
        }
        while self.try_to_free_pages(request.order, request.highest) > 0 {
            let found = self.get_page_from_freelist(request, node, Mark::Min);
            if found.is_some() || request.order > PAGE_ALLOC_COSTLY_ORDER || request.effort.no_retry {
                return found;
            }
        }
        None
    }

    /// What direct reclaim does after it has made no page available: releases what is set aside, empties all
    /// pagesets, and tries once more.
    fn last_resort(&mut self, request: &Request, node: Node) -> Option<(Pfn, usize)> {
        let (zones, _, mut on) = self.split();
        for zone in zones {
            if zone.unreserve_highatomic(&mut on, request.migrate_type) {
                break;
            }
        }
        self.drain_all_pages();
        self.get_page_from_freelist(request, node, Mark::Min)
    }

    fn get_page_from_freelist(&mut self, request: &Request, node: Node, mark: Mark) -> Option<(Pfn, usize)> {
        let low = mark == Mark::Low;
        let pass = Pass {
            mark,
            no_fragment: low && self.mm.avoids_fragments(node, request),
            skip_reclaiming: self.mm.skips_reclaiming(mark),
        };
        let found = self.try_zones(request, node, pass);
        if found.is_some() || !pass.no_fragment && !pass.skip_reclaiming {
            return found;
        }
        let pass = Pass { no_fragment: false, skip_reclaiming: false, ..pass };
        self.try_zones(request, node, pass)
    }

    fn try_zones(&mut self, request: &Request, node: Node, pass: Pass) -> Option<(Pfn, usize)> {
        for i in 0..self.mm.zonelist(node, request.placement).len() {
            let z = self.mm.zonelist(node, request.placement)[i];
            let zone = &self.mm.zones[z];
            if zone.kind > request.highest {
                continue;
            }
            // Going to another node is worse than mixing types at home.
            if pass.no_fragment && zone.node != node {
                break;
            }
            if pass.skip_reclaiming && zone.pressure.reclaim_active
                || !self.mm.may_take_from(z, request, pass.mark)
            {
                continue;
            }
            if let Some(pfn) = self.rmqueue(z, request, pass.no_fragment) {
                return Some((pfn, z));
            }
        }
        None
    }

    fn rmqueue(&mut self, z: usize, request: &Request, no_fragment: bool) -> Option<Pfn> {
        let Request { order, migrate_type, .. } = *request;
        let wanted = Wanted { order, migrate_type, no_fragment };
        let allowed = is_order_allowed(order, self.mm.geometry.pageblock_order);
        let (zone, mut on) = self.zone(z);
        if allowed && !zone.pageset_is_held(on.cpu, on.machine.now(on.cpu)) {
            let pfn = zone.alloc_through_pageset(&mut on, wanted);
            if pfn.is_some() {
                self.mm.wake_kswapd_of_boosted(z, request);
                return pfn;
            }
        }
        let pfn = zone.alloc_direct(&mut on, wanted, request.is_high_atomic());
        self.mm.wake_kswapd_of_boosted(z, request);
        pfn
    }

    /// Frees single pages as that many calls of [`Kernel::free`] would, one after the other.
    pub(crate) fn free_singles(&mut self, pages: &[Pfn]) {
        let mut rest = pages;
        while !rest.is_empty() {
            rest = &rest[self.mm.free_private(self.machine, self.cpu, rest)..];
            if let Some((&pfn, behind)) = rest.split_first() {
                self.free(pfn, 0);
                rest = behind;
            }
        }
    }

    /// Frees one block. May take a zone's lock, so its CPU must be the one furthest behind.
    pub fn free(&mut self, pfn: Pfn, order: u8) {
        let z = self.mm.zone_of(pfn);
        self.mm.counters.add(Event::Pgfree, 1 << order);
        let (zone, mut on) = self.zone(z);
        zone.free(&mut on, pfn, order);
    }

    /// Frees a frame that boot reserved for struct pages ([`Zone::memmap`]): the zone manages a page more
    /// (`free_bootmem_page`).
    pub fn free_reserved(&mut self, pfn: Pfn) {
        let z = self.mm.zone_of(pfn);
        self.mm.counters.add(Event::Pgfree, 1);
        let (zone, mut on) = self.zone(z);
        zone.free_reserved(&mut on, pfn);
    }

    /// Takes 2^order pages, at least a largest block, in one aligned run of `node`: from the highest zone that has one,
    /// the first that is found scanning upward (`alloc_contig_pages`). Watermarks do not matter to it, and no pgalloc
    /// event counts it.
    ///
    /// Only runs whose pages are all in free lists once the pagesets are empty qualify. The kernel would also migrate
    /// pages away that are in use; that is not modelled, nor what looking at each struct page of a run and isolating
    /// its pageblocks costs. Nor does it take pageblocks that are set aside for atomic requests, as the kernel would.
    pub fn alloc_contig(&mut self, order: u8, node: Node) -> Option<Pfn> {
        (0..self.mm.own_zones[node.index()].len()).find_map(|place| {
            let (zone, mut on) = self.zone(self.mm.own_zones[node.index()][place]);
            zone.alloc_contig(&mut on, order)
        })
    }

    /// Frees 2^order pages that [`Kernel::alloc_contig`] or [`MemoryManager::alloc_at_boot`] took, as blocks of
    /// the largest order. Kernels before 6.12 free them page by page, which is not modelled.
    pub fn free_contig(&mut self, pfn: Pfn, order: u8) {
        let z = self.mm.zone_of(pfn);
        self.mm.counters.add(Event::Pgfree, 1 << order);
        let (zone, mut on) = self.zone(z);
        zone.free_contig(&mut on, pfn, order);
    }

    /// Empties every CPU's pagesets on behalf of the CPU (`drain_all_pages`).
    pub fn drain_all_pages(&mut self) {
        let owners = self.machine.topology.all_cpus();
        let (zones, _, mut on) = self.split();
        for zone in zones {
            owners.clone().for_each(|owner| zone.drain_pageset(&mut on, owner));
        }
    }

    /// Runs the CPU's vmstat worker once; whether it wants to run again.
    pub fn vmstat_update(&mut self) -> bool {
        self.mm.counters.add(Event::VmstatUpdate, 1);
        let (zones, _, mut on) = self.split();
        let mut again = false;
        for zone in zones {
            again |= zone.vmstat_tick(&mut on);
        }
        again
    }
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
        let cpus = topology.cpus();
        let geometry = Geometry::of(settings.page_size());
        let zones: Vec<Zone> = memory.iter().map(|range| Zone::new(geometry, range, cpus)).collect();
        let nodes: Vec<Node> = (0..topology.nodes).map(Node).collect();
        let own_zones: Vec<Vec<usize>> = nodes
            .iter()
            .map(|&node| {
                let mut own: Vec<usize> = (0..zones.len()).filter(|&z| zones[z].node == node).collect();
                own.sort_by_key(|&z| std::cmp::Reverse(zones[z].kind));
                own
            })
            .collect();
        let zonelists = nodes
            .iter()
            .map(|&node| {
                topology.nodes_by_distance(node).iter().flat_map(|n| own_zones[n.index()].clone()).collect()
            })
            .collect();
        // Which allocations fail is not to depend on how long sections take.
        let mut injected = noise.clone();
        injected.advance(1 << 64);
        let mut slab = noise.clone();
        slab.advance(1 << 66);
        let mut turns = noise.clone();
        turns.advance(1 << 65);
        let memcg_lrus = nodes.iter().map(|&node| {
            let mut turns = turns.clone();
            turns.advance(u128::from(node.0) << 32);
            MemcgLru::new(turns)
        });
        let totalram_pages = zones.iter().map(|zone| zone.managed).sum();
        let shadow_layout = ShadowLayout::new(&features.reclaim, NODES_SHIFT_MAX, totalram_pages);
        let mut mm = MemoryManager {
            features,
            settings,
            geometry,
            zones,
            zonelists,
            own_zones,
            counters: Counters::default(),
            hugetlb: HugetlbPools::new(memory, topology.nodes, injected),
            failslab: Injection::new(slab),
            latencies: Latencies::new(noise),
            min_free_kbytes: 0,
            local_cpus: nodes.iter().map(|&node| topology.cpus_of(node).len() as u64).collect(),
            online_cpus: cpus as u64,
            folios: Folios::default(),
            files: Files::default(),
            mms: AddressSpaces::default(),
            page_tables: PageTables::new(geometry),
            mmu_gather: Vec::new(),
            file_mappings: FileMappings::default(),
            swap: Swap::new(geometry.page_size),
            memcgs: Memcgs::new(cpus),
            lruvecs: Lruvecs::new(nodes.len()),
            folio_batches: vec![FolioBatches::default(); cpus],
            memcg_lrus: memcg_lrus.collect(),
            kswapds: vec![KswapdState::default(); nodes.len()],
            oom_kill_wanted: false,
            shadow_layout: shadow_layout.expect("the largest shift of node numbers"),
            generations: None,
            submitted_writes: Vec::new(),
            writeback: Writeback::default(),
            nr_mlock: 0,
            readahead: Readahead::default(),
            numa: NumaBalancing::new(topology),
            kcompactds: vec![KcompactdState::default(); nodes.len()],
            khugepaged: KhugepagedState::default(),
            huge_zero: HugeZero::default(),
            mthp_stats: MthpStats::default(),
            removals: None,
        };
        mm.make_lruvecs(Memcg::ROOT);
        mm.set_free_high_batch(topology);
        mm.configure();
        mm.writeback_set_ratelimit();
        mm
    }

    /// Patch 3's flag: whether a CPU's cache share holds several batches. Evaluated when CPUs come up, with
    /// the batch of that time.
    fn set_free_high_batch(&mut self, topology: &Topology) {
        let Some(rule) = self.features.free_high_batch else { return };
        let bytes = match rule {
            CacheRule::SumOfLevelsOverFourBatches => topology.sum_of_cache_slices(),
            CacheRule::LastLevelOverThreeBatches => topology.last_level_slice(),
        };
        let page_size = self.geometry.page_size;
        for zone in &mut self.zones {
            let batch = pcp::policy::zone_batchsize(page_size, zone.managed);
            for pageset in &mut zone.pagesets {
                pageset.tuning.free_high_batch =
                    pcp::policy::is_cache_large(&self.features, page_size, bytes, batch);
            }
        }
    }

    /// Recomputes watermarks, reserves and pagesets from the settings, as the kernel does after boot and
    /// after each change.
    fn configure(&mut self) {
        let generations = self.features.reclaim.generations.filter(|_| self.settings.lru_gen.enabled);
        if generations != std::mem::replace(&mut self.generations, generations) {
            self.lru_gen_change_state();
        }
        let lowmem: u64 = self.zones.iter().filter(|z| z.kind != ZoneType::Movable).map(|z| z.managed).sum();
        let page_size = self.geometry.page_size;
        // At boot the high watermarks are still zero, so all of low memory counts.
        let computed = watermark::default_min_free_kbytes(lowmem * page_size.kib());
        let wanted = self.settings.min_free_kbytes.unwrap_or(computed);
        let populated = self.zones.iter().filter(|z| z.kind <= ZoneType::Normal).count() as u64;
        let huge = watermark::khugepaged_min_free_kbytes(self.geometry, populated, lowmem);
        let khugepaged = runs_khugepaged(&self.features.folios, &self.settings.transparent_hugepage);
        let raised = khugepaged && self.settings.min_free_kbytes.is_none();
        self.min_free_kbytes = if raised { wanted.max(huge) } else { wanted };
        let min_free = self.min_free_kbytes / page_size.kib();
        let managed: Vec<(Node, ZoneType, u64)> =
            self.zones.iter().map(|z| (z.node, z.kind, z.managed)).collect();
        for zone in &mut self.zones {
            let scale = self.settings.watermark_scale_factor;
            zone.marks = watermark::marks(zone.kind, zone.managed, min_free, lowmem, scale);
            zone.buddy.watermark_boost = 0;
            zone.stat_threshold = watermark::counter_threshold(page_size, self.online_cpus, zone.managed);
            let ratio = self.settings.lowmem_reserve_ratio[zone.kind as usize];
            for (class, reserve) in ZoneType::ALL.iter().zip(&mut zone.lowmem_reserve) {
                let above = |&&(node, kind, _): &&(Node, ZoneType, u64)| {
                    node == zone.node && kind > zone.kind && kind <= *class
                };
                let protected: u64 = managed.iter().filter(above).map(|&(_, _, pages)| pages).sum();
                *reserve = protected.checked_div(ratio).unwrap_or(0);
            }
            let local = self.local_cpus[zone.node.index()];
            zone.configure_pagesets(&self.features, &self.settings, local, self.online_cpus);
        }
    }

    /// Changes a setting as writing to its file would; on error nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let before = self.settings.clone();
        self.settings.set(name, value)?;
        if self.settings != before {
            self.configure();
        }
        let limits = |settings: &Settings| (settings.dirty.dirty_ratio, settings.dirty.dirty_bytes);
        if limits(&self.settings) != limits(&before) {
            self.writeback_set_ratelimit();
        }
        Ok(())
    }

    /// Gives all pagesets a batch and a fixed high of `high` pages, as a debugging kernel may.
    pub fn force_pagesets(&mut self, batch: i32, high: i32) {
        for zone in &mut self.zones {
            zone.set_pagesets(&self.features, batch, high, high);
        }
    }

    /// How many CPUs there are.
    pub(crate) fn online_cpus(&self) -> u64 {
        self.online_cpus
    }

    /// Which kernel this is.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The size of its pages, and the orders that follow from it.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The size of its pages.
    #[inline]
    pub fn page_size(&self) -> PageSize {
        self.geometry.page_size
    }

    /// `vm.min_free_kbytes` in force.
    pub fn min_free_kbytes(&self) -> u64 {
        self.min_free_kbytes
    }

    /// How many nodes there are.
    #[inline]
    pub(crate) fn nodes(&self) -> usize {
        self.own_zones.len()
    }

    /// All nodes.
    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.own_zones.len() as u8).map(Node)
    }

    /// Zones of a node.
    pub(crate) fn zones_of(&self, node: Node) -> impl Iterator<Item = &Zone> + use<'_> {
        self.own_zones[node.index()].iter().map(|&z| &self.zones[z])
    }

    /// All zones, by node, lowest first.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// A zone, for putting it into a recorded state.
    pub fn zone_mut(&mut self, index: usize) -> &mut Zone {
        &mut self.zones[index]
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// How long things took.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Base pages in all pagesets.
    pub fn pages_in_pagesets(&self) -> u64 {
        self.zones.iter().map(Zone::pages_in_pagesets).sum()
    }

    /// Base pages in free lists.
    pub fn free_pages(&self) -> u64 {
        self.zones.iter().map(|zone| zone.exact_free_pages() as u64).sum()
    }

    /// The zone that `pfn` belongs to.
    #[inline]
    pub fn zone_of(&self, pfn: Pfn) -> usize {
        self.zones.iter().position(|zone| zone.buddy.span().contains(&pfn)).expect("a page of this machine")
    }

    #[inline]
    fn preferred_node(machine: &Machine<Category>, cpu: Cpu, placement: Placement) -> Node {
        match placement {
            Placement::Local => machine.node(cpu),
            Placement::Bind(node) | Placement::Prefer(node) => node,
        }
    }

    fn zonelist(&self, node: Node, placement: Placement) -> &[usize] {
        match placement {
            Placement::Local | Placement::Prefer(_) => &self.zonelists[node.index()],
            Placement::Bind(_) => &self.own_zones[node.index()],
        }
    }

    /// The zone that an order-0 request prefers, if nobody has `cpu`'s pageset of it.
    #[inline]
    fn preferred_zone(&self, machine: &Machine<Category>, cpu: Cpu, request: &Request) -> Option<usize> {
        debug_assert_eq!(request.order, 0);
        let node = Self::preferred_node(machine, cpu, request.placement);
        let mut zones = self.own_zones[node.index()].iter();
        let &preferred = zones.find(|&&z| self.zones[z].kind <= request.highest)?;
        let held = self.zones[preferred].pageset_is_held(cpu, machine.now(cpu));
        (!held).then_some(preferred)
    }

    /// Does up to `wanted` order-0 requests from `cpu`'s pageset of the preferred zone, in one go and without
    /// touching anything shared. Returns how many were served; 0 means: use [`Kernel::alloc`].
    #[inline]
    pub fn alloc_private(
        &mut self,
        machine: &Machine<Category>,
        cpu: Cpu,
        request: &Request,
        wanted: usize,
        out: &mut Vec<Pfn>,
    ) -> usize {
        let Some(z) = self.preferred_zone(machine, cpu, request) else { return 0 };
        if !self.zones[z].is_plentiful(request.highest) {
            return 0;
        }
        let f = &self.features;
        let index = list_index(f, 0, request.migrate_type);
        let taken = self.zones[z].pagesets[cpu.index()].take_plain(f, index, wanted, out);
        if taken > 0 {
            // The preferred zone is the wanted node's.
            self.count_alloc(machine, cpu, self.zones[z].node, z, taken as u64, taken as u64);
        }
        taken
    }

    #[inline]
    fn count_alloc(
        &mut self,
        machine: &Machine<Category>,
        cpu: Cpu,
        wanted: Node,
        zone: usize,
        pages: u64,
        calls: u64,
    ) {
        let (kind, got) = (self.zones[zone].kind, self.zones[zone].node);
        let event = [Event::PgallocDma, Event::PgallocDma32, Event::PgallocNormal, Event::PgallocMovable]
            [kind as usize];
        self.counters.add(event, pages);
        if wanted == got {
            self.counters.add(Event::NumaHit, calls);
        } else {
            self.counters.add(Event::NumaMiss, calls);
            self.counters.add(Event::NumaForeign, calls);
        }
        let local = machine.node(cpu) == got;
        self.counters.add(if local { Event::NumaLocal } else { Event::NumaOther }, calls);
    }

    /// Whether the zone that a request prefers serves it at the first look.
    #[inline]
    fn is_first_choice(&mut self, z: usize, request: &Request) -> bool {
        let passed_over = self.skips_reclaiming(Mark::Low) && self.zones[z].pressure.reclaim_active;
        !passed_over && self.may_take_from(z, request, Mark::Low)
    }

    fn skips_reclaiming(&self, mark: Mark) -> bool {
        mark == Mark::Low && self.features.avoid_reclaiming_nodes && self.own_zones.len() > 1
    }

    /// Whether the zone that a request prefers keeps pageblocks unmixed at first (`alloc_flags_nofragment`).
    fn avoids_fragments(&self, node: Node, request: &Request) -> bool {
        let mut zones = self.zonelist(node, request.placement).iter().map(|&z| &self.zones[z]);
        let Some(zone) = zones.find(|zone| zone.kind <= request.highest) else { return false };
        let is_dma32 = |z: &Zone| z.node == zone.node && z.kind == ZoneType::Dma32;
        zone.kind == ZoneType::Normal && (self.own_zones.len() == 1 || self.zones.iter().any(is_dma32))
    }

    #[inline]
    fn may_take_from(&mut self, z: usize, request: &Request, mark: Mark) -> bool {
        let f = &self.features;
        let zone = &mut self.zones[z];
        if f.below_high && !(f.below_high_tested_once && zone.pressure.below_high) {
            if zone.is_above(f, Mark::High, request.order, request.highest, request.reserves) {
                return true;
            }
            zone.pressure.below_high = true;
        }
        zone.is_above(f, mark, request.order, request.highest, request.reserves)
    }

    /// Wakes kswapd if the watermarks of a zone were boosted since it was woken last, for order 0 and in the name of a request
    /// that does not reclaim: who asks for the boost may not have been able to wake it.
    fn wake_kswapd_of_boosted(&mut self, z: usize, request: &Request) {
        let zone = &mut self.zones[z];
        if zone.boosted && (request.effort.wakes || !self.features.boost_wakes_if_asked) {
            zone.boosted = false;
            let (node, kind) = (zone.node, zone.kind);
            self.counters.add(Event::KswapdWake, 1);
            self.wake_kswapd(node, 0, kind, false);
        }
    }

    /// Frees as many of `pages` (order 0, in this order) into `cpu`'s pageset as need no lock; returns how
    /// many. All of them must be of one zone and pageblock type as far as they are freed.
    #[inline]
    pub fn free_private(&mut self, machine: &Machine<Category>, cpu: Cpu, pages: &[Pfn]) -> usize {
        let mut done = 0;
        while done < pages.len() {
            let first = pages[done];
            let z = self.zone_of(first);
            let f = &self.features;
            let zone = &mut self.zones[z];
            if zone.pageset_is_held(cpu, machine.now(cpu)) {
                break;
            }
            let pageset = &mut zone.pagesets[cpu.index()];
            let plain = pcp::policy::plain_frees(&pageset.tuning, f, zone.pressure, pages.len() - done);
            if plain == 0 {
                break;
            }
            let span = zone.buddy.span();
            let block_type = zone.buddy.block_type(first);
            let run = &pages[done..done + plain];
            let same = run
                .iter()
                .position(|pfn| !span.contains(pfn) || zone.buddy.block_type(*pfn) != block_type)
                .unwrap_or(plain);
            done += pageset.put_plain(f, zone.pressure, list_index(f, 0, block_type), &run[..same]);
        }
        self.counters.add(Event::Pgfree, done as u64);
        done
    }

    /// Takes 2^order pages, at least a largest block, as boot code does from memblock before this allocator exists: the
    /// highest aligned run of `node`, free of cost. Call it before anything else. Its pages are managed and count
    /// as allocated; [`Kernel::free_contig`] frees them.
    pub fn alloc_at_boot(&mut self, order: u8, node: Node) -> Option<Pfn> {
        let zones = &self.own_zones[node.index()];
        zones.iter().find_map(|&z| self.zones[z].alloc_at_boot(order))
    }

    /// Whether [`Kernel::vmstat_update`] on `cpu` would find anything to do.
    pub fn vmstat_has_work(&self, cpu: Cpu) -> bool {
        self.zones.iter().any(|zone| zone.has_vmstat_work(cpu))
    }

    /// Marks a node's zones as being reclaimed, or no longer (`ZONE_RECLAIM_ACTIVE`).
    pub fn set_reclaim_active(&mut self, node: Node, active: bool) {
        for &z in &self.own_zones[node.index()] {
            self.zones[z].pressure.reclaim_active = active;
        }
    }

    /// Checks what must always hold, `allocated` being the pages that users hold beyond those of pools and
    /// folios; panics with what does not.
    pub fn validate(&self, allocated: u64) {
        let mut managed = 0;
        let mut free = 0;
        for zone in &self.zones {
            zone.validate(&self.features);
            managed += zone.managed;
            free += zone.buddy.free_pages() + zone.pages_in_pagesets();
        }
        self.hugetlb.validate();
        let allocated = allocated + self.hugetlb.held + self.nr_huge_zero_pages() + self.validate_folios();
        assert_eq!(free + allocated, managed, "free, cached and allocated pages must add up to all pages");
    }
}
