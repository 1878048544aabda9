//! What the page allocator decides about zones: which tests one has to pass, what of it is kept, and who is woken.
//!
//! ```text
//!   zone   above HIGH? ─ yes ─► take          from patch 8 on; below it, pagesets stop growing
//!             │ no
//!          above the request's mark? ─ yes ─► take
//!             │ no
//!          the next zone
//! ```
//!
//! Pure functions of a zone's state and the kernel's features. What a pageset, free lists and compaction decide is in the
//! `policy.rs` of each. In the kernel: `get_page_from_freelist`, `rmqueue`, `__zone_watermark_unusable_free` and
//! `reserve_highatomic_pageblock` in mm/page_alloc.c.

use crate::allocator::pcp::policy::ZonePressure;
use crate::allocator::request::Effort;
use crate::allocator::watermark::Mark;
use crate::features::Features;

/// Whether a request tests the high watermark before its own, and says so if the zone is below it: from patch 8 on; as merged,
/// not while that is known already.
#[inline]
pub fn tests_high_first(f: &Features, zone: ZonePressure) -> bool {
    f.below_high && !(f.below_high_tested_once && zone.below_high)
}

/// Whether a bulk free looks if the zone is above its high watermark again.
#[inline]
pub fn retests_high(f: &Features, zone: ZonePressure) -> bool {
    f.below_high && zone.below_high
}

/// Whether a look at zones down to `mark` passes over those that kswapd reclaims from: from 6.18 on the first one does, where
/// there are other nodes.
#[inline]
pub fn passes_over_reclaiming(f: &Features, mark: Mark, nodes: usize) -> bool {
    mark == Mark::Low && f.avoid_reclaiming_nodes && nodes > 1
}

/// Whether a request that goes so far wakes kswapd for a zone whose watermarks were boosted: from 6.5 on one that may wake it
/// at all, before, any.
#[inline]
pub fn wakes_for_boost(f: &Features, effort: Effort) -> bool {
    effort.wakes || !f.boost_wakes_if_asked
}

/// Pages that watermark tests leave to atomic requests: from 6.12 on those that are free, before, all pages of the blocks that
/// are set aside (`reserved`).
#[inline]
pub fn kept_for_atomic(f: &Features, reserved: u64, free: impl FnOnce() -> u64) -> u64 {
    if f.free_highatomic_counter { free() } else { reserved }
}

/// Of which order a block of `order` is set aside for atomic requests: before free lists were strict, only its first pageblock.
pub fn set_aside_order(f: &Features, order: u8) -> u8 {
    if f.strict_freelists { order } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_watermark_is_tested_until_the_zone_is_known_to_be_below() {
        let tests = |f: Features| {
            [false, true].map(|below_high| {
                let zone = ZonePressure { below_high, ..ZonePressure::default() };
                (tests_high_first(&f, zone), retests_high(&f, zone))
            })
        };
        assert_eq!(tests(Features::PATCH7), [(false, false), (false, false)]);
        assert_eq!(tests(Features::PATCH8), [(true, false), (true, true)]);
        assert_eq!(tests(Features::MAINLINE_6_7), [(true, false), (false, true)]);
    }

    #[test]
    fn only_the_first_look_passes_over_nodes_and_only_where_there_are_others() {
        let f = Features::MAINLINE_6_18;
        assert!(passes_over_reclaiming(&f, Mark::Low, 2));
        assert!(!passes_over_reclaiming(&f, Mark::Min, 2) && !passes_over_reclaiming(&f, Mark::Low, 1));
        assert!(!passes_over_reclaiming(&Features::MAINLINE_6_17, Mark::Low, 2));
    }

    #[test]
    fn light_requests_woke_kswapd_for_boosts_until_6_5() {
        let wakes = |f: Features| [Effort::ORDINARY, Effort::LIGHT].map(|effort| wakes_for_boost(&f, effort));
        assert_eq!(wakes(Features::MAINLINE_6_4), [true, true]);
        assert_eq!(wakes(Features::MAINLINE_6_5), [true, false]);
    }
}
