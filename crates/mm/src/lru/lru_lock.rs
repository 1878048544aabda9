//! What else a page fault locks, and reclaim: the LRU list vector of its cgroup and node.
//!
//! ```text
//!   fault ─► per-CPU folio batch [15 or 31] ─ full ─► lruvec lock: all of them onto the LRU list
//!   unmap ─► batches of 32 pages ───────────────────► lruvec lock: off the list, then to the allocator
//!   reclaim ────────────────────────────────────────► lruvec lock: looks at pages, takes some off the list
//! ```
//!
//! The pages' order on the lists matters to reclaim, not to the allocator; here only the lock and its cost are
//! modelled. All tasks of a cgroup share one lock a node, so one build in one cgroup contends where eight
//! cgroups do not. In the kernel: `folio_add_lru`, `folio_batch_move_lru`, `folios_put_refs` in mm/swap.c.

use crate::account::Category;
use crate::on_cpu::OnCpu;
use machine::{SpinLock, Time};

/// Pages that unmapping frees together (`SWAP_CLUSTER_MAX`, `free_pages_and_swap_cache`).
pub const FREE_BATCH: usize = 32;

/// The lock of one cgroup's LRU lists on one node.
#[derive(Clone, Debug, Default)]
pub struct LruLock {
    /// `lruvec->lru_lock`.
    pub lock: SpinLock,
}

impl LruLock {
    /// Puts `pages` pages on a list, or takes them off, under one hold of the lock. The pages' own lines are in
    /// this CPU's cache, it has just touched them.
    pub fn move_pages(&mut self, on: &mut OnCpu, pages: usize) {
        let moves = on.machine.costs.list_move * pages as u64;
        self.section(on, moves);
    }

    /// Looks at `scanned` pages at the end of a list, whose lines come from memory, and takes `taken` of them off, all of it
    /// under one hold of the lock (`isolate_lru_folios`, `scan_folios`).
    pub fn isolate_pages(&mut self, on: &mut OnCpu, scanned: u64, taken: usize) {
        let costs = &on.machine.costs;
        let work = costs.paging().lru_scan * scanned + costs.list_move * taken as u64;
        self.section(on, work);
    }

    /// Works under the lock. The list's head and the counters come from whoever held it before, and the section starts as cold
    /// as any other.
    fn section(&mut self, on: &mut OnCpu, work: Time) {
        let line = self.lock.line_to(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::LruLockWait);
        let hold = on.machine.costs.lock_section + work + line * 2;
        self.lock.hold(on.machine, on.cpu, hold, Category::LRU_LOCK);
    }
}
