//! Results on disk: a directory with a file for each run of any scenario.
//!
//! ```text
//!   results/
//!     5c1e0f..d2.parquet            a run, named by its identity
//!     a07733..19.parquet            another run, perhaps of another scenario
//!     81f0ce..4b.pack.parquet       many runs, packed from such files by `mmtwin results compact`
//!     .mmtwin-a8Xk2p.partial        a run that is being written
//! ```
//!
//! A run's identity is a hash of everything that determines its result (`identity.rs`). A sweep looks up its
//! runs by identity, makes the missing ones, and stores each as a complete file as it ends (`directory.rs`).
//! Existing files are not modified and there are no locks between processes, so any number of processes can
//! work in one directory. If one is stopped, all stored runs are complete and the same command continues from
//! there. Files that mmtwin did not write are neither read nor touched.
//!
//! The identity contains the present name of a variant, even if a former one was given, and the build that
//! made the run. Runs that an older build stored under a former name are listed under that name and belong to
//! that build.
//!
//! The contents of a file are checked at every read (`file.rs`). Machines that share no directory can share an object store (`store.rs`).

mod compact;
mod directory;
mod error;
mod file;
mod identity;
mod list;
mod measurements;
mod pack;
mod program;
mod prune;
mod record;
mod rows;
mod store;
mod summary;
mod table;

pub use compact::{Compacted, compact};
pub use error::ResultsError;
pub use file::SCHEMA_NAME;
pub use identity::DescribedRun;
pub use list::{Listing, list};
pub use measurements::{Measurements, measurements, records};
pub use program::Program;
pub use prune::{Mode, Pruned, prune};
pub use record::{Record, SeriesPoint};
pub use store::Store;
pub use summary::{Entry, Summary};
pub(crate) use table::write_table;

use bytes::Bytes;
use file::StoredRun;
use identity::Recorded;
use pack::Packs;
use sim::Run;
use sim::outcome::Outcome;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A results directory.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
    program: Program,
    afresh: bool,
    recorded: Recorded,
    /// Read when a run has no file of its own.
    packs: OnceLock<Packs>,
    /// Where other machines keep theirs.
    store: Option<Arc<Store>>,
}

impl Results {
    /// Opens the results in `directory`, which need not exist; `program` is the one that makes runs.
    pub fn open(directory: &Path, program: Program) -> Result<Results, ResultsError> {
        directory::require_directory(directory)?;
        Ok(Results {
            directory: directory.into(),
            program,
            afresh: false,
            recorded: Recorded::default(),
            packs: OnceLock::new(),
            store: None,
        })
    }

    /// Looks for runs in an object store too, and puts there those that it lacks.
    pub fn sharing(self, store: Store) -> Results {
        Results { store: Some(Arc::new(store)), ..self }
    }

    /// Ignores existing results: every run that is asked for is made again and replaces the stored one. Other
    /// runs stay.
    pub fn afresh(self) -> Results {
        Results { afresh: true, ..self }
    }

    /// The same directory, where existing results are ignored as [`Results::afresh`] says.
    pub fn again(&self) -> Results {
        Results {
            directory: self.directory.clone(),
            program: self.program.clone(),
            afresh: true,
            recorded: Recorded::default(),
            packs: OnceLock::new(),
            store: self.store.clone(),
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Computes the identity of a run. What recordings hold is read once, when a run first replays them.
    pub fn describe<'a>(&self, run: &'a Run) -> Result<DescribedRun<'a>, ResultsError> {
        let recorded = self.recorded.hash(&run.workload)?;
        Ok(DescribedRun::new(run, &self.program.build, recorded.as_deref()))
    }

    /// The record of a run, if it is stored.
    pub fn get(&self, asked: &DescribedRun) -> Result<Option<Record>, ResultsError> {
        if self.afresh { Ok(None) } else { self.stored(asked) }
    }

    /// Like [`Results::get`], even if all runs are to be made again: another process has just stored it.
    pub fn stored(&self, asked: &DescribedRun) -> Result<Option<Record>, ResultsError> {
        let identity = asked.identity();
        let path = directory::run_path(&self.directory, identity);
        let content = directory::content(&path)?;
        let own = content.map(|content| directory::run_in(&path, content, identity)).transpose()?;
        let (path, run) = match own {
            Some(run) => (path.as_path(), run),
            None => match self.packs()?.find(identity)? {
                Some(found) => found,
                None => match self.fetch(&path, identity)? {
                    Some(run) => (path.as_path(), run),
                    None => return Ok(None),
                },
            },
        };
        let described =
            run.entry.summary == asked.summary && rows::description(&run.rows) == Some(&asked.description);
        if !described {
            return Err(ResultsError::damaged(path, format!("its description of run {identity} differs")));
        }
        rows::record(&run.rows, identity, asked.run)
            .map(Some)
            .map_err(|text| ResultsError::damaged(path, text))
    }

    /// The packs that existed when one was first needed. A run packed during a sweep may at worst be made
    /// again.
    fn packs(&self) -> Result<&Packs, ResultsError> {
        match self.packs.get() {
            Some(packs) => Ok(packs),
            None => {
                let packs = Packs::open(&self.directory)?;
                Ok(self.packs.get_or_init(|| packs))
            }
        }
    }

    /// A run that the store has, which is kept in the directory from now on.
    fn fetch(&self, path: &Path, identity: &str) -> Result<Option<StoredRun>, ResultsError> {
        let Some(store) = &self.store else { return Ok(None) };
        let Some(content) = store.get(&directory::run_name(identity))? else { return Ok(None) };
        let run = directory::run_in(path, content.clone(), identity)?;
        directory::write_whole(path, |file| {
            file.write_all(&content).map_err(|error| ResultsError::io(path, error))
        })?;
        Ok(Some(run))
    }

    /// Puts a run of the directory into the store, if there is one and it lacks it; after `afresh`, in the place of the one that it has.
    pub fn share(&self, made: &DescribedRun) -> Result<(), ResultsError> {
        let Some(store) = &self.store else { return Ok(()) };
        let (identity, name) = (made.identity(), directory::run_name(made.identity()));
        if !self.afresh && store.has(&name)? {
            return Ok(());
        }
        let content = match directory::content(&directory::run_path(&self.directory, identity))? {
            Some(content) => content,
            None => match self.packs()?.find(identity)? {
                Some((path, run)) => file::encoded(path, &run)?,
                None => return Ok(()),
            },
        };
        store.put(&name, content)
    }

    /// Stores the result of a run. Several threads and processes may do so at once.
    pub fn keep(&self, made: &DescribedRun, outcome: &Outcome) -> Result<Record, ResultsError> {
        let record = Record::new(made.identity().into(), made.run, outcome);
        let stored = StoredRun::new(made, &self.program, &record);
        file::write(&directory::run_path(&self.directory, made.identity()), &[&stored])?;
        Ok(record)
    }
}

/// Reads and checks a file of one or many runs. Returns the runs in it.
pub fn check(path: &Path, content: &Bytes) -> Result<Vec<Entry>, ResultsError> {
    file::ResultsFile::check(path, content)
}

#[cfg(test)]
mod tests;
