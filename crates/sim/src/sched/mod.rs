//! Scheduling: which thread runs on which CPU, as far as it matters to threads that always want to run.
//!
//! ```text
//!   CPU 0   a b c      a runs, b and c wait        tick: b runs
//!   CPU 1              ◄── takes b or c            balance.rs: busy CPUs pull from busier ones while no CPU is idle
//!   CPU 2   d          ◄── a, which uses memory    placement.rs: a thread goes to its preferred node, perhaps in exchange
//!                          of this node            for d
//! ```
//!
//! Each CPU has a queue; its first thread runs, and each tick switches to the next. A thread that is new or
//! has to leave its CPU goes to the node with most idle CPUs, to a CPU with the fewest threads there, of an idle core if there is one, at
//! random among several. A waiting thread goes to an idle CPU, at a tick or when that CPU's last thread
//! leaves; the nearest idle CPU is asked first. The threads of processes that start together are started in
//! random order.
//!
//! policy.rs decides when a thread is moved, according to the kernel's [`SchedFeatures`]. The scheduler knows
//! a thread by its number, its task in the memory manager, and the CPUs on which it may run; what it does is
//! up to its program. Kernel threads are in the same queues; they have no task there, as NUMA balancing does
//! not look at them.

mod balance;
mod placement;
mod policy;

use crate::System;
use balance::{Balance, Domain, Pull};
use machine::{Cpu, Node, Time, Topology};
use mm::features::sched::SchedFeatures;
use mm::jiffies::TICK_NS;
use mm::numa::placement::TaskId;
use placement::{CpuLoad, Occupant, Search};
use policy::{Leaving, Place, Queue, degrades_locality};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use workload::threads::Affinity;

const TICK: Time = Time::from_nanoseconds(TICK_NS);

/// The CPUs that a thread may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuSet {
    Of(Node),
    Only(Cpu),
}

impl CpuSet {
    /// The CPUs of an affinity on a machine.
    pub fn of(topology: &Topology, affinity: Affinity) -> CpuSet {
        let node = |number| Node(Affinity::node(number, topology.nodes_with_cpus()));
        match affinity {
            Affinity::Node(number) => CpuSet::Of(node(number)),
            Affinity::FirstCpuOf(number) => CpuSet::Only(topology.cpus_of(node(number))[0]),
            Affinity::Cpu(cpu) => CpuSet::Only(Cpu(cpu)),
        }
    }

    fn has(self, topology: &Topology, cpu: Cpu) -> bool {
        match self {
            CpuSet::Of(node) => topology.node(cpu) == node,
            CpuSet::Only(only) => cpu == only,
        }
    }
}

/// The scheduler's state of a thread.
struct Thread {
    /// `None` for a kernel thread.
    task: Option<TaskId>,
    /// Its CPU affinity; `None` for all CPUs.
    allowed: Option<CpuSet>,
    /// Since when it waits for a CPU, if it does.
    queued: Option<Time>,
    /// How long it has waited for CPUs since that was taken.
    run_delay: Time,
}

impl Thread {
    fn new(task: Option<TaskId>, allowed: Option<CpuSet>) -> Thread {
        Thread { task, allowed, queued: None, run_delay: Time::ZERO }
    }
}

impl Thread {
    fn may_run_on(&self, topology: &Topology, cpu: Cpu) -> bool {
        self.allowed.is_none_or(|set| set.has(topology, cpu))
    }
}

/// All threads, by number, and the queue of each CPU.
pub(crate) struct Scheduler {
    features: SchedFeatures,
    threads: Vec<Thread>,
    /// By CPU.
    queues: Vec<VecDeque<usize>>,
    /// By CPU, which thread runs.
    running: Vec<Option<usize>>,
    next_tick: Vec<Time>,
    balance: Balance,
    random: Pcg64Mcg,
}

impl Scheduler {
    pub fn new(cpus: usize, features: SchedFeatures, random: Pcg64Mcg) -> Scheduler {
        Scheduler {
            features,
            threads: Vec::new(),
            queues: vec![VecDeque::new(); cpus],
            running: vec![None; cpus],
            next_tick: vec![Time::NEVER; cpus],
            balance: Balance::new(cpus),
            random,
        }
    }

