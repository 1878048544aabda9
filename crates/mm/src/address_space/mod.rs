//! Address spaces: the VMAs of a process, and the page tables that map its memory.
//!
//! ```text
//!   AddressSpace ─┬─ vmas       VMAs (vma.rs), by address (maple_tree.rs)
//!                 └─ directory  page tables and PTEs (page_table.rs)
//!                                   │ ▲
//!                                   ▼ │ rmap.rs: which PTEs map a folio
//!                                 folios
//!
//!   mmap, munmap, mprotect, madvise, fork, exit    here
//!   page faults                                    crate::address_space::memory
//! ```
//!
//! A mapping without a fixed address starts at a page table of its own, above all others, as the kernel
//! aligns large mappings (`thp_get_unmapped_area`). Not modelled: `mremap`, growing stacks, resource limits.
//! In the kernel: mm/mmap.c, mm/vma.c, mm/mprotect.c, mm/madvise.c, `copy_page_range` in mm/memory.c,
//! `dup_mmap` in kernel/fork.c.

pub mod gup;
pub mod huge_memory;
mod maple_tree;
pub mod memory;
pub mod mlock;
pub(crate) mod mmap;
mod mmu_gather;
mod page_table;
mod policy;
mod rmap;
mod vma;

use crate::address_space::huge_memory::HugeZero;
use crate::address_space::huge_memory::khugepaged::KhugepagedState;
use crate::address_space::huge_memory::policy::Disabled;
use crate::address_space::huge_memory::stats::MthpStats;
use crate::address_space::mmu_gather::MmuGather;
use crate::allocator::page::Geometry;
use crate::lru::memcontrol::Memcg;
use crate::numa::scan::MmScan;
use std::ops::Range;

pub(crate) use maple_tree::Cursor;
pub use page_table::Pte;
pub(crate) use page_table::{Directory, PageTables, PteNumber, TableId};
pub(crate) use rmap::{FileMappings, Mappings};
pub(crate) use vma::VmaId;
pub use vma::{Backing, VmFlags, Vma, Vmas};

/// A virtual page number: an address divided by the page size.
pub type Vpn = u64;

/// Identifies an address space (`struct mm_struct`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MmId(pub(crate) u32);

impl MmId {
    const NONE: MmId = MmId(u32::MAX);

    /// Index into arrays by address space.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The address space of one process (`struct mm_struct`).
#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// The memory cgroup that its pages are charged to.
    pub memcg: Memcg,
    pub vmas: Vmas,
    pub(crate) directory: Directory,
    /// Its state of NUMA scanning.
    pub numa_scan: MmScan,
    /// Threads that run in it.
    pub(crate) threads: u32,
    /// Temporary users that do not run in it ([`AddressSpaces::mmget`]).
    visitors: u32,
    /// Whether `PR_SET_THP_DISABLE` rules large folios out.
    pub(crate) thp_disabled: Disabled,
    /// khugepaged scans it (`MMF_VM_HUGEPAGE`).
    pub(crate) khugepaged: bool,
    /// It holds a reference to the huge zero folio (`MMF_HUGE_ZERO_FOLIO`).
    pub(crate) holds_huge_zero: bool,
    /// Nodes, as bits, whose multi-gen LRU page-table walks have not yet seen what ran since their last walk
    /// (`lru_gen.bitmap`).
    pub(crate) ran: u64,
    /// Nodes, as bits, that have walked its page tables at least once.
    pub(crate) walked: u64,
    /// Pages mapped from anonymous folios (`MM_ANONPAGES`).
    pub(crate) anon_pages: u64,
    /// Pages mapped from files (`MM_FILEPAGES`).
    pub(crate) file_pages: u64,
    /// Pages of locked VMAs (`locked_vm`).
    pub(crate) locked_vm: u64,
    /// What its pages compress to, in bytes: each page to one of these, all equally often; empty for what the machine says
    /// ([`Compressor::bytes`](crate::zswap::Compressor::bytes)).
    pub(crate) compressed_bytes: Vec<u32>,
}

impl AddressSpace {
    /// Users of the address space: its threads and temporary users (`mm_users`).
    pub(crate) fn users(&self) -> u32 {
        self.threads + self.visitors
    }

    /// Pages in memory, anonymous and file (`get_mm_rss`).
    pub fn rss(&self) -> u64 {
        self.anon_pages + self.file_pages
    }

    /// Anonymous pages in memory (`MM_ANONPAGES`).
    pub fn anon_pages(&self) -> u64 {
        self.anon_pages
    }
}

