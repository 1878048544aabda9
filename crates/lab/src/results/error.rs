//! What can be wrong with results on disk.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use workload::output::OutputError;

/// Why results cannot be read or written.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// The system refuses.
    #[error("{}: {error}; give another directory with --results, or make room and permissions for this one", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("{0}; give another directory with --results, or make room and permissions for this one")]
    Output(#[from] OutputError),
    /// A directory of a layout that is not read any more.
    #[error(
        "{}: results of an earlier mmtwin (its manifest.json says {schema}), which this one does not read; \
         give another directory with --results, or remove this one and make its runs again",
        directory.display()
    )]
    Earlier {
        /// The directory.
        directory: PathBuf,
        /// What its manifest says.
        schema: String,
    },
    /// A recorded file that a run is made of cannot be read.
    #[error("{}: {error}", path.display())]
    Recorded {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file of results that is not what was written.
    #[error("{}: damaged: {text}; make its runs again with --fresh, or remove the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        text: String,
    },
    /// Something else where a file of results is to be.
    #[error(
        "{}: not a file as this mmtwin writes it here, so it is left alone; remove it, or give another directory with --results",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

impl ResultsError {
    pub(super) fn io(path: &Path, error: io::Error) -> ResultsError {
        ResultsError::Io { path: path.into(), error }
    }

    /// Whether there is no such file.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, ResultsError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn damaged(path: &Path, text: impl ToString) -> ResultsError {
        ResultsError::Damaged { path: path.into(), text: text.to_string() }
    }
}
