//! Memory cgroups: a tree of groups, each with its limits and its usage.
//!
//! ```text
//!   root ─┬─ db    max 10 GiB      a page is charged to the memcg of the task that brings it in, and to all
//!         └─ web   low 2 GiB       above; if one of them is at its limit, reclaim takes from that one's tree
//!
//!   CPU   stock: up to 64 pages that are charged already and not used yet
//! ```
//!
//! The statistics that reclaim reads are those of the last flush. They are flushed every two seconds, and
//! before they are read if enough has changed; until 6.11 also when reclaim begins. In the kernel:
//! mm/memcontrol.c (`try_charge_memcg`, `consume_stock`, `mem_cgroup_flush_stats`), mm/page_counter.c; cgroup
//! v2.

mod high;
pub mod policy;
mod write;

use crate::lru::lruvec::Lruvecs;
use crate::lru::vmscan::policy::effective_protection;
use machine::{Cpu, Time};
pub use write::{MemcgFile, MemcgStep, MemcgWrite};

/// Pages that a charge takes at a time where the limits allow it (`MEMCG_CHARGE_BATCH`).
pub const CHARGE_BATCH: u64 = 64;

/// Time between two periodic flushes of statistics (`FLUSH_TIME`).
pub const FLUSH_INTERVAL: Time = Time::from_nanoseconds(2_000_000_000);

/// The value of a limit that is not set (`PAGE_COUNTER_MAX`).
pub const UNLIMITED: u64 = u64::MAX;

/// The number of a memory cgroup. A parent has a smaller number than its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memcg(pub u16);

impl Memcg {
    /// The root memcg, which has no limit.
    pub const ROOT: Memcg = Memcg(0);

    /// The number as an index into arrays.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Limits and usage of a memory cgroup, in pages (`struct mem_cgroup`).
#[derive(Clone, Debug)]
pub struct MemoryCgroup {
    pub parent: Option<Memcg>,
    /// `memory.max`.
    pub max: u64,
    /// `memory.high`: tasks above it reclaim, and sleep if that does not help.
    pub high: u64,
    /// `memory.low`: reclaim takes from the memcg only if nothing else can be reclaimed.
    pub low: u64,
    /// `memory.min`: reclaim never takes from the memcg.
    pub min: u64,
    /// `memory.current`.
    pub current: u64,
    /// `memory.swap.max`.
    pub swap_max: u64,
    /// `memory.swap.current`.
    pub swap_current: u64,
    /// `memory.zswap.max`.
    pub zswap_max: u64,
    /// `memory.zswap.writeback`: its pages in zswap may be written to the swap device.
    pub zswap_writeback: bool,
    /// Bytes that its pages take in zswap, and those of the groups below (`memory.zswap.current`).
    pub zswap_bytes: u64,
    /// How many pages that are (`zswapped` of `memory.stat`).
    pub zswapped: u64,
    /// Bytes of its own pages.
    own_zswap_bytes: u64,
    /// How often a charge hit `memory.max` (`max` in `memory.events`).
    pub max_events: u64,
    /// `memory.oom.group`: the OOM killer kills all tasks of the memcg or none.
    pub oom_group: bool,
    /// The memcg has a queue of large folios to be split, which 7.2 allocates when it first needs one.
    pub has_deferred_list: bool,
}

impl MemoryCgroup {
    /// Whether its usage is above memory.high.
    pub fn is_over_high(&self) -> bool {
        self.current > self.high
    }
}

#[derive(Clone, Copy, Debug)]
struct Stock {
    memcg: Memcg,
    pages: u64,
}

/// What a task owes for being above memory.high.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverHigh {
    /// Pages that it has been charged since (`memcg_nr_pages_over_high`).
    pages: u64,
    /// Jiffies that it has to sleep, for reclaim within the kernel.
    sleep: u64,
}

