//! How a thread gets to its preferred node: not at all, to an idle CPU, or by swapping with another thread.
//!
//! ```text
//!   preferred node ─► an idle CPU there, and no imbalance ─► move
//!                  └► each thread there: what would both gain from a swap? ─► swap with the one that gains most
//! ```
//!
//! This is what `task_numa_migrate`, `task_numa_find_cpu` and `task_numa_compare` in kernel/sched/fair.c do,
//! for threads that all want to run all the time. Their loads are equal, so the comparison of loads is left
//! out. So are the capacities of CPUs, and caches that only a part of a node shares.

use super::policy::{Best, Exchange, Gain, Place, may_move, place, swap_gain};
use machine::{Cpu, Node, Topology};
use mm::features::sched::SchedFeatures;
use mm::numa::Tasks;
use mm::numa::placement::TaskId;

/// A node that a thread may go to.
struct Destination {
    node: Node,
    /// Up to which distance the memory of other nodes counts as near.
    reach: u8,
    /// What the thread gains.
    gain: Gain,
    /// Value of a move: the gain of the group, or the thread's own if it has no group
    /// ([`Tasks::numa_weight`]).
    move_gain: i64,
    /// Whether the node has fewer threads than CPUs.
    has_spare: bool,
    /// Whether the thread may move there without a swap.
    may_move: bool,
    /// A CPU of the node without threads.
    idle: Option<Cpu>,
}

/// The threads of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuLoad {
    /// Number of threads.
    pub threads: usize,
    pub runs: Occupant,
}

/// Who runs on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    Nobody,
    MayMove(TaskId),
    /// A kernel thread, or one that its affinity keeps there.
    Stays,
}

/// The search of a thread for a place on or near its preferred node.
pub(super) struct Search<'a> {
    pub features: &'a SchedFeatures,
    pub tasks: &'a Tasks,
    pub topology: &'a Topology,
    pub task: TaskId,
    /// The CPU of the thread.
    pub source: Cpu,
    /// The load of a CPU.
    pub on: &'a dyn Fn(Cpu) -> CpuLoad,
}

impl Search<'_> {
    /// The place found, if any.
    pub fn find(&self) -> Option<Place> {
        let preferred = self.tasks.get(self.task).preferred?;
        place(self.features, || self.idle_cpu(preferred), || self.best(preferred).place)
    }

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

    /// What a task gains from moving from node `from` to node `to`.
    fn gain(&self, task: TaskId, [from, to]: [Node; 2], reach: u8) -> Gain {
        let task_weight = |node| self.tasks.task_weight(task, node, reach) as i64;
        let group_weight = |node| self.tasks.group_weight(task, node, reach) as i64;
        Gain { task: task_weight(to) - task_weight(from), group: group_weight(to) - group_weight(from) }
    }

    /// Searches the preferred node, and others if it has no place or the group runs on several nodes
    /// (`task_numa_migrate`).
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
            // The kernel uses the distance of the last node that it looked at.
            let destination = self.destination(node, distances[last.index()]);
            if destination.gain.task >= 0 || destination.gain.group >= 0 {
                self.look_at(&destination, &mut best);
                last = node;
            }
        }
        best
    }

    fn destination(&self, node: Node, reach: u8) -> Destination {
        let weight = |node| self.tasks.numa_weight(self.task, node, reach) as i64;
        let (here, there) = (self.load(self.home()) as i64, self.load(node) as i64);
        let cpus = self.cpus(node).len() as i64;
        Destination {
            node,
            reach,
            gain: self.gain(self.task, [self.home(), node], reach),
            move_gain: weight(node) - weight(self.home()),
            has_spare: there < cpus,
            may_move: may_move(self.features, here, there, cpus),
            idle: self.idle_cpu(node),
        }
    }

    /// Searches a node (`task_numa_find_cpu`).
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
            let found = match (self.on)(cpu).runs {
                Occupant::Nobody => (may_move && move_gain >= best.gain).then(|| Best::alone(cpu, move_gain)),
                Occupant::Stays => None,
                Occupant::MayMove(other) => match self.swap(cpu, other, destination) {
                    Some(swap) if best.brings_home && !swap.brings_home => None,
                    Some(swap) if may_move && move_gain > swap.gain && move_gain > best.gain => {
                        Some(Best::alone(idle.unwrap_or(cpu), move_gain))
                    }
                    swap => swap.filter(|swap| swap.is_better_than(self.features, best)),
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

    /// What a swap with the thread there is worth; `None` if it is ruled out.
    fn swap(&self, cpu: Cpu, other: TaskId, destination: &Destination) -> Option<Best> {
        let &Destination { node, reach, gain, move_gain, has_spare, .. } = destination;
        let tasks = self.tasks;
        let preferred = tasks.get(other).preferred;
        let exchange = Exchange {
            own: gain,
            move_gain,
            other: self.gain(other, [node, self.home()], reach),
            has_spare,
            shares_group: tasks.shares_group(self.task, other),
            in_groups: tasks.group(self.task).is_some() && tasks.group(other).is_some(),
            leaves_home: preferred == Some(node),
            comes_home: preferred == Some(self.home()),
        };
        let place = Some(Place { cpu, swap: Some(other) });
        Some(Best { place, gain: swap_gain(&exchange)?, brings_home: exchange.comes_home })
    }
}

#[cfg(test)]
mod tests;
