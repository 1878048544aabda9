//! Page faults: what an access to mapped memory takes, and what unmapping gives back.
//!
//! ```text
//!   touch ─► entry present, and writable if it is a store?  ─ yes ─► young
//!               │ no
//!               ▼
//!            nothing there      anonymous: load maps the page of zeroes that all share, store a page of its own
//!                               of a file: find its page or read it; a store to a private mapping copies it
//!            swap entry         read it back, unless it is still in the swap cache
//!            present            a store: nobody else has the page ─► it becomes writable;  else ─► a copy
//! ```
//!
//! Unmapping goes through entries in order and gathers single anonymous pages, as `struct mmu_gather` does; they are freed
//! together, and before anything that takes time or frees something else, so that all is as if each had been freed at once.
//!
//! In the kernel: `handle_pte_fault`, `do_anonymous_page`, `do_swap_page`, `do_fault`, `do_wp_page`, `zap_pte_range` in
//! mm/memory.c; `filemap_fault` in mm/filemap.c.

use crate::account::Category;
use crate::address_space::huge_memory::policy::{self, RmapRemoval};
use crate::address_space::huge_memory::stats::MthpStat;
use crate::address_space::{Backing, Cursor, MmId, Pte, PteNumber, TableId, VmFlags, VmaId, Vpn};
use crate::allocator::page::Pfn;
use crate::allocator::request::Effort;
use crate::allocator::request::OutOfMemory;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::lru::policy::AddedBy;
use crate::page_cache::xarray::FileId;
use crate::swapfile::{SwapEntry, SwapIn};
use machine::Time;
use machine::costs::Costs;
use std::ops::{AddAssign, Range};

/// What touching a page took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It was mapped.
    Mapped,
    /// A page fault that needed no device.
    Minor,
    /// A page fault that read from a file; [`Lrus::end_read`] says when it is there.
    ReadFile(FolioId),
    /// A page fault that read from swap, and maybe more than this; [`Swap::take_submitted_swap_read`](crate::swapfile::Swap::take_submitted_swap_read) has all of it
    /// but for zeroes, which are there at once.
    ReadSwap(FolioId),
    /// A page fault on what is being read from swap already.
    AwaitSwap(FolioId),
}

/// Pages that were unmapped, by what each of them costs.
///
/// ```text
///   entries    a a a a b c c . c      a, c: large folios, b: a single page, .: nothing
///   first      x       x x     x      the kernel comes to a folio: its counts, its lists, giving it back
///   further      x x x     x          one by one until 6.8, with the first of them since 6.9
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmapped {
    /// Pages with another folio than the entry before them: every single page, and the first of a large folio.
    pub first: u64,
    /// Further pages of that folio, each taken off the folio's counts on its own (`page_remove_rmap`).
    pub one_by_one: u64,
    /// The same, all of them at once (`folio_remove_rmap_ptes`).
    pub at_once: u64,
    /// Further pages of huge entries: no entry is theirs, but each is looked at when the folio is freed.
    pub huge: u64,
}

impl Unmapped {
    /// How many pages.
    pub fn pages(&self) -> u64 {
        self.first + self.one_by_one + self.at_once + self.huge
    }

    /// What unmapping them takes, without returning anything to a zone.
    pub fn cost(&self, costs: &Costs) -> Time {
        let further = costs.unmap_further();
        costs.page_unmap * self.first
            + further.one_by_one * self.one_by_one
            + further.at_once * self.at_once
            + further.huge * self.huge
    }
}

impl AddAssign for Unmapped {
    fn add_assign(&mut self, other: Unmapped) {
        self.first += other.first;
        self.one_by_one += other.one_by_one;
        self.at_once += other.at_once;
        self.huge += other.huge;
    }
}

