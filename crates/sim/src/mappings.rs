//! Replays recorded mappings and first touches of a program, with whatever folios the kernel uses for them.
//!
//! ```text
//!   recorded   map ─ store ─ store ─ unmap ─ fork ...      in the recorded order, on one CPU
//!                       │
//!   twin       a page fault, or none if the folio of an earlier fault has the page
//!                       │
//!   time       program's own CPU time + faults + clearing + copying + unmapping
//!              + first use of pages that were cleared with others - page walks that large folios save
//! ```
//!
//! The program's own CPU time and its number of page walks are figures from the machine that recorded it; the
//! machine's profile says how many of the walks remain ([`machine::blocks`]). Touches of present pages were
//! not recorded, except for the first one to each page: a page that was cleared with others is then fetched
//! from a farther cache. Once a second of the recording, memory is counted by size of folio, over the mapped
//! pages of all processes.
//!
//! Nothing here is random. Runs differ in what the program asked for in each recording, so a seed selects a
//! recording. There are no more seeds than recordings, because more would repeat a run and be taken for
//! independent ones.

mod places;
mod policy;

use crate::metric;
use crate::outcome::{Outcome, Sample};
use crate::{Boot, RunError, System};
use machine::profile::Figure;
use machine::{Cpu, PageSize};
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::memory::{Touch, Unmapped};
use mm::page::NR_PAGE_ORDERS;
use mm::{Category, Event, Kernel};
use places::{Pages, Places};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use workload::keys::Bounds;
use workload::mappings::{self, Mappings, MappingsError, Operation, Recordings, Step};

workload::no_numbers!(Program);

workload::keys! {
    /// A recorded program, as in a scenario.
    pub struct RecordedMappings {
        /// A program with built-in recordings, the path of a recording, or a list of paths.
        pub program: Program,
        /// CPU time in seconds of the program, and of the kernel on its behalf without page faults.
        pub cpu_seconds: Figure => Bounds::new(1e-3, 1e6, "a ms to eleven days"),
        /// Number of benchmark runs that the recording stands for.
        pub runs: Figure => Bounds::new(1e-3, 1e6, "a thousandth to a million"),
        /// Page walks per second of the program's own time with order-0 pages only, in millions.
        pub million_walks: Figure => Bounds::new(0.0, 1e3, "one each ns"),
        /// Whether kernels before 6.9 use arm64's contiguous bit for runs of pages too.
        #[serde(default)]
        pub contiguous_entries: bool,
    }
}

/// A recorded program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// [`mappings::CHROMIUM`].
    Chromium,
    /// [`mappings::CHROMIUM_TABLE`].
    ChromiumTable,
    /// [`mappings::CHROMIUM_CHART`].
    ChromiumChart,
    /// [`mappings::CHROMIUM_EDITOR`].
    ChromiumEditor,
    /// [`mappings::REDIS`].
    Redis,
    /// [`mappings::JVM`].
    Jvm,
    /// [`mappings::KERNEL_BUILD`].
    KernelBuild,
    /// A recording of the user, see docs/src/workloads/speedometer.md.
    #[serde(untagged)]
    File(PathBuf),
    /// Recordings of several runs of one program.
    #[serde(untagged)]
    Files(Vec<PathBuf>),
}

impl Program {
    /// The built-in recordings.
    fn built_in(&self) -> Recordings {
        match self {
            Program::Chromium => mappings::CHROMIUM,
            Program::ChromiumTable => mappings::CHROMIUM_TABLE,
            Program::ChromiumChart => mappings::CHROMIUM_CHART,
            Program::ChromiumEditor => mappings::CHROMIUM_EDITOR,
            Program::Redis => mappings::REDIS,
            Program::Jvm => mappings::JVM,
            Program::KernelBuild => mappings::KERNEL_BUILD,
            Program::File(_) | Program::Files(_) => &[],
        }
    }

    /// Paths of the recordings in files.
    fn files(&self) -> &[PathBuf] {
        match self {
            Program::File(path) => std::slice::from_ref(path),
            Program::Files(paths) => paths,
            _ => &[],
        }
    }

