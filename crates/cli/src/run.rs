//! `mmtwin run`: single runs, with every metric and counter.

use crate::arguments::{Asked, ScenarioArguments, SweepArguments};
use crate::compare::{NOTHING_DONE, RELEVANT, description, heading};
use crate::events::{self, events};
use crate::failure::Failure;
use crate::files::{self, Contents, FileArguments};
use crate::heat::heat_maps;
use crate::json;
use crate::notes;
use crate::number::number;
use crate::programs::programs;
use crate::runner::sweep;
use crate::series::{series, tables};
use crate::sparkline::bar;
use crate::study::hint;
use crate::table::Grid;
use crate::terminal;
use crate::timeline::TimelineArguments;
use lab::comparison::shown::Shown;
use lab::comparison::{Comparison, evidence_of};
use lab::experiment::Experiment;
use lab::results::Record;
use machine::Category as _;
use mm::Category;
use mm::huge_memory::stats::MthpStats;
use report::again::Again;
use report::comparison::Compared;
use report::{Page, Part, Section};
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{Metric, SCORE};
use sim::outcome::{AreaHeat, ProgramOutcome};
use sim::run_event::RunEvent;
use std::collections::BTreeMap;

const SEEDS: &str = "Run seeds 1 to N, the same for every variant [default: 1, the first alone]";
const VARIANTS: &str = "Variants or releases, separated by commas [default: the scenario's first one]";

/// Run a scenario and print all its metrics and counters
#[derive(clap::Args)]
#[command(mut_arg("variants", |variants| variants.help(VARIANTS)), mut_arg("seeds", |seeds| seeds.help(SEEDS)))]
#[command(after_help = "\
Examples:
  mmtwin run page_fault1
  mmtwin run kbuild --variants patch9 --seeds 2
  mmtwin run streaming-vs-hot -o run.html -o run.csv
  mmtwin run kbuild --variants pcp-base,patch9 -o kbuild.pftrace
  mmtwin run af_unix --set vm.percpu_pagelist_high_fraction=8 --machine spr-server --json
  mmtwin run hugetlb-vm252 --write hugepages-2048kB/nr_hugepages=1000 --write vm.nr_hugepages=0
  mmtwin run hugetlb-8s --write node3/hugepages-1048576kB/nr_hugepages=16 --fail-alloc 3")]
pub struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,

    /// Show the metrics that are 0 too, and how long what programs waited for took each time
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    timeline: TimelineArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

#[derive(JsonSchema, Serialize)]
pub struct Runs<'a> {
    scenario: &'a str,
    machine: &'a str,
    results: String,
    runs: Vec<RunView<'a>>,
}

impl json::Document for Runs<'_> {
    const NAME: &'static str = "run";
}

#[derive(JsonSchema, Serialize)]
struct RunView<'a> {
    variant: &'a str,
    seed: u64,
    identity: &'a str,
    settings: &'a BTreeMap<String, String>,
    virtual_seconds: f64,
    page_operations: u64,
    metrics: &'a BTreeMap<String, f64>,
    cpu_seconds: &'a BTreeMap<String, f64>,
    counters: &'a BTreeMap<String, u64>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "<[RunEvent]>::is_empty")]
    events: &'a [RunEvent],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    series: BTreeMap<&'a str, Vec<[f64; 2]>>,
    #[serde(skip_serializing_if = "<[AreaHeat]>::is_empty")]
    areas: &'a [AreaHeat],
    #[serde(skip_serializing_if = "<[ProgramOutcome]>::is_empty")]
    programs: &'a [ProgramOutcome],
}

