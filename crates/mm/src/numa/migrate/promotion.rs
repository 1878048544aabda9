//! Memory tiers: which pages of slow memory move up (`kernel.numa_balancing` has bit 1).
//!
//! ```text
//!   scan    the time is stored in the page         fault    latency = now - stored
//!                                                           below the threshold: hot ─► promote, up to the rate limit
//!   threshold    too many candidates ─► lower, too few ─► higher, once a scan_period_max
//! ```
//!
//! A page has as many bits for the time as for who touched it last, so a latency wraps. In the kernel:
//! `should_numa_migrate_memory`, `numa_promotion_adjust_threshold`, `numa_promotion_rate_limit`, `pgdat_free_space_enough`
//! in kernel/sched/fair.c.

use super::super::cpupid::WIDTH;
use crate::sysctl::NumaSettings;

/// Steps between no threshold and twice the default (`NUMA_MIGRATION_ADJUST_STEPS`).
const ADJUST_STEPS: u32 = 16;
/// Bits of a time that are enough (`PAGE_ACCESS_TIME_MIN_BITS`).
const TIME_MIN_BITS: u32 = 12;
const RATE_WINDOW_MS: u32 = 1000;
const PAGES_OF_MB: u64 = 256;

/// What a node of slow memory knows of its promotions (`nbp_*` of `struct pglist_data`). Times are ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePromotion {
    rate_start: u32,
    rate_candidates: u64,
    threshold_start: u32,
    threshold_candidates: u64,
    threshold: u32,
    /// `pgpromote_candidate`: pages that were hot enough, let through or not.
    pub candidates: u64,
}

/// The bits of a time that a page keeps in `width` bits: the low ones, or, of too few, those that reach 4 s.
const fn kept_bits(width: u32) -> u32 {
    ((1 << width) - 1) << TIME_MIN_BITS.saturating_sub(width)
}

/// What a page keeps of a time.
pub fn stored_time(now_ms: u32) -> u32 {
    now_ms & kept_bits(WIDTH)
}

/// How long ago a stored time was.
pub fn latency(now_ms: u32, stored: u32) -> u32 {
    now_ms.wrapping_sub(stored) & kept_bits(WIDTH)
}

impl NodePromotion {
    /// Memory above has room to spare: whatever is touched moves up, and the threshold starts anew.
    pub fn unlimited(&mut self) {
        self.threshold = 0;
    }

    /// Whether `pages` that were touched `latency` ms after they were scanned move up.
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

    fn adjust_threshold(&mut self, settings: &NumaSettings, now_ms: u32, limit: u64) {
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
}
