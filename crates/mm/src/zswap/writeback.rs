//! Writing compressed pages back to the device: the oldest of a list first, when the pool is full, when a memory cgroup is at
//! `memory.zswap.max`, or when memory is short and the shrinker is on.
//!
//! ```text
//!   list of a memory cgroup on a node     oldest ─► ■ □ ■ ■ ... ◄─ stored last       ■ referenced: passed over once, to the end
//!                                                     └─► decompressed into the swap cache ─► written ─► reclaimed
//! ```
//!
//! So a pool that was filled in one go and is full writes nothing back before each of its entries has been passed over. A run of the worker
//! gives up after sixteen failures, of which the end of a pass over all memory cgroups in which it has not looked at any yet is one; so it
//! passes over fifteen or sixteen, and waits for the next page that is refused. In the kernel: `shrink_memcg_cb`,
//! `zswap_writeback_entry`, `shrink_worker`, `zswap_shrinker_count` and `_scan` in mm/zswap.c.

use super::policy::{self, Worker};
use crate::account::Category;
use crate::allocator::request::{Effort, Placement};
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId, LruvecId};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::lru::vmscan::policy::{DEFAULT_SEEKS, MAX_RECLAIM_RETRIES, SlabScan};
use crate::swapfile::SwapEntry;
use machine::Node;

/// What became of an entry that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// It was used since, and is passed over once.
    Rotated,
    Written,
    /// The page is in the swap cache already, so it is in use.
    InSwapCache,
    NoMemory,
}

/// Why a memory cgroup's entries were not written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotShrunk {
    /// It has none, or may not write back (ENOENT).
    Nothing,
    /// Those looked at were not written (EAGAIN).
    Again,
}

/// A run of the worker that writes back a full pool (`shrink_worker`).
#[derive(Clone, Debug, Default)]
pub struct ShrinkWork {
    /// Memory cgroups whose entries were looked at in this pass over all of them.
    attempts: u32,
    failures: u32,
}

impl ShrinkWork {
    /// Writes back from the next memory cgroup that has entries. Returns whether there is more to do.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let goes_on = match policy::worker(&kernel.on.features.zswap) {
            Worker::OfMemcgs => self.step_memcg(kernel),
            Worker::OfPool => kernel.write_back_oldest(),
            Worker::OfOneEntry => {
                kernel.write_back_oldest();
                false
            }
        };
        let zswap = &kernel.parts.zswap;
        goes_on && zswap.pool.pages() > kernel.on.settings.zswap.accept_pages(zswap.managed)
    }

    fn step_memcg(&mut self, kernel: &mut Kernel) -> bool {
        while let Some(memcg) = kernel.parts.next_zswap_memcg() {
            match kernel.shrink_zswap_of(memcg) {
                Err(NotShrunk::Nothing) => continue,
                Err(NotShrunk::Again) => self.failures += 1,
                Ok(()) => {}
            }
            self.attempts += 1;
            return self.failures < MAX_RECLAIM_RETRIES;
        }
        self.failures += u32::from(self.attempts == 0);
        self.attempts = 0;
        self.failures < MAX_RECLAIM_RETRIES
    }
}

impl Parts {
    /// The memory cgroup after that of the last call, and nothing after the last one (`zswap_next_shrink`).
    fn next_zswap_memcg(&mut self) -> Option<Memcg> {
        if self.zswap.pass.is_empty() {
            let tree = self.lrus.memcgs.tree(Memcg::ROOT);
            self.zswap.pass.push(None);
            self.zswap.pass.extend(tree.into_iter().rev().map(Some));
        }
        self.zswap.pass.pop().flatten()
    }
}

