//! Comparisons: what each variant measures, how far it is from the first one, and where the time went.
//!
//! ```text
//!   records ─► by variant and seed ─► mean, interval, change against the first variant    (statistics)
//!                                └──► share of busy CPU time by category, first against best variant
//! ```
//!
//! Data only; the face decides what is shown.

use crate::results::Record;
use crate::scenario::Scenario;
use crate::statistics::{Change, Interval, change, mean, mean_interval};
use serde::Serialize;
use sim::metric::{Better, Metric};
use std::collections::BTreeMap;

/// All variants of an experiment beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The scenario.
    pub scenario: String,
    /// What its results have been checked against.
    pub evidence: String,
    /// The machine.
    pub machine: String,
    /// Settings beyond the kernel's defaults that all variants have.
    pub settings: BTreeMap<String, String>,
    /// Seeds, paired between variants.
    pub seeds: Vec<u64>,
    /// The metrics, in the order of the scenario.
    pub metrics: Vec<Metric>,
    /// The variants, in the order asked for.
    pub variants: Vec<VariantSummary>,
    /// Where the time went; none with a single variant, or of a workload that keeps no time of CPUs.
    pub time: Option<TimeShift>,
}

/// One variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantSummary {
    /// Its name.
    pub name: String,
    /// Its metrics by name; those that this kind of workload does not have are missing.
    pub metrics: BTreeMap<String, MetricSummary>,
    /// CPU seconds by category, mean over seeds.
    pub cpu_seconds: BTreeMap<String, f64>,
}

/// A metric of a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricSummary {
    /// Mean over seeds.
    pub mean: f64,
    /// 95 % interval of the mean; none with a single seed.
    pub interval: Option<Interval>,
    /// Values by seed.
    pub values: Vec<f64>,
    /// Change against the first variant, by pairs; none for the first variant itself.
    pub change: Option<Change>,
}

/// How busy CPU time moved between categories.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeShift {
    /// The first variant.
    pub from: String,
    /// The variant with the best value of the scenario's first metric that has a better direction.
    pub to: String,
    /// That metric.
    pub by: String,
    /// Categories, largest change first; those that are zero in both are left out.
    pub categories: Vec<CategoryShift>,
}

/// Share of one category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CategoryShift {
    /// [`mm::Category::name`].
    pub category: String,
    /// CPU seconds a busy CPU second, first variant.
    pub from: f64,
    /// The same of the other.
    pub to: f64,
}

impl Comparison {
    /// Compares `records` of one experiment, which are those of `variants` with the same seeds.
    pub fn new(scenario: &Scenario, variants: &[String], records: &[Record]) -> Comparison {
        let variants: Vec<&str> = variants.iter().map(|variant| scenario.present_name(variant)).collect();
        let of = |variant: &str| -> Vec<&Record> {
            let mut own: Vec<&Record> =
                records.iter().filter(|record| record.run.variant == variant).collect();
            own.sort_by_key(|record| record.run.seed);
            own
        };
        let first: Vec<&Record> = variants.first().map(|variant| of(variant)).unwrap_or_default();
        let summaries: Vec<VariantSummary> = variants
            .iter()
            .enumerate()
            .map(|(index, &name)| VariantSummary::new(name, &of(name), (index > 0).then_some(&first)))
            .collect();
        let metrics: Vec<Metric> =
            scenario.metrics.iter().filter_map(|name| Metric::find(name)).copied().collect();
        let run = first.first().map(|record| &record.run);
        Comparison {
            scenario: scenario.name.clone(),
            evidence: scenario.evidence.clone(),
            machine: run.map_or(scenario.machine.clone(), |run| run.machine.name.clone()),
            settings: run.map_or(BTreeMap::new(), |run| {
                let shared = |name: &String, value: &String| {
                    records.iter().all(|record| record.run.settings.get(name) == Some(value))
                };
                run.settings.clone().into_iter().filter(|(name, value)| shared(name, value)).collect()
            }),
            seeds: first.iter().map(|record| record.run.seed).collect(),
            time: TimeShift::new(&metrics, &summaries),
            metrics,
            variants: summaries,
        }
    }
}

impl VariantSummary {
    fn new(name: &str, records: &[&Record], first: Option<&Vec<&Record>>) -> VariantSummary {
        let names = records.first().map(|record| record.metrics.keys()).into_iter().flatten();
        let metrics = names.filter_map(|name| {
            let values = values(records, name)?;
            let change = first.and_then(|first| {
                let first = self::values(first, name)?;
                (first.len() == values.len()).then(|| change(&first, &values))
            });
            Some((
                name.clone(),
                MetricSummary { mean: mean(&values), interval: mean_interval(&values), values, change },
            ))
        });
        let categories = records.first().map(|record| record.cpu_seconds.keys()).into_iter().flatten();
        let cpu_seconds = categories.map(|category| {
            let seconds: Vec<f64> =
                records.iter().filter_map(|r| r.cpu_seconds.get(category).copied()).collect();
            (category.clone(), mean(&seconds))
        });
        VariantSummary { name: name.into(), metrics: metrics.collect(), cpu_seconds: cpu_seconds.collect() }
    }

    /// CPU seconds of each category a busy CPU second.
    fn shares(&self) -> BTreeMap<&str, f64> {
        let idle = mm::Category::Idle.name();
        let busy: f64 =
            self.cpu_seconds.iter().filter(|(name, _)| *name != idle).map(|(_, seconds)| seconds).sum();
        let shares = self.cpu_seconds.iter().filter(|(name, _)| *name != idle && busy > 0.0);
        shares.map(|(name, seconds)| (name.as_str(), seconds / busy)).collect()
    }
}

/// The values of a metric by seed; none if a seed lacks it.
fn values(records: &[&Record], metric: &str) -> Option<Vec<f64>> {
    records.iter().map(|record| record.metrics.get(metric).copied()).collect()
}

impl TimeShift {
    fn new(metrics: &[Metric], variants: &[VariantSummary]) -> Option<TimeShift> {
        let (first, others) = variants.split_first()?;
        let judged =
            |metric: &&Metric| metric.better != Better::Neutral && first.metrics.contains_key(metric.name);
        let by = metrics.iter().find(judged)?;
        let cost = |variant: &VariantSummary| {
            let mean = variant.metrics.get(by.name).map_or(f64::NAN, |summary| summary.mean);
            if by.better == Better::Higher { -mean } else { mean }
        };
        let best = others.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        let (from, to) = (first.shares(), best.shares());
        let mut categories: Vec<CategoryShift> = from
            .iter()
            .map(|(&category, &share)| CategoryShift {
                category: category.into(),
                from: share,
                to: to.get(category).copied().unwrap_or(0.0),
            })
            .filter(|shift| shift.from != 0.0 || shift.to != 0.0)
            .collect();
        let size = |shift: &CategoryShift| (shift.to - shift.from).abs();
        categories.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let (from, to, by) = (first.name.clone(), best.name.clone(), by.name.into());
        (!categories.is_empty()).then_some(TimeShift { from, to, by, categories })
    }
}

#[cfg(test)]
mod tests;
