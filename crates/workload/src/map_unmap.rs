//! Processes that map memory, touch it and unmap it for long, until nothing changes any more in how free memory lies.
//!
//! ```text
//!   areas    small ▪▪▪▪▪▪ short-lived      large ▬▬▬ long-lived       mapped behind a random gap, touched page by
//!              │                                                      page in order or shuffled
//!              ▼
//!   total up to the target  ─► the area with the earliest end is unmapped ─► the next one is mapped
//!
//!   besides: unmovable pages of the kernel, one of which is freed and allocated again now and then; a file that is read, which fills
//!   what the areas leave free
//! ```
//!
//! The question is how often page faults get large folios once memory is fragmented, and whether more fallback orders bring that
//! sooner (Yu Zhao, 2023-07-05). The areas of a task, their lifetimes and the order in which they are touched depend on its random
//! numbers alone: lifetimes are counted in a time of the task's own, which goes on from end to end of its areas. So a kernel that is
//! slower is asked for the same.

use crate::demand::{Descriptor, File, Thread};
use crate::keys::{Bounds, CPUS, MIB, SHARE};
use crate::operation::{
    Extent, Footprint, Layout, Operation, Operations, Own, OwnSpec, Place, Process, Statm,
};
use machine::{PageSize, WrongValue};
use mm::MigrateType;
use mm::readahead::Advice;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::weighted::WeightedIndex;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

/// Bounds of the pages of an area.
const AREA_PAGES: Bounds = Bounds::new(1.0, 16_777_216.0, "64 GiB, as much as memory can have");
/// Widest gap between two areas, in base pages: small, so that areas begin anywhere in a folio and still share page tables.
const GAP: u16 = 16;
/// Most pages of the file that a task reads in a row.
const READ: u32 = 64;
/// How likely a page of the kernel is freed and allocated again when an area is mapped.
const KERNEL_PAGE_CHANGES: f64 = 0.1;

crate::no_numbers!(Counted);

/// What the target is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// The size of all areas: every kernel has the same areas, whatever memory it uses for them.
    #[default]
    Size,
    /// What is in memory of them: kernels that use more memory for an area have fewer areas.
    Resident,
}

crate::keys! {
    /// A class of areas.
    pub struct AreaClass {
        /// Smallest size in pages of 4 KiB.
        pub least: u64 => AREA_PAGES,
        /// Largest size in pages of 4 KiB.
        pub most: u64 => AREA_PAGES,
        /// Relative frequency of the class.
        pub weight: f64 => Bounds::new(0.0, 1e6, "of a hundred or so"),
        /// Mean lifetime, relative to that of other classes.
        pub life: f64 => Bounds::new(1e-6, 1e6, "a millionth to a million of another's"),
        /// Whether areas start at a multiple of their size, rounded up to a power of two.
        #[serde(default)]
        pub aligned: bool,
    }
}

crate::keys! {
    /// The processes, as in a scenario.
    pub struct MapUnmap {
        /// Tasks, a process each.
        pub tasks: u32 => CPUS,
        /// MiB of memory that the areas of all tasks take together, each task an equal part.
        pub mib: u64 => MIB,
        /// What is compared with it.
        #[serde(default)]
        pub counted: Counted,
        /// How many times that much memory is mapped.
        pub turnovers: u64 => Bounds::new(1.0, 100_000.0, "some equilibrium is long reached"),
        /// Classes of areas.
        pub areas: Vec<AreaClass>,
        /// Share of areas that are touched only from their first page to a random one.
        pub partly_touched: f64 => SHARE,
        /// Unmovable pages of the kernel that the tasks cause, in MiB.
        pub unmovable_mib: u64 => MIB.or_none(),
        /// A file of so many MiB that the tasks read as many pages of as they map, some in a row at random places; none if absent.
        #[serde(default, skip_serializing_if = "crate::keys::is_zero")]
        pub file_mib: u64 => MIB.or_none(),
        /// Size of the folios whose allocation is judged, in KiB.
        pub preferred_kib: u64 => Bounds::new(8.0, 2048.0, "two pages to a huge one"),
    }
}

