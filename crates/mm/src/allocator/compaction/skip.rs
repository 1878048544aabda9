//! Pageblocks that compaction passes over, and when it looks at them again.
//!
//! ```text
//!   a scanner has been through ─► passed over ──────────────────────────────────────► looked at again, if it has
//!                                     scanners met in an allocation, then kswapd      a folio or a free block
//!                                     sleeps; or compaction restarts after the
//!                                     longest deferral
//! ```
//!
//! In the kernel: `set_pageblock_skip`, `__reset_isolation_suitable` in mm/compaction.c.

use crate::account::Category;
use crate::allocator::page::Pfn;
use crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;
use crate::kernel::{Kernel, Parts};
use machine::Node;

impl Kernel<'_> {
    /// Gives the pageblocks of a node's zones another chance, as kswapd does before it sleeps (`reset_isolation_suitable`).
    pub(crate) fn reset_isolation_suitable(&mut self, node: Node) {
        for z in self.parts.allocator.zones_from_lowest(node) {
            self.reset_isolation_suitable_of(z);
        }
    }

    /// Gives pageblocks of a zone that have folios or free pages another chance, if an allocation has compacted all of it in vain
    /// (`__reset_isolation_suitable`).
    pub(super) fn reset_isolation_suitable_of(&mut self, z: usize) {
        if !std::mem::take(&mut self.parts.allocator.zone_mut(z).compaction.flush_skipped) {
            return;
        }
        self.parts.allocator.zone_mut(z).compaction.scanners = None;
        let geometry = self.parts.allocator.geometry();
        let span = self.parts.allocator.zones()[z].buddy.span();
        let mut sampled = 0;
        for block in span.clone().step_by(geometry.pageblock_nr_pages() as usize) {
            if !self.parts.allocator.zones()[z].buddy.is_block_skipped(block) {
                continue;
            }
            let start = geometry.block_start(block);
            // Not all of its pages are looked at.
            let samples =
                (start..start + geometry.pageblock_nr_pages()).step_by(1 << PAGE_ALLOC_COSTLY_ORDER);
            let mut samples = samples.filter(|pfn| span.contains(pfn)).inspect(|_| sampled += 1);
            if samples.any(|pfn| self.parts.is_free_or_folio(z, pfn)) {
                self.parts.allocator.zone_mut(z).buddy.look_at_block(block);
            }
        }
        let cost = self.on.machine.costs.paging().compact_scan * sampled;
        self.on.machine.charge(self.on.cpu, Category::Compaction, cost);
    }
}

impl Parts {
    /// Whether a free block or a folio begins at `pfn`.
    fn is_free_or_folio(&self, z: usize, pfn: Pfn) -> bool {
        self.allocator.zones()[z].buddy.free_order(pfn).is_some() || self.folio_at(z, pfn).is_some()
    }
}
