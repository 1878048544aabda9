//! What a comparison comes to, in sentences: the verdict of `lab`, what a table leaves out, and what its columns mean.
//!
//! The verdict says, in this order, what could not happen, what moved the judged metric most, what that costs, what is known of chance,
//! and what the figures have been checked against. A sentence is a line where nobody looks at a terminal, so that `grep` finds it.

use super::{ONE_SEED, brackets};
use crate::number::{Told, percent, quantity};
use lab::comparison::Comparison;
use lab::comparison::shown::{Equal, Shown};
use lab::comparison::verdict::{Chance, Effect, Idle, Verdict};
use lab::scenario::Scenario;
use lab::statistics::Method;
use sim::metric::Metric;

/// The verdict, a sentence or two a line.
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let verdict = &comparison.verdict;
    let mut lines = Vec::new();
    lines.extend(idle(verdict));
    lines.extend(nothing_done(comparison));
    lines.extend(moved(comparison));
    lines.extend(costs(verdict));
    lines.extend(benefits(verdict));
    lines.extend(chance(comparison));
    lines.push(evidence(comparison));
    lines.retain(|line| !line.is_empty());
    lines
}

/// Some names as part of a sentence.
fn listed(names: &[impl AsRef<str>]) -> String {
    match names {
        [] => String::new(),
        [name] => name.as_ref().into(),
        [names @ .., last] => {
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", names.join(", "), last.as_ref())
        }
    }
}

/// Names that a sentence lists; of more it has the first and how many they are.
const FEW: usize = 3;

fn a_few(names: &[impl AsRef<str>]) -> String {
    match names {
        [first, others @ ..] if names.len() > FEW => {
            format!("{} and {} others", first.as_ref(), others.len())
        }
        names => listed(names),
    }
}

