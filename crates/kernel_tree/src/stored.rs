//! Kernel trees under a name: what was taken, compiled, and kept for runs to load.
//!
//! ```text
//!   DIRECTORY/NAME/kernel.json     what is whose, from which file and line; hash of it all
//!   DIRECTORY/NAME/decisions-*.so  the object, and the C that it was compiled from
//!   DIRECTORY/NAME/sources.json    what the tree, and the one that it is compared with, have of all decisions
//! ```
//!
//! A function that the tree does not have, or has as it is in the tree that it is compared with, is the twin's own: it decides as the
//! release does that the tree is based on.

use crate::compiler::{Compiler, Instrumentation, Object};
use crate::config::Config;
use crate::decision::{DECISIONS, Decision};
use crate::error::Error;
use crate::extract::{Extract, Survey};
use crate::loaded::Loaded;
use crate::sources::{Sources, TreeSources};
use crate::tree::KernelTree;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A kernel tree under a name, with what is known of its decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub name: String,
    /// The release whose rules the kernel has where it does not decide by functions of the tree.
    pub base: String,
    /// The tree, with the patches that were applied to a copy of it, for messages.
    pub tree: String,
    /// Hash of sources, header, compiler and flags.
    pub content_hash: String,
    pub decisions: Vec<StoredDecision>,
    object: PathBuf,
    sanitized: bool,
    preloaded: Option<String>,
}

/// Whose function makes a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDecision {
    /// The name of the function in the kernel.
    pub function: String,
    pub whose: Whose,
    /// File and line in the tree, if the tree has it.
    pub place: Option<String>,
}

/// Whose function makes a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// The function of the tree.
    Tree,
    /// The twin's own, as the tree has the same function as the one that it is compared with.
    Unchanged,
    /// The twin's own, as the tree has none of that name.
    Missing,
}

/// Why there is no kernel of a name.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error(transparent)]
    Tree(#[from] Error),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {text}; remove the kernel and add it again", path.display())]
    Damaged { path: PathBuf, text: String },
    #[error("{name:?}: a kernel's name has letters, digits, - and _ only, as in my-patch")]
    Name { name: String },
    #[error("{}: no VERSION and PATCHLEVEL in its Makefile; is it the root of a kernel tree? --base says the release", tree.display())]
    NoVersion { tree: PathBuf },
    #[error("{}: based on {base}, which is not modelled; --base takes one of those that `mmtwin list releases` has", tree.display())]
    Release { tree: PathBuf, base: String },
    #[error("{}: none of the functions that a run asks differs from {}; there is nothing to try", tree.display(), other.display())]
    Unchanged { tree: PathBuf, other: PathBuf },
}

const MANIFEST: &str = "kernel.json";
const SOURCES: &str = "sources.json";

/// What `mmtwin kernel add` is asked for.
pub struct Request<'a> {
    pub name: &'a str,
    /// The release, or what the tree's Makefile says.
    pub base: Option<&'a str>,
    pub tree: &'a Path,
    /// What the tree is called in messages.
    pub called: String,
    /// The tree whose functions decide as the twin's own.
    pub unchanged: Option<&'a Path>,
    pub config: Config,
    pub sanitize: bool,
}

