//! What the kernel decides where anonymous memory is touched for the first time: how large a folio to make of it.
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
//! A window is aligned to its own size, in addresses as in memory; so a smaller one lies inside a larger one, and what
//! fits for an order fits for all below it. That is why best fit and "walk down the list" differ only in what happens
//! when no block is free. Pure functions of small states. In the kernel: `alloc_anon_folio`, `wp_can_reuse_anon_folio` in
//! mm/memory.c, `thp_vma_allowable_orders` and `vma_thp_gfp_mask` in mm/huge_memory.c, `thp_vma_suitable_orders` in
//! include/linux/huge_mm.h; `calc_anon_folio_order_alloc` of v1 and v2, `anon_folio_order` of v3 to v5.

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

/// What `madvise` said of a VMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    None,
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`.
    NoHuge,
}

/// What a process said of all its memory (`PR_SET_THP_DISABLE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disabled {
    /// Nothing.
    #[default]
    No,
    /// No large folios.
    Completely,
    /// None but where `MADV_HUGEPAGE` was given (`PR_THP_DISABLE_EXCEPT_ADVISED`, 6.18).
    ExceptAdvised,
}

/// What userfaultfd has to do with a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Userfault {
    /// Nothing.
    #[default]
    No,
    /// The VMA is registered.
    Armed,
    /// The same, and the entry carries the write-protect bit.
    ProtectedEntry,
}

/// What decisions need to know of a VMA besides its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmaState {
    /// Advice.
    pub advice: Advice,
    /// Of its process.
    pub disabled: Disabled,
    /// Userfaultfd.
    pub userfault: Userfault,
    /// The stack of a process that exec still builds: it is going to move.
    pub temporary_stack: bool,
}

impl VmaState {
    fn is_advised(&self) -> bool {
        self.advice == Advice::Huge
    }

    /// Somebody does not want large folios there.
    fn refuses(&self) -> bool {
        let by_process = match self.disabled {
            Disabled::No => false,
            Disabled::Completely => true,
            Disabled::ExceptAdvised => !self.is_advised(),
        };
        by_process || self.advice == Advice::NoHuge || self.temporary_stack
    }
}

/// Whether `transparent_hugepage/enabled` is for this VMA.
fn is_enabled(thp: &ThpSettings, vma: &VmaState) -> bool {
    match thp.enabled {
        Enabled::Always => true,
        Enabled::Madvise => vma.is_advised(),
        Enabled::Never => false,
    }
}

/// The orders that settings and advice allow, that of a huge page among them (`thp_vma_allowable_orders`). Before v6 there
/// is no other.
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

/// The orders that a fault may have which a page table of entries serves; order 0 is always beside them.
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

/// Whether a kernel makes folios of the sizes that are enabled, and none is.
pub fn has_nothing_enabled(f: &FolioFeatures, thp: &ThpSettings) -> bool {
    let inherited = if thp.enabled == Enabled::Always { thp.orders(Mode::Inherit) } else { Orders::NONE };
    let enabled = thp.orders(Mode::Always).or(thp.orders(Mode::Madvise)).or(inherited);
    f.candidates == Candidates::Enabled && enabled == Orders::NONE
}

/// The pages of the aligned window of an order that has `page`.
pub fn window(page: u64, order: u8) -> Range<u64> {
    let start = page >> order << order;
    start..start + (1 << order)
}

fn is_inside(window: &Range<u64>, vma: &Range<u64>) -> bool {
    window.start >= vma.start && window.end <= vma.end
}

/// What is left of `orders` at `page`: those whose window lies inside the VMA and has no entry yet. `is_populated` says
/// whether any page of a window has one.
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

/// Those of [`candidates`] that a fault may have, `fitting` as the kernel looks for them: the series "simple" held the largest
/// alone against what is there, all others each.
pub fn fitting_in_fault(
    f: &FolioFeatures,
    orders: Orders,
    vma: &Range<u64>,
    page: u64,
    is_populated: impl FnMut(Range<u64>) -> bool,
) -> Orders {
    fitting(f.search, orders, vma, page, is_populated)
}

/// What a fault may have besides, and what it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BesideFull {
    /// What is left of the orders that fit.
    pub kept: Orders,
    /// The larger ones, which fit and were declined.
    pub declined: Orders,
}

/// Of orders that fit, those from the largest on whose window has a full one of the same size before or behind it, inside the
/// VMA and in the same page table: memory that is used densely already (`anon_beside_full`). `is_full` says whether all
/// pages of a window have an entry, be it the page of zeroes.
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

