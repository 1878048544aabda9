//! S3-FIFO (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache
//! eviction", SOSP 2023): new pages enter a small queue, which most of them leave for good after one use; the
//! others go to a main queue. A ghost queue remembers evicted pages.
//!
//! ```text
//!   new ─► small (10 %) ── used twice or more ──► main (90 %) ── used: another round ───┐
//!             │                                     ▲  ▲ └──► evicted                   │
//!             └──► ghost (90 %) ── hit ─────────────┘  └────────────────────────────────┘
//! ```
//!
//! Each page in memory counts its uses, up to three. The implementation follows algorithm 1 of the paper.
//! Where that leaves a choice, it follows the authors' implementation (libCacheSim): an empty memory first
//! fills the small queue, then main; main may exceed its size until the next page has to be evicted; and if a
//! tenth of memory is not a whole number, the sizes of small and ghost are rounded down and main gets the
//! rest.

use super::Ruler;
use super::lists::Lists;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Most uses that are counted.
const MOST_USES: u8 = 3;
/// Uses that move a page from the small queue to main.
const USES_FOR_MAIN: u8 = 2;

pub struct S3Fifo {
    small_room: usize,
    main_room: usize,
    ghost_room: usize,
    lists: Lists<3>,
    /// Whether memory has been full.
    was_full: bool,
    /// For each page, uses since it came in or since its last round in main.
    uses: Vec<u8>,
}

impl S3Fifo {
    /// An S3-FIFO with a capacity of `capacity` pages, at least one.
    pub fn new(capacity: usize) -> S3Fifo {
        let capacity = capacity.max(1);
        let small_room = (capacity / 10).max(1);
        S3Fifo {
            small_room,
            main_room: capacity - small_room,
            ghost_room: capacity - capacity.div_ceil(10),
            lists: Lists::new(),
            was_full: false,
            uses: Vec::new(),
        }
    }

    fn make_room(&mut self) {
        while self.lists.len(SMALL) + self.lists.len(MAIN) >= self.small_room + self.main_room {
            self.was_full = true;
            if self.lists.len(MAIN) > self.main_room || self.lists.len(SMALL) == 0 {
                self.take_from_main();
            } else {
                self.take_from_small();
            }
        }
    }

    /// Moves pages to main until one is evicted or the small queue is empty.
    fn take_from_small(&mut self) {
        while let Some(page) = self.lists.pop(SMALL) {
            if self.uses[page as usize] < USES_FOR_MAIN {
                self.remember(page);
                return;
            }
            self.uses[page as usize] = 0;
            self.lists.push(MAIN, page);
        }
    }

    fn take_from_main(&mut self) {
        while let Some(page) = self.lists.pop(MAIN) {
            match &mut self.uses[page as usize] {
                0 => return,
                uses => *uses -= 1,
            }
            self.lists.push(MAIN, page);
        }
    }

    fn remember(&mut self, page: u32) {
        self.lists.push(GHOST, page);
        if self.lists.len(GHOST) > self.ghost_room {
            self.lists.pop(GHOST);
        }
    }
}

impl Ruler for S3Fifo {
    fn access(&mut self, page: u32) -> bool {
        let list = self.lists.list_of(page);
        if let Some(SMALL | MAIN) = list {
            let uses = &mut self.uses[page as usize];
            *uses = (*uses + 1).min(MOST_USES);
            return true;
        }
        if list == Some(GHOST) {
            self.lists.remove(page);
        }
        self.make_room();
        if page as usize >= self.uses.len() {
            self.uses.resize(page as usize + 1, 0);
        }
        self.uses[page as usize] = 0;
        let fills_main = !self.was_full && self.lists.len(SMALL) >= self.small_room;
        self.lists.push(if list == Some(GHOST) || fills_main { MAIN } else { SMALL }, page);
        false
    }
}
