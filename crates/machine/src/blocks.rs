//! Costs of clearing, using and translating blocks of memory, by block size.
//!
//! ```text
//!   clearing    ▪▪▪▪ first-level cache ▪▪▪▪▪▪▪▪▪▪▪▪ second level ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪ last level or memory
//!               0               clear_l1_kib                clear_l2_kib
//!
//!   using it    the first read of a page fetches it from the cache level that it was cleared into
//!
//!   translating a run of consecutive pages takes one TLB entry:
//!               as many as hardware coalesces by itself, or as many as the kernel has marked (arm64's contiguous bit)
//! ```
//!
//! A small block is still in the cache after it was cleared. Most of a large one is not: it evicted what came
//! before, or the core let long runs of stores bypass its caches (write streaming). So a page of a large
//! block can cost more than one that is cleared alone, although it saves a fault.
//!
//! The model does not know which pages are hot. It assumes for translations what holds for caches of many
//! kinds, that misses fall with the square root of the size (Hartstein, Srinivasan, Puzak, Emma: "On the
//! nature of cache miss behavior: is it sqrt 2?", JILP 10, 2008): half as many translations count like twice
//! the TLB.

use crate::costs::Costs;
use crate::time::Time;

/// Costs that depend on the block size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockCosts {
    /// 4 KiB parts of a page.
    pub page_parts: u64,
    /// Parts at the start of a long clearing that stay in the L1 cache.
    pub clear_l1_parts: u64,
    /// Parts up to which they stay in the L2 cache.
    pub clear_l2_parts: u64,
    /// Clearing a page that ends up in the L2 cache.
    pub page_clear_l2: Time,
    /// Clearing a page that ends up beyond the L2 cache.
    pub page_clear_llc: Time,
    /// Extra time for the first read of a page that is in the L2 cache.
    pub page_use_l2: Time,
    /// Extra time for the first read of a page that is beyond the L2 cache.
    pub page_use_llc: Time,
    /// Each page of a block after the first in a page fault: its PTE, its struct page, its share of the
    /// counters.
    pub further_page: Time,
    /// Each page of a block after the first when it is unmapped by itself.
    pub further_unmap: Time,
    /// Each page of a block after the first when all are unmapped in one batch.
    pub further_unmap_at_once: Time,
    /// Entries of the last-level TLB.
    pub tlb_entries: u64,
    /// One page-table walk.
    pub tlb_walk: Time,
    /// Consecutive pages that hardware coalesces into one TLB entry by itself; 1 for none.
    pub tlb_run_pages: u64,
    /// Pages of one TLB entry if the kernel marks them as contiguous; 1 if there is no such mark.
    pub tlb_contiguous_pages: u64,
}

/// Cost of each page of a block after the first when the block is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FurtherUnmaps {
    /// Removed from the page table and the block's mapcounts by itself.
    pub one_by_one: Time,
    /// Removed in one batch with the first page.
    pub at_once: Time,
    /// In a block that one PMD entry maps.
    pub huge: Time,
}

impl BlockCosts {
    /// Number of parts of a block that end up in the L1 cache, in the L2 cache, and beyond.
    fn levels(&self, parts: u64) -> [u64; 3] {
        let first = parts.min(self.clear_l1_parts);
        let second = parts.min(self.clear_l2_parts).saturating_sub(first);
        [first, second, parts - first - second]
    }

    /// Cost of clearing a block. `page_clear` is that of its first page, as for a page alone.
    fn clear(&self, page_clear: Time, pages: u64) -> Time {
        let (all, alone) = (self.levels(pages * self.page_parts), self.levels(self.page_parts));
        let [first, second, beyond] = std::array::from_fn(|level| all[level] - alone[level]);
        let others = page_clear * first + self.page_clear_l2 * second + self.page_clear_llc * beyond;
        page_clear + others.fraction(1, self.page_parts)
    }

    /// Average extra time for the first use of a part that was cleared with its block of `pages` pages. The
    /// part that faulted is excluded: it is cleared last and used at once.
    fn first_use(&self, pages: u64) -> Time {
        let parts = pages * self.page_parts;
        let [_, second, beyond] = self.levels(parts);
        let others = self.page_use_l2 * second + self.page_use_llc * beyond;
        others.fraction(1, parts.saturating_sub(1).max(1) * self.page_parts)
    }

    /// TLB entries for `pages` pages in blocks of `block` pages. `marked`: the kernel marks blocks that are
    /// large enough as contiguous.
    pub fn translations(&self, pages: u64, block: u64, marked: bool) -> u64 {
        let mark = if marked { self.tlb_contiguous_pages } else { 1 };
        let run = if block >= mark { mark.max(self.tlb_run_pages) } else { self.tlb_run_pages };
        pages.div_ceil(run.min(block).max(1))
    }

    /// Share of misses left if `translations` TLB entries replace `single` ones; 0 if the TLB has room for
    /// all.
    pub fn misses_left(&self, translations: u64, single: u64) -> f64 {
        match translations {
            few if few <= self.tlb_entries => 0.0,
            many => (many as f64 / single.max(1) as f64).sqrt(),
        }
    }
}

