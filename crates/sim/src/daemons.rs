//! Kernel threads on the CPUs of programs: kswapd and kcompactd of each node, khugepaged, and the worker that writes back zswap.
//!
//! ```text
//!   woken, or due ──► an idle CPU of its node, or the last one ──► a step at a time ──► sleeps
//!                          ▲                                           │
//!                          └── another CPU is idle ◄── a program's ◄───┤
//!                              no CPU is idle: they     thread wants   │
//!                              take turns by ticks      to run         └──► nobody does: the next step
//! ```
//!
//! A step is a batch of pages of kswapd, some pageblocks of kcompactd, what zswap's worker does for a memory cgroup, and what khugepaged scans
//! before it sleeps.

use crate::System;
use machine::{Cpu, Node, Time, Topology};
use mm::Kernel;
use mm::compaction::Kcompactd;
use mm::jiffies::TICK_NS;
use mm::vmscan::Kswapd;
use mm::zswap::ShrinkWork;

/// How often kcompactd looks whether proactive compaction is worth it (`HPAGE_FRAG_CHECK_INTERVAL_MSEC`).
const PROACTIVE_INTERVAL: Time = Time::from_nanoseconds(500_000_000);

/// Which kernel thread it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Daemon {
    Kswapd(Node),
    Kcompactd(Node),
    Khugepaged,
    ZswapShrinker,
}

/// What a kernel thread was started for.
enum Work {
    Reclaim(Node, Box<Kswapd>),
    Compact(Node, Box<Kcompactd>),
    Collapse,
    ShrinkZswap(ShrinkWork),
}

impl Work {
    fn daemon(&self) -> Daemon {
        match self {
            Work::Reclaim(node, _) => Daemon::Kswapd(*node),
            Work::Compact(node, _) => Daemon::Kcompactd(*node),
            Work::Collapse => Daemon::Khugepaged,
            Work::ShrinkZswap(_) => Daemon::ZswapShrinker,
        }
    }

    /// The CPUs that its kernel thread may run on.
    fn cpus(&self, topology: &Topology) -> Vec<Cpu> {
        match self.daemon() {
            Daemon::Kswapd(node) | Daemon::Kcompactd(node) => topology.cpus_of(node).to_vec(),
            Daemon::Khugepaged | Daemon::ZswapShrinker => topology.all_cpus().collect(),
        }
    }

    /// Does the next step. Returns whether there is more to do.
    fn step(&mut self, kernel: &mut Kernel) -> bool {
        match self {
            Work::Reclaim(_, kswapd) => return kswapd.step(kernel),
            Work::ShrinkZswap(work) => return work.step(kernel),
            Work::Compact(_, kcompactd) => return kcompactd.step(kernel),
            Work::Collapse => kernel.khugepaged(),
        }
        false
    }
}

/// The kernel threads that run.
pub(super) struct Daemons {
    /// What they do, and on which CPU.
    running: Vec<(Work, Cpu)>,
    /// When kcompactds look again.
    proactive: Time,
}

impl Default for Daemons {
    fn default() -> Daemons {
        Daemons { running: Vec::new(), proactive: PROACTIVE_INTERVAL }
    }
}

impl Daemons {
    /// Starts the kernel threads that were woken or are due, at the time of `cpu`.
    pub fn wake(&mut self, system: &mut System, cpu: Cpu) {
        let now = system.machine.now(cpu);
        let looks = now >= self.proactive;
        if looks {
            self.proactive = now + PROACTIVE_INTERVAL;
        }
        for node in (0..system.machine.topology.nodes).map(Node) {
            if !self.runs(Daemon::Kswapd(node))
                && let Some(kswapd) = system.mm.enter(&mut system.machine, Cpu(0)).start_kswapd(node)
            {
                self.start(system, cpu, Work::Reclaim(node, Box::new(kswapd)));
            }
            if self.runs(Daemon::Kcompactd(node)) {
                continue;
            }
            let mut kernel = system.mm.enter(&mut system.machine, Cpu(0));
            let kcompactd = kernel.start_kcompactd(node);
            // That it looks takes no time.
            let kcompactd =
                kcompactd.or_else(|| looks.then(|| kernel.start_proactive_compaction(node)).flatten());
            if let Some(kcompactd) = kcompactd {
                self.start(system, cpu, Work::Compact(node, Box::new(kcompactd)));
            }
        }
        if system.mm.khugepaged_due() <= now && !self.runs(Daemon::Khugepaged) {
            self.start(system, cpu, Work::Collapse);
        }
        if !self.runs(Daemon::ZswapShrinker) && system.mm.parts.zswap.take_shrink_request() {
            self.start(system, cpu, Work::ShrinkZswap(ShrinkWork::default()));
        }
    }

    fn runs(&self, daemon: Daemon) -> bool {
        self.running.iter().any(|(work, _)| work.daemon() == daemon)
    }

    /// Finds a CPU for a kernel thread that is woken from `waker`.
    fn start(&mut self, system: &mut System, waker: Cpu, work: Work) {
        let cpus = work.cpus(&system.machine.topology);
        let idle = cpus.iter().copied().find(|&cpu| !system.is_busy(cpu));
        let cpu = idle.or(cpus.last().copied()).unwrap_or(waker);
        self.running.push((work, cpu));
        system.wake(cpu, system.machine.now(waker));
    }

    /// The kernel thread whose turn it is on `cpu`, where `threads` of programs want to run too, if any. One that meets threads goes
    /// to an idle CPU if there is one that it may run on, and else has one of `threads + 1` ticks.
    pub fn take_turn(&mut self, system: &mut System, cpu: Cpu, threads: usize) -> Option<Daemon> {
        let (work, at) = self.running.iter_mut().find(|(_, at)| *at == cpu)?;
        let now = system.machine.now(cpu);
        if threads > 0 {
            let cpus = work.cpus(&system.machine.topology);
            if let Some(idle) = cpus.into_iter().find(|&cpu| !system.is_busy(cpu)) {
                *at = idle;
                system.wake(idle, now);
                return None;
            }
            let tick = now.picoseconds() / Time::from_nanoseconds(TICK_NS).picoseconds();
            if !tick.is_multiple_of(threads as u64 + 1) {
                return None;
            }
        }
        Some(work.daemon())
    }

    /// Runs one step of the kernel thread on `cpu`. Returns whether there is one.
    pub fn step(&mut self, system: &mut System, cpu: Cpu) -> bool {
        let Some(turn) = self.running.iter().position(|(_, at)| *at == cpu) else { return false };
        if !self.running[turn].0.step(&mut system.mm.enter(&mut system.machine, cpu)) {
            self.running.remove(turn);
        }
        true
    }
}
