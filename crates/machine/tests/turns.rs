//! CPUs that are emulated one after the other.

use machine::{Category, Costs, Cpu, Machine, SpinLock, Time, Topology};

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

fn machine() -> Machine<Work> {
    let topology = Topology { cores_per_socket: 2, turn_shares: vec![0.75, 0.25], ..Topology::single() };
    Machine::new(topology, Costs::FREE)
}

#[test]
fn who_has_a_smaller_share_takes_longer() {
    let mut machine = machine();
    machine.charge(Cpu(0), Work::Any, ns(30));
    assert_eq!(machine.now(Cpu(0)), ns(30), "nobody else is busy");
    machine.set_busy(Cpu(0), true);
    machine.set_busy(Cpu(1), true);
    machine.charge(Cpu(0), Work::Any, ns(30));
    machine.charge(Cpu(1), Work::Any, ns(10));
    assert_eq!([0, 1].map(|cpu| machine.now(Cpu(cpu))), [ns(70), ns(40)]);
    machine.sleep_until(Cpu(1), Time::NEVER);
    machine.charge(Cpu(0), Work::Any, ns(30));
    assert_eq!(machine.now(Cpu(0)), ns(100));
}

#[test]
fn while_one_is_idle_the_others_have_equal_parts() {
    let topology = Topology { cores_per_socket: 3, turn_shares: vec![0.5, 0.25, 0.25], ..Topology::single() };
    let mut machine: Machine<Work> = Machine::new(topology, Costs::FREE);
    for cpu in [0, 1] {
        machine.set_busy(Cpu(cpu), true);
    }
    for cpu in [0, 1] {
        machine.charge(Cpu(cpu), Work::Any, ns(10));
        assert_eq!(machine.now(Cpu(cpu)), ns(20));
    }
}

#[test]
fn who_waits_does_not_wait_longer_than_for_the_other() {
    let mut machine = machine();
    machine.set_busy(Cpu(0), true);
    machine.set_busy(Cpu(1), true);
    let mut lock = SpinLock::default();
    lock.acquire(&mut machine, Cpu(0), Work::Any);
    lock.hold(&mut machine, Cpu(0), ns(30), Work::Any);
    let wait = lock.acquire(&mut machine, Cpu(1), Work::Any);
    assert_eq!((wait, machine.now(Cpu(1))), (ns(40), ns(40)));
}
