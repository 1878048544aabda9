//! Decisions about pools of huge pages: whose turn it is, how many pages stay, and what is batched.
//!
//! ```text
//!   persistent = nr - surplus         pages that the administrator asked for
//!   available  = free - resv          free pages that are not reserved
//! ```
//!
//! Pure functions of a pool's counters and the kernel's features. In the kernel: `set_max_huge_pages`,
//! `hstate_next_node_to_alloc`, `gather_surplus_pages`, `update_and_free_pages_bulk` and
//! `hugetlb_pages_alloc_boot` in mm/hugetlb.c. Decisions about vmemmap are in [`super::vmemmap::policy`].

use crate::hugetlb::features::{BootThreads, HugetlbFeatures, RestoreStyle};
use crate::hugetlb::folio::STRUCT_PAGES_PER_PAGE;
use machine::Node;

/// The unit in which something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// One huge page at a time.
    Page,
    /// All huge pages of a list together.
    List,
}

/// Counters of a pool, of one node or of all (`struct hstate`), in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Pages in the pool, free or in use (`nr_huge_pages`).
    pub nr: u64,
    /// Free pages (`free_huge_pages`).
    pub free: u64,
    /// Pages beyond what the administrator asked for (`surplus_huge_pages`).
    pub surplus: u64,
}

impl PoolCounters {
    /// Pages that the administrator asked for (`persistent_huge_pages`).
    pub fn persistent(&self) -> u64 {
        self.nr - self.surplus
    }
}

/// Returns the node of `nodes` (ascending) whose turn it is, and moves the cursor to the next one, whether or
/// not the node can serve.
pub fn take_turn(nodes: &[Node], cursor: &mut Node) -> Node {
    let turn = nodes.iter().copied().find(|node| node >= cursor).unwrap_or(nodes[0]);
    *cursor = nodes.iter().copied().find(|node| *node > turn).unwrap_or(nodes[0]);
    turn
}

/// The size of the whole pool that a write of `count` to one node's file asks for, saturating. A node may
/// count more surplus pages than pages, because a page that leaves does not tell whether it is a surplus one.
pub fn count_for_node(count: u64, pool: PoolCounters, node: PoolCounters) -> u64 {
    (count.saturating_add(pool.persistent()).saturating_add(node.surplus)).saturating_sub(node.nr)
}

/// The least number of persistent pages that a pool keeps when it shrinks to `count`: those in use and those
/// reserved.
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

/// How new pages are prepared and added to the pool: before patch 6 each before the next is allocated.
pub fn prepared_per(f: &HugetlbFeatures) -> Per {
    if f.add_list { Per::List } else { Per::Page }
}

/// How pages are demoted: until 6.11 each before the next is taken, and its parts one by one.
pub fn demoted_per(f: &HugetlbFeatures) -> Per {
    if f.demotes_in_batches { Per::List } else { Per::Page }
}

/// Which restored page is freed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeOrder {
    /// The page restored first.
    FirstRestored,
    /// The page restored last.
    LastRestored,
}

/// How pages that left the pool are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasePlan {
    /// Whether pages are restored and freed one by one, or all are restored before their flags are cleared
    /// under one hold (patch 5).
    pub restore: Per,
    /// Whether pages that cannot be restored return to the pool under a hold each, or under one (patch 8).
    pub add_back: Per,
    /// Which page of a list is freed first. As merged, restored pages move to the head of another list, which
    /// reverses their order.
    pub order: FreeOrder,
}

/// How a list of pages is released.
pub fn release_plan(f: &HugetlbFeatures) -> ReleasePlan {
    ReleasePlan {
        restore: if f.clear_flags_once { Per::List } else { Per::Page },
        add_back: if f.restore_style == RestoreStyle::None { Per::Page } else { Per::List },
        order: match f.restore_style {
            RestoreStyle::None | RestoreStyle::Whole => FreeOrder::FirstRestored,
            RestoreStyle::UntilFailure => FreeOrder::LastRestored,
        },
    }
}

