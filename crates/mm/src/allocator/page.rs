//! Page numbers, orders, migrate types, and small records of pages.
//!
//! ```text
//!   zone     │ 2 MiB │ 2 MiB │ 2 MiB │ ...     pageblocks
//!   starts   │   ●   │   ●   │   ●   │         where the records of each pageblock start
//!                │       └───────┼─────────────────┐
//!   records  [ head  │ head  │ head  │ ... ┊ head + 511 inner │ ... ]
//! ```
//!
//! Every pageblock has a record of its head. Its 511 inner pages have records only once the pageblock has been
//! split, so that huge pages cost one record each and memory grows with what is used, not with the machine.
//! Inner pages without records read as untouched: nobody had their lines, and none of them heads a free block.
//!
//! A record holds what `struct page` holds for a free page (`include/linux/mm_types.h`): links, order, list
//! type. It also holds one thing that only hardware knows: which CPU's cache had the record's line last.

use crate::vec_growth;
use machine::{Cpu, PageSize};
use prefetch_index::prefetch_index;

/// A page frame number. 32 bits reach 16 TiB.
pub type Pfn = u32;

/// No page.
pub const NO_PAGE: Pfn = Pfn::MAX;

/// Room for the orders of any [`Geometry`].
pub const NR_PAGE_ORDERS: usize = 14;
/// Largest buddy block of kernels with pages of 4 KiB, whose traces are recorded: 4 MiB (`MAX_PAGE_ORDER`).
pub const MAX_PAGE_ORDER: u8 = Geometry::of(PageSize::Kib4).max_page_order;
/// The order of their pageblocks, 2 MiB (`pageblock_order`).
pub const PAGEBLOCK_ORDER: u8 = Geometry::of(PageSize::Kib4).pageblock_order;
/// The order of their huge pages, 2 MiB (`HPAGE_PMD_ORDER`).
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
    /// The size of a page.
    pub page_size: PageSize,
    /// Largest buddy block (`MAX_PAGE_ORDER`).
    pub max_page_order: u8,
    /// Pages of a page table: as many as entries of 8 bytes fill a page. An entry of the level above it maps as many by
    /// itself, a huge page (`HPAGE_PMD_ORDER`).
    pub pmd_order: u8,
    /// Pageblocks carry a migrate type (`pageblock_order`): the smaller of the two.
    pub pageblock_order: u8,
}

impl Geometry {
    /// That of kernels with pages of this size.
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

    /// Pages of the largest block.
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

    /// Pages of a pageblock.
    #[inline]
    pub const fn pageblock_nr_pages(self) -> u32 {
        1 << self.pageblock_order
    }

    /// The first page of the pageblock of `pfn`.
    #[inline]
    pub const fn block_start(self, pfn: Pfn) -> Pfn {
        pfn >> self.pageblock_order << self.pageblock_order
    }
}

/// What a pageblock or an allocation is for (`enum migratetype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory that stays where it is.
    Unmovable = 0,
    /// User memory and page cache.
    Movable = 1,
    /// Caches the kernel can shrink.
    Reclaimable = 2,
    /// Set aside for atomic high-order requests.
    HighAtomic = 3,
}

impl MigrateType {
    /// All types.
    pub const ALL: [MigrateType; 4] =
        [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable, MigrateType::HighAtomic];
    /// How many types there are.
    pub const COUNT: usize = 4;
    /// How many of them have per-CPU lists (`MIGRATE_PCPTYPES`).
    pub const PCP_TYPES: usize = 3;

    /// From the kernel's number.
    pub fn from_number(number: u8) -> Option<MigrateType> {
        Self::ALL.get(number as usize).copied()
    }

    /// Whether blocks of this type may merge with blocks of other types.
    pub fn is_mergeable(self) -> bool {
        (self as usize) < Self::PCP_TYPES
    }

    /// The type whose per-CPU list takes a freed page of this type.
    #[inline]
    pub fn pcp_type(self) -> MigrateType {
        if self == MigrateType::HighAtomic { MigrateType::Movable } else { self }
    }

    /// The name that /proc/pagetypeinfo prints.
    pub fn name(self) -> &'static str {
        ["Unmovable", "Movable", "Reclaimable", "HighAtomic"][self as usize]
    }
}

