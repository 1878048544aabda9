//! Benchmark: simulating broadcasts to all CPUs.
//!
//! ```text
//!   plain_loop    for comparison: advances as many clocks, without decisions
//!   parked        one initiator, all other CPUs idle, as when a pool of huge pages grows
//!   busy          all other CPUs are busy, and work between two broadcasts
//! ```
//!
//! An item is one target.

use divan::Bencher;
use divan::counter::ItemsCount;
use machine::{Category, Cpu, Flush, Machine, Profile, Time};
use std::hint::black_box;

const CPUS: usize = 252;

/// As many categories as a memory manager has, so that the accounts are as large.
#[derive(Clone, Copy, Debug)]
struct Number(usize);

impl Category for Number {
    const COUNT: usize = 32;
    const IDLE: Self = Number(31);
    fn index(self) -> usize {
        self.0
    }
}

fn machine() -> Machine<Number> {
    let profile = Profile::parse(include_str!("../../../machines/milan-vm-252.toml")).unwrap();
    let mut machine = Machine::new(profile.topology(), profile.costs());
    machine.set_busy(Cpu(0));
    machine
}

#[divan::bench]
fn plain_loop(bencher: Bencher) {
    let mut clocks = vec![0u64; CPUS];
    bencher.counter(ItemsCount::new(CPUS - 1)).bench_local(|| {
        for clock in black_box(&mut clocks).iter_mut().skip(1) {
            *clock = (*clock).max(black_box(1)) + 1;
        }
    });
}

#[divan::bench]
fn parked(bencher: Bencher) {
    let mut machine = machine();
    bencher.counter(ItemsCount::new(CPUS - 1)).bench_local(|| {
        machine.flush_kernel_tlb(Cpu(0), Flush::Range { pages: 8 }, Number(0), Number(1));
    });
}

#[divan::bench]
fn busy(bencher: Bencher) {
    let mut machine = machine();
    for cpu in machine.topology.all_cpus() {
        machine.set_busy(cpu);
    }
    bencher.counter(ItemsCount::new(CPUS - 1)).bench_local(|| {
        machine.flush_kernel_tlb(Cpu(0), Flush::Range { pages: 8 }, Number(0), Number(1));
        let until = machine.now(Cpu(0));
        for cpu in machine.topology.all_cpus().skip(1) {
            let behind = until.saturating_sub(machine.now(cpu));
            machine.charge(cpu, Number(2), behind.max(Time::from_nanoseconds(1)));
        }
    });
}

fn main() {
    divan::main();
}
