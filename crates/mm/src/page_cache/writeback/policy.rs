//! How much may be dirty, how fast a task may dirty more, and how much a flusher writes of a file at a time.
//!
//! ```text
//!   position ratio
//!   2 ┤▄▄
//!     │  ▀▄▄                           dirty pages are to settle at the setpoint: below it tasks may go faster than
//!   1 ┤─────▀▀▀▀▀▄▄▄▄▄▄──              the rate that would balance, above it slower, at the limit not at all
//!     │                ▀▄
//!   0 ┼────┬───────────┬───┬──► dirty
//!       freerun    setpoint  limit
//! ```
//!
//! The rate that would balance is learned: every 200 ms what was dirtied at the rate in force is compared with what the device
//! wrote. Everything here is arithmetic on whole pages, jiffies and fixed-point numbers, in the kernel's order, since each
//! rounding decides. In the kernel: mm/page-writeback.c, fs/fs-writeback.c, lib/flex_proportions.c (Linux 6.18).

use crate::jiffies::HZ;
use crate::sysctl::DirtySettings;
use machine::PageSize;

/// Bits behind the point of a position ratio.
const RATELIMIT_CALC_SHIFT: u32 = 10;
/// Rates are learned, and limits follow, so often at most, jiffies.
pub const BANDWIDTH_INTERVAL: u64 = HZ / 5;
/// The longest that a task is made to wait at a time, jiffies.
pub const MAX_PAUSE: u64 = HZ / 5;
/// Completions count half after so many jiffies.
pub const COMPLETIONS_PERIOD: u64 = 3 * HZ;
/// What is smoothed of a device's bandwidth, jiffies.
const BANDWIDTH_PERIOD: u64 = (3 * HZ).next_power_of_two();

/// Pages of so many KiB.
const fn kib(page_size: PageSize, kib: u64) -> u64 {
    kib * 1024 / page_size.bytes()
}

/// What a task may dirty between two looks at it, unless that takes too long, and a new one before the first, pages
/// (`DIRTY_POLL_THRESH`).
pub const fn poll_thresh(page_size: PageSize) -> u64 {
    kib(page_size, 128)
}

/// After how much each task is looked at while too much is dirty, pages.
pub const fn exceeded_pause(page_size: PageSize) -> u64 {
    kib(page_size, 32)
}

/// How much a device is taken to write until it has been seen to, pages a second: 100 MiB.
pub const fn initial_bandwidth(page_size: PageSize) -> u64 {
    kib(page_size, 100 << 10)
}

/// What may be dirty, of one domain (the machine, or a memory cgroup) and one flusher in it, at one moment
/// (`struct dirty_throttle_control`); pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyThrottleControl {
    /// What could be dirty: free pages and pages of files.
    pub avail: u64,
    /// Dirty pages, and those under writeback.
    pub dirty: u64,
    /// No more than this may be dirty.
    pub thresh: u64,
    /// From here on flushers write.
    pub bg_thresh: u64,
    /// The limit in force, which follows `thresh` down slowly.
    pub limit: u64,
    /// Of `dirty`, what the flusher has.
    pub wb_dirty: u64,
    /// Of `thresh`, the flusher's share.
    pub wb_thresh: u64,
}

impl DirtyThrottleControl {
    /// Up to here nobody is held back (`dirty_freerun_ceiling`).
    pub fn freerun_ceiling(&self) -> u64 {
        (self.thresh + self.bg_thresh) / 2
    }

    /// Whether nobody is held back.
    pub fn is_freerun(&self) -> bool {
        self.dirty <= self.freerun_ceiling()
    }

    /// Where dirty pages are to settle.
    pub fn setpoint(&self) -> u64 {
        (self.freerun_ceiling() + self.limit) / 2
    }

    /// Whether tasks are to be looked at more often.
    pub fn is_exceeded(&self) -> bool {
        self.wb_dirty > self.wb_thresh && self.dirty > self.thresh
    }

