//! A machine with a kernel, and the loop that runs its CPUs in the order of virtual time.
//!
//! ```text
//!   loop: the CPU furthest behind ─► khugepaged and the CPU's vmstat worker, if due
//!                                 ─► Program::step: private work without limit, shared work only while
//!                                    no CPU is further behind ([`System::may_share`])
//! ```
//!
//! An interrupt advances the clock of a CPU that waits for its turn. The CPU's place in the queue is then
//! outdated, so it is queued again at its new time before it does anything.

use crate::metric;
use crate::outcome::{Outcome, Sample};
use crate::progress::RunProgress;
use crate::series::HISTOGRAMS;
use crate::timeline::RunTimeline;
use machine::timeline::Window;
use machine::{Category as _, Costs, Cpu, CpuQueue, Machine, Node, Profile, Time, Timeline};
use mm::huge_memory::features::FolioSize;
use mm::huge_memory::policy::has_nothing_enabled;
use mm::huge_memory::stats::MthpStats;
use mm::memory_map::MemoryRange;
use mm::vmstat::VmstatTimers;
use mm::{Category, Counters, Decisions, Features, MemoryManager, Pfn, Request, Settings};
use rand_pcg::Pcg64Mcg;
use std::num::NonZeroU32;

/// What a CPU does after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has more to do and waits for its turn.
    Again,
    /// It idles until it is woken.
    Idle,
    /// It idles until this time, or until it is woken earlier.
    Sleep(Time),
}

/// What the CPUs execute.
pub trait Program {
    /// Executes the next step on `cpu`, which is the CPU furthest behind.
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step;

    /// Whether the program has finished.
    fn is_finished(&self) -> bool;

    /// Whether the program runs kernel threads itself, interleaved with its own. If not, a kswapd that is woken and a khugepaged that
    /// is due run to their ends at once, and no kcompactd runs.
    fn runs_daemons(&self) -> bool {
        false
    }

    /// Whether no write to a pool of huge pages is half done: in between, a page is counted whose vmemmap is not optimised yet, in the
    /// twin as in the kernel.
    fn has_consistent_pools(&self) -> bool {
        true
    }
}

/// Machine, memory manager and daemons.
pub struct System {
    pub machine: Machine<Category>,
    pub mm: MemoryManager,
    queue: CpuQueue,
    vmstat: VmstatTimers,
    /// Base pages that tasks hold.
    pub allocated: u64,
    /// Allocations that failed since measuring began.
    denied: u64,
    samples: Samples,
    measured_from: Measured,
    /// Where progress is reported.
    pub progress: RunProgress,
    /// When the memory manager's invariants are checked, if they are.
    pub(crate) validation: Option<Validation>,
    /// What a timeline notes, from where measuring begins, if there is to be one.
    pub(crate) noted: Option<Window>,
}

/// Checks of the memory manager's invariants while it runs.
pub(crate) struct Validation {
    /// Steps between two of them.
    interval: NonZeroU32,
    /// Steps to the next.
    left: u32,
}

impl Validation {
    pub fn every(interval: NonZeroU32) -> Validation {
        Validation { interval, left: interval.get() }
    }

    /// Counts a step; returns whether a check is due, which waits until the invariants hold.
    fn is_due(&mut self, holds: impl FnOnce() -> bool) -> bool {
        self.left = self.left.saturating_sub(1);
        let is_due = self.left == 0 && holds();
        if is_due {
            self.left = self.interval.get();
        }
        is_due
    }
}

#[derive(Clone)]
struct Measured {
    time: Time,
    counters: Counters,
    mthp: MthpStats,
    /// By category, by CPU.
    spent: Vec<Vec<Time>>,
}

#[derive(Default)]
struct Samples {
    next: Time,
    series: Vec<Sample>,
    pcp_max: u64,
    memory_max: u64,
}

/// Virtual time between two samples of a series.
pub(crate) const SAMPLE_INTERVAL: Time = Time::from_nanoseconds(50_000_000);
/// Virtual time between two readings of the memory held by pagesets.
const PEAK_INTERVAL: Time = Time::from_nanoseconds(5_000_000);

