//! Threads on a machine with several nodes: which memory they use, on which node it is, and how NUMA
//! balancing brings both together.
//!
//! ```text
//!   workload::threads ─► Operation ─► sweep: pages by node ─► Machine::stream: controllers and links
//!                                       │ a page that faults
//!                                       ▼
//!                                     touch (mm): first touch, hint fault, migration
//!   tick, every 4 ms ─► scan pass (mm)       preferred node ─► a CPU for the thread (crate::sched)
//! ```
//!
//! Threads are placed on CPUs by the scheduler (`crate::sched`). A process starts its threads one after the
//! other, each on the node with most idle CPUs. Wake-ups, priorities, changing load, and imbalance that the
//! scheduler tolerates are not modelled.
//!
//! Each thread has a stack of 8 MiB, of which it uses a page or two. Each process has some data, which its
//! first thread touches before it starts the others; all threads may use one page of it (layout.rs).

mod layout;
mod report;

use crate::daemons::Daemons;
use crate::mapping::{SPAN, bind, map, map_again, map_apart, map_behind};
use crate::memory_access::{Access, MemoryAccesses, Span};
use crate::outcome::Outcome;
use crate::random::Stream;
use crate::sched::{CpuSet, Scheduler};
use crate::{Boot, Program, RunError, Step, System};
pub use layout::ProcessLayout;
use layout::{Part, VDSO};
use machine::{Cpu, Node, Time};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::features::sched::{SchedFeatures, TaskPlacement};
use mm::memcontrol::Memcg;
use mm::numa::migrate::policy::Nodes;
use mm::numa::placement::TaskId;
use mm::{Category, Event, Features, MemoryManager};
use report::Report;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use workload::keys::{Bounds, CPUS, MILLISECONDS, NODES};
use workload::tasks::Extent;
use workload::threads::{Affinity, Operation, Process as ProcessSpec, Program as Programs, ProgramSpec};

/// Daemons have the PIDs below.
const FIRST_PID: u32 = 1000;
/// Time that a kernel thread works before other threads get their turn.
const KERNEL_WORK: Time = Time::from_nanoseconds(1_000_000);
/// Pages of a thread's stack.
const STACK: u64 = 2048;

/// Bounds of pages in an LRU batch: with one more, the batch is full and goes to the LRU lists.
const BATCHED: Bounds = Bounds::new(0.0, 30.0, "one less than the largest batch of a CPU");

workload::no_numbers!(PlacementKey, ProcessLayout);

workload::keys! {
    /// The program, as in a scenario.
    pub struct NumaThreads {
        /// How threads get to their preferred nodes, if different from the kernel's way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub placement: Option<PlacementKey>,
        /// The order of VMAs in a process.
        #[serde(default)]
        pub layout: ProcessLayout,
        /// `cpuset.mems` of the program's cpuset; all nodes if empty. Only NUMA balancing takes it into
        /// account.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cpuset_mems: Vec<u8> => NODES,
        /// Longest virtual time in milliseconds; a program that takes longer is cut off.
        pub milliseconds: u64 => MILLISECONDS,
        /// Node on which the first thread of each process runs until it has started the others: that of its
        /// parent process.
        #[serde(default)]
        pub begins_on: u8 => NODES,
        /// A kernel thread that is busy when the program starts, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub kernel_thread: Option<KernelThread>,
        /// Pages of another program that are in an LRU batch when this one starts, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub lru_add: Option<LruAdd>,
        pub program: ProgramSpec,
    }
}

/// [`TaskPlacement`] as named in scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementKey {
    /// Threads stay where they are.
    Stay,
    /// Threads move if a CPU of the node is idle.
    Idle,
    /// Threads move or swap with another thread.
    Swap,
}

impl From<PlacementKey> for TaskPlacement {
    fn from(key: PlacementKey) -> TaskPlacement {
        match key {
            PlacementKey::Stay => TaskPlacement::Stay,
            PlacementKey::Idle => TaskPlacement::Idle,
            PlacementKey::Swap => TaskPlacement::Swap,
        }
    }
}

