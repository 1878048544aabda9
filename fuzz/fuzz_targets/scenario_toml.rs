//! Any text is a scenario or an error; an accepted scenario has a run for each of its variants, or is too large for the
//! machine. crates/cli/tests/command_fuzz makes such runs. Any text is also a program of `verify numa --program` or an error.

#![no_main]

use lab::scenario::{Scenario, load_machine, parse_program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    drop(parse_program("fuzz", text));
    let Ok(scenario) = Scenario::parse("fuzz", text) else { return };
    let machine = load_machine("intel-2s-224").expect("a built-in machine");
    for variant in &scenario.variants {
        drop(scenario.run(variant, 1, &machine, &Default::default()));
    }
});
