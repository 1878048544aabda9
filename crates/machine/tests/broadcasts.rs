//! Interrupts and broadcasts: their costs, which CPU pays, and how often; compared with a slow model in which
//! every CPU advances nanosecond by nanosecond.

use machine::topology::{Cache, SharedBy};
use machine::{Category, Costs, Cpu, Flush, Interrupt, Machine, Time, Topology};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle,
    Work,
    Flushing,
    Interrupted,
}

impl Category for Doing {
    const COUNT: usize = 4;
    const IDLE: Self = Doing::Idle;
    fn index(self) -> usize {
        self as usize
    }
}

const ALL: [Doing; 4] = [Doing::Idle, Doing::Work, Doing::Flushing, Doing::Interrupted];

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

fn whole(time: Time) -> u64 {
    time.picoseconds() / 1000
}

fn machine(cores_per_socket: u16) -> Machine<Doing> {
    let topology = Topology {
        threads_per_core: 2,
        caches: vec![Cache { level: 3, bytes: 1 << 20, shared_by: SharedBy::Socket }],
        ..Topology::of_nodes(2, cores_per_socket)
    };
    let costs = Costs {
        line_transfer: [ns(0), ns(1), ns(2), ns(4)],
        ipi_send: ns(3),
        ipi_trap: ns(2),
        ipi_deliver: ns(17),
        ipi_receive: ns(5),
        ipi_wake: ns(31),
        tlb_flush_all: ns(6),
        tlb_flush_page: ns(1),
        tlb_refill: ns(9),
        ..Costs::FREE
    };
    Machine::new(topology, costs)
}

fn adds_up(machine: &Machine<Doing>, cpu: Cpu) -> bool {
    ALL.iter().map(|&doing| machine.accounts.spent(cpu, doing)).sum::<Time>() == machine.now(cpu)
}

fn flush(machine: &mut Machine<Doing>, initiator: Cpu, flush: Flush) {
    machine.flush_kernel_tlb(initiator, flush, Doing::Flushing, Doing::Interrupted);
}

#[test]
fn waiting_goes_on_around_an_interrupt() {
    let mut machine = machine(1);
    let interrupt = |arrival| Interrupt { arrival: ns(arrival), cost: ns(5), category: Doing::Interrupted };
    machine.interrupt(Cpu(0), interrupt(10));
    machine.interrupt(Cpu(0), interrupt(28));
    machine.idle_until(Cpu(0), ns(20));
    assert_eq!(machine.now(Cpu(0)), ns(20));
    assert_eq!(machine.accounts.spent(Cpu(0), Doing::Idle), ns(15));
    machine.idle_until(Cpu(0), ns(30));
    assert_eq!(machine.now(Cpu(0)), ns(33), "the last handler is not done at 30");
    assert_eq!(machine.accounts.spent(Cpu(0), Doing::Interrupted), ns(10));
    assert!(adds_up(&machine, Cpu(0)));
}

#[test]
fn who_ran_ahead_pays_at_once() {
    let mut machine = machine(1);
    machine.charge(Cpu(0), Doing::Work, ns(100));
    machine.interrupt(Cpu(0), Interrupt { arrival: ns(40), cost: ns(5), category: Doing::Interrupted });
    assert_eq!(machine.now(Cpu(0)), ns(105));
    assert!(adds_up(&machine, Cpu(0)));
}

/// All other CPUs are idle: their handlers overlap, and the initiator waits for the one that is interrupted
/// last.
#[test]
fn the_initiator_waits_for_the_last() {
    let mut machine = machine(1);
    machine.set_busy(Cpu(0));
    flush(&mut machine, Cpu(0), Flush::All);
    // Targets 1 (other socket), 2 (sibling) and 3 (other socket): 4 + 5, 1 + 5, 4 + 5 to send.
    let sent = 9 + 6 + 9;
    let handler = 5 + 6 + 2 * 4;
    assert_eq!(machine.now(Cpu(0)), ns(sent + 17 + 31 + handler + 4));
    assert_eq!(machine.accounts.spent(Cpu(0), Doing::Flushing), machine.now(Cpu(0)));
}

#[test]
fn a_busy_target_is_not_woken_but_refills_after_a_full_flush() {
    for (what, work, refill) in [(Flush::All, 6, 9), (Flush::Range { pages: 8 }, 8, 0)] {
        let mut machine = machine(1);
        for cpu in 0..4 {
            machine.set_busy(Cpu(cpu));
        }
        flush(&mut machine, Cpu(0), what);
        assert_eq!(machine.now(Cpu(0)), ns(24 + 17 + 5 + work + 8 + 4));
        machine.charge(Cpu(3), Doing::Work, ns(40));
        assert_eq!(machine.now(Cpu(3)), ns(40), "the interrupt is on its way for 41 ns");
        machine.charge(Cpu(3), Doing::Work, ns(1));
        assert_eq!(machine.now(Cpu(3)), ns(41 + 5 + work + 8 + refill));
    }
}

