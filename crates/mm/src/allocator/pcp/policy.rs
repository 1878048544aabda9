//! Decisions of a per-CPU pageset: how many pages a refill fetches, how many the pageset keeps, and when it
//! gives how many back.
//!
//! ```text
//!                 0      high_min          high            high_max
//!                 ├─────────┼────────────────┼────────────────┤   pages on the lists of one CPU
//!   refill        │         │        ───► high rises          │   nr_pcp_alloc
//!   bulk free     │         │        ───► high rises          │   nr_pcp_high, when count reaches it
//!   high-order frees, reclaim, BELOW_HIGH, decay: high falls ◄───
//! ```
//!
//! All functions depend only on one [`Pageset`] and the kernel's [`Features`]; `pcp/mod.rs` moves the pages.
//! The order of evaluation is the kernel's, side effects included.
//! In the kernel: `nr_pcp_alloc`, `nr_pcp_high`, `nr_pcp_free`, `free_frozen_page_commit`
//! (`free_unref_page_commit` before 6.17) and `decay_pcp_high` in mm/page_alloc.c, `refresh_cpu_vm_stats` and
//! `drain_zone_pages` for the vmstat worker (6.1 to 7.2).

use crate::allocator::page::MigrateType;
use crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;
use crate::features::{CacheRule, Decay, Features, FreeMemory};
use crate::sysctl::MIN_PERCPU_PAGELIST_HIGH_FRACTION;
use machine::{PageSize, Topology};

/// Largest power of two by which a batch is multiplied (`CONFIG_PCP_BATCH_SCALE_MAX`).
pub const BATCH_SCALE_MAX: u8 = 5;

/// The numbers in `struct per_cpu_pages`; in pages unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pageset {
    /// Base pages on all lists.
    pub count: i32,
    /// The `count` from which frees go to the zone in bulk. With auto-tuning it is 0 until first use.
    pub high: i32,
    pub high_min: i32,
    pub high_max: i32,
    /// Number of pages that usually move between the pageset and its zone at once.
    pub batch: i32,
    /// Lowest `count` since the last decay (patch 9).
    pub count_min: i32,
    /// log2 of the number of batches to free next (before patch 10).
    pub free_factor: u8,
    /// log2 of the number of batches to fetch next (patch 5).
    pub alloc_factor: u8,
    /// Pages freed lately, halved by every allocation (patch 10).
    pub free_count: i32,
    /// Whether the previous free was of order 1 to 3 (`PCPF_PREV_FREE_HIGH_ORDER`).
    pub prev_free_high_order: bool,
    /// Whether this CPU's cache is large (`PCPF_FREE_HIGH_BATCH`).
    pub free_high_batch: bool,
    /// Ticks of the vmstat worker until a pageset of a remote node is drained.
    pub expire: u8,
}

/// Index of the list of pageblock order for a migrate type: since 6.10 one for movable and one for other
/// blocks.
#[inline]
pub fn huge_list(f: &Features, migrate_type: MigrateType) -> usize {
    usize::from(f.two_huge_lists && migrate_type == MigrateType::Movable)
}

/// The migrate type of the blocks on a list of pageblock order. Before 6.10 the single list has all types,
/// mostly movable.
#[inline]
pub fn huge_list_type(f: &Features, list: usize) -> MigrateType {
    if list > 0 || !f.two_huge_lists { MigrateType::Movable } else { MigrateType::Unmovable }
}

/// The zone flags that pageset decisions read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonePressure {
    /// kswapd or direct reclaim is working on the zone (`ZONE_RECLAIM_ACTIVE`).
    pub reclaim_active: bool,
    /// The zone is below its high watermark (`ZONE_BELOW_HIGH`).
    pub below_high: bool,
}

/// Updates the pageset before a page is allocated from a list one at a time.
#[inline]
pub fn note_alloc(p: &mut Pageset, f: &Features) {
    match f.free_memory {
        FreeMemory::Factor { .. } => p.free_factor >>= 1,
        FreeMemory::Count => p.free_count >>= 1,
    }
}

/// When the pages of a refill are subtracted from `NR_FREE_PAGES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// As each block leaves its free list.
    EachBlock,
    /// Once, after the last block.
    Once,
}

/// When a refill is accounted: with strict free lists as each block leaves its list, before once.
#[inline]
pub fn refill_accounting(f: &Features) -> Accounting {
    if f.strict_freelists { Accounting::EachBlock } else { Accounting::Once }
}

/// Updates the pageset after pages were allocated from its lists.
#[inline]
pub fn note_taken(p: &mut Pageset, f: &Features) {
    if f.auto_tuning == Some(Decay::FifthUpToUnused) {
        p.count_min = p.count_min.min(p.count);
    }
}

