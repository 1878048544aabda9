//! Tests that the scenarios of programs that run out of memory can be read and ask for what their
//! descriptions say.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use workload::demand::spec::Paging;
use workload::demand::{Demand, Operation, PAGE_SIZE};

#[derive(Deserialize)]
struct Scenario {
    machine: String,
    workload: toml::Table,
}

/// The workload of a scenario, without `kind`.
fn paging(text: &str) -> (String, Paging) {
    let mut scenario: Scenario = toml::from_str(text).unwrap();
    assert_eq!(
        scenario.workload.remove("kind").and_then(|kind| kind.as_str().map(String::from)).unwrap(),
        "paging"
    );
    (scenario.machine, scenario.workload.try_into().unwrap())
}

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../scenarios/", $name, ".toml")))),*]
    };
}

const GIB: f64 = (1u64 << 30) as f64;

/// Name, GiB of files, GiB of private memory, threads.
const EXPECTED: [(&str, f64, f64, usize); 15] = [
    ("fio-zipf", 15.625, 0.015625, 32),
    ("fio-zipf-2g", 15.625, 0.015625, 32),
    ("fio-uniform", 12.0, 0.0, 12),
    ("fio-zipf-i7-9700", 15.0, 0.0, 10),
    ("memcached-memtier", 0.0, 16.125, 16),
    ("memcached-memtier-i7-9700", 0.0, 16.125, 12),
    ("mysql-readonly", 20.07, 15.0, 16),
    ("mysql-readonly-i7-9700", 15.05, 12.0, 12),
    // Data and one index of the primary.
    ("mongodb-tpcc", 1.36 * 31.5 + 0.47, 4.0 + 1.95, 32),
    ("streaming-vs-hot", 129.0, 1.0, 7),
    ("working-set-shift", 12.0, 0.0, 8),
    ("working-set-shift-1g", 3.0, 0.0, 8),
    ("noisy-neighbour", 3.0 + 256.0, 0.0, 8),
    ("burst-writer", 14.0, 0.0, 2),
    ("kernel-build-3g", 1300.0 / 1024.0, 1.99, 12),
];

#[test]
fn scenarios_are_as_large_as_they_say() {
    let scenarios = scenarios![
        "fio-zipf",
        "fio-zipf-2g",
        "fio-uniform",
        "fio-zipf-i7-9700",
        "memcached-memtier",
        "memcached-memtier-i7-9700",
        "mysql-readonly",
        "mysql-readonly-i7-9700",
        "mongodb-tpcc",
        "streaming-vs-hot",
        "working-set-shift",
        "working-set-shift-1g",
        "noisy-neighbour",
        "burst-writer",
        "kernel-build-3g",
    ];
    for ((name, text), (expected, files, memory, threads)) in scenarios.into_iter().zip(EXPECTED) {
        assert_eq!(name, expected);
        let (machine, mut paging) = paging(text);
        paging.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(paging.figures_mut().iter().all(|(_, figure)| figure.range.is_some()), "{name}: no range");
        let machine = std::fs::read_to_string(format!("../../machines/{machine}.toml")).unwrap();
        let machine = machine::Profile::parse(&machine).unwrap();
        assert!(machine.device(&paging.files).is_some(), "{name}");
        assert!(paging.swap.iter().all(|swap| machine.device(swap).is_some()), "{name}");
        let mut program = paging.demand.start(Pcg64Mcg::seed_from_u64).unwrap();
        let layout = program.layout().clone();
        let gib = |pages: u64| (pages * PAGE_SIZE) as f64 / GIB;
        let (file, private) = (
            gib(layout.files.iter().map(|file| file.pages).sum()),
            gib(layout.regions.iter().map(|region| region.pages).sum()),
        );
        assert!((file / files - 1.0).abs() < 0.01 || file == files, "{name}: {file} GiB of files");
        assert!(
            (private / memory - 1.0).abs() < 0.01 || private == memory,
            "{name}: {private} GiB of memory"
        );
        assert_eq!(layout.threads.len(), threads, "{name}");
        assert!(paging.cgroup_max_mib.len() <= layout.groups() as usize, "{name}");
        for step in 0..20_000 {
            match program.next(step % threads) {
                Some(Operation::Read { file, index, pages } | Operation::Write { file, index, pages }) => {
                    assert!(index + u64::from(pages) <= layout.files[file as usize].pages, "{name}");
                }
                Some(Operation::Touch { region, index, pages, .. }) => {
                    assert!(index + u64::from(pages) <= layout.regions[region as usize].pages, "{name}");
                }
                _ => {}
            }
        }
    }
}
