//! kswapd: a task of each node that reclaims before allocations have to wait.
//!
//! ```text
//!   no zone above LOW ─► woken ─► priority 12: shrink the node ─► some zone above HIGH? ─► sleeps
//!                                       ▲                            │ no
//!                                       └────── 11, 10 ... 1 ◄───────┘
//! ```
//!
//! While it runs, the zones of its node are marked (`ZONE_RECLAIM_ACTIVE`), which keeps the pagesets of CPUs
//! small. In the kernel: `balance_pgdat`, `pgdat_balanced`, `wakeup_kswapd` in mm/vmscan.c.

use super::policy::{
    DEF_PRIORITY, KswapdRun, SWAP_CLUSTER_MAX, begins_without_cache_trim, compact_gap, is_hopeless,
    was_in_vain,
};
use super::{NodeWalk, ScanControl};
use crate::allocator::PageAllocator;
use crate::allocator::memory_map::ZoneType;
use crate::allocator::watermark::{Mark, Reserves};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::Lrus;
use crate::lru::memcontrol::Memcg;
use machine::Node;

/// A run of kswapd, which is made in steps: each reclaims a batch of pages.
#[derive(Clone, Debug)]
pub struct Kswapd {
    node: Node,
    /// The order and highest zone that it was woken for.
    wanted: (u8, ZoneType),
    sc: ScanControl,
    /// Pages still to be reclaimed for boosted watermarks.
    boost: u64,
    /// Zones whose watermarks were boosted when the run began, and by how many pages.
    boosts: Vec<(usize, u64)>,
    round: Option<Round>,
}

/// The node is being shrunk at one priority.
#[derive(Clone, Debug)]
struct Round {
    walk: NodeWalk,
    /// Pages reclaimed before it.
    before: u64,
    /// Whether it is for boosted watermarks.
    for_boost: bool,
    /// Whether the next round may have a more urgent priority.
    raises_priority: bool,
}

impl Kernel<'_> {
    /// Runs the kswapd of `node` until it sleeps, if it has been woken.
    pub fn run_kswapd(&mut self, node: Node) {
        if let Some(mut kswapd) = self.start_kswapd(node) {
            while kswapd.step(self) {}
        }
    }

    /// Wakes the kswapd of each node for a request of `order` (`wake_all_kswapds`). A node is passed over if
    /// it is balanced and none of its watermarks is boosted, or if its kswapd has given up; its kcompactd is
    /// woken then, unless the request does direct compaction itself (`direct`).
    pub(crate) fn wake_all_kswapds(&mut self, order: u8, highest: ZoneType, direct: bool) {
        self.parts.allocator.all_nodes().for_each(|node| self.wake_kswapd(node, order, highest, direct));
    }

    /// Like `wake_all_kswapds`, but for one node (`wakeup_kswapd`).
    pub(crate) fn wake_kswapd(&mut self, node: Node, order: u8, highest: ZoneType, direct: bool) {
        if self.parts.lrus.has_kswapd_given_up(node)
            || self.is_balanced(node, order, highest) && self.parts.allocator.boosts(node, highest).is_empty()
        {
            if !direct {
                self.parts.allocator.wake_kcompactd(node, order, highest);
            }
            return;
        }
        let wanted = &mut self.parts.lrus.kswapds[node.index()].wanted;
        let (old_order, old_highest) = wanted.unwrap_or((0, ZoneType::Dma));
        *wanted = Some((old_order.max(order), old_highest.max(highest)));
    }

    /// Starts a run of the kswapd of `node` if it has been woken.
    #[inline]
    pub fn start_kswapd(&mut self, node: Node) -> Option<Kswapd> {
        let (order, highest) = self.parts.lrus.kswapds[node.index()].wanted.take()?;
        self.on.counters.add(Event::Pageoutrun, 1);
        let mut sc = ScanControl::new(Memcg::ROOT, 0, order, highest);
        sc.kswapd = true;
        self.parts.allocator.begin_reclaim(node);
        let boosts = self.parts.allocator.boosts(node, highest);
        let boost = boosts.iter().map(|&(_, boost)| boost).sum();
        Some(Kswapd { node, wanted: (order, highest), sc, boost, boosts, round: None })
    }

    /// The watermark up to which kswapd reclaims: with memory tiering it keeps room for folios that are
    /// promoted.
    pub(crate) fn kswapd_mark(&self) -> Mark {
        if self.on.settings.numa.tiering { Mark::Promo } else { Mark::High }
    }

    /// Whether some zone of `node` is above kswapd's watermark for a block of `order` (`pgdat_balanced`).
    fn is_balanced(&self, node: Node, order: u8, highest: ZoneType) -> bool {
        let (f, mark) = (self.on.features, self.kswapd_mark());
        let mut zones = self.parts.allocator.zones_of(node).filter(|zone| zone.kind <= highest).peekable();
        // A node without such a zone has nothing to reclaim.
        zones.peek().is_none()
            || zones.any(|zone| zone.is_above(f, mark, order, highest, Reserves::default()))
    }
}