/// Number of blocks of `order` to fetch from the zone when a list is empty.
pub fn nr_pcp_alloc(p: &mut Pageset, f: &Features, zone: ZonePressure, order: u8) -> i32 {
    let fetched = if f.scale_refills { scaled_refill(p, f, zone, order) } else { p.batch };
    // Large blocks are fetched by the batch counted in pages, but at least two at a time.
    if fetched > 1 { (fetched >> order).max(2) } else { fetched }
}

fn scaled_refill(p: &mut Pageset, f: &Features, zone: ZonePressure, order: u8) -> i32 {
    let mut high = if f.auto_tuning.is_some() {
        clamp_high(p)
    } else if f.high_bounds {
        p.high_min
    } else {
        p.high
    };
    if high < p.batch {
        return 1;
    }
    let wanted = if order > 0 { p.batch } else { p.batch << p.alloc_factor };
    let growth_allowed = if f.below_high { !zone.below_high } else { !zone.reclaim_active };
    if f.auto_tuning.is_some() && p.high_min != p.high_max && growth_allowed {
        high = (high + wanted).min(p.high_max);
        p.high = high;
    }
    if order > 0 {
        return wanted;
    }
    let room = (high - p.count - p.batch).max(p.batch);
    if wanted <= room && p.alloc_factor < BATCH_SCALE_MAX {
        p.alloc_factor += 1;
    }
    wanted.min(room)
}

fn clamp_high(p: &mut Pageset) -> i32 {
    p.high = p.high.max(p.high_min).min(p.high_max);
    p.high
}

/// A bulk free that a freed block makes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkFree {
    /// Pages to give back to the zone.
    pub pages: i32,
    /// How many of them at a time, under one hold of the lock.
    pub portion: i32,
    /// Whether the reason is a run of high-order frees ("free_high").
    pub free_high: bool,
}

/// Counts a freed block of `order` and returns the bulk free that is now due, if any.
#[inline]
pub fn note_free(p: &mut Pageset, f: &Features, zone: ZonePressure, order: u8) -> Option<BulkFree> {
    let free_high = enter_free(p, f, order);
    let high = nr_pcp_high(p, f, zone, free_high);
    (p.count >= high).then(|| {
        let pages = nr_pcp_free(p, f, high, free_high);
        BulkFree { pages, portion: bulk_free_portion(p, f, pages), free_high }
    })
}

/// Enters a freed block of `order` and says whether high-order blocks are being freed in a row.
#[inline]
pub fn enter_free(p: &mut Pageset, f: &Features, order: u8) -> bool {
    if f.scale_refills {
        p.alloc_factor >>= 1;
    }
    p.count += 1 << order;
    let free_high = free_high(p, f, order);
    if f.free_memory == FreeMemory::Count && p.free_count < p.batch << BATCH_SCALE_MAX {
        p.free_count += 1 << order;
    }
    free_high
}

/// How many of `frees` order-0 frees in a row only lengthen a list; the next one may do more. 0 if the zone
/// is under pressure. [`note_plain_frees`] then counts them at once.
#[inline]
pub fn plain_frees(p: &Pageset, f: &Features, zone: ZonePressure, frees: usize) -> usize {
    if zone != ZonePressure::default() {
        return 0;
    }
    let high = if f.auto_tuning.is_some() {
        p.high.max(p.high_min).min(p.high_max)
    } else if f.high_bounds {
        p.high_min
    } else {
        p.high
    };
    frees.min((high - 1 - p.count).max(0) as usize)
}

/// Counts `frees` order-0 frees at once, for which [`plain_frees`] has said that they only lengthen a list.
#[inline]
pub fn note_plain_frees(p: &mut Pageset, f: &Features, frees: usize) {
    if frees == 0 {
        return;
    }
    if f.scale_refills {
        p.alloc_factor = if frees > 7 { 0 } else { p.alloc_factor >> frees };
    }
    p.count += frees as i32;
    p.prev_free_high_order &= !f.consecutive_high_order_frees;
    if f.free_memory == FreeMemory::Count {
        p.free_count = (p.free_count + frees as i32).min((p.batch << BATCH_SCALE_MAX).max(p.free_count));
    }
    if f.auto_tuning.is_some() {
        clamp_high(p);
    }
}

/// Counts `taken` order-0 pages that were allocated one at a time from a list long enough for all of them.
#[inline]
pub fn note_plain_allocs(p: &mut Pageset, f: &Features, taken: usize) {
    match f.free_memory {
        FreeMemory::Factor { .. } => p.free_factor = if taken > 7 { 0 } else { p.free_factor >> taken },
        FreeMemory::Count => p.free_count = if taken > 31 { 0 } else { p.free_count >> taken },
    }
    p.count -= taken as i32;
    note_taken(p, f);
}

