//! kernbench: a kernel build as NUMA balancing sees it. Every process has its own memory, and most exit
//! before they are scanned.
//!
//! ```text
//!   slot 0   sh ─ gcc ─ cc1 ─────────────── as │ next job ...        exec: another address space, another CPU
//!                        │ VMAs, when the program maps them
//!                        │ stores to new pages, in the recorded order
//!                        │ accesses to random pages among those it has
//!                        └ now and then another node: load balancing
//! ```
//!
//! The processes, and how many pages they take and when, are those of the recorded build
//! ([`crate::kernel_build`]). That recording has no addresses, so the VMAs are those of another
//! recording of a build ([`crate::mappings::areas`]): of its program with the nearest number of pages, scaled
//! to that number. Three parameters are in neither recording and are fitted to a baseline row: how often a
//! process reuses its pages, how often the scheduler moves it between nodes, and how long its system calls
//! take. A page is on a remote node only if its process was moved. Files are left out, because read-only
//! mappings of files are never scanned.

use super::{Affinity, Layout, Operation, Threads, equal_processes};
use crate::kernel_build::{pages_of, private_pages, recorded_build};
use crate::keys::{Bounds, INTENSITY, THREADS, UNITS, Value};
use crate::mappings::areas::AddressSpace;
use crate::mappings::{KERNEL_BUILD, Mappings, MappingsError};
use crate::process::{Make, Next, ProcessProfile};
use machine::WrongValue;
use machine::profile::Figure;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::ops::Range;
use std::sync::OnceLock;

/// Nanoseconds of computing between reuses of pages and chances to be moved.
const SLICE: u64 = 1_000_000;

crate::keys! {
    /// A build, as in a scenario.
    pub struct Kernbench {
        /// `-j` of make.
        pub jobs: Threads => THREADS,
        /// Number of jobs of make; if there are more than were recorded, the recorded ones repeat.
        pub units: u32 => UNITS,
        /// Speed of the processes relative to the recording.
        pub intensity: Figure => INTENSITY,
        /// Pages that a process reuses per millisecond of computing.
        pub accesses_per_ms: Figure => Bounds::new(0.0, 1e6, "one each ns"),
        /// How often a process is moved to another node per second of computing.
        pub moves_per_second: Figure => Bounds::new(0.0, 1000.0, "once in each ms, which is when it is looked at"),
        /// Milliseconds that a process spends in system calls that are not modelled: fork, exec, files and
        /// exit.
        pub system_calls_ms: Figure => Bounds::new(0.0, 1e6, "a quarter of an hour"),
    }
}

impl Kernbench {
    pub(super) fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")
    }

    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("intensity".into(), &mut self.intensity),
            ("accesses_per_ms".into(), &mut self.accesses_per_ms),
            ("moves_per_second".into(), &mut self.moves_per_second),
            ("system_calls_ms".into(), &mut self.system_calls_ms),
        ]
    }

    pub(super) fn start(
        &self,
        cpus: usize,
        random: impl Fn(u64) -> Pcg64Mcg,
    ) -> Result<KernbenchThreads, WrongValue> {
        let jobs = self.jobs.on(cpus);
        let profile = recorded_build()?;
        let recorded = profile.units().len();
        let units = (0..self.units as usize).map(|unit| unit % recorded.max(1));
        let spaces = recorded_spaces()
            .map_err(|error| WrongValue::new("kind", error, "readable data/kernel-build.mappings.zst"))?;
        let slot = |slot: u32| Slot {
            random: random((jobs + slot).into()),
            space: AddressSpace::default(),
            run: 0,
            due: 0..0,
            touched: Vec::new(),
            computing: 0,
            accesses: 0,
            owed: 0.0,
            pinned: false,
            execs: true,
        };
        Ok(KernbenchThreads {
            profile,
            make: Make::new(profile, jobs as usize, units),
            spaces,
            layout: equal_processes(jobs, Vec::new(), 1),
            slots: (0..jobs).map(slot).collect(),
            accesses: self.accesses_per_ms.value,
            intensity: self.intensity.value,
            moves: self.moves_per_second.value * SLICE as f64 / 1e9,
            system_calls: (self.system_calls_ms.value * 1e6).round() as u64,
        })
    }
}

/// The address spaces of the programs of the recorded kernel build, by their pages, parsed once.
fn recorded_spaces() -> Result<&'static [AddressSpace], &'static MappingsError> {
    static SPACES: OnceLock<Result<Vec<AddressSpace>, MappingsError>> = OnceLock::new();
    let parse = || {
        let mut spaces = Mappings::parse(KERNEL_BUILD[0])?.address_spaces();
        spaces.sort_by_key(AddressSpace::pages);
        Ok(spaces)
    };
    SPACES.get_or_init(parse).as_deref()
}

