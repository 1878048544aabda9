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
use crate::workingset::LruType;
use crate::xarray::FileId;
use std::cell::Cell;
use std::collections::BTreeMap;
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
    /// Where hint faults may take its pages, if that was set (`vma->vm_policy`).
    pub(crate) policy: Option<Mempolicy>,
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

/// The areas of an address space.
#[derive(Clone, Debug, Default)]
pub struct Vmas {
    by_start: BTreeMap<Vpn, Vma>,
    /// Where the area begins that was found last, if it is still there: a fault looks for the same one several times.
    last: Cell<Vpn>,
}

impl Vmas {
    /// The area that `page` is in (`vma_lookup`).
    pub fn find(&self, page: Vpn) -> Option<&Vma> {
        if let Some(vma) = self.by_start.get(&self.last.get()).filter(|vma| vma.pages().contains(&page)) {
            return Some(vma);
        }
        let vma =
            self.by_start.range(..=page).next_back().map(|(_, vma)| vma).filter(|vma| page < vma.end)?;
        self.last.set(vma.start);
        Some(vma)
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, page: Vpn) -> Option<&mut Vma> {
        let start = self.find(page)?.start;
        self.by_start.get_mut(&start)
    }

    /// The areas, in the order of addresses.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Vma> {
        self.by_start.values()
    }

    /// The areas that end after `page`, in the order of addresses.
    pub fn from(&self, page: Vpn) -> impl Iterator<Item = &Vma> {
        let start = self.find(page).map_or(page, |vma| vma.start);
        self.by_start.range(start..).map(|(_, vma)| vma)
    }

    /// The one that starts at `page`.
    pub(crate) fn at_mut(&mut self, page: Vpn) -> Option<&mut Vma> {
        self.by_start.get_mut(&page)
    }

    /// NUMA scanning has met none of them (`vma_numab_state_init` of each copy).
    pub(crate) fn forget_scans(&mut self) {
        self.by_start.values_mut().for_each(|vma| vma.numab = None);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// The page after the last area.
    pub(crate) fn end(&self) -> Vpn {
        self.by_start.values().next_back().map_or(0, |vma| vma.end)
    }

    /// Makes an area begin at `page` if one goes across it.
    fn cut(&mut self, page: Vpn) {
        if let Some(vma) = self.find_mut(page).filter(|vma| vma.start < page) {
            let rest = vma.split_off(page);
            self.by_start.insert(page, rest);
        }
    }

    /// Adds an area where there is none, as one with its neighbours if they are equal.
    pub(crate) fn insert(&mut self, vma: Vma) {
        debug_assert!(vma.start < vma.end && self.from(vma.start).all(|other| other.start >= vma.end));
        let start = vma.start;
        let end = vma.end;
        self.by_start.insert(start, vma);
        self.join(start);
        self.join(end);
    }

    /// Makes one of the areas that meet at `page` if they are equal (`vma_merge`).
    fn join(&mut self, page: Vpn) {
        let Some(before) = page.checked_sub(1).and_then(|last| self.find(last)) else { return };
        let Some(after) = self.by_start.get(&page).filter(|after| before.continues_in(after)) else { return };
        let (start, end, has_anon) = (before.start, after.end, after.has_anon);
        self.by_start.remove(&page);
        let before = self.by_start.get_mut(&start).expect("it was found");
        before.end = end;
        before.has_anon |= has_anon;
    }

    /// Takes out all that lies in `pages`, cutting areas at both ends.
    pub(crate) fn remove(&mut self, pages: Range<Vpn>) -> Vec<Vma> {
        self.cut(pages.start);
        self.cut(pages.end);
        let starts: Vec<Vpn> = self.by_start.range(pages).map(|(&start, _)| start).collect();
        starts.iter().filter_map(|start| self.by_start.remove(start)).collect()
    }

    /// Changes all that lies in `pages`, cutting areas at both ends and joining those that have become equal.
    pub(crate) fn change(&mut self, pages: Range<Vpn>, change: impl Fn(&mut Vma)) {
        self.cut(pages.start);
        self.cut(pages.end);
        let mut borders = vec![pages.end];
        for (&start, vma) in self.by_start.range_mut(pages) {
            change(vma);
            borders.push(start);
        }
        borders.sort_unstable();
        borders.into_iter().for_each(|border| self.join(border));
    }
}
