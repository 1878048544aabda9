//! What the classic and the multi-gen LRU each do where the rest of the kernel meets them.
//!
//! ```text
//!                         Classic                               MultiGen
//!   folio of a fault      as any other                          counts as used
//!   used again            active from the second time on,       counted, up to the last tier; DAMON
//!                         and no longer idle for DAMON          does not learn of it
//!   added to a list       active or inactive                    a generation
//!   kswapd, first         fills inactive lists                  new generations (6.1); is anything old?
//!   shrinks a node        all memcgs, what may be deactivated?  all memcgs (6.1), or memcgs in turn (6.3)
//!   shrinks a lruvec      lists in balance                      the oldest generation
//!   young PTEs            say that their folio is used          and that the PTEs around are worth a look
//!   age of a shadow       that of the lruvec reclaimed for      that of the folio's own lruvec
//! ```
//!
//! The mechanics ask here, and nowhere else, which LRU is in use; functions of policy get it as an argument.
//! A third LRU is a value of [`Lru`], a folder beside [`mglru`], and an arm of each `match` below and in the
//! `policy.rs` files. `lru_gen/enabled` changes from one to the other at run time. In the kernel:
//! `lru_gen_enabled` in include/linux/mm_inline.h and its callers.

use crate::address_space::Mappings;
use crate::kernel::Kernel;
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, Folios, ListEnd, ListHead, LruvecId};
use crate::lru::lruvec::{LruList, Lruvec};
use crate::lru::memcontrol::Memcg;
use crate::lru::mglru::{self, Eviction, policy::looks_around};
use crate::lru::policy::AddedBy;
use crate::lru::vmscan::ScanControl;
use crate::lru::vmscan::features::{Lru, ReclaimFeatures};
use crate::lru::vmscan::policy::ListsInTurn;
use machine::Node;

/// What is left of reclaim from a lruvec, which is done in batches.
#[derive(Clone, Debug)]
pub(in crate::lru) enum LruvecScan {
    Classic(ListsInTurn),
    MultiGen(Eviction),
}

