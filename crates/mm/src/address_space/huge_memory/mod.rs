//! Large folios for anonymous memory.
//!
//! ```text
//!   store to an address that has no page
//!        │
//!        ├─ 2 MiB: no page table yet, allowed, inside the VMA ─► a folio of order 9, mapped by one entry
//!        │
//!        └─ page table:  candidates ─► those that fit ─► the first one available     ─► a folio of 2^order pages
//!                        settings,      VMA bounds,       free lists, memory cgroup      mapped by 2^order entries,
//!                        advice         entries                                          all of them young
//! ```
//!
//! A page fault costs about as much as clearing a page, and a TLB covers only a few MiB. A folio of 16 pages
//! needs one fault instead of 16 and, where hardware coalesces adjacent PTEs, one TLB entry. It also takes 64
//! KiB where 4 may suffice, and needs a free block of 16 pages, which may not exist. What to do then is where
//! the versions of "variable-order, large folios for anonymous memory" (2023) differ: try every smaller order
//! (v1), look for the best fit and try once (v2), try one order in between (v3), or let the administrator
//! choose (v6 and later; merged in 6.8).
//!
//! [`features`] has a value for each version, [`policy`] the decisions, [`settings`] the sysfs settings.
//! `fault` allocates large folios, [`khugepaged`] collapses small ones into large ones, `split` splits them,
//! `zero` has the huge zero folio; [`stats`] has the counters, [`sysfs`] the files, and `tree`
//! asks a kernel tree in place of the policy.
//! In the kernel: mm/huge_memory.c, `do_anonymous_page` in mm/memory.c.

mod fault;
pub mod features;
pub mod khugepaged;
pub mod orders;
pub mod policy;
pub mod settings;
pub(crate) mod split;
pub mod stats;
pub mod sysfs;
mod tree;
pub(crate) mod zero;

use crate::allocator::page::Pfn;

/// The huge zero folio (`huge_zero_folio`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugeZero {
    first: Option<Pfn>,
    /// Number of address spaces that hold it (`huge_zero_refcount`).
    holders: u32,
    /// Scan work that its shrinker deferred.
    nr_deferred: u64,
}
