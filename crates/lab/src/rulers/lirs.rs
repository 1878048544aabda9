//! LIRS (S. Jiang, X. Zhang, "LIRS: An efficient low inter-reference recency set replacement policy",
//! SIGMETRICS 2002): pages are ranked by the number of other pages used between their last two uses, instead
//! of by the time since the last use.
//!
//! ```text
//!   stack S   newest ─► .. L .. h .. x .. L      L LIR page (low inter-reference recency), always in memory
//!   queue Q   newest ─► h .. h ─► victim         h HIR page (high), in memory; x HIR page, evicted but remembered
//!
//!   S always ends with an L. A HIR page that is used while on S has the lower recency: it swaps its role with that L.
//! ```
//!
//! 1 % of memory is for HIR pages, as in the paper. S is not bounded, as in the paper's description; it can
//! grow to the number of pages used since the last use of its oldest LIR page.

use super::Ruler;
use super::lists::Lists;

/// The only list in the [`Lists`] of S and in those of Q, which are separate because a page can be on both.
const ONLY: usize = 0;

pub struct Lirs {
    capacity: usize,
    /// Most LIR pages.
    low_room: usize,
    low: usize,
    /// For each page, whether it is a LIR page.
    is_low: Vec<bool>,
    stack: Lists<1>,
    queue: Lists<1>,
}

impl Lirs {
    /// A LIRS with a capacity of `capacity` pages, at least one.
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

    /// Removes HIR pages from the end of S.
    fn prune(&mut self) {
        while let Some(page) = self.stack.tail(ONLY)
            && !self.is_low[page as usize]
        {
            self.stack.remove(page);
        }
    }

    /// Turns a HIR page on S into a LIR page, and the LIR page at the end of S into a HIR page.
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
