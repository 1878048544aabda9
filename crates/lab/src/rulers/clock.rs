//! CLOCK (F. J. Corbató, "A paging experiment with the Multics system", 1968): pages on a ring, each with a bit
//! that an access sets. The hand takes the first page whose bit is not set, and clears those that it passes.
//!
//! ```text
//!        ┌─ 7 ── 2* ── 9* ── 4 ─┐     * used since the hand was here
//!        └──────────▲───────────┘     the hand clears 9 and replaces 4
//! ```
//!
//! A new page comes in with its bit clear, as in libCacheSim: the access that brought it in proves nothing yet.

use super::Ruler;
use super::lists::NONE;

/// CLOCK.
pub struct Clock {
    capacity: usize,
    /// Pages in memory, in the order in which the hand meets them.
    ring: Vec<u32>,
    /// By place on the ring: used since the hand was here.
    used: Vec<bool>,
    hand: usize,
    /// By page: its place on the ring.
    place: Vec<u32>,
}

impl Clock {
    /// A CLOCK of `capacity` pages, at least one.
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
