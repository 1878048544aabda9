//! How much to read when a page is missing, and when a folio with the marker is read.
//!
//! ```text
//!   miss ─► start of the file, larger than a window, or next to the last page read? ─ yes ─► initial window
//!             │ no
//!             ▼
//!           more pages in memory right before it than requested?  ─ yes ─► as many again, marker on the last
//!             │ no
//!             ▼
//!           the requested pages and nothing else
//!
//!   marker ─► of the window that the open file knows ─► the next window, up to twice as long
//!             of another reader's                    ─► from the first missing page on
//!
//!   window ─► folios, if the file system has large ones: of 4 pages, four times as large with each marker
//!
//!     index    7 8     12    16              32 34
//!     folios   1   4     4         16         2        none beyond the window, each aligned to its size
//! ```
//!
//! In the kernel: `page_cache_sync_ra`, `page_cache_async_ra`, `get_init_ra_size`, `get_next_ra_size` in
//! mm/readahead.c (6.11 and later), `ondemand_readahead` and `try_context_readahead` there (before);
//! `do_sync_mmap_readahead` in mm/filemap.c.

use crate::features::by_name::features;
use std::ops::Range;

features! {
    /// How readahead differs between kernels.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadaheadFeatures {
        /// Until 6.5: the position moves while a request is being served, so the rest of the request looks
        /// sequential.
        pub position_moves_within_request: bool,
        /// Until 6.10: a miss at the end of the last window, or where its marker was, continues the window.
        pub miss_continues_window: bool,
        /// Until 6.10: if as many pages behind a marker are in memory as the longest window has, readahead
        /// continues behind them; later nothing is read.
        pub reads_past_cached: bool,
        /// 6.13, and late releases of 6.12: a window that a large request has made longer than usual stays that
        /// long.
        pub keeps_long_windows: bool,
        /// 6.17: the order of folios is kept with the open file, a miss begins with single pages, and windows
        /// that a marker begins end at a multiple of their folios' size (of four pages if the file system has no
        /// large folios). Before, the order of the folio with the marker decides on the next, and a miss begins
        /// with four pages.
        pub order_of_open_file: bool,
        /// Until 6.7: a marker that falls inside of a folio goes to the next folio; later, to that folio.
        pub marks_next_folio: bool,
        /// 6.9: folios of two pages exist.
        pub has_order_1: bool,
        /// 6.11, and from 6.14 on; 6.12.5 and 6.13 undid it. If a folio does not fit because some of its pages
        /// are in memory, the rest of the window is read page by page; without this, as many pages from there on
        /// as the whole window has.
        pub shortens_fallback: bool,
        /// 6.7: a fault that finds a page with the marker is retried under the mmap lock as if it were the first
        /// attempt, since it was no major fault. If the retry looks the page up again, it counts another hit.
        pub retry_hits_again: bool,
        /// 6.10: pages mapped around a fault count as hits only if they are not refaults (`PG_workingset`).
        pub workingset_is_no_hit: bool,
        /// 6.18: a fault on a page that is still being read counts no hit.
        pub locked_is_no_hit: bool,
        /// 6.18: fault-around maps large folios as a whole, beyond its range too.
        pub maps_whole_folios: bool,
    }
}

