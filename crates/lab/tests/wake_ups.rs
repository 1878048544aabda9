//! Who is woken does not wait for what another CPU is in the middle of.

use lab::scenario::{Scenario, load_machine};
use std::collections::BTreeMap;

/// Programs that free hundreds of megabytes at once and start anew, beside a service whose threads sleep on CPUs nearby. Most CPUs are
/// idle: none of its threads waits for one.
#[test]
fn a_thread_that_is_woken_runs_on_an_idle_cpu() {
    let mut scenario = Scenario::load("crowded-host").unwrap();
    let host = &mut scenario.workload;
    host.programs.retain(|program| ["service", "java"].contains(&program.name.as_str()));
    host.events.clear();
    (host.held_mib, host.milliseconds) = (0, 6000);
    for program in &mut host.programs {
        program.copies = program.copies.min(6);
    }
    let mut machine = load_machine(&scenario.machine).unwrap();
    (machine.topology.cores_per_socket, machine.topology.threads_per_core) = (16, 1);
    machine.topology.memory_mib_per_node = 8192;
    let run = scenario.run("mainline-6.1", 1, &machine, &BTreeMap::new()).unwrap();
    let outcome = sim::run(&run).unwrap();
    let of = |name: &str| outcome.programs.iter().find(|program| program.name == name).unwrap();
    assert!(of("java").transactions >= 12, "{:?}", of("java"));
    let longest = of("service").delays.get("run_queue").map_or(0.0, |of| of.latency_us["max"]);
    assert!(longest < 200.0, "{longest} us");
}
