//! Mapped memory: regions of address spaces, their page-table entries, and page faults.
//!
//! ```text
//!   region   entry 0 │ 1 │ 2 │ 3 ...        nothing │ a folio │ a swap entry
//!                      └─► folio: young, dirty
//!
//!   touch ─► present?  ─ yes ─► young
//!               │ no
//!               ▼
//!            nothing stored yet: load maps the page of zeroes that all share, store a page of its own
//!            swap entry: read it back          page of a file: find it or read it
//! ```
//!
//! A folio is mapped by one entry at most, so that entry's accessed bit is kept with the folio. In the kernel:
//! `do_anonymous_page`, `do_swap_page`, `do_read_fault` in mm/memory.c; `filemap_fault` in mm/filemap.c; mm/rmap.c.

use crate::account::Category;
use crate::counters::Event;
use crate::folio::{Census, FolioFlags, FolioId};
use crate::memcontrol::Memcg;
use crate::page_alloc::MemoryManager;
use crate::swapfile::{SwapEntry, SwapIn};
use crate::vmscan::OutOfMemory;
use crate::workingset::LruType;
use crate::xarray::{Entry, FileId};
use machine::{Cpu, Machine};
use std::collections::BTreeMap;

/// A region of an address space (`struct vm_area_struct`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionId(pub u32);

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Memory of its own.
    Anonymous,
    /// A file, from this page on.
    File(FileId, u32),
}

/// A page-table entry: nothing, a folio, or a swap entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pte(u32);

impl Pte {
    const NONE: Pte = Pte(u32::MAX);
    /// The page of zeroes that all share; what loads map where nothing was stored.
    const ZERO: Pte = Pte(u32::MAX - 1);
    const SWAP: u32 = 1 << 31;

    fn folio(self) -> Option<FolioId> {
        (self.0 & Pte::SWAP == 0).then_some(FolioId(self.0))
    }

    fn swap_entry(self) -> Option<SwapEntry> {
        (self.0 < Pte::ZERO.0 && self.0 & Pte::SWAP != 0).then_some(self.0 & !Pte::SWAP)
    }
}

/// A region of an address space.
#[derive(Clone, Debug)]
pub struct Region {
    /// Whom its pages are charged to.
    pub memcg: Memcg,
    /// What is mapped.
    pub backing: Backing,
    /// Accesses say something about the future (`vma_has_recency`): not where `MADV_RANDOM` or `MADV_SEQUENTIAL` was given.
    pub has_recency: bool,
    /// Number of its first entry among those of all regions.
    first: u32,
    entries: Vec<Pte>,
}

impl Region {
    /// How many pages it has.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Whose lists its pages are on.
    pub fn lru_type(&self) -> LruType {
        match self.backing {
            Backing::Anonymous => LruType::Anon,
            Backing::File(..) => LruType::File,
        }
    }

    /// Folios that are mapped, in the order of addresses.
    pub fn mapped(&self) -> impl Iterator<Item = FolioId> + use<'_> {
        self.entries.iter().filter_map(|entry| entry.folio())
    }

    /// Folios that are mapped by some of the entries.
    pub fn mapped_in(&self, entries: std::ops::Range<usize>) -> impl Iterator<Item = FolioId> + use<'_> {
        let entries = entries.start.min(self.entries.len())..entries.end.min(self.entries.len());
        self.entries[entries].iter().filter_map(|entry| entry.folio())
    }
}

/// What touching a page took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It was mapped.
    Mapped,
    /// A page fault that needed no device.
    Minor,
    /// A page fault that read from a file; [`MemoryManager::end_read`] says when it is there.
    ReadFile(FolioId),
    /// A page fault that read from swap; likewise.
    ReadSwap(FolioId),
}

impl MemoryManager {
    /// Maps `pages` pages on behalf of `memcg`.
    pub fn mmap(&mut self, memcg: Memcg, backing: Backing, pages: usize, has_recency: bool) -> RegionId {
        let first = self.regions.last().map_or(0, |region| region.first + region.entries.len() as u32);
        // Before 6.3 no region was thought to lack recency.
        let has_recency =
            has_recency || self.features().reclaim.generations.is_some_and(|f| f.all_regions_have_recency());
        self.regions.push(Region { memcg, backing, has_recency, first, entries: vec![Pte::NONE; pages] });
        RegionId(self.regions.len() as u32 - 1)
    }

    /// Whether a page is in memory: mapped, or in the page cache (`mincore`).
    pub fn is_resident(&self, region: RegionId, page: u32) -> bool {
        let region = &self.regions[region.0 as usize];
        let entry = region.entries[page as usize];
        match region.backing {
            Backing::File(file, first) => matches!(self.files.entry(file, first + page), Entry::Folio(_)),
            Backing::Anonymous => match entry.swap_entry() {
                Some(entry) => matches!(self.swap_entry_state(entry), SwapIn::Cached(_)),
                None => entry != Pte::NONE,
            },
        }
    }