workload::keys! {
    /// A kernel thread that computes, uses no memory, and ends.
    #[derive(Copy, Eq)]
    pub struct KernelThread {
        /// The CPU on which it starts.
        pub cpu: u16 => CPUS.or_none(),
        /// Its work in milliseconds of CPU time.
        pub milliseconds: u64 => MILLISECONDS.or_none(),
    }
}

workload::keys! {
    /// Pages that an earlier program left in the LRU batch of a CPU (`lru_add`). Pages cannot be migrated
    /// while they are in a batch, and these pages determine how many more it takes until the batch is full.
    #[derive(Copy, Eq)]
    pub struct LruAdd {
        pub cpu: u16 => CPUS.or_none(),
        /// Number of pages.
        pub pages: u64 => BATCHED,
    }
}

struct Process {
    mm: MmId,
    /// The first thread, which starts the others and waits for them.
    first: TaskId,
    /// The page of data that all threads use.
    data: Vpn,
    /// Its areas.
    areas: Vec<Range<Vpn>>,
    alive: usize,
    /// Threads waiting at the barrier.
    waiting: Vec<usize>,
}

struct Thread {
    process: usize,
    stack: Vpn,
    /// What is left of the current operation.
    span: Span,
    /// Index of the area that they belong to.
    area: usize,
    /// Pages used in each area since the last update of the heat map.
    touched: Vec<u64>,
    waits: bool,
    /// For a kernel thread, the work left.
    kernel_work: Option<Time>,
}

impl Thread {
    fn new(process: usize) -> Thread {
        Thread {
            process,
            stack: 0,
            span: Span::default(),
            area: 0,
            touched: Vec::new(),
            waits: false,
            kernel_work: None,
        }
    }

    /// Starts accessing some pages of an area.
    fn begin(&mut self, area: u32, span: Span) {
        (self.area, self.span) = (area as usize, span);
        if self.touched.len() <= self.area {
            self.touched.resize(self.area + 1, 0);
        }
    }
}

/// Whether a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Goes,
    /// It needs shared state, and is not the furthest behind.
    NotYet,
    /// It waits or has ended; the CPU runs something else or idles.
    Left,
}

/// The threads of all processes on the CPUs of a machine.
struct NumaProgram {
    begins_on: Node,
    cpuset: Option<Nodes>,
    layout: ProcessLayout,
    demand: Programs,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    scheduler: Scheduler,
    accesses: MemoryAccesses,
    report: Report,
    running: usize,
    finished_at: Time,
    daemons: Daemons,
    out_of_memory: bool,
    /// No CPU runs ahead past this time.
    pause: Time,
    /// When the first threads of all processes had done their work before starting other threads.
    began: Time,
    next_pid: u32,
}

impl NumaProgram {
    fn new(boot: &Boot, spec: &NumaThreads, system: &mut System) -> Result<NumaProgram, RunError> {
        let (cpus, nodes) = (system.machine.topology.cpus(), system.machine.topology.nodes as usize);
        let demand = spec.program.start(cpus, |thread| boot.stream(Stream::Demand, thread));
        let demand = demand.map_err(|error| RunError::Demand(error.within("workload.program")))?;
        let layout = demand.layout().clone();
        let cpuset = (!spec.cpuset_mems.is_empty()).then(|| Nodes::of_all(&spec.cpuset_mems));
        let mut next_pid = FIRST_PID;
        let process = |_| {
            let mm = system.mm.parts.create_mm(Memcg::ROOT);
            let first = system.mm.enter(&mut system.machine, Cpu(0)).add_task(Time::ZERO, mm, next_pid, None);
            system.mm.parts.numa.set_mems_allowed(first, cpuset);
            next_pid += 1;
            Process { mm, first, data: 0, areas: Vec::new(), alive: 0, waiting: Vec::new() }
        };
        let processes = layout.processes.iter().map(process).collect();
        let random = boot.stream(Stream::Placement, 0);
        let scheduler = Scheduler::new(cpus, sched_features(system.mm.features(), spec), random);
        let mut program = NumaProgram {
            begins_on: Node(spec.begins_on),
            cpuset,
            layout: spec.layout,
            demand,
            processes,
            threads: Vec::new(),
            scheduler,
            accesses: MemoryAccesses::new(nodes),
            report: Report::default(),
            running: layout.threads.len(),
            finished_at: Time::ZERO,
            daemons: Daemons::default(),
            out_of_memory: false,
            pause: Time::NEVER,
            began: Time::ZERO,
            next_pid,
        };
        for &process in &layout.threads {
            program.add_thread(system, process as usize);
        }
        if let Some(earlier) = spec.lru_add {
            program.leave_in_batch(system, earlier);
        }
        for (number, process) in layout.processes.iter().enumerate() {
            program.begin_process(system, number, process);
        }
        program.began =
            system.machine.topology.all_cpus().map(|cpu| system.machine.now(cpu)).max().unwrap_or_default();
        let order = program.scheduler.shuffled(program.threads.len());
        let mut started = vec![0; program.processes.len()];
        if let Some(thread) = spec.kernel_thread {
            program.start_kernel_thread(system, thread);
        }
        for thread in order {
            let cpu = program.scheduler.idlest_cpu(system, None);
            let before = &mut started[program.threads[thread].process];
            let start = program.began + system.machine.costs.numa().thread_start * *before;
            *before += 1;
            program.scheduler.enqueue(system, cpu, thread, start);
        }
        Ok(program)
    }

