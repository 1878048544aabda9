//! `mmtwin doctor`: what is wrong with the memory manager of this machine, what it means, and which setting acts on it.
//!
//! ```text
//!   /proc, /sys ─┐
//!                ├─► live::doctor ─► Diagnosis ─► report.rs: a screen, or --all
//!   --from DIR ──┘                      └► predict.rs: the twin of this machine, a stand-in scenario
//! ```
//!
//! Findings are no failures: the exit code is 0 whatever is found. 130 says that Ctrl-C ended the samples early.

mod predict;
mod report;

use crate::arguments::{RESULTS, whole};
use crate::failure::Failure;
use crate::json;
use crate::progress::Lines;
use crate::terminal;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use live::doctor::{
    Diagnosis, Mechanism, NotSeen, Samples, Seen, Severity, Value, make_directory, rules, sample,
};
use predict::Prediction;
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::SIGINT;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::keys::Bounds;

/// The default of `--seconds`.
const SECONDS: u32 = 30;
const BOUNDS: Bounds = Bounds::new(1.0, 86_400.0, "a second to a day");

/// Say what is wrong with the memory of this machine, and which setting acts on it
#[derive(clap::Args)]
#[command(after_help = "\
Reads /proc and /sys twice, and zoneinfo every second in between; traces nothing, changes nothing
and needs no root. What cannot be read is told, with what would show it. For the most severe
finding that a built-in scenario is like, the twin of this machine runs that scenario with the
present value of a setting and another one; runs are kept as those of compare are.

Findings are no failures: the exit code is 0 whatever is found. Ctrl-C ends the samples early and
prints what they show.

Examples:
  mmtwin doctor
  mmtwin doctor --seconds 300 --all
  mmtwin doctor --no-predict --json
  mmtwin doctor --seconds 60 --save box-17
  mmtwin doctor --from box-17")]
pub struct Arguments {
    /// How long to watch [default: 30]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = whole::<u32>(BOUNDS))]
    seconds: Option<u32>,

    /// Diagnose what --save wrote, on any machine; the twin runs nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seconds", "save"])]
    from: Option<PathBuf>,

    /// Keep the files that are read in a new directory
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print all findings in full, every observation, and what is not seen
    #[arg(long)]
    all: bool,

    /// Run nothing in the twin
    #[arg(long)]
    no_predict: bool,

