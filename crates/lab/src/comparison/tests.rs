//! Tests that changes are against the first variant, in pairs of equal seeds.

use super::*;
use crate::experiment::Experiment;
use proptest::prelude::*;
use sim::metric::{ALLOC_P99, BUILD_TIME, LOCK, PCP_MAX, SCORE, TRANSACTIONS};
use sim::outcome::Outcome;

/// Metrics of a seed.
struct Measurement(BTreeMap<String, f64>);

impl Measured for Measurement {
    fn identity(&self) -> &str {
        ""
    }

    fn metrics(&self) -> &BTreeMap<String, f64> {
        &self.0
    }

    fn cpu_seconds(&self) -> &BTreeMap<String, f64> {
        const { &BTreeMap::new() }
    }
}

/// A comparison of variants by name, each with the values of these metrics by seed.
fn comparison_of(metrics: &[Metric], variants: &[(String, Vec<Vec<f64>>)]) -> Comparison {
    let measure = |values: &Vec<f64>| {
        let named = metrics.iter().zip(values).map(|(metric, &value)| (metric.name.to_string(), value));
        Measurement(named.collect())
    };
    let measured: Vec<Vec<Measurement>> =
        variants.iter().map(|(_, seeds)| seeds.iter().map(measure).collect()).collect();
    let summaries =
        variants.iter().zip(&measured).enumerate().map(|(at, ((name, _), own))| {
            VariantSummary::new(name, own, (at > 0).then_some(&measured[0][..]))
        });
    let names: Vec<String> = metrics.iter().map(|metric| metric.name.into()).collect();
    let seeds = (1..=variants[0].1.len() as u64).collect();
    Comparison::of(summaries.collect(), &names, seeds, 0.01)
}

/// Variants whose three seeds have one score.
pub(super) fn alike(values: &[(&str, f64)]) -> Comparison {
    let variants: Vec<(String, Vec<Vec<f64>>)> =
        values.iter().map(|(name, score)| (name.to_string(), vec![vec![*score]; 3])).collect();
    comparison_of(&[SCORE], &variants)
}

