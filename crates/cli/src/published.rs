//! `mmtwin published`: predicted and published values side by side, cell by cell.

use crate::arguments::{SweepArguments, in_words, present_tables, published};
use crate::completion;
use crate::failure::Failure;
use crate::files::{Contents, Ending, FileArguments, tables};
use crate::json;
use crate::number::{number, percent};
use crate::runner::sweep;
use crate::table::{Entry, Grid, Tone};
use crate::terminal;
use lab::experiment::Experiment;
use lab::published::{
    Cell, CellValue, Direction, Kind, Observations, Ordering, Printed, Publication, Report, Statistics,
    TableReport, needs,
};
use report::chart::{Axis, Chart, Dot, Dots, Drawing, Measure, Scale};
use report::{Data, Page, Part, Section};
use schemars::JsonSchema;
use serde::Serialize;

/// Predict published tables and print every cell next to its published value
#[derive(clap::Args)]
#[command(after_help = "\
Cells of the unpatched kernel are marked (base). Machines are calibrated with them, so they are not
part of the statistics. Results are shared with `mmtwin compare`, and each scenario is run only
once. A table of claims runs the scenarios that its sentences are about, which takes seconds to
minutes; they are listed first.

Examples:
  mmtwin published pcp
  mmtwin published pcp --table pcp.lmbench3.unix
  mmtwin published hugetlb
  mmtwin published reclaim
  mmtwin published numa --table numa.claims
  mmtwin published folios
  mmtwin published pcp -o pcp.html -o pcp.csv
  mmtwin published pcp --json > pcp.json")]
pub struct Arguments {
    #[arg(help = format!("The mechanism: {}", in_words(published(), "or")), add = completion::published())]
    mechanism: String,

    /// Print only this table; may be given several times
    #[arg(long = "table", value_name = "ID", add = completion::tables())]
    tables: Vec<String>,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    sweep: SweepArguments,
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    mechanism: &'a str,
    description: &'a str,
    #[serde(flatten)]
    report: &'a Report,
}

impl json::Document for View<'_> {
    const NAME: &'static str = "published";
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let publication = Publication::find(&arguments.mechanism)?;
    let tables = publication.tables(&present_tables(&arguments.tables))?;
    let files = arguments.files.check(Ending::CHART)?;
    let mut observations = Observations::default();
    let needs = needs(&tables);
    if !needs.is_empty() {
        let scenarios: Vec<String> =
            needs.iter().map(|need| format!("{} ({})", need.scenario, need.variants.join(", "))).collect();
        terminal::say(format_args!("these tables need runs of {}", scenarios.join("; ")));
    }
    for need in needs {
        observe(&mut observations, &need.scenario, need.variants, &arguments.sweep)?;
    }
    let report = Report::new(&tables, &observations);
    let (mechanism, description) = (publication.mechanism.name(), publication.description);
    let view = View { mechanism, description, report: &report };
    match arguments.sweep.json {
        true => json::print(&view)?,
        false => terminal::print(&render(publication, &report))?,
    }
    files.write(|| {
        Ok(Contents { page: page(publication, &report), json: json::text(&view)?, own: Vec::new() })
    })
}

/// The summary, and every table.
fn page(publication: &Publication, report: &Report) -> Page {
    let grids: Vec<(String, Grid)> = report
        .tables
        .iter()
        .map(|table| (format!("{}: {}", table.id, table.workload), cells(table)))
        .collect();
    let summary = summary(report);
    let mut titled: Vec<(&str, &Grid)> = vec![("How far predictions are off", &summary)];
    titled.extend(grids.iter().map(|(title, grid)| (title.as_str(), grid)));
    let front = vec![Section { title: "Predicted against published".into(), parts: charts(report) }];
    let page = tables(&format!("{}, predicted and published", publication.mechanism.name()), front, &titled);
    let mut data = Data::of(&["table", "row", "cell", "published", "predicted", "error", "direction"]);
    for table in &report.tables {
        let row = |cell: &Cell| cell_row(cell).into_iter().map(|entry| entry.text);
        data.rows
            .extend(table.cells.iter().map(|cell| [table.id.clone()].into_iter().chain(row(cell)).collect()));
    }
    let verdict = vec![LEGEND.lines().collect::<Vec<_>>().join(" ")];
    Page { lead: publication.description.into(), verdict, data, ..page }
}

