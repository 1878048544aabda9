//! Memory tiering: which pages of slow memory are promoted (`kernel.numa_balancing` with bit 1 set).
//!
//! ```text
//!   scan    the time is stored in the page         fault    latency = now - stored
//!                                                           below the threshold: hot ─► promote, up to the rate limit
//!   threshold    too many candidates ─► lower, too few ─► higher, every scan_period_max
//! ```
//!
//! The state of promotion is kept for each destination node, so several fast nodes have rate limits and
//! thresholds of their own. A page has only as many bits for the time as for a cpupid, so a latency wraps
//! around. In the kernel: `should_numa_migrate_memory`, `numa_promotion_adjust_threshold`,
//! `numa_promotion_rate_limit`, `pgdat_free_space_enough` in kernel/sched/fair.c.

use crate::numa::cpupid::WIDTH;
use crate::sysctl::NumaSettings;

/// Number of threshold steps between 0 and twice the default (`NUMA_MIGRATION_ADJUST_STEPS`).
const ADJUST_STEPS: u32 = 16;
/// Bits that suffice for a time in ms (`PAGE_ACCESS_TIME_MIN_BITS`).
const TIME_MIN_BITS: u32 = 12;
const RATE_WINDOW_MS: u32 = 1000;
const PAGES_OF_MB: u64 = 256;

/// Pages that must stay free above the promo watermark in a zone for the node to have room to spare: 1 GiB,
/// or a 16th of the node's present pages if that is more (`pgdat_free_space_enough`).
pub fn spare_pages(node_present: u64) -> u64 {
    (node_present / 16).max(1024 * PAGES_OF_MB)
}

/// Promotion state of a node with fast memory (`nbp_*` in `struct pglist_data`); times are in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePromotion {
    /// When the present second of the rate limit began.
    pub rate_start: u32,
    /// [`NodePromotion::candidates`] at that time.
    pub rate_candidates: u64,
    /// When the threshold was adjusted.
    pub threshold_start: u32,
    /// [`NodePromotion::candidates`] at that time.
    pub threshold_candidates: u64,
    /// A page touched so soon after its scan is hot; 0 for the default.
    pub threshold: u32,
    /// Pages hot enough for promotion, promoted or not (`pgpromote_candidate`).
    pub candidates: u64,
}

/// The bits of a time in ms that a page stores in `width` bits: the low ones, or if those are too few the
/// ones that reach 4 s.
const fn kept_bits(width: u32) -> u32 {
    ((1 << width) - 1) << TIME_MIN_BITS.saturating_sub(width)
}

/// The part of a time that a page stores.
pub fn stored_time(now_ms: u32) -> u32 {
    now_ms & kept_bits(WIDTH)
}

/// Time since a stored time, ms, modulo what a page can store.
pub fn latency(now_ms: u32, stored: u32) -> u32 {
    now_ms.wrapping_sub(stored) & kept_bits(WIDTH)
}

impl NodePromotion {
    /// Promotes without a heat test because the node has room to spare; the threshold restarts at its
    /// default.
    pub fn unlimited(&mut self) {
        self.threshold = 0;
    }

    /// Whether `pages` pages that were touched `latency` ms after their scan are promoted.
    pub fn may_promote(&mut self, settings: &NumaSettings, now_ms: u32, latency: u32, pages: u64) -> bool {
        let limit = settings.promote_rate_limit_mbps * PAGES_OF_MB;
        self.adjust_threshold(settings, now_ms, limit);
        let threshold = if self.threshold == 0 { settings.hot_threshold_ms as u32 } else { self.threshold };
        latency < threshold && !self.is_rate_limited(now_ms, limit, pages)
    }

    fn is_rate_limited(&mut self, now_ms: u32, limit: u64, pages: u64) -> bool {
        self.candidates += pages;
        if now_ms.wrapping_sub(self.rate_start) > RATE_WINDOW_MS {
            self.rate_start = now_ms;
            self.rate_candidates = self.candidates;
        }
        self.candidates - self.rate_candidates >= limit
    }

