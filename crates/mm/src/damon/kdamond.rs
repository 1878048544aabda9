//! The thread that watches memory for DAMON_RECLAIM.
//!
//! ```text
//!   marks? ─ yes ─► forget accesses of a page of each region ─► sleep sample_interval ─► any since? ─► marks? ...
//!     │ no                                                                                │ after aggr_interval
//!     └─► sleep wmarks_interval                                                           merge, page out, split
//! ```
//!
//! In the kernel: `kdamond_fn`, `kdamond_apply_schemes` in mm/damon/core.c.

use super::context::{Context, Idle, Next, PagingOut};
use super::policy::{MAX_SCORE, cold_score, effective, has_scheme, is_cold, least_score, wakes_at};
use super::quota::{Quota, Turn};
use super::regions::{Region, Regions};
use crate::counters::Event;
use crate::kernel::{Kernel, MemoryManager};
use machine::Time;
use std::ops::Range;

/// Pages of a region that are paged out before the thread lets others run.
const PORTION: u32 = 1024;

impl MemoryManager {
    /// When kdamond is to run next: at once after it has been switched on.
    pub fn kdamond_due(&self) -> Time {
        let settings = &self.settings().damon_reclaim;
        match &self.parts.damon.context {
            _ if !settings.enabled => Time::NEVER,
            None if !settings.are_taken(&self.features().damon) => Time::NEVER,
            None => Time::ZERO,
            Some(context) => context.due,
        }
    }

    /// Why kdamond, which is switched on, could page nothing out so far; `None` if it could, or has not looked yet.
    pub fn why_kdamond_is_idle(&self) -> Option<Idle> {
        let settings = &self.settings().damon_reclaim;
        let Some(context) = &self.parts.damon.context else {
            return (settings.enabled && !settings.are_taken(&self.features().damon))
                .then_some(Idle::Refused);
        };
        match has_scheme(&self.features().damon) {
            false => Some(Idle::SchemeLost),
            true => (!context.was_active).then_some(Idle::OutsideMarks),
        }
    }
}