/// One page, while it is free; `order` tells whether it heads a free block.
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
    /// The migrate type of the list that it is on.
    pub list_type: MigrateType,
}

impl PageRecord {
    /// The page does not head a free block.
    pub const NOT_FREE: u8 = u8::MAX;

    const UNTOUCHED: PageRecord = PageRecord {
        next: NO_PAGE,
        prev: NO_PAGE,
        line_owner: Cpu(u16::MAX),
        order: PageRecord::NOT_FREE,
        list_type: MigrateType::Movable,
    };

    /// The CPU that had the line last, if any had.
    #[inline]
    pub fn cached_by(&self) -> Option<Cpu> {
        (self.line_owner.0 != u16::MAX).then_some(self.line_owner)
    }
}

/// Where the record of a page is, until more are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordIndex(usize);

/// The records of a zone's pages.
#[derive(Clone, Debug)]
pub struct PageMap {
    pageblock_order: u8,
    first_block: u32,
    /// For each pageblock, the index of its head's record; behind it come the inner pages' if there are any.
    starts: Vec<u32>,
    /// One record a pageblock, then one a page for each pageblock that was split.
    records: Vec<PageRecord>,
}

impl PageMap {
    /// For pages `start..end`; only pageblock heads have records yet.
    pub fn new(geometry: Geometry, start: Pfn, end: Pfn) -> PageMap {
        let pageblock_order = geometry.pageblock_order;
        let first_block = start >> pageblock_order;
        let blocks = end.div_ceil(geometry.pageblock_nr_pages()) - first_block;
        let records = vec![PageRecord::UNTOUCHED; blocks as usize];
        PageMap { pageblock_order, first_block, starts: (0..blocks).collect(), records }
    }

    /// Where the records of the pageblock of `pfn` start, and which of its pages `pfn` is.
    #[inline]
    fn place(&self, pfn: Pfn) -> (usize, usize) {
        let start = self.starts[((pfn >> self.pageblock_order) - self.first_block) as usize];
        (start as usize, (pfn & ((1 << self.pageblock_order) - 1)) as usize)
    }

    /// Makes the records of the inner pages of the pageblock of `pfn` if it has none yet; where the record of `pfn` is.
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

    /// The record of `pfn`.
    #[inline]
    pub fn get(&self, pfn: Pfn) -> &PageRecord {
        let (start, page) = self.place(pfn);
        if page != 0 && start < self.starts.len() {
            &PageRecord::UNTOUCHED
        } else {
            &self.records[start + page]
        }
    }

    /// Where the record of `pfn` is, which heads its pageblock or is in one that was split.
    #[inline]
    pub fn index(&self, pfn: Pfn) -> RecordIndex {
        let (start, page) = self.place(pfn);
        debug_assert!(page == 0 || start >= self.starts.len(), "page {pfn} has no record of its own");
        RecordIndex(start + page)
    }

    /// The same of `other`, that of `pfn` being known, which saves looking for it if both are in one pageblock.
    #[inline]
    pub fn index_beside(&self, (pfn, index): (Pfn, RecordIndex), other: Pfn) -> RecordIndex {
        if (pfn ^ other) >> self.pageblock_order == 0 {
            RecordIndex(index.0 + other as usize - pfn as usize)
        } else {
            self.index(other)
        }
    }

    /// The record of `pfn`, which heads its pageblock or is in one that was split.
    #[inline]
    pub fn get_mut(&mut self, pfn: Pfn) -> &mut PageRecord {
        let index = self.index(pfn);
        &mut self[index]
    }

    /// The records of so many pages from that at `index` on, all in one pageblock.
    #[inline]
    pub fn run_mut(&mut self, index: RecordIndex, pages: usize) -> &mut [PageRecord] {
        &mut self.records[index.0..index.0 + pages]
    }

    /// Has the record of `pfn` fetched from memory ahead of its use.
    #[inline]
    pub fn prefetch(&self, pfn: Pfn) {
        let (start, page) = self.place(pfn);
        prefetch_index(&self.records, start + page);
    }

    /// Bytes that the records take.
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
