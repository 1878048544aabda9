//! Page faults on mapped files: readahead around the fault, as long as it helps.
//!
//! ```text
//!   fault ─► in memory?  ─ yes ─► one miss less; a folio with the marker starts the next window
//!              │ no
//!              ▼
//!            MADV_SEQUENTIAL: like a read of a whole window
//!            MADV_RANDOM, or over 100 misses more than hits: that page only
//!            otherwise: a window around the page
//! ```
//!
//! Not modelled: fault-around (`fault_around_bytes`), which maps pages in memory around the fault, so that
//! they need no faults of their own, each of which would be a hit. In the kernel: `filemap_fault`,
//! `do_sync_mmap_readahead`, `do_async_mmap_readahead` in mm/filemap.c.

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
    /// Returns the folio that holds page `index` of a file, for a page fault on a VMA with `flags`, and reads
    /// it if it is missing (`filemap_fault`).
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
    /// Makes page faults on mappings of a file read ahead through the open file `open`; without that, a fault
    /// reads one page. The folios that are read have to be fetched with [`PageCache::take_submitted_read`].
    pub fn map_through(&mut self, open: OpenFileId) {
        let file = self.readahead.open_files[open.0 as usize].file;
        self.readahead.mapped_through.insert(file, open);
    }
}
