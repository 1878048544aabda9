//! Kernel threads on the CPUs of programs: kswapd and kcompactd of each node, khugepaged, and the worker that writes back zswap.
//!
//! ```text
//!   woken, or due ──► an idle CPU of its node, or the last one ──► a step at a time, between the threads there ──► sleeps
//! ```
//!
//! A step is a round of kswapd, a whole run of kcompactd, what khugepaged scans before it sleeps, and what zswap's worker does for a
//! memory cgroup.

use crate::System;
use machine::{Cpu, Node, Time};
use mm::Kernel;
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
    Reclaim(Node, Kswapd),
    /// For a block that kswapd has to provide.
    Compact(Node),
    /// Every half second, if fragmentation is worth it. That it looks takes no time.
    CompactProactively(Node),
    Collapse,
    ShrinkZswap(ShrinkWork),
}

impl Work {
    fn daemon(&self) -> Daemon {
        match self {
            Work::Reclaim(node, _) => Daemon::Kswapd(*node),
            Work::Compact(node) | Work::CompactProactively(node) => Daemon::Kcompactd(*node),
            Work::Collapse => Daemon::Khugepaged,
            Work::ShrinkZswap(_) => Daemon::ZswapShrinker,
        }
    }

    /// Does the next step. Returns whether there is more to do.
    fn step(&mut self, kernel: &mut Kernel) -> bool {
        match self {
            Work::Reclaim(_, kswapd) => return kswapd.step(kernel),
            Work::ShrinkZswap(work) => return work.step(kernel),
            Work::Compact(node) => drop(kernel.kcompactd(*node)),
            Work::CompactProactively(node) => drop(kernel.proactive_compaction(*node)),
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
                self.start(system, cpu, Work::Reclaim(node, kswapd));
            }
            if self.runs(Daemon::Kcompactd(node)) {
                continue;
            }
            if system.mm.parts.allocator.wants_kcompactd(node) {
                self.start(system, cpu, Work::Compact(node));
            } else if looks && system.mm.enter(&mut system.machine, Cpu(0)).should_compact_proactively(node) {
                self.start(system, cpu, Work::CompactProactively(node));
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
        let topology = &system.machine.topology;
        let cpus: Vec<Cpu> = match work.daemon() {
            Daemon::Kswapd(node) | Daemon::Kcompactd(node) => topology.cpus_of(node).to_vec(),
            Daemon::Khugepaged | Daemon::ZswapShrinker => topology.all_cpus().collect(),
        };
        let idle = cpus.iter().copied().find(|&cpu| !system.is_busy(cpu));
        let cpu = idle.or(cpus.last().copied()).unwrap_or(waker);
        self.running.push((work, cpu));
        system.wake(cpu, system.machine.now(waker));
    }

    /// The kernel thread whose turn it is on `cpu`, if any.
    pub fn on(&self, cpu: Cpu) -> Option<Daemon> {
        self.running.iter().find(|(_, at)| *at == cpu).map(|(work, _)| work.daemon())
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
