//! NUMA balancing as a slow, plain model: lists that are searched from the start, every rule written out
//! where it applies, and no code shared with the implementation that it checks.
//!
//! ```text
//!   Model ─┬─ processes ─┬─ areas   a list by address                 areas.rs: mapping, splitting, merging
//!          │             ├─ pages   a map by number                   mod.rs:   loads, stores, forks
//!          │             └─ scan    next_scan, scan_offset, scan_seq  scan.rs:  ticks and passes
//!          ├─ tasks         periods, faults, groups                   faults.rs: hint faults and statistics
//!          └─ folios        node, last cpupid
//! ```
//!
//! Pages are single and anonymous, machines have two nodes of two CPUs, and memory never runs short, so every
//! migration succeeds. Nothing takes time except waiting. Kernels are in ascending order, so that "from `m6`
//! on" is a comparison.
//!
//! Written after kernel/sched/fair.c (`task_tick_numa`, `task_numa_work`, `task_numa_fault`),
//! `change_pte_range` in mm/mprotect.c and `do_numa_page` in mm/memory.c, of 6.1, 6.12 and 7.2, and the
//! patches between them.

pub mod areas;
pub mod faults;
pub mod scan;

use areas::Area;
use faults::{Group, Task};
use scan::{MmScan, Reason};
use std::collections::BTreeMap;
use std::ops::Range;

/// Kernels and patches, each with all that came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    Base,
    VmaScanning1,
    VmaScanning2,
    VmaScanning3,
    VmaScanning4,
    PartialVmas4,
    PartialVmas5,
    PartialVmas6,
    V6_8,
    V6_12,
    /// Like `V6_12`, but a failed migration is forgotten once the period has been doubled.
    V6_12_117,
    V6_19,
}

impl Kernel {
    /// All kernels, with the names of their variants.
    pub const ALL: [(Kernel, &str); 12] = [
        (Kernel::Base, "numa-base"),
        (Kernel::VmaScanning1, "vma-scanning-1"),
        (Kernel::VmaScanning2, "vma-scanning-2"),
        (Kernel::VmaScanning3, "vma-scanning-3"),
        (Kernel::VmaScanning4, "vma-scanning-4"),
        (Kernel::PartialVmas4, "partial-vmas-4"),
        (Kernel::PartialVmas5, "partial-vmas-5"),
        (Kernel::PartialVmas6, "partial-vmas-6"),
        (Kernel::V6_8, "numa-6.8"),
        (Kernel::V6_12, "numa-6.12"),
        (Kernel::V6_12_117, "numa-6.12.117"),
        (Kernel::V6_19, "numa-6.19"),
    ];
}

/// Length of a tick in nanoseconds.
pub const TICK_NS: u64 = 4_000_000;

/// The number of ticks in `ms` milliseconds.
pub fn ticks(ms: u64) -> u64 {
    ms.div_ceil(4)
}

/// The settings in use.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub scan_delay_ms: u64,
    pub scan_period_min_ms: u64,
    pub scan_period_max_ms: u64,
    pub scan_size_mb: u64,
}

/// A page of a process that has been stored to.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub folio: usize,
    /// Whether the PTE is PROT_NONE.
    pub is_hidden: bool,
    pub write: bool,
    /// Whether no other process has mapped it since it was last stored to.
    pub is_own: bool,
}

/// A folio of one page.
#[derive(Clone, Copy, Debug)]
pub struct Folio {
    pub node: usize,
    /// The CPU, and the low bits of the PID, of the task that touched it last (`cpupid`).
    pub last: (Option<usize>, u32),
}

/// The value of `Folio::last` while no task has touched it.
pub const UNSET: (Option<usize>, u32) = (None, 255);

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub areas: Vec<Area>,
    pub pages: BTreeMap<u64, Page>,
    pub scan: MmScan,
    pub threads: u32,
    /// Other users of the address space, such as readers of /proc.
    pub visitors: u32,
    pub skipped: Skipped,
}

