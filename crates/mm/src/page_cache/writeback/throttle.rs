//! Throttling of tasks that dirty pages (`balance_dirty_pages`).
//!
//! A task is checked after it has dirtied as many pages as its last pause allows. It then pauses for as long
//! as those pages take at its rate, less the time that has passed since.

use super::policy::{self, BANDWIDTH_INTERVAL, DirtyThrottleControl, Pauses};
use crate::jiffies::{HZ, jiffies_at, time_of};
use crate::kernel::{Kernel, Parts};
use crate::lru::memcontrol::Memcg;
use crate::page_cache::PageCache;
use crate::page_cache::xarray::FileId;
use crate::sysctl::Settings;
use machine::{PageSize, Time};

/// The pages that a task has dirtied since it was last checked (`struct task_struct`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirtier {
    /// Pages dirtied since then.
    pub nr_dirtied: u64,
    /// Pages after which it is checked again.
    pub nr_dirtied_pause: u64,
    /// When its last pause ended, in jiffies; 0 before the first.
    pub dirty_paused_when: u64,
    /// Set while the task waits at the limit: the memcg of the flusher and the pages to check again after the
    /// pause.
    at_limit: Option<(Memcg, u64)>,
}

/// The result of a check, as in the kernel's tracepoint `balance_dirty_pages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How long the task's pages take at its rate, in jiffies.
    pub period: u64,
    /// How long the task pauses, in jiffies. If it is not above 0, the task does not pause, and is so far
    /// behind its rate.
    pub pause: i64,
}

impl Dirtier {
    pub const fn new(page_size: PageSize) -> Dirtier {
        let nr_dirtied_pause = policy::poll_thresh(page_size);
        Dirtier { nr_dirtied: 0, nr_dirtied_pause, dirty_paused_when: 0, at_limit: None }
    }

    /// Lets the task go on without a pause, as nobody is throttled; it is checked again after `pages`.
    pub fn go_free(&mut self, now: u64, pages: u64) {
        *self = Dirtier { nr_dirtied: 0, nr_dirtied_pause: pages, dirty_paused_when: now, at_limit: None };
    }

    /// Decides on the pause of a task that has dirtied `pages` pages and may dirty `task_ratelimit` a second;
    /// `now` is in jiffies.
    pub fn pause(&mut self, now: u64, pages: u64, task_ratelimit: u64, pauses: &Pauses) -> Verdict {
        let longest = pauses.max as i64;
        let Some(period) = (HZ * pages).checked_div(task_ratelimit) else {
            return self.wait(now, pauses.max, longest, pauses);
        };
        let since = if self.dirty_paused_when > 0 { now as i64 - self.dirty_paused_when as i64 } else { 0 };
        let pause = period as i64 - since;
        if pause >= pauses.min as i64 {
            let from = now + (pause - longest).clamp(0, longest) as u64;
            return self.wait(from, period, pause.min(longest), pauses);
        }
        if pause < -(HZ as i64) {
            // A task that writes little gets no credit for the time that it did not write.
            self.dirty_paused_when = now;
            self.nr_dirtied = 0;
        } else if period > 0 {
            self.dirty_paused_when += period;
            self.nr_dirtied = 0;
        } else if self.nr_dirtied_pause <= pages {
            self.nr_dirtied_pause += pages;
        }
        Verdict { period, pause: pause.min(0) }
    }

    fn wait(&mut self, from: u64, period: u64, pause: i64, pauses: &Pauses) -> Verdict {
        self.dirty_paused_when = from + pause as u64;
        self.nr_dirtied = 0;
        self.nr_dirtied_pause = pauses.nr_dirtied_pause;
        Verdict { period, pause }
    }
}