/// All memory cgroups, and the stocks of charges of all CPUs.
#[derive(Clone, Debug)]
pub struct Memcgs {
    groups: Vec<MemoryCgroup>,
    /// Indexed by CPU.
    stocks: Vec<Stock>,
    /// What the task on each CPU owes for memory.high.
    over_high: Vec<OverHigh>,
    flushed_at: Time,
}

impl Memcgs {
    /// Makes the root memcg.
    pub fn new(cpus: usize) -> Memcgs {
        let stock = Stock { memcg: Memcg::ROOT, pages: 0 };
        let mut memcgs = Memcgs {
            groups: Vec::new(),
            stocks: vec![stock; cpus],
            over_high: vec![OverHigh::default(); cpus],
            flushed_at: Time::ZERO,
        };
        memcgs.create(None);
        memcgs
    }

    /// Makes a memcg without limits below `parent`.
    pub(crate) fn create(&mut self, parent: Option<Memcg>) -> Memcg {
        self.groups.push(MemoryCgroup {
            parent,
            max: UNLIMITED,
            high: UNLIMITED,
            low: 0,
            min: 0,
            current: 0,
            swap_max: UNLIMITED,
            swap_current: 0,
            zswap_max: UNLIMITED,
            zswap_writeback: true,
            zswap_bytes: 0,
            zswapped: 0,
            own_zswap_bytes: 0,
            max_events: 0,
            oom_group: false,
            has_deferred_list: false,
        });
        Memcg(self.groups.len() as u16 - 1)
    }

    pub fn get(&self, memcg: Memcg) -> &MemoryCgroup {
        &self.groups[memcg.index()]
    }

    pub fn get_mut(&mut self, memcg: Memcg) -> &mut MemoryCgroup {
        &mut self.groups[memcg.index()]
    }

    /// Number of memcgs, the root included.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Always false: there is at least the root.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// How many pages of `memcg` `setting`, which is memory.low or memory.min, protects from reclaim of
    /// `target` and all below it (`mem_cgroup_calculate_protection`).
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

