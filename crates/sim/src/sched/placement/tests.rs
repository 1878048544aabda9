//! Tests of the placement of tasks, decision by decision.

use super::*;
use TaskPlacement::{Idle, Stay, Swap};
use mm::Series;
use mm::features::sched::TaskPlacement;
use mm::numa::Rules;
use mm::numa::cpupid::Cpupid;
use mm::numa::migrate::policy::{FaultFlags, Nodes};
use mm::numa::placement::{CountedFault, FaultStats, FaultedMm, Kind, TaskClock, TaskNuma};
use mm::numa::scan::MmScan;
use mm::sysctl::NumaSettings;

/// Threads on nodes with two CPUs each, at equal distances.
struct Threads {
    tasks: Tasks,
    topology: Topology,
    /// For each CPU its tasks, and whether they are bound to it.
    queues: Vec<Vec<Occupant>>,
}

impl Threads {
    fn new(nodes: u8) -> Threads {
        let topology = Topology::of_nodes(nodes, 2);
        let with_cpus = Nodes::of_all(&(0..nodes).collect::<Vec<u8>>());
        let tasks = Tasks::new(topology.node_distances.clone(), with_cpus);
        Threads { tasks, topology, queues: vec![Vec::new(); 2 * usize::from(nodes)] }
    }

    /// Adds a thread on `cpu` whose thousand faults are distributed over nodes as `memory` says.
    fn thread(&mut self, cpu: usize, memory: &[u64], preferred: Option<u8>) -> TaskId {
        assert_eq!(memory.iter().sum::<u64>(), 1000);
        let number = self.queues.iter().flatten().count() as u32;
        let task = self.tasks.add(TaskNuma::new(100 + number, &NumaSettings::default()));
        let mut faults = FaultStats::new(memory.len());
        for (node, &faulted) in memory.iter().enumerate() {
            faults.add(Kind::Memory, Node(node as u8), true, faulted);
        }
        let own = self.tasks.get_mut(task);
        (own.faults, own.preferred) = (Some(faults), preferred.map(Node));
        self.queues[cpu].push(Occupant::MayMove(task));
        task
    }

    /// Binds the thread that runs on `cpu` to it.
    fn pin(&mut self, cpu: usize) {
        self.queues[cpu][0] = Occupant::Stays;
    }

    /// A fault of `task` that covers no page, on memory that `other` touched before.
    fn fault(&mut self, task: TaskId, other: Option<TaskId>, scan_seq: i32) {
        let pid = other.map_or(1, |other| self.tasks.get(other).pid);
        let (node, cpu_node, flags) = (Node(0), Node(0), FaultFlags::default());
        let fault = CountedFault { last: Cpupid::new(Cpu(0), pid), node, cpu_node, pages: 0, flags };
        let at = TaskClock { now: 1000 * (1 + scan_seq as u64), now_ns: 1, runtime_ns: 1, load_sum: 0 };
        let features = Series::NUMA.variant("numa-6.12").unwrap().features.numa;
        let mut mm = MmScan { scan_seq, ..MmScan::default() };
        let preferred = self.tasks.get(task).preferred;
        let other = other.map(|other| (other, true));
        let settings = NumaSettings::default();
        let rules = Rules::own(&features, &settings);
        self.tasks.fault(rules, task, at, &fault, other, FaultedMm { scan: &mut mm, rss: 0 });
        self.tasks.get_mut(task).preferred = preferred;
    }

    /// Puts a thread into a group of its own or into that of another thread.
    fn group(&mut self, task: TaskId, with: Option<TaskId>) {
        self.fault(task, with, 0);
    }

    fn find(&self, placement: TaskPlacement, task: TaskId) -> Option<Place> {
        let is_there = |queue: &Vec<Occupant>| queue.contains(&Occupant::MayMove(task));
        let source = Cpu(self.queues.iter().position(is_there).unwrap() as u16);
        let on = |cpu: Cpu| {
            let queue = &self.queues[cpu.index()];
            CpuLoad { threads: queue.len(), runs: queue.first().copied().unwrap_or(Occupant::Nobody) }
        };
        let features =
            SchedFeatures { placement, ..Series::NUMA.variant("numa-6.12").unwrap().features.sched };
        let (tasks, topology) = (&self.tasks, &self.topology);
        Search { features: &features, tasks, topology, task, source, on: &on }.find()
    }
}

fn moves_to(cpu: u16) -> Option<Place> {
    Some(Place { cpu: Cpu(cpu), swap: None })
}

fn swaps_on(cpu: u16, other: TaskId) -> Option<Place> {
    Some(Place { cpu: Cpu(cpu), swap: Some(other) })
}

