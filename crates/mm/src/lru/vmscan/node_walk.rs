//! A walk of reclaim over the memory cgroups of a node, a batch of pages at a time.
//!
//! ```text
//!   classic LRU, limits of cgroups, 6.1:   root ─► a ─► a/b ─► c ─► end        (shrink_node_memcgs)
//!                                                   ▲ direct reclaim that has enough stops; the next
//!                                                     call begins after the cgroup where it stopped
//!   multi-gen LRU, all of memory:          the memcg LRU's bins, until enough  (shrink_many)
//! ```
//!
//! Others run while kswapd reclaims, and what it writes comes back meanwhile, so its walk can be left between two
//! batches. Direct reclaim makes the whole walk at once.
//!
//! In the kernel: `shrink_node`, `shrink_node_memcgs`, `mem_cgroup_iter` in mm/vmscan.c and mm/memcontrol.c.

use super::ScanControl;
use super::features::Lru;
use super::policy::walks_in_part;
use crate::kernel::Kernel;
use crate::lru::kind::LruvecScan;
use crate::lru::memcontrol::Memcg;
use crate::lru::mglru::Turns;
use crate::lru::mglru::policy::memcgs_take_turns;
use machine::Node;
use std::vec::IntoIter;

/// What is left of a walk.
#[derive(Clone, Debug)]
pub(crate) struct NodeWalk {
    node: Node,
    /// Pages reclaimed before it.
    before: u64,
    left: Left,
}

#[derive(Clone, Debug)]
enum Left {
    Tree(Tree),
    Turns(Turns),
}

/// Memcgs in the order of the tree.
#[derive(Clone, Debug)]
struct Tree {
    memcgs: IntoIter<Memcg>,
    running: Option<(Memcg, LruvecScan)>,
    /// Pages reclaimed before this pass over the tree.
    before: u64,
    /// Whether the walk stops where it has enough.
    in_part: bool,
}

