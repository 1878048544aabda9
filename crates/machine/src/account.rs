//! CPU time accounting: every picosecond of every CPU belongs to exactly one category.
//!
//! The layer above defines the categories (a memory manager has page clearing and lock waits); this module
//! only adds up.

use crate::time::Time;
use crate::topology::Cpu;
use std::fmt::Debug;
use std::marker::PhantomData;

/// A category of CPU time.
pub trait Category: Copy + Debug + 'static {
    /// Number of categories.
    const COUNT: usize;
    /// The category of an idle CPU.
    const IDLE: Self;
    /// Index of the category, less than `COUNT`.
    fn index(self) -> usize;
}

/// CPU time by CPU and category.
#[derive(Clone, Debug)]
pub struct Accounts<C> {
    spent: Vec<Time>,
    categories: PhantomData<C>,
}

impl<C: Category> Accounts<C> {
    /// Empty accounts for `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Accounts { spent: vec![Time::ZERO; cpus * C::COUNT], categories: PhantomData }
    }

    /// CPU time of `cpu`, by category index.
    #[inline]
    pub(crate) fn of(&mut self, cpu: Cpu) -> &mut [Time] {
        &mut self.spent[cpu.index() * C::COUNT..][..C::COUNT]
    }

    /// CPU time of `cpu` in `category`.
    pub fn spent(&self, cpu: Cpu, category: C) -> Time {
        self.spent[cpu.index() * C::COUNT + category.index()]
    }

    /// CPU time of all CPUs in `category`.
    pub fn total(&self, category: C) -> Time {
        self.spent.iter().skip(category.index()).step_by(C::COUNT).copied().sum()
    }

    /// CPU time of all CPUs in all categories but idle.
    pub fn busy(&self) -> Time {
        self.spent.iter().copied().sum::<Time>() - self.total(C::IDLE)
    }
}
