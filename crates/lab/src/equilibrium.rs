//! The study of equilibrium: do more fallback orders cost a system its large folios?
//!
//! ```text
//!   arm        a scenario: occupancy, page cache, zram, compaction        equilibrium, equilibrium-zram ...
//!   variant    a fallback policy                                          v2, v3, simple
//!   seed       a trace, the same for all variants of an arm
//!
//!   hypothesis ─► differences over pairs of equal seeds ─► held, refuted, or not decided by so many seeds
//! ```
//!
//! Yu Zhao's claim is that a policy with more fallback orders reaches the state sooner in which the preferred order cannot be
//! had any more (H1), with fewer folios of it (H2); Ryan Roberts objects that page cache allocates many orders anyway (H3);
//! the answer is that zram makes it worse (H4). H5: compaction takes most of it away. All are statements about this model
//! and its load, and a refutation is a result.

use crate::metric::{EQUILIBRIUM_TIME, Metric, PREFERRED_FOLIOS, PREFERRED_SUCCESS};
use crate::results::Record;
use crate::statistics::{Change, change};
use serde::Serialize;
use std::collections::BTreeMap;

/// Scenarios of the study, first the one that others are compared with.
pub const ARMS: [&str; 10] = [
    "equilibrium",
    "equilibrium-same-size",
    "equilibrium-50",
    "equilibrium-70",
    "equilibrium-97",
    "equilibrium-cache",
    "equilibrium-files",
    "equilibrium-zram",
    "equilibrium-kcompactd",
    "equilibrium-direct",
];

/// What became of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The intervals leave nothing else.
    Held,
    /// An interval lies on the other side.
    Refuted,
    /// So many seeds do not tell.
    Undecided,
}

/// A difference that a statement is about; it says that the difference is positive.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// Of what.
    pub of: String,
    /// How large.
    pub change: Change,
    /// Whether none at all is enough.
    pub or_none: bool,
}

/// A statement and what the runs say of it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub statement: &'static str,
    /// The differences.
    pub effects: Vec<Effect>,
    /// What became of it.
    pub verdict: Verdict,
}

impl Effect {
    fn verdict(&self) -> Verdict {
        let positive = self.change.difference > 0.0;
        match (self.change.significant, positive) {
            (true, true) => Verdict::Held,
            (true, false) => Verdict::Refuted,
            (false, _) if self.or_none => Verdict::Held,
            (false, _) => Verdict::Undecided,
        }
    }
}

/// Runs by scenario.
pub type Runs = BTreeMap<&'static str, Vec<Record>>;

/// A metric of all seeds of an arm under a variant, by seed.
fn values(runs: &Runs, arm: &str, variant: &str, metric: Metric) -> Vec<f64> {
    let records = runs.get(arm).into_iter().flatten().filter(|record| record.run.variant == variant);
    let by_seed: BTreeMap<u64, f64> =
        records.filter_map(|record| Some((record.run.seed, *record.metrics.get(metric.name)?))).collect();
    by_seed.into_values().collect()
}

/// How much more often the preferred order is had under `simple` than under `v2`, points, by seed.
fn gaps(runs: &Runs, arm: &str) -> Vec<f64> {
    let of = |variant| values(runs, arm, variant, PREFERRED_SUCCESS);
    of("simple").iter().zip(of("v2")).map(|(simple, v2)| simple - v2).collect()
}

fn effect(of: impl Into<String>, first: &[f64], second: &[f64], or_none: bool) -> Option<Effect> {
    let same = first.len() == second.len() && !first.is_empty();
    same.then(|| Effect { of: of.into(), change: change(first, second), or_none })
}

fn finding(name: &'static str, statement: &'static str, effects: Vec<Option<Effect>>) -> Option<Finding> {
    let effects = effects.into_iter().collect::<Option<Vec<Effect>>>()?;
    let verdicts: Vec<Verdict> = effects.iter().map(Effect::verdict).collect();
    let verdict = match verdicts {
        _ if verdicts.contains(&Verdict::Refuted) => Verdict::Refuted,
        _ if verdicts.contains(&Verdict::Undecided) => Verdict::Undecided,
        _ => Verdict::Held,
    };
    Some(Finding { name, statement, effects, verdict })
}

/// What the runs say of each hypothesis; those whose arms were not run are left out.
pub fn findings(runs: &Runs) -> Vec<Finding> {
    let base = ARMS[0];
    let steps = |metric: Metric, or_none| {
        [("v2", "v3"), ("v3", "simple")].map(|(from, to)| {
            let of = format!("{}, {from} to {to}", metric.label);
            effect(of, &values(runs, base, from, metric), &values(runs, base, to, metric), or_none)
        })
    };
    let none = |gaps: &[f64]| vec![0.0; gaps.len()];
    let (gap, cache, zram, direct) = (
        gaps(runs, base),
        gaps(runs, "equilibrium-cache"),
        gaps(runs, "equilibrium-zram"),
        gaps(runs, "equilibrium-direct"),
    );
    let half: Vec<f64> = gap.iter().map(|gap| gap / 2.0).collect();
    let mut long_run = steps(PREFERRED_SUCCESS, true).to_vec();
    long_run.extend(steps(PREFERRED_FOLIOS, true));
    [
        finding(
            "H1",
            "more fallback orders reach equilibrium sooner: v2 before v3 before simple",
            steps(EQUILIBRIUM_TIME, false).to_vec(),
        ),
        finding(
            "H2",
            "in the long run they have no more of the preferred order: v2 <= v3 <= simple",
            long_run,
        ),
        finding(
            "H3",
            "with files of many orders in memory simple gains less over v2, and still gains",
            vec![
                effect("gain without files less gain with them", &cache, &gap, false),
                effect("gain with files", &none(&cache), &cache, false),
            ],
        ),
        finding(
            "H4",
            "with zram simple gains more over v2",
            vec![effect("gain with zram less gain without", &gap, &zram, false)],
        ),
        finding(
            "H5",
            "compaction in faults takes away more than half of what simple gains over v2",
            vec![effect("half of the gain less the gain with it", &direct, &half, false)],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(difference: f64, or_none: bool) -> Effect {
        let first: Vec<f64> = (0..8).map(|i| 50.0 + f64::from(i % 3)).collect();
        let second: Vec<f64> = first.iter().map(|value| value + difference).collect();
        effect("", &first, &second, or_none).unwrap()
    }

    #[test]
    fn a_statement_is_as_good_as_its_worst_effect() {
        let verdict =
            |effects: Vec<Effect>| finding("", "", effects.into_iter().map(Some).collect()).unwrap().verdict;
        assert_eq!(verdict(vec![of(5.0, false)]), Verdict::Held);
        assert_eq!(verdict(vec![of(5.0, false), of(-5.0, true)]), Verdict::Refuted);
        assert_eq!(verdict(vec![of(0.0, false), of(5.0, false)]), Verdict::Undecided);
        assert_eq!(verdict(vec![of(0.0, true)]), Verdict::Held);
    }

    #[test]
    fn arms_are_scenarios() {
        for arm in ARMS {
            assert!(crate::scenario::Scenario::load(arm).is_ok(), "{arm}");
        }
        assert!(findings(&Runs::new()).is_empty());
    }
}
