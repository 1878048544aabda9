//! Removes runs that nobody wants any more from a results directory.
//!
//! ```text
//!   file of a run, or pack     all unwanted   ─► removed
//!                              some unwanted  ─► the others in a pack of their own, read back; then removed
//!                              none           ─► left alone
//! ```

use super::compact::verify;
use super::directory::{files, open, pack_path, require_directory, sync_directory};
use super::file::{self, ResultsFile};
use super::{Entry, ResultsError};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// What was removed, or would be.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Runs that were removed.
    pub runs: usize,
    /// Runs that are left.
    pub kept: usize,
    /// Bytes of the files that were removed, less those that were written for what is left of packs.
    pub bytes: u64,
    /// Files that could not be read and were left alone.
    pub damaged: Vec<ResultsError>,
}

/// What to do with unwanted runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Remove,
    /// Only say how many there are.
    Count,
}

/// Removes the runs in `directory` that are `unwanted`.
pub fn prune(
    directory: &Path,
    mode: Mode,
    unwanted: impl Fn(&Entry) -> bool,
) -> Result<Pruned, ResultsError> {
    require_directory(directory)?;
    let mut done = Pruned::default();
    for (path, kind) in files(directory)? {
        let file = match open(&path, kind) {
            Ok(file) => file,
            // Others work here too.
            Err(error) if error.is_not_found() => continue,
            Err(error) => {
                done.damaged.push(error);
                continue;
            }
        };
        let runs = file.entries().iter().filter(|entry| unwanted(entry)).count();
        done.runs += runs;
        done.kept += file.entries().len() - runs;
        if runs == 0 {
            continue;
        }
        done.bytes += fs::metadata(&path).map_or(0, |found| found.len());
        if mode == Mode::Remove {
            let left = keep(directory, &file, &unwanted)?;
            done.bytes = done.bytes.saturating_sub(left);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(ResultsError::io(&path, error));
                }
                _ => sync_directory(directory)?,
            }
        }
    }
    Ok(done)
}

/// Writes the wanted runs of a file into a pack of their own. Returns the bytes of it.
fn keep(
    directory: &Path,
    file: &ResultsFile,
    unwanted: impl Fn(&Entry) -> bool,
) -> Result<u64, ResultsError> {
    let wanted = file.entries().iter().enumerate().filter(|(_, entry)| !unwanted(entry));
    let wanted = wanted.map(|(position, _)| file.run_on_disk(position)).collect::<Result<Vec<_>, _>>()?;
    if wanted.is_empty() {
        return Ok(0);
    }
    let path = pack_path(directory, wanted.iter().map(|run| &run.entry));
    let runs: Vec<_> = wanted.iter().collect();
    if !path.exists() {
        file::write(&path, &runs)?;
    }
    verify(&path, &runs)?;
    sync_directory(directory)?;
    Ok(fs::metadata(&path).map_or(0, |found| found.len()))
}
