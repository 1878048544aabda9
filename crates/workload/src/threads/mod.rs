//! Threads that share memory: which thread uses which pages, how, and in which order.
//!
//! NUMA balancing depends on who uses which memory. A program is therefore modelled as processes with areas
//! of memory, and threads that access them: as streams, as most of the published benchmarks do, or page by
//! page. Where a thread runs and where a page is placed is up to the kernel; what that costs, up to the
//! machine.
//!
//! ```text
//!   process 0    area 0 ├───────────────────────┤      every thread all of it        numa01
//!                       ├──t0──┼──t1──┼──t2──...┤      a slice each                  numa02, numa01 with slices
//!                area g ├──────────┤                   the threads of group g        sharing
//!                            ▲▲▲                       hot pages, which move on      hot_set
//! ```
//!
//! - [`autonuma`]: the programs of the AutoNUMA benchmark, and variations whose threads are moved.
//! - [`sharing`]: groups of threads that share memory, as the warehouses of SPECjbb.
//! - [`hot_set`]: a key-value store whose hot keys change.
//! - [`kernbench`]: a kernel build, one short process after the other.
//! - [`samples`]: memory accesses sampled by a profiler on a real machine.

pub mod autonuma;
pub mod hot_set;
pub mod kernbench;
pub mod samples;
pub mod sharing;

use crate::keys::{Bounds, Number, Numbers};
use machine::WrongValue;
use machine::profile::Figure;
use rand_pcg::Pcg64Mcg;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Accesses every byte of some pages, in order.
    Stream {
        /// Index into [`Process::areas`].
        area: u32,
        first: u64,
        /// Number of pages.
        pages: u64,
        write: bool,
    },
    /// Accesses a cache line of a page that is in no cache.
    Touch {
        /// Index into [`Process::areas`].
        area: u32,
        page: u64,
        write: bool,
    },
    /// Computes without touching memory.
    Compute { nanoseconds: u64 },
    /// Spends time in system calls that are not modelled.
    SystemCalls { nanoseconds: u64 },
    /// Restricts the thread to some CPUs, or lifts the restriction (`sched_setaffinity`).
    Pin(Option<Affinity>),
    /// Binds new memory of the thread to a node, or lifts that (`set_mempolicy`: MPOL_BIND, MPOL_DEFAULT).
    SetMempolicy(Option<u8>),
    /// Waits until all threads of the process are at the barrier.
    Barrier,
    /// Replaces an area by an empty mapping (`mmap(MAP_FIXED)`).
    Map {
        /// Index into [`Process::areas`].
        area: u32,
    },
    /// Maps a further area, not adjacent to others (`mmap`).
    Mmap {
        /// Its index among the areas of the process, the next one.
        area: u32,
        /// Length in pages.
        pages: u64,
    },
    /// Frees the pages of an area (`madvise(MADV_DONTNEED)`).
    Release {
        /// Index into [`Process::areas`].
        area: u32,
    },
    /// Replaces the process, which has no other thread, by a new one without areas.
    Exec,
    /// Ends a transaction, the unit that the benchmark counts.
    TransactionEnd,
}

/// Where a thread may run. Nodes are taken modulo the number of nodes with CPUs; 255 is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// On the CPUs of a node.
    Node(u8),
    /// On the first CPU of a node.
    FirstCpuOf(u8),
    /// On this CPU.
    Cpu(u16),
}

impl Affinity {
    /// Which node `number` means, of `nodes` nodes that have CPUs.
    pub fn node(number: u8, nodes: u8) -> u8 {
        if number == u8::MAX { nodes - 1 } else { number % nodes }
    }

    /// Where a thread stays if those of its program stay on the CPUs from the `first` on.
    pub fn of_thread(first: Option<u16>, thread: usize) -> Option<Affinity> {
        first.map(|first| Affinity::Cpu(first.saturating_add(thread as u16)))
    }
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Length in pages of each area of private anonymous memory at the start.
    pub areas: Vec<u64>,
    /// Whether there are gaps between the areas; the kernel merges adjacent VMAs.
    pub apart: bool,
    /// Whether the first thread touches all memory before it starts the others.
    pub touched: bool,
}

impl Process {
    /// A process whose areas are adjacent and untouched.
    fn new(areas: Vec<u64>) -> Process {
        Process { areas, apart: false, touched: false }
    }
}

/// The processes and threads of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub processes: Vec<Process>,
    /// The process of each thread, as an index into `processes`.
    pub threads: Vec<u32>,
}