impl Stored {
    /// Takes the decisions out of a tree, compiles them, and keeps them in `directory` under the name; one of that name is replaced.
    /// `is_release` says which releases a tree can be based on.
    pub fn add(
        directory: &Path,
        request: Request,
        is_release: &dyn Fn(&str) -> bool,
    ) -> Result<Stored, StoredError> {
        let Request { name, tree: root, sanitize, .. } = request;
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if name.is_empty() || !name.chars().all(allowed) {
            return Err(StoredError::Name { name: name.into() });
        }
        let base = request.base.map(String::from).or_else(|| version(root));
        let base = base.ok_or_else(|| StoredError::NoVersion { tree: root.into() })?;
        // A stable release is of the release that it follows: 6.12 of 6.12.117.
        let base = base.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        if !is_release(&base) {
            return Err(StoredError::Release { tree: root.into(), base });
        }
        let Choice { extract, same, sources } = chosen(&request)?;
        let instrumentation = if sanitize { Instrumentation::Sanitizers } else { Instrumentation::None };
        // What is there already stays until the new one compiles.
        fs::create_dir_all(directory).map_err(io_at(directory))?;
        let fresh = tempfile::Builder::new().prefix(".adding-").tempdir_in(directory);
        let fresh = fresh.map_err(io_at(directory))?;
        let object = Compiler::of_the_system(instrumentation).compile(&extract, fresh.path())?;
        let stored = Stored {
            name: name.into(),
            base,
            tree: request.called,
            content_hash: object.content_hash,
            decisions: deciding().map(|decision| StoredDecision::of(decision, &extract, &same)).collect(),
            object: object.path.file_name().unwrap_or_default().into(),
            sanitized: sanitize,
            preloaded: object.preloaded,
        };
        stored.put_in_place(&directory.join(name), fresh, &sources)?;
        Ok(stored)
    }

    /// Writes what is known beside the object in `fresh`, which then takes the place of what is at `place`.
    fn put_in_place(
        &self,
        place: &Path,
        fresh: tempfile::TempDir,
        sources: &Sources,
    ) -> Result<(), StoredError> {
        let write = |name: &str, text: serde_json::Result<String>| {
            let path = fresh.path().join(name);
            let text = text.map_err(|error| damaged(&place.join(name), error))?;
            fs::write(&path, text).map_err(io_at(&path))
        };
        write(MANIFEST, serde_json::to_string_pretty(self))?;
        write(SOURCES, serde_json::to_string(sources))?;
        if place.exists() {
            fs::remove_dir_all(place).map_err(io_at(place))?;
        }
        fs::rename(fresh.keep(), place).map_err(io_at(place))
    }

    /// The kernel of that name in `directory`, if there is one.
    pub fn find(directory: &Path, name: &str) -> Result<Option<Stored>, StoredError> {
        let path = directory.join(name).join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoredError::Io { path, error }),
        };
        let stored: Stored = serde_json::from_str(&text).map_err(|error| damaged(&path, error))?;
        let text = "it is another kernel's".to_string();
        if stored.name == name { Ok(Some(stored)) } else { Err(StoredError::Damaged { path, text }) }
    }

    /// All kernels in `directory`, by name.
    pub fn all(directory: &Path) -> Result<Vec<Stored>, StoredError> {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoredError::Io { path: directory.into(), error }),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(io_at(directory))?.file_name().into_string());
        }
        names.sort();
        let found =
            names.iter().filter(|name| !name.starts_with('.')).map(|name| Stored::find(directory, name));
        found.filter_map(Result::transpose).collect()
    }

    /// Removes the kernel of that name; whether there was one.
    pub fn remove(directory: &Path, name: &str) -> Result<bool, StoredError> {
        if Stored::find(directory, name)?.is_none() {
            return Ok(false);
        }
        let place = directory.join(name);
        fs::remove_dir_all(&place).map_err(io_at(&place))?;
        Ok(true)
    }

    /// What the tree of the kernel in `directory` has of all decisions.
    pub fn sources(&self, directory: &Path) -> Result<Sources, StoredError> {
        let path = directory.join(&self.name).join(SOURCES);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| damaged(&path, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = "not there, as an earlier mmtwin kept none".to_string();
                Err(StoredError::Damaged { path, text })
            }
            Err(error) => Err(StoredError::Io { path, error }),
        }
    }

    /// How the functions of the kernel are compiled.
    pub fn instrumentation(&self) -> Instrumentation {
        if self.sanitized { Instrumentation::Sanitizers } else { Instrumentation::None }
    }

    /// Loads the object of the kernel in `directory` into this process.
    pub fn load(&self, directory: &Path) -> Result<Loaded, Error> {
        let object = Object {
            path: directory.join(&self.name).join(&self.object),
            content_hash: self.content_hash.clone(),
            instrumentation: self.instrumentation(),
            preloaded: self.preloaded.clone(),
        };
        let of_tree = self.decisions.iter().filter(|decision| decision.whose == Whose::Tree);
        let decisions: Vec<_> = of_tree.filter_map(|decision| Decision::named(&decision.function)).collect();
        Loaded::of(&object, &decisions)
    }

    /// The library that has to be preloaded into the process that loads the kernel.
    pub fn preloaded(&self) -> Option<&str> {
        self.preloaded.as_deref()
    }
}

