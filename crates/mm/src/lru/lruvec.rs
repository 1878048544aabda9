//! The LRU lists of one memory cgroup on one node (`struct lruvec`).
//!
//! ```text
//!   classic      anon │ active ─► inactive ─► evicted    file │ active ─► inactive ─► evicted    unevictable
//!
//!   multi-gen    generation   max_seq    max_seq-1   ...   min_seq              2 to 4 of them, each with
//!                             youngest                     oldest ─► evicted    lists by type and zone
//! ```
//!
//! `crates/mm/src/lru/kind.rs` says which of the two LRUs is in use; a lruvec has the lists of both. The two
//! youngest generations count as active. The lists of generation n have index n mod 4. In the kernel: `struct
//! lruvec` in include/linux/mmzone.h, `lruvec_add_folio`, `lru_gen_add_folio` in include/linux/mm_inline.h.

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

/// [`MAX_NR_GENS`] as the length of an array.
pub const GENS: usize = MAX_NR_GENS as usize;
/// Tiers of a generation (`MAX_NR_TIERS`).
pub const TIERS: usize = 4;

/// A classic list (`enum lru_list`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum LruList {
    /// Anonymous pages that reclaim writes to swap next.
    InactiveAnon = 0,
    /// Anonymous pages that have been used.
    ActiveAnon = 1,
    /// File pages that reclaim evicts next.
    InactiveFile = 2,
    /// File pages that have been used.
    ActiveFile = 3,
    /// Pages that cannot be evicted, as they are mlocked.
    Unevictable = 4,
}

impl LruList {
    pub const COUNT: usize = 5;
    /// The lists that reclaim looks at, in its order (`for_each_evictable_lru`).
    pub const EVICTABLE: [LruList; 4] =
        [LruList::InactiveAnon, LruList::ActiveAnon, LruList::InactiveFile, LruList::ActiveFile];

    pub fn of(lru_type: LruType, active: bool) -> LruList {
        if active { LruList::active(lru_type) } else { LruList::inactive(lru_type) }
    }

    /// The list that a folio with these flags is on, unless it is unevictable (`folio_lru_list`).
    #[inline]
    pub fn of_flags(flags: FolioFlags) -> LruList {
        LruList::of(type_of(flags), flags.has(FolioFlags::ACTIVE))
    }

    pub fn active(lru_type: LruType) -> LruList {
        LruList::EVICTABLE[lru_type as usize * 2 + 1]
    }

    pub fn inactive(lru_type: LruType) -> LruList {
        LruList::EVICTABLE[lru_type as usize * 2]
    }

    pub fn lru_type(self) -> LruType {
        if (self as usize) < 2 { LruType::Anon } else { LruType::File }
    }

    pub fn is_active(self) -> bool {
        matches!(self, LruList::ActiveAnon | LruList::ActiveFile)
    }
}

/// The counters of a lruvec that memory cgroups have of their own, in pages (`enum node_stat_item`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruvecStat {
    /// Sizes of the lists (`nr_inactive_anon` and so on), indexed by [`LruList`].
    pub nr_lru: [u64; LruList::COUNT],
    /// `workingset_refault`, indexed by type.
    pub refault: [u64; 2],
    /// `workingset_activate`, indexed by type.
    pub activate: [u64; 2],
    /// `workingset_restore`, indexed by type.
    pub restore: [u64; 2],
}

impl LruvecStat {
    /// File pages on the active and inactive lists.
    pub(crate) fn nr_file(&self) -> u64 {
        self.nr_lru[LruList::ActiveFile as usize] + self.nr_lru[LruList::InactiveFile as usize]
    }

    pub fn add(&mut self, other: &LruvecStat) {
        let mine = [&mut self.refault, &mut self.activate, &mut self.restore];
        for (mine, other) in mine.into_iter().zip([other.refault, other.activate, other.restore]) {
            mine.iter_mut().zip(other).for_each(|(mine, other)| *mine += other);
        }
        self.nr_lru.iter_mut().zip(other.nr_lru).for_each(|(mine, other)| *mine += other);
    }
}

/// Counters of the multi-gen LRU in pages, indexed by type and tier.
pub type ByTier = [[u64; TIERS]; 2];

