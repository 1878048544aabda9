//! Decisions of khugepaged: whether to collapse a range into a huge page, or else into which smaller folios.
//!
//! ```text
//!   all PTEs      none or zeroes  <= max_ptes_none      swapped out  <= max_ptes_swap      shared  <= max_ptes_shared
//!                 and one was accessed lately ─► collapse
//!
//!   7.2           order 9? ─ no ─► 8 at 0? ─ no ─► 7 at 0? ─ yes ─► 7 at 128? ...      each order that is enabled
//! ```
//!
//! Pure functions. In the kernel: `hpage_collapse_scan_pmd`, and in 7.2 `collapse_max_ptes_none` and the walk
//! through orders, in mm/khugepaged.c.

use crate::address_space::huge_memory::features::FolioFeatures;
use crate::address_space::huge_memory::orders::Orders;
use crate::address_space::huge_memory::settings::{Khugepaged, ThpSettings};
use std::ops::Range;

/// The orders that khugepaged collapses to, of those allowed: before 7.2 only that of a huge page.
pub fn collapsible(f: &FolioFeatures, thp: &ThpSettings, allowed: Orders) -> Orders {
    if f.collapses_small { allowed } else { allowed.and(Orders::one(thp.pmd_order())) }
}

/// What scanning a PTE found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// An empty PTE, or a mapping of the zero page.
    None,
    /// A swap entry.
    Swapped,
    /// A mapped page.
    Page {
        /// It was accessed lately.
        young: bool,
        /// Other processes map its folio too.
        shared: bool,
        /// Why it prevents the collapse, if it does.
        unfit: Option<ScanResult>,
    },
    /// A page of a file.
    File,
}

/// What a mapped page is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPage {
    /// It is anonymous.
    pub anon: bool,
    /// It is on an LRU list.
    pub lru: bool,
    /// It is locked.
    pub locked: bool,
    /// Somebody besides those who map it has a reference.
    pub held: bool,
    /// Other processes map its folio too.
    pub shared: bool,
    /// It was accessed lately.
    pub young: bool,
}

/// What a scan makes of a mapped page, as it looks at one thing after the other since 6.10.
pub fn entry_of(page: &MappedPage) -> EntryState {
    let MappedPage { anon, lru, locked, held, shared, young } = *page;
    let reasons =
        [(!lru, ScanResult::PageLru), (locked, ScanResult::PageLock), (held, ScanResult::PageCount)];
    let unfit = reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason);
    if anon { EntryState::Page { young, shared, unfit } } else { EntryState::File }
}

/// The result of a scan or collapse (`enum scan_result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanResult {
    /// Collapsed.
    Succeed,
    /// There is no page table.
    PmdNull,
    /// A huge page is mapped already.
    PmdMapped,
    /// Too many empty PTEs (`max_ptes_none`).
    ExceedNonePte,
    /// Too many swap entries (`max_ptes_swap`).
    ExceedSwapPte,
    /// Too many shared pages (`max_ptes_shared`).
    ExceedSharedPte,
    /// No page was accessed lately.
    LackReferencedPage,
    /// A page belongs to a file.
    PageAnon,
    /// A page is locked for a read.
    PageLock,
    /// A page is on no LRU list.
    PageLru,
    /// A page has other references.
    PageCount,
    /// A folio of this order or larger is mapped there already.
    PteMappedHugepage,
    /// The allocation failed.
    AllocHugePageFail,
    /// The memory cgroup has no room.
    CgroupChargeFail,
}

/// Limits for the PTEs of a range that is to be collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Empty PTEs.
    pub none: u32,
    /// Swap entries.
    pub swap: u32,
    /// Shared pages.
    pub shared: u32,
}

/// The limits for an order. For orders below that of a huge page, `max_ptes_none` counts only as 0 or as its
/// maximum, and no shared or swapped page is accepted.
pub fn limits(thp: &ThpSettings, order: u8) -> Limits {
    let Khugepaged { max_ptes_none, max_ptes_swap, max_ptes_shared, .. } = thp.khugepaged;
    if order == thp.pmd_order() {
        return Limits { none: max_ptes_none, swap: max_ptes_swap, shared: max_ptes_shared };
    }
    let any = max_ptes_none == thp.hpage_pmd_nr() - 1;
    Limits { none: if any { (1 << order) - 1 } else { 0 }, swap: 0, shared: 0 }
}

