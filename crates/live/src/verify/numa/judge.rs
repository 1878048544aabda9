//! Each recorded decision beside the twin's, given what the kernel had decided until then.
//!
//! ```text
//!   fault     page, thread, CPU, who was there ─► who was there? the filter's answer?
//!                                              └► statistics ─► preferred node, does the thread want to move?
//!   work      the thread's state               ─► the same? may it scan?
//!   pass      entries changed, range by range  ─► the same ranges? the same VMAs skipped, and why?
//! ```
//!
//! What is no decision of NUMA balancing is taken from the recording: how many entries a range had to change, whether a
//! page that should move did, whether a thread found a CPU on its node. After a difference the twin takes over the kernel's
//! state, so that one does not lead to others.

use std::collections::{BTreeMap, HashMap};

use machine::{Cpu, Node};
use mm::Features;
use mm::numa::cpupid::Cpupid;
use mm::numa::migrate::policy::{self as migration, FaultFlags, Mempolicy, Nodes};
use mm::numa::placement::policy::{LOAD_AVG_MAX, Locality};
use mm::numa::placement::{CountedFault, FaultedMm, Kind, TaskClock, TaskId, TaskNuma};
use mm::numa::scan;
use mm::numa::scan::policy::{self as scanning, Scanner};
use mm::numa::{Rules, Tasks};
use mm::sysctl::Settings;

use super::placements::Placements;
use super::recording::{Case, Decision, Fault, Recording};
use super::ticks::Ticks;
use super::vmas::{RecordedVmas, vmas_of};
use crate::verify::{Agreement, Causes, Entry};

/// Pages of a process besides its buffer, where it was not recorded how many are resident: stacks, text, libraries.
const OTHER_PAGES: u64 = 100;
const PAGES_OF_MIB: u64 = 256;
/// Those of a page that one entry of a PMD maps.
const PAGES_OF_HUGE_PAGE: u64 = 2 * PAGES_OF_MIB;

struct AddressSpace {
    scan: scan::MmScan,
    vmas: RecordedVmas,
    /// Who was last at each folio, by its first page.
    last: HashMap<u64, Cpupid>,
    threads: i32,
    rss: u64,
    started: bool,
    /// Passes that have not ended. Several can be under way: each begins where the last one that ended has stopped.
    scanning: Vec<Pass>,
}

/// What is known when a pass ends.
struct Pass {
    end: u64,
    /// How many sequences it has ended.
    sequences: i32,
    scan_offset: u64,
}

impl AddressSpace {
    /// It is `time`: passes may have ended.
    fn advance(&mut self, time: u64) {
        self.scanning.sort_by_key(|pass| pass.end);
        for pass in self.scanning.extract_if(.., |pass| pass.end <= time) {
            self.scan.scan_seq += pass.sequences;
            self.scan.scan_offset = pass.scan_offset;
        }
    }
}

struct Judge<'a> {
    features: &'a Features,
    settings: Settings,
    recording: &'a Recording,
    decisions: &'a [Decision],
    ticks: Ticks,
    placements: Placements,
    /// When each thread took its last fault or made its last decision.
    seen_last: BTreeMap<u32, u64>,
    /// Faults that each thread has taken.
    taken: BTreeMap<u32, usize>,
    /// Decisions of each thread that have not been looked at, by number, the next one last.
    ahead: BTreeMap<u32, Vec<usize>>,
    tasks: Tasks,
    ids: BTreeMap<u32, TaskId>,
    spaces: Vec<AddressSpace>,
    space_of: BTreeMap<u32, usize>,
    running: Vec<Option<u32>>,
    tally: BTreeMap<&'static str, Agreement>,
}

