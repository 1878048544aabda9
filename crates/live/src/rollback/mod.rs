//! What this process changes on the machine, put back whatever happens to it.
//!
//! ```text
//!   mmtwin                                     /run/mmtwin/note-x                a shell (put_back.sh)
//!   begins a note, starts the shell            process 4711 ...          ◄─────  holds it locked too, says that it is ready
//!   min_free_kbytes is going to change         setting ... 67584                 waits at a socket
//!   changes it
//!   ends, or is killed  ── the socket closes ─────────────────────────────────►  undoes the note, removes it
//!
//!   both are killed                            the note stays                    the next mmtwin undoes it first, and says so
//! ```
//!
//! Settings get their values back; tracing instances, cgroups, files and directories are removed; what was mounted is unmounted.
//! Each is on the disk before it is done (`note.rs`). Nothing is changed before the shell is ready, so that no signal can meet it
//! while it would still end it: then it ignores those that a terminal and `kill` send. It is a shell as a process that has threads can
//! only start programs, and as this may be a library in any program.
//!
//! One process at a time can have a setting. Those that begin or put back at the same time take turns.

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
use note::{Note, Step};

mod note;

const PUT_BACK: &str = include_str!("put_back.sh");
const READY: &[u8] = b"ready\n";

/// Why nothing can be changed.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// There is no place for notes.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Another process has the setting.
    #[error("{}: another mmtwin is using it at this moment; try again when that has ended", .0.display())]
    Busy(PathBuf),
    /// A file cannot be read, written or made.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Puts back what it was told of when it is dropped, or when this process ends.
#[derive(Debug)]
pub struct Guard {
    /// Nothing where nothing outlives this process.
    kept: Option<Kept>,
    /// Locked as long as they are open.
    locks: RefCell<Vec<File>>,
}

struct Kept {
    note: Note,
    shell: Child,
    /// Closed to have it all put back.
    line: Option<UnixStream>,
}

/// A setting that gets its value back.
#[derive(Debug)]
pub struct Setting(PathBuf);

/// A directory that is removed when dropped, with all that is in it.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

/// The file of sysctl `name` (`vm.percpu_pagelist_high_fraction`).
pub fn sysctl(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// Puts back what processes left that were killed together with their shells, and says so on stderr. Every command that changes or
/// records begins with this.
pub fn put_back_left() -> Result<(), GuardError> {
    match places::runtime() {
        Ok(directory) if directory.is_dir() => Directory::open(&directory)?.put_back_left(),
        // Where there is no place for notes there are none.
        _ => Ok(()),
    }
}

impl Guard {
    /// Begins, with nothing to be put back yet.
    pub fn take() -> Result<Guard, GuardError> {
        let directory = Directory::open(&places::runtime()?)?;
        directory.put_back_left()?;
        Guard::begin(directory)
    }

    /// For an emulated machine, which ends with this process.
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

    /// Remembers the value of the setting in `path`, which nobody else can have until this ends. Settings get their values back in the
    /// reverse order.
    pub fn setting(&self, path: impl Into<PathBuf>) -> Result<Setting, GuardError> {
        let path = path.into();
        let lock = File::open(&path).map_err(failed(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| GuardError::Busy(path.clone()))?;
        self.locks.borrow_mut().push(lock);
        let before = value(&path).map_err(failed(&path))?;
        self.note(&Step::Setting(&path, &before)).map_err(failed(&path))?;
        Ok(Setting(path))
    }

    /// A file system is about to be mounted at `path`.
    pub fn mount(&self, path: &Path) -> Result<(), GuardError> {
        self.note(&Step::Mount(path)).map_err(failed(path))
    }

    /// Makes a directory in a file system of the kernel's, a tracing instance or a cgroup, with a new name in `place`.
    pub fn kernel_directory(&self, place: &Path) -> io::Result<PathBuf> {
        let made = with_new_name(place, |path| {
            self.note(&Step::KernelDirectory(path))?;
            fs::create_dir(path)
        })?;
        kept(made)
    }

    /// Makes a file with a new name in `place`. Dropping it removes it.
    pub fn file(&self, place: &Path) -> io::Result<NamedTempFile> {
        with_new_name(place, |path| {
            self.note(&Step::File(path))?;
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
        })
    }

    /// Makes a directory with a new name in `place`.
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

/// Has `make` make something at `mmtwin-PID-X` in `place`, of which nobody has the name by chance.
fn with_new_name<T>(place: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<NamedTempFile<T>> {
    let prefix = format!("mmtwin-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).rand_bytes(12).make_in(std::path::absolute(place)?, make)
}

/// Where a directory was made, which is not removed as files are.
fn kept(made: NamedTempFile<()>) -> io::Result<PathBuf> {
    made.keep().map(|(_, path)| path).map_err(|error| error.error)
}

impl Setting {
    /// Sets it for the time being.
    pub fn set(&self, value: &str) -> io::Result<()> {
        fs::write(&self.0, value)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// What a setting is; of a file that lists all words that it takes, the one in brackets.
fn value(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text.trim(), |(word, _)| word).to_string())
}

impl TemporaryDirectory {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What cannot be removed now the guard tries again, and says so.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.line = None;
        let status = self.shell.wait();
        // Somebody killed it. Where it could not put all back it has said so.
        if !status.is_ok_and(|status| status.code().is_some()) {
            let _ = shell(self.note.path(), "now").stdin(Stdio::null()).status();
        }
    }
}

/// The shell that undoes the note at `path`.
fn shell(path: &Path, when: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", PUT_BACK, "mmtwin"]).arg(path).arg(when).current_dir("/").process_group(0);
    shell
}

/// Where notes are, while nobody else begins one or looks for those that are left.
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
                say(format_args!(
                    "process {} of mmtwin was killed; putting back what it had changed",
                    process.pid
                ));
            }
            let status =
                shell(note.path(), "now").stdin(Stdio::null()).status().map_err(failed("/bin/sh"))?;
            if !status.success() {
                let note = note.path().display();
                say(format_args!("it will be tried again the next time; remove {note} if it shall not be"));
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
