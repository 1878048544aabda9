//! Sensitivity analysis: how far results move with figures that nobody measured.
//!
//! ```text
//!   figure with a range, or an assumption           low end ─► runs ─► metrics ┐ each compared with the metrics
//!   (machine's costs, workload's figures)         high end ─► runs ─► metrics ┘ at the figure's own value
//! ```
//!
//! The ends are those of the figure's range, or half and twice its value if it has none. One figure is varied
//! at a time.

use crate::experiment::{ExperimentError, Simulate, each, make_one};
use crate::scenario::{Scenario, ScenarioError};
use machine::Profile;
use machine::profile::Figure;
use schemars::JsonSchema;
use serde::Serialize;
use sim::Run;
use sim::metric::Metric;
use sim::outcome::Outcome;
use sim::progress::RunProgress;
use std::collections::BTreeMap;

/// A figure that was assumed instead of measured.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Assumption {
    /// Key of the figure, with its table.
    pub key: String,
    pub value: f64,
    /// Lowest plausible value.
    pub low: f64,
    /// Highest plausible value.
    pub high: f64,
    /// Whether the file states a range; otherwise it is half to twice the value.
    pub stated: bool,
}

/// A metric of a variant at both ends of an assumption.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Effect {
    pub variant: String,
    /// [`Metric::name`].
    pub metric: &'static str,
    /// Value of the metric with the figure's own value.
    pub value: f64,
    /// Value at the low end.
    pub at_low: f64,
    /// Value at the high end.
    pub at_high: f64,
}

impl Effect {
    /// The larger of the two changes, relative to the value.
    pub fn largest(&self) -> f64 {
        let change = |end: f64| (end - self.value).abs();
        let change = change(self.at_low).max(change(self.at_high));
        if change == 0.0 { 0.0 } else { change / self.value.abs() }
    }
}

/// An assumption and its effects.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Sensitivity {
    pub assumption: Assumption,
    /// The effects, by variant and metric.
    pub effects: Vec<Effect>,
}

/// A sensitivity analysis to be made.
#[derive(Clone, Debug)]
pub struct Question {
    pub scenario: Scenario,
    pub machine: Profile,
    pub variants: Vec<String>,
    /// Settings in addition to the scenario's.
    pub changes: BTreeMap<String, String>,
}

/// The figure as an assumption, if it has a range or its source calls it an assumption.
fn assumption(key: String, figure: &Figure) -> Option<Assumption> {
    let assumed = figure.range.is_some() || figure.source.to_lowercase().starts_with("assumption");
    if !assumed || figure.value == 0.0 {
        return None;
    }
    let [low, high] = figure.range.unwrap_or([0.5 * figure.value, 2.0 * figure.value]);
    Some(Assumption { key, value: figure.value, low, high, stated: figure.range.is_some() })
}

impl Question {
    /// All assumed figures, those of the machine first.
    pub fn assumptions(&self) -> Vec<Assumption> {
        let machine = self.machine.figures().into_iter().map(|(key, figure)| (key, figure.clone()));
        let mut workload = self.scenario.workload.clone();
        let workload = workload.figures_mut();
        let workload = workload.into_iter().map(|(key, figure)| (format!("workload.{key}"), figure.clone()));
        machine.chain(workload).filter_map(|(key, figure)| assumption(key, &figure)).collect()
    }

    /// The metrics to watch: those of the scenario that can be better or worse.
    pub fn metrics(&self) -> Vec<Metric> {
        self.scenario.directed_metrics().collect()
    }

    /// The run of `variant`, with the figure `key` set to `value` if one is `moved`.
    fn run(&self, variant: &str, moved: Option<(&str, f64)>) -> Result<Run, ScenarioError> {
        let mut machine = self.machine.clone();
        let mut scenario = self.scenario.clone();
        if let Some((key, value)) = moved {
            let mut figures = scenario.workload.figures_mut().into_iter();
            let own = figures.find(|(own, _)| key.strip_prefix("workload.") == Some(own.as_str()));
            if let Some(figure) = own.map(|(_, figure)| figure).or(machine.figure_mut(key)) {
                figure.value = value;
            }
        }
        scenario.run(variant, 1, &machine, &self.changes)
    }