impl System {
    /// Boots a kernel with these features and settings on a machine with this memory.
    pub fn new(
        machine: &Profile,
        memory: &[MemoryRange],
        (features, decisions): (Features, Decisions),
        settings: Settings,
        noise: Pcg64Mcg,
    ) -> System {
        let (topology, costs) = (machine.topology(), machine.costs());
        let cpus = topology.cpus();
        let stat_interval = settings.stat_interval;
        let mm = MemoryManager::deciding_by(decisions, &topology, memory, features, settings, noise);
        let machine = Machine::new(topology, costs);
        let measured_from = Measured {
            time: Time::ZERO,
            counters: mm.counters().clone(),
            mthp: mm.parts.address_spaces.mthp_stats().clone(),
            spent: vec![vec![Time::ZERO; cpus]; Category::COUNT],
        };
        System {
            machine,
            mm,
            queue: CpuQueue::default(),
            vmstat: VmstatTimers::new(cpus, stat_interval),
            allocated: 0,
            denied: 0,
            samples: Samples::default(),
            measured_from,
            progress: RunProgress::default(),
            validation: None,
            noted: None,
        }
    }

    /// Wakes `cpu` at `time`; does nothing if it is awake already.
    pub fn wake(&mut self, cpu: Cpu, time: Time) {
        if !self.is_busy(cpu) {
            self.machine.idle_until(cpu, time);
            self.machine.set_busy(cpu);
            self.queue.push(self.machine.now(cpu), cpu);
        }
    }

    /// Wakes `cpu` at `time`, which may be later than now and until when others may wake it; a CPU that is awake looks for itself.
    pub fn wake_later(&mut self, cpu: Cpu, time: Time) {
        if !self.is_busy(cpu) && time < self.machine.wakes(cpu) {
            self.machine.sleep_until(cpu, time);
            let has_work = self.mm.parts.allocator.vmstat_has_work(cpu);
            let due = if has_work { self.vmstat.due(cpu) } else { Time::NEVER };
            self.queue.push(time.min(due), cpu);
        }
    }

    /// Does `work` that was done before the run: it takes no time of any CPU.
    pub fn before_the_run<T>(&mut self, work: impl FnOnce(&mut System) -> T) -> T {
        let costs = std::mem::replace(&mut self.machine.costs, Costs::FREE);
        let done = work(self);
        self.machine.costs = costs;
        done
    }

    /// Whether `cpu` is running something.
    pub fn is_busy(&self, cpu: Cpu) -> bool {
        self.machine.is_busy(cpu)
    }

    /// Whether `cpu` may touch what other CPUs can see: no CPU is further behind.
    #[inline]
    pub fn may_share(&self, cpu: Cpu) -> bool {
        self.machine.now(cpu) <= self.queue.earliest()
    }

    /// Runs `program` to its end or until `until`. Can be called again to continue.
    pub fn run(&mut self, program: &mut impl Program, until: Time) {
        while self.queue.earliest() < until && !program.is_finished() {
            let Some((time, cpu)) = self.queue.pop() else { break };
            if self.is_busy(cpu) && self.machine.now(cpu) > time {
                self.queue.push(self.machine.now(cpu), cpu); // it was interrupted
                continue;
            }
            self.machine.set_earliest(time);
            self.observe(time);
            if !program.runs_daemons() && self.mm.khugepaged_due() <= time {
                self.run_khugepaged(cpu, time);
                if self.machine.now(cpu) > time {
                    self.queue.push(self.machine.now(cpu), cpu);
                    continue;
                }
            }
            if self.vmstat.due(cpu) <= time {
                self.machine.idle_until(cpu, time);
                self.mm.enter(&mut self.machine, cpu).vmstat_update();
                self.vmstat.advance(cpu);
            }
            if self.machine.wakes(cpu) <= time {
                self.wake(cpu, time);
                continue;
            }
            if self.is_busy(cpu) {
                match program.step(self, cpu) {
                    Step::Again => {}
                    Step::Idle => self.machine.set_idle(cpu),
                    Step::Sleep(until) => self.machine.sleep_until(cpu, until),
                }
                if !program.runs_daemons() {
                    self.run_kswapds(time);
                }
                if let Some(validation) = &mut self.validation
                    && validation.is_due(|| program.has_consistent_pools())
                {
                    self.mm.validate(self.allocated);
                }
            }
            if self.is_busy(cpu) {
                self.queue.push(self.machine.now(cpu), cpu);
                continue;
            }
            let mut next = self.machine.wakes(cpu);
            if self.mm.parts.allocator.vmstat_has_work(cpu) {
                while self.vmstat.due(cpu) < self.machine.now(cpu) {
                    self.vmstat.advance(cpu);
                }
                next = next.min(self.vmstat.due(cpu));
            }
            if next != Time::NEVER {
                self.queue.push(next, cpu);
            }
        }
    }

