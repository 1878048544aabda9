//! What becomes of folios that reclaim has isolated.
//!
//! ```text
//!   locked, young           ─► stays, maybe as an active one
//!   on a fast node          ─► migrated to a slow one, if demotion is on (demotion.rs)
//!   dirty file page         ─► stays until a flusher has written it
//!   anonymous               ─► swap entries ─► unmapped ─► written ─► freed, its shadow in the swap cache
//!                              (no contiguous entries for a large folio: split, each page by itself)
//!   clean file page         ─► unmapped ─► freed, its shadow in the file
//! ```
//!
//! In the kernel: `shrink_folio_list`, `__remove_mapping`, `pageout` in mm/vmscan.c.

use super::ScanControl;
use super::policy::{References, check_references, was_seen_in_use};
use crate::account::Category;
use crate::address_space::huge_memory::policy::splits_before_swap;
use crate::allocator::page::Pfn;
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::page_cache::xarray::Entry;
use crate::swapfile::Writeout;

/// Counters of one call of `shrink_folio_list`, in pages (`struct reclaim_stat`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReclaimStat {
    /// Pages freed or demoted.
    pub reclaimed: u64,
    /// Pages written to swap.
    pub written: u64,
    /// Dirty file pages that are not under writeback.
    pub unqueued_dirty: u64,
}

/// What becomes of one isolated folio.
enum Fate {
    Freed {
        pages: u64,
    },
    /// It is migrated to a slower node, if there is room.
    Demoted,
    Kept,
    Activated,
    /// It has been split, and each of its pages is looked at by itself.
    Split(Vec<FolioId>),
}

