//! The physical memory map at boot: which pages belong to which node and zone, which of them the allocator
//! manages, and where their struct pages are.
//!
//! ```text
//!   node 0   1 │ DMA │ DMA32 │ Normal ....... │ memmap │     struct pages of the node's section k are in the
//!   node 1   │ Normal ....................... │ memmap │     512 frames from memmap.start + 512 k on
//!
//!   a zone   │ rsvd │ free ........ │ rsvd │ memmap │        all is spanned; holes are not present; only free is managed
//! ```
//!
//! In the kernel: include/linux/mmzone.h (`enum zone_type`, `PAGES_PER_SECTION`), mm/sparse.c, mm/mm_init.c
//! (`free_area_init`, `alloc_large_system_hash`).

use crate::allocator::page::{Geometry, Pfn};
pub use machine::ZoneType;
use machine::memblock::{FOUR_GIB_MIB, Layout, ZoneSpan};
use machine::{Memblock, Node, PageSize, Profile};
use std::ops::Range;

/// A contiguous range of a node's memory that makes one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    pub node: Node,
    pub kind: ZoneType,
    /// First to last page of the zone, holes included (`spanned_pages`).
    pub spanned: Range<Pfn>,
    /// Number of spanned pages that exist (`present_pages`).
    pub present: u64,
    /// Number of pages that the allocator was given (`managed_pages`): those in `free`, and those that were
    /// allocated before a recording was made.
    pub managed: u64,
    /// The pages that are free after boot.
    pub free: Range<Pfn>,
    /// Page frames behind `free` that boot reserved for the struct pages of the node's memory; may be empty.
    pub memmap: Range<Pfn>,
}

impl MemoryRange {
    /// A range whose pages are all free.
    pub fn all_free(node: Node, kind: ZoneType, pages: Range<Pfn>) -> MemoryRange {
        let count = pages.len() as u64;
        MemoryRange {
            node,
            kind,
            spanned: pages.clone(),
            present: count,
            managed: count,
            memmap: pages.end..pages.end,
            free: pages,
        }
    }

    /// Reserves the lowest `pages` free pages, or all of them if there are fewer.
    fn hold_first(&mut self, pages: u64) {
        let pages = pages.min(self.free.len() as u64);
        self.free.start += pages as Pfn;
        self.managed -= pages;
    }

    /// Reserves the highest `pages` free pages, and makes `memmap` the frames of struct pages.
    fn hold_last(&mut self, pages: u64, memmap: Range<Pfn>) {
        self.free.end -= pages as Pfn;
        self.managed -= pages;
        self.memmap = memmap;
    }
}

/// Pages of a memory section on x86-64, 128 MiB (`PAGES_PER_SECTION`).
pub const PAGES_PER_SECTION: u32 = 1 << 15;
/// Page frames that hold the struct pages of a section, 64 bytes each: 2 MiB.
pub const SECTION_MEMMAP_PAGES: u32 = PAGES_PER_SECTION * 64 / 4096;

/// Page frames in a PC's first MiB that firmware keeps (`0x9fc00` to `0xfffff` of the e820 map).
const PC_FIRMWARE: Range<Pfn> = 0x9f..0x100;
/// Pages per GiB of memory for the hash tables that the kernel sizes by memory (`alloc_large_system_hash`),
/// mostly those for dentries and inodes. Measured in QEMU as the difference in reserved memory between 1 and
/// 2 GiB: 567 (6.1.192), 582 (6.12.95) and 571 (6.18.15).
const TABLE_PAGES_PER_GIB: u64 = 573;
/// Memory in GiB from which the hash tables are halved for every factor of 4 (`ADAPT_SCALE_BASE`).
const ADAPT_SCALE_GIB: u64 = 64;

/// The memory of a machine with equal nodes and pages of 4 KiB, of which boot reserves nothing: one node
/// after the other, as on a PC without a PCI hole. `mib_per_node` is managed memory; each node has the frames
/// of its struct pages in addition, behind its last zone.
///
/// Every node starts at a section and its memmap at a pageblock. Zones end where they would without memmaps,
/// so that memmaps do not change the size of any zone. There are no memmaps if page frame numbers would not
/// suffice (near 16 TiB).
pub fn memory_layout(nodes: u8, mib_per_node: u64) -> Vec<MemoryRange> {
    memory_layout_of(PageSize::Kib4, nodes, mib_per_node)
}