impl Lrus {
    /// Whether the kswapd of a node has reclaimed nothing so often that it sleeps until direct reclaim has reclaimed something
    /// (`kswapd_failures`).
    pub fn has_kswapd_given_up(&self, node: Node) -> bool {
        is_hopeless(self.kswapds[node.index()].failures)
    }
}

impl PageAllocator {
    /// The zones of a node up to `highest` whose watermarks are boosted, and by how many pages.
    fn boosts(&self, node: Node, highest: ZoneType) -> Vec<(usize, u64)> {
        let zones = self.zones().iter().enumerate();
        let own = zones.filter(|(_, zone)| zone.node == node && zone.kind <= highest);
        own.map(|(z, zone)| (z, zone.buddy.watermark_boost)).filter(|&(_, boost)| boost > 0).collect()
    }
}

impl Kswapd {
    /// Reclaims a batch of pages, or ends the run. Returns whether there is more to do.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let Some(mut round) = self.round.take() else { return self.begin_round(kernel) };
        if kernel.step_node_walk(&mut round.walk, &mut self.sc) {
            self.round = Some(round);
            return true;
        }
        self.end_round(kernel, &round)
    }

    /// Begins to shrink the node at the current priority, if it is not balanced (`kswapd_shrink_node`). Returns whether there is more to
    /// do.
    fn begin_round(&mut self, kernel: &mut Kernel) -> bool {
        let balanced = kernel.is_balanced(self.node, self.sc.order, self.sc.highest);
        if !balanced && self.boost > 0 {
            self.boost = 0;
            self.sc.priority = DEF_PRIORITY;
            return true;
        }
        if balanced && self.boost == 0 {
            self.finish(kernel);
            return false;
        }
        let sc = &mut self.sc;
        let for_boost = self.boost > 0;
        // Reclaim for a watermark boost is not worth any writing.
        let raises_priority = !(for_boost && sc.priority == DEF_PRIORITY - 2);
        sc.may_swap = !for_boost;
        kernel.kswapd_age_node(self.node, sc);
        let before = sc.nr_reclaimed;
        sc.nr_scanned = 0;
        sc.nr_to_reclaim = kernel
            .parts
            .allocator
            .zones_of(self.node)
            .filter(|zone| zone.kind <= sc.highest)
            .map(|zone| zone.wmark(Mark::High).max(SWAP_CLUSTER_MAX))
            .sum();
        let walk = kernel.begin_node_walk(self.node, sc);
        self.round = Some(Round { walk, before, for_boost, raises_priority });
        true
    }

    /// Sets the priority of the next round. Returns whether there is one.
    fn end_round(&mut self, kernel: &mut Kernel, round: &Round) -> bool {
        let sc = &mut self.sc;
        if sc.order > 0 && sc.nr_reclaimed >= compact_gap(&kernel.on.features.reclaim, sc.order) {
            sc.order = 0;
        }
        let reclaimed = sc.nr_reclaimed - round.before;
        let took_enough = sc.nr_scanned.max(reclaimed) >= sc.nr_to_reclaim;
        if round.raises_priority && !took_enough || reclaimed == 0 {
            sc.priority -= 1;
        }
        self.boost = self.boost.saturating_sub(reclaimed);
        let run = self.run();
        if begins_without_cache_trim(&kernel.on.features.reclaim, &run) {
            self.sc.no_cache_trim_mode = true;
            self.sc.priority = DEF_PRIORITY;
            return true;
        }
        if round.for_boost && self.boost > 0 && reclaimed == 0 || self.sc.priority == 0 {
            if was_in_vain(kernel.on.features, &run) {
                kernel.parts.lrus.kswapds[self.node.index()].failures += 1;
            }
            self.finish(kernel);
            return false;
        }
        true
    }

    /// The state of the run that policy decides by.
    fn run(&self) -> KswapdRun {
        KswapdRun {
            priority: self.sc.priority,
            reclaimed: self.sc.nr_reclaimed,
            cache_trim_failed: self.sc.cache_trim_mode_failed,
            without_cache_trim: self.sc.no_cache_trim_mode,
            boosted: !self.boosts.is_empty(),
        }
    }

    fn finish(&mut self, kernel: &mut Kernel) {
        kernel.reset_isolation_suitable(self.node);
        let (order, highest) = self.wanted;
        let mm = &mut *kernel.parts;
        mm.allocator.wake_kcompactd(self.node, order, highest);
        mm.allocator.end_reclaim(self.node);
        for &(zone, boost) in &self.boosts {
            let zone = mm.allocator.zone_mut(zone);
            zone.buddy.watermark_boost = zone.buddy.watermark_boost.saturating_sub(boost);
        }
        if !self.boosts.is_empty() {
            // Pageblocks that were mixed are repaired by making whole ones.
            mm.allocator.wake_kcompactd(self.node, mm.allocator.geometry().pageblock_order, highest);
        }
        mm.snapshot_refaults(Memcg::ROOT);
    }
}
