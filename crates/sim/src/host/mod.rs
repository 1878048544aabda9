//! A host: several programs on one machine, each with its memory cgroup, CPUs and memory policy, under one kernel.
//!
//! ```text
//!   program ── operation of a thread ──► Host (engine.rs) ──► page cache, page tables, devices, hint faults (mm)
//!     ▲                                    │  which thread runs where (crate::sched)
//!     └──────── next, once it went on ◄────┘  ticks, scans, kswapd, kcompactd, khugepaged, flushers, OOM kills
//! ```
//!
//! Programs are those of `workload::tasks`: what reads and writes files, what streams through memory on several nodes, builds and
//! databases, all in one run. A thread runs until it waits for a device, is throttled for dirtying, comes to a barrier, or a tick
//! gives its CPU to the next; who wakes up runs at once on its CPU if that is idle, on an idle one nearby, or before the thread that
//! runs there. Every program's CPU time is known by cause, and how long its transactions take.
//!
//! With a `layout`, processes have data, stacks and a vdso besides the areas of their program, which a thread uses at each tick, and a
//! first thread that touches what a process does before it starts the others.
//!
//! Left out: nice values and wake-ups between processes.

mod areas;
mod durations;
mod engine;
mod events;
mod folio_windows;
mod heat_map;
mod layout;
mod own_time;
mod policy;
mod pools;
mod report;
mod state;
mod threads;
mod watch;

use crate::outcome::Outcome;
use crate::{Boot, RunError, System, metric};
use engine::Host;
pub use layout::ProcessLayout;
use machine::profile::Figure;
use machine::{Time, WrongValue};
use mm::features::sched::TaskPlacement;
use mm::file_name::short;
use mm::memcontrol::MemcgFile;
use mm::sysctl::is_of_pools;
use report::KernelWork;
use serde::{Deserialize, Serialize};
pub use state::MemoryState;
use std::borrow::Cow;
use std::path::PathBuf;
pub use watch::{Area, watch};
use workload::keys::{Bounds, CPUS, MIB, MILLISECONDS, NODES, Value};
use workload::tasks::ProgramSpec;

/// Bytes of a page in zswap: one that takes more than a page does not compress.
const COMPRESSED: Bounds =
    Bounds::new(1.0, 65_535.0, "bytes; as many as a page has or more for one that does not compress");
/// Virtual seconds after a build during which pagesets decay before their pages are counted.
const SETTLE_SECONDS: f64 = 60.0;
/// Bounds of copies.
const COPIES: Bounds = Bounds::new(1.0, 1000.0, "programs that run side by side");

workload::no_numbers!(PlacementKey, WorkloadKind);

/// The word that the key `kind` of a workload takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Programs on one machine.
    #[default]
    Host,
}

/// [`TaskPlacement`] as named in scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementKey {
    /// Threads stay where they are.
    Stay,
    /// Threads move if a CPU of the node is idle.
    Idle,
    /// Threads move or swap with another thread.
    Swap,
}

impl From<PlacementKey> for TaskPlacement {
    fn from(key: PlacementKey) -> TaskPlacement {
        match key {
            PlacementKey::Stay => TaskPlacement::Stay,
            PlacementKey::Idle => TaskPlacement::Idle,
            PlacementKey::Swap => TaskPlacement::Swap,
        }
    }
}

