//! Where the pages of files are: for each file, index to folio or to the shadow of one that is gone.
//!
//! ```text
//!   file ─► nodes, by index / 64 ─► slots, by index % 64:   folio │ shadow │ nothing       4 bytes
//!                                                                      └─► value         8 more
//!
//!   a node without folios but with shadows is on a list of such nodes of the group and memory node that it is charged to,
//!   oldest first, from which memory pressure takes them; a node with nothing is freed
//! ```
//!
//! A folio of several pages is in the slot of each of them, and so is the shadow that it leaves, which is what the kernel's
//! entries of several slots come to.
//!
//! The kernel's tree has as many levels as the largest index needs; here the level of nodes with 64 slots is
//! directly below the file, as nothing depends on those above it but a few pages of slab. Shadows lie apart, where most
//! accesses do not meet them. In the kernel:
//! lib/xarray.c, `workingset_update_node` and `scan_shadow_nodes` in mm/workingset.c.

use crate::lru::folio::{FolioFlags, FolioId, Folios, LruvecId};
use crate::vec_growth;
use prefetch_index::prefetch_index;
use std::collections::{BTreeSet, VecDeque};

/// Slots of a node (`XA_CHUNK_SIZE`).
pub const NODE_SLOTS: usize = 64;

/// Stands for no node.
const NONE: u32 = u32::MAX;

/// A node is not on the list of those with nothing but shadows.
const UNLISTED: u32 = 0;

/// A file, or another object with numbered pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing, and nothing was there.
    Empty,
    /// A page in memory.
    Folio(FolioId),
    /// What the eviction of a page left, 63 bits.
    Shadow(u64),
}

/// Pages of a file that are one folio or are to be: `1 << order` of them, from a multiple of that on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePages {
    pub file: FileId,
    /// The first one.
    pub index: u32,
    pub order: u8,
}

impl FilePages {
    /// One page.
    pub fn single(file: FileId, index: u32) -> FilePages {
        FilePages { file, index, order: 0 }
    }

    /// Their numbers.
    pub fn indices(self) -> std::ops::Range<u32> {
        self.index..self.index + (1 << self.order)
    }
}

/// What a slot holds, packed: 0, a folio's number and 1, or where the shadow's value is.
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

/// The values of all shadows. One that is not in use has the number of the next such.
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
    /// Index of the file's first page here, divided by [`NODE_SLOTS`].
    base: u32,
    folios: u8,
    shadows: u8,
    /// Whom it is charged to.
    owner: LruvecId,
    /// Changes when the node goes on the list of nodes with nothing but shadows or comes off it.
    listed: u32,
}

/// The nodes that are charged to a group, on one of the machine's nodes.
#[derive(Clone, Debug, Default)]
struct Charged {
    nodes: u64,
    /// Those with nothing but shadows, oldest first, with what [`Node::listed`] was. Others are passed over.
    shadow_nodes: VecDeque<(u32, u32)>,
    /// How many of them there are.
    listed: u64,
}

/// The pages of all files.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// For each file, its nodes by base.
    directories: Vec<Vec<u32>>,
    /// Files whose pages may be in large folios.
    large_folios: BTreeSet<FileId>,
    nodes: Vec<Node>,
    slots: Vec<[Slot; NODE_SLOTS]>,
    shadows: Shadows,
    free: Vec<u32>,
    /// By owner.
    charged: Vec<Charged>,
    folios: u64,
    listings: u32,
}

impl Files {
    /// A file without pages in memory.
    pub fn open(&mut self) -> FileId {
        self.directories.push(Vec::new());
        FileId(self.directories.len() as u32 - 1)
    }

    /// From now on pages of a file may be in large folios.
    pub(crate) fn set_large_folios(&mut self, file: FileId) {
        self.large_folios.insert(file);
    }

    /// Whether pages of a file may be in large folios.
    pub(crate) fn has_large_folios(&self, file: FileId) -> bool {
        self.large_folios.contains(&file)
    }

