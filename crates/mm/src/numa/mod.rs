//! NUMA balancing: detects which node's memory each thread uses, and moves pages and threads to the same
//! node.
//!
//! ```text
//!   tick ─► scan pass        some of the address space becomes PROT_NONE        scan
//!              │
//!   access ─► hint fault     who touches this page, on which node?              migrate
//!              │    └─► the page migrates, if the filter allows it
//!              └─► statistics ─► the node that suits the thread,                placement
//!                                how soon to scan again
//! ```
//!
//! Nothing tells the kernel which thread uses which memory. So it makes some PTEs PROT_NONE from time to time
//! and sees who faults on them: a hint fault costs about a microsecond and identifies a thread, a CPU and a
//! page. From these the kernel learns on which node a page should be ([`migrate`]) and on which node a thread
//! should run ([`placement`]). Scanning costs time too; most of the patches in [`features`] are about which
//! VMAs are worth it ([`scan`]).
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
mod tree;

use crate::address_space::{MmId, PteNumber, Vpn};
use crate::decisions::NumaDecisions;
use crate::lru::folio::FolioId;
use crate::lru::memcontrol::{Memcgs, OverHigh};
use crate::on_cpu::OnCpu;
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

/// The rules of NUMA balancing: the kernel's features and its settings, and whose functions decide.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub features: &'a NumaFeatures,
    pub settings: &'a NumaSettings,
    pub decisions: &'a NumaDecisions,
}

impl<'a> Rules<'a> {
    /// The rules of a kernel of which the twin makes every decision.
    pub fn own(features: &'a NumaFeatures, settings: &'a NumaSettings) -> Rules<'a> {
        Rules { features, settings, decisions: &NumaDecisions::OWN }
    }

    /// The rules of the kernel that a CPU is in.
    fn of(on: &OnCpu<'a>) -> Rules<'a> {
        let OnCpu { features, settings, decisions, .. } = on;
        Rules { features: &features.numa, settings: &settings.numa, decisions: &decisions.numa }
    }
}

/// All threads that NUMA balancing tracks, and their groups.
#[derive(Clone, Debug)]
pub struct Tasks {
    tasks: Vec<TaskNuma>,
    groups: Vec<Group>,
    links: Links,
}

impl Tasks {
    /// No threads yet, on a machine with this distance table and these nodes with CPUs; other nodes have
    /// memory only.
    pub fn new(distances: Vec<Vec<u8>>, with_cpus: Nodes) -> Tasks {
        Tasks { tasks: Vec::new(), groups: Vec::new(), links: Links::new(distances, with_cpus) }
    }

    fn nodes(&self) -> usize {
        self.links.distances.len()
    }

    /// Adds a task.
    pub fn add(&mut self, task: TaskNuma) -> TaskId {
        self.tasks.push(task);
        TaskId(self.tasks.len() as u32 - 1)
    }

    pub fn get(&self, task: TaskId) -> &TaskNuma {
        &self.tasks[task.0 as usize]
    }

    pub fn get_mut(&mut self, task: TaskId) -> &mut TaskNuma {
        &mut self.tasks[task.0 as usize]
    }

    /// Sets a task's preferred node, for a scheduler that placed the task elsewhere than [`placement`] asked
    /// for.
    pub fn set_preferred(&mut self, task: TaskId, node: Node) {
        self.get_mut(task).preferred = Some(node);
    }
}

/// A time in whole nanoseconds.
fn nanoseconds(time: Time) -> u64 {
    time.picoseconds() / 1000
}

/// The run state of a thread.
#[derive(Clone, Copy, Debug)]
struct Running {
    mm: MmId,
    /// CPU time up to the last context switch to it, ns.
    ran: u64,
    since: Time,
    /// The CPU that it runs on, or last ran on.
    cpu: Option<Cpu>,
    /// What it owes for memory.high, while it runs on no CPU.
    over_high: OverHigh,
}

/// A hint fault in progress, as other threads that touch the same page find it.
#[derive(Clone, Debug)]
struct InProgress {
    entry: PteNumber,
    /// When the page is unmapped for migration. Until then other threads find the PTE unchanged and take hint
    /// faults of their own.
    unmapped: Time,
    /// When one of those threads, unable to migrate the page, makes it accessible again.
    restored: Time,
    until: Time,
    migrates: bool,
    /// The node that the page is on.
    source: Node,
    /// The thread that took the fault first.
    by: Cpupid,
    /// The page-table lock, for threads that spin on it.
    lock: SpinLock,
}

