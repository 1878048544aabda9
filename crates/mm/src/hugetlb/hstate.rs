//! The pool of one size of huge pages: counters, free lists by node, and the cursors that take turns between
//! nodes.
//!
//! ```text
//!   node 0   head ► page page page        pages enter and leave at the head
//!   node 1   head ► page page
//!            next_to_alloc, next_to_free: independent cursors that rotate through the nodes
//! ```
//!
//! In the kernel: `struct hstate` in include/linux/hugetlb.h; `enqueue_hugetlb_folio`,
//! `remove_hugetlb_folio`, `adjust_pool_surplus` in mm/hugetlb.c. All of it runs under hugetlb_lock.

use super::folio::Folio;
use super::policy::{PoolCounters, take_turn};
use crate::allocator::page::Pfn;
use machine::Node;

/// How a pool counts a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// A page that the administrator asked for.
    Persistent,
    /// A page beyond those.
    Surplus,
}

/// The part of a pool on one node.
#[derive(Clone, Debug, Default)]
struct NodePool {
    counters: PoolCounters,
    /// Free list; the head is the last element.
    free: Vec<Pfn>,
}

/// The pool of one size (`struct hstate`).
#[derive(Clone, Debug)]
pub struct Hstate {
    /// log2 of the base pages of a huge page.
    pub order: u8,
    /// `resv_huge_pages`: reserved and not used yet.
    pub resv: u64,
    /// `nr_overcommit_huge_pages`: upper bound of surplus pages.
    pub nr_overcommit: u64,
    /// `max_huge_pages`: persistent pages after the last resize, which the sysctl shows.
    pub max: u64,
    /// `next_nid_to_alloc`.
    pub next_to_alloc: Node,
    /// `next_nid_to_free`.
    pub next_to_free: Node,
    total: PoolCounters,
    nodes: Vec<NodePool>,
}

impl Hstate {
    /// An empty pool on `nodes` nodes.
    pub fn new(order: u8, nodes: u8) -> Hstate {
        Hstate {
            order,
            resv: 0,
            nr_overcommit: 0,
            max: 0,
            next_to_alloc: Node(0),
            next_to_free: Node(0),
            total: PoolCounters::default(),
            nodes: vec![NodePool::default(); nodes.into()],
        }
    }

    /// Size of a huge page in KiB, as in sysfs names.
    pub fn kib(&self) -> u64 {
        4 << self.order
    }

    /// The counters of all nodes together.
    pub fn counters(&self) -> PoolCounters {
        self.total
    }

    /// The counters of one node.
    pub fn counters_of(&self, node: Node) -> PoolCounters {
        self.nodes[node.index()].counters
    }

    /// Free pages that are not reserved.
    pub fn available(&self) -> u64 {
        self.total.free.saturating_sub(self.resv)
    }

    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    fn change(&mut self, node: Node, change: impl Fn(&mut PoolCounters)) {
        change(&mut self.total);
        change(&mut self.nodes[node.index()].counters);
    }

    /// Counts a new page of the pool, which is on no free list yet.
    pub(crate) fn enter(&mut self, node: Node, page: Page) {
        self.change(node, |c| {
            c.nr += 1;
            c.surplus += u64::from(page == Page::Surplus);
        });
    }

    /// Puts a page of the pool on its node's free list (`enqueue_hugetlb_folio`).
    pub(crate) fn enqueue(&mut self, node: Node, pfn: Pfn) {
        self.nodes[node.index()].free.push(pfn);
        self.change(node, |c| c.free += 1);
    }

    /// Takes a free page of `node` for use (`dequeue_hugetlb_folio_node_exact`).
    pub(crate) fn dequeue(&mut self, node: Node) -> Option<Pfn> {
        let pfn = self.nodes[node.index()].free.pop()?;
        self.change(node, |c| c.free -= 1);
        Some(pfn)
    }

    /// Removes a page that is on no free list from the pool's counters.
    pub(crate) fn leave(&mut self, node: Node, page: Page) {
        self.change(node, |c| {
            c.nr -= 1;
            c.surplus -= u64::from(page == Page::Surplus);
        });
    }

