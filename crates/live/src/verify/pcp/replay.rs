//! The twin under recorded demand: what it was asked for is the kernel's, what it answers is its own.
//!
//! ```text
//!   recorded: cpu 1 allocates page 812                twin: cpu 1 allocates, gets page 97    812 -> 97
//!             cpu 0 frees page 812                          cpu 0 frees page 97
//!             cpu 0 frees page 55, never allocated          a page from the zone stands for it, and is freed
//! ```
//!
//! Pages that were in use when the recording began exist in the twin only from the moment they are freed. Each
//! request is for the zone that served it in the kernel, so that what is compared is the pagesets alone.

use std::collections::HashMap;

use machine::topology::{Cache, SharedBy};
use machine::{Costs, Cpu, Machine, Node, Topology};
use mm::buddy::{BoostContext, FallbackOutcome, Mode, Visit, Wanted};
use mm::memory_map::MemoryRange;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::list_contents;
use mm::pcp::policy::Pageset;
use mm::{
    Category, Event, Features, MemoryManager, MigrateType, Pfn, Placement, Request, Settings, ZoneType,
};
use rand_pcg::Pcg64Mcg;

/// A zone of the recorded machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayZone {
    /// Its kind.
    pub kind: ZoneType,
    /// Its node.
    pub node: u8,
    /// First page frame and first one beyond.
    pub pages: std::ops::Range<Pfn>,
    /// Pages that its allocator manages.
    pub managed: u32,
    /// `batch` of its pagesets.
    pub batch: i32,
    /// Lower bound of `high`.
    pub high_min: i32,
    /// Upper bound of `high`.
    pub high_max: i32,
}

/// The twin of the recorded machine.
#[derive(Clone)]
pub struct Replay {
    mm: MemoryManager,
    machine: Machine<Category>,
    zones: Vec<ReplayZone>,
    /// Type of each pageblock of the recorded machine.
    types: Vec<u8>,
    /// The twin's block for each block in use that was allocated under our eyes.
    blocks: HashMap<Pfn, Pfn>,
}

impl Replay {
    /// Boots the twin: empty pagesets with the recorded bounds, all memory free.
    pub fn new(features: Features, cpus: u16, zones: Vec<ReplayZone>, types: Vec<u8>) -> Replay {
        let nodes = zones.iter().map(|zone| zone.node).max().unwrap_or(0) + 1;
        let topology = topology(cpus, nodes);
        let memory: Vec<MemoryRange> = zones
            .iter()
            .map(|zone| {
                let managed = zone.pages.start..zone.pages.start + zone.managed;
                MemoryRange::all_free(Node(zone.node), zone.kind, managed)
            })
            .collect();
        let noise = Pcg64Mcg::new(1);
        let mut mm = MemoryManager::new(&topology, &memory, features, Settings::default(), noise);
        for (index, zone) in zones.iter().enumerate() {
            mm.parts.allocator.zone_mut(index).set_pagesets(
                &features,
                zone.batch,
                zone.high_min,
                zone.high_max,
            );
        }
        // Decisions are compared, not times.
        let machine = Machine::new(topology, Costs::FREE);
        Replay { mm, machine, zones, types, blocks: HashMap::new() }
    }

