//! `mmtwin study equilibrium`: a table of all scenarios and variants, a chart, and a sentence for each control
//! and hypothesis.

use super::{Arguments, Ground};
use crate::failure::Failure;
use crate::files::{Contents, Ending, tables};
use crate::json;
use crate::number::number;
use crate::runner::sweep;
use crate::table::Grid;
use crate::terminal;
use lab::equilibrium::{ARMS, Control, Effect, Finding, LONGEST, Runs, Verdict, controls, findings};
use lab::experiment::Experiment;
use lab::results::Record;
use lab::statistics::{Interval, mean, mean_interval};
use report::chart::{Axis, Chart, Drawing, Line, Lines, Measure, Point, Scale};
use report::{Page, Part, Section};
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{
    ANON_MEMORY, EQUILIBRIUM_TIME, FAULTS_PER_PAGE, Metric, PREFERRED_DRIFT, PREFERRED_FOLIOS,
    PREFERRED_SUCCESS, PREFERRED_SUCCESS_EARLY, UNTOUCHED_MEMORY, UNUSABLE_FREE,
};
use std::collections::BTreeMap;

/// The columns of the table; JSON has all metrics.
const COLUMNS: [Metric; 9] = [
    PREFERRED_SUCCESS_EARLY,
    PREFERRED_SUCCESS,
    PREFERRED_DRIFT,
    EQUILIBRIUM_TIME,
    PREFERRED_FOLIOS,
    UNUSABLE_FREE,
    ANON_MEMORY,
    UNTOUCHED_MEMORY,
    FAULTS_PER_PAGE,
];

/// Number of points per line of the chart.
const STRETCHES: usize = 50;

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    study: &'a str,
    #[serde(flatten)]
    ground: Ground,
    arms: Vec<Arm<'a>>,
    controls: &'a [Control],
    findings: &'a [Finding],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "study";
    const VERSION: u32 = 2;
}

#[derive(JsonSchema, Serialize)]
struct Arm<'a> {
    scenario: &'a str,
    variant: &'a str,
    seeds: usize,
    metrics: BTreeMap<&'static str, Estimate>,
}

/// The mean over seeds, and its 95 % interval if there is more than one seed.
#[derive(JsonSchema, Serialize)]
struct Estimate {
    mean: f64,
    interval: Option<Interval>,
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.only.is_some() {
        return Err(Failure::input(
            "--only: equilibrium needs all its scenarios to decide its hypotheses; leave the option out",
        ));
    }
    let files = arguments.files.check(Ending::CHART)?;
    let mut runs = Runs::new();
    let mut ground = None;
    for name in ARMS {
        let experiment = arguments.asked(Experiment::of(name, arguments.seeds())?)?;
        let machine = &experiment.machine;
        if let Some(device) = experiment.scenario.workload.missing_device(machine) {
            terminal::say(format_args!(
                "note: {name} is left out: machine {} has no device {device}",
                machine.name
            ));
            continue;
        }
        ground.get_or_insert_with(|| Ground::of(&experiment));
        runs.insert(name, sweep(&experiment, &arguments.sweep)?);
    }
    let ground = ground.expect("a study has arms");
    let (controls, findings) = (controls(&runs), findings(&runs));
    let arms = runs.iter().flat_map(|(scenario, records)| arms(scenario, records)).collect();
    let (heading, grid) = (ground.heading("equilibrium"), table(&runs));
    let view = View { study: "equilibrium", ground, arms, controls: &controls, findings: &findings };
    if arguments.sweep.json {
        json::print(&view)?;
    } else {
        let mut pieces = vec![heading.clone(), grid.render()];
        pieces.push(controls.iter().map(outcome).collect::<Vec<_>>().join("\n"));
        pieces.extend(findings.iter().map(sentence));
        terminal::print(&pieces.join("\n\n"))?;
    }
    files.write(|| {
        let words = findings.iter().map(sentence).chain(controls.iter().map(outcome));
        let front = vec![charts(&runs[LONGEST])];
        let page = tables("Study equilibrium", front, &[("Scenarios and variants", &grid)]);
        let page = Page { lead: heading, verdict: words.collect(), ..page };
        Ok(Contents { page, json: json::text(&view)?, own: Vec::new() })
    })
}

fn charts(records: &[Record]) -> Section {
    Section { title: "Over the longest scenario".into(), parts: vec![Part::Chart(chart(records))] }
}

/// The variants of `records` in order of appearance.
fn variants(records: &[Record]) -> Vec<&str> {
    let mut variants: Vec<&str> = Vec::new();
    for record in records {
        if !variants.contains(&record.run.variant.as_str()) {
            variants.push(&record.run.variant);
        }
    }
    variants
}