impl Costs {
    /// Cost of clearing a block of `pages` pages.
    #[inline]
    pub fn clear(&self, pages: u64) -> Time {
        match &self.blocks {
            Some(blocks) if pages > 1 => blocks.clear(self.page_clear, pages),
            _ => self.page_clear * pages,
        }
    }

    /// Extra time for the first use of 4 KiB that were cleared with a block of `pages` pages.
    #[inline]
    pub fn first_use(&self, pages: u64) -> Time {
        self.blocks.as_ref().map_or(Time::ZERO, |blocks| blocks.first_use(pages))
    }

    /// Cost of a page fault that maps a block of `pages` pages, beyond that of a single page.
    #[inline]
    pub fn further_pages(&self, pages: u64) -> Time {
        self.blocks.map_or(Time::ZERO, |blocks| blocks.further_page * pages.saturating_sub(1))
    }

    /// Cost of unmapping a block beyond its first page, which costs [`Costs::page_unmap`].
    #[inline]
    pub fn unmap_further(&self) -> FurtherUnmaps {
        let alone = self.page_unmap;
        match &self.blocks {
            None => FurtherUnmaps { one_by_one: alone, at_once: alone, huge: alone },
            Some(blocks) => FurtherUnmaps {
                one_by_one: blocks.further_unmap,
                at_once: blocks.further_unmap_at_once,
                huge: self.struct_page_free,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Time = Time::from_nanoseconds;

    fn costs() -> Costs {
        let blocks = BlockCosts {
            page_parts: 1,
            clear_l1_parts: 1,
            clear_l2_parts: 4,
            page_clear_l2: NS(110),
            page_clear_llc: NS(200),
            page_use_l2: NS(60),
            page_use_llc: NS(300),
            further_page: NS(30),
            further_unmap: NS(90),
            further_unmap_at_once: NS(40),
            tlb_entries: 100,
            tlb_walk: NS(20),
            tlb_run_pages: 4,
            tlb_contiguous_pages: 16,
        };
        Costs { page_clear: NS(100), blocks: Some(blocks), ..Costs::FREE }
    }

    #[test]
    fn pages_of_large_blocks_are_dearer() {
        let costs = costs();
        assert_eq!(costs.clear(1), NS(100));
        assert_eq!(costs.clear(4), NS(100 + 3 * 110));
        assert_eq!(costs.clear(16), NS(100 + 3 * 110 + 12 * 200));
        assert_eq!((costs.first_use(1), costs.first_use(4)), (Time::ZERO, NS(60)));
        assert_eq!(costs.first_use(16), NS((3 * 60 + 12 * 300) / 15));
        assert_eq!((costs.further_pages(1), costs.further_pages(8)), (Time::ZERO, NS(210)));
        let plain = Costs { blocks: None, ..costs };
        assert_eq!((plain.clear(16), plain.first_use(16)), (NS(1600), Time::ZERO));
    }

    #[test]
    fn a_block_is_unmapped_for_less_than_its_pages() {
        let costs = Costs { page_unmap: NS(220), struct_page_free: NS(10), ..costs() };
        let further = |costs: &Costs| {
            let FurtherUnmaps { one_by_one, at_once, huge } = costs.unmap_further();
            [one_by_one, at_once, huge]
        };
        assert_eq!(further(&costs), [90, 40, 10].map(NS));
        assert_eq!(further(&Costs { blocks: None, ..costs }), [NS(220); 3]);
    }

    #[test]
    fn larger_pages_follow_the_same_curve() {
        let small = costs();
        for page_parts in [4, 16] {
            let blocks = small.blocks.unwrap();
            let [l2, llc] = [blocks.page_clear_l2, blocks.page_clear_llc].map(|cost| cost * page_parts);
            let [use_l2, use_llc] = [blocks.page_use_l2, blocks.page_use_llc].map(|cost| cost * page_parts);
            let (page_clear_l2, page_clear_llc, page_use_l2, page_use_llc) = (l2, llc, use_l2, use_llc);
            let blocks =
                BlockCosts { page_parts, page_clear_l2, page_clear_llc, page_use_l2, page_use_llc, ..blocks };
            let large = Costs { page_clear: small.clear(page_parts), blocks: Some(blocks), ..Costs::FREE };
            for pages in [1, 2, 8] {
                let parts = pages * page_parts;
                assert_eq!(large.clear(pages), small.clear(parts), "{pages} of {page_parts}");
                assert_eq!(large.first_use(pages), small.first_use(parts), "{pages} of {page_parts}");
            }
        }
    }

    #[test]
    fn runs_share_a_translation() {
        let blocks = costs().blocks.unwrap();
        let of = |block, marked| blocks.translations(64, block, marked);
        assert_eq!([1, 2, 4, 8, 16, 512].map(|block| of(block, false)), [64, 32, 16, 16, 16, 16]);
        assert_eq!([1, 2, 4, 8, 16, 512].map(|block| of(block, true)), [64, 32, 16, 16, 4, 4]);
        assert_eq!(blocks.translations(1, 16, true), 1);
        assert_eq!([0, 100, 400].map(|few| blocks.misses_left(few, 1600)), [0.0, 0.0, 0.5]);
    }
}
