//! What a tree may decide about reclaim, as records of plain numbers: how many pages of each list are scanned, in which proportion, and
//! what becomes of a folio.
//!
//! In the kernel: `get_scan_count`, `shrink_lruvec`, `folio_check_references`, `sort_folio` and `isolate_folio` in mm/vmscan.c (6.1 to
//! 6.12). Arrays by list are in the kernel's order: inactive and active anonymous pages, inactive and active pages of files.

use super::rule::flat;

flat! {
    /// A lruvec of the classic lists, and the reclaim that looks at it.
    pub struct ScanCountState as "mmtwin_scan_count" {
        /// `sc->may_swap`.
        pub may_swap: i32,
        /// Whether anonymous pages can be swapped out or demoted (`can_reclaim_anon_pages`).
        pub can_reclaim_anon: i32,
        /// Whether this is reclaim for the limit of a memory cgroup (`cgroup_reclaim`).
        pub cgroup_reclaim: i32,
        /// `vm.swappiness`.
        pub swappiness: i32,
        /// `sc->priority`.
        pub priority: i32,
        /// `sc->file_is_tiny`.
        pub file_is_tiny: i32,
        /// `sc->cache_trim_mode`.
        pub cache_trim_mode: i32,
        /// `sc->memcg_low_reclaim`.
        pub memcg_low_reclaim: i32,
        /// `sc->anon_cost` and `sc->file_cost`.
        pub cost: [u64; 2],
        /// Pages of each list.
        pub sizes: [u64; 4],
        /// Pages that memory.low protects in effect.
        pub low: u64,
        /// Pages that memory.min protects in effect.
        pub min: u64,
        /// Pages that the memory cgroup uses.
        pub usage: u64,
        /// Answered by `get_scan_count`: pages of each list to scan.
        pub nr: [u64; 4],
        /// Answered: `sc->memcg_low_skipped`.
        pub memcg_low_skipped: i32,
        /// Asked of `shrink_lruvec`: `current_is_kswapd`.
        pub kswapd: i32,
        /// Asked of `shrink_lruvec`: `sc->nr_to_reclaim`.
        pub nr_to_reclaim: u64,
        /// Asked of `shrink_lruvec`: how many of 32 pages that are scanned of each list are reclaimed.
        pub reclaimed_of_32: [u32; 4],
        /// Asked of `shrink_lruvec`: whether anonymous pages are aged at all (`can_age_anon_pages`).
        pub can_age_anon: i32,
        /// Answered by `shrink_lruvec`: how often it called `shrink_list` for each list.
        pub calls: [u64; 4],
        /// Answered by `shrink_lruvec`: pages of each list that it had `shrink_list` scan.
        pub scanned: [u64; 4],
        /// Answered by `shrink_lruvec`: `sc->nr_reclaimed`.
        pub nr_reclaimed: u64,
        /// Answered by `shrink_lruvec`: pages that it had `shrink_active_list` scan at the end.
        pub aged: u64,
    }
}

flat! {
    /// A folio that reclaim looks at, and what its page tables say of it.
    pub struct ReferencesState as "mmtwin_references" {
        /// How many PTEs say that the folio was accessed.
        pub referenced_ptes: i32,
        /// Whether a VMA that maps the folio is locked (`VM_LOCKED`).
        pub locked: i32,
        /// Whether a VMA that maps the folio is executable (`VM_EXEC`).
        pub executable: i32,
        /// The flag `PG_swapbacked`: the folio is none of a file.
        pub swapbacked: i32,
        /// The flag `PG_referenced`, asked and answered.
        pub referenced: i32,
        /// Answered: `enum folio_references`, 0 reclaim, 1 reclaim if clean, 2 keep, 3 activate.
        pub answer: i32,
    }
}

flat! {
    /// A folio at the tail of its oldest generation, and the reclaim that meets it.
    pub struct TailFolioState as "mmtwin_tail_folio" {
        /// The generation that the folio is in, modulo 4; asked and answered.
        pub generation: i32,
        /// The counter of accesses beyond the first (`LRU_REFS_MASK`), 0 to 3; asked and answered.
        pub refs: i32,
        /// `PG_referenced`, asked and answered.
        pub referenced: i32,
        /// `PG_workingset`, asked and answered.
        pub workingset: i32,
        /// `PG_reclaim`, asked and answered.
        pub reclaim: i32,
        /// `PG_lru`, asked and answered.
        pub lru: i32,
        /// `PG_dirty`.
        pub dirty: i32,
        /// `PG_writeback`.
        pub writeback: i32,
        /// `PG_locked`.
        pub locked: i32,
        /// `PG_swapbacked`: the folio is none of a file.
        pub swapbacked: i32,
        /// `PG_swapcache`.
        pub swapcache: i32,
        /// The zone that the folio is in, from 0.
        pub zone: i32,
        /// Pages of the folio.
        pub nr_pages: u64,
        /// Asked: the oldest generation of the folio's type.
        pub min_seq: u64,
        /// Asked of `sort_folio`: the last tier that may be evicted.
        pub tier_idx: i32,
        /// Asked of `sort_folio`: the highest zone that memory is wanted from.
        pub reclaim_idx: i32,
        /// Answered: whether the folio was moved to another list, or whether it was isolated.
        pub answer: i32,
        /// Answered by `sort_folio`: to which end of a list it was moved, 1 the head and 2 the tail.
        pub moved_to: i32,
        /// Answered by `sort_folio`: pages that count as protected, by tier less 1.
        pub protected: [u64; 3],
        /// Answered by `sort_folio`: pages that count as activated.
        pub activated: u64,
    }
}
