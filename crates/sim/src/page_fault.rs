//! will-it-scale's page_fault1: map 128 MiB, touch every page, unmap, repeat.
//!
//! ```text
//!   fault  fault  fault ... (32,768 times)  unmap: 32,768 frees in batches of 32   ─► again
//! ```

use crate::{Program, Step, System};
use machine::{Cpu, PageSize, Time};
use mm::lru_lock::FREE_BATCH;
use mm::{Category, MigrateType, Pfn, Placement, Request};
use workload::keys::{CPUS, MIB, MILLISECONDS};

workload::keys! {
    /// The loop, as in a scenario.
    pub struct PageFaultLoop {
        /// Number of tasks, each on a CPU of its own.
        pub tasks: usize => CPUS,
        /// MiB mapped, touched and unmapped per round.
        pub mib: u64 => MIB,
        /// Virtual time measured, in milliseconds, after a warm-up of a quarter of it.
        pub milliseconds: u64 => MILLISECONDS,
    }
}

/// The loop on a number of CPUs.
pub struct PageFault {
    request: Request,
    pages_per_round: usize,
    tasks: Vec<Task>,
}

#[derive(Clone, Default)]
struct Task {
    pages: Vec<Pfn>,
    unmapped: usize,
    unmapping: bool,
    /// End of each round.
    round_ends: Vec<Time>,
}

impl PageFault {
    /// One task on each of the first CPUs, with this page size.
    pub fn new(spec: &PageFaultLoop, page_size: PageSize) -> PageFault {
        PageFault {
            request: Request::new(0, MigrateType::Movable, Placement::Local),
            pages_per_round: page_size.pages_of_mib(spec.mib) as usize,
            tasks: vec![Task::default(); spec.tasks],
        }
    }

    /// Pages per second and task, from the end of each task's first round after `warm` to that of its last;
    /// `None` if a task has no whole round in between.
    pub fn pages_per_second(&self, warm: Time) -> Option<f64> {
        let rate = |task: &Task| {
            let first = task.round_ends.partition_point(|&end| end < warm);
            let ends = &task.round_ends[first..];
            let [first, .., last] = ends else { return None };
            Some((ends.len() - 1) as f64 * self.pages_per_round as f64 / (*last - *first).seconds())
        };
        Some(self.tasks.iter().map(rate).sum::<Option<f64>>()? / self.tasks.len() as f64)
    }

    pub fn start(&self, system: &mut System) {
        for cpu in 0..self.tasks.len() as u16 {
            system.wake(Cpu(cpu), Time::ZERO);
        }
    }

    fn fault(&mut self, system: &mut System, cpu: Cpu) -> bool {
        let task = &mut self.tasks[cpu.index()];
        let wanted = self.pages_per_round - task.pages.len();
        let mut taken = system.alloc_private(cpu, &self.request, wanted, &mut task.pages);
        if taken == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            match system.alloc(cpu, &self.request) {
                Some(pfn) => task.pages.push(pfn),
                None => task.unmapping = true,
            }
            taken = 1;
        }
        let costs = &system.machine.costs;
        let (fault, clear) = (costs.page_fault * taken as u64, costs.page_clear * taken as u64);
        system.machine.work(cpu, Category::PageFault, fault);
        system.machine.work(cpu, Category::PageClear, clear);
        task.unmapping |= task.pages.len() == self.pages_per_round;
        true
    }

    fn unmap(&mut self, system: &mut System, cpu: Cpu) -> bool {
        let task = &mut self.tasks[cpu.index()];
        let batch = &task.pages[task.unmapped..(task.unmapped + FREE_BATCH).min(task.pages.len())];
        let mut freed = system.free_private(cpu, batch);
        if freed == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            system.free(cpu, batch[0], 0);
            freed = 1;
        }
        let unmap = system.machine.costs.page_unmap * freed as u64;
        system.machine.work(cpu, Category::PageFree, unmap);
        task.unmapped += freed;
        if task.unmapped == task.pages.len() {
            task.pages.clear();
            (task.unmapped, task.unmapping) = (0, false);
            task.round_ends.push(system.machine.now(cpu));
        }
        true
    }
}

impl Program for PageFault {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        for _ in 0..64 {
            let unmapping = self.tasks[cpu.index()].unmapping && !self.tasks[cpu.index()].pages.is_empty();
            let went_on = if unmapping { self.unmap(system, cpu) } else { self.fault(system, cpu) };
            if !went_on {
                break;
            }
        }
        Step::Again
    }

    fn is_finished(&self) -> bool {
        false
    }
}