    /// The zone of a page frame.
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.pages.contains(&pfn))
    }

    /// The numbers of a CPU's pageset.
    pub fn pageset(&mut self, cpu: u16, zone: usize) -> &mut Pageset {
        &mut self.mm.parts.allocator.zone_mut(zone).pagesets[usize::from(cpu)].tuning
    }

    /// Adds a block to the tail of a CPU's list, which held it at the start.
    pub fn add_to_list(&mut self, cpu: u16, zone: usize, list: usize) {
        let (order, migrate_type) = list_contents(self.mm.features(), list, PAGEBLOCK_ORDER);
        let Some(pfn) = self.take_from_zone(cpu, zone, order, migrate_type) else { return };
        let pageset = &mut self.mm.parts.allocator.zone_mut(zone).pagesets[usize::from(cpu)];
        pageset.list_mut(list).push_back(pfn);
        pageset.note_refilled(1, order);
    }

    /// A block that the recorded machine had in use, or on a list, before the twin saw it.
    fn take_from_zone(&mut self, cpu: u16, zone: usize, order: u8, migrate_type: MigrateType) -> Option<Pfn> {
        let features = *self.mm.features();
        let mut visit = Visit::new(&self.machine, Cpu(cpu));
        let no_boost = BoostContext { boost_factor: 0, high: 0, managed: 0 };
        let mut outcome = FallbackOutcome::default();
        self.mm.parts.allocator.zone_mut(zone).buddy.take_or_fall_back(
            &features,
            Wanted { order, migrate_type, no_fragment: false },
            &mut Mode::default(),
            &no_boost,
            &mut outcome,
            &mut visit,
        )
    }

    /// `cpu` allocates what was `pfn` in the recording.
    pub fn alloc(&mut self, cpu: u16, pfn: Pfn, order: u8, migrate_type: MigrateType) {
        let Some(zone) = self.zone_of(pfn) else { return };
        if let Some(got) = self.request(cpu, zone, order, migrate_type) {
            self.blocks.insert(pfn, got);
        }
    }

    /// `cpu` allocates what was `pfn` in the recording straight from the zone.
    pub fn alloc_past_lists(&mut self, cpu: u16, pfn: Pfn, order: u8, migratetype: i8) {
        let migrate_type = u8::try_from(migratetype).ok().and_then(MigrateType::from_number);
        let (Some(zone), Some(migrate_type)) = (self.zone_of(pfn), migrate_type) else { return };
        if let Some(got) = self.take_from_zone(cpu, zone, order, migrate_type) {
            self.blocks.insert(pfn, got);
        }
    }

    fn request(&mut self, cpu: u16, zone: usize, order: u8, migrate_type: MigrateType) -> Option<Pfn> {
        let zone = &self.zones[zone];
        let placement = Placement::Bind(Node(zone.node));
        let request = Request { highest: zone.kind, ..Request::new(order, migrate_type, placement) };
        self.mm.enter(&mut self.machine, Cpu(cpu)).alloc(&request)
    }

    /// `cpu` takes `blocks` blocks through `alloc_pages_bulk`, which does not count as an allocation that
    /// interrupts a row of frees.
    pub fn alloc_bulk(&mut self, cpu: u16, zone: usize, order: u8, migrate_type: MigrateType, blocks: u32) {
        let free_count = self.pageset(cpu, zone).free_count;
        for _ in 0..blocks {
            // Their pages come back as ones that were never seen.
            self.request(cpu, zone, order, migrate_type);
        }
        self.pageset(cpu, zone).free_count = free_count;
    }

    /// The twin's block for the recorded `pfn`, which is being freed.
    fn release(&mut self, cpu: u16, pfn: Pfn, order: u8) -> Option<Pfn> {
        let zone = self.zone_of(pfn)?;
        self.blocks.remove(&pfn).or_else(|| {
            let number = self.types.get((pfn >> PAGEBLOCK_ORDER) as usize).copied();
            let migrate_type = number.and_then(MigrateType::from_number).unwrap_or(MigrateType::Movable);
            self.take_from_zone(cpu, zone, order, migrate_type.pcp_type())
        })
    }

    /// `cpu` frees the recorded `pfn`.
    pub fn free(&mut self, cpu: u16, pfn: Pfn, order: u8) {
        if let Some(block) = self.release(cpu, pfn, order) {
            self.mm.enter(&mut self.machine, Cpu(cpu)).free(block, order);
        }
    }

    /// `cpu` frees the recorded `pfn` straight to the zone.
    pub fn free_past_lists(&mut self, cpu: u16, pfn: Pfn, order: u8) {
        let Some(block) = self.release(cpu, pfn, order) else { return };
        let zone = self.mm.parts.allocator.zone_of(block);
        let buddy = &mut self.mm.parts.allocator.zone_mut(zone).buddy;
        let migrate_type = buddy.block_type(block);
        buddy.put(block, order, migrate_type, &mut Visit::new(&self.machine, Cpu(cpu)));
    }

    /// `cpu`'s vmstat worker runs.
    pub fn vmstat_update(&mut self, cpu: u16) {
        self.mm.enter(&mut self.machine, Cpu(cpu)).vmstat_update();
    }

    /// Base pages refilled so far.
    pub fn refilled(&self) -> u64 {
        self.mm.counters().get(Event::PcpRefilledPages)
    }

    /// Base pages drained so far.
    pub fn drained(&self) -> u64 {
        self.mm.counters().get(Event::PcpDrainedPages)
    }
}

/// So many CPUs on so many nodes. Distances and caches do not matter: zones are chosen by the recording.
pub fn topology(cpus: u16, nodes: u8) -> Topology {
    let per_node = cpus.div_ceil(u16::from(nodes)).max(1);
    Topology {
        sockets: nodes.into(),
        cores_per_socket: per_node,
        threads_per_core: 1,
        nodes,
        memory_only_nodes: 0,
        turn_shares: Vec::new(),
        node_distances: vec![vec![10; nodes.into()]; nodes.into()],
        caches: vec![Cache { level: 3, bytes: 0, shared_by: SharedBy::Socket }],
    }
}
