//! Model of a last-level cache: which pages it holds, in exact LRU order.
//!
//! Simulating single lines would cost 64 steps per page for the same result, because kernel paths that copy
//! or clear pages touch all their lines together.
//!
//! ```text
//!   most recent ⇄ page ⇄ page ⇄ ... ⇄ least recent      capacity = cache bytes / 4 KiB
//! ```

use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Entry {
    page: u32,
    newer: u32,
    older: u32,
}

/// A cache of whole pages. The hash map is never iterated, so hash order has no effect.
#[derive(Clone, Debug)]
pub struct CacheModel {
    capacity: usize,
    slots: FxHashMap<u32, u32>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
}

impl CacheModel {
    /// An empty cache of `bytes` bytes for pages of 4 KiB.
    pub fn new(bytes: u64) -> Self {
        let capacity = (bytes / 4096).max(1) as usize;
        CacheModel { capacity, slots: FxHashMap::default(), entries: Vec::new(), newest: NONE, oldest: NONE }
    }

    /// Touches `page`. Returns whether it was in the cache.
    pub fn touch(&mut self, page: u32) -> bool {
        if let Some(&slot) = self.slots.get(&page) {
            self.unlink(slot);
            self.link_newest(slot);
            return true;
        }
        let slot = if self.entries.len() < self.capacity {
            self.entries.push(Entry { page, newer: NONE, older: NONE });
            (self.entries.len() - 1) as u32
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.slots.remove(&self.entries[slot as usize].page);
            self.entries[slot as usize].page = page;
            slot
        };
        self.slots.insert(page, slot);
        self.link_newest(slot);
        false
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        if newer == NONE {
            self.newest = older
        } else {
            self.entries[newer as usize].older = older
        }
        if older == NONE { self.oldest = newer } else { self.entries[older as usize].newer = newer }
    }

    fn link_newest(&mut self, slot: u32) {
        let second = self.newest;
        self.entries[slot as usize].newer = NONE;
        self.entries[slot as usize].older = second;
        if second == NONE {
            self.oldest = slot
        } else {
            self.entries[second as usize].newer = slot
        }
        self.newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the obvious model: a vector with the most recent page first.
        #[test]
        fn equals_a_list(touches in proptest::collection::vec(0u32..20, 1..300), pages in 1u64..12) {
            let mut cache = CacheModel::new(pages * 4096);
            let mut list: Vec<u32> = Vec::new();
            for page in touches {
                let hit = list.contains(&page);
                list.retain(|&p| p != page);
                list.insert(0, page);
                list.truncate(pages as usize);
                prop_assert_eq!(cache.touch(page), hit);
            }
        }
    }
}
