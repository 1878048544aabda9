//! Swap: where anonymous pages go.
//!
//! ```text
//!   entry ─► free │ a page of a folio in the swap cache │ the shadow of one that is out      and how many page-table
//!                                                                                            entries have it (`swap_map`)
//!
//!   folio of 4 pages     ■ ■ ■ ■         has a row of entries in the swap cache; once it is out, each entry
//!   entries            │ 8 9 10 11 │     is by itself again
//! ```
//!
//! [`policy`] says where room is looked for, `cluster` keeps account of it, `swap_in` brings back what is out and
//! [`readahead`] what lies around it; `zeromap` spares both where there is nothing but zeroes. Left out: each CPU's stock of
//! 64 entries (before 6.15), more than one device, priorities, discarding, slots of the swap cache that a search gives back
//! on its way, zswap but for what it leaves behind (`zswap_ever_enabled`). In the kernel: mm/swapfile.c, mm/swap_state.c.

mod cluster;
pub mod policy;
pub mod readahead;
mod swap_in;
mod zeromap;

use crate::account::Category;
use crate::counters::Event;
use crate::device_reads::DeviceReads;
use crate::folio::{Census, Folio, FolioFlags, FolioId};
use crate::huge_memory::stats::MthpStat;
use crate::kernel::Kernel;
use crate::memcontrol::Memcg;
use crate::page_alloc::MemoryManager;
use cluster::Clusters;
use machine::{Cpu, PageSize, Time};
use readahead::policy::SwapRa;
use std::collections::BTreeMap;
use std::ops::Range;

/// An entry of swap.
pub type SwapEntry = u32;

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    Cached(FolioId),
    Out { shadow: u64, memcg: Memcg },
}

/// Swap devices, as one.
#[derive(Clone, Debug)]
pub struct Swap {
    slots: Vec<Slot>,
    /// For each entry, how many page-table entries have it.
    swap_map: Vec<u16>,
    /// Entries whose page is all zeroes, so that the device has nothing of it.
    zeromap: Vec<bool>,
    clusters: Clusters,
    /// For each folio in the swap cache, its first entry.
    entry_of: Vec<SwapEntry>,
    /// CPU time to write a page where the writer does that itself (zram, brd): what is read from there does not stay in
    /// the swap cache (`SWP_SYNCHRONOUS_IO`).
    synchronous_write: Option<Time>,
    /// What has been read, where that goes by entries.
    ra: SwapRa,
    /// Folios to fill.
    reads: DeviceReads,
    /// Entry of the folio that was put into `reads` last.
    last_read: SwapEntry,
}

impl Swap {
    /// No device yet.
    pub(crate) fn new(page_size: PageSize) -> Swap {
        Swap {
            slots: Vec::new(),
            swap_map: Vec::new(),
            zeromap: Vec::new(),
            clusters: Clusters::new(page_size),
            entry_of: Vec::new(),
            synchronous_write: None,
            ra: SwapRa::default(),
            reads: DeviceReads::default(),
            last_read: 0,
        }
    }

    /// Free entries.
    pub fn free(&self) -> u64 {
        self.total() - self.used()
    }

    /// Used entries.
    pub fn used(&self) -> u64 {
        self.clusters.used()
    }

    /// All entries.
    pub fn total(&self) -> u64 {
        self.clusters.capacity()
    }

    /// Less than half of it is free (`vm_swap_full`).
    pub(crate) fn is_full(&self) -> bool {
        self.free() * 2 < self.total()
    }

    /// Whether what is read does not stay in the swap cache.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.synchronous_write.is_some()
    }

    /// Puts a folio into the swap cache, its pages at these entries.
    fn cache(&mut self, entries: Range<SwapEntry>, folio: FolioId) {
        let end = entries.end as usize;
        if self.slots.len() < end {
            self.slots.resize(end, Slot::Free);
            self.swap_map.resize(end, 0);
            self.zeromap.resize(end, false);
        }
        let index = folio.index();
        if self.entry_of.len() <= index {
            self.entry_of.resize(index + 1, SwapEntry::MAX);
        }
        self.entry_of[index] = entries.start;
        self.slots[entries.start as usize..end].fill(Slot::Cached(folio));
    }

    fn release(&mut self, entry: SwapEntry) {
        debug_assert_eq!(self.swap_map[entry as usize], 0, "nobody has entry {entry}");
        self.slots[entry as usize] = Slot::Free;
        self.zeromap[entry as usize] = false;
        self.clusters.release(entry);
    }
}

