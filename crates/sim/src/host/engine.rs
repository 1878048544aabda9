//! The threads of all programs on the CPUs of a host: what runs, what waits, and who is woken.
//!
//! ```text
//!   CPU   queue: a b          a runs until it waits ──► timers of the CPU: (time, thread)
//!                             tick: b runs                    │ due
//!                             nobody: the CPU sleeps          ▼
//!                             until its next timer       wake_up: on this CPU, or an idle one nearby
//! ```
//!
//! Who waits for a device is woken by the CPU on which it went to sleep, as the interrupt of a request comes to the CPU that
//! submitted it.

mod areas;
mod objects;
mod pages;
mod recorded;
pub(super) mod sockets;
mod writes;

use super::events::Events;
use super::folio_windows::FolioWindows;
use super::heat_map::heat_map;
use super::layout::{Mapped, ProcessLayout};
use super::own_time::OwnTimes;
use super::pools::PoolWrites;
use super::report::{KernelWork, Payer, Reports, Samples, note_of_kdamond, set_memory, set_numa, set_paging};
use super::threads::{
    Beginnings, Doing, Pids, Process, Role, Running, State, Thread, TransactionWaits, Writing,
};
use super::{Area, Cgroup, Workload, Written};
use crate::block_io::{BlockIo, Wait};
use crate::daemons::Daemons;
use crate::held_pages::HeldPages;
use crate::mapping::{bind, pages_of};
use crate::memory_access::{Access, MemoryAccesses, Span};
use crate::oom::{self, Relief, Shortage};
use crate::outcome::Outcome;
use crate::random::Stream;
use crate::run_event::Killed;
use crate::sched::{CpuSet, Scheduler};
use crate::{Boot, Program, RunError, Step, System, metric};
use machine::{Cpu, Node, PageSize, Time};
use mm::Category;
use mm::address_space::{MmId, VmFlags};
use mm::allocator::request::OutOfMemory;
use mm::delayacct::{Cause, Delay};
use mm::features::sched::SchedFeatures;
use mm::memcontrol::Memcg;
use mm::numa::placement::TaskId;
use mm::oom_kill::OomKill;
use mm::slub::Since;
use sockets::Sockets;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use workload::operation::{Extent, Operation};
use workload::threads::Affinity;

/// Most operations of a thread per step.
const OPERATIONS: usize = 64;
/// How exactly it is known when programs have begun.
const BEGINNING: Time = Time::from_nanoseconds(1_000_000);
/// Interval at which memory for device contents is adjusted and memcg statistics are flushed.
const UPKEEP: Time = Time::from_nanoseconds(10_000_000);

/// Whether a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Goes,
    /// It needs shared state, and is not the furthest behind.
    NotYet,
    Waits(Wait),
    /// It is no longer on this CPU.
    Left,
}

/// Programs, devices and daemons of a host.
pub(super) struct Host<'s> {
    page_size: PageSize,
    programs: Vec<Running>,
    processes: Vec<Process>,
    /// By the scheduler's number.
    threads: Vec<Thread>,
    pids: Pids,
    scheduler: Scheduler,
    /// By CPU, when which thread is woken there.
    timers: Vec<BinaryHeap<Reverse<(Time, usize)>>>,
    io: BlockIo,
    accesses: MemoryAccesses,
    daemons: Daemons,
    held: HeldPages,
    reports: Reports,
    samples: Samples,
    own_times: OwnTimes,
    folio_windows: FolioWindows,
    /// The memory cgroups by number.
    memcgs: Vec<Memcg>,
    cgroups: &'s [Cgroup],
    /// What the operator writes.
    writes: Vec<Written<'s>>,
    /// How many of these have begun.
    writes_begun: usize,
    pools: PoolWrites,
    sockets: Sockets,
    /// Why the kernel refused a write, if it did.
    refused: Option<RunError>,
    /// Threads that have something to do.
    running: usize,
    /// When the last thread that had something to do was done.
    done_at: Time,
    /// No CPU runs ahead past this time.
    pause: Time,
    /// When the run, or its warming up, ends.
    end: Time,
    shortage: Shortage,
    /// Whether the OOM killer found no victim.
    out_of_memory: bool,
    events: Events,
}

