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
use super::maple_tree::{Cursor, MapleTree, Slot};
use super::policy::Stays;
use crate::lru::mmzone::LruType;
use crate::numa::migrate::policy::Mempolicy;
use crate::numa::scan::NumabState;
use crate::page_cache::xarray::FileId;
use crate::swapfile::readahead::policy::SwapRa;
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
    /// `VM_UFFD_WP`: a userfaultfd is told of stores to protected pages.
    pub const UFFD_WP: VmFlags = VmFlags(1 << 9);
    /// Pages that are not there carry the mark of such a protection in their entries. Kernels mark entry by entry; here what is
    /// marked is an area of its own, and no folio reaches across either way.
    pub const UFFD_WP_ENTRIES: VmFlags = VmFlags(1 << 10);
    /// `VM_STACK_INCOMPLETE_SETUP`: the stack of a program that exec still builds, and moves.
    pub const STACK_INCOMPLETE: VmFlags = VmFlags(1 << 11);
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

/// An area of an address space: a line of the cache, as there may be thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
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
    /// Where its pages are to be, if that was set (`vma->vm_policy`).
    pub(crate) policy: Option<Box<Mempolicy>>,
    /// What has been read of it from swap. A piece that is cut off begins with as much; of two that become one see
    /// [`Survivor`].
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

    /// The part of it that has `pages`.
    fn part(&self, pages: Range<Vpn>) -> Vma {
        let backing = match self.backing {
            Backing::Anonymous => Backing::Anonymous,
            Backing::File(file, first) => Backing::File(file, first + (pages.start - self.start) as u32),
        };
        Vma { start: pages.start, end: pages.end, backing, ..self.clone() }
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

/// An area by number, as long as it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VmaId(pub(super) u32);

/// Which of two areas that become one the kernel keeps and extends: the first one, unless that is the one that was mapped or
/// changed just now and nothing before it takes it in. What is known of scanning and of reads from swap is the survivor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survivor {
    First,
    Second,
}

impl Survivor {
    fn of(is_second: bool) -> Survivor {
        if is_second { Survivor::Second } else { Survivor::First }
    }
}

/// The areas of an address space.
///
/// ```text
///   tree     │ page 0, #2 │ page 16, #0 │ page 64, #3 │
///   areas    │ #0 │ #1: free │ #2 │ #3 │
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vmas {
    /// In the order of addresses.
    tree: MapleTree,
    /// By number; those that are gone are empty.
    areas: Vec<Vma>,
    /// What NUMA scanning knows of them (`numab_state`), by number, as far as it has met any. Where one is cut or two become one,
    /// [`Stays`] and [`Survivor`] say whose it is.
    numab: Vec<Option<NumabState>>,
    free: Vec<VmaId>,
    /// Which was found or made last: a program mostly stays in an area for a while.
    last: Cell<VmaId>,
}

impl std::ops::Index<VmaId> for Vmas {
    type Output = Vma;
    #[inline]
    fn index(&self, id: VmaId) -> &Vma {
        &self.areas[id.0 as usize]
    }
}

impl std::ops::IndexMut<VmaId> for Vmas {
    #[inline]
    fn index_mut(&mut self, id: VmaId) -> &mut Vma {
        &mut self.areas[id.0 as usize]
    }
}

impl Vmas {
    /// The area at a place.
    #[inline]
    pub(crate) fn at(&self, at: Cursor) -> Option<&Vma> {
        self.tree.get(at).map(|slot| &self[slot.id])
    }

    /// The next place.
    pub(crate) fn after(&self, at: Cursor) -> Cursor {
        self.tree.after(at)
    }

    /// The number of the area that `page` is in.
    #[inline]
    pub(crate) fn find_id(&self, page: Vpn) -> Option<VmaId> {
        let last = self.last.get();
        if self.areas.get(last.0 as usize).is_some_and(|vma| vma.pages().contains(&page)) {
            return Some(last);
        }
        let id = self.tree.get(self.tree.at_or_before(page)?)?.id;
        self.last.set(id);
        (page < self[id].end).then_some(id)
    }

    /// The area that `page` is in (`vma_lookup`).
    #[inline]
    pub fn find(&self, page: Vpn) -> Option<&Vma> {
        self.find_id(page).map(|id| &self[id])
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, page: Vpn) -> Option<&mut Vma> {
        self.find_id(page).map(|id| &mut self[id])
    }

