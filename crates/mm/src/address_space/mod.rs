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
//!   what an access does                            crate::memory
//! ```
//!
//! A mapping that gets to choose its address begins with a page table of its own, above all others, as large mappings
//! of the kernel do (`thp_get_unmapped_area`). Left out: `mremap`, growing stacks, and the limits of a process. In the
//! kernel: mm/mmap.c, mm/vma.c, mm/mprotect.c, mm/madvise.c, `copy_page_range` in mm/memory.c, `dup_mmap` in kernel/fork.c.

mod maple_tree;
mod page_table;
mod rmap;
mod vma;

use crate::account::Category;
use crate::folio::FolioFlags;
use crate::huge_memory::policy::{Disabled, window};
use crate::kernel::Kernel;
use crate::memcontrol::Memcg;
use crate::memory::Unmapped;
use crate::numa::scan::MmScan;
use crate::page_alloc::MemoryManager;
use crate::swapfile::readahead::policy::SwapRa;
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
    /// Others that use it for a while ([`MemoryManager::mmget`]).
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

/// All address spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpaces {
    spaces: Vec<Option<AddressSpace>>,
    free: Vec<MmId>,
}

impl std::ops::Index<MmId> for AddressSpaces {
    type Output = AddressSpace;
    #[inline]
    fn index(&self, id: MmId) -> &AddressSpace {
        self.spaces[id.index()].as_ref().expect("the process lives")
    }
}

impl std::ops::IndexMut<MmId> for AddressSpaces {
    #[inline]
    fn index_mut(&mut self, id: MmId) -> &mut AddressSpace {
        self.spaces[id.index()].as_mut().expect("the process lives")
    }
}

impl AddressSpaces {
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

impl Kernel<'_> {
    /// Maps `pages` pages from `start` on, in place of what is there (`MAP_FIXED`).
    pub fn mmap_fixed(&mut self, mm: MmId, start: Vpn, pages: u64, backing: Backing, flags: VmFlags) {
        self.munmap(mm, start..start + pages);
        self.mm.map_area(mm, start, pages, backing, flags);
    }

    /// Unmaps what lies in `pages` (`munmap`); which pages were mapped.
    pub fn munmap(&mut self, mm: MmId, pages: Range<Vpn>) -> Unmapped {
        let space = &self.mm.mms[mm];
        if let Some(entry) = space.directory.entry(pages.start) {
            self.mm.page_tables.prefetch(entry);
        }
        let Some(first) = space.vmas.first_in(&pages) else { return Unmapped::default() };
        let zapped = self.zap_page_range(mm, &pages, first);
        let keeps_start = self.mm.features().numa.munmap_keeps_start;
        let AddressSpace { vmas, locked_vm, .. } = &mut self.mm.mms[mm];
        let behind = vmas.remove(first, &pages, keeps_start, |vma| {
            if let Backing::File(file, _) = vma.backing {
                self.mm.file_mappings.remove(file, mm, vma.pages());
            }
            if vma.flags.has(VmFlags::LOCKED) {
                *locked_vm -= vma.end - vma.start;
            }
        });
        self.mm.free_page_tables(mm, &pages, behind);
        zapped
    }

    /// Frees what lies in `pages` and leaves it mapped (`MADV_DONTNEED`); which pages were mapped.
    pub fn madvise_dontneed(&mut self, mm: MmId, pages: Range<Vpn>) -> Unmapped {
        let first = self.mm.mms[mm].vmas.first_in(&pages);
        first.map(|first| self.zap_page_range(mm, &pages, first)).unwrap_or_default()
    }

    /// A copy of an address space for a child process (`fork`). Pages are shared until somebody stores to them.
    pub fn fork_mm(&mut self, parent: MmId) -> MmId {
        let AddressSpace { memcg, vmas, thp_disabled, khugepaged, .. } = self.mm.mms[parent].clone();
        let child = self.mm.create_mm(memcg);
        if khugepaged {
            self.mm.khugepaged_enter(child);
        }
        self.mm.set_thp_disable(child, thp_disabled);
        for vma in vmas.iter() {
            if let Backing::File(file, first) = vma.backing {
                let pages = vma.end - vma.start;
                let mapping = rmap::FileMapping { mm: child, start: vma.start, first, pages };
                self.mm.file_mappings.add(file, mapping);
            }
            // Pages of files are found again by faults.
            if vma.has_anon {
                self.copy_page_range(parent, child, vma);
            }
        }
        self.mm.mms[child].vmas = vmas.for_child();
        self.mm.numa_fork(self.machine.now(self.cpu), parent, child);
        child
    }

