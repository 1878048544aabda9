//! The processes that `mmtwin verify` observes: this program, started again with a hidden subcommand.

use crate::failure::Failure;
use anyhow::Context;
use live::qemu;
use live::verify::pcp::programs::{self, Program};
use live::verify::{folios, numa, reclaim};
use std::path::PathBuf;

pub use live::verify::GUEST;
pub use live::verify::folios::memory::MEMORY;
pub use live::verify::numa::NUMA_PROCESS;
pub use live::verify::pcp::programs::WORKLOAD;
pub use live::verify::reclaim::reader::READER;

/// A workload of `mmtwin verify pcp`.
#[derive(clap::Args)]
pub struct WorkloadArguments {
    /// Name of the workload
    program: Program,
    /// Directory for the kernel's state before and after the run
    directory: PathBuf,
}

/// The process that reads a file within a memory cgroup, for `mmtwin verify reclaim`.
#[derive(clap::Args)]
pub struct ReaderArguments {
    /// Name of the access sequence
    sequence: String,
    /// The file to read
    file: PathBuf,
    /// The memory cgroup to join
    group: PathBuf,
    /// Number of accesses between two readings of memory.stat
    stat_reads: u32,
    /// Microseconds from an access to the next
    pace_us: u64,
    /// Writes to files of the group, each ACCESS:FILE:BYTES
    writes: Vec<reclaim::GroupWrite>,
}

/// What `mmtwin verify --qemu` runs as init of an emulated machine.
#[derive(clap::Subcommand)]
pub enum Guest {
    /// Run an access sequence and record its reclaim
    Reclaim {
        /// Name of the sequence
        sequence: String,
        /// What makes pages go: max, high, reclaim, damon or damon-quota
        pressure: reclaim::Pressure,
        /// The LRU implementation: classic or multi-gen
        lru: reclaim::Lru,
        /// Which of the boots of the same it is, each with other random numbers
        seed: u64,
    },
    /// Run a program on several NUMA nodes
    Numa {
        /// Name or file of the program
        program: String,
        /// What is recorded of it
        watched: numa::Watched,
        /// Run time in seconds
        seconds: u64,
    },
}

/// Runs a task as init of the emulated machine and powers it off.
pub fn run_guest(guest: &Guest) -> Result<(), Failure> {
    qemu::guest::serve(|| match guest {
        Guest::Reclaim { sequence, pressure, lru, seed } => {
            reclaim::in_guest(sequence, *pressure, *lru, *seed)
        }
        Guest::Numa { program, watched, seconds } => numa::in_guest(program, *watched, *seconds),
    })
    .context("the emulated machine")?;
    Ok(())
}

/// One process of a program for `mmtwin verify numa --qemu`.
#[derive(clap::Args)]
pub struct NumaProcessArguments {
    /// Name or file of the program
    program: String,
    /// Number of the process
    number: u32,
    /// Run time in seconds
    seconds: u64,
}

pub fn run_numa_process(arguments: &NumaProcessArguments) -> Result<(), Failure> {
    numa::run_process(&arguments.program, arguments.number, arguments.seconds)
        .with_context(|| format!("process {} of {}", arguments.number, arguments.program))?;
    Ok(())
}

pub fn run_memory() -> Result<(), Failure> {
    folios::memory::run().context("the process that touches memory")?;
    Ok(())
}

pub fn run_reader(arguments: &ReaderArguments) -> Result<(), Failure> {
    let &ReaderArguments { ref sequence, ref file, ref group, stat_reads, pace_us, ref writes } = arguments;
    reclaim::reader::run(sequence, file, group, reclaim::reader::Manner { stat_reads, pace_us, writes })
        .with_context(|| format!("reading {}", file.display()))?;
    Ok(())
}

pub fn run_workload(arguments: &WorkloadArguments) -> Result<(), Failure> {
    programs::run(arguments.program, &arguments.directory)
        .with_context(|| format!("workload {}", arguments.program.name()))?;
    Ok(())
}
