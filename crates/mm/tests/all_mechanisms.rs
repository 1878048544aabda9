//! A random simulation in which all mechanisms meet: memory cgroups that are short of memory, files, swap, forks, mlock, huge
//! pages and khugepaged, NUMA balancing with threads on all CPUs, demotion, compaction, pools of huge pages with and without vmemmap
//! optimisation, allocations that fail, settings that change; of every series and release.
//!
//! ```text
//!   seed ─► variant, machine, settings, steps ─► one step ─► validate() ─► the next ─► ... ─► everything exits ─► nothing is left
//!                 ▲                                             │ panics
//!                 └──────────────── fewer and smaller steps ◄───┘
//! ```
//!
//! `make soak` tries fresh seeds; a failure names its seed and the least steps that still fail.

mod reclaim_host;
mod reclaim_machine;

use machine::{Cpu, Node, Time};
use mm::address_space::{Advice, MmId, VmFlags};
use mm::hugetlb::Use;
use mm::hugetlb::folio::Folio;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::numa::placement::TaskId;
use mm::{Category, MigrateType, Pfn, Placement, Request, Series, Variant};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use reclaim_host::{Host, MAPPED_PAGES, MAPPINGS, PROCESSES};
use reclaim_machine::{CPUS, boot_with_memmap};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    /// Files, processes and memory cgroups.
    Reclaim(reclaim_host::Step),
    /// A setting changes; one that this kernel does not have does not.
    Set(&'static str, &'static str),
    Lock {
        cpu: u16,
        process: usize,
        mapping: usize,
        from: u64,
        pages: u64,
        lock: bool,
    },
    Advise {
        process: usize,
        from: u64,
        pages: u64,
        advice: Advice,
    },
    Khugepaged {
        cpu: u16,
        steps: usize,
    },
    /// Time passes, and the thread on a CPU is scanned when it is due.
    Tick {
        cpu: u16,
        milliseconds: u64,
    },
    /// Two CPUs touch a page at once.
    TouchAtOnce {
        cpus: [u16; 2],
        process: usize,
        page: u64,
    },
    /// kcompactd does what it was woken for, and what is worth doing unasked.
    Kcompactd {
        cpu: u16,
        node: u8,
    },
    /// A block for the kernel itself, unmovable or reclaimable.
    AllocBlock {
        cpu: u16,
        order: u8,
        reclaimable: bool,
    },
    FreeBlock {
        cpu: u16,
        which: usize,
    },
    /// A write to a file of a pool of huge pages.
    WritePool {
        cpu: u16,
        file: &'static str,
        value: u64,
    },
    TakeHugePage {
        cpu: u16,
        temporary: bool,
    },
    PutHugePage {
        cpu: u16,
        which: usize,
    },
    /// What frees of huge pages have put off.
    DeferredFrees {
        cpu: u16,
    },
    VmstatUpdate {
        cpu: u16,
    },
    DrainAllPages {
        cpu: u16,
    },
}

/// Settings that a step may change, with values.
const SETTINGS: &[(&str, &[&str])] = &[
    ("transparent_hugepage/enabled", &["always", "always", "madvise", "never"]),
    ("transparent_hugepage/defrag", &["always", "defer", "madvise", "never"]),
    ("transparent_hugepage/use_zero_page", &["0", "1"]),
    ("transparent_hugepage/shrink_underused", &["0", "1"]),
    ("transparent_hugepage/khugepaged/max_ptes_none", &["511", "511", "100", "0"]),
    ("transparent_hugepage/khugepaged/max_ptes_swap", &["64", "511", "0"]),
    ("transparent_hugepage/khugepaged/max_ptes_shared", &["256", "511", "0"]),
    ("transparent_hugepage/khugepaged/defrag", &["0", "1"]),
    ("transparent_hugepage/hugepages-16kB/enabled", &["always", "inherit", "madvise", "never"]),
    ("transparent_hugepage/hugepages-64kB/enabled", &["always", "inherit", "madvise", "never"]),
    ("transparent_hugepage/hugepages-2048kB/enabled", &["always", "inherit", "never"]),
    ("kernel.numa_balancing", &["0", "1", "1", "2", "3"]),
    ("numa_balancing/scan_size_mb", &["1", "2", "256"]),
    ("numa_balancing/scan_period_max_ms", &["8", "64"]),
    ("numa/demotion_enabled", &["0", "1"]),
    ("vm.compaction_proactiveness", &["0", "20", "100"]),
    ("vm.extfrag_threshold", &["0", "500", "1000"]),
    ("vm.watermark_boost_factor", &["0", "15000"]),
    ("vm.watermark_scale_factor", &["10", "300"]),
    ("vm.percpu_pagelist_high_fraction", &["0", "8", "1000"]),
    ("vm.page-cluster", &["0", "3", "5"]),
    ("swap/vma_ra_enabled", &["0", "1"]),
    ("vm.hugetlb_optimize_vmemmap", &["0", "1", "1"]),
    ("fail_page_alloc/ppm", &["0", "200000"]),
    ("failslab/ppm", &["0", "200000"]),
    ("lru_gen/min_ttl_ms", &["0", "1000"]),
];