#[test]
fn a_parked_cpu_is_billed_for_every_broadcast() {
    let mut machine = machine(1);
    machine.set_busy(Cpu(0));
    for _ in 0..1000 {
        flush(&mut machine, Cpu(0), Flush::Range { pages: 7 });
    }
    let end = machine.now(Cpu(0));
    for cpu in (1..4).map(Cpu) {
        let before = machine.accounts.spent(cpu, Doing::Interrupted);
        let handler = ns(5 + 7) + machine.line_transfer(Cpu(0), cpu) * 2;
        assert_eq!(before, handler * 999, "all but the last are settled");
        machine.idle_until(cpu, end);
        assert_eq!(machine.accounts.spent(cpu, Doing::Interrupted), handler * 1000);
        assert_eq!(machine.now(cpu), end);
        assert!(adds_up(&machine, cpu));
    }
}

/// Sending several interrupts in one go must not advance a sleeping CPU past its wake-up time.
#[test]
fn a_sleeping_cpu_wakes_when_it_wanted_to() {
    let mut machine = machine(1);
    machine.set_busy(Cpu(0));
    let wakes = ns(150);
    machine.sleep_until(Cpu(3), wakes);
    for _ in 0..5 {
        flush(&mut machine, Cpu(0), Flush::Range { pages: 7 });
    }
    assert!(machine.now(Cpu(3)) < wakes && machine.now(Cpu(0)) > wakes);
    machine.idle_until(Cpu(3), wakes);
    assert_eq!(machine.now(Cpu(3)), wakes);
    machine.set_busy(Cpu(3));
    let (work, handler) = (ns(10_000), ns(5 + 7) + machine.line_transfer(Cpu(0), Cpu(3)) * 2);
    machine.charge(Cpu(3), Doing::Work, work);
    let early = machine.accounts.spent(Cpu(3), Doing::Interrupted) - handler * 4;
    assert_eq!(early, handler, "five handlers in all");
    assert_eq!(machine.now(Cpu(3)), wakes + work + handler * 4, "one of them while it slept");
    assert!(adds_up(&machine, Cpu(3)));
}

#[test]
fn the_instruction_costs_its_initiator_alone() {
    let mut machine = machine(63);
    assert!(!machine.flush_kernel_tlb_by_hardware(Cpu(0), Doing::Flushing), "no such instruction");
    machine.costs.invlpgb = Some(ns(500));
    assert!(machine.flush_kernel_tlb_by_hardware(Cpu(0), Doing::Flushing));
    assert_eq!(machine.now(Cpu(0)), ns(500));
    machine.idle_until(Cpu(1), ns(10_000));
    assert_eq!(machine.accounts.spent(Cpu(1), Doing::Interrupted), Time::ZERO);
}

/// A CPU that advances nanosecond by nanosecond and checks its list of interrupts after each.
#[derive(Clone, Default)]
struct Slow {
    now: u64,
    busy: bool,
    /// Arrival and cost, sorted.
    pending: Vec<(u64, u64)>,
    handled: u64,
    spent: [u64; 4],
}

impl Slow {
    fn handle(&mut self) {
        while self.pending.first().is_some_and(|&(arrival, _)| arrival <= self.now) {
            let (_, cost) = self.pending.remove(0);
            self.now += cost;
            self.spent[Doing::Interrupted.index()] += cost;
        }
    }

    fn tick(&mut self, doing: Doing) {
        self.now += 1;
        self.spent[doing.index()] += 1;
        self.handle();
    }

    fn work(&mut self, doing: Doing, duration: u64) {
        (0..duration).for_each(|_| self.tick(doing));
    }

    fn wait(&mut self, doing: Doing, until: u64) {
        while self.now < until {
            self.tick(doing);
        }
    }

    /// Its clock after everything that arrives by `time` is handled; otherwise a parked CPU does not move.
    fn settled(&self, time: u64) -> Slow {
        let mut settled = self.clone();
        while let Some(&(arrival, _)) = settled.pending.first().filter(|(arrival, _)| *arrival <= time) {
            settled.wait(Doing::Idle, arrival);
            settled.handle();
        }
        settled
    }
}

/// The broadcast as the kernel does it, target by target; nothing is settled ahead of time.
fn slow_broadcast(cpus: &mut [Slow], machine: &Machine<Doing>, initiator: usize, work: u64, refill: u64) {
    let start = cpus[initiator].now;
    let mut last = start;
    for target in (0..cpus.len()).filter(|&cpu| cpu != initiator) {
        let line = whole(machine.line_transfer(Cpu(initiator as u16), Cpu(target as u16)));
        cpus[initiator].work(Doing::Flushing, line + 3 + 2);
        let sent = cpus[initiator].now;
        let there = if cpus[target].busy { cpus[target].clone() } else { cpus[target].settled(start) };
        let arrival = if there.busy || there.now > sent {
            sent + 17
        } else {
            there.pending.first().map_or(sent + 17 + 31, |&(waking, _)| waking.max(sent + 17))
        };
        let handler = 5 + work + 2 * line;
        let cpu = &mut cpus[target];
        cpu.handled = cpu.handled.max(arrival) + handler;
        last = last.max(cpu.handled + line);
        let cost = handler + if cpu.busy { refill } else { 0 };
        let place = cpu.pending.partition_point(|&(other, _)| other <= arrival);
        cpu.pending.insert(place, (arrival, cost));
        cpu.handle();
    }
    cpus[initiator].work(Doing::Flushing, work);
    cpus[initiator].wait(Doing::Flushing, last);
}

