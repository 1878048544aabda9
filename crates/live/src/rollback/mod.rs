//! Undoes what this process changes on the machine, even if it is killed.
//!
//! ```text
//!   mmtwin                                     /run/mmtwin/note-x                a shell (put_back.sh)
//!   begins a note, starts the shell            process 4711 ...          ◄─────  locks it too, reports that it is ready
//!   will change min_free_kbytes                setting ... 67584                 waits on a socket
//!   changes it
//!   exits, or is killed ── the socket closes ─────────────────────────────────►  undoes the note, removes it
//!
//!   both are killed                            the note remains                  the next mmtwin undoes it, and says so
//! ```
//!
//! Settings are restored; tracing instances, cgroups, files and directories are removed; mounts are unmounted. Each change
//! is written to the note on disk before it is made (`note.rs`). Nothing is changed before the shell is ready: from then
//! on it ignores the signals that a terminal and `kill` send. A shell is used because a multithreaded process can only
//! exec after fork, and because this crate may be a library in any program.
//!
//! A setting can be used by one process at a time. Processes that begin a note or undo notes take turns.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

use crate::notice::say;
use crate::places::{self, PlaceError};
use crate::snapshot::chosen;
use note::{Note, Step};

mod note;

const PUT_BACK: &str = include_str!("put_back.sh");
const READY: &[u8] = b"ready\n";