impl Kernel<'_> {
    /// Frees the folios that can be freed and leaves the others in `folios`, in the same order
    /// (`shrink_folio_list`).
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
            // The record of a free block is written when the folio is freed.
            self.parts.allocator.zones()[self.parts.allocator.zone_of(folio.pfn)]
                .buddy
                .prefetch_put(folio.pfn);
        }
        folios.reverse();
        let (mut kept, mut demoted) = (Vec::new(), Vec::new());
        let can_demote =
            !sc.no_demotion && folios.first().is_some_and(|&id| self.can_demote(self.parts.folio_node(id)));
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
            // Folios that found no room on the slow node are reclaimed as without demotion.
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
        let flags = self.parts.lrus.folios.flags[id];
        let (pages, anon) = (flags.nr_pages(), flags.has(FolioFlags::SWAPBACKED));
        sc.nr_scanned += pages;
        match self.look_at(id, sc, stat) {
            References::Activate => return Fate::Activated,
            References::Keep => return Fate::Kept,
            References::ReclaimClean | References::Reclaim if demotes => return Fate::Demoted,
            // A dirty file folio stays in any case, see `unmap_and_write`.
            References::ReclaimClean | References::Reclaim => {}
        }
        if anon
            && !flags.has(FolioFlags::SWAPCACHE)
            && let Some(fate) = self.make_room_in_swap(id, sc)
        {
            return fate;
        }
        // Whether its pages are all zeroes is known by the PTEs that map it, so ask before they are gone.
        let zeroes = anon && self.is_zero_filled(id);
        if let Some(fate) = self.unmap_and_write(id, zeroes, stat) {
            return fate;
        }
        if self.parts.lrus.folios.flags[id].has(FolioFlags::HELD) {
            return Fate::Kept;
        }
        self.remove_mapping(id, sc);
        let cost = self.on.machine.costs.paging().file_remove;
        self.on.machine.charge(self.on.cpu, Category::Reclaim, cost * pages);
        self.free_folio(id);
        Fate::Freed { pages }
    }

    /// Judges a folio by its flags and by the accessed bits of its PTEs (`folio_check_references` and the
    /// checks before it).
    fn look_at(&mut self, id: FolioId, sc: &ScanControl, stat: &mut ReclaimStat) -> References {
        let lru = self.parts.lrus.lru();
        let mapped = self.parts.lrus.folios[id].mapcount > 0;
        let flags = &mut self.parts.lrus.folios.flags[id];
        if flags.has(FolioFlags::LOCKED) {
            return References::Keep;
        }
        if flags.has(FolioFlags::MLOCKED) {
            return References::Activate;
        }
        if was_seen_in_use(&lru, *flags, mapped) {
            return References::Keep;
        }
        let of_file = !flags.has(FolioFlags::SWAPBACKED);
        if of_file && flags.has(FolioFlags::DIRTY) && !flags.has(FolioFlags::WRITEBACK) {
            stat.unqueued_dirty += flags.nr_pages();
        }
        if flags.has(FolioFlags::WRITEBACK) {
            flags.set(FolioFlags::RECLAIM);
            return References::Activate;
        }
        if sc.ignore_references {
            return References::Reclaim;
        }
        let cost = self.on.machine.costs.paging().rmap_walk * self.parts.lrus.folios.mapcount(id);
        let young = self.folio_referenced(id);
        self.on.machine.charge(self.on.cpu, Category::Reclaim, cost);
        let seen_before = usize::from(self.parts.lrus.folios.page_idle.take_young(id));
        let count = young.as_ref().map(|young| u16::try_from(young.len() + seen_before).unwrap_or(u16::MAX));
        let references = check_references(&lru, &mut self.parts.lrus.folios.flags[id], count);
        if let Some(young) = young {
            self.note_young_entries(id, &young, sc);
        }
        references
    }

    /// Allocates swap entries for an anonymous folio. Returns what becomes of it if it cannot be written as
    /// it is: there may be no contiguous entries for all its pages.
    fn make_room_in_swap(&mut self, id: FolioId, sc: &mut ScanControl) -> Option<Fate> {
        if !sc.may_swap {
            return Some(Fate::Activated);
        }
        let flags = self.parts.lrus.folios.flags[id];
        let order = flags.order();
        if order > 0 && flags.has(FolioFlags::HELD) {
            return Some(Fate::Activated);
        }
        let whole = self.is_pmd_order(order) && self.parts.lrus.folios[id].mapcount == 1;
        let partially_mapped = flags.has(FolioFlags::PARTIALLY_MAPPED);
        let splits = order > 0 && splits_before_swap(&self.on.features.folios, partially_mapped, whole);
        if !splits && self.add_to_swap(self.on.cpu, id) {
            let cost = self.on.machine.costs.paging().swap_out;
            self.on.machine.charge(self.on.cpu, Category::Reclaim, cost * flags.nr_pages());
            return None;
        }
        if order == 0 {
            return Some(Fate::Activated);
        }
        let Ok(pages) = self.split_folio(id) else { return Some(Fate::Activated) };
        if !splits {
            self.count_swpout_fallback(order);
        }
        sc.nr_scanned -= 1 << order;
        Some(Fate::Split(pages))
    }

    /// Unmaps a folio and writes it to swap, or records that it is filled with zeroes (`zeroes`). Returns
    /// what becomes of it if it cannot be freed now.
    fn unmap_and_write(&mut self, id: FolioId, zeroes: bool, stat: &mut ReclaimStat) -> Option<Fate> {
        if self.parts.lrus.folios[id].mapcount > 0 {
            let cost = self.on.machine.costs.paging().pte_unmap * self.unmap(id);
            self.on.machine.charge(self.on.cpu, Category::Reclaim, cost);
            if self.parts.lrus.folios[id].mapcount > 0 {
                // A `VM_LOCKED` VMA maps a part of it.
                return Some(Fate::Activated);
            }
        }
        let flags = &mut self.parts.lrus.folios.flags[id];
        if !flags.has(FolioFlags::DIRTY) {
            return None;
        }
        if !flags.has(FolioFlags::SWAPBACKED) {
            flags.set(FolioFlags::RECLAIM);
            self.on.counters.add(Event::NrVmscanImmediate, 1);
            return Some(Fate::Activated);
        }
        let pages = flags.nr_pages();
        let written = self.swap_writeout(id, zeroes);
        stat.written += if written == Writeout::Refused { 0 } else { pages };
        match written {
            Writeout::Done => None,
            Writeout::UnderWay => Some(Fate::Kept),
            Writeout::Refused => Some(Fate::Activated),
        }
    }

    /// Frees a folio, which is on no list and mapped nowhere, and uncharges it from its memcg (`folio_put`).
    pub(crate) fn free_folio(&mut self, id: FolioId) {
        let (pfn, order) = self.parts.forget_folio(id);
        self.free(pfn, order);
    }

    /// Removes a folio from the page cache or swap cache and leaves a shadow in its place
    /// (`__remove_mapping`).
    fn remove_mapping(&mut self, id: FolioId, sc: &ScanControl) {
        let shadow = self.workingset_eviction(id, sc.target);
        if self.parts.lrus.folios.flags[id].has(FolioFlags::SWAPCACHE) {
            self.parts.remove_from_swap_cache(id, shadow);
        } else {
            self.remove_from_page_cache(id, Entry::Shadow(shadow));
        }
    }
}

impl Parts {
    /// Like `free_folio`, but does not free the memory: returns the block and its order, for the caller to
    /// free.
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
