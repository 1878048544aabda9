//! A random simulation in which all mechanisms meet: memory cgroups at their limits, files, swap, forks,
//! mlock, huge pages and khugepaged, NUMA balancing with threads on all CPUs, demotion, compaction, pools of
//! huge pages with and without vmemmap optimisation, failing allocations and changing settings, in every
//! series and release, and in half of the cases with features that no release combines so.
//!
//! ```text
//!   seed ─► variant, machine, settings, steps ─► step ─► validate() ─► next ─► ... ─► all processes exit
//!                 ▲                                        │ panics                    nothing is left
//!                 └─────── fewer and smaller steps ◄───────┘
//! ```
//!
//! `make soak` tries fresh seeds; a failure reports its seed and the smallest case that still fails.

mod reclaim_host;
mod reclaim_machine;

use machine::{Cpu, Node, Time};
use mm::address_space::{Advice, Backing, MmId, VmFlags};
use mm::features::by_name::Feature;
use mm::hugetlb::Use;
use mm::hugetlb::folio::Folio;
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::numa::placement::TaskId;
use mm::{Category, Counters, Event, MigrateType, Pfn, Placement, Request, Series, Variant};
use proptest::prelude::*;
use reclaim_host::{GROUPS, Host, MAPPED_PAGES, MAPPINGS, PROCESSES};
use reclaim_machine::{CPUS, boot_with_memmap};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    /// A step of files, processes and memory cgroups.
    Reclaim(reclaim_host::Step),
    /// Writes a setting, which has no effect if this kernel does not have the file.
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
    /// Lowers the limit of a memory cgroup for a moment, to so many pages less than it uses.
    Press {
        cpu: u16,
        memcg: u16,
        pages: u64,
    },
    /// Lets time pass and scans the address space of a process on a CPU when that is due, so many times.
    Tick {
        cpu: u16,
        process: usize,
        milliseconds: u64,
        times: usize,
    },
    /// Two CPUs touch a page at the same time.
    TouchAtOnce {
        cpus: [u16; 2],
        process: usize,
        page: u64,
    },
    /// kcompactd does what it was woken for, and proactive compaction if that is worth it.
    Kcompactd {
        cpu: u16,
        node: u8,
    },
    /// The kernel allocates an unmovable or reclaimable block for itself.
    AllocBlock {
        cpu: u16,
        order: u8,
        reclaimable: bool,
    },
    FreeBlock {
        cpu: u16,
        which: usize,
    },
    /// Writes to a file of a pool of huge pages.
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
    /// Does the work that freeing huge pages has deferred.
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

