//! The steps of a case, independent of the memory it runs in: the kernel's, the twin's, or the simple
//! model's.

use std::ops::Range;

use super::case::{Case, Configuration, Operation};
use super::outcome::{Outcome, Statistics, change};

/// Which process does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The process that maps the VMA.
    Parent,
    /// The process that it forks.
    Child,
}

/// Memory in which a case can run. Pages are counted from the start of the VMA.
pub trait Memory {
    type Error;

    /// Writes the files of `transparent_hugepage`.
    fn configure(&mut self, configuration: &Configuration) -> Result<(), Self::Error>;
    /// Unmaps the memory of the previous case.
    fn clear(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Maps the VMA, with `MAP_POPULATE` if `populate`. Returns the number of faults.
    fn map(&mut self, case: &Case, populate: bool) -> Result<u64, Self::Error>;
    /// Stores to pages, or loads from them. Returns the number of faults.
    fn touch(&mut self, process: Process, pages: &[u64], write: bool) -> Result<u64, Self::Error>;
    /// Locks the VMA (`mlock`). Returns the number of faults.
    fn lock(&mut self) -> Result<u64, Self::Error>;
    /// `MADV_DONTNEED`.
    fn drop_pages(&mut self, pages: Range<u64>) -> Result<(), Self::Error>;
    /// Splits the VMA after `pages` pages.
    fn split(&mut self, pages: u64) -> Result<(), Self::Error>;
    fn fork(&mut self) -> Result<(), Self::Error>;
    /// Lets the child exit.
    fn exit(&mut self) -> Result<(), Self::Error>;
    /// The layout of the VMA, as `outcome.rs` writes it.
    fn layout(&mut self, process: Process) -> Result<String, Self::Error>;
    /// `Rss` in KiB and `THPeligible` of the VMA, or of its first part.
    fn smaps(&mut self) -> Result<(u64, bool), Self::Error>;
    /// The counters of all sizes.
    fn statistics(&mut self) -> Result<Statistics, Self::Error>;
}

/// Runs a case. The VMA is left mapped.
pub fn run<M: Memory>(
    memory: &mut M,
    configuration: &Configuration,
    case: &Case,
) -> Result<Outcome, M::Error> {
    prepare(memory, configuration, case)?;
    let pages = case.touch.order(case.pages);
    let before = memory.statistics()?;
    let mut outcome = Outcome::default();
    use_alone(memory, case, &pages, &mut outcome)?;
    let mut between = memory.statistics()?;
    if let Some(fork) = Fork::of(&case.operation) {
        between = use_forked(memory, fork, &pages, between, &mut outcome)?;
    }
    outcome.statistics = change(&before, &between);
    (outcome.rss_kib, outcome.eligible) = memory.smaps()?;
    outcome.layout = memory.layout(Process::Parent)?;
    Ok(outcome)
}

/// Maps the VMA and populates the pages that are to be there at the start, with small pages, and then enables the sizes of the
/// configuration.
fn prepare<M: Memory>(memory: &mut M, configuration: &Configuration, case: &Case) -> Result<(), M::Error> {
    let nothing = Configuration {
        name: String::new(),
        enabled: configuration.enabled.clone(),
        always: Vec::new(),
        inherit: Vec::new(),
        madvise: Vec::new(),
        beside_full: configuration.beside_full,
    };
    memory.clear()?;
    memory.configure(&nothing)?;
    if case.operation != Operation::Populate {
        memory.map(case, false)?;
    }
    memory.touch(Process::Parent, &case.prepopulated, true)?;
    memory.configure(configuration)
}

/// What the parent does before it forks, if it does.
fn use_alone<M: Memory>(
    memory: &mut M,
    case: &Case,
    pages: &[u64],
    outcome: &mut Outcome,
) -> Result<(), M::Error> {
    let parent = Process::Parent;
    match &case.operation {
        Operation::Populate => outcome.faults = memory.map(case, true)?,
        Operation::Lock => outcome.faults = memory.lock()?,
        Operation::Read => outcome.faults = memory.touch(parent, pages, false)?,
        Operation::ReadWrite => {
            outcome.faults = memory.touch(parent, pages, false)? + memory.touch(parent, pages, true)?;
        }
        Operation::ReadHalfWrite => {
            let half: Vec<u64> = (0..case.pages / 2).collect();
            outcome.faults = memory.touch(parent, &half, false)? + memory.touch(parent, pages, true)?;
        }
        Operation::Drop(range) => {
            outcome.faults = memory.touch(parent, pages, true)?;
            memory.drop_pages(range.clone())?;
            outcome.first_layout = memory.layout(parent)?;
            outcome.faults += memory.touch(parent, &range.clone().collect::<Vec<_>>(), true)?;
        }
        Operation::Split(first) => {
            memory.split(*first)?;
            outcome.faults = memory.touch(parent, pages, true)?;
        }
        Operation::ForkChildAlone => {}
        Operation::Write
        | Operation::ForkChildWrites
        | Operation::ForkChildGone
        | Operation::ForkChildAlive => outcome.faults = memory.touch(parent, pages, true)?,
    }
    Ok(())
}

/// What follows a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fork {
    /// The process that writes.
    writer: Process,
    /// Whether the child is still there then.
    child_lives: bool,
}

impl Fork {
    fn of(operation: &Operation) -> Option<Fork> {
        let (writer, child_lives) = match operation {
            Operation::ForkChildWrites | Operation::ForkChildAlone => (Process::Child, true),
            Operation::ForkChildGone => (Process::Parent, false),
            Operation::ForkChildAlive => (Process::Parent, true),
            _ => return None,
        };
        Some(Fork { writer, child_lives })
    }
}

/// Forks and writes to the pages. `between`: the counters before; returns those from which the second part counts.
fn use_forked<M: Memory>(
    memory: &mut M,
    fork: Fork,
    pages: &[u64],
    mut between: Statistics,
    outcome: &mut Outcome,
) -> Result<Statistics, M::Error> {
    let Fork { writer, child_lives } = fork;
    outcome.first_layout = memory.layout(Process::Parent)?;
    memory.fork()?;
    if !child_lives {
        memory.exit()?;
        between = memory.statistics()?;
    }
    outcome.second_faults = memory.touch(writer, pages, true)?;
    if writer == Process::Child {
        outcome.second_layout = memory.layout(Process::Child)?;
        memory.exit()?;
    }
    outcome.second_statistics = change(&between, &memory.statistics()?);
    if writer == Process::Parent && child_lives {
        memory.exit()?;
    }
    Ok(between)
}
