//! Whom to kill when nothing can be reclaimed that may be.
//!
//! ```text
//!   kswapd: every generation is younger than lru_gen/min_ttl_ms ─► asks ─► the process with most memory ─► whoever runs it
//! ```
//!
//! `min_ttl_ms` promises that what was used that recently stays; where that leaves nothing to evict, kswapd asks for a
//! process to be killed, as an allocation would that finds no memory. Who runs the processes must end it. In the kernel:
//! `lru_gen_age_node` in mm/vmscan.c, `oom_badness` in mm/oom_kill.c. `oom_score_adj` is not modelled.

use crate::address_space::MmId;
use crate::counters::Event;
use crate::page_alloc::MemoryManager;

/// How bad a process is: the pages that would come free with it, in memory, in swap and for its page tables.
pub fn badness(rss: u64, swapped: u64, page_tables: u64) -> u64 {
    rss + swapped + page_tables
}

impl MemoryManager {
    /// Asks for a process to be killed.
    pub(crate) fn ask_for_oom_kill(&mut self) {
        self.oom_kill_wanted = true;
    }

    /// The process to kill if somebody has asked for it, which counts as done: end it. Of equals the youngest.
    pub fn take_oom_victim(&mut self) -> Option<MmId> {
        if !std::mem::take(&mut self.oom_kill_wanted) {
            return None;
        }
        let mut in_swap_and_tables =
            vec![(0, 0); self.mms.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0)];
        for (id, table) in self.page_tables.iter() {
            let (swapped, tables) = &mut in_swap_and_tables[table.mm.index()];
            let entries = table.all_places().map(|place| self.page_tables[id.entry(place)]);
            *swapped += entries.filter(|entry| entry.swap_entry().is_some()).count() as u64;
            *tables += 1;
        }
        let (victim, _) = self.mms.iter().max_by_key(|(id, space)| {
            let (swapped, tables) = in_swap_and_tables[id.index()];
            badness(space.rss(), swapped, tables)
        })?;
        self.counters.add(Event::OomKill, 1);
        Some(victim)
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
