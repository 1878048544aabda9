//! Writeback: who may dirty more pages of files, and who writes them to their device.
//!
//! ```text
//!   write ─► dirty ──────────────────────────► flusher ─► under writeback ─► clean
//!     │        │                                  ▲ ▲ ▲
//!     │        ├─ above the background limit ─────┘ │ │        flusher: which files, how much of each
//!     │        ├─ older than vm.dirty_expire_centisecs│
//!     │        └─ reclaim finds nothing else ─────────┘
//!     ▼
//!   throttle: a task that dirties pages faster than its device writes is paused, long before the limit
//! ```
//!
//! A file belongs to the memory cgroup whose task dirtied it first, as with cgroup v2. Each such memcg has a
//! flusher with its own rates (`struct bdi_writeback`), and besides the machine's dirty limit one that
//! follows from its own memory. All files are on one device. The decisions are in [`policy`]. In the kernel:
//! mm/page-writeback.c, fs/fs-writeback.c.

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

/// The list of its flusher that a file is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listed {
    /// None: the file is clean.
    #[default]
    None,
    Dirty,
    Io,
    MoreIo,
    /// None: the file is being written (`I_SYNC`).
    Writing,
}

/// The dirty pages of a file (`struct inode`).
#[derive(Clone, Debug, Default)]
struct DirtyFile {
    /// The first pages of its dirty folios.
    pages: BTreeSet<u32>,
    /// The memcg whose flusher writes the file (`i_wb`).
    wb: Option<Memcg>,
    listed: Listed,
    /// When the file became dirty, in jiffies (`dirtied_when`).
    dirtied_when: u64,
    /// The page where its last writeback ended (`writeback_index`).
    writeback_index: u32,
    /// Number of folios under writeback.
    under_writeback: u32,
    /// Which pages have blocks on the device; `None` if all have.
    blocks: Option<Blocks>,
}

impl DirtyFile {
    fn has_block(&self, page: u32) -> bool {
        self.blocks.as_ref().is_none_or(|blocks| blocks.has(page))
    }

    /// Notes that blocks have been chosen for these pages.
    fn allocate_blocks(&mut self, pages: Range<u32>) {
        if let Some(blocks) = &mut self.blocks {
            blocks.add(pages);
        }
    }
}

/// Which pages of a file have blocks on its device: one bit each.
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

/// The lists and rates of a flusher (`struct bdi_writeback`).
#[derive(Clone, Debug)]
struct Wb {
    /// Files in the order in which they became dirty.
    b_dirty: VecDeque<FileId>,
    /// Files that are written next, in this order.
    b_io: VecDeque<FileId>,
    /// Files whose slice was used up before they were clean.
    b_more_io: VecDeque<FileId>,
    /// Dirty pages of its files.
    nr_dirty: u64,
    nr_writeback: u64,
    /// Pages dirtied and pages written since boot.
    nr_dirtied: u64,
    nr_written: u64,
    rates: Rates,
    /// When rates were last estimated, in jiffies, and `nr_dirtied` and `nr_written` at that time.
    updated: u64,
    dirtied_stamp: u64,
    written_stamp: u64,
    /// Number of files with folios under writeback.
    under_writeback: u32,
    /// When a timer estimates rates after the last file was written, in jiffies (`bw_dwork`).
    update_at: Option<u64>,
    dirty_exceeded: bool,
    /// Its share of all completions of the machine, and of those of its memory cgroup.
    completions: [Proportion; 2],
    /// Whether it has been asked to write everything (`WB_start_all`).
    start_all: bool,
    /// Whether a task has seen the background limit exceeded.
    start_background: bool,
    /// When it last wrote files that had been dirty for long, in jiffies (`last_old_flush`).
    last_old_flush: u64,
    /// When it runs next without being asked, in jiffies.
    wakes_at: Option<u64>,
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

    /// Its completions, as a part of all in the domain of `of`: the machine, or its memory cgroup.
    fn completions(&mut self, of: Memcg) -> &mut Proportion {
        &mut self.completions[usize::from(of != Memcg::ROOT)]
    }