/// Like [`memory_layout`] with another page size, and then without memmaps: only pools of huge pages need
/// them, and those have pages of 4 KiB.
pub fn memory_layout_of(page_size: PageSize, nodes: u8, mib_per_node: u64) -> Vec<MemoryRange> {
    let pageblock_nr_pages = Geometry::of(page_size).pageblock_nr_pages();
    let pages = page_size.pages_of_mib(mib_per_node);
    let mapped = pages.next_multiple_of(pageblock_nr_pages.into());
    let sections = mapped.div_ceil((PAGES_PER_SECTION - SECTION_MEMMAP_PAGES).into());
    let distance = sections * u64::from(PAGES_PER_SECTION);
    let has_maps = page_size == PageSize::Kib4 && distance * u64::from(nodes) < Pfn::MAX.into();
    let distance = if has_maps { distance } else { pages };
    let mut ranges: Vec<MemoryRange> = Vec::new();
    for node in 0..nodes {
        // Where the node's memory would be without memmaps, and how far they move it.
        let first = u64::from(node) * pages;
        let moved = u64::from(node) * (distance - pages);
        for (kind, part) in zones_within(Layout::Pc, page_size, first.max(1)..first + pages) {
            let pages = (part.start + moved) as Pfn..(part.end + moved) as Pfn;
            ranges.push(MemoryRange::all_free(Node(node), kind, pages));
        }
        if let Some(last) = ranges.last_mut().filter(|range| has_maps && range.node == Node(node)) {
            let map = last.free.end.next_multiple_of(pageblock_nr_pages);
            last.memmap = map..map + sections as Pfn * SECTION_MEMMAP_PAGES;
        }
    }
    ranges
}

/// The memory of a machine at the addresses of its profile, without what firmware and kernel reserve: see
/// [`machine::memblock`].
///
/// Struct pages and, on machines of one node, the kernel's hash tables are at the top of the highest zone of
/// a node that has room for them; with several nodes such tables are allocated later (`hashdist`). Nodes
/// start at a section.
pub fn booted_memory(profile: &Profile) -> Vec<MemoryRange> {
    let Profile { memblock, page_size, topology, .. } = profile;
    let (page_size, nodes, mib_per_node) = (*page_size, topology.nodes, topology.memory_mib_per_node);
    if !memblock.zones.is_empty() {
        return recorded_memory(&memblock.zones);
    }
    let pages_of = |mib| page_size.pages_of_mib(mib);
    let below = memblock.below_4g_mib.min(u64::from(nodes) * mib_per_node);
    let hole = pages_of(memblock.layout.start_mib() + below)..pages_of(FOUR_GIB_MIB);
    let firmware = memblock.firmware_kib / page_size.kib();
    let mut next = pages_of(memblock.layout.start_mib());
    let mut ranges = Vec::new();
    for node in 0..nodes {
        let mut rest = pages_of(mib_per_node);
        while rest > 0 {
            let beyond = if next < hole.start { hole.start } else { u64::MAX };
            let end = beyond.min(next + rest);
            let present = if end == hole.start { end - firmware.min(end - next) } else { end };
            let parts = zones_within(memblock.layout, page_size, next.max(1)..present);
            ranges.extend(parts.map(|(kind, part)| {
                MemoryRange::all_free(Node(node), kind, part.start as Pfn..part.end as Pfn)
            }));
            rest -= end - next;
            next = if end == hole.start { hole.end.max(end) } else { end };
        }
        next = next.next_multiple_of(PAGES_PER_SECTION.into());
    }
    hold_low_memory(memblock, page_size, &mut ranges);
    let tables = if nodes == 1 { table_pages(page_size, mib_per_node) } else { 0 };
    for own in ranges.chunk_by_mut(|a, b| a.node == b.node) {
        hold_memmap(page_size, own, tables);
        // A zone spans the hole behind its memory if the node has more memory behind the hole.
        for at in 1..own.len() {
            own[at - 1].spanned.end = own[at].spanned.start;
        }
    }
    ranges
}

/// Splits a range of pages into zones: each zone with its part of the range.
fn zones_within(
    layout: Layout,
    page_size: PageSize,
    pages: Range<u64>,
) -> impl Iterator<Item = (ZoneType, Range<u64>)> {
    let lower = layout.lower_zones().iter().map(move |&(kind, mib)| (kind, page_size.pages_of_mib(mib)));
    let mut start = pages.start;
    lower.chain([(ZoneType::Normal, u64::MAX)]).filter_map(move |(kind, limit)| {
        let part = start..pages.end.min(limit);
        start = start.max(part.end);
        (!part.is_empty()).then_some((kind, part))
    })
}

