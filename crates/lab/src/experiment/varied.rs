//! What an experiment varies besides the kernel, and the arms that follow.
//!
//! ```text
//!   variants 6.12, 6.18    vm.swappiness=0,60    workload.swap_mib=512,1024
//!        │                      │                     │
//!        └──────────────────────┴─────────────────────┴──► 2 * 2 * 2 arms; the first is what the others are compared with
//! ```
//!
//! A key is `scenario`, `machine`, `memory` (of all nodes), a kernel setting, a feature of the kernel (`features.mglru.types_apart`),
//! or a key of the scenario's or the machine's file: `workload.swap_mib`, `machine.topology.cores_per_socket`. Keys of files go through the same checks as the files do.

use crate::scenario::{Scenario, ScenarioError};
use machine::{Profile, WrongValue};
use mm::SETTINGS;
use mm::features::by_name::Feature;
use mm::file_name::short;
use mm::sysctl::meant;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sim::KernelChoice;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A key with the values that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Varied {
    /// The key as it was given.
    pub key: String,
    /// The values, the first being the base.
    pub levels: Vec<Level>,
}

/// A value of a varied key.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The value as it was given.
    pub value: String,
    change: LevelChange,
}

/// What a value changes about an arm.
#[derive(Clone, Debug, PartialEq)]
enum LevelChange {
    Scenario(Box<(Scenario, Profile)>),
    Machine(Box<Profile>),
    /// Memory of all nodes together, MiB.
    Memory(u64),
    Setting,
    /// A feature of the kernel, as [`mm::Features::set`] takes it.
    Feature(String),
    KeyOfScenario(toml::Value),
    KeyOfMachine(String, toml::Value),
}

/// A kernel on a machine with a scenario and settings: what runs with each seed.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The variant and the values of varied keys, as far as arms differ in them.
    pub name: String,
    /// The scenario.
    pub scenario: Scenario,
    /// The machine.
    pub machine: Profile,
    /// The variant.
    pub variant: String,
    /// Settings beyond the scenario's.
    pub changes: BTreeMap<String, String>,
    /// The value of each varied key.
    pub levels: Vec<(String, String)>,
}

/// Keys that are neither settings nor keys of files.
pub const OWN_KEYS: [&str; 3] = [SCENARIO, MACHINE, MEMORY];
const SCENARIO: &str = "scenario";
const MACHINE: &str = "machine";
const MEMORY: &str = "memory";
/// What precedes keys of the scenario's workload.
const WORKLOAD: &str = "workload";
/// What precedes features of the kernel: `features.mglru.types_apart`.
pub const FEATURES: &str = "features";

/// The key that a user names: a file of the kernel is its setting, and `programs[0]`, as errors write it, is `programs.0`.
pub fn key_named(key: &str) -> String {
    short(key.trim()).replace('[', ".").replace(']', "")
}

/// The name of a variant with features of its own besides: `FEATURE=VALUE`, several joined by `+`.
pub fn with_features(variant: &str, features: &str) -> String {
    let separator = if variant.contains(':') { '+' } else { ':' };
    format!("{variant}{separator}{features}")
}

impl Varied {
    /// Takes `KEY=V1,V2,...` apart. Machines are found by `load_machine`, which may know more than [`crate::scenario::load_machine`].
    pub fn parse<E: From<ScenarioError>>(
        text: &str,
        load_machine: &dyn Fn(&str) -> Result<Profile, E>,
    ) -> Result<Varied, E> {
        let wrong = |expected: &str| -> E {
            ScenarioError::Vary { text: text.into(), expected: expected.into() }.into()
        };
        let (key, values) =
            text.split_once('=').ok_or_else(|| wrong("KEY=V1,V2,..., for example vm.swappiness=60,0,200"))?;
        let key = &key_named(key);
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        if values.iter().any(|value| value.is_empty()) {
            return Err(wrong("a value before and after each comma"));
        }
        if let Some(at) = (1..values.len()).find(|&at| values[..at].contains(&values[at])) {
            return Err(wrong(&format!("each value once; {} is there twice", values[at])));
        }
        Varied::of(key, &values, load_machine)
    }

