//! `mmtwin compare`: variants or values of settings side by side, with confidence intervals and with the shift of CPU
//! time between categories.

mod layout;
mod page;
mod sentences;
mod threshold;

pub use sentences::{NOTHING_DONE, verdict};

use crate::arguments::{self, Asked, ScenarioArguments, SweepArguments};
use crate::completion;
use crate::failure::Failure;
use crate::files::{self, Contents, Ending, FileArguments, Files};
use crate::json;
use crate::notes;
use crate::number::percent;
use crate::runner::sweep;
use crate::study::hint;
use crate::table::{Tone, folded, terminal_width};
use crate::terminal;
use crate::timeline::TimelineArguments;
use lab::comparison::documents::{self, Document, Paired};
use lab::comparison::shown::Shown;
use lab::comparison::verdict::is_better;
use lab::comparison::{self, Comparison, TimeShift};
use lab::experiment::Experiment;
use lab::experiment::varied::{Arm, Varied};
use lab::results::{Record, records};
use lab::scenario::Scenario;
use lab::statistics::Method;
use machine::WrongValue;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::Metric;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use threshold::Threshold;

const VARIANTS: &str = "Variants or releases, separated by commas, the one to compare with first [default: the scenario's; with --vary its last]";

const SEEDS: &str = "Run seeds 1 to N, the same for every variant [default: the scenario's number; with --vary at least 5 if that is 3 or more]";

/// Compare variants of a scenario, or values of a setting, over paired seeds
#[derive(clap::Args)]
#[command(mut_arg("variants", |variants| variants.help(VARIANTS)), mut_arg("seeds", |seeds| seeds.help(SEEDS)))]
#[command(after_help = "\
The other variants are compared with the first one, and a verdict says what that comes to. The
scenario's first metric that has a better direction is judged: its changes are tested together, and
marked with * if they are significant and large enough (--at-least). The other metrics say why; of
them the verdict names those that got significantly and relevantly worse in the best variant.

-o writes files too; their endings say what they are: .html a report with charts, .csv .md .json
the table. What is there already is replaced with --force only.

Left out of the table, with a line that says so, are variants equal to the one before them and
metrics that are zero or that no variant changes; --json has all. A pipe or a file gets a line for
each variant and metric, fields two spaces or more apart, unless COLUMNS says how wide a table is.

--vary takes kernel settings, scenario, machine, memory (of all nodes, as in 16GiB), keys of the
scenario's workload (workload.KEY) and of the machine's file (machine.TABLE.KEY). Given several
times, or with --variants, it makes all combinations.

Examples:
  mmtwin compare kbuild
  mmtwin compare kbuild --variants pcp-base,patch9,6.18 --seeds 10 --brief
  mmtwin compare page_fault1 --metrics score,pcp_max,lock --all
  mmtwin compare page_fault1 --vary vm.percpu_pagelist_high_fraction=0,8,64,512
  mmtwin compare page_fault1 --variants 6.6,6.18 --vary workload.programs.0.program.tasks=56,112
  mmtwin compare af_unix --set vm.stat_interval=10 --machine spr-server
  mmtwin compare hugetlb-neighbour --write vm.nr_hugepages=16384 --fail-rate 0.001
  mmtwin compare page_fault1 --variants 6.12,6.18 --fail-if 'score < -2 %'
  mmtwin compare kbuild -o kbuild.html -o kbuild.csv
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
    view: ViewArguments,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    timeline: TimelineArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

/// What is shown of a comparison; documents have all of it.
#[derive(clap::Args)]
pub struct ViewArguments {
    /// Show all variants and metrics, those without a difference too
    #[arg(long)]
    all: bool,

    /// Show these metrics, separated by commas [default: the scenario's]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', value_parser = arguments::metric, add = completion::metrics())]
    metrics: Vec<Metric>,

    /// Print nothing but the verdict
    #[arg(long)]
    brief: bool,
}

