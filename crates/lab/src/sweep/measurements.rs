//! What the runs of a sweep measured, by what was run.

use super::fleet::Levels;
use super::plan::Time;
use crate::results::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// A run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Position of the member.
    pub member: usize,
    pub time: Time,
    pub levels: Levels,
    pub seed: u64,
}

/// What is kept of a run; series and histograms of thousands of runs would not fit into memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub metrics: BTreeMap<String, f64>,
    pub virtual_seconds: f64,
}

impl Measured {
    /// Some metrics of a run.
    pub fn of(record: &Record, wanted: &BTreeSet<&str>) -> Measured {
        let metrics = record.metrics.iter().filter(|(name, _)| wanted.contains(name.as_str()));
        Measured {
            metrics: metrics.map(|(name, value)| (name.clone(), *value)).collect(),
            virtual_seconds: record.virtual_seconds,
        }
    }
}

/// What a member runs with, without the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub member: usize,
    pub levels: Levels,
    pub time: Time,
    /// Whether it is the same with every seed: there is one recording of the program.
    pub is_one: bool,
}

impl Cell {
    /// Its run with a seed.
    pub fn task(&self, seed: u64) -> Task {
        let Cell { member, levels, time, is_one } = self.clone();
        Task { member, levels, time, seed: if is_one { 1 } else { seed } }
    }
}

/// All runs so far.
#[derive(Debug, Default)]
pub struct Measurements(BTreeMap<Task, Measured>);

impl Measurements {
    pub fn has(&self, task: &Task) -> bool {
        self.0.contains_key(task)
    }

    pub fn add(&mut self, task: Task, measured: Measured) {
        self.0.insert(task, measured);
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.0.len()
    }

    /// The values of a metric by seed; none if a run is not there or lacks it.
    pub fn values(&self, cell: &Cell, seeds: &RangeInclusive<u64>, metric: &str) -> Option<Vec<f64>> {
        let runs = self.of(cell, seeds)?;
        runs.into_iter().map(|run| run.metrics.get(metric).copied()).collect()
    }

    /// The mean virtual time of runs in seconds.
    pub fn virtual_seconds(&self, cell: &Cell, seeds: &RangeInclusive<u64>) -> f64 {
        let runs = self.of(cell, seeds).unwrap_or_default();
        crate::statistics::mean(&runs.iter().map(|run| run.virtual_seconds).collect::<Vec<_>>())
    }

    /// The runs of a cell, by seed; none if one is not there.
    fn of(&self, cell: &Cell, seeds: &RangeInclusive<u64>) -> Option<Vec<&Measured>> {
        seeds.clone().map(|seed| self.0.get(&cell.task(seed))).collect()
    }
}
