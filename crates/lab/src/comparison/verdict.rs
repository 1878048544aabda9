//! What a comparison comes to: which variant moved the judged metric most, what that costs, and how sure that is.
//!
//! ```text
//!   judged metric   significant and relevant? ──► best, and those as good; worst
//!   other metrics   worse in the best variant, significant together (Holm) and relevant ──► costs
//!                   better where none is best ──► benefits
//!   seeds           one, two, all alike, or enough for a test ──► what is known of chance
//!   records         nothing reclaimed, no large folio, nothing scanned ──► what could not happen
//! ```
//!
//! A variant is named as better or worse only if chance alone is unlikely to have made the change and it is as large as was asked for
//! ([`is_relevant`]): many a change of a hundredth of a per cent is certain in a simulation, and matters to nobody. With one or two
//! seeds nothing is tested; what is furthest ahead is then told apart as untested. Data only; the face makes sentences of it.

use super::{Comparison, VariantSummary};
use crate::results::Record;
use crate::statistics::{Change, Method, holm, is_significant};
use mm::Event;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{Better, Kind, Metric};

/// What a comparison comes to.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Verdict {
    /// What is known of chance.
    pub chance: Chance,
    /// The best variant, if its judged metric is significantly and relevantly better than the first one's.
    pub best: Option<Effect>,
    /// Other variants that are significantly and relevantly better, and less than the least relevant change from the best.
    pub as_good: Vec<String>,
    /// The worst variant, if its judged metric is significantly and relevantly worse than the first one's.
    pub worst: Option<Effect>,
    /// Other metrics that got significantly and relevantly worse: in the best variant, or in any where there is no best.
    pub costs: Vec<Effect>,
    /// Where no variant is best: other metrics that got significantly and relevantly better in any.
    pub benefits: Vec<Effect>,
    /// The largest relevant change of the judged metric where there are too few seeds for a test.
    pub untested: Option<Effect>,
    /// Variants whose judged metric is a rate of nothing: no round ended.
    pub nothing_done: Vec<String>,
    /// What the variants are about and what no run had; unknown of documents.
    pub idle: Option<Idle>,
    /// How many figures of the machine and of the workload are assumptions; unknown of documents.
    pub assumptions: Option<usize>,
}

/// What is known of chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chance {
    /// One seed: nothing.
    #[default]
    OneSeed,
    /// Two: how far they are apart.
    TwoSeeds,
    /// Every seed gave the same in all metrics: nothing in the scenario is left to chance.
    SeedsAgree,
    /// Enough seeds for a test.
    Tested,
}

/// What the variants of a series are about, if it did not happen in any run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Memory was never so full that a page was scanned.
    NothingReclaimed,
    /// No anonymous folio larger than a page was made.
    NoLargeFolios,
    /// NUMA balancing updated no page table entry.
    NothingScanned,
}

/// A change of a metric that is worth a sentence.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Effect {
    pub variant: String,
    /// [`Metric::name`].
    pub metric: String,
    /// Mean of the first variant.
    pub from: f64,
    /// Mean of this one.
    pub to: f64,
    pub change: Change,
    /// The p-value, adjusted for all changes that were tested together; none if there are too few seeds.
    pub adjusted_p_value: Option<f64>,
}

/// Whether a change is at least `at_least` of the first value or, of shares, as many points as that is per cent. From nothing to
/// something is always relevant.
pub fn is_relevant(metric: &Metric, change: &Change, at_least: f64) -> bool {
    match (metric.kind, change.ratio) {
        (Kind::Share | Kind::ShareDifference, _) => change.difference.abs() >= 100.0 * at_least,
        (_, Some(ratio)) => (ratio - 1.0).abs() >= at_least,
        (_, None) => change.difference != 0.0,
    }
}

/// Whether a change is one for the better; `None` if it is neither.
pub fn is_better(metric: &Metric, difference: f64) -> Option<bool> {
    match metric.better {
        _ if difference == 0.0 => None,
        Better::Neutral => None,
        Better::Higher => Some(difference > 0.0),
        Better::Lower => Some(difference < 0.0),
    }
}

