//! `mmtwin show`: prints a scenario, a machine or a setting whole, and checks a file.
//!
//! ```text
//!   kbuild, spr-server     the file that is built in
//!   this                   the profile of the machine that mmtwin runs on
//!   vm.swappiness          what it is, takes, and acts on
//!   mglru.placement        a feature: what it is, its values, and which releases have them
//!   6.12                   a kernel: what it is, and every feature with its value
//!   my.toml                the file, if it can be run; else what is wrong
//! ```

use crate::completion;
use crate::failure::Failure;
use crate::list::{feature_text, setting_text};
use crate::terminal;
use crate::this_machine;
use lab::experiment::Experiment;
use lab::scenario::{Scenario, THIS_MACHINE, load_machine, machine_names, machine_text};
use mm::features::by_name::Feature;
use mm::file_name::short;
use mm::series::{RELEASES, Series, Variant};
use mm::sysctl::meant;
use std::fs;
use toml::Table;

/// Print a scenario, machine, setting, feature or kernel whole, and check a file
#[derive(clap::Args)]
#[command(after_help = "\
A file is printed if everything in it is in order; what it makes is said besides.

Examples:
  mmtwin show kernel-build-3g        a scenario
  mmtwin show host-2s-224            a machine
  mmtwin show this                   the machine that mmtwin runs on
  mmtwin show vm.watermark_scale_factor
  mmtwin show mglru.placement        a rule in which kernels differ
  mmtwin show 6.12                   a kernel, by all its rules
  mmtwin show my.toml                check a file")]
pub struct Arguments {
    /// A scenario, a machine, `this`, a setting, a feature, a release or variant, or a .toml file
    #[arg(value_name = "NAME|FILE", add = completion::shown())]
    name: String,
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.name.as_str();
    let (text, said) = if name == THIS_MACHINE {
        (toml::to_string(&this_machine::profile()?).expect("a profile is a table"), None)
    } else if name.ends_with(".toml") {
        checked(name)?
    } else if Scenario::names().any(|known| known == name) {
        (Scenario::text(name)?, None)
    } else if machine_names().any(|known| known == name) {
        (machine_text(name)?, None)
    } else if let Some(setting) = mm::SETTINGS.iter().find(|setting| setting.name == short(name)) {
        (setting_text(setting), None)
    } else if let Some(text) = feature_text(name).or_else(|| kernel(name)) {
        (text, None)
    } else {
        let names = names();
        return Err(Failure::input(format!(
            "{name}: no scenario, machine, setting, feature or kernel has this name{}; there are those of `mmtwin list`, and .toml files",
            meant(name, names.iter().map(String::as_str))
        )));
    };
    terminal::print(text.trim_end())?;
    said.into_iter().for_each(|said| terminal::say(format_args!("{said}")));
    Ok(())
}

/// Everything that can be shown by its name.
pub fn names() -> Vec<String> {
    let settings = mm::SETTINGS.iter().map(|setting| setting.name);
    let variants = Series::ALL.iter().flat_map(Series::variants).map(|variant| variant.name);
    let releases = RELEASES.iter().map(|(release, _)| *release);
    let known = Scenario::names().chain(machine_names()).chain([THIS_MACHINE]).chain(settings);
    let known = known.chain(variants).chain(releases).map(String::from);
    let mut names: Vec<String> =
        known.chain(Feature::all().into_iter().map(|feature| feature.path)).collect();
    names.sort();
    names.dedup();
    names
}

/// What a release or a variant is, and the value of each of its features; none if there is none of this name.
fn kernel(name: &str) -> Option<String> {
    let posted = || Series::ALL.iter().find_map(|series| series.variant(name));
    let variant = Variant::of_release(name).or_else(posted)?;
    let value = |Feature { path, .. }: Feature| Some(format!("{path} = {}", variant.features.word(&path)?));
    let settings = variant.settings.iter().map(|(setting, value)| format!("{setting} = {value}"));
    let lines = [format!("{}: {}", variant.name, variant.description)].into_iter().chain(settings);
    Some(lines.chain(Feature::all().into_iter().filter_map(value)).collect::<Vec<_>>().join("\n"))
}

/// The text of a file that is in order, and what it makes.
fn checked(path: &str) -> Result<(String, Option<String>), Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::input(format!("{path}: {error}")))?;
    // A file that is no TOML is no scenario, which says where.
    let is_machine = toml::from_str::<Table>(&text).is_ok_and(|table| table.contains_key("topology"));
    let said = if is_machine {
        let machine = load_machine(path)?;
        let topology = machine.topology();
        format!("{path} is a machine with {} CPUs on {} nodes", topology.cpus(), topology.nodes)
    } else {
        let experiment = Experiment::of(path, None)?;
        let (runs, machine) = (experiment.runs()?.len(), &experiment.machine.name);
        format!("{path} is a scenario of {runs} runs on {machine}")
    };
    Ok((text, Some(said)))
}
