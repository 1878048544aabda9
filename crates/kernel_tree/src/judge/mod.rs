//! The C of a kernel and the twin's rules beside each other: the same states to both, and what comes out.
//!
//! ```text
//!   choices ─► a state ─┬─► nr_pcp_high of mm/page_alloc.c ─► PcpState ─┐
//!                       └─► policy.rs with the release's features ──────┴─ equal? else known, else a difference
//! ```
//!
//! A file of a mechanism says for each of its functions how a state is drawn and what the twin's policy makes of it. Its differential
//! test holds releases against the twin with that; `mmtwin kernel diff` shows with it in which states a patched function decides
//! otherwise than the one that it was made of.

mod anon_folio;
mod case;
mod compare;
mod deferral;
mod draw;
mod features;
mod folios;
mod fragmentation;
mod hugetlb;
mod khugepaged;
mod lru_gen;
mod numa;
mod numa_pass;
mod numa_placement;
mod pcp;
mod readahead;
mod reclaim;
mod tail_folio;
mod watermarks;
mod workingset;
mod writeback;
mod zone;

pub use case::Case;
pub use compare::{Comparison, Differences, Example, Named, Side};

/// All functions that are judged. One that releases have in several forms is there several times, and one release has one of them.
pub fn cases() -> Vec<Case> {
    [
        pcp::cases(),
        watermarks::cases(),
        zone::cases(),
        lru_gen::cases(),
        reclaim::cases(),
        tail_folio::cases(),
        workingset::cases(),
        readahead::cases(),
        folios::cases(),
        anon_folio::cases(),
        khugepaged::cases(),
        numa::cases(),
        numa_pass::cases(),
        numa_placement::cases(),
        fragmentation::cases(),
        deferral::cases(),
        hugetlb::cases(),
        writeback::cases(),
    ]
    .concat()
}
