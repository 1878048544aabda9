//! Why a profile cannot be used.

use crate::trace::TraceError;
use thiserror::Error;

/// Why a profile cannot be read or written.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// Not a Parquet file, or a damaged or truncated one.
    #[error("{file}: not a readable Parquet file: {detail}; copy it again, or distil the trace again")]
    Parquet {
        /// The file.
        file: String,
        /// What the Parquet reader says.
        detail: String,
    },
    /// A Parquet file of something else.
    #[error(
        "{file}: no `{key}` in its metadata: this is not a process profile; one is made of a trace by the \
         example `distil` of the crate `workload`",
        key = super::table::KEY
    )]
    Foreign {
        /// The file.
        file: String,
    },
    /// The JSON document cannot be read.
    #[error("{file}: `{key}` in its metadata: {source}", key = super::table::KEY)]
    Document {
        /// The file.
        file: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A newer format.
    #[error("{file}: format {format}, this mmtwin reads format {supported}: use a newer mmtwin")]
    Newer {
        /// The file.
        file: String,
        /// Its format.
        format: u64,
        /// The newest that can be read.
        supported: u32,
    },
    /// A value that no profile has.
    #[error("{file}, row {row}, column `{column}`: {text}")]
    Value {
        /// The file.
        file: String,
        /// Row in the table, from 0.
        row: usize,
        /// The column.
        column: &'static str,
        /// What is wrong.
        text: String,
    },
    /// The table cannot be made or written.
    #[error(transparent)]
    Write(#[from] TraceError),
    /// A file cannot be opened or read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        source: std::io::Error,
    },
}
