//! What becomes of folios that reclaim has isolated.
//!
//! ```text
//!   locked, young           ─► stays, maybe as an active one
//!   of fast memory          ─► moved to slow memory, if that is on (demotion.rs)
//!   dirty page of a file    ─► stays until a flusher has written it
//!   anonymous               ─► swap entries ─► unmapped ─► written ─► freed, its shadow in the swap cache
//!                              (no room for all of it in a row: split, each page by itself)
//!   clean page of a file    ─► unmapped ─► freed, its shadow in the file
//! ```
//!
//! In the kernel: `shrink_folio_list`, `__remove_mapping`, `pageout` in mm/vmscan.c.

use super::ScanControl;
use super::policy::{References, check_references};
use crate::account::Category;
use crate::allocator::page::Pfn;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::swapfile::policy::splits_before_swap;

/// What shrinking a list of isolated folios came to, in pages (`struct reclaim_stat`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReclaimStat {
    /// Freed.
    pub reclaimed: u64,
    /// Written to swap.
    pub written: u64,
    /// Dirty pages of files that nobody was writing.
    pub unqueued_dirty: u64,
}

/// What becomes of one folio.
enum Fate {
    Freed {
        pages: u64,
    },
    /// It goes to slower memory, if there is room.
    Demoted,
    Kept,
    Activated,
    /// Each of its pages is looked at by itself.
    Split(Vec<FolioId>),
}