impl Kernel<'_> {
    /// Looks at the oldest entry that a memory cgroup has on each node (`shrink_memcg`).
    pub(super) fn shrink_zswap_of(&mut self, memcg: Memcg) -> Result<(), NotShrunk> {
        if !self.parts.lrus.memcgs.zswap_writes_back(memcg) {
            return Err(NotShrunk::Nothing);
        }
        let looked: Vec<Looked> = (0..self.on.machine.topology.nodes)
            .filter_map(|node| {
                let lruvec = self.parts.lrus.lruvec_of(memcg, Node(node));
                self.look_at_oldest(lruvec)
            })
            .collect();
        match looked.contains(&Looked::Written) {
            true => Ok(()),
            false if looked.is_empty() => Err(NotShrunk::Nothing),
            false => Err(NotShrunk::Again),
        }
    }

    /// Writes back the oldest entry of all. Returns whether there was one.
    fn write_back_oldest(&mut self) -> bool {
        let oldest = self.parts.zswap.lists.iter().filter_map(|list| list.entries.first_key_value()).min();
        let Some((_, &swap)) = oldest else { return false };
        let lruvec = self.parts.zswap.entries[swap as usize].expect("what is on a list is stored").lruvec;
        self.look_at_oldest(lruvec).is_some()
    }

    /// Looks at the oldest entry of a list, if it has one (`shrink_memcg_cb`).
    fn look_at_oldest(&mut self, lruvec: LruvecId) -> Option<Looked> {
        let (_, &swap) = self.parts.zswap.list_mut(lruvec).entries.first_key_value()?;
        let cost = self.on.machine.costs.paging().lru_scan;
        self.on.machine.charge(self.on.cpu, Category::Zswap, cost);
        // At the end it stays if it cannot be written.
        self.parts.zswap.rotate(swap);
        let entry = self.parts.zswap.entries[swap as usize].as_mut()?;
        if std::mem::take(&mut entry.referenced) {
            return Some(Looked::Rotated);
        }
        Some(self.zswap_writeback_entry(swap))
    }

    /// Moves a page from zswap to its swap entry on the device, through the swap cache (`zswap_writeback_entry`).
    fn zswap_writeback_entry(&mut self, swap: SwapEntry) -> Looked {
        let Some(memcg) = self.parts.swap.memcg_of(swap) else { return Looked::InSwapCache };
        let flags = FolioFlags::SWAPBACKED;
        let Ok(id) = self.try_alloc_folio(memcg, flags, Effort::OF_RECLAIM, Placement::Local) else {
            return Looked::NoMemory;
        };
        self.decompress_for_writeback(id, swap);
        self.parts.zswap_invalidate(swap);
        self.zswap_free_emptied();
        self.on.counters.add(Event::Zswpwb, 1);
        if self.swap_writepage(id) {
            self.folio_rotate_reclaimable(id);
        }
        Looked::Written
    }

    /// Adds a page to the swap cache and fills it.
    fn decompress_for_writeback(&mut self, id: FolioId, swap: SwapEntry) {
        self.note_swapped_in(id, swap, AddedBy::Other);
        if let Some(compressor) = self.parts.zswap.compressor {
            self.on.machine.charge(self.on.cpu, Category::Zswap, compressor.decompress);
        }
        self.parts.add_to_swap_cache(swap..swap + 1, id);
        self.folio_add_lru(id, AddedBy::Other);
    }

    /// Looks at so many entries of a list, up to one whose page is in use. Returns whether to go on: something was written, and no page was in
    /// use (`SHRINK_STOP`).
    fn scan_zswap(&mut self, lruvec: LruvecId, entries: u64) -> bool {
        let mut written = false;
        for _ in 0..entries {
            match self.look_at_oldest(lruvec) {
                None => break,
                Some(Looked::InSwapCache) => return false,
                Some(looked) => written |= looked == Looked::Written,
            }
        }
        written
    }

    /// Writes back entries of a list because memory is short, as a shrinker (`zswap_shrinker_scan`).
    pub(crate) fn shrink_zswap(&mut self, lruvec: LruvecId, priority: u8) {
        let f = self.on.features.zswap;
        let memcg = self.parts.lrus.lruvecs[lruvec].memcg;
        if !policy::shrinks(&f, &self.on.settings.zswap) || !self.parts.lrus.memcgs.zswap_writes_back(memcg) {
            return;
        }
        let group = self.parts.lrus.memcgs.get(memcg);
        let (pool, stored) = (group.zswap_bytes / self.parts.zswap.page_bytes, group.zswapped);
        let list = self.parts.zswap.list_mut(lruvec);
        let unprotected = policy::unprotected(&f, list.entries.len() as u64, &mut list.protected);
        let freeable = policy::worth_writing(unprotected, pool, stored);
        if freeable == 0 {
            return;
        }
        let mut scan = SlabScan::new(freeable, list.deferred, priority, Some(DEFAULT_SEEKS));
        while let Some(batch) = scan.batch() {
            let list = self.parts.zswap.list_mut(lruvec);
            if policy::spares_batch(&f, list.protected, list.entries.len() as u64, batch) {
                break;
            }
            let goes_on = self.scan_zswap(lruvec, batch);
            scan.scanned(batch);
            if !goes_on {
                break;
            }
        }
        self.parts.zswap.list_mut(lruvec).deferred = scan.deferred();
    }
}
