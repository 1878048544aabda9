//! Summaries of what processes ask for, to print and to compare a profile with its recording.

use super::operation::Operation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Demand of all processes of one kind, in a profile or in the recording from which it was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub processes: u64,
    pub cpu_seconds: f64,
    pub allocated_pages: u64,
    /// Base pages freed that the process had allocated itself.
    pub freed_own_pages: u64,
    /// Base pages freed that another process had allocated.
    pub freed_shared_pages: u64,
    /// Number of operations for a profile; number of allocations and frees for a recording.
    pub operations: u64,
    /// Number of allocations by order and migratetype.
    pub allocations: BTreeMap<String, u64>,
    /// Lengths of runs of allocations without a free in between.
    pub allocation_runs: Quantiles,
    /// Lengths of runs of frees without an allocation in between.
    pub free_runs: Quantiles,
}

/// Quantiles of run lengths, by the nearest-rank method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of runs.
    pub count: u64,
    pub median: u32,
    /// 90th percentile.
    pub p90: u32,
    /// 99th percentile.
    pub p99: u32,
}

impl Quantiles {
    /// Computes the quantiles of `lengths`, which it sorts.
    pub fn of(lengths: &mut [u32]) -> Quantiles {
        lengths.sort_unstable();
        let rank = |percent: usize| {
            let rank = (lengths.len() * percent).div_ceil(100);
            lengths.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Quantiles { count: lengths.len() as u64, median: rank(50), p90: rank(90), p99: rank(99) }
    }
}

/// Collects the lengths of runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    allocations: Vec<u32>,
    frees: Vec<u32>,
    allocating: bool,
}

impl Runs {
    fn extend(lengths: &mut Vec<u32>, goes_on: bool, count: u32) {
        match lengths.last_mut() {
            Some(length) if goes_on => *length = length.saturating_add(count),
            _ => lengths.push(count),
        }
    }

    /// Adds `count` consecutive allocations.
    pub fn allocate(&mut self, count: u32) {
        Runs::extend(&mut self.allocations, self.allocating, count);
        self.allocating = true;
    }

    /// Adds `count` consecutive frees.
    pub fn free(&mut self, count: u32) {
        Runs::extend(&mut self.frees, !self.allocating, count);
        self.allocating = false;
    }

    /// Adds the runs of another process.
    pub fn append(&mut self, mut other: Runs) {
        self.allocations.append(&mut other.allocations);
        self.frees.append(&mut other.frees);
    }

    /// Stores the quantiles in `summary`.
    pub fn finish(mut self, summary: &mut Summary) {
        summary.allocation_runs = Quantiles::of(&mut self.allocations);
        summary.free_runs = Quantiles::of(&mut self.frees);
    }
}

/// Name of an order and migratetype in [`Summary::allocations`].
pub(super) fn allocation_name(order: u8, migrate_type: mm::MigrateType) -> String {
    format!("order {order} {}", migrate_type.name())
}

/// Summarizes processes, each given as its kind and operations.
pub(super) fn summarize<'a>(
    processes: impl Iterator<Item = (&'a str, &'a [Operation])>,
) -> BTreeMap<&'a str, Summary> {
    let mut kinds: BTreeMap<&str, (Summary, Runs)> = BTreeMap::new();
    for (kind, operations) in processes {
        let (sum, all_runs) = kinds.entry(kind).or_default();
        let mut runs = Runs::default();
        sum.processes += 1;
        sum.operations += operations.len() as u64;
        // For each run of allocations of one order, the number of its first allocation; and the number of the
        // next allocation.
        let mut orders: Vec<(u32, u8)> = Vec::new();
        let mut next = 0u32;
        for &operation in operations {
            sum.cpu_seconds += f64::from(operation.nanoseconds()) / 1e9;
            match operation {
                Operation::Run { .. } => {}
                Operation::Allocate { order, migrate_type, count, .. } => {
                    sum.allocated_pages += u64::from(count) << order;
                    *sum.allocations.entry(allocation_name(order, migrate_type)).or_default() +=
                        u64::from(count);
                    if orders.last().is_none_or(|&(_, last)| last != order) {
                        orders.push((next, order));
                    }
                    next = next.saturating_add(count);
                    runs.allocate(count);
                }
                Operation::Free { first, count, .. } => {
                    sum.freed_own_pages += pages_of(&orders, first, count);
                    runs.free(count);
                }
                Operation::FreeShared { order, count, .. } => {
                    sum.freed_shared_pages += u64::from(count) << order;
                    runs.free(count);
                }
            }
        }
        all_runs.append(runs);
    }
    let finish = |(kind, (mut summary, runs)): (_, (Summary, Runs))| {
        runs.finish(&mut summary);
        (kind, summary)
    };
    kinds.into_iter().map(finish).collect()
}

/// Number of base pages of the allocations `first..first + count`.
fn pages_of(orders: &[(u32, u8)], first: u32, count: u32) -> u64 {
    let end = u64::from(first) + u64::from(count);
    let mut at = orders.partition_point(|&(start, _)| start <= first).saturating_sub(1);
    let (mut from, mut pages) = (u64::from(first), 0);
    while let Some(&(_, order)) = orders.get(at)
        && from < end
    {
        let until = orders.get(at + 1).map_or(end, |&(start, _)| end.min(start.into()));
        pages += (until - from) << order;
        (from, at) = (until, at + 1);
    }
    pages
}
