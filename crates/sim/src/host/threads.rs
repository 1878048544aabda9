//! The processes, threads, files and memory of a host's programs at their start.

use super::areas::Areas;
use super::engine::sockets::Block;
use super::layout::{self, ProcessLayout};
use super::{Cgroup, HostProgram, Workload};
use crate::block_io::ReadsInFlight;
use crate::mapping::{bind, pages_of};
use crate::memory_access::Span;
use crate::recorded_space::RecordedSpace;
use crate::sched::{CpuSet, Scheduler};
use crate::{Boot, Misfit, RunError, System};
use machine::{Cpu, Node, PageSize, Time, WrongValue};
use mm::address_space::{MmId, Vpn};
use mm::delayacct::Delay;
use mm::memcontrol::{Memcg, MemcgWrite};
use mm::numa::migrate::policy::Nodes;
use mm::numa::placement::TaskId;
use mm::page::NR_PAGE_ORDERS;
use mm::readahead::OpenFileId;
use mm::slub::Object;
use mm::write::Write;
use mm::writeback::Dirtier;
use mm::xarray::FileId;
use mm::{Pfn, Placement, Request};
use std::collections::VecDeque;
use std::ops::Range;
use workload::demand::Descriptor;
use workload::operation::{KernelBlock, Layout, Operation};
use workload::tasks::Program;

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

/// What the first thread of a process does before the others run.
pub(super) struct Startup {
    /// What it has still to touch, last first.
    pub touches: Vec<Range<Vpn>>,
    /// What nobody can access afterwards.
    pub start: Range<Vpn>,
}

/// Whose operations a thread does.
pub(super) enum Role {
    /// Those of the program's thread of this number.
    Thread(usize),
    /// It is the first of its process, which starts the others and waits for them.
    First(Startup),
}

/// What a transaction waited for so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransactionWaits {
    /// For its thread, which had earlier requests to answer.
    pub for_thread: Time,
    /// What delayed the thread since.
    pub delay: Option<Delay>,
}

impl TransactionWaits {
    /// Adds a delay of the thread.
    pub fn add(&mut self, later: Delay) {
        self.delay = Some(self.delay.map_or(later, |earlier| earlier.and(later)));
    }
}

pub(super) struct Thread {
    /// Index into `Host::programs`.
    pub program: usize,
    pub role: Role,
    /// Index into `Host::processes`.
    pub process: usize,
    pub state: State,
    /// Whether it has run.
    pub started: bool,
    /// Where it runs first, if not where the scheduler wants it to.
    pub begins_on: Option<CpuSet>,
    pub reads: ReadsInFlight,
    pub doing: Option<Doing>,
    /// The write to a file of the kernel that it is in, if it is.
    pub write: Option<Writing>,
    /// Pages that it accesses in order, if it does.
    pub span: Span,
    /// The area of its process that they are in.
    pub area: usize,
    /// By area, pages accessed since the last update of the heat map.
    pub touched: Vec<u64>,
    /// Blocks that the kernel has allocated for it, by order.
    pub kernel_pages: [Vec<Pfn>; NR_PAGE_ORDERS],
    /// Blocks of the message that it sends or reads.
    pub message: VecDeque<Block>,
    /// The lowest page of its stack, if it has one.
    pub stack: Option<Vpn>,
    pub dirtier: Dirtier,
    /// How long it could not go on in an operation that does not yet.
    pub delay: Option<Delay>,
    /// Since when it asks the kernel for something that is not done yet.
    pub call_began: Option<Time>,
    pub transaction_start: Time,
    /// What of the transaction was not spent on a CPU.
    pub waits: TransactionWaits,
}

impl Thread {
    /// A thread of a program and process that starts at `start`.
    fn new(system: &System, (program, process): (usize, usize), role: Role, start: Time) -> Thread {
        Thread {
            program,
            role,
            process,
            state: State::Waits,
            started: false,
            begins_on: None,
            reads: ReadsInFlight::new(1),
            doing: None,
            write: None,
            span: Span::default(),
            area: 0,
            touched: Vec::new(),
            kernel_pages: Default::default(),
            message: VecDeque::new(),
            stack: None,
            dirtier: Dirtier::new(system.mm.parts.allocator.page_size()),
            delay: None,
            call_began: None,
            transaction_start: start,
            waits: TransactionWaits::default(),
        }
    }