/// The entries of a case: the kernel's number is that of all decisions of a kind, the twin's that of those which agree.
pub fn entries(
    name: &str,
    features: &Features,
    recording: &Recording,
    case: &Case,
    faults: &[Fault],
    decisions: &[Decision],
) -> Vec<Entry> {
    let settings = case.settings().expect("they were checked when the recording was opened");
    let mut ahead: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, decision) in decisions.iter().enumerate().rev() {
        ahead.entry(decision.tid).or_default().push(number);
    }
    let scan_pages = settings.numa.scan_size_mb * PAGES_OF_MIB;
    let space = |(number, threads): (usize, &Vec<u32>)| AddressSpace {
        scan: scan::MmScan::default(),
        vmas: vmas_of(threads, decisions, scan_pages),
        last: HashMap::new(),
        threads: threads.len() as i32 + i32::from(!case.first_threads_touch),
        rss: resident_pages(case, number),
        started: false,
        scanning: Vec::new(),
    };
    let mut judge = Judge {
        features,
        settings,
        recording,
        decisions,
        ticks: Ticks::new(decisions),
        placements: Placements::new(faults, decisions),
        seen_last: seen_last(faults, decisions),
        taken: BTreeMap::new(),
        ahead,
        tasks: Tasks::new(recording.distances.clone(), Nodes::of_all(&recording.node_of_cpu)),
        ids: BTreeMap::new(),
        spaces: case.processes.iter().enumerate().map(space).collect(),
        space_of: BTreeMap::new(),
        running: vec![None; recording.node_of_cpu.len()],
        tally: BTreeMap::new(),
    };
    for (number, threads) in case.processes.iter().enumerate() {
        judge.space_of.extend(threads.iter().map(|&tid| (tid, number)));
    }
    let counted = counted_by(faults);
    let mut next = faults.iter().zip(counted).peekable();
    for (number, decision) in decisions.iter().enumerate() {
        while let Some((fault, _)) = next.next_if(|&(_, counted)| counted <= decision.time) {
            judge.fault(fault);
        }
        match decision.event.as_str() {
            "work" => judge.work(number),
            "sched_migrate_task" => judge.moved(decision),
            _ => {}
        }
    }
    next.for_each(|(fault, _)| judge.fault(fault));
    judge.entries(name)
}

/// Resident pages of a process.
fn resident_pages(case: &Case, process: usize) -> u64 {
    let known = case.resident_pages.get(process).copied();
    known.unwrap_or(case.buffer_mib * PAGES_OF_MIB + OTHER_PAGES)
}

/// When each thread took its last fault or made its last decision.
fn seen_last(faults: &[Fault], decisions: &[Decision]) -> BTreeMap<u32, u64> {
    let mut last = BTreeMap::new();
    let faults = faults.iter().map(|fault| (fault.tid, fault.time));
    for (tid, time) in faults.chain(decisions.iter().map(|decision| (decision.tid, decision.time))) {
        let known = last.entry(tid).or_insert(time);
        *known = time.max(*known);
    }
    last
}

/// When each fault has to be looked at: as soon as it or any that began after it is counted.
fn counted_by(faults: &[Fault]) -> Vec<u64> {
    let mut counted: Vec<u64> = faults.iter().map(|fault| fault.time).collect();
    for fault in (1..counted.len()).rev() {
        counted[fault - 1] = counted[fault - 1].min(counted[fault]);
    }
    counted
}

