//! Load balancing while more threads want to run than there are CPUs.
//!
//! ```text
//!   all CPUs ─┬─ node 0 ─┬─ CPU 0   a b     now and then a CPU looks, among the groups of its core's, node's and
//!             │          └─ CPU 1   c       machine's domain, for the one with most threads per CPU, and takes a
//!             └─ node 1 ─┬─ CPU 2   d       thread that waits there
//!                        └─ CPU 3   e
//! ```
//!
//! With five threads on four CPUs, one waits, wherever it is. The kernel sees an imbalance of half a thread
//! and moves no thread that counts more. But each failed attempt halves what a thread counts, so the second
//! attempt moves one, and the next two move another. Which threads share a CPU, and on which node, therefore
//! changes several times a second (`sched_balance_rq`, `sched_balance_find_src_group`, `calculate_imbalance`,
//! `detach_tasks` in kernel/sched/fair.c).
//!
//! A thread on its preferred node leaves it only after more failures. While another node has threads without
//! a preferred node, CPUs that have no such thread are not considered.
//!
//! Left out are threads that ran within the last half millisecond, which the kernel considers cache-hot; CPUs
//! of different capacity; and caches that only a part of a node shares. Idle CPUs are handled by
//! [`Scheduler`](super::Scheduler).

use super::policy::{Attempt, Part, Queue, Settled, balance_interval, imbalance};
use machine::{Cpu, Node, Time, Topology};
use mm::features::sched::SchedFeatures;

/// A level of the machine that is balanced (`sched_domain`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    /// Hardware threads of a core.
    Core,
    /// Cores of a node.
    Node,
    /// Nodes of the machine.
    All,
}

impl Domain {
    const ALL: [Domain; 3] = [Domain::Core, Domain::Node, Domain::All];

    /// The groups that a CPU compares (`sched_group`), its own first.
    fn parts(self, topology: &Topology, cpu: Cpu) -> Vec<Vec<Cpu>> {
        let node = topology.node(cpu);
        let core_of =
            |cpu: Cpu| -> Vec<Cpu> { [Some(cpu), topology.sibling(cpu)].into_iter().flatten().collect() };
        let mut parts: Vec<Vec<Cpu>> = match self {
            Domain::Core => core_of(cpu).into_iter().map(|cpu| vec![cpu]).collect(),
            Domain::Node => {
                let first = |cpu: &Cpu| topology.sibling(*cpu).is_none_or(|sibling| *cpu < sibling);
                topology.cpus_of(node).into_iter().filter(first).map(core_of).collect()
            }
            Domain::All => {
                let nodes = (0..topology.nodes).map(Node).filter(|node| !topology.is_memory_only(*node));
                nodes.map(|node| topology.cpus_of(node)).collect()
            }
        };
        let own = parts.iter().position(|part| part.contains(&cpu)).expect("it is somewhere");
        parts.swap(0, own);
        parts
    }

    /// The busiest CPU of the busiest group, and the imbalance, if there is one worth an attempt.
    fn busiest(
        self,
        features: &SchedFeatures,
        parts: &[Vec<Cpu>],
        queue: impl Fn(Cpu) -> Queue,
    ) -> Option<(Cpu, u64)> {
        let parts: Vec<(Part, &Vec<Cpu>)> = parts.iter().map(|cpus| (part(cpus, &queue), cpus)).collect();
        let all = parts.iter().fold(Part::default(), |all, (part, _)| all.with(*part));
        let overloaded = parts[1..].iter().filter(|(part, _)| part.is_overloaded());
        let (busiest, cpus) = overloaded.max_by_key(|(part, _)| part.load())?;
        let imbalance = imbalance(features, parts[0].0, *busiest, all)?;
        let limit = if self == Domain::All { busiest.queue.settled() } else { Settled::All };
        let cpus = cpus.iter().copied().filter(|&cpu| queue(cpu).settled() <= limit);
        let cpu = cpus.max_by_key(|&cpu| (queue(cpu).threads, std::cmp::Reverse(cpu)))?;
        (queue(cpu).threads > 1).then_some((cpu, imbalance))
    }
}

/// A CPU's state for a domain.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    due: Time,
    /// Whether the last attempt found no imbalance; the interval is then twice as long (`balance_interval`).
    is_even: bool,
    failed: u32,
}

/// An attempt of a CPU to pull a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pull {
    pub domain: Domain,
    /// The CPU to pull from.
    pub busiest: Cpu,
    pub attempt: Attempt,
}

/// When each CPU balances each domain next.
pub(super) struct Balance {
    /// By CPU, then by domain.
    states: Vec<[State; 3]>,
}

impl Balance {
    pub fn new(cpus: usize) -> Balance {
        Balance { states: vec![Default::default(); cpus] }
    }

