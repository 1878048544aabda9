//! Reclaim: which folios are evicted when memory runs short.
//!
//! ```text
//!   a memcg at its limit ─┐
//!   no zone above its ────┼─► priority 12, 11, ... 0: for each memcg below: its lruvec's lists ─► isolate 32
//!   watermark (direct)    │                                                          │
//!   kswapd ───────────────┘                              free ◄─ folio_list ◄────────┘
//!                                                          │         └──► kept, or active again
//!   classic     active and inactive lists                  └─ shadow, memory back to the allocator
//!   mglru       generations (crate::lru::mglru)
//! ```
//!
//! ```text
//!   features      what each kernel does         classic       shrinking of active and inactive lists
//!   policy        how much, which, enough?      folio_list    what becomes of isolated folios
//!   kswapd        reclaim in the background     demotion      migration to slower nodes instead of eviction
//!   node_walk     from which memcgs, in turn
//! ```
//!
//! In the kernel: mm/vmscan.c, 6.1 to 7.2.

mod classic;
mod demotion;
pub mod features;
mod folio_list;
mod kswapd;
mod node_walk;
pub mod policy;

pub(crate) use classic::skip_event;
pub use kswapd::Kswapd;
pub(crate) use node_walk::NodeWalk;

use crate::address_space::mlock;
use crate::allocator::PageAllocator;
use crate::allocator::memory_map::ZoneType;
use crate::allocator::request::{Effort, OutOfMemory, PAGE_ALLOC_COSTLY_ORDER, Request};
use crate::allocator::watermark::Mark;
use crate::counters::Event;
use crate::delayacct::Cause;
use crate::features::Features;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{Census, Folio, FolioFlags, FolioId, ListEnd, LruvecId};
use crate::lru::lruvec::{LruList, Lruvec};
use crate::lru::memcontrol::{CHARGE_BATCH, FLUSH_INTERVAL, Memcg, MemoryCgroup};
use crate::lru::mmzone::LruType;
use crate::lru::workingset::policy::age_by_activation;
use crate::sysctl::Settings;
use machine::{Node, Time};
use policy::{DEF_PRIORITY, MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX, SlabScan, compact_gap, walks_in_part};

/// Bytes that an xarray node of 64 slots is charged with: the node (`struct xa_node`) and the pointer to its
/// memcg (`obj_full_size`).
const XA_NODE_BYTES: u64 = 576 + 8;

/// The parameters and progress of one reclaim (`struct scan_control`).
#[derive(Clone, Debug)]
pub(crate) struct ScanControl {
    /// The memcg whose limit was hit; the root if the machine's memory runs short (`target_mem_cgroup`).
    pub target: Memcg,
    /// Pages to reclaim.
    pub nr_to_reclaim: u64,
    /// Pages looked at.
    pub nr_scanned: u64,
    /// Pages reclaimed.
    pub nr_reclaimed: u64,
    /// Order of the block that is wanted.
    pub order: u8,
    /// From 12, the gentlest, down to 0.
    pub priority: u8,
    /// The highest zone that memory is wanted from (`reclaim_idx`).
    pub highest: ZoneType,
    /// Whether kswapd reclaims, and not a task that waits for memory (`current_is_kswapd`).
    pub kswapd: bool,
    /// Whether anonymous folios may be swapped out.
    pub may_swap: bool,
    /// Whether folios are reclaimed although they have been accessed (`ignore_references` of `shrink_folio_list`).
    pub ignore_references: bool,
    /// Whether folios are not moved to a slower node instead of being reclaimed.
    pub no_demotion: bool,
    /// Whether active folios may be deactivated, indexed by type (`may_deactivate`).
    pub may_deactivate: [bool; 2],
    /// Whether folios of both types may be deactivated in any case.
    pub force_deactivate: bool,
    /// Whether folios were left alone that could have been deactivated.
    pub skipped_deactivate: bool,
    /// Whether memcgs are reclaimed from although memory.low protects them.
    pub memcg_low_reclaim: bool,
    /// Whether memcgs were left alone because memory.low protects them.
    pub memcg_low_skipped: bool,
    /// Whether only file pages are scanned, as there are many inactive ones.
    pub cache_trim_mode: bool,
    /// Whether `cache_trim_mode` is out of the question, as it has failed before.
    pub no_cache_trim_mode: bool,
    /// Whether `cache_trim_mode` was on and nothing was reclaimed.
    pub cache_trim_mode_failed: bool,
    /// Whether there are hardly any file pages left.
    pub file_is_tiny: bool,
    /// What reclaim of each type has cost lately, indexed by type.
    pub cost: [u64; 2],
    /// File pages that the multi-gen LRU has isolated, or moved on because they are dirty, in the current
    /// pass.
    pub file_taken: u64,
    /// Dirty file pages among them that are not under writeback.
    pub unqueued_dirty: u64,
    /// Whether this reclaim may walk page tables: then the rmap promotes folios at once instead of through a
    /// batch (`mm_walk`).
    pub mm_walk: bool,
    /// Whether all memcgs are walked because a walk in part has found nothing (`memcg_full_walk`).
    pub memcg_full_walk: bool,
    /// kswapd of 6.1: whether no lruvec has yet been seen to have enough cold pages.
    pub memcgs_need_aging: bool,
}

