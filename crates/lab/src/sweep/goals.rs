//! What a sweep is to reach: goals, how far a point gets, and constraints that it must keep.
//!
//! ```text
//!   member   weight   default   point                      gain
//!   kbuild      3     206 s     196 s    minimize    +4.9 %  ┐
//!   redis       1     1.0 k/s   0.98 k/s maximize    -2.0 %  ┴─► fleet  (3 * 4.9 - 2.0) / 4 = +3.2 %
//! ```
//!
//! A gain is positive if the point is better than the default. That of a fleet is the mean of its members', by weight, relative to what each
//! member has by default; of shares, and where a default is 0, the mean of differences. Seed by seed it is what remains of each pair when
//! the ratio of means is taken out (as `crates/lab/src/statistics.rs` does for one member), so intervals are those of the same methods.

use super::SweepError;
use crate::scenario::Scenario;
use crate::statistics::mean;
use mm::sysctl::Scale;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{Better, Metric};

/// Which way a goal goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Minimize,
    Maximize,
}

impl Direction {
    /// The list of a sweep file that has such goals.
    pub fn list(self) -> &'static str {
        match self {
            Direction::Minimize => "minimize",
            Direction::Maximize => "maximize",
        }
    }

    /// What turns a difference into a gain.
    pub fn sign(self) -> f64 {
        match self {
            Direction::Minimize => -1.0,
            Direction::Maximize => 1.0,
        }
    }

    fn of(better: Better) -> Direction {
        if better == Better::Lower { Direction::Minimize } else { Direction::Maximize }
    }
}

/// What is to become better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// A metric of all members that have it.
    Metric(Metric, Direction),
    /// Of each member the first of its scenario's metrics that can be better or worse.
    OwnOfEach,
}

impl Goal {
    /// The goal to minimize or maximize a metric of this name.
    pub fn parse(name: &str, direction: Direction) -> Result<Goal, SweepError> {
        Ok(Goal::Metric(metric(name)?, direction))
    }

    /// The metric of a member, and which way it is to go; none if the member does not have it.
    pub fn of(&self, scenario: &Scenario) -> Option<(Metric, Direction)> {
        match self {
            Goal::Metric(metric, direction) => scenario.may_measure(metric).then_some((*metric, *direction)),
            Goal::OwnOfEach => own(scenario),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Goal::Metric(metric, _) => metric.name,
            Goal::OwnOfEach => "own metric of each",
        }
    }
}

/// The first metric of a scenario that can be better or worse.
fn own(scenario: &Scenario) -> Option<(Metric, Direction)> {
    let metric = scenario.directed_metrics().next()?;
    Some((metric, Direction::of(metric.better)))
}

/// What scenarios are to reach if nobody says: their own metric, where it is the same of all.
pub fn own_goal(scenarios: &[&Scenario]) -> Goal {
    match scenarios.split_first() {
        Some((first, others)) if others.iter().all(|other| own(other) == own(first)) => match own(first) {
            Some((metric, direction)) => Goal::Metric(metric, direction),
            None => Goal::OwnOfEach,
        },
        _ => Goal::OwnOfEach,
    }
}

fn metric(name: &str) -> Result<Metric, SweepError> {
    let unknown = || SweepError::UnknownMetric { name: name.into(), like: Metric::most_like(name) };
    Metric::find(name).ok_or_else(unknown)
}

/// What gains are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// A part of what the default has: 0.05 is 5 %.
    Relative,
    /// The unit of the metric, or points of shares.
    Difference,
}

/// The values of a member by seed, of the default and of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    pub weight: f64,
    pub direction: Direction,
    pub default: Vec<f64>,
    pub point: Vec<f64>,
}

/// What gains of a metric with these values of the default are in.
pub fn measure(goal: &Goal, defaults: &[Vec<f64>]) -> Measure {
    let is_linear = matches!(goal, Goal::Metric(Metric { scale: Scale::Linear, .. }, _));
    let is_zero = defaults.iter().any(|values| mean(values) == 0.0);
    if is_linear || is_zero { Measure::Difference } else { Measure::Relative }
}

