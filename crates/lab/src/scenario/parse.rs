//! From the text of a scenario to a scenario, or to an error that says where and what would be right.
//!
//! ```text
//!   text ─► serde ─► Scenario ─► bounds of each number ─► what goes together ─► names of machines, variants, metrics
//!             │
//!             └ refuses: a number that is too large for its type? then what the key takes; else what serde says
//! ```

use super::former::present_form;
use super::{Scenario, ScenarioError, THIS_MACHINE, is_path, list, machine_names};
use machine::profile::line_of;
use machine::{PageSize, WrongValue};
use sim::metric::{METRICS, Metric};
use sim::{KernelChoice, KernelError, Workload};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use workload::keys::{Numbers, Takes, Value, below};
use workload::threads::ProgramSpec;

/// What is wrong with the keys of a table that has a kind, with their places.
fn place_in<'t>(
    mut table: Spanned<DeValue<'t>>,
    error_in: fn(&str, ValueDeserializer<'t>) -> Option<toml::de::Error>,
) -> Option<toml::de::Error> {
    let DeValue::Table(keys) = table.get_mut() else { return None };
    let kind = keys.remove("kind")?.into_inner();
    error_in(kind.as_str()?, table.into())
}

/// What is wrong with the workload of a scenario, with its place: first with a table in it that has a kind of its own.
fn place_in_workload(text: &str) -> Option<toml::de::Error> {
    let workload = DeTable::parse(text).ok()?.into_inner().remove("workload")?;
    let part = |key: &str| workload.get_ref().as_table()?.get(key).cloned();
    let programs = part("programs").and_then(|programs| {
        programs.get_ref().as_array()?.iter().find_map(|program| {
            let program = program.get_ref().as_table()?.get("program")?.clone();
            place_in(program, workload::tasks::ProgramSpec::error_in)
        })
    });
    let mut error = part("program")
        .and_then(|program| place_in(program, ProgramSpec::error_in))
        .or(programs)
        .or_else(|| place_in(workload.clone(), Workload::error_in))?;
    error.set_input(Some(text));
    Some(error)
}

/// Longer values are cut in errors.
const SHOWN: usize = 60;

/// A value as an error shows it.
fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.into(),
    }
}

/// What is wrong with a number as it is written, if its key does not take it.
fn wrong_number(value: &DeValue, key: &str, takes: &Numbers) -> Option<WrongValue> {
    let (written, number, is_whole) = match value {
        DeValue::Integer(integer) => {
            let number = i128::from_str_radix(integer.as_str(), integer.radix());
            // What 128 bits cannot hold is outside of all bounds.
            (integer.to_string(), number.map_or(f64::INFINITY, |number| number as f64), true)
        }
        DeValue::Float(float) => (float.to_string(), float.as_str().parse().unwrap_or(f64::NAN), false),
        DeValue::Table(figure) => return wrong_number(figure.get("value")?.get_ref(), key, takes),
        DeValue::Array(values) => {
            let mut values = values.iter().enumerate();
            return values
                .find_map(|(at, value)| wrong_number(value.get_ref(), &format!("{key}[{at}]"), takes));
        }
        _ => return None,
    };
    let is_right = takes.bounds.contain(number) && (is_whole || !takes.whole);
    (!is_right).then(|| takes.refuse(key, shown(&written)))
}

/// The first number of a value that its key does not take.
fn first_wrong_number(value: &DeValue, key: &str, takes: Takes) -> Option<WrongValue> {
    if let DeValue::Array(values) = value
        && !matches!(takes, Takes::Number(_))
    {
        let mut values = values.iter().enumerate();
        return values
            .find_map(|(at, value)| first_wrong_number(value.get_ref(), &format!("{key}[{at}]"), takes));
    }
    match takes {
        Takes::NoNumber => None,
        Takes::Number(takes) => wrong_number(value, key, &takes),
        Takes::Table(keys) => {
            let table = value.as_table()?;
            keys.iter().find_map(|known| {
                first_wrong_number(table.get(known.name)?.get_ref(), &below(key, known.name), known.takes)
            })
        }
        Takes::Kinds(kinds) => {
            let kind = value.as_table()?.get("kind")?.get_ref().as_str()?;
            let (_, takes) = kinds.iter().find(|(known, _)| *known == kind)?;
            first_wrong_number(value, key, *takes)
        }
    }
}

/// The error for a wrong value in `text`, with its line where the key stands there; `place` is what the text is called.
pub fn wrong_value(place: &str, text: &str, wrong: WrongValue) -> ScenarioError {
    let WrongValue { key, value, expected } = wrong;
    let line = line_of(text, &key).map_or(String::new(), |line| format!("line {line}: "));
    ScenarioError::OutOfRange(WrongValue::new(format!("{place}: {line}{key}"), shown(&value), expected))
}

