//! Scenarios: a machine, kernel settings and a workload, as one TOML file.
//!
//! ```toml
//! name = "kbuild"
//! description = "one kernel build, make -j112, memory bound to the other node"
//! evidence = "checked against a published table"
//! machine = "intel-2s-224"
//! series = "pcp"
//! variants = ["base", "patch1", "patch3"]
//! seeds = 3
//!
//! [settings]
//! "vm.stat_interval" = "1"
//!
//! [workload]
//! kind = "kbuild"
//! ...
//! ```
//!
//! A [`Run`] is one scenario with everything decided: variant, seed, machine profile, settings.

mod fit;
mod parse;

use crate::heeded::not_heeded;
use crate::reached::Reached;
use crate::simulation::kbuild::KernelBuild;
use crate::simulation::kernel_writes::KernelWrites;
use crate::simulation::long_running::LongRunning;
use crate::simulation::mappings::RecordedMappings;
use crate::simulation::numa::NumaThreads;
use crate::simulation::page_fault::PageFaultLoop;
use crate::simulation::replay::Replay;
use crate::simulation::socket::SocketStream;
use machine::profile::Figure;
use machine::{PageSize, Profile, ProfileError};
use mm::sysctl::most_like;
use mm::{Series, SettingError, Settings, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;
use workload::demand::spec::{Paging, SettingChange};
use workload::keys::Bounds;
use workload::threads::ProgramSpec;
use workload::threads::samples::{Recording, SampleFile};

workload::kinds! {
    /// What runs.
    pub enum Workload {
        /// Kernel builds, processes sampled from a recorded one.
        "kbuild" Kbuild(KernelBuild),
        /// will-it-scale's page_fault1.
        "page-fault" PageFault(PageFaultLoop),
        /// Pairs that stream through sockets.
        "socket-stream" SocketStream(SocketStream),
        /// A recorded trace.
        "replay" Replay(Replay),
        /// Writes to files of the kernel.
        "kernel-writes" KernelWrites(KernelWrites),
        /// Programs that run out of memory.
        "paging" Paging(Paging),
        /// Threads on several nodes.
        "numa" Numa(NumaThreads),
        /// Processes that map memory and give it back, for long.
        "long-running" LongRunning(LongRunning),
        /// A program whose mappings and first touches were recorded.
        "mappings" Mappings(RecordedMappings),
    }
}

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
        #[serde(default)]
        pub settings: BTreeMap<String, String>,
        /// Metrics that `compare` shows, by name.
        pub metrics: Vec<String>,
        /// What runs.
        pub workload: Workload,
    }
}

/// One simulation, everything decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scenario it belongs to.
    pub scenario: String,
    /// The series that the variant is named in.
    pub series: String,
    /// Name of the variant, see [`KernelChoice`].
    pub variant: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The machine.
    pub machine: Profile,
    /// Settings beyond the defaults.
    pub settings: BTreeMap<String, String>,
    /// What runs.
    pub workload: Workload,
    /// How far it is.
    #[serde(skip)]
    pub reached: Reached,
}

/// A kernel that a run can have.
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice {
    /// Its features.
    pub variant: &'static Variant,
    /// A debugging kernel with this batch, twice of it as high, and no scaling.
    pub batch: Option<i32>,
}

/// Whether kernels with any batch are variants of a series.
fn has_batches(series: &Series) -> bool {
    series.name == Series::PCP.name
}

impl KernelChoice {
    /// By name: a variant of the series, a kernel release, or, on pagesets, `batch-N`.
    pub fn parse(series: &str, name: &str) -> Result<KernelChoice, ScenarioError> {
        let series =
            Series::find(series).ok_or_else(|| ScenarioError::UnknownSeries { name: series.into() })?;
        let unknown = || ScenarioError::UnknownVariant { name: name.into(), series };
        let (variant, batch) = match name.strip_prefix("batch-").map(str::parse) {
            Some(Ok(batch @ 1..=32767)) if has_batches(&series) => (Series::PCP.variant("base"), Some(batch)),
            Some(_) => (None, None),
            None => (series.variant(name).or_else(|| Variant::of_release(name)), None),
        };
        Ok(KernelChoice { variant: variant.ok_or_else(unknown)?, batch })
    }