/// The gain of a fleet, seed by seed.
pub fn gains(fleet: &[Pairs], measure: Measure) -> Vec<f64> {
    let weights: f64 = fleet.iter().map(|pairs| pairs.weight).sum();
    let seeds = fleet.first().map_or(0, |pairs| pairs.default.len());
    let mut gains = vec![0.0; seeds];
    for Pairs { weight, direction, default, point } in fleet {
        let factor = direction.sign() * weight / weights;
        let (base, ratio) = (mean(default), mean(point) / mean(default));
        // What rounding would leave of a mean is no variation.
        let is_same = varies_not(default) && varies_not(point);
        for (gain, (a, b)) in gains.iter_mut().zip(default.iter().zip(point)) {
            *gain += factor
                * match measure {
                    Measure::Relative if is_same => b / a - 1.0,
                    Measure::Relative => ratio - 1.0 + (b - ratio * a) / base,
                    Measure::Difference => b - a,
                };
        }
    }
    gains
}

/// Whether all seeds gave the same value.
pub fn varies_not(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether a point with these gains is better in one goal than another, and worse in none.
pub fn dominates(gains: &[f64], others: &[f64]) -> bool {
    let pairs = || gains.iter().zip(others);
    pairs().all(|(a, b)| a >= b) && pairs().any(|(a, b)| a > b)
}

/// Which of some points no other dominates.
pub fn front(gains: &[Vec<f64>]) -> Vec<bool> {
    gains.iter().map(|own| !gains.iter().any(|other| dominates(other, own))).collect()
}

/// Of points with these gains, how good each is: with one goal its gain; with several the part of the best gain of each goal that
/// it has, of the goal of which it has least. Goals in which nothing gains do not count.
pub fn merits(gains: &[Vec<f64>]) -> Vec<f64> {
    let goals = gains.first().map_or(0, Vec::len);
    let best = |goal: usize| gains.iter().map(|of| of[goal]).fold(f64::NEG_INFINITY, f64::max);
    let best: Vec<f64> = (0..goals).map(best).collect();
    let merit = |of: &Vec<f64>| match &of[..] {
        [one] => *one,
        several => {
            let parts =
                several.iter().zip(&best).filter(|(_, best)| **best > 0.0).map(|(gain, best)| gain / best);
            parts.fold(f64::INFINITY, f64::min)
        }
    };
    let merits = gains.iter().map(merit);
    merits.map(|merit| if merit.is_finite() { merit } else { f64::MIN }).collect()
}

/// What every member that has the metric must keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// As it was written.
    pub text: String,
    pub metric: Metric,
    side: Side,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// In the unit of the metric.
    Value(f64),
    /// A part of the default's value, to be added to it.
    Change(f64),
}

impl Constraint {
    /// Takes `METRIC <= VALUE UNIT` or `METRIC >= VALUE UNIT` apart; a value with a sign and % is a change against the default.
    pub fn parse(text: &str) -> Result<Constraint, SweepError> {
        let wrong = |expected: String| SweepError::Constraint { text: text.into(), expected };
        let form =
            "METRIC <= VALUE or METRIC >= VALUE, for example 'transaction_p99 <= 2 ms' or 'score >= -1 %'";
        let (name, side, value) = match (text.split_once("<="), text.split_once(">=")) {
            (Some((name, value)), None) => (name, Side::AtMost, value),
            (None, Some((name, value))) => (name, Side::AtLeast, value),
            _ => return Err(wrong(form.into())),
        };
        let (metric, value) = (metric(name.trim())?, value.trim());
        let end = value.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(value.len());
        let (number, unit) = (&value[..end], value[end..].trim());
        let number = number.parse().ok().filter(|number: &f64| number.is_finite());
        let number = number.ok_or_else(|| wrong(form.into()))?;
        let limit = match unit {
            "%" if value.starts_with(['+', '-']) => Limit::Change(number / 100.0),
            unit => Limit::Value(number * factor(unit, metric.unit).map_err(wrong)?),
        };
        match limit {
            Limit::Value(value) if !metric.takes(value) => {
                Err(wrong(format!("a value that {} can have: {}", metric.name, metric.bounds())))
            }
            _ => Ok(Constraint { text: text.into(), metric, side, limit }),
        }
    }

