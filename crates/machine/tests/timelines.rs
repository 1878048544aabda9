//! A timeline says what the accounts say, whatever its resolution, and noting it changes no clock.

use machine::timeline::{LockId, MOST_EVENTS, Slice, Window};
use machine::{Category, Costs, Cpu, Flush, Machine, SpinLock, Time, Timeline, Topology};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle,
    Working,
    Waiting,
    Holding,
    Flushing,
    Interrupted,
}

const ALL: [Doing; 6] =
    [Doing::Idle, Doing::Working, Doing::Waiting, Doing::Holding, Doing::Flushing, Doing::Interrupted];

impl Category for Doing {
    const COUNT: usize = ALL.len();
    const IDLE: Doing = Doing::Idle;
    fn index(self) -> usize {
        self as usize
    }
}

const CPUS: usize = 4;

/// What a CPU does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Work(u64),
    Idle(u64),
    Lock(u64),
    Flush,
    Switch(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1..3000u64).prop_map(Act::Work),
        1 => (1..9000u64).prop_map(Act::Idle),
        2 => (1..3000u64).prop_map(Act::Lock),
        1 => Just(Act::Flush),
        1 => (0..3u32).prop_map(Act::Switch),
    ]
}

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

/// Lets the CPU that is furthest behind do the next act, and so on.
fn play(machine: &mut Machine<Doing>, acts: &[Act]) -> SpinLock {
    let mut lock = SpinLock::numbered(7);
    for act in acts {
        let cpu = (0..CPUS as u16).map(Cpu).min_by_key(|&cpu| machine.now(cpu)).unwrap();
        machine.set_earliest(machine.now(cpu));
        machine.set_busy(cpu);
        match *act {
            Act::Work(time) => machine.charge(cpu, Doing::Working, ns(time)),
            Act::Idle(time) => machine.idle_until(cpu, machine.now(cpu) + ns(time)),
            Act::Lock(time) => {
                lock.acquire(machine, cpu, Doing::Waiting);
                lock.hold(machine, cpu, ns(time), [Doing::Waiting, Doing::Holding]);
            }
            Act::Flush => machine.flush_kernel_tlb(cpu, Flush::All, Doing::Flushing, Doing::Interrupted),
            Act::Switch(task) => {
                if let Some(timeline) = machine.accounts.timeline() {
                    timeline.switch(cpu, task);
                }
            }
        }
    }
    lock
}

fn machine() -> Machine<Doing> {
    let costs = Costs {
        line_transfer: [ns(0), ns(1), ns(2), ns(4)],
        ipi_send: ns(3),
        ipi_deliver: ns(170),
        ipi_receive: ns(50),
        ipi_wake: ns(310),
        tlb_flush_all: ns(60),
        tlb_refill: ns(90),
        ..Costs::FREE
    };
    Machine::new(Topology::of_nodes(2, CPUS as u16 / 2), costs)
}

/// The sum of what slices have of a category.
fn sum(slices: &[Slice], what: Doing) -> Time {
    let parts = slices.iter().flat_map(|slice| &slice.parts);
    parts.filter(|(known, _)| *known == what as u32).map(|&(_, time)| time).sum()
}

/// Plays with a timeline; returns it with the machine and the lock.
fn noted(acts: &[Act], resolution: Time) -> (Timeline, Machine<Doing>, SpinLock) {
    let mut machine = machine();
    let window = Window { from: Time::ZERO, until: Time::NEVER, resolution };
    machine.accounts.begin_timeline(Timeline::new(window, CPUS));
    let lock = play(&mut machine, acts);
    (machine.accounts.end_timeline().unwrap(), machine, lock)
}