#[derive(Clone, Debug)]
enum Operation {
    Work(Vec<u64>),
    Flush(Flush),
    Sleep,
    Wake(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => proptest::collection::vec(0u64..300, 1..4).prop_map(Operation::Work),
        4 => Just(Operation::Flush(Flush::All)),
        4 => (1u64..20).prop_map(|pages| Operation::Flush(Flush::Range { pages })),
        1 => Just(Operation::Sleep),
        2 => (0usize..8).prop_map(Operation::Wake),
    ]
}

proptest! {
    /// The end of a piece of work does not depend on how it is charged.
    #[test]
    fn an_interrupt_delays_by_its_cost_however_work_is_split(
        interrupts in proptest::collection::vec((0u64..100, 0u64..20), 0..8),
        pieces in proptest::collection::vec(0u64..30, 1..12),
    ) {
        let (mut whole, mut split) = (machine(1), machine(1));
        for &(arrival, cost) in &interrupts {
            let interrupt = Interrupt { arrival: ns(arrival), cost: ns(cost), category: Doing::Interrupted };
            whole.interrupt(Cpu(0), interrupt);
            split.interrupt(Cpu(0), interrupt);
        }
        whole.charge(Cpu(0), Doing::Work, ns(pieces.iter().sum()));
        for &piece in &pieces {
            split.charge(Cpu(0), Doing::Work, ns(piece));
        }
        prop_assert_eq!(whole.now(Cpu(0)), split.now(Cpu(0)));
        let handled = whole.accounts.spent(Cpu(0), Doing::Interrupted);
        prop_assert_eq!(handled, split.accounts.spent(Cpu(0), Doing::Interrupted));
        prop_assert_eq!(whole.now(Cpu(0)), ns(pieces.iter().sum()) + handled);
    }

    /// CPUs act in the order of virtual time, as in a simulation.
    #[test]
    fn equals_cpus_that_live_nanosecond_by_nanosecond(
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        let mut fast = machine(2);
        let mut slow = vec![Slow::default(); 8];
        let mut last = 0;
        for operation in operations {
            let busy = (0..8).filter(|&cpu| slow[cpu].busy).min_by_key(|&cpu| slow[cpu].now);
            let Some(cpu) = busy else {
                fast.idle_until(Cpu(0), ns(last));
                fast.set_busy(Cpu(0));
                slow[0].wait(Doing::Idle, last);
                slow[0].busy = true;
                continue;
            };
            let acting = Cpu(cpu as u16);
            last = slow[cpu].now;
            match operation {
                Operation::Work(pieces) => {
                    for piece in pieces {
                        fast.charge(acting, Doing::Work, ns(piece));
                        slow[cpu].work(Doing::Work, piece);
                    }
                }
                Operation::Flush(what) => {
                    flush(&mut fast, acting, what);
                    let (work, refill) = match what {
                        Flush::All => (6, 9),
                        Flush::Range { pages } => (pages, 0),
                    };
                    slow_broadcast(&mut slow, &fast, cpu, work, refill);
                }
                Operation::Sleep => {
                    fast.set_idle(acting);
                    slow[cpu].busy = false;
                }
                Operation::Wake(other) if !slow[other].busy => {
                    fast.idle_until(Cpu(other as u16), ns(last));
                    fast.set_busy(Cpu(other as u16));
                    slow[other].wait(Doing::Idle, last);
                    slow[other].busy = true;
                }
                Operation::Wake(_) => {}
            }
            for cpu in (0..8).filter(|&cpu| slow[cpu].busy) {
                prop_assert_eq!(whole(fast.now(Cpu(cpu as u16))), slow[cpu].now, "clock of CPU {}", cpu);
            }
        }
        let end = slow.iter().map(|cpu| cpu.now).max().unwrap() + 1000;
        for (cpu, slow) in (0..).map(Cpu).zip(&mut slow) {
            fast.idle_until(cpu, ns(end));
            slow.wait(Doing::Idle, end);
            prop_assert_eq!(whole(fast.now(cpu)), slow.now);
            for doing in ALL {
                let spent = whole(fast.accounts.spent(cpu, doing));
                prop_assert_eq!(spent, slow.spent[doing.index()], "{:?} of {:?}", doing, cpu);
            }
            prop_assert!(adds_up(&fast, cpu));
        }
    }
}