crate::kinds! {
    /// A program and its parameters, as in a scenario.
    pub enum ProgramSpec {
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
        /// A kernel build.
        "kernbench" Kernbench(kernbench::Kernbench),
        /// Memory accesses sampled by a profiler.
        "samples" Samples(samples::SampleFile),
    }
}

/// A running program.
pub enum Program {
    /// See [`ProgramSpec::Numa01`], [`ProgramSpec::Numa02`] and [`ProgramSpec::PinMove`].
    Streams(autonuma::Streams),
    /// See [`ProgramSpec::Sharing`].
    Sharing(sharing::SharingThreads),
    /// See [`ProgramSpec::HotSet`].
    HotSet(hot_set::HotSetThreads),
    /// See [`ProgramSpec::Kernbench`].
    Kernbench(Box<kernbench::KernbenchThreads>),
    /// See [`ProgramSpec::Samples`].
    Samples(samples::SampledThreads),
}

impl ProgramSpec {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        match self {
            ProgramSpec::Numa01(spec) => spec.check(),
            ProgramSpec::Numa02(spec) => spec.check(),
            ProgramSpec::PinMove(spec) => spec.check(),
            ProgramSpec::Sharing(spec) => spec.check(),
            ProgramSpec::HotSet(spec) => spec.check(),
            ProgramSpec::Kernbench(spec) => spec.check(),
            ProgramSpec::Samples(spec) => spec.check(),
        }
    }

    /// Memory of all processes in MiB as far as the keys give it, and the names of these keys.
    pub fn memory_mib(&self) -> (u64, &'static str) {
        match self {
            ProgramSpec::Numa01(spec) => (u64::from(spec.processes) * spec.mib, "processes x mib"),
            ProgramSpec::Numa02(spec) => (u64::from(spec.processes) * spec.mib, "processes x mib"),
            ProgramSpec::PinMove(spec) => (spec.mib, "mib"),
            ProgramSpec::Sharing(spec) => (spec.memory_mib(), "groups x mib + shared_mib"),
            ProgramSpec::HotSet(spec) => (spec.mib + spec.loading_mib, "mib + loading_mib"),
            ProgramSpec::Kernbench(_) | ProgramSpec::Samples(_) => (0, ""),
        }
    }

    /// Threads of all processes on a machine with `cpus` CPUs as far as the keys give them, and the names of
    /// these keys.
    pub fn threads(&self, cpus: usize) -> (u64, &'static str) {
        let of_each = |processes: u32, threads: Threads| {
            (u64::from(processes) * u64::from(threads.on(cpus)), "processes x threads")
        };
        match self {
            ProgramSpec::Numa01(spec) => of_each(spec.processes, spec.threads),
            ProgramSpec::Numa02(spec) => of_each(spec.processes, spec.threads),
            ProgramSpec::Sharing(spec) => {
                (spec.threads.on(cpus).max(spec.groups).into(), "groups or threads")
            }
            ProgramSpec::HotSet(spec) => of_each(1, spec.threads),
            ProgramSpec::Kernbench(spec) => (spec.jobs.on(cpus).into(), "jobs"),
            ProgramSpec::PinMove(_) | ProgramSpec::Samples(_) => (1, ""),
        }
    }

    /// Number of threads with a slice each, and MiB that they divide; `None` if there are no slices.
    pub fn slices(&self, cpus: usize) -> Option<(u32, u64)> {
        match self {
            ProgramSpec::Numa01(spec) if spec.thread_local => Some((spec.threads.on(cpus), spec.mib)),
            ProgramSpec::Numa02(spec) => Some((spec.threads.on(cpus), spec.mib)),
            _ => None,
        }
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        match self {
            ProgramSpec::Sharing(spec) => spec.figures_mut(),
            ProgramSpec::HotSet(spec) => spec.figures_mut(),
            ProgramSpec::Kernbench(spec) => spec.figures_mut(),
            _ => Vec::new(),
        }
    }

    /// Starts the program on a machine with `cpus` CPUs; `random` gives each thread a random stream of its
    /// own.
    pub fn start(&self, cpus: usize, random: impl Fn(u64) -> Pcg64Mcg) -> Result<Program, WrongValue> {
        Ok(match self {
            ProgramSpec::Numa01(spec) => Program::Streams(spec.start(cpus)),
            ProgramSpec::Numa02(spec) => Program::Streams(spec.start(cpus)),
            ProgramSpec::PinMove(spec) => Program::Streams(spec.start()),
            ProgramSpec::Sharing(spec) => Program::Sharing(spec.start(cpus, random)),
            ProgramSpec::HotSet(spec) => Program::HotSet(spec.start(cpus, random)),
            ProgramSpec::Kernbench(spec) => Program::Kernbench(spec.start(cpus, random)?.into()),
            ProgramSpec::Samples(spec) => Program::Samples(spec.start()?),
        })
    }
}

