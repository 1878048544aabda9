//! The processes, threads, files and memory of a host's programs at their start.

use super::HostPrograms;
use crate::block_io::ReadsInFlight;
use crate::mapping::{bind, map, map_apart, pages_of};
use crate::memory_access::Span;
use crate::sched::{CpuSet, Scheduler};
use crate::{Boot, RunError, System};
use machine::{Cpu, Node, PageSize, Time};
use mm::address_space::{MmId, Vpn};
use mm::hugetlb::write::Write;
use mm::memcontrol::{Memcg, MemcgWrite};
use mm::numa::placement::TaskId;
use mm::readahead::OpenFileId;
use mm::writeback::Dirtier;
use mm::xarray::FileId;
use std::ops::Range;
use workload::demand::Descriptor;
use workload::tasks::{Layout, Operation, Program};

/// The highest PID of a daemon.
const DAEMONS: u32 = 999;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is in the queue of a CPU.
    Runs,
    /// It waits for a device, a time, or the others at a barrier.
    Waits,
    /// It has nothing more to do, and its process stays.
    Idle,
    Done,
}

/// What is left of an operation that reads, writes or accesses pages.
#[derive(Clone, Debug)]
pub(super) struct Doing {
    pub operation: Operation,
    /// Pages done.
    pub done: u32,
}

/// A write to a file of the kernel in progress.
pub(super) enum Writing {
    /// To a setting or a file of a pool of huge pages.
    Kernel(Write),
    /// To a file of a cgroup.
    Cgroup(MemcgWrite),
}

pub(super) struct Thread {
    /// Index into `Host::programs`.
    pub program: usize,
    /// Its number within the program.
    pub number: usize,
    /// Index into `Host::processes`.
    pub process: usize,
    pub state: State,
    /// Whether it has run.
    pub started: bool,
    pub reads: ReadsInFlight,
    pub doing: Option<Doing>,
    /// The write to a file of the kernel that it is in, if it is.
    pub write: Option<Writing>,
    /// Pages that it accesses in order, if it does.
    pub span: Span,
    pub dirtier: Dirtier,
    pub transaction_start: Time,
}

pub(super) struct Process {
    pub program: usize,
    pub memcg: Memcg,
    /// `None` once it has ended.
    pub mm: Option<MmId>,
    /// The task of which all others are threads.
    pub first: TaskId,
    pub areas: Vec<Range<Vpn>>,
    pub alive: usize,
    /// Threads at the barrier, and the CPUs where they ran.
    pub waiting: Vec<(usize, Cpu)>,
}

/// A file and the descriptors that threads have opened.
pub(super) struct OpenFiles {
    pub id: FileId,
    /// One for all threads, or one per thread.
    descriptors: Vec<OpenFileId>,
}

impl OpenFiles {
    pub fn descriptor(&self, thread: usize) -> OpenFileId {
        *self.descriptors.get(thread).unwrap_or(&self.descriptors[0])
    }
}

/// A program that runs.
pub(super) struct Running {
    pub generator: Program,
    pub files: Vec<OpenFiles>,
    pub start: Time,
    pub memory_node: Option<Node>,
}

/// All that is there before the first operation.
pub(super) struct Beginnings {
    pub programs: Vec<Running>,
    pub processes: Vec<Process>,
    pub threads: Vec<Thread>,
    /// By the number of the cgroup.
    pub memcgs: Vec<Memcg>,
    pub pids: Pids,
}

/// Hands out PIDs.
pub(super) struct Pids(u32);

impl Pids {
    pub fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

impl Beginnings {
    /// Creates the programs of `spec`, whose threads `scheduler` gets to know under their numbers.
    pub fn new(
        boot: &Boot,
        spec: &HostPrograms,
        system: &mut System,
        scheduler: &mut Scheduler,
    ) -> Result<Beginnings, RunError> {
        let memcgs = create_memcgs(system, spec);
        let mut all = Beginnings {
            programs: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            memcgs: Vec::new(),
            pids: Pids(DAEMONS),
        };
        for (at, program) in spec.programs.iter().enumerate() {
            let memcg_of = |name| spec.cgroup(name).map_or(Memcg::ROOT, |place| memcgs[place]);
            let own: Vec<Memcg> = match program.cgroups.is_empty() {
                true => vec![memcg_of(program.cgroup.as_ref())],
                false => program.cgroups.iter().map(|name| memcg_of(Some(name))).collect(),
            };
            for _ in 0..program.copies {
                let stream = (all.programs.len() as u64) << 32;
                let cpus = system.machine.topology.cpus();
                let generator = program
                    .program
                    .start(cpus, |thread| boot.stream(crate::random::Stream::Demand, stream | thread))
                    .map_err(|wrong| {
                        RunError::Demand(wrong.within(format!("workload.programs[{at}].program")))
                    })?;
                let running = Running {
                    files: open_files(system, spec.large_folios, generator.layout()),
                    generator,
                    start: super::milliseconds(program.start_milliseconds),
                    memory_node: program.memory_node.map(Node),
                };
                let allowed = program.cpu_node.map(|node| CpuSet::Of(Node(node)));
                all.add(system, scheduler, running, (&own, allowed));
            }
        }
        if !spec.events.is_empty() {
            let generator = Program::of_writes(spec.events.iter().map(|event| event.milliseconds));
            let running = Running { files: Vec::new(), generator, start: Time::ZERO, memory_node: None };
            all.add(system, scheduler, running, (&[Memcg::ROOT], None));
        }
        all.memcgs = memcgs;
        Ok(all)
    }

