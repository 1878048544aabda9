//! W-TinyLFU (G. Einziger, R. Friedman, B. Manes, "TinyLFU: A highly efficient cache admission policy", ACM
//! Transactions on Storage 13(4), 2017): a new page enters a small window. When it leaves the window, it is
//! admitted to main memory only if it was used more often than the page that it would replace.
//!
//! ```text
//!   new ─► window (1 %, LRU) ──► used more often than the victim? ── yes ─► probation ── used ─► protected (80 %)
//!                                    no ─► evicted                            ▲ └─► victim          │
//!                                                                             └─────────────────────┘ too long
//! ```
//!
//! The paper estimates how often a page was used with small hashed counters. Here pages are dense numbers, so
//! each has a counter of its own, which equals the paper's sketch without collisions. Counters go up to 15
//! and are halved after 10 accesses per page of memory, as in the paper's implementation. libCacheSim counts
//! and ages differently; `tests/hashed.rs` says how.

use super::Ruler;
use super::lists::Lists;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

const MOST_USES: u8 = 15;
/// Accesses between two halvings, per page of memory.
const SAMPLE_A_PAGE: usize = 10;

/// How often a page was used lately.
#[derive(Clone, Copy, Default)]
struct Uses {
    count: u8,
    /// Number of halvings, modulo 2^32, applied to `count`.
    halvings: u32,
}

pub struct WTinyLfu {
    window_room: usize,
    main_room: usize,
    protected_room: usize,
    lists: Lists<3>,
    uses: Vec<Uses>,
    sample: usize,
    accesses: usize,
    halvings: u32,
}

impl WTinyLfu {
    /// A W-TinyLFU with a capacity of `capacity` pages, at least one.
    pub fn new(capacity: usize) -> WTinyLfu {
        let capacity = capacity.max(1);
        let window_room = (capacity / 100).max(1);
        let main_room = capacity - window_room;
        WTinyLfu {
            window_room,
            main_room,
            protected_room: main_room * 4 / 5,
            lists: Lists::new(),
            uses: Vec::new(),
            sample: capacity.saturating_mul(SAMPLE_A_PAGE),
            accesses: 0,
            halvings: 0,
        }
    }

    /// The counter of `page`, after the halvings that are due.
    fn uses(&mut self, page: u32) -> &mut Uses {
        let uses = &mut self.uses[page as usize];
        let due = self.halvings.wrapping_sub(uses.halvings).min(u8::BITS - 1);
        *uses = Uses { count: uses.count >> due, halvings: self.halvings };
        uses
    }

    fn count(&mut self, page: u32) {
        if page as usize >= self.uses.len() {
            self.uses.resize(page as usize + 1, Uses::default());
        }
        let uses = self.uses(page);
        uses.count = (uses.count + 1).min(MOST_USES);
        self.accesses += 1;
        if self.accesses == self.sample {
            self.accesses = 0;
            self.halvings = self.halvings.wrapping_add(1);
        }
    }

    fn protect(&mut self, page: u32) {
        self.lists.move_to(PROTECTED, page);
        if self.lists.len(PROTECTED) > self.protected_room
            && let Some(last) = self.lists.pop(PROTECTED)
        {
            self.lists.push(PROBATION, last);
        }
    }

    /// Decides on a page that leaves the window: either it or its competitor is evicted.
    fn admit(&mut self, candidate: u32) {
        if self.lists.len(PROBATION) + self.lists.len(PROTECTED) >= self.main_room {
            let victim = self.lists.tail(PROBATION).or(self.lists.tail(PROTECTED));
            let Some(victim) = victim else { return };
            if self.uses(candidate).count <= self.uses(victim).count {
                return;
            }
            self.lists.remove(victim);
        }
        self.lists.push(PROBATION, candidate);
    }
}

impl Ruler for WTinyLfu {
    fn access(&mut self, page: u32) -> bool {
        self.count(page);
        match self.lists.list_of(page) {
            Some(WINDOW) => self.lists.move_to(WINDOW, page),
            Some(PROTECTED) => self.lists.move_to(PROTECTED, page),
            Some(_) => self.protect(page),
            None => {
                self.lists.push(WINDOW, page);
                if self.lists.len(WINDOW) > self.window_room
                    && let Some(candidate) = self.lists.pop(WINDOW)
                {
                    self.admit(candidate);
                }
                return false;
            }
        }
        true
    }
}
