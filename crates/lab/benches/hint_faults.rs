//! Benchmark of simulating hint faults, one run on one thread: hint faults per second, including the
//! accesses, scans and migrations around them.
//!
//! ```text
//!   where all use all           two processes, each thread uses all memory of its process: concurrent faults, pages that migrate
//!   where each has its own      slices that are first on another node, one thread each
//!     numa-base                   every thread scans everything
//!     numa-6.12                   a thread skips VMAs that it has not used
//! ```

mod counted;

use counted::measure;
use divan::Bencher;
use lab::scenario::{Scenario, load_machine};
use mm::Event;
use sim::Run;
use workload::tasks::ProgramSpec;

fn main() {
    divan::main();
}

/// A scenario on the machine of 256 CPUs, scaled down to an eighth of them, with scanning from a tenth of a
/// second on.
fn run_of(name: &str, variant: &str, change: impl Fn(&mut ProgramSpec)) -> Run {
    let mut scenario = Scenario::load(name).unwrap();
    let host = &mut scenario.workload;
    host.milliseconds = 3000;
    change(&mut host.programs[0].program);
    let mut machine = load_machine(&scenario.machine).unwrap();
    machine.topology.cores_per_socket /= 8;
    let settings = [("scan_delay_ms", "100"), ("scan_period_min_ms", "100")];
    let settings = settings.map(|(name, value)| (format!("numa_balancing/{name}"), value.to_string()));
    scenario.run(variant, 1, &machine, &settings.into()).unwrap()
}

#[divan::bench(args = ["numa-base", "numa-6.12"], sample_count = 5, sample_size = 1)]
fn where_all_use_all(bencher: Bencher, variant: &str) {
    let run = run_of("numa01", variant, |program| {
        let ProgramSpec::Numa01(program) = program else { panic!("{program:?}") };
        (program.mib, program.loops) = (1024, u64::MAX);
    });
    measure(bencher, &run, Event::NumaHintFaults);
}

#[divan::bench(args = ["numa-base", "numa-6.12"], sample_count = 5, sample_size = 1)]
fn where_each_has_its_own(bencher: Bencher, variant: &str) {
    let run = run_of("numa02", variant, |program| {
        let ProgramSpec::Numa02(program) = program else { panic!("{program:?}") };
        (program.mib, program.loops) = (1024, u64::MAX);
    });
    measure(bencher, &run, Event::NumaHintFaults);
}