struct Slot {
    random: Pcg64Mcg,
    /// The VMAs of the running process, and which VMA each new page belongs to.
    space: AddressSpace,
    /// Index of the run that the next new page belongs to.
    run: usize,
    /// New pages to be stored to, numbered from the first of the process on.
    due: Range<u64>,
    /// Pages touched so far in each VMA that has been mapped.
    touched: Vec<u64>,
    /// Nanoseconds left of the current step.
    computing: u64,
    /// Accesses left of the current slice.
    accesses: u64,
    /// Fractions of an access carried over to the next slice.
    owed: f64,
    /// Whether it was moved and has to be unpinned.
    pinned: bool,
    /// Whether it execs next, its first or another program.
    execs: bool,
}

impl Slot {
    /// Maps the next VMA or stores to the next new pages, if any are due.
    fn next_new(&mut self) -> Option<Operation> {
        if self.due.is_empty() {
            return None;
        }
        let next_area = self.space.areas.get(self.touched.len());
        if let Some(area) = next_area.filter(|area| area.begins <= self.due.start) {
            self.touched.push(0);
            return Some(Operation::Mmap { area: self.touched.len() as u32 - 1, pages: area.pages });
        }
        let run = self.space.runs[self.run];
        // Pages before the start of the next VMA.
        let end = next_area.map_or(run.end, |area| run.end.min(area.begins)).min(self.due.end);
        let pages = end - self.due.start;
        self.due.start = end;
        self.run += usize::from(end == run.end);
        let touched = &mut self.touched[run.area as usize];
        *touched += pages;
        Some(Operation::Stream { area: run.area, first: *touched - pages, pages, write: true })
    }

    /// Accesses one of its pages again.
    fn next_access(&mut self) -> Option<Operation> {
        let all = self.touched.iter().sum();
        if self.accesses == 0 || all == 0 {
            return None;
        }
        self.accesses -= 1;
        let mut page = self.random.random_range(0..all);
        for (area, &pages) in (0..).zip(&self.touched) {
            if page < pages {
                return Some(Operation::Touch { area, page, write: true });
            }
            page -= pages;
        }
        None
    }
}

/// A build, running.
pub struct KernbenchThreads {
    profile: &'static ProcessProfile,
    make: Make,
    /// Speed of the processes relative to the recording.
    intensity: f64,
    /// VMAs of the recorded programs, sorted by number of pages.
    spaces: &'static [AddressSpace],
    layout: Layout,
    slots: Vec<Slot>,
    /// Accesses per slice.
    accesses: f64,
    /// Moves per slice.
    moves: f64,
    /// Nanoseconds in system calls per process.
    system_calls: u64,
}

impl KernbenchThreads {
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn next(&mut self, thread: usize) -> Option<Operation> {
        let slot = &mut self.slots[thread];
        if std::mem::take(&mut slot.execs) {
            return Some(Operation::Exec);
        }
        if std::mem::take(&mut slot.pinned) {
            return Some(Operation::Pin(None));
        }
        if let Some(operation) = slot.next_new().or_else(|| slot.next_access()) {
            return Some(operation);
        }
        if slot.computing > 0 {
            let nanoseconds = slot.computing.min(SLICE);
            slot.computing -= nanoseconds;
            let part = nanoseconds as f64 / SLICE as f64;
            slot.owed += self.accesses * part;
            slot.accesses = slot.owed as u64;
            slot.owed -= slot.accesses as f64;
            if slot.random.random::<f64>() < self.moves * part {
                slot.pinned = true;
                // Nodes are taken modulo their number.
                return Some(Operation::Pin(Some(Affinity::Node(slot.random.random_range(0..8)))));
            }
            return Some(Operation::Compute { nanoseconds });
        }
        Some(match self.make.next(thread)? {
            Next::Exec(process) => {
                let pages = pages_of(self.profile, process);
                if pages > 0 {
                    slot.space = space_of(self.spaces, pages);
                }
                (slot.run, slot.due) = (0, 0..0);
                return self.next(thread);
            }
            Next::Operation(recorded) => {
                slot.computing = (f64::from(recorded.nanoseconds()) / self.intensity).round() as u64;
                slot.due.end += u64::from(private_pages(recorded));
                return self.next(thread);
            }
            Next::Exit => {
                slot.touched.clear();
                (slot.accesses, slot.owed, slot.execs) = (0, 0.0, true);
                Operation::SystemCalls { nanoseconds: self.system_calls }
            }
            Next::JobEnd => Operation::TransactionEnd,
        })
    }
}

/// The VMAs of a process with this many pages: those of the program with the nearest number of pages, scaled.
fn space_of(spaces: &[AddressSpace], pages: u64) -> AddressSpace {
    let above = spaces.partition_point(|space| space.pages() < pages);
    let near = &spaces[above.saturating_sub(1)..spaces.len().min(above + 1)];
    let nearest = near.iter().min_by_key(|space| space.pages().abs_diff(pages));
    nearest.map_or(AddressSpace::default(), |space| space.scaled(pages))
}
