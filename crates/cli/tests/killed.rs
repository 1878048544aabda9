//! Kills `mmtwin verify` in different ways at random times: the machine must be restored, at the latest when
//! mmtwin starts again. Without root or the kernel features that it takes, the test is skipped with a
//! message.
//!
//! ```text
//!   round 1   verify folios    SIGKILL after 0.31 s              its guard, a shell, restores the machine
//!   round 2   verify pcp       all processes after 0.87 s        mmtwin restores it at its next start
//!   round 3   verify hugetlb   SIGHUP after 0.02 s               it restores the machine before it exits
//! ```
//!
//! Commands, signals and times are drawn with a fixed seed. `MMTWIN_KILLS` sets the number of rounds; the
//! default is a few.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

const SEED: u64 = 1;
const FEW_ROUNDS: u32 = 9;
/// And no more than this until one of them has left something to put back.
const MOST_ROUNDS: u32 = 10 * FEW_ROUNDS;
const COMMANDS: [&[&str]; 3] = [&["folios"], &["hugetlb"], &["pcp", "--workload", "page_fault1-1cpu"]];
/// An environment variable that all processes started in a round inherit.
const MARK: &str = "MMTWIN_TEST_OF_KILLS";
/// Time limit for the command to exit and for the machine to be restored.
const PATIENCE: Duration = Duration::from_secs(60);
/// A setting that the user may have changed, and that the kernel raises when it starts khugepaged.
const MIN_FREE_KBYTES: &str = "/proc/sys/vm/min_free_kbytes";
const OF_USER: &str = "40000";
/// Locked while this test runs.
const LOCK: &str = "/run/mmtwin-test-of-kills";

/// What a rollback note is called in the list of leftovers.
const NOTE: &str = "a note";

/// How a command is killed.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// One signal to the command itself.
    Alone(Signal),
    /// SIGKILL to the command, its guard and all other processes that it has started.
    Together,
}

const BLOWS: [Blow; 8] = [
    Blow::Alone(Signal::KILL),
    Blow::Together,
    Blow::Alone(Signal::HUP),
    Blow::Together,
    Blow::Alone(Signal::TERM),
    Blow::Alone(Signal::KILL),
    Blow::Alone(Signal::INT),
    Blow::Alone(Signal::QUIT),
];

/// The state of the machine that a command could have changed.
#[derive(Debug, PartialEq)]
struct Machine {
    settings: BTreeMap<PathBuf, String>,
    is_tracefs_mounted: bool,
}

impl Machine {
    fn now() -> Machine {
        let mut settings = BTreeMap::new();
        for place in ["/proc/sys/vm", "/sys/kernel/mm", "/sys/devices/system/memory"] {
            read_settings(Path::new(place), &mut settings);
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        Machine { settings, is_tracefs_mounted: mounts.contains(" tracefs ") }
    }

    /// Everything that differs from `before`.
    fn differences(&self, before: &Machine) -> Vec<String> {
        let mut differences = Vec::new();
        for (path, value) in &before.settings {
            let now = self.settings.get(path);
            if now != Some(value) {
                differences.push(format!("{} is {now:?}, and was {value:?}", path.display()));
            }
        }
        if self.is_tracefs_mounted != before.is_tracefs_mounted {
            differences.push(format!("tracefs is mounted: {}", self.is_tracefs_mounted));
        }
        differences
    }
}

/// Reads all files that are both readable and writable. Read-only files are counters, and so are some of the
/// writable ones.
fn read_settings(place: &Path, settings: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let counts = ["stats", "damon", "ksm", "stat_refresh", "uevent", "numa_stat", "soft_offline_page"];
        let name = entry.file_name();
        if counts.iter().any(|counter| name == *counter) {
            continue;
        }
        if metadata.is_dir() {
            read_settings(&path, settings);
        } else if metadata.is_file()
            && metadata.mode() & 0o200 != 0
            && let Ok(value) = fs::read_to_string(&path)
        {
            settings.insert(path, value);
        }
    }
}

/// A setting that is restored at the end of the test. Another run of this test on the machine, in another checkout, waits until then: restoring
/// it would change the machine under this one.
struct OfUser {
    before: String,
    _lock: fs::File,
}

impl OfUser {
    fn set() -> OfUser {
        let lock = fs::File::create(LOCK).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let before = fs::read_to_string(MIN_FREE_KBYTES).unwrap();
        fs::write(MIN_FREE_KBYTES, OF_USER).unwrap();
        OfUser { before, _lock: lock }
    }
}

impl Drop for OfUser {
    fn drop(&mut self) {
        let _ = fs::write(MIN_FREE_KBYTES, &self.before);
    }
}

struct Round {
    number: u32,
    /// Its TMPDIR.
    place: tempfile::TempDir,
}