impl Judge<'_> {
    fn entries(self, name: &str) -> Vec<Entry> {
        let entry = |(counter, agreement): (&'static str, Agreement)| {
            Entry::new(name, counter, agreement.all, agreement.exact, Causes::default())
        };
        self.tally.into_iter().map(entry).collect()
    }

    fn count(&mut self, kind: &'static str, equal: bool) {
        self.tally.entry(kind).or_default().note(equal);
    }

    fn node(&self, cpu: u16) -> Node {
        Node(self.recording.node_of_cpu[usize::from(cpu) % self.recording.node_of_cpu.len()])
    }

    fn task(&mut self, tid: u32) -> TaskId {
        let (tasks, settings) = (&mut self.tasks, &self.settings.numa);
        *self.ids.entry(tid).or_insert_with(|| tasks.add(TaskNuma::new(tid, settings)))
    }

    fn fault(&mut self, fault: &Fault) {
        let Some(&space) = self.space_of.get(&fault.tid) else { return };
        let task = self.task(fault.tid);
        self.spaces[space].advance(fault.time);
        self.running[usize::from(fault.cpu)] = Some(fault.tid);
        let known = self.spaces[space].last.get(&fault.first_page()).copied().unwrap_or(Cpupid::UNSET);
        self.count("who was there last", known == Cpupid::from_bits(fault.last));
        self.compare_filter(fault, task);
        self.note_access(fault, space);
        self.compare_placement(fault, task, space);
    }

    /// Compares whether the page may move, and where to.
    fn compare_filter(&mut self, fault: &Fault, task: TaskId) {
        let here = self.node(fault.filter.map_or(fault.cpu, |filter| filter.cpu));
        let last = Cpupid::from_bits(fault.last);
        let page = match fault.filter {
            Some(filter) => Node(filter.source),
            None if FaultFlags(fault.flags).has(FaultFlags::FAULT_LOCAL) => here,
            None => Node(fault.node),
        };
        let mut asked = None;
        let cpus = self.recording.node_of_cpu.len();
        let own = self.tasks.get(task);
        let (preferred, task_scan_seq) = (own.preferred, own.scan_seq);
        let target = migration::misplaced(
            &Mempolicy::default_on(here),
            here,
            page,
            0,
            &self.recording.distances,
            |to| {
                let answer = migration::may_migrate(&migration::Fault {
                    pid: fault.tid,
                    last,
                    last_node: last.is_valid(cpus).then(|| self.node(last.cpu().0)),
                    destination: to,
                    preferred,
                    task_scan_seq,
                    group: self.tasks.group_use(task, page, to),
                    from_slow_memory: false,
                });
                asked = Some(answer);
                answer
            },
        );
        if let Some(filter) = fault.filter {
            let equal = asked == Some(filter.answer) && target.map(|node| node.0) == fault.misplaced;
            self.count("filter's answer", equal);
        }
    }

    /// Notes who is known to have used the folio from now on.
    fn note_access(&mut self, fault: &Fault, space: usize) {
        let f = &self.features.numa;
        let has_moved = FaultFlags(fault.flags).has(FaultFlags::MIGRATED);
        let is_huge = u64::from(fault.pages) == PAGES_OF_HUGE_PAGE;
        let now_there = match fault.filter {
            // The programs store.
            Some(_) if has_moved && !migration::is_remembered_after_store(f, is_huge) => Cpupid::UNSET,
            Some(filter) => Cpupid::new(Cpu(filter.cpu), fault.tid),
            None => Cpupid::from_bits(fault.last),
        };
        let of = &mut self.spaces[space];
        of.last.insert(fault.first_page(), now_there);
        of.vmas.touched(f, fault.page, fault.tid);
    }

    /// Compares what the fault does to the thread: its preferred node, and whether it wants to move there.
    fn compare_placement(&mut self, fault: &Fault, task: TaskId, space: usize) {
        let last = Cpupid::from_bits(fault.last);
        let cpus = self.recording.node_of_cpu.len();
        let counted = CountedFault {
            last,
            node: Node(fault.node),
            cpu_node: Node(self.recording.node_of_cpu[usize::from(fault.cpu)]),
            pages: fault.pages.into(),
            flags: FaultFlags(fault.flags),
        };
        let taken = self.taken.entry(fault.tid).or_default();
        let number = std::mem::replace(taken, *taken + 1);
        let (recorded, attempt) = self.after_fault(fault, self.placements.fault_after(fault.tid, number));
        let was_due = attempt.is_some() || !recorded.is_empty();
        let clock = TaskClock {
            now: self.now(fault, number, task, counted.cpu_node, space, was_due),
            now_ns: fault.time * 1000,
            runtime_ns: fault.time * 1000,
            load_sum: LOAD_AVG_MAX,
        };
        let other = self.running[usize::from(last.cpu().0).min(cpus - 1)]
            .filter(|_| last.is_valid(cpus))
            .and_then(|tid| Some((*self.ids.get(&tid)?, self.space_of.get(&tid) == Some(&space))));
        let rules = Rules::own(&self.features.numa, &self.settings.numa);
        let AddressSpace { scan, rss, .. } = &mut self.spaces[space];
        let before = self.tasks.get(task).preferred;
        let outcome = self.tasks.fault(rules, task, clock, &counted, other, FaultedMm { scan, rss: *rss });
        let mut changes: Vec<u8> = Vec::new();
        let mut preferred = before;
        if let Some(placed) = outcome.placed
            && placed != before
        {
            changes.extend(placed.map(|node| node.0));
            preferred = placed;
        }
        if outcome.wants_to_move || attempt.is_some() {
            self.count("thread wants to move", outcome.wants_to_move == attempt.is_some());
        }
        if let Some(node) = attempt.filter(|_| self.tasks.group(task).is_some())
            && Some(Node(node)) != preferred
        {
            changes.push(node);
        }
        if !recorded.is_empty() || !changes.is_empty() {
            self.count("preferred node changes", recorded == changes);
        }
        if let Some(&node) = recorded.last() {
            self.tasks.set_preferred(task, Node(node));
        } else {
            self.tasks.get_mut(task).preferred = before;
        }
    }

    /// The jiffy of a fault. The kernel counts ticks up to one later than the timer, so what it did at one decides: when it
    /// placed the thread, and when it looked for a CPU.
    fn now(
        &self,
        fault: &Fault,
        number: usize,
        task: TaskId,
        cpu_node: Node,
        space: usize,
        was_due: bool,
    ) -> u64 {
        let now = self.ticks.at(fault.time);
        let own = self.tasks.get(task);
        let ends_sequence = own.scan_seq != self.spaces[space].scan.scan_seq;
        let placement = self.placements.next(fault.tid, number);
        if ends_sequence && let Some(placement) = placement {
            if placement.fault == number && now == own.migrate_retry {
                return now + 1;
            }
            if placement.fault > number && now > own.migrate_retry && self.ticks.at(placement.time) <= now + 1
            {
                return own.migrate_retry;
            }
        }
        let moves = own.preferred.is_some_and(|preferred| preferred != cpu_node);
        match now.cmp(&(own.migrate_retry + 1)) {
            std::cmp::Ordering::Less if was_due && now == own.migrate_retry => now + 1,
            std::cmp::Ordering::Equal if moves && !was_due => now - 1,
            _ => now,
        }
    }

    /// The scheduler moved a thread to another CPU.
    fn moved(&mut self, decision: &Decision) {
        let [Some(pid), Some(from), Some(to)] =
            ["pid", "orig_cpu", "dest_cpu"].map(|name| decision.field(name))
        else {
            return;
        };
        let Some(&space) = self.space_of.get(&(pid as u32)) else { return };
        let task = self.task(pid as u32);
        let (from, to) = (self.node(from as u16), self.node(to as u16));
        let start = self
            .tasks
            .scan_periods(Rules::own(&self.features.numa, &self.settings.numa), task, self.spaces[space].rss)
            .start;
        let own = self.tasks.get_mut(task);
        let is_home = |node: Node| own.preferred == Some(node);
        if from != to
            && own.faults.is_some()
            && scanning::restarts_period_on_move(
                own.scan_seq,
                is_home(to),
                own.preferred.is_some(),
                is_home(from),
            )
        {
            own.scan_period = start;
        }
    }

    /// Preferred nodes that a thread got with a fault, and the node that it was to move to, if it tried: its own if it
    /// found no place. `until`: the next fault of the thread.
    fn after_fault(&mut self, fault: &Fault, until: u64) -> (Vec<u8>, Option<u8>) {
        let mut changes = Vec::new();
        let mut attempt = None;
        let Some(ahead) = self.ahead.get_mut(&fault.tid) else { return (changes, attempt) };
        while let Some(&number) = ahead.last() {
            let decision = &self.decisions[number];
            let late = decision.time >= until || decision.event == "work";
            if decision.time >= fault.time && (late || attempt.is_some()) {
                break;
            }
            match decision.event.as_str() {
                "work" if decision.time >= fault.time => break,
                "setnuma" if decision.time >= fault.time => changes.extend(decision.node("nid")),
                "sched_stick_numa" if decision.time >= fault.time => attempt = decision.node("src_nid"),
                "sched_move_numa" | "sched_swap_numa" if decision.time >= fault.time => {
                    attempt = decision.node("dst_nid");
                }
                _ => {}
            }
            ahead.pop();
        }
        (changes, attempt)
    }

    /// A thread reached `task_numa_work`.
    fn work(&mut self, number: usize) {
        let decision = &self.decisions[number];
        let Some(&space) = self.space_of.get(&decision.tid) else { return };
        let task = self.task(decision.tid);
        self.running[usize::from(decision.cpu)] = Some(decision.tid);
        if let Some(ahead) = self.ahead.get_mut(&decision.tid) {
            while ahead.last().is_some_and(|&of| of <= number) {
                ahead.pop();
            }
        }
        let events = self.pass_events(number);
        self.spaces[space].advance(decision.time);
        self.compare_state(task, decision);
        // Placement copies the number of a sequence that has begun.
        let begun = self.tasks.get(task).scan_seq;
        self.spaces[space].scan.scan_seq = self.spaces[space].scan.scan_seq.max(begun);
        let mm = &mut self.spaces[space];
        let now = self.ticks.at(decision.time);
        if !std::mem::replace(&mut mm.started, true) && !events.is_empty() {
            mm.scan.next_scan = now;
        }
        let period = self.tasks.get(task).scan_period;
        let mut claimed = mm.scan;
        let may = scanning::is_due(&mut claimed, &self.settings.numa, now);
        if may {
            scanning::claim(&mut claimed, period, now);
        }
        let due = mm.scan.next_scan;
        let scanned = !events.is_empty();
        // A tick more or less is not known, so within one the recording decides.
        if may == scanned || now.abs_diff(due) > 1 {
            self.count("may scan", may == scanned);
        }
        let end = events.last().map_or(decision.time, |event| event.time);
        let is_whole = self.is_seen_after(decision.tid, end);
        let mm = &mut self.spaces[space];
        if !scanned {
            if mm.scan.next_scan == 0 {
                mm.scan = claimed;
            }
            return;
        }
        scanning::claim(&mut mm.scan, period, now);
        let scanner = Scanner { pid: decision.tid, nr_threads: mm.threads, started: now, forced: false };
        let mut after = mm.scan;
        mm.vmas.begin(events, now);
        let rules = Rules::own(&self.features.numa, &self.settings.numa);
        scan::pass(rules, &mut after, scanner, &mut mm.vmas);
        let verdicts = mm.vmas.end(is_whole);
        if verdicts.ranges.contains(&false) {
            mm.vmas.take_over(mm.scan, &mut after);
        }
        let sequences = after.scan_seq - mm.scan.scan_seq;
        mm.scanning.push(Pass { end, sequences, scan_offset: after.scan_offset });
        verdicts.ranges.iter().for_each(|&equal| self.count("ranges scanned", equal));
        verdicts.skips.iter().for_each(|&equal| self.count("VMAs skipped, and why", equal));
    }

    /// Whether a thread did something after `time`, so that all of a pass that ended then is there. The recording ends
    /// before the last passes do.
    fn is_seen_after(&self, tid: u32, time: u64) -> bool {
        self.seen_last.get(&tid).is_some_and(|&last| last > time)
    }

    fn compare_state(&mut self, task: TaskId, decision: &Decision) {
        let field = |name: &str| decision.field(name).unwrap_or(u64::MAX);
        let own = self.tasks.get(task);
        let preferred = decision.node("pref").map(Node);
        let locality =
            Locality { remote: field("loc_remote"), local: field("loc_local"), failed: field("loc_fail") };
        let total = own.faults.as_ref().map_or(0, |faults| faults.total);
        let equal = [
            ("task: scan_seq", own.scan_seq as u64 == field("seq")),
            ("task: scan period", u64::from(own.scan_period) == field("period")),
            ("task: preferred node", own.preferred == preferred),
            ("task: faults, decayed", total == field("total")),
            ("task: faults, remote, local, failed", own.locality == locality),
            ("task: pages migrated", own.pages_migrated == field("migrated")),
        ];
        for (kind, equal) in equal {
            self.count(kind, equal);
        }
        let own = self.tasks.get_mut(task);
        own.scan_seq = field("seq") as i32;
        own.scan_period = field("period") as u32;
        own.scan_period_max = field("period_max") as u32;
        own.preferred = preferred;
        own.locality = locality;
        own.pages_migrated = field("migrated");
        // By node is not known; most are on the one that it prefers.
        if let (Some(faults), Some(node)) = (&mut own.faults, preferred) {
            faults.add(Kind::Memory, node, true, field("total").wrapping_sub(total));
        }
    }

    /// What a pass did: the events of the thread that follow its call, but for moves of others that interrupt it.
    fn pass_events(&self, number: usize) -> Vec<Decision> {
        let tid = self.decisions[number].tid;
        let own = self.decisions[number + 1..].iter().filter(|decision| decision.tid == tid);
        own.filter(|decision| decision.event != "sched_migrate_task")
            .take_while(|decision| {
                matches!(decision.event.as_str(), "cpn" | "cpnret" | "sched_skip_vma_numa")
            })
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::Filter;
    use super::*;
    use mm::Variant;

    const TASK: u32 = 7;

    fn recording() -> Recording {
        Recording {
            kernel: "6.18.15".into(),
            machine: "two nodes".into(),
            node_of_cpu: vec![0, 1],
            distances: vec![vec![10, 20], vec![20, 10]],
            cases: Vec::new(),
            directory: Default::default(),
        }
    }

    /// A thread on node 0 takes two faults in what is one huge page, on node 0, and then says what it has counted.
    fn judged(pages: u32, counted: u64) -> Vec<Entry> {
        let case = Case {
            name: "huge".into(),
            faults: 2,
            lost: 0,
            large_folios: true,
            buffer_mib: 64,
            resident_pages: Vec::new(),
            processes: vec![vec![TASK]],
            first_threads_touch: false,
            settings: BTreeMap::new(),
        };
        let filter = Some(Filter { source: 0, cpu: 0, answer: true });
        let first = Fault {
            time: 1000,
            cpu: 0,
            tid: TASK,
            page: 1024 + 3,
            misplaced: None,
            filter,
            last: Cpupid::UNSET.bits(),
            node: 0,
            flags: FaultFlags::FAULT_LOCAL.0,
            pages,
        };
        let again = Fault { time: 2000, page: 1024 + 300, last: Cpupid::new(Cpu(0), TASK).bits(), ..first };
        let fields = [("loc_local", counted), ("loc_remote", 0), ("loc_fail", 0)];
        let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value));
        let work = Decision::new(3000, 0, TASK, "work", fields);
        let features = Variant::of_release("6.18").unwrap().features;
        entries("huge", &features, &recording(), &case, &[first, again], &[work])
    }

    #[test]
    fn a_fault_on_a_huge_page_is_one_of_all_its_pages() {
        let agreeing = |entries: &[Entry], counter: &str| {
            let entry = entries.iter().find(|entry| entry.counter == counter).unwrap();
            (entry.twin, entry.kernel)
        };
        let whole = judged(512, 1024);
        assert_eq!(agreeing(&whole, "who was there last"), (2, 2));
        assert_eq!(agreeing(&whole, "task: faults, remote, local, failed"), (1, 1));
        // As two pages, nobody was at the second, and two were counted.
        let single = judged(1, 1024);
        assert_eq!(agreeing(&single, "who was there last"), (1, 2));
        assert_eq!(agreeing(&single, "task: faults, remote, local, failed"), (0, 1));
    }
}