impl Kernel<'_> {
    /// Reclaims on one node from the target memcg and all below it (`shrink_node`).
    pub(crate) fn shrink_node(&mut self, node: Node, sc: &mut ScanControl) {
        let mut walk = self.begin_node_walk(node, sc);
        while self.step_node_walk(&mut walk, sc) {}
    }

    pub(in crate::lru) fn begin_node_walk(&mut self, node: Node, sc: &mut ScanControl) -> NodeWalk {
        let before = sc.nr_reclaimed;
        let left = match self.parts.lrus.lru {
            Lru::MultiGen(f) if memcgs_take_turns(&f, sc.is_for_cgroup()) => {
                Left::Turns(self.begin_turns(node, sc))
            }
            Lru::MultiGen(_) | Lru::Classic => Left::Tree(self.begin_tree(node, sc)),
        };
        NodeWalk { node, before, left }
    }

    /// Reclaims the next batch, or ends the walk. Returns whether there is more to do. If anything was reclaimed, a kswapd that
    /// had given up on the node tries again when it is next woken.
    pub(in crate::lru) fn step_node_walk(&mut self, walk: &mut NodeWalk, sc: &mut ScanControl) -> bool {
        let node = walk.node;
        let goes_on = match &mut walk.left {
            Left::Turns(turns) => self.step_turns(node, turns, sc),
            Left::Tree(tree) => {
                self.step_tree(node, tree, sc) || {
                    let again = self.ends_without_enough(node, tree, sc);
                    if again {
                        *tree = self.begin_tree(node, sc);
                    }
                    again
                }
            }
        };
        if !goes_on && sc.nr_reclaimed > walk.before {
            self.parts.lrus.kswapds[node.index()].failures = 0;
        }
        goes_on
    }

    fn begin_tree(&mut self, node: Node, sc: &mut ScanControl) -> Tree {
        sc.forget_dirty();
        self.prepare_for_pass(node, sc);
        let in_part = walks_in_part(&self.on.features.reclaim, sc.kswapd, sc.memcg_full_walk);
        let mut memcgs = self.parts.lrus.memcgs.tree(sc.target);
        if in_part && let Some(last) = self.parts.lrus.last_reclaimed(sc.target, node) {
            let next = memcgs.iter().position(|&memcg| memcg == last).map_or(0, |at| at + 1);
            if next < memcgs.len() {
                memcgs.drain(..next);
            }
        }
        Tree { memcgs: memcgs.into_iter(), running: None, before: sc.nr_reclaimed, in_part }
    }

    /// Reclaims the next batch of the tree. Returns whether there may be another.
    fn step_tree(&mut self, node: Node, tree: &mut Tree, sc: &mut ScanControl) -> bool {
        if let Some((memcg, scan)) = &mut tree.running {
            let memcg = *memcg;
            let lruvec = self.parts.lrus.lruvec_of(memcg, node);
            if self.step_lruvec(lruvec, scan, sc) {
                return true;
            }
            tree.running = None;
            self.shrink_slab(memcg, node, sc.priority);
            return !(tree.in_part && sc.nr_reclaimed >= sc.nr_to_reclaim);
        }
        let memcg = tree.memcgs.next();
        if tree.in_part {
            self.parts.lrus.note_last_reclaimed(sc.target, node, memcg);
        }
        let Some(memcg) = memcg else { return false };
        if self.parts.lrus.is_below_min(memcg, sc.target) {
            return true;
        }
        if self.parts.lrus.is_below_low(memcg, sc.target) && !sc.memcg_low_reclaim {
            sc.memcg_low_skipped = true;
            return true;
        }
        let lruvec = self.parts.lrus.lruvec_of(memcg, node);
        tree.running = Some((memcg, self.begin_lruvec(lruvec, sc)));
        true
    }

    /// Whether another pass over the tree follows this one, which has ended: compaction needs more.
    fn ends_without_enough(&mut self, node: Node, tree: &Tree, sc: &mut ScanControl) -> bool {
        if sc.nr_reclaimed == tree.before && sc.cache_trim_mode {
            sc.cache_trim_mode_failed = true;
        }
        self.should_continue_reclaim(node, sc.nr_reclaimed - tree.before, sc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::memory_map::{ZoneType, memory_layout};
    use crate::filemap::{Access, Read};
    use crate::sysctl::Settings;
    use crate::{MemoryManager, Series};
    use machine::{Costs, Cpu, Machine, Topology};
    use rand_pcg::Pcg64Mcg;

    const NODE: Node = Node(0);

    /// A cgroup has three below it, with 1000 clean pages of files each. Reclaim for the first wants 32 pages, at a priority at which
    /// one of the three has them, three times. Returns how many the three lose each time.
    fn lost(release: &str, lru_gen: &str, kswapd: bool) -> [[u64; 3]; 3] {
        let variant = Series::RECLAIM.variant(release).unwrap();
        let topology = Topology::single();
        let (memory, settings) = (memory_layout(1, 64), Settings::default());
        let mut mm = MemoryManager::new(&topology, &memory, variant.features, settings, Pcg64Mcg::new(1));
        let mut machine = Machine::new(topology, Costs::FREE);
        mm.set("lru_gen/enabled", lru_gen).unwrap();
        let parent = mm.parts.lrus.create_memcg(Memcg::ROOT);
        let children = [(); 3].map(|()| mm.parts.lrus.create_memcg(parent));
        let mut kernel = mm.enter(&mut machine, Cpu(0));
        for memcg in children {
            let file = kernel.parts.page_cache.open_file();
            for page in 0..1000 {
                let Read::Miss(id) = kernel.read_page(memcg, file, page, Access::New).unwrap() else {
                    panic!("a page that was never read")
                };
                kernel.parts.lrus.end_read(id);
            }
        }
        kernel.lru_add_drain_all();
        [(); 3].map(|()| {
            let held = |kernel: &Kernel| {
                children.map(|memcg| kernel.parts.lrus.lruvec(memcg, NODE).stat.nr_lru.iter().sum::<u64>())
            };
            let before = held(&kernel);
            let mut sc = ScanControl::new(parent, 32, 0, ZoneType::Movable);
            (sc.priority, sc.kswapd) = (4, kswapd);
            kernel.shrink_node(NODE, &mut sc);
            let now = held(&kernel);
            std::array::from_fn(|child| before[child] - now[child])
        })
    }

    #[test]
    fn from_6_11_on_direct_reclaim_goes_on_where_it_had_enough() {
        for lru_gen in ["0", "7"] {
            let from_all = lost("mainline-6.10", lru_gen, false);
            assert!(from_all.iter().all(|lost| lost[0] > 31 && *lost == [lost[0]; 3]), "{from_all:?}");
            let [one, ..] = from_all[0];
            let in_turn = lost("mainline-6.11", lru_gen, false);
            assert_eq!(in_turn, [[one, 0, 0], [0, one, 0], [0, 0, one]], "lru_gen/enabled = {lru_gen}");
            assert_eq!(lost("mainline-6.11", lru_gen, true), lost("mainline-6.10", lru_gen, true), "kswapd");
        }
    }
}
