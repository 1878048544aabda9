//! What one run gives back: metrics, where time went, counters, samples over time. Data only; tables, JSON and
//! Parquet are views of it.

use crate::metric::Metric;
use mm::Counters;
use mm::huge_memory::stats::MthpStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A value at a moment of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Virtual time, seconds.
    pub seconds: f64,
    /// What was sampled.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// What NUMA balancing did to an area of memory, and who used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaHeat {
    /// The address space, counted from 0.
    pub process: u32,
    /// Where it begins.
    pub address: u64,
    /// The most pages that it had.
    #[serde(default)]
    pub pages: u64,
    /// How often scan passes skipped it, by the reason that `sched_skip_vma_numa` gives.
    pub skipped: BTreeMap<String, u64>,
    /// The threads that did something to it.
    pub threads: Vec<ThreadHeat>,
}

impl AreaHeat {
    /// Pages that all threads used, each time that one was used.
    pub fn touched(&self) -> u64 {
        self.threads.iter().map(|thread| thread.touched).sum()
    }

    /// Hint faults of all threads.
    pub fn faults(&self) -> u64 {
        self.threads.iter().map(|thread| thread.local_faults + thread.remote_faults).sum()
    }

    /// Pages scanned by all threads.
    pub fn scanned(&self) -> u64 {
        self.threads.iter().map(|thread| thread.scanned).sum()
    }
}

/// What one thread did to an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadHeat {
    /// The thread, counted from 0 over all processes.
    pub thread: u32,
    /// Pages used, each time that one was.
    #[serde(default)]
    pub touched: u64,
    /// Pages whose entries it made PROT_NONE.
    pub scanned: u64,
    /// Hint faults on pages of its node.
    pub local_faults: u64,
    /// Hint faults on pages of other nodes.
    pub remote_faults: u64,
}

/// The result of one run: one workload, one machine, one kernel, one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Values by [`Metric::name`].
    pub metrics: BTreeMap<&'static str, f64>,
    /// Busy and idle CPU seconds by [`mm::Category::name`], over all CPUs.
    pub cpu_seconds: BTreeMap<&'static str, f64>,
    /// What the twin counted in the measured part.
    pub counters: Counters,
    /// The same of each size of anonymous folios.
    pub mthp: MthpStats,
    /// Samples over time.
    pub series: Vec<Sample>,
    /// Latencies by histogram name: (upper bound in nanoseconds, count) of each occupied bucket.
    pub histograms: BTreeMap<&'static str, Vec<(f64, u64)>>,
    /// Virtual length of the measured part, seconds.
    pub virtual_seconds: f64,
    /// Page allocations and frees simulated, warm-up included.
    pub page_operations: u64,
    /// What a reader of the numbers must know, a sentence each.
    pub notes: Vec<String>,
    /// Of threads on several nodes, the areas that were used or scanned most.
    pub areas: Vec<AreaHeat>,
}

impl Outcome {
    /// Enters a value.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.metrics.insert(metric.name, value);
    }

    /// A value, if this kind of run has it.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.metrics.get(metric.name).copied()
    }
}
