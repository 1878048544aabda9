//! Dirty pages of files: who may make more, and who writes them to their device.
//!
//! ```text
//!   write ─► dirty ──────────────────────────► flusher ─► under writeback ─► clean
//!     │        │                                  ▲ ▲ ▲
//!     │        ├─ above the background limit ─────┘ │ │        flusher: which files, how much of each
//!     │        ├─ older than vm.dirty_expire_centisecs│
//!     │        └─ reclaim meets nothing else ─────────┘
//!     ▼
//!   throttle: a task that dirties faster than its device writes has to wait, long before the limit
//! ```
//!
//! A file belongs to the memory cgroup whose task first made it dirty, as with cgroup v2; each such group has a flusher with
//! rates of its own (`struct bdi_writeback`), and a limit by its own memory beside that of the machine. All files are on one
//! device. What decides is in [`policy`]. In the kernel: mm/page-writeback.c, fs/fs-writeback.c.

use crate::counters::Event;
use crate::folio::{Census, FolioFlags, FolioId};
use crate::jiffies::jiffies_at;
use crate::memcontrol::Memcg;
use crate::page_alloc::MemoryManager;
use crate::xarray::FileId;
use machine::{PageSize, Time};
use policy::{BANDWIDTH_INTERVAL, COMPLETIONS_PERIOD, DirtyThrottleControl, Proportion, Rates};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

mod flusher;
pub mod policy;
mod throttle;

pub use flusher::{Flush, Flusher};
pub use throttle::Dirtier;

/// On which list of its flusher a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listed {
    /// It is clean.
    #[default]
    None,
    Dirty,
    Io,
    MoreIo,
    /// On none: it is being written (`I_SYNC`).
    Writing,
}

/// What is dirty of a file (`struct inode`).
#[derive(Clone, Debug, Default)]
struct DirtyFile {
    /// First pages of its dirty folios.
    pages: BTreeSet<u32>,
    /// Whose flusher writes it.
    wb: Option<Memcg>,
    listed: Listed,
    /// When it became dirty, jiffies.
    dirtied_when: u64,
    /// Where its last writing ended.
    writeback_index: u32,
    /// Folios under writeback.
    under_writeback: u32,
    /// Where its blocks are, if it was not all on the device from the start.
    blocks: Option<Blocks>,
}

impl DirtyFile {
    fn has_block(&self, page: u32) -> bool {
        self.blocks.as_ref().is_none_or(|blocks| blocks.has(page))
    }

    /// Blocks of these pages have been chosen.
    fn allocate_blocks(&mut self, pages: Range<u32>) {
        if let Some(blocks) = &mut self.blocks {
            blocks.add(pages);
        }
    }
}

/// Pages of a file that have blocks on its device: a bit each.
#[derive(Clone, Debug, Default)]
struct Blocks(Vec<u64>);

impl Blocks {
    fn has(&self, page: u32) -> bool {
        self.0.get(page as usize / 64).is_some_and(|bits| bits >> (page % 64) & 1 == 1)
    }

    fn add(&mut self, pages: Range<u32>) {
        self.0.resize(self.0.len().max(pages.end.div_ceil(64) as usize), 0);
        pages.for_each(|page| self.0[page as usize / 64] |= 1 << (page % 64));
    }
}

