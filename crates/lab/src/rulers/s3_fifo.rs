//! S3-FIFO (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023): a small queue that most pages leave for good after one use, a main queue for the others, and a queue
//! of pages that are gone.
//!
//! ```text
//!   new ─► small (10 %) ── used twice or more ──► main (90 %) ── used: once more round ─┐
//!             │                                     ▲  ▲ └──► gone                      │
//!             └──► ghost (90 %) ── hit ─────────────┘  └────────────────────────────────┘
//! ```
//!
//! Each page counts its uses while in memory, three at most. As in the paper's algorithm 1; where that leaves a
//! choice, as in the authors' own implementation (libCacheSim): a fresh memory fills the small queue, then main; main
//! may be longer than its room until the next page has to leave; and where a tenth of memory is no whole number, small
//! and ghost are rounded down and main is the rest.

use super::Ruler;
use super::lists::Lists;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Uses that are counted.
const MOST_USES: u8 = 3;
/// Uses that take a page from the small queue to main.
const USES_FOR_MAIN: u8 = 2;

/// S3-FIFO.
pub struct S3Fifo {
    small_room: usize,
    main_room: usize,
    ghost_room: usize,
    lists: Lists<3>,
    /// Memory was full once.
    was_full: bool,
    /// By page: uses since it came in, or since it last came round.
    uses: Vec<u8>,
}

impl S3Fifo {
    /// An S3-FIFO of `capacity` pages, at least one.
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

    /// Moves pages to main until one leaves memory, or the queue is empty.
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
