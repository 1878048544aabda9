//! will-it-scale's page_fault1 as a program: tasks that map memory, touch every page and unmap it, again and again.
//!
//! ```text
//!   task   │ 256 faults │ 256 faults │ ... │ 256 faults, munmap, mmap │ 256 faults │ ...
//!            a transaction: a MiB that was touched
//! ```
//!
//! A round of 128 MiB takes a tenth of a second; counting rounds, most of what a short run did would be in none.

use crate::keys::{CPUS, MIB};
use crate::operation::{Extent, Layout, Operation, Operations, Own, OwnSpec, Process};
use machine::{PageSize, WrongValue};
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// The loop, as in a scenario.
    #[derive(Copy, Eq)]
    pub struct PageFaults {
        /// Tasks, a process each.
        pub tasks: usize => CPUS,
        /// MiB that a task maps, touches and unmaps.
        pub mib: u64 => MIB,
    }
}

impl OwnSpec for PageFaults {
    fn start(&self, _seed: u64, _random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let process = Process { areas: vec![self.mib * PAGES], ..Process::default() };
        let threads = (0..self.tasks as u32).map(crate::demand::Thread::of).collect();
        let layout = Layout { processes: vec![process; self.tasks], threads, ..Layout::default() };
        let tasks = vec![Task { mib: 0, next: Next::Begin }; self.tasks];
        Ok(Own { layout, operations: Box::new(Loops { mib: self.mib, tasks }) })
    }
}

/// Pages of a transaction.
const PAGES: u64 = PageSize::Kib4.pages_of_mib(1);

/// What a task does next.
#[derive(Clone, Copy)]
enum Next {
    Begin,
    Touch,
    Unmap,
    End,
}

/// Where a task is in its loop.
#[derive(Clone, Copy)]
struct Task {
    /// MiB touched in this round.
    mib: u64,
    next: Next,
}

struct Loops {
    /// MiB of a round.
    mib: u64,
    tasks: Vec<Task>,
}

impl Operations for Loops {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        let task = &mut self.tasks[thread];
        let (operation, next) = match task.next {
            Next::Begin => (Operation::TransactionBegin, Next::Touch),
            Next::Touch => {
                let first = task.mib * PAGES;
                task.mib += 1;
                let touch =
                    Operation::Access { area: 0, first, pages: PAGES, write: true, extent: Extent::Lines };
                (touch, if task.mib == self.mib { Next::Unmap } else { Next::End })
            }
            Next::Unmap => {
                task.mib = 0;
                (Operation::Map { area: 0 }, Next::End)
            }
            Next::End => (Operation::TransactionEnd, Next::Begin),
        };
        task.next = next;
        Some(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_round_touches_every_page_once_and_unmaps_it() {
        let spec = PageFaults { tasks: 2, mib: 2 };
        let mut own = spec.start(1, &|_| Pcg64Mcg::seed_from_u64(1)).unwrap();
        assert_eq!((own.layout.processes.len(), own.layout.processes[0].areas[0]), (2, 512));
        let mut next = |thread| own.operations.next(thread, 0).unwrap();
        let touch =
            |first| Operation::Access { area: 0, first, pages: 256, write: true, extent: Extent::Lines };
        let (begin, end) = (Operation::TransactionBegin, Operation::TransactionEnd);
        assert_eq!([next(1), next(1), next(1)], [begin, touch(0), end]);
        assert_eq!(
            [next(1), next(1), next(1), next(1)],
            [begin, touch(256), Operation::Map { area: 0 }, end]
        );
        assert_eq!([next(1), next(1)], [begin, touch(0)]);
        assert_eq!(next(0), begin, "tasks are independent");
    }
}
