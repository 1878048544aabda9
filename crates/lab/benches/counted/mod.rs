//! Runs that are timed by what the kernel counts in them.

use divan::Bencher;
use divan::counter::ItemsCount;
use mm::Event;
use sim::Run;

/// Times a run, as so many events a second. There are as many whenever it is made.
pub fn measure(bencher: Bencher, run: &Run, event: Event) {
    let simulate = || sim::run(run).unwrap().counters.get(event);
    bencher.counter(ItemsCount::new(simulate())).bench_local(simulate);
}
