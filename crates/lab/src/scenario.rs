//! Scenarios: a machine, kernel settings and a workload, as one TOML file.
//!
//! ```toml
//! name = "kbuild"
//! description = "one kernel build, make -j112, memory bound to the other node"
//! evidence = "checked against a published table"
//! machine = "intel-2s-224"
//! series = "pcp"
//! variants = ["pcp-base", "patch1", "patch3"]
//! seeds = 3
//!
//! [settings]
//! "vm.stat_interval" = "1"
//!
//! [workload]
//! kind = "host"
//! ...
//! ```
//!
//! A [`Run`] is one scenario with everything decided: variant, seed, machine profile, settings. What is wrong with it is said
//! here with the scenario's name.

mod former;
mod mistakes;
mod parse;

pub use parse::one_or_several;
pub use parse::{parse_program, wrong_value};
pub(crate) use parse::{syntax, wrong_keys};

use crate::applicable_settings::why_not_applicable;
use machine::{Profile, ProfileError, WrongValue};
use mm::sysctl::most_like;
use mm::{Series, SettingError};
use serde::{Deserialize, Deserializer};
use sim::metric::{Better, Metric};
use sim::{KernelChoice, KernelError, Misfit, Run, TreeKernel, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;
use workload::keys::Bounds;
use workload::mappings::RecordedProgram;
use workload::tasks::ProgramSpec;
use workload::threads::samples::{Recording, SampleFile};

/// Of seeds.
pub const SEEDS: Bounds = Bounds::new(1.0, 10_000.0, "intervals of so many are a fiftieth of those of four");

workload::keys! {
    /// A scenario file.
    pub struct Scenario {
        /// The name that commands take.
        pub name: String,
        /// What it is, in a line.
        pub description: String,
        /// What its results have been checked against.
        pub evidence: String,
        /// Default machine profile.
        pub machine: String,
        /// The series that variants are named in.
        #[serde(default = "default_series")]
        pub series: String,
        /// Default variants, the first being what others are compared with.
        pub variants: Vec<String>,
        /// Default number of seeds.
        pub seeds: u32 => SEEDS,
        /// Kernel settings that differ from the kernel's defaults.
        #[serde(default, deserialize_with = "settings")]
        pub settings: BTreeMap<String, String>,
        /// Metrics that `compare` shows, by name.
        pub metrics: Vec<String>,
        /// What runs.
        pub workload: Workload,
    }
}

/// What is wrong with a scenario or with what was asked of it.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// No built-in scenario and no file of this name.
    #[error(
        "{name}: no such scenario; most like it: {}; `mmtwin list scenarios` has all, or give the path of a .toml file",
        most_like(name, Scenario::names())
    )]
    UnknownScenario {
        /// What was asked for.
        name: String,
    },
    /// No built-in machine and no file of this name.
    #[error(
        "{name}: no such machine; most like it: {}; `mmtwin list machines` has all, or give the path of a .toml file",
        most_like(name, machine_names().chain([THIS_MACHINE]))
    )]
    UnknownMachine {
        /// What was asked for.
        name: String,
    },
    /// No such series, variant or release.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Not TOML, an unknown or missing key, a value of the wrong kind.
    #[error("{text}")]
    Syntax {
        /// File, line, key and what is wrong.
        text: String,
    },
    /// Several things are wrong.
    #[error("{}", list_of_lines(.0))]
    Several(Vec<ScenarioError>),
    /// A variant of another series.
    #[error(
        "{name} is a variant of series {its}, and what runs here is of series {series}; name one of `mmtwin list variants` in series \
         {series}, a release, or a scenario of series {its} such as {}",
        scenario_of(its)
    )]
    OtherSeries {
        /// The variant.
        name: String,
        /// The series that has it.
        its: &'static str,
        /// The series of the scenario.
        series: String,
    },
    /// A machine profile is wrong.
    #[error("{place}: {error}")]
    Profile {
        /// The file or built-in name.
        place: String,
        /// What is wrong.
        error: ProfileError,
    },
    /// A scenario asks for what there is not.
    #[error("{place}: {key} = {error}")]
    Asked {
        /// The file or built-in name.
        place: String,
        /// The key.
        key: &'static str,
        /// What is wrong.
        error: Box<ScenarioError>,
    },
    /// A file that a scenario names is not what it should be.
    #[error("{place}: {key} = {}: {problem}", path.display())]
    File {
        /// The file of the scenario.
        place: String,
        /// The key.
        key: String,
        /// What it names.
        path: PathBuf,
        /// What is wrong, with the line where there is one.
        problem: String,
    },
    /// A kernel setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A kernel setting would change nothing.
    #[error("{name}: {scenario} does not heed this setting: {reason}")]
    NotApplicable {
        /// The setting.
        name: String,
        /// The scenario.
        scenario: String,
        /// Why not, and who does.
        reason: String,
    },
    /// An argument of --vary that is none.
    #[error("--vary {text}: expected {expected}")]
    Vary { text: String, expected: String },
    /// A key that cannot be varied, and which one is meant.
    #[error(
        "--vary {key}: no such key{like}; it takes kernel settings, scenario, machine, memory, \
         features.MECHANISM.FEATURE, workload.KEY and machine.TABLE.KEY; kernels are given by --variants"
    )]
    UnknownKey { key: String, like: String },
    /// A value of a scenario is impossible.
    #[error("{} = {}: it takes {}", .0.key, .0.value, .0.expected)]
    OutOfRange(WrongValue),
}