/// Each placement rule, for a thread on the first node with all its memory on the second: threads per CPU,
/// and where the thread goes.
#[test]
fn an_idle_cpu_takes_a_thread() {
    for (loads, by_stay, by_idle, by_swap) in [
        ([2, 0, 0, 0], None, Some(2), Some(2)),
        ([2, 1, 1, 0], None, Some(3), Some(3)),
        ([3, 0, 1, 0], None, Some(3), Some(3)),
        // Only `idle` moves a thread if that leaves more threads there than here.
        ([2, 0, 1, 0], None, Some(3), None),
        ([1, 0, 1, 0], None, Some(3), None),
        ([1, 0, 2, 0], None, Some(3), None),
        ([1, 1, 2, 0], None, Some(3), None),
        ([1, 0, 0, 0], None, Some(2), Some(2)),
        ([1, 0, 1, 1], None, None, None),
    ] {
        let mut threads = Threads::new(2);
        let task = threads.thread(0, &[0, 1000], Some(1));
        for (cpu, load) in loads.into_iter().enumerate() {
            for _ in usize::from(cpu == 0)..load {
                // No thread there gains from a swap.
                let (memory, preferred) = if cpu < 2 { ([500, 500], None) } else { ([0, 1000], Some(1)) };
                threads.thread(cpu, &memory, preferred);
            }
        }
        for (placement, expected) in [(Stay, by_stay), (Idle, by_idle), (Swap, by_swap)] {
            let expected = expected.and_then(moves_to);
            assert_eq!(threads.find(placement, task), expected, "{placement:?}, {loads:?}");
        }
        threads.tasks.get_mut(task).preferred = None;
        assert_eq!([Stay, Idle, Swap].map(|placement| threads.find(placement, task)), [None; 3], "{loads:?}");
    }
}

/// A thread that may move to an idle CPU does, even if a swap on another CPU would gain as well.
#[test]
fn an_idle_cpu_is_better_than_a_swap() {
    let mut threads = Threads::new(2);
    let task = threads.thread(0, &[0, 1000], Some(1));
    for _ in 0..2 {
        threads.thread(1, &[1000, 0], Some(0));
    }
    let other = threads.thread(2, &[1000, 0], Some(0));
    [task, other].into_iter().for_each(|task| threads.group(task, None));
    assert_eq!(threads.find(Swap, task), moves_to(3));
    // If there were more threads there than here afterwards, it swaps.
    threads.queues[1].pop();
    assert_eq!(threads.find(Swap, task), swaps_on(2, other));
}

/// A node with at most an eighth of its CPUs busy is nearly idle, and may have two threads more.
#[test]
fn a_nearly_idle_node_may_have_more_threads() {
    for (here, there, moves) in [(1, 0, true), (1, 1, true), (1, 2, false), (4, 2, true), (3, 2, false)] {
        let mut threads = Threads::new(2);
        threads.topology.cores_per_socket = 16;
        threads.queues.resize(32, Vec::new());
        let task = threads.thread(0, &[0, 1000], Some(1));
        for cpu in (1..here).chain(16..16 + there) {
            threads.thread(cpu, &[500, 500], None);
        }
        let expected = if moves { moves_to(16 + there as u16) } else { None };
        assert_eq!(threads.find(Swap, task), expected, "{here} here, {there} there");
    }
}

/// On a node without an idle CPU, the thread shares one if there are more threads here and no thread there
/// would gain.
#[test]
fn a_busy_cpu_takes_a_thread_that_is_worth_more_alone() {
    for (other, here, expected) in [([0, 1000], 3, true), ([0, 1000], 2, false), ([1000, 0], 3, false)] {
        let mut threads = Threads::new(2);
        let task = threads.thread(0, &[0, 1000], Some(1));
        for _ in 1..here {
            threads.thread(1, &[500, 500], None);
        }
        let others = [2, 3].map(|cpu| threads.thread(cpu, &other, None));
        let swap = if other == [1000, 0] { swaps_on(2, others[0]) } else { None };
        assert_eq!(threads.find(Swap, task), if expected { moves_to(2) } else { swap }, "{other:?}, {here}");
    }
}

