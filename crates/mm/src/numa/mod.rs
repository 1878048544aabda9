//! NUMA balancing: finding out which node's memory a thread uses, and bringing the two together.
//!
//! ```text
//!   tick ─► scan pass        some of the address space becomes PROT_NONE        scan
//!              │
//!   access ─► hint fault     who touches this page, from where?                 migrate
//!              │    └─► the page follows, if the filter lets it
//!              └─► statistics ─► the node that suits the thread,                placement
//!                                how soon to scan again
//! ```
//!
//! Nobody tells the kernel which thread uses which memory. So it takes away access to a bit of memory now and then, and
//! looks who comes to get it back: a hint fault costs a microsecond and names a thread, a CPU and a page. From these it
//! learns two things: where a page should be ([`migrate`]) and where a thread should run ([`placement`]). Scanning costs
//! too, and most of what the patches in [`features`] argue about is which of it is worth that ([`scan`]).
//!
//! In the kernel: kernel/sched/fair.c, mm/memory.c (`do_numa_page`), mm/mprotect.c (`change_prot_numa`), mm/mempolicy.c;
//! versions 6.1 to 7.2.

pub mod cpupid;
pub mod features;
pub mod heat;
pub mod mempolicy;
pub mod migrate;
pub mod placement;
pub mod scan;
mod sweep;

use crate::address_space::{MmId, PteNumber, Vpn};
use crate::lru::folio::FolioId;
use crate::sysctl::NumaSettings;
use cpupid::Cpupid;
use features::NumaFeatures;
use heat::Heat;
use machine::{Cpu, Node, SpinLock, Time, Topology};
use migrate::policy::Nodes;
use migrate::promotion::NodePromotion;
use placement::policy::Links;
use placement::{Group, TaskId, TaskNuma};
use scan::policy::SkipReason;
use std::ops::Range;
use sweep::Swept;

/// How memory is balanced: what the kernel does, and how it is set.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// What the kernel does.
    pub features: &'a NumaFeatures,
    /// Its settings.
    pub settings: &'a NumaSettings,
}

/// All threads that NUMA balancing knows, and their groups.
#[derive(Clone, Debug)]
pub struct Tasks {
    tasks: Vec<TaskNuma>,
    groups: Vec<Group>,
    links: Links,
}

impl Tasks {
    /// None yet, on a machine with this table of distances, some of whose nodes may have memory only.
    pub fn new(distances: Vec<Vec<u8>>, with_cpus: Nodes) -> Tasks {
        Tasks { tasks: Vec::new(), groups: Vec::new(), links: Links::new(distances, with_cpus) }
    }

    fn nodes(&self) -> usize {
        self.links.distances.len()
    }

    /// A task is born.
    pub fn add(&mut self, task: TaskNuma) -> TaskId {
        self.tasks.push(task);
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// What is known of a task.
    pub fn get(&self, task: TaskId) -> &TaskNuma {
        &self.tasks[task.0 as usize]
    }

    /// What is known of a task.
    pub fn get_mut(&mut self, task: TaskId) -> &mut TaskNuma {
        &mut self.tasks[task.0 as usize]
    }

    /// The scheduler prefers another node for a task than its placement said, as it found no room there, or room elsewhere.
    pub fn set_preferred(&mut self, task: TaskId, node: Node) {
        self.get_mut(task).preferred = Some(node);
    }
}

/// Whole nanoseconds of a time.
fn nanoseconds(time: Time) -> u64 {
    time.picoseconds() / 1000
}

/// A thread that is, or was, on a CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    mm: MmId,
    /// CPU time until it was last switched to, ns.
    ran: u64,
    since: Time,
    /// The CPU that it runs on or ran on last.
    cpu: Option<Cpu>,
}

/// What somebody who touches the page of an entry finds going on.
#[derive(Clone, Debug)]
struct InProgress {
    entry: PteNumber,
    /// When the page leaves, if it migrates: until then others find the entry as it was, and take hint faults of their own.
    unmapped: Time,
    /// When one of those, who cannot move the page, has made it accessible again.
    restored: Time,
    until: Time,
    migrates: bool,
    /// Where the page was.
    source: Node,
    /// Who takes the fault.
    by: Cpupid,
    /// Of the page table, for those who spin.
    lock: SpinLock,
}

impl InProgress {
    /// Whether somebody on `cpu` who touches the page at `now` faults.
    fn stops(&self, cpu: Cpu, now: Time) -> bool {
        cpu != self.by.cpu() && now < self.until && !(self.restored..self.unmapped).contains(&now)
    }
}

/// All that NUMA balancing knows.
#[derive(Clone, Debug)]
pub struct NumaBalancing {
    /// Threads and their groups.
    pub tasks: Tasks,
    runs: Vec<Running>,
    /// By CPU.
    current: Vec<Option<TaskId>>,
    /// By folio: who touched it last, or when it was scanned.
    last: Vec<Cpupid>,
    /// By node: the nearest one without CPUs; none of such a node.
    slower: Vec<Option<Node>>,
    promotions: Vec<NodePromotion>,
    /// By page table: the last hint fault there.
    faulting: Vec<Option<InProgress>>,
    swept: Swept,
    wants_to_move: Vec<TaskId>,
    /// By VMA.
    heat: Heat,
}

