//! Changes to the VMAs of an address space: mmap, munmap, mprotect, madvise, fork and exit.
//!
//! ```text
//!   mmap ─► VMA ──fork──► the child's VMA: PTEs are copied, private pages shared until written
//!            │ munmap, exit
//!            └─► PTEs cleared, page tables freed
//! ```
//!
//! In the kernel: mm/mmap.c, mm/vma.c, mm/madvise.c, mm/mprotect.c, and `copy_page_range` in mm/memory.c.

use super::{
    AddressSpace, Advice, Backing, Cursor, Directory, MmId, Pte, PteNumber, TableId, VmFlags, Vma, Vmas, Vpn,
    policy, rmap,
};
use crate::account::Category;
use crate::address_space::huge_memory::policy::{Disabled, window};
use crate::address_space::memory::Unmapped;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, Folios};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::numa::scan::MmScan;
use crate::swapfile::readahead::policy::SwapRa;
use std::ops::Range;

impl Kernel<'_> {
    /// Maps `pages` pages at `start`, replacing what is mapped there (`MAP_FIXED`). Returns the pages that were mapped.
    pub fn mmap_fixed(
        &mut self,
        mm: MmId,
        start: Vpn,
        pages: u64,
        backing: Backing,
        flags: VmFlags,
    ) -> Unmapped {
        let unmapped = self.munmap(mm, start..start + pages);
        self.map_area(mm, start, pages, backing, flags);
        unmapped
    }

    /// Unmaps `pages` (`munmap`). Returns the pages that were mapped.
    pub fn munmap(&mut self, mm: MmId, pages: Range<Vpn>) -> Unmapped {
        let space = &self.parts.address_spaces.mms[mm];
        if let Some(entry) = space.directory.entry(pages.start) {
            self.parts.address_spaces.page_tables.prefetch(entry);
        }
        let Some(first) = space.vmas.first_in(&pages) else { return Unmapped::default() };
        // Batches refer to folios, which could not be freed (unmap_region, exit_mmap).
        self.lru_add_drain();
        let zapped = self.zap_page_range(mm, &pages, first);
        let stays = policy::cut_before_hole(&self.on.features.numa);
        let AddressSpace { vmas, locked_vm, .. } = &mut self.parts.address_spaces.mms[mm];
        let behind = vmas.remove(first, &pages, stays, |vma| {
            if let Backing::File(file, _) = vma.backing {
                self.parts.address_spaces.file_mappings.remove(file, mm, vma.pages());
            }
            if vma.flags.has(VmFlags::LOCKED) {
                *locked_vm -= vma.end - vma.start;
            }
        });
        self.parts.free_page_tables(mm, &pages, behind);
        zapped
    }

    /// Frees the memory of `pages` and keeps their VMAs (`MADV_DONTNEED`). Returns the pages that were
    /// mapped.
    pub fn madvise_dontneed(&mut self, mm: MmId, pages: Range<Vpn>) -> Unmapped {
        let Some(first) = self.parts.address_spaces.mms[mm].vmas.first_in(&pages) else {
            return Unmapped::default();
        };
        // Batches refer to folios, which could not be freed (zap_page_range_single).
        self.lru_add_drain();
        self.zap_page_range(mm, &pages, first)
    }

    /// Copies an address space for a child process (`fork`). Pages are shared until either process stores to
    /// them.
    pub fn fork_mm(&mut self, parent: MmId) -> MmId {
        let AddressSpace { memcg, vmas, thp_disabled, khugepaged, compressed_bytes, .. } =
            self.parts.address_spaces.mms[parent].clone();
        let child = self.parts.create_mm(memcg);
        self.parts.address_spaces.set_compressed_bytes(child, compressed_bytes);
        if khugepaged {
            self.parts.address_spaces.khugepaged_enter(child);
        }
        self.parts.address_spaces.set_thp_disable(child, thp_disabled);
        for vma in vmas.iter() {
            if let Backing::File(file, first) = vma.backing {
                let pages = vma.end - vma.start;
                let mapping = rmap::FileMapping { mm: child, start: vma.start, first, pages };
                self.parts.address_spaces.file_mappings.add(file, mapping);
            }
            // Page faults map file pages again, so their PTEs are not copied.
            if vma.has_anon {
                self.copy_page_range(parent, child, vma);
            }
        }
        self.parts.address_spaces.mms[child].vmas = vmas.for_child();
        self.numa_fork(self.on.machine.now(self.on.cpu), parent, child);
        child
    }

    /// Copies the PTEs of a VMA (`copy_page_range`). In a private mapping, both copies become read-only.
    fn copy_page_range(&mut self, parent: MmId, child: MmId, vma: &Vma) {
        let mut copied = 0;
        let mut rest = vma.pages();
        while let Some((from, places)) = self.parts.next_table(parent, &mut rest) {
            let first = self.parts.address_spaces.page_tables[from].first;
            let is_huge = self.parts.address_spaces.page_tables[from].is_huge();
            let mut copies: Vec<(usize, Pte)> = Vec::new();
            for place in self.parts.address_spaces.page_tables[from].places(places) {
                let entry = &mut self.parts.address_spaces.page_tables[from.entry(place)];
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
            let to = match self.parts.address_spaces.mms[child].directory.table(first) {
                Some(to) => to,
                None => {
                    let to = self.parts.address_spaces.page_tables.create(child, first, is_huge);
                    self.parts.address_spaces.page_tables.join(from, to);
                    self.parts.address_spaces.mms[child].directory.set(first, Some(to));
                    to
                }
            };
            copied += copies.len() as u64;
            for (place, entry) in copies {
                self.parts.address_spaces.page_tables[to.entry(place)] = entry;
                if let Some(id) = entry.folio() {
                    self.parts.add_rmap(to.entry(place), id);
                } else if let Some(swap) = entry.swap_entry() {
                    self.parts.swap.swap_duplicate(swap);
                }
            }
            if is_huge && self.parts.address_spaces.page_tables[to.entry(0)] == Pte::ZERO {
                self.parts.address_spaces.hold_huge_zero_folio(child);
            }
        }
        self.on.machine.charge(self.on.cpu, Category::PageTables, self.on.machine.costs.pte_write * copied);
    }

    /// Ends a process and unmaps all its memory (`exit_mmap`). Returns the pages that were mapped.
    pub fn exit_mm(&mut self, mm: MmId) -> Unmapped {
        let zapped = self.munmap(mm, 0..Vpn::MAX);
        self.parts.address_spaces.khugepaged_exit(mm);
        self.parts.address_spaces.put_huge_zero_folio(mm);
        self.parts.address_spaces.mms.remove(mm);
        zapped
    }

    /// Maps `pages` pages where there is room, and returns their start.
    pub fn mmap(&mut self, mm: MmId, pages: u64, backing: Backing, flags: VmFlags) -> Vpn {
        let span = self.parts.allocator.geometry().ptrs_per_pte() as u64;
        let start = self.parts.address_spaces.mms[mm].vmas.end().next_multiple_of(span).max(span);
        self.map_area(mm, start, pages, backing, flags);
        start
    }

    fn map_area(&mut self, mm: MmId, start: Vpn, pages: u64, backing: Backing, flags: VmFlags) {
        if let Backing::File(file, first) = backing {
            self.parts.address_spaces.file_mappings.add(file, rmap::FileMapping { mm, start, first, pages });
        }
        self.parts.address_spaces.mms[mm].vmas.insert(Vma {
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

    /// Applies advice to `pages` (`madvise`).
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
        self.parts.address_spaces.mms[mm]
            .vmas
            .change(pages, |vma| vma.flags = vma.flags.without(all).or(set));
        if advice == Advice::HugePage {
            self.khugepaged_enter_vma(mm, start);
        }
    }

    /// Whether accesses to a VMA with these flags count for its pages' age (`vma_has_recency`).
    #[inline]
    pub(crate) fn has_recency(&self, flags: VmFlags) -> bool {
        let hinted = flags.any(VmFlags::RAND_READ.or(VmFlags::SEQ_READ));
        policy::has_recency(&self.on.features.reclaim, hinted)
    }

    /// How the LRU treats a folio that a page fault adds to a VMA with these flags (`lru_gen_enter_fault`).
    #[inline]
    pub(crate) fn added_by_fault(&self, flags: VmFlags) -> AddedBy {
        if self.has_recency(flags) { AddedBy::Fault } else { AddedBy::Other }
    }
}

impl Parts {
    /// Creates an empty address space whose pages are charged to `memcg` (`mm_alloc`, `execve`).
    pub fn create_mm(&mut self, memcg: Memcg) -> MmId {
        let (vmas, directory) = (Vmas::default(), Directory::new(self.allocator.geometry()));
        let (numa_scan, thp_disabled) = (MmScan::default(), Disabled::No);
        self.address_spaces.mms.add(AddressSpace {
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
            compressed_bytes: Vec::new(),
        })
    }

    /// Changes the protection of `pages` (`mprotect`); `rights` are any of [`VmFlags::READ`], `WRITE` and
    /// `EXEC`. PTEs get the protection of their VMA: PROT_NONE for hint faults is cleared, and exclusive
    /// pages become writable again (`change_pte_range`, `can_change_pte_writable`). Clean pages, such as
    /// those from swap, fault once more, because a writable PTE counts as dirty.
    pub fn mprotect(&mut self, mm: MmId, pages: Range<Vpn>, rights: VmFlags) {
        let all = VmFlags::READ.or(VmFlags::WRITE).or(VmFlags::EXEC);
        let change = |flags: VmFlags| flags.without(all).or(rights);
        let areas =
            self.address_spaces.mms[mm].vmas.from(pages.start).take_while(|vma| vma.start < pages.end);
        let changed = areas.filter(|vma| change(vma.flags) != vma.flags).map(|vma| {
            let part = vma.start.max(pages.start)..vma.end.min(pages.end);
            (part, vma.is_private() && rights.has(VmFlags::WRITE))
        });
        for (mut rest, lets_store) in changed.collect::<Vec<_>>() {
            while let Some((table, places)) = self.next_table(mm, &mut rest) {
                for entry in self.address_spaces.page_tables[table].entries_mut(places) {
                    entry.clear(Pte::PROT_NONE);
                    if !rights.has(VmFlags::WRITE) {
                        entry.clear(Pte::WRITE);
                    } else if lets_store && can_change_pte_writable(*entry, &self.lrus.folios) {
                        entry.set(Pte::WRITE);
                    }
                }
            }
        }
        self.address_spaces.mms[mm].vmas.change(pages, |vma| vma.flags = change(vma.flags));
    }

    /// Returns the first page table in `pages` with the places of its entries there, and advances `pages`
    /// behind it. Splits a PMD mapping that extends beyond `pages`.
    pub(crate) fn next_table(&mut self, mm: MmId, pages: &mut Range<Vpn>) -> Option<(TableId, Range<usize>)> {
        let (table, places) = self.address_spaces.mms[mm].directory.next_table(pages)?;
        if places.len() < self.allocator.geometry().ptrs_per_pte() {
            self.split_huge_pmd(table);
        }
        Some((table, places))
    }

    /// Frees the page tables of `pages`, which no longer contain a VMA, unless the VMA before or behind needs
    /// them (`free_pgtables`).
    fn free_page_tables(&mut self, mm: MmId, pages: &Range<Vpn>, behind: Cursor) {
        let (order, vmas) = (self.allocator.geometry().pmd_order, &self.address_spaces.mms[mm].vmas);
        let table_of = |page| window(page, order);
        let end = vmas.start(behind).map_or(pages.end, |start| pages.end.min(table_of(start).start));
        let mut rest = table_of(pages.start).start..end;
        if rest.is_empty() {
            return;
        }
        let before = vmas.end_before(behind).unwrap_or(0);
        rest.start = rest.start.max(if before == 0 { 0 } else { table_of(before - 1).end });
        while let Some((table, _)) = self.address_spaces.mms[mm].directory.next_table(&mut rest) {
            let first = self.address_spaces.page_tables[table].first;
            self.address_spaces.page_tables.delete(table);
            self.address_spaces.mms[mm].directory.set(first, None);
        }
    }

    /// The PTE of a page; allocates its page table if there is none.
    pub(crate) fn make_entry(&mut self, mm: MmId, page: Vpn) -> PteNumber {
        if let Some(entry) = self.address_spaces.entry(mm, page) {
            if self.address_spaces.page_tables[entry] == Pte::NONE {
                // PTEs may replace an empty PMD mapping.
                self.split_huge_pmd(entry.table());
            }
            return entry;
        }
        let first = window(page, self.allocator.geometry().pmd_order).start;
        let table = self.address_spaces.page_tables.create(mm, first, false);
        self.address_spaces.mms[mm].directory.set(page, Some(table));
        self.address_spaces.mms[mm].directory.entry_of(table, page)
    }
}

/// Whether an entry in a private VMA that may be written can allow stores without a fault for each: its page is
/// exclusive, and not clean, because a writable entry counts as dirty.
pub(crate) fn can_change_pte_writable(entry: Pte, folios: &Folios) -> bool {
    entry.has(Pte::EXCLUSIVE) && entry.folio().is_some_and(|id| folios.flags[id].has(FolioFlags::DIRTY))
}