/// All CPUs are busy: the thread swaps with one on the second node if both together gain enough. Each case
/// gives the memory of the threads on each node, the others' preferred nodes, and the partner chosen.
#[test]
fn threads_change_places_if_both_together_gain() {
    const EVEN: [u64; 2] = [500, 500];
    let none = None::<u8>;
    for (name, own, first, second, swap) in [
        ("the one that gains", [0, 1000], ([0, 1000], none), ([1000, 0], none), Some(3)),
        ("the first that does", [0, 1000], ([1000, 0], none), ([1000, 0], none), Some(2)),
        ("one loses as much", [0, 1000], ([0, 1000], none), ([0, 1000], none), None),
        ("one loses less", [0, 1000], ([0, 1000], none), ([400, 600], none), Some(3)),
        // SMALLIMP is 30 thousandths.
        ("30 are enough", [485, 515], (EVEN, none), ([0, 1000], none), Some(2)),
        ("28 are not", [486, 514], (EVEN, none), ([0, 1000], none), None),
        ("both count", [490, 510], ([505, 495], none), ([0, 1000], none), Some(2)),
        // It must exceed the previous best by more than 15.
        ("100 and 116", EVEN, ([550, 450], none), ([558, 442], none), Some(3)),
        ("100 and 114", EVEN, ([550, 450], none), ([557, 443], none), Some(2)),
        // A 16th less for leaving the preferred node, an eighth more for getting there.
        ("30 and at home there", [485, 515], (EVEN, Some(1)), ([0, 1000], none), None),
        ("32 and at home there", [484, 516], (EVEN, Some(1)), ([0, 1000], none), Some(2)),
        ("28 and coming home", [486, 514], (EVEN, Some(0)), ([0, 1000], none), Some(2)),
        ("26 and coming home", [487, 513], (EVEN, Some(0)), ([0, 1000], none), None),
        // A thread that gets to its preferred node wins over all that do not, whatever they gain.
        ("home before more", [0, 1000], ([1000, 0], none), ([0, 1000], Some(0)), Some(3)),
        ("home, and no more", [0, 1000], ([400, 600], Some(0)), ([1000, 0], none), Some(2)),
        ("home, then as well", [0, 1000], ([400, 600], Some(0)), ([1000, 0], Some(0)), Some(2)),
    ] {
        let mut threads = Threads::new(2);
        let task = threads.thread(0, &own, Some(1));
        threads.thread(1, &EVEN, none);
        let others =
            [(2, first), (3, second)].map(|(cpu, (memory, home))| threads.thread(cpu, &memory, home));
        let expected = swap.and_then(|cpu: u16| swaps_on(cpu, others[usize::from(cpu) - 2]));
        assert_eq!(threads.find(Swap, task), expected, "{name}");
        assert_eq!([Stay, Idle].map(|placement| threads.find(placement, task)), [None; 2], "{name}");
    }
}

/// If the thread could also move but finds no idle CPU, the search continues after a partner that gets to its
/// preferred node, for another such partner.
#[test]
fn who_comes_home_is_not_given_up_for_more() {
    for (home, expected) in [(None, 2), (Some(0), 3)] {
        let mut threads = Threads::new(2);
        let task = threads.thread(0, &[0, 1000], Some(1));
        for cpu in [0, 1] {
            threads.thread(cpu, &[500, 500], None);
        }
        let first = threads.thread(2, &[600, 400], Some(0));
        let second = threads.thread(3, &[1000, 0], home);
        let other = if expected == 2 { first } else { second };
        assert_eq!(threads.find(Swap, task), swaps_on(expected, other));
    }
}

#[test]
fn who_is_bound_is_left_where_it_is() {
    for (pinned, expected) in [(&[][..], Some(2)), (&[2], Some(3)), (&[3], Some(2)), (&[2, 3], None)] {
        let mut threads = Threads::new(2);
        let task = threads.thread(0, &[0, 1000], Some(1));
        threads.thread(1, &[500, 500], None);
        let others = [2, 3].map(|cpu| threads.thread(cpu, &[1000, 0], Some(0)));
        pinned.iter().for_each(|&cpu| threads.pin(cpu));
        let expected = expected.and_then(|cpu: u16| swaps_on(cpu, others[usize::from(cpu) - 2]));
        assert_eq!(threads.find(Swap, task), expected, "{pinned:?}");
    }
}

/// Two threads of the same group, or of none, do not swap while a CPU there is idle, as one gains and the
/// other loses. Two threads of different groups do.
#[test]
fn threads_of_a_group_change_places_only_where_no_cpu_is_idle() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Groups {
        None,
        Same,
        Different,
        OwnOnly,
        OtherOnly,
    }
    for (groups, with_idle_cpu) in [
        (Groups::None, false),
        (Groups::Same, false),
        (Groups::Different, true),
        (Groups::OwnOnly, true),
        (Groups::OtherOnly, true),
    ] {
        for idle in [false, true] {
            let mut threads = Threads::new(2);
            let task = threads.thread(0, &[0, 1000], Some(1));
            let other = threads.thread(2, &[1000, 0], None);
            if matches!(groups, Groups::Same | Groups::Different | Groups::OwnOnly) {
                threads.group(task, None);
            }
            if matches!(groups, Groups::Same | Groups::Different | Groups::OtherOnly) {
                threads.group(other, (groups == Groups::Same).then_some(task));
            }
            assert_eq!(
                threads.tasks.shares_group(task, other),
                matches!(groups, Groups::None | Groups::Same)
            );
            if !idle {
                threads.thread(1, &[500, 500], None);
                threads.thread(3, &[0, 1000], Some(1));
            }
            let expected = if with_idle_cpu || !idle { swaps_on(2, other) } else { None };
            assert_eq!(threads.find(Swap, task), expected, "{groups:?}, an idle CPU: {idle}");
        }
    }
}

