//! Swap: where anonymous pages go.
//!
//! ```text
//!   entry ─► free │ a folio in the swap cache │ the shadow of one that is out        and how many page-table entries
//!                                                                                   have it (`swap_map`)
//! ```
//!
//! Entries are taken lowest first. Of the kernel's clusters and per-CPU caches of entries nothing is modelled, as
//! nothing that the twin predicts depends on where in swap a page is. In the kernel: mm/swapfile.c, mm/swap_state.c.

use crate::account::Category;
use crate::counters::Event;
use crate::folio::{Census, Folio, FolioFlags, FolioId};
use crate::memcontrol::Memcg;
use crate::page_alloc::MemoryManager;
use machine::{Cpu, Machine, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An entry of swap.
pub type SwapEntry = u32;

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    Cached(FolioId),
    Out { shadow: u64, memcg: Memcg },
}

/// Swap devices, as one.
#[derive(Clone, Debug, Default)]
pub struct Swap {
    slots: Vec<Slot>,
    /// For each entry, how many page-table entries have it.
    swap_map: Vec<u16>,
    /// Entries that were used and are free, lowest first.
    freed: BinaryHeap<Reverse<SwapEntry>>,
    capacity: u64,
    used: u64,
    /// For each folio in the swap cache, its entry.
    entry_of: Vec<SwapEntry>,
    /// CPU time to write a page where the writer does that itself (zram, brd): what is read from there does not stay in
    /// the swap cache (`SWP_SYNCHRONOUS_IO`).
    synchronous_write: Option<Time>,
}

impl Swap {
    /// Free entries.
    pub fn free(&self) -> u64 {
        self.capacity - self.used
    }

    /// Used entries.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// All entries.
    pub fn total(&self) -> u64 {
        self.capacity
    }

    /// Less than half of it is free (`vm_swap_full`).
    pub(crate) fn is_full(&self) -> bool {
        self.free() * 2 < self.capacity
    }