    /// Removes a temporary page that is on no free list, counted as a persistent one. If a resize has
    /// meanwhile made all pages surplus, the kernel's count of persistent pages would drop below zero. Here
    /// the count of surplus pages drops too: that of the page's node or, as a node may count more surplus
    /// pages than pages, of another.
    pub(crate) fn leave_temporary(&mut self, node: Node) {
        if self.total.persistent() == 0 {
            let nodes = std::iter::once(node.index()).chain(0..self.nodes.len());
            let with_surplus = nodes.into_iter().find(|&node| self.nodes[node].counters.surplus > 0);
            let counted_on = with_surplus.expect("all pages of the pool are surplus pages");
            self.nodes[counted_on].counters.surplus -= 1;
            self.total.surplus -= 1;
        }
        self.leave(node, Page::Persistent);
    }

    /// Takes a free page out of the pool, from the next node in turn that has one
    /// (`remove_pool_hugetlb_folio`); a surplus page only from a node that counts surplus pages.
    pub(crate) fn remove(&mut self, nodes: &[Node], page: Page) -> Option<Folio> {
        for _ in nodes {
            let node = take_turn(nodes, &mut self.next_to_free);
            if page == Page::Surplus && self.counters_of(node).surplus == 0 {
                continue;
            }
            if let Some(folio) = self.remove_from(node, page) {
                return Some(folio);
            }
        }
        None
    }

    /// Takes a free page of `node` out of the pool (`remove_hugetlb_folio`).
    pub(crate) fn remove_from(&mut self, node: Node, page: Page) -> Option<Folio> {
        let pfn = self.dequeue(node)?;
        self.leave(node, page);
        Some(Folio { pfn, order: self.order })
    }

    /// Turns a persistent page of the next node in turn that has one into a surplus page
    /// (`adjust_pool_surplus`). Returns whether there was one.
    pub(crate) fn make_surplus(&mut self, nodes: &[Node]) -> bool {
        for _ in nodes {
            let node = take_turn(nodes, &mut self.next_to_free);
            let own = self.counters_of(node);
            if own.surplus < own.nr {
                self.change(node, |c| c.surplus += 1);
                return true;
            }
        }
        false
    }

    /// Turns a surplus page of the next node in turn that has one into a persistent page
    /// (`adjust_pool_surplus`). Returns whether there was one.
    pub(crate) fn make_persistent(&mut self, nodes: &[Node]) -> bool {
        for _ in nodes {
            let node = take_turn(nodes, &mut self.next_to_alloc);
            if self.counters_of(node).surplus > 0 {
                self.change(node, |c| c.surplus -= 1);
                return true;
            }
        }
        false
    }

    /// The free list of `node`; the head is the last element.
    pub fn free_list(&self, node: Node) -> &[Pfn] {
        &self.nodes[node.index()].free
    }

    /// Checks the invariants of the pool and panics with the one that is broken.
    pub(crate) fn validate(&self) {
        let mut sum = PoolCounters::default();
        for (node, own) in self.nodes.iter().enumerate() {
            let c = own.counters;
            assert_eq!(c.free, own.free.len() as u64, "node {node}: free pages and list disagree");
            assert!(c.free <= c.nr && c.surplus <= self.total.surplus, "node {node}: {c:?}");
            sum =
                PoolCounters { nr: sum.nr + c.nr, free: sum.free + c.free, surplus: sum.surplus + c.surplus };
        }
        assert_eq!(sum, self.total, "nodes and total disagree");
        // This does not hold for a single node: a surplus page that leaves as a persistent one stays counted
        // as surplus on its node.
        assert!(sum.surplus <= sum.nr, "{sum:?}");
        assert!(self.resv <= self.total.free, "{} reserved of {:?}", self.resv, self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_page_leaves_where_another_node_counts_the_surplus() {
        let mut hstate = Hstate::new(9, 2);
        hstate.enter(Node(0), Page::Persistent);
        hstate.enter(Node(1), Page::Surplus);
        // The surplus page of node 1 leaves as a persistent one: the node counts a surplus page and has none.
        hstate.leave(Node(1), Page::Persistent);
        assert_eq!(hstate.counters(), PoolCounters { nr: 1, free: 0, surplus: 1 });
        hstate.leave_temporary(Node(0));
        assert_eq!(hstate.counters(), PoolCounters::default());
        hstate.validate();
    }
}