/// Files of the pool of 2 MiB pages that can be written to.
const POOL_FILES: &[&str] = &[
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "node0/hugepages-2048kB/nr_hugepages",
    "node1/hugepages-2048kB/nr_hugepages",
];

fn setting() -> impl Strategy<Value = (&'static str, &'static str)> {
    let named = |&(name, values): &(&'static str, &'static [&'static str])| {
        prop::sample::select(values).prop_map(move |value| (name, value)).boxed()
    };
    prop::strategy::Union::new(SETTINGS.iter().map(named))
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS;
    let area = (0..PROCESSES, 0..MAPPED_PAGES, prop_oneof![1..40u64, 1..MAPPED_PAGES]);
    let advice = prop_oneof![Just(Advice::HugePage), Just(Advice::NoHugePage), Just(Advice::Normal)];
    prop_oneof![
        40 => reclaim_host::step().prop_map(Step::Reclaim),
        6 => setting().prop_map(|(name, value)| Step::Set(name, value)),
        3 => (cpu.clone(), area.clone(), 0..MAPPINGS, any::<bool>()).prop_map(
            |(cpu, (process, from, pages), mapping, lock)| Step::Lock { cpu, process, mapping, from, pages, lock }
        ),
        2 => (area, advice).prop_map(
            |((process, from, pages), advice)| Step::Advise { process, from, pages, advice }
        ),
        4 => (cpu.clone(), 1..20usize).prop_map(|(cpu, steps)| Step::Khugepaged { cpu, steps }),
        8 => (cpu.clone(), 1..40u64).prop_map(|(cpu, milliseconds)| Step::Tick { cpu, milliseconds }),
        3 => ([cpu.clone(), cpu.clone()], 0..PROCESSES, 0..MAPPED_PAGES)
            .prop_map(|(cpus, process, page)| Step::TouchAtOnce { cpus, process, page }),
        2 => (cpu.clone(), 0..2u8).prop_map(|(cpu, node)| Step::Kcompactd { cpu, node }),
        4 => (cpu.clone(), 1..10u8, any::<bool>())
            .prop_map(|(cpu, order, reclaimable)| Step::AllocBlock { cpu, order, reclaimable }),
        3 => (cpu.clone(), any::<usize>()).prop_map(|(cpu, which)| Step::FreeBlock { cpu, which }),
        4 => (cpu.clone(), prop::sample::select(POOL_FILES), 0..8u64)
            .prop_map(|(cpu, file, value)| Step::WritePool { cpu, file, value }),
        2 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, temporary)| Step::TakeHugePage { cpu, temporary }),
        2 => (cpu.clone(), any::<usize>()).prop_map(|(cpu, which)| Step::PutHugePage { cpu, which }),
        1 => cpu.clone().prop_map(|cpu| Step::DeferredFrees { cpu }),
        1 => cpu.clone().prop_map(|cpu| Step::VmstatUpdate { cpu }),
        1 => cpu.prop_map(|cpu| Step::DrainAllPages { cpu }),
    ]
}

