//! A kernel build: `make -jN` with the processes of a recorded build, and the files that compilers read.
//!
//! ```text
//!   slot 0   sh ─ gcc ─ cc1 ─ as ─ objtool │ next job ...        exec: another address space, another CPU
//!   slot 1   ...           │
//!   slot N-1               ├─ reads: the headers that every file includes, then some of the rest of the tree
//!                          ├─ computes, and stores to new pages of its memory, in the recorded order and number
//!                          ├─ has the kernel allocate what it needs for it: page tables, pipes
//!                          ├─ unmaps pages when the recorded one freed them while it went on
//!                          └─ ends: gives everything back                     after the last job: the tail, alone
//! ```
//!
//! The recording ([`crate::process`]) says what each process asked of the page allocator and when, but not what for. Movable pages of
//! order 0 are taken for private memory, which is right for 99 of 100: they are freed by the process itself. All other blocks are memory
//! of the kernel. What a process did not free itself is freed when it ends: page tables go through RCU, whose frees the recording
//! attributes to the next process on that CPU. Which pages stay longer, in slabs and in the page cache, it does not tell.
//!
//! The recorded time of an allocation is that of the program's own work before it and of the page fault. What a fault takes there is
//! taken off, as one of the simulated machine comes on top. How long a process frees is left to the twin. The recording has no file
//! reads, because the sources were in the page cache; what a compiler reads is an assumption. Object files that are written and then
//! read by the linker are not modelled.

use crate::demand::{Descriptor, File, MIB_PAGES, Thread};
use crate::keys::{Bounds, INTENSITY, THREADS, UNITS, Value};
use crate::operation::{Extent, Layout, Operation, Operations, Own, OwnSpec, Place, Process};
use crate::process::{Make, Next, Operation as Recorded, ProcessProfile};
use machine::WrongValue;
use machine::profile::Figure;
use mm::MigrateType;
use mm::readahead::Advice;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::ops::Range;

/// Bounds of the pages that a compiler reads.
const PAGES: Bounds = Bounds::new(0.0, 1e6, "4 GiB for one compiler").or_none();

crate::keys! {
    /// A kernel build, as in a scenario.
    pub struct KernelBuild {
        /// `-j` of make.
        pub jobs: u32 => THREADS,
        /// Number of jobs of make; as many as the recording has if absent. If there are more, those repeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub units: Option<u32> => UNITS,
        /// Speed of the processes relative to the recording.
        pub intensity: Figure => INTENSITY,
        /// Size of headers and sources in MiB. If absent, compilers read nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tree_mib: Option<Figure> => Bounds::new(1.0, 1_048_576.0, "1 TiB"),
        /// Pages that every compiler reads; none if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub common_pages: Option<Figure> => PAGES,
        /// Further pages of the tree that each compiler reads; none if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub other_pages: Option<Figure> => PAGES,
    }
}

/// Name (comm) of the processes that read sources.
const COMPILER: &str = "cc1";
/// Pages per read of neighbouring headers.
const READ_PAGES: u64 = 4;
/// The file of all headers and sources.
const TREE: u32 = 0;
/// The only area of a process.
const AREA: u32 = 0;
/// Pages that a process touches at once, though it did so one by one: about as many as a CPU's batch for the LRU lists has.
const TOUCHED: u64 = 16;
/// What a page fault took where the build was recorded, clearing the page included. Assumption: what machines/epyc-7k62-vm.toml, that
/// machine, has for both.
const FAULT_NANOSECONDS: u64 = 1600;

fn value(figure: &Option<Figure>) -> f64 {
    figure.as_ref().map_or(0.0, |figure| figure.value)
}

impl KernelBuild {
    /// Whether compilers read sources.
    pub fn reads(&self) -> bool {
        self.tree_mib.is_some()
    }

    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let KernelBuild { intensity, tree_mib, common_pages, other_pages, .. } = self;
        let optional = [("tree_mib", tree_mib), ("common_pages", common_pages), ("other_pages", other_pages)];
        let present = optional.into_iter().filter_map(|(key, figure)| Some((key.into(), figure.as_mut()?)));
        std::iter::once(("intensity".into(), intensity)).chain(present).collect()
    }
}

/// The profile of the recorded kernel build.
pub(crate) fn recorded_build() -> Result<&'static ProcessProfile, WrongValue> {
    ProcessProfile::kernel_build()
        .map_err(|error| WrongValue::new("kind", error, "a readable data/kbuild.profile"))
}

