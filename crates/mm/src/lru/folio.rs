//! Folios: the blocks of pages in use that reclaim looks after, and the lists that they are on.
//!
//! ```text
//!   folio    place on its list │ slot: who maps the folio │ pfn │ lruvec │ mapcount     16 bytes
//!   flags    GEN, REFS, referenced ...    apart, as most accesses need nothing else      4
//!   lists    newest ... oldest            lists.rs                                       4 and a quarter
//! ```
//!
//! A folio is on at most one list, or in a batch of a CPU, or isolated by reclaim. In the kernel: `struct
//! folio`, include/linux/page-flags.h.

mod lists;
mod mapcount;
mod page_idle;

pub use lists::{ListEnd, ListHead};

use crate::allocator::page::{NO_PAGE, Pfn};
use crate::vec_growth;
use lists::{Lists, Place};
use page_idle::PageIdle;
use prefetch_index::prefetch_index;
use std::collections::BTreeMap;

/// How many folios ahead of its turn the record of a folio is prefetched, while a list is walked and while folios are made.
const FETCHED_AHEAD: usize = 16;

/// The number of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolioId(pub(crate) u32);

impl FolioId {
    /// The number as an index into arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a lruvec: the LRU lists of one memory cgroup on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruvecId(pub(crate) u16);

/// The flags of a folio (`folio->flags`), and the fields packed beside them: accesses, generation, zone,
/// order.
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
    /// `PG_lru`: on a list, neither in a batch nor isolated.
    pub const LRU: FolioFlags = FolioFlags(1 << 4);
    /// `PG_swapbacked`: anonymous memory, which is written to swap, not to a file.
    pub const SWAPBACKED: FolioFlags = FolioFlags(1 << 5);
    /// `PG_swapcache`: has swap entries.
    pub const SWAPCACHE: FolioFlags = FolioFlags(1 << 6);
    /// `PG_dirty`.
    pub const DIRTY: FolioFlags = FolioFlags(1 << 7);
    /// `PG_writeback`.
    pub const WRITEBACK: FolioFlags = FolioFlags(1 << 8);
    /// `PG_reclaim`: to be reclaimed as soon as its writeback ends.
    pub const RECLAIM: FolioFlags = FolioFlags(1 << 9);
    /// `PG_locked`: being read in.
    pub const LOCKED: FolioFlags = FolioFlags(1 << 10);
    /// `PG_readahead`: an access to it starts the next readahead.
    pub const READAHEAD: FolioFlags = FolioFlags(1 << 11);
    /// On the queue of folios that may be split (`_deferred_list`).
    pub const DEFERRED_SPLIT: FolioFlags = FolioFlags(1 << 12);
    /// `PG_partially_mapped`: a large folio some of whose pages are no longer mapped, which waits on the
    /// deferred split queue.
    pub const PARTIALLY_MAPPED: FolioFlags = FolioFlags(1 << 15);
    /// Mapped by a `VM_EXEC` VMA: the text of a program.
    pub const EXECUTABLE: FolioFlags = FolioFlags(1 << 13);

    /// Somebody has a reference to it (an elevated `_refcount`, as of a metadata block in use), so it cannot
    /// be freed.
    pub const HELD: FolioFlags = FolioFlags(1 << 14);

    /// `PG_mlocked`: a `VM_LOCKED` VMA maps all of it.
    pub const MLOCKED: FolioFlags = FolioFlags(1 << 29);

    /// A large folio that has left the swap cache (`folio_free_swap`). Those of its pages that nobody mapped
    /// there are still not mapped, and yet it is not on the deferred split queue, as the kernel queues a
    /// folio only where it removes a mapping. Only `validate` reads it: the kernel has no such flag.
    pub const LEFT_SWAP: FolioFlags = FolioFlags(1 << 30);

    const REFS_SHIFT: u32 = 16;
    const REFS_MASK: u32 = 3 << Self::REFS_SHIFT;
    const GEN_SHIFT: u32 = 18;
    const GEN_MASK: u32 = 7 << Self::GEN_SHIFT;
    const ZONE_SHIFT: u32 = 21;
    const ZONE_MASK: u32 = 15 << Self::ZONE_SHIFT;
    const ORDER_SHIFT: u32 = 25;
    const ORDER_MASK: u32 = 15 << Self::ORDER_SHIFT;

