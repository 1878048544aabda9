//! A kernel build that runs out of memory: the processes of a recorded build, and the files that compilers
//! read.
//!
//! ```text
//!   slot 0   sh ─ gcc ─ cc1 ─ as ─ objtool │ next job ...
//!   slot 1   ...           │
//!   slot N-1               ├─ reads: the headers that every file includes, then some of the rest of the tree
//!                          ├─ touches its own memory, page after page, as fast as when it was recorded
//!                          └─ ends: gives it all back                       after the last job: the tail, alone
//! ```
//!
//! The recording ([`crate::process`]) says how much memory each process allocated and when, but not what for.
//! Movable order-0 pages are taken for private memory, which is right for 19 of 20: they are touched once, in
//! order, and freed at exit. Other allocations only take their CPU time. The recording has no file reads,
//! because the sources were in the page cache; what a compiler reads is an assumption. Object files that are
//! written and then read by the linker are not modelled.

use super::{Demand, Descriptor, File, Layout, MIB_PAGES, Operation, Process, Region, Thread};
use crate::keys::{Bounds, INTENSITY, THREADS, UNITS, Value};
use crate::process::{Operation as Step, ProcessProfile};
use machine::WrongValue;
use machine::profile::Figure;
use mm::MigrateType;
use mm::readahead::Advice;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Bounds of the pages that a compiler reads.
const PAGES: Bounds = Bounds::new(0.0, 1e6, "4 GiB for one compiler");

crate::keys! {
    /// A kernel build, as in a scenario.
    pub struct RecordedBuild {
        /// `-j` of make.
        pub jobs: u32 => THREADS,
        /// Number of jobs of make; as many as were recorded if absent. If there are more, the recorded ones
        /// repeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub units: Option<u32> => UNITS,
        /// Speed of the processes relative to the recording.
        pub intensity: Figure => INTENSITY,
        /// Size of headers and sources in MiB.
        pub tree_mib: Figure => Bounds::new(1.0, 1_048_576.0, "1 TiB"),
        /// Pages that every compiler reads.
        pub common_pages: Figure => PAGES,
        /// Further pages of the tree that each compiler reads.
        pub other_pages: Figure => PAGES,
    }
}

/// Name (comm) of the processes that read sources.
const COMPILER: &str = "cc1";

/// Pages per read of neighbouring headers.
const READ_PAGES: u64 = 4;

/// The file of all headers and sources.
const TREE: u32 = 0;

struct Slot {
    random: Pcg64Mcg,
    /// Whether it has a job.
    working: bool,
    /// Processes of the job that have not started.
    processes: VecDeque<u32>,
    /// The running process and the index of its next step.
    running: Option<(u32, usize)>,
    /// Pages of its memory touched so far.
    touched: u64,
    /// Remaining operations of the current step; the next one is last.
    pending: Vec<Operation>,
    /// Whether it found no job left.
    idle: bool,
}

/// A build, running.
pub struct RecordedBuildDemand {
    profile: &'static ProcessProfile,
    layout: Layout,
    slots: Vec<Slot>,
    units: usize,
    next_unit: usize,
    /// Number of slots that are not idle.
    active: usize,
    tail_started: bool,
    intensity: f64,
    tree_pages: u64,
    common_pages: u64,
    other_pages: u64,
}