/// Charts that have something to show, the one with more of it first.
fn charts(report: &Report) -> Vec<Part> {
    let values = (
        "Values",
        "A dot for each cell of a table that is a number: how many times what was published is predicted. On the dashed line both \
         are the same.",
        ratios(report),
    );
    let changes = (
        "Changes and shares",
        "A dot for each cell of a table that is a change or a share, in %: by how many percentage points the prediction is off. On \
         the dashed line both are the same.",
        differences(report),
    );
    let mut charts = vec![values, changes];
    charts.retain(|(.., dots)| !dots.dots.is_empty());
    charts.sort_by_key(|(.., dots)| std::cmp::Reverse(dots.dots.len()));
    let chart = |(title, caption, dots): (&str, &str, Dots)| {
        Part::Chart(Chart { title: title.into(), caption: caption.into(), drawing: Drawing::Dots(dots) })
    };
    charts.into_iter().map(chart).collect()
}

/// Predicted values by published ones, of cells that are numbers.
fn ratios(report: &Report) -> Dots {
    let axis =
        Axis { title: "predicted / published".into(), measure: Measure::Number, scale: Scale::Logarithmic };
    let ratio = |cell: &Cell, predicted: f64, published: f64| {
        (!Printed::is_percentage(&cell.published)).then_some(predicted / published)
    };
    let (rows, dots) = dots(report, ratio);
    Dots { axis, at_least: (0.5, 2.0), rule: 1.0, kinds: kinds(), rows, dots }
}

/// Predicted changes and shares less published ones.
fn differences(report: &Report) -> Dots {
    let title = "predicted less published, percentage points".into();
    let axis = Axis { title, measure: Measure::Number, scale: Scale::Linear };
    let difference = |cell: &Cell, predicted: f64, published: f64| {
        Printed::is_percentage(&cell.published).then_some(predicted - published)
    };
    let (rows, dots) = dots(report, difference);
    Dots { axis, at_least: (-10.0, 10.0), rule: 0.0, kinds: kinds(), rows, dots }
}

/// What dots are of: predicted cells, and those that machines are calibrated with.
fn kinds() -> [String; 2] {
    ["predicted".into(), "base: what machines are calibrated with".into()]
}

/// A row for each table that has cells with a value.
fn dots(report: &Report, value: impl Fn(&Cell, f64, f64) -> Option<f64>) -> (Vec<String>, Vec<Dot>) {
    let (mut rows, mut dots) = (Vec::new(), Vec::new());
    for table in &report.tables {
        let row = rows.len();
        let dot = |cell: &Cell| {
            let CellValue::Number(predicted) = cell.predicted else { return None };
            let value = value(cell, predicted, Printed::parse(&cell.published)?.value)?;
            let name = format!("{}, {}: {} published", cell.row, cell.metric, cell.published);
            Some(Dot { row, kind: usize::from(cell.kind == Kind::Baseline), value, name })
        };
        let drawn: Vec<Dot> = table.cells.iter().filter_map(dot).collect();
        if !drawn.is_empty() {
            rows.push(table.id.clone());
            dots.extend(drawn);
        }
    }
    (rows, dots)
}

/// What errors and directions are.
const LEGEND: &str = "\
Errors are |predicted - published| / |published| over the cells that are not (base); for changes and shares (in %)
they are |predicted - published| in percentage points. Directions are compared where the published change against
base exceeds 2 %. Of these, (resolved) counts changes that are larger than the printed precision and, if a table
shows it, than the difference between two runs of the same kernel.";

/// Runs a scenario. If a run fails, its cells get that as the reason why they are not predicted; an error in
/// the results directory ends the command.
fn observe(
    observations: &mut Observations,
    name: &str,
    variants: Vec<String>,
    arguments: &SweepArguments,
) -> Result<(), Failure> {
    let seeds = arguments.seeds.map(|seeds| seeds.get());
    let experiment = Experiment { variants, ..Experiment::of(name, seeds)? };
    match sweep(&experiment, arguments) {
        Ok(records) => observations.enter(name, &records),
        Err(failure) => match failure.of_run() {
            Some(reason) => observations.enter_failure(name, &reason),
            None => return Err(failure),
        },
    }
    Ok(())
}

fn render(publication: &Publication, report: &Report) -> String {
    let mut pieces = vec![format!("{}: {}", publication.mechanism.name(), publication.description)];
    pieces.extend(report.tables.iter().map(render_table));
    pieces.push(summary(report).render());
    pieces.push(LEGEND.into());
    pieces.join("\n\n")
}

