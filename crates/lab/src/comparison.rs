//! Comparisons: what each arm measures, how far it is from the first one, and where the time went.
//!
//! ```text
//!   records ─► by arm and seed ─► mean, interval, change against the first arm    (statistics)
//!                            ├──► the judged metric: which of the changes are significant together, and which matter
//!                            └──► share of busy CPU time by category, first arm against the best one
//! ```
//!
//! One metric is judged: the first of the scenario that has a better direction. Its changes are tested together (Holm), so a table
//! with many columns is not marked by chance. The other metrics are evidence of why it moved, and have intervals but no marks: with
//! some twenty metrics a table would always have a mark somewhere. Data only; the face decides what is shown.

pub mod documents;
pub mod shown;
pub mod verdict;

use crate::experiment::varied::Arm;
use crate::results::Record;
use crate::scenario::{Scenario, load_machine};
use crate::sensitivity::Question;
use crate::statistics::{Change, Interval, Method, change, holm, is_significant, mean, mean_interval};
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{Better, Metric, is_of_kills};
use std::collections::{BTreeMap, BTreeSet};
use verdict::{Idle, Verdict, is_relevant};

/// All variants of an experiment.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Comparison {
    pub scenario: String,
    /// What its results have been checked against; of several scenarios a line each.
    pub evidence: String,
    pub machine: String,
    /// Settings that differ from the kernel's defaults, the same for all variants.
    pub settings: BTreeMap<String, String>,
    /// Keys that were varied, in the order of their values in names of arms.
    pub varied: Vec<String>,
    /// Seeds, paired between variants.
    pub seeds: Vec<u64>,
    /// How intervals were made.
    pub method: Method,
    /// The metric whose changes were tested, by name.
    pub judged: Option<String>,
    /// The least relative change that matters; of shares, in points, a hundred times as much.
    pub at_least: f64,
    /// What it comes to.
    pub verdict: Verdict,
    /// The metrics, in the order of the scenario.
    pub metrics: Vec<Metric>,
    /// The variants, in the order given by the user.
    pub variants: Vec<VariantSummary>,
    /// How CPU time moved; `None` with a single variant, or if the workload does not account CPU time.
    pub time: Option<TimeShift>,
}

/// One arm: a variant, with a value of each varied key.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct VariantSummary {
    /// Its name, unique among the arms.
    pub name: String,
    /// The variant.
    pub variant: String,
    /// The values of varied keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, String>,
    /// Its metrics by name; those that this kind of workload does not have are missing.
    pub metrics: BTreeMap<String, MetricSummary>,
    /// CPU seconds by category, averaged over seeds.
    pub cpu_seconds: BTreeMap<String, f64>,
    /// Identity of the run of the first seed, as its [`Record`] has it; empty where that is not known.
    #[serde(skip)]
    pub first_run: String,
}

/// A metric of a variant.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MetricSummary {
    /// Mean over seeds.
    pub mean: f64,
    /// 95 % confidence interval of the mean; `None` with a single seed.
    pub interval: Option<Interval>,
    /// Values by seed.
    pub values: Vec<f64>,
    /// Change against the first arm, by pairs; none for the first arm itself.
    pub change: Option<Change>,
    /// What the test says of the change, if this is the judged metric.
    pub verdict: Option<Tested>,
}

/// What the tests of the judged metric say of a change.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Tested {
    /// The p-value, adjusted for all changes that were tested together.
    pub adjusted_p_value: f64,
    /// Whether chance alone is unlikely to have made a change so large.
    pub significant: bool,
    /// Whether the change is as large as was asked for.
    pub relevant: bool,
}

impl Tested {
    /// Whether the change is both.
    pub fn counts(&self) -> bool {
        self.significant && self.relevant
    }
}

