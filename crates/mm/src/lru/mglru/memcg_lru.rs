//! The memcg LRU: whose turn it is among memory cgroups when a node runs short (6.3).
//!
//! ```text
//!   seq      old generation: 8 bins of memcgs ─► reclaim walks them from a random one
//!   seq + 1  young generation: memcgs that have had their turn, or that memory.min protects
//! ```
//!
//! When the old generation is empty, the young one becomes the old one. Random bins come from a stream of the
//! node's own. In the kernel: `shrink_many`, `shrink_one`, `lru_gen_rotate_memcg` in mm/vmscan.c.

use super::aging::birth_of_oldest;
use super::eviction::Eviction;
use super::policy::{self, Aging, MIN_LRU_BATCH};
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::lruvec::{self, LruList};
use crate::lru::memcontrol::Memcg;
use crate::lru::mmzone::LruType;
use crate::lru::vmscan::ScanControl;
use crate::lru::vmscan::features::{GenFeatures, Lru};
use crate::lru::vmscan::policy::DEF_PRIORITY;
use machine::{Node, Time};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::vec::IntoIter;

/// Generations of memcgs (`MEMCG_NR_GENS`).
const GENS: usize = 3;
/// Bins of a generation (`MEMCG_NR_BINS`).
const BINS: usize = 8;

/// The generation and bin that a memcg is in.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    generation: usize,
    bin: usize,
    at_tail: bool,
}

/// Where a memcg goes after its turn (`MEMCG_LRU_TAIL`, `MEMCG_LRU_YOUNG`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// To the tail of a bin of its generation: it gets one more try.
    Tail,
    /// To the young generation: its turn is over.
    Young,
}

/// The memcgs that are still to have their turn.
#[derive(Clone, Debug)]
pub(in crate::lru) struct Turns {
    /// Bins that have not been begun, the next one last.
    bins: Vec<usize>,
    /// Of the bin that has.
    members: IntoIter<Memcg>,
    /// Whose turn it is.
    running: Option<(Memcg, Eviction)>,
    /// The generation that was old in the beginning.
    began_with: usize,
    /// Pages reclaimed before; kswapd counts the pages of each walk from zero.
    before: u64,
}

/// The memcgs of one node, in the order of their turns (`struct lru_gen_memcg`).
#[derive(Clone, Debug)]
pub(crate) struct MemcgLru {
    seq: usize,
    bins: [[VecDeque<Memcg>; BINS]; GENS],
    places: Vec<Place>,
    random: Pcg64Mcg,
}

impl MemcgLru {
    pub(crate) fn new(random: Pcg64Mcg) -> MemcgLru {
        MemcgLru { seq: 0, bins: Default::default(), places: Vec::new(), random }
    }

    fn bin(&mut self) -> usize {
        self.random.next_u32() as usize % BINS
    }

    /// Adds a new memcg to the old generation (`lru_gen_online_memcg`).
    pub(crate) fn online(&mut self, memcg: Memcg) {
        let (generation, bin) = (self.seq % GENS, self.bin());
        self.bins[generation][bin].push_back(memcg);
        self.places.push(Place { generation, bin, at_tail: false });
    }

    fn rotate(&mut self, memcg: Memcg, turn: Turn) {
        let old = self.places[memcg.index()];
        let bin = self.bin();
        let generation = if turn == Turn::Young { (self.seq + 1) % GENS } else { old.generation };
        self.bins[old.generation][old.bin].retain(|&other| other != memcg);
        self.bins[generation][bin].push_back(memcg);
        self.places[memcg.index()] = Place { generation, bin, at_tail: turn == Turn::Tail };
        let was_oldest = old.generation == self.seq % GENS;
        if was_oldest && self.bins[old.generation].iter().all(VecDeque::is_empty) {
            self.seq += 1;
        }
    }
}