impl Verdict {
    /// The verdict on a comparison whose judged metric has been tested.
    pub(super) fn of(comparison: &Comparison) -> Verdict {
        let chance = chance(comparison);
        let Some(judged) = comparison.judged.as_deref().and_then(Metric::find) else {
            return Verdict { chance, ..Verdict::default() };
        };
        let counting = |better: bool| {
            let counts = move |effect: &Effect, variant: &VariantSummary| {
                let tested = variant.metrics.get(judged.name).and_then(|summary| summary.verdict);
                tested.is_some_and(|tested| tested.counts())
                    && is_better(&judged, effect.change.difference) == Some(better)
            };
            let effects = comparison.variants.iter().filter_map(move |variant| {
                effect(comparison, variant, &judged).filter(|effect| counts(effect, variant))
            });
            effects.collect::<Vec<Effect>>()
        };
        let (gains, losses) = (counting(true), counting(false));
        let best = furthest(&gains);
        let is_as_good = |effect: &&Effect| {
            best.as_ref().is_some_and(|best| {
                let apart = Change {
                    difference: effect.to - best.to,
                    ratio: ratio(best.to, effect.to),
                    ..effect.change
                };
                effect.variant != best.variant && !is_relevant(&judged, &apart, comparison.at_least)
            })
        };
        let others = others(comparison, &judged, best.as_ref().map(|best| best.variant.as_str()));
        let as_good = gains.iter().filter(is_as_good).map(|effect| effect.variant.clone()).collect();
        let is_idle = |variant: &&VariantSummary| {
            let mean = variant.metrics.get(judged.name).map(|summary| summary.mean);
            judged.kind == Kind::Rate && mean == Some(0.0)
        };
        Verdict {
            chance,
            as_good,
            worst: furthest(&losses),
            costs: others.worse,
            benefits: if best.is_some() { Vec::new() } else { others.better },
            untested: untested(comparison, &judged),
            nothing_done: comparison.variants.iter().filter(is_idle).map(|arm| arm.name.clone()).collect(),
            best,
            idle: None,
            assumptions: None,
        }
    }
}

fn ratio(from: f64, to: f64) -> Option<f64> {
    (from != 0.0).then(|| to / from)
}

fn chance(comparison: &Comparison) -> Chance {
    let mut summaries = comparison
        .variants
        .iter()
        .flat_map(|variant| comparison.metrics.iter().filter_map(|metric| variant.metrics.get(metric.name)));
    let agree =
        summaries.all(|summary| summary.values.iter().all(|value| Some(value) == summary.values.first()));
    match comparison.method {
        Method::None => Chance::OneSeed,
        _ if agree => Chance::SeedsAgree,
        Method::Range => Chance::TwoSeeds,
        Method::StudentsT | Method::Bca => Chance::Tested,
    }
}

/// The change of a metric in a variant; none of the first variant.
fn effect(comparison: &Comparison, variant: &VariantSummary, metric: &Metric) -> Option<Effect> {
    let summary = variant.metrics.get(metric.name)?;
    Some(Effect {
        variant: variant.name.clone(),
        metric: metric.name.into(),
        from: comparison.variants.first()?.metrics.get(metric.name)?.mean,
        to: summary.mean,
        change: summary.change?,
        adjusted_p_value: summary.verdict.map(|tested| tested.adjusted_p_value),
    })
}

/// The largest of some changes, the first where several are as large.
fn furthest(effects: &[Effect]) -> Option<Effect> {
    let size = |effect: &Effect| effect.change.difference.abs();
    effects.iter().rev().max_by(|a, b| size(a).total_cmp(&size(b))).cloned()
}

/// Metrics other than the judged one.
struct Others {
    worse: Vec<Effect>,
    better: Vec<Effect>,
}

