//! Reads of one file by one task: the folios that each read brings in.
//!
//! ```text
//!   reads ─► a boot of the twin with memory for the whole file ─► for each read, the folios brought in, in order
//! ```
//!
//! `mmtwin verify readahead` compares the result with real kernels.

use std::ops::Range;

use machine::{Costs, Cpu, Machine, Topology};
use mm::Kernel;
use mm::allocator::request::OutOfMemory;
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::readahead::{Advice, OpenFileId};
use mm::{Features, MemoryManager, Settings};
use rand_pcg::Pcg64Mcg;

/// One read call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Number of the file descriptor.
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

/// A file to be read.
#[derive(Clone, Debug)]
pub struct ReadFile {
    /// Length in pages.
    pub pages: u32,
    /// Whether the file system uses large folios.
    pub large_folios: bool,
    /// `posix_fadvise` for each descriptor.
    pub advice: Vec<Advice>,
}

/// Memory besides that for the file, in MiB.
const SPARE_MIB: u64 = 64;

const CPU: Cpu = Cpu(0);

/// For each read of a file, the folios that it brings in; `None` if memory does not suffice.
pub fn replay(
    features: &Features,
    settings: Settings,
    read_file: &ReadFile,
    reads: &[Access],
) -> Option<Vec<Vec<FileFolio>>> {
    let ReadFile { pages, large_folios, ref advice } = *read_file;
    let topology = Topology::single();
    let memory = memory_layout(1, u64::from(pages) / 256 + SPARE_MIB);
    let mut mm = MemoryManager::new(&topology, &memory, *features, settings, Pcg64Mcg::new(1));
    let mut machine = Machine::new(topology, Costs::FREE);
    let file = mm.parts.page_cache.open_file();
    if large_folios {
        mm.parts.page_cache.set_large_folios(file);
    }
    let descriptors: Vec<OpenFileId> = advice
        .iter()
        .map(|&advice| {
            let open = mm.open(file, pages);
            mm.fadvise(open, advice);
            open
        })
        .collect();
    let bring_in = |read: &Access| {
        let mut came = Vec::new();
        let descriptor = descriptors[read.descriptor as usize];
        read_request(
            &mut mm.enter(&mut machine, CPU),
            (Memcg::ROOT, descriptor),
            read.index..read.index + read.pages,
            &mut came,
        )
        .ok()?;
        Some(came)
    };
    reads.iter().map(bring_in).collect()
}

/// Reads pages through a descriptor for a task in a memcg, from a device that completes at once. Adds the
/// folios that are brought in, with those read ahead, to `brought` in order.
pub(crate) fn read_request(
    kernel: &mut Kernel,
    (memcg, open): (Memcg, OpenFileId),
    pages: Range<u32>,
    brought: &mut Vec<FileFolio>,
) -> Result<(), OutOfMemory> {
    let mut submitted = Vec::new();
    let mut under_way = kernel.parts.page_cache.begin_read(memcg, open, pages.start, pages.end - pages.start);
    while kernel.read_next(&mut under_way)?.is_some() {
        while kernel.parts.page_cache.take_submitted_read(&mut submitted) {
            let folio = |&id| FileFolio {
                index: kernel.parts.page_of_folio(id).1,
                order: kernel.parts.lrus.folio_order(id),
            };
            brought.extend(submitted.iter().map(folio));
            submitted.drain(..).for_each(|id| kernel.parts.lrus.end_read(id));
        }
    }
    Ok(())
}