/// Reads and checks a file that has the keys of a scenario's `[workload.program]` and nothing else; `place` is named in errors.
pub fn parse_program(place: &str, text: &str) -> Result<ProgramSpec, ScenarioError> {
    let refuse = |wrong: WrongValue| wrong_value(place, text, wrong);
    let error = match toml::from_str::<ProgramSpec>(text) {
        Ok(program) => return program.check().map(|()| program).map_err(refuse),
        Err(error) => error,
    };
    let Ok(document) = DeTable::parse(text) else {
        return Err(ScenarioError::Syntax { place: place.into(), text: error.to_string() });
    };
    let table = Spanned::new(document.span(), DeValue::Table(document.into_inner()));
    if let Some(number) = first_wrong_number(table.get_ref(), "", ProgramSpec::TAKES) {
        return Err(refuse(number));
    }
    let mut error = place_in(table, ProgramSpec::error_in).unwrap_or(error);
    error.set_input(Some(text));
    Err(ScenarioError::Syntax { place: place.into(), text: error.to_string() })
}

impl Scenario {
    /// Reads and checks a scenario; `place` is named in errors.
    pub fn parse(place: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let refused = |wrong: WrongValue| Err(wrong_value(place, text, wrong));
        let scenario: Scenario = match toml::from_str(text) {
            Ok(scenario) => scenario,
            Err(error) => {
                if let Some(present) = present_form(text) {
                    let expected = format!(
                        "`host` since programs can run side by side. As it is written now:\n\n{present}"
                    );
                    return refused(WrongValue::new("workload.kind", "paging", expected));
                }
                let document = DeTable::parse(text).map(|document| DeValue::Table(document.into_inner()));
                let number = document.ok().and_then(|all| first_wrong_number(&all, "", Scenario::TAKES));
                if let Some(number) = number {
                    return refused(number);
                }
                let error = place_in_workload(text).unwrap_or(error);
                return Err(ScenarioError::Syntax { place: place.into(), text: error.to_string() });
            }
        };
        if let Err(error) = scenario.check_bounds("").and_then(|()| scenario.workload.check()) {
            return refused(error);
        }
        if scenario.metrics.is_empty() {
            let expected = "at least one of those that `mmtwin list metrics` shows";
            return refused(WrongValue::new("metrics", "[]", expected));
        }
        let asked = |error: ScenarioError| {
            let key = match error {
                ScenarioError::UnknownMachine { .. } => "machine",
                ScenarioError::Kernel(KernelError::UnknownSeries { .. }) => "series",
                _ => "variants",
            };
            ScenarioError::Asked { place: place.into(), key, error: Box::new(error) }
        };
        let machine = &scenario.machine;
        if !is_path(machine) && machine != THIS_MACHINE && !machine_names().any(|known| known == machine) {
            return Err(asked(ScenarioError::UnknownMachine { name: machine.clone() }));
        }
        for variant in &scenario.variants {
            let choice =
                KernelChoice::parse(&scenario.series, variant).map_err(|error| asked(error.into()))?;
            // On which machine it will run is not known yet.
            let check =
                |&size: &PageSize| choice.settings(size, &scenario.settings, &BTreeMap::new()).is_ok();
            if !PageSize::ALL.iter().any(check) {
                choice.settings(PageSize::Kib4, &scenario.settings, &BTreeMap::new())?;
            }
        }
        if let Some(wrong) = wrong_metric(&scenario) {
            return refused(wrong);
        }
        Ok(scenario)
    }
}

/// A metric of a scenario that none of its runs could have.
fn wrong_metric(scenario: &Scenario) -> Option<WrongValue> {
    if let Some(unknown) = scenario.metrics.iter().find(|name| Metric::find(name).is_none()) {
        let known = list(METRICS.iter().map(|metric| metric.name));
        return Some(WrongValue::new("metrics", unknown, format!("one of {known}")));
    }
    let kind = scenario.workload.kind();
    let never = |metric: &Metric| metric.why_not_measured(kind).is_some();
    if let Some(metric) =
        scenario.metrics.iter().find(|name| Metric::find(name).is_some_and(|metric| never(&metric)))
    {
        let measured = METRICS.iter().filter(|metric| !never(metric)).map(|metric| metric.name);
        let expected = format!("one that workloads of kind {kind} have: {}", list(measured));
        return Some(WrongValue::new("metrics", metric, expected));
    }
    let programs = match &scenario.workload {
        Workload::Host(host) => host.reported(),
        _ => Vec::new(),
    };
    let is_of_another = |metric: &Metric| metric.program().is_some_and(|name| !programs.contains(&name));
    let known = |name: &String| Metric::find(name).is_none_or(|metric| !is_of_another(&metric));
    if let Some(metric) = scenario.metrics.iter().find(|name| !known(name)) {
        let expected = format!("METRIC@PROGRAM with one of {}", list(programs.iter().copied()));
        return Some(WrongValue::new("metrics", metric, expected));
    }
    None
}
