//! What each program of a run did, where its CPU time went, and what its threads waited for.
//!
//! ```text
//!   mainline-6.18, seed 1    transactions  1/s  p50 (us)  p99 (us)  ...  CPU (s)  of it
//!   build                             812  406     2.1 k     9.0 k         3.91  program 61 %, page_fault 22 %, zone_lock_wait 9 %
//!   database                        51 k   26 k      30       190          1.20  program 80 %, file_read 12 %
//!   [kswapd]                            0    0         -         -         0.11  reclaim 97 %
//!
//!   mainline-6.18, seed 1    waited for (s): run_queue   device   direct_reclaim
//!   build                                         1.2     0.30             0.02
//! ```

use crate::number::number;
use crate::table::Grid;
use lab::results::Record;
use sim::outcome::ProgramOutcome;
use std::collections::BTreeMap;

/// So many causes are shown, those that took most time.
const CAUSES: usize = 4;

/// Tables for each record that has programs; with `all`, how long each delay and each call took too.
pub fn programs(records: &[Record], all: bool) -> String {
    let tables = |record: &Record| {
        let durations = if all { durations(record) } else { None };
        let more = delays(record).into_iter().chain(durations);
        let more: String = more.map(|grid| format!("\n\n{}", grid.render())).collect();
        table(record) + &more
    };
    records.iter().filter(|record| !record.programs.is_empty()).map(tables).collect()
}

/// What the threads of each program waited for, in seconds; the causes that took most first.
fn delays(record: &Record) -> Option<Grid> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (cause, delay) in record.programs.iter().flat_map(|program| &program.delays) {
        *sums.entry(cause).or_default() += delay.seconds;
    }
    let mut causes: Vec<(&str, f64)> = sums.into_iter().collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let title = format!("{}, seed {}, waited (s)", record.run.variant, record.run.seed);
    let header: Vec<&str> = [&*title].into_iter().chain(causes.iter().map(|(cause, _)| *cause)).collect();
    let mut grid = Grid::new(&header);
    for program in record.programs.iter().filter(|program| !program.delays.is_empty()) {
        let waited =
            |&(cause, _): &(&str, f64)| program.delays.get(cause).map_or("-".into(), |of| number(of.seconds));
        grid.row([program.name.clone()].into_iter().chain(causes.iter().map(waited)));
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// How long each call and each delay of each program took.
fn durations(record: &Record) -> Option<Grid> {
    let title = format!("{}, seed {}", record.run.variant, record.run.seed);
    let header = [&*title, "", "count", "sum (s)", "p50 (us)", "p99 (us)", "p99.9 (us)", "max (us)"];
    let mut grid = Grid { more_labels: 1, words: vec![1], ..Grid::new(&header) };
    for program in &record.programs {
        for (what, of) in program.calls.iter().chain(&program.delays) {
            let quantile = |name: &str| of.latency_us.get(name).copied().map_or("-".into(), number);
            let quantiles = ["p50", "p99", "p99.9", "max"].map(quantile);
            let sums = [number(of.count as f64), number(of.seconds)];
            grid.row([program.name.clone(), what.clone()].into_iter().chain(sums).chain(quantiles));
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

fn table(record: &Record) -> String {
    let title = format!("{}, seed {}", record.run.variant, record.run.seed);
    // Only few hosts have groups above memory.high.
    let sleeps = record.programs.iter().any(|program| program.over_high_seconds > 0.0);
    let mut header = vec![&*title, "transactions", "1/s", "p50 (us)", "p99 (us)", "max (us)", "CPU (s)"];
    header.extend(sleeps.then_some("asleep over memory.high (s)"));
    header.push("of it");
    let mut grid = Grid { words: vec![header.len() - 1], ..Grid::new(&header) };
    for program in record.programs.iter().filter(|program| !is_idle_kernel_work(program)) {
        let latency = |quantile: &str| program.latency_us.get(quantile).copied().map_or("-".into(), number);
        let counted = |value: f64| if program.transactions == 0 { "-".into() } else { number(value) };
        let mut cells = vec![
            program.name.clone(),
            counted(program.transactions as f64),
            counted(program.transaction_rate),
            latency("p50"),
            latency("p99"),
            latency("max"),
            number(program.cpu_seconds.values().fold(0.0, |sum, seconds| sum + seconds)),
        ];
        cells.extend(sleeps.then(|| number(program.over_high_seconds)));
        cells.push(causes(program));
        grid.row(cells);
    }
    format!("\n\n{}", grid.render())
}

/// Whether it is a kernel thread that had nothing to do.
fn is_idle_kernel_work(program: &ProgramOutcome) -> bool {
    program.name.starts_with('[') && program.transactions == 0 && program.cpu_seconds.is_empty()
}

/// The categories that took most of a program's CPU time, with their shares.
fn causes(program: &ProgramOutcome) -> String {
    let all: f64 = program.cpu_seconds.values().sum();
    let mut causes: Vec<(&String, f64)> =
        program.cpu_seconds.iter().map(|(name, &seconds)| (name, 100.0 * seconds / all)).collect();
    // Names break ties, so that equal runs print the same.
    causes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let shown = causes.iter().take(CAUSES).filter(|(_, share)| *share >= 0.5);
    shown.map(|(name, share)| format!("{name} {share:.0} %")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_causes_come_first() {
        let seconds = [("program", 6.0), ("page_fault", 3.0), ("tick", 0.01), ("file_read", 1.0)];
        let cpu_seconds = seconds.map(|(name, seconds)| (name.to_string(), seconds)).into();
        let program = ProgramOutcome { cpu_seconds, ..ProgramOutcome::default() };
        assert_eq!(causes(&program), "program 60 %, page_fault 30 %, file_read 10 %");
        assert_eq!(causes(&ProgramOutcome::default()), "");
        let kcompactd = ProgramOutcome { name: "[kcompactd]".into(), ..ProgramOutcome::default() };
        assert!(is_idle_kernel_work(&kcompactd) && !is_idle_kernel_work(&ProgramOutcome::default()));
    }
}
