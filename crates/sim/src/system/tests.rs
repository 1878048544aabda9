//! Tests of the order of CPUs: interrupted, sleeping, woken, and without memory.

use super::*;
use crate::tests::{Scenario, load_machine};
use machine::Interrupt;
use mm::{MigrateType, Placement};
use std::collections::BTreeMap;

const US: fn(u64) -> Time = |us| Time::from_nanoseconds(1000 * us);

fn system() -> System {
    let scenario = Scenario::load("page_fault1");
    let machine = load_machine("icl-server");
    let run = scenario.run("pcp-base", &machine, &BTreeMap::new());
    run.boot(&RunProgress::default()).unwrap().system().unwrap()
}

/// CPU 1 works 100 us at a time and CPU 0 interrupts it; both record when they act.
struct Interrupted {
    steps: Vec<(u16, Time)>,
}

impl Program for Interrupted {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        self.steps.push((cpu.0, system.machine.now(cpu)));
        if cpu.0 == 1 {
            system.machine.charge(cpu, Category::Program, US(100));
            return Step::Again;
        }
        let arrival = system.machine.now(cpu) + US(1);
        system.machine.interrupt(Cpu(1), Interrupt { arrival, cost: US(7), category: Category::IpiHandler });
        system.machine.charge(cpu, Category::Program, US(60));
        if system.machine.now(cpu) < US(150) { Step::Again } else { Step::Idle }
    }

    fn is_finished(&self) -> bool {
        false
    }
}

#[test]
fn an_interrupted_cpu_acts_at_its_new_time_and_in_order() {
    let mut system = system();
    system.wake(Cpu(0), US(10));
    system.wake(Cpu(1), US(0));
    let mut program = Interrupted { steps: Vec::new() };
    system.run(&mut program, US(300));
    // Sent at 10 and 70, taken on the way to 100; sent at 130, taken on the way to 214.
    let expected = [(1, 0), (0, 10), (0, 70), (1, 114), (0, 130), (1, 221)];
    assert_eq!(program.steps, expected.map(|(cpu, us)| (cpu, US(us))));
}

/// Sleeps 50 us after each step; CPU 0 wakes CPU 1.
struct Sleepers {
    steps: Vec<(u16, Time)>,
}

impl Program for Sleepers {
    fn step(&mut self, system: &mut System, cpu: Cpu) -> Step {
        let now = system.machine.now(cpu);
        self.steps.push((cpu.0, now));
        assert!(system.is_busy(cpu));
        if cpu.0 == 0 {
            system.wake(Cpu(1), now);
        }
        Step::Sleep(now + US(if cpu.0 == 0 { 50 } else { 70 }))
    }

    fn is_finished(&self) -> bool {
        false
    }
}

#[test]
fn sleepers_wake_by_themselves_or_are_woken_before_and_are_not_busy() {
    let mut system = system();
    system.wake(Cpu(0), US(0));
    let mut program = Sleepers { steps: Vec::new() };
    system.run(&mut program, US(120));
    let expected = [(0, 0), (1, 0), (0, 50), (1, 50), (0, 100), (1, 100)];
    assert_eq!(program.steps, expected.map(|(cpu, us)| (cpu, US(us))));
    assert!(!system.is_busy(Cpu(0)) && !system.is_busy(Cpu(1)));
    assert_eq!(system.machine.accounts.total(Category::Idle), US(200));
}

#[test]
fn requests_that_get_nothing_are_noted() {
    let mut system = system();
    let request = Request::new(0, MigrateType::Movable, Placement::Local);
    assert!(system.alloc(Cpu(0), &request).is_some());
    assert!(system.outcome(US(1)).notes.is_empty());
    system.mm.set("vm.min_free_kbytes", &i32::MAX.to_string()).unwrap();
    assert!(system.alloc(Cpu(0), &request).is_none());
    let notes = system.outcome(US(1)).notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("page allocations that found no memory: 1;"), "{notes:?}");
    system.start_measuring(US(0));
    assert!(system.outcome(US(1)).notes.is_empty(), "what was before is not measured");
}

#[test]
fn no_end_is_above_its_maximum() {
    let mut system = system();
    system.start_measuring(US(0));
    let request = Request::new(0, MigrateType::Movable, Placement::Local);
    system.alloc(Cpu(0), &request).expect("memory is free");
    let outcome = system.outcome(US(1));
    let of = |metric| outcome.get(metric).expect("every run has it");
    assert!(of(metric::PCP_END) > 0.0);
    assert_eq!(of(metric::PCP_MAX), of(metric::PCP_END));
    assert!(of(metric::MEMORY_MAX) > 0.0);
}

#[test]
fn the_time_of_each_cpu_is_that_of_the_measured_part() {
    let mut system = system();
    system.machine.charge(Cpu(1), Category::Program, US(100));
    system.start_measuring(US(100));
    system.machine.charge(Cpu(1), Category::Program, US(50));
    let outcome = system.outcome(US(300));
    let parts = &outcome.time_by_cpu[Category::Program.name()];
    assert_eq!(parts.len(), system.machine.topology.cpus());
    assert_eq!(parts[..3], [0, 2500, 0]);
    assert_eq!(outcome.time_by_cpu.len(), 1, "the others have none");
}
