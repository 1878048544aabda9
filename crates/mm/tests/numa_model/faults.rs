//! Hint faults: whether the page migrates, what is counted, and the scan period that follows.
//!
//! ```text
//!   PROT_NONE page ─► bit in the record ─► counters ─► misplaced, and the filter allows it? ─► it migrates
//!                                                                                              │
//!   MEMBUF, CPUBUF, locality ◄── private or shared, groups ◄───────────────────────────────────┘
//!     └─ a new sequence: old counts are halved, preferred node, period
//! ```

use super::scan::bit;
use super::{Kernel, Model, UNSET, node, ticks};

/// Faults by node, each as shared and private.
pub type Counts = [[u64; 2]; 2];

/// The fault statistics of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub mem: Counts,
    pub cpu: Counts,
    pub membuf: Counts,
    pub cpubuf: Counts,
}

/// A group of tasks that share memory (`struct numa_group`).
#[derive(Clone, Debug)]
pub struct Group {
    pub tasks: u64,
    pub mem: Counts,
    pub cpu: Counts,
    pub active_nodes: usize,
    pub max_cpu: u64,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Task {
    pub process: usize,
    pub pid: u32,
    pub is_alive: bool,
    pub cpu: Option<usize>,
    pub ran_ns: u64,
    pub since_ns: u64,
    pub node_stamp: u64,
    pub scan_seq: i32,
    /// In milliseconds.
    pub scan_period: u64,
    pub migrate_retry: u64,
    pub preferred: Option<usize>,
    pub faults: Option<Faults>,
    /// Remote and local faults.
    pub locality: [u64; 2],
    pub pages_migrated: u64,
    pub group: Option<usize>,
    last_placement: u64,
    last_runtime: u64,
}

impl Task {
    pub fn new(process: usize, pid: u32, scan_period: u64, scan_seq: i32) -> Task {
        Task {
            process,
            pid,
            is_alive: true,
            cpu: None,
            ran_ns: 0,
            since_ns: 0,
            node_stamp: 0,
            scan_seq,
            scan_period,
            migrate_retry: 0,
            preferred: None,
            faults: None,
            locality: [0; 2],
            pages_migrated: 0,
            group: None,
            last_placement: 0,
            last_runtime: 0,
        }
    }
}

/// The bounds of a scan period, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    pub min: u64,
    pub max: u64,
    pub start: u64,
}

fn sum(counts: &Counts, node: usize) -> u64 {
    counts[node][0] + counts[node][1]
}

impl Model {
    pub fn periods(&self, task: usize) -> Periods {
        let rss = self.processes[self.tasks[task].process].pages.len() as u64;
        let windows = rss.div_ceil(self.settings.scan_size_mb * 256).max(1);
        let floor = 1000 / (2560 / self.settings.scan_size_mb);
        let min = floor.max(self.settings.scan_period_min_ms / windows);
        let (mut start, mut max) = (min, self.settings.scan_period_max_ms / windows);
        if let Some(group) = self.tasks[task].group.map(|group| &self.groups[group]) {
            let [shared, private] = [0, 1].map(|kind| group.mem[0][kind] + group.mem[1][kind]);
            let stretched = |period: u64| period * group.tasks * (shared + 1) / (private + shared + 1);
            start = start.max(stretched(min));
            max = max.max(stretched(max));
        }
        Periods { min, max: max.max(min), start }
    }

    pub fn hint_fault(&mut self, cpu: usize, page: u64) {
        let task = self.running[cpu].unwrap();
        let process = self.tasks[task].process;
        let (here, pid, kernel) = (node(cpu), self.tasks[task].pid, self.kernel);
        let number = self.processes[process].pages[&page].folio;
        let may_write = {
            let process = &mut self.processes[process];
            let held = process.pages.get_mut(&page).unwrap();
            held.is_hidden = false;
            let area = process.areas.iter_mut().find(|area| area.pages().contains(&page)).unwrap();
            if kernel >= Kernel::VmaScanning2
                && let Some(record) = &mut area.record
            {
                record.words[1] |= bit(kernel, pid);
            }
            // can_change_pte_writable
            held.write |= area.rights.write && held.is_own;
            area.rights.write && held.write
        };
        let is_bound = self.processes[process].area(page).unwrap().is_bound;
        let last = self.folios[number].last;
        let is_local = self.folios[number].node == here;
        self.hint_faults += 1;
        self.hint_faults_local += u64::from(is_local);
        let moves = !is_local && !is_bound && {
            self.folios[number].last = (Some(cpu), pid % 256);
            self.may_follow(task, last, 1 - here, here)
        };
        if moves {
            self.folios[number].node = here;
            self.pages_migrated += 1;
            // Without pte_savedwrite the next store takes a fault, which forgets who touched the folio.
            self.processes[process].pages.get_mut(&page).unwrap().write = false;
        }
        self.count(cpu, task, last, (self.folios[number].node, is_local, moves), may_write);
    }

