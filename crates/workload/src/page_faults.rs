//! will-it-scale's page_fault1 as a program: tasks that map memory, touch every page and unmap it, again and again.
//!
//! ```text
//!   task   mmap │ fault fault fault ... │ munmap │ mmap │ ...
//!               └──── a transaction ────┘
//! ```

use crate::keys::{CPUS, MIB};
use crate::tasks::{Extent, Layout, Operation, Operations, Own, OwnSpec, Process};
use machine::WrongValue;
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
        let pages = self.mib << 8;
        let process = Process { areas: vec![pages], ..Process::default() };
        let threads = (0..self.tasks as u32).map(crate::demand::Thread::of).collect();
        let layout = Layout { processes: vec![process; self.tasks], threads, ..Layout::default() };
        Ok(Own { layout, operations: Box::new(Loops { pages, next: vec![0; self.tasks] }) })
    }
}

/// Where each task is in its loop.
struct Loops {
    pages: u64,
    next: Vec<u8>,
}

impl Operations for Loops {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        let next = &mut self.next[thread];
        let operation = match *next {
            0 => Operation::TransactionBegin,
            1 => {
                Operation::Access { area: 0, first: 0, pages: self.pages, write: true, extent: Extent::Lines }
            }
            2 => Operation::Map { area: 0 },
            _ => Operation::TransactionEnd,
        };
        *next = (*next + 1) % 4;
        Some(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_round_touches_every_page_once_and_unmaps_it() {
        let spec = PageFaults { tasks: 2, mib: 3 };
        let mut own = spec.start(1, &|_| Pcg64Mcg::seed_from_u64(1)).unwrap();
        assert_eq!((own.layout.processes.len(), own.layout.processes[0].areas[0]), (2, 768));
        let mut next = |thread| own.operations.next(thread, 0).unwrap();
        assert_eq!(next(1), Operation::TransactionBegin);
        let touch = Operation::Access { area: 0, first: 0, pages: 768, write: true, extent: Extent::Lines };
        assert_eq!(
            [next(1), next(1), next(1)],
            [touch, Operation::Map { area: 0 }, Operation::TransactionEnd]
        );
        assert_eq!([next(1), next(0)], [Operation::TransactionBegin; 2], "tasks are independent");
    }
}