    /// How much faster than at the balanced rate tasks may go, in 1/1024 (`wb_position_ratio`); `write_bandwidth` is the
    /// flusher's, pages a second.
    pub fn position_ratio(&self, write_bandwidth: u64) -> u64 {
        let (limit, setpoint) = (self.limit, self.setpoint());
        if self.dirty >= limit {
            return 0;
        }
        let ratio = polynomial(setpoint, self.dirty, limit);
        let wb_thresh = self.wb_thresh.min(self.thresh).max((limit - self.dirty) / 8);
        // The flusher's share, 16 bits behind the point, and the setpoint of it.
        let share = (wb_thresh << 16) / (self.thresh | 1);
        let wb_setpoint = (setpoint * share) >> 16;
        let span = ((self.thresh.saturating_sub(wb_thresh) + 8 * write_bandwidth) * share) >> 16;
        let intercept = wb_setpoint + span;
        let ratio = if self.wb_dirty < intercept - span / 4 {
            ratio * (intercept - self.wb_dirty) / (span | 1)
        } else {
            ratio / 4
        };
        // So that the device does not run dry.
        let reserve = wb_thresh / 2;
        match self.wb_dirty {
            dirty if dirty >= reserve => ratio,
            dirty if dirty > reserve / 8 => ratio * reserve / dirty,
            _ => ratio * 8,
        }
    }
}

/// 1 + ((setpoint - dirty) / (limit - setpoint))^3, from 0 to 2, in 1/1024 (`pos_ratio_polynom`).
fn polynomial(setpoint: u64, dirty: u64, limit: u64) -> u64 {
    let x =
        ((setpoint as i64 - dirty as i64) << RATELIMIT_CALC_SHIFT) / ((limit as i64 - setpoint as i64) | 1);
    let square = (x * x) >> RATELIMIT_CALC_SHIFT;
    let cube = (square * x) >> RATELIMIT_CALC_SHIFT;
    (cube + (1 << RATELIMIT_CALC_SHIFT)).clamp(0, 2 << RATELIMIT_CALC_SHIFT) as u64
}

/// `thresh` and `bg_thresh` where `avail` pages could be dirty; `global_avail` is that of the machine for the domain of a memory
/// cgroup, to which limits in bytes apply as shares of the machine's (`domain_dirty_limits`).
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
        // Bytes over pages are parts of a page, as ratios are.
        (bytes, Some(global)) => bytes.div_ceil(global.max(1)).min(page) * avail / page,
    };
    let thresh = limit(settings.dirty_bytes, settings.dirty_ratio).min(u32::MAX.into());
    let background = limit(settings.dirty_background_bytes, settings.dirty_background_ratio);
    (thresh, if background >= thresh { thresh / 2 } else { background })
}

/// What could be dirty in a memory cgroup with so many `file_pages`, of which `dirty` are dirty, and `headroom` to its
/// limit: clean pages of others can become its own (`mdtc_calc_avail`).
pub fn cgroup_avail(file_pages: u64, dirty: u64, headroom: u64, global: &DirtyThrottleControl) -> u64 {
    let clean = file_pages.saturating_sub(dirty);
    let others = global.avail.saturating_sub(global.dirty).saturating_sub(clean);
    file_pages + headroom.min(others)
}

/// A flusher's share of `thresh` while `dirty` pages are (`__wb_calc_thresh`).
pub fn share_of_thresh(thresh: u64, dirty: u64, (numerator, denominator): (u64, u64)) -> u64 {
    let share = (thresh as u128 * numerator as u128 / denominator as u128) as u64;
    // One that has been idle gets enough to begin with.
    share.max(thresh.saturating_sub(dirty) / 8).min(thresh)
}

/// How many pages a task may dirty before it is looked at again where nobody is held back (`dirty_poll_interval`).
pub fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    thresh.checked_sub(dirty).and_then(u64::checked_ilog2).map_or(1, |log| 1 << (log / 2))
}

/// The limit in force after `thresh` or `dirty` changed: it follows up at once, down by a 32nd (`update_dirty_limit`).
pub fn follow(limit: u64, thresh: u64, dirty: u64) -> u64 {
    let target = thresh.max(dirty);
    if limit < thresh { thresh } else { limit - (limit.saturating_sub(target) >> 5) }
}

/// What is known of how fast a flusher's device writes, and tasks may dirty; pages a second (`struct bdi_writeback`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// What the device wrote in the last seconds.
    pub write_bandwidth: u64,
    /// The same, smoothed once more.
    pub avg_write_bandwidth: u64,
    /// What each task may dirty.
    pub dirty_ratelimit: u64,
    /// What each might have dirtied, by the last estimate, for the device to keep up.
    pub balanced_dirty_ratelimit: u64,
}

impl Rates {
    /// Before anything was written.
    pub const fn new(page_size: PageSize) -> Rates {
        let bandwidth = initial_bandwidth(page_size);
        Rates {
            write_bandwidth: bandwidth,
            avg_write_bandwidth: bandwidth,
            dirty_ratelimit: bandwidth,
            balanced_dirty_ratelimit: bandwidth,
        }
    }

