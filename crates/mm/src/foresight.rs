//! What the simulation will need soon, fetched from memory ahead of time. It changes how fast a replay is, never what
//! comes of it.
//!
//! ```text
//!   an access that comes    its place   ─► what is there   ─► will it be activated?
//!                           slot           flags; or node      record
//!
//!   reclaim that comes      tail of the list, folio by folio, one for each miss  ─► records, flags, slots
//! ```
//!
//! Pages of a large memory are spread over more of the host's than its caches hold. Who knows the accesses to come, as
//! a replay of a trace does, asks for each a few accesses ahead: first for its place, then for what is known of it. What
//! was asked for too late, or for nothing, costs a little time. The kernel fetches ahead likewise, a folio at a time
//! (`prefetchw_prev_lru_folio` in mm/vmscan.c).

use crate::folio::{FolioFlags, FolioId, ListHead};
use crate::lruvec::LruList;
use crate::memcontrol::Memcg;
use crate::memory_map::ZoneType;
use crate::page_alloc::MemoryManager;
use crate::workingset::LruType;
use crate::xarray::{Entry, FileId};
use machine::Node;

/// How far from the tail of a list folios have been fetched.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// The tail that it began at: another one means that reclaim was there meanwhile.
    tail: Option<FolioId>,
    /// The last folio that was fetched.
    at: Option<FolioId>,
}

/// How far reclaim of a group's files is foreseen.
#[derive(Clone, Debug, Default)]
pub struct Foresight([Walk; 2]);

impl MemoryManager {
    /// Has the place of a page fetched, which a later read will need.
    #[inline]
    pub fn foresee_place(&self, file: FileId, index: u32) {
        if let Some(slot) = self.files.slot(file, index) {
            self.files.prefetch(slot);
        }
    }

    /// Has what is known of a page fetched, once [`MemoryManager::foresee_place`] has its place.
    #[inline]
    pub fn foresee_read(&self, file: FileId, index: u32) {
        let Some(slot) = self.files.slot(file, index) else { return };
        match self.files.at(slot) {
            Entry::Folio(id) => self.folios.flags.prefetch(id),
            Entry::Shadow(_) | Entry::Empty => self.files.prefetch_node(slot),
        }
    }

    /// Has the record of a page fetched that the classic LRU will activate, once [`MemoryManager::foresee_read`] has its
    /// flags.
    #[inline]
    pub fn foresee_activation(&self, file: FileId, index: u32) {
        if self.generations.is_some() {
            return;
        }
        if let Entry::Folio(id) = self.files.entry(file, index) {
            let flags = self.folios.flags[id];
            if flags.has(FolioFlags::REFERENCED) && !flags.any(FolioFlags::ACTIVE) {
                self.folios.prefetch(id);
            }
        }
    }

    /// Has one folio more fetched of those that reclaim of `memcg`'s files on `node` will meet.
    #[inline]
    pub fn foresee_reclaim(&self, foresight: &mut Foresight, memcg: Memcg, node: Node) {
        let lists = self.next_lists(memcg, node);
        for (walk, list) in foresight.0.iter_mut().zip(lists) {
            let Some(list) = list else { continue };
            let tail = self.folios.tail(list);
            let next = match walk.at {
                Some(at) if walk.tail == tail => {
                    self.files.prefetch(self.folios[at].slot);
                    self.files.prefetch_node(self.folios[at].slot);
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
