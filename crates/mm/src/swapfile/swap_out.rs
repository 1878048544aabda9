//! Swapping out: allocating entries for a folio, writing it, the swap cache, and freeing entries
//! (`folio_alloc_swap`, `swap_writeout`, `swap_entry_free` in mm/swapfile.c, mm/page_io.c and
//! mm/swap_state.c).

use super::{Slot, SwapEntry, SwapIn, policy};
use crate::account::Category;
use crate::address_space::huge_memory::policy::{SwapInPath, swap_search};
use crate::address_space::huge_memory::stats::MthpStat;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{Census, Folio, FolioFlags, FolioId};
use crate::lru::policy::AddedBy;
use machine::Cpu;
use std::collections::BTreeMap;
use std::ops::Range;

/// What became of a folio that was to be written to swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writeout {
    Done,
    /// The device writes it.
    UnderWay,
    /// zswap has no room for it, and its memory cgroup may not write to the device (`AOP_WRITEPAGE_ACTIVATE`).
    Refused,
}

impl Kernel<'_> {
    /// Writes a folio to its swap entries, records that its pages are all `zeroes`, or lets zswap have it (`swap_writeout`).
    pub(crate) fn swap_writeout(&mut self, id: FolioId, zeroes: bool) -> Writeout {
        self.mark_zeroes(id, zeroes);
        if zeroes {
            self.parts.lrus.folios.flags[id].clear(FolioFlags::DIRTY);
            return Writeout::Done;
        }
        if self.zswap_store(id) {
            let flags = &mut self.parts.lrus.folios.flags[id];
            flags.clear(FolioFlags::DIRTY);
            let order = flags.order();
            self.parts.address_spaces.count_mthp_stat(order, MthpStat::Zswpout, 1);
            return Writeout::Done;
        }
        let memcg = self.parts.lrus.memcg_of(id);
        if self.on.settings.zswap.enabled && !self.parts.lrus.memcgs.zswap_writes_back(memcg) {
            return Writeout::Refused;
        }
        if self.swap_writepage(id) { Writeout::Done } else { Writeout::UnderWay }
    }

    /// Writes a folio to the device of its swap entries. Returns whether it has been written already (`__swap_writepage`).
    pub(crate) fn swap_writepage(&mut self, id: FolioId) -> bool {
        let flags = &mut self.parts.lrus.folios.flags[id];
        let (order, pages) = (flags.order(), flags.nr_pages());
        self.on.counters.add(Event::Pswpout, pages);
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::Swpout, 1);
        flags.clear(FolioFlags::DIRTY);
        self.on.counters.add(Event::ThpSwpout, u64::from(self.is_pmd_order(order)));
        let flags = &mut self.parts.lrus.folios.flags[id];
        if let Some(write) = self.parts.swap.synchronous_write {
            self.on.machine.charge(self.on.cpu, Category::BlockLayer, write * pages);
            return true;
        }
        flags.set(FolioFlags::RECLAIM);
        self.parts.note_writeback(id);
        false
    }

    /// Ends the writeback of a folio of a file or of swap that a device has written (`folio_end_writeback`).
    pub fn end_write(&mut self, id: FolioId) {
        let mapcount = self.parts.lrus.folios[id].mapcount;
        self.end_writeback(self.on.machine.now(self.on.cpu), id);
        let flags = &mut self.parts.lrus.folios.flags[id];
        if mapcount == 0 && flags.has(FolioFlags::SWAPBACKED) && !flags.has(FolioFlags::SWAPCACHE) {
            // The process that had it has exited.
            return self.release_folio(id);
        }
        if flags.take(FolioFlags::RECLAIM) {
            self.folio_rotate_reclaimable(id);
        }
    }

    /// Notes that a folio comes back from its entries, which begin with `first` (`workingset_refault`).
    pub(crate) fn note_swapped_in(&mut self, id: FolioId, first: SwapEntry, by: AddedBy) {
        let SwapIn::Read(shadow) = self.parts.swap.swap_entry_state(first) else {
            unreachable!("the page of entry {first} is not in memory");
        };
        let order = self.parts.lrus.folios.flags[id].order();
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::NrAnon, 1);
        self.workingset_refault(self.on.machine.now(self.on.cpu), id, shadow, by);
    }

    /// Submits the read of a folio from its entries, which begin with `first`, in one request with the folio
    /// before if their entries are neighbours. A folio that is known to be zeroes is cleared instead, and one that is in zswap
    /// decompressed.
    pub(super) fn fill_from_swap(&mut self, id: FolioId, first: SwapEntry, by: AddedBy, path: SwapInPath) {
        self.note_swapped_in(id, first, by);
        let (order, pages) =
            (self.parts.lrus.folios.flags[id].order(), self.parts.lrus.folios.flags[id].nr_pages());
        if self.parts.swap.is_zeroes(first) {
            return self.read_zeroes(pages);
        }
        if self.zswap_load(id, first, path) {
            return;
        }
        self.note_swapin_from_device(id);
        self.on.counters.add(Event::Pswpin, pages);
        self.parts.address_spaces.count_mthp_stat(order, MthpStat::Swpin, 1);
        if !self.parts.swap.is_synchronous() {
            self.parts.lrus.folios.flags[id].set(FolioFlags::LOCKED);
        }
        let last = std::mem::replace(&mut self.parts.swap.last_read, first);
        if first.abs_diff(last) != 1 {
            self.parts.swap.reads.end_request();
        }
        self.parts.swap.reads.push(id);
    }

    /// Allocates contiguous swap entries for a folio and puts it into the swap cache (`folio_alloc_swap`).
    /// Returns whether there were entries and the memcg may have as many.
    pub(crate) fn add_to_swap(&mut self, cpu: Cpu, id: FolioId) -> bool {
        let memcg = self.parts.lrus.memcg_of(id);
        let flags = self.parts.lrus.folios.flags[id];
        if self.parts.lrus.memcgs.swap_margin(memcg, self.parts.swap.free()) < flags.nr_pages() {
            return false;
        }
        let Some(first) = self.find_swap_entries(cpu, flags.order()) else { return false };
        if self.on.settings.zswap.enabled {
            let lengths = self.parts.compressed_lengths(id);
            self.parts.zswap.note_lengths(first, lengths);
        }
        self.parts.swap.cache(first..first + flags.nr_pages() as SwapEntry, id);
        self.parts.lrus.memcgs.charge_swap(memcg, flags.nr_pages() as i64);
        self.parts.lrus.folios.flags[id].set(FolioFlags::SWAPCACHE | FolioFlags::DIRTY);
        true
    }

    fn find_swap_entries(&mut self, cpu: Cpu, order: u8) -> Option<SwapEntry> {
        let f = swap_search(&self.on.features.folios, self.parts.allocator.page_size(), order)?;
        policy::search(f, order).iter().find_map(|&place| {
            if place == policy::Place::ReclaimFull && self.parts.swap.is_full() {
                self.parts.reclaim_full_cluster();
            }
            self.parts.swap.clusters.take(f, place, cpu, order)
        })
    }
}

