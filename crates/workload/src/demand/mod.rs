//! Demand for memory: what programs read and touch, for kernels that run out of it.
//!
//! Reclaim depends on which pages are needed again. A program is therefore modelled as the sequence of pages
//! that it asks for: pages of files that it reads through the page cache, and pages of its own memory. What
//! is resident, what a miss costs and who waits is up to the kernel and the machine.
//!
//! ```text
//!   spec (scenario file) ──► Demand ── next(thread) ──► Compute ─ Read ─ Touch ─ TransactionEnd ...
//!                               │
//!                               ├─ groups    memcgs that are charged
//!                               ├─ files     length, advice and descriptors of each
//!                               ├─ regions   size and owner of private memory
//!                               └─ threads   how many reads each may have in flight
//! ```
//!
//! - [`groups`]: threads that access objects at random, by Zipf's law or sequentially. fio is one group of
//!   them.
//! - [`memcached`]: keys written one after the other into slabs, which are anonymous pages.
//! - [`sysbench`]: rows read through a database's buffer pool.
//! - [`tpcc`]: MongoDB's STOCK_LEVEL, which reads documents all over two files through WiredTiger's cache.
//!
//! Programs with a cache of their own (memcached, InnoDB, WiredTiger) are modelled with that cache
//! ([`buffer_pool`]), because it decides which reads the kernel sees.
//!
//! Every thread has its own stream of random numbers. Threads that share a cache use it in the order in which
//! `next` is called, which is the order of virtual time.

pub mod buffer_pool;
pub mod distribution;
pub mod groups;
pub mod memcached;
pub mod spec;
pub mod sysbench;
pub mod tpcc;

use machine::profile::Figure;
use mm::readahead::Advice;

/// Size of a page in bytes; demand is in these pages whatever the machine's base page is.
pub const PAGE_SIZE: u64 = 4096;

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes without touching memory.
    Compute { nanoseconds: u64 },
    /// Reads pages of a file through the page cache, in one system call.
    Read {
        /// Index into [`Layout::files`].
        file: u32,
        index: u64,
        /// Number of pages.
        pages: u32,
    },
    /// Overwrites pages of a file through the page cache, in one system call.
    Write {
        /// Index into [`Layout::files`].
        file: u32,
        index: u64,
        /// Number of pages.
        pages: u32,
    },
    /// Accesses private memory.
    Touch {
        /// Index into [`Layout::regions`].
        region: u32,
        index: u64,
        /// Number of pages.
        pages: u32,
        write: bool,
    },
    /// Frees all memory of a region, as at the exit of a process; the next process in it starts with none.
    Release {
        /// Index into [`Layout::regions`].
        region: u32,
    },
    /// Ends a transaction, the unit that the benchmark counts.
    TransactionEnd,
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Length in pages.
    pub pages: u64,
    /// `posix_fadvise` for its reads.
    pub advice: Advice,
    /// Which threads share a file descriptor. Readahead sees the reads of one descriptor as one stream.
    pub descriptor: Descriptor,
    /// Whether the program creates the file, so that nothing of it is on the device before.
    pub new: bool,
}

/// How threads open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// One descriptor for all threads.
    Shared,
    /// One descriptor per thread.
    PerThread,
}

/// A process: threads with common private memory, which the OOM killer kills together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The memcg to which its memory is charged, and the file pages that it reads first.
    pub group: u32,
}

/// The private memory of a process, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Length in pages; untouched pages take no memory.
    pub pages: u64,
    /// Index into [`Layout::processes`].
    pub process: u32,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Index into [`Layout::processes`].
    pub process: u32,
    /// Reads that it may have in flight; with 1 it waits for each.
    pub outstanding: u32,
    /// Virtual time at which it starts, in milliseconds.
    pub start_milliseconds: u64,
}

impl Thread {
    /// A thread of `process` that starts at once and waits for each of its reads.
    pub const fn of(process: u32) -> Thread {
        Thread { process, outstanding: 1, start_milliseconds: 0 }
    }
}

/// The processes, files, memory and threads of a demand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub processes: Vec<Process>,
    pub files: Vec<File>,
    pub regions: Vec<Region>,
    pub threads: Vec<Thread>,
}

/// One or several programs, as a stream of operations for each thread.
pub trait Demand {
    fn layout(&self) -> &Layout;

    /// Queries per transaction, if the benchmark counts both.
    fn queries_per_transaction(&self) -> Option<u32> {
        None
    }

    /// The next operation of `thread`; `None` when it is done.
    fn next(&mut self, thread: usize) -> Option<Operation>;
}

/// The value of a figure, rounded to whole nanoseconds.
pub(crate) fn nanoseconds(figure: &Figure) -> u64 {
    figure.value.round() as u64
}

pub(crate) const MIB_PAGES: u64 = (1 << 20) / PAGE_SIZE;
