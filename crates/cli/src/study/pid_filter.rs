//! `mmtwin study pid-filter`: a table with a row for each program and a column for each kernel.

use super::{Arguments, Ground};
use crate::failure::Failure;
use crate::files::{Contents, Ending, tables};
use crate::json;
use crate::number::change;
use crate::runner::sweep;
use crate::table::Grid;
use crate::terminal;
use lab::pid_filter::{Arm, Cell, arms, cells};
use report::Page;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    study: &'a str,
    #[serde(flatten)]
    ground: Ground,
    rows: &'a [Row],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "study";
    const VERSION: u32 = 2;
}

#[derive(JsonSchema, Serialize)]
struct Row {
    #[serde(flatten)]
    arm: Arm,
    cells: Vec<Cell>,
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let files = arguments.files.check(Ending::ANSWER)?;
    let mut rows = Vec::new();
    let mut ground = None;
    let asked = arguments.only.as_deref().unwrap_or_default();
    for arm in arms().into_iter().filter(|arm| arm.place().contains(asked)) {
        let experiment = arguments.asked(arm.experiment(arguments.seeds())?)?;
        ground.get_or_insert_with(|| Ground::of(&experiment));
        let records = sweep(&experiment, &arguments.sweep)?;
        rows.push(Row { arm, cells: cells(&experiment, &records)? });
    }
    let Some(ground) = ground else {
        let rows: Vec<String> = arms().iter().map(Arm::place).collect();
        return Err(Failure::input(format!(
            "--only {asked}: no row's name contains it; rows are {}",
            rows.join(", ")
        )));
    };
    let (heading, grid) = (ground.heading("pid-filter"), map(&rows));
    let view = View { study: "pid-filter", ground, rows: &rows };
    match arguments.sweep.json {
        true => json::print(&view)?,
        false => terminal::print(&format!("{heading}\n\n{}\n{LEGEND}", grid.render()))?,
    }
    files.write(|| {
        let page = tables("Study pid-filter", Vec::new(), &[("Against numa-base", &grid)]);
        let verdict = LEGEND.lines().map(String::from).collect();
        Ok(Contents {
            page: Page { lead: heading, verdict, ..page },
            json: json::text(&view)?,
            own: Vec::new(),
        })
    })
}

/// What is in a cell.
const LEGEND: &str = "\
against numa-base: passes through memory per second; CPU time in the kernel; local accesses in percentage points
* significant over pairs of seeds (p < 0.05; Student's t, from ten seeds on a BCa bootstrap)";

fn map(rows: &[Row]) -> Grid {
    let mut header: Vec<String> = ["memory", "threads", "seconds"].map(String::from).into();
    header.extend(rows.iter().take(1).flat_map(|row| &row.cells).map(|cell| cell.variant.clone()));
    let mut grid = Grid { header, words: vec![1, 2], ..Grid::default() };
    for Row { arm, cells } in rows {
        let words = [arm.sharing.name().into(), arm.threads.to_string(), arm.seconds.to_string()];
        let cell = |cell: &Cell| {
            let changes = [(&cell.throughput, None), (&cell.kernel_time, None), (&cell.local, Some("pt"))];
            changes
                .map(|(of, unit)| change(of, unit, if of.is_significant() { "*" } else { "" }).0)
                .join("\n")
        };
        grid.row(words.into_iter().chain(cells.iter().map(cell)));
    }
    grid
}
