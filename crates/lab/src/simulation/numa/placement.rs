//! How a thread gets to its preferred node: not at all, to an idle CPU, or by changing places with another thread.
//!
//! ```text
//!   preferred node ─► an idle CPU there, and no imbalance ─► move
//!                  └► each thread there: what would both gain by changing places? ─► swap with the one that gains most
//! ```
//!
//! The last is what `task_numa_migrate`, `task_numa_find_cpu` and `task_numa_compare` in kernel/sched/fair.c do, for
//! threads that all want to run all the time: their loads are equal, so comparing loads is left out, as are the capacity of CPUs
//! and caches that only a part of a node shares.

use machine::{Cpu, Node, Topology};
use mm::numa::Tasks;
use mm::numa::placement::TaskId;
use serde::{Deserialize, Serialize};

/// A gain that is worth moving for, in thousandths of all faults (`SMALLIMP`).
const SMALL_GAIN: i64 = 30;
/// By how many threads nodes may differ of which one is nearly idle (`NUMA_IMBALANCE_MIN`).
const TOLERATED_IMBALANCE: i64 = 2;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskPlacement {
    /// Threads stay.
    Stay,
    /// They move if a CPU is idle there.
    Idle,
    /// They move or change places, as in the kernel.
    Swap,
}

/// Where a thread goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The CPU.
    pub cpu: Cpu,
    /// Who comes from there instead.
    pub swap: Option<TaskId>,
}

/// The best place so far.
#[derive(Clone, Copy, Default)]
struct Best {
    place: Option<Place>,
    gain: i64,
    /// The other thread comes to its preferred node.
    brings_home: bool,
}

impl Best {
    /// The thread goes to a CPU, and none comes from there.
    fn alone(cpu: Cpu, gain: i64) -> Best {
        Best { place: Some(Place { cpu, swap: None }), gain, brings_home: false }
    }

    /// Whether this swap replaces what was found before.
    fn is_better_than(self, best: &Best) -> bool {
        let swaps = best.place.is_some_and(|place| place.swap.is_some());
        let comes_home = self.brings_home && swaps && !best.brings_home;
        comes_home || self.gain >= SMALL_GAIN && self.gain > best.gain + SMALL_GAIN / 2
    }
}

/// How much more of its memory a thread finds on a node than where it is, and its group.
#[derive(Clone, Copy)]
struct Gains {
    task: i64,
    group: i64,
}

/// What a CPU has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnCpu {
    /// How many threads.
    pub threads: usize,
    /// The one that runs, and whether it must stay.
    pub first: Option<(TaskId, bool)>,
}

/// A thread that looks for a place.
struct Search<'a> {
    tasks: &'a Tasks,
    topology: &'a Topology,
    task: TaskId,
    source: Cpu,
    on: &'a dyn Fn(Cpu) -> OnCpu,
}

impl TaskPlacement {
    /// A place for `task` of CPU `source` on or near its preferred node. `on` says what a CPU has to do.
    pub(super) fn find(
        self,
        tasks: &Tasks,
        topology: &Topology,
        task: TaskId,
        source: Cpu,
        on: &dyn Fn(Cpu) -> OnCpu,
    ) -> Option<Place> {
        if self == TaskPlacement::Stay {
            return None;
        }
        let preferred = tasks.get(task).preferred?;
        let search = Search { tasks, topology, task, source, on };
        match self {
            TaskPlacement::Stay => None,
            TaskPlacement::Idle => search.idle_cpu(preferred).map(|cpu| Place { cpu, swap: None }),
            TaskPlacement::Swap => search.best(preferred).place,
        }
    }
}