    /// The areas, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Vma> {
        self.iter_from(MapleTree::FIRST)
    }

    fn iter_from(&self, at: Cursor) -> impl Iterator<Item = &Vma> {
        self.tree.iter_from(at).map(|id| &self[id])
    }

    /// Whether there is an area at a place that begins before `page`.
    #[inline]
    pub(crate) fn begins_before(&self, at: Cursor, page: Vpn) -> bool {
        self.start(at).is_some_and(|start| start < page)
    }

    /// Where the first area is that ends after `page`.
    fn first_after(&self, page: Vpn) -> Cursor {
        let Some(at) = self.tree.at_or_before(page) else { return MapleTree::FIRST };
        if self.at(at).is_some_and(|vma| page < vma.end) { at } else { self.after(at) }
    }

    /// Where the first area is that has some of `pages`. Of no pages none has any: `mprotect`, `munmap` and the like change
    /// nothing where their length is 0, not even when they begin in the middle of an area.
    pub(crate) fn first_in(&self, pages: &Range<Vpn>) -> Option<Cursor> {
        if pages.is_empty() {
            return None;
        }
        let at = self.first_after(pages.start);
        self.begins_before(at, pages.end).then_some(at)
    }

    /// The areas that end after `page`, in the order of addresses.
    pub fn from(&self, page: Vpn) -> impl Iterator<Item = &Vma> {
        self.iter_from(self.first_after(page))
    }

    /// What NUMA scanning knows of the area that `page` is in; nothing where it has not met it.
    pub fn numab(&self, page: Vpn) -> Option<NumabState> {
        let id = self.find_id(page)?;
        self.numab.get(id.0 as usize).copied().flatten()
    }

    /// The same of an area by number, to be changed.
    pub(crate) fn numab_mut(&mut self, id: VmaId) -> &mut Option<NumabState> {
        if self.numab.len() < self.areas.len() {
            self.numab.resize(self.areas.len(), None);
        }
        &mut self.numab[id.0 as usize]
    }

    /// The same for a child: NUMA scanning has met none of them, and none is locked in memory (`dup_mmap`).
    pub(crate) fn for_child(mut self) -> Vmas {
        self.numab.clear();
        for vma in &mut self.areas {
            vma.flags = vma.flags.without(VmFlags::LOCKED);
        }
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.areas.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The page after the last area.
    pub(crate) fn end(&self) -> Vpn {
        let last = self.tree.at_or_before(Vpn::MAX);
        last.and_then(|last| self.at(last)).map_or(0, |vma| vma.end)
    }

    fn add(&mut self, vma: Vma) -> Cursor {
        let id = self.free.pop().unwrap_or(VmaId(self.areas.len() as u32));
        let slot = Slot { start: vma.start, id };
        if let Some(numab) = self.numab.get_mut(id.0 as usize) {
            *numab = None;
        }
        match self.areas.get_mut(id.0 as usize) {
            Some(place) => *place = vma,
            None => self.areas.push(vma),
        }
        self.last.set(id);
        self.tree.insert(slot)
    }

    /// Forgets the area at a place; where the next one is then.
    fn forget(&mut self, at: Cursor) -> Cursor {
        if let Some(Slot { start, id }) = self.tree.get(at) {
            self[id].end = start;
            self.free.push(id);
        }
        self.tree.remove(at)
    }

    /// Cuts the area at a place in two if it goes across `page`; where the second one is.
    fn cut(&mut self, at: Cursor, page: Vpn, stays: Stays) -> Option<Cursor> {
        let id = self.tree.get(at)?.id;
        let Range { start, end } = self[id].pages();
        (start < page && page < end).then(|| {
            let above = self[id].part(page..end);
            self[id].end = page;
            let above = self.add(above);
            if stays == Stays::Above
                && let Some(record) = self.numab.get_mut(id.0 as usize).and_then(Option::take)
                && let Some(slot) = self.tree.get(above)
            {
                *self.numab_mut(slot.id) = Some(record);
            }
            above
        })
    }

    /// Makes the area at a place one with the one before it if they are equal (`vma_merge`); where it is then.
    fn join(&mut self, at: Cursor, survivor: Survivor) -> Cursor {
        let (Some(before), Some(slot)) = (self.tree.before(at), self.tree.get(at)) else { return at };
        let Some(Slot { id, .. }) = self.tree.get(before) else { return at };
        if !self[id].continues_in(&self[slot.id]) {
            return at;
        }
        let Vma { end, has_anon, swap_ra, .. } = self[slot.id];
        self[id].end = end;
        self[id].has_anon |= has_anon;
        if survivor == Survivor::Second {
            self[id].swap_ra = swap_ra;
            *self.numab_mut(id) = *self.numab_mut(slot.id);
        }
        self.forget(at);
        before
    }

    /// Adds an area where there is none, as one with its neighbours if they are equal.
    pub(crate) fn insert(&mut self, vma: Vma) {
        debug_assert!(vma.start < vma.end && self.first_in(&vma.pages()).is_none());
        let at = self.add(vma);
        self.join(self.after(at), Survivor::Second);
        self.join(at, Survivor::First);
    }

    /// Takes out all that lies in `pages`, whose first area is at a place, cutting areas at both ends; `stays` says whose the part
    /// before them is. Where the first one behind them is.
    pub(crate) fn remove(
        &mut self,
        first: Cursor,
        pages: &Range<Vpn>,
        stays: Stays,
        mut gone: impl FnMut(&Vma),
    ) -> Cursor {
        let mut at = self.cut(first, pages.start, stays).unwrap_or(first);
        while self.begins_before(at, pages.end) {
            at = self.without_rest(at, pages.end, Stays::Below);
            self.at(at).into_iter().for_each(&mut gone);
            at = self.forget(at);
        }
        at
    }

    /// The area at a place, without what it has from `page` on; where it is.
    fn without_rest(&mut self, at: Cursor, page: Vpn, stays: Stays) -> Cursor {
        let rest = self.cut(at, page, stays);
        rest.map_or(at, |rest| self.tree.before(rest).expect("what was cut off lies behind the rest"))
    }

    /// The page at which the area at a place begins.
    #[inline]
    pub(crate) fn start(&self, at: Cursor) -> Option<Vpn> {
        self.tree.get(at).map(|slot| slot.start)
    }

    /// The page at which the area before a place ends.
    pub(crate) fn end_before(&self, at: Cursor) -> Option<Vpn> {
        self.at(self.tree.before(at)?).map(|vma| vma.end)
    }

    /// Changes all that lies in `pages`, cutting areas at both ends and joining those that have become equal. What has changed
    /// once does not change again.
    pub(crate) fn change(&mut self, pages: Range<Vpn>, change: impl Fn(&mut Vma)) {
        let Some(mut at) = self.first_in(&pages) else { return };
        while self.begins_before(at, pages.end) {
            at = self.modify(at, &pages, &change);
        }
    }

    /// Changes what lies in `pages` of the area at a place (`vma_modify`); where the next one is. An area that the changed part
    /// becomes equal to and lies beside takes it in, and the rest stays as it was.
    fn modify(&mut self, at: Cursor, pages: &Range<Vpn>, change: impl Fn(&mut Vma)) -> Cursor {
        let Some(vma) = self.at(at) else { return at };
        let part = vma.start.max(pages.start)..vma.end.min(pages.end);
        let mut changed = vma.part(part.clone());
        change(&mut changed);
        if (changed.flags, &changed.policy) == (vma.flags, &vma.policy) {
            return self.after(at);
        }
        let before = self.tree.before(at).and_then(|before| self.at(before));
        let joins_before =
            part.start == vma.start && before.is_some_and(|before| before.continues_in(&changed));
        let joins_next =
            part.end == vma.end && self.at(self.after(at)).is_some_and(|next| changed.continues_in(next));
        let (at_start, at_end) = match joins_before || joins_next {
            true => (Stays::Below, Stays::Above),
            false => (Stays::Above, Stays::Below),
        };
        let at = self.cut(at, part.start, at_start).unwrap_or(at);
        let at = self.without_rest(at, part.end, at_end);
        if let Some(Slot { id, .. }) = self.tree.get(at) {
            self[id] = changed;
        }
        let joined = self.join(at, Survivor::First);
        self.join(self.after(joined), Survivor::of(!joins_before));
        self.after(joined)
    }
}

const _: () = assert!(size_of::<Vma>() == 64);

#[cfg(test)]
mod tests;
