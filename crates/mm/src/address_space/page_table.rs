//! Page tables and their entries: a table is a page full of PTEs, 512 with pages of 4 KiB, 2048 with 16 KiB,
//! 8192 with 64 KiB.
//!
//! ```text
//!   entry    payload: folio or swap entry (32) │ present, zero, swap, write, young, exclusive, prot_none
//!
//!   address space ─► directory (1 GiB) ─┬► table (2 MiB) ─► entry (4 KiB)         8 bytes per page
//!                                       └► huge entry (2 MiB)
//!
//!   table of parent ─► table of child ─► table of grandchild ─► table of parent   the ring that forks make: where
//!                                                                                 else a folio may be mapped, at the same address
//! ```
//!
//! A huge entry (PMD mapping) stands for all entries of a table. An anonymous folio stores the slot of one
//! entry that maps it: the number of the table times its entries, plus the entry's place. The ring of that
//! table leads to the other mappings, which the kernel finds through `struct anon_vma`. A large folio is
//! mapped at a multiple of its size, so the place of an entry tells which page of the folio it maps. A
//! writable entry is dirty: the twin sets the write bit only when a store needs it. Of a page's contents only
//! one thing is known: whether the program has stored to it; otherwise it holds zeroes. In the kernel:
//! arch/x86/include/asm/pgtable.h, `pte_alloc_one`, mm/rmap.c.

use super::{MmId, Vpn};
use crate::allocator::page::Geometry;
use crate::lru::folio::FolioId;
use crate::swapfile::SwapEntry;
use machine::{Cpu, Time};
use prefetch_index::prefetch_index;
use std::ops::Range;

/// A page-table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pte(u64);

impl Pte {
    /// An empty entry (`pte_none`).
    pub const NONE: Pte = Pte(0);
    /// Maps the zero page, as a load from an empty anonymous page does.
    pub const ZERO: Pte = Pte(1 << 33);

    /// Maps a folio (`_PAGE_PRESENT`).
    pub const PRESENT: Pte = Pte(1 << 32);
    /// Holds a swap entry.
    const SWAP: Pte = Pte(1 << 34);
    /// Writable and dirty.
    pub const WRITE: Pte = Pte(1 << 35);
    /// Accessed since the bit was last cleared (`_PAGE_ACCESSED`).
    pub const YOUNG: Pte = Pte(1 << 36);
    /// The anonymous page is mapped by this address space only (`PageAnonExclusive`).
    pub const EXCLUSIVE: Pte = Pte(1 << 37);

    /// Maps a folio but faults, for NUMA balancing (`pte_protnone`).
    pub const PROT_NONE: Pte = Pte(1 << 38);
    /// The program has stored to this very page, so that it may hold more than zeroes. Kept while the page is
    /// in swap. A huge entry has a bit for each page instead.
    pub const STORED: Pte = Pte(1 << 39);

    /// An entry that maps a folio, or one page of it.
    #[inline]
    pub(crate) fn of_folio(id: FolioId) -> Pte {
        Pte(u64::from(id.0) | Pte::PRESENT.0)
    }

    /// The same entry, mapping another folio that has the page now.
    pub(crate) fn with_folio(self, id: FolioId) -> Pte {
        Pte(self.0 & !u64::from(u32::MAX) | u64::from(id.0))
    }

    /// An entry that holds a swap entry.
    #[inline]
    pub(crate) fn of_swap(entry: SwapEntry) -> Pte {
        Pte(u64::from(entry) | Pte::SWAP.0)
    }

    /// The mapped folio, if the entry is present.
    #[inline]
    pub fn folio(self) -> Option<FolioId> {
        self.has(Pte::PRESENT).then_some(FolioId(self.0 as u32))
    }

    /// Whether the hardware allows a load or a store without a fault.
    #[inline]
    pub fn lets(self, write: bool) -> bool {
        let wanted = if write { Pte::PRESENT.with(Pte::WRITE) } else { Pte::PRESENT };
        self.0 & (wanted.0 | Pte::PROT_NONE.0) == wanted.0
    }

