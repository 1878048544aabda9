//! Writes to files of the kernel, as `echo` makes them.
//!
//! ```text
//!   vm.nr_hugepages, hugepages-2048kB/demote, node1/...   a pool of huge pages: [`crate::hugetlb::write`]
//!   vm.compact_memory, node1/compact                      all zones are compacted: [`crate::compaction`]
//!   vm.drop_caches                                        page cache and shrinkers: [`crate::page_cache`]
//!   any other name                                        a setting: [`crate::sysctl`]
//! ```
//!
//! A write can take long, so it is done in steps. Numbers are parsed as the kernel does: a sysctl takes the first number and rejects one
//! that does not fit with EINVAL; a sysfs file takes a single number and rejects one that does not fit with ERANGE.

use crate::allocator::compaction::CompactNodes;
use crate::hugetlb::write::{PoolFile, PoolWrite, WriteOutcome};
use crate::kernel::{Kernel, MemoryManager};
use crate::page_cache::drop_caches::{self, DropCaches};
use crate::sysctl::{SettingError, is_of_command_line, most_like_file};
use machine::Node;
use std::ops::RangeInclusive;
use thiserror::Error;

/// Why a write is rejected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WriteError {
    /// The file does not exist.
    #[error("{file}: no such file or directory (ENOENT): {remedy}")]
    NoFile {
        file: String,
        /// Which files exist instead.
        remedy: String,
    },
    /// The value is not a number, or not a valid one.
    #[error("{file} = {value:?}: invalid argument (EINVAL); it takes {takes}")]
    Invalid {
        file: String,
        value: String,
        /// What the file takes.
        takes: &'static str,
    },
    /// The number does not fit into 64 bits.
    #[error("{file} = {value}: numerical result out of range (ERANGE); it takes up to 18446744073709551615")]
    Range { file: String, value: String },
    /// Pages of this size cannot be surplus.
    #[error("{file}: invalid argument (EINVAL): gigantic pages cannot be surplus; set nr_hugepages instead")]
    Gigantic { file: String },
    /// The file is a setting, and that rejected the value.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// What a file is.
enum File<'a> {
    /// Of a pool of huge pages, with the number written.
    Pool(PoolFile<'a>, u64),
    /// It compacts a node, or all.
    Compact(Option<Node>),
    DropCaches(u64),
    Setting,
}

#[derive(Debug)]
enum Progress {
    Pool(PoolWrite),
    Compact(CompactNodes),
    DropCaches(DropCaches),
    Nothing,
}

/// A write in progress.
#[derive(Debug)]
pub struct Write {
    progress: Progress,
    outcome: Option<WriteOutcome>,
}

impl Write {
    /// The result, once the write is done; `None` if it is not to a pool.
    pub fn outcome(&self) -> Option<WriteOutcome> {
        self.outcome
    }

    /// Whether it demotes pages.
    pub fn demotes(&self) -> bool {
        matches!(&self.progress, Progress::Pool(write) if write.demotes())
    }
}

/// Parses the number in a write, as the kernel does for this file.
pub(crate) fn number(file: &str, value: &str, takes: &'static str) -> Result<u64, WriteError> {
    let (file, sysctl) = (file.to_string(), file.starts_with("vm."));
    let text = value.trim_ascii();
    let text = if sysctl { text.split_ascii_whitespace().next().unwrap_or("") } else { text };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WriteError::Invalid { file, value: value.into(), takes });
    }
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if sysctl => Err(WriteError::Invalid { file, value: value.into(), takes }),
        Err(_) => Err(WriteError::Range { file, value: value.into() }),
    }
}

