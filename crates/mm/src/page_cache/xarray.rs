//! The xarrays of all files: from a file and index to the folio, or to the shadow of an evicted one.
//!
//! ```text
//!   file ─► nodes, by index / 64 ─► slots, by index % 64:   folio │ shadow │ empty       4 bytes
//!                                                                      └─► value         8 more
//!
//!   a node with shadows only is on the list of shadow nodes of the lruvec that it is charged to, oldest
//!   first, from which the shrinker frees them; an empty node is freed at once
//! ```
//!
//! A large folio is in the slots of all its pages, and so is the shadow that it leaves. The kernel has
//! entries of several slots for that, which come to the same.
//!
//! The kernel's tree has as many levels as the largest index needs. Here the level of nodes with 64 slots is
//! directly below the file, as the levels above it take only a few pages of slab. Shadows are stored apart,
//! as most accesses do not meet them. In the kernel: lib/xarray.c, `workingset_update_node` and
//! `scan_shadow_nodes` in mm/workingset.c.

use crate::lru::folio::{FolioFlags, FolioId, Folios, LruvecId};
use crate::vec_growth;
use prefetch_index::prefetch_index;
use std::collections::{BTreeSet, VecDeque};

/// Slots of a node (`XA_CHUNK_SIZE`).
pub const NODE_SLOTS: usize = 64;

/// The number of no node.
const NONE: u32 = u32::MAX;

/// The value of [`Node::listed`] for a node that is not on a list of shadow nodes.
const UNLISTED: u32 = 0;

/// The number of a file, or of another object with numbered pages (`struct address_space`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// The entry of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Neither a folio nor a shadow.
    Empty,
    /// The folio that holds the page.
    Folio(FolioId),
    /// The shadow that the eviction of the page left: 63 bits.
    Shadow(u64),
}

/// The pages of a file that are, or are to be, one folio: `1 << order` of them, `index` being a multiple of
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePages {
    pub file: FileId,
    /// The first page.
    pub index: u32,
    pub order: u8,
}

impl FilePages {
    pub fn single(file: FileId, index: u32) -> FilePages {
        FilePages { file, index, order: 0 }
    }

    /// The indices of the pages.
    pub fn indices(self) -> std::ops::Range<u32> {
        self.index..self.index + (1 << self.order)
    }
}

/// The entry of a slot, packed: 0 if empty, the number of a folio plus 1, or the index of a shadow's value
/// with the highest bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot(u32);

impl Slot {
    const EMPTY: Slot = Slot(0);
    const SHADOW: u32 = 1 << 31;

    #[inline]
    fn of_folio(id: FolioId) -> Slot {
        debug_assert!(id.0 < Slot::SHADOW - 1, "a slot has room for the number of a folio");
        Slot(id.0 + 1)
    }

    #[inline]
    fn folio(self) -> Option<FolioId> {
        (self != Slot::EMPTY && self.0 & Slot::SHADOW == 0).then(|| FolioId(self.0 - 1))
    }

    #[inline]
    fn shadow(self) -> Option<u32> {
        (self.0 & Slot::SHADOW != 0).then_some(self.0 & !Slot::SHADOW)
    }
}

/// The values of all shadows. An unused place holds the index of the next unused one.
#[derive(Clone, Debug, Default)]
struct Shadows {
    values: Vec<u64>,
    free: Option<u32>,
    len: usize,
}

impl Shadows {
    fn put(&mut self, value: u64) -> Slot {
        self.len += 1;
        let index = match self.free {
            Some(index) => {
                self.free = u32::try_from(self.values[index as usize]).ok();
                self.values[index as usize] = value;
                index
            }
            None => {
                vec_growth::reserve(&mut self.values, 1);
                self.values.push(value);
                self.values.len() as u32 - 1
            }
        };
        Slot(index | Slot::SHADOW)
    }

