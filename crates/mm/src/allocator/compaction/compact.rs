//! The callers of compaction: direct compaction in an allocation, kcompactd when woken, and proactive
//! kcompactd (`try_to_compact_pages`, `kcompactd_do_work`, `proactive_compact_node` in mm/compaction.c).

use super::policy::{self, ZoneState};
use super::{CompactMode, CompactResult, zone_scan};
use crate::allocator::memory_map::ZoneType;
use crate::allocator::request::Request;
use crate::allocator::watermark::{Mark, Reserves};
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use machine::Node;

impl Kernel<'_> {
    /// Direct compaction for a request, one zone after the other, until one yields a block.
    pub(crate) fn try_to_compact_pages(
        &mut self,
        request: &Request,
        zones: &[usize],
        mode: CompactMode,
    ) -> CompactResult {
        let mut result = CompactResult::Skipped;
        self.on.counters.add(Event::CompactStall, 1);
        for &z in zones {
            let order = request.order;
            if mode != CompactMode::Async
                && self.parts.allocator.zone_mut(z).compaction.deferral.is_deferred(order)
            {
                result = CompactResult::Deferred;
                continue;
            }
            let came_to = self.compact_zone(z, order, request.highest, mode);
            match came_to {
                CompactResult::Success => {
                    self.parts.allocator.zone_mut(z).compaction.deferral.note_success(order);
                    return came_to;
                }
                CompactResult::Complete if mode != CompactMode::Async => {
                    self.parts.allocator.zone_mut(z).compaction.deferral.defer(order);
                }
                _ => {}
            }
            result = came_to;
        }
        result
    }

    /// Compacts a zone until a block of `order` is free.
    fn compact_zone(&mut self, z: usize, order: u8, highest: ZoneType, mode: CompactMode) -> CompactResult {
        let f = *self.on.features;
        if self.parts.allocator.zones()[z].is_above(&f, Mark::Low, order, highest, Reserves::default()) {
            return CompactResult::Success;
        }
        if !self.is_suitable(z, order, highest) {
            return CompactResult::Skipped;
        }
        // Folios in a batch cannot be migrated; those of other CPUs are left alone (compact_zone).
        self.lru_add_drain();
        let mut scan = zone_scan::ZoneScan::new(self.parts, z, order, mode);
        let is_done = |mm: &Parts| mm.allocator.zones()[z].buddy.has_movable_block(order);
        let found = scan.run(self, is_done);
        scan.finish(self);
        if found { CompactResult::Success } else { CompactResult::Complete }
    }

    /// Runs a node's kcompactd if it was woken. Returns whether it was (`kcompactd_do_work`).
    pub fn kcompactd(&mut self, node: Node) -> bool {
        let Some((order, highest)) = self.parts.allocator.kcompactds[node.index()].wanted.take() else {
            return false;
        };
        self.on.counters.add(Event::KcompactdWake, 1);
        let zones =
            (0..self.parts.allocator.zones().len()).filter(|&z| self.parts.allocator.zones()[z].node == node);
        let zones: Vec<usize> = zones.filter(|&z| self.parts.allocator.zones()[z].kind <= highest).collect();
        for z in zones {
            if self.parts.allocator.zone_mut(z).compaction.deferral.is_deferred(order) {
                continue;
            }
            match self.compact_zone(z, order, highest, CompactMode::SyncLight) {
                CompactResult::Success => {
                    self.parts.allocator.zone_mut(z).compaction.deferral.note_success(order)
                }
                CompactResult::Complete => self.parts.allocator.zone_mut(z).compaction.deferral.defer(order),
                CompactResult::Skipped | CompactResult::Deferred => {}
            }
        }
        true
    }

    /// Whether a node is so fragmented that proactive compaction is worth it (`should_proactive_compact_node`).
    pub fn should_compact_proactively(&self, node: Node) -> bool {
        let proactiveness = self.on.settings.compaction_proactiveness;
        let (_, high) = policy::proactive_marks(proactiveness);
        proactiveness != 0 && self.parts.allocator.fragmentation_score(node) > high
    }

    /// Proactive compaction, which kcompactd tries every half second (`proactive_compact_node`). Returns
    /// whether it ran.
    pub fn proactive_compaction(&mut self, node: Node) -> bool {
        if !self.should_compact_proactively(node) {
            return false;
        }
        let (low, _) = policy::proactive_marks(self.on.settings.compaction_proactiveness);
        let before = self.parts.allocator.fragmentation_score(node);
        let skips = &mut self.parts.allocator.kcompactds[node.index()].proactive_skips;
        if *skips > 0 {
            *skips -= 1;
            return false;
        }
        for z in (0..self.parts.allocator.zones().len())
            .filter(|&z| self.parts.allocator.zones()[z].node == node)
            .collect::<Vec<_>>()
        {
            let mut scan = zone_scan::ZoneScan::whole(self.parts, z);
            scan.run(self, |mm: &Parts| mm.allocator.fragmentation_score(node) <= low);
            scan.finish(self);
        }
        if self.parts.allocator.fragmentation_score(node) >= before {
            self.parts.allocator.kcompactds[node.index()].proactive_skips = 1 << policy::MAX_DEFER_SHIFT;
        }
        true
    }

    fn is_suitable(&self, z: usize, order: u8, highest: ZoneType) -> bool {
        let zone = &self.parts.allocator.zones()[z];
        let unusable = zone.lowmem_reserve[highest as usize] + zone.kept_highatomic(self.on.features);
        let state = ZoneState {
            free: (zone.free_pages() as u64).saturating_sub(unusable),
            low: zone.wmark(Mark::Low),
            min: zone.wmark(Mark::Min),
            fragmentation: policy::fragmentation_index(&self.parts.allocator.free_blocks(z), order),
        };
        policy::is_suitable(&state, order, self.on.settings.extfrag_threshold)
    }
}
