//! Decisions about VMAs that differ between kernels.
//!
//! ```text
//!   munmap of a hole      │ before │  hole  │ behind │      "behind" is a new VMA in all kernels;
//!                                                         "before" stays the original VMA until 6.5, since 6.6 it is new
//! ```
//!
//! Pure functions. In the kernel: `do_vmi_align_munmap` in mm/vma.c, `vma_has_recency` in include/linux/mm_inline.h.

use crate::lru::vmscan::features::{EvictionLoop, Lru, ReclaimFeatures};
use crate::numa::features::NumaFeatures;

/// Which piece of a VMA that is cut in two remains the original VMA (the opposite of `new_below` in
/// `__split_vma`). The other piece is a new VMA (`vm_area_dup`): whatever it was copied from, NUMA scanning
/// has not seen it yet.
///
/// ```text
///   other protection, policy, advice, lock │ new │ changed │ new │      mm/mprotect.c, mm/mempolicy.c, mm/madvise.c, mm/mlock.c;
///                                                                       since 6.7 `vma_modify` in mm/mmap.c, later mm/vma.c
///   a neighbour absorbs what changes       │ as it was     │ ► │ next │     no cut: the boundary moves (`vma_merge`)
///   unmapped   6.3 to 6.5                  │ as it was │ gone │ new │   `do_vmi_align_munmap` in mm/mmap.c
///              from 6.6 on                 │ new │ gone │ new │         likewise; since 6.12 `vms_gather_munmap_vmas`
/// ```
///
/// Before 6.3, munmap at one end of a VMA left both pieces the original one, but those kernels kept no scan
/// state in VMAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// The piece at lower addresses.
    Below,
    /// The piece at higher addresses.
    Above,
}

/// Which piece remains the original VMA when munmap cuts it at the start of a hole: until 6.5 the piece
/// before the hole, since 6.6 the one that is unmapped.
pub(crate) fn cut_before_hole(f: &NumaFeatures) -> Stays {
    if f.munmap_keeps_start { Stays::Below } else { Stays::Above }
}

/// Whether accesses to a VMA count for its pages' age (`vma_has_recency`). With `MADV_RANDOM` or
/// `MADV_SEQUENTIAL` (`hinted`) they do only in kernels before 6.3 with a multi-gen LRU.
#[inline]
pub(crate) fn has_recency(f: &ReclaimFeatures, hinted: bool) -> bool {
    !hinted || matches!(f.lru, Lru::MultiGen(f) if f.eviction_loop == EvictionLoop::AgingApart)
}
