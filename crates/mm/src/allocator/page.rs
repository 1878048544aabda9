//! Page frame numbers, orders, migrate types, and a small record for each page.
//!
//! ```text
//!   zone     │ 2 MiB │ 2 MiB │ 2 MiB │ ...     pageblocks
//!   starts   │   ●   │   ●   │   ●   │         first record of each pageblock
//!                │       └───────┼─────────────────┐
//!   records  [ head  │ head  │ head  │ ... ┊ head + 511 inner │ ... ]
//! ```
//!
//! Every pageblock has a record for its head. Its 511 inner pages get records only once the pageblock is
//! split, so that a huge page costs one record, and memory grows with what is used rather than with the
//! machine. An inner page without a record reads as untouched: its cache line is in no CPU's cache, and it
//! does not head a free block.
//!
//! A record holds what `struct page` holds for a free page (`include/linux/mm_types.h`): list links, order,
//! migrate type of the list. It also holds something that only hardware knows: which CPU's cache had the
//! record's line last.

use crate::vec_growth;
use machine::{Cpu, PageSize};
use prefetch_index::prefetch_index;

/// A page frame number. 32 bits reach 16 TiB.
pub type Pfn = u32;

/// The number of no page.
pub const NO_PAGE: Pfn = Pfn::MAX;

/// Array size for the orders of any [`Geometry`].
pub const NR_PAGE_ORDERS: usize = 14;
/// Largest buddy order of kernels with pages of 4 KiB, as traces record them: 4 MiB (`MAX_PAGE_ORDER`).
pub const MAX_PAGE_ORDER: u8 = Geometry::of(PageSize::Kib4).max_page_order;
/// Pageblock order of kernels with pages of 4 KiB: 2 MiB (`pageblock_order`).
pub const PAGEBLOCK_ORDER: u8 = Geometry::of(PageSize::Kib4).pageblock_order;
/// Huge-page order of kernels with pages of 4 KiB: 2 MiB (`HPAGE_PMD_ORDER`).
pub const PMD_ORDER: u8 = Geometry::of(PageSize::Kib4).pmd_order;

/// The size of a base page, and the orders that follow from it.
///
/// ```text
///   page      largest block      page table, a huge page      pageblock
///    4 KiB    2^10    4 MiB      2^9     2 MiB                2^9     2 MiB
///   16 KiB    2^11   32 MiB      2^11   32 MiB                2^11   32 MiB
///   64 KiB    2^13  512 MiB      2^13  512 MiB                2^13  512 MiB
/// ```
///
/// In the kernel: `ARCH_FORCE_MAX_ORDER` in arch/arm64/Kconfig, `PMD_SHIFT` in its include/asm/pgtable-hwdef.h,
/// `pageblock_order` in include/linux/pageblock-flags.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub page_size: PageSize,
    /// Order of the largest buddy block (`MAX_PAGE_ORDER`).
    pub max_page_order: u8,
    /// Order of a page table: as many entries of 8 bytes as fill a page. A PMD entry maps as much in one
    /// piece, a huge page (`HPAGE_PMD_ORDER`).
    pub pmd_order: u8,
    /// Order of a pageblock, the unit that has a migrate type (`pageblock_order`): the smaller of the two
    /// above.
    pub pageblock_order: u8,
}

impl Geometry {
    /// The geometry of kernels with pages of this size.
    pub const fn of(page_size: PageSize) -> Geometry {
        let max_page_order = match page_size {
            PageSize::Kib4 => 10,
            PageSize::Kib16 => 11,
            PageSize::Kib64 => 13,
        };
        let pmd_order = page_size.shift() as u8 - 3;
        let pageblock_order = if pmd_order < max_page_order { pmd_order } else { max_page_order };
        Geometry { page_size, max_page_order, pmd_order, pageblock_order }
    }

    /// Pages of the largest buddy block (`MAX_ORDER_NR_PAGES`).
    #[inline]
    pub const fn max_order_nr_pages(self) -> u32 {
        1 << self.max_page_order
    }