proptest! {
    #[test]
    fn says_what_accounts_say(acts in prop::collection::vec(act(), 1..300), resolution in 1..5000u64) {
        let (timeline, machine, lock) = noted(&acts, ns(resolution));
        let mut without = self::machine();
        play(&mut without, &acts);
        for cpu in timeline.cpus() {
            prop_assert_eq!(machine.now(cpu), without.now(cpu), "noting changes a clock");
            for doing in &ALL[1..] {
                let spent = machine.accounts.spent(cpu, *doing);
                prop_assert_eq!(sum(timeline.categories(cpu), *doing), spent, "{:?} of {:?}", doing, cpu);
            }
            let all = |slices: &[Slice]| slices.iter().flat_map(|of| &of.parts).map(|of| of.1).sum::<Time>();
            prop_assert_eq!(all(timeline.tasks(cpu)), all(timeline.categories(cpu)));
        }
        let uses = timeline.locks().get(&LockId { waiting: Doing::Waiting as u32, number: 7 });
        let waited = uses.iter().flat_map(|of| of.uses.values()).map(|of| of.waited).sum::<Time>();
        prop_assert_eq!(waited, lock.statistics().wait);
        let slices = |cpu| timeline.tasks(cpu).len() + timeline.categories(cpu).len();
        let of_locks = timeline.locks().values().map(|of| of.sections.len() + of.uses.len()).sum::<usize>();
        let of_interrupts = timeline.shootdowns().iter().map(|of| 1 + of.targets.len()).sum::<usize>();
        let all = timeline.cpus().map(slices).sum::<usize>() + of_locks + of_interrupts;
        prop_assert_eq!(timeline.events(), all, "all that there is to draw is counted");
    }

    #[test]
    fn slices_are_in_order_and_long(acts in prop::collection::vec(act(), 1..300), resolution in 1..5000u64) {
        let resolution = ns(resolution);
        let (timeline, ..) = noted(&acts, resolution);
        for cpu in timeline.cpus() {
            let tasks = timeline.tasks(cpu);
            for pair in timeline.categories(cpu).windows(2) {
                let [one, next] = pair else { unreachable!() };
                prop_assert!(one.from < one.until && one.until <= next.from);
                let is_long = |of: &Slice| of.until - of.from >= resolution;
                let is_end = tasks.iter().any(|task| task.until == one.until);
                prop_assert!(is_long(one) || is_long(next) || is_end, "{:?} and {:?}", one, next);
            }
            for slice in timeline.categories(cpu) {
                prop_assert!(!slice.parts.is_empty() && slice.parts.is_sorted_by(|a, b| a.1 >= b.1));
                let holds = |task: &&Slice| task.from <= slice.from && slice.until <= task.until;
                prop_assert_eq!(tasks.iter().filter(holds).count(), 1);
            }
        }
    }
}

#[test]
fn a_window_shows_what_is_within() {
    let mut machine = machine();
    let window = Window { from: ns(10), until: ns(30), resolution: ns(1) };
    machine.accounts.begin_timeline(Timeline::new(window, CPUS));
    for cpu in [Cpu(0), Cpu(1)] {
        machine.charge(cpu, Doing::Working, ns(20));
        machine.charge(cpu, Doing::Waiting, ns(20));
    }
    let timeline = machine.accounts.end_timeline().unwrap();
    let slice = |from, until, what: Doing| Slice {
        from: ns(from),
        until: ns(until),
        parts: vec![(what as u32, ns(until - from))],
    };
    assert_eq!(timeline.categories(Cpu(1)), [slice(10, 20, Doing::Working), slice(20, 30, Doing::Waiting)]);
    assert!(timeline.categories(Cpu(2)).is_empty());
}

#[test]
fn a_long_shoot_down_is_kept_with_its_targets() {
    for (resolution, kept) in [(ns(1), 1), (ns(1_000_000), 0)] {
        let (timeline, ..) = noted(&[Act::Work(100), Act::Flush], resolution);
        assert_eq!(timeline.shootdowns().len(), kept);
        for shootdown in timeline.shootdowns() {
            let targets: Vec<Cpu> = shootdown.targets.iter().map(|of| of.0).collect();
            assert_eq!((shootdown.initiator, targets), (Cpu(1), vec![Cpu(0), Cpu(2), Cpu(3)]));
            assert!(shootdown.targets.iter().all(|of| shootdown.from < of.1 && of.1 < shootdown.until));
        }
    }
}

#[test]
fn a_full_timeline_notes_no_more() {
    let mut machine = machine();
    let window = Window { from: Time::ZERO, until: Time::NEVER, resolution: ns(1) };
    machine.accounts.begin_timeline(Timeline::new(window, CPUS));
    for _ in 0..MOST_EVENTS {
        machine.charge(Cpu(0), Doing::Working, ns(1));
        machine.charge(Cpu(0), Doing::Waiting, ns(1));
    }
    let timeline = machine.accounts.end_timeline().unwrap();
    assert!(timeline.is_full() && timeline.events() < MOST_EVENTS + 4, "{}", timeline.events());
    assert_eq!(machine.now(Cpu(0)), ns(2) * MOST_EVENTS as u64, "the clock goes on");
}
