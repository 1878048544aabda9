//! From a trace to processes.
//!
//! ```text
//!   for each event, in order of time:
//!     the CPU time since the CPU's previous event belongs to the task that ran there
//!     alloc, free    ─► an operation of that task       fork, exit ─► the family tree
//!   at the end:  tree ─► units, units ─► tail
//! ```

use super::operation::Operation;
use super::profile::{Process, ProcessProfile, Totals};
use crate::trace::{Event, Operation as Traced, TraceError, TraceReader};
use mm::MigrateType;
use std::collections::HashMap;

/// What recording one event costs the recorded task: 170 ns with tracefs ring buffers, measured as the slow-down
/// of a page-fault loop divided by its events. It is taken off the CPU time of each event.
pub const TRACING_NANOSECONDS_PER_EVENT: u64 = 170;

/// Allocations or frees of one kind with less CPU time than this between them make one operation. A compiler
/// process allocates a page every 27 µs on average; ten times that ends a burst.
const JOINED_NANOSECONDS: u64 = 250_000;

/// Frees of one kind in a row that are put in the order of allocation: about what unmapping gathers before it
/// frees. Their order within that many does not reach the zone, whose pagesets take and give batches.
const GATHERED_FREES: usize = 512;

/// A live block: who allocated it, as which of its allocations.
#[derive(Clone, Copy)]
struct Owner {
    process: u32,
    allocation: u32,
    order: u8,
    migrate_type: MigrateType,
}

struct Building {
    process: Process,
    parent: Option<u32>,
    started: u64,
    ended: u64,
    pending: u64,
    allocations: u32,
    /// Own allocations freed in a row, all of the kind of the last, and the CPU time that took.
    gathered: Vec<u32>,
    gathered_kind: Option<(u8, MigrateType)>,
    gathered_nanoseconds: u64,
}

#[derive(Default)]
struct Distiller {
    processes: Vec<Building>,
    /// Processes of the build by pid; a pid may come again.
    by_task: HashMap<i32, u32>,
    live: HashMap<u32, Owner>,
    last_event: Vec<u64>,
    running: Vec<i32>,
    /// The build's process that ran last on each CPU.
    last_process: Vec<Option<u32>>,
    totals: Totals,
}

impl Building {
    /// Takes the CPU time since the last operation; long stretches become an operation of their own.
    fn take_pending(&mut self) -> u32 {
        if self.pending < JOINED_NANOSECONDS {
            return std::mem::take(&mut self.pending) as u32;
        }
        let mut left = std::mem::take(&mut self.pending);
        while left > 0 {
            let part = left.min(u32::MAX.into());
            self.process.operations.push(Operation::Run { nanoseconds: part as u32 });
            left -= part;
        }
        0
    }

    fn allocate(&mut self, new_order: u8, new_type: MigrateType) {
        self.release_gathered();
        let spent = self.take_pending();
        self.allocations += 1;
        if let Some(Operation::Allocate { order, migrate_type, count, nanoseconds }) = self.process.operations.last_mut()
            && (*order, *migrate_type) == (new_order, new_type)
            && let Some(sum) = nanoseconds.checked_add(spent)
        {
            *count += 1;
            *nanoseconds = sum;
            return;
        }
        let operation = Operation::Allocate { order: new_order, migrate_type: new_type, count: 1, nanoseconds: spent };
        self.process.operations.push(operation);
    }

    fn free(&mut self, owner: Owner) {
        let kind = (owner.order, owner.migrate_type);
        let pauses = self.pending >= JOINED_NANOSECONDS;
        if pauses || self.gathered_kind != Some(kind) || self.gathered.len() == GATHERED_FREES {
            self.release_gathered();
        }
        self.gathered_nanoseconds += u64::from(self.take_pending());
        self.gathered_kind = Some(kind);
        self.gathered.push(owner.allocation);
    }

    /// Turns the gathered frees into operations: runs of consecutive allocations.
    fn release_gathered(&mut self) {
        let mut left = std::mem::take(&mut self.gathered_nanoseconds);
        let mut frees = std::mem::take(&mut self.gathered);
        frees.sort_unstable();
        let mut remaining = frees.len() as u64;
        for run in frees.chunk_by(|a, b| a + 1 == *b) {
            let share = left * run.len() as u64 / remaining;
            left -= share;
            remaining -= run.len() as u64;
            let (first, count) = (run[0], run.len() as u32);
            self.process.operations.push(Operation::Free { first, count, nanoseconds: share as u32 });
        }
        frees.clear();
        self.gathered = frees;
        self.gathered_kind = None;
    }

