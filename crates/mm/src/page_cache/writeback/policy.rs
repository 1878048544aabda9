//! How much may be dirty, how fast a task may dirty more, and how much a flusher writes of a file at a time.
//!
//! ```text
//!   position ratio
//!   2 ┤▄▄
//!     │  ▀▄▄                           dirty pages are to settle at the setpoint: below it tasks may go
//!   1 ┤─────▀▀▀▀▀▄▄▄▄▄▄──              faster than the balanced rate, above it slower, at the limit stop
//!     │                ▀▄
//!   0 ┼────┬───────────┬───┬──► dirty
//!       freerun    setpoint  limit
//! ```
//!
//! The balanced rate is estimated: every 200 ms, the pages dirtied at the rate in force are compared with
//! those that the device has written. All arithmetic is on whole pages, jiffies and fixed-point numbers, in
//! the kernel's order, as each rounding matters. In the kernel: mm/page-writeback.c, fs/fs-writeback.c,
//! lib/flex_proportions.c (Linux 6.18).

use crate::jiffies::HZ;
use crate::sysctl::DirtySettings;
use machine::PageSize;

/// Fraction bits of a position ratio (`RATELIMIT_CALC_SHIFT`).
const RATELIMIT_CALC_SHIFT: u32 = 10;
/// The shortest time between two estimates of rates, and between two adaptions of limits, in jiffies
/// (`BANDWIDTH_INTERVAL`).
pub const BANDWIDTH_INTERVAL: u64 = HZ / 5;
/// The longest pause of a task, in jiffies (`MAX_PAUSE`).
pub const MAX_PAUSE: u64 = HZ / 5;
/// The period after which completions count half, in jiffies (`VM_COMPLETIONS_PERIOD_LEN`).
pub const COMPLETIONS_PERIOD: u64 = 3 * HZ;
/// The period over which a device's bandwidth is smoothed, in jiffies.
const BANDWIDTH_PERIOD: u64 = (3 * HZ).next_power_of_two();

/// The number of pages in `kib` KiB.
const fn kib(page_size: PageSize, kib: u64) -> u64 {
    kib * 1024 / page_size.bytes()
}

/// Pages that a new task may dirty before its first check, and that any task may dirty between two checks if
/// that does not take too long (`DIRTY_POLL_THRESH`).
pub const fn poll_thresh(page_size: PageSize) -> u64 {
    kib(page_size, 128)
}

/// Pages that a task may dirty between two checks while the limit is exceeded.
pub const fn exceeded_pause(page_size: PageSize) -> u64 {
    kib(page_size, 32)
}

/// The assumed bandwidth of a device that has not written yet, in pages a second: 100 MiB (`INIT_BW`).
pub const fn initial_bandwidth(page_size: PageSize) -> u64 {
    kib(page_size, 100 << 10)
}

/// The dirty limits of one domain (the machine, or a memory cgroup) and of one flusher in it at one moment,
/// in pages (`struct dirty_throttle_control`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyThrottleControl {
    /// Pages that could be dirty: free pages and file pages.
    pub avail: u64,
    /// Dirty pages and those under writeback.
    pub dirty: u64,
    /// The dirty limit that settings ask for.
    pub thresh: u64,
    /// The background limit, above which flushers write.
    pub bg_thresh: u64,
    /// The limit in force, which follows `thresh` down slowly.
    pub limit: u64,
    /// The flusher's part of `dirty`.
    pub wb_dirty: u64,
    /// The flusher's part of `thresh`.
    pub wb_thresh: u64,
}

impl DirtyThrottleControl {
    /// The number of dirty pages up to which no task is throttled (`dirty_freerun_ceiling`).
    pub fn freerun_ceiling(&self) -> u64 {
        (self.thresh + self.bg_thresh) / 2
    }

    /// Whether no task is throttled.
    pub fn is_freerun(&self) -> bool {
        self.dirty <= self.freerun_ceiling()
    }

    /// The number of dirty pages that throttling aims at.
    pub fn setpoint(&self) -> u64 {
        (self.freerun_ceiling() + self.limit) / 2
    }

