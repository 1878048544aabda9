//! How fast rulers and kernels replay. `libcachesim` here puts the same figures beside a peer's.

mod skewed;

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::rulers::Policy;
use skewed::{ACCESSES, MEMORY, SEQUENCE};
use tikv_jemallocator::Jemalloc;

/// As the command does.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[divan::bench(args = Policy::ALL.iter().map(|policy| policy.name), sample_count = 3, sample_size = 1)]
fn replay(bencher: Bencher, policy: &str) {
    let policy = Policy::named(policy).unwrap();
    let sequence = &*SEQUENCE;
    bencher.counter(ItemsCount::new(ACCESSES)).bench_local(|| policy.misses(MEMORY, sequence));
}

fn main() {
    divan::main();
}