    /// The settings of a run: those of the variant, then those of the scenario, then `changes`. Where a kernel with pages of
    /// this size has no file of a variant's, writing to it fails, and the others are written to all the same.
    fn settings(
        &self,
        page_size: PageSize,
        scenario: &BTreeMap<String, String>,
        changes: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, SettingError> {
        let own = self.variant.settings.iter().filter(|(name, _)| mm::sysctl::exists(name, page_size));
        let own = own.map(|&(name, value)| (name.to_string(), value.to_string()));
        let mut settings = scenario.clone();
        settings.extend(own);
        settings.extend(changes.clone());
        let mut check = Settings::new(page_size);
        settings.iter().try_for_each(|(name, value)| check.set(name, value))?;
        Ok(settings)
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
    /// No such series.
    #[error("{name}: no such series; series: {}", list(Series::ALL.iter().map(|s| s.name)))]
    UnknownSeries {
        /// What was asked for.
        name: String,
    },
    /// No such variant or release.
    #[error(
        "{name}: no such variant of series {}; most like it: {}; `mmtwin list variants` and `mmtwin list releases` have \
         all{}",
        series.name,
        most_like(name, series.variants().map(|variant| variant.name).chain(releases())),
        if has_batches(series) { ", besides batch-N" } else { "" }
    )]
    UnknownVariant {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        series: Series,
    },
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Not TOML, an unknown or missing key, a value of the wrong kind; the text names line and key.
    #[error("{place}: {text}")]
    Syntax {
        /// The file or built-in name.
        place: String,
        /// What the parser says.
        text: String,
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
    NotHeeded {
        /// The setting.
        name: String,
        /// The scenario.
        scenario: String,
        /// Why not, and who does.
        reason: String,
    },
    /// A value of a scenario is impossible.
    #[error("{key} = {value}: it takes {expected}")]
    OutOfRange {
        /// The key, with its table.
        key: String,
        /// The value.
        value: String,
        /// What would be right.
        expected: String,
    },
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
    "kernel-build-3g", "working-set-shift", "noisy-neighbour", "burst-writer",
    "numa01", "numa01-threadlocal", "numa02", "numa02-smt", "kernbench", "specjbb", "tiered-kv", "xz-samples",
    "pid-filter",
    "equilibrium", "equilibrium-long", "equilibrium-same-size", "equilibrium-50", "equilibrium-70", "equilibrium-97",
    "equilibrium-cache", "equilibrium-files", "equilibrium-zram", "equilibrium-kcompactd", "equilibrium-direct",
    "equilibrium-sparse", "equilibrium-sparse-memory",
    "speedometer", "chromium-table", "chromium-chart", "chromium-editor", "redis-snapshot", "jvm-growth", "kbuild-folios",
);

const MACHINES: &[(&str, &str)] = built_in!("machines":
    "intel-2s-224", "intel-2s-128", "spr-server", "icl-server", "csl-server", "cml-desktop", "cfl-desktop",
    "e7-8895-8s", "milan-vm-252", "epyc-7k62-32g", "epyc-7k62-vm", "i7-9700", "numa-256", "tiered-2n",
    "ampere-altra", "ampere-altra-16k", "ampere-altra-64k", "qemu-2n", "qemu-4n",
);

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn default_series() -> String {
    Series::PCP.name.into()
}

fn releases() -> impl Iterator<Item = &'static str> {
    mm::series::RELEASES.iter().map(|(release, _)| *release)
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
        let (key, paths) = self.workload.recorded_files_mut();
        let wrong = |path: &Path, problem| ScenarioError::File {
            place: place.into(),
            key: format!("workload.{key}"),
            path: path.into(),
            problem,
        };
        for path in paths {
            *path = directory.join(&*path);
            std::fs::File::open(&*path).map_err(|error| wrong(path, error.to_string()))?;
        }
        match &self.workload {
            Workload::Numa(NumaThreads {
                program: ProgramSpec::Samples(samples @ SampleFile { file: Recording::File(path) }),
                ..
            }) => samples.read().map(drop).map_err(|problem| wrong(path, problem)),
            _ => Ok(()),
        }
    }

    /// The run of `variant` with `seed` on `machine`, `changes` being settings beyond the scenario's own.
    pub fn run(
        &self,
        variant: &str,
        seed: u64,
        machine: &Profile,
        changes: &BTreeMap<String, String>,
    ) -> Result<Run, ScenarioError> {
        let choice = KernelChoice::parse(&self.series, variant)?;
        let settings = choice.settings(machine.page_size, &self.settings, changes)?;
        if let Workload::Paging(paging) = &self.workload {
            for (at, SettingChange { setting, value, .. }) in paging.changes.iter().enumerate() {
                Settings::new(machine.page_size).set(setting, value).map_err(|error| {
                    ScenarioError::OutOfRange {
                        key: format!("{}: workload.changes[{at}]", self.name),
                        value: format!("{setting}={value}"),
                        expected: format!("a setting with a value that it takes: {error}"),
                    }
                })?;
            }
        }
        for name in changes.keys() {
            if let Some(reason) = not_heeded(name, self.workload.kind()) {
                return Err(ScenarioError::NotHeeded {
                    name: name.clone(),
                    scenario: self.name.clone(),
                    reason,
                });
            }
        }
        let run = Run {
            scenario: self.name.clone(),
            series: self.series.clone(),
            variant: variant.into(),
            seed,
            machine: machine.clone(),
            settings,
            workload: self.workload.clone(),
            reached: Reached::default(),
        };
        run.check_fit()?;
        Ok(run)
    }
}

