//! Locks that are taken several times in one step, by CPUs whose clocks are then ahead of others.

use machine::topology::Distance;
use machine::{Category, Costs, Cpu, Machine, SpinLock, Time, Topology};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Other,
    Wait,
    Hold,
}

impl Category for Work {
    const COUNT: usize = 3;
    const IDLE: Self = Work::Other;

    fn index(self) -> usize {
        self as usize
    }
}

const LOCK: [Work; 2] = [Work::Wait, Work::Hold];

fn ns(time: u64) -> Time {
    Time::from_nanoseconds(time)
}

fn machine(cpus: u16, line: u64) -> Machine<Work> {
    let mut costs = Costs { line_transfer: [ns(line); Distance::COUNT], ..Costs::FREE };
    costs.line_transfer[Distance::SameCpu as usize] = Time::ZERO;
    Machine::new(Topology { cores_per_socket: cpus, ..Topology::single() }, costs)
}

/// Simulates one section. Returns how long `cpu` waited for it.
fn take(lock: &mut SpinLock, machine: &mut Machine<Work>, cpu: u16, hold: u64) -> Time {
    let waited = lock.statistics().wait;
    lock.acquire(machine, Cpu(cpu), Work::Wait);
    lock.hold(machine, Cpu(cpu), ns(hold), LOCK);
    lock.statistics().wait - waited
}

/// CPU 0 holds the lock from 0 to 10, from 100 to 110 and from 200 to 210, all before any other CPU acts.
fn three_sections(machine: &mut Machine<Work>) -> SpinLock {
    let mut lock = SpinLock::default();
    machine.set_earliest(Time::ZERO);
    for _ in 0..3 {
        take(&mut lock, machine, 0, 10);
        machine.charge(Cpu(0), Work::Other, ns(90));
    }
    lock
}

#[test]
fn who_comes_between_two_sections_of_a_step_waits_for_neither() {
    let mut machine = machine(2, 0);
    let mut lock = three_sections(&mut machine);
    machine.charge(Cpu(1), Work::Other, ns(20));
    assert_eq!(take(&mut lock, &mut machine, 1, 10), Time::ZERO);
    assert_eq!(machine.now(Cpu(1)), ns(30));
}

#[test]
fn who_comes_during_a_section_waits_for_its_end_only() {
    let mut machine = machine(2, 0);
    let mut lock = three_sections(&mut machine);
    machine.charge(Cpu(1), Work::Other, ns(103));
    assert_eq!(take(&mut lock, &mut machine, 1, 10), ns(7));
    assert_eq!(machine.now(Cpu(1)), ns(120));
}

#[test]
fn who_would_not_be_done_before_the_next_section_waits_for_it() {
    let mut machine = machine(2, 1);
    let mut lock = three_sections(&mut machine);
    machine.charge(Cpu(1), Work::Other, ns(95));
    // The transfer of the lock word, then the wait until 110 and the transfer of two lines.
    assert_eq!(take(&mut lock, &mut machine, 1, 10), ns(17));
    assert_eq!(machine.now(Cpu(1)), ns(122));
    assert_eq!(lock.statistics().contended, 1);
}

#[test]
fn a_trylock_finds_the_lock_free_between_two_sections() {
    let mut machine = machine(2, 0);
    let lock = three_sections(&mut machine);
    let held = [0, 9, 10, 99, 100, 109, 110, 209, 210].map(|time| lock.is_held(ns(time)));
    assert_eq!(held, [true, true, false, false, true, true, false, true, false]);
}

#[test]
fn the_lock_comes_from_whoever_had_it_before_and_not_from_who_has_it_later() {
    let mut machine = machine(3, 0);
    let mut lock = three_sections(&mut machine);
    machine.charge(Cpu(1), Work::Other, ns(20));
    take(&mut lock, &mut machine, 1, 10);
    let owners = [5, 15, 40, 150].map(|time| lock.owner_before(ns(time)));
    assert_eq!(owners, [Some(Cpu(0)), Some(Cpu(0)), Some(Cpu(1)), Some(Cpu(0))]);
    machine.set_earliest(ns(50));
    machine.charge(Cpu(2), Work::Other, ns(50));
    take(&mut lock, &mut machine, 2, 0);
    assert_eq!(lock.owner_before(ns(49)), Some(Cpu(1)), "what ended is forgotten, not who had it");
}

/// A lock whose CPUs arrive in order: it becomes free at one time, from one owner.
#[derive(Default)]
struct Queue {
    free_at: Time,
    owner: Option<u16>,
}

impl Queue {
    fn take(&mut self, now: Time, cpu: u16, hold: Time, line: Time) -> Time {
        let lines = match self.owner {
            Some(owner) if owner != cpu => 1 + u64::from(self.free_at > now),
            _ => 0,
        };
        self.free_at = now.max(self.free_at) + line * lines + hold;
        self.owner = Some(cpu);
        self.free_at
    }
}

proptest! {
    /// One section per step: as CPUs arrive in order, they form a queue.
    #[test]
    fn sections_in_order_of_time_are_a_queue(
        steps in proptest::collection::vec((0u16..5, 0u64..60, 0u64..20), 1..200)
    ) {
        let (mut machine, mut lock, mut queue) = (machine(5, 3), SpinLock::default(), Queue::default());
        for (cpu, work, hold) in steps {
            machine.charge(Cpu(cpu), Work::Other, ns(work));
            let next = (0..5).map(Cpu).min_by_key(|&cpu| machine.now(cpu)).unwrap();
            machine.set_earliest(machine.now(next));
            let until = queue.take(machine.now(next), next.0, ns(hold), ns(3));
            take(&mut lock, &mut machine, next.0, hold);
            prop_assert_eq!(machine.now(next), until);
        }
    }

    /// Several sections per step: no two overlap, and the lock is free whenever no CPU holds it.
    #[test]
    fn no_two_sections_overlap(
        steps in proptest::collection::vec(proptest::collection::vec((0u64..60, 1u64..20), 1..6), 1..80)
    ) {
        let (mut machine, mut lock) = (machine(5, 0), SpinLock::default());
        let mut sections: Vec<(Time, Time)> = Vec::new();
        for step in steps {
            let next = (0..5).map(Cpu).min_by_key(|&cpu| machine.now(cpu)).unwrap();
            let earliest = machine.now(next);
            machine.set_earliest(earliest);
            for (work, hold) in step {
                let came = machine.now(next);
                take(&mut lock, &mut machine, next.0, hold);
                let section = (machine.now(next) - ns(hold), machine.now(next));
                for &(from, until) in &sections {
                    prop_assert!(section.1 <= from || until <= section.0, "{section:?} and {from:?} to {until:?}");
                }
                // No CPU waits while there is room.
                let mut free = came;
                let mut later: Vec<_> = sections.iter().filter(|(_, until)| *until > came).collect();
                later.sort();
                for &&(from, until) in &later {
                    if from < free + ns(hold) {
                        free = free.max(until);
                    }
                }
                prop_assert_eq!(section.0, free);
                sections.push(section);
                machine.charge(next, Work::Other, ns(work));
            }
            let times: Vec<u64> = (0..400).map(|time| earliest.picoseconds() / 1000 + time).collect();
            for time in times.into_iter().map(ns) {
                let held = sections.iter().any(|&(from, until)| from <= time && time < until);
                prop_assert_eq!(lock.is_held(time), held, "at {:?}", time);
            }
        }
    }
}
