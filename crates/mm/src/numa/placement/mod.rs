//! NUMA placement: the faults of each thread, groups of threads that share memory, and the preferred node of
//! each.
//!
//! ```text
//!   task ── FaultStats            by kind, node, shared or private
//!    │        mem │ cpu │ membuf │ cpubuf          membuf, cpubuf: of this sequence
//!    ├── locality, scan period, preferred node
//!    └── group ── FaultStats      mem │ cpu: sums over its tasks
//! ```
//!
//! [`policy`] has the decisions; this module keeps the state they work on. In the kernel: `task_numa_fault`
//! in kernel/sched/fair.c, `struct numa_group`.

pub mod policy;

use super::cpupid::Cpupid;
use super::migrate::policy::{FaultFlags, GroupUse, Mempolicy, Nodes};
use super::scan::MmScan;
use super::scan::policy::{GroupSharing, ScanPeriods};
use super::tree::ScanningTask;
use super::{Rules, Tasks};
use crate::jiffies::{HZ, TICK_NS, jiffies};
use crate::sysctl::NumaSettings;
use machine::Node;
use policy::{Join, Locality, Other};

/// Kinds of fault statistics (`enum numa_faults_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `NUMA_MEM`: faults on memory of the node, decayed over sequences.
    Memory = 0,
    /// `NUMA_CPU`: faults of threads that ran on the node, weighted by run time, decayed over sequences.
    Cpu = 1,
    /// `NUMA_MEMBUF`: faults on memory of the node in this sequence.
    MemoryBuffer = 2,
    /// `NUMA_CPUBUF`: faults of threads that ran on the node in this sequence.
    CpuBuffer = 3,
}

const KINDS: usize = 4;

/// Hint faults of a task or group, in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultStats {
    counts: Box<[u64]>,
    nodes: usize,
    /// Faults on memory of all nodes, decayed over sequences.
    pub total: u64,
}

impl FaultStats {
    /// No faults yet, on a machine of `nodes` nodes.
    pub fn new(nodes: usize) -> FaultStats {
        FaultStats { counts: vec![0; 2 * KINDS * nodes].into(), nodes, total: 0 }
    }

    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.nodes as u8).map(Node)
    }

    #[inline]
    fn index(&self, kind: Kind, node: Node, private: bool) -> usize {
        2 * (kind as usize * self.nodes + node.index()) + usize::from(private)
    }

    /// One counter.
    #[inline]
    pub fn get(&self, kind: Kind, node: Node, private: bool) -> u64 {
        self.counts[self.index(kind, node, private)]
    }

    /// Adds to one counter, wrapping; so a negative change can be added.
    #[inline]
    pub fn add(&mut self, kind: Kind, node: Node, private: bool, change: u64) {
        let index = self.index(kind, node, private);
        self.counts[index] = self.counts[index].wrapping_add(change);
        if kind == Kind::Memory {
            self.total = self.total.wrapping_add(change);
        }
    }

    /// Takes one counter, resetting it to 0.
    pub(super) fn take(&mut self, kind: Kind, node: Node, private: bool) -> u64 {
        std::mem::take(&mut self.counts[self.index(kind, node, private)])
    }

    fn both(&self, kind: Kind, node: Node) -> u64 {
        self.get(kind, node, false) + self.get(kind, node, true)
    }

    /// Faults on memory of a node (`task_faults`, `group_faults`).
    pub fn memory(&self, node: Node) -> u64 {
        self.both(Kind::Memory, node)
    }

    /// Weighted faults of threads that ran on a node (`group_faults_cpu`).
    pub fn cpu(&self, node: Node) -> u64 {
        self.both(Kind::Cpu, node)
    }

    /// Faults on memory that other threads touched too (`group_faults_shared`).
    fn shared(&self) -> u64 {
        self.nodes().map(|node| self.get(Kind::Memory, node, false)).sum()
    }

    /// Faults on memory of one thread (`group_faults_priv`).
    fn private(&self) -> u64 {
        self.nodes().map(|node| self.get(Kind::Memory, node, true)).sum()
    }

    /// Adds a task's decayed statistics.
    fn add_task(&mut self, task: &FaultStats) {
        self.add_each(task, |count| count);
    }

    /// Subtracts a task's decayed statistics.
    fn remove_task(&mut self, task: &FaultStats) {
        self.add_each(task, u64::wrapping_neg);
    }

    fn add_each(&mut self, task: &FaultStats, change: impl Fn(u64) -> u64) {
        for node in self.nodes() {
            for (kind, private) in
                [(Kind::Memory, false), (Kind::Memory, true), (Kind::Cpu, false), (Kind::Cpu, true)]
            {
                self.add(kind, node, private, change(task.get(kind, node, private)));
            }
        }
    }
}

