//! What the twin's kernels of the judged releases have: the multi-gen LRU since 6.1, and threads that are known to use a VMA since 6.3.

use mm::Features;
use mm::numa::features::AccessingPids;
use mm::vmscan::features::{GenFeatures, Lru, ReclaimFeatures};

/// The multi-gen LRU of a kernel.
pub fn generations(f: &Features) -> GenFeatures {
    match f.reclaim.lru {
        Lru::MultiGen(generations) => generations,
        // No release without it is modelled under its number.
        Lru::Classic => unreachable!("the multi-gen LRU is in every kernel since 6.1"),
    }
}

/// The LRU of a kernel that uses what it has.
pub fn lru(f: &Features) -> Lru {
    f.reclaim.lru
}

/// The features of a kernel that uses the multi-gen LRU, or the classic one.
pub fn with_lru(f: &ReclaimFeatures, lru_gen_enabled: bool) -> ReclaimFeatures {
    ReclaimFeatures { lru: Lru::in_use(f, lru_gen_enabled), ..*f }
}

/// How a kernel keeps which threads use a VMA.
pub fn accessing_pids(f: &Features) -> AccessingPids {
    f.numa.accessing_pids.unwrap_or(AccessingPids::OneWord)
}
