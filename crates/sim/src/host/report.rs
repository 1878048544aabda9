//! What each program of a host did: transactions and how long they took, CPU time by cause.

use super::Workload;
use super::durations::Durations;
use crate::daemons::Daemon;
use crate::outcome::{Distribution, Outcome, ProgramOutcome, Sample};
use crate::{System, metric};
use machine::topology::MAX_NODES;
use machine::{Category as _, Cpu, Time};
use mm::damon::Idle;
use mm::delayacct::{Cause, Delay};
use mm::{Category, Event, Zone};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// What a thread asks the kernel for and gets sooner or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A page that its process has not mapped.
    PageFault,
    Read,
    Write,
}

impl Call {
    /// All of them as results name them, in the order of the enum.
    const NAMES: [&str; 3] = ["page_fault", "read", "write"];
}

/// What one program, or a kernel thread, did since measuring began.
#[derive(Clone)]
struct Report {
    name: String,
    transactions: u64,
    latencies: Durations,
    /// By [`Call`].
    calls: [Durations; Call::NAMES.len()],
    /// By [`Cause`].
    delays: [Durations; Cause::ALL.len()],
    /// By category.
    spent: Vec<Time>,
    /// When the last transaction ended.
    last: Time,
    /// Slept for being above memory.high.
    slept_over_high: Time,
    threads_ended: u64,
    /// Since the run began: who was killed while warming up is missing from what is measured.
    processes_killed: u64,
}

impl Report {
    fn new(name: &str) -> Report {
        Report {
            name: name.into(),
            transactions: 0,
            latencies: Durations::default(),
            calls: Default::default(),
            delays: Default::default(),
            spent: vec![Time::ZERO; Category::COUNT],
            last: Time::ZERO,
            slept_over_high: Time::ZERO,
            threads_ended: 0,
            processes_killed: 0,
        }
    }

    fn outcome(&self, seconds: f64) -> ProgramOutcome {
        let spent = |&category: &Category| {
            let spent = self.spent[category.index()];
            (spent > Time::ZERO).then(|| (category.name().to_string(), spent.seconds()))
        };
        ProgramOutcome {
            name: self.name.clone(),
            transactions: self.transactions,
            transaction_rate: self.transactions as f64 / seconds,
            latency_us: self.latencies.quantiles_us(),
            calls: named(Call::NAMES, &self.calls),
            delays: named(Cause::ALL.map(Cause::name), &self.delays),
            cpu_seconds: Category::ALL.iter().filter_map(spent).collect(),
            over_high_seconds: self.slept_over_high.seconds(),
            threads_ended: self.threads_ended,
            processes_killed: self.processes_killed,
        }
    }
}

/// What the kernel does for all programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelWork {
    Kswapd,
    Kcompactd,
    Khugepaged,
    Kdamond,
    Zswap,
    Writeback,
    /// Of a CPU that is idle otherwise.
    Interrupts,
}

impl KernelWork {
    /// As results name it, in the order of the enum.
    pub const NAMES: [&str; 7] = [
        "[kswapd]",
        "[kcompactd]",
        "[khugepaged]",
        "[kdamond]",
        "[zswap-shrink]",
        "[writeback]",
        "[interrupts]",
    ];
}

impl From<Daemon> for KernelWork {
    /// Those of all nodes are one.
    fn from(daemon: Daemon) -> KernelWork {
        match daemon {
            Daemon::Kswapd(_) => KernelWork::Kswapd,
            Daemon::Kcompactd(_) => KernelWork::Kcompactd,
            Daemon::Khugepaged => KernelWork::Khugepaged,
            Daemon::Kdamond => KernelWork::Kdamond,
            Daemon::ZswapShrinker => KernelWork::Zswap,
        }
    }
}

/// Whose time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payer {
    /// The running program of this number.
    Program(usize),
    Kernel(KernelWork),
}

/// Reports of all programs and kernel threads.
pub(super) struct Reports {
    /// The programs as in the scenario, the operator if there are events, then [`KernelWork`].
    all: Vec<Report>,
    /// For each running program, which of `all` it belongs to: copies have one report.
    of_program: Vec<usize>,
    /// Queries of all transactions, where a benchmark counts both.
    queries: u64,
    /// By CPU, whose time runs.
    payers: Vec<Payer>,
    /// By CPU and category, the time that has been reported.
    settled: Vec<Vec<Time>>,
}

