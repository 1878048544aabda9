//! The programs that can run side by side, which ask a kernel in one vocabulary ([`operation`](crate::operation)).
//!
//! ```text
//!   demand::Demand      files and memory that a program needs again and again ┐
//!                                                                             ├─► Operation of a thread
//!   threads::Program    which thread uses which memory, and how               ┤
//!   background          threads of the kernel, memory that was touched once   ┤
//!   app_launches        apps of a phone, one in front at a time               ┤
//!   service             requests that arrive whether or not others are done   │
//!   kernel_build        make, with the processes of a recorded build          │
//!   page_faults         tasks that write to fresh memory and unmap it         │
//!   map_unmap           processes whose memory comes and goes for long        │
//!   page_trace          what a recorded kernel's page allocator was asked for │
//!   socket_stream       pairs of processes that send messages                 │
//!   recorded_mappings   processes whose mappings and first touches were recorded  ┘
//! ```
//!
//! A program is a [`Layout`] (processes with their memory, files, threads) and a stream of [`Operation`]s for each of its threads.

use crate::app_launches::AppLaunches;
use crate::background;
use crate::demand::groups::{AccessGroups, Object};
use crate::demand::memcached::Memcached;
use crate::demand::spec::{self, DemandSpec};
use crate::demand::sysbench::SysbenchReadOnly;
use crate::demand::tpcc::StockLevel;
use crate::demand::{self, Demand};
use crate::kernel_build::KernelBuild;
use crate::map_unmap::MapUnmap;
use crate::operation::{
    Extent, Footprint, Layout, Operation, Operations, Own, OwnSpec, Place, Process, Statm,
};
use crate::page_faults::PageFaults;
use crate::page_trace::PageTrace;
use crate::recorded_mappings::{RecordedCopies, RecordedMappings};
use crate::service::Service;
use crate::socket_stream::SocketStream;
use crate::threads::{self, autonuma, hot_set, kernbench, samples, sharing};
use machine::WrongValue;
use machine::profile::Figure;
use rand_pcg::Pcg64Mcg;
use std::path::PathBuf;

crate::kinds! {
    /// A program and its parameters, as in a scenario.
    pub enum ProgramSpec {
        /// Groups of threads that access files or memory; includes fio.
        "groups" Groups(AccessGroups),
        /// A recorded kernel build.
        "kernel-build" KernelBuild(KernelBuild),
        /// memcached, filled by memtier_benchmark.
        "memcached" Memcached(Memcached),
        /// sysbench's `oltp_read_only` on MySQL.
        "sysbench-read-only" SysbenchReadOnly(SysbenchReadOnly),
        /// TPC-C's STOCK_LEVEL on MongoDB.
        "stock-level" StockLevel(Box<StockLevel>),
        /// numa01 of the AutoNUMA benchmark, with or without a slice per thread.
        "numa01" Numa01(autonuma::Numa01),
        /// numa02 of the AutoNUMA benchmark.
        "numa02" Numa02(autonuma::Numa02),
        /// One thread that is moved to another node and back.
        "pin-move" PinMove(autonuma::PinMove),
        /// Groups of threads that share memory.
        "sharing" Sharing(sharing::Sharing),
        /// A key-value store whose hot keys change.
        "hot-set" HotSet(hot_set::HotSet),
        /// A kernel build of short processes that share nothing.
        "kernbench" Kernbench(kernbench::Kernbench),
        /// Memory accesses sampled by a profiler.
        "samples" Samples(samples::SampleFile),
        /// A thread of the kernel that computes.
        "kernel-thread" KernelThread(background::KernelThread),
        /// Memory that was touched once and stays.
        "touch-once" TouchOnce(background::TouchOnce),
        /// Apps of a phone, of which a user opens one after the other.
        "app-launches" AppLaunches(AppLaunches),
        /// A service whose requests arrive at random times.
        "service" Service(Service),
        /// Tasks that map memory, touch it and unmap it (will-it-scale's page_fault1).
        "page-faults" PageFaults(PageFaults),
        /// Processes that map, touch and unmap memory for long.
        "map-unmap" MapUnmap(MapUnmap),
        /// A recorded trace of the page allocator.
        "page-trace" PageTrace(PageTrace),
        /// Pairs of processes that stream messages through sockets.
        "socket-stream" SocketStream(SocketStream),
        /// Processes whose mappings and first touches were recorded.
        "recorded-mappings" RecordedMappings(RecordedMappings),
    }
}

