//! Page faults on mapped files: reading around them, for as long as that helps.
//!
//! ```text
//!   fault ─► in memory?  ─ yes ─► one miss forgotten; a marked page reads the next window
//!              │ no
//!              ▼
//!            MADV_SEQUENTIAL: as a read of a whole window
//!            MADV_RANDOM, or over 100 misses more than hits: that page
//!            otherwise: a window around it
//! ```
//!
//! Left out: mapping what lies around a fault and is in memory (`fault_around_bytes`), which spares those pages faults of
//! their own and forgets as many misses. In the kernel: `filemap_fault`, `do_sync_mmap_readahead`,
//! `do_async_mmap_readahead` in mm/filemap.c.

use super::{OpenFile, OpenFileId, ReadRequest};
use crate::address_space::VmFlags;
use crate::address_space::memory::Touch;
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::page_cache::PageCache;
use crate::page_cache::xarray::{FileId, FilePages};

impl Kernel<'_> {
    /// A page of a file for a page fault on an area with `flags`.
    pub(crate) fn filemap_fault(
        &mut self,
        memcg: Memcg,
        (file, index): (FileId, u32),
        flags: VmFlags,
        by: AddedBy,
    ) -> Result<(FolioId, Touch), OutOfMemory> {
        let found = self.parts.page_cache.files.folio(file, index);
        if found.is_none() {
            self.on.counters.add(Event::Pgmajfault, 1);
        }
        let through = self.parts.page_cache.readahead.mapped_through.get(&file).copied();
        let Some(open) = through.filter(|_| !flags.has(VmFlags::RAND_READ)) else {
            return match found {
                Some(id) => Ok((id, Touch::Minor)),
                None => {
                    let page = FilePages::single(file, index);
                    let id = self.add_to_page_cache(memcg, page, by)?;
                    Ok((id, Touch::ReadFile(id)))
                }
            };
        };
        let features = self.on.features.readahead;
        let OpenFile { ra, .. } = &mut self.parts.page_cache.readahead.open_files[open.0 as usize];
        let last = index.saturating_add(ra.ra_pages);
        let request = ReadRequest { memcg, open, index, last, previous: None };
        if let Some(id) = found {
            ra.on_fault_hit();
            if self.parts.lrus.folios.flags[id].has(FolioFlags::READAHEAD) {
                self.page_cache_async_ra(&request, id, by);
            }
            return Ok((id, Touch::Minor));
        }
        let id = if flags.has(VmFlags::SEQ_READ) {
            self.page_cache_sync_ra(&request, by)?
        } else {
            let window = ra.on_fault_miss(&features, index);
            self.read_missing(&request, window, by)?
        };
        Ok((id, Touch::ReadFile(id)))
    }
}

impl PageCache {
    /// From now on, page faults on mappings of an open file read ahead through it; before, a fault reads one page. All
    /// that is read has to be fetched with [`PageCache::take_submitted_read`].
    pub fn map_through(&mut self, open: OpenFileId) {
        let file = self.readahead.open_files[open.0 as usize].file;
        self.readahead.mapped_through.insert(file, open);
    }
}
