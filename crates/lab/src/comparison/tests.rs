//! Changes are against the first variant, in pairs of equal seeds.

use super::*;
use crate::scenario::load_machine;
use sim::metric::{BUILD_TIME, SCORE};
use sim::outcome::Outcome;

fn records(scenario: &Scenario, values: &[(&str, [f64; 3])]) -> Vec<Record> {
    let machine = load_machine(&scenario.machine).unwrap();
    let mut records = Vec::new();
    for (variant, by_seed) in values {
        for (index, &value) in by_seed.iter().enumerate() {
            let run = scenario.run(variant, index as u64 + 1, &machine, &BTreeMap::new()).unwrap();
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
    let mut scenario = Scenario::load("page_fault1").unwrap();
    scenario.metrics = metrics.iter().map(|name| name.to_string()).collect();
    let variants: Vec<String> = values.iter().map(|(name, _)| name.to_string()).collect();
    Comparison::new(&scenario, &variants, &records(&scenario, values))
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
    assert!(change.significant && (change.ratio.unwrap() - 0.9).abs() < 1e-12);
    assert!(!patch9.metrics["build_time"].change.unwrap().significant);
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
    // The higher, the better.
    assert_eq!(compare(&["score"], &values).time.unwrap().to, "patch9");
}

#[test]
fn a_single_variant_has_nothing_to_be_compared_with() {
    assert_eq!(compare(&["build_time"], &[("pcp-base", [1.0; 3])]).time, None);
}