/// Whether a free of `order` drains the pageset because high-order blocks are being freed in a row: another
/// CPU probably allocated them, and should get them back while their contents are still in a cache.
#[inline]
fn free_high(p: &mut Pageset, f: &Features, order: u8) -> bool {
    let high_order = (1..=PAGE_ALLOC_COSTLY_ORDER).contains(&order);
    let burst = match f.free_memory {
        FreeMemory::Factor { .. } => p.free_factor != 0,
        FreeMemory::Count if f.late_free_high => p.free_count >= p.batch + p.high_min / 2,
        FreeMemory::Count => p.free_count >= p.batch,
    };
    let keeps_a_batch = f.free_high_batch.is_some() && p.free_high_batch && p.count < p.batch;
    let in_succession = !f.consecutive_high_order_frees || p.prev_free_high_order;
    p.prev_free_high_order = f.consecutive_high_order_frees && high_order;
    high_order && burst && in_succession && !keeps_a_batch
}

/// The `count` from which this free goes to the zone. Also tunes `high`, with effect from the next free on.
#[inline]
pub fn nr_pcp_high(p: &mut Pageset, f: &Features, zone: ZonePressure, free_high: bool) -> i32 {
    if f.auto_tuning.is_none() {
        let high = if f.high_bounds { p.high_min } else { p.high };
        return match () {
            _ if high == 0 || free_high => 0,
            _ if zone.reclaim_active => (p.batch << 2).min(high),
            _ => high,
        };
    }
    let high = clamp_high(p);
    if high == 0 {
        return 0;
    }
    if free_high {
        p.high = (high - (p.batch << BATCH_SCALE_MAX)).max(p.high_min);
        return 0;
    }
    let current = match f.free_memory {
        FreeMemory::Factor { .. } => p.batch << p.free_factor,
        FreeMemory::Count => p.free_count,
    };
    let shrinkage = if f.shrink_at_least_batch { current.max(p.batch) } else { current };
    if zone.reclaim_active {
        p.high = (high - shrinkage).max(p.high_min);
        return (p.batch << 2).min(p.high);
    }
    if p.high_min == p.high_max {
        return high;
    }
    if f.below_high && zone.below_high {
        p.high = (high - shrinkage).max(p.high_min);
        return p.count.max(p.high_min);
    }
    if p.count >= high {
        let needed = current + p.batch;
        if p.high < needed {
            p.high = needed.max(p.high_min).min(p.high_max);
        }
    }
    high
}

/// Number of pages to give back in a bulk free that started at `high`.
pub fn nr_pcp_free(p: &mut Pageset, f: &Features, high: i32, free_high: bool) -> i32 {
    if free_high {
        return if f.auto_tuning.is_some() { p.count.min(p.batch << BATCH_SCALE_MAX) } else { p.count };
    }
    if high < p.batch {
        return 1;
    }
    let (least, most) = (p.batch, high - p.batch);
    let wanted = match f.free_memory {
        FreeMemory::Factor { capped } => {
            let wanted = i64::from(p.batch) << p.free_factor;
            let below = if f.auto_tuning.is_some() { wanted <= most.into() } else { wanted < most.into() };
            if below && (!capped || p.free_factor < BATCH_SCALE_MAX) {
                p.free_factor += 1;
            }
            wanted.min(i32::MAX.into()) as i32
        }
        FreeMemory::Count => p.free_count,
    };
    clamp(wanted, least, most)
}

/// As the kernel's `clamp` where bounds cross, which they do not in pagesets that it made: the upper one is asked first.
fn clamp(wanted: i32, least: i32, most: i32) -> i32 {
    if wanted >= most { most } else { wanted.max(least) }
}

/// One tick of the vmstat worker: lowers a grown `high`. Returns the pages to give back now and whether the
/// worker has to run again.
pub fn decay(p: &mut Pageset, f: &Features) -> (i32, bool) {
    let Some(decay) = f.auto_tuning else { return (0, false) };
    let mut more = false;
    if p.high > p.high_min {
        let lowered = match decay {
            Decay::Fifth => (i64::from(p.high) * 4 / 5) as i32,
            Decay::FifthUpToUnused => p.high - p.count_min.min(p.high / 5),
            Decay::Eighth => p.high - (p.high >> 3),
        };
        p.high = lowered.max(p.count - (p.batch << BATCH_SCALE_MAX)).max(p.high_min);
        more = p.high > p.high_min;
    }
    let surplus = (p.count - p.high).max(0);
    (surplus, more || surplus > 0)
}

