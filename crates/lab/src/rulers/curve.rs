//! Miss-ratio curves: the miss ratio of a policy as a function of memory size.
//!
//! ```text
//!   exact      policy x size, each a replay of the whole trace
//!   sampled    8 disjoint random samples of the pages, with memory scaled down by the same rate. The curve is the
//!              mean over the samples; the error bar comes from their differences.
//! ```
//!
//! Sampling by page is SHARDS (C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC
//! construction with SHARDS", FAST 2015), extended to policies other than LRU in "Cache modeling and
//! optimization using miniature simulations" (USENIX ATC 2017). Ratios are relative to the expected number of
//! accesses of a sample, not to the actual one (SHARDS-adj): a hot page in a sample adds hits, not misses.

use super::{Policy, Sequence};
use crate::results::{Program, ResultsError, write_table};
use crate::statistics::{mean, mean_interval};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use thiserror::Error;
use workload::table::Values;

/// Number of samples whose mean is a sampled curve.
const PARTS: usize = 8;

/// Why a curve cannot be computed.
#[derive(Debug, Error)]
pub enum CurveError {
    /// At this sampling rate, the memory is less than one page.
    #[error(
        "a memory of {size} pages is less than one page at a sampling rate of {rate}; use sizes of at least {least}, or a rate of at least {least_rate}"
    )]
    TooSmall {
        /// Size of memory in pages.
        size: usize,
        /// The sampling rate.
        rate: f64,
        /// The smallest size at this rate.
        least: usize,
        /// The smallest rate for this size.
        least_rate: f64,
    },
    /// The sampling rate is out of range.
    #[error(
        "a sampling rate of {0} gives no curve; it must be more than 0 and at most 0.5, so that there are two samples"
    )]
    Rate(f64),
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Point {
    /// Name of the policy.
    pub policy: &'static str,
    /// Size of memory in pages.
    pub size_pages: usize,
    /// Number of misses; `None` if sampled.
    pub misses: Option<u64>,
    /// Misses divided by accesses.
    pub miss_ratio: f64,
    /// Lower end of the 95 % interval, if sampled.
    pub miss_ratio_low: Option<f64>,
    /// Upper end of the 95 % interval, if sampled.
    pub miss_ratio_high: Option<f64>,
}

/// Up to `points` different sizes of memory, evenly spaced on a logarithmic scale from a 256th of `distinct`
/// pages to all of them. With sampling, the smallest size still has a few pages per sample.
pub fn default_sizes(distinct: usize, points: usize, sample: Option<f64>) -> Vec<usize> {
    let most = distinct.max(1) as f64;
    let least = (most / 256.0).max(sample.map_or(1.0, |rate| 8.0 / rate)).clamp(1.0, most);
    let size = |step: usize| least * (most / least).powf(step as f64 / (points.max(2) - 1) as f64);
    let mut sizes: Vec<usize> = (0..points).rev().map(|step| size(step).round() as usize).collect();
    if points == 1 {
        sizes = vec![distinct.max(1)];
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Misses of every policy at every size, ordered by policy. Runs on rayon's threads, which do not affect the
/// result.
pub fn curves(sequence: &Sequence, policies: &[Policy], sizes: &[usize]) -> Vec<Point> {
    let point = |policy: Policy, size_pages| {
        let misses = policy.misses(size_pages, sequence);
        Point {
            policy: policy.name,
            size_pages,
            misses: Some(misses),
            miss_ratio: misses as f64 / sequence.pages().len() as f64,
            miss_ratio_low: None,
            miss_ratio_high: None,
        }
    };
    in_parallel(policies, sizes, point)
}

/// Like [`curves`], estimated from random samples of the pages at this `rate`.
pub fn sampled_curves(
    sequence: &Sequence,
    policies: &[Policy],
    sizes: &[usize],
    rate: f64,
) -> Result<Vec<Point>, CurveError> {
    if !(rate > 0.0 && rate <= 0.5) {
        return Err(CurveError::Rate(rate));
    }
    if let Some(&size) = sizes.iter().find(|&&size| (size as f64) * rate < 1.0) {
        let (least, least_rate) = ((1.0 / rate).ceil() as usize, 1.0 / size as f64);
        return Err(CurveError::TooSmall { size, rate, least, least_rate });
    }
    let parts = sequence.samples(rate, PARTS);
    let expected = sequence.pages().len() as f64 * rate;
    let point = |policy: Policy, size_pages: usize| {
        let capacity = (size_pages as f64 * rate).round() as usize;
        let ratios: Vec<f64> =
            parts.iter().map(|part| policy.misses(capacity, part) as f64 / expected).collect();
        let interval = mean_interval(&ratios);
        Point {
            policy: policy.name,
            size_pages,
            misses: None,
            miss_ratio: mean(&ratios).min(1.0),
            miss_ratio_low: interval.map(|interval| interval.low.max(0.0)),
            miss_ratio_high: interval.map(|interval| interval.high.min(1.0)),
        }
    };
    Ok(in_parallel(policies, sizes, point))
}

fn in_parallel(
    policies: &[Policy],
    sizes: &[usize],
    point: impl Fn(Policy, usize) -> Point + Sync,
) -> Vec<Point> {
    let pairs: Vec<_> =
        policies.iter().flat_map(|&policy| sizes.iter().map(move |&size| (policy, size))).collect();
    // One replay per task, as replays are long and of different lengths.
    pairs.into_par_iter().with_max_len(1).map(|(policy, size)| point(policy, size)).collect()
}

/// Writes points to `mrc.parquet` in `directory`; every row also has what they were computed from.
pub fn write_parquet(
    directory: &Path,
    trace: &str,
    program: &Program,
    sequence: &Sequence,
    sample: Option<f64>,
    points: &[Point],
) -> Result<(), ResultsError> {
    let texts = |text: &dyn Fn(&Point) -> String| Values::Text(points.iter().map(text).collect());
    let counts = |count: &dyn Fn(&Point) -> u64| Values::U64(points.iter().map(count).collect());
    let numbers = |number: &dyn Fn(&Point) -> f64| Values::F64(points.iter().map(number).collect());
    let columns = vec![
        ("trace", texts(&|_| trace.into())),
        ("mmtwin", texts(&|_| program.version.clone())),
        ("build", texts(&|_| program.build.clone())),
        ("commit", texts(&|_| program.commit.clone())),
        ("accesses", counts(&|_| sequence.pages().len() as u64)),
        ("distinct_pages", counts(&|_| sequence.distinct() as u64)),
        ("sample", numbers(&|_| sample.unwrap_or(1.0))),
        ("policy", texts(&|point| point.policy.into())),
        ("size_pages", counts(&|point| point.size_pages as u64)),
        ("miss_ratio", numbers(&|point| point.miss_ratio)),
        ("miss_ratio_low", numbers(&|point| point.miss_ratio_low.unwrap_or(point.miss_ratio))),
        ("miss_ratio_high", numbers(&|point| point.miss_ratio_high.unwrap_or(point.miss_ratio))),
    ];
    write_table(&directory.join("mrc.parquet"), "mmtwin.curves", columns)
}
