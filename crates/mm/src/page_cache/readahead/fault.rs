//! Page faults on mapped files: readahead around the fault, as long as it helps, and fault-around, which maps
//! pages in memory around it.
//!
//! ```text
//!   load ─► fault-around: map the pages of its 64 KiB that are in memory, filled and without the marker, since
//!             │ 6.18 large folios as a whole; each is one miss less
//!             ▼ unless that has mapped the page itself
//!   fault ─► in memory?  ─ yes ─► one miss less; a folio with the marker starts the next window ─► retry
//!              │ no
//!              ▼
//!            MADV_SEQUENTIAL: like a read of a whole window
//!            MADV_RANDOM, or over 100 misses more than hits: that page only
//!            otherwise: a window around the page                                             ─► retry
//!
//!   retry: the task waits for the page and faults again, which starts no more readahead ([`Touch::Retry`])
//! ```
//!
//! A load that missed maps the pages it has read around itself when it is retried, which counts more hits than it
//! counted misses. So random loads read around for ever; stores, which map one page, come to more than 100 misses.
//!
//! A file that is mapped without an open file is read and mapped page by page ([`Parts::map_through`]).
//!
//! Not modelled: the time that fault-around takes, mappings of one file through several open files,
//! `MADV_HUGEPAGE` for files, folios for code (`exec_folio_order`), PMD mappings, and large folios that
//! `finish_fault` maps as a whole since 6.18. In the kernel: `do_read_fault`, `do_fault_around` in mm/memory.c;
//! `filemap_map_pages`, `filemap_fault`, `do_sync_mmap_readahead`, `do_async_mmap_readahead` in mm/filemap.c.

use super::{OpenFile, OpenFileId, ReadRequest, policy};
use crate::address_space::memory::{Fault, Touch};
use crate::address_space::{Pte, VmFlags, Vpn};
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::page_cache::xarray::{FileId, FilePages};
use std::ops::Range;

/// The kernel's default of `fault_around_bytes`.
pub const FAULT_AROUND_BYTES: u64 = 64 << 10;

/// How a file is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappedThrough {
    open: OpenFileId,
    /// Pages that fault-around looks at, that of the fault included; a power of two.
    fault_around_pages: u64,
}