impl Parts {
    /// Frees the entries of a full cluster that only the swap cache uses (`swap_reclaim_full_clusters`).
    fn reclaim_full_cluster(&mut self) {
        let Some(mut entries) = self.swap.clusters.rotate_full() else { return };
        while let Some(entry) = entries.next() {
            let Slot::Cached(id) = self.swap.slots[entry as usize] else { continue };
            entries.start = self.swap_entries(id).end;
            if !self.lrus.folios.flags[id].any(FolioFlags::WRITEBACK | FolioFlags::LOCKED) {
                self.folio_free_swap(id);
            }
        }
    }

    /// The entries of a folio in the swap cache.
    pub(crate) fn swap_entries(&self, id: FolioId) -> Range<SwapEntry> {
        let first = self.swap.entry_of[id.index()];
        first..first + self.lrus.folios.flags[id].nr_pages() as SwapEntry
    }

    /// The entry of one page of a folio in the swap cache; `place` is the index of a PTE that maps or mapped
    /// the page.
    pub(crate) fn swap_entry_of_page(&self, id: FolioId, place: usize) -> SwapEntry {
        let entries = self.swap_entries(id);
        entries.start + (place % entries.len()) as SwapEntry
    }

    /// Removes a folio that is to be freed from the swap cache. Its entries keep `shadow`, except for those
    /// that no PTE refers to, which are freed.
    pub(crate) fn remove_from_swap_cache(&mut self, id: FolioId, shadow: u64) {
        let memcg = self.lrus.memcg_of(id);
        for entry in self.swap_entries(id) {
            self.swap.slots[entry as usize] = Slot::Out { shadow, memcg };
            if self.swap.swap_users(entry) == 0 {
                self.swap_entry_free(entry);
            }
        }
    }