/// How often each area was skipped, by reason. Areas are identified by their first page.
pub type Skipped = BTreeMap<u64, [u64; Reason::COUNT]>;

impl Process {
    pub fn area(&self, page: u64) -> Option<&Area> {
        self.areas.iter().find(|area| area.pages().contains(&page))
    }
}

/// The whole model.
#[derive(Clone, Debug)]
pub struct Model {
    pub kernel: Kernel,
    pub settings: Settings,
    pub now_ns: u64,
    pub processes: Vec<Process>,
    pub tasks: Vec<Task>,
    pub groups: Vec<Group>,
    pub folios: Vec<Folio>,
    /// The task that runs on each CPU.
    pub running: [Option<usize>; 4],
    pub pte_updates: u64,
    pub hint_faults: u64,
    pub hint_faults_local: u64,
    pub pages_migrated: u64,
    pub passes: u64,
}

/// The node of a CPU.
pub fn node(cpu: usize) -> usize {
    cpu / 2
}

impl Model {
    pub fn new(kernel: Kernel, settings: Settings) -> Model {
        Model {
            kernel,
            settings,
            now_ns: 0,
            processes: Vec::new(),
            tasks: Vec::new(),
            groups: Vec::new(),
            folios: Vec::new(),
            running: [None; 4],
            pte_updates: 0,
            hint_faults: 0,
            hint_faults_local: 0,
            pages_migrated: 0,
            passes: 0,
        }
    }

    /// The current time in ticks.
    pub fn now(&self) -> u64 {
        self.now_ns / TICK_NS + 1
    }

    /// How many processes map a folio.
    pub fn mapcount(&self, folio: usize) -> usize {
        let pages = self.processes.iter().flat_map(|process| process.pages.values());
        pages.filter(|page| page.folio == folio).count()
    }

    /// Pages that all processes have mapped.
    pub fn mapped(&self) -> usize {
        self.processes.iter().map(|process| process.pages.len()).sum()
    }

    /// Starts a process with one thread. Returns the thread.
    pub fn start(&mut self, pid: u32) -> usize {
        self.processes.push(Process { threads: 1, ..Process::default() });
        self.add_task(self.processes.len() - 1, pid)
    }

    fn add_task(&mut self, process: usize, pid: u32) -> usize {
        let seq = self.processes[process].scan.scan_seq;
        self.tasks.push(Task::new(process, pid, self.settings.scan_delay_ms, seq));
        self.tasks.len() - 1
    }

    /// Restarts scanning of a process that creates a thread or a child, unless its address space has another
    /// user.
    fn restart_scanning(&mut self, process: usize) {
        let later = self.now() + ticks(self.settings.scan_delay_ms);
        let process = &mut self.processes[process];
        if process.threads + process.visitors == 1 {
            process.scan.next_scan = later;
            process.scan.scan_seq = 0;
        }
    }

    /// Starts a further thread, which `creator` creates.
    pub fn clone_thread(&mut self, creator: usize, pid: u32) -> usize {
        let process = self.tasks[creator].process;
        self.restart_scanning(process);
        let users = self.processes[process].threads + self.processes[process].visitors;
        let longest = self.periods(creator).max;
        let thread = self.add_task(process, pid);
        let stagger_ns = self.tasks[creator].scan_period * u64::from(users) * 1_000_000;
        self.tasks[thread].preferred = self.tasks[creator].preferred;
        self.tasks[thread].node_stamp = longest.min(stagger_ns & 0xffff_ffff) + 2 * TICK_NS;
        self.processes[process].threads += 1;
        thread
    }

    /// Copies a process.
    pub fn fork(&mut self, parent: usize, pid: u32) -> usize {
        self.restart_scanning(parent);
        let child = {
            let parent = &mut self.processes[parent];
            parent.pages.values_mut().for_each(|page| (page.write, page.is_own) = (false, false));
            let mut areas = parent.areas.clone();
            areas.iter_mut().for_each(|area| area.record = None);
            Process {
                areas,
                pages: parent.pages.clone(),
                scan: parent.scan,
                threads: 1,
                ..Process::default()
            }
        };
        self.processes.push(child);
        self.add_task(self.processes.len() - 1, pid)
    }

