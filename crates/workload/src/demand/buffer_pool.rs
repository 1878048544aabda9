//! A buffer pool: the cache that a database keeps of its file in private memory, in place of the kernel's
//! page cache.
//!
//! ```text
//!   block ──► slot of it? ── yes ──► hit: set its bit
//!                       └── no ───► hand ► the first slot whose bit is clear: read the block into it
//! ```
//!
//! Databases evict blocks that have not been used for long, but none keeps exact LRU order: InnoDB moves
//! pages within its list only when they have sunk far, and WiredTiger's eviction workers walk the tree and
//! compare read generations. A clock is the simplest policy that does the same: each slot has a bit that is
//! set on use and cleared when the hand passes.

/// Where a requested block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The block is in this slot.
    Hit(u32),
    /// The block must be read into this slot.
    Miss(u32),
}

const NONE: u32 = u32::MAX;

/// A clock over slots of equal size.
#[derive(Clone, Debug)]
pub struct BufferPool {
    /// The slot of each block, or [`NONE`].
    slot_of: Vec<u32>,
    /// The block in each slot, in the order in which slots were first filled.
    block_in: Vec<u32>,
    used: Vec<bool>,
    slots: usize,
    hand: usize,
}

impl BufferPool {
    /// An empty pool of `slots` slots, at least one, for the blocks `0..blocks`.
    pub fn new(blocks: u32, slots: u32) -> BufferPool {
        BufferPool {
            slot_of: vec![NONE; blocks as usize],
            block_in: Vec::new(),
            used: Vec::new(),
            slots: slots.max(1) as usize,
            hand: 0,
        }
    }

    /// Looks up `block`; on a miss, evicts a block to make room for it.
    #[inline]
    pub fn request(&mut self, block: u32) -> Found {
        let slot = self.slot_of[block as usize];
        if slot != NONE {
            self.used[slot as usize] = true;
            return Found::Hit(slot);
        }
        let slot = if self.block_in.len() < self.slots {
            self.block_in.push(block);
            self.used.push(false);
            self.block_in.len() - 1
        } else {
            while std::mem::take(&mut self.used[self.hand]) {
                self.hand = (self.hand + 1) % self.slots;
            }
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.slots;
            self.slot_of[self.block_in[slot] as usize] = NONE;
            self.block_in[slot] = block;
            slot
        };
        self.slot_of[block as usize] = slot as u32;
        Found::Miss(slot as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_queue_with_second_chances(
            requests in proptest::collection::vec(0u32..40, 1..400), slots in 1u32..30
        ) {
            let mut pool = BufferPool::new(40, slots);
            // Oldest first; the flag says whether the block was used since it was last at the end of the
            // queue.
            let mut queue: Vec<(u32, bool)> = Vec::new();
            let mut slot_of = [NONE; 40];
            for block in requests {
                let found = pool.request(block);
                match queue.iter_mut().find(|(resident, _)| *resident == block) {
                    Some((_, used)) => {
                        *used = true;
                        prop_assert_eq!(found, Found::Hit(slot_of[block as usize]));
                    }
                    None => {
                        if queue.len() == slots as usize {
                            while queue[0].1 {
                                queue[0].1 = false;
                                queue.rotate_left(1);
                            }
                            slot_of[block as usize] = slot_of[queue.remove(0).0 as usize];
                        } else {
                            slot_of[block as usize] = queue.len() as u32;
                        }
                        queue.push((block, false));
                        prop_assert_eq!(found, Found::Miss(slot_of[block as usize]));
                    }
                }
            }
        }
    }
}
