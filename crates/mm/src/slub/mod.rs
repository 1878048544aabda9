//! SLUB: objects of the kernel in slabs, blocks of pages that the page allocator gives and takes back.
//!
//! ```text
//!   kmem_cache_alloc                              kmem_cache_free
//!     the CPU's slab        has one? ─ take         of the CPU's slab ─────► free there
//!     slabs that it keeps   has one? ─ take         of a slab that was full ► the CPU keeps the slab (cpu_partial)
//!     slabs of the node     has one? ─ take                                    has too many? ─► all to their nodes
//!     a new slab            from the page           of another slab ────────► free there; the last object of it, and the
//!                           allocator                                         node keeps enough? ─► to the page allocator
//! ```
//!
//! A CPU that frees as many objects as it allocates costs the page allocator nothing, whichever slabs they are of. What does is when the number of
//! processes rises and falls, or when they begin on one CPU and end on another. How many objects a slab has, and with that its order,
//! grows with the number of CPUs.
//!
//! [`policy`] says how large slabs are and how many are kept, [`cache`] moves objects, `page_blocks` takes slabs from the page allocator.
//! [`OF_PROCESS`] is what the kernel keeps of a process.
//! Processes that are there from the start have theirs in what the machine has in use. Not modelled: sheaves, which 6.18 has for
//! `vm_area_struct` and 7.0 for all caches in place of the slabs that CPUs keep; the lock of a node's list; charges to memory cgroups; RCU,
//! through which some objects are freed a little later; caches of files. In the kernel: mm/slub.c, kernel/fork.c.

pub mod cache;
mod page_blocks;
pub mod policy;

use crate::sysctl::Settings;
use cache::{KmemCache, Layout, SlabId};
use machine::{PageSize, Topology};

/// When the kernel allocates an object of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// When it is forked.
    Fork,
    /// Once it executes another program.
    Exec,
}

/// A kind of object that the kernel keeps of each process.
#[derive(Clone, Copy, Debug)]
pub struct OfProcess {
    /// The slab cache.
    pub name: &'static str,
    /// Bytes of an object, with what aligns it.
    pub size: u32,
    /// How many a process has.
    pub count: u32,
    pub since: Since,
}

const fn of_process(name: &'static str, size: u32, count: u32, since: Since) -> OfProcess {
    OfProcess { name, size, count, since }
}

/// What the kernel keeps of a process for as long as it lives. Sizes are those of /proc/slabinfo, counts are what 363 processes of a build in C
/// (sh, gcc, cc1, as, nm) had for longer than 2 ms each, by kmem_cache_alloc and kmem_cache_free of a kernel 6.18.44 for x86-64. `pid` has
/// credentials too, as caches of objects of one size are one cache.
pub const OF_PROCESS: [OfProcess; 10] = [
    of_process("task_struct", 5888, 1, Since::Fork),
    of_process("signal_cache", 1152, 1, Since::Fork),
    of_process("sighand_cache", 2112, 1, Since::Fork),
    of_process("files_cache", 704, 1, Since::Fork),
    of_process("pid", 192, 3, Since::Fork),
    of_process("mm_struct", 1600, 1, Since::Exec),
    of_process("vm_area_struct", 192, 47, Since::Exec),
    of_process("anon_vma", 104, 13, Since::Exec),
    of_process("anon_vma_chain", 64, 22, Since::Exec),
    of_process("filp", 192, 10, Since::Exec),
];

/// An object in a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its kind in [`OF_PROCESS`].
    cache: u8,
    slab: SlabId,
}

impl Object {
    fn kind(&self) -> &'static OfProcess {
        &OF_PROCESS[usize::from(self.cache)]
    }
}

/// The slab caches of [`OF_PROCESS`].
#[derive(Clone, Debug)]
pub struct Slabs {
    caches: Vec<KmemCache>,
}

impl Slabs {
    pub(crate) fn new(topology: &Topology, page_size: PageSize, settings: &Settings) -> Slabs {
        let cpus = topology.cpus();
        let min_objects = match settings.slab_min_objects {
            0 => policy::min_objects(cpus as u32),
            asked => asked,
        };
        let cache = |kind: &OfProcess| {
            let layout = Layout::new(kind.size, min_objects, settings.slab_max_order, page_size.bytes());
            KmemCache::new(layout, cpus, topology.nodes.into())
        };
        Slabs { caches: OF_PROCESS.iter().map(cache).collect() }
    }

    /// Base pages of all slabs (`nr_slab_unreclaimable`).
    pub fn pages(&self) -> u64 {
        self.caches.iter().map(KmemCache::pages).sum()
    }

    pub(crate) fn validate(&self) {
        self.caches.iter().for_each(KmemCache::validate);
    }
}