    /// Runs the kswapds that were woken, each on an idle CPU of its node or on the node's first one.
    fn run_kswapds(&mut self, time: Time) {
        for node in (0..self.machine.topology.nodes).map(Node) {
            let Some(mut kswapd) = self.mm.enter(&mut self.machine, Cpu(0)).start_kswapd(node) else {
                continue;
            };
            let cpus = self.machine.topology.cpus_of(node);
            let idle = |&&other: &&Cpu| !self.machine.is_busy(other) && self.machine.now(other) <= time;
            let place = cpus.iter().find(idle).or(cpus.first()).copied().unwrap_or(Cpu(0));
            self.machine.idle_until(place, time);
            while kswapd.step(&mut self.mm.enter(&mut self.machine, place)) {}
        }
    }

    /// Runs khugepaged on an idle CPU, or on `cpu`, which is furthest behind.
    fn run_khugepaged(&mut self, cpu: Cpu, time: Time) {
        let idle = |&other: &Cpu| !self.machine.is_busy(other) && self.machine.now(other) <= time;
        let place = self.machine.topology.all_cpus().find(idle).unwrap_or(cpu);
        self.machine.idle_until(place, time);
        self.mm.enter(&mut self.machine, place).khugepaged();
    }

    /// Allocates a block (`Kernel::alloc`). May take locks, so the caller asks `may_share` first.
    pub fn alloc(&mut self, cpu: Cpu, request: &Request) -> Option<Pfn> {
        let pfn = self.mm.enter(&mut self.machine, cpu).alloc(request);
        match pfn {
            Some(_) => self.allocated += 1 << request.order,
            None => self.denied += 1,
        }
        pfn
    }

    /// Allocates a block that stays in use as a whole to the end ([`mm::kernel::Kernel::alloc_lasting`]), if there is one.
    pub fn alloc_lasting(&mut self, cpu: Cpu, request: &Request) -> Option<Pfn> {
        let pfn = self.mm.enter(&mut self.machine, cpu).alloc_lasting(request)?;
        self.allocated += 1 << request.order;
        Some(pfn)
    }

    /// Allocates up to `wanted` order-0 pages into `out`, as far as the CPU's own pageset has them. Returns
    /// how many.
    #[inline]
    pub fn alloc_private(&mut self, cpu: Cpu, request: &Request, wanted: usize, out: &mut Vec<Pfn>) -> usize {
        let taken = self.mm.enter(&mut self.machine, cpu).alloc_private(request, wanted, out);
        self.allocated += taken as u64;
        taken
    }

    /// Frees a block (`Kernel::free`). May take locks, so the caller asks `may_share` first.
    pub fn free(&mut self, cpu: Cpu, pfn: Pfn, order: u8) {
        self.allocated -= 1 << order;
        self.mm.enter(&mut self.machine, cpu).free(pfn, order);
    }

    /// Frees order-0 pages from the start of `pages`, as far as the CPU's own pageset takes them. Returns how
    /// many.
    #[inline]
    pub fn free_private(&mut self, cpu: Cpu, pages: &[Pfn]) -> usize {
        let freed = self.mm.enter(&mut self.machine, cpu).free_private(pages);
        self.allocated -= freed as u64;
        freed
    }

