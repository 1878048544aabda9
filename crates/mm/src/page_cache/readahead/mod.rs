//! Readahead: reading pages of files before anybody asks for them.
//!
//! ```text
//!   pread(file, index..last) ─► page by page: in memory?
//!                                 │ no                      │ yes, and marked (PG_readahead)
//!                                 ▼                         ▼
//!                     policy: which window?          policy: which window next?
//!                                 └───────────┬─────────────┘
//!                                             ▼
//!        pages of the window that are missing go into the page cache, locked and unreferenced; one gets the marker;
//!        those that lie together are one request to the device
//! ```
//!
//! What is known of earlier reads is kept with the open file, so threads that share a descriptor see each other's
//! reads, and two descriptors of one file know nothing of each other. Besides that, the policy asks which pages around
//! are in memory: a stream leaves such a trail, but in a file that is partly in memory so does chance, and random reads
//! of several pages then read more than they are asked to.
//!
//! `posix_fadvise` says what is coming: `RANDOM` reads what is asked for, `SEQUENTIAL` doubles the longest window. Where the
//! file system has large folios, windows come in them, and a read of several pages of a folio uses it once. Reading ahead
//! stops where a page cannot be had (`__GFP_NORETRY`).
//!
//! Page faults on mapped files are in `fault.rs`. In the kernel: `filemap_get_pages`, `filemap_read` in mm/filemap.c;
//! `page_cache_ra_unbounded`, `page_cache_ra_order` in mm/readahead.c; `generic_fadvise` in mm/fadvise.c.

use crate::lru::folio::FolioId;
use crate::lru::memcontrol::Memcg;
use crate::page_cache::PageCache;
use crate::page_cache::device_reads::DeviceReads;
use crate::page_cache::xarray::FileId;
use policy::FileRaState;
use std::collections::BTreeMap;

mod fault;
pub mod policy;
mod read;

/// An open file (`struct file`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenFileId(u32);

/// What a program says of its reads to come (`posix_fadvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    Normal,
    /// One after the other.
    Sequential,
    /// All over the file.
    Random,
}

#[derive(Clone, Copy, Debug)]
struct OpenFile {
    file: FileId,
    /// Length of the file (`i_size`).
    pages: u32,
    ra: FileRaState,
}

/// Open files, and the reads that have been submitted for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readahead {
    open_files: Vec<OpenFile>,
    /// Through which descriptor page faults on a file read ahead.
    mapped_through: BTreeMap<FileId, OpenFileId>,
    /// Folios to fill.
    submitted: DeviceReads,
}

/// A read under way (`struct kiocb`).
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    memcg: Memcg,
    open: OpenFileId,
    /// Next page.
    index: u32,
    /// Behind the last page.
    last: u32,
    /// The page that was read before: by this request, or by the last one of the open file.
    previous: Option<u32>,
}

/// log2 of the largest folio that an xarray has room for (`MAX_XAS_ORDER`).
const MAX_XAS_ORDER: u8 = 11;

impl PageCache {
    /// Begins to read `pages` pages of an open file on behalf of a task of `memcg`.
    pub fn begin_read(&self, memcg: Memcg, open: OpenFileId, index: u32, pages: u32) -> ReadRequest {
        let previous =
            self.readahead.open_files[open.0 as usize].ra.prev_end.and_then(|end| end.checked_sub(1));
        ReadRequest { memcg, open, index, last: index + pages, previous }
    }

    /// The next request to a device that reads have led to, if there is one: its folios, in the order of pages, go into
    /// `folios`, which is empty.
    #[inline]
    pub fn take_submitted_read(&mut self, folios: &mut Vec<FolioId>) -> bool {
        self.readahead.submitted.take(folios)
    }
}
