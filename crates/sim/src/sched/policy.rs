//! Decisions of the scheduler as functions of numbers: whether a group of CPUs is too busy, whether a thread
//! may be pulled from it, and where a thread goes that is not on its preferred node.
//!
//! ```text
//!   threads and CPUs of a domain's groups ─► imbalance ─► Attempt::takes ◄─ degrades_locality        balance.rs
//!   gains of two threads on two nodes ─► may_move, swap_gain ─► Best::is_better_than                     placement.rs
//! ```
//!
//! The kernel's functions are in kernel/sched/fair.c (6.1 to 7.2): `update_sd_pick_busiest`,
//! `calculate_imbalance`, `detach_tasks` and `migrate_degrades_locality`; `task_numa_migrate`,
//! `task_numa_compare` and `adjust_numa_imbalance`. All threads want to run all the time, so the load of a
//! thread is constant. What patches change are values of [`SchedFeatures`].

use super::TICK;
use machine::{Cpu, Node, Time};
use mm::features::sched::{SchedFeatures, TaskPlacement};
use mm::numa::placement::TaskId;

/// Load of a thread that wants to run all the time (`task_h_load`).
const LOAD: u64 = 1024;

/// The threads of one or several CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    pub threads: u64,
    /// Threads that have a preferred node (`nr_numa_running`).
    pub prefer: u64,
    /// Threads on their preferred node (`nr_preferred_running`).
    pub at_home: u64,
}

/// Whether threads are on their preferred nodes (`fbq_type`), from least to most settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Settled {
    /// Some threads have no preferred node.
    Regular,
    /// Some threads are not on their preferred node.
    Remote,
    All,
}

impl Queue {
    pub fn with(self, other: Queue) -> Queue {
        Queue {
            threads: self.threads + other.threads,
            prefer: self.prefer + other.prefer,
            at_home: self.at_home + other.at_home,
        }
    }

    pub fn settled(self) -> Settled {
        match self {
            Queue { threads, prefer, .. } if threads > prefer => Settled::Regular,
            Queue { threads, at_home, .. } if threads > at_home => Settled::Remote,
            _ => Settled::All,
        }
    }
}

/// A group of a domain: threads and CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub queue: Queue,
    pub cpus: u64,
}

impl Part {
    pub fn with(self, other: Part) -> Part {
        Part { queue: self.queue.with(other.queue), cpus: self.cpus + other.cpus }
    }

    pub fn load(self) -> u64 {
        self.queue.threads * LOAD / self.cpus
    }

    pub fn is_overloaded(self) -> bool {
        self.queue.threads > self.cpus
    }
}

/// The load to move from the busiest group to the own one; `None` if it is not worth it
/// (`calculate_imbalance`).
pub(super) fn imbalance(features: &SchedFeatures, own: Part, busiest: Part, all: Part) -> Option<u64> {
    let far = busiest.load() * 100 > own.load() * u64::from(features.imbalance_pct);
    (own.load() < all.load() && far).then(|| {
        let over = busiest.load().saturating_sub(all.load()) * busiest.cpus;
        over.min((all.load() - own.load()) * own.cpus)
    })
}

/// Interval between two balancing attempts of a busy CPU on a domain of `cpus` CPUs; `is_even` if the last
/// attempt found no imbalance (`get_sd_balance_interval`).
pub(super) fn balance_interval(features: &SchedFeatures, cpus: u64, is_even: bool) -> Time {
    let milliseconds = if is_even { cpus * 2 } else { cpus };
    let every = Time::from_nanoseconds(milliseconds * u64::from(features.busy_factor) * 1_000_000);
    every.saturating_sub(TICK).max(TICK)
}

/// An attempt to pull a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The load that may be moved.
    pub imbalance: u64,
    /// Number of failed attempts before it.
    pub failed: u32,
}