    fn pid(&mut self) -> u32 {
        self.next_pid += 1;
        self.next_pid - 1
    }

    /// Maps the parts of a process. Touches the pages that its first thread uses before it starts the others,
    /// and those it uses to start them: the descriptor of each thread is on top of its stack.
    fn begin_process(&mut self, system: &mut System, number: usize, spec: &ProcessSpec) {
        let Process { mm, first, .. } = self.processes[number];
        let (mut first_touched, mut touched, mut start) = (Vec::new(), Vec::new(), 0..0);
        let (mut tops, mut later_used) = (Vec::new(), Vec::new());
        for &part in self.layout.parts() {
            match part {
                Part::Own { pages, used, later } => {
                    let own = map(system, mm, pages).start;
                    touched.extend(own..own + used);
                    later_used.extend(own + used..own + used + later);
                }
                Part::FirstStack { pages, used } => {
                    let own = map(system, mm, pages).start;
                    first_touched.extend(own..own + used);
                }
                Part::Start(pages) => {
                    start = map(system, mm, pages);
                    touched.extend(start.clone());
                }
                Part::Areas => {
                    let map = if spec.apart { map_apart } else { map };
                    self.processes[number].areas =
                        spec.areas.iter().map(|&pages| map(system, mm, pages)).collect();
                }
                Part::Vdso => {
                    let flags = VmFlags::READ.or(VmFlags::EXEC);
                    system.mm.enter(&mut system.machine, Cpu(0)).mmap(mm, VDSO, Backing::Anonymous, flags);
                }
                Part::Stacks => {
                    let own = self.threads.iter_mut().filter(|thread| thread.process == number);
                    let own: Vec<&mut Thread> = own.collect();
                    let stacks = map_stacks(system, mm, own.len(), self.scheduler.chance(SPAN));
                    tops.extend(stacks.iter().map(|stack| stack + STACK - 1));
                    own.into_iter().zip(stacks).for_each(|(thread, stack)| thread.stack = stack);
                }
            }
        }
        self.processes[number].data = touched[0];
        let cpu = self.scheduler.idlest_cpu(system, Some(CpuSet::Of(self.begins_on)));
        system.mm.enter(&mut system.machine, cpu).switch_task(Some(first));
        if spec.touched {
            touched.extend(self.processes[number].areas.iter().cloned().flatten());
        }
        for page in first_touched.into_iter().chain(touched).chain(tops).chain(later_used) {
            self.use_page(system, cpu, mm, page, Access::Write);
        }
        system.mm.parts.mprotect(mm, start, VmFlags::default());
        system.mm.enter(&mut system.machine, cpu).switch_task(None);
    }

