//! What happened when a trace was recorded, in the form in which a run of the twin is noted: for a timeline that shows both.
//!
//! ```text
//!   switch         who ran on which CPU from when to when     ─► tasks of the timeline; what their time went to is not recorded
//!   alloc, free    pages that programs hold                   ─► allocated_pages   ┐
//!   zone_locked    pages that came from the buddy lists       ─► pages_from_zone   ├ series of the names that runs have
//!   pcpu_drain     pages that went back from per-CPU lists    ─► pages_drained     ┘
//! ```

use crate::outcome::Sample;
use crate::system::SAMPLE_INTERVAL;
use crate::timeline::RunTimeline;
use machine::timeline::Window;
use machine::{Cpu, Time, Timeline};
use std::collections::BTreeMap;
use std::path::Path;
use workload::page_trace::{LATEST, Needs, each_event, open, order_of};
use workload::trace::{Event, Metadata, NO_PAGE, Operation, TraceError};

/// What a recorded kernel did.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// `uname -r` of the recorded kernel.
    pub kernel_release: String,
    pub timeline: RunTimeline,
    pub series: Vec<Sample>,
}

/// Reads what of a trace lies within the window, whose times count from its first event.
pub fn recorded(trace: &Path, window: Window) -> Result<Recorded, TraceError> {
    let Needs { missing, cpus, .. } = Needs::of(&mut open(trace)?)?;
    let mut reader = open(trace)?;
    let metadata = reader.metadata().clone();
    let allocated = missing.iter().enumerate().map(|(order, blocks)| (blocks << order) as i64).sum();
    let mut course = Course::new(&metadata, Timeline::new(window, cpus), allocated);
    each_event(&mut reader, |event| course.note(event))?;
    Ok(course.finish())
}

/// What has happened so far.
struct Course<'a> {
    metadata: &'a Metadata,
    noted: Timeline,
    tasks: Vec<String>,
    /// Numbers of tasks, by pid.
    numbers: BTreeMap<i32, u32>,
    /// By CPU, the pid of who runs and since when; none before the CPU's first event.
    running: Vec<Option<(i32, Time)>>,
    now: Time,
    next_sample: Time,
    /// Pages that programs hold, pages taken from zones, pages drained from per-CPU lists.
    counts: [i64; 3],
    series: Vec<Sample>,
}

/// Names of the counts.
const SERIES: [&str; 3] = ["allocated_pages", "pages_from_zone", "pages_drained"];
/// Pid of a CPU's idle task.
const IDLE: i32 = 0;

