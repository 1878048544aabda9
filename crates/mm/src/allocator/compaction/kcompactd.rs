//! kcompactd: a task of each node that compacts its zones when kswapd has freed enough pages but not the wanted block, and before
//! anybody asks when free memory is too fragmented.
//!
//! ```text
//!   woken for order o ─────────────────► each zone up to the highest: deferred? suitable? ─► scan ─┬► block free: reset the deferral
//!                                                                                                  └► met: drain pagesets, defer
//!   every half second, score above HIGH ─► each zone: scan all of it until the score is below LOW ───► score as before: wait for 64
//! ```
//!
//! In the kernel: `kcompactd_do_work`, `proactive_compact_node`, `should_proactive_compact_node` in mm/compaction.c.

use super::zone_scan::ZoneScan;
use super::{CompactFor, CompactMode, policy};
use crate::allocator::PageAllocator;
use crate::allocator::memory_map::ZoneType;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use machine::Node;

/// A run of kcompactd, which is made in steps: each goes over some pageblocks.
#[derive(Debug)]
pub struct Kcompactd {
    node: Node,
    task: Task,
    /// The zones that it has not begun.
    zones: std::vec::IntoIter<usize>,
    scan: Option<(usize, ZoneScan)>,
}

/// What kcompactd does.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// It makes a block that was asked for.
    Block { order: u8, highest: ZoneType },
    /// It lowers the node's fragmentation score, which is `score`, to `low`.
    Proactive { score: u64, low: u64 },
}

impl Kernel<'_> {
    /// Starts a run of a node's kcompactd if it was woken.
    #[inline]
    pub fn start_kcompactd(&mut self, node: Node) -> Option<Kcompactd> {
        let (order, highest) = self.parts.allocator.kcompactds[node.index()].wanted.take()?;
        self.on.counters.add(Event::KcompactdWake, 1);
        let mut zones = self.parts.allocator.zones_from_lowest(node);
        zones.retain(|&z| self.parts.allocator.zones()[z].kind <= highest);
        Some(Kcompactd { node, task: Task::Block { order, highest }, zones: zones.into_iter(), scan: None })
    }

    /// Starts proactive compaction of a node, for which kcompactd looks every half second, if it is worth it.
    pub fn start_proactive_compaction(&mut self, node: Node) -> Option<Kcompactd> {
        if !self.should_compact_proactively(node) {
            return None;
        }
        let skips = &mut self.parts.allocator.kcompactds[node.index()].proactive_skips;
        if *skips > 0 {
            *skips -= 1;
            return None;
        }
        let (low, _) = policy::proactive_marks(self.on.settings.compaction_proactiveness);
        let task = Task::Proactive { score: self.parts.allocator.fragmentation_score(node), low };
        let zones = self.parts.allocator.zones_from_lowest(node);
        Some(Kcompactd { node, task, zones: zones.into_iter(), scan: None })
    }

    /// Whether a node is so fragmented that proactive compaction is worth it, and its kswapd sleeps
    /// (`should_proactive_compact_node`).
    fn should_compact_proactively(&self, node: Node) -> bool {
        let proactiveness = self.on.settings.compaction_proactiveness;
        let (_, high) = policy::proactive_marks(proactiveness);
        proactiveness != 0
            && !self.parts.allocator.is_kswapd_running(node)
            && self.parts.allocator.fragmentation_score(node) > high
    }

    /// Runs a node's kcompactd until it sleeps, if it was woken. Returns whether it was.
    pub fn run_kcompactd(&mut self, node: Node) -> bool {
        let kcompactd = self.start_kcompactd(node);
        kcompactd.map(|kcompactd| kcompactd.run(self)).is_some()
    }

    /// Compacts a node proactively, if it is worth it. Returns whether it is.
    pub fn run_proactive_compaction(&mut self, node: Node) -> bool {
        let kcompactd = self.start_proactive_compaction(node);
        kcompactd.map(|kcompactd| kcompactd.run(self)).is_some()
    }
}

impl Kcompactd {
    fn run(mut self, kernel: &mut Kernel) {
        while self.step(kernel) {}
    }

    /// Goes over some pageblocks, begins the next zone, or ends the run. Returns whether there is more to do.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let Some((z, mut scan)) = self.scan.take() else { return self.begin_zone(kernel) };
        let (node, task) = (self.node, self.task);
        let is_done = |mm: &Parts| match task {
            Task::Block { order, .. } => mm.allocator.zones()[z].buddy.has_movable_block(order),
            Task::Proactive { low, .. } => mm.allocator.fragmentation_score(node) <= low,
        };
        let gives_way =
            matches!(task, Task::Proactive { .. }) && kernel.parts.allocator.is_kswapd_running(node);
        match scan.step(kernel, is_done) {
            None if !gives_way => self.scan = Some((z, scan)),
            found => {
                scan.finish(kernel);
                self.end_zone(kernel, z, found.unwrap_or_default());
            }
        }
        true
    }

    /// Begins the next zone that is worth it. Returns whether there is one.
    fn begin_zone(&mut self, kernel: &mut Kernel) -> bool {
        for z in self.zones.by_ref() {
            let scan = match self.task {
                Task::Block { order, highest } => {
                    if kernel.parts.allocator.zone_mut(z).compaction.deferral.is_deferred(order) {
                        continue;
                    }
                    match kernel.begin_compaction(
                        z,
                        (order, highest),
                        CompactMode::SyncLight,
                        CompactFor::Kcompactd,
                    ) {
                        Ok(scan) => scan,
                        Err(_) => continue,
                    }
                }
                Task::Proactive { .. } => ZoneScan::whole(kernel.parts, z),
            };
            self.scan = Some((z, scan));
            return true;
        }
        self.finish(&mut kernel.parts.allocator);
        false
    }

    fn end_zone(&mut self, kernel: &mut Kernel, z: usize, found: bool) {
        let Task::Block { order, .. } = self.task else { return };
        if found {
            kernel.parts.allocator.zone_mut(z).compaction.deferral.note_success(order);
            return;
        }
        // Pages in pagesets may be what keeps free blocks from merging.
        kernel.drain_zone(z);
        kernel.parts.allocator.zone_mut(z).compaction.deferral.defer(order);
    }

    fn finish(&self, allocator: &mut PageAllocator) {
        if let Task::Proactive { score, .. } = self.task
            && allocator.fragmentation_score(self.node) >= score
        {
            allocator.kcompactds[self.node.index()].proactive_skips = 1 << policy::MAX_DEFER_SHIFT;
        }
    }
}
