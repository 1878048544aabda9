//! What happens when programs run: a workload on a machine with a kernel, in virtual time.
//!
//! ```text
//!   Run ─► boot ─► System (machine, memory manager, daemons) ◄── Program (what the CPUs do) ─► Outcome
//!                     │
//!                     └─► Reached: where the run is, for whoever waits
//! ```
//!
//! A [`Run`] says everything that decides what comes out, so the same run has the same [`outcome::Outcome`] wherever it is made.
//! Who asks for it, how often, and what is made of the answers is not known here. One run is one thread; many runs use all cores
//! (`lab::experiment`).

mod fit;
mod flushers;
pub mod kbuild;
pub mod kernel_writes;
mod kswapd;
pub mod long_running;
pub mod mappings;
pub mod metric;
pub mod numa;
pub mod outcome;
pub mod page_cache;
pub mod page_fault;
pub mod paging;
pub mod reached;
pub mod readahead;
pub mod replay;
mod run;
mod sched;
pub mod socket;
pub mod system;

use crate::outcome::Outcome;
use crate::reached::Reached;
use machine::{Cpu, PageSize, Time, WrongValue};
use mm::hugetlb::WriteError;
use mm::memory_map::{MemoryRange, booted_memory};
use mm::{SettingError, Settings};
use rand_pcg::Pcg64Mcg;
use thiserror::Error;

pub use fit::Misfit;
pub use run::{KernelChoice, KernelError, Run, Workload};
pub use system::{Program, Step, System};

/// Why a run could not be made.
#[derive(Debug, Error)]
pub enum RunError {
    /// There is no such kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel does not take a setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The run asks for what cannot be had.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The recorded processes cannot be read.
    #[error("{0}")]
    Profile(String),
    /// The recorded trace cannot be read or replayed.
    #[error("{0}")]
    Trace(String),
    /// A workload's demand for memory cannot be made.
    #[error(transparent)]
    Demand(WrongValue),
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

/// Boots a system for `run`, which notes in `reached` where it is.
fn boot(run: &Run, cgroups: usize, reached: &Reached) -> Result<System, RunError> {
    boot_with(run, cgroups, &booted_memory(&run.machine), reached)
}

/// The same on a machine with this memory.
fn boot_with(
    run: &Run,
    cgroups: usize,
    memory: &[MemoryRange],
    reached: &Reached,
) -> Result<System, RunError> {
    let choice = KernelChoice::parse(&run.series, &run.variant)?;
    let page_size = run.machine.page_size;
    let mut settings = Settings::new(page_size);
    for (name, value) in &run.settings {
        settings.set(name, value)?;
    }
    if page_size != PageSize::Kib4 && settings.boot_huge_pages != [0; 2] {
        return Err(RunError::Misfit(Misfit::OutOfRange(WrongValue::new(
            "hugepages-2048kB/boot, hugepages-1048576kB/boot",
            format!("{:?}", settings.boot_huge_pages),
            format!("0 on machine {}: pools of huge pages have base pages of 4 KiB", run.machine.name),
        ))));
    }
    let topology = run.machine.topology();
    let noise = stream(run.seed, Stream::SectionSpread, 0);
    let costs = run.machine.costs();
    let mut system = System::new(topology, costs, memory, choice.variant.features, settings, cgroups, noise);
    system.reached = reached.clone();
    system.mm.enter(&mut system.machine, Cpu(0)).boot_huge_pages();
    if let Some(batch) = choice.batch {
        system.mm.force_pagesets(batch, 2 * batch);
    }
    Ok(system)
}

/// Makes one run, on which nobody looks while it is made.
pub fn run(run: &Run) -> Result<Outcome, RunError> {
    run_noting(run, &Reached::default())
}

/// Makes one run, and notes in `reached` where it is.
pub fn run_noting(run: &Run, reached: &Reached) -> Result<Outcome, RunError> {
    // A run may have been changed since it was checked.
    run.check_fit()?;
    match &run.workload {
        Workload::PageFault(spec) => {
            let mut system = boot(run, 1, reached)?;
            let mut program = page_fault::PageFault::new(spec, system.mm.parts.allocator.page_size());
            program.start(&mut system);
            let (mut outcome, warm) = measure(&mut system, &mut program, spec.milliseconds, |_| {});
            let score = program.pages_per_second(warm).ok_or_else(|| {
                let expected =
                    format!("enough for each task to end two rounds of {} MiB; more, or fewer mib", spec.mib);
                Misfit::OutOfRange(WrongValue::new("workload.milliseconds", spec.milliseconds, expected))
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
            let mut system = boot(run, 1, reached)?;
            let mut program = socket::SocketStreams::new(spec.clone(), &system, run.seed);
            program.start(&mut system);
            let (mut outcome, _) =
                measure(&mut system, &mut program, spec.milliseconds, |p| p.start_measuring());
            outcome.set(metric::SCORE, program.received as f64 / outcome.virtual_seconds);
            outcome.set(metric::CACHE_MISS, program.miss_rate());
            Ok(outcome)
        }
        Workload::Kbuild(spec) => kbuild::run(run, spec, reached),
        Workload::Replay(spec) => replay::run(run, spec, reached),
        Workload::KernelWrites(spec) => kernel_writes::run(run, spec, reached),
        Workload::Paging(spec) => paging::run(run, spec, reached),
        Workload::Numa(spec) => numa::run(run, spec, reached),
        Workload::LongRunning(spec) => long_running::run(run, spec, reached),
        Workload::Mappings(spec) => mappings::run(run, spec, reached),
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
mod tests;
