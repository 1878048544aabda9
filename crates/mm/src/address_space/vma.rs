//! VMAs: ranges of an address space with the same backing, protection and advice.
//!
//! ```text
//!   ├── text ──┤├ data ┤        ├──── heap ────┤                  ├ stack ┤
//!     file r-x   file rw-         anonymous rw-   ◄─ mprotect splits it, equal neighbours are merged again
//! ```
//!
//! In the kernel: `struct vm_area_struct`, mm/mmap.c, mm/vma.c. Two adjacent VMAs are merged if all their
//! properties are equal; the kernel also requires compatible `anon_vma`s.

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

/// What a VMA maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Anonymous memory.
    Anonymous,
    /// A file, starting at this page of it.
    File(FileId, u32),
}

/// Flags of a VMA (`vm_flags_t`).
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
    /// `VM_LOCKED`, `mlock`.
    pub const LOCKED: VmFlags = VmFlags(1 << 8);
    /// `VM_UFFD_WP`: a userfaultfd handles stores to protected pages.
    pub const UFFD_WP: VmFlags = VmFlags(1 << 9);
    /// Unpopulated pages of the VMA are write-protected by a userfaultfd. Kernels mark single PTEs
    /// (`PTE_MARKER_UFFD_WP`); here the marked range is a VMA of its own, which no folio crosses.
    pub const UFFD_WP_ENTRIES: VmFlags = VmFlags(1 << 10);
    /// `VM_STACK_INCOMPLETE_SETUP`: the stack of a program during exec, which will be moved.
    pub const STACK_INCOMPLETE: VmFlags = VmFlags(1 << 11);
    /// Readable, writable and private.
    pub const PRIVATE: VmFlags = VmFlags::READ.or(VmFlags::WRITE);

    /// The union of both sets.
    pub const fn or(self, flags: VmFlags) -> VmFlags {
        VmFlags(self.0 | flags.0)
    }

    /// The flags without `flags`.
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

/// A VMA (`struct vm_area_struct`). It fits in one cache line, as there may be thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Vma {
    /// First page.
    pub start: Vpn,
    /// The page after the last.
    pub end: Vpn,
    /// What it maps; of a file, the page at `start`.
    pub backing: Backing,
    pub flags: VmFlags,
    /// It has had anonymous pages (`vma->anon_vma`), so fork copies its PTEs.
    pub(crate) has_anon: bool,
    /// Its NUMA memory policy, if one was set (`vma->vm_policy`).
    pub(crate) policy: Option<Box<Mempolicy>>,
    /// Its swap readahead state (`swap_readahead_info`). Both pieces of a cut VMA keep it; for merges see
    /// [`Survivor`].
    pub(crate) swap_ra: SwapRa,
}

impl Vma {
    pub fn pages(&self) -> Range<Vpn> {
        self.start..self.end
    }

    /// Whether stores copy pages instead of reaching a file or other processes (`is_cow_mapping`).
    pub fn is_private(&self) -> bool {
        !self.flags.has(VmFlags::SHARED)
    }

    /// The LRU type of most of its pages.
    pub fn lru_type(&self) -> LruType {
        match self.backing {
            Backing::Anonymous => LruType::Anon,
            Backing::File(..) => LruType::File,
        }
    }

    /// The file page mapped at `page`.
    pub(crate) fn file_page(&self, page: Vpn) -> Option<(FileId, u32)> {
        match self.backing {
            Backing::Anonymous => None,
            Backing::File(file, first) => Some((file, first + (page - self.start) as u32)),
        }
    }

    /// The part of the VMA that covers `pages`.
    fn part(&self, pages: Range<Vpn>) -> Vma {
        let backing = match self.backing {
            Backing::Anonymous => Backing::Anonymous,
            Backing::File(file, first) => Backing::File(file, first + (pages.start - self.start) as u32),
        };
        Vma { start: pages.start, end: pages.end, backing, ..self.clone() }
    }

    /// Whether `next` continues this VMA with equal properties, so that they can be merged.
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

/// The number of a VMA, valid as long as the VMA exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VmaId(pub(super) u32);

/// Which of two merged VMAs the kernel keeps and extends: the first, unless the first is the one just mapped
/// or changed and no VMA before it absorbs it. The survivor's NUMA scan state and swap readahead state
/// remain.
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

/// The VMAs of an address space.
///
/// ```text
///   tree     │ page 0, #2 │ page 16, #0 │ page 64, #3 │
///   areas    │ #0 │ #1: free │ #2 │ #3 │
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vmas {
    /// Numbers of VMAs, by address.
    tree: MapleTree,
    /// VMAs by number; removed ones are empty.
    areas: Vec<Vma>,
    /// NUMA scan state by VMA number (`numab_state`), for VMAs that scanning has seen. [`Stays`] and
    /// [`Survivor`] say which VMA keeps it after a cut or merge.
    numab: Vec<Option<NumabState>>,
    free: Vec<VmaId>,
    /// The VMA found or made last, as a cache: programs mostly stay in one VMA for a while.
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
    /// The VMA at a position.
    #[inline]
    pub(crate) fn at(&self, at: Cursor) -> Option<&Vma> {
        self.tree.get(at).map(|slot| &self[slot.id])
    }

    /// The next position.
    pub(crate) fn after(&self, at: Cursor) -> Cursor {
        self.tree.after(at)
    }

    /// The number of the VMA that contains `page`.
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

    /// The VMA that contains `page` (`vma_lookup`).
    #[inline]
    pub fn find(&self, page: Vpn) -> Option<&Vma> {
        self.find_id(page).map(|id| &self[id])
    }

    /// Like [`Vmas::find`], mutable.
    pub(crate) fn find_mut(&mut self, page: Vpn) -> Option<&mut Vma> {
        self.find_id(page).map(|id| &mut self[id])
    }

    /// The VMAs in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Vma> {
        self.iter_from(MapleTree::FIRST)
    }

