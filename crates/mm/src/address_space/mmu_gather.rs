//! What zapping has unmapped and frees together (`struct mmu_gather`).
//!
//! ```text
//!   zap PTEs ─► gathered ─► off the LRU lists, some folios each time the lock of a lruvec is taken ─► freed, in the order of the PTEs
//! ```
//!
//! In the kernel: `tlb_batch_pages_flush` in mm/mmu_gather.c, `release_pages` in mm/swap.c, since 6.9 `folios_put_refs` there.

use crate::allocator::page::Pfn;
use crate::lru::folio::LruvecId;

/// Folios that leave the lists of a lruvec each time its lock is taken: `SWAP_CLUSTER_MAX`; since 6.9 a batch of 31, which is taken to be
/// the same.
const PER_SECTION: usize = 32;

/// Unmapped pages that are not freed yet; empty between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct MmuGather {
    /// Order-0 pages.
    pages: Vec<Pfn>,
    /// The lruvec of the last folios, and how many of them have left its lists since its lock was held.
    on_list: Option<(LruvecId, usize)>,
}

impl MmuGather {
    /// Adds a page to those to be freed.
    #[inline]
    pub fn push(&mut self, pfn: Pfn) {
        self.pages.push(pfn);
    }

    /// Takes the pages to be freed.
    pub fn take_pages(&mut self) -> Vec<Pfn> {
        std::mem::take(&mut self.pages)
    }

    /// Takes the room for pages back, which is empty again.
    pub fn put_room(&mut self, pages: Vec<Pfn>) {
        self.pages = pages;
    }

    /// Notes that a folio leaves the lists of a lruvec. Returns how many have left those of which one, if the lock is held for them now: when
    /// they are as many as leave at a time, or the next lruvec is another.
    #[inline]
    #[must_use]
    pub fn leave_list(&mut self, lruvec: LruvecId) -> Option<(LruvecId, usize)> {
        match self.on_list {
            Some((last, _)) if last != lruvec => self.on_list.replace((lruvec, 1)),
            Some((_, folios)) if folios + 1 == PER_SECTION => {
                self.on_list = None;
                Some((lruvec, PER_SECTION))
            }
            Some((_, folios)) => {
                self.on_list = Some((lruvec, folios + 1));
                None
            }
            None => {
                self.on_list = Some((lruvec, 1));
                None
            }
        }
    }

    /// Takes those that have left a lruvec's lists since its lock was held.
    pub fn take_left(&mut self) -> Option<(LruvecId, usize)> {
        self.on_list.take()
    }
}
