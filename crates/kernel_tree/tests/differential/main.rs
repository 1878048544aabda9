//! The C of a kernel as judge of the twin: the same states to both, and every difference is a failure or a known one.
//!
//! How a state of a function is drawn and what the twin makes of it is in `crates/kernel_tree/src/judge/`; here is what a difference
//! means: a failure with the smallest state that shows it, or a line with its reason.
//!
//! Kernel sources are not part of this project. They are looked for where `MMTWIN_KERNEL_SOURCES` says (directories, with colons between
//! them) and in /usr/src/linux-source-*, as Debian's packages unpack; where there are none this test says so and does nothing.
//!
//! `MMTWIN_STATES` says how many states each function gets, `MMTWIN_FUNCTIONS` (names, with commas between them) which functions are
//! tried. The long form, `make differential`, tries a million and has gcov say which branches of the C none of them reached.

mod coverage;
mod kernels;
mod large_folios;
mod memory_pressure;
mod short_of_memory;
mod threads;
mod whole_kernel;

use kernel_tree::judge::{Case, Comparison, Example, Named, Side, cases};
use kernel_tree::{
    Compiler, Config, DECISIONS, Decision, Instrumentation, KernelTree, Loaded, Note, Survey, Surveyed,
};
use kernels::Kernel;
use mm::decisions::Rule;
use mm::{Decisions, Features, Series};
use std::path::Path;

/// States of each function where nobody asks for more.
const STATES: u64 = 20_000;

fn states() -> u64 {
    let asked = std::env::var("MMTWIN_STATES").ok();
    asked.map_or(STATES, |states| states.parse().expect("MMTWIN_STATES is a number"))
}

fn wants_coverage() -> bool {
    std::env::var_os("MMTWIN_COVERAGE").is_some()
}

/// The functions of a kernel that are tried.
fn tried(kernel: &Kernel) -> Vec<Case> {
    let asked = std::env::var("MMTWIN_FUNCTIONS").ok();
    let is_asked =
        |case: &Case| asked.as_ref().is_none_or(|names| names.split(',').any(|name| name == case.name));
    cases().into_iter().filter(|case| case.is_in(kernel.release) && is_asked(case)).collect()
}

fn load(kernel: &Kernel, directory: &Path, instrumentation: Instrumentation) -> Loaded {
    let tree = KernelTree::new(&kernel.root, Config::default());
    let wanted: Vec<&'static Decision> =
        tried(kernel).iter().map(|case| Decision::named(case.name).unwrap()).collect();
    let compiler = Compiler::of_the_system(instrumentation);
    kernel_tree::load(&tree, &wanted, &compiler, directory)
        .unwrap_or_else(|error| panic!("{}: {error}", kernel.root.display()))
}

/// How the twin and a kernel differ about a function, if they do without a known reason.
fn difference(case: &Case, kernel: &Kernel, loaded: &Loaded, states: u64) -> Option<String> {
    let comparison = Comparison {
        old: Side::Twin(&kernel.features),
        new: Side::Tree(&loaded.decisions),
        release: kernel.release,
        states,
        examples: 1,
    };
    let Some(found) = case.compare(&comparison) else { return Some("it is not loaded".to_string()) };
    let (release, name) = (kernel.release, case.name);
    kernels::say(&format!("{release} {name}: {states} states, {} unexplained differences", found.differing));
    for (why, met) in &found.known {
        kernels::say(&format!("    {met} known: {why}"));
    }
    let example = found.examples.iter().find(|example| example.known.is_none())?;
    Some(format!("{} of {states} states differ, one of them\n{}", found.differing, told(example)))
}

fn told(example: &Example) -> String {
    let list = |numbers: &[Named]| {
        let told = numbers.iter().map(|Named { name, number }| format!("{name} = {number}"));
        told.collect::<Vec<_>>().join(", ")
    };
    let Example { asked, old, new, .. } = example;
    format!("  asked:  {}\n  twin:   {}\n  kernel: {}", list(asked), list(old), list(new))
}

