//! khugepaged: a daemon that makes huge pages of small ones.
//!
//! ```text
//!   address spaces that have asked for it ─► areas ─► table after table: worth it? (policy.rs) ─► copied (collapse.rs)
//!        ▲      scans pages_to_scan entries, sleeps scan_sleep_millisecs, goes on where it was        │
//!        └──────────────────────────────────────────────────────────────────────── next one ◄─────────┘
//!
//!   no block to be had ─► sleeps alloc_sleep_millisecs, once a round
//! ```
//!
//! An address space enters the list when it maps an area that may have huge pages, when it asks for them, or when one of its
//! faults does, and stays until it ends. Left out: memory of files, `MADV_COLLAPSE`, userfaultfd, and that a read-only
//! range is passed over (before 6.18). In the kernel: mm/khugepaged.c.

mod collapse;
pub mod policy;

use super::features::FolioFeatures;
use super::orders::Orders;
use super::policy::{allowed_orders, runs_khugepaged};
use super::settings::ThpSettings;
use crate::address_space::{Backing, MmId, Vma, Vpn};
use crate::kernel::Kernel;
use crate::page_alloc::MemoryManager;
use machine::Time;
use policy::ScanResult;

/// What khugepaged knows (`khugepaged_scan`).
#[derive(Clone, Debug, Default)]
pub struct KhugepagedState {
    /// Address spaces, those that came first first.
    mms: Vec<MmId>,
    /// Where it goes on.
    cursor: Option<(MmId, Vpn)>,
    /// What this round has come to: entries looked at, how often it began at the first address space, whether it has slept
    /// because there was no block.
    progress: u32,
    heads: u32,
    slept: bool,
    /// When it goes on.
    next: Time,
    /// Huge pages that it made (`khugepaged/pages_collapsed`).
    pub pages_collapsed: u64,
    /// How often it went through all address spaces (`khugepaged/full_scans`).
    pub full_scans: u64,
}

impl KhugepagedState {
    /// The address space after the one that it is at.
    fn go_on(&mut self, mm: MmId) {
        let place = self.mms.iter().position(|&other| other == mm).expect("it is on the list");
        self.cursor = self.mms.get(place + 1).map(|&next| (next, 0));
    }
}

fn milliseconds(count: u32) -> Time {
    Time::from_nanoseconds(u64::from(count) * 1_000_000)
}

/// The orders that it makes, of those allowed.
fn collapsible(f: &FolioFeatures, thp: &ThpSettings, allowed: Orders) -> Orders {
    if f.collapses_small { allowed } else { allowed.and(Orders::one(thp.pmd_order())) }
}

impl Kernel<'_> {
    /// Lets khugepaged do a part of a round: until it has tried to make a huge page, is through an address space,
    /// or has looked at enough. [`MemoryManager::khugepaged_due`] says when it goes on.
    pub fn khugepaged(&mut self) {
        if self.mm.khugepaged.mms.is_empty() {
            return;
        }
        let settings = self.mm.settings.transparent_hugepage.khugepaged;
        if self.mm.khugepaged.progress == 0 {
            self.lru_add_drain_all();
        }
        self.mm.khugepaged.heads += u32::from(self.mm.khugepaged.cursor.is_none());
        let (mut ends, mut pause) = (self.mm.khugepaged.heads >= 2, Time::ZERO);
        if !ends {
            let left = settings.pages_to_scan.saturating_sub(self.mm.khugepaged.progress);
            let (progress, result) = self.khugepaged_scan_mm_slot(left);
            self.mm.khugepaged.progress += progress;
            ends = self.mm.khugepaged.progress >= settings.pages_to_scan;
            if !ends && result == ScanResult::AllocHugePageFail {
                ends = self.mm.khugepaged.slept;
                self.mm.khugepaged.slept = true;
                pause = milliseconds(settings.alloc_sleep_millisecs);
            }
        }
        let state = &mut self.mm.khugepaged;
        if ends {
            (state.progress, state.heads, state.slept) = (0, 0, false);
            pause = milliseconds(settings.scan_sleep_millisecs);
        }
        state.next = self.machine.now(self.cpu) + pause;
    }

    /// Goes on through an address space; how much that counts for, and what the last table came to.
    fn khugepaged_scan_mm_slot(&mut self, pages: u32) -> (u32, ScanResult) {
        let (mm, mut page) = self.mm.khugepaged.cursor.unwrap_or_else(|| (self.mm.khugepaged.mms[0], 0));
        let (mut progress, mut result) = (1, ScanResult::PmdNull);
        let pages_of_table = self.mm.geometry().hpage_pmd_nr();
        let span = Vpn::from(pages_of_table);
        let areas = self.mm.mms[mm].vmas.from(page);
        let areas: Vec<_> = areas.map(|vma| (vma.pages(), self.mm.collapsible_orders(mm, vma))).collect();
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
                    self.mm.khugepaged.cursor = Some((mm, page));
                    return (progress, result);
                }
            }
        }
        self.mm.khugepaged.go_on(mm);
        self.mm.khugepaged.full_scans += u64::from(self.mm.khugepaged.cursor.is_none());
        (progress, result)
    }
}

impl MemoryManager {
    /// What khugepaged has come to.
    pub fn khugepaged_state(&self) -> &KhugepagedState {
        &self.khugepaged
    }

    /// When khugepaged has something to do; never if it does not run or nobody wants it.
    pub fn khugepaged_due(&self) -> Time {
        let (f, thp) = (&self.features().folios, &self.settings.transparent_hugepage);
        match self.khugepaged.mms.is_empty() || !runs_khugepaged(f, thp) {
            true => Time::NEVER,
            false => self.khugepaged.next,
        }
    }

    fn collapsible_orders(&self, mm: MmId, vma: &Vma) -> Orders {
        let (f, thp) = (&self.features().folios, &self.settings.transparent_hugepage);
        match vma.backing {
            Backing::Anonymous => collapsible(f, thp, allowed_orders(f, thp, &self.vma_state(mm, vma))),
            Backing::File(..) => Orders::NONE,
        }
    }

    /// Puts an address space on the list if an area of it may have huge pages (`khugepaged_enter_vma`).
    pub(crate) fn khugepaged_enter_vma(&mut self, mm: MmId, page: Vpn) {
        let (f, thp) = (&self.features().folios, &self.settings.transparent_hugepage);
        if self.mms[mm].khugepaged || !runs_khugepaged(f, thp) {
            return;
        }
        let Some(vma) = self.mms[mm].vmas.find(page) else { return };
        if !self.collapsible_orders(mm, vma).is_empty() {
            self.khugepaged_enter(mm);
        }
    }

    /// Puts an address space on the list; it is not there yet.
    pub(crate) fn khugepaged_enter(&mut self, mm: MmId) {
        self.mms[mm].khugepaged = true;
        self.khugepaged.mms.push(mm);
    }

    /// An address space ends.
    pub(crate) fn khugepaged_exit(&mut self, mm: MmId) {
        if self.mms[mm].khugepaged {
            let state = &mut self.khugepaged;
            if state.cursor.is_some_and(|(at, _)| at == mm) {
                state.go_on(mm);
            }
            state.mms.retain(|&other| other != mm);
        }
    }
}