/// Why changes cannot be guarded.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// There is no directory for notes.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Another process has changed the setting.
    #[error("{}: another mmtwin process is using it; try again when it has finished", .0.display())]
    Busy(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Undoes the changes that it was told of when it is dropped, or when this process exits.
#[derive(Debug)]
pub struct Guard {
    /// `None` in an emulated machine, where nothing outlives this process.
    kept: Option<Kept>,
    /// Locks on the files of settings, held as long as these are open.
    locks: RefCell<Vec<File>>,
}

struct Kept {
    note: Note,
    shell: Child,
    /// The socket to the shell; closing it makes the shell undo everything.
    line: Option<UnixStream>,
}

/// A setting whose value is restored.
#[derive(Debug)]
pub struct Setting(PathBuf);

/// A directory that is removed with its contents when dropped.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

/// The file of a sysctl such as `vm.percpu_pagelist_high_fraction`.
pub fn sysctl(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// Undoes the changes of processes that were killed together with their shells, and says so on stderr. Every
/// command that changes settings or records calls this first.
pub fn put_back_left() -> Result<(), GuardError> {
    match places::runtime() {
        Ok(directory) if directory.is_dir() => Directory::open(&directory)?.put_back_left(),
        // Without a directory for notes there are no notes.
        _ => Ok(()),
    }
}

impl Guard {
    /// Begins a note and starts its shell.
    pub fn take() -> Result<Guard, GuardError> {
        let directory = Directory::open(&places::runtime()?)?;
        directory.put_back_left()?;
        Guard::begin(directory)
    }

    /// A guard for an emulated machine, whose state ends with this process.
    pub fn of_guest() -> Guard {
        Guard { kept: None, locks: RefCell::default() }
    }

    fn begin(directory: Directory) -> Result<Guard, GuardError> {
        let error = failed(&directory.path);
        let note = Note::begin(&directory.path).map_err(error)?;
        let (line, end) = UnixStream::pair().map_err(failed("a socket"))?;
        let shell = shell(note.path(), "when-told")
            .stdin(OwnedFd::from(end))
            .stdout(note.share().map_err(failed(note.path()))?)
            .spawn()
            .map_err(failed("/bin/sh"))?;
        let mut kept = Kept { note, shell, line: Some(line) };
        let mut said = [0; READY.len()];
        let heard = kept.line.as_mut().map_or(Ok(()), |line| line.read_exact(&mut said));
        heard.map_err(failed("/bin/sh"))?;
        Ok(Guard { kept: Some(kept), locks: RefCell::default() })
    }

    /// Notes the current value of the setting in `path`, and locks the setting for this process. Settings are
    /// restored in reverse order.
    pub fn setting(&self, path: impl Into<PathBuf>) -> Result<Setting, GuardError> {
        let path = path.into();
        let lock = File::open(&path).map_err(failed(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| GuardError::Busy(path.clone()))?;
        self.locks.borrow_mut().push(lock);
        let before = value(&path).map_err(failed(&path))?;
        self.note(&Step::Setting(&path, &before)).map_err(failed(&path))?;
        Ok(Setting(path))
    }

    /// Notes that a file system will be mounted at `path`.
    pub fn mount(&self, path: &Path) -> Result<(), GuardError> {
        self.note(&Step::Mount(path)).map_err(failed(path))
    }

    /// Creates a directory with a unique name below `place`, in a kernel file system: a tracing instance or a
    /// cgroup.
    pub fn kernel_directory(&self, place: &Path) -> io::Result<PathBuf> {
        let made = with_new_name(place, |path| {
            self.note(&Step::KernelDirectory(path))?;
            fs::create_dir(path)
        })?;
        kept(made)
    }

    /// Creates a file with a unique name in `place`; dropping it removes it.
    pub fn file(&self, place: &Path) -> io::Result<NamedTempFile> {
        with_new_name(place, |path| {
            self.note(&Step::File(path))?;
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
        })
    }

    /// Creates a directory with a unique name in `place`.
    pub fn directory(&self, place: &Path) -> io::Result<TemporaryDirectory> {
        let made = with_new_name(place, |path| {
            self.note(&Step::File(path))?;
            fs::DirBuilder::new().mode(0o700).create(path)
        })?;
        kept(made).map(TemporaryDirectory)
    }

    fn note(&self, step: &Step) -> io::Result<()> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.note.add(step))
    }
}

/// Calls `make` for names `mmtwin-PID-X` in `place`, with a random X, until one is free.
fn with_new_name<T>(place: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<NamedTempFile<T>> {
    let prefix = format!("mmtwin-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).rand_bytes(12).make_in(std::path::absolute(place)?, make)
}

/// The path of a new directory; disables the removal, which works for files only.
fn kept(made: NamedTempFile<()>) -> io::Result<PathBuf> {
    made.keep().map(|(_, path)| path).map_err(|error| error.error)
}

impl Setting {
    /// Changes the setting until it is restored.
    pub fn set(&self, value: &str) -> io::Result<()> {
        fs::write(&self.0, value)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The current value of a setting; for a file that lists all values, such as `always [madvise] never`, the
/// one in brackets.
fn value(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    Ok(chosen(text.trim()).to_string())
}

impl TemporaryDirectory {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // If this fails, the guard tries again at the end, and reports an error.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.line = None;
        let status = self.shell.wait();
        // If the shell was killed by a signal, undo the changes here. If it failed, it has printed the error.
        if !status.is_ok_and(|status| status.code().is_some()) {
            let _ = shell(self.note.path(), "now").stdin(Stdio::null()).status();
        }
    }
}

/// A shell that undoes the note at `path`; `when` is `when-told` or `now`.
fn shell(path: &Path, when: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", PUT_BACK, "mmtwin"]).arg(path).arg(when).current_dir("/").process_group(0);
    shell
}

/// The directory of notes, locked against other processes that begin a note or look for old ones.
struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    fn open(path: &Path) -> Result<Directory, GuardError> {
        let path = places::own(path, "remove it")?;
        let lock = File::open(&path).map_err(failed(&path))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(&path)(error.into()))?;
        Ok(Directory { path, _lock: lock })
    }

    fn put_back_left(&self) -> Result<(), GuardError> {
        let entries = fs::read_dir(&self.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let notes = entries.map_err(failed(&self.path))?.into_iter().filter(is_file);
        let mut paths: Vec<PathBuf> = notes.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let left = match Note::left_at(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                left => left.map_err(failed(&path))?,
            };
            let Some((note, process)) = left else { continue };
            if let Some(process) = process {
                say(format_args!("process {} of mmtwin was killed; undoing its changes", process.pid));
            }
            let status =
                shell(note.path(), "now").stdin(Stdio::null()).status().map_err(failed("/bin/sh"))?;
            if !status.success() {
                let note = note.path().display();
                say(format_args!("mmtwin will try again at its next start; remove {note} to prevent that"));
            }
        }
        Ok(())
    }
}

fn failed(path: impl AsRef<Path>) -> impl Fn(io::Error) -> GuardError {
    move |source| GuardError::Io { path: path.as_ref().to_path_buf(), source }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.note.path().display())
    }
}

#[cfg(test)]
mod tests;