impl Reports {
    pub fn new(spec: &Workload, cpus: usize) -> Reports {
        let copies = spec.programs.iter().enumerate();
        let of_operator = (!spec.events.is_empty()).then_some(spec.programs.len());
        let copies = copies.flat_map(|(at, program)| (0..program.copies).map(move |_| at));
        Reports {
            all: spec.reported().into_iter().map(Report::new).collect(),
            of_program: copies.chain(of_operator).collect(),
            queries: 0,
            payers: vec![Payer::Kernel(KernelWork::Interrupts); cpus],
            settled: vec![vec![Time::ZERO; Category::COUNT]; cpus],
        }
    }

    /// Forgets what was before.
    pub fn start_measuring(&mut self, system: &mut System) {
        if let Some(timeline) = system.machine.accounts.timeline() {
            for (cpu, &payer) in timeline.cpus().zip(&self.payers) {
                timeline.switch(cpu, self.place(payer) as u32);
            }
        }
        for (cpu, settled) in system.machine.topology.all_cpus().zip(&mut self.settled) {
            for (&category, settled) in Category::ALL.iter().zip(settled) {
                *settled = system.machine.accounts.spent(cpu, category);
            }
        }
        self.queries = 0;
        for report in &mut self.all {
            *report = Report { processes_killed: report.processes_killed, ..Report::new(&report.name) };
        }
    }

    /// Notes a transaction that ended at `now` and took so long.
    pub fn transaction(&mut self, program: usize, now: Time, took: Time) {
        let report = &mut self.all[self.of_program[program]];
        report.last = now;
        report.transactions += 1;
        report.latencies.add(took);
    }

    /// Notes how long what a thread of a program asked the kernel for took.
    pub fn call(&mut self, program: usize, call: Call, took: Time) {
        self.all[self.of_program[program]].calls[call as usize].add(took);
    }

    /// Notes that a thread of a program could not go on.
    pub fn delay(&mut self, program: usize, delay: &Delay) {
        let report = &mut self.all[self.of_program[program]];
        delay.causes().for_each(|(cause, time)| report.delays[cause as usize].add(time));
    }

    /// How long threads of a program have been on CPUs since measuring began, where they run on `cpu` now.
    pub fn cpu_time(&mut self, system: &System, cpu: Cpu, program: usize) -> Time {
        self.settle(system, cpu, self.payers[cpu.index()]);
        self.settled_cpu_time(program)
    }

    /// How long threads of a program have been on CPUs since measuring began, as far as that is settled.
    pub fn settled_cpu_time(&self, program: usize) -> Time {
        self.all[self.of_program[program]].spent.iter().copied().sum()
    }

    /// The name of a running program.
    pub fn name(&self, program: usize) -> &str {
        self.name_of(self.number(program))
    }

    /// The number of its report: copies have one.
    pub fn number(&self, program: usize) -> usize {
        self.of_program[program]
    }

    /// The name of whom a report is about.
    pub fn name_of(&self, report: usize) -> &str {
        &self.all[report].name
    }

    /// Transactions of all programs.
    pub fn transactions(&self) -> u64 {
        self.all.iter().map(|report| report.transactions).sum()
    }

    /// Notes that a thread sleeps for so long because its memory cgroup is above memory.high.
    pub fn slept_over_high(&mut self, program: usize, time: Time) {
        self.all[self.of_program[program]].slept_over_high += time;
    }

    /// Counts the queries of a transaction.
    pub fn add_queries(&mut self, queries: u32) {
        self.queries += u64::from(queries);
    }

    /// Seconds that these programs, and other copies of them, spent in the categories that are `wanted`.
    pub fn spent(&self, programs: &[usize], wanted: &dyn Fn(Category) -> bool) -> f64 {
        let is_theirs = |at: usize| programs.iter().any(|&program| self.of_program[program] == at);
        let theirs: Vec<&Report> =
            (0..self.all.len()).filter(|&at| is_theirs(at)).map(|at| &self.all[at]).collect();
        spent(&theirs, wanted)
    }

    pub fn thread_ended(&mut self, program: usize) {
        self.all[self.of_program[program]].threads_ended += 1;
    }

    /// Notes a killed process. Returns the name of its program.
    pub fn process_killed(&mut self, program: usize) -> &str {
        let report = &mut self.all[self.of_program[program]];
        report.processes_killed += 1;
        &report.name
    }

