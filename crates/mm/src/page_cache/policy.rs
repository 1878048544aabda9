//! Decisions about dropping the page cache. Pure functions. In the kernel: fs/drop_caches.c, `mapping_evict_folio` in mm/truncate.c.

use crate::lru::folio::FolioFlags;
use crate::lru::vmscan::features::ReclaimFeatures;

/// Whether a write to `vm.drop_caches` drains the folio batches of all CPUs first (`drop_caches_sysctl_handler`).
pub fn drains_before_dropping(f: &ReclaimFeatures) -> bool {
    f.drop_caches_drains
}

/// Whether a folio of a file is dropped: nobody has to write it, and nobody but the page cache has a reference to it, as mappings and
/// folio batches would (`mapping_evict_folio`).
pub fn is_dropped(flags: FolioFlags, mapped: bool) -> bool {
    let busy = FolioFlags::LOCKED | FolioFlags::DIRTY | FolioFlags::WRITEBACK | FolioFlags::HELD;
    flags.has(FolioFlags::LRU) && !flags.any(busy) && !mapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_clean_and_idle_is_dropped() {
        let idle = FolioFlags::LRU;
        assert!(is_dropped(idle, false));
        assert!(!is_dropped(idle, true) && !is_dropped(FolioFlags::default(), false));
        for flag in [FolioFlags::LOCKED, FolioFlags::DIRTY, FolioFlags::WRITEBACK, FolioFlags::HELD] {
            assert!(!is_dropped(idle | flag, false), "{flag:?}");
        }
    }
}
