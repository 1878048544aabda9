//! Direct compaction in an allocation, and what it and kcompactd begin with (`try_to_compact_pages`, `compact_zone` in
//! mm/compaction.c).

use super::policy::{self, ZoneState};
use super::zone_scan::ZoneScan;
use super::{CompactFor, CompactMode, CompactResult};
use crate::allocator::memory_map::ZoneType;
use crate::allocator::request::Request;
use crate::allocator::watermark::{Mark, Reserves};
use crate::kernel::{Kernel, Parts};

impl Kernel<'_> {
    /// Direct compaction for a request, one zone after the other, until one yields a block. It comes to the most that any zone did.
    pub(crate) fn try_to_compact_pages(
        &mut self,
        request: &Request,
        zones: &[usize],
        mode: CompactMode,
    ) -> CompactResult {
        let mut result = CompactResult::Skipped;
        for &z in zones {
            let order = request.order;
            if self.parts.allocator.zone_mut(z).compaction.deferral.is_deferred(order) {
                result = result.max(CompactResult::Deferred);
                continue;
            }
            let came_to = self.compact_zone(z, order, request.highest, mode);
            result = result.max(came_to);
            match came_to {
                CompactResult::Success => {
                    self.parts.allocator.zone_mut(z).compaction.deferral.note_success(order);
                    break;
                }
                CompactResult::Complete if mode != CompactMode::Async => {
                    self.parts.allocator.zone_mut(z).compaction.deferral.defer(order);
                }
                _ => {}
            }
        }
        result
    }

    /// Compacts a zone for an allocation until a block of `order` is free.
    fn compact_zone(&mut self, z: usize, order: u8, highest: ZoneType, mode: CompactMode) -> CompactResult {
        let mut scan = match self.begin_compaction(z, (order, highest), mode, CompactFor::Allocation) {
            Ok(scan) => scan,
            Err(result) => return result,
        };
        let is_done = |mm: &Parts| mm.allocator.zones()[z].buddy.has_movable_block(order);
        let found = loop {
            if let Some(found) = scan.step(self, is_done) {
                break found;
            }
        };
        scan.finish(self);
        if found { CompactResult::Success } else { CompactResult::Complete }
    }

    /// Begins to compact a zone for a block of an order that may lie in zones up to `highest`, if that is worth it
    /// (`compaction_suit_allocation_order`); the result, if it is not.
    pub(super) fn begin_compaction(
        &mut self,
        z: usize,
        (order, highest): (u8, ZoneType),
        mode: CompactMode,
        purpose: CompactFor,
    ) -> Result<ZoneScan, CompactResult> {
        let f = *self.on.features;
        if self.parts.allocator.zones()[z].is_above(&f, Mark::Min, order, highest, Reserves::default()) {
            return Err(CompactResult::Success);
        }
        if !self.is_suitable(z, order, highest) {
            return Err(CompactResult::Skipped);
        }
        if self.parts.allocator.zones()[z].compaction.deferral.is_restarting(order) {
            self.reset_isolation_suitable_of(z);
        }
        // Folios in a batch cannot be migrated; those of other CPUs are left alone (compact_zone).
        self.lru_add_drain();
        Ok(ZoneScan::new(self.parts, z, (order, mode), purpose))
    }

    fn is_suitable(&self, z: usize, order: u8, highest: ZoneType) -> bool {
        let blocks = self.parts.allocator.free_blocks(z);
        let (free, reserved) = self.free_and_reserved(z, highest);
        let state =
            self.zone_state(z, free.saturating_sub(reserved), policy::fragmentation_index(&blocks, order));
        policy::is_suitable(&state, order, self.on.settings.extfrag_threshold)
    }

    /// Whether enough pages of a zone would be free for a block of an order that may lie in zones up to `highest`, if `more` were free
    /// (`__compaction_suitable`).
    pub(crate) fn is_suitable_with(&self, z: usize, (order, highest): (u8, ZoneType), more: u64) -> bool {
        let (free, reserved) = self.free_and_reserved(z, highest);
        let state = self.zone_state(z, (free + more).saturating_sub(reserved), None);
        policy::is_suitable(&state, order, self.on.settings.extfrag_threshold)
    }

    /// A zone's free pages, and those that a request for zones up to `highest` may not use.
    fn free_and_reserved(&self, z: usize, highest: ZoneType) -> (u64, u64) {
        let zone = &self.parts.allocator.zones()[z];
        let reserved = zone.lowmem_reserve[highest as usize] + zone.kept_highatomic(self.on.features);
        (zone.free_pages() as u64, reserved)
    }

    fn zone_state(&self, z: usize, free: u64, fragmentation: Option<u64>) -> ZoneState {
        let zone = &self.parts.allocator.zones()[z];
        ZoneState { free, low: zone.wmark(Mark::Low), min: zone.wmark(Mark::Min), fragmentation }
    }
}
