//! The page cache: reading and writing pages of files.
//!
//! ```text
//!   read ─► in memory?  ─ yes ─► mark accessed
//!                │ no
//!                ▼
//!         allocate ─► charge to the task's memcg (may reclaim) ─► xarray ─► refault, if a shadow ─► LRU
//!                                                                    │
//!                             the device reads it; until then it is locked
//! ```
//!
//! A page that is written stays in memory, dirty, until a flusher writes it back
//! ([`crate::page_cache::writeback`]).
//!
//! In the kernel: `filemap_read`, `__filemap_add_folio` in mm/filemap.c; `page_cache_ra_unbounded` in
//! mm/readahead.c.

use crate::address_space::huge_memory::policy::Failure;
use crate::allocator::page::MigrateType;
use crate::allocator::request::OutOfMemory;
use crate::allocator::request::{Effort, Placement, Request};
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::page_cache::PageCache;
use crate::page_cache::xarray::{Entry, FileId, FilePages};

/// What a read of a page found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The page was in the page cache.
    Hit(FolioId),
    /// The page was not in the page cache; it has a folio now that a device has to fill.
    Miss(FolioId),
}

/// What a write of a page did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The folio that was written to.
    pub id: FolioId,
    /// Whether it was in the page cache before.
    pub was_there: bool,
    /// Pages that became dirty: 0 if they were dirty already.
    pub dirtied: u64,
}

/// Whether a read of a page is a new access to it, from the point of view of the open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    New,
    /// It is the page that the last read ended in, which does not count as another access (`filemap_read`).
    Again,
}

impl Kernel<'_> {
    /// Reads a page of a file for a task of `memcg`, without readahead (`pread`, `POSIX_FADV_RANDOM`). After
    /// [`Read::Miss`] the folio is locked until [`Lrus::end_read`] is called for it.
    #[inline(always)]
    pub fn read_page(
        &mut self,
        memcg: Memcg,
        file: FileId,
        index: u32,
        access: Access,
    ) -> Result<Read, OutOfMemory> {
        let found = self.parts.page_cache.files.folio(file, index);
        let id = match found {
            Some(id) => id,
            None => self.add_to_page_cache(memcg, FilePages::single(file, index), AddedBy::Other)?,
        };
        // The access counts now; the reader copies from a missing page once the device has filled it.
        if access == Access::New {
            self.folio_mark_accessed(id);
        }
        Ok(if found.is_some() { Read::Hit(id) } else { Read::Miss(id) })
    }

    /// Overwrites a whole page of a file for a task of `memcg` (`pwrite`). Nothing has to be read for that,
    /// and it does not count as an access (since 4.7; seen on 6.18 in the flags of pages written several
    /// times).
    pub fn write_page(&mut self, memcg: Memcg, file: FileId, index: u32) -> Result<Write, OutOfMemory> {
        let found = self.parts.page_cache.files.folio(file, index);
        let id = match found {
            Some(id) => id,
            None => {
                let pages = FilePages::single(file, index);
                let id = self.add_to_page_cache(memcg, pages, AddedBy::Other)?;
                self.parts.lrus.end_read(id);
                id
            }
        };
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        let dirtied = if self.mark_dirty(self.on.machine.now(self.on.cpu), id) { pages } else { 0 };
        Ok(Write { id, was_there: found.is_some(), dirtied })
    }

    /// Adds a new folio to the page cache for pages that are not there, and handles their refault
    /// (`filemap_add_folio`). Kept apart from the callers' path for pages that are in memory, which is the
    /// frequent one.
    #[inline(never)]
    pub(crate) fn add_to_page_cache(
        &mut self,
        memcg: Memcg,
        pages: FilePages,
        by: AddedBy,
    ) -> Result<FolioId, OutOfMemory> {
        let mut flags = FolioFlags::LOCKED;
        flags.set_order(pages.order);
        // Single pages will do if there is no memory for a large folio.
        let effort = Effort { no_retry: pages.order > 0, ..Effort::ORDINARY };
        let folio = self.try_alloc_folio(memcg, flags, effort, Placement::Local);
        let id = folio.map_err(|_| OutOfMemory)?;
        let owner = self.parts.lrus.lruvec_of(memcg, self.on.machine.node(self.on.cpu));
        let slot = self.parts.page_cache.files.make_slots(pages, owner);
        self.parts.lrus.folios[id].slot = slot;
        self.on.counters.add(Event::PageCacheAdded, flags.nr_pages());
        let before = match pages.order {
            0 => self.parts.page_cache.files.store(slot, Entry::Folio(id)),
            _ => self.parts.page_cache.files.store_pages(pages, Entry::Folio(id)),
        };
        if let Entry::Shadow(shadow) = before {
            self.workingset_refault(self.on.machine.now(self.on.cpu), id, shadow, by);
        }
        self.folio_add_lru(id, by);
        Ok(id)
    }

    /// Allocates a folio of the order in `flags` and charges it to `memcg`.
    pub(crate) fn alloc_folio(&mut self, memcg: Memcg, flags: FolioFlags) -> Result<FolioId, OutOfMemory> {
        let folio = self.try_alloc_folio(memcg, flags, Effort::ORDINARY, Placement::Local);
        folio.map_err(|_| OutOfMemory)
    }

    /// Like `alloc_folio`, but with a given `placement`, and with no more effort than `effort`.
    pub(crate) fn try_alloc_folio(
        &mut self,
        memcg: Memcg,
        mut flags: FolioFlags,
        effort: Effort,
        placement: Placement,
    ) -> Result<FolioId, Failure> {
        let order = flags.order();
        let request = Request { effort, ..Request::new(order, MigrateType::Movable, placement) };
        let block = match order {
            0 => self.alloc_single(&request),
            _ => self.alloc_pages(&request),
        };
        let (pfn, z) = block.ok_or(Failure::NoBlock)?;
        if self.charge_memcg(memcg, flags.nr_pages(), effort).is_err() {
            self.free(pfn, order);
            return Err(Failure::NoRoom);
        }
        let zone = &self.parts.allocator.zones()[z];
        let node = zone.node;
        flags.set_zone(zone.kind as usize);
        let lruvec = self.parts.lrus.lruvec_of(memcg, node);
        let id = self.parts.lrus.folios.create(pfn, flags, 0, lruvec);
        self.parts.numa.forget_folio(id);
        self.parts.allocator.zone_mut(z).buddy.set_user(pfn, id.0);
        Ok(id)
    }

    /// Takes a folio out of the page cache, where it leaves `entry`, and notes the removal if somebody watches removals
    /// (`__filemap_remove_folio`).
    #[inline]
    pub(crate) fn remove_from_page_cache(&mut self, id: FolioId, entry: Entry) {
        let slot = self.parts.lrus.folios[id].slot;
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        if pages == 1 {
            self.parts.page_cache.files.store(slot, entry);
        } else {
            self.parts.page_cache.files.store_pages(self.parts.file_pages(id), entry);
        }
        self.on.counters.add(Event::PageCacheRemoved, pages);
        if let Some(removals) = &mut self.parts.page_cache.removals {
            let (file, first) = self.parts.page_cache.files.page_of(slot);
            removals.extend((0..pages as u32).map(|page| (file, first + page)));
        }
    }
}