    fn take(&mut self, index: u32) -> u64 {
        self.len -= 1;
        let next = self.free.replace(index).map_or(u64::MAX, u64::from);
        std::mem::replace(&mut self.values[index as usize], next)
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    file: FileId,
    /// Index of the node's first page, divided by [`NODE_SLOTS`].
    base: u32,
    folios: u8,
    shadows: u8,
    /// The lruvec that the node is charged to.
    owner: LruvecId,
    /// When the node was put on the list of shadow nodes, counted in listings; [`UNLISTED`] if it is not on
    /// it.
    listed: u32,
}

/// The nodes that are charged to one lruvec.
#[derive(Clone, Debug, Default)]
struct Charged {
    nodes: u64,
    /// The list of shadow nodes, oldest first, each with the value of [`Node::listed`] when it was added. An
    /// entry whose value differs from the node's has been removed and is skipped.
    shadow_nodes: VecDeque<(u32, u32)>,
    /// Number of nodes on the list.
    listed: u64,
}

/// The xarrays of all files.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The nodes of each file, indexed by base.
    directories: Vec<Vec<u32>>,
    /// Files that may have large folios.
    large_folios: BTreeSet<FileId>,
    nodes: Vec<Node>,
    slots: Vec<[Slot; NODE_SLOTS]>,
    shadows: Shadows,
    free: Vec<u32>,
    /// Indexed by lruvec.
    charged: Vec<Charged>,
    folios: u64,
    listings: u32,
}

impl Files {
    /// Makes a file that has no page in memory.
    pub fn open(&mut self) -> FileId {
        self.directories.push(Vec::new());
        FileId(self.directories.len() as u32 - 1)
    }

    /// Allows large folios in a file.
    pub(crate) fn set_large_folios(&mut self, file: FileId) {
        self.large_folios.insert(file);
    }

    pub(crate) fn has_large_folios(&self, file: FileId) -> bool {
        self.large_folios.contains(&file)
    }

    /// Reserves host memory for `pages` more pages that lie close together, `shadows` of which are not in
    /// memory.
    pub(crate) fn reserve(&mut self, pages: usize, shadows: usize) {
        let nodes = pages.div_ceil(NODE_SLOTS);
        self.nodes.reserve_exact(nodes);
        self.slots.reserve_exact(nodes);
        self.shadows.values.reserve_exact(shadows);
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.directories.len()
    }

    pub fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    /// The slot of a page, if its node exists.
    #[inline]
    pub(crate) fn slot(&self, file: FileId, index: u32) -> Option<u32> {
        let base = index as usize / NODE_SLOTS;
        let node = *self.directories[file.0 as usize].get(base)?;
        (node != NONE).then(|| node * NODE_SLOTS as u32 + index % NODE_SLOTS as u32)
    }

    /// The entry of a page.
    #[inline]
    pub fn entry(&self, file: FileId, index: u32) -> Entry {
        self.slot(file, index).map_or(Entry::Empty, |slot| self.at(slot))
    }

    /// The entry of a slot.
    #[inline]
    pub fn at(&self, slot: u32) -> Entry {
        let slot = self.slots[slot as usize / NODE_SLOTS][slot as usize % NODE_SLOTS];
        match (slot.folio(), slot.shadow()) {
            (Some(id), _) => Entry::Folio(id),
            (None, Some(shadow)) => Entry::Shadow(self.shadows.values[shadow as usize]),
            (None, None) => Entry::Empty,
        }
    }

    /// The folio that holds a page, if it is in memory.
    #[inline]
    pub fn folio(&self, file: FileId, index: u32) -> Option<FolioId> {
        self.folio_at(self.slot(file, index)?)
    }

    /// The folio in a slot, if there is one.
    #[inline]
    pub(crate) fn folio_at(&self, slot: u32) -> Option<FolioId> {
        self.slots[slot as usize / NODE_SLOTS][slot as usize % NODE_SLOTS].folio()
    }

    /// How many pages right before `index` are in memory, as a [`Walk`] counts them; it looks at no more than
    /// `most` (`page_cache_prev_miss`).
    pub(crate) fn cached_before(&self, file: FileId, index: u32, most: u32) -> u32 {
        index.checked_sub(1).map_or(0, |first| Walk::new(self, file, first).count(most, Walk::previous))
    }

    /// How many pages right behind `index` are in memory, as a [`Walk`] counts them; it looks at no more than
    /// `most` (`page_cache_next_miss`).
    pub(crate) fn cached_after(&self, file: FileId, index: u32, most: u32) -> u32 {
        Walk::new(self, file, index + 1).count(most, Walk::next)
    }

