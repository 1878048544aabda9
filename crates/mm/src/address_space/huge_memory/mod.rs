//! Large folios for anonymous memory.
//!
//! ```text
//!   store to an address that has no page
//!        │
//!        ├─ 2 MiB: no page table yet, allowed, inside the VMA ─► a folio of order 9, mapped by one entry
//!        │
//!        └─ page table:  candidates ─► those that fit ─► the first that is to be had ─► a folio of 2^order pages
//!                        settings,      VMA bounds,       free lists, memory cgroup      mapped by 2^order entries,
//!                        advice         entries                                          all of them young
//! ```
//!
//! A page fault costs about as much as it takes to clear a page, and a translation cache has entries for a few MiB. A
//! folio of 16 pages needs one fault instead of 16 and, where the hardware sees that entries follow each other, one place
//! in the translation cache. It also takes 64 KiB where 4 may have been wanted, and a block of 16 free pages that may not
//! be there. What to do then is what the versions of "variable-order, large folios for anonymous memory" (2023) differ
//! in: try every smaller order (v1), look for the best fit and try once (v2), try one order in between (v3), or let the
//! administrator say (v6 and later; merged in 6.8).
//!
//! [`features`] has a value for each version, [`policy`] the decisions, [`settings`] what the administrator says, `fault`
//! makes the folios, [`khugepaged`] makes them of small ones, `split` unmakes them, `zero` has the huge page that reads
//! find, [`stats`] counts all that, and [`sysfs`] shows it.
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
pub(crate) mod zero;

use crate::allocator::page::Pfn;

/// The huge page of zeroes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugeZero {
    first: Option<Pfn>,
    /// Address spaces that hold it.
    holders: u32,
    /// What its shrinker put off.
    nr_deferred: u64,
}