/// What swapping in an entry needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwapIn {
    /// Its page is still in memory.
    Cached(FolioId),
    /// It has to be read; this is what its eviction left.
    Read(u64),
}

impl Kernel<'_> {
    /// Writes a folio to its swap entries, or notes that it is `zeroes`; whether it is written when this returns
    /// (`swap_writeout`).
    pub(crate) fn swap_writeout(&mut self, id: FolioId, zeroes: bool) -> bool {
        self.mark_zeroes(id, zeroes);
        if zeroes {
            self.mm.folios.flags[id].clear(FolioFlags::DIRTY);
            return true;
        }
        let flags = &mut self.mm.folios.flags[id];
        let (order, pages) = (flags.order(), flags.nr_pages());
        self.mm.counters.add(Event::Pswpout, pages);
        self.mm.mthp_stats.add(order, MthpStat::Swpout, 1);
        flags.clear(FolioFlags::DIRTY);
        self.mm.counters.add(Event::ThpSwpout, u64::from(self.mm.is_pmd_order(order)));
        let flags = &mut self.mm.folios.flags[id];
        if let Some(write) = self.mm.swap.synchronous_write {
            self.machine.charge(self.cpu, Category::BlockLayer, write * pages);
            return true;
        }
        flags.set(FolioFlags::RECLAIM);
        self.mm.note_writeback(id);
        false
    }

    /// A device has written a folio (`folio_end_writeback`).
    pub fn end_write(&mut self, id: FolioId) {
        let mapcount = self.mm.folios[id].mapcount;
        self.mm.end_writeback(self.machine.now(self.cpu), id);
        let flags = &mut self.mm.folios.flags[id];
        if mapcount == 0 && flags.has(FolioFlags::SWAPBACKED) && !flags.has(FolioFlags::SWAPCACHE) {
            // Its process is gone.
            return self.release_folio(id);
        }
        if flags.take(FolioFlags::RECLAIM) {
            self.folio_rotate_reclaimable(id);
        }
    }

    /// Has a device read a folio from its entries, `first` and those behind it, together with the folio before if that
    /// lies next to it; or clears it where they are known to be zeroes.
    fn fill_from_swap(&mut self, id: FolioId, first: SwapEntry, in_fault: bool) {
        let SwapIn::Read(shadow) = self.mm.swap_entry_state(first) else {
            unreachable!("entry {first} is out");
        };
        let (order, pages) = (self.mm.folios.flags[id].order(), self.mm.folios.flags[id].nr_pages());
        self.mm.mthp_stats.add(order, MthpStat::NrAnon, 1);
        self.mm.workingset_refault(self.machine.now(self.cpu), id, shadow, in_fault);
        if self.mm.swap.is_zeroes(first) {
            return self.read_zeroes(pages);
        }
        self.mm.counters.add(Event::Pswpin, pages);
        self.mm.mthp_stats.add(order, MthpStat::Swpin, 1);
        if !self.mm.swap.is_synchronous() {
            self.mm.folios.flags[id].set(FolioFlags::LOCKED);
        }
        let last = std::mem::replace(&mut self.mm.swap.last_read, first);
        if first.abs_diff(last) != 1 {
            self.mm.swap.reads.end_request();
        }
        self.mm.swap.reads.push(id);
    }
}

impl MemoryManager {
    /// Adds swap of so many pages (`swapon`); on zram or a RAM disk, `synchronous_write` is the CPU time to write one.
    pub fn swapon(&mut self, pages: u64, synchronous_write: Option<Time>) {
        self.swap.clusters.add(pages);
        self.swap.synchronous_write = synchronous_write;
    }

    /// Swap.
    pub fn swap(&self) -> &Swap {
        &self.swap
    }

    /// Gives each page of a folio a swap entry, in a row, if there is room for that and its group may have them
    /// (`folio_alloc_swap`).
    pub(crate) fn add_to_swap(&mut self, cpu: Cpu, id: FolioId) -> bool {
        let memcg = self.lruvecs[self.folios[id].lruvec].memcg;
        let flags = self.folios.flags[id];
        if self.memcgs.swap_margin(memcg, self.swap.free()) < flags.nr_pages() {
            return false;
        }
        let Some(first) = self.find_swap_entries(cpu, flags.order()) else { return false };
        self.swap.cache(first..first + flags.nr_pages() as SwapEntry, id);
        self.memcgs.charge_swap(memcg, flags.nr_pages() as i64);
        self.folios.flags[id].set(FolioFlags::SWAPCACHE | FolioFlags::DIRTY);
        true
    }