/// The settings that a step may change, and values for each. A value that is listed twice is drawn more
/// often.
const SETTINGS: &[(&str, &[&str])] = &[
    ("transparent_hugepage/enabled", &["always", "always", "madvise", "never"]),
    ("transparent_hugepage/defrag", &["always", "defer", "madvise", "never"]),
    ("transparent_hugepage/use_zero_page", &["0", "1"]),
    ("transparent_hugepage/shrink_underused", &["0", "1"]),
    ("transparent_hugepage/khugepaged/max_ptes_none", &["511", "100", "100", "0"]),
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

/// The files of the pool of 2 MiB pages that can be written to.
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

/// Draws steps. Each kind of step is left out of half of the cases, so that each mechanism also acts alone
/// and none is drowned by the others.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cpu = || 0..CPUS;
    let area = || (0..PROCESSES, 0..MAPPED_PAGES, prop_oneof![1..40u64, 1..MAPPED_PAGES]);
    let advice = prop_oneof![Just(Advice::HugePage), Just(Advice::NoHugePage), Just(Advice::Normal)];
    let kinds: Vec<(u32, BoxedStrategy<Step>)> = vec![
        (30, reclaim_host::step().prop_map(Step::Reclaim).boxed()),
        (20, {
            let touch = |(cpu, (process, from, pages), write)| {
                Step::Reclaim(reclaim_host::Step::Touch { cpu, process, mapping: 0, from, pages, write })
            };
            (cpu(), area(), prop_oneof![3 => Just(true), 1 => Just(false)]).prop_map(touch).boxed()
        }),
        (6, setting().prop_map(|(name, value)| Step::Set(name, value)).boxed()),
        (4, {
            let lock = |(cpu, (process, from, pages), mapping, lock)| Step::Lock {
                cpu,
                process,
                mapping,
                from,
                pages,
                lock,
            };
            (cpu(), area(), 0..MAPPINGS, any::<bool>()).prop_map(lock).boxed()
        }),
        (2, {
            let advise = |((process, from, pages), advice)| Step::Advise { process, from, pages, advice };
            (area(), advice).prop_map(advise).boxed()
        }),
        (6, (cpu(), 1..20usize).prop_map(|(cpu, steps)| Step::Khugepaged { cpu, steps }).boxed()),
        (12, {
            let press = |(cpu, memcg, pages)| Step::Press { cpu, memcg, pages };
            (cpu(), 1..GROUPS, prop_oneof![16..900u64, 900..4000u64]).prop_map(press).boxed()
        }),
        (20, {
            let tick = |(cpu, process, milliseconds, times)| Step::Tick { cpu, process, milliseconds, times };
            (cpu(), 0..PROCESSES, 8..40u64, 1..10usize).prop_map(tick).boxed()
        }),
        (3, {
            let touch = |(cpus, process, page)| Step::TouchAtOnce { cpus, process, page };
            ([cpu(), cpu()], 0..PROCESSES, 0..MAPPED_PAGES).prop_map(touch).boxed()
        }),
        (3, (cpu(), 0..2u8).prop_map(|(cpu, node)| Step::Kcompactd { cpu, node }).boxed()),
        (5, {
            let alloc = |(cpu, order, reclaimable)| Step::AllocBlock { cpu, order, reclaimable };
            (cpu(), 1..10u8, any::<bool>()).prop_map(alloc).boxed()
        }),
        (4, (cpu(), any::<usize>()).prop_map(|(cpu, which)| Step::FreeBlock { cpu, which }).boxed()),
        (6, {
            let write = |(cpu, file, value)| Step::WritePool { cpu, file, value };
            (cpu(), prop::sample::select(POOL_FILES), prop_oneof![Just(0), 0..8u64]).prop_map(write).boxed()
        }),
        (
            3,
            (cpu(), any::<bool>()).prop_map(|(cpu, temporary)| Step::TakeHugePage { cpu, temporary }).boxed(),
        ),
        (3, (cpu(), any::<usize>()).prop_map(|(cpu, which)| Step::PutHugePage { cpu, which }).boxed()),
        (1, cpu().prop_map(|cpu| Step::DeferredFrees { cpu }).boxed()),
        (3, cpu().prop_map(|cpu| Step::VmstatUpdate { cpu }).boxed()),
        (1, cpu().prop_map(|cpu| Step::DrainAllPages { cpu }).boxed()),
    ];
    let chosen = prop::collection::vec(any::<bool>(), kinds.len());
    chosen.prop_flat_map(move |chosen| {
        let mut some: Vec<_> =
            kinds.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(kind, _)| kind.clone()).collect();
        if some.is_empty() {
            some = kinds.clone();
        }
        prop::collection::vec(prop::strategy::Union::new_weighted(some), 1..120)
    })
}

/// Every variant of every series; a release that several series end in counts once.
fn variants() -> Vec<&'static Variant> {
    let all = Series::ALL.iter().flat_map(Series::variants);
    all.map(|variant| (variant.name, variant)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// A case: what is made of a seed.
#[derive(Clone, Debug)]
struct Case {
    variant: &'static Variant,
    /// Features of the kernel that differ from the variant's, with their values.
    features: Vec<(String, String)>,
    /// How many of the two nodes have CPUs, and the memory of each node in MiB.
    nodes: u8,
    mib_per_node: u64,
    synchronous_swap: bool,
    /// Settings from boot on.
    settings: Vec<(&'static str, &'static str)>,
    steps: Vec<Step>,
}

/// A feature with one of its values.
fn feature() -> impl Strategy<Value = (String, String)> {
    let values = Feature::all().into_iter().flat_map(|feature| {
        let words = feature.words.into_iter().filter(|word| !word.contains(' '));
        words.map(move |word| (feature.path.clone(), word))
    });
    prop::sample::select(values.collect::<Vec<_>>())
}

/// The variant with those of the features that it can have.
fn with_features(variant: &Variant, features: &[(String, String)]) -> Variant {
    let mut with = *variant;
    for (path, word) in features {
        let mut changed = with.features;
        if changed.set(path, word).is_ok() && changed.check().is_ok() {
            with.features = changed;
        }
    }
    with
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = (prop_oneof![2 => Just(2u8), 1 => Just(1u8)], prop::sample::select(&[16, 20, 32]));
    let enabled = prop_oneof![3 => Just("always"), 1 => Just("madvise"), 1 => Just("never")];
    let chance = any::<bool>;
    let settings = (enabled, chance(), chance(), prop::collection::vec(setting(), 0..24)).prop_map(
        |(enabled, tiers, pools_fail, mut settings)| {
            settings.push(("transparent_hugepage/enabled", enabled));
            if tiers {
                settings.extend([("kernel.numa_balancing", "3"), ("numa/demotion_enabled", "1")]);
            }
            if pools_fail {
                settings.extend([("vm.hugetlb_optimize_vmemmap", "1"), ("fail_page_alloc/ppm", "100000")]);
            }
            settings
        },
    );
    let features = prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(feature(), 1..4)];
    (prop::sample::select(variants()), features, nodes, any::<bool>(), settings, steps()).prop_map(
        |(variant, features, (nodes, mib_per_node), synchronous_swap, settings, steps)| Case {
            variant,
            features,
            nodes,
            mib_per_node,
            synchronous_swap,
            settings,
            steps,
        },
    )
}

