//! What a sweep recommends: the point, what it gains on seeds that did not choose it, what it costs, and how to refute it.
//!
//! ```text
//!   held-out seeds   default   point          gain of the fleet, by goal        with an interval
//!                      ▪         ▪       ─►   gain of each member               where it does not hold
//!                      ▪         ▪            every other metric                what gets worse (Holm over all of them)
//! ```
//!
//! It recommends the point only if a goal gains, by at least what matters, more than chance would make, no goal loses so, and the
//! constraints hold on these seeds too. Otherwise the default stays, and the answer says why.

use super::effects::effects;
use super::goals::{Direction, Goal, Measure, Pairs, gains, varies_not};
use super::measurements::Measurements;
use super::on_machine::Chosen;
use super::plan::{Method, Rung, Time};
use super::{Choice, Effect, Judged, Limited, Sweep, is_gain};
use crate::comparison::verdict::is_better;
use crate::statistics::{self, Change, change, holm, is_significant, mean};
use mm::sysctl::Scale;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::Metric;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What a sweep comes to.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Answer {
    pub fleet: Vec<MemberSummary>,
    pub method: Method,
    /// The keys that were searched.
    pub keys: Vec<String>,
    /// The default of each setting that is the same in the whole fleet.
    pub defaults: BTreeMap<String, String>,
    /// Distinct runs, those that were known before included.
    pub runs: usize,
    /// Seeds that chose.
    pub seeds: u32,
    /// Seeds that gains are told of, after those.
    pub held_out: u32,
    /// Whether all seeds are the same run: there is one recording of each program, and nothing is left to chance.
    pub is_one_recording: bool,
    pub goals: Vec<String>,
    /// What the gains of points in each goal are in.
    pub measures: Vec<Measure>,
    pub constraints: Vec<String>,
    /// All points, in the order of the design.
    pub points: Vec<PointResult>,
    /// Which keys matter for each goal, over the points of the first rung.
    pub effects: Vec<Effect>,
    pub recommendation: Recommendation,
}

impl Answer {
    /// The keys that hardly matter for any goal, and are not to be set.
    pub fn negligible(&self) -> Vec<&str> {
        let is_to_set = |key: &str| self.recommendation.to_set().iter().any(|chosen| chosen.key == key);
        let hardly = |key: &str| self.effects.iter().filter(|of| of.key == key).all(|of| of.hardly_matters);
        self.keys.iter().map(String::as_str).filter(|key| hardly(key) && !is_to_set(key)).collect()
    }
}

/// A member of the fleet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MemberSummary {
    pub name: String,
    pub scenario: String,
    pub machine: String,
    pub variant: String,
    pub weight: f64,
    /// What the scenario's results have been checked against.
    pub evidence: String,
}

/// A point of the space.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PointResult {
    pub values: BTreeMap<String, String>,
    /// Mean gain of the fleet in each goal, over the seeds that it ran with; these are too good for the best point.
    pub gains: Vec<f64>,
    /// How many seeds these were.
    pub seeds: u32,
    /// Whether these were runs of a quarter of the virtual time.
    pub shortened: bool,
    /// Whether it keeps all constraints.
    pub allowed: bool,
    /// Whether it was left at the end, and no other point that was is better in every goal.
    pub on_front: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Set what was chosen.
    Set,
    /// Leave the default.
    KeepDefault,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It gains, and loses nothing that is a goal.
    Gains,
    /// It keeps the constraints, which the default does not.
    KeepsConstraints,
    /// No point keeps all constraints.
    NoneAllowed,
    /// No point is better than the default.
    NoneBetter,
    /// The gain may be chance.
    MayBeChance,
    /// The gain is smaller than what matters.
    TooSmall,
    /// A goal loses.
    Loses,
    /// A constraint does not hold on the seeds that did not choose.
    BreaksConstraint,
}