    /// Pages of a huge page (`HPAGE_PMD_NR`).
    #[inline]
    pub const fn hpage_pmd_nr(self) -> u32 {
        1 << self.pmd_order
    }

    /// Entries of a page table (`PTRS_PER_PTE`).
    #[inline]
    pub const fn ptrs_per_pte(self) -> usize {
        1 << self.pmd_order
    }

    /// Pages of a pageblock (`pageblock_nr_pages`).
    #[inline]
    pub const fn pageblock_nr_pages(self) -> u32 {
        1 << self.pageblock_order
    }

    /// The first page of `pfn`'s pageblock.
    #[inline]
    pub const fn block_start(self, pfn: Pfn) -> Pfn {
        pfn >> self.pageblock_order << self.pageblock_order
    }
}

/// What a pageblock or an allocation is for (`enum migratetype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory, which cannot be migrated.
    Unmovable = 0,
    /// User memory and page cache, which can be migrated.
    Movable = 1,
    /// Kernel caches that can be shrunk.
    Reclaimable = 2,
    /// Reserved for atomic high-order allocations.
    HighAtomic = 3,
}

impl MigrateType {
    /// All types, by number.
    pub const ALL: [MigrateType; 4] =
        [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable, MigrateType::HighAtomic];
    pub const COUNT: usize = 4;
    /// Number of types that have per-CPU lists (`MIGRATE_PCPTYPES`).
    pub const PCP_TYPES: usize = 3;

    /// The type with the kernel's number.
    pub fn from_number(number: u8) -> Option<MigrateType> {
        Self::ALL.get(number as usize).copied()
    }

    /// Whether blocks of this type may merge with blocks of another type (`migratetype_is_mergeable`).
    pub fn is_mergeable(self) -> bool {
        (self as usize) < Self::PCP_TYPES
    }

    /// The type of the per-CPU list that freed pages of this type go to.
    #[inline]
    pub fn pcp_type(self) -> MigrateType {
        if self == MigrateType::HighAtomic { MigrateType::Movable } else { self }
    }

    /// The name in /proc/pagetypeinfo.
    pub fn name(self) -> &'static str {
        ["Unmovable", "Movable", "Reclaimable", "HighAtomic"][self as usize]
    }
}

/// The record of one page. `order` tells whether it heads a free block.
#[derive(Clone, Copy, Debug)]
pub struct PageRecord {
    /// Next block on the free list.
    pub next: Pfn,
    /// Previous block on the free list.
    pub prev: Pfn,
    /// The CPU whose cache had the record's line last.
    pub line_owner: Cpu,
    /// Order of the free block that this page heads, or [`PageRecord::NOT_FREE`].
    pub order: u8,
    /// The migrate type of the free list that the block is on; of an allocated page, the type it was
    /// allocated for.
    pub list_type: MigrateType,
}

impl PageRecord {
    /// `order` of a page that does not head a free block.
    pub const NOT_FREE: u8 = u8::MAX;

    const UNTOUCHED: PageRecord = PageRecord {
        next: NO_PAGE,
        prev: NO_PAGE,
        line_owner: Cpu(u16::MAX),
        order: PageRecord::NOT_FREE,
        list_type: MigrateType::Movable,
    };

    /// The CPU whose cache had the record's line last; `None` if the line was never touched.
    #[inline]
    pub fn cached_by(&self) -> Option<Cpu> {
        (self.line_owner.0 != u16::MAX).then_some(self.line_owner)
    }
}

/// The place of a page's record, valid until more records are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordIndex(usize);

/// The records of a zone's pages.
#[derive(Clone, Debug)]
pub struct PageMap {
    pageblock_order: u8,
    first_block: u32,
    /// For each pageblock, the index of its head's record, followed by the records of its inner pages if they
    /// exist.
    starts: Vec<u32>,
    /// One record for each pageblock, then one for each page of pageblocks that were split.
    records: Vec<PageRecord>,
}