fn is_or_are(names: &[impl AsRef<str>]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

fn label(name: &str) -> &str {
    Metric::find(name).map_or(name, |metric| metric.label)
}

fn idle(verdict: &Verdict) -> Option<String> {
    let text = match verdict.idle? {
        Idle::NothingReclaimed => {
            "Nothing was reclaimed in the measured time of any run: memory was not full then, and what the variants are about did not happen."
        }
        Idle::NoLargeFolios => {
            "No large folio was made in any run: no size was enabled, or none had room, and what the variants are about did not happen."
        }
        Idle::NothingScanned => {
            "NUMA balancing scanned nothing in any run, and what the variants are about did not happen."
        }
    };
    Some(text.into())
}

/// What a rate of 0 means.
pub const NOTHING_DONE: &str =
    "nothing was done to its end in the time that was simulated. Give the workload more time, or less to do.";

fn nothing_done(comparison: &Comparison) -> Option<String> {
    let names = &comparison.verdict.nothing_done;
    let judged = comparison.judged.as_deref()?;
    let of = match names.len() {
        0 => return None,
        all if all == comparison.variants.len() => "every variant".to_string(),
        _ => listed(names),
    };
    Some(format!("The {} of {of} is 0: {NOTHING_DONE}", label(judged)))
}

/// What happened to the judged metric.
fn moved(comparison: &Comparison) -> Option<String> {
    let first = &comparison.variants.first()?.name;
    let verdict = &comparison.verdict;
    if comparison.variants.len() < 2 {
        return None;
    }
    let Some(judged) = comparison.judged.as_deref() else {
        return Some("None of the metrics can be better or worse, so no variant is.".into());
    };
    if let Some(effect) = &verdict.untested {
        let untested = match verdict.chance {
            Chance::SeedsAgree => "",
            _ => "; with so few seeds that is not tested",
        };
        return Some(format!(
            "{} is furthest from {first}: {}{untested}.",
            effect.variant,
            effect_of(effect)
        ));
    }
    let among_several = comparison.variants.len() > 2;
    let is = |effect: &Effect, one: &str, of_several: &str| {
        format!(
            "{} is {}: {}",
            effect.variant,
            if among_several { of_several } else { one },
            effect_of(effect)
        )
    };
    let as_good = match &verdict.as_good[..] {
        [] => String::new(),
        names => {
            format!("; {} {} within {} of it", a_few(names), is_or_are(names), percent(comparison.at_least))
        }
    };
    let mut text = match (&verdict.best, &verdict.worst) {
        (Some(best), None) => is(best, "better", "best") + &as_good,
        (Some(best), Some(worst)) => {
            format!("{}{as_good}; {}", is(best, "better", "best"), is(worst, "worse", "worst"))
        }
        (None, Some(worst)) => is(worst, "worse", "worst"),
        (None, None) => {
            let least = percent(comparison.at_least);
            return Some(match unmoved(comparison) {
                true => format!("No variant changes the {}.", label(judged)),
                false => {
                    format!("No variant changes the {} by {least} or more beyond chance.", label(judged))
                }
            });
        }
    };
    if let (None, true) = (&verdict.best, among_several) {
        text += &format!("; none is better than {first}");
    }
    Some(text + ".")
}

/// Whether the judged metric is the same in all variants.
fn unmoved(comparison: &Comparison) -> bool {
    let Some(judged) = comparison.judged.as_deref() else { return true };
    let values = |at: usize| comparison.variants[at].metrics.get(judged).map(|summary| &summary.values);
    (1..comparison.variants.len()).all(|at| values(at) == values(0))
}

/// `score from 410 k/s to 535 k/s, +30.7 % [+30.6, +30.8]`.
fn effect_of(effect: &Effect) -> String {
    let Some(metric) = Metric::find(&effect.metric) else { return String::new() };
    let told = Told::of(&effect.change, &metric);
    format!("{} {}", metric.label, from_to(effect, &metric, &told))
}

fn from_to(effect: &Effect, metric: &Metric, told: &Told) -> String {
    let [from, to] = [effect.from, effect.to].map(|value| quantity(value, metric));
    let ends = format!("from {from} to {to}");
    // A change from nothing has no size but that.
    match effect.change.ratio {
        None => ends,
        Some(_) => format!("{ends}, {}", told.in_a_sentence()),
    }
}

fn costs(verdict: &Verdict) -> Option<String> {
    let costs = others(verdict, &verdict.costs);
    match (costs.is_empty(), &verdict.best) {
        (true, Some(_)) => Some("No other metric of it got worse.".into()),
        (true, None) => None,
        (false, Some(_)) => Some(format!("It costs: {costs}.")),
        (false, None) => Some(format!("What got worse all the same: {costs}.")),
    }
}

fn benefits(verdict: &Verdict) -> Option<String> {
    let benefits = others(verdict, &verdict.benefits);
    (!benefits.is_empty()).then(|| format!("What got better all the same: {benefits}."))
}

/// What happened to metrics that are not judged; of the best variant if there is one, so that its name need not be said.
fn others(verdict: &Verdict, effects: &[Effect]) -> String {
    let other = |effect: &Effect| {
        let metric = Metric::find(&effect.metric)?;
        let told = Told::of(&effect.change, &metric);
        let of = if verdict.best.is_some() { String::new() } else { format!(" of {}", effect.variant) };
        Some(format!("{}{of} {}", metric.label, from_to(effect, &metric, &told)))
    };
    effects.iter().filter_map(other).collect::<Vec<String>>().join("; ")
}

fn chance(comparison: &Comparison) -> Option<String> {
    let seeds = comparison.seeds.len();
    Some(match comparison.verdict.chance {
        Chance::OneSeed => format!("{}{}.", ONE_SEED[..1].to_uppercase(), &ONE_SEED[1..]),
        Chance::TwoSeeds => "Two seeds: how far they are apart is all that is known of chance.".into(),
        Chance::SeedsAgree => {
            let all = if seeds == 2 { "Both seeds".to_string() } else { format!("All {seeds} seeds") };
            format!("{all} gave the same: nothing in it is left to chance, and one is enough.")
        }
        Chance::Tested => return None,
    })
}

/// What the figures have been checked against, and what they rest on.
fn evidence(comparison: &Comparison) -> String {
    let mut lines: Vec<String> =
        comparison.evidence.lines().map(|line| format!("Evidence: {line}")).collect();
    if let Some(count) = comparison.verdict.assumptions.filter(|&count| count > 0) {
        let figures = if count == 1 { "figure is" } else { "figures are" };
        let named = Scenario::names().find(|name| *name == comparison.scenario);
        let named = named.map_or(String::new(), |name| format!(" {name}"));
        lines.push(format!("{count} {figures} assumed; mmtwin sensitivity{named} says what they move"));
    }
    lines.join("\n")
}

/// What a reader of the table has to know.
pub fn below_the_table(comparison: &Comparison, metrics: &[Metric], shown: &Shown) -> Vec<String> {
    let about = [left_out(shown), not_measured(comparison, metrics), Some(legend(comparison))];
    about.into_iter().flatten().collect()
}

/// What the table leaves out, if it leaves out anything.
fn left_out(shown: &Shown) -> Option<String> {
    let mut parts: Vec<String> = shown.equal.iter().map(equal).collect();
    let counted =
        |count: usize| if count == 1 { "1 metric is".to_string() } else { format!("{count} metrics are") };
    if !shown.empty.is_empty() {
        parts.push(format!("{} 0 in all variants ({})", counted(shown.empty.len()), names(&shown.empty)));
    }
    if !shown.unchanged.is_empty() {
        let count = counted(shown.unchanged.len());
        parts.push(format!("{count} changed by no variant ({})", names(&shown.unchanged)));
    }
    (!parts.is_empty()).then(|| format!("Left out: {}. --all shows them.", parts.join("; ")))
}

fn names(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.name).collect::<Vec<_>>().join(", ")
}