impl StoredDecision {
    fn of(decision: &Decision, extract: &Extract, same: &[&'static Decision]) -> StoredDecision {
        let found = extract.found(decision);
        let is_same = same.iter().any(|same| same.name == decision.name);
        StoredDecision {
            function: decision.name.into(),
            whose: match found {
                Some(_) => Whose::Tree,
                None if is_same => Whose::Unchanged,
                None => Whose::Missing,
            },
            place: found.map(|found| found.place.to_string()),
        }
    }
}

/// The decisions that runs ask.
fn deciding() -> impl Iterator<Item = &'static Decision> {
    DECISIONS.iter().filter(|decision| decision.slot.decides())
}

/// What is taken of a tree.
struct Choice {
    /// The decisions that the tree's functions make.
    extract: Extract,
    /// Decisions that are left to the twin, as the other tree has the same functions.
    same: Vec<&'static Decision>,
    /// What both trees have of all decisions.
    sources: Sources,
}

fn chosen(request: &Request) -> Result<Choice, StoredError> {
    let all: Vec<&'static Decision> = DECISIONS.iter().collect();
    let tree = KernelTree::new(request.tree, request.config.clone());
    let survey = Survey::of(&tree, &all);
    let (sources, refused) = TreeSources::of(&survey, request.called.clone());
    let mut wanted: Vec<&'static Decision> = deciding().collect();
    let mut missing = None;
    for (decision, error) in refused.into_iter().filter(|(decision, _)| decision.slot.decides()) {
        if !error.is_missing() {
            return Err(error.into());
        }
        wanted.retain(|one| one.name != decision.name);
        missing.get_or_insert(error);
    }
    if let Some(error) = missing.filter(|_| wanted.is_empty()) {
        return Err(error.into());
    }
    let Some(other) = request.unchanged else {
        let extract = survey.take(&wanted)?;
        return Ok(Choice { extract, same: Vec::new(), sources: Sources { tree: sources, other: None } });
    };
    let other_tree = KernelTree::new(other, request.config.clone());
    let (of_other, _) = TreeSources::of(&Survey::of(&other_tree, &all), other.display().to_string());
    let is_same = |decision: &&'static Decision| sources.hash(decision) == of_other.hash(decision);
    let (same, changed): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_same);
    if changed.is_empty() {
        return Err(StoredError::Unchanged { tree: request.tree.into(), other: other.into() });
    }
    let extract = survey.take(&changed)?;
    Ok(Choice { extract, same, sources: Sources { tree: sources, other: Some(of_other) } })
}

fn damaged(path: &Path, error: serde_json::Error) -> StoredError {
    StoredError::Damaged { path: path.into(), text: error.to_string() }
}

/// `6.12` of a tree whose Makefile says VERSION = 6 and PATCHLEVEL = 12.
fn version(tree: &Path) -> Option<String> {
    let makefile = fs::read_to_string(tree.join("Makefile")).ok()?;
    let value = |name: &str| {
        let mut lines = makefile.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_string())
    };
    Some(format!("{}.{}", value("VERSION")?, value("PATCHLEVEL")?))
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> StoredError + use<> {
    let path = path.to_path_buf();
    move |error| StoredError::Io { path, error }
}
