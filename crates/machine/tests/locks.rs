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
fn who_asked_first_is_not_kept_waiting_by_who_asks_later() {
    let mut machine = machine(3, 1);
    let mut lock = three_sections(&mut machine);
    assert_eq!(machine.now(Cpu(0)), ns(300));
    machine.charge(Cpu(1), Work::Other, ns(95));
    // The transfer of the lock word only; the section that was to begin at 100 begins at 106.
    assert_eq!(take(&mut lock, &mut machine, 1, 10), ns(1) + ns(6));
    assert_eq!([0, 1].map(|cpu| machine.now(Cpu(cpu))), [ns(306), ns(106)]);
    let held = [105, 115, 116, 199, 200, 209, 210].map(|time| lock.is_held(ns(time)));
    assert_eq!(held, [true, true, false, false, true, true, false]);
    assert_eq!(lock.statistics().contended, 1);
    assert_eq!(lock.statistics().longest_wait, ns(6));
    // Who comes during a section is behind it, and the next one does not wait for either.
    machine.charge(Cpu(2), Work::Other, ns(105));
    assert_eq!(take(&mut lock, &mut machine, 2, 10), ns(11) + ns(2));
    assert_eq!([0, 2].map(|cpu| machine.now(Cpu(cpu))), [ns(306), ns(128)]);
}

#[test]
fn a_lock_that_is_taken_again_at_once_is_handed_over_in_between() {
    let mut machine = machine(3, 0);
    let mut lock = SpinLock::default();
    machine.set_earliest(Time::ZERO);
    (0..100).for_each(|_| assert_eq!(take(&mut lock, &mut machine, 0, 10), Time::ZERO));
    machine.charge(Cpu(1), Work::Other, ns(4));
    machine.charge(Cpu(2), Work::Other, ns(5));
    // Each waits for the section that it found, and the second for the first. CPU 0 asked again at 10, before either was done.
    assert_eq!(
        [1, 2].map(|cpu| {
            take(&mut lock, &mut machine, cpu, 10);
            machine.now(Cpu(cpu))
        }),
        [ns(20), ns(30)]
    );
    assert_eq!(machine.now(Cpu(0)), ns(1020));
    // Now CPU 0 is next, as it asked at 10, and so on to the end.
    for turn in 1..90 {
        take(&mut lock, &mut machine, 1, 10);
        assert_eq!(machine.now(Cpu(1)), ns(30 + 20 * turn));
    }
    assert_eq!(machine.now(Cpu(0)), ns(1020 + 10 * 89));
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

    /// Several sections per step: the lock is had in the order in which it was asked for, and who has it later for that is late.
    #[test]
    fn sections_of_long_steps_are_a_queue(
        steps in proptest::collection::vec(proptest::collection::vec((0u64..60, 1u64..20), 1..6), 1..80)
    ) {
        let (mut machine, mut lock) = (machine(5, 0), SpinLock::default());
        let mut turns = Turns::default();
        for step in steps {
            let next = (0..5).map(Cpu).min_by_key(|&cpu| machine.now(cpu)).unwrap();
            let earliest = machine.now(next);
            machine.set_earliest(earliest);
            for (work, hold) in step {
                machine.charge(next, Work::Other, ns(work));
                take(&mut lock, &mut machine, next.0, hold);
                turns.take(usize::from(next.0), work, hold);
            }
            let ends = [0, 1, 2, 3, 4].map(|cpu| machine.now(Cpu(cpu)));
            prop_assert_eq!(ends, turns.ends.map(ns));
            for time in earliest.picoseconds() / 1000..turns.ends.into_iter().max().unwrap() {
                let held = turns.queue.iter().any(|turn| turn.from <= time && time < turn.from + turn.hold);
                prop_assert_eq!(lock.is_held(ns(time)), held, "at {}", time);
            }
        }
    }
}

/// A section, in nanoseconds.
#[derive(Clone, Copy)]
struct Turn {
    cpu: usize,
    asked: u64,
    from: u64,
    hold: u64,
}

/// All sections that ever were, in the order in which the lock is had.
#[derive(Default)]
struct Turns {
    queue: Vec<Turn>,
    ends: [u64; 5],
}

impl Turns {
    fn take(&mut self, cpu: usize, work: u64, hold: u64) {
        let asked = self.ends[cpu] + work;
        let place = self.queue.iter().take_while(|turn| turn.asked <= asked).count();
        self.queue.insert(place, Turn { cpu, asked, from: asked, hold });
        let before = self.queue.clone();
        let mut free = 0;
        for i in 0..self.queue.len() {
            self.queue[i].from = self.queue[i].from.max(free);
            free = self.queue[i].from + self.queue[i].hold;
            if i > place {
                // A CPU asks when it is done with its last section, and nobody asks before who is in front of him.
                let last = self.queue[place + 1..i].iter().rposition(|turn| turn.cpu == self.queue[i].cpu);
                let done = last
                    .map_or(0, |last| self.queue[place + 1 + last].from + self.queue[place + 1 + last].hold);
                self.queue[i].asked = self.queue[i].asked.max(done).max(self.queue[i - 1].asked);
            }
        }
        self.ends[cpu] = self.queue[place].from + hold;
        for other in (0..5).filter(|&other| other != cpu) {
            let moved = self.queue.iter().zip(&before).filter(|(turn, _)| turn.cpu == other);
            self.ends[other] += moved.map(|(after, before)| after.from - before.from).max().unwrap_or(0);
        }
    }
}
