//! What a program reads, writes and touches: which demand, by its key `kind`.
//!
//! ```toml
//! [workload.programs.program]
//! kind = "memcached"
//! ...
//! ```

use super::groups::{AccessGroups, Accessors};
use super::kernel_build::{RecordedBuild, RecordedBuildDemand};
use super::memcached::{Memcached, MemcachedDemand};
use super::sysbench::{SysbenchDemand, SysbenchReadOnly};
use super::tpcc::{StockLevel, StockLevelDemand};
use super::{Demand, Layout, Operation};
use machine::WrongValue;
use machine::profile::Figure;
use rand_pcg::Pcg64Mcg;

/// Checks that swap has a size exactly if it has a device.
pub fn check_swap(device: Option<&String>, mib: u64) -> Result<(), WrongValue> {
    match device.is_some() == (mib > 0) {
        true => Ok(()),
        false => Err(WrongValue::new("swap_mib", mib, "more than 0 with a swap device, 0 without")),
    }
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

crate::kinds! {
    /// A program and its parameters, as in a scenario.
    pub enum DemandSpec {
        /// Groups of threads that access files or memory; includes fio.
        "groups" Groups(AccessGroups),
        /// A recorded kernel build.
        "kernel-build" KernelBuild(RecordedBuild),
        /// memcached, filled by memtier_benchmark.
        "memcached" Memcached(Memcached),
        /// sysbench's `oltp_read_only` on MySQL.
        "sysbench-read-only" SysbenchReadOnly(SysbenchReadOnly),
        /// TPC-C's STOCK_LEVEL on MongoDB.
        "stock-level" StockLevel(Box<StockLevel>),
    }
}

/// A running program.
pub enum Program {
    /// See [`DemandSpec::Groups`].
    Groups(Accessors),
    /// See [`DemandSpec::KernelBuild`].
    KernelBuild(RecordedBuildDemand),
    /// See [`DemandSpec::Memcached`].
    Memcached(MemcachedDemand),
    /// See [`DemandSpec::SysbenchReadOnly`].
    SysbenchReadOnly(SysbenchDemand),
    /// See [`DemandSpec::StockLevel`].
    StockLevel(StockLevelDemand),
}

impl DemandSpec {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        match self {
            DemandSpec::Groups(spec) => spec.check(),
            DemandSpec::KernelBuild(spec) => spec.check(),
            DemandSpec::Memcached(spec) => spec.check(),
            DemandSpec::SysbenchReadOnly(spec) => spec.check(),
            DemandSpec::StockLevel(spec) => spec.check(),
        }
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        match self {
            DemandSpec::Groups(spec) => spec.figures_mut(),
            DemandSpec::KernelBuild(spec) => spec.figures_mut(),
            DemandSpec::Memcached(spec) => spec.figures_mut(),
            DemandSpec::SysbenchReadOnly(spec) => spec.figures_mut(),
            DemandSpec::StockLevel(spec) => spec.figures_mut(),
        }
    }

    /// Starts the program; `random` gives each thread a random stream of its own.
    pub fn start(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<Program, WrongValue> {
        Ok(match self {
            DemandSpec::Groups(spec) => Program::Groups(spec.demand(random)?),
            DemandSpec::KernelBuild(spec) => Program::KernelBuild(spec.demand(random)?),
            DemandSpec::Memcached(spec) => Program::Memcached(spec.demand(random)?),
            DemandSpec::SysbenchReadOnly(spec) => Program::SysbenchReadOnly(spec.demand(random)?),
            DemandSpec::StockLevel(spec) => Program::StockLevel(spec.demand(random)?),
        })
    }
}

impl Demand for Program {
    fn layout(&self) -> &Layout {
        match self {
            Program::Groups(program) => program.layout(),
            Program::KernelBuild(program) => program.layout(),
            Program::Memcached(program) => program.layout(),
            Program::SysbenchReadOnly(program) => program.layout(),
            Program::StockLevel(program) => program.layout(),
        }
    }

    fn queries_per_transaction(&self) -> Option<u32> {
        match self {
            Program::SysbenchReadOnly(program) => program.queries_per_transaction(),
            _ => None,
        }
    }

    #[inline]
    fn next(&mut self, thread: usize) -> Option<Operation> {
        match self {
            Program::Groups(program) => program.next(thread),
            Program::KernelBuild(program) => program.next(thread),
            Program::Memcached(program) => program.next(thread),
            Program::SysbenchReadOnly(program) => program.next(thread),
            Program::StockLevel(program) => program.next(thread),
        }
    }
}