impl PageCache {
    /// Makes a file that has no page in memory.
    pub fn open_file(&mut self) -> FileId {
        self.files.open()
    }

    /// Allows large folios in the page cache of a file, as its file system supports them
    /// (`mapping_set_large_folios`; XFS since 5.18, ext4 since 6.16). Files that are open already go on
    /// without.
    pub fn set_large_folios(&mut self, file: FileId) {
        self.files.set_large_folios(file);
    }

    /// The xarrays of all files.
    pub fn files(&self) -> &crate::page_cache::xarray::Files {
        &self.files
    }

    /// Starts to record which pages leave the page cache.
    pub fn watch_removals(&mut self) {
        self.removals = Some(Vec::new());
    }

    /// Returns the pages that have left the page cache since the last call, in order.
    pub fn take_removals(&mut self) -> Vec<(FileId, u32)> {
        self.removals.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Parts {
    /// Reserves host memory for `pages` pages of files, of which at most `resident` are in memory at a time,
    /// so that arrays do not have to grow later. Has no other effect.
    pub fn expect_pages(&mut self, pages: usize, resident: usize) {
        self.lrus.folios.reserve(resident.min(pages));
        self.page_cache.files.reserve(pages, pages.saturating_sub(resident));
    }

    /// The pages of a file that a folio of the page cache holds.
    pub(crate) fn file_pages(&self, id: FolioId) -> FilePages {
        let (file, index) = self.page_cache.files.page_of(self.lrus.folios[id].slot);
        FilePages { file, index, order: self.lrus.folios.flags[id].order() }
    }
}

impl Lrus {
    /// Unlocks a folio that the device has filled (`folio_end_read`).
    pub fn end_read(&mut self, id: FolioId) {
        self.folios.flags[id].clear(FolioFlags::LOCKED);
    }

    /// Whether a folio is still being read in.
    #[inline]
    pub fn is_locked(&self, id: FolioId) -> bool {
        self.folios.flags[id].has(FolioFlags::LOCKED)
    }

    /// Whether a folio is of the working set, or was when it was evicted (`folio_test_workingset`).
    #[inline]
    pub fn is_workingset(&self, id: FolioId) -> bool {
        self.folios.flags[id].has(FolioFlags::WORKINGSET)
    }

    /// Whether a folio belongs to the page cache and not to anonymous memory (`folio_is_file_lru`).
    pub fn is_of_file(&self, id: FolioId) -> bool {
        !self.folios.flags[id].has(FolioFlags::SWAPBACKED)
    }

    /// Takes a reference to a folio, so that it cannot be freed (`folio_get`).
    pub fn hold(&mut self, id: FolioId) {
        self.folios.flags[id].set(FolioFlags::HELD);
    }
}
