//! Where the kernel looks for free swap entries.
//!
//! ```text
//!   6.9    current ─► free ─► anywhere                2 MiB: a free cluster; other large folios: nowhere
//!   6.10   current ─► free ─► (order 0) anywhere      each order has a current cluster
//!   6.12   current ─► free ─► reclaim full ─► nonfull ─► frag ─► (order 0) clusters of other orders
//!   6.18   current ─► nonfull ─► free ─► reclaim full ─► one of frag ─► (order 0) clusters of other orders
//! ```
//!
//! Pure functions. In the kernel: `cluster_alloc_swap_entry` in mm/swapfile.c (6.12, 7.2);
//! `scan_swap_map_slots` and `swap_alloc_cluster` before. Read in 6.12.117 and 7.2.12. That "prefer nonfull
//! over free clusters" came with 6.18 is taken from its change log, and what 6.10 did is from memory.

use crate::allocator::page::PMD_ORDER;
use crate::features::by_name::features;
use machine::PageSize;

features! {
    /// How entries for large folios are searched for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClusterSearch {
        /// A folio of 2 MiB takes a free cluster; all other large folios are split before they are swapped out.
        WholeClusters,
        /// 6.10: each order has a current cluster on each CPU; apart from it, only free clusters are tried.
        CurrentOrFree,
        /// 6.12: a cluster has an order until it is empty, and clusters with room are searched.
        FreeFirst,
        /// 6.18: clusters with room come before free ones, and only one of the fragmented ones is searched.
        NonfullFirst,
    }
}

/// A place to search for entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where this CPU last found entries for this order.
    Current,
    Free,
    /// The clusters of this order that have room, or in which an entry was freed since they were last
    /// searched (`nonfull_clusters`). A cluster that has been searched becomes a fragmented one.
    Nonfull,
    /// The fragmented clusters of this order, each once (`frag_clusters`).
    Frag,
    /// One fragmented cluster of this order.
    OneFrag,
    /// No place: if less than half of swap is free, frees the entries of a full cluster that only the swap
    /// cache uses.
    ReclaimFull,
    /// Clusters of larger orders.
    Steal,
    /// The next free entry of all swap.
    Anywhere,
}

/// The places in which entries for a folio of this order are searched for, one after the other.
pub fn search(f: ClusterSearch, order: u8) -> &'static [Place] {
    use Place::*;
    match (f, order) {
        (ClusterSearch::WholeClusters | ClusterSearch::CurrentOrFree, 0) => &[Current, Free, Anywhere],
        (ClusterSearch::WholeClusters, PMD_ORDER) => &[Free],
        (ClusterSearch::WholeClusters, _) => &[],
        (ClusterSearch::CurrentOrFree, _) => &[Current, Free],
        (ClusterSearch::FreeFirst, 0) => &[Current, Free, ReclaimFull, Nonfull, Frag, Steal],
        (ClusterSearch::NonfullFirst, 0) => &[Current, Nonfull, Free, ReclaimFull, OneFrag, Steal],
        (ClusterSearch::FreeFirst | ClusterSearch::NonfullFirst, PMD_ORDER) => &[Current, Free, ReclaimFull],
        (ClusterSearch::FreeFirst, _) => &[Current, Free, ReclaimFull, Nonfull, Frag],
        (ClusterSearch::NonfullFirst, _) => &[Current, Nonfull, Free, ReclaimFull, OneFrag],
    }
}

/// Whether large folios are swapped out whole on machines with this page size: arm64 has `CONFIG_THP_SWAP`
/// only with pages of 4 KiB (`ARCH_WANTS_THP_SWAP` in arch/arm64/Kconfig).
pub fn swaps_large_folios(page_size: PageSize) -> bool {
    page_size == PageSize::Kib4
}