    /// Adds a process outside the program, with an empty address space, and its task.
    fn add_process(&mut self, system: &mut System) -> (MmId, TaskId) {
        let pid = self.pid();
        let mm = system.mm.parts.create_mm(Memcg::ROOT);
        (mm, system.mm.enter(&mut system.machine, Cpu(0)).add_task(Time::ZERO, mm, pid, None))
    }

    /// Touches pages of an earlier program that is idle afterwards, which leaves them in the LRU batch of a
    /// CPU.
    fn leave_in_batch(&mut self, system: &mut System, earlier: LruAdd) {
        let cpu = Cpu(earlier.cpu);
        let (mm, task) = self.add_process(system);
        let pages = map(system, mm, earlier.pages);
        system.mm.enter(&mut system.machine, cpu).switch_task(Some(task));
        for page in pages {
            self.use_page(system, cpu, mm, page, Access::Write);
        }
        system.mm.enter(&mut system.machine, cpu).switch_task(None);
    }

    /// Starts a kernel thread; its address space is empty.
    fn start_kernel_thread(&mut self, system: &mut System, thread: KernelThread) {
        let (mm, first) = self.add_process(system);
        self.processes.push(Process { mm, first, data: 0, areas: Vec::new(), alive: 1, waiting: Vec::new() });
        let kernel_work = Some(Time::from_nanoseconds(thread.milliseconds.saturating_mul(1_000_000)));
        let number = self.push_thread(first, Thread { kernel_work, ..Thread::new(self.processes.len() - 1) });
        self.scheduler.enqueue(system, Cpu(thread.cpu), number, self.began);
    }

    fn add_thread(&mut self, system: &mut System, process: usize) {
        let pid = self.pid();
        let own = &mut self.processes[process];
        let task =
            system.mm.enter(&mut system.machine, Cpu(0)).add_task(Time::ZERO, own.mm, pid, Some(own.first));
        own.alive += 1;
        self.push_thread(task, Thread::new(process));
    }

    /// Adds a thread. Its number is the same here and in the scheduler.
    fn push_thread(&mut self, task: TaskId, thread: Thread) -> usize {
        self.threads.push(thread);
        self.scheduler.add(task)
    }

    /// A tick on `cpu`: the task may scan, its thread uses its stack and data, and the next thread runs.
    fn tick(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        system.machine.charge(cpu, Category::Tick, system.machine.costs.numa().tick);
        if self.threads[thread].kernel_work.is_none() {
            system.mm.enter(&mut system.machine, cpu).numa_tick();
            self.use_at_hand(system, cpu, thread);
        }
        self.scheduler.tick(system, cpu);
    }

    /// Accesses the thread's stack, and the process's data if threads use it.
    fn use_at_hand(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let Thread { process, stack, .. } = self.threads[thread];
        let task = self.scheduler.task(thread);
        let Process { mm, data, .. } = self.processes[process];
        let uses_data = self.layout.uses_data() || self.demand.uses_data(thread);
        for page in self.layout.stack_used(stack..stack + STACK).chain(uses_data.then_some(data)) {
            self.use_page(system, cpu, mm, page, Access::Write);
            system.mm.parts.note_touched(task, page, 1);
        }
    }

    /// Accesses a page, which may fault.
    fn use_page(&mut self, system: &mut System, cpu: Cpu, mm: MmId, page: Vpn, access: Access) {
        if system.mm.parts.address_spaces.pte(mm, page).lets(access.is_write()) {
            return;
        }
        let counters = system.mm.counters();
        let hints = counters.get(Event::NumaHintFaults);
        if system.mm.enter(&mut system.machine, cpu).touch(mm, page, access.is_write()).is_err() {
            self.out_of_memory = true;
            return;
        }
        if system.mm.counters().get(Event::NumaHintFaults) == hints {
            let cost = system.machine.costs.page_fault;
            system.machine.work(cpu, Category::PageFault, cost);
        }
        for task in system.mm.parts.numa.take_wants_to_move() {
            self.scheduler.migrate_preferred(system, task);
        }
    }