/// A case in progress.
struct Simulation {
    host: Host,
    /// The thread of each process, which runs on the CPU that uses the process.
    tasks: BTreeMap<MmId, TaskId>,
    pid: u32,
    blocks: Vec<(Pfn, u8)>,
    huge_pages: Vec<Folio>,
}

impl Simulation {
    fn new(case: &Case) -> Simulation {
        let variant = with_features(case.variant, &case.features);
        let mut host =
            Host::on(boot_with_memmap(case.nodes, case.mib_per_node, &variant), case.synchronous_swap);
        for (name, value) in [
            ("numa_balancing/scan_delay_ms", "8"),
            ("numa_balancing/scan_period_min_ms", "8"),
            ("numa_balancing/scan_period_max_ms", "64"),
        ] {
            host.mm.set(name, value).unwrap();
        }
        for &(name, value) in &case.settings {
            // A file that this kernel does not have cannot be written to.
            let _ = host.mm.set(name, value);
        }
        let mut simulation =
            Simulation { host, tasks: BTreeMap::new(), pid: 100, blocks: Vec::new(), huge_pages: Vec::new() };
        simulation.start_threads();
        simulation
    }

    /// Starts a thread for each process that has none.
    fn start_threads(&mut self) {
        let now = self.host.machine.now(Cpu(0));
        for &process in &self.host.processes {
            self.tasks.entry(process).or_insert_with(|| {
                self.pid += 1;
                self.host.mm.enter(&mut self.host.machine, Cpu(0)).add_task(now, process, self.pid, None)
            });
        }
    }

    fn process(&self, number: usize) -> MmId {
        self.host.processes[number % self.host.processes.len()]
    }

    /// Runs the thread of a process on a CPU.
    fn switch_to(&mut self, cpu: u16, process: MmId) {
        let task = self.tasks[&process];
        self.host.mm.enter(&mut self.host.machine, Cpu(cpu)).switch_task(Some(task));
    }

