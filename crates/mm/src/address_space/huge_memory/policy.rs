//! Decisions of page faults and reclaim about large anonymous folios: above all, how large a folio a first
//! touch allocates.
//!
//! ```text
//!   candidates   {4, 3, 2}      which orders this VMA may have: the series' own rule, settings, advice
//!   fit          {3, 2}         the aligned window of order 4 leaves the VMA, or has an entry already
//!   allocate      3 ─ none free ─► 2 ─ none free ─► 0
//!
//!                 page 12
//!   entries   │0│ │ │ │ │ │ │ │ │ │ │ │x│ │ │ │     page 0 is there: order 4 does not fit
//!              └──── order 3 ──┘└──── order 3 ──┘   its neighbours 8 to 15 are empty: order 3 does
//! ```
//!
//! A window is the range of pages, aligned to its size in addresses as in memory, that a folio of an order
//! would map. A smaller window lies inside a larger one, so what fits for an order fits for all below it:
//! best fit and walking down the orders differ only when no block is free. Pure functions of small states. In
//! the kernel: `alloc_anon_folio`, `wp_can_reuse_anon_folio` in mm/memory.c, `thp_vma_allowable_orders` and
//! `vma_thp_gfp_mask` in mm/huge_memory.c, `thp_vma_suitable_orders` in include/linux/huge_mm.h;
//! `calc_anon_folio_order_alloc` of v1 and v2, `anon_folio_order` of v3 to v5.

use super::features::{
    Allocation, Candidates, FolioFeatures, FolioGfp, FolioSize, LargeSwapIn, Search, ThpFiles, UserfaultRule,
};
use super::orders::Orders;
use super::settings::{Defrag, Enabled, Mode, ThpSettings};
use crate::allocator::page::NR_PAGE_ORDERS;
use crate::allocator::request::Effort;
use crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;
use crate::swapfile::policy::{ClusterSearch, swaps_large_folios};
use machine::PageSize;
use std::ops::Range;

