//! Readahead: reading pages of files before a program asks for them.
//!
//! ```text
//!   pread(file, index..last) ─► page by page: in memory?
//!                                 │ no                      │ yes, with the marker (PG_readahead)
//!                                 ▼                         ▼
//!                     policy: which window?          policy: which window next?
//!                                 └───────────┬─────────────┘
//!                                             ▼
//!        missing pages of the window are added to the page cache, locked and not referenced, one with the
//!        marker; neighbours are one request to the device
//! ```
//!
//! The history of reads is kept with the open file (`struct file_ra_state`), so threads that share a
//! descriptor share it, and two descriptors of one file know nothing of each other. The policy also asks
//! which pages around are in memory. A sequential stream leaves such pages behind, but in a file that is
//! partly in memory they may be there by chance, and then random reads of several pages read more than they
//! are asked for.
//!
//! `posix_fadvise` announces reads: with `RANDOM` only the requested pages are read, `SEQUENTIAL` doubles the
//! longest window. If the file system supports large folios, windows are made of them, and a read of several
//! pages of a folio counts as one access. Readahead stops where a page cannot be allocated (`__GFP_NORETRY`).
//!
//! Page faults on mapped files are in `fault.rs`. In the kernel: `filemap_get_pages`, `filemap_read` in
//! mm/filemap.c; `page_cache_ra_unbounded`, `page_cache_ra_order` in mm/readahead.c; `generic_fadvise` in
//! mm/fadvise.c.

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

pub use fault::FAULT_AROUND_BYTES;

/// The number of an open file (`struct file`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenFileId(u32);

/// What a program announces about its reads (`posix_fadvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing (`POSIX_FADV_NORMAL`).
    #[default]
    Normal,
    /// They are sequential (`POSIX_FADV_SEQUENTIAL`).
    Sequential,
    /// They are random (`POSIX_FADV_RANDOM`).
    Random,
}

#[derive(Clone, Copy, Debug)]
struct OpenFile {
    file: FileId,
    /// Length of the file in pages (`i_size`).
    pages: u32,
    ra: FileRaState,
}

/// Open files, and the reads that have been submitted for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readahead {
    open_files: Vec<OpenFile>,
    /// The open file whose history page faults on a file use, and how far they map around themselves.
    mapped_through: BTreeMap<FileId, fault::MappedThrough>,
    /// Folios that devices have to fill.
    submitted: DeviceReads,
}

/// A read in progress (`struct kiocb`).
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    memcg: Memcg,
    open: OpenFileId,
    /// The next page to read.
    index: u32,
    /// The end of the read: the page behind its last.
    last: u32,
    /// The page that was read before this one, by this request or by the last one of the open file.
    previous: Option<u32>,
}

/// Order of the largest folio that an xarray can hold (`MAX_XAS_ORDER`).
const MAX_XAS_ORDER: u8 = 11;

impl PageCache {
    /// Begins to read `pages` pages of an open file for a task of `memcg`.
    pub fn begin_read(&self, memcg: Memcg, open: OpenFileId, index: u32, pages: u32) -> ReadRequest {
        let previous =
            self.readahead.open_files[open.0 as usize].ra.prev_end.and_then(|end| end.checked_sub(1));
        ReadRequest { memcg, open, index, last: index + pages, previous }
    }

    /// Moves the folios of the next read request to a device into `folios`, which is empty, in the order of
    /// pages. Returns whether there was a request.
    #[inline]
    pub fn take_submitted_read(&mut self, folios: &mut Vec<FolioId>) -> bool {
        self.readahead.submitted.take(folios)
    }
}