    /// Puts a folio that is being read from these entries into the swap cache.
    pub(crate) fn add_to_swap_cache(&mut self, entries: Range<SwapEntry>, id: FolioId) {
        self.swap.cache(entries, id);
        self.lrus.folios.flags[id].set(FolioFlags::SWAPCACHE);
    }

    /// Frees the swap entries of a folio if no PTE refers to any of them (`folio_free_swap`). Returns whether
    /// the folio has none now.
    #[inline]
    pub(crate) fn folio_free_swap(&mut self, id: FolioId) -> bool {
        if !self.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE) {
            return true;
        }
        let mut entries = self.swap_entries(id);
        if entries.any(|entry| self.swap.swap_users(entry) > 0) {
            return false;
        }
        let memcg = self.lrus.memcg_of(id);
        self.swap_entries(id).for_each(|entry| self.release_swap_entry(entry));
        let flags = &mut self.lrus.folios.flags[id];
        flags.clear(FolioFlags::SWAPCACHE);
        flags.set(if flags.order() > 0 {
            FolioFlags::DIRTY | FolioFlags::LEFT_SWAP
        } else {
            FolioFlags::DIRTY
        });
        self.lrus.memcgs.charge_swap(memcg, -(flags.nr_pages() as i64));
        true
    }

    /// Frees an entry whose page is not in memory and that no PTE refers to.
    pub(crate) fn swap_entry_free(&mut self, entry: SwapEntry) {
        let Slot::Out { memcg, .. } = self.swap.slots[entry as usize] else {
            unreachable!("the page of entry {entry} is not in memory");
        };
        self.lrus.memcgs.charge_swap(memcg, -1);
        self.release_swap_entry(entry);
    }

    /// Frees an entry, and what zswap has of it.
    fn release_swap_entry(&mut self, entry: SwapEntry) {
        self.zswap_invalidate(entry);
        self.swap.release(entry);
    }

    /// Panics unless swap agrees with page tables, of which `users` counts the PTEs for each entry, and with
    /// folios. Returns the entries charged to each memory cgroup.
    pub(crate) fn validate_swap(&self, census: &Census, users: &BTreeMap<SwapEntry, u64>) -> Vec<u64> {
        let mut charged = vec![0; self.lrus.memcgs.len()];
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
                        "entry {entry} is free and not in the zeromap"
                    );
                    assert_eq!(users, 0, "entry {entry} is free");
                    assert!(!self.swap.clusters.is_used(entry), "entry {entry} is free in its cluster");
                    continue;
                }
                Slot::Out { memcg, .. } => {
                    assert!(users > 0, "no PTE refers to entry {entry}, whose page is not in memory");
                    memcg
                }
                Slot::Cached(id) => {
                    let folio = &self.lrus.folios[id];
                    let entries = self.swap_entries(id);
                    assert!(
                        census.found(id) && self.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE),
                        "{id:?}: {folio:?}"
                    );
                    assert!(entries.contains(&entry), "entry {entry} is one of its folio's");
                    assert_eq!(entries.start as usize % entries.len(), 0, "entries of {id:?} are aligned");
                    cached += usize::from(entry == entries.start);
                    let users: u64 = entries.map(users_of).sum();
                    // If the last user goes while a folio is being read ahead, the folio stays until reclaim
                    // finds it.
                    let ahead = self.lrus.folios.flags[id].has(FolioFlags::READAHEAD);
                    assert!(users + u64::from(folio.mapcount) > 0 || ahead, "users of {entry}, {folio:?}");
                    self.lrus.lruvecs[folio.lruvec].memcg
                }
            };
            assert!(self.swap.clusters.is_used(entry), "entry {entry} is used in its cluster");
            charged[memcg.index()] += 1;
        }
        assert_eq!(self.swap.used(), charged.iter().sum::<u64>(), "used entries");
        assert!(self.swap.used() <= self.swap.total(), "{} of {}", self.swap.used(), self.swap.total());
        let in_cache = |&(id, _): &(FolioId, Folio)| self.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE);
        assert_eq!(
            cached,
            census.all(&self.lrus.folios).filter(in_cache).count(),
            "folios in the swap cache"
        );
        for &id in self.page_cache.submitted_writes() {
            let flags = self.lrus.folios.flags[id];
            assert!(
                census.found(id) && flags.has(FolioFlags::WRITEBACK),
                "{id:?} is being written: {flags:?}"
            );
        }
        charged
    }
}
