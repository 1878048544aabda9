//! Groups of threads that read and write files or touch memory, each group with its own pattern.
//!
//! ```text
//!   group 0   4 threads, file, uniform     ▪  ▪ ▪   ▪    ▪▪  ▪       hot: fits
//!   group 1   2 threads, file, sequential  ──────────────►──────►    a stream that never comes back in time
//!   group 2   1 thread, memory, once       ████████████              idle from then on
//! ```
//!
//! Real loads on reclaim combine such parts: does a stream evict hot pages, how fast does the kernel follow
//! when the hot part moves, does one memcg pay for another, is idle memory found. A fio random-read test is
//! one group too: each job has its own file, blocks are drawn by [`FioZipf`] or uniformly, and many reads are
//! in flight.
//!
//! A **window** is the part of the object that a group accesses at a time. After `window_accesses` accesses
//! of a thread the window advances by its own length, and wraps around at the end of the object.

use super::distribution::FioZipf;
use super::{Demand, Descriptor, File, Layout, MIB_PAGES, Operation, Process, Region, Thread, nanoseconds};
use crate::keys::{
    Bounds, Key, MIB, MILLISECONDS, NANOSECONDS, Number, Numbers, SOME_NANOSECONDS, THREADS, TIMES, Takes,
    Value,
};
use machine::WrongValue;
use machine::profile::Figure;
use mm::readahead::Advice;
use rand::RngExt;
use rand_distr::Distribution;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

crate::keys! {
    /// Groups of threads, as in a scenario.
    pub struct AccessGroups {
        /// The groups. Threads are numbered in their order.
        pub groups: Vec<AccessGroup>,
    }
}

crate::keys! {
    /// A group of threads with the same access pattern.
    pub struct AccessGroup {
        /// Number of threads.
        pub threads: u32 => THREADS,
        pub object: Object,
        /// Size of the object in MiB.
        pub mib: u64 => MIB,
        /// Whether all threads access the same object; otherwise each has its own.
        #[serde(default)]
        pub shared: bool,
        /// Order of accesses within the window.
        pub pattern: Pattern,
        /// Pages per access.
        #[serde(default = "one")]
        pub pages: u32 => Bounds::new(1.0, 262_144.0, "1 GiB in one call; Linux reads and writes less than 2 GiB"),
        /// Advice on future reads (`posix_fadvise`). fio gives `random` for random reads by default
        /// (`fadvise_hint`).
        #[serde(default, with = "AdviceKey", skip_serializing_if = "is_normal")]
        pub advice: Advice,
        /// Whether accesses write: to memory, or whole pages of a file.
        #[serde(default)]
        pub write: bool,
        /// Whether the written file is new, as with a log or a copy: delayed allocation has not chosen blocks
        /// for it yet.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub new_file: bool,
        /// Size of the window in MiB; the whole object if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub window_mib: Option<u64> => MIB,
        /// Accesses of a thread after which its window advances; if absent, it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub window_accesses: Option<u64> => TIMES,
        /// Reads that a thread may have in flight.
        #[serde(default = "one")]
        pub outstanding: u32 => Bounds::new(1.0, 65_536.0, "entries of the longest queue that a device has"),
        /// Virtual time at which the threads start, in milliseconds.
        #[serde(default, skip_serializing_if = "crate::keys::is_zero")]
        pub start_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Whether the group only disturbs others: its accesses do not count towards the score.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub background: bool,
        /// CPU time of the program per access, in nanoseconds.
        pub compute_ns: Figure => NANOSECONDS,
    }
}

/// Kind of object that a group accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// A file, through the page cache.
    File,
    /// Private anonymous memory.
    Memory,
}

/// Which page follows which.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Uniformly random.
    Uniform,
    /// By Zipf's law, drawn as in fio.
    Zipf {
        /// Exponent, above 0 and not 1.
        theta: f64,
    },
    /// Sequential, wrapping around at the end of the window.
    Sequential,
    /// Sequential to the end of the window, then idle.
    Once,
}

