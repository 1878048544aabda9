//! Swap: where anonymous folios are written to.
//!
//! ```text
//!   entry ─► free │ a page of a folio in the swap cache │ the shadow of an evicted page
//!            and how many PTEs refer to it (`swap_map`)
//!
//!   folio of 4 pages     ■ ■ ■ ■         has contiguous entries while it is in the swap cache; once it has
//!   entries            │ 8 9 10 11 │     been evicted, each entry stands alone
//! ```
//!
//! [`policy`] decides where entries are searched for, `cluster` keeps account of them, `swap_in` reads
//! entries back, with [`readahead`] of those around; `zeromap` saves reading and writing pages of zeroes. Not
//! modelled: each CPU's cache of 64 entries (before 6.15), several devices, priorities, discard, entries of
//! the swap cache that a search for others frees on its way. [`crate::zswap`] is in front of the device. In the kernel: mm/swapfile.c,
//! mm/swap_state.c.

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
pub(crate) use swap_out::Writeout;

/// The number of a swap entry (`swp_entry_t`).
pub type SwapEntry = u32;

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    Cached(FolioId),
    Out { shadow: u64, memcg: Memcg },
}

/// The swap devices, taken as one (`struct swap_info_struct`).
#[derive(Clone, Debug)]
pub struct Swap {
    slots: Vec<Slot>,
    /// How many PTEs refer to each entry (`swap_map`).
    swap_map: Vec<u16>,
    /// Which entries stand for a page of zeroes, which is not on the device.
    zeromap: Vec<bool>,
    clusters: Clusters,
    /// The first entry of each folio in the swap cache, indexed by folio.
    entry_of: Vec<SwapEntry>,
    /// CPU time to write a page to a device that writes in the caller's context (zram, brd;
    /// `SWP_SYNCHRONOUS_IO`); `None` for others. Folios read from such a device do not stay in the swap
    /// cache.
    synchronous_write: Option<Time>,
    /// The history of swap readahead by entry.
    ra: SwapRa,
    /// Folios that the device has to fill.
    reads: DeviceReads,
    /// Entry of the folio that was last added to `reads`.
    last_read: SwapEntry,
}

impl Swap {
    /// Makes the state without any device.
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

    pub fn free(&self) -> u64 {
        self.total() - self.used()
    }

    pub fn used(&self) -> u64 {
        self.clusters.used()
    }

    pub fn total(&self) -> u64 {
        self.clusters.capacity()
    }

    /// Whether less than half of swap is free (`vm_swap_full`).
    pub(crate) fn is_full(&self) -> bool {
        self.free() * 2 < self.total()
    }

    /// Whether folios that are read do not stay in the swap cache (`SWP_SYNCHRONOUS_IO`).
    pub(crate) fn is_synchronous(&self) -> bool {
        self.synchronous_write.is_some()
    }

    /// Puts a folio into the swap cache with these entries.
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
        debug_assert_eq!(self.swap_map[entry as usize], 0, "no PTE refers to entry {entry}");
        self.slots[entry as usize] = Slot::Free;
        self.zeromap[entry as usize] = false;
        self.clusters.release(entry);
    }
}

/// Where the page of a swap entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwapIn {
    /// In the swap cache.
    Cached(FolioId),
    /// On the device, from which it has to be read; this is the shadow that its eviction left.
    Read(u64),
}

impl Swap {
    /// Adds a swap device of `pages` pages (`swapon`). For zram or a RAM disk, `synchronous_write` is the CPU
    /// time to write one page.
    pub fn swapon(&mut self, pages: u64, synchronous_write: Option<Time>) {
        self.clusters.add(pages);
        self.synchronous_write = synchronous_write;
    }

    /// Where the page of an entry is that a PTE refers to.
    pub(crate) fn swap_entry_state(&self, entry: SwapEntry) -> SwapIn {
        match self.slots[entry as usize] {
            Slot::Cached(id) => SwapIn::Cached(id),
            Slot::Out { shadow, .. } => SwapIn::Read(shadow),
            Slot::Free => unreachable!("entry {entry}, which a PTE refers to, is in use"),
        }
    }

    /// Gives each page of a folio that has been split the entry that it had in the folio.
    pub(crate) fn split_swap_cache(&mut self, first: SwapEntry, pages: &[FolioId]) {
        for (entry, &page) in (first..).zip(pages) {
            self.cache(entry..entry + 1, page);
        }
    }

    /// The memory cgroup of an entry whose page is not in memory.
    pub(crate) fn memcg_of(&self, entry: SwapEntry) -> Option<Memcg> {
        match self.slots[entry as usize] {
            Slot::Out { memcg, .. } => Some(memcg),
            Slot::Free | Slot::Cached(_) => None,
        }
    }

    /// Whether an entry is in use.
    pub(crate) fn is_used(&self, entry: SwapEntry) -> bool {
        !matches!(self.slots[entry as usize], Slot::Free)
    }

    /// Counts one more PTE that refers to an entry (`swap_duplicate`).
    pub(crate) fn swap_duplicate(&mut self, entry: SwapEntry) {
        self.swap_map[entry as usize] += 1;
    }

    /// Counts one PTE less that refers to an entry.
    pub(crate) fn swap_map_dec(&mut self, entry: SwapEntry) {
        self.swap_map[entry as usize] -= 1;
    }

    /// How many PTEs refer to an entry (`swap_count`).
    pub(crate) fn swap_users(&self, entry: SwapEntry) -> u16 {
        self.swap_map[entry as usize]
    }
}