impl OwnSpec for KernelBuild {
    fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        for (key, pages) in [("common_pages", &self.common_pages), ("other_pages", &self.other_pages)] {
            if let (Some(pages), None) = (pages, &self.tree_mib) {
                return Err(WrongValue::new(
                    key,
                    pages.value,
                    "absent, or tree_mib beside it: pages of the tree",
                ));
            }
        }
        if self.reads() && value(&self.common_pages) > value(&self.tree_mib) * MIB_PAGES as f64 {
            let pages = value(&self.common_pages);
            return Err(WrongValue::new("common_pages", pages, "no more pages than tree_mib has"));
        }
        Ok(())
    }

    fn start(&self, _seed: u64, random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let profile = recorded_build()?;
        let jobs = self.jobs as usize;
        let tree = value(&self.tree_mib).round() as u64 * MIB_PAGES;
        // The tree stands for many small files, at whose ends readahead stops.
        let tree_file =
            File { pages: tree, advice: Advice::Random, descriptor: Descriptor::Shared, new: false };
        let layout = Layout {
            processes: vec![Process::default(); jobs],
            files: if self.reads() { vec![tree_file] } else { Vec::new() },
            threads: (0..self.jobs).map(Thread::of).collect(),
            ..Layout::default()
        };
        let units = self.units.map_or(profile.units().len(), |units| units as usize);
        let order = shuffled(profile.units().len(), units, &mut random(self.jobs.into()));
        let slot = |slot| Slot {
            random: random(slot),
            pending: VecDeque::new(),
            memory: Memory::default(),
            allocations: 0,
        };
        let build = Build {
            profile,
            make: Make::new(profile, jobs, order.into_iter()),
            slots: (0..u64::from(self.jobs)).map(slot).collect(),
            intensity: self.intensity.value,
            tree,
            common: value(&self.common_pages).round() as u64,
            other: value(&self.other_pages).round() as u64,
        };
        Ok(Own { layout, operations: Box::new(build) })
    }
}

/// So many jobs out of `recorded` ones: all of them in random order, again and again.
fn shuffled(recorded: usize, count: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let mut order = Vec::with_capacity(count);
    while order.len() < count && recorded > 0 {
        let mut round: Vec<usize> = (0..recorded).collect();
        round.shuffle(random);
        round.truncate(count - order.len());
        order.append(&mut round);
    }
    order
}

/// The pages of private memory that a recorded operation allocates.
pub(crate) fn private_pages(operation: Recorded) -> u32 {
    match operation {
        Recorded::Allocate { order: 0, migrate_type: MigrateType::Movable, count, .. } => count,
        _ => 0,
    }
}

/// The pages of private memory that a process allocates.
pub(crate) fn pages_of(profile: &ProcessProfile, process: u32) -> u64 {
    profile.process(process).iter().map(|&operation| u64::from(private_pages(operation))).sum()
}

/// Which of a process's allocations are pages of its private memory.
#[derive(Default)]
struct Memory {
    /// Allocations so far.
    allocations: u32,
    /// Pages of private memory so far.
    pages: u64,
    /// Runs of allocations of private memory: number of the first one, number of its page, length.
    runs: Vec<(u32, u64, u32)>,
}

impl Memory {
    /// Notes `count` allocations; returns the pages that they are, if they are private memory.
    fn allocate(&mut self, count: u32, is_private: bool) -> Range<u64> {
        let first = self.pages;
        if is_private {
            self.runs.push((self.allocations, first, count));
            self.pages += u64::from(count);
        }
        self.allocations += count;
        first..self.pages
    }

    /// Private pages among the first so many allocations.
    fn pages_before(&self, allocation: u32) -> u64 {
        let at = self.runs.partition_point(|&(first, ..)| first < allocation);
        let Some(&(first, page, count)) = at.checked_sub(1).map(|at| &self.runs[at]) else { return 0 };
        page + u64::from(count.min(allocation - first))
    }
}

struct Slot {
    random: Pcg64Mcg,
    /// What its process does before the next recorded operation.
    pending: VecDeque<Operation>,
    memory: Memory,
    /// Recorded allocations that its process still makes.
    allocations: usize,
}

/// A build, running.
struct Build {
    profile: &'static ProcessProfile,
    make: Make,
    slots: Vec<Slot>,
    intensity: f64,
    /// Pages of headers and sources.
    tree: u64,
    /// Pages that every compiler reads.
    common: u64,
    /// Further pages that each compiler reads.
    other: u64,
}

