//! Writing dirty pages of files back to their devices.
//!
//! ```text
//!   write ─► dirty, in the order of writing ─► background limit, or reclaim meets one ─► under writeback ─► clean
//! ```
//!
//! Limits are shares of what could be page cache: free pages and pages of files. Writers are not made to wait
//! (`balance_dirty_pages`), and dirty pages have no age. In the kernel: mm/page-writeback.c, fs/fs-writeback.c.

use crate::folio::{Census, FolioFlags, FolioId};
use crate::page_alloc::MemoryManager;
use std::collections::VecDeque;

/// `vm.dirty_background_ratio`, its default: per cent of what could be page cache, above which a flusher runs.
const DIRTY_BACKGROUND_RATIO: u64 = 10;

/// Dirty pages of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyPages {
    /// In the order in which they became dirty.
    queue: VecDeque<FolioId>,
    /// How many pages they have.
    pages: u64,
    /// Reclaim has met dirty pages that nobody is writing.
    woken: bool,
}

impl MemoryManager {
    /// Notes that a page of a file differs from its device.
    pub(crate) fn mark_dirty(&mut self, id: FolioId) {
        let flags = &mut self.folios.flags[id];
        if !flags.has(FolioFlags::DIRTY) {
            flags.set(FolioFlags::DIRTY);
            self.dirty_pages.pages += flags.nr_pages();
            self.dirty_pages.queue.push_back(id);
        }
    }

    /// Dirty pages of files (`nr_dirty`).
    pub fn nr_dirty(&self) -> u64 {
        self.dirty_pages.pages
    }

    /// Has a flusher run: reclaim meets nothing but dirty pages (`wakeup_flusher_threads`).
    pub(crate) fn wake_flusher(&mut self) {
        self.dirty_pages.woken = true;
    }

    /// Whether a flusher has something to do.
    pub fn wants_writeback(&self) -> bool {
        let dirty = self.nr_dirty();
        if dirty == 0 {
            return false;
        }
        let could_be = self.free_pages() + self.files.nr_folios();
        self.dirty_pages.woken || dirty * 100 > could_be * DIRTY_BACKGROUND_RATIO
    }

    /// Begins to write up to `most` pages, the oldest first; [`MemoryManager::take_submitted_writes`] has them. What was
    /// written to again while it is under way stays dirty until that has ended.
    pub fn write_back(&mut self, most: u64) {
        let mut looked_at = 0;
        for _ in 0..self.dirty_pages.queue.len() {
            if looked_at >= most {
                break;
            }
            let Some(id) = self.dirty_pages.queue.pop_front() else { break };
            let flags = &mut self.folios.flags[id];
            looked_at += flags.nr_pages();
            if flags.has(FolioFlags::WRITEBACK) {
                self.dirty_pages.queue.push_back(id);
                continue;
            }
            flags.clear(FolioFlags::DIRTY);
            flags.set(FolioFlags::WRITEBACK);
            self.dirty_pages.pages -= flags.nr_pages();
            self.submitted_writes.push(id);
            self.folio_mkclean(id);
        }
        self.dirty_pages.woken = false;
    }

    /// Checks that dirty pages of files are those in the queue; panics if not.
    pub(crate) fn validate_dirty_pages(&self, census: &Census) {
        let mut queued: Vec<FolioId> = self.dirty_pages.queue.iter().copied().collect();
        queued.sort();
        let is_dirty = |id: FolioId| {
            let flags = self.folios.flags[id];
            flags.has(FolioFlags::DIRTY) && !flags.has(FolioFlags::SWAPBACKED)
        };
        let dirty: Vec<FolioId> =
            census.all(&self.folios).map(|(id, _)| id).filter(|&id| is_dirty(id)).collect();
        assert_eq!(queued, dirty, "dirty pages of files wait to be written, each once");
        let pages: u64 = dirty.iter().map(|&id| self.folios.flags[id].nr_pages()).sum();
        assert_eq!(self.nr_dirty(), pages, "nr_dirty");
    }
}
