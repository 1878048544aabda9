//! From the text of a scenario to a scenario, or to an error that says where and what would be right.
//!
//! ```text
//!   text ─► serde ─► Scenario ─► bounds of each number, what goes together, names of machines, variants, metrics: all that is wrong
//!             │
//!             └ refuses: all keys and numbers that are wrong (mistakes.rs); if there are none, what serde says in other words
//! ```

use super::former::wrong_kind;
use super::mistakes::{Mistake, in_own_words, mistakes, shown};
use super::{Scenario, ScenarioError, THIS_MACHINE, is_path, list, machine_names};
use machine::profile::line_of;
use machine::{PageSize, WrongValue};
use mm::Series;
use sim::KernelChoice;
use sim::metric::of_program::PROCESSES_KILLED;
use sim::metric::{METRICS, Metric};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use workload::keys::{Takes, Value};
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

/// What is wrong with a program of a scenario, with its place.
fn place_in_programs(text: &str) -> Option<toml::de::Error> {
    let workload = DeTable::parse(text).ok()?.into_inner().remove("workload")?;
    let programs = workload.get_ref().as_table()?.get("programs")?;
    let mut error = programs.get_ref().as_array()?.iter().find_map(|program| {
        let program = program.get_ref().as_table()?.get("program")?.clone();
        place_in(program, workload::tasks::ProgramSpec::error_in)
    })?;
    error.set_input(Some(text));
    Some(error)
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
    let Ok(document) = DeTable::parse(text) else { return Err(syntax(place, text, &error)) };
    let table = Spanned::new(document.span(), DeValue::Table(document.into_inner()));
    one_or_several(wrong_keys(place, text, ProgramSpec::TAKES))?;
    Err(syntax(place, text, &place_in(table, ProgramSpec::error_in).unwrap_or(error)))
}

/// What the parser says of a text.
pub(crate) fn syntax(place: &str, text: &str, error: &toml::de::Error) -> ScenarioError {
    ScenarioError::Syntax { text: in_own_words(place, text, error) }
}

/// All keys and numbers of a text that are wrong.
pub(crate) fn wrong_keys(place: &str, text: &str, takes: Takes) -> Vec<ScenarioError> {
    let located = |mistake: &Mistake| ScenarioError::Syntax { text: mistake.located(place, text) };
    let mut all = mistakes(text, takes);
    all.sort_by_key(|mistake| mistake.line(text));
    all.iter().map(located).collect()
}

/// Some errors as one; none if there are none.
pub fn one_or_several(mut errors: Vec<ScenarioError>) -> Result<(), ScenarioError> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(ScenarioError::Several(errors)),
    }
}

impl Scenario {
    /// Reads and checks a scenario; `place` is named in errors.
    pub fn parse(place: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = match toml::from_str(text) {
            Ok(scenario) => scenario,
            Err(error) => {
                if let Some(wrong) = wrong_kind(text) {
                    return Err(wrong_value(place, text, wrong));
                }
                one_or_several(wrong_keys(place, text, Scenario::TAKES))?;
                return Err(syntax(place, text, &place_in_programs(text).unwrap_or(error)));
            }
        };
        one_or_several(scenario.wrong(place, text))?;
        Ok(scenario)
    }

    /// What is wrong with a scenario that could be read.
    fn wrong(&self, place: &str, text: &str) -> Vec<ScenarioError> {
        let refused = |wrong: WrongValue| wrong_value(place, text, wrong);
        let asked = |key, error| ScenarioError::Asked { place: place.into(), key, error: Box::new(error) };
        let mut errors = Vec::new();
        errors.extend(
            self.check_bounds("")
                .and_then(|()| self.workload.check().map_err(|wrong| wrong.within("workload")))
                .err()
                .map(refused),
        );
        if self.metrics.is_empty() {
            let expected = "at least one of those that `mmtwin list metrics` shows";
            errors.push(refused(WrongValue::new("metrics", "[]", expected)));
        }
        let machine = &self.machine;
        if !is_path(machine) && machine != THIS_MACHINE && !machine_names().any(|known| known == machine) {
            errors.push(asked("machine", ScenarioError::UnknownMachine { name: machine.clone() }));
        }
        for variant in &self.variants {
            let key = if Series::find(&self.series).is_some() { "variants" } else { "series" };
            match self.choice(variant) {
                Err(error) => errors.push(asked(key, error)),
                Ok(choice) => {
                    errors.extend(self.wrong_setting(&choice).map(|error| asked("settings", error)))
                }
            }
        }
        errors.extend(wrong_metric(self).map(refused));
        // One wrong series or setting is wrong of each variant.
        let mut told: Vec<String> = Vec::new();
        errors.retain(|error| {
            let text = error.to_string();
            let is_new = !told.contains(&text);
            told.push(text);
            is_new
        });
        errors
    }

    /// What no machine could take of the settings; on which it will run is not known yet.
    fn wrong_setting(&self, choice: &KernelChoice) -> Option<ScenarioError> {
        let check = |&size: &PageSize| choice.settings(size, &self.settings, &BTreeMap::new());
        match PageSize::ALL.iter().any(|size| check(size).is_ok()) {
            true => None,
            false => check(&PageSize::Kib4).err().map(ScenarioError::from),
        }
    }

    /// The programs that have metrics of their own.
    fn programs(&self) -> Vec<&str> {
        self.workload.reported()
    }

    /// How many processes of each program the OOM killer has killed, where programs have that.
    pub fn kills(&self) -> impl Iterator<Item = Metric> {
        let kills = self.programs().into_iter().map(|program| PROCESSES_KILLED.of(program));
        kills.filter(|metric| self.may_measure(metric))
    }

    /// Whether its runs may have a metric.
    pub fn may_measure(&self, metric: &Metric) -> bool {
        self.why_not_measured(metric).is_none()
    }

    /// Why its runs never have a metric; `None` if they may.
    pub fn why_not_measured(&self, metric: &Metric) -> Option<String> {
        metric.why_not_measured().or_else(|| {
            let programs = self.programs();
            let name = metric.program().filter(|name| !programs.contains(name))?;
            Some(format!("{} has no program {name}; it has {}", self.name, list(programs.into_iter())))
        })
    }
}

/// A metric of a scenario that none of its runs could have.
fn wrong_metric(scenario: &Scenario) -> Option<WrongValue> {
    if let Some(unknown) = scenario.metrics.iter().find(|name| Metric::find(name).is_none()) {
        let like = Metric::most_like(unknown);
        let expected = format!("a metric that `mmtwin list metrics` shows; most like it: {like}");
        return Some(WrongValue::new("metrics", unknown, expected));
    }
    let never = |metric: &Metric| metric.only_published;
    if let Some(metric) =
        scenario.metrics.iter().find(|name| Metric::find(name).is_some_and(|metric| never(&metric)))
    {
        let measured = METRICS.iter().filter(|metric| !never(metric)).map(|metric| metric.name);
        let expected = format!("one that runs have: {}", list(measured));
        return Some(WrongValue::new("metrics", metric, expected));
    }
    let programs = scenario.programs();
    let known = |name: &String| Metric::find(name).is_none_or(|metric| scenario.may_measure(&metric));
    if let Some(metric) = scenario.metrics.iter().find(|name| !known(name)) {
        let expected = format!("METRIC@PROGRAM with one of {}", list(programs.iter().copied()));
        return Some(WrongValue::new("metrics", metric, expected));
    }
    None
}
