//! Errors of reading and writing traces.

use std::io;

use parquet::errors::ParquetError;

use super::{FORMAT, Loss};
use crate::output::OutputError;

/// Why a trace cannot be read or written. `file` is the path as given.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened, read, written or renamed.
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
    /// The output path cannot be written to.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The Parquet writer fails.
    #[error("{file}: cannot write its table: {source}")]
    Write { file: String, source: ParquetError },
    /// The file is not a Parquet file.
    #[error("{file} is not a Parquet file; record a trace with `mmtwin record -o build.parquet -- COMMAND`")]
    NotParquet { file: String },
    /// The Parquet file is damaged or cut short.
    #[error("{file} is cut short or damaged ({detail}); copy or record it again")]
    Corrupt {
        file: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The file is a Parquet file without a trace document.
    #[error(
        "{file} is a Parquet file, but not an mmtwin trace (no `mmtwin.trace` document; its columns are \
         {columns}); record one with `mmtwin record -o build.parquet -- COMMAND`"
    )]
    Foreign {
        file: String,
        /// Names of its columns, from which the user may recognise the file.
        columns: String,
    },
    /// The JSON document does not parse.
    #[error("{file}: the `mmtwin.trace` document is not what format {FORMAT} says: {source}")]
    Metadata { file: String, source: serde_json::Error },
    /// The trace was written by a newer mmtwin.
    #[error("{file} has trace format {format}, this mmtwin reads up to {supported}; update mmtwin")]
    Newer {
        file: String,
        /// Format version of the file.
        format: u64,
        /// Newest format version that this build reads.
        supported: u32,
    },
    /// A column is missing.
    #[error("{file}: column `{column}` ({expected}) is missing")]
    MissingColumn {
        file: String,
        column: &'static str,
        /// Its type in the format.
        expected: String,
    },
    /// A column has a wrong type.
    #[error("{file}: column `{column}` is {actual}, must be {expected}")]
    ColumnType {
        file: String,
        column: &'static str,
        /// Its type in the format.
        expected: String,
        /// Its type in the file.
        actual: String,
    },
    /// A value is null.
    #[error("{file}: row {row}: column `{column}` has no value")]
    Null {
        file: String,
        /// Row number, from 0.
        row: u64,
        column: &'static str,
    },
    /// The format has no operation of this name.
    #[error("{file}: row {row}: unknown operation `{value}`")]
    UnknownOperation {
        file: String,
        /// Row number, from 0.
        row: u64,
        value: String,
    },
    /// Rows are not ordered by time.
    #[error("{file}: row {row}: time {time} is before the previous row's {previous}; sort the rows by time")]
    TimeBackwards {
        file: String,
        /// Row number, from 0.
        row: u64,
        /// Time of the row in nanoseconds.
        time: u64,
        /// Time of the previous row in nanoseconds.
        previous: u64,
    },
    /// Events were lost while recording.
    #[error(
        "{file}: the kernel lost {lost} events besides the {events} recorded{}, so it cannot be replayed exactly; \
         record again with a larger --buffer", place(.first)
    )]
    Lost {
        file: String,
        /// Number of events lost.
        lost: u64,
        /// Number of events in the file.
        events: u64,
        /// The first gap, if the trace says where it is.
        first: Option<Loss>,
    },
}

fn place(first: &Option<Loss>) -> String {
    first.map_or(String::new(), |Loss { cpu, after, before, events }| {
        let seconds = |time: u64| time as f64 / 1e9;
        format!(
            " (the first {events} on CPU {cpu}, between {:.6} s and {:.6} s)",
            seconds(after),
            seconds(before)
        )
    })
}
