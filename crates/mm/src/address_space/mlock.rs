//! Memory locking: `mlock` and `munlock`.
//!
//! ```text
//!   VMA           ┌────── VM_LOCKED ──────┐
//!   folios    ┌───┼───┐ ┌───────┐ ┌─┐ ┌─┐ ┌───────┐
//!             │ a │   │ │   b   │ │c│ │c│ │   d   │
//!             └───┼───┘ └───────┘ └─┘ └─┘ └───────┘
//!                 │  b, c   completely inside: PG_mlocked, on the unevictable list
//!                    a      crosses the end: stays on its LRU list, but its locked PTEs are not unmapped
//! ```
//!
//! mlock faults in the missing pages ([`crate::address_space::gup`]). Folios that later faults map inside a
//! locked VMA are mlocked at once; a folio that was missed, such as a large one from swap, is mlocked when
//! reclaim finds it (`folio_referenced`). A folio of which a part is munlocked or unmapped is munlocked,
//! unless another VMA locks it as a whole: the kernel counts those VMAs (`mlock_count`), the twin searches
//! for them. Large folios follow the rules of 6.7 and later; before, only single and huge pages were mlocked.
//! Not modelled: mlock batches (each folio takes its lru_lock by itself), `mlockall`, `MAP_LOCKED`,
//! `MLOCK_ONFAULT`, and limits. In the kernel: mm/mlock.c, `mlock_vma_folio` in mm/internal.h, mm/rmap.c.

use crate::account::Category;
use crate::address_space::AddressSpaces;
use crate::address_space::huge_memory::policy::window;
use crate::address_space::memory::Touch;
use crate::address_space::{MmId, PteNumber, VmFlags, Vpn};
use crate::allocator::request::OutOfMemory;
use crate::counters::{Counters, Event};
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{Census, FolioFlags, FolioId, ListEnd};
use std::ops::Range;

/// Redirects an mlocked folio that is about to be put on an LRU list to the unevictable list.
#[inline]
pub(crate) fn cull(flags: &mut FolioFlags, counters: &mut Counters) {
    if flags.has(FolioFlags::MLOCKED) && !flags.has(FolioFlags::UNEVICTABLE) {
        flags.clear(FolioFlags::ACTIVE);
        flags.set(FolioFlags::UNEVICTABLE);
        counters.add(Event::UnevictablePgsCulled, flags.nr_pages());
    }
}

impl Kernel<'_> {
    /// Locks `pages` in memory and faults in the missing ones (`mlock`). Returns the file folios that a
    /// device has to read. If memory runs out, the VMAs are locked nevertheless.
    pub fn mlock(&mut self, mm: MmId, pages: Range<Vpn>) -> Result<Vec<FolioId>, OutOfMemory> {
        self.parts.address_spaces.set_locked(mm, pages.clone(), VmFlags::LOCKED);
        let rights = VmFlags::READ.or(VmFlags::WRITE).or(VmFlags::EXEC);
        let areas =
            self.parts.address_spaces.mms[mm].vmas.from(pages.start).take_while(|vma| vma.start < pages.end);
        let areas: Vec<_> = areas
            .filter(|vma| vma.flags.any(rights))
            .map(|vma| vma.start.max(pages.start)..vma.end.min(pages.end))
            .collect();
        self.lru_add_drain();
        for id in self.folios_in(mm, pages) {
            if self.parts.is_in_locked_area(id, &self.parts.mappings_of(id)) {
                self.mlock_folio(id);
            }
        }
        let mut filled = Vec::new();
        for page in areas.into_iter().flatten() {
            if let Touch::ReadFile(id) = self.populate(mm, page)? {
                filled.push(id);
            }
        }
        Ok(filled)
    }

    /// Unlocks `pages` (`munlock`).
    pub fn munlock(&mut self, mm: MmId, pages: Range<Vpn>) {
        self.parts.address_spaces.set_locked(mm, pages.clone(), VmFlags::default());
        self.lru_add_drain();
        for id in self.folios_in(mm, pages) {
            self.munlock_folio(id);
        }
    }

    /// The folios mapped in `pages`, without consecutive duplicates (`walk_page_range`).
    fn folios_in(&mut self, mm: MmId, pages: Range<Vpn>) -> Vec<FolioId> {
        let (mut entries, mut found) = (0, Vec::new());
        for (table, places) in self.parts.address_spaces.mms[mm].directory.tables(pages) {
            for place in self.parts.address_spaces.page_tables[table].places(places) {
                entries += 1;
                found.extend(self.parts.address_spaces.page_tables[table.entry(place)].folio());
            }
        }
        self.on.machine.charge(
            self.on.cpu,
            Category::PageTables,
            self.on.machine.costs.paging().pte_scan * entries,
        );
        found.dedup();
        found
    }

    /// Sets `PG_mlocked` and moves the folio to the unevictable list, unless a folio batch or reclaim has
    /// isolated it (`mlock_folio`).
    pub(crate) fn mlock_folio(&mut self, id: FolioId) {
        self.set_mlocked(id);
        let flags = self.parts.lrus.folios.flags[id];
        if flags.has(FolioFlags::LRU) && !flags.has(FolioFlags::UNEVICTABLE) {
            self.move_to_other_list(id, cull);
        }
    }

    /// Clears `PG_mlocked` of a folio that lost a part to munlock or unmapping, unless another VMA locks it
    /// as a whole (`munlock_folio`).
    pub(crate) fn munlock_folio(&mut self, id: FolioId) {
        if !self.parts.lrus.is_mlocked(id) || self.parts.is_in_locked_area(id, &self.parts.mappings_of(id)) {
            return;
        }
        let flags = &mut self.parts.lrus.folios.flags[id];
        let pages = flags.nr_pages();
        flags.clear(FolioFlags::MLOCKED);
        self.parts.address_spaces.nr_mlock -= pages;
        self.on.counters.add(Event::UnevictablePgsMunlocked, pages);
        if !flags.has(FolioFlags::UNEVICTABLE) {
            return;
        }
        self.on.counters.add(Event::UnevictablePgsRescued, pages);
        if !flags.has(FolioFlags::LRU) {
            // The folio is in a folio batch or isolated.
            return flags.clear(FolioFlags::UNEVICTABLE);
        }
        self.move_to_other_list(id, |flags, _| flags.clear(FolioFlags::UNEVICTABLE));
    }

    /// Takes a folio off its LRU list, applies `change` to its flags, and puts it onto the list they then
    /// say.
    fn move_to_other_list(&mut self, id: FolioId, change: impl FnOnce(&mut FolioFlags, &mut Counters)) {
        let lru = self.parts.lrus.lru();
        let lruvec = self.parts.lrus.folios[id].lruvec;
        self.hold_lru_lock(lruvec, 1);
        let lruvec = &mut self.parts.lrus.lruvecs[lruvec];
        lruvec.remove(&mut self.parts.lrus.folios, id, true);
        change(&mut self.parts.lrus.folios.flags[id], self.on.counters);
        lruvec.add(&mut self.parts.lrus.folios, &lru, id, ListEnd::Head);
    }

    /// Sets `PG_mlocked`. The folio moves to the unevictable list when it is next put onto an LRU list.
    pub(crate) fn set_mlocked(&mut self, id: FolioId) {
        let flags = &mut self.parts.lrus.folios.flags[id];
        if !flags.has(FolioFlags::MLOCKED) {
            flags.set(FolioFlags::MLOCKED);
            self.parts.address_spaces.nr_mlock += flags.nr_pages();
            self.on.counters.add(Event::UnevictablePgsMlocked, flags.nr_pages());
        }
    }
}

