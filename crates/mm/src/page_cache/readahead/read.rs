//! Reads of open files: which pages are in memory, which are read, and which are read ahead
//! (`filemap_get_pages`, `page_cache_sync_ra`, `page_cache_async_ra` in mm/filemap.c and mm/readahead.c).

use super::policy::{FileRaState, Window, fallback_window, folio_order, marked_folio};
use super::{Advice, MAX_XAS_ORDER, OpenFile, OpenFileId, ReadRequest};
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::{Kernel, MemoryManager, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::policy::AddedBy;
use crate::page_cache::filemap::Read;
use crate::page_cache::xarray::{FileId, FilePages};

impl Kernel<'_> {
    /// Reads the next page of a request; returns `None` at the end of the request or of the file. Folios that
    /// were missing, whether requested or read ahead, are locked until
    /// [`Lrus::end_read`](crate::lru::Lrus::end_read) and come from
    /// [`PageCache::take_submitted_read`](crate::page_cache::PageCache::take_submitted_read).
    #[inline]
    pub fn read_next(&mut self, request: &mut ReadRequest) -> Result<Option<Read>, OutOfMemory> {
        let OpenFile { file, pages, ra } =
            &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        if request.index >= request.last.min(*pages) {
            ra.prev_end = Some(request.index);
            return Ok(None);
        }
        let read = match self.parts.page_cache.files.folio(*file, request.index) {
            Some(id) => Read::Hit(id),
            None => Read::Miss(self.page_cache_sync_ra(request, AddedBy::Other)?),
        };
        let (Read::Hit(id) | Read::Miss(id)) = read;
        let flags = self.parts.lrus.folios.flags[id];
        let first = if flags.order() == 0 { request.index } else { self.parts.file_pages(id).index };
        if flags.has(FolioFlags::READAHEAD) {
            let from_folio = ReadRequest { index: first, ..*request };
            self.page_cache_async_ra(&from_folio, id, AddedBy::Other);
        }
        let again = request.previous.and_then(|page| page.checked_sub(first));
        if again.is_none_or(|page| u64::from(page) >= flags.nr_pages()) {
            self.folio_mark_accessed(id);
        }
        request.previous = Some(request.index);
        request.index += 1;
        let ra = &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize].ra;
        ra.on_page_read(&self.on.features.readahead, request.index);
        Ok(Some(read))
    }

    /// Synchronous readahead: the next page of a request is missing (`page_cache_sync_ra`). Returns its
    /// folio.
    pub(super) fn page_cache_sync_ra(
        &mut self,
        request: &ReadRequest,
        by: AddedBy,
    ) -> Result<FolioId, OutOfMemory> {
        let features = self.on.features.readahead;
        let &ReadRequest { index, last, .. } = request;
        let OpenFile { file, ra, .. } =
            &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        let (files, file) = (&self.parts.page_cache.files, *file);
        let cached = |most| files.cached_before(file, index, most);
        let window = ra.on_miss(&features, index, last - index, cached);
        self.read_missing(request, Some(window), by)
    }

    /// Reads a window, and in any case the next page of the request, whose folio it returns.
    pub(super) fn read_missing(
        &mut self,
        request: &ReadRequest,
        window: Option<Window>,
        by: AddedBy,
    ) -> Result<FolioId, OutOfMemory> {
        if let Some(window) = window {
            self.read_window(request, window, by);
        }
        let file = self.parts.page_cache.readahead.open_files[request.open.0 as usize].file;
        if let Some(id) = self.parts.page_cache.files.folio(file, request.index) {
            return Ok(id);
        }
        // The window does not include the page, or there was no memory for it.
        let page = FilePages::single(file, request.index);
        let id = self.read_folio(request, page, by)?;
        self.parts.page_cache.readahead.submitted.end_request();
        Ok(id)
    }

    /// Asynchronous readahead: the folio with the next page of a request has the marker
    /// (`page_cache_async_ra`).
    pub(super) fn page_cache_async_ra(&mut self, request: &ReadRequest, id: FolioId, by: AddedBy) {
        let features = self.on.features.readahead;
        let &ReadRequest { index, last, .. } = request;
        let OpenFile { file, ra, .. } =
            &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        let flags = &mut self.parts.lrus.folios.flags[id];
        let order = flags.order();
        if ra.ra_pages == 0 || flags.has(FolioFlags::WRITEBACK) {
            return;
        }
        flags.clear(FolioFlags::READAHEAD);
        let (files, file) = (&self.parts.page_cache.files, *file);
        let cached = |most| files.cached_after(file, index, most);
        let Some(window) = ra.on_marker(&features, index, order, last - index, cached) else { return };
        // The reader has a reference to the folio, so it is not evicted to make room for what is read ahead.
        let held = flags.has(FolioFlags::HELD);
        flags.set(FolioFlags::HELD);
        self.read_window(request, window, by);
        if !held {
            self.parts.lrus.folios.flags[id].clear(FolioFlags::HELD);
        }
    }

    /// Adds the missing pages of a window to the page cache and submits their reads.
    fn read_window(&mut self, request: &ReadRequest, window: Window, by: AddedBy) {
        let features = self.on.features.readahead;
        let OpenFile { ra, .. } = &self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        let rest = match ra.may_be_large(&features, &window) {
            false => Some(window),
            true => self.read_large_folios(request, window, by),
        };
        if let Some(rest) = rest {
            self.read_single_pages(request, rest, by);
        }
    }

    /// Reads a window in large folios (`page_cache_ra_order`), up to the first that does not fit between
    /// pages in memory or cannot be allocated. Returns the window to read page by page from there on.
    fn read_large_folios(&mut self, request: &ReadRequest, window: Window, by: AddedBy) -> Option<Window> {
        let f = self.on.features.readahead;
        let OpenFile { file, pages, .. } =
            self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        let end = pages.min(window.start.saturating_add(window.pages));
        let marker = window.start + window.pages - window.lookahead;
        let mut index = window.start;
        while index < end {
            let order = folio_order(&f, window.order, index, end);
            let folio = FilePages { file, index, order };
            let is_there =
                folio.indices().any(|index| self.parts.page_cache.files.folio(file, index).is_some());
            if is_there {
                break;
            }
            let Ok(id) = self.read_folio(request, folio, by) else { break };
            if index == marked_folio(&f, marker, order) {
                self.parts.lrus.folios.flags[id].set(FolioFlags::READAHEAD);
            }
            index += 1 << order;
        }
        self.parts.page_cache.readahead.submitted.end_request();
        (index < end).then(|| fallback_window(&f, window, index))
    }

    /// Reads a window page by page (`page_cache_ra_unbounded`).
    fn read_single_pages(&mut self, request: &ReadRequest, window: Window, by: AddedBy) {
        let OpenFile { file, pages, .. } =
            self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        let end = pages.min(window.start.saturating_add(window.pages));
        let marked = end.checked_sub(window.lookahead);
        for index in window.start..end {
            if self.parts.page_cache.files.folio(file, index).is_some() {
                self.parts.page_cache.readahead.submitted.end_request();
                continue;
            }
            let page = FilePages::single(file, index);
            let Ok(id) = self.read_folio(request, page, by) else { break };
            if marked == Some(index) {
                self.parts.lrus.folios.flags[id].set(FolioFlags::READAHEAD);
            }
        }
        self.parts.page_cache.readahead.submitted.end_request();
    }

    /// Adds a folio to the page cache, and to the request to the device that is being put together.
    fn read_folio(
        &mut self,
        request: &ReadRequest,
        pages: FilePages,
        by: AddedBy,
    ) -> Result<FolioId, OutOfMemory> {
        let id = self.add_to_page_cache(request.memcg, pages, by)?;
        let asked = request.index..request.last;
        let ahead = pages.indices().filter(|index| !asked.contains(index)).count();
        self.on.counters.add(Event::ReadaheadPages, ahead as u64);
        self.parts.page_cache.readahead.submitted.push(id);
        Ok(id)
    }
}

