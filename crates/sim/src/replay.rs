//! Replays a recorded trace, once or in several copies: the same demand on another machine or kernel.
//!
//! ```text
//!   copy 0   events of CPUs 0..n      ─► CPUs 0..n of the machine
//!   copy 1   the same, a little later ─► CPUs n..2n             ...
//! ```
//!
//! Every CPU waits for the recorded time of an event before it acts; it is late if locks delay it. Pages that
//! the recording frees without having allocated them are allocated before the replay starts. The page frames
//! of kernel stacks, which `alloc_pages_bulk` takes, are not recorded: a stack's pages join those that were
//! allocated before, and the frees of unknown page frames take them from there. Events that are the page
//! allocator's reaction instead of demand (refills, drains) are skipped.

mod recorded;

pub use recorded::{Recorded, recorded};

use crate::outcome::Outcome;
use crate::{Boot, RunError, System};
use machine::{Cpu, Time};
use mm::{MigrateType, Pfn, Placement, Request};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use workload::keys::{CPUS, MICROSECONDS};
use workload::trace::{Event, NO_PAGE, Operation, TraceReader};

workload::keys! {
    /// A trace, as in a scenario.
    pub struct Replay {
        pub trace: PathBuf,
        /// Copies that run side by side, each on as many CPUs as the recorded machine had.
        pub copies: usize => CPUS,
        /// Virtual microseconds between the starts of two copies.
        pub stagger_us: u64 => MICROSECONDS.or_none(),
    }
}

/// The latest time of an event that can be replayed, in nanoseconds; with the delays of copies it is within
/// virtual time.
const LATEST: u64 = 200 * 24 * 3600 * 1_000_000_000;

/// Counts the blocks that a trace frees without having allocated them.
struct UnknownFrees {
    /// Orders of the blocks that live, by page frame.
    live: HashMap<u32, u8>,
    /// Pages of kernel stacks, whose frees are still to come.
    pages_of_stacks: u32,
    /// Numbers of blocks, by order, that neither an allocation nor a kernel stack accounts for.
    missing: Vec<u64>,
}

impl UnknownFrees {
    fn new() -> UnknownFrees {
        UnknownFrees { live: HashMap::new(), pages_of_stacks: 0, missing: vec![0; mm::page::NR_PAGE_ORDERS] }
    }

    fn note(&mut self, event: &Event) {
        match event.operation {
            Operation::Alloc if event.pfn != NO_PAGE => drop(self.live.insert(event.pfn, event.order)),
            Operation::KernelStack => self.pages_of_stacks += event.stack_pages(),
            Operation::Free if self.live.remove(&event.pfn).is_none() => match order_of(event) {
                0 if self.pages_of_stacks > 0 => self.pages_of_stacks -= 1,
                order => self.missing[usize::from(order)] += 1,
            },
            _ => {}
        }
    }
}

/// Numbers of blocks, by order, that have to be there before the trace begins; and the number of CPUs.
fn missing_blocks(reader: &mut TraceReader) -> Result<(Vec<u64>, usize), RunError> {
    let mut unknown = UnknownFrees::new();
    let mut cpus = 1;
    let mut last = 0;
    each_event(reader, |event| {
        last = event.time;
        cpus = cpus.max(event.cpu as usize + 1);
        unknown.note(event);
    })?;
    if last > LATEST {
        let text =
            format!("its last event is at {last} ns; virtual time goes as far as {LATEST} ns, 200 days");
        return Err(RunError::Trace(text));
    }
    Ok((unknown.missing, cpus))
}

fn order_of(event: &Event) -> u8 {
    event.order.min(mm::page::MAX_PAGE_ORDER)
}

fn each_event(reader: &mut TraceReader, mut visit: impl FnMut(&Event)) -> Result<(), RunError> {
    loop {
        let batch = reader.next_batch().map_err(|error| RunError::Trace(error.to_string()))?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter().for_each(&mut visit);
    }
}

/// A copy of the trace being replayed.
struct Copy {
    reader: TraceReader,
    batch: std::collections::VecDeque<Event>,
    first_cpu: u16,
    delay: Time,
    /// For each live block, by recorded page frame, where the twin allocated it.
    live: HashMap<u32, (Pfn, u8)>,
    /// Blocks of unknown page frames, by order: allocated before the recording, or for kernel stacks.
    earlier: Vec<Vec<Pfn>>,
}

impl Copy {
    /// When the next event is due; `None` at the end.
    fn next(&mut self) -> Result<Option<Time>, RunError> {
        if self.batch.is_empty() {
            let events = self.reader.next_batch().map_err(|error| RunError::Trace(error.to_string()))?;
            self.batch.extend(events.iter().copied());
        }
        Ok(self.batch.front().map(|event| Time::from_nanoseconds(event.time) + self.delay))
    }

