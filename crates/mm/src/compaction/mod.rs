//! Compaction: moving pages in use together, so that what is free becomes blocks.
//!
//! ```text
//!   zone    │■ ■■ │■ ■  │u■ ■ │     │ ■ ■ │    ■│        ■ movable page   u one that stays
//!            migrate scanner ─►               ◄─ free scanner
//!
//!   after   │     │     │u    │     │■■■■■│■■■■■│        until a block of the wanted order is free, or they meet
//! ```
//!
//! The migrate scanner goes upwards and isolates folios; the free scanner goes downwards and isolates free pages for them.
//! Both take whole pageblocks of movable type; an asynchronous run leaves others alone, a synchronous one takes what is
//! movable there too. A folio as large as what is wanted is not moved. Pages that no folio has (the kernel's own) stay
//! where they are, and so do folios that somebody holds or writes.
//!
//! Who compacts: a request that may wait for it (`try_to_compact_pages`), and kcompactd of each node, when
//! kswapd has freed enough pages but not the block that was wanted, or when free memory is too scattered for 2 MiB.
//!
//! Left out: skip bits of pageblocks, the fast searches of the free scanner, capturing of freed pages. In the kernel:
//! mm/compaction.c; `migrate_folio_move` in mm/migrate.c.

pub mod policy;
mod zone_scan;

use crate::counters::Event;
use crate::kernel::Kernel;
use crate::memory_map::ZoneType;
use crate::page::Pfn;
use crate::page_alloc::{MemoryManager, Request};
use crate::watermark::{Mark, Reserves};
use machine::Node;
use policy::{Deferral, FreeBlocks, ZoneState, unusable_free_index};

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactMode {
    /// Only through movable pageblocks (`MIGRATE_ASYNC`).
    Async,
    /// Through all (`MIGRATE_SYNC_LIGHT`).
    SyncLight,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactResult {
    /// There are not enough free pages to begin with.
    Skipped,
    /// It failed lately.
    Deferred,
    /// A block is free.
    Success,
    /// The scanners met, and no block is free.
    Complete,
}

/// What is kept of a zone between runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactState {
    /// Where the scanners go on; none if from the ends.
    pub(crate) scanners: Option<(Pfn, Pfn)>,
    /// How far it is put off.
    pub deferral: Deferral,
}

/// What kcompactd of a node has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KcompactdState {
    pub wanted: Option<(u8, ZoneType)>,
    /// Proactive runs that are still skipped because the last one was in vain.
    pub proactive_skips: u32,
}