/// The generations of a lruvec (`struct lru_gen_folio`).
#[derive(Clone, Debug)]
pub struct Generations {
    /// Sequence number of the youngest generation.
    pub max_seq: u64,
    /// Sequence number of the oldest generation, indexed by type.
    pub min_seq: [u64; 2],
    /// When each generation began, indexed by number modulo 4.
    pub timestamps: [Time; GENS],
    lists: [[[ListHead; ZoneType::COUNT]; 2]; GENS],
    /// Pages on each list, indexed by generation modulo 4, type and zone.
    pub nr_pages: [[[i64; ZoneType::COUNT]; 2]; GENS],
    /// Moving averages of refaults and evictions, indexed by type and tier (`avg_refaulted`, `avg_total`).
    pub average: [[TierCounts; TIERS]; 2],
    /// Pages evicted from the oldest generation.
    pub evicted: ByTier,
    /// Refaults of pages that were evicted from the oldest generation.
    pub refaulted: ByTier,
    /// Pages that were moved on from the oldest generation instead of being evicted, because their tier is
    /// protected.
    pub protected: ByTier,
    /// Bloom filters of the page tables that are worth a walk.
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

    /// The lists of all generations, types and zones.
    pub(super) fn lists(&self) -> impl Iterator<Item = ListHead> + use<'_> {
        self.lists.iter().flatten().flatten().copied()
    }

    /// The list of generation `seq`.
    pub fn list(&self, seq: u64, lru_type: LruType, zone: usize) -> ListHead {
        self.lists[generation(seq)][lru_type as usize][zone]
    }

    /// The list of the generation whose number modulo 4 is `generation`.
    pub fn list_of(&self, generation: usize, lru_type: LruType, zone: usize) -> ListHead {
        self.lists[generation][lru_type as usize][zone]
    }

    /// Number of generations of a type (`get_nr_gens`).
    pub fn count(&self, lru_type: LruType) -> u64 {
        self.max_seq - self.min_seq[lru_type as usize] + 1
    }

    /// Whether a type has a generation with this number modulo 4.
    fn exists(&self, number: usize, lru_type: LruType) -> bool {
        (self.min_seq[lru_type as usize]..=self.max_seq).any(|seq| generation(seq) == number)
    }

    /// Panics unless a type has 2 to 4 generations that began one after the other.
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

    /// Pages of a generation in all zones.
    pub fn size(&self, seq: u64, lru_type: LruType) -> u64 {
        self.nr_pages[generation(seq)][lru_type as usize].iter().map(|&pages| pages.max(0) as u64).sum()
    }

    /// Whether the generation with this number modulo 4 counts as active (`lru_gen_is_active`).
    #[inline]
    pub fn is_active(&self, generation_number: usize) -> bool {
        generation_number == generation(self.max_seq) || generation_number == generation(self.max_seq - 1)
    }
}

/// Generation `seq` modulo 4, the index of its lists (`lru_gen_from_seq`).
#[inline]
pub fn generation(seq: u64) -> usize {
    (seq % MAX_NR_GENS) as usize
}

/// The lruvecs of all memory cgroups. Those of one memcg follow each other, by node.
#[derive(Clone, Debug)]
pub(crate) struct Lruvecs {
    lruvecs: Vec<Lruvec>,
    nodes: usize,
}

impl Lruvecs {
    /// Makes the table for a machine with `nodes` nodes; it begins without any memcg.
    pub fn new(nodes: usize) -> Lruvecs {
        Lruvecs { lruvecs: Vec::new(), nodes }
    }

