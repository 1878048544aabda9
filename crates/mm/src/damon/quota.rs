//! How much DAMON_RECLAIM has done in this window of its quota, and where it goes on in the next one.
//!
//! ```text
//!   window   │ charged ................ full │ the regions behind the last that was charged come first │
//! ```
//!
//! In the first window there is no limit: none has been computed yet.
//!
//! In the kernel: `struct damos_quota`, `damos_adjust_quota`, `damos_skip_charged_region` in mm/damon/core.c.

use super::policy::{DamonReclaimSettings, effective_quota};
use super::regions::Region;
use crate::Pfn;
use machine::Time;

/// Eleven days: a kernel takes longer windows, and nothing is simulated for so long.
const LONGEST_WINDOW_MS: u64 = 1_000_000_000;

/// What is to be done with a region, as far as the quota is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// It was charged in the last window.
    Later,
    /// So many of its first pages were charged in the last window.
    LaterUpTo(u64),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quota {
    /// Bytes that may be tried in this window; 0 for no limit (`esz`).
    pub limit: u64,
    /// Bytes tried in this window.
    charged: u64,
    /// When this window began.
    since: Option<Time>,
    /// Bytes tried in all windows before, and how long all took.
    total: (u64, Time),
    /// Where the last window was full, unless this one has come past all that was charged in it.
    full_at: Option<Pfn>,
}

impl Quota {
    /// Begins the next window if it is time for it. Returns whether the last one was full.
    pub fn advance(&mut self, settings: &DamonReclaimSettings, now: Time, page_bytes: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        let window = settings.quota_reset_interval_ms.min(LONGEST_WINDOW_MS);
        if now < since + Time::from_nanoseconds(window * 1_000_000) {
            return false;
        }
        let was_full = self.is_full();
        self.total.0 += self.charged;
        (self.since, self.charged) = (Some(now), 0);
        let took = self.total.1.picoseconds() / 1000;
        self.limit = effective_quota(settings, (self.total.0, took), page_bytes);
        was_full
    }

    pub fn is_full(&self) -> bool {
        self.limit > 0 && self.charged >= self.limit
    }

    /// Whether it is a region's turn; `is_last` if there is none behind it.
    pub fn turn(&mut self, region: &Region, is_last: bool) -> Turn {
        let Some(full_at) = self.full_at else { return Turn::Now };
        if region.place.start < full_at && full_at < region.place.end {
            return Turn::LaterUpTo(u64::from(full_at - region.place.start));
        }
        if is_last {
            self.full_at = None;
        }
        if region.place.end <= full_at { Turn::Later } else { Turn::Now }
    }

    /// How many of so many pages may still be tried.
    pub fn room(&self, pages: u64, page_bytes: u64) -> u64 {
        match self.limit {
            0 => pages,
            limit => pages.min(limit.saturating_sub(self.charged) / page_bytes),
        }
    }

    /// Charges a region that was tried.
    pub fn charge(&mut self, region: &Region, bytes: u64, took: Time) {
        self.charged += bytes;
        self.total.1 += took;
        if self.is_full() {
            self.full_at = Some(region.place.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::regions::Regions;
    use super::*;

    /// Three regions of 10 pages.
    fn regions() -> Regions {
        let mut regions = Regions::new(0..30);
        regions.split_at(0, 10);
        regions.split_at(1, 10);
        regions
    }

    fn seconds(seconds: u64) -> Time {
        Time::from_nanoseconds(seconds * 1_000_000_000)
    }

    /// A quota of so many pages, in its second window; the first has no limit.
    fn of_pages(pages: u64) -> Quota {
        let settings = DamonReclaimSettings { quota_ms: 0, quota_sz: pages * 4096, ..Default::default() };
        let mut quota = Quota::default();
        assert!(!quota.advance(&settings, seconds(0), 4096));
        assert_eq!((quota.room(1000, 4096), quota.is_full()), (1000, false), "no limit yet");
        assert!(!quota.advance(&settings, seconds(1), 4096));
        quota
    }

    #[test]
    fn what_a_window_leaves_comes_first_in_the_next() {
        let (mut quota, mut regions) = (of_pages(15), regions());
        assert_eq!(quota.turn(&regions[0], false), Turn::Now);
        quota.charge(&regions[0], 10 * 4096, Time::ZERO);
        assert_eq!(quota.room(10, 4096), 5);
        regions.split_at(1, 5);
        quota.charge(&regions[1], 5 * 4096, Time::ZERO);
        assert!(quota.is_full());
        let settings = DamonReclaimSettings { quota_ms: 0, quota_sz: 15 * 4096, ..Default::default() };
        assert!(quota.advance(&settings, seconds(2), 4096), "the window was full");
        let turns: Vec<Turn> = (0..4).map(|at| quota.turn(&regions[at], at == 3)).collect();
        assert_eq!(turns, [Turn::Later, Turn::Later, Turn::Now, Turn::Now]);
        assert_eq!(quota.turn(&regions[0], false), Turn::Now, "after the last one all are tried again");
    }

    #[test]
    fn a_region_that_was_charged_in_part_is_divided() {
        let (mut quota, regions) = (of_pages(10), regions());
        quota.charge(&regions[0], 10 * 4096, Time::ZERO);
        let merged = Regions::new(0..30);
        assert_eq!(quota.turn(&merged[0], true), Turn::LaterUpTo(10));
    }

    #[test]
    fn a_window_has_room_for_what_was_measured() {
        let settings = DamonReclaimSettings { quota_sz: 0, ..Default::default() };
        let (mut quota, regions) = (Quota::default(), regions());
        quota.advance(&settings, seconds(0), 4096);
        // 10 pages in a millisecond are 100 in the ten of the quota.
        quota.charge(&regions[0], 10 * 4096, Time::from_nanoseconds(1_000_000));
        quota.advance(&settings, seconds(1), 4096);
        assert_eq!(quota.room(1000, 4096), 100);
    }
}
