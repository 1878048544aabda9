//! Clusters of swap: 512 entries each (256 if large folios are not swapped out whole), where one cluster
//! holds folios of one order.
//!
//! ```text
//!   cluster   │■■■■■■■■│        │■■■■    │■■      │        a cluster has an order from its first folio
//!   order 3     used     free     used     free            until it is empty
//!
//!   free ─► nonfull (has room, or an entry was freed) ─► frag (searched since) ─► full
//!    ▲         ▲               lists of each order          │                      │
//!    └─────────┴────────────────── an entry is freed ───────┴──────────────────────┘
//! ```
//!
//! A folio of 2^n pages takes 2^n contiguous entries, aligned to their number. [`super::policy`] decides
//! which cluster they are taken from. If the size of a device is no multiple of 512 pages, its last cluster
//! is never free and holds single pages only. In the kernel: `struct swap_cluster_info` in mm/swapfile.c.

use super::SwapEntry;
use super::policy::{ClusterSearch, Place, swaps_large_folios};
use crate::allocator::page::PMD_ORDER;
use machine::{Cpu, PageSize};
use std::collections::BTreeSet;
use std::ops::Range;

/// Entries of a cluster (`SWAPFILE_CLUSTER`): those of a PMD-mapped folio if large folios are swapped out
/// whole.
fn swapfile_cluster(page_size: PageSize) -> u32 {
    if swaps_large_folios(page_size) { 512 } else { 256 }
}

const ORDERS: usize = PMD_ORDER as usize + 1;

/// The list that a cluster is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Free,
    Nonfull,
    Frag,
    Full,
}

#[derive(Clone, Debug)]
struct Cluster {
    /// Number of entries; fewer in the last cluster of a device.
    size: u32,
    count: u32,
    order: u8,
    list: List,
    /// Its position on its list: lower turns are nearer to the front.
    turn: u64,
    /// Which entries are used, one bit each.
    used: [u64; 8],
}

impl Cluster {
    fn is_empty(&self, at: u32, pages: u32) -> bool {
        let word = at as usize / 64;
        match pages {
            64.. => self.used[word..word + pages as usize / 64].iter().all(|&word| word == 0),
            _ => self.used[word] >> (at % 64) & ((1 << pages) - 1) == 0,
        }
    }

    /// The first entry from `from` on at which a folio of `order` fits.
    fn find(&self, from: u32, order: u8) -> Option<u32> {
        let pages = 1 << order;
        let mut places = (from.next_multiple_of(pages)..).step_by(pages as usize);
        places.by_ref().take_while(|at| at + pages <= self.size).find(|&at| self.is_empty(at, pages))
    }

    fn flip(&mut self, at: u32, pages: u32) {
        (at..at + pages).for_each(|at| self.used[at as usize / 64] ^= 1 << (at % 64));
    }
}

/// All clusters, the lists that they are on, and the current clusters of CPUs.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    cluster_entries: u32,
    clusters: Vec<Cluster>,
    /// All clusters by list, order (0 for free and full ones), turn and number.
    lists: BTreeSet<(List, u8, u64, u32)>,
    turns: u64,
    /// For each CPU and order, the entry after the last one that it took.
    current: Vec<[Option<SwapEntry>; ORDERS]>,
    /// The entry after the last one that a search of all swap has found.
    cursor: SwapEntry,
    capacity: u64,
    used: u64,
}