    /// Whether tasks are checked more often because too much is dirty (`dirty_exceeded`).
    pub fn is_exceeded(&self) -> bool {
        self.wb_dirty > self.wb_thresh && self.dirty > self.thresh
    }

    /// How fast tasks may go in relation to the balanced rate, in 1/1024 (`wb_position_ratio`).
    /// `write_bandwidth` is the flusher's, in pages a second.
    pub fn position_ratio(&self, write_bandwidth: u64) -> u64 {
        let (limit, setpoint) = (self.limit, self.setpoint());
        if self.dirty >= limit {
            return 0;
        }
        let ratio = polynomial(setpoint, self.dirty, limit);
        let wb_thresh = self.wb_thresh.min(self.thresh).max((limit - self.dirty) / 8);
        // The flusher's share with 16 fraction bits, and its setpoint.
        let share = (wb_thresh << 16) / (self.thresh | 1);
        let wb_setpoint = (setpoint * share) >> 16;
        let span = ((self.thresh.saturating_sub(wb_thresh) + 8 * write_bandwidth) * share) >> 16;
        let intercept = wb_setpoint + span;
        let ratio = if self.wb_dirty < intercept - span / 4 {
            ratio * (intercept - self.wb_dirty) / (span | 1)
        } else {
            ratio / 4
        };
        // A flusher with few dirty pages gets more, so that the device does not run idle.
        let reserve = wb_thresh / 2;
        match self.wb_dirty {
            dirty if dirty >= reserve => ratio,
            dirty if dirty > reserve / 8 => ratio * reserve / dirty,
            _ => ratio * 8,
        }
    }
}

/// 1 + ((setpoint - dirty) / (limit - setpoint))^3, from 0 to 2, in 1/1024 (`pos_ratio_polynom`).
pub fn polynomial(setpoint: u64, dirty: u64, limit: u64) -> u64 {
    let x =
        ((setpoint as i64 - dirty as i64) << RATELIMIT_CALC_SHIFT) / ((limit as i64 - setpoint as i64) | 1);
    let square = (x * x) >> RATELIMIT_CALC_SHIFT;
    let cube = (square * x) >> RATELIMIT_CALC_SHIFT;
    (cube + (1 << RATELIMIT_CALC_SHIFT)).clamp(0, 2 << RATELIMIT_CALC_SHIFT) as u64
}

/// `thresh` and `bg_thresh` if `avail` pages could be dirty (`domain_dirty_limits`). `global_avail` is the
/// machine's if this is the domain of a memory cgroup, for which limits in bytes are taken as shares of the
/// machine.
pub fn dirty_limits(
    settings: &DirtySettings,
    page_size: PageSize,
    avail: u64,
    global_avail: Option<u64>,
) -> (u64, u64) {
    let page = page_size.bytes();
    let limit = |bytes: u64, per_cent: u64| match (bytes, global_avail) {
        (0, _) => per_cent * page / 100 * avail / page,
        (bytes, None) => bytes.div_ceil(page),
        // Bytes over pages are fractions of a page, like the ratios.
        (bytes, Some(global)) => bytes.div_ceil(global.max(1)).min(page) * avail / page,
    };
    let thresh = limit(settings.dirty_bytes, settings.dirty_ratio).min(u32::MAX.into());
    let background = limit(settings.dirty_background_bytes, settings.dirty_background_ratio);
    (thresh, if background >= thresh { thresh / 2 } else { background })
}

/// Pages that could be dirty in a memory cgroup with `file_pages`, of which `dirty` are dirty, and with
/// `headroom` pages up to its limit: it can also take over clean pages of others (`mdtc_calc_avail`).
pub fn cgroup_avail(file_pages: u64, dirty: u64, headroom: u64, global: &DirtyThrottleControl) -> u64 {
    let clean = file_pages.saturating_sub(dirty);
    let others = global.avail.saturating_sub(global.dirty).saturating_sub(clean);
    file_pages + headroom.min(others)
}

/// A flusher's share of `thresh` while `dirty` pages are dirty (`__wb_calc_thresh`).
pub fn share_of_thresh(thresh: u64, dirty: u64, (numerator, denominator): (u64, u64)) -> u64 {
    let share = (thresh as u128 * numerator as u128 / denominator as u128) as u64;
    // A flusher that has been idle gets enough to begin with.
    share.max(thresh.saturating_sub(dirty) / 8).min(thresh)
}

