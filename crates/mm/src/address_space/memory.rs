//! Page faults and unmapping: the cost and the effect of an access to mapped memory, and of zapping PTEs.
//!
//! ```text
//!   touch ─► entry present, and writable if it is a store?  ─ yes ─► young
//!               │ no
//!               ▼
//!            none               anonymous: a load maps the zero page, a store a new page
//!                               file: look its page up or read it; a store to a private mapping copies it
//!            swap entry         swap it in, unless it is still in the swap cache
//!            present            a store: exclusive ─► the page is reused;  otherwise ─► it is copied
//! ```
//!
//! Zapping goes through PTEs in order and gathers order-0 anonymous pages (`mmu_gather.rs`). They
//! are freed together, but before anything that takes time or frees something else, so that the result is
//! that of freeing each page at once.
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

/// The outcome of touching a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The page was mapped; no fault.
    Mapped,
    /// A minor fault: no device was needed.
    Minor,
    /// A major fault that reads from a file; [`Lrus::end_read`] ends the read.
    ReadFile(FolioId),
    /// A fault that started readahead and mapped nothing yet (`VM_FAULT_RETRY`): it has to be retried
    /// ([`Kernel::retry_touch`]) when this folio has been read. Only for files that are mapped through an open file
    /// ([`Parts::map_through`]).
    Retry(FolioId),
    /// A major fault that reads from swap, possibly more than this folio.
    /// [`Swap::take_submitted_swap_read`](crate::swapfile::Swap::take_submitted_swap_read) returns all of the
    /// read but pages of zeroes, which are there at once.
    ReadSwap(FolioId),
    /// A fault on a folio that is being read from swap already.
    AwaitSwap(FolioId),
}

/// Pages that were unmapped, by what unmapping each of them costs.
///
/// ```text
///   entries    a a a a b c c . c      a, c: large folios, b: a single page, .: nothing
///   first      x       x x     x      first page of a folio: mapcounts, LRU lists, freeing
///   further      x x x     x          further pages: one by one until 6.8, in a batch since 6.9
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmapped {
    /// Pages whose PTE maps another folio than the PTE before: every single page, and the first page of a
    /// large folio.
    pub first: u64,
    /// Further pages of a large folio, each removed from its mapcounts by itself (`page_remove_rmap`).
    pub one_by_one: u64,
    /// Further pages of a large folio, removed from its mapcounts in one batch (`folio_remove_rmap_ptes`).
    pub at_once: u64,
    /// Further pages of PMD-mapped folios: they have no PTE, but each is visited when the folio is freed.
    pub huge: u64,
}

impl Unmapped {
    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.first + self.one_by_one + self.at_once + self.huge
    }

    /// Cost of unmapping them, without freeing anything to a zone.
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

/// The state of zapping the PTEs of one page table.
struct Zap {
    /// Accesses to the VMA count for its pages' age (`vma_has_recency`).
    has_recency: bool,
    /// The VMA is locked.
    locked: bool,
    /// Pages that an entry maps.
    pages: u64,
    /// Anonymous pages unmapped so far.
    anon: u64,
    /// File pages unmapped so far.
    file: u64,
    unmapped: Unmapped,
    /// The folio that the previous entry mapped.
    before: Option<FolioId>,
    /// The large folio that is being unmapped, and how many of its pages have lost their last mapping.
    partial: Option<(FolioId, u32)>,
}

/// A page fault on a PTE (`struct vm_fault`).
pub(crate) struct Fault {
    pub memcg: Memcg,
    pub mm: MmId,
    pub page: Vpn,
    pub entry: PteNumber,
    pub write: bool,
    pub vma: VmaId,
    /// The VMA's flags.
    pub flags: VmFlags,
    /// How the LRU treats a folio that this fault adds.
    pub added_by: AddedBy,
    /// It is retried after a major fault (`FAULT_FLAG_TRIED`).
    pub tried: bool,
}

impl Fault {
    /// The address space, VMA and page of the fault.
    #[inline]
    pub fn place(&self) -> (MmId, VmaId, Vpn) {
        (self.mm, self.vma, self.page)
    }
}

