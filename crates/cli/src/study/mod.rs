//! `mmtwin study`: questions that take several scenarios to answer.

pub mod equilibrium;
pub mod pid_filter;
pub mod reclaim;

use crate::arguments::{SweepArguments, SystemArguments};
use crate::completion;
use crate::failure::Failure;
use crate::files::{FileArguments, GoneArguments};
use lab::experiment::Experiment;
use lab::study::Study;
use mm::sysctl::meant;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Answer a question that takes several scenarios
#[derive(clap::Args)]
#[command(after_help = "\
equilibrium: do more fallback orders cost a long-running system its 64 KiB folios? Thirteen
scenarios with 20 seeds each decide each hypothesis. The chart of a report shows the allocation
success rate over the longest scenario.

pid-filter: on which kernels does NUMA balancing starve VMAs in which no thread has had a hinting
fault recently? A table over sharing, threads and run time compares each kernel with one that scans
everything. All of it takes half an hour of CPU time.

reclaim: what does each mechanism of the multi-gen LRU give and cost, on which demand is the classic
LRU ahead, and what did each release change? Seven demands, every set of five mechanisms, both LRUs
of each release whose reclaim differs. All of it takes an hour of CPU time.

Runs whose results are already stored are reused.

Examples:
  mmtwin study equilibrium -o equilibrium.html
  mmtwin study equilibrium --seeds 3 --json
  mmtwin study equilibrium --machine ampere-altra-16k
  mmtwin study pid-filter
  mmtwin study pid-filter --only late-4 --seeds 3
  mmtwin study reclaim -o reclaim.html
  mmtwin study reclaim --only build --seeds 2")]
pub struct Arguments {
    /// The study: equilibrium, pid-filter or reclaim
    #[arg(add = completion::studies())]
    study: String,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    gone: GoneArguments,

    /// Only rows of pid-filter (SHARING-THREADS-SECONDSs) or demands of reclaim whose name contains TEXT
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

    /// Applies `--machine` and `--set` to the experiment of one arm.
    fn asked(&self, mut experiment: Experiment) -> Result<Experiment, Failure> {
        experiment.machine = self.system.profile(&experiment.scenario.machine)?;
        let changes = self.system.changes()?;
        if let Some(key) = changes.keys().find(|&key| experiment.changes.contains_key(key)) {
            return Err(Failure::input(format!(
                "--set {key}: the study compares values of it; leave the option out"
            )));
        }
        experiment.changes.extend(changes);
        Ok(experiment)
    }
}

/// What all arms of a study have in common: the machine, the number of seeds, the settings.
#[derive(Debug, JsonSchema, Serialize)]
struct Ground {
    machine: String,
    seeds: u32,
    settings: BTreeMap<String, String>,
}

impl Ground {
    /// Reads it from any one arm.
    fn of(experiment: &Experiment) -> Ground {
        Ground {
            machine: experiment.machine.name.clone(),
            seeds: experiment.seeds,
            settings: experiment.changes.clone(),
        }
    }

    /// The first line of the report.
    fn heading(&self, study: &str) -> String {
        let settings: String = self.settings.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        let seeds = if self.seeds == 1 { "one seed".into() } else { format!("{} seeds", self.seeds) };
        format!("{study} on {}, {seeds} each{settings}", self.machine)
    }
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    arguments.gone.refuse()?;
    let asked = arguments.study.as_str();
    match Study::find(asked) {
        Some(Study::EQUILIBRIUM) => equilibrium::execute(arguments),
        Some(Study::PID_FILTER) => pid_filter::execute(arguments),
        Some(Study::RECLAIM) => reclaim::execute(arguments),
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

/// A note for a scenario that is part of a study: it names the study.
pub fn hint(scenario: &str) -> String {
    let hint = |study: Study| {
        format!("\n\n{scenario} is part of a study, which answers its question: mmtwin study {}", study.name)
    };
    Study::of_scenario(scenario).map(hint).unwrap_or_default()
}
