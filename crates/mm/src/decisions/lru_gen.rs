//! What a tree may decide about the multi-gen LRU, as a record of plain numbers.
//!
//! In the kernel: `positive_ctrl_err`, `read_ctrl_pos`, `get_tier_idx`, `get_type_to_scan`, `should_run_aging` and `get_nr_to_scan`
//! in mm/vmscan.c (6.1 to 6.12).

use super::rule::{Rule, flat};

flat! {
    /// A lruvec's generations and the feedback of its tiers, what a decision is asked, and what it answers. Arrays by type and tier
    /// have anonymous memory first: `[type * 4 + tier]`.
    pub struct LruGenState as "mmtwin_lru_gen" {
        /// The youngest generation.
        pub max_seq: u64,
        /// The oldest generation of each type.
        pub min_seq: [u64; 2],
        /// Pages of each generation (modulo 4) and type: `[generation * 2 + type]`.
        pub nr_pages: [u64; 8],
        /// Averages of refaults, by type and tier.
        pub avg_refaulted: [u64; 8],
        /// Averages of evictions, by type and tier.
        pub avg_total: [u64; 8],
        /// Refaults since the oldest generation became that, by type and tier.
        pub refaulted: [u64; 8],
        /// Evictions since then, by type and tier.
        pub evicted: [u64; 8],
        /// Pages protected since then, by type and tier less 1; the fourth of each type is none.
        pub protected: [u64; 8],
        /// Asked: the type, 0 for anonymous memory and 1 for files.
        pub lru_type: i32,
        /// Asked of `read_ctrl_pos`: the tier.
        pub tier: i32,
        /// Asked of `read_ctrl_pos`: the weight of the tier's refaults.
        pub gain: i32,
        /// Asked: `vm.swappiness`.
        pub swappiness: i32,
        /// Asked of `should_run_aging`: whether anonymous memory can go.
        pub can_swap: i32,
        /// Asked of `should_run_aging` of 6.1: by how much all pages are divided (`sc->priority`).
        pub priority: i32,
        /// Asked of `positive_ctrl_err`: refaults, evictions and weight of the set point and of the process variable; the latter
        /// is what `read_ctrl_pos` answers.
        pub set_point: [u64; 3],
        /// Refaults, evictions and weight of the process variable, as in `set_point`.
        pub process: [u64; 3],
        /// Asked of `get_nr_to_scan`: whether memory.min protects all pages of the memory cgroup.
        pub below_min: i32,
        /// Asked of `get_nr_to_scan`: whether a new generation can begin (`try_to_inc_max_seq`).
        pub can_age: i32,
        /// Asked of `get_nr_to_scan` of 6.1: `current_is_kswapd`.
        pub kswapd: i32,
        /// Answered by `get_nr_to_scan` of 6.1: whether a new generation is due.
        pub need_aging: i32,
        /// Answered: a type, a tier, or yes or no.
        pub answer: i32,
        /// Answered by `get_type_to_scan`: the last tier that may go.
        pub tier_idx: i32,
        /// Answered by `should_run_aging` and `get_nr_to_scan`: pages to scan; of the latter all bits set for -1.
        pub nr_to_scan: u64,
    }
}

/// Who makes each decision about the multi-gen LRU.
#[derive(Clone, Copy, Debug, Default)]
pub struct LruGenDecisions {
    /// The last tier of a type whose folios may be evicted.
    pub get_tier_idx: Rule<LruGenState>,
    /// The type that is evicted from where both can be.
    pub get_type_to_scan: Rule<LruGenState>,
    /// Whether a new generation is due, and how many pages can be evicted.
    pub should_run_aging: Rule<LruGenState>,
}