impl Build {
    /// Plans what a process does before the first recorded operation.
    fn exec(&mut self, slot: usize, process: u32) {
        let Slot { random, pending, memory, allocations } = &mut self.slots[slot];
        *memory = Memory::default();
        let allocates = |operation: &&Recorded| matches!(operation, Recorded::Allocate { .. });
        *allocations = self.profile.process(process).iter().filter(allocates).count();
        pending.push_back(Operation::Exec);
        let pages = pages_of(self.profile, process);
        if pages > 0 {
            pending.push_back(Operation::Mmap { area: 0, pages, place: Place::Apart });
        }
        if self.tree == 0 || self.profile.kind(process) != COMPILER {
            return;
        }
        let read = |index: u64, end: u64| Operation::Read {
            file: TREE,
            index,
            pages: (end - index).min(READ_PAGES) as u32,
        };
        let common = (0..self.common).step_by(READ_PAGES as usize);
        pending.extend(common.map(|index| read(index, self.common)));
        for _ in 0..self.other {
            let index = random.random_range(0..self.tree);
            pending.push_back(read(index, index + 1));
        }
    }

    /// Plans what a recorded operation of a process is.
    fn plan(&mut self, slot: usize, recorded: Recorded) {
        let Slot { pending, memory, allocations, .. } = &mut self.slots[slot];
        if let Recorded::Allocate { .. } = recorded {
            *allocations -= 1;
        }
        let pages = private_pages(recorded);
        let faults = u64::from(pages) * FAULT_NANOSECONDS;
        let own = u64::from(recorded.nanoseconds()).saturating_sub(faults);
        let nanoseconds = (own as f64 / self.intensity).round() as u64;
        match recorded {
            Recorded::Allocate { count, .. } if pages > 0 => {
                let all = memory.allocate(count, true);
                let by = |page: u64| nanoseconds * (page - all.start) / u64::from(count);
                for first in all.clone().step_by(TOUCHED as usize) {
                    let (pages, extent) = (TOUCHED.min(all.end - first), Extent::Nothing);
                    pending.push_back(Operation::Compute { nanoseconds: by(first + pages) - by(first) });
                    pending.push_back(Operation::Access { area: AREA, first, pages, write: true, extent });
                }
            }
            Recorded::Allocate { order, migrate_type, count, .. } => {
                memory.allocate(count, false);
                pending.push_back(Operation::Compute { nanoseconds });
                pending.push_back(Operation::AllocPages { order, migrate_type, blocks: count });
            }
            // What it frees after its last allocation it frees by ending.
            Recorded::Free { .. } if *allocations == 0 => {}
            Recorded::Free { first, count, .. } => {
                let pages = memory.pages_before(first)..memory.pages_before(first + count);
                pending.push_back(release(pages));
            }
            Recorded::Run { .. } => pending.push_back(Operation::Compute { nanoseconds }),
            Recorded::FreeShared { .. } => {}
        }
    }
}

fn release(Range { start, end }: Range<u64>) -> Operation {
    Operation::Release { area: AREA, first: start, pages: end - start }
}

