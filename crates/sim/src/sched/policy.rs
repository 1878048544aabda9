//! What the scheduler decides, of numbers alone: whether a part of the machine is too busy, whether a thread may be taken from it,
//! and where a thread goes that is not on its preferred node.
//!
//! ```text
//!   threads and CPUs of the parts of a domain ─► imbalance ─► Attempt::takes ◄─ degrades_locality        balance.rs
//!   gains of two threads on two nodes ─► may_move, swap_gain ─► Best::is_better_than                     placement.rs
//! ```
//!
//! The kernel does this in kernel/sched/fair.c (6.1 to 7.2): `update_sd_pick_busiest`, `calculate_imbalance`, `detach_tasks` and
//! `migrate_degrades_locality`; `task_numa_migrate`, `task_numa_compare` and `adjust_numa_imbalance`. All threads want to run all the
//! time, so a thread's load is a constant. What patches argue about are values of [`SchedFeatures`].

use super::TICK;
use machine::{Cpu, Node, Time};
use mm::features::sched::{SchedFeatures, TaskPlacement};
use mm::numa::placement::TaskId;

/// What a thread counts that wants to run all the time (`task_h_load`).
const LOAD: u64 = 1024;

/// The threads of a CPU, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    pub threads: u64,
    /// Those that prefer a node (`nr_numa_running`).
    pub prefer: u64,
    /// Those that are on the node that they prefer (`nr_preferred_running`).
    pub at_home: u64,
}

/// How many threads are where they should be (`fbq_type`); fewer come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Settled {
    /// Some prefer no node.
    Regular,
    /// Some prefer another node.
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

/// A part of a domain: threads on CPUs.
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

/// What would have to move from the busiest part to the own one; nothing if it is not worth it (`calculate_imbalance`).
pub(super) fn imbalance(features: &SchedFeatures, own: Part, busiest: Part, all: Part) -> Option<u64> {
    let far = busiest.load() * 100 > own.load() * u64::from(features.imbalance_pct);
    (own.load() < all.load() && far).then(|| {
        let over = busiest.load().saturating_sub(all.load()) * busiest.cpus;
        over.min((all.load() - own.load()) * own.cpus)
    })
}

/// How long a busy CPU leaves a domain of so many CPUs alone, of which nothing was to be done at last if it `is_even`
/// (`get_sd_balance_interval`).
pub(super) fn balance_interval(features: &SchedFeatures, cpus: u64, is_even: bool) -> Time {
    let milliseconds = if is_even { cpus * 2 } else { cpus };
    let every = Time::from_nanoseconds(milliseconds * u64::from(features.busy_factor) * 1_000_000);
    every.saturating_sub(TICK).max(TICK)
}

/// An attempt to take a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// How much a thread may count.
    pub imbalance: u64,
    /// How many before it have failed.
    pub failed: u32,
}

impl Attempt {
    /// Whether a thread may be taken; `degrades`: it would leave a node with memory that it uses (`detach_tasks`).
    pub fn takes(self, features: &SchedFeatures, degrades: bool) -> bool {
        let load = LOAD.checked_shr(self.failed).unwrap_or(0).max(1);
        load <= self.imbalance && (!degrades || self.failed > features.cache_nice_tries)
    }
}

/// A thread that may be taken from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub preferred: Option<Node>,
    pub here: Node,
    pub there: Node,
    /// All threads of the CPU prefer the node that they are on.
    pub all_at_home: bool,
    /// How much of its memory is on each of the nodes ([`mm::numa::Tasks::numa_weight`]).
    pub weight_here: u64,
    pub weight_there: u64,
}

/// Whether a thread would leave memory behind that it uses (`migrate_degrades_locality`).
pub(super) fn degrades_locality(leaving: &Leaving) -> bool {
    match leaving.preferred {
        // Where all are at home, one of them has to go.
        Some(node) if node == leaving.here => !leaving.all_at_home,
        Some(node) if node == leaving.there => false,
        _ => leaving.weight_there < leaving.weight_here,
    }
}

/// Where a thread goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The CPU.
    pub cpu: Cpu,
    /// Who comes from there instead.
    pub swap: Option<TaskId>,
}

/// A place for a thread that is not on its preferred node, of what two searches would find: an idle CPU there, and the best that
/// there is.
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

/// Whether a thread may go to a node of so many CPUs without anybody coming from there instead (`maymove`), by how many threads
/// are here and there.
pub(super) fn may_move(features: &SchedFeatures, here: i64, there: i64, cpus: i64) -> bool {
    if there >= cpus {
        // Loads must not differ more than they do.
        return there < here;
    }
    // No more threads there than here afterwards, or but a few more while few run there (`adjust_numa_imbalance`).
    let (here, there) = (here - 1, there + 1);
    let nearly_idle = there <= (cpus >> features.imb_numa_shift).max(1);
    there - here <= if nearly_idle { i64::from(features.numa_imbalance_min) } else { 0 }
}

/// How much more of its memory a thread finds on the other node than on its own, in thousandths of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gain {
    /// Of what the thread itself uses.
    pub task: i64,
    /// Of what its group uses.
    pub group: i64,
}

/// Two threads on two nodes that may change places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Who looks for a place.
    pub own: Gain,
    /// What a move of it is worth: the gain of its group, or its own if it is in none.
    pub move_gain: i64,
    /// Who would come from there.
    pub other: Gain,
    /// The node where the other one is has fewer threads than CPUs.
    pub has_spare: bool,
    /// They are of one group, or both of none.
    pub shares_group: bool,
    /// Each of them is in a group.
    pub in_groups: bool,
    /// The other one prefers the node that it is on.
    pub leaves_home: bool,
    /// It prefers the one to which it would go.
    pub comes_home: bool,
}

/// What changing places is worth, unless it never is (`task_numa_compare`).
pub(super) fn swap_gain(exchange: &Exchange) -> Option<i64> {
    let &Exchange { own, move_gain, other, .. } = exchange;
    let mut gain = match (exchange.shares_group, exchange.in_groups) {
        // It helps nobody who could have an idle CPU.
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

/// The best place so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Best {
    pub place: Option<Place>,
    pub gain: i64,
    /// The other thread comes to its preferred node.
    pub brings_home: bool,
}

impl Best {
    /// The thread goes to a CPU, and none comes from there.
    pub fn alone(cpu: Cpu, gain: i64) -> Best {
        Best { place: Some(Place { cpu, swap: None }), gain, brings_home: false }
    }

    /// Whether this swap replaces what was found before.
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
            // By less than 17 per cent it does not matter.
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
