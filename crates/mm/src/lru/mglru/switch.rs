//! Turning the multi-gen LRU on or off while it has folios.
//!
//! ```text
//!   on     active, inactive  ─ tail first ─►  the generation that insertion chooses; active ones the youngest
//!   off    generation 0, 1, 2, 3 (numbers modulo 4)  ─ tail first ─►  active if it was one of the two youngest, inactive
//! ```
//!
//! Generations keep their numbers and what they have counted while the classic LRU is in use, and shadows that one of
//! them left are read by the other as if they were its own. What waits in a batch is still on a list, and moves. The
//! kernel moves 4096 folios per hold of the lock, which nobody sees here. In the kernel: `lru_gen_change_state`,
//! `fill_evictable`, `drain_evictable` in mm/vmscan.c.

use crate::lru::Lrus;
use crate::lru::folio::ListEnd;

impl Lrus {
    /// Moves all folios to the lists of the LRU that is in use from now on.
    pub(crate) fn lru_gen_change_state(&mut self) {
        for lruvec in self.lruvecs.iter_mut() {
            for list in lruvec.unused_lists(&self.lru) {
                while let Some(id) = self.folios.tail(list) {
                    lruvec.remove(&mut self.folios, id, false);
                    lruvec.add(&mut self.folios, &self.lru, id, ListEnd::Head);
                }
            }
        }
    }
}