impl OwnSpec for MapUnmap {
    fn check(&self) -> Result<(), WrongValue> {
        if self.areas.is_empty() {
            return Err(WrongValue::new("areas", "[]", "at least one class"));
        }
        if self.areas.iter().all(|class| class.weight == 0.0) {
            return Err(WrongValue::new("areas[0].weight", 0, "more than 0 for one class at least"));
        }
        if !self.preferred_kib.is_power_of_two() {
            return Err(WrongValue::new("preferred_kib", self.preferred_kib, "a power of two"));
        }
        let target = self.target();
        for (number, class) in self.areas.iter().enumerate() {
            let of = |key: &str| format!("areas[{number}].{key}");
            if class.least > class.most {
                let expected = format!("no more than most = {}", class.most);
                return Err(WrongValue::new(of("least"), class.least, expected));
            }
            if class.most > target {
                let expected =
                    format!("no more than the {target} pages that the areas of a task take together (mib)");
                return Err(WrongValue::new(of("most"), class.most, expected));
            }
        }
        Ok(())
    }

    fn start(&self, _seed: u64, random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let weights = self.areas.iter().map(|class| class.weight);
        let classes = WeightedIndex::new(weights)
            .map_err(|error| WrongValue::new("areas", "weights", format!("other weights: {error}")))?;
        let task = |number| Task::new(random(u64::from(number)), self.kernel_pages_of(number));
        let layout = Layout {
            processes: vec![Process::default(); self.tasks as usize],
            files: (self.file_mib > 0).then(|| self.file()).into_iter().collect(),
            threads: (0..self.tasks).map(Thread::of).collect(),
            // Who has mapped enough keeps its memory, or the others would have more of it.
            stays: true,
            ..Layout::default()
        };
        let tasks = (0..self.tasks).map(task).collect();
        let footprint = Footprint {
            preferred_kib: self.preferred_kib,
            target: self.target() * u64::from(self.tasks),
            ..Footprint::default()
        };
        let operations =
            Box::new(Areas { spec: self.clone(), classes, target: self.target(), tasks, footprint });
        Ok(Own { layout, operations })
    }
}

impl MapUnmap {
    /// Pages of the areas of a task.
    fn target(&self) -> u64 {
        PageSize::Kib4.pages_of_mib(self.mib) / u64::from(self.tasks)
    }

    fn file(&self) -> File {
        let pages = PageSize::Kib4.pages_of_mib(self.file_mib);
        File { pages, advice: Advice::Normal, descriptor: Descriptor::PerThread, new: false }
    }

    /// The numbers of the pages of the kernel that a task causes.
    fn kernel_pages_of(&self, task: u32) -> Range<u32> {
        let all = PageSize::Kib4.pages_of_mib(self.unmovable_mib);
        let first = |task: u32| (all * u64::from(task) / u64::from(self.tasks)) as u32;
        first(task)..first(task + 1)
    }
}

/// An area and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Area {
    /// Bits of the time at which it ends. No time is negative, so they sort like the times.
    end: u64,
    number: u32,
    touched: u32,
}

/// An area that is mapped as soon as there is room.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    pages: u64,
    end: f64,
    aligned: bool,
}

struct Task {
    random: Pcg64Mcg,
    living: BinaryHeap<Reverse<Area>>,
    /// Numbers that areas have had and have no longer.
    free_numbers: Vec<u32>,
    /// How many numbers areas have had.
    numbers: u32,
    now: f64,
    /// Pages mapped so far.
    mapped: u64,
    /// Pages of the file read so far.
    read: u64,
    wanted: Option<Wanted>,
    statm: Statm,
    /// Pages that were touched of the area that it unmaps.
    unmapping: u64,
    pending: VecDeque<Operation>,
    /// The numbers of its pages of the kernel, and how many of them there are.
    kernel_pages: Range<u32>,
    kernel_pages_had: u32,
}

impl Task {
    fn new(random: Pcg64Mcg, kernel_pages: Range<u32>) -> Task {
        Task {
            random,
            living: BinaryHeap::new(),
            free_numbers: Vec::new(),
            numbers: 0,
            now: 0.0,
            mapped: 0,
            read: 0,
            wanted: None,
            statm: Statm::default(),
            unmapping: 0,
            pending: VecDeque::new(),
            kernel_pages,
            kernel_pages_had: 0,
        }
    }

    /// Unmaps the area with the earliest end. Returns whether there is one.
    fn unmap_first(&mut self) -> bool {
        let Some(Reverse(area)) = self.living.pop() else { return false };
        self.now = f64::from_bits(area.end);
        self.free_numbers.push(area.number);
        self.unmapping = area.touched.into();
        self.pending.push_back(Operation::Munmap { area: area.number });
        true
    }

