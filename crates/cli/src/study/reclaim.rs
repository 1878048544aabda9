//! `mmtwin study reclaim`: what each mechanism of the multi-gen LRU gives and costs, where the classic LRU is ahead, and what each
//! release changed.

use super::{Arguments, Ground};
use crate::compare::RELEVANT;
use crate::failure::Failure;
use crate::files::{Contents, Ending, tables};
use crate::json;
use crate::runner::{Made, make};
use crate::table::Grid;
use crate::terminal;
use lab::experiment::Experiment;
use lab::reclaim::{DEMANDS, Demand, Estimate, KERNEL, LRU_GEN, Mechanism, Row, Runs, releases};
use lab::results::Record;
use report::Page;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    study: &'a str,
    #[serde(flatten)]
    ground: Ground,
    /// In the order of gains and costs of a row.
    mechanisms: [Mechanism; Mechanism::ALL.len()],
    rows: &'a [Row],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "study";
    const VERSION: u32 = 2;
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let files = arguments.files.check(Ending::ANSWER)?;
    let asked = arguments.only.as_deref().unwrap_or_default();
    let demands: Vec<Demand> = DEMANDS.into_iter().filter(|demand| demand.name.contains(asked)).collect();
    let (mut plans, mut ground) = (Vec::new(), None);
    for demand in demands {
        let experiments = demand.experiments(arguments.seeds())?.into_iter();
        let experiments = experiments.map(|of| arguments.asked(of)).collect::<Result<Vec<_>, _>>()?;
        ground = ground.or_else(|| experiments.first().map(Ground::of));
        plans.push((demand, experiments));
    }
    let Some(mut ground) = ground else {
        let names = DEMANDS.map(|demand| demand.name).join(", ");
        return Err(Failure::input(format!(
            "--only {asked}: no demand's name contains it; there are {names}"
        )));
    };
    // Kernels differ in it, and each demand has a machine of its own.
    ground.settings.remove(LRU_GEN);
    if arguments.system.machine.is_none() {
        ground.machine = "the machine of each demand".into();
    }
    let rows = rows(arguments, plans)?;
    let heading = ground.heading("reclaim");
    let grids = [
        ("What 6.18 loses without a mechanism, and its share of what all give together", gains(&rows)),
        ("CPU time of the kernel", costs(&rows)),
        ("The multi-gen LRU against the classic one, by release", against_classic(&rows)),
        ("Each release against the one before", regressions(&rows)),
    ];
    let verdict = verdict(&rows);
    let view = View { study: "reclaim", ground, mechanisms: Mechanism::ALL, rows: &rows };
    if arguments.sweep.json {
        json::print(&view)?;
    } else {
        let mut text = format!("{heading}\n\n{}\n", verdict.join("\n"));
        for (title, grid) in &grids {
            text += &format!("\n{title}\n\n{}\n", grid.render());
        }
        terminal::print(&format!("{text}\n{LEGEND}"))?;
    }
    files.write(|| {
        let grids: Vec<(&str, &Grid)> = grids.iter().map(|(title, grid)| (*title, grid)).collect();
        let page = tables("Study reclaim", Vec::new(), &grids);
        let verdict = verdict.iter().cloned().chain(LEGEND.lines().map(String::from)).collect();
        Ok(Contents {
            page: Page { lead: heading, verdict, ..page },
            json: json::text(&view)?,
            own: Vec::new(),
        })
    })
}

/// Makes all runs, those of one demand after those of another.
fn rows(arguments: &Arguments, plans: Vec<(Demand, Vec<Experiment>)>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let mut all = Made::default();
    for (demand, experiments) in plans {
        let mut runs = Vec::new();
        for experiment in &experiments {
            runs.extend(experiment.runs()?);
        }
        let made = make(&runs, &arguments.sweep, "")?;
        all.add(made.runs, made.known, made.seconds);
        let mut records = made.records.into_iter();
        let of = experiments.into_iter().map(|experiment| {
            let own: Vec<Record> =
                records.by_ref().take(experiment.variants.len() * experiment.seeds as usize).collect();
            (experiment, own)
        });
        let of: Vec<(Experiment, Vec<Record>)> = of.collect();
        rows.push(Runs::new(demand, &of).row());
    }
    all.say(&arguments.sweep.results);
    Ok(rows)
}

const LEGEND: &str = "\
Percent of the demand's own metric (more is better) or of CPU time (more is worse). alone / share: what 6.18 loses without the mechanism
alone / its Shapley share of what all give together. `.`: less than 1 %, or a 95 % interval over seeds with both signs. 6.1 is its last
stable version, which has what later releases mended.";

/// A gain in percent, or a dot.
fn percent(of: Estimate) -> String {
    if of.counts(RELEVANT) { format!("{:+.1}", 100.0 * of.value) } else { ".".into() }
}