    /// Loads from a page, or stores to it.
    pub fn touch(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        region: RegionId,
        page: u32,
        write: bool,
    ) -> Result<Touch, OutOfMemory> {
        let at = &self.regions[region.0 as usize];
        let entry = at.entries[page as usize];
        if let Some(id) = entry.folio() {
            self.use_mapping(id, write);
            return Ok(Touch::Mapped);
        }
        if entry == Pte::ZERO && !write {
            return Ok(Touch::Mapped);
        }
        let (memcg, in_fault, backing) = (at.memcg, at.has_recency, at.backing);
        let number = at.first + page;
        self.counters.add(Event::Pgfault, 1);
        let (id, touch) = match (backing, entry.swap_entry()) {
            (Backing::File(file, first), _) => {
                let index = first + page;
                match self.files.entry(file, index) {
                    Entry::Folio(id) => (id, Touch::Minor),
                    _ => {
                        let id = self.add_to_page_cache(machine, cpu, memcg, file, index, in_fault)?;
                        (id, Touch::ReadFile(id))
                    }
                }
            }
            (Backing::Anonymous, None) if !write => {
                self.regions[region.0 as usize].entries[page as usize] = Pte::ZERO;
                return Ok(Touch::Minor);
            }
            (Backing::Anonymous, None) => {
                let flags = FolioFlags::SWAPBACKED | FolioFlags::DIRTY;
                let id = self.alloc_folio(machine, cpu, memcg, flags)?;
                machine.charge(cpu, Category::PageClear, machine.costs.page_clear);
                self.folio_add_lru(machine, cpu, id, in_fault);
                (id, Touch::Minor)
            }
            (Backing::Anonymous, Some(entry)) => {
                self.swap_in_page(machine, cpu, memcg, entry, in_fault, write)?
            }
        };
        if matches!(touch, Touch::ReadFile(_) | Touch::ReadSwap(_)) {
            self.counters.add(Event::Pgmajfault, 1);
        }
        // Where another region maps it, that one faults again.
        self.unmap(id);
        self.regions[region.0 as usize].entries[page as usize] = Pte(id.0);
        let folio = &mut self.folios[id];
        folio.mapcount = 1;
        if backing == Backing::Anonymous {
            folio.slot = number;
        }
        self.use_mapping(id, write);
        Ok(touch)
    }

    /// Sets the bits that hardware sets. A page of a file is known to be dirty at once (`page_mkwrite`).
    fn use_mapping(&mut self, id: FolioId, write: bool) {
        let flags = &mut self.folios.flags[id];
        flags.set(FolioFlags::YOUNG);
        if write && flags.has(FolioFlags::SWAPBACKED) {
            flags.set(FolioFlags::DIRTY);
        } else if write {
            self.mark_dirty(id);
        }
    }

    fn swap_in_page(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        memcg: Memcg,
        entry: SwapEntry,
        in_fault: bool,
        write: bool,
    ) -> Result<(FolioId, Touch), OutOfMemory> {
        let (id, touch) = match self.swap_entry_state(entry) {
            SwapIn::Cached(id) => (id, Touch::Minor),
            SwapIn::Read(shadow) => {
                let id = self.alloc_folio(machine, cpu, memcg, FolioFlags::SWAPBACKED)?;
                self.counters.add(Event::Pswpin, 1);
                self.workingset_refault(machine.now(cpu), id, shadow, in_fault);
                self.swapped_in(entry, id);
                self.folio_add_lru(machine, cpu, id, in_fault);
                (id, Touch::ReadSwap(id))
            }
        };
        // The entry is of no more use where swap is scarce, or the page will differ from it.
        if self.folios.flags[id].has(FolioFlags::SWAPCACHE) && (write || self.swap.is_full()) {
            self.swap_free(entry);
        }
        Ok((id, touch))
    }

    /// The region and entry that map a folio.
    pub(crate) fn mapping_of(&self, id: FolioId) -> Option<(usize, usize)> {
        let folio = &self.folios[id];
        if folio.mapcount == 0 {
            return None;
        }
        if self.folios.flags[id].has(FolioFlags::SWAPBACKED) {
            let region = self.regions.partition_point(|region| region.first <= folio.slot) - 1;
            return Some((region, (folio.slot - self.regions[region].first) as usize));
        }
        let (file, index) = self.files.page_of(folio.slot);
        self.regions.iter().enumerate().find_map(|(number, region)| match region.backing {
            Backing::File(mapped, first) if mapped == file => {
                let entry = index.checked_sub(first)? as usize;
                let maps = region.entries.get(entry).and_then(|entry| entry.folio()) == Some(id);
                maps.then_some((number, entry))
            }
            _ => None,
        })
    }

