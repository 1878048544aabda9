//! The recorded command: started but held, released, waited for, terminated.
//!
//! The command must not run before tracing is on, and tracing should not be on long before the command runs.
//! So it starts as a shell that waits for a line in a pipe and then becomes the command by exec with the same
//! PID. It inherits the recorder's standard streams, environment and working directory.
//!
//! ```text
//!   mmtwin   start ────────── ready? ──── tracing on ──── release
//!              │                 ▲                           │
//!   shell      └─ sh starts ─────┴─ reads ·················· ▼ exec of the command
//! ```
//!
//! Only mmtwin has the other end of that pipe, so a shell whose mmtwin is killed, however early, reads its end
//! and exits. The shell opens the pipes by their paths in `/proc`, so the command inherits no descriptor.
//!
//! The command gets its own process group, so that all its processes can be terminated, unless standard input
//! is a terminal: then it has to stay in the terminal's foreground group, where Ctrl-C reaches all of it.

use std::io;
use std::io::{IsTerminal, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::RecordError;

/// How long a command may take to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Tells `$1` that it is ready, waits for a line from `$2`, and becomes the command.
const HOLD: &str = r#"echo > "$1" && read -r MMTWIN_HOLD < "$2" && shift 2 && exec "$@""#;

/// A started command. Dropping it terminates it.
pub struct Command {
    child: Child,
    pid: Pid,
    ended: OwnedFd,
    /// Both ends of the pipe that the shell reads.
    hold: (PipeReader, PipeWriter),
    own_group: bool,
    status: Option<ExitStatus>,
}

impl Command {
    /// Starts `command`, held before its first instruction. If the trace goes to stdout, the command's stdout
    /// is redirected to stderr.
    pub fn start(command: &[String], is_output_taken: bool) -> Result<Command, RecordError> {
        let name = command.first().ok_or(RecordError::NoCommand)?;
        let path = find(name).ok_or_else(|| RecordError::CommandNotFound(name.clone()))?;
        let error = |source: io::Error| RecordError::CommandStart { command: name.clone(), source };
        let own_group = !io::stdin().is_terminal();
        let (ready, hold) = (io::pipe().map_err(error)?, io::pipe().map_err(error)?);
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", HOLD, "sh", &path_of(&ready.1), &path_of(&hold.0)]).arg(path).args(&command[1..]);
        if own_group {
            shell.process_group(0);
        }
        if is_output_taken {
            shell.stdout(io::stderr());
        }
        let mut child = shell.spawn().map_err(error)?;
        let pid = Pid::from_child(&child);
        let ended = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => ended,
            Err(source) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error(source.into()));
            }
        };
        let command = Command { child, pid, ended, hold, own_group, status: None };
        let mut either = [PollFd::new(&ready.0, PollFlags::IN), PollFd::new(&command.ended, PollFlags::IN)];
        while let Err(source) = poll(&mut either, None) {
            if source != Errno::INTR {
                return Err(error(source.into()));
            }
        }
        match either[0].revents().is_empty() {
            false => Ok(command),
            true => Err(error(io::Error::other("/bin/sh exited too early"))),
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Lets the command run.
    pub fn release(&self) -> io::Result<()> {
        (&self.hold.1).write_all(b"\n")
    }

    /// Waits until the command exits, `timeout` passes, or a signal arrives.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let timeout =
                Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Terminates the command with SIGTERM, or with SIGKILL if it does not exit.
    pub fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        self.signal(Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if let Some(status) = self.wait(Duration::from_millis(100))? {
                return Ok(Some(status));
            }
        }
        self.signal(Signal::KILL);
        self.status = Some(self.child.wait()?);
        Ok(self.status)
    }

    /// The command may just have exited, so that no process gets the signal; that is fine.
    fn signal(&self, signal: Signal) {
        let _ = match self.own_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if self.status.is_none() && !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The path by which other processes can open an end of a pipe.
fn path_of(end: &impl AsRawFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd())
}

/// The executable that `name` refers to.
fn find(name: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories).map(|directory| directory.join(Path::new(name))).find(runs)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn start(command: &[&str]) -> Result<Command, RecordError> {
        Command::start(&command.iter().map(|word| word.to_string()).collect::<Vec<_>>(), false)
    }

    #[test]
    fn a_command_is_held_until_released() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a b");
        let mut command =
            start(&["sh", "-c", "echo $$ > \"$1\"; exit 7", "sh", file.to_str().unwrap()]).unwrap();
        assert_eq!(command.wait(Duration::from_millis(100)).unwrap(), None);
        assert!(!file.exists());
        command.release().unwrap();
        let status = loop {
            if let Some(status) = command.wait(Duration::from_secs(1)).unwrap() {
                break status;
            }
        };
        assert_eq!(status.code(), Some(7));
        assert_eq!(std::fs::read_to_string(file).unwrap().trim(), command.pid().to_string());
    }

    #[test]
    fn a_command_can_be_ended_with_its_children() {
        let mut command = start(&["sh", "-c", "sleep 1000; true"]).unwrap();
        command.release().unwrap();
        let _ = std::process::Command::new("true").stdin(Stdio::null()).status();
        assert_eq!(command.end().unwrap().unwrap().code(), None);
        drop(start(&["sleep", "1000"]).unwrap());
    }

    #[test]
    fn nothing_stays_of_who_was_held_by_an_mmtwin_that_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ran");
        let mut command = start(&["touch", file.to_str().unwrap()]).unwrap();
        // As its exit closes them.
        command.hold = io::pipe().unwrap();
        let status =
            std::iter::repeat_with(|| command.wait(Duration::from_secs(1)).unwrap()).flatten().next();
        assert!(!status.unwrap().success());
        assert!(!file.exists());
    }

    #[test]
    fn missing_commands_are_named() {
        let message = |command: &[&str]| start(command).map(|_| ()).unwrap_err().to_string();
        assert!(message(&["no-such-command"]).starts_with("command `no-such-command` not found"));
        assert!(message(&["/etc/passwd"]).starts_with("command `/etc/passwd` not found"));
        assert!(message(&[]).starts_with("no command to record"));
    }
}
