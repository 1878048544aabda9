//! Time series that a run sampled over virtual time, reduced to a few samples; the results directory has all
//! of them.
//!
//! ```text
//!   numa-base, seed 1: over virtual time (s)    0.1    2.3    4.5 ...
//!   local_accesses                        97     52     71        percent since the previous sample
//!   pages_node0                         12 k   11 k   10 k
//! ```

use crate::number::number;
use crate::table::Grid;
use lab::results::{Record, SeriesPoint};
use std::collections::BTreeMap;

/// Number of samples that are shown, evenly spaced over all of them.
const MOMENTS: usize = 8;

/// For each sampled metric, up to [`MOMENTS`] pairs of seconds and value.
pub fn series(record: &Record) -> BTreeMap<&str, Vec<[f64; 2]>> {
    let mut all: BTreeMap<&str, Vec<[f64; 2]>> = BTreeMap::new();
    for SeriesPoint { seconds, name, value } in &record.series {
        all.entry(name).or_default().push([*seconds, *value]);
    }
    all.values_mut().for_each(few);
    all
}

/// Keeps [`MOMENTS`] evenly spaced elements, the first and the last included.
fn few<T: Copy>(all: &mut Vec<T>) {
    if all.len() > MOMENTS {
        *all = (0..MOMENTS).map(|at| all[at * (all.len() - 1) / (MOMENTS - 1)]).collect();
    }
}

/// Tables of the NUMA runs: the fraction of local accesses, and the pages in use on each node.
pub fn tables(records: &[Record]) -> String {
    records.iter().filter(|record| record.series.iter().any(|point| point.name == LOCAL)).map(table).collect()
}

/// Percentage of accesses to the thread's own node.
const LOCAL: &str = "local_accesses";
/// Prefix of the series of pages in use, one per node.
const PAGES: &str = "pages_node";

fn table(record: &Record) -> String {
    let mut moments: Vec<f64> = Vec::new();
    let mut rows: Vec<(&str, BTreeMap<u64, f64>)> = vec![(LOCAL, BTreeMap::new())];
    let is_shown = |point: &&SeriesPoint| point.name == LOCAL || point.name.starts_with(PAGES);
    for SeriesPoint { seconds, name, value } in record.series.iter().filter(is_shown) {
        if moments.last() != Some(seconds) {
            moments.push(*seconds);
        }
        let known = rows.iter().position(|(known, _)| known == name);
        let row = known.unwrap_or_else(|| {
            rows.push((name, BTreeMap::new()));
            rows.len() - 1
        });
        rows[row].1.insert(seconds.to_bits(), *value);
    }
    few(&mut moments);
    let title = format!("{}, seed {}: over virtual time (s)", record.run.variant, record.run.seed);
    let header = [title].into_iter().chain(moments.iter().map(|&seconds| number(seconds)));
    let mut grid = Grid { header: header.collect(), ..Grid::default() };
    for (name, values) in rows {
        let value = |seconds: &f64| values.get(&seconds.to_bits()).map_or("-".into(), |&value| number(value));
        grid.row([name.to_string()].into_iter().chain(moments.iter().map(value)));
    }
    format!("\n\n{}", grid.render())
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
