//! CPU time accounting: every picosecond of every CPU belongs to exactly one category.
//!
//! The layer above defines the categories (a memory manager has page clearing and lock waits); this module
//! only adds up.

use crate::time::Time;
use crate::timeline::Timeline;
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
    /// When it went there, if that is asked for.
    timeline: Option<Box<Timeline>>,
    categories: PhantomData<C>,
}

/// Where the time of one CPU goes.
pub(crate) struct Account<'a> {
    cpu: Cpu,
    /// By category index.
    spent: &'a mut [Time],
    timeline: Option<&'a mut Timeline>,
}

impl Account<'_> {
    /// Adds `duration`, which begins at `from`, to a category.
    #[inline]
    pub fn add<C: Category>(&mut self, category: C, from: Time, duration: Time) {
        self.spent[category.index()] += duration;
        if let Some(timeline) = &mut self.timeline
            && category.index() != C::IDLE.index()
        {
            timeline.spend(self.cpu, category.index() as u32, from, from + duration);
        }
    }
}

impl<C: Category> Accounts<C> {
    /// Empty accounts for `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Accounts { spent: vec![Time::ZERO; cpus * C::COUNT], timeline: None, categories: PhantomData }
    }

    /// The account of `cpu`.
    #[inline]
    pub(crate) fn of(&mut self, cpu: Cpu) -> Account<'_> {
        let spent = &mut self.spent[cpu.index() * C::COUNT..][..C::COUNT];
        Account { cpu, spent, timeline: self.timeline.as_deref_mut() }
    }

    /// Begins a timeline.
    pub fn begin_timeline(&mut self, timeline: Timeline) {
        self.timeline = Some(Box::new(timeline));
    }

    /// The timeline, if there is one.
    #[inline]
    pub fn timeline(&mut self) -> Option<&mut Timeline> {
        self.timeline.as_deref_mut()
    }

    /// Ends the timeline.
    pub fn end_timeline(&mut self) -> Option<Timeline> {
        let mut timeline = *self.timeline.take()?;
        timeline.close();
        Some(timeline)
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
