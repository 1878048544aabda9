//! Errors of results on disk.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use workload::output::OutputError;

/// Why results cannot be read or written.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// A system call failed.
    #[error("{}: {error}; give another directory with --results, or make room and permissions for this one", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// A file cannot be written.
    #[error("{0}; give another directory with --results, or make room and permissions for this one")]
    Output(#[from] OutputError),
    /// The directory has a layout that is no longer supported.
    #[error(
        "{}: results of an earlier mmtwin (its manifest.json says {schema}), which this one does not read; \
         give another directory with --results, or remove this one and make its runs again",
        directory.display()
    )]
    Earlier {
        directory: PathBuf,
        /// Schema in its manifest.
        schema: String,
    },
    /// An object store that cannot be opened.
    #[error("{address}: {text}")]
    NoStore {
        address: String,
        /// What is wrong, or what it needs.
        text: String,
    },
    /// An object store that does not answer as one.
    #[error(
        "{address}: {text}; the environment says where it is and who asks (AWS_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID, \
         AWS_SECRET_ACCESS_KEY); what was made is in the results directory"
    )]
    Store {
        address: String,
        /// What it answers.
        text: String,
    },
    /// A recording that the run replays cannot be read.
    #[error("{}: {error}", path.display())]
    Recorded { path: PathBuf, error: io::Error },
    /// A results file does not contain what was written.
    #[error("{}: damaged: {text}; make its runs again with --fresh, or remove the file", path.display())]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        text: String,
    },
    /// Something that is not a results file has the name of one.
    #[error(
        "{}: not a file of the kind that mmtwin writes here, so it is left alone; remove it, or give another directory with --results",
        path.display()
    )]
    Foreign { path: PathBuf },
}

impl ResultsError {
    pub(super) fn io(path: &Path, error: io::Error) -> ResultsError {
        ResultsError::Io { path: path.into(), error }
    }

    /// Whether the error is that a file does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, ResultsError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn damaged(path: &Path, text: impl ToString) -> ResultsError {
        ResultsError::Damaged { path: path.into(), text: text.to_string() }
    }
}
