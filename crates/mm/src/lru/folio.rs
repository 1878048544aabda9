//! Folios: pages in use that reclaim looks after, and the lists that they are on.
//!
//! ```text
//!   folio    place on its list │ slot: who maps the page │ pfn │ lruvec │ mapcount    16 bytes
//!   flags    GEN, REFS, referenced ...                                                  4 more, apart, as most accesses
//!                                                                                       need nothing else
//!   lists    newest ... oldest                                                          4 and a quarter (lists.rs)
//! ```
//!
//! A folio is on one list at most, or in a batch of a CPU, or isolated by reclaim. In the kernel: `struct folio`,
//! include/linux/page-flags.h.

mod lists;
mod mapcount;

pub use lists::{ListEnd, ListHead};

use crate::allocator::page::{NO_PAGE, Pfn};
use crate::vec_growth;
use lists::{Lists, Place};
use prefetch_index::prefetch_index;
use std::collections::BTreeMap;

/// How many folios before its turn one is fetched from the host's memory, in a walk of a list.
const FETCHED_AHEAD: usize = 16;

/// A folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolioId(pub(crate) u32);

impl FolioId {
    /// Its place in arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The lists of one memory cgroup on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruvecId(pub(crate) u16);

/// What is known of a folio, bit by bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolioFlags(u32);

impl FolioFlags {
    /// `PG_referenced`.
    pub const REFERENCED: FolioFlags = FolioFlags(1 << 0);
    /// `PG_active`.
    pub const ACTIVE: FolioFlags = FolioFlags(1 << 1);
    /// `PG_workingset`.
    pub const WORKINGSET: FolioFlags = FolioFlags(1 << 2);
    /// `PG_unevictable`.
    pub const UNEVICTABLE: FolioFlags = FolioFlags(1 << 3);
    /// `PG_lru`: on a list; neither in a batch nor isolated.
    pub const LRU: FolioFlags = FolioFlags(1 << 4);
    /// `PG_swapbacked`: goes to swap, not to a file.
    pub const SWAPBACKED: FolioFlags = FolioFlags(1 << 5);
    /// `PG_swapcache`: has a swap entry.
    pub const SWAPCACHE: FolioFlags = FolioFlags(1 << 6);
    /// `PG_dirty`.
    pub const DIRTY: FolioFlags = FolioFlags(1 << 7);
    /// `PG_writeback`.
    pub const WRITEBACK: FolioFlags = FolioFlags(1 << 8);
    /// `PG_reclaim`: to be reclaimed once written.
    pub const RECLAIM: FolioFlags = FolioFlags(1 << 9);
    /// `PG_locked`: being read in.
    pub const LOCKED: FolioFlags = FolioFlags(1 << 10);
    /// `PG_readahead`: reading it reads on.
    pub const READAHEAD: FolioFlags = FolioFlags(1 << 11);
    /// It is on the list of those that may be split (`_deferred_list`).
    pub const DEFERRED_SPLIT: FolioFlags = FolioFlags(1 << 12);
    /// `PG_partially_mapped`: not all of its pages are mapped any more, and it waits to be split.
    pub const PARTIALLY_MAPPED: FolioFlags = FolioFlags(1 << 15);
    /// `VM_EXEC`: a program's text.
    pub const EXECUTABLE: FolioFlags = FolioFlags(1 << 13);

    /// Somebody holds it (an elevated `_refcount`, as that of a block of metadata in use): it cannot be freed.
    pub const HELD: FolioFlags = FolioFlags(1 << 14);

    /// `PG_mlocked`: an area in which memory stays has all of it.
    pub const MLOCKED: FolioFlags = FolioFlags(1 << 29);

    /// It is large and has left the swap cache (`folio_free_swap`). Pages of it that nobody mapped there are still mapped by nobody,
    /// and it does not wait to be split, as the kernel queues a folio only where a mapping goes. For checks: the kernel has no such flag.
    pub const LEFT_SWAP: FolioFlags = FolioFlags(1 << 30);

    const REFS_SHIFT: u32 = 16;
    const REFS_MASK: u32 = 3 << Self::REFS_SHIFT;
    const GEN_SHIFT: u32 = 18;
    const GEN_MASK: u32 = 7 << Self::GEN_SHIFT;
    const ZONE_SHIFT: u32 = 21;
    const ZONE_MASK: u32 = 15 << Self::ZONE_SHIFT;
    const ORDER_SHIFT: u32 = 25;
    const ORDER_MASK: u32 = 15 << Self::ORDER_SHIFT;