    /// A memcg and all above it, the root last (`parent_mem_cgroup`).
    pub fn and_above(&self, memcg: Memcg) -> impl Iterator<Item = Memcg> + use<'_> {
        std::iter::successors(Some(memcg), |&memcg| self.get(memcg).parent)
    }

    /// Whether `memcg` is `root` or below it (`mem_cgroup_is_descendant`).
    pub fn is_within(&self, memcg: Memcg, root: Memcg) -> bool {
        self.and_above(memcg).any(|above| above == root)
    }

    /// `root` and all memcgs below it, each after its parent (`mem_cgroup_iter`).
    pub fn tree(&self, root: Memcg) -> Vec<Memcg> {
        let mut children = vec![Vec::new(); self.groups.len()];
        for child in (0..self.groups.len() as u16).rev().map(Memcg) {
            if let Some(parent) = self.get(child).parent {
                children[parent.index()].push(child);
            }
        }
        let (mut tree, mut next) = (Vec::new(), vec![root]);
        while let Some(memcg) = next.pop() {
            next.append(&mut children[memcg.index()]);
            tree.push(memcg);
        }
        tree
    }

    /// Charges `pages` to `memcg`: from the stock of `cpu` if that has enough, else by charging `batch` pages
    /// and adding the rest to the stock (`try_charge_memcg`, without its reclaim). The error names the memcg
    /// whose limit is in the way.
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
        if self.and_above(memcg).any(|group| self.get(group).is_over_high()) {
            self.over_high[cpu].pages += batch;
        }
        Ok(())
    }

    /// Exchanges what the task on a CPU owes: on a switch to another task, and while a kernel thread works.
    pub(crate) fn swap_over_high(&mut self, cpu: Cpu, owed: &mut OverHigh) {
        std::mem::swap(&mut self.over_high[cpu.index()], owed);
    }

    /// Adds `pages` to the usage of `memcg` and of all above it, or of none if a limit is in the way
    /// (`page_counter_try_charge`).
    fn charge(&mut self, memcg: Memcg, pages: u64) -> Result<(), Memcg> {
        let is_full = |&group: &Memcg| {
            let group = self.get(group);
            group.current.saturating_add(pages) > group.max
        };
        if let Some(full) = self.and_above(memcg).find(is_full) {
            return Err(full);
        }
        self.force_charge(memcg, pages);
        Ok(())
    }

    /// Adds `pages` to the usage of `memcg` and of all above it, whatever their limits.
    pub(crate) fn force_charge(&mut self, memcg: Memcg, pages: u64) {
        self.for_all_above(memcg, |group| group.current += pages);
    }

    /// Adds charged pages to the stock of `cpu` for its next charges to the same memcg (`refill_stock`).
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

    /// Uncharges the stock of a CPU (`drain_stock`).
    fn drain_stock(&mut self, cpu: usize) {
        let Stock { memcg, pages } = self.stocks[cpu];
        self.stocks[cpu].pages = 0;
        self.uncharge(memcg, pages);
    }

    /// Uncharges the stocks that CPUs have for `root` and the memcgs below it (`drain_all_stock`).
    pub(crate) fn drain_all_stock(&mut self, root: Memcg) {
        for cpu in 0..self.stocks.len() {
            if self.is_within(self.stocks[cpu].memcg, root) {
                self.drain_stock(cpu);
            }
        }
    }

    /// Calls `change` for `memcg` and all above it.
    fn for_all_above(&mut self, memcg: Memcg, change: impl Fn(&mut MemoryCgroup)) {
        let mut next = Some(memcg);
        while let Some(memcg) = next {
            let group = &mut self.groups[memcg.index()];
            change(group);
            next = group.parent;
        }
    }

    /// Subtracts `pages` from the usage of `memcg` and of all above it (`page_counter_uncharge`).
    pub(crate) fn uncharge(&mut self, memcg: Memcg, pages: u64) {
        self.for_all_above(memcg, |group| group.current -= pages);
    }

    /// Pages that may still be charged to `memcg` before it is at its own limit (`mem_cgroup_margin`).
    pub fn margin(&self, memcg: Memcg) -> u64 {
        let group = self.get(memcg);
        group.max.saturating_sub(group.current)
    }

    /// Pages of swap that `memcg` may still use, where `free` pages of swap are free
    /// (`mem_cgroup_get_nr_swap_pages`).
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

    /// Adds `pages` to the swap usage of `memcg` and of all above it; negative for pages that have come back.
    pub(crate) fn charge_swap(&mut self, memcg: Memcg, pages: i64) {
        self.for_all_above(memcg, |group| group.swap_current = group.swap_current.wrapping_add_signed(pages));
    }

    /// Charges pages that take so many bytes in zswap to `memcg`, beyond all limits (`obj_cgroup_charge_zswap`); negative for pages that
    /// have left it. `page` is the size of a page: of the bytes of a group, whole pages are charged.
    pub(crate) fn charge_zswap(&mut self, memcg: Memcg, pages: i64, bytes: i64, page: u64) {
        let own = &mut self.groups[memcg.index()].own_zswap_bytes;
        let before = own.div_ceil(page);
        *own = own.wrapping_add_signed(bytes);
        let charged = own.div_ceil(page) as i64 - before as i64;
        self.for_all_above(memcg, |group| {
            group.current = group.current.wrapping_add_signed(charged);
            group.zswap_bytes = group.zswap_bytes.wrapping_add_signed(bytes);
            group.zswapped = group.zswapped.wrapping_add_signed(pages);
        });
    }

    /// Whether pages of `memcg` may leave zswap for the device: all above it must let them (`mem_cgroup_zswap_writeback_enabled`).
    pub(crate) fn zswap_writes_back(&self, memcg: Memcg) -> bool {
        self.and_above(memcg).all(|above| self.get(above).zswap_writeback)
    }

    /// Flushes statistics: the flushed counters of each lruvec become its own and those of the memcgs below
    /// (`cgroup_rstat_flush`).
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

    /// Panics unless the usage of each memcg agrees with `memory` and `swap`, the pages of each memcg without
    /// those below it.
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
