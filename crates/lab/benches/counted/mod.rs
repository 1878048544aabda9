//! Times runs by the number of events that the kernel counts.

use divan::Bencher;
use divan::counter::ItemsCount;
use mm::Event;
use sim::Run;

/// Times a run as events per second; every run has the same number of events.
pub fn measure(bencher: Bencher, run: &Run, event: Event) {
    let simulate = || sim::run(run).unwrap().counters.get(event);
    bencher.counter(ItemsCount::new(simulate())).bench_local(simulate);
}
