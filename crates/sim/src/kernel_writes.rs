//! Writes to files of the kernel, one after the other, each timed, while a service may run beside them.
//!
//! ```text
//!   CPU 0        echo 1000 > nr_hugepages ├── steps ──┤ echo 0 > ... ├── steps ──┤        grow_time, shrink_time
//!                                            │ flush: interrupts         │ │
//!   CPU 1        ──█──────███─────█──────────▼█──────────────────────────▼─▼──██───       service_p99
//!   CPU 2        ─────██───────█─────────────▼────█████──────────────────▼─▼───────
//!                  ▲ request: arrives, allocates pages, computes, frees them, ends
//! ```
//!
//! The service is an open loop: requests arrive at each CPU at random times (Poisson), regardless of earlier
//! ones, and queue. A request therefore also pays for interrupts during the one before it. All random numbers
//! are drawn per request from a stream per CPU, so variants of one seed see the same requests.
//!
//! The service runs from the end of boot, before the first write, until the last write has ended, and for a
//! minimum time, so that short writes have enough requests too. Requests that have arrived by then are
//! completed.

use crate::metric;
use crate::outcome::Outcome;
use crate::random::{Stream, stream};
use crate::{Boot, Program, RunError, Step, System};
use hdrhistogram::Histogram;
use machine::profile::Figure;
use machine::{Cpu, Time};
use mm::hugetlb::write::Write;
use mm::{Category, Event, MigrateType, Pfn, Placement, Request};
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;
use workload::keys::{Bounds, CPUS, MILLISECONDS};

workload::keys! {
    /// Writes, as in a scenario.
    pub struct KernelWrites {
        /// `FILE=VALUE`, written in this order by a task on CPU 0.
        pub writes: Vec<String>,
        /// The service that runs on other CPUs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service: Option<Service>,
    }
}

workload::keys! {
    /// A service, as in a scenario.
    pub struct Service {
        /// Number of its CPUs, starting with CPU 1.
        pub cpus: usize => CPUS,
        /// Mean rate of requests per CPU, per second.
        pub requests_per_second: Figure => Bounds::new(1e-3, 1e9, "one in a quarter of an hour to one each ns"),
        /// Median CPU time of a request in microseconds, without its page allocations and without interrupts.
        pub work_us: Figure => Bounds::new(1e-3, 1e9, "a ns to a quarter of an hour"),
        /// Standard deviation of the logarithm of that time, which is at most 100 s per request; with 0 all
        /// requests are equal.
        pub work_spread: Figure => Bounds::new(0.0, 10.0, "a request in six takes over 20,000 times the median"),
        /// Pages that a request allocates and frees.
        pub pages: usize => Bounds::new(0.0, 262_144.0, "1 GiB for one request"),
        /// Minimum running time in virtual milliseconds.
        pub milliseconds: u64 => MILLISECONDS.or_none(),
    }
}

/// Splits `FILE=VALUE` into file and value; `None` if it has no `=` or no file.
pub fn parse_write(text: &str) -> Option<(&str, &str)> {
    let (file, value) = text.split_once('=')?;
    let (file, value) = (file.trim(), value.trim());
    (!file.is_empty()).then_some((file, value))
}

/// The CPU of the task that writes.
const WRITER: Cpu = Cpu(0);

/// Steps of a write between two checks whether a sample is due.
const STEPS: usize = 64;

/// Longest latency that the histogram distinguishes, and longest work of a request: 100 s in nanoseconds.
const LONGEST: u64 = 100_000_000_000;

/// A write in progress.
struct Current {
    write: Write,
    began: Time,
    huge_pages: u64,
    flushes: u64,
}

/// A request being served.
struct Active {
    arrival: Time,
    work: Option<Time>,
    pages: Vec<Pfn>,
    /// Whether an allocation failed; the request then asks for no more pages.
    out_of_memory: bool,
}

/// A CPU of the service.
struct Server {
    random: Pcg64Mcg,
    /// Arrival time of the next request, and its work.
    next: (Time, Time),
    active: Option<Active>,
}