impl<'a> From<&'a Record> for RunView<'a> {
    fn from(record: &'a Record) -> RunView<'a> {
        RunView {
            variant: &record.run.variant,
            seed: record.run.seed,
            identity: &record.identity,
            settings: &record.run.settings,
            virtual_seconds: record.virtual_seconds,
            page_operations: record.page_operations,
            metrics: &record.metrics,
            cpu_seconds: &record.cpu_seconds,
            counters: &record.counters,
            notes: &record.notes,
            events: &record.events,
            series: series(record),
            areas: &record.areas,
            programs: &record.programs,
        }
    }
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let Asked { scenario, machine, variants, changes, trees } = arguments.scenario.load()?;
    let experiment = Experiment {
        machine,
        variants: variants.unwrap_or_else(|| scenario.variants.iter().take(1).cloned().collect()),
        seeds: arguments.sweep.seeds.map_or(1, |seeds| seeds.get()),
        changes,
        varied: Vec::new(),
        trees,
        scenario,
    };
    let files = arguments.timeline.check(&arguments.files, &experiment)?;
    let records = sweep(&experiment, &arguments.sweep)?;
    let view = Runs {
        scenario: &experiment.scenario.name,
        machine: &experiment.machine.name,
        results: arguments.sweep.results.display().to_string(),
        runs: records.iter().map(RunView::from).collect(),
    };
    let head = head(&experiment, &records)?;
    if arguments.sweep.json {
        json::print(&view)?;
    } else {
        terminal::print(&format!(
            "{head}\n{}{}{}{}{}{}{}{}{}",
            shown(&records, arguments.all),
            cpu_time(&records, BAR).map_or(String::new(), |grid| format!("\n\n{}", grid.render())),
            notes::of_runs(&records),
            nothing_done(&records),
            programs(&records, arguments.all),
            events(&records),
            tables(&records),
            heat_maps(&records),
            hint(&experiment.scenario.name)
        ))?;
    }
    files.write(|| {
        let again = files::again(&arguments.sweep.results);
        let page = page(&experiment, &records, &head, &again)?;
        let records = records.iter().collect::<Vec<_>>();
        let own = arguments.timeline.trace(&files, &records, arguments.sweep.jobs())?;
        Ok(Contents { page, json: json::text(&view)?, own })
    })
}

/// All metrics and counters, how the runs went, and what is needed to make them again.
fn page(experiment: &Experiment, records: &[Record], head: &str, again: &Again) -> Result<Page, Failure> {
    let comparison = Comparison::new(&experiment.arms()?, records, RELEVANT);
    let (metrics, shown) = (&comparison.metrics, Shown::all(&comparison, &comparison.metrics));
    let compared = Compared { comparison: &comparison, metrics, shown: &shown, records, notes: &[] };
    let table = Part::Table(grid(records).on_page("Metrics and counters"));
    let times = cpu_time(records, 0).map(|grid| Part::Table(grid.on_page("CPU time")));
    let said = format!("{}{}", notes::of_runs(records), nothing_done(records));
    let events = events::grids(records).map(|grid| Part::Table(grid.on_page("Events")));
    let parts = Part::lines(&said).chain([table]).chain(times).chain(events);
    let figures = Section { title: "Figures".into(), parts: parts.collect() };
    let mut sections = compared.course();
    sections.push(figures);
    sections.push(again.section(records, &[&experiment.scenario], &[&experiment.machine]));
    let mut lines = head.lines().map(String::from);
    Ok(Page {
        title: format!("{} on {}", experiment.scenario.name, experiment.machine.name),
        lead: lines.next().unwrap_or_default(),
        verdict: lines.collect(),
        sections,
        data: compared.data(),
    })
}

/// What was run, with the settings that all runs have, and what results of it have been checked against.
fn head(experiment: &Experiment, records: &[Record]) -> Result<String, Failure> {
    let arms = experiment.arms()?;
    let shared = |(name, value): &(&String, &String)| {
        records.iter().all(|record| record.run.settings.get(*name) == Some(*value))
    };
    let first = records.iter().take(1).flat_map(|record| &record.run.settings);
    let settings = first.filter(shared).map(|(name, value)| (name.clone(), value.clone())).collect();
    let machine = &experiment.machine.name;
    Ok(heading(&experiment.scenario.name, machine, &description(&arms), &evidence_of(&arms), &settings))
}

/// A word about scores of zero.
fn nothing_done(records: &[Record]) -> String {
    match records.iter().any(|record| record.metrics.get(SCORE.name) == Some(&0.0)) {
        true => format!("\n\nA score of 0 means that {NOTHING_DONE}"),
        false => String::new(),
    }
}

