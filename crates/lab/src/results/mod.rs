//! Results on disk: a directory with a file for each run, whatever its scenario.
//!
//! ```text
//!   results/
//!     5c1e0f..d2.parquet            a run, named by its identity
//!     a07733..19.parquet            another one, of another scenario perhaps
//!     81f0ce..4b.pack.parquet       many runs, made of such files by `mmtwin results compact`
//!     .mmtwin-a8Xk2p.partial        a run that is being written
//! ```
//!
//! A run's identity is a hash of everything that decides it (`identity.rs`), so a sweep asks for its runs by name, makes those
//! that are missing, and puts each in place whole as it ends (`directory.rs`). No file is changed that is there, and nobody waits for another: any
//! number of processes may work in one directory. Whoever stops at any moment leaves runs that are whole, and the same command
//! goes on from there. Files that mmtwin did not write are neither read nor touched.
//!
//! The identity has the present name of a variant, whichever name was given, and the build that made the run. What a build from
//! before a variant's new name kept is listed under the former name, as that build's, and is not taken for a run of this one.
//!
//! What is in a file is checked at every read (`file.rs`).

mod compact;
mod directory;
mod error;
mod file;
mod identity;
mod list;
mod pack;
mod program;
mod record;
mod rows;
mod summary;
mod table;

pub use compact::{Compacted, compact};
pub use error::ResultsError;
pub use file::SCHEMA_NAME;
pub use identity::DescribedRun;
pub use list::{Listing, list};
pub use program::Program;
pub use record::{Record, SeriesPoint};
pub use summary::{Entry, Summary};
pub(crate) use table::write_table;

use bytes::Bytes;
use file::StoredRun;
use pack::Packs;
use sim::Run;
use sim::outcome::Outcome;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A results directory.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
    program: Program,
    afresh: bool,
    /// Read when a run has no file of its own.
    packs: OnceLock<Packs>,
}

impl Results {
    /// The results in `directory`, which need not exist, as `program` makes them.
    pub fn open(directory: &Path, program: Program) -> Result<Results, ResultsError> {
        directory::require_directory(directory)?;
        Ok(Results { directory: directory.into(), program, afresh: false, packs: OnceLock::new() })
    }

    /// Has every run made again that is asked for; it then takes the place of the one that is there. Others stay.
    pub fn afresh(self) -> Results {
        Results { afresh: true, ..self }
    }

    /// Where the results are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Finds out what `runs`, all of one workload, are called.
    pub fn describe<'a>(&self, runs: &'a [Run]) -> Result<Vec<DescribedRun<'a>>, ResultsError> {
        let Some(first) = runs.first() else { return Ok(Vec::new()) };
        let recorded = identity::recorded_files(&first.workload)?;
        Ok(runs.iter().map(|run| DescribedRun::new(run, &self.program.build, recorded.as_deref())).collect())
    }

    /// The run, if it was made before.
    pub fn get(&self, asked: &DescribedRun) -> Result<Option<Record>, ResultsError> {
        if self.afresh {
            return Ok(None);
        }
        let identity = asked.identity();
        let path = directory::run_path(&self.directory, identity);
        let content = directory::content(&path)?;
        let own = content.map(|content| directory::run_in(&path, content, identity)).transpose()?;
        let (path, run) = match own {
            Some(run) => (path.as_path(), run),
            None => match self.packs()?.find(identity)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let described =
            run.entry.summary == asked.summary && rows::description(&run.rows) == Some(&asked.description);
        if !described {
            return Err(ResultsError::damaged(path, format!("it describes run {identity} otherwise")));
        }
        rows::record(&run.rows, asked).map(Some).map_err(|text| ResultsError::damaged(path, text))
    }

    /// The packs that were there when one was first asked for. What is packed while a sweep runs is at worst made again.
    fn packs(&self) -> Result<&Packs, ResultsError> {
        match self.packs.get() {
            Some(packs) => Ok(packs),
            None => {
                let packs = Packs::open(&self.directory)?;
                Ok(self.packs.get_or_init(|| packs))
            }
        }
    }

    /// Keeps what came out of a run. Several threads and processes may do so at once.
    pub fn keep(&self, made: &DescribedRun, outcome: &Outcome) -> Result<Record, ResultsError> {
        let record = Record::new(made.identity().into(), made.run, outcome);
        let stored = StoredRun::new(made, &self.program, &record);
        file::write(&directory::run_path(&self.directory, made.identity()), &[&stored])?;
        Ok(record)
    }
}

/// Reads and checks a file of results, be it of one run or of many; the runs that it has.
pub fn check(path: &Path, content: &Bytes) -> Result<Vec<Entry>, ResultsError> {
    file::ResultsFile::check(path, content)
}

#[cfg(test)]
mod tests;