    /// Makes room for `pages` more that lie close together, `shadows` of them not in memory.
    pub(crate) fn reserve(&mut self, pages: usize, shadows: usize) {
        let nodes = pages.div_ceil(NODE_SLOTS);
        self.nodes.reserve_exact(nodes);
        self.slots.reserve_exact(nodes);
        self.shadows.values.reserve_exact(shadows);
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.directories.len()
    }

    /// Whether there is no file.
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

    /// What the slot of a page holds.
    #[inline]
    pub fn entry(&self, file: FileId, index: u32) -> Entry {
        self.slot(file, index).map_or(Entry::Empty, |slot| self.at(slot))
    }

    /// What a slot holds.
    #[inline]
    pub fn at(&self, slot: u32) -> Entry {
        let slot = self.slots[slot as usize / NODE_SLOTS][slot as usize % NODE_SLOTS];
        match (slot.folio(), slot.shadow()) {
            (Some(id), _) => Entry::Folio(id),
            (None, Some(shadow)) => Entry::Shadow(self.shadows.values[shadow as usize]),
            (None, None) => Entry::Empty,
        }
    }

    /// The folio of a page, if it is in memory.
    #[inline]
    pub fn folio(&self, file: FileId, index: u32) -> Option<FolioId> {
        self.folio_at(self.slot(file, index)?)
    }

    /// The folio that a slot holds.
    #[inline]
    pub(crate) fn folio_at(&self, slot: u32) -> Option<FolioId> {
        self.slots[slot as usize / NODE_SLOTS][slot as usize % NODE_SLOTS].folio()
    }

    /// How many pages right before a page are in memory, as a [`Walk`] finds them; `most` are looked at.
    pub(crate) fn cached_before(&self, file: FileId, index: u32, most: u32) -> u32 {
        index.checked_sub(1).map_or(0, |first| Walk::new(self, file, first).count(most, Walk::previous))
    }

    /// How many pages right behind a page are in memory, as a [`Walk`] finds them; `most` are looked at.
    pub(crate) fn cached_after(&self, file: FileId, index: u32, most: u32) -> u32 {
        Walk::new(self, file, index + 1).count(most, Walk::next)
    }