impl ReadaheadFeatures {
    pub(crate) const MAINLINE_6_1: ReadaheadFeatures = ReadaheadFeatures {
        position_moves_within_request: true,
        miss_continues_window: true,
        reads_past_cached: true,
        keeps_long_windows: false,
        order_of_open_file: false,
        marks_next_folio: true,
        has_order_1: false,
        shortens_fallback: false,
        retry_hits_again: false,
        workingset_is_no_hit: false,
        locked_is_no_hit: false,
        maps_whole_folios: false,
    };
    pub(crate) const MAINLINE_6_6: ReadaheadFeatures =
        ReadaheadFeatures { position_moves_within_request: false, ..ReadaheadFeatures::MAINLINE_6_1 };
    pub(crate) const MAINLINE_6_7: ReadaheadFeatures =
        ReadaheadFeatures { retry_hits_again: true, ..ReadaheadFeatures::MAINLINE_6_6 };
    pub(crate) const MAINLINE_6_8: ReadaheadFeatures =
        ReadaheadFeatures { marks_next_folio: false, ..ReadaheadFeatures::MAINLINE_6_7 };
    pub(crate) const MAINLINE_6_9: ReadaheadFeatures =
        ReadaheadFeatures { has_order_1: true, ..ReadaheadFeatures::MAINLINE_6_8 };
    pub(crate) const MAINLINE_6_10: ReadaheadFeatures =
        ReadaheadFeatures { workingset_is_no_hit: true, ..ReadaheadFeatures::MAINLINE_6_9 };
    pub(crate) const MAINLINE_6_11: ReadaheadFeatures = ReadaheadFeatures {
        miss_continues_window: false,
        reads_past_cached: false,
        shortens_fallback: true,
        ..ReadaheadFeatures::MAINLINE_6_10
    };
    /// Late releases of 6.12 behave like this too.
    pub(crate) const MAINLINE_6_13: ReadaheadFeatures = ReadaheadFeatures {
        keeps_long_windows: true,
        shortens_fallback: false,
        ..ReadaheadFeatures::MAINLINE_6_11
    };
    pub(crate) const MAINLINE_6_14: ReadaheadFeatures =
        ReadaheadFeatures { shortens_fallback: true, ..ReadaheadFeatures::MAINLINE_6_13 };
    pub(crate) const MAINLINE_6_17: ReadaheadFeatures =
        ReadaheadFeatures { order_of_open_file: true, ..ReadaheadFeatures::MAINLINE_6_14 };
    pub(crate) const MAINLINE_6_18: ReadaheadFeatures = ReadaheadFeatures {
        locked_is_no_hit: true,
        maps_whole_folios: true,
        ..ReadaheadFeatures::MAINLINE_6_17
    };
}

/// What an open file remembers of its reads, in pages (`struct file_ra_state`).
///
/// ```text
///                       ◄── async_size ──►
///    start ─────────────█─────────────────── start + size
///                       └ marked
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRaState {
    /// First page of the last window.
    pub start: u32,
    /// Length of the last window.
    pub size: u32,
    /// How much of the window is left when its marker is read.
    pub async_size: u32,
    /// Whether reads were announced as random (`FMODE_RANDOM`).
    pub random: bool,
    /// The longest window (`ra_pages`); 0 reads one page at a time.
    pub ra_pages: u32,
    /// The largest request of the device (`io_pages`). A read that is larger than a window is read at once,
    /// up to this.
    pub io_pages: u32,
    /// Order of the largest folio that the file may have (`mapping_max_folio_order`); 0 without large folios.
    pub max_order: u8,
    /// Order of the folios of the last window; kept from 6.17 on.
    pub order: u8,
    /// Page faults that missed less those that hit (`mmap_miss`).
    pub mmap_miss: u32,
    /// The page behind the last one that was read (`prev_pos`); `None` before the first read.
    pub prev_end: Option<u32>,
}

/// A window: the pages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: u32,
    /// Number of pages, with those that are in memory already.
    pub pages: u32,
    /// Distance of the page with the marker from the end of the window; 0 for no marker.
    pub lookahead: u32,
    /// Order of the folios to read it in, as far as they fit.
    pub order: u8,
}

impl Window {
    fn of_single_pages(start: u32, pages: u32) -> Window {
        Window { start, pages, lookahead: 0, order: 0 }
    }
}

/// Until 6.16, windows that are shorter than this are read page by page.
const MIN_LARGE_WINDOW: u32 = 4;

/// By how much the order of folios grows from one window to the next.
const ORDER_STEP: u8 = 2;

/// Order of the folio that begins with page `index`, in a window that ends before `end` and is to be made of
/// folios of order `most` (`page_cache_ra_order`).
pub fn folio_order(f: &ReadaheadFeatures, most: u8, index: u32, end: u32) -> u8 {
    let fits = (end - index).ilog2() as u8;
    let aligned = index.trailing_zeros() as u8;
    match most.min(aligned).min(fits) {
        1 if !f.has_order_1 => 0,
        order => order,
    }
}

/// The first page of the folio that gets the marker, if the marker falls on page `page` and folios there have
/// this order.
pub fn marked_folio(f: &ReadaheadFeatures, page: u32, order: u8) -> u32 {
    let pages = 1 << order;
    match f.marks_next_folio {
        true => page.next_multiple_of(pages),
        false => page - page % pages,
    }
}

/// The part of a window that is read page by page, from page `index` on, where a folio of the window's order
/// does not fit. In 6.11 and from 6.14 on it is the rest of the window; otherwise it is as long as the whole
/// window.
pub fn fallback_window(f: &ReadaheadFeatures, window: Window, index: u32) -> Window {
    let read = if f.shortens_fallback { index - window.start } else { 0 };
    Window { start: index, pages: window.pages - read, order: 0, ..window }
}

