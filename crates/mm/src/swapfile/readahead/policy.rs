//! How much of swap to read in a fault.
//!
//! ```text
//!   hits since last miss    0, not next to it: 1   0, next to it: 2   1 and 2: 4   3 to 6: 8   more: 16, 32
//!                           at least half of the last window, at most 2^page-cluster
//!
//!   by address      last miss one page before: from here on   one page behind: up to here   otherwise: around
//!   by entry        the aligned block of entries
//! ```
//!
//! Pure functions. In the kernel: `__swapin_nr_pages`, `swap_vma_ra_win` (`swap_ra_info` before 6.13),
//! `swapin_nr_pages` in mm/swap_state.c. The tests compare with recordings of 6.18.44.

use std::ops::Range;

/// Largest order of a window by address, whatever `vm.page-cluster` says (`SWAP_RA_ORDER_CEILING`).
const ORDER_CEILING: u64 = 5;

/// The most hits that are counted by address (`SWAP_RA_HITS_MAX`).
const MOST_HITS: u32 = 63;

/// The history of swap readahead: of each VMA by address (`swap_readahead_info`), of all swap by entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapRa {
    /// The last miss: a page of the address space, or an entry.
    pub at: u64,
    /// Pages of the last window.
    pub window: u32,
    /// Pages read ahead that faults have found since.
    pub hits: u32,
}

impl Default for SwapRa {
    /// Begins as if four pages read ahead had been found.
    fn default() -> Self {
        SwapRa { at: 0, window: 0, hits: 4 }
    }
}

/// Length of the window for a miss at `at`; `most` is a power of two (`__swapin_nr_pages`).
pub fn nr_pages(ra: &SwapRa, at: u64, most: u32) -> u32 {
    let wanted = match ra.hits {
        0 if at == ra.at + 1 || at + 1 == ra.at => 2,
        0 => 1,
        hits => (hits + 2).next_power_of_two().max(4),
    };
    wanted.min(most).max(ra.window / 2)
}

impl SwapRa {
    /// Decides which pages to read for a miss on `page`. `page_cluster` is `vm.page-cluster`; `within` is the
    /// part of the VMA that is in the same page table.
    pub fn on_miss_of_page(&mut self, page: u64, page_cluster: u64, within: Range<u64>) -> Range<u64> {
        let most = 1 << page_cluster.min(ORDER_CEILING);
        if most == 1 {
            return page..page + 1;
        }
        let last = self.at;
        let window = nr_pages(self, page, most);
        *self = SwapRa { at: page, window, hits: 0 };
        let pages = u64::from(window);
        let before = match page {
            _ if page == last + 1 => 0,
            _ if page + 1 == last => pages - 1,
            _ => (pages - 1) / 2,
        };
        let (start, end) = (page.saturating_sub(before), page + pages - before);
        start.max(within.start)..end.min(within.end)
    }

    /// Decides which entries to read for a miss on `entry`.
    pub fn on_miss_of_entry(&mut self, entry: u64, page_cluster: u64) -> Range<u64> {
        let most = 1 << page_cluster.min(31);
        if most == 1 {
            return entry..entry + 1;
        }
        let window = nr_pages(self, entry, most);
        if self.hits == 0 {
            self.at = entry;
        }
        (self.window, self.hits) = (window, 0);
        let start = entry - entry % u64::from(window);
        start..start + u64::from(window)
    }

    /// Notes that a fault found `page` in the swap cache. `ahead` says whether it was read ahead and this is
    /// the first fault on it.
    pub fn on_hit_of_page(&mut self, page: u64, ahead: bool) {
        self.at = page;
        self.hits = (self.hits + u32::from(ahead)).min(MOST_HITS);
    }

    /// Notes that a fault found an entry that was read ahead.
    pub fn on_hit_of_entry(&mut self) {
        self.hits += 1;
    }
}
