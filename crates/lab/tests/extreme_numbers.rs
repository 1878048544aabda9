//! Tests that every number in a scenario, a machine or a setting is accepted, or refused by an error that
//! names the key.
//!
//! ```text
//!   scenarios/*.toml, machines/*.toml      each number in them, one at a time
//!          │                                        │
//!          └──────────── text with 18446744073709551616, NaN, -1, "", 1e400 ... in its place
//!                                                   │
//!                         parse ─► check ─► the run of the first variant on its machine, checked but not made
//! ```
//!
//! Accepted numbers are not run here; the fuzzer of the command does that (crates/cli/tests/command_fuzz/).

use lab::scenario::{Scenario, load_machine};
use machine::{PageSize, Profile};
use mm::{SETTINGS, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use workload::keys::{Key, Takes, Value};

/// Values that break unchecked code: limits of types and one beyond them, values that floating point cannot
/// represent, and texts that are not numbers.
const EXTREMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "255",
    "256",
    "32767",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967294",
    "4294967295",
    "4294967296",
    "72057594037927936",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "0xffffffffffffffffffff",
    "0.5",
    "1.5",
    "1e-308",
    "1e308",
    "-1e308",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "\"\"",
    "\"1\"",
    "[]",
    "true",
];

/// A number in a TOML text.
struct Number {
    /// Its key, such as `workload.programs[0].program.groups[0].mib`.
    key: String,
    place: Range<usize>,
}

/// Collects all numbers in a value.
fn collect(value: &DeValue, key: &str, place: Range<usize>, numbers: &mut Vec<Number>) {
    match value {
        DeValue::Integer(_) | DeValue::Float(_) => numbers.push(Number { key: key.into(), place }),
        DeValue::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                collect(value.get_ref(), &format!("{key}[{at}]"), value.span(), numbers);
            }
        }
        DeValue::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() {
                    name.get_ref().to_string()
                } else {
                    format!("{key}.{}", name.get_ref())
                };
                collect(value.get_ref(), &key, value.span(), numbers);
            }
        }
        _ => {}
    }
}

fn numbers(text: &str) -> Vec<Number> {
    let document = DeValue::Table(DeTable::parse(text).unwrap().into_inner());
    let mut numbers = Vec::new();
    collect(&document, "", 0..0, &mut numbers);
    numbers
}

/// The name that an error must contain: for the number of a figure the figure's key, for an entry of a list
/// the list's key.
fn name(key: &str) -> &str {
    let key = key.strip_suffix(".value").unwrap_or(key);
    let key = key.split(".range[").next().unwrap_or(key);
    let last = key.rsplit('.').next().unwrap_or(key);
    last.split('[').next().unwrap_or(last)
}

/// Whether an error identifies the key: by its name, or by its line if the type is wrong.
fn names(error: &str, key: &str) -> bool {
    error.contains(name(key)) || error.contains("TOML parse error at line") || error.contains(": line ")
}

/// The text with another number.
fn changed(text: &str, number: &Number, value: &str) -> String {
    format!("{}{value}{}", &text[..number.place.start], &text[number.place.end..])
}

fn texts(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let text = |path: &std::path::PathBuf| {
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
    };
    paths.iter().map(text).collect()
}

/// The checks that the command makes before the first run.
fn check(text: &str, machine: &Profile) -> Result<(), String> {
    let scenario = Scenario::parse("extreme.toml", text).map_err(|error| error.to_string())?;
    let run = scenario.run(&scenario.variants[0], 1, machine, &BTreeMap::new());
    run.map(drop).map_err(|error| error.to_string())
}

#[test]
fn extreme_numbers_of_scenarios_are_taken_or_refused_by_name() {
    let (mut cases, mut refused, mut nameless) = (0, 0, Vec::new());
    for (scenario, text) in texts("scenarios") {
        let machine = load_machine(&Scenario::load(&scenario).unwrap().machine).unwrap();
        assert_eq!(check(&text, &machine), Ok(()), "{scenario}");
        for number in numbers(&text) {
            for value in EXTREMES {
                cases += 1;
                let Err(error) = check(&changed(&text, &number, value), &machine) else { continue };
                refused += 1;
                if !names(&error, &number.key) {
                    nameless.push(format!("{scenario}: {} = {value}: {error}", number.key));
                }
            }
        }
    }
    assert!(nameless.is_empty(), "{}: {}", nameless.len(), nameless.join("\n"));
    assert!(cases > 10_000 && refused > cases / 2, "{refused} of {cases}");
}