    /// Like [`files`](Self::files), so that paths relative to a scenario file can be resolved.
    pub(crate) fn files_mut(&mut self) -> &mut [PathBuf] {
        match self {
            Program::File(path) => std::slice::from_mut(path),
            Program::Files(paths) => paths,
            _ => &mut [],
        }
    }

    /// Number of recordings; seed 1 selects the first, seed 2 the second.
    pub(crate) fn recordings(&self) -> usize {
        self.built_in().len() + self.files().len()
    }

    fn load(&self, seed: u64) -> Result<Mappings, RunError> {
        let place = seed as usize - 1;
        let path = self.files().get(place);
        let mappings = match path {
            Some(path) => {
                std::fs::read(path).map_err(MappingsError::from).and_then(|packed| Mappings::parse(&packed))
            }
            None => Mappings::parse(self.built_in()[place]),
        };
        mappings.map_err(|error| {
            let of = path.map_or(String::new(), |path| format!("{}: ", path.display()));
            RunError::Profile(format!("{of}{error}"))
        })
    }
}

/// Sizes in KiB whose share of memory is a metric; sizes below a base page have none.
const BUCKETS: [(u64, metric::Metric); 4] =
    [(64, metric::SHARE_64K), (32, metric::SHARE_32K), (16, metric::SHARE_16K), (4, metric::SHARE_4K)];

const CPU: Cpu = Cpu(0);

/// The note for machines whose profile does not give costs by size of folio.
const NO_BLOCKS: &str = "the machine's profile has no [blocks]: a page of a large folio is cleared, used and unmapped as one alone is, and no \
                         page walk is saved";

/// Replays the recording that the seed selects.
pub fn run(boot: &Boot, spec: &RecordedMappings) -> Result<Outcome, RunError> {
    let mappings = spec.program.load(boot.seed)?;
    let system = boot.system(1)?;
    let marked = policy::marks_contiguous(&system.mm.features().folios, spec.contiguous_entries);
    let replay = Replay {
        system,
        processes: std::iter::repeat_with(|| None).take(mappings.processes).collect(),
        shares: Vec::new(),
        anon: 0,
        marked,
        translations: [0; 2],
        anon_max: 0,
        series: Vec::new(),
    };
    replay.run(&mappings, spec).ok_or(RunError::OutOfMemory)
}

/// A process, and where its recorded pages are mapped.
#[derive(Clone, Debug)]
struct Process {
    id: MmId,
    places: Places,
}

impl Process {
    /// Changes the mappings as the step says. Returns what was unmapped.
    fn map(&mut self, kernel: &mut Kernel, step: &Step) -> Unmapped {
        let Process { id, places } = self;
        let (id, recorded, rights) = (*id, step.page..step.page + step.pages, rights(step));
        let mut unmapped = Unmapped::default();
        match step.operation {
            // Of private file mappings only copied pages are modelled, and of shared mappings none.
            Operation::MapAnon if step.pages > 0 => unmapped = self.mmap(kernel, step, Backing::Anonymous),
            Operation::MapFile if step.pages > 0 => {
                let file = Backing::File(kernel.parts.page_cache.open_file(), 0);
                unmapped = self.mmap(kernel, step, file);
            }
            Operation::MapShared if step.pages == 0 => {}
            Operation::Unmap | Operation::MapShared => {
                for Pages { whole, parts } in places.unmap(recorded) {
                    unmapped += kernel.munmap(id, whole);
                    discard_parts(kernel, id, parts, &mut unmapped);
                }
            }
            Operation::Protect if step.pages > 0 => {
                for Pages { whole, parts } in places.pages(recorded) {
                    kernel.parts.mprotect(id, whole, rights);
                    add_rights(kernel, id, parts, rights);
                }
            }
            Operation::Dontneed => {
                for Pages { whole, parts } in places.discard(recorded) {
                    unmapped += kernel.madvise_dontneed(id, whole);
                    discard_parts(kernel, id, parts, &mut unmapped);
                }
            }
            Operation::Hugepage | Operation::Nohugepage => {
                let huge = step.operation == Operation::Hugepage;
                let advice = if huge { Advice::HugePage } else { Advice::NoHugePage };
                places.pages(recorded).iter().for_each(|pages| kernel.madvise(id, pages.all(), advice));
            }
            _ => {}
        }
        unmapped
    }

