//! The programs that demand files and memory, before and while they run. Scenarios name them as kinds of a
//! [`ProgramSpec`](crate::tasks::ProgramSpec).

use super::groups::{AccessGroups, Accessors};
use super::memcached::{Memcached, MemcachedDemand};
use super::sysbench::{SysbenchDemand, SysbenchReadOnly};
use super::tpcc::{StockLevel, StockLevelDemand};
use super::{Demand, Layout, Operation};
use machine::WrongValue;
use rand_pcg::Pcg64Mcg;

/// A program that demands files and memory, and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum DemandSpec {
    /// Groups of threads that access files or memory; includes fio.
    Groups(AccessGroups),
    /// memcached, filled by memtier_benchmark.
    Memcached(Memcached),
    /// sysbench's `oltp_read_only` on MySQL.
    SysbenchReadOnly(SysbenchReadOnly),
    /// TPC-C's STOCK_LEVEL on MongoDB.
    StockLevel(Box<StockLevel>),
}

/// A running program.
pub enum Program {
    /// See [`DemandSpec::Groups`].
    Groups(Accessors),
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
            DemandSpec::Memcached(spec) => spec.check(),
            DemandSpec::SysbenchReadOnly(spec) => spec.check(),
            DemandSpec::StockLevel(spec) => spec.check(),
        }
    }

    /// Starts the program; `random` gives each thread a random stream of its own.
    pub fn start(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<Program, WrongValue> {
        Ok(match self {
            DemandSpec::Groups(spec) => Program::Groups(spec.demand(random)?),
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
            Program::Memcached(program) => program.next(thread),
            Program::SysbenchReadOnly(program) => program.next(thread),
            Program::StockLevel(program) => program.next(thread),
        }
    }
}
