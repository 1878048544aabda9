//! What NUMA balancing did in the course of a run: counters and where memory was, at one time after another.
//!
//! A table in CSV: `run,seconds` and a column for each counter, with a line for each sample. Counters are those of
//! /proc/vmstat since the start of the program, `processP_areaA_nodeN` the pages of
//! area A of process P that were on node N. Times are rounded to
//! milliseconds.

use std::collections::BTreeMap;

/// Counters of /proc/vmstat that are followed.
pub const COUNTERS: [&str; 4] =
    ["numa_pte_updates", "numa_hint_faults", "numa_hint_faults_local", "numa_pages_migrated"];
const RUN: &str = "run";
const SECONDS: &str = "seconds";

/// The name of a column of pages.
pub fn pages_of(process: usize, area: usize, node: usize) -> String {
    format!("process{process}_area{area}_node{node}")
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// When samples were taken.
    pub seconds: Vec<f64>,
    /// By name, a value for each sample.
    pub columns: BTreeMap<String, Vec<u64>>,
}

impl Trajectory {
    /// One more sample. A column that is missing, because its process has ended, keeps its last value.
    pub fn push(&mut self, seconds: f64, values: impl IntoIterator<Item = (String, u64)>) {
        self.seconds.push(seconds);
        for (name, value) in values {
            self.columns.entry(name).or_default().push(value);
        }
        for values in self.columns.values_mut() {
            let last = values.last().copied().unwrap_or(0);
            values.resize(self.seconds.len(), last);
        }
    }

    /// The value of a column at a time, between those of the samples before and after.
    pub fn at(&self, column: &str, seconds: f64) -> Option<u64> {
        let values = self.columns.get(column)?;
        let after = self.seconds.iter().position(|&time| time >= seconds)?;
        let before = after.saturating_sub(1);
        let span = self.seconds[after] - self.seconds[before];
        let share = if span > 0.0 { (seconds - self.seconds[before]) / span } else { 1.0 };
        let [low, high] = [before, after].map(|at| values[at] as f64);
        Some((low + share * (high - low)).round() as u64)
    }

    /// As a table of one run.
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = self.columns.keys().map(String::as_str).collect();
        let mut text = format!("{RUN},{SECONDS},{}\n", names.join(","));
        for (sample, seconds) in self.seconds.iter().enumerate() {
            let values: Vec<String> =
                self.columns.values().map(|values| values[sample].to_string()).collect();
            text += &format!("0,{seconds:.3},{}\n", values.join(","));
        }
        text
    }
}

/// The runs in a table, or what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Trajectory>, String> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let [RUN, SECONDS, names @ ..] = &header[..] else {
        return Err(format!("it does not begin with {RUN},{SECONDS}"));
    };
    let mut runs: BTreeMap<u64, Trajectory> = BTreeMap::new();
    for (number, line) in lines.enumerate() {
        let wrong = || format!("line {}: expected {} numbers", number + 2, header.len());
        let cells: Vec<&str> = line.split(',').collect();
        let [run, seconds, values @ ..] = &cells[..] else { return Err(wrong()) };
        let values: Option<Vec<u64>> = values.iter().map(|cell| cell.parse().ok()).collect();
        let values = values.filter(|values| values.len() == names.len()).ok_or_else(wrong)?;
        let seconds = seconds.parse().map_err(|_| wrong())?;
        let names = names.iter().map(|name| name.to_string());
        runs.entry(run.parse().map_err(|_| wrong())?).or_default().push(seconds, names.zip(values));
    }
    Ok(runs.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut run = Trajectory::default();
        for (seconds, value) in [(0.0, 0), (0.5, 100), (1.0, 300)] {
            run.push(seconds, [("b".to_string(), value), ("a".to_string(), 7)]);
        }
        assert_eq!(run.to_csv(), "run,seconds,a,b\n0,0.000,7,0\n0,0.500,7,100\n0,1.000,7,300\n");
        assert_eq!(parse(&run.to_csv()), Ok(vec![run.clone()]));
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 2.0].map(|at| run.at("b", at)),
            [Some(0), Some(50), Some(100), Some(200), None]
        );
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert_eq!(parse("a,b\n"), Err("it does not begin with run,seconds".into()));
        assert_eq!(parse("run,seconds,a\n0,0.5,1\n0,1.0\n"), Err("line 3: expected 3 numbers".into()));
        assert_eq!(parse("run,seconds,a\n0,0.5,x\n"), Err("line 2: expected 3 numbers".into()));
    }
}