impl RecordedBuild {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.common_pages.value > self.tree_mib.value * MIB_PAGES as f64 {
            return Err(WrongValue::new(
                "common_pages",
                self.common_pages.value,
                "no more pages than tree_mib has",
            ));
        }
        Ok(())
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("intensity".into(), &mut self.intensity),
            ("tree_mib".into(), &mut self.tree_mib),
            ("common_pages".into(), &mut self.common_pages),
            ("other_pages".into(), &mut self.other_pages),
        ]
    }

    /// Starts the build; `random` gives each slot a random stream of its own.
    pub fn demand(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<RecordedBuildDemand, WrongValue> {
        self.check()?;
        let profile = ProcessProfile::kernel_build()
            .map_err(|error| WrongValue::new("kind", error, "a readable data/kbuild.profile"))?;
        let largest = (0..profile.len() as u32).map(|process| pages_of(profile, process)).max();
        let tree_pages = self.tree_mib.value.round() as u64 * MIB_PAGES;
        let slot = |slot| Slot {
            random: random(slot),
            working: false,
            processes: VecDeque::new(),
            running: None,
            touched: 0,
            pending: Vec::new(),
            idle: false,
        };
        Ok(RecordedBuildDemand {
            layout: Layout {
                processes: vec![Process { group: 0 }; self.jobs as usize],
                // The tree stands for many small files, at whose ends readahead stops.
                files: vec![File {
                    pages: tree_pages,
                    advice: Advice::Random,
                    descriptor: Descriptor::Shared,
                    new: false,
                }],
                regions: (0..self.jobs)
                    .map(|process| Region { pages: largest.unwrap_or(0), process })
                    .collect(),
                threads: (0..self.jobs).map(Thread::of).collect(),
            },
            slots: (0..u64::from(self.jobs)).map(slot).collect(),
            units: self.units.map_or(profile.units().len(), |units| units as usize),
            next_unit: 0,
            active: self.jobs as usize,
            tail_started: false,
            intensity: self.intensity.value,
            tree_pages,
            common_pages: self.common_pages.value.round() as u64,
            other_pages: self.other_pages.value.round() as u64,
            profile,
        })
    }
}

/// Pages of private memory that a step allocates.
fn private_pages(step: Step) -> u64 {
    match step {
        Step::Allocate { order: 0, migrate_type: MigrateType::Movable, count, .. } => count.into(),
        _ => 0,
    }
}

/// Pages of private memory that a process allocates.
pub(crate) fn pages_of(profile: &ProcessProfile, process: u32) -> u64 {
    profile.process(process).iter().map(|&step| private_pages(step)).sum()
}

impl RecordedBuildDemand {
    /// Pages of private memory that the process running in `slot` allocates in all.
    pub fn pages(&self, slot: usize) -> u64 {
        self.slots[slot].running.map_or(0, |(process, _)| pages_of(self.profile, process))
    }

    /// Gives `slot` its next job. When no job is left, slots become idle, and the last one gets the tail.
    fn next_job(&mut self, slot: usize) {
        let units = self.profile.units();
        let job: &[u32] = if self.next_unit < self.units && !units.is_empty() {
            self.next_unit += 1;
            &units[(self.next_unit - 1) % units.len()]
        } else if self.active == 1 && !self.tail_started {
            self.tail_started = true;
            self.profile.tail()
        } else {
            self.active -= 1;
            self.slots[slot].idle = true;
            return;
        };
        self.slots[slot].working = true;
        self.slots[slot].processes.extend(job);
    }

    /// Plans the reads of a compiler at its start; other processes read nothing.
    fn start(&mut self, slot: usize, process: u32) {
        let Slot { random, running, touched, pending, .. } = &mut self.slots[slot];
        (*running, *touched) = (Some((process, 0)), 0);
        if self.profile.kind(process) != COMPILER {
            return;
        }
        let read = |index: u64, end: u64| Operation::Read {
            file: TREE,
            index,
            pages: (end - index).min(READ_PAGES) as u32,
        };
        let common = (0..self.common_pages).step_by(READ_PAGES as usize);
        pending.extend(common.map(|index| read(index, self.common_pages)));
        for _ in 0..self.other_pages {
            let index = random.random_range(0..self.tree_pages);
            pending.push(read(index, index + 1));
        }
        pending.reverse();
    }

    /// Plans a step of the running process, or its exit.
    fn step(&mut self, slot: usize, process: u32, step: usize) {
        let Slot { running, touched, pending, .. } = &mut self.slots[slot];
        let region = slot as u32;
        let Some(&recorded) = self.profile.process(process).get(step) else {
            *running = None;
            pending.push(Operation::Release { region });
            return;
        };
        *running = Some((process, step + 1));
        let pages = private_pages(recorded);
        let nanoseconds = (f64::from(recorded.nanoseconds()) / self.intensity).round() as u64;
        pending.push(Operation::Compute { nanoseconds });
        if pages > 0 {
            pending.push(Operation::Touch { region, index: *touched, pages: pages as u32, write: true });
            *touched += pages;
        }
    }
}