    /// The swap entry, if the entry holds one.
    #[inline]
    pub fn swap_entry(self) -> Option<SwapEntry> {
        self.has(Pte::SWAP).then_some(self.0 as SwapEntry)
    }

    /// The [`Pte::STORED`] bit of the entry.
    pub(crate) fn stored(self) -> Pte {
        Pte(self.0 & Pte::STORED.0)
    }

    #[inline]
    pub fn has(self, bits: Pte) -> bool {
        self.0 & bits.0 == bits.0
    }

    #[inline]
    pub fn set(&mut self, bits: Pte) {
        self.0 |= bits.0;
    }

    #[inline]
    pub fn clear(&mut self, bits: Pte) {
        self.0 &= !bits.0;
    }

    /// Clears `bits`. Returns whether all of them were set.
    #[inline]
    pub fn take(&mut self, bits: Pte) -> bool {
        let had = self.has(bits);
        self.clear(bits);
        had
    }

    /// The entry with `bits` set.
    #[inline]
    #[must_use]
    pub fn with(self, bits: Pte) -> Pte {
        Pte(self.0 | bits.0)
    }
}

/// Identifies a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableId(u32);

/// Identifies a PTE: its table and its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PteNumber {
    table: TableId,
    place: u32,
}

impl PteNumber {
    #[inline]
    pub(crate) fn table(self) -> TableId {
        self.table
    }

    #[inline]
    pub(crate) fn place(self) -> usize {
        self.place as usize
    }
}

impl TableId {
    /// Index into arrays by page table. Freed tables' indices are reused.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    const NONE: TableId = TableId(u32::MAX);

    /// The entry at a place of this table.
    #[inline]
    pub(crate) fn entry(self, place: usize) -> PteNumber {
        PteNumber { table: self, place: place as u32 }
    }
}

/// The page table of 2^`pmd_order` pages (2 MiB with pages of 4 KiB), or the PMD mapping in place of it.
#[derive(Clone, Debug)]
pub(crate) struct PageTable {
    /// The address space that it belongs to.
    pub mm: MmId,
    /// The first page of its range.
    pub first: Vpn,
    /// The next table of the ring that forks make.
    sibling: TableId,
    /// Accessed bit of the PMD that points to the table.
    pub(crate) young: bool,
    /// The CPU that cleared the huge page that is mapped here; [`PageTables`] knows until when it does.
    cleared_by: Option<Cpu>,
    /// Counts changes of entries, so that sums over them can be cached.
    version: u32,
    /// Number of pages of its range.
    pages: u32,
    /// The PMD mapping, or [`Pte::NONE`] if there are PTEs.
    huge: Pte,
    /// Pages of a PMD mapping that the program has stored to, as bits.
    stored: Box<[u64]>,
    /// One PTE for each page; empty with a PMD mapping.
    entries: Box<[Pte]>,
}

