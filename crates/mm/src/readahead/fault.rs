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
use crate::account::Category;
use crate::address_space::VmFlags;
use crate::counters::Event;
use crate::folio::{FolioFlags, FolioId};
use crate::memcontrol::Memcg;
use crate::memory::Touch;
use crate::page_alloc::MemoryManager;
use crate::vmscan::OutOfMemory;
use crate::xarray::{FileId, FilePages};
use machine::{Cpu, Machine};

impl MemoryManager {
    /// From now on, page faults on mappings of an open file read ahead through it; before, a fault reads one page. All
    /// that is read has to be fetched with [`MemoryManager::take_submitted_read`].
    pub fn map_through(&mut self, open: OpenFileId) {
        let file = self.readahead.open_files[open.0 as usize].file;
        self.readahead.mapped_through.insert(file, open);
    }

    /// A page of a file for a page fault on an area with `flags`.
    pub(crate) fn filemap_fault(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        memcg: Memcg,
        (file, index): (FileId, u32),
        flags: VmFlags,
        in_fault: bool,
    ) -> Result<(FolioId, Touch), OutOfMemory> {
        let found = self.files.folio(file, index);
        if found.is_none() {
            self.counters.add(Event::Pgmajfault, 1);
        }
        let through = self.readahead.mapped_through.get(&file).copied();
        let Some(open) = through.filter(|_| !flags.has(VmFlags::RAND_READ)) else {
            return match found {
                Some(id) => Ok((id, Touch::Minor)),
                None => {
                    let page = FilePages::single(file, index);
                    let id = self.add_to_page_cache(machine, cpu, memcg, page, in_fault)?;
                    Ok((id, Touch::ReadFile(id)))
                }
            };
        };
        let features = self.features().readahead;
        let OpenFile { ra, .. } = &mut self.readahead.open_files[open.0 as usize];
        let last = index.saturating_add(ra.ra_pages);
        let request = ReadRequest { memcg, open, index, last, previous: None };
        if let Some(id) = found {
            ra.on_fault_hit();
            if self.folios.flags[id].has(FolioFlags::READAHEAD) {
                self.page_cache_async_ra(machine, cpu, &request, id, in_fault);
            }
            return Ok((id, Touch::Minor));
        }
        let id = if flags.has(VmFlags::SEQ_READ) {
            self.page_cache_sync_ra(machine, cpu, &request, in_fault)?
        } else {
            let window = ra.on_fault_miss(&features, index);
            self.read_missing(machine, cpu, &request, window, in_fault)?
        };
        Ok((id, Touch::ReadFile(id)))
    }
}