impl PageMap {
    /// Records for pages `start..end`; only pageblock heads have one yet.
    pub fn new(geometry: Geometry, start: Pfn, end: Pfn) -> PageMap {
        let pageblock_order = geometry.pageblock_order;
        let first_block = start >> pageblock_order;
        let blocks = end.div_ceil(geometry.pageblock_nr_pages()) - first_block;
        let records = vec![PageRecord::UNTOUCHED; blocks as usize];
        PageMap { pageblock_order, first_block, starts: (0..blocks).collect(), records }
    }

    /// The start of the records of `pfn`'s pageblock, and the index of `pfn` within the pageblock.
    #[inline]
    fn place(&self, pfn: Pfn) -> (usize, usize) {
        let start = self.starts[((pfn >> self.pageblock_order) - self.first_block) as usize];
        (start as usize, (pfn & ((1 << self.pageblock_order) - 1)) as usize)
    }

    /// Makes records for the inner pages of `pfn`'s pageblock if there are none yet. Returns the place of
    /// `pfn`'s record.
    #[inline]
    pub fn split(&mut self, pfn: Pfn) -> RecordIndex {
        let (mut start, page) = self.place(pfn);
        if start < self.starts.len() {
            start = self.make_inner_records(pfn, start);
        }
        RecordIndex(start + page)
    }

    #[cold]
    fn make_inner_records(&mut self, pfn: Pfn, head: usize) -> usize {
        let start = self.records.len();
        let pages = 1 << self.pageblock_order;
        vec_growth::reserve(&mut self.records, pages);
        self.records.resize(start + pages, PageRecord::UNTOUCHED);
        self.records[start] = self.records[head];
        self.starts[((pfn >> self.pageblock_order) - self.first_block) as usize] = start as u32;
        start
    }

    #[inline]
    pub fn get(&self, pfn: Pfn) -> &PageRecord {
        let (start, page) = self.place(pfn);
        if page != 0 && start < self.starts.len() {
            &PageRecord::UNTOUCHED
        } else {
            &self.records[start + page]
        }
    }

    /// The place of `pfn`'s record. `pfn` must head its pageblock or be in one that was split.
    #[inline]
    pub fn index(&self, pfn: Pfn) -> RecordIndex {
        let (start, page) = self.place(pfn);
        debug_assert!(page == 0 || start >= self.starts.len(), "page {pfn} has no record of its own");
        RecordIndex(start + page)
    }

    /// The place of `other`'s record, given that of `pfn`. If both are in one pageblock, this saves the
    /// look-up.
    #[inline]
    pub fn index_beside(&self, (pfn, index): (Pfn, RecordIndex), other: Pfn) -> RecordIndex {
        if (pfn ^ other) >> self.pageblock_order == 0 {
            RecordIndex(index.0 + other as usize - pfn as usize)
        } else {
            self.index(other)
        }
    }

    /// The record of `pfn`, which must head its pageblock or be in one that was split.
    #[inline]
    pub fn get_mut(&mut self, pfn: Pfn) -> &mut PageRecord {
        let index = self.index(pfn);
        &mut self[index]
    }

    /// The records of `pages` pages from `index` on, all in one pageblock.
    #[inline]
    pub fn run_mut(&mut self, index: RecordIndex, pages: usize) -> &mut [PageRecord] {
        &mut self.records[index.0..index.0 + pages]
    }

    /// Prefetches the record of `pfn` into the host's cache.
    #[inline]
    pub fn prefetch(&self, pfn: Pfn) {
        let (start, page) = self.place(pfn);
        prefetch_index(&self.records, start + page);
    }

    /// Memory of the records, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.records[..])
    }
}

impl std::ops::Index<RecordIndex> for PageMap {
    type Output = PageRecord;
    #[inline]
    fn index(&self, index: RecordIndex) -> &PageRecord {
        &self.records[index.0]
    }
}

impl std::ops::IndexMut<RecordIndex> for PageMap {
    #[inline]
    fn index_mut(&mut self, index: RecordIndex) -> &mut PageRecord {
        &mut self.records[index.0]
    }
}