/// What a scan found in a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Mapped pages, as bits.
    pub present: Vec<u64>,
    /// Number of empty PTEs.
    pub none: u32,
    /// Number of swap entries.
    pub swapped: u32,
    /// Number of shared pages.
    pub shared: u32,
    /// Number of pages accessed lately.
    pub referenced: u32,
}

impl Found {
    /// Number of mapped pages at `places`.
    pub fn pages(&self, places: Range<u32>) -> u32 {
        places.map(|place| (self.present[place as usize / 64] >> (place % 64) & 1) as u32).sum()
    }
}

/// Scans entries until one of the limits is exceeded or a page prevents the collapse.
pub fn scan(entries: impl IntoIterator<Item = EntryState>, limits: &Limits) -> Result<Found, ScanResult> {
    let mut found = Found::default();
    for (place, entry) in entries.into_iter().enumerate() {
        if place % 64 == 0 {
            found.present.push(0);
        }
        match entry {
            EntryState::None => found.none += 1,
            EntryState::Swapped => found.swapped += 1,
            EntryState::File => return Err(ScanResult::PageAnon),
            EntryState::Page { young, shared, unfit } => {
                found.present[place / 64] |= 1 << (place % 64);
                found.referenced += u32::from(young);
                found.shared += u32::from(shared);
                if let Some(reason) = unfit.filter(|_| found.shared <= limits.shared) {
                    return Err(reason);
                }
            }
        }
        if found.none > limits.none {
            return Err(ScanResult::ExceedNonePte);
        }
        if found.swapped > limits.swap {
            return Err(ScanResult::ExceedSwapPte);
        }
        if found.shared > limits.shared {
            return Err(ScanResult::ExceedSharedPte);
        }
    }
    Ok(found)
}

/// Whether enough pages are in use: if pages have to be swapped in, at least half of all must have been
/// accessed.
pub fn is_used(thp: &ThpSettings, found: &Found) -> bool {
    found.referenced > 0 && (found.swapped == 0 || found.referenced >= thp.hpage_pmd_nr() / 2)
}

/// Whether a smaller folio may succeed after this result for a larger one.
fn may_work_smaller(reason: ScanResult) -> bool {
    use ScanResult::*;
    matches!(
        reason,
        AllocHugePageFail
            | ExceedNonePte
            | ExceedSwapPte
            | ExceedSharedPte
            | LackReferencedPage
            | PageLock
            | PageLru
            | PageCount
    )
}

/// Collapses the windows of a page table for which it is worthwhile, the largest of `orders` first.
/// `collapse` is called with an order and the place of its first entry. Returns how many were collapsed, and
/// the result of the last attempt.
pub fn collapse_windows(
    thp: &ThpSettings,
    orders: Orders,
    found: &Found,
    mut collapse: impl FnMut(u8, u32) -> ScanResult,
) -> (u64, ScanResult) {
    let (huge, pages) = (thp.pmd_order(), thp.hpage_pmd_nr());
    let (mut at, mut order) = (0, huge);
    let (mut collapsed, mut last) = (0, ScanResult::ExceedNonePte);
    while at < pages {
        let size = 1 << order;
        let swapped = if order == huge { found.swapped } else { 0 };
        let enough = size - limits(thp, order).none;
        let mut goes_smaller = true;
        if orders.has(order) && found.pages(at..at + size) + swapped >= enough {
            last = collapse(order, at);
            collapsed += u64::from(last == ScanResult::Succeed);
            match last {
                ScanResult::Succeed | ScanResult::PteMappedHugepage => goes_smaller = false,
                reason if may_work_smaller(reason) => {}
                _ => break,
            }
        }
        if goes_smaller && order > 2 && !orders.below(order).is_empty() {
            order -= 1;
        } else {
            at += size;
            order = at.trailing_zeros().min(huge.into()) as u8;
        }
    }
    (collapsed, last)
}
