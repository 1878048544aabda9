//! The packs of a directory: files with many runs each.

use super::ResultsError;
use super::directory::{FileKind, files, open};
use super::file::{ResultsFile, StoredRun};
use std::collections::HashMap;
use std::path::Path;

/// The packs of a directory, and an index of their runs.
#[derive(Debug)]
pub(super) struct Packs {
    files: Vec<ResultsFile>,
    /// For each run, the pack and its position there.
    places: HashMap<String, (usize, usize)>,
}

impl Packs {
    /// Reads the footers of all packs in `directory`.
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

    /// A run and the pack that contains it, if any.
    pub fn find(&self, identity: &str) -> Result<Option<(&Path, StoredRun)>, ResultsError> {
        let Some(&(pack, position)) = self.places.get(identity) else { return Ok(None) };
        let pack = &self.files[pack];
        Ok(Some((pack.path(), pack.run_on_disk(position)?)))
    }
}