impl Clusters {
    /// Makes the table without any device.
    pub fn new(page_size: PageSize) -> Clusters {
        Clusters {
            cluster_entries: swapfile_cluster(page_size),
            clusters: Vec::new(),
            lists: BTreeSet::new(),
            turns: 0,
            current: Vec::new(),
            cursor: 0,
            capacity: 0,
            used: 0,
        }
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    /// Adds a device of `pages` pages.
    pub fn add(&mut self, pages: u64) {
        self.capacity += pages;
        let mut rest = pages;
        while rest > 0 {
            let size = rest.min(self.cluster_entries.into()) as u32;
            rest -= u64::from(size);
            let number = self.clusters.len() as u32;
            let list = if size == self.cluster_entries { List::Free } else { List::Nonfull };
            self.clusters.push(Cluster { size, count: 0, order: 0, list, turn: 0, used: [0; 8] });
            self.enlist(number, list);
        }
    }

    fn key(&self, number: u32) -> (List, u8, u64, u32) {
        let cluster = &self.clusters[number as usize];
        let of_order = matches!(cluster.list, List::Nonfull | List::Frag);
        (cluster.list, if of_order { cluster.order } else { 0 }, cluster.turn, number)
    }

    fn enlist(&mut self, number: u32, list: List) {
        self.turns += 1;
        let cluster = &mut self.clusters[number as usize];
        (cluster.list, cluster.turn) = (list, self.turns);
        let key = self.key(number);
        self.lists.insert(key);
    }

    /// Moves a cluster to the end of a list.
    fn relist(&mut self, number: u32, list: List) {
        let key = self.key(number);
        self.lists.remove(&key);
        self.enlist(number, list);
    }

    /// The clusters of a list, from front to end.
    fn on(&self, list: List, order: u8) -> impl Iterator<Item = u32> + use<'_> {
        let all = self.lists.range((list, order, 0, 0)..(list, order, u64::MAX, u32::MAX));
        all.map(|&(.., number)| number)
    }

    fn first(&self, list: List, order: u8) -> Option<u32> {
        self.on(list, order).next()
    }

    /// Takes 2^order contiguous entries from `place`. Returns the first of them.
    pub fn take(&mut self, f: ClusterSearch, place: Place, cpu: Cpu, order: u8) -> Option<SwapEntry> {
        let (number, at) = match place {
            Place::Current => self.find_current(cpu, order)?,
            Place::Free => (self.first(List::Free, 0)?, 0),
            Place::Nonfull => self.find_nonfull(order)?,
            Place::Frag => self.find_frag(order, usize::MAX)?,
            Place::OneFrag => self.find_frag(order, 1)?,
            Place::ReclaimFull => return None,
            Place::Steal => self.find_any(1..=PMD_ORDER)?,
            Place::Anywhere => self.find_anywhere()?,
        };
        Some(self.take_from(f, cpu, number, at, order))
    }

    fn find_current(&mut self, cpu: Cpu, order: u8) -> Option<(u32, u32)> {
        let entry = self.current.get(cpu.index())?[usize::from(order)]?;
        let (number, from) = (entry / self.cluster_entries, entry % self.cluster_entries);
        let cluster = &self.clusters[number as usize];
        let usable = order == 0 || cluster.order == order || cluster.list == List::Free;
        let found = usable.then(|| cluster.find(from, order)).flatten();
        if found.is_none() {
            self.current[cpu.index()][usize::from(order)] = None;
        }
        Some((number, found?))
    }

    fn find_nonfull(&mut self, order: u8) -> Option<(u32, u32)> {
        while let Some(number) = self.first(List::Nonfull, order) {
            self.relist(number, List::Frag);
            if let Some(at) = self.clusters[number as usize].find(0, order) {
                return Some((number, at));
            }
        }
        None
    }

    fn find_frag(&mut self, order: u8, most: usize) -> Option<(u32, u32)> {
        let all: Vec<u32> = self.on(List::Frag, order).take(most).collect();
        for number in all {
            self.relist(number, List::Frag);
            if let Some(at) = self.clusters[number as usize].find(0, order) {
                return Some((number, at));
            }
        }
        None
    }

    /// Finds a single entry in a cluster of one of these orders.
    fn find_any(&self, mut orders: std::ops::RangeInclusive<u8>) -> Option<(u32, u32)> {
        orders.find_map(|order| {
            let number = self.first(List::Frag, order).or_else(|| self.first(List::Nonfull, order))?;
            Some((number, self.clusters[number as usize].find(0, 0)?))
        })
    }

    fn find_anywhere(&mut self) -> Option<(u32, u32)> {
        let (number, from) = (self.cursor / self.cluster_entries, self.cursor % self.cluster_entries);
        let all = self.clusters.len() as u32;
        let rest = (number + 1..all).chain(0..=number.min(all.saturating_sub(1))).map(|number| (number, 0));
        let find = |(number, from): (u32, u32)| {
            let cluster =
                self.clusters.get(number as usize).filter(|cluster| cluster.count < cluster.size)?;
            Some((number, cluster.find(from, 0)?))
        };
        let found = std::iter::once((number, from)).chain(rest).find_map(find)?;
        self.cursor = found.0 * self.cluster_entries + found.1 + 1;
        Some(found)
    }

