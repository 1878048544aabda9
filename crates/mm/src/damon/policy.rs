//! What DAMON takes two regions for one by, where it divides them, which it reclaims, and how much at a time, as pure functions.
//!
//! ```text
//!   region   pages that are taken to be accessed alike
//!              nr_accesses   in how many of the last samples (20 by default) the page that was looked at had been accessed
//!              age           for how many aggregations it has hardly changed
//!
//!   is_cold                nothing seen, for long enough      ──► may be reclaimed
//!   cold_score             the longer, the higher             ──► the coldest first
//!   effective_quota        time and bytes in a second         ──► how many of them
//!   Watermarks::activity   so much memory is free             ──► whether anything is done at all
//! ```
//!
//! In the kernel: mm/damon/core.c, mm/damon/ops-common.c, mm/damon/reclaim.c (read in 6.1.192 and 6.12.117).

use super::regions::Region;
use crate::features::by_name::features;
use crate::jiffies::{TICK_NS, timeout};
use machine::Time;

/// The highest score of a region (`DAMOS_MAX_SCORE`).
pub const MAX_SCORE: u64 = 99;

/// Scores before they are scaled to [`MAX_SCORE`] (`DAMON_MAX_SUBSCORE`).
const MAX_SUBSCORE: i64 = 100;

/// The highest logarithm of an age in seconds (`DAMON_MAX_AGE_IN_LOG`).
const MAX_AGE_IN_LOG: i64 = 32;

/// How fast reclaim is taken to be before it has been measured, in bytes a millisecond: 1024 pages.
const FIRST_PAGES_PER_MS: u64 = 1024;

features! {
    /// What one kernel does with cold regions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DamonFeatures {
        /// 6.10: each page of a cold region is looked at once more, left out if it has been accessed, and paged out otherwise; before, that is
        /// up to reclaim (`folio_check_references`).
        pub pageout_checks_pages: bool,
        /// 6.11 to 6.16, by mistake: what DAMON_RECLAIM is to page out is forgotten as it is switched on. It watches memory as DAMON does
        /// by default, and pages nothing out (`damon_reclaim_apply_parameters` sets parameters of one context and commits another).
        pub loses_scheme: bool,
        /// 6.4: intervals of sampling that are longer than those of aggregation are refused.
        pub refuses_long_samples: bool,
    }
}

impl DamonFeatures {
    pub(crate) const MAINLINE_6_1: DamonFeatures =
        DamonFeatures { pageout_checks_pages: false, loses_scheme: false, refuses_long_samples: false };
    pub(crate) const MAINLINE_6_4: DamonFeatures =
        DamonFeatures { refuses_long_samples: true, ..DamonFeatures::MAINLINE_6_1 };
    pub(crate) const MAINLINE_6_10: DamonFeatures =
        DamonFeatures { pageout_checks_pages: true, ..DamonFeatures::MAINLINE_6_4 };
    pub(crate) const MAINLINE_6_11: DamonFeatures =
        DamonFeatures { loses_scheme: true, ..DamonFeatures::MAINLINE_6_10 };
    pub(crate) const MAINLINE_6_17: DamonFeatures = DamonFeatures::MAINLINE_6_10;
}

/// The parameters of DAMON_RECLAIM (`/sys/module/damon_reclaim/parameters`), with the kernel's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamonReclaimSettings {
    /// `damon_reclaim.enabled`
    pub enabled: bool,
    /// `damon_reclaim.min_age`: for how long nothing must have been seen of a region, microseconds.
    pub min_age: u64,
    /// `damon_reclaim.quota_ms`: the longest that reclaim may take in a window, milliseconds; 0 for no limit.
    pub quota_ms: u64,
    /// `damon_reclaim.quota_sz`: the most that it may try in a window, bytes; 0 for no limit.
    pub quota_sz: u64,
    /// `damon_reclaim.quota_reset_interval_ms`: how long a window is, milliseconds.
    pub quota_reset_interval_ms: u64,
    /// `damon_reclaim.wmarks_*`: between which shares of free memory it works.
    pub wmarks: Watermarks,
    /// `damon_reclaim.sample_interval`: between looking at a page of each region and looking again, microseconds.
    pub sample_interval: u64,
    /// `damon_reclaim.aggr_interval`: how long accesses are counted, microseconds.
    pub aggr_interval: u64,
    /// `damon_reclaim.min_nr_regions`
    pub min_nr_regions: u64,
    /// `damon_reclaim.max_nr_regions`
    pub max_nr_regions: u64,
}

impl Default for DamonReclaimSettings {
    fn default() -> DamonReclaimSettings {
        DamonReclaimSettings {
            enabled: false,
            min_age: 120_000_000,
            quota_ms: 10,
            quota_sz: 128 << 20,
            quota_reset_interval_ms: 1000,
            wmarks: Watermarks { interval: 5_000_000, high: 500, mid: 400, low: 200 },
            sample_interval: 5000,
            aggr_interval: 100_000,
            min_nr_regions: 10,
            max_nr_regions: 1000,
        }
    }
}