    fn find_swap_entries(&mut self, cpu: Cpu, order: u8) -> Option<SwapEntry> {
        if order > 0 && !policy::swaps_large_folios(self.page_size()) {
            return None;
        }
        let f = self.features().folios.cluster_search;
        policy::search(f, order).iter().find_map(|&place| {
            if place == policy::Place::ReclaimFull && self.swap.is_full() {
                self.reclaim_full_cluster();
            }
            self.swap.clusters.take(f, place, cpu, order)
        })
    }

    /// Frees entries of a full cluster that only the swap cache has (`swap_reclaim_full_clusters`).
    fn reclaim_full_cluster(&mut self) {
        let Some(mut entries) = self.swap.clusters.rotate_full() else { return };
        while let Some(entry) = entries.next() {
            let Slot::Cached(id) = self.swap.slots[entry as usize] else { continue };
            entries.start = self.swap_entries(id).end;
            if !self.folios.flags[id].any(FolioFlags::WRITEBACK | FolioFlags::LOCKED) {
                self.folio_free_swap(id);
            }
        }
    }

    /// Folios whose writing began since this was last asked, for a device to write.
    pub fn take_submitted_writes(&mut self) -> Vec<FolioId> {
        std::mem::take(&mut self.submitted_writes)
    }

    /// The entries that a folio of the swap cache has.
    pub(crate) fn swap_entries(&self, id: FolioId) -> Range<SwapEntry> {
        let first = self.swap.entry_of[id.index()];
        first..first + self.folios.flags[id].nr_pages() as SwapEntry
    }

    /// The entry of a page of a folio of the swap cache; `place` is where it is or was mapped.
    pub(crate) fn swap_entry_of_page(&self, id: FolioId, place: usize) -> SwapEntry {
        let entries = self.swap_entries(id);
        entries.start + (place % entries.len()) as SwapEntry
    }

    /// Leaves `shadow` in place of a folio that is freed, where somebody still wants what it holds.
    pub(crate) fn remove_from_swap_cache(&mut self, id: FolioId, shadow: u64) {
        let memcg = self.lruvecs[self.folios[id].lruvec].memcg;
        for entry in self.swap_entries(id) {
            self.swap.slots[entry as usize] = Slot::Out { shadow, memcg };
            if self.swap_users(entry) == 0 {
                self.swap_entry_free(entry);
            }
        }
    }

    /// What an entry that a page table has holds.
    pub(crate) fn swap_entry_state(&self, entry: SwapEntry) -> SwapIn {
        match self.swap.slots[entry as usize] {
            Slot::Cached(id) => SwapIn::Cached(id),
            Slot::Out { shadow, .. } => SwapIn::Read(shadow),
            Slot::Free => unreachable!("entry {entry} of a page table is in use"),
        }
    }

    /// Puts a folio that is read from these entries into the swap cache.
    fn add_to_swap_cache(&mut self, entries: Range<SwapEntry>, id: FolioId) {
        self.swap.cache(entries, id);
        self.folios.flags[id].set(FolioFlags::SWAPCACHE);
    }

    /// The pages of a folio have become folios of their own, and each keeps its entry.
    pub(crate) fn split_swap_cache(&mut self, first: SwapEntry, pages: &[FolioId]) {
        for (entry, &page) in (first..).zip(pages) {
            self.swap.cache(entry..entry + 1, page);
        }
    }

    /// One more page-table entry has a swap entry.
    pub(crate) fn swap_duplicate(&mut self, entry: SwapEntry) {
        self.swap.swap_map[entry as usize] += 1;
    }

    /// One page-table entry less has a swap entry.
    pub(crate) fn swap_map_dec(&mut self, entry: SwapEntry) {
        self.swap.swap_map[entry as usize] -= 1;
    }

    /// How many page-table entries have a swap entry.
    pub(crate) fn swap_users(&self, entry: SwapEntry) -> u16 {
        self.swap.swap_map[entry as usize]
    }

