//! Time series that a run sampled over virtual time: as lines of a chart each in the terminal, reduced to a few samples in documents; the
//! results directory has all of them.
//!
//! ```text
//!   6.18, seed 1         over 0 to 5 s          least to most
//!   page cache, active   ▁▂▃▄▅▅▆▆▇▇██████████   0 KiB to 512 MiB
//! ```

use crate::number::{memory, number};
use crate::sparkline::{ends, sparkline};
use crate::table::Grid;
use lab::results::{Record, SeriesPoint};
use report::chart::Measure;
use report::series::{measure, title_of, unit_of};
use sim::series::of;
use std::collections::BTreeMap;

/// Number of samples that are shown, evenly spaced over all of them.
const MOMENTS: usize = 8;

/// For each sampled metric, up to [`MOMENTS`] pairs of seconds and value.
pub fn series(record: &Record) -> BTreeMap<&str, Vec<[f64; 2]>> {
    let mut all = by_name(record);
    all.values_mut().for_each(few);
    all
}

/// For each sampled metric, all pairs of seconds and value.
fn by_name(record: &Record) -> BTreeMap<&str, Vec<[f64; 2]>> {
    let mut all: BTreeMap<&str, Vec<[f64; 2]>> = BTreeMap::new();
    for SeriesPoint { seconds, name, value } in &record.series {
        all.entry(name).or_default().push([*seconds, *value]);
    }
    all
}

/// Keeps [`MOMENTS`] evenly spaced elements, the first and the last included.
fn few<T: Copy>(all: &mut Vec<T>) {
    if all.len() > MOMENTS {
        *all = (0..MOMENTS).map(|at| all[at * (all.len() - 1) / (MOMENTS - 1)]).collect();
    }
}

/// Characters of a chart.
const WIDTH: usize = 24;

/// A table for each record that has series which change.
pub fn tables(records: &[Record]) -> String {
    records.iter().filter_map(table).collect()
}

fn table(record: &Record) -> Option<String> {
    let all = by_name(record);
    let names: Vec<&str> = all.keys().copied().collect();
    let times: Vec<f64> = record.series.iter().map(|point| point.seconds).collect();
    let [first, last] = ends(&times);
    let run = format!("{}, seed {}", record.run.variant, record.run.seed);
    let over = format!("over {} to {} s", number(first), number(last));
    let mut grid = Grid { words: vec![1, 2], ..Grid::new(&[&run, &over, "least to most"]) };
    let page_bytes = record.run.machine.page_size.bytes();
    for (name, samples) in all {
        let values: Vec<f64> = samples.iter().map(|[_, value]| *value).collect();
        let [least, most] = ends(&values);
        if least == most {
            continue;
        }
        let alike = names.iter().filter(|other| of(other) == of(name)).count();
        let title = match of(name) {
            Some(series) if alike == 1 => series.title.into(),
            _ => title_of(name),
        };
        let (measure, factor) = measure(unit_of(name), page_bytes);
        let told = |value: f64| match measure {
            Measure::Bytes => memory(value * factor),
            Measure::Percent => format!("{} %", number(value)),
            _ => number(value),
        };
        grid.row([
            title,
            sparkline(&samples, [first, last], WIDTH),
            format!("{} to {}", told(least), told(most)),
        ]);
    }
    (!grid.rows.is_empty()).then(|| format!("\n\n{}", grid.render()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_many_have_the_first_and_the_last() {
        let short = |most: u32| {
            let mut all: Vec<u32> = (0..most).collect();
            few(&mut all);
            all
        };
        assert_eq!(short(3), [0, 1, 2]);
        assert_eq!(short(8), (0..8).collect::<Vec<_>>());
        assert_eq!(short(701), (0..8).map(|at| at * 100).collect::<Vec<_>>());
        assert_eq!((short(9).len(), short(9)[7]), (8, 8));
    }
}
