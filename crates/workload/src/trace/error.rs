//! Why a trace cannot be read or written.

use std::io;

use parquet::errors::ParquetError;

use super::{FORMAT, Loss};
use crate::output::OutputError;

/// Why a trace cannot be read or written. `file` is the path as given.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened, read, written or renamed.
    #[error("{file}: {source}")]
    Io {
        /// The trace.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be written there.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Rows cannot be written.
    #[error("{file}: cannot write its table: {source}")]
    Write {
        /// The trace.
        file: String,
        /// What the Parquet writer said.
        source: ParquetError,
    },
    /// Not a Parquet file at all.
    #[error("{file} is not a Parquet file; record a trace with `mmtwin record -o build.parquet -- COMMAND`")]
    NotParquet {
        /// The file.
        file: String,
    },
    /// A Parquet file whose contents are damaged or cut short.
    #[error("{file} is cut short or damaged ({detail}); copy or record it again")]
    Corrupt {
        /// The trace.
        file: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A Parquet file of something else.
    #[error(
        "{file} is a Parquet file, but not an mmtwin trace (no `mmtwin.trace` document; its columns are \
         {columns}); record one with `mmtwin record -o build.parquet -- COMMAND`"
    )]
    Foreign {
        /// The file.
        file: String,
        /// Names of its columns, for the reader to recognise it by.
        columns: String,
    },
    /// The JSON document does not parse.
    #[error("{file}: the `mmtwin.trace` document is not what format {FORMAT} says: {source}")]
    Metadata {
        /// The trace.
        file: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Written by a newer mmtwin.
    #[error("{file} has trace format {format}, this mmtwin reads up to {supported}; update mmtwin")]
    Newer {
        /// The trace.
        file: String,
        /// Its format.
        format: u64,
        /// The newest format known here.
        supported: u32,
    },
    /// A column is missing.
    #[error("{file}: column `{column}` ({expected}) is missing")]
    MissingColumn {
        /// The trace.
        file: String,
        /// The column.
        column: &'static str,
        /// Its type.
        expected: String,
    },
    /// A column has another type.
    #[error("{file}: column `{column}` is {actual}, must be {expected}")]
    ColumnType {
        /// The trace.
        file: String,
        /// The column.
        column: &'static str,
        /// Its type by the format.
        expected: String,
        /// Its type in the file.
        actual: String,
    },
    /// A value is missing.
    #[error("{file}: row {row}: column `{column}` has no value")]
    Null {
        /// The trace.
        file: String,
        /// Row, from 0.
        row: u64,
        /// The column.
        column: &'static str,
    },
    /// An operation that the format does not have.
    #[error("{file}: row {row}: unknown operation `{value}`")]
    UnknownOperation {
        /// The trace.
        file: String,
        /// Row, from 0.
        row: u64,
        /// The name found.
        value: String,
    },
    /// Rows out of order.
    #[error("{file}: row {row}: time {time} is before the previous row's {previous}; sort the rows by time")]
    TimeBackwards {
        /// The trace.
        file: String,
        /// Row, from 0.
        row: u64,
        /// Its time, ns.
        time: u64,
        /// The time of the row before, ns.
        previous: u64,
    },
    /// Events were lost while recording.
    #[error(
        "{file}: the kernel lost {lost} events besides the {events} recorded{}, so it cannot be replayed exactly; \
         record again with a larger --buffer", place(.first)
    )]
    Lost {
        /// The trace.
        file: String,
        /// Events lost.
        lost: u64,
        /// Events in the file.
        events: u64,
        /// The first that are missing.
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
