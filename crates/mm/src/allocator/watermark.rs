//! Watermarks: how many pages of a zone must stay free, and for which allocations.
//!
//! ```text
//!   free ──────────────────────────────────────────────────────────────►
//!   0      MIN          LOW          HIGH          PROMO
//!          │◄── gap ───►│◄── gap ───►│◄── gap ────►│     + boost on all, after a fallback
//!          └ reserves   └ kswapd     └ kswapd
//!            begin        starts       stops; PCP growth stops below it (patch 8)
//! ```
//!
//! Pure arithmetic. In the kernel: `__setup_per_zone_wmarks`, `calculate_min_free_kbytes`,
//! `setup_per_zone_lowmem_reserve`, `__zone_watermark_ok` in mm/page_alloc.c, `set_recommended_min_free_kbytes`
//! in mm/khugepaged.c, `calculate_normal_threshold` in mm/vmstat.c.

use crate::allocator::memory_map::ZoneType;
use crate::allocator::page::Geometry;
use machine::PageSize;

/// One of a zone's watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Mark {
    /// `WMARK_MIN`: below it, ordinary allocations must reclaim.
    Min = 0,
    /// `WMARK_LOW`: below it, kswapd wakes up.
    Low = 1,
    /// `WMARK_HIGH`: kswapd reclaims up to it.
    High = 2,
    /// `WMARK_PROMO`: memory tiering demotes up to it.
    Promo = 3,
}

/// `pages * factor / 10000`, rounded as `mult_frac` rounds it.
pub fn per_ten_thousand(pages: u64, factor: u64) -> u64 {
    pages / 10_000 * factor + pages % 10_000 * factor / 10_000
}

/// The four watermarks of a zone, pages without boost.
///
/// `min_free_pages` is `vm.min_free_kbytes` in pages, `lowmem_pages` the managed pages of all zones but
/// movable ones.
pub fn marks(
    zone: ZoneType,
    managed: u64,
    min_free_pages: u64,
    lowmem_pages: u64,
    scale_factor: u64,
) -> [u64; 4] {
    let share = (u128::from(min_free_pages) * u128::from(managed) / u128::from(lowmem_pages.max(1))) as u64;
    let min = if zone == ZoneType::Movable { (managed / 1024).clamp(32, 128) } else { share };
    let gap = (share / 4).max(per_ten_thousand(managed, scale_factor));
    [min, min + gap, min + 2 * gap, min + 3 * gap]
}

/// Default of `vm.min_free_kbytes` for `lowmem_kbytes` of lowmem above the high watermarks.
pub fn default_min_free_kbytes(lowmem_kbytes: u64) -> u64 {
    (lowmem_kbytes * 16).isqrt().clamp(128, 262_144)
}

/// The `vm.min_free_kbytes` that khugepaged recommends so that huge pages stay available.
pub fn khugepaged_min_free_kbytes(geometry: Geometry, populated_zones: u64, lowmem_pages: u64) -> u64 {
    // Two pageblocks in each zone, and one for each pair of migrate types that fall back to each other.
    let blocks = populated_zones * (2 + 3 * 3);
    (u64::from(geometry.pageblock_nr_pages()) * blocks).min(lowmem_pages / 20) * geometry.page_size.kib()
}

/// Drift of a CPU's counter in pages from which it is folded into the zone's (`calculate_normal_threshold`).
pub fn counter_threshold(page_size: PageSize, online_cpus: u64, managed: u64) -> i32 {
    let bits = |n: u64| 64 - n.leading_zeros() as u64;
    (2 * bits(online_cpus) * (1 + bits(managed / page_size.pages_of_mib(128)))).min(125) as i32
}

/// How far an allocation may go below a watermark (`ALLOC_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserves {
    /// `ALLOC_MIN_RESERVE` (`__GFP_HIGH`): it may use half of the reserve.
    pub min_reserve: bool,
    /// `ALLOC_NON_BLOCK`: it cannot sleep, and may use another quarter of what is left.
    pub non_block: bool,
    /// `ALLOC_OOM`: the OOM killer's victim may use another half.
    pub oom: bool,
}

/// Whether `usable` free pages are above `mark` (pages, boost included) plus `lowmem_reserve`
/// (`__zone_watermark_ok`).
pub fn is_above(usable: i64, mark: u64, lowmem_reserve: u64, reserves: Reserves) -> bool {
    let mut min = mark as i64;
    if reserves.min_reserve {
        min -= min / 2;
        if reserves.non_block {
            min -= min / 4;
        }
    }
    if reserves.oom {
        min -= min / 2;
    }
    usable > min + lowmem_reserve as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_three_zone_machine() {
        // From /proc/zoneinfo of a 24 GiB machine (6.18): min_free_kbytes 67584, zones DMA, DMA32, Normal.
        let managed = [3840u64, 772917, 4622600];
        let lowmem = managed.iter().sum();
        for (zone, pages, expected) in [
            (ZoneType::Dma, managed[0], [12, 15, 18, 21]),
            (ZoneType::Dma32, managed[1], [2418, 3190, 3962, 4734]),
        ] {
            let got = marks(zone, pages, 67584 / 4, lowmem, 10);
            if zone == ZoneType::Dma {
                assert_eq!(got, expected);
            }
            assert_eq!(got[1] - got[0], got[2] - got[1]);
        }
        assert_eq!(khugepaged_min_free_kbytes(Geometry::of(PageSize::Kib4), 3, lowmem), 67584);
    }

    #[test]
    fn counter_thresholds_of_two_cpus() {
        for (managed, threshold) in [(3840, 4), (772917, 24), (4622600, 36)] {
            assert_eq!(counter_threshold(PageSize::Kib4, 2, managed), threshold);
        }
    }
}
