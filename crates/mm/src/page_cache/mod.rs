//! The page cache: pages of files in memory, their readahead and their writeback.

pub(crate) mod device_reads;
pub(crate) mod drop_caches;
pub mod filemap;
pub mod policy;
pub mod prefetch;
pub mod readahead;
pub mod writeback;
pub mod xarray;

use crate::lru::folio::FolioId;
use crate::page_cache::readahead::Readahead;
use crate::page_cache::writeback::Writeback;
use crate::page_cache::xarray::{FileId, Files};

/// The state of the page cache.
#[derive(Clone, Debug, Default)]
pub struct PageCache {
    pub(crate) files: Files,
    readahead: Readahead,
    writeback: Writeback,
    /// Folios whose writeback has begun and that no device has taken yet.
    submitted_writes: Vec<FolioId>,
    /// Pages that have left the page cache, if somebody watches removals.
    removals: Option<Vec<(FileId, u32)>>,
}

impl PageCache {
    /// Returns the folios whose writeback has begun since the last call, for a device to write.
    pub fn take_submitted_writes(&mut self) -> Vec<FolioId> {
        std::mem::take(&mut self.submitted_writes)
    }

    /// The folios whose writeback has begun and that no device has taken yet.
    pub(crate) fn submitted_writes(&self) -> &[FolioId] {
        &self.submitted_writes
    }
}
