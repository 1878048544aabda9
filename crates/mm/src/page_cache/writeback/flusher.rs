//! Flushers: which file is written next, and how much of it (`wb_workfn`, `writeback_sb_inodes`).
//!
//! ```text
//!   b_dirty  oldest ─► b_io ─► a slice of a file, request by request ─► clean
//!     ▲                 ▲         │                          │
//!     │                 └── b_more_io ◄── slice used up      │ some pages could not be written
//!     └──────────────────────────────────────────────────────┘
//! ```
//!
//! A file system with delayed allocation chooses the blocks of new pages only when they are written, an
//! extent at a time. The writeback of all pages of an extent then ends together with the last of its
//! requests: on a slow device no page becomes clean for seconds, and then a thousand become clean at once
//! (ext4: `mpage_map_and_submit_extent`, `ext4_put_io_end`; seen on 6.1, 6.12 and 6.18).
//!
//! A run does three kinds of work, one after the other: it writes everything if reclaim has asked for that;
//! then files that have been dirty for long, if the interval is over; then whatever is above the background
//! limit.

use super::Listed;
use super::policy::{self, BANDWIDTH_INTERVAL, DirtyThrottleControl, share_of_thresh};
use crate::jiffies::{HZ, jiffies, jiffies_at};
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::FolioFlags;
use crate::lru::memcontrol::Memcg;
use crate::page_cache::PageCache;
use crate::page_cache::xarray::FileId;
use machine::Time;
use std::ops::Range;

/// The longest extent that a file system maps at once, in pages (ext4: `MAX_WRITEPAGES_EXTENT_LEN`).
const LONGEST_EXTENT: u64 = 2048;

/// Why a flusher writes (`enum wb_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Vmscan,
    Periodic,
    Background,
}

/// The current work of a flusher (`struct wb_writeback_work`).
#[derive(Clone, Copy, Debug)]
struct Work {
    reason: Reason,
    /// Pages that are left to write.
    nr_pages: u64,
    /// When the work began, in jiffies.
    begun: u64,
}

/// The file that is being written, and its share.
#[derive(Clone, Copy, Debug)]
struct Slice {
    file: FileId,
    /// Pages that are left of its share, and all pages of the share.
    left: u64,
    pages: u64,
    /// The next page to look at.
    index: u32,
    /// The page that the slice began with: after the end of the file it continues from page 0 up to here.
    begin: u32,
    wrapped: bool,
    /// Pages that are left of an extent whose blocks have been chosen.
    extent_left: u64,
}

/// A pass over the files in `b_io` (`writeback_sb_inodes`).
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// When the pass began, in jiffies.
    start: u64,
    /// Whether something was written.
    progress: bool,
    /// Whether files were moved to `b_io` for it (`queue_io`).
    queued: bool,
}

/// What a step of a flusher did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// It submitted a request of neighbouring folios, which [`PageCache::take_submitted_writes`] returns.
    Request,
    /// There is nothing left to do, and the flusher sleeps.
    Done,
}

/// A run of a flusher.
#[derive(Clone, Debug)]
pub struct Flusher {
    wb: Memcg,
    work: Option<Work>,
    /// The last kind of work that this run has come to.
    done: Option<Reason>,
    slice: Option<Slice>,
    pass: Option<Pass>,
}

impl Flusher {
    /// Whether it writes because reclaim asked for it, and not because of time or the background limit.
    pub fn is_urgent(&self) -> bool {
        self.work.is_some_and(|work| work.reason == Reason::Vmscan)
    }

    /// Whether the writeback of all pages of an extent ends with the last request, those of earlier requests
    /// included. It does not while blocks of the extent are still to be written.
    pub fn ends_writeback(&self) -> bool {
        self.slice.is_none_or(|slice| slice.extent_left == 0)
    }

    /// Submits one request of at most `most` pages, or ends the run.
    pub fn step(&mut self, kernel: &mut Kernel, most: u64) -> Flush {
        let now = jiffies_at(kernel.on.machine.now(kernel.on.cpu));
        kernel.parts.page_cache.writeback.wb(self.wb).catch_up(now);
        loop {
            if let Some(slice) = &mut self.slice {
                if kernel.parts.write_run(slice, most) {
                    let wb = kernel.parts.page_cache.writeback.wb(self.wb);
                    if now > wb.updated + BANDWIDTH_INTERVAL {
                        wb.update_bandwidth(now);
                    }
                    return Flush::Request;
                }
                self.end_slice(kernel, now);
                continue;
            }
            if self.work.is_none() && !self.next_work(kernel, now) {
                self.sleep(kernel, now);
                return Flush::Done;
            }
            if !self.next_slice(kernel, now) {
                self.work = None;
            }
        }
    }