/// Collects the keys with numbers below a key that takes `takes`, as far as `value` has them, with their
/// bounds.
fn bounded(takes: Takes, value: &DeValue, key: &str, found: &mut Vec<(String, f64, f64, bool)>) {
    let table = |keys: &'static [Key], found: &mut Vec<_>| {
        let Some(table) = value.as_table() else { return };
        for known in keys {
            let Some(value) = table.get(known.name) else { continue };
            let key = if key.is_empty() { known.name.to_string() } else { format!("{key}.{}", known.name) };
            bounded(known.takes, value.get_ref(), &key, found);
        }
    };
    match (takes, value) {
        (Takes::Number(numbers), DeValue::Integer(_) | DeValue::Float(_)) => {
            found.push((key.into(), numbers.bounds.least, numbers.bounds.most, numbers.whole));
        }
        (Takes::Number(_), DeValue::Table(figure)) => {
            bounded(takes, figure["value"].get_ref(), &format!("{key}.value"), found);
        }
        (_, DeValue::Array(values)) => {
            for (at, value) in values.iter().enumerate() {
                bounded(takes, value.get_ref(), &format!("{key}[{at}]"), found);
            }
        }
        (Takes::Table(keys), _) => table(keys, found),
        (Takes::Kinds(kinds), _) => {
            let kind = value.as_table().unwrap()["kind"].get_ref().as_str().unwrap();
            let (_, takes) = kinds.iter().find(|(known, _)| *known == kind).unwrap();
            bounded(*takes, value, key, found);
        }
        _ => {}
    }
}

#[test]
fn every_number_of_a_scenario_has_bounds_that_are_kept() {
    for (scenario, text) in texts("scenarios") {
        let document = DeValue::Table(DeTable::parse(&text).unwrap().into_inner());
        let (mut found, mut all) = (Vec::new(), numbers(&text));
        bounded(Scenario::TAKES, &document, "", &mut found);
        all.retain(|number| !number.key.contains(".range["));
        assert_eq!(
            found.iter().map(|(key, ..)| key.clone()).collect::<BTreeSet<_>>(),
            all.iter().map(|number| number.key.clone()).collect::<BTreeSet<_>>(),
            "{scenario}: these and no others have bounds"
        );
        for (key, least, most, whole) in found {
            let number = all.iter().find(|number| number.key == key).unwrap();
            let step = if whole { 1.0 } else { 1e-3 * most };
            for value in [least - step, most + step] {
                let value = if whole { value.to_string() } else { format!("{value:?}") };
                let error =
                    Scenario::parse("extreme.toml", &changed(&text, number, &value)).unwrap_err().to_string();
                let limits = format!("from {least} to {most}");
                assert!(error.contains(&limits) && error.contains(name(&key)), "{scenario}: {key}: {error}");
                let line = 1 + text[..number.place.start].matches('\n').count();
                assert!(
                    error.starts_with(&format!("extreme.toml: line {line}: ")),
                    "{scenario}: {key}: {error}"
                );
            }
        }
    }
}

#[test]
fn extreme_figures_of_machines_are_taken_or_refused_by_name() {
    let (mut cases, mut tried) = (0, BTreeSet::new());
    for (machine, text) in texts("machines") {
        for number in numbers(&text) {
            // The checks do not depend on the machine, so each key is tried once.
            if !tried.insert(number.key.split(".range[").next().unwrap().to_string()) {
                continue;
            }
            for value in EXTREMES {
                cases += 1;
                match Profile::parse(&changed(&text, &number, value)) {
                    Ok(profile) => drop((profile.costs(), profile.topology())),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(names(&error, &number.key), "{machine}: {} = {value}: {error}", number.key);
                    }
                }
            }
        }
    }
    assert!(cases > 5_000, "{cases}");
}

#[test]
fn extreme_values_of_settings_are_taken_or_refused_by_name() {
    let empty = ["", " ", "1 2", "0 0 0 0", "9999999999999999999 0 0 0", "K", "64K:always;", "always"];
    for setting in SETTINGS {
        for value in EXTREMES.iter().chain(&empty) {
            for size in PageSize::ALL {
                let value = value.trim_matches('"');
                if let Err(error) = Settings::new(size).set(setting.name, value) {
                    assert!(error.to_string().contains(setting.name), "{}={value}: {error}", setting.name);
                }
            }
        }
    }
}
