//! How physical memory is laid out: which pages belong to which node and zone, and where their struct pages lie.
//!
//! ```text
//!   node 0   1 │ DMA │ DMA32 │ Normal ....... │ memmap │     section k of the node has its struct pages in the
//!   node 1   │ Normal ....................... │ memmap │     512 frames from memmap.start + 512 k on
//! ```
//!
//! In the kernel: include/linux/mmzone.h (`enum zone_type`, `PAGES_PER_SECTION`), mm/sparse.c.

use crate::page::{PAGEBLOCK_NR_PAGES, Pfn};
use machine::Node;
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

/// First page beyond ZONE_DMA and beyond ZONE_DMA32 of x86-64.
const ZONE_LIMITS: [Pfn; 2] = [1 << 12, 1 << 20];

/// The memory of a machine with equal nodes, laid out one after the other as on x86-64. The first page
/// belongs to firmware. `mib_per_node` is what the allocator manages; on top of it, each node has the frames of
/// its struct pages behind its last range.
///
/// Nodes start at a section and so do their maps' frames at a pageblock. Zones end where they would without maps,
/// so that those change no zone's size. There is no map where page numbers would not reach it (near 16 TiB).
pub fn memory_layout(nodes: u8, mib_per_node: u64) -> Vec<MemoryRange> {
    let pages = mib_per_node * 256;
    let mapped = pages.next_multiple_of(PAGEBLOCK_NR_PAGES.into());
    let sections = mapped.div_ceil((PAGES_PER_SECTION - SECTION_MEMMAP_PAGES).into());
    let distance = sections * u64::from(PAGES_PER_SECTION);
    let has_maps = distance * u64::from(nodes) < Pfn::MAX.into();
    let distance = if has_maps { distance } else { pages };
    let mut ranges: Vec<MemoryRange> = Vec::new();
    for node in 0..nodes {
        // Where the node's memory would be without maps, and how far they move it.
        let first = u64::from(node) * pages;
        let moved = u64::from(node) * (distance - pages);
        let mut start = first.max(1);
        let end = first + pages;
        for (kind, limit) in
            [(ZoneType::Dma, ZONE_LIMITS[0]), (ZoneType::Dma32, ZONE_LIMITS[1]), (ZoneType::Normal, Pfn::MAX)]
        {
            let until = end.min(limit.into());
            if start < until {
                let span = (start + moved) as Pfn..(until + moved) as Pfn;
                ranges.push(MemoryRange { node: Node(node), kind, memmap: span.end..span.end, span });
                start = until;
            }
        }
        if let Some(last) = ranges.last_mut().filter(|range| has_maps && range.node == Node(node)) {
            let map = last.span.end.next_multiple_of(PAGEBLOCK_NR_PAGES);
            last.memmap = map..map + sections as Pfn * SECTION_MEMMAP_PAGES;
        }
    }
    ranges
}
