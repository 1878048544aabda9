//! Address spaces: what a process has mapped, and the page tables that say where it is.
//!
//! ```text
//!   AddressSpace ─┬─ vmas       areas: what may be there (vma.rs), by address (maple_tree.rs)
//!                 └─ directory  page tables: what is there (page_table.rs)
//!                                   │ ▲
//!                                   ▼ │ rmap.rs: which entries map a folio
//!                                 folios
//!
//!   mmap, munmap, mprotect, madvise, fork, exit    here
//!   what an access does                            crate::address_space::memory
//! ```
//!
//! A mapping that gets to choose its address begins with a page table of its own, above all others, as large mappings
//! of the kernel do (`thp_get_unmapped_area`). Left out: `mremap`, growing stacks, and the limits of a process. In the
//! kernel: mm/mmap.c, mm/vma.c, mm/mprotect.c, mm/madvise.c, `copy_page_range` in mm/memory.c, `dup_mmap` in kernel/fork.c.

pub mod gup;
pub mod huge_memory;
mod maple_tree;
pub mod memory;
pub mod mlock;
mod mmap;
mod page_table;
mod policy;
mod rmap;
mod vma;

use crate::address_space::huge_memory::HugeZero;
use crate::address_space::huge_memory::khugepaged::KhugepagedState;
use crate::address_space::huge_memory::policy::Disabled;
use crate::address_space::huge_memory::stats::MthpStats;
use crate::allocator::page::Geometry;
use crate::allocator::page::Pfn;
use crate::lru::memcontrol::Memcg;
use crate::numa::scan::MmScan;
use std::ops::Range;

pub(crate) use maple_tree::Cursor;
pub use page_table::Pte;
pub(crate) use page_table::{Directory, PageTables, PteNumber, TableId};
pub(crate) use rmap::{FileMappings, Mappings};
pub(crate) use vma::VmaId;
pub use vma::{Backing, VmFlags, Vma, Vmas};

/// A virtual page number: an address divided by the size of a page.
pub type Vpn = u64;

/// An address space (`struct mm_struct`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MmId(pub(crate) u32);

impl MmId {
    const NONE: MmId = MmId(u32::MAX);

    /// Its place in arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one process has mapped.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// Whom its pages are charged to.
    pub memcg: Memcg,
    /// What is mapped where.
    pub vmas: Vmas,
    pub(crate) directory: Directory,
    /// What NUMA scanning knows of it.
    pub numa_scan: MmScan,
    /// Threads that run in it.
    pub(crate) threads: u32,
    /// Others that use it for a while ([`AddressSpaces::mmget`]).
    visitors: u32,
    /// What it said of large folios.
    pub(crate) thp_disabled: Disabled,
    /// khugepaged scans it (`MMF_VM_HUGEPAGE`).
    pub(crate) khugepaged: bool,
    /// It holds the huge page of zeroes (`MMF_HUGE_ZERO_FOLIO`).
    pub(crate) holds_huge_zero: bool,
    /// Nodes, a bit each, whose walks of the multi-gen LRU are yet to see what ran since the last (`lru_gen.bitmap`).
    pub(crate) ran: u64,
    /// Nodes that have walked it at least once.
    pub(crate) walked: u64,
    /// Entries that map an anonymous page (`MM_ANONPAGES`).
    pub(crate) anon_pages: u64,
    /// Entries that map a page of a file (`MM_FILEPAGES`).
    pub(crate) file_pages: u64,
    /// Pages of areas that are locked in memory.
    pub(crate) locked_vm: u64,
}

impl AddressSpace {
    /// Threads that run in it, and others that use it for a while (`mm_users`).
    pub(crate) fn users(&self) -> u32 {
        self.threads + self.visitors
    }

    /// Pages that it has in memory (`get_mm_rss`), of anonymous memory and of files.
    pub fn rss(&self) -> u64 {
        self.anon_pages + self.file_pages
    }

    /// Those that are anonymous (`MM_ANONPAGES`).
    pub fn anon_pages(&self) -> u64 {
        self.anon_pages
    }
}

/// Address spaces, their page tables, and what large anonymous folios need beyond.
#[derive(Clone, Debug)]
pub struct AddressSpaces {
    pub(crate) mms: Mms,
    pub(crate) page_tables: PageTables,
    /// Pages that are being unmapped and are yet to be freed (`struct mmu_gather`); none between calls.
    mmu_gather: Vec<Pfn>,
    khugepaged: KhugepagedState,
    huge_zero: HugeZero,
    /// Of each size of anonymous folios.
    mthp_stats: MthpStats,
    /// Which areas map each file (`i_mmap`).
    file_mappings: FileMappings,
    /// Pages of folios that are locked in memory.
    nr_mlock: u64,
}

