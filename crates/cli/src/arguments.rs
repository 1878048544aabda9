//! Command-line arguments that several subcommands share.

use crate::completion;
use crate::failure::Failure;
use crate::kernel;
use crate::recorded_trace;
use crate::terminal;
use crate::this_machine;
use clap::Args;
use lab::experiment::varied::{FEATURES, OWN_KEYS, with_features};
use lab::published::{Publication, present_id};
use lab::scenario::{SEEDS, Scenario, THIS_MACHINE, load_machine};
use machine::Profile;
use mm::file_name::short;
use mm::{Mechanism, Series};
use sim::TreeKernel;
use sim::host::HostEvent;
use sim::metric::Metric;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use workload::keys::{Bounds, Numbers};

/// The default of `--results`.
pub const RESULTS: &str = "results";

/// The names of `mechanisms` as part of a sentence, such as `pcp, hugetlb or folios (thp is the same)`.
pub fn in_words(mechanisms: impl IntoIterator<Item = Mechanism>, conjunction: &str) -> String {
    let name = |mechanism: Mechanism| match mechanism.alias() {
        Some(alias) => format!("{} ({alias} is the same)", mechanism.name()),
        None => mechanism.name().to_string(),
    };
    let mut names: Vec<String> = mechanisms.into_iter().map(name).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} {conjunction} {last}", names.join(", "))
}

/// The mechanisms for which there are published tables.
pub fn published() -> impl Iterator<Item = Mechanism> {
    Publication::ALL.iter().map(|publication| publication.mechanism)
}

/// The options of every command that sweeps over seeds: how runs are made and where results are kept.
#[derive(Args)]
pub struct SweepArguments {
    /// Run seeds 1 to N, the same for every variant [default: the scenario's number]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroU32>(SEEDS))]
    pub seeds: Option<NonZeroU32>,

    /// Runs in parallel; does not affect results [default: number of CPUs]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<NonZeroUsize>(JOBS))]
    pub jobs: Option<NonZeroUsize>,

    /// Results directory; runs whose results are already there are reused
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    pub results: PathBuf,

    /// Look for runs in an object store too, and put new ones there, such as s3://bucket/prefix; see docs, reference "Results directory"
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,

    /// Repeat runs even if their results are already there; other results stay
    #[arg(long)]
    pub fresh: bool,

    /// Print JSON, see schemas/
    #[arg(long)]
    pub json: bool,
}

impl SweepArguments {
    /// The number of worker threads.
    pub fn jobs(&self) -> usize {
        jobs(self.jobs)
    }
}

/// The bounds of `--jobs`.
pub const JOBS: Bounds = Bounds::new(1.0, 4096.0, "threads that a machine may have for one program");

/// A clap value parser for whole numbers within `bounds`; the error names the bounds.
pub fn whole<N: FromStr>(bounds: Bounds) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text: &str| {
        let number = text.parse::<u64>().ok().filter(|&number| bounds.contain(number as f64));
        let number = number.and_then(|number| number.to_string().parse().ok());
        number.ok_or_else(|| format!("expected {}", Numbers { bounds, whole: true, or: "" }))
    }
}

