//! Kernel builds: `make -jN` with jobs sampled from a recorded build, process by process.
//!
//! ```text
//!   build 0 (cgroup 0)   slot 0:  sh ─► gcc ─► cc1 ─► as ─► objtool    next unit ...    ┐
//!                        slot 1:  ...                                                   ├ then the tail:
//!                        slot N-1                                                       ┘ link, one process
//!   build 1 (cgroup 1)   ...                                                              at a time
//! ```
//!
//! A unit is one job of make; its processes run one after the other. A new process starts on an idle core if
//! there is one, else on an idle hardware thread, chosen at random as wake-up balancing would. Processes
//! repeat their recorded computing, allocations and frees; the twin adds locks and their costs. Pages that a
//! process leaves behind (page cache, slab) go to a pool, from which later processes free the pages that they
//! freed for others in the recording.

mod policy;

use crate::metric;
use crate::outcome::Outcome;
use crate::random::{Stream, stream};
use crate::{Boot, Program, RunError, Step, System};
use machine::profile::Figure;
use machine::{Cpu, Node, Time};
use mm::lru_lock::FREE_BATCH;
use mm::{Category, MigrateType, Pfn, Placement, Request};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use workload::keys::{Bounds, CPUS, INTENSITY, NODES, UNITS};
use workload::process::{Operation, ProcessProfile};

workload::keys! {
    /// Builds, as in a scenario.
    pub struct KernelBuild {
        /// Builds that run at the same time, each in a memcg of its own.
        pub builds: usize => CPUS,
        /// `-j` of each build.
        pub jobs: usize => CPUS,
        /// Node to which memory is bound (`numactl -m`); if absent, memory is allocated locally.
        pub bind: Option<u8> => NODES,
        /// Units per build; as many as were recorded if absent.
        pub units: Option<usize> => UNITS,
        /// Units, over all builds, that finish before measuring starts.
        pub warm_units: usize => UNITS.or_none(),
        /// Number of processes per order-3 slab of task, signal and address-space structures that is
        /// allocated and freed. The 2 CPUs of the recorded machine reuse nearly all of their slabs. With
        /// hundreds of CPUs, SLUB packs `4 * (fls(cpus) + 1)` objects into a slab, and structures are freed
        /// on other CPUs than they were allocated on.
        pub processes_per_slab: Figure => Bounds::new(0.0, 1e6, "0 for no slabs at all"),
        /// Speed of the processes relative to the recording.
        pub intensity: Figure => INTENSITY,
    }
}

/// Virtual seconds after a build during which pagesets decay before their pages are counted.
const SETTLE_SECONDS: f64 = 60.0;

fn profile() -> Result<&'static ProcessProfile, RunError> {
    ProcessProfile::kernel_build().map_err(|error| RunError::Profile(format!("data/kbuild.profile: {error}")))
}

/// Order of the slabs for a process's kernel structures.
const SLAB_ORDER: u8 = 3;

/// Whether a process allocates a slab of kernel structures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slab {
    None,
    Wanted,
    Held(Pfn),
}

/// A process on a CPU.
struct Process {
    build: usize,
    /// Its recorded operations.
    operations: &'static [Operation],
    next: usize,
    /// Progress within the current operation, in the operation's units.
    done: u32,
    pages: Vec<Pfn>,
    /// Order and migratetype of each of `pages`.
    kinds: Vec<Kind>,
    /// Pages of the current batch that are off the LRU but not yet freed.
    off_lru: usize,
    slab: Slab,
    /// Processes of its job that run after it.
    rest: &'static [u32],
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    order: u8,
    migrate_type: MigrateType,
}

impl Kind {
    /// User memory and page cache are on LRU lists.
    fn is_on_lru(self) -> bool {
        self.order == 0 && self.migrate_type == MigrateType::Movable
    }
}

struct Build {
    /// Units that have not started, last first.
    units: Vec<usize>,
    running_jobs: usize,
    tail_started: bool,
    finished: bool,
}

struct KernelBuilds {
    spec: KernelBuild,
    profile: &'static ProcessProfile,
    builds: Vec<Build>,
    on_cpu: Vec<Option<Process>>,
    folio_batches: Vec<u8>,
    /// Pages left behind by processes, by order.
    left_behind: Vec<Vec<Pfn>>,
    placement: Pcg64Mcg,
    time_scale: f64,
    units_finished: usize,
    processes_started: u64,
    measuring: bool,
    finished_at: Time,
    spare: Vec<(Vec<Pfn>, Vec<Kind>)>,
}

