//! Benchmark of simulating page faults, one run on one thread: faults per second, including unmapping and
//! everything else that the scenario does.
//!
//! ```text
//!   in a large area             64 MiB mapped, touched page by page, half of the times in random order, and unmapped; memory suffices
//!   of a long-running system    thousands of small areas that come and go, three pages each; memory is nearly full
//!     folios-base                 order-0 folios only
//!     folios-v2                   folios up to 64 KiB: in most faults of the large area, and in few of the small ones
//! ```

mod counted;

use counted::measure;
use divan::Bencher;
use lab::scenario::{Scenario, load_machine};
use mm::Event;
use sim::Run;
use workload::map_unmap::{AreaClass, MapUnmap};
use workload::tasks::ProgramSpec;

fn main() {
    divan::main();
}

/// A changed copy of the system of the scenario `equilibrium`.
fn run_of(variant: &str, change: impl Fn(&mut MapUnmap)) -> Run {
    let mut scenario = Scenario::load("equilibrium").unwrap();
    let ProgramSpec::MapUnmap(spec) = &mut scenario.workload.programs[0].program else { panic!("no areas") };
    change(spec);
    let machine = load_machine(&scenario.machine).unwrap();
    scenario.run(variant, 1, &machine, &Default::default()).unwrap()
}

#[divan::bench(args = ["folios-base", "folios-v2"], sample_count = 5, sample_size = 1)]
fn in_a_large_area(bencher: Bencher, variant: &str) {
    const PAGES: u64 = 64 << 20 >> 12;
    let run = run_of(variant, |spec| {
        let large = AreaClass { least: PAGES, most: PAGES, weight: 1.0, life: 1.0, aligned: false };
        (spec.areas, spec.tasks, spec.mib, spec.turnovers) = (vec![large], 1, 150, 10);
    });
    measure(bencher, &run, Event::Pgfault);
}

#[divan::bench(args = ["folios-base", "folios-v2"], sample_count = 5, sample_size = 1)]
fn of_a_long_running_system(bencher: Bencher, variant: &str) {
    let run = run_of(variant, |spec| spec.turnovers = 10);
    measure(bencher, &run, Event::Pgfault);
}
