//! How a thread gets to its preferred node: not at all, to an idle CPU, or by changing places with another thread.
//!
//! ```text
//!   preferred node ─► an idle CPU there, and no imbalance ─► move
//!                  └► each thread there: what would both gain by changing places? ─► swap with the one that gains most
//! ```
//!
//! The last is what `task_numa_migrate`, `task_numa_find_cpu` and `task_numa_compare` in kernel/sched/fair.c do, for
//! threads that all want to run all the time: their loads are equal, so comparing loads is left out, as are CPU affinity,
//! capacity of CPUs, and the imbalance between nodes that is tolerated while a node is nearly idle.

use machine::{Cpu, Node, Topology};
use mm::numa::Tasks;
use mm::numa::placement::TaskId;
use serde::{Deserialize, Serialize};

/// A gain that is worth moving for, in thousandths of all faults (`SMALLIMP`).
const SMALL_GAIN: i64 = 30;

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
#[derive(Default)]
struct Best {
    place: Option<Place>,
    gain: i64,
    /// The other thread comes to its preferred node.
    brings_home: bool,
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
        let gains = |node: Node| {
            let task =
                self.task_weight(self.task, node, reach) - self.task_weight(self.task, self.home(), reach);
            let group =
                self.group_weight(self.task, node, reach) - self.group_weight(self.task, self.home(), reach);
            (task, group)
        };
        self.look_at(preferred, gains(preferred), reach, &mut best);
        let spread = self.tasks.group(self.task).is_some_and(|group| group.active_nodes > 1);
        if best.place.is_none() || spread {
            let topology = self.topology;
            for node in (0..topology.nodes).map(Node) {
                let elsewhere = node != self.home() && node != preferred && !topology.is_memory_only(node);
                let (task, group) = gains(node);
                if elsewhere && (task >= 0 || group >= 0) {
                    self.look_at(node, (task, group), reach, &mut best);
                }
            }
        }
        best
    }

    fn look_at(&self, node: Node, (task_gain, group_gain): (i64, i64), reach: u8, best: &mut Best) {
        let cpus = self.cpus(node);
        let has_spare = self.load(node) < cpus.len();
        let move_gain = if self.tasks.group(self.task).is_some() { group_gain } else { task_gain };
        // A move must not make the loads of the two nodes differ more than they do.
        let may_move = self.load(node) < self.load(self.home());
        if may_move
            && move_gain >= best.gain
            && let Some(cpu) = self.idle_cpu(node)
        {
            *best = Best { place: Some(Place { cpu, swap: None }), gain: move_gain, brings_home: false };
            return;
        }
        for cpu in cpus {
            let Some((other, stays)) = (self.on)(cpu).first else { continue };
            if stays {
                continue;
            }
            let tasks = self.tasks;
            let comes_home = tasks.get(other).preferred == Some(self.home());
            if best.brings_home && !comes_home {
                continue;
            }
            let same_group = tasks.shares_group(self.task, other);
            let mut gain = match same_group {
                true if has_spare => continue,
                true => {
                    let gain = task_gain + self.task_weight(other, self.home(), reach)
                        - self.task_weight(other, node, reach);
                    if tasks.group(other).is_some() { gain - gain / 16 } else { gain }
                }
                false if tasks.group(other).is_some() && tasks.group(self.task).is_some() => {
                    move_gain + self.group_weight(other, self.home(), reach)
                        - self.group_weight(other, node, reach)
                }
                false => {
                    move_gain + self.task_weight(other, self.home(), reach)
                        - self.task_weight(other, node, reach)
                }
            };
            if tasks.get(other).preferred == Some(node) {
                gain -= gain / 16;
            }
            if comes_home {
                gain += gain / 8;
            }
            let found = Best { place: Some(Place { cpu, swap: Some(other) }), gain, brings_home: comes_home };
            let improves = gain >= SMALL_GAIN && gain > best.gain + SMALL_GAIN / 2;
            let replaces =
                best.place.is_some_and(|place| place.swap.is_some()) && comes_home && !best.brings_home;
            if replaces || improves {
                *best = found;
                if comes_home && !may_move {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