    /// That there is no more of a metric than by default.
    pub fn no_more(metric: Metric) -> Constraint {
        let text = format!("{} <= +0 %", metric.name);
        Constraint { text, metric, side: Side::AtMost, limit: Limit::Change(0.0) }
    }

    /// Whether it is about a value, whatever the default has.
    pub fn is_absolute(&self) -> bool {
        matches!(self.limit, Limit::Value(_))
    }

    /// How far a value is beyond the limit, as a part of the limit; 0 if it keeps it.
    pub fn violation(&self, value: f64, default: f64) -> f64 {
        let limit = match self.limit {
            Limit::Value(limit) => limit,
            Limit::Change(part) => default * (1.0 + part),
        };
        let beyond = match self.side {
            Side::AtMost => value - limit,
            Side::AtLeast => limit - value,
        };
        if beyond <= 0.0 { 0.0 } else { beyond / limit.abs().max(f64::MIN_POSITIVE) }
    }

    /// Whether nothing can keep both.
    fn contradicts(&self, other: &Constraint) -> bool {
        let limits = match (self.limit, other.limit) {
            (Limit::Value(a), Limit::Value(b)) | (Limit::Change(a), Limit::Change(b)) => Some((a, b)),
            _ => None,
        };
        let is_apart = |(a, b)| match (self.side, other.side) {
            (Side::AtMost, Side::AtLeast) => a < b,
            (Side::AtLeast, Side::AtMost) => a > b,
            _ => false,
        };
        self.metric.name == other.metric.name && limits.is_some_and(is_apart)
    }
}

/// Refuses constraints that nothing can keep together.
pub fn check_together(constraints: &[Constraint]) -> Result<(), SweepError> {
    for (at, one) in constraints.iter().enumerate() {
        if let Some(other) = constraints[..at].iter().find(|other| one.contradicts(other)) {
            return Err(SweepError::Contradictory { one: other.text.clone(), other: one.text.clone() });
        }
    }
    Ok(())
}

