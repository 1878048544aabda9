//! What a kernel decides about a replayed program beyond what the memory manager does.

use mm::huge_memory::features::FolioFeatures;

/// Whether page-table entries of a run of pages are marked as one, so that the translation cache takes them as one: where the kernel
/// does it, or the run was `asked` to be as if it did.
pub(super) fn marks_contiguous(features: &FolioFeatures, asked: bool) -> bool {
    asked || features.marks_contiguous
}
