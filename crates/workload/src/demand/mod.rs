//! Demand for memory: what programs read and touch, for kernels that run out of it.
//!
//! Reclaim is about which page is needed again. So a program is modelled by the pages that it asks for, in order: pages
//! of files that it reads through the page cache, and pages of its own memory. What is resident, what a miss costs and
//! who waits is the kernel's and the machine's business.
//!
//! ```text
//!   spec (scenario file) ──► Demand ── next(thread) ──► Compute ─ Read ─ Touch ─ TransactionEnd ...
//!                               │
//!                               ├─ groups    who is charged: control groups
//!                               ├─ files     how long each is, and which group's reads fill it
//!                               ├─ regions   how much private memory, and whose
//!                               └─ threads   how many reads each may have under way
//! ```
//!
//! - [`groups`]: threads that read or touch at random, by Zipf's law or in a circle. fio is one group of them.
//! - [`kernel_build`]: processes of a recorded build, with the files that compilers read.
//! - [`memcached`]: keys written one after the other into slabs, under memory pressure of anonymous pages.
//! - [`sysbench`]: rows read through a database's own cache of pages.
//! - [`tpcc`]: MongoDB's STOCK_LEVEL, which reads documents all over two files through WiredTiger's cache.
//!
//! Programs that keep a cache of their own (memcached, InnoDB, WiredTiger) are modelled with that cache, because it
//! decides which reads the kernel sees ([`buffer_pool`]).
//!
//! Every thread draws from a stream of random numbers of its own. Threads of a program that share a cache meet in it in
//! the order in which `next` is called, which is the order of virtual time.

pub mod buffer_pool;
pub mod distribution;
pub mod groups;
pub mod kernel_build;
pub mod memcached;
pub mod spec;
pub mod sysbench;
pub mod tpcc;

use machine::profile::Figure;
use mm::readahead::Advice;

/// Bytes of a page.
pub const PAGE_SIZE: u64 = 4096;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes.
    Compute {
        /// CPU time.
        nanoseconds: u64,
    },
    /// Reads from a file through the page cache, in one system call.
    Read {
        /// Index into [`Layout::files`].
        file: u32,
        /// First page.
        index: u64,
        /// How many pages.
        pages: u32,
    },
    /// Overwrites pages of a file through the page cache, in one system call.
    Write {
        /// Index into [`Layout::files`].
        file: u32,
        /// First page.
        index: u64,
        /// How many pages.
        pages: u32,
    },
    /// Touches private memory.
    Touch {
        /// Index into [`Layout::regions`].
        region: u32,
        /// First page.
        index: u64,
        /// How many pages.
        pages: u32,
        /// Whether it writes.
        write: bool,
    },
    /// Gives back all memory of a region, as a process does that ends; the next one begins with nothing.
    Release {
        /// Index into [`Layout::regions`].
        region: u32,
    },
    /// Has done what the benchmark counts.
    TransactionEnd,
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its length.
    pub pages: u64,
    /// What the program tells the kernel of its reads.
    pub advice: Advice,
    /// Who reads it through the same descriptor, and so what readahead takes for one stream.
    pub descriptor: Descriptor,
    /// It is made by who writes it: nothing of it is on the device before.
    pub new: bool,
}

/// How threads open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// Once for all of them.
    Shared,
    /// Each for itself.
    PerThread,
}

/// A process: threads with private memory of their own, which the OOM killer ends together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The control group that its memory is charged to, and pages of files that it reads first.
    pub group: u32,
}

/// A process's private memory, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its length; pages that nobody touches take no memory.
    pub pages: u64,
    /// Index into [`Layout::processes`].
    pub process: u32,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Index into [`Layout::processes`].
    pub process: u32,
    /// Reads that it may have under way at the same time; with 1 it waits for each.
    pub outstanding: u32,
    /// Virtual milliseconds after which it begins.
    pub start_milliseconds: u64,
}

impl Thread {
    /// One of a process that begins at once and waits for each of its reads.
    pub const fn of(process: u32) -> Thread {
        Thread { process, outstanding: 1, start_milliseconds: 0 }
    }
}

/// What a demand is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Processes.
    pub processes: Vec<Process>,
    /// Files.
    pub files: Vec<File>,
    /// Private memory.
    pub regions: Vec<Region>,
    /// Threads.
    pub threads: Vec<Thread>,
}

impl Layout {
    /// Number of control groups.
    pub fn groups(&self) -> u32 {
        self.processes.iter().map(|process| process.group + 1).max().unwrap_or(0)
    }
}

/// A program, or several, as a stream of operations for each thread.
pub trait Demand {
    /// What there is.
    fn layout(&self) -> &Layout;

    /// Queries of a transaction, where the benchmark counts both; none where it knows no queries.
    fn queries_per_transaction(&self) -> Option<u32> {
        None
    }

    /// What `thread` does next; none when it has nothing more to do.
    fn next(&mut self, thread: usize) -> Option<Operation>;
}

/// Whole nanoseconds of a figure.
pub(crate) fn nanoseconds(figure: &Figure) -> u64 {
    figure.value.round() as u64
}

pub(crate) const MIB_PAGES: u64 = (1 << 20) / PAGE_SIZE;
