//! Where the pages of files are: for each file, index to folio or to the shadow of one that is gone.
//!
//! ```text
//!   file ─► nodes, by index / 64 ─► slots, by index % 64:   folio │ shadow │ nothing       4 bytes
//!                                                                      └─► value         8 more
//!
//!   a node without folios but with shadows is on a list of such nodes, oldest first, from which memory
//!   pressure takes them; a node with nothing is freed
//! ```
//!
//! The kernel's tree has as many levels as the largest index needs; here the level of nodes with 64 slots is
//! directly below the file, as nothing depends on those above it but a few pages of slab. Shadows lie apart, where most
//! accesses do not meet them. In the kernel:
//! lib/xarray.c, `workingset_update_node` and `scan_shadow_nodes` in mm/workingset.c.

use crate::folio::{FolioFlags, FolioId, Folios};
use crate::growth;
use prefetch_index::prefetch_index;
use std::collections::VecDeque;

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
                growth::reserve(&mut self.values, 1);
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
    /// Changes when the node goes on the list of nodes with nothing but shadows or comes off it.
    listed: u32,
}

/// The pages of all files.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// For each file, its nodes by base.
    directories: Vec<Vec<u32>>,
    nodes: Vec<Node>,
    slots: Vec<[Slot; NODE_SLOTS]>,
    shadows: Shadows,
    free: Vec<u32>,
    /// Nodes with nothing but shadows, oldest first, with what [`Node::listed`] was. Others are passed over.
    shadow_nodes: VecDeque<(u32, u32)>,
    workingset_nodes: u64,
    folios: u64,
    listings: u32,
}

impl Files {
    /// A file without pages in memory.
    pub fn open(&mut self) -> FileId {
        self.directories.push(Vec::new());
        FileId(self.directories.len() as u32 - 1)
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

    /// How many pages right before a page are in memory; `most` are looked at.
    pub(crate) fn cached_before(&self, file: FileId, index: u32, most: u32) -> u32 {
        self.count_cached(file, (index.saturating_sub(most)..index).rev())
    }

    /// How many pages right behind a page are in memory; `most` are looked at.
    pub(crate) fn cached_after(&self, file: FileId, index: u32, most: u32) -> u32 {
        self.count_cached(file, index + 1..index.saturating_add(most).saturating_add(1))
    }

    fn count_cached(&self, file: FileId, indices: impl Iterator<Item = u32>) -> u32 {
        indices.take_while(|&index| self.folio(file, index).is_some()).count() as u32
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

    /// The slot of a page, made if there is none. Store something in it next.
    pub fn make_slot(&mut self, file: FileId, index: u32) -> u32 {
        let base = index as usize / NODE_SLOTS;
        let directory = &mut self.directories[file.0 as usize];
        if directory.len() <= base {
            directory.resize(base + 1, NONE);
        }
        if directory[base] == NONE {
            let node = Node { file, base: base as u32, folios: 0, shadows: 0, listed: UNLISTED };
            directory[base] = match self.free.pop() {
                Some(id) => {
                    self.nodes[id as usize] = node;
                    id
                }
                None => {
                    growth::reserve(&mut self.nodes, 1);
                    growth::reserve(&mut self.slots, 1);
                    self.nodes.push(node);
                    self.slots.push([Slot::EMPTY; NODE_SLOTS]);
                    self.nodes.len() as u32 - 1
                }
            };
        }
        directory[base] * NODE_SLOTS as u32 + index % NODE_SLOTS as u32
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
        self.update_node(id as u32);
        before
    }

    /// Lists a node that has nothing but shadows, takes others off the list, frees an empty one.
    fn update_node(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        let Node { file, base, folios, shadows, .. } = *node;
        let only_shadows = folios == 0 && shadows > 0;
        if only_shadows != (node.listed != UNLISTED) {
            if only_shadows {
                self.listings = self.listings.wrapping_add(1).max(1);
                node.listed = self.listings;
                self.shadow_nodes.push_back((id, node.listed));
                self.workingset_nodes += 1;
                // Nodes that came off the list leave their place in it.
                if self.shadow_nodes.len() as u64 > 2 * self.workingset_nodes + NODE_SLOTS as u64 {
                    self.shadow_nodes.retain(|&(id, listed)| self.nodes[id as usize].listed == listed);
                }
            } else {
                node.listed = UNLISTED;
                self.workingset_nodes -= 1;
            }
        }
        if folios == 0 && shadows == 0 {
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
        self.workingset_nodes
    }

    /// Frees up to `wanted` nodes that have nothing but shadows, oldest first; how many (`scan_shadow_nodes`).
    pub fn free_shadow_nodes(&mut self, wanted: u64) -> u64 {
        let mut freed = 0;
        while freed < wanted {
            let Some((id, listed)) = self.shadow_nodes.pop_front() else { break };
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
        let (mut cached, mut nodes, mut listed, mut all_shadows) = (0, 0, 0, 0);
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
                            assert_eq!(folios[folio].slot, slot, "slot and folio name each other");
                            let flags = folios.flags[folio];
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
                assert!(pages > 0 || self.shadow_nodes.iter().filter(is_listed).count() == 1);
                listed += u64::from(pages == 0);
                cached += usize::from(pages);
                all_shadows += usize::from(shadows);
                nodes += 1;
            }
        }
        assert_eq!(listed, self.workingset_nodes, "workingset_nodes");
        assert_eq!(all_shadows, self.shadows.len, "each value of a shadow has a slot");
        assert_eq!(nodes + self.free.len(), self.nodes.len(), "each node belongs to a file or is free");
        cached
    }

    /// Bytes that slots and nodes take.
    pub fn bytes(&self) -> usize {
        let directories: usize = self.directories.iter().map(|d| d.capacity() * 4).sum();
        let nodes = self.nodes.capacity() * (size_of::<Node>() + NODE_SLOTS * size_of::<Slot>());
        let shadows = self.shadows.values.capacity() * size_of::<u64>();
        directories + nodes + shadows + self.shadow_nodes.capacity() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_gives_back_what_was_stored() {
        let mut files = Files::default();
        let file = files.open();
        let slots: Vec<u32> = (0..3).map(|index| files.make_slot(file, index)).collect();
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

    #[test]
    fn nodes_with_nothing_but_shadows_are_listed_and_freed_oldest_first() {
        let mut files = Files::default();
        let file = files.open();
        for (index, shadow) in [(0, 10), (64, 11), (128, 12)] {
            let slot = files.make_slot(file, index);
            files.store(slot, Entry::Folio(FolioId(index)));
            assert_eq!(files.page_of(slot), (file, index));
            files.store(slot, Entry::Shadow(shadow));
        }
        assert_eq!(files.workingset_nodes(), 3);
        // The oldest gets a page again and becomes the youngest.
        let slot = files.make_slot(file, 1);
        files.store(slot, Entry::Folio(FolioId(7)));
        assert_eq!(files.workingset_nodes(), 2);
        files.store(slot, Entry::Empty);
        assert_eq!(files.workingset_nodes(), 3);
        assert_eq!(files.free_shadow_nodes(2), 2);
        assert_eq!(
            [0, 64, 128].map(|index| files.entry(file, index)),
            [Entry::Shadow(10), Entry::Empty, Entry::Empty]
        );
        assert_eq!(files.free_shadow_nodes(2), 1);
        assert_eq!(files.workingset_nodes(), 0);
    }
}
