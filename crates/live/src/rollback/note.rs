//! A note on disk of all changes that have to be undone, and of the process that made them.
//!
//! ```text
//!   process           4711   81632   0c6d...                   pid, start time and boot id of the process
//!   setting           /proc/sys/vm/min_free_kbytes   67584     restore this value
//!   mount             /sys/kernel/tracing                      unmount
//!   kernel-directory  /sys/kernel/tracing/instances/mmtwin-x   remove this tracing instance or cgroup
//!   file              /var/tmp/mmtwin-y                        remove this file or directory tree
//! ```
//!
//! A line is on disk before the change is made. Lines are undone in reverse order: a mount is used only after
//! its line, and settings that the kernel changes as a side effect of another one are noted before that one.
//!
//! The process that wrote a note holds a lock on it, and so does its shell. A note without a lock belongs to
//! nobody; one that is locked although its process has exited is just being undone by the shell. A zombie
//! counts as exited, and a process with the same PID but another start time is a different process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A change that has to be undone.
pub(super) enum Step<'a> {
    /// Write this value back to the file.
    Setting(&'a Path, &'a str),
    /// Unmount the file system.
    Mount(&'a Path),
    /// Remove the tracing instance or cgroup.
    KernelDirectory(&'a Path),
    /// Remove the file, or the directory with its contents.
    File(&'a Path),
}

/// A locked note, of this process or of one that has exited.
pub(super) struct Note {
    path: PathBuf,
    file: File,
}

/// A process identity that is not confused by PID reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub pid: u32,
    /// Start time in clock ticks since boot.
    start: u64,
}

impl Note {
    /// Creates a locked note of this process in `directory`, which the caller has locked.
    pub fn begin(directory: &Path) -> io::Result<Note> {
        let named = tempfile::Builder::new().prefix("note-").tempfile_in(directory)?;
        let (file, path) = named.keep().map_err(|error| error.error)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let note = Note { path, file };
        let own =
            Process::of(std::process::id()).ok_or_else(|| io::Error::other("/proc does not show it"))?;
        let boot = fs::read_to_string(BOOT_ID)?;
        note.write(&format!("process\t{}\t{}\t{}\n", own.pid, own.start, boot.trim()))?;
        File::open(directory)?.sync_all()?;
        Ok(note)
    }

    /// The note at `path`, locked, if the process that wrote it has exited and no shell is undoing it.
    pub fn left_at(path: &Path) -> io::Result<Option<(Note, Option<Process>)>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new().read(true).append(true).custom_flags(flags.bits() as i32).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != geteuid().as_raw() {
            return Ok(None);
        }
        let mut text = String::new();
        (&file).read_to_string(&mut text)?;
        // `None` if the process was killed while it wrote the first line.
        let process = text.split_once('\n').and_then(|(first, _)| Process::parse(first));
        if process.is_some_and(Process::is_alive) {
            return Ok(None);
        }
        flock(&file, FlockOperation::LockExclusive)?;
        // The note was undone between opening and locking it.
        if file.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        Ok(Some((Note { path: path.to_path_buf(), file }, process)))
    }

    /// Appends a change that is about to be made.
    pub fn add(&self, step: &Step) -> io::Result<()> {
        let (kind, path, value) = match *step {
            Step::Setting(path, value) => ("setting", path, Some(value)),
            Step::Mount(path) => ("mount", path, None),
            Step::KernelDirectory(path) => ("kernel-directory", path, None),
            Step::File(path) => ("file", path, None),
        };
        let path = path.to_str().filter(|path| path.starts_with('/') && !path.contains(['\t', '\n']));
        let path =
            path.ok_or_else(|| io::Error::other("its path is not absolute, or has a tab or a line break"))?;
        if value.is_some_and(|value| value.contains('\n')) {
            return Err(io::Error::other("its value has more than one line"));
        }
        let value = value.map_or(String::new(), |value| format!("\t{value}"));
        self.write(&format!("{kind}\t{path}{value}\n"))
    }

    fn write(&self, line: &str) -> io::Result<()> {
        (&self.file).write_all(line.as_bytes())?;
        self.file.sync_all()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A duplicate of the open note, for the shell to share the lock.
    pub fn share(&self) -> io::Result<File> {
        Ok(self.file.as_fd().try_clone_to_owned()?.into())
    }
}

impl Process {
    /// The process with this PID, unless it has exited.
    pub fn of(pid: u32) -> Option<Process> {
        Process::parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses /proc/PID/stat; `None` for a zombie. The name in parentheses may contain any character.
    fn parse_stat(pid: u32, stat: &str) -> Option<Process> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_gone = matches!(*fields.first()?, "Z" | "X" | "x");
        let start = fields.get(19)?.parse().ok()?;
        (!is_gone).then_some(Process { pid, start })
    }

    fn parse(line: &str) -> Option<Process> {
        let mut words = line.split('\t').skip(1);
        Some(Process { pid: words.next()?.parse().ok()?, start: words.next()?.parse().ok()? })
    }

    fn is_alive(self) -> bool {
        Process::of(self.pid) == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_and_a_reused_number_are_gone() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert!(!Process { start: own.start + 1, ..own }.is_alive());
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_alive());
        drop(child.stdin.take());
        // An exited process is a zombie until its parent waits for it.
        while process.is_alive() {
            std::thread::yield_now();
        }
        assert!(Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
    }

    #[test]
    fn names_of_processes_can_hold_anything() {
        let rest = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 81632 0 0";
        assert_eq!(
            Process::parse_stat(7, &format!("7 (a) b) {rest}")),
            Some(Process { pid: 7, start: 81632 })
        );
        assert_eq!(Process::parse_stat(7, &format!("7 (a) {}", rest.replace('S', "Z"))), None);
        assert_eq!(Process::parse_stat(7, "7 (a"), None);
    }

    #[test]
    fn what_a_line_cannot_hold_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let note = Note::begin(directory.path()).unwrap();
        for (path, value) in [("relative", "1"), ("/a\tb", "1"), ("/a\nb", "1"), ("/a", "1\n2")] {
            assert!(note.add(&Step::Setting(Path::new(path), value)).is_err(), "{path:?} {value:?}");
        }
        note.add(&Step::Setting(Path::new("/a b"), "1\t2")).unwrap();
        let text = fs::read_to_string(note.path()).unwrap();
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["setting\t/a b\t1\t2"]);
    }
}
