//! The part of the buddy allocator that compaction uses: inspecting pageblocks, and isolating their free
//! blocks.
//!
//! While a page is in use its record needs no list links, so the `next` link holds the number of the folio
//! that begins there (as `struct page` is the folio). It is never cleared: a reader must check with the folio
//! whether it is still there.

use super::{Buddy, Visit};
use crate::allocator::page::{Geometry, MigrateType, NO_PAGE, PageRecord, Pfn};

impl Buddy {
    /// Records the folio that begins at `pfn`, a page in use.
    #[inline(always)]
    pub(crate) fn set_user(&mut self, pfn: Pfn, folio: u32) {
        let index = match self.geometry.block_start(pfn) == pfn {
            true => self.pages.index(pfn),
            false => self.pages.split(pfn),
        };
        self.pages[index].next = folio;
    }

    /// The folio that begins at `pfn`, or that once did.
    pub(crate) fn user(&self, pfn: Pfn) -> Option<u32> {
        let record = self.pages.get(pfn);
        (record.order == PageRecord::NOT_FREE && record.next != NO_PAGE).then_some(record.next)
    }

    /// The order of the free block that begins at `pfn`, if one does.
    pub(crate) fn free_order(&self, pfn: Pfn) -> Option<u8> {
        let order = self.pages.get(pfn).order;
        (order != PageRecord::NOT_FREE).then_some(order)
    }

    /// Whether `pfn`'s pageblock is free as a whole, in one block.
    pub(crate) fn is_block_free(&self, pfn: Pfn) -> bool {
        let Geometry { max_page_order, pageblock_order, .. } = self.geometry;
        let start = self.geometry.block_start(pfn);
        let begins = |start: Pfn, order: u8| {
            self.span.contains(&start) && self.free_order(start).is_some_and(|free| free >= order)
        };
        let largest = start >> max_page_order << max_page_order;
        begins(start, pageblock_order) || begins(largest, max_page_order) || self.is_untouched(start)
    }

    /// Notes that a block that is in use, a pageblock or more of it, stays so to the end. Compaction then looks at its first page alone,
    /// as at any compound page.
    pub(crate) fn keep_compound(&mut self, pfn: Pfn, order: u8) {
        let first = self.block_index(pfn);
        self.compound_blocks.resize(self.block_types.len(), false);
        self.compound_blocks[first..first + (1 << (order - self.geometry.pageblock_order))].fill(true);
    }

    /// Whether `pfn`'s pageblock is part of a block that stays in use.
    pub(crate) fn is_compound(&self, pfn: Pfn) -> bool {
        self.compound_blocks.get(self.block_index(pfn)).copied().unwrap_or_default()
    }

    /// Whether compaction passes over `pfn`'s pageblock (`get_pageblock_skip`).
    pub(crate) fn is_block_skipped(&self, pfn: Pfn) -> bool {
        self.skipped_blocks.get(self.block_index(pfn)).copied().unwrap_or_default()
    }

    /// Makes compaction pass over `pfn`'s pageblock (`set_pageblock_skip`).
    pub(crate) fn skip_block(&mut self, pfn: Pfn) {
        let block = self.block_index(pfn);
        self.skipped_blocks.resize(self.block_types.len(), false);
        self.skipped_blocks[block] = true;
    }

    /// Makes compaction look at `pfn`'s pageblock again (`clear_pageblock_skip`).
    pub(crate) fn look_at_block(&mut self, pfn: Pfn) {
        let block = self.block_index(pfn);
        self.skipped_blocks[block] = false;
    }

    /// Whether a movable block of `order` or larger is free.
    pub(crate) fn has_movable_block(&self, order: u8) -> bool {
        (order..=self.geometry.max_page_order).any(|o| self.nr_free_of(o, MigrateType::Movable) > 0)
    }

    /// Takes all free blocks of the pageblock at `start` off their lists.
    pub(crate) fn isolate_block(&mut self, start: Pfn, visit: &mut Visit) -> Vec<(Pfn, u8)> {
        let mut taken = Vec::new();
        let mut pfn = start;
        while pfn < start + self.geometry.pageblock_nr_pages() && self.span.contains(&pfn) {
            let Some(order) = self.free_order(pfn) else {
                pfn += 1;
                continue;
            };
            self.unlink(pfn);
            visit.write(self.pages.get_mut(pfn));
            taken.push((pfn, order));
            pfn += 1 << order;
        }
        taken
    }
}
