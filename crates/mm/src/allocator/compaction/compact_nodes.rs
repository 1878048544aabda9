//! Compaction of whole nodes, which a write to a file asks for.
//!
//! ```text
//!   echo 1 > vm.compact_memory ─► folio batches of all CPUs ─► each node: each zone, lowest first: scan all of it
//!   echo 1 > node1/compact     ─►           "               ─► node 1:             "
//! ```
//!
//! Nothing is deferred, no pageblock is passed over, and a zone is done when the scanners have met: used pages then fill its upper end,
//! as far as they can be migrated. In the kernel: `compact_nodes`, `compact_node` in mm/compaction.c. Not modelled: that it waits for
//! pages under writeback (`MIGRATE_SYNC`).

use super::zone_scan::ZoneScan;
use crate::kernel::{Kernel, Parts};
use machine::Node;

/// Compaction of nodes, which is made in steps: each goes over some pageblocks.
#[derive(Debug)]
pub(crate) struct CompactNodes {
    /// The zones that it has not begun.
    zones: std::vec::IntoIter<usize>,
    /// Whether the folio batches have been drained.
    drained: bool,
    scan: Option<Box<ZoneScan>>,
}

impl CompactNodes {
    pub fn new(mm: &Parts, nodes: impl Iterator<Item = Node>) -> CompactNodes {
        let zones: Vec<usize> = nodes.flat_map(|node| mm.allocator.zones_from_lowest(node)).collect();
        CompactNodes { zones: zones.into_iter(), drained: false, scan: None }
    }

    /// Goes over some pageblocks, or begins the next zone. Returns whether that was all.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        if !std::mem::replace(&mut self.drained, true) {
            kernel.lru_add_drain_all();
        }
        let Some(mut scan) = self.scan.take() else {
            self.scan = self.zones.next().map(|zone| Box::new(ZoneScan::whole(kernel.parts, zone)));
            return self.scan.is_none();
        };
        match scan.step(kernel, |_| false) {
            None => self.scan = Some(scan),
            Some(_) => scan.finish(kernel),
        }
        false
    }
}