/// Runs the builds of `spec`.
pub(super) fn run(boot: &Boot, spec: &KernelBuild) -> Result<Outcome, RunError> {
    let mut system = boot.system(spec.builds)?;
    let mut builds = KernelBuilds::new(spec, profile()?, &system, boot.seed);
    builds.start(&mut system);
    system.run(&mut builds, Time::NEVER);
    let end = builds.finished_at;
    let mut outcome = system.outcome(end);
    outcome.set(metric::BUILD_TIME, outcome.virtual_seconds);
    system.settle(SETTLE_SECONDS);
    let allocator = &system.mm.parts.allocator;
    outcome.set(metric::PCP_END, allocator.page_size().mib_of_pages(allocator.pages_in_pagesets()));
    Ok(outcome)
}

impl KernelBuilds {
    fn new(spec: &KernelBuild, profile: &'static ProcessProfile, system: &System, seed: u64) -> KernelBuilds {
        let cpus = system.machine.topology.cpus();
        let count = spec.units.unwrap_or(profile.totals().units as usize);
        let builds = (0..spec.builds)
            .map(|build| {
                let mut demand = stream(seed, Stream::Demand, build as u64);
                let units = (0..count).map(|_| demand.random_range(0..profile.units().len())).collect();
                Build { units, running_jobs: 0, tail_started: false, finished: false }
            })
            .collect();
        KernelBuilds {
            profile,
            builds,
            on_cpu: (0..cpus).map(|_| None).collect(),
            folio_batches: vec![0; cpus],
            left_behind: vec![Vec::new(); mm::page::NR_PAGE_ORDERS],
            placement: stream(seed, Stream::Placement, 0),
            time_scale: 1.0 / (spec.intensity.value * system.machine.costs.speed),
            units_finished: 0,
            processes_started: 0,
            measuring: spec.warm_units == 0,
            finished_at: Time::ZERO,
            spare: Vec::new(),
            spec: spec.clone(),
        }
    }

    fn start(&mut self, system: &mut System) {
        for build in 0..self.builds.len() {
            for _ in 0..self.spec.jobs {
                self.start_unit(system, build, Time::ZERO);
            }
        }
    }

    fn start_unit(&mut self, system: &mut System, build: usize, now: Time) -> bool {
        let Some(unit) = self.builds[build].units.pop() else { return false };
        self.builds[build].running_jobs += 1;
        let processes = &self.profile.units()[unit];
        self.start_process(system, build, processes, now);
        true
    }

    /// Starts the first of `processes` on an idle CPU; the others run after it.
    fn start_process(&mut self, system: &mut System, build: usize, processes: &'static [u32], now: Time) {
        let Some((&first, rest)) = processes.split_first() else { return };
        let (mut pages, mut kinds) = self.spare.pop().unwrap_or_default();
        pages.clear();
        kinds.clear();
        let operations = self.profile.process(first);
        self.processes_started += 1;
        let each = self.spec.processes_per_slab.value as u64;
        let slab =
            if each > 0 && self.processes_started.is_multiple_of(each) { Slab::Wanted } else { Slab::None };
        let process = Process { build, operations, next: 0, done: 0, pages, kinds, off_lru: 0, slab, rest };
        let cpu = self.choose_cpu(system);
        self.on_cpu[cpu.index()] = Some(process);
        system.wake(cpu, now);
    }

    /// A random idle core if there is one, else a random idle hardware thread.
    fn choose_cpu(&mut self, system: &System) -> Cpu {
        let topology = &system.machine.topology;
        let is_idle = |cpu: Cpu| self.on_cpu[cpu.index()].is_none();
        let idle: Vec<Cpu> = topology.all_cpus().filter(|&cpu| is_idle(cpu)).collect();
        let idle_cores: Vec<Cpu> =
            idle.iter().copied().filter(|&cpu| topology.sibling(cpu).is_none_or(is_idle)).collect();
        let choice = if idle_cores.is_empty() { &idle } else { &idle_cores };
        choice[self.placement.random_range(0..choice.len())]
    }

