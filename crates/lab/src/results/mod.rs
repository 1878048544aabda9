//! Results on disk: a directory that says what was run, and three Parquet files with what came out.
//!
//! ```text
//!   results/kbuild/
//!     manifest.json        scenario; for every run its settings, machine, seed, and the program that made it
//!     counters.parquet     metrics, CPU seconds, counters: one row a run and name
//!     series.parquet       samples over virtual time
//!     histograms.parquet   latencies
//!     unfinished/ID/       a finished run of a sweep that is not, laid out like the directory itself
//! ```
//!
//! Every file is written beside its name and then renamed. A finished run goes to `unfinished/` at once; when
//! the sweep ends, the Parquet files take in all runs, then the manifest lists them, and only then `unfinished/`
//! goes. So a sweep may be stopped at any moment: what was finished is found again by its identity, a hash of
//! everything that decides a run, and is not made twice.

mod error;
mod identity;
mod manifest;
mod record;
mod tables;

pub use error::ResultsError;
pub use identity::{identity, program_identity};
pub use manifest::{MANIFEST_SCHEMA, Manifest, ManifestRun};
pub use record::{Record, SeriesPoint};
pub(crate) use tables::Column;

use crate::scenario::Scenario;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
const UNFINISHED: &str = "unfinished";

/// A results directory.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
    records: BTreeMap<String, Record>,
}

impl Results {
    /// Reads what is in `directory`, which need not exist. With `fresh`, what is there will be replaced.
    /// A directory that holds something else is refused either way.
    pub fn open(directory: &Path, fresh: bool) -> Result<Results, ResultsError> {
        let mut results = Results { directory: directory.into(), records: BTreeMap::new() };
        if !results.is_mine()? {
            return Ok(results);
        }
        if fresh {
            return Ok(results);
        }
        for finished in results.unfinished()? {
            results.read(&finished)?;
        }
        if directory.join(MANIFEST).exists() {
            results.read(directory)?;
        }
        Ok(results)
    }

    /// Whether there is something; an error if it is not of this kind.
    fn is_mine(&self) -> Result<bool, ResultsError> {
        let directory = &self.directory;
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(ResultsError::io(directory, error)),
        };
        let empty = entries.count() == 0;
        if !empty && !directory.join(MANIFEST).exists() && !directory.join(UNFINISHED).exists() {
            return Err(ResultsError::Foreign { directory: directory.clone() });
        }
        Ok(!empty)
    }

    /// The directories of finished runs of an interrupted sweep.
    fn unfinished(&self) -> Result<Vec<PathBuf>, ResultsError> {
        let place = self.directory.join(UNFINISHED);
        let Ok(entries) = fs::read_dir(&place) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| ResultsError::io(&place, error))?.path();
            // What has no manifest yet was being written when the sweep was stopped.
            if path.join(MANIFEST).exists() {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn read(&mut self, directory: &Path) -> Result<(), ResultsError> {
        let manifest = Manifest::read(&directory.join(MANIFEST))?;
        for record in tables::read(directory, manifest.runs)? {
            self.records.insert(record.identity.clone(), record);
        }
        Ok(())
    }

    /// Where the results are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The run with this identity, if it was made before.
    pub fn get(&self, identity: &str) -> Option<&Record> {
        self.records.get(identity)
    }

    /// Keeps one finished run of a sweep. Several threads may do so at once.
    pub fn keep(&self, scenario: &Scenario, record: &Record) -> Result<(), ResultsError> {
        let place = self.directory.join(UNFINISHED).join(&record.identity);
        write(&place, scenario, std::slice::from_ref(record))
    }

    /// Takes in all runs of a finished sweep.
    pub fn finish(&mut self, scenario: &Scenario, made: &[Record]) -> Result<(), ResultsError> {
        for record in made {
            self.records.insert(record.identity.clone(), record.clone());
        }
        let mut records: Vec<Record> = self.records.values().cloned().collect();
        records.sort_by(|a, b| {
            let key = |r: &Record| (r.run.variant.clone(), r.run.seed, r.identity.clone());
            key(a).cmp(&key(b))
        });
        write(&self.directory, scenario, &records)?;
        let unfinished = self.directory.join(UNFINISHED);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ResultsError::io(&unfinished, error))
            }
            _ => Ok(()),
        }
    }
}

/// Writes the Parquet files, then the manifest that vouches for them.
fn write(directory: &Path, scenario: &Scenario, records: &[Record]) -> Result<(), ResultsError> {
    fs::create_dir_all(directory).map_err(|error| ResultsError::io(directory, error))?;
    tables::write(directory, records)?;
    Manifest::new(scenario, records).write(&directory.join(MANIFEST))
}

/// Writes a Parquet file that stands by itself, without runs and manifest.
pub(crate) fn write_table(
    directory: &Path,
    name: &str,
    columns: Vec<(&str, Column)>,
) -> Result<(), ResultsError> {
    fs::create_dir_all(directory).map_err(|error| ResultsError::io(directory, error))?;
    tables::write_columns(&directory.join(name), columns)
}

/// Writes a file under a name of its own and then gives it `path`'s.
fn write_atomically<T>(
    path: &Path,
    fill: impl FnOnce(&mut fs::File) -> Result<T, ResultsError>,
) -> Result<T, ResultsError> {
    use std::os::unix::fs::PermissionsExt;
    let io = |error| ResultsError::io(path, error);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".mmtwin-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(io)?;
    let filled = fill(file.as_file_mut())?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    Ok(filled)
}

#[cfg(test)]
mod tests;