impl ScanControl {
    pub fn new(target: Memcg, nr_to_reclaim: u64, order: u8, highest: ZoneType) -> ScanControl {
        ScanControl {
            target,
            nr_to_reclaim,
            nr_scanned: 0,
            nr_reclaimed: 0,
            order,
            priority: DEF_PRIORITY,
            highest,
            kswapd: false,
            may_swap: true,
            ignore_references: false,
            no_demotion: false,
            may_deactivate: [false; 2],
            force_deactivate: false,
            skipped_deactivate: false,
            memcg_low_reclaim: false,
            memcg_low_skipped: false,
            cache_trim_mode: false,
            no_cache_trim_mode: false,
            cache_trim_mode_failed: false,
            file_is_tiny: false,
            cost: [0; 2],
            file_taken: 0,
            unqueued_dirty: 0,
            mm_walk: false,
            memcg_full_walk: false,
            memcgs_need_aging: true,
        }
    }

    /// Forgets which file pages were dirty before the next pass.
    pub(in crate::lru) fn forget_dirty(&mut self) {
        (self.file_taken, self.unqueued_dirty) = (0, 0);
    }

    /// Whether this is reclaim for the limit of a memcg (`cgroup_reclaim`).
    pub fn is_for_cgroup(&self) -> bool {
        self.target != Memcg::ROOT
    }
}