impl Demand for RecordedBuildDemand {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn next(&mut self, thread: usize) -> Option<Operation> {
        loop {
            let slot = &mut self.slots[thread];
            if let Some(operation) = slot.pending.pop() {
                return Some(operation);
            }
            if slot.idle {
                return None;
            }
            if let Some((process, step)) = slot.running {
                self.step(thread, process, step);
            } else if let Some(process) = slot.processes.pop_front() {
                self.start(thread, process);
            } else if std::mem::take(&mut slot.working) {
                return Some(Operation::TransactionEnd);
            } else {
                self.next_job(thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn spec(jobs: u32, units: u32) -> RecordedBuild {
        let figure = |value| Figure { value, range: None, source: "made up".into() };
        RecordedBuild {
            jobs,
            units: Some(units),
            intensity: figure(1.0),
            tree_mib: figure(64.0),
            common_pages: figure(10.0),
            other_pages: figure(7.0),
        }
    }

    /// Runs a build, one slot after the other. Returns jobs ended, reads of common and of other pages, pages
    /// touched, and seconds.
    fn run(spec: &RecordedBuild) -> (usize, usize, usize, u64, f64) {
        let mut demand = spec.demand(Pcg64Mcg::seed_from_u64).unwrap();
        let regions = demand.layout().regions.clone();
        let (mut ended, mut common, mut other, mut touched, mut nanoseconds) = (0, 0, 0, 0, 0);
        let mut used = vec![0; regions.len()];
        let mut slots: VecDeque<usize> = (0..regions.len()).collect();
        while let Some(slot) = slots.pop_front() {
            let Some(operation) = demand.next(slot) else { continue };
            slots.push_back(slot);
            match operation {
                Operation::Read { index, pages, .. } if pages > 1 => {
                    assert!(index + u64::from(pages) <= 10);
                    common += 1;
                }
                Operation::Read { index, .. } => {
                    assert!(index < 64 * 256);
                    other += 1;
                }
                Operation::Write { .. } => panic!("objects that compilers write are not modelled"),
                Operation::Touch { region, index, pages, write } => {
                    assert!(region as usize == slot && index == used[slot] && write);
                    used[slot] += u64::from(pages);
                    assert!(used[slot] <= regions[slot].pages);
                    touched += u64::from(pages);
                }
                Operation::Release { region } => {
                    assert_eq!(region as usize, slot);
                    used[slot] = 0;
                }
                Operation::Compute { nanoseconds: more } => nanoseconds += more,
                Operation::TransactionEnd => ended += 1,
            }
        }
        assert!(used.iter().all(|&pages| pages == 0), "everything is given back");
        (ended, common, other, touched, nanoseconds as f64 / 1e9)
    }

    #[test]
    fn a_build_takes_the_memory_and_the_time_that_were_recorded() {
        let profile = ProcessProfile::kernel_build().unwrap();
        let units = profile.units().len();
        let (ended, common, other, touched, seconds) = run(&spec(4, units as u32));
        assert_eq!(ended, units + 1, "all jobs and the tail");
        let all = || 0..profile.len() as u32;
        let compilers = all().filter(|&process| profile.kind(process) == COMPILER).count();
        assert_eq!((common, other), (3 * compilers, 7 * compilers));
        let steps = || all().flat_map(|process| profile.process(process).iter().copied());
        assert_eq!(touched, steps().map(private_pages).sum::<u64>());
        let recorded = steps().map(|step| f64::from(step.nanoseconds())).sum::<f64>() / 1e9;
        assert!((seconds - recorded).abs() < 1e-6);
        // Half of the recorded jobs: half of 24.75 million pages and of 507.5 CPU seconds.
        assert!((11.3e6..12.4e6).contains(&(touched as f64)), "{touched}");
        assert!((245.0..260.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn jobs_begin_again_and_the_tail_comes_once() {
        let profile = ProcessProfile::kernel_build().unwrap();
        let units = profile.units().len() as u32;
        assert_eq!(run(&spec(3, units + 5)).0, units as usize + 6);
        assert_eq!(run(&spec(8, 1)).0, 2);
        assert_eq!(spec(0, 1).check().unwrap_err().key, "jobs");
        assert_eq!(RecordedBuild { intensity: spec(1, 1).tree_mib, ..spec(1, 1) }.check(), Ok(()));
    }
}
