//! The own CPU time of programs whose mappings were recorded: page walks are a part of it, and large folios save some of them.
//!
//! ```text
//!   recorded     │      work      │ walks │          with order-0 pages only, per second: OwnTime::walks, BlockCosts::tlb_walk
//!   twin         │      work      │ left │           as many as the folios need that there are: BlockCosts::misses_left
//! ```
//!
//! Ten times a second the memory of each such program is counted by size of folio; what its processes compute until the next time takes
//! accordingly longer or shorter.

use super::policy::marks_contiguous;
use super::report::Reports;
use super::threads::{Process, Running};
use crate::outcome::{Outcome, Sample};
use crate::{System, metric};
use machine::{PageSize, Time};
use mm::page::NR_PAGE_ORDERS;
use mm::{Category, Event};
use workload::operation::OwnTime;

/// Virtual time between two samples.
const SAMPLE_INTERVAL: Time = Time::from_nanoseconds(100_000_000);

/// Sizes in KiB whose share of memory is a metric; sizes below a base page have none.
const SIZES: [(u64, metric::Metric); 4] =
    [(64, metric::SHARE_64K), (32, metric::SHARE_32K), (16, metric::SHARE_16K), (4, metric::SHARE_4K)];

/// The note for machines whose profile does not give costs by size of folio.
const NO_BLOCKS: &str = "the machine's profile has no [blocks]: a page of a large folio is cleared, used and unmapped as one alone is, and no \
                         page walk is saved";

/// A recorded program that runs.
struct Recorded {
    /// Runs of the benchmark in a second of its own time.
    runs: f64,
    /// Whether the PTEs of runs of pages are marked contiguous.
    marked: bool,
    /// The part of its own time that page walks take with order-0 pages only, 0 to 1.
    walks: f64,
    /// The part of them that is left, 0 to 1.
    left: f64,
    /// Nanoseconds of its own time as recorded, done.
    computed: u64,
    /// Nanoseconds of page walks.
    walked: f64,
}

impl Recorded {
    /// The anonymous pages of its processes by order of folio, and the recorded pages stored to in pages that are larger than those.
    fn memory(system: &System, processes: &[Process]) -> ([u64; NR_PAGE_ORDERS], u64) {
        let (mut pages, mut parts) = ([0; NR_PAGE_ORDERS], 0);
        for process in processes {
            let Some(mm) = process.mm else { continue };
            let by_order = system.mm.parts.anon_pages_by_order(mm);
            pages.iter_mut().zip(by_order).for_each(|(sum, of)| *sum += of);
            parts += process.recorded.stored_parts();
        }
        (pages, parts)
    }

    /// The part of page walks that is left with this memory.
    fn walks_left(&self, system: &System, pages: &[u64; NR_PAGE_ORDERS], parts: u64) -> f64 {
        let Some(blocks) = &system.machine.costs.blocks else { return 1.0 };
        let allocator = &system.mm.parts.allocator;
        let pmd_order = usize::from(allocator.geometry().pmd_order);
        let needed = |(order, &pages): (usize, &u64)| match order == pmd_order {
            // A PMD-mapped folio has a single translation.
            true => pages >> order,
            false => blocks.translations(pages, 1 << order, self.marked),
        };
        let alone = if allocator.page_size() == PageSize::Kib4 { pages.iter().sum() } else { parts };
        blocks.misses_left(pages.iter().enumerate().map(needed).sum(), alone)
    }
}

/// What the samples found, summed over them.
#[derive(Default)]
struct Samples {
    /// Anonymous pages in folios of each of [`SIZES`].
    pages: [u64; SIZES.len()],
    /// Anonymous pages.
    anon: u64,
    /// The most anonymous pages at any time of upkeep.
    anon_max: u64,
    series: Vec<Sample>,
}

/// The recorded programs of a host.
pub(super) struct OwnTimes {
    /// For each running program, what is known of its own time, if it was recorded.
    programs: Vec<Option<Recorded>>,
    next: Time,
    samples: Samples,
}

impl OwnTimes {
    pub fn new(system: &System, programs: &[Running]) -> OwnTimes {
        let own_time = |running: &Running| {
            let OwnTime { runs, walks, contiguous_entries } = running.generator.layout().own_time?;
            let walk = system.machine.costs.blocks.map_or(0.0, |blocks| blocks.tlb_walk.seconds());
            let marked = marks_contiguous(&system.mm.features().folios, contiguous_entries);
            let walks = (walks * walk).min(1.0);
            Some(Recorded { runs, marked, walks, left: 1.0, computed: 0, walked: 0.0 })
        };
        let programs = programs.iter().map(own_time).collect();
        OwnTimes { programs, next: Time::ZERO, samples: Samples::default() }
    }