impl PageTable {
    /// Whether this is a PMD mapping.
    #[inline]
    pub(crate) fn is_huge(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of changes that may have been made to entries.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Pages that one entry maps.
    #[inline]
    pub(crate) fn pages_of_entry(&self) -> u64 {
        if self.is_huge() { self.pages.into() } else { 1 }
    }

    /// The entries at `places`, or the huge entry.
    #[inline]
    pub(crate) fn entries_mut(&mut self, places: Range<usize>) -> &mut [Pte] {
        self.version = self.version.wrapping_add(1);
        match self.is_huge() {
            true => std::slice::from_mut(&mut self.huge),
            false => &mut self.entries[places],
        }
    }

    /// Whether any entry at `places` is not empty.
    #[inline]
    pub(crate) fn is_populated(&self, places: Range<usize>) -> bool {
        self.entries[places].iter().any(|&entry| entry != Pte::NONE)
    }

    /// Whether no entry at `places` is empty.
    pub(crate) fn is_full(&self, places: Range<usize>) -> bool {
        self.entries[places].iter().all(|&entry| entry != Pte::NONE)
    }

    /// The entries among `places`: with a PMD mapping just 0.
    pub(crate) fn places(&self, places: Range<usize>) -> Range<usize> {
        if self.is_huge() { 0..1 } else { places }
    }

    /// The places of all entries.
    pub(crate) fn all_places(&self) -> Range<usize> {
        0..self.entries.len().max(1)
    }

    /// Replaces the PMD mapping by PTEs that map the same pages.
    pub(crate) fn split_huge(&mut self) {
        self.version = self.version.wrapping_add(1);
        let huge = std::mem::take(&mut self.huge);
        let entry = |place: usize| if huge.folio().is_some() { huge.with(self.stored(place)) } else { huge };
        self.entries = (0..self.pages as usize).map(entry).collect();
        self.stored = Box::default();
    }

    /// [`Pte::STORED`] if the page at `place` was stored to, otherwise no bit.
    fn stored(&self, place: usize) -> Pte {
        match self.entries.get(place) {
            Some(entry) => entry.stored(),
            None if self.stored[place / 64] >> (place % 64) & 1 != 0 => Pte::STORED,
            None => Pte::default(),
        }
    }

    /// Number of pages at `places` that map folio `id` and were never stored to.
    pub(crate) fn untouched(&self, places: Range<usize>, id: FolioId) -> u32 {
        let maps = |place: usize| self.entries.get(place).unwrap_or(&self.huge).folio() == Some(id);
        places.filter(|&place| maps(place) && self.stored(place) == Pte::default()).count() as u32
    }

    /// Maps a folio by a PMD mapping in place of all PTEs; `stored` are the places of pages with data.
    pub(crate) fn set_huge(&mut self, entry: Pte, stored: impl IntoIterator<Item = usize>) {
        self.version = self.version.wrapping_add(1);
        (self.huge, self.stored, self.entries) = (entry, no_bits(self.pages), Box::default());
        stored.into_iter().for_each(|place| self.stored[place / 64] |= 1 << (place % 64));
    }
}

/// A bitmap for `pages` pages, all clear.
fn no_bits(pages: u32) -> Box<[u64]> {
    vec![0; pages as usize / 64].into()
}

/// The page tables of all address spaces.
#[derive(Clone, Debug)]
pub(crate) struct PageTables {
    /// log2 of the number of entries in a table.
    shift: u8,
    tables: Vec<PageTable>,
    free: Vec<TableId>,
    /// Huge pages that are being cleared, and until when other CPUs still find nothing mapped there. Kept as
    /// long as a CPU may arrive before that.
    cleared: Vec<(TableId, Time)>,
}

impl std::ops::Index<PteNumber> for PageTables {
    type Output = Pte;
    #[inline]
    fn index(&self, number: PteNumber) -> &Pte {
        let table = &self.tables[number.table().0 as usize];
        table.entries.get(number.place()).unwrap_or(&table.huge)
    }
}

impl std::ops::IndexMut<PteNumber> for PageTables {
    #[inline]
    fn index_mut(&mut self, number: PteNumber) -> &mut Pte {
        let table = &mut self.tables[number.table().0 as usize];
        table.version = table.version.wrapping_add(1);
        table.entries.get_mut(number.place()).unwrap_or(&mut table.huge)
    }
}

impl std::ops::Index<TableId> for PageTables {
    type Output = PageTable;
    #[inline]
    fn index(&self, id: TableId) -> &PageTable {
        &self.tables[id.0 as usize]
    }
}

impl std::ops::IndexMut<TableId> for PageTables {
    #[inline]
    fn index_mut(&mut self, id: TableId) -> &mut PageTable {
        &mut self.tables[id.0 as usize]
    }
}

impl PageTables {
    /// No page tables yet.
    pub(crate) fn new(geometry: Geometry) -> PageTables {
        PageTables { shift: geometry.pmd_order, tables: Vec::new(), free: Vec::new(), cleared: Vec::new() }
    }