impl Attempt {
    /// Whether a thread may be pulled; `degrades` if it would leave a node with memory that it uses
    /// (`detach_tasks`).
    pub fn takes(self, features: &SchedFeatures, degrades: bool) -> bool {
        let load = LOAD.checked_shr(self.failed).unwrap_or(0).max(1);
        load <= self.imbalance && (!degrades || self.failed > features.cache_nice_tries)
    }
}

/// A thread that may be pulled from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub preferred: Option<Node>,
    pub here: Node,
    pub there: Node,
    /// Whether all threads of the CPU are on their preferred node.
    pub all_at_home: bool,
    /// How much of the thread's memory is on each of the nodes ([`mm::numa::Tasks::numa_weight`]).
    pub weight_here: u64,
    pub weight_there: u64,
}

/// Whether a thread would leave memory behind that it uses (`migrate_degrades_locality`).
pub(super) fn degrades_locality(leaving: &Leaving) -> bool {
    match leaving.preferred {
        // If all threads are on their preferred node, one of them has to leave.
        Some(node) if node == leaving.here => !leaving.all_at_home,
        Some(node) if node == leaving.there => false,
        _ => leaving.weight_there < leaving.weight_here,
    }
}

/// Where a thread goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub cpu: Cpu,
    /// The task that comes from there in exchange, if it is a swap.
    pub swap: Option<TaskId>,
}

/// Chooses a place for a thread that is not on its preferred node, from two searches: for an idle CPU on that
/// node, and for the best place overall.
pub(super) fn place(
    features: &SchedFeatures,
    idle: impl FnOnce() -> Option<Cpu>,
    best: impl FnOnce() -> Option<Place>,
) -> Option<Place> {
    match features.placement {
        TaskPlacement::Stay => None,
        TaskPlacement::Idle => idle().map(|cpu| Place { cpu, swap: None }),
        TaskPlacement::Swap => best(),
    }
}

/// Whether a thread may move to a node with `cpus` CPUs without a swap (`maymove`), given the numbers of
/// threads here and there.
pub(super) fn may_move(features: &SchedFeatures, here: i64, there: i64, cpus: i64) -> bool {
    if there >= cpus {
        // The difference in load must not grow.
        return there < here;
    }
    // Afterwards there are no more threads there than here, or a few more while few run there
    // (`adjust_numa_imbalance`).
    let (here, there) = (here - 1, there + 1);
    let nearly_idle = there <= (cpus >> features.imb_numa_shift).max(1);
    there - here <= if nearly_idle { i64::from(features.numa_imbalance_min) } else { 0 }
}

/// How much more of its memory a thread finds on the other node than on its own, in thousandths of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gain {
    /// From the faults of the thread itself.
    pub task: i64,
    /// From the faults of its group.
    pub group: i64,
}

/// Two threads on two nodes that may be swapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Gain of the thread that looks for a place.
    pub own: Gain,
    /// Value of moving it: the gain of its group, or its own if it has no group.
    pub move_gain: i64,
    /// Gain of the thread that would come in exchange.
    pub other: Gain,
    /// Whether the other thread's node has fewer threads than CPUs.
    pub has_spare: bool,
    /// Whether they are in the same group, or both in none.
    pub shares_group: bool,
    /// Whether each of them is in a group.
    pub in_groups: bool,
    /// Whether the other thread is on its preferred node.
    pub leaves_home: bool,
    /// Whether the other thread would get to its preferred node.
    pub comes_home: bool,
}

/// The value of a swap; `None` if it is ruled out (`task_numa_compare`).
pub(super) fn swap_gain(exchange: &Exchange) -> Option<i64> {
    let &Exchange { own, move_gain, other, .. } = exchange;
    let mut gain = match (exchange.shares_group, exchange.in_groups) {
        // A swap within a group is no help when an idle CPU is available.
        (true, _) if exchange.has_spare => return None,
        (true, true) => less_a_16th(own.task + other.task),
        (true, false) => own.task + other.task,
        (false, true) => move_gain + other.group,
        (false, false) => move_gain + other.task,
    };
    if exchange.leaves_home {
        gain = less_a_16th(gain);
    }
    if exchange.comes_home {
        gain += gain / 8;
    }
    Some(gain)
}

