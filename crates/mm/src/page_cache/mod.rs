//! The page cache: files in memory.

pub(crate) mod device_reads;
pub mod filemap;
pub mod prefetch;
pub mod readahead;
pub mod writeback;
pub mod xarray;

use crate::lru::folio::FolioId;
use crate::page_cache::readahead::Readahead;
use crate::page_cache::writeback::Writeback;
use crate::page_cache::xarray::{FileId, Files};

/// Files, which of their pages are mapped, their readahead and writeback.
#[derive(Clone, Debug, Default)]
pub struct PageCache {
    pub(crate) files: Files,
    readahead: Readahead,
    writeback: Writeback,
    /// Folios whose writing has begun.
    submitted_writes: Vec<FolioId>,
    /// Pages that have left the page cache, if somebody watches.
    removals: Option<Vec<(FileId, u32)>>,
}

impl PageCache {
    /// Folios whose writing began since this was last asked, for a device to write.
    pub fn take_submitted_writes(&mut self) -> Vec<FolioId> {
        std::mem::take(&mut self.submitted_writes)
    }

    /// The same, without taking them.
    pub(crate) fn submitted_writes(&self) -> &[FolioId] {
        &self.submitted_writes
    }
}