/// Whether smaps says that a VMA may have large folios (`THPeligible`): one of them must fit at its end.
pub fn is_thp_eligible(f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState, pages: &Range<u64>) -> bool {
    allowed_orders(f, thp, vma).descending().any(|order| {
        let last = pages.end.checked_sub(1 << order);
        last.is_some_and(|last| is_inside(&window(last, order), pages))
    })
}

/// Those of `orders` in which a page that is at `entry` in swap may come back: a folio is aligned there as in memory
/// (`thp_swap_suitable_orders`).
pub fn swap_orders(orders: Orders, page: u64, entry: u64) -> Orders {
    let aligned = (page ^ entry).trailing_zeros().min(NR_PAGE_ORDERS as u32 - 1) as u8;
    orders.below(aligned + 1)
}

/// How room on swap is looked for to write a folio of this order to, whole; `None` where it has to be split first.
pub fn swap_search(f: &FolioFeatures, page_size: PageSize, order: u8) -> Option<ClusterSearch> {
    (order == 0 || swaps_large_folios(page_size)).then_some(f.cluster_search)
}

/// Whether a large folio is split before room for it is looked for (`shrink_folio_list`). `whole`: one entry maps all of
/// it.
pub fn splits_before_swap(f: &FolioFeatures, partially_mapped: bool, whole: bool) -> bool {
    partially_mapped || f.cluster_search == ClusterSearch::WholeClusters && !whole
}

/// Whether reclaim looks for pages of zeroes among those of a folio that so many page-table entries map: from 6.12 on
/// (`swap_zeromap`). What a page holds is known where it is mapped.
pub fn looks_for_zeroes(f: &FolioFeatures, mapcount: u16) -> bool {
    f.zeromap && mapcount > 0
}

/// How what is in swap comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapInPath {
    /// Page by page through the swap cache, together with what lies around.
    Readahead,
    /// A page past the swap cache, which leaves swap at once unless others need it.
    SinglePastCache,
    /// The same, or a large folio where one fits.
    PastCache,
    /// The largest folio that fits, through the swap cache.
    ThroughCache,
}

/// How a page comes back from a device that may read at once (`synchronous`), and that `users` page-table entries name
/// (`do_swap_page`): such devices are not read ahead of, before 7.0 unless the page is shared.
pub fn swap_in_path(f: &FolioFeatures, synchronous: bool, users: u16) -> SwapInPath {
    match f.swap_in {
        _ if !synchronous => SwapInPath::Readahead,
        LargeSwapIn::ThroughCache => SwapInPath::ThroughCache,
        LargeSwapIn::Never | LargeSwapIn::PastCache if users > 1 => SwapInPath::Readahead,
        LargeSwapIn::Never => SwapInPath::SinglePastCache,
        LargeSwapIn::PastCache => SwapInPath::PastCache,
    }
}

/// Whether a folio that was read leaves swap when it is mapped (`should_try_to_free_swap`), as long as nobody else wants
/// it. What a device reads at once is kept once (`synchronous`, 7.0).
pub fn frees_swap(f: &FolioFeatures, write: bool, swap_full: bool, synchronous: bool) -> bool {
    write || swap_full || synchronous && f.swap_in == LargeSwapIn::ThroughCache
}

/// Why an order was not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No block of it is free.
    NoBlock,
    /// The memory cgroup has no room for it.
    NoRoom,
}

/// The orders that are tried after `order` of `orders` was not to be had, order 0 beside them; `None` is the end: out of
/// memory. A single page that cannot be had always is.
pub fn after_failure(f: &FolioFeatures, orders: Orders, order: u8, failure: Failure) -> Option<Orders> {
    match (order, failure, f.allocation) {
        (0, ..) => None,
        (_, Failure::NoRoom, _) if !f.charge_walks => None,
        (.., Allocation::Walk) => Some(orders.below(order)),
        (.., Allocation::Once) => Some(Orders::NONE),
    }
}

/// How far the allocator goes for a large folio of a VMA (`vma_thp_gfp_mask`).
pub fn effort(f: &FolioFeatures, thp: &ThpSettings, vma: &VmaState) -> Effort {
    let advised = vma.is_advised();
    if f.gfp == FolioGfp::Ordinary {
        return Effort { direct: true, wakes: true, no_retry: true };
    }
    match thp.defrag {
        Defrag::Always => Effort { direct: true, no_retry: !advised, ..Effort::LIGHT },
        Defrag::Defer => Effort { wakes: true, ..Effort::LIGHT },
        Defrag::DeferMadvise if !advised => Effort { wakes: true, ..Effort::LIGHT },
        Defrag::DeferMadvise | Defrag::Madvise => Effort { direct: advised, ..Effort::LIGHT },
        Defrag::Never => Effort::LIGHT,
    }
}