impl AddressSpaces {
    /// Pages of mlocked folios (`nr_mlock`).
    pub fn nr_mlock(&self) -> u64 {
        self.nr_mlock
    }
}

impl Lrus {
    /// Whether a folio is mlocked (`PG_mlocked`).
    pub fn is_mlocked(&self, id: FolioId) -> bool {
        self.folios.flags[id].has(FolioFlags::MLOCKED)
    }
}

impl AddressSpaces {
    /// Sets or clears [`VmFlags::LOCKED`] of the VMAs in `pages`, as `lock` has it.
    fn set_locked(&mut self, mm: MmId, pages: Range<Vpn>, lock: VmFlags) {
        let space = &mut self.mms[mm];
        space.vmas.change(pages, |vma| vma.flags = vma.flags.without(VmFlags::LOCKED).or(lock));
        let locked = space.vmas.iter().filter(|vma| vma.flags.has(VmFlags::LOCKED));
        space.locked_vm = locked.map(|vma| vma.end - vma.start).sum();
    }

    /// Whether a PTE is in a locked VMA.
    pub(crate) fn is_locked_entry(&self, entry: PteNumber) -> bool {
        let table = &self.page_tables[entry.table()];
        let space = &self.mms[table.mm];
        let flags = || space.vmas.find(table.first + entry.place() as u64).map(|vma| vma.flags);
        space.locked_vm > 0 && flags().is_some_and(|flags| flags.has(VmFlags::LOCKED))
    }
}

impl Parts {
    /// Whether one locked VMA contains all of a folio, which `entries` map (`folio_within_vma`).
    pub(crate) fn is_in_locked_area(&self, id: FolioId, entries: &[PteNumber]) -> bool {
        let (order, pages) = (self.lrus.folios.flags[id].order(), self.lrus.folios.flags[id].nr_pages());
        if order == 0 {
            return entries.iter().any(|&entry| self.address_spaces.is_locked_entry(entry));
        }
        entries.chunk_by(|a, b| a.table() == b.table()).any(|entries| {
            let table = &self.address_spaces.page_tables[entries[0].table()];
            let window = window(table.first + entries[0].place() as u64, order);
            let area = || self.address_spaces.mms[table.mm].vmas.find(window.start);
            entries.len() as u64 * table.pages_of_entry() == pages
                && self.address_spaces.is_locked_entry(entries[0])
                && area().is_some_and(|vma| window.end <= vma.end)
        })
    }

    /// Checks the invariants of mlocked folios and locked VMAs, and panics with the one that is broken.
    pub(crate) fn validate_mlock(&self, census: &Census) {
        let mut locked = 0;
        for (id, _) in census.all(&self.lrus.folios) {
            let flags = self.lrus.folios.flags[id];
            assert!(
                flags.has(FolioFlags::MLOCKED) || !flags.has(FolioFlags::UNEVICTABLE),
                "{id:?}: {flags:?}"
            );
            if flags.has(FolioFlags::MLOCKED) {
                locked += flags.nr_pages();
                let entries = self.mappings_of(id);
                assert!(
                    entries.iter().any(|&entry| self.address_spaces.is_locked_entry(entry)),
                    "{id:?} is locked by an area"
                );
            }
        }
        assert_eq!(self.address_spaces.nr_mlock, locked, "nr_mlock and mlocked folios disagree");
        for (mm, space) in self.address_spaces.mms.iter() {
            let vmas = space.vmas.iter().filter(|vma| vma.flags.has(VmFlags::LOCKED));
            let pages: u64 = vmas.map(|vma| vma.end - vma.start).sum();
            assert_eq!(space.locked_vm, pages, "locked_vm and locked VMAs of {mm:?} disagree");
        }
    }
}
