//! Doubly linked lists of pages, stored in arrays.
//!
//! ```text
//!   list 0   head ─► 7 ─► 2 ─► 9 ◄─ tail        links[7] = { next: 2, prev: NONE }
//!   list 1   head ─► 4 ◄─ tail                  of[7] = 0, of[4] = 1, of[5] = NONE
//! ```
//!
//! A page is on at most one list, so one pair of links per page serves all lists of a policy, and the list
//! that a page is on is the policy's state for it. Pages enter at the head; policies evict from the tail.

/// No page.
pub const NONE: u32 = u32::MAX;

/// The page is on no list.
const NOWHERE: u8 = u8::MAX;

#[derive(Clone, Copy)]
struct Links {
    next: u32,
    prev: u32,
}

#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
    len: usize,
}

/// `N` lists with common links.
pub struct Lists<const N: usize> {
    links: Vec<Links>,
    of: Vec<u8>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    /// Empty lists.
    pub fn new() -> Lists<N> {
        let empty = Ends { head: NONE, tail: NONE, len: 0 };
        Lists { links: Vec::new(), of: Vec::new(), ends: [empty; N] }
    }

    /// The list that `page` is on, if any.
    pub fn list_of(&self, page: u32) -> Option<usize> {
        self.of.get(page as usize).filter(|&&list| list != NOWHERE).map(|&list| list.into())
    }

    /// Number of pages on `list`.
    pub fn len(&self, list: usize) -> usize {
        self.ends[list].len
    }

    /// The page at the tail of `list`; `None` if the list is empty.
    pub fn tail(&self, list: usize) -> Option<u32> {
        Some(self.ends[list].tail).filter(|&page| page != NONE)
    }

    /// Adds `page`, which must be on no list, at the head of `list`.
    pub fn push(&mut self, list: usize, page: u32) {
        let index = page as usize;
        if index >= self.of.len() {
            self.of.resize(index + 1, NOWHERE);
            self.links.resize(index + 1, Links { next: NONE, prev: NONE });
        }
        debug_assert_eq!(self.of[index], NOWHERE);
        let ends = &mut self.ends[list];
        let next = std::mem::replace(&mut ends.head, page);
        ends.len += 1;
        match next {
            NONE => ends.tail = page,
            _ => self.links[next as usize].prev = page,
        }
        self.links[index] = Links { next, prev: NONE };
        self.of[index] = list as u8;
    }

    /// Removes `page` from its list.
    pub fn remove(&mut self, page: u32) {
        let list = std::mem::replace(&mut self.of[page as usize], NOWHERE);
        let Links { next, prev } = self.links[page as usize];
        let ends = &mut self.ends[list as usize];
        ends.len -= 1;
        match prev {
            NONE => ends.head = next,
            _ => self.links[prev as usize].next = next,
        }
        match next {
            NONE => ends.tail = prev,
            _ => self.links[next as usize].prev = prev,
        }
    }

    /// Removes the page at the tail of `list`.
    pub fn pop(&mut self, list: usize) -> Option<u32> {
        let page = self.tail(list)?;
        self.remove(page);
        Some(page)
    }

    /// Moves `page` from its list to the head of `list`.
    pub fn move_to(&mut self, list: usize, page: u32) {
        if self.ends[list].head != page {
            self.remove(page);
            self.push(list, page);
        }
    }
}
