//! `mmtwin compare`: variants beside each other, with intervals, and where the time went.

use crate::arguments::{Asked, ScenarioArguments, SweepArguments};
use crate::failure::Failure;
use crate::json;
use crate::number::{change, number, percent};
use crate::run::{notes, title};
use crate::study::hint;
use crate::sweep::sweep;
use crate::table::{Entry, Grid, Tone};
use crate::terminal;
use lab::comparison::{Comparison, MetricSummary, TimeShift};
use lab::experiment::Experiment;
use serde::Serialize;
use sim::metric::{Better, Metric};

const VARIANTS: &str =
    "Variants or releases, separated by commas, the one to compare with first [default: the scenario's]";

/// Compare variants of a scenario over paired seeds
#[derive(clap::Args)]
#[command(mut_arg("variants", |variants| variants.help(VARIANTS)))]
#[command(after_help = "\
The first variant is what the others are compared with. A change is marked with * where it
is significant.

Examples:
  mmtwin compare kbuild
  mmtwin compare kbuild --variants pcp-base,patch9,6.18 --seeds 10
  mmtwin compare af_unix --set vm.stat_interval=10 --machine spr-server
  mmtwin compare hugetlb-neighbour --write vm.nr_hugepages=16384 --fail-rate 0.001
  mmtwin compare my-scenario.toml --json")]
pub struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

/// Compares the variants.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let Asked { scenario, machine, variants, changes } = arguments.scenario.load()?;
    let experiment = Experiment {
        machine,
        variants: variants.unwrap_or_else(|| scenario.variants.clone()),
        seeds: arguments.sweep.seeds.map_or(scenario.seeds, |seeds| seeds.get()),
        changes,
        scenario,
    };
    compare(&experiment, &arguments.sweep)
}

/// Makes the runs of `experiment` and prints the comparison.
pub fn compare(experiment: &Experiment, arguments: &SweepArguments) -> Result<(), Failure> {
    let records = sweep(experiment, arguments)?;
    let comparison = Comparison::new(&experiment.scenario, &experiment.variants, &records);
    if arguments.json {
        return json::print(
            "compare",
            &View { comparison: &comparison, results: arguments.results.display().to_string() },
        );
    }
    terminal::print(&format!(
        "{}{}{}",
        render(&comparison, &experiment.scenario.description),
        notes(&records),
        hint(&experiment.scenario.name)
    ))
}

#[derive(Serialize)]
struct View<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    results: String,
}

fn render(comparison: &Comparison, description: &str) -> String {
    let mut text = format!("{} on {}: {description}\n", comparison.scenario, comparison.machine);
    text += &format!("evidence: {}\n", comparison.evidence);
    for (name, value) in &comparison.settings {
        text += &format!("{name} = {value}\n");
    }
    text += &format!("\n{}\n\n{}", grid(comparison).render(), legend(comparison));
    if let Some(time) = &comparison.time {
        text += &format!("\n{}", where_time_went(time));
    }
    text
}

fn grid(comparison: &Comparison) -> Grid {
    let mut header = vec!["".to_string()];
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
            let (value, interval) = change(against_first, metric.unit_of_change());
            lines.push(value);
            lines.extend(interval);
            if against_first.significant {
                tone = match (metric.better, against_first.difference > 0.0) {
                    (Better::Higher, true) | (Better::Lower, false) => Tone::Good,
                    (Better::Higher, false) | (Better::Lower, true) => Tone::Bad,
                    (Better::Neutral, _) => Tone::Plain,
                };
            }
        }
        (None, Some(interval)) => {
            lines.push(format!("[{}, {}]", number(interval.low), number(interval.high)));
        }
        (None, None) => {}
    }
    Entry { text: lines.join("\n"), tone }
}

fn legend(comparison: &Comparison) -> String {
    let first = comparison.variants.first().map_or("", |variant| &variant.name);
    match comparison.seeds.len() {
        1 => "one seed: no intervals and no marks; give --seeds 5 or more (recorded mappings: as many as there are recordings)".into(),
        seeds => format!(
            "{seeds} seeds. Mean, change against {first}, 95 % interval (bootstrap over pairs of the same seed);\n\
             * is a change that bootstrap and Student's t both tell from none; pt are percentage points."
        ),
    }
}

/// Largest changes shown.
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
