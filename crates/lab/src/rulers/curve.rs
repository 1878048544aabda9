//! Miss-ratio curves: how often a policy misses, over memory sizes.
//!
//! ```text
//!   exact      policy x size, one replay of the whole trace each
//!   sampled    8 random parts of the pages, disjoint; memory shrinks by the same rate. The curve is the parts'
//!              mean, the error bar comes from how much they differ.
//! ```
//!
//! Sampling pages is SHARDS (C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with
//! SHARDS", FAST 2015), for policies other than LRU as in "Cache modeling and optimization using miniature
//! simulations" (USENIX ATC 2017). Ratios are of the accesses that a part should have, not of those it happens to
//! have (SHARDS-adj): a hot page in a part adds hits, not misses.

use super::{Policy, Sequence};
use crate::results::{Program, ResultsError, write_table};
use crate::statistics::{mean, mean_interval};
use rayon::prelude::*;
use serde::Serialize;
use std::path::Path;
use thiserror::Error;
use workload::table::Values;

/// Parts that a sampled curve is the mean of.
const PARTS: usize = 8;

/// Why there is no curve.
#[derive(Debug, Error)]
pub enum CurveError {
    /// A part of a page is no memory.
    #[error(
        "a memory of {size} pages is less than one page at a sampling rate of {rate}; take sizes from {least} on, or a rate from {least_rate} on"
    )]
    TooSmall {
        /// The size.
        size: usize,
        /// The rate.
        rate: f64,
        /// The smallest size at this rate.
        least: usize,
        /// The smallest rate for this size.
        least_rate: f64,
    },
    /// Nothing would be sampled, or more than there is.
    #[error(
        "a sampling rate of {0} makes no curve; it must be more than 0 and at most 0.5, for two parts that can differ"
    )]
    Rate(f64),
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The policy's name.
    pub policy: &'static str,
    /// Memory, in pages.
    pub size_pages: usize,
    /// Misses; none if sampled.
    pub misses: Option<u64>,
    /// Misses of all accesses.
    pub miss_ratio: f64,
    /// Lower end of the 95 % interval, if sampled.
    pub miss_ratio_low: Option<f64>,
    /// Upper end of it.
    pub miss_ratio_high: Option<f64>,
}

/// `points` sizes of memory, evenly on a logarithmic scale, from a 256th of `distinct` pages to all of them; as few as
/// differ. If sampled, the smallest has a few pages in a sample.
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

/// Every policy at every size, policies first. Uses rayon's threads; the result does not depend on them.
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

/// The same, estimated from random parts, `rate`, of the pages.
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
    // One replay a task: they take long, and differ.
    pairs.into_par_iter().with_max_len(1).map(|(policy, size)| point(policy, size)).collect()
}

/// Writes points to `mrc.parquet` in `directory`, with what they were computed of in every row.
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