    /// Whether it has something to do yet, and the run ends when it and others like it have not. One whose process stays is idle then.
    pub fn is_counted(&self) -> bool {
        !self.is_first() && !matches!(self.state, State::Idle | State::Done)
    }

    /// Whether it is the first of its process, which starts the others.
    pub fn is_first(&self) -> bool {
        matches!(self.role, Role::First(_))
    }
}

pub(super) struct Process {
    pub program: usize,
    pub memcg: Memcg,
    /// `None` once it has ended.
    pub mm: Option<MmId>,
    /// The task of which all others are threads.
    pub first: TaskId,
    /// Whether it is a thread of the kernel.
    pub of_kernel: bool,
    /// The page of data that all threads use, if they do.
    pub data: Option<Vpn>,
    pub areas: Areas,
    pub alive: usize,
    /// Threads at the barrier, and the CPUs where they ran.
    pub waiting: Vec<(usize, Cpu)>,
    /// Who waits until it has exited, and the CPU where that ran.
    pub awaited_by: Option<(usize, Cpu)>,
    /// What the kernel keeps of it in slabs; nothing of processes that were there from the start.
    pub objects: Vec<Object>,
    /// Its threads in ascending order: indices into `Host::threads`.
    pub threads: Vec<usize>,
    /// Where its recorded pages are mapped; empty unless its mappings were recorded.
    pub recorded: RecordedSpace,
}

/// A file and the descriptors that threads have opened.
pub(super) struct OpenFiles {
    pub id: FileId,
    /// Its length.
    pub pages: u64,
    /// One for all threads, or one per thread.
    descriptors: Vec<OpenFileId>,
}

impl OpenFiles {
    pub fn descriptor(&self, thread: usize) -> OpenFileId {
        *self.descriptors.get(thread).unwrap_or(&self.descriptors[0])
    }
}

/// Where a numbered block of pages of the kernel is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Slot {
    /// It is not allocated.
    #[default]
    Empty,
    /// Memory did not suffice for it.
    NoMemory,
    Block(Pfn, u8),
}

impl Slot {
    /// What becomes of a slot for whose block `cpu` asks.
    pub fn allocate(system: &mut System, cpu: Cpu, request: &Request) -> Slot {
        system.alloc(cpu, request).map_or(Slot::NoMemory, |pfn| Slot::Block(pfn, request.order))
    }
}

/// A program that runs.
pub(super) struct Running {
    pub generator: Program,
    pub files: Vec<OpenFiles>,
    /// Blocks of pages that the kernel allocates for it, by number.
    pub blocks: Vec<Slot>,
    /// The first of its processes among those of all programs.
    pub first_process: usize,
    /// The first of its sockets among those of all programs.
    pub first_socket: usize,
    /// When it started; its threads, if the first of a process starts them.
    pub start: Time,
    /// Processes whose first thread has not started the others.
    pub to_begin: usize,
    pub memory_node: Option<Node>,
    /// `cpuset.mems`, if it is in a cpuset.
    pub mems_allowed: Option<Nodes>,
    /// What its processes map besides their areas.
    pub layout: Option<ProcessLayout>,
    /// What its pages compress to ([`HostProgram::compressed_bytes`]).
    compressed_bytes: Vec<u32>,
    /// Where its threads may run.
    allowed: Option<CpuSet>,
    /// Where the first thread of a process runs first.
    begins_on: Option<CpuSet>,
}

impl Running {
    /// A copy of a program, of a system that has booted by `booted`; without one, the operator.
    fn new(
        booted: Time,
        generator: Program,
        files: Vec<OpenFiles>,
        program: Option<(&HostProgram, u32)>,
    ) -> Running {
        let start = program.map_or(0, |(of, copy)| {
            of.start_milliseconds + of.start_spread_milliseconds * u64::from(copy) / u64::from(of.copies)
        });
        let program = program.map(|(program, _)| program);
        let node = |of: fn(&HostProgram) -> Option<u8>| program.and_then(of).map(Node);
        let begins_on = node(|program| program.begins_on).map(CpuSet::Of);
        let on_cpu = program.and_then(|program| program.begins_on_cpu).map(|cpu| CpuSet::Only(Cpu(cpu)));
        let mems = program.map_or(&[][..], |program| &program.cpuset_mems);
        Running {
            generator,
            files,
            blocks: Vec::new(),
            first_process: 0,
            first_socket: 0,
            start: booted + super::milliseconds(start),
            to_begin: 0,
            memory_node: node(|program| program.memory_node),
            mems_allowed: (!mems.is_empty()).then(|| Nodes::of_all(mems)),
            layout: program.and_then(|program| program.layout),
            compressed_bytes: program.map_or_else(Vec::new, |program| program.compressed_bytes.clone()),
            allowed: node(|program| program.cpu_node).map(CpuSet::Of),
            begins_on: on_cpu.or(begins_on),
        }
    }

