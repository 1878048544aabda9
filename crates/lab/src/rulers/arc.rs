//! ARC (N. Megiddo, D. S. Modha, "ARC: A self-tuning, low overhead replacement cache", FAST 2003): pages seen
//! once and pages seen again are on two lists. The target length of the first list is adapted by hits on
//! pages that either list evicted lately.
//!
//! ```text
//!     evicted B1 ◄── T1 ◄── seen once          T1 + T2: in memory, at most `c` pages
//!             B2 ◄── T2 ◄── seen again         B1 + B2: history; T1 + B1 <= c, all four <= 2 c
//!
//!     a hit in B1: T1 was too short, p grows; a hit in B2: p shrinks. T1 gives up a page if it is longer than p.
//! ```
//!
//! The implementation follows figure 4 of the paper, with its case numbers; p is a real number there and
//! here.

use super::Ruler;
use super::lists::Lists;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

pub struct Arc {
    c: usize,
    /// Target length of T1.
    p: f64,
    lists: Lists<4>,
}

impl Arc {
    /// An ARC with a capacity of `capacity` pages, at least one.
    pub fn new(capacity: usize) -> Arc {
        Arc { c: capacity.max(1), p: 0.0, lists: Lists::new() }
    }

    /// REPLACE in the paper: evicts a page from memory into the history.
    fn replace(&mut self, hit_in_b2: bool) {
        let t1 = self.lists.len(T1) as f64;
        let from_t1 = t1 > 0.0 && (t1 > self.p || (hit_in_b2 && t1 == self.p));
        let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
        if let Some(page) = self.lists.pop(from) {
            self.lists.push(to, page);
        }
    }
}

impl Ruler for Arc {
    fn access(&mut self, page: u32) -> bool {
        let len = |lists: &Lists<4>, list| lists.len(list) as f64;
        match self.lists.list_of(page) {
            // Case I.
            Some(T1 | T2) => {
                self.lists.move_to(T2, page);
                return true;
            }
            // Case II.
            Some(B1) => {
                let step = (len(&self.lists, B2) / len(&self.lists, B1)).max(1.0);
                self.p = (self.p + step).min(self.c as f64);
                self.replace(false);
                self.lists.move_to(T2, page);
            }
            // Case III.
            Some(_) => {
                let step = (len(&self.lists, B1) / len(&self.lists, B2)).max(1.0);
                self.p = (self.p - step).max(0.0);
                self.replace(true);
                self.lists.move_to(T2, page);
            }
            // Case IV.
            None => {
                let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| self.lists.len(list));
                if t1 + b1 == self.c {
                    if t1 < self.c {
                        self.lists.pop(B1);
                        self.replace(false);
                    } else {
                        self.lists.pop(T1);
                    }
                } else if t1 + t2 + b1 + b2 >= self.c {
                    if t1 + t2 + b1 + b2 == 2 * self.c {
                        self.lists.pop(B2);
                    }
                    self.replace(false);
                }
                self.lists.push(T1, page);
            }
        }
        false
    }
}
