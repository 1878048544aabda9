//! The books: every picosecond of every CPU belongs to exactly one category.
//!
//! The categories are the business of the layer above (a memory manager has page clearing and lock waits,
//! another user of this crate would have others); this module only adds up.

use crate::time::Time;
use crate::topology::Cpu;
use std::fmt::Debug;
use std::marker::PhantomData;

/// What time can be spent on.
pub trait Category: Copy + Debug + 'static {
    /// How many categories there are.
    const COUNT: usize;
    /// The category of a CPU with nothing to do.
    const IDLE: Self;
    /// This category's place among `COUNT`.
    fn index(self) -> usize;
}

/// Time by CPU and category.
#[derive(Clone, Debug)]
pub struct Accounts<C> {
    spent: Vec<Time>,
    categories: PhantomData<C>,
}

impl<C: Category> Accounts<C> {
    /// Empty books for `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Accounts { spent: vec![Time::ZERO; cpus * C::COUNT], categories: PhantomData }
    }

    /// What `cpu` spent, by category.
    #[inline]
    pub(crate) fn of(&mut self, cpu: Cpu) -> &mut [Time] {
        &mut self.spent[cpu.index() * C::COUNT..][..C::COUNT]
    }

    /// What `cpu` spent on `category`.
    pub fn spent(&self, cpu: Cpu, category: C) -> Time {
        self.spent[cpu.index() * C::COUNT + category.index()]
    }

    /// What all CPUs together spent on `category`.
    pub fn total(&self, category: C) -> Time {
        self.spent.iter().skip(category.index()).step_by(C::COUNT).copied().sum()
    }

    /// What all CPUs together spent on anything but idling.
    pub fn busy(&self) -> Time {
        self.spent.iter().copied().sum::<Time>() - self.total(C::IDLE)
    }
}
