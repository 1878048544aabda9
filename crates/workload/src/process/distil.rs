//! Distils a trace into processes.
//!
//! ```text
//!   for each event, in order of time:
//!     the CPU time since the CPU's previous event belongs to the task that ran there
//!     alloc, free  ─► an operation of that task          fork ─► the process tree
//!   at the end:  tree ─► units and tail ─► a sample of the units
//! ```
//!
//! The overhead of recording is subtracted: [`TRACING_NANOSECONDS_PER_EVENT`] per event, but no more than the
//! time since the previous event.

use super::building::{Building, Owner};
use super::profile::{Process, ProcessProfile, Totals};
use super::summary::{Runs, Summary};
use super::units::{Family, sample, units_and_tail};
use crate::trace::{Event, NO_PAGE, Operation as Traced, TraceError, TraceReader};
use mm::MigrateType;
use mm::page::MAX_PAGE_ORDER;
use std::collections::{BTreeMap, HashMap};

/// Time that recording one event costs the recorded task: 170 ns with tracefs ring buffers, measured as the
/// slow-down of a page-fault loop divided by its events.
pub const TRACING_NANOSECONDS_PER_EVENT: u64 = 170;

/// Units with more processes than this are left out. They are scripts that run once, before the build proper;
/// if they were sampled like compilations, they would dominate the build.
const MOST_PROCESSES_OF_A_UNIT: usize = 64;

/// The latest event on a CPU.
#[derive(Clone, Copy)]
struct Cpu {
    event: u64,
    /// The process of the build that ran last.
    process: Option<u32>,
}

#[derive(Default)]
struct Distiller {
    processes: Vec<Building>,
    /// Processes of the build by pid; pids may be reused.
    by_task: HashMap<i32, u32>,
    /// Live blocks by first page; `None` if a task outside the build allocated the block.
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
                    // A task outside the build reuses the pid of a process of the build.
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
        // Replaces an earlier block that was freed by a path without a tracepoint.
        self.live.insert(event.pfn, owner);
    }

    fn free(&mut self, event: &Event, current: Option<u32>, last: Option<u32>) {
        if event.order > MAX_PAGE_ORDER {
            return;
        }
        let owner = self.live.remove(&event.pfn);
        match (current, owner) {
            // A block that was split after its allocation is freed in parts, which count as pages of other
            // processes.
            (Some(process), Some(Some(owner))) if owner.process == process && owner.order == event.order => {
                self.processes[process as usize].free(owner);
            }
            // A block of a task outside the build, freed in an interrupt: not part of the build's demand.
            (_, Some(None)) => {}
            // Deferred initialization of memory (`deferred_init_memmap`) frees blocks of the largest order.
            (Some(_), None) if event.order == MAX_PAGE_ORDER => {}
            (Some(process), _) => self.processes[process as usize].free_shared(event.order),
            // A block of the build that another task freed, on behalf of the process that ran here last.
            (None, Some(Some(_))) => {
                if let Some(process) = last {
                    self.processes[process as usize].free_shared(event.order);
                }
            }
            (None, None) => {}
        }
    }

    /// Totals over all processes and by kind; the processes of `left_out` are summed separately.
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

/// Distils the recorded command and all its descendants. Keeps one of `keep_one_in` units, evenly spread over
/// their CPU times; the profile records how many units there were.
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
