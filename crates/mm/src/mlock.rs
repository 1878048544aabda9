//! Memory that stays: `mlock`.
//!
//! ```text
//!   area          ┌────── VM_LOCKED ──────┐
//!   folios    ┌───┼───┐ ┌───────┐ ┌─┐ ┌─┐ ┌───────┐
//!             │ a │   │ │   b   │ │c│ │c│ │   d   │
//!             └───┼───┘ └───────┘ └─┘ └─┘ └───────┘
//!                 │  b, c   lie wholly inside: PG_mlocked, on the unevictable list
//!                    a      does not: stays where reclaim looks; what is locked of it is not unmapped
//! ```
//!
//! Locking brings in what is not there ([`crate::gup`]). What faults bring in later lies inside and is locked at once; what
//! was missed, such as a large folio that comes back from swap, is locked when reclaim meets it (`folio_referenced`). A folio
//! of which a part is unlocked or unmapped is unlocked, unless another area has all of it: the kernel counts the areas
//! (`mlock_count`), the twin looks for them. Rules for large folios are those since 6.7; before, single and huge pages alone
//! were locked. Left out: the kernel's batches (each folio takes the lock of its lists by itself), `mlockall`, `MAP_LOCKED`,
//! `MLOCK_ONFAULT` and limits. In the kernel: mm/mlock.c, `mlock_vma_folio` in mm/internal.h, mm/rmap.c.

use crate::account::Category;
use crate::address_space::{MmId, PteNumber, VmFlags, Vpn};
use crate::counters::{Counters, Event};
use crate::folio::{Census, FolioFlags, FolioId};
use crate::huge_memory::policy::window;
use crate::kernel::Kernel;
use crate::memory::Touch;
use crate::page_alloc::MemoryManager;
use crate::vmscan::OutOfMemory;
use std::ops::Range;

/// Has a folio that is put onto a list go to that of those that cannot be evicted, if it is locked.
#[inline]
pub(crate) fn cull(flags: &mut FolioFlags, counters: &mut Counters) {
    if flags.has(FolioFlags::MLOCKED) && !flags.has(FolioFlags::UNEVICTABLE) {
        flags.clear(FolioFlags::ACTIVE);
        flags.set(FolioFlags::UNEVICTABLE);
        counters.add(Event::UnevictablePgsCulled, flags.nr_pages());
    }
}

