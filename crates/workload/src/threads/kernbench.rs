//! kernbench: a kernel build, as NUMA balancing sees it. Processes that each have memory of their own, most of them too short
//! to be scanned.
//!
//! ```text
//!   slot 0   sh ─ gcc ─ cc1 ─────────────── as │ next job ...        exec: another address space, another CPU
//!                        │ new pages, in order, as recorded
//!                        │ pages that it has, by chance, again and again
//!                        └ now and then another node: the scheduler evens out its load
//! ```
//!
//! Processes, their memory and their times are those of the recorded build ([`crate::demand::kernel_build`]). What is not in
//! the recording follows from a baseline row: how often a process comes back to its pages, how often the scheduler moves it
//! while it runs, how long its system calls take. A page is only ever on another node if its process was moved. Files are
//! not here: mappings that are only read are never scanned.

use super::{Layout, Operation, Threads, equal_processes};
use crate::demand::kernel_build::{RecordedBuild, RecordedBuildDemand};
use crate::demand::{Demand, Operation as Step, SpecError, plausible};
use machine::profile::Figure;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// A process looks up and may be moved once in so many ns of computing.
const SLICE: u64 = 1_000_000;

/// A build, as scenarios describe it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernbench {
    /// `-j`.
    pub jobs: Threads,
    /// Jobs of make; more than were recorded begin again.
    pub units: u32,
    /// How much faster the processes go through their work than when recorded.
    pub intensity: Figure,
    /// Pages that a process uses again in a ms of computing.
    pub accesses_per_ms: Figure,
    /// How often a process is moved to another node in a second of computing.
    pub moves_per_second: Figure,
    /// What a process is in system calls that are not modelled, ms: fork, exec, files and its end.
    pub system_calls_ms: Figure,
}

impl Kernbench {
    fn build(&self, jobs: u32) -> RecordedBuild {
        let none = || Figure { value: 0.0, range: None, source: "files are not modelled".into() };
        RecordedBuild {
            jobs,
            units: Some(self.units),
            intensity: self.intensity.clone(),
            tree_mib: Figure { value: 1.0, ..none() },
            common_pages: none(),
            other_pages: none(),
        }
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        self.jobs.check("jobs")?;
        plausible(&[
            ("accesses_per_ms", &self.accesses_per_ms),
            ("moves_per_second", &self.moves_per_second),
            ("system_calls_ms", &self.system_calls_ms),
        ])?;
        self.build(1).check()
    }

    pub(super) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
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
    ) -> Result<KernbenchThreads, SpecError> {
        let jobs = self.jobs.on(cpus);
        let demand = self.build(jobs).demand(&random)?;
        let pages = demand.layout().regions[0].pages;
        let slot = |slot: u32| Slot {
            random: random((jobs + slot).into()),
            begun: false,
            touched: 0,
            computing: 0,
            accesses: 0,
            owed: 0.0,
            pinned: false,
            ended: false,
        };
        Ok(KernbenchThreads {
            demand,
            layout: equal_processes(jobs, vec![pages], 1),
            slots: (0..jobs).map(slot).collect(),
            accesses: self.accesses_per_ms.value,
            moves: self.moves_per_second.value * SLICE as f64 / 1e9,
            system_calls: (self.system_calls_ms.value * 1e6).round() as u64,
        })
    }
}

struct Slot {
    random: Pcg64Mcg,
    /// Its first process has begun.
    begun: bool,
    /// Pages of the process that runs.
    touched: u64,
    /// What is left of a step, ns.
    computing: u64,
    /// What is left of a slice's accesses.
    accesses: u64,
    /// Parts of an access that are due.
    owed: f64,
    /// It was moved, and may go anywhere again.
    pinned: bool,
    /// Its process has nothing more to do.
    ended: bool,
}

/// A build, running.
pub struct KernbenchThreads {
    demand: RecordedBuildDemand,
    layout: Layout,
    slots: Vec<Slot>,
    /// In a slice.
    accesses: f64,
    /// In a slice.
    moves: f64,
    /// Of a process, ns.
    system_calls: u64,
}

impl KernbenchThreads {
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn next(&mut self, thread: usize) -> Option<Operation> {
        let slot = &mut self.slots[thread];
        if !std::mem::replace(&mut slot.begun, true) {
            return Some(Operation::Exec);
        }
        if std::mem::take(&mut slot.ended) {
            return Some(Operation::Exec);
        }
        if std::mem::take(&mut slot.pinned) {
            return Some(Operation::Pin(None));
        }
        if slot.accesses > 0 && slot.touched > 0 {
            slot.accesses -= 1;
            let page = slot.random.random_range(0..slot.touched);
            return Some(Operation::Touch { area: 0, page, write: true });
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
                // Nodes are counted modulo how many there are.
                return Some(Operation::Pin(Some(slot.random.random_range(0..8))));
            }
            return Some(Operation::Compute { nanoseconds });
        }
        Some(match self.demand.next(thread)? {
            Step::Compute { nanoseconds } => {
                slot.computing = nanoseconds;
                return self.next(thread);
            }
            Step::Touch { index, pages, write, .. } => {
                slot.touched = index + u64::from(pages);
                Operation::Stream { area: 0, first: index, pages: pages.into(), write }
            }
            Step::Release { .. } => {
                (slot.touched, slot.accesses, slot.owed, slot.ended) = (0, 0, 0.0, true);
                Operation::SystemCalls { nanoseconds: self.system_calls }
            }
            Step::Read { .. } => return self.next(thread),
            Step::TransactionEnd => Operation::TransactionEnd,
        })
    }
}
