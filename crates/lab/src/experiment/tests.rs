//! Tests that runs of an experiment are made once, found again, and made again by another program.

use super::*;
use crate::comparison::Comparison;
use crate::results::Program;
use crate::scenario::load_machine;
use mm::Event;
use sim::metric::{ALLOC_ZONE, BUILD_TIME};
use std::sync::Mutex;

/// An experiment whose runs are made by [`simulate`] at no cost.
fn experiment(variants: &[&str], seeds: u32) -> Experiment {
    let mut scenario = Scenario::load("page_fault1").unwrap();
    scenario.metrics = vec!["build_time".into(), "alloc_zone".into()];
    let machine = load_machine(&scenario.machine).unwrap();
    let variants = variants.iter().map(|name| name.to_string()).collect();
    Experiment {
        scenario,
        machine,
        variants,
        seeds,
        changes: BTreeMap::new(),
        varied: Vec::new(),
        trees: BTreeMap::new(),
    }
}

fn simulate(run: &Run, _: &RunProgress) -> Result<Outcome, RunError> {
    let mut outcome = Outcome { virtual_seconds: 0.1, page_operations: 7, ..Outcome::default() };
    let faster = if run.variant == "pcp-base" { 1.0 } else { 0.9 };
    outcome.set(BUILD_TIME, faster * (100.0 + run.seed as f64 / 3.0));
    outcome.set(ALLOC_ZONE, 5.0);
    outcome.cpu_seconds.insert("idle", 1.0);
    outcome.cpu_seconds.insert("program", 2.0);
    outcome.cpu_seconds.insert("zone_lock_wait", faster * faster);
    outcome.histograms.insert("alloc_slow", vec![(0.1, 3), (0.3, 1)]);
    Ok(outcome)
}

fn program(build: &str) -> Program {
    Program { version: "test".into(), build: build.into(), commit: String::new() }
}

fn results_in(directory: &std::path::Path) -> Results {
    Results::open(directory, program("test")).unwrap()
}

fn read_all(directory: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    let mut written = Vec::new();
    // More threads than runs are not started.
    for jobs in [1, 2, 5, usize::MAX] {
        let directory = tempfile::tempdir().unwrap();
        let results = results_in(directory.path());
        let experiment = experiment(&["pcp-base", "patch1", "patch9"], 4);
        experiment.sweep(&results, jobs, &simulate, &|_| {}).unwrap();
        written.push(read_all(directory.path()));
    }
    assert_eq!(written[0].len(), 12, "a file a run, nothing else");
    assert!(written.iter().all(|other| *other == written[0]));
}

#[test]
fn real_runs_are_the_same_for_any_number_of_threads() {
    let mut experiment = experiment(&["pcp-base", "patch9"], 2);
    let host = &mut experiment.scenario.workload;
    (host.warm_milliseconds, host.milliseconds) = (2, 8);
    let made = [1, 2].map(|jobs| {
        let directory = tempfile::tempdir().unwrap();
        let results = results_in(directory.path());
        experiment.sweep(&results, jobs, &sim::run_noting, &|_| {}).unwrap()
    });
    assert!(made[0][0].page_operations > 0);
    assert_eq!(made[0], made[1]);
}

/// The error for a lack of memory, with everything that identifies the run.
#[test]
fn a_run_that_fails_is_named_once() {
    let failure = |scenario: &str, mib: u64| {
        let mut experiment = Experiment::of(scenario, Some(1)).unwrap();
        experiment.variants.truncate(1);
        experiment.machine.topology.memory_mib_per_node = mib;
        let directory = tempfile::tempdir().unwrap();
        let results = results_in(directory.path());
        let error = experiment.sweep(&results, 1, &sim::run_noting, &|_| {});
        error.unwrap_err().to_string()
    };
    let machine = Scenario::load("fio-zipf").unwrap().machine;
    assert_eq!(
        failure("fio-zipf", 2048),
        format!(
            "fio-zipf, mglru-6.5, seed 1: RAM disks need 16000 MiB, which machine {machine} does not have free; take a larger one"
        )
    );
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let experiment = experiment(&["pcp-base", "patch1"], 3);
    let failing = |run: &Run, progress: &RunProgress| match (run.variant.as_str(), run.seed) {
        ("patch1", 2) => Err(RunError::Process("stopped".into())),
        _ => simulate(run, progress),
    };
    let results = results_in(directory.path());
    let error = experiment.sweep(&results, 1, &failing, &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), "page_fault1, patch1, seed 2: stopped");
    assert_eq!(read_all(directory.path()).len(), 4);

    let made = Mutex::new(Vec::new());
    let results = results_in(directory.path());
    let watch = |progress: Progress| {
        if let Progress::Made(record) = progress {
            made.lock().unwrap().push((record.run.variant.clone(), record.run.seed));
        }
    };
    let records = experiment.sweep(&results, 1, &simulate, &watch).unwrap();
    assert_eq!(records.len(), 6);
    assert_eq!(*made.lock().unwrap(), [("patch1".to_string(), 2), ("patch1".to_string(), 3)]);

    // Run in one piece, the results are the same, bit for bit.
    let whole = tempfile::tempdir().unwrap();
    let results = results_in(whole.path());
    let expected = experiment.sweep(&results, 1, &simulate, &|_| {}).unwrap();
    assert_eq!(records, expected);
    assert_eq!(read_all(directory.path()), read_all(whole.path()));

    // Nothing is left to do; with another program or another setting all runs are made again.
    let known = |build: &str, experiment: &Experiment| {
        let results = Results::open(directory.path(), program(build)).unwrap();
        let known = Mutex::new(0);
        let count = |progress: Progress| {
            if let Progress::Known(_) = progress {
                *known.lock().unwrap() += 1;
            }
        };
        experiment.sweep(&results, 1, &simulate, &count).unwrap();
        known.into_inner().unwrap()
    };
    assert_eq!(known("test", &experiment), 6);
    assert_eq!(known("another", &experiment), 0);
    let mut changed = experiment.clone();
    changed.changes.insert("vm.stat_interval".into(), "2".into());
    assert_eq!(known("test", &changed), 0);
}

