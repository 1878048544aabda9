//! Which files of a directory are results, reading those of single runs, and writing files whole.

use super::file::{ResultsFile, StoredRun};
use super::identity::hash;
use super::{Entry, ResultsError};
use bytes::Bytes;
use rayon::prelude::*;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use workload::output::{Existing, Output, OutputFile, directory_of};

/// What the file of a run is called behind its identity.
const RUN: &str = ".parquet";
/// What a pack is called behind the hash of its runs.
const PACK: &str = ".pack.parquet";

/// What the manifest of the layout before this one said.
const EARLIER_SCHEMA: &str = "mmtwin-results/1";

/// Refuses what is no directory, and a directory of the layout before this one. Others' manifests do not matter, nor do those in directories within it.
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

/// Where the file of a single run is.
pub(super) fn run_path(directory: &Path, identity: &str) -> PathBuf {
    directory.join(format!("{identity}{RUN}"))
}

/// Where the pack of these runs is: it is called by a hash of what is in it.
pub(super) fn pack_path<'a>(directory: &Path, entries: impl IntoIterator<Item = &'a Entry>) -> PathBuf {
    let of = |entry: &Entry| format!("{} {}\n", entry.summary.run, entry.content);
    let name = hash(entries.into_iter().map(of).collect::<String>().as_bytes());
    directory.join(format!("{name}{PACK}"))
}

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// That of a run.
    Run,
    /// That of many.
    Pack,
}

impl FileKind {
    /// What a file of this name is, if it is one of results.
    fn of(name: &str) -> Option<FileKind> {
        let (stem, kind) = match name.strip_suffix(PACK) {
            Some(stem) => (stem, FileKind::Pack),
            None => (name.strip_suffix(RUN)?, FileKind::Run),
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (stem.len() == 32 && stem.bytes().all(is_digit)).then_some(kind)
    }
}

/// The files of results in a directory, sorted by name; none if there is no directory.
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
    // All are in one directory: their texts are in the order of their names, and soon compared.
    found.par_sort_unstable_by(|(a, _), (b, _)| a.as_os_str().cmp(b.as_os_str()));
    Ok(found)
}

/// Refuses what is no regular file before it is opened: a pipe would wait for a writer.
pub(super) fn require_file(path: &Path) -> Result<(), ResultsError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(ResultsError::Foreign { path: path.into() }),
        Err(error) => Err(ResultsError::io(path, error)),
    }
}

/// The content of a file, if there is one.
pub(super) fn content(path: &Path) -> Result<Option<Bytes>, ResultsError> {
    let read = || fs::read(path).map_err(|error| ResultsError::io(path, error));
    match require_file(path).and_then(|()| read()) {
        Err(error) if error.is_not_found() => Ok(None),
        content => content.map(|content| Some(content.into())),
    }
}

/// The file at `path`, which has what its name says.
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
        false => Err(ResultsError::damaged(path, "it does not hold the runs that it is named by")),
    }
}

/// The run of this identity in `content`, which is all of the file of a single one.
pub(super) fn run_in(path: &Path, content: Bytes, identity: &str) -> Result<StoredRun, ResultsError> {
    let file = ResultsFile::read(path, &content)?;
    match file.entries() {
        [entry] if entry.summary.run == identity => file.run(content, 0),
        _ => Err(ResultsError::damaged(path, format!("it does not hold run {identity}"))),
    }
}

/// Makes sure that names in `directory` outlast a crash.
pub(super) fn sync_directory(directory: &Path) -> Result<(), ResultsError> {
    fs::File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(|error| ResultsError::io(directory, error))
}

/// Makes a directory and those that it is in, where they are missing.
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

/// Writes what `fill` does to the file at `path`, which is there whole or not at all. A regular file of that name is
/// replaced, anything else is not.
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
