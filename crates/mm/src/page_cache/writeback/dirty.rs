//! The life of a dirty page, from dirtying to the end of writeback, and the limits on how many there may be
//! (`folio_account_dirtied`, `folio_end_writeback`, `domain_dirty_limits` in mm/page-writeback.c).

use super::policy;
use super::policy::{BANDWIDTH_INTERVAL, COMPLETIONS_PERIOD, DirtyThrottleControl};
use super::{Domain, Listed};
use crate::counters::Event;
use crate::jiffies::jiffies_at;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{Census, FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::page_cache::xarray::FileId;
use crate::sysctl::Settings;
use machine::Time;

impl Kernel<'_> {
    /// Marks a folio of a file dirty and adds the file to its flusher's list (`folio_mark_dirty`). Returns
    /// whether it was clean before.
    pub(crate) fn mark_dirty(&mut self, now: Time, id: FolioId) -> bool {
        let flags = &mut self.parts.lrus.folios.flags[id];
        if flags.has(FolioFlags::DIRTY) {
            return false;
        }
        flags.set(FolioFlags::DIRTY);
        let pages = flags.nr_pages();
        self.on.counters.add(Event::NrDirtied, pages);
        self.parts.for_domains_of(id, |domain| domain.nr_dirty += pages);
        let (file, index) = self.parts.page_of_folio(id);
        let memcg = self.parts.lrus.memcg_of(id);
        let interval = self.writeback_interval();
        let now = jiffies_at(now);
        let page_size = self.parts.allocator.page_size();
        let owner = self.parts.page_cache.writeback.attach(file, memcg, page_size);
        let dirty = self.parts.page_cache.writeback.file(file);
        dirty.pages.insert(index);
        let was_clean = dirty.listed == Listed::None;
        if was_clean {
            (dirty.listed, dirty.dirtied_when) = (Listed::Dirty, now);
        }
        let wb = self.parts.page_cache.writeback.wb(owner);
        wb.nr_dirty += pages;
        wb.nr_dirtied += pages;
        if was_clean {
            wb.b_dirty.push_back(file);
            if wb.wakes_at.is_none() && !wb.running {
                wb.wakes_at = interval.map(|interval| now + interval);
            }
        }
        true
    }

    /// Ends the writeback of a folio that a device has written (`folio_end_writeback`).
    pub(crate) fn end_writeback(&mut self, now: Time, id: FolioId) {
        let flags = &mut self.parts.lrus.folios.flags[id];
        flags.clear(FolioFlags::WRITEBACK);
        let pages = flags.nr_pages();
        let is_file = !flags.has(FolioFlags::SWAPBACKED);
        self.on.counters.add(Event::NrWritten, pages);
        self.parts.for_domains_of(id, |domain| domain.nr_writeback -= pages);
        if !is_file {
            return;
        }
        let now = jiffies_at(now);
        let (file, _) = self.parts.page_of_folio(id);
        let dirty = self.parts.page_cache.writeback.file(file);
        dirty.under_writeback -= 1;
        let last = dirty.under_writeback == 0;
        let owner = dirty.wb.expect("a file under writeback has a flusher");
        let own = (owner != Memcg::ROOT).then_some(owner);
        for of in [Memcg::ROOT].into_iter().chain(own) {
            let domain = self.parts.page_cache.writeback.domain(of);
            domain.age(now);
            domain.period_end.get_or_insert(now + COMPLETIONS_PERIOD);
            let mut all = domain.completions;
            self.parts.page_cache.writeback.wb(owner).completions(of).add(pages, &mut all);
            self.parts.page_cache.writeback.domain(of).completions = all;
        }
        let wb = self.parts.page_cache.writeback.wb(owner);
        wb.nr_writeback -= pages;
        wb.nr_written += pages;
        wb.under_writeback -= u32::from(last);
        if last {
            wb.update_at = Some(now + BANDWIDTH_INTERVAL);
        }
    }

    /// `vm.dirty_writeback_centisecs` in jiffies, or `None` if flushers do not run periodically.
    pub(super) fn writeback_interval(&self) -> Option<u64> {
        let centisecs = self.on.settings.dirty.dirty_writeback_centisecs;
        (centisecs > 0).then(|| crate::jiffies::jiffies(centisecs * 10))
    }
}

impl Parts {
    /// Starts the writeback of a dirty folio of a file (`folio_start_writeback`).
    pub(super) fn start_writeback(&mut self, id: FolioId) {
        let flags = &mut self.lrus.folios.flags[id];
        flags.clear(FolioFlags::DIRTY);
        let pages = flags.nr_pages();
        self.for_domains_of(id, |domain| domain.nr_dirty -= pages);
        self.note_writeback(id);
        let (file, index) = self.page_of_folio(id);
        let dirty = self.page_cache.writeback.file(file);
        dirty.pages.remove(&index);
        dirty.under_writeback += 1;
        let first = dirty.under_writeback == 1;
        let owner = dirty.wb.expect("a dirty file has a flusher");
        let wb = self.page_cache.writeback.wb(owner);
        wb.nr_dirty -= pages;
        wb.nr_writeback += pages;
        wb.under_writeback += u32::from(first);
        self.folio_mkclean(id);
    }