/// The choice and what is known of it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Recommendation {
    pub verdict: Verdict,
    pub why: Why,
    /// The best point; empty if none is better than the default. If none keeps all constraints, the one that misses them least.
    pub chosen: Vec<Chosen>,
    /// What it does to each goal, on held-out seeds.
    pub goals: Vec<GoalResult>,
    /// Every constraint for every member that has its metric, on held-out seeds; if no point keeps all, on the seeds that chose.
    pub constraints: Vec<ConstraintResult>,
    /// What else gets worse, on held-out seeds.
    pub costs: Vec<Cost>,
    /// How to find out on real machines.
    pub trials: Vec<Trial>,
}

impl Recommendation {
    /// What to set; nothing if the default stays.
    pub fn to_set(&self) -> &[Chosen] {
        if self.verdict == Verdict::Set { &self.chosen } else { &[] }
    }
}

/// What the chosen point does to a goal.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct GoalResult {
    pub goal: String,
    /// Which way is better; of the own metric of each member, gains are counted, of which more is better.
    pub direction: Direction,
    pub measure: Measure,
    /// The change of the fleet; relative ones are ratios.
    pub change: Change,
    pub holds: Holds,
    pub members: Vec<MemberResult>,
}

/// What the chosen point does to a member.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MemberResult {
    pub member: String,
    pub metric: Metric,
    /// The mean by default.
    pub default: f64,
    pub change: Change,
    pub holds: Holds,
}

/// Whether a gain is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// More than chance would make.
    Better,
    /// A loss more than chance would make.
    Worse,
    /// More than chance would make, and less than what matters.
    Negligible,
    /// Neither can be told from chance.
    Unclear,
    /// Not at all: every seed gives the same value.
    Same,
}

/// What a constraint comes to.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ConstraintResult {
    pub constraint: String,
    pub member: String,
    pub metric: Metric,
    /// The mean with the default.
    pub default: f64,
    /// The mean with the chosen point.
    pub value: f64,
    /// Whether the chosen point keeps it.
    pub kept: bool,
    /// Whether the default breaks it.
    pub was_broken: bool,
}

/// A metric that gets worse, more than chance would make and as much as matters.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Cost {
    pub member: String,
    pub metric: Metric,
    pub change: Change,
    /// Adjusted for all metrics that were looked at (Holm).
    pub adjusted_p_value: f64,
}

/// A trial on a real machine that could refute the gain of a member.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Trial {
    pub member: String,
    pub metric: Metric,
    /// How long a run of the scenario is.
    pub seconds: f64,
    /// Runs of either side that show a change of this size in nine of ten trials, if the machine varies as the twin does; none if nothing varies.
    pub runs: Option<usize>,
    /// The predicted change.
    pub change: Change,
}

/// Whether a change is there, and for the better.
fn holds(change: &Change, direction: Direction, at_least: f64) -> Holds {
    match change.difference {
        0.0 if change.is_exact() => Holds::Same,
        _ if !change.is_significant() => Holds::Unclear,
        _ if change.ratio.is_some_and(|ratio| (ratio - 1.0).abs() < at_least) => Holds::Negligible,
        difference if is_gain(direction, difference) => Holds::Better,
        _ => Holds::Worse,
    }
}

/// What is asked of every fleet that has programs.
const NO_MORE_KILLS: &str = "no more processes killed than by default";