    /// Says whose time the time of `cpu` is from now on.
    #[inline]
    pub fn switch(&mut self, system: &mut System, cpu: Cpu, payer: Payer) {
        let before = std::mem::replace(&mut self.payers[cpu.index()], payer);
        if before != payer {
            self.settle(system, cpu, before);
            if let Some(timeline) = system.machine.accounts.timeline() {
                timeline.switch(cpu, self.place(payer) as u32);
            }
        }
    }

    /// Which of all reports is that of a payer.
    fn place(&self, payer: Payer) -> usize {
        match payer {
            Payer::Program(program) => self.of_program[program],
            Payer::Kernel(work) => self.all.len() - KernelWork::NAMES.len() + work as usize,
        }
    }

    /// Adds what the CPUs have done so far to the time of those who pay for it.
    pub fn settle_all(&mut self, system: &System) {
        for cpu in system.machine.topology.all_cpus() {
            self.settle(system, cpu, self.payers[cpu.index()]);
        }
    }

    /// Adds what `cpu` has done since the last call to the payer's time.
    fn settle(&mut self, system: &System, cpu: Cpu, payer: Payer) {
        let place = self.place(payer);
        let report = &mut self.all[place];
        let places = self.settled[cpu.index()].iter_mut().zip(&mut report.spent);
        for (&category, (settled, spent)) in Category::ALL.iter().zip(places) {
            let now = system.machine.accounts.spent(cpu, category);
            if category != Category::IDLE {
                *spent += now - *settled;
            }
            *settled = now;
        }
    }

    /// Sets the metrics that programs have together, and what each of them did in these `times`.
    pub fn fill(&self, outcome: &mut Outcome, times: Range<Time>) {
        let seconds = (times.end - times.start).seconds().max(1e-12);
        let done = self.transactions();
        let time: Time = self.all.iter().map(|report| report.latencies.sum()).sum();
        outcome.set(metric::SCORE, done as f64 / seconds);
        outcome.set(metric::TRANSACTIONS, done as f64);
        outcome.set(metric::TRANSACTION_TIME, time.seconds() * 1e6);
        outcome.set(metric::TRANSACTION_RATE, done as f64 / time.seconds().max(1e-12));
        let last = self.all.iter().map(|report| report.last).max().unwrap_or_default();
        outcome.set(metric::DURATION, last.saturating_sub(times.start).seconds());
        if self.queries > 0 {
            outcome.set(metric::QUERY_RATE, self.queries as f64 / seconds);
        }
        let all: Vec<&Report> = self.all.iter().collect();
        outcome.set(metric::USER_TIME, spent(&all, &Category::is_user));
        outcome.set(metric::SYSTEM_TIME, spent(&all, &|category| !category.is_user()));
        self.all.iter().for_each(|report| outcome.add_program(report.outcome(seconds)));
        if let Some(timeline) = &mut outcome.timeline {
            timeline.tasks = self.all.iter().map(|report| report.name.clone()).collect();
        }
    }
}

/// Those that there are, with their names.
fn named<const N: usize>(names: [&str; N], all: &[Durations; N]) -> BTreeMap<String, Distribution> {
    let named = names.into_iter().zip(all);
    named.filter_map(|(name, durations)| Some((name.to_string(), durations.distribution()?))).collect()
}

/// Seconds in the categories that are `wanted`.
fn spent(reports: &[&Report], wanted: &dyn Fn(Category) -> bool) -> f64 {
    let of = Category::ALL.iter().filter(|&&category| wanted(category));
    of.flat_map(|category| reports.iter().map(|report| report.spent[category.index()].seconds())).sum()
}

/// Virtual time between two samples.
const SAMPLE_INTERVAL: Time = Time::from_nanoseconds(1_000_000_000);
/// The same for memory by node.
const NODES_INTERVAL: Time = Time::from_nanoseconds(100_000_000);
/// Names of the series of pages in use on each node.
static PAGES_OF_NODE: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..MAX_NODES).map(|node| format!("pages_node{node}")).collect());

/// Series that explain what stays in memory, from the start of warming up on.
#[derive(Default)]
pub(super) struct Samples {
    taken: Time,
    /// When a sample of memory by node is due.
    next_of_nodes: Time,
    /// Pages accessed by then.
    accesses: [u64; 2],
    series: Vec<Sample>,
}

