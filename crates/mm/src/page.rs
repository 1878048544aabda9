//! Page numbers, orders, migrate types, and one small record for each page that was ever touched.
//!
//! ```text
//!   zone  │ 4 MiB │ 4 MiB │ 4 MiB │ ...        max-order areas; a record array (1024 pages) is made for an
//!         └───┬───┴───────┴───────┘            area when the first page of it leaves the untouched range,
//!             └─► [PageRecord; 1024]           so memory grows with what is used, not with the machine
//! ```
//!
//! A record holds what `struct page` holds for a free page (`include/linux/mm_types.h`): links, order, list
//! type. It also holds one thing that only hardware knows: which CPU's cache had the record's line last.

use machine::Cpu;

/// A page frame number. 32 bits reach 16 TiB.
pub type Pfn = u32;

/// No page.
pub const NO_PAGE: Pfn = Pfn::MAX;

/// Largest buddy block: 2^10 pages, 4 MiB (`MAX_PAGE_ORDER`).
pub const MAX_PAGE_ORDER: u8 = 10;
/// Number of orders.
pub const NR_PAGE_ORDERS: usize = MAX_PAGE_ORDER as usize + 1;
/// Pages of the largest block.
pub const MAX_ORDER_NR_PAGES: u32 = 1 << MAX_PAGE_ORDER;
/// Pageblocks carry a migrate type: 2^9 pages, the size of a huge page (`pageblock_order`).
pub const PAGEBLOCK_ORDER: u8 = 9;
/// Pages of a pageblock.
pub const PAGEBLOCK_NR_PAGES: u32 = 1 << PAGEBLOCK_ORDER;
/// Largest order that the allocator treats as cheap (`PAGE_ALLOC_COSTLY_ORDER`).
pub const COSTLY_ORDER: u8 = 3;

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

/// The records of a zone's pages, made on demand.
#[derive(Clone, Debug)]
pub struct PageMap {
    first_area: u32,
    slots: Vec<u32>,
    records: Vec<PageRecord>,
}

impl PageMap {
    const ABSENT: u32 = u32::MAX;

    /// For pages `start..end`; nothing is made yet.
    pub fn new(start: Pfn, end: Pfn) -> PageMap {
        let first_area = start >> MAX_PAGE_ORDER;
        let areas = (end.div_ceil(MAX_ORDER_NR_PAGES) - first_area) as usize;
        PageMap { first_area, slots: vec![Self::ABSENT; areas], records: Vec::new() }
    }

    /// Whether the area of `pfn` has records.
    #[inline]
    pub fn is_touched(&self, pfn: Pfn) -> bool {
        let area = ((pfn >> MAX_PAGE_ORDER) - self.first_area) as usize;
        self.slots.get(area).is_some_and(|&slot| slot != Self::ABSENT)
    }

    /// Makes the records of the area of `pfn` if it has none yet.
    pub fn touch(&mut self, pfn: Pfn) {
        let area = ((pfn >> MAX_PAGE_ORDER) - self.first_area) as usize;
        if self.slots[area] == Self::ABSENT {
            self.slots[area] = (self.records.len() >> MAX_PAGE_ORDER) as u32;
            self.records.resize(self.records.len() + MAX_ORDER_NR_PAGES as usize, PageRecord::UNTOUCHED);
        }
    }

    #[inline]
    fn index(&self, pfn: Pfn) -> usize {
        let slot = self.slots[((pfn >> MAX_PAGE_ORDER) - self.first_area) as usize];
        ((slot as usize) << MAX_PAGE_ORDER) | (pfn & (MAX_ORDER_NR_PAGES - 1)) as usize
    }

    /// The record of `pfn`, whose area must have been touched.
    #[inline]
    pub fn get(&self, pfn: Pfn) -> &PageRecord {
        &self.records[self.index(pfn)]
    }

    /// The record of `pfn`, whose area must have been touched.
    #[inline]
    pub fn get_mut(&mut self, pfn: Pfn) -> &mut PageRecord {
        let index = self.index(pfn);
        &mut self.records[index]
    }
}
