//! How physical memory is laid out: which pages belong to which node and zone, and where their struct pages lie.
//!
//! ```text
//!   node 0   1 │ DMA │ DMA32 │ Normal ....... │ memmap │     section k of the node has its struct pages in the
//!   node 1   │ Normal ....................... │ memmap │     512 frames from memmap.start + 512 k on
//! ```
//!
//! In the kernel: include/linux/mmzone.h (`enum zone_type`, `PAGES_PER_SECTION`), mm/sparse.c.

use crate::page::{Geometry, Pfn};
use machine::{Node, PageSize};
use std::ops::Range;

/// Kinds of zones that x86-64 has, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum ZoneType {
    /// The first 16 MiB.
    Dma = 0,
    /// Up to 4 GiB.
    Dma32 = 1,
    /// The rest.
    Normal = 2,
    /// Only movable allocations.
    Movable = 3,
}

impl ZoneType {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
    /// All kinds, lowest first.
    pub const ALL: [ZoneType; 4] = [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal, ZoneType::Movable];

    /// The name in /proc/zoneinfo.
    pub fn name(self) -> &'static str {
        ["DMA", "DMA32", "Normal", "Movable"][self as usize]
    }
}

/// A range of memory that belongs to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Whose memory it is.
    pub node: Node,
    /// Which kind of zone it makes.
    pub kind: ZoneType,
    /// Its pages that the allocator manages.
    pub span: Range<Pfn>,
    /// Behind them, frames that boot reserved for the struct pages of the node's memory; may be empty.
    pub memmap: Range<Pfn>,
}

/// Pages of a memory section of x86-64, 128 MiB (`PAGES_PER_SECTION`).
pub const PAGES_PER_SECTION: u32 = 1 << 15;
/// Frames that hold the struct pages of a section, 64 bytes each: 2 MiB.
pub const SECTION_MEMMAP_PAGES: u32 = PAGES_PER_SECTION * 64 / 4096;

/// MiB up to the end of ZONE_DMA and of ZONE_DMA32 of x86-64.
const ZONE_LIMITS: [u64; 2] = [16, 4096];

/// The memory of a machine with equal nodes and pages of 4 KiB, laid out one after the other as on x86-64. The first page
/// belongs to firmware. `mib_per_node` is what the allocator manages; on top of it, each node has the frames of
/// its struct pages behind its last range.
///
/// Nodes start at a section and so do their maps' frames at a pageblock. Zones end where they would without maps,
/// so that those change no zone's size. There is no map where page numbers would not reach it (near 16 TiB).
pub fn memory_layout(nodes: u8, mib_per_node: u64) -> Vec<MemoryRange> {
    memory_layout_of(PageSize::Kib4, nodes, mib_per_node)
}

/// The same with pages of another size, and then without maps: pools of huge pages, whose maps are of interest, have pages
/// of 4 KiB.
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
        // Where the node's memory would be without maps, and how far they move it.
        let first = u64::from(node) * pages;
        let moved = u64::from(node) * (distance - pages);
        let mut start = first.max(1);
        let end = first + pages;
        let [dma, dma32] = ZONE_LIMITS.map(|mib| page_size.pages_of_mib(mib));
        for (kind, limit) in
            [(ZoneType::Dma, dma), (ZoneType::Dma32, dma32), (ZoneType::Normal, Pfn::MAX.into())]
        {
            let until = end.min(limit);
            if start < until {
                let span = (start + moved) as Pfn..(until + moved) as Pfn;
                ranges.push(MemoryRange { node: Node(node), kind, memmap: span.end..span.end, span });
                start = until;
            }
        }
        if let Some(last) = ranges.last_mut().filter(|range| has_maps && range.node == Node(node)) {
            let map = last.span.end.next_multiple_of(pageblock_nr_pages);
            last.memmap = map..map + sections as Pfn * SECTION_MEMMAP_PAGES;
        }
    }
    ranges
}
