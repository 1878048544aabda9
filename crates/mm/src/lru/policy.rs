//! What brings folios into memory, and when a batch of them goes onto lists.
//!
//! ```text
//!   batch of one CPU   │■│■│■│ │ ... │      full at 15 folios, from 6.9 on at 31; or at once with a large folio
//! ```
//!
//! Pure functions. In the kernel: `folio_batch_add_and_move` in mm/swap.c, `PAGEVEC_SIZE` in include/linux/pagevec.h.

use crate::features::Features;

/// What brings a folio into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedBy {
    /// A page fault on an area whose accesses say something about the future (`lru_gen_in_fault`).
    Fault,
    /// A call, as `read`, or a page fault elsewhere.
    Other,
}

/// Whether a batch goes onto lists that has so many folios, the last of them of this order.
#[inline]
pub(crate) fn drains_batch(f: &Features, folios: usize, order: u8) -> bool {
    folios >= usize::from(f.folio_batch) || order > 0
}