impl From<threads::ProgramSpec> for ProgramSpec {
    fn from(spec: threads::ProgramSpec) -> ProgramSpec {
        match spec {
            threads::ProgramSpec::Numa01(spec) => ProgramSpec::Numa01(spec),
            threads::ProgramSpec::Numa02(spec) => ProgramSpec::Numa02(spec),
            threads::ProgramSpec::PinMove(spec) => ProgramSpec::PinMove(spec),
            threads::ProgramSpec::Sharing(spec) => ProgramSpec::Sharing(spec),
            threads::ProgramSpec::HotSet(spec) => ProgramSpec::HotSet(spec),
            threads::ProgramSpec::Kernbench(spec) => ProgramSpec::Kernbench(spec),
            threads::ProgramSpec::Samples(spec) => ProgramSpec::Samples(spec),
        }
    }
}

/// What the families of generators read of a [`ProgramSpec`].
enum Family {
    Demand(DemandSpec),
    Threads(threads::ProgramSpec),
    Own(Box<dyn OwnSpec>),
}

/// A program of which copies start; they share what is read from recordings.
pub struct Copies(Family);

impl Copies {
    /// Starts one on a machine with `cpus` CPUs; `seed`, from 1, selects one of several recordings, and `random` gives each thread a
    /// random stream of its own.
    pub fn start(
        &self,
        cpus: usize,
        seed: u64,
        random: impl Fn(u64) -> Pcg64Mcg,
    ) -> Result<Program, WrongValue> {
        Ok(match &self.0 {
            Family::Demand(spec) => Program::of_demand(spec.start(random)?),
            Family::Threads(spec) => Program::of_threads(spec.start(cpus, random)?),
            Family::Own(spec) => Program::of_own(spec.start(seed, &random)?),
        })
    }
}