    /// The first entry at or after a page of a file, in this file or those after it.
    pub(crate) fn next_entry(&self, (file, index): (FileId, u32)) -> Option<((FileId, u32), Entry)> {
        let mut from = index;
        for (number, directory) in (0..).zip(&self.directories).skip(file.0 as usize) {
            for (base, &node) in directory.iter().enumerate().skip(from as usize / NODE_SLOTS) {
                let first = (base * NODE_SLOTS) as u32;
                let mut places = (first.max(from)..first + NODE_SLOTS as u32).filter(|_| node != NONE);
                let entry = |index: u32| self.at(node * NODE_SLOTS as u32 + index % NODE_SLOTS as u32);
                if let Some(index) = places.find(|&index| entry(index) != Entry::Empty) {
                    return Some(((FileId(number), index), entry(index)));
                }
            }
            from = 0;
        }
        None
    }

    /// Prefetches a slot from the host's memory; changes nothing.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch_index(self.slots.as_flattened(), slot as usize);
    }

    /// Prefetches what else is used when a folio replaces a shadow: the shadow's value and the node.
    #[inline]
    pub(crate) fn prefetch_shadow(&self, slot: u32) {
        let (node, place) = (slot as usize / NODE_SLOTS, slot as usize % NODE_SLOTS);
        prefetch_index(&self.nodes, node);
        if let Some(shadow) = self.slots[node][place].shadow() {
            prefetch_index(&self.shadows.values, shadow as usize);
        }
    }

    /// The file and index of a slot.
    pub fn page_of(&self, slot: u32) -> (FileId, u32) {
        let node = &self.nodes[slot as usize / NODE_SLOTS];
        (node.file, node.base * NODE_SLOTS as u32 + slot % NODE_SLOTS as u32)
    }

    /// The slot of a page. Makes its node, charged to `owner`, if there is none. The caller has to store an
    /// entry in the slot.
    pub fn make_slot(&mut self, file: FileId, index: u32, owner: LruvecId) -> u32 {
        let base = index as usize / NODE_SLOTS;
        let directory = &mut self.directories[file.0 as usize];
        if directory.len() <= base {
            directory.resize(base + 1, NONE);
        }
        if directory[base] == NONE {
            let node = Node { file, base: base as u32, folios: 0, shadows: 0, owner, listed: UNLISTED };
            let owner = usize::from(owner.0);
            if self.charged.len() <= owner {
                self.charged.resize_with(owner + 1, Charged::default);
            }
            self.charged[owner].nodes += 1;
            directory[base] = match self.free.pop() {
                Some(id) => {
                    self.nodes[id as usize] = node;
                    id
                }
                None => {
                    vec_growth::reserve(&mut self.nodes, 1);
                    vec_growth::reserve(&mut self.slots, 1);
                    self.nodes.push(node);
                    self.slots.push([Slot::EMPTY; NODE_SLOTS]);
                    self.nodes.len() as u32 - 1
                }
            };
        }
        directory[base] * NODE_SLOTS as u32 + index % NODE_SLOTS as u32
    }

    /// Like `make_slot`, but for all `pages`. Returns the slot of the first.
    pub(crate) fn make_slots(&mut self, pages: FilePages, owner: LruvecId) -> u32 {
        for index in pages.indices().step_by(NODE_SLOTS).skip(1) {
            self.make_slot(pages.file, index, owner);
        }
        self.make_slot(pages.file, pages.index, owner)
    }

    /// Stores `entry` for all `pages`, which have slots. Returns the last entry replaced that was not empty.
    pub(crate) fn store_pages(&mut self, pages: FilePages, entry: Entry) -> Entry {
        let mut before = Entry::Empty;
        for index in pages.indices() {
            let slot = self.slot(pages.file, index).expect("the pages have slots");
            match self.store(slot, entry) {
                Entry::Empty => {}
                stored => before = stored,
            }
        }
        before
    }

    /// Stores `entry` in a slot and returns the entry that was there. If its node is empty after that, the
    /// node is freed and the slot no longer exists.
    pub fn store(&mut self, slot: u32, entry: Entry) -> Entry {
        let (id, place) = (slot as usize / NODE_SLOTS, slot as usize % NODE_SLOTS);
        let slot = &mut self.slots[id][place];
        let node = &mut self.nodes[id];
        let before = match (slot.folio(), slot.shadow()) {
            (Some(id), _) => {
                node.folios -= 1;
                self.folios -= 1;
                Entry::Folio(id)
            }
            (None, Some(shadow)) => {
                node.shadows -= 1;
                Entry::Shadow(self.shadows.take(shadow))
            }
            (None, None) => Entry::Empty,
        };
        *slot = match entry {
            Entry::Empty => Slot::EMPTY,
            Entry::Folio(id) => {
                node.folios += 1;
                self.folios += 1;
                Slot::of_folio(id)
            }
            Entry::Shadow(value) => {
                node.shadows += 1;
                self.shadows.put(value)
            }
        };
        // Otherwise it is unlisted and stays so.
        if node.folios == 0 || node.listed != UNLISTED {
            self.update_node(id as u32);
        }
        before
    }

    /// Adds a node to the list of shadow nodes, or removes it, or frees it if it is empty
    /// (`workingset_update_node`).
    fn update_node(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        let Node { file, base, folios, shadows, owner, .. } = *node;
        let charged = &mut self.charged[usize::from(owner.0)];
        let only_shadows = folios == 0 && shadows > 0;
        if only_shadows != (node.listed != UNLISTED) {
            if only_shadows {
                self.listings = self.listings.wrapping_add(1).max(1);
                node.listed = self.listings;
                charged.shadow_nodes.push_back((id, node.listed));
                charged.listed += 1;
                // Removed nodes leave their entries in the list.
                if charged.shadow_nodes.len() as u64 > 2 * charged.listed + NODE_SLOTS as u64 {
                    charged.shadow_nodes.retain(|&(id, listed)| self.nodes[id as usize].listed == listed);
                }
            } else {
                node.listed = UNLISTED;
                charged.listed -= 1;
            }
        }
        if folios == 0 && shadows == 0 {
            charged.nodes -= 1;
            self.directories[file.0 as usize][base as usize] = NONE;
            self.free.push(id);
        }
    }

    /// File pages in memory (`nr_file_pages`, without the swap cache).
    pub fn nr_folios(&self) -> u64 {
        self.folios
    }

    /// Nodes with shadows only (`workingset_nodes`).
    pub fn workingset_nodes(&self) -> u64 {
        self.charged.iter().map(|charged| charged.listed).sum()
    }

    /// Number of nodes charged to `owner`, and of those among them with shadows only.
    pub(crate) fn nodes_of(&self, owner: LruvecId) -> (u64, u64) {
        self.charged.get(usize::from(owner.0)).map_or((0, 0), |charged| (charged.nodes, charged.listed))
    }

    /// Frees up to `wanted` shadow nodes of `owner`, oldest first. Returns how many (`scan_shadow_nodes`).
    pub fn free_shadow_nodes(&mut self, owner: LruvecId, wanted: u64) -> u64 {
        let owner = usize::from(owner.0);
        let mut freed = 0;
        while freed < wanted {
            let charged = self.charged.get_mut(owner);
            let Some((id, listed)) = charged.and_then(|charged| charged.shadow_nodes.pop_front()) else {
                break;
            };
            if self.nodes[id as usize].listed != listed {
                continue;
            }
            for slot in std::mem::replace(&mut self.slots[id as usize], [Slot::EMPTY; NODE_SLOTS]) {
                slot.shadow().map(|shadow| self.shadows.take(shadow));
            }
            self.nodes[id as usize].shadows = 0;
            self.update_node(id);
            freed += 1;
        }
        freed
    }

    /// Panics unless nodes, slots and folios agree. Returns the number of folios.
    pub(crate) fn validate(&self, folios: &Folios) -> usize {
        let (mut cached, mut nodes, mut all_shadows) = (0, 0, 0);
        let (mut listed, mut charged) = (vec![0; self.charged.len()], vec![0; self.charged.len()]);
        for (file, directory) in self.directories.iter().enumerate() {
            for (base, &id) in directory.iter().enumerate().filter(|&(_, &id)| id != NONE) {
                let node = &self.nodes[id as usize];
                assert_eq!((node.file.0 as usize, node.base as usize), (file, base), "where node {id} is");
                let (mut pages, mut shadows) = (0, 0);
                for slot in id * NODE_SLOTS as u32..(id + 1) * NODE_SLOTS as u32 {
                    match self.at(slot) {
                        Entry::Empty => {}
                        Entry::Shadow(_) => shadows += 1,
                        Entry::Folio(folio) => {
                            pages += 1;
                            let flags = folios.flags[folio];
                            let (whose, first) = self.page_of(folios[folio].slot);
                            let of = FilePages { file: whose, index: first, order: flags.order() };
                            let (file, index) = self.page_of(slot);
                            assert!(whose == file && of.indices().contains(&index), "{folio:?} at {slot}");
                            cached += usize::from(index == first);
                            assert!(!flags.has(FolioFlags::SWAPBACKED), "{flags:?}");
                        }
                    }
                }
                assert_eq!((node.folios, node.shadows), (pages, shadows), "node {id} and its slots");
                assert!(pages + shadows > 0, "node {id} has nothing");
                assert_eq!(
                    node.listed != UNLISTED,
                    pages == 0,
                    "node {id} is listed iff it has only shadows"
                );
                let is_listed = |&&listed: &&(u32, u32)| listed == (id, node.listed);
                let owner = usize::from(node.owner.0);
                let shadow_nodes = &self.charged[owner].shadow_nodes;
                assert!(pages > 0 || shadow_nodes.iter().filter(is_listed).count() == 1);
                listed[owner] += u64::from(pages == 0);
                charged[owner] += 1;
                all_shadows += usize::from(shadows);
                nodes += 1;
            }
        }
        assert!(self.charged.iter().map(|of| of.listed).eq(listed), "workingset_nodes");
        assert!(self.charged.iter().map(|of| of.nodes).eq(charged), "nodes by owner");
        assert_eq!(all_shadows, self.shadows.len, "shadows in slots and their values");
        assert_eq!(nodes + self.free.len(), self.nodes.len(), "each node belongs to a file or is free");
        cached
    }

    /// Bytes of host memory that slots and nodes take.
    pub fn bytes(&self) -> usize {
        let directories: usize = self.directories.iter().map(|d| d.capacity() * 4).sum();
        let nodes = self.nodes.capacity() * (size_of::<Node>() + NODE_SLOTS * size_of::<Slot>());
        let shadows = self.shadows.values.capacity() * size_of::<u64>();
        let listed = self.charged.iter().map(|of| of.shadow_nodes.capacity() * size_of::<(u32, u32)>());
        directories + nodes + shadows + listed.sum::<usize>()
    }
}