    /// Results directory of what is run in the twin
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    results: PathBuf,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

#[derive(JsonSchema, Serialize)]
pub struct View {
    /// As `uname -r` has it.
    kernel: String,
    /// What was diagnosed: this machine, or where a saved tree comes from.
    of: String,
    /// Between the first and the last sample.
    seconds: f64,
    /// The most severe kind of finding; none without findings.
    worst: Option<Severity>,
    /// Most severe first.
    findings: Vec<FindingView>,
    /// Mechanisms that rules could tell of, and none holds.
    sound: Vec<Mechanism>,
    not_seen: Vec<NotSeenView>,
    /// Rules that are not of this kernel.
    other_releases: Vec<String>,
    observations: Vec<ObservationView>,
    prediction: Option<Prediction>,
    notes: Vec<String>,
}

impl json::Document for View {
    const NAME: &'static str = "doctor";
}

#[derive(JsonSchema, Serialize)]
struct FindingView {
    id: String,
    mechanism: Mechanism,
    severity: Severity,
    title: String,
    means: String,
    reason: String,
    source: String,
    /// Names of observations that the rule looks at.
    seen: Vec<String>,
    /// The conditions that hold.
    when: Vec<String>,
    settings: Vec<SettingView>,
    /// What acts on it and is no setting of the twin's.
    elsewhere: Option<String>,
    /// Since when the kernel's rule behind it decides so.
    dates: Vec<String>,
    /// What to run to be sure.
    sure: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct SettingView {
    name: String,
    /// Its value here; none if this kernel has no such file, or it cannot be read.
    value: Option<String>,
    default: String,
    since: String,
}

#[derive(JsonSchema, Serialize)]
struct NotSeenView {
    observation: String,
    why: String,
    /// What a machine has that shows it.
    needs: String,
    /// Rules that say nothing without it.
    rules: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct ObservationView {
    name: String,
    mechanism: Mechanism,
    value: Value,
    unit: String,
    what: String,
    /// The file that it is read from.
    file: String,
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let (samples, is_interrupted) = match &arguments.from {
        Some(directory) => (Samples::open(directory)?, false),
        None => watch(arguments)?,
    };
    let diagnosis = Diagnosis::new(&samples, rules());
    let is_here = arguments.from.is_none();
    let prediction = match (is_interrupted || arguments.no_predict, is_here) {
        (true, _) => None,
        (false, true) => predict::predict(&diagnosis, &arguments.results)?,
        (false, false) => predict::elsewhere(&diagnosis)?,
    };
    if arguments.json {
        json::print(&view(&diagnosis, &samples, is_here, prediction))?;
    } else {
        let told = report::Told {
            diagnosis: &diagnosis,
            samples: &samples,
            is_here,
            prediction: prediction.as_ref(),
        };
        terminal::print(&if arguments.all { told.all() } else { told.screen() })?;
    }
    if is_interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Takes samples of this machine, and whether Ctrl-C ended them.
fn watch(arguments: &Arguments) -> Result<(Samples, bool), Failure> {
    if let Some(directory) = &arguments.save {
        make_directory(directory)?;
    }
    let seconds = f64::from(arguments.seconds.unwrap_or(SECONDS));
    let interrupted = Arc::new(AtomicBool::new(false));
    let registration =
        signal_hook::flag::register(SIGINT, interrupted.clone()).context("cannot watch for Ctrl-C")?;
    let style = ProgressStyle::with_template("{bar:12} reading /proc and /sys, {msg}")
        .context("the progress bar's template")?;
    let bar = ProgressBar::new((seconds * 1000.0) as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    let lines = Lines::of(&bar, |bar| format!("reading /proc and /sys, {}", bar.message()));
    let samples = sample(Path::new("/"), seconds, &mut |left| {
        bar.set_position(((seconds - left) * 1000.0) as u64);
        bar.set_message(format!("{left:.0} s left"));
        !interrupted.load(Ordering::Relaxed)
    });
    drop(lines);
    bar.finish_and_clear();
    signal_hook::low_level::unregister(registration);
    let is_interrupted = interrupted.load(Ordering::Relaxed);
    if is_interrupted {
        terminal::say(format_args!("interrupted: what {:.1} s show", samples.end.seconds));
    }
    if let Some(directory) = &arguments.save {
        samples.save(directory)?;
        terminal::say(format_args!("saved in {}", directory.display()));
    }
    Ok((samples, is_interrupted))
}

fn view(diagnosis: &Diagnosis, samples: &Samples, is_here: bool, prediction: Option<Prediction>) -> View {
    let words = |texts: &[&'static str]| texts.iter().map(|text| text.to_string()).collect();
    let not_seen = |NotSeen { observation, why, rules }: &NotSeen| NotSeenView {
        observation: observation.name.into(),
        why: why.clone(),
        needs: observation.needs.into(),
        rules: words(rules),
    };
    let observation = |Seen { observation, value }: &Seen| ObservationView {
        name: observation.name.into(),
        mechanism: observation.mechanism,
        value: value.clone(),
        unit: observation.unit.name().into(),
        what: observation.what.into(),
        file: format!("/{}", observation.file),
    };
    View {
        kernel: diagnosis.kernel.clone(),
        of: if is_here { "this machine".into() } else { samples.source.clone() },
        seconds: diagnosis.seconds,
        worst: diagnosis.worst(),
        findings: diagnosis.findings.iter().map(finding).collect(),
        sound: diagnosis.sound.clone(),
        not_seen: diagnosis.not_seen.iter().map(not_seen).collect(),
        other_releases: words(&diagnosis.other_releases),
        observations: diagnosis.seen.iter().map(observation).collect(),
        prediction,
        notes: diagnosis.notes.clone(),
    }
}

fn finding(of: &live::doctor::Finding) -> FindingView {
    let rule = of.rule;
    let setting = |(setting, value): &(&mm::sysctl::Setting, Option<String>)| SettingView {
        name: setting.name.into(),
        value: value.clone(),
        default: setting.default(machine::PageSize::default()),
        since: setting.since.release().into(),
    };
    FindingView {
        id: rule.id.clone(),
        mechanism: rule.mechanism,
        severity: rule.severity,
        title: of.title.clone(),
        means: of.means.clone(),
        reason: rule.reason.clone(),
        source: rule.source.clone(),
        seen: of.seen.iter().map(|seen| seen.observation.name.into()).collect(),
        when: rule.when.iter().map(|condition| condition.to_string()).collect(),
        settings: of.settings.iter().map(setting).collect(),
        elsewhere: rule.elsewhere.clone(),
        dates: rule
            .dates()
            .iter()
            .map(|date| format!("{}.{}: {}", date.structure, date.name(), date.releases()))
            .collect(),
        sure: rule.sure.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arguments, Command};
    use clap::{CommandFactory, Parser};
    use lab::experiment::Experiment;
    use lab::experiment::varied::Varied;
    use lab::scenario::{Scenario, load_machine};
    use std::collections::BTreeMap;

    /// Refuses a command that does not parse, or asks for what cannot be.
    fn check(command: &str) -> Result<(), String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        if let ["cat", file] | ["grep", _, file] = words[..] {
            return if file.starts_with("/proc/") { Ok(()) } else { Err("no file of /proc".into()) };
        }
        let parsed = Arguments::try_parse_from(&words).map_err(|error| error.to_string())?;
        let said = |failure: Failure| failure.message().unwrap_or_default();
        if let Command::Sweep(_) = &parsed.command {
            // On its own machine: whether a scenario fits the one at hand differs from machine to machine.
            let elsewhere = command.replace(" --machine this", "");
            let parsed = Arguments::try_parse_from(elsewhere.split_whitespace());
            let Ok(Arguments { command: Command::Sweep(arguments) }) = &parsed else {
                return Err("no sweep on another machine".into());
            };
            let sweep = crate::sweep::asked::sweep(arguments).map_err(said)?;
            return sweep.check().map_err(|error| error.to_string());
        }
        let behind = |option: &str| words.iter().position(|word| *word == option).map(|at| words[at + 1]);
        if !["run", "compare"].contains(&words[1]) {
            return Ok(());
        }
        let scenario = Scenario::load(words[2]).map_err(|error| error.to_string())?;
        let load = |name: &str| load_machine(name);
        let varied = behind("--vary").map(|text| Varied::parse(text, &load)).transpose();
        let experiment = Experiment {
            machine: load(&scenario.machine).map_err(|error| error.to_string())?,
            variants: vec!["6.18".into()],
            seeds: 1,
            changes: BTreeMap::new(),
            varied: varied.map_err(|error| error.to_string())?.into_iter().collect(),
            trees: BTreeMap::new(),
            scenario,
        };
        experiment.runs().map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn commands_of_rules_can_be_run() {
        let commands = rules().iter().flat_map(|rule| rule.sure.iter().map(|command| (&rule.id, command)));
        let wrong: Vec<String> = commands
            .filter_map(|(id, command)| Some(format!("{id}: {command}: {}", check(command).err()?)))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn examples_parse() {
        let command = Arguments::command();
        let help = command.find_subcommand("doctor").and_then(|doctor| doctor.get_after_help()).unwrap();
        let help = help.to_string();
        let examples: Vec<&str> =
            help.lines().map(str::trim).filter(|line| line.starts_with("mmtwin ")).collect();
        assert_eq!(examples.len(), 5);
        for example in examples {
            check(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }

    #[test]
    fn commands_that_cannot_be_run_are_found() {
        for wrong in [
            "cat /etc/passwd",
            "rm /proc/vmstat",
            "mmtwin doctor --for 30",
            "mmtwin run no-such-scenario",
            "mmtwin compare kbuild --vary vm.no_such=1,2",
            "mmtwin compare equilibrium --vary vm.dirty_ratio=10,20",
            "mmtwin sweep streaming-vs-hot --over vm.swappiness=0..300",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