    /// Clears the accessed bit of the entry that maps a folio; whether it was set. Where accesses say nothing about the
    /// future it stays, and does not count (`folio_referenced`).
    pub(crate) fn folio_referenced(&mut self, id: FolioId) -> bool {
        let counts = self.mapping_of(id).is_some_and(|(region, _)| self.regions[region].has_recency);
        counts && self.folios.flags[id].take(FolioFlags::YOUNG)
    }

    /// Takes a folio out of the page table that maps it; an anonymous one leaves its swap entry there.
    pub(crate) fn unmap(&mut self, id: FolioId) {
        let Some((region, entry)) = self.mapping_of(id) else { return };
        self.folios[id].mapcount = 0;
        let flags = &mut self.folios.flags[id];
        flags.clear(FolioFlags::YOUNG);
        let pte = match flags.has(FolioFlags::SWAPCACHE) {
            true => Pte(self.swap_entry(id) | Pte::SWAP),
            false => Pte::NONE,
        };
        self.regions[region].entries[entry] = pte;
    }

    /// Unmaps all of a region and frees what only it had (`munmap`); how many pages were mapped. It may be used again.
    pub fn munmap(&mut self, machine: &mut Machine<Category>, cpu: Cpu, region: RegionId) -> u64 {
        let mut mapped = 0;
        for page in 0..self.regions[region.0 as usize].entries.len() {
            let entry = std::mem::replace(&mut self.regions[region.0 as usize].entries[page], Pte::NONE);
            if let Some(entry) = entry.swap_entry() {
                if let SwapIn::Cached(id) = self.swap_entry_state(entry) {
                    self.swap_free(entry);
                    self.release_folio(machine, cpu, id);
                } else {
                    self.swap_free(entry);
                }
            }
            let Some(id) = entry.folio() else { continue };
            mapped += 1;
            self.folios[id].mapcount = 0;
            let flags = &mut self.folios.flags[id];
            let young = flags.take(FolioFlags::YOUNG);
            if flags.has(FolioFlags::SWAPBACKED) {
                if flags.has(FolioFlags::SWAPCACHE) {
                    self.swap_free(self.swap_entry(id));
                }
                self.release_folio(machine, cpu, id);
            } else if young && self.regions[region.0 as usize].has_recency {
                self.folio_mark_accessed(machine, cpu, id);
            }
        }
        mapped
    }

    /// Checks page tables against what they map; panics with what does not hold. For each swap entry, how many
    /// page-table entries have it.
    pub(crate) fn validate_page_tables(&self, census: &Census) -> BTreeMap<SwapEntry, u64> {
        let mut users = BTreeMap::new();
        let mut mapped = 0;
        for region in &self.regions {
            for (page, entry) in region.entries.iter().enumerate() {
                if let Some(entry) = entry.swap_entry() {
                    assert_eq!(region.backing, Backing::Anonymous, "swap entry {entry}");
                    *users.entry(entry).or_insert(0) += 1;
                }
                let Some(id) = entry.folio() else { continue };
                let folio = &self.folios[id];
                mapped += 1;
                assert!(census.found(id) && folio.mapcount == 1, "{id:?} is mapped once: {folio:?}");
                match region.backing {
                    Backing::Anonymous => {
                        assert!(self.folios.flags[id].has(FolioFlags::SWAPBACKED), "{folio:?}");
                        assert_eq!(
                            folio.slot,
                            region.first + page as u32,
                            "{id:?} names its page-table entry"
                        );
                    }
                    Backing::File(file, first) => {
                        assert_eq!(self.files.entry(file, first + page as u32), Entry::Folio(id));
                    }
                }
            }
        }
        let counted: u64 = census.all(&self.folios).map(|(_, folio)| u64::from(folio.mapcount)).sum();
        assert_eq!(mapped, counted, "page tables and mapcounts disagree");
        for (id, folio) in census.all(&self.folios) {
            assert!(
                folio.mapcount > 0 || !self.folios.flags[id].has(FolioFlags::YOUNG),
                "{id:?} is young: {folio:?}"
            );
        }
        users
    }

    /// Frees a folio that nobody uses any more; while a device still writes it, [`MemoryManager::end_write`] does.
    pub(crate) fn release_folio(&mut self, machine: &mut Machine<Category>, cpu: Cpu, id: FolioId) {
        if self.folios.flags[id].has(FolioFlags::WRITEBACK) {
            return;
        }
        self.folio_leave_lru(id);
        self.free_folio(machine, cpu, id);
    }
}
