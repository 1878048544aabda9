//! Dense page numbers, so that policies keep their state in arrays.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

/// Dense page numbers in the order of first appearance.
#[derive(Debug, Default)]
pub struct PageNumbers {
    numbers: FxHashMap<(u64, u64), u32>,
}

impl PageNumbers {
    /// No page has a number yet.
    pub fn new() -> PageNumbers {
        PageNumbers::default()
    }

    /// The number of page `index` of `object`: the next free one if the page is new. A trace that touches
    /// more than 2^32 different pages (16 TiB) sees all later ones as one page, number `u32::MAX`.
    #[inline]
    pub fn number(&mut self, object: u64, index: u64) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        match self.numbers.entry((object, index)) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(next),
        }
    }

    /// How many different pages were numbered.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether no page was numbered.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}
