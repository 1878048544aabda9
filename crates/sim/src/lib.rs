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
mod kernel_choice;
mod mapping;
mod memory_access;
pub mod metric;
mod oom;
pub mod outcome;
pub mod page_cache;
pub mod progress;
mod random;
pub mod readahead;
mod recorded_space;
pub mod recorded_timeline;
mod run;
pub mod run_event;
mod sched;
pub mod series;
pub mod system;
pub mod timeline;

use crate::outcome::Outcome;
use crate::progress::RunProgress;
use machine::timeline::Window;
use mm::Decisions;
use std::num::NonZeroU32;

pub use boot::Boot;
pub use error::{Misfit, RunError};
pub use host::Workload;
pub use kernel_choice::{KernelChoice, KernelError, name_and_features};
pub use run::{Run, TreeKernel};
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
    host::run(boot, &run.workload)
}

#[cfg(test)]
mod tests;