fn summary(report: &Report) -> Grid {
    let mut summary = Grid::new(&HEADER);
    for table in &report.tables {
        summary.row(statistics_row(&table.id, &table.statistics));
    }
    summary.row(statistics_row("all simulated", &report.summary));
    summary.row(statistics_row("all computed", &report.computed));
    summary
}

/// A row for each cell of a table.
fn cells(table: &TableReport) -> Grid {
    let mut grid = Grid::new(&["row", "cell", "published", "predicted", "error", "direction"]);
    (grid.more_labels, grid.words) = (1, vec![5]);
    for cell in &table.cells {
        grid.row(cell_row(cell));
    }
    if table.cells.iter().all(|cell| cell.direction.is_none()) {
        grid.header.truncate(5);
    }
    grid
}

fn render_table(table: &TableReport) -> String {
    let mut text = format!("{}: {}\n{}\n\n{}", table.id, table.workload, table.mail, cells(table).render());
    text.extend(table.orderings.iter().map(render_ordering));
    let mut reasons: Vec<&str> = Vec::new();
    for reason in table.cells.iter().filter_map(|cell| cell.reason.as_deref()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    for reason in reasons {
        text += &format!("\nnot predicted: {reason}");
    }
    text
}

fn render_ordering(o: &Ordering) -> String {
    format!(
        "\norder of rows, {}: {} of {} pairs as published ({} of {} resolved)",
        o.metric, o.alike, o.pairs, o.alike_resolved, o.pairs_resolved
    )
}

fn cell_row(cell: &Cell) -> Vec<Entry> {
    let predicted = match &cell.predicted {
        CellValue::Number(value) => {
            let unit = if Printed::is_percentage(&cell.published) { "%" } else { "" };
            format!("{value:.*}{unit}", decimals(*value, &cell.published))
        }
        CellValue::Text(text) => text.clone(),
        CellValue::Missing(_) => "-".into(),
    };
    let error = match cell {
        Cell { kind: Kind::Baseline, .. } => "(base)".into(),
        Cell { error: Some(error), .. } => percent(*error),
        Cell { error_points: Some(points), .. } => format!("{points:.1} points"),
        Cell { same: Some(true), .. } => "same".into(),
        Cell { same: Some(false), .. } => "differs".into(),
        _ => "-".into(),
    };
    let unresolved = if cell.resolved == Some(false) { " (not resolved)" } else { "" };
    let (direction, tone) = match cell.direction {
        Some(Direction::Right) => (format!("right{unresolved}"), Tone::Plain),
        Some(Direction::Wrong) => (format!("WRONG{unresolved}"), Tone::Bad),
        None => (String::new(), Tone::Plain),
    };
    vec![
        cell.row.as_str().into(),
        cell.metric.as_str().into(),
        cell.published.as_str().into(),
        predicted.into(),
        error.into(),
        Entry { text: direction, tone },
    ]
}

/// Digits after the point: one more than published; none for a whole number where the published one has none.
fn decimals(value: f64, published: &str) -> usize {
    let published =
        Printed::parse(published).map_or(0, |printed| -(2.0 * printed.half_unit).log10().round() as i32);
    if published == 0 && value.fract() == 0.0 { 0 } else { published.clamp(0, 8) as usize + 1 }
}

const HEADER: [&str; 10] = [
    "table",
    "cells",
    "errors",
    "median",
    "mean",
    "p90",
    "in %",
    "median,\npoints",
    "p90,\npoints",
    "direction wrong\n(resolved)",
];

fn statistics_row(id: &str, s: &Statistics) -> Vec<Entry> {
    let fraction = |value: Option<f64>| Entry::from(value.map_or("-".into(), percent));
    let points = |value: Option<f64>| Entry::from(value.map_or("-".into(), |value| format!("{value:.1}")));
    let count = |count: usize| Entry::from(number(count as f64));
    vec![
        id.into(),
        count(s.cells),
        count(s.errors),
        fraction(s.median_abs_error),
        fraction(s.mean_abs_error),
        fraction(s.p90_abs_error),
        count(s.percentages),
        points(s.median_abs_points),
        points(s.p90_abs_points),
        Entry::from(format!(
            "{} of {} ({} of {})",
            s.direction_wrong, s.directions, s.direction_wrong_resolved, s.directions_resolved
        )),
    ]
}
