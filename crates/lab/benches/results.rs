//! Benchmark of listing runs: files per second. 100,000 files must take no more than two seconds, so 50,000
//! per second are enough.

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::experiment::Experiment;
use lab::results::{Program, Results, list};
use rayon::prelude::*;
use sim::outcome::Outcome;

fn main() {
    divan::main();
}

/// A file system in memory, where the files are created quickly; they are read from the page cache in any
/// case.
const MEMORY: &str = "/dev/shm";

#[divan::bench(args = [10_000, 100_000], sample_count = 5, sample_size = 1)]
fn files_listed(bencher: Bencher, files: u32) {
    let directory = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()).unwrap();
    let program = Program { version: "0".into(), build: "bench".into(), commit: String::new() };
    let results = Results::open(directory.path(), program).unwrap();
    let mut experiment = Experiment::of("page_fault1", Some(files)).unwrap();
    experiment.variants.truncate(1);
    let runs = experiment.runs().unwrap();
    runs.par_chunks(100).for_each(|runs| {
        for run in runs {
            results.keep(&results.describe(run).unwrap(), &Outcome::default()).unwrap();
        }
    });
    bencher.counter(ItemsCount::new(files)).bench(|| {
        let listing = list(directory.path()).unwrap();
        assert_eq!((listing.runs.len(), listing.damaged.len()), (files as usize, 0));
    });
}
