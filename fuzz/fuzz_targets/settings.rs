//! Any line `set KEY=VALUE` or `write FILE=VALUE` is what the kernel takes or an error, and what it takes can be run.

#![no_main]

use lab::scenario::Scenario;
use sim::Workload;
use libfuzzer_sys::fuzz_target;
use machine::Profile;
use std::collections::BTreeMap;

const MACHINE: &str = include_str!("../../crates/cli/tests/cmd/hugetlb.in/machine.toml");
const SCENARIO: &str = include_str!("../../crates/cli/tests/cmd/hugetlb.in/pool.toml");

fuzz_target!(|text: &str| {
    let machine = Profile::parse(MACHINE).expect("a machine");
    let mut scenario = Scenario::parse("pool", SCENARIO).expect("a scenario");
    let Workload::KernelWrites(pool) = &mut scenario.workload else { unreachable!() };
    pool.writes.clear();
    let mut changes = BTreeMap::new();
    for line in text.lines().take(8) {
        if let Some(write) = line.strip_prefix("write ") {
            pool.writes.push(write.into());
        } else if let Some((key, value)) = line.strip_prefix("set ").and_then(|set| set.split_once('=')) {
            changes.insert(key.trim().to_string(), value.trim().to_string());
        }
    }
    for variant in ["pcp-base", "mainline-6.18"] {
        if let Ok(run) = scenario.run(variant, 1, &machine, &changes) {
            let _ = sim::run(&run);
        }
    }
});