/// `madvise` of a VMA with respect to large folios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// No advice.
    #[default]
    None,
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`.
    NoHuge,
}

/// `PR_SET_THP_DISABLE` of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disabled {
    /// Large folios are allowed.
    #[default]
    No,
    /// No large folios.
    Completely,
    /// No large folios except with `MADV_HUGEPAGE` (`PR_THP_DISABLE_EXCEPT_ADVISED`, 6.18).
    ExceptAdvised,
}

/// Whether userfaultfd handles faults of a VMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Userfault {
    /// Not registered.
    #[default]
    No,
    /// The VMA is registered with a userfaultfd.
    Armed,
    /// The VMA is registered, and the PTE has the write-protect marker.
    ProtectedEntry,
}

/// The properties of a VMA, besides its bounds, that policy reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmaState {
    pub advice: Advice,
    /// `PR_SET_THP_DISABLE` of its process.
    pub disabled: Disabled,
    pub userfault: Userfault,
    /// It is the stack of a program during exec, which will be moved.
    pub temporary_stack: bool,
}

impl VmaState {
    fn is_advised(&self) -> bool {
        self.advice == Advice::Huge
    }

    /// Whether process or VMA rule large folios out.
    fn refuses(&self) -> bool {
        let by_process = match self.disabled {
            Disabled::No => false,
            Disabled::Completely => true,
            Disabled::ExceptAdvised => !self.is_advised(),
        };
        by_process || self.advice == Advice::NoHuge || self.temporary_stack
    }
}

/// Whether `transparent_hugepage/enabled` covers this VMA.
fn is_enabled(thp: &ThpSettings, vma: &VmaState) -> bool {
    match thp.enabled {
        Enabled::Always => true,
        Enabled::Madvise => vma.is_advised(),
        Enabled::Never => false,
    }
}

/// The orders that settings and advice allow, including that of a huge page (`thp_vma_allowable_orders`).
/// Before v6 that is the only one.
pub fn allowed_orders(f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState) -> Orders {
    if vma.refuses() {
        return Orders::NONE;
    }
    if f.candidates != Candidates::Enabled {
        return if is_enabled(thp, vma) { Orders::one(thp.pmd_order()) } else { Orders::NONE };
    }
    let mut orders = thp.orders(Mode::Always);
    if vma.is_advised() {
        orders = orders.or(thp.orders(Mode::Madvise));
    }
    if is_enabled(thp, vma) { orders.or(thp.orders(Mode::Inherit)) } else { orders }
}

/// The orders that a fault on a PTE may use, in addition to order 0.
#[inline]
pub fn candidates(f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState) -> Orders {
    let single = match f.userfault {
        UserfaultRule::ProtectedEntry => vma.userfault == Userfault::ProtectedEntry,
        UserfaultRule::Armed => vma.userfault != Userfault::No,
    };
    if single || f.candidates == Candidates::Zero {
        return Orders::NONE;
    }
    let eligible = is_enabled(thp, vma) && !vma.refuses();
    let down_from = |top: FolioSize| {
        let orders = Orders::range(2, thp.pmd_order().min(top.order(thp.page_size)));
        match (f.search, orders.highest()) {
            (Search::TopOnly, Some(top)) => Orders::one(top),
            _ => orders,
        }
    };
    match f.candidates {
        Candidates::Zero => Orders::NONE,
        Candidates::BuildLimit { plain, eligible: limit } => down_from(if eligible { limit } else { plain }),
        Candidates::DownFrom(top) => down_from(top),
        Candidates::List(orders) => orders,
        Candidates::Preferred { never_is_zero, .. }
            if vma.refuses() || never_is_zero && thp.enabled == Enabled::Never =>
        {
            Orders::NONE
        }
        Candidates::Preferred { architecture, limit_at_boot, .. } => {
            let unhinted = FolioSize::UNHINTED.order(thp.page_size);
            let limit = if limit_at_boot { thp.flexthp_unhinted_max } else { unhinted };
            let wanted = architecture.map_or(PAGE_ALLOC_COSTLY_ORDER, |size| size.order(thp.page_size));
            let preferred = if eligible { wanted } else { wanted.min(limit) };
            let costly = Orders::one(PAGE_ALLOC_COSTLY_ORDER);
            Orders::one(preferred).or(costly).and(Orders::range(2, preferred))
        }
        Candidates::Enabled => allowed_orders(f, thp, vma).and(thp.pte_mapped()),
    }
}

/// Whether this kernel has per-size settings and all of them are off.
pub fn has_nothing_enabled(f: &FolioFeatures, thp: &ThpSettings) -> bool {
    let inherited = if thp.enabled == Enabled::Always { thp.orders(Mode::Inherit) } else { Orders::NONE };
    let enabled = thp.orders(Mode::Always).or(thp.orders(Mode::Madvise)).or(inherited);
    f.candidates == Candidates::Enabled && enabled == Orders::NONE
}

/// The pages of the aligned window of `order` that contains `page`.
pub fn window(page: u64, order: u8) -> Range<u64> {
    let start = page >> order << order;
    start..start + (1 << order)
}

fn is_inside(window: &Range<u64>, vma: &Range<u64>) -> bool {
    window.start >= vma.start && window.end <= vma.end
}

/// The orders whose window at `page` lies inside the VMA and is empty. `is_populated` says whether any page
/// of a window has a PTE. Lower orders are included, because their windows lie inside the largest one that
/// fits.
pub fn fitting(
    search: Search,
    orders: Orders,
    vma: &Range<u64>,
    page: u64,
    mut is_populated: impl FnMut(Range<u64>) -> bool,
) -> Orders {
    let mut fits = |order: u8| {
        let window = window(page, order);
        is_inside(&window, vma) && !is_populated(window)
    };
    let largest = match search {
        Search::TopOnly => orders.highest().filter(|&top| fits(top)),
        Search::PerCandidate => orders.descending().find(|&order| fits(order)),
    };
    largest.map_or(Orders::NONE, |largest| orders.below(largest + 1))
}

/// [`fitting`] with the search of this kernel: v2-simple checks only the largest order, all others each.
pub fn fitting_in_fault(
    f: &FolioFeatures,
    orders: Orders,
    vma: &Range<u64>,
    page: u64,
    is_populated: impl FnMut(Range<u64>) -> bool,
) -> Orders {
    fitting(f.search, orders, vma, page, is_populated)
}

/// The orders kept and declined by [`beside_full`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BesideFull {
    /// The orders that the fault may use.
    pub kept: Orders,
    /// The larger orders, which fit but were declined.
    pub declined: Orders,
}

/// Of orders that fit, keeps those from the largest on whose window has a full window of the same size before
/// or behind it, inside the VMA and the same page table: such memory is used densely already
/// (`anon_beside_full`). `is_full` says whether all pages of a window have a PTE, that of the zero page
/// included.
pub fn beside_full(
    thp: &ThpSettings,
    orders: Orders,
    vma: &Range<u64>,
    page: u64,
    mut is_full: impl FnMut(Range<u64>) -> bool,
) -> BesideFull {
    let table = window(page, thp.pmd_order());
    let near = vma.start.max(table.start)..vma.end.min(table.end);
    let mut has_full = |order: u8| {
        let Range { start, end } = window(page, order);
        let size = 1 << order;
        let before = start.checked_sub(size).map(|before| before..start);
        [before, Some(end..end + size)]
            .into_iter()
            .flatten()
            .any(|beside| is_inside(&beside, &near) && is_full(beside))
    };
    let kept = orders.descending().find(|&order| has_full(order));
    let kept = kept.map_or(Orders::NONE, |order| orders.below(order + 1));
    BesideFull { kept, declined: orders.without(kept) }
}

/// Whether smaps reports a VMA as `THPeligible`: one of the allowed orders must fit at its end.
pub fn is_thp_eligible(f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState, pages: &Range<u64>) -> bool {
    allowed_orders(f, thp, vma).descending().any(|order| {
        let last = pages.end.checked_sub(1 << order);
        last.is_some_and(|last| is_inside(&window(last, order), pages))
    })
}

/// The orders in which a page whose swap offset is `entry` may be swapped in: a folio is aligned in swap as
/// in memory (`thp_swap_suitable_orders`).
pub fn swap_orders(orders: Orders, page: u64, entry: u64) -> Orders {
    let aligned = (page ^ entry).trailing_zeros().min(NR_PAGE_ORDERS as u32 - 1) as u8;
    orders.below(aligned + 1)
}

/// How swap space is searched for a whole folio of this order; `None` if it must be split first.
pub fn swap_search(f: &FolioFeatures, page_size: PageSize, order: u8) -> Option<ClusterSearch> {
    (order == 0 || swaps_large_folios(page_size)).then_some(f.cluster_search)
}

/// Whether a large folio is split before swap space is searched for it (`shrink_folio_list`). `whole`: one
/// PMD entry maps all of it.
pub fn splits_before_swap(f: &FolioFeatures, partially_mapped: bool, whole: bool) -> bool {
    partially_mapped || f.cluster_search == ClusterSearch::WholeClusters && !whole
}

/// Whether reclaim checks a folio with this mapcount for pages of zeroes: since 6.12 (`swap_zeromap`). The
/// twin knows the contents of a page only where it is mapped.
pub fn looks_for_zeroes(f: &FolioFeatures, mapcount: u16) -> bool {
    f.zeromap && mapcount > 0
}

/// How a swap entry is swapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapInPath {
    /// Single pages through the swap cache, with readahead.
    Readahead,
    /// A single page that bypasses the swap cache and frees its swap entry at once, unless others need it.
    SinglePastCache,
    /// Bypassing the swap cache, as a large folio if one fits.
    PastCache,
    /// The largest folio that fits, through the swap cache.
    ThroughCache,
}

impl SwapInPath {
    /// Whether the page stays in the swap cache, with its swap entry.
    pub fn is_through_cache(self) -> bool {
        matches!(self, SwapInPath::Readahead | SwapInPath::ThroughCache)
    }
}

/// How a page is swapped in (`do_swap_page`) from a device that reads synchronously or not (`synchronous`),
/// if `users` PTEs hold its swap entry. There is no readahead from synchronous devices, before 7.0 unless the
/// page is shared.
pub fn swap_in_path(f: &FolioFeatures, synchronous: bool, users: u16) -> SwapInPath {
    match f.swap_in {
        _ if !synchronous => SwapInPath::Readahead,
        LargeSwapIn::ThroughCache => SwapInPath::ThroughCache,
        LargeSwapIn::Never | LargeSwapIn::PastCache if users > 1 => SwapInPath::Readahead,
        LargeSwapIn::Never => SwapInPath::SinglePastCache,
        LargeSwapIn::PastCache => SwapInPath::PastCache,
    }
}

/// Whether a swapped-in folio frees its swap entry when it is mapped (`should_try_to_free_swap`), provided
/// that nobody else needs it. `synchronous`: since 7.0 folios of devices that read synchronously do.
pub fn frees_swap(f: &FolioFeatures, write: bool, swap_full: bool, synchronous: bool) -> bool {
    write || swap_full || synchronous && f.swap_in == LargeSwapIn::ThroughCache
}

/// Why a folio could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No block of the order is free.
    NoBlock,
    /// The memory cgroup has no room for it.
    NoRoom,
}

/// The orders to try after `order` failed, in addition to order 0. `None` means out of memory, as after a
/// failure at order 0.
pub fn after_failure(f: &FolioFeatures, orders: Orders, order: u8, failure: Failure) -> Option<Orders> {
    match (order, failure, f.allocation) {
        (0, ..) => None,
        (_, Failure::NoRoom, _) if !f.charge_walks => None,
        (.., Allocation::Walk) => Some(orders.below(order)),
        (.., Allocation::Once) => Some(Orders::NONE),
    }
}

/// How hard the allocator tries for a large folio of a VMA (`vma_thp_gfp_mask`).
pub fn effort(f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState) -> Effort {
    let advised = vma.is_advised();
    if f.gfp == FolioGfp::Ordinary {
        return Effort { no_retry: true, ..Effort::ORDINARY };
    }
    match thp.defrag {
        Defrag::Always => Effort { direct: true, no_retry: !advised, ..Effort::LIGHT },
        Defrag::Defer => Effort { wakes: true, ..Effort::LIGHT },
        Defrag::DeferMadvise if !advised => Effort { wakes: true, ..Effort::LIGHT },
        Defrag::DeferMadvise | Defrag::Madvise => Effort { direct: advised, ..Effort::LIGHT },
        Defrag::Never => Effort::LIGHT,
    }
}

/// What a fault does if there is no page table yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdStep {
    /// Continues with a page table.
    Pass,
    /// Maps the huge zero folio.
    Zeroes,
    /// Allocates a huge page.
    Folio,
}

/// The step at the PMD level, if `allowed` contains the order of a huge page (`do_huge_pmd_anonymous_page`).
pub fn pmd_step(thp: &ThpSettings, allowed: Orders, vma: &Range<u64>, page: u64, write: bool) -> PmdStep {
    let huge = thp.pmd_order();
    if !allowed.has(huge) || !is_inside(&window(page, huge), vma) {
        return PmdStep::Pass;
    }
    if !write && thp.use_zero_page { PmdStep::Zeroes } else { PmdStep::Folio }
}

/// Whether a store to a page that is read-only after fork reuses the page. `exclusive`: only this process
/// maps the page; `whole`: it has all mappings of the folio; `one_entry`: one entry maps the whole folio, a
/// PTE or an unsplit PMD mapping (`do_huge_pmd_wp_page`).
pub fn is_reused(f: &FolioFeatures, one_entry: bool, exclusive: bool, whole: bool) -> bool {
    exclusive || whole && (one_entry || f.reuses_exclusive)
}

/// An anonymous folio after some of its pages were unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmapped {
    pub order: u8,
    /// Pages that have lost their last mapping.
    pub lost: u32,
    /// Mappings that remain.
    pub mapped: u32,
    pub in_swap_cache: bool,
}

/// Whether a folio is queued for a deferred split.
pub fn defers_split(folio: Unmapped) -> bool {
    let Unmapped { order, lost, mapped, in_swap_cache } = folio;
    order >= 2 && lost > 0 && mapped > 0 && !in_swap_cache
}

/// Whether underused huge pages are split: not if khugepaged would make a huge page out of a single page.
pub fn splits_underused(thp: &ThpSettings) -> bool {
    thp.khugepaged.max_ptes_none != thp.hpage_pmd_nr() - 1
}

/// Whether a huge page with this many pages of zeroes is underused.
pub fn is_underused(thp: &ThpSettings, zero_pages: u32) -> bool {
    splits_underused(thp) && zero_pages > thp.khugepaged.max_ptes_none
}

/// Whether a new huge page is queued for the check whether it is underused: since 6.12, unless
/// `shrink_underused` is off.
pub fn may_be_underused(f: &FolioFeatures, thp: &ThpSettings) -> bool {
    f.splits_underused && thp.shrink_underused
}

/// What the PTEs of a page of a split folio map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapsAfterSplit {
    /// The page itself.
    Page,
    /// The zero page, so that the page can be freed.
    Zeroes,
}

/// What the PTEs of a page of a split folio map. `zeroes`: the page holds nothing but zeroes; since 6.12 its
/// memory is freed (`try_to_map_unused_to_zeropage`).
pub fn after_split(f: &FolioFeatures, zeroes: bool) -> MapsAfterSplit {
    if f.splits_underused && zeroes { MapsAfterSplit::Zeroes } else { MapsAfterSplit::Page }
}

/// Whether a folio that was on the deferred split queue is queued again after migration: since 7.1
/// (`migrate_folio_move`). The kernel migrates to another folio, which before 7.1 nothing puts on the queue.
pub fn waits_after_migration(f: &FolioFeatures, waited: bool) -> bool {
    f.requeues_migrated && waited
}

/// Whether a memory cgroup needs a deferred split list before it may have a large folio: in 7.2, where the
/// first large folio mapped by PTEs allocates it. The root cgroup has a list from boot on; in other kernels
/// every cgroup is created with one.
pub fn needs_deferred_list(f: &FolioFeatures, is_root: bool, has_list: bool) -> bool {
    f.allocates_deferred_lists && !is_root && !has_list
}

/// How the mapping of an unmapped entry is removed from its folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmapRemoval {
    /// The entry maps another folio than the one before it.
    First,
    /// A further page of the same folio, removed from its mapcounts by itself (`page_remove_rmap`).
    OneByOne,
    /// A further page of the same folio, removed in one batch with the first (`folio_remove_rmap_ptes`).
    AtOnce,
}

/// How the mapping of an entry is removed. `is_further`: the previous entry mapped the same folio; such
/// entries are batched since 6.9, and for large folios in v1 of the series.
#[inline]
pub fn rmap_removal(f: &FolioFeatures, is_further: bool) -> RmapRemoval {
    match is_further {
        false => RmapRemoval::First,
        true if f.unmaps_at_once => RmapRemoval::AtOnce,
        true => RmapRemoval::OneByOne,
    }
}

/// Whether a kernel has the files of `transparent_hugepage` that were added in `since`.
pub fn has_file(f: &FolioFeatures, since: ThpFiles) -> bool {
    since <= f.files
}

/// Whether khugepaged runs, which also raises `min_free_kbytes`: if huge pages are enabled for some VMAs
/// (`hugepage_pmd_enabled`), or in 7.2 any order that it collapses to.
pub fn runs_khugepaged(f: &FolioFeatures, thp: &ThpSettings) -> bool {
    let enabled = thp.enabled != Enabled::Never;
    if f.candidates != Candidates::Enabled {
        return enabled;
    }
    let huge = Orders::one(thp.pmd_order());
    let mut sizes = if f.collapses_small { thp.all_anon() } else { huge }.descending();
    sizes.any(|order| match thp.mode(order) {
        Mode::Inherit => enabled,
        mode => mode != Mode::Never,
    })
}
