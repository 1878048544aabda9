//! What can be wrong with results on disk.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

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
    /// A directory with something else in it.
    #[error(
        "{}: not empty and not a results directory (it has no manifest.json); give another one with --results",
        directory.display()
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
    },
    /// A file of a results directory that cannot be understood.
    #[error("{}: {text}; give another directory with --results, or replace this one's contents with --fresh", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        text: String,
    },
}

impl ResultsError {
    pub(super) fn io(path: &Path, error: io::Error) -> ResultsError {
        ResultsError::Io { path: path.into(), error }
    }

    pub(super) fn damaged(path: &Path, text: impl ToString) -> ResultsError {
        ResultsError::Damaged { path: path.into(), text: text.to_string() }
    }
}
