//! Errors of reading a trace of accesses.

use std::io;

/// Why a trace of accesses cannot be read. `file` is the path as given.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file cannot be opened or read.
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
    /// The trace has no bytes.
    #[error("{file} is empty; record or copy it again")]
    Empty { file: String },
    /// The trace is compressed with something other than zstd.
    #[error(
        "{file} is compressed with {packing}, which is not supported; decompress it (`{unpack}`) or use zstd"
    )]
    Packed {
        file: String,
        /// Name of the compression.
        packing: &'static str,
        /// The command that decompresses it.
        unpack: &'static str,
    },
    /// zstd cannot decompress the rest of the trace.
    #[error("{file} is cut short or damaged: zstd cannot decompress it ({source}); copy it again")]
    Unpack {
        file: String,
        /// The error of zstd.
        source: io::Error,
    },
    /// The file counts accesses by region of memory and has lost their order.
    #[error(
        "{file} is {what}, which cannot be replayed: it samples accesses or counts them by region, and a replay needs each access; \
         record with `mmtwin record --page-cache` or valgrind's lackey"
    )]
    Regions {
        file: String,
        /// Kind of recording.
        what: &'static str,
    },
    /// No known format fits the contents.
    #[error("{file} {found}; name its format, one of {}", super::Format::NAMES)]
    Unrecognised {
        file: String,
        /// What the contents look like.
        found: String,
    },
    /// A binary record does not follow the format.
    #[error("{file}: at byte {offset}: {problem}")]
    Record {
        file: String,
        /// Start of the record, in bytes of the decompressed trace.
        offset: u64,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A Parquet file, its document or one of its rows does not follow the format.
    #[error("{file}: {problem}")]
    Table {
        file: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// A line does not follow the format.
    #[error("{file}: line {line}: {problem}")]
    Line {
        file: String,
        /// Line number, from 1.
        line: u64,
        /// What is wrong and what would be right.
        problem: String,
    },
}

/// A name that is not a [`Format`](super::Format).
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a format of access traces; it must be one of {}", super::Format::NAMES)]
pub struct UnknownFormat {
    pub name: String,
}
