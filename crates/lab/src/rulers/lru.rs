//! Exact LRU: evicts the page that was not used for longest.
//!
//! It uses a log of accesses instead of a linked list, in which every hit would write to three random places:
//!
//! ```text
//!   log     3  8  3  5  8  2          last[8] = 4, last[3] = 2, ...
//!           x  x  ▲ oldest            an entry is valid if last[page] is its position; x is not valid any more
//! ```
//!
//! A hit appends an entry to the log and updates `last`; the oldest valid entry is the victim. When the log
//! is full, invalid entries are dropped. It has room for several times the pages in memory, so each entry is
//! moved or skipped about once.

use super::Ruler;
use super::lists::NONE;

/// Entries of the log per page of memory. More make compaction rarer, fewer keep the log in the CPU's caches.
const ENTRIES_A_PAGE: usize = 4;
/// Fewest entries of the log, so that small memories are not compacted at every other access.
const ENTRIES_AT_LEAST: usize = 1024;

pub struct Lru {
    capacity: usize,
    resident: usize,
    /// For each page, the position of its newest entry, or [`NONE`] if it is not in memory.
    last: Vec<u32>,
    log: Vec<u32>,
    /// No entry before this one is valid.
    oldest: usize,
    /// Most entries of the log.
    room: usize,
}

impl Lru {
    /// An LRU with a capacity of `capacity` pages, at least one.
    pub fn new(capacity: usize) -> Lru {
        let capacity = capacity.max(1);
        let room = (capacity.saturating_mul(ENTRIES_A_PAGE)).max(ENTRIES_AT_LEAST).min(NONE as usize);
        Lru { capacity, resident: 0, last: Vec::new(), log: Vec::new(), oldest: 0, room }
    }

    fn evict(&mut self) {
        loop {
            let page = self.log[self.oldest] as usize;
            let counts = self.last[page] == self.oldest as u32;
            self.oldest += 1;
            if counts {
                self.last[page] = NONE;
                self.resident -= 1;
                return;
            }
        }
    }

    #[cold]
    fn compact(&mut self) {
        let mut kept = 0;
        for place in self.oldest..self.log.len() {
            let page = self.log[place];
            if self.last[page as usize] == place as u32 {
                self.last[page as usize] = kept as u32;
                self.log[kept] = page;
                kept += 1;
            }
        }
        self.log.truncate(kept);
        self.oldest = 0;
    }

    #[cold]
    fn grow(&mut self, pages: usize) {
        self.last.resize(pages, NONE);
    }
}

impl Ruler for Lru {
    #[inline]
    fn access(&mut self, page: u32) -> bool {
        if self.log.len() == self.room {
            self.compact();
        }
        let index = page as usize;
        if index >= self.last.len() {
            self.grow(index + 1);
        }
        let hit = self.last[index] != NONE;
        if !hit {
            if self.resident == self.capacity {
                self.evict();
            }
            self.resident += 1;
        }
        self.last[index] = self.log.len() as u32;
        self.log.push(page);
        hit
    }
}