fn grid(records: &[Record]) -> Grid {
    let mut header = vec!["".to_string()];
    header.extend(records.iter().map(|record| format!("{}\nseed {}", record.run.variant, record.run.seed)));
    let mut grid = Grid { header, ..Grid::default() };
    let mut row = |label: String, value: &dyn Fn(&Record) -> Option<f64>| {
        let values = records.iter().map(|record| value(record).map_or("-".into(), number));
        grid.row([label].into_iter().chain(values));
    };
    row("virtual time (s)".into(), &|record| Some(record.virtual_seconds));
    row("page operations".into(), &|record| Some(record.page_operations as f64));
    for metric in sim::metric::METRICS {
        if records.iter().any(|record| record.metrics.contains_key(metric.name)) {
            row(title(metric), &|record| record.metrics.get(metric.name).copied());
        }
    }
    let events = mm::Event::ALL.iter().map(|event| event.name().to_string());
    let page_size = records.first().map(|record| record.run.machine.page_size).unwrap_or_default();
    let of_sizes = MthpStats::default();
    let of_sizes = of_sizes.iter().map(|(order, stat, _)| stat.file(page_size, order));
    for name in events.chain(of_sizes) {
        let count = |record: &Record| record.counters.get(&name).copied().unwrap_or(0);
        // Some counters are metrics too.
        if records.iter().any(|record| record.metrics.contains_key(name.as_str())) {
            continue;
        }
        if records.iter().any(|record| count(record) > 0) {
            row(name.clone(), &|record| Some(count(record) as f64));
        }
    }
    grid
}

/// The rows that are not 0 in all runs, and how many that leaves out, or `all` of them.
fn shown(records: &[Record], all: bool) -> String {
    let mut grid = grid(records);
    let rows = grid.rows.len();
    if !all {
        grid.rows.retain(|row| row[1..].iter().any(|cell| !["0", "-"].contains(&cell.text.as_str())));
    }
    match rows - grid.rows.len() {
        0 => grid.render(),
        left_out => {
            format!("{}\n{left_out} figures that are 0 are left out; --all shows them", grid.render())
        }
    }
}

/// Characters of the bar of all busy time.
const BAR: usize = 20;

/// Seconds of CPU time by cause, and which part of busy time that is, the largest of the first run on top. Each part has a bar, where the bar
/// of all has `width` characters. None if no CPU did anything.
fn cpu_time(records: &[Record], width: usize) -> Option<Grid> {
    let is_busy = |name: &str| name != Category::IDLE.name();
    let of = |record: &Record, name: &str| record.cpu_seconds.get(name).copied().unwrap_or(0.0);
    let mut header = vec!["CPU time (s)".to_string()];
    header.extend(records.iter().map(|record| format!("{}\nseed {}", record.run.variant, record.run.seed)));
    let mut grid = Grid { is_padded: true, header, ..Grid::default() };
    let mut names: Vec<&str> = Category::ALL.iter().map(|category| category.name()).collect();
    names.retain(|name| records.iter().any(|record| of(record, name) > 0.0));
    names.sort_by(|a, b| of(&records[0], b).total_cmp(&of(&records[0], a)));
    let seconds_width = |record: &Record| {
        names.iter().map(|name| number(of(record, name)).chars().count()).max().unwrap_or(0)
    };
    let column = |record: &Record| -> Vec<String> {
        let (all, wide) = (record.busy_seconds(), seconds_width(record));
        let cell = |name: &&str| {
            let seconds = of(record, name);
            let told = format!("{:>wide$}", number(seconds));
            match is_busy(name) && all > 0.0 {
                true => {
                    format!("{told}  {:>5.1} % {}", 100.0 * seconds / all, bar(seconds / all, width))
                }
                false => told,
            }
        };
        names.iter().map(cell).collect()
    };
    let columns: Vec<Vec<String>> = records.iter().map(|record| padded(column(record))).collect();
    for (row, name) in names.iter().enumerate() {
        grid.row([name.to_string()].into_iter().chain(columns.iter().map(|column| column[row].clone())));
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// Cells of the width of the widest.
fn padded(cells: Vec<String>) -> Vec<String> {
    let widest = cells.iter().map(|cell| cell.trim_end().chars().count()).max().unwrap_or(0);
    cells.iter().map(|cell| format!("{:widest$}", cell.trim_end())).collect()
}

/// The label of a metric and its unit.
pub fn title(metric: &Metric) -> String {
    format!("{} ({})", metric.label, metric.unit)
}
