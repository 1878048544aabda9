//! Accesses to one file by one task: the folios that each of them brings in.
//!
//! ```text
//!   accesses ─► a boot of the twin with memory for the whole file ─► for each, the folios brought in, in order
//! ```
//!
//! An access is a read through a descriptor, or loads or stores through a private mapping of the first descriptor.
//! `mmtwin verify readahead` compares the result with real kernels.

use std::ops::Range;

use machine::{Costs, Cpu, Machine, Topology};
use mm::Kernel;
use mm::address_space::memory::Touch;
use mm::address_space::{self, Backing, MmId, VmFlags, Vpn};
use mm::allocator::request::OutOfMemory;
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::readahead::{Advice, OpenFileId};
use mm::{Category, Event, Features, MemoryManager, Settings};
use rand_pcg::Pcg64Mcg;

/// How pages of a file are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// One read call for all of them (`pread`).
    Read,
    /// A load from each, through the mapping.
    Load,
    /// A store to each, through the mapping.
    Store,
}

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// How the pages are accessed.
    pub by: By,
    /// Number of the file descriptor; 0 for loads and stores.
    pub descriptor: u32,
    /// First page.
    pub index: u32,
    /// Number of pages, at least one.
    pub pages: u32,
}

/// A folio in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileFolio {
    /// First page, counted from the start of the file.
    pub index: u32,
    /// The folio has `1 << order` pages.
    pub order: u8,
}

impl FileFolio {
    /// Page numbers of the folio.
    pub fn pages(self) -> Range<u32> {
        self.index..self.index + (1 << self.order)
    }
}

/// A file that is accessed.
#[derive(Clone, Debug)]
pub struct AccessedFile {
    /// Length in pages.
    pub pages: u32,
    /// Whether the file system uses large folios.
    pub large_folios: bool,
    /// `posix_fadvise` for each descriptor.
    pub advice: Vec<Advice>,
    /// Its mapping through the first descriptor, if it has one.
    pub mapping: Option<Mapping>,
}

/// A private mapping of a file.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// `madvise` for all of it.
    pub advice: address_space::Advice,
    /// `fault_around_bytes`.
    pub fault_around_bytes: u64,
}

/// The result of accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// For each access, the folios that it brings in.
    pub folios: Vec<Vec<FileFolio>>,
    /// Page faults of all accesses.
    pub page_faults: u64,
}

/// Memory besides that for the file, in MiB.
const SPARE_MIB: u64 = 64;

const CPU: Cpu = Cpu(0);

/// Makes accesses to a file; `None` if memory does not suffice.
pub fn replay(
    features: &Features,
    settings: Settings,
    file: &AccessedFile,
    accesses: &[Access],
) -> Option<Brought> {
    let mut host = Host::new(features, settings, file);
    let bring_in = |access: &Access| {
        let mut came = Vec::new();
        host.access(access, &mut came).ok()?;
        Some(came)
    };
    let folios = accesses.iter().map(bring_in).collect::<Option<_>>()?;
    Some(Brought { folios, page_faults: host.mm.counters().get(Event::Pgfault) })
}

/// A machine whose only process accesses the file.
struct Host {
    mm: MemoryManager,
    machine: Machine<Category>,
    descriptors: Vec<OpenFileId>,
    process: MmId,
    /// First page of the mapping.
    start: Vpn,
}

impl Host {
    fn new(features: &Features, settings: Settings, accessed: &AccessedFile) -> Host {
        let &AccessedFile { pages, large_folios, ref advice, mapping } = accessed;
        let topology = Topology::single();
        // Each stored page has a copy.
        let copies = if mapping.is_some() { pages } else { 0 };
        let memory = memory_layout(1, (u64::from(pages) + u64::from(copies)) / 256 + SPARE_MIB);
        let mut mm = MemoryManager::new(&topology, &memory, *features, settings, Pcg64Mcg::new(1));
        let mut machine = Machine::new(topology, Costs::FREE);
        let file = mm.parts.page_cache.open_file();
        if large_folios {
            mm.parts.page_cache.set_large_folios(file);
        }
        let mut open = |&advice: &Advice| {
            let open = mm.open(file, pages);
            mm.fadvise(open, advice);
            open
        };
        let descriptors: Vec<OpenFileId> = advice.iter().map(&mut open).collect();
        let process = mm.parts.create_mm(Memcg::ROOT);
        let mut start = 0;
        if let (Some(Mapping { advice, fault_around_bytes }), Some(&first), 1..) =
            (mapping, descriptors.first(), pages)
        {
            let mut kernel = mm.enter(&mut machine, CPU);
            start = kernel.mmap(process, pages.into(), Backing::File(file, 0), VmFlags::PRIVATE);
            kernel.madvise(process, start..start + u64::from(pages), advice);
            mm.parts.map_through(first, fault_around_bytes);
        }
        Host { mm, machine, descriptors, process, start }
    }

    /// Makes an access and adds the folios that it brings in to `brought`.
    fn access(&mut self, access: &Access, brought: &mut Vec<FileFolio>) -> Result<(), OutOfMemory> {
        let pages = access.index..access.index + access.pages;
        let Host { mm, machine, descriptors, process, start } = self;
        let mut kernel = mm.enter(machine, CPU);
        let write = match access.by {
            By::Read => {
                let descriptor = descriptors[access.descriptor as usize];
                return read_request(&mut kernel, (Memcg::ROOT, descriptor), pages, brought);
            }
            By::Load => false,
            By::Store => true,
        };
        for page in pages {
            let page = *start + u64::from(page);
            let touch = kernel.touch(*process, page, write)?;
            end_reads(&mut kernel, brought);
            if let Touch::Retry(_) = touch {
                kernel.retry_touch(*process, page, write)?;
                end_reads(&mut kernel, brought);
            }
        }
        Ok(())
    }
}

/// Reads pages through a descriptor for a task in a memcg, from a device that completes at once. Adds the
/// folios that are brought in, with those read ahead, to `brought` in order.
pub(crate) fn read_request(
    kernel: &mut Kernel,
    (memcg, open): (Memcg, OpenFileId),
    pages: Range<u32>,
    brought: &mut Vec<FileFolio>,
) -> Result<(), OutOfMemory> {
    let mut under_way = kernel.parts.page_cache.begin_read(memcg, open, pages.start, pages.end - pages.start);
    while kernel.read_next(&mut under_way)?.is_some() {
        end_reads(kernel, brought);
    }
    Ok(())
}

/// Completes the reads that have been submitted to the device, and adds their folios to `brought`.
fn end_reads(kernel: &mut Kernel, brought: &mut Vec<FileFolio>) {
    let mut submitted = Vec::new();
    while kernel.parts.page_cache.take_submitted_read(&mut submitted) {
        let folio = |&id| FileFolio {
            index: kernel.parts.page_of_folio(id).1,
            order: kernel.parts.lrus.folio_order(id),
        };
        brought.extend(submitted.iter().map(folio));
        submitted.drain(..).for_each(|id| kernel.parts.lrus.end_read(id));
    }
}
