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

/// A node that a thread may go to.
struct Destination {
    node: Node,
    /// How far away nodes may be whose memory counts as near.
    reach: u8,
    /// How much more of its memory the thread finds there than where it is, in thousandths of its faults.
    task_gain: i64,
    /// The same of its group's memory.
    group_gain: i64,
    /// What a move is worth: the one or the other ([`Tasks::numa_weight`]).
    move_gain: i64,
    /// There are fewer threads than CPUs.
    has_spare: bool,
    /// The thread may go there alone.
    may_move: bool,
    /// A CPU without threads.
    idle: Option<Cpu>,
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

    /// The preferred node, and others if there is no place or the group runs on several (`task_numa_migrate`).
    fn best(&self, preferred: Node) -> Best {
        let mut best = Best::default();
        let distances = &self.topology.node_distances[self.home().index()];
        self.look_at(&self.destination(preferred, distances[preferred.index()]), &mut best);
        let spread = self.tasks.group(self.task).is_some_and(|group| group.active_nodes > 1);
        if best.place.is_some() && !spread {
            return best;
        }
        let mut last = preferred;
        for node in (0..self.topology.nodes).map(Node) {
            if node == self.home() || node == preferred || self.topology.is_memory_only(node) {
                continue;
            }
            // The kernel takes how far the last one is that it looked at.
            let destination = self.destination(node, distances[last.index()]);
            if destination.task_gain >= 0 || destination.group_gain >= 0 {
                self.look_at(&destination, &mut best);
                last = node;
            }
        }
        best
    }

    fn destination(&self, node: Node, reach: u8) -> Destination {
        let gain = |weight: &dyn Fn(Node) -> i64| weight(node) - weight(self.home());
        let (here, there) = (self.load(self.home()) as i64, self.load(node) as i64);
        let cpus = self.cpus(node).len() as i64;
        Destination {
            node,
            reach,
            task_gain: gain(&|node| self.task_weight(self.task, node, reach)),
            group_gain: gain(&|node| self.group_weight(self.task, node, reach)),
            move_gain: gain(&|node| self.tasks.numa_weight(self.task, node, reach) as i64),
            has_spare: there < cpus,
            may_move: may_move(here, there, cpus),
            idle: self.idle_cpu(node),
        }
    }

    /// `task_numa_find_cpu`.
    fn look_at(&self, destination: &Destination, best: &mut Best) {
        let &Destination { node, move_gain, has_spare, may_move, idle, .. } = destination;
        if has_spare
            && may_move
            && let Some(cpu) = idle
        {
            *best = Best::alone(cpu, 0);
            return;
        }
        for cpu in self.cpus(node) {
            let found = match (self.on)(cpu).first {
                None => (may_move && move_gain >= best.gain).then(|| Best::alone(cpu, move_gain)),
                Some((_, true)) => None,
                Some((other, false)) => match self.swap(cpu, other, destination) {
                    Some(swap) if best.brings_home && !swap.brings_home => None,
                    Some(swap) if may_move && move_gain > swap.gain && move_gain > best.gain => {
                        Some(Best::alone(idle.unwrap_or(cpu), move_gain))
                    }
                    swap => swap.filter(|swap| swap.is_better_than(best)),
                },
            };
            let Some(found) = found else { continue };
            *best = found;
            let to_idle = idle.is_some() && found.place.is_some_and(|place| place.swap.is_none());
            if to_idle || found.brings_home && !may_move {
                return;
            }
        }
    }

    /// What changing places with a thread there is worth, unless it never is (`task_numa_compare`).
    fn swap(&self, cpu: Cpu, other: TaskId, destination: &Destination) -> Option<Best> {
        let &Destination { node, reach, task_gain, move_gain, has_spare, .. } = destination;
        let tasks = self.tasks;
        let in_groups = tasks.group(self.task).is_some() && tasks.group(other).is_some();
        let comes = |weight: &dyn Fn(Node) -> i64| weight(self.home()) - weight(node);
        let of_task = || comes(&|node| self.task_weight(other, node, reach));
        let mut gain = if tasks.shares_group(self.task, other) {
            // It helps nobody who could have an idle CPU.
            if has_spare {
                return None;
            }
            let gain = task_gain + of_task();
            if in_groups { gain - gain / 16 } else { gain }
        } else if in_groups {
            move_gain + comes(&|node| self.group_weight(other, node, reach))
        } else {
            move_gain + of_task()
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

/// Whether a thread may go to a node of so many CPUs without anybody coming from there instead (`maymove`), by how many threads
/// are here and there.
fn may_move(here: i64, there: i64, cpus: i64) -> bool {
    if there >= cpus {
        // Loads must not differ more than they do.
        return there < here;
    }
    // No more threads there than here afterwards, or but a few more while few run there (`adjust_numa_imbalance`).
    let (here, there) = (here - 1, there + 1);
    let nearly_idle = there <= (cpus / 8).max(1);
    there - here <= if nearly_idle { TOLERATED_IMBALANCE } else { 0 }
}

#[cfg(test)]
mod tests;
