//! Simulation of one run: a workload on a machine with a kernel, in virtual time.
//!
//! ```text
//!   Run ─► Boot ─► System (machine, memory manager, daemons) ◄── Program (what the CPUs execute) ─► Outcome
//!                     │
//!                     └─► RunProgress: the virtual time so far, for progress displays
//! ```
//!
//! A [`Run`] contains everything that determines the result, so the same run has the same
//! [`outcome::Outcome`] everywhere. This crate knows nothing of scenario files, sets of seeds, statistics or
//! results on disk. A run uses one thread; `lab::experiment` makes many runs on all cores.

mod block_io;
pub mod boot;
mod daemons;
mod error;
mod fit;
mod flushers;
mod held_pages;
pub mod host;
pub mod kbuild;
mod kernel_choice;
pub mod long_running;
mod mapping;
mod memory_access;
pub mod metric;
mod oom;
pub mod outcome;
pub mod page_cache;
pub mod page_fault;
pub mod progress;
mod random;
pub mod readahead;
mod recorded_space;
pub mod replay;
mod run;
pub mod run_event;
mod sched;
pub mod series;
pub mod system;
pub mod timeline;

use crate::outcome::Outcome;
use crate::progress::RunProgress;
use machine::timeline::Window;
use machine::{Time, WrongValue};
use mm::Decisions;
use std::num::NonZeroU32;

pub use boot::Boot;
pub use error::{Misfit, RunError};
pub use kernel_choice::{KernelChoice, KernelError, name_and_features};
pub use run::{Run, TreeKernel, Workload};
pub use system::{Program, Step, System};

/// Makes a run without reporting its progress.
pub fn run(run: &Run) -> Result<Outcome, RunError> {
    run_noting(run, &RunProgress::default())
}

/// Makes a run, and panics with the first invariant of the memory manager that is broken; they are checked whenever CPUs have made so
/// many steps.
pub fn run_validating(run: &Run, every: NonZeroU32) -> Result<Outcome, RunError> {
    run.check_fit()?;
    let progress = &RunProgress::default();
    run_booted(&Boot { validate_every: Some(every), ..run.boot(progress)? }, run)
}

/// Makes a run and notes how it goes in a window that counts from where measuring begins. The outcome is that of [`run`], with a timeline.
pub fn run_with_timeline(run: &Run, window: Window, progress: &RunProgress) -> Result<Outcome, RunError> {
    run.check_fit()?;
    run_booted(&Boot { timeline: Some(window), ..run.boot(progress)? }, run)
}

/// Makes a run and reports its virtual time in `progress`.
pub fn run_noting(run: &Run, progress: &RunProgress) -> Result<Outcome, RunError> {
    match &run.tree {
        Some(_) => Err(RunError::NoDecisions { variant: run.variant.clone() }),
        None => run_deciding(run, Decisions::default(), progress),
    }
}

/// Like [`run_noting`], with a kernel that takes these decisions from a kernel tree.
pub fn run_deciding(run: &Run, decisions: Decisions, progress: &RunProgress) -> Result<Outcome, RunError> {
    // A run may have been changed since it was checked.
    run.check_fit()?;
    run_booted(&Boot { decisions, ..run.boot(progress)? }, run)
}

/// Makes a run that has been checked.
fn run_booted(boot: &Boot, run: &Run) -> Result<Outcome, RunError> {
    match &run.workload {
        Workload::PageFault(spec) => {
            let mut system = boot.system(1)?;
            let mut program = page_fault::PageFault::new(spec, system.mm.parts.allocator.page_size());
            program.start(&mut system);
            let (mut outcome, warm) = measure(&mut system, &mut program, spec.milliseconds);
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
        Workload::Kbuild(spec) => kbuild::run(boot, spec),
        Workload::Replay(spec) => replay::run(boot, spec),
        Workload::LongRunning(spec) => long_running::run(boot, spec),
        Workload::Host(spec) => host::run(boot, spec),
    }
}

/// Runs a program: a quarter of `milliseconds` as warm-up, then measured for `milliseconds` or until the program has finished. Returns
/// what was measured and when measuring began.
fn measure<P: Program>(system: &mut System, program: &mut P, milliseconds: u64) -> (Outcome, Time) {
    let warm = Time::from_nanoseconds(milliseconds * 250_000);
    system.run(program, warm);
    system.start_measuring(warm);
    let end = warm + Time::from_nanoseconds(milliseconds * 1_000_000);
    system.run(program, end);
    let end = if program.is_finished() { system.latest().min(end) } else { end };
    (system.outcome(end), warm)
}

#[cfg(test)]
mod tests;