macro_rules! built_in {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../", $folder, "/", $name, ".toml")))),*]
    };
}

const SCENARIOS: &[(&str, &str)] = built_in!("scenarios":
    "kbuild", "kbuild-j224", "kbuild-8cg", "af_unix", "sctp_stream_many", "page_fault1",
    "batch-latency-spr-server", "batch-latency-icl-server", "batch-latency-csl-server",
    "batch-latency-cml-desktop", "batch-latency-cfl-desktop",
    "hugetlb-8s", "hugetlb-vm252", "hugetlb-neighbour",
    "mongodb-tpcc", "fio-zipf", "fio-zipf-2g", "fio-zipf-i7-9700", "fio-uniform", "memcached-memtier",
    "memcached-memtier-i7-9700", "mysql-readonly", "mysql-readonly-i7-9700", "streaming-vs-hot",
    "kernel-build-3g", "working-set-shift", "working-set-shift-1g", "noisy-neighbour", "heap-over-limit",
    "burst-writer",
    "numa01", "numa01-threadlocal", "numa02", "numa02-smt", "kernbench", "specjbb", "tiered-kv", "xz-samples",
    "pid-filter",
    "equilibrium", "equilibrium-long", "equilibrium-same-size", "equilibrium-50", "equilibrium-70", "equilibrium-97",
    "equilibrium-cache", "equilibrium-files", "equilibrium-zram", "equilibrium-kcompactd", "equilibrium-direct",
    "equilibrium-sparse", "equilibrium-sparse-memory",
    "speedometer", "chromium-table", "chromium-chart", "chromium-editor", "redis-snapshot", "jvm-growth", "kbuild-folios",
    "shared-host", "crowded-host", "month-old-host", "sandbox-fleet", "app-launches",
);

