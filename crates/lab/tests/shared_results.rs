//! Many processes in one results directory, some of them killed: every run that a process reported as stored
//! must be there.
//!
//! ```text
//!   8 processes: sweep, sweep afresh, list, compact        each prints the identity of a run once it is stored
//!        ▲                                                        │
//!        └── SIGKILL to half of them, at a random moment          ▼
//!                                        afterwards: every identity that was printed is found, with the right values
//! ```
//!
//! `MMTWIN_ROUNDS` sets the number of rounds: a few in CI, a hundred at night.

// A process reports on standard error what it has stored.
#![allow(clippy::print_stderr)]

use lab::experiment::{Experiment, Progress};
use lab::results::{Program, Results, compact, list};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::metric::BUILD_TIME;
use sim::outcome::Outcome;
use sim::progress::RunProgress;
use sim::{Run, RunError};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PROCESSES: u64 = 8;

/// Longest life, in milliseconds, of a process that will be killed: as long as the others take.
const LONGEST_LIFE: u64 = 300;

/// One of several sweeps, many of which have runs in common.
fn experiment(random: &mut impl Rng) -> Experiment {
    let mut experiment = Experiment::of("page_fault1", Some(random.random_range(1..20))).unwrap();
    experiment.variants = ["pcp-base", "patch1", "patch9"][..random.random_range(1..=3)]
        .iter()
        .map(|v| v.to_string())
        .collect();
    if random.random_bool(0.5) {
        experiment.changes.insert("vm.stat_interval".into(), random.random_range(2..6).to_string());
    }
    experiment
}

fn results(directory: &Path) -> Results {
    let program = Program { version: "test".into(), build: "test".into(), commit: String::new() };
    Results::open(directory, program).unwrap()
}

/// A run that costs nothing and still differs from all others.
fn simulate(run: &Run, _: &RunProgress) -> Result<Outcome, RunError> {
    let interval = run.settings.get("vm.stat_interval").and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let mut outcome = Outcome { virtual_seconds: interval, page_operations: run.seed, ..Outcome::default() };
    outcome.set(BUILD_TIME, run.seed as f64 / 3.0 + run.variant.len() as f64);
    Ok(outcome)
}

/// The work of one process, given a directory and a seed.
fn work(directory: &Path, seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..2 {
        let experiment = experiment(&mut random);
        let results = results(directory);
        let results = if random.random_bool(0.2) { results.afresh() } else { results };
        let say = |progress: Progress| {
            if let Progress::Made(record) = progress {
                eprintln!("kept {}", record.identity);
            }
        };
        experiment.sweep(&results, 2, &simulate, &say).unwrap();
        match random.random_range(0..4) {
            0 => assert!(compact(directory).unwrap().damaged.is_empty()),
            1 => assert!(list(directory).unwrap().damaged.is_empty()),
            _ => {}
        }
    }
}

const DIRECTORY: &str = "MMTWIN_TEST_DIRECTORY";
const SEED: &str = "MMTWIN_TEST_SEED";

/// Does the work of a process if it was started as one.
#[test]
fn worker() {
    if let (Some(directory), Ok(seed)) = (std::env::var_os(DIRECTORY), std::env::var(SEED)) {
        work(Path::new(&directory), seed.parse().unwrap());
    }
}

/// One round of processes in `directory`. Returns the runs reported as stored, and how many processes were
/// killed before they ended.
fn round(directory: &Path, round: u64) -> (BTreeSet<String>, usize) {
    let mut random = Pcg64Mcg::seed_from_u64(round);
    let start = |process: u64| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env(DIRECTORY, directory)
            .env(SEED, (round * PROCESSES + process).to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..PROCESSES)
        .map(|process| (start(process), (process % 2 == 0).then(|| random.random_range(0..LONGEST_LIFE))))
        .collect();
    let ended = children.into_iter().map(|(mut child, life)| {
        let mut said = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            if let Some(life) = life {
                std::thread::sleep(Duration::from_millis(life));
                child.kill().unwrap();
            }
            let mut text = String::new();
            said.read_to_string(&mut text).unwrap();
            let killed = !child.wait().unwrap().success();
            assert!(!killed || life.is_some(), "{text}");
            (text, killed)
        })
    });
    let ended: Vec<_> = ended.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    let kept = ended.iter().flat_map(|(text, _)| text.split_inclusive('\n'));
    // A line cut short by the kill does not count.
    let kept = kept.filter_map(|line| line.strip_suffix('\n')?.strip_prefix("kept "));
    (kept.map(String::from).collect(), ended.iter().filter(|(_, killed)| *killed).count())
}

#[test]
fn what_was_finished_is_there_whoever_is_killed() {
    let rounds = std::env::var("MMTWIN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let directory = tempfile::tempdir().unwrap();
    let (mut kept, mut killed) = (BTreeSet::new(), 0);
    for number in 0..rounds {
        let (of_round, killed_in_round) = round(directory.path(), number);
        kept.extend(of_round);
        killed += killed_in_round;
        let listing = list(directory.path()).unwrap();
        assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
        let listed: BTreeSet<String> = listing.runs.into_iter().map(|entry| entry.summary.run).collect();
        let lost: Vec<&String> = kept.difference(&listed).collect();
        assert!(lost.is_empty(), "round {number}: {lost:?}");
    }
    let read = read_all(directory.path(), &kept);
    println!(
        "{rounds} rounds: {killed} processes killed, {} runs kept, {read} found as they were made",
        kept.len()
    );
    assert!(read == kept.len() && killed > 0);
}

/// Number of runs of `kept` that are found with the right values.
fn read_all(directory: &Path, kept: &BTreeSet<String>) -> usize {
    let results = results(directory);
    let mut experiment = Experiment::of("page_fault1", Some(20)).unwrap();
    experiment.variants = ["pcp-base", "patch1", "patch9"].map(String::from).into();
    let settings = [None, Some("2"), Some("3"), Some("4"), Some("5")];
    let mut found = 0;
    for setting in settings {
        experiment.changes.extend(setting.map(|value| ("vm.stat_interval".into(), value.into())));
        let runs = experiment.runs().unwrap();
        let described = runs.iter().map(|run| results.describe(run).unwrap());
        for described in described.filter(|run| kept.contains(run.identity())) {
            let record = results.get(&described).unwrap().unwrap();
            let outcome = simulate(&record.run, &RunProgress::default()).unwrap();
            assert_eq!(record.metrics["build_time"].to_bits(), outcome.get(BUILD_TIME).unwrap().to_bits());
            assert_eq!(
                (record.virtual_seconds, record.page_operations),
                (outcome.virtual_seconds, outcome.page_operations)
            );
            found += 1;
        }
    }
    found
}