impl Sweep {
    /// Puts the answer together; all runs are there.
    pub(super) fn conclude(
        &self,
        all: &Measurements,
        of_first: &[Vec<f64>],
        judged: &[(Rung, Judged)],
        choice: &Choice,
    ) -> Answer {
        let keys: Vec<&str> = self.fleet.keys().collect();
        let names = |positions: &[usize]| {
            let values = positions.iter().enumerate().map(|(axis, &level)| self.fleet.value(axis, level));
            keys.iter().map(|key| key.to_string()).zip(values.map(String::from)).collect()
        };
        let point = |(at, (rung, judged)): (usize, &(Rung, Judged))| PointResult {
            values: names(&self.design.points[at]),
            gains: judged.gains.clone(),
            seeds: rung.seeds,
            shortened: rung.time == Time::Quarter,
            allowed: judged.violation == 0.0,
            on_front: choice.front.contains(&at),
        };
        let member = |member: &super::fleet::Member| MemberSummary {
            name: member.name.clone(),
            scenario: member.scenario.name.clone(),
            machine: member.machine.name.clone(),
            variant: member.scenario.present_name(&member.variant).into(),
            weight: member.weight,
            evidence: member.scenario.evidence.clone(),
        };
        let of_goal = |(at, goal): (usize, &Goal)| {
            let gains: Vec<f64> = of_first.iter().map(|gains| gains[at]).collect();
            effects(&goal_name(goal), &keys, &self.design.values, &self.design.points, &gains)
        };
        let kills = self.implied().next().map(|_| NO_MORE_KILLS.to_string());
        Answer {
            fleet: self.fleet.members.iter().map(member).collect(),
            defaults: keys
                .iter()
                .enumerate()
                .filter_map(|(axis, key)| Some((key.to_string(), self.fleet.default_of(axis)?.to_string())))
                .collect(),
            method: self.method,
            runs: all.runs(),
            seeds: self.seeds,
            held_out: self.held_out,
            is_one_recording: (0..self.fleet.members.len()).all(|member| self.fleet.is_one_recording(member)),
            goals: self.goals.iter().map(goal_name).collect(),
            measures: self.goals.iter().map(|goal| self.measure_of(all, goal)).collect(),
            constraints: self
                .constraints
                .iter()
                .map(|constraint| constraint.text.clone())
                .chain(kills)
                .collect(),
            points: judged.iter().enumerate().map(point).collect(),
            effects: self.goals.iter().enumerate().flat_map(of_goal).collect(),
            recommendation: self.recommend(all, choice),
            keys: keys.iter().map(|key| key.to_string()).collect(),
        }
    }

    fn recommend(&self, all: &Measurements, choice: &Choice) -> Recommendation {
        let Some(point) = choice.point else {
            let seeds = 1..=u64::from(self.seeds);
            let nearest = choice.nearest.filter(|_| choice.why_none == Why::NoneAllowed);
            let constraints = nearest.map(|point| self.constraint_results(all, point, &seeds));
            return Recommendation {
                verdict: Verdict::KeepDefault,
                why: choice.why_none,
                chosen: nearest.map(|point| self.chosen(point)).unwrap_or_default(),
                goals: Vec::new(),
                constraints: constraints.unwrap_or_default(),
                costs: Vec::new(),
                trials: Vec::new(),
            };
        };
        let seeds = self.seeds_held_out();
        let goals: Vec<GoalResult> = self.goals.iter().map(|goal| self.result(all, goal, point)).collect();
        let constraints = self.constraint_results(all, point, &seeds);
        let why = Sweep::why(&goals, &constraints);
        Recommendation {
            verdict: match why {
                Why::Gains | Why::KeepsConstraints => Verdict::Set,
                _ => Verdict::KeepDefault,
            },
            why,
            chosen: self.chosen(point),
            costs: self.costs(all, point),
            trials: self.trials(all, point, &goals, &constraints),
            goals,
            constraints,
        }
    }

    /// The values of a point that are not the default.
    fn chosen(&self, point: usize) -> Vec<Chosen> {
        let values = self.design.points[point].iter().zip(self.fleet.keys()).enumerate();
        let chosen = values.map(|(axis, (&level, key))| Chosen {
            key: key.into(),
            value: self.fleet.value(axis, level).into(),
            default: self.fleet.default_of(axis).map(String::from),
        });
        // What stays as it is need not be set.
        chosen.filter(|of| of.default.as_deref() != Some(&of.value)).collect()
    }

    /// What the constraints come to with a point.
    fn constraint_results(
        &self,
        all: &Measurements,
        point: usize,
        seeds: &RangeInclusive<u64>,
    ) -> Vec<ConstraintResult> {
        let result = |of: Limited| ConstraintResult {
            member: self.fleet.members[of.member].name.clone(),
            metric: of.constraint.metric,
            default: of.default,
            value: of.value,
            kept: of.violation == 0.0,
            was_broken: of.constraint.violation(of.default, of.default) > 0.0,
            constraint: of.constraint.text.clone(),
        };
        self.limited(all, Some(point), seeds, Time::Whole).into_iter().map(result).collect()
    }

