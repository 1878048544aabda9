//! What a tree may decide about per-CPU pagesets, as records of plain numbers.
//!
//! In the kernel: `nr_pcp_alloc`, `nr_pcp_high`, `nr_pcp_free`, `decay_pcp_high`, `free_unref_page_commit`, `zone_batchsize` and
//! `zone_highsize` in mm/page_alloc.c (6.1 to 6.12).

use super::rule::{Rule, flat};

flat! {
    /// A pageset, the flags of its zone, what a decision is asked, and what it answers.
    pub struct PcpState as "mmtwin_pcp" {
        /// `pcp->count`: base pages on all lists.
        pub count: i32,
        /// `pcp->high`.
        pub high: i32,
        /// `pcp->high_min` (since 6.7).
        pub high_min: i32,
        /// `pcp->high_max` (since 6.7).
        pub high_max: i32,
        /// `pcp->batch`.
        pub batch: i32,
        /// `pcp->free_factor` (before 6.7).
        pub free_factor: i32,
        /// `pcp->alloc_factor` (since 6.7).
        pub alloc_factor: i32,
        /// `pcp->free_count` (since 6.7).
        pub free_count: i32,
        /// `PCPF_PREV_FREE_HIGH_ORDER` (since 6.7).
        pub prev_free_high_order: i32,
        /// `PCPF_FREE_HIGH_BATCH` (since 6.7).
        pub free_high_batch: i32,
        /// `ZONE_RECLAIM_ACTIVE`.
        pub reclaim_active: i32,
        /// `ZONE_BELOW_HIGH` (since 6.7).
        pub below_high: i32,
        /// Asked of an allocation or a free: the block's order.
        pub order: i32,
        /// Asked of `nr_pcp_high` and `nr_pcp_free`: whether blocks of high order are freed in a row.
        pub free_high: i32,
        /// Asked of `nr_pcp_free`: what `nr_pcp_high` answered.
        pub asked_high: i32,
        /// Asked of `free_unref_page_commit`: 0 for one block, or how many are freed in a row, of which only those are entered that
        /// come before the first that gives pages back.
        pub frees: i32,
        /// Answered: pages, blocks, or whether there is more to do.
        pub answer: i32,
        /// Where `frees` was asked: how many of them were entered.
        pub entered: i32,
        /// How often `free_pcppages_bulk` was called.
        pub drains: i32,
        /// How many pages these calls were to give back, together.
        pub drained: i32,
        /// How many pages the first of them was to give back.
        pub first_drain: i32,
    }
}

flat! {
    /// A zone, for the size of its pagesets.
    pub struct PcpZoneState as "mmtwin_pcp_zone" {
        /// `zone_managed_pages`.
        pub managed: u64,
        /// `low_wmark_pages`.
        pub low: u64,
        /// 2^12 for pages of 4 KiB.
        pub page_shift: i32,
        /// CPUs of the zone's node.
        pub local_cpus: i32,
        /// `num_online_cpus`.
        pub online_cpus: i32,
        /// Asked of `zone_highsize`: the batch.
        pub batch: i32,
        /// Asked of `zone_highsize`: whether a CPU comes up that is not counted yet.
        pub cpu_online: i32,
        /// Asked of `zone_highsize`: `vm.percpu_pagelist_high_fraction`, or 8 for `high_max`; 0 means by the watermark.
        pub high_fraction: i32,
        /// Answered: pages.
        pub answer: i32,
    }
}

/// Who makes each decision about pagesets.
#[derive(Clone, Copy, Debug, Default)]
pub struct PcpDecisions {
    /// How many blocks a refill fetches from the zone.
    pub nr_pcp_alloc: Rule<PcpState>,
    /// The number of pages from which on a free gives pages back to the zone.
    pub nr_pcp_high: Rule<PcpState>,
    /// How many pages a free gives back to the zone.
    pub nr_pcp_free: Rule<PcpState>,
    /// What the vmstat worker does to a grown `high`.
    pub decay_pcp_high: Rule<PcpState>,
    /// All bookkeeping of a freed block, with the two decisions that it calls.
    pub free_unref_page_commit: Rule<PcpState>,
    /// How many pages move between a zone and its pagesets at a time.
    pub zone_batchsize: Rule<PcpZoneState>,
    /// How many pages a zone's pagesets may hold.
    pub zone_highsize: Rule<PcpZoneState>,
}
