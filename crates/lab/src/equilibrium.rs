//! The equilibrium study: do more fallback orders cost a system its large folios?
//!
//! ```text
//!   arm        a scenario: occupancy, page cache, zram, compaction        equilibrium, equilibrium-zram ...
//!   variant    a fallback policy                                          folios-v2, folios-v3, folios-v2-simple
//!   seed       a sequence of areas, the same for all variants of an arm
//!
//!   hypothesis ─► differences over pairs of equal seeds ─► held, refuted, or undecided with this number of seeds
//! ```
//!
//! Yu Zhao claims that a policy with more fallback orders sooner reaches the state in which the preferred
//! order is no longer available (H1), with fewer folios of that order (H2). Ryan Roberts objects that the
//! page cache allocates many orders anyway (H3); the reply is that zram makes it worse (H4). H5 is that
//! compaction removes most of the effect. All are statements about this model and its load, and a refutation
//! is a result too.
//!
//! H1 and H2 are about the long run, so they are tested on the longest arm; H2 early is about the time when
//! the system is no longer new, but far from equilibrium. H3 to H5 compare arms of equal length. The effects
//! of files and of zram are measured against arms with the same free memory: H3's arms have 2 to 4 per cent
//! free, like `equilibrium`, and H4's arms are as full as the watermarks allow, like `equilibrium-97`.
//!
//! Controls are results that must hold whether or not the statements do; if one fails, the other results mean
//! nothing.

use crate::results::Record;
use crate::statistics::{Change, change};
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{EQUILIBRIUM_TIME, Metric, PREFERRED_FOLIOS, PREFERRED_SUCCESS, PREFERRED_SUCCESS_EARLY};
use std::collections::BTreeMap;

/// Scenarios of the study. The first is the one that others are compared with.
pub const ARMS: [&str; 13] = [
    "equilibrium",
    "equilibrium-long",
    "equilibrium-same-size",
    "equilibrium-50",
    "equilibrium-70",
    "equilibrium-97",
    "equilibrium-cache",
    "equilibrium-files",
    "equilibrium-zram",
    "equilibrium-kcompactd",
    "equilibrium-direct",
    "equilibrium-sparse",
    "equilibrium-sparse-memory",
];

/// The arm that runs longest, until next to nothing changes any more.
pub const LONGEST: &str = "equilibrium-long";

/// The variants that the statements are about, fewest fallback orders first.
const POLICIES: [&str; 3] = ["folios-v2-simple", "folios-v3", "folios-v2"];

/// Result of testing a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All intervals exclude the opposite.
    Held,
    /// An interval shows the opposite.
    Refuted,
    /// The intervals include both, with this number of seeds.
    Undecided,
}

/// A difference that a statement claims to be positive.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Effect {
    /// What differs.
    pub of: String,
    /// The difference and its interval.
    pub change: Change,
    /// Whether a difference of zero agrees with the statement.
    pub or_none: bool,
}

/// A statement and its test.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Finding {
    /// Name of the hypothesis.
    pub name: &'static str,
    /// The statement in words.
    pub statement: &'static str,
    /// The differences that it claims to be positive.
    pub effects: Vec<Effect>,
    /// The result for all of them together.
    pub verdict: Verdict,
}

/// A result that must hold whether or not the statements do.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Control {
    /// The result in words.
    pub statement: &'static str,
    /// Whether it holds in every run.
    pub passed: bool,
}

impl Effect {
    fn verdict(&self) -> Verdict {
        let positive = self.change.difference > 0.0;
        match (self.change.is_significant(), positive) {
            (true, true) => Verdict::Held,
            (true, false) => Verdict::Refuted,
            (false, _) if self.or_none => Verdict::Held,
            (false, _) => Verdict::Undecided,
        }
    }
}

/// Records by scenario.
pub type Runs = BTreeMap<&'static str, Vec<Record>>;

/// Values of a metric in an arm under a variant, sorted by seed.
fn values(runs: &Runs, arm: &str, variant: &str, metric: Metric) -> Vec<f64> {
    let records = runs.get(arm).into_iter().flatten().filter(|record| record.run.variant == variant);
    let by_seed: BTreeMap<u64, f64> =
        records.filter_map(|record| Some((record.run.seed, *record.metrics.get(metric.name)?))).collect();
    by_seed.into_values().collect()
}

/// By how many points the success rate of the preferred order under `folios-v2-simple` exceeds that under
/// `folios-v2`, by seed.
fn gaps(runs: &Runs, arm: &str) -> Vec<f64> {
    let of = |variant| values(runs, arm, variant, PREFERRED_SUCCESS);
    of("folios-v2-simple").iter().zip(of("folios-v2")).map(|(simple, v2)| simple - v2).collect()
}