impl Server {
    /// Draws the request after the next one.
    fn draw(&mut self, demand: &Demand) {
        let gap = Time::from_seconds(demand.gap.sample(&mut self.random));
        let work = (1e3 * demand.work.sample(&mut self.random)).min(LONGEST as f64);
        let work = Time::from_nanoseconds_f64(work);
        self.next = (self.next.0 + gap, work);
    }
}

/// Distributions of a service's requests.
pub(crate) struct Demand {
    /// Seconds between arrivals.
    gap: Exp<f64>,
    /// Microseconds of work per request.
    work: LogNormal<f64>,
}

/// Stage of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Until the last write has ended.
    Writing,
    /// Until the service has run for its minimum time.
    Serving,
    /// Until all requests that have arrived are completed.
    Draining,
}

struct Running {
    stage: Stage,
    spec: KernelWrites,
    next_write: usize,
    current: Option<Current>,
    refused: Option<RunError>,
    /// When the service may stop; `None` while writes go on.
    end: Option<Time>,
    frames_at_start: i64,
    grow: Writes,
    shrink: Writes,
    demote: Writes,
    /// Time that boot spent filling pools.
    boot: Time,
    reached: Option<u64>,
    freed: i64,
    notes: Vec<String>,
    servers: Vec<Server>,
    demand: Option<Demand>,
    latencies: Histogram<u64>,
    request: Request,
}

/// Totals of the writes of one kind.
#[derive(Default)]
struct Writes {
    time: Time,
    flushes: u64,
}

/// Makes the writes of `spec`.
pub(super) fn run(boot: &Boot, spec: &KernelWrites) -> Result<Outcome, RunError> {
    let mut system = boot.system(1)?;
    let mut running = Running::new(spec, &system, boot.seed);
    running.run(&mut system);
    if let Some(refused) = running.refused {
        return Err(refused);
    }
    let mut outcome = system.outcome(running.end.unwrap_or_else(|| system.latest()));
    running.report(&mut outcome);
    Ok(outcome)
}

impl Running {
    fn new(spec: &KernelWrites, system: &System, seed: u64) -> Running {
        let mut running = Running {
            stage: Stage::Writing,
            spec: spec.clone(),
            next_write: 0,
            current: None,
            refused: None,
            end: None,
            frames_at_start: frames(system),
            grow: Writes::default(),
            shrink: Writes::default(),
            demote: Writes::default(),
            boot: system.machine.now(WRITER),
            reached: None,
            freed: 0,
            notes: Vec::new(),
            servers: Vec::new(),
            demand: spec.service.as_ref().and_then(Service::demand),
            latencies: Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds and digits are allowed"),
            request: Request::new(0, MigrateType::Unmovable, Placement::Local),
        };
        if let (Some(demand), Some(service)) = (&running.demand, &spec.service) {
            for cpu in 0..service.cpus {
                let random = stream(seed, Stream::Arrivals, cpu as u64);
                let mut server = Server { random, next: (running.boot, Time::ZERO), active: None };
                server.draw(demand);
                running.servers.push(server);
            }
        }
        running
    }

    /// Runs until everything is done or a write is refused.
    fn run(&mut self, system: &mut System) {
        for cpu in 0..=self.servers.len() {
            system.wake(Cpu(cpu as u16), Time::ZERO);
        }
        system.run(self, Time::NEVER);
        let Some(end) = self.end else { return };
        self.stage = Stage::Serving;
        system.run(self, end);
        self.stage = Stage::Draining;
        system.run(self, Time::NEVER);
    }

    fn write(&mut self, system: &mut System) -> Step {
        for _ in 0..STEPS {
            if !system.may_share(WRITER) {
                break;
            }
            let Some(current) = &mut self.current else {
                match self.begin(system) {
                    true => continue,
                    false => return Step::Idle,
                }
            };
            if system.mm.enter(&mut system.machine, WRITER).step_write(&mut current.write) {
                self.finish(system);
            }
        }
        Step::Again
    }

