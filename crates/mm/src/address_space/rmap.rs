//! Reverse mapping (rmap): from a folio to the page-table entries that map it.
//!
//! ```text
//!   anonymous    folio ─► slot: a PTE ─► its table ─► the ring of tables that forks made, same place in each
//!   file         folio ─► slot: file and index ─► mappings of the file (`i_mmap`) ─► their PTEs
//! ```
//!
//! In the kernel: mm/rmap.c (`folio_referenced`, `try_to_unmap`, `page_mkclean`), mm/interval_tree.c.

use super::page_table::TableId;
use super::{MmId, Pte, PteNumber, Vpn};
use crate::address_space::AddressSpaces;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{Census, FolioFlags, FolioId};
use crate::page_cache::xarray::{Entry, FileId, FilePages};
use crate::swapfile::SwapEntry;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The entries that map a folio; usually one.
pub(crate) type Mappings = SmallVec<[PteNumber; 4]>;

/// A mapping of consecutive pages of a file in an address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMapping {
    pub mm: MmId,
    /// First page of the mapping.
    pub start: Vpn,
    /// Page of the file that is mapped there.
    pub first: u32,
    /// Number of pages.
    pub pages: u64,
}

/// The mappings of each file (`i_mmap`).
#[derive(Clone, Debug, Default)]
pub(crate) struct FileMappings(Vec<Vec<FileMapping>>);

impl FileMappings {
    pub(crate) fn add(&mut self, file: FileId, mapping: FileMapping) {
        let file = file.0 as usize;
        if self.0.len() <= file {
            self.0.resize_with(file + 1, Vec::new);
        }
        self.0[file].push(mapping);
    }

    /// Removes the mappings of the file in `pages` of `mm`.
    pub(crate) fn remove(&mut self, file: FileId, mm: MmId, pages: Range<Vpn>) {
        let mappings = &mut self.0[file.0 as usize];
        let mut rest = Vec::new();
        mappings.retain(|&mapping| {
            let end = mapping.start + mapping.pages;
            if mapping.mm != mm || mapping.start >= pages.end || end <= pages.start {
                return true;
            }
            if mapping.start < pages.start {
                rest.push(FileMapping { pages: pages.start - mapping.start, ..mapping });
            }
            if end > pages.end {
                let skipped = pages.end - mapping.start;
                let first = mapping.first + skipped as u32;
                rest.push(FileMapping { start: pages.end, first, pages: end - pages.end, ..mapping });
            }
            false
        });
        mappings.append(&mut rest);
    }

    /// Where pages of a file may be mapped.
    fn places(&self, pages: FilePages) -> impl Iterator<Item = (MmId, Vpn)> + use<'_> {
        let mappings = self.0.get(pages.file.0 as usize).into_iter().flatten();
        mappings.flat_map(move |mapping| {
            pages.indices().filter_map(|index| {
                let offset = u64::from(index.checked_sub(mapping.first)?);
                (offset < mapping.pages).then(|| (mapping.mm, mapping.start + offset))
            })
        })
    }
}

impl Kernel<'_> {
    /// Whether accesses through a PTE count for the page's age (`vma_has_recency`).
    pub(crate) fn entry_has_recency(&self, entry: PteNumber) -> bool {
        let table = &self.parts.address_spaces.page_tables[entry.table()];
        let vma = self.parts.address_spaces.mms[table.mm].vmas.find(table.first + entry.place() as u64);
        vma.is_some_and(|vma| self.has_recency(vma.flags))
    }

    /// Clears the accessed bits of a folio's PTEs and returns the entries that had it set
    /// (`folio_referenced`). Bits stay set and do not count in VMAs without recency, and in locked VMAs that
    /// contain only a part of the folio. If a locked VMA contains all of it, the folio becomes mlocked and
    /// `None` is returned.
    #[inline]
    pub(crate) fn folio_referenced(&mut self, id: FolioId) -> Option<Mappings> {
        match self.parts.lrus.folios[id].mapcount {
            0 => Some(Mappings::new()),
            _ => self.mapped_folio_referenced(id),
        }
    }

    /// [`Kernel::folio_referenced`] for a mapped folio. Kept apart, because most page-cache folios that
    /// reclaim scans are not mapped.
    fn mapped_folio_referenced(&mut self, id: FolioId) -> Option<Mappings> {
        let mut young = self.parts.mappings_of(id);
        if self.parts.is_in_locked_area(id, &young) {
            self.set_mlocked(id);
            return None;
        }
        young.retain(|&mut entry| {
            self.parts.address_spaces.page_tables[entry].has(Pte::YOUNG)
                && self.entry_has_recency(entry)
                && !self.parts.address_spaces.is_locked_entry(entry)
        });
        young.iter().for_each(|&entry| self.parts.address_spaces.page_tables[entry].clear(Pte::YOUNG));
        Some(young)
    }

    /// Removes a folio from the page tables that map it, up to the first PTE in a locked VMA; anonymous pages
    /// leave swap entries there (`try_to_unmap`). Returns the number of PTEs removed.
    pub(crate) fn unmap(&mut self, id: FolioId) -> u64 {
        self.split_huge_mappings(id);
        let mut entries = self.parts.mappings_of(id);
        if let Some(locked) =
            entries.iter().position(|&entry| self.parts.address_spaces.is_locked_entry(entry))
        {
            entries.truncate(locked);
        }
        for &entry in &entries {
            let cached = self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE);
            let swap = cached.then(|| self.parts.swap_entry_of_page(id, entry.place()));
            let stored = self.parts.address_spaces.page_tables[entry].stored();
            self.parts.address_spaces.page_tables[entry] =
                swap.map_or(Pte::NONE, |swap| Pte::of_swap(swap).with(stored));
            if let Some(swap) = swap {
                self.parts.swap.swap_duplicate(swap);
            }
            self.parts.remove_rmap(entry, id);
        }
        entries.len() as u64
    }

    /// Splits the PMD mappings of a folio into PTEs.
    pub(crate) fn split_huge_mappings(&mut self, id: FolioId) {
        if self.is_pmd_order(self.parts.lrus.folios.flags[id].order()) {
            let tables: Vec<_> = self.parts.mappings_of(id).iter().map(|entry| entry.table()).collect();
            tables.into_iter().for_each(|table| self.parts.split_huge_pmd(table));
        }
    }
}

