//! Reads of one file by one task: which pages does each of them bring in?
//!
//! ```text
//!   reads ─► a boot of the twin with memory for all of the file ─► for each read, the folios that came in, in order
//! ```
//!
//! What `mmtwin verify readahead` compares with real kernels.

use machine::{Costs, Cpu, Machine, Topology};
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::readahead::{Advice, OpenFileId};
use mm::{Features, MemoryManager, Settings};
use rand_pcg::Pcg64Mcg;

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which descriptor.
    pub descriptor: u32,
    /// First page.
    pub index: u32,
    /// Pages, at least one.
    pub pages: u32,
}

/// Pages of a file that came into memory as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileFolio {
    /// The first one.
    pub index: u32,
    /// log2 of how many there are.
    pub order: u8,
}

impl FileFolio {
    /// Their numbers.
    pub fn pages(self) -> std::ops::Range<u32> {
        self.index..self.index + (1 << self.order)
    }
}

/// A file that is read.
#[derive(Clone, Debug)]
pub struct ReadFile {
    /// Its length.
    pub pages: u32,
    /// Its file system has large folios.
    pub large_folios: bool,
    /// What is said of each descriptor.
    pub advice: Vec<Advice>,
}

/// Spare memory, MiB.
const SPARE_MIB: u64 = 64;

const CPU: Cpu = Cpu(0);

/// For each read of a file, the folios that it brings in. None if memory does not suffice.
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
    let file = mm.open_file();
    if large_folios {
        mm.set_large_folios(file);
    }
    let descriptors: Vec<OpenFileId> = advice
        .iter()
        .map(|&advice| {
            let open = mm.open(file, pages);
            mm.fadvise(open, advice);
            open
        })
        .collect();
    let mut request = Vec::new();
    let bring_in = |read: &Access| {
        let mut came = Vec::new();
        let descriptor = descriptors[read.descriptor as usize];
        let mut under_way = mm.begin_read(Memcg::ROOT, descriptor, read.index, read.pages);
        while mm.read_next(&mut machine, CPU, &mut under_way).ok()?.is_some() {
            while mm.take_submitted_read(&mut request) {
                let folio = |&id| FileFolio { index: mm.page_of_folio(id).1, order: mm.folio_order(id) };
                came.extend(request.iter().map(folio));
                request.drain(..).for_each(|id| mm.end_read(id));
            }
        }
        Some(came)
    };
    reads.iter().map(bring_in).collect()
}
