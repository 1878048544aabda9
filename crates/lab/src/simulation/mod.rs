//! Runs: a workload on a machine with a kernel, in virtual time.
//!
//! ```text
//!   Run ─► System (machine, memory manager, daemons) ◄── Program (what the CPUs do) ─► Outcome
//! ```
//!
//! One run is one thread and deterministic; many runs use all cores (`lab::experiment`).

mod flushers;
pub mod kbuild;
pub mod kernel_writes;
mod kswapd;
pub mod long_running;
pub mod mappings;
pub mod numa;
pub mod page_fault;
pub mod paging;
pub mod replay;
pub mod socket;
pub mod system;

use crate::metric;
use crate::outcome::Outcome;
use crate::scenario::{KernelChoice, Run, ScenarioError, Workload};
use machine::{Cpu, PageSize, Time};
use mm::Settings;
use mm::hugetlb::WriteError;
use mm::memory_map::{MemoryRange, booted_memory};
use rand_pcg::Pcg64Mcg;
use thiserror::Error;

pub use system::{Program, Step, System};

/// Why a run could not be made.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run asks for something that does not exist.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The recorded processes cannot be read.
    #[error("{0}")]
    Profile(String),
    /// The recorded trace cannot be read or replayed.
    #[error("{0}")]
    Trace(String),
    /// A scenario's demand for memory cannot be made.
    #[error("workload.{part}.{error}")]
    Demand {
        /// The table of the workload.
        part: &'static str,
        /// What is wrong.
        error: workload::demand::SpecError,
    },
    /// RAM disks are larger than the machine's memory.
    #[error("RAM disks need {mib} MiB, which machine {machine} does not have free; take a larger one")]
    TooLarge {
        /// What they need.
        mib: u64,
        /// The machine.
        machine: String,
    },
    /// Nothing was left to reclaim.
    #[error("out of memory, the kernel would kill a process; add memory, swap or a larger cgroup_max_mib")]
    OutOfMemory,
    /// The kernel refuses a write.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Names a stream of random numbers of a run; streams of different names are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stream {
    /// How long locked sections take beyond the sum of their parts.
    SectionSpread = 1,
    /// Where the scheduler puts processes.
    Placement = 2,
    /// Which recorded processes run.
    Demand = 3,
    /// When a service's requests arrive, and how much work they are.
    Arrivals = 4,
}

/// The generator of a run's stream; variants of one seed share the streams and so see the same demand.
pub(crate) fn stream(seed: u64, stream: Stream, index: u64) -> Pcg64Mcg {
    use rand::SeedableRng;
    // A state is odd: the lowest bit says nothing.
    let state = u128::from(index << 8 | stream as u64) << 64 | u128::from(seed) << 1;
    // Neighbouring seeds must not give neighbouring states.
    let mut mixed = Pcg64Mcg::new(state);
    Pcg64Mcg::from_rng(&mut mixed)
}

/// Boots a system for `run`.
fn boot(run: &Run, cgroups: usize) -> Result<System, ScenarioError> {
    boot_with(run, cgroups, &booted_memory(&run.machine))
}

/// The same on a machine with this memory.
fn boot_with(run: &Run, cgroups: usize, memory: &[MemoryRange]) -> Result<System, ScenarioError> {
    let choice = KernelChoice::parse(&run.series, &run.variant)?;
    let page_size = run.machine.page_size;
    let mut settings = Settings::new(page_size);
    for (name, value) in &run.settings {
        settings.set(name, value)?;
    }
    if page_size != PageSize::Kib4 && settings.boot_huge_pages != [0; 2] {
        return Err(ScenarioError::OutOfRange {
            key: "hugepages-2048kB/boot, hugepages-1048576kB/boot".into(),
            value: format!("{:?}", settings.boot_huge_pages),
            expected: format!(
                "0 on machine {}: pools of huge pages have base pages of 4 KiB",
                run.machine.name
            ),
        });
    }
    let topology = run.machine.topology();
    let noise = stream(run.seed, Stream::SectionSpread, 0);
    let costs = run.machine.costs();
    let mut system = System::new(topology, costs, memory, choice.variant.features, settings, cgroups, noise);
    system.reached = run.reached.clone();
    system.mm.enter(&mut system.machine, Cpu(0)).boot_huge_pages();
    if let Some(batch) = choice.batch {
        system.mm.force_pagesets(batch, 2 * batch);
    }
    Ok(system)
}