impl MemoryManager {
    /// Opens a file of `pages` pages. The longest window follows from the device's `queue/read_ahead_kb`.
    pub fn open(&mut self, file: FileId, pages: u32) -> OpenFileId {
        let io_pages = (self.settings().max_sectors_kb / self.parts.allocator.page_size().kib()) as u32;
        let mut ra = FileRaState::new(self.ra_pages(), io_pages);
        if self.parts.page_cache.files.has_large_folios(file) {
            // `MAX_PAGECACHE_ORDER`.
            ra.max_order = self.parts.allocator.geometry().pmd_order.min(MAX_XAS_ORDER);
        }
        self.parts.page_cache.readahead.open_files.push(OpenFile { file, pages, ra });
        OpenFileId(self.parts.page_cache.readahead.open_files.len() as u32 - 1)
    }

    /// Applies advice on the whole of an open file (`generic_fadvise`).
    pub fn fadvise(&mut self, open: OpenFileId, advice: Advice) {
        let ra_pages = self.ra_pages();
        let ra = &mut self.parts.page_cache.readahead.open_files[open.0 as usize].ra;
        ra.random = advice == Advice::Random;
        match advice {
            Advice::Random => {}
            Advice::Normal => ra.ra_pages = ra_pages,
            Advice::Sequential => ra.ra_pages = 2 * ra_pages,
        }
    }

    fn ra_pages(&self) -> u32 {
        (self.settings().read_ahead_kb / self.parts.allocator.page_size().kib()) as u32
    }
}

impl Parts {
    /// The file of a folio in the page cache, and the folio's first page.
    pub fn page_of_folio(&self, id: FolioId) -> (FileId, u32) {
        let FilePages { file, index, .. } = self.file_pages(id);
        (file, index)
    }
}
