//! Writes to the files that resize pools, as `echo` makes them.
//!
//! ```text
//!   vm.nr_hugepages                             sysctl: the default size, all nodes
//!   vm.nr_hugepages_mempolicy                   the default size, nodes of the task's memory policy
//!   hugepages-1048576kB/nr_hugepages            sysfs: one size
//!   node1/hugepages-2048kB/nr_hugepages         one size, one node
//!   .../nr_overcommit_hugepages, .../demote     limit of surplus pages; demotion of large pages
//! ```
//!
//! A resize takes long, so a write is done in steps. In the kernel: `hugetlb_sysctl_handler_common`, `nr_hugepages_store_common`,
//! `demote_store` in mm/hugetlb.c.

use super::demote::Demote;
use super::resize::{Resize, Target};
use super::{HugetlbPools, ORDERS};
use crate::file_name::OF_POOLS;
use crate::kernel::{Kernel, MemoryManager};
use crate::write::{WriteError, node_of, number};
use machine::Node;

/// How many of [`OF_POOLS`] the default size has, the smallest: its pages cannot be demoted.
const OF_DEFAULT_SIZE: usize = OF_POOLS.len() - 1;

/// What a number in these files is.
const TAKES: &str = "a number of pages, 0 and more";

/// The result of a write, in huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The wanted size of the pool, or the number of pages to demote.
    pub wanted: u64,
    /// The resulting number of persistent pages, or of pages demoted.
    pub reached: u64,
}

/// A write to a file of a pool in progress.
#[derive(Debug)]
pub(crate) enum PoolWrite {
    /// Of the pool of this number.
    Resize(Box<Resize>, usize),
    /// Of so many pages.
    Demote(Demote, u64),
}

impl PoolWrite {
    /// Whether it demotes pages.
    pub fn demotes(&self) -> bool {
        matches!(self, PoolWrite::Demote(..))
    }

    /// Advances by one bounded step: a page, a flush or a hold of a lock. Returns the result once it is done.
    pub fn step(&mut self, kernel: &mut Kernel) -> Option<WriteOutcome> {
        match self {
            PoolWrite::Resize(resize, h) => resize.step(kernel).then(|| WriteOutcome {
                wanted: resize.count(),
                reached: kernel.parts.hugetlb.hstates[*h].max,
            }),
            PoolWrite::Demote(demote, count) => demote
                .step(kernel)
                .then(|| WriteOutcome { wanted: *count, reached: *count - demote.remaining() }),
        }
    }
}

/// A file of a pool.
pub(crate) struct PoolFile<'a> {
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
            let of_pools = OF_POOLS[..OF_DEFAULT_SIZE].contains(&attribute);
            return Ok(of_pools.then_some(PoolFile { h: 0, node: None, attribute }));
        }
        let mut parts: Vec<&str> = file.split('/').collect();
        let mut node = None;
        if parts.len() == 3
            && let Some(number) = parts[0].strip_prefix("node")
        {
            node = Some(node_of(file, number, self.hstates[0].nr_nodes())?);
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
            (Some(_), _) => &OF_POOLS[..1],
            (None, 0) => &OF_POOLS[..OF_DEFAULT_SIZE],
            (None, _) => &OF_POOLS,
        };
        if !known.contains(&attribute) {
            return missing(format!("it has {}", known.join(", ")));
        }
        Ok(Some(PoolFile { h, node, attribute }))
    }
}

impl MemoryManager {
    /// The file of a pool with the number to be written; `None` if it is none of a pool.
    pub(crate) fn find_pool_file<'a>(
        &self,
        file: &'a str,
        value: &str,
    ) -> Result<Option<(PoolFile<'a>, u64)>, WriteError> {
        match self.parts.hugetlb.file(file)? {
            Some(pool) => Ok(Some((pool, number(file, value, TAKES)?))),
            None => Ok(None),
        }
    }

    /// Begins the write of a number to a file of a pool; `None` if there is nothing more to do.
    pub(crate) fn begin_pool_write(
        &mut self,
        pool: &PoolFile,
        file: &str,
        count: u64,
    ) -> Result<Option<PoolWrite>, WriteError> {
        let &PoolFile { h, node, attribute } = pool;
        let nodes = self.parts.allocator.nodes_with_memory();
        Ok(match attribute {
            "nr_overcommit_hugepages" => {
                if super::folio::is_gigantic(self.parts.hugetlb.hstates[h].order) {
                    return Err(WriteError::Gigantic { file: file.into() });
                }
                self.parts.hugetlb.hstates[h].nr_overcommit = count;
                None
            }
            "demote" => Some(PoolWrite::Demote(Demote::new(h, 0, nodes, count), count)),
            _ => {
                let target = node.map_or(Target::Pool(nodes), Target::Node);
                Some(PoolWrite::Resize(Box::new(Resize::new(h, target, count)), h))
            }
        })
    }
}