    fn take_from(&mut self, f: ClusterSearch, cpu: Cpu, number: u32, at: u32, order: u8) -> SwapEntry {
        let pages = 1 << order;
        self.used += u64::from(pages);
        let key = self.key(number);
        let cluster = &mut self.clusters[number as usize];
        cluster.flip(at, pages);
        cluster.count += pages;
        let is_full = cluster.count == cluster.size;
        let list = match cluster.list {
            _ if is_full => List::Full,
            List::Free | List::Nonfull if f == ClusterSearch::NonfullFirst => List::Frag,
            List::Free => List::Nonfull,
            list => list,
        };
        if list != cluster.list {
            self.lists.remove(&key);
            if key.0 == List::Free {
                self.clusters[number as usize].order = order;
            }
            self.enlist(number, list);
        }
        if self.current.len() <= cpu.index() {
            self.current.resize(cpu.index() + 1, [None; ORDERS]);
        }
        let first = number * self.cluster_entries + at;
        let goes_on = !is_full && at + pages < self.cluster_entries;
        self.current[cpu.index()][usize::from(order)] = goes_on.then_some(first + pages);
        first
    }

    /// Frees one entry.
    pub fn release(&mut self, entry: SwapEntry) {
        self.used -= 1;
        let (number, at) = (entry / self.cluster_entries, entry % self.cluster_entries);
        let cluster = &mut self.clusters[number as usize];
        debug_assert!(!cluster.is_empty(at, 1), "entry {entry} is in use");
        cluster.flip(at, 1);
        cluster.count -= 1;
        match cluster.list {
            _ if cluster.count == 0 && cluster.size == self.cluster_entries => {
                self.relist(number, List::Free)
            }
            List::Full | List::Frag => self.relist(number, List::Nonfull),
            List::Free | List::Nonfull => {}
        }
    }

    /// Returns the entries of the cluster at the front of the full list, and moves it to the end.
    pub fn rotate_full(&mut self) -> Option<Range<SwapEntry>> {
        let number = self.first(List::Full, 0)?;
        self.relist(number, List::Full);
        let first = number * self.cluster_entries;
        Some(first..first + self.clusters[number as usize].size)
    }

    pub fn is_used(&self, entry: SwapEntry) -> bool {
        let cluster = &self.clusters[(entry / self.cluster_entries) as usize];
        !cluster.is_empty(entry % self.cluster_entries, 1)
    }