impl Kernel<'_> {
    /// Charges `pages` to `memcg`, with reclaim if a limit is in the way and `effort` allows it
    /// (`try_charge_memcg`).
    pub(crate) fn charge_memcg(
        &mut self,
        memcg: Memcg,
        pages: u64,
        effort: Effort,
    ) -> Result<(), OutOfMemory> {
        let mut batch = CHARGE_BATCH.max(pages);
        let mut drained = false;
        let mut retries = MAX_RECLAIM_RETRIES;
        loop {
            let Err(full) = self.parts.lrus.memcgs.try_charge(self.on.cpu.index(), memcg, pages, batch)
            else {
                if effort.direct && self.parts.lrus.memcgs.pages_over_high(self.on.cpu) > CHARGE_BATCH {
                    self.handle_over_high(memcg);
                }
                return Ok(());
            };
            if batch > pages {
                batch = pages;
                continue;
            }
            self.parts.lrus.memcgs.get_mut(full).max_events += 1;
            if effort.memalloc {
                self.parts.lrus.memcgs.force_charge(memcg, pages);
                return Ok(());
            }
            if !effort.direct {
                return Err(OutOfMemory);
            }
            let reclaimed =
                self.delays_task(Cause::MemoryMax, |kernel| kernel.try_to_free_mem_cgroup_pages(full, pages));
            if self.parts.lrus.memcgs.margin(full) >= pages {
                continue;
            }
            if !drained {
                self.parts.lrus.memcgs.drain_all_stock(full);
                drained = true;
                continue;
            }
            if effort.no_retry {
                return Err(OutOfMemory);
            }
            if reclaimed == 0 {
                // If the task has submitted writes, it waits for the device instead of retrying here.
                if retries == 0 || !self.parts.page_cache.submitted_writes().is_empty() {
                    return Err(OutOfMemory);
                }
                retries -= 1;
            }
        }
    }

    /// Reclaims from `target` and all memcgs below it because of its limit (`try_to_free_mem_cgroup_pages`).
    #[inline(never)]
    pub(crate) fn try_to_free_mem_cgroup_pages(&mut self, target: Memcg, pages: u64) -> u64 {
        let mut sc = ScanControl::new(target, pages.max(SWAP_CLUSTER_MAX), 0, ZoneType::Movable);
        let nodes = self.on.machine.topology.nodes_by_distance(self.on.machine.node(self.on.cpu));
        self.do_try_to_free_pages(&mut sc, &nodes);
        sc.nr_reclaimed
    }

    /// Direct reclaim from the nodes that may serve a request, whose preferred one is `node`: none of their zones is above its watermark
    /// (`try_to_free_pages`).
    pub(crate) fn try_to_free_pages(&mut self, request: &Request, node: Node) -> u64 {
        let mut sc = ScanControl::new(Memcg::ROOT, SWAP_CLUSTER_MAX, request.order, request.highest);
        let nodes = self.parts.allocator.nodes_for(node, request);
        self.delays_task(Cause::DirectReclaim, |kernel| kernel.do_try_to_free_pages(&mut sc, &nodes));
        sc.nr_reclaimed
    }

    fn do_try_to_free_pages(&mut self, sc: &mut ScanControl, nodes: &[Node]) {
        loop {
            if !sc.is_for_cgroup() {
                let stalled = [
                    Event::AllocstallDma,
                    Event::AllocstallDma32,
                    Event::AllocstallNormal,
                    Event::AllocstallMovable,
                ];
                self.on.counters.add(stalled[sc.highest as usize], 1);
            }
            let has_enough = self.shrink_zones(sc, nodes);
            self.parts.snapshot_refaults(sc.target);
            if has_enough || sc.nr_reclaimed > 0 {
                return;
            }
            if walks_in_part(&self.on.features.reclaim, sc.kswapd, sc.memcg_full_walk) {
                sc.memcg_full_walk = true;
            } else if sc.skipped_deactivate {
                sc.force_deactivate = true;
                sc.skipped_deactivate = false;
            } else if sc.memcg_low_skipped {
                sc.force_deactivate = false;
                sc.memcg_low_reclaim = true;
                sc.memcg_low_skipped = false;
            } else {
                return;
            }
        }
    }

    /// Shrinks nodes one after the other, once at each priority until there is enough. Returns whether there is.
    fn shrink_zones(&mut self, sc: &mut ScanControl, nodes: &[Node]) -> bool {
        (0..=DEF_PRIORITY).rev().any(|priority| {
            sc.priority = priority;
            sc.nr_scanned = 0;
            for &node in nodes {
                self.shrink_node(node, sc);
            }
            // What is written comes back when the device is done, which is between calls here: where that is enough, looking on
            // would write more and more.
            let written = self.parts.page_cache.submitted_writes().len() as u64;
            sc.nr_reclaimed + written >= sc.nr_to_reclaim
        })
    }

    /// Runs the shrinkers for a memcg: splits queued large folios, frees the huge zero folio, and frees
    /// shadow nodes of the page cache if there are too many for the pages that the memcg has in memory
    /// (`shrink_slab`, `count_shadow_nodes`).
    pub(crate) fn shrink_slab(&mut self, memcg: Memcg, node: Node, priority: u8) {
        let lruvec = self.parts.lrus.lruvec_of(memcg, node);
        self.shrink_deferred_splits(lruvec, priority);
        self.shrink_zswap(lruvec, priority);
        if memcg == Memcg::ROOT {
            self.shrink_huge_zero_folio(priority);
        }
        let (nodes, shadow_nodes) = self.parts.page_cache.files.nodes_of(lruvec);
        let on_lists: u64 = self.parts.lrus.lruvecs[lruvec].stat.nr_lru.iter().sum();
        let pages = on_lists + nodes * XA_NODE_BYTES / self.parts.allocator.page_size().bytes();
        let freeable = shadow_nodes.saturating_sub(pages >> 3);
        if freeable == 0 {
            return;
        }
        let deferred = self.parts.lrus.lruvecs[lruvec].deferred_shadow_nodes;
        let mut slab = SlabScan::new(freeable, deferred, priority, None);
        while let Some(batch) = slab.batch() {
            let freed = self.parts.page_cache.files.free_shadow_nodes(lruvec, batch);
            self.on.counters.add(Event::WorkingsetNodereclaim, freed);
            slab.scanned(batch);
            if freed == 0 {
                break;
            }
        }
        self.parts.lrus.lruvecs[lruvec].deferred_shadow_nodes = slab.deferred();
    }

    /// Whether reclaim for a larger block goes on, as compaction needs more free pages and there are pages to
    /// reclaim (`should_continue_reclaim`).
    fn should_continue_reclaim(&self, node: Node, reclaimed: u64, sc: &ScanControl) -> bool {
        let for_compaction =
            sc.order > 0 && (sc.order > PAGE_ALLOC_COSTLY_ORDER || sc.priority < DEF_PRIORITY - 2);
        if !for_compaction || reclaimed == 0 {
            return false;
        }
        let free: u64 = self
            .parts
            .allocator
            .zones_of(node)
            .filter(|zone| zone.kind <= sc.highest)
            .map(|zone| (zone.free_pages().max(0) as u64).saturating_sub(zone.wmark(Mark::Low)))
            .sum();
        if free > compact_gap(&self.on.features.reclaim, sc.order) {
            return false;
        }
        let inactive = self.on_lists(node, LruList::InactiveFile, LruList::InactiveAnon);
        inactive > compact_gap(&self.on.features.reclaim, sc.order)
    }

    /// Pages of a node that reclaim can get at (`zone_reclaimable_pages`).
    pub(crate) fn reclaimable_pages(&self, node: Node) -> u64 {
        self.on_lists(node, LruList::InactiveFile, LruList::InactiveAnon)
            + self.on_lists(node, LruList::ActiveFile, LruList::ActiveAnon)
    }

    /// Pages of a node on lists of files, and on those of anonymous memory if it can be reclaimed.
    fn on_lists(&self, node: Node, file: LruList, anon: LruList) -> u64 {
        let anon = self.can_reclaim_anon(Memcg::ROOT, node).then_some(anon);
        let lruvecs = self.parts.lrus.lruvecs.iter().filter(|lruvec| lruvec.node == node);
        let lists = move |lruvec: &Lruvec| {
            [Some(file), anon]
                .into_iter()
                .flatten()
                .map(|list| lruvec.stat.nr_lru[list as usize])
                .sum::<u64>()
        };
        lruvecs.map(lists).sum()
    }

    /// Whether anonymous pages of a memcg on a node can be swapped out or demoted (`can_reclaim_anon_pages`).
    pub(crate) fn can_reclaim_anon(&self, memcg: Memcg, node: Node) -> bool {
        self.parts.lrus.memcgs.swap_margin(memcg, self.parts.swap.free()) > 0 || self.can_demote(node)
    }

    /// Whether it is worth aging anonymous pages on a node (`can_age_anon_pages`).
    fn can_age_anon(&self, node: Node) -> bool {
        self.parts.swap.total() > 0 || self.can_demote(node)
    }

    /// Notes what reclaim of a type has cost: `io` pages written or read again, and `rotated` pages scanned
    /// in vain (`lru_note_cost`).
    pub(crate) fn lru_note_cost(&mut self, lruvec: LruvecId, lru_type: LruType, io: u64, rotated: u64) {
        let cost = policy::reclaim_cost(&self.on.features.reclaim, io, rotated);
        if cost == 0 {
            return;
        }
        let mut lruvec = lruvec;
        loop {
            let sizes = self.parts.lrus.lru_sizes(lruvec);
            let pages: u64 = LruList::EVICTABLE.iter().map(|&list| sizes[list as usize]).sum();
            let at = &mut self.parts.lrus.lruvecs[lruvec];
            at.cost[lru_type as usize] += cost;
            if at.cost[0] + at.cost[1] > pages / 4 {
                at.cost = at.cost.map(|cost| cost / 2);
            }
            let (memcg, node) = (at.memcg, at.node);
            let Some(parent) = self.parts.lrus.memcgs.get(memcg).parent else { break };
            lruvec = self.parts.lrus.lruvec_of(parent, node);
        }
    }

    /// Puts isolated folios back onto lists, in this order (`move_folios_to_lru`).
    pub(crate) fn move_folios_to_lru(&mut self, lruvec: LruvecId, folios: &[FolioId]) {
        let lru = self.parts.lrus.lru();
        let mut activated = 0;
        let at = &mut self.parts.lrus.lruvecs[lruvec];
        for &id in folios {
            let flags = &mut self.parts.lrus.folios.flags[id];
            flags.set(FolioFlags::LRU);
            mlock::cull(flags, self.on.counters);
            if flags.has(FolioFlags::ACTIVE) {
                activated += flags.nr_pages();
            }
            at.add(&mut self.parts.lrus.folios, &lru, id, ListEnd::Head);
        }
        let age = age_by_activation(&self.reclaim_features(), activated);
        if age > 0 {
            self.parts.lrus.workingset_age_nonresident(lruvec, age);
        }
    }
}

