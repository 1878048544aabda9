//! `mmtwin study pid-filter`: a map, one row for each program, one column for each kernel.

use crate::arguments::SweepArguments;
use crate::failure::Failure;
use crate::json;
use crate::table::Grid;
use lab::pid_filter::{Arm, Cell, arms, cells};
use lab::statistics::Change;
use serde::Serialize;

#[derive(Serialize)]
struct View<'a> {
    study: &'a str,
    rows: &'a [Row],
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    arm: Arm,
    cells: Vec<Cell>,
}

/// Runs the study.
pub fn execute(arguments: &SweepArguments) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for arm in arms() {
        let experiment = arm.experiment(arguments.seeds.map(|seeds| seeds.get()))?;
        let records = super::arm(&experiment, arguments)?;
        rows.push(Row { arm, cells: cells(&experiment, &records) });
    }
    if arguments.json {
        return json::print("study", &View { study: "pid-filter", rows: &rows });
    }
    json::print_text(&format!(
        "{}\nagainst b0: passes through memory a second; CPU time of the kernel; accesses to near memory, points\n\
         * bootstrap and t-test over pairs of seeds both tell it from none",
        map(&rows).render()
    ))
}

fn map(rows: &[Row]) -> Grid {
    let mut header: Vec<String> = ["memory", "threads", "seconds"].map(String::from).into();
    header.extend(rows.iter().take(1).flat_map(|row| &row.cells).map(|cell| cell.variant.clone()));
    let mut grid = Grid { header, words: vec![1, 2], ..Grid::default() };
    for Row { arm, cells } in rows {
        let words = [arm.sharing.name().into(), arm.threads.to_string(), arm.seconds.to_string()];
        let cell = |cell: &Cell| {
            format!("{}\n{}\n{}", ratio(&cell.throughput), ratio(&cell.kernel_time), points(&cell.local))
        };
        grid.row(words.into_iter().chain(cells.iter().map(cell)));
    }
    grid
}

fn mark(change: &Change) -> &'static str {
    if change.significant { " *" } else { "" }
}

fn ratio(change: &Change) -> String {
    match change.ratio {
        Some(ratio) => format!("{:+.1} %{}", 100.0 * (ratio - 1.0), mark(change)),
        None => "-".into(),
    }
}

fn points(change: &Change) -> String {
    format!("{:+.1} pt{}", change.difference, mark(change))
}