impl ProgramSpec {
    fn family(&self) -> Family {
        match self.clone() {
            ProgramSpec::Groups(spec) => Family::Demand(DemandSpec::Groups(spec)),
            ProgramSpec::KernelBuild(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::Memcached(spec) => Family::Demand(DemandSpec::Memcached(spec)),
            ProgramSpec::SysbenchReadOnly(spec) => Family::Demand(DemandSpec::SysbenchReadOnly(spec)),
            ProgramSpec::StockLevel(spec) => Family::Demand(DemandSpec::StockLevel(spec)),
            ProgramSpec::Numa01(spec) => Family::Threads(threads::ProgramSpec::Numa01(spec)),
            ProgramSpec::Numa02(spec) => Family::Threads(threads::ProgramSpec::Numa02(spec)),
            ProgramSpec::PinMove(spec) => Family::Threads(threads::ProgramSpec::PinMove(spec)),
            ProgramSpec::Sharing(spec) => Family::Threads(threads::ProgramSpec::Sharing(spec)),
            ProgramSpec::HotSet(spec) => Family::Threads(threads::ProgramSpec::HotSet(spec)),
            ProgramSpec::Kernbench(spec) => Family::Threads(threads::ProgramSpec::Kernbench(spec)),
            ProgramSpec::Samples(spec) => Family::Threads(threads::ProgramSpec::Samples(spec)),
            ProgramSpec::KernelThread(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::TouchOnce(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::AppLaunches(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::Service(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::PageFaults(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::MapUnmap(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::PageTrace(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::SocketStream(spec) => Family::Own(Box::new(spec)),
            ProgramSpec::RecordedMappings(spec) => Family::Own(Box::new(RecordedCopies::of(spec))),
        }
    }

    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        match self.family() {
            Family::Demand(spec) => spec.check(),
            Family::Threads(spec) => spec.check(),
            Family::Own(spec) => spec.check(),
        }
    }

    /// The threads that share memory, if it is a program of that kind; what memory costs them depends on the machine's table
    /// `[numa]`.
    pub fn threads(&self) -> Option<threads::ProgramSpec> {
        match self.family() {
            Family::Threads(spec) => Some(spec),
            Family::Demand(_) | Family::Own(_) => None,
        }
    }

    /// Whether it runs with any base page size: what it needs is in bytes, or in pages that are converted.
    pub fn has_any_page_size(&self) -> bool {
        self.threads().is_none() && !matches!(self, ProgramSpec::SocketStream(_) | ProgramSpec::PageTrace(_))
    }

    /// Whether it reads or writes files.
    pub fn uses_files(&self) -> bool {
        match self {
            ProgramSpec::Groups(spec) => spec.groups.iter().any(|group| group.object == Object::File),
            ProgramSpec::KernelBuild(spec) => spec.reads(),
            ProgramSpec::MapUnmap(spec) => spec.file_mib > 0,
            ProgramSpec::SysbenchReadOnly(_) | ProgramSpec::StockLevel(_) | ProgramSpec::AppLaunches(_) => {
                true
            }
            ProgramSpec::Memcached(_)
            | ProgramSpec::Numa01(_)
            | ProgramSpec::Numa02(_)
            | ProgramSpec::PinMove(_)
            | ProgramSpec::Sharing(_)
            | ProgramSpec::HotSet(_)
            | ProgramSpec::Kernbench(_)
            | ProgramSpec::Samples(_)
            | ProgramSpec::KernelThread(_)
            | ProgramSpec::TouchOnce(_)
            | ProgramSpec::PageFaults(_)
            | ProgramSpec::PageTrace(_)
            | ProgramSpec::SocketStream(_)
            | ProgramSpec::Service(_)
            | ProgramSpec::RecordedMappings(_) => false,
        }
    }

    /// The recordings that it replays, where paths are given, and the key that gives them.
    pub fn recorded_files_mut(&mut self) -> (&'static str, &mut [PathBuf]) {
        match self {
            ProgramSpec::Samples(samples::SampleFile { file: samples::Recording::File(path) }) => {
                ("file", std::slice::from_mut(path))
            }
            ProgramSpec::PageTrace(spec) => ("trace", std::slice::from_mut(&mut spec.trace)),
            ProgramSpec::RecordedMappings(spec) => ("recording", spec.recording.files_mut()),
            _ => ("", &mut []),
        }
    }

    /// How many recordings there are, of which a seed selects one; `None` if it has random numbers instead.
    pub fn recordings(&self) -> Option<usize> {
        match self {
            ProgramSpec::RecordedMappings(spec) => Some(spec.recording.recordings()),
            _ => None,
        }
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        match self {
            ProgramSpec::Groups(spec) => spec.figures_mut(),
            ProgramSpec::KernelBuild(spec) => spec.figures_mut(),
            ProgramSpec::Memcached(spec) => spec.figures_mut(),
            ProgramSpec::SysbenchReadOnly(spec) => spec.figures_mut(),
            ProgramSpec::StockLevel(spec) => spec.figures_mut(),
            ProgramSpec::Sharing(spec) => spec.figures_mut(),
            ProgramSpec::HotSet(spec) => spec.figures_mut(),
            ProgramSpec::Kernbench(spec) => spec.figures_mut(),
            ProgramSpec::AppLaunches(spec) => spec.figures_mut(),
            ProgramSpec::Service(spec) => spec.figures_mut(),
            ProgramSpec::SocketStream(spec) => spec.figures_mut(),
            ProgramSpec::RecordedMappings(spec) => spec.figures_mut(),
            ProgramSpec::Numa01(_)
            | ProgramSpec::Numa02(_)
            | ProgramSpec::PinMove(_)
            | ProgramSpec::Samples(_)
            | ProgramSpec::KernelThread(_)
            | ProgramSpec::PageFaults(_)
            | ProgramSpec::MapUnmap(_)
            | ProgramSpec::PageTrace(_)
            | ProgramSpec::TouchOnce(_) => Vec::new(),
        }
    }

    /// Its copies, of which none has started.
    pub fn copies(&self) -> Copies {
        Copies(self.family())
    }
}

/// Who generates the operations.
enum Generator {
    Demand {
        demand: Box<spec::Program>,
        /// For each region of the demand, its number among the areas of its process.
        areas: Vec<u32>,
    },
    Threads(threads::Program),
    Own(Box<dyn Operations>),
}

/// A running program.
pub struct Program {
    generator: Generator,
    layout: Layout,
}

impl Program {
    fn of_demand(demand: spec::Program) -> Program {
        let of = demand.layout();
        let process = |process: &demand::Process| Process { group: process.group, ..Process::default() };
        let mut processes: Vec<Process> = of.processes.iter().map(process).collect();
        let number = |region: &demand::Region| {
            let own = &mut processes[region.process as usize].areas;
            // A VMA is never empty.
            own.push(region.pages.max(1));
            own.len() as u32 - 1
        };
        let areas = of.regions.iter().map(number).collect();
        let layout = Layout {
            files: of.files.clone(),
            threads: of.threads.clone(),
            processes,
            stays: true,
            ..Layout::default()
        };
        Program { generator: Generator::Demand { demand: Box::new(demand), areas }, layout }
    }

    fn of_threads(program: threads::Program) -> Program {
        let of = program.layout();
        let process = |process: &threads::Process| Process {
            group: 0,
            areas: process.areas.clone(),
            apart: process.apart,
            touched: process.touched,
            ..Process::default()
        };
        let layout = Layout {
            processes: of.processes.iter().map(process).collect(),
            threads: of.threads.iter().map(|&process| demand::Thread::of(process)).collect(),
            ..Layout::default()
        };
        Program { generator: Generator::Threads(program), layout }
    }

    fn of_own(Own { layout, operations }: Own) -> Program {
        Program { generator: Generator::Own(operations), layout }
    }

    /// A program of one thread that writes to files of the kernel, one after the other, at these times in milliseconds after its
    /// start, or when the write before has ended.
    pub fn of_writes(milliseconds: impl IntoIterator<Item = u64>) -> Program {
        let write = |(number, milliseconds): (u32, u64)| {
            let sleep = Operation::SleepUntil { nanoseconds: milliseconds.saturating_mul(1_000_000) };
            [sleep, Operation::TransactionBegin, Operation::WriteFile { number }, Operation::TransactionEnd]
        };
        let operations = (0..).zip(milliseconds).flat_map(write).collect();
        Program::of_own(Own::of_list(Process::default(), operations))
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Queries of a transaction, if the benchmark counts both.
    pub fn queries_per_transaction(&self) -> Option<u32> {
        match &self.generator {
            Generator::Demand { demand, .. } => demand.queries_per_transaction(),
            Generator::Threads(_) | Generator::Own(_) => None,
        }
    }

    /// Whether it is a build, which takes as long as its last process.
    pub fn is_build(&self) -> bool {
        matches!(&self.generator, Generator::Own(operations) if operations.is_build())
    }

    /// Whether it has an amount of work, and ends when that is done.
    pub fn ends(&self) -> bool {
        match &self.generator {
            Generator::Demand { .. } => false,
            Generator::Threads(program) => program.ends(),
            Generator::Own(operations) => operations.ends() || operations.is_build(),
        }
    }

    /// Tells `thread` how large its process is, which has asked.
    pub fn read_statm(&mut self, thread: usize, statm: Statm) {
        if let Generator::Own(operations) = &mut self.generator {
            operations.read_statm(thread, statm);
        }
    }

    /// What it has used, if its memory comes and goes.
    pub fn footprint(&self) -> Option<Footprint> {
        match &self.generator {
            Generator::Own(operations) => operations.footprint(),
            Generator::Demand { .. } | Generator::Threads(_) => None,
        }
    }

    /// Whether `thread` uses its process's data again and again, as who compares the time with a value in memory does.
    pub fn uses_data(&self, thread: usize) -> bool {
        match &self.generator {
            Generator::Demand { .. } => true,
            Generator::Threads(program) => program.uses_data(thread),
            Generator::Own(_) => false,
        }
    }

    /// A caveat to print with the results.
    pub fn note(&self) -> Option<&str> {
        match &self.generator {
            Generator::Demand { .. } | Generator::Own(_) => None,
            Generator::Threads(program) => program.note(),
        }
    }

    /// The next operation of `thread` at `now`, in nanoseconds since the start; `None` when the thread is done.
    #[inline]
    pub fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        match &mut self.generator {
            Generator::Demand { demand, areas } => Some(of_demand(demand.next(thread)?, areas)),
            Generator::Threads(program) => Some(of_threads(program.next(thread, now)?)),
            Generator::Own(operations) => operations.next(thread, now),
        }
    }
}

fn of_demand(operation: demand::Operation, areas: &[u32]) -> Operation {
    match operation {
        demand::Operation::Compute { nanoseconds } => Operation::Compute { nanoseconds },
        demand::Operation::Read { file, index, pages } => Operation::Read { file, index, pages },
        demand::Operation::Write { file, index, pages } => Operation::Write { file, index, pages },
        demand::Operation::Touch { region, index, pages, write } => Operation::Access {
            area: areas[region as usize],
            first: index,
            pages: pages.into(),
            write,
            extent: Extent::Nothing,
        },
        demand::Operation::Release { region } => {
            Operation::Release { area: areas[region as usize], first: 0, pages: u64::MAX }
        }
        demand::Operation::TransactionEnd => Operation::TransactionEnd,
    }
}

fn of_threads(operation: threads::Operation) -> Operation {
    match operation {
        threads::Operation::Stream { area, first, pages, write } => {
            Operation::Access { area, first, pages, write, extent: Extent::Pages }
        }
        threads::Operation::Touch { area, page, write } => {
            Operation::Access { area, first: page, pages: 1, write, extent: Extent::Lines }
        }
        threads::Operation::Compute { nanoseconds } => Operation::Compute { nanoseconds },
        threads::Operation::SystemCalls { nanoseconds } => Operation::SystemCalls { nanoseconds },
        threads::Operation::Pin(to) => Operation::Pin(to),
        threads::Operation::SetMempolicy(node) => Operation::SetMempolicy(node),
        threads::Operation::Barrier => Operation::Barrier,
        threads::Operation::Map { area } => Operation::Map { area },
        threads::Operation::Mmap { area, pages } => Operation::Mmap { area, pages, place: Place::Apart },
        threads::Operation::Release { area } => Operation::Release { area, first: 0, pages: u64::MAX },
        threads::Operation::Exec => Operation::Exec,
        threads::Operation::TransactionEnd => Operation::TransactionEnd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn start(text: &str) -> Program {
        let spec: ProgramSpec = toml::from_str(text).expect("a program");
        spec.check().expect("checked");
        spec.copies().start(4, 1, Pcg64Mcg::seed_from_u64).expect("started")
    }

    #[test]
    fn a_demand_and_threads_speak_the_same_language() {
        let mut reader = start(
            "kind = 'groups'\n[[groups]]\nthreads = 2\nobject = 'memory'\nmib = 1\nwrite = true\n\
             pattern = { kind = 'sequential' }\ncompute_ns = { value = 500.0, source = 'made up' }",
        );
        // One for each thread.
        assert_eq!(reader.layout().processes[0].areas, [256, 256]);
        let operations: Vec<Operation> = (0..6).filter_map(|_| reader.next(0, 0)).collect();
        let touched = Operation::Access { area: 0, first: 1, pages: 1, write: true, extent: Extent::Nothing };
        assert!(operations.contains(&touched), "{operations:?}");
        assert!(operations.contains(&Operation::TransactionEnd), "{operations:?}");

        let mut streams = start("kind = 'numa02'\nprocesses = 1\nthreads = 2\nmib = 2\nloops = 1");
        assert_eq!(streams.layout().threads.len(), 2);
        let operations: Vec<Operation> = std::iter::from_fn(|| streams.next(1, 0)).take(8).collect();
        let is_stream = |operation: &Operation| {
            matches!(operation, Operation::Access { extent: Extent::Pages, pages: 256, .. })
        };
        assert!(operations.iter().any(is_stream), "{operations:?}");
    }
}