/// Every variant of every series; a released kernel, which is one of each, once.
fn variants() -> Vec<&'static Variant> {
    let all = Series::ALL.iter().flat_map(Series::variants);
    all.map(|variant| (variant.name, variant)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// What a seed makes.
#[derive(Clone, Debug)]
struct Case {
    variant: &'static Variant,
    /// How many of the two nodes have CPUs.
    nodes: u8,
    synchronous_swap: bool,
    steps: Vec<Step>,
}

fn case() -> impl Strategy<Value = Case> {
    let steps = prop::collection::vec(step(), 1..80);
    (prop::sample::select(variants()), prop_oneof![3 => Just(2u8), 1 => Just(1u8)], any::<bool>(), steps)
        .prop_map(|(variant, nodes, synchronous_swap, steps)| Case {
            variant,
            nodes,
            synchronous_swap,
            steps,
        })
}

/// A machine in the middle of a case.
struct Simulation {
    host: Host,
    /// A thread of each process, which runs where the process is used.
    tasks: BTreeMap<MmId, TaskId>,
    pid: u32,
    blocks: Vec<(Pfn, u8)>,
    huge_pages: Vec<Folio>,
}

impl Simulation {
    fn new(case: &Case) -> Simulation {
        let mut host = Host::on(boot_with_memmap(case.nodes, case.variant), case.synchronous_swap);
        for (name, value) in [
            ("numa_balancing/scan_delay_ms", "8"),
            ("numa_balancing/scan_period_min_ms", "8"),
            ("numa_balancing/scan_period_max_ms", "64"),
        ] {
            host.mm.set(name, value).unwrap();
        }
        let mut simulation =
            Simulation { host, tasks: BTreeMap::new(), pid: 100, blocks: Vec::new(), huge_pages: Vec::new() };
        simulation.start_threads();
        simulation
    }

    /// Gives each process that has none a thread.
    fn start_threads(&mut self) {
        let now = self.host.machine.now(Cpu(0));
        for &process in &self.host.processes {
            self.tasks.entry(process).or_insert_with(|| {
                self.pid += 1;
                self.host.mm.add_task(now, process, self.pid, None)
            });
        }
    }

    fn process(&self, number: usize) -> MmId {
        self.host.processes[number % self.host.processes.len()]
    }

    /// The thread of a process runs on a CPU.
    fn switch_to(&mut self, cpu: u16, process: MmId) {
        let task = self.tasks[&process];
        self.host.mm.switch_task(&self.host.machine, Cpu(cpu), Some(task));
    }

    /// The threads of a process end before its address space does.
    fn end_threads(&mut self, process: MmId) {
        let Some(task) = self.tasks.remove(&process) else { return };
        for cpu in (0..CPUS).map(Cpu) {
            self.host.mm.switch_task(&self.host.machine, cpu, None);
        }
        self.host.mm.exit_task(task);
    }

    fn run(&mut self, step: &Step) {
        let Host { mm, machine, .. } = &mut self.host;
        match *step {
            Step::Reclaim(ref step) => {
                match *step {
                    reclaim_host::Step::Touch { cpu, process, .. } => {
                        self.switch_to(cpu, self.process(process))
                    }
                    reclaim_host::Step::Exit { process, .. } if self.host.processes.len() > 1 => {
                        self.end_threads(self.process(process));
                    }
                    _ => {}
                }
                // Who runs out of memory is killed, which ends the step.
                let _ = self.host.run(step);
                self.start_threads();
            }
            // Values are valid; a file that this kernel does not have cannot be written to.
            Step::Set(name, value) => drop(mm.set(name, value)),
            Step::Lock { cpu, process, mapping, from, pages, lock } => {
                let start = self.host.mappings[mapping].0;
                let range = start + from..start + (from + pages).min(MAPPED_PAGES);
                let process = self.process(process);
                let Host { mm, machine, .. } = &mut self.host;
                if lock {
                    for id in mm.mlock(machine, Cpu(cpu), process, range).into_iter().flatten() {
                        mm.end_read(id);
                    }
                    mm.end_swap_reads();
                } else {
                    mm.munlock(machine, Cpu(cpu), process, range);
                }
            }
            Step::Advise { process, from, pages, advice } => {
                let start = self.host.mappings[0].0;
                let process = self.process(process);
                self.host.mm.madvise(process, start + from..start + (from + pages).min(MAPPED_PAGES), advice);
            }
            Step::Khugepaged { cpu, steps } => {
                (0..steps).for_each(|_| mm.khugepaged(machine, Cpu(cpu)));
                mm.end_swap_reads();
            }
            Step::Tick { cpu, milliseconds } => {
                let until = machine.now(Cpu(cpu)) + Time::from_nanoseconds(milliseconds * 1_000_000);
                for other in (0..CPUS).map(Cpu) {
                    machine.wait_until(other, Category::Program, until);
                }
                mm.numa_tick(machine, Cpu(cpu));
            }
            Step::TouchAtOnce { cpus: [one, other], process, page } => {
                let process = self.process(process);
                let page = self.host.mappings[0].0 + page;
                self.switch_to(one, process);
                self.touch(one, process, page);
                let Host { mm, machine, .. } = &mut self.host;
                if !mm.wait_for_hint_fault(machine, Cpu(other), process, page) {
                    self.touch(other, process, page);
                }
            }
            Step::Kcompactd { cpu, node } => {
                mm.kcompactd(machine, Cpu(cpu), Node(node));
                mm.proactive_compaction(machine, Cpu(cpu), Node(node));
            }
            Step::AllocBlock { cpu, order, reclaimable } => {
                let migratetype = if reclaimable { MigrateType::Reclaimable } else { MigrateType::Unmovable };
                let request = Request::new(order, migratetype, Placement::Local);
                if self.blocks.len() < 20
                    && let Some(pfn) = mm.alloc(machine, Cpu(cpu), &request)
                {
                    self.blocks.push((pfn, order));
                }
            }
            Step::FreeBlock { cpu, which } => {
                if !self.blocks.is_empty() {
                    let (pfn, order) = self.blocks.swap_remove(which % self.blocks.len());
                    mm.free(machine, Cpu(cpu), pfn, order);
                }
            }
            Step::WritePool { cpu, file, value } => {
                mm.write(machine, Cpu(cpu), file, &value.to_string()).unwrap();
            }
            Step::TakeHugePage { cpu, temporary } => {
                let taken = match temporary {
                    true => mm.take_temporary_huge_page(machine, Cpu(cpu), 0),
                    false => mm.take_huge_page(machine, Cpu(cpu), 0, Use::Unreserved),
                };
                self.huge_pages.extend(taken);
            }
            Step::PutHugePage { cpu, which } => {
                if !self.huge_pages.is_empty() {
                    let folio = self.huge_pages.swap_remove(which % self.huge_pages.len());
                    mm.put_huge_page(machine, Cpu(cpu), folio, false);
                }
            }
            Step::DeferredFrees { cpu } => mm.run_deferred_work(machine, Cpu(cpu)),
            Step::VmstatUpdate { cpu } => {
                mm.vmstat_update(machine, Cpu(cpu));
            }
            Step::DrainAllPages { cpu } => {
                mm.drain_all_pages(machine, Cpu(cpu));
            }
        }
    }

    fn touch(&mut self, cpu: u16, process: MmId, page: u64) {
        let Host { mm, machine, .. } = &mut self.host;
        let Some(vma) = mm.mm(process).vmas.find(page) else { return };
        let write = vma.flags.has(VmFlags::WRITE);
        match mm.touch(machine, Cpu(cpu), process, page, write) {
            Ok(Touch::ReadSwap(_) | Touch::AwaitSwap(_)) => mm.end_swap_reads(),
            Ok(Touch::ReadFile(id)) => mm.end_read(id),
            Ok(Touch::Mapped | Touch::Minor) | Err(_) => {}
        }
    }

    fn validate(&self) {
        let blocks: u64 = self.blocks.iter().map(|(_, order)| 1 << order).sum();
        self.host.mm.validate(self.host.held.len() as u64 + blocks);
    }

    /// Everything ends: nothing is left of it.
    fn end(mut self) {
        for process in std::mem::take(&mut self.host.processes) {
            self.end_threads(process);
            self.host.mm.exit_mm(&mut self.host.machine, Cpu(0), process);
        }
        self.host.reads.drain(..).for_each(|id| self.host.mm.end_read(id));
        self.host.writes.extend(self.host.mm.take_submitted_writes());
        for id in std::mem::take(&mut self.host.writes) {
            self.host.mm.end_write(&mut self.host.machine, Cpu(1), id);
        }
        self.validate();
        let mm = &self.host.mm;
        assert_eq!(mm.swap().used(), 0, "swap after all processes are gone");
        assert_eq!(mm.nr_mlock(), 0, "locked pages after all processes are gone");
        assert_eq!(mm.memcg(Memcg::ROOT).parent, None);
    }
}

/// Runs the case of a seed; what fails comes with the least case that fails.
fn check(seed: u64) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 4000,
        source_file: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&case(), |case| {
        let mut simulation = Simulation::new(&case);
        for step in &case.steps {
            simulation.run(step);
            simulation.validate();
        }
        simulation.end();
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, case)) => {
            let Case { variant, nodes, synchronous_swap, steps } = case;
            let name = variant.name;
            Err(format!(
                "{reason}\n{name}, {nodes} nodes with CPUs, synchronous swap {synchronous_swap}: {steps:#?}"
            ))
        }
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
    }
}

#[test]
fn hold_together() {
    // Panics of cases that shrink are no news.
    std::panic::set_hook(Box::new(|_| {}));
    soak::seeds("all mechanisms", 1..=400, check);
}
