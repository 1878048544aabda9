//! Decisions of the kernel before it migrates a folio (`migrate_pages_batch` in mm/migrate.c).

use crate::address_space::huge_memory::features::FolioFeatures;

/// Whether a partially mapped folio is split so that its pages migrate one by one, as since 6.10. Older
/// kernels migrate it whole and take it off the deferred split queue.
pub fn splits_first(f: &FolioFeatures, is_partially_mapped: bool) -> bool {
    f.splits_before_migration && is_partially_mapped
}