#[test]
fn runs_and_results_go_by_the_present_name_of_a_variant() {
    let (former, present) = (experiment(&["base", "patch9"], 2), experiment(&["pcp-base", "patch9"], 2));
    assert_eq!(former.runs().unwrap(), present.runs().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let records = former.sweep(&results_in(directory.path()), 1, &simulate, &|_| {}).unwrap();
    let comparison = Comparison::new(&former.arms().unwrap(), &records, 0.0);
    assert_eq!(comparison.variants[0].name, "pcp-base");
    assert_eq!(comparison.seeds, [1, 2]);
    let error = experiment(&["base", "pcp-base"], 1).runs().unwrap_err().to_string();
    assert_eq!(error, "variant pcp-base is named twice; name each variant once");
}

#[test]
fn impossible_experiments_are_refused_before_anything_runs() {
    let refuse = |experiment: Experiment| experiment.runs().unwrap_err().to_string();
    assert!(refuse(experiment(&["pcp-base", "pcp-base"], 1)).contains("twice"));
    assert!(refuse(experiment(&[], 1)).contains("at least one"));
    assert!(refuse(experiment(&["pcp-base"], 0)).contains("at least one"));
    assert!(refuse(experiment(&["patch11"], 1)).contains("patch11 is a variant of series hugetlb"));
    let mut bounds = experiment(&["pcp-base"], 1);
    bounds.changes.insert("vm.percpu_pagelist_high_fraction".into(), "7".into());
    assert!(refuse(bounds).contains("EINVAL"));
    let mut name = experiment(&["pcp-base"], 1);
    name.scenario.name = "../elsewhere".into();
    assert!(refuse(name).contains("letters"));
}

#[test]
fn scenarios_that_ask_for_what_there_is_not_name_place_and_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/mongodb-tpcc.toml");
    let text = std::fs::read_to_string(path).unwrap();
    for (is, asked, problem) in [
        ("seeds = 4", "seeds = 0", "x.toml: line 8: seeds = 0: it takes a whole number from 1 to 10000"),
        (
            "epyc-7k62-32g",
            "epyc-7k62-23g",
            "x.toml: machine = epyc-7k62-23g: no such machine; most like it: epyc-7k62",
        ),
        ("\"reclaim\"", "\"reclaims\"", "x.toml: series = reclaims: no such series; series: pcp,"),
        (
            "\"mglru-6.5\"",
            "\"mglru-6.6\"",
            "x.toml: variants = mglru-6.6: no such variant of series reclaim; most like it: mglru-6",
        ),
    ] {
        assert_eq!(text.matches(is).count(), 1, "{is}");
        let error = Scenario::parse("x.toml", &text.replace(is, asked)).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}

/// A scenario file next to its samples, in another directory.
fn samples(csv: &str, change: (&str, &str)) -> (tempfile::TempDir, Result<Experiment, ScenarioError>) {
    let text = "name = 'sampled'\ndescription = ''\nevidence = 'model only'\nmachine = 'qemu-2n'\nseries = 'numa'\n\
        variants = ['numa-base']\nseeds = 1\nmetrics = ['elapsed']\n[workload]\nkind = 'host'\nplacement = 'stay'\n\
        milliseconds = 5\n[[workload.programs]]\nname = 'xz'\n[workload.programs.program]\nkind = 'samples'\nfile = 'seen.csv'\n";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("seen.csv"), csv).unwrap();
    let path = directory.path().join("sampled.toml");
    std::fs::write(&path, text.replace(change.0, change.1)).unwrap();
    let experiment = Experiment::of(path.to_str().unwrap(), None);
    (directory, experiment)
}

const SEEN: &str = "time_ns,pid,tid,address,write\n1000,1,1,0x10000,1\n";