    /// Notes that `cpu` clears the huge page of `table`, which other CPUs see mapped from `until` on. No
    /// CPU's clock is before `began` any more.
    pub(crate) fn note_cleared(&mut self, table: TableId, cpu: Cpu, began: Time, until: Time) {
        self.cleared.retain(|&(other, until)| other != table && until > began);
        self.cleared.push((table, until));
        self.tables[table.0 as usize].cleared_by = Some(cpu);
    }

    /// The CPU that is clearing the huge page of `table` at `now`, and until when; `None` if that is `cpu`
    /// itself.
    pub(crate) fn cleared_by_another(&self, table: TableId, cpu: Cpu, now: Time) -> Option<(Cpu, Time)> {
        let by = self[table].cleared_by.filter(|&by| by != cpu)?;
        let &(_, until) = self.cleared.iter().find(|&&(other, until)| other == table && now < until)?;
        Some((by, until))
    }

    /// An entry packed into 32 bits, as a folio stores it.
    #[inline]
    pub(crate) fn slot(&self, number: PteNumber) -> u32 {
        number.table.0 << self.shift | number.place
    }

    /// The entry that a folio's slot names.
    #[inline]
    pub(crate) fn at_slot(&self, slot: u32) -> PteNumber {
        PteNumber { table: TableId(slot >> self.shift), place: slot & ((1 << self.shift) - 1) }
    }

    /// Creates an empty table of `mm` for the range that starts at `first`, in a ring of its own. `is_huge`:
    /// with a huge entry instead of PTEs.
    pub(crate) fn create(&mut self, mm: MmId, first: Vpn, is_huge: bool) -> TableId {
        let id = self.free.pop().unwrap_or(TableId(self.tables.len() as u32));
        let pages = 1 << self.shift;
        let (stored, entries) = match is_huge {
            true => (no_bits(pages), Box::default()),
            false => (Box::default(), vec![Pte::NONE; pages as usize].into()),
        };
        let table = PageTable {
            mm,
            first,
            sibling: id,
            young: false,
            cleared_by: None,
            version: 0,
            pages,
            huge: Pte::NONE,
            stored,
            entries,
        };
        match self.tables.get_mut(id.0 as usize) {
            Some(place) => *place = PageTable { version: place.version.wrapping_add(1), ..table },
            None => self.tables.push(table),
        }
        id
    }

    /// Prefetches an entry into the host's cache.
    #[inline]
    pub(crate) fn prefetch(&self, number: PteNumber) {
        prefetch_index(&self.tables[number.table().index()].entries, number.place());
    }

    /// Notes that the program stored to the page of an entry.
    #[inline]
    pub(crate) fn note_store(&mut self, number: PteNumber) {
        let (table, place) = (&mut self.tables[number.table().index()], number.place());
        match table.entries.get_mut(place) {
            Some(entry) => entry.set(Pte::STORED),
            None => table.stored[place / 64] |= 1 << (place % 64),
        }
    }

    /// Adds `table`, which is alone in its ring, to the ring of `other`, with the same pages stored to.
    pub(crate) fn join(&mut self, other: TableId, table: TableId) {
        self[table].stored = self[other].stored.clone();
        self[table].sibling = std::mem::replace(&mut self[other].sibling, table);
    }

    /// The tables of a ring, starting with `table`.
    pub(crate) fn ring(&self, table: TableId) -> impl Iterator<Item = TableId> + use<'_> {
        let next = move |&at: &TableId| Some(self[at].sibling).filter(|&sibling| sibling != table);
        std::iter::successors(Some(table), next)
    }

    /// Frees a table whose entries are all empty.
    pub(crate) fn delete(&mut self, table: TableId) {
        debug_assert!(self[table].entries.iter().all(|&entry| entry == Pte::NONE));
        debug_assert_eq!(self[table].huge, Pte::NONE);
        let before = self.ring(table).last().expect("a ring has its own table");
        self[before].sibling = self[table].sibling;
        self[table].mm = MmId::NONE;
        self.free.push(table);
    }