    /// A key with these values, each given once.
    pub fn of<E: From<ScenarioError>>(
        key: &str,
        values: &[impl AsRef<str>],
        load_machine: &dyn Fn(&str) -> Result<Profile, E>,
    ) -> Result<Varied, E> {
        let level = |value: &str| -> Result<Level, E> {
            Ok(Level { value: value.into(), change: LevelChange::of(key, value, load_machine)? })
        };
        let levels = values.iter().map(|value| level(value.as_ref())).collect::<Result<_, _>>()?;
        Ok(Varied { key: key.into(), levels })
    }
}

impl LevelChange {
    fn of<E: From<ScenarioError>>(
        key: &str,
        value: &str,
        load_machine: &dyn Fn(&str) -> Result<Profile, E>,
    ) -> Result<LevelChange, E> {
        if SETTINGS.iter().any(|setting| setting.name == key) {
            return Ok(LevelChange::Setting);
        }
        Ok(match key {
            SCENARIO => {
                let scenario = Scenario::load(value)?;
                let machine = load_machine(&scenario.machine)?;
                LevelChange::Scenario(Box::new((scenario, machine)))
            }
            MACHINE => LevelChange::Machine(Box::new(load_machine(value)?)),
            MEMORY => LevelChange::Memory(mebibytes(value)?),
            _ => match key.split_once('.') {
                Some((FEATURES, path)) => LevelChange::Feature(path.into()),
                Some((MACHINE, key)) => LevelChange::KeyOfMachine(key.into(), toml_value(value)),
                Some((WORKLOAD, _)) => LevelChange::KeyOfScenario(toml_value(value)),
                _ => return Err(unknown_key(key, &keys_of_all()).into()),
            },
        })
    }

    fn apply(&self, key: &str, value: &str, arm: &mut Arm) -> Result<(), ScenarioError> {
        match self {
            LevelChange::Scenario(both) => (arm.scenario, arm.machine) = (**both).clone(),
            LevelChange::Machine(machine) => arm.machine = (**machine).clone(),
            LevelChange::Memory(mib) => {
                let topology = &mut arm.machine.topology;
                topology.memory_mib_per_node = mib / u64::from(topology.nodes);
                arm.machine.check().map_err(|error| profile_error(key, value, error))?;
            }
            LevelChange::Setting => {
                arm.changes.insert(key.into(), value.into());
            }
            LevelChange::Feature(path) => {
                arm.variant = with_features(&arm.variant, &format!("{path}={value}"));
                KernelChoice::parse(&arm.scenario.series, &arm.variant)?;
            }
            LevelChange::KeyOfScenario(new) => {
                let text = with_key(&arm.scenario, key, new)
                    .ok_or_else(|| unknown_key(key, &keys_of(&arm.scenario.workload, WORKLOAD)))?;
                arm.scenario = Scenario::parse(&arm.scenario.name, &text)?;
            }
            LevelChange::KeyOfMachine(key, new) => {
                let text = with_key(&arm.machine, key, new).ok_or_else(|| {
                    unknown_key(&format!("{MACHINE}.{key}"), &keys_of(&arm.machine, MACHINE))
                })?;
                arm.machine = Profile::parse(&text).map_err(|error| profile_error(key, value, error))?;
            }
        }
        Ok(())
    }
}

fn profile_error(key: &str, value: &str, error: machine::ProfileError) -> ScenarioError {
    ScenarioError::Profile { place: format!("--vary {key}={value}"), error }
}

/// The error for a key that is none of some: one of them that it ends, that has the same last name, or that is much like it is proposed,
/// and no other.
fn unknown_key(key: &str, keys: &[String]) -> ScenarioError {
    let with_end = |end: &str| {
        let ends =
            |other: &&String| other.strip_suffix(end).is_some_and(|before| before.ends_with(['.', '/']));
        keys.iter().find(ends)
    };
    let last = key.rsplit('.').next().unwrap_or(key);
    let like = match with_end(key).or_else(|| with_end(last)) {
        Some(whole) => format!(" (do you mean {whole}?)"),
        None => meant(key, keys.iter().map(String::as_str)),
    };
    ScenarioError::UnknownKey { key: key.into(), like }
}

/// The keys of the workloads of built-in scenarios, which are read once.
static OF_WORKLOADS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let scenarios = Scenario::names().filter_map(|name| Scenario::load(name).ok());
    scenarios.flat_map(|scenario| keys_of(&scenario.workload, WORKLOAD)).collect()
});

