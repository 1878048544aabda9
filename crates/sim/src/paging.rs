//! Programs that run out of memory: threads that read files and touch memory, devices that take time, kswapd
//! and flushers.
//!
//! ```text
//!   Demand ── operation of a thread ──► page cache, page tables (mm)
//!                                          │ misses, pages to write
//!                                          ▼
//!   thread waits, its CPU runs another ◄─ device ─► complete: page filled or written
//! ```
//!
//! A thread stays on its CPU; threads are assigned round robin. A CPU runs a thread until it waits or its
//! slice ends, and then the next ready one. A thread whose reclaim finds nothing waits for the next page that
//! a device finishes writing or reading, for which the kernel has several places (`reclaim_throttle`,
//! `folio_wait_writeback`, a full request queue); if no I/O is in flight, it is out of memory. A thread that
//! reads waits for the pages that it asked for, not for those read ahead.
//!
//! The contents of RAM disks and zram take memory of the machine: pages are set aside as they fill up. So are
//! pages for the kernel and for programs that are not modelled.

use crate::block_io::{BlockIo, ReadsInFlight};
use crate::held_pages::HeldPages;
use crate::kswapd::Kswapds;
use crate::metric;
use crate::oom::{self, Relief, Shortage};
use crate::outcome::{Outcome, Sample};
use crate::random::Stream;
use crate::{Boot, Program, RunError, Step, System};
use machine::{Cpu, PageSize, Time};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::OutOfMemory;
use mm::memcontrol::Memcg;
use mm::oom_kill::OomKill;
use mm::prefetch::Foresight;
use mm::readahead::OpenFileId;
use mm::writeback::Dirtier;
use mm::xarray::FileId;
use mm::{Category, Event};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;
use workload::demand::spec::{DemandSpec, Paging, Program as Programs, SettingChange};
use workload::demand::{self, Demand, Descriptor, Layout, Operation};

/// How long a thread runs while others are ready: the scheduler's base slice (`sched_base_slice_ns`, 6.6: 3
/// ms).
const SLICE: Time = Time::from_nanoseconds(3_000_000);

/// Most operations of a thread per step.
const OPERATIONS: usize = 64;

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// It waits until this time.
    Waiting(Time),
    Done,
}

#[derive(Clone, Debug)]
struct Thread {
    /// Index into `PagingProgram::processes`.
    process: usize,
    state: State,
    reads: ReadsInFlight,
    /// The operation in progress, and how many of its pages are done.
    at: Option<(Operation, u32)>,
    /// Its dirtying state for `balance_dirty_pages`.
    dirtier: Dirtier,
    transaction_start: Time,
}

/// A process, which the OOM killer kills as a whole.
#[derive(Clone, Copy, Debug)]
struct Process {
    memcg: Memcg,
    /// `None` once it has been killed.
    mm: Option<MmId>,
}

/// Private memory of a process.
#[derive(Clone, Copy, Debug)]
struct Region {
    process: usize,
    start: Vpn,
    pages: u64,
}

/// A file and the descriptors that threads have opened.
#[derive(Clone, Debug)]
struct OpenFiles {
    id: FileId,
    /// One for all threads, or one per thread.
    descriptors: Vec<OpenFileId>,
}

/// Transactions counted in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Transactions {
    done: u64,
    time: Time,
    last: Time,
}

/// Threads, devices and daemons.
struct PagingProgram {
    page_size: PageSize,
    demand: Programs,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    /// For each CPU its threads; the first one runs.
    queues: Vec<VecDeque<usize>>,
    slice_ends: Vec<Time>,
    files: Vec<OpenFiles>,
    regions: Vec<Region>,
    io: BlockIo,
    kswapds: Kswapds,
    /// For the contents of RAM disks and zram, and for memory in use from the start.
    held: HeldPages,
    /// What threads will read and write next.
    foresight: Foresight,
    transactions: Transactions,
    /// Settings still to be written, last first.
    changes: Vec<SettingChange>,
    shortage: Shortage,
    /// Whether the OOM killer found no victim.
    out_of_memory: bool,
    /// OOM kills: which processes, when and why.
    notes: Vec<String>,
}