impl Kernel<'_> {
    /// Begins to reclaim from the memcgs of a node in turn (`lru_gen_shrink_node`, `shrink_many`).
    pub(in crate::lru) fn begin_turns(&mut self, node: Node, sc: &mut ScanControl) -> Turns {
        sc.forget_dirty();
        let before = sc.nr_reclaimed;
        // Eviction reaches clean folios first anyway, so reclaim for a watermark boost, which may not write,
        // does nothing here.
        if !sc.may_swap {
            return Turns {
                bins: Vec::new(),
                members: Vec::new().into_iter(),
                running: None,
                began_with: 0,
                before,
            };
        }
        self.lru_add_drain();
        sc.mm_walk = sc.kswapd;
        self.set_initial_priority(node, sc);
        if sc.kswapd {
            sc.nr_reclaimed = 0;
        }
        // Without memory cgroups there is only one lruvec, and no turn that could end.
        let (bins, members) = if self.parts.lrus.memcgs.len() == 1 {
            (Vec::new(), vec![Memcg::ROOT])
        } else {
            let first = self.parts.lrus.memcg_lrus[node.index()].bin();
            ((0..BINS).rev().map(|i| (first + i) % BINS).collect(), Vec::new())
        };
        let began_with = self.parts.lrus.memcg_lrus[node.index()].seq;
        Turns { bins, members: members.into_iter(), running: None, began_with, before }
    }

    /// Reclaims the next batch. Returns whether there may be another.
    pub(in crate::lru) fn step_turns(&mut self, node: Node, turns: &mut Turns, sc: &mut ScanControl) -> bool {
        // The LRU may have been switched off since the last step.
        let more = match self.parts.lrus.lru {
            Lru::MultiGen(f) => self.shrink_next(node, turns, &f, sc),
            Lru::Classic => false,
        };
        if !more && sc.kswapd && sc.may_swap {
            sc.nr_reclaimed += turns.before;
        }
        more
    }

    fn shrink_next(&mut self, node: Node, turns: &mut Turns, f: &GenFeatures, sc: &mut ScanControl) -> bool {
        if let Some((memcg, eviction)) = &mut turns.running {
            let (memcg, lruvec) = (*memcg, self.parts.lrus.lruvec_of(*memcg, node));
            let ControlFlow::Break(aged) = self.step_eviction(lruvec, f, eviction, sc) else { return true };
            turns.running = None;
            self.shrink_slab(memcg, node, sc.priority);
            let turn = self.turn_after_eviction(memcg, node, f, aged, sc);
            return self.end_turn(memcg, node, f, turn, sc);
        }
        let memcg = loop {
            if let Some(memcg) = turns.members.next() {
                break memcg;
            }
            let Some(bin) = turns.bins.pop() else { return false };
            // If all memcgs have had their turn meanwhile, the young generation has become the old one.
            let lru = &self.parts.lrus.memcg_lrus[node.index()];
            let seq = policy::memcg_generation(f, turns.began_with, lru.seq);
            turns.members = lru.bins[seq % GENS][bin].iter().copied().collect::<Vec<_>>().into_iter();
        };
        if self.parts.lrus.is_below_min(memcg, Memcg::ROOT) {
            return self.end_turn(memcg, node, f, Some(Turn::Young), sc);
        }
        let at_tail = self.parts.lrus.memcg_lrus[node.index()].places[memcg.index()].at_tail;
        if self.parts.lrus.is_below_low(memcg, Memcg::ROOT) && !at_tail {
            return self.end_turn(memcg, node, f, Some(Turn::Tail), sc);
        }
        let lruvec = self.parts.lrus.lruvec_of(memcg, node);
        turns.running = Some((memcg, self.begin_eviction(lruvec, f, sc)));
        true
    }

    /// Where a memcg goes that has been reclaimed from, if it does (`shrink_one`). `aged`: a new generation has begun in it.
    fn turn_after_eviction(
        &self,
        memcg: Memcg,
        node: Node,
        f: &GenFeatures,
        aged: bool,
        sc: &ScanControl,
    ) -> Option<Turn> {
        let lruvec = self.parts.lrus.lruvec_of(memcg, node);
        let evictable = || self.parts.lrus.evictable(lruvec, f, self.swappiness(lruvec, sc));
        if !aged && evictable().total >> sc.priority > 0 {
            return None;
        }
        let at_tail = self.parts.lrus.memcg_lrus[node.index()].places[memcg.index()].at_tail;
        Some(if aged || at_tail { Turn::Young } else { Turn::Tail })
    }

    /// Ends the turn of a memcg. Returns whether another has one.
    fn end_turn(
        &mut self,
        memcg: Memcg,
        node: Node,
        f: &GenFeatures,
        turn: Option<Turn>,
        sc: &ScanControl,
    ) -> bool {
        if self.parts.lrus.memcgs.len() == 1 {
            return false;
        }
        let enough = self.should_abort_scan(self.parts.lrus.lruvec_of(memcg, node), f, sc);
        if let Some(turn) = turn {
            self.parts.lrus.memcg_lrus[node.index()].rotate(memcg, turn);
        }
        !enough
    }

    /// What kswapd does before it evicts (`lru_gen_age_node`). In 6.1 it begins new generations where they
    /// are due; later it only checks `lru_gen/min_ttl_ms`. Returns whether that leaves anything to evict.
    pub(crate) fn lru_gen_age_node(&mut self, node: Node, f: &GenFeatures, sc: &mut ScanControl) -> bool {
        let min_ttl = Time::from_nanoseconds(self.on.settings.lru_gen_min_ttl_ms * 1_000_000);
        match policy::aging(f) {
            Aging::BeforeEviction if !sc.memcgs_need_aging => {
                sc.memcgs_need_aging = true;
                return true;
            }
            Aging::BeforeEviction => self.age_lruvecs(node, f, sc),
            Aging::InPlaceOfEviction | Aging::BetweenBatches => {}
        }
        let now = self.on.machine.now(self.on.cpu);
        min_ttl == Time::ZERO
            || self.parts.lrus.memcgs.tree(Memcg::ROOT).into_iter().any(|memcg| {
                let id = self.parts.lrus.lruvec_of(memcg, node);
                let swappiness = self.swappiness(id, sc);
                let evictable = self.parts.lrus.evictable(id, f, swappiness);
                let lruvec = &self.parts.lrus.lruvecs[id];
                let oldest = policy::oldest_to_live(f, &evictable, lruvec.generations.min_seq);
                let is_old = birth_of_oldest(lruvec, oldest) + min_ttl < now;
                is_old
                    && evictable.total >> sc.priority > 0
                    && !self.parts.lrus.is_below_min(memcg, Memcg::ROOT)
            })
    }

    /// Begins a new generation in each lruvec of a node where one is due (6.1).
    fn age_lruvecs(&mut self, node: Node, f: &GenFeatures, sc: &mut ScanControl) {
        for memcg in self.parts.lrus.memcgs.tree(Memcg::ROOT) {
            let lruvec = self.parts.lrus.lruvec_of(memcg, node);
            let swappiness = self.swappiness(lruvec, sc);
            let evictable = self.parts.lrus.evictable(lruvec, f, swappiness);
            let due = self.due(lruvec, f, &evictable, swappiness);
            if !self.parts.lrus.is_below_min(memcg, Memcg::ROOT) && due.aging {
                self.try_to_inc_max_seq(lruvec, f, swappiness, sc);
            }
        }
    }

    /// Starts at the priority at which about as many pages are scanned as are to be reclaimed
    /// (`set_initial_priority`).
    fn set_initial_priority(&self, node: Node, sc: &mut ScanControl) {
        if sc.priority != DEF_PRIORITY || sc.nr_to_reclaim < MIN_LRU_BATCH {
            return;
        }
        let mut reclaimable = 0;
        for memcg in self.parts.lrus.memcgs.tree(Memcg::ROOT) {
            let nr_lru = self.parts.lrus.lruvec(memcg, node).stat.nr_lru;
            reclaimable += nr_lru[LruList::InactiveFile as usize];
            if self.can_reclaim_anon(Memcg::ROOT, node) {
                reclaimable += nr_lru[LruList::InactiveAnon as usize];
            }
        }
        // Position of the highest bit that is set, counted from 1.
        let fls = |number: u64| i64::from(u64::BITS - number.leading_zeros());
        let priority = fls(reclaimable) - 1 - fls(sc.nr_to_reclaim - 1);
        sc.priority = priority.clamp(i64::from(DEF_PRIORITY / 2), i64::from(DEF_PRIORITY)) as u8;
    }
}