/// Bounds of the exponent. fio's method divides by zero at 1.
const THETA: Bounds = Bounds::new(1e-3, 10.0, "nearly uniform to nearly one page only; not 1");

impl Value for Pattern {
    const TAKES: Takes = Takes::Kinds(&[
        ("uniform", Takes::NoNumber),
        ("zipf", {
            let theta = Takes::Number(Numbers { bounds: THETA, whole: false, or: "" });
            Takes::Table(&[Key { name: "theta", takes: theta }])
        }),
        ("sequential", Takes::NoNumber),
        ("once", Takes::NoNumber),
    ]);

    fn check_bounds(&self, key: &str) -> Result<(), WrongValue> {
        match self {
            Pattern::Zipf { theta } => theta.check_within(&format!("{key}.theta"), THETA),
            _ => Ok(()),
        }
    }
}

crate::no_numbers!(Object, Advice);

fn one() -> u32 {
    1
}

/// Names of [`Advice`] in a scenario.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Advice", rename_all = "kebab-case")]
enum AdviceKey {
    Normal,
    Sequential,
    Random,
}

fn is_normal(advice: &Advice) -> bool {
    *advice == Advice::Normal
}

#[derive(Clone, Debug)]
enum Place {
    Uniform,
    Zipf(FioZipf),
    Sequential,
    Once,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Compute,
    Access,
    End,
}

struct Accessor {
    group: usize,
    /// Index of its file or region in the layout.
    object: u32,
    place: Place,
    random: Pcg64Mcg,
    accesses: u64,
    step: Step,
}

/// All groups, running.
pub struct Accessors {
    groups: Vec<AccessGroup>,
    layout: Layout,
    accessors: Vec<Accessor>,
}

impl AccessGroups {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.groups.is_empty() {
            return Err(WrongValue::new("groups", "[]", "at least one group"));
        }
        for (number, group) in self.groups.iter().enumerate() {
            group.check().map_err(|wrong| wrong.within(format_args!("groups[{number}]")))?;
        }
        let threads: u64 = self.groups.iter().map(|group| u64::from(group.threads)).sum();
        if !THREADS.contain(threads as f64) {
            let expected = format!("at most {} threads in all groups together", THREADS.most);
            return Err(WrongValue::new("groups", format!("{threads} threads"), expected));
        }
        Ok(())
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let groups = self.groups.iter_mut().enumerate();
        groups
            .map(|(number, group)| (format!("groups[{number}].compute_ns"), &mut group.compute_ns))
            .collect()
    }

    /// Starts the groups; `random` gives each thread a random stream of its own.
    pub fn demand(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<Accessors, WrongValue> {
        self.check()?;
        let mut layout = Layout::default();
        let mut accessors = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            layout.processes.push(Process { group: 0 });
            let slots = group.window_pages() / u64::from(group.pages);
            let zipf = match group.pattern {
                Pattern::Zipf { theta } => Some(FioZipf::new(slots, theta, 0)),
                _ => None,
            };
            for thread in 0..group.threads {
                if thread == 0 || !group.shared {
                    match group.object {
                        Object::File => layout.files.push(File {
                            pages: group.mib * MIB_PAGES,
                            advice: group.advice,
                            descriptor: Descriptor::PerThread,
                            new: group.new_file,
                        }),
                        Object::Memory => {
                            layout
                                .regions
                                .push(Region { pages: group.mib * MIB_PAGES, process: number as u32 });
                        }
                    }
                }
                let objects = match group.object {
                    Object::File => layout.files.len(),
                    Object::Memory => layout.regions.len(),
                };
                let mut random = random(accessors.len() as u64);
                let place = match (group.pattern, &zipf) {
                    (Pattern::Zipf { .. }, Some(zipf)) => {
                        Place::Zipf(zipf.moved(if group.shared { 0 } else { random.random::<u64>() }))
                    }
                    (Pattern::Sequential, _) => Place::Sequential,
                    (Pattern::Once, _) => Place::Once,
                    _ => Place::Uniform,
                };
                layout.threads.push(Thread {
                    process: number as u32,
                    outstanding: group.outstanding,
                    start_milliseconds: group.start_milliseconds,
                });
                accessors.push(Accessor {
                    group: number,
                    object: objects as u32 - 1,
                    place,
                    random,
                    accesses: 0,
                    step: Step::Compute,
                });
            }
        }
        Ok(Accessors { groups: self.groups.clone(), layout, accessors })
    }
}

