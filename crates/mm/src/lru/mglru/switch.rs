//! Turning the multi-gen LRU on or off at run time (`lru_gen/enabled`).
//!
//! ```text
//!   on     active, inactive ─ tail first ─► the generation that insertion chooses; active ones the youngest
//!   off    generation 0, 1, 2, 3 (modulo 4) ─ tail first ─► active if one of the two youngest, else inactive
//! ```
//!
//! While the classic LRU is in use, generations keep their numbers and counters, and each LRU reads the
//! shadows that the other one left as if they were its own. A folio in a batch is still on a list, and is
//! moved. The kernel moves 4096 folios per hold of the lock, which makes no difference here. In the kernel:
//! `lru_gen_change_state`, `fill_evictable`, `drain_evictable` in mm/vmscan.c.

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
