//! The LRU lists of one memory cgroup on one node.
//!
//! ```text
//!   classic      anon │ active   ─► inactive ─► out        file │ active ─► inactive ─► out      unevictable
//!
//!   multi-gen    generation   max_seq     max_seq-1    ...      min_seq          2 to 4 of them, each with lists
//!                             youngest                          oldest ─► out    by type and zone
//! ```
//!
//! Which of both is in use is for `crates/mm/src/lru/kind.rs` to say; a lruvec has the lists of both. The two youngest
//! generations count as active. A list of generation n has number n mod 4. In the kernel: `struct lruvec` in
//! include/linux/mmzone.h, `lruvec_add_folio`, `lru_gen_add_folio` in include/linux/mm_inline.h.

use crate::allocator::memory_map::ZoneType;
use crate::lru::folio::{Census, FolioFlags, FolioId, Folios, ListEnd, ListHead, LruvecId};
use crate::lru::lru_lock::LruLock;
use crate::lru::memcontrol::Memcg;
use crate::lru::mglru::{self, BloomFilters};
use crate::lru::mmzone::{LruType, MAX_NR_GENS};
use crate::lru::vmscan::features::{GenFeatures, Lru};
use crate::lru::workingset::policy::TierCounts;
use machine::{Node, Time};
use std::collections::VecDeque;

/// Generations that exist at most.
pub const GENS: usize = MAX_NR_GENS as usize;
/// Tiers of a generation (`MAX_NR_TIERS`).
pub const TIERS: usize = 4;

/// A classic list (`enum lru_list`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum LruList {
    /// Anonymous pages that are candidates for swap.
    InactiveAnon = 0,
    /// Anonymous pages that were used.
    ActiveAnon = 1,
    /// Pages of files that are candidates for eviction.
    InactiveFile = 2,
    /// Pages of files that were used.
    ActiveFile = 3,
    /// Pages that cannot be evicted.
    Unevictable = 4,
}

impl LruList {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// Those that reclaim looks at, in its order.
    pub const EVICTABLE: [LruList; 4] =
        [LruList::InactiveAnon, LruList::ActiveAnon, LruList::InactiveFile, LruList::ActiveFile];

    /// The list of a type.
    pub fn of(lru_type: LruType, active: bool) -> LruList {
        if active { LruList::active(lru_type) } else { LruList::inactive(lru_type) }
    }

    /// The list that a folio with these flags is on, unless memory stays there.
    #[inline]
    pub fn of_flags(flags: FolioFlags) -> LruList {
        LruList::of(type_of(flags), flags.has(FolioFlags::ACTIVE))
    }

    /// The active list of a type.
    pub fn active(lru_type: LruType) -> LruList {
        LruList::EVICTABLE[lru_type as usize * 2 + 1]
    }

    /// The inactive list of a type.
    pub fn inactive(lru_type: LruType) -> LruList {
        LruList::EVICTABLE[lru_type as usize * 2]
    }

    /// Whose list it is.
    pub fn lru_type(self) -> LruType {
        if (self as usize) < 2 { LruType::Anon } else { LruType::File }
    }

    /// Whether it is an active one.
    pub fn is_active(self) -> bool {
        matches!(self, LruList::ActiveAnon | LruList::ActiveFile)
    }
}

/// What memory cgroups count of a lruvec, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruvecStat {
    /// Lengths of lists, by [`LruList`].
    pub nr_lru: [u64; LruList::COUNT],
    /// `workingset_refault`, by type.
    pub refault: [u64; 2],
    /// `workingset_activate`, by type.
    pub activate: [u64; 2],
    /// `workingset_restore`, by type.
    pub restore: [u64; 2],
}

impl LruvecStat {
    /// Pages of files on lists.
    pub(crate) fn nr_file(&self) -> u64 {
        self.nr_lru[LruList::ActiveFile as usize] + self.nr_lru[LruList::InactiveFile as usize]
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &LruvecStat) {
        let mine = [&mut self.refault, &mut self.activate, &mut self.restore];
        for (mine, other) in mine.into_iter().zip([other.refault, other.activate, other.restore]) {
            mine.iter_mut().zip(other).for_each(|(mine, other)| *mine += other);
        }
        self.nr_lru.iter_mut().zip(other.nr_lru).for_each(|(mine, other)| *mine += other);
    }
}

