//! Why a trace of accesses cannot be read.

use std::io;

/// Why a trace of accesses cannot be read. `file` is the path as given.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file cannot be opened or read.
    #[error("{file}: {source}")]
    Io {
        /// The trace.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in it.
    #[error("{file} is empty; record or copy it again")]
    Empty {
        /// The trace.
        file: String,
    },
    /// Compressed by something other than zstd.
    #[error(
        "{file} is packed with {packing}, which is not read; unpack it (`{unpack}`) or pack it with zstd"
    )]
    Packed {
        /// The trace.
        file: String,
        /// The compression.
        packing: &'static str,
        /// The command that unpacks it.
        unpack: &'static str,
    },
    /// zstd cannot go on.
    #[error("{file} is cut short or damaged: zstd cannot unpack it ({source}); copy it again")]
    Unpack {
        /// The trace.
        file: String,
        /// What zstd said.
        source: io::Error,
    },
    /// It says where memory was accessed, but not in what order.
    #[error(
        "{file} is {what}, which is not read: it samples accesses or counts them by region, and a replay needs each one; \
         record with `mmtwin record --page-cache` or valgrind's lackey"
    )]
    Regions {
        /// The file.
        file: String,
        /// What it is.
        what: &'static str,
    },
    /// No format fits.
    #[error("{file} {found}; name its format, one of {}", super::Format::NAMES)]
    Unrecognised {
        /// The trace.
        file: String,
        /// What it looks like.
        found: String,
    },
    /// A binary record is not what the format says.
    #[error("{file}: at byte {offset}: {problem}")]
    Record {
        /// The trace.
        file: String,
        /// Where the record starts, in bytes of the unpacked trace.
        offset: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A Parquet file, its document or a row of it is not what the format says.
    #[error("{file}: {problem}")]
    Table {
        /// The trace.
        file: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// A line is not what the format says.
    #[error("{file}: line {line}: {problem}")]
    Line {
        /// The trace.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// A name that is no [`Format`](super::Format).
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no format of access traces; it must be one of {}", super::Format::NAMES)]
pub struct UnknownFormat {
    /// The name as given.
    pub name: String,
}