/// Whether fault-around maps large folios as a whole; `first` are the pages of the first folio that it finds,
/// in a file of `file_pages` pages. The kernel compares with the file's last page instead of its end, so a first
/// folio that ends with the file counts as reaching beyond it (`can_map_large` in `filemap_map_pages`).
pub fn maps_whole_folios(f: &ReadaheadFeatures, first: &Range<u32>, file_pages: u32) -> bool {
    f.maps_whole_folios && first.end < file_pages
}

/// How many of the pages of a folio that fault-around finds count as hits; `is_refault` for a folio that was
/// evicted and has come back.
pub fn fault_around_hits(f: &ReadaheadFeatures, pages: u32, is_refault: bool) -> u32 {
    if is_refault && f.workingset_is_no_hit { 0 } else { pages }
}

/// How many misses more than hits end the readahead around faults (`MMAP_LOTSAMISS`).
const MMAP_LOTSAMISS: u32 = 100;

/// Length of a first window for a request of so many pages (`get_init_ra_size`).
pub fn initial_size(request: u32, max: u32) -> u32 {
    let rounded = request.next_power_of_two();
    if rounded <= max / 32 {
        rounded * 4
    } else if rounded <= max / 4 {
        rounded * 2
    } else {
        max
    }
}

/// Length of the window after one of `size` pages (`get_next_ra_size`).
pub fn next_size(size: u32, max: u32) -> u32 {
    if size < max / 16 {
        size * 4
    } else if size <= max / 2 {
        size * 2
    } else {
        max
    }
}

impl FileRaState {
    /// The state of a file that has just been opened.
    pub fn new(ra_pages: u32, io_pages: u32) -> FileRaState {
        FileRaState { ra_pages, io_pages, ..FileRaState::default() }
    }

    /// Notes that the page before `index` has been read. Until 6.5 the position moves at once, later at the
    /// end of the request.
    #[inline]
    pub fn on_page_read(&mut self, f: &ReadaheadFeatures, index: u32) {
        if f.position_moves_within_request {
            self.prev_end = Some(index);
        }
    }

    /// The longest window for a request (`ractl_max_pages`).
    fn max_pages(&self, request: u32) -> u32 {
        if request > self.ra_pages && self.io_pages > self.ra_pages {
            request.min(self.io_pages)
        } else {
            self.ra_pages
        }
    }

    fn marker(&self) -> u32 {
        self.start + self.size - self.async_size
    }

    /// The current window, after a miss.
    fn window_of_miss(&mut self, f: &ReadaheadFeatures) -> Window {
        self.order = 0;
        self.window(f, 0)
    }

    /// The current window, in folios four times as large as those of order `marked`, the order of the folio
    /// that had the marker, or 0.
    fn window(&mut self, f: &ReadaheadFeatures, marked: u8) -> Window {
        let grown = match f.order_of_open_file {
            true => self.order,
            false if self.size < MIN_LARGE_WINDOW => 0,
            false => marked.saturating_add(ORDER_STEP),
        };
        self.order = grown.min(self.max_order).min(self.size.max(1).ilog2() as u8);
        Window { start: self.start, pages: self.size, lookahead: self.async_size, order: self.order }
    }

    /// Whether a window is allocated by `page_cache_ra_order`, even if its folios turn out to be single pages.
    /// There the marker counts from the window's end, and a file that ends before it has none; otherwise the
    /// marker counts from the end of the file.
    pub fn may_be_large(&self, f: &ReadaheadFeatures, window: &Window) -> bool {
        let is_isolated = window.lookahead == 0;
        window.order > 0 || f.order_of_open_file && self.max_order > 0 && !is_isolated
    }

