//! What `mmtwin verify` watches: this program, called again with a hidden subcommand.

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

/// A workload of `mmtwin verify`, in a process of its own.
#[derive(clap::Args)]
pub struct WorkloadArguments {
    /// Its name
    program: Program,
    /// Where it leaves the kernel's state before and after
    directory: PathBuf,
}

/// The program that `mmtwin verify reclaim` watches, in a process of its own.
#[derive(clap::Args)]
pub struct ReaderArguments {
    /// The sequence of accesses
    sequence: String,
    /// The file to read
    file: PathBuf,
    /// The memory cgroup to join
    group: PathBuf,
    /// Accesses between two readings of memory.stat
    stat_reads: u32,
}

/// What `mmtwin verify --qemu` does as init of the emulated machine.
#[derive(clap::Subcommand)]
pub enum Guest {
    /// Records a sequence of accesses
    Reclaim {
        /// The sequence
        sequence: String,
        /// The lists that reclaim goes by
        lru: reclaim::Lru,
    },
    /// Runs a program on several nodes
    Numa {
        /// The program
        program: String,
        /// What of it is recorded
        watched: numa::Watched,
    },
}

/// Does what was asked for inside an emulated machine and ends that.
pub fn run_guest(guest: &Guest) -> Result<(), Failure> {
    qemu::guest::serve(|| match guest {
        Guest::Reclaim { sequence, lru } => reclaim::in_guest(sequence, *lru),
        Guest::Numa { program, watched } => numa::in_guest(program, *watched),
    })
    .context("the emulated machine")?;
    Ok(())
}

/// A process of a program that `mmtwin verify numa --qemu` watches.
#[derive(clap::Args)]
pub struct NumaProcessArguments {
    /// The program
    program: String,
    /// Which of its processes
    number: u32,
    /// How long it is watched
    seconds: u64,
}

/// Runs a process of a program on several nodes.
pub fn run_numa_process(arguments: &NumaProcessArguments) -> Result<(), Failure> {
    numa::run_process(&arguments.program, arguments.number, arguments.seconds)
        .with_context(|| format!("process {} of {}", arguments.number, arguments.program))?;
    Ok(())
}

/// Maps and touches memory in this process.
pub fn run_memory() -> Result<(), Failure> {
    folios::memory::run().context("the process that touches memory")?;
    Ok(())
}

/// Reads a file in this process.
pub fn run_reader(arguments: &ReaderArguments) -> Result<(), Failure> {
    reclaim::reader::run(&arguments.sequence, &arguments.file, &arguments.group, arguments.stat_reads)
        .with_context(|| format!("reading {}", arguments.file.display()))?;
    Ok(())
}

/// Runs a workload in this process.
pub fn run_workload(arguments: &WorkloadArguments) -> Result<(), Failure> {
    programs::run(arguments.program, &arguments.directory)
        .with_context(|| format!("workload {}", arguments.program.name()))?;
    Ok(())
}