/// Pages that a task may dirty before its next check if no task is throttled (`dirty_poll_interval`).
pub fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    thresh.checked_sub(dirty).and_then(u64::checked_ilog2).map_or(1, |log| 1 << (log / 2))
}

/// The limit in force after `thresh` or `dirty` has changed: it follows `thresh` up at once and down by a
/// 32nd of the difference (`update_dirty_limit`).
pub fn follow(limit: u64, thresh: u64, dirty: u64) -> u64 {
    let target = thresh.max(dirty);
    if limit < thresh { thresh } else { limit - (limit.saturating_sub(target) >> 5) }
}

/// Estimates of how fast a flusher's device writes and how fast tasks may dirty pages, in pages a second
/// (`struct bdi_writeback`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// How fast the device has written in the last seconds.
    pub write_bandwidth: u64,
    /// `write_bandwidth`, smoothed once more.
    pub avg_write_bandwidth: u64,
    /// How fast each task may dirty pages at the setpoint.
    pub dirty_ratelimit: u64,
    /// How fast each task could have dirtied pages with the device keeping up, by the last estimate.
    pub balanced_dirty_ratelimit: u64,
}

impl Rates {
    /// The estimates before anything has been written.
    pub const fn new(page_size: PageSize) -> Rates {
        let bandwidth = initial_bandwidth(page_size);
        Rates {
            write_bandwidth: bandwidth,
            avg_write_bandwidth: bandwidth,
            dirty_ratelimit: bandwidth,
            balanced_dirty_ratelimit: bandwidth,
        }
    }

    /// How fast a task may dirty pages at this position ratio, in pages a second.
    pub fn task_ratelimit(&self, position_ratio: u64) -> u64 {
        (self.dirty_ratelimit * position_ratio) >> RATELIMIT_CALC_SHIFT
    }

    /// Notes that the device has written `written` pages in `elapsed` jiffies (`wb_update_write_bandwidth`).
    pub fn note_written(&mut self, written: u64, elapsed: u64) {
        let (old, mut avg) = (self.write_bandwidth, self.avg_write_bandwidth);
        let bandwidth = if elapsed > BANDWIDTH_PERIOD {
            avg = written * HZ / elapsed;
            avg
        } else {
            let bandwidth = (written * HZ + old * (BANDWIDTH_PERIOD - elapsed)) >> BANDWIDTH_PERIOD.ilog2();
            // The average only follows a bandwidth that keeps moving away from it, which leaves out peaks.
            if avg > old && old >= bandwidth {
                avg -= (avg - old) >> 3;
            }
            if avg < old && old <= bandwidth {
                avg += (old - avg) >> 3;
            }
            bandwidth
        };
        self.write_bandwidth = bandwidth;
        self.avg_write_bandwidth = avg.max(1);
    }

    /// Notes that tasks have dirtied `dirtied` pages in `elapsed` jiffies, each at this rate times
    /// `position_ratio` (`wb_update_dirty_ratelimit`). Returns how fast each task was allowed to go, in pages
    /// a second.
    pub fn note_dirtied(
        &mut self,
        domain: &DirtyThrottleControl,
        position_ratio: u64,
        dirtied: u64,
        elapsed: u64,
    ) -> u64 {
        let dirty_rate = dirtied * HZ / elapsed;
        let task_ratelimit = self.task_ratelimit(position_ratio) + 1;
        let bandwidth = self.avg_write_bandwidth;
        let balanced = (task_ratelimit * bandwidth / (dirty_rate | 1)).min(bandwidth);
        let now = self.dirty_ratelimit;
        // The rate moves only if both estimates and the last task rate are on the same side of it, and dirty
        // pages on the matching side of the setpoint.
        let step = if domain.dirty < domain.setpoint() {
            self.balanced_dirty_ratelimit.min(balanced).min(task_ratelimit).saturating_sub(now)
        } else {
            now.saturating_sub(self.balanced_dirty_ratelimit.max(balanced).max(task_ratelimit))
        };
        // The closer the rate is to its target, the smaller the step.
        let shift = now / (2 * step + 1);
        let step = if shift < u64::BITS.into() { (step >> shift).div_ceil(8) } else { 0 };
        self.dirty_ratelimit = if now < balanced { now + step } else { now - step }.max(1);
        self.balanced_dirty_ratelimit = balanced;
        task_ratelimit
    }
}