    fn free_shared(&mut self, new_order: u8) {
        self.release_gathered();
        let spent = self.take_pending();
        if let Some(Operation::FreeShared { order, count, nanoseconds }) = self.process.operations.last_mut()
            && *order == new_order
            && let Some(sum) = nanoseconds.checked_add(spent)
        {
            *count += 1;
            *nanoseconds = sum;
            return;
        }
        self.process.operations.push(Operation::FreeShared { order: new_order, count: 1, nanoseconds: spent });
    }
}

impl Distiller {
    fn process_of(&self, task: i32) -> Option<u32> {
        self.by_task.get(&task).copied()
    }

    fn begin(&mut self, task: i32, parent: Option<u32>, time: u64) {
        let index = self.processes.len() as u32;
        self.by_task.insert(task, index);
        self.processes.push(Building {
            process: Process { task, ..Process::default() },
            parent,
            started: time,
            ended: time,
            pending: 0,
            allocations: 0,
            gathered: Vec::new(),
            gathered_kind: None,
            gathered_nanoseconds: 0,
        });
    }

    fn event(&mut self, event: &Event) {
        let cpu = event.cpu as usize;
        if cpu >= self.running.len() {
            self.last_event.resize(cpu + 1, event.time);
            self.running.resize(cpu + 1, event.task);
            self.last_process.resize(cpu + 1, None);
        }
        let elapsed = event.time.saturating_sub(self.last_event[cpu]);
        self.last_event[cpu] = event.time;
        self.running[cpu] = event.task;
        let current = self.process_of(event.task);
        if let Some(process) = current {
            let building = &mut self.processes[process as usize];
            building.pending += elapsed.saturating_sub(TRACING_NANOSECONDS_PER_EVENT);
            building.ended = event.time;
            self.last_process[cpu] = current;
        }
        match event.operation {
            Traced::Fork => {
                let child = event.argument as i32;
                match current {
                    Some(_) => self.begin(child, current, event.time),
                    // Somebody else's child got a pid that one of the build's processes had before.
                    None => drop(self.by_task.remove(&child)),
                }
            }
            Traced::Alloc => self.alloc(event, current),
            Traced::Free => self.free(event, current, self.last_process[cpu]),
            _ => {}
        }
    }

    fn alloc(&mut self, event: &Event, current: Option<u32>) {
        // A block that is allocated again must have been freed, if only by a path without an event.
        self.live.remove(&event.pfn);
        let (Some(process), Some(migrate_type)) = (current, MigrateType::from_number(event.migratetype.max(0) as u8))
        else {
            return;
        };
        if event.pfn == crate::trace::NO_PAGE || event.order > mm::page::MAX_PAGE_ORDER {
            return;
        }
        let building = &mut self.processes[process as usize];
        let (order, allocation) = (event.order, building.allocations);
        let owner = Owner { process, allocation, order, migrate_type };
        building.allocate(event.order, migrate_type);
        self.live.insert(event.pfn, owner);
        self.totals.allocated_pages += 1 << event.order;
        *self.totals.allocations.entry(format!("order {} {}", event.order, migrate_type.name())).or_default() += 1;
    }

    fn free(&mut self, event: &Event, current: Option<u32>, last: Option<u32>) {
        let owner = self.live.remove(&event.pfn);
        let pages = 1u64 << event.order.min(mm::page::MAX_PAGE_ORDER);
        match (current, owner) {
            (Some(process), Some(owner)) if owner.process == process => {
                self.processes[process as usize].free(owner);
                self.totals.freed_own_pages += pages;
            }
            // Freed by somebody else, but it was the build's: on behalf of whoever ran here last.
            (_, Some(_)) | (Some(_), None) => {
                if let Some(process) = current.or(last) {
                    self.processes[process as usize].free_shared(event.order.min(mm::page::MAX_PAGE_ORDER));
                    self.totals.freed_shared_pages += pages;
                }
            }
            (None, None) => {}
        }
    }
}