workload::keys! {
    /// Programs on one machine, as in a scenario.
    #[derive(Default)]
    pub struct Workload {
        /// `host`: there is no other, so it may be left out.
        #[serde(default)]
        pub kind: WorkloadKind,
        /// The device, of the machine's profile, that has the files; absent if no program has any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub files: Option<String>,
        /// Whether the file system uses large folios, as XFS does since 5.18 and ext4 since 6.16.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub large_folios: bool,
        /// The device for swap; no swap if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub swap: Option<String>,
        /// Size of the swap area in MiB.
        #[serde(default, skip_serializing_if = "workload::keys::is_zero")]
        pub swap_mib: u64 => MIB.or_none(),
        /// Memory in use from the start by what is not modelled, in MiB: in huge pages, which are not moved.
        #[serde(default, skip_serializing_if = "workload::keys::is_zero")]
        pub held_mib: u64 => MIB.or_none(),
        /// How the other memory was before; all free, in blocks as large as they can be, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub state: Option<MemoryState>,
        /// How threads get to their preferred nodes, if different from the kernel's way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub placement: Option<PlacementKey>,
        /// Virtual time before measuring starts, in milliseconds.
        #[serde(default, skip_serializing_if = "workload::keys::is_zero")]
        pub warm_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Virtual time measured, in milliseconds; less if all threads finish earlier.
        pub milliseconds: u64 => MILLISECONDS,
        /// Memory cgroups; a program names the one that it is in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroups: Vec<Cgroup>,
        /// What runs; nothing but the operator if absent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub programs: Vec<HostProgram>,
        /// What an operator writes to files of the kernel during the run, in the order of time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub events: Vec<HostEvent>,
    }
}

workload::keys! {
    /// A write to a file of the kernel.
    #[derive(Eq)]
    pub struct HostEvent {
        /// Virtual time in milliseconds, from the start of warming up. A write begins when those before it have ended.
        #[serde(default, skip_serializing_if = "workload::keys::is_zero")]
        pub milliseconds: u64 => MILLISECONDS.or_none(),
        /// `FILE=VALUE`: a setting, a file of a pool of huge pages, vm.drop_caches, vm.compact_memory, or CGROUP/memory.high and the
        /// like.
        pub write: String,
    }
}

workload::keys! {
    /// A memory cgroup.
    #[derive(Eq)]
    pub struct Cgroup {
        /// Its name.
        pub name: String,
        /// The cgroup that it is in; the root if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
        /// Whether each copy of a program has one of its own, all alike and beside each other: the second copies of all programs in
        /// it share the second one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub per_copy: bool,
        /// `memory.max` in MiB; no limit if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_mib: Option<u64> => MIB,
        /// `memory.high` in MiB; no limit if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub high_mib: Option<u64> => MIB,
        /// `memory.swap.max` in MiB; no limit if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub swap_max_mib: Option<u64> => MIB.or_none(),
        /// `memory.zswap.max` in MiB: what its compressed pages may take; no limit if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub zswap_max_mib: Option<u64> => MIB.or_none(),
        /// `memory.zswap.writeback`: whether its pages may leave zswap for the swap device.
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        pub zswap_writeback: bool,
        /// `memory.low` in MiB.
        #[serde(default)]
        pub low_mib: u64 => MIB.or_none(),
        /// `memory.min` in MiB.
        #[serde(default)]
        pub min_mib: u64 => MIB.or_none(),
        /// `memory.oom.group`: whether the OOM killer kills all its processes together.
        #[serde(default)]
        pub oom_group: bool,
    }
}

workload::keys! {
    /// A program and where it runs.
    pub struct HostProgram {
        /// What results call it.
        pub name: String,
        /// The memory cgroup that it is in; the root if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cgroup: Option<String>,
        /// The memory cgroups of its processes in their order, for a program whose processes are in several, such as a server and its
        /// replicas; those beyond the list are in its last.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroups: Vec<String>,
        /// Node on whose CPUs it runs; all CPUs if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cpu_node: Option<u8> => NODES,
        /// Node that its memory is bound to; local to its threads if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub memory_node: Option<u8> => NODES,
        /// `cpuset.mems` of its cpuset; all nodes if empty. Only NUMA balancing takes it into account.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cpuset_mems: Vec<u8> => NODES,
        /// What its processes map besides the areas of the program, and in which order; nothing if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub layout: Option<ProcessLayout>,
        /// Node on which each process begins: that of its parent process. Its first thread runs there until it has started the
        /// others; the scheduler's choice if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub begins_on: Option<u8> => NODES,
        /// The CPU on which each process begins, instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub begins_on_cpu: Option<u16> => CPUS.or_none(),
        /// How many of it run, with random numbers of their own.
        #[serde(default = "one")]
        pub copies: u32 => COPIES,
        /// What its pages compress to with zswap, in bytes: each page to one of these, all equally often. So ten numbers are the
        /// tenths of a distribution. Of 4 KiB what the machine's zram leaves if absent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub compressed_bytes: Vec<u32> => COMPRESSED,
        /// Virtual time at which it starts, in milliseconds.
        #[serde(default)]
        pub start_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Time over which its copies start, one after the other, in milliseconds; together if absent.
        #[serde(default, skip_serializing_if = "workload::keys::is_zero")]
        pub start_spread_milliseconds: u64 => MILLISECONDS.or_none(),
        /// What it does.
        pub program: ProgramSpec,
    }
}

