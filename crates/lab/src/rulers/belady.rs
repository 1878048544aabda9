//! Belady's optimum (MIN): evicts the page whose next use is farthest away (L. A. Belady, "A study of
//! replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966). No policy that
//! admits every missing page can have fewer misses. It needs to know the future, which a trace provides.
//!
//! ```text
//!   access      0  1  2  3  4  5          next use:   a  b  c  a  b  -
//!   page        a  b  c  a  b  c                      3  4  5  -  -  -
//!
//!   bits        .  .  .  1  1  .          set: a page in memory is used at that time. Access 3 is a hit, because its
//!                        a  b             bit is set; the page of the highest bit is the victim.
//! ```
//!
//! Memory is therefore a set of times instead of pages. The set is a bitmap, with a bitmap of its nonzero
//! words above it and so on, so the highest bit is found in a few steps. Pages that are never used again are
//! only counted; they are evicted first.

use super::Ruler;
use std::sync::Arc;

/// The page is never used again.
const NEVER: u32 = u32::MAX;

/// For each access of a trace, the time of the next access to the same page.
#[derive(Clone)]
pub struct NextUses(Arc<[u32]>);

impl NextUses {
    /// Computes the next uses in `accesses` in one pass from the end. A trace must have fewer than 2^32 - 1
    /// accesses.
    pub fn of(accesses: &[u32]) -> NextUses {
        assert!(accesses.len() < NEVER as usize);
        let pages = accesses.iter().max().map_or(0, |&page| page as usize + 1);
        let mut seen = vec![NEVER; pages];
        let mut next = vec![NEVER; accesses.len()];
        for (time, &page) in accesses.iter().enumerate().rev() {
            next[time] = std::mem::replace(&mut seen[page as usize], time as u32);
        }
        NextUses(next.into())
    }
}

/// Belady's optimum. Its accesses must be those from which the next uses were computed.
pub struct Belady {
    capacity: usize,
    next: NextUses,
    time: usize,
    /// Times of the next use of the pages in memory.
    used_again: TimeSet,
    /// Number of pages in memory that are not used again.
    dead: usize,
    resident: usize,
}

impl Belady {
    /// The optimum with a capacity of `capacity` pages, at least one.
    pub fn new(capacity: usize, next: NextUses) -> Belady {
        let used_again = TimeSet::new(next.0.len());
        Belady { capacity: capacity.max(1), next, time: 0, used_again, dead: 0, resident: 0 }
    }
}

impl Ruler for Belady {
    fn access(&mut self, _: u32) -> bool {
        let hit = self.used_again.remove(self.time);
        if !hit {
            if self.resident < self.capacity {
                self.resident += 1;
            } else if self.dead > 0 {
                self.dead -= 1;
            } else {
                self.used_again.remove_highest();
            }
        }
        match self.next.0[self.time] {
            NEVER => self.dead += 1,
            next => self.used_again.insert(next as usize),
        }
        self.time += 1;
        hit
    }
}

/// A set of small numbers with a fast maximum.
struct TimeSet {
    /// `levels[0]` has a bit for each number; each further level has a bit for each word of the one below.
    levels: Vec<Vec<u64>>,
}

impl TimeSet {
    fn new(numbers: usize) -> TimeSet {
        let mut levels = Vec::new();
        let mut bits = numbers.max(1);
        loop {
            bits = bits.div_ceil(64);
            levels.push(vec![0; bits]);
            if bits == 1 {
                return TimeSet { levels };
            }
        }
    }

    fn insert(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            let had_some = *word != 0;
            *word |= 1 << (number % 64);
            if had_some {
                return;
            }
            number /= 64;
        }
    }

    /// Removes a number. Returns whether it was in the set.
    fn remove(&mut self, mut number: usize) -> bool {
        if self.levels[0][number / 64] & (1 << (number % 64)) == 0 {
            return false;
        }
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            *word &= !(1 << (number % 64));
            if *word != 0 {
                break;
            }
            number /= 64;
        }
        true
    }

    fn remove_highest(&mut self) {
        let mut number = 0;
        for level in self.levels.iter().rev() {
            match level[number].checked_ilog2() {
                Some(bit) => number = 64 * number + bit as usize,
                None => return,
            }
        }
        self.remove(number);
    }
}
