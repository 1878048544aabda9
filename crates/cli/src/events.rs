//! What happened in a run at a time: writes of the operator, kills, a kswapd that gave up, and of each program the longest memory stall
//! and the slowest transaction.
//!
//! ```text
//!   mainline-6.1, seed 1        at (s)   took      CPU
//!   vm.nr_hugepages=2048         2.000   140 ms    120 ms  470 of 2048 pages, no memory for more
//!   out of memory                3.204   -         -       box has a memory.max of 64.0 MiB and nothing to reclaim; killed: ...
//!   memory stall of service      5.310   14.0 ms   -       refault 12.0 ms, direct_reclaim 2.0 ms
//!   slowest transaction of ...   5.309   15.0 ms   -       refault 12.0 ms, direct_reclaim 2.0 ms, on a CPU 1.0 ms
//! ```

use crate::table::Grid;
use lab::results::Record;
use report::event::told;
use report::number::time;
use sim::outcome::ProgramOutcome;
use sim::run_event::{Happening, RunEvent};
use std::collections::BTreeMap;

/// So many are shown besides those of single programs.
const SHOWN: usize = 20;
/// A slowest transaction is shown if it took so many times what the median took,
const OUTLIER: f64 = 3.0;
/// and so many seconds.
const SHORTEST: f64 = 1e-3;

/// A table for each record in which something happened.
pub fn events(records: &[Record]) -> String {
    let table = |(record, grid): (&Record, Grid)| {
        let others = record.events.iter().filter(|event| !is_of_program(event)).count();
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
    let header = [&*title, "at (s)", "took", "CPU", "what came of it, or why"];
    let mut grid = Grid { words: vec![1, 2, 3, 4], ..Grid::new(&header) };
    let others = record.events.iter().filter(|event| !is_of_program(event)).take(SHOWN);
    let slowest = record.events.iter().filter(|event| is_slow(event, &record.programs));
    let mut shown: Vec<&RunEvent> = others.chain(slowest).chain(longest_stalls(&record.events)).collect();
    shown.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    shown.into_iter().for_each(|event| grid.row(row(event)));
    (!grid.rows.is_empty()).then_some(grid)
}

/// Whether it is of a single program.
fn is_of_program(event: &RunEvent) -> bool {
    matches!(event.what, Happening::SlowestTransaction { .. } | Happening::MemoryStall { .. })
}

/// Whether it is the slowest transaction of a program, and much slower than others.
fn is_slow(event: &RunEvent, programs: &[ProgramOutcome]) -> bool {
    let Happening::SlowestTransaction { program, .. } = &event.what else { return false };
    let median = |of: &ProgramOutcome| Some(of.latency_us.get("p50")? / 1e6);
    let median = programs.iter().find(|of| of.name == *program).and_then(median);
    event.took_seconds >= Some(median.map_or(SHORTEST, |median| SHORTEST.max(OUTLIER * median)))
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
        Happening::Write(write) => time(write.cpu_seconds),
        _ => "-".into(),
    };
    let (what, rest) = told(event);
    [what, format!("{:.3}", event.seconds), event.took_seconds.map_or("-".into(), time), on_cpu, rest]
}