/// Splits a bulk free of `pages` pages into portions, each under one hold of the locks. A portion ends with a
/// whole block, so portions of large blocks may give back more than `pages` in total.
pub fn portions(pages: i32, portion: i32) -> impl Iterator<Item = i32> {
    let starts = (0..pages).step_by(portion.max(1) as usize);
    starts.map(move |start| portion.max(1).min(pages - start))
}

/// Pages in a portion of a bulk free of `pages` pages.
pub fn bulk_free_portion(p: &Pageset, f: &Features, pages: i32) -> i32 {
    if f.chunked_bulk_free { p.batch } else { pages }
}

/// Pages in a portion of a decay that gives back `pages` pages.
pub fn decay_portion(p: &Pageset, f: &Features, pages: i32) -> i32 {
    if f.chunked_decay { p.batch } else { pages }
}

/// Pages that one hold of the locks gives back when a pageset is drained: all of them, since 6.10 a bounded
/// number.
pub fn drain_portion(f: &Features, batch: i32) -> i32 {
    if f.drain_zone_chunked { batch << BATCH_SCALE_MAX } else { i32::MAX }
}

/// Where bulk freeing reads the migrate type of a block, and so the free list it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeOf {
    /// The type of its pageblock now.
    Pageblock,
    /// The type of its pageset list: that of its pageblock when the block was freed.
    PagesetList,
}

/// Where bulk freeing reads the migrate type of a block of `order`: since 6.10 from the pageblock. A block as
/// large as a pageblock always has the pageblock's type.
#[inline]
pub fn type_on_bulk_free(f: &Features, order: u8, pageblock_order: u8) -> TypeOf {
    if f.pageblock_type_on_bulk_free || order == pageblock_order {
        TypeOf::Pageblock
    } else {
        TypeOf::PagesetList
    }
}

/// Ticks of the vmstat worker after which an unused pageset of a remote node is drained (`pcp->expire`).
pub const EXPIRE_TICKS: u8 = 3;

/// What the vmstat worker does with a pageset of a remote node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Nothing, and the worker need not return for it.
    None,
    /// Nothing yet; the worker returns for it.
    Waits,
    /// Gives back this number of pages; the worker returns for it.
    Drains(i32),
}

/// One tick of the vmstat worker: drains a remote node's pageset that was unused for [`EXPIRE_TICKS`] ticks.
/// Before 6.7 the worker did not return for a pageset that waited to expire, so it stayed until something
/// else woke the worker.
pub fn expire(p: &mut Pageset, f: &Features, is_local: bool) -> Expiry {
    if p.expire == 0 || p.count == 0 {
        return Expiry::None;
    }
    if is_local {
        p.expire = 0;
        return Expiry::None;
    }
    p.expire -= 1;
    match p.expire {
        0 => Expiry::Drains(p.count.min(p.batch)),
        _ if f.vmstat_requeued_while_expiring => Expiry::Waits,
        _ => Expiry::None,
    }
}

/// Updates the pageset after a decay gave pages back.
pub fn note_decayed(p: &mut Pageset, f: &Features) {
    if f.auto_tuning == Some(Decay::FifthUpToUnused) {
        p.count_min = p.count;
    }
}

/// A CPU's share of the caches in bytes: as posted that of all levels, as merged that of the last level.
pub fn cache_share(f: &Features, topology: &Topology) -> u64 {
    match f.free_high_batch {
        Some(CacheRule::SumOfLevelsOverFourBatches) => topology.sum_of_cache_slices(),
        Some(CacheRule::LastLevelOverThreeBatches) | None => topology.last_level_slice(),
    }
}

/// Whether a CPU with a cache share of `bytes` keeps a batch when high-order blocks are freed in a row
/// (`PCPF_FREE_HIGH_BATCH`).
pub fn is_cache_large(f: &Features, page_size: PageSize, bytes: u64, batch: i32) -> bool {
    let batches = match f.free_high_batch {
        Some(CacheRule::SumOfLevelsOverFourBatches) => 4,
        Some(CacheRule::LastLevelOverThreeBatches) => 3,
        None => return false,
    };
    bytes / page_size.bytes() > batches * batch as u64
}

/// `batch` for a zone of `managed` pages (`zone_batchsize`).
pub fn zone_batchsize(page_size: PageSize, managed: u64) -> i32 {
    let quarter = ((managed >> 10).min(page_size.pages_of_mib(1)) / 4).max(1);
    let rounded = 1u64 << (quarter + quarter / 2).ilog2();
    (rounded - 1).max(1) as i32
}

