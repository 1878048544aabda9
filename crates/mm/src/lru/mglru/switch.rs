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

use crate::allocator::memory_map::ZoneType;
use crate::lru::Lrus;
use crate::lru::folio::ListHead;
use crate::lru::lruvec::{GENS, LruList, Lruvec};
use crate::lru::mmzone::LruType;

impl Lrus {
    /// Moves all folios to the lists of the LRU that is in use from now on.
    pub(crate) fn lru_gen_change_state(&mut self) {
        let f = self.generations();
        for lruvec in self.lruvecs.iter_mut() {
            for list in other_family(lruvec, f.is_some()) {
                while let Some(id) = self.folios.tail(list) {
                    lruvec.remove(&mut self.folios, id, false);
                    lruvec.add(&mut self.folios, f.as_ref(), id, false);
                }
            }
        }
    }
}

/// The lists of the LRU that is no longer in use.
fn other_family(lruvec: &Lruvec, enabled: bool) -> Vec<ListHead> {
    if enabled {
        return LruList::EVICTABLE.map(|list| lruvec.list(list)).to_vec();
    }
    let numbers = 0..GENS;
    let by_type = numbers.flat_map(|number| LruType::ALL.map(|lru_type| (number, lru_type)));
    let by_zone = by_type.flat_map(|(number, lru_type)| {
        (0..ZoneType::COUNT).map(move |zone| lruvec.generations.list_of(number, lru_type, zone))
    });
    by_zone.collect()
}