impl Lrus {
    /// The memcg at which reclaim for `target` on a node stopped when it had enough; `None` if it came to the end
    /// (`mem_cgroup_reclaim_iter`).
    fn last_reclaimed(&self, target: Memcg, node: Node) -> Option<Memcg> {
        self.lruvec(target, node).last_reclaimed
    }

    fn note_last_reclaimed(&mut self, target: Memcg, node: Node, memcg: Option<Memcg>) {
        let lruvec = self.lruvec_of(target, node);
        self.lruvecs[lruvec].last_reclaimed = memcg;
    }

    /// The number of the lruvec of a memcg on a node (`mem_cgroup_lruvec`).
    #[inline]
    pub(crate) fn lruvec_of(&self, memcg: Memcg, node: Node) -> LruvecId {
        self.lruvecs.id(memcg, node)
    }

    /// The lruvec of a memcg on a node.
    pub fn lruvec(&self, memcg: Memcg, node: Node) -> &Lruvec {
        &self.lruvecs[self.lruvec_of(memcg, node)]
    }

    /// Makes a memory cgroup without limits below `parent`.
    pub fn create_memcg(&mut self, parent: Memcg) -> Memcg {
        let memcg = self.memcgs.create(Some(parent));
        self.make_lruvecs(memcg);
        memcg
    }