/// Whether a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Goes,
    /// It needs shared state, and is not the furthest behind.
    NotYet,
    Waits(Time),
}

/// Creates the memcgs: those of threads, numbered below `groups`, and those that only serve as parents.
fn create_memcgs(system: &mut System, spec: &Paging, groups: usize) -> Vec<Memcg> {
    let page_size = system.mm.parts.allocator.page_size();
    let mut memcgs: Vec<Option<Memcg>> = vec![None; groups.max(spec.groups_of_tree())];
    for group in 0..memcgs.len() {
        let path: Vec<usize> = std::iter::once(group).chain(spec.ancestors(group)).collect();
        let mut parent = Memcg::ROOT;
        for group in path.into_iter().rev() {
            let memcg = *memcgs[group].get_or_insert_with(|| {
                let memcg = system.mm.parts.lrus.create_memcg(parent);
                let pages = |mib: &Vec<u64>| mib.get(group).map(|&mib| page_size.pages_of_mib(mib));
                let limits = system.mm.parts.lrus.memcg_mut(memcg);
                limits.max = pages(&spec.cgroup_max_mib).unwrap_or(limits.max);
                limits.low = pages(&spec.cgroup_low_mib).unwrap_or(0);
                limits.min = pages(&spec.cgroup_min_mib).unwrap_or(0);
                limits.oom_group = spec.cgroup_oom_group.get(group).copied().unwrap_or(false);
                memcg
            });
            parent = memcg;
        }
    }
    memcgs.into_iter().flatten().collect()
}

/// Creates the processes, each in its memcg.
fn create_processes(system: &mut System, spec: &Paging, layout: &Layout) -> Vec<Process> {
    let memcgs = create_memcgs(system, spec, layout.groups() as usize);
    let process = |process: &demand::Process| {
        let memcg = memcgs[process.group as usize];
        Process { memcg, mm: Some(system.mm.parts.create_mm(memcg)) }
    };
    layout.processes.iter().map(process).collect()
}

/// The threads before their first operation.
fn create_threads(layout: &Layout, page_size: PageSize) -> Vec<Thread> {
    let thread = |thread: &demand::Thread| {
        let start = milliseconds(thread.start_milliseconds);
        Thread {
            process: thread.process as usize,
            state: if start == Time::ZERO { State::Ready } else { State::Waiting(start) },
            reads: ReadsInFlight::new(thread.outstanding as usize),
            at: None,
            dirtier: Dirtier::new(page_size),
            transaction_start: start,
        }
    };
    layout.threads.iter().map(thread).collect()
}

/// Assigns the threads to CPUs, round robin.
fn queues(threads: usize, cpus: usize) -> Vec<VecDeque<usize>> {
    (0..cpus).map(|cpu| (cpu..threads).step_by(cpus).collect()).collect()
}