/// How busy CPU time moved between categories from the first to the best variant.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TimeShift {
    /// The first variant.
    pub from: String,
    /// The variant with the best value of `by`.
    pub to: String,
    /// The scenario's first metric that can be better or worse.
    pub by: String,
    /// Categories by size of change, largest first; those that are zero in both variants are left out.
    pub categories: Vec<CategoryShift>,
}

/// Shares of one category.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CategoryShift {
    /// [`mm::Category::name`].
    pub category: String,
    /// CPU seconds per busy CPU second, in the first variant.
    pub from: f64,
    /// CPU seconds per busy CPU second, in the best variant.
    pub to: f64,
}

impl Comparison {
    /// Compares the records of an experiment with the first of its arms. They come arm by arm, each with the same seeds in the same
    /// order. Changes of less than `at_least`, relative, are not relevant.
    pub fn new(arms: &[Arm], records: &[Record], at_least: f64) -> Comparison {
        let seeds = records.len().checked_div(arms.len()).unwrap_or(0);
        let of = |index: usize| &records[index * seeds..(index + 1) * seeds];
        let first = if arms.is_empty() { records } else { of(0) };
        let variants: Vec<VariantSummary> = arms
            .iter()
            .enumerate()
            .map(|(index, arm)| VariantSummary {
                variant: arm.variant.clone(),
                levels: arm.levels.iter().cloned().collect(),
                ..VariantSummary::new(&arm.name, of(index), (index > 0).then_some(first))
            })
            .collect();
        let shared = |name: &String, value: &String| {
            records.iter().all(|record| record.run.settings.get(name) == Some(value))
        };
        let run = first.first().map(|record| &record.run);
        let settings = run.into_iter().flat_map(|run| &run.settings);
        let settings = settings.filter(|(name, value)| shared(name, value));
        let machine = run.map_or(String::new(), |run| run.machine.name.clone());
        let is_shared = records.iter().all(|record| record.run.machine.name == machine);
        let seeds = first.iter().map(|record| record.run.seed).collect();
        let comparison = Comparison::of(variants, &metrics_of(arms), seeds, at_least);
        Comparison {
            scenario: scenarios_of(arms),
            evidence: evidence_of(arms),
            machine: if is_shared { machine } else { "several machines".into() },
            settings: settings.map(|(name, value)| (name.clone(), value.clone())).collect(),
            varied: varied(arms),
            verdict: Verdict {
                idle: Idle::of(records),
                assumptions: arms.first().map(assumptions_of),
                ..comparison.verdict
            },
            ..comparison
        }
    }

    /// Judges summaries of arms over these seeds. Whose they are is for the caller to enter.
    fn of(
        mut variants: Vec<VariantSummary>,
        metrics: &[String],
        seeds: Vec<u64>,
        at_least: f64,
    ) -> Comparison {
        let mut metrics: Vec<Metric> = metrics.iter().filter_map(|name| Metric::find(name)).collect();
        let judged = judged(&metrics, variants.first());
        metrics.extend(kills(&variants, &metrics));
        if let Some(metric) = judged {
            judge(metric, &mut variants, at_least);
        }
        let comparison = Comparison {
            scenario: String::new(),
            evidence: String::new(),
            machine: String::new(),
            settings: BTreeMap::new(),
            varied: Vec::new(),
            method: Method::of(seeds.len()),
            seeds,
            judged: judged.map(|metric| metric.name.into()),
            at_least,
            verdict: Verdict::default(),
            time: judged.and_then(|by| TimeShift::new(by, &variants)),
            metrics,
            variants,
        };
        Comparison { verdict: Verdict::of(&comparison), ..comparison }
    }
}

/// The scenarios of arms, each once.
pub fn scenarios(arms: &[Arm]) -> Vec<&Scenario> {
    let mut scenarios: Vec<&Scenario> = Vec::new();
    for Arm { scenario, .. } in arms {
        if scenarios.iter().all(|other| other.name != scenario.name) {
            scenarios.push(scenario);
        }
    }
    scenarios
}