    /// Maps an area and touches `touched` pages of it, in order or shuffled.
    fn map(&mut self, Wanted { pages, end, aligned }: Wanted, touched: u64) {
        let area = self.free_numbers.pop().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        });
        let place = Place::Behind { gap: self.random.random_range(1..=GAP), aligned };
        self.pending.push_back(Operation::Mmap { area, pages, place });
        let touch =
            |first, pages| Operation::Access { area, first, pages, write: true, extent: Extent::Nothing };
        if touched > 1 && self.random.random_bool(0.5) {
            let mut order: Vec<u64> = (0..touched).collect();
            order.shuffle(&mut self.random);
            self.pending.extend(order.into_iter().map(|page| touch(page, 1)));
        } else {
            self.pending.push_back(touch(0, touched));
        }
        self.pending.push_back(Operation::TransactionEnd);
        self.living.push(Reverse(Area {
            end: end.max(self.now).to_bits(),
            number: area,
            touched: touched as u32,
        }));
        self.mapped += pages;
    }

    /// Causes another page of the kernel, or now and then frees one of them first.
    fn change_kernel_pages(&mut self) {
        let all = self.kernel_pages.len() as u32;
        if all == 0 {
            return;
        }
        let mut block = self.kernel_pages.start + self.kernel_pages_had;
        if self.kernel_pages_had < all {
            self.kernel_pages_had += 1;
        } else if self.random.random_bool(KERNEL_PAGE_CHANGES) {
            block = self.random.random_range(self.kernel_pages.clone());
            self.pending.push_back(Operation::FreeBlock { block });
        } else {
            return;
        }
        let migrate_type = MigrateType::Unmovable;
        self.pending.push_back(Operation::AllocBlock { block, order: 0, migrate_type });
    }
}

impl Task {
    /// Reads some pages of a file of so many, unless it has read as many as it has mapped.
    fn read_file(&mut self, file_pages: u64) {
        if file_pages == 0 || self.read >= self.mapped {
            return;
        }
        let pages = self.random.random_range(1..=READ);
        let index = self.random.random_range(0..file_pages - u64::from(READ));
        self.read += u64::from(pages);
        self.pending.push_back(Operation::Read { file: 0, index, pages });
    }
}

struct Areas {
    spec: MapUnmap,
    classes: WeightedIndex<f64>,
    /// Pages of the areas of a task.
    target: u64,
    tasks: Vec<Task>,
    /// Of all tasks together.
    footprint: Footprint,
}

impl Areas {
    /// What a task does next: unmap an area, map one, or end.
    fn plan(&mut self, thread: usize) {
        let Areas { spec, classes, tasks, footprint, .. } = self;
        let task = &mut tasks[thread];
        if task.wanted.is_none() {
            if task.mapped >= self.target * spec.turnovers {
                return;
            }
            let class = &spec.areas[classes.sample(&mut task.random)];
            let pages = task.random.random_range(class.least..=class.most);
            let life: f64 = Exp1.sample(&mut task.random);
            task.wanted = Some(Wanted { pages, end: task.now + class.life * life, aligned: class.aligned });
        }
        let Some(wanted) = task.wanted else { return };
        let occupied = match spec.counted {
            Counted::Size => task.statm.size,
            Counted::Resident => task.statm.resident,
        };
        if occupied + wanted.pages <= self.target || !task.unmap_first() {
            task.wanted = None;
            let touched = match task.random.random_bool(spec.partly_touched) {
                true => task.random.random_range(1..=wanted.pages),
                false => wanted.pages,
            };
            task.map(wanted, touched);
            task.change_kernel_pages();
            task.read_file(PageSize::Kib4.pages_of_mib(spec.file_mib));
            footprint.mapped += wanted.pages;
        }
        task.pending.push_back(Operation::ReadStatm);
    }
}

