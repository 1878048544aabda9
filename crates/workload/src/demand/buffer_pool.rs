//! The cache that a database keeps of its own file: blocks in its private memory, in place of the kernel's page cache.
//!
//! ```text
//!   block ──► where? ── resident ──► slot: touch it
//!                   └── not ───────► hand ► first slot that nobody has used since it last came by: read into it
//! ```
//!
//! Databases drop what has not been used for long, and none keeps exact order: InnoDB moves pages within a list only
//! when they have sunk far, WiredTiger's eviction workers walk the tree and compare read generations. A clock is the
//! simplest thing that does the same: each slot has one bit, set by use, cleared as the hand passes.

/// What became of a request for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is in this slot.
    Hit(u32),
    /// It must be read into this slot.
    Miss(u32),
}

const NONE: u32 = u32::MAX;

/// A clock over slots of equal size.
#[derive(Clone, Debug)]
pub struct BufferPool {
    /// Slot of each block.
    slot_of: Vec<u32>,
    /// Block in each slot, in the order in which they were filled at first.
    block_in: Vec<u32>,
    used: Vec<bool>,
    slots: usize,
    hand: usize,
}

impl BufferPool {
    /// An empty pool of `slots` slots, at least one, for blocks 0 to `blocks - 1`.
    pub fn new(blocks: u32, slots: u32) -> BufferPool {
        BufferPool {
            slot_of: vec![NONE; blocks as usize],
            block_in: Vec::new(),
            used: Vec::new(),
            slots: slots.max(1) as usize,
            hand: 0,
        }
    }

    /// Looks for `block`, and makes room for it if it is not there.
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
            // Oldest first; the flag says whether it was used since it came to the end of the queue.
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