    /// Does the next part of the current operation of the thread on `cpu`.
    fn advance(&mut self, system: &mut System, cpu: Cpu, number: usize) -> Progress {
        if self.threads[number].span.pages.is_empty() {
            return self.next_operation(system, cpu, number);
        }
        if !system.may_share(cpu) {
            return Progress::NotYet;
        }
        let process = self.threads[number].process;
        let mm = self.processes[process].mm;
        let thread = &mut self.threads[number];
        let from = thread.span.pages.start;
        let faults = self.accesses.advance(system, cpu, mm, &mut thread.span);
        thread.touched[thread.area] += thread.span.pages.start - from;
        let access = thread.span.access;
        if let Some(page) = faults {
            self.use_page(system, cpu, mm, page, access);
        }
        Progress::Goes
    }

    fn next_operation(&mut self, system: &mut System, cpu: Cpu, number: usize) -> Progress {
        // The next operation may depend on shared state, such as the end of the thread.
        if !system.may_share(cpu) {
            return Progress::NotYet;
        }
        if self.threads[number].kernel_work.is_some() {
            return self.work_in_kernel(system, cpu, number);
        }
        let now = (system.machine.now(cpu) - self.began).picoseconds() / 1000;
        match self.demand.next(number, now) {
            Some(operation) => self.perform(system, cpu, number, operation),
            None => {
                self.running -= 1;
                self.end(system, cpu, number);
                self.finished_at = self.finished_at.max(system.machine.now(cpu));
                Progress::Left
            }
        }
    }

    /// Continues or ends a kernel thread.
    fn work_in_kernel(&mut self, system: &mut System, cpu: Cpu, number: usize) -> Progress {
        let left = self.threads[number].kernel_work.unwrap_or_default();
        if left == Time::ZERO {
            self.end(system, cpu, number);
            return Progress::Left;
        }
        let work = KERNEL_WORK.min(left);
        self.threads[number].kernel_work = Some(left - work);
        system.machine.work(cpu, Category::SystemCalls, work);
        Progress::Goes
    }

    fn perform(&mut self, system: &mut System, cpu: Cpu, number: usize, operation: Operation) -> Progress {
        let process = self.threads[number].process;
        let at = |area: u32, page: u64| self.processes[process].areas[area as usize].start + page;
        match operation {
            Operation::Stream { area, first, pages, write } => {
                let first = at(area, first);
                let span =
                    Span { pages: first..first + pages, access: Access::of(write), extent: Extent::Pages };
                self.threads[number].begin(area, span);
            }
            Operation::Touch { area, page, write } => {
                let page = at(area, page);
                let span = Span { pages: page..page + 1, access: Access::of(write), extent: Extent::Lines };
                self.threads[number].begin(area, span);
            }
            Operation::Compute { nanoseconds } => {
                system.machine.work(cpu, Category::Program, Time::from_nanoseconds(nanoseconds));
            }
            Operation::SystemCalls { nanoseconds } => {
                system.machine.work(cpu, Category::SystemCalls, Time::from_nanoseconds(nanoseconds));
            }
            Operation::Pin(to) => return self.pin(system, cpu, number, to),
            Operation::SetMempolicy(node) => bind(system, self.scheduler.task(number), node.map(Node)),
            Operation::Map { area } => {
                let Process { mm, areas, .. } = &self.processes[process];
                map_again(system, cpu, *mm, areas[area as usize].clone());
            }
            Operation::Mmap { pages } => {
                let process = &mut self.processes[process];
                let area = map_apart(system, process.mm, pages);
                process.areas.push(area);
            }
            Operation::Release { area } => self.release(system, cpu, process, area),
            Operation::Exec => {
                self.exec(system, cpu, number);
                return Progress::Left;
            }
            Operation::Barrier => return self.wait_for_others(system, cpu, number),
            Operation::TransactionEnd => self.report.transaction(),
        }
        Progress::Goes
    }

    /// Sets the CPU affinity of a thread.
    fn pin(&mut self, system: &mut System, cpu: Cpu, number: usize, to: Option<Affinity>) -> Progress {
        // The affinity is read from the process's data.
        let Process { mm, data, .. } = self.processes[self.threads[number].process];
        self.use_page(system, cpu, mm, data, Access::Read);
        let topology = &system.machine.topology;
        let allowed = to.map(|affinity| CpuSet::of(topology, affinity));
        if self.scheduler.set_affinity(topology, number, cpu, allowed) {
            self.scheduler.leave(system, cpu, number);
            return Progress::Left;
        }
        Progress::Goes
    }