impl Kernel<'_> {
    /// Maps pages in memory around a load from page `index` of a file. Returns whether that page is one of them.
    pub(crate) fn do_fault_around(&mut self, fault: &Fault, (file, index): (FileId, u32)) -> bool {
        let through = self.parts.page_cache.readahead.mapped_through.get(&file).copied();
        let Some(MappedThrough { open, fault_around_pages }) = through else { return false };
        if fault_around_pages == 1 {
            return false;
        }
        let OpenFile { pages: file_pages, .. } = self.parts.page_cache.readahead.open_files[open.0 as usize];
        let limits = self.parts.one_table(fault);
        let aligned = fault.page - fault.page % fault_around_pages;
        let around = aligned.max(limits.start);
        let around = around..(around + fault_around_pages).min(limits.end);
        let page_at = |at: Vpn| (u64::from(index) + at - fault.page) as u32;
        let (first, last) = (page_at(limits.start), page_at(limits.end));
        let features = self.on.features.readahead;
        let (mut hits, mut is_mapped, mut next) = (0, false, page_at(around.start));
        let mut maps_whole_folios = None;
        while next < page_at(around.end) {
            let page = next;
            next += 1;
            let Some(id) = self.parts.page_cache.files.folio(file, page) else { continue };
            let folio = self.parts.file_pages(id).indices();
            next = folio.end;
            let flags = self.parts.lrus.folios.flags[id];
            if flags.has(FolioFlags::LOCKED) || flags.has(FolioFlags::READAHEAD) {
                continue;
            }
            let whole = *maps_whole_folios
                .get_or_insert_with(|| policy::maps_whole_folios(&features, &folio, file_pages));
            let pages = match whole && first <= folio.start && folio.end <= last {
                true => folio,
                false => page..folio.end.min(page_at(around.end)),
            };
            let is_refault = flags.has(FolioFlags::WORKINGSET);
            hits += policy::fault_around_hits(&features, pages.len() as u32, is_refault);
            for page in pages {
                let place = fault.entry.place() + page as usize - index as usize;
                let entry = fault.entry.table().entry(place);
                if self.parts.address_spaces.page_tables[entry] == Pte::NONE {
                    self.set_file_pte(entry, id, fault.flags);
                    is_mapped |= page == index;
                }
            }
        }
        self.parts.page_cache.readahead.open_files[open.0 as usize].ra.on_fault_around(hits);
        is_mapped
    }

    /// Returns the folio that holds page `index` of a file, for a page fault, and reads it if it is missing
    /// (`filemap_fault`).
    pub(crate) fn filemap_fault(
        &mut self,
        fault: &Fault,
        (file, index): (FileId, u32),
    ) -> Result<(FolioId, Touch), OutOfMemory> {
        let found = self.parts.page_cache.files.folio(file, index);
        if found.is_none() {
            self.on.counters.add(Event::Pgmajfault, 1);
        }
        let through = self.parts.page_cache.readahead.mapped_through.get(&file).copied();
        match (through, found) {
            (None, Some(id)) => Ok((id, Touch::Minor)),
            (None, None) => {
                let page = FilePages::single(file, index);
                let id = self.add_to_page_cache(fault.memcg, page, fault.added_by)?;
                Ok((id, Touch::ReadFile(id)))
            }
            (Some(through), found) => {
                let open = through.open;
                let OpenFile { ra, .. } = self.parts.page_cache.readahead.open_files[open.0 as usize];
                let last = index.saturating_add(ra.ra_pages);
                let request = ReadRequest { memcg: fault.memcg, open, index, last, previous: None };
                match found {
                    Some(id) => {
                        let pages = through.fault_around_pages;
                        Ok((id, self.do_async_mmap_readahead(fault, pages, &request, id)))
                    }
                    None => self.do_sync_mmap_readahead(fault, &request),
                }
            }
        }
    }

    /// Starts the next window if the page of a fault is in a folio with the marker.
    fn do_async_mmap_readahead(
        &mut self,
        fault: &Fault,
        fault_around_pages: u64,
        request: &ReadRequest,
        id: FolioId,
    ) -> Touch {
        let features = self.on.features.readahead;
        let OpenFile { ra, .. } = &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        if fault.tried || fault.flags.has(VmFlags::RAND_READ) || ra.ra_pages == 0 {
            return Touch::Minor;
        }
        let flags = self.parts.lrus.folios.flags[id];
        match flags.has(FolioFlags::LOCKED) {
            true => ra.on_locked_hit(&features),
            false => ra.on_fault_hit(),
        }
        if !flags.has(FolioFlags::READAHEAD) {
            return Touch::Minor;
        }
        self.page_cache_async_ra(request, id, fault.added_by);
        if fault.write || fault_around_pages == 1 {
            let OpenFile { ra, .. } =
                &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize];
            ra.on_retried_hit(&features);
        }
        Touch::Retry(id)
    }

    /// Reads the page of a fault, and around it.
    fn do_sync_mmap_readahead(
        &mut self,
        fault: &Fault,
        request: &ReadRequest,
    ) -> Result<(FolioId, Touch), OutOfMemory> {
        let features = self.on.features.readahead;
        let OpenFile { ra, .. } = &mut self.parts.page_cache.readahead.open_files[request.open.0 as usize];
        let alone = fault.flags.has(VmFlags::RAND_READ) || ra.ra_pages == 0;
        let id = if !alone && fault.flags.has(VmFlags::SEQ_READ) {
            self.page_cache_sync_ra(request, fault.added_by)?
        } else {
            let window = if alone { None } else { ra.on_fault_miss(&features, request.index) };
            self.read_missing(request, window, fault.added_by)?
        };
        Ok((id, if fault.tried { Touch::ReadFile(id) } else { Touch::Retry(id) }))
    }
}

impl Parts {
    /// Returns the pages that are in the VMA and in the page table of a fault.
    fn one_table(&self, fault: &Fault) -> Range<Vpn> {
        let span = self.allocator.geometry().ptrs_per_pte() as u64;
        let table = fault.page - fault.page % span;
        let vma = &self.address_spaces.mms[fault.mm].vmas[fault.vma];
        vma.start.max(table)..vma.end.min(table + span)
    }

    /// Makes page faults on mappings of a file read ahead through the open file `open`, and loads map up to
    /// `fault_around_bytes` around themselves; without that, a fault reads and maps one page. The folios that are read
    /// have to be fetched with [`PageCache::take_submitted_read`](crate::page_cache::PageCache::take_submitted_read).
    pub fn map_through(&mut self, open: OpenFileId, fault_around_bytes: u64) {
        let file = self.page_cache.readahead.open_files[open.0 as usize].file;
        let pages = (fault_around_bytes / self.allocator.page_size().bytes()).max(1);
        let through = MappedThrough { open, fault_around_pages: 1 << pages.ilog2() };
        self.page_cache.readahead.mapped_through.insert(file, through);
    }
}
