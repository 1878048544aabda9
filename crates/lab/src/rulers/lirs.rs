//! LIRS (S. Jiang, X. Zhang, "LIRS: An efficient low inter-reference recency set replacement policy", SIGMETRICS
//! 2002): what counts is how many other pages were used between the last two uses of a page, not how long ago the
//! last one was.
//!
//! ```text
//!   stack S   newest ─► .. L .. h .. x .. L      L low (LIR), always in memory
//!   queue Q   newest ─► h .. h ─► victim         h high (HIR), in memory; x high, gone but remembered
//!
//!   S always ends with an L. A high page that is used while on S comes back sooner than that L: they change roles.
//! ```
//!
//! 1 % of memory is for high pages, as in the paper. S is not bounded, as in the paper's description; its length
//! can grow to the number of pages that were used since the last L was.

use super::Ruler;
use super::lists::Lists;

/// S in its lists, Q in others: a page can be on both.
const ONLY: usize = 0;

/// LIRS.
pub struct Lirs {
    capacity: usize,
    /// Low pages that there may be.
    low_room: usize,
    low: usize,
    /// By page: it is low.
    is_low: Vec<bool>,
    stack: Lists<1>,
    queue: Lists<1>,
}

impl Lirs {
    /// A LIRS of `capacity` pages, at least one.
    pub fn new(capacity: usize) -> Lirs {
        let capacity = capacity.max(1);
        let low_room = capacity - (capacity / 100).max(1);
        Lirs { capacity, low_room, low: 0, is_low: Vec::new(), stack: Lists::new(), queue: Lists::new() }
    }

    fn put_on_top(&mut self, page: u32) {
        match self.stack.list_of(page) {
            Some(_) => self.stack.move_to(ONLY, page),
            None => self.stack.push(ONLY, page),
        }
    }

    /// Takes high pages off the end of S.
    fn prune(&mut self) {
        while let Some(page) = self.stack.tail(ONLY)
            && !self.is_low[page as usize]
        {
            self.stack.remove(page);
        }
    }

    /// A high page on S becomes low, the low page at the end of S high.
    fn exchange(&mut self, page: u32) {
        self.is_low[page as usize] = true;
        self.put_on_top(page);
        if let Some(last) = self.stack.pop(ONLY) {
            self.is_low[last as usize] = false;
            self.queue.push(ONLY, last);
        }
    }
}

impl Ruler for Lirs {
    fn access(&mut self, page: u32) -> bool {
        if page as usize >= self.is_low.len() {
            self.is_low.resize(page as usize + 1, false);
        }
        if self.is_low[page as usize] {
            self.put_on_top(page);
            self.prune();
            return true;
        }
        let hit = self.queue.list_of(page).is_some();
        if hit {
            self.queue.remove(page);
        } else if self.low < self.low_room {
            self.low += 1;
            self.is_low[page as usize] = true;
            self.put_on_top(page);
            return false;
        } else if self.low + self.queue.len(ONLY) == self.capacity {
            self.queue.pop(ONLY);
        }
        if self.stack.list_of(page).is_some() {
            self.exchange(page);
        } else {
            self.put_on_top(page);
            self.queue.push(ONLY, page);
        }
        self.prune();
        hit
    }
}
