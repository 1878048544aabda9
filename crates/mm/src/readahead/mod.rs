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

use crate::counters::Event;
use crate::device_reads::DeviceReads;
use crate::filemap::Read;
use crate::folio::{FolioFlags, FolioId};
use crate::kernel::Kernel;
use crate::memcontrol::Memcg;
use crate::page_alloc::MemoryManager;
use crate::vmscan::OutOfMemory;
use crate::xarray::{FileId, FilePages};
use policy::{FileRaState, Window, folio_order, marked_folio};
use std::collections::BTreeMap;

mod fault;
pub mod policy;

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

impl Kernel<'_> {
    /// Reads the next page of a request; none at its end or that of the file. What is missing, of the request and ahead of it, is locked until
    /// [`MemoryManager::end_read`]; [`MemoryManager::take_submitted_read`] has it.
    #[inline]
    pub fn read_next(&mut self, request: &mut ReadRequest) -> Result<Option<Read>, OutOfMemory> {
        let OpenFile { file, pages, ra } = &mut self.mm.readahead.open_files[request.open.0 as usize];
        if request.index >= request.last.min(*pages) {
            ra.prev_end = Some(request.index);
            return Ok(None);
        }
        let read = match self.mm.files.folio(*file, request.index) {
            Some(id) => Read::Hit(id),
            None => Read::Miss(self.page_cache_sync_ra(request, false)?),
        };
        let (Read::Hit(id) | Read::Miss(id)) = read;
        let flags = self.mm.folios.flags[id];
        let first = if flags.order() == 0 { request.index } else { self.mm.file_pages(id).index };
        if flags.has(FolioFlags::READAHEAD) {
            let from_folio = ReadRequest { index: first, ..*request };
            self.page_cache_async_ra(&from_folio, id, false);
        }
        let again = request.previous.and_then(|page| page.checked_sub(first));
        if again.is_none_or(|page| u64::from(page) >= flags.nr_pages()) {
            self.folio_mark_accessed(id);
        }
        request.previous = Some(request.index);
        request.index += 1;
        if self.mm.features().readahead.position_moves_within_request {
            self.mm.readahead.open_files[request.open.0 as usize].ra.prev_end = Some(request.index);
        }
        Ok(Some(read))
    }

    /// The next page of a request is not in memory.
    fn page_cache_sync_ra(&mut self, request: &ReadRequest, in_fault: bool) -> Result<FolioId, OutOfMemory> {
        let features = self.mm.features().readahead;
        let &ReadRequest { index, last, .. } = request;
        let OpenFile { file, ra, .. } = &mut self.mm.readahead.open_files[request.open.0 as usize];
        let (files, file) = (&self.mm.files, *file);
        let cached = |most| files.cached_before(file, index, most);
        let window = ra.on_miss(&features, index, last - index, cached);
        self.read_missing(request, Some(window), in_fault)
    }

    /// Reads a window, and the next page of a request in any case.
    fn read_missing(
        &mut self,
        request: &ReadRequest,
        window: Option<Window>,
        in_fault: bool,
    ) -> Result<FolioId, OutOfMemory> {
        if let Some(window) = window {
            self.read_window(request, window, in_fault);
        }
        let file = self.mm.readahead.open_files[request.open.0 as usize].file;
        if let Some(id) = self.mm.files.folio(file, request.index) {
            return Ok(id);
        }
        // The window lies elsewhere, or there was no memory to spare for it.
        let page = FilePages::single(file, request.index);
        let id = self.read_folio(request, page, false, in_fault)?;
        self.mm.readahead.submitted.end_request();
        Ok(id)
    }

    /// The next page of a request has the marker.
    fn page_cache_async_ra(&mut self, request: &ReadRequest, id: FolioId, in_fault: bool) {
        let features = self.mm.features().readahead;
        let &ReadRequest { index, last, .. } = request;
        let OpenFile { file, ra, .. } = &mut self.mm.readahead.open_files[request.open.0 as usize];
        let flags = &mut self.mm.folios.flags[id];
        let order = flags.order();
        if ra.ra_pages == 0 || flags.has(FolioFlags::WRITEBACK) {
            return;
        }
        flags.clear(FolioFlags::READAHEAD);
        let (files, file) = (&self.mm.files, *file);
        let cached = |most| files.cached_after(file, index, most);
        let Some(window) = ra.on_marker(&features, index, order, last - index, cached) else { return };
        // Who reads it has a reference, so that it does not go to make room for what is read ahead.
        let held = flags.has(FolioFlags::HELD);
        flags.set(FolioFlags::HELD);
        self.read_window(request, window, in_fault);
        if !held {
            self.mm.folios.flags[id].clear(FolioFlags::HELD);
        }
    }

    /// Puts the pages of a window that are missing into the page cache.
    fn read_window(&mut self, request: &ReadRequest, window: Window, in_fault: bool) {
        let rest = match window.order {
            0 => Some(window),
            _ => self.read_large_folios(request, window, in_fault),
        };
        if let Some(rest) = rest {
            self.read_single_pages(request, rest, in_fault);
        }
    }

    /// The same in large folios (`page_cache_ra_order`), up to the first that does not fit between pages that are in memory, or
    /// cannot be had; what is to come page by page then.
    fn read_large_folios(&mut self, request: &ReadRequest, window: Window, in_fault: bool) -> Option<Window> {
        let f = self.mm.features().readahead;
        let OpenFile { file, pages, .. } = self.mm.readahead.open_files[request.open.0 as usize];
        let end = pages.min(window.start.saturating_add(window.pages));
        let marker = window.start + window.pages - window.lookahead;
        let mut index = window.start;
        while index < end {
            let order = folio_order(&f, window.order, index, end);
            let folio = FilePages { file, index, order };
            let is_there = folio.indices().any(|index| self.mm.files.folio(file, index).is_some());
            let marked = index == marked_folio(&f, marker, order);
            if is_there || self.read_folio(request, folio, marked, in_fault).is_err() {
                break;
            }
            index += 1 << order;
        }
        self.mm.readahead.submitted.end_request();
        let pages = if f.shortens_fallback { window.pages - (index - window.start) } else { window.pages };
        (index < end).then_some(Window { start: index, pages, order: 0, ..window })
    }

    /// The same page by page (`page_cache_ra_unbounded`).
    fn read_single_pages(&mut self, request: &ReadRequest, window: Window, in_fault: bool) {
        let OpenFile { file, pages, .. } = self.mm.readahead.open_files[request.open.0 as usize];
        let end = pages.min(window.start.saturating_add(window.pages));
        let marked = end.checked_sub(window.lookahead);
        for index in window.start..end {
            if self.mm.files.folio(file, index).is_some() {
                self.mm.readahead.submitted.end_request();
                continue;
            }
            let page = FilePages::single(file, index);
            if self.read_folio(request, page, marked == Some(index), in_fault).is_err() {
                break;
            }
        }
        self.mm.readahead.submitted.end_request();
    }

    /// Puts a folio into the page cache, with the marker or without, and asks the device for it with those before it.
    fn read_folio(
        &mut self,
        request: &ReadRequest,
        pages: FilePages,
        marked: bool,
        in_fault: bool,
    ) -> Result<FolioId, OutOfMemory> {
        let id = self.add_to_page_cache(request.memcg, pages, in_fault)?;
        if marked {
            self.mm.folios.flags[id].set(FolioFlags::READAHEAD);
        }
        let asked = request.index..request.last;
        let ahead = pages.indices().filter(|index| !asked.contains(index)).count();
        self.mm.counters.add(Event::ReadaheadPages, ahead as u64);
        self.mm.readahead.submitted.push(id);
        Ok(id)
    }
}