/// What a fault does where there is no page table yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdStep {
    /// Makes one: the fault goes on with entries.
    Pass,
    /// Maps the huge page of zeroes.
    Zeroes,
    /// Allocates a huge page.
    Folio,
}

/// The step before the page table, if `allowed` has the order of one (`do_huge_pmd_anonymous_page`).
pub fn pmd_step(thp: &ThpSettings, allowed: Orders, vma: &Range<u64>, page: u64, write: bool) -> PmdStep {
    let huge = thp.pmd_order();
    if !allowed.has(huge) || !is_inside(&window(page, huge), vma) {
        return PmdStep::Pass;
    }
    if !write && thp.use_zero_page { PmdStep::Zeroes } else { PmdStep::Folio }
}

/// Whether a write to a page that is mapped read-only after fork happens in place. `exclusive`: the page is known to be
/// this process's alone; `whole`: so is every mapping of the folio; `one_entry`: one entry maps all of it, as of a page,
/// or of a huge page that is not split (`do_huge_pmd_wp_page`).
pub fn is_reused(f: &FolioFeatures, one_entry: bool, exclusive: bool, whole: bool) -> bool {
    exclusive || whole && (one_entry || f.reuses_exclusive)
}

/// Whether a folio waits to be split now that `lost` of its pages have lost their last mapping and `mapped` still have
/// one.
pub fn defers_split(order: u8, lost: u32, mapped: u32, in_swap_cache: bool) -> bool {
    order >= 2 && lost > 0 && mapped > 0 && !in_swap_cache
}

/// Whether huge pages are split that have too many pages of zeroes: not where khugepaged makes one of a single page.
pub fn splits_underused(thp: &ThpSettings) -> bool {
    thp.khugepaged.max_ptes_none != thp.hpage_pmd_nr() - 1
}

/// Whether a huge page with so many pages of zeroes is split when memory is short.
pub fn is_underused(thp: &ThpSettings, zero_pages: u32) -> bool {
    splits_underused(thp) && zero_pages > thp.khugepaged.max_ptes_none
}

/// Whether a huge page that has just been made waits to be looked at when memory is short: from 6.12 on, unless
/// `shrink_underused` says no.
pub fn may_be_underused(f: &FolioFeatures, thp: &ThpSettings) -> bool {
    f.splits_underused && thp.shrink_underused
}

/// What maps a page of a folio that has been split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapsAfterSplit {
    /// The page itself.
    Page,
    /// The page of zeroes that all share: it may be freed.
    Zeroes,
}

/// What the entries of such a page become, of which nothing but zeroes is known (`zeroes`): from 6.12 on no memory is kept for
/// them (`try_to_map_unused_to_zeropage`).
pub fn after_split(f: &FolioFeatures, zeroes: bool) -> MapsAfterSplit {
    if f.splits_underused && zeroes { MapsAfterSplit::Zeroes } else { MapsAfterSplit::Page }
}

/// Whether a folio that waited to be split does so after it has migrated: from 7.1 on (`migrate_folio_move`). The kernel copies it
/// to another folio, which nothing put on the list before.
pub fn waits_after_migration(f: &FolioFeatures, waited: bool) -> bool {
    f.requeues_migrated && waited
}

/// Whether a memory cgroup has to be given a list of folios to be split before it may have a large folio: in 7.2, in which it
/// comes with the first that a page table maps. The root has one from boot on, other kernels give each its own when it is made.
pub fn needs_deferred_list(f: &FolioFeatures, is_root: bool, has_list: bool) -> bool {
    f.allocates_deferred_lists && !is_root && !has_list
}

/// How an entry that is unmapped gives up its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmapRemoval {
    /// The kernel comes to another folio than that of the entry before.
    First,
    /// It is a further page of that folio, taken off its counts on its own (`page_remove_rmap`).
    OneByOne,
    /// The same, together with the first (`folio_remove_rmap_ptes`).
    AtOnce,
}

/// The same of an entry whose folio the entry before mapped too or not (`is_further`): all at once in 6.9, and in v1 of the series
/// for large folios.
#[inline]
pub fn rmap_removal(f: &FolioFeatures, is_further: bool) -> RmapRemoval {
    match is_further {
        false => RmapRemoval::First,
        true if f.unmaps_at_once => RmapRemoval::AtOnce,
        true => RmapRemoval::OneByOne,
    }
}

/// Whether a kernel has a file of `transparent_hugepage` that came with `since`.
pub fn has_file(f: &FolioFeatures, since: ThpFiles) -> bool {
    since <= f.files
}

/// Whether khugepaged runs, which keeps more memory free: somewhere a huge page may be wanted (`hugepage_pmd_enabled`), or
/// anything that it makes (7.2).
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
