//! Decisions about compaction: whether a zone is suitable, whether compaction is deferred, and when proactive
//! compaction runs.
//!
//! ```text
//!   request of order o fails ─► enough free pages?  no ─► reclaim instead
//!                                  │ yes
//!                               failed lately?  yes ─► deferred 2^shift times, shift up to 6
//!                                  │ no
//!                               compact until a block of order o is free, or the scanners meet
//!
//!   proactive: unusable-free index of 2 MiB above HIGH ─► compact down to LOW
//! ```
//!
//! Pure functions. In the kernel: `fragmentation_index`, `extfrag_for_order` in mm/vmstat.c; `compaction_suitable`,
//! `defer_compaction`, `compaction_deferred`, `fragmentation_score_wmark` in mm/compaction.c.

use super::CompactResult;
use crate::Features;
use crate::allocator::page::NR_PAGE_ORDERS;
use crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;

/// How often an allocation of a costly order that may fail is tried again though compaction made a block, which others then took: a
/// quarter of `MAX_COMPACT_RETRIES`.
const MAX_COSTLY_RETRIES: u32 = 16 / 4;

/// Largest `compact_defer_shift`: the deferral does not grow beyond it (`COMPACT_MAX_DEFER_SHIFT`).
pub const MAX_DEFER_SHIFT: u8 = 6;

/// Number of free blocks of a zone by order.
pub type FreeBlocks = [u64; NR_PAGE_ORDERS];

fn free_pages(blocks: &FreeBlocks) -> u64 {
    (0..).zip(blocks).map(|(order, blocks): (u32, _)| blocks << order).sum()
}

fn suitable_blocks(blocks: &FreeBlocks, order: u8) -> u64 {
    (0..).zip(&blocks[usize::from(order)..]).map(|(larger, blocks): (u32, _)| blocks << larger).sum()
}

/// Whether compaction for a block of order `wanted` migrates folios of an order (`skip_isolation_on_order`).
pub fn migrates(f: &Features, order: u8, wanted: u8) -> bool {
    order < wanted && (order == 0 || f.folios.compacts_large_folios)
}

/// The reason why an allocation of `order` would fail: near 0 for lack of memory, near 1000 for
/// fragmentation. `None` if it would not fail (`fragmentation_index`).
pub fn fragmentation_index(blocks: &FreeBlocks, order: u8) -> Option<u64> {
    let total: u64 = blocks.iter().sum();
    if suitable_blocks(blocks, order) > 0 {
        return None;
    }
    if total == 0 {
        return Some(0);
    }
    let wanted = free_pages(blocks) * 1000 / (1 << order);
    // A single block that is too small comes out below 0, which is no index either.
    1000u64.checked_sub((1000 + wanted) / total)
}

/// Share of free memory that allocations of `order` cannot use, per cent (`extfrag_for_order`).
pub fn unusable_free_index(blocks: &FreeBlocks, order: u8) -> u64 {
    let free = free_pages(blocks);
    let usable = suitable_blocks(blocks, order) << order;
    ((free - usable) * 100).checked_div(free).unwrap_or(0)
}

/// The state of a zone that [`is_suitable`] reads; pages.
#[derive(Clone, Copy, Debug)]
pub struct ZoneState {
    /// Free pages less the zone's lowmem reserve and what is kept for atomic requests.
    pub free: u64,
    pub low: u64,
    pub min: u64,
    /// [`fragmentation_index`] for the request.
    pub fragmentation: Option<u64>,
}

/// Whether enough pages are free to migrate others into (`compaction_suitable`). `threshold` is
/// `vm.extfrag_threshold`.
pub fn is_suitable(zone: &ZoneState, order: u8, threshold: u64) -> bool {
    let mark = if order > PAGE_ALLOC_COSTLY_ORDER { zone.low } else { zone.min };
    if zone.free <= mark + (2 << order) {
        return false;
    }
    order <= PAGE_ALLOC_COSTLY_ORDER || zone.fragmentation.is_none_or(|index| index > threshold)
}

/// Whether an allocation of a costly order goes on after compaction came to `result`, the `successes`th time to success: for want of free
/// pages as long as `reclaim_helps` (`should_compact_retry`).
pub fn is_worth_a_retry(result: CompactResult, successes: u32, reclaim_helps: impl FnOnce() -> bool) -> bool {
    match result {
        CompactResult::Skipped => reclaim_helps(),
        CompactResult::Success => successes <= MAX_COSTLY_RETRIES,
        CompactResult::Deferred | CompactResult::Complete => false,
    }
}

/// Deferral of a zone's compaction after failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    /// Attempts since the last failure (`compact_considered`).
    pub considered: u32,
    /// log2 of the number of attempts to defer (`compact_defer_shift`).
    pub shift: u8,
    /// The lowest order that failed (`compact_order_failed`).
    pub order_failed: u8,
}