impl Kernel<'_> {
    /// Direct compaction for a request, zone by zone.
    pub(crate) fn try_to_compact_pages(
        &mut self,
        request: &Request,
        zones: &[usize],
        mode: CompactMode,
    ) -> CompactResult {
        let mut result = CompactResult::Skipped;
        self.mm.counters.add(Event::CompactStall, 1);
        for &z in zones {
            let order = request.order;
            if mode != CompactMode::Async && self.mm.zone_mut(z).compaction.deferral.is_deferred(order) {
                result = CompactResult::Deferred;
                continue;
            }
            let came_to = self.compact_zone(z, order, request.highest, mode);
            match came_to {
                CompactResult::Success => {
                    self.mm.zone_mut(z).compaction.deferral.reset(order, false);
                    return came_to;
                }
                CompactResult::Complete if mode != CompactMode::Async => {
                    self.mm.zone_mut(z).compaction.deferral.defer(order);
                }
                _ => {}
            }
            result = came_to;
        }
        result
    }

    /// Compacts a zone until a block of `order` is free there.
    fn compact_zone(&mut self, z: usize, order: u8, highest: ZoneType, mode: CompactMode) -> CompactResult {
        let f = *self.mm.features();
        if self.mm.zones()[z].is_above(&f, Mark::Low, order, highest, Reserves::default()) {
            return CompactResult::Success;
        }
        if !self.mm.is_suitable(z, order, highest) {
            return CompactResult::Skipped;
        }
        let mut scan = zone_scan::ZoneScan::new(self.mm, z, order, mode);
        let is_done = |mm: &MemoryManager| mm.zones()[z].buddy.has_movable_block(order);
        let found = scan.run(self, is_done);
        scan.finish(self);
        if found { CompactResult::Success } else { CompactResult::Complete }
    }

    /// What kcompactd of a node does if somebody has woken it; whether it did anything (`kcompactd_do_work`).
    pub fn kcompactd(&mut self, node: Node) -> bool {
        let Some((order, highest)) = self.mm.kcompactds[node.index()].wanted.take() else { return false };
        self.mm.counters.add(Event::KcompactdWake, 1);
        let zones = (0..self.mm.zones().len()).filter(|&z| self.mm.zones()[z].node == node);
        let zones: Vec<usize> = zones.filter(|&z| self.mm.zones()[z].kind <= highest).collect();
        for z in zones {
            if self.mm.zone_mut(z).compaction.deferral.is_deferred(order) {
                continue;
            }
            match self.compact_zone(z, order, highest, CompactMode::SyncLight) {
                CompactResult::Success => self.mm.zone_mut(z).compaction.deferral.reset(order, false),
                CompactResult::Complete => self.mm.zone_mut(z).compaction.deferral.defer(order),
                CompactResult::Skipped | CompactResult::Deferred => {}
            }
        }
        true
    }

    /// What kcompactd does every half second of its own accord (`proactive_compact_node`); whether it did anything.
    pub fn proactive_compaction(&mut self, node: Node) -> bool {
        let (low, high) = policy::proactive_marks(self.mm.settings.compaction_proactiveness);
        let before = self.mm.fragmentation_score(node);
        let skips = &mut self.mm.kcompactds[node.index()].proactive_skips;
        if self.mm.settings.compaction_proactiveness == 0 || before <= high {
            return false;
        }
        if *skips > 0 {
            *skips -= 1;
            return false;
        }
        for z in (0..self.mm.zones().len()).filter(|&z| self.mm.zones()[z].node == node).collect::<Vec<_>>() {
            let mut scan = zone_scan::ZoneScan::whole(self.mm, z);
            scan.run(self, |mm: &MemoryManager| mm.fragmentation_score(node) <= low);
            scan.finish(self);
        }
        if self.mm.fragmentation_score(node) >= before {
            self.mm.kcompactds[node.index()].proactive_skips = 1 << policy::MAX_DEFER_SHIFT;
        }
        true
    }
}

impl MemoryManager {
    /// Free blocks of a zone by order.
    pub fn free_blocks(&self, zone: usize) -> FreeBlocks {
        std::array::from_fn(|order| self.zones()[zone].buddy.nr_free(order as u8))
    }

    fn is_suitable(&self, z: usize, order: u8, highest: ZoneType) -> bool {
        let zone = &self.zones()[z];
        let unusable = zone.lowmem_reserve[highest as usize];
        let state = ZoneState {
            free: (zone.free_pages() as u64).saturating_sub(unusable),
            low: zone.wmark(Mark::Low),
            min: zone.wmark(Mark::Min),
            fragmentation: policy::fragmentation_index(&self.free_blocks(z), order),
        };
        policy::is_suitable(&state, order, self.settings.extfrag_threshold)
    }

    /// Asks kcompactd of a node for a block (`wakeup_kcompactd`).
    pub(crate) fn wake_kcompactd(&mut self, node: Node, order: u8, highest: ZoneType) {
        if order == 0 {
            return;
        }
        let wanted = &mut self.kcompactds[node.index()].wanted;
        let (old_order, old_highest) = wanted.unwrap_or((0, ZoneType::Dma));
        *wanted = Some((old_order.max(order), old_highest.max(highest)));
    }

    /// How scattered the free memory of a node is for blocks of 2 MiB, percent, its zones weighed by their size
    /// (`fragmentation_score_node`).
    pub fn fragmentation_score(&self, node: Node) -> u64 {
        let zones = (0..self.zones().len()).filter(|&z| self.zones()[z].node == node);
        let present: u64 = self.zones_of(node).map(|zone| zone.managed).sum();
        zones
            .map(|z| {
                let index = unusable_free_index(&self.free_blocks(z), self.geometry().pageblock_order);
                self.zones()[z].managed * index / (present + 1)
            })
            .sum()
    }
}
