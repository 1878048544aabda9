//! `mmtwin compare`: variants or values of settings side by side, with confidence intervals and with the shift of CPU
//! time between categories.

mod threshold;

use crate::arguments::{self, Asked, ScenarioArguments, SweepArguments};
use crate::completion;
use crate::failure::Failure;
use crate::json;
use crate::number::{change, number, percent};
use crate::run::{notes, title};
use crate::study::hint;
use crate::sweep::sweep;
use crate::table::{Entry, Grid, Tone};
use crate::terminal;
use lab::comparison::documents::{self, Document, Paired};
use lab::comparison::{self, Comparison, MetricSummary, TimeShift};
use lab::experiment::Experiment;
use lab::experiment::varied::{Arm, Varied};
use lab::statistics::Method;
use machine::WrongValue;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{Better, Metric};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threshold::Threshold;

const VARIANTS: &str = "Variants or releases, separated by commas, the one to compare with first [default: the scenario's; with --vary its last]";

/// Compare variants of a scenario, or values of a setting, over paired seeds
#[derive(clap::Args)]
#[command(mut_arg("variants", |variants| variants.help(VARIANTS)))]
#[command(after_help = "\
The other columns are compared with the first one. The scenario's first metric that has a better
direction is tested: its changes are tested together, and marked with * if they are significant and
large enough (--at-least), with (*) if they are significant but smaller. The other metrics are only
explanatory; they have intervals, but no marks.

--vary takes kernel settings, scenario, machine, memory (of all nodes, as in 16GiB), keys of the
scenario's workload (workload.KEY) and of the machine's file (machine.TABLE.KEY). Given several
times, or with --variants, it makes all combinations.

Examples:
  mmtwin compare kbuild
  mmtwin compare kbuild --variants pcp-base,patch9,6.18 --seeds 10
  mmtwin compare page_fault1 --vary vm.percpu_pagelist_high_fraction=0,8,64,512
  mmtwin compare page_fault1 --variants 6.6,6.18 --vary workload.tasks=56,112
  mmtwin compare af_unix --set vm.stat_interval=10 --machine spr-server
  mmtwin compare hugetlb-neighbour --write vm.nr_hugepages=16384 --fail-rate 0.001
  mmtwin compare page_fault1 --variants 6.12,6.18 --fail-if 'score < -2 %'
  mmtwin compare before.json after.json
  mmtwin compare results-before results-after
  mmtwin compare my-scenario.toml --json")]
pub struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,

    /// With two files that `run --json` or `compare --json` printed, or two results directories: compare the second with the first,
    /// each variant with itself over the seeds that both have
    #[arg(value_name = "SECOND.json|DIR", conflicts_with_all = ["vary", "variants", "machine", "settings"])]
    second: Option<PathBuf>,

    /// Compare the values of a key with the first one; may be given several times
    #[arg(long, value_name = "KEY=V1,V2,...", add = completion::varied())]
    vary: Vec<String>,

    /// Smallest relevant change, in percent of the base [default: 1 %]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    at_least: Option<f64>,

    /// Exit with 1 if a metric of any column differs more than this from the first column, and, with three seeds or more, not by chance, such as
    /// 'score < -2 %' or 'pcp_max > +100' (in the metric's unit); may be given several times
    #[arg(long, value_name = "METRIC > CHANGE", add = completion::metrics())]
    fail_if: Vec<Threshold>,

    #[command(flatten)]
    sweep: SweepArguments,
}

/// A clap value parser for a percentage such as `1%`, `0.5 %` or `1`; the result is a fraction.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let percent = number.filter(|percent| (0.0..=1000.0).contains(percent));
    percent
        .map(|percent| percent / 100.0)
        .ok_or("expected a percentage from 0 to 1000, for example 1%".into())
}

/// The default of `--at-least`, as a fraction.
pub const RELEVANT: f64 = 0.01;

/// The minimum number of seeds for `--vary`: fewer cannot distinguish the values of a key.
const SEEDS_TO_VARY: u32 = 5;
/// Runs of scenarios whose default is at least this many seeds take only seconds.
const SEEDS_OF_SHORT_RUNS: u32 = 3;

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(second) = &arguments.second {
        return compare_documents(arguments, second);
    }
    let Asked { scenario, machine, variants, changes, trees } = arguments.scenario.load()?;
    let varied: Result<Vec<Varied>, Failure> =
        arguments.vary.iter().map(|text| Varied::parse(text, &arguments::machine)).collect();
    let varied = varied?;
    for Varied { key, .. } in &varied {
        let option = match key.as_str() {
            "machine" if arguments.scenario.has_machine() => "--machine",
            key if changes.contains_key(key) => "--set",
            _ => continue,
        };
        return Err(Failure::input(format!("--vary {key} and {option}: give one of them")));
    }
    let own = || match varied.is_empty() {
        true => scenario.variants.clone(),
        false => scenario.variants.iter().rev().take(1).cloned().collect(),
    };
    let seeds = match scenario.seeds {
        own if !varied.is_empty() && own >= SEEDS_OF_SHORT_RUNS => own.max(SEEDS_TO_VARY),
        own => own,
    };
    let experiment = Experiment {
        machine,
        variants: variants.unwrap_or_else(own),
        seeds: arguments.sweep.seeds.map_or(seeds, |seeds| seeds.get()),
        changes,
        varied,
        trees,
        scenario,
    };
    let arms = experiment.arms()?;
    let metrics = comparison::metrics_of(&arms);
    threshold::check(
        &arguments.fail_if,
        &comparison::scenarios_of(&arms),
        metrics.iter().map(String::as_str),
    )?;
    let comparison = compare(&experiment, &arguments.sweep, arguments.at_least.unwrap_or(RELEVANT))?;
    threshold::keep_within(&arguments.fail_if, &[comparison])
}