impl<'s> Host<'s> {
    pub fn new(boot: &Boot, spec: &'s Workload, system: &mut System) -> Result<Host<'s>, RunError> {
        let writes = spec.writes(system)?;
        let (pools, booted) = (PoolWrites::new(system), system.latest());
        let (cpus, nodes) = (system.machine.topology.cpus(), system.machine.topology.nodes.into());
        let sched = system.mm.features().sched;
        let sched = match spec.placement {
            Some(placement) => SchedFeatures { placement: placement.into(), ..sched },
            None => sched,
        };
        let mut scheduler = Scheduler::new(cpus, sched, boot.stream(Stream::Placement, 0));
        let mut all = Beginnings::new(boot, spec, system, &mut scheduler)?;
        let daemons = Daemons::new(&system.machine.topology, &mut scheduler);
        let swap = spec.swap.as_deref().map(|device| (device, spec.swap_mib));
        let io = BlockIo::new(boot.machine, spec.files.as_deref(), swap, system);
        let mut timers = vec![BinaryHeap::new(); cpus];
        timers[0] = all.starts().map(Reverse).collect();
        let page_size = system.mm.parts.allocator.page_size();
        let files = all.programs.iter().flat_map(|program| &program.generator.layout().files);
        let pages: u64 = files.map(|file| pages_of(page_size, file.pages)).sum();
        let of_files = io.memory_of_files(pages * page_size.bytes()).div_ceil(page_size.bytes());
        system.mm.parts.allocator.let_faults_reschedule();
        let held = hold_memory(boot, spec, system, of_files)?;
        system.before_the_run(|system| {
            all.programs.iter_mut().for_each(|program| program.allocate_blocks(system));
        });
        for cpu in system.machine.topology.all_cpus() {
            system.wake(cpu, booted);
        }
        Ok(Host {
            page_size,
            reports: Reports::new(spec, cpus),
            samples: Samples::default(),
            own_times: OwnTimes::new(system, &all.programs),
            folio_windows: FolioWindows::new(system, &all.programs),
            sockets: Sockets::new(system, &all.programs),
            running: all.threads.iter().filter(|thread| thread.is_counted()).count(),
            done_at: Time::ZERO,
            programs: all.programs,
            processes: all.processes,
            threads: all.threads,
            pids: all.pids,
            scheduler,
            timers,
            io,
            accesses: MemoryAccesses::new(nodes),
            daemons,
            held,
            memcgs: all.memcgs,
            cgroups: &spec.cgroups,
            writes,
            writes_begun: 0,
            pools,
            refused: None,
            pause: Time::NEVER,
            end: Time::NEVER,
            shortage: Shortage::default(),
            out_of_memory: false,
            events: Events::new(spec.programs.len(), nodes),
        })
    }

    /// Runs until the end of `times` or until all threads are done. Returns when that was.
    pub fn run_until(&mut self, system: &mut System, times: Range<Time>) -> Time {
        let mut time = times.start;
        self.end = times.end;
        while time < times.end && !self.is_finished() {
            time = times.end.min(time + UPKEEP);
            // A thread that is alone may run ahead to the end.
            self.pause = time;
            system.run(self, time);
            self.io.flushers.wake(system, Cpu(0), time);
            system.mm.parts.lrus.flush_stats_periodically(time);
            self.samples.take(system, time, self.reports.transactions(), self.accesses.counted());
            self.own_times.sample(system, time, &self.processes);
            self.events.look_at_kswapds(system, time);
        }
        if self.running == 0 { self.done_at.clamp(times.start, times.end) } else { time }
    }

    /// Runs until the first threads of all processes have started the others, or `until`. Returns when they had.
    pub fn begin(&mut self, system: &mut System, until: Time) -> Time {
        let mut time = system.latest();
        while time < until && !self.is_finished() && self.programs.iter().any(|of| of.to_begin > 0) {
            time = self.run_until(system, time..until.min(time + BEGINNING));
        }
        self.programs.iter().map(|program| program.start).max().unwrap_or_default()
    }

    /// The areas of processes that run.
    pub fn areas(&self) -> Vec<Area> {
        let processes = self.processes.iter().enumerate();
        let running = processes.filter_map(|(process, of)| Some((process, of, of.mm?)));
        running
            .flat_map(|(process, &Process { program, ref areas, .. }, mm)| {
                let numbered = areas.iter().enumerate();
                numbered.map(move |(number, pages)| Area {
                    program,
                    process,
                    number,
                    mm,
                    pages: pages.clone(),
                })
            })
            .collect()
    }

    /// Starts measuring; what was before was warming up.
    pub fn start_measuring(&mut self, system: &mut System) {
        self.io.start_measuring();
        self.reports.start_measuring(system);
        self.pools.start_measuring();
        self.own_times.start_measuring();
        self.folio_windows.start_measuring(system, &self.programs);
        self.sockets.start_measuring();
        self.events.start_measuring();
    }

    /// Whether it could run so far.
    pub fn check(&mut self) -> Result<(), RunError> {
        if self.out_of_memory {
            return Err(RunError::OutOfMemory);
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    /// What was measured in these `times`.
    pub fn outcome(mut self, system: &mut System, times: Range<Time>) -> Result<Outcome, RunError> {
        self.check()?;
        self.reports.settle_all(system);
        (0..self.threads.len()).for_each(|thread| self.note_touched(system, thread));
        let cut_off: Vec<String> = self.cut_off().collect();
        let mut outcome = system.outcome(times.end);
        let seconds = (times.end - times.start).seconds().max(1e-12);
        outcome.series.extend(self.samples.into_series());
        let [remote, local] = self.accesses.counted().map(|pages| pages as f64);
        if local + remote > 0.0 {
            outcome.set(metric::LOCAL_ACCESSES, 100.0 * local / (local + remote));
        }
        set_memory(&mut outcome, system);
        if system.machine.topology.nodes > 1 {
            set_numa(&mut outcome);
        }
        outcome.areas = heat_map(system);
        outcome.set(metric::ELAPSED, (times.end - times.start).seconds());
        self.folio_windows.close(system, times.end, &self.programs, &self.processes);
        self.reports.fill(&mut outcome, times);
        self.own_times.fill(&mut outcome, system, &self.reports);
        self.folio_windows.fill(&mut outcome, system, &self.programs);
        self.pools.fill(&mut outcome);
        self.sockets.fill(&mut outcome);
        if self.io.has_devices() {
            outcome.set(metric::FILE_READ_RATE, self.io.file_bytes_read() as f64 / 1e6 / seconds);
            set_paging(&mut outcome, system);
        }
        if self.running == 0 && self.programs.iter().any(|program| program.generator.is_build()) {
            outcome.set(metric::BUILD_TIME, outcome.get(metric::DURATION).unwrap_or_default());
        }
        // The operator, if there is one, is the last.
        let on_cpu = self.reports.settled_cpu_time(self.programs.len() - 1);
        outcome.events = self.events.into_all(on_cpu, |report| self.reports.name_of(report));
        outcome.notes.extend(cut_off);
        outcome.notes.extend(system.mm.why_kdamond_is_idle().map(note_of_kdamond));
        outcome
            .notes
            .extend(self.programs.iter().filter_map(|program| program.generator.note()).map(String::from));
        Ok(outcome)
    }

    /// Which programs that come to an end have not, by the end of the run.
    fn cut_off(&self) -> impl Iterator<Item = String> {
        let mut of_program = vec![0; self.programs.len()];
        for thread in self.threads.iter().filter(|thread| thread.is_counted()) {
            of_program[thread.program] += 1;
        }
        // Copies have one name.
        let mut left: Vec<(&str, usize)> = Vec::new();
        for (at, count) in of_program.into_iter().enumerate() {
            if !self.programs[at].generator.ends() {
                continue;
            }
            let name = self.reports.name(at);
            match left.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => left.push((name, count)),
            }
        }
        let programs = left.into_iter().filter_map(|(name, count)| match count {
            0 => None,
            1 => Some(format!("1 thread of {name} was cut off")),
            _ => Some(format!("{count} threads of {name} were cut off")),
        });
        let late = match self.writes.len() - self.writes_begun {
            0 => None,
            1 => Some("1 write had not begun by the end".into()),
            count => Some(format!("{count} writes had not begun by the end")),
        };
        late.into_iter().chain(programs)
    }

    /// Who pays for what `cpu` does outside flushers.
    fn payer(&self, cpu: Cpu) -> Payer {
        let Some(thread) = self.scheduler.current(cpu) else {
            return Payer::Kernel(KernelWork::Interrupts);
        };
        match self.daemons.get(thread) {
            Some(daemon) => Payer::Kernel(daemon.into()),
            None => Payer::Program(self.threads[thread].program),
        }
    }

    /// Wakes the threads whose time has come on `cpu`.
    fn wake_due(&mut self, system: &mut System, cpu: Cpu, now: Time) {
        while let Some((time, thread)) = self.take_due(cpu, |time| time <= now) {
            self.threads[thread].state = State::Runs;
            // The CPU may have been busy since.
            self.scheduler.note_ready(thread, time);
            if std::mem::replace(&mut self.threads[thread].started, true) {
                self.scheduler.wake_up(system, thread, cpu, now);
            } else {
                let begins_on = self.threads[thread].begins_on;
                self.scheduler.start(system, thread, begins_on, now);
            }
        }
    }

    /// Has the CPU `place` wake a thread now, as `cpu` sees it, to which time the others may not have come: what they do before that comes
    /// first.
    fn wake_at(&mut self, system: &mut System, cpu: Cpu, thread: usize, place: Cpu) {
        let now = system.machine.now(cpu);
        self.threads[thread].state = State::Waits;
        self.timers[place.index()].push(Reverse((now, thread)));
        system.wake_later(place, now);
    }

    /// Takes the next thread that waits out of the timers of `cpu`, if its time is due.
    fn take_due(&mut self, cpu: Cpu, is_due: impl Fn(Time) -> bool) -> Option<(Time, usize)> {
        let timers = &mut self.timers[cpu.index()];
        while let Some(&Reverse((time, thread))) = timers.peek()
            && is_due(time)
        {
            timers.pop();
            if self.threads[thread].state == State::Waits {
                return Some((time, thread));
            }
        }
        None
    }

    /// Lets idle CPUs nearby wake the threads whose time came while `cpu` was in a long path of the kernel: an interrupt does not wait for its
    /// end. Where none is idle they wait.
    fn hand_over_timers(&mut self, system: &mut System, cpu: Cpu) {
        let now = system.machine.now(cpu);
        if self.next_timer(cpu) >= now {
            return;
        }
        let mut stay = Vec::new();
        while let Some((time, thread)) = self.take_due(cpu, |time| time < now) {
            match self.scheduler.idle_near(system, thread, cpu, time) {
                Some(near) => {
                    self.timers[near.index()].push(Reverse((time, thread)));
                    system.wake_later(near, time);
                }
                None => stay.push(Reverse((time, thread))),
            }
        }
        self.timers[cpu.index()].extend(stay);
    }

    /// When the next thread is woken on `cpu`.
    fn next_timer(&self, cpu: Cpu) -> Time {
        self.timers[cpu.index()].peek().map_or(Time::NEVER, |&Reverse((time, _))| time)
    }

    /// When `cpu` has to look at something else than its thread.
    fn limit(&self, cpu: Cpu) -> Time {
        self.next_timer(cpu).min(self.scheduler.next_tick(cpu)).min(self.pause)
    }

    /// Runs a thread until it waits, its CPU has to look at something else, or it has done [`OPERATIONS`].
    fn run_thread(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        for _ in 0..OPERATIONS {
            let progress = self.act(system, cpu, thread);
            match self.return_to_program(system, cpu, thread, progress) {
                Ok(Progress::Goes) => {}
                Ok(Progress::NotYet) => return,
                Ok(Progress::Left) => return self.end_delay(system, cpu, thread),
                Ok(Progress::Waits(wait)) => {
                    self.block(system, cpu, thread, wait);
                    return self.end_delay(system, cpu, thread);
                }
                Err(OutOfMemory) => return self.find_memory(system, cpu, thread),
            }
            self.shortage = Shortage::default();
            self.submit_writes(system, cpu);
            self.end_delay(system, cpu, thread);
            self.migrate_who_wants(system);
            let is_due = system.machine.now(cpu) >= self.limit(cpu);
            if is_due || self.scheduler.current(cpu) != Some(thread) {
                return;
            }
        }
    }

    /// Runs a step of a kernel thread.
    fn run_daemon(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        self.daemons.step(system, &mut self.scheduler, cpu, thread);
        if let Some(kill) = system.mm.enter(&mut system.machine, Cpu(0)).take_oom_kill() {
            self.kill(system, cpu, &kill);
        }
        self.submit_writes(system, cpu);
        // Nobody waits for a kernel thread.
        system.mm.parts.delays.take(cpu);
    }

    /// Submits writes to devices, which take memory if they store in it.
    fn submit_writes(&mut self, system: &mut System, cpu: Cpu) {
        self.io.submit_writes(system, cpu);
        self.held.follow_swap(system, cpu, &self.io);
    }

    /// What follows for a thread from `progress` if its memory cgroup is above memory.high: it reclaims, and sleeps if that does not
    /// help.
    #[inline]
    fn return_to_program(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        progress: Result<Progress, OutOfMemory>,
    ) -> Result<Progress, OutOfMemory> {
        let wakes = match progress {
            Ok(Progress::Goes) if system.mm.parts.is_over_high(cpu) => Wait::default(),
            Ok(Progress::Waits(wait)) if system.mm.parts.is_over_high(cpu) => wait,
            _ => return progress,
        };
        let Thread { program, process, .. } = self.threads[thread];
        let memcg = self.processes[process].memcg;
        let sleeps = system.mm.enter(&mut system.machine, cpu).return_over_high(memcg);
        if sleeps == Time::ZERO {
            return progress;
        }
        wakes.delay(system, cpu);
        let from = wakes.until.max(system.machine.now(cpu));
        let until = from + sleeps;
        self.reports.slept_over_high(program, until.min(self.end).saturating_sub(from));
        Ok(Progress::Waits(Wait::new(Cause::MemoryHigh, until)))
    }

    /// Makes a thread wait, and its CPU look for another.
    fn block(&mut self, system: &mut System, cpu: Cpu, thread: usize, wait: Wait) {
        self.io.charge_wait(system, cpu);
        Wait { until: wait.until.min(self.end), ..wait }.delay(system, cpu);
        self.threads[thread].state = State::Waits;
        self.scheduler.remove(system, cpu, thread);
        self.timers[cpu.index()].push(Reverse((wait.until, thread)));
        self.scheduler.pull(system, cpu);
    }

    /// Notes how long a thread could not go on, now that its operation does.
    #[inline]
    fn end_delay(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let now = system.mm.parts.delays.take(cpu);
        let own = &mut self.threads[thread];
        if now.is_none() && own.delay.is_none() {
            return;
        }
        let Some(delay) = joined(own.delay.take(), now) else { return };
        own.waits.add(delay);
        self.reports.delay(own.program, &delay);
        // A write of the operator is an event itself.
        if own.write.is_none() {
            self.events.delay(self.reports.number(own.program), delay);
        }
    }

    /// Handles a failed reclaim for a thread.
    fn find_memory(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let memcg = self.processes[self.threads[thread].process].memcg;
        let relief = self.shortage.next(system, cpu, &mut self.io, memcg);
        match relief {
            Relief::Wait(until) => self.block(system, cpu, thread, Wait::new(Cause::DirectReclaim, until)),
            Relief::Retry => {}
            Relief::Kill(kill) => self.kill(system, cpu, &kill),
            Relief::None => self.out_of_memory = true,
        }
        let own = &mut self.threads[thread];
        own.delay = joined(own.delay, system.mm.parts.delays.take(cpu));
    }

    /// Does the next part of a thread's work.
    fn act(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> Result<Progress, OutOfMemory> {
        let now = system.machine.now(cpu);
        let dirtier = &mut self.threads[thread].dirtier;
        if let Some(until) =
            system.mm.enter(&mut system.machine, Cpu(0)).balance_dirty_pages_at_limit(dirtier, now)
        {
            return Ok(Progress::Waits(Wait::new(Cause::DirtyPages, until)));
        }
        if !self.threads[thread].span.pages.is_empty() {
            return self.access(system, cpu, thread);
        }
        if self.threads[thread].write.is_some() {
            return Ok(self.step_write(system, cpu, thread));
        }
        let Thread { program, ref mut role, .. } = self.threads[thread];
        let number = match role {
            Role::Thread(number) => *number,
            Role::First(startup) => {
                let Some(pages) = startup.touches.pop() else {
                    return Ok(self.start_threads(system, cpu, thread));
                };
                self.threads[thread].span = Span { pages, access: Access::Write, extent: Extent::Nothing };
                return Ok(Progress::Goes);
            }
        };
        if let Some(Doing { operation, done }) = self.threads[thread].doing.take() {
            return self.go_on(system, cpu, thread, (&operation, done));
        }
        let running = &mut self.programs[program];
        let since = now.saturating_sub(running.start).picoseconds() / 1000;
        match running.generator.next(number, since) {
            Some(operation) => self.go_on(system, cpu, thread, (&operation, 0)),
            None if !system.may_share(cpu) => Ok(Progress::NotYet),
            None => {
                self.end(system, cpu, thread);
                Ok(Progress::Left)
            }
        }
    }

    /// Goes on with an operation of which so much is done, if others have come to the time of `cpu` or cannot see it.
    fn go_on(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (operation, done): (&Operation, u32),
    ) -> Result<Progress, OutOfMemory> {
        if !operation.is_private() && !system.may_share(cpu) {
            if let Operation::Read { file, index, .. } | Operation::Write { file, index, .. } = *operation {
                let program = self.threads[thread].program;
                self.io.foresee(system, self.programs[program].files[file as usize].id, index);
            }
            self.threads[thread].doing = Some(Doing { operation: *operation, done });
            return Ok(Progress::NotYet);
        }
        self.perform(system, cpu, thread, (operation, done))
    }

    fn perform(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (operation, done): (&Operation, u32),
    ) -> Result<Progress, OutOfMemory> {
        let doing = || Doing { operation: *operation, done };
        match *operation {
            Operation::Compute { .. } | Operation::SystemCalls { .. } => {
                self.compute(system, cpu, thread, *operation);
            }
            Operation::Read { .. } => return self.read(system, cpu, thread, doing()),
            Operation::Write { .. } => return self.write(system, cpu, thread, doing()),
            Operation::Access { area, first, pages, write, extent } => {
                self.begin_access(thread, area, first..first + pages, (Access::of(write), extent));
            }
            Operation::Release { .. }
            | Operation::Map { .. }
            | Operation::Mmap { .. }
            | Operation::Munmap { .. } => self.change_areas(system, cpu, thread, doing()),
            Operation::ReadStatm => self.read_statm(system, thread),
            Operation::AllocBlock { .. } => return Ok(self.alloc_block(system, cpu, thread, doing())),
            Operation::FreeBlock { .. } => return Ok(self.free_block(system, cpu, thread, doing())),
            Operation::Pin(to) => return self.pin(system, cpu, thread, (doing(), to)),
            Operation::SetMempolicy(node) => {
                let node = node.map(Node).or(self.programs[self.threads[thread].program].memory_node);
                bind(system, self.scheduler.task(thread), node);
            }
            Operation::Barrier => return Ok(self.wait_for_others(system, cpu, thread)),
            // Its second half, once the scheduler has given the new process a CPU, has what the kernel keeps of its program.
            Operation::Exec if done == 0 => {
                self.exec(system, cpu, thread, doing());
                return Ok(Progress::Left);
            }
            Operation::Exec => self.keep_of_process(system, cpu, thread, Since::Exec),
            Operation::Recorded(change) => return self.recorded(system, cpu, thread, doing(), &change),
            Operation::Fork { process } => self.fork(system, cpu, thread, process),
            Operation::Wait { process } => return Ok(self.wait_for(system, cpu, thread, doing(), process)),
            Operation::SleepUntil { nanoseconds } => {
                return Ok(self.sleep_until(system.machine.now(cpu), thread, nanoseconds));
            }
            Operation::Arrive { nanoseconds } => {
                return Ok(self.await_arrival(system.machine.now(cpu), thread, nanoseconds));
            }
            Operation::AllocPages { .. } => self.alloc_pages(system, cpu, thread, doing()),
            Operation::FreePages => {
                let goes_on = self.free_pages(system, cpu, thread);
                self.threads[thread].doing = goes_on.then(doing);
            }
            Operation::Send { .. } => return Ok(self.send(system, cpu, thread, doing())),
            Operation::Receive { .. } => return Ok(self.receive(system, cpu, thread, doing())),
            Operation::WriteFile { number } => self.begin_write(system, cpu, thread, number as usize),
            Operation::TransactionBegin => self.begin_transaction(system.machine.now(cpu), thread),
            Operation::TransactionEnd => self.end_transaction(system.machine.now(cpu), thread),
        }
        Ok(Progress::Goes)
    }

    /// Lets a thread wait for a request that arrives so long after its program's start, which may be in the past.
    fn await_arrival(&mut self, now: Time, thread: usize, nanoseconds: u64) -> Progress {
        let arrival = self.time_of(thread, nanoseconds);
        let own = &mut self.threads[thread];
        own.transaction_start = arrival;
        own.waits = TransactionWaits { for_thread: now.saturating_sub(arrival), delay: None };
        self.sleep_until(now, thread, nanoseconds)
    }

    fn begin_transaction(&mut self, now: Time, thread: usize) {
        let own = &mut self.threads[thread];
        (own.transaction_start, own.waits) = (now, TransactionWaits::default());
    }

    fn end_transaction(&mut self, now: Time, thread: usize) {
        let own = &mut self.threads[thread];
        let program = own.program;
        let began = std::mem::replace(&mut own.transaction_start, now);
        let waits = std::mem::take(&mut own.waits);
        let took = now.saturating_sub(began);
        self.reports.transaction(program, now, took);
        self.events.transaction(self.reports.number(program), (began, took), waits);
        if let Some(queries) = self.programs[program].generator.queries_per_transaction() {
            self.reports.add_queries(queries);
        }
    }

    /// Computes until the CPU has to look at something else, and notes what is left.
    fn compute(&mut self, system: &mut System, cpu: Cpu, thread: usize, operation: Operation) {
        let until_limit = self.limit(cpu).saturating_sub(system.machine.now(cpu));
        let room = system.machine.work_within(cpu, until_limit).picoseconds() / 1000;
        let mut left = operation;
        let (category, takes, goes_on) = match &mut left {
            Operation::Compute { nanoseconds } => {
                let takes = self.own_times.compute(self.threads[thread].program, room.max(1), nanoseconds);
                (Category::Program, takes, *nanoseconds > 0)
            }
            Operation::SystemCalls { nanoseconds } => {
                let takes = room.max(1).min(*nanoseconds);
                *nanoseconds -= takes;
                (Category::SystemCalls, takes, *nanoseconds > 0)
            }
            _ => return,
        };
        system.machine.work(cpu, category, Time::from_nanoseconds(takes));
        self.threads[thread].doing = goes_on.then_some(Doing { operation: left, done: 0 });
    }

    fn mm_of(&self, thread: usize) -> MmId {
        self.processes[self.threads[thread].process].mm.expect("threads of who was killed do nothing")
    }

    /// Sets the CPU affinity of a thread.
    fn pin(
        &mut self,
        system: &mut System,
        cpu: Cpu,
        thread: usize,
        (doing, to): (Doing, Option<Affinity>),
    ) -> Result<Progress, OutOfMemory> {
        // The affinity is read from the process's data, and if that has to be waited for, once it is there.
        self.threads[thread].doing = Some(doing);
        let data = self.processes[self.threads[thread].process].data;
        if let Some(wait) = self.touch(system, cpu, thread, data, Access::Read)? {
            return Ok(Progress::Waits(wait));
        }
        self.threads[thread].doing = None;
        let topology = &system.machine.topology;
        let allowed = to.map(|affinity| CpuSet::of(topology, affinity));
        if self.scheduler.set_affinity(topology, thread, cpu, allowed) {
            self.scheduler.leave(system, cpu, thread);
            return Ok(Progress::Left);
        }
        Ok(Progress::Goes)
    }

    /// The time that is so long after the start of a thread's program.
    fn time_of(&self, thread: usize, nanoseconds: u64) -> Time {
        self.programs[self.threads[thread].program].start + Time::from_nanoseconds(nanoseconds)
    }

    /// Lets a thread sleep until so long after its program's start.
    fn sleep_until(&self, now: Time, thread: usize, nanoseconds: u64) -> Progress {
        let until = self.time_of(thread, nanoseconds);
        match until > now {
            true => Progress::Waits(Wait { until, cause: None }),
            false => Progress::Goes,
        }
    }

    /// The last to come to a barrier goes on and wakes the others.
    fn wait_for_others(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> Progress {
        let process = self.threads[thread].process;
        let own = &mut self.processes[process];
        if own.waiting.len() + 1 == own.alive {
            self.wake_waiting(system, cpu, process);
            return Progress::Goes;
        }
        own.waiting.push((thread, cpu));
        self.sleep(system, cpu, thread)
    }

    /// Lets a thread wait until another wakes it.
    fn sleep(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> Progress {
        self.threads[thread].state = State::Waits;
        self.scheduler.remove(system, cpu, thread);
        self.scheduler.pull(system, cpu);
        Progress::Left
    }

    /// Wakes the threads at the barrier of a process.
    fn wake_waiting(&mut self, system: &mut System, cpu: Cpu, process: usize) {
        for (thread, place) in std::mem::take(&mut self.processes[process].waiting) {
            self.wake_at(system, cpu, thread, place);
        }
    }

    /// Ends a thread that has finished its program, or lets it idle for good.
    fn end(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let Thread { program, process, .. } = self.threads[thread];
        self.reports.thread_ended(program);
        self.scheduler.remove(system, cpu, thread);
        if self.programs[program].generator.layout().stays {
            self.threads[thread].state = State::Idle;
            self.has_done(system.machine.now(cpu));
        } else {
            self.leave_process(system, cpu, thread);
            if self.processes[process].waiting.len() == self.processes[process].alive {
                self.wake_waiting(system, cpu, process);
            }
            self.wake_parent(system, cpu, process);
        }
        self.scheduler.pull(system, cpu);
    }

    /// Notes that a thread has nothing more to do.
    fn has_done(&mut self, now: Time) {
        self.running -= 1;
        self.done_at = self.done_at.max(now);
    }

    /// Lets the first thread of a process start the others, one after the other, in random order, and wait for them. How long it takes
    /// to start one differs, so processes that begin together get CPUs in random order.
    fn start_threads(&mut self, system: &mut System, cpu: Cpu, thread: usize) -> Progress {
        if !system.may_share(cpu) {
            return Progress::NotYet;
        }
        let Thread { program, process, ref role, .. } = self.threads[thread];
        if let (Role::First(startup), Some(mm)) = (role, self.processes[process].mm) {
            system.mm.parts.mprotect(mm, startup.start.clone(), VmFlags::default());
        }
        let now = system.machine.now(cpu);
        let threads = self.processes[process].threads.iter().copied();
        let others: Vec<usize> = threads.filter(|&at| at != thread).collect();
        let each = system.machine.costs.numa().thread_start;
        for (before, at) in (0..).zip(self.scheduler.shuffled(others.len())) {
            let other = others[at];
            let late = Time::from_nanoseconds(self.scheduler.chance((each.picoseconds() / 1000).max(1)));
            let begins = (now + each * before + late).max(self.threads[other].transaction_start);
            self.threads[other].transaction_start = begins;
            self.timers[cpu.index()].push(Reverse((begins, other)));
        }
        let running = &mut self.programs[program];
        running.start = running.start.max(now);
        running.to_begin -= 1;
        self.threads[thread].state = State::Idle;
        self.scheduler.remove(system, cpu, thread);
        self.scheduler.pull(system, cpu);
        Progress::Left
    }

    /// Takes a thread out of its process, and ends the process with its last thread.
    fn leave_process(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let before = std::mem::replace(&mut self.threads[thread].state, State::Done);
        if self.threads[thread].is_first() {
            return;
        }
        self.note_touched(system, thread);
        self.close_sockets(system, cpu, thread);
        let (task, process) = (self.scheduler.task(thread), self.threads[thread].process);
        system.mm.parts.exit_task(task);
        let own = &mut self.processes[process];
        own.alive -= 1;
        if own.alive == 0 {
            if own.first != task {
                system.mm.parts.exit_task(own.first);
            }
            if let Some(mm) = own.mm.take() {
                self.io.exit(system, cpu, mm);
            }
        }
        self.release_task(system, cpu, thread);
        // Who waits for a process waits until its memory is freed.
        if before != State::Idle {
            self.has_done(system.machine.now(cpu));
        }
    }

    /// Replaces a process by another one, for its only thread, which starts where the scheduler wants it to and has its program loaded there.
    fn exec(&mut self, system: &mut System, cpu: Cpu, thread: usize, doing: Doing) {
        let Thread { program, process, .. } = self.threads[thread];
        self.scheduler.remove(system, cpu, thread);
        self.leave_process(system, cpu, thread);
        let now = system.machine.now(cpu);
        let memcg = self.processes[process].memcg;
        let mm = self.programs[program].create_mm(system, memcg);
        let task = self.add_task(system, program, mm, now);
        let mapped = match self.programs[program].layout {
            Some(_) => ProcessLayout::map_executed(system, mm, |end| self.scheduler.chance(end)),
            None => Mapped::default(),
        };
        let own = &mut self.processes[process];
        (own.data, own.areas) = (mapped.data, mapped.areas.into_iter().collect());
        own.recorded.exec();
        self.threads[thread].stack = mapped.stacks.first().copied();
        self.threads[thread].doing = Some(Doing { done: 1, ..doing });
        self.keep_of_process(system, cpu, thread, Since::Fork);
        self.begin_process(system, cpu, thread, (mm, task));
        self.scheduler.pull(system, cpu);
    }

    /// Creates the task of a new process of a program.
    fn add_task(&mut self, system: &mut System, program: usize, mm: MmId, now: Time) -> TaskId {
        let pid = self.pids.next();
        let task = system.mm.enter(&mut system.machine, Cpu(0)).add_task(now, mm, pid, None);
        let running = &self.programs[program];
        system.mm.parts.numa.set_mems_allowed(task, running.mems_allowed);
        bind(system, task, running.memory_node);
        task
    }

    /// Lets the only thread of a process start with this address space and task.
    fn begin_process(&mut self, system: &mut System, cpu: Cpu, thread: usize, (mm, task): (MmId, TaskId)) {
        let own = &mut self.processes[self.threads[thread].process];
        (own.mm, own.first, own.alive) = (Some(mm), task, 1);
        self.running += 1;
        self.threads[thread].started = false;
        self.scheduler.set_task(thread, task);
        self.wake_at(system, cpu, thread, cpu);
    }

    /// Kills the processes that the OOM killer has chosen: their threads stop and their memory is freed.
    fn kill(&mut self, system: &mut System, cpu: Cpu, kill: &OomKill) {
        let mut ended = Vec::new();
        for process in 0..self.processes.len() {
            let Some(mm) = self.processes[process].mm.take_if(|mm| kill.victims.contains(mm)) else {
                continue;
            };
            self.processes[process].waiting.clear();
            self.forget_parent(process);
            for thread in self.processes[process].threads.clone() {
                if self.threads[thread].state != State::Done {
                    if let Some(place) = self.scheduler.cpu_of(thread) {
                        self.scheduler.remove(system, place, thread);
                    }
                    self.leave_process(system, cpu, thread);
                }
            }
            let pages = self.io.exit(system, cpu, mm);
            self.wake_parent(system, cpu, process);
            let name = self.reports.process_killed(self.processes[process].program);
            ended.push(Killed {
                program: name.into(),
                mib: self.page_size.mib_of_pages(pages),
                is_chosen: mm == kill.chosen.0,
            });
        }
        let name = |memcg: Memcg| {
            let number = self.memcgs.iter().position(|&of| of == memcg)?;
            Some(self.cgroups[number].name.clone())
        };
        self.events.kill(system.machine.now(cpu), oom::cause(system, kill, name), ended);
    }

    /// Adds what a thread has accessed to the heat map.
    fn note_touched(&mut self, system: &mut System, thread: usize) {
        let task = self.scheduler.task(thread);
        let Thread { process, ref mut touched, .. } = self.threads[thread];
        for (pages, area) in touched.drain(..).zip(self.processes[process].areas.iter()) {
            if pages > 0 {
                system.mm.parts.note_touched(task, area.start, pages);
            }
        }
    }

    /// A tick on `cpu`: the task may scan, its thread uses its stack and data, and the next thread runs.
    fn tick(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        system.machine.charge(cpu, Category::Tick, system.machine.costs.numa().tick);
        if self.daemons.get(thread).is_some() || self.processes[self.threads[thread].process].of_kernel {
            return self.scheduler.tick(system, cpu);
        }
        system.mm.enter(&mut system.machine, cpu).numa_tick();
        let used = self.use_at_hand(system, cpu, thread);
        self.scheduler.tick(system, cpu);
        match used {
            Ok(waits) => {
                if let Some(wait) = waits {
                    self.block(system, cpu, thread, wait);
                }
                self.end_delay(system, cpu, thread);
            }
            Err(OutOfMemory) => self.find_memory(system, cpu, thread),
        }
    }

    /// Lets the tasks that hint faults have given another preferred node go there.
    fn migrate_who_wants(&mut self, system: &mut System) {
        for task in system.mm.parts.numa.take_wants_to_move() {
            self.scheduler.migrate_preferred(system, task);
        }
    }
}

/// Takes the memory that the scenario says is in use from the start, and that of the files of programs.
fn hold_memory(
    boot: &Boot,
    spec: &Workload,
    system: &mut System,
    of_files: u64,
) -> Result<HeldPages, RunError> {
    system.before_the_run(|system| {
        let in_use = system.mm.parts.allocator.page_size().pages_of_mib(spec.held_mib);
        let mut held = HeldPages::new(boot, system, of_files, in_use)?;
        if let Some(state) = &spec.state {
            held.keep(state.make(system, &mut boot.stream(Stream::State, 0)));
        }
        Ok(held)
    })
}

/// Two parts of a delay as one.
fn joined(earlier: Option<Delay>, later: Option<Delay>) -> Option<Delay> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => Some(earlier.and(later)),
        (delay, None) | (None, delay) => delay,
    }
}

impl Program for Host<'_> {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        let now = system.machine.now(cpu);
        // Interrupts since the last step are paid by who runs here.
        self.reports.switch(system, cpu, self.payer(cpu));
        self.io.complete(system, cpu, now);
        self.io.submit_swap_reads(system, cpu);
        self.wake_due(system, cpu, now);
        self.daemons.wake(system, &mut self.scheduler, cpu);
        if self.io.flushers.are_on(cpu) && system.may_share(cpu) {
            self.reports.switch(system, cpu, Payer::Kernel(KernelWork::Writeback));
            self.io.step_flushers(system, cpu);
        }
        self.reports.switch(system, cpu, self.payer(cpu));
        let Some(thread) = self.scheduler.current(cpu) else {
            return match self.next_timer(cpu).min(self.io.flushers.ready_at(system, cpu)) {
                Time::NEVER => Step::Idle,
                until if until <= now => Step::Again,
                until => Step::Sleep(until),
            };
        };
        if self.is_finished() || now >= self.pause {
            return Step::Again;
        }
        let waited = self.scheduler.take_run_delay(thread);
        if waited > Time::ZERO
            && let Some(own) = self.threads.get_mut(thread)
        {
            let delay = Delay::new(Cause::RunQueue, (now.saturating_sub(waited), waited));
            own.waits.add(delay);
            self.reports.delay(own.program, &delay);
        }
        match self.daemons.get(thread) {
            _ if self.scheduler.is_tick_due(cpu, now) => self.tick(system, cpu, thread),
            Some(_) => self.run_daemon(system, cpu, thread),
            None => self.run_thread(system, cpu, thread),
        }
        self.hand_over_timers(system, cpu);
        self.io.flushers.wake(system, cpu, system.machine.now(cpu));
        Step::Again
    }

    fn runs_daemons(&self) -> bool {
        true
    }

    fn has_consistent_pools(&self) -> bool {
        !self.threads.iter().any(|thread| matches!(thread.write, Some(Writing::Kernel(_))))
    }

    fn is_finished(&self) -> bool {
        self.out_of_memory || self.refused.is_some() || self.running == 0
    }
}
