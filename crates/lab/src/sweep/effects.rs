//! Which keys of a space matter: how far the mean gain moves with a key, and which part of all differences that is.
//!
//! ```text
//!   vm.swappiness   mean gain over all points that have it
//!     0                -4.0 % ┐
//!    60                 0.0 % ├ range 6.0 points; main effect: variance of these means, of the variance of all points
//!   200                +2.0 % ┘
//! ```
//!
//! In a full grid the variance that is left where all other keys are held fixed is known too: the main effect with all interactions (the
//! total effect of Sobol'). A key hardly matters where that is small. Where not all combinations were run, keys with many values are looked
//! at in groups of values next to each other.

use crate::statistics::mean;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a key does to the gain of a goal.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Effect {
    pub key: String,
    /// The goal.
    pub goal: String,
    /// The largest less the smallest mean gain, over points that have a value.
    pub range: f64,
    /// The part of the variance of all points that the key makes by itself.
    pub main: f64,
    /// With all that it makes together with other keys; none unless all combinations were run.
    pub total: Option<f64>,
    /// Whether that is next to nothing.
    pub hardly_matters: bool,
}

/// A key that makes less than this part of the variance hardly matters.
const HARDLY: f64 = 0.05;

/// Effects of keys with these values on points with these gains in a goal, the largest first.
pub fn effects(
    goal: &str,
    keys: &[&str],
    values: &[Vec<String>],
    points: &[Vec<usize>],
    gains: &[f64],
) -> Vec<Effect> {
    let all = variance(gains);
    let is_grid = values.iter().map(Vec::len).product::<usize>() == points.len();
    let effect = |(axis, &key): (usize, &&str)| {
        let group =
            if is_grid { (0..values[axis].len()).collect() } else { groups(&values[axis], points.len()) };
        let groups = grouped(gains, points.iter().map(|point| group[point[axis]]));
        let means: Vec<f64> = groups.iter().map(|group| mean(group)).collect();
        let (least, most) =
            means.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &m| (a.min(m), b.max(m)));
        let centre = mean(gains);
        let between: f64 =
            groups.iter().zip(&means).map(|(group, mean)| group.len() as f64 * (mean - centre).powi(2)).sum();
        let part = |variance: f64| if all > 0.0 { (variance / all).clamp(0.0, 1.0) } else { 0.0 };
        let main = part(between / gains.len() as f64);
        let total = is_grid.then(|| part(mean(&within(axis, points, gains))));
        Effect {
            key: key.into(),
            goal: goal.into(),
            range: most - least,
            main,
            total,
            hardly_matters: total.unwrap_or(main) < HARDLY,
        }
    };
    let mut effects: Vec<Effect> = keys.iter().enumerate().map(effect).collect();
    let size = |effect: &Effect| effect.total.unwrap_or(effect.main);
    effects.sort_by(|a, b| size(b).total_cmp(&size(a)));
    effects
}

/// Variances over a key where all others are fixed.
fn within(axis: usize, points: &[Vec<usize>], gains: &[f64]) -> Vec<f64> {
    let others = points.iter().map(|point| {
        let mut point = point.clone();
        point.remove(axis);
        point
    });
    grouped(gains, others).iter().map(|group| variance(group)).collect()
}

fn grouped<K: Ord>(gains: &[f64], keys: impl Iterator<Item = K>) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for (key, &gain) in keys.zip(gains) {
        groups.entry(key).or_default().push(gain);
    }
    groups.into_values().collect()
}

fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>())
}

/// The group of each value: its own where there are few, or else one of values next to each other.
fn groups(values: &[String], points: usize) -> Vec<usize> {
    let most = ((points as f64).sqrt() as usize).max(2);
    let number = |at: &usize| values[*at].parse::<f64>().unwrap_or(f64::INFINITY);
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| number(a).total_cmp(&number(b)));
    let mut groups = vec![0; values.len()];
    for (rank, at) in order.into_iter().enumerate() {
        groups[at] = if values.len() <= most { rank } else { rank * most / values.len() };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[usize], gain: impl Fn(&[usize]) -> f64) -> Vec<Effect> {
        let names: Vec<String> = (0..values.len()).map(|at| format!("key{at}")).collect();
        let texts: Vec<Vec<String>> =
            values.iter().map(|&count| (0..count).map(|value| value.to_string()).collect()).collect();
        let mut points = vec![vec![]];
        for &count in values {
            points = points
                .iter()
                .flat_map(|point: &Vec<usize>| (0..count).map(move |value| [&point[..], &[value]].concat()))
                .collect();
        }
        let gains: Vec<f64> = points.iter().map(|point| gain(point)).collect();
        effects("goal", &names.iter().map(String::as_str).collect::<Vec<_>>(), &texts, &points, &gains)
    }

    #[test]
    fn a_key_that_does_all_has_the_whole_variance() {
        let effects = of(&[3, 3], |point| point[1] as f64);
        assert_eq!((effects[0].key.as_str(), effects[0].range, effects[0].main), ("key1", 2.0, 1.0));
        assert!(effects[1].hardly_matters && effects[1].range == 0.0 && !effects[0].hardly_matters);
    }

    #[test]
    fn of_a_grid_of_one_key_all_is_its_own() {
        let effect = &of(&[6], |point| (point[0] as f64).sqrt())[0];
        assert!(
            (effect.main - 1.0).abs() < 1e-9 && effect.total.is_some_and(|total| (total - 1.0).abs() < 1e-9)
        );
    }

    #[test]
    fn what_acts_only_together_matters_all_the_same() {
        let effects = of(&[2, 2], |point| ((point[0] + point[1]) % 2) as f64);
        for effect in effects {
            assert_eq!((effect.main, effect.total, effect.hardly_matters), (0.0, Some(1.0), false));
        }
    }

    #[test]
    fn many_values_are_looked_at_in_groups() {
        let values: Vec<String> = (0..100).map(|value| value.to_string()).collect();
        let points: Vec<Vec<usize>> = (0..100).map(|at| vec![at, at * 37 % 100]).collect();
        let gains: Vec<f64> = (0..100).map(|at| f64::from(at) / 100.0).collect();
        let effects = effects("goal", &["a", "b"], &[values.clone(), values], &points, &gains);
        assert_eq!(effects[0].key, "a");
        assert!(effects[0].main > 0.95 && effects[0].total.is_none() && effects[1].main < 0.3, "{effects:?}");
    }
}
