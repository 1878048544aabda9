//! What the simulation will need soon, fetched from memory ahead of time. It changes how fast a replay is, never what
//! comes of it.
//!
//! ```text
//!   reads to come      in 30: its place   ─► in 20: what is there   ─► in 10: will it be activated?
//!                             slot                  flags; or shadow          record
//!
//!   reclaim to come    some folios near the tail for each miss ─► record, flags ─► slot, where they will be evicted
//! ```
//!
//! Pages of a large memory are spread over more of the host's than its caches hold. Who knows the accesses to come, as
//! a replay of a trace does, names each [`Foresight::AHEAD`] accesses ahead. What was asked for too late, or for nothing,
//! costs a little time. The kernel fetches ahead likewise, a folio at a time (`prefetchw_prev_lru_folio` in mm/vmscan.c).

use crate::folio::{FolioFlags, FolioId, ListHead};
use crate::lruvec::LruList;
use crate::memcontrol::Memcg;
use crate::memory_map::ZoneType;
use crate::page_alloc::MemoryManager;
use crate::workingset::LruType;
use crate::xarray::FileId;
use machine::Node;

/// Reads from one step of looking ahead to the next: enough for memory to arrive, few enough for it to be there still.
const STEP: usize = 10;

/// Reads that are kept in mind: a power of two, for the sake of speed.
const WINDOW: usize = 32;

/// Folios that a miss has fetched of each list that reclaim will take folios from: for 32 misses, the 64 that it may take.
const A_MISS: usize = 2;

/// Folios of a list from one step to the next.
const LIST_STEP: usize = 8;

/// Places from the tail that are looked at.
const MOST_PLACES: usize = 62;

/// Stands for a page without a slot or folio.
const NONE: u32 = u32::MAX;

/// What is known of accesses to come.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// Of each read to come its slot, and once that is known, its folio.
    reads: [u32; WINDOW],
    newest: usize,
    walks: [Walk; 2],
}

/// How far from the tail of a list folios have been fetched.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// The tail that it began at: another one means that reclaim was there meanwhile.
    tail: Option<FolioId>,
    places: usize,
}

impl Default for Foresight {
    fn default() -> Self {
        Foresight { reads: [NONE; WINDOW], newest: 0, walks: [Walk::default(); 2] }
    }
}

impl Foresight {
    /// How many reads ahead a page is to be named.
    pub const AHEAD: usize = 3 * STEP;

    /// The read that was named so many reads ago.
    #[inline]
    fn read(&mut self, ago: usize) -> &mut u32 {
        &mut self.reads[self.newest.wrapping_sub(ago) % WINDOW]
    }
}

impl MemoryManager {
    /// A page of a file will be read, [`Foresight::AHEAD`] reads from now.
    #[inline]
    pub fn foresee_read(&self, foresight: &mut Foresight, file: FileId, index: u32) {
        foresight.newest = foresight.newest.wrapping_add(1);
        let slot = self.files.slot(file, index).unwrap_or(NONE);
        *foresight.read(0) = slot;
        self.files.prefetch(slot);

        let read = foresight.read(STEP);
        if *read != NONE {
            *read = match self.files.folio_at(*read) {
                Some(id) => {
                    self.folios.flags.prefetch(id);
                    id.0
                }
                None => {
                    self.files.prefetch_shadow(*read);
                    NONE
                }
            };
        }

        let id = *foresight.read(2 * STEP);
        if self.generations.is_none() && id != NONE {
            let flags = self.folios.flags[FolioId(id)];
            if flags.has(FolioFlags::REFERENCED) && !flags.has(FolioFlags::ACTIVE) {
                self.folios.prefetch(FolioId(id));
            }
        }
    }
    /// A miss is served: has some folios more fetched of those that reclaim of `memcg`'s files on `node` will meet.
    #[inline]
    pub fn foresee_reclaim(&self, foresight: &mut Foresight, memcg: Memcg, node: Node) {
        for (walk, (list, evicts)) in foresight.walks.iter_mut().zip(self.next_lists(memcg, node)) {
            let tail = self.folios.tail(list);
            if walk.tail != tail {
                *walk = Walk { tail, places: 0 };
            }
            for places in walk.places..walk.places + A_MISS {
                if let Some(id) = self.folios.near_tail(list, places) {
                    self.folios.prefetch(id);
                }
                if evicts
                    && let Some(places) = places.checked_sub(LIST_STEP)
                    && let Some(id) = self.folios.near_tail(list, places)
                {
                    self.files.prefetch(self.folios[id].slot);
                }
            }
            walk.places = (walk.places + A_MISS).min(MOST_PLACES);
        }
    }

    /// Lists of files that reclaim will take folios from, and whether it evicts them.
    #[inline]
    fn next_lists(&self, memcg: Memcg, node: Node) -> impl Iterator<Item = (ListHead, bool)> {
        let lruvec = self.lruvec(memcg, node);
        let lists = if self.generations.is_none() {
            let [inactive, active] =
                [LruList::InactiveFile, LruList::ActiveFile].map(|list| lruvec.list(list));
            [Some((inactive, true)), Some((active, false))]
        } else {
            let oldest = lruvec.generations.min_seq[LruType::File as usize];
            let by_zone = (0..ZoneType::COUNT).rev();
            let mut lists = by_zone.map(|zone| lruvec.generations.list(oldest, LruType::File, zone));
            [lists.find(|&list| !self.folios.is_list_empty(list)).map(|list| (list, true)), None]
        };
        lists.into_iter().flatten()
    }
}
