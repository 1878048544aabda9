//! Writes to the files that resize pools, as `echo` makes them.
//!
//! ```text
//!   vm.nr_hugepages                             sysctl: the default size, all nodes
//!   vm.nr_hugepages_mempolicy                   the default size, nodes of the task's memory policy
//!   hugepages-1048576kB/nr_hugepages            sysfs: one size
//!   node1/hugepages-2048kB/nr_hugepages         one size, one node
//!   .../nr_overcommit_hugepages, .../demote     limit of surplus pages; demotion of large pages
//!   any other name                              a setting, see [`crate::sysctl`]
//! ```
//!
//! A resize takes long, so a write is done in steps. Numbers are parsed as the kernel does: a sysctl takes
//! the first number and rejects one that does not fit with EINVAL; a sysfs file takes a single number and
//! rejects one that does not fit with ERANGE.
//! In the kernel: `hugetlb_sysctl_handler_common`, `nr_hugepages_store_common`, `demote_store` in
//! mm/hugetlb.c.

use super::demote::Demote;
use super::resize::{Resize, Target};
use super::{HugetlbPools, ORDERS};
use crate::kernel::Kernel;
use crate::kernel::MemoryManager;
use crate::sysctl::{SettingError, most_like_setting};
use machine::Node;
use thiserror::Error;

/// Files of the default size.
const VM_FILES: [&str; 3] = ["vm.nr_hugepages", "vm.nr_hugepages_mempolicy", "vm.nr_overcommit_hugepages"];

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
    #[error("{file} = {value:?}: invalid argument (EINVAL); it takes a number of pages, 0 and more")]
    Invalid { file: String, value: String },
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

/// The result of a write, in huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The wanted size of the pool, or the number of pages to demote.
    pub wanted: u64,
    /// The resulting number of persistent pages, or of pages demoted.
    pub reached: u64,
}

#[derive(Clone, Debug)]
enum Progress {
    Resize(Box<Resize>, usize),
    Demote(Demote, u64),
    Nothing,
}

/// A write in progress.
#[derive(Clone, Debug)]
pub struct Write {
    progress: Progress,
    outcome: Option<WriteOutcome>,
}

impl Write {
    /// The result, once the write is done; `None` for settings.
    pub fn outcome(&self) -> Option<WriteOutcome> {
        self.outcome
    }

    /// Whether it demotes pages.
    pub fn demotes(&self) -> bool {
        matches!(self.progress, Progress::Demote(..))
    }
}

/// A file of a pool.
struct PoolFile<'a> {
    h: usize,
    node: Option<Node>,
    attribute: &'a str,
}

impl HugetlbPools {
    /// Index of the pool for `order`, one of [`ORDERS`].
    pub(crate) fn hstate_of(&self, order: u8) -> usize {
        ORDERS.iter().position(|&known| known == order).expect("an order that a pool exists for")
    }

    fn file<'a>(&self, file: &'a str) -> Result<Option<PoolFile<'a>>, WriteError> {
        let missing = |remedy: String| Err(WriteError::NoFile { file: file.into(), remedy });
        if let Some(attribute) = file.strip_prefix("vm.") {
            return Ok(VM_FILES.contains(&file).then_some(PoolFile { h: 0, node: None, attribute }));
        }
        let mut parts: Vec<&str> = file.split('/').collect();
        let mut node = None;
        if parts.len() == 3
            && let Some(number) = parts[0].strip_prefix("node")
        {
            let nodes = self.hstates[0].nr_nodes();
            match number.parse::<u8>() {
                Ok(n) if usize::from(n) < nodes => node = Some(Node(n)),
                _ => return missing(format!("the machine has node0 to node{}", nodes - 1)),
            }
            parts.remove(0);
        }
        let [size, attribute] = parts[..] else { return Ok(None) };
        if !size.starts_with("hugepages-") {
            return Ok(None);
        }
        let name = |kib: u64| format!("hugepages-{kib}kB");
        let Some(h) = self.hstates.iter().position(|h| name(h.kib()) == size) else {
            let sizes: Vec<String> = self.hstates.iter().map(|h| name(h.kib())).collect();
            return missing(format!("page sizes of this machine: {}", sizes.join(", ")));
        };
        let known: &[&str] = match (node, h) {
            (Some(_), _) => &["nr_hugepages"],
            (None, 0) => &["nr_hugepages", "nr_hugepages_mempolicy", "nr_overcommit_hugepages"],
            (None, _) => &["nr_hugepages", "nr_hugepages_mempolicy", "nr_overcommit_hugepages", "demote"],
        };
        if !known.contains(&attribute) {
            return missing(format!("it has {}", known.join(", ")));
        }
        Ok(Some(PoolFile { h, node, attribute }))
    }
}

