//! A memory manager that asks an unchanged tree does what one does that asks its policies: the same pages, counters and clocks.

use crate::kernels::{self, Kernel};
use machine::{Cpu, Machine, Profile};
use mm::memory_map::booted_memory;
use mm::{Category, Decisions, MemoryManager, MigrateType, Pfn, Placement, Request, Settings};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::time::{Duration, Instant};

/// Requests of a run.
const STEPS: u32 = 20_000;
/// CPUs that make them.
const CPUS: u16 = 4;

/// What came of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    counters: String,
    clocks: Vec<String>,
    pages: Vec<Pfn>,
}

struct Run {
    machine: Machine<Category>,
    mm: MemoryManager,
    random: Pcg64Mcg,
    /// Blocks that programs have, with their order.
    held: Vec<(Pfn, u8)>,
    single: Vec<Pfn>,
}

impl Run {
    fn new(kernel: &Kernel, decisions: Decisions) -> Run {
        let profile =
            Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).expect("it is built in");
        let (topology, memory) = (profile.topology(), booted_memory(&profile));
        let noise = Pcg64Mcg::new(1);
        let mm = MemoryManager::deciding_by(
            decisions,
            &topology,
            &memory,
            kernel.features,
            Settings::default(),
            noise,
        );
        let machine = Machine::new(topology, profile.costs());
        Run { machine, mm, random: Pcg64Mcg::new(2), held: Vec::new(), single: Vec::new() }
    }

    /// Allocates for a while and frees for a while, single pages in runs and large blocks among them.
    fn step(&mut self, number: u32) {
        let cpu = Cpu(self.random.random_range(0..CPUS));
        let growing = (number / 500).is_multiple_of(2);
        let order = [0, 0, 0, 1, 2, 3, 9][self.random.random_range(0..7)];
        let request = Request::new(order, MigrateType::Movable, Placement::Local);
        let run = self.random.random_range(1..200);
        let mut kernel = self.mm.enter(&mut self.machine, cpu);
        if number.is_multiple_of(100) {
            kernel.vmstat_update();
        } else if growing && order == 0 {
            kernel.alloc_private(&request, run, &mut self.single);
            self.single.extend(kernel.alloc(&request));
        } else if growing {
            self.held.extend(kernel.alloc(&request).map(|pfn| (pfn, order)));
        } else if order == 0 {
            let from = self.single.len().saturating_sub(run);
            let done = kernel.free_private(&self.single[from..]);
            let rest: Vec<Pfn> = self.single.drain(from..).skip(done).collect();
            rest.into_iter().for_each(|pfn| kernel.free(pfn, 0));
        } else if let Some((pfn, order)) = self.held.pop() {
            kernel.free(pfn, order);
        }
    }

    fn outcome(mut self) -> (Outcome, Duration) {
        let began = Instant::now();
        (0..STEPS).for_each(|number| self.step(number));
        let took = began.elapsed();
        let clocks = (0..CPUS).map(|cpu| format!("{:?}", self.machine.now(Cpu(cpu)))).collect();
        let pages = self.held.iter().map(|(pfn, _)| *pfn).chain(self.single.iter().copied()).collect();
        (Outcome { counters: format!("{:?}", self.mm.counters()), clocks, pages }, took)
    }
}

/// Runs both; the tree's functions are all that are the same in the release and in the tree.
pub fn compare(kernel: &Kernel, decisions: Decisions) {
    let (own, own_took) = Run::new(kernel, Decisions::default()).outcome();
    let (of_tree, tree_took) = Run::new(kernel, decisions).outcome();
    assert_eq!(own, of_tree, "{}", kernel.release);
    let ratio = tree_took.as_secs_f64() / own_took.as_secs_f64();
    kernels::say(&format!("{}: {STEPS} requests are the same, in {ratio:.2} of the time", kernel.release));
}
