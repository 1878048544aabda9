//! will-it-scale's page_fault1: tasks that map memory, store to every page and unmap it, again and again.
//!
//! ```text
//!   task   │ fault │ fault │ ... 32,768 times │ munmap, mmap │ fault │ ...
//!            a transaction: a page of 4 KiB that was written, which is what the benchmark counts
//! ```
//!
//! What a store to a page takes that has just been cleared is part of the page fault: its lines are in the cache.

use crate::keys::{CPUS, MIB};
use crate::operation::{Extent, Layout, Operation, Operations, Own, OwnSpec, Process};
use crate::threads::Affinity;
use machine::{PageSize, WrongValue};
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// The loop, as in a scenario.
    #[derive(Copy, Eq)]
    pub struct PageFaults {
        /// Tasks, a process each.
        pub tasks: usize => CPUS,
        /// The CPU on which the first task stays; the others stay on those behind it. The scheduler's choice if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub first_cpu: Option<u16> => CPUS.or_none(),
        /// MiB that a task maps, touches and unmaps.
        pub mib: u64 => MIB,
    }
}

impl OwnSpec for PageFaults {
    fn start(&self, _seed: u64, _random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let pages = PageSize::Kib4.pages_of_mib(self.mib);
        let process = Process { areas: vec![pages], ..Process::default() };
        let threads = (0..self.tasks as u32).map(crate::demand::Thread::of).collect();
        let layout = Layout { processes: vec![process; self.tasks], threads, ..Layout::default() };
        let task = |number: usize| Task {
            stays_on: Affinity::of_thread(self.first_cpu, number),
            page: 0,
            next: Next::Begin,
        };
        let tasks = (0..self.tasks).map(task).collect();
        Ok(Own { layout, operations: Box::new(Loops { pages, tasks }) })
    }
}

/// What a task does next.
#[derive(Clone, Copy)]
enum Next {
    Begin,
    Store,
    Count,
    Unmap,
}

/// Where a task is in its loop.
#[derive(Clone, Copy)]
struct Task {
    /// Where it will stay, until it is there.
    stays_on: Option<Affinity>,
    /// The next page of this round.
    page: u64,
    next: Next,
}

struct Loops {
    /// Pages of a round.
    pages: u64,
    tasks: Vec<Task>,
}

impl Operations for Loops {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        let task = &mut self.tasks[thread];
        if let Some(cpu) = task.stays_on.take() {
            return Some(Operation::Pin(Some(cpu)));
        }
        let (operation, next) = match task.next {
            Next::Begin => (Operation::TransactionBegin, Next::Store),
            Next::Store => {
                let first = task.page;
                task.page += 1;
                let extent = Extent::Nothing;
                (Operation::Access { area: 0, first, pages: 1, write: true, extent }, Next::Count)
            }
            Next::Count if task.page < self.pages => (Operation::TransactionEnd, Next::Store),
            Next::Count => (Operation::TransactionEnd, Next::Unmap),
            Next::Unmap => {
                task.page = 0;
                (Operation::Map { area: 0 }, Next::Begin)
            }
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
    fn a_round_stores_to_every_page_once_and_unmaps_all() {
        let spec = PageFaults { tasks: 2, first_cpu: Some(3), mib: 1 };
        let mut own = spec.start(1, &|_| Pcg64Mcg::seed_from_u64(1)).unwrap();
        assert_eq!((own.layout.processes.len(), own.layout.processes[0].areas[0]), (2, 256));
        let store =
            |first| Operation::Access { area: 0, first, pages: 1, write: true, extent: Extent::Nothing };
        let (begin, end) = (Operation::TransactionBegin, Operation::TransactionEnd);
        let round: Vec<Operation> = (0..256).flat_map(|page| [store(page), end]).collect();
        let expected = [
            vec![Operation::Pin(Some(Affinity::Cpu(4))), begin],
            round.clone(),
            vec![Operation::Map { area: 0 }, begin],
            round,
        ]
        .concat();
        let done: Vec<Operation> = (0..expected.len()).map(|_| own.operations.next(1, 0).unwrap()).collect();
        assert_eq!(done, expected);
        assert_eq!(
            own.operations.next(0, 0),
            Some(Operation::Pin(Some(Affinity::Cpu(3)))),
            "tasks are independent"
        );
    }
}
