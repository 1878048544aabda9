//! Where on a swap device the kernel looks for room.
//!
//! ```text
//!   6.9    current ─► free ─► anywhere                            2 MiB: a free cluster; other sizes: never
//!   6.10   current ─► free ─► anywhere                            each size has a current cluster; not "anywhere"
//!   6.12   current ─► free ─► full ones give back ─► nonfull ─► frag ─► (single pages) other sizes' clusters
//!   6.18   current ─► nonfull ─► free ─► full ones give back ─► one of frag ─► (single pages) other sizes' clusters
//! ```
//!
//! Pure functions. In the kernel: `cluster_alloc_swap_entry` in mm/swapfile.c (6.12, 7.2); `scan_swap_map_slots` and
//! `swap_alloc_cluster` before. Read in 6.12.117 and 7.2.12; that "prefer nonfull over free clusters" came with 6.18 is what
//! its change log says, and what 6.10 did is told from memory.

use crate::allocator::page::PMD_ORDER;
use crate::features::by_name::features;
use machine::PageSize;

features! {
    /// How room for large folios is found on swap.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClusterSearch {
        /// 2 MiB take a free cluster; all other folios are split before they are swapped out.
        WholeClusters,
        /// 6.10: each size has a current cluster on each CPU, and no other place.
        CurrentOrFree,
        /// 6.12: clusters belong to a size until they are empty, and those with room are looked through.
        FreeFirst,
        /// 6.18: those with room before free ones, and of those that are scattered one.
        NonfullFirst,
    }
}

/// A place to look for room at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where this CPU last found room for this size.
    Current,
    /// A free cluster.
    Free,
    /// Clusters of this size in which something was freed since they were last looked through; each that is looked
    /// through becomes a scattered one.
    Nonfull,
    /// Scattered clusters of this size, each once.
    Frag,
    /// One of them.
    OneFrag,
    /// Nowhere: where swap is half full, entries of a full cluster are freed that only the swap cache has.
    ReclaimFull,
    /// Clusters of larger sizes.
    Steal,
    /// The next free entry.
    Anywhere,
}

/// The places that a folio of this order is looked room for at, in turn.
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

/// Whether large folios may be swapped whole at all: arm64 is built with `CONFIG_THP_SWAP` only where pages have 4 KiB
/// (`ARCH_WANTS_THP_SWAP` in arch/arm64/Kconfig).
pub fn swaps_large_folios(page_size: PageSize) -> bool {
    page_size == PageSize::Kib4
}