/// Unmapping of entries of one table, and what it has come to.
struct Zap {
    /// Accesses to the area say something about the future.
    has_recency: bool,
    /// Memory of the area stays where it is.
    locked: bool,
    /// Pages that an entry is for.
    pages: u64,
    /// Pages that were unmapped, of anonymous memory.
    anon: u64,
    /// The same, of files.
    file: u64,
    unmapped: Unmapped,
    /// The folio that the entry before mapped.
    before: Option<FolioId>,
    /// The large folio whose pages are being unmapped, and how many of them nobody maps any more.
    partial: Option<(FolioId, u32)>,
}

/// A page fault that a page table serves.
pub(crate) struct Fault {
    pub memcg: Memcg,
    pub mm: MmId,
    pub page: Vpn,
    pub entry: PteNumber,
    pub write: bool,
    /// The area.
    pub vma: VmaId,
    /// Its flags.
    pub flags: VmFlags,
    /// What the LRU makes of it.
    pub added_by: AddedBy,
}

impl Fault {
    /// Where it is: address space, area and page.
    #[inline]
    pub fn place(&self) -> (MmId, VmaId, Vpn) {
        (self.mm, self.vma, self.page)
    }
}

impl Kernel<'_> {
    /// Loads from a page of an address space, or stores to it. Something must be mapped there
    /// ([`crate::address_space::Vmas::find`]), and of a kind that may be used so.
    #[inline]
    pub fn touch(&mut self, mm: MmId, page: Vpn, write: bool) -> Result<Touch, OutOfMemory> {
        let space = &mut self.parts.address_spaces.mms[mm];
        space.ran = u64::MAX;
        let found = space.directory.entry(page);
        if let Some(number) = found {
            self.parts.address_spaces.page_tables[number.table()].young = true;
            let entry = &mut self.parts.address_spaces.page_tables[number];
            if entry.lets(write) {
                entry.set(Pte::YOUNG);
                if write && !entry.has(Pte::STORED) {
                    self.parts.address_spaces.page_tables.note_store(number);
                }
                return Ok(Touch::Mapped);
            }
            if *entry == Pte::ZERO && !write {
                return Ok(Touch::Mapped);
            }
        }
        let touch = self.handle_mm_fault((mm, page, found), write)?;
        if write {
            // A fault leaves a table of single pages where it is, and may replace another.
            let kept =
                found.filter(|number| !self.parts.address_spaces.page_tables[number.table()].is_huge());
            if let Some(number) = kept.or_else(|| self.parts.address_spaces.entry(mm, page)) {
                self.parts.address_spaces.page_tables.note_store(number);
            }
        }
        Ok(touch)
    }

    /// What an access to a page takes that its entry, if there is one, does not let through.
    pub(crate) fn handle_mm_fault(
        &mut self,
        (mm, page, entry): (MmId, Vpn, Option<PteNumber>),
        write: bool,
    ) -> Result<Touch, OutOfMemory> {
        self.on.counters.add(Event::Pgfault, 1);
        let space = &self.parts.address_spaces.mms[mm];
        let vma = space.vmas.find_id(page).expect("a page that is touched is mapped");
        let number = match entry {
            Some(number) if !self.parts.address_spaces.page_tables[number.table()].is_huge() => number,
            _ => {
                if space.vmas[vma].backing == Backing::Anonymous
                    && let Some(touch) = self.do_huge_pmd_anonymous_page((mm, vma, page), write)
                {
                    return Ok(touch);
                }
                self.parts.make_entry(mm, page)
            }
        };
        let fault = Fault { write, ..self.load_fault_in(vma, mm, page, number) };
        let entry = self.parts.address_spaces.page_tables[number];
        if entry.has(Pte::PROT_NONE) {
            self.do_numa_page(mm, page, number);
            // A store to what the entry does not let be stored to faults once more.
            return match self.parts.address_spaces.page_tables[number].lets(write) {
                true => Ok(Touch::Minor),
                false => self.handle_mm_fault((mm, page, self.parts.address_spaces.entry(mm, page)), write),
            };
        }
        if let Some(swap) = entry.swap_entry() {
            self.do_swap_page(&fault, swap)
        } else if let Some(id) = entry.folio() {
            match fault.flags.has(VmFlags::SHARED) {
                true => Ok(self.wp_page_shared(&fault, id)),
                false => self.do_wp_page(&fault, id),
            }
        } else {
            let vma = &self.parts.address_spaces.mms[mm].vmas[vma];
            match vma.file_page(page).filter(|_| entry == Pte::NONE) {
                Some((file, index)) => {
                    let copies = write && vma.is_private();
                    self.do_fault(&fault, (file, index), copies)
                }
                None => self.do_anonymous_page(&fault),
            }
        }
    }

    /// Nothing was stored there yet, or nothing but zeroes that were read.
    fn do_anonymous_page(&mut self, fault: &Fault) -> Result<Touch, OutOfMemory> {
        if !fault.write {
            self.parts.address_spaces.page_tables[fault.entry] = Pte::ZERO;
            return Ok(Touch::Minor);
        }
        let id = match self.parts.address_spaces.page_tables[fault.entry] {
            Pte::NONE => self.alloc_anon_folio(fault)?,
            _zeroes => {
                self.parts.split_huge_pmd(fault.entry.table());
                self.folio_prealloc(fault)?
            }
        };
        let flags = self.parts.lrus.folios.flags[id];
        self.on.machine.charge(
            self.on.cpu,
            Category::PageClear,
            self.on.machine.costs.clear(flags.nr_pages()),
        );
        self.parts.map_anon_folio(fault, id);
        self.parts.address_spaces.count_mthp_stat(flags.order(), MthpStat::AnonFaultAlloc, 1);
        Ok(Touch::Minor)
    }

    /// A page of a file; `copies` if it is a store to a private mapping.
    fn do_fault(
        &mut self,
        fault: &Fault,
        (file, index): (FileId, u32),
        copies: bool,
    ) -> Result<Touch, OutOfMemory> {
        let Fault { memcg, flags, added_by, .. } = *fault;
        let (id, touch) = self.filemap_fault(memcg, (file, index), flags, added_by)?;
        if copies {
            // Making room for the copy may take the page away that is copied.
            let held = self.parts.lrus.folios.flags[id].has(FolioFlags::HELD);
            self.parts.lrus.folios.flags[id].set(FolioFlags::HELD);
            let copy = self.folio_prealloc(fault);
            if !held {
                self.parts.lrus.folios.flags[id].clear(FolioFlags::HELD);
            }
            let copy = copy?;
            self.on.machine.charge(self.on.cpu, Category::PageCopy, self.on.machine.costs.page_copy);
            self.parts.map_anon_folio(fault, copy);
            return Ok(touch);
        }
        let mut entry = Pte::of_folio(id).with(Pte::YOUNG);
        if fault.write {
            entry.set(Pte::WRITE);
            self.mark_dirty(self.on.machine.now(self.on.cpu), id);
        }
        self.parts.address_spaces.page_tables[fault.entry] = entry;
        self.parts.add_rmap(fault.entry, id);
        if flags.has(VmFlags::LOCKED) {
            self.mlock_folio(id);
        }
        Ok(touch)
    }

    /// A store to a page of a file that is mapped for loads, in an area whose stores go to the file: `page_mkwrite` tells the file
    /// system that the page is dirty.
    fn wp_page_shared(&mut self, fault: &Fault, id: FolioId) -> Touch {
        self.mark_dirty(self.on.machine.now(self.on.cpu), id);
        self.parts.address_spaces.page_tables[fault.entry].set(Pte::YOUNG.with(Pte::WRITE));
        self.parts.numa.forget_folio(id);
        Touch::Minor
    }

    /// A store to a page that is mapped for loads, in an area of which nobody else is to see stores.
    pub(crate) fn do_wp_page(&mut self, fault: &Fault, id: FolioId) -> Result<Touch, OutOfMemory> {
        let anon = self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED);
        if anon && self.is_reused(fault, id) {
            self.parts.lrus.folios.flags[id].set(FolioFlags::DIRTY);
            self.parts.numa.forget_folio(id);
            self.parts.address_spaces.page_tables[fault.entry]
                .set(Pte::YOUNG.with(Pte::WRITE).with(Pte::EXCLUSIVE));
            return Ok(Touch::Minor);
        }
        self.parts.split_huge_pmd(fault.entry.table());
        let copy = self.folio_prealloc(fault)?;
        self.on.machine.charge(self.on.cpu, Category::PageCopy, self.on.machine.costs.page_copy);
        // Making room for the copy may have taken the page away, or split its folio.
        if let Some(id) = self.parts.address_spaces.page_tables[fault.entry].folio() {
            self.parts.address_spaces.page_tables[fault.entry] = Pte::NONE;
            self.parts.remove_rmap(fault.entry, id);
            if fault.flags.has(VmFlags::LOCKED) {
                self.munlock_folio(id);
            }
            if anon && self.parts.lrus.folios[id].mapcount == 0 {
                self.release_unmapped(id);
            } else if anon && self.parts.lrus.folios.flags[id].order() > 0 {
                self.note_partial_unmap(id, self.parts.pages_lost(fault.entry, id));
            }
        } else if let Some(swap) = self.parts.address_spaces.page_tables[fault.entry].swap_entry() {
            self.swap_put(swap);
        }
        self.parts.map_anon_folio(fault, copy);
        Ok(Touch::Minor)
    }

    /// A page of its own for a process, for a copy (`folio_prealloc`).
    fn folio_prealloc(&mut self, fault: &Fault) -> Result<FolioId, OutOfMemory> {
        let flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
        let id = self.vma_alloc_folio(fault.place(), flags, Effort::ORDINARY);
        let id = id.map_err(|_| OutOfMemory)?;
        self.folio_add_lru_vma(id, fault.flags, fault.added_by);
        Ok(id)
    }

    /// Unmaps what lies in `pages`, whose first area is at a place, and frees what nobody else has (`zap_page_range`); which
    /// pages were mapped.
    pub(crate) fn zap_page_range(&mut self, mm: MmId, pages: &Range<Vpn>, first: Cursor) -> Unmapped {
        let (mut mapped, mut at) = (Unmapped::default(), first);
        while self.parts.address_spaces.mms[mm].vmas.begins_before(at, pages.end)
            && let Some(vma) = self.parts.address_spaces.mms[mm].vmas.at(at)
        {
            let flags = vma.flags;
            let mut rest = vma.start.max(pages.start)..vma.end.min(pages.end);
            while let Some((table, places)) = self.parts.next_table(mm, &mut rest) {
                mapped += self.zap_pte_range(table, places, flags);
            }
            at = self.parts.address_spaces.mms[mm].vmas.after(at);
        }
        mapped
    }

    /// The same for some entries of a table that are in an area with these flags.
    pub(crate) fn zap_pte_range(&mut self, table: TableId, places: Range<usize>, flags: VmFlags) -> Unmapped {
        let mut zap = Zap {
            has_recency: self.has_recency(flags),
            locked: flags.has(VmFlags::LOCKED),
            pages: self.parts.address_spaces.page_tables[table].pages_of_entry(),
            anon: 0,
            file: 0,
            unmapped: Unmapped::default(),
            before: None,
            partial: None,
        };
        let places = self.parts.address_spaces.page_tables[table].places(places);
        // Folios are fetched so far ahead that memory has arrived.
        const AHEAD: usize = 4;
        for ahead in places.start..places.end + AHEAD {
            if ahead < places.end
                && let Some(id) = self.parts.address_spaces.page_tables[table.entry(ahead)].folio()
            {
                self.parts.lrus.folios.prefetch(id);
            }
            if ahead >= places.start + AHEAD {
                self.zap_entry(table.entry(ahead - AHEAD), &mut zap);
            }
        }
        if let Some((id, lost)) = zap.partial {
            self.note_partial_unmap(id, lost);
        }
        self.free_gathered();
        self.parts.address_spaces.sub_rss(table, zap.anon, zap.file);
        zap.unmapped
    }

    #[inline]
    fn zap_entry(&mut self, number: PteNumber, zap: &mut Zap) {
        let entry = std::mem::take(&mut self.parts.address_spaces.page_tables[number]);
        let last = std::mem::replace(&mut zap.before, entry.folio());
        if entry == Pte::NONE {
            return;
        }
        if zap.locked || !self.parts.lrus.is_anon_page(entry) {
            // What follows may take time, or free something else.
            self.free_gathered();
        }
        if let Some(swap) = entry.swap_entry() {
            self.swap_put(swap);
        }
        let Some(id) = entry.folio() else { return };
        match policy::rmap_removal(&self.on.features.folios, last == Some(id)) {
            RmapRemoval::First => zap.unmapped.first += 1,
            RmapRemoval::AtOnce => zap.unmapped.at_once += 1,
            RmapRemoval::OneByOne => zap.unmapped.one_by_one += 1,
        }
        zap.unmapped.huge += zap.pages - 1;
        self.parts.lose_mapping(number, id);
        if zap.locked {
            self.munlock_folio(id);
        }
        if self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED) {
            return self.zap_anon_page(number, id, zap);
        }
        zap.file += zap.pages;
        if entry.has(Pte::YOUNG) && zap.has_recency {
            self.folio_mark_accessed(id);
        }
    }

    /// An entry of an anonymous folio is gone: the folio is free now, or one that has lost a part.
    #[inline]
    fn zap_anon_page(&mut self, number: PteNumber, id: FolioId, zap: &mut Zap) {
        zap.anon += zap.pages;
        if let Some((other, lost)) = zap.partial.take_if(|(other, _)| *other != id) {
            self.note_partial_unmap(other, lost);
        }
        if self.parts.lrus.folios[id].mapcount == 0 {
            zap.partial = None;
            if self.parts.folio_free_swap(id)
                && let Some((pfn, order)) = self.parts.detach_folio(id)
            {
                match order {
                    0 => self.parts.address_spaces.mmu_gather.push(pfn),
                    _ => self.free(pfn, order),
                }
            }
        } else if self.parts.lrus.folios.flags[id].order() > 0 {
            let lost = zap.partial.map_or(0, |(_, lost)| lost);
            zap.partial = Some((id, lost + self.parts.pages_lost(number, id)));
        }
    }

    /// Frees an anonymous folio that no page table maps any more, unless others will find it in the swap cache.
    pub(crate) fn release_unmapped(&mut self, id: FolioId) {
        if self.parts.folio_free_swap(id) {
            self.release_folio(id);
        }
    }

    /// Gives up a page-table entry's claim to a page in swap.
    fn swap_put(&mut self, swap: SwapEntry) {
        self.parts.swap.swap_map_dec(swap);
        if self.parts.swap.swap_users(swap) > 0 {
            return;
        }
        match self.parts.swap.swap_entry_state(swap) {
            // Whoever maps it, or has another page of it, may still want to have it written there.
            SwapIn::Cached(id) if self.parts.lrus.folios[id].mapcount > 0 => {}
            // Being read ahead, it comes free when reclaim meets it.
            SwapIn::Cached(id)
                if self.parts.lrus.folios.flags[id].has(FolioFlags::LOCKED | FolioFlags::READAHEAD) => {}
            SwapIn::Cached(id) => self.release_unmapped(id),
            SwapIn::Read(_) => self.parts.swap_entry_free(swap),
        }
    }

    /// Frees a folio that nobody uses any more; while a device still writes it, [`Kernel::end_write`] does.
    pub(crate) fn release_folio(&mut self, id: FolioId) {
        if let Some((pfn, order)) = self.parts.detach_folio(id) {
            self.free(pfn, order);
        }
    }

    /// Frees the pages that unmapping has gathered so far, in its order (`tlb_flush_mmu_free`).
    fn free_gathered(&mut self) {
        let mut pages = std::mem::take(&mut self.parts.address_spaces.mmu_gather);
        self.free_singles(&pages);
        pages.clear();
        self.parts.address_spaces.mmu_gather = pages;
    }

    /// A load that an entry does not let through.
    pub(crate) fn load_fault(&self, mm: MmId, page: Vpn, entry: PteNumber) -> Fault {
        let vma =
            self.parts.address_spaces.mms[mm].vmas.find_id(page).expect("a page that is touched is mapped");
        self.load_fault_in(vma, mm, page, entry)
    }

    /// The same in an area that has been found.
    #[inline]
    fn load_fault_in(&self, vma: VmaId, mm: MmId, page: Vpn, entry: PteNumber) -> Fault {
        let space = &self.parts.address_spaces.mms[mm];
        let flags = space.vmas[vma].flags;
        let added_by = self.added_by_fault(flags);
        Fault { memcg: space.memcg, mm, page, entry, write: false, vma, flags, added_by }
    }

    /// Whether a store to a page that is mapped for loads happens in place (`wp_can_reuse_anon_folio`).
    fn is_reused(&mut self, fault: &Fault, id: FolioId) -> bool {
        let (f, flags) = (&self.on.features.folios, self.parts.lrus.folios.flags[id]);
        let order = flags.order();
        let exclusive = self.parts.address_spaces.page_tables[fault.entry].has(Pte::EXCLUSIVE);
        let whole = match order {
            0 => self.parts.lrus.folios[id].mapcount == 1,
            _ if flags.has(FolioFlags::SWAPCACHE) => false,
            _ => self.parts.mappings_of(id).iter().all(|entry| entry.table() == fault.entry.table()),
        };
        let one_entry = order == 0 || self.parts.address_spaces.page_tables[fault.entry.table()].is_huge();
        policy::is_reused(f, one_entry, exclusive, whole)
            && (self.parts.folio_free_swap(id)
                || self.parts.swap.swap_users(self.parts.swap_entry_of_page(id, fault.entry.place())) == 0)
    }
}