impl Kernel<'_> {
    /// Locks what lies in `pages` in memory and brings in what is not there (`mlock`). The folios of files that
    /// a device has to fill; without memory for all, the areas are locked nevertheless.
    pub fn mlock(&mut self, mm: MmId, pages: Range<Vpn>) -> Result<Vec<FolioId>, OutOfMemory> {
        self.mm.set_locked(mm, pages.clone(), true);
        let rights = VmFlags::READ.or(VmFlags::WRITE).or(VmFlags::EXEC);
        let areas = self.mm.mms[mm].vmas.from(pages.start).take_while(|vma| vma.start < pages.end);
        let areas: Vec<_> = areas
            .filter(|vma| vma.flags.any(rights))
            .map(|vma| vma.start.max(pages.start)..vma.end.min(pages.end))
            .collect();
        self.lru_add_drain();
        for id in self.folios_in(mm, pages) {
            if self.mm.is_in_locked_area(id, &self.mm.mappings_of(id)) {
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

    /// Lets what lies in `pages` be evicted again (`munlock`).
    pub fn munlock(&mut self, mm: MmId, pages: Range<Vpn>) {
        self.mm.set_locked(mm, pages.clone(), false);
        self.lru_add_drain();
        for id in self.folios_in(mm, pages) {
            self.munlock_folio(id);
        }
    }

    /// The folios that are mapped in `pages`, each once in a row (`walk_page_range`).
    fn folios_in(&mut self, mm: MmId, pages: Range<Vpn>) -> Vec<FolioId> {
        let (mut entries, mut found) = (0, Vec::new());
        for (table, places) in self.mm.mms[mm].directory.tables(pages) {
            for place in self.mm.page_tables[table].places(places) {
                entries += 1;
                found.extend(self.mm.page_tables[table.entry(place)].folio());
            }
        }
        self.machine.charge(self.cpu, Category::PageTables, self.machine.costs.paging().pte_scan * entries);
        found.dedup();
        found
    }

    /// Locks a folio, and takes it off the lists that reclaim looks at, unless a batch or reclaim has it.
    pub(crate) fn mlock_folio(&mut self, id: FolioId) {
        self.mm.set_mlocked(id);
        let flags = self.mm.folios.flags[id];
        if flags.has(FolioFlags::LRU) && !flags.has(FolioFlags::UNEVICTABLE) {
            self.move_to_other_list(id, cull);
        }
    }

    /// A locked area has a part of a folio less: it can be evicted, unless another one has all of it.
    pub(crate) fn munlock_folio(&mut self, id: FolioId) {
        if !self.mm.is_mlocked(id) || self.mm.is_in_locked_area(id, &self.mm.mappings_of(id)) {
            return;
        }
        let flags = &mut self.mm.folios.flags[id];
        let pages = flags.nr_pages();
        flags.clear(FolioFlags::MLOCKED);
        self.mm.nr_mlock -= pages;
        self.mm.counters.add(Event::UnevictablePgsMunlocked, pages);
        if !flags.has(FolioFlags::UNEVICTABLE) {
            return;
        }
        self.mm.counters.add(Event::UnevictablePgsRescued, pages);
        if !flags.has(FolioFlags::LRU) {
            // It is on its way to a list.
            return flags.clear(FolioFlags::UNEVICTABLE);
        }
        self.move_to_other_list(id, |flags, _| flags.clear(FolioFlags::UNEVICTABLE));
    }

    /// Takes a folio off its list, and puts it onto the one that its flags say once `change` has changed them.
    fn move_to_other_list(&mut self, id: FolioId, change: impl FnOnce(&mut FolioFlags, &mut Counters)) {
        let f = self.mm.generations();
        let lruvec = self.mm.folios[id].lruvec;
        self.hold_lru_lock(lruvec, 1);
        let lruvec = &mut self.mm.lruvecs[lruvec];
        lruvec.remove(&mut self.mm.folios, id, true);
        change(&mut self.mm.folios.flags[id], &mut self.mm.counters);
        lruvec.add(&mut self.mm.folios, f.as_ref(), id, false);
    }
}

impl MemoryManager {
    /// Pages of folios that are locked in memory (`nr_mlock`).
    pub fn nr_mlock(&self) -> u64 {
        self.nr_mlock
    }

    /// Whether a folio is locked in memory (`PG_mlocked`).
    pub fn is_mlocked(&self, id: FolioId) -> bool {
        self.folios.flags[id].has(FolioFlags::MLOCKED)
    }

    fn set_locked(&mut self, mm: MmId, pages: Range<Vpn>, locked: bool) {
        let space = &mut self.mms[mm];
        space.vmas.change(pages, |vma| {
            let flags = vma.flags.without(VmFlags::LOCKED);
            vma.flags = if locked { flags.or(VmFlags::LOCKED) } else { flags };
        });
        let locked = space.vmas.iter().filter(|vma| vma.flags.has(VmFlags::LOCKED));
        space.locked_vm = locked.map(|vma| vma.end - vma.start).sum();
    }

    /// Whether an entry is in a locked area.
    pub(crate) fn is_locked_entry(&self, entry: PteNumber) -> bool {
        let table = &self.page_tables[entry.table()];
        let space = &self.mms[table.mm];
        let flags = || space.vmas.find(table.first + entry.place() as u64).map(|vma| vma.flags);
        space.locked_vm > 0 && flags().is_some_and(|flags| flags.has(VmFlags::LOCKED))
    }

    /// Whether a locked area has all of a folio that `entries` map (`folio_within_vma`).
    pub(crate) fn is_in_locked_area(&self, id: FolioId, entries: &[PteNumber]) -> bool {
        let (order, pages) = (self.folios.flags[id].order(), self.folios.flags[id].nr_pages());
        if order == 0 {
            return entries.iter().any(|&entry| self.is_locked_entry(entry));
        }
        entries.chunk_by(|a, b| a.table() == b.table()).any(|entries| {
            let table = &self.page_tables[entries[0].table()];
            let window = window(table.first + entries[0].place() as u64, order);
            let area = || self.mms[table.mm].vmas.find(window.start);
            entries.len() as u64 * table.pages_of_entry() == pages
                && self.is_locked_entry(entries[0])
                && area().is_some_and(|vma| window.end <= vma.end)
        })
    }

    /// Notes that a folio is locked; it leaves the lists that reclaim looks at when it is put onto one.
    pub(crate) fn set_mlocked(&mut self, id: FolioId) {
        let flags = &mut self.folios.flags[id];
        if !flags.has(FolioFlags::MLOCKED) {
            flags.set(FolioFlags::MLOCKED);
            self.nr_mlock += flags.nr_pages();
            self.counters.add(Event::UnevictablePgsMlocked, flags.nr_pages());
        }
    }

    /// Checks what is locked; panics with what does not hold.
    pub(crate) fn validate_mlock(&self, census: &Census) {
        let mut locked = 0;
        for (id, _) in census.all(&self.folios) {
            let flags = self.folios.flags[id];
            assert!(
                flags.has(FolioFlags::MLOCKED) || !flags.has(FolioFlags::UNEVICTABLE),
                "{id:?}: {flags:?}"
            );
            if flags.has(FolioFlags::MLOCKED) {
                locked += flags.nr_pages();
                let entries = self.mappings_of(id);
                assert!(
                    entries.iter().any(|&entry| self.is_locked_entry(entry)),
                    "{id:?} is locked by an area"
                );
            }
        }
        assert_eq!(self.nr_mlock, locked, "pages that are locked");
        for (mm, space) in self.mms.iter() {
            let vmas = space.vmas.iter().filter(|vma| vma.flags.has(VmFlags::LOCKED));
            let pages: u64 = vmas.map(|vma| vma.end - vma.start).sum();
            assert_eq!(space.locked_vm, pages, "pages of locked areas of {mm:?}");
        }
    }
}
