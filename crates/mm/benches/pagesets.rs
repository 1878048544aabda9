//! How fast the twin itself allocates and frees order-0 pages, on one simulated CPU.
//!
//! ```text
//!   stack            the peer: page numbers pushed and popped, nothing decided
//!   private          many requests at once from the CPU's own pageset
//!   single           one request, one free, through the whole path
//!   through_buddy    more than any pageset holds: refills, bulk frees, merging
//! ```
//!
//! An item is one page, allocated and freed.

use divan::Bencher;
use divan::counter::ItemsCount;
use machine::{Cpu, Machine, Profile};
use mm::Series;
use mm::memory_map::booted_memory;
use mm::{Category, MemoryManager, MigrateType, Pfn, Placement, Request, Settings};
use rand_pcg::Pcg64Mcg;
use std::hint::black_box;

const CPU: Cpu = Cpu(0);
const VARIANTS: &[&str] = &["pcp-base", "mainline-6.18"];
/// Pages of a run in the fast path: what unmapping or reading ahead asks for at once.
const RUN: usize = 64;
/// Pages of a round through the buddy allocator: 128 MiB.
const ROUND: usize = 32_768;

struct Kernel {
    machine: Machine<Category>,
    mm: MemoryManager,
    request: Request,
}

impl Kernel {
    /// A kernel on `intel-2s-224` whose first CPU has a filled pageset.
    fn warm(variant: &str) -> Kernel {
        let profile = Profile::parse(include_str!("../../../machines/intel-2s-224.toml")).unwrap();
        let (topology, costs) = (profile.topology(), profile.costs());
        let memory = booted_memory(&profile);
        let features = Series::PCP.variant(variant).unwrap().features;
        let mm = MemoryManager::new(&topology, &memory, features, Settings::default(), Pcg64Mcg::new(1));
        let request = Request::new(0, MigrateType::Movable, Placement::Local);
        let mut kernel = Kernel { machine: Machine::new(topology, costs), mm, request };
        let mut pages = Vec::new();
        kernel.allocate(2 * RUN, &mut pages);
        kernel.free(&mut pages);
        kernel
    }

    fn allocate(&mut self, count: usize, pages: &mut Vec<Pfn>) {
        for _ in 0..count {
            pages.push(self.mm.enter(&mut self.machine, CPU).alloc(&self.request).unwrap());
        }
    }

    fn free(&mut self, pages: &mut Vec<Pfn>) {
        for pfn in pages.drain(..) {
            self.mm.enter(&mut self.machine, CPU).free(pfn, 0);
        }
    }
}

#[divan::bench]
fn stack(bencher: Bencher) {
    let mut free: Vec<Pfn> = (0..2 * RUN as Pfn).collect();
    let mut pages = Vec::with_capacity(RUN);
    bencher.counter(ItemsCount::new(RUN)).bench_local(|| {
        for _ in 0..RUN {
            pages.push(black_box(&mut free).pop().unwrap());
        }
        for pfn in pages.drain(..) {
            black_box(&mut free).push(pfn);
        }
    });
}

#[divan::bench(args = VARIANTS)]
fn private(bencher: Bencher, variant: &str) {
    let mut kernel = Kernel::warm(variant);
    let mut pages = Vec::with_capacity(RUN);
    bencher.counter(ItemsCount::new(RUN)).bench_local(|| {
        let Kernel { machine, mm, request } = &mut kernel;
        let taken = mm.enter(machine, CPU).alloc_private(request, RUN, &mut pages);
        let freed = mm.enter(machine, CPU).free_private(&pages);
        assert_eq!((taken, freed), (RUN, RUN), "the fast path must do without the zone");
        pages.clear();
    });
}

#[divan::bench(args = VARIANTS)]
fn single(bencher: Bencher, variant: &str) {
    let mut kernel = Kernel::warm(variant);
    let mut pages = Vec::with_capacity(RUN);
    bencher.counter(ItemsCount::new(RUN)).bench_local(|| {
        kernel.allocate(RUN, &mut pages);
        kernel.free(&mut pages);
    });
}

#[divan::bench(args = VARIANTS, sample_size = 1)]
fn through_buddy(bencher: Bencher, variant: &str) {
    let mut kernel = Kernel::warm(variant);
    let mut pages = Vec::with_capacity(ROUND);
    bencher.counter(ItemsCount::new(ROUND)).bench_local(|| {
        kernel.allocate(ROUND, &mut pages);
        kernel.free(&mut pages);
    });
}

fn main() {
    divan::main();
}
