//! Any line `set KEY=VALUE` or `write FILE=VALUE` is what the kernel takes or an error, and what it takes can be run. Any line
//! `vary KEY=VALUES` makes arms or an error.

#![no_main]

use lab::experiment::Experiment;
use lab::experiment::varied::Varied;
use lab::scenario::{Scenario, ScenarioError, load_machine};
use libfuzzer_sys::fuzz_target;
use machine::Profile;
use sim::host::HostEvent;
use std::collections::BTreeMap;

const MACHINE: &str = include_str!("../../crates/cli/tests/cmd/hugetlb.in/machine.toml");
const SCENARIO: &str = include_str!("../../crates/cli/tests/cmd/hugetlb.in/pool.toml");

fuzz_target!(|text: &str| {
    let machine = Profile::parse(MACHINE).expect("a machine");
    let mut scenario = Scenario::parse("pool", SCENARIO).expect("a scenario");
    let pool = &mut scenario.workload;
    pool.events.clear();
    let mut changes = BTreeMap::new();
    for line in text.lines().take(8) {
        if let Some(write) = line.strip_prefix("write ") {
            pool.events.push(HostEvent { milliseconds: 0, write: write.into() });
        } else if let Some((key, value)) = line.strip_prefix("set ").and_then(|set| set.split_once('=')) {
            changes.insert(key.trim().to_string(), value.trim().to_string());
        } else if let Some(values) = line.strip_prefix("vary ") {
            vary(values);
        }
    }
    for variant in ["pcp-base", "mainline-6.18"] {
        if let Ok(run) = scenario.run(variant, 1, &machine, &changes) {
            let _ = sim::run(&run);
        }
    }
});

fn vary(values: &str) {
    let Ok(varied) = Varied::parse::<ScenarioError>(values, &load_machine) else { return };
    let mut experiment = Experiment::of("page_fault1", Some(1)).expect("a built-in scenario");
    experiment.variants.truncate(1);
    experiment.varied = vec![varied];
    drop(experiment.runs());
}