#[test]
fn samples_are_looked_for_beside_their_scenario_and_read_before_anything_runs() {
    let (_directory, experiment) = samples(SEEN, ("", ""));
    let run = &experiment.unwrap().runs().unwrap()[0];
    assert!(sim::run(run).unwrap().notes.is_empty());

    let wrong = [
        (format!("{SEEN}2000,1,1,zebra,1\n"), ("", ""), "seen.csv: line 3: address = \"zebra\""),
        (SEEN.into(), ("seen.csv", "unseen.csv"), "unseen.csv: No such file"),
    ];
    for (csv, change, problem) in wrong {
        let error = samples(&csv, change).1.unwrap_err().to_string();
        assert!(
            error.contains("sampled.toml: workload.programs[0].program.file = ") && error.contains(problem),
            "{error}"
        );
    }
    let key = "line 17: string \"most\", expected";
    let change =
        ("kind = 'samples'\nfile = 'seen.csv'", "kind = 'numa02'\nthreads = \"most\"\nmib = 1\nloops = 1");
    let error = samples(SEEN, change).1.unwrap_err().to_string();
    assert!(error.contains(key) && error.contains("expected a whole number, \"all\" or \"half\""), "{error}");
}

#[test]
fn a_run_ends_before_samples_that_are_too_late_for_it() {
    let late = format!("{SEEN}{},1,2,0,1\n9223372036854775808,1,1,0x11000,1\n", u64::MAX);
    let (_directory, experiment) = samples(&late, ("", ""));
    let outcome = sim::run(&experiment.unwrap().runs().unwrap()[0]).unwrap();
    let notes =
        ["1 thread of xz was cut off", "1 of 3 samples were left out: their addresses are the kernel's or 0"];
    assert_eq!(outcome.notes, notes);
}

#[test]
fn memory_that_was_only_seen_to_be_loaded_from_is_scanned() {
    // Two threads that touch a page each millisecond, of a few pages that both use.
    let line = |ms: u64| format!("{},1,{},{},0\n", ms * 1_000_000, 1 + ms % 2, (16 + ms / 2 % 64) * 4096);
    let csv: String =
        std::iter::once("time_ns,pid,tid,address,write\n".into()).chain((0..4000).map(line)).collect();
    let (_directory, experiment) = samples(&csv, ("milliseconds = 5", "milliseconds = 5000"));
    let outcome = sim::run(&experiment.unwrap().runs().unwrap()[0]).unwrap();
    let count = |event| outcome.counters.get(event);
    assert!(count(Event::NumaPteUpdates) > 64 && count(Event::NumaHintFaults) > 64, "{:?}", outcome.counters);
}

#[test]
fn a_run_that_fails_an_assertion_is_an_error_and_the_others_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let failing = |run: &Run, progress: &RunProgress| {
        if run.variant == "patch1" { panic!("count {} < 0", run.seed) } else { simulate(run, progress) }
    };
    let results = results_in(directory.path());
    let experiment = experiment(&["pcp-base", "patch1"], 1);
    let error = experiment.sweep(&results, 1, &failing, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("page_fault1, patch1, seed 1") && error.contains("count 1 < 0"), "{error}");
    assert_eq!(read_all(directory.path()).len(), 1);
}

/// The second of four pieces fails before the first does.
#[test]
fn of_pieces_that_fail_the_first_is_told_whichever_is_faster() {
    let (failed, wait) = std::sync::mpsc::channel();
    let (failed, wait) = (std::sync::Mutex::new(failed), std::sync::Mutex::new(wait));
    let begun = std::sync::atomic::AtomicUsize::new(0);
    let error = |at: usize| ExperimentError::RepeatedVariant { name: at.to_string() };
    let work = |at: usize| -> Result<(), ExperimentError> {
        begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match at {
            0 => wait.lock().unwrap().recv().unwrap(),
            _ => failed.lock().unwrap().send(()).unwrap(),
        }
        Err(error(at))
    };
    let told = each(4, 2, &work).unwrap_err();
    assert_eq!(told.to_string(), error(0).to_string());
    assert_eq!(begun.into_inner(), 2, "pieces after one that failed are not begun");
}

#[test]
fn one_kernel_under_two_names_is_refused() {
    let error = |variants: &[&str]| {
        let mut experiment = Experiment::of("page_fault1", None).unwrap();
        experiment.variants = variants.iter().map(|name| name.to_string()).collect();
        experiment.arms().map(drop).map_err(|error| error.to_string())
    };
    let told = error(&["6.18", "mainline-6.18"]).unwrap_err();
    assert!(told.starts_with("6.18 and mainline-6.18 are the same kernel"), "{told}");
    assert!(error(&["6.18:pcp.auto_tuning=off", "mainline-6.18:pcp.auto_tuning=off"]).is_err());
    assert_eq!(error(&["6.12", "6.18", "mainline-6.18:pcp.auto_tuning=off"]), Ok(()));
}