    /// Takes a sample of the series and peaks if the next one is due.
    pub fn observe(&mut self, now: Time) {
        if now < self.samples.next {
            return;
        }
        self.progress.note(now);
        let (pcp, used) = self.look_for_peaks();
        let sampled = self.samples.series.last().map_or(0.0, |s| s.seconds);
        if now.seconds() >= sampled + SAMPLE_INTERVAL.seconds() || self.samples.series.is_empty() {
            let c = self.mm.counters();
            for (name, value) in [
                ("pcp_pages", pcp as f64),
                ("allocated_pages", self.allocated as f64),
                ("used_pages", used as f64),
                ("pages_from_zone", c.pages_from_zone() as f64),
                ("pages_drained", c.get(mm::Event::PcpDrainedPages) as f64),
            ] {
                self.samples.series.push(Sample { seconds: now.seconds(), name, value });
            }
            let lists = ["nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file"];
            for (name, pages) in lists.into_iter().zip(self.mm.parts.lrus.nr_lru()) {
                if pages > 0 {
                    self.samples.series.push(Sample { seconds: now.seconds(), name, value: pages as f64 });
                }
            }
        }
        self.samples.next = now + PEAK_INTERVAL;
    }

    /// Updates the peaks of memory in pagesets and of memory not in free lists. Returns both current values
    /// in pages.
    pub fn look_for_peaks(&mut self) -> (u64, u64) {
        let pcp = self.mm.parts.allocator.pages_in_pagesets();
        let used = self.mm.parts.allocator.zones().iter().map(|zone| zone.managed).sum::<u64>()
            - self.mm.parts.allocator.free_pages();
        self.samples.pcp_max = self.samples.pcp_max.max(pcp);
        self.samples.memory_max = self.samples.memory_max.max(used);
        (pcp, used)
    }

    /// What CPUs have spent so far, by category, by CPU.
    fn spent(&self) -> Vec<Vec<Time>> {
        let cpus = || self.machine.topology.all_cpus();
        let of = |&category: &Category| {
            cpus().map(|cpu| self.machine.accounts.spent(cpu, category)).collect::<Vec<Time>>()
        };
        Category::ALL.iter().map(of).collect()
    }

    /// Starts measuring at `time`; everything before was warm-up.
    pub fn start_measuring(&mut self, time: Time) {
        let (counters, mthp) =
            (self.mm.counters().clone(), self.mm.parts.address_spaces.mthp_stats().clone());
        self.measured_from = Measured { time, counters, mthp, spent: self.spent() };
        self.denied = 0;
        self.samples.pcp_max = 0;
        self.samples.memory_max = 0;
        if let Some(window) = self.noted {
            let timeline = Timeline::new(window.later(time), self.machine.topology.cpus());
            self.machine.accounts.begin_timeline(timeline);
        }
    }

    /// Idles all CPUs for `seconds`, during which vmstat workers decay their pagesets.
    pub fn settle(&mut self, seconds: f64) {
        struct Nothing;
        impl Program for Nothing {
            fn step(&mut self, _: &mut System, _: Cpu) -> Step {
                Step::Idle
            }
            fn is_finished(&self) -> bool {
                false
            }
        }
        let until = self.latest() + Time::from_seconds(seconds);
        for cpu in self.machine.topology.all_cpus() {
            self.queue.push(self.machine.now(cpu).max(self.vmstat.due(cpu)), cpu);
        }
        self.run(&mut Nothing, until);
    }

    /// The latest clock of all CPUs.
    pub fn latest(&self) -> Time {
        self.machine.topology.all_cpus().map(|cpu| self.machine.now(cpu)).max().unwrap_or(Time::ZERO)
    }

    /// A note for a run whose kernel has large folios, but in which no folio size is enabled.
    pub fn note_of_sizes(&self) -> Option<String> {
        let thp = &self.mm.settings().transparent_hugepage;
        let wanted = FolioSize::Contpte.order(thp.page_size);
        let kib = thp.page_size.kib() << wanted;
        has_nothing_enabled(&self.mm.features().folios, thp).then(|| {
            format!(
                "no size of folios is enabled, so faults make single pages; for {kib} KiB give \
                 --set transparent_hugepage/hugepages-{kib}kB/enabled=always"
            )
        })
    }

