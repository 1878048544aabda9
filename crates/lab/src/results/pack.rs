//! The packs of a directory: files of many runs each.

use super::ResultsError;
use super::directory::{FileKind, files, open};
use super::file::{ResultsFile, StoredRun};
use std::collections::HashMap;
use std::path::Path;

/// The packs of a directory, by the runs that they have.
#[derive(Debug)]
pub(super) struct Packs {
    files: Vec<ResultsFile>,
    /// The pack of each run, and its place there.
    places: HashMap<String, (usize, usize)>,
}

impl Packs {
    /// Finds out which runs are packed in `directory`.
    pub fn open(directory: &Path) -> Result<Packs, ResultsError> {
        let mut packs = Packs { files: Vec::new(), places: HashMap::new() };
        for (path, _) in files(directory)?.into_iter().filter(|(_, kind)| *kind == FileKind::Pack) {
            let pack = open(&path, FileKind::Pack)?;
            for (position, entry) in pack.entries().iter().enumerate() {
                packs.places.insert(entry.summary.run.clone(), (packs.files.len(), position));
            }
            packs.files.push(pack);
        }
        Ok(packs)
    }

    /// The run and the pack that it is in, if it is in one.
    pub fn find(&self, identity: &str) -> Result<Option<(&Path, StoredRun)>, ResultsError> {
        let Some(&(pack, position)) = self.places.get(identity) else { return Ok(None) };
        let pack = &self.files[pack];
        Ok(Some((pack.path(), pack.run_on_disk(position)?)))
    }
}