    fn iter_from(&self, at: Cursor) -> impl Iterator<Item = &Vma> {
        self.tree.iter_from(at).map(|id| &self[id])
    }

    /// Whether there is a VMA at the position that starts before `page`.
    #[inline]
    pub(crate) fn begins_before(&self, at: Cursor, page: Vpn) -> bool {
        self.start(at).is_some_and(|start| start < page)
    }

    /// The position of the first VMA that ends after `page`.
    fn first_after(&self, page: Vpn) -> Cursor {
        let Some(at) = self.tree.at_or_before(page) else { return MapleTree::FIRST };
        if self.at(at).is_some_and(|vma| page < vma.end) { at } else { self.after(at) }
    }

    /// The position of the first VMA that overlaps `pages`; `None` for an empty range, even inside a VMA:
    /// `mprotect`, `munmap` and the like do nothing if their length is 0.
    pub(crate) fn first_in(&self, pages: &Range<Vpn>) -> Option<Cursor> {
        if pages.is_empty() {
            return None;
        }
        let at = self.first_after(pages.start);
        self.begins_before(at, pages.end).then_some(at)
    }

    /// The VMAs that end after `page`, in the order of addresses.
    pub fn from(&self, page: Vpn) -> impl Iterator<Item = &Vma> {
        self.iter_from(self.first_after(page))
    }

    /// The NUMA scan state of the VMA that contains `page`; `None` if scanning has not seen it.
    pub fn numab(&self, page: Vpn) -> Option<NumabState> {
        let id = self.find_id(page)?;
        self.numab.get(id.0 as usize).copied().flatten()
    }

    /// The NUMA scan state of a VMA by number, mutable.
    pub(crate) fn numab_mut(&mut self, id: VmaId) -> &mut Option<NumabState> {
        if self.numab.len() < self.areas.len() {
            self.numab.resize(self.areas.len(), None);
        }
        &mut self.numab[id.0 as usize]
    }

    /// The VMAs of a forked child: none has NUMA scan state, and none is locked (`dup_mmap`).
    pub(crate) fn for_child(mut self) -> Vmas {
        self.numab.clear();
        for vma in &mut self.areas {
            vma.flags = vma.flags.without(VmFlags::LOCKED);
        }
        self
    }

    /// Number of VMAs.
    pub fn len(&self) -> usize {
        self.areas.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The page after the last VMA.
    pub fn end(&self) -> Vpn {
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

    /// Removes the VMA at a position. Returns the position of the next one.
    fn forget(&mut self, at: Cursor) -> Cursor {
        if let Some(Slot { start, id }) = self.tree.get(at) {
            self[id].end = start;
            self.free.push(id);
        }
        self.tree.remove(at)
    }

    /// Cuts the VMA at a position in two if `page` is inside it (`__split_vma`). Returns the position of the
    /// second piece.
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

    /// Merges the VMA at a position into the one before it if their properties are equal (`vma_merge`).
    /// Returns its position then.
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

    /// Adds a VMA to an unmapped range and merges it with equal neighbours.
    pub(crate) fn insert(&mut self, vma: Vma) {
        debug_assert!(vma.start < vma.end && self.first_in(&vma.pages()).is_none());
        let at = self.add(vma);
        self.join(self.after(at), Survivor::Second);
        self.join(at, Survivor::First);
    }

    /// Removes all VMAs in `pages`, the first of which is at `first`, cutting those that cross either end and
    /// calling `gone` with each. `stays` says which piece of a VMA cut at the start remains the original.
    /// Returns the position of the first VMA behind.
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

    /// Cuts off the part of the VMA at a position from `page` on. Returns the position of the first piece.
    fn without_rest(&mut self, at: Cursor, page: Vpn, stays: Stays) -> Cursor {
        let rest = self.cut(at, page, stays);
        rest.map_or(at, |rest| self.tree.before(rest).expect("the piece before the cut"))
    }

    /// The first page of the VMA at a position.
    #[inline]
    pub(crate) fn start(&self, at: Cursor) -> Option<Vpn> {
        self.tree.get(at).map(|slot| slot.start)
    }

    /// The end of the VMA before a position.
    pub(crate) fn end_before(&self, at: Cursor) -> Option<Vpn> {
        self.at(self.tree.before(at)?).map(|vma| vma.end)
    }

    /// Applies `change` to all VMAs in `pages`, cutting those that cross either end and merging those that
    /// become equal. No page is changed twice.
    pub(crate) fn change(&mut self, pages: Range<Vpn>, change: impl Fn(&mut Vma)) {
        let Some(mut at) = self.first_in(&pages) else { return };
        while self.begins_before(at, pages.end) {
            at = self.modify(at, &pages, &change);
        }
    }

    /// Applies `change` to the part of the VMA at a position that is in `pages` (`vma_modify`). Returns the
    /// position of the next VMA. If the changed part equals an adjacent VMA, that VMA absorbs it, and the
    /// rest stays the original.
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