    fn act(&mut self, system: &mut System, due: Time) {
        let Some(event) = self.batch.pop_front() else { return };
        let cpu = Cpu(self.first_cpu + event.cpu);
        match event.operation {
            Operation::Alloc if event.pfn != NO_PAGE => {
                system.machine.idle_until(cpu, due);
                let migrate_type = MigrateType::from_number(event.migratetype.max(0) as u8);
                let order = order_of(&event);
                let request =
                    Request::new(order, migrate_type.unwrap_or(MigrateType::Movable), Placement::Local);
                if let Some(pfn) = system.alloc(cpu, &request) {
                    self.live.insert(event.pfn, (pfn, order));
                }
            }
            Operation::Free => {
                system.machine.idle_until(cpu, due);
                let order = order_of(&event);
                let block = self.live.remove(&event.pfn);
                if let Some((pfn, order)) =
                    block.or_else(|| Some((self.earlier[order as usize].pop()?, order)))
                {
                    system.free(cpu, pfn, order);
                }
            }
            Operation::KernelStack => {
                system.machine.idle_until(cpu, due);
                let request = Request::new(0, MigrateType::Unmovable, Placement::Local);
                for _ in 0..event.stack_pages() {
                    self.earlier[0].extend(system.alloc(cpu, &request));
                }
            }
            Operation::VmstatUpdateStart => {
                system.machine.idle_until(cpu, due);
                system.mm.enter(&mut system.machine, cpu).vmstat_update();
            }
            _ => {}
        }
    }
}

/// Opens a trace that lost nothing.
fn open(trace: &Path) -> Result<TraceReader, RunError> {
    let reader = TraceReader::open(trace).map_err(|error| RunError::Trace(error.to_string()))?;
    reader.require_lossless().map_err(|error| RunError::Trace(error.to_string()))?;
    Ok(reader)
}

/// Replays the trace of `spec`.
pub(super) fn run(boot: &Boot, spec: &Replay) -> Result<Outcome, RunError> {
    let open = || open(&spec.trace);
    let (missing, recorded_cpus) = missing_blocks(&mut open()?)?;
    let mut system = boot.system()?;
    let needed = recorded_cpus * spec.copies.max(1);
    let cpus = system.machine.topology.cpus();
    if needed > cpus {
        return Err(RunError::Trace(format!(
            "{}: {} copies of a trace of {recorded_cpus} CPUs need {needed} CPUs, machine {} has {cpus}; fewer copies, or another --machine",
            spec.trace.display(),
            spec.copies.max(1),
            boot.machine.name
        )));
    }
    let mut copies = Vec::new();
    for copy in 0..spec.copies.max(1) {
        let first_cpu = (copy * recorded_cpus) as u16;
        let mut earlier = vec![Vec::new(); missing.len()];
        for (order, &blocks) in missing.iter().enumerate() {
            let request = Request::new(order as u8, MigrateType::Movable, Placement::Local);
            for _ in 0..blocks {
                earlier[order].extend(system.alloc(Cpu(first_cpu), &request));
            }
        }
        let delay = Time::from_nanoseconds(spec.stagger_us * 1000 * copy as u64);
        copies.push(Copy {
            reader: open()?,
            batch: Default::default(),
            first_cpu,
            delay,
            live: HashMap::new(),
            earlier,
        });
    }
    let started = system.latest();
    system.start_measuring(started);
    loop {
        let mut earliest: Option<(Time, usize)> = None;
        for (index, copy) in copies.iter_mut().enumerate() {
            if let Some(due) = copy.next()? {
                earliest = earliest.min(Some((due, index))).or(Some((due, index)));
            }
        }
        let Some((due, index)) = earliest else { break };
        system.observe(started + due);
        copies[index].act(&mut system, started + due);
    }
    let end = system.latest();
    Ok(system.outcome(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_account_for_the_frees_of_unknown_page_frames_that_follow() {
        let event = |operation, pfn, argument| Event { pfn, argument, ..Event::of(operation) };
        let mut unknown = UnknownFrees::new();
        unknown.note(&event(Operation::Free, 7, 0));
        unknown.note(&event(Operation::KernelStack, NO_PAGE, 4));
        unknown.note(&event(Operation::Alloc, 8, 0));
        for pfn in [8, 20, 21, 22, 23] {
            unknown.note(&event(Operation::Free, pfn, 0));
        }
        assert_eq!(unknown.missing[0], 1, "page frame 7 was allocated before the trace");
        unknown.note(&event(Operation::Free, 24, 0));
        assert_eq!(unknown.missing[0], 2);
    }
}
