//! Results of a run: metrics, CPU time by category, counters and samples. This is data only; tables, JSON and
//! Parquet are views of it.

use crate::metric::{Metric, of_program};
use crate::run_event::RunEvent;
use crate::timeline::RunTimeline;
use machine::{Category as _, Time};
use mm::delayacct::Cause;
use mm::huge_memory::stats::MthpStats;
use mm::{Category, Counters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One sample of a series.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Sample {
    /// Virtual time in seconds.
    pub seconds: f64,
    /// Name of the series.
    pub name: &'static str,
    pub value: f64,
}

/// What NUMA balancing did in a VMA, and which threads used it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AreaHeat {
    /// Number of the address space, from 0.
    pub process: u32,
    /// Start address.
    pub address: u64,
    /// Largest size in pages.
    #[serde(default)]
    pub pages: u64,
    /// How often scan passes skipped it, by reason as in the tracepoint `sched_skip_vma_numa`.
    pub skipped: BTreeMap<String, u64>,
    /// The threads that used, scanned or faulted in it.
    pub threads: Vec<ThreadHeat>,
}

impl AreaHeat {
    /// Page touches of all threads; a page counts each time it is touched.
    pub fn touched(&self) -> u64 {
        self.threads.iter().map(|thread| thread.touched).sum()
    }

    /// NUMA hint faults of all threads.
    pub fn faults(&self) -> u64 {
        self.threads.iter().map(|thread| thread.local_faults + thread.remote_faults).sum()
    }

    /// Pages scanned by all threads.
    pub fn scanned(&self) -> u64 {
        self.threads.iter().map(|thread| thread.scanned).sum()
    }
}

/// What one thread did in a VMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ThreadHeat {
    /// Number of the thread, from 0 over all processes.
    pub thread: u32,
    /// Page touches; a page counts each time it is touched.
    #[serde(default)]
    pub touched: u64,
    /// Pages whose PTEs its scans made PROT_NONE.
    pub scanned: u64,
    /// Hint faults on pages of its node.
    pub local_faults: u64,
    /// Hint faults on pages of other nodes.
    pub remote_faults: u64,
}

/// How long something took, over all the times that it happened.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Distribution {
    /// How often it happened.
    pub count: u64,
    /// All of it, in seconds.
    pub seconds: f64,
    /// Microseconds by quantile: `p50`, `p99`, `p99.9` and `max`.
    pub latency_us: BTreeMap<String, f64>,
}

/// What one program of several did.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ProgramOutcome {
    /// Its name in the scenario.
    pub name: String,
    /// Transactions that it has completed.
    pub transactions: u64,
    /// Transactions a second of virtual time.
    pub transaction_rate: f64,
    /// Latency of a transaction in microseconds, by quantile: `p50`, `p99`, `p99.9` and `max`. Empty without transactions.
    pub latency_us: BTreeMap<String, f64>,
    /// What its threads asked the kernel for and how long that took: `page_fault`, `read`, `write`. Those that there were not are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, Distribution>,
    /// How long its threads could have gone on and did not, by cause: `run_queue`, `device`, `dirty_pages`, `direct_reclaim`,
    /// `direct_compaction`, `memory.max`, `memory.high`, `refault`. Those that there were not are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delays: BTreeMap<String, Distribution>,
    /// CPU seconds while its threads ran, by [`mm::Category::name`]; those of 0 are left out.
    pub cpu_seconds: BTreeMap<String, f64>,
    /// Seconds that its threads slept, in sum, because their memory cgroup was above memory.high.
    #[serde(default)]
    pub over_high_seconds: f64,
    /// Threads that have ended.
    pub threads_ended: u64,
    /// Processes that the OOM killer has killed.
    pub processes_killed: u64,
}

impl ProgramOutcome {
    /// Seconds of delays of the causes that are `wanted`.
    fn delayed(&self, wanted: impl Fn(Cause) -> bool) -> f64 {
        let causes = Cause::ALL.into_iter().filter(|&cause| wanted(cause));
        let delays = causes.filter_map(|cause| self.delays.get(cause.name()));
        // The sum of nothing is -0.
        delays.map(|of| of.seconds).sum::<f64>() + 0.0
    }
}