/// A flusher's files and rates (`struct bdi_writeback`).
#[derive(Clone, Debug)]
struct Wb {
    /// Files in the order in which they became dirty.
    b_dirty: VecDeque<FileId>,
    /// Those whose turn it is, the next one first.
    b_io: VecDeque<FileId>,
    /// Those that had their turn and are not done.
    b_more_io: VecDeque<FileId>,
    /// Dirty pages of its files.
    nr_dirty: u64,
    nr_writeback: u64,
    /// Pages that were made dirty, and written, since boot.
    nr_dirtied: u64,
    nr_written: u64,
    rates: Rates,
    /// When rates were last learned, jiffies, and what had been dirtied and written then.
    updated: u64,
    dirtied_stamp: u64,
    written_stamp: u64,
    /// Files with folios under writeback.
    under_writeback: u32,
    /// When rates are learned after the last file was written, jiffies.
    update_at: Option<u64>,
    dirty_exceeded: bool,
    /// Of all that the machine, and its memory cgroup, has written.
    completions: [Proportion; 2],
    /// Somebody wants all written (`WB_start_all`).
    start_all: bool,
    /// A task has seen the background limit crossed.
    start_background: bool,
    /// When files were last looked for that have been dirty for long, jiffies.
    last_old_flush: u64,
    /// When the flusher runs next of its own accord, jiffies.
    wakes_at: Option<u64>,
    /// It runs.
    running: bool,
}

impl Wb {
    fn new(page_size: PageSize) -> Wb {
        Wb {
            b_dirty: VecDeque::new(),
            b_io: VecDeque::new(),
            b_more_io: VecDeque::new(),
            nr_dirty: 0,
            nr_writeback: 0,
            nr_dirtied: 0,
            nr_written: 0,
            rates: Rates::new(page_size),
            updated: 0,
            dirtied_stamp: 0,
            written_stamp: 0,
            under_writeback: 0,
            update_at: None,
            dirty_exceeded: false,
            completions: [Proportion::default(); 2],
            start_all: false,
            start_background: false,
            last_old_flush: 0,
            wakes_at: None,
            running: false,
        }
    }

    /// What it has written of all that was written in the machine, or in its memory cgroup.
    fn completions(&mut self, of: Memcg) -> &mut Proportion {
        &mut self.completions[usize::from(of != Memcg::ROOT)]
    }

    fn has_dirty_files(&self) -> bool {
        !(self.b_dirty.is_empty() && self.b_io.is_empty() && self.b_more_io.is_empty())
    }

    /// Begins to measure anew, after a while in which nothing was written (`wb_bandwidth_estimate_start`).
    fn start_estimate(&mut self, now: u64) {
        if now - self.updated > BANDWIDTH_INTERVAL && self.under_writeback == 0 {
            self.stamp(now);
        }
    }

    fn stamp(&mut self, now: u64) {
        self.dirtied_stamp = self.nr_dirtied;
        self.written_stamp = self.nr_written;
        self.updated = now;
    }

    /// Does what a timer was to do since the last file was written (`wb_update_bandwidth_workfn`).
    fn catch_up(&mut self, now: u64) {
        if let Some(at) = self.update_at.take_if(|at| *at <= now) {
            self.update_bandwidth(at.max(self.updated));
        }
    }

    /// Learns how fast the device writes.
    fn update_bandwidth(&mut self, now: u64) {
        let elapsed = (now - self.updated).max(1);
        self.rates.note_written(self.nr_written - self.written_stamp, elapsed);
        self.stamp(now);
    }
}

/// Of the machine, or of a memory cgroup (`struct wb_domain`).
#[derive(Clone, Copy, Debug)]
struct Domain {
    /// The limit in force, pages.
    dirty_limit: u64,
    /// When it last followed, jiffies.
    limit_updated: u64,
    /// All that was written.
    completions: Proportion,
    /// When what was written counts less next, jiffies.
    period_end: Option<u64>,
    nr_dirty: u64,
    nr_writeback: u64,
}

impl Domain {
    const NEW: Domain = Domain {
        dirty_limit: 0,
        limit_updated: 0,
        completions: Proportion::of_all(),
        period_end: None,
        nr_dirty: 0,
        nr_writeback: 0,
    };

    /// Lets old completions count less (`writeout_period`).
    fn age(&mut self, now: u64) {
        let Some(end) = self.period_end.filter(|&end| now >= end) else {
            return;
        };
        let periods = (now - end) / COMPLETIONS_PERIOD + 1;
        let left = self.completions.age(periods);
        self.period_end = left.then_some(end + periods * COMPLETIONS_PERIOD);
    }