fn less_a_16th(gain: i64) -> i64 {
    gain - gain / 16
}

/// The best place found so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Best {
    pub place: Option<Place>,
    pub gain: i64,
    /// Whether the other thread gets to its preferred node.
    pub brings_home: bool,
}

impl Best {
    /// A move to a CPU without a swap.
    pub fn alone(cpu: Cpu, gain: i64) -> Best {
        Best { place: Some(Place { cpu, swap: None }), gain, brings_home: false }
    }

    /// Whether this swap is better than the best place so far.
    pub fn is_better_than(self, features: &SchedFeatures, best: &Best) -> bool {
        let small = i64::from(features.small_gain);
        let swaps = best.place.is_some_and(|place| place.swap.is_some());
        let comes_home = self.brings_home && swaps && !best.brings_home;
        comes_home || self.gain >= small && self.gain > best.gain + small / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::Series;

    fn released() -> SchedFeatures {
        Series::NUMA.variant("numa-6.12").unwrap().features.sched
    }

    #[test]
    fn what_would_have_to_move_is_the_lesser_of_too_much_here_and_too_little_there() {
        let of = |threads, cpus| Part { queue: Queue { threads, ..Queue::default() }, cpus };
        for (own, busiest, all, expected) in [
            (of(1, 1), of(2, 1), of(3, 2), Some(512)),
            (of(2, 2), of(3, 2), of(5, 4), Some(512)),
            (of(2, 2), of(5, 2), of(7, 4), Some(1536)),
            (of(2, 1), of(2, 1), of(4, 2), None),
            (of(3, 2), of(2, 1), of(5, 3), Some(340)),
            // A difference of less than 17 per cent is ignored.
            (of(64, 64), of(70, 64), of(134, 128), None),
        ] {
            assert_eq!(imbalance(&released(), own, busiest, all), expected, "{own:?} {busiest:?}");
        }
        let nine = SchedFeatures { imbalance_pct: 109, ..released() };
        assert_eq!(imbalance(&nine, of(64, 64), of(70, 64), of(134, 128)), Some(3072));
    }

    #[test]
    fn the_second_attempt_moves_a_thread_and_a_third_one_from_where_it_should_be() {
        let takes = |imbalance, failed, degrades| Attempt { imbalance, failed }.takes(&released(), degrades);
        assert_eq!([0, 1, 2, 3].map(|failed| takes(512, failed, false)), [false, true, true, true]);
        assert_eq!([0, 1, 2, 3].map(|failed| takes(512, failed, true)), [false, false, false, true]);
        assert_eq!([0, 1, 2].map(|failed| takes(340, failed, false)), [false, false, true]);
        assert!(takes(1024, 0, false));
        assert!(takes(1, 200, false), "it does not count less than one");
    }

    #[test]
    fn memory_is_left_behind_by_who_is_at_home_and_by_who_has_less_there() {
        let leaving = |preferred: Option<u8>, all_at_home, [weight_here, weight_there]: [u64; 2]| {
            let (here, there) = (Node(0), Node(1));
            let preferred = preferred.map(Node);
            degrades_locality(&Leaving { preferred, here, there, all_at_home, weight_here, weight_there })
        };
        assert!(leaving(Some(0), false, [0, 1000]));
        assert!(!leaving(Some(0), true, [1000, 0]));
        assert!(!leaving(Some(1), false, [1000, 0]));
        for preferred in [None, Some(2)] {
            let by_weight = [[500, 499], [500, 500], [0, 1]].map(|weights| leaving(preferred, true, weights));
            assert_eq!(by_weight, [true, false, false]);
        }
    }
}