impl<'a> Course<'a> {
    fn new(metadata: &'a Metadata, noted: Timeline, allocated: i64) -> Course<'a> {
        Course {
            metadata,
            running: vec![None; noted.cpus().count()],
            noted,
            tasks: Vec::new(),
            numbers: BTreeMap::new(),
            now: Time::ZERO,
            next_sample: Time::ZERO,
            counts: [allocated, 0, 0],
            series: Vec::new(),
        }
    }

    fn note(&mut self, event: &Event) {
        self.now = Time::from_nanoseconds(event.time.min(LATEST));
        if self.now >= self.next_sample {
            self.sample();
        }
        let cpu = Cpu(event.cpu);
        // Who is there at a CPU's first event has been there all the time: there was no switch.
        let running = self.running[cpu.index()].get_or_insert((event.task, Time::ZERO));
        if event.operation == Operation::Switch {
            let left = std::mem::replace(running, (event.argument as i32, self.now));
            self.ran(cpu, left);
        }
        let pages = 1 << order_of(event);
        let [allocated, from_zone, drained] = &mut self.counts;
        match event.operation {
            Operation::Alloc if event.pfn != NO_PAGE => *allocated += pages,
            Operation::Free => *allocated -= pages,
            Operation::KernelStack => *allocated += i64::from(event.stack_pages()),
            Operation::ZoneLocked => *from_zone += pages,
            Operation::PcpuDrain => *drained += pages,
            _ => {}
        }
    }

    /// Notes that a task ran until now.
    fn ran(&mut self, cpu: Cpu, (pid, since): (i32, Time)) {
        if pid == IDLE {
            return;
        }
        let tasks = &mut self.tasks;
        let number = *self.numbers.entry(pid).or_insert_with(|| {
            let name = self.metadata.tasks.get(&pid).map_or("?", String::as_str);
            tasks.push(format!("{name} ({pid})"));
            tasks.len() as u32 - 1
        });
        self.noted.run(cpu, number, since, self.now);
    }

    fn sample(&mut self) {
        self.next_sample = self.now + SAMPLE_INTERVAL;
        let seconds = self.now.seconds();
        let samples = SERIES.into_iter().zip(self.counts);
        self.series.extend(samples.map(|(name, value)| Sample { seconds, name, value: value as f64 }));
    }

    fn finish(mut self) -> Recorded {
        self.sample();
        for (cpu, running) in self.noted.cpus().zip(std::mem::take(&mut self.running)) {
            running.into_iter().for_each(|running| self.ran(cpu, running));
        }
        self.noted.close();
        let timeline =
            RunTimeline { start: Time::ZERO, noted: self.noted, tasks: self.tasks, locks: BTreeMap::new() };
        let kernel_release = self.metadata.kernel_release.clone();
        Recorded { kernel_release, timeline, series: self.series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: fn() -> Metadata =
        || Metadata { tasks: [(7, "cc1".to_string()), (8, "ld".into())].into(), ..Metadata::default() };

    fn event(operation: Operation, microseconds: u64, task: i32, argument: u32) -> Event {
        Event { time: 1000 * microseconds, task, argument, pfn: 1, ..Event::of(operation) }
    }

    fn course(metadata: &Metadata, events: &[Event]) -> Recorded {
        let window =
            Window { from: Time::ZERO, until: Time::NEVER, resolution: Time::from_nanoseconds(1000) };
        let mut course = Course::new(metadata, Timeline::new(window, 1), 100);
        events.iter().for_each(|event| course.note(event));
        course.finish()
    }

    #[test]
    fn tasks_run_from_switch_to_switch_and_the_idle_task_is_a_gap() {
        let switch = |microseconds, from, to| event(Operation::Switch, microseconds, from, to);
        let metadata = METADATA();
        let found = course(
            &metadata,
            &[switch(10, 7, 0), switch(50, 0, 8), switch(60, 8, 7), event(Operation::Exec, 90, 7, 0)],
        );
        let name = |task: u32| found.timeline.tasks[task as usize].as_str();
        let micros = |time: Time| time.picoseconds() / 1_000_000;
        let slices = found.timeline.noted.tasks(Cpu(0)).iter();
        let slices: Vec<_> =
            slices.map(|slice| (name(slice.parts[0].0), micros(slice.from), micros(slice.until))).collect();
        assert_eq!(slices, [("cc1 (7)", 0, 10), ("ld (8)", 50, 60), ("cc1 (7)", 60, 90)]);
        assert!(found.timeline.noted.categories(Cpu(0)).is_empty());
    }

    #[test]
    fn series_are_sums_since_the_first_event_and_what_was_held_before_is_held() {
        let of = |operation, order| Event { order, ..event(operation, 1, 7, 0) };
        let events = [
            of(Operation::Alloc, 1),
            of(Operation::ZoneLocked, 3),
            of(Operation::Free, 0),
            of(Operation::PcpuDrain, 2),
        ];
        let found = course(&METADATA(), &events);
        let last: Vec<_> = found.series.iter().rev().take(3).rev().map(|of| (of.name, of.value)).collect();
        assert_eq!(last, [("allocated_pages", 101.0), ("pages_from_zone", 8.0), ("pages_drained", 4.0)]);
    }
}