    /// Copies the entries of an area; what may be stored to is protected in both.
    fn copy_page_range(&mut self, parent: MmId, child: MmId, vma: &Vma) {
        let mut copied = 0;
        let mut rest = vma.pages();
        while let Some((from, places)) = self.mm.next_table(parent, &mut rest) {
            let first = self.mm.page_tables[from].first;
            let is_huge = self.mm.page_tables[from].is_huge();
            let mut copies: Vec<(usize, Pte)> = Vec::new();
            for place in self.mm.page_tables[from].places(places) {
                let entry = &mut self.mm.page_tables[from.entry(place)];
                if *entry == Pte::NONE {
                    continue;
                }
                if vma.is_private() {
                    entry.clear(Pte::WRITE.with(Pte::EXCLUSIVE));
                }
                copies.push((place, *entry));
            }
            if copies.is_empty() {
                continue;
            }
            let to = match self.mm.mms[child].directory.table(first) {
                Some(to) => to,
                None => {
                    let to = self.mm.page_tables.create(child, first, is_huge);
                    self.mm.page_tables.join(from, to);
                    self.mm.mms[child].directory.set(first, Some(to));
                    to
                }
            };
            copied += copies.len() as u64;
            for (place, entry) in copies {
                self.mm.page_tables[to.entry(place)] = entry;
                if let Some(id) = entry.folio() {
                    self.mm.add_rmap(to.entry(place), id);
                } else if let Some(swap) = entry.swap_entry() {
                    self.mm.swap_duplicate(swap);
                }
            }
            if is_huge && self.mm.page_tables[to.entry(0)] == Pte::ZERO {
                self.mm.hold_huge_zero_folio(child);
            }
        }
        self.machine.charge(self.cpu, Category::PageTables, self.machine.costs.pte_write * copied);
    }

    /// Ends a process: unmaps all that it has; which pages were mapped.
    pub fn exit_mm(&mut self, mm: MmId) -> Unmapped {
        let zapped = self.munmap(mm, 0..Vpn::MAX);
        self.mm.khugepaged_exit(mm);
        self.mm.put_huge_zero_folio(mm);
        self.mm.mms.remove(mm);
        zapped
    }
}

impl MemoryManager {
    /// An address space with nothing in it, whose pages are charged to `memcg` (`mm_alloc`, `execve`).
    pub fn create_mm(&mut self, memcg: Memcg) -> MmId {
        let (vmas, directory) = (Vmas::default(), Directory::new(self.geometry()));
        let (numa_scan, thp_disabled) = (MmScan::default(), Disabled::No);
        self.mms.add(AddressSpace {
            memcg,
            vmas,
            directory,
            numa_scan,
            threads: 1,
            visitors: 0,
            thp_disabled,
            khugepaged: false,
            holds_huge_zero: false,
            ran: 0,
            walked: 0,
            anon_pages: 0,
            file_pages: 0,
            locked_vm: 0,
        })
    }

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

    /// Maps `pages` pages where there is room, and says where.
    pub fn mmap(&mut self, mm: MmId, pages: u64, backing: Backing, flags: VmFlags) -> Vpn {
        let span = self.geometry().ptrs_per_pte() as u64;
        let start = self.mms[mm].vmas.end().next_multiple_of(span).max(span);
        self.map_area(mm, start, pages, backing, flags);
        start
    }

    fn map_area(&mut self, mm: MmId, start: Vpn, pages: u64, backing: Backing, flags: VmFlags) {
        if let Backing::File(file, first) = backing {
            self.file_mappings.add(file, rmap::FileMapping { mm, start, first, pages });
        }
        self.mms[mm].vmas.insert(Vma {
            start,
            end: start + pages,
            backing,
            flags,
            has_anon: false,
            policy: None,
            swap_ra: SwapRa::default(),
        });
        self.khugepaged_enter_vma(mm, start);
    }