impl Kernel<'_> {
    /// Throttles a task that has written to `file` and dirtied `pages` more pages. Returns the end of its
    /// pause, if it has to pause (`balance_dirty_pages_ratelimited`).
    pub fn balance_dirty_pages_ratelimited(
        &mut self,
        task: &mut Dirtier,
        file: FileId,
        pages: u64,
        now: Time,
    ) -> Option<Time> {
        task.nr_dirtied += pages;
        let owner = self.parts.page_cache.writeback.file(file).wb?;
        let soon = policy::exceeded_pause(self.parts.allocator.page_size());
        let exceeded = self.parts.page_cache.writeback.wb(owner).dirty_exceeded;
        let ratelimit = if exceeded { task.nr_dirtied_pause.min(soon) } else { task.nr_dirtied_pause };
        if task.nr_dirtied < ratelimit {
            return None;
        }
        self.balance_dirty_pages(task, owner, task.nr_dirtied, jiffies_at(now))
    }

    /// Checks a task again whose pause at the limit is over. Returns the end of another pause if the limit is
    /// still reached.
    pub fn balance_dirty_pages_at_limit(&mut self, task: &mut Dirtier, now: Time) -> Option<Time> {
        let (owner, pages) = task.at_limit.take()?;
        self.balance_dirty_pages(task, owner, pages, jiffies_at(now))
    }

    fn balance_dirty_pages(
        &mut self,
        task: &mut Dirtier,
        owner: Memcg,
        pages: u64,
        now: u64,
    ) -> Option<Time> {
        self.parts.page_cache.writeback.wb(owner).catch_up(now);
        let mut machine = self.parts.machine_domain(self.on.settings);
        let mut cgroup =
            (owner != Memcg::ROOT).then(|| self.parts.cgroup_domain(self.on.settings, owner, &machine));
        let nr_dirty = self.parts.page_cache.nr_dirty();
        let page_size = self.parts.allocator.page_size();
        let poll = |domain: &DirtyThrottleControl| policy::poll_interval(domain.dirty, domain.thresh);
        let is_free = machine.is_freerun() && cgroup.as_ref().is_none_or(DirtyThrottleControl::is_freerun);
        let wb = self.parts.page_cache.writeback.wb(owner);
        if nr_dirty > machine.bg_thresh || !is_free {
            wb.start_background |= !wb.running;
        }
        if is_free {
            task.go_free(now, cgroup.iter().map(poll).fold(poll(&machine), u64::min));
            return None;
        }
        let machine_ratio = self.parts.page_cache.set_wb_limits(owner, Memcg::ROOT, &mut machine, now);
        let mut tightest = (machine_ratio, machine.wb_dirty);
        let mut cgroup_ratio = machine_ratio;
        if let Some(cgroup) = &mut cgroup {
            cgroup_ratio = self.parts.page_cache.set_wb_limits(owner, owner, cgroup, now);
            tightest = tightest.min((cgroup_ratio, cgroup.wb_dirty));
        }
        let (position_ratio, wb_dirty) = tightest;
        let wb = self.parts.page_cache.writeback.wb(owner);
        wb.dirty_exceeded =
            machine.is_exceeded() || cgroup.as_ref().is_some_and(DirtyThrottleControl::is_exceeded);
        if now > wb.updated + BANDWIDTH_INTERVAL {
            let dirtied = wb.nr_dirtied - wb.dirtied_stamp;
            self.parts.page_cache.learn(owner, Memcg::ROOT, machine, machine_ratio, dirtied, now);
            if let Some(cgroup) = cgroup {
                self.parts.page_cache.learn(owner, owner, cgroup, cgroup_ratio, dirtied, now);
            }
            self.parts.page_cache.writeback.wb(owner).update_bandwidth(now);
        }
        let rates = self.parts.page_cache.writeback.wb(owner).rates;
        let task_ratelimit = rates.task_ratelimit(position_ratio);
        let pauses = policy::pauses(&rates, task_ratelimit, wb_dirty, page_size);
        let verdict = task.pause(now, pages, task_ratelimit, &pauses);
        if task_ratelimit == 0 && wb_dirty > policy::wb_stat_error(self.parts.allocator.online_cpus()) {
            task.at_limit = Some((owner, pages));
        }
        if verdict.pause <= 0 {
            return None;
        }
        self.parts.page_cache.writeback.last_bdp_sleep = Some(now);
        // A timer never fires early, so the pause ends with the tick after.
        Some(time_of(now + verdict.pause as u64 + 1))
    }
}

impl Parts {
    /// Sets the limit in force to what settings ask for, at once (`writeback_set_ratelimit`).
    pub(crate) fn writeback_set_ratelimit(&mut self, settings: &Settings) {
        self.page_cache.writeback.domain(Memcg::ROOT).dirty_limit = self.dirty_thresholds(settings).1;
    }
}

impl PageCache {
    /// Whether a task has been paused within the last second, in which case block devices take more requests
    /// of flushers (block/blk-wbt.c: `wb_recent_wait`).
    pub fn has_recent_wait(&self, now: Time) -> bool {
        self.writeback.last_bdp_sleep.is_some_and(|slept| jiffies_at(now) < slept + HZ)
    }

    /// Adapts the limit of a domain and the rate of its tasks.
    fn learn(
        &mut self,
        owner: Memcg,
        of: Memcg,
        mut domain: DirtyThrottleControl,
        ratio: u64,
        dirtied: u64,
        now: u64,
    ) {
        let state = self.writeback.domain(of);
        state.follow(domain.thresh, domain.dirty, now);
        domain.limit = domain.thresh.max(state.dirty_limit);
        let wb = self.writeback.wb(owner);
        wb.rates.note_dirtied(&domain, ratio, dirtied, now - wb.updated);
    }

    /// Fills in the flusher's dirty pages and its share of the limit of a domain. Returns the position ratio
    /// (`wb_dirty_limits`, `wb_position_ratio`).
    fn set_wb_limits(&mut self, owner: Memcg, of: Memcg, domain: &mut DirtyThrottleControl, now: u64) -> u64 {
        let all = self.writeback.domain(of);
        all.age(now);
        let all = all.completions;
        let wb = self.writeback.wb(owner);
        domain.wb_dirty = wb.nr_dirty + wb.nr_writeback;
        let share = wb.completions(of).of(&all);
        domain.wb_thresh = policy::share_of_thresh(domain.thresh, domain.dirty, share);
        domain.position_ratio(wb.rates.avg_write_bandwidth)
    }
}
