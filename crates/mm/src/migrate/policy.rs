//! What the kernel decides about a folio before it moves it (`migrate_pages_batch` in mm/migrate.c).

use crate::address_space::huge_memory::features::FolioFeatures;

/// Whether a folio is split and its pages move one by one: since 6.10 if some of them are mapped by nobody; before, it moves whole,
/// and waits to be split no longer.
pub fn splits_first(f: &FolioFeatures, is_partially_mapped: bool) -> bool {
    f.splits_before_migration && is_partially_mapped
}