impl Operations for Areas {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        if self.tasks[thread].pending.is_empty() {
            self.plan(thread);
        }
        let operation = self.tasks[thread].pending.pop_front()?;
        if let Operation::Access { pages, .. } = operation {
            self.footprint.touched += pages;
            self.footprint.touched_so_far += pages;
        }
        Some(operation)
    }

    fn ends(&self) -> bool {
        true
    }

    fn read_statm(&mut self, thread: usize, statm: Statm) {
        let task = &mut self.tasks[thread];
        task.statm = statm;
        // What the task unmapped before it asked is gone now.
        self.footprint.touched -= std::mem::take(&mut task.unmapping);
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(self.footprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::BTreeMap;

    fn spec(counted: Counted) -> MapUnmap {
        let class = |least, most, weight, life| AreaClass { least, most, weight, life, aligned: false };
        MapUnmap {
            tasks: 2,
            mib: 2,
            counted,
            turnovers: 5,
            areas: vec![class(1, 3, 10.0, 1.0), class(16, 64, 1.0, 8.0)],
            partly_touched: 0.5,
            unmovable_mib: 0,
            file_mib: 0,
            preferred_kib: 64,
        }
    }

    /// What a task of `spec` does on a machine where an area takes `resident` times its size. Returns its operations, and the most pages
    /// that its areas had together.
    fn run(spec: &MapUnmap, resident: u64) -> (Vec<Operation>, u64) {
        let mut own = spec.start(1, &Pcg64Mcg::seed_from_u64).unwrap();
        let (mut all, mut most) = (Vec::new(), 0);
        let mut areas = BTreeMap::new();
        while let Some(operation) = own.operations.next(1, 0) {
            match operation {
                Operation::Mmap { area, pages, .. } => {
                    assert!(areas.insert(area, pages).is_none(), "the number is free");
                }
                Operation::Munmap { area } => assert!(areas.remove(&area).is_some(), "it is mapped"),
                Operation::Access { area, first, pages, .. } => assert!(first + pages <= areas[&area]),
                Operation::ReadStatm => {
                    let size = areas.values().sum();
                    most = most.max(size);
                    own.operations.read_statm(1, Statm { size, resident: size * resident });
                }
                _ => {}
            }
            all.push(operation);
        }
        (all, most)
    }

    #[test]
    fn areas_come_and_go_within_the_target() {
        let (all, most) = run(&spec(Counted::Size), 1);
        assert!((200..=256).contains(&most), "of 256 pages: {most}");
        let pages = |operation: &Operation| match operation {
            Operation::Mmap { pages, .. } => *pages,
            _ => 0,
        };
        let mapped: u64 = all.iter().map(pages).sum();
        assert!((5 * 256..5 * 256 + 64).contains(&mapped), "{mapped}");
    }

    #[test]
    fn what_is_asked_for_depends_on_memory_only_if_that_is_counted() {
        let [one, two] = [1, 2].map(|resident| run(&spec(Counted::Size), resident).0);
        assert_eq!(one, two);
        let (_, most) = run(&spec(Counted::Resident), 2);
        // The next area counts with its size, and takes twice as much.
        assert!((64..=160).contains(&most), "areas take twice their size of 256 pages: {most}");
    }

    #[test]
    fn pages_of_the_kernel_are_there_before_they_are_freed() {
        let (all, _) = run(&MapUnmap { unmovable_mib: 1, turnovers: 50, ..spec(Counted::Size) }, 1);
        let mut there = std::collections::BTreeSet::new();
        let mut freed = 0;
        for operation in all {
            match operation {
                Operation::AllocBlock { block, order: 0, .. } => {
                    assert!((128..256).contains(&block), "the second half of 256 is the second task's");
                    assert!(there.insert(block), "it was free");
                }
                Operation::FreeBlock { block } => {
                    assert!(there.remove(&block), "it was there");
                    freed += 1;
                }
                _ => {}
            }
        }
        assert_eq!(there.len(), 128);
        assert!(freed > 10, "{freed}");
    }

    #[test]
    fn wrong_classes_are_refused() {
        let refused = |change: fn(&mut MapUnmap)| {
            let mut wrong = spec(Counted::Size);
            change(&mut wrong);
            wrong.check().unwrap_err().key
        };
        assert_eq!(refused(|spec| spec.areas.clear()), "areas");
        assert_eq!(
            refused(|spec| spec.areas.iter_mut().for_each(|class| class.weight = 0.0)),
            "areas[0].weight"
        );
        assert_eq!(refused(|spec| spec.areas[1].least = 65), "areas[1].least");
        assert_eq!(refused(|spec| spec.areas[1].most = 257), "areas[1].most");
        assert_eq!(refused(|spec| spec.preferred_kib = 48), "preferred_kib");
        assert!(spec(Counted::Size).check().is_ok());
    }
}