/// The names of the scenarios of arms.
pub fn scenarios_of(arms: &[Arm]) -> String {
    let names: Vec<&str> = scenarios(arms).into_iter().map(|scenario| scenario.name.as_str()).collect();
    names.join(", ")
}

/// Who was killed belongs to every comparison, asked for or not: whoever is gone needs nothing.
fn kills(variants: &[VariantSummary], asked: &[Metric]) -> Vec<Metric> {
    let of_all = variants.iter().flat_map(|variant| &variant.metrics);
    let some = of_all.filter(|(name, summary)| {
        is_of_kills(name)
            && summary.values.iter().any(|value| *value != 0.0)
            && asked.iter().all(|metric| metric.name != *name)
    });
    let names: BTreeSet<&str> = some.map(|(name, _)| name.as_str()).collect();
    names.into_iter().filter_map(Metric::find).collect()
}

/// The metrics that the scenarios of arms compare, those of the first one first.
pub fn metrics_of(arms: &[Arm]) -> Vec<String> {
    let mut metrics: Vec<String> = Vec::new();
    for metric in scenarios(arms).into_iter().flat_map(|scenario| &scenario.metrics) {
        if !metrics.contains(metric) {
            metrics.push(metric.clone());
        }
    }
    metrics
}

/// What results of these arms have been checked against, a line for each scenario.
pub fn evidence_of(arms: &[Arm]) -> String {
    let of = |scenario: &Scenario| {
        let own: Vec<&Arm> = arms.iter().filter(|arm| arm.scenario.name == scenario.name).collect();
        evidence_for(scenario, &own)
    };
    match &scenarios(arms)[..] {
        [one] => of(one),
        several => {
            let lines: Vec<String> =
                several.iter().map(|scenario| format!("{}: {}", scenario.name, of(scenario))).collect();
            lines.join("\n")
        }
    }
}

/// The machine that the scenario of an arm names, if the arm has another one.
pub fn own_machine(arm: &Arm) -> Option<String> {
    let own = load_machine(&arm.scenario.machine).ok()?;
    (own != arm.machine).then_some(own.name)
}

/// What results of a scenario have been checked against, and what of these arms is not as it was then.
fn evidence_for(scenario: &Scenario, arms: &[&Arm]) -> String {
    let mut other = Vec::new();
    if arms.iter().any(|arm| own_machine(arm).is_some()) {
        other.push("another machine");
    }
    if arms.iter().any(|arm| !arm.changes.is_empty()) {
        other.push("other settings");
    }
    // A file is compared with nothing: whoever wrote it wrote its evidence.
    let built_in =
        Scenario::names().find(|name| *name == scenario.name).and_then(|name| Scenario::load(name).ok());
    if built_in.is_some_and(|own| arms.iter().any(|arm| arm.scenario.workload != own.workload)) {
        other.push("another workload");
    }
    match other.is_empty() || scenario.evidence.starts_with(MODEL_ONLY) {
        true => scenario.evidence.clone(),
        false => format!("{}; that was with {}", scenario.evidence, other.join(" and ")),
    }
}

/// How the evidence of a scenario begins whose results have been checked against nothing.
const MODEL_ONLY: &str = "model only";

/// How many figures of an arm are assumptions.
fn assumptions_of(arm: &Arm) -> usize {
    let question = Question {
        scenario: arm.scenario.clone(),
        machine: arm.machine.clone(),
        variants: Vec::new(),
        changes: BTreeMap::new(),
    };
    question.assumptions().len()
}

/// What a run measured, kept here or printed by another build.
trait Measured {
    /// Empty where it is not known.
    fn identity(&self) -> &str;
    fn metrics(&self) -> &BTreeMap<String, f64>;
    fn cpu_seconds(&self) -> &BTreeMap<String, f64>;
}

impl Measured for Record {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn metrics(&self) -> &BTreeMap<String, f64> {
        &self.metrics
    }

    fn cpu_seconds(&self) -> &BTreeMap<String, f64> {
        &self.cpu_seconds
    }
}