/// Opens the files, once or once per thread.
fn open_files(system: &mut System, spec: &Paging, layout: &Layout) -> Vec<OpenFiles> {
    let page_size = system.mm.parts.allocator.page_size();
    let file = |file: &demand::File| {
        let (id, pages) = (system.mm.parts.page_cache.open_file(), pages_of(page_size, file.pages) as u32);
        if spec.large_folios {
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

/// Maps the private memory of processes.
fn map_regions(system: &mut System, layout: &Layout, processes: &[Process]) -> Vec<Region> {
    let page_size = system.mm.parts.allocator.page_size();
    let region = |region: &demand::Region| {
        let process = region.process as usize;
        let mm = processes[process].mm.expect("nobody was killed yet");
        // A VMA is never empty.
        let pages = pages_of(page_size, region.pages).max(1);
        let mut kernel = system.mm.enter(&mut system.machine, Cpu(0));
        let start = kernel.mmap(mm, pages, Backing::Anonymous, VmFlags::PRIVATE);
        Region { process, start, pages }
    };
    layout.regions.iter().map(region).collect()
}

/// Converts demand in pages of 4 KiB to pages of this size.
pub(crate) fn pages_of(page_size: PageSize, parts: u64) -> u64 {
    page_size.pages_of_parts(0..parts).end
}

impl PagingProgram {
    fn new(boot: &Boot, spec: &Paging, system: &mut System) -> Result<PagingProgram, RunError> {
        let demand = spec.demand.start(|thread| boot.stream(Stream::Demand, thread));
        let demand = demand.map_err(|error| RunError::Demand(error.within("workload.demand")))?;
        let layout = demand.layout().clone();
        let page_size = system.mm.parts.allocator.page_size();
        let cpus = system.machine.topology.cpus();
        let processes = create_processes(system, spec, &layout);
        let files = open_files(system, spec, &layout);
        let regions = map_regions(system, &layout, &processes);
        let swap = spec.swap.as_deref().map(|device| (device, spec.swap_mib));
        let io = BlockIo::new(boot.machine, &spec.files, swap, system);
        let mut changes = spec.changes.clone();
        changes.sort_by_key(|change| Reverse(change.milliseconds));
        let pages: u64 = layout.files.iter().map(|file| pages_of(page_size, file.pages)).sum();
        let on_disk = io.memory_of_files(pages * page_size.bytes()).div_ceil(page_size.bytes());
        let held = HeldPages::new(boot, system, on_disk + page_size.pages_of_mib(spec.held_mib))?;
        Ok(PagingProgram {
            page_size,
            demand,
            processes,
            threads: create_threads(&layout, page_size),
            queues: queues(layout.threads.len(), cpus),
            slice_ends: vec![Time::ZERO; cpus],
            files,
            regions,
            io,
            kswapds: Kswapds::default(),
            held,
            foresight: Foresight::default(),
            transactions: Transactions::default(),
            changes,
            shortage: Shortage::default(),
            out_of_memory: false,
            notes: Vec::new(),
        })
    }

    /// Writes the settings that are due at `now`.
    fn change_settings(&mut self, system: &mut System, now: Time) {
        let is_due = |change: &mut SettingChange| milliseconds(change.milliseconds) <= now;
        while let Some(SettingChange { setting, value, .. }) = self.changes.pop_if(is_due) {
            system.mm.set(&setting, &value).expect("checked: the setting takes the value");
        }
    }

    /// Kills the processes that the OOM killer has chosen: their threads stop and their memory is freed.
    fn kill(&mut self, system: &mut System, cpu: Cpu, kill: &OomKill) {
        let mib = |pages: u64| self.page_size.mib_of_pages(pages);
        let mut ended = Vec::new();
        for (number, process) in self.processes.iter_mut().enumerate() {
            let Some(mm) = process.mm.take_if(|mm| kill.victims.contains(mm)) else { continue };
            for thread in self.threads.iter_mut().filter(|thread| thread.process == number) {
                (thread.state, thread.at) = (State::Done, None);
            }
            let pages = self.io.exit(system, cpu, mm);
            let worst = if mm == kill.chosen.0 { ", the worst" } else { "" };
            ended.push(format!("process {number} ({:.1} MiB in memory{worst})", mib(pages)));
        }
        let now = system.machine.now(cpu);
        self.notes.push(oom::note(system, now, kill, &ended));
    }

    fn memcg_of(&self, thread: usize) -> Memcg {
        self.processes[self.threads[thread].process].memcg
    }

    /// The descriptor through which a thread reads a file.
    fn descriptor(&self, thread: usize, file: u32) -> OpenFileId {
        let descriptors = &self.files[file as usize].descriptors;
        *descriptors.get(thread).unwrap_or(&descriptors[0])
    }

    /// Whether all threads are done.
    fn is_done(&self) -> bool {
        self.threads.iter().all(|thread| thread.state == State::Done)
    }

    /// Frees all memory of a region.
    fn release(&mut self, system: &mut System, cpu: Cpu, region: usize) {
        let Region { process, start, pages } = self.regions[region];
        let mm = self.processes[process].mm.expect("threads of who was killed do nothing");
        self.io.release(system, cpu, mm, start..start + pages);
    }

    /// The operation that a thread continues or starts, and how many of its pages are done.
    fn next_operation(&mut self, thread: usize) -> Option<(Operation, u32)> {
        let at = self.threads[thread].at.take();
        at.or_else(|| self.demand.next(thread).map(|operation| (operation, 0)))
    }

    /// Does the next part of a thread's work.
    fn act(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> Result<Progress, OutOfMemory> {
        let now = system.machine.now(cpu);
        if let Some(until) = system
            .mm
            .enter(&mut system.machine, Cpu(0))
            .balance_dirty_pages_at_limit(&mut self.threads[thread].dirtier, now)
        {
            return Ok(Progress::Waits(until));
        }
        let Some((operation, done)) = self.next_operation(thread) else {
            self.threads[thread].state = State::Done;
            return Ok(Progress::Waits(Time::NEVER));
        };
        let is_private = matches!(operation, Operation::Compute { .. } | Operation::TransactionEnd);
        if !is_private && !system.may_share(cpu) {
            self.foresee(system, operation);
            self.threads[thread].at = Some((operation, done));
            return Ok(Progress::NotYet);
        }
        match operation {
            Operation::Compute { nanoseconds } => {
                let work = Time::from_nanoseconds(nanoseconds);
                system.machine.work(cpu, Category::Program, work);
                Ok(Progress::Goes)
            }
            Operation::TransactionEnd => {
                self.end_transaction(thread, system.machine.now(cpu));
                Ok(Progress::Goes)
            }
            Operation::Read { file, index, pages } => {
                self.threads[thread].at = Some((operation, done));
                let reader = (self.memcg_of(thread), self.descriptor(thread, file));
                let latest = self.io.read(system, cpu, reader, index..index + u64::from(pages))?;
                self.threads[thread].at = None;
                Ok(self.threads[thread].reads.add(latest).map_or(Progress::Goes, Progress::Waits))
            }
            Operation::Write { pages, .. } => {
                if done == 0 {
                    self.io.begin_write_call(system, cpu);
                }
                self.page_by_page(system, cpu, thread, (operation, done..pages))
            }
            Operation::Release { region } => {
                self.release(system, cpu, region as usize);
                Ok(Progress::Goes)
            }
            Operation::Touch { pages, .. } => {
                self.page_by_page(system, cpu, thread, (operation, done..pages))
            }
        }
    }

    /// Prefetches for a read or write that waits until its CPU is the furthest behind: others run before that.
    fn foresee(&mut self, system: &System, operation: Operation) {
        if let Operation::Read { file, index, .. } | Operation::Write { file, index, .. } = operation {
            let page = (index / self.page_size.parts()) as u32;
            let file = self.files[file as usize].id;
            system.mm.parts.foresee_reads(&mut self.foresight, file, &[page]);
        }
    }

    fn end_transaction(&mut self, thread: usize, now: Time) {
        let start = std::mem::replace(&mut self.threads[thread].transaction_start, now);
        self.transactions.done += 1;
        self.transactions.time += now.saturating_sub(start);
        self.transactions.last = self.transactions.last.max(now);
    }

    /// Writes or touches the remaining pages of an operation, until the thread has to wait. Records its
    /// position, because memory may run out at any page.
    fn page_by_page(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (operation, left): (Operation, Range<u32>),
    ) -> Result<Progress, OutOfMemory> {
        for page in left.clone() {
            self.threads[thread].at = Some((operation, page));
            let waits = self.use_page(system, cpu, thread, (operation, page))?;
            self.threads[thread].at = (page + 1 < left.end).then_some((operation, page + 1));
            if let Some(until) = waits {
                return Ok(Progress::Waits(until));
            }
        }
        Ok(Progress::Goes)
    }

    /// Writes or touches a page of an operation. Returns until when the thread waits, if it must.
    fn use_page(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (operation, page): (Operation, u32),
    ) -> Result<Option<Time>, OutOfMemory> {
        match operation {
            Operation::Write { file, index, .. } => {
                let (memcg, file) = (self.memcg_of(thread), self.files[file as usize].id);
                let dirtier = &mut self.threads[thread].dirtier;
                self.io.write(system, cpu, (memcg, file, index + u64::from(page)), dirtier)
            }
            Operation::Touch { region, index, write, .. } => {
                let at = (index + u64::from(page)) / self.page_size.parts();
                let Region { process, start, .. } = self.regions[region as usize];
                let mm = self.processes[process].mm.expect("threads of who was killed do nothing");
                self.io.touch(system, cpu, (mm, start + at), write)
            }
            _ => unreachable!("no other operation goes page by page"),
        }
    }

    /// The thread that runs on `cpu` at `now`; as an error, the time at which one will be ready.
    fn choose(&mut self, cpu: Cpu, now: Time) -> Result<usize, Time> {
        let queue = &mut self.queues[cpu.index()];
        let mut earliest = Time::NEVER;
        for _ in 0..queue.len() {
            let thread = queue[0];
            match self.threads[thread].state {
                State::Ready => return Ok(thread),
                State::Waiting(until) if until <= now => {
                    self.threads[thread].state = State::Ready;
                    return Ok(thread);
                }
                State::Waiting(until) => earliest = earliest.min(until),
                State::Done => {}
            }
            queue.rotate_left(1);
            self.slice_ends[cpu.index()] = now + SLICE;
        }
        Err(earliest)
    }

    /// Runs a thread until it waits, its slice ends, or it has done [`OPERATIONS`].
    fn run_thread(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        for _ in 0..OPERATIONS {
            match self.act(system, cpu, thread) {
                Ok(Progress::Goes) => {}
                Ok(Progress::NotYet) => return,
                Ok(Progress::Waits(until)) => return self.wait(system, cpu, thread, until),
                Err(OutOfMemory) => return self.find_memory(system, cpu, thread),
            }
            self.shortage = Shortage::default();
            self.io.submit_writes(system, cpu);
            if system.machine.now(cpu) >= self.slice_ends[cpu.index()] {
                self.queues[cpu.index()].rotate_left(1);
                self.slice_ends[cpu.index()] = system.machine.now(cpu) + SLICE;
                return;
            }
        }
    }

    /// Makes a thread wait, unless it is done.
    fn wait(&mut self, system: &mut System, cpu: Cpu, thread: usize, until: Time) {
        if self.threads[thread].state == State::Ready {
            self.threads[thread].state = State::Waiting(until);
            self.io.charge_wait(system, cpu);
        }
    }

    /// Handles a failed reclaim for a thread.
    fn find_memory(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let memcg = self.memcg_of(thread);
        match self.shortage.next(system, cpu, &mut self.io, memcg) {
            Relief::Wait(until) => self.threads[thread].state = State::Waiting(until),
            Relief::Retry => {}
            Relief::Kill(kill) => self.kill(system, cpu, &kill),
            Relief::None => self.out_of_memory = true,
        }
    }
}

impl Program for PagingProgram {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        let now = system.machine.now(cpu);
        self.io.complete(system, cpu, now);
        self.io.submit_swap_reads(system, cpu);
        if self.kswapds.step(system, cpu) {
            if let Some(kill) = system.mm.enter(&mut system.machine, Cpu(0)).take_oom_kill() {
                self.kill(system, cpu, &kill);
            }
            self.io.submit_writes(system, cpu);
            return Step::Again;
        }
        if system.may_share(cpu) {
            self.io.step_flushers(system, cpu);
        }
        let thread = match self.choose(cpu, now) {
            Ok(thread) => thread,
            Err(until) => {
                return match until.min(self.io.flushers.ready_at(system, cpu)) {
                    Time::NEVER => Step::Idle,
                    until if until <= now => Step::Again,
                    until => Step::Sleep(until),
                };
            }
        };
        self.run_thread(system, cpu, thread);
        if self.out_of_memory {
            return Step::Idle;
        }
        self.kswapds.wake(system, cpu);
        self.io.flushers.wake(system, cpu, system.machine.now(cpu));
        Step::Again
    }

    fn runs_kswapds(&self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.out_of_memory || self.is_done()
    }
}

/// Runs the programs of `spec`.
pub fn run(boot: &Boot, spec: &Paging) -> Result<Outcome, RunError> {
    let mut system = boot.system(1)?;
    let mut program = PagingProgram::new(boot, spec, &mut system)?;
    for cpu in system.machine.topology.all_cpus() {
        system.wake(cpu, Time::ZERO);
    }
    let mut series = Vec::new();
    let warm = milliseconds(spec.warm_milliseconds);
    run_until(&mut system, &mut program, Time::ZERO..warm, &mut series);
    system.start_measuring(warm);
    program.transactions = Transactions::default();
    program.io.start_measuring();
    let end = warm + milliseconds(spec.milliseconds);
    let end = run_until(&mut system, &mut program, warm..end, &mut series);
    if program.out_of_memory {
        return Err(RunError::OutOfMemory);
    }
    let mut outcome = system.outcome(end);
    outcome.series.append(&mut series);
    let Transactions { done, time, last } = program.transactions;
    let seconds = (end - warm).seconds();
    outcome.set(metric::SCORE, done as f64 / seconds.max(1e-12));
    outcome.set(metric::TRANSACTIONS, done as f64);
    outcome.set(metric::TRANSACTION_TIME, time.seconds() * 1e6);
    outcome.set(metric::TRANSACTION_RATE, done as f64 / time.seconds().max(1e-12));
    outcome.set(metric::FILE_READ_RATE, program.io.file_bytes_read() as f64 / 1e6 / seconds.max(1e-12));
    // A run has a fixed length: a kernel that gets more done reads more and has more refaults.
    if done > 0 {
        let refaults = [Event::WorkingsetRefaultFile, Event::WorkingsetRefaultAnon];
        let refaults: u64 = refaults.into_iter().map(|event| outcome.counters.get(event)).sum();
        outcome.set(metric::REFAULTS_PER_TRANSACTION, refaults as f64 / done as f64);
    }
    if let Some(queries) = program.demand.queries_per_transaction() {
        outcome.set(metric::QUERY_RATE, done as f64 * f64::from(queries) / seconds);
    }
    let duration = last.saturating_sub(warm).seconds();
    outcome.set(metric::DURATION, duration);
    if program.is_done() && matches!(spec.demand, DemandSpec::KernelBuild(_)) {
        outcome.set(metric::BUILD_TIME, duration);
    }
    set_memory(&mut outcome, &system);
    outcome.notes.append(&mut program.notes);
    Ok(outcome)
}

fn milliseconds(count: u64) -> Time {
    Time::from_nanoseconds(count * 1_000_000)
}

/// Interval at which memory for device contents is adjusted, memcg statistics are flushed, and settings are
/// written.
const UPKEEP: Time = Time::from_nanoseconds(10_000_000);

/// Virtual time between two samples of [`sample`].
const SAMPLE_INTERVAL: Time = Time::from_nanoseconds(1_000_000_000);

/// Runs a program until the end of `times` or until it is done. Returns when it stopped.
fn run_until(
    system: &mut System,
    program: &mut PagingProgram,
    times: Range<Time>,
    series: &mut Vec<Sample>,
) -> Time {
    let mut time = times.start;
    let mut sampled = times.start;
    while time < times.end && !program.is_finished() {
        program.change_settings(system, time);
        time = times.end.min(time + UPKEEP);
        system.run(program, time);
        program.io.flushers.wake(system, Cpu(0), time);
        program.held.follow_swap(system, Cpu(0), &program.io);
        system.mm.parts.lrus.flush_stats_periodically(time);
        if time >= sampled + SAMPLE_INTERVAL {
            sampled = time;
            sample(series, time, system, program);
        }
    }
    time
}

/// Samples what explains residency: progress, refaults and where they were placed, file pages by age of
/// generation.
fn sample(series: &mut Vec<Sample>, now: Time, system: &System, program: &PagingProgram) {
    let counter = |event: Event| (event.name(), system.mm.counters().get(event));
    let ages = [
        "file_youngest_generation",
        "file_second_generation",
        "file_third_generation",
        "file_fourth_generation",
    ];
    let values = [
        ("transactions", program.transactions.done),
        ("nr_file_pages", system.mm.parts.page_cache.files().nr_folios()),
        ("swap_used_pages", system.mm.parts.swap.used()),
        ("nr_dirty", system.mm.parts.page_cache.nr_dirty()),
        ("nr_writeback", system.mm.parts.page_cache.nr_writeback()),
        counter(Event::WorkingsetRefaultFile),
        counter(Event::WorkingsetActivateFile),
        counter(Event::WorkingsetRestoreFile),
    ];
    for (name, value) in
        values.into_iter().chain(ages.into_iter().zip(system.mm.parts.lrus.nr_file_generations()))
    {
        series.push(Sample { seconds: now.seconds(), name, value: value as f64 });
    }
}

/// Memory at the end, as free(1) shows it.
pub(crate) fn set_memory(outcome: &mut Outcome, system: &System) {
    let mm = &system.mm;
    let mib = |pages: u64| mm.parts.allocator.page_size().mib_of_pages(pages);
    let total: u64 = mm.parts.allocator.zones().iter().map(|zone| zone.managed).sum();
    let free = mm.parts.allocator.free_pages();
    let cached = mm.parts.page_cache.files().nr_folios();
    outcome.set(metric::MEM_TOTAL, mib(total));
    outcome.set(metric::MEM_FREE, mib(free));
    outcome.set(metric::MEM_BUFF_CACHE, mib(cached));
    outcome.set(metric::MEM_USED, mib(total - free - cached));
    outcome.set(metric::MEM_AVAILABLE, mib(mm.parts.si_mem_available()));
    let swap = &mm.parts.swap;
    outcome.set(metric::SWAP_TOTAL, mib(swap.free() + swap.used()));
    outcome.set(metric::SWAP_USED, mib(swap.used()));
    outcome.set(metric::SWAP_FREE, mib(swap.free()));
    for (metric, event) in [
        (metric::WORKINGSET_REFAULT_FILE, Event::WorkingsetRefaultFile),
        (metric::WORKINGSET_REFAULT_ANON, Event::WorkingsetRefaultAnon),
        (metric::WORKINGSET_ACTIVATE_FILE, Event::WorkingsetActivateFile),
        (metric::WORKINGSET_ACTIVATE_ANON, Event::WorkingsetActivateAnon),
        (metric::WORKINGSET_RESTORE_FILE, Event::WorkingsetRestoreFile),
        (metric::WORKINGSET_RESTORE_ANON, Event::WorkingsetRestoreAnon),
        (metric::PSWPIN, Event::Pswpin),
        (metric::PSWPOUT, Event::Pswpout),
        (metric::NR_DIRTIED, Event::NrDirtied),
        (metric::NR_WRITTEN, Event::NrWritten),
    ] {
        outcome.set(metric, outcome.counters.get(event) as f64);
    }
    outcome.set(metric::WORKINGSET_NODES, mm.parts.page_cache.files().workingset_nodes() as f64);
    outcome.set(metric::WORKINGSET_NODERECLAIM, outcome.counters.get(Event::WorkingsetNodereclaim) as f64);
}
