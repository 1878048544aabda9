//! Kills recorders at random times and then starts another one: nothing of the killed one may be left in
//! tracefs, and every spool directory must be recoverable by the command that the error message suggests.
//! Without root or tracefs the test is skipped with a message.
//!
//! `MMTWIN_KILLS=100` kills 100 recorders; the default is a few.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use live::tracefs::Tracefs;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use workload::trace::TraceReader;

const INSTANCES: &str = "/sys/kernel/tracing/instances";
const NOTES: &str = "/run/mmtwin";

/// A command that forks, execs and allocates for about a second.
const COMMAND: &str =
    "for i in 1 2 3 4 5 6 7 8; do /bin/true; dd if=/dev/zero of=/dev/null bs=4M count=1; sleep 0.1; done";

/// Which processes are killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Recorder,
    /// The recorder only, and it stays a zombie: nobody waits for it before the next one starts.
    Zombie,
    /// The recorder and everything that it started: its guard and the recorded command.
    Family,
}

fn recorder(output: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
    command.args(["record", "--force", "--buffer", "1024", "-o"]).arg(output).args(more);
    command.args(["--", "sh", "-c", COMMAND]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn children(pid: u32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Kills `child` in whatever state it is in.
fn kill(child: &mut Child, victim: Victim) {
    if victim == Victim::Family {
        // A stopped process starts no children while they are being looked for.
        let _ = kill_process(Pid::from_child(child), Signal::STOP);
        for pid in children(child.id()).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let _ = kill_process(Pid::from_child(child), Signal::KILL);
    // The threads of a process exit one by one; its file locks are released with the last one.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), ended).unwrap();
    if victim != Victim::Zombie {
        child.wait().unwrap();
    }
}

/// Entries of a directory whose name is one that mmtwin creates.
fn of_mmtwin(directory: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("mmtwin-") || directory == NOTES
    };
    entries.filter(is_own).collect()
}

/// New entries since `before`. Other processes may be recording too, so their entries are given some time to
/// disappear.
fn left(before: &BTreeSet<PathBuf>, directory: &str) -> Vec<PathBuf> {
    let begin = Instant::now();
    loop {
        let left: Vec<PathBuf> = of_mmtwin(directory).difference(before).cloned().collect();
        if left.is_empty() || begin.elapsed() > Duration::from_secs(30) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs the command in backquotes from an error message in a shell.
fn run_printed(output: &Output) -> Output {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let command = text.split('`').nth(1).unwrap_or_else(|| panic!("no command in {text}"));
    assert!(command.starts_with("mmtwin record "), "{text}");
    let command = command.replacen("mmtwin", env!("CARGO_BIN_EXE_mmtwin"), 1);
    Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn kills_leave_nothing_that_the_next_start_does_not_mend() {
    if let Err(reason) = Tracefs::open() {
        eprintln!("skipped: {reason}");
        return;
    }
    let kills: u64 = std::env::var("MMTWIN_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let (instances, notes) = (of_mmtwin(INSTANCES), of_mmtwin(NOTES));
    let begin = Instant::now();
    assert!(recorder(&place.path().join("whole.parquet"), &[]).status().unwrap().success());
    let whole = begin.elapsed();

    let (mut recovered, mut unrecorded, mut finished) = (0, 0, 0);
    for seed in 0..kills {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let victim = [Victim::Recorder, Victim::Family, Victim::Zombie][seed as usize % 3];
        let directory = place.path().join(format!("it's kill {seed}"));
        fs::create_dir(&directory).unwrap();
        let output = directory.join("a.parquet");
        let anonymize: &[&str] = if random.random() { &["--anonymize"] } else { &[] };
        let moment = whole.mul_f64(random.random_range(0.0..1.1));
        let mut child = recorder(&output, anonymize).spawn().unwrap();
        std::thread::sleep(moment);
        kill(&mut child, victim);
        let context = format!("kill {seed}, of {victim:?}, after {} ms", moment.as_millis());
        let is_whole = TraceReader::open(&output).is_ok_and(|reader| reader.flatten().count() > 0);

        let mut next = recorder(&output, &[]);
        let next = next.stderr(Stdio::piped()).output().unwrap();
        if next.status.success() {
            if is_whole { finished += 1 } else { unrecorded += 1 }
        } else {
            let again = run_printed(&next);
            let said = String::from_utf8_lossy(&again.stderr);
            assert!(again.status.success(), "{context}: {}{said}", String::from_utf8_lossy(&next.stderr));
            recovered += 1;
        }
        let reader = TraceReader::open(&output).unwrap();
        assert_eq!(reader.metadata().lost, 0, "{context}");
        assert!(reader.collect::<Result<Vec<_>, _>>().is_ok(), "{context}");
        let names: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.parquet"], "{context}");
        if victim == Victim::Zombie {
            child.wait().unwrap();
        }
    }
    eprintln!(
        "{kills} kills within {whole:?}: {unrecorded} before there was a recording, {recovered} recovered, {finished} after the trace"
    );
    assert_eq!(left(&instances, INSTANCES), Vec::<PathBuf>::new());
    assert_eq!(left(&notes, NOTES), Vec::<PathBuf>::new());
}