impl Kernel<'_> {
    /// Frees what can be freed of `folios` and leaves the others in it, in the same order.
    pub(crate) fn shrink_folio_list(
        &mut self,
        folios: &mut Vec<FolioId>,
        sc: &mut ScanControl,
    ) -> ReclaimStat {
        let mut stat = ReclaimStat::default();
        for &id in folios.iter() {
            let folio = &self.parts.lrus.folios[id];
            if !self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPBACKED) {
                self.parts.page_cache.files.prefetch(folio.slot);
            }
            // Whoever gets the memory next writes to its record.
            self.parts.allocator.zones()[self.parts.allocator.zone_of(folio.pfn)]
                .buddy
                .prefetch_put(folio.pfn);
        }
        folios.reverse();
        let (mut kept, mut demoted) = (Vec::new(), Vec::new());
        let can_demote = folios.first().is_some_and(|&id| self.can_demote(self.parts.folio_node(id)));
        for demotes in [can_demote, false] {
            while let Some(id) = folios.pop() {
                match self.shrink_folio(id, demotes, sc, &mut stat) {
                    Fate::Freed { pages } => stat.reclaimed += pages,
                    Fate::Demoted => demoted.push(id),
                    Fate::Kept => kept.push(id),
                    Fate::Activated if self.parts.lrus.is_mlocked(id) => {
                        self.parts.folio_free_swap(id);
                        kept.push(id);
                    }
                    Fate::Activated => {
                        let flags = &mut self.parts.lrus.folios.flags[id];
                        flags.set(FolioFlags::ACTIVE);
                        self.on.counters.add(Event::Pgactivate, flags.nr_pages());
                        kept.push(id);
                    }
                    Fate::Split(pages) => folios.extend(pages.into_iter().rev()),
                }
            }
            stat.reclaimed += self.demote_folio_list(&mut demoted, sc);
            // What found no room is reclaimed as ever.
            folios.extend(demoted.drain(..).rev());
        }
        *folios = kept;
        stat
    }

    fn shrink_folio(
        &mut self,
        id: FolioId,
        demotes: bool,
        sc: &mut ScanControl,
        stat: &mut ReclaimStat,
    ) -> Fate {
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        sc.nr_scanned += pages;
        let f = self.parts.lrus.generations();
        let mapped = self.parts.lrus.folios[id].mapcount > 0;
        let flags = &mut self.parts.lrus.folios.flags[id];
        if flags.has(FolioFlags::LOCKED) {
            return Fate::Kept;
        }
        if flags.has(FolioFlags::MLOCKED) {
            return Fate::Activated;
        }
        // The walk of page tables has seen it in use meanwhile.
        if f.is_some_and(|f| !f.types_apart) && mapped && flags.has(FolioFlags::REFERENCED) {
            return Fate::Kept;
        }
        let anon = flags.has(FolioFlags::SWAPBACKED);
        let dirty = flags.has(FolioFlags::DIRTY);
        if dirty && !flags.has(FolioFlags::WRITEBACK) && !anon {
            stat.unqueued_dirty += pages;
        }
        if flags.has(FolioFlags::WRITEBACK) {
            flags.set(FolioFlags::RECLAIM);
            return Fate::Activated;
        }
        let costs = self.on.machine.costs.paging();
        let mappings = self.parts.lrus.folios.mapcount(id);
        let young = self.folio_referenced(id);
        self.on.machine.charge(self.on.cpu, Category::Reclaim, costs.rmap_walk * mappings);
        let count = young.as_ref().map(|young| u16::try_from(young.len()).unwrap_or(u16::MAX));
        let references = check_references(f.as_ref(), &mut self.parts.lrus.folios.flags[id], count);
        if let Some(young) = young.filter(|young| f.is_some() && !young.is_empty()) {
            self.lru_gen_look_around(id, &young, sc.mm_walk);
        }
        let flags = &mut self.parts.lrus.folios.flags[id];
        match references {
            References::Activate => return Fate::Activated,
            References::Keep => return Fate::Kept,
            // A dirty page of a file stays in any case, below.
            References::ReclaimClean | References::Reclaim => {}
        }
        if demotes {
            return Fate::Demoted;
        }
        if anon && !flags.has(FolioFlags::SWAPCACHE) {
            if !sc.may_swap {
                return Fate::Activated;
            }
            let order = flags.order();
            if order > 0 && flags.has(FolioFlags::HELD) {
                return Fate::Activated;
            }
            let search = self.on.features.folios.cluster_search;
            let whole = self.is_pmd_order(order) && self.parts.lrus.folios[id].mapcount == 1;
            let partially_mapped = self.parts.lrus.folios.flags[id].has(FolioFlags::PARTIALLY_MAPPED);
            let splits = order > 0 && splits_before_swap(search, partially_mapped, whole);
            if splits || !self.add_to_swap(self.on.cpu, id) {
                if order == 0 {
                    return Fate::Activated;
                }
                let Ok(pages) = self.split_folio(id) else { return Fate::Activated };
                if !splits {
                    self.count_swpout_fallback(order);
                }
                sc.nr_scanned -= 1 << order;
                return Fate::Split(pages);
            }
            self.on.machine.charge(self.on.cpu, Category::Reclaim, costs.swap_out * pages);
        }
        // What a page holds is known where it is mapped.
        let zeroes = anon && self.is_zero_filled(id);
        if mapped {
            let unmapped = self.unmap(id);
            self.on.machine.charge(self.on.cpu, Category::Reclaim, costs.pte_unmap * unmapped);
            if self.parts.lrus.folios[id].mapcount > 0 {
                // A part of it is locked.
                return Fate::Activated;
            }
        }
        let flags = &mut self.parts.lrus.folios.flags[id];
        if flags.has(FolioFlags::DIRTY) {
            if !anon {
                flags.set(FolioFlags::RECLAIM);
                self.on.counters.add(Event::NrVmscanImmediate, 1);
                return Fate::Activated;
            }
            stat.written += pages;
            if !self.swap_writeout(id, zeroes) {
                return Fate::Kept;
            }
        }
        if self.parts.lrus.folios.flags[id].has(FolioFlags::HELD) {
            return Fate::Kept;
        }
        self.remove_mapping(id, sc);
        self.on.machine.charge(self.on.cpu, Category::Reclaim, costs.file_remove * pages);
        self.free_folio(id);
        Fate::Freed { pages }
    }

    /// Gives a folio's memory back, to its group and to the allocator. It is on no list and mapped nowhere.
    pub(crate) fn free_folio(&mut self, id: FolioId) {
        let (pfn, order) = self.parts.forget_folio(id);
        self.free(pfn, order);
    }
}

impl Kernel<'_> {
    /// Leaves a shadow where the folio was.
    fn remove_mapping(&mut self, id: FolioId, sc: &ScanControl) {
        let shadow = self.workingset_eviction(id, sc.target);
        if self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE) {
            self.parts.remove_from_swap_cache(id, shadow);
        } else {
            self.remove_from_page_cache(id, shadow);
        }
    }
}

impl Parts {
    /// The same but for the allocator: the block that is to be freed, and its order.
    #[inline]
    pub(crate) fn forget_folio(&mut self, id: FolioId) -> (Pfn, u8) {
        let folio = self.lrus.folios[id];
        let flags = self.lrus.folios.flags[id];
        let memcg = self.lrus.lruvecs[folio.lruvec].memcg;
        self.lrus.memcgs.uncharge(memcg, flags.nr_pages());
        if flags.order() > 0 {
            self.forget_large_folio(id);
        }
        self.lrus.folios.delete(id);
        (folio.pfn, flags.order())
    }
}