impl Operations for Build {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        loop {
            if let Some(operation) = self.slots[thread].pending.pop_front() {
                return Some(operation);
            }
            match self.make.next(thread)? {
                Next::Exec(process) => self.exec(thread, process),
                Next::Operation(recorded) => self.plan(thread, recorded),
                Next::Exit => {
                    let Slot { pending, memory, .. } = &mut self.slots[thread];
                    pending.push_back(release(0..memory.pages));
                }
                Next::JobEnd => return Some(Operation::TransactionEnd),
            }
        }
    }

    fn is_build(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn spec(jobs: u32, units: u32) -> KernelBuild {
        let figure = |value| Figure { value, range: None, source: "made up".into() };
        KernelBuild {
            jobs,
            units: Some(units),
            intensity: figure(1.0),
            tree_mib: Some(figure(64.0)),
            common_pages: Some(figure(10.0)),
            other_pages: Some(figure(7.0)),
        }
    }

    /// What the processes of a build did.
    #[derive(Default)]
    struct Done {
        jobs: usize,
        processes: u64,
        common_reads: usize,
        other_reads: usize,
        touched: u64,
        released: u64,
        kernel_blocks: u64,
        nanoseconds: u64,
    }

    /// Runs a build, its slots in turns.
    fn run(spec: &KernelBuild) -> Done {
        spec.check().unwrap();
        let mut own = spec.start(1, &Pcg64Mcg::seed_from_u64).unwrap();
        let mut done = Done::default();
        // For each slot: pages of its area, pages touched, pages released.
        let mut memory = vec![(0, 0, 0); own.layout.threads.len()];
        let mut slots: VecDeque<usize> = (0..memory.len()).collect();
        while let Some(slot) = slots.pop_front() {
            let Some(operation) = own.operations.next(slot, 0) else { continue };
            slots.push_back(slot);
            let (mapped, touched, released) = &mut memory[slot];
            match operation {
                Operation::Exec => {
                    (*mapped, *touched, *released) = (0, 0, 0);
                    done.processes += 1;
                }
                Operation::Mmap { pages, .. } => *mapped = pages,
                Operation::Read { index, pages, .. } => {
                    assert!(index + u64::from(pages) <= if pages > 1 { 10 } else { 64 * 256 });
                    *(if pages > 1 { &mut done.common_reads } else { &mut done.other_reads }) += 1;
                }
                Operation::Access { area: AREA, first, pages, write: true, extent: Extent::Nothing } => {
                    assert_eq!(first, *touched);
                    *touched += pages;
                    assert!(*touched <= *mapped && pages <= TOUCHED);
                    done.touched += pages;
                }
                Operation::Release { area: AREA, first, pages } => {
                    assert!(first + pages <= *touched, "it frees what it has");
                    // At the end all of it.
                    let again = if pages == *touched { *released } else { 0 };
                    *released += pages - again;
                    assert!(*released <= *touched, "and once");
                    done.released += pages - again;
                }
                Operation::AllocPages { blocks, .. } => done.kernel_blocks += u64::from(blocks),
                Operation::Compute { nanoseconds } => done.nanoseconds += nanoseconds,
                Operation::TransactionEnd => done.jobs += 1,
                other => panic!("{other:?}"),
            }
        }
        done
    }

    #[test]
    fn a_build_takes_the_memory_and_the_time_that_were_recorded() {
        let profile = ProcessProfile::kernel_build().unwrap();
        let units = profile.units().len();
        let done = run(&spec(4, units as u32));
        assert_eq!(done.jobs, units + 1, "all jobs and the tail");
        assert_eq!(done.processes, profile.len() as u64);
        let all = || 0..profile.len() as u32;
        let compilers = all().filter(|&process| profile.kind(process) == COMPILER).count();
        assert_eq!((done.common_reads, done.other_reads), (3 * compilers, 7 * compilers));
        let operations = || all().flat_map(|process| profile.process(process).iter().copied());
        let pages = operations().map(|operation| u64::from(private_pages(operation))).sum::<u64>();
        assert_eq!(done.touched, pages);
        // Half of the recorded jobs: half of 24.75 million pages and of 507.5 CPU seconds.
        assert!((11.3e6..12.4e6).contains(&(done.touched as f64)), "{pages}");
        assert_eq!(done.released, pages, "everything is given back");
        let allocated = |operation| match operation {
            Recorded::Allocate { count, .. } => u64::from(count),
            _ => 0,
        };
        assert_eq!(done.kernel_blocks, operations().map(allocated).sum::<u64>() - pages);
        let computed = |operation: Recorded| match operation {
            Recorded::Run { nanoseconds } => u64::from(nanoseconds),
            Recorded::Allocate { nanoseconds, .. } => {
                let faults = u64::from(private_pages(operation)) * FAULT_NANOSECONDS;
                u64::from(nanoseconds).saturating_sub(faults)
            }
            Recorded::Free { .. } | Recorded::FreeShared { .. } => 0,
        };
        assert_eq!(done.nanoseconds, operations().map(computed).sum::<u64>());
    }

    #[test]
    fn jobs_begin_again_and_the_tail_comes_once() {
        let profile = ProcessProfile::kernel_build().unwrap();
        let units = profile.units().len();
        assert_eq!(run(&spec(3, units as u32 + 5)).jobs, units + 6);
        assert_eq!(run(&spec(8, 1)).jobs, 2);
        let order = |seed| shuffled(units, units + 5, &mut Pcg64Mcg::seed_from_u64(seed));
        let mut round = order(1)[..units].to_vec();
        round.sort_unstable();
        assert_eq!(round, (0..units).collect::<Vec<_>>());
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn compilers_read_pages_of_a_tree_or_nothing() {
        assert_eq!(spec(0, 1).check().unwrap_err().key, "jobs");
        let without = KernelBuild { tree_mib: None, ..spec(1, 1) };
        assert_eq!(without.check().unwrap_err().key, "common_pages");
        let without = KernelBuild { common_pages: None, other_pages: None, ..without };
        assert_eq!((run(&without).common_reads, without.reads()), (0, false));
        let small = KernelBuild { tree_mib: spec(1, 1).intensity.into(), ..spec(1, 1) };
        let common = Figure { value: 257.0, ..spec(1, 1).intensity };
        assert_eq!(
            KernelBuild { common_pages: Some(common), ..small }.check().unwrap_err().key,
            "common_pages"
        );
    }
}
