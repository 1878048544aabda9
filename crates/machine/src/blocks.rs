//! Blocks of memory: what clearing, using and translating them costs by their size.
//!
//! ```text
//!   clearing    ▪▪▪▪ first-level cache ▪▪▪▪▪▪▪▪▪▪▪▪ second level ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪ last level or memory
//!               0               clear_l1_kib                clear_l2_kib
//!
//!   using it    what was cleared into a farther cache comes back from there, the first time a program reads it
//!
//!   translating a run of pages that lie one after the other takes one entry of the translation cache:
//!               as many as hardware sees by itself, or as many as the kernel has marked (arm64's contiguous bit)
//! ```
//!
//! A small block that is cleared is in the cache when the program goes on. Of a large one most is not: it has pushed out what
//! came before, or cores let long runs of stores pass their caches (write streaming). So a page of a large block can cost
//! more than a page that is cleared alone, though it saves a fault.
//!
//! Which pages are hot is not known here. That misses fall with the square root of a cache's size, as caches of many kinds do
//! (Hartstein, Srinivasan, Puzak, Emma: "On the nature of cache miss behavior: is it sqrt 2?", JILP 10, 2008), is taken to hold
//! for translations: half as many to keep is twice the cache.

use crate::costs::Costs;
use crate::time::Time;

/// What the size of a block changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockCosts {
    /// Parts of 4 KiB that a page has.
    pub page_parts: u64,
    /// Parts at the start of a long clearing that stay in the first-level cache.
    pub clear_l1_parts: u64,
    /// Parts until which they stay in the second level.
    pub clear_l2_parts: u64,
    /// Clearing a page that goes to the second level.
    pub page_clear_l2: Time,
    /// Clearing a page that goes farther.
    pub page_clear_llc: Time,
    /// What reading a page for the first time takes longer where the second level has it.
    pub page_use_l2: Time,
    /// The same where it is farther away.
    pub page_use_llc: Time,
    /// Each page of a block after the first in a page fault: its entry, its struct page, its share of the counters.
    pub further_page: Time,
    /// The same where a block is unmapped, each page on its own.
    pub further_unmap: Time,
    /// The same where all its pages are unmapped at once.
    pub further_unmap_at_once: Time,
    /// Translations that a CPU keeps, in the last level of its translation cache.
    pub tlb_entries: u64,
    /// One walk of the page table.
    pub tlb_walk: Time,
    /// Pages one after the other that hardware keeps as one translation without being told; 1 for none.
    pub tlb_run_pages: u64,
    /// Pages of one translation where the kernel marks them; 1 where there is no such mark.
    pub tlb_contiguous_pages: u64,
}

/// What each page of a block after the first costs when the block is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FurtherUnmaps {
    /// Taken out of the page table and the block's counts on its own.
    pub one_by_one: Time,
    /// With the first.
    pub at_once: Time,
    /// One entry of a page table being that of the whole block.
    pub huge: Time,
}

impl BlockCosts {
    /// How many parts of a block end up in the first level, in the second, and beyond.
    fn levels(&self, parts: u64) -> [u64; 3] {
        let first = parts.min(self.clear_l1_parts);
        let second = parts.min(self.clear_l2_parts).saturating_sub(first);
        [first, second, parts - first - second]
    }

    /// Clearing a block, given what its first page costs, as a page alone does.
    fn clear(&self, page_clear: Time, pages: u64) -> Time {
        let (all, alone) = (self.levels(pages * self.page_parts), self.levels(self.page_parts));
        let [first, second, beyond] = std::array::from_fn(|level| all[level] - alone[level]);
        let others = page_clear * first + self.page_clear_l2 * second + self.page_clear_llc * beyond;
        page_clear + others.fraction(1, self.page_parts)
    }

    /// What the first use of a part takes longer that was cleared with its block of `pages`, on average. The part that
    /// faulted is cleared last and used at once; it is not meant.
    fn first_use(&self, pages: u64) -> Time {
        let parts = pages * self.page_parts;
        let [_, second, beyond] = self.levels(parts);
        let others = self.page_use_l2 * second + self.page_use_llc * beyond;
        others.fraction(1, parts.saturating_sub(1).max(1) * self.page_parts)
    }

    /// Entries that translations of `pages` pages take, in blocks of `block` pages; `marked` says that the kernel marks
    /// blocks that are large enough.
    pub fn translations(&self, pages: u64, block: u64, marked: bool) -> u64 {
        let mark = if marked { self.tlb_contiguous_pages } else { 1 };
        let run = if block >= mark { mark.max(self.tlb_run_pages) } else { self.tlb_run_pages };
        pages.div_ceil(run.min(block).max(1))
    }

    /// How many misses are left where `translations` do what `single` did: none if there are entries for all.
    pub fn misses_left(&self, translations: u64, single: u64) -> f64 {
        match translations {
            few if few <= self.tlb_entries => 0.0,
            many => (many as f64 / single.max(1) as f64).sqrt(),
        }
    }
}

impl Costs {
    /// Clearing a block of so many pages.
    #[inline]
    pub fn clear(&self, pages: u64) -> Time {
        match &self.blocks {
            Some(blocks) if pages > 1 => blocks.clear(self.page_clear, pages),
            _ => self.page_clear * pages,
        }
    }

    /// What the first use of 4 KiB takes longer that were cleared with others, `pages` in all.
    #[inline]
    pub fn first_use(&self, pages: u64) -> Time {
        self.blocks.as_ref().map_or(Time::ZERO, |blocks| blocks.first_use(pages))
    }

    /// What so many pages of one block cost in a page fault, beyond a single one.
    #[inline]
    pub fn further_pages(&self, pages: u64) -> Time {
        self.blocks.map_or(Time::ZERO, |blocks| blocks.further_page * pages.saturating_sub(1))
    }

    /// What unmapping a block costs beyond its first page, for which it is [`Costs::page_unmap`].
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