    /// Raises or lowers the threshold once a period is over, so that there are about as many candidates as the rate `limit` lets through
    /// (`numa_promotion_adjust_threshold`).
    pub fn adjust_threshold(&mut self, settings: &NumaSettings, now_ms: u32, limit: u64) {
        let period = settings.scan_period_max_ms as u32;
        if now_ms.wrapping_sub(self.threshold_start) <= period {
            return;
        }
        self.threshold_start = now_ms;
        let reference = limit * u64::from(period) / 1000;
        let default = settings.hot_threshold_ms as u32;
        let unit = default * 2 / ADJUST_STEPS;
        let threshold = if self.threshold == 0 { default } else { self.threshold };
        let found = self.candidates - self.threshold_candidates;
        self.threshold = if found > reference * 11 / 10 {
            threshold.saturating_sub(unit).max(unit)
        } else if found < reference * 9 / 10 {
            (threshold + unit).min(default * 2)
        } else {
            threshold
        };
        self.threshold_candidates = self.candidates;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bits_keep_the_high_ones_of_a_time() {
        assert_eq!([21, 12, 9].map(kept_bits), [0x1F_FFFF, 0xFFF, 0xFF8]);
    }

    #[test]
    fn a_latency_is_what_has_passed_since_the_scan_and_wraps() {
        assert_eq!(latency(5000, stored_time(4400)), 600);
        assert_eq!(latency(100, stored_time(u32::MAX - 99)), 200, "the clock wraps");
        let bits = kept_bits(WIDTH) + 1;
        assert_eq!(latency(7 + bits, stored_time(7)), 0, "what a page cannot keep is not seen");
    }

    #[test]
    fn room_to_spare_is_a_gigabyte_or_a_sixteenth_of_the_node() {
        assert_eq!(
            [0, 1 << 22, (1 << 22) + 16, 1 << 24].map(spare_pages),
            [1 << 18, 1 << 18, (1 << 18) + 1, 1 << 20]
        );
    }

    /// 2 MB a second are 512 pages; a threshold of 800 ms has steps of 100 ms and is adjusted after more than
    /// 2 s.
    fn settings() -> NumaSettings {
        NumaSettings {
            promote_rate_limit_mbps: 2,
            hot_threshold_ms: 800,
            scan_period_max_ms: 2000,
            ..NumaSettings::default()
        }
    }

    #[test]
    fn what_is_as_old_as_the_threshold_stays() {
        let mut node = NodePromotion::default();
        for (latency, hot) in [(0, true), (799, true), (800, false)] {
            assert_eq!(node.may_promote(&settings(), 1, latency, 1), hot, "{latency}");
        }
        assert_eq!(node.candidates, 2, "what is not hot is no candidate");
    }

    #[test]
    fn a_second_lets_as_many_pages_through_as_the_limit_says() {
        let mut node = NodePromotion::default();
        let mut promoted =
            |now, pages: u64| (0..pages).filter(|_| node.may_promote(&settings(), now, 0, 1)).count();
        // The first candidate of a second is counted in the second before.
        assert_eq!(promoted(1001, 1000), 512);
        assert_eq!(promoted(2001, 10), 0, "the second is not over");
        assert_eq!(promoted(2002, 1000), 512);
        assert_eq!(node.candidates, 2010);
        assert!(!node.may_promote(&settings(), 2003, 0, 1), "those over the limit are candidates as well");
    }

    #[test]
    fn the_threshold_follows_the_number_of_candidates() {
        // In 2 s the limit is 1024 pages: between 921 and 1126 candidates the threshold stays.
        let threshold = |before: u32, candidates: u64| {
            let mut node = NodePromotion { threshold: before, candidates, ..NodePromotion::default() };
            node.may_promote(&settings(), 2000, u32::MAX, 1);
            assert_eq!(node.threshold, before, "the period is not over");
            node.may_promote(&settings(), 2001, u32::MAX, 1);
            assert_eq!((node.threshold_start, node.threshold_candidates), (2001, candidates));
            node.threshold
        };
        assert_eq!([920, 921, 1126, 1127].map(|candidates| threshold(0, candidates)), [900, 800, 800, 700]);
        assert_eq!(
            [700, 100, 150].map(|before| threshold(before, 5000)),
            [600, 100, 100],
            "not below a step"
        );
        assert_eq!(
            [1500, 1600].map(|before| threshold(before, 0)),
            [1600, 1600],
            "not above twice the default"
        );
        let mut node = NodePromotion { threshold: 100, ..NodePromotion::default() };
        node.unlimited();
        assert!(node.may_promote(&settings(), 1, 799, 1), "it begins anew where there was room");
    }
}
