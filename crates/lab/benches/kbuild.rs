//! How fast a whole simulation runs: a kernel build on 224 CPUs, one run, one thread.
//!
//! ```text
//!   kbuild        page allocations and frees simulated, a second
//!   page_faults   the peer: page faults of the machine that this runs on, map and touch and unmap, a second
//! ```
//!
//! At the end the ratio of the two is printed. A page fault of the peer allocates one page and frees it again: two page
//! operations. So one thread stands for half as many real CPUs as the ratio says, if they did nothing but that.

#![allow(clippy::print_stdout)]

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::scenario::{Scenario, load_machine};
use sim::{Run, Workload};
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

/// Jobs of make: three for each CPU.
const UNITS: usize = 672;
/// Bytes that a round of page faults touches.
const MAPPED: usize = 128 << 20;
const PAGE: usize = 4096;

fn build(variant: &str) -> Run {
    let mut scenario = Scenario::load("kbuild-j224").unwrap();
    if let Workload::Kbuild(build) = &mut scenario.workload {
        (build.units, build.warm_units) = (Some(UNITS), 0);
    }
    let machine = load_machine(&scenario.machine).unwrap();
    scenario.run(variant, 1, &machine, &Default::default()).unwrap()
}

/// Page operations of [`build`], which are the same in every run.
fn simulate(run: &Run) -> u64 {
    sim::run(run).unwrap().page_operations
}

#[divan::bench(args = ["pcp-base", "mainline-6.18"], sample_count = 5, sample_size = 1)]
fn kbuild(bencher: Bencher, variant: &str) {
    let run = build(variant);
    bencher.counter(ItemsCount::new(simulate(&run))).bench_local(|| simulate(&run));
}

/// Maps zeroed memory, touches each page and unmaps it; the number of page faults.
fn touch() -> usize {
    static SMALL_PAGES: OnceLock<()> = OnceLock::new();
    SMALL_PAGES.get_or_init(|| {
        // Huge pages would be another measurement. A kernel without them has nothing to forbid.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    });
    let mut memory = black_box(vec![0u8; MAPPED]);
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    drop(black_box(memory));
    MAPPED / PAGE
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn page_faults(bencher: Bencher) {
    bencher.counter(ItemsCount::new(MAPPED / PAGE)).bench_local(touch);
}

/// Items a second of the best of a few rounds.
fn rate(rounds: usize, mut round: impl FnMut() -> u64) -> f64 {
    let rates = (0..rounds).map(|_| {
        let start = Instant::now();
        round() as f64 / start.elapsed().as_secs_f64()
    });
    rates.fold(0.0, f64::max)
}

fn main() {
    divan::main();
    // With a filter or another option, only what was asked for.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        let run = build("mainline-6.18");
        let simulated = rate(3, || simulate(&run));
        let real = rate(10, || touch() as u64);
        println!(
            "{:.1} M page operations a second simulated, {:.2} M real page faults a second: {:.1} to 1",
            simulated / 1e6,
            real / 1e6,
            simulated / real
        );
    }
}