    /// Maps an area over whatever is mapped there. Returns what was unmapped.
    fn mmap(&mut self, kernel: &mut Kernel, step: &Step, backing: Backing) -> Unmapped {
        let Process { id, places } = self;
        let (id, recorded, rights) = (*id, step.page..step.page + step.pages, rights(step));
        let mut unmapped = Unmapped::default();
        for Pages { parts, .. } in places.discard(recorded.clone()) {
            discard_parts(kernel, id, parts, &mut unmapped);
        }
        let grows = |page| {
            let vma = kernel.parts.address_spaces.mm(id).vmas.find(page);
            vma.is_some_and(|vma| (vma.backing, backing) == (Backing::Anonymous, Backing::Anonymous))
        };
        for Pages { whole, parts } in places.map(recorded, grows) {
            if !whole.is_empty() {
                kernel.mmap_fixed(id, whole.start, whole.end - whole.start, backing, rights);
            }
            add_rights(kernel, id, parts, rights);
        }
        unmapped
    }
}

/// The access rights in a step.
fn rights(step: &Step) -> VmFlags {
    let named = [(1, VmFlags::READ), (2, VmFlags::WRITE), (4, VmFlags::EXEC)];
    let has = named.iter().filter(|(bit, _)| step.rights & bit != 0);
    has.fold(VmFlags::default(), |flags, (_, right)| flags.or(*right))
}

/// Discards the contents of these pages (`MADV_DONTNEED`) and adds what was present to `unmapped`.
fn discard_parts(kernel: &mut Kernel, id: MmId, pages: [Option<Vpn>; 2], unmapped: &mut Unmapped) {
    for page in pages.into_iter().flatten() {
        *unmapped += kernel.madvise_dontneed(id, page..page + 1);
    }
}

/// Adds rights to those that the pages already have.
fn add_rights(kernel: &mut Kernel, id: MmId, pages: [Option<Vpn>; 2], rights: VmFlags) {
    for page in pages.into_iter().flatten() {
        let Some(flags) = kernel.parts.address_spaces.mm(id).vmas.find(page).map(|vma| vma.flags) else {
            continue;
        };
        kernel.parts.mprotect(id, page..page + 1, flags.or(rights));
    }
}

struct Replay {
    system: System,
    processes: Vec<Option<Process>>,
    /// Memory in each of [`BUCKETS`], one row per sample.
    shares: Vec<[u64; BUCKETS.len()]>,
    /// Sum of anonymous pages over all samples.
    anon: u64,
    /// Whether runs of pages use the contiguous bit.
    marked: bool,
    /// Translations needed, summed over samples, with the folios in use and with single pages of 4 KiB.
    translations: [u64; 2],
    /// Largest number of anonymous pages in a sample.
    anon_max: u64,
    series: Vec<Sample>,
}

impl Replay {
    fn run(mut self, mappings: &Mappings, spec: &RecordedMappings) -> Option<Outcome> {
        let mut seconds = 0;
        for step in &mappings.steps {
            while step.milliseconds >= 1000 * (seconds + 1) {
                seconds += 1;
                self.sample(seconds);
            }
            self.step(step)?;
        }
        Some(self.outcome(spec))
    }

