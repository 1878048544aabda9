//! Recorded traces of the page allocator on a host.

use super::*;
use workload::page_trace::PageTrace;
use workload::tasks::ProgramSpec;
use workload::trace::{Event as Traced, Metadata, Operation, TraceWriter};

/// A run of a trace in two copies.
fn run_trace(events: &[Traced]) -> Result<Outcome, RunError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::create(file.path()).unwrap();
    events.iter().for_each(|event| writer.push(*event).unwrap());
    writer.finish(Metadata::default()).unwrap();
    let other = "[[programs]]\nname = 'other'\nprogram = { kind = 'kernel-thread', milliseconds = 1 }";
    let mut run = run_of("6.18", &[], other);
    run.workload = Workload {
        milliseconds: 2000,
        programs: vec![HostProgram::new(
            "trace",
            ProgramSpec::PageTrace(PageTrace { trace: file.path().into(), copies: 2, stagger_us: 10 }),
        )],
        ..Workload::default()
    };
    crate::run(&run)
}

#[test]
fn pages_are_taken_and_returned_as_they_were_recorded() {
    let alloc = |number: u64| Traced {
        time: 1_000_000 + 1000 * number,
        pfn: number as u32,
        task: 1,
        cpu: (number % 4) as u16,
        order: (number % 3) as u8,
        migratetype: 1,
        ..Traced::of(Operation::Alloc)
    };
    // Another CPU frees it, half a millisecond later.
    let free = |number: u64| {
        let alloc = alloc(number);
        Traced { time: alloc.time + 500_500, cpu: 3 - alloc.cpu, operation: Operation::Free, ..alloc }
    };
    let mut events: Vec<Traced> = (0..1000).map(alloc).chain((0..900).map(free)).collect();
    // Five blocks that were there before.
    events.extend((2000..2005).map(|number| Traced {
        time: 3_000_000,
        operation: Operation::Free,
        ..alloc(number)
    }));
    events.sort_by_key(|event| event.time);
    let outcome = run_trace(&events).unwrap();
    let pages = |numbers: std::ops::Range<u64>| -> u64 { numbers.map(|number| 1 << (number % 3)).sum() };
    let counter = |event| outcome.counters.get(event);
    assert_eq!(counter(Event::Pgfree), 2 * (pages(0..900) + pages(2000..2005)));
    let allocated: u64 =
        [Event::PgallocDma32, Event::PgallocNormal, Event::PgallocMovable].map(counter).into_iter().sum();
    assert_eq!(allocated, 2 * pages(0..1000));
    assert!((0.003..0.0035).contains(&outcome.virtual_seconds), "{}", outcome.virtual_seconds);
}

#[test]
fn a_trace_needs_its_cpus() {
    let event = Traced { cpu: 7, ..Traced::of(Operation::Exec) };
    let refused = run_trace(&[event]).unwrap_err().to_string();
    assert!(
        refused.contains("16 threads on a CPU each") && refused.contains("machine's 8 CPUs"),
        "{refused}"
    );
}
