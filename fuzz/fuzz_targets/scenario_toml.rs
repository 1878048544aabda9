//! Any text is a scenario or an error; an accepted scenario has a run for each of its variants.

#![no_main]

use lab::scenario::{Scenario, load_machine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(scenario) = Scenario::parse("fuzz", text) else { return };
    let machine = load_machine("intel-2s-224").expect("a built-in machine");
    for variant in &scenario.variants {
        scenario.run(variant, 1, &machine, &Default::default()).expect("what parses can be run");
    }
});