    /// The entries of a ring that map a folio of `pages` pages; `number` is or was one of them.
    pub(crate) fn mappings(
        &self,
        number: PteNumber,
        id: FolioId,
        pages: u64,
    ) -> impl Iterator<Item = PteNumber> + use<'_> {
        let first = number.place() & !(pages as usize - 1);
        let places = first..first + pages as usize;
        let entries = self
            .ring(number.table())
            .flat_map(move |table| self[table].places(places.clone()).map(move |place| table.entry(place)));
        entries.filter(move |&entry| self[entry].folio() == Some(id))
    }

    /// All tables in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TableId, &PageTable)> {
        let used = self.tables.iter().enumerate().filter(|(_, table)| table.mm != MmId::NONE);
        used.map(|(id, table)| (TableId(id as u32), table))
    }
}

/// The page tables of one address space: for each GiB (with pages of 4 KiB) an array of its tables, like a
/// PMD table.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// log2 of the number of entries in a table of any level.
    shift: u8,
    /// Sorted by the number of the first table.
    tables: Vec<(u64, Box<[TableId]>)>,
}

impl Directory {
    /// No page tables yet.
    pub(crate) fn new(geometry: Geometry) -> Directory {
        Directory { shift: geometry.pmd_order, tables: Vec::new() }
    }

    /// The page table of a page, if it exists.
    #[inline]
    pub(crate) fn table(&self, page: Vpn) -> Option<TableId> {
        let number = page >> self.shift;
        let at = self.tables.partition_point(|(first, _)| *first <= number).checked_sub(1)?;
        let (first, tables) = &self.tables[at];
        let table = *tables.get((number - first) as usize)?;
        (table != TableId::NONE).then_some(table)
    }

    /// The PTE of a page, if its table exists.
    #[inline]
    pub(crate) fn entry(&self, page: Vpn) -> Option<PteNumber> {
        self.table(page).map(|table| self.entry_of(table, page))
    }

    /// The PTE of a page in its table.
    #[inline]
    pub(crate) fn entry_of(&self, table: TableId, page: Vpn) -> PteNumber {
        table.entry(page as usize & ((1 << self.shift) - 1))
    }

    /// Sets or removes the table for a page.
    pub(crate) fn set(&mut self, page: Vpn, table: Option<TableId>) {
        let number = page >> self.shift;
        let first = number >> self.shift << self.shift;
        let at = self.tables.partition_point(|(other, _)| *other < first);
        if self.tables.get(at).is_none_or(|(other, _)| *other != first) {
            self.tables.insert(at, (first, vec![TableId::NONE; 1 << self.shift].into()));
        }
        self.tables[at].1[(number - first) as usize] = table.unwrap_or(TableId::NONE);
    }

    /// Returns the first page table in `pages` with the places of its entries there, and advances `pages`
    /// behind it.
    #[inline]
    pub(crate) fn next_table(&self, pages: &mut Range<Vpn>) -> Option<(TableId, Range<usize>)> {
        if pages.is_empty() {
            return None;
        }
        let span = 1 << self.shift;
        let numbers = pages.start >> self.shift..((pages.end - 1) >> self.shift) + 1;
        let from = self.tables.partition_point(|(first, _)| first + span <= numbers.start);
        for (first, tables) in self.tables[from..].iter().take_while(|(first, _)| *first < numbers.end) {
            let from = (numbers.start.max(*first) - first) as usize;
            let wanted = &tables[from..(numbers.end - first).min(span) as usize];
            let Some(found) = wanted.iter().position(|&table| table != TableId::NONE) else { continue };
            let begin = (first + (from + found) as u64) << self.shift;
            let end = (pages.end - begin).min(span);
            let places = pages.start.saturating_sub(begin) as usize..end as usize;
            pages.start = begin + end;
            return Some((wanted[found], places));
        }
        None
    }

    /// The page tables in `pages` in order, each with the places of its entries there.
    pub(crate) fn tables(
        &self,
        mut pages: Range<Vpn>,
    ) -> impl Iterator<Item = (TableId, Range<usize>)> + use<'_> {
        std::iter::from_fn(move || self.next_table(&mut pages))
    }
}

const _: () = assert!(size_of::<Pte>() == 8);
