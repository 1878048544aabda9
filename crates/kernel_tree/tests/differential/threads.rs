//! Threads on two nodes, whose memory is scanned as an unchanged tree says, do what threads do that are scanned as the policies say: the
//! same counters, clocks and periods.

use crate::kernels::Kernel;
use machine::{Cpu, Machine, Node, Profile, Time};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::memory_map::booted_memory;
use mm::numa::placement::TaskId;
use mm::{Category, Decisions, Event, Features, MemoryManager, Settings};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Threads of the process: two on each node, each with an area of its own, and one area that all use.
const THREADS: usize = 4;
/// Pages of an area.
const PAGES: u64 = 1500;
/// How often each thread runs.
const ROUNDS: u64 = 3000;

struct Threads {
    machine: Machine<Category>,
    mm: MemoryManager,
    space: MmId,
    tasks: Vec<(Cpu, TaskId)>,
    /// Where areas begin: those of the threads, and the common one.
    areas: Vec<Vpn>,
    random: Pcg64Mcg,
}

/// What came of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    counters: String,
    clocks: Vec<Time>,
    scans: String,
    periods: Vec<u32>,
    skipped_inactive: u64,
    moved: u64,
}

impl Threads {
    fn new(features: Features, decisions: Decisions) -> Threads {
        let profile =
            Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).expect("it is built in");
        let (topology, memory) = (profile.topology(), booted_memory(&profile));
        let noise = Pcg64Mcg::new(1);
        let mut mm =
            MemoryManager::deciding_by(decisions, &topology, &memory, features, Settings::default(), noise);
        for (name, value) in [
            ("kernel.numa_balancing", "1"),
            ("numa_balancing/scan_delay_ms", "8"),
            ("numa_balancing/scan_period_min_ms", "8"),
            ("numa_balancing/scan_period_max_ms", "64"),
            ("numa_balancing/scan_size_mb", "2"),
        ] {
            mm.set(name, value).expect("the kernel has the setting");
        }
        let mut machine = Machine::new(topology, profile.costs());
        let space = mm.parts.create_mm(Memcg::ROOT);
        let far = (0..).map(Cpu).find(|&cpu| machine.node(cpu) == Node(1)).expect("there are two nodes");
        let mut tasks: Vec<(Cpu, TaskId)> = Vec::new();
        for cpu in [Cpu(0), Cpu(1), far, Cpu(far.0 + 1)] {
            let (now, pid) = (machine.now(cpu), 100 + u32::from(cpu.0));
            let first = tasks.first().map(|(_, task)| *task);
            let task = mm.enter(&mut machine, Cpu(0)).add_task(now, space, pid, first);
            mm.enter(&mut machine, cpu).switch_task(Some(task));
            tasks.push((cpu, task));
        }
        let areas = (0..=THREADS)
            .map(|_| mm.enter(&mut machine, Cpu(0)).mmap(space, PAGES, Backing::Anonymous, VmFlags::PRIVATE));
        let areas = areas.collect();
        Threads { machine, mm, space, tasks, areas, random: Pcg64Mcg::new(2) }
    }

    /// A thread uses its area and now and then the common one, then its tick comes. Late in the run threads of both nodes trade areas.
    fn step(&mut self, round: u64, thread: usize) {
        let (cpu, _) = self.tasks[thread];
        let own = if round < ROUNDS / 2 { thread } else { THREADS - 1 - thread };
        for _ in 0..8 {
            let area = if self.random.random_range(0..8) == 0 { THREADS } else { own };
            let page = self.areas[area] + self.random.random_range(0..PAGES);
            let write = self.random.random_range(0..2) == 0;
            let touched = self.mm.enter(&mut self.machine, cpu).touch(self.space, page, write);
            touched.expect("there is memory");
        }
        let until = Time::from_nanoseconds(4_000_000 * (round + 1));
        self.machine.wait_until(cpu, Category::Program, until);
        self.mm.enter(&mut self.machine, cpu).numa_tick();
    }

    fn outcome(mut self) -> Outcome {
        for round in 0..ROUNDS {
            (0..THREADS).for_each(|thread| self.step(round, thread));
        }
        let counters = self.mm.counters();
        let numa = &self.mm.parts.numa;
        Outcome {
            counters: format!("{counters:?}"),
            clocks: self.tasks.iter().map(|(cpu, _)| self.machine.now(*cpu)).collect(),
            scans: format!("{:?}", self.mm.parts.address_spaces.mm(self.space).numa_scan),
            periods: self.tasks.iter().map(|(_, task)| numa.tasks.get(*task).scan_period).collect(),
            skipped_inactive: counters.get(Event::NumaSkipPidInactive),
            moved: counters.get(Event::NumaPagesMigrated),
        }
    }
}

/// Runs both. Features are those of the tree's stable release.
pub fn compare(kernel: &Kernel, features: Features, decisions: Decisions) {
    let own = Threads::new(features, Decisions::default()).outcome();
    let of_tree = Threads::new(features, decisions).outcome();
    assert_eq!(own, of_tree, "{}", kernel.release);
    let asks_who_used_it = decisions.numa.vma_is_accessed.is_of_tree();
    assert!(own.moved > 0 && (own.skipped_inactive > 0) == asks_who_used_it, "{own:?}");
}
