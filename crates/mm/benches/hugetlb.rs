//! A pool of 1 TiB on 252 CPUs, grown and shrunk, beside a plain loop over as many interrupts.

use divan::Bencher;
use machine::{Cpu, Machine, Profile};
use mm::memory_map::booted_memory;
use mm::{Category, MemoryManager, Series, Settings};
use rand_pcg::Pcg64Mcg;

/// Huge pages of 1 TiB.
const PAGES: u64 = 524_288;

fn main() {
    divan::main();
}

fn boot(variant: &str) -> (Machine<Category>, MemoryManager) {
    let profile = Profile::parse(include_str!("../../../machines/milan-vm-252.toml")).unwrap();
    let topology = profile.topology();
    let memory = booted_memory(&profile);
    let mut settings = Settings::default();
    settings.set("vm.hugetlb_optimize_vmemmap", "1").unwrap();
    let features = Series::HUGETLB.variant(variant).unwrap().features;
    let mm = MemoryManager::new(&topology, &memory, features, settings, Pcg64Mcg::new(1));
    (Machine::new(topology, profile.costs()), mm)
}

#[divan::bench(args = ["hugetlb-base", "mainline-6.7"], sample_count = 3, sample_size = 1)]
fn grow_and_shrink(bencher: Bencher, variant: &str) {
    bencher.with_inputs(|| boot(variant)).bench_local_values(|(mut machine, mut mm)| {
        for count in [PAGES, 0] {
            let write = mm.begin_write("vm.nr_hugepages", &count.to_string()).unwrap();
            mm.enter(&mut machine, Cpu(0)).finish_write(write);
        }
        machine.now(Cpu(0))
    });
}

/// What the unbatched kernel's interrupts come to if nothing but their times were added up.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn peer_adding_up_interrupts() -> u64 {
    let mut clocks = [0u64; 252];
    for flush in 0..2 * PAGES {
        for clock in &mut clocks {
            *clock = divan::black_box((*clock).max(flush) + 3);
        }
    }
    clocks.iter().sum()
}