    /// Frees the memory of an area.
    fn release(&mut self, system: &mut System, cpu: Cpu, process: usize, area: u32) {
        let Process { mm, areas, .. } = &self.processes[process];
        let area = areas[area as usize].clone();
        let freed = system.mm.enter(&mut system.machine, cpu).madvise_dontneed(*mm, area);
        let unmap = freed.cost(&system.machine.costs);
        system.machine.charge(cpu, Category::PageFree, unmap);
    }

    fn wait_for_others(&mut self, system: &mut System, cpu: Cpu, number: usize) -> Progress {
        let process = self.threads[number].process;
        let now = system.machine.now(cpu);
        if self.processes[process].waiting.len() + 1 < self.processes[process].alive {
            self.processes[process].waiting.push(number);
            self.threads[number].waits = true;
            self.scheduler.remove(system, cpu, number);
            self.scheduler.pull(system, cpu);
            return Progress::Left;
        }
        for other in std::mem::take(&mut self.processes[process].waiting) {
            self.threads[other].waits = false;
            let place = system.mm.parts.numa.cpu_of(self.scheduler.task(other)).unwrap_or(cpu);
            self.scheduler.enqueue(system, place, other, now);
        }
        Progress::Goes
    }

    /// Ends a thread that has finished its program.
    fn end(&mut self, system: &mut System, cpu: Cpu, number: usize) {
        self.scheduler.remove(system, cpu, number);
        self.leave_process(system, cpu, number);
        self.scheduler.pull(system, cpu);
    }

    /// Removes a thread from its process, and ends the process with its last thread.
    fn leave_process(&mut self, system: &mut System, cpu: Cpu, number: usize) {
        self.note_touched(system, number);
        let (task, process) = (self.scheduler.task(number), self.threads[number].process);
        system.mm.parts.exit_task(task);
        self.processes[process].alive -= 1;
        if self.processes[process].alive == 0 {
            let Process { mm, first, .. } = self.processes[process];
            if first != task {
                system.mm.parts.exit_task(first);
            }
            let freed = system.mm.enter(&mut system.machine, cpu).exit_mm(mm);
            let unmap = freed.cost(&system.machine.costs);
            system.machine.charge(cpu, Category::PageFree, unmap);
        }
    }

    /// Adds the accesses of a thread to the heat map.
    fn note_touched(&mut self, system: &mut System, number: usize) {
        let task = self.scheduler.task(number);
        let Thread { process, ref mut touched, .. } = self.threads[number];
        for (pages, area) in touched.drain(..).zip(&self.processes[process].areas) {
            if pages > 0 {
                system.mm.parts.note_touched(task, area.start, pages);
            }
        }
    }

    /// Replaces a process by another one, for its only thread, on the CPU with the fewest threads.
    fn exec(&mut self, system: &mut System, cpu: Cpu, number: usize) {
        let process = self.threads[number].process;
        self.scheduler.remove(system, cpu, number);
        self.leave_process(system, cpu, number);
        let mm = system.mm.parts.create_mm(Memcg::ROOT);
        let now = system.machine.now(cpu);
        let task = system.mm.enter(&mut system.machine, Cpu(0)).add_task(now, mm, self.pid(), None);
        system.mm.parts.numa.set_mems_allowed(task, self.cpuset);
        let stack = map_stacks(system, mm, 1, self.scheduler.chance(SPAN))[0];
        let data = map(system, mm, layout::DATA).start;
        let own = &mut self.processes[process];
        own.areas.clear();
        (own.mm, own.first, own.data, own.alive) = (mm, task, data, 1);
        let thread = &mut self.threads[number];
        (thread.stack, thread.span) = (stack, Span::default());
        self.scheduler.set_task(number, task);
        let now = system.machine.now(cpu);
        let to = self.scheduler.idlest_cpu(system, None);
        self.scheduler.enqueue(system, to, number, now);
        self.scheduler.pull(system, cpu);
    }
}

