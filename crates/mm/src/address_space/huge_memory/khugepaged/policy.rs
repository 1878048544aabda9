//! What khugepaged decides: is a huge page worth it here, and if not, what smaller folio is?
//!
//! ```text
//!   all entries   none or zeroes  <= max_ptes_none      swapped out  <= max_ptes_swap      shared  <= max_ptes_shared
//!                 and somebody uses one of them ─► collapse
//!
//!   7.2           order 9? ─ no ─► 8 at 0? ─ no ─► 7 at 0? ─ yes ─► 7 at 128? ...      each order that is enabled
//! ```
//!
//! Pure functions. In the kernel: `hpage_collapse_scan_pmd` in mm/khugepaged.c; `collapse_max_ptes_none` and the walk
//! through orders of 7.2 there.

use crate::address_space::huge_memory::features::FolioFeatures;
use crate::address_space::huge_memory::orders::Orders;
use crate::address_space::huge_memory::settings::{Khugepaged, ThpSettings};
use std::ops::Range;

/// The orders that khugepaged makes, of those allowed: before 7.2 only huge pages.
pub fn collapsible(f: &FolioFeatures, thp: &ThpSettings, allowed: Orders) -> Orders {
    if f.collapses_small { allowed } else { allowed.and(Orders::one(thp.pmd_order())) }
}

/// What a look at a page-table entry found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Nothing, or the page of zeroes.
    None,
    /// A page in swap.
    Swapped,
    /// A page.
    Page {
        /// Somebody used it lately.
        young: bool,
        /// Others map its folio too.
        shared: bool,
    },
    /// A page that cannot be moved.
    Unfit(ScanResult),
}

/// Why there is no collapse (`enum scan_result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanResult {
    /// There is one.
    Succeed,
    /// No page table.
    PmdNull,
    /// It is a huge page.
    PmdMapped,
    /// Too many entries have nothing.
    ExceedNonePte,
    /// Too many pages are in swap.
    ExceedSwapPte,
    /// Too many are shared.
    ExceedSharedPte,
    /// Nobody uses any of them.
    LackReferencedPage,
    /// One belongs to a file.
    PageAnon,
    /// One is being read.
    PageLock,
    /// One is on no list.
    PageLru,
    /// Somebody holds one.
    PageCount,
    /// A folio of the size, or a larger one, is there already.
    PteMappedHugepage,
    /// There is no block.
    AllocHugePageFail,
    /// The memory cgroup has no room.
    CgroupChargeFail,
}

/// How many of 2^order entries may be what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nothing.
    pub none: u32,
    /// In swap.
    pub swap: u32,
    /// Shared.
    pub shared: u32,
}

/// The limits for a folio of an order. Those smaller than a huge page take `max_ptes_none` of 0 and of all but one page
/// only, and no pages that are shared or in swap.
pub fn limits(thp: &ThpSettings, order: u8) -> Limits {
    let Khugepaged { max_ptes_none, max_ptes_swap, max_ptes_shared, .. } = thp.khugepaged;
    if order == thp.pmd_order() {
        return Limits { none: max_ptes_none, swap: max_ptes_swap, shared: max_ptes_shared };
    }
    let any = max_ptes_none == thp.hpage_pmd_nr() - 1;
    Limits { none: if any { (1 << order) - 1 } else { 0 }, swap: 0, shared: 0 }
}

/// What was found in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Pages, a bit each.
    pub present: Vec<u64>,
    /// How many entries have nothing.
    pub none: u32,
    /// How many pages are in swap.
    pub swapped: u32,
    /// How many are shared.
    pub shared: u32,
    /// How many somebody used lately.
    pub referenced: u32,
}

impl Found {
    /// Pages at some places.
    pub fn pages(&self, places: Range<u32>) -> u32 {
        places.map(|place| (self.present[place as usize / 64] >> (place % 64) & 1) as u32).sum()
    }
}

/// Looks at entries, one after the other, until there is a reason not to collapse them.
pub fn scan(entries: impl IntoIterator<Item = EntryState>, limits: &Limits) -> Result<Found, ScanResult> {
    let mut found = Found::default();
    for (place, entry) in entries.into_iter().enumerate() {
        if place % 64 == 0 {
            found.present.push(0);
        }
        match entry {
            EntryState::None => found.none += 1,
            EntryState::Swapped => found.swapped += 1,
            EntryState::Page { young, shared } => {
                found.present[place / 64] |= 1 << (place % 64);
                found.referenced += u32::from(young);
                found.shared += u32::from(shared);
            }
            EntryState::Unfit(reason) => return Err(reason),
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

/// Whether enough of the pages are in use: reading many from swap is worth it only if half of all are.
pub fn is_used(thp: &ThpSettings, found: &Found) -> bool {
    found.referenced > 0 && (found.swapped == 0 || found.referenced >= thp.hpage_pmd_nr() / 2)
}

/// Whether a smaller folio may work where this was the reason not to make a larger one.
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

/// Collapses what is worth it of a table, the largest of `orders` first: `collapse` is asked for a folio of an order from a
/// place on. How many there were, and what the last one that was asked for came to.
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
