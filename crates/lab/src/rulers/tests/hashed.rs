//! W-TinyLFU as in libCacheSim 0.3.5 (`libCacheSim/cache/eviction/WTinyLFU.c`, `SLRU.c` and
//! `dataStructure/minimalIncrementCBF.c`), transcribed exactly. The tests show that the differences to the
//! ruler below are the only ones.
//!
//! ```text
//!                  ruler, as in the paper             libCacheSim
//!   uses are       every access                       misses, hits outside the window, and one more when a page
//!                                                     leaves the window, whether it is admitted or not
//!   halved after   10 accesses per page               32 hits outside the window per page outside of it
//!   counters       one per page, up to 15             10 hashed ones per page, all of them raised; 14.4 per page
//!                                                     outside the window, no limit
//!   at first       window and main fill as later      all of memory is the window; then its pages move on, to
//!                                                     whichever part of main has room
//! ```
//!
//! Counters are halved so rarely that pages of long ago keep new ones out. On the trace of `peers`, whose
//! skewed set moves, that alone causes up to a third more misses. docs/src/reference/miss-ratio-curves.md has
//! figures.

use super::super::Ruler;
use super::super::lists::Lists;
use twox_hash::XxHash64;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

const SEEDS: [u64; 2] = [0x1234_5678, 0x1234_4321];
const HASHES: u32 = 10;

/// libCacheSim's W-TinyLFU.
pub struct HashedWTinyLfu {
    capacity: usize,
    main: usize,
    probation_room: usize,
    protected_room: usize,
    lists: Lists<3>,
    counters: Vec<u32>,
    hits: usize,
}

impl HashedWTinyLfu {
    pub fn new(capacity: usize) -> HashedWTinyLfu {
        let main = capacity - capacity / 100;
        // Sized for an error rate of 1 in 1000 with as many pages as main has.
        let counters = (-(0.001f64.ln()) / 0.480453013918201 * main as f64).ceil() as usize;
        HashedWTinyLfu {
            capacity,
            main,
            probation_room: main / 5,
            protected_room: main * 4 / 5,
            lists: Lists::new(),
            counters: vec![0; counters],
            hits: 0,
        }
    }

    fn places(&self, page: u32) -> impl Iterator<Item = usize> + use<> {
        // libCacheSim numbers pages from 1.
        let [a, b] = SEEDS.map(|seed| XxHash64::oneshot(seed, &(u64::from(page) + 1).to_le_bytes()) as u32);
        let counters = self.counters.len();
        (0..HASHES).map(move |i| a.wrapping_add(i.wrapping_mul(b)) as usize % counters)
    }

    fn count(&mut self, page: u32) {
        self.places(page).for_each(|place| self.counters[place] += 1);
    }

    fn uses(&self, page: u32) -> u32 {
        self.places(page).map(|place| self.counters[place]).min().unwrap()
    }

    fn in_main(&self) -> usize {
        self.lists.len(PROBATION) + self.lists.len(PROTECTED)
    }

    fn move_to_main(&mut self, page: u32) {
        let has_room = |list, room| self.lists.len(list) < room;
        let protected = !has_room(PROBATION, self.probation_room) && has_room(PROTECTED, self.protected_room);
        self.lists.push(if protected { PROTECTED } else { PROBATION }, page);
    }

    /// Moves pages on until one has been evicted.
    fn evict(&mut self) {
        while let Some(candidate) = self.lists.pop(WINDOW) {
            let full = self.in_main() >= self.main;
            if full {
                let victim = self.lists.tail(PROBATION).or(self.lists.tail(PROTECTED)).unwrap();
                if self.uses(candidate) > self.uses(victim) {
                    self.lists.remove(victim);
                    self.move_to_main(candidate);
                }
            } else {
                self.move_to_main(candidate);
            }
            self.count(candidate);
            if full {
                return;
            }
        }
        let victim = self.lists.tail(PROBATION).or(self.lists.tail(PROTECTED)).unwrap();
        self.lists.remove(victim);
    }

    fn hit_in_main(&mut self, page: u32) {
        self.lists.move_to(PROTECTED, page);
        if self.lists.len(PROTECTED) > self.protected_room {
            let last = self.lists.pop(PROTECTED).unwrap();
            self.lists.push(PROBATION, last);
            // The two parts, rounded down, have one page less than main: that page is evicted here.
            if self.lists.len(PROBATION) > self.probation_room {
                self.lists.pop(PROBATION);
            }
        }
        self.count(page);
        self.hits += 1;
        if self.hits == 32 * self.main {
            self.hits = 0;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
    }
}

impl Ruler for HashedWTinyLfu {
    fn access(&mut self, page: u32) -> bool {
        match self.lists.list_of(page) {
            Some(WINDOW) => self.lists.move_to(WINDOW, page),
            Some(_) => self.hit_in_main(page),
            None => {
                while self.lists.len(WINDOW) + self.in_main() >= self.capacity {
                    self.evict();
                }
                self.lists.push(WINDOW, page);
                self.count(page);
                return false;
            }
        }
        true
    }
}
