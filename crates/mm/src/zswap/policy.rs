//! What zswap takes, how much it holds, and what it writes back, as pure functions, and what changed between releases.
//!
//! ```text
//!            full pool              a load                    the shrinker protects
//!   6.1      one entry a failure    leaves the entry          (there is none)
//!   6.5      until it has room      leaves the entry          (there is none)
//!   6.8      until it has room      leaves the entry          entries stored lately, until they are a quarter of the list
//!   6.9      until it has room      takes it out of the pool  the same
//!   6.12     until it has room      takes it out of the pool  each entry once, and as many as were read from the device
//! ```
//!
//! In the kernel: mm/zswap.c (read in 6.1.192 and 6.12.117), `obj_cgroup_may_zswap` in mm/memcontrol.c.

use crate::address_space::huge_memory::features::FolioFeatures;
use crate::address_space::huge_memory::policy::SwapInPath;
use crate::features::by_name::features;

features! {
    /// What one kernel does with pages in zswap.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ZswapFeatures {
        /// 6.5: a pool that is full is written back until it may take pages again; before, one entry for each page that it refuses.
        pub shrinks_until_accepting: bool,
        /// 6.8: each memory cgroup has lists of its own on each node, which its limit and a shrinker write back; before, there is one
        /// list, and a memory cgroup at its limit is refused.
        pub memcg_aware: bool,
        /// 6.9: a page that is loaded into the swap cache leaves the pool; before, its entry stays until its swap entry is freed.
        pub exclusive_loads: bool,
        /// 6.12: an entry is passed over once before it is written back, and pages read from the device protect as many entries from
        /// the shrinker; before, entries stored lately are protected.
        pub second_chance: bool,
        /// 6.13: large folios are stored, page by page; before, they go to the device.
        pub large_folios: bool,
        /// 6.18: a page that does not compress is stored as it is, if its memory cgroup may write back; before, it goes to the device.
        pub stores_incompressible: bool,
    }
}

impl ZswapFeatures {
    pub(crate) const MAINLINE_6_1: ZswapFeatures = ZswapFeatures {
        shrinks_until_accepting: false,
        memcg_aware: false,
        exclusive_loads: false,
        second_chance: false,
        large_folios: false,
        stores_incompressible: false,
    };
    pub(crate) const MAINLINE_6_5: ZswapFeatures =
        ZswapFeatures { shrinks_until_accepting: true, ..ZswapFeatures::MAINLINE_6_1 };
    pub(crate) const MAINLINE_6_8: ZswapFeatures =
        ZswapFeatures { memcg_aware: true, ..ZswapFeatures::MAINLINE_6_5 };
    pub(crate) const MAINLINE_6_9: ZswapFeatures =
        ZswapFeatures { exclusive_loads: true, ..ZswapFeatures::MAINLINE_6_8 };
    pub(crate) const MAINLINE_6_12: ZswapFeatures =
        ZswapFeatures { second_chance: true, ..ZswapFeatures::MAINLINE_6_9 };
    pub(crate) const MAINLINE_6_13: ZswapFeatures =
        ZswapFeatures { large_folios: true, ..ZswapFeatures::MAINLINE_6_12 };
    pub(crate) const MAINLINE_6_18: ZswapFeatures =
        ZswapFeatures { stores_incompressible: true, ..ZswapFeatures::MAINLINE_6_13 };
}

/// The settings of zswap (`/sys/module/zswap/parameters`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZswapSettings {
    /// `zswap.enabled`
    pub enabled: bool,
    /// `zswap.max_pool_percent`: the most memory that the pool may take, percent of all.
    pub max_pool_percent: u64,
    /// `zswap.accept_threshold_percent`: how full a pool that was full may be to take pages again, percent of the most.
    pub accept_threshold_percent: u64,
    /// `zswap.shrinker_enabled`: memory pressure writes back pages of the pool.
    pub shrinker_enabled: bool,
}

