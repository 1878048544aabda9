//! Areas of an address space: what is mapped where, and how it may be used.
//!
//! ```text
//!   ├── text ──┤├ data ┤        ├──── heap ────┤                  ├ stack ┤
//!     file r-x   file rw-         anonymous rw-   ◄─ mprotect cuts, equal neighbours become one again
//! ```
//!
//! In the kernel: `struct vm_area_struct`, mm/mmap.c, mm/vma.c. Two neighbours become one if everything that an area says
//! of itself is equal; the kernel asks besides whether their pages are found in the same way (`anon_vma`).

use super::Vpn;
use crate::numa::migrate::policy::Mempolicy;
use crate::numa::scan::NumabState;
use crate::swapfile::readahead::policy::SwapRa;
use crate::workingset::LruType;
use crate::xarray::FileId;
use std::cell::Cell;
use std::ops::Range;

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Memory of its own.
    Anonymous,
    /// A file, from this page on.
    File(FileId, u32),
}

/// How an area may be used, bit by bit (`vm_flags_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmFlags(u32);

impl VmFlags {
    /// `VM_READ`.
    pub const READ: VmFlags = VmFlags(1 << 0);
    /// `VM_WRITE`.
    pub const WRITE: VmFlags = VmFlags(1 << 1);
    /// `VM_EXEC`.
    pub const EXEC: VmFlags = VmFlags(1 << 2);
    /// `VM_SHARED`: stores go to the file.
    pub const SHARED: VmFlags = VmFlags(1 << 3);
    /// `VM_RAND_READ`, `MADV_RANDOM`.
    pub const RAND_READ: VmFlags = VmFlags(1 << 4);
    /// `VM_SEQ_READ`, `MADV_SEQUENTIAL`.
    pub const SEQ_READ: VmFlags = VmFlags(1 << 5);
    /// `VM_HUGEPAGE`, `MADV_HUGEPAGE`.
    pub const HUGEPAGE: VmFlags = VmFlags(1 << 6);
    /// `VM_NOHUGEPAGE`, `MADV_NOHUGEPAGE`.
    pub const NOHUGEPAGE: VmFlags = VmFlags(1 << 7);
    /// `VM_LOCKED`, `mlock`: its memory stays.
    pub const LOCKED: VmFlags = VmFlags(1 << 8);
    /// Read and write, of one's own.
    pub const PRIVATE: VmFlags = VmFlags::READ.or(VmFlags::WRITE);

    /// Both.
    pub const fn or(self, flags: VmFlags) -> VmFlags {
        VmFlags(self.0 | flags.0)
    }

    /// All but `flags`.
    pub const fn without(self, flags: VmFlags) -> VmFlags {
        VmFlags(self.0 & !flags.0)
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has(self, flags: VmFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub const fn any(self, flags: VmFlags) -> bool {
        self.0 & flags.0 != 0
    }
}

/// An area of an address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// Its first page.
    pub start: Vpn,
    /// The page after its last.
    pub end: Vpn,
    /// What is mapped; of a file, what its first page is.
    pub backing: Backing,
    /// How it may be used.
    pub flags: VmFlags,
    /// It has had anonymous pages (`vma->anon_vma`), so a fork copies its entries.
    pub(crate) has_anon: bool,
    /// What NUMA scanning knows of it (`numab_state`): nothing where it was cut off another, the first one's where two
    /// became one.
    pub(crate) numab: Option<NumabState>,
    /// Where its pages are to be, if that was set (`vma->vm_policy`).
    pub(crate) policy: Option<Mempolicy>,
    /// What has been read of it from swap. A piece that is cut off begins with as much, and of two that become one the
    /// first one's stays.
    pub(crate) swap_ra: SwapRa,
}

impl Vma {
    /// Its pages.
    pub fn pages(&self) -> Range<Vpn> {
        self.start..self.end
    }

    /// Stores make pages of its own (`is_cow_mapping`).
    pub fn is_private(&self) -> bool {
        !self.flags.has(VmFlags::SHARED)
    }

    /// Whose lists most of its pages are on.
    pub fn lru_type(&self) -> LruType {
        match self.backing {
            Backing::Anonymous => LruType::Anon,
            Backing::File(..) => LruType::File,
        }
    }

    /// The page of its file that is mapped at `page`.
    pub(crate) fn file_page(&self, page: Vpn) -> Option<(FileId, u32)> {
        match self.backing {
            Backing::Anonymous => None,
            Backing::File(file, first) => Some((file, first + (page - self.start) as u32)),
        }
    }

    /// The part of it from `page` on, and cuts that off.
    fn split_off(&mut self, page: Vpn) -> Vma {
        let backing = match self.backing {
            Backing::Anonymous => Backing::Anonymous,
            Backing::File(file, first) => Backing::File(file, first + (page - self.start) as u32),
        };
        let rest = Vma { start: page, backing, numab: None, ..self.clone() };
        self.end = page;
        rest
    }

    /// Whether `next` goes on where it ends, in every respect.
    fn continues_in(&self, next: &Vma) -> bool {
        let backing = match (self.backing, next.backing) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (Backing::File(..), Backing::File(file, first)) => {
                self.file_page(self.end) == Some((file, first))
            }
            _ => false,
        };
        backing && self.end == next.start && self.flags == next.flags && self.policy == next.policy
    }
}

/// Where an area begins, and its number.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: Vpn,
    number: u32,
}