    /// Whether all of `flags` are set.
    #[inline]
    pub fn has(self, flags: FolioFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub fn any(self, flags: FolioFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets `flags`.
    #[inline]
    pub fn set(&mut self, flags: FolioFlags) {
        self.0 |= flags.0;
    }

    /// Clears `flags`.
    #[inline]
    pub fn clear(&mut self, flags: FolioFlags) {
        self.0 &= !flags.0;
    }

    /// Clears `flags`; whether any was set.
    #[inline]
    pub fn take(&mut self, flags: FolioFlags) -> bool {
        let any = self.any(flags);
        self.clear(flags);
        any
    }

    /// Both.
    pub const fn and(self, flags: FolioFlags) -> FolioFlags {
        FolioFlags(self.0 | flags.0)
    }

    /// The counter of accesses through file descriptors after the first, 0 to 3 (`LRU_REFS_MASK`).
    #[inline]
    pub fn refs(self) -> u8 {
        ((self.0 & Self::REFS_MASK) >> Self::REFS_SHIFT) as u8
    }

    /// Sets [`FolioFlags::refs`].
    #[inline]
    pub fn set_refs(&mut self, refs: u8) {
        self.0 = self.0 & !Self::REFS_MASK | u32::from(refs) << Self::REFS_SHIFT;
    }

    /// The generation list that it is on or is to be sorted to; none if it is on no such list.
    #[inline]
    pub fn generation(self) -> Option<usize> {
        let stored = (self.0 & Self::GEN_MASK) >> Self::GEN_SHIFT;
        (stored > 0).then(|| stored as usize - 1)
    }

    /// Sets [`FolioFlags::generation`].
    #[inline]
    pub fn set_generation(&mut self, generation: Option<usize>) {
        let stored = generation.map_or(0, |generation| generation as u32 + 1);
        self.0 = self.0 & !Self::GEN_MASK | stored << Self::GEN_SHIFT;
    }

    /// log2 of its pages.
    #[inline]
    pub fn order(self) -> u8 {
        ((self.0 & Self::ORDER_MASK) >> Self::ORDER_SHIFT) as u8
    }

    /// Sets [`FolioFlags::order`].
    #[inline]
    pub fn set_order(&mut self, order: u8) {
        self.0 = self.0 & !Self::ORDER_MASK | u32::from(order) << Self::ORDER_SHIFT;
    }

    /// Its pages (`folio_nr_pages`).
    #[inline]
    pub fn nr_pages(self) -> u64 {
        1 << self.order()
    }

    /// Which of its node's kinds of zones it is in.
    #[inline]
    pub fn zone(self) -> usize {
        ((self.0 & Self::ZONE_MASK) >> Self::ZONE_SHIFT) as usize
    }

    /// Sets [`FolioFlags::zone`].
    #[inline]
    pub fn set_zone(&mut self, zone: usize) {
        self.0 = self.0 & !Self::ZONE_MASK | (zone as u32) << Self::ZONE_SHIFT;
    }
}

impl std::ops::BitOr for FolioFlags {
    type Output = FolioFlags;
    fn bitor(self, other: FolioFlags) -> FolioFlags {
        self.and(other)
    }
}

/// A page in use.
#[derive(Clone, Copy, Debug)]
pub struct Folio {
    place: Place,
    /// Of a file's page, its place in the page cache; of an anonymous one, a page-table entry that maps it.
    pub slot: u32,
    /// Its memory, from this page on.
    pub pfn: Pfn,
    /// Whose lists it is on.
    pub lruvec: LruvecId,
    /// How many page-table entries map it or a page of it, a huge one counting as one (`_large_mapcount`), exact where
    /// there are none or one; `Folios::mapcount` says how many there are else.
    pub mapcount: u16,
}

/// Something of each folio.
#[derive(Clone, Debug, Default)]
pub struct ByFolio<T>(Vec<T>);

impl<T> ByFolio<T> {
    /// Has what is known of a folio fetched from memory, ahead of its use; changes nothing.
    #[inline]
    pub fn prefetch(&self, id: FolioId) {
        prefetch_index(&self.0, id.index());
    }
}

impl<T> std::ops::Index<FolioId> for ByFolio<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: FolioId) -> &T {
        &self.0[id.index()]
    }
}

impl<T> std::ops::IndexMut<FolioId> for ByFolio<T> {
    #[inline]
    fn index_mut(&mut self, id: FolioId) -> &mut T {
        &mut self.0[id.index()]
    }
}

/// All folios, and the lists that they are on.
#[derive(Clone, Debug, Default)]
pub struct Folios {
    records: Vec<Folio>,
    /// What is known of each.
    pub flags: ByFolio<FolioFlags>,
    /// Mappings that `mapcount` has no room for.
    parts: BTreeMap<FolioId, u32>,
    free: Vec<FolioId>,
    lists: Lists,
}

impl std::ops::Index<FolioId> for Folios {
    type Output = Folio;
    #[inline]
    fn index(&self, id: FolioId) -> &Folio {
        &self.records[id.0 as usize]
    }
}

impl std::ops::IndexMut<FolioId> for Folios {
    #[inline]
    fn index_mut(&mut self, id: FolioId) -> &mut Folio {
        &mut self.records[id.0 as usize]
    }
}

impl Folios {
    /// How many folios there are.
    pub fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, folios: usize) {
        self.records.reserve_exact(folios);
        self.flags.0.reserve_exact(folios);
        self.lists.reserve(folios);
    }