impl Kernel<'_> {
    /// Loads from a page, or stores to it. The page must be in a VMA ([`crate::address_space::Vmas::find`])
    /// that allows the access.
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
        if write && !matches!(touch, Touch::Retry(_)) {
            // A fault keeps a table of PTEs, but may replace a PMD mapping by one.
            let kept =
                found.filter(|number| !self.parts.address_spaces.page_tables[number.table()].is_huge());
            if let Some(number) = kept.or_else(|| self.parts.address_spaces.entry(mm, page)) {
                self.parts.address_spaces.page_tables.note_store(number);
            }
        }
        Ok(touch)
    }

    /// Touches a page again after [`Touch::Retry`]. Both attempts are one page fault.
    pub fn retry_touch(&mut self, mm: MmId, page: Vpn, write: bool) -> Result<Touch, OutOfMemory> {
        let number = self.parts.make_entry(mm, page);
        let space = &self.parts.address_spaces.mms[mm];
        let vma = space.vmas.find_id(page).expect("the page is in a VMA");
        let (file_page, copies) = (space.vmas[vma].file_page(page), write && space.vmas[vma].is_private());
        let is_empty = self.parts.address_spaces.page_tables[number] == Pte::NONE;
        let Some(file_page) = file_page.filter(|_| is_empty) else {
            // Another thread has mapped it meanwhile.
            return self.touch(mm, page, write);
        };
        let fault = Fault { write, tried: true, ..self.load_fault_in(vma, mm, page, number) };
        let touch = self.do_fault(&fault, file_page, copies)?;
        if write {
            self.parts.address_spaces.page_tables.note_store(number);
        }
        Ok(touch)
    }

    /// Handles an access that the entry, if there is one, does not allow (`handle_mm_fault`). A fault that is to come again is counted
    /// when it does.
    pub(crate) fn handle_mm_fault(
        &mut self,
        access: (MmId, Vpn, Option<PteNumber>),
        write: bool,
    ) -> Result<Touch, OutOfMemory> {
        let touch = self.handle_fault(access, write);
        self.on.counters.add(Event::Pgfault, u64::from(!self.parts.allocator.needs_resched()));
        touch
    }

    /// Does what a fault needs (`__handle_mm_fault`).
    fn handle_fault(
        &mut self,
        (mm, page, entry): (MmId, Vpn, Option<PteNumber>),
        write: bool,
    ) -> Result<Touch, OutOfMemory> {
        let space = &self.parts.address_spaces.mms[mm];
        let vma = space.vmas.find_id(page).expect("the page is in a VMA");
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
            // A store that the entry still does not allow faults once more.
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

    /// A fault on an empty PTE, or a store to a mapping of the zero page.
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

    /// A fault on a page of a file (`do_fault`); `copies` for a store to a private mapping (`do_cow_fault`).
    fn do_fault(
        &mut self,
        fault: &Fault,
        (file, index): (FileId, u32),
        copies: bool,
    ) -> Result<Touch, OutOfMemory> {
        if !fault.write && self.do_fault_around(fault, (file, index)) {
            return Ok(Touch::Minor);
        }
        let (id, touch) = self.filemap_fault(fault, (file, index))?;
        if let Touch::Retry(_) = touch {
            return Ok(touch);
        }
        if copies {
            // Reclaim for the copy must not evict the page that is copied.
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
        self.set_file_pte(fault.entry, id, fault.flags);
        if fault.write {
            self.parts.address_spaces.page_tables[fault.entry].set(Pte::WRITE);
            self.mark_dirty(self.on.machine.now(self.on.cpu), id);
        }
        Ok(touch)
    }

    /// Maps a page of a file read-only in a VMA with `flags` (`set_pte_range`).
    pub(crate) fn set_file_pte(&mut self, entry: PteNumber, id: FolioId, flags: VmFlags) {
        self.parts.address_spaces.page_tables[entry] = Pte::of_folio(id).with(Pte::YOUNG);
        self.parts.add_rmap(entry, id);
        if flags.has(VmFlags::LOCKED) {
            self.mlock_folio(id);
        }
    }

    /// A store to a read-only mapped page of a shared file mapping (`wp_page_shared`): `page_mkwrite` tells
    /// the file system that the page is dirty.
    fn wp_page_shared(&mut self, fault: &Fault, id: FolioId) -> Touch {
        self.mark_dirty(self.on.machine.now(self.on.cpu), id);
        self.parts.address_spaces.page_tables[fault.entry].set(Pte::YOUNG.with(Pte::WRITE));
        self.parts.numa.forget_folio(id);
        Touch::Minor
    }

    /// A store to a read-only mapped page of a private mapping (`do_wp_page`): reuses the page, or copies it.
    pub(crate) fn do_wp_page(&mut self, fault: &Fault, id: FolioId) -> Result<Touch, OutOfMemory> {
        let anon = self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED);
        if anon && self.is_reused(fault, id) {
            self.parts.lrus.folios.flags[id].set(FolioFlags::DIRTY);
            // do_huge_pmd_wp_page does not.
            if !self.parts.address_spaces.page_tables[fault.entry.table()].is_huge() {
                self.parts.numa.forget_folio(id);
            }
            self.parts.address_spaces.page_tables[fault.entry]
                .set(Pte::YOUNG.with(Pte::WRITE).with(Pte::EXCLUSIVE));
            return Ok(Touch::Minor);
        }
        self.parts.split_huge_pmd(fault.entry.table());
        let copy = self.folio_prealloc(fault)?;
        self.on.machine.charge(self.on.cpu, Category::PageCopy, self.on.machine.costs.page_copy);
        // Reclaim for the copy may have unmapped the page or split its folio.
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

    /// Allocates an order-0 folio for a copy (`folio_prealloc`).
    fn folio_prealloc(&mut self, fault: &Fault) -> Result<FolioId, OutOfMemory> {
        let flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
        let id = self.vma_alloc_folio(fault.place(), flags, Effort::OF_FAULT);
        let id = id.map_err(|_| OutOfMemory)?;
        self.folio_add_lru_vma(id, fault.flags, fault.added_by);
        Ok(id)
    }

    /// Unmaps `pages`, whose first VMA is at `first`, and frees what nobody else uses (`zap_page_range`).
    /// Returns the pages that were mapped.
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

    /// Unmaps PTEs of one table that are in a VMA with these flags (`zap_pte_range`). Returns the pages that
    /// were mapped.
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
        // Folio records are prefetched early enough to be in the host's cache when they are used.
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
        if let Some((lruvec, folios)) = self.parts.address_spaces.mmu_gather.take_left() {
            self.hold_lru_lock(lruvec, folios);
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
            // What follows may take time or free other pages.
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

    /// Handles an anonymous folio that lost a mapping: frees it after its last one, or notes that part of it
    /// is unmapped.
    #[inline]
    fn zap_anon_page(&mut self, number: PteNumber, id: FolioId, zap: &mut Zap) {
        zap.anon += zap.pages;
        if let Some((other, lost)) = zap.partial.take_if(|(other, _)| *other != id) {
            self.note_partial_unmap(other, lost);
        }
        if self.parts.lrus.folios[id].mapcount == 0 {
            zap.partial = None;
            let was_on_list = self.parts.lrus.folios.flags[id].has(FolioFlags::LRU);
            let lruvec = self.parts.lrus.folios[id].lruvec;
            if self.parts.folio_free_swap(id)
                && let Some((pfn, order)) = self.parts.detach_folio(id)
            {
                if was_on_list
                    && let Some((lruvec, folios)) = self.parts.address_spaces.mmu_gather.leave_list(lruvec)
                {
                    self.hold_lru_lock(lruvec, folios);
                }
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

    /// Frees an anonymous folio that no page table maps, unless other users of its swap entry will find it in
    /// the swap cache.
    pub(crate) fn release_unmapped(&mut self, id: FolioId) {
        if self.parts.folio_free_swap(id) {
            self.release_folio(id);
        }
    }

    /// Drops a PTE's reference to a swap entry (`free_swap_and_cache`).
    fn swap_put(&mut self, swap: SwapEntry) {
        self.parts.swap.swap_map_dec(swap);
        if self.parts.swap.swap_users(swap) > 0 {
            return;
        }
        match self.parts.swap.swap_entry_state(swap) {
            // A process that still maps the folio, or another page of it, may need its swap entry.
            SwapIn::Cached(id) if self.parts.lrus.folios[id].mapcount > 0 => {}
            // While it is being read ahead, only reclaim frees it later.
            SwapIn::Cached(id)
                if self.parts.lrus.folios.flags[id].has(FolioFlags::LOCKED | FolioFlags::READAHEAD) => {}
            SwapIn::Cached(id) => self.release_unmapped(id),
            SwapIn::Read(_) => self.parts.swap_entry_free(swap),
        }
    }

    /// Frees a folio without users. If it is under writeback, [`Kernel::end_write`] frees it.
    pub(crate) fn release_folio(&mut self, id: FolioId) {
        if let Some((pfn, order)) = self.parts.detach_folio(id) {
            self.free(pfn, order);
        }
    }

    /// Frees the gathered pages, in the order in which they were unmapped (`tlb_flush_mmu_free`).
    fn free_gathered(&mut self) {
        let mut pages = self.parts.address_spaces.mmu_gather.take_pages();
        self.free_singles(&pages);
        pages.clear();
        self.parts.address_spaces.mmu_gather.put_room(pages);
        self.zswap_free_emptied();
    }

    /// A load fault on a PTE.
    pub(crate) fn load_fault(&self, mm: MmId, page: Vpn, entry: PteNumber) -> Fault {
        let vma = self.parts.address_spaces.mms[mm].vmas.find_id(page).expect("the page is in a VMA");
        self.load_fault_in(vma, mm, page, entry)
    }

    /// Like [`Kernel::load_fault`] in a VMA that is known already.
    #[inline]
    fn load_fault_in(&self, vma: VmaId, mm: MmId, page: Vpn, entry: PteNumber) -> Fault {
        let space = &self.parts.address_spaces.mms[mm];
        let flags = space.vmas[vma].flags;
        let added_by = self.added_by_fault(flags);
        Fault { memcg: space.memcg, mm, page, entry, write: false, vma, flags, added_by, tried: false }
    }

    /// Whether a store to a read-only mapped anonymous page reuses the page (`wp_can_reuse_anon_folio`).
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
        let is_reused = policy::is_reused(f, one_entry, exclusive, whole);
        // A batch of this CPU would be a user of the folio besides this process (wp_can_reuse_anon_folio).
        if is_reused && !exclusive && !flags.has(FolioFlags::LRU) {
            self.lru_add_drain();
        }
        is_reused
            && (self.parts.folio_free_swap(id)
                || self.parts.swap.swap_users(self.parts.swap_entry_of_page(id, fault.entry.place())) == 0)
    }
}

impl Parts {
    /// Whether a page is resident: mapped, in the swap cache, or in the page cache (`mincore`).
    pub fn is_resident(&self, mm: MmId, page: Vpn) -> bool {
        let entry = self.address_spaces.pte(mm, page);
        if let Some(swap) = entry.swap_entry() {
            return matches!(self.swap.swap_entry_state(swap), SwapIn::Cached(_));
        }
        let file_page = || self.address_spaces.mms[mm].vmas.find(page)?.file_page(page);
        entry != Pte::NONE
            || file_page().is_some_and(|(file, index)| self.page_cache.files.folio(file, index).is_some())
    }

    /// Detaches a folio without users from the LRU and the counters. Returns the block to be freed and its
    /// order; `None` while the folio is under writeback.
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
    /// Whether a PTE maps an order-0 anonymous folio.
    #[inline]
    fn is_anon_page(&self, entry: Pte) -> bool {
        let flags = entry.folio().map(|id| self.folios.flags[id]);
        flags.is_some_and(|flags| flags.has(FolioFlags::SWAPBACKED) && flags.order() == 0)
    }
}