impl NumaBalancing {
    pub(crate) fn new(topology: &Topology) -> NumaBalancing {
        let nodes = topology.nodes as usize;
        let (slow, fast): (Vec<u8>, Vec<u8>) =
            (0..topology.nodes).partition(|&node| topology.is_memory_only(Node(node)));
        let (slow, with_cpus) = (Nodes::of_all(&slow), Nodes::of_all(&fast));
        let slower =
            |node: Node| slow.nearest(&topology.node_distances[node.index()]).filter(|_| with_cpus.has(node));
        NumaBalancing {
            tasks: Tasks::new(topology.node_distances.clone(), with_cpus),
            runs: Vec::new(),
            current: vec![None; topology.cpus()],
            last: Vec::new(),
            slower: (0..topology.nodes).map(|node| slower(Node(node))).collect(),
            promotions: vec![NodePromotion::default(); nodes],
            faulting: Vec::new(),
            swept: Swept::default(),
            wants_to_move: Vec::new(),
            heat: Heat::default(),
        }
    }

    fn add(&mut self, task: TaskNuma, mm: MmId) -> TaskId {
        self.runs.push(Running { mm, ran: 0, since: Time::ZERO, cpu: None });
        self.tasks.add(task)
    }

    /// The address space of a task.
    pub fn mm_of(&self, task: TaskId) -> MmId {
        self.runs[task.0 as usize].mm
    }

    /// The task that runs on `cpu`.
    #[inline]
    pub fn running(&self, cpu: Cpu) -> Option<TaskId> {
        self.current[cpu.index()]
    }

    /// The CPU that a task runs on or ran on last.
    pub fn cpu_of(&self, task: TaskId) -> Option<Cpu> {
        self.runs[task.0 as usize].cpu
    }

    /// How long a task has run, ns; it runs on `cpu`.
    fn runtime(&self, task: TaskId, cpu: Cpu, now: Time) -> u64 {
        let run = &self.runs[task.0 as usize];
        let runs = self.running(cpu) == Some(task);
        run.ran + if runs { nanoseconds(now.saturating_sub(run.since)) } else { 0 }
    }

    fn stop(&mut self, cpu: Cpu, now: Time) {
        if let Some(task) = self.current[cpu.index()].take() {
            let run = &mut self.runs[task.0 as usize];
            run.ran += nanoseconds(now.saturating_sub(run.since));
        }
    }

    /// Where the task ran before, if it was on another CPU.
    fn run(&mut self, cpu: Cpu, task: TaskId, now: Time) -> Option<Cpu> {
        self.current[cpu.index()] = Some(task);
        let run = &mut self.runs[task.0 as usize];
        run.since = now;
        run.cpu.replace(cpu).filter(|&before| before != cpu)
    }

    /// Whether a node's memory is slow: it has no CPUs.
    #[inline]
    pub fn is_slow(&self, node: Node) -> bool {
        !self.tasks.links.with_cpus.has(node)
    }

    /// The nearest node with slow memory, of one with fast memory.
    pub(crate) fn slower_than(&self, node: Node) -> Option<Node> {
        self.slower[node.index()]
    }

    fn promotion(&mut self, node: Node) -> &mut NodePromotion {
        &mut self.promotions[node.index()]
    }

    /// Nobody has touched a new folio; and one that is stored to where it could not be before (`wp_page_reuse`) may belong to
    /// somebody else now.
    #[inline]
    pub(crate) fn forget_folio(&mut self, id: FolioId) {
        if let Some(last) = self.last.get_mut(id.index()) {
            *last = Cpupid::UNSET;
        }
    }

    /// Who touched a folio last.
    #[inline]
    fn last(&self, id: FolioId) -> Cpupid {
        self.last.get(id.index()).copied().unwrap_or(Cpupid::UNSET)
    }

    fn set_last(&mut self, id: FolioId, last: Cpupid) {
        if self.last.len() <= id.index() {
            self.last.resize(id.index() + 1, Cpupid::UNSET);
        }
        self.last[id.index()] = last;
    }

    fn exchange_last(&mut self, id: FolioId, this: Cpupid) -> Cpupid {
        let last = self.last(id);
        self.set_last(id, this);
        last
    }

    fn set_scanned(&mut self, id: FolioId, time: u32) {
        self.set_last(id, Cpupid::from_bits(time));
    }

    #[inline]
    fn in_progress(&self, entry: PteNumber) -> Option<&InProgress> {
        self.faulting.get(entry.table().index())?.as_ref().filter(|fault| fault.entry == entry)
    }

    fn in_progress_mut(&mut self, entry: PteNumber) -> Option<&mut InProgress> {
        self.faulting.get_mut(entry.table().index())?.as_mut().filter(|fault| fault.entry == entry)
    }

    #[inline]
    fn faulting_until(&self, table: usize) -> Time {
        self.faulting.get(table).and_then(Option::as_ref).map_or(Time::ZERO, |fault| fault.until)
    }

    fn note_in_progress(&mut self, fault: InProgress) {
        let table = fault.entry.table().index();
        if self.faulting.len() <= table {
            self.faulting.resize(table + 1, None);
        }
        self.faulting[table] = Some(fault);
    }

    fn note_wants_to_move(&mut self, task: TaskId) {
        self.wants_to_move.push(task);
    }

    /// Tasks that want to run on their preferred node, since this was last asked.
    pub fn take_wants_to_move(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.wants_to_move)
    }

    fn note_scanned(&mut self, mm: MmId, vma: &Range<Vpn>, task: TaskId, pages: u64) {
        self.heat.scanned(mm, vma, task, pages);
    }

    fn note_fault(&mut self, mm: MmId, vma: &Range<Vpn>, task: TaskId, local: bool) {
        self.heat.fault(mm, vma, task, local);
    }

    fn note_skipped(&mut self, mm: MmId, vma: &Range<Vpn>, reason: SkipReason) {
        self.heat.of(mm, vma).skipped[reason as usize] += 1;
    }

    fn note_touched(&mut self, mm: MmId, vma: &Range<Vpn>, task: TaskId, pages: u64) {
        self.heat.touched(mm, vma, task, pages);
    }

    /// Who touched and who scanned what.
    pub fn heat(&self) -> &Heat {
        &self.heat
    }
}
