//! NUMA balancing against a slow, plain model of it ([`numa_model`]): whatever processes map, protect, fork
//! and touch, the same VMAs are scanned, the same PTEs made PROT_NONE and the same pages migrated, and the
//! same statistics follow, in every kernel.
//!
//! ```text
//!   steps ──┬──► MemoryManager ──┐ after each:   areas, records, offsets, sequences, PTEs, nodes of pages,
//!           └──► Model ──────────┘               reasons to skip, counters, faults, groups, periods
//!
//!   areas ──┬──► pass            ┐               ranges and reasons, in order
//!           └──► numa_model pass ┘
//! ```

mod numa_model;
mod reclaim_machine;

use machine::{Cpu, Machine, Node, Time};
use mm::address_space::{Advice, Backing, MmId, Pte, VmFlags};
use mm::jiffies::jiffies;
use mm::memcontrol::Memcg;
use mm::numa::Rules;
use mm::numa::migrate::policy::{Mempolicy, Mode, Nodes};
use mm::numa::placement::{FaultStats, Kind, TaskId};
use mm::numa::scan::policy::{Scanner, SkipReason, VmaTraits};
use mm::numa::scan::{MmScan, NumabState, Vmas, pass};
use mm::sysctl::NumaSettings;
use mm::xarray::FileId;
use mm::{Category, Event, MemoryManager, Series};
use numa_model::areas::{Area, Rights};
use numa_model::faults::Counts;
use numa_model::scan::{Reason, Record};
use numa_model::{Kernel, Model, Settings, Skipped};
use proptest::prelude::*;
use reclaim_machine::{CPUS, boot};
use std::collections::BTreeMap;
use std::ops::Range;

/// The pages that processes use; they span six page tables.
const FIRST: u64 = 700;
const PAGES: u64 = 2600;
/// The most processes and threads at a time, and the most pages of all of them.
const PROCESSES: usize = 4;
const TASKS: usize = 10;
const MAPPED: usize = 2000;

const READ_WRITE: Rights = Rights { read: true, write: true, exec: false };

#[derive(Clone, Debug)]
enum Step {
    Map { process: usize, pages: Range<u64>, of_file: bool },
    Unmap { process: usize, pages: Range<u64> },
    Protect { process: usize, pages: Range<u64>, rights: Rights },
    Advise { process: usize, pages: Range<u64>, random: bool },
    Bind { process: usize, pages: Range<u64>, bound: bool },
    Fork { process: usize },
    Exec { process: usize },
    Clone { task: usize },
    Exit { task: usize },
    Visit { process: usize, comes: bool },
    Run { cpu: usize, task: usize },
    Touch { cpu: usize, pages: Range<u64>, write: bool },
    Tick { cpu: usize, after_ms: u64 },
}

fn pages() -> impl Strategy<Value = Range<u64>> {
    let length = prop_oneof![1..40u64, 1..900u64];
    let any = (0..PAGES, length).prop_map(|(from, length)| FIRST + from..FIRST + (from + length).min(PAGES));
    // Pages that threads share.
    prop_oneof![4 => any, 1 => Just(FIRST + 300..FIRST + 340)]
}