/// Identifies a thread in NUMA balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// The NUMA balancing state of a thread (`numa_*` in `struct task_struct`).
#[derive(Clone, Debug)]
pub struct TaskNuma {
    /// PID of the thread, not of its process.
    pub pid: u32,
    /// CPU time at which a scan was last due, ns.
    pub node_stamp: u64,
    /// `numa_scan_seq` of the address space at its last placement.
    pub scan_seq: i32,
    /// CPU time between two scan passes, ms.
    pub scan_period: u32,
    /// Upper bound of the scan period, ms.
    pub scan_period_max: u32,
    /// Jiffy from which it tries again to move to its preferred node.
    pub migrate_retry: u64,
    /// `numa_preferred_nid`: the node with most of its memory.
    pub preferred: Option<Node>,
    /// `None` before the first fault.
    pub faults: Option<FaultStats>,
    /// Faults since its scan period was last updated.
    pub locality: Locality,
    /// Pages that its faults migrated (`numa_pages_migrated`).
    pub pages_migrated: u64,
    /// The nodes that its cpuset allows (`cpuset.mems`); `None` without a cpuset.
    pub mems_allowed: Option<Nodes>,
    /// Its memory policy, if it has set one.
    pub policy: Option<Mempolicy>,
    pub(super) group: Option<usize>,
    last_placement: u64,
    last_runtime: u64,
}

impl TaskNuma {
    /// The first thread of a process after fork or exec.
    pub fn new(pid: u32, settings: &NumaSettings) -> TaskNuma {
        TaskNuma {
            pid,
            node_stamp: 0,
            scan_seq: 0,
            scan_period: settings.scan_delay_ms as u32,
            scan_period_max: 0,
            migrate_retry: 0,
            preferred: None,
            faults: None,
            locality: Locality::default(),
            pages_migrated: 0,
            mems_allowed: None,
            policy: None,
            group: None,
            last_placement: 0,
            last_runtime: 0,
        }
    }

    /// A further thread of a process with `users` threads. The kernel intends to delay its first scan, but
    /// bounds the delay in ns by a period in ms, so only two ticks remain.
    pub fn new_thread(
        pid: u32,
        settings: &NumaSettings,
        parent: &TaskNuma,
        bounds: ScanPeriods,
        users: u64,
    ) -> TaskNuma {
        let delay = u64::from(parent.scan_period) * users * 1_000_000;
        let delay = bounds.max.min(delay as u32);
        TaskNuma {
            node_stamp: u64::from(delay) + 2 * TICK_NS,
            preferred: parent.preferred,
            mems_allowed: parent.mems_allowed,
            policy: parent.policy,
            scan_period_max: parent.scan_period_max,
            ..TaskNuma::new(pid, settings)
        }
    }
}

/// A group of tasks that share memory (`struct numa_group`).
#[derive(Clone, Debug)]
pub struct Group {
    /// Number of tasks; 0 when the group is gone.
    pub tasks: usize,
    /// Sums of its tasks' faults.
    pub faults: FaultStats,
    /// Number of nodes that it runs on.
    pub active_nodes: usize,
    /// Weighted faults of the node that it runs on most.
    pub max_cpu_faults: u64,
}

/// The clocks of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskClock {
    /// The current jiffy.
    pub now: u64,
    /// When it was last accounted for, ns (`exec_start`).
    pub now_ns: u64,
    /// Total CPU time, ns (`sum_exec_runtime`).
    pub runtime_ns: u64,
    /// Decayed run time out of [`policy::LOAD_AVG_MAX`], for its first placement.
    pub load_sum: u64,
}

/// A hint fault whose page has migrated or stayed.
#[derive(Clone, Copy, Debug)]
pub struct CountedFault {
    /// The folio's cpupid before the fault.
    pub last: Cpupid,
    /// The node that the page is on now.
    pub node: Node,
    /// The node of the CPU that faulted.
    pub cpu_node: Node,
    pub pages: u64,
    pub flags: FaultFlags,
}

/// The address space of a task that takes a fault.
#[derive(Debug)]
pub struct FaultedMm<'a> {
    pub scan: &'a mut MmScan,
    /// Resident pages.
    pub rss: u64,
}

/// The consequences of a counted fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultOutcome {
    /// The preferred node, if the task was placed.
    pub placed: Option<Option<Node>>,
    /// The task wants to move to its preferred node.
    pub wants_to_move: bool,
}