impl AddressSpaces {
    /// No process yet.
    pub(crate) fn new(geometry: Geometry) -> AddressSpaces {
        AddressSpaces {
            mms: Mms::default(),
            page_tables: PageTables::new(geometry),
            mmu_gather: Vec::new(),
            khugepaged: KhugepagedState::default(),
            huge_zero: HugeZero::default(),
            mthp_stats: MthpStats::default(),
            file_mappings: FileMappings::default(),
            nr_mlock: 0,
        }
    }
}

/// All address spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mms {
    spaces: Vec<Option<AddressSpace>>,
    free: Vec<MmId>,
}

impl std::ops::Index<MmId> for Mms {
    type Output = AddressSpace;
    #[inline]
    fn index(&self, id: MmId) -> &AddressSpace {
        self.spaces[id.index()].as_ref().expect("the process lives")
    }
}

impl std::ops::IndexMut<MmId> for Mms {
    #[inline]
    fn index_mut(&mut self, id: MmId) -> &mut AddressSpace {
        self.spaces[id.index()].as_mut().expect("the process lives")
    }
}

impl Mms {
    fn add(&mut self, space: AddressSpace) -> MmId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.spaces.push(None);
            MmId(self.spaces.len() as u32 - 1)
        });
        self.spaces[id.index()] = Some(space);
        id
    }

    fn remove(&mut self, id: MmId) {
        self.spaces[id.index()] = None;
        self.free.push(id);
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MmId, &AddressSpace)> {
        let spaces = self.spaces.iter().enumerate();
        spaces.filter_map(|(id, space)| Some((MmId(id as u32), space.as_ref()?)))
    }
}

/// What a process says of a mapping (`madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// `MADV_NORMAL`.
    Normal,
    /// `MADV_RANDOM`: accesses say nothing of the future.
    Random,
    /// `MADV_SEQUENTIAL`: what was used will not be used again.
    Sequential,
    /// `MADV_HUGEPAGE`: large folios are wanted.
    HugePage,
    /// `MADV_NOHUGEPAGE`: they are not.
    NoHugePage,
}

impl AddressSpaces {
    /// Says whether an address space wants large folios at all (`PR_SET_THP_DISABLE`); children inherit it.
    pub fn set_thp_disable(&mut self, mm: MmId, disabled: Disabled) {
        self.mms[mm].thp_disabled = disabled;
    }

    /// Somebody uses an address space for a while who does not run in it: a reader of /proc/PID/maps or smaps, a debugger. A process
    /// of one thread does not count as one meanwhile, to what NUMA balancing does for such.
    pub fn mmget(&mut self, mm: MmId) {
        self.mms[mm].visitors += 1;
    }

    /// And does no more.
    pub fn mmput(&mut self, mm: MmId) {
        let visitors = &mut self.mms[mm].visitors;
        *visitors = visitors.checked_sub(1).expect("who leaves has come");
    }

    /// An address space.
    pub fn mm(&self, mm: MmId) -> &AddressSpace {
        &self.mms[mm]
    }

    /// Has a userfaultfd told of stores to pages that are protected later (`UFFDIO_REGISTER_MODE_WP`).
    pub fn userfaultfd_register(&mut self, mm: MmId, pages: Range<Vpn>) {
        self.mms[mm].vmas.change(pages, |vma| vma.flags = vma.flags.or(VmFlags::UFFD_WP));
    }

    /// Protects pages that are not there (`UFFDIO_WRITEPROTECT` with `UFFD_FEATURE_WP_UNPOPULATED`), where a userfaultfd has
    /// registered.
    pub fn userfaultfd_writeprotect(&mut self, mm: MmId, pages: Range<Vpn>) {
        self.mms[mm].vmas.change(pages, |vma| {
            if vma.flags.has(VmFlags::UFFD_WP) {
                vma.flags = vma.flags.or(VmFlags::UFFD_WP_ENTRIES);
            }
        });
    }

    /// The entry of a page, if its table exists.
    #[inline]
    pub(crate) fn entry(&self, mm: MmId, page: Vpn) -> Option<PteNumber> {
        self.mms[mm].directory.entry(page)
    }

    /// The page-table entry of a page, as it is.
    pub fn pte(&self, mm: MmId, page: Vpn) -> Pte {
        self.entry(mm, page).map_or(Pte::NONE, |entry| self.page_tables[entry])
    }
}