impl Program {
    pub fn layout(&self) -> &Layout {
        match self {
            Program::Streams(program) => program.layout(),
            Program::Sharing(program) => program.layout(),
            Program::HotSet(program) => program.layout(),
            Program::Kernbench(program) => program.layout(),
            Program::Samples(program) => program.layout(),
        }
    }

    /// A caveat to print with the results.
    pub fn note(&self) -> Option<&str> {
        match self {
            Program::Samples(program) => program.note(),
            _ => None,
        }
    }

    /// Whether it has an amount of work, and ends when that is done.
    pub fn ends(&self) -> bool {
        !matches!(self, Program::Sharing(_) | Program::HotSet(_))
    }

    /// Whether the next operation of `thread` depends on the time.
    pub fn reads_clock(&self, thread: usize) -> bool {
        match self {
            Program::Streams(program) => program.reads_clock(thread),
            Program::Sharing(_) | Program::Kernbench(_) => false,
            Program::HotSet(_) | Program::Samples(_) => true,
        }
    }

    /// Whether `thread` compares the time with a value in its process's memory. A thread that stays on a node after
    /// its first pass does not; that value is on its stack.
    pub fn uses_data(&self, thread: usize) -> bool {
        match self {
            Program::Streams(program) => program.uses_data(thread),
            _ => self.reads_clock(thread),
        }
    }

    /// The next operation of `thread` at `now`, in nanoseconds since the start; `None` when the thread is
    /// done.
    #[inline]
    pub fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        match self {
            Program::Streams(program) => program.next(thread, now),
            Program::Sharing(program) => Some(program.next(thread)),
            Program::HotSet(program) => Some(program.next(thread, now)),
            Program::Kernbench(program) => program.next(thread),
            Program::Samples(program) => program.next(thread, now),
        }
    }
}

/// Number of threads: absolute, or relative to the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Threads {
    /// A fixed number.
    Number(u32),
    /// Relative to the number of CPUs.
    PerCpus(PerCpus),
}

/// Threads relative to the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PerCpus {
    /// One thread per CPU.
    All,
    /// One thread per two CPUs.
    Half,
}

impl Threads {
    /// Number of threads on a machine with `cpus` CPUs, at least one.
    pub fn on(self, cpus: usize) -> u32 {
        match self {
            Threads::Number(number) => number,
            Threads::PerCpus(PerCpus::All) => cpus as u32,
            Threads::PerCpus(PerCpus::Half) => (cpus as u32 / 2).max(1),
        }
    }
}

impl Number for Threads {
    const WHOLE: bool = true;
    const OR: &'static str = ", \"all\" or \"half\" of the CPUs";

    fn check_within(&self, key: &str, bounds: Bounds) -> Result<(), WrongValue> {
        match self {
            Threads::Number(number) if !bounds.contain((*number).into()) => {
                Err(Numbers { bounds, whole: true, or: Threads::OR }.refuse(key, number))
            }
            _ => Ok(()),
        }
    }
}

/// What a key for threads accepts, for errors.
const THREADS: &str = "a whole number, \"all\" or \"half\" (of the CPUs)";

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Threads, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Threads;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(THREADS)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Threads, E> {
                let number =
                    number.try_into().map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
                Ok(Threads::Number(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Threads, E> {
                let number =
                    number.try_into().map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
                Ok(Threads::Number(number))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Threads, E> {
                match word {
                    "all" => Ok(Threads::PerCpus(PerCpus::All)),
                    "half" => Ok(Threads::PerCpus(PerCpus::Half)),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Words)
    }
}

/// The layout of `processes` processes with the same areas and the same number of threads.
fn equal_processes(processes: u32, areas: Vec<u64>, threads: u32) -> Layout {
    Layout {
        processes: vec![Process::new(areas); processes as usize],
        threads: (0..processes).flat_map(|process| vec![process; threads as usize]).collect(),
    }
}

#[cfg(test)]
mod tests;