fn values(records: &[Record], variant: &str, metric: Metric) -> Vec<f64> {
    let of = records.iter().filter(|record| record.run.variant == variant);
    of.filter_map(|record| record.metrics.get(metric.name).copied()).collect()
}

fn arms<'a>(scenario: &'a str, records: &'a [Record]) -> Vec<Arm<'a>> {
    let of = |variant: &'a str| {
        let metrics = sim::metric::METRICS.iter().filter_map(|&metric| {
            let values = values(records, variant, metric);
            (!values.is_empty())
                .then(|| (metric.name, Estimate { mean: mean(&values), interval: mean_interval(&values) }))
        });
        let seeds = values(records, variant, PREFERRED_SUCCESS).len();
        Arm { scenario, variant, seeds, metrics: metrics.collect() }
    };
    variants(records).into_iter().map(of).collect()
}

/// One row for each scenario and variant: mean over seeds and half the width of its 95 % interval.
fn table(runs: &Runs) -> Grid {
    let mut grid = Grid { more_labels: 1, ..Grid::new(&["scenario", "variant"]) };
    grid.header.extend(COLUMNS.iter().map(crate::run::title));
    for arm in ARMS {
        let Some(records) = runs.get(arm) else { continue };
        for variant in variants(records) {
            let cell = |&metric: &Metric| {
                let values = values(records, variant, metric);
                match mean_interval(&values) {
                    _ if values.is_empty() => "-".into(),
                    Some(i) if i.low < i.high => {
                        format!("{} ±{}", number(mean(&values)), number((i.high - i.low) / 2.0))
                    }
                    _ => number(mean(&values)),
                }
            };
            let labels = [arm.to_string(), variant.to_string()];
            grid.row(labels.into_iter().chain(COLUMNS.iter().map(cell)));
        }
    }
    grid
}

/// The success rate of allocations of the preferred order over the course of the run: mean over seeds with
/// its 95 % interval.
fn chart(records: &[Record]) -> Chart {
    let samples = |record: &'_ Record| -> Vec<(f64, f64)> {
        let of = |name| record.series.iter().filter(move |point| point.name == name).map(|point| point.value);
        // Both are sampled together.
        of("turnovers").zip(of(PREFERRED_SUCCESS.name)).collect()
    };
    let end = records.iter().flat_map(samples).map(|(turnovers, _)| turnovers).fold(0.0, f64::max);
    let line = |variant: &str| {
        let of_seeds: Vec<Vec<(f64, f64)>> =
            records.iter().filter(|record| record.run.variant == variant).map(samples).collect();
        let mut line = Line { name: variant.into(), points: Vec::new() };
        for stretch in 0..STRETCHES {
            let edge = |number: usize| end * number as f64 / STRETCHES as f64;
            let within =
                |&(turnovers, _): &(f64, f64)| (edge(stretch)..edge(stretch + 1)).contains(&turnovers);
            let of_seed = |samples: &Vec<(f64, f64)>| {
                let rates: Vec<f64> = samples.iter().copied().filter(within).map(|(_, rate)| rate).collect();
                (!rates.is_empty()).then(|| mean(&rates))
            };
            let rates: Vec<f64> = of_seeds.iter().filter_map(of_seed).collect();
            let place = (edge(stretch) + edge(stretch + 1)) / 2.0;
            if !rates.is_empty() {
                let interval = mean_interval(&rates).map(|interval| (interval.low, interval.high));
                line.points.push(Point { interval, ..Point::at(place, mean(&rates)) });
            }
        }
        line
    };
    let axis = |title: &str, measure| Axis { title: title.into(), measure, scale: Scale::Linear };
    let title = format!("{LONGEST}: faults with room for a 64 KiB folio that got one");
    let drawing = Drawing::Lines(Lines {
        x: axis("memory turned over, times", Measure::Number),
        y: axis("", Measure::Percent),
        y_ends: Some((0.0, 100.0)),
        lines: variants(records).into_iter().map(line).collect(),
    });
    let caption = format!("{title}; means over seeds with their 95 % intervals. Higher is better.");
    Chart { title, caption, drawing }
}

fn outcome(control: &Control) -> String {
    let passed = if control.passed { "passed" } else { "FAILED" };
    format!("control {passed}: {}", control.statement)
}

fn sentence(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Held => "held",
        Verdict::Refuted => "refuted",
        Verdict::Undecided => "not decided",
    };
    let effect = |effect: &Effect| {
        let interval = effect.change.difference_interval;
        let interval =
            interval.map_or(String::new(), |i| format!(" [{}, {}]", number(i.low), number(i.high)));
        format!("\n  {}: {}{interval}", effect.of, number(effect.change.difference))
    };
    let effects: String = finding.effects.iter().map(effect).collect();
    format!("{}, {verdict}: {}{effects}", finding.name, finding.statement)
}