    /// Sets every assumption to both of its ends, on `jobs` threads; `progress` is called after each run.
    /// Returns the largest effect first.
    pub fn answer(
        &self,
        jobs: usize,
        simulate: &Simulate,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Sensitivity>, ExperimentError> {
        let assumptions = self.assumptions();
        let places: Vec<Option<(&str, f64)>> = [None]
            .into_iter()
            .chain(
                assumptions
                    .iter()
                    .flat_map(|a| [Some((a.key.as_str(), a.low)), Some((a.key.as_str(), a.high))]),
            )
            .collect();
        let mut runs = Vec::new();
        for variant in &self.variants {
            for place in &places {
                runs.push(self.run(variant, *place)?);
            }
        }
        let outcomes: Vec<Outcome> = each(runs.len(), jobs, &|at| {
            let outcome = make_one(&runs[at], &RunProgress::default(), simulate);
            progress();
            outcome
        })?;
        let mut answers: Vec<Sensitivity> = Vec::new();
        for (index, assumption) in assumptions.iter().enumerate() {
            let mut effects = Vec::new();
            for (variant, outcomes) in self.variants.iter().zip(outcomes.chunks(places.len())) {
                for metric in self.metrics() {
                    let value = |at: usize| outcomes[at].get(metric);
                    let at = 1 + 2 * index;
                    if let (Some(value), Some(at_low), Some(at_high)) = (value(0), value(at), value(at + 1)) {
                        let variant = variant.clone();
                        effects.push(Effect { variant, metric: metric.name, value, at_low, at_high });
                    }
                }
            }
            answers.push(Sensitivity { assumption: assumption.clone(), effects });
        }
        let largest = |s: &Sensitivity| s.effects.iter().map(Effect::largest).fold(0.0, f64::max);
        answers.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
        Ok(answers)
    }

    /// Number of runs that [`Question::answer`] makes.
    pub fn runs(&self) -> usize {
        self.variants.len() * (1 + 2 * self.assumptions().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load_machine;
    use sim::metric::SCORE;

    fn figure(value: f64, range: Option<[f64; 2]>, source: &str) -> Figure {
        Figure { value, range, source: source.into() }
    }

    #[test]
    fn what_nothing_pins_has_two_ends() {
        let of = |range, source| assumption("costs.a_ns".into(), &figure(10.0, range, source));
        let half = of(None, "assumption: guessed").unwrap();
        assert_eq!((half.low, half.high, half.stated), (5.0, 20.0, false));
        let stated = of(Some([1.0, 30.0]), "measured elsewhere").unwrap();
        assert_eq!((stated.low, stated.high, stated.stated), (1.0, 30.0, true));
        assert_eq!(of(None, "measured; not an assumption"), None);
    }

    #[test]
    fn each_assumption_moves_alone_and_the_strongest_comes_first() {
        let mut scenario = Scenario::load("page_fault1").unwrap();
        scenario.metrics = vec!["score".into()];
        let mut machine = load_machine(&scenario.machine).unwrap();
        let keys: Vec<&str> = machine.costs.entries().iter().map(|(key, _)| *key).collect();
        for key in keys {
            *machine.costs.entry_mut(key).unwrap() = figure(1.0, None, "measured");
        }
        machine.costs.page_clear_ns = figure(100.0, None, "assumption: x");
        machine.costs.page_fault_ns = figure(100.0, Some([50.0, 400.0]), "assumption");
        let question =
            Question { scenario, machine, variants: vec!["pcp-base".into()], changes: BTreeMap::new() };
        let simulate = |run: &Run, _: &RunProgress| {
            let mut outcome = Outcome::default();
            let costs = &run.machine.costs;
            outcome.set(SCORE, costs.page_clear_ns.value + 10.0 * costs.page_fault_ns.value);
            Ok(outcome)
        };
        let answers = question.answer(1, &simulate, &|| {}).unwrap();
        assert_eq!(question.runs(), 5);
        let found: Vec<(&str, f64, f64)> = answers
            .iter()
            .map(|a| (a.assumption.key.as_str(), a.effects[0].at_low, a.effects[0].at_high))
            .collect();
        assert_eq!(found, [("costs.page_fault_ns", 600.0, 4100.0), ("costs.page_clear_ns", 1050.0, 1200.0)]);
        assert!((answers[0].effects[0].largest() - 3000.0 / 1100.0).abs() < 1e-12);
    }
}