    pub fn exit_task(&mut self, task: usize) {
        for cpu in 0..4 {
            if self.running[cpu] == Some(task) {
                self.run(cpu, None);
            }
        }
        self.leave_group(task);
        self.tasks[task].faults = None;
        self.tasks[task].is_alive = false;
        self.processes[self.tasks[task].process].threads -= 1;
    }

    /// Runs a task on a CPU, or none.
    pub fn run(&mut self, cpu: usize, task: Option<usize>) {
        if let Some(before) = self.running[cpu].take() {
            self.tasks[before].ran_ns += self.now_ns - self.tasks[before].since_ns;
        }
        let Some(task) = task else { return };
        self.running[cpu] = Some(task);
        let start = self.periods(task).start;
        let own = &mut self.tasks[task];
        own.since_ns = self.now_ns;
        let Some(before) = own.cpu.replace(cpu) else { return };
        let (from, to) = (node(before), node(cpu));
        if from == to || own.faults.is_none() {
            return;
        }
        let comes_home = own.preferred == Some(to);
        let was_away = own.preferred.is_some() && own.preferred != Some(from);
        if own.scan_seq == 0 || !comes_home && !was_away {
            own.scan_period = start;
        }
    }

    /// How long a task has run, in nanoseconds.
    pub fn runtime(&self, task: usize) -> u64 {
        let own = &self.tasks[task];
        let runs = self.running.contains(&Some(task));
        own.ran_ns + if runs { self.now_ns - own.since_ns } else { 0 }
    }

    /// The thread on `cpu` loads from a page or stores to it, as its area allows.
    pub fn touch(&mut self, cpu: usize, page: u64, write: bool) {
        let process = self.tasks[self.running[cpu].unwrap()].process;
        if self.processes[process].pages.get(&page).is_some_and(|page| page.is_hidden) {
            self.hint_fault(cpu, page);
        }
        if !write {
            return;
        }
        let held = self.processes[process].pages.get(&page).copied();
        if held.is_some_and(|held| held.write) {
            return;
        }
        let folio = match held {
            Some(held) if self.mapcount(held.folio) == 1 => {
                self.folios[held.folio].last = UNSET;
                held.folio
            }
            // A first store, or one to a page that others have mapped too.
            _ => {
                let is_bound = self.processes[process].area(page).unwrap().is_bound;
                let node = if is_bound { 0 } else { node(cpu) };
                self.folios.push(Folio { node, last: UNSET });
                self.folios.len() - 1
            }
        };
        let page_now = Page { folio, is_hidden: false, write: true, is_own: true };
        self.processes[process].pages.insert(page, page_now);
    }

    pub fn map(&mut self, process: usize, area: Area) {
        self.unmap(process, area.pages());
        areas::map(&mut self.processes[process].areas, area);
    }

    pub fn unmap(&mut self, process: usize, pages: Range<u64>) {
        let process = &mut self.processes[process];
        process.pages.retain(|page, _| !pages.contains(page));
        areas::unmap(self.kernel, &mut process.areas, &pages);
    }

    /// Changes the rights of some pages: their PTEs get those of the area, and allow stores if no other
    /// process has, or has had, the page.
    pub fn protect(&mut self, process: usize, pages: Range<u64>, rights: areas::Rights) {
        for page in pages.clone() {
            let Some(area) = self.processes[process].area(page) else { continue };
            if area.rights == rights {
                continue;
            }
            let Some(held) = self.processes[process].pages.get_mut(&page) else { continue };
            held.is_hidden = false;
            held.write = rights.write && (held.write || held.is_own);
        }
        areas::change(&mut self.processes[process].areas, &pages, |area| area.rights = rights);
    }

    /// Frees an address space.
    pub fn exit(&mut self, process: usize) {
        self.processes[process] = Process::default();
    }
}