/// Within a group, a swap must gain a 16th more, so 30 thousandths are not enough. Between groups the memory
/// of the groups counts, within a group that of the threads.
#[test]
fn groups_are_weighed_as_groups() {
    for (same, own, fellow, others_join, swaps) in [
        (false, [485, 515], [485, 515], false, true),
        (true, [485, 515], [485, 515], false, false),
        (true, [484, 516], [484, 516], false, true),
        // With its fellow, which has as much memory elsewhere, the thread's group gains nothing.
        (false, [0, 1000], [1000, 0], false, false),
        (true, [0, 1000], [1000, 0], false, true),
        // The other thread's group has most of its memory there, and loses half of it.
        (false, [300, 700], [300, 700], true, false),
        (false, [200, 800], [200, 800], true, true),
    ] {
        let mut threads = Threads::new(2);
        let task = threads.thread(0, &own, Some(1));
        let other = threads.thread(2, &[500, 500], None);
        let fellow = threads.thread(1, &fellow, None);
        let bound = threads.thread(3, &[0, 1000], Some(1));
        threads.pin(3);
        threads.group(task, None);
        threads.group(fellow, Some(task));
        threads.group(other, same.then_some(task));
        if others_join {
            threads.group(bound, Some(other));
        }
        assert_eq!(threads.tasks.shares_group(task, other), same);
        assert!(threads.tasks.shares_group(task, fellow) && !threads.tasks.shares_group(task, bound));
        assert_eq!(threads.tasks.shares_group(other, bound), others_join);
        let expected = if swaps { swaps_on(2, other) } else { None };
        assert_eq!(threads.find(Swap, task), expected, "{own:?}, same group: {same}, {others_join}");
    }
}

/// A thread considers nodes besides its preferred one if it finds no place there, or if its group runs on
/// several nodes. It goes to one of them if it or its group is better off there than at home, and better than
/// at its other choice.
#[test]
fn a_group_on_several_nodes_looks_at_all_of_them() {
    for (name, spread, memory, bound, swap) in [
        ("a place there", false, [0, 600, 400], &[][..], Some(2)),
        ("more elsewhere, which is not looked for", false, [0, 400, 600], &[], Some(2)),
        ("more elsewhere, and looked for", true, [0, 400, 600], &[], Some(4)),
        ("less elsewhere", true, [0, 600, 400], &[], Some(2)),
        ("not enough more elsewhere", true, [0, 494, 506], &[], Some(2)),
        ("no place there", false, [0, 600, 400], &[2], Some(4)),
        ("nor elsewhere", false, [0, 600, 400], &[2, 4], None),
        ("nothing to gain elsewhere", false, [300, 600, 100], &[2], None),
    ] {
        let mut threads = Threads::new(3);
        let task = threads.thread(0, &memory, Some(1));
        threads.thread(1, &[400, 300, 300], None);
        let others = [2, 4].map(|cpu| {
            let other = threads.thread(cpu, &[1000, 0, 0], None);
            // No thread gains from a swap with the one on the second CPU.
            let mut at_home = [0; 3];
            at_home[cpu / 2] = 1000;
            threads.thread(cpu + 1, &at_home, None);
            threads.pin(cpu + 1);
            other
        });
        bound.iter().for_each(|&cpu| threads.pin(cpu));
        for node in [Node(0), Node(1)].into_iter().take(1 + usize::from(spread)) {
            let faults = threads.tasks.get_mut(task).faults.as_mut().unwrap();
            faults.add(Kind::Cpu, node, true, 1000);
        }
        threads.group(task, None);
        threads.fault(task, None, 1);
        assert_eq!(threads.tasks.group(task).unwrap().active_nodes, 1 + usize::from(spread), "{name}");
        let expected = swap.and_then(|cpu: u16| swaps_on(cpu, others[usize::from(cpu) / 2 - 1]));
        assert_eq!(threads.find(Swap, task), expected, "{name}");
    }
}