    /// Whether a folio on node `from` that `last` touched migrates to node `to` with a task.
    fn may_follow(&self, task: usize, last: (Option<usize>, u32), from: usize, to: usize) -> bool {
        let own = &self.tasks[task];
        let nobody = last.1 == 255;
        let same = last.1 == own.pid % 256;
        if (own.preferred.is_none() || own.scan_seq <= 4) && (nobody || same) {
            return true;
        }
        if !nobody && last.0.map(node) != Some(to) {
            return false;
        }
        let Some(group) = own.group.filter(|_| !same) else { return true };
        let group = &self.groups[group];
        let (cpu_to, cpu_from) = (sum(&group.cpu, to), sum(&group.cpu, from));
        let (mem_to, mem_from) = (sum(&group.mem, to), sum(&group.mem, from));
        cpu_to > 3 * cpu_from || cpu_to * mem_from * 3 > cpu_from * mem_to * 4
    }

    fn count(
        &mut self,
        cpu: usize,
        task: usize,
        last: (Option<usize>, u32),
        (mem_node, is_local, moved): (usize, bool, bool),
        may_write: bool,
    ) {
        if self.tasks[task].faults.is_none() {
            self.tasks[task].faults = Some(Faults::default());
            self.tasks[task].locality = [0; 2];
        }
        let is_private = if last == UNSET || last.1 == self.tasks[task].pid % 256 {
            true
        } else if may_write {
            self.meet(task, last)
        } else {
            false
        };
        let mut local = is_local;
        if !is_private
            && let Some(group) = self.tasks[task].group.map(|group| &self.groups[group])
            && group.active_nodes > 1
        {
            let is_active = |node: usize| 3 * sum(&group.cpu, node) > group.max_cpu;
            local |= is_active(node(cpu)) && is_active(mem_node);
        }
        let now = self.now();
        if now > self.tasks[task].migrate_retry {
            self.place(task);
            let own = &mut self.tasks[task];
            if own.preferred.is_some() {
                own.migrate_retry = now + 250.min(ticks(own.scan_period) / 16);
            }
        }
        let own = &mut self.tasks[task];
        own.pages_migrated += u64::from(moved);
        own.locality[usize::from(local)] += 1;
        let faults = own.faults.as_mut().unwrap();
        faults.membuf[mem_node][usize::from(is_private)] += 1;
        faults.cpubuf[node(cpu)][usize::from(is_private)] += 1;
    }

    /// A task touched a page that another one had touched last. Returns whether the two only look alike.
    fn meet(&mut self, task: usize, last: (Option<usize>, u32)) -> bool {
        if self.tasks[task].group.is_none() {
            let none = Group { tasks: 0, mem: [[0; 2]; 2], cpu: [[0; 2]; 2], active_nodes: 1, max_cpu: 0 };
            self.groups.push(none);
            self.enter_group(task, self.groups.len() - 1);
        }
        let own = self.tasks[task].group.unwrap();
        let Some(other) = self.running[last.0.unwrap()] else { return false };
        let other = &self.tasks[other];
        let Some(theirs) = other.group else { return false };
        let (own_size, size) = (self.groups[own].tasks, self.groups[theirs].tasks);
        // Of equal groups, the younger one joins the older.
        if other.pid % 256 != last.1 || theirs == own || own_size > size || own_size == size && own < theirs {
            return false;
        }
        if other.process != self.tasks[task].process {
            return true;
        }
        self.leave_group(task);
        self.enter_group(task, theirs);
        false
    }

    fn enter_group(&mut self, task: usize, group: usize) {
        self.tasks[task].group = Some(group);
        self.groups[group].tasks += 1;
        self.add_to_group(task, group, u64::wrapping_add);
    }

