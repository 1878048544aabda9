//! How a folio came into memory, and when a CPU's batch of folios is moved to the LRU lists.

use crate::features::Features;

/// How a folio came into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedBy {
    /// A page fault on a VMA whose accesses predict later ones (`lru_gen_in_fault`, `vma_has_recency`).
    Fault,
    /// A system call such as `read`, or a page fault on any other VMA.
    Other,
}

/// Whether a batch that holds `folios` folios is moved to the lists now. `order` is that of the folio added
/// last: a large folio never waits.
#[inline]
pub(crate) fn drains_batch(f: &Features, folios: usize, order: u8) -> bool {
    folios >= folio_batch(f) || order > 0
}

/// How many folios a batch holds (`PAGEVEC_SIZE`).
#[inline]
pub(crate) fn folio_batch(f: &Features) -> usize {
    f.folio_batch.into()
}
