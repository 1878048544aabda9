//! Benchmarks of replays by rulers and kernels. The benchmark `libcachesim` compares them with libCacheSim.
//!
//! ```text
//!   replay   one policy, one size, one core
//!   curves   the part of `mmtwin mrc` after reading a trace: 16 sizes of 4 policies, all cores
//! ```

mod skewed;

use divan::Bencher;
use divan::counter::ItemsCount;
use lab::rulers::{Policy, curves, default_sizes};
use skewed::{ACCESSES, MEMORY, SEQUENCE};

#[divan::bench(args = Policy::ALL.iter().map(|policy| policy.name), sample_count = 3, sample_size = 1)]
fn replay(bencher: Bencher, policy: &str) {
    let policy = Policy::named(policy).unwrap();
    let sequence = &*SEQUENCE;
    bencher.counter(ItemsCount::new(ACCESSES)).bench_local(|| policy.misses(MEMORY, sequence));
}

/// Sizes and policies of a typical curve.
const SIZES: usize = 16;
const POLICIES: [&str; 4] = ["lru", "arc", "classic", "mglru-6.7"];

#[divan::bench(name = "curves", sample_count = 1, sample_size = 1)]
fn draw_curves(bencher: Bencher) {
    let policies = POLICIES.map(|policy| Policy::named(policy).unwrap());
    let sequence = &*SEQUENCE;
    let sizes = default_sizes(sequence.distinct(), SIZES, None);
    let replays = (policies.len() * sizes.len()) as u64;
    bencher.counter(ItemsCount::new(replays * ACCESSES)).bench_local(|| curves(sequence, &policies, &sizes));
}

fn main() {
    divan::main();
}
