//! What kernels decide differently about areas.
//!
//! ```text
//!   munmap of a hole      │ before │  hole  │ behind │      "behind" is a new area in all kernels;
//!                                                         "before" stays the area that was there until 6.5, since 6.6 it is new
//! ```
//!
//! Pure functions. In the kernel: `do_vmi_align_munmap` in mm/vma.c, `vma_has_recency` in include/linux/mm_inline.h.

use crate::lru::vmscan::features::{EvictionLoop, Lru, ReclaimFeatures};
use crate::numa::features::NumaFeatures;

/// Which of two pieces that an area is cut into stays the area that it was (`new_below` of `__split_vma` says it the other way
/// round). The other piece is a new area: whatever it is copied from, NUMA scanning has not met it yet (`vm_area_dup`).
///
/// ```text
///   other rights, policy, advice or lock   │ new │ changed │ new │      mm/mprotect.c, mm/mempolicy.c, mm/madvise.c, mm/mlock.c;
///                                                                       since 6.7 `vma_modify` in mm/mmap.c, later mm/vma.c
///   a neighbour takes in what changes      │ as it was     │ ► │ next │     no cut: the border moves (`vma_merge`)
///   unmapped   6.3 to 6.5                  │ as it was │ gone │ new │   `do_vmi_align_munmap` in mm/mmap.c
///              from 6.6 on                 │ new │ gone │ new │         likewise; since 6.12 `vms_gather_munmap_vmas`
/// ```
///
/// Before 6.3 both pieces that one end of an area was unmapped from stayed as they were, but those kernels knew nothing of
/// areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// The one at lower addresses.
    Below,
    /// The one at higher addresses.
    Above,
}

/// Where munmap cuts an area to begin a hole: which part is it still? What is left before the hole, until 6.5; from 6.6 on what
/// goes away.
pub(crate) fn cut_before_hole(f: &NumaFeatures) -> Stays {
    if f.munmap_keeps_start { Stays::Below } else { Stays::Above }
}

/// Whether accesses to an area say something about the future (`vma_has_recency`): where somebody has said how it is read
/// (`hinted`: `MADV_RANDOM` or `MADV_SEQUENTIAL`), only kernels with a multi-gen LRU before 6.3 take them for that.
#[inline]
pub(crate) fn has_recency(f: &ReclaimFeatures, hinted: bool) -> bool {
    !hinted || matches!(f.lru, Lru::MultiGen(f) if f.eviction_loop == EvictionLoop::AgingApart)
}