    /// Whether what is read does not stay in the swap cache.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.synchronous_write.is_some()
    }

    fn allocate(&mut self, folio: FolioId) -> Option<SwapEntry> {
        if self.free() == 0 {
            return None;
        }
        self.used += 1;
        let entry = match self.freed.pop() {
            Some(Reverse(entry)) => entry,
            None => {
                self.slots.push(Slot::Free);
                self.swap_map.push(0);
                self.slots.len() as SwapEntry - 1
            }
        };
        self.cache(entry, folio);
        Some(entry)
    }

    /// Puts a folio into the swap cache.
    fn cache(&mut self, entry: SwapEntry, folio: FolioId) {
        self.slots[entry as usize] = Slot::Cached(folio);
        let index = folio.index();
        if self.entry_of.len() <= index {
            self.entry_of.resize(index + 1, SwapEntry::MAX);
        }
        self.entry_of[index] = entry;
    }

    fn release(&mut self, entry: SwapEntry) {
        debug_assert_eq!(self.swap_map[entry as usize], 0, "nobody has entry {entry}");
        self.slots[entry as usize] = Slot::Free;
        self.used -= 1;
        self.freed.push(Reverse(entry));
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

impl MemoryManager {
    /// Adds swap of so many pages (`swapon`); on zram or a RAM disk, `synchronous_write` is the CPU time to write one.
    pub fn swapon(&mut self, pages: u64, synchronous_write: Option<Time>) {
        self.swap.capacity += pages;
        self.swap.synchronous_write = synchronous_write;
    }

    /// Swap.
    pub fn swap(&self) -> &Swap {
        &self.swap
    }

    /// Gives a folio a swap entry if its group may have one.
    pub(crate) fn add_to_swap(&mut self, id: FolioId) -> bool {
        let memcg = self.lruvecs[self.folios[id].lruvec.0 as usize].memcg;
        if self.memcgs.swap_margin(memcg, self.swap.free()) == 0 || self.swap.allocate(id).is_none() {
            return false;
        }
        self.memcgs.charge_swap(memcg, 1);
        self.folios.flags[id].set(FolioFlags::SWAPCACHE | FolioFlags::DIRTY);
        true
    }

    /// Writes a folio to its swap entry; whether it is written when this returns.
    pub(crate) fn swap_writeout(&mut self, machine: &mut Machine<Category>, cpu: Cpu, id: FolioId) -> bool {
        self.counters.add(Event::Pswpout, 1);
        self.folios.flags[id].clear(FolioFlags::DIRTY);
        if let Some(write) = self.swap.synchronous_write {
            machine.charge(cpu, Category::BlockLayer, write);
            return true;
        }
        self.folios.flags[id].set(FolioFlags::WRITEBACK | FolioFlags::RECLAIM);
        self.submitted_writes.push(id);
        false
    }

    /// A device has written a folio (`folio_end_writeback`).
    pub fn end_write(&mut self, machine: &mut Machine<Category>, cpu: Cpu, id: FolioId) {
        let mapcount = self.folios[id].mapcount;
        let flags = &mut self.folios.flags[id];
        flags.clear(FolioFlags::WRITEBACK);
        if mapcount == 0 && flags.has(FolioFlags::SWAPBACKED) && !flags.has(FolioFlags::SWAPCACHE) {
            // Its process is gone.
            return self.release_folio(machine, cpu, id);
        }
        if flags.take(FolioFlags::RECLAIM) {
            self.folio_rotate_reclaimable(machine, cpu, id);
        }
    }

    /// Folios whose writing began since this was last asked, for a device to write.
    pub fn take_submitted_writes(&mut self) -> Vec<FolioId> {
        std::mem::take(&mut self.submitted_writes)
    }

    /// The entry that a folio of the swap cache has.
    pub(crate) fn swap_entry(&self, id: FolioId) -> SwapEntry {
        self.swap.entry_of[id.0 as usize]
    }

    /// Leaves `shadow` in place of a folio that is freed.
    pub(crate) fn remove_from_swap_cache(&mut self, id: FolioId, shadow: u64) {
        let entry = self.swap_entry(id);
        let memcg = self.lruvecs[self.folios[id].lruvec.0 as usize].memcg;
        self.swap.slots[entry as usize] = Slot::Out { shadow, memcg };
    }

    /// What an entry that a page table has holds.
    pub(crate) fn swap_entry_state(&self, entry: SwapEntry) -> SwapIn {
        match self.swap.slots[entry as usize] {
            Slot::Cached(id) => SwapIn::Cached(id),
            Slot::Out { shadow, .. } => SwapIn::Read(shadow),
            Slot::Free => unreachable!("entry {entry} of a page table is in use"),
        }
    }

    /// Puts a folio that is read from `entry` into the swap cache.
    pub(crate) fn add_to_swap_cache(&mut self, entry: SwapEntry, id: FolioId) {
        self.swap.cache(entry, id);
        self.folios.flags[id].set(FolioFlags::SWAPCACHE);
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

    /// Gives a folio's swap entry up if no page table has it; whether the folio has none now (`folio_free_swap`).
    pub(crate) fn folio_free_swap(&mut self, id: FolioId) -> bool {
        if !self.folios.flags[id].has(FolioFlags::SWAPCACHE) {
            return true;
        }
        let entry = self.swap_entry(id);
        let unused = self.swap_users(entry) == 0;
        if unused {
            self.swap_free(entry);
        }
        unused
    }

    /// Frees an entry that no page table needs any more.
    pub(crate) fn swap_free(&mut self, entry: SwapEntry) {
        let memcg = match self.swap.slots[entry as usize] {
            Slot::Out { memcg, .. } => memcg,
            Slot::Cached(id) => {
                self.folios.flags[id].clear(FolioFlags::SWAPCACHE);
                self.folios.flags[id].set(FolioFlags::DIRTY);
                self.lruvecs[self.folios[id].lruvec.0 as usize].memcg
            }
            Slot::Free => return,
        };
        self.memcgs.charge_swap(memcg, -1);
        self.swap.release(entry);
    }

    /// Checks swap against page tables, of which `users` says how many have each entry, and against folios; panics with
    /// what does not hold. For each memory cgroup, its pages of swap.
    pub(crate) fn validate_swap(&self, census: &Census, users: &BTreeMap<SwapEntry, u64>) -> Vec<u64> {
        let mut charged = vec![0; self.memcgs.len()];
        let mut cached = 0;
        for (entry, slot) in self.swap.slots.iter().enumerate() {
            let entry = entry as SwapEntry;
            let users = users.get(&entry).copied().unwrap_or(0);
            assert_eq!(users, u64::from(self.swap.swap_map[entry as usize]), "users of entry {entry}");
            let memcg = match *slot {
                Slot::Free => {
                    assert_eq!(users, 0, "entry {entry} is free");
                    continue;
                }
                Slot::Out { memcg, .. } => {
                    assert!(users > 0, "nobody has entry {entry}, which is out");
                    memcg
                }
                Slot::Cached(id) => {
                    let folio = &self.folios[id];
                    cached += 1;
                    assert!(
                        census.found(id) && self.folios.flags[id].has(FolioFlags::SWAPCACHE),
                        "{id:?}: {folio:?}"
                    );
                    assert_eq!(self.swap_entry(id), entry, "entry and folio name each other");
                    assert!(users + u64::from(folio.mapcount) > 0, "users of entry {entry}, {folio:?}");
                    self.lruvecs[folio.lruvec.0 as usize].memcg
                }
            };
            charged[memcg.index()] += 1;
        }
        assert_eq!(self.swap.used, charged.iter().sum::<u64>(), "used entries");
        assert!(self.swap.used <= self.swap.capacity, "{} of {}", self.swap.used, self.swap.capacity);
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
