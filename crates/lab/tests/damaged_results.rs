//! Tests that results files with flipped bits, cut short or exchanged are never read as other values.

use lab::experiment::Experiment;
use lab::results::{DescribedRun, Entry, Program, Record, Results, compact, list};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::metric::BUILD_TIME;
use sim::outcome::{Outcome, Sample};
use std::fs;
use std::path::{Path, PathBuf};

const MUTANTS: usize = 1000;
const PACKED: u32 = 4;
const RUNS: u32 = 8;

/// Damages a file in one way. Returns the file and what was done.
fn damage(files: &[PathBuf], random: &mut impl Rng) -> (PathBuf, String) {
    let mut pick = || files[random.random_range(0..files.len())].clone();
    let (path, other) = (pick(), pick());
    let mut content = fs::read(&path).unwrap();
    let at = random.random_range(0..content.len());
    let what = match random.random_range(0..10) {
        0 => {
            content.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            content = fs::read(&other).unwrap();
            format!("has the content of {}", other.display())
        }
        2 => {
            let until = content.len().min(at + random.random_range(1..200));
            content[at..until].fill(0);
            format!("{at} to {until} are zeroes")
        }
        _ => {
            let bit = random.random_range(0..8);
            content[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
    };
    fs::write(&path, content).unwrap();
    (path, what)
}

/// Checks that nothing is read with other values than were written. Returns how many reads were refused.
fn check(
    directory: &Path,
    described: &[DescribedRun],
    kept: &[Record],
    listed: &[Entry],
    what: &str,
) -> usize {
    let program = Program { version: "test".into(), build: "test".into(), commit: "c0ffee".into() };
    let results = Results::open(directory, program).unwrap();
    let mut refused = 0;
    for (run, kept) in described.iter().zip(kept) {
        match results.get(run) {
            Ok(Some(record)) => assert_eq!(record, *kept, "{what}"),
            Ok(None) => panic!("{what}: run {} is not there any more, and nobody says so", run.identity()),
            Err(_) => refused += 1,
        }
    }
    let listing = list(directory).unwrap();
    assert!(listing.runs.iter().all(|entry| listed.contains(entry)), "{what}");
    assert!(listing.runs.len() == listed.len() || !listing.damaged.is_empty(), "{what}");
    refused
}

#[test]
fn damage_is_never_read_as_other_values() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let program = Program { version: "test".into(), build: "test".into(), commit: "c0ffee".into() };
    let results = Results::open(directory, program).unwrap();
    let mut experiment = Experiment::of("page_fault1", Some(RUNS)).unwrap();
    experiment.variants.truncate(1);
    let runs = experiment.runs().unwrap();
    let described: Vec<_> = runs.iter().map(|run| results.describe(run).unwrap()).collect();
    let mut kept = Vec::new();
    for (seed, run) in (0..).zip(&described) {
        let mut outcome = Outcome { virtual_seconds: 0.5, page_operations: 9, ..Outcome::default() };
        outcome.set(BUILD_TIME, 74.6455 + f64::from(seed));
        outcome.counters.add(mm::Event::Pgfree, 12345 + u64::from(seed));
        outcome.series.extend((0..20).map(|at| Sample {
            seconds: at.into(),
            name: "pcp_pages",
            value: (at * seed).into(),
        }));
        outcome.histograms.insert("zone_take", vec![(63.5, 4), (127.25, 1)]);
        outcome.notes.push("fewer pages than asked for".into());
        kept.push(results.keep(run, &outcome).unwrap());
        if seed + 1 == PACKED {
            compact(directory).unwrap();
        }
    }
    let listed = list(directory).unwrap().runs;
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 1 + (RUNS - PACKED) as usize, "a pack, and the files of the others");
    assert_eq!(check(directory, &described, &kept, &listed, "whole"), 0);

    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut noticed = 0;
    for number in 0..MUTANTS {
        let whole: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        let (path, what) = damage(&files, &mut random);
        let what = format!("mutant {number}: {}: {what}", path.display());
        noticed += usize::from(check(directory, &described, &kept, &listed, &what) > 0);
        files.iter().zip(whole).for_each(|(path, content)| fs::write(path, content).unwrap());
    }
    println!("{MUTANTS} mutants: {noticed} refused, the others read as they were written");
    assert!(noticed > MUTANTS / 2, "{noticed}");
}