/// The number in a write to a file that takes only some, which `takes` says in words.
fn number_within(
    file: &str,
    value: &str,
    (range, takes): (RangeInclusive<u64>, &'static str),
) -> Result<u64, WriteError> {
    let wanted = number(file, value, takes)?;
    match range.contains(&wanted) {
        true => Ok(wanted),
        false => Err(WriteError::Invalid { file: file.into(), value: value.into(), takes }),
    }
}

/// The node whose number is in the name of a file, on a machine with so many.
pub(crate) fn node_of(file: &str, number: &str, nodes: usize) -> Result<Node, WriteError> {
    let node = number.parse().ok().filter(|&node: &u8| usize::from(node) < nodes);
    node.map(Node).ok_or_else(|| WriteError::NoFile {
        file: file.into(),
        remedy: format!("the machine has node0 to node{}", nodes - 1),
    })
}

/// The error of a write to a file that is none of these and that the settings refuse.
fn not_set(file: &str, error: SettingError) -> WriteError {
    match error {
        SettingError::Unknown { .. } => WriteError::NoFile {
            file: file.into(),
            remedy: format!("most like it: {}", most_like_file(file)),
        },
        error => error.into(),
    }
}

impl Kernel<'_> {
    /// Advances a write by one bounded step: a page, a flush, a hold of a lock, some pageblocks or folios. The CPU, whose task writes,
    /// must be the one furthest behind. Returns whether the write is done.
    pub fn step_write(&mut self, write: &mut Write) -> bool {
        match &mut write.progress {
            Progress::Pool(pool) => {
                write.outcome = pool.step(self);
                write.outcome.is_some()
            }
            Progress::Compact(compaction) => compaction.step(self),
            Progress::DropCaches(caches) => caches.step(self),
            Progress::Nothing => true,
        }
    }

    /// Runs all steps of a write.
    pub fn finish_write(&mut self, mut write: Write) -> Option<WriteOutcome> {
        while !self.step_write(&mut write) {}
        write.outcome
    }
}

impl MemoryManager {
    fn written_file<'a>(&self, file: &'a str, value: &str) -> Result<File<'a>, WriteError> {
        if is_of_command_line(file) {
            return Err(SettingError::OfCommandLine { name: file.into() }.into());
        }
        if let Some((pool, count)) = self.find_pool_file(file, value)? {
            return Ok(File::Pool(pool, count));
        }
        if file == "vm.drop_caches" {
            let takes = "1 for page cache, 2 for slabs, 3 for both, 4 for no line in the log";
            return number_within(file, value, (drop_caches::VALUES, takes)).map(File::DropCaches);
        }
        if file == "vm.compact_memory" {
            return number_within(file, value, (1..=1, "1")).map(|_| File::Compact(None));
        }
        let Some(node) = file.strip_suffix("/compact").and_then(|node| node.strip_prefix("node")) else {
            return Ok(File::Setting);
        };
        // Of a node it is a file of sysfs that takes anything.
        node_of(file, node, self.parts.allocator.nodes()).map(|node| File::Compact(Some(node)))
    }

    /// Whether `echo value > file` would be accepted.
    pub fn check_write(&self, file: &str, value: &str) -> Result<(), WriteError> {
        match self.written_file(file, value)? {
            File::Setting => self.settings().clone().set(file, value).map_err(|error| not_set(file, error)),
            _ => Ok(()),
        }
    }

    /// Begins `echo value > file`. All errors are returned here; the work happens in [`Kernel::step_write`].
    pub fn begin_write(&mut self, file: &str, value: &str) -> Result<Write, WriteError> {
        let progress = match self.written_file(file, value)? {
            File::Pool(pool, count) => {
                self.begin_pool_write(&pool, file, count)?.map_or(Progress::Nothing, Progress::Pool)
            }
            File::Compact(None) => {
                Progress::Compact(CompactNodes::new(&self.parts, self.parts.allocator.all_nodes()))
            }
            File::Compact(Some(node)) => {
                Progress::Compact(CompactNodes::new(&self.parts, std::iter::once(node)))
            }
            File::DropCaches(value) => Progress::DropCaches(DropCaches::new(value)),
            File::Setting => {
                self.set(file, value).map_err(|error| not_set(file, error))?;
                Progress::Nothing
            }
        };
        Ok(Write { progress, outcome: None })
    }
}