/// What fraction of a zone all its pagesets share for their `high_min` and for their `high_max`; 0 means by the low watermark.
/// Where `high` floats (patch 7), those are the low watermark and an eighth of the zone, unless
/// `vm.percpu_pagelist_high_fraction` (`fraction`) fixes both.
pub fn high_fractions(f: &Features, fraction: u64) -> (u64, u64) {
    match fraction {
        0 if f.auto_tuning.is_some() => (0, MIN_PERCPU_PAGELIST_HIGH_FRACTION),
        _ => (fraction, fraction),
    }
}

/// How many pages all pagesets of a zone of `managed` pages share: such a fraction of it, or as many as the low watermark (`low`).
pub fn high_total(fraction: u64, low: u64, managed: u64) -> u64 {
    managed.checked_div(fraction).unwrap_or(low)
}

/// Sets the batch and bounds of a pageset (`pageset_update`). Before patch 6 there are no bounds, and `high`
/// is set directly.
pub fn set_bounds(p: &mut Pageset, f: &Features, batch: i32, high_min: i32, high_max: i32) {
    (p.batch, p.high_min, p.high_max) = (batch, high_min, high_max);
    if !f.high_bounds {
        p.high = high_min;
    }
}

/// The rows of a pageset in /proc/zoneinfo; with its bounds since 6.13.
pub fn zoneinfo_rows(f: &Features, p: &Pageset) -> Vec<(&'static str, i32)> {
    let mut rows = vec![("count:", p.count), ("high:", p.high), ("batch:", p.batch)];
    if f.zoneinfo_prints_bounds {
        rows.extend([("high_min:", p.high_min), ("high_max:", p.high_max)]);
    }
    rows
}

/// `high` of one pageset if `local_cpus` CPUs share `total` pages (`zone_highsize`).
pub fn zone_highsize(total: u64, local_cpus: u64, online_cpus: u64, batch: i32) -> i32 {
    let sharers = if local_cpus == 0 { online_cpus } else { local_cpus };
    ((total / sharers.max(1)) as i32).max(4 * batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_of_small_and_large_zones() {
        let cases = [(3840, 1), (32768, 7), (131072, 31), (176127, 31), (176128, 63), (1 << 27, 63)];
        for (managed, batch) in cases {
            assert_eq!(zone_batchsize(PageSize::Kib4, managed), batch, "{managed} managed pages");
        }
        let large = |size: PageSize| zone_batchsize(size, size.pages_of_mib(1 << 14));
        assert_eq!(
            PageSize::ALL.map(large),
            [63, 15, 3],
            "a quarter of 1 MiB and half of that, as a power of two"
        );
    }

    #[test]
    fn an_idle_pageset_of_another_node_is_drained_after_three_ticks() {
        let ticks = |f: Features| {
            let mut p = Pageset { count: 100, batch: 63, expire: 3, ..Pageset::default() };
            [(); 4].map(|()| expire(&mut p, &f, false))
        };
        use Expiry::*;
        assert_eq!(ticks(Features::MAINLINE_6_5), [None, None, Drains(63), None]);
        assert_eq!(ticks(Features::MAINLINE_6_7), [Waits, Waits, Drains(63), None]);
        let mut p = Pageset { count: 100, batch: 63, expire: 3, ..Pageset::default() };
        assert_eq!((expire(&mut p, &Features::MAINLINE_6_7, true), p.expire), (None, 0), "it is this node's");
    }

    #[test]
    fn high_floats_up_to_an_eighth_of_the_zone() {
        let bounds = |f: Features, fraction| {
            let (least, most) = high_fractions(&f, fraction);
            (high_total(least, 100, 8000), high_total(most, 100, 8000))
        };
        assert_eq!([0, 10].map(|fraction| bounds(Features::PATCH6, fraction)), [(100, 100), (800, 800)]);
        assert_eq!([0, 10].map(|fraction| bounds(Features::PATCH7, fraction)), [(100, 1000), (800, 800)]);
    }

    #[test]
    fn high_bounds_of_a_two_cpu_node() {
        // Read from /proc/zoneinfo of a 6.18 machine with 2 CPUs, zones DMA, DMA32 and Normal.
        for (low, managed, batch, min, max) in
            [(15, 3840, 1, 7, 240), (3192, 772917, 63, 1596, 48307), (19081, 4622600, 63, 9540, 288912)]
        {
            assert_eq!(zone_highsize(low, 2, 2, batch), min);
            assert_eq!(zone_highsize(managed / 8, 2, 2, batch), max);
        }
    }
}