impl AccessGroup {
    /// Checks how the keys of a group go together.
    fn check(&self) -> Result<(), WrongValue> {
        if self.window_mib.is_some_and(|window| window > self.mib) {
            return Err(WrongValue::new("window_mib", self.window_pages() / MIB_PAGES, "no more than mib"));
        }
        if u64::from(self.pages) > self.window_pages() {
            return Err(WrongValue::new("pages", self.pages, "no more pages than window_mib, or mib, has"));
        }
        if self.new_file && !(self.write && self.object == Object::File) {
            return Err(WrongValue::new("new_file", true, "false where no file is written"));
        }
        let goes_on = self.object == Object::Memory && self.pattern != Pattern::Once;
        let least = SOME_NANOSECONDS.least * f64::from(self.pages);
        if goes_on && self.compute_ns.value < least {
            let expected = format!(
                "{least} and more where memory is accessed again and again, one for each page ({})",
                SOME_NANOSECONDS.why
            );
            return Err(WrongValue::new("compute_ns", self.compute_ns.value, expected));
        }
        match self.pattern {
            Pattern::Zipf { theta: 1.0 } => {
                Err(WrongValue::new("pattern.theta", 1, "an exponent other than 1"))
            }
            _ => Ok(()),
        }
    }

    fn window_pages(&self) -> u64 {
        self.window_mib.unwrap_or(self.mib) * MIB_PAGES
    }
}

impl Accessor {
    /// First page of the next access; `None` when the thread is done.
    fn index(&mut self, group: &AccessGroup) -> Option<u64> {
        let (window, pages) = (group.window_pages(), u64::from(group.pages));
        let slots = window / pages;
        let slot = match &self.place {
            Place::Uniform => self.random.random_range(0..slots),
            Place::Zipf(zipf) => zipf.sample(&mut self.random),
            Place::Sequential => self.accesses % slots,
            Place::Once => (self.accesses < slots).then_some(self.accesses)?,
        };
        let moves = group.window_accesses.map_or(0, |accesses| self.accesses / accesses);
        let windows = (group.mib * MIB_PAGES / window).max(1);
        self.accesses += 1;
        Some(moves % windows * window + slot * pages)
    }
}