    /// The limit follows what is asked for (`domain_update_dirty_limit`).
    fn follow(&mut self, thresh: u64, dirty: u64, now: u64) {
        if now >= self.limit_updated + BANDWIDTH_INTERVAL {
            self.dirty_limit = policy::follow(self.dirty_limit, thresh, dirty);
            self.limit_updated = now;
        }
    }
}

/// All that is dirty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writeback {
    /// By file.
    files: Vec<DirtyFile>,
    /// By memory cgroup, the machine's first.
    wbs: Vec<Option<Box<Wb>>>,
    domains: Vec<Option<Domain>>,
    /// When a task was last made to wait, jiffies.
    last_bdp_sleep: Option<u64>,
}

impl Writeback {
    fn file(&mut self, file: FileId) -> &mut DirtyFile {
        let index = file.0 as usize;
        if self.files.len() <= index {
            self.files.resize_with(index + 1, DirtyFile::default);
        }
        &mut self.files[index]
    }

    fn wb(&mut self, memcg: Memcg) -> &mut Wb {
        self.wbs[memcg.index()].as_mut().expect("made when its first file became dirty")
    }

    fn domain(&mut self, memcg: Memcg) -> &mut Domain {
        let index = memcg.index();
        if self.domains.len() <= index {
            self.domains.resize(index + 1, None);
        }
        self.domains[index].get_or_insert(Domain::NEW)
    }

    /// What is known of a domain, in which nothing may have been dirty yet.
    fn known_domain(&self, memcg: Memcg) -> Domain {
        self.domains.get(memcg.index()).copied().flatten().unwrap_or(Domain::NEW)
    }

    /// A file's flusher, which writes files that `memcg` makes dirty.
    fn attach(&mut self, file: FileId, memcg: Memcg, page_size: PageSize) -> Memcg {
        let wb = *self.file(file).wb.get_or_insert(memcg);
        if self.wbs.len() <= wb.index() {
            self.wbs.resize_with(wb.index() + 1, || None);
        }
        self.wbs[wb.index()].get_or_insert_with(|| Box::new(Wb::new(page_size)));
        wb
    }
}

impl MemoryManager {
    /// A file has nothing on its device yet: its file system chooses blocks when pages are written there (delayed allocation).
    pub fn set_delayed_allocation(&mut self, file: FileId) {
        self.writeback.file(file).blocks = Some(Blocks::default());
    }

    /// Notes that a folio of a file differs from its device; whether it did not before.
    pub(crate) fn mark_dirty(&mut self, now: Time, id: FolioId) -> bool {
        let flags = &mut self.folios.flags[id];
        if flags.has(FolioFlags::DIRTY) {
            return false;
        }
        flags.set(FolioFlags::DIRTY);
        let pages = flags.nr_pages();
        self.counters.add(Event::NrDirtied, pages);
        self.for_domains_of(id, |domain| domain.nr_dirty += pages);
        let (file, index) = self.page_of_folio(id);
        let memcg = self.memcg_of(id);
        let interval = self.writeback_interval();
        let now = jiffies_at(now);
        let page_size = self.page_size();
        let owner = self.writeback.attach(file, memcg, page_size);
        let dirty = self.writeback.file(file);
        dirty.pages.insert(index);
        let was_clean = dirty.listed == Listed::None;
        if was_clean {
            (dirty.listed, dirty.dirtied_when) = (Listed::Dirty, now);
        }
        let wb = self.writeback.wb(owner);
        wb.nr_dirty += pages;
        wb.nr_dirtied += pages;
        if was_clean {
            wb.b_dirty.push_back(file);
            if wb.wakes_at.is_none() && !wb.running {
                wb.wakes_at = interval.map(|interval| now + interval);
            }
        }
        true
    }