    /// What a task may dirty where dirty pages are where this position ratio says, pages a second.
    pub fn task_ratelimit(&self, position_ratio: u64) -> u64 {
        (self.dirty_ratelimit * position_ratio) >> RATELIMIT_CALC_SHIFT
    }

    /// The device has `written` so many pages in `elapsed` jiffies (`wb_update_write_bandwidth`).
    pub fn note_written(&mut self, written: u64, elapsed: u64) {
        let (old, mut avg) = (self.write_bandwidth, self.avg_write_bandwidth);
        let bandwidth = if elapsed > BANDWIDTH_PERIOD {
            avg = written * HZ / elapsed;
            avg
        } else {
            let bandwidth = (written * HZ + old * (BANDWIDTH_PERIOD - elapsed)) >> BANDWIDTH_PERIOD.ilog2();
            // Only while it moves away from the average, which a peak does not.
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

    /// Tasks have dirtied `dirtied` pages in `elapsed` jiffies, at this rate times `position_ratio`
    /// (`wb_update_dirty_ratelimit`). What each was allowed is given back, pages a second.
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
        // Both estimates, and the rate in force, have to lie on one side of it, and dirty pages on the right side of the setpoint.
        let step = if domain.dirty < domain.setpoint() {
            self.balanced_dirty_ratelimit.min(balanced).min(task_ratelimit).saturating_sub(now)
        } else {
            now.saturating_sub(self.balanced_dirty_ratelimit.max(balanced).max(task_ratelimit))
        };
        // The nearer, the slower.
        let shift = now / (2 * step + 1);
        let step = if shift < u64::BITS.into() { (step >> shift).div_ceil(8) } else { 0 };
        self.dirty_ratelimit = if now < balanced { now + step } else { now - step }.max(1);
        self.balanced_dirty_ratelimit = balanced;
        task_ratelimit
    }
}

/// Pauses of tasks, jiffies, and how many pages a task may dirty until the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The longest.
    pub max: u64,
    /// Shorter ones are put off.
    pub min: u64,
    /// Pages until the next one.
    pub nr_dirtied_pause: u64,
}

/// By how many pages what a flusher is known to have may be wrong, as CPUs keep some to themselves (`wb_stat_error`). A task whose
/// flusher has no more than that waits at the limit once and goes on: its pages are not the ones that are too many.
pub fn wb_stat_error(cpus: u64) -> u64 {
    cpus * 8 * (1 + u64::from(cpus.max(1).ilog2()))
}

/// The pauses at a rate, for a task that may dirty `task_ratelimit` pages a second where `wb_dirty` pages are dirty
/// (`wb_max_pause`, `wb_min_pause`).
pub fn pauses(rates: &Rates, task_ratelimit: u64, wb_dirty: u64, page_size: PageSize) -> Pauses {
    let ticks = HZ.next_power_of_two();
    let poll = poll_thresh(page_size);
    let (bandwidth, rate) = (rates.avg_write_bandwidth, rates.dirty_ratelimit);
    let max = (wb_dirty / (1 + bandwidth / (1 + HZ / 8).next_power_of_two()) + 1).min(MAX_PAUSE);
    // 10 ms, and 10 more each time that twice as many tasks share the bandwidth.
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

/// How many pages a flusher writes of a file before it is another's turn (`writeback_chunk_size`).
pub fn chunk(avg_write_bandwidth: u64, dirty_limit: u64, nr_pages: u64, page_size: PageSize) -> u64 {
    let least = kib(page_size, 4096);
    let pages = (avg_write_bandwidth / 2).min(dirty_limit / 8).min(nr_pages);
    (pages + least) / least * least
}

/// Events of one of many, and of all, of which old ones count less (`struct fprop_local_percpu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proportion {
    events: u64,
    period: u64,
}

impl Proportion {
    /// Of all: never none.
    pub const fn of_all() -> Proportion {
        Proportion { events: 1, period: 0 }
    }

    /// So many periods have passed; whether any events are left that count (`fprop_new_period`).
    pub fn age(&mut self, periods: u64) -> bool {
        if self.events <= 1 {
            return false;
        }
        self.events = self.events.checked_shr(periods as u32).unwrap_or(0);
        self.period += periods;
        true
    }

    /// Notes events of one of `all`, which are not among all's own yet.
    pub fn add(&mut self, events: u64, all: &mut Proportion) {
        self.reflect(all);
        self.events += events;
        all.events += events;
    }

    /// The part of `all` events that are its own: numerator and denominator.
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