impl Round {
    fn mmtwin(&self, words: &[&str]) -> Command {
        // A shell starts what runs in its background with SIGINT and SIGQUIT ignored, and that is inherited.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,QUIT", env!("CARGO_BIN_EXE_mmtwin")]);
        command.arg("verify").args(words).env("TMPDIR", self.place.path()).env(MARK, self.mark());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn mark(&self) -> String {
        format!("{}-{}", std::process::id(), self.number)
    }

    /// The running processes of this round, without zombies.
    fn processes(&self) -> Vec<Pid> {
        let mark = format!("{MARK}={}", self.mark());
        let has_mark = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(has_mark).filter_map(Pid::from_raw).collect()
    }

    /// Kills the command, and returns how many rollback notes existed at that time.
    fn strike(&self, child: &mut Child, blow: Blow) -> usize {
        let pid = Pid::from_child(child);
        match blow {
            Blow::Alone(signal) => {
                let _ = kill_process(pid, signal);
            }
            Blow::Together => {
                // Repeated because a process may have started another one while they were collected.
                loop {
                    let processes = self.processes();
                    processes.iter().for_each(|&pid| {
                        let _ = kill_process(pid, Signal::STOP);
                    });
                    if self.processes() == processes {
                        processes.iter().for_each(|&pid| {
                            let _ = kill_process(pid, Signal::KILL);
                        });
                        break;
                    }
                }
            }
        }
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "round {}: {blow:?} was swallowed", self.number);
            std::thread::sleep(Duration::from_millis(5));
        }
        notes_of(pid)
    }

    /// What is left over from this round and from process `pid`.
    fn left(&self, pid: Pid, before: &Machine) -> Vec<String> {
        let mut left = Machine::now().differences(before);
        left.extend(self.processes().iter().map(|pid| format!("process {}", pid.as_raw_nonzero())));
        let own = format!("mmtwin-{}-", pid.as_raw_nonzero());
        for place in
            ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/kernel/tracing/instances", "/var/tmp", "/tmp"]
        {
            let names = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
            let own = names.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&own));
            left.extend(own.map(|path| path.display().to_string()));
        }
        let files = fs::read_dir(self.place.path()).unwrap().flatten();
        left.extend(files.map(|entry| entry.path().display().to_string()));
        left.extend((notes_of(pid) > 0).then(|| NOTE.to_string()));
        left
    }
}

/// The rollback notes of a process.
fn notes_of(pid: Pid) -> usize {
    let own = format!("process\t{}\t", pid.as_raw_nonzero());
    let notes = fs::read_dir("/run/mmtwin").into_iter().flatten().flatten();
    notes.filter(|note| fs::read_to_string(note.path()).is_ok_and(|text| text.starts_with(&own))).count()
}

#[test]
fn whatever_kills_it_leaves_the_machine_as_it_was() {
    if !rustix::process::geteuid().is_root() || !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        eprintln!("skipped: it takes root and a kernel with huge pages");
        return;
    }
    let rounds = std::env::var("MMTWIN_KILLS").map_or(FEW_ROUNDS, |rounds| rounds.parse().unwrap());
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let _of_user = OfUser::set();
    let before = Machine::now();
    let (mut done, mut struck, mut undone_later, mut by_itself) = (0, 0, 0, 0);
    for number in 0..MOST_ROUNDS.max(rounds) {
        // On a fast machine all of a few kills may come before or after a command changes anything: then there are more.
        if number >= rounds && (rounds < FEW_ROUNDS || undone_later > 0) {
            break;
        }
        let round = Round { number, place: tempfile::tempdir_in("/var/tmp").unwrap() };
        let words = COMMANDS[number as usize % COMMANDS.len()];
        let blow = BLOWS[number as usize % BLOWS.len()];
        // Half of the kills are early, during setup.
        let most = if random.random() { 150 } else { 2500 };
        let moment = Duration::from_millis(random.random_range(0..most));
        let name = format!("round {number}: verify {}, {blow:?} after {moment:?}", words.join(" "));

        let mut child = round.mmtwin(words).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(moment);
        let pid = Pid::from_child(&child);
        let was_running = child.try_wait().unwrap().is_none();
        let notes = round.strike(&mut child, blow);
        let status = child.wait().unwrap();
        let obeyed = status.signal().is_some() || status.code() == Some(130);
        assert!(obeyed || !was_running, "{name}: {status}");
        struck += u32::from(was_running);
        let again = || {
            let mut again = round.mmtwin(&["pcp", "--recorded", "--recordings", "/nonexistent"]);
            again.stderr(Stdio::piped());
            again
        };
        if let Blow::Together = blow {
            let output = again().output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            let expected = format!("process {} of mmtwin was killed", pid.as_raw_nonzero());
            assert_eq!(said.contains(&expected), notes > 0, "{name}: {said}");
            undone_later += notes;
            let left = round.left(pid, &before);
            assert!(left.is_empty(), "{name}: {left:#?}\n{said}");
        } else {
            let start = Instant::now();
            loop {
                let left = round.left(pid, &before);
                // If the command was killed before the guard started, nothing was changed, and the next start
                // removes the note.
                if left.iter().all(|what| what == NOTE) {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "{name}: {left:#?}");
                std::thread::sleep(Duration::from_millis(50));
            }
            by_itself += 1;
            let _ = again().status().unwrap();
            let left = round.left(pid, &before);
            assert!(left.is_empty(), "{name}, and one more start: {left:#?}");
        }
        done += 1;
        eprintln!("{name}: nothing left");
    }
    eprintln!(
        "{done} rounds, {struck} struck while they ran; {by_itself} left nothing by themselves, and {undone_later} notes \
         were undone by the next start"
    );
    assert!(rounds < FEW_ROUNDS || undone_later > 0, "nothing was ever left to be put back");
}