    fn placement_of(&self) -> Placement {
        self.spec.bind.map_or(Placement::Local, |node| Placement::Bind(Node(node)))
    }

    /// The node of the pages that `cpu` allocates, whose lruvec they are on.
    fn lru_node(&self, system: &System, cpu: Cpu) -> Node {
        self.spec.bind.map_or_else(|| system.machine.node(cpu), Node)
    }

    fn charge(
        &self,
        system: &mut System,
        cpu: Cpu,
        category: Category,
        nanoseconds: u32,
        part: u64,
        whole: u64,
    ) {
        let recorded = Time::from_nanoseconds(nanoseconds.into()).fraction(part, whole.max(1));
        let time = system.machine.stretched(cpu, recorded.scale(self.time_scale));
        system.machine.charge(cpu, category, time);
    }

    /// Ends the process on `cpu`.
    fn finish(&mut self, system: &mut System, cpu: Cpu) {
        let Some(mut process) = self.on_cpu[cpu.index()].take() else { return };
        let now = system.machine.now(cpu);
        for (pfn, kind) in process.pages.drain(..).zip(process.kinds.drain(..)) {
            if pfn != mm::page::NO_PAGE {
                self.left_behind[kind.order as usize].push(pfn);
            }
        }
        self.spare.push((process.pages, process.kinds));
        let build = process.build;
        if !process.rest.is_empty() {
            self.start_process(system, build, process.rest, now);
            return;
        }
        if self.builds[build].tail_started {
            self.builds[build].finished = true;
            self.finished_at = self.finished_at.max(now);
            return;
        }
        self.builds[build].running_jobs -= 1;
        self.units_finished += 1;
        if !self.measuring && self.units_finished >= self.spec.warm_units {
            self.measuring = true;
            system.start_measuring(now);
        }
        if !self.start_unit(system, build, now) && self.builds[build].running_jobs == 0 {
            self.builds[build].tail_started = true;
            if self.profile.tail().is_empty() {
                self.builds[build].finished = true;
                self.finished_at = self.finished_at.max(now);
            } else {
                self.start_process(system, build, self.profile.tail(), now);
            }
        }
    }

    /// Continues an allocation; false if the CPU must wait for its turn.
    fn allocate(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        process: &mut Process,
        kind: Kind,
        count: u32,
        nanoseconds: u32,
    ) -> bool {
        let request = Request::new(kind.order, kind.migrate_type, self.placement_of());
        let fill = self.folio_batches[cpu.index()];
        if kind.is_on_lru() && policy::room_in_batch(system.mm.features(), fill) == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            let node = self.lru_node(system, cpu);
            system.move_lru_pages(cpu, process.build, node, fill.into());
            self.folio_batches[cpu.index()] = 0;
        }
        let remaining = count - process.done;
        let until_full = policy::room_in_batch(system.mm.features(), self.folio_batches[cpu.index()]);
        let wanted = if kind.is_on_lru() { remaining.min(until_full.into()) } else { remaining };
        let mut taken = 0;
        if kind.order == 0 {
            taken = system.alloc_private(cpu, &request, wanted as usize, &mut process.pages) as u32;
        }
        if taken == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            // A real build would be killed when out of memory; here the page is missing and the work goes on.
            process.pages.push(system.alloc(cpu, &request).unwrap_or(mm::page::NO_PAGE));
            taken = 1;
        }
        process.kinds.resize(process.pages.len(), kind);
        if kind.is_on_lru() {
            self.folio_batches[cpu.index()] += taken as u8;
        }
        self.charge(system, cpu, Category::PageFault, nanoseconds, taken.into(), count.into());
        process.done += taken;
        true
    }

    /// Continues freeing the process's own pages; false if the CPU must wait for its turn.
    fn free(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        process: &mut Process,
        first: u32,
        count: u32,
        nanoseconds: u32,
    ) -> bool {
        let at = (first + process.done) as usize;
        let end = ((first + count) as usize).min(process.pages.len());
        let Some(&kind) = process.kinds.get(at) else {
            process.done = count;
            return true;
        };
        let same = process.kinds[at..end].iter().take(FREE_BATCH).take_while(|&&k| k == kind).count();
        let same = process.pages[at..at + same].iter().take_while(|&&pfn| pfn != mm::page::NO_PAGE).count();
        if same == 0 {
            process.done += 1;
            return true;
        }
        if kind.is_on_lru() && process.off_lru == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            let node = self.lru_node(system, cpu);
            system.move_lru_pages(cpu, process.build, node, same);
            process.off_lru = same;
        }
        let batch = if kind.is_on_lru() { same.min(process.off_lru) } else { same };
        let mut freed = 0;
        if kind.order == 0 {
            freed = system.free_private(cpu, &process.pages[at..at + batch]);
        }
        if freed == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            system.free(cpu, process.pages[at], kind.order);
            freed = 1;
        }
        process.pages[at..at + freed].fill(mm::page::NO_PAGE);
        process.off_lru -= freed.min(process.off_lru);
        self.charge(system, cpu, Category::PageFree, nanoseconds, freed as u64, count.into());
        process.done += freed as u32;
        true
    }

    /// Continues freeing pages that other processes left behind; false if the CPU must wait for its turn.
    fn free_shared(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        process: &mut Process,
        order: u8,
        count: u32,
        nanoseconds: u32,
    ) -> bool {
        let pool = &mut self.left_behind[order as usize];
        let remaining = (count - process.done) as usize;
        let mut freed = 0;
        if order == 0 {
            let newest = pool.len() - remaining.min(FREE_BATCH).min(pool.len());
            freed = system.free_private(cpu, &pool[newest..]);
            pool.drain(newest..newest + freed);
        }
        if freed == 0 {
            if !system.may_share(cpu) {
                return false;
            }
            if let Some(pfn) = pool.pop() {
                system.free(cpu, pfn, order);
            }
            freed = 1;
        }
        self.charge(system, cpu, Category::PageFree, nanoseconds, freed as u64, count.into());
        process.done += freed as u32;
        true
    }
}