/// Counts of the multi-gen LRU, by type and tier.
pub type ByTier = [[u64; TIERS]; 2];

/// Generations (`struct lru_gen_folio`).
#[derive(Clone, Debug)]
pub struct Generations {
    /// Number of the youngest.
    pub max_seq: u64,
    /// Number of the oldest, by type.
    pub min_seq: [u64; 2],
    /// When each began, by number modulo 4.
    pub timestamps: [Time; GENS],
    lists: [[[ListHead; ZoneType::COUNT]; 2]; GENS],
    /// Pages on each list.
    pub nr_pages: [[[i64; ZoneType::COUNT]; 2]; GENS],
    /// Moving averages of refaults and of evictions.
    pub average: [[TierCounts; TIERS]; 2],
    /// Evicted from the oldest generation.
    pub evicted: ByTier,
    /// Came back that were evicted from the oldest generation.
    pub refaulted: ByTier,
    /// Kept although their turn had come.
    pub protected: ByTier,
    /// Page tables that walks look at.
    pub(crate) filters: BloomFilters,
}

impl Generations {
    fn new(folios: &mut Folios) -> Generations {
        let mut by_zone = || std::array::from_fn(|_| folios.new_list());
        Generations {
            max_seq: mglru::policy::MIN_NR_GENS + 1,
            min_seq: [0; 2],
            timestamps: [Time::ZERO; GENS],
            lists: std::array::from_fn(|_| std::array::from_fn(|_| by_zone())),
            nr_pages: Default::default(),
            average: Default::default(),
            evicted: Default::default(),
            refaulted: Default::default(),
            protected: Default::default(),
            filters: BloomFilters::default(),
        }
    }

    /// All lists, by number modulo 4, type and zone.
    pub(super) fn lists(&self) -> impl Iterator<Item = ListHead> + use<'_> {
        self.lists.iter().flatten().flatten().copied()
    }

    /// The list of generation `seq`.
    pub fn list(&self, seq: u64, lru_type: LruType, zone: usize) -> ListHead {
        self.lists[generation(seq)][lru_type as usize][zone]
    }

    /// The list of the generation with number `generation` modulo 4.
    pub fn list_of(&self, generation: usize, lru_type: LruType, zone: usize) -> ListHead {
        self.lists[generation][lru_type as usize][zone]
    }

    /// How many generations a type has (`get_nr_gens`).
    pub fn count(&self, lru_type: LruType) -> u64 {
        self.max_seq - self.min_seq[lru_type as usize] + 1
    }

    /// Whether a generation with that number modulo 4 exists.
    fn exists(&self, number: usize, lru_type: LruType) -> bool {
        (self.min_seq[lru_type as usize]..=self.max_seq).any(|seq| generation(seq) == number)
    }

    /// Checks that the generations of a type are as many as they may be and in order; panics if not.
    fn validate(&self, lru_type: LruType) {
        let generations = self.count(lru_type);
        assert!(
            (mglru::policy::MIN_NR_GENS..=MAX_NR_GENS).contains(&generations),
            "{generations} generations"
        );
        let began: Vec<Time> = (self.min_seq[lru_type as usize]..=self.max_seq)
            .map(|seq| self.timestamps[generation(seq)])
            .collect();
        assert!(began.is_sorted(), "generations begin one after the other: {began:?}");
    }

    /// Pages of a generation, in zones `..zones`.
    pub fn size(&self, seq: u64, lru_type: LruType) -> u64 {
        self.nr_pages[generation(seq)][lru_type as usize].iter().map(|&pages| pages.max(0) as u64).sum()
    }

    /// Whether the generation with this number modulo 4 counts as active (`lru_gen_is_active`).
    #[inline]
    pub fn is_active(&self, generation_number: usize) -> bool {
        generation_number == generation(self.max_seq) || generation_number == generation(self.max_seq - 1)
    }
}

/// Which of the lists is that of generation `seq` (`lru_gen_from_seq`).
#[inline]
pub fn generation(seq: u64) -> usize {
    (seq % MAX_NR_GENS) as usize
}

/// The lists of all memory cgroups: those of one, by node, follow each other.
#[derive(Clone, Debug)]
pub(crate) struct Lruvecs {
    lruvecs: Vec<Lruvec>,
    nodes: usize,
}