    /// Starts the next write; false if there is none or the kernel refuses it.
    fn begin(&mut self, system: &mut System) -> bool {
        let now = system.machine.now(WRITER);
        let Some(text) = self.spec.writes.get(self.next_write) else {
            let least = self.spec.service.as_ref().map_or(0, |service| service.milliseconds);
            self.end = Some(now.max(self.boot + Time::from_nanoseconds(least.saturating_mul(1_000_000))));
            return false;
        };
        let (file, value) = parse_write(text).unwrap_or((text, ""));
        match system.mm.begin_write(file, value) {
            Ok(write) => {
                let (huge_pages, flushes) = (huge_pages(system), flushes(system));
                self.current = Some(Current { write, began: now, huge_pages, flushes });
                true
            }
            Err(error) => {
                self.refused = Some(RunError::Write(error));
                false
            }
        }
    }

    /// Adds the write that has ended to the totals.
    fn finish(&mut self, system: &mut System) {
        let Some(current) = self.current.take() else { return };
        system.look_for_peaks();
        let text = &self.spec.writes[self.next_write];
        self.next_write += 1;
        let Some(outcome) = current.write.outcome() else { return };
        let is_short = outcome.reached < outcome.wanted;
        let huge = huge_pages(system);
        let part = if current.write.demotes() {
            &mut self.demote
        } else if huge > current.huge_pages || (huge == current.huge_pages && is_short) {
            self.reached = Some(outcome.reached);
            let tables = system.mm.parts.hugetlb.vmemmap.nr_split_sections() as i64;
            self.freed = self.frames_at_start - frames(system) - tables;
            &mut self.grow
        } else if huge < current.huge_pages {
            &mut self.shrink
        } else {
            return;
        };
        part.time += system.machine.now(WRITER) - current.began;
        part.flushes += flushes(system) - current.flushes;
        if is_short {
            let file = parse_write(text).map_or("", |(file, _)| file);
            let why = match current.write.demotes() {
                true => "no more free pages, or no memory for their struct pages",
                false => "no memory for more",
            };
            self.notes
                .push(format!("{file}: {} asked for, {} reached: {why}", outcome.wanted, outcome.reached));
        }
    }

    /// One step of a CPU of the service: the request allocates its pages, computes, or frees them.
    fn serve(&mut self, system: &mut System, cpu: Cpu) -> Step {
        let (Some(service), Some(demand)) = (&self.spec.service, &self.demand) else { return Step::Idle };
        let server = &mut self.servers[cpu.index() - 1];
        let Some(active) = &mut server.active else {
            let (arrival, work) = server.next;
            if self.end.is_some_and(|end| arrival >= end) {
                return Step::Idle;
            }
            if arrival > system.machine.now(cpu) {
                return Step::Sleep(arrival);
            }
            server.active =
                Some(Active { arrival, work: Some(work), pages: Vec::new(), out_of_memory: false });
            server.draw(demand);
            return Step::Again;
        };
        if active.work.is_some() && !active.out_of_memory && active.pages.len() < service.pages {
            let missing = service.pages - active.pages.len();
            let mut taken = system.alloc_private(cpu, &self.request, missing, &mut active.pages);
            if taken == 0 {
                if !system.may_share(cpu) {
                    return Step::Again;
                }
                let Some(pfn) = system.alloc(cpu, &self.request) else {
                    active.out_of_memory = true;
                    return Step::Again;
                };
                active.pages.push(pfn);
                taken = 1;
            }
            let time = system.machine.costs.page_alloc * taken as u64;
            system.machine.work(cpu, Category::Program, time);
            return Step::Again;
        }
        if let Some(work) = active.work.take() {
            system.machine.work(cpu, Category::Program, work);
            return Step::Again;
        }
        // If no CPU is further behind, all earlier interrupts have been taken.
        if !system.may_share(cpu) {
            return Step::Again;
        }
        if let Some(&pfn) = active.pages.last() {
            let mut freed = system.free_private(cpu, &active.pages);
            if freed == 0 {
                system.free(cpu, pfn, 0);
                active.pages.pop();
                freed = 1;
            } else {
                active.pages.drain(..freed);
            }
            let time = system.machine.costs.page_free * freed as u64;
            system.machine.work(cpu, Category::Program, time);
            return Step::Again;
        }
        let latency = system.machine.now(cpu) - active.arrival;
        self.latencies.saturating_record(latency.picoseconds() / 1000);
        server.active = None;
        Step::Again
    }