fn equal(Equal { names, to }: &Equal) -> String {
    match &names[..] {
        [first, .., last] => format!("{first} to {last} equal {to}"),
        _ => format!("{} equals {to}", names.concat()),
    }
}

/// Metrics that were to be shown and that no run has, if there are any.
fn not_measured(comparison: &Comparison, metrics: &[Metric]) -> Option<String> {
    let has = |metric: &&Metric| comparison.variants.iter().any(|arm| arm.metrics.contains_key(metric.name));
    let lacking: Vec<&str> = metrics.iter().filter(|metric| !has(metric)).map(|metric| metric.name).collect();
    (!lacking.is_empty()).then(|| format!("No run of {} has {}.", comparison.scenario, a_few(&lacking)))
}

/// What the columns are, and what the marks say.
fn legend(comparison: &Comparison) -> String {
    let first = comparison.variants.first().map_or("", |variant| &variant.name);
    let mut text = match comparison.seeds.len() {
        1 => "One seed".to_string(),
        seeds => format!("Means of {seeds} seeds"),
    };
    if comparison.variants.len() > 1 {
        text += &format!(", changes against {first}");
        if let (Some(interval), false) =
            (brackets(comparison.method), comparison.verdict.chance == Chance::SeedsAgree)
        {
            text += &format!(", ± to the farther end of {interval}");
        }
        text += "; = the same; pt: percentage points";
    }
    let judged = comparison.judged.as_deref().and_then(Metric::find);
    let tested = comparison.variants.len().saturating_sub(1);
    if let (Some(metric), Method::StudentsT | Method::Bca, 1..) = (judged, comparison.method, tested) {
        let together = if tested > 1 { format!(" ({tested} tested together, Holm)") } else { String::new() };
        text += &format!(
            ". * marks changes of the {} of at least {} beyond chance{together}; other metrics have no marks",
            metric.label,
            percent(comparison.at_least),
        );
    }
    text + "."
}