    /// The numbers of the recorded programs.
    fn recorded(&self) -> Vec<usize> {
        (0..self.programs.len()).filter(|&program| self.programs[program].is_some()).collect()
    }

    /// Takes the part of a program's computing out of `nanoseconds` that fits into `room`, and returns how many it takes.
    #[inline]
    pub fn compute(&mut self, program: usize, room: u64, nanoseconds: &mut u64) -> u64 {
        let Some(own) = &mut self.programs[program] else {
            let part = room.min(*nanoseconds);
            *nanoseconds -= part;
            return part;
        };
        let stretched = 1.0 - own.walks + own.walks * own.left;
        let part = ((room as f64 / stretched) as u64).max(1).min(*nanoseconds);
        *nanoseconds -= part;
        own.computed += part;
        own.walked += part as f64 * own.walks * own.left;
        (part as f64 * stretched).round() as u64
    }

    /// Forgets what was before.
    pub fn start_measuring(&mut self) {
        self.samples = Samples::default();
        for own in self.programs.iter_mut().flatten() {
            (own.computed, own.walked) = (0, 0.0);
        }
    }

    /// Notes the most memory, and counts it by size of folio if it is time.
    pub fn sample(&mut self, system: &System, now: Time, processes: &[Process]) {
        if self.programs.iter().all(Option::is_none) {
            return;
        }
        let programs = &mut self.programs;
        let of_recorded = |process: &&Process| programs[process.program].is_some();
        let spaces = processes.iter().filter(of_recorded).filter_map(|process| process.mm);
        let anon: u64 = spaces.map(|mm| system.mm.parts.address_spaces.mm(mm).anon_pages()).sum();
        self.samples.anon_max = self.samples.anon_max.max(anon);
        if now < self.next {
            return;
        }
        self.next = now + SAMPLE_INTERVAL;
        let page_size = system.mm.parts.allocator.page_size();
        for of_program in processes.chunk_by(|one, next| one.program == next.program) {
            let Some(own) = &mut programs[of_program[0].program] else { continue };
            let (pages, parts) = Recorded::memory(system, of_program);
            own.left = own.walks_left(system, &pages, parts);
            for (sum, (kib, _)) in self.samples.pages.iter_mut().zip(SIZES) {
                *sum += (kib / page_size.kib()).checked_ilog2().map_or(0, |order| pages[order as usize]);
            }
        }
        self.samples.anon += anon;
        let value = page_size.mib_of_pages(anon);
        self.samples.series.push(Sample { seconds: now.seconds(), name: "anon_mib", value });
    }

    /// Sets the metrics of recorded programs, if there are any.
    pub fn fill(&mut self, outcome: &mut Outcome, system: &System, reports: &Reports) {
        let recorded = self.recorded();
        if recorded.is_empty() {
            return;
        }
        let spent = |wanted: &dyn Fn(Category) -> bool| reports.spent(&recorded, wanted);
        let runs: f64 = self.programs.iter().flatten().map(|own| own.runs * own.computed as f64 / 1e9).sum();
        outcome.set(metric::RUNS_PER_MINUTE, 60.0 * runs / spent(&|_| true).max(1e-12));
        for (&pages, (_, metric)) in self.samples.pages.iter().zip(SIZES) {
            outcome.set(metric, 100.0 * pages as f64 / self.samples.anon.max(1) as f64);
        }
        let page_size = system.mm.parts.allocator.page_size();
        outcome.set(metric::ANON_MAX, page_size.mib_of_pages(self.samples.anon_max));
        outcome.set(metric::PAGE_FAULTS, outcome.counters.get(Event::Pgfault) as f64);
        outcome.set(metric::FAULT_TIME, 1e3 * spent(&is_of_memory));
        outcome.set(metric::FIRST_USE_TIME, 1e3 * spent(&|category| category == Category::CacheMiss));
        let walked: f64 = self.programs.iter().flatten().map(|own| own.walked).sum();
        outcome.set(metric::PAGE_WALK_TIME, walked / 1e6);
        outcome.series.append(&mut self.samples.series);
        if system.machine.costs.blocks.is_none() {
            outcome.notes.push(NO_BLOCKS.into());
        }
        outcome.notes.extend(system.note_of_sizes());
    }
}

/// Whether a program's time in this category is for its memory.
fn is_of_memory(category: Category) -> bool {
    !category.is_user() && !matches!(category, Category::SystemCalls | Category::CacheMiss | Category::Tick)
}