impl KernelBuilds {
    /// Allocates or frees the process's slab; false if the CPU must wait for its turn.
    fn settle_slab(&self, system: &mut System, cpu: Cpu, process: &mut Process) -> bool {
        let ending = process.next == process.operations.len();
        match process.slab {
            Slab::Wanted if !system.may_share(cpu) => return false,
            Slab::Wanted => {
                let request = Request::new(SLAB_ORDER, MigrateType::Unmovable, self.placement_of());
                process.slab = system.alloc(cpu, &request).map_or(Slab::None, Slab::Held);
            }
            Slab::Held(_) if ending && !system.may_share(cpu) => return false,
            Slab::Held(pfn) if ending => {
                system.free(cpu, pfn, SLAB_ORDER);
                process.slab = Slab::None;
            }
            Slab::None | Slab::Held(_) => {}
        }
        true
    }
}

impl Program for KernelBuilds {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        let Some(mut process) = self.on_cpu[cpu.index()].take() else { return Step::Idle };
        loop {
            if !self.settle_slab(system, cpu, &mut process) {
                self.on_cpu[cpu.index()] = Some(process);
                break;
            }
            let Some(&operation) = process.operations.get(process.next) else {
                self.on_cpu[cpu.index()] = Some(process);
                self.finish(system, cpu);
                break;
            };
            let (went_on, count) = match operation {
                Operation::Run { nanoseconds } => {
                    self.charge(system, cpu, Category::Program, nanoseconds, 1, 1);
                    (true, 0)
                }
                Operation::Allocate { order, migrate_type, count, nanoseconds } => {
                    let kind = Kind { order, migrate_type };
                    (self.allocate(system, cpu, &mut process, kind, count, nanoseconds), count)
                }
                Operation::Free { first, count, nanoseconds } => {
                    (self.free(system, cpu, &mut process, first, count, nanoseconds), count)
                }
                Operation::FreeShared { order, count, nanoseconds, .. } => {
                    (self.free_shared(system, cpu, &mut process, order, count, nanoseconds), count)
                }
            };
            if !went_on {
                self.on_cpu[cpu.index()] = Some(process);
                break;
            }
            if process.done >= count {
                process.next += 1;
                process.done = 0;
                process.off_lru = 0;
            }
        }
        if self.on_cpu[cpu.index()].is_some() { Step::Again } else { Step::Idle }
    }

    fn is_finished(&self) -> bool {
        self.builds.iter().all(|build| build.finished)
    }
}
