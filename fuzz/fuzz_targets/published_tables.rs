//! Any text is a file of published tables or an error; what is accepted can be compared with what was observed, here nothing.

#![no_main]

use lab::published::{Observations, Printed, Publication, Report, needs, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Printed::parse(text);
    let Ok(tables) = parse("fuzz.toml", text) else { return };
    let _ = tables.iter().filter_map(|table| Publication::of_table(&table.id)).count();
    let _ = needs(&tables);
    let _ = Report::new(&tables, &Observations::default());
});