/// Reserves the first MiB of a PC and the kernel's own memory.
fn hold_low_memory(memblock: &Memblock, page_size: PageSize, ranges: &mut [MemoryRange]) {
    let mut ranges = ranges.iter_mut();
    if memblock.layout == Layout::Pc
        && let Some(dma) = ranges.next()
    {
        let [start, end] = [PC_FIRMWARE.start, PC_FIRMWARE.end].map(|frame| {
            // Firmware frames are numbered in 4 KiB.
            (u64::from(frame) * 4 / page_size.kib()).min(dma.spanned.end.into())
        });
        dma.present -= end - start;
        dma.managed = dma.present;
        dma.managed -= start - u64::from(dma.spanned.start);
        dma.free.start = end as Pfn;
    }
    if let Some(first) = ranges.next() {
        first.hold_first(page_size.pages_of_mib(memblock.kernel_mib));
    }
}

/// Pages of the hash tables that the kernel sizes by memory.
fn table_pages(page_size: PageSize, mib: u64) -> u64 {
    let halved = (0..).take_while(|&times| mib >> 10 > ADAPT_SCALE_GIB << (2 * times)).count();
    (mib * TABLE_PAGES_PER_GIB * 4 / page_size.kib()) >> (10 + halved)
}

/// Reserves the struct pages of a node, and `tables` pages of hash tables.
fn hold_memmap(page_size: PageSize, ranges: &mut [MemoryRange], tables: u64) {
    let map = match page_size {
        PageSize::Kib4 => u64::from(sections(ranges) * SECTION_MEMMAP_PAGES),
        _ => ranges.iter().map(|range| range.present).sum::<u64>() * 64 / page_size.bytes(),
    };
    let fits =
        |range: &&mut MemoryRange| range.free.len() as u64 > map + tables + u64::from(SECTION_MEMMAP_PAGES);
    if let Some(range) = ranges.iter_mut().rev().find(fits) {
        let end = range.free.end;
        let start = (end - map as Pfn) / SECTION_MEMMAP_PAGES * SECTION_MEMMAP_PAGES;
        let memmap = if page_size == PageSize::Kib4 { start..start + map as Pfn } else { end..end };
        // The hash tables are below and above the memmap.
        range.hold_last((map + tables).max((end - start).into()), memmap);
    }
}

/// Number of sections that a node's zones touch; a section that two zones share counts once.
fn sections(ranges: &[MemoryRange]) -> u32 {
    let (mut sections, mut mapped) = (0, 0);
    for range in ranges {
        let first = (range.spanned.start / PAGES_PER_SECTION).max(mapped);
        mapped = range.free.end.div_ceil(PAGES_PER_SECTION).max(first);
        sections += mapped - first;
    }
    sections
}

/// The memory of a machine whose zones were recorded from /proc/zoneinfo. That file does not say where
/// reserved pages are, so this assumes: in zone DMA at the start, as in the first MiB of a PC; in other zones
/// before the free pages; in the last zone of a node after them. The last zone counts as full to its end,
/// where the struct pages are; the others may end in a hole.
pub fn recorded_memory(zones: &[ZoneSpan]) -> Vec<MemoryRange> {
    let mut ranges: Vec<MemoryRange> = zones
        .iter()
        .map(|zone| {
            let spanned = zone.start_pfn..zone.start_pfn + zone.spanned;
            let end = if zone.zone == ZoneType::Dma { spanned.end } else { spanned.start + zone.present };
            MemoryRange {
                node: zone.node,
                kind: zone.zone,
                present: zone.present.into(),
                managed: zone.managed.into(),
                free: end - zone.managed..end,
                memmap: end..end,
                spanned,
            }
        })
        .collect();
    for own in ranges.chunk_by_mut(|a, b| a.node == b.node) {
        // The last zone counts as full while its sections are counted.
        if let Some(last) = own.last_mut() {
            last.free = last.spanned.clone();
        }
        let map = sections(own) * SECTION_MEMMAP_PAGES;
        let Some(last) = own.last_mut() else { continue };
        let map_start = last.spanned.end.saturating_sub(map) / SECTION_MEMMAP_PAGES * SECTION_MEMMAP_PAGES;
        last.free.end = last.free.start + last.managed as Pfn;
        if map_start > last.free.start {
            last.free.end = last.free.end.min(map_start);
            last.memmap = map_start..map_start + map;
        }
    }
    ranges
}