/// Compares two documents or two results directories, and prints a comparison for each variant that both have.
fn compare_documents(arguments: &Arguments, second: &Path) -> Result<(), Failure> {
    let read = |path: &Path| {
        let name = path.display().to_string();
        if path.is_dir() {
            return Ok(Document::of_directory(path)?);
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::input(format!("{name}: {error}")))?;
        Document::read(&name, &text).map_err(wrong)
    };
    let first = Path::new(arguments.scenario.name());
    if first.is_dir() != second.is_dir() && first.exists() && second.exists() {
        let message =
            format!("{}, {}: give two files, or two results directories", first.display(), second.display());
        return Err(Failure::input(message));
    }
    let (first, second) = (read(first)?, read(second)?);
    let at_least = arguments.at_least.unwrap_or(RELEVANT);
    let Paired { comparisons, left_over } = documents::compare(&first, &second, at_least).map_err(wrong)?;
    if left_over != [0, 0] {
        let [first, second] = left_over;
        terminal::say(format_args!(
            "note: {first} runs of the first and {second} of the second have no counterpart"
        ));
    }
    for Comparison { scenario, metrics, .. } in &comparisons {
        threshold::check(&arguments.fail_if, scenario, metrics.iter().map(|metric| metric.name))?;
    }
    if arguments.sweep.json {
        json::print(&Comparisons { comparisons: &comparisons })?;
    } else {
        let texts: Vec<String> = comparisons.iter().map(|comparison| render(comparison, "")).collect();
        terminal::print(&texts.join("\n\n"))?;
    }
    threshold::keep_within(&arguments.fail_if, &comparisons)
}

fn wrong(error: WrongValue) -> Failure {
    Failure::input(format!("{}: {}: expected {}", error.key, error.value, error.expected))
}

/// Variants of two documents.
#[derive(JsonSchema, Serialize)]
pub struct Comparisons<'a> {
    comparisons: &'a [Comparison],
}

impl json::Document for Comparisons<'_> {
    const NAME: &'static str = "compare-documents";
}

/// Runs `experiment` and prints the comparison of its arms.
pub fn compare(
    experiment: &Experiment,
    arguments: &SweepArguments,
    at_least: f64,
) -> Result<Comparison, Failure> {
    let arms = experiment.arms()?;
    let records = sweep(experiment, arguments)?;
    let comparison = Comparison::new(&arms, &records, at_least);
    if arguments.json {
        json::print(&View { comparison: &comparison, results: arguments.results.display().to_string() })?;
        return Ok(comparison);
    }
    terminal::print(&format!(
        "{}{}{}",
        render(&comparison, &description(&arms)),
        notes(&records),
        hint(&experiment.scenario.name)
    ))?;
    Ok(comparison)
}

/// What the scenario is, if all arms have the same.
fn description(arms: &[Arm]) -> String {
    match arms {
        [first, others @ ..] if others.iter().all(|arm| arm.scenario.name == first.scenario.name) => {
            first.scenario.description.clone()
        }
        _ => String::new(),
    }
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    results: String,
}

impl json::Document for View<'_> {
    const NAME: &'static str = "compare";
    const VERSION: u32 = 2;
}

/// What was run: the first lines of what is printed about a scenario.
pub fn heading(
    scenario: &str,
    machine: &str,
    description: &str,
    evidence: &str,
    settings: &BTreeMap<String, String>,
) -> String {
    let colon = if description.is_empty() { "" } else { ": " };
    let mut text = format!(
        "{scenario} on {machine}{colon}{description}
"
    );
    for line in evidence.lines() {
        text += &format!(
            "evidence: {line}
"
        );
    }
    for (name, value) in settings {
        text += &format!("{name} = {value}\n");
    }
    text
}