    /// Has a slot fetched from memory, ahead of its use; changes nothing.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch_index(self.slots.as_flattened(), slot as usize);
    }

    /// The same of what else is used where a page takes the place of a shadow: the shadow, and the counts of its node.
    #[inline]
    pub(crate) fn prefetch_shadow(&self, slot: u32) {
        let (node, place) = (slot as usize / NODE_SLOTS, slot as usize % NODE_SLOTS);
        prefetch_index(&self.nodes, node);
        if let Some(shadow) = self.slots[node][place].shadow() {
            prefetch_index(&self.shadows.values, shadow as usize);
        }
    }

    /// The file and index that a slot is for.
    pub fn page_of(&self, slot: u32) -> (FileId, u32) {
        let node = &self.nodes[slot as usize / NODE_SLOTS];
        (node.file, node.base * NODE_SLOTS as u32 + slot % NODE_SLOTS as u32)
    }

    /// The slot of a page, made if there is none, in a node that is charged to `owner` if it has to be made too. Store something
    /// in it next.
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

    /// The same for some pages; the slot of the first.
    pub(crate) fn make_slots(&mut self, pages: FilePages, owner: LruvecId) -> u32 {
        for index in pages.indices().step_by(NODE_SLOTS).skip(1) {
            self.make_slot(pages.file, index, owner);
        }
        self.make_slot(pages.file, pages.index, owner)
    }

    /// Stores `entry` for some pages, which have slots; what the last of them had that had something.
    pub(crate) fn store_pages(&mut self, pages: FilePages, entry: Entry) -> Entry {
        let mut before = Entry::Empty;
        for index in pages.indices() {
            let slot = self.slot(pages.file, index).expect("pages that something is stored for have slots");
            match self.store(slot, entry) {
                Entry::Empty => {}
                stored => before = stored,
            }
        }
        before
    }

    /// Stores `entry` in a slot and says what was there. A slot whose node has nothing any more is gone.
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
        // Else it stays what it was, a node that is not listed.
        if node.folios == 0 || node.listed != UNLISTED {
            self.update_node(id as u32);
        }
        before
    }

    /// Lists a node that has nothing but shadows, takes others off the list, frees an empty one.
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
                // Nodes that came off the list leave their place in it.
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

    /// Pages in memory (`nr_file_pages`, without the swap cache).
    pub fn nr_folios(&self) -> u64 {
        self.folios
    }

    /// Nodes with nothing but shadows (`workingset_nodes`).
    pub fn workingset_nodes(&self) -> u64 {
        self.charged.iter().map(|charged| charged.listed).sum()
    }

    /// Nodes that are charged to `owner`, and those among them with nothing but shadows.
    pub(crate) fn nodes_of(&self, owner: LruvecId) -> (u64, u64) {
        self.charged.get(usize::from(owner.0)).map_or((0, 0), |charged| (charged.nodes, charged.listed))
    }

    /// Frees up to `wanted` nodes of `owner` that have nothing but shadows, oldest first; how many (`scan_shadow_nodes`).
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

    /// Checks nodes against their slots and entries against the folios they name; panics with what does not hold. How
    /// many folios files have.
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
        assert_eq!(all_shadows, self.shadows.len, "each value of a shadow has a slot");
        assert_eq!(nodes + self.free.len(), self.nodes.len(), "each node belongs to a file or is free");
        cached
    }

    /// Bytes that slots and nodes take.
    pub fn bytes(&self) -> usize {
        let directories: usize = self.directories.iter().map(|d| d.capacity() * 4).sum();
        let nodes = self.nodes.capacity() * (size_of::<Node>() + NODE_SLOTS * size_of::<Slot>());
        let shadows = self.shadows.values.capacity() * size_of::<u64>();
        let listed = self.charged.iter().map(|of| of.shadow_nodes.capacity() * size_of::<(u32, u32)>());
        directories + nodes + shadows + listed.sum::<usize>()
    }
}

/// A walk from slot to slot, which remembers where it is and does not look from the root again.
///
/// ```text
///   a folio has pages 8 to 11, the walk begins with page 10:
///
///   index    10 11 12 13 ... 65 66
///   looks at  8  9 10 11 ... 63 66        8 and 9 slots behind, until it comes to another node
/// ```
///
/// The entry of a folio is in its first slot, and that is where a walk that begins inside of it is. As its index goes on from
/// where it began, it sees pages that are not there, and passes over some. Folios of [`NODE_SLOTS`] pages and more are
/// entries of the level above, where it does not fall behind. In the kernel: `xas_load`, `__xas_next`, `__xas_prev` in
/// lib/xarray.c, as `page_cache_next_miss` and `page_cache_prev_miss` use them; seen on 6.18.
struct Walk<'a> {
    files: &'a Files,
    file: FileId,
    index: u32,
    /// The page whose slot it looks at.
    at: u32,
    /// The file has large folios; else it looks where its index is.
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

    /// Whether it is at a folio that is larger than a node.
    fn is_above_nodes(&self) -> bool {
        let first = self.at - self.at % Self::SLOTS;
        let of = |page| self.files.folio(self.file, page);
        self.large_folios && of(first).is_some() && of(first) == of(first + Self::SLOTS - 1)
    }

    /// Pages that it finds, up to `most`, and up to the end of what it may go through.
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

    /// A file with folios of these first pages and orders.
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
        // From page 9 on it looks at 8, 9, ...: one more than there are.
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
        // Larger folios than a node: from page 65 on to 191.
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
        // A page takes its slot of the shadow, a folio what the last of its slots has.
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
        // The oldest gets a page again and becomes the youngest.
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
