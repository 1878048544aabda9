//! Settings that get their values back, whatever happens to this process.
//!
//! A small shell holds the old values and waits at a pipe. When the pipe closes, because the guard is dropped, or
//! because this process has ended in any way, it writes back those that differ. It ignores the signals of Ctrl-C and
//! kill.

use crate::notice::say;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

/// Arguments: value and file of each setting, by turns.
const WAIT_AND_WRITE: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
while [ $# -gt 1 ]; do
    [ "$(cat "$2")" = "$1" ] || echo "$1" > "$2"
    shift 2
done"#;

/// Settings under guard.
pub struct SettingsGuard {
    /// File and old value.
    settings: Vec<(PathBuf, String)>,
    shell: Child,
    /// Locked as long as it is open.
    _lock: File,
}

/// The file of sysctl `name` (`vm.percpu_pagelist_high_fraction`).
pub fn sysctl(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// What a setting is; of a file that lists all words that it takes, the one in brackets.
fn value(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text.trim(), |(word, _)| word).to_string())
}

impl SettingsGuard {
    /// Remembers the values of `first` and `others`, which are written back in this order. One guard at a time can
    /// have the same `first`.
    pub fn take(first: PathBuf, others: Vec<PathBuf>) -> io::Result<SettingsGuard> {
        let lock = File::open(&first)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let busy = "another mmtwin is using it at this moment; try again when that has ended";
            io::Error::new(io::ErrorKind::ResourceBusy, busy)
        })?;
        let mut settings = Vec::new();
        for path in std::iter::once(first).chain(others) {
            let before = value(&path)?;
            settings.push((path, before));
        }
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WAIT_AND_WRITE, "sh"]);
        for (path, before) in &settings {
            shell.arg(before).arg(path);
        }
        let shell = shell.process_group(0).stdin(Stdio::piped()).spawn()?;
        Ok(SettingsGuard { settings, shell, _lock: lock })
    }

    /// Sets one of them for the time being.
    pub fn set(&self, path: &Path, value: &str) -> io::Result<()> {
        match self.settings.iter().any(|(guarded, _)| guarded == path) {
            true => fs::write(path, value),
            false => Err(io::Error::other("it is not under guard")),
        }
    }
}

impl Drop for SettingsGuard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        for (path, before) in &self.settings {
            if value(path).is_ok_and(|now| now != *before) {
                say(format_args!("could not set {} back; write {before} to it", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second one"));
        fs::write(&first, "1\n").unwrap();
        fs::write(&second, "a b\n").unwrap();
        (directory, first, second)
    }

    #[test]
    fn settings_get_their_values_back() {
        let (directory, first, second) = files();
        let guard = SettingsGuard::take(first.clone(), vec![second.clone()]).unwrap();
        guard.set(&second, "c").unwrap();
        fs::write(&first, "2").unwrap();
        assert!(guard.set(&directory.path().join("other"), "1").is_err());
        let busy = SettingsGuard::take(first.clone(), Vec::new()).err().unwrap().to_string();
        assert!(busy.starts_with("another mmtwin"), "{busy}");
        drop(guard);
        assert_eq!((value(&first).unwrap().as_str(), value(&second).unwrap().as_str()), ("1", "a b"));
    }

    #[test]
    fn a_word_in_brackets_is_chosen() {
        let (_directory, first, second) = files();
        fs::write(&second, "always [madvise] never\n").unwrap();
        assert_eq!((value(&second).unwrap().as_str(), value(&first).unwrap().as_str()), ("madvise", "1"));
    }

    #[test]
    fn a_panic_is_no_obstacle() {
        let (_directory, first, second) = files();
        let path = second.clone();
        let thread = std::thread::spawn(move || {
            let guard = SettingsGuard::take(first, vec![path.clone()]).unwrap();
            guard.set(&path, "c").unwrap();
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(value(&second).unwrap(), "a b");
    }
}
