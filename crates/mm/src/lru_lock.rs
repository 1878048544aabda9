//! What else a page fault locks: the LRU list vector of its cgroup and node.
//!
//! ```text
//!   fault ─► per-CPU folio batch [15 or 31] ─ full ─► lruvec lock: all of them onto the LRU list
//!   unmap ─► batches of 32 pages ───────────────────► lruvec lock: off the list, then to the allocator
//! ```
//!
//! The pages' order on the lists matters to reclaim, not to the allocator; here only the lock and its cost are
//! modelled. All tasks of a cgroup share one lock a node, so one build in one cgroup contends where eight
//! cgroups do not. In the kernel: `folio_add_lru`, `folio_batch_move_lru`, `folios_put_refs` in mm/swap.c.

use crate::account::Category;
use machine::{Cpu, Machine, SpinLock, Time};

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
    /// this CPU's cache, it has just touched them; the list's head and the counters come from whoever held the
    /// lock before, and the section starts as cold as any other.
    pub fn move_pages(&mut self, machine: &mut Machine<Category>, cpu: Cpu, pages: usize) {
        let owner = self.lock.owner_before(machine.now(cpu));
        let lines = owner.map_or(Time::ZERO, |owner| machine.line_transfer(owner, cpu));
        self.lock.acquire(machine, cpu, Category::LruLockWait);
        let hold = machine.costs.lock_section + machine.costs.list_move * pages as u64 + lines * 2;
        self.lock.hold(machine, cpu, hold, Category::LRU_LOCK);
    }
}
