//! The OOM killer: which process is killed when nothing can be reclaimed.
//!
//! ```text
//!   an allocation finds no memory            ─┐
//!   memory.max of a memcg, nothing to evict   ├─► the process with most memory of the machine, or of that memcg and its
//!   every generation is younger than           │   descendants ─► it, or with memory.oom.group all of its memcg; the caller
//!   lru_gen/min_ttl_ms (kswapd)              ─┘   ends them
//! ```
//!
//! `min_ttl_ms` protects folios that were used within that time. If that leaves nothing to evict, kswapd
//! requests an OOM kill, as an allocation without memory does. This module only names the victims: the
//! caller, which runs the processes, must end them. In the kernel: `out_of_memory`, `select_bad_process`,
//! `oom_badness` in mm/oom_kill.c, `mem_cgroup_get_oom_group` in mm/memcontrol.c, `lru_gen_age_node` in
//! mm/vmscan.c. `oom_score_adj` is not modelled.

use crate::address_space::AddressSpaces;
use crate::address_space::MmId;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::memcontrol::Memcg;

/// Badness of a process (`oom_badness`): the base pages that its death frees, in memory, in swap and of page
/// tables.
pub fn badness(rss: u64, swapped: u64, page_tables: u64) -> u64 {
    rss + swapped + page_tables
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomCause {
    /// No zone that the allocation may use has a page above its watermark, and reclaim freed none.
    NoFreePage,
    /// The memory cgroup is at its `memory.max`.
    MemoryMax(Memcg),
    /// `lru_gen/min_ttl_ms` protects everything that is left.
    MinTtl,
}

/// The OOM killer's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomKill {
    pub cause: OomCause,
    /// The process chosen (`select_bad_process`) and its badness in pages.
    pub chosen: (MmId, u64),
    /// All processes to be killed: the chosen one, or with `memory.oom.group` those of its memory cgroup.
    pub victims: Vec<MmId>,
}

impl Kernel<'_> {
    /// Takes kswapd's request for an OOM kill, if there is one, and chooses the victims.
    pub fn take_oom_kill(&mut self) -> Option<OomKill> {
        self.parts.lrus.take_oom_kill_wish().then(|| self.kill_worst(OomCause::MinTtl))?
    }

    /// Chooses victims for a process of `memcg` that finds no memory. `None` if no process is left to kill.
    pub fn out_of_memory(&mut self, memcg: Memcg) -> Option<OomKill> {
        let full =
            self.parts.lrus.memcgs.and_above(memcg).find(|&group| self.parts.lrus.memcgs.margin(group) == 0);
        self.kill_worst(full.map_or(OomCause::NoFreePage, OomCause::MemoryMax))
    }

    /// Chooses the process with the highest badness in the cause's memory cgroup, and counts the kills. Among
    /// equals it is the youngest.
    fn kill_worst(&mut self, cause: OomCause) -> Option<OomKill> {
        let domain = if let OomCause::MemoryMax(memcg) = cause { memcg } else { Memcg::ROOT };
        let badness = self.parts.address_spaces.badness_of_all();
        let chosen = self.parts.processes_within(domain).max_by_key(|id| badness[id.index()])?;
        let groups = self.parts.lrus.memcgs.and_above(self.parts.address_spaces.mms[chosen].memcg);
        let up_to_domain = groups.take_while(|&group| group != domain).chain([domain]);
        let group = up_to_domain.filter(|&group| self.parts.lrus.memcgs.get(group).oom_group).last();
        let victims: Vec<MmId> =
            group.map_or(vec![chosen], |group| self.parts.processes_within(group).collect());
        self.on.counters.add(Event::OomKill, victims.len() as u64);
        Some(OomKill { cause, chosen: (chosen, badness[chosen.index()]), victims })
    }
}

impl Parts {
    /// The processes of a memory cgroup and of its descendants.
    fn processes_within(&self, root: Memcg) -> impl Iterator<Item = MmId> + use<'_> {
        let spaces = self
            .address_spaces
            .mms
            .iter()
            .filter(move |(_, space)| self.lrus.memcgs.is_within(space.memcg, root));
        spaces.map(|(id, _)| id)
    }
}

impl AddressSpaces {
    /// [`badness`] of each process, indexed by its [`MmId`].
    fn badness_of_all(&self) -> Vec<u64> {
        let count = self.mms.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0);
        let mut in_swap_and_tables = vec![(0, 0); count];
        for (id, table) in self.page_tables.iter() {
            let (swapped, tables) = &mut in_swap_and_tables[table.mm.index()];
            let entries = table.all_places().map(|place| self.page_tables[id.entry(place)]);
            *swapped += entries.filter(|entry| entry.swap_entry().is_some()).count() as u64;
            *tables += 1;
        }
        let mut all = vec![0; count];
        for (id, space) in self.mms.iter() {
            let (swapped, tables) = in_swap_and_tables[id.index()];
            all[id.index()] = badness(space.rss(), swapped, tables);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_swapped_out_counts_too() {
        assert!(badness(10, 100, 1) > badness(100, 9, 1));
    }
}
