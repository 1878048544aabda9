//! The twin's kernels as replacement policies.
//!
//! ```text
//!   page ─► pread of one page of a file, by a task in a memcg with memory.max = capacity ─► in memory?
//! ```
//!
//! There is one CPU, no readahead, and devices complete at once. A page of the trace becomes a page of a
//! single file, in the order in which pages were first used.

use super::{Ruler, Sequence};
use machine::{Costs, Cpu, Machine, Topology};
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::prefetch::Foresight;
use mm::xarray::FileId;
use mm::{Category, MemoryManager, Settings};
use rand_pcg::Pcg64Mcg;
use sim::KernelChoice;

/// Memory of the machine in MiB beyond the memcg's limit: the size of the zones below the one that is used
/// first, so that its watermarks have no effect.
const SPARE_MIB: u64 = 4096;

/// A kernel and its page cache.
pub struct Kernel {
    mm: MemoryManager,
    machine: Machine<Category>,
    memcg: Memcg,
    file: FileId,
}

impl Kernel {
    /// A kernel with a memcg limited to `capacity` pages.
    pub fn new(choice: &KernelChoice, capacity: usize) -> Kernel {
        let mut settings = Settings::default();
        for (name, value) in choice.variant.settings {
            settings.set(name, value).expect("settings of variants are right");
        }
        let topology = Topology::single();
        let memory = memory_layout(1, capacity as u64 / 256 + SPARE_MIB);
        let noise = Pcg64Mcg::new(0);
        let mut mm = MemoryManager::new(&topology, &memory, choice.features, settings, noise);
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = capacity as u64;
        let file = mm.parts.page_cache.open_file();
        Kernel { mm, machine: Machine::new(topology, Costs::FREE), memcg, file }
    }
}

impl Kernel {
    /// Number of misses in a sequence.
    pub fn misses(mut self, sequence: &Sequence) -> u64 {
        let pages = sequence.pages();
        self.mm.parts.expect_pages(sequence.distinct(), self.mm.parts.lrus.memcg(self.memcg).max as usize);
        let mut foresight = Foresight::default();
        let mut misses = 0;
        for (block, reads) in pages.chunks(Foresight::BLOCK).enumerate() {
            let later = pages.get((block + Foresight::AHEAD) * Foresight::BLOCK..).unwrap_or_default();
            let later = &later[..later.len().min(Foresight::BLOCK)];
            self.mm.parts.foresee_reads(&mut foresight, self.file, later);
            for &page in reads {
                if !self.access(page) {
                    misses += 1;
                }
            }
        }
        misses
    }
}

impl Ruler for Kernel {
    #[inline]
    fn access(&mut self, page: u32) -> bool {
        match self.mm.enter(&mut self.machine, Cpu(0)).read_page(self.memcg, self.file, page, Access::New) {
            Ok(Read::Hit(_)) => true,
            Ok(Read::Miss(id)) => {
                self.mm.parts.lrus.end_read(id);
                false
            }
            // The limit is so small that no page can be reclaimed: the kernel would kill the task.
            Err(_) => false,
        }
    }
}