/// From `first` to `second` there is more of it.
fn more(of: &str, first: &[f64], second: &[f64]) -> Option<Effect> {
    let same = first.len() == second.len() && !first.is_empty();
    same.then(|| Effect { of: of.into(), change: change(first, second), or_none: false })
}

/// From `first` to `second` there is no less of it.
fn no_less(of: &str, first: &[f64], second: &[f64]) -> Option<Effect> {
    more(of, first, second).map(|effect| Effect { or_none: true, ..effect })
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

/// The test of each hypothesis whose arms were run.
pub fn findings(runs: &Runs) -> Vec<Finding> {
    let steps = |metric: Metric, effect: fn(&str, &[f64], &[f64]) -> Option<Effect>| {
        [("folios-v2", "folios-v3"), ("folios-v3", "folios-v2-simple")].map(|(from, to)| {
            let of = format!("{}, {from} to {to}", metric.label);
            effect(&of, &values(runs, LONGEST, from, metric), &values(runs, LONGEST, to, metric))
        })
    };
    let none = |gaps: &[f64]| vec![0.0; gaps.len()];
    let [gap, full, cache, zram, direct] =
        ["equilibrium", "equilibrium-97", "equilibrium-cache", "equilibrium-zram", "equilibrium-direct"]
            .map(|arm| gaps(runs, arm));
    let half: Vec<f64> = gap.iter().map(|gap| gap / 2.0).collect();
    let mut long_run = steps(PREFERRED_SUCCESS, no_less).to_vec();
    long_run.extend(steps(PREFERRED_FOLIOS, no_less));
    [
        finding(
            "H1",
            "more fallback orders reach equilibrium sooner: folios-v2 before folios-v3 before folios-v2-simple",
            steps(EQUILIBRIUM_TIME, more).to_vec(),
        ),
        finding(
            "H2, early",
            "after 10 to 20 turnovers they have no more of the preferred order: folios-v2 <= folios-v3 <= folios-v2-simple",
            steps(PREFERRED_SUCCESS_EARLY, no_less).to_vec(),
        ),
        finding(
            "H2",
            "in the long run they have no more of the preferred order: folios-v2 <= folios-v3 <= folios-v2-simple",
            long_run,
        ),
        finding(
            "H3",
            "with files of many orders in memory folios-v2-simple gains less over folios-v2, and still gains",
            vec![
                more("gain without files less gain with them", &cache, &gap),
                more("gain with files", &none(&cache), &cache),
            ],
        ),
        finding(
            "H4",
            "with zram folios-v2-simple gains more over folios-v2",
            vec![
                more("gain with zram less gain without, 95 % in use", &gap, &zram),
                more("gain with zram less gain without, 97 % in use", &full, &zram),
            ],
        ),
        finding(
            "H5",
            "compaction in faults takes away more than half of what folios-v2-simple gains over folios-v2",
            vec![more("half of the gain less the gain with it", &direct, &half)],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The controls whose arms were run.
pub fn controls(runs: &Runs) -> Vec<Control> {
    let rates = |arm| POLICIES.map(|variant| values(runs, arm, variant, PREFERRED_SUCCESS));
    let (same, half) = (rates("equilibrium-same-size"), rates("equilibrium-50"));
    let control = |statement, rates: &[Vec<f64>; 3], passed| {
        let was_run = rates.iter().all(|rates| !rates.is_empty());
        was_run.then_some(Control { statement, passed })
    };
    let all_same = same.windows(2).all(|pair| pair[0] == pair[1]);
    let all_had = half.iter().flatten().all(|&rate| rate == 100.0);
    let controls = [
        control("areas of one size: the variants have as many folios, seed by seed", &same, all_same),
        control("half of memory in use: all faults with room for the preferred order get it", &half, all_had),
    ];
    controls.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::outcome::Outcome;

    /// Values of several seeds, and the same with all of them larger by `difference`.
    fn differing(difference: f64) -> [Vec<f64>; 2] {
        let first: Vec<f64> = (0..8).map(|i| 50.0 + f64::from(i % 3)).collect();
        let second = first.iter().map(|value| value + difference).collect();
        [first, second]
    }

    fn more_by(difference: f64) -> Effect {
        let [first, second] = differing(difference);
        more("", &first, &second).unwrap()
    }

    fn no_less_by(difference: f64) -> Effect {
        let [first, second] = differing(difference);
        no_less("", &first, &second).unwrap()
    }

    #[test]
    fn a_statement_is_as_good_as_its_worst_effect() {
        let verdict =
            |effects: Vec<Effect>| finding("", "", effects.into_iter().map(Some).collect()).unwrap().verdict;
        assert_eq!(verdict(vec![more_by(5.0)]), Verdict::Held);
        assert_eq!(verdict(vec![more_by(5.0), no_less_by(-5.0)]), Verdict::Refuted);
        assert_eq!(verdict(vec![more_by(0.0), more_by(5.0)]), Verdict::Undecided);
        assert_eq!(verdict(vec![no_less_by(0.0)]), Verdict::Held);
    }

    /// Records of an arm in which `metric` is about `value` for each variant, with a difference of one or two
    /// between seeds.
    fn arm(metric: Metric, values: [f64; 3]) -> Vec<Record> {
        let run = crate::scenario::Scenario::load("equilibrium").unwrap();
        let machine = crate::scenario::load_machine("i7-9700").unwrap();
        let mut records = Vec::new();
        for (variant, value) in POLICIES.into_iter().zip(values) {
            for seed in 1..=8 {
                let run = run.run(variant, seed, &machine, &BTreeMap::new()).unwrap();
                let mut outcome = Outcome::default();
                outcome.set(metric, value + (seed % 3) as f64);
                records.push(Record::new(String::new(), &run, &outcome));
            }
        }
        records
    }

    #[test]
    fn statements_are_about_the_sign_that_they_name() {
        let found = |arm_name, metric, values, name: &str| {
            let runs = Runs::from([(arm_name, arm(metric, values))]);
            findings(&runs).into_iter().find(|finding| finding.name == name).map(|finding| finding.verdict)
        };
        // Values for simple, v3 and v2.
        assert_eq!(found(LONGEST, EQUILIBRIUM_TIME, [90.0, 50.0, 10.0], "H1"), Some(Verdict::Held));
        assert_eq!(found(LONGEST, EQUILIBRIUM_TIME, [10.0, 50.0, 90.0], "H1"), Some(Verdict::Refuted));
        assert_eq!(found(LONGEST, EQUILIBRIUM_TIME, [90.0, 50.0, 50.0], "H1"), Some(Verdict::Undecided));
        assert_eq!(
            found(LONGEST, PREFERRED_SUCCESS_EARLY, [50.0, 20.0, 10.0], "H2, early"),
            Some(Verdict::Held)
        );
        assert_eq!(
            found(LONGEST, PREFERRED_SUCCESS_EARLY, [50.0, 10.0, 20.0], "H2, early"),
            Some(Verdict::Refuted)
        );
        let compared = |first: [f64; 3], arms: &[(&'static str, [f64; 3])], name: &str| {
            let mut runs = Runs::from([("equilibrium", arm(PREFERRED_SUCCESS, first))]);
            runs.extend(arms.iter().map(|&(name, values)| (name, arm(PREFERRED_SUCCESS, values))));
            findings(&runs).into_iter().find(|finding| finding.name == name).map(|finding| finding.verdict)
        };
        let wide = [60.0, 30.0, 10.0];
        assert_eq!(compared(wide, &[("equilibrium-cache", [40.0, 30.0, 10.0])], "H3"), Some(Verdict::Held));
        assert_eq!(
            compared(wide, &[("equilibrium-cache", [10.0, 30.0, 40.0])], "H3"),
            Some(Verdict::Refuted)
        );
        let (narrow, none) = ([20.0, 15.0, 10.0], [10.0, 10.0, 10.0]);
        let zram = |gain| compared(narrow, &[("equilibrium-97", none), ("equilibrium-zram", gain)], "H4");
        assert_eq!((zram(wide), zram(none)), (Some(Verdict::Held), Some(Verdict::Refuted)));
        assert_eq!(compared(wide, &[("equilibrium-direct", narrow)], "H5"), Some(Verdict::Held));
        assert_eq!(compared(wide, &[("equilibrium-direct", wide)], "H5"), Some(Verdict::Refuted));
        assert_eq!(compared(wide, &[], "H5"), None, "not run");
    }

    #[test]
    fn controls_fail_where_variants_differ() {
        let passed = |name, values| controls(&Runs::from([(name, arm(PREFERRED_SUCCESS, values))]))[0].passed;
        assert!(
            passed("equilibrium-same-size", [80.0; 3])
                && !passed("equilibrium-same-size", [80.0, 80.0, 79.0])
        );
        assert!(!passed("equilibrium-50", [99.0; 3]));
        assert!(controls(&Runs::new()).is_empty());
    }

    #[test]
    fn arms_are_scenarios() {
        for arm in ARMS {
            assert!(crate::scenario::Scenario::load(arm).is_ok(), "{arm}");
        }
        assert!(findings(&Runs::new()).is_empty());
    }
}