const MACHINES: &[(&str, &str)] = built_in!("machines":
    "intel-2s-224", "intel-2s-128", "spr-server", "icl-server", "csl-server", "cml-desktop", "cfl-desktop",
    "e7-8895-8s", "milan-vm-252", "epyc-7k62-32g", "epyc-7k62-vm", "i7-9700", "numa-256", "tiered-2n",
    "ampere-altra", "ampere-altra-16k", "ampere-altra-64k", "qemu-2n", "qemu-4n", "host-2s-224", "phone-8g",
);

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn list_of_lines(errors: &[ScenarioError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A built-in scenario of a series.
fn scenario_of(series: &str) -> &'static str {
    let is_of = |text: &str| text.lines().any(|line| line == format!("series = \"{series}\""));
    // The first is the default of scenarios, which need not name it.
    let first = SCENARIOS.first().map_or("", |(name, _)| name);
    SCENARIOS.iter().find(|(_, text)| is_of(text)).map_or(first, |(name, _)| name)
}

/// Settings as words; a number is one as it is written.
pub(crate) fn settings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number or a word in quotes")]
    enum Word {
        Text(String),
        Number(i64),
    }
    let words = BTreeMap::<String, Word>::deserialize(deserializer)?;
    let text = |word| match word {
        Word::Text(text) => text,
        Word::Number(number) => number.to_string(),
    };
    Ok(words.into_iter().map(|(name, word)| (name, text(word))).collect())
}

fn default_series() -> String {
    Series::PCP.name.into()
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path).map_err(|error| ScenarioError::Unreadable { path: path.into(), error })
}

fn is_path(name: &str) -> bool {
    name.ends_with(".toml")
}

impl Scenario {
    /// The built-in scenario or the file `name`. Paths in a file are relative to where it is.
    pub fn load(name: &str) -> Result<Scenario, ScenarioError> {
        if is_path(name) {
            let mut scenario = Scenario::parse(name, &read(Path::new(name))?)?;
            scenario.find_files(name)?;
            return Ok(scenario);
        }
        match SCENARIOS.iter().find(|(known, _)| *known == name) {
            Some((place, text)) => Scenario::parse(place, text),
            None => Err(ScenarioError::UnknownScenario { name: name.into() }),
        }
    }