    /// What was measured until `end`, with the metrics that all kinds of runs have.
    pub fn outcome(&mut self, end: Time) -> Outcome {
        // The end may be a peak.
        let (pcp, _) = self.look_for_peaks();
        let mut outcome =
            Outcome { virtual_seconds: (end - self.measured_from.time).seconds(), ..Outcome::default() };
        let mut by_cpu = self.spent();
        let before = self.measured_from.spent.iter().flatten();
        by_cpu.iter_mut().flatten().zip(before).for_each(|(spent, &before)| *spent = *spent - before);
        let spent: Vec<Time> = by_cpu.iter().map(|cpus| cpus.iter().copied().sum()).collect();
        let busy: Time =
            Category::ALL.iter().filter(|&&c| c != Category::IDLE).map(|&c| spent[c.index()]).sum();
        let share = |wanted: &dyn Fn(Category) -> bool| {
            let time: Time = Category::ALL.iter().filter(|&&c| wanted(c)).map(|&c| spent[c.index()]).sum();
            100.0 * time.seconds() / busy.seconds().max(1e-12)
        };
        for &category in Category::ALL {
            outcome.cpu_seconds.insert(category.name(), spent[category.index()].seconds());
            outcome.add_time_by_cpu(category, &by_cpu[category.index()]);
        }
        let counters = self.mm.counters().since(&self.measured_from.counters);
        outcome.set(metric::LOCK, share(&Category::is_lock_wait));
        outcome.set(metric::ZONE_LOCK, share(&|c| c == Category::ZoneLockWait));
        outcome.set(metric::FREE_HIGH, counters.get(mm::Event::PcpFreeHighDrains) as f64);
        outcome.set(metric::ALLOC_ZONE, counters.pages_from_zone() as f64);
        let mib = |pages: u64| self.mm.parts.allocator.page_size().mib_of_pages(pages);
        outcome.set(metric::PCP_MAX, mib(self.samples.pcp_max));
        outcome.set(metric::PCP_END, mib(pcp));
        outcome.set(metric::MEMORY_MAX, mib(self.samples.memory_max));
        self.set_latencies(&mut outcome);
        outcome.counters = counters;
        outcome.mthp = self.mm.parts.address_spaces.mthp_stats().since(&self.measured_from.mthp);
        outcome.series = self.samples.series.clone();
        outcome.page_operations = self.mm.counters().page_operations();
        let noted = self.machine.accounts.end_timeline();
        outcome.timeline = noted.map(|noted| RunTimeline::new(self, noted, self.measured_from.time));
        if self.denied > 0 {
            outcome.notes.push(format!(
                "page allocations that found no memory: {}; the workload went on with what it had",
                self.denied
            ));
        }
        outcome
    }

    /// Sets how long allocations and critical sections of zones have taken.
    fn set_latencies(&self, outcome: &mut Outcome) {
        let latencies = self.mm.latencies();
        let slow = &latencies.slow_alloc;
        let calls =
            [mm::Event::NumaHit, mm::Event::NumaMiss].iter().map(|&e| self.mm.counters().get(e)).sum::<u64>();
        outcome.set(metric::ALLOC_P50, quantile(slow, calls, 0.50) / 1e3);
        outcome.set(metric::ALLOC_P99, quantile(slow, calls, 0.99) / 1e3);
        let under_lock = [
            (metric::TAKE_MEAN, metric::TAKE_P99, &latencies.take),
            (metric::PUT_MEAN, metric::PUT_P99, &latencies.put),
        ];
        for (mean, p99, sections) in under_lock.into_iter().filter(|(.., sections)| !sections.is_empty()) {
            outcome.set(mean, sections.mean() / 1e6);
            outcome.set(p99, sections.value_at_quantile(0.99) as f64 / 1e6);
        }
        for ((name, _), histogram) in HISTOGRAMS.into_iter().zip([slow, &latencies.take, &latencies.put]) {
            let buckets =
                histogram.iter_recorded().map(|b| (b.value_iterated_to() as f64 / 1e3, b.count_at_value()));
            outcome.histograms.insert(name, buckets.collect());
        }
    }
}

/// The `q`-quantile in picoseconds over `calls` calls, of which only the slow ones are in the histogram. The
/// others took no time beyond their private part.
fn quantile(slow: &hdrhistogram::Histogram<u64>, calls: u64, q: f64) -> f64 {
    let fast = calls.saturating_sub(slow.len()) as f64;
    let within_slow = (q * calls as f64 - fast) / slow.len().max(1) as f64;
    if within_slow <= 0.0 { 0.0 } else { slow.value_at_quantile(within_slow) as f64 }
}

#[cfg(test)]
mod tests;