/// Number of threads that fill a pool at boot on a machine with `nodes` nodes with memory and `cpus` CPUs.
/// `asked_for` is `hugepage_alloc_threads`, 0 if not set.
pub fn boot_threads(f: &HugetlbFeatures, nodes: u64, cpus: u64, asked_for: u64) -> u64 {
    match f.boot_threads {
        BootThreads::One => 1,
        BootThreads::TwoANode => 2 * nodes,
        BootThreads::QuarterOfCpus if asked_for > 0 => asked_for,
        BootThreads::QuarterOfCpus => (cpus / 4).max(1),
    }
}

/// Who fills pools at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootWorkers {
    /// The booting thread. Gigantic pages are added to the pool like others.
    BootingThread,
    /// Several threads with cursors of their own; the pool's cursor does not move. One thread for each node
    /// prepares gigantic pages and adds each to the pool by itself (`padata_do_multithreaded`).
    Threads,
}

/// Who fills pools at boot: since 6.9 several threads.
pub fn boot_workers(f: &HugetlbFeatures) -> BootWorkers {
    match f.boot_threads {
        BootThreads::One => BootWorkers::BootingThread,
        BootThreads::TwoANode | BootThreads::QuarterOfCpus => BootWorkers::Threads,
    }
}

/// Whether a round that brought a pool from `before` to `filled` of `wanted` pages is followed by another:
/// since 6.18, because optimising pages frees memory that another round may use (`optimizes`).
pub fn fills_again(f: &HugetlbFeatures, optimizes: bool, before: u64, filled: u64, wanted: u64) -> bool {
    f.boot_retries && optimizes && filled != wanted && filled != before
}

/// Number of struct pages that boot initialises for a gigantic page of `pages` pages: since 6.7 not those
/// that are freed.
pub fn struct_pages_at_boot(f: &HugetlbFeatures, pages: u64, is_optimized: bool) -> u64 {
    if f.skips_gigantic_tails && is_optimized { u64::from(STRUCT_PAGES_PER_PAGE) } else { pages }
}

/// The form in which boot makes the vmemmap of gigantic pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootVmemmap {
    /// In full; what is not needed is freed later.
    Full,
    /// In its final, optimised form.
    Optimized,
}

/// The form in which boot makes the vmemmap of gigantic pages: since 6.15 the optimised one, if vmemmap is to
/// be optimised.
pub fn boot_vmemmap(f: &HugetlbFeatures, optimizes: bool) -> BootVmemmap {
    if f.optimized_at_boot && optimizes { BootVmemmap::Optimized } else { BootVmemmap::Full }
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
        let of = |f: HugetlbFeatures| {
            [(1, 2, 0), (4, 256, 0), (4, 256, 7)].map(|(n, c, asked)| boot_threads(&f, n, c, asked))
        };
        assert_eq!(of(HugetlbFeatures::MAINLINE_6_7), [1, 1, 1]);
        assert_eq!(of(HugetlbFeatures::MAINLINE_6_9), [2, 8, 8]);
        assert_eq!(of(HugetlbFeatures::MAINLINE_6_15), [1, 64, 7]);
    }

    #[test]
    fn another_round_of_boot_follows_one_that_brought_something() {
        let (f, older) = (HugetlbFeatures::MAINLINE_6_18, HugetlbFeatures::MAINLINE_6_15);
        assert!(fills_again(&f, true, 0, 5, 10) && !fills_again(&older, true, 0, 5, 10));
        assert!(!fills_again(&f, false, 0, 5, 10), "nothing was given back");
        assert!(!fills_again(&f, true, 5, 5, 10), "there was nothing to be found");
        assert!(!fills_again(&f, true, 5, 10, 10), "the pool is full");
    }

    #[test]
    fn pages_are_released_in_the_order_of_their_kernel() {
        let plan = |f: HugetlbFeatures| {
            let ReleasePlan { restore, add_back, order } = release_plan(&f);
            (restore, add_back, order)
        };
        assert_eq!(plan(HugetlbFeatures::BASE), (Per::Page, Per::Page, FreeOrder::FirstRestored));
        assert_eq!(plan(HugetlbFeatures::PATCH5), (Per::List, Per::Page, FreeOrder::FirstRestored));
        assert_eq!(plan(HugetlbFeatures::PATCH8), (Per::List, Per::List, FreeOrder::FirstRestored));
        assert_eq!(plan(HugetlbFeatures::MAINLINE_6_7), (Per::List, Per::List, FreeOrder::LastRestored));
    }
}
