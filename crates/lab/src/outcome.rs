//! What one run gives back: metrics, where time went, counters, samples over time. Data only; tables, JSON and
//! Parquet are views of it.

use crate::metric::Metric;
use mm::Counters;
use mm::huge_memory::stats::MthpStats;
use serde::Serialize;
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

/// The result of one run: one scenario, one variant, one seed.
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
