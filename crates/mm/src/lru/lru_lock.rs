//! The lock of a lruvec (`lruvec->lru_lock`), which page faults, unmapping and reclaim share.

use crate::account::Category;
use crate::on_cpu::OnCpu;
use machine::topology::MAX_NODES;
use machine::{Node, SpinLock, Time};

/// The lock of the LRU lists of one memory cgroup on one node.
#[derive(Clone, Debug)]
pub struct LruLock {
    pub lock: SpinLock,
}

impl LruLock {
    /// The lock of a memory cgroup on a node.
    pub fn of(memcg: usize, node: Node) -> LruLock {
        LruLock { lock: SpinLock::numbered(memcg as u32 * u32::from(MAX_NODES) + u32::from(node.0)) }
    }

    /// The memory cgroup and the node of a lock's number.
    pub fn place(number: u32) -> (u32, Node) {
        (number / u32::from(MAX_NODES), Node((number % u32::from(MAX_NODES)) as u8))
    }

    /// Holds the lock for as long as it takes to add `pages` pages to a list or to remove them. Their `struct
    /// page`s are in this CPU's cache, which has just touched them.
    pub fn move_pages(&mut self, on: &mut OnCpu, pages: usize) {
        let moves = on.machine.costs.list_move * pages as u64;
        self.section(on, moves);
    }

    /// Holds the lock for as long as it takes to look at `scanned` pages at the tail of a list, whose `struct
    /// page`s come from memory, and to isolate `taken` of them (`isolate_lru_folios`, `scan_folios`).
    pub fn isolate_pages(&mut self, on: &mut OnCpu, scanned: u64, taken: usize) {
        let costs = &on.machine.costs;
        let work = costs.paging().lru_scan * scanned + costs.list_move * taken as u64;
        self.section(on, work);
    }

    /// Takes the lock for `work` and the cost of a section. The list head and the counters are in the cache
    /// of the CPU that held the lock before, so their lines have to travel.
    fn section(&mut self, on: &mut OnCpu, work: Time) {
        let line = self.lock.line_to(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::LruLockWait);
        let hold = on.machine.costs.lock_section + work + line * 2;
        self.lock.hold(on.machine, on.cpu, hold, Category::LRU_LOCK);
    }
}
