//! Decisions of the page allocator about a zone: which watermarks an allocation tests, which pages are
//! reserved, and when kswapd wakes.
//!
//! ```text
//!   zone   above HIGH? ─ yes ─► take          since patch 8; below HIGH, pagesets stop growing
//!             │ no
//!          above the request's mark? ─ yes ─► take
//!             │ no
//!          the next zone
//! ```
//!
//! Pure functions of a zone's state and the kernel's features. Pagesets, the buddy lists and compaction each
//! have a `policy.rs` of their own. In the kernel: `get_page_from_freelist`, `rmqueue`,
//! `__zone_watermark_unusable_free` and `reserve_highatomic_pageblock` in mm/page_alloc.c.

use crate::allocator::pcp::policy::ZonePressure;
use crate::allocator::request::Effort;
use crate::allocator::watermark::Mark;
use crate::features::Features;

/// Whether an allocation tests the high watermark before its own, to set `ZONE_BELOW_HIGH` if the zone is
/// below it: from patch 8 on. As merged, the test is skipped while the flag is set.
#[inline]
pub fn tests_high_first(f: &Features, zone: ZonePressure) -> bool {
    f.below_high && !(f.below_high_tested_once && zone.below_high)
}

/// Whether a bulk free tests the high watermark again, to clear `ZONE_BELOW_HIGH`.
#[inline]
pub fn retests_high(f: &Features, zone: ZonePressure) -> bool {
    f.below_high && zone.below_high
}

/// Whether a pass over the zonelist down to `mark` skips zones that kswapd is reclaiming from. Since 6.18 the
/// first pass does, on machines of several nodes.
#[inline]
pub fn passes_over_reclaiming(f: &Features, mark: Mark, nodes: usize) -> bool {
    mark == Mark::Low && f.avoid_reclaiming_nodes && nodes > 1
}

/// Whether an allocation with this `effort` wakes kswapd for a zone whose watermarks were boosted. Since 6.5
/// only those with `__GFP_KSWAPD_RECLAIM` do; before, all do.
#[inline]
pub fn wakes_for_boost(f: &Features, effort: Effort) -> bool {
    effort.wakes || !f.boost_wakes_if_asked
}

/// Pages that watermark tests withhold for high-atomic allocations. Since 6.12 these are the free pages of
/// their pageblocks (`nr_free_highatomic`); before, all pages of those pageblocks (`reserved`,
/// `nr_reserved_highatomic`).
#[inline]
pub fn kept_for_atomic(f: &Features, reserved: u64, free: impl FnOnce() -> u64) -> u64 {
    if f.free_highatomic_counter { free() } else { reserved }
}

/// The order of the block that is reserved for high-atomic allocations when one of `order` was allocated.
/// Before free lists were strict (6.10), only the first pageblock of it was reserved.
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
