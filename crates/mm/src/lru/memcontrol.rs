//! Memory cgroups: a tree of groups, each with what it uses and what it may use.
//!
//! ```text
//!   root ─┬─ db    max 10 GiB      a page is charged to the group of the task that brings it in, and to all groups
//!         └─ web   low 2 GiB       above; where one of them is at its limit, that one's tree is reclaimed from
//!
//!   CPU   stock: up to 64 pages that are charged already and not used yet
//! ```
//!
//! Statistics that reclaim reads are those of the last flush: every two seconds, and when they are read, if enough has
//! changed; until 6.11 also when reclaim begins. In the kernel: mm/memcontrol.c (`try_charge_memcg`, `consume_stock`,
//! `mem_cgroup_flush_stats`), mm/page_counter.c; cgroup v2.

use crate::lru::lruvec::Lruvecs;
use crate::lru::vmscan::policy::effective_protection;
use machine::Time;

/// Pages that a charge takes at a time where there is room (`MEMCG_CHARGE_BATCH`).
pub const CHARGE_BATCH: u64 = 64;

/// Between two flushes of statistics (`FLUSH_TIME`).
pub const FLUSH_INTERVAL: Time = Time::from_nanoseconds(2_000_000_000);

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

/// A memory cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memcg(pub u16);

impl Memcg {
    /// The root of the tree, which has no limit.
    pub const ROOT: Memcg = Memcg(0);

    /// Its place in arrays.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// What a group may use and uses, in pages.
#[derive(Clone, Debug)]
pub struct MemoryCgroup {
    /// The group above.
    pub parent: Option<Memcg>,
    /// `memory.max`.
    pub max: u64,
    /// `memory.low`: reclaimed from only if nothing else can be.
    pub low: u64,
    /// `memory.min`: never reclaimed from.
    pub min: u64,
    /// `memory.current`.
    pub current: u64,
    /// `memory.swap.max`.
    pub swap_max: u64,
    /// `memory.swap.current`.
    pub swap_current: u64,
    /// How often `memory.max` was reached (`memory.events`).
    pub max_events: u64,
    /// `memory.oom.group`: the OOM killer ends all of the group or nothing.
    pub oom_group: bool,
    /// It has a list of folios to be split (7.2).
    pub has_deferred_list: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stock {
    memcg: Memcg,
    pages: u64,
}

/// All memory cgroups.
#[derive(Clone, Debug)]
pub struct Memcgs {
    groups: Vec<MemoryCgroup>,
    /// By CPU.
    stocks: Vec<Stock>,
    flushed_at: Time,
}

impl Memcgs {
    /// The root alone.
    pub fn new(cpus: usize) -> Memcgs {
        let stock = Stock { memcg: Memcg::ROOT, pages: 0 };
        let mut memcgs = Memcgs { groups: Vec::new(), stocks: vec![stock; cpus], flushed_at: Time::ZERO };
        memcgs.create(None);
        memcgs
    }

    /// A group below `parent`, without limits.
    pub(crate) fn create(&mut self, parent: Option<Memcg>) -> Memcg {
        self.groups.push(MemoryCgroup {
            parent,
            max: UNLIMITED,
            low: 0,
            min: 0,
            current: 0,
            swap_max: UNLIMITED,
            swap_current: 0,
            max_events: 0,
            oom_group: false,
            has_deferred_list: false,
        });
        Memcg(self.groups.len() as u16 - 1)
    }

    /// A group.
    pub fn get(&self, memcg: Memcg) -> &MemoryCgroup {
        &self.groups[memcg.index()]
    }

    /// A group, for changing its limits.
    pub fn get_mut(&mut self, memcg: Memcg) -> &mut MemoryCgroup {
        &mut self.groups[memcg.index()]
    }

    /// How many groups there are, the root included.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// There is always the root.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What `setting`, memory.low or memory.min, protects of `memcg` from reclaim of `target` and all below it
    /// (`mem_cgroup_calculate_protection`).
    pub(crate) fn protection(&self, memcg: Memcg, target: Memcg, setting: fn(&MemoryCgroup) -> u64) -> u64 {
        let group = self.get(memcg);
        let Some(parent) = group.parent.filter(|_| memcg != target) else { return 0 };
        if parent == target {
            return setting(group);
        }
        let parent_effective = self.protection(parent, target, setting);
        if parent_effective == 0 || group.current == 0 {
            return 0;
        }
        let siblings = self.groups.iter().filter(|sibling| sibling.parent == Some(parent));
        let siblings_protected = siblings.map(|sibling| sibling.current.min(setting(sibling))).sum();
        let parent_usage = self.get(parent).current;
        effective_protection(
            group.current,
            parent_usage,
            setting(group),
            parent_effective,
            siblings_protected,
        )
    }

    /// A group and those above it, the root last.
    pub fn and_above(&self, memcg: Memcg) -> impl Iterator<Item = Memcg> + use<'_> {
        std::iter::successors(Some(memcg), |&memcg| self.get(memcg).parent)
    }

    /// Whether `memcg` is `root` or below it.
    pub fn is_within(&self, memcg: Memcg, root: Memcg) -> bool {
        self.and_above(memcg).any(|above| above == root)
    }

    /// `root` and all groups below, each after its parent (`mem_cgroup_iter`).
    pub fn tree(&self, root: Memcg) -> Vec<Memcg> {
        let mut tree = vec![root];
        let children = |of: Memcg| {
            (0..self.groups.len() as u16).map(Memcg).filter(move |&child| self.get(child).parent == Some(of))
        };
        let mut next = vec![root];
        while let Some(memcg) = next.pop() {
            let mut below: Vec<Memcg> = children(memcg).collect();
            below.reverse();
            next.extend(below);
            if memcg != root {
                tree.push(memcg);
            }
        }
        tree
    }