impl Default for ZswapSettings {
    fn default() -> ZswapSettings {
        ZswapSettings {
            enabled: false,
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            shrinker_enabled: false,
        }
    }
}

impl ZswapSettings {
    /// The most pages that the pool takes on a machine with so many (`zswap_max_pages`).
    pub fn max_pages(&self, managed: u64) -> u64 {
        managed * self.max_pool_percent / 100
    }

    /// With how many pages one that was full takes pages again (`zswap_accept_thr_pages`).
    pub fn accept_pages(&self, managed: u64) -> u64 {
        self.max_pages(managed) * self.accept_threshold_percent / 100
    }

    /// Whether a pool of so many pages is full; `was_full` if it was when last asked (`zswap_check_limits`).
    pub fn is_full(&self, pages: u64, managed: u64, was_full: bool) -> bool {
        pages >= self.max_pages(managed) || was_full && pages > self.accept_pages(managed)
    }
}

/// Whether zswap takes folios of this order.
pub fn takes(f: &ZswapFeatures, order: u8) -> bool {
    order == 0 || f.large_folios
}

/// Whether a page that is refused asks for a full pool to be written back: where that is a single entry, only while the pool is at its
/// limit, so that it hardly comes down.
pub fn asks_for_writeback(f: &ZswapFeatures, is_at_limit: bool, is_full: bool) -> bool {
    if f.shrinks_until_accepting { is_full } else { is_at_limit }
}

/// Bytes that a page takes in the pool which compresses to `length` bytes; `None` if it is refused. `writes_back`: the page's memory
/// cgroup may write back (`memory.zswap.writeback`), and `page` is the size of a page.
pub fn stored_length(f: &ZswapFeatures, length: u32, page: u32, writes_back: bool) -> Option<u32> {
    match length < page {
        true => Some(length),
        false => (f.stores_incompressible && writes_back).then_some(page),
    }
}

/// Bytes that a page of one word and zeroes takes: less than the 109 that lzo makes of 64 random bytes and zeroes.
const BYTES_OF_ZEROES: u32 = 48;

/// What a page is compressed to, of what it contains: one that nobody has stored to is noted without taking memory where swap has no bits for
/// such pages, and comes here as a part of a larger folio where it has (`zswap_is_page_same_filled` before 6.12).
pub fn length_of_content(folios: &FolioFeatures, length: u32) -> u32 {
    if length == 0 && folios.zeromap { BYTES_OF_ZEROES } else { length }
}

/// Whether a memory cgroup at `memory.zswap.max` has its oldest entries written back to let a page in; before 6.8 it is refused.
pub fn makes_room_in_memcg(f: &ZswapFeatures) -> bool {
    f.memcg_aware
}

/// Whether a new entry is passed over once before it is written back.
pub fn has_second_chance(f: &ZswapFeatures) -> bool {
    f.second_chance
}

/// Whether a page that is swapped in this way leaves the pool: not past the swap cache, where its swap entry decides.
pub fn leaves_pool(f: &ZswapFeatures, path: SwapInPath) -> bool {
    f.exclusive_loads && path.is_through_cache()
}

/// Whether reads from the device are counted, which spare entries from the shrinker.
pub fn counts_swapins(f: &ZswapFeatures) -> bool {
    f.memcg_aware
}

/// What a run of the worker writes back that a full pool starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// The oldest entry of all.
    OfOneEntry,
    /// The oldest ones, until the pool takes pages again.
    OfPool,
    /// The oldest one of a memory cgroup after the other, until the pool takes pages again.
    OfMemcgs,
}

/// Which worker a kernel has.
pub fn worker(f: &ZswapFeatures) -> Worker {
    match (f.memcg_aware, f.shrinks_until_accepting) {
        (true, _) => Worker::OfMemcgs,
        (false, true) => Worker::OfPool,
        (false, false) => Worker::OfOneEntry,
    }
}