    /// Makes the lruvecs of a new memcg.
    pub(crate) fn make_lruvecs(&mut self, memcg: Memcg) {
        self.lruvecs.add(&mut self.folios, memcg);
        self.memcg_online(memcg);
    }

    /// Pages on each kind of list, summed over all memcgs and nodes (`nr_inactive_anon` and so on).
    pub fn nr_lru(&self) -> [u64; LruList::COUNT] {
        let mut sum = [0; LruList::COUNT];
        for lruvec in self.lruvecs.iter() {
            sum.iter_mut().zip(lruvec.stat.nr_lru).for_each(|(sum, pages)| *sum += pages);
        }
        sum
    }

    pub fn memcg(&self, memcg: Memcg) -> &MemoryCgroup {
        self.memcgs.get(memcg)
    }

    pub fn memcg_mut(&mut self, memcg: Memcg) -> &mut MemoryCgroup {
        self.memcgs.get_mut(memcg)
    }

    /// Flushes the statistics of memory cgroups, as reading memory.stat does.
    pub fn flush_stats(&mut self, now: Time) {
        self.memcgs.flush_stats(&mut self.lruvecs, now);
    }

    /// Flushes them if enough has changed (`mem_cgroup_flush_stats`).
    pub fn flush_stats_if_needed(&mut self, now: Time, cpus: usize) {
        let updates: u64 = self.lruvecs.iter().map(|lruvec| lruvec.stat_updates).sum();
        if updates > CHARGE_BATCH * cpus as u64 {
            self.flush_stats(now);
        }
    }

    /// Flushes them if the last flush is two intervals ago (`mem_cgroup_flush_stats_ratelimited`).
    pub(crate) fn flush_stats_if_late(&mut self, now: Time) {
        if now > self.memcgs.flushed_at() + FLUSH_INTERVAL * 2 {
            self.flush_stats(now);
        }
    }