/// Parses the number in a write, as the kernel does for this file.
fn number(file: &str, value: &str) -> Result<u64, WriteError> {
    let (file, sysctl) = (file.to_string(), file.starts_with("vm."));
    let text = value.trim_ascii();
    let text = if sysctl { text.split_ascii_whitespace().next().unwrap_or("") } else { text };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WriteError::Invalid { file, value: value.into() });
    }
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if sysctl => Err(WriteError::Invalid { file, value: value.into() }),
        Err(_) => Err(WriteError::Range { file, value: value.into() }),
    }
}

impl Kernel<'_> {
    /// Advances a write by one bounded step: a page, a flush or a hold of a lock. The CPU, whose task writes,
    /// must be the one furthest behind. Returns whether the write is done.
    pub fn step_write(&mut self, write: &mut Write) -> bool {
        let (done, outcome) = match &mut write.progress {
            Progress::Resize(resize, h) => {
                let done = resize.step(self);
                (
                    done,
                    Some(WriteOutcome {
                        wanted: resize.count(),
                        reached: self.parts.hugetlb.hstates[*h].max,
                    }),
                )
            }
            Progress::Demote(demote, count) => {
                let done = demote.step(self);
                (done, Some(WriteOutcome { wanted: *count, reached: *count - demote.remaining() }))
            }
            Progress::Nothing => (true, None),
        };
        if done {
            write.outcome = outcome;
        }
        done
    }

    /// Runs all steps of a write.
    pub fn finish_write(&mut self, mut write: Write) -> Option<WriteOutcome> {
        while !self.step_write(&mut write) {}
        write.outcome
    }
}

/// The error of a write to a file that is none of a pool and that the settings refuse.
fn not_set(file: &str, error: SettingError) -> WriteError {
    match error {
        SettingError::Unknown { .. } => WriteError::NoFile {
            file: file.into(),
            remedy: format!(
                "{}; or a setting, most like it {}",
                VM_FILES.join(", "),
                most_like_setting(file)
            ),
        },
        error => error.into(),
    }
}

impl MemoryManager {
    /// The file of a pool with the number to be written; `None` if it is none of a pool.
    fn find_pool_file<'a>(
        &self,
        file: &'a str,
        value: &str,
    ) -> Result<Option<(PoolFile<'a>, u64)>, WriteError> {
        match self.parts.hugetlb.file(file)? {
            Some(pool) => Ok(Some((pool, number(file, value)?))),
            None => Ok(None),
        }
    }

    /// Whether `echo value > file` would be accepted.
    pub fn check_write(&self, file: &str, value: &str) -> Result<(), WriteError> {
        match self.find_pool_file(file, value)? {
            Some(_) => Ok(()),
            None => self.settings().clone().set(file, value).map_err(|error| not_set(file, error)),
        }
    }

    /// Begins `echo value > file`. All errors are returned here; the work happens in [`Kernel::step_write`].
    pub fn begin_write(&mut self, file: &str, value: &str) -> Result<Write, WriteError> {
        let Some((PoolFile { h, node, attribute }, count)) = self.find_pool_file(file, value)? else {
            self.set(file, value).map_err(|error| not_set(file, error))?;
            return Ok(Write { progress: Progress::Nothing, outcome: None });
        };
        let nodes = self.parts.allocator.nodes_with_memory();
        let progress = match attribute {
            "nr_overcommit_hugepages" => {
                if super::folio::is_gigantic(self.parts.hugetlb.hstates[h].order) {
                    return Err(WriteError::Gigantic { file: file.into() });
                }
                self.parts.hugetlb.hstates[h].nr_overcommit = count;
                Progress::Nothing
            }
            "demote" => Progress::Demote(Demote::new(h, 0, nodes, count), count),
            _ => {
                let target = node.map_or(Target::Pool(nodes), Target::Node);
                Progress::Resize(Box::new(Resize::new(h, target, count)), h)
            }
        };
        Ok(Write { progress, outcome: None })
    }
}