#[test]
fn the_twin_decides_as_the_kernel_does() {
    let kernels = kernels::all();
    let mut failures = Vec::new();
    for kernel in &kernels {
        let directory = tempfile::tempdir().unwrap();
        let loaded = load(kernel, directory.path(), Instrumentation::None);
        for case in &tried(kernel) {
            let difference = difference(case, kernel, &loaded, states());
            failures
                .extend(difference.map(|message| format!("{} of {}: {message}", case.name, kernel.release)));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn a_survey_finds_every_decision_of_a_release() {
    for kernel in &kernels::all() {
        let tree = KernelTree::new(&kernel.root, Config::default());
        let all: Vec<&'static Decision> = DECISIONS.iter().collect();
        let survey = Survey::of(&tree, &all).each(&all);
        let (found, other): (Vec<_>, Vec<_>) = survey.into_iter().partition(|one| one.found.is_ok());
        kernels::say(&format!("{}: {} decisions can be taken", kernel.release, found.len()));
        let cases = cases();
        let judged = |one: &Surveyed| {
            cases.iter().any(|case| case.name == one.decision.name && case.is_in(kernel.release))
        };
        assert!(
            found.iter().all(judged) && !other.iter().any(judged),
            "{}: what is found is judged",
            kernel.release
        );
    }
}

/// Makes a run, in which a tree is asked for each of some functions.
fn asks(loaded: &Loaded, path: &Path, functions: &[&str], run: impl FnOnce()) {
    loaded.note_in(Note::map(path).unwrap());
    run();
    let note = Note::map(path).unwrap();
    for function in functions {
        assert!(note.times_asked(Decision::named(function).unwrap()) > 0, "{function}");
    }
}

/// One load for all runs: an object has its thread-local variables in the little memory that a process keeps free for those of libraries.
#[test]
fn a_kernel_that_asks_an_unchanged_tree_does_the_same() {
    for kernel in &kernels::all() {
        let directory = tempfile::tempdir().unwrap();
        let loaded = load(kernel, directory.path(), Instrumentation::None);
        whole_kernel::compare(kernel, as_in_the_twins_release(kernel, loaded.decisions));
        let path = |name| directory.path().join(name);
        asks(&loaded, &path("evicted"), &["should_run_aging", "get_tier_idx"], || {
            let lru_gen = loaded.decisions.lru_gen;
            memory_pressure::compare(kernel, Decisions { lru_gen, ..Decisions::default() });
        });
        let of_faults: &[&str] = match kernel.release {
            "6.1" => &["vma_thp_gfp_mask"],
            _ => &["vma_thp_gfp_mask", "alloc_anon_folio"],
        };
        asks(&loaded, &path("faulted"), of_faults, || {
            let folios = loaded.decisions.folios;
            large_folios::compare(kernel, Decisions { folios, ..Decisions::default() });
        });
        asks(&loaded, &path("scanned"), &["task_scan_max", "update_task_scan_period"], || {
            // Late releases of 6.12 forget failed migrations, as the twin has it under a name of its own.
            let late = Series::NUMA.variant("numa-6.12.117").unwrap().features.numa;
            let numa = if kernel.release == "6.12" { late } else { kernel.features.numa };
            let features = Features { numa, ..kernel.features };
            let numa = loaded.decisions.numa;
            threads::compare(kernel, features, Decisions { numa, ..Decisions::default() });
        });
    }
}

/// Where a stable release differs from the one that the twin has under its name, a whole kernel would too.
fn as_in_the_twins_release(kernel: &Kernel, mut decisions: Decisions) -> Decisions {
    decisions.pcp.decay_pcp_high = Rule::Own;
    if kernel.release == "6.1" {
        decisions.pcp.nr_pcp_free = Rule::Own;
        decisions.pcp.free_unref_page_commit = Rule::Own;
    }
    decisions
}

#[test]
fn every_branch_is_reached_or_listed() {
    if !wants_coverage() {
        return;
    }
    for kernel in &kernels::all() {
        let directory = tempfile::tempdir().unwrap();
        let loaded = load(kernel, directory.path(), Instrumentation::Coverage);
        for case in &tried(kernel) {
            let _ = difference(case, kernel, &loaded, states().min(100_000));
        }
        loaded.write_coverage();
        let report = coverage::report(directory.path());
        kernels::say(&format!(
            "{}: {} of {} branches reached",
            kernel.release, report.reached, report.branches
        ));
        report.missed.iter().for_each(|missed| kernels::say(&format!("    not reached: {missed}")));
    }
}