impl Kernel<'_> {
    /// Does the next step of kdamond. Returns whether there is more to do before it sleeps.
    pub fn kdamond(&mut self) -> bool {
        if !self.on.settings.damon_reclaim.enabled {
            // It has been switched off while it paged out.
            return false;
        }
        let mut context = self.parts.damon.context.take().unwrap_or_else(|| self.begin_damon());
        let goes_on = self.step_damon(&mut context);
        if !goes_on {
            let sleeps = self.begin_sample(&mut context);
            context.due = wakes_at(self.on.machine.now(self.on.cpu), sleeps);
        }
        self.parts.damon.context = Some(context);
        goes_on
    }

    /// Does what is to be done before the next sample. Returns whether there is more of it.
    fn step_damon(&mut self, context: &mut Context) -> bool {
        match context.next {
            Next::Look => false,
            Next::Check => {
                let ends = self.check_accesses(context);
                if ends {
                    self.begin_paging_out(context);
                }
                ends
            }
            Next::PageOut { .. } => {
                let goes_on = self.page_out(context);
                if !goes_on {
                    context.regions.reset();
                    context.regions.split(context.settings.max_nr_regions, &mut self.parts.damon.random);
                }
                goes_on
            }
        }
    }

    /// Chooses a page of each region and forgets its accesses, if the marks let it work. Returns for how many microseconds it sleeps.
    fn begin_sample(&mut self, context: &mut Context) -> u64 {
        context.is_active = context.settings.wmarks.activity(self.free_mem_rate(), context.is_active);
        context.was_active |= context.is_active;
        if !context.is_active {
            context.next = Next::Look;
            return context.settings.wmarks.interval;
        }
        context.regions.choose_samples(&mut self.parts.damon.random);
        context.regions.iter().for_each(|region| self.damon_mkold(region.sampled));
        context.next = Next::Check;
        context.settings.sample_interval
    }

    /// Takes all of the largest range of memory for one region (`damon_set_region_biggest_system_ram_default`).
    fn begin_damon(&self) -> Context {
        let settings = effective(&self.on.features.damon, self.on.settings.damon_reclaim);
        let regions = Regions::new(self.parts.allocator.largest_range());
        Context {
            settings,
            region_limit: (regions.pages() / settings.min_nr_regions).max(1),
            regions,
            is_active: false,
            was_active: false,
            next: Next::Look,
            due: Time::ZERO,
            samples: 0,
            quota: Quota::default(),
        }
    }

    /// Free pages, of 1000 (`DAMOS_WMARK_FREE_MEM_RATE`).
    fn free_mem_rate(&self) -> u64 {
        self.parts.allocator.free_pages() * 1000 / self.parts.allocator.totalram_pages().max(1)
    }

    /// Counts which of the chosen pages have been accessed. Returns whether that was the last sample of the aggregation, after which regions that
    /// are alike are one.
    fn check_accesses(&mut self, context: &mut Context) -> bool {
        for region in context.regions.iter_mut() {
            region.nr_accesses += u64::from(self.damon_young(region.sampled));
        }
        context.samples += 1;
        let samples = context.settings.samples();
        if context.samples < samples {
            return false;
        }
        context.samples = 0;
        context.regions.merge(samples, context.region_limit, context.settings.max_nr_regions);
        true
    }

    /// Decides how cold a region has to be, if the quota does not go far enough for all (`damos_adjust_quota`).
    fn begin_paging_out(&mut self, context: &mut Context) {
        let page_bytes = self.parts.allocator.page_size().bytes();
        let Context { settings, regions, quota, .. } = context;
        if quota.advance(settings, self.on.machine.now(self.on.cpu), page_bytes) {
            self.on.counters.add(Event::DamonReclaimQuotaExceeds, 1);
        }
        let mut by_score = [0; MAX_SCORE as usize + 1];
        for region in regions.iter().filter(|region| is_cold(settings, region)) {
            by_score[cold_score(settings, region.age) as usize] += region.pages() * page_bytes;
        }
        let least = if quota.limit > 0 { least_score(&by_score, quota.limit) } else { 0 };
        context.next = Next::PageOut { least, index: 0, under_way: None };
    }

    /// Pages out a portion of the next cold region. Returns whether there may be more, as far as the quota goes (`kdamond_apply_schemes`).
    fn page_out(&mut self, context: &mut Context) -> bool {
        if !has_scheme(&self.on.features.damon) {
            return false;
        }
        let Context { settings, regions, quota, next, .. } = context;
        let Next::PageOut { least, index, under_way } = next else { return false };
        if let Some(paging_out) = under_way {
            if self.page_out_portion(paging_out) {
                return true;
            }
            self.end_region(&mut regions[*index], quota, paging_out);
            (*index, *under_way) = (*index + 1, None);
        }
        while *index < regions.len() && !quota.is_full() {
            let is_last = *index + 1 == regions.len();
            let region = &regions[*index];
            let is_cold = is_cold(settings, region) && cold_score(settings, region.age) >= *least;
            match quota.turn(region, is_last) {
                Turn::LaterUpTo(pages) => regions.split_at(*index, pages),
                Turn::Now if is_cold => {
                    *under_way = self.begin_region(regions, *index, quota);
                    if under_way.is_some() {
                        return true;
                    }
                }
                Turn::Now | Turn::Later => {}
            }
            *index += 1;
        }
        false
    }

    /// Begins with as much of a region as there is room for in the quota, if there is any (`damos_apply_scheme`).
    fn begin_region(&mut self, regions: &mut Regions, index: usize, quota: &Quota) -> Option<PagingOut> {
        self.on.counters.add(Event::DamonReclaimTriedRegions, 1);
        let pages = regions[index].pages();
        let room = quota.room(pages, self.parts.allocator.page_size().bytes());
        if room == 0 {
            return None;
        }
        if room < pages {
            regions.split_at(index, room);
        }
        Some(PagingOut { left: regions[index].place.clone(), reclaimed: 0, took: Time::ZERO })
    }

    /// Pages out some pages of a region. Returns whether there are more.
    fn page_out_portion(&mut self, paging_out: &mut PagingOut) -> bool {
        let Range { start, end } = paging_out.left;
        let until = end.min(start + PORTION);
        let began = self.on.machine.now(self.on.cpu);
        paging_out.reclaimed += self.damon_pageout(start..until);
        paging_out.took += self.on.machine.now(self.on.cpu) - began;
        paging_out.left.start = until;
        until < end
    }

    /// Charges a region that has been tried.
    fn end_region(&mut self, region: &mut Region, quota: &mut Quota, paging_out: &PagingOut) {
        let page_bytes = self.parts.allocator.page_size().bytes();
        let tried = region.pages() * page_bytes;
        quota.charge(region, tried, paging_out.took);
        region.age = 0;
        let counters = &mut self.on.counters;
        counters.add(Event::DamonReclaimTriedBytes, tried);
        counters.add(Event::DamonReclaimReclaimedRegions, u64::from(paging_out.reclaimed > 0));
        counters.add(Event::DamonReclaimReclaimedBytes, paging_out.reclaimed * page_bytes);
    }
}