    /// Where the kernel allocates pages for it: on the node that its memory is bound to, or locally.
    pub fn placement(&self) -> Placement {
        self.memory_node.map_or(Placement::Local, Placement::Bind)
    }

    /// Has the kernel allocate the blocks that it has allocated for the program before.
    pub fn allocate_blocks(&mut self, system: &mut System) {
        let placement = self.placement();
        let allocate = |&KernelBlock { order, migrate_type }: &KernelBlock| {
            Slot::allocate(system, Cpu(0), &Request::new(order, migrate_type, placement))
        };
        self.blocks = self.generator.layout().blocks.iter().map(allocate).collect();
    }

    /// Creates an address space of it.
    pub fn create_mm(&self, system: &mut System, memcg: Memcg) -> MmId {
        let mm = system.mm.parts.create_mm(memcg);
        system.mm.parts.address_spaces.set_compressed_bytes(mm, self.compressed_bytes.clone());
        mm
    }
}

/// All that is there before the first operation.
pub(super) struct Beginnings {
    pub programs: Vec<Running>,
    pub processes: Vec<Process>,
    pub threads: Vec<Thread>,
    /// By the number of the cgroup; that of the first copies, where each has its own.
    pub memcgs: Vec<Memcg>,
    pub pids: Pids,
}