/// A clap value parser for a percentage such as `1%`, `0.5 %` or `1`; the result is a fraction.
pub fn parse_percent(text: &str) -> Result<f64, String> {
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
    let name = arguments.scenario.name();
    if Path::new(name).is_dir() && !Scenario::names().any(|known| known == name) {
        return Err(Failure::input(format!(
            "{name}: a directory, and no scenario; two results directories are compared with `mmtwin compare {name} OTHER`"
        )));
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
    let files = arguments.timeline.check(&arguments.files, &experiment)?;
    let at_least = arguments.at_least.unwrap_or(RELEVANT);
    let Arguments { view, timeline, sweep, .. } = arguments;
    let wanted = Wanted { sweep, view, files, timeline };
    let comparison = compare(&experiment, &wanted, at_least)?;
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
    let directories: Vec<PathBuf> =
        [first, second].into_iter().filter(|path| path.is_dir()).map(PathBuf::from).collect();
    let (first, second) = (read(first)?, read(second)?);
    let files = arguments.files.check(Ending::CHART)?;
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
    let document = Comparisons { comparisons: &comparisons };
    if arguments.sweep.json {
        json::print(&document)?;
    } else {
        let texts = comparisons.iter().map(|comparison| arguments.view.render(comparison, ""));
        terminal::print(&texts.collect::<Vec<_>>().join("\n\n"))?;
    }
    files.write(|| {
        let page = page::of_documents(
            "Two documents compared",
            (&comparisons, &records_of(&directories, &comparisons)?),
            &arguments.view,
            &files::again(Path::new("")),
        );
        Ok(Contents { page, json: json::text(&document)?, own: Vec::new() })
    })?;
    threshold::keep_within(&arguments.fail_if, &comparisons)
}

/// What results directories have: the variants of each scenario side by side, printed and in files.
pub fn report_directories(
    directories: &[PathBuf],
    (view, files): (&ViewArguments, &Files),
) -> Result<(), Failure> {
    let read = directories.iter().map(|directory| Document::of_directory(directory));
    let documents = read.collect::<Result<Vec<_>, _>>()?;
    if let Some((_, empty)) = documents.iter().zip(directories).find(|(document, _)| document.is_empty()) {
        return Err(Failure::input(format!(
            "{}: no runs; `mmtwin run` and others keep theirs with --results DIR",
            empty.display()
        )));
    }
    let comparisons = documents::side_by_side(&documents, RELEVANT);
    let names: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
    let names = names.join(", ");
    let text = |comparison: &Comparison| {
        let Comparison { scenario, machine, settings, .. } = comparison;
        let settings = further_settings(settings);
        // A table has these above it.
        let heading =
            if view.brief { format!("{scenario} on {machine}{settings}:\n") } else { String::new() };
        format!("{heading}{}", view.render(comparison, ""))
    };
    terminal::print(&comparisons.iter().map(text).collect::<Vec<_>>().join("\n\n"))?;
    files.write(|| {
        let title = format!("Runs kept in {names}");
        let records = records_of(directories, &comparisons)?;
        let page = page::of_documents(&title, (&comparisons, &records), view, &files::again(Path::new("")));
        Ok(Contents { page, json: json::text(&Comparisons { comparisons: &comparisons })?, own: Vec::new() })
    })
}

/// The runs of the first seed of each variant, as results directories have them.
fn records_of(directories: &[PathBuf], comparisons: &[Comparison]) -> Result<Vec<Record>, Failure> {
    let first = comparisons.iter().flat_map(|comparison| &comparison.variants);
    let first: BTreeSet<&str> = first.map(|variant| variant.first_run.as_str()).collect();
    let found: Result<Vec<_>, _> = directories.iter().map(|directory| records(directory, &first)).collect();
    Ok(found?.into_iter().flatten().collect())
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

/// How a comparison is made and where it goes.
pub struct Wanted<'a> {
    pub sweep: &'a SweepArguments,
    pub view: &'a ViewArguments,
    pub files: Files,
    pub timeline: &'a TimelineArguments,
}

/// Runs `experiment`, prints the comparison of its arms, and writes the files that were asked for.
pub fn compare(experiment: &Experiment, wanted: &Wanted, at_least: f64) -> Result<Comparison, Failure> {
    let Wanted { sweep: arguments, view, files, timeline } = wanted;
    let arms = experiment.arms()?;
    view.check(&arms)?;
    let records = sweep(experiment, arguments)?;
    let comparison = Comparison::new(&arms, &records, at_least);
    let document = View { comparison: &comparison, results: arguments.results.display().to_string() };
    let seeds = records.len() / arms.len().max(1);
    let names = arms.iter().flat_map(|arm| std::iter::repeat_n(arm.name.as_str(), seeds));
    let named: Vec<(&str, &Record)> = names.zip(&records).collect();
    let notes = format!("{}{}", notes::of_arms(&named), hint(&experiment.scenario.name));
    // What was computed is printed first: it is there whatever becomes of the files.
    if arguments.json {
        json::print(&document)?;
    } else {
        let text = view.render(&comparison, &description(&arms));
        let notes = folded(&notes, terminal_width().unwrap_or(usize::MAX));
        terminal::print(&(text + &notes))?;
    }
    files.write(|| {
        let runs = page::Runs { arms: &arms, records: &records, again: files::again(&arguments.results) };
        let page = page::of(&comparison, view, &notes, &runs);
        let of_first_seed = |of: &&Record| of.run.seed == records[0].run.seed;
        let shown: Vec<&Record> = records.iter().filter(of_first_seed).collect();
        let own = timeline.trace(files, &shown, arguments.jobs())?;
        Ok(Contents { page, json: json::text(&document)?, own })
    })?;
    Ok(comparison)
}

/// What the scenario is, if all arms have the same.
pub fn description(arms: &[Arm]) -> String {
    match arms {
        [first, others @ ..] if others.iter().all(|arm| arm.scenario.name == first.scenario.name) => {
            let mut description = first.scenario.description.clone();
            if let Some(own) = arms.iter().find_map(comparison::own_machine) {
                description += &format!(" (written for {own}, not for this machine)");
            }
            description
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

/// Settings behind something else in a line: `; vm.swappiness = 10`.
fn further_settings(settings: &BTreeMap<String, String>) -> String {
    settings.iter().map(|(name, value)| format!("; {name} = {value}")).collect()
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

/// Lines of a table and what is around it that a small terminal shows at once. The verdict stands above what is longer.
const SCREEN: usize = 24;

impl ViewArguments {
    /// Refuses metrics that none of the arms can have.
    fn check(&self, arms: &[Arm]) -> Result<(), Failure> {
        for metric in &self.metrics {
            let why_not = |arm: &Arm| arm.scenario.why_not_measured(metric);
            if arms.iter().all(|arm| why_not(arm).is_some()) {
                let reason = arms.iter().find_map(why_not).unwrap_or_default();
                return Err(Failure::input(format!("--metrics {}: {reason}", metric.name)));
            }
        }
        Ok(())
    }

    /// What is shown of a comparison.
    fn metrics<'a>(&'a self, comparison: &'a Comparison) -> &'a [Metric] {
        if self.metrics.is_empty() { &comparison.metrics } else { &self.metrics }
    }

    /// What its table has.
    fn shown<'a>(&self, comparison: &'a Comparison) -> Shown<'a> {
        let metrics = self.metrics(comparison);
        match self.all {
            true => Shown::all(comparison, metrics),
            false => Shown::differing(comparison, metrics),
        }
    }

    fn render(&self, comparison: &Comparison, description: &str) -> String {
        let width = terminal_width();
        let verdict = sentences::verdict(comparison).join("\n");
        let fold = |text: &str| folded(text, width.unwrap_or(usize::MAX));
        if self.brief {
            return fold(&verdict);
        }
        let (metrics, shown) = (self.metrics(comparison), self.shown(comparison));
        let table = match width {
            Some(width) => layout::table(&shown, width),
            None => layout::records(&shown),
        };
        let mut below = sentences::below_the_table(comparison, metrics, &shown);
        below.extend(comparison.time.as_ref().and_then(where_time_went));
        let (head, below, verdict) = (head(comparison, description), below.join("\n"), fold(&verdict));
        let (head, below) = (fold(&head), fold(&below));
        let lines = table.lines().count() + below.lines().count();
        match width {
            Some(_) if lines <= SCREEN => format!("{head}\n\n{table}\n\n{below}\n\n{verdict}"),
            _ => format!("{head}\n\n{verdict}\n\n{table}\n\n{below}"),
        }
    }
}

/// What was compared.
fn head(comparison: &Comparison, description: &str) -> String {
    let Comparison { scenario, machine, settings, .. } = comparison;
    let kernels = distinct(comparison.variants.iter().map(|variant| variant.variant.as_str()));
    let mut text = heading(scenario, machine, description, "", settings);
    if let (false, [kernel]) = (comparison.varied.is_empty(), &kernels[..]) {
        text += &format!("kernel: {kernel}\n");
    }
    if !comparison.varied.is_empty() {
        text += &format!("varied: {}\n", comparison.varied.join(", "));
    }
    text
}

/// Whether a change that chance alone is unlikely to make is a good one.
pub fn tone_of(metric: &Metric, difference: f64) -> Tone {
    match is_better(metric, difference) {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    }
}

/// What stands in brackets behind a change; none if one seed is all there is.
pub fn brackets(method: Method) -> Option<&'static str> {
    match method {
        Method::None => None,
        Method::Range => Some("the smaller and the larger of two"),
        Method::StudentsT => Some("the 95 % interval (Student's t over pairs of the same seed)"),
        Method::Bca => Some("the 95 % interval (BCa bootstrap over pairs of the same seed)"),
    }
}

/// What is said of results of a single seed.
pub const ONE_SEED: &str = "one seed: no intervals and no significance; give --seeds 5 or more (recorded mappings: as many as there are recordings)";

/// Each of those that are equal once.
fn distinct<'a, T: PartialEq + ?Sized>(all: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    all.fold(Vec::new(), |mut distinct, one| {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
        distinct
    })
}

/// How many categories of CPU time are shown, those with the largest shift first.
const CATEGORIES: usize = 5;

/// The categories whose shares moved most; none if none did.
fn where_time_went(time: &TimeShift) -> Option<String> {
    let moved = time
        .categories
        .iter()
        .map(|shift| (shift, percent(shift.from), percent(shift.to)))
        .filter(|(_, from, to)| from != to)
        .take(CATEGORIES)
        .map(|(shift, from, to)| format!("{} {from} -> {to}", shift.category));
    let by = Metric::find(&time.by).map_or(time.by.as_str(), |metric| metric.label);
    let moved: Vec<String> = moved.collect();
    (!moved.is_empty()).then(|| {
        format!(
            "Where busy CPU time went, {} -> {} (best {by} of the others): {}",
            time.from,
            time.to,
            moved.join(", ")
        )
    })
}
