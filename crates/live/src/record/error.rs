//! Why a recording fails.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use workload::output::OutputError;
use workload::trace::TraceError;

use super::Summary;
use super::tracepoints::DecodeError;
use crate::tracefs::{FormatError, RingBufferError, TracefsError};

/// What makes the trace of a spool, for a shell, wherever it is typed.
fn recover_command(spool: &Path, output: &Path) -> String {
    let is_file = std::fs::metadata(output).is_ok_and(|metadata| metadata.is_file());
    let force = if is_file { "--force " } else { "" };
    format!("mmtwin record {force}-o {} --recover {}", quoted(output), quoted(spool))
}

/// A path as one word of a shell's. Where it has bytes that a terminal may not show as they are, it is written as bash, zsh and
/// others take it.
fn quoted(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match path.to_str() {
        Some(text) if text.chars().all(is_plain) => text.to_string(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let bytes = path.as_os_str().as_bytes().iter().map(|&byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(byte)),
                b' '..=b'~' => char::from(byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            });
            format!("$'{}'", bytes.collect::<String>())
        }
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
    /// The trace cannot be written there.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// What a killed recorder left is there.
    #[error(
        "{} holds what an earlier recording left when it was killed; make a trace of it with `{}`, or remove the directory",
        .spool.display(), recover_command(.spool, .output)
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
    /// The spool is somebody else's.
    #[error(
        "{} belongs to user {owner}, and this runs as another; recover it as that user, or record to another file",
        .path.display()
    )]
    ForeignSpool {
        /// The spool directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Nothing is in the spool.
    #[error(
        "{} holds nothing to recover and was removed: its recorder was killed before the command began, or after its trace \
         was written",
        .0.display()
    )]
    NothingRecorded(PathBuf),
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
         make the trace with `{}`",
        .spool.display(), recover_command(.spool, .output)
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
        "{} events were lost (the kernel's ring buffers were full); {} holds the other {} and is marked as lossy. \
         Record again with a larger --buffer",
        .0.lost, .0.output.display(), .0.events
    )]
    Lost(Box<Summary>),
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_path_as_it_was() {
        let names: [&[u8]; 6] =
            [b"build.parquet", b"a b", b"it's", b"-o $HOME `x` \"y\"", b"\x1b[31m'\\\n", b"\xff\xfe"];
        for name in names {
            let path = Path::new("/tmp").join(OsStr::from_bytes(name));
            let words = quoted(&path);
            assert!(!words.chars().any(char::is_control), "{words:?}");
            let script = format!("printf %s {words}");
            let Ok(printed) = std::process::Command::new("bash").args(["-c", &script]).output() else {
                eprintln!("skipped: no bash");
                return;
            };
            assert_eq!(printed.stdout, path.as_os_str().as_bytes(), "{words}");
        }
        assert_eq!(quoted(Path::new("/x/build.parquet")), "/x/build.parquet");
        assert!(quoted(Path::new("-f")).ends_with("/-f"), "no option");
    }
}