/// The number of worker threads: `asked`, or else the number of CPUs.
pub fn jobs(asked: Option<NonZeroUsize>) -> usize {
    asked.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// A clap value parser for one variant or release of a comma-separated list.
pub fn kernel(name: &str) -> Result<String, String> {
    match name.trim() {
        "" => Err("a name is empty; expected A,B,... without stray commas".into()),
        name => Ok(name.into()),
    }
}

/// A clap value parser for one metric of a comma-separated list.
pub fn metric(name: &str) -> Result<Metric, String> {
    let name = name.trim();
    Metric::find(name).ok_or_else(|| format!("no such metric; most like it: {}", Metric::most_like(name)))
}

/// Replaces former names of the series' variants by the present ones, with a note on stderr for each.
pub fn present_names(series: &str, names: &[String]) -> Vec<String> {
    let series = Series::find(series);
    let present = |name: &String| match series.and_then(|series| series.present_name(name)) {
        Some(present) => present_instead(name, present),
        None => name.clone(),
    };
    names.iter().map(present).collect()
}

/// Replaces former ids of published tables by the present ones, with a note on stderr for each.
pub fn present_tables(ids: &[String]) -> Vec<String> {
    let present = |id: &String| match present_id(id) {
        Some(present) => present_instead(id, &present),
        None => id.clone(),
    };
    ids.iter().map(present).collect()
}

fn present_instead(former: &str, present: &str) -> String {
    terminal::say(format_args!("note: {former} is called {present} now"));
    present.into()
}

/// The scenario, and what the command line changes in it.
#[derive(Args)]
pub struct ScenarioArguments {
    /// A name from `mmtwin list scenarios`, a .toml file, or a trace that `mmtwin record` wrote
    #[arg(add = completion::scenarios())]
    scenario: String,

    /// Variants or releases, separated by commas
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', value_parser = kernel, add = completion::kernels())]
    variants: Option<Vec<String>>,

    #[command(flatten)]
    changes: ChangeArguments,
}

/// What the command line changes in a scenario, whichever kernels run it.
#[derive(Args)]
pub struct ChangeArguments {
    #[command(flatten)]
    system: SystemArguments,

    #[command(flatten)]
    writes: WriteArguments,
}

/// A loaded scenario and what the command line changes in it.
pub struct Asked {
    /// Has the writes of `--write` in place of its own, if any were given.
    pub scenario: Scenario,
    pub machine: Profile,
    /// `None`: no `--variants`, the command picks a default.
    pub variants: Option<Vec<String>>,
    /// Settings from `--set`, `--fail-alloc` and `--fail-rate`; they override the scenario's.
    pub changes: BTreeMap<String, String>,
    /// Kernel trees among the variants.
    pub trees: BTreeMap<String, TreeKernel>,
}

impl ScenarioArguments {
    /// Whether a machine was named.
    pub fn has_machine(&self) -> bool {
        self.changes.system.machine.is_some()
    }

    /// Whether variants were named.
    pub fn has_variants(&self) -> bool {
        self.variants.is_some()
    }

    /// Whether settings or writes were given.
    pub fn has_changes(&self) -> bool {
        let WriteArguments { writes, fail_alloc, fail_rate } = &self.changes.writes;
        let has_writes = !writes.is_empty() || fail_alloc.is_some() || fail_rate.is_some();
        has_writes || !self.changes.system.settings.is_empty()
    }

    /// What was named as scenario.
    pub fn name(&self) -> &str {
        &self.scenario
    }

    /// Loads the scenario and the machine, and applies the options to them.
    pub fn load(&self) -> Result<Asked, Failure> {
        self.changes.load(&self.scenario, self.variants.as_deref())
    }
}

impl ChangeArguments {
    /// Loads a scenario and its machine for some variants, and applies the options to them.
    pub fn load(&self, scenario: &str, variants: Option<&[String]>) -> Result<Asked, Failure> {
        let mut scenario = self::scenario(scenario)?;
        let mut changes = self.system.changes()?;
        self.writes.apply(&mut scenario, &mut changes)?;
        let machine = self.system.profile(&scenario.machine)?;
        let features = take_features(&mut changes);
        let named = |names: &[String]| -> Vec<String> {
            let names = present_names(&scenario.series, names);
            names
                .iter()
                .map(|name| features.iter().fold(name.clone(), |name, feature| with_features(&name, feature)))
                .collect()
        };
        let variants = variants.map(named);
        scenario.variants = named(&scenario.variants);
        let names = variants.iter().flatten().chain(&scenario.variants);
        let trees = kernel::trees(&scenario.series, names)?;
        Ok(Asked { scenario, machine, variants, changes, trees })
    }
}

/// Moves kernel features from the settings to the variant's name: `features.PATH` becomes `PATH=VALUE`.
fn take_features(changes: &mut BTreeMap<String, String>) -> Vec<String> {
    let path = |name: &str| Some(name.strip_prefix(FEATURES)?.strip_prefix('.')?.to_string());
    let features =
        changes.iter().filter_map(|(name, value)| Some(format!("{}={value}", path(name)?))).collect();
    changes.retain(|name, _| path(name).is_none());
    features
}

/// The scenario that a name or a file is, or that replays the trace of this name.
pub fn scenario(name: &str) -> Result<Scenario, Failure> {
    match name.ends_with(".parquet") {
        true => recorded_trace::scenario(Path::new(name)),
        false => Ok(Scenario::load(name)?),
    }
}

/// The profile of a built-in machine, of this machine (`this`), or in a .toml file.
pub fn machine(name: &str) -> Result<Profile, Failure> {
    match name {
        THIS_MACHINE => this_machine::profile(),
        name => Ok(load_machine(name)?),
    }
}

/// Options for the machine and the kernel's settings.
#[derive(Args)]
pub struct SystemArguments {
    /// Machine: a name from `mmtwin list machines`, `this`, or a .toml file [default: the scenario's]
    #[arg(long, value_name = "MACHINE", add = completion::machines())]
    pub machine: Option<String>,

    /// Kernel setting, such as vm.stat_interval=10, or feature, such as features.mglru.types_apart=off; may be given several
    /// times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_setting, add = completion::settings())]
    pub settings: Vec<(String, String)>,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or("expected KEY=VALUE, for example vm.percpu_pagelist_high_fraction=8")?;
    Ok((short(key.trim()).into_owned(), value.trim().to_string()))
}

impl SystemArguments {
    /// The settings of `--set`.
    ///
    /// # Errors
    ///
    /// A setting that is given twice, or a key of the scenario.
    pub fn changes(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut changes = BTreeMap::new();
        for (key, value) in &self.settings {
            if key.starts_with("workload.") || OWN_KEYS.contains(&key.as_str()) {
                return Err(Failure::input(format!(
                    "--set {key}={value}: {key} is a key of the scenario; `mmtwin compare --vary {key}={value}` takes it"
                )));
            }
            if let Some(earlier) = changes.insert(key.clone(), value.clone()) {
                let message =
                    format!("--set {key}={earlier} and --set {key}={value}: give each setting once");
                return Err(Failure::input(message));
            }
        }
        Ok(changes)
    }

    /// The profile of the machine that `--machine` names, or else of `default`.
    pub fn profile(&self, default: &str) -> Result<Profile, Failure> {
        machine(self.machine.as_deref().unwrap_or(default))
    }
}

/// Writes to files in /proc/sys and /sys, and injected allocation failures.
#[derive(Args)]
struct WriteArguments {
    /// Let an operator write to a file in /proc/sys or /sys, such as vm.nr_hugepages=1024 or
    /// /proc/sys/vm/drop_caches=3; may be given several times, in order; replaces the scenario's writes, and begins when they would, or when measuring does
    #[arg(long = "write", value_name = "FILE=VALUE", value_parser = parse_write)]
    writes: Vec<String>,

    /// Fail the Nth allocation for huge pages and their vmemmap (--set fail_page_alloc/nth=N)
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    fail_alloc: Option<u64>,

    /// Fail this fraction of allocations for huge pages and their vmemmap, 0 to 1 (--set
    /// fail_page_alloc/ppm=...)
    #[arg(long, allow_negative_numbers = true, value_name = "P", value_parser = parse_rate)]
    fail_rate: Option<f64>,
}

fn parse_write(text: &str) -> Result<String, String> {
    let expected = "expected FILE=VALUE, for example vm.nr_hugepages=1024";
    let (file, value) = sim::host::parse_write(text).ok_or(expected)?;
    Ok(format!("{}={value}", short(file)))
}

fn parse_rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (0.0..=1.0).contains(rate))
        .ok_or("expected a fraction from 0 to 1".into())
}

impl WriteArguments {
    /// Puts the writes into `scenario` and the failures into `changes`.
    fn apply(&self, scenario: &mut Scenario, changes: &mut BTreeMap<String, String>) -> Result<(), Failure> {
        let ppm = self.fail_rate.map(|rate| (rate * 1e6).round() as u64);
        let failures = [
            ("--fail-alloc", "fail_page_alloc/nth", self.fail_alloc),
            ("--fail-rate", "fail_page_alloc/ppm", ppm),
        ];
        if !self.writes.is_empty() {
            let host = &mut scenario.workload;
            let milliseconds = host.events.first().map_or(host.warm_milliseconds, |first| first.milliseconds);
            let event = |write: &String| HostEvent { milliseconds, write: write.clone() };
            host.events = self.writes.iter().map(event).collect();
            scenario.description += &format!("; writes: {}", self.writes.join(", "));
        }
        for (argument, name, value) in failures {
            let Some(value) = value else { continue };
            if changes.insert(name.into(), value.to_string()).is_some() {
                return Err(Failure::input(format!("{argument} and --set {name}: give one of them")));
            }
        }
        Ok(())
    }
}
