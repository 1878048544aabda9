//! Huge pages: first page, order, and number of struct pages.
//!
//! ```text
//!   2 MiB   512 pages ─► 32 KiB of struct pages =    8 vmemmap pages: 1 stays,    7 can go
//!   1 GiB   2^18 pages ─► 16 MiB of struct pages = 4096 vmemmap pages: 1 stays, 4095 can go
//! ```
//!
//! In the kernel: `hugetlb_vmemmap_optimizable_size` in mm/hugetlb_vmemmap.h.

use crate::allocator::page::{MAX_PAGE_ORDER, Pfn};
use std::ops::Range;

/// Struct pages of 64 bytes that a page of 4096 bytes holds.
pub const STRUCT_PAGES_PER_PAGE: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// Page frame number of its first page.
    pub pfn: Pfn,
    /// log2 of its base pages.
    pub order: u8,
}

impl Folio {
    /// Number of base pages.
    pub fn pages(self) -> u64 {
        1 << self.order
    }

    /// The vmemmap pages that hold its struct pages, numbered from page 0 of memory.
    pub fn vmemmap(self) -> Range<u32> {
        let first = self.pfn / STRUCT_PAGES_PER_PAGE;
        first..first + vmemmap_pages(self.order)
    }
}

/// Whether huge pages of `order` are contiguous ranges, too large for the buddy allocator
/// (`hstate_is_gigantic`).
pub fn is_gigantic(order: u8) -> bool {
    order > MAX_PAGE_ORDER
}

/// Number of vmemmap pages of a huge page of `order`.
pub fn vmemmap_pages(order: u8) -> u32 {
    (1 << order) / STRUCT_PAGES_PER_PAGE
}

/// Whether a huge page of `order` has vmemmap pages that HVO can free.
pub fn is_optimizable(order: u8) -> bool {
    order > STRUCT_PAGES_PER_PAGE.ilog2() as u8
}
