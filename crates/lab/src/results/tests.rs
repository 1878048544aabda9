use super::*;
use crate::metric::BUILD_TIME;
use crate::outcome::{Outcome, Sample};
use crate::scenario::load_machine;

fn scenario() -> Scenario {
    Scenario::load("page_fault1").unwrap()
}

fn record(seed: u64) -> Record {
    let scenario = scenario();
    let machine = load_machine(&scenario.machine).unwrap();
    let run = scenario.run("base", seed, &machine, &BTreeMap::new()).unwrap();
    let mut outcome = Outcome { virtual_seconds: 1.0 / 3.0, page_operations: 12, ..Outcome::default() };
    outcome.set(BUILD_TIME, 0.1 + seed as f64 / 7.0);
    outcome.cpu_seconds.insert("program", 1.0 / 7.0);
    outcome.counters.add(mm::Event::Pgfree, 99);
    outcome.series.push(Sample { seconds: 0.05, name: "pcp_pages", value: 361.0 });
    outcome.histograms.insert("zone_take", vec![(63.5, 4), (127.25, 1)]);
    outcome.notes.push("fewer pages than asked for".into());
    Record::new(identity(&run, "test").unwrap(), "test", &run, &outcome)
}

fn stored(directory: &Path) -> Results {
    let mut results = Results::open(directory, false).unwrap();
    results.finish(&scenario(), &[record(1), record(2)]).unwrap();
    results
}

#[test]
fn what_is_written_is_read_back_bit_by_bit() {
    let directory = tempfile::tempdir().unwrap();
    stored(directory.path());
    let read = Results::open(directory.path(), false).unwrap();
    for seed in [1, 2] {
        let expected = record(seed);
        assert_eq!(read.get(&expected.identity), Some(&expected));
    }
}

#[test]
fn runs_without_rows_are_made_again() {
    let directory = tempfile::tempdir().unwrap();
    stored(directory.path());
    tables::write(directory.path(), &[record(2)]).unwrap();
    let read = Results::open(directory.path(), false).unwrap();
    assert!(read.get(&record(1).identity).is_none() && read.get(&record(2).identity).is_some());
}

#[test]
fn identity_depends_on_everything_that_decides() {
    let run = record(1).run;
    let same = identity(&run, "test").unwrap();
    assert_eq!(same.len(), 32);
    let mut machine = run.clone();
    machine.machine.costs.page_clear_ns.value += 1.0;
    for other in [&record(2).run, &machine] {
        assert_ne!(identity(other, "test").unwrap(), same);
    }
    assert_ne!(identity(&run, "another").unwrap(), same);
}

#[test]
fn identity_depends_on_what_is_in_a_recorded_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recorded");
    let mut run = record(1).run;
    for workload in [
        "kind = 'replay'\ntrace = 'PATH'\ncopies = 1\nstagger_us = 0",
        "kind = 'mappings'\nprogram = 'PATH'\ncpu_seconds = { value = 1, source = '' }\n\
         runs = { value = 1, source = '' }\nmillion_walks = { value = 1, source = '' }",
        "kind = 'numa'\nplacement = 'stay'\nmilliseconds = 1\nprogram = { kind = 'samples', file = 'PATH' }",
    ] {
        run.workload = toml::from_str(&workload.replace("PATH", path.to_str().unwrap())).unwrap();
        let of = |contents: &str| {
            fs::write(&path, contents).unwrap();
            identity(&run, "test").unwrap()
        };
        assert_ne!(of("one"), of("two"), "{workload}");
        assert_eq!(of("one"), of("one"));
        fs::remove_file(&path).unwrap();
        let error = identity(&run, "test").unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn damaged_files_are_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    stored(directory.path());
    for name in ["manifest.json", "counters.parquet", "series.parquet", "histograms.parquet"] {
        let path = directory.path().join(name);
        let whole = fs::read(&path).unwrap();
        for broken in [&whole[..whole.len() / 2], b"", b"PAR1 nonsense PAR1"] {
            fs::write(&path, broken).unwrap();
            let error = Results::open(directory.path(), false).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--fresh"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), broken);
        }
        fs::write(&path, whole).unwrap();
    }
    // A whole Parquet file of something else.
    fs::copy(directory.path().join("series.parquet"), directory.path().join("counters.parquet")).unwrap();
    let error = Results::open(directory.path(), false).unwrap_err().to_string();
    assert!(error.contains("no column kind"), "{error}");
}

#[test]
fn directories_of_something_else_are_refused_even_when_fresh() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("letter.txt"), "dear").unwrap();
    for fresh in [false, true] {
        let error = Results::open(directory.path(), fresh).unwrap_err().to_string();
        assert!(error.contains("not a results directory"), "{error}");
    }
    assert_eq!(fs::read_to_string(directory.path().join("letter.txt")).unwrap(), "dear");
}

#[test]
fn fresh_results_forget_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    stored(directory.path());
    let mut results = Results::open(directory.path(), true).unwrap();
    assert!(results.get(&record(1).identity).is_none());
    results.finish(&scenario(), &[record(3)]).unwrap();
    let manifest = Manifest::read(&directory.path().join("manifest.json")).unwrap();
    assert_eq!(manifest.runs.len(), 1);
}

#[test]
fn a_half_written_run_is_not_taken_for_a_finished_one() {
    let directory = tempfile::tempdir().unwrap();
    let results = Results::open(directory.path(), false).unwrap();
    results.keep(&scenario(), &record(1)).unwrap();
    let half = directory.path().join("unfinished/half");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("counters.parquet"), "").unwrap();
    let read = Results::open(directory.path(), false).unwrap();
    assert_eq!(read.get(&record(1).identity), Some(&record(1)));
}