fn header(first: [&str; 2], of: impl Iterator<Item = String>, last: &[&str]) -> Grid {
    let header =
        first.into_iter().map(String::from).chain(of).chain(last.iter().map(|name| name.to_string()));
    Grid { header: header.collect(), ..Grid::default() }
}

fn mechanisms() -> impl Iterator<Item = String> {
    Mechanism::ALL.into_iter().map(|mechanism| mechanism.name().into())
}

fn gains(rows: &[Row]) -> Grid {
    let mut grid = header(["demand", "metric"], mechanisms(), &["all", "against classic"]);
    for row in rows {
        let cells = row.gains.iter().map(|of| format!("{} / {}", percent(of.alone), percent(of.share)));
        let ends = [percent(row.together), percent(row.against_classic)];
        grid.row([row.demand.to_string(), row.metric.to_string()].into_iter().chain(cells).chain(ends));
    }
    grid
}

fn costs(rows: &[Row]) -> Grid {
    let mut grid = header(["demand", "metric"], mechanisms(), &["all"]);
    for row in rows {
        let cells = row.costs.iter().map(|of| format!("{} / {}", percent(of.alone), percent(of.share)));
        let all = percent(row.costs_together);
        grid.row([row.demand.to_string(), "system_time".into()].into_iter().chain(cells).chain([all]));
    }
    grid
}

fn against_classic(rows: &[Row]) -> Grid {
    let mut grid = header(["demand", "metric"], releases().into_iter().map(String::from), &[]);
    for row in rows {
        let cells = row.releases.iter().map(|cell| percent(cell.against_classic));
        grid.row([row.demand.to_string(), row.metric.to_string()].into_iter().chain(cells));
    }
    grid
}

fn regressions(rows: &[Row]) -> Grid {
    let mut grid = header(["demand", "LRU"], releases().into_iter().skip(1).map(String::from), &[]);
    for row in rows {
        let mut add = |lru: &str, cells: Vec<Option<Estimate>>| {
            let cells = cells.into_iter().flatten().map(percent);
            grid.row([row.demand.to_string(), lru.into()].into_iter().chain(cells));
        };
        add("multi-gen", row.releases.iter().map(|cell| cell.multi_gen).collect());
        add("classic", row.releases.iter().map(|cell| cell.classic).collect());
    }
    grid
}

/// What the tables come to, a sentence for each mechanism, for the classic LRU and for regressions.
fn verdict(rows: &[Row]) -> Vec<String> {
    let mut sentences: Vec<String> = Mechanism::ALL
        .into_iter()
        .enumerate()
        .map(|(at, mechanism)| {
            let alone: Vec<(&str, Estimate)> =
                rows.iter().map(|row| (row.demand, row.gains[at].alone)).collect();
            format!("{}: {}.", capitalized(mechanism.name()), counted(&alone, "a gain", "a loss"))
        })
        .collect();
    let against: Vec<(&str, Estimate)> = rows.iter().map(|row| (row.demand, row.against_classic)).collect();
    sentences.push(format!(
        "The multi-gen LRU of {} against the classic one: {}.",
        KERNEL,
        counted(&against, "ahead", "behind")
    ));
    let worse = rows.iter().flat_map(|row| {
        let cells = row.releases.iter();
        cells.filter_map(|cell| {
            let since = cell.multi_gen.filter(|of| of.counts(RELEVANT) && of.value < 0.0)?;
            Some((since.value, format!("{} in {} ({:+.1} %)", row.demand, cell.release, 100.0 * since.value)))
        })
    });
    let mut worse: Vec<(f64, String)> = worse.collect();
    worse.sort_by(|a, b| a.0.total_cmp(&b.0));
    sentences.push(match worse.len() {
        0 => "No release made the multi-gen LRU worse on any demand.".into(),
        _ => {
            let list: Vec<&str> = worse.iter().map(|(_, text)| text.as_str()).collect();
            format!("Releases that made the multi-gen LRU worse: {}.", list.join(", "))
        }
    });
    sentences
}

/// On which demand something is more or less than nothing.
fn counted(of: &[(&str, Estimate)], more: &str, less: &str) -> String {
    let named = |sign: f64| -> Vec<String> {
        let of = of.iter().filter(|(_, gain)| gain.counts(RELEVANT) && gain.value * sign > 0.0);
        of.map(|(demand, gain)| format!("{demand} {:+.1} %", 100.0 * gain.value)).collect()
    };
    let parts = [(more, named(1.0)), (less, named(-1.0))];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(what, list)| format!("{what} on {} of {} ({})", list.len(), of.len(), list.join(", ")))
        .collect();
    if parts.is_empty() {
        "nothing of 1 % or more beyond chance on any demand".into()
    } else {
        parts.join("; ")
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