/// How other metrics changed: in variant `of`, or where each did so most. All of them are tested together.
fn others(comparison: &Comparison, judged: &Metric, of: Option<&str>) -> Others {
    let metrics: Vec<&Metric> =
        comparison.metrics.iter().filter(|metric| metric.name != judged.name).collect();
    let arms = comparison.variants.iter().filter(|variant| of.is_none_or(|of| variant.name == of));
    let candidates: Vec<(usize, Effect, f64)> = arms
        .flat_map(|variant| metrics.iter().enumerate().map(move |(at, metric)| (at, *metric, variant)))
        .filter(|(_, metric, _)| metric.better != Better::Neutral)
        .filter_map(|(at, metric, variant)| {
            let effect = effect(comparison, variant, metric)?;
            let p = effect.change.p_value?;
            Some((at, effect, p))
        })
        .collect();
    let adjusted = holm(&candidates.iter().map(|(.., p)| *p).collect::<Vec<_>>());
    let (better, worse): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .zip(adjusted)
        .map(|((at, effect, _), adjusted)| (at, Effect { adjusted_p_value: Some(adjusted), ..effect }))
        .filter(|(at, effect)| {
            effect.adjusted_p_value.is_some_and(is_significant)
                && is_relevant(metrics[*at], &effect.change, comparison.at_least)
        })
        .partition(|(at, effect)| is_better(metrics[*at], effect.change.difference) == Some(true));
    let most = |changed: &[(usize, Effect)]| {
        let own =
            |at: usize| changed.iter().filter(move |(of, _)| *of == at).map(|(_, effect)| effect.clone());
        (0..metrics.len()).filter_map(|at| furthest(&own(at).collect::<Vec<_>>())).collect()
    };
    Others { worse: most(&worse), better: most(&better) }
}

/// The largest relevant change of the judged metric where nothing is tested, one for the better if there is one.
fn untested(comparison: &Comparison, judged: &Metric) -> Option<Effect> {
    let effects: Vec<Effect> = comparison
        .variants
        .iter()
        .filter_map(|variant| effect(comparison, variant, judged))
        .filter(|effect| effect.change.p_value.is_none())
        .filter(|effect| is_relevant(judged, &effect.change, comparison.at_least))
        .collect();
    let (better, worse): (Vec<Effect>, Vec<Effect>) =
        effects.into_iter().partition(|effect| is_better(judged, effect.change.difference) == Some(true));
    furthest(&better).or_else(|| furthest(&worse))
}

impl Idle {
    /// What the series of these runs is about, if none of them had it.
    pub(super) fn of(records: &[Record]) -> Option<Idle> {
        let series = records.first()?.run.series.as_str();
        let never = |is_one: &dyn Fn(&str) -> bool| {
            let mut counters = records.iter().flat_map(|record| &record.counters);
            counters.all(|(name, &count)| count == 0 || !is_one(name))
        };
        let is_one_of = |events: &[Event]| {
            let names: Vec<&str> = events.iter().map(|event| event.name()).collect();
            never(&|name| names.contains(&name))
        };
        match series {
            // Reclaim of a memory cgroup at its limit is in the first two, and not in pgscan_direct (`shrink_inactive_list`); what DAMON pages
            // out is in neither (`reclaim_pages`).
            "reclaim" => {
                let events = [Event::PgscanAnon, Event::PgscanFile, Event::DamonReclaimReclaimedBytes];
                is_one_of(&events).then_some(Idle::NothingReclaimed)
            }
            "numa" => {
                is_one_of(&[Event::NumaPteUpdates, Event::NumaHintFaults]).then_some(Idle::NothingScanned)
            }
            "folios" => {
                let large = |name: &str| {
                    name == Event::ThpFaultAlloc.name()
                        || name == Event::ThpCollapseAlloc.name()
                        || name.ends_with("/stats/anon_fault_alloc")
                };
                never(&large).then_some(Idle::NoLargeFolios)
            }
            _ => None,
        }
    }
}