    /// The attempts that the busy CPU `cpu` makes at a tick; `queue` gives the threads of a CPU.
    pub fn attempts(
        &mut self,
        features: &SchedFeatures,
        topology: &Topology,
        cpu: Cpu,
        now: Time,
        queue: impl Fn(Cpu) -> Queue,
    ) -> Vec<Pull> {
        let mut attempts = Vec::new();
        for (domain, state) in Domain::ALL.into_iter().zip(&mut self.states[cpu.index()]) {
            if now < state.due {
                continue;
            }
            let parts = domain.parts(topology, cpu);
            let weight = parts.iter().map(Vec::len).sum::<usize>() as u64;
            state.due = now + balance_interval(features, weight, state.is_even);
            // An idle CPU of the group balances for it, or else its first CPU (`should_we_balance`).
            let own = &parts[0];
            if own.iter().any(|&cpu| queue(cpu).threads == 0) || own.iter().min() != Some(&cpu) {
                continue;
            }
            let found = domain.busiest(features, &parts, &queue);
            state.is_even = found.is_none();
            match found {
                Some((busiest, imbalance)) => {
                    let attempt = Attempt { imbalance, failed: state.failed };
                    attempts.push(Pull { domain, busiest, attempt });
                }
                None => state.failed = 0,
            }
        }
        attempts
    }

    /// Records whether an attempt of `cpu` moved a thread.
    pub fn tried(&mut self, cpu: Cpu, domain: Domain, moved: bool) {
        let state = &mut self.states[cpu.index()][domain as usize];
        state.failed = if moved { 0 } else { state.failed + 1 };
    }
}

/// The threads of some CPUs.
fn part(cpus: &[Cpu], queue: impl Fn(Cpu) -> Queue) -> Part {
    let queue = cpus.iter().fold(Queue::default(), |all, &cpu| all.with(queue(cpu)));
    Part { queue, cpus: cpus.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::super::TICK;
    use super::*;
    use mm::Series;

    fn released() -> SchedFeatures {
        Series::NUMA.variant("numa-6.12").unwrap().features.sched
    }

    fn two_nodes() -> Topology {
        Topology::of_nodes(2, 2)
    }

    fn threads_only(threads: u64) -> Queue {
        Queue { threads, ..Queue::default() }
    }

    /// Node 1 has a thread without a preferred node. While that thread shares a CPU, this CPU is chosen;
    /// while it is alone, none is.
    #[test]
    fn who_is_at_home_is_not_looked_at_while_others_prefer_no_node() {
        let of = |threads, prefer, at_home| Queue { threads, prefer, at_home };
        let parts = Domain::All.parts(&two_nodes(), Cpu(0));
        let busiest = |third: Queue, fourth: Queue| {
            let queue = |cpu: Cpu| [of(1, 1, 1), of(1, 1, 1), third, fourth][cpu.index()];
            let busiest = Domain::All.busiest(&released(), &parts, queue);
            busiest.map(|(cpu, _)| cpu.0)
        };
        assert_eq!(busiest(of(1, 1, 1), of(2, 1, 1)), Some(3));
        assert_eq!(busiest(of(2, 2, 2), of(1, 0, 0)), None);
        assert_eq!(busiest(of(2, 2, 2), of(1, 1, 1)), Some(2), "all are at home");
        assert_eq!(busiest(of(2, 2, 2), of(2, 2, 1)), Some(3), "one is not");
    }

    /// CPU 0 has two threads. CPU 1 looks at it every 28 ms, and the first CPU of the other node every 60 ms.
    #[test]
    fn the_first_cpu_of_a_part_attempts_it_every_so_often() {
        let topology = two_nodes();
        let mut balance = Balance::new(4);
        let mut seen = Vec::new();
        for tick in 0..16u64 {
            for cpu in topology.all_cpus() {
                let threads = |cpu: Cpu| threads_only(if cpu == Cpu(0) { 2 } else { 1 });
                for pull in balance.attempts(&released(), &topology, cpu, TICK * tick, threads) {
                    assert_eq!(pull.busiest, Cpu(0));
                    balance.tried(cpu, pull.domain, false);
                    seen.push((tick * 4, cpu.0, pull.domain, pull.attempt.failed));
                }
            }
        }
        let (node, all) = (Domain::Node, Domain::All);
        let expected = [(0, 1, node, 0), (0, 2, all, 0), (28, 1, node, 1), (56, 1, node, 2), (60, 2, all, 1)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn even_threads_are_looked_at_half_as_often_and_left_alone() {
        let topology = two_nodes();
        let mut balance = Balance::new(4);
        let mut looked = Vec::new();
        for tick in 0..50 {
            assert!(
                balance.attempts(&released(), &topology, Cpu(1), TICK * tick, |_| threads_only(1)).is_empty()
            );
            looked.push(balance.states[1][Domain::Node as usize].due);
        }
        looked.dedup();
        assert_eq!(looked, [7, 22, 37, 52].map(|ticks| TICK * ticks));
        assert_eq!(balance.states[1][Domain::Node as usize].failed, 0);
    }

    #[test]
    fn an_idle_cpu_leaves_nothing_to_do() {
        let topology = two_nodes();
        let threads = |cpu: Cpu| threads_only([3, 1, 0, 1][cpu.index()]);
        let attempts = Balance::new(4).attempts(&released(), &topology, Cpu(3), Time::ZERO, threads);
        assert!(attempts.iter().all(|attempt| attempt.domain != Domain::All));
    }
}