    /// Ends the threads of a process, before its address space is freed.
    fn end_threads(&mut self, process: MmId) {
        let Some(task) = self.tasks.remove(&process) else { return };
        for cpu in (0..CPUS).map(Cpu) {
            self.host.mm.enter(&mut self.host.machine, cpu).switch_task(None);
        }
        self.host.mm.parts.exit_task(task);
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
                // A process that runs out of memory is killed, which ends the step.
                let _ = self.host.run(step);
                self.start_threads();
            }
            // The values are valid, but this kernel may not have the file.
            Step::Set(name, value) => drop(mm.set(name, value)),
            Step::Lock { cpu, process, mapping, from, pages, lock } => {
                let start = self.host.mappings[mapping].0;
                let range = start + from..start + (from + pages).min(MAPPED_PAGES);
                let process = self.process(process);
                let Host { mm, machine, .. } = &mut self.host;
                if lock {
                    for id in mm.enter(machine, Cpu(cpu)).mlock(process, range).into_iter().flatten() {
                        mm.parts.lrus.end_read(id);
                    }
                    mm.parts.end_swap_reads();
                } else {
                    mm.enter(machine, Cpu(cpu)).munlock(process, range);
                }
            }
            Step::Advise { process, from, pages, advice } => {
                let start = self.host.mappings[0].0;
                let process = self.process(process);
                self.host.mm.enter(&mut self.host.machine, Cpu(0)).madvise(
                    process,
                    start + from..start + (from + pages).min(MAPPED_PAGES),
                    advice,
                );
            }
            Step::Khugepaged { cpu, steps } => {
                (0..steps).for_each(|_| mm.enter(machine, Cpu(cpu)).khugepaged());
                mm.parts.end_swap_reads();
            }
            Step::Press { cpu, memcg, pages } => {
                let memcg = Memcg(memcg);
                let before = mm.parts.lrus.memcg(memcg).max;
                mm.parts.lrus.memcg_mut(memcg).max =
                    mm.parts.lrus.memcg(memcg).current.saturating_sub(pages).max(64);
                let process = mm.parts.create_mm(memcg);
                let page = mm.enter(machine, Cpu(0)).mmap(process, 1, Backing::Anonymous, VmFlags::PRIVATE);
                // The memcg may be out of memory.
                let _ = mm.enter(machine, Cpu(cpu)).touch(process, page, true);
                mm.enter(machine, Cpu(cpu)).exit_mm(process);
                mm.parts.lrus.memcg_mut(memcg).max = before;
            }
            Step::Tick { cpu, process, milliseconds, times } => {
                self.switch_to(cpu, self.process(process));
                let Host { mm, machine, .. } = &mut self.host;
                for _ in 0..times {
                    let until = machine.now(Cpu(cpu)) + Time::from_nanoseconds(milliseconds * 1_000_000);
                    for other in (0..CPUS).map(Cpu) {
                        machine.wait_until(other, Category::Program, until);
                    }
                    mm.enter(machine, Cpu(cpu)).numa_tick();
                }
            }
            Step::TouchAtOnce { cpus: [one, other], process, page } => {
                let process = self.process(process);
                let page = self.host.mappings[0].0 + page;
                self.switch_to(one, process);
                self.touch(one, process, page);
                let Host { mm, machine, .. } = &mut self.host;
                if !mm.enter(machine, Cpu(other)).wait_for_hint_fault(process, page) {
                    self.touch(other, process, page);
                }
            }
            Step::Kcompactd { cpu, node } => {
                mm.enter(machine, Cpu(cpu)).run_kcompactd(Node(node));
                mm.enter(machine, Cpu(cpu)).run_proactive_compaction(Node(node));
            }
            Step::AllocBlock { cpu, order, reclaimable } => {
                let migratetype = if reclaimable { MigrateType::Reclaimable } else { MigrateType::Unmovable };
                let request = Request::new(order, migratetype, Placement::Local);
                if self.blocks.len() < 20
                    && let Some(pfn) = mm.enter(machine, Cpu(cpu)).alloc(&request)
                {
                    self.blocks.push((pfn, order));
                }
            }
            Step::FreeBlock { cpu, which } => {
                if !self.blocks.is_empty() {
                    let (pfn, order) = self.blocks.swap_remove(which % self.blocks.len());
                    mm.enter(machine, Cpu(cpu)).free(pfn, order);
                }
            }
            Step::WritePool { cpu, file, value } => {
                let write = mm.begin_write(file, &value.to_string()).unwrap();
                mm.enter(machine, Cpu(cpu)).finish_write(write);
            }
            Step::TakeHugePage { cpu, temporary } => {
                let taken = match temporary {
                    true => mm.enter(machine, Cpu(cpu)).take_temporary_huge_page(0),
                    false => mm.enter(machine, Cpu(cpu)).take_huge_page(0, Use::Unreserved),
                };
                self.huge_pages.extend(taken);
            }
            Step::PutHugePage { cpu, which } => {
                if !self.huge_pages.is_empty() {
                    let folio = self.huge_pages.swap_remove(which % self.huge_pages.len());
                    mm.enter(machine, Cpu(cpu)).put_huge_page(folio, false);
                }
            }
            Step::DeferredFrees { cpu } => mm.enter(machine, Cpu(cpu)).run_deferred_work(),
            Step::VmstatUpdate { cpu } => {
                mm.enter(machine, Cpu(cpu)).vmstat_update();
            }
            Step::DrainAllPages { cpu } => {
                mm.enter(machine, Cpu(cpu)).drain_all_pages();
            }
        }
    }

    fn touch(&mut self, cpu: u16, process: MmId, page: u64) {
        let Host { mm, machine, .. } = &mut self.host;
        let Some(vma) = mm.parts.address_spaces.mm(process).vmas.find(page) else { return };
        let write = vma.flags.has(VmFlags::WRITE);
        match mm.enter(machine, Cpu(cpu)).touch(process, page, write) {
            Ok(Touch::ReadSwap(_) | Touch::AwaitSwap(_)) => mm.parts.end_swap_reads(),
            Ok(Touch::ReadFile(id)) => mm.parts.lrus.end_read(id),
            Ok(Touch::Retry(_)) => unreachable!("no file is mapped through an open file"),
            Ok(Touch::Mapped | Touch::Minor) | Err(_) => {}
        }
    }

    fn validate(&self) {
        let blocks: u64 = self.blocks.iter().map(|(_, order)| 1 << order).sum();
        self.host.mm.validate(self.host.held.len() as u64 + blocks);
    }

    /// Lets all processes exit and checks that nothing of them is left. Returns the counters.
    fn end(mut self) -> Counters {
        for process in std::mem::take(&mut self.host.processes) {
            self.end_threads(process);
            self.host.mm.enter(&mut self.host.machine, Cpu(0)).exit_mm(process);
        }
        self.host.reads.drain(..).for_each(|id| self.host.mm.parts.lrus.end_read(id));
        self.host.writes.extend(self.host.mm.parts.page_cache.take_submitted_writes());
        for id in std::mem::take(&mut self.host.writes) {
            self.host.mm.enter(&mut self.host.machine, Cpu(1)).end_write(id);
        }
        // No PTE refers to a swap entry any more. An entry that is still used was being read ahead when its
        // last user exited.
        self.validate();
        let mm = &self.host.mm;
        assert_eq!(mm.parts.address_spaces.nr_mlock(), 0, "mlocked pages after all processes have exited");
        mm.counters().clone()
    }
}