/// All address spaces and their page tables, and the state of large anonymous folios.
#[derive(Clone, Debug)]
pub struct AddressSpaces {
    pub(crate) mms: Mms,
    pub(crate) page_tables: PageTables,
    mmu_gather: MmuGather,
    khugepaged: KhugepagedState,
    huge_zero: HugeZero,
    /// Per-size counters of large anonymous folios.
    mthp_stats: MthpStats,
    /// Which VMAs map each file (`i_mmap`).
    file_mappings: FileMappings,
    /// Pages of mlocked folios.
    nr_mlock: u64,
}

impl AddressSpaces {
    /// No address spaces yet.
    pub(crate) fn new(geometry: Geometry) -> AddressSpaces {
        AddressSpaces {
            mms: Mms::default(),
            page_tables: PageTables::new(geometry),
            mmu_gather: MmuGather::default(),
            khugepaged: KhugepagedState::default(),
            huge_zero: HugeZero::default(),
            mthp_stats: MthpStats::default(),
            file_mappings: FileMappings::default(),
            nr_mlock: 0,
        }
    }
}

/// The table of address spaces, by [`MmId`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Mms {
    spaces: Vec<Option<AddressSpace>>,
    free: Vec<MmId>,
}

impl std::ops::Index<MmId> for Mms {
    type Output = AddressSpace;
    #[inline]
    fn index(&self, id: MmId) -> &AddressSpace {
        self.spaces[id.index()].as_ref().expect("the address space exists")
    }
}

impl std::ops::IndexMut<MmId> for Mms {
    #[inline]
    fn index_mut(&mut self, id: MmId) -> &mut AddressSpace {
        self.spaces[id.index()].as_mut().expect("the address space exists")
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

    /// All address spaces, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MmId, &AddressSpace)> {
        let spaces = self.spaces.iter().enumerate();
        spaces.filter_map(|(id, space)| Some((MmId(id as u32), space.as_ref()?)))
    }
}

/// Advice on a range of addresses (`madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// `MADV_NORMAL`.
    Normal,
    /// `MADV_RANDOM`: an access does not predict further ones.
    Random,
    /// `MADV_SEQUENTIAL`: pages are used once.
    Sequential,
    /// `MADV_HUGEPAGE`: large folios are wanted.
    HugePage,
    /// `MADV_NOHUGEPAGE`: large folios are not wanted.
    NoHugePage,
}

impl AddressSpaces {
    /// Sets whether an address space may have large folios (`PR_SET_THP_DISABLE`). Children inherit it.
    pub fn set_thp_disable(&mut self, mm: MmId, disabled: Disabled) {
        self.mms[mm].thp_disabled = disabled;
    }

    /// Sets what the pages of an address space compress to, in bytes: each page to one of these, all equally often; none for what the
    /// machine says. Children inherit it.
    pub fn set_compressed_bytes(&mut self, mm: MmId, bytes: Vec<u32>) {
        self.mms[mm].compressed_bytes = bytes;
    }

    /// Adds a temporary user that does not run in the address space, such as a reader of /proc/PID/maps or a
    /// debugger. With one, NUMA balancing no longer treats a single-threaded process as such.
    pub fn mmget(&mut self, mm: MmId) {
        self.mms[mm].visitors += 1;
    }

    /// Removes a temporary user.
    pub fn mmput(&mut self, mm: MmId) {
        let visitors = &mut self.mms[mm].visitors;
        *visitors = visitors.checked_sub(1).expect("mmput without mmget");
    }

    pub fn mm(&self, mm: MmId) -> &AddressSpace {
        &self.mms[mm]
    }

    /// Registers a userfaultfd for write protection of `pages` (`UFFDIO_REGISTER_MODE_WP`).
    pub fn userfaultfd_register(&mut self, mm: MmId, pages: Range<Vpn>) {
        self.mms[mm].vmas.change(pages, |vma| vma.flags = vma.flags.or(VmFlags::UFFD_WP));
    }

    /// Write-protects unpopulated pages where a userfaultfd is registered (`UFFDIO_WRITEPROTECT` with
    /// `UFFD_FEATURE_WP_UNPOPULATED`).
    pub fn userfaultfd_writeprotect(&mut self, mm: MmId, pages: Range<Vpn>) {
        self.mms[mm].vmas.change(pages, |vma| {
            if vma.flags.has(VmFlags::UFFD_WP) {
                vma.flags = vma.flags.or(VmFlags::UFFD_WP_ENTRIES);
            }
        });
    }

    /// The PTE of a page, if its page table exists.
    #[inline]
    pub(crate) fn entry(&self, mm: MmId, page: Vpn) -> Option<PteNumber> {
        self.mms[mm].directory.entry(page)
    }

    /// The value of a page's PTE; [`Pte::NONE`] without a page table.
    pub fn pte(&self, mm: MmId, page: Vpn) -> Pte {
        self.entry(mm, page).map_or(Pte::NONE, |entry| self.page_tables[entry])
    }
}