fn render(comparison: &Comparison, description: &str) -> String {
    let kernels = distinct(comparison.variants.iter().map(|variant| variant.variant.as_str()));
    let Comparison { scenario, machine, evidence, settings, .. } = comparison;
    let mut text = heading(scenario, machine, description, evidence, settings);
    if let (false, [kernel]) = (comparison.varied.is_empty(), &kernels[..]) {
        text += &format!("kernel: {kernel}\n");
    }
    text += &format!("\n{}\n\n{}", grid(comparison).render(), legend(comparison));
    if let Some(time) = &comparison.time {
        text += &format!("\n{}", where_time_went(time));
    }
    text
}

fn grid(comparison: &Comparison) -> Grid {
    let mut header = vec![comparison.varied.join(", ")];
    header.extend(comparison.variants.iter().map(|variant| variant.name.clone()));
    let mut grid = Grid { header, ..Grid::default() };
    for metric in &comparison.metrics {
        let summaries: Vec<Option<&MetricSummary>> =
            comparison.variants.iter().map(|variant| variant.metrics.get(metric.name)).collect();
        if summaries.iter().any(Option::is_some) {
            let cells = summaries.into_iter().map(|summary| summary.map_or("-".into(), |s| cell(metric, s)));
            grid.row([Entry::from(title(metric))].into_iter().chain(cells));
        }
    }
    grid
}

fn cell(metric: &Metric, summary: &MetricSummary) -> Entry {
    let mut lines = vec![number(summary.mean)];
    let mut tone = Tone::Plain;
    match (&summary.change, summary.interval) {
        (Some(against_first), _) => {
            let mark = match summary.verdict {
                Some(verdict) if verdict.counts() => "*",
                Some(verdict) if verdict.significant => "(*)",
                _ => "",
            };
            let (value, interval) = change(against_first, metric.unit_of_change(), mark);
            lines.push(value);
            lines.extend(interval);
            if mark == "*" {
                tone = tone_of(metric, against_first.difference);
            }
        }
        (None, Some(interval)) => {
            lines.push(format!("[{}, {}]", number(interval.low), number(interval.high)));
        }
        (None, None) => {}
    }
    Entry { text: lines.join("\n"), tone }
}

/// Whether a change that chance alone is unlikely to make is a good one.
pub fn tone_of(metric: &Metric, difference: f64) -> Tone {
    match (metric.better, difference > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Tone::Good,
        (Better::Higher, false) | (Better::Lower, true) => Tone::Bad,
        (Better::Neutral, _) => Tone::Plain,
    }
}

/// What stands in brackets behind a change; none if one seed is all there is.
pub fn brackets(method: Method) -> Option<&'static str> {
    match method {
        Method::None => None,
        Method::Range => Some("the smaller and the larger of two"),
        Method::StudentsT => Some("95 % interval (Student's t over pairs of the same seed)"),
        Method::Bca => Some("95 % interval (BCa bootstrap over pairs of the same seed)"),
    }
}

/// What is said of results of a single seed.
pub const ONE_SEED: &str = "one seed: no intervals and no significance; give --seeds 5 or more (recorded mappings: as many as there are recordings)";

/// What the numbers are, and what the marks say.
fn legend(comparison: &Comparison) -> String {
    let first = comparison.variants.first().map_or("", |variant| &variant.name);
    let seeds = comparison.seeds.len();
    let Some(interval) = brackets(comparison.method) else { return ONE_SEED.into() };
    let mut text =
        format!("{seeds} seeds. Mean, change against {first}, {interval}; pt are percentage points.");
    let judged = comparison.judged.as_deref().and_then(Metric::find);
    if let (Some(metric), false) = (judged, comparison.method == Method::Range) {
        let tested = comparison.variants.len().saturating_sub(1);
        let together =
            if tested > 1 { format!(" ({tested} changes tested together, Holm)") } else { String::new() };
        text += &format!(
            "\nOf {}, * marks a change of at least {} that chance alone is unlikely to make{together}; (*) a smaller one.\n\
             Other metrics are not tested: they say why.",
            metric.label,
            percent(comparison.at_least)
        );
    }
    text
}

/// Each of some names once.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(Vec::new(), |mut all, name| {
        if !all.contains(&name) {
            all.push(name);
        }
        all
    })
}

/// How many categories of CPU time are shown, those with the largest shift first.
const CATEGORIES: usize = 5;

fn where_time_went(time: &TimeShift) -> String {
    let moved = time
        .categories
        .iter()
        .map(|shift| (shift, percent(shift.from), percent(shift.to)))
        .filter(|(_, from, to)| from != to)
        .take(CATEGORIES)
        .map(|(shift, from, to)| format!("{} {from} -> {to}", shift.category));
    let by = Metric::find(&time.by).map_or(time.by.as_str(), |metric| metric.label);
    let mut moved: Vec<String> = moved.collect();
    if moved.is_empty() {
        moved.push("the same shares".into());
    }
    format!(
        "Where busy CPU time went, {} -> {} (best {by} of the others): {}",
        time.from,
        time.to,
        moved.join(", ")
    )
}