    /// A device begins to write a dirty folio of a file.
    fn start_writeback(&mut self, id: FolioId) {
        let flags = &mut self.folios.flags[id];
        flags.clear(FolioFlags::DIRTY);
        let pages = flags.nr_pages();
        self.for_domains_of(id, |domain| domain.nr_dirty -= pages);
        self.note_writeback(id);
        let (file, index) = self.page_of_folio(id);
        let dirty = self.writeback.file(file);
        dirty.pages.remove(&index);
        dirty.under_writeback += 1;
        let first = dirty.under_writeback == 1;
        let owner = dirty.wb.expect("it was dirty");
        let wb = self.writeback.wb(owner);
        wb.nr_dirty -= pages;
        wb.nr_writeback += pages;
        wb.under_writeback += u32::from(first);
        self.folio_mkclean(id);
    }

    /// Counts a folio of a file or of swap that a device begins to write, which is to be told what of it.
    pub(crate) fn note_writeback(&mut self, id: FolioId) {
        self.folios.flags[id].set(FolioFlags::WRITEBACK);
        let pages = self.folios.flags[id].nr_pages();
        self.for_domains_of(id, |domain| domain.nr_writeback += pages);
        self.submitted_writes.push(id);
    }

    /// A device has written a folio.
    pub(crate) fn end_writeback(&mut self, now: Time, id: FolioId) {
        let flags = &mut self.folios.flags[id];
        flags.clear(FolioFlags::WRITEBACK);
        let pages = flags.nr_pages();
        let is_file = !flags.has(FolioFlags::SWAPBACKED);
        self.counters.add(Event::NrWritten, pages);
        self.for_domains_of(id, |domain| domain.nr_writeback -= pages);
        if !is_file {
            return;
        }
        let now = jiffies_at(now);
        let (file, _) = self.page_of_folio(id);
        let dirty = self.writeback.file(file);
        dirty.under_writeback -= 1;
        let last = dirty.under_writeback == 0;
        let owner = dirty.wb.expect("it was dirty");
        let own = (owner != Memcg::ROOT).then_some(owner);
        for of in [Memcg::ROOT].into_iter().chain(own) {
            let domain = self.writeback.domain(of);
            domain.age(now);
            domain.period_end.get_or_insert(now + COMPLETIONS_PERIOD);
            let mut all = domain.completions;
            self.writeback.wb(owner).completions(of).add(pages, &mut all);
            self.writeback.domain(of).completions = all;
        }
        let wb = self.writeback.wb(owner);
        wb.nr_writeback -= pages;
        wb.nr_written += pages;
        wb.under_writeback -= u32::from(last);
        if last {
            wb.update_at = Some(now + BANDWIDTH_INTERVAL);
        }
    }

    /// Dirty pages of files (`nr_dirty`).
    pub fn nr_dirty(&self) -> u64 {
        self.writeback.known_domain(Memcg::ROOT).nr_dirty
    }

    /// Pages that devices are writing (`nr_writeback`).
    pub fn nr_writeback(&self) -> u64 {
        self.writeback.known_domain(Memcg::ROOT).nr_writeback
    }

    /// From where on flushers write, and how much may be dirty, pages (`nr_dirty_background_threshold`,
    /// `nr_dirty_threshold`).
    pub fn dirty_thresholds(&self) -> (u64, u64) {
        let domain = self.machine_domain();
        (domain.bg_thresh, domain.thresh)
    }

    /// What the machine's limits are (`domain_dirty_avail`, `domain_dirty_limits`).
    fn machine_domain(&self) -> DirtyThrottleControl {
        let free = self.free_pages().saturating_sub(self.totalreserve_pages());
        self.limits_of(Memcg::ROOT, free + self.nr_file_lru() + 1, None)
    }

