//! Tests that changes are against the first variant, in pairs of equal seeds.

use super::*;
use crate::experiment::Experiment;
use sim::metric::{BUILD_TIME, SCORE};
use sim::outcome::Outcome;

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
fn a_single_variant_has_nothing_to_be_compared_with() {
    assert_eq!(compare(&["build_time"], &[("pcp-base", [1.0; 3])]).time, None);
}