/// The results of one run: one workload, one machine, one kernel, one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Values by [`Metric::name`].
    pub metrics: BTreeMap<&'static str, f64>,
    /// CPU seconds by [`mm::Category::name`], busy and idle, over all CPUs.
    pub cpu_seconds: BTreeMap<&'static str, f64>,
    /// By category in which some CPU was busy, by CPU: ten-thousandths of the measured part. Not finer, because a result has as
    /// many as a machine has CPUs.
    pub time_by_cpu: BTreeMap<&'static str, Vec<u16>>,
    /// The twin's vmstat and other counters over the measured part.
    pub counters: Counters,
    /// Per-size counters of anonymous folios over the measured part.
    pub mthp: MthpStats,
    /// Samples over time.
    pub series: Vec<Sample>,
    /// Latencies by histogram name: upper bound in nanoseconds and count of each bucket that is not empty.
    pub histograms: BTreeMap<&'static str, Vec<(f64, u64)>>,
    /// Virtual length of the measured part in seconds.
    pub virtual_seconds: f64,
    /// Page allocations and frees simulated, including warm-up.
    pub page_operations: u64,
    /// Caveats to print with the results, one sentence each.
    pub notes: Vec<String>,
    /// What happened at a time, in its order.
    pub events: Vec<RunEvent>,
    /// For threads on several nodes, the VMAs that were used or scanned most.
    pub areas: Vec<AreaHeat>,
    /// Where several programs run, each of them.
    pub programs: Vec<ProgramOutcome>,
    /// How it went, where that was asked for.
    pub timeline: Option<RunTimeline>,
}

impl Outcome {
    pub fn set(&mut self, metric: Metric, value: f64) {
        debug_assert!(metric.takes(value), "{} = {value}: it is {}", metric.name, metric.bounds());
        self.metrics.insert(metric.name, value);
    }

    /// Adds what each CPU spent on a category.
    pub(crate) fn add_time_by_cpu(&mut self, category: Category, spent: &[Time]) {
        let whole = self.virtual_seconds.max(1e-12);
        let part = |time: &Time| (1e4 * time.seconds() / whole).round().min(1e4) as u16;
        let parts: Vec<u16> = spent.iter().map(part).collect();
        if category != Category::IDLE && parts.iter().any(|&part| part > 0) {
            self.time_by_cpu.insert(category.name(), parts);
        }
    }

    /// Adds a program, and what of it can be compared as metrics ([`of_program`]).
    pub fn add_program(&mut self, program: ProgramOutcome) {
        let of = |metric: Metric| metric.of(&program.name);
        // The sum of nothing is -0.
        self.set(of(of_program::CPU_TIME), program.cpu_seconds.values().sum::<f64>() + 0.0);
        self.set(of(of_program::OVER_HIGH_TIME), program.over_high_seconds);
        // What the kernel does for all programs has none.
        if !program.name.starts_with('[') {
            self.set(of(of_program::RUN_QUEUE_TIME), program.delayed(|cause| cause == Cause::RunQueue));
            self.set(of(of_program::DEVICE_TIME), program.delayed(|cause| cause == Cause::Device));
            self.set(of(of_program::MEMORY_STALL_TIME), program.delayed(Cause::is_memory_stall));
        }
        self.set(of(of_program::PROCESSES_KILLED), program.processes_killed as f64);
        if program.transactions > 0 {
            self.set(of(of_program::TRANSACTION_RATE), program.transaction_rate);
        }
        for (quantile, &latency) in &program.latency_us {
            let name = format!("transaction_{quantile}");
            let metric = of_program::METRICS.iter().find(|metric| metric.name == name);
            self.set(of(*metric.expect("each quantile has a metric")), latency);
        }
        self.programs.push(program);
    }

    /// A value; `None` if this kind of run does not have it.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.metrics.get(metric.name).copied()
    }
}