impl Demand for Accessors {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    fn next(&mut self, thread: usize) -> Option<Operation> {
        let accessor = &mut self.accessors[thread];
        let group = &self.groups[accessor.group];
        match accessor.step {
            Step::Compute => {
                accessor.step = Step::Access;
                Some(Operation::Compute { nanoseconds: nanoseconds(&group.compute_ns) })
            }
            Step::Access => {
                let index = accessor.index(group)?;
                accessor.step = if group.background { Step::Compute } else { Step::End };
                let pages = group.pages;
                Some(match group.object {
                    Object::File if group.write => Operation::Write { file: accessor.object, index, pages },
                    Object::File => Operation::Read { file: accessor.object, index, pages },
                    Object::Memory => {
                        Operation::Touch { region: accessor.object, index, pages, write: group.write }
                    }
                })
            }
            Step::End => {
                accessor.step = Step::Compute;
                Some(Operation::TransactionEnd)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn stream(thread: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(thread)
    }

    fn group(text: &str) -> AccessGroup {
        let text = format!("compute_ns = {{ value = 500, source = \"made up\" }}\n{text}");
        toml::from_str(&text).unwrap()
    }

    fn accesses(demand: &mut Accessors, thread: usize, count: usize) -> Vec<u64> {
        std::iter::from_fn(|| demand.next(thread))
            .filter_map(|operation| match operation {
                Operation::Read { index, .. }
                | Operation::Write { index, .. }
                | Operation::Touch { index, .. } => Some(index),
                _ => None,
            })
            .take(count)
            .collect()
    }

    #[test]
    fn each_job_of_fio_has_its_own_file_and_its_own_hot_blocks() {
        let jobs = group(
            "threads = 3\nobject = \"file\"\nmib = 1000\npattern = { kind = \"zipf\", theta = 1.2 }\nadvice = \"random\"\noutstanding = 128",
        );
        let spec = AccessGroups { groups: vec![jobs] };
        spec.check().unwrap();
        let mut demand = spec.demand(stream).unwrap();
        assert_eq!(
            demand.layout().files,
            [File { pages: 256_000, advice: Advice::Random, descriptor: Descriptor::PerThread, new: false };
                3]
        );
        assert_eq!(demand.layout().threads[2], Thread { outstanding: 128, ..Thread::of(0) });
        assert_eq!(demand.next(1), Some(Operation::Compute { nanoseconds: 500 }));
        assert!(matches!(demand.next(1), Some(Operation::Read { file: 1, pages: 1, .. })));
        assert_eq!(demand.next(1), Some(Operation::TransactionEnd));
        let hottest = |indices: Vec<u64>| {
            let mut count = vec![0u32; 256_000];
            indices.iter().for_each(|&index| count[index as usize] += 1);
            (0..256_000).max_by_key(|&index| count[index]).unwrap()
        };
        let (first, second) = (accesses(&mut demand, 0, 5000), accesses(&mut demand, 1, 5000));
        assert_ne!(hottest(first.clone()), hottest(second));
        assert_eq!(
            first,
            accesses(&mut spec.demand(stream).unwrap(), 0, 5000),
            "the same stream, the same demand"
        );
    }

    #[test]
    fn a_window_moves_on_and_around() {
        let shifting = "threads = 1\nobject = \"memory\"\nmib = 3\nwindow_mib = 1\nwindow_accesses = 2\n";
        let sequential = group(&format!("{shifting}pattern = {{ kind = \"sequential\" }}"));
        let mut demand = AccessGroups { groups: vec![sequential] }.demand(stream).unwrap();
        assert_eq!(accesses(&mut demand, 0, 7), [0, 1, 256 + 2, 256 + 3, 512 + 4, 512 + 5, 6]);
        let uniform = group(&format!("{shifting}pattern = {{ kind = \"uniform\" }}"));
        let mut demand = AccessGroups { groups: vec![uniform] }.demand(stream).unwrap();
        let windows: Vec<u64> = accesses(&mut demand, 0, 8).iter().map(|index| index / 256).collect();
        assert_eq!(windows, [0, 0, 1, 1, 2, 2, 0, 0]);
    }

    #[test]
    fn uniform_accesses_are_uniform() {
        let spec = group(
            "threads = 2\nshared = true\nobject = \"file\"\nmib = 1\npages = 4\npattern = { kind = \"uniform\" }",
        );
        let mut demand = AccessGroups { groups: vec![spec] }.demand(stream).unwrap();
        assert_eq!(demand.layout().files.len(), 1);
        let mut count = [0f64; 64];
        for index in accesses(&mut demand, 1, 64_000) {
            assert_eq!(index % 4, 0);
            count[index as usize / 4] += 1.0;
        }
        // Chi-squared with 63 degrees of freedom: one stream in 4000 exceeds 110.
        let chi: f64 = count.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 110.0, "{chi}");
    }

    #[test]
    fn once_ends() {
        let idle =
            group("threads = 1\nobject = \"memory\"\nmib = 1\nwrite = true\npattern = { kind = \"once\" }");
        let mut demand = AccessGroups { groups: vec![idle] }.demand(stream).unwrap();
        assert_eq!(demand.layout().processes, [Process { group: 0 }]);
        assert_eq!(demand.layout().regions, [Region { pages: 256, process: 0 }]);
        assert_eq!(accesses(&mut demand, 0, 1000).len(), 256);
        assert_eq!(demand.next(0), None);
    }

    #[test]
    fn what_is_in_the_background_does_not_count() {
        let text = "threads = 1\nobject = \"file\"\nmib = 1\npattern = { kind = \"sequential\" }\nstart_milliseconds = 7";
        let ends = |background: bool| {
            let spec = AccessGroups { groups: vec![AccessGroup { background, ..group(text) }] };
            let mut demand = spec.demand(stream).unwrap();
            assert_eq!(demand.layout().threads[0].start_milliseconds, 7);
            let operations: Vec<Operation> = std::iter::from_fn(|| demand.next(0)).take(12).collect();
            operations.iter().filter(|&&operation| operation == Operation::TransactionEnd).count()
        };
        assert_eq!((ends(false), ends(true)), (4, 0));
    }

    #[test]
    fn files_can_be_written() {
        let writer = group(
            "threads = 1\nobject = \"file\"\nmib = 1\nwrite = true\npages = 8\npattern = { kind = \"sequential\" }",
        );
        let mut demand = AccessGroups { groups: vec![writer] }.demand(stream).unwrap();
        let operations: Vec<Operation> = std::iter::from_fn(|| demand.next(0)).take(5).collect();
        let write = |index| Operation::Write { file: 0, index, pages: 8 };
        assert_eq!((operations[1], operations[4]), (write(0), write(8)));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let base = "threads = 1\nobject = \"file\"\nmib = 2\n";
        let key = |text: &str| {
            let spec = AccessGroups { groups: vec![group(&format!("{base}{text}"))] };
            spec.check().err().map(|error| error.key)
        };
        assert_eq!(key("pattern = { kind = \"uniform\" }"), None);
        let refused = |key: &str| Some(format!("groups[0].{key}"));
        assert_eq!(key("pattern = { kind = \"zipf\", theta = 1.0 }"), refused("pattern.theta"));
        assert_eq!(key("window_mib = 3\npattern = { kind = \"uniform\" }"), refused("window_mib"));
        let memory =
            "object = \"memory\"\ncompute_ns = { value = 0, source = \"made up\" }\nthreads = 1\nmib = 2";
        let endless = |pattern: &str| {
            let group = toml::from_str(&format!("{memory}\npattern = {{ kind = \"{pattern}\" }}")).unwrap();
            AccessGroups { groups: vec![group] }.check().err().map(|error| error.key)
        };
        assert_eq!((endless("uniform"), endless("once")), (refused("compute_ns"), None));
        let of_many = |pages: u32| {
            let memory = memory.replace("value = 0,", "value = 100,");
            let text = format!("{memory}\npages = {pages}\npattern = {{ kind = \"uniform\" }}");
            AccessGroups { groups: vec![toml::from_str(&text).unwrap()] }.check().err().map(|error| error.key)
        };
        assert_eq!((of_many(100), of_many(101)), (None, refused("compute_ns")));
        assert_eq!(key("new_file = true\npattern = { kind = \"once\" }"), refused("new_file"));
        assert_eq!(key("new_file = true\nwrite = true\npattern = { kind = \"once\" }"), None);
        assert_eq!(key("pages = 600\npattern = { kind = \"uniform\" }"), refused("pages"));
        assert_eq!(AccessGroups { groups: vec![] }.check().unwrap_err().key, "groups");
    }
}
