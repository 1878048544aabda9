//! CLOCK (F. J. Corbató, "A paging experiment with the Multics system", 1968): pages are on a ring, each with
//! a reference bit that an access sets. The hand evicts the first page whose bit is clear, and clears the
//! bits that it passes.
//!
//! ```text
//!        ┌─ 7 ── 2* ── 9* ── 4 ─┐     * referenced since the hand passed
//!        └──────────▲───────────┘     the hand clears 9 and evicts 4
//! ```
//!
//! A new page starts with its bit clear, as in libCacheSim: the access that brought it in is no evidence of
//! reuse.

use super::Ruler;
use super::lists::NONE;

pub struct Clock {
    capacity: usize,
    /// Pages in memory, in the order in which the hand passes them.
    ring: Vec<u32>,
    /// For each position on the ring, whether its page was referenced since the hand passed.
    used: Vec<bool>,
    hand: usize,
    /// For each page, its position on the ring.
    place: Vec<u32>,
}

impl Clock {
    /// A CLOCK with a capacity of `capacity` pages, at least one.
    pub fn new(capacity: usize) -> Clock {
        Clock { capacity: capacity.max(1), ring: Vec::new(), used: Vec::new(), hand: 0, place: Vec::new() }
    }

    fn evict(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.capacity;
            if !std::mem::take(&mut self.used[place]) {
                self.place[self.ring[place] as usize] = NONE;
                return place;
            }
        }
    }
}

impl Ruler for Clock {
    fn access(&mut self, page: u32) -> bool {
        let index = page as usize;
        if index >= self.place.len() {
            self.place.resize(index + 1, NONE);
        }
        if self.place[index] != NONE {
            self.used[self.place[index] as usize] = true;
            return true;
        }
        let place = if self.ring.len() < self.capacity {
            self.ring.push(page);
            self.used.push(false);
            self.ring.len() - 1
        } else {
            let place = self.evict();
            self.ring[place] = page;
            place
        };
        self.place[index] = place as u32;
        false
    }
}
