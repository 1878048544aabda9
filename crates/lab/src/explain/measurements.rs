//! What kernels measure in a scenario: runs are asked for by kernel and seed, and each is made once, also for kernels that differ only in
//! what cannot act.

use super::acting::SameKernels;
use super::{ExplainError, Question, Stage};
use crate::results::Record;
use crate::statistics::{Change, change, mean};
use sim::Run;
use sim::metric::Metric;
use std::collections::{BTreeMap, BTreeSet};

/// Makes runs, or finds them among results; their records come in the same order.
pub type Make<'a, E> = dyn FnMut(Stage, &[Run]) -> Result<Vec<Record>, E> + 'a;

/// The runs that were made so far.
pub(super) struct Measurements<'a, E> {
    question: &'a Question,
    make: &'a mut Make<'a, E>,
    same: SameKernels<'a>,
    /// By the kernel that was run and the seed; without what nothing is asked of.
    known: BTreeMap<(String, u64), Record>,
}

impl<'a, E: From<ExplainError>> Measurements<'a, E> {
    pub fn new(
        question: &'a Question,
        same: SameKernels<'a>,
        make: &'a mut Make<'a, E>,
    ) -> Measurements<'a, E> {
        Measurements { question, make, same, known: BTreeMap::new() }
    }

    /// The name that a kernel is run under.
    pub fn runs_as(&mut self, kernel: &str) -> Result<String, E> {
        let name = self.same.admit(kernel, |name| self.question.side(name)).map_err(ExplainError::from)?;
        Ok(name.to_string())
    }

    /// How many runs it took.
    pub fn runs(&self) -> usize {
        self.known.len()
    }

    /// The runs of a kernel, by seed.
    pub fn of_kernel(&self, kernel: &str) -> Vec<Record> {
        self.question.seeds.iter().filter_map(|&seed| self.find(kernel, seed)).cloned().collect()
    }

    fn find(&self, kernel: &str, seed: u64) -> Option<&Record> {
        self.known.get(&(self.same.find(kernel)?.to_string(), seed))
    }

    /// Makes the runs of kernels with all seeds.
    pub fn need(&mut self, stage: Stage, kernels: &[String]) -> Result<(), E> {
        self.need_each(stage, with_all_seeds(self.question, kernels))
    }

    /// Makes the runs of some kernels, each with a seed of its own.
    pub fn need_each(
        &mut self,
        stage: Stage,
        runs: impl IntoIterator<Item = (String, u64)>,
    ) -> Result<(), E> {
        let mut new = BTreeSet::new();
        let mut asked = Vec::new();
        for (kernel, seed) in runs {
            let run = (self.runs_as(&kernel)?, seed);
            if !self.known.contains_key(&run) && new.insert(run.clone()) {
                asked.push(self.question.run(&run.0, run.1)?);
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        for mut record in (self.make)(stage, &asked)? {
            self.question.check_metrics(&record)?;
            record.series.clear();
            record.histograms.clear();
            record.areas.clear();
            record.programs.clear();
            self.known.insert((record.run.variant.clone(), record.run.seed), record);
        }
        Ok(())
    }

    /// A metric of a kernel; every run that was made has all that the question asks for.
    pub fn value(&self, metric: &Metric, kernel: &str, seed: u64) -> f64 {
        let record = self.find(kernel, seed);
        record.and_then(|record| record.metrics.get(metric.name)).copied().unwrap_or(f64::NAN)
    }

    /// A metric of a kernel by seed.
    pub fn values(&self, metric: &Metric, kernel: &str) -> Vec<f64> {
        self.question.seeds.iter().map(|&seed| self.value(metric, kernel, seed)).collect()
    }

    /// The mean of a metric of a kernel over all seeds.
    pub fn mean(&self, metric: &Metric, kernel: &str) -> f64 {
        mean(&self.values(metric, kernel))
    }

    /// How far a metric is from one kernel to another, as seen from a third: what it would be if that one moved as far.
    pub fn moved(&self, metric: &Metric, base: &str, between: [&str; 2]) -> Change {
        let [before, after] = between.map(|kernel| self.values(metric, kernel));
        let by: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        moved_by(&self.values(metric, base), &by)
    }

    /// Whether two kernels are known to have different values of a metric with a seed.
    pub fn differ(&self, metric: &Metric, kernels: [&str; 2], seed: u64) -> bool {
        let [one, other] = kernels.map(|kernel| self.find(kernel, seed));
        let value =
            |record: Option<&Record>| record.and_then(|record| record.metrics.get(metric.name).copied());
        value(one).zip(value(other)).is_some_and(|(one, other)| one != other)
    }

    /// Whether two kernels measure the same with a seed: all metrics, times and counters, to the last bit.
    pub fn are_equal(&self, kernels: [&str; 2], seed: u64) -> bool {
        let [Some(one), Some(other)] = kernels.map(|kernel| self.find(kernel, seed)) else { return false };
        one.metrics == other.metrics && one.cpu_seconds == other.cpu_seconds && one.counters == other.counters
    }
}

/// Kernels with all seeds of a question.
pub(super) fn with_all_seeds(question: &Question, kernels: &[String]) -> Vec<(String, u64)> {
    let of_kernel =
        |kernel: &String| question.seeds.iter().map(|&seed| (kernel.clone(), seed)).collect::<Vec<_>>();
    kernels.iter().flat_map(of_kernel).collect()
}

/// The change of a metric that has values `base`, by seed, if it moves so far.
pub(super) fn moved_by(base: &[f64], by: &[f64]) -> Change {
    let moved: Vec<f64> = base.iter().zip(by).map(|(base, by)| base + by).collect();
    change(base, &moved)
}