impl Samples {
    /// Takes samples that are due: progress, refaults and where they were placed, file pages by age of generation, and memory by
    /// node. `accesses` are the pages accessed so far: on other nodes, and on the thread's own.
    pub fn take(&mut self, system: &System, now: Time, transactions: u64, accesses: [u64; 2]) {
        if now >= self.next_of_nodes && system.machine.topology.nodes > 1 {
            self.take_of_nodes(system, now, accesses);
        }
        if now < self.taken + SAMPLE_INTERVAL {
            return;
        }
        self.taken = now;
        let parts = &system.mm.parts;
        let counter = |event: Event| (event.name(), system.mm.counters().get(event));
        let ages = [
            "file_youngest_generation",
            "file_second_generation",
            "file_third_generation",
            "file_fourth_generation",
        ];
        let values = [
            ("transactions", transactions),
            ("nr_file_pages", parts.page_cache.files().nr_folios()),
            ("swap_used_pages", parts.swap.used()),
            ("zswap_pages", parts.zswap.pool_pages()),
            ("zswapped_pages", parts.zswap.stored_pages()),
            ("nr_dirty", parts.page_cache.nr_dirty()),
            ("nr_writeback", parts.page_cache.nr_writeback()),
            counter(Event::WorkingsetRefaultFile),
            counter(Event::WorkingsetActivateFile),
            counter(Event::WorkingsetRestoreFile),
        ];
        let generations = ages.into_iter().zip(parts.lrus.nr_file_generations());
        for (name, value) in values.into_iter().chain(generations) {
            self.series.push(Sample { seconds: now.seconds(), name, value: value as f64 });
        }
    }

    /// Takes a sample of memory by node, and of the share of local accesses.
    fn take_of_nodes(&mut self, system: &System, now: Time, accesses: [u64; 2]) {
        self.next_of_nodes = now + NODES_INTERVAL;
        let before = std::mem::replace(&mut self.accesses, accesses);
        let [remote, local] = [0, 1].map(|at| accesses[at] - before[at]);
        let seconds = now.seconds();
        if remote + local > 0 {
            let value = 100.0 * local as f64 / (remote + local) as f64;
            self.series.push(Sample { seconds, name: "local_accesses", value });
        }
        for (node, name) in (0u8..).zip(PAGES_OF_NODE.iter()).take(system.machine.topology.nodes.into()) {
            let zones = system.mm.parts.allocator.zones().iter().filter(|zone| zone.node.0 == node);
            let free = |zone: &Zone| zone.exact_free_pages() + zone.pages_in_pagesets() as i64;
            let used: i64 = zones.map(|zone| zone.managed as i64 - free(zone)).sum();
            self.series.push(Sample { seconds, name, value: used as f64 });
        }
    }

    /// All samples.
    pub fn into_series(self) -> Vec<Sample> {
        self.series
    }
}

/// Says why DAMON_RECLAIM, which was switched on, has paged nothing out.
pub(super) fn note_of_kdamond(idle: Idle) -> String {
    match idle {
        Idle::Refused => "damon_reclaim.enabled: refused (EINVAL), so there is no [kdamond]: damon_reclaim.sample_interval is above \
                          aggr_interval, or min_nr_regions above max_nr_regions"
            .into(),
        Idle::SchemeLost => "damon_reclaim.enabled: [kdamond] watched memory and paged nothing out; kernels 6.11 to 6.16 forget what they \
                             are to page out as it is switched on (damon.loses_scheme)"
            .into(),
        Idle::OutsideMarks => "damon_reclaim.enabled: [kdamond] paged nothing out; whenever it looked, more memory was free than \
                               damon_reclaim.wmarks_high and wmarks_mid let it work with, or less than wmarks_low"
            .into(),
    }
}

/// What NUMA balancing found and cost.
pub(super) fn set_numa(outcome: &mut Outcome) {
    let counted = |event| outcome.counters.get(event) as f64;
    let (faults, local) = (counted(Event::NumaHintFaults), counted(Event::NumaHintFaultsLocal));
    let (updates, migrated) = (counted(Event::NumaPteUpdates), counted(Event::NumaPagesMigrated));
    outcome.set(metric::HINT_FAULTS_LOCAL, 100.0 * local / faults.max(1.0));
    outcome.set(metric::AUTONUMA_COST, autonuma_cost(updates, faults, migrated));
}

