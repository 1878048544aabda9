//! From a trace to processes.
//!
//! ```text
//!   for each event, in order of time:
//!     the CPU time since the CPU's previous event belongs to the task that ran there
//!     alloc, free  ─► an operation of that task          fork ─► the family tree
//!   at the end:  tree ─► units and tail ─► a sample of the units
//! ```
//!
//! The recording's own cost is taken off: [`TRACING_NANOSECONDS_PER_EVENT`] for each event, as far as the time
//! since the event before goes.

use super::building::{Building, Owner};
use super::profile::{Process, ProcessProfile, Totals};
use super::summary::{Runs, Summary};
use super::units::{Family, sample, units_and_tail};
use crate::trace::{Event, NO_PAGE, Operation as Traced, TraceError, TraceReader};
use mm::MigrateType;
use mm::page::MAX_PAGE_ORDER;
use std::collections::{BTreeMap, HashMap};

/// What recording one event costs the recorded task: 170 ns with tracefs ring buffers, measured as the slow-down
/// of a page-fault loop divided by its events.
pub const TRACING_NANOSECONDS_PER_EVENT: u64 = 170;

/// Units of more processes than this are scripts that look over the tree once, before the build proper: sampled
/// like compilations they would make a build of nothing but themselves, so they are left out.
const MOST_PROCESSES_OF_A_UNIT: usize = 64;

/// What happened on a CPU last.
#[derive(Clone, Copy)]
struct Cpu {
    event: u64,
    /// The build's process that ran last.
    process: Option<u32>,
}

#[derive(Default)]
struct Distiller {
    processes: Vec<Building>,
    /// Processes of the build by pid; a pid may come again.
    by_task: HashMap<i32, u32>,
    /// Blocks by first page; `None`: an outsider's.
    live: HashMap<u32, Option<Owner>>,
    cpus: Vec<Cpu>,
}

impl Distiller {
    fn begin(&mut self, task: i32, parent: Option<u32>, time: u64) {
        self.by_task.insert(task, self.processes.len() as u32);
        self.processes
            .push(Building::new(task, Family { parent, started: time, ended: time, is_make: false }));
    }

    fn event(&mut self, event: &Event) {
        let cpu = usize::from(event.cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Cpu { event: event.time, process: None });
        }
        let elapsed = event.time.saturating_sub(self.cpus[cpu].event);
        self.cpus[cpu].event = event.time;
        let current = self.by_task.get(&event.task).copied();
        if let Some(process) = current {
            let building = &mut self.processes[process as usize];
            building.spend(elapsed.saturating_sub(TRACING_NANOSECONDS_PER_EVENT));
            building.family.ended = event.time;
            self.cpus[cpu].process = current;
        }
        match event.operation {
            Traced::Fork => {
                let child = event.argument as i32;
                match current {
                    Some(_) => self.begin(child, current, event.time),
                    // Somebody else's child has a pid that one of the build's processes had before.
                    None => drop(self.by_task.remove(&child)),
                }
            }
            Traced::Alloc => self.alloc(event, current),
            Traced::Free => self.free(event, current, self.cpus[cpu].process),
            _ => {}
        }
    }

    fn alloc(&mut self, event: &Event, current: Option<u32>) {
        if event.pfn == NO_PAGE || event.order > MAX_PAGE_ORDER {
            return;
        }
        let migrate_type = u8::try_from(event.migratetype).ok().and_then(MigrateType::from_number);
        let owner = current.zip(migrate_type).map(|(process, migrate_type)| {
            let building = &mut self.processes[process as usize];
            let owner = Owner { process, allocation: building.allocated, order: event.order, migrate_type };
            building.allocate(event.order, migrate_type);
            owner
        });
        // Takes the place of an earlier block that was freed by a path without an event.
        self.live.insert(event.pfn, owner);
    }

    fn free(&mut self, event: &Event, current: Option<u32>, last: Option<u32>) {
        if event.order > MAX_PAGE_ORDER {
            return;
        }
        let owner = self.live.remove(&event.pfn);
        match (current, owner) {
            // A block that was split since is not freed as a whole: its pieces count as others' pages.
            (Some(process), Some(Some(owner))) if owner.process == process && owner.order == event.order => {
                self.processes[process as usize].free(owner);
            }
            // An outsider's block, freed in an interrupt: not the build's demand.
            (_, Some(None)) => {}
            // Memory that the kernel prepares late comes to its free lists in the largest blocks.
            (Some(_), None) if event.order == MAX_PAGE_ORDER => {}
            (Some(process), _) => self.processes[process as usize].free_shared(event.order),
            // Freed by somebody else, but it was the build's: on behalf of whoever ran here last.
            (None, Some(Some(_))) => {
                if let Some(process) = last {
                    self.processes[process as usize].free_shared(event.order);
                }
            }
            (None, None) => {}
        }
    }

    /// Sums over all processes, by kind and in all; those of `left_out` apart.
    fn totals(&mut self, units: usize, left_out: &[Vec<u32>]) -> Totals {
        let mut is_left_out = vec![false; self.processes.len()];
        left_out.iter().flatten().for_each(|&index| is_left_out[index as usize] = true);
        let mut by_kind: BTreeMap<String, (Summary, Runs)> = BTreeMap::new();
        let mut apart = (Summary::default(), Runs::default());
        for (building, is_left_out) in self.processes.iter_mut().zip(is_left_out) {
            let (sum, runs) = if is_left_out {
                &mut apart
            } else {
                by_kind.entry(building.process.kind.clone()).or_default()
            };
            building.add_to(sum, runs);
        }
        let mut totals = Totals { units: units as u64, ..Totals::default() };
        for (kind, (mut sum, runs)) in by_kind {
            runs.finish(&mut sum);
            totals.add(&sum);
            totals.kinds.insert(kind, sum);
        }
        let (mut sum, runs) = apart;
        runs.finish(&mut sum);
        totals.add(&sum);
        totals.left_out = sum;
        totals
    }
}

/// Distils the recorded command and everything that it started. Of the units only one in `keep_one_in` is kept,
/// evenly over their lengths; the profile remembers how many there were.
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
        building.end();
        let name = metadata.tasks.get(&building.process.task);
        building.process.kind = name.cloned().unwrap_or_else(|| "unknown".into());
        building.family.is_make = building.process.kind == "make";
    }
    let families: Vec<Family> = distiller.processes.iter().map(|building| building.family).collect();
    let (mut units, tail) = units_and_tail(&families);
    let count = units.len();
    let left_out: Vec<Vec<u32>> =
        units.extract_if(.., |unit| unit.len() > MOST_PROCESSES_OF_A_UNIT).collect();
    let totals = distiller.totals(count, &left_out);
    let units = sample(units, keep_one_in, |index| distiller.processes[index as usize].nanoseconds);
    let processes: Vec<Process> = distiller.processes.into_iter().map(|building| building.process).collect();
    Ok(ProcessProfile::assemble(&processes, &units, &tail, totals, &metadata))
}