/// Units of more processes than this are scripts that check the tree once, before the build proper: sampled like
/// compilations they would make a build of nothing but themselves, so they are left out.
const MOST_PROCESSES_OF_A_UNIT: usize = 64;

/// Distils the recorded command and everything that it started. Of the units only one in `keep_one_in` is kept,
/// evenly over the build; the profile remembers how many there were.
pub fn distil(trace: &mut TraceReader, keep_one_in: usize) -> Result<ProcessProfile, TraceError> {
    trace.require_lossless()?;
    let metadata = trace.metadata().clone();
    let mut distiller = Distiller::default();
    distiller.begin(metadata.command_task, None, 0);
    loop {
        let batch = trace.next_batch()?;
        if batch.is_empty() {
            break;
        }
        batch.iter().for_each(|event| distiller.event(event));
    }
    for building in &mut distiller.processes {
        building.release_gathered();
        let rest = building.take_pending();
        if rest > 0 {
            building.process.operations.push(Operation::Run { nanoseconds: rest });
        }
        let name = metadata.tasks.get(&building.process.task);
        building.process.kind = name.cloned().unwrap_or_else(|| "unknown".into());
    }
    let (units, tail) = units_and_tail(&distiller.processes);
    distiller.totals.units = units.len() as u64;
    let sampled = units.into_iter().filter(|unit| unit.len() <= MOST_PROCESSES_OF_A_UNIT);
    let units = sampled.step_by(keep_one_in.max(1)).collect();
    let processes = distiller.processes.into_iter().map(|building| building.process).collect();
    Ok(ProcessProfile::assemble(processes, units, tail, distiller.totals, &metadata))
}

/// A job of make while the tree is being cut.
struct Unit {
    processes: Vec<u32>,
    started: u64,
    ended: u64,
    /// The unit that started the make that started this one, if that make is not the build's own.
    parent: Option<usize>,
    make: bool,
}

/// Groups processes into the jobs of make, and splits off the jobs at the end that ran one at a time.
fn units_and_tail(processes: &[Building]) -> (Vec<Vec<u32>>, Vec<u32>) {
    let is_make = |index: u32| processes[index as usize].process.kind == "make";
    // A process heads a unit if make started it; make itself is a unit of one process.
    let mut units: Vec<Unit> = Vec::new();
    let mut unit_of: Vec<usize> = Vec::with_capacity(processes.len());
    for (index, building) in processes.iter().enumerate() {
        let index = index as u32;
        let heads = is_make(index) || building.parent.is_none_or(is_make);
        let parent = building.parent.map(|parent| unit_of[parent as usize]);
        let unit = match parent {
            Some(unit) if !heads => unit,
            _ => {
                let make = is_make(index);
                units.push(Unit { processes: vec![], started: building.started, ended: 0, parent, make });
                units.len() - 1
            }
        };
        unit_of.push(unit);
        units[unit].processes.push(index);
        units[unit].ended = units[unit].ended.max(building.ended);
    }
    // The tail begins where from then on every job starts after all earlier ones have ended, those aside
    // that wait for it.
    let waits_for = |outer: usize, inner: usize| {
        let mut ancestor = units[inner].parent;
        while let Some(unit) = ancestor {
            if unit == outer {
                return true;
            }
            ancestor = units[unit].parent;
        }
        false
    };
    let mut by_start: Vec<usize> = (0..units.len()).filter(|&unit| !units[unit].make).collect();
    by_start.sort_by_key(|&unit| units[unit].started);
    let mut tail_from = 0;
    let mut active: Vec<usize> = Vec::new();
    for (position, &unit) in by_start.iter().enumerate() {
        active.retain(|&earlier| units[earlier].ended > units[unit].started);
        if active.iter().any(|&earlier| !waits_for(earlier, unit)) {
            tail_from = position + 1;
        }
        active.push(unit);
    }
    let mut in_tail = vec![false; units.len()];
    by_start[tail_from..].iter().for_each(|&unit| in_tail[unit] = true);
    let (mut parallel, mut tail) = (Vec::new(), Vec::new());
    for (unit, is_tail) in units.into_iter().zip(in_tail) {
        if is_tail { tail.extend(unit.processes) } else { parallel.push(unit.processes) }
    }
    tail.sort_by_key(|&index| processes[index as usize].started);
    (parallel, tail)
}