    /// Finds the next work of this run. Returns whether there is any.
    fn next_work(&mut self, kernel: &mut Kernel, now: u64) -> bool {
        let interval = kernel.writeback_interval();
        let wb = kernel.parts.page_cache.writeback.wb(self.wb);
        loop {
            let reason = match self.done {
                None => Reason::Vmscan,
                Some(Reason::Vmscan) => Reason::Periodic,
                Some(Reason::Periodic) => Reason::Background,
                Some(Reason::Background) => return false,
            };
            self.done = Some(reason);
            let nr_pages = match reason {
                Reason::Vmscan if std::mem::take(&mut wb.start_all) => wb.nr_dirty,
                Reason::Periodic if interval.is_some_and(|interval| now >= wb.last_old_flush + interval) => {
                    wb.last_old_flush = now;
                    wb.nr_dirty
                }
                Reason::Background => u64::MAX,
                _ => 0,
            };
            if nr_pages > 0 {
                self.work = Some(Work { reason, nr_pages, begun: now });
                return true;
            }
        }
    }

    /// Chooses the next file of the current work. Returns whether there is one.
    fn next_slice(&mut self, kernel: &mut Kernel, now: u64) -> bool {
        loop {
            let Some(work) = &mut self.work else { return false };
            if let Some(pass) = self.pass {
                // The limits are checked only now and then.
                let ends = pass.progress && (now > pass.start + HZ / 10 || work.nr_pages == 0);
                let dirty_limit = kernel.parts.page_cache.writeback.domain(Memcg::ROOT).dirty_limit;
                let page_size = kernel.parts.allocator.page_size();
                let wb = kernel.parts.page_cache.writeback.wb(self.wb);
                if !ends && let Some(file) = wb.b_io.pop_front() {
                    wb.start_estimate(now);
                    let bandwidth = wb.rates.avg_write_bandwidth;
                    let pages = policy::chunk(bandwidth, dirty_limit, work.nr_pages, page_size);
                    let dirty = kernel.parts.page_cache.writeback.file(file);
                    dirty.listed = Listed::Writing;
                    let index = dirty.writeback_index;
                    let (begin, wrapped) = (index, index == 0);
                    self.slice =
                        Some(Slice { file, left: pages, pages, index, begin, wrapped, extent_left: 0 });
                    return true;
                }
                self.pass = None;
                if pass.queued && !pass.progress {
                    return false;
                }
            }
            if work.nr_pages == 0
                || work.reason == Reason::Background && !kernel.is_over_background(self.wb, now)
            {
                return false;
            }
            let queued = kernel.parts.page_cache.writeback.wb(self.wb).b_io.is_empty();
            if queued {
                // Files that became dirty after this are left for later.
                let dirtied_before = match work.reason {
                    Reason::Vmscan => work.begun,
                    Reason::Periodic => {
                        now.saturating_sub(jiffies(kernel.on.settings.dirty.dirty_expire_centisecs * 10))
                    }
                    Reason::Background => now,
                };
                kernel.parts.page_cache.writeback.queue_io(self.wb, dirtied_before);
            }
            self.pass = Some(Pass { start: now, progress: false, queued });
        }
    }

    /// Ends the slice of a file and puts the file on the list where it belongs now (`requeue_inode`).
    fn end_slice(&mut self, kernel: &mut Kernel, now: u64) {
        let Some(slice) = self.slice.take() else { return };
        let wrote = slice.pages - slice.left;
        if let Some(work) = &mut self.work {
            work.nr_pages = work.nr_pages.saturating_sub(wrote);
        }
        let dirty = kernel.parts.page_cache.writeback.file(slice.file);
        dirty.writeback_index = slice.index;
        let is_clean = dirty.pages.is_empty();
        if let Some(pass) = &mut self.pass {
            pass.progress |= wrote > 0 || is_clean;
        }
        dirty.listed = match (is_clean, slice.left) {
            (true, _) => Listed::None,
            (false, 0) => Listed::MoreIo,
            (false, _) => {
                dirty.dirtied_when = now;
                Listed::Dirty
            }
        };
        let listed = dirty.listed;
        let wb = kernel.parts.page_cache.writeback.wb(self.wb);
        match listed {
            Listed::MoreIo => wb.b_more_io.push_back(slice.file),
            Listed::Dirty => wb.b_dirty.push_back(slice.file),
            _ => {}
        }
    }

    fn sleep(&mut self, kernel: &mut Kernel, now: u64) {
        let interval = kernel.writeback_interval();
        let wb = kernel.parts.page_cache.writeback.wb(self.wb);
        wb.running = false;
        wb.wakes_at = interval.filter(|_| wb.has_dirty_files()).map(|interval| now + interval);
    }
}

impl super::Writeback {
    /// Moves the files that became dirty by `dirtied_before` to `b_io`, after those of `b_more_io`
    /// (`queue_io`).
    fn queue_io(&mut self, owner: Memcg, dirtied_before: u64) {
        let super::Writeback { files, wbs, .. } = self;
        let Some(wb) = &mut wbs[owner.index()] else { return };
        let io = wb.b_io.len();
        wb.b_io.append(&mut wb.b_more_io);
        while let Some(file) = wb.b_dirty.front()
            && files[file.0 as usize].dirtied_when <= dirtied_before
        {
            wb.b_io.extend(wb.b_dirty.pop_front());
        }
        for file in wb.b_io.range(io..) {
            files[file.0 as usize].listed = Listed::Io;
        }
    }
}

