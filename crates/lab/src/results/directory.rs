//! The files of a results directory: finding, reading and writing them.

use super::file::{ResultsFile, StoredRun};
use super::identity::hash;
use super::{Entry, ResultsError};
use bytes::Bytes;
use rayon::prelude::*;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use workload::output::{Existing, Output, OutputFile, directory_of};

/// File name of a run, after its identity.
const RUN: &str = ".parquet";
/// File name of a pack, after the hash of its runs.
const PACK: &str = ".pack.parquet";

/// Schema in the manifest of the previous layout.
const EARLIER_SCHEMA: &str = "mmtwin-results/1";

/// Refuses a path that is not a directory, and a directory of the previous layout. Manifests of other
/// programs, or in subdirectories, do not matter.
pub(super) fn require_directory(directory: &Path) -> Result<(), ResultsError> {
    if directory.exists() && !directory.is_dir() {
        return Err(ResultsError::io(directory, ErrorKind::NotADirectory.into()));
    }
    let manifest = fs::read(directory.join("manifest.json")).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap_or_default();
    match manifest.get("schema").and_then(|schema| schema.as_str()) {
        Some(EARLIER_SCHEMA) => {
            Err(ResultsError::Earlier { directory: directory.into(), schema: EARLIER_SCHEMA.into() })
        }
        _ => Ok(()),
    }
}

/// Name of the file of a single run.
pub(super) fn run_name(identity: &str) -> String {
    format!("{identity}{RUN}")
}

/// Path of the file of a single run.
pub(super) fn run_path(directory: &Path, identity: &str) -> PathBuf {
    directory.join(run_name(identity))
}

/// Path of the pack of these runs; its name is a hash of its contents.
pub(super) fn pack_path<'a>(directory: &Path, entries: impl IntoIterator<Item = &'a Entry>) -> PathBuf {
    let of = |entry: &Entry| format!("{} {}\n", entry.summary.run, entry.content);
    let name = hash(entries.into_iter().map(of).collect::<String>().as_bytes());
    directory.join(format!("{name}{PACK}"))
}

/// Kind of a results file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// The file of one run.
    Run,
    /// A file of many runs.
    Pack,
}

impl FileKind {
    /// The kind of a file with this name; `None` if it is not a results file.
    fn of(name: &str) -> Option<FileKind> {
        let (stem, kind) = match name.strip_suffix(PACK) {
            Some(stem) => (stem, FileKind::Pack),
            None => (name.strip_suffix(RUN)?, FileKind::Run),
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (stem.len() == 32 && stem.bytes().all(is_digit)).then_some(kind)
    }
}

/// The results files in a directory, sorted by name; none if the directory does not exist.
pub(super) fn files(directory: &Path) -> Result<Vec<(PathBuf, FileKind)>, ResultsError> {
    let io = |error| ResultsError::io(directory, error);
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        if let Some(kind) = entry.file_name().to_str().and_then(FileKind::of) {
            found.push((entry.path(), kind));
        }
    }
    // All paths have the same directory, so comparing them as strings sorts by name and is fast.
    found.par_sort_unstable_by(|(a, _), (b, _)| a.as_os_str().cmp(b.as_os_str()));
    Ok(found)
}

/// Refuses anything but a regular file before it is opened; opening a pipe would wait for a writer.
pub(super) fn require_file(path: &Path) -> Result<(), ResultsError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(ResultsError::Foreign { path: path.into() }),
        Err(error) => Err(ResultsError::io(path, error)),
    }
}

/// The content of a file; `None` if it does not exist.
pub(super) fn content(path: &Path) -> Result<Option<Bytes>, ResultsError> {
    let read = || fs::read(path).map_err(|error| ResultsError::io(path, error));
    match require_file(path).and_then(|()| read()) {
        Err(error) if error.is_not_found() => Ok(None),
        content => content.map(|content| Some(content.into())),
    }
}

/// Opens the file at `path` and checks that it has the runs that its name says.
pub(super) fn open(path: &Path, kind: FileKind) -> Result<ResultsFile, ResultsError> {
    let file = ResultsFile::open(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let named = match (kind, file.entries()) {
        (FileKind::Run, [entry]) => run_path(directory, &entry.summary.run),
        (FileKind::Run, _) => return Err(ResultsError::damaged(path, "it does not hold one run")),
        (FileKind::Pack, entries) => pack_path(directory, entries),
    };
    match named == path {
        true => Ok(file),
        false => Err(ResultsError::damaged(path, "its runs are not those that its name says")),
    }
}

/// Reads the run with this identity from `content`, the whole file of a single run.
pub(super) fn run_in(path: &Path, content: Bytes, identity: &str) -> Result<StoredRun, ResultsError> {
    let file = ResultsFile::read(path, &content)?;
    match file.entries() {
        [entry] if entry.summary.run == identity => file.run(content, 0),
        _ => Err(ResultsError::damaged(path, format!("it does not hold run {identity}"))),
    }
}

/// Syncs `directory`, so that the names in it survive a crash.
pub(super) fn sync_directory(directory: &Path) -> Result<(), ResultsError> {
    fs::File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(|error| ResultsError::io(directory, error))
}

/// Creates a directory and its missing parents.
fn make_directory(directory: &Path) -> Result<(), ResultsError> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory_of(directory);
    if parent != directory {
        make_directory(parent)?;
    }
    match fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists || !directory.is_dir() => {
            Err(ResultsError::io(directory, error))
        }
        _ => sync_directory(parent),
    }
}

/// Writes a file at `path` by calling `fill`; the file appears only once it is complete. It replaces a
/// regular file, but nothing else.
pub(super) fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut OutputFile) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(ResultsError::Foreign { path: path.into() });
    }
    make_directory(directory_of(path))?;
    let mut file = Output::at(path, Existing::Replace)?.create()?;
    fill(&mut file)?;
    file.finish()?;
    Ok(())
}