impl Lrus {
    /// Adds a new memcg to the memcg LRU of each node.
    pub(crate) fn memcg_online(&mut self, memcg: Memcg) {
        for lru in &mut self.memcg_lrus {
            lru.online(memcg);
        }
    }

    /// File pages by age of their generation, summed over all lruvecs: the youngest generation of each lruvec
    /// comes first.
    pub fn nr_file_generations(&self) -> [u64; lruvec::GENS] {
        let mut pages = [0; lruvec::GENS];
        for lruvec in self.lruvecs.iter() {
            let generations = &lruvec.generations;
            let file = LruType::File;
            let oldest_last = (generations.min_seq[file as usize]..=generations.max_seq).rev();
            for (age, seq) in oldest_last.enumerate() {
                pages[age] += generations.size(seq, file);
            }
        }
        pages
    }
}

impl Parts {
    /// The generations of a memcg in the format of debugfs (`lru_gen`): sequence number, age in milliseconds,
    /// anonymous and file pages.
    pub fn lru_gen_text(&self, memcg: Memcg, now: Time) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for node in self.allocator.all_nodes() {
            let generations = &self.lrus.lruvec(memcg, node).generations;
            let _ = writeln!(text, " node {:5}", node.0);
            for seq in generations.min_seq[0].min(generations.min_seq[1])..=generations.max_seq {
                let age = now.saturating_sub(generations.timestamps[lruvec::generation(seq)]);
                let sizes = LruType::ALL.map(|lru_type| {
                    if seq < generations.min_seq[lru_type as usize] {
                        0
                    } else {
                        generations.size(seq, lru_type)
                    }
                });
                let _ = writeln!(
                    text,
                    " {seq:10} {:10} {:10} {:10}",
                    age.picoseconds() / 1_000_000_000,
                    sizes[0],
                    sizes[1]
                );
            }
        }
        text
    }
}
