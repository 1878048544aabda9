//! Errors of recordings.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use workload::output::OutputError;
use workload::trace::TraceError;

use super::Summary;
use super::tracepoints::DecodeError;
use crate::tracefs::{FormatError, RingBufferError, TracefsError};

/// The command that converts a spool to its trace, as text for a shell that may run in any directory.
fn recover_command(spool: &Path, output: &Path) -> String {
    let is_file = std::fs::metadata(output).is_ok_and(|metadata| metadata.is_file());
    let force = if is_file { "--force " } else { "" };
    format!("mmtwin record {force}-o {} --recover {}", quoted(output), quoted(spool))
}

/// A path as a single word for a shell. If it has control characters, it is quoted as `$'...'`, which bash
/// and zsh understand.
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

/// Why a recording fails, or its trace is incomplete. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel does not have a required tracepoint.
    #[error(
        "this kernel ({release}) has no event {event}; mmtwin knows the events of Linux 6.1 to 6.18, those of the page \
         cache from 6.12 on (see /sys/kernel/tracing/events)"
    )]
    MissingEvent {
        /// `system:name`.
        event: String,
        /// The kernel release, as in `uname -r`.
        release: String,
    },
    /// The format of a tracepoint cannot be used.
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(
        "cannot filter {event} to `vmstat_update`: {source}; without the filter every piece of deferred work \
         would be recorded (is kernel.kptr_restrict 2, or CONFIG_KALLSYMS off?)"
    )]
    Filter {
        /// `system:name`.
        event: String,
        source: TracefsError,
    },
    /// There is not enough memory for the ring buffers.
    #[error("cannot make ring buffers of {kib} KiB per CPU: {source}; use a smaller --buffer")]
    Buffer {
        /// The requested size in KiB per CPU.
        kib: u64,
        source: TracefsError,
    },
    #[error("no command to record; give one after `--`: mmtwin record -o build.parquet -- make -j2")]
    NoCommand,
    #[error("command `{0}` not found; give its path, or add its directory to PATH")]
    CommandNotFound(String),
    #[error("cannot start `{command}`: {source}")]
    CommandStart { command: String, source: io::Error },
    /// The trace cannot be written to this path.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The spool of a killed recorder is in the way.
    #[error(
        "{} holds the events of a recorder that was killed; recover its trace with `{}`, or remove the directory",
        .spool.display(), recover_command(.spool, .output)
    )]
    LeftOver {
        spool: PathBuf,
        /// The path of its trace.
        output: PathBuf,
    },
    /// Another recorder is using the spool.
    #[error("{} is in use by another mmtwin; wait for its recording, or end it with Ctrl-C", .0.display())]
    StillRecording(PathBuf),
    /// The spool belongs to another user.
    #[error(
        "{} belongs to user {owner}, and mmtwin runs as another user; recover it as that user, or record to another file",
        .path.display()
    )]
    ForeignSpool { path: PathBuf, owner: u32 },
    /// The spool is empty.
    #[error(
        "{} holds nothing to recover and was removed: its recorder was killed before the command began, or after its trace \
         was written",
        .0.display()
    )]
    NothingRecorded(PathBuf),
    #[error("{}: {source}", .path.display())]
    Spool { path: PathBuf, source: io::Error },
    /// `recording.json` of the spool does not parse.
    #[error("{}: cannot parse the description of the recording: {source}", .path.display())]
    Manifest { path: PathBuf, source: serde_json::Error },
    /// `events/header_page` cannot be used.
    #[error(transparent)]
    Header(#[from] RingBufferError),
    /// A sub-buffer is damaged.
    #[error("{}: sub-buffer {index}: {source}", .path.display())]
    SubBuffer {
        /// The spool file.
        path: PathBuf,
        /// Number of the sub-buffer in the file, from 0.
        index: u64,
        source: RingBufferError,
    },
    /// A record cannot be decoded.
    #[error("{}: sub-buffer {index}: {source}", .path.display())]
    Record {
        /// The spool file.
        path: PathBuf,
        /// Number of the sub-buffer in the file, from 0.
        index: u64,
        source: DecodeError,
    },
    /// The recording has ended, but the trace cannot be written. Nothing is lost, because the spool is kept.
    #[error(
        "{source}\nthe events are kept in {}; when the cause is fixed, or for another disk, \
         write the trace with `{}`",
        .spool.display(), recover_command(.spool, .output)
    )]
    Convert {
        spool: PathBuf,
        /// The path of its trace.
        output: PathBuf,
        source: Box<RecordError>,
    },
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Events were lost. The trace is written, and marked as lossy.
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
