//! Tests that the scenarios of programs that run out of memory can be read and ask for what their
//! descriptions say.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use workload::demand::PAGE_SIZE;
use workload::operation::Operation;
use workload::tasks::ProgramSpec;

#[derive(Deserialize)]
struct Scenario {
    machine: String,
    workload: Host,
}

#[derive(Deserialize)]
struct Host {
    files: String,
    swap: Option<String>,
    programs: Vec<HostProgram>,
}

#[derive(Deserialize)]
struct HostProgram {
    program: ProgramSpec,
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
    ("kernel-build-3g", 1300.0 / 1024.0, 0.0, 12),
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
        let Scenario { machine, workload } = toml::from_str(text).unwrap();
        let machine = std::fs::read_to_string(format!("../../machines/{machine}.toml")).unwrap();
        let machine = machine::Profile::parse(&machine).unwrap();
        assert!(machine.device(&workload.files).is_some(), "{name}");
        assert!(workload.swap.iter().all(|swap| machine.device(swap).is_some()), "{name}");
        let (mut file, mut private, mut running) = (0, 0, 0);
        for HostProgram { program: mut spec } in workload.programs {
            spec.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(spec.figures_mut().iter().all(|(_, figure)| figure.range.is_some()), "{name}: no range");
            let mut program = spec.copies().start(8, 1, Pcg64Mcg::seed_from_u64).unwrap();
            let layout = program.layout().clone();
            file += layout.files.iter().map(|file| file.pages).sum::<u64>();
            private += layout.processes.iter().flat_map(|process| &process.areas).sum::<u64>();
            running += layout.threads.len();
            let mut areas: Vec<Vec<u64>> =
                layout.processes.iter().map(|process| process.areas.clone()).collect();
            for step in 0..20_000 {
                let thread = step % layout.threads.len();
                match program.next(thread, 0) {
                    Some(
                        Operation::Read { file, index, pages } | Operation::Write { file, index, pages },
                    ) => {
                        assert!(index + u64::from(pages) <= layout.files[file as usize].pages, "{name}");
                    }
                    Some(Operation::Access { area, first, pages, .. }) => {
                        let process = layout.threads[thread].process as usize;
                        assert!(first + pages <= areas[process][area as usize], "{name}");
                    }
                    Some(Operation::Exec) => areas[layout.threads[thread].process as usize].clear(),
                    Some(Operation::Mmap { pages, .. }) => {
                        areas[layout.threads[thread].process as usize].push(pages);
                    }
                    _ => {}
                }
            }
        }
        let gib = |pages: u64| (pages * PAGE_SIZE) as f64 / GIB;
        let (file, private) = (gib(file), gib(private));
        assert!((file / files - 1.0).abs() < 0.01 || file == files, "{name}: {file} GiB of files");
        assert!(
            (private / memory - 1.0).abs() < 0.01 || private == memory,
            "{name}: {private} GiB of memory"
        );
        assert_eq!(running, threads, "{name}");
    }
}