    /// Panics unless lists, counts and bits of entries agree.
    pub fn validate(&self) {
        assert_eq!(self.lists.len(), self.clusters.len(), "each cluster is on one list");
        let mut used = 0;
        for (number, cluster) in (0..).zip(&self.clusters) {
            let bits: u32 = cluster.used.iter().map(|word| word.count_ones()).sum();
            assert_eq!(bits, cluster.count, "entries of cluster {number}");
            assert!(self.lists.contains(&self.key(number)), "cluster {number} is where it says: {cluster:?}");
            let whole = cluster.size == self.cluster_entries;
            assert_eq!(cluster.list == List::Free, cluster.count == 0 && whole, "{cluster:?}");
            assert_eq!(cluster.list == List::Full, cluster.count == cluster.size, "{cluster:?}");
            used += u64::from(bits);
        }
        assert_eq!(used, self.used, "used entries");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swapfile::policy::search;
    use proptest::prelude::*;

    const SEARCHES: [ClusterSearch; 4] = [
        ClusterSearch::WholeClusters,
        ClusterSearch::CurrentOrFree,
        ClusterSearch::FreeFirst,
        ClusterSearch::NonfullFirst,
    ];

    fn take(clusters: &mut Clusters, f: ClusterSearch, cpu: u16, order: u8) -> Option<SwapEntry> {
        search(f, order).iter().find_map(|&place| clusters.take(f, place, Cpu(cpu), order))
    }

    /// A slow model: one bit for each entry and the order of each cluster.
    struct Plain {
        used: Vec<bool>,
        orders: Vec<Option<u8>>,
    }

    impl Plain {
        fn is_free(&self, entries: Range<usize>) -> bool {
            entries.end <= self.used.len() && !self.used[entries].contains(&true)
        }

        /// Whether a folio of this order fits into a cluster of its order or an empty one.
        fn has_room(&self, order: u8) -> bool {
            let pages = 1 << order;
            (0..self.used.len()).step_by(pages).any(|at| {
                let of = self.orders[at / 512];
                self.is_free(at..at + pages) && (order == 0 || of.is_none_or(|of| of == order))
            })
        }
    }

    proptest! {
        /// No entry is taken twice, folios are aligned, clusters keep to their order, and the search of 6.12
        /// finds room if there is any.
        #[test]
        fn entries_by_definition(
            f in prop::sample::select(SEARCHES.to_vec()),
            pages in prop_oneof![Just(2048u64), Just(1600)],
            steps in prop::collection::vec((0..2u16, 0..10u8, any::<bool>(), 0..usize::MAX), 1..400),
        ) {
            let mut clusters = Clusters::new(PageSize::Kib4);
            clusters.add(pages);
            let mut plain = Plain { used: vec![false; pages as usize], orders: vec![None; 4] };
            if pages % 512 > 0 {
                plain.orders[3] = Some(0);
            }
            let mut taken: Vec<SwapEntry> = Vec::new();
            for (cpu, order, gives_back, which) in steps {
                if gives_back && !taken.is_empty() {
                    for _ in 0..(1 << order).min(taken.len()) {
                        let entry = taken.swap_remove(which % taken.len());
                        clusters.release(entry);
                        plain.used[entry as usize] = false;
                        let cluster = entry as usize / 512 * 512;
                        if plain.is_free(cluster..cluster + 512) {
                            plain.orders[cluster / 512] = None;
                        }
                    }
                } else {
                    let room = plain.has_room(order);
                    let found = take(&mut clusters, f, cpu, order);
                    let finds_all = f == ClusterSearch::FreeFirst && order < 9 || order == 0;
                    prop_assert!(room || found.is_none(), "order {} at {:?}", order, found);
                    prop_assert!(!room || found.is_some() || !finds_all, "order {}", order);
                    if let Some(first) = found {
                        let entries = first as usize..first as usize + (1 << order);
                        prop_assert!(first.is_multiple_of(1 << order) && plain.is_free(entries.clone()));
                        plain.orders[entries.start / 512].get_or_insert(order);
                        plain.used[entries].fill(true);
                        taken.extend(first..first + (1 << order));
                    }
                }
                clusters.validate();
                prop_assert_eq!(clusters.used(), taken.len() as u64);
            }
        }
    }

    /// Eight clusters, of which each of the first four has had 16 entries taken and one of them freed again.
    #[test]
    fn whose_turn_it_is() {
        let next = |f| {
            let mut clusters = Clusters::new(PageSize::Kib4);
            clusters.add(8 * 512);
            for cpu in 0..4 {
                let first = take(&mut clusters, f, cpu, 4).unwrap();
                assert_eq!(first, u32::from(cpu) * 512, "each CPU begins a cluster of its own: {f:?}");
            }
            (0..4).for_each(|number| clusters.release(number * 512));
            [0, 0, 1, 5].map(|cpu| take(&mut clusters, f, cpu, 4).unwrap())
        };
        let current = [16, 32, 512 + 16];
        assert_eq!(next(ClusterSearch::FreeFirst)[..3], current);
        assert_eq!(next(ClusterSearch::FreeFirst)[3], 4 * 512, "a free cluster");
        assert_eq!(next(ClusterSearch::NonfullFirst)[3], 2 * 512 + 16, "one with room");
        assert_eq!(next(ClusterSearch::CurrentOrFree)[3], 4 * 512);
    }

    #[test]
    fn large_folios_do_without_where_single_pages_are() {
        for f in SEARCHES {
            let mut clusters = Clusters::new(PageSize::Kib4);
            clusters.add(1024);
            let single: Vec<_> = (0..1024).map(|_| take(&mut clusters, f, 0, 0).unwrap()).collect();
            assert_eq!(single, (0..1024).collect::<Vec<_>>(), "{f:?}");
            single.iter().filter(|&entry| entry % 512 > 0).for_each(|&entry| clusters.release(entry));
            assert!((2..=9).all(|order| take(&mut clusters, f, 0, order).is_none()), "{f:?}");
            clusters.release(512);
            let found: Vec<_> = (2..=9).rev().filter_map(|order| take(&mut clusters, f, 0, order)).collect();
            assert_eq!(found, [512], "2 MiB fit where a cluster is empty: {f:?}");
        }
    }
}
