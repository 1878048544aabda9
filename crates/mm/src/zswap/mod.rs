//! zswap: pages that are swapped out are kept compressed in memory, in front of the swap device.
//!
//! ```text
//!   reclaim ─► swap entry ─► does zswap take it? ─ yes ─► compressed, in a zspage of its size class (zsmalloc)
//!                                │ no                           │ oldest first: the pool is full, a memory cgroup is at
//!                                ▼                              ▼ memory.zswap.max, or the shrinker runs
//!                           swap device ◄───────────────── decompressed into the swap cache, written
//!
//!   fault ─► in the swap cache? ─ no ─► in zswap? ─ yes ─► decompressed: no device, no wait
//! ```
//!
//! What a page compresses to is a property of the program (`AddressSpace::compressed_bytes`), what that costs one of the machine
//! ([`Compressor`]). The pool takes page frames, and what it holds is charged to the page's memory cgroup by the byte.
//!
//! [`policy`] decides, `contents` says what pages compress to, `zsmalloc` packs, `store` takes pages in and gives them back,
//! `writeback` moves them to the device. Not modelled: other pools than zsmalloc (6.1 has zbud by default), several pools after a
//! change of compressor, slabs for entries, and locks. In the kernel: mm/zswap.c.

mod contents;
pub mod policy;
mod store;
mod writeback;
mod zsmalloc;

use crate::allocator::page::Pfn;
use crate::lru::folio::LruvecId;
use crate::lru::memcontrol::Memcg;
use crate::swapfile::SwapEntry;
use machine::{PageSize, Time};
use std::collections::BTreeMap;
pub use writeback::ShrinkWork;
use zsmalloc::{Zsmalloc, ZspageId};

/// What compression takes on a machine, for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressor {
    /// CPU time to compress it and store it.
    pub compress: Time,
    /// CPU time to look it up and decompress it.
    pub decompress: Time,
    /// Bytes that it compresses to, of programs that do not say it themselves.
    pub bytes: u32,
}

/// A compressed page (`struct zswap_entry`).
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bytes that it takes; none for a page of zeroes, which kernels without a zeromap note here.
    length: u32,
    zspage: Option<ZspageId>,
    /// Whose list it is on.
    lruvec: LruvecId,
    /// Its place there.
    turn: u64,
    /// It is passed over once.
    referenced: bool,
}

/// Entries of a memory cgroup on a node, and what the shrinker knows of them.
#[derive(Clone, Debug, Default)]
struct List {
    /// By turn, the oldest first.
    entries: BTreeMap<u64, SwapEntry>,
    /// Entries that the shrinker spares (`nr_disk_swapins`, `nr_zswap_protected`).
    protected: u64,
    /// Scan work that it has deferred (`nr_deferred`).
    deferred: u64,
}

/// The pool of compressed pages, and who is written back first.
#[derive(Clone, Debug)]
pub struct Zswap {
    page_bytes: u64,
    compressor: Option<Compressor>,
    /// Indexed by swap entry.
    entries: Vec<Option<Entry>>,
    /// Bytes that the page of each swap entry compresses to, as of its last swap-out.
    lengths: Vec<u32>,
    pool: Zsmalloc,
    /// Indexed by lruvec.
    lists: Vec<List>,
    turns: u64,
    /// Pages in the pool (`zswap_stored_pages`).
    stored: u64,
    /// The pool was full when last asked, and has not yet come down to where it takes pages again.
    is_full: bool,
    /// Somebody has asked to write it back (`queue_work` of `zswap_shrink_work`).
    wants_shrinking: bool,
    /// Memory cgroups that the worker has still to come to, the next one last; `None` ends the pass.
    pass: Vec<Option<Memcg>>,
    /// How many pages all zones manage (`totalram_pages`).
    managed: u64,
    /// Frames of zspages that became empty where nothing can be freed.
    emptied: Vec<Pfn>,
    was_enabled: bool,
}

impl Zswap {
    /// Nothing is stored.
    pub(crate) fn new(page_size: PageSize, managed: u64) -> Zswap {
        Zswap {
            page_bytes: page_size.bytes(),
            compressor: None,
            entries: Vec::new(),
            lengths: Vec::new(),
            pool: Zsmalloc::new(page_size.bytes()),
            lists: Vec::new(),
            turns: 0,
            stored: 0,
            is_full: false,
            wants_shrinking: false,
            pass: Vec::new(),
            managed,
            emptied: Vec::new(),
            was_enabled: false,
        }
    }

    /// Sets what compression takes; without, nothing is stored.
    pub fn set_compressor(&mut self, compressor: Compressor) {
        self.compressor = Some(compressor);
    }

    /// Pages of memory that the pool takes (`zswap_total_pages`, `Zswap` of /proc/meminfo).
    pub fn pool_pages(&self) -> u64 {
        self.pool.pages()
    }

    /// Pages stored in it (`Zswapped`).
    pub fn stored_pages(&self) -> u64 {
        self.stored
    }

    /// Whether it has ever been on: then large folios do not come back from swap whole (`zswap_never_enabled`).
    pub(crate) fn was_enabled(&self) -> bool {
        self.was_enabled
    }

    /// Whether pages wait to be written back because the pool is full; takes the request.
    pub fn take_shrink_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_shrinking)
    }

    fn entry(&self, entry: SwapEntry) -> Option<&Entry> {
        self.entries.get(entry as usize)?.as_ref()
    }

    fn list_mut(&mut self, lruvec: LruvecId) -> &mut List {
        let index = usize::from(lruvec.0);
        if self.lists.len() <= index {
            self.lists.resize(index + 1, List::default());
        }
        &mut self.lists[index]
    }

    /// Moves an entry to the end of its list, or puts it there (`list_lru_add`, `LRU_ROTATE`).
    fn rotate(&mut self, swap: SwapEntry) {
        self.turns += 1;
        let turn = self.turns;
        let Some(entry) = self.entries[swap as usize].as_mut() else { return };
        let (lruvec, before) = (entry.lruvec, std::mem::replace(&mut entry.turn, turn));
        let list = self.list_mut(lruvec);
        list.entries.remove(&before);
        list.entries.insert(turn, swap);
    }

    /// Notes what the pages of a folio compress to which gets swap entries from `first` on.
    pub(crate) fn note_lengths(&mut self, first: SwapEntry, lengths: Vec<u32>) {
        for (swap, length) in (first as usize..).zip(lengths) {
            if self.lengths.len() <= swap {
                self.lengths.resize(swap + 1, 0);
            }
            self.lengths[swap] = length;
        }
    }
}