    /// Gives a folio's swap entries up if no page table has one of them; whether the folio has none now
    /// (`folio_free_swap`).
    #[inline]
    pub(crate) fn folio_free_swap(&mut self, id: FolioId) -> bool {
        if !self.folios.flags[id].has(FolioFlags::SWAPCACHE) {
            return true;
        }
        let mut entries = self.swap_entries(id);
        if entries.any(|entry| self.swap_users(entry) > 0) {
            return false;
        }
        let memcg = self.lruvecs[self.folios[id].lruvec].memcg;
        self.swap_entries(id).for_each(|entry| self.swap.release(entry));
        let flags = &mut self.folios.flags[id];
        flags.clear(FolioFlags::SWAPCACHE);
        flags.set(if flags.order() > 0 {
            FolioFlags::DIRTY | FolioFlags::LEFT_SWAP
        } else {
            FolioFlags::DIRTY
        });
        self.memcgs.charge_swap(memcg, -(flags.nr_pages() as i64));
        true
    }

    /// Frees an entry that is out and that no page table needs any more.
    pub(crate) fn swap_entry_free(&mut self, entry: SwapEntry) {
        let Slot::Out { memcg, .. } = self.swap.slots[entry as usize] else {
            unreachable!("entry {entry} is out");
        };
        self.memcgs.charge_swap(memcg, -1);
        self.swap.release(entry);
    }

    /// Checks swap against page tables, of which `users` says how many have each entry, and against folios; panics with
    /// what does not hold. For each memory cgroup, its pages of swap.
    pub(crate) fn validate_swap(&self, census: &Census, users: &BTreeMap<SwapEntry, u64>) -> Vec<u64> {
        let mut charged = vec![0; self.memcgs.len()];
        let mut cached = 0;
        self.swap.clusters.validate();
        let users_of = |entry: SwapEntry| users.get(&entry).copied().unwrap_or(0);
        for (entry, slot) in (0..).zip(&self.swap.slots) {
            let users = users_of(entry);
            assert_eq!(users, u64::from(self.swap.swap_map[entry as usize]), "users of entry {entry}");
            let memcg = match *slot {
                Slot::Free => {
                    assert!(
                        !self.swap.zeromap[entry as usize],
                        "entry {entry} is free and has no page of zeroes"
                    );
                    assert_eq!(users, 0, "entry {entry} is free");
                    assert!(!self.swap.clusters.is_used(entry), "entry {entry} is free in its cluster");
                    continue;
                }
                Slot::Out { memcg, .. } => {
                    assert!(users > 0, "nobody has entry {entry}, which is out");
                    memcg
                }
                Slot::Cached(id) => {
                    let folio = &self.folios[id];
                    let entries = self.swap_entries(id);
                    assert!(
                        census.found(id) && self.folios.flags[id].has(FolioFlags::SWAPCACHE),
                        "{id:?}: {folio:?}"
                    );
                    assert!(entries.contains(&entry), "entry and folio name each other");
                    assert_eq!(entries.start as usize % entries.len(), 0, "entries of {id:?} are aligned");
                    cached += usize::from(entry == entries.start);
                    let users: u64 = entries.map(users_of).sum();
                    // What was being read ahead when its last user went stays until reclaim meets it.
                    let ahead = self.folios.flags[id].has(FolioFlags::READAHEAD);
                    assert!(users + u64::from(folio.mapcount) > 0 || ahead, "users of {entry}, {folio:?}");
                    self.lruvecs[folio.lruvec].memcg
                }
            };
            assert!(self.swap.clusters.is_used(entry), "entry {entry} is taken in its cluster");
            charged[memcg.index()] += 1;
        }
        assert_eq!(self.swap.used(), charged.iter().sum::<u64>(), "used entries");
        assert!(self.swap.used() <= self.swap.total(), "{} of {}", self.swap.used(), self.swap.total());
        let in_cache = |&(id, _): &(FolioId, Folio)| self.folios.flags[id].has(FolioFlags::SWAPCACHE);
        assert_eq!(cached, census.all(&self.folios).filter(in_cache).count(), "folios in the swap cache");
        for &id in &self.submitted_writes {
            let flags = self.folios.flags[id];
            assert!(
                census.found(id) && flags.has(FolioFlags::WRITEBACK),
                "{id:?} is being written: {flags:?}"
            );
        }
        charged
    }
}
