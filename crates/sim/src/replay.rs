//! Replays a recorded trace, once or in several copies: the same demand on another machine or kernel.
//!
//! ```text
//!   copy 0   events of CPUs 0..n      ─► CPUs 0..n of the machine
//!   copy 1   the same, a little later ─► CPUs n..2n             ...
//! ```
//!
//! Every CPU waits for the recorded time of an event before it acts; it is late if locks delay it. Pages that
//! the recording frees without having allocated them are allocated before the replay starts. Events that are
//! the page allocator's reaction instead of demand (refills, drains) are skipped.

use crate::outcome::Outcome;
use crate::{Boot, RunError, System};
use machine::{Cpu, Time};
use mm::{MigrateType, Pfn, Placement, Request};
use std::collections::HashMap;
use std::path::PathBuf;
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

/// Numbers of blocks, by order, that a trace frees without having allocated them; and the number of CPUs.
fn missing_blocks(reader: &mut TraceReader) -> Result<(Vec<u64>, usize), RunError> {
    let mut missing = vec![0; mm::page::NR_PAGE_ORDERS];
    let mut live: HashMap<u32, u8> = HashMap::new();
    let mut cpus = 1;
    let mut last = 0;
    each_event(reader, |event| {
        last = event.time;
        cpus = cpus.max(event.cpu as usize + 1);
        match event.operation {
            Operation::Alloc if event.pfn != NO_PAGE => drop(live.insert(event.pfn, event.order)),
            Operation::Free if live.remove(&event.pfn).is_none() => missing[order_of(event) as usize] += 1,
            _ => {}
        }
    })?;
    if last > LATEST {
        let text =
            format!("its last event is at {last} ns; virtual time goes as far as {LATEST} ns, 200 days");
        return Err(RunError::Trace(text));
    }
    Ok((missing, cpus))
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
    /// Blocks allocated before the recording, by order.
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
            Operation::VmstatUpdateStart => {
                system.machine.idle_until(cpu, due);
                system.mm.enter(&mut system.machine, cpu).vmstat_update();
            }
            _ => {}
        }
    }
}

/// Replays the trace of `spec`.
pub(super) fn run(boot: &Boot, spec: &Replay) -> Result<Outcome, RunError> {
    let open = || {
        let reader = TraceReader::open(&spec.trace).map_err(|error| RunError::Trace(error.to_string()))?;
        reader.require_lossless().map_err(|error| RunError::Trace(error.to_string()))?;
        Ok::<_, RunError>(reader)
    };
    let (missing, recorded_cpus) = missing_blocks(&mut open()?)?;
    let mut system = boot.system(1)?;
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