    /// The same of a memory cgroup below.
    fn cgroup_domain(&self, memcg: Memcg, machine: &DirtyThrottleControl) -> DirtyThrottleControl {
        let tree = self.memcgs.tree(memcg).into_iter();
        let file_pages =
            tree.flat_map(|memcg| self.lruvecs.of(memcg)).map(|lruvec| lruvec.stat.nr_file()).sum();
        let domain = self.writeback.known_domain(memcg);
        let dirty = domain.nr_dirty + domain.nr_writeback;
        let avail = policy::cgroup_avail(file_pages, dirty, self.memcgs.margin(memcg), machine);
        self.limits_of(memcg, avail, Some(machine.avail))
    }

    fn limits_of(&self, memcg: Memcg, avail: u64, machine_avail: Option<u64>) -> DirtyThrottleControl {
        let (settings, page_size) = (&self.settings.dirty, self.page_size());
        let (thresh, bg_thresh) = policy::dirty_limits(settings, page_size, avail, machine_avail);
        let domain = self.writeback.known_domain(memcg);
        DirtyThrottleControl {
            avail,
            dirty: domain.nr_dirty + domain.nr_writeback,
            thresh,
            bg_thresh,
            limit: thresh.max(domain.dirty_limit),
            ..DirtyThrottleControl::default()
        }
    }

    /// `vm.dirty_writeback_centisecs` in jiffies, if flushers run of their own accord.
    fn writeback_interval(&self) -> Option<u64> {
        let centisecs = self.settings.dirty.dirty_writeback_centisecs;
        (centisecs > 0).then(|| crate::jiffies::jiffies(centisecs * 10))
    }

    fn memcg_of(&self, id: FolioId) -> Memcg {
        self.lruvecs[self.folios[id].lruvec].memcg
    }

    /// The memory cgroup of a folio and all above.
    fn for_domains_of(&mut self, id: FolioId, mut change: impl FnMut(&mut Domain)) {
        let memcg = self.memcg_of(id);
        let MemoryManager { memcgs, writeback, .. } = self;
        memcgs.and_above(memcg).for_each(|above| change(writeback.domain(above)));
    }

    /// Checks what is known of dirty pages against the folios; panics with what is wrong.
    pub(crate) fn validate_dirty_pages(&self, census: &Census) {
        let mut known: Vec<(FileId, u32)> = Vec::new();
        for (number, file) in self.writeback.files.iter().enumerate() {
            let id = FileId(number as u32);
            known.extend(file.pages.iter().map(|&index| (id, index)));
            assert!(
                file.pages.is_empty() || file.listed != Listed::None,
                "a dirty file waits for its flusher"
            );
        }
        known.sort();
        let files = |flag: FolioFlags| {
            let has = move |id: &FolioId| {
                let flags = self.folios.flags[*id];
                flags.has(flag) && !flags.has(FolioFlags::SWAPBACKED)
            };
            census.all(&self.folios).map(|(id, _)| id).filter(has)
        };
        let mut dirty: Vec<(FileId, u32)> =
            files(FolioFlags::DIRTY).map(|id| self.page_of_folio(id)).collect();
        dirty.sort();
        assert_eq!(known, dirty, "dirty pages of files are known, each once");
        let pages = |id: FolioId| self.folios.flags[id].nr_pages();
        let nr_dirty: u64 = files(FolioFlags::DIRTY).map(pages).sum();
        let nr_writeback: u64 = files(FolioFlags::WRITEBACK).map(pages).sum();
        let all = census.all(&self.folios).map(|(id, _)| id);
        let writing =
            all.filter(|&id| self.folios.flags[id].has(FolioFlags::WRITEBACK)).map(pages).sum::<u64>();
        assert_eq!((self.nr_dirty(), self.nr_writeback()), (nr_dirty, writing), "nr_dirty, nr_writeback");
        let wbs = || self.writeback.wbs.iter().flatten();
        assert_eq!(wbs().map(|wb| wb.nr_dirty).sum::<u64>(), nr_dirty, "dirty pages of all flushers");
        assert_eq!(
            wbs().map(|wb| wb.nr_writeback).sum::<u64>(),
            nr_writeback,
            "pages that flushers have written"
        );
    }
}