    fn has_dirty_files(&self) -> bool {
        !(self.b_dirty.is_empty() && self.b_io.is_empty() && self.b_more_io.is_empty())
    }

    /// Begins a new measurement if nothing has been written for a while (`wb_bandwidth_estimate_start`).
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

    /// Estimates rates as the timer would have done, if it has expired meanwhile
    /// (`wb_update_bandwidth_workfn`).
    fn catch_up(&mut self, now: u64) {
        if let Some(at) = self.update_at.take_if(|at| *at <= now) {
            self.update_bandwidth(at.max(self.updated));
        }
    }

    /// Estimates how fast the device writes (`wb_update_bandwidth`).
    fn update_bandwidth(&mut self, now: u64) {
        let elapsed = (now - self.updated).max(1);
        self.rates.note_written(self.nr_written - self.written_stamp, elapsed);
        self.stamp(now);
    }
}

/// The dirty pages of the machine or of a memory cgroup, and the limit on them (`struct wb_domain`).
#[derive(Clone, Copy, Debug)]
struct Domain {
    /// The limit in force, in pages.
    dirty_limit: u64,
    /// When the limit in force was last adapted, in jiffies.
    limit_updated: u64,
    /// All completions of writeback in this domain.
    completions: Proportion,
    /// When completions are next aged, in jiffies (`period_timer`).
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

    /// Ages the completions, so that old ones count less (`writeout_period`).
    fn age(&mut self, now: u64) {
        let Some(end) = self.period_end.filter(|&end| now >= end) else {
            return;
        };
        let periods = (now - end) / COMPLETIONS_PERIOD + 1;
        let left = self.completions.age(periods);
        self.period_end = left.then_some(end + periods * COMPLETIONS_PERIOD);
    }

    /// Adapts the limit in force to the one that settings ask for (`domain_update_dirty_limit`).
    fn follow(&mut self, thresh: u64, dirty: u64, now: u64) {
        if now >= self.limit_updated + BANDWIDTH_INTERVAL {
            self.dirty_limit = policy::follow(self.dirty_limit, thresh, dirty);
            self.limit_updated = now;
        }
    }
}

/// The state of writeback: files, flushers and domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writeback {
    /// Indexed by file.
    files: Vec<DirtyFile>,
    /// Indexed by memory cgroup; the first is the root's.
    wbs: Vec<Option<Box<Wb>>>,
    domains: Vec<Option<Domain>>,
    /// When a task was last paused, in jiffies.
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
        self.wbs[memcg.index()].as_mut().expect("a flusher is made when its first file becomes dirty")
    }

    fn domain(&mut self, memcg: Memcg) -> &mut Domain {
        let index = memcg.index();
        if self.domains.len() <= index {
            self.domains.resize(index + 1, None);
        }
        self.domains[index].get_or_insert(Domain::NEW)
    }

    /// The domain of a memory cgroup, or a new one if nothing has been dirty in it yet.
    fn known_domain(&self, memcg: Memcg) -> Domain {
        self.domains.get(memcg.index()).copied().flatten().unwrap_or(Domain::NEW)
    }

    /// Returns the memcg whose flusher writes a file: the first one that dirtied it. Makes the flusher if
    /// there is none.
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
    /// Marks a file as having no blocks on its device yet: its file system chooses them when pages are
    /// written (delayed allocation).
    pub fn set_delayed_allocation(&mut self, file: FileId) {
        self.writeback.file(file).blocks = Some(Blocks::default());
    }

    /// Dirty pages of files (`nr_dirty`).
    pub fn nr_dirty(&self) -> u64 {
        self.writeback.known_domain(Memcg::ROOT).nr_dirty
    }

    /// Pages under writeback, of files and of swap (`nr_writeback`).
    pub fn nr_writeback(&self) -> u64 {
        self.writeback.known_domain(Memcg::ROOT).nr_writeback
    }
}