impl Tasks {
    /// Counts a hint fault of `task` in `mm` (`task_numa_fault`). `other` is the task that runs on the CPU in
    /// the folio's last cpupid, and whether it shares the address space.
    pub fn fault(
        &mut self,
        rules: Rules,
        task: TaskId,
        clock: TaskClock,
        fault: &CountedFault,
        other: Option<(TaskId, bool)>,
        mm: FaultedMm,
    ) -> FaultOutcome {
        let nodes = self.nodes();
        let own = &mut self.tasks[task.0 as usize];
        if own.faults.is_none() {
            own.faults = Some(FaultStats::new(nodes));
            own.locality = Locality::default();
        }
        let mut private = fault.last == Cpupid::UNSET || fault.last.matches(own.pid);
        if !private && !fault.flags.has(FaultFlags::NO_GROUP) {
            private = self.meet(task, fault, other);
        }
        let local = fault.flags.has(FaultFlags::FAULT_LOCAL) || !private && self.is_within_group(task, fault);
        let outcome = self.place_if_due(rules, task, clock, fault.cpu_node, mm);
        let own = &mut self.tasks[task.0 as usize];
        if fault.flags.has(FaultFlags::MIGRATED) {
            own.pages_migrated += fault.pages;
        }
        if fault.flags.has(FaultFlags::MIGRATE_FAIL) {
            own.locality.failed += fault.pages;
        }
        *(if local { &mut own.locality.local } else { &mut own.locality.remote }) += fault.pages;
        let stats = own.faults.as_mut().expect("made above");
        stats.add(Kind::MemoryBuffer, fault.node, private, fault.pages);
        stats.add(Kind::CpuBuffer, fault.cpu_node, private, fault.pages);
        outcome
    }

    /// Lets two tasks that touched the same page join into a group (`task_numa_group`). Returns whether the
    /// fault counts as private after all.
    fn meet(&mut self, task: TaskId, fault: &CountedFault, other: Option<(TaskId, bool)>) -> bool {
        let own = match self.tasks[task.0 as usize].group {
            Some(group) => group,
            None => self.found_group(task),
        };
        let Some((other, same_mm)) = other else { return false };
        let group = self.tasks[other.0 as usize].group;
        let other = Other {
            matches: fault.last.matches(self.tasks[other.0 as usize].pid),
            group: group.map(|group| (group as u64, self.groups[group].tasks)),
            same_mm,
        };
        match policy::join((own as u64, self.groups[own].tasks), &other, fault.flags.has(FaultFlags::SHARED))
        {
            Join::Stay => false,
            Join::LooksAlike => true,
            Join::Join => {
                self.leave_group(task);
                self.enter_group(task, group.expect("it was joined"));
                false
            }
        }
    }

    fn found_group(&mut self, task: TaskId) -> usize {
        let group =
            Group { tasks: 0, faults: FaultStats::new(self.nodes()), active_nodes: 1, max_cpu_faults: 0 };
        self.groups.push(group);
        self.enter_group(task, self.groups.len() - 1);
        self.groups.len() - 1
    }

    fn enter_group(&mut self, task: TaskId, number: usize) {
        let (task, group) = (&mut self.tasks[task.0 as usize], &mut self.groups[number]);
        task.group = Some(number);
        group.tasks += 1;
        if let Some(faults) = &task.faults {
            group.faults.add_task(faults);
        }
    }

    fn leave_group(&mut self, task: TaskId) {
        let task = &mut self.tasks[task.0 as usize];
        let Some(number) = task.group.take() else { return };
        let group = &mut self.groups[number];
        group.tasks -= 1;
        if let Some(faults) = &task.faults {
            group.faults.remove_task(faults);
        }
    }

    /// Whether both nodes of a remote fault are among those that the task's group is active on.
    fn is_within_group(&self, task: TaskId, fault: &CountedFault) -> bool {
        let Some(group) = self.group(task).filter(|group| group.active_nodes > 1) else { return false };
        [fault.cpu_node, fault.node]
            .into_iter()
            .all(|node| policy::is_active(group.faults.cpu(node), group.max_cpu_faults))
    }

    pub fn group(&self, task: TaskId) -> Option<&Group> {
        self.tasks[task.0 as usize].group.map(|group| &self.groups[group])
    }

    /// Whether two tasks are in the same group, or both in none.
    pub fn shares_group(&self, task: TaskId, other: TaskId) -> bool {
        self.tasks[task.0 as usize].group == self.tasks[other.0 as usize].group
    }

    /// Share of a task's faults that were on memory of a node or near it, in thousandths (`task_weight`).
    pub fn task_weight(&self, task: TaskId, node: Node, reach: u8) -> u64 {
        let faults = self.tasks[task.0 as usize].faults.as_ref();
        faults.map_or(0, |faults| policy::weight(faults, node, reach, &self.links))
    }

