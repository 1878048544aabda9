//! `mmtwin study`: questions that take several scenarios to answer.

mod equilibrium;
mod pid_filter;

use crate::arguments::{SweepArguments, SystemArguments};
use crate::failure::Failure;
use crate::plot::{self, PlotFile};
use lab::experiment::Experiment;
use lab::study::Study;
use mm::sysctl::meant;
use serde::Serialize;
use std::collections::BTreeMap;

/// Answer a question that takes several scenarios
#[derive(clap::Args)]
#[command(after_help = "\
equilibrium: do more fallback orders cost a system that runs for long its folios of 64 KiB? Thirteen
scenarios, 20 seeds each, with a verdict on each hypothesis. A plot shows how often they were had
over the longest of them.

pid-filter: on which kernels does NUMA balancing starve memory that no thread faulted in lately? A
map of sharing, threads and run time, each kernel against the one that scans all. All of it takes
half an hour of CPU time.

What is there already is not run again.

Examples:
  mmtwin study equilibrium --plot equilibrium.svg
  mmtwin study equilibrium --seeds 3 --json
  mmtwin study equilibrium --machine ampere-altra-16k
  mmtwin study pid-filter
  mmtwin study pid-filter --only late-4 --seeds 3")]
pub struct Arguments {
    /// The study: equilibrium or pid-filter
    study: String,

    /// Plot rates of equilibrium to an SVG or PNG file
    #[arg(long, value_name = "FILE.svg|png", value_parser = plot::file)]
    plot: Option<PlotFile>,

    /// Rows of pid-filter whose name, SHARING-THREADS-SECONDSs, has this in it
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    #[command(flatten)]
    system: SystemArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

impl Arguments {
    fn seeds(&self) -> Option<u32> {
        self.sweep.seeds.map(|seeds| seeds.get())
    }

    /// The experiment of an arm on the machine, and with the settings, that were asked for.
    fn asked(&self, experiment: Experiment) -> Result<Experiment, Failure> {
        let machine = self.system.profile(&experiment.scenario.machine)?;
        Ok(Experiment { machine, changes: self.system.changes()?, ..experiment })
    }
}

/// On what a study ran: the machine, and the seeds of each arm.
#[derive(Debug, Serialize)]
struct Ground {
    machine: String,
    seeds: u32,
    settings: BTreeMap<String, String>,
}

impl Ground {
    /// That of an arm, and so of all of them.
    fn of(experiment: &Experiment) -> Ground {
        Ground {
            machine: experiment.machine.name.clone(),
            seeds: experiment.seeds,
            settings: experiment.changes.clone(),
        }
    }

    /// A heading.
    fn heading(&self, study: &str) -> String {
        let settings: String = self.settings.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        let seeds = if self.seeds == 1 { "one seed".into() } else { format!("{} seeds", self.seeds) };
        format!("{study} on {}, {seeds} each{settings}", self.machine)
    }
}

/// Runs the study.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let asked = arguments.study.as_str();
    match Study::find(asked) {
        Some(Study::EQUILIBRIUM) => equilibrium::execute(arguments),
        Some(Study::PID_FILTER) => pid_filter::execute(arguments),
        _ => {
            let names = Study::ALL.map(|study| study.name);
            Err(Failure::input(format!(
                "{asked}: no such study{}; there are: {}",
                meant(asked, names),
                names.join(", ")
            )))
        }
    }
}

/// What to say below the numbers of a scenario that is part of a study.
pub fn hint(scenario: &str) -> String {
    let hint = |study: Study| {
        format!("\n\n{scenario} is part of a study, which has the verdict: mmtwin study {}", study.name)
    };
    Study::of_scenario(scenario).map(hint).unwrap_or_default()
}
