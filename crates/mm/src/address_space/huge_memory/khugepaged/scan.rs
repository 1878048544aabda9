//! The scan loop of khugepaged: which address spaces it visits, and how far it gets in one
//! (`khugepaged_do_scan`, `khugepaged_scan_mm_slot` in mm/khugepaged.c).

use super::milliseconds;
use super::policy::ScanResult;
use super::policy::collapsible;
use crate::address_space::huge_memory::orders::Orders;
use crate::address_space::huge_memory::policy::{allowed_orders, runs_khugepaged};
use crate::address_space::{Backing, MmId, Vma, Vpn};
use crate::kernel::{Kernel, MemoryManager};
use machine::Time;

impl Kernel<'_> {
    /// Runs a part of khugepaged's round: until it has tried a collapse, has finished an address space, or
    /// has scanned enough. [`MemoryManager::khugepaged_due`] says when it continues.
    pub fn khugepaged(&mut self) {
        if self.parts.address_spaces.khugepaged.mms.is_empty() {
            return;
        }
        let settings = self.on.settings.transparent_hugepage.khugepaged;
        if self.parts.address_spaces.khugepaged.progress == 0 {
            self.lru_add_drain_all();
        }
        self.parts.address_spaces.khugepaged.heads +=
            u32::from(self.parts.address_spaces.khugepaged.cursor.is_none());
        let (mut ends, mut pause) = (self.parts.address_spaces.khugepaged.heads >= 2, Time::ZERO);
        if !ends {
            let left = settings.pages_to_scan.saturating_sub(self.parts.address_spaces.khugepaged.progress);
            self.swap_over_high_with_khugepaged();
            let (progress, result) = self.khugepaged_scan_mm_slot(left);
            self.swap_over_high_with_khugepaged();
            self.parts.address_spaces.khugepaged.progress += progress;
            ends = self.parts.address_spaces.khugepaged.progress >= settings.pages_to_scan;
            if !ends && result == ScanResult::AllocHugePageFail {
                ends = self.parts.address_spaces.khugepaged.slept;
                self.parts.address_spaces.khugepaged.slept = true;
                pause = milliseconds(settings.alloc_sleep_millisecs);
            }
        }
        let state = &mut self.parts.address_spaces.khugepaged;
        if ends {
            (state.progress, state.heads, state.slept) = (0, 0, false);
            pause = milliseconds(settings.scan_sleep_millisecs);
        }
        state.next = self.on.machine.now(self.on.cpu) + pause;
    }

    /// Exchanges what the task that runs here owes for memory.high with what khugepaged does.
    fn swap_over_high_with_khugepaged(&mut self) {
        let owed = &mut self.parts.address_spaces.khugepaged.over_high;
        self.parts.lrus.memcgs.swap_over_high(self.on.cpu, owed);
    }

    /// Continues the scan of an address space. Returns its progress in PTEs, and the result of the last
    /// table.
    fn khugepaged_scan_mm_slot(&mut self, pages: u32) -> (u32, ScanResult) {
        let (mm, mut page) = self
            .parts
            .address_spaces
            .khugepaged
            .cursor
            .unwrap_or_else(|| (self.parts.address_spaces.khugepaged.mms[0], 0));
        let (mut progress, mut result) = (1, ScanResult::PmdNull);
        let pages_of_table = self.parts.allocator.geometry().hpage_pmd_nr();
        let span = Vpn::from(pages_of_table);
        let areas = self.parts.address_spaces.mms[mm].vmas.from(page);
        let areas: Vec<_> = areas.map(|vma| (vma.pages(), self.collapsible_orders(mm, vma))).collect();
        for (area, orders) in areas {
            let (first, end) = (area.start.next_multiple_of(span), area.end / span * span);
            if orders.is_empty() || page > end {
                progress += 1;
                continue;
            }
            page = page.max(first);
            while page < end {
                let found;
                (found, result) = self.khugepaged_scan_pmd(mm, page, orders);
                page += span;
                progress += pages_of_table;
                if found || progress >= pages {
                    self.parts.address_spaces.khugepaged.cursor = Some((mm, page));
                    return (progress, result);
                }
            }
        }
        self.parts.address_spaces.khugepaged.go_on(mm);
        self.parts.address_spaces.khugepaged.full_scans +=
            u64::from(self.parts.address_spaces.khugepaged.cursor.is_none());
        (progress, result)
    }

    fn collapsible_orders(&self, mm: MmId, vma: &Vma) -> Orders {
        let (f, thp) = (&self.on.features.folios, &self.on.settings.transparent_hugepage);
        match vma.backing {
            Backing::Anonymous => {
                collapsible(f, thp, allowed_orders(f, thp, &self.parts.address_spaces.vma_state(mm, vma)))
            }
            Backing::File(..) => Orders::NONE,
        }
    }

    /// Registers an address space if its VMA at `page` may have huge pages (`khugepaged_enter_vma`).
    pub(crate) fn khugepaged_enter_vma(&mut self, mm: MmId, page: Vpn) {
        let (f, thp) = (&self.on.features.folios, &self.on.settings.transparent_hugepage);
        if self.parts.address_spaces.mms[mm].khugepaged || !runs_khugepaged(f, thp) {
            return;
        }
        let Some(vma) = self.parts.address_spaces.mms[mm].vmas.find(page) else { return };
        if !self.collapsible_orders(mm, vma).is_empty() {
            self.parts.address_spaces.khugepaged_enter(mm);
        }
    }
}

impl MemoryManager {
    /// When khugepaged runs next; [`Time::NEVER`] if it does not run or no address space is registered.
    pub fn khugepaged_due(&self) -> Time {
        let (f, thp) = (&self.features().folios, &self.settings().transparent_hugepage);
        match self.parts.address_spaces.khugepaged.mms.is_empty() || !runs_khugepaged(f, thp) {
            true => Time::NEVER,
            false => self.parts.address_spaces.khugepaged.next,
        }
    }
}