/// A walk from slot to slot, which keeps its position in the tree and does not start from the root again
/// (`struct xa_state`).
///
/// ```text
///   a folio has pages 8 to 11, the walk begins with page 10:
///
///   index    10 11 12 13 ... 65 66
///   looks at  8  9 10 11 ... 63 66        8 and 9 slots behind, until it comes to another node
/// ```
///
/// The entry of a large folio is in its first slot, and a walk that begins inside of the folio starts there.
/// Its index goes on from where the walk began, so it counts pages that are not there and misses some. Folios
/// of [`NODE_SLOTS`] pages and more have their entries a level above, where the walk does not fall behind. In
/// the kernel: `xas_load`, `__xas_next`, `__xas_prev` in lib/xarray.c, as `page_cache_next_miss` and
/// `page_cache_prev_miss` use them; seen on 6.18.
struct Walk<'a> {
    files: &'a Files,
    file: FileId,
    index: u32,
    /// The page whose slot the walk looks at.
    at: u32,
    /// Whether the file may have large folios; otherwise `at` is always `index`.
    large_folios: bool,
}

impl Walk<'_> {
    const SLOTS: u32 = NODE_SLOTS as u32;

    fn new(files: &Files, file: FileId, index: u32) -> Walk<'_> {
        let mut walk = Walk { files, file, index, at: index, large_folios: files.has_large_folios(file) };
        if walk.large_folios
            && let Some(id) = files.folio(file, index)
            && !walk.is_above_nodes()
        {
            let before = (index - index % Self::SLOTS..index).rev();
            let same = before.take_while(|&page| files.folio(file, page) == Some(id));
            walk.at = same.last().unwrap_or(index);
        }
        walk
    }

    /// Whether the walk is at a folio of [`NODE_SLOTS`] pages or more, whose entry is above the nodes.
    fn is_above_nodes(&self) -> bool {
        let first = self.at - self.at % Self::SLOTS;
        let of = |page| self.files.folio(self.file, page);
        self.large_folios && of(first).is_some() && of(first) == of(first + Self::SLOTS - 1)
    }

    /// Counts the pages in memory up to the first that is missing, to `most`, or to the end of the indices.
    fn count(mut self, most: u32, step: fn(&mut Self) -> Option<()>) -> u32 {
        for count in 0..most {
            let is_there = self.files.folio(self.file, self.at).is_some();
            if !is_there {
                return count;
            }
            if step(&mut self).is_none() {
                return count + 1;
            }
        }
        most
    }

    fn next(&mut self) -> Option<()> {
        self.index = self.index.checked_add(1)?;
        let (node, place) = (self.at / Self::SLOTS, self.at % Self::SLOTS);
        if self.is_above_nodes() {
            let goes_on = node == self.index / Self::SLOTS;
            self.at = (node + u32::from(!goes_on)) * Self::SLOTS + self.index % Self::SLOTS;
        } else if place == Self::SLOTS - 1 {
            self.at = (node + 1) * Self::SLOTS + self.index % Self::SLOTS;
        } else {
            self.at += 1;
        }
        Some(())
    }

    fn previous(&mut self) -> Option<()> {
        self.index = self.index.checked_sub(1)?;
        let (node, place) = (self.at / Self::SLOTS, self.at % Self::SLOTS);
        let is_above_nodes = self.is_above_nodes();
        let stays = match is_above_nodes {
            true => node == self.index / Self::SLOTS,
            false => self.index.is_multiple_of(Self::SLOTS),
        };
        if is_above_nodes || place == 0 {
            let node = if stays { node } else { node.checked_sub(1)? };
            self.at = node * Self::SLOTS + self.index % Self::SLOTS;
        } else {
            self.at -= 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: LruvecId = LruvecId(1);

    #[test]
    fn a_slot_gives_back_what_was_stored() {
        let mut files = Files::default();
        let file = files.open();
        let slots: Vec<u32> = (0..3).map(|index| files.make_slot(file, index, OWNER)).collect();
        let values = [0, (1 << 63) - 1, 1 << 31];
        let mut before = [Entry::Empty; 3];
        let folios = [0, 1, (1 << 31) - 3].map(|id| Entry::Folio(FolioId(id)));
        let shadows = values.map(Entry::Shadow);
        let turned = [shadows[2], shadows[0], shadows[1]];
        for entries in [folios, shadows, turned, folios, turned, shadows] {
            for ((&slot, entry), before) in slots.iter().zip(entries).zip(&mut before) {
                assert_eq!(files.store(slot, entry), std::mem::replace(before, entry));
            }
            assert_eq!([0, 1, 2].map(|slot| files.at(slots[slot])), entries);
        }
        assert_eq!(files.shadows.values.len(), 3, "values of shadows that are gone are used again");
    }

    /// Makes a file that has folios with these first pages and orders.
    fn file_of(folios: &[(u32, u8)]) -> (Files, FileId) {
        let mut files = Files::default();
        let file = files.open();
        files.set_large_folios(file);
        for (id, &(index, order)) in folios.iter().enumerate() {
            let pages = FilePages { file, index, order };
            files.make_slots(pages, OWNER);
            files.store_pages(pages, Entry::Folio(FolioId(id as u32)));
        }
        (files, file)
    }

    #[test]
    fn entries_come_in_the_order_of_files_and_pages() {
        let mut files = Files::default();
        let mut stored = Vec::new();
        for file in [files.open(), files.open(), files.open()] {
            // The second file has no entries, and there are nodes without any.
            for index in (0..700).filter(|index| file != FileId(1) && index % 193 == file.0 % 193) {
                let entry = if index % 2 == 0 { Entry::Folio(FolioId(index)) } else { Entry::Shadow(7) };
                let slot = files.make_slot(file, index, OWNER);
                files.store(slot, entry);
                stored.push(((file, index), entry));
            }
        }
        for from in [(0, 0), (0, 193), (0, 194), (0, 9000), (1, 5), (2, 2), (2, 3), (2, 699), (7, 0)] {
            let from = (FileId(from.0), from.1);
            let expected = stored.iter().find(|(place, _)| *place >= from).copied();
            assert_eq!(files.next_entry(from), expected, "{from:?}");
        }
    }

    #[test]
    fn a_walk_over_single_pages_counts_them() {
        let there = |index: u32| !index.is_multiple_of(37) && index % 150 != 64;
        let folios: Vec<(u32, u8)> = (0..400).filter(|&index| there(index)).map(|index| (index, 0)).collect();
        let (files, file) = file_of(&folios);
        for index in 0..400 {
            for most in [1, 20, 200] {
                let after = (index + 1..=index + most).take_while(|&page| page < 400 && there(page));
                assert_eq!(files.cached_after(file, index, most), after.count() as u32, "{index}");
                let before = (0..index).rev().take(most as usize).take_while(|&page| there(page));
                assert_eq!(files.cached_before(file, index, most), before.count() as u32, "{index}");
            }
        }
    }

    #[test]
    fn a_walk_that_begins_inside_of_a_folio_is_behind_until_the_next_node() {
        // Pages 8 to 19 and 60 to 69.
        let (files, file) = file_of(&[(8, 2), (12, 2), (16, 2), (60, 2), (64, 2), (68, 0), (69, 0)]);
        // From page 9 on it looks at 8, 9, ...: it counts one page more than there are.
        assert_eq!(files.cached_after(file, 8, 100), 12);
        assert_eq!(files.cached_after(file, 9, 100), 12);
        assert_eq!(files.cached_after(file, 11, 100), 8);
        // From page 62 on it looks at 60, 61, 62, 63, 66, 67, 68, 69.
        assert_eq!(files.cached_after(file, 61, 100), 8);
        // Back from page 19 it looks at 16, 15, ... 8.
        assert_eq!(files.cached_before(file, 20, 100), 9);
        assert_eq!(files.cached_before(file, 17, 100), 9);
        // Back from page 65 it looks at 64 twice, as it does not leave the node before its index does.
        assert_eq!(files.cached_before(file, 66, 100), 6);
        // A folio that is larger than a node: from page 65 on to 191.
        let (files, file) = file_of(&[(64, 7)]);
        assert_eq!(files.cached_after(file, 64, 200), 127);
        assert_eq!(files.cached_before(file, 192, 200), 128);
    }

    #[test]
    fn a_folio_is_in_all_of_its_slots_and_so_is_its_shadow() {
        let (mut files, file) = file_of(&[(4, 2), (64, 7)]);
        assert_eq!(files.nr_folios(), 132);
        let [small, large] = [(4, 2), (64, 7)].map(|(index, order)| FilePages { file, index, order });
        assert!(large.indices().all(|page| files.folio(file, page) == Some(FolioId(1))));
        assert_eq!(files.store_pages(small, Entry::Shadow(9)), Entry::Folio(FolioId(0)));
        assert_eq!(files.store_pages(large, Entry::Shadow(8)), Entry::Folio(FolioId(1)));
        assert_eq!((files.nr_folios(), files.workingset_nodes()), (0, 3));
        // A single page replaces the shadow in its slot; a folio returns the last shadow of its slots.
        let page = FilePages::single(file, 6);
        assert_eq!(files.store_pages(page, Entry::Folio(FolioId(2))), Entry::Shadow(9));
        assert_eq!(files.store_pages(page, Entry::Shadow(7)), Entry::Folio(FolioId(2)));
        assert_eq!(files.store_pages(small, Entry::Folio(FolioId(3))), Entry::Shadow(9));
    }

    #[test]
    fn nodes_with_nothing_but_shadows_are_listed_and_freed_oldest_first() {
        let mut files = Files::default();
        let file = files.open();
        for (index, shadow) in [(0, 10), (64, 11), (128, 12)] {
            let slot = files.make_slot(file, index, OWNER);
            files.store(slot, Entry::Folio(FolioId(index)));
            assert_eq!(files.page_of(slot), (file, index));
            files.store(slot, Entry::Shadow(shadow));
        }
        assert_eq!(files.workingset_nodes(), 3);
        // The oldest node gets a folio again, and then is the youngest on the list.
        let slot = files.make_slot(file, 1, OWNER);
        files.store(slot, Entry::Folio(FolioId(7)));
        assert_eq!(files.workingset_nodes(), 2);
        files.store(slot, Entry::Empty);
        assert_eq!(files.workingset_nodes(), 3);
        assert_eq!((files.nodes_of(OWNER), files.nodes_of(LruvecId(0))), ((3, 3), (0, 0)));
        assert_eq!(
            (files.free_shadow_nodes(LruvecId(7), 2), files.free_shadow_nodes(LruvecId(0), 2)),
            (0, 0)
        );
        assert_eq!(files.free_shadow_nodes(OWNER, 2), 2);
        assert_eq!(
            [0, 64, 128].map(|index| files.entry(file, index)),
            [Entry::Shadow(10), Entry::Empty, Entry::Empty]
        );
        assert_eq!(files.free_shadow_nodes(OWNER, 2), 1);
        assert_eq!(files.workingset_nodes(), 0);
    }
}