/// Checks that there are the CPUs that threads of the program at this place stay on.
fn check_cpus(generator: &Program, at: usize, cpus: usize) -> Result<(), Misfit> {
    let needed = generator.layout().stay_on_cpus;
    if needed <= cpus {
        return Ok(());
    }
    let expected = format!("no more than the machine's {cpus} CPUs; fewer copies, or another --machine");
    let key = format!("workload.programs[{at}].program");
    Err(Misfit::OutOfRange(WrongValue::new(key, format!("{needed} threads on a CPU each"), expected)))
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
        spec: &Workload,
        system: &mut System,
        scheduler: &mut Scheduler,
    ) -> Result<Beginnings, RunError> {
        let booted = system.latest();
        let mut memcgs = create_memcgs(system, spec);
        let mut all = Beginnings {
            programs: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            memcgs: Vec::new(),
            pids: Pids(DAEMONS),
        };
        for (at, program) in spec.programs.iter().enumerate() {
            let copies = program.program.copies();
            for copy in 0..program.copies {
                let mut memcg_of = |name| match spec.cgroup(name) {
                    Some(place) => memcg_of_copy(system, &spec.cgroups[place], &mut memcgs[place], copy),
                    None => Memcg::ROOT,
                };
                let own: Vec<Memcg> = match program.cgroups.is_empty() {
                    true => vec![memcg_of(program.cgroup.as_ref())],
                    false => program.cgroups.iter().map(|name| memcg_of(Some(name))).collect(),
                };
                let stream = (all.programs.len() as u64) << 32;
                let cpus = system.machine.topology.cpus();
                let generator = copies
                    .start(cpus, boot.seed + u64::from(copy), |thread| {
                        boot.stream(crate::random::Stream::Demand, stream | thread)
                    })
                    .map_err(|wrong| {
                        RunError::Demand(wrong.within(format!("workload.programs[{at}].program")))
                    })?;
                check_cpus(&generator, at, cpus)?;
                let files = open_files(system, spec.large_folios, generator.layout());
                all.add(
                    system,
                    scheduler,
                    Running::new(booted, generator, files, Some((program, copy))),
                    &own,
                );
            }
        }
        if !spec.events.is_empty() {
            let generator = Program::of_writes(spec.events.iter().map(|event| event.milliseconds));
            all.add(system, scheduler, Running::new(booted, generator, Vec::new(), None), &[Memcg::ROOT]);
        }
        all.memcgs = memcgs.into_iter().map(|copies| copies[0]).collect();
        Ok(all)
    }

    /// Adds the processes and threads of a program, whose processes are in memcgs by their group, or all in one.
    fn add(&mut self, system: &mut System, scheduler: &mut Scheduler, running: Running, memcgs: &[Memcg]) {
        let layout = running.generator.layout().clone();
        let first_process = self.processes.len();
        let sockets = |program: &Running| program.generator.layout().sockets.len();
        let first_socket = self.programs.iter().map(sockets).sum();
        self.programs.push(Running { first_process, first_socket, ..running });
        for process in &layout.processes {
            let memcg = memcgs[memcgs.len().min(process.group as usize + 1) - 1];
            self.add_process(system, memcg, process.of_kernel);
        }
        for (number, thread) in layout.threads.iter().enumerate() {
            self.add_thread(system, scheduler, number, (first_process + thread.process as usize, thread));
        }
        for (number, process) in layout.processes.iter().enumerate() {
            match process.forked {
                true => self.end_until_forked(system, scheduler, first_process + number),
                false => self.map(system, scheduler, first_process + number, process),
            }
        }
    }

    /// Leaves a process that another forks later as if it had exited.
    fn end_until_forked(&mut self, system: &mut System, scheduler: &Scheduler, process: usize) {
        for &thread in &self.processes[process].threads {
            self.threads[thread].state = State::Done;
            system.mm.parts.exit_task(scheduler.task(thread));
        }
        let own = &mut self.processes[process];
        own.alive = 0;
        system.mm.parts.exit_task(own.first);
        if let Some(mm) = own.mm.take() {
            system.mm.enter(&mut system.machine, Cpu(0)).exit_mm(mm);
        }
    }

    /// Adds a process of the last program.
    fn add_process(&mut self, system: &mut System, memcg: Memcg, of_kernel: bool) {
        let program = self.programs.len() - 1;
        let running = &self.programs[program];
        let mm = running.create_mm(system, memcg);
        let pid = self.pids.next();
        let first = system.mm.enter(&mut system.machine, Cpu(0)).add_task(running.start, mm, pid, None);
        system.mm.parts.numa.set_mems_allowed(first, running.mems_allowed);
        bind(system, first, running.memory_node);
        self.processes.push(Process {
            program,
            memcg,
            mm: Some(mm),
            first,
            of_kernel,
            data: None,
            areas: Areas::default(),
            alive: 0,
            waiting: Vec::new(),
            awaited_by: None,
            objects: Vec::new(),
            threads: Vec::new(),
            recorded: RecordedSpace::new(system.mm.parts.allocator.page_size()),
        });
    }

    /// Adds a thread, which has this number in the last program, to a process.
    fn add_thread(
        &mut self,
        system: &mut System,
        scheduler: &mut Scheduler,
        number: usize,
        (process, thread): (usize, &workload::demand::Thread),
    ) {
        let own = &mut self.processes[process];
        own.alive += 1;
        own.threads.push(self.threads.len());
        let (mm, first, program) = (own.mm.expect("nobody was killed yet"), own.first, own.program);
        let running = &self.programs[program];
        let (pid, allowed) = (self.pids.next(), running.allowed);
        let mut kernel = system.mm.enter(&mut system.machine, Cpu(0));
        let task = kernel.add_task(running.start, mm, pid, Some(first));
        bind(system, task, running.memory_node);
        let start = running.start + super::milliseconds(thread.start_milliseconds);
        let reads = ReadsInFlight::new(thread.outstanding as usize);
        let thread = Thread::new(system, (program, process), Role::Thread(number), start);
        self.push(system, scheduler, task, (Thread { reads, ..thread }, allowed));
    }

    fn push(
        &mut self,
        system: &System,
        scheduler: &mut Scheduler,
        task: TaskId,
        (thread, allowed): (Thread, Option<CpuSet>),
    ) {
        let known = scheduler.add(task);
        scheduler.set_affinity(&system.machine.topology, known, Cpu(0), allowed);
        self.threads.push(thread);
    }

    /// Maps the memory of a process of the last program. If there is something to do before its threads run, its first thread does it.
    fn map(
        &mut self,
        system: &mut System,
        scheduler: &mut Scheduler,
        number: usize,
        process: &workload::operation::Process,
    ) {
        let own = &mut self.processes[number];
        let (mm, program, first) = (own.mm.expect("nobody was killed yet"), own.program, own.first);
        let running = &mut self.programs[program];
        let layout = running.layout.filter(|_| !process.of_kernel);
        let mapped = match layout {
            Some(layout) => layout.map(system, mm, (process, own.alive), |end| scheduler.chance(end)),
            None => layout::map_areas_alone(system, mm, process),
        };
        let files = process.mapped_files.iter().map(|&file| &running.files[file as usize]);
        let mapped_files = files.map(|file| layout::map_file(system, mm, file));
        own.data = mapped.data;
        own.areas = mapped.areas.into_iter().chain(mapped_files).collect();
        for (&thread, stack) in own.threads.iter().zip(mapped.stacks) {
            self.threads[thread].stack = Some(stack);
        }
        let mut touches = mapped.touches;
        touches.reverse();
        let begins_on = running.begins_on;
        if touches.is_empty() {
            return own.threads.iter().for_each(|&thread| self.threads[thread].begins_on = begins_on);
        }
        running.to_begin += 1;
        let (allowed, start) = (running.allowed, running.start);
        let role = Role::First(Startup { touches, start: mapped.start });
        let thread = Thread { begins_on, ..Thread::new(system, (program, number), role, start) };
        own.threads.push(self.threads.len());
        self.push(system, scheduler, first, (thread, allowed));
    }

    /// When which threads run that no other starts.
    pub fn starts(&self) -> impl Iterator<Item = (Time, usize)> {
        let begins =
            |process: &Process| process.threads.iter().any(|&thread| self.threads[thread].is_first());
        let by_themselves: Vec<bool> = self.processes.iter().map(|process| !begins(process)).collect();
        let threads = self.threads.iter().enumerate();
        threads
            .filter(move |(_, of)| of.is_first() || of.is_counted() && by_themselves[of.process])
            .map(|(at, thread)| (thread.transaction_start, at))
    }
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
        OpenFiles { id, pages: pages.into(), descriptors: (0..descriptors).map(open).collect() }
    };
    layout.files.iter().map(file).collect()
}

