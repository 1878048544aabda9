//! Benchmark of a whole simulation: a kernel build on 224 CPUs, one run on one thread.
//!
//! ```text
//!   kbuild        simulated page allocations and frees per second
//!   page_faults   for comparison: real page faults of the host per second, with mmap, touch and munmap
//! ```
//!
//! At the end the ratio of the two is printed. A real page fault allocates one page and frees it again, which
//! is two page operations. One simulating thread is therefore as fast as half as many real CPUs as the ratio
//! says, if these did nothing else.

#![allow(clippy::print_stdout)]

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::scenario::{Scenario, load_machine};
use sim::Run;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;
use workload::tasks::ProgramSpec;

/// Jobs of make: three per CPU.
const UNITS: u32 = 672;
/// Bytes touched in a round of page faults.
const MAPPED: usize = 128 << 20;
const PAGE: usize = 4096;

fn build(variant: &str) -> Run {
    let mut scenario = Scenario::load("kbuild-j224").unwrap();
    let host = &mut scenario.workload;
    host.warm_milliseconds = 0;
    for program in &mut host.programs {
        if let ProgramSpec::KernelBuild(build) = &mut program.program {
            build.units = Some(UNITS);
        }
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

/// Maps zeroed memory, touches each page and unmaps it. Returns the number of page faults.
fn touch() -> usize {
    static SMALL_PAGES: OnceLock<()> = OnceLock::new();
    SMALL_PAGES.get_or_init(|| {
        // Huge pages would be another measurement. On a kernel without them this fails and does not matter.
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

/// Items per second in the best of a few rounds.
fn rate(rounds: usize, mut round: impl FnMut() -> u64) -> f64 {
    let rates = (0..rounds).map(|_| {
        let start = Instant::now();
        round() as f64 / start.elapsed().as_secs_f64()
    });
    rates.fold(0.0, f64::max)
}

fn main() {
    divan::main();
    // With a filter or another option, run only what was asked for.
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