impl Search<'_> {
    fn home(&self) -> Node {
        self.topology.node(self.source)
    }

    fn cpus(&self, node: Node) -> Vec<Cpu> {
        self.topology.cpus_of(node)
    }

    fn idle_cpu(&self, node: Node) -> Option<Cpu> {
        self.cpus(node).into_iter().find(|&cpu| (self.on)(cpu).threads == 0)
    }

    fn load(&self, node: Node) -> usize {
        self.cpus(node).into_iter().map(|cpu| (self.on)(cpu).threads).sum()
    }

    fn task_weight(&self, task: TaskId, node: Node, reach: u8) -> i64 {
        self.tasks.task_weight(task, node, reach) as i64
    }

    fn group_weight(&self, task: TaskId, node: Node, reach: u8) -> i64 {
        self.tasks.group_weight(task, node, reach) as i64
    }

    /// The preferred node, and others if there is no place or the group runs on several.
    fn best(&self, preferred: Node) -> Best {
        let mut best = Best::default();
        let reach = self.topology.node_distances[self.home().index()][preferred.index()];
        self.look_at(preferred, self.gains(preferred, reach), reach, &mut best);
        let spread = self.tasks.group(self.task).is_some_and(|group| group.active_nodes > 1);
        if best.place.is_none() || spread {
            let topology = self.topology;
            for node in (0..topology.nodes).map(Node) {
                let elsewhere = node != self.home() && node != preferred && !topology.is_memory_only(node);
                let gains = self.gains(node, reach);
                if elsewhere && (gains.task >= 0 || gains.group >= 0) {
                    self.look_at(node, gains, reach, &mut best);
                }
            }
        }
        best
    }

    fn gains(&self, node: Node, reach: u8) -> Gains {
        let gain = |weight: &dyn Fn(Node) -> i64| weight(node) - weight(self.home());
        Gains {
            task: gain(&|node| self.task_weight(self.task, node, reach)),
            group: gain(&|node| self.group_weight(self.task, node, reach)),
        }
    }

    /// Whether the thread may go to a node without anybody coming from there instead (`maymove`).
    fn may_move(&self, node: Node, has_spare: bool) -> bool {
        let (here, there) = (self.load(self.home()) as i64, self.load(node) as i64);
        if !has_spare {
            // Loads must not differ more than they do.
            return there < here;
        }
        // No more threads there than here afterwards, or but a few on a node that is nearly idle (`adjust_numa_imbalance`).
        let imbalance = (there + 1) - (here - 1);
        let nearly_idle = there + 1 <= (self.cpus(node).len() as i64 / 8).max(1);
        imbalance <= if nearly_idle { TOLERATED_IMBALANCE } else { 0 }
    }

    /// `task_numa_find_cpu`.
    fn look_at(&self, node: Node, gains: Gains, reach: u8, best: &mut Best) {
        let cpus = self.cpus(node);
        let has_spare = self.load(node) < cpus.len();
        let may_move = self.may_move(node, has_spare);
        let idle = self.idle_cpu(node);
        if has_spare
            && may_move
            && let Some(cpu) = idle
        {
            *best = Best::alone(cpu, 0);
            return;
        }
        let move_gain = if self.tasks.group(self.task).is_some() { gains.group } else { gains.task };
        for cpu in cpus {
            let found = match (self.on)(cpu).first {
                None => (may_move && move_gain >= best.gain).then(|| Best::alone(cpu, move_gain)),
                Some((_, true)) => None,
                Some((other, false)) => {
                    let swap = self.swap(cpu, other, node, gains, reach);
                    let alone = Best::alone(idle.unwrap_or(cpu), move_gain);
                    match swap {
                        Some(swap) if best.brings_home && !swap.brings_home => None,
                        Some(swap) if may_move && move_gain > swap.gain && move_gain > best.gain => {
                            Some(alone)
                        }
                        Some(swap) if swap.is_better_than(best) => Some(swap),
                        _ => None,
                    }
                }
            };
            let Some(found) = found else { continue };
            *best = found;
            let to_idle = found.place.is_some_and(|place| place.swap.is_none() && idle.is_some());
            if to_idle || found.brings_home && !may_move {
                return;
            }
        }
    }

    /// What changing places with a thread of `node` is worth, unless it never is (`task_numa_compare`).
    fn swap(&self, cpu: Cpu, other: TaskId, node: Node, gains: Gains, reach: u8) -> Option<Best> {
        let tasks = self.tasks;
        let grouped = tasks.group(other).is_some();
        let comes = |weight: &dyn Fn(Node) -> i64| weight(self.home()) - weight(node);
        let of_task = comes(&|node| self.task_weight(other, node, reach));
        let of_group = comes(&|node| self.group_weight(other, node, reach));
        let mut gain = match (tasks.shares_group(self.task, other), tasks.group(self.task).is_some()) {
            // Within a group, or between threads without one, it helps nobody who could have an idle CPU.
            (true, _) if self.load(node) < self.cpus(node).len() => return None,
            (true, true) => {
                let gain = gains.task + of_task;
                gain - gain / 16
            }
            (false, true) if grouped => gains.group + of_group,
            (false, true) => gains.group + of_task,
            (_, false) => gains.task + of_task,
        };
        let preferred = tasks.get(other).preferred;
        if preferred == Some(node) {
            gain -= gain / 16;
        }
        let brings_home = preferred == Some(self.home());
        if brings_home {
            gain += gain / 8;
        }
        Some(Best { place: Some(Place { cpu, swap: Some(other) }), gain, brings_home })
    }
}

#[cfg(test)]
mod tests;
