//! `mmtwin show`: prints a scenario, a machine or a setting whole, and checks a file.
//!
//! ```text
//!   kbuild, spr-server     the file that is built in
//!   this                   the profile of the machine that mmtwin runs on
//!   vm.swappiness          what it is, takes, and acts on
//!   my.toml                the file, if it can be run; else what is wrong
//! ```

use crate::completion;
use crate::failure::Failure;
use crate::list::setting_text;
use crate::terminal;
use crate::this_machine;
use lab::experiment::Experiment;
use lab::scenario::{Scenario, THIS_MACHINE, load_machine, machine_names, machine_text};
use mm::sysctl::meant;
use std::fs;
use toml::Table;

/// Print a scenario, a machine or a setting whole, and check a file
#[derive(clap::Args)]
#[command(after_help = "\
A file is printed if everything in it is in order; what it makes is said besides.

Examples:
  mmtwin show kernel-build-3g        a scenario
  mmtwin show host-2s-224            a machine
  mmtwin show this                   the machine that mmtwin runs on
  mmtwin show vm.watermark_scale_factor
  mmtwin show my.toml                check a file")]
pub struct Arguments {
    /// A scenario, a machine, `this`, a setting, or a .toml file
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
    } else if let Some(setting) = mm::SETTINGS.iter().find(|setting| setting.name == name) {
        (setting_text(setting), None)
    } else {
        let settings = mm::SETTINGS.iter().map(|setting| setting.name);
        let known = Scenario::names().chain(machine_names()).chain(settings);
        return Err(Failure::input(format!(
            "{name}: no scenario, machine or setting has this name{}; there are those of `mmtwin list`, and .toml files",
            meant(name, known)
        )));
    };
    terminal::print(text.trim_end())?;
    said.into_iter().for_each(|said| terminal::say(format_args!("{said}")));
    Ok(())
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
