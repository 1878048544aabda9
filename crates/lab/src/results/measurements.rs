//! What the runs of a directory measured, whichever build made them: for comparisons of directories.
//!
//! Unlike [`super::Results::get`], which reads what a run that is described asks for, this reads whatever is there. Every file is
//! checked as always.

use super::directory::{self, open, require_directory};
use super::file::StoredRun;
use super::{Entry, Record, ResultsError, Summary, identity, rows};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
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
    let measured = |path: &Path, run: StoredRun| {
        let measured = rows::measured(&run.rows).map_err(|text| ResultsError::damaged(path, text));
        let (metrics, cpu_seconds) = measured?;
        Ok(Measurements { summary: run.entry.summary, metrics, cpu_seconds })
    };
    let mut all = each(directory, |_| true, measured)?;
    all.sort_by(|a, b| a.summary.cmp(&b.summary));
    // After an interrupted compaction, a run may be in a file and in a pack.
    all.dedup_by(|a, b| a.summary.run == b.summary.run);
    Ok(all)
}

/// The records of those of these runs that are in `directory`. A run whose build describes runs in another way is left out.
pub fn records(directory: &Path, identities: &BTreeSet<&str>) -> Result<Vec<Record>, ResultsError> {
    let record = |_: &Path, run: StoredRun| {
        let described = rows::description(&run.rows).and_then(identity::described);
        let record = described.and_then(|of| rows::record(&run.rows, &run.entry.summary.run, &of).ok());
        Ok(record)
    };
    let is_wanted = |entry: &Entry| identities.contains(entry.summary.run.as_str());
    Ok(each(directory, is_wanted, record)?.into_iter().flatten().collect())
}

/// What `of` makes of each run in `directory` that is wanted.
fn each<T: Send>(
    directory: &Path,
    is_wanted: impl Fn(&Entry) -> bool + Sync,
    of: impl Fn(&Path, StoredRun) -> Result<T, ResultsError> + Sync,
) -> Result<Vec<T>, ResultsError> {
    require_directory(directory)?;
    let files = directory::files(directory)?;
    let read: Vec<Result<Vec<T>, ResultsError>> = files
        .par_iter()
        .map(|(path, kind)| {
            let file = open(path, *kind)?;
            let wanted = file.entries().iter().enumerate().filter(|(_, entry)| is_wanted(entry));
            wanted.map(|(position, _)| of(path, file.run_on_disk(position)?)).collect()
        })
        .collect();
    let read: Vec<Vec<T>> = read.into_iter().collect::<Result<_, _>>()?;
    Ok(read.into_iter().flatten().collect())
}