impl Kernel<'_> {
    /// Notes how a folio that is about to be added to the LRU came into memory: the multi-gen LRU takes a
    /// page fault for an access.
    #[inline]
    pub(in crate::lru) fn note_new_folio(&mut self, id: FolioId, by: AddedBy) {
        match &self.parts.lrus.lru {
            Lru::MultiGen(f) if by == AddedBy::Fault => {
                mglru::policy::use_in_fault(f, &mut self.parts.lrus.folios.flags[id]);
            }
            Lru::Classic | Lru::MultiGen(_) => {}
        }
    }

    /// Notes an access to a folio through a file descriptor, or that a PTE that is being unmapped was young
    /// (`folio_mark_accessed`).
    #[inline]
    pub fn folio_mark_accessed(&mut self, id: FolioId) {
        let flags = &mut self.parts.lrus.folios.flags[id];
        match &self.parts.lrus.lru {
            Lru::MultiGen(f) => {
                mglru::policy::mark_accessed(f, flags);
                // Whoever asks about idle pages (DAMON) does not learn of it.
                return;
            }
            Lru::Classic if !flags.has(FolioFlags::REFERENCED) => flags.set(FolioFlags::REFERENCED),
            Lru::Classic if flags.any(FolioFlags::ACTIVE | FolioFlags::UNEVICTABLE) => {}
            Lru::Classic => self.mark_active(id),
        }
        self.parts.lrus.folios.page_idle.clear_idle(id);
    }

    /// Ages the lists of a node before kswapd evicts from it (`kswapd_age_node`).
    pub(in crate::lru) fn kswapd_age_node(&mut self, node: Node, sc: &mut ScanControl) {
        match self.parts.lrus.lru {
            Lru::Classic => self.age_active_anon(node, sc),
            Lru::MultiGen(f) => {
                if !self.lru_gen_age_node(node, &f, sc) {
                    self.parts.lrus.ask_for_oom_kill();
                }
            }
        }
    }

    /// What comes before a pass of reclaim over the target memcg and all below it.
    pub(in crate::lru) fn prepare_for_pass(&mut self, node: Node, sc: &mut ScanControl) {
        match self.parts.lrus.lru {
            Lru::Classic => self.prepare_scan_control(node, sc),
            Lru::MultiGen(_) => {}
        }
    }

    /// Begins to reclaim from one lruvec (`shrink_lruvec`, `lru_gen_shrink_lruvec`).
    pub(in crate::lru) fn begin_lruvec(&mut self, lruvec: LruvecId, sc: &mut ScanControl) -> LruvecScan {
        match self.parts.lrus.lru {
            Lru::Classic => LruvecScan::Classic(self.begin_lists(lruvec, sc)),
            Lru::MultiGen(f) => {
                self.lru_add_drain();
                sc.mm_walk = sc.kswapd;
                LruvecScan::MultiGen(self.begin_eviction(lruvec, &f, sc))
            }
        }
    }

    /// Reclaims the next batch from a lruvec. Returns whether there may be another.
    pub(in crate::lru) fn step_lruvec(
        &mut self,
        lruvec: LruvecId,
        scan: &mut LruvecScan,
        sc: &mut ScanControl,
    ) -> bool {
        match (scan, self.parts.lrus.lru) {
            (LruvecScan::Classic(lists), Lru::Classic) => self.step_lists(lruvec, lists, sc),
            (LruvecScan::MultiGen(eviction), Lru::MultiGen(f)) => {
                self.step_eviction(lruvec, &f, eviction, sc).is_continue()
            }
            // The LRU has been switched since the last batch.
            _ => false,
        }
    }

    /// Tells the LRU of the PTEs `young` in which the rmap walk of reclaim has found and cleared the accessed
    /// bit: the multi-gen LRU looks at those around them too (`lru_gen_look_around`).
    pub(in crate::lru) fn note_young_entries(&mut self, id: FolioId, young: &Mappings, sc: &ScanControl) {
        match self.parts.lrus.lru {
            Lru::MultiGen(f) if !young.is_empty() && looks_around(&f) => {
                self.lru_gen_look_around(id, &f, young, sc.mm_walk)
            }
            Lru::MultiGen(_) | Lru::Classic => {}
        }
    }

    /// The features that decide on reclaim and refaults, with the LRU in use now.
    #[inline]
    pub(crate) fn reclaim_features(&self) -> ReclaimFeatures {
        ReclaimFeatures { lru: self.parts.lrus.lru, ..self.on.features.reclaim }
    }
}

impl Lrus {
    #[inline]
    pub(crate) fn lru(&self) -> Lru {
        self.lru
    }

    /// Whether `folio_mark_accessed` makes a folio with these flags active.
    #[inline]
    pub(crate) fn is_activated_by_use(&self, flags: FolioFlags) -> bool {
        match self.lru {
            Lru::Classic => flags.has(FolioFlags::REFERENCED) && !flags.has(FolioFlags::ACTIVE),
            Lru::MultiGen(_) => false,
        }
    }

    /// The lruvec whose age goes into the shadow of a folio that reclaim for `target` evicts.
    pub(in crate::lru) fn lruvec_of_shadow(&self, id: FolioId, target: Memcg) -> LruvecId {
        let own = self.folios[id].lruvec;
        match self.lru {
            Lru::Classic => self.lruvec_of(target, self.lruvecs[own].node),
            Lru::MultiGen(_) => own,
        }
    }
}

impl Lruvec {
    /// Adds a folio to the list that its flags name (`lruvec_add_folio`), at the head, or at the tail if it
    /// is to be reclaimed next.
    #[inline(always)]
    pub fn add(&mut self, folios: &mut Folios, lru: &Lru, id: FolioId, end: ListEnd) {
        match lru {
            _ if folios.flags[id].has(FolioFlags::UNEVICTABLE) => {
                self.add_to_list(folios, LruList::Unevictable, id, end);
            }
            Lru::MultiGen(f) => self.add_to_generation(folios, f, id, end),
            Lru::Classic => self.add_to_list(folios, LruList::of_flags(folios.flags[id]), id, end),
        }
    }

    /// The lists that are empty while `lru` is in use. The unevictable list belongs to both LRUs.
    pub(in crate::lru) fn unused_lists(&self, lru: &Lru) -> Vec<ListHead> {
        match lru {
            Lru::Classic => self.generations.lists().collect(),
            Lru::MultiGen(_) => LruList::EVICTABLE.map(|list| self.list(list)).to_vec(),
        }
    }
}
