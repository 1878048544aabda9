//! Compaction of a results directory: packs many small files into few large ones.
//!
//! ```text
//!   up to 1,024 runs ─► pack, written and synced ─► read back and compared ─► their files removed, unless changed
//! ```
//!
//! A run's file is removed only after the run was read back from the pack, so nothing is lost if a compaction
//! is interrupted; the next one removes the files whose runs are in a pack already. Two compactions at once
//! lose nothing either, as each only removes runs that it packed itself or found in a pack.

use super::ResultsError;
use super::directory::{
    FileKind, content, files, open, pack_path, require_directory, run_in, sync_directory,
};
use super::file::{self, StoredRun};
use super::identity::hash;
use super::pack::Packs;
use rayon::prelude::*;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use workload::output::remove_abandoned;

/// Most runs in a pack.
const RUNS: usize = 1024;
/// Most bytes of the files in a pack: they are held in memory, where they take several times as much.
const BYTES: u64 = 16 << 20;

/// What a compaction did.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Paths of the new packs.
    pub packs: Vec<PathBuf>,
    /// Number of runs in them.
    pub runs: usize,
    /// Number of run files removed.
    pub removed: usize,
    /// Files that could not be read and were left alone.
    pub damaged: Vec<ResultsError>,
}

/// A run and the file that it was read from.
struct Source {
    path: PathBuf,
    /// Hash of the file's bytes.
    bytes: String,
    run: StoredRun,
}

/// State of a run file that is to be packed.
enum Read {
    /// It is to be packed.
    ToPack(Source),
    /// A pack already has it.
    Packed(Source),
    /// Another process has removed it.
    Gone,
}

/// Packs the runs in `directory` that have files of their own.
pub fn compact(directory: &Path) -> Result<Compacted, ResultsError> {
    require_directory(directory)?;
    let packs = Packs::open(directory)?;
    let mut done = Compacted::default();
    let runs = files(directory)?.into_iter().filter(|(_, kind)| *kind == FileKind::Run);
    for paths in portions(runs.map(|(path, _)| path)) {
        let read: Vec<Result<Read, ResultsError>> = paths.par_iter().map(|path| read(path, &packs)).collect();
        let (mut sources, mut packed) = (Vec::new(), Vec::new());
        for read in read {
            match read {
                Ok(Read::ToPack(source)) => sources.push(source),
                Ok(Read::Packed(source)) => packed.push(source),
                Ok(Read::Gone) => {}
                Err(error) => done.damaged.push(error),
            }
        }
        done.removed += remove(directory, &packed)?;
        pack(directory, sources, &mut done)?;
    }
    match remove_abandoned(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ResultsError::io(directory, error)),
        _ => Ok(done),
    }
}

/// Divides paths into the packs to be made.
fn portions(paths: impl Iterator<Item = PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut portions: Vec<Vec<PathBuf>> = Vec::new();
    let mut bytes = 0;
    for path in paths {
        let length = fs::metadata(&path).map_or(0, |found| found.len());
        match portions.last_mut() {
            Some(last) if last.len() < RUNS && bytes + length <= BYTES => {
                bytes += length;
                last.push(path);
            }
            _ => {
                bytes = length;
                portions.push(vec![path]);
            }
        }
    }
    portions
}

fn read(path: &Path, packs: &Packs) -> Result<Read, ResultsError> {
    let Some(content) = content(path)? else { return Ok(Read::Gone) };
    let identity = path.file_stem().unwrap_or_default().to_string_lossy();
    let bytes = hash(&content);
    let source = Source { path: path.into(), bytes, run: run_in(path, content, &identity)? };
    match packs.find(&identity)? {
        None => Ok(Read::ToPack(source)),
        Some((_, packed)) if packed.says_the_same(&source.run) => Ok(Read::Packed(source)),
        Some((pack, _)) => {
            let text = format!("its result differs from that of the same run in {}", pack.display());
            Err(ResultsError::damaged(path, text))
        }
    }
}

/// Writes a pack and removes the files of its runs.
fn pack(directory: &Path, mut sources: Vec<Source>, done: &mut Compacted) -> Result<(), ResultsError> {
    if sources.len() < 2 {
        return Ok(());
    }
    // Similar runs are adjacent, which compresses better.
    sources.sort_by(|a, b| a.run.entry.summary.cmp(&b.run.entry.summary));
    let runs: Vec<&StoredRun> = sources.iter().map(|source| &source.run).collect();
    let path = pack_path(directory, runs.iter().map(|run| &run.entry));
    // A pack with this name has the same runs, from another compaction. It may be in use.
    if !path.exists() {
        file::write(&path, &runs)?;
    }
    verify(&path, &runs)?;
    sync_directory(directory)?;
    done.runs += runs.len();
    done.removed += remove(directory, &sources)?;
    done.packs.push(path);
    Ok(())
}

/// Reads a pack back and compares its runs.
pub(super) fn verify(path: &Path, runs: &[&StoredRun]) -> Result<(), ResultsError> {
    let pack = open(path, FileKind::Pack)?;
    let compare = |(position, run): (usize, &&StoredRun)| match pack.run_on_disk(position)? == **run {
        true => Ok(()),
        false => Err(ResultsError::damaged(
            path,
            format!("run {} was not packed as it was read", run.entry.summary.run),
        )),
    };
    runs.par_iter().enumerate().map(compare).find_first(Result::is_err).unwrap_or(Ok(()))
}

/// Removes files whose runs are packed, if they have not changed since they were read. Returns how many.
fn remove(directory: &Path, sources: &[Source]) -> Result<usize, ResultsError> {
    let mut removed = 0;
    for Source { path, bytes, .. } in sources {
        if content(path)?.is_some_and(|content| hash(&content) == *bytes) {
            match fs::remove_file(path) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(ResultsError::io(path, error)),
            }
        }
    }
    if removed > 0 {
        sync_directory(directory)?;
    }
    Ok(removed)
}