    /// Charges `pages` to `memcg`, from `cpu`'s stock if that has so many, else by charging `batch` and keeping the rest.
    /// Otherwise the group whose limit is in the way.
    pub(crate) fn try_charge(
        &mut self,
        cpu: usize,
        memcg: Memcg,
        pages: u64,
        batch: u64,
    ) -> Result<(), Memcg> {
        if memcg == Memcg::ROOT {
            self.groups[0].current += pages;
            return Ok(());
        }
        let stock = &mut self.stocks[cpu];
        if stock.memcg == memcg && stock.pages >= pages {
            stock.pages -= pages;
            return Ok(());
        }
        self.charge(memcg, batch)?;
        if batch > pages {
            self.refill_stock(cpu, memcg, batch - pages);
        }
        Ok(())
    }

    /// Counts `pages` for `memcg` and all above, or for none.
    fn charge(&mut self, memcg: Memcg, pages: u64) -> Result<(), Memcg> {
        let is_full = |&group: &Memcg| {
            let group = self.get(group);
            group.current.saturating_add(pages) > group.max
        };
        if let Some(full) = self.and_above(memcg).find(is_full) {
            return Err(full);
        }
        self.for_all_above(memcg, |group| group.current += pages);
        Ok(())
    }

    /// Keeps charged pages for `cpu`'s next charges of the same group.
    fn refill_stock(&mut self, cpu: usize, memcg: Memcg, pages: u64) {
        if self.stocks[cpu].memcg != memcg {
            self.drain_stock(cpu);
            self.stocks[cpu].memcg = memcg;
        }
        self.stocks[cpu].pages += pages;
        if self.stocks[cpu].pages > CHARGE_BATCH {
            self.drain_stock(cpu);
        }
    }

    /// Gives back what a CPU has charged and not used.
    fn drain_stock(&mut self, cpu: usize) {
        let Stock { memcg, pages } = self.stocks[cpu];
        self.stocks[cpu].pages = 0;
        self.uncharge(memcg, pages);
    }

    /// Gives back what all CPUs have charged for `root` and groups below and not used (`drain_all_stock`).
    pub(crate) fn drain_all_stock(&mut self, root: Memcg) {
        for cpu in 0..self.stocks.len() {
            if self.is_within(self.stocks[cpu].memcg, root) {
                self.drain_stock(cpu);
            }
        }
    }

    /// Changes `memcg` and all above.
    fn for_all_above(&mut self, memcg: Memcg, change: impl Fn(&mut MemoryCgroup)) {
        let mut next = Some(memcg);
        while let Some(memcg) = next {
            let group = &mut self.groups[memcg.index()];
            change(group);
            next = group.parent;
        }
    }

    /// Gives back `pages` that were charged to `memcg`.
    pub(crate) fn uncharge(&mut self, memcg: Memcg, pages: u64) {
        self.for_all_above(memcg, |group| group.current -= pages);
    }

    /// Pages that may be charged to `memcg` before a limit is in the way (`mem_cgroup_margin`).
    pub fn margin(&self, memcg: Memcg) -> u64 {
        let group = self.get(memcg);
        group.max.saturating_sub(group.current)
    }

    /// Free swap that `memcg` may use, `free` being all free swap (`mem_cgroup_get_nr_swap_pages`).
    pub fn swap_margin(&self, memcg: Memcg, free: u64) -> u64 {
        if free == 0 {
            return 0;
        }
        let margin = |group: Memcg| {
            let group = self.get(group);
            group.swap_max.saturating_sub(group.swap_current)
        };
        self.and_above(memcg).map(margin).fold(free, u64::min)
    }

    /// Notes that a page of `memcg` went to swap, or came back.
    pub(crate) fn charge_swap(&mut self, memcg: Memcg, pages: i64) {
        self.for_all_above(memcg, |group| group.swap_current = group.swap_current.wrapping_add_signed(pages));
    }

    /// Adds up statistics: each lruvec gets its own and those of the groups below.
    pub(crate) fn flush_stats(&mut self, lruvecs: &mut Lruvecs, now: Time) {
        self.flushed_at = now;
        for lruvec in lruvecs.iter_mut() {
            lruvec.flushed = lruvec.stat;
            lruvec.stat_updates = 0;
        }
        // Children come after their parents.
        for memcg in (1..self.groups.len()).rev() {
            let Some(parent) = self.groups[memcg].parent else { continue };
            for node in lruvecs.nodes() {
                let below = lruvecs[lruvecs.id(Memcg(memcg as u16), node)].flushed;
                let above = lruvecs.id(parent, node);
                lruvecs[above].flushed.add(&below);
            }
        }
    }

    /// When statistics were last flushed.
    pub fn flushed_at(&self) -> Time {
        self.flushed_at
    }

    /// Checks what groups are charged with, `memory` and `swap` being the pages of each without those below; panics with
    /// what does not hold.
    pub(crate) fn validate(&self, memory: &[u64], swap: &[u64]) {
        let mut memory = memory.to_vec();
        let mut swap = swap.to_vec();
        for stock in &self.stocks {
            assert!(stock.pages <= CHARGE_BATCH, "{stock:?}");
            memory[stock.memcg.index()] += stock.pages;
        }
        // Children come after their parents.
        for (memcg, group) in self.groups.iter().enumerate().rev() {
            let uses = (group.current, group.swap_current);
            assert_eq!(uses, (memory[memcg], swap[memcg]), "memory and swap of group {memcg}");
            if let Some(parent) = group.parent {
                memory[parent.index()] += memory[memcg];
                swap[parent.index()] += swap[memcg];
            }
        }
    }
}
