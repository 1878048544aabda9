//! CPUs that are emulated one after the other, in turns, or share a core.

use machine::{Category, Costs, Cpu, Machine, SpinLock, Time, Topology, TurnShares};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Any,
}

impl Category for Work {
    const COUNT: usize = 1;
    const IDLE: Self = Work::Any;

    fn index(self) -> usize {
        0
    }
}

fn ns(time: u64) -> Time {
    Time::from_nanoseconds(time)
}

/// A machine with `cpus` CPUs, of which the first two have unequal turns while only they are busy.
fn machine(cpus: u16) -> Machine<Work> {
    let turn_shares = vec![TurnShares { busy: vec![Cpu(0), Cpu(1)], shares: vec![0.75, 0.25] }];
    Machine::new(Topology { cores_per_socket: cpus, turn_shares, ..Topology::single() }, Costs::FREE)
}

#[test]
fn who_has_a_smaller_share_takes_longer() {
    let mut machine = machine(2);
    machine.charge(Cpu(0), Work::Any, ns(30));
    assert_eq!(machine.now(Cpu(0)), ns(30), "nobody else is busy");
    machine.set_busy(Cpu(0));
    machine.set_busy(Cpu(1));
    machine.charge(Cpu(0), Work::Any, ns(30));
    machine.charge(Cpu(1), Work::Any, ns(10));
    assert_eq!([0, 1].map(|cpu| machine.now(Cpu(cpu))), [ns(70), ns(40)]);
    machine.sleep_until(Cpu(1), Time::NEVER);
    machine.charge(Cpu(0), Work::Any, ns(30));
    assert_eq!(machine.now(Cpu(0)), ns(100));
}

#[test]
fn work_that_fits_into_a_time_takes_that_time() {
    let topology = Topology { threads_per_core: 2, ..Topology::single() };
    let costs = Costs { smt_slowdown: 1.6, ..Costs::FREE };
    let mut machine: Machine<Work> = Machine::new(topology, costs);
    assert_eq!(machine.work_within(Cpu(0), ns(800)), ns(800), "the sibling is idle");
    machine.set_busy(Cpu(1));
    assert_eq!(machine.work_within(Cpu(0), ns(800)), ns(500));
    machine.work(Cpu(0), Work::Any, ns(500));
    assert_eq!(machine.now(Cpu(0)), ns(800));
}

#[test]
fn cpus_of_another_set_have_equal_parts() {
    let mut machine = machine(3);
    for (busy, parts) in [([0, 1], [4, 12]), ([0, 2], [6, 6]), ([1, 2], [6, 6])] {
        for cpu in 0..3 {
            if busy.contains(&cpu) { machine.set_busy(Cpu(cpu)) } else { machine.set_idle(Cpu(cpu)) }
        }
        for (cpu, part) in busy.into_iter().zip(parts) {
            let before = machine.now(Cpu(cpu));
            machine.charge(Cpu(cpu), Work::Any, ns(3));
            assert_eq!(machine.now(Cpu(cpu)) - before, ns(part), "CPU {cpu} of {busy:?}");
        }
    }
}

#[test]
fn who_waits_does_not_wait_longer_than_for_the_other() {
    let mut machine = machine(2);
    machine.set_busy(Cpu(0));
    machine.set_busy(Cpu(1));
    let mut lock = SpinLock::default();
    lock.acquire(&mut machine, Cpu(0), Work::Any);
    lock.hold(&mut machine, Cpu(0), ns(30), [Work::Any; 2]);
    let wait = lock.acquire(&mut machine, Cpu(1), Work::Any);
    assert_eq!((wait, machine.now(Cpu(1))), (ns(40), ns(40)));
}

#[test]
fn a_turn_is_lost_once_a_round_while_others_are_busy() {
    let mut machine = machine(2);
    let lost = |machine: &Machine<Work>, cpu, from, until| machine.turn_lost(Cpu(cpu), ns(from), ns(until));
    assert_eq!(lost(&machine, 0, 0, 5_000_000), None, "nobody else is busy");
    machine.set_busy(Cpu(0));
    machine.set_busy(Cpu(1));
    assert_eq!(lost(&machine, 0, 1_000_000, 1_999_999), None);
    assert_eq!(lost(&machine, 0, 1_999_999, 2_000_000), Some(ns(250_000)));
    assert_eq!(lost(&machine, 1, 1_999_999, 2_000_000), Some(ns(750_000)));
    let together: Machine<Work> = Machine::new(Topology::single(), Costs::FREE);
    assert_eq!(lost(&together, 0, 0, 5_000_000), None);
}
