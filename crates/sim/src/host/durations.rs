//! How long something took, each time: kept as a histogram, told by quantiles.
//!
//! ```text
//!   took 4 us, 4 us, 900 us ... ─► counts by length, to three digits ─► p50, p99, p99.9, max, and the sum
//! ```

use crate::outcome::Distribution;
use hdrhistogram::Histogram;
use machine::Time;
use std::collections::BTreeMap;

/// Quantiles, as results name them.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The longest time that is told from longer ones, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// How long something took.
#[derive(Clone, Default)]
pub(super) struct Durations {
    sum: Time,
    /// Nanoseconds. `None` as long as there are none: a histogram takes much memory.
    histogram: Option<Box<Histogram<u64>>>,
}

impl Durations {
    pub fn add(&mut self, time: Time) {
        self.sum += time;
        let new = || Box::new(Histogram::new_with_max(LONGEST, 3).expect("3 digits are supported"));
        self.histogram.get_or_insert_with(new).saturating_record(time.picoseconds() / 1000);
    }

    /// All of them together.
    pub fn sum(&self) -> Time {
        self.sum
    }

    /// Microseconds by quantile; empty if there are none.
    pub fn quantiles_us(&self) -> BTreeMap<String, f64> {
        let quantiles = self.histogram.iter().flat_map(|histogram| {
            QUANTILES.map(|(name, at)| (name.to_string(), histogram.value_at_quantile(at) as f64 / 1e3))
        });
        quantiles.collect()
    }

    /// As results have them; `None` if there are none.
    pub fn distribution(&self) -> Option<Distribution> {
        let count = self.histogram.as_ref()?.len();
        Some(Distribution { count, seconds: self.sum.seconds(), latency_us: self.quantiles_us() })
    }
}