    /// Counts a folio of a file or of swap whose writeback starts, and submits it to the device.
    pub(crate) fn note_writeback(&mut self, id: FolioId) {
        self.lrus.folios.flags[id].set(FolioFlags::WRITEBACK);
        let pages = self.lrus.folios.flags[id].nr_pages();
        self.for_domains_of(id, |domain| domain.nr_writeback += pages);
        self.page_cache.submitted_writes.push(id);
    }

    /// The background limit, above which flushers write, and the dirty limit, in pages
    /// (`nr_dirty_background_threshold`, `nr_dirty_threshold`).
    pub fn dirty_thresholds(&self, settings: &Settings) -> (u64, u64) {
        let domain = self.machine_domain(settings);
        (domain.bg_thresh, domain.thresh)
    }

    /// The dirty limits of the machine (`domain_dirty_avail`, `domain_dirty_limits`).
    pub(super) fn machine_domain(&self, settings: &Settings) -> DirtyThrottleControl {
        let free = self.allocator.free_pages().saturating_sub(self.allocator.totalreserve_pages());
        self.limits_of(settings, Memcg::ROOT, free + self.lrus.nr_file_lru() + 1, None)
    }

    /// The dirty limits of a memory cgroup other than the root (`mdtc_calc_avail`, `domain_dirty_limits`).
    pub(super) fn cgroup_domain(
        &self,
        settings: &Settings,
        memcg: Memcg,
        machine: &DirtyThrottleControl,
    ) -> DirtyThrottleControl {
        let tree = self.lrus.memcgs.tree(memcg).into_iter();
        let file_pages =
            tree.flat_map(|memcg| self.lrus.lruvecs.of(memcg)).map(|lruvec| lruvec.stat.nr_file()).sum();
        let domain = self.page_cache.writeback.known_domain(memcg);
        let dirty = domain.nr_dirty + domain.nr_writeback;
        let avail = policy::cgroup_avail(file_pages, dirty, self.lrus.memcgs.margin(memcg), machine);
        self.limits_of(settings, memcg, avail, Some(machine.avail))
    }

    fn limits_of(
        &self,
        settings: &Settings,
        memcg: Memcg,
        avail: u64,
        machine_avail: Option<u64>,
    ) -> DirtyThrottleControl {
        let page_size = self.allocator.page_size();
        let (thresh, bg_thresh) = policy::dirty_limits(&settings.dirty, page_size, avail, machine_avail);
        let domain = self.page_cache.writeback.known_domain(memcg);
        DirtyThrottleControl {
            avail,
            dirty: domain.nr_dirty + domain.nr_writeback,
            thresh,
            bg_thresh,
            limit: thresh.max(domain.dirty_limit),
            ..DirtyThrottleControl::default()
        }
    }

    /// Calls `change` for the domains of a folio's memory cgroup and of all above it.
    fn for_domains_of(&mut self, id: FolioId, mut change: impl FnMut(&mut Domain)) {
        let memcg = self.lrus.memcg_of(id);
        let (memcgs, writeback) = (&self.lrus.memcgs, &mut self.page_cache.writeback);
        memcgs.and_above(memcg).for_each(|above| change(writeback.domain(above)));
    }

    /// Panics unless the lists and counters of dirty pages agree with the flags of folios.
    pub(crate) fn validate_dirty_pages(&self, census: &Census) {
        let mut known: Vec<(FileId, u32)> = Vec::new();
        for (number, file) in self.page_cache.writeback.files.iter().enumerate() {
            let id = FileId(number as u32);
            known.extend(file.pages.iter().map(|&index| (id, index)));
            assert!(
                file.pages.is_empty() || file.listed != Listed::None,
                "a dirty file waits for its flusher"
            );
        }
        known.sort();
        let files = |flag: FolioFlags| {
            let has = move |id: &FolioId| {
                let flags = self.lrus.folios.flags[*id];
                flags.has(flag) && !flags.has(FolioFlags::SWAPBACKED)
            };
            census.all(&self.lrus.folios).map(|(id, _)| id).filter(has)
        };
        let mut dirty: Vec<(FileId, u32)> =
            files(FolioFlags::DIRTY).map(|id| self.page_of_folio(id)).collect();
        dirty.sort();
        assert_eq!(known, dirty, "each dirty page is listed once with its file");
        let pages = |id: FolioId| self.lrus.folios.flags[id].nr_pages();
        let nr_dirty: u64 = files(FolioFlags::DIRTY).map(pages).sum();
        let nr_writeback: u64 = files(FolioFlags::WRITEBACK).map(pages).sum();
        let all = census.all(&self.lrus.folios).map(|(id, _)| id);
        let writing =
            all.filter(|&id| self.lrus.folios.flags[id].has(FolioFlags::WRITEBACK)).map(pages).sum::<u64>();
        assert_eq!(
            (self.page_cache.nr_dirty(), self.page_cache.nr_writeback()),
            (nr_dirty, writing),
            "nr_dirty, nr_writeback"
        );
        let wbs = || self.page_cache.writeback.wbs.iter().flatten();
        assert_eq!(wbs().map(|wb| wb.nr_dirty).sum::<u64>(), nr_dirty, "dirty pages of all flushers");
        assert_eq!(
            wbs().map(|wb| wb.nr_writeback).sum::<u64>(),
            nr_writeback,
            "pages under writeback of all flushers"
        );
    }
}
