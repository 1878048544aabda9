//! The VMAs of an address space by address: a tree of two levels.
//!
//! ```text
//!   pivots   │ 0 │ 640 │ 2100 │                                where each leaf begins
//!   leaves   │ 0 #2, 16 #0, 64 #3 │ 640 #1, ... │ 2100 #9, ... │     an insertion moves only the slots behind it in its leaf
//! ```
//!
//! A process may have thousands of VMAs, and each mmap or munmap changes one or two of them. Such a call
//! looks its place up once: a cursor names the place, leads to its neighbours, and stays valid as long as
//! nothing before it changes. In the kernel: lib/maple_tree.c, whose nodes have 16 slots on any number of
//! levels.

use super::Vpn;
use super::vma::VmaId;

/// Slots of a leaf.
const SLOTS: usize = 32;

/// The start and the number of a VMA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub start: Vpn,
    pub id: VmaId,
}

/// A position in the order of VMAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    leaf: usize,
    slot: usize,
}

/// VMAs in the order of addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct MapleTree {
    pivots: Vec<Vpn>,
    /// No leaf is empty.
    leaves: Vec<Vec<Slot>>,
}

impl MapleTree {
    /// The position of the first VMA.
    pub const FIRST: Cursor = Cursor { leaf: 0, slot: 0 };

    /// The VMA at a position; `None` behind the last one.
    #[inline]
    pub fn get(&self, at: Cursor) -> Option<Slot> {
        self.leaves.get(at.leaf)?.get(at.slot).copied()
    }

    /// The position of the last VMA that starts at or before `page`.
    #[inline]
    pub fn at_or_before(&self, page: Vpn) -> Option<Cursor> {
        let leaf = self.pivots.partition_point(|&pivot| pivot <= page).checked_sub(1)?;
        let slot = self.leaves[leaf].partition_point(|slot| slot.start <= page) - 1;
        Some(Cursor { leaf, slot })
    }

    /// The next position.
    #[inline]
    pub fn after(&self, at: Cursor) -> Cursor {
        self.settle(Cursor { slot: at.slot + 1, ..at })
    }

    /// The previous position; `None` at the first.
    #[inline]
    pub fn before(&self, at: Cursor) -> Option<Cursor> {
        if let Some(slot) = at.slot.checked_sub(1) {
            return Some(Cursor { slot, ..at });
        }
        let leaf = at.leaf.checked_sub(1)?;
        Some(Cursor { leaf, slot: self.leaves[leaf].len() - 1 })
    }

    /// Normalises a position behind the last slot of a leaf to the first slot of the next leaf.
    #[inline]
    fn settle(&self, at: Cursor) -> Cursor {
        let behind = self.leaves.get(at.leaf).is_some_and(|leaf| at.slot == leaf.len());
        if behind { Cursor { leaf: at.leaf + 1, slot: 0 } } else { at }
    }

    /// All VMAs from a position on.
    pub fn iter_from(&self, at: Cursor) -> impl Iterator<Item = VmaId> + use<'_> {
        let leaves = self.leaves.get(at.leaf..).into_iter().flatten();
        leaves.flatten().skip(at.slot).map(|slot| slot.id)
    }

    /// Inserts a VMA and returns its position.
    pub fn insert(&mut self, slot: Slot) -> Cursor {
        let at = match self.at_or_before(slot.start) {
            Some(before) => Cursor { slot: before.slot + 1, ..before },
            None => Self::FIRST,
        };
        if self.leaves.is_empty() {
            self.leaves.push(Vec::with_capacity(SLOTS));
            self.pivots.push(slot.start);
        }
        let leaf = &mut self.leaves[at.leaf];
        if leaf.len() < SLOTS {
            leaf.insert(at.slot, slot);
            self.pivots[at.leaf] = leaf[0].start;
            return at;
        }
        // When VMAs are appended at the end, leaves stay full.
        let kept = if at.slot == SLOTS { SLOTS } else { SLOTS / 2 };
        let next = at.leaf + 1;
        let mut rest = Vec::with_capacity(SLOTS);
        rest.extend(leaf.drain(kept..));
        let at = match at.slot.checked_sub(kept) {
            Some(behind) => {
                rest.insert(behind, slot);
                Cursor { leaf: next, slot: behind }
            }
            None => {
                leaf.insert(at.slot, slot);
                self.pivots[at.leaf] = leaf[0].start;
                at
            }
        };
        self.pivots.insert(next, rest[0].start);
        self.leaves.insert(next, rest);
        at
    }

    /// Removes a VMA and returns the position of the next one. Positions before it stay valid.
    pub fn remove(&mut self, at: Cursor) -> Cursor {
        let leaf = &mut self.leaves[at.leaf];
        leaf.remove(at.slot);
        let (left, next) = (leaf.len(), at.leaf + 1);
        if left == 0 {
            self.leaves.remove(at.leaf);
            self.pivots.remove(at.leaf);
            return at;
        }
        self.pivots[at.leaf] = leaf[0].start;
        if self.leaves.get(next).is_some_and(|next| left + next.len() <= SLOTS / 2) {
            let next_leaf = self.leaves.remove(next);
            self.leaves[at.leaf].extend(next_leaf);
            self.pivots.remove(next);
        }
        self.settle(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The contents of the tree from a position on.
    fn slots(tree: &MapleTree, from: Cursor) -> Vec<(Vpn, VmaId)> {
        let mut at = from;
        let next = std::iter::from_fn(|| {
            let slot = tree.get(at)?;
            at = tree.after(at);
            Some((slot.start, slot.id))
        });
        next.collect()
    }

    proptest! {
        /// Compares the tree with a sorted map: look-ups, neighbours, and where cursors lead after each
        /// change.
        #[test]
        fn as_a_sorted_map(steps in prop::collection::vec((0u64..3, 0u64..600), 1..1500)) {
            let (mut tree, mut map) = (MapleTree::default(), BTreeMap::new());
            for (number, (kind, page)) in steps.into_iter().enumerate() {
                let id = VmaId(number as u32);
                let found = tree.at_or_before(page);
                let expected = map.range(..=page).next_back().map(|(&start, &id)| (start, id));
                prop_assert_eq!(found.and_then(|at| tree.get(at)).map(|slot| (slot.start, slot.id)), expected);
                // A third of the pages come at the end, as in a growing address space.
                let page = if kind == 0 { map.last_key_value().map_or(0, |(&last, _)| last + 1) } else { page };
                if let Some(&id) = map.get(&page) {
                    let at = tree.at_or_before(page).unwrap();
                    let before = tree.before(at);
                    let next = tree.remove(at);
                    map.remove(&page);
                    let rest: Vec<_> = map.range(page..).map(|(&start, &id)| (start, id)).collect();
                    prop_assert_eq!(slots(&tree, next), rest, "{:?} is gone", id);
                    prop_assert_eq!(tree.before(next), before);
                } else {
                    let at = tree.insert(Slot { start: page, id });
                    map.insert(page, id);
                    prop_assert_eq!(tree.get(at).map(|slot| (slot.start, slot.id)), Some((page, id)));
                    let before = tree.before(at).and_then(|at| tree.get(at)).map(|slot| slot.start);
                    prop_assert_eq!(before, map.range(..page).next_back().map(|(&start, _)| start));
                }
                let all: Vec<_> = map.values().copied().collect();
                prop_assert_eq!(tree.iter_from(MapleTree::FIRST).collect::<Vec<_>>(), all);
            }
        }
    }
}