/// All keys but those of machines' files, of whatever scenario there is.
fn keys_of_all() -> Vec<String> {
    let settings = SETTINGS.iter().map(|setting| setting.name.to_string());
    let own = OWN_KEYS.iter().map(|key| key.to_string());
    let features = Feature::all().into_iter().map(|feature| format!("{FEATURES}.{}", feature.path));
    settings.chain(own).chain(OF_WORKLOADS.iter().cloned()).chain(features).collect()
}

/// The keys of a scenario's workload and of a machine's file that can be varied.
pub fn keys_of_files(scenario: &Scenario, machine: &Profile) -> Vec<String> {
    let mut keys = keys_of(&scenario.workload, WORKLOAD);
    keys.extend(keys_of(machine, MACHINE));
    keys
}

/// The keys of a table that can be varied, with what precedes them.
fn keys_of<T: Serialize>(content: &T, above: &str) -> Vec<String> {
    let mut keys = Vec::new();
    if let Ok(content) = toml::Value::try_from(content) {
        collect_keys(&content, above, &mut keys);
    }
    keys
}

fn collect_keys(value: &toml::Value, key: &str, keys: &mut Vec<String>) {
    match value {
        // A figure has its value and its source.
        toml::Value::Table(table) if !table.contains_key("value") => {
            // What a table is of, and where it comes from, is no quantity.
            for (name, value) in table.iter().filter(|(name, _)| !["kind", "source"].contains(&name.as_str()))
            {
                collect_keys(value, &format!("{key}.{name}"), keys);
            }
        }
        toml::Value::Array(entries) if entries.iter().all(toml::Value::is_table) => {
            for (at, entry) in entries.iter().enumerate() {
                collect_keys(entry, &format!("{key}.{at}"), keys);
            }
        }
        _ => keys.push(key.into()),
    }
}

/// `512MiB`, `16GiB`.
fn mebibytes(value: &str) -> Result<u64, ScenarioError> {
    let number = |digits: &str, unit: u64| digits.trim().parse::<u64>().ok()?.checked_mul(unit);
    const UNITS: [(&str, u64); 4] = [("GiB", 1024), ("MiB", 1), ("G", 1024), ("M", 1)];
    let mib = UNITS.iter().find_map(|&(unit, mib)| number(value.strip_suffix(unit)?, mib));
    mib.ok_or_else(|| {
        ScenarioError::OutOfRange(WrongValue::new(MEMORY, value, "a size such as 512MiB or 16G"))
    })
}

/// A value of a file as it is written on the command line, where texts have no quotes.
fn toml_value(value: &str) -> toml::Value {
    let table: Result<toml::Table, _> = toml::from_str(&format!("value = {value}"));
    table.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| value.into())
}

/// The file of `content` with another value of a key; none if its table does not have the key.
fn with_key<T: Serialize + DeserializeOwned>(content: &T, key: &str, new: &toml::Value) -> Option<String> {
    let mut file = toml::Value::try_from(content).ok()?;
    let mut place = &mut file;
    for part in key.split('.') {
        place = match place {
            toml::Value::Array(entries) => entries.get_mut(part.parse::<usize>().ok()?)?,
            table => table.get_mut(part)?,
        };
    }
    // A figure keeps its source.
    match place.get_mut("value") {
        Some(value) if !new.is_table() => *value = new.clone(),
        _ => *place = new.clone(),
    }
    toml::to_string(&file).ok()
}