    /// What gains in a goal are in.
    fn measure_of(&self, all: &Measurements, goal: &Goal) -> Measure {
        let pairs = self.pairs(all, goal, None, &(1..=u64::from(self.seeds)), Time::Whole);
        self.measure(goal, &pairs.into_iter().map(|(_, pairs)| pairs).collect::<Vec<_>>())
    }

    /// Whether to set what was chosen, and why.
    fn why(goals: &[GoalResult], constraints: &[ConstraintResult]) -> Why {
        let has = |holds: Holds| goals.iter().any(|goal| goal.holds == holds);
        match () {
            () if constraints.iter().any(|of| !of.kept) => Why::BreaksConstraint,
            () if constraints.iter().any(|of| of.was_broken) => Why::KeepsConstraints,
            () if has(Holds::Worse) => Why::Loses,
            () if has(Holds::Better) => Why::Gains,
            () if has(Holds::Negligible) => Why::TooSmall,
            () => Why::MayBeChance,
        }
    }

    /// What the chosen point does to a goal on held-out seeds.
    fn result(&self, all: &Measurements, goal: &Goal, point: usize) -> GoalResult {
        let pairs = self.pairs(all, goal, Some(point), &self.seeds_held_out(), Time::Whole);
        let of_all: Vec<Pairs> = pairs.iter().map(|(_, pairs)| pairs.clone()).collect();
        let measure = self.measure(goal, &of_all);
        let direction = match goal {
            Goal::Metric(_, direction) => *direction,
            Goal::OwnOfEach => Direction::Maximize,
        };
        let changes: Vec<f64> =
            gains(&of_all, measure).into_iter().map(|gain| direction.sign() * gain).collect();
        let base = if measure == Measure::Relative { 1.0 } else { 0.0 };
        let values: Vec<f64> = changes.iter().map(|change| base + change).collect();
        let of_fleet = change(&vec![base; values.len()], &values);
        let member = |(member, pairs): &(usize, Pairs)| {
            let of = &self.fleet.members[*member];
            let (metric, direction) = goal.of(&of.scenario)?;
            let change = change(&pairs.default, &pairs.point);
            Some(MemberResult {
                member: of.name.clone(),
                metric,
                default: mean(&pairs.default),
                holds: holds(&change, direction, self.at_least),
                change,
            })
        };
        GoalResult {
            goal: goal_name(goal),
            direction,
            measure,
            holds: holds(&of_fleet, direction, self.at_least),
            change: of_fleet,
            members: pairs.iter().filter_map(member).collect(),
        }
    }

    /// Other metrics of the fleet that get worse.
    fn costs(&self, all: &Measurements, point: usize) -> Vec<Cost> {
        let seeds = self.seeds_held_out();
        let mut tested: Vec<(String, Metric, Change)> = Vec::new();
        for (at, member) in self.fleet.members.iter().enumerate() {
            let goals: Vec<Metric> = self
                .goals
                .iter()
                .filter_map(|goal| goal.of(&member.scenario))
                .map(|(metric, _)| metric)
                .collect();
            for metric in member.scenario.directed_metrics().filter(|metric| !goals.contains(metric)) {
                let values = |point| all.values(&self.cell(at, point, Time::Whole), &seeds, metric.name);
                if let (Some(default), Some(values)) = (values(None), values(Some(point))) {
                    tested.push((member.name.clone(), metric, change(&default, &values)));
                }
            }
        }
        let adjusted =
            holm(&tested.iter().map(|(.., change)| change.p_value.unwrap_or(1.0)).collect::<Vec<_>>());
        let is_worse = |metric: &Metric, change: &Change| is_better(metric, change.difference) == Some(false);
        let matters = |metric: &Metric, change: &Change| {
            metric.scale == Scale::Linear
                || change.ratio.is_none_or(|ratio| (ratio - 1.0).abs() >= self.at_least)
        };
        let costs = tested.into_iter().zip(adjusted);
        let costs = costs.filter(|((_, metric, change), adjusted)| {
            is_significant(*adjusted) && is_worse(metric, change) && matters(metric, change)
        });
        costs
            .map(|((member, metric, change), adjusted_p_value)| Cost {
                member,
                metric,
                change,
                adjusted_p_value,
            })
            .collect()
    }