    /// Adds a thread that may run on all CPUs and is on none yet. Returns its number.
    pub fn add(&mut self, task: TaskId) -> usize {
        self.threads.push(Thread::new(Some(task), None));
        self.threads.len() - 1
    }

    /// Adds a kernel thread, which sleeps. Returns its number.
    pub fn add_kernel_thread(&mut self, allowed: Option<CpuSet>) -> usize {
        self.threads.push(Thread::new(None, allowed));
        self.threads.len() - 1
    }

    /// The task of a program's thread.
    pub fn task(&self, thread: usize) -> TaskId {
        self.threads[thread].task.expect("a kernel thread has none")
    }

    /// Gives another task to a thread that is on no CPU.
    pub fn set_task(&mut self, thread: usize, task: TaskId) {
        self.threads[thread].task = Some(task);
    }

    fn thread_of(&self, task: TaskId) -> Option<usize> {
        self.threads.iter().position(|thread| thread.task == Some(task))
    }

    /// Sets the affinity of a thread. Returns whether the thread has to leave the CPU that it is on.
    pub fn set_affinity(
        &mut self,
        topology: &Topology,
        thread: usize,
        cpu: Cpu,
        allowed: Option<CpuSet>,
    ) -> bool {
        self.threads[thread].allowed = allowed;
        !self.threads[thread].may_run_on(topology, cpu)
    }

    /// The thread that runs on `cpu`.
    pub fn current(&self, cpu: Cpu) -> Option<usize> {
        self.queues[cpu.index()].front().copied()
    }

    /// The CPU in whose queue a thread is.
    pub fn cpu_of(&self, thread: usize) -> Option<Cpu> {
        self.queues.iter().position(|queue| queue.contains(&thread)).map(|cpu| Cpu(cpu as u16))
    }