impl MemoryManager {
    /// Opens a file of `pages` pages, on a device with `queue/read_ahead_kb` as set.
    pub fn open(&mut self, file: FileId, pages: u32) -> OpenFileId {
        let io_pages = (self.settings().max_sectors_kb / self.page_size().kib()) as u32;
        let mut ra = FileRaState::new(self.ra_pages(), io_pages);
        if self.files.has_large_folios(file) {
            // `MAX_PAGECACHE_ORDER`
            ra.max_order = self.geometry().pmd_order.min(MAX_XAS_ORDER);
        }
        self.readahead.open_files.push(OpenFile { file, pages, ra });
        OpenFileId(self.readahead.open_files.len() as u32 - 1)
    }

    fn ra_pages(&self) -> u32 {
        (self.settings().read_ahead_kb / self.page_size().kib()) as u32
    }

    /// Takes advice on all of an open file.
    pub fn fadvise(&mut self, open: OpenFileId, advice: Advice) {
        let ra_pages = self.ra_pages();
        let ra = &mut self.readahead.open_files[open.0 as usize].ra;
        ra.random = advice == Advice::Random;
        match advice {
            Advice::Random => {}
            Advice::Normal => ra.ra_pages = ra_pages,
            Advice::Sequential => ra.ra_pages = 2 * ra_pages,
        }
    }

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

    /// The file that a folio of the page cache is of, and its first page.
    pub fn page_of_folio(&self, id: FolioId) -> (FileId, u32) {
        let FilePages { file, index, .. } = self.file_pages(id);
        (file, index)
    }
}
