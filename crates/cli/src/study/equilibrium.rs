//! `mmtwin study equilibrium`: a table of each arm and variant, and a sentence for each hypothesis.

use super::{Arguments, Ground};
use crate::failure::Failure;
use crate::json;
use crate::number::number;
use crate::sweep::sweep_of_several;
use crate::table::Grid;
use lab::equilibrium::{ARMS, Effect, Finding, Runs, Verdict, findings};
use lab::experiment::Experiment;
use lab::metric::{ANON_MEMORY, EQUILIBRIUM_TIME, Metric, PREFERRED_SUCCESS, UNUSABLE_FREE};
use lab::results::Record;
use lab::statistics::{mean, mean_interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// What has a table; JSON has everything.
const TABLES: [Metric; 4] = [PREFERRED_SUCCESS, EQUILIBRIUM_TIME, UNUSABLE_FREE, ANON_MEMORY];

#[derive(Serialize)]
struct View<'a> {
    study: &'a str,
    #[serde(flatten)]
    ground: Ground,
    arms: Vec<Arm<'a>>,
    findings: &'a [Finding],
}

#[derive(Serialize)]
struct Arm<'a> {
    scenario: &'a str,
    variant: &'a str,
    seeds: usize,
    metrics: BTreeMap<&'static str, f64>,
}

/// Runs the study.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let mut runs = Runs::new();
    let mut ground = None;
    for name in ARMS {
        let experiment = arguments.asked(Experiment::of(name, arguments.seeds())?)?;
        ground.get_or_insert_with(|| Ground::of(&experiment));
        runs.insert(name, sweep_of_several(&experiment, &arguments.sweep)?);
    }
    let ground = ground.expect("a study has arms");
    let findings = findings(&runs);
    if arguments.sweep.json {
        let arms = runs.iter().flat_map(|(scenario, records)| arms(scenario, records)).collect();
        return json::print("study", &View { study: "equilibrium", ground, arms, findings: &findings });
    }
    let mut pieces = vec![ground.heading("equilibrium")];
    pieces.extend(TABLES.iter().map(|&metric| table(&runs, metric).render()));
    pieces.extend(findings.iter().map(sentence));
    json::print_text(&pieces.join("\n\n"))
}

/// The variants of records, in order.
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
        let metrics = lab::metric::METRICS.iter().filter_map(|&metric| {
            let values = values(records, variant, metric);
            (!values.is_empty()).then(|| (metric.name, mean(&values)))
        });
        let seeds = values(records, variant, PREFERRED_SUCCESS).len();
        Arm { scenario, variant, seeds, metrics: metrics.collect() }
    };
    variants(records).into_iter().map(of).collect()
}

/// A metric of every arm and variant, with its interval.
fn table(runs: &Runs, metric: Metric) -> Grid {
    let title = crate::run::title(&metric);
    let columns = variants(&runs[ARMS[0]]);
    let mut header = vec![title];
    header.extend(columns.iter().map(|variant| variant.to_string()));
    let mut grid = Grid { header, ..Grid::default() };
    for arm in ARMS {
        let cell = |variant: &&str| {
            let values = values(&runs[arm], variant, metric);
            match (values.is_empty(), mean_interval(&values)) {
                (true, _) => "-".into(),
                (_, Some(i)) => format!("{}\n[{}, {}]", number(mean(&values)), number(i.low), number(i.high)),
                (_, None) => number(mean(&values)),
            }
        };
        grid.row(std::iter::once(arm.to_string()).chain(columns.iter().map(cell)));
    }
    grid
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