impl Kernel<'_> {
    /// Whether more pages are dirty than the background limit of the flusher or of its domains allows
    /// (`wb_over_bg_thresh`).
    fn is_over_background(&mut self, owner: Memcg, now: u64) -> bool {
        let machine = self.parts.machine_domain(self.on.settings);
        let cgroup = (owner != Memcg::ROOT)
            .then(|| (owner, self.parts.cgroup_domain(self.on.settings, owner, &machine)));
        let domains = [Some((Memcg::ROOT, machine)), cgroup];
        domains
            .into_iter()
            .flatten()
            .any(|(of, domain)| self.parts.page_cache.is_over(owner, of, &domain, now))
    }
}

impl PageCache {
    /// Asks all flushers to write everything, as reclaim finds nothing but dirty pages
    /// (`wakeup_flusher_threads`).
    pub fn wakeup_flusher_threads(&mut self) {
        for wb in self.writeback.wbs.iter_mut().flatten() {
            wb.start_all |= wb.nr_dirty > 0;
        }
    }

    /// Starts a run of the next flusher that has something to do and is not running.
    pub fn start_flusher(&mut self, now: Time) -> Option<Flusher> {
        let now = jiffies_at(now);
        let wbs = self.writeback.wbs.iter_mut().enumerate();
        let due =
            |wb: &super::Wb| wb.start_all || wb.start_background || wb.wakes_at.is_some_and(|at| at <= now);
        let (memcg, wb) = wbs
            .filter_map(|(memcg, wb)| Some((memcg, wb.as_mut()?)))
            .find(|(_, wb)| !wb.running && due(wb))?;
        wb.running = true;
        wb.start_background = false;
        wb.wakes_at = None;
        Some(Flusher { wb: Memcg(memcg as u16), work: None, done: None, slice: None, pass: None })
    }

    /// Whether a flusher that is not running has been asked to write.
    pub fn has_flusher_to_run(&self) -> bool {
        self.writeback.wbs.iter().flatten().any(|wb| wb.start_all || wb.start_background)
    }

    fn is_over(&mut self, owner: Memcg, of: Memcg, limits: &DirtyThrottleControl, now: u64) -> bool {
        let domain = self.writeback.domain(of);
        domain.age(now);
        let (dirty, all) = (domain.nr_dirty, domain.completions);
        let wb = self.writeback.wb(owner);
        let share = wb.completions(of).of(&all);
        dirty > limits.bg_thresh || wb.nr_dirty > share_of_thresh(limits.bg_thresh, dirty, share)
    }
}

impl Parts {
    /// Starts the writeback of the next dirty folios of a file that are neighbours, at most `most` pages.
    /// Returns whether there were any.
    fn write_run(&mut self, slice: &mut Slice, most: u64) -> bool {
        let mut pages = 0;
        while slice.left > 0 && pages < most {
            let file = self.page_cache.writeback.file(slice.file);
            let end = if slice.wrapped && slice.begin > 0 { slice.begin } else { u32::MAX };
            let Some(&index) = file.pages.range(slice.index.min(end)..end).next() else {
                if pages > 0 || slice.wrapped {
                    break;
                }
                (slice.wrapped, slice.index) = (true, 0);
                continue;
            };
            if pages > 0 && index != slice.index {
                break;
            }
            if !file.has_block(index) {
                if pages > 0 {
                    break;
                }
                slice.extent_left =
                    self.choose_blocks(slice.file, index..end, slice.left.min(LONGEST_EXTENT));
            }
            let id = self.page_cache.files.folio(slice.file, index).expect("a dirty page is in memory");
            let flags = self.lrus.folios.flags[id];
            slice.index = index + flags.nr_pages() as u32;
            // It was dirtied again while it is being written, and has to wait.
            if flags.has(FolioFlags::WRITEBACK) {
                if pages > 0 {
                    break;
                }
                continue;
            }
            self.start_writeback(id);
            pages += flags.nr_pages();
            slice.left = slice.left.saturating_sub(flags.nr_pages());
            if slice.extent_left > 0 {
                slice.extent_left = slice.extent_left.saturating_sub(flags.nr_pages());
                if slice.extent_left == 0 {
                    break;
                }
            }
        }
        pages > 0
    }

    /// Chooses blocks for the first of `pages`, which is dirty, and for the dirty pages right behind it that
    /// have none, at most `most` pages in all. Returns how many.
    fn choose_blocks(&mut self, file: FileId, pages: Range<u32>, most: u64) -> u64 {
        let dirty = &self.page_cache.writeback.files[file.0 as usize];
        let (first, mut end) = (pages.start, pages.start);
        for &index in dirty.pages.range(pages) {
            if index != end || dirty.has_block(index) || u64::from(end - first) >= most {
                break;
            }
            let id = self.page_cache.files.folio(file, index).expect("a dirty page is in memory");
            end += self.lrus.folios.flags[id].nr_pages() as u32;
        }
        self.page_cache.writeback.file(file).allocate_blocks(first..end);
        u64::from(end - first)
    }
}