    /// Decides on the window for a miss on page `index`; `request` pages from there on are wanted
    /// (`page_cache_sync_ra`). `cached_before` counts the pages in memory right before `index`, up to a
    /// maximum.
    pub fn on_miss(
        &mut self,
        f: &ReadaheadFeatures,
        index: u32,
        request: u32,
        cached_before: impl FnOnce(u32) -> u32,
    ) -> Window {
        if self.ra_pages == 0 {
            return Window::of_single_pages(index, 1);
        }
        if self.random {
            let most = self.io_pages.max(self.ra_pages);
            return Window::of_single_pages(index, request.min(most));
        }
        let max = self.max_pages(request);
        let end = self.start + self.size;
        if f.miss_continues_window && index > 0 && (index == self.marker() || index == end) {
            self.start = end;
            self.size = next_size(self.size, max);
            self.async_size = self.size;
            if index == self.start {
                self.merge_next(max);
            }
            return self.window_of_miss(f);
        }
        let is_next = self.prev_end.is_some_and(|end| index == end || index == end.wrapping_add(1));
        if index == 0 || request > max || is_next {
            self.start = index;
            self.size = initial_size(request, max);
            self.async_size = if self.size > request { self.size - request } else { self.size / 2 };
            return self.window_of_miss(f);
        }
        let cached = cached_before(max);
        // The kernel's search stops after `max` pages and takes the last one that it has seen for the gap.
        let history = if cached == max { max - 1 } else { cached };
        if history <= request {
            return Window::of_single_pages(index, request);
        }
        let from_the_beginning = cached == index && cached < max;
        let expected = if from_the_beginning { 2 * history } else { history };
        self.start = index;
        self.size = max.min(expected + request);
        self.async_size = 1;
        self.window_of_miss(f)
    }

    /// Reads the next window at once too, as the marker would be on the first page of this one, which is
    /// missing.
    fn merge_next(&mut self, max: u32) {
        let next = next_size(self.size, max);
        if self.size + next <= max {
            self.async_size = next;
            self.size += next;
        } else {
            self.size = max;
            self.async_size = max / 2;
        }
    }

    /// Decides on the window to read when the folio of `1 << order` pages from `index` on has the marker, and
    /// `request` pages from there on are wanted (`page_cache_async_ra`). `cached_after` counts the pages in
    /// memory right behind page `index`, up to a maximum.
    pub fn on_marker(
        &mut self,
        f: &ReadaheadFeatures,
        index: u32,
        order: u8,
        request: u32,
        cached_after: impl FnOnce(u32) -> u32,
    ) -> Option<Window> {
        if self.ra_pages == 0 {
            return None;
        }
        let max = self.max_pages(request);
        let end = self.start + self.size;
        if index == marked_folio(f, self.marker(), order) || f.miss_continues_window && index == end {
            self.start = end;
            let next = next_size(self.size, max);
            self.size = if f.keeps_long_windows { next.max(self.size) } else { next };
        } else {
            let cached = cached_after(max);
            if cached == max && !f.reads_past_cached {
                return None;
            }
            let ahead = (cached + 1).min(max);
            self.start = index + ahead;
            self.size = next_size(ahead + request, max);
        }
        if f.order_of_open_file {
            self.order += ORDER_STEP;
            let alignment = 1 << u32::from(self.order).min(max.trailing_zeros());
            let surplus = (self.start + self.size) % alignment;
            if surplus < self.size {
                self.size -= surplus;
            }
        }
        self.async_size = self.size;
        Some(self.window(f, order))
    }

    /// Decides on the window around page `index`, which a page fault did not find in memory
    /// (`do_sync_mmap_readahead`).
    pub fn on_fault_miss(&mut self, f: &ReadaheadFeatures, index: u32) -> Option<Window> {
        if self.ra_pages == 0 {
            return None;
        }
        self.mmap_miss = (self.mmap_miss + 1).min(10 * MMAP_LOTSAMISS);
        if self.mmap_miss > MMAP_LOTSAMISS {
            return None;
        }
        self.start = index.saturating_sub(self.ra_pages / 2);
        self.size = self.ra_pages;
        self.async_size = self.ra_pages / 4;
        Some(self.window_of_miss(f))
    }

    /// Notes that a page fault found its page in memory (`do_async_mmap_readahead`).
    pub fn on_fault_hit(&mut self) {
        self.on_fault_around(1);
    }

    /// Notes that a page fault found its page in memory, but still being read.
    pub fn on_locked_hit(&mut self, f: &ReadaheadFeatures) {
        if !f.locked_is_no_hit {
            self.on_fault_around(1);
        }
    }

    /// Notes that a fault which met the marker looks its page up once more when it is retried.
    pub fn on_retried_hit(&mut self, f: &ReadaheadFeatures) {
        if f.retry_hits_again {
            self.on_fault_around(1);
        }
    }

    /// Notes how many pages fault-around found that count as hits (`filemap_map_pages`).
    pub fn on_fault_around(&mut self, hits: u32) {
        self.mmap_miss = self.mmap_miss.saturating_sub(hits);
    }
}