    /// Adds the lruvecs of a new memcg, one for each node.
    pub fn add(&mut self, folios: &mut Folios, memcg: Memcg) {
        self.lruvecs.extend(self.nodes().map(|node| Lruvec::new(folios, memcg, node)));
    }

    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.nodes).map(|node| Node(node as u8))
    }

    /// The number of the lruvec of a memcg on a node (`mem_cgroup_lruvec`).
    #[inline]
    pub fn id(&self, memcg: Memcg, node: Node) -> LruvecId {
        LruvecId((memcg.index() * self.nodes + node.index()) as u16)
    }

    /// The lruvecs of a memcg, indexed by node.
    pub fn of(&self, memcg: Memcg) -> &[Lruvec] {
        &self.lruvecs[memcg.index() * self.nodes..][..self.nodes]
    }

    pub fn len(&self) -> usize {
        self.lruvecs.len()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Lruvec> {
        self.lruvecs.iter()
    }

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
    pub lock: LruLock,
    /// The memcg whose lists they are.
    pub memcg: Memcg,
    pub node: Node,
    lists: [ListHead; LruList::COUNT],
    /// Pages on each list by zone. With the multi-gen LRU, pages of the active and of the inactive
    /// generations.
    pub sizes: [[u64; ZoneType::COUNT]; LruList::COUNT],
    /// What reclaim of each type has cost lately, indexed by type (`anon_cost`, `file_cost`).
    pub cost: [u64; 2],
    /// Evictions and activations so far, in pages (`nonresident_age`).
    pub nonresident_age: u64,
    /// Value of `workingset_activate` when reclaim last ended, indexed by type (`lruvec->refaults`).
    pub refaults: [u64; 2],
    /// The generations of the multi-gen LRU (`lrugen`).
    pub generations: Generations,
    /// The counters of this lruvec alone, always current.
    pub stat: LruvecStat,
    /// The counters of this lruvec and of those of the memcgs below it, as of the last flush.
    pub flushed: LruvecStat,
    /// Large folios that wait to be split.
    pub(crate) deferred_split: DeferredSplit,
    /// Shadow nodes of the page cache that the shrinker has still to look at (`nr_deferred`).
    pub(crate) deferred_shadow_nodes: u64,
    /// Changes of `stat` since the last flush (`memcg_rstat_updated`).
    pub stat_updates: u64,
    /// The memcg, this lruvec's or one below, at which reclaim for this lruvec's memcg last stopped.
    pub(crate) last_reclaimed: Option<Memcg>,
}

/// The type of the lists that a folio with these flags is on (`folio_is_file_lru`).
#[inline]
pub fn type_of(flags: FolioFlags) -> LruType {
    if flags.has(FolioFlags::SWAPBACKED) { LruType::Anon } else { LruType::File }
}

impl Lruvec {
    pub(crate) fn new(folios: &mut Folios, memcg: Memcg, node: Node) -> Lruvec {
        Lruvec {
            lock: LruLock::of(memcg.index(), node),
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
            last_reclaimed: None,
        }
    }

    pub fn list(&self, list: LruList) -> ListHead {
        self.lists[list as usize]
    }

    /// Pages of a list in the zones up to `highest` (`lruvec_lru_size`).
    pub fn size(&self, list: LruList, highest: ZoneType) -> u64 {
        self.sizes[list as usize][..=highest as usize].iter().sum()
    }

    /// Changes the size of a list by the pages of a folio; each page is a change of statistics
    /// (`memcg_rstat_updated`).
    #[inline]
    fn update_size(&mut self, list: LruList, zone: usize, pages: i64) {
        self.shift_size(list, zone, pages);
        self.stat_updates += pages.unsigned_abs();
    }

    /// Counts pages from one list to another while the folios stay where they are: one change of statistics
    /// for each list.
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

    /// Adds a folio to a classic list or to the unevictable one.
    #[inline(always)]
    pub(super) fn add_to_list(&mut self, folios: &mut Folios, list: LruList, id: FolioId, end: ListEnd) {
        let flags = folios.flags[id];
        self.update_size(list, flags.zone(), flags.nr_pages() as i64);
        folios.push(self.lists[list as usize], id, end);
    }

    /// Adds a folio to the generation that `placement` chooses (`lru_gen_add_folio`).
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

    /// Removes a folio from its list (`lruvec_del_folio`). Unless reclaim takes it, a folio of an active
    /// generation becomes `PG_active`.
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

    /// Counts pages from one generation to another. Pages may become active that way, but not inactive
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

    /// Prepares the sizes for a new youngest generation: the second youngest no longer counts as active. If
    /// the new one takes the lists of a generation that still has pages, those pages become active
    /// (`inc_max_seq`).
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

    /// Adds pages to one of the counters by type, such as `workingset_refault`.
    #[inline]
    pub fn count(&mut self, of: fn(&mut LruvecStat) -> &mut [u64; 2], lru_type: LruType, pages: u64) {
        of(&mut self.stat)[lru_type as usize] += pages;
        self.stat_updates += 1;
    }

    /// Marks the folios on the lists as found; panics if lists, flags and counters disagree.
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
                        // If anonymous pages cannot be evicted, their generations are given up without
                        // looking at the folios, and so are the generations that promoted ones among them are
                        // to be sorted into.
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

/// The queue of large folios that may be split (`struct deferred_split`).
#[derive(Clone, Debug, Default)]
pub(crate) struct DeferredSplit {
    /// The folios, those queued first at the front.
    pub(crate) queue: VecDeque<FolioId>,
    /// Folios that the shrinker has still to look at (`nr_deferred`).
    pub(crate) nr_deferred: u64,
}