fn yes() -> bool {
    true
}

fn is_yes(is_on: &bool) -> bool {
    *is_on
}

fn one() -> u32 {
    1
}

impl Workload {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.programs.is_empty() && self.events.is_empty() {
            return Err(WrongValue::new("programs", "[]", "at least one program, or `events`"));
        }
        if self.swap.is_some() != (self.swap_mib > 0) {
            let expected = "more than 0 with a swap device, 0 without";
            return Err(WrongValue::new("swap_mib", self.swap_mib, expected));
        }
        for (at, event) in self.events.iter().enumerate() {
            let before = self.events[..at].last().map_or(0, |before| before.milliseconds);
            if event.milliseconds < before {
                let expected = format!("{before} or later, when the event before it is");
                let key = format!("events[{at}].milliseconds");
                return Err(WrongValue::new(key, event.milliseconds, expected));
            }
            self.written(&event.write)
                .map_err(|expected| WrongValue::new(format!("events[{at}].write"), &event.write, expected))?;
        }
        for (at, cgroup) in self.cgroups.iter().enumerate() {
            let earlier = &self.cgroups[..at];
            if earlier.iter().any(|other| other.name == cgroup.name) {
                let expected = "a name that no other cgroup has";
                return Err(WrongValue::new(format!("cgroups[{at}].name"), &cgroup.name, expected));
            }
            if let Some(parent) = &cgroup.parent {
                let wrong = |expected| WrongValue::new(format!("cgroups[{at}].parent"), parent, expected);
                let parent = find(earlier, "above it", parent).map_err(wrong)?;
                if earlier[parent].per_copy {
                    return Err(wrong("a cgroup that is not one for each copy".into()));
                }
            }
        }
        for (at, program) in self.programs.iter().enumerate() {
            let of = |key: &str| format!("programs[{at}].{key}");
            if self.programs[..at].iter().any(|other| other.name == program.name) {
                let expected = "a name that no other program has";
                return Err(WrongValue::new(of("name"), &program.name, expected));
            }
            program.check_cgroups(&self.cgroups).map_err(|wrong| wrong.within(format!("programs[{at}]")))?;
            program.program.check().map_err(|wrong| wrong.within(of("program")))?;
            if self.files.is_none() && program.program.uses_files() {
                let expected = format!("the device that has the files of program {}", program.name);
                return Err(WrongValue::new("files", "absent", expected));
            }
            if let (Some(layout), Some(_)) = (program.layout, program.program.recordings()) {
                let expected = "no layout here: a recorded program maps what was recorded";
                return Err(WrongValue::new(of("layout"), layout.name(), expected));
            }
            if let (Some(_), Some(cpu)) = (program.begins_on, program.begins_on_cpu) {
                let expected = "nothing beside `begins_on`: either of them";
                return Err(WrongValue::new(of("begins_on_cpu"), cpu, expected));
            }
        }
        Ok(())
    }

    /// What a write is to; the error is what would be right.
    fn written<'a>(&self, write: &'a str) -> Result<Written<'a>, String> {
        let (file, value) = parse_write(write)
            .ok_or("FILE=VALUE, such as vm.nr_hugepages=1024 or CGROUP/memory.high=512M")?;
        let file = short(file);
        let of_cgroup = file.rsplit_once('/').filter(|(_, of)| of.starts_with("memory."));
        let Some((name, of_cgroup)) = of_cgroup else {
            return Ok(Written { file, value, to: Target::Kernel });
        };
        let cgroup = find(&self.cgroups, OF_THE_SCENARIO, name)?;
        if self.cgroups[cgroup].per_copy {
            return Err(format!(
                "a file of another cgroup: {name} is one for each copy (per_copy); their parent can be written"
            ));
        }
        let of_cgroup = MemcgFile::find(of_cgroup).ok_or_else(|| {
            format!("one of the files {} of a cgroup", MemcgFile::ALL.map(|(name, _)| name).join(", "))
        })?;
        let bytes = of_cgroup.bytes(value).ok_or(of_cgroup.takes())?;
        Ok(Written { file, value, to: Target::Cgroup { cgroup, file: of_cgroup, bytes } })
    }

    /// What the events write to, in a system whose kernel takes it.
    fn writes(&self, system: &System) -> Result<Vec<Written<'_>>, RunError> {
        let wrong = |at: usize, expected: String| {
            let key = format!("workload.events[{at}].write");
            RunError::Demand(WrongValue::new(key, &self.events[at].write, expected))
        };
        let mut writes = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            let written =
                self.written(&event.write).map_err(|expected| wrong(at, format!("it takes {expected}")))?;
            if let Written { file, value, to: Target::Kernel } = &written {
                system.mm.check_write(file, value).map_err(|error| wrong(at, error.to_string()))?;
            }
            writes.push(written);
        }
        Ok(writes)
    }

    /// The number of the cgroup `name`; the first has 0.
    fn cgroup(&self, name: Option<&String>) -> Option<usize> {
        self.cgroups.iter().position(|cgroup| Some(&cgroup.name) == name)
    }

    /// Everything that has an outcome of its own: the programs, the operator and what the kernel does for all.
    pub fn reported(&self) -> Vec<&str> {
        let programs = self.programs.iter().map(|program| program.name.as_str());
        let operator = (!self.events.is_empty()).then_some("[events]");
        programs.chain(operator).chain(KernelWork::NAMES).collect()
    }

    /// Whether an operator fills or empties pools of huge pages.
    pub fn writes_to_pools(&self) -> bool {
        let mut files = self.events.iter().filter_map(|event| parse_write(&event.write));
        files.any(|(file, _)| is_of_pools(&short(file)))
    }

    /// Whether pages may have any size: threads that share memory, NUMA balancing, layouts and pools of huge pages count in pages of
    /// 4 KiB.
    pub fn has_any_page_size(&self) -> bool {
        !self.writes_to_pools()
            && self
                .programs
                .iter()
                .all(|program| program.layout.is_none() && program.program.has_any_page_size())
    }

    /// Paths of recordings that programs replay, and their keys below `workload`.
    pub fn recorded_files_mut(&mut self) -> Vec<(String, &mut PathBuf)> {
        let programs = self.programs.iter_mut().enumerate();
        let files = programs.flat_map(|(at, program)| {
            let (key, paths) = program.program.recorded_files_mut();
            paths.iter_mut().map(move |path| (format!("programs[{at}].program.{key}"), path))
        });
        files.collect()
    }

    /// How many recordings there are, if all programs replay some: so many runs differ in what they ask for.
    pub fn recordings(&self) -> Option<usize> {
        let recordings = self.programs.iter().map(|program| program.program.recordings());
        recordings.collect::<Option<Vec<usize>>>()?.into_iter().max()
    }

    /// Whether nothing but traces of the page allocator runs, in which nothing is left to chance.
    pub fn is_of_traces(&self) -> bool {
        let is_trace = |program: &HostProgram| matches!(program.program, ProgramSpec::PageTrace(_));
        self.events.is_empty() && self.programs.iter().all(is_trace)
    }

    /// All figures (values with a source) and their keys below `workload`.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let programs = self.programs.iter_mut().enumerate();
        let of_programs = programs.flat_map(|(at, program)| {
            let figures = program.program.figures_mut().into_iter();
            figures.map(move |(key, figure)| (format!("programs[{at}].program.{key}"), figure))
        });
        let state = self.state.as_mut().map(MemoryState::figures_mut);
        let of_state = state.into_iter().flatten().map(|(key, figure)| (format!("state.{key}"), figure));
        of_state.chain(of_programs).collect()
    }
}