/// Creates the memory cgroups, each below its parent: those of the first copies, where each copy has its own.
fn create_memcgs(system: &mut System, spec: &Workload) -> Vec<Vec<Memcg>> {
    let mut memcgs: Vec<Vec<Memcg>> = Vec::new();
    for cgroup in &spec.cgroups {
        let parent = spec.cgroup(cgroup.parent.as_ref()).map_or(Memcg::ROOT, |place| memcgs[place][0]);
        memcgs.push(vec![create_memcg(system, cgroup, parent)]);
    }
    memcgs
}

/// The memory cgroup that a copy of a program is in; `copies` are those that there are.
fn memcg_of_copy(system: &mut System, cgroup: &Cgroup, copies: &mut Vec<Memcg>, copy: u32) -> Memcg {
    let parent = system.mm.parts.lrus.memcg(copies[0]).parent.unwrap_or(Memcg::ROOT);
    while cgroup.per_copy && copies.len() <= copy as usize {
        copies.push(create_memcg(system, cgroup, parent));
    }
    copies[if cgroup.per_copy { copy as usize } else { 0 }]
}

fn create_memcg(system: &mut System, cgroup: &Cgroup, parent: Memcg) -> Memcg {
    let page_size = system.mm.parts.allocator.page_size();
    let memcg = system.mm.parts.lrus.create_memcg(parent);
    let limits = system.mm.parts.lrus.memcg_mut(memcg);
    limits.max = cgroup.max_mib.map_or(limits.max, |mib| page_size.pages_of_mib(mib));
    limits.high = cgroup.high_mib.map_or(limits.high, |mib| page_size.pages_of_mib(mib));
    limits.swap_max = cgroup.swap_max_mib.map_or(limits.swap_max, |mib| page_size.pages_of_mib(mib));
    limits.zswap_max = cgroup.zswap_max_mib.map_or(limits.zswap_max, |mib| page_size.pages_of_mib(mib));
    limits.zswap_writeback = cgroup.zswap_writeback;
    limits.low = page_size.pages_of_mib(cgroup.low_mib);
    limits.min = page_size.pages_of_mib(cgroup.min_mib);
    limits.oom_group = cgroup.oom_group;
    memcg
}
