//! The vmemmap: the struct pages as memory, and which frame holds which of them.
//!
//! ```text
//!   struct pages   │ 128 MiB of memory │ 128 MiB of memory │ ...      each section has 512 vmemmap pages
//!   page table     │ one PMD leaf      │ 512 PTEs          │          a split is permanent
//!                                         ├─► frame, frame, frame ...
//!   a huge page's 8 PTEs:     plain  a b c d e f g h      optimised  a'a'a'a'a'a'a'a'   (a' a copy of a; a to h are free)
//! ```
//!
//! Frames come from boot (the tail of each node's memory) or from the buddy allocator. This module knows the
//! frames; [`remap`] changes them for one huge page, [`list`] for many; [`policy`] decides on passes and TLB
//! flushes, which is what the batching series is about.
//! In the kernel: mm/hugetlb_vmemmap.c, mm/sparse-vmemmap.c.

pub mod list;
pub mod policy;
pub mod remap;

use crate::allocator::memory_map::{MemoryRange, PAGES_PER_SECTION, SECTION_MEMMAP_PAGES};
use crate::allocator::page::Pfn;
use std::ops::Range;

/// A page frame that holds, or held, struct pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub pfn: Pfn,
    /// It was reserved by boot; freeing it makes it managed memory.
    pub reserved: bool,
}

/// A range of vmemmap pages that are in consecutive frames since boot.
#[derive(Clone, Debug)]
struct Run {
    vmemmap: Range<u32>,
    first_frame: Pfn,
}

/// The PTEs of a section whose PMD mapping was split.
#[derive(Clone, Debug)]
struct Section {
    frames: [Frame; SECTION_MEMMAP_PAGES as usize],
}

/// The frames of all struct pages.
#[derive(Clone, Debug, Default)]
pub struct Vmemmap {
    runs: Vec<Run>,
    /// `None` if the section is PMD-mapped, or does not exist.
    sections: Vec<Option<Box<Section>>>,
    /// `nr_memmap_boot_pages`.
    nr_boot_pages: i64,
    /// `nr_memmap_pages`; may be negative, as in the kernel, if frames of boot are replaced one for one.
    nr_pages: i64,
}

impl Vmemmap {
    /// The vmemmap after boot: whole sections, their frames in the order of their struct pages. Memory of a
    /// node without a tail that could hold its struct pages has no vmemmap here.
    pub fn new(memory: &[MemoryRange]) -> Vmemmap {
        let mut ranges: Vec<&MemoryRange> = memory.iter().collect();
        ranges.sort_by_key(|range| (range.node, range.spanned.start));
        let mut map = Vmemmap::default();
        let mut mapped = 0;
        for own in ranges.chunk_by(|a, b| a.node == b.node) {
            let Some(tail) = own.iter().map(|range| &range.memmap).find(|tail| !tail.is_empty()) else {
                continue;
            };
            let mut next_frame = tail.start;
            for range in own {
                let end = range.free.end.max(range.memmap.end);
                // Two ranges may share a section; the first one maps it.
                let first = (range.spanned.start / PAGES_PER_SECTION * SECTION_MEMMAP_PAGES).max(mapped);
                let vmemmap = first..end.div_ceil(PAGES_PER_SECTION) * SECTION_MEMMAP_PAGES;
                let frames = vmemmap.len() as Pfn;
                if frames == 0 || tail.end - next_frame < frames {
                    continue;
                }
                mapped = vmemmap.end;
                map.nr_boot_pages += i64::from(frames);
                map.runs.push(Run { vmemmap, first_frame: next_frame });
                next_frame += frames;
            }
        }
        map.sections = vec![None; (mapped / SECTION_MEMMAP_PAGES) as usize];
        map
    }

    /// Whether these vmemmap pages are mapped at all.
    pub fn contains(&self, vmemmap: &Range<u32>) -> bool {
        self.runs.iter().any(|run| run.vmemmap.start <= vmemmap.start && vmemmap.end <= run.vmemmap.end)
    }

    /// `nr_memmap_boot_pages`: frames reserved by boot that hold struct pages.
    pub fn nr_memmap_boot_pages(&self) -> i64 {
        self.nr_boot_pages
    }

    /// `nr_memmap_pages`: frames from the buddy allocator that hold struct pages.
    pub fn nr_memmap_pages(&self) -> i64 {
        self.nr_pages
    }

    /// Whether the section of a vmemmap page is still PMD-mapped.
    fn is_leaf(&self, page: u32) -> bool {
        self.sections[(page / SECTION_MEMMAP_PAGES) as usize].is_none()
    }

    /// Splits the PMD mapping of a section into PTEs for the same frames.
    fn split(&mut self, page: u32) {
        let first = page / SECTION_MEMMAP_PAGES * SECTION_MEMMAP_PAGES;
        let run =
            self.runs.iter().find(|run| run.vmemmap.contains(&first)).expect("a section of this machine");
        let frame = run.first_frame + (first - run.vmemmap.start);
        let frames = std::array::from_fn(|i| Frame { pfn: frame + i as Pfn, reserved: true });
        self.sections[(first / SECTION_MEMMAP_PAGES) as usize] = Some(Box::new(Section { frames }));
    }

    /// Splits all sections at no cost, as they may be on a kernel that has run for long.
    pub(crate) fn split_all(&mut self) {
        for page in (0..self.sections.len() as u32).map(|section| section * SECTION_MEMMAP_PAGES) {
            if self.is_leaf(page) && self.runs.iter().any(|run| run.vmemmap.contains(&page)) {
                self.split(page);
            }
        }
    }

    /// The frame of a vmemmap page in a split section.
    fn frame(&mut self, page: u32) -> &mut Frame {
        let section = self.sections[(page / SECTION_MEMMAP_PAGES) as usize].as_mut();
        &mut section.expect("the section was split before").frames[(page % SECTION_MEMMAP_PAGES) as usize]
    }

    /// Whether the vmemmap pages all share the frame of the first.
    pub fn is_shared(&self, vmemmap: &Range<u32>) -> bool {
        let frame = |page: u32| {
            let section = self.sections[(page / SECTION_MEMMAP_PAGES) as usize].as_ref()?;
            Some(section.frames[(page % SECTION_MEMMAP_PAGES) as usize].pfn)
        };
        let first = frame(vmemmap.start);
        first.is_some() && vmemmap.clone().all(|page| frame(page) == first)
    }

    /// Frames of the split sections, without duplicates.
    pub fn frames_of_split_sections(&self) -> Vec<Pfn> {
        let mut frames: Vec<Pfn> =
            self.sections.iter().flatten().flat_map(|section| section.frames.iter().map(|f| f.pfn)).collect();
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// Number of split sections; each keeps a page-table page for ever.
    pub fn nr_split_sections(&self) -> u64 {
        self.sections.iter().flatten().count() as u64
    }

    fn note_allocated(&mut self, pages: i64) {
        self.nr_pages += pages;
    }

    fn note_freed(&mut self, frame: Frame) {
        *if frame.reserved { &mut self.nr_boot_pages } else { &mut self.nr_pages } -= 1;
    }
}