    /// Flushes them every two seconds (`flush_memcg_stats_dwork`).
    pub fn flush_stats_periodically(&mut self, now: Time) {
        if now >= self.memcgs.flushed_at() + FLUSH_INTERVAL {
            self.flush_stats(now);
        }
    }

    /// File pages on lists (`nr_active_file` + `nr_inactive_file`).
    pub(crate) fn nr_file_lru(&self) -> u64 {
        self.lruvecs.iter().map(|lruvec| lruvec.stat.nr_file()).sum()
    }

    /// Whether memory.min protects all of `memcg` from reclaim of `target` (`mem_cgroup_below_min`).
    pub(crate) fn is_below_min(&self, memcg: Memcg, target: Memcg) -> bool {
        let min = self.memcgs.protection(memcg, target, |group| group.min);
        min > 0 && self.memcgs.get(memcg).current <= min
    }

    /// Whether memory.low protects all of `memcg` from reclaim of `target` (`mem_cgroup_below_low`).
    pub(crate) fn is_below_low(&self, memcg: Memcg, target: Memcg) -> bool {
        let low = self.memcgs.protection(memcg, target, |group| group.low);
        low > 0 && self.memcgs.get(memcg).current <= low
    }
}

impl PageAllocator {
    /// Pages that the watermarks and the reserves for lower zones keep from programs (`totalreserve_pages`).
    pub(crate) fn totalreserve_pages(&self) -> u64 {
        let reserved = |zone: &crate::Zone| {
            let reserve = zone.lowmem_reserve.iter().max().copied().unwrap_or(0);
            (reserve + zone.wmark(Mark::High)).min(zone.managed)
        };
        self.zones().iter().map(reserved).sum()
    }
}

impl Parts {
    /// Pages that new programs could get without swapping (`si_mem_available`, MemAvailable).
    pub fn si_mem_available(&self) -> u64 {
        let reserve = self.allocator.totalreserve_pages();
        let low: u64 = self.allocator.zones().iter().map(|zone| zone.wmark(Mark::Low)).sum();
        let cache = self.lrus.nr_file_lru();
        self.allocator.free_pages().saturating_sub(reserve) + cache - low.min(cache / 2)
    }

    /// Remembers `workingset_activate` as of the end of reclaim (`snapshot_refaults`).
    fn snapshot_refaults(&mut self, target: Memcg) {
        let exact = self.lrus.memcgs.len() == 1;
        for node in self.allocator.all_nodes() {
            let id = self.lrus.lruvec_of(target, node);
            let lruvec = &mut self.lrus.lruvecs[id];
            lruvec.refaults = if exact { lruvec.stat.activate } else { lruvec.flushed.activate };
        }
    }

    /// Panics if an invariant of folios does not hold, of those that hold between calls. Returns the number
    /// of pages in folios and in the pool of zswap.
    pub(crate) fn validate_folios(&self, features: &Features, settings: &Settings) -> u64 {
        let mut census = Census::new(&self.lrus.folios, self.lrus.lruvecs.len());
        self.lrus.validate_batches(&mut census);
        for lruvec in self.lrus.lruvecs.iter() {
            lruvec.validate(&self.lrus.folios, &self.lrus.lru, &mut census);
        }
        census.validate(&self.lrus.folios);
        let anon = |&(id, _): &(FolioId, Folio)| self.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED);
        let files = self.lrus.folios.len() - census.all(&self.lrus.folios).filter(anon).count();
        assert_eq!(
            self.page_cache.files.validate(&self.lrus.folios),
            files,
            "pages of files and slots with folios"
        );
        self.validate_dirty_pages(&census);
        self.validate_large_folios(features, settings, &census);
        self.validate_mlock(&census);
        let users = self.validate_page_tables(&census);
        let swap = self.validate_swap(&census, &users);
        let memory: Vec<u64> =
            census.of_lruvec.chunks(self.allocator.nodes()).map(|nodes| nodes.iter().sum()).collect();
        let (compressed, pool) = self.validate_zswap();
        let charged: Vec<u64> = memory.iter().zip(compressed).map(|(folios, zswap)| folios + zswap).collect();
        self.lrus.memcgs.validate(&charged, &swap);
        memory.iter().sum::<u64>() + pool
    }
}