impl Workload {
    /// The recorded files that it is made of, if it is of any, and the key that names them.
    pub fn recorded_files_mut(&mut self) -> (&'static str, &mut [PathBuf]) {
        match self {
            Workload::Replay(w) => ("trace", std::slice::from_mut(&mut w.trace)),
            Workload::Mappings(w) => ("program", w.program.files_mut()),
            Workload::Numa(NumaThreads {
                program: ProgramSpec::Samples(SampleFile { file: Recording::File(path) }),
                ..
            }) => ("program.file", std::slice::from_mut(path)),
            _ => ("", &mut []),
        }
    }

    /// Figures of the workload that come with a source, by their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let own: Vec<(&str, &mut Figure)> = match self {
            Workload::Paging(w) => return w.figures_mut(),
            Workload::Numa(w) => return w.program.figures_mut(),
            Workload::Kbuild(w) => {
                vec![("intensity", &mut w.intensity), ("processes_per_slab", &mut w.processes_per_slab)]
            }
            Workload::SocketStream(w) => vec![("calls", &mut w.calls)],
            Workload::Mappings(w) => vec![
                ("cpu_seconds", &mut w.cpu_seconds),
                ("runs", &mut w.runs),
                ("million_walks", &mut w.million_walks),
            ],
            Workload::KernelWrites(KernelWrites { service: Some(service), .. }) => vec![
                ("service.requests_per_second", &mut service.requests_per_second),
                ("service.work_us", &mut service.work_us),
                ("service.work_spread", &mut service.work_spread),
            ],
            _ => Vec::new(),
        };
        own.into_iter().map(|(key, figure)| (key.into(), figure)).collect()
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
pub fn machines_that(such: impl Fn(&Profile) -> bool) -> String {
    list(machine_names().filter(|name| load_machine(name).is_ok_and(|machine| such(&machine))))
}

/// Names of the built-in machine profiles.
pub fn machine_names() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, _)| *name)
}