/// Makes one run.
pub fn run(run: &Run) -> Result<Outcome, RunError> {
    // A run may have been changed since its scenario made it.
    run.check_fit()?;
    match &run.workload {
        Workload::PageFault(spec) => {
            let mut system = boot(run, 1)?;
            let mut program = page_fault::PageFault::new(spec, system.mm.page_size());
            program.start(&mut system);
            let (mut outcome, warm) = measure(&mut system, &mut program, spec.milliseconds, |_| {});
            let score = program.pages_per_second(warm).ok_or_else(|| ScenarioError::OutOfRange {
                key: format!("{}: workload.milliseconds", run.scenario),
                value: spec.milliseconds.to_string(),
                expected: format!(
                    "enough for each task to end two rounds of {} MiB; more, or fewer mib",
                    spec.mib
                ),
            })?;
            outcome.set(metric::SCORE, score);
            let us = |picoseconds: f64| picoseconds / 1e6;
            let latencies = system.mm.latencies();
            outcome.set(metric::TAKE_MEAN, us(latencies.take.mean()));
            outcome.set(metric::TAKE_P99, us(latencies.take.value_at_quantile(0.99) as f64));
            outcome.set(metric::PUT_MEAN, us(latencies.put.mean()));
            outcome.set(metric::PUT_P99, us(latencies.put.value_at_quantile(0.99) as f64));
            Ok(outcome)
        }
        Workload::SocketStream(spec) => {
            let mut system = boot(run, 1)?;
            let mut program = socket::SocketStreams::new(spec.clone(), &system, run.seed);
            program.start(&mut system);
            let (mut outcome, _) =
                measure(&mut system, &mut program, spec.milliseconds, |p| p.start_measuring());
            outcome.set(metric::SCORE, program.received as f64 / outcome.virtual_seconds);
            outcome.set(metric::CACHE_MISS, program.miss_rate());
            Ok(outcome)
        }
        Workload::Kbuild(spec) => kbuild::run(run, spec),
        Workload::Replay(spec) => replay::run(run, spec),
        Workload::KernelWrites(spec) => kernel_writes::run(run, spec),
        Workload::Paging(spec) => paging::run(run, spec),
        Workload::Numa(spec) => numa::run(run, spec),
        Workload::LongRunning(spec) => long_running::run(run, spec),
        Workload::Mappings(spec) => mappings::run(run, spec),
    }
}

/// Runs a program: a quarter of the time as warm-up, then `warmed_up` is called, then measured until the time is over or the program
/// has finished.
/// Returns what was measured and from when on.
fn measure<P: Program>(
    system: &mut System,
    program: &mut P,
    milliseconds: u64,
    warmed_up: impl Fn(&mut P),
) -> (Outcome, Time) {
    let warm = Time::from_nanoseconds(milliseconds * 250_000);
    system.run(program, warm);
    system.start_measuring(warm);
    warmed_up(program);
    let end = warm + Time::from_nanoseconds(milliseconds * 1_000_000);
    system.run(program, end);
    let end = if program.is_finished() { system.latest().min(end) } else { end };
    (system.outcome(end), warm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn each_seed_stream_and_index_has_numbers_of_its_own() {
        let names = [Stream::SectionSpread, Stream::Placement, Stream::Demand, Stream::Arrivals];
        let mut first = BTreeSet::new();
        for (seed, index) in (0..16).flat_map(|seed| (0..4).map(move |index| (seed, index))) {
            for name in names {
                assert!(first.insert(stream(seed, name, index).next_u64()), "{seed}, {name:?}, {index}");
            }
        }
    }
}