/// The longest sleep that is timed to the microsecond.
const LONGEST_EXACT_SLEEP: u64 = 20_000;

/// When a sleep of so many microseconds ends that begins at `now`: after one microsecond at least, by the tick if it is longer than 20 ms
/// (`kdamond_usleep`), and eleven days later at most: a kernel takes longer ones, and nothing is simulated for so long.
pub fn wakes_at(now: Time, microseconds: u64) -> Time {
    match microseconds.clamp(1, 1_000_000_000_000) {
        short if short <= LONGEST_EXACT_SLEEP => now + Time::from_nanoseconds(short * 1000),
        long => timeout(now, (long * 1000).div_ceil(TICK_NS)),
    }
}

impl DamonReclaimSettings {
    /// How many samples are counted together (`damon_max_nr_accesses`).
    pub fn samples(&self) -> u64 {
        (self.aggr_interval / self.sample_interval.max(1)).max(1)
    }

    /// Whether a kernel takes them as it is switched on (`damon_set_attrs`); otherwise it stays off (EINVAL).
    pub fn are_taken(&self, f: &DamonFeatures) -> bool {
        let are_long = f.refuses_long_samples && self.sample_interval > self.aggr_interval;
        self.min_nr_regions <= self.max_nr_regions && !are_long
    }

    /// How many aggregations a region's age has at least to be reclaimed.
    fn least_age(&self) -> u64 {
        self.min_age / self.aggr_interval
    }
}

/// Between which shares of free memory, in thousandths of all, DAMON_RECLAIM works (`struct damos_watermarks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// How often it looks while it does not work, microseconds.
    pub interval: u64,
    /// Above, so much is free that nothing has to be done.
    pub high: u64,
    /// It begins to work below.
    pub mid: u64,
    /// Below, it leaves memory to reclaim.
    pub low: u64,
}

impl Watermarks {
    /// Whether it works with so much free, of 1000; `is_active` if it does now (`damos_wmark_wait_us`).
    pub fn activity(&self, free: u64, is_active: bool) -> bool {
        match free {
            free if free > self.high || free < self.low => false,
            free if free >= self.mid => is_active,
            _ => true,
        }
    }
}

/// The parameters that count once it is switched on with `asked`: those, or where its scheme gets lost DAMON's own, whatever is free.
pub fn effective(f: &DamonFeatures, asked: DamonReclaimSettings) -> DamonReclaimSettings {
    let marks = Watermarks { high: u64::MAX, mid: u64::MAX, low: 0, ..asked.wmarks };
    if f.loses_scheme {
        DamonReclaimSettings { wmarks: marks, ..DamonReclaimSettings::default() }
    } else {
        asked
    }
}

/// Whether it has anything to do with cold regions.
pub fn has_scheme(f: &DamonFeatures) -> bool {
    !f.loses_scheme
}

/// Whether DAMON asks of each page of a cold region whether it has been accessed, so that reclaim need not.
pub fn judges_pages(f: &DamonFeatures) -> bool {
    f.pageout_checks_pages
}

/// Whether two regions that are next to each other become one of at most `limit` pages (`damon_merge_regions_of`).
pub fn are_alike(left: &Region, right: &Region, threshold: u64, limit: u64) -> bool {
    left.nr_accesses.abs_diff(right.nr_accesses) <= threshold && left.pages() + right.pages() <= limit
}

/// The threshold to try next where there are still too many regions, if there is one (`kdamond_merge_regions`).
pub fn next_threshold(threshold: u64, samples: u64) -> Option<u64> {
    match threshold {
        threshold if threshold >= samples => None,
        threshold if threshold < samples / 2 => Some((threshold * 2).max(1)),
        _ => Some(samples),
    }
}

/// Into how many parts each region is divided, for the next aggregation to show whether they differ; `before` is how many there were when
/// last asked (`kdamond_split_regions`).
pub fn parts_of_each(regions: u64, before: u64, most: u64) -> u64 {
    match regions {
        regions if regions > most / 2 => 1,
        regions if regions == before && regions < most / 3 => 3,
        _ => 2,
    }
}

/// How many of a region's pages become its first part: `tenths` of them, if there are more than two and both parts have one
/// (`damon_split_regions_of`).
pub fn first_part(pages: u64, tenths: u64) -> Option<u64> {
    Some(pages * tenths / 10).filter(|&first| pages > 2 && first > 0 && first < pages)
}

/// Whether a region is one that DAMON_RECLAIM reclaims: no access seen, for long enough (`__damos_valid_target`).
pub fn is_cold(settings: &DamonReclaimSettings, region: &Region) -> bool {
    region.nr_accesses == 0 && region.age >= settings.least_age()
}