/// The pauses of a task, in jiffies, and the pages that it may dirty until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The longest pause.
    pub max: u64,
    /// Shorter pauses are put off.
    pub min: u64,
    /// Pages until the next pause.
    pub nr_dirtied_pause: u64,
}

/// By how many pages the counters of a flusher may be wrong, as CPUs keep some changes to themselves
/// (`wb_stat_error`). At the limit, a task pauses once and goes on if its flusher has no more dirty pages
/// than this: it is not the cause of the excess.
pub fn wb_stat_error(cpus: u64) -> u64 {
    cpus * 8 * (1 + u64::from(cpus.max(1).ilog2()))
}

/// The pauses of a task that may dirty `task_ratelimit` pages a second, its flusher having `wb_dirty` dirty
/// pages (`wb_max_pause`, `wb_min_pause`).
pub fn pauses(rates: &Rates, task_ratelimit: u64, wb_dirty: u64, page_size: PageSize) -> Pauses {
    let ticks = HZ.next_power_of_two();
    let poll = poll_thresh(page_size);
    let (bandwidth, rate) = (rates.avg_write_bandwidth, rates.dirty_ratelimit);
    let max = (wb_dirty / (1 + bandwidth / (1 + HZ / 8).next_power_of_two()) + 1).min(MAX_PAUSE);
    // 10 ms, and 10 ms more each time that the number of tasks that share the bandwidth doubles.
    let tasks = u64::from(bandwidth.ilog2().saturating_sub(rate.ilog2()));
    let mut target = ((HZ / 100).max(1) + tasks * (10 * HZ) / 1024).min(1 + max / 2);
    let mut pages = rate * target / ticks;
    if pages < poll {
        target = max;
        pages = rate * target / ticks;
        if pages > poll {
            pages = poll;
            target = HZ * poll / rate;
        }
    }
    if HZ * pages / (task_ratelimit + 1) > max {
        target = max;
        pages = task_ratelimit * target / ticks;
    }
    Pauses { max, min: if pages >= poll { 1 + target / 2 } else { target }, nr_dirtied_pause: pages }
}

/// Pages of a slice: what a flusher writes of a file before it goes on to the next (`writeback_chunk_size`).
pub fn chunk(avg_write_bandwidth: u64, dirty_limit: u64, nr_pages: u64, page_size: PageSize) -> u64 {
    let least = kib(page_size, 4096);
    let pages = (avg_write_bandwidth / 2).min(dirty_limit / 8).min(nr_pages);
    (pages + least) / least * least
}

/// A count of events, of one flusher or of all, in which old events count less (`struct fprop_local_percpu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proportion {
    events: u64,
    period: u64,
}

impl Proportion {
    /// The count of all events, which begins with 1 so that it can be divided by.
    pub const fn of_all() -> Proportion {
        Proportion { events: 1, period: 0 }
    }

    /// Ages the count by `periods` periods. Returns whether there are events left that count
    /// (`fprop_new_period`).
    pub fn age(&mut self, periods: u64) -> bool {
        if self.events <= 1 {
            return false;
        }
        self.events = self.events.checked_shr(periods as u32).unwrap_or(0);
        self.period += periods;
        true
    }

    /// Adds events to this count and to that of all.
    pub fn add(&mut self, events: u64, all: &mut Proportion) {
        self.reflect(all);
        self.events += events;
        all.events += events;
    }

    /// This count's share of `all`: numerator and denominator (`fprop_fraction_percpu`).
    pub fn of(&mut self, all: &Proportion) -> (u64, u64) {
        self.reflect(all);
        (self.events, all.events.max(self.events).max(1))
    }

    fn reflect(&mut self, all: &Proportion) {
        let periods = all.period - self.period;
        self.events = self.events.checked_shr(periods as u32).unwrap_or(0);
        self.period = all.period;
    }
}