fn step() -> impl Strategy<Value = Step> {
    let part = || (0..PROCESSES, pages());
    let rights = prop_oneof![
        Just(READ_WRITE),
        Just(Rights { write: false, ..READ_WRITE }),
        Just(READ_WRITE),
        Just(Rights { exec: true, ..READ_WRITE }),
        Just(Rights { read: false, write: false, exec: false }),
    ];
    let cpu = 0..usize::from(CPUS);
    prop_oneof![
        2 => (part(), prop::bool::weighted(0.2)).prop_map(|((process, pages), of_file)| Step::Map { process, pages, of_file }),
        1 => part().prop_map(|(process, pages)| Step::Unmap { process, pages }),
        2 => (part(), rights).prop_map(|((process, pages), rights)| Step::Protect { process, pages, rights }),
        1 => (part(), any::<bool>()).prop_map(|((process, pages), random)| Step::Advise { process, pages, random }),
        1 => (part(), any::<bool>()).prop_map(|((process, pages), bound)| Step::Bind { process, pages, bound }),
        1 => (0..PROCESSES).prop_map(|process| Step::Fork { process }),
        1 => (0..PROCESSES).prop_map(|process| Step::Exec { process }),
        3 => (0..TASKS).prop_map(|task| Step::Clone { task }),
        1 => (0..TASKS).prop_map(|task| Step::Exit { task }),
        1 => (0..PROCESSES, any::<bool>()).prop_map(|(process, comes)| Step::Visit { process, comes }),
        4 => (cpu.clone(), 0..TASKS).prop_map(|(cpu, task)| Step::Run { cpu, task }),
        20 => (cpu.clone(), pages(), prop::bool::weighted(0.7)).prop_map(|(cpu, pages, write)| Step::Touch { cpu, pages, write }),
        24 => (cpu, 1..40u64).prop_map(|(cpu, after_ms)| Step::Tick { cpu, after_ms }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let delay = prop_oneof![Just(8), Just(40), 1..200u64];
    (delay, 4..60u64, 1..300u64, prop::sample::select(vec![1, 2, 4u64])).prop_map(
        |(delay, min, more, size)| Settings {
            scan_delay_ms: delay,
            scan_period_min_ms: min,
            scan_period_max_ms: min + more,
            scan_size_mb: size,
        },
    )
}

/// The twin and the model side by side. Processes and tasks have the same numbers in both.
struct Both {
    machine: Machine<Category>,
    mm: MemoryManager,
    file: FileId,
    model: Model,
    /// The address space of each process; `None` once it has exited.
    spaces: Vec<Option<MmId>>,
    /// How often areas of processes that have exited were skipped. The twin's heat map adds to them those of
    /// the next address space with the same number.
    ended: BTreeMap<MmId, Skipped>,
    tasks: Vec<TaskId>,
}

impl Both {
    fn new(kernel: Kernel, settings: Settings) -> Both {
        let (_, name) = Kernel::ALL[kernel as usize];
        let (machine, mut mm) = boot(Series::NUMA.variant(name).unwrap());
        for (name, value) in [
            ("scan_delay_ms", settings.scan_delay_ms),
            ("scan_period_min_ms", settings.scan_period_min_ms),
            ("scan_period_max_ms", settings.scan_period_max_ms),
            ("scan_size_mb", settings.scan_size_mb),
        ] {
            mm.set(&format!("numa_balancing/{name}"), &value.to_string()).unwrap();
        }
        let file = mm.parts.page_cache.open_file();
        let model = Model::new(kernel, settings);
        let mut both =
            Both { machine, mm, file, model, spaces: Vec::new(), ended: BTreeMap::new(), tasks: Vec::new() };
        let space = both.mm.parts.create_mm(Memcg::ROOT);
        let task = both.model.start(both.pid());
        both.started(task, space);
        both.run_on(0, task);
        both.map(0, FIRST..FIRST + PAGES, false);
        both
    }

    /// The PID of the next task. One of them is 255 modulo 256, which stands for no task in a `cpupid`.
    fn pid(&self) -> u32 {
        250 + self.tasks.len() as u32
    }

    fn started(&mut self, task: usize, space: MmId) {
        let process = self.spaces.len();
        self.spaces.push(Some(space));
        self.model.processes[process].skipped = self.ended.remove(&space).unwrap_or_default();
        self.added(task, space, None);
    }

    fn added(&mut self, task: usize, space: MmId, creator: Option<usize>) {
        let pid = self.pid();
        let now = self.machine.now(Cpu(0));
        let creator = creator.map(|creator| self.tasks[creator]);
        self.tasks.push(self.mm.enter(&mut self.machine, Cpu(0)).add_task(now, space, pid, creator));
        assert_eq!(self.tasks.len() - 1, task);
    }

    fn run_on(&mut self, cpu: usize, task: usize) {
        let before = (0..4).find(|&other| self.model.running[other] == Some(task));
        for (cpu, task) in before.map(|cpu| (cpu, None)).into_iter().chain([(cpu, Some(task))]) {
            self.model.run(cpu, task);
            let task = task.map(|task| self.tasks[task]);
            self.mm.enter(&mut self.machine, Cpu(cpu as u16)).switch_task(task);
        }
    }

    fn map(&mut self, process: usize, pages: Range<u64>, of_file: bool) {
        let Some(space) = self.spaces[process] else { return };
        let (backing, flags) = match of_file {
            true => (Backing::File(self.file, pages.start as u32), VmFlags::READ),
            false => (Backing::Anonymous, VmFlags::PRIVATE),
        };
        let length = pages.end - pages.start;
        self.mm.enter(&mut self.machine, Cpu(0)).mmap_fixed(space, pages.start, length, backing, flags);
        let area = Area {
            start: pages.start,
            end: pages.end,
            rights: Rights { write: !of_file, ..READ_WRITE },
            is_random: false,
            is_bound: false,
            file: of_file.then_some(pages.start),
            record: None,
        };
        self.model.map(process, area);
    }

    /// Ends a process and its threads.
    fn end(&mut self, process: usize) {
        let threads = (0..self.tasks.len())
            .filter(|&task| self.model.tasks[task].is_alive && self.model.tasks[task].process == process);
        for task in threads.collect::<Vec<_>>() {
            self.exit_task(task);
        }
        if let Some(space) = self.spaces[process].take() {
            self.mm.enter(&mut self.machine, Cpu(0)).exit_mm(space);
            self.ended.insert(space, std::mem::take(&mut self.model.processes[process].skipped));
        }
        self.model.exit(process);
    }

    fn exit_task(&mut self, task: usize) {
        let cpu = (0..4).find(|&cpu| self.model.running[cpu] == Some(task));
        if let Some(cpu) = cpu {
            self.mm.enter(&mut self.machine, Cpu(cpu as u16)).switch_task(None);
        }
        self.mm.parts.exit_task(self.tasks[task]);
        self.model.exit_task(task);
    }

    fn step(&mut self, step: &Step) {
        let process = |process: usize| process % self.spaces.len();
        let living = || (0..self.tasks.len()).filter(|&task| self.model.tasks[task].is_alive);
        let task = |task: usize| living().nth(task % living().count());
        match step.clone() {
            Step::Map { process: number, pages, of_file } => self.map(process(number), pages, of_file),
            Step::Unmap { process: number, pages } => {
                let process = process(number);
                let Some(space) = self.spaces[process] else { return };
                self.mm.enter(&mut self.machine, Cpu(0)).munmap(space, pages.clone());
                self.model.unmap(process, pages);
            }
            Step::Protect { process: number, pages, rights } => {
                let process = process(number);
                let Some(space) = self.spaces[process] else { return };
                self.mm.parts.mprotect(space, pages.clone(), flags(rights));
                self.model.protect(process, pages, rights);
            }
            Step::Advise { process: number, pages, random } => {
                let process = process(number);
                let Some(space) = self.spaces[process] else { return };
                let advice = if random { Advice::Random } else { Advice::Normal };
                self.mm.enter(&mut self.machine, Cpu(0)).madvise(space, pages.clone(), advice);
                let areas = &mut self.model.processes[process].areas;
                numa_model::areas::change(areas, &pages, |area| area.is_random = random);
            }
            Step::Bind { process: number, pages, bound } => {
                let process = process(number);
                let Some(space) = self.spaces[process] else { return };
                let policy = Mempolicy {
                    mode: Mode::Bind(Nodes::of(Node(0))),
                    migrate_on_fault: false,
                    migrate_on_referencing_node: false,
                };
                self.mm.parts.address_spaces.mbind(space, pages.clone(), bound.then_some(policy));
                let areas = &mut self.model.processes[process].areas;
                numa_model::areas::change(areas, &pages, |area| area.is_bound = bound);
            }
            Step::Fork { process: number } => {
                let parent = process(number);
                let mapped = self.model.processes[parent].pages.len() + self.model.mapped();
                let (Some(space), true) = (self.spaces[parent], self.spaces.len() < PROCESSES) else {
                    return;
                };
                if mapped > MAPPED {
                    return;
                }
                let child = self.mm.enter(&mut self.machine, Cpu(0)).fork_mm(space);
                let task = self.model.fork(parent, self.pid());
                self.started(task, child);
            }
            Step::Exec { process: number } => {
                let process = process(number);
                if self.spaces.len() == PROCESSES || self.spaces[process].is_none() {
                    return;
                }
                self.end(process);
                let space = self.mm.parts.create_mm(Memcg::ROOT);
                let task = self.model.start(self.pid());
                self.started(task, space);
                self.map(self.spaces.len() - 1, FIRST..FIRST + PAGES / 2, false);
            }
            Step::Clone { task: number } => {
                let Some(creator) = task(number).filter(|_| self.tasks.len() < TASKS) else { return };
                let space = self.spaces[self.model.tasks[creator].process].unwrap();
                let thread = self.model.clone_thread(creator, self.pid());
                self.added(thread, space, Some(creator));
            }
            Step::Exit { task: number } => {
                let Some(task) = task(number) else { return };
                if self.model.processes[self.model.tasks[task].process].threads > 1 {
                    self.exit_task(task);
                }
            }
            Step::Visit { process: number, comes } => {
                let process = process(number);
                let Some(space) = self.spaces[process] else { return };
                let visitors = &mut self.model.processes[process].visitors;
                if comes {
                    self.mm.parts.address_spaces.mmget(space);
                    *visitors += 1;
                } else if *visitors > 0 {
                    self.mm.parts.address_spaces.mmput(space);
                    *visitors -= 1;
                }
            }
            Step::Run { cpu, task: number } => {
                if let Some(task) = task(number) {
                    self.run_on(cpu, task);
                }
            }
            Step::Touch { cpu, pages, write } => self.touch(cpu, pages, write),
            Step::Tick { cpu, after_ms } => {
                self.model.now_ns += after_ms * 1_000_000;
                let now = Time::from_nanoseconds(self.model.now_ns);
                (0..CPUS).for_each(|cpu| self.machine.wait_until(Cpu(cpu), Category::Program, now));
                for cpu in (0..4).map(|next| (cpu + next) % 4) {
                    self.mm.enter(&mut self.machine, Cpu(cpu as u16)).numa_tick();
                    self.model.tick(cpu);
                }
            }
        }
    }

    /// Touches those of `pages` whose rights allow it.
    fn touch(&mut self, cpu: usize, pages: Range<u64>, write: bool) {
        let Some(task) = self.model.running[cpu] else { return };
        let process = self.model.tasks[task].process;
        let space = self.spaces[process].unwrap();
        for page in pages {
            let lets =
                |area: &&Area| area.file.is_none() && area.rights.read && (area.rights.write || !write);
            if self.model.mapped() >= MAPPED
                || self.model.processes[process].area(page).filter(lets).is_none()
            {
                continue;
            }
            self.mm.enter(&mut self.machine, Cpu(cpu as u16)).touch(space, page, write).unwrap();
            self.model.touch(cpu, page, write);
        }
    }

    /// Panics if the twin and the model differ.
    fn check(&mut self) {
        self.mm.enter(&mut self.machine, Cpu(0)).lru_add_drain_all();
        let counted = [
            Event::NumaPteUpdates,
            Event::NumaHintFaults,
            Event::NumaHintFaultsLocal,
            Event::NumaPagesMigrated,
            Event::NumaScanPasses,
        ];
        let model = &self.model;
        assert_eq!(
            counted.map(|event| self.mm.counters().get(event)),
            [
                model.pte_updates,
                model.hint_faults,
                model.hint_faults_local,
                model.pages_migrated,
                model.passes
            ],
            "{counted:?}"
        );
        for (process, space) in self.spaces.iter().enumerate() {
            if let Some(space) = *space {
                self.check_process(process, space);
            }
        }
        for (task, &id) in self.tasks.iter().enumerate().filter(|&(task, _)| model.tasks[task].is_alive) {
            self.check_task(task, id);
        }
    }

    fn check_process(&self, process: usize, space: MmId) {
        let Model { kernel, processes, folios, .. } = &self.model;
        let expected = &processes[process];
        let own = self.mm.parts.address_spaces.mm(space);
        assert_eq!(own.numa_scan, scan_of(&expected.scan), "process {process}");
        let areas: Vec<_> = own.vmas.iter().map(|vma| (vma.pages(), vma.flags)).collect();
        let of = |area: &Area| {
            let advice = if area.is_random { VmFlags::RAND_READ } else { VmFlags::default() };
            (area.pages(), flags(area.rights).or(advice))
        };
        assert_eq!(areas, expected.areas.iter().map(of).collect::<Vec<_>>(), "process {process}");
        for area in &expected.areas {
            let record = own.vmas.numab(area.start).map(|record| known(*kernel, record));
            let wanted = area.record.map(|record| known(*kernel, state_of(&record)));
            assert_eq!(record, wanted, "area {:?} of process {process}", area.pages());
        }
        for page in FIRST..FIRST + PAGES {
            let entry = self.mm.parts.address_spaces.pte(space, page);
            let Some(held) = expected.pages.get(&page) else {
                assert_eq!(entry.folio(), None, "page {page} of process {process}");
                continue;
            };
            assert_eq!(entry.has(Pte::PROT_NONE), held.is_hidden, "page {page} of process {process}");
            assert_eq!(entry.has(Pte::WRITE), held.write, "page {page} of process {process}");
            let node = self.mm.parts.pages_by_node(space, page..page + 1);
            assert_eq!(node[folios[held.folio].node], 1, "page {page} of process {process}: {node:?}");
        }
        let heat = self.mm.parts.numa.heat().iter().filter(|&(mm, ..)| mm == space);
        for (_, start, vma) in heat {
            let skipped = expected.skipped.get(&(start >> 12)).copied().unwrap_or_default();
            assert_eq!(vma.skipped, skipped, "process {process}, area at page {}", start >> 12);
        }
        let told = expected.skipped.values().flatten().sum::<u64>();
        let heat = self.mm.parts.numa.heat().iter().filter(|&(mm, ..)| mm == space);
        assert_eq!(heat.flat_map(|(.., vma)| vma.skipped).sum::<u64>(), told);
    }

    fn check_task(&self, task: usize, id: TaskId) {
        let (own, expected) = (self.mm.parts.numa.tasks.get(id), &self.model.tasks[task]);
        let what = format!("task {task}");
        assert_eq!(own.node_stamp, expected.node_stamp, "{what}");
        assert_eq!(own.scan_seq, expected.scan_seq, "{what}");
        assert_eq!(u64::from(own.scan_period), expected.scan_period, "{what}");
        assert_eq!(own.migrate_retry, expected.migrate_retry, "{what}");
        assert_eq!(own.preferred.map(|node| node.index()), expected.preferred, "{what}");
        assert_eq!([own.locality.remote, own.locality.local], expected.locality, "{what}");
        assert_eq!(own.locality.failed, 0, "{what}");
        assert_eq!(own.pages_migrated, expected.pages_migrated, "{what}");
        let faults = own.faults.as_ref().map(|faults| {
            [Kind::Memory, Kind::Cpu, Kind::MemoryBuffer, Kind::CpuBuffer].map(|kind| counts(faults, kind))
        });
        let wanted = expected.faults.map(|faults| [faults.mem, faults.cpu, faults.membuf, faults.cpubuf]);
        assert_eq!(faults, wanted, "{what}");
        let group = self.mm.parts.numa.tasks.group(id);
        let group = group.map(|group| {
            let [memory, cpu] = [Kind::Memory, Kind::Cpu].map(|kind| counts(&group.faults, kind));
            (group.tasks as u64, memory, cpu, group.active_nodes, group.max_cpu_faults)
        });
        let wanted = expected.group.map(|group| {
            let group = &self.model.groups[group];
            (group.tasks, group.mem, group.cpu, group.active_nodes, group.max_cpu)
        });
        assert_eq!(group, wanted, "group of {what}");
    }
}

fn flags(rights: Rights) -> VmFlags {
    let flag = |is_set: bool, flag: VmFlags| if is_set { flag } else { VmFlags::default() };
    let read_write = flag(rights.read, VmFlags::READ).or(flag(rights.write, VmFlags::WRITE));
    read_write.or(flag(rights.exec, VmFlags::EXEC))
}

fn counts(faults: &FaultStats, kind: Kind) -> Counts {
    [0, 1].map(|node| [false, true].map(|private| faults.get(kind, Node(node), private)))
}

fn scan_of(scan: &numa_model::scan::MmScan) -> MmScan {
    MmScan { next_scan: scan.next_scan, scan_offset: scan.scan_offset << 12, scan_seq: scan.scan_seq }
}

fn state_of(record: &Record) -> NumabState {
    NumabState {
        next_scan: record.next_scan,
        pids: record.words,
        reset_at: record.reset_at,
        prev_scan_seq: record.prev_seq,
        start_scan_seq: record.start_seq,
    }
}

/// Those parts of a record that exist in a kernel.
fn known(kernel: Kernel, record: NumabState) -> NumabState {
    NumabState {
        next_scan: record.next_scan,
        pids: if kernel >= Kernel::VmaScanning2 { record.pids } else { [0; 2] },
        reset_at: if kernel >= Kernel::VmaScanning3 { record.reset_at } else { 0 },
        prev_scan_seq: if kernel >= Kernel::PartialVmas6 { record.prev_scan_seq } else { 0 },
        start_scan_seq: if kernel >= Kernel::V6_8 { record.start_scan_seq } else { 0 },
    }
}

fn kernel() -> impl Strategy<Value = Kernel> {
    prop::sample::select(Kernel::ALL.map(|(kernel, _)| kernel).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn processes_are_scanned_and_learnt_of(
        kernel in kernel(),
        settings in settings(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut both = Both::new(kernel, settings);
        for step in &steps {
            both.step(step);
            both.check();
        }
        both.mm.validate(0);
    }
}

/// Areas for passes without a machine, each with or without PTEs that change, and a clock that advances.
#[derive(Clone, Debug)]
struct Plain {
    areas: Vec<(Area, bool)>,
    records: Vec<Option<NumabState>>,
    scan: numa_model::scan::MmScan,
    clock: std::cell::Cell<u64>,
    told: Vec<(u64, SkipReason)>,
    ranges: Vec<Range<u64>>,
}

impl Plain {
    fn number(&self, start: u64) -> usize {
        self.areas.iter().position(|(area, _)| area.start << 12 == start).unwrap()
    }
}

impl Vmas for Plain {
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)> {
        let (area, _) = self.areas.iter().find(|(area, _)| area.end << 12 > address)?;
        let traits = VmaTraits {
            suitable: !area.is_bound,
            read_only_file: area.file.is_some() && area.rights.read && !area.rights.write,
            accessible: area.rights.read || area.rights.write || area.rights.exec,
        };
        Some((area.start << 12..area.end << 12, traits))
    }
    fn record(&mut self, start: u64) -> &mut Option<NumabState> {
        let number = self.number(start);
        &mut self.records[number]
    }
    fn change_prot(&mut self, start: u64, range: Range<u64>) -> u64 {
        self.ranges.push(range.start >> 12..range.end >> 12);
        u64::from(self.areas[self.number(start)].1)
    }
    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }
    fn traced(&mut self, start: u64, reason: SkipReason) {
        self.told.push((start >> 12, reason));
    }
}

/// Areas in ascending order, with gaps.
fn plain() -> impl Strategy<Value = Plain> {
    let small = 0..12u64;
    let record = (small.clone(), any::<[u8; 2]>(), 0..40u64, 0..6i32, 0..6i32);
    let record = record.prop_map(|(next_scan, words, reset_at, prev_scan_seq, start_scan_seq)| NumabState {
        next_scan,
        // The bits of PIDs 0 to 7, plain and as hashed from vma-scanning-4 on.
        pids: words.map(|word| {
            u64::from(word)
                | (0..8)
                    .filter(|pid| word >> pid & 1 != 0)
                    .fold(0, |bits, pid| bits | numa_model::scan::bit(Kernel::VmaScanning4, pid))
        }),
        reset_at,
        prev_scan_seq,
        start_scan_seq,
    });
    let kind = prop_oneof![8 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(3)];
    let area = (0..600u64, 1..3000u64, kind, any::<bool>(), prop::option::weighted(0.8, record));
    (prop::collection::vec(area, 0..8), 0..6i32, 0..20_000u64).prop_map(|(all, scan_seq, scan_offset)| {
        let mut plain = Plain {
            areas: Vec::new(),
            records: Vec::new(),
            scan: numa_model::scan::MmScan { scan_seq, scan_offset, next_scan: 0 },
            clock: std::cell::Cell::new(0),
            told: Vec::new(),
            ranges: Vec::new(),
        };
        let mut end = 1;
        for (gap, length, kind, changes, record) in all {
            let start = end + gap;
            end = start + length;
            let nothing = Rights { read: false, write: false, exec: false };
            let rights = [READ_WRITE, READ_WRITE, Rights { write: false, ..READ_WRITE }, nothing][kind];
            let area = Area {
                start,
                end,
                rights,
                is_random: false,
                is_bound: kind == 1,
                file: (kind == 2).then_some(0),
                record: None,
            };
            plain.areas.push((area, changes));
            plain.records.push(record);
        }
        plain
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several passes over the same areas, by threads that have touched them and by others.
    #[test]
    fn passes_meet_areas_in_the_same_order(
        kernel in kernel(),
        plain in plain(),
        settings in settings(),
        passes in prop::collection::vec((0..8u32, 1..5u32, 0..80u64), 1..12),
    ) {
        let (_, name) = Kernel::ALL[kernel as usize];
        let f = Series::NUMA.variant(name).unwrap().features.numa;
        let numa = NumaSettings {
            scan_delay_ms: settings.scan_delay_ms,
            scan_size_mb: settings.scan_size_mb,
            ..NumaSettings::default()
        };
        prop_assert_eq!(jiffies(settings.scan_delay_ms), numa_model::ticks(settings.scan_delay_ms));
        let mut plain = Plain { records: if kernel == Kernel::Base { vec![None; plain.areas.len()] } else { plain.records.clone() }, ..plain };
        let mut areas: Vec<Area> = plain.areas.iter().map(|(area, _)| area.clone()).collect();
        for (area, record) in areas.iter_mut().zip(&plain.records) {
            area.record = record.map(|record| Record {
                next_scan: record.next_scan,
                words: record.pids,
                reset_at: record.reset_at,
                prev_seq: record.prev_scan_seq,
                start_seq: record.start_scan_seq,
            });
        }
        let mut scan = plain.scan;
        let mut began = 5;
        for (pid, threads, later) in passes {
            plain.clock.set(began);
            let scanner = Scanner { pid, nr_threads: threads as i32, started: began, forced: false };
            let mut own = scan_of(&plain.scan);
            (plain.told, plain.ranges) = (Vec::new(), Vec::new());
            pass(Rules::own(&f, &numa), &mut own, scanner, &mut plain);
            let changes = plain.areas.clone();
            let mut clock = began;
            let done = numa_model::scan::pass(
                kernel,
                &settings,
                (pid, threads),
                began,
                &mut scan,
                &mut areas,
                || {
                    clock += 1;
                    clock
                },
                |area, _| u64::from(changes.iter().any(|(other, changes)| other.start == area.start && *changes)),
            );
            let told: Vec<_> = plain.told.iter().map(|&(area, reason)| (area, reason as usize)).collect();
            prop_assert_eq!(told, done.told.iter().map(|&(area, reason)| (area, reason as usize)).collect::<Vec<_>>());
            prop_assert_eq!(&plain.ranges, &done.ranges);
            prop_assert_eq!(own, scan_of(&scan));
            for (record, area) in plain.records.iter().zip(&areas) {
                let wanted = area.record.map(|record| known(kernel, state_of(&record)));
                prop_assert_eq!(record.map(|record| known(kernel, record)), wanted);
            }
            plain.scan = scan;
            began = clock + later;
        }
    }
}

const _: () = assert!(Reason::COUNT == SkipReason::ALL.len());