    /// Bytes that records and lists take, records of folios that are gone included.
    pub fn bytes(&self) -> usize {
        self.records.capacity() * (size_of::<Folio>() + size_of::<FolioFlags>())
            + self.free.capacity() * size_of::<FolioId>()
            + self.lists.bytes()
    }

    /// A folio on no list.
    pub fn create(&mut self, pfn: Pfn, flags: FolioFlags, slot: u32, lruvec: LruvecId) -> FolioId {
        let folio = Folio { place: Place::NOWHERE, slot, pfn, lruvec, mapcount: 0 };
        match self.free.pop() {
            Some(id) => {
                self[id] = folio;
                self.flags[id] = flags;
                id
            }
            None => {
                let id = FolioId(self.records.len() as u32);
                vec_growth::reserve(&mut self.records, 1);
                vec_growth::reserve(&mut self.flags.0, 1);
                self.records.push(folio);
                self.flags.0.push(flags);
                id
            }
        }
    }

    /// Makes folios of one page each of a folio of `pages` whose order is 0 by now. They lie where it lies, and follow it
    /// on its list if it is on one.
    pub(crate) fn divide(&mut self, id: FolioId, pages: u32) -> Vec<FolioId> {
        let Folio { place, pfn, slot, lruvec, .. } = self[id];
        let mut divided = vec![id];
        divided.extend((1..pages).map(|page| self.create(pfn + page, self.flags[id], slot, lruvec)));
        if place != Place::NOWHERE {
            let records = &mut self.records;
            self.lists.insert_behind(place, &divided[1..], |id, place| records[id.index()].place = place);
        }
        divided
    }

    /// Where a folio lies, if there is such a folio.
    pub(crate) fn pfn_of(&self, id: FolioId) -> Option<Pfn> {
        self.records.get(id.index()).map(|folio| folio.pfn).filter(|&pfn| pfn != NO_PAGE)
    }

    /// Forgets a folio, which is on no list.
    pub fn delete(&mut self, id: FolioId) {
        debug_assert_eq!(self[id].place, Place::NOWHERE, "a folio that is freed is on no list");
        self[id].pfn = NO_PAGE;
        self.free.push(id);
    }

    /// An empty list.
    pub fn new_list(&mut self) -> ListHead {
        self.lists.new_list()
    }

    /// Puts a folio, which is on no list, at the head of `list`, where the newest are.
    #[inline(always)]
    pub fn push_head(&mut self, list: ListHead, id: FolioId) {
        self[id].place = self.lists.push_head(list, id);
    }

    /// Puts a folio, which is on no list, at the tail of `list`, which reclaim looks at.
    #[inline]
    pub fn push_tail(&mut self, list: ListHead, id: FolioId) {
        self[id].place = self.lists.push_tail(list, id);
    }

    /// Puts a folio, which is on no list, at one end of `list`.
    #[inline(always)]
    pub fn push(&mut self, list: ListHead, id: FolioId, end: ListEnd) {
        match end {
            ListEnd::Head => self.push_head(list, id),
            ListEnd::Tail => self.push_tail(list, id),
        }
    }

    /// Takes a folio off the list that it is on.
    #[inline(always)]
    pub fn remove(&mut self, id: FolioId) {
        let place = std::mem::replace(&mut self[id].place, Place::NOWHERE);
        let records = &mut self.records;
        self.lists.remove(place, |id, place| records[id.index()].place = place);
    }

    /// Moves a folio from its list to the head of `list`.
    #[inline]
    pub fn move_to_head(&mut self, list: ListHead, id: FolioId) {
        self.remove(id);
        self.push_head(list, id);
    }

