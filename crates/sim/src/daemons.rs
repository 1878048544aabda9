//! Kernel threads on the CPUs of programs: kswapd and kcompactd of each node, khugepaged, kdamond, and the worker that writes back zswap.
//!
//! ```text
//!   asleep ── woken, or due ──► in the queue of a CPU (sched), like any thread ── its turn ──► a step
//!     ▲                                    ▲                                                     │
//!     │                                    └── a tick passed: the next thread's turn ◄───────────┤
//!     └── nothing more to do ◄───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A step is a batch of pages of kswapd, some pageblocks of kcompactd, what zswap's worker does for a memory cgroup, a thousand pages of a cold
//! region or one look of kdamond, and what khugepaged scans before it sleeps. Who is due by a clock begins when some CPU looks next: where all
//! are idle that is late, and nobody accesses memory meanwhile.

use crate::System;
use crate::sched::{CpuSet, Scheduler};
use machine::{Cpu, Node, Time, Topology};
use mm::Kernel;
use mm::compaction::Kcompactd;
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
    Kdamond,
    ZswapShrinker,
}

impl Daemon {
    fn all(topology: &Topology) -> impl Iterator<Item = Daemon> {
        let of_nodes =
            (0..topology.nodes).map(Node).flat_map(|node| [Daemon::Kswapd(node), Daemon::Kcompactd(node)]);
        of_nodes.chain([Daemon::Khugepaged, Daemon::Kdamond, Daemon::ZswapShrinker])
    }

    /// The node on whose CPUs it runs, if it is bound to one.
    fn node(self, topology: &Topology) -> Option<Node> {
        match self {
            Daemon::Kswapd(node) | Daemon::Kcompactd(node) if !topology.is_memory_only(node) => Some(node),
            _ => None,
        }
    }
}

/// What a kernel thread was woken for.
enum Work {
    Reclaim(Box<Kswapd>),
    Compact(Box<Kcompactd>),
    Collapse,
    Watch,
    ShrinkZswap(ShrinkWork),
}

impl Work {
    /// Does the next step. Returns whether there is more to do.
    fn step(&mut self, kernel: &mut Kernel) -> bool {
        match self {
            Work::Reclaim(kswapd) => return kswapd.step(kernel),
            Work::Compact(kcompactd) => return kcompactd.step(kernel),
            Work::ShrinkZswap(work) => return work.step(kernel),
            Work::Watch => return kernel.kdamond(),
            Work::Collapse => kernel.khugepaged(),
        }
        false
    }
}

struct KernelThread {
    daemon: Daemon,
    /// Where it ran last.
    cpu: Cpu,
    /// `None` while it sleeps.
    work: Option<Work>,
    /// When it went to sleep. What takes no time, such as a khugepaged that never sleeps and has nothing to scan, is not done twice at
    /// the same time.
    slept: Option<Time>,
}

/// The kernel threads of a host.
pub(super) struct Daemons {
    /// The scheduler's number of the first of them; the others follow.
    first: usize,
    threads: Vec<KernelThread>,
    /// When kcompactds look again.
    proactive: Time,
}

impl Daemons {
    /// Those of a machine, asleep.
    pub fn new(topology: &Topology, scheduler: &mut Scheduler) -> Daemons {
        let threads = Daemon::all(topology).map(|daemon| {
            let node = daemon.node(topology);
            let number = scheduler.add_kernel_thread(node.map(CpuSet::Of));
            let cpu = topology.cpus_of(node.unwrap_or(Node(0)))[0];
            (number, KernelThread { daemon, cpu, work: None, slept: None })
        });
        let (numbers, threads): (Vec<usize>, _) = threads.unzip();
        Daemons { first: numbers[0], threads, proactive: PROACTIVE_INTERVAL }
    }

    /// The kernel thread that has this number in the scheduler, if it is one.
    pub fn get(&self, number: usize) -> Option<Daemon> {
        Some(self.threads.get(number.checked_sub(self.first)?)?.daemon)
    }

    /// Wakes the kernel threads that have something to do or are due, at the time of `cpu`.
    pub fn wake(&mut self, system: &mut System, scheduler: &mut Scheduler, cpu: Cpu) {
        let now = system.machine.now(cpu);
        let looks = now >= self.proactive;
        if looks {
            self.proactive = now + PROACTIVE_INTERVAL;
        }
        let threads = (self.first..).zip(&mut self.threads);
        let asleep = threads.filter(|(_, thread)| thread.work.is_none() && thread.slept != Some(now));
        for (number, thread) in asleep {
            let mut kernel = system.mm.enter(&mut system.machine, Cpu(0));
            thread.work = match thread.daemon {
                Daemon::Kswapd(node) => kernel.start_kswapd(node).map(|of| Work::Reclaim(Box::new(of))),
                Daemon::Kcompactd(node) => {
                    let started = kernel.start_kcompactd(node);
                    // That it looks takes no time.
                    let started =
                        started.or_else(|| looks.then(|| kernel.start_proactive_compaction(node)).flatten());
                    started.map(|of| Work::Compact(Box::new(of)))
                }
                Daemon::Khugepaged => (system.mm.khugepaged_due() <= now).then_some(Work::Collapse),
                Daemon::Kdamond => (system.mm.kdamond_due() <= now).then_some(Work::Watch),
                Daemon::ZswapShrinker => {
                    let asked = system.mm.parts.zswap.take_shrink_request();
                    asked.then(|| Work::ShrinkZswap(ShrinkWork::default()))
                }
            };
            if thread.work.is_some() {
                scheduler.wake_up(system, number, thread.cpu, now);
            }
        }
    }

    /// Runs one step of the kernel thread of this number, whose turn it is on `cpu`; it sleeps if that was the last.
    pub fn step(&mut self, system: &mut System, scheduler: &mut Scheduler, cpu: Cpu, number: usize) {
        let thread = &mut self.threads[number - self.first];
        let work = thread.work.as_mut().expect("it is awake");
        if !work.step(&mut system.mm.enter(&mut system.machine, cpu)) {
            (thread.work, thread.cpu) = (None, cpu);
            thread.slept = Some(system.machine.now(cpu));
            scheduler.remove(system, cpu, number);
            scheduler.pull(system, cpu);
        }
    }
}