    /// Share of its group's faults that were on memory of a node or near it, in thousandths (`group_weight`).
    pub fn group_weight(&self, task: TaskId, node: Node, reach: u8) -> u64 {
        let group = self.group(task);
        group.map_or(0, |group| policy::weight(&group.faults, node, reach, &self.links))
    }

    /// The weight that decides on a task's node: that of its group if it is in one, otherwise its own.
    pub fn numa_weight(&self, task: TaskId, node: Node, reach: u8) -> u64 {
        match self.group(task) {
            Some(_) => self.group_weight(task, node, reach),
            None => self.task_weight(task, node, reach),
        }
    }

    /// How a task's group uses two nodes.
    pub fn group_use(&self, task: TaskId, source: Node, destination: Node) -> Option<GroupUse> {
        self.group(task).map(|group| GroupUse {
            cpu_source: group.faults.cpu(source),
            cpu_destination: group.faults.cpu(destination),
            memory_source: group.faults.memory(source),
            memory_destination: group.faults.memory(destination),
        })
    }

    /// Bounds of a task's scan period.
    pub fn scan_periods(&self, rules: Rules, task: TaskId, rss: u64) -> ScanPeriods {
        rules.scan_periods(rss, self.sharing(task))
    }

    fn sharing(&self, task: TaskId) -> Option<GroupSharing> {
        self.group(task).map(|group| GroupSharing {
            refs: group.tasks as u64,
            shared: group.faults.shared(),
            private: group.faults.private(),
        })
    }

    fn place_if_due(
        &mut self,
        rules: Rules,
        task: TaskId,
        clock: TaskClock,
        cpu_node: Node,
        mm: FaultedMm,
    ) -> FaultOutcome {
        let mut outcome = FaultOutcome::default();
        if clock.now <= self.tasks[task.0 as usize].migrate_retry {
            return outcome;
        }
        if self.tasks[task.0 as usize].scan_seq != mm.scan.scan_seq {
            self.place(rules, task, clock, mm);
            outcome.placed = Some(self.tasks[task.0 as usize].preferred);
        }
        let own = &mut self.tasks[task.0 as usize];
        if own.preferred.is_some() {
            // The kernel divides the period in jiffies.
            own.migrate_retry = clock.now + HZ.min(jiffies(own.scan_period.into()) / 16);
            outcome.wants_to_move = own.preferred != Some(cpu_node);
        }
        outcome
    }

    /// Places a task at the end of a sequence (`task_numa_placement`).
    fn place(&mut self, rules: Rules, task: TaskId, clock: TaskClock, mm: FaultedMm) {
        let before = self.scan_periods(rules, task, mm.rss);
        let own = &mut self.tasks[task.0 as usize];
        own.scan_seq = mm.scan.scan_seq;
        own.scan_period_max = before.max;
        let (runtime, period) = match own.last_placement {
            0 => (clock.load_sum, policy::LOAD_AVG_MAX),
            // CPUs' clocks differ, and those of recordings may too: a task that moved may seem to have run
            // for less time than before.
            last => (clock.runtime_ns.saturating_sub(own.last_runtime), clock.now_ns.saturating_sub(last)),
        };
        own.last_placement = clock.now_ns;
        own.last_runtime = clock.runtime_ns;
        let mut group = own.group.map(|group| &mut self.groups[group]);
        let decayed = policy::decay(own, group.as_mut().map(|group| &mut group.faults), runtime, period);
        // The node itself, or the nearest one with CPUs (`numa_nearest_node` with `N_CPU`).
        let (distances, with_cpus) = (&self.links.distances, self.links.with_cpus);
        let mut best = decayed.best.map(|best| match with_cpus.has(best) {
            true => best,
            false => with_cpus.nearest(&distances[best.index()]).unwrap_or(best),
        });
        if let Some(group) = group {
            (group.active_nodes, group.max_cpu_faults) = policy::active_nodes(&group.faults);
            best = best.map(|best| policy::preferred_group_node(&group.faults, best, &self.links));
        }
        if best.is_some() {
            own.preferred = best;
        }
        let (period, period_max, locality) = (own.scan_period, own.scan_period_max, own.locality);
        let sharing = self.sharing(task);
        let scanning = ScanningTask { rss: mm.rss, sharing, period, period_max, locality };
        let update = rules.update_period(&scanning, &decayed);
        let own = &mut self.tasks[task.0 as usize];
        own.scan_period = update.period;
        if update.puts_off_scan {
            mm.scan.next_scan = clock.now + jiffies(u64::from(update.period));
        }
        if update.clears_locality {
            own.locality = Locality::default();
        }
    }

    /// Removes a task that ends from its group.
    pub fn exit(&mut self, task: TaskId) {
        self.leave_group(task);
        self.tasks[task.0 as usize].faults = None;
    }
}