    /// Moves a folio from its list to the tail of `list`.
    #[inline]
    pub fn move_to_tail(&mut self, list: ListHead, id: FolioId) {
        self.remove(id);
        self.push_tail(list, id);
    }

    /// Moves a folio from its list to one end of `list`.
    #[inline]
    pub fn move_to(&mut self, list: ListHead, id: FolioId, end: ListEnd) {
        self.remove(id);
        self.push(list, id, end);
    }

    /// Has a folio's record and flags fetched from memory, ahead of their use; changes nothing.
    #[inline]
    pub fn prefetch(&self, id: FolioId) {
        prefetch_index(&self.records, id.index());
        self.flags.prefetch(id);
    }

    /// Has the folios at the tail of `list` fetched from the host's memory, before they are taken off one after the other, each
    /// time after [`Folios::prefetch_next`].
    #[inline]
    pub(crate) fn prefetch_tail(&self, list: ListHead) {
        (0..FETCHED_AHEAD).for_each(|steps| self.prefetch_near_tail(list, steps));
    }

    /// Has one more fetched, whose turn comes a while after that of the folio at the tail.
    #[inline]
    pub(crate) fn prefetch_next(&self, list: ListHead) {
        self.prefetch_near_tail(list, FETCHED_AHEAD);
    }

    #[inline(always)]
    fn prefetch_near_tail(&self, list: ListHead, steps: usize) {
        if let Some(id) = self.lists.near_tail(list, steps) {
            self.prefetch(id);
        }
    }

    /// The folio at the tail of `list`.
    #[inline]
    pub fn tail(&self, list: ListHead) -> Option<FolioId> {
        self.lists.tail(list)
    }

    /// Whether `list` is empty.
    #[inline]
    pub fn is_list_empty(&self, list: ListHead) -> bool {
        self.lists.is_empty(list)
    }

    /// The folios of `list`, newest first.
    pub fn iter(&self, list: ListHead) -> impl Iterator<Item = FolioId> + use<'_> {
        self.lists.iter(list)
    }
}

/// Where folios have been found, for checking that each is in one place.
#[derive(Debug)]
pub(crate) struct Census {
    /// By record.
    free: Vec<bool>,
    /// By record.
    found: Vec<bool>,
    /// By record: in a batch while it stays on its list.
    waiting: Vec<bool>,
    /// Pages found, by lruvec.
    pub of_lruvec: Vec<u64>,
}

impl Census {
    /// Nothing is found yet.
    pub fn new(folios: &Folios, lruvecs: usize) -> Census {
        let records = folios.records.len();
        let mut free = vec![false; records];
        for id in &folios.free {
            assert!(!std::mem::replace(&mut free[id.0 as usize], true), "{id:?} is free twice");
        }
        Census {
            free,
            found: vec![false; records],
            waiting: vec![false; records],
            of_lruvec: vec![0; lruvecs],
        }
    }

    /// A folio is here and nowhere else.
    pub fn find(&mut self, folios: &Folios, id: FolioId) {
        assert!(!self.free[id.0 as usize], "{id:?} is free");
        assert!(!std::mem::replace(&mut self.found[id.0 as usize], true), "{id:?} is in two places");
        self.of_lruvec[folios[id].lruvec.0 as usize] += folios.flags[id].nr_pages();
    }

    /// A folio that is on a list waits in one batch.
    pub fn wait(&mut self, id: FolioId) {
        assert!(!std::mem::replace(&mut self.waiting[id.0 as usize], true), "{id:?} is in two batches");
    }

    /// Whether a folio has been found.
    pub fn found(&self, id: FolioId) -> bool {
        self.found[id.0 as usize]
    }

    /// The folios that have been found.
    pub fn all(&self, folios: &Folios) -> impl Iterator<Item = (FolioId, Folio)> {
        self.found.iter().enumerate().filter(|&(_, &found)| found).map(|(id, _)| {
            let id = FolioId(id as u32);
            (id, folios[id])
        })
    }

    /// Whether a folio is on a list and waits in a batch.
    pub fn waits(&self, id: FolioId) -> bool {
        self.waiting[id.0 as usize]
    }

    /// Checks that all folios have been found; panics with what was not.
    pub fn validate(&self, folios: &Folios) {
        let found = self.found.iter().filter(|&&found| found).count();
        assert_eq!(found, folios.len(), "folios are on lists or in batches between calls");
        let lost = |&id: &usize| self.waiting[id] && !self.found[id];
        let lost = (0..self.waiting.len()).find(lost);
        assert_eq!(lost, None, "what waits in a batch to be moved is on a list");
    }
}

const _: () = assert!(size_of::<Folio>() == 16);