    /// Adds the processes and threads of a program, whose processes are in memcgs by their group, or all in one.
    fn add(
        &mut self,
        system: &mut System,
        scheduler: &mut Scheduler,
        running: Running,
        (memcgs, allowed): (&[Memcg], Option<CpuSet>),
    ) {
        let layout = running.generator.layout().clone();
        let (program, first_process) = (self.programs.len(), self.processes.len());
        for process in &layout.processes {
            let memcg = memcgs[memcgs.len().min(process.group as usize + 1) - 1];
            let mm = system.mm.parts.create_mm(memcg);
            let pid = self.pids.next();
            let first = system.mm.enter(&mut system.machine, Cpu(0)).add_task(running.start, mm, pid, None);
            bind(system, first, running.memory_node);
            let areas = map_areas(system, mm, process);
            let (alive, waiting) = (0, Vec::new());
            self.processes.push(Process { program, memcg, mm: Some(mm), first, areas, alive, waiting });
        }
        for (number, thread) in layout.threads.iter().enumerate() {
            let process = first_process + thread.process as usize;
            let own = &mut self.processes[process];
            own.alive += 1;
            let (mm, first) = (own.mm.expect("nobody was killed yet"), own.first);
            let pid = self.pids.next();
            let start = running.start + super::milliseconds(thread.start_milliseconds);
            let mut kernel = system.mm.enter(&mut system.machine, Cpu(0));
            let task = kernel.add_task(running.start, mm, pid, Some(first));
            bind(system, task, running.memory_node);
            let known = scheduler.add(task);
            scheduler.set_affinity(&system.machine.topology, known, Cpu(0), allowed);
            self.threads.push(Thread {
                program,
                number,
                process,
                state: State::Waits,
                started: false,
                reads: ReadsInFlight::new(thread.outstanding as usize),
                doing: None,
                write: None,
                span: Span::default(),
                dirtier: Dirtier::new(system.mm.parts.allocator.page_size()),
                transaction_start: start,
            });
        }
        self.programs.push(running);
    }
}

fn map_areas(system: &mut System, mm: MmId, process: &workload::tasks::Process) -> Vec<Range<Vpn>> {
    let page_size = system.mm.parts.allocator.page_size();
    let area = |&parts: &u64| {
        let map = if process.apart { map_apart } else { map };
        map(system, mm, pages_of(page_size, parts))
    };
    process.areas.iter().map(area).collect()
}

/// Opens the files, once or once per thread.
fn open_files(system: &mut System, large_folios: bool, layout: &Layout) -> Vec<OpenFiles> {
    let page_size: PageSize = system.mm.parts.allocator.page_size();
    let file = |file: &workload::demand::File| {
        let (id, pages) = (system.mm.parts.page_cache.open_file(), pages_of(page_size, file.pages) as u32);
        if large_folios {
            system.mm.parts.page_cache.set_large_folios(id);
        }
        if file.new {
            system.mm.parts.page_cache.set_delayed_allocation(id);
        }
        let descriptors = match file.descriptor {
            Descriptor::Shared => 1,
            Descriptor::PerThread => layout.threads.len(),
        };
        let open = |_| {
            let open = system.mm.open(id, pages);
            system.mm.fadvise(open, file.advice);
            open
        };
        OpenFiles { id, descriptors: (0..descriptors).map(open).collect() }
    };
    layout.files.iter().map(file).collect()
}

/// Creates the memory cgroups, each below its parent.
fn create_memcgs(system: &mut System, spec: &HostPrograms) -> Vec<Memcg> {
    let page_size = system.mm.parts.allocator.page_size();
    let mut memcgs: Vec<Memcg> = Vec::new();
    for cgroup in &spec.cgroups {
        let place = spec.cgroup(cgroup.parent.as_ref());
        let memcg = system.mm.parts.lrus.create_memcg(place.map_or(Memcg::ROOT, |place| memcgs[place]));
        let limits = system.mm.parts.lrus.memcg_mut(memcg);
        limits.max = cgroup.max_mib.map_or(limits.max, |mib| page_size.pages_of_mib(mib));
        limits.high = cgroup.high_mib.map_or(limits.high, |mib| page_size.pages_of_mib(mib));
        limits.swap_max = cgroup.swap_max_mib.map_or(limits.swap_max, |mib| page_size.pages_of_mib(mib));
        limits.low = page_size.pages_of_mib(cgroup.low_mib);
        limits.min = page_size.pages_of_mib(cgroup.min_mib);
        limits.oom_group = cgroup.oom_group;
        memcgs.push(memcg);
    }
    memcgs
}
