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

mod compact;
pub mod policy;
mod zone_scan;

use crate::allocator::PageAllocator;
use crate::allocator::memory_map::ZoneType;
use crate::allocator::page::Pfn;
use machine::Node;
use policy::{Deferral, FreeBlocks, unusable_free_index};

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

impl PageAllocator {
    /// Free blocks of a zone by order.
    pub fn free_blocks(&self, zone: usize) -> FreeBlocks {
        std::array::from_fn(|order| self.zones()[zone].buddy.nr_free(order as u8))
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
