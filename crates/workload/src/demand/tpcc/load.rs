//! Loading the data, which py-tpcc does before it starts its clock: what all replicas have in memory then, and what
//! they had and lost.
//!
//! ```text
//!   round     0 ─────────────────────────►   1 ──────────────────►  ...   a round has a warehouse of each loader
//!   data      customers 0-29 │ stock 0-29    customers 30-59 │ stock 30-59
//!   oplog     as much again, around in a file of fixed length
//!
//!   replica   0 ▪▪▪▪▪▪▪▪      1 ▪▪▪▪▪▪▪      2 ▪▪▪▪▪▪▪▪       none gets far ahead of another
//! ```
//!
//! The replicas write the same data at the same time, each into files of its own, so each has about a third of the page
//! cache when the load ends: what was written last. Everything else went through memory once and left a shadow. Here it
//! is read in the same order, not written: what stays and what leaves is the same but for dirty pages.

use super::super::Operation;
use std::ops::Range;

/// Pages of one step.
const STEP_PAGES: u64 = 32;

/// Steps that a replica may be ahead of another one.
const LEAD: u64 = 256;

/// How long a replica that is ahead waits before it looks again, nanoseconds.
const WAIT_NS: u64 = 10_000_000;

/// What a replica writes into.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicaFiles {
    /// Customers and stock.
    pub data: [u32; 2],
    /// Its log of operations.
    pub oplog: u32,
}

#[derive(Clone, Debug)]
struct Replica {
    files: ReplicaFiles,
    /// The part of the data that it is at, and how much of that is done.
    part: usize,
    done: u64,
    /// Pages of data and of the log.
    logged: u64,
    log_is_next: bool,
}

/// Replicas that load.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// In order: customers or stock, and the pages.
    parts: Vec<(usize, Range<u64>)>,
    oplog_pages: u64,
    replicas: Vec<Replica>,
}

impl Load {
    /// Nothing is loaded yet. `parts` are which file of [`ReplicaFiles::data`] and the pages, in order.
    pub(super) fn new(
        parts: Vec<(usize, Range<u64>)>,
        oplog_pages: u64,
        replicas: impl Iterator<Item = ReplicaFiles>,
    ) -> Load {
        let parts = parts.into_iter().filter(|(_, pages)| !pages.is_empty()).collect();
        let replica = |files| Replica { files, part: 0, done: 0, logged: 0, log_is_next: false };
        Load { parts, oplog_pages, replicas: replicas.map(replica).collect() }
    }

    fn steps(&self, replica: &Replica) -> u64 {
        if replica.part == self.parts.len() { u64::MAX } else { replica.logged / STEP_PAGES }
    }

    /// Steps that all replicas have made.
    fn least(&self) -> u64 {
        self.replicas.iter().map(|replica| self.steps(replica)).min().unwrap_or(u64::MAX)
    }

    /// Whether all replicas have everything.
    pub(super) fn is_done(&self) -> bool {
        self.least() == u64::MAX
    }

    /// What `replica` does next; none once all replicas have everything.
    pub(super) fn next(&mut self, replica: usize) -> Option<Operation> {
        let least = self.least();
        if least == u64::MAX {
            return None;
        }
        let own = self.steps(&self.replicas[replica]);
        if own == u64::MAX || own > least + LEAD {
            return Some(Operation::Compute { nanoseconds: WAIT_NS });
        }
        let Replica { files, part, done, logged, log_is_next } = &mut self.replicas[replica];
        if std::mem::take(log_is_next) && self.oplog_pages > 0 {
            let index = *logged % self.oplog_pages;
            let pages = STEP_PAGES.min(self.oplog_pages - index);
            *logged += pages;
            return Some(Operation::Read { file: files.oplog, index, pages: pages as u32 });
        }
        let (file, range) = &self.parts[*part];
        let index = range.start + *done;
        let pages = STEP_PAGES.min(range.end - index);
        *done += pages;
        *log_is_next = true;
        if self.oplog_pages == 0 {
            *logged += pages;
        }
        if range.start + *done == range.end {
            (*part, *done) = (*part + 1, 0);
        }
        Some(Operation::Read { file: files.data[*file], index, pages: pages as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replica_reads_everything_once_in_order_and_none_runs_ahead() {
        let parts = vec![(0, 0..70), (1, 0..20_000), (0, 70..75), (1, 20_000..20_001)];
        let files = |first| ReplicaFiles { data: [first, first + 1], oplog: first + 2 };
        let mut load = Load::new(parts.clone(), 64, [files(0), files(3)].into_iter());
        let mut read = vec![Vec::new(); 6];
        let mut waits = 0;
        let mut replica = 0;
        while let Some(operation) = load.next(replica) {
            match operation {
                Operation::Read { file, index, pages } => {
                    read[file as usize].extend(index..index + u64::from(pages));
                }
                Operation::Compute { .. } => {
                    waits += 1;
                    replica = 1 - replica;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(waits > 2);
        for first in [0, 3] {
            assert_eq!(read[first], (0..75).collect::<Vec<u64>>());
            assert_eq!(read[first + 1], (0..20_001).collect::<Vec<u64>>());
            assert!(read[first + 2].iter().all(|&page| page < 64));
            // As much again, to a step a part.
            let logged = read[first + 2].len();
            assert!((20_000..20_076 + 4 * 32).contains(&logged), "{logged}");
        }
        assert_eq!(load.next(0), None);
    }
}
