//! Which thread runs on which CPU: as little of a scheduler as threads need that always want to run.
//!
//! A CPU has a queue; the first thread runs, and at each tick the next one does. Threads that are new, or that may run
//! elsewhere only, go to the node with most idle CPUs, there to a CPU with fewest threads, by chance if there are several. One
//! that waits goes to a CPU that has nothing to do, at the tick or when that CPU's last thread leaves; the nearest is asked first.
//! While there is none, [busy CPUs take threads from busier ones](super::balance).
//! Threads of processes that start together come up in an order that is chance as well.

use super::balance::{Attempt, Balance, Domain, Queue};
use super::{CpuSet, TICK, Thread};
use crate::System;
use machine::{Cpu, Node, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

pub(super) struct Schedule {
    /// By CPU.
    queues: Vec<VecDeque<usize>>,
    next_tick: Vec<Time>,
    balance: Balance,
    random: Pcg64Mcg,
}

impl Schedule {
    pub fn new(cpus: usize, random: Pcg64Mcg) -> Schedule {
        Schedule {
            queues: vec![VecDeque::new(); cpus],
            next_tick: vec![Time::NEVER; cpus],
            balance: Balance::new(cpus),
            random,
        }
    }

    /// The thread that runs on `cpu`.
    pub fn current(&self, cpu: Cpu) -> Option<usize> {
        self.queues[cpu.index()].front().copied()
    }

    /// The threads of `cpu`, the one that runs first.
    pub fn threads_of(&self, cpu: Cpu) -> &VecDeque<usize> {
        &self.queues[cpu.index()]
    }

    /// The CPU of a thread that does not wait.
    pub fn cpu_of(&self, thread: usize) -> Option<Cpu> {
        self.queues.iter().position(|queue| queue.contains(&thread)).map(|cpu| Cpu(cpu as u16))
    }

    /// A number below `end` by chance.
    pub fn chance(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    /// Numbers up to `count` in an order by chance.
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.random.random_range(0..=last));
        }
        order
    }

    /// Where a thread begins that may run on some CPUs only, or anywhere.
    pub fn idlest_cpu(&mut self, system: &System, only: Option<CpuSet>) -> Cpu {
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
        let cpus = topology.cpus_of(node);
        let least = cpus.iter().map(load).min().unwrap_or(0);
        let least: Vec<Cpu> = cpus.into_iter().filter(|cpu| load(cpu) == least).collect();
        least[self.random.random_range(0..least.len())]
    }

    /// Puts a thread on a CPU.
    pub fn enqueue(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu, thread: usize, now: Time) {
        self.queues[cpu.index()].push_back(thread);
        if self.queues[cpu.index()].len() == 1 {
            system.wake(cpu, now);
            // All CPUs tick at the same time: `skew_tick` is off unless somebody asks for it.
            let ticks = system.machine.now(cpu).picoseconds() / TICK.picoseconds() + 1;
            self.next_tick[cpu.index()] = TICK * ticks;
            self.switch(system, threads, cpu);
        }
    }

    /// Takes a thread off a CPU.
    pub fn remove(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu, thread: usize) {
        let ran = self.current(cpu) == Some(thread);
        self.queues[cpu.index()].retain(|&other| other != thread);
        if ran {
            self.switch(system, threads, cpu);
        }
    }

    /// What runs on `cpu` has changed.
    fn switch(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu) {
        let task = self.current(cpu).map(|thread| threads[thread].task);
        system.mm.enter(&mut system.machine, cpu).switch_task(task);
    }

    /// Whether `cpu` is to tick.
    pub fn is_tick_due(&self, cpu: Cpu, now: Time) -> bool {
        now >= self.next_tick[cpu.index()]
    }

    /// The next thread of `cpu` runs.
    pub fn tick(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu) {
        while self.is_tick_due(cpu, system.machine.now(cpu)) {
            self.next_tick[cpu.index()] += TICK;
        }
        if self.queues[cpu.index()].len() > 1 {
            self.push(system, threads, cpu);
            self.queues[cpu.index()].rotate_left(1);
            self.switch(system, threads, cpu);
        }
        self.even_out(system, threads, cpu);
    }

    /// `cpu`, which is busy, takes threads that wait on busier CPUs, if it is time to.
    fn even_out(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu) {
        let (now, topology) = (system.machine.now(cpu), &system.machine.topology);
        let (queues, tasks) = (&self.queues, &system.mm.parts.numa.tasks);
        let queue = |cpu: Cpu| {
            let preferred =
                queues[cpu.index()].iter().map(|&thread| tasks.get(threads[thread].task).preferred);
            let prefer = preferred.clone().flatten();
            Queue {
                threads: queues[cpu.index()].len() as u64,
                prefer: prefer.clone().count() as u64,
                at_home: prefer.filter(|&node| node == topology.node(cpu)).count() as u64,
            }
        };
        let attempts = self.balance.attempts(topology, cpu, now, queue);
        for attempt in attempts {
            let moved = self.take(system, threads, cpu, attempt);
            self.balance.tried(cpu, attempt.domain, moved);
        }
    }

    /// A busy CPU takes a thread that waits on a busier one, if it may; whether it did.
    fn take(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu, attempt: Attempt) -> bool {
        let mut waiting = self.queues[attempt.busiest.index()].iter().skip(1).copied();
        let takes = |&thread: &usize| {
            let degrades = attempt.domain == Domain::All
                && self.degrades_locality(system, threads, thread, attempt.busiest, cpu);
            threads[thread].may_run_on(&system.machine.topology, cpu) && attempt.takes(degrades)
        };
        let Some(thread) = waiting.find(takes) else { return false };
        let now = system.machine.now(cpu);
        self.bring(system, threads, thread, attempt.busiest, cpu, now);
        true
    }

    /// Whether a thread would leave memory behind that it uses (`migrate_degrades_locality`).
    fn degrades_locality(
        &self,
        system: &System,
        threads: &[Thread],
        thread: usize,
        source: Cpu,
        destination: Cpu,
    ) -> bool {
        let tasks = &system.mm.parts.numa.tasks;
        let [here, there] = [source, destination].map(|cpu| system.machine.node(cpu));
        let task = threads[thread].task;
        let preferred = |thread: &usize| tasks.get(threads[*thread].task).preferred;
        if preferred(&thread) == Some(here) {
            // Where all are at home, one of them has to go.
            return self.queues[source.index()].iter().any(|other| preferred(other) != Some(here));
        }
        if preferred(&thread) == Some(there) {
            return false;
        }
        let reach = system.machine.topology.node_distances[here.index()][there.index()];
        let weight = |node: Node| tasks.numa_weight(task, node, reach);
        weight(there) < weight(here)
    }

    /// A CPU on which threads wait wakes one that has nothing to do, which takes one of them (`nohz_balancer_kick`).
    fn push(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu) {
        let topology = &system.machine.topology;
        let here = topology.node(cpu);
        let far = |other: &Cpu| topology.node_distances[here.index()][topology.node(*other).index()];
        let idle: Vec<Cpu> =
            topology.all_cpus().filter(|other| self.queues[other.index()].is_empty()).collect();
        if idle.is_empty() {
            return;
        }
        for &thread in self.queues[cpu.index()].iter().skip(1) {
            let may_run = |other: &Cpu| threads[thread].may_run_on(topology, *other);
            let nearest = idle.iter().copied().filter(may_run).min_by_key(far);
            if let Some(nearest) = nearest {
                let now = system.machine.now(cpu);
                self.bring(system, threads, thread, cpu, nearest, now);
                return;
            }
        }
    }

    /// A CPU without threads takes one that waits elsewhere, on its own node first.
    pub fn pull(&mut self, system: &mut System, threads: &[Thread], cpu: Cpu) {
        if self.current(cpu).is_some() {
            return;
        }
        let topology = &system.machine.topology;
        let here = topology.node(cpu);
        let movable = |&thread: &usize| threads[thread].may_run_on(topology, cpu);
        let waiting = |other: &Cpu| self.queues[other.index()].iter().skip(1).any(movable);
        let key = |other: &Cpu| (topology.node(*other) == here, self.queues[other.index()].len());
        let Some(busiest) = topology.all_cpus().filter(waiting).max_by_key(key) else { return };
        let thread = self.queues[busiest.index()].iter().skip(1).copied().find(|thread| movable(thread));
        let thread = thread.expect("one waits there");
        let now = system.machine.now(cpu);
        self.bring(system, threads, thread, busiest, cpu, now);
    }

    /// A thread that waits on one CPU goes to another.
    fn bring(
        &mut self,
        system: &mut System,
        threads: &[Thread],
        thread: usize,
        from: Cpu,
        to: Cpu,
        now: Time,
    ) {
        self.queues[from.index()].retain(|&other| other != thread);
        self.enqueue(system, threads, to, thread, now);
    }
}
