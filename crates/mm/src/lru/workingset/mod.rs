//! Working set detection: does a page that refaults deserve more than a new one?
//!
//! ```text
//!   memory full of pages that are all used, just not often enough to stay:
//!
//!        evicted                 inactive            active
//!   ---+------------------------+------------------+----------------+
//!      |  s  s  S  s  s  s  s   |  i  i  i  i  i   |  a  a  a  a    |
//!   ---+--------|---------------+------------------+----------------+
//!               '-- distance ---'   pages evicted since S was
//! ```
//!
//! Eviction leaves a shadow in the place of a page, which says from which lruvec it was evicted, when, and
//! how much it had been used. When the page is read in again, that is a refault, and the shadow says how
//! close it was to staying. The classic LRU measures the distance in evictions (`nonresident_age`) and
//! activates the page if so many more pages would have fitted. The multi-gen LRU asks whether the generation
//! that the page was evicted from still exists, and counts refaults by tier for its feedback loop. The series
//! "Refault distance update with MGLRU support" brings the distance to the multi-gen LRU.
//!
//! ```text
//!   shadow     the bits of a shadow
//!   policy     eviction ─► shadow;  shadow ─► flags of the new folio, counters, feedback      pure functions
//!   here       both applied to folios and their lists
//! ```
//!
//! In the kernel: mm/workingset.c, as read in 6.1.192, 6.12.117, a 6.14-era tree and 7.2.12; the series as
//! posted in v3.

pub mod policy;
pub mod shadow;

use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, LruvecId};
use crate::lru::lruvec::type_of;
use crate::lru::memcontrol::Memcg;
use crate::lru::mglru::policy::folio_use;
use crate::lru::policy::AddedBy;
use machine::{Node, Time};
use policy::{Feedback, LruSizes, LruvecState, Origin, Refault};
use shadow::Shadow;

impl Kernel<'_> {
    /// Returns the shadow that a folio leaves when reclaim for `target` evicts it (`workingset_eviction`).
    pub(crate) fn workingset_eviction(&mut self, id: FolioId, target: Memcg) -> u64 {
        let flags = self.parts.lrus.folios.flags[id];
        let (lru_type, folio_use, pages) = (type_of(flags), folio_use(flags), flags.nr_pages());
        let f = self.reclaim_features();
        let whose = self.parts.lrus.lruvec_of_shadow(id, target);
        let state = self.parts.lruvec_state(whose);
        let eviction = policy::eviction(&f, &self.parts.lrus.shadow_layout, lru_type, &state, folio_use);
        let lruvec = &mut self.parts.lrus.lruvecs[whose];
        if let Some(tier) = eviction.tier {
            lruvec.generations.evicted[lru_type as usize][tier as usize] += pages;
        }
        let shadow = Shadow {
            memcg: lruvec.memcg.0,
            node: lruvec.node.0.into(),
            eviction: eviction.stamp,
            workingset: eviction.workingset,
        };
        if eviction.ages {
            self.parts.lrus.workingset_age_nonresident(whose, pages);
        }
        self.parts.lrus.shadow_layout.pack(lru_type, &shadow)
    }

    /// Applies the shadow that was in the place of a folio which is read in again (`workingset_refault`).
    pub(crate) fn workingset_refault(&mut self, now: Time, id: FolioId, shadow: u64, by: AddedBy) {
        self.parts.lrus.flush_stats_if_late(now);
        let shadow = self.parts.lrus.shadow_layout.unpack(shadow);
        let (lru_type, own) = (type_of(self.parts.lrus.folios.flags[id]), self.parts.lrus.folios[id].lruvec);
        let f = self.reclaim_features();
        let whose = self.parts.lrus.lruvec_of(Memcg(shadow.memcg), Node(shadow.node as u8));
        let state = self.parts.lruvec_state(whose);
        let origin = Origin { lruvec: &state, memcg_exists: true, is_folio_s: whose == own };
        let refault = policy::refault(
            &f,
            &self.parts.lrus.shadow_layout,
            lru_type,
            &shadow,
            &origin,
            by == AddedBy::Fault,
        );
        self.count_refault(id, &refault);
        let flags = &mut self.parts.lrus.folios.flags[id];
        let pages = flags.nr_pages();
        if refault.set_active {
            flags.set(FolioFlags::ACTIVE);
        }
        if refault.set_workingset {
            flags.set(FolioFlags::WORKINGSET);
        }
        if let Some(refs) = refault.set_refs {
            flags.set_refs(refs);
        }
        let generations = &mut self.parts.lrus.lruvecs[own].generations;
        match refault.feedback {
            Feedback::None => {}
            Feedback::Current(tier) => generations.refaulted[lru_type as usize][tier as usize] += pages,
            Feedback::Average(tier) => {
                let average = &mut generations.average[lru_type as usize][tier as usize];
                average.refaulted += pages;
                average.total += pages;
            }
        }
        if refault.ages {
            self.parts.lrus.workingset_age_nonresident(own, pages);
        }
        if refault.costs {
            self.lru_note_cost(own, lru_type, pages, 0);
        }
    }

    /// Counts a refault.
    fn count_refault(&mut self, id: FolioId, refault: &Refault) {
        let flags = self.parts.lrus.folios.flags[id];
        let (lru_type, pages) = (type_of(flags), flags.nr_pages());
        let lruvec = &mut self.parts.lrus.lruvecs[self.parts.lrus.folios[id].lruvec];
        let mut add = |of_type: [Event; 2]| self.on.counters.add(of_type[lru_type as usize], pages);
        if refault.counted {
            lruvec.count(|stat| &mut stat.refault, lru_type, pages);
            add([Event::WorkingsetRefaultAnon, Event::WorkingsetRefaultFile]);
        }
        if refault.activate {
            lruvec.count(|stat| &mut stat.activate, lru_type, pages);
            add([Event::WorkingsetActivateAnon, Event::WorkingsetActivateFile]);
        }
        if refault.restore {
            lruvec.count(|stat| &mut stat.restore, lru_type, pages);
            add([Event::WorkingsetRestoreAnon, Event::WorkingsetRestoreFile]);
        }
    }
}

impl Parts {
    /// The state of a lruvec that decides on refaults. The sizes of its lists are those of the last flush.
    fn lruvec_state(&self, id: LruvecId) -> LruvecState {
        let lruvec = &self.lrus.lruvecs[id];
        // Without memory cgroups, the statistics of the node are read, which are always current.
        let stat = if self.lrus.memcgs.len() == 1 { &lruvec.stat } else { &lruvec.flushed };
        let [inactive_anon, active_anon, inactive_file, active_file, _] = stat.nr_lru;
        LruvecState {
            nonresident_age: lruvec.nonresident_age,
            min_seq: lruvec.generations.min_seq,
            max_seq: lruvec.generations.max_seq,
            sizes: LruSizes {
                active_anon,
                inactive_anon,
                active_file,
                inactive_file,
                has_swap: self.lrus.memcgs.swap_margin(lruvec.memcg, self.swap.free()) > 0,
            },
        }
    }
}

impl Lrus {
    /// Advances the age of a lruvec and of those of all memcgs above it (`workingset_age_nonresident`).
    #[inline]
    pub(crate) fn workingset_age_nonresident(&mut self, lruvec: LruvecId, pages: u64) {
        let mut lruvec = lruvec;
        loop {
            let at = &mut self.lruvecs[lruvec];
            at.nonresident_age += pages;
            let (memcg, node) = (at.memcg, at.node);
            let Some(parent) = self.memcgs.get(memcg).parent else { break };
            lruvec = self.lruvec_of(parent, node);
        }
    }
}