/// How cold a region is in which no access was seen for so many aggregations, 0 to [`MAX_SCORE`] (`damon_cold_score`): half of it, and as much
/// again by the logarithm of the age in seconds.
pub fn cold_score(settings: &DamonReclaimSettings, age: u64) -> u64 {
    let seconds = age.saturating_mul(settings.aggr_interval) / 1_000_000;
    let log = i64::from(64 - seconds.leading_zeros()).min(MAX_AGE_IN_LOG);
    let hotness = (MAX_AGE_IN_LOG - log) * MAX_SUBSCORE / MAX_AGE_IN_LOG / 2;
    MAX_SCORE - hotness as u64 * MAX_SCORE / MAX_SUBSCORE as u64
}

/// The lowest score that is reclaimed, if all bytes with a higher one fill the quota before; `by_score` are the bytes of cold regions with each
/// score (`damos_adjust_quota`).
pub fn least_score(by_score: &[u64], quota: u64) -> u64 {
    let mut bytes = 0;
    let filled = by_score.iter().rposition(|&more| {
        bytes += more;
        more > 0 && bytes >= quota
    });
    filled.unwrap_or(0) as u64
}

/// How many bytes reclaim may try in a window, after so many that took so long, in nanoseconds; 0 for no limit
/// (`damos_set_effective_quota`).
pub fn effective_quota(
    settings: &DamonReclaimSettings,
    (bytes, nanoseconds): (u64, u64),
    page_bytes: u64,
) -> u64 {
    if settings.quota_ms == 0 {
        return settings.quota_sz;
    }
    let per_ms = match nanoseconds {
        0 => FIRST_PAGES_PER_MS * page_bytes,
        _ => (u128::from(bytes) * 1_000_000 / u128::from(nanoseconds)) as u64,
    };
    let by_time = per_ms.saturating_mul(settings.quota_ms).max(page_bytes);
    if settings.quota_sz == 0 { by_time } else { by_time.min(settings.quota_sz) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> DamonReclaimSettings {
        DamonReclaimSettings::default()
    }

    #[test]
    fn it_works_between_the_marks_and_begins_below_the_middle_one() {
        let marks = settings().wmarks;
        for (free, was, works) in [
            (501, true, false),
            (500, true, true),
            (500, false, false),
            (400, false, false),
            (399, false, true),
            (200, false, true),
            (199, true, false),
        ] {
            assert_eq!(marks.activity(free, was), works, "{free} of 1000 free, {was} before");
        }
    }

    #[test]
    fn the_longer_nothing_is_seen_the_colder() {
        let scores: Vec<u64> = [0, 9, 10, 20, 1200, 36_000].map(|age| cold_score(&settings(), age)).to_vec();
        assert_eq!(scores, [50, 50, 52, 54, 61, 69]);
    }

    #[test]
    fn the_coldest_that_fill_the_quota_are_reclaimed() {
        let mut by_score = [0; MAX_SCORE as usize + 1];
        (by_score[60], by_score[52], by_score[50]) = (100, 50, 1000);
        assert_eq!([50, 100, 101, 151, 5000].map(|quota| least_score(&by_score, quota)), [60, 60, 52, 50, 0]);
    }

    #[test]
    fn a_quota_of_time_is_one_of_bytes_by_what_was_measured() {
        let of = |measured| effective_quota(&settings(), measured, 4096);
        // Ten milliseconds at 1024 pages each.
        assert_eq!(of((0, 0)), 10 * 1024 * 4096);
        assert_eq!(of((1 << 20, 1_000_000)), 10 << 20);
        assert_eq!(of((1 << 30, 1_000_000)), 128 << 20, "and no more than the other quota");
        assert_eq!(of((1, 1_000_000_000)), 4096);
        let unlimited = DamonReclaimSettings { quota_ms: 0, quota_sz: 0, ..settings() };
        assert_eq!(effective_quota(&unlimited, (0, 0), 4096), 0);
    }

    #[test]
    fn regions_are_divided_while_there_are_few() {
        assert_eq!(
            [(10, 0), (10, 10), (400, 400), (500, 1), (501, 1)]
                .map(|(n, before)| parts_of_each(n, before, 1000)),
            [2, 3, 2, 2, 1]
        );
        assert_eq!(
            [(100, 9), (5, 1), (2, 5), (3, 5)].map(|(pages, tenths)| first_part(pages, tenths)),
            [Some(90), None, None, Some(1)]
        );
    }

    #[test]
    fn thresholds_double_up_to_the_samples() {
        let mut thresholds = vec![0];
        while let Some(next) = next_threshold(*thresholds.last().unwrap(), 20) {
            thresholds.push(next);
        }
        assert_eq!(thresholds, [0, 1, 2, 4, 8, 16, 20]);
    }
}
