//! Loads scenarios and machines of the repository for tests of other modules, as far as a run needs them.

use super::*;
use machine::Profile;
use serde::Deserialize;
use std::collections::BTreeMap;
use workload::tasks::ProgramSpec;

/// The keys of a scenario file that tests need.
#[derive(Deserialize)]
pub struct Scenario {
    name: String,
    pub machine: String,
    #[serde(default = "pagesets")]
    series: String,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    pub workload: Workload,
}

fn pagesets() -> String {
    mm::Series::PCP.name.into()
}

fn read(directory: &str, name: &str) -> String {
    let path = format!("{}/../../{directory}/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The profile of machine `name`.
pub fn load_machine(name: &str) -> Profile {
    Profile::parse(&read("machines", name)).unwrap()
}

impl Scenario {
    /// The scenario `name`.
    pub fn load(name: &str) -> Scenario {
        toml::from_str(&read("scenarios", name)).unwrap()
    }

    /// The run of `variant` with seed 1 on `machine`, with `changes` to its settings.
    pub fn run(&self, variant: &str, machine: &Profile, changes: &BTreeMap<String, String>) -> Run {
        let choice = KernelChoice::parse(&self.series, variant).unwrap();
        Run {
            scenario: self.name.clone(),
            series: self.series.clone(),
            variant: variant.into(),
            tree: None,
            seed: 1,
            machine: machine.clone(),
            settings: choice.settings(machine.page_size, &self.settings, changes).unwrap(),
            workload: self.workload.clone(),
        }
    }
}

/// Pages of which every use misses leave no references for misses of something else.
#[test]
fn no_more_misses_than_references() {
    let mut scenario = Scenario::load("sctp_stream_many");
    let host = &mut scenario.workload;
    (host.warm_milliseconds, host.milliseconds) = (0, 2);
    let ProgramSpec::SocketStream(streams) = &mut host.programs[0].program else { panic!("a stream") };
    (streams.pairs, streams.background_miss) = (1, 100.0);
    let machine = load_machine("qemu-4n");
    let outcome = run(&scenario.run("6.19", &machine, &BTreeMap::new())).unwrap();
    assert_eq!(outcome.get(metric::CACHE_MISS), Some(100.0));
}