    fn step(&mut self, step: &Step) -> Option<()> {
        self.begin(step.process);
        let recorded = step.page..step.page + step.pages;
        let unmapped = match step.operation {
            Operation::Exec | Operation::Exit => self.exit(step.process),
            Operation::Fork => {
                self.fork(step.process, step.pages as usize);
                Unmapped::default()
            }
            Operation::Load | Operation::Store => {
                let write = step.operation == Operation::Store;
                recorded.into_iter().try_for_each(|page| self.touch(step.process, page, write))?;
                Unmapped::default()
            }
            _ => {
                let System { machine, mm, .. } = &mut self.system;
                let process = self.processes[step.process].as_mut()?;
                process.map(&mut mm.enter(machine, CPU), step)
            }
        };
        let machine = &mut self.system.machine;
        let cost = unmapped.cost(&machine.costs);
        machine.charge(CPU, Category::PageFree, cost);
        Some(())
    }

    /// Creates the address space of a process at its first step.
    fn begin(&mut self, process: usize) {
        let parts = &mut self.system.mm.parts;
        self.processes[process].get_or_insert_with(|| Process {
            id: parts.create_mm(Memcg::ROOT),
            places: Places::new(parts.allocator.page_size()),
        });
    }

    fn exit(&mut self, process: usize) -> Unmapped {
        let System { machine, mm, .. } = &mut self.system;
        let before = self.processes[process].take();
        before.map_or(Unmapped::default(), |before| mm.enter(machine, CPU).exit_mm(before.id))
    }

    fn fork(&mut self, process: usize, child: usize) {
        let System { machine, mm, .. } = &mut self.system;
        let Some(Process { id, places }) = &self.processes[process] else { return };
        let forked = Process { id: mm.enter(machine, CPU).fork_mm(*id), places: places.clone() };
        if let Some(before) = self.processes[child].replace(forked) {
            mm.enter(machine, CPU).exit_mm(before.id);
        }
    }

    /// Touches a page if the recording has a mapping there with that right. Mappings that exec makes itself,
    /// the image and the stack, are not in the recording: a store there copies a file page.
    fn touch(&mut self, process: usize, recorded: u64, write: bool) -> Option<()> {
        let System { machine, mm, .. } = &mut self.system;
        let Process { id, places } = self.processes[process].as_mut()?;
        let id = *id;
        let page =
            places.page(recorded).filter(|&page| mm.parts.address_spaces.mm(id).vmas.find(page).is_some());
        let page = match page {
            Some(page) => page,
            None if write => {
                let image = Backing::File(mm.parts.page_cache.open_file(), 0);
                let pages = match places.page(recorded) {
                    Some(page) => page..page + 1,
                    None => places.map_image(recorded),
                };
                mm.enter(machine, CPU).mmap_fixed(
                    id,
                    pages.start,
                    pages.end - pages.start,
                    image,
                    VmFlags::PRIVATE,
                );
                places.page(recorded)?
            }
            None => return Some(()),
        };
        let Some(vma) = mm.parts.address_spaces.mm(id).vmas.find(page) else { return Some(()) };
        if vma.backing != Backing::Anonymous && !write
            || !vma.flags.has(if write { VmFlags::WRITE } else { VmFlags::READ })
        {
            return Some(());
        }
        let (faults, mapped) =
            (mm.counters().get(Event::Pgfault), mm.parts.address_spaces.mm(id).anon_pages());
        match mm.enter(machine, CPU).touch(id, page, write).ok()? {
            Touch::ReadFile(folio) => mm.parts.lrus.end_read(folio),
            Touch::Mapped => {
                let pages = mm
                    .parts
                    .address_spaces
                    .pte(id, page)
                    .folio()
                    .map_or(1, |folio| 1 << mm.parts.lrus.folio_order(folio));
                machine.charge(CPU, Category::CacheMiss, machine.costs.first_use(pages));
            }
            Touch::Minor => {}
            Touch::ReadSwap(_) | Touch::AwaitSwap(_) => unreachable!("there is no swap"),
            Touch::Retry(_) => unreachable!("no file is mapped through an open file"),
        }
        if write {
            places.note_store(recorded);
        }
        let faults = mm.counters().get(Event::Pgfault) - faults;
        let pages = mm.parts.address_spaces.mm(id).anon_pages().saturating_sub(mapped);
        let cost = machine.costs.page_fault * faults + machine.costs.further_pages(pages);
        machine.charge(CPU, Category::PageFault, cost);
        Some(())
    }

