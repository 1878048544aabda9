//! `mmtwin calibrate`: values of machines and scenarios that the baseline rows of published tables determine.

use crate::arguments::present_tables;
use crate::completion;
use crate::failure::Failure;
use crate::json;
use crate::number::number;
use crate::table::Grid;
use crate::terminal;
use lab::calibration::{self, Calibrated};
use schemars::JsonSchema;
use serde::Serialize;

/// Derive values of machines and scenarios from the baseline rows of published tables
#[derive(clap::Args)]
#[command(after_help = "\
Only rows of the unpatched kernel are read. Nothing is written: if a value differs, put it into the
file named beside it, with the table as its source.

Examples:
  mmtwin calibrate                              all tables that determine a value; several minutes
  mmtwin calibrate pcp.batch-latency.spr-server
  mmtwin calibrate pcp.kbuild.numactl --json")]
pub struct Arguments {
    /// Ids of published tables [default: all that determine a value]
    #[arg(value_name = "TABLE", add = completion::tables())]
    tables: Vec<String>,

    /// Print JSON (schemas/calibrate.schema.json)
    #[arg(long)]
    json: bool,
}

#[derive(JsonSchema, Serialize)]
pub struct View<'a> {
    figures: &'a [Calibrated],
}

impl json::Document for View<'_> {
    const NAME: &'static str = "calibrate";
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let all = calibration::tables();
    let named = present_tables(&arguments.tables);
    let tables = if named.is_empty() { &all } else { &named };
    let mut figures = Vec::new();
    for table in tables {
        if !arguments.json && tables.len() > 1 {
            terminal::say(format_args!("{table} ..."));
        }
        figures.extend(calibration::calibrate(table)?);
    }
    if arguments.json {
        return json::print(&View { figures: &figures });
    }
    let mut grid = Grid::new(&["table", "file", "key", "in the file", "calibrated", "published", "reached"]);
    grid.more_labels = 2;
    for f in &figures {
        let reached = f.reached.map_or_else(|| "-".into(), number);
        grid.row([
            f.table.clone(),
            f.file.clone(),
            f.key.into(),
            number(f.current),
            number(f.calibrated),
            number(f.published),
            reached,
        ]);
    }
    terminal::print(&grid.render())
}
