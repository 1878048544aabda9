//! Errors of reading and writing process profiles.

use crate::trace::TraceError;
use thiserror::Error;

/// Why a profile cannot be read or written.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The file is not a Parquet file, or is damaged or cut short.
    #[error("{file}: not a readable Parquet file: {detail}; copy it again, or distil the trace again")]
    Parquet {
        file: String,
        /// The error of the Parquet reader.
        detail: String,
    },
    /// The file is a Parquet file without a profile's document.
    #[error(
        "{file}: no `{key}` in its metadata: this is not a process profile; one is made of a trace by the \
         example `distil` of the crate `workload`",
        key = super::table::KEY
    )]
    Foreign { file: String },
    /// The JSON document does not parse.
    #[error("{file}: `{key}` in its metadata: {source}", key = super::table::KEY)]
    Document { file: String, source: serde_json::Error },
    /// The profile has a newer format.
    #[error("{file}: format {format}, this mmtwin reads format {supported}: use a newer mmtwin")]
    Newer {
        file: String,
        /// Format version of the file.
        format: u64,
        /// Newest format version that this build reads.
        supported: u32,
    },
    /// A value is outside its range.
    #[error("{file}, row {row}, column `{column}`: {text}")]
    Value {
        file: String,
        /// Row number, from 0.
        row: usize,
        column: &'static str,
        /// What is wrong.
        text: String,
    },
    /// The table cannot be written.
    #[error(transparent)]
    Write(#[from] TraceError),
    /// The file cannot be opened or read.
    #[error("{file}: {source}")]
    Io { file: String, source: std::io::Error },
}