    pub fn leave_group(&mut self, task: usize) {
        let Some(group) = self.tasks[task].group.take() else { return };
        self.groups[group].tasks -= 1;
        self.add_to_group(task, group, u64::wrapping_sub);
    }

    fn add_to_group(&mut self, task: usize, group: usize, add: fn(u64, u64) -> u64) {
        let Some(faults) = self.tasks[task].faults else { return };
        let group = &mut self.groups[group];
        for (node, kind) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            group.mem[node][kind] = add(group.mem[node][kind], faults.mem[node][kind]);
            group.cpu[node][kind] = add(group.cpu[node][kind], faults.cpu[node][kind]);
        }
    }

    fn place(&mut self, task: usize) {
        let seq = self.processes[self.tasks[task].process].scan.scan_seq;
        if self.tasks[task].scan_seq == seq {
            return;
        }
        let period_max = self.periods(task).max;
        let (now_ns, runtime_ns) = (self.now_ns, self.runtime(task));
        let own = &mut self.tasks[task];
        own.scan_seq = seq;
        // A first placement uses all of the time that is remembered.
        let (runtime, period) = match own.last_placement {
            0 => (47742, 47742),
            last => (runtime_ns - own.last_runtime, now_ns - last),
        };
        (own.last_placement, own.last_runtime) = (now_ns, runtime_ns);
        let seen = own.locality[0] + own.locality[1];
        let faults = own.faults.as_mut().unwrap();
        let mut group = own.group.map(|group| &mut self.groups[group]);
        let mut new = [0; 2];
        let mut found = [0; 2];
        for node in [0, 1] {
            for kind in [0, 1] {
                let membuf = std::mem::take(&mut faults.membuf[node][kind]);
                let cpubuf = std::mem::take(&mut faults.cpubuf[node][kind]);
                new[kind] += membuf;
                let ran = (runtime << 16) / (period + 1) * cpubuf / (seen + 1);
                let (mem, cpu) = (faults.mem[node][kind], faults.cpu[node][kind]);
                faults.mem[node][kind] = mem - mem / 2 + membuf;
                faults.cpu[node][kind] = cpu - cpu / 2 + ran;
                if let Some(group) = &mut group {
                    group.mem[node][kind] = group.mem[node][kind] - mem + faults.mem[node][kind];
                    group.cpu[node][kind] = group.cpu[node][kind] - cpu + faults.cpu[node][kind];
                }
            }
            found[node] = sum(group.as_ref().map_or(&faults.mem, |group| &group.mem), node);
        }
        if found != [0, 0] {
            own.preferred = Some(usize::from(found[1] > found[0]));
        }
        if let Some(group) = group {
            let by_node = [sum(&group.cpu, 0), sum(&group.cpu, 1)];
            group.max_cpu = by_node[0].max(by_node[1]);
            group.active_nodes = by_node.iter().filter(|&&cpu| 3 * cpu > group.max_cpu).count();
        }
        self.adapt_period(task, period_max, new);
    }

    /// Adapts the period after a sequence with so many new faults, shared and private.
    fn adapt_period(&mut self, task: usize, period_max: u64, [shared, private]: [u64; 2]) {
        let bounds = self.periods(task);
        let now = self.now();
        let own = &mut self.tasks[task];
        let [remote, local] = own.locality;
        if local + shared == 0 {
            own.scan_period = period_max.min(2 * own.scan_period);
            self.processes[own.process].scan.next_scan = now + ticks(own.scan_period);
            if self.kernel == Kernel::V6_12_117 {
                own.locality = [0; 2];
            }
            return;
        }
        let slot = own.scan_period.div_ceil(10) as i64;
        let tenths = |part: u64, rest: u64| (10 * part / (part + rest).max(1)) as i64;
        let (local, private) = (tenths(local, remote), tenths(private, shared));
        let change = if private >= 7 {
            (private - 7).max(1) * slot
        } else if local >= 7 {
            (local - 7).max(1) * slot
        } else {
            -(7 - local.max(private)) * slot
        };
        let period = own.scan_period as i64 + change;
        own.scan_period = (period.max(bounds.min as i64) as u64).min(bounds.max);
        own.locality = [0; 2];
    }
}