impl HostProgram {
    /// One copy of a program that starts at once, anywhere.
    pub fn new(name: &str, program: ProgramSpec) -> HostProgram {
        HostProgram {
            name: name.into(),
            cgroup: None,
            cgroups: Vec::new(),
            cpu_node: None,
            memory_node: None,
            cpuset_mems: Vec::new(),
            layout: None,
            begins_on: None,
            begins_on_cpu: None,
            copies: 1,
            compressed_bytes: Vec::new(),
            start_milliseconds: 0,
            start_spread_milliseconds: 0,
            program,
        }
    }

    fn check_cgroups(&self, there: &[Cgroup]) -> Result<(), WrongValue> {
        if let Some(cgroup) = &self.cgroup {
            find(there, OF_THE_SCENARIO, cgroup)
                .map_err(|expected| WrongValue::new("cgroup", cgroup, expected))?;
        }
        for (at, cgroup) in self.cgroups.iter().enumerate() {
            let key = format!("cgroups[{at}]");
            find(there, OF_THE_SCENARIO, cgroup)
                .map_err(|expected| WrongValue::new(key, cgroup, expected))?;
        }
        if self.cgroup.is_some() && !self.cgroups.is_empty() {
            let value = format!("{:?}", self.cgroups);
            return Err(WrongValue::new("cgroups", value, "nothing beside `cgroup`: either of them"));
        }
        Ok(())
    }
}