    /// How what was predicted is looked for on real machines: every gain in a goal, and every constraint that the default breaks; of
    /// the first goal whatever changes, if there are none.
    fn trials(
        &self,
        all: &Measurements,
        point: usize,
        goals: &[GoalResult],
        constraints: &[ConstraintResult],
    ) -> Vec<Trial> {
        let is_better = |of: &&MemberResult| of.holds == Holds::Better;
        let gains = goals.iter().flat_map(|goal| &goal.members).filter(is_better);
        let gains = gains.map(|of| (of.member.as_str(), of.metric));
        let mended = constraints.iter().filter(|of| of.kept && of.was_broken);
        let mut wanted: Vec<(&str, Metric)> = Vec::new();
        for of in gains.chain(mended.map(|of| (of.member.as_str(), of.metric))) {
            if !wanted.contains(&of) {
                wanted.push(of);
            }
        }
        if wanted.is_empty() {
            let first = goals.first().into_iter().flat_map(|goal| &goal.members);
            wanted = first.map(|of| (of.member.as_str(), of.metric)).collect();
        }
        wanted.into_iter().filter_map(|(member, metric)| self.trial(all, point, member, metric)).collect()
    }

    /// How the change of a member's metric is looked for.
    fn trial(&self, all: &Measurements, point: usize, member: &str, metric: Metric) -> Option<Trial> {
        let at = self.fleet.members.iter().position(|of| of.name == member)?;
        let seeds = self.seeds_held_out();
        let values = |point| all.values(&self.cell(at, point, Time::Whole), &seeds, metric.name);
        let (default, chosen) = (values(None)?, values(Some(point))?);
        Some(Trial {
            member: member.into(),
            metric,
            seconds: all.virtual_seconds(&self.cell(at, None, Time::Whole), &seeds),
            runs: runs_to_show(&default, &chosen),
            change: change(&default, &chosen),
        })
    }
}

fn goal_name(goal: &Goal) -> String {
    match goal {
        Goal::Metric(metric, Direction::Minimize) => format!("minimize {}", metric.name),
        Goal::Metric(metric, Direction::Maximize) => format!("maximize {}", metric.name),
        Goal::OwnOfEach => goal.name().into(),
    }
}

/// The least number of runs that anybody should compare.
const FEWEST_RUNS: usize = 3;

/// Runs of either side, unpaired, that show the difference of means with a test at 5 % in nine of ten trials: the variances of both sides by the
/// square of the difference, times (1.96 + 1.28) squared.
fn runs_to_show(default: &[f64], chosen: &[f64]) -> Option<usize> {
    if varies_not(default) && varies_not(chosen) {
        return None;
    }
    let difference = mean(chosen) - mean(default);
    let variances = statistics::variance(default)? + statistics::variance(chosen)?;
    let runs = variances / difference.powi(2) * 3.24f64.powi(2);
    runs.is_finite().then(|| (runs.ceil() as usize).max(FEWEST_RUNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_as_large_as_the_deviation_takes_21_runs() {
        let runs = |shift: f64| runs_to_show(&[9.0, 10.0, 11.0], &[9.0 + shift, 10.0 + shift, 11.0 + shift]);
        assert_eq!(runs(1.0), Some(21));
        assert_eq!(runs(10.0), Some(FEWEST_RUNS));
        assert_eq!(runs(0.0), None, "nothing to show");
        assert_eq!(runs_to_show(&[0.1; 3], &[0.7; 3]), None, "nothing varies");
    }
}