impl Parts {
    /// Whether a page is in memory: mapped, or in the page cache (`mincore`).
    pub fn is_resident(&self, mm: MmId, page: Vpn) -> bool {
        let entry = self.address_spaces.pte(mm, page);
        if let Some(swap) = entry.swap_entry() {
            return matches!(self.swap.swap_entry_state(swap), SwapIn::Cached(_));
        }
        let file_page = || self.address_spaces.mms[mm].vmas.find(page)?.file_page(page);
        entry != Pte::NONE
            || file_page().is_some_and(|(file, index)| self.page_cache.files.folio(file, index).is_some())
    }

    /// What [`Kernel::release_folio`] does, but for the allocator: the block that is to be freed, and its order.
    #[inline]
    fn detach_folio(&mut self, id: FolioId) -> Option<(Pfn, u8)> {
        let written = self.lrus.folios.flags[id].has(FolioFlags::WRITEBACK);
        (!written).then(|| {
            self.lrus.folio_leave_lru(id);
            self.forget_folio(id)
        })
    }
}

impl Lrus {
    /// Whether an entry maps an anonymous page that is a folio of its own.
    #[inline]
    fn is_anon_page(&self, entry: Pte) -> bool {
        let flags = entry.folio().map(|id| self.folios.flags[id]);
        flags.is_some_and(|flags| flags.has(FolioFlags::SWAPBACKED) && flags.order() == 0)
    }
}
