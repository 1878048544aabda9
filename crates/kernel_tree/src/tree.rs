//! A kernel tree on disk: its files, parsed when somebody asks for them.

use crate::config::Config;
use crate::error::Error;
use crate::source::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A kernel's sources and configuration.
pub struct KernelTree {
    root: PathBuf,
    config: Config,
}

/// The files of a tree that were read, by path from its root. A file that decisions only may need can be missing.
pub struct Files(BTreeMap<&'static str, Option<Source>>);

impl KernelTree {
    /// The tree at `root`, configured so.
    pub fn new(root: &Path, config: Config) -> KernelTree {
        KernelTree { root: root.to_path_buf(), config }
    }

    /// The root of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The configuration of the tree.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the tree has a file.
    pub fn has(&self, file: &str) -> bool {
        self.root.join(file).is_file()
    }

    fn read(&self, file: &'static str) -> std::io::Result<Source> {
        let bytes = std::fs::read(self.root.join(file))?;
        // Some comments are in Latin-1; what is no UTF-8 is one character, so that lines stay.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Source::of(file, text, &self.config))
    }
}

impl Files {
    /// No file was read yet.
    pub fn none() -> Files {
        Files(BTreeMap::new())
    }

    /// That a file was read which `decision` is in.
    pub fn need(&self, tree: &KernelTree, file: &str, decision: &'static str) -> Result<(), Error> {
        if self.get(file).is_some() {
            return Ok(());
        }
        let path = tree.root.join(file);
        let error = std::fs::metadata(&path).err().unwrap_or_else(|| std::io::ErrorKind::InvalidData.into());
        Err(Error::File { path, needed_by: Some(decision), error })
    }

    /// Reads a file that may have what a decision needs.
    pub fn may_need(&mut self, tree: &KernelTree, file: &'static str) {
        self.0.entry(file).or_insert_with(|| tree.read(file).ok());
    }

    /// A file that was read, if the tree has it.
    pub fn get(&self, file: &str) -> Option<&Source> {
        self.0.get(file).and_then(Option::as_ref)
    }
}