impl Program for NumaProgram {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        loop {
            if self.daemons.step(system, cpu) {
                return Step::Again;
            }
            let Some(thread) = self.scheduler.current(cpu) else { return Step::Idle };
            let now = system.machine.now(cpu);
            if !system.may_share(cpu) || self.out_of_memory || now >= self.pause {
                return Step::Again;
            }
            self.report.sample(system, now, self.accesses.counted());
            if self.scheduler.is_tick_due(cpu, now) {
                self.daemons.wake(system, cpu);
                self.tick(system, cpu, thread);
                continue;
            }
            if self.advance(system, cpu, thread) == Progress::NotYet {
                return Step::Again;
            }
        }
    }

    fn runs_daemons(&self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.running == 0 || self.out_of_memory
    }
}

/// An area of a process that is watched.
#[derive(Clone, Debug)]
pub struct Area {
    pub process: usize,
    /// Number of the area within its process.
    pub number: usize,
    pub mm: MmId,
    pub pages: Range<Vpn>,
}

/// Makes a run and calls `look` at the given times with the memory manager and the areas of running
/// processes. `times` ascend and count from the start of the threads. The run ends with the last of them.
pub fn watch(
    boot: &Boot,
    spec: &NumaThreads,
    times: &[Time],
    mut look: impl FnMut(Time, &MemoryManager, &[Area]),
) -> Result<(), RunError> {
    let mut system = boot.system(1)?;
    let mut program = NumaProgram::new(boot, spec, &mut system)?;
    let mut areas = Vec::new();
    for (process, of) in program.processes.iter().enumerate() {
        for (number, pages) in of.areas.iter().enumerate() {
            areas.push(Area { process, number, mm: of.mm, pages: pages.clone() });
        }
    }
    for &time in times {
        let until = program.began + time;
        program.pause = until;
        system.run(&mut program, until);
        areas.retain(|area| program.processes[area.process].alive > 0);
        look(time, &system.mm, &areas);
    }
    Ok(())
}

/// The features of the run's scheduler; a scenario may override how threads get to their preferred nodes.
fn sched_features(features: &Features, spec: &NumaThreads) -> SchedFeatures {
    let sched = features.sched;
    match spec.placement {
        Some(placement) => SchedFeatures { placement: placement.into(), ..sched },
        None => sched,
    }
}

/// Maps stacks of threads, each with a guard page below, starting `offset` pages after the start of a page
/// table's range. The C library maps from the top down, so the first thread's stack is the highest.
fn map_stacks(system: &mut System, mm: MmId, count: usize, offset: u64) -> Vec<Vpn> {
    let each = STACK + 1;
    let all = map_behind(system, mm, offset, each * count as u64);
    let guards: Vec<Vpn> = all.step_by(each as usize).collect();
    guards.iter().for_each(|&guard| system.mm.parts.mprotect(mm, guard..guard + 1, VmFlags::default()));
    guards.into_iter().rev().map(|guard| guard + 1).collect()
}

/// Runs the program of `spec`.
pub fn run(boot: &Boot, spec: &NumaThreads) -> Result<Outcome, RunError> {
    let mut system = boot.system(1)?;
    let mut program = NumaProgram::new(boot, spec, &mut system)?;
    let until = program.began + Time::from_nanoseconds(spec.milliseconds * 1_000_000);
    // A thread that is alone may run ahead to the end.
    program.pause = until;
    system.run(&mut program, until);
    if program.out_of_memory {
        return Err(RunError::OutOfMemory);
    }
    (0..program.threads.len()).for_each(|thread| program.note_touched(&mut system, thread));
    let cut_off = program.running;
    let end = if cut_off == 0 { program.finished_at } else { until };
    let mut outcome = program.report.outcome(&system, end, program.accesses.counted());
    outcome.notes.extend(program.demand.note().map(String::from));
    if cut_off > 0 {
        outcome.notes.push(format!("{cut_off} threads were cut off after {} ms", spec.milliseconds));
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests;
