//! A sysctl that gets its value back, whatever happens to this process.
//!
//! A small shell holds the old value and waits at a pipe. When the pipe closes, because the guard is dropped, or
//! because this process has ended in any way, it writes the value back. It ignores the signals of Ctrl-C and kill.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

const WAIT_AND_WRITE: &str = r#"trap '' INT TERM HUP; cat > /dev/null; echo "$1" > "$2""#;

/// A sysctl under guard.
pub struct SysctlGuard {
    path: PathBuf,
    before: String,
    shell: Child,
    /// Locked as long as it is open.
    _lock: File,
}

impl SysctlGuard {
    /// Remembers the value of `name` (`vm.percpu_pagelist_high_fraction`).
    pub fn take(name: &str) -> io::Result<SysctlGuard> {
        let path = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            io::Error::other("another mmtwin is using it at this moment; try again when that has ended")
        })?;
        let before = fs::read_to_string(&path)?.trim().to_string();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WAIT_AND_WRITE, "sh", &before]).arg(&path);
        let shell = shell.process_group(0).stdin(Stdio::piped()).spawn()?;
        Ok(SysctlGuard { path, before, shell, _lock: lock })
    }

    /// Sets it for the time being.
    pub fn set(&self, value: &str) -> io::Result<()> {
        fs::write(&self.path, value)
    }
}

impl Drop for SysctlGuard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        if fs::read_to_string(&self.path).is_ok_and(|now| now.trim() != self.before) {
            eprintln!("could not set {} back; write {} to it", self.path.display(), self.before);
        }
    }
}
