//! What happened in a run at a time: writes of the operator, kills, a kswapd that gave up, and the longest memory stall of each program.
//!
//! ```text
//!   mainline-6.1, seed 1        at (s)  took (s)  CPU (s)
//!   vm.nr_hugepages=2048         2.000      0.14     0.12  470 of 2048 pages: no memory for more
//!   out of memory                3.204         -        -  a memory.max of 64.0 MiB and nothing to reclaim; killed: ...
//!   memory stall of service      5.310     0.014        -  refault 0.012 s, direct reclaim 0.002 s
//! ```

use crate::table::Grid;
use lab::results::Record;
use report::event::{seconds, told};
use sim::run_event::{Happening, RunEvent};
use std::collections::BTreeMap;

/// So many are shown besides stalls.
const SHOWN: usize = 20;

/// A table for each record in which something happened.
pub fn events(records: &[Record]) -> String {
    let table = |(record, grid): (&Record, Grid)| {
        let others = record.events.iter().filter(|event| stalled(event).is_none()).count();
        let more = match others.saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("\n{more} more events are left out; --json has them all"),
        };
        format!("\n\n{}{more}", grid.render())
    };
    records.iter().filter_map(|record| Some((record, grid(record)?))).map(table).collect()
}

/// The tables of all records.
pub fn grids(records: &[Record]) -> impl Iterator<Item = Grid> {
    records.iter().filter_map(grid)
}

fn grid(record: &Record) -> Option<Grid> {
    let title = format!("{}, seed {}", record.run.variant, record.run.seed);
    let header = [&*title, "at (s)", "took (s)", "CPU (s)", "what came of it, or why"];
    let mut grid = Grid { words: vec![1, 2, 3, 4], ..Grid::new(&header) };
    let others = record.events.iter().filter(|event| stalled(event).is_none()).take(SHOWN);
    let mut shown: Vec<&RunEvent> = others.chain(longest_stalls(&record.events)).collect();
    shown.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    shown.into_iter().for_each(|event| grid.row(row(event)));
    (!grid.rows.is_empty()).then_some(grid)
}

/// The program that stood still, if the event is a stall.
fn stalled(event: &RunEvent) -> Option<&str> {
    match &event.what {
        Happening::MemoryStall { program, .. } => Some(program),
        _ => None,
    }
}

/// The longest stall of each program.
fn longest_stalls(events: &[RunEvent]) -> impl Iterator<Item = &RunEvent> {
    let mut longest: BTreeMap<&str, &RunEvent> = BTreeMap::new();
    for event in events {
        let Some(program) = stalled(event) else { continue };
        let known = longest.entry(program).or_insert(event);
        if event.took_seconds > known.took_seconds {
            *known = event;
        }
    }
    longest.into_values()
}

fn row(event: &RunEvent) -> [String; 5] {
    let on_cpu = match &event.what {
        Happening::Write(write) => seconds(write.cpu_seconds),
        _ => "-".into(),
    };
    let (what, rest) = told(event);
    [what, format!("{:.3}", event.seconds), event.took_seconds.map_or("-".into(), seconds), on_cpu, rest]
}