/// Runs the case of a seed and adds its counters to `counted`. A failure is reported with the smallest case
/// that still fails.
fn check(seed: u64, counted: &RefCell<Counters>) -> Result<(), String> {
    let run = |case: Case| {
        let mut simulation = Simulation::new(&case);
        for step in &case.steps {
            simulation.run(step);
            simulation.validate();
        }
        let ended = simulation.end();
        let mut counted = counted.borrow_mut();
        Event::ALL.iter().for_each(|&event| counted.add(event, ended.get(event)));
        Ok(())
    };
    soak::drawn(seed, &case(), 4000, run, |case| {
        let Case { variant, features, nodes, mib_per_node, synchronous_swap, settings, steps } = case;
        format!(
            "{} with {features:?}, {nodes} nodes with CPUs, {mib_per_node} MiB each, synchronous swap {synchronous_swap}, {settings:?}: {steps:#?}",
            variant.name
        )
    })
}

/// Counters that the fixed seeds have to advance: a mechanism that never acts would not be tested.
const MET: &[Event] = &[
    // Page allocator.
    Event::PcpRefilledPages,
    Event::PcpDrainedPages,
    Event::PcpDecayedPages,
    Event::AllocFail,
    // Reclaim, swap and files.
    Event::PgscanAnon,
    Event::PgstealFile,
    Event::Pageoutrun,
    Event::Pswpin,
    Event::Pswpout,
    Event::WorkingsetRefaultAnon,
    Event::WorkingsetRefaultFile,
    Event::WorkingsetNodereclaim,
    Event::NrDirtied,
    Event::UnevictablePgsMlocked,
    // Large folios and compaction.
    Event::ThpFaultAlloc,
    Event::ThpCollapseAlloc,
    Event::ThpSplitPage,
    Event::ThpDeferredSplitPage,
    Event::ThpUnderusedSplitPage,
    Event::ThpSwpout,
    Event::ThpZeroPageAlloc,
    Event::CompactSuccess,
    Event::KcompactdWake,
    // NUMA balancing and tiers.
    Event::NumaHintFaults,
    Event::NumaPagesMigrated,
    Event::NumaHugePteUpdates,
    Event::PgdemoteDirect,
    // Pools of huge pages.
    Event::VmemmapPmdSplits,
    Event::GracePeriods,
];

/// Seeds that have found bugs, which are fixed.
const FOUND: [u64; 2] = [2633338100866132423, 7425928385167437698];

#[test]
fn what_was_found_stays_away() {
    FOUND.into_iter().for_each(|seed| check(seed, &RefCell::default()).unwrap());
}

#[test]
fn hold_together() {
    let counted = RefCell::new(Counters::default());
    soak::seeds("all mechanisms", 1..=700, |seed| check(seed, &counted));
    let counted = counted.into_inner();
    if soak::are_fixed() {
        let missed = MET.iter().filter(|&&event| counted.get(event) == 0).map(|event| event.name());
        assert_eq!(missed.collect::<Vec<_>>(), [""; 0], "never happened in any case");
    }
}