    fn report(self, outcome: &mut Outcome) {
        for (part, time, flushes) in [
            (&self.grow, metric::GROW_TIME, metric::GROW_FLUSHES),
            (&self.shrink, metric::SHRINK_TIME, metric::SHRINK_FLUSHES),
        ] {
            outcome.set(time, part.time.seconds());
            outcome.set(flushes, part.flushes as f64);
        }
        for (time, metric) in [(self.boot, metric::POOL_BOOT_TIME), (self.demote.time, metric::DEMOTE_TIME)] {
            if time > Time::ZERO {
                outcome.set(metric, time.seconds());
            }
        }
        if let Some(reached) = self.reached {
            outcome.set(metric::PAGES_REACHED, reached as f64);
            outcome.set(metric::VMEMMAP_FREED, self.freed as f64 / 256.0);
        }
        let count = |event| outcome.counters.get(event) as f64;
        let (ipis, holds) = (count(Event::TlbRemoteCalls), count(Event::HugetlbLockHolds));
        outcome.set(metric::IPIS, ipis);
        outcome.set(metric::HUGETLB_LOCK_HOLDS, holds);
        if self.spec.service.is_some() {
            let us = |q: f64| self.latencies.value_at_quantile(q) as f64 / 1e3;
            outcome.set(metric::SERVICE_P50, us(0.50));
            outcome.set(metric::SERVICE_P99, us(0.99));
            outcome.set(metric::SERVICE_P999, us(0.999));
            outcome.set(metric::SERVICE_MAX, self.latencies.max() as f64 / 1e3);
            outcome.set(metric::SERVICE_REQUESTS, self.latencies.len() as f64);
            let buckets = self.latencies.iter_recorded();
            let buckets = buckets.map(|b| (b.value_iterated_to() as f64, b.count_at_value()));
            outcome.histograms.insert("service", buckets.collect());
        }
        outcome.notes.extend(self.notes);
    }
}

impl Service {
    /// The distributions of requests; `None` if the figures are not valid parameters.
    pub(crate) fn demand(&self) -> Option<Demand> {
        let gap = Exp::new(self.requests_per_second.value).ok()?;
        let work = LogNormal::new(self.work_us.value.ln(), self.work_spread.value).ok()?;
        Some(Demand { gap, work })
    }
}

/// Base pages in all pools of huge pages.
fn huge_pages(system: &System) -> u64 {
    system.mm.parts.hugetlb.hstates().iter().map(|h| h.counters().nr << h.order).sum()
}

/// Frames that hold struct pages (`nr_memmap_pages` and `nr_memmap_boot_pages`).
fn frames(system: &System) -> i64 {
    let vmemmap = &system.mm.parts.hugetlb.vmemmap;
    vmemmap.nr_memmap_boot_pages() + vmemmap.nr_memmap_pages()
}

/// TLB flushes of kernel translations on all CPUs so far.
fn flushes(system: &System) -> u64 {
    let counters = system.mm.counters();
    counters.get(Event::TlbFlushAll) + counters.get(Event::TlbFlushKernelRange)
}

impl Program for Running {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        if cpu == WRITER { self.write(system) } else { self.serve(system, cpu) }
    }

    fn is_finished(&self) -> bool {
        match self.stage {
            Stage::Writing => self.end.is_some() || self.refused.is_some(),
            Stage::Serving => false,
            Stage::Draining => {
                self.servers.iter().all(|s| s.active.is_none() && self.end.is_some_and(|end| s.next.0 >= end))
            }
        }
    }
}

#[cfg(test)]
mod tests;