    /// Counts memory by size of folio.
    fn sample(&mut self, seconds: u64) {
        let mut pages = [0; NR_PAGE_ORDERS];
        let mut parts = 0;
        for Process { id, places } in self.processes.iter().flatten() {
            pages
                .iter_mut()
                .zip(self.system.mm.parts.anon_pages_by_order(*id))
                .for_each(|(sum, n)| *sum += n);
            parts += places.stored_parts();
        }
        let page_size = self.system.mm.parts.allocator.page_size();
        let all: u64 = pages.iter().sum();
        let pmd_order = self.system.mm.parts.allocator.geometry().pmd_order;
        let run = |(order, &pages): (usize, &u64)| match &self.system.machine.costs.blocks {
            // A PMD-mapped folio has a single translation.
            Some(_) if order == usize::from(pmd_order) => pages >> order,
            Some(blocks) => blocks.translations(pages, 1 << order, self.marked),
            None => pages,
        };
        self.translations[0] += pages.iter().enumerate().map(run).sum::<u64>();
        self.translations[1] += if page_size == PageSize::Kib4 { all } else { parts };
        let of_size =
            |kib: u64| (kib / page_size.kib()).checked_ilog2().map_or(0, |order| pages[order as usize]);
        self.shares.push(BUCKETS.map(|(kib, _)| of_size(kib)));
        self.anon += all;
        self.anon_max = self.anon_max.max(all);
        let value = page_size.mib_of_pages(all);
        self.series.push(Sample { seconds: seconds as f64, name: "anon_mib", value });
    }

    /// Seconds of page walks with single pages, and with the folios in use, from the average number of
    /// translations in the samples.
    fn walks(&self, spec: &RecordedMappings) -> [f64; 2] {
        let Some(blocks) = &self.system.machine.costs.blocks else { return [0.0; 2] };
        let single = 1e6 * spec.million_walks.value * spec.cpu_seconds.value * blocks.tlb_walk.seconds();
        let samples = self.shares.len().max(1) as u64;
        let [needed, alone] = self.translations.map(|sum| sum / samples);
        [single, single * blocks.misses_left(needed, alone)]
    }

    fn outcome(self, spec: &RecordedMappings) -> Outcome {
        let machine = &self.system.machine;
        let first_uses = machine.accounts.total(Category::CacheMiss);
        let kernel = machine.now(CPU) - first_uses;
        let walks = self.walks(spec);
        let seconds = spec.cpu_seconds.value - walks[0] + walks[1] + machine.now(CPU).seconds();
        let mut outcome = Outcome { virtual_seconds: seconds, series: self.series, ..Outcome::default() };
        outcome.set(metric::RUNS_PER_MINUTE, 60.0 * spec.runs.value / seconds);
        for (bucket, (_, metric)) in BUCKETS.iter().enumerate() {
            let pages: u64 = self.shares.iter().map(|shares| shares[bucket]).sum();
            outcome.set(*metric, 100.0 * pages as f64 / self.anon.max(1) as f64);
        }
        let counters = self.system.mm.counters();
        outcome.set(metric::ANON_MAX, self.system.mm.parts.allocator.page_size().mib_of_pages(self.anon_max));
        outcome.set(metric::PAGE_FAULTS, counters.get(Event::Pgfault) as f64);
        outcome.set(metric::FAULT_TIME, 1e3 * kernel.seconds());
        outcome.set(metric::FIRST_USE_TIME, 1e3 * first_uses.seconds());
        outcome.set(metric::PAGE_WALK_TIME, 1e3 * walks[1]);
        if machine.costs.blocks.is_none() {
            outcome.notes.push(NO_BLOCKS.into());
        }
        outcome.counters = counters.clone();
        outcome.mthp = self.system.mm.parts.address_spaces.mthp_stats().clone();
        outcome.page_operations = counters.page_operations();
        outcome.notes.extend(self.system.note_of_sizes());
        outcome
    }
}
