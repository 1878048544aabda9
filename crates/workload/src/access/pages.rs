//! Dense page numbers, so that policies can keep their state in arrays.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

/// Numbers pages densely, in the order of their first appearance.
#[derive(Debug, Default)]
pub struct PageNumbers {
    numbers: FxHashMap<(u64, u64), u32>,
}

impl PageNumbers {
    pub fn new() -> PageNumbers {
        PageNumbers::default()
    }

    /// The number of page `index` of `object`; a new page gets the next free number. If a trace touches more
    /// than 2^32 different pages (16 TiB), all later ones share the number `u32::MAX`.
    #[inline]
    pub fn number(&mut self, object: u64, index: u64) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        match self.numbers.entry((object, index)) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(next),
        }
    }

    /// Number of different pages.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}
