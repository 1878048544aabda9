//! What the kernel decides about huge-page pools: whose turn it is, how many pages to keep, how to flush.
//!
//! ```text
//!   persistent = nr - surplus         pages that the administrator asked for
//!   available  = free - resv          pages that nobody has been promised
//! ```
//!
//! Pure functions of a pool's counters. In the kernel: `set_max_huge_pages`, `hstate_next_node_to_alloc` and
//! `gather_surplus_pages` in mm/hugetlb.c; `flush_tlb_kernel_range` in arch/x86/mm/tlb.c.

use crate::hugetlb::features::{BootThreads, HugetlbFeatures};
use machine::Node;
use machine::tlb::Flush;

/// A pool's counters, of one node or of all (`struct hstate`), in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Pages in the pool, free or in use.
    pub nr: u64,
    /// Pages that nobody uses.
    pub free: u64,
    /// Pages beyond what the administrator asked for.
    pub surplus: u64,
}

impl PoolCounters {
    /// Pages that the administrator asked for.
    pub fn persistent(&self) -> u64 {
        self.nr - self.surplus
    }
}

/// Whose turn it is among `nodes` (ascending), and moves the cursor on to the next one; it moves whether or not the
/// node can help.
pub fn take_turn(nodes: &[Node], cursor: &mut Node) -> Node {
    let turn = nodes.iter().copied().find(|node| node >= cursor).unwrap_or(nodes[0]);
    *cursor = nodes.iter().copied().find(|node| *node > turn).unwrap_or(nodes[0]);
    turn
}

/// The size of the whole pool that a write of `count` to one node's file asks for; saturates. A node may have more
/// surplus pages than pages: which of its pages are surplus is not told apart when one leaves.
pub fn count_for_node(count: u64, pool: PoolCounters, node: PoolCounters) -> u64 {
    (count.saturating_add(pool.persistent()).saturating_add(node.surplus)).saturating_sub(node.nr)
}

/// How many persistent pages stay at least when a pool shrinks to `count`: those in use and those promised.
pub fn least_count(f: &HugetlbFeatures, count: u64, resv: u64, pool: PoolCounters) -> u64 {
    let in_use = if f.spares_surplus {
        let persistent_free =
            if pool.free > pool.persistent() { pool.free.saturating_sub(pool.surplus) } else { pool.free };
        pool.persistent() - persistent_free
    } else {
        pool.nr - pool.free
    };
    count.max(resv + in_use)
}

/// Pages missing for `delta` more reservations.
pub fn missing_for_reservation(delta: u64, resv: u64, free: u64) -> u64 {
    (resv + delta).saturating_sub(free)
}

/// How many threads fill a pool while a machine of so many nodes with memory and CPUs boots; `asked_for` is
/// `hugepage_alloc_threads`, 0 if nobody said.
pub fn boot_threads(rule: BootThreads, nodes: u64, cpus: u64, asked_for: u64) -> u64 {
    match rule {
        BootThreads::One => 1,
        BootThreads::TwoANode => 2 * nodes,
        BootThreads::QuarterOfCpus if asked_for > 0 => asked_for,
        BootThreads::QuarterOfCpus => (cpus / 4).max(1),
    }
}

/// How a change of `pages` kernel page-table entries is flushed: one by one up to `ceiling`, everything beyond.
pub fn flush_of_range(pages: u64, ceiling: u64) -> Flush {
    if pages > ceiling { Flush::All } else { Flush::Range { pages } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(nr: u64, free: u64, surplus: u64) -> PoolCounters {
        PoolCounters { nr, free, surplus }
    }

    #[test]
    fn cursors_go_round_and_skip_nodes_outside_of_the_mask() {
        let nodes = [Node(0), Node(1)];
        let mut cursor = Node(0);
        let turns: Vec<u8> = (0..5).map(|_| take_turn(&nodes, &mut cursor).0).collect();
        assert_eq!((turns, cursor), (vec![0, 1, 0, 1, 0], Node(1)));
        let mut cursor = Node(2);
        assert_eq!((take_turn(&[Node(1)], &mut cursor), cursor), (Node(1), Node(1)));
        assert_eq!((take_turn(&nodes, &mut cursor), cursor), (Node(1), Node(0)));
    }

    #[test]
    fn a_node_s_count_becomes_the_pool_s() {
        assert_eq!(count_for_node(2, pool(10, 10, 0), pool(4, 4, 0)), 8);
        assert_eq!(count_for_node(u64::MAX - 20, pool(10, 10, 0), pool(4, 4, 0)), u64::MAX - 14);
        assert_eq!(count_for_node(2, pool(10, 10, 5), pool(3, 3, 5)), 9);
    }

    #[test]
    fn pages_in_use_and_reserved_stay() {
        let base = HugetlbFeatures::BASE;
        let later = HugetlbFeatures::MAINLINE_6_15;
        for f in [base, later] {
            assert_eq!(least_count(&f, 2, 1, pool(10, 4, 0)), 7);
        }
        // 3 free pages are surplus: before 6.15 they were counted as if persistent ones were free.
        assert_eq!(least_count(&base, 0, 0, pool(10, 8, 7)), 2);
        assert_eq!(least_count(&later, 0, 0, pool(10, 8, 7)), 2);
        assert_eq!(least_count(&base, 0, 0, pool(10, 5, 7)), 5);
        assert_eq!(least_count(&later, 0, 0, pool(10, 5, 7)), 3);
    }

    #[test]
    fn threads_of_boot() {
        let of =
            |rule| [(1, 2, 0), (4, 256, 0), (4, 256, 7)].map(|(n, c, asked)| boot_threads(rule, n, c, asked));
        assert_eq!(of(BootThreads::One), [1, 1, 1]);
        assert_eq!(of(BootThreads::TwoANode), [2, 8, 8]);
        assert_eq!(of(BootThreads::QuarterOfCpus), [1, 64, 7]);
    }

    #[test]
    fn thirty_three_pages_are_a_range() {
        assert_eq!(flush_of_range(33, 33), Flush::Range { pages: 33 });
        assert_eq!(flush_of_range(34, 33), Flush::All);
    }
}