/// The "AutoNUMA cost" of mmtests. The weights reproduce all four published costs from the counters next to
/// them.
fn autonuma_cost(pte_updates: f64, hint_faults: f64, migrated: f64) -> f64 {
    7e-6 * pte_updates + 5e-3 * hint_faults + 1.9e-5 * migrated
}

/// Memory at the end, as free(1) shows it.
pub(super) fn set_memory(outcome: &mut Outcome, system: &System) {
    let mm = &system.mm;
    let mib = |pages: u64| mm.parts.allocator.page_size().mib_of_pages(pages);
    let total: u64 = mm.parts.allocator.zones().iter().map(|zone| zone.managed).sum();
    let free = mm.parts.allocator.free_pages();
    let cached = mm.parts.page_cache.files().nr_folios();
    outcome.set(metric::MEM_TOTAL, mib(total));
    outcome.set(metric::MEM_FREE, mib(free));
    outcome.set(metric::MEM_BUFF_CACHE, mib(cached));
    outcome.set(metric::MEM_USED, mib(total - free - cached));
    outcome.set(metric::MEM_AVAILABLE, mib(mm.parts.si_mem_available()));
    outcome.set(metric::SLAB_UNRECLAIMABLE, mib(mm.parts.slabs.pages()));
}

/// What came back that had been evicted, and what went to devices, on a host that has any.
pub(super) fn set_paging(outcome: &mut Outcome, system: &System) {
    let mm = &system.mm;
    let mib = |pages: u64| mm.parts.allocator.page_size().mib_of_pages(pages);
    let swap = &mm.parts.swap;
    outcome.set(metric::SWAP_TOTAL, mib(swap.free() + swap.used()));
    outcome.set(metric::SWAP_USED, mib(swap.used()));
    outcome.set(metric::SWAP_FREE, mib(swap.free()));
    outcome.set(metric::ZSWAP, mib(mm.parts.zswap.pool_pages()));
    outcome.set(metric::ZSWAPPED, mib(mm.parts.zswap.stored_pages()));
    for (metric, event) in [
        (metric::ZSWPIN, Event::Zswpin),
        (metric::ZSWPOUT, Event::Zswpout),
        (metric::ZSWPWB, Event::Zswpwb),
        (metric::WORKINGSET_REFAULT_FILE, Event::WorkingsetRefaultFile),
        (metric::WORKINGSET_REFAULT_ANON, Event::WorkingsetRefaultAnon),
        (metric::WORKINGSET_ACTIVATE_FILE, Event::WorkingsetActivateFile),
        (metric::WORKINGSET_ACTIVATE_ANON, Event::WorkingsetActivateAnon),
        (metric::WORKINGSET_RESTORE_FILE, Event::WorkingsetRestoreFile),
        (metric::WORKINGSET_RESTORE_ANON, Event::WorkingsetRestoreAnon),
        (metric::PSWPIN, Event::Pswpin),
        (metric::PSWPOUT, Event::Pswpout),
        (metric::NR_DIRTIED, Event::NrDirtied),
        (metric::NR_WRITTEN, Event::NrWritten),
    ] {
        outcome.set(metric, outcome.counters.get(event) as f64);
    }
    // A run has a fixed length: a kernel that gets more done reads more and has more refaults.
    if let Some(done) = outcome.get(metric::TRANSACTIONS).filter(|&done| done > 0.0) {
        let refaults = [Event::WorkingsetRefaultFile, Event::WorkingsetRefaultAnon];
        let refaults: u64 = refaults.into_iter().map(|event| outcome.counters.get(event)).sum();
        outcome.set(metric::REFAULTS_PER_TRANSACTION, refaults as f64 / done);
    }
    outcome.set(metric::WORKINGSET_NODES, mm.parts.page_cache.files().workingset_nodes() as f64);
    outcome.set(metric::WORKINGSET_NODERECLAIM, outcome.counters.get(Event::WorkingsetNodereclaim) as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_costs_follow_from_printed_counters() {
        for (updates, faults, migrated, cost) in [
            (477_310.0, 96_817.0, 86_660.0, 489.07),
            (392_566.0, 87_555.0, 85_363.0, 442.14),
            (152_259_275.0, 154_660_352.0, 8_179_067.0, 774_522.98),
            (50_075.0, 39_014.0, 14_147.0, 195.69),
        ] {
            assert!((autonuma_cost(updates, faults, migrated) - cost).abs() < 0.01, "{cost}");
        }
    }
}
