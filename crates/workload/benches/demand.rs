//! Benchmarks of generating demand.
//!
//! Budget: 60 M operations/s of fio's jobs, so that a page-cache access costs more in the kernel than in the
//! program; 30 M operations/s of MongoDB's, whose cache is far larger than the CPU's.

use divan::Bencher;
use divan::counter::ItemsCount;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use workload::tasks::ProgramSpec;

const OPERATIONS: usize = 4_000_000;

#[derive(Deserialize)]
struct Scenario {
    workload: Workload,
}

#[derive(Deserialize)]
struct Workload {
    programs: [HostProgram; 1],
}

#[derive(Deserialize)]
struct HostProgram {
    program: ProgramSpec,
}

fn main() {
    divan::main();
}

fn run(bencher: Bencher, scenario: &str) {
    let scenario: Scenario = toml::from_str(scenario).unwrap();
    let [HostProgram { program: spec }] = scenario.workload.programs;
    let mut program = spec.copies().start(8, 1, Pcg64Mcg::seed_from_u64).unwrap();
    let threads = program.layout().threads.len();
    bencher.counter(ItemsCount::new(OPERATIONS)).bench_local(|| {
        (0..OPERATIONS).filter(|operation| program.next(operation / 1024 % threads, 0).is_some()).count()
    });
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn fio_uniform(bencher: Bencher) {
    run(bencher, include_str!("../../../scenarios/fio-uniform.toml"));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn fio_zipf(bencher: Bencher) {
    run(bencher, include_str!("../../../scenarios/fio-zipf.toml"));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn memcached(bencher: Bencher) {
    run(bencher, include_str!("../../../scenarios/memcached-memtier.toml"));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn sysbench(bencher: Bencher) {
    run(bencher, include_str!("../../../scenarios/mysql-readonly.toml"));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn stock_level(bencher: Bencher) {
    run(bencher, include_str!("../../../scenarios/mongodb-tpcc.toml"));
}
