//! Why a recording fails.

use std::io;
use std::path::PathBuf;

use workload::trace::{Ending, TraceError};

use super::Summary;
use super::tracepoints::DecodeError;
use crate::tracefs::{FormatError, RingBufferError, TracefsError};

/// Why events were lost, and what helps.
fn cause_and_remedy(summary: &Summary) -> (&'static str, &'static str) {
    match summary.ended {
        Ending::DiskFull => ("the disk was full", "more room on the disk"),
        _ => ("the kernel's ring buffers were full", "a larger --buffer"),
    }
}

/// Why a recording fails, or is not what was asked for. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// tracefs cannot be used.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel has no such tracepoint.
    #[error(
        "this kernel ({release}) has no event {event}; mmtwin knows the events of Linux 6.1 to 6.18, those of the page \
         cache from 6.12 on (see /sys/kernel/tracing/events)"
    )]
    MissingEvent {
        /// `system:name`.
        event: String,
        /// `uname -r`.
        release: String,
    },
    /// A tracepoint is not understood.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The workqueue tracepoints cannot be filtered.
    #[error(
        "cannot filter {event} to `vmstat_update`: {source}; without the filter every piece of deferred work \
         would be recorded (is kernel.kptr_restrict 2, or CONFIG_KALLSYMS off?)"
    )]
    Filter {
        /// `system:name`.
        event: String,
        /// What the kernel said.
        source: TracefsError,
    },
    /// No memory for the ring buffers.
    #[error("cannot make ring buffers of {kib} KiB a CPU: {source}; use a smaller --buffer")]
    Buffer {
        /// The size asked for, KiB per CPU.
        kib: u64,
        /// What the kernel said.
        source: TracefsError,
    },
    /// There is nothing to run.
    #[error("no command to record; give one after `--`: mmtwin record -o build.parquet -- make -j2")]
    NoCommand,
    /// The command does not exist.
    #[error("command `{0}` not found; give its path, or add its directory to PATH")]
    CommandNotFound(String),
    /// The command cannot be started.
    #[error("cannot start `{command}`: {source}")]
    CommandStart {
        /// The command.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The trace is there already.
    #[error("{} exists; choose another name, or replace it with --force", .0.display())]
    OutputExists(PathBuf),
    /// The trace's directory is not there.
    #[error("{}: no directory {}; make it, or write the trace elsewhere", .output.display(), .directory.display())]
    NoDirectory {
        /// The trace.
        output: PathBuf,
        /// The directory that it was to be in.
        directory: PathBuf,
    },
    /// What a killed recorder left is there.
    #[error(
        "{} holds what an earlier recording left when it was killed; \
         make a trace of it with `mmtwin record --recover {}`, or remove the directory",
        .spool.display(), .output.display()
    )]
    LeftOver {
        /// The spool directory.
        spool: PathBuf,
        /// The trace it was to become.
        output: PathBuf,
    },
    /// The recording is still going on.
    #[error("{} is in use by another mmtwin; wait for its recording, or end it with Ctrl-C", .0.display())]
    StillRecording(PathBuf),
    /// The spool cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Spool {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The spool's description does not parse.
    #[error("{}: not the description of a recording: {source}", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The ring buffer's header is not understood.
    #[error(transparent)]
    Header(#[from] RingBufferError),
    /// A sub-buffer is not understood.
    #[error("{}: sub-buffer {index}: {source}", .path.display())]
    SubBuffer {
        /// The file of the spool.
        path: PathBuf,
        /// Which sub-buffer of it, from 0.
        index: u64,
        /// What is wrong.
        source: RingBufferError,
    },
    /// A record is not understood.
    #[error("{}: sub-buffer {index}: {source}", .path.display())]
    Record {
        /// The file of the spool.
        path: PathBuf,
        /// Which sub-buffer of it, from 0.
        index: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// Recorded, but the trace cannot be written. Nothing is lost: the spool stays.
    #[error(
        "{source}\nwhat was recorded is kept in {}; when the cause is gone, or onto another disk, \
         make the trace with `mmtwin record --recover {}`",
        .spool.display(), .output.display()
    )]
    Convert {
        /// The spool directory.
        spool: PathBuf,
        /// The trace it was to become.
        output: PathBuf,
        /// What went wrong.
        source: Box<RecordError>,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Events were lost. The trace is written and marked.
    #[error(
        "{} events were lost ({}); {} holds the other {} and is marked as lossy. Record again with {}",
        .0.lost, cause_and_remedy(.0).0, .0.output.display(), .0.events, cause_and_remedy(.0).1
    )]
    Lost(Box<Summary>),
}