    #[inline]
    pub fn has(self, flags: FolioFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    #[inline]
    pub fn any(self, flags: FolioFlags) -> bool {
        self.0 & flags.0 != 0
    }

    #[inline]
    pub fn set(&mut self, flags: FolioFlags) {
        self.0 |= flags.0;
    }

    #[inline]
    pub fn clear(&mut self, flags: FolioFlags) {
        self.0 &= !flags.0;
    }

    /// Clears `flags`; returns whether any of them was set.
    #[inline]
    pub fn take(&mut self, flags: FolioFlags) -> bool {
        let any = self.any(flags);
        self.clear(flags);
        any
    }

    pub const fn and(self, flags: FolioFlags) -> FolioFlags {
        FolioFlags(self.0 | flags.0)
    }

    /// The counter of accesses through file descriptors after the first, 0 to 3 (`LRU_REFS_MASK`).
    #[inline]
    pub fn refs(self) -> u8 {
        ((self.0 & Self::REFS_MASK) >> Self::REFS_SHIFT) as u8
    }

    #[inline]
    pub fn set_refs(&mut self, refs: u8) {
        self.0 = self.0 & !Self::REFS_MASK | u32::from(refs) << Self::REFS_SHIFT;
    }

    /// The list of generations, 0 to 3, that the folio is on or is to be sorted to (`folio_lru_gen`); `None`
    /// if it is on none.
    #[inline]
    pub fn generation(self) -> Option<usize> {
        let stored = (self.0 & Self::GEN_MASK) >> Self::GEN_SHIFT;
        (stored > 0).then(|| stored as usize - 1)
    }

    #[inline]
    pub fn set_generation(&mut self, generation: Option<usize>) {
        let stored = generation.map_or(0, |generation| generation as u32 + 1);
        self.0 = self.0 & !Self::GEN_MASK | stored << Self::GEN_SHIFT;
    }

    /// Order of the folio: log2 of its number of pages.
    #[inline]
    pub fn order(self) -> u8 {
        ((self.0 & Self::ORDER_MASK) >> Self::ORDER_SHIFT) as u8
    }

    #[inline]
    pub fn set_order(&mut self, order: u8) {
        self.0 = self.0 & !Self::ORDER_MASK | u32::from(order) << Self::ORDER_SHIFT;
    }

    /// Number of pages of the folio (`folio_nr_pages`).
    #[inline]
    pub fn nr_pages(self) -> u64 {
        1 << self.order()
    }

    /// The zone that the folio is in, as an index into [`ZoneType`](crate::allocator::memory_map::ZoneType).
    #[inline]
    pub fn zone(self) -> usize {
        ((self.0 & Self::ZONE_MASK) >> Self::ZONE_SHIFT) as usize
    }

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

/// The record of a folio: a block of pages in use.
#[derive(Clone, Copy, Debug)]
pub struct Folio {
    place: Place,
    /// For a file's folio, its slot in the page cache; for an anonymous one, one of the PTEs that map it.
    pub slot: u32,
    /// The first page of its memory.
    pub pfn: Pfn,
    /// The lruvec that it belongs to, whether it is on a list or not.
    pub lruvec: LruvecId,
    /// How many PTEs map the folio or a page of it, a PMD mapping counting as one (`_large_mapcount`). Exact
    /// if there are none or one; `Folios::mapcount` returns the number in all other cases.
    pub mapcount: u16,
}

/// An array with one element for each folio.
#[derive(Clone, Debug, Default)]
pub struct ByFolio<T>(Vec<T>);

impl<T> ByFolio<T> {
    /// Prefetches an element from the host's memory; changes nothing.
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

/// The records of all folios, and the lists that folios are on.
#[derive(Clone, Debug, Default)]
pub struct Folios {
    records: Vec<Folio>,
    /// The flags of each folio.
    pub flags: ByFolio<FolioFlags>,
    /// Mappings of a folio beyond what `Folio::mapcount` has room for, in units of `mapcount::PART`.
    parts: BTreeMap<FolioId, u32>,
    free: Vec<FolioId>,
    lists: Lists,
    /// Who has been accessed since somebody besides reclaim asked.
    pub(crate) page_idle: PageIdle,
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
    /// Number of folios in use.
    pub fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for `folios` more folios.
    pub(crate) fn reserve(&mut self, folios: usize) {
        self.records.reserve_exact(folios);
        self.flags.0.reserve_exact(folios);
        self.lists.reserve(folios);
    }

    /// Bytes of host memory that records and lists take, with the records of folios that have been freed.
    pub fn bytes(&self) -> usize {
        self.records.capacity() * (size_of::<Folio>() + size_of::<FolioFlags>())
            + self.free.capacity() * size_of::<FolioId>()
            + self.lists.bytes()
            + self.page_idle.bytes()
    }

    /// Makes the record of a folio that is on no list yet.
    pub fn create(&mut self, pfn: Pfn, flags: FolioFlags, slot: u32, lruvec: LruvecId) -> FolioId {
        let folio = Folio { place: Place::NOWHERE, slot, pfn, lruvec, mapcount: 0 };
        match self.free.pop() {
            Some(id) => {
                if let [ahead, ..] = self.free[self.free.len().saturating_sub(FETCHED_AHEAD)..] {
                    self.prefetch(ahead);
                }
                self[id] = folio;
                self.flags[id] = flags;
                self.page_idle.forget(id);
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

    /// Splits a folio into `pages` folios of one page each; its order has been set to 0 already. The new ones
    /// follow it in memory, and on its list if it is on one.
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

    /// The first page of a folio, or `None` if there is no such folio.
    pub(crate) fn pfn_of(&self, id: FolioId) -> Option<Pfn> {
        self.records.get(id.index()).map(|folio| folio.pfn).filter(|&pfn| pfn != NO_PAGE)
    }

    /// Deletes the record of a folio that is on no list.
    pub fn delete(&mut self, id: FolioId) {
        debug_assert_eq!(self[id].place, Place::NOWHERE, "a folio that is freed is on no list");
        self[id].pfn = NO_PAGE;
        self.free.push(id);
    }

    /// Makes an empty list.
    pub fn new_list(&mut self) -> ListHead {
        self.lists.new_list()
    }

    /// Adds a folio, which is on no list, to the head of `list`, where the newest are.
    #[inline(always)]
    pub fn push_head(&mut self, list: ListHead, id: FolioId) {
        self[id].place = self.lists.push_head(list, id);
    }

    /// Adds a folio, which is on no list, to the tail of `list`, where reclaim looks first.
    #[inline]
    pub fn push_tail(&mut self, list: ListHead, id: FolioId) {
        self[id].place = self.lists.push_tail(list, id);
    }

    /// Adds a folio, which is on no list, to one end of `list`.
    #[inline(always)]
    pub fn push(&mut self, list: ListHead, id: FolioId, end: ListEnd) {
        match end {
            ListEnd::Head => self.push_head(list, id),
            ListEnd::Tail => self.push_tail(list, id),
        }
    }

    /// Removes a folio from the list that it is on.
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

    /// Prefetches a folio's record and flags from the host's memory; changes nothing.
    #[inline]
    pub fn prefetch(&self, id: FolioId) {
        prefetch_index(&self.records, id.index());
        self.flags.prefetch(id);
    }

    /// Prefetches the folios at the tail of `list`, before they are removed one after the other. Before each
    /// removal goes a call of [`Folios::prefetch_next`].
    #[inline]
    pub(crate) fn prefetch_tail(&self, list: ListHead) {
        (0..FETCHED_AHEAD).for_each(|steps| self.prefetch_near_tail(list, steps));
    }

    /// Prefetches one more folio of `list`, [`FETCHED_AHEAD`] places from the tail.
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

    #[inline]
    pub fn tail(&self, list: ListHead) -> Option<FolioId> {
        self.lists.tail(list)
    }

    #[inline]
    pub fn is_list_empty(&self, list: ListHead) -> bool {
        self.lists.is_empty(list)
    }

    /// The folios of `list`, from head to tail.
    pub fn iter(&self, list: ListHead) -> impl Iterator<Item = FolioId> + use<'_> {
        self.lists.iter(list)
    }
}

/// Where `validate` has found folios, to check that each of them is in exactly one place.
#[derive(Debug)]
pub(crate) struct Census {
    /// Whether the record is free, indexed by record.
    free: Vec<bool>,
    /// Whether the folio has been found, indexed by record.
    found: Vec<bool>,
    /// Whether the folio is in a batch while it stays on its list, indexed by record.
    waiting: Vec<bool>,
    /// Pages found, indexed by lruvec.
    pub of_lruvec: Vec<u64>,
}

impl Census {
    /// Begins a census in which no folio has been found yet.
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

    /// Notes the place of a folio; panics if it has another place already.
    pub fn find(&mut self, folios: &Folios, id: FolioId) {
        assert!(!self.free[id.0 as usize], "{id:?} is free");
        assert!(!std::mem::replace(&mut self.found[id.0 as usize], true), "{id:?} is in two places");
        self.of_lruvec[folios[id].lruvec.0 as usize] += folios.flags[id].nr_pages();
    }

    /// Notes that a folio, which is on a list, waits in a batch; panics if it waits in another one already.
    pub fn wait(&mut self, id: FolioId) {
        assert!(!std::mem::replace(&mut self.waiting[id.0 as usize], true), "{id:?} is in two batches");
    }

    pub fn found(&self, id: FolioId) -> bool {
        self.found[id.0 as usize]
    }

    /// All folios that have been found.
    pub fn all(&self, folios: &Folios) -> impl Iterator<Item = (FolioId, Folio)> {
        self.found.iter().enumerate().filter(|&(_, &found)| found).map(|(id, _)| {
            let id = FolioId(id as u32);
            (id, folios[id])
        })
    }

    /// Whether a folio that is on a list waits in a batch.
    pub fn waits(&self, id: FolioId) -> bool {
        self.waiting[id.0 as usize]
    }

    /// Panics if a folio has been found nowhere, or waits in a batch without being on a list.
    pub fn validate(&self, folios: &Folios) {
        let found = self.found.iter().filter(|&&found| found).count();
        assert_eq!(found, folios.len(), "folios are on lists or in batches between calls");
        let lost = |&id: &usize| self.waiting[id] && !self.found[id];
        let lost = (0..self.waiting.len()).find(lost);
        assert_eq!(lost, None, "a folio that waits in a batch is on a list");
    }
}

const _: () = assert!(size_of::<Folio>() == 16);
