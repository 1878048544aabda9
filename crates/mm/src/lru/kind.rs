//! What each LRU does where the rest of the kernel meets it.
//!
//! ```text
//!                         Classic                               MultiGen
//!   new in a page fault   as any other                          taken for used
//!   used again            active from the second time on        counted, up to the last tier
//!   onto a list           active or inactive                    a generation
//!   kswapd, first         fills inactive lists                  new generations (6.1); is anything old enough to go?
//!   of a node             all groups, what may be deactivated?  all groups (6.1), or groups in turn (6.3)
//!   of a lruvec           lists in balance                      the oldest generation
//!   young entries         say it of their folio                 and of what lies around it
//!   age of a shadow       that of the lruvec reclaimed for      that of the folio's own
//! ```
//!
//! Mechanics ask here which LRU is in use and nowhere else; decisions are told. A third one is a value of [`Lru`], a folder beside
//! [`mglru`], and a case in each `match` below and in `policy.rs` files. `lru_gen/enabled` changes from one to the other
//! at run time. In the kernel: `lru_gen_enabled` in include/linux/mm_inline.h and where it is asked.

use crate::address_space::Mappings;
use crate::kernel::Kernel;
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, Folios, ListEnd, ListHead, LruvecId};
use crate::lru::lruvec::{LruList, Lruvec};
use crate::lru::memcontrol::Memcg;
use crate::lru::mglru::{self, policy::memcgs_take_turns};
use crate::lru::policy::AddedBy;
use crate::lru::vmscan::ScanControl;
use crate::lru::vmscan::features::{Lru, ReclaimFeatures};
use machine::Node;

impl Kernel<'_> {
    /// A folio that is new in memory is on its way to a list.
    #[inline]
    pub(in crate::lru) fn note_new_folio(&mut self, id: FolioId, by: AddedBy) {
        match &self.parts.lrus.lru {
            Lru::MultiGen(f) if by == AddedBy::Fault => {
                mglru::policy::use_in_fault(f, &mut self.parts.lrus.folios.flags[id]);
            }
            Lru::Classic | Lru::MultiGen(_) => {}
        }
    }

    /// Notes that a folio was used through a file descriptor, or that a page-table entry that goes away was young.
    #[inline]
    pub fn folio_mark_accessed(&mut self, id: FolioId) {
        let flags = &mut self.parts.lrus.folios.flags[id];
        match &self.parts.lrus.lru {
            Lru::MultiGen(f) => mglru::policy::mark_accessed(f, flags),
            Lru::Classic if !flags.has(FolioFlags::REFERENCED) => flags.set(FolioFlags::REFERENCED),
            Lru::Classic if flags.any(FolioFlags::ACTIVE | FolioFlags::UNEVICTABLE) => {}
            Lru::Classic => self.mark_active(id),
        }
    }

    /// What kswapd does on a node before it evicts (`kswapd_age_node`).
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

    /// Reclaims from all groups below the target, on one node.
    pub(in crate::lru) fn shrink_node_lists(&mut self, node: Node, sc: &mut ScanControl) {
        match self.parts.lrus.lru {
            Lru::MultiGen(f) if memcgs_take_turns(&f, sc.is_for_cgroup()) => {
                sc.forget_dirty();
                self.lru_gen_shrink_node(node, f, sc);
            }
            Lru::MultiGen(_) => self.shrink_node_until_enough(node, sc, |_, _| {}),
            Lru::Classic => {
                self.shrink_node_until_enough(node, sc, |kernel, sc| kernel.prepare_scan_control(node, sc));
            }
        }
    }

    /// Reclaims from the lists of one group on a node.
    pub(in crate::lru) fn shrink_one_lruvec(&mut self, lruvec: LruvecId, sc: &mut ScanControl) {
        match self.parts.lrus.lru {
            Lru::Classic => self.shrink_lruvec(lruvec, sc),
            Lru::MultiGen(f) => self.lru_gen_shrink_lruvec(lruvec, f, sc),
        }
    }

    /// Reclaim has met a folio that the entries `young` were young of.
    pub(in crate::lru) fn note_young_entries(&mut self, id: FolioId, young: &Mappings, sc: &ScanControl) {
        match self.parts.lrus.lru {
            Lru::MultiGen(f) if !young.is_empty() => self.lru_gen_look_around(id, &f, young, sc.mm_walk),
            Lru::MultiGen(_) | Lru::Classic => {}
        }
    }

    /// What decides on reclaim and refaults now.
    #[inline]
    pub(crate) fn reclaim_features(&self) -> ReclaimFeatures {
        ReclaimFeatures { lru: self.parts.lrus.lru, ..self.on.features.reclaim }
    }
}

impl Lrus {
    /// The LRU in use.
    #[inline]
    pub(crate) fn lru(&self) -> Lru {
        self.lru
    }

    /// Whether a folio with these flags becomes active when it is used through a file descriptor next.
    #[inline]
    pub(crate) fn is_activated_by_use(&self, flags: FolioFlags) -> bool {
        match self.lru {
            Lru::Classic => flags.has(FolioFlags::REFERENCED) && !flags.has(FolioFlags::ACTIVE),
            Lru::MultiGen(_) => false,
        }
    }

    /// The lists whose age the shadow of a folio keeps, reclaim being for the group `target`.
    pub(in crate::lru) fn lruvec_of_shadow(&self, id: FolioId, target: Memcg) -> LruvecId {
        let own = self.folios[id].lruvec;
        match self.lru {
            Lru::Classic => self.lruvec_of(target, self.lruvecs[own].node),
            Lru::MultiGen(_) => own,
        }
    }
}

impl Lruvec {
    /// Puts a folio on the list that its flags name: at the head, or at the tail if it is to go next.
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

    /// The lists that hold nothing while this LRU is in use, those of locked memory left aside.
    pub(in crate::lru) fn unused_lists(&self, lru: &Lru) -> Vec<ListHead> {
        match lru {
            Lru::Classic => self.generations.lists().collect(),
            Lru::MultiGen(_) => LruList::EVICTABLE.map(|list| self.list(list)).to_vec(),
        }
    }
}