    /// A random number below `end`.
    pub fn chance(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    /// The numbers below `count` in random order.
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.random.random_range(0..=last));
        }
        order
    }

    /// The CPU on which a new thread starts, within its affinity.
    fn idlest_cpu(&mut self, system: &System, only: Option<CpuSet>) -> Cpu {
        let topology = &system.machine.topology;
        let load = |cpu: &Cpu| self.queues[cpu.index()].len();
        let idle = |node: &Node| topology.cpus_of(*node).iter().filter(|cpu| load(cpu) == 0).count();
        let nodes = || (0..topology.nodes).map(Node).filter(|node| !topology.is_memory_only(*node));
        let most = nodes().map(|node| idle(&node)).max().unwrap_or(0);
        let idlest: Vec<Node> = nodes().filter(|node| idle(node) == most).collect();
        let node = match only {
            Some(CpuSet::Only(cpu)) => return cpu,
            Some(CpuSet::Of(node)) => node,
            None => idlest[self.random.random_range(0..idlest.len())],
        };
        // An idle core is idler than an idle SMT sibling (`update_pick_idlest` by `idle_cpus`).
        let load_of_core =
            |cpu: &Cpu| (load(cpu), topology.sibling(*cpu).map_or(0, |sibling| load(&sibling)));
        let cpus = topology.cpus_of(node);
        let least = cpus.iter().map(load_of_core).min();
        let least: Vec<Cpu> = cpus.into_iter().filter(|cpu| Some(load_of_core(cpu)) == least).collect();
        least[self.random.random_range(0..least.len())]
    }

    /// Adds a thread to the queue of a CPU.
    pub fn enqueue(&mut self, system: &mut System, cpu: Cpu, thread: usize, now: Time) {
        self.threads[thread].queued.get_or_insert(now);
        self.queues[cpu.index()].push_back(thread);
        if self.queues[cpu.index()].len() == 1 {
            system.wake(cpu, now);
            // All CPUs tick at the same time, as `skew_tick` is off by default.
            let ticks = system.machine.now(cpu).picoseconds() / TICK.picoseconds() + 1;
            self.next_tick[cpu.index()] = TICK * ticks;
            self.switch(system, cpu);
        }
    }

    /// Lets a new thread run on the CPU that is idlest within `only`, or else within its affinity.
    pub fn start(&mut self, system: &mut System, thread: usize, only: Option<CpuSet>, now: Time) {
        let cpu = self.idlest_cpu(system, only.or(self.threads[thread].allowed));
        self.enqueue(system, cpu, thread, now);
    }

    /// Whether a CPU has nothing to do at a time: its queue is empty, and it is not about to end what it does later than that.
    fn is_idle(&self, system: &System, cpu: Cpu, time: Time) -> bool {
        self.queues[cpu.index()].is_empty() && system.machine.now(cpu) <= time
    }

    /// A CPU of the same node that is idle at a time, and on which a thread may run; of an idle core if there is one (`select_idle_core`).
    pub fn idle_near(&self, system: &System, thread: usize, cpu: Cpu, time: Time) -> Option<Cpu> {
        let topology = &system.machine.topology;
        let near = topology.cpus_of(topology.node(cpu)).into_iter();
        let idle = near.filter(|&cpu| self.is_idle(system, cpu, time));
        let mut idle = idle.filter(|&cpu| self.threads[thread].may_run_on(topology, cpu)).peekable();
        let first = idle.peek().copied();
        let has_idle_core =
            |cpu: &Cpu| topology.sibling(*cpu).is_none_or(|sibling| self.is_idle(system, sibling, time));
        idle.find(has_idle_core).or(first)
    }

    /// Lets a thread run that has waited: on the CPU where it ran before if that is idle, else on an idle one of the same node, else
    /// where it ran, before the thread that runs there (`select_idle_sibling`, `wakeup_preempt`): who has slept is behind in virtual
    /// run time.
    pub fn wake_up(&mut self, system: &mut System, thread: usize, previous: Cpu, now: Time) {
        let cpu = match self.is_idle(system, previous, now) {
            true => previous,
            false => self.idle_near(system, thread, previous, now).unwrap_or(previous),
        };
        self.enqueue(system, cpu, thread, now);
        if self.queues[cpu.index()].len() > 1 {
            self.queues[cpu.index()].rotate_right(1);
            self.switch(system, cpu);
        }
    }

    /// Near which CPU a thread is woken that waits for what the running thread of `waker` has done: where it ran, or if the waker has its
    /// CPU for itself and shares no cache with that, near the waker (`wake_affine` of `WF_SYNC`).
    pub fn wake_affine(&self, system: &System, waker: Cpu, previous: Cpu) -> Cpu {
        let topology = &system.machine.topology;
        let is_alone = self.queues[waker.index()].len() == 1;
        if is_alone && topology.node(waker) != topology.node(previous) { waker } else { previous }
    }

    /// When the running thread of `cpu` has to make room for the next.
    pub fn next_tick(&self, cpu: Cpu) -> Time {
        self.next_tick[cpu.index()]
    }

    /// Removes a thread from the queue of a CPU.
    pub fn remove(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let ran = self.current(cpu) == Some(thread);
        self.queues[cpu.index()].retain(|&other| other != thread);
        if ran {
            self.switch(system, cpu);
        }
    }

    /// Notes since when a thread could run that a CPU looks for only now.
    pub fn note_ready(&mut self, thread: usize, since: Time) {
        self.threads[thread].queued = Some(since);
    }

    /// How long a thread has waited for CPUs since this was asked last (`run_delay` of `struct sched_info`).
    #[inline]
    pub fn take_run_delay(&mut self, thread: usize) -> Time {
        std::mem::take(&mut self.threads[thread].run_delay)
    }

    /// Tells the memory manager which task runs on `cpu` now.
    fn switch(&mut self, system: &mut System, cpu: Cpu) {
        let (now, next) = (system.machine.now(cpu), self.current(cpu));
        let before = std::mem::replace(&mut self.running[cpu.index()], next);
        if let Some(before) = before
            && Some(before) != next
            && self.queues[cpu.index()].contains(&before)
        {
            self.threads[before].queued = Some(now);
        }
        if let Some(next) = next
            && let Some(since) = self.threads[next].queued.take()
        {
            self.threads[next].run_delay += now.saturating_sub(since);
        }
        let task = next.and_then(|thread| self.threads[thread].task);
        system.mm.enter(&mut system.machine, cpu).switch_task(task);
    }

    pub fn is_tick_due(&self, cpu: Cpu, now: Time) -> bool {
        now >= self.next_tick[cpu.index()]
    }

    /// Switches `cpu` to its next thread.
    pub fn tick(&mut self, system: &mut System, cpu: Cpu) {
        while self.is_tick_due(cpu, system.machine.now(cpu)) {
            self.next_tick[cpu.index()] += TICK;
        }
        if self.queues[cpu.index()].len() > 1 {
            self.push(system, cpu);
            self.queues[cpu.index()].rotate_left(1);
            self.switch(system, cpu);
        }
        self.even_out(system, cpu);
    }

    /// Lets a busy CPU pull waiting threads from busier CPUs, if balancing is due.
    fn even_out(&mut self, system: &mut System, cpu: Cpu) {
        let (now, topology) = (system.machine.now(cpu), &system.machine.topology);
        let (queues, threads) = (&self.queues, &self.threads);
        let tasks = &system.mm.parts.numa.tasks;
        let queue = |cpu: Cpu| {
            let on_it = queues[cpu.index()].iter();
            let prefer = on_it.filter_map(|&thread| tasks.get(threads[thread].task?).preferred);
            Queue {
                threads: queues[cpu.index()].len() as u64,
                prefer: prefer.clone().count() as u64,
                at_home: prefer.filter(|&node| node == topology.node(cpu)).count() as u64,
            }
        };
        for pull in self.balance.attempts(&self.features, topology, cpu, now, queue) {
            let moved = self.take(system, cpu, pull);
            self.balance.tried(cpu, pull.domain, moved);
        }
    }

    /// Lets a busy CPU pull a waiting thread from a busier one. Returns whether it did.
    fn take(&mut self, system: &mut System, cpu: Cpu, pull: Pull) -> bool {
        let mut waiting = self.queues[pull.busiest.index()].iter().skip(1).copied();
        let takes = |&thread: &usize| {
            let degrades = pull.domain == Domain::All
                && degrades_locality(&self.leaving(system, thread, pull.busiest, cpu));
            self.threads[thread].may_run_on(&system.machine.topology, cpu)
                && pull.attempt.takes(&self.features, degrades)
        };
        let Some(thread) = waiting.find(takes) else { return false };
        let now = system.machine.now(cpu);
        self.bring(system, thread, pull.busiest, cpu, now);
        true
    }

    /// The state that decides whether a thread should leave its node.
    fn leaving(&self, system: &System, thread: usize, source: Cpu, destination: Cpu) -> Leaving {
        let tasks = &system.mm.parts.numa.tasks;
        let [here, there] = [source, destination].map(|cpu| system.machine.node(cpu));
        let preferred = |thread: usize| tasks.get(self.threads[thread].task?).preferred;
        let reach = system.machine.topology.node_distances[here.index()][there.index()];
        let task = self.threads[thread].task;
        let weight = |node| task.map_or(0, |task| tasks.numa_weight(task, node, reach));
        Leaving {
            preferred: preferred(thread),
            here,
            there,
            all_at_home: self.queues[source.index()].iter().all(|&other| preferred(other) == Some(here)),
            weight_here: weight(here),
            weight_there: weight(there),
        }
    }

    /// Lets an idle CPU take a thread that waits on `cpu` (`nohz_balancer_kick`).
    fn push(&mut self, system: &mut System, cpu: Cpu) {
        let topology = &system.machine.topology;
        let here = topology.node(cpu);
        let far = |other: &Cpu| topology.node_distances[here.index()][topology.node(*other).index()];
        let idle: Vec<Cpu> =
            topology.all_cpus().filter(|other| self.queues[other.index()].is_empty()).collect();
        if idle.is_empty() {
            return;
        }
        for &thread in self.queues[cpu.index()].iter().skip(1) {
            let may_run = |other: &Cpu| self.threads[thread].may_run_on(topology, *other);
            let nearest = idle.iter().copied().filter(may_run).min_by_key(far);
            if let Some(nearest) = nearest {
                let now = system.machine.now(cpu);
                self.bring(system, thread, cpu, nearest, now);
                return;
            }
        }
    }

    /// Lets an idle CPU pull a waiting thread, from its own node first.
    pub fn pull(&mut self, system: &mut System, cpu: Cpu) {
        if self.current(cpu).is_some() {
            return;
        }
        let topology = &system.machine.topology;
        let here = topology.node(cpu);
        let movable = |&thread: &usize| self.threads[thread].may_run_on(topology, cpu);
        let waiting = |other: &Cpu| self.queues[other.index()].iter().skip(1).any(movable);
        let key = |other: &Cpu| (topology.node(*other) == here, self.queues[other.index()].len());
        let Some(busiest) = topology.all_cpus().filter(waiting).max_by_key(key) else { return };
        let thread = self.queues[busiest.index()].iter().skip(1).copied().find(|thread| movable(thread));
        let thread = thread.expect("one waits there");
        let now = system.machine.now(cpu);
        self.bring(system, thread, busiest, cpu, now);
    }

    /// Moves a thread that may no longer run on `cpu`.
    pub fn leave(&mut self, system: &mut System, cpu: Cpu, thread: usize) {
        let now = system.machine.now(cpu);
        self.remove(system, cpu, thread);
        let to = self.idlest_cpu(system, self.threads[thread].allowed);
        self.enqueue(system, to, thread, now);
        self.pull(system, cpu);
    }

    /// Tries to move a task to its preferred node (`numa_migrate_preferred`).
    pub fn migrate_preferred(&mut self, system: &mut System, task: TaskId) {
        let Some(thread) = self.thread_of(task) else { return };
        let Some(source) = self.cpu_of(thread) else { return };
        let place = self.find_place(system, thread, source);
        let node = place.map_or(system.machine.node(source), |place| system.machine.node(place.cpu));
        system.mm.parts.numa.settle_preferred(task, node);
        if let Some(place) = place {
            self.migrate(system, thread, source, place);
        }
    }

    fn find_place(&self, system: &System, thread: usize, source: Cpu) -> Option<Place> {
        if self.threads[thread].allowed.is_some() {
            return None;
        }
        let on = |cpu: Cpu| {
            let queue = &self.queues[cpu.index()];
            let runs = match queue.front().map(|&first| &self.threads[first]) {
                None => Occupant::Nobody,
                Some(Thread { task: Some(task), allowed: None, .. }) => Occupant::MayMove(*task),
                Some(_) => Occupant::Stays,
            };
            CpuLoad { threads: queue.len(), runs }
        };
        let (tasks, topology) = (&system.mm.parts.numa.tasks, &system.machine.topology);
        let task = self.task(thread);
        Search { features: &self.features, tasks, topology, task, source, on: &on }.find()
    }

    /// Moves a thread to a place, in exchange for the thread there if it is a swap.
    fn migrate(&mut self, system: &mut System, thread: usize, source: Cpu, place: Place) {
        let now = system.machine.now(source).max(system.machine.now(place.cpu));
        let other = place.swap.and_then(|other| self.thread_of(other));
        self.remove(system, source, thread);
        if let Some(other) = other {
            self.remove(system, place.cpu, other);
            self.enqueue(system, source, other, now);
        }
        self.enqueue(system, place.cpu, thread, now);
        system.mm.enter(&mut system.machine, source).count_task_move(other.is_some());
        self.pull(system, source);
    }

    /// Moves a waiting thread from one CPU's queue to another's.
    fn bring(&mut self, system: &mut System, thread: usize, from: Cpu, to: Cpu, now: Time) {
        self.queues[from.index()].retain(|&other| other != thread);
        self.enqueue(system, to, thread, now);
    }
}
