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

use crate::lru::memcontrol::Memcg;
use crate::page_cache::PageCache;
use crate::page_cache::xarray::FileId;
use machine::PageSize;
use policy::{BANDWIDTH_INTERVAL, COMPLETIONS_PERIOD, Proportion, Rates};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

mod dirty;
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

impl PageCache {
    /// A file has nothing on its device yet: its file system chooses blocks when pages are written there (delayed allocation).
    pub fn set_delayed_allocation(&mut self, file: FileId) {
        self.writeback.file(file).blocks = Some(Blocks::default());
    }

    /// Dirty pages of files (`nr_dirty`).
    pub fn nr_dirty(&self) -> u64 {
        self.writeback.known_domain(Memcg::ROOT).nr_dirty
    }

    /// Pages that devices are writing (`nr_writeback`).
    pub fn nr_writeback(&self) -> u64 {
        self.writeback.known_domain(Memcg::ROOT).nr_writeback
    }
}