    /// Takes advice on what lies in `pages`.
    pub fn madvise(&mut self, mm: MmId, pages: Range<Vpn>, advice: Advice) {
        let reads = VmFlags::RAND_READ.or(VmFlags::SEQ_READ);
        let sizes = VmFlags::HUGEPAGE.or(VmFlags::NOHUGEPAGE);
        let (all, set) = match advice {
            Advice::Normal => (reads, VmFlags::default()),
            Advice::Random => (reads, VmFlags::RAND_READ),
            Advice::Sequential => (reads, VmFlags::SEQ_READ),
            Advice::HugePage => (sizes, VmFlags::HUGEPAGE),
            Advice::NoHugePage => (sizes, VmFlags::NOHUGEPAGE),
        };
        let start = pages.start;
        self.mms[mm].vmas.change(pages, |vma| vma.flags = vma.flags.without(all).or(set));
        if advice == Advice::HugePage {
            self.khugepaged_enter_vma(mm, start);
        }
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

    /// Gives what lies in `pages` other rights (`mprotect`): `rights` of [`VmFlags::READ`], `WRITE` and `EXEC`. Entries get those of
    /// their areas: none causes a hint fault any more, and stores are let through again where nobody else has the page
    /// (`change_pte_range`, `can_change_pte_writable`). Clean pages, as of swap, fault once more, as entries that may be written
    /// are dirty.
    pub fn mprotect(&mut self, mm: MmId, pages: Range<Vpn>, rights: VmFlags) {
        let all = VmFlags::READ.or(VmFlags::WRITE).or(VmFlags::EXEC);
        let change = |flags: VmFlags| flags.without(all).or(rights);
        let areas = self.mms[mm].vmas.from(pages.start).take_while(|vma| vma.start < pages.end);
        let changed = areas.filter(|vma| change(vma.flags) != vma.flags).map(|vma| {
            let part = vma.start.max(pages.start)..vma.end.min(pages.end);
            (part, vma.is_private() && rights.has(VmFlags::WRITE))
        });
        for (mut rest, lets_store) in changed.collect::<Vec<_>>() {
            while let Some((table, places)) = self.next_table(mm, &mut rest) {
                for entry in self.page_tables[table].entries_mut(places) {
                    entry.clear(Pte::PROT_NONE);
                    if !rights.has(VmFlags::WRITE) {
                        entry.clear(Pte::WRITE);
                    } else if lets_store
                        && entry.has(Pte::EXCLUSIVE)
                        && entry.folio().is_some_and(|id| self.folios.flags[id].has(FolioFlags::DIRTY))
                    {
                        entry.set(Pte::WRITE);
                    }
                }
            }
        }
        self.mms[mm].vmas.change(pages, |vma| vma.flags = change(vma.flags));
    }

    /// Whether accesses to an area say something about the future (`vma_has_recency`); before 6.3 all did.
    pub(crate) fn has_recency(&self, flags: VmFlags) -> bool {
        !flags.any(VmFlags::RAND_READ.or(VmFlags::SEQ_READ))
            || self.features().reclaim.generations.is_some_and(|f| f.all_regions_have_recency())
    }

    /// The first table for `pages`, with its entries among them; `pages` begin behind it then. A huge entry for pages beyond
    /// them becomes many.
    pub(crate) fn next_table(&mut self, mm: MmId, pages: &mut Range<Vpn>) -> Option<(TableId, Range<usize>)> {
        let (table, places) = self.mms[mm].directory.next_table(pages)?;
        if places.len() < self.geometry().ptrs_per_pte() {
            self.split_huge_pmd(table);
        }
        Some((table, places))
    }

    /// Frees the tables for `pages`, in which there is no area any more, as far as neither the area before them nor the one
    /// behind needs one (`free_pgtables`).
    fn free_page_tables(&mut self, mm: MmId, pages: &Range<Vpn>, behind: Cursor) {
        let (order, vmas) = (self.geometry().pmd_order, &self.mms[mm].vmas);
        let table_of = |page| window(page, order);
        let end = vmas.start(behind).map_or(pages.end, |start| pages.end.min(table_of(start).start));
        let mut rest = table_of(pages.start).start..end;
        if rest.is_empty() {
            return;
        }
        let before = vmas.end_before(behind).unwrap_or(0);
        rest.start = rest.start.max(if before == 0 { 0 } else { table_of(before - 1).end });
        while let Some((table, _)) = self.mms[mm].directory.next_table(&mut rest) {
            let first = self.page_tables[table].first;
            self.page_tables.delete(table);
            self.mms[mm].directory.set(first, None);
        }
    }

    /// The entry of a page, if its table exists.
    #[inline]
    pub(crate) fn entry(&self, mm: MmId, page: Vpn) -> Option<PteNumber> {
        self.mms[mm].directory.entry(page)
    }

    /// The entry of a page, in a table that is made if need be.
    pub(crate) fn make_entry(&mut self, mm: MmId, page: Vpn) -> PteNumber {
        if let Some(entry) = self.entry(mm, page) {
            if self.page_tables[entry] == Pte::NONE {
                // Where a huge entry was there may be small ones.
                self.split_huge_pmd(entry.table());
            }
            return entry;
        }
        let first = window(page, self.geometry().pmd_order).start;
        let table = self.page_tables.create(mm, first, false);
        self.mms[mm].directory.set(page, Some(table));
        self.mms[mm].directory.entry_of(table, page)
    }

    /// The page-table entry of a page, as it is.
    pub fn pte(&self, mm: MmId, page: Vpn) -> Pte {
        self.entry(mm, page).map_or(Pte::NONE, |entry| self.page_tables[entry])
    }
}