/// The areas of an address space, in the order of addresses.
///
/// ```text
///   order    │ page 0, #2 │ page 16, #0 │ page 64, #3 │      an area that comes or goes moves all behind it, so this is short
///   areas    │ #0 │ #1: free │ #2 │ #3 │
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vmas {
    order: Vec<Place>,
    /// By number, those that are gone among them.
    areas: Vec<Vma>,
    free: Vec<u32>,
    /// Which was found last, if it is still there: a fault looks for the same one several times.
    last: Cell<usize>,
}

impl Vmas {
    /// Where the first area is that begins at `page` or later.
    fn first_from(&self, page: Vpn) -> usize {
        self.order.partition_point(|place| place.start < page)
    }

    /// Where the area is that `page` is in.
    #[inline]
    fn place(&self, page: Vpn) -> Option<usize> {
        let last = self.last.get();
        if last < self.order.len() && self.area(last).pages().contains(&page) {
            return Some(last);
        }
        let place = self.order.partition_point(|place| place.start <= page).checked_sub(1)?;
        self.last.set(place);
        (page < self.area(place).end).then_some(place)
    }

    #[inline]
    fn area(&self, place: usize) -> &Vma {
        &self.areas[self.order[place].number as usize]
    }

    #[inline]
    fn area_mut(&mut self, place: usize) -> &mut Vma {
        &mut self.areas[self.order[place].number as usize]
    }

    fn add(&mut self, place: usize, vma: Vma) {
        let start = vma.start;
        let number = match self.free.pop() {
            Some(number) => {
                self.areas[number as usize] = vma;
                number
            }
            None => {
                self.areas.push(vma);
                self.areas.len() as u32 - 1
            }
        };
        self.order.insert(place, Place { start, number });
    }

    /// The areas at some places, which are there no more.
    fn take(&mut self, places: Range<usize>) -> Vec<Vma> {
        let Vmas { order, areas, free, .. } = self;
        let gone = order.drain(places).map(|place| {
            free.push(place.number);
            areas[place.number as usize].clone()
        });
        gone.collect()
    }

    /// The area that `page` is in (`vma_lookup`).
    #[inline]
    pub fn find(&self, page: Vpn) -> Option<&Vma> {
        self.place(page).map(|place| self.area(place))
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, page: Vpn) -> Option<&mut Vma> {
        self.place(page).map(|place| self.area_mut(place))
    }

    /// The areas, in the order of addresses.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Vma> {
        self.order.iter().map(|place| &self.areas[place.number as usize])
    }

    /// The areas that end after `page`, in the order of addresses.
    pub fn from(&self, page: Vpn) -> impl Iterator<Item = &Vma> {
        let first = self.place(page).unwrap_or_else(|| self.first_from(page));
        self.order[first..].iter().map(|place| &self.areas[place.number as usize])
    }

    /// The one that starts at `page`.
    pub(crate) fn at_mut(&mut self, page: Vpn) -> Option<&mut Vma> {
        self.find_mut(page).filter(|vma| vma.start == page)
    }

    /// The same for a child: NUMA scanning has met none of them, and none is locked in memory (`dup_mmap`).
    pub(crate) fn for_child(mut self) -> Vmas {
        for vma in &mut self.areas {
            vma.numab = None;
            vma.flags = vma.flags.without(VmFlags::LOCKED);
        }
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The page after the last area.
    pub(crate) fn end(&self) -> Vpn {
        self.iter().next_back().map_or(0, |vma| vma.end)
    }

    /// Makes an area begin at `page` if one goes across it.
    fn cut(&mut self, page: Vpn) {
        let Some(place) = self.place(page).filter(|&place| self.order[place].start < page) else { return };
        let rest = self.area_mut(place).split_off(page);
        self.add(place + 1, rest);
    }

    /// Adds an area where there is none, as one with its neighbours if they are equal.
    pub(crate) fn insert(&mut self, vma: Vma) {
        debug_assert!(vma.start < vma.end && self.from(vma.start).all(|other| other.start >= vma.end));
        let Vma { start, end, .. } = vma;
        self.add(self.first_from(start), vma);
        self.join(start);
        self.join(end);
    }

    /// Makes one of the areas that meet at `page` if they are equal (`vma_merge`).
    fn join(&mut self, page: Vpn) {
        let Some(before) = page.checked_sub(1).and_then(|last| self.place(last)) else { return };
        let after = before + 1;
        if after < self.order.len() && self.area(before).continues_in(self.area(after)) {
            for Vma { end, has_anon, .. } in self.take(after..after + 1) {
                let before = self.area_mut(before);
                before.end = end;
                before.has_anon |= has_anon;
            }
        }
    }

    /// Takes out all that lies in `pages`, cutting areas at both ends.
    pub(crate) fn remove(&mut self, pages: Range<Vpn>) -> Vec<Vma> {
        self.cut(pages.start);
        self.cut(pages.end);
        self.take(self.first_from(pages.start)..self.first_from(pages.end))
    }

    /// Changes all that lies in `pages`, cutting areas at both ends and joining those that have become equal.
    pub(crate) fn change(&mut self, pages: Range<Vpn>, change: impl Fn(&mut Vma)) {
        self.cut(pages.start);
        self.cut(pages.end);
        let mut borders = vec![pages.end];
        for place in self.first_from(pages.start)..self.first_from(pages.end) {
            let vma = self.area_mut(place);
            change(vma);
            borders.push(vma.start);
        }
        borders.sort_unstable();
        borders.into_iter().for_each(|border| self.join(border));
    }
}