/// Splits `FILE=VALUE` into file and value; `None` if it has no `=` or no file.
pub fn parse_write(text: &str) -> Option<(&str, &str)> {
    let (file, value) = text.split_once('=')?;
    let (file, value) = (file.trim(), value.trim());
    (!file.is_empty()).then_some((file, value))
}

/// Which cgroups a program or a write may name.
const OF_THE_SCENARIO: &str = "of the scenario";

/// What an event writes.
#[derive(Clone)]
struct Written<'a> {
    file: Cow<'a, str>,
    value: &'a str,
    to: Target,
}

#[derive(Clone, Copy)]
enum Target {
    /// A setting, or a file that does something.
    Kernel,
    /// A file of a cgroup, which has this number.
    Cgroup { cgroup: usize, file: MemcgFile, bytes: u64 },
}

/// The number of the cgroup `name` of those of the scenario, or of those above a place in it; the error is what would be right.
fn find(cgroups: &[Cgroup], which: &str, name: &str) -> Result<usize, String> {
    let names: Vec<&str> = cgroups.iter().map(|cgroup| cgroup.name.as_str()).collect();
    match names.iter().position(|known| *known == name) {
        Some(number) => Ok(number),
        None if names.is_empty() => Err(format!("a cgroup {which}, which has none")),
        None => Err(format!("one of the cgroups {which}: {}", names.join(", "))),
    }
}

fn milliseconds(count: u64) -> Time {
    Time::from_nanoseconds(count * 1_000_000)
}

/// Runs the programs of `spec`.
pub(crate) fn run(boot: &Boot, spec: &Workload) -> Result<Outcome, RunError> {
    let mut system = boot.system()?;
    // Boot may have filled pools of huge pages.
    let booted = system.latest();
    let mut host = Host::new(boot, spec, &mut system)?;
    let warm = booted + milliseconds(spec.warm_milliseconds);
    host.run_until(&mut system, booted..warm);
    system.start_measuring(warm);
    host.start_measuring(&mut system);
    let end = host.run_until(&mut system, warm..warm + milliseconds(spec.milliseconds));
    let mut outcome = host.outcome(&mut system, warm..end)?;
    if outcome.get(metric::BUILD_TIME).is_some() {
        system.settle(SETTLE_SECONDS);
        let allocator = &system.mm.parts.allocator;
        outcome.set(metric::PCP_END, allocator.page_size().mib_of_pages(allocator.pages_in_pagesets()));
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests;