/// All arms of `base` with these variants: by variant, then by the levels of each key.
pub(crate) fn arms(base: &Arm, variants: &[String], varied: &[Varied]) -> Result<Vec<Arm>, ScenarioError> {
    let mut arms: Vec<Arm> = variants
        .iter()
        .map(|variant| Arm {
            name: if variants.len() > 1 || varied.is_empty() {
                base.scenario.present_name(variant).into()
            } else {
                String::new()
            },
            variant: base.scenario.present_name(variant).into(),
            ..base.clone()
        })
        .collect();
    for Varied { key, levels } in varied {
        let mut grid = Vec::with_capacity(arms.len() * levels.len());
        for arm in &arms {
            for Level { value, change } in levels {
                let mut arm = arm.clone();
                change.apply(key, value, &mut arm)?;
                if levels.len() > 1 {
                    arm.name = [arm.name.as_str(), value].join(" ").trim().into();
                }
                arm.levels.push((key.clone(), value.clone()));
                grid.push(arm);
            }
        }
        arms = grid;
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load_machine;

    fn arms_of(scenario: &str, variants: &[&str], varied: &[&str]) -> Result<Vec<Arm>, ScenarioError> {
        let scenario = Scenario::load(scenario).unwrap();
        let base = Arm {
            name: String::new(),
            machine: load_machine(&scenario.machine).unwrap(),
            variant: String::new(),
            changes: BTreeMap::new(),
            levels: Vec::new(),
            scenario,
        };
        let varied: Result<Vec<Varied>, _> =
            varied.iter().map(|text| Varied::parse(text, &load_machine)).collect();
        let variants: Vec<String> = variants.iter().map(|variant| variant.to_string()).collect();
        arms(&base, &variants, &varied?)
    }

    #[test]
    fn arms_are_all_combinations_and_named_by_what_differs() {
        let names = |arms: Vec<Arm>| arms.into_iter().map(|arm| arm.name).collect::<Vec<_>>();
        let one = arms_of("page_fault1", &["6.18"], &["vm.stat_interval=1,10"]).unwrap();
        assert_eq!(one[1].changes["vm.stat_interval"], "10");
        assert_eq!(names(one), ["1", "10"]);
        let grid = arms_of("page_fault1", &["6.12", "6.18"], &["vm.stat_interval=1,10", "memory=128GiB"]);
        let grid = grid.unwrap();
        let topology = &grid[0].machine.topology;
        assert_eq!(topology.memory_mib_per_node * u64::from(topology.nodes), 128 << 10);
        assert_eq!(names(grid), ["6.12 1", "6.12 10", "6.18 1", "6.18 10"]);
    }

    #[test]
    fn keys_of_files_are_changed_and_checked() {
        let arms = arms_of("page_fault1", &["6.18"], &["workload.programs.0.program.tasks=8,16"]).unwrap();
        assert_ne!(arms[0].scenario.workload, arms[1].scenario.workload);
        let as_in_errors =
            arms_of("page_fault1", &["6.18"], &["workload.programs[0].program.tasks=8,16"]).unwrap();
        assert_eq!(as_in_errors[1].scenario, arms[1].scenario);
        let arms = arms_of("page_fault1", &["6.18"], &["machine.costs.page_clear_ns=50,200"]).unwrap();
        assert_ne!(arms[0].machine, arms[1].machine);
        let arms =
            arms_of("page_fault1", &["6.18:pcp.scale_refills=off"], &["features.pcp.late_free_high=on,off"]);
        let variants: Vec<String> = arms.unwrap().into_iter().map(|arm| arm.variant).collect();
        assert_eq!(variants[1], "6.18:pcp.scale_refills=off+pcp.late_free_high=off");
        for (varied, says) in [
            ("workload.programs.0.program.tasks=0", "workload.programs[0].program.tasks = 0"),
            ("workload.nothing=1", "workload.nothing"),
            ("vm.swapiness=1", "--vary vm.swapiness: no such key (do you mean vm.swappiness?)"),
            ("tasks=1", "no such key (do you mean workload.programs.0.program.tasks?)"),
            ("workload.tasks=1", "no such key (do you mean workload.programs.0.program.tasks?)"),
            ("workload.milisecond=1", "no such key (do you mean workload.milliseconds?)"),
            ("machine.costs.page_clear=1", "no such key (do you mean machine.costs.page_clear_ns?)"),
            ("xyzzy=1", "no such key; it takes kernel settings"),
            ("variants=6.1,6.12", "--variants"),
            ("memory=16", "16G"),
            ("vm.swappiness", "KEY=V1,V2"),
            ("vm.swappiness=1,,2", "comma"),
            ("vm.swappiness=1,2,1", "1 is there twice"),
            ("machine=pdp-11", "pdp-11"),
            ("features.pcp.high_bounds=off", "pcp.auto_tuning"),
            ("features.mglru.bloom=off", "mglru."),
            ("machine.topology.sockets=0", "sockets"),
        ] {
            let error = arms_of("page_fault1", &["6.18"], &[varied]).unwrap_err().to_string();
            assert!(error.contains(says), "{varied}: {error}");
        }
    }
}
