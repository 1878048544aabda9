//! What the simulation will need soon, fetched from memory ahead of time. It changes how fast a replay is, never what
//! comes of it.
//!
//! ```text
//!   reads to come      in 30: its place   ─► in 20: what is there   ─► in 10: will it be activated?
//!                             slot                  flags; or node            record
//!
//!   reclaim to come    tail of the list, folio by folio, one for each miss ─► record, flags, slot
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
use crate::xarray::{Entry, FileId};
use machine::Node;

/// Reads from one step of looking ahead to the next: enough for memory to arrive, few enough for it to be there still.
const STEP: usize = 10;

/// Reads that are kept in mind: a power of two, for the sake of speed.
const WINDOW: usize = 32;

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
    /// The last folio that was fetched.
    at: Option<FolioId>,
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
            *read = match self.files.at(*read) {
                Entry::Folio(id) => {
                    self.folios.flags.prefetch(id);
                    id.0
                }
                Entry::Shadow(_) | Entry::Empty => {
                    self.files.prefetch_node(*read);
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

    /// A miss is served: has one folio more fetched of those that reclaim of `memcg`'s files on `node` will meet.
    #[inline]
    pub fn foresee_reclaim(&self, foresight: &mut Foresight, memcg: Memcg, node: Node) {
        for (walk, list) in foresight.walks.iter_mut().zip(self.next_lists(memcg, node)) {
            let Some(list) = list else { continue };
            let tail = self.folios.tail(list);
            let next = match walk.at {
                Some(at) if walk.tail == tail => {
                    let slot = self.folios[at].slot;
                    self.files.prefetch(slot);
                    self.files.prefetch_node(slot);
                    Some(self.folios.previous(at))
                }
                _ => tail,
            };
            if let Some(next) = next {
                self.folios.prefetch(next);
            }
            *walk = Walk { tail, at: next };
        }
    }

    /// Lists of files that reclaim will take folios from.
    fn next_lists(&self, memcg: Memcg, node: Node) -> [Option<ListHead>; 2] {
        let lruvec = self.lruvec(memcg, node);
        if self.generations.is_none() {
            return [LruList::InactiveFile, LruList::ActiveFile].map(|list| Some(lruvec.list(list)));
        }
        let oldest = lruvec.generations.min_seq[LruType::File as usize];
        let mut lists =
            (0..ZoneType::COUNT).rev().map(|zone| lruvec.generations.list(oldest, LruType::File, zone));
        [lists.find(|&list| !self.folios.is_list_empty(list)), None]
    }
}