impl Lruvecs {
    /// Those of no group, on a machine of so many nodes.
    pub fn new(nodes: usize) -> Lruvecs {
        Lruvecs { lruvecs: Vec::new(), nodes }
    }

    /// Those of a new group, one for each node, which begin empty.
    pub fn add(&mut self, folios: &mut Folios, memcg: Memcg) {
        self.lruvecs.extend(self.nodes().map(|node| Lruvec::new(folios, memcg, node)));
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.nodes).map(|node| Node(node as u8))
    }

    /// That of a group on a node.
    #[inline]
    pub fn id(&self, memcg: Memcg, node: Node) -> LruvecId {
        LruvecId((memcg.index() * self.nodes + node.index()) as u16)
    }

    /// Those of a group, by node.
    pub fn of(&self, memcg: Memcg) -> &[Lruvec] {
        &self.lruvecs[memcg.index() * self.nodes..][..self.nodes]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lruvecs.len()
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Lruvec> {
        self.lruvecs.iter()
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Lruvec> {
        self.lruvecs.iter_mut()
    }
}

impl std::ops::Index<LruvecId> for Lruvecs {
    type Output = Lruvec;
    #[inline]
    fn index(&self, id: LruvecId) -> &Lruvec {
        &self.lruvecs[usize::from(id.0)]
    }
}

impl std::ops::IndexMut<LruvecId> for Lruvecs {
    #[inline]
    fn index_mut(&mut self, id: LruvecId) -> &mut Lruvec {
        &mut self.lruvecs[usize::from(id.0)]
    }
}

/// The LRU lists of one memory cgroup on one node.
#[derive(Clone, Debug)]
pub struct Lruvec {
    /// Its lock.
    pub lock: LruLock,
    /// Whose lists they are.
    pub memcg: Memcg,
    /// On which node.
    pub node: Node,
    lists: [ListHead; LruList::COUNT],
    /// Pages on each list by zone; with the multi-gen LRU, of active and inactive generations.
    pub sizes: [[u64; ZoneType::COUNT]; LruList::COUNT],
    /// What reclaim of each type has cost lately, by type.
    pub cost: [u64; 2],
    /// Evictions and activations so far, in pages.
    pub nonresident_age: u64,
    /// What `workingset_activate` was when reclaim last ended, by type.
    pub refaults: [u64; 2],
    /// The multi-gen LRU.
    pub generations: Generations,
    /// What is counted here.
    pub stat: LruvecStat,
    /// What was counted here and below when statistics were last flushed.
    pub flushed: LruvecStat,
    /// Large folios that wait to be split.
    pub(crate) deferred_split: DeferredSplit,
    /// Nodes of files with nothing but shadows that reclaim owes to look at.
    pub(crate) deferred_shadow_nodes: u64,
    /// Changes of statistics since then.
    pub stat_updates: u64,
}

/// The type whose lists a folio with these flags is on.
#[inline]
pub fn type_of(flags: FolioFlags) -> LruType {
    if flags.has(FolioFlags::SWAPBACKED) { LruType::Anon } else { LruType::File }
}

impl Lruvec {
    pub(crate) fn new(folios: &mut Folios, memcg: Memcg, node: Node) -> Lruvec {
        Lruvec {
            lock: LruLock::default(),
            memcg,
            node,
            lists: std::array::from_fn(|_| folios.new_list()),
            sizes: Default::default(),
            cost: [0; 2],
            nonresident_age: 0,
            refaults: [0; 2],
            generations: Generations::new(folios),
            stat: LruvecStat::default(),
            flushed: LruvecStat::default(),
            deferred_split: DeferredSplit::default(),
            deferred_shadow_nodes: 0,
            stat_updates: 0,
        }
    }

    /// A classic list.
    pub fn list(&self, list: LruList) -> ListHead {
        self.lists[list as usize]
    }

    /// Pages of a list in zones up to `highest`.
    pub fn size(&self, list: LruList, highest: ZoneType) -> u64 {
        self.sizes[list as usize][..=highest as usize].iter().sum()
    }

    /// Pages of a folio come or go: so many changes of statistics (`memcg_rstat_updated`).
    #[inline]
    fn update_size(&mut self, list: LruList, zone: usize, pages: i64) {
        self.shift_size(list, zone, pages);
        self.stat_updates += pages.unsigned_abs();
    }

    /// Pages that stay where they are are of another list now; that is one change for each of both.
    #[inline]
    fn move_size(&mut self, from: LruList, to: LruList, zone: usize, pages: i64) {
        self.shift_size(from, zone, -pages);
        self.shift_size(to, zone, pages);
        self.stat_updates += 2;
    }

    #[inline]
    fn shift_size(&mut self, list: LruList, zone: usize, pages: i64) {
        let size = &mut self.sizes[list as usize][zone];
        *size = size.wrapping_add_signed(pages);
        let nr = &mut self.stat.nr_lru[list as usize];
        *nr = nr.wrapping_add_signed(pages);
    }

    /// Puts a folio on a classic list, or on that of locked memory.
    #[inline(always)]
    pub(super) fn add_to_list(&mut self, folios: &mut Folios, list: LruList, id: FolioId, end: ListEnd) {
        let flags = folios.flags[id];
        self.update_size(list, flags.zone(), flags.nr_pages() as i64);
        folios.push(self.lists[list as usize], id, end);
    }

    /// Puts a folio into the generation that it enters.
    pub(super) fn add_to_generation(
        &mut self,
        folios: &mut Folios,
        f: &GenFeatures,
        id: FolioId,
        end: ListEnd,
    ) {
        let flags = &mut folios.flags[id];
        let lru_type = type_of(*flags);
        let generations = &self.generations;
        let min_seq = generations.min_seq[lru_type as usize];
        let seq = mglru::policy::placement(f, *flags, generations.max_seq, min_seq, end);
        mglru::policy::leave_active(f, flags);
        flags.set_generation(Some(generation(seq)));
        let (zone, pages) = (flags.zone(), flags.nr_pages());
        self.update_generation_size(lru_type, zone, pages, None, Some(generation(seq)));
        folios.push(self.generations.list(seq, lru_type, zone), id, end);
    }

    /// Takes a folio off its list. Unless reclaim has it, one of an active generation stays `PG_active`.
    #[inline(always)]
    pub fn remove(&mut self, folios: &mut Folios, id: FolioId, reclaiming: bool) {
        let flags = &mut folios.flags[id];
        let (lru_type, zone, pages) = (type_of(*flags), flags.zone(), flags.nr_pages());
        match flags.generation() {
            Some(generation) => {
                flags.set_generation(None);
                if !reclaiming && self.generations.is_active(generation) {
                    flags.set(FolioFlags::ACTIVE);
                }
                self.update_generation_size(lru_type, zone, pages, Some(generation), None);
            }
            None if flags.has(FolioFlags::UNEVICTABLE) => {
                self.update_size(LruList::Unevictable, zone, -(pages as i64));
            }
            None => {
                self.update_size(LruList::of_flags(*flags), zone, -(pages as i64));
            }
        }
        folios.remove(id);
    }

    /// Counts pages from one generation to another; an active one does not become inactive that way
    /// (`lru_gen_update_size`).
    #[inline]
    pub fn update_generation_size(
        &mut self,
        lru_type: LruType,
        zone: usize,
        pages: u64,
        from: Option<usize>,
        to: Option<usize>,
    ) {
        let pages = pages as i64;
        let nr_pages = &mut self.generations.nr_pages;
        if let Some(from) = from {
            nr_pages[from][lru_type as usize][zone] -= pages;
        }
        if let Some(to) = to {
            nr_pages[to][lru_type as usize][zone] += pages;
        }
        let is_active = |generation: usize| self.generations.is_active(generation);
        match (from.map(is_active), to.map(is_active)) {
            (None, Some(active)) => self.update_size(LruList::of(lru_type, active), zone, pages),
            (Some(active), None) => self.update_size(LruList::of(lru_type, active), zone, -pages),
            (Some(false), Some(true)) => {
                self.move_size(LruList::inactive(lru_type), LruList::active(lru_type), zone, pages);
            }
            _ => {}
        }
    }

    /// A new youngest generation begins: what was the second youngest is no longer active. Where the new one takes
    /// the place of one that still has pages, those become active.
    pub fn advance_active(&mut self) {
        let max_seq = self.generations.max_seq;
        for lru_type in LruType::ALL {
            for zone in 0..ZoneType::COUNT {
                let pages = |seq: u64| self.generations.nr_pages[generation(seq)][lru_type as usize][zone];
                let leaving = pages(max_seq - 1) - pages(max_seq + 1);
                if leaving != 0 {
                    self.move_size(LruList::active(lru_type), LruList::inactive(lru_type), zone, leaving);
                }
            }
        }
    }

    /// Counts pages of a refault, an activation or the like.
    #[inline]
    pub fn count(&mut self, of: fn(&mut LruvecStat) -> &mut [u64; 2], lru_type: LruType, pages: u64) {
        of(&mut self.stat)[lru_type as usize] += pages;
        self.stat_updates += 1;
    }

    /// Finds the folios on the lists; panics with what does not hold of them.
    pub(crate) fn validate(&self, folios: &Folios, lru: &Lru, census: &mut Census) {
        for list in self.unused_lists(lru) {
            let found = folios.iter(list).next();
            assert_eq!(found, None, "a folio on a list that is not in use with {lru:?}");
        }
        let mut sizes = [[0; ZoneType::COUNT]; LruList::COUNT];
        let mut nr_pages = [[[0; ZoneType::COUNT]; 2]; GENS];
        for list in LruList::EVICTABLE.into_iter().chain([LruList::Unevictable]) {
            for id in folios.iter(self.list(list)) {
                census.find(folios, id);
                let flags = folios.flags[id];
                assert_eq!(flags.has(FolioFlags::LRU), !census.waits(id), "PG_lru of {id:?}: {flags:?}");
                assert_eq!(flags.generation(), None, "{id:?} is on a classic list");
                sizes[list as usize][flags.zone()] += flags.nr_pages();
                let unevictable = flags.has(FolioFlags::UNEVICTABLE);
                assert_eq!(unevictable, list == LruList::Unevictable, "{id:?} on {list:?}: {flags:?}");
                if !unevictable {
                    assert_eq!(LruList::of_flags(flags), list, "the list of {id:?}: {flags:?}");
                }
            }
        }
        for lru_type in LruType::ALL {
            self.generations.validate(lru_type);
            for number in 0..GENS {
                for zone in 0..ZoneType::COUNT {
                    for id in folios.iter(self.generations.list_of(number, lru_type, zone)) {
                        census.find(folios, id);
                        let flags = folios.flags[id];
                        assert_eq!(
                            flags.has(FolioFlags::LRU),
                            !census.waits(id),
                            "PG_lru of {id:?}: {flags:?}"
                        );
                        assert_eq!((type_of(flags), flags.zone()), (lru_type, zone), "the list of {id:?}");
                        assert!(!flags.has(FolioFlags::ACTIVE), "{id:?} is in a generation: {flags:?}");
                        let own =
                            flags.generation().expect("a folio on a generation's list has a generation");
                        assert!(
                            self.generations.exists(number, lru_type),
                            "{id:?} is in generation {number}"
                        );
                        // Where anonymous pages cannot be evicted, generations pass over them unseen, and over
                        // what promoted ones among them remember.
                        let remembers = lru_type == LruType::Anon || self.generations.exists(own, lru_type);
                        assert!(remembers, "{id:?} is to be sorted into generation {own}, which is gone");
                        nr_pages[own][lru_type as usize][zone] += flags.nr_pages() as i64;
                        let active = self.generations.is_active(own);
                        sizes[LruList::of(lru_type, active) as usize][zone] += flags.nr_pages();
                    }
                }
            }
        }
        assert_eq!(self.generations.nr_pages, nr_pages, "counts and lists of generations disagree");
        assert_eq!(self.sizes, sizes, "sizes and lists disagree");
        assert_eq!(self.stat.nr_lru, self.sizes.map(|by_zone| by_zone.iter().sum()), "statistics and sizes");
    }
}

/// Folios that may be split (`struct deferred_split`).
#[derive(Clone, Debug, Default)]
pub(crate) struct DeferredSplit {
    /// Those that came first at the front.
    pub(crate) queue: VecDeque<FolioId>,
    /// Work that the shrinker has put off.
    pub(crate) nr_deferred: u64,
}
