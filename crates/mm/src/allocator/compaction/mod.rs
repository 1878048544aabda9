//! Compaction: migrates used pages to one end of a zone, so that free pages merge into larger blocks.
//!
//! ```text
//!   zone    │■ ■■ │■ ■  │u■ ■ │     │ ■ ■ │    ■│        ■ movable page   u unmovable page
//!            migrate scanner ─►               ◄─ free scanner
//!
//!   after   │     │     │u    │     │■■■■■│■■■■■│        until a block of the wanted order is free, or they meet
//! ```
//!
//! The migrate scanner walks up and isolates folios, the free scanner walks down and isolates free pages for
//! them. Both take movable pageblocks; the migrate scanner of a synchronous run also takes movable folios out
//! of other pageblocks. Folios of the wanted order or larger are not migrated, before 6.9 no large folio. Pages
//! that belong to no folio (the kernel's own) stay in place, and so do folios that are held, locked or under
//! writeback.
//!
//! Compaction runs in allocations that may wait for it (`try_to_compact_pages`), and in kcompactd of each
//! node: when kswapd has freed enough pages but not the wanted block, or when free memory is too fragmented
//! for blocks of 2 MiB. A write to `vm.compact_memory` or `node0/compact` compacts whole nodes.
//!
//! A pageblock that a scanner has been through has nothing more to give and is passed over from then on, until
//! an allocation has compacted the whole zone in vain and kswapd goes to sleep, or compaction has been deferred for as long as it can
//! be. Then it counts again if it has folios or free pages. So memory that the kernel holds is read once.
//!
//! Not modelled: the fast searches of both scanners, capture of freed pages (nobody else acts between the migration
//! and the allocation). In the kernel: mm/compaction.c; `migrate_folio_move` in mm/migrate.c.

mod compact;
mod compact_nodes;
mod kcompactd;
pub mod policy;
mod skip;
mod zone_scan;

pub(crate) use compact_nodes::CompactNodes;
pub use kcompactd::Kcompactd;

use crate::allocator::PageAllocator;
use crate::allocator::memory_map::ZoneType;
use crate::allocator::page::Pfn;
use machine::Node;
use policy::{Deferral, FreeBlocks, unusable_free_index};

/// How thorough a compaction run is (`enum migrate_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactMode {
    /// Migrates from movable pageblocks only (`MIGRATE_ASYNC`).
    Async,
    /// Migrates from pageblocks of every type (`MIGRATE_SYNC_LIGHT`).
    SyncLight,
}

/// The result of a compaction run, from the least to the most that was done (`enum compact_result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactResult {
    /// Too few pages are free for compaction to help (`COMPACT_SKIPPED`).
    Skipped,
    /// Compaction failed lately and is deferred (`COMPACT_DEFERRED`).
    Deferred,
    /// The scanners met without producing a block (`COMPACT_COMPLETE`).
    Complete,
    /// A block of the wanted order is free (`COMPACT_SUCCESS`).
    Success,
}

/// State of a zone that compaction keeps between runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactState {
    /// Where the migrate and the free scanner continue; `None`: at the ends of the zone.
    pub(crate) scanners: Option<(Pfn, Pfn)>,
    /// How long compaction of the zone is deferred after failures.
    pub deferral: Deferral,
    /// Whether pageblocks that are passed over get another chance when kswapd sleeps (`compact_blockskip_flush`).
    pub(crate) flush_skipped: bool,
    /// Free pages that runs which are under way have isolated.
    pub(crate) isolated: u64,
}

/// For whom a zone is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactFor {
    /// An allocation that waits for it (`direct_compaction`).
    Allocation,
    /// Who woke kcompactd.
    Kcompactd,
    /// Allocations to come (`whole_zone`, `ignore_skip_hint`), for which no pageblock is passed over.
    Later,
}

/// The requests to a node's kcompactd.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KcompactdState {
    pub wanted: Option<(u8, ZoneType)>,
    /// How many proactive runs are still skipped, because the last one did not lower the score.
    pub proactive_skips: u32,
}

impl PageAllocator {
    /// Number of free blocks of a zone by order.
    pub fn free_blocks(&self, zone: usize) -> FreeBlocks {
        std::array::from_fn(|order| self.zones()[zone].buddy.nr_free(order as u8))
    }

    /// Asks a node's kcompactd for a block of `order` (`wakeup_kcompactd`).
    pub(crate) fn wake_kcompactd(&mut self, node: Node, order: u8, highest: ZoneType) {
        if order == 0 {
            return;
        }
        let wanted = &mut self.kcompactds[node.index()].wanted;
        let (old_order, old_highest) = wanted.unwrap_or((0, ZoneType::Dma));
        *wanted = Some((old_order.max(order), old_highest.max(highest)));
    }

    /// Fragmentation of a node's free memory with respect to blocks of 2 MiB, per cent, weighted by the size
    /// of its zones (`fragmentation_score_node`).
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