/// The keys in which arms differ, in the order in which names of arms have their values.
fn varied(arms: &[Arm]) -> Vec<String> {
    let Some(first) = arms.first() else { return Vec::new() };
    let differs = |at: usize| arms.iter().any(|arm| arm.levels.get(at) != first.levels.get(at));
    let keys = first.levels.iter().enumerate().filter(|(at, _)| differs(*at));
    keys.map(|(_, (key, _))| key.clone()).collect()
}

/// The metric that decides: the first that has a better direction, and that this kind of workload has.
fn judged(metrics: &[Metric], first: Option<&VariantSummary>) -> Option<Metric> {
    let has = |metric: &&Metric| first.is_some_and(|first| first.metrics.contains_key(metric.name));
    metrics.iter().filter(|metric| metric.better != Better::Neutral).find(has).copied()
}

/// Tests the changes of a metric together.
fn judge(metric: Metric, variants: &mut [VariantSummary], at_least: f64) {
    let changes: Vec<(usize, Change, f64)> = variants
        .iter()
        .enumerate()
        .filter_map(|(at, variant)| {
            let change = variant.metrics.get(metric.name)?.change?;
            Some((at, change, change.p_value?))
        })
        .collect();
    let adjusted = holm(&changes.iter().map(|(.., p)| *p).collect::<Vec<_>>());
    for ((at, change, _), adjusted_p_value) in changes.into_iter().zip(adjusted) {
        let relevant = is_relevant(&metric, &change, at_least);
        let tested = Tested { adjusted_p_value, significant: is_significant(adjusted_p_value), relevant };
        if let Some(summary) = variants[at].metrics.get_mut(metric.name) {
            summary.verdict = Some(tested);
        }
    }
}

impl VariantSummary {
    fn new<M: Measured>(name: &str, records: &[M], first: Option<&[M]>) -> VariantSummary {
        let names = records.first().map(|record| record.metrics().keys()).into_iter().flatten();
        let metrics = names.filter_map(|name| {
            let values = values(records, name)?;
            let change = first.and_then(|first| {
                let first = self::values(first, name)?;
                (first.len() == values.len()).then(|| change(&first, &values))
            });
            Some((
                name.clone(),
                MetricSummary {
                    mean: mean(&values),
                    interval: mean_interval(&values),
                    values,
                    change,
                    verdict: None,
                },
            ))
        });
        let categories = records.first().map(|record| record.cpu_seconds().keys()).into_iter().flatten();
        let cpu_seconds = categories.map(|category| {
            let seconds: Vec<f64> =
                records.iter().filter_map(|r| r.cpu_seconds().get(category).copied()).collect();
            (category.clone(), mean(&seconds))
        });
        VariantSummary {
            name: name.into(),
            variant: name.into(),
            levels: BTreeMap::new(),
            metrics: metrics.collect(),
            cpu_seconds: cpu_seconds.collect(),
            first_run: records.first().map_or(String::new(), |record| record.identity().into()),
        }
    }

    /// CPU seconds of each category per busy CPU second.
    fn shares(&self) -> BTreeMap<&str, f64> {
        let idle = mm::Category::Idle.name();
        let busy: f64 =
            self.cpu_seconds.iter().filter(|(name, _)| *name != idle).map(|(_, seconds)| seconds).sum();
        let shares = self.cpu_seconds.iter().filter(|(name, _)| *name != idle && busy > 0.0);
        shares.map(|(name, seconds)| (name.as_str(), seconds / busy)).collect()
    }
}

/// The values of a metric by seed; none if a seed lacks it.
fn values<M: Measured>(records: &[M], metric: &str) -> Option<Vec<f64>> {
    records.iter().map(|record| record.metrics().get(metric).copied()).collect()
}

impl TimeShift {
    fn new(by: Metric, variants: &[VariantSummary]) -> Option<TimeShift> {
        let (first, others) = variants.split_first()?;
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
