//! Recordings of the cases on real kernels, for machines on which sizes cannot be enabled.

use std::path::Path;

use serde::Deserialize;

use super::case::{Advice, Case, Configuration, Operation, Touch};
use super::outcome::{Outcome, parse_statistics};
use crate::recordings::{RecordingError, all_with_file, description, unpacked};
use crate::verify::RecordedKernel;

/// The file name of a recording, which has its own directory.
const FILE: &str = "thp.toml";

const MOST_BYTES: u64 = 1 << 26;

/// The contents of `thp.toml` and its table.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The kernel release.
    pub kernel: String,
    pub configurations: Vec<Configuration>,
    /// The rows of the table.
    pub cases: Vec<RecordedCase>,
}

/// A case and its outcome.
#[derive(Clone, Debug)]
pub struct RecordedCase {
    /// Index into [`Recording::configurations`].
    pub configuration: usize,
    pub case: Case,
    /// The most frequent outcome.
    pub outcome: Outcome,
    /// Faults in the recording program's own memory, which are included in the outcome.
    pub own_faults: u64,
    /// Number of runs with another outcome.
    pub disagreeing: u32,
    /// Other processes changed counters in too many runs, so that the case's own counters are not known.
    pub disturbed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    kernel: String,
    table: String,
    configurations: Vec<Configuration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    configuration: String,
    case: String,
    offset_kib: u64,
    kib: u64,
    advice: Advice,
    touch: Touch,
    operation: Operation,
    prepopulated: String,
    faults: u64,
    own_faults: u64,
    rss_kib: u64,
    eligible: u8,
    layout: String,
    statistics: String,
    first_layout: String,
    second_faults: Option<u64>,
    second_own_faults: Option<u64>,
    second_layout: String,
    second_statistics: String,
    runs: u32,
    agreeing: u32,
}

impl Row {
    fn read(self, configurations: &[Configuration]) -> Result<RecordedCase, String> {
        let unknown = || format!("{}: no such configuration", self.configuration);
        let named = |configuration: &Configuration| configuration.name == self.configuration;
        let configuration = configurations.iter().position(named).ok_or_else(unknown)?;
        let pages = self.prepopulated.split_whitespace().map(str::parse);
        let prepopulated = pages.collect::<Result<Vec<u64>, _>>().map_err(|error| error.to_string())?;
        let (offset, pages) = (self.offset_kib / 4, self.kib / 4);
        if pages == 0 || pages > 1 << 16 || offset > 1 << 16 || prepopulated.iter().any(|&page| page >= pages)
        {
            return Err(format!("{}: expected a VMA of 1 to 65536 pages, and pages inside it", self.case));
        }
        let own_faults = self.own_faults + self.second_own_faults.unwrap_or(0);
        let outcome = Outcome {
            faults: self.faults.saturating_sub(self.own_faults),
            rss_kib: self.rss_kib,
            eligible: self.eligible != 0,
            layout: self.layout,
            statistics: parse_statistics(&self.statistics)?,
            first_layout: self.first_layout,
            second_faults: self
                .second_faults
                .unwrap_or(0)
                .saturating_sub(self.second_own_faults.unwrap_or(0)),
            second_layout: self.second_layout,
            second_statistics: parse_statistics(&self.second_statistics)?,
        };
        let case = Case {
            name: self.case,
            offset,
            pages,
            advice: self.advice,
            touch: self.touch,
            operation: self.operation,
            prepopulated,
        };
        let disagreeing = self.runs.saturating_sub(self.agreeing);
        Ok(RecordedCase { configuration, case, outcome, own_faults, disagreeing, disturbed: false })
    }
}

impl Recording {
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let Description { kernel, table, configurations } = description(directory, FILE)?;
        for (number, configuration) in configurations.iter().enumerate() {
            configuration.check().map_err(|problem| {
                let problem = format!("configuration {}: {problem}", number + 1);
                RecordingError::of_description(directory, FILE, problem)
            })?;
        }
        let (file, text) = unpacked(&directory.join(table), MOST_BYTES)?;
        let mut cases = Vec::new();
        for (number, row) in csv::Reader::from_reader(&text[..]).deserialize::<Row>().enumerate() {
            let wrong = |problem| RecordingError::Stream {
                file: file.clone(),
                place: format!("line {}", number + 2),
                problem,
            };
            let row = row.map_err(|error| wrong(error.to_string()))?;
            cases.push(row.read(&configurations).map_err(wrong)?);
        }
        Ok(Recording { kernel, configurations, cases })
    }
}

impl RecordedKernel for Recording {
    fn list(directory: &Path) -> Result<Vec<(String, Recording)>, RecordingError> {
        all_with_file(directory, FILE, Recording::open)
    }

    fn kernel(&self) -> &str {
        &self.kernel
    }
}
