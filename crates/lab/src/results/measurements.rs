//! What the runs of a directory measured, whichever build made them: for comparisons of two directories.
//!
//! Unlike [`super::Results::get`], which reads what a run that is described asks for, this reads whatever is there. Every file is
//! checked as always.

use super::directory::{self, open, require_directory};
use super::{ResultsError, Summary, rows};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The metrics of a run, and where its CPU time went.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Which run it was.
    pub summary: Summary,
    /// Values by [`sim::metric::Metric::name`].
    pub metrics: BTreeMap<String, f64>,
    /// CPU seconds by [`mm::Category::name`].
    pub cpu_seconds: BTreeMap<String, f64>,
}

/// The measurements of all runs in `directory`; runs that differ only in their seeds are adjacent.
pub fn measurements(directory: &Path) -> Result<Vec<Measurements>, ResultsError> {
    require_directory(directory)?;
    let files = directory::files(directory)?;
    let read: Vec<Vec<Measurements>> = files
        .par_iter()
        .map(|(path, kind)| {
            let file = open(path, *kind)?;
            let of = |position| {
                let run = file.run_on_disk(position)?;
                let measured = rows::measured(&run.rows).map_err(|text| ResultsError::damaged(path, text));
                let (metrics, cpu_seconds) = measured?;
                Ok(Measurements { summary: run.entry.summary, metrics, cpu_seconds })
            };
            (0..file.entries().len()).map(of).collect()
        })
        .collect::<Result<_, ResultsError>>()?;
    let mut all: Vec<Measurements> = read.into_iter().flatten().collect();
    all.sort_by(|a, b| a.summary.cmp(&b.summary));
    // After an interrupted compaction, a run may be in a file and in a pack.
    all.dedup_by(|a, b| a.summary.run == b.summary.run);
    Ok(all)
}
