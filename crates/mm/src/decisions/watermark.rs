//! What a tree may decide about watermarks, as a record of plain numbers.
//!
//! The kernel goes through all zones at once, as each one's share depends on the memory of all: `__setup_per_zone_wmarks` in
//! mm/page_alloc.c. What it takes from nodes afterwards (`calculate_totalreserve_pages`) is not part of it.

use super::rule::flat;

/// As many zones as a record has room for: four of each of 64 nodes.
pub const MOST_ZONES: usize = 256;

flat! {
    /// Zones and what their watermarks depend on; afterwards the watermarks.
    pub struct WatermarkState as "mmtwin_watermarks" {
        /// `vm.min_free_kbytes` in force.
        pub min_free_kbytes: i32,
        /// `vm.watermark_scale_factor`.
        pub watermark_scale_factor: i32,
        /// 2^12 for pages of 4 KiB.
        pub page_shift: i32,
        /// How many zones there are.
        pub nr_zones: i32,
        /// Of each, which one it is in its node: 0 DMA, 1 DMA32, 2 normal, 3 movable.
        pub kind: [i32; MOST_ZONES],
        /// Of each, its managed pages.
        pub managed: [u64; MOST_ZONES],
        /// Answered for each: `WMARK_MIN`.
        pub min: [u64; MOST_ZONES],
        /// Answered for each: `WMARK_LOW`.
        pub low: [u64; MOST_ZONES],
        /// Answered for each: `WMARK_HIGH`.
        pub high: [u64; MOST_ZONES],
        /// Answered for each: `WMARK_PROMO`.
        pub promo: [u64; MOST_ZONES],
    }
}
