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
mod swap_out;
mod zeromap;

use crate::lru::folio::FolioId;
use crate::lru::memcontrol::Memcg;
use crate::page_cache::device_reads::DeviceReads;
use cluster::Clusters;
use machine::{PageSize, Time};
use readahead::policy::SwapRa;
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

impl Swap {
    /// Adds swap of so many pages (`swapon`); on zram or a RAM disk, `synchronous_write` is the CPU time to write one.
    pub fn swapon(&mut self, pages: u64, synchronous_write: Option<Time>) {
        self.clusters.add(pages);
        self.synchronous_write = synchronous_write;
    }

    /// What an entry that a page table has holds.
    pub(crate) fn swap_entry_state(&self, entry: SwapEntry) -> SwapIn {
        match self.slots[entry as usize] {
            Slot::Cached(id) => SwapIn::Cached(id),
            Slot::Out { shadow, .. } => SwapIn::Read(shadow),
            Slot::Free => unreachable!("entry {entry} of a page table is in use"),
        }
    }

    /// The pages of a folio have become folios of their own, and each keeps its entry.
    pub(crate) fn split_swap_cache(&mut self, first: SwapEntry, pages: &[FolioId]) {
        for (entry, &page) in (first..).zip(pages) {
            self.cache(entry..entry + 1, page);
        }
    }

    /// One more page-table entry has a swap entry.
    pub(crate) fn swap_duplicate(&mut self, entry: SwapEntry) {
        self.swap_map[entry as usize] += 1;
    }

    /// One page-table entry less has a swap entry.
    pub(crate) fn swap_map_dec(&mut self, entry: SwapEntry) {
        self.swap_map[entry as usize] -= 1;
    }

    /// How many page-table entries have a swap entry.
    pub(crate) fn swap_users(&self, entry: SwapEntry) -> u16 {
        self.swap_map[entry as usize]
    }
}