impl Parts {
    /// The page-table entries that map a folio.
    pub(crate) fn mappings_of(&self, id: FolioId) -> Mappings {
        let folio = &self.lrus.folios[id];
        let maps = |entry: &PteNumber| self.address_spaces.page_tables[*entry].folio() == Some(id);
        if folio.mapcount == 0 {
            return Mappings::new();
        }
        if self.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED) {
            let slot = self.address_spaces.page_tables.at_slot(folio.slot);
            if folio.mapcount == 1 {
                debug_assert!(maps(&slot), "the slot of {id:?} names a PTE that maps it");
                return Mappings::from_slice(&[slot]);
            }
            return self
                .address_spaces
                .page_tables
                .mappings(slot, id, self.lrus.folios.flags[id].nr_pages())
                .collect();
        }
        let places = self.address_spaces.file_mappings.places(self.file_pages(id));
        places.filter_map(|(mm, page)| self.address_spaces.entry(mm, page)).filter(maps).collect()
    }

    /// Write-protects the mappings of a file folio, so that the next store faults and marks it dirty
    /// (`folio_mkclean`).
    pub(crate) fn folio_mkclean(&mut self, id: FolioId) {
        for entry in self.mappings_of(id) {
            self.address_spaces.page_tables[entry].clear(Pte::WRITE);
        }
    }

    /// Counts a mapping of a folio (`folio_add_file_rmap_pte`).
    #[inline]
    pub(crate) fn add_rmap(&mut self, entry: PteNumber, id: FolioId) {
        self.add_rmaps(entry, 1, id);
    }

    /// Counts mappings of a folio by `entries` consecutive PTEs, starting at `entry`
    /// (`folio_add_anon_rmap_ptes`).
    #[inline]
    pub(crate) fn add_rmaps(&mut self, entry: PteNumber, entries: u16, id: FolioId) {
        self.lrus.folios.add_mappings(id, entries);
        let (rss, pages) = self.rss_counter(entry, id);
        *rss += pages * u64::from(entries);
    }

    /// Counts a mapping less of a folio (`folio_remove_rmap_ptes`).
    pub(crate) fn remove_rmap(&mut self, entry: PteNumber, id: FolioId) {
        let (rss, pages) = self.rss_counter(entry, id);
        *rss -= pages;
        self.lose_mapping(entry, id);
    }

    /// Like [`Parts::remove_rmap`], without the address space's RSS counters.
    #[inline]
    pub(crate) fn lose_mapping(&mut self, entry: PteNumber, id: FolioId) {
        if self.lrus.folios.remove_mapping(id)
            || self.lrus.folios[id].slot != self.address_spaces.page_tables.slot(entry)
        {
            return;
        }
        let flags = self.lrus.folios.flags[id];
        if flags.has(FolioFlags::SWAPBACKED) {
            let other = self.address_spaces.page_tables.mappings(entry, id, flags.nr_pages()).next();
            let other = other.expect("a mapped folio has another PTE");
            self.lrus.folios[id].slot = self.address_spaces.page_tables.slot(other);
        }
    }

    /// The RSS counter for a folio in the address space of `entry`, and the pages that the entry maps.
    #[inline]
    fn rss_counter(&mut self, entry: PteNumber, id: FolioId) -> (&mut u64, u64) {
        let table = &self.address_spaces.page_tables[entry.table()];
        let space = &mut self.address_spaces.mms[table.mm];
        let rss = match self.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED) {
            true => &mut space.anon_pages,
            false => &mut space.file_pages,
        };
        (rss, table.pages_of_entry())
    }

    /// Splits a PMD mapping into PTEs (`__split_huge_pmd`).
    pub(crate) fn split_huge_pmd(&mut self, table: TableId) {
        if !self.address_spaces.page_tables[table].is_huge() {
            return;
        }
        let huge = self.address_spaces.page_tables[table.entry(0)];
        self.address_spaces.page_tables[table].split_huge();
        if let Some(id) = huge.folio() {
            self.lrus
                .folios
                .add_mappings(id, self.address_spaces.page_tables[table].all_places().len() as u16 - 1);
        }
    }

    /// Checks page tables against folios and VMAs, and panics with the invariant that is broken. Returns the
    /// number of PTEs for each swap entry.
    pub(crate) fn validate_page_tables(&self, census: &Census) -> BTreeMap<SwapEntry, u64> {
        let mut seen = Seen::default();
        for (id, table) in self.address_spaces.page_tables.iter() {
            let space = &self.address_spaces.mms[table.mm];
            assert_eq!(
                space.directory.table(table.first),
                Some(id),
                "page table {id:?} is in its address space"
            );
            for place in table.all_places() {
                self.validate_entry(id.entry(place), census, &mut seen);
            }
        }
        for (id, _) in census.all(&self.lrus.folios) {
            let mapped = seen.mapped.get(&id).copied().unwrap_or(0);
            assert_eq!(mapped, self.lrus.folios.mapcount(id), "page tables and mapcount of {id:?}");
        }
        let pages = &seen.pages;
        self.validate_anon_pages(census, |id| pages.get(&id).map_or(0, |pages| pages.len() as u64));
        self.validate_rss();
        seen.users
    }

    fn validate_entry(&self, number: PteNumber, census: &Census, seen: &mut Seen) {
        let entry = self.address_spaces.page_tables[number];
        if entry == Pte::NONE {
            return;
        }
        let table = &self.address_spaces.page_tables[number.table()];
        let page = table.first + number.place() as u64;
        let vma = self.address_spaces.mms[table.mm].vmas.find(page);
        let vma = vma.unwrap_or_else(|| panic!("page {page} is in no VMA: {entry:?}"));
        if let Some(swap) = entry.swap_entry() {
            assert!(
                !entry.has(Pte::STORED) || !self.swap.is_zeroes(swap),
                "page {page} has data, but its swap entry is in the zeromap"
            );
            *seen.users.entry(swap).or_insert(0) += 1;
        }
        let Some(folio) = entry.folio() else { return };
        *seen.mapped.entry(folio).or_default() += 1;
        let index = page % self.lrus.folios.flags[folio].nr_pages();
        seen.pages.entry(folio).or_default().extend(index..index + table.pages_of_entry());
        assert!(census.found(folio), "{folio:?} is mapped and must exist");
        let found =
            seen.mappings.entry(folio).or_insert_with(|| self.mappings_of(folio).into_iter().collect());
        assert!(found.contains(&number), "reverse mapping of {folio:?} finds {page}: {found:?}");
        if !self.lrus.folios.flags[folio].has(FolioFlags::SWAPBACKED) {
            let (file, index) = vma.file_page(page).expect("a file page is in a file mapping");
            assert_eq!(self.page_cache.files.entry(file, index), Entry::Folio(folio));
            assert!(
                !vma.is_private() || !entry.has(Pte::WRITE),
                "a private file mapping is not writable: {entry:?}"
            );
        }
        let mut of_page = self.address_spaces.page_tables.mappings(number, folio, 1);
        assert!(
            !entry.has(Pte::EXCLUSIVE) || of_page.all(|other| other.table() == number.table()),
            "the page of {folio:?} belongs to one: {entry:?}"
        );
    }

    /// Checks the RSS counters of all address spaces.
    fn validate_rss(&self) {
        for (mm, space) in self.address_spaces.mms.iter() {
            let (mut anon, mut file) = (0, 0);
            for (id, table) in self.address_spaces.page_tables.iter().filter(|(_, table)| table.mm == mm) {
                for place in table.all_places() {
                    let Some(folio) = self.address_spaces.page_tables[id.entry(place)].folio() else {
                        continue;
                    };
                    match self.lrus.folios.flags[folio].has(FolioFlags::SWAPBACKED) {
                        true => anon += table.pages_of_entry(),
                        false => file += table.pages_of_entry(),
                    }
                }
            }
            assert_eq!((space.anon_pages, space.file_pages), (anon, file), "RSS counters of {mm:?}");
        }
    }
}

/// Mappings found in the page tables.
#[derive(Default)]
struct Seen {
    /// PTEs by swap entry.
    users: BTreeMap<SwapEntry, u64>,
    /// Mappings by folio.
    mapped: BTreeMap<FolioId, u64>,
    /// Entries that reverse mapping finds, by folio.
    mappings: BTreeMap<FolioId, BTreeSet<PteNumber>>,
    /// Mapped pages, by folio.
    pages: BTreeMap<FolioId, BTreeSet<u64>>,
}

impl AddressSpaces {
    /// Subtracts unmapped pages from the RSS counters of a table's address space.
    pub(crate) fn sub_rss(&mut self, table: TableId, anon_pages: u64, file_pages: u64) {
        let space = &mut self.mms[self.page_tables[table].mm];
        space.anon_pages -= anon_pages;
        space.file_pages -= file_pages;
    }
}
