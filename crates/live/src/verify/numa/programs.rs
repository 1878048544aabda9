//! The programs that run on several nodes, here as in the twin, from one description.
//!
//! ```text
//!   workload::threads ── operations ──┬─► process: real threads, in an emulated machine
//!                                     └─► sim::numa: the twin's
//! ```
//!
//! Each runs for ten seconds on two nodes of two CPUs, and for five where every decision is recorded. Scan delays and periods are
//! a tenth of the defaults and less, so that seconds show what takes minutes.

use std::collections::BTreeMap;

use sim::numa::{NumaThreads, PlacementKey, ProcessLayout};
use workload::threads::autonuma::{FirstPass, Numa01, Numa02, PinMove};
use workload::threads::{ProgramSpec, Threads};

/// How long each runs.
pub const SECONDS: u64 = 10;
/// How long each runs while its decisions are recorded.
pub const RECORDED_SECONDS: u64 = 5;
/// Memory of each process.
pub const MIB: u64 = 64;
/// How long a thread stays where its memory is not to be, before it may run anywhere.
const STAY_MILLISECONDS: u64 = 200;
const ENDLESS: u64 = u64::MAX;

/// All of them: both processes use all of their memory with every thread; each thread has a mapping of its own, which lies on
/// the other node first; slices of memory that the first thread touched; a thread that is moved to the other node and back.
pub const PROGRAMS: [&str; 4] = ["numa01", "numa01tl", "numa02", "pinmove"];

/// Settings that differ from the kernel's.
pub const SETTINGS: [(&str, &str); 5] = [
    ("numa_balancing/scan_delay_ms", "100"),
    ("numa_balancing/scan_period_min_ms", "100"),
    ("numa_balancing/scan_period_max_ms", "1000"),
    ("numa_balancing/scan_size_mb", "16"),
    ("transparent_hugepage/enabled", "never"),
];

/// The settings, as scenarios have them.
pub fn settings() -> BTreeMap<String, String> {
    SETTINGS.iter().map(|&(name, value)| (name.into(), value.into())).collect()
}

/// The program named `name`, for so many seconds.
pub fn program(name: &str, seconds: u64) -> Option<ProgramSpec> {
    let first_pass = |shift| Some(FirstPass { shift, stay_milliseconds: STAY_MILLISECONDS, one_cpu: true });
    let two_processes = Numa02 {
        threads: Threads::Number(2),
        mib: MIB,
        loops: ENDLESS,
        processes: 2,
        own_areas: true,
        main_touches_first: false,
        mapped_after_milliseconds: 0,
        first_pass: first_pass(1),
    };
    Some(match name {
        "numa01" | "numa01n4" => ProgramSpec::Numa01(Numa01 {
            processes: if name == "numa01" { 2 } else { 4 },
            threads: Threads::Number(2),
            mib: MIB,
            loops: ENDLESS,
            thread_local: false,
            same_node: false,
            first_pass: first_pass(0),
        }),
        "numa01tl" => ProgramSpec::Numa02(two_processes),
        "numa02" => ProgramSpec::Numa02(Numa02 {
            threads: Threads::Number(4),
            processes: 1,
            own_areas: false,
            main_touches_first: true,
            first_pass: None,
            ..two_processes
        }),
        "pinmove" => ProgramSpec::PinMove(PinMove { mib: MIB, milliseconds: seconds * 1000 }),
        _ => return None,
    })
}

/// The same as a scenario's workload.
pub fn threads(name: &str) -> Option<NumaThreads> {
    let program = program(name, SECONDS)?;
    let (placement, layout) = (Some(PlacementKey::Swap), ProcessLayout::FixedAreas);
    let milliseconds = SECONDS * 1000;
    Some(NumaThreads {
        placement,
        layout,
        cpuset_mems: Vec::new(),
        milliseconds,
        begins_on: 0,
        kernel_thread: None,
        lru_add: None,
        program,
    })
}