/// Whether memory pressure writes back entries.
pub fn shrinks(f: &ZswapFeatures, settings: &ZswapSettings) -> bool {
    f.memcg_aware && settings.shrinker_enabled
}

/// Whether the shrinker leaves a list of `on_list` entries alone rather than scan a batch of it (`zswap_shrinker_scan` before 6.12).
pub fn spares_batch(f: &ZswapFeatures, protected: u64, on_list: u64, batch: u64) -> bool {
    !f.second_chance && protected >= on_list.saturating_sub(batch)
}

/// Entries that the shrinker may write back, of those `on_list`; `protected` is what its list has earned, of which
/// [`ZswapFeatures::second_chance`] uses up what it protects (`zswap_shrinker_count`).
pub fn unprotected(f: &ZswapFeatures, on_list: u64, protected: &mut u64) -> u64 {
    let left = on_list.saturating_sub(*protected);
    if f.second_chance {
        *protected = protected.saturating_sub(on_list);
    }
    left
}

/// Of these entries, as many as are worth the memory that the pool gives back for them: the better pages compress, the fewer
/// (`zswap_shrinker_count`). `pool` is in pages.
pub fn worth_writing(entries: u64, pool: u64, stored: u64) -> u64 {
    (entries * pool).checked_div(stored).unwrap_or(0)
}

/// What a list has earned after one more entry was stored on it, which has `on_list` now (`zswap_lru_add` before 6.12).
pub fn protected_after_store(f: &ZswapFeatures, protected: u64, on_list: u64) -> u64 {
    if f.second_chance {
        return protected;
    }
    let protected = protected + 1;
    if protected > on_list / 4 { protected / 2 } else { protected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_takes_pages_again_at_the_threshold() {
        let settings = ZswapSettings::default();
        assert_eq!((settings.max_pages(1000), settings.accept_pages(1000)), (200, 180));
        assert!(!settings.is_full(199, 1000, false) && settings.is_full(200, 1000, false));
        assert!(settings.is_full(181, 1000, true) && !settings.is_full(180, 1000, true));
    }

    #[test]
    fn below_its_limit_a_full_pool_is_written_back_from_6_5_on() {
        let asks = |f, is_at_limit| asks_for_writeback(&f, is_at_limit, true);
        assert!(asks(ZswapFeatures::MAINLINE_6_1, true) && !asks(ZswapFeatures::MAINLINE_6_1, false));
        assert!(asks(ZswapFeatures::MAINLINE_6_5, false));
    }

    #[test]
    fn what_does_not_compress_is_stored_by_some() {
        let (old, new) = (ZswapFeatures::MAINLINE_6_13, ZswapFeatures::MAINLINE_6_18);
        assert_eq!(stored_length(&old, 4095, 4096, true), Some(4095));
        assert_eq!(stored_length(&old, 4096, 4096, true), None);
        assert_eq!(stored_length(&new, 5000, 4096, true), Some(4096));
        assert_eq!(stored_length(&new, 5000, 4096, false), None);
    }

    #[test]
    fn what_was_read_from_the_device_protects_once() {
        let mut protected = 120;
        assert_eq!(unprotected(&ZswapFeatures::MAINLINE_6_12, 100, &mut protected), 0);
        assert_eq!(unprotected(&ZswapFeatures::MAINLINE_6_12, 100, &mut protected), 80);
        assert_eq!(protected, 0);
        let mut protected = 20;
        assert_eq!(unprotected(&ZswapFeatures::MAINLINE_6_9, 100, &mut protected), 80);
        assert_eq!(protected, 20);
        assert_eq!((worth_writing(90, 10, 30), worth_writing(5, 10, 0)), (30, 0));
        // A quarter of the list at most.
        let after = |f, protected| protected_after_store(&f, protected, 40);
        assert_eq!([9, 10].map(|protected| after(ZswapFeatures::MAINLINE_6_9, protected)), [10, 5]);
        assert_eq!(after(ZswapFeatures::MAINLINE_6_12, 10), 10);
    }
}