/// Comparisons of a few variants over a few seeds, with many ties, zeroes and small changes among their values.
pub(super) fn arbitrary() -> impl Strategy<Value = Comparison> {
    let metrics = [SCORE, LOCK, PCP_MAX, ALLOC_P99, TRANSACTIONS];
    let value = prop_oneof![Just(0.0), Just(10.0), Just(10.001), 0.0..100.0f64];
    let seed = proptest::collection::vec(value, metrics.len());
    let noise = prop_oneof![Just(0.0), Just(0.01), Just(0.5)];
    let variant = (seed, noise, any::<u64>());
    (proptest::collection::vec(variant, 1..6), 1usize..8).prop_map(move |(variants, seeds)| {
        let of_seed = |values: &[f64], noise: f64, random: u64, seed: usize| {
            let shift = ((random >> (seed * 5)) % 8) as f64 * noise;
            values.iter().map(|value| (value + shift).min(100.0)).collect::<Vec<f64>>()
        };
        let variants = variants.into_iter().enumerate().map(|(at, (values, noise, random))| {
            (format!("variant-{at}"), (0..seeds).map(|seed| of_seed(&values, noise, random, seed)).collect())
        });
        comparison_of(&metrics, &variants.collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whoever is named is significantly and relevantly different, in the direction that is told.
    #[test]
    fn the_verdict_names_only_what_differs(comparison in arbitrary()) {
        let verdict = &comparison.verdict;
        let Some(judged) = comparison.judged.as_deref().and_then(Metric::find) else { return Ok(()) };
        let of = |name: &str| comparison.variants.iter().find(|variant| variant.name == name).unwrap();
        let counts = |name: &str| of(name).metrics[judged.name].verdict.is_some_and(|tested| tested.counts());
        let is = |name: &str, better: bool| {
            let change = of(name).metrics[judged.name].change.unwrap();
            verdict::is_better(&judged, change.difference) == Some(better)
        };
        for name in verdict.best.iter().map(|best| &best.variant).chain(&verdict.as_good) {
            prop_assert!(counts(name) && is(name, true), "{name}");
        }
        if let Some(worst) = &verdict.worst {
            prop_assert!(counts(&worst.variant) && is(&worst.variant, false), "{}", worst.variant);
        }
        // No other one that counts is further.
        for (effect, better) in verdict.best.iter().map(|e| (e, true)).chain(verdict.worst.iter().map(|e| (e, false))) {
            for variant in comparison.variants.iter().skip(1).filter(|v| counts(&v.name) && is(&v.name, better)) {
                let other = variant.metrics[judged.name].change.unwrap().difference;
                prop_assert!(other.abs() <= effect.change.difference.abs());
            }
        }
        for cost in &verdict.costs {
            let metric = Metric::find(&cost.metric).unwrap();
            prop_assert!(metric.name != judged.name && metric.better != Better::Neutral);
            prop_assert!(cost.change.is_significant() && cost.adjusted_p_value >= cost.change.p_value);
            prop_assert!(verdict::is_relevant(&metric, &cost.change, comparison.at_least));
            prop_assert_eq!(verdict::is_better(&metric, cost.change.difference), Some(false));
            prop_assert!(verdict.best.as_ref().is_none_or(|best| best.variant == cost.variant));
        }
        // Without a test nobody is named but as untested.
        let tested = comparison.seeds.len() > 2;
        prop_assert!(tested || (verdict.best.is_none() && verdict.worst.is_none() && verdict.costs.is_empty()));
        prop_assert!(!tested || verdict.untested.is_none());
    }
}

#[test]
fn a_change_is_relevant_by_its_unit() {
    let by = |difference: f64, ratio: Option<f64>| Change {
        difference,
        difference_interval: None,
        ratio,
        ratio_interval: None,
        p_value: None,
    };
    let relevant = |metric: &Metric, change: Change| verdict::is_relevant(metric, &change, 0.01);
    // A share of 0.02 % that doubles is nothing; one of 40 % that gains a fortieth is a point.
    assert!(!relevant(&LOCK, by(0.02, Some(2.0))) && relevant(&LOCK, by(1.0, Some(1.025))));
    assert!(!relevant(&SCORE, by(50.0, Some(1.005))) && relevant(&SCORE, by(-50.0, Some(0.98))));
    assert!(relevant(&PCP_MAX, by(3.0, None)) && !relevant(&PCP_MAX, by(0.0, None)));
}

#[test]
fn the_best_variant_has_its_costs_and_those_as_good() {
    let seeds = |score: f64, pcp: f64| -> Vec<Vec<f64>> {
        (0..4).map(|seed| vec![score + f64::from(seed), pcp, 5.0]).collect()
    };
    let variants = [("base", 100.0, 24.0), ("a", 130.0, 24.0), ("b", 130.5, 1383.0), ("c", 90.0, 24.0)];
    let variants: Vec<(String, Vec<Vec<f64>>)> =
        variants.iter().map(|&(name, score, pcp)| (name.to_string(), seeds(score, pcp))).collect();
    let Verdict { chance, best, as_good, worst, costs, .. } =
        comparison_of(&[SCORE, PCP_MAX, LOCK], &variants).verdict;
    assert_eq!(best.unwrap().variant, "b");
    assert_eq!((as_good, worst.unwrap().variant.as_str()), (vec!["a".to_string()], "c"));
    let costs: Vec<(&str, f64, f64)> =
        costs.iter().map(|cost| (cost.metric.as_str(), cost.from, cost.to)).collect();
    assert_eq!(costs, [("pcp_max", 24.0, 1383.0)]);
    assert_eq!(chance, verdict::Chance::Tested);
}

#[test]
fn the_verdict_says_what_is_known_of_chance() {
    let chance = |seeds: &[f64]| {
        let own = |name: &str| (name.to_string(), seeds.iter().map(|&value| vec![value]).collect());
        comparison_of(&[SCORE], &[own("base"), own("a")]).verdict.chance
    };
    use verdict::Chance::{OneSeed, SeedsAgree, Tested, TwoSeeds};
    assert_eq!(
        [chance(&[1.0]), chance(&[1.0, 2.0]), chance(&[1.0; 3]), chance(&[1.0, 2.0, 1.0])],
        [OneSeed, TwoSeeds, SeedsAgree, Tested]
    );
    let none = alike(&[("base", 0.0), ("a", 3.0)]).verdict;
    assert_eq!(none.nothing_done, ["base"]);
}

#[test]
fn what_could_not_happen_is_told_from_counters() {
    let record = |scenario: &str, count: u64| {
        let scenario = Scenario::load(scenario).unwrap();
        let machine = crate::scenario::load_machine(&scenario.machine).unwrap();
        let run = scenario.run(&scenario.variants[0], 1, &machine, &BTreeMap::new()).unwrap();
        let mut record = Record::new(String::new(), &run, &Outcome::default());
        for name in ["pgscan_file", "numa_pte_updates", "hugepages-64kB/stats/anon_fault_alloc"] {
            record.counters.insert(name.into(), count);
        }
        record
    };
    for (scenario, idle) in [
        ("fio-zipf", Some(Idle::NothingReclaimed)),
        ("numa02", Some(Idle::NothingScanned)),
        ("speedometer", Some(Idle::NoLargeFolios)),
        ("page_fault1", None),
    ] {
        assert_eq!(Idle::of(&[record(scenario, 0), record(scenario, 0)]), idle, "{scenario}");
        assert_eq!(Idle::of(&[record(scenario, 0), record(scenario, 1)]), None, "{scenario}");
    }
}

fn records(arms: &[Arm], values: &[(&str, [f64; 3])]) -> Vec<Record> {
    let mut records = Vec::new();
    for (arm, (variant, by_seed)) in arms.iter().zip(values) {
        for (index, &value) in by_seed.iter().enumerate() {
            let run = arm.scenario.run(variant, index as u64 + 1, &arm.machine, &BTreeMap::new()).unwrap();
            let mut outcome = Outcome::default();
            outcome.set(BUILD_TIME, value);
            outcome.set(SCORE, value);
            outcome.cpu_seconds.insert("idle", 100.0);
            outcome.cpu_seconds.insert("program", 10.0);
            outcome.cpu_seconds.insert("zone_lock_wait", value);
            records.push(Record::new(format!("{variant}{index}"), &run, &outcome));
        }
    }
    records
}

fn compare(metrics: &[&str], values: &[(&str, [f64; 3])]) -> Comparison {
    let mut experiment = Experiment::of("page_fault1", None).unwrap();
    experiment.scenario.metrics = metrics.iter().map(|name| name.to_string()).collect();
    experiment.variants = values.iter().map(|(name, _)| name.to_string()).collect();
    let arms = experiment.arms().unwrap();
    Comparison::new(&arms, &records(&arms, values), 0.01)
}

#[test]
fn changes_are_against_the_first_variant_and_seeds_are_paired() {
    let values =
        [("pcp-base", [10.0, 20.0, 30.0]), ("patch1", [9.0, 18.0, 27.0]), ("patch9", [11.0, 19.0, 30.0])];
    let comparison = compare(&["build_time"], &values);
    assert_eq!(comparison.seeds, [1, 2, 3]);
    let [base, patch1, patch9] = &comparison.variants[..] else { panic!("three variants") };
    assert_eq!(base.metrics["build_time"].mean, 20.0);
    assert_eq!(base.metrics["build_time"].change, None);
    let change = patch1.metrics["build_time"].change.unwrap();
    assert!((change.ratio.unwrap() - 0.9).abs() < 1e-12);
    assert!(patch1.metrics["build_time"].verdict.unwrap().counts());
    assert!(!patch9.metrics["build_time"].verdict.unwrap().significant);
}

#[test]
fn one_metric_is_judged_and_small_changes_are_told_apart() {
    let values = [("pcp-base", [10.0, 20.0, 30.0]), ("patch1", [10.01, 20.02, 30.03])];
    let comparison = compare(&["build_time", "score"], &values);
    assert_eq!(comparison.judged.as_deref(), Some("build_time"));
    let [_, patch1] = &comparison.variants[..] else { panic!("two variants") };
    let verdict = patch1.metrics["build_time"].verdict.unwrap();
    assert!(verdict.significant && !verdict.relevant);
    assert_eq!(patch1.metrics["score"].verdict, None);
}

#[test]
fn more_columns_make_each_test_harder() {
    let values = [10.0, 10.0, 10.0];
    let better = [9.0, 9.3, 9.1];
    let p = |columns: &[(&str, [f64; 3])]| {
        let comparison = compare(&["build_time"], columns);
        comparison.variants[1].metrics["build_time"].verdict.unwrap().adjusted_p_value
    };
    let alone = p(&[("pcp-base", values), ("patch1", better)]);
    let worse = [10.1, 9.9, 10.0];
    let among = p(&[("pcp-base", values), ("patch1", better), ("patch2", worse), ("patch3", worse)]);
    assert!((among - 3.0 * alone).abs() < 1e-12, "{alone} {among}");
}

#[test]
fn time_is_compared_with_the_best_variant_by_busy_seconds() {
    let values = [("pcp-base", [10.0; 3]), ("patch1", [2.5; 3]), ("patch9", [5.0; 3])];
    let shift = compare(&["build_time"], &values).time.unwrap();
    assert_eq!(
        (shift.from.as_str(), shift.to.as_str(), shift.by.as_str()),
        ("pcp-base", "patch1", "build_time")
    );
    assert_eq!(shift.categories.len(), 2, "idle is not busy");
    let lock = shift.categories.iter().find(|shift| shift.category == "zone_lock_wait").unwrap();
    assert_eq!((lock.from, lock.to), (0.5, 0.2));
    // For `score`, higher is better.
    assert_eq!(compare(&["score"], &values).time.unwrap().to, "patch9");
}

#[test]
fn evidence_is_of_the_machine_and_the_settings_that_it_names() {
    let evidence = |machine: Option<&str>, changes: &[(&str, &str)]| {
        let mut experiment = Experiment::of("hugetlb-vm252", None).unwrap();
        if let Some(machine) = machine {
            experiment.machine = load_machine(machine).unwrap();
        }
        experiment.changes =
            changes.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        evidence_of(&experiment.arms().unwrap())
    };
    let own = Scenario::load("hugetlb-vm252").unwrap().evidence;
    assert_eq!(evidence(None, &[]), own);
    assert_eq!(evidence(Some("spr-server"), &[]), format!("{own}; that was with another machine"));
    let changed = evidence(Some("spr-server"), &[("vm.hugetlb_optimize_vmemmap", "0")]);
    assert_eq!(changed, format!("{own}; that was with another machine and other settings"));
}

#[test]
fn a_single_variant_has_nothing_to_be_compared_with() {
    assert_eq!(compare(&["build_time"], &[("pcp-base", [1.0; 3])]).time, None);
}
