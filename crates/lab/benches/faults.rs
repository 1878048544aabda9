//! How fast page faults are simulated: a system that maps memory and gives it back for long, one run, one thread.
//!
//! ```text
//!   faults        page faults simulated a second, unmapping and all else that the scenario does included
//!     P0            single pages only
//!     v2            folios up to 64 KiB; single pages in most faults, as areas are small and memory is nearly full
//! ```

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::scenario::{Run, Scenario, Workload, load_machine};
use mm::Event;

fn main() {
    divan::main();
}

fn long_run(variant: &str) -> Run {
    let mut scenario = Scenario::load("equilibrium").unwrap();
    if let Workload::LongRunning(system) = &mut scenario.workload {
        system.turnovers = 10;
    }
    let machine = load_machine(&scenario.machine).unwrap();
    scenario.run(variant, 1, &machine, &Default::default()).unwrap()
}

/// Page faults of [`long_run`], which are the same in every run.
fn simulate(run: &Run) -> u64 {
    lab::simulation::run(run).unwrap().counters.get(Event::Pgfault)
}

#[divan::bench(args = ["P0", "v2"], sample_count = 5, sample_size = 1)]
fn faults(bencher: Bencher, variant: &str) {
    let run = long_run(variant);
    bencher.counter(ItemsCount::new(simulate(&run))).bench_local(|| simulate(&run));
}