impl Deferral {
    /// Notes that compaction for `order` failed (`defer_compaction`).
    pub fn defer(&mut self, order: u8) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(MAX_DEFER_SHIFT);
        self.order_failed = self.order_failed.min(order);
    }

    /// Whether an attempt at `order` is deferred; counts the attempt (`compaction_deferred`).
    pub fn is_deferred(&mut self, order: u8) -> bool {
        if order < self.order_failed {
            return false;
        }
        self.considered = (self.considered + 1).min(1 << self.shift);
        self.considered < 1 << self.shift
    }

    /// Whether an attempt at `order` is the first after the longest deferral (`compaction_restarting`).
    pub fn is_restarting(&self, order: u8) -> bool {
        order >= self.order_failed && self.shift == MAX_DEFER_SHIFT && self.considered >= 1 << self.shift
    }

    /// Notes that compaction produced a block of `order`, which is not allocated yet
    /// (`compaction_defer_reset`).
    pub fn note_success(&mut self, order: u8) {
        self.order_failed = self.order_failed.max(order + 1);
    }

    /// Ends the deferral: an allocation got the block of `order` that compaction produced
    /// (`compaction_defer_reset`).
    pub fn reset(&mut self, order: u8) {
        (self.considered, self.shift) = (0, 0);
        self.note_success(order);
    }
}

/// Fragmentation scores at which proactive compaction stops and starts (`fragmentation_score_wmark`).
pub fn proactive_marks(proactiveness: u64) -> (u64, u64) {
    let low = (100 - proactiveness.min(100)).max(5);
    (low, (low + 10).min(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(counts: &[(usize, u64)]) -> FreeBlocks {
        let mut blocks = [0; NR_PAGE_ORDERS];
        counts.iter().for_each(|&(order, count)| blocks[order] = count);
        blocks
    }

    #[test]
    fn large_folios_are_migrated_since_6_9_if_they_are_smaller_than_what_is_wanted() {
        let [old, new] = [Features::MAINLINE_6_8, Features::MAINLINE_6_9]
            .map(|f| [0, 4, 8, 9].map(|order| migrates(&f, order, 9)));
        assert_eq!(old, [true, false, false, false]);
        assert_eq!(new, [true, true, true, false]);
    }

    #[test]
    fn indices_of_scattered_memory() {
        assert_eq!(fragmentation_index(&blocks(&[(0, 1000)]), 4), Some(937));
        assert_eq!(fragmentation_index(&blocks(&[(0, 3)]), 4), Some(605), "little memory, few blocks");
        assert_eq!(fragmentation_index(&blocks(&[(0, 3), (5, 1)]), 4), None);
        assert_eq!(fragmentation_index(&blocks(&[]), 4), Some(0));
        assert_eq!(unusable_free_index(&blocks(&[(0, 16), (4, 1)]), 4), 50);
        assert_eq!(unusable_free_index(&blocks(&[]), 4), 0);
    }

    #[test]
    fn it_takes_room_to_move_pages() {
        let zone = |free, fragmentation| ZoneState { free, low: 200, min: 100, fragmentation };
        assert!(!is_suitable(&zone(232, Some(900)), 4, 500) && is_suitable(&zone(233, Some(900)), 4, 500));
        assert!(!is_suitable(&zone(1000, Some(500)), 4, 500), "memory is short rather than scattered");
        assert!(is_suitable(&zone(117, Some(0)), 3, 500) && !is_suitable(&zone(116, Some(0)), 3, 500));
    }

    #[test]
    fn costly_orders_are_tried_again_while_reclaim_helps() {
        use CompactResult::{Complete, Deferred, Skipped, Success};
        assert!(is_worth_a_retry(Skipped, 100, || true) && !is_worth_a_retry(Skipped, 0, || false));
        assert!(is_worth_a_retry(Success, 4, || false) && !is_worth_a_retry(Success, 5, || true));
        assert!(![Deferred, Complete].iter().any(|&result| is_worth_a_retry(result, 0, || true)));
    }

    #[test]
    fn failures_put_it_off_longer_and_longer() {
        let mut deferral = Deferral::default();
        assert!(!deferral.is_deferred(4), "nothing has failed");
        let skipped = |deferral: &mut Deferral| (0..).take_while(|_| deferral.is_deferred(4)).count();
        let mut all = Vec::new();
        for _ in 0..8 {
            deferral.defer(4);
            all.push(skipped(&mut deferral));
        }
        assert_eq!(all, [1, 3, 7, 15, 31, 63, 63, 63]);
        assert!(deferral.is_restarting(4), "after the longest deferral");
        deferral.defer(4);
        assert!(!deferral.is_restarting(4), "it has failed again");
        deferral.reset(4);
        assert_eq!(deferral, Deferral { considered: 0, shift: 0, order_failed: 5 });
        deferral.defer(5);
        assert!(!deferral.is_deferred(4) && deferral.is_deferred(6));
    }

    #[test]
    fn proactive_compaction_has_two_marks() {
        assert_eq!(proactive_marks(20), (80, 90));
        assert_eq!(proactive_marks(100), (5, 15));
        assert_eq!(proactive_marks(0), (100, 100));
    }
}
