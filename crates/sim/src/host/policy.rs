//! The kernel's choice for the page tables of recorded programs, besides those of the memory manager.

use mm::huge_memory::features::FolioFeatures;

/// Whether the PTEs of a run of pages are marked contiguous, so that the TLB holds the run in one entry: if
/// the kernel does so, or the run is `asked` to assume it.
pub(super) fn marks_contiguous(features: &FolioFeatures, asked: bool) -> bool {
    asked || features.marks_contiguous
}