impl InProgress {
    /// Whether a thread on `cpu` that touches the page at `now` faults.
    fn stops(&self, cpu: Cpu, now: Time) -> bool {
        cpu != self.by.cpu() && now < self.until && !(self.restored..self.unmapped).contains(&now)
    }
}

/// The state of NUMA balancing.
#[derive(Clone, Debug)]
pub struct NumaBalancing {
    pub tasks: Tasks,
    runs: Vec<Running>,
    /// The running task, by CPU.
    current: Vec<Option<TaskId>>,
    /// The last cpupid of each folio, or the time of its last scan.
    last: Vec<Cpupid>,
    /// The nearest node without CPUs, by node; `None` for such nodes themselves.
    slower: Vec<Option<Node>>,
    promotions: Vec<NodePromotion>,
    /// The last hint fault in each page table.
    faulting: Vec<Option<InProgress>>,
    swept: Swept,
    wants_to_move: Vec<TaskId>,
    /// Heat map, by VMA.
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
        let over_high = OverHigh::default();
        self.runs.push(Running { mm, ran: 0, since: Time::ZERO, cpu: None, over_high });
        self.tasks.add(task)
    }

    pub fn mm_of(&self, task: TaskId) -> MmId {
        self.runs[task.0 as usize].mm
    }

    #[inline]
    pub fn running(&self, cpu: Cpu) -> Option<TaskId> {
        self.current[cpu.index()]
    }

    /// The CPU that a task runs on, or last ran on.
    pub fn cpu_of(&self, task: TaskId) -> Option<Cpu> {
        self.runs[task.0 as usize].cpu
    }

    /// CPU time of a task, ns, at `now` on `cpu`.
    fn runtime(&self, task: TaskId, cpu: Cpu, now: Time) -> u64 {
        let run = &self.runs[task.0 as usize];
        let runs = self.running(cpu) == Some(task);
        run.ran + if runs { nanoseconds(now.saturating_sub(run.since)) } else { 0 }
    }

    fn stop(&mut self, cpu: Cpu, now: Time, memcgs: &mut Memcgs) {
        if let Some(task) = self.current[cpu.index()].take() {
            let run = &mut self.runs[task.0 as usize];
            run.ran += nanoseconds(now.saturating_sub(run.since));
            memcgs.swap_over_high(cpu, &mut run.over_high);
        }
    }

    /// Starts to run a task on `cpu`. Returns the CPU it ran on before, if that was another one.
    fn run(&mut self, cpu: Cpu, task: TaskId, now: Time, memcgs: &mut Memcgs) -> Option<Cpu> {
        self.current[cpu.index()] = Some(task);
        let run = &mut self.runs[task.0 as usize];
        run.since = now;
        memcgs.swap_over_high(cpu, &mut run.over_high);
        run.cpu.replace(cpu).filter(|&before| before != cpu)
    }

    /// Whether a node's memory counts as slow: the node has no CPUs.
    #[inline]
    pub fn is_slow(&self, node: Node) -> bool {
        !self.tasks.links.with_cpus.has(node)
    }

    /// The nearest node with slow memory, for a node with fast memory.
    pub(crate) fn slower_than(&self, node: Node) -> Option<Node> {
        self.slower[node.index()]
    }

    fn promotion(&mut self, node: Node) -> &mut NodePromotion {
        &mut self.promotions[node.index()]
    }

    /// Clears the cpupid of a folio that is new, or that was just reused by a store after fork and may have
    /// another owner (`wp_page_reuse`).
    #[inline]
    pub(crate) fn forget_folio(&mut self, id: FolioId) {
        if let Some(last) = self.last.get_mut(id.index()) {
            *last = Cpupid::UNSET;
        }
    }

    /// The cpupid of the last access to a folio.
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

    /// Takes the tasks that want to move to their preferred node, collected since the last call.
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

    /// The heat map: which VMAs were touched, scanned and skipped, by which threads.
    pub fn heat(&self) -> &Heat {
        &self.heat
    }
}