    /// The text of the built-in scenario or the file `name`.
    pub fn text(name: &str) -> Result<String, ScenarioError> {
        if is_path(name) {
            return read(Path::new(name));
        }
        let text = SCENARIOS.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string());
        text.ok_or_else(|| ScenarioError::UnknownScenario { name: name.into() })
    }

    /// Names of the built-in scenarios.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SCENARIOS.iter().map(|(name, _)| *name)
    }

    /// Takes the paths in the scenario file `place` relative to it, and refuses what is not there or cannot be read.
    fn find_files(&mut self, place: &str) -> Result<(), ScenarioError> {
        let directory = Path::new(place).parent().unwrap_or(Path::new(""));
        if is_path(&self.machine) {
            self.machine = directory.join(&self.machine).to_string_lossy().into_owned();
        }
        let wrong = |key: String, path: &Path, problem| ScenarioError::File {
            place: place.into(),
            key: format!("workload.{key}"),
            path: path.into(),
            problem,
        };
        for (key, path) in self.workload.recorded_files_mut() {
            *path = directory.join(&*path);
            std::fs::File::open(&*path).map_err(|error| {
                let names = RecordedProgram::NAMES.join(", ");
                let built_in = key.ends_with(".recording").then(|| format!("; built in are {names}"));
                wrong(key, path, format!("{error}{}", built_in.unwrap_or_default()))
            })?;
        }
        for (at, program) in self.workload.programs.iter().enumerate() {
            if let ProgramSpec::Samples(samples @ SampleFile { file: Recording::File(path) }) =
                &program.program
            {
                let key = format!("programs[{at}].program.file");
                samples.read().map_err(|problem| wrong(key, path, problem))?;
            }
        }
        Ok(())
    }

    /// Those of its metrics that can be better or worse.
    pub fn directed_metrics(&self) -> impl Iterator<Item = Metric> {
        let metrics = self.metrics.iter().filter_map(|name| Metric::find(name));
        metrics.filter(|metric| metric.better != Better::Neutral)
    }

    /// What `variant` is called now: a former name leads to the same run, and to the same results, as the present one.
    pub fn present_name<'a>(&self, variant: &'a str) -> &'a str {
        Series::find(&self.series).and_then(|series| series.present_name(variant)).unwrap_or(variant)
    }

    /// The kernel that `variant` names.
    pub fn choice(&self, variant: &str) -> Result<KernelChoice, ScenarioError> {
        KernelChoice::parse(&self.series, variant).map_err(|error| {
            let KernelError::UnknownVariant { name, .. } = &error else { return error.into() };
            match Series::ALL.iter().find(|series| series.variant(name).is_some()) {
                Some(other) => ScenarioError::OtherSeries {
                    name: name.clone(),
                    its: other.name,
                    series: self.series.clone(),
                },
                None => error.into(),
            }
        })
    }

    /// The run of `variant` with `seed` on `machine`, `changes` being settings beyond the scenario's own.
    pub fn run(
        &self,
        variant: &str,
        seed: u64,
        machine: &Profile,
        changes: &BTreeMap<String, String>,
    ) -> Result<Run, ScenarioError> {
        self.run_of(variant, None, seed, machine, changes)
    }

    /// Like [`Scenario::run`]; `variant` takes decisions from a kernel tree if there is one.
    pub fn run_of(
        &self,
        variant: &str,
        tree: Option<&TreeKernel>,
        seed: u64,
        machine: &Profile,
        changes: &BTreeMap<String, String>,
    ) -> Result<Run, ScenarioError> {
        let of_base = tree.map(|tree| tree.of_base(variant));
        let choice = self.choice(of_base.as_deref().unwrap_or(variant))?;
        let settings = choice.settings(machine.page_size, &self.settings, changes)?;
        for name in changes.keys() {
            if let Some(reason) = why_not_applicable(name, &self.workload) {
                return Err(ScenarioError::NotApplicable {
                    name: name.clone(),
                    scenario: self.name.clone(),
                    reason,
                });
            }
        }
        let run = Run {
            scenario: self.name.clone(),
            series: self.series.clone(),
            variant: self.present_name(variant).into(),
            tree: tree.cloned(),
            seed,
            machine: machine.clone(),
            settings,
            workload: self.workload.clone(),
        };
        run.check_fit().map_err(|misfit| self.refuse(misfit))?;
        Ok(run)
    }

    /// What does not fit, and where it stands.
    fn refuse(&self, misfit: Misfit) -> ScenarioError {
        let wrong = match misfit {
            Misfit::OutOfRange(wrong) => wrong,
            Misfit::NoNuma { machine } => {
                let such = machines_that(|machine| machine.numa.is_some());
                let expected = format!("a machine whose profile has [numa]: {such}, or a .toml file");
                WrongValue::new("machine", machine, expected)
            }
        };
        ScenarioError::OutOfRange(WrongValue { key: format!("{}: {}", self.name, wrong.key), ..wrong })
    }
}

/// The machine that mmtwin runs on, among names of machines.
pub const THIS_MACHINE: &str = "this";

/// The built-in machine profile or the file `name`. [`THIS_MACHINE`] is not known here.
pub fn load_machine(name: &str) -> Result<Profile, ScenarioError> {
    let parse = |place: &str, text: &str| {
        Profile::parse(text).map_err(|error| ScenarioError::Profile { place: place.into(), error })
    };
    if is_path(name) {
        return parse(name, &read(Path::new(name))?);
    }
    match MACHINES.iter().find(|(known, _)| *known == name) {
        Some((place, text)) => parse(place, text),
        None => Err(ScenarioError::UnknownMachine { name: name.into() }),
    }
}

/// Those of the built-in machines that are `such`, for errors.
fn machines_that(such: impl Fn(&Profile) -> bool) -> String {
    list(machine_names().filter(|name| load_machine(name).is_ok_and(|machine| such(&machine))))
}

/// The text of the built-in machine profile `name`.
pub fn machine_text(name: &str) -> Result<String, ScenarioError> {
    let text = MACHINES.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string());
    text.ok_or_else(|| ScenarioError::UnknownMachine { name: name.into() })
}

/// Names of the built-in machine profiles.
pub fn machine_names() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, _)| *name)
}