/// Units of one quantity, in the first of them.
const QUANTITIES: [&[(&str, f64)]; 3] = [
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)],
    &[("KiB", 1.0), ("MiB", 1024.0), ("GiB", 1024.0 * 1024.0), ("TiB", 1024.0 * 1024.0 * 1024.0)],
    &[("1/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)],
];

/// What a number in `unit` is multiplied by to be one in `own`; an error says which units there are.
fn factor(unit: &str, own: &str) -> Result<f64, String> {
    if unit.is_empty() || unit == own || (unit == "%" && own.starts_with('%')) {
        return Ok(1.0);
    }
    let quantity = QUANTITIES.iter().find(|units| units.iter().any(|(name, _)| *name == own));
    let of = |name: &str| quantity?.iter().find(|(known, _)| *known == name).map(|(_, size)| size);
    of(unit).zip(of(own)).map(|(unit, own)| unit / own).ok_or_else(|| match quantity {
        Some(units) => {
            format!("a unit of {}", units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
        }
        None => format!("a value in {own}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::change;
    use proptest::prelude::*;

    fn pairs(weight: f64, direction: Direction, default: &[f64], point: &[f64]) -> Pairs {
        Pairs { weight, direction, default: default.into(), point: point.into() }
    }

    #[test]
    fn the_gain_of_a_fleet_is_the_mean_of_its_members() {
        let fleet = [
            pairs(3.0, Direction::Minimize, &[200.0, 220.0], &[190.0, 209.0]),
            pairs(1.0, Direction::Maximize, &[1000.0, 1000.0], &[980.0, 980.0]),
        ];
        let gains = gains(&fleet, Measure::Relative);
        assert!((mean(&gains) - (3.0 * 0.05 - 0.02) / 4.0).abs() < 1e-12, "{gains:?}");
        assert!((gains[0] - gains[1]).abs() < 1e-12, "the same part of every seed is gained");
        let differences = super::gains(&fleet[1..], Measure::Difference);
        assert_eq!(differences, [-20.0, -20.0]);
    }

    #[test]
    fn constraints_have_units_and_contradict_each_other() {
        let constraint = |text| Constraint::parse(text).unwrap();
        assert_eq!(constraint("alloc_p99 <= 2 us").violation(2000.0, 0.0), 0.0);
        assert!(constraint("alloc_p99 <= 2 us").violation(3000.0, 0.0) > 0.49);
        assert_eq!(constraint("mem_used<=30GiB").violation(30.0 * 1024.0, 0.0), 0.0);
        assert_eq!(constraint("score >= -1 %").violation(99.0, 100.0), 0.0);
        assert!(constraint("score >= -1 %").violation(98.0, 100.0) > 0.0);
        let both = |a, b| check_together(&[constraint(a), constraint(b)]);
        assert!(both("lock >= 10 %", "lock <= 5 %").unwrap_err().to_string().contains("lock >= 10 %"));
        assert!(both("lock >= 5 %", "lock <= 10 %").is_ok() && both("lock <= 5 %", "lock <= 10 %").is_ok());
        for (text, says) in [
            ("lock", "METRIC <= VALUE"),
            ("lock < 5", "METRIC <= VALUE"),
            ("lock <= x", "METRIC <= VALUE"),
            ("lock <= 101", "0 to 100"),
            ("memory <= 30 GiB", "memory: no such metric; most like it: "),
            ("alloc_p99 <= 2 GiB", "a unit of ns, us, ms, s"),
            ("score <= 2 ms", "a unit of 1/s"),
        ] {
            let error = Constraint::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn of_several_goals_no_other_point_is_better_in_all() {
        let gains = [vec![0.1, 0.0], vec![0.05, 0.04], vec![0.0, 0.05], vec![0.04, 0.04], vec![-0.1, -0.1]];
        assert_eq!(front(&gains), [true, true, true, false, false]);
        let merits = merits(&gains);
        let best = (0..5).max_by(|&a, &b| merits[a].total_cmp(&merits[b]));
        assert_eq!(best, Some(1), "half of one best gain and four fifths of the other");
    }

    proptest! {
        #[test]
        fn of_one_member_gain_and_interval_are_those_of_its_change(
            values in prop::collection::vec((1.0f64..100.0, 1.0f64..100.0), 2..9)
        ) {
            let (default, point): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            let own = change(&default, &point);
            let gains = gains(&[pairs(2.0, Direction::Maximize, &default, &point)], Measure::Relative);
            let of_fleet = change(&vec![1.0; gains.len()], &gains.iter().map(|gain| 1.0 + gain).collect::<Vec<_>>());
            let (own_ratio, ratio) = (own.ratio.unwrap(), of_fleet.ratio.unwrap());
            prop_assert!((own_ratio - ratio).abs() < 1e-9);
            let (a, b) = (own.ratio_interval.unwrap(), of_fleet.ratio_interval.unwrap());
            prop_assert!((a.low - b.low).abs() < 1e-9 * own_ratio.max(1.0) && (a.high - b.high).abs() < 1e-9 * own_ratio.max(1.0));
        }

        #[test]
        fn any_text_is_a_constraint_or_an_error(text in ".{0,40}") {
            drop(Constraint::parse(&text));
        }
    }
}
