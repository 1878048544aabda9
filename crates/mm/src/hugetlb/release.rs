//! Pages that have left the pool go back to the allocator, their vmemmap first.
//!
//! ```text
//!   page by page       restore ─► hold: clear flag ─► free        a failure goes back to the pool as surplus
//!   patch 5            restore all ─► one hold: clear all flags ─► free all
//!   as merged          restore until one fails ─► free those that are complete, which gives memory back ─► again
//!                                     └─ none complete: one by one, failures back to the pool, until one succeeds
//! ```
//!
//! In the kernel: `update_and_free_pages_bulk`, `bulk_vmemmap_restore_error` in mm/hugetlb.c.

use super::features::RestoreStyle;
use super::folio::Folio;
use crate::account::Category;
use crate::page_alloc::MemoryManager;
use crate::vmemmap::list::RestoreList;
use machine::{Cpu, Machine};

/// Where releasing a list stands.
#[derive(Clone, Debug)]
enum Phase {
    /// Page by page, the next one last.
    EachPage(Vec<Folio>),
    Restore(RestoreList),
    /// Memory is short: complete pages are freed one by one, then the rest is tried again.
    FreeComplete(Vec<Folio>, Vec<Folio>),
    /// Memory is short and no page complete.
    OneMustSucceed(Vec<Folio>),
    /// All flags are clear, the next one to free last.
    Free(Vec<Folio>),
    Done,
}

/// A list of pages on their way to the allocator.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    h: usize,
    phase: Phase,
}

impl Release {
    /// `folios` in the order in which they are worked off.
    pub fn new(mm: &MemoryManager, h: usize, mut folios: Vec<Folio>) -> Release {
        let phase = if mm.features().hugetlb.clear_flags_once {
            Phase::Restore(RestoreList::new(folios))
        } else {
            folios.reverse();
            Phase::EachPage(folios)
        };
        Release { h, phase }
    }

    /// One page, flush or hold; whether all is done.
    pub fn step(&mut self, mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::EachPage(mut folios) => match folios.pop() {
                Some(folio) => {
                    mm.release_single(machine, cpu, self.h, folio);
                    Phase::EachPage(folios)
                }
                None => Phase::Done,
            },
            Phase::Restore(mut list) => {
                if list.step(mm, machine, cpu) {
                    self.restored(mm, machine, cpu, list)
                } else {
                    Phase::Restore(list)
                }
            }
            Phase::FreeComplete(mut complete, waiting) => match complete.pop() {
                Some(folio) => {
                    mm.clear_flags(machine, cpu, &[folio]);
                    mm.free_to_allocator(machine, cpu, folio);
                    Phase::FreeComplete(complete, waiting)
                }
                None => Phase::Restore(RestoreList::resume(waiting)),
            },
            Phase::OneMustSucceed(mut waiting) => match waiting.pop() {
                Some(folio) if mm.release_single(machine, cpu, self.h, folio) => {
                    Phase::Restore(RestoreList::resume(waiting))
                }
                Some(_) => Phase::OneMustSucceed(waiting),
                None => Phase::Restore(RestoreList::default()),
            },
            Phase::Free(mut folios) => match folios.pop() {
                Some(folio) => {
                    mm.free_to_allocator(machine, cpu, folio);
                    Phase::Free(folios)
                }
                None => Phase::Done,
            },
            Phase::Done => Phase::Done,
        };
        matches!(self.phase, Phase::Done)
    }

    fn restored(
        &self,
        mm: &mut MemoryManager,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        list: RestoreList,
    ) -> Phase {
        let RestoreList { waiting, mut complete, failed, restored, .. } = list;
        if !waiting.is_empty() {
            return if complete.is_empty() {
                Phase::OneMustSucceed(waiting)
            } else {
                Phase::FreeComplete(complete, waiting)
            };
        }
        // Before lists were restored as such, each failure took the lock for itself.
        let at_once =
            if mm.features().hugetlb.restore_style == RestoreStyle::None { 1 } else { failed.len().max(1) };
        failed.chunks(at_once).for_each(|folios| mm.add_back_as_surplus(machine, cpu, self.h, folios));
        if restored > 0 && !complete.is_empty() {
            mm.clear_flags(machine, cpu, &complete);
        }
        if mm.features().hugetlb.restore_style != RestoreStyle::UntilFailure {
            complete.reverse();
        }
        Phase::Free(complete)
    }
}

impl MemoryManager {
    /// Restores and frees one page; on failure it goes back to the pool as a surplus page, and the answer is false
    /// (`__update_and_free_hugetlb_folio`).
    pub(crate) fn release_single(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        h: usize,
        folio: Folio,
    ) -> bool {
        let optimized = self.hugetlb.is_optimized(folio);
        let how = self.remap_of_single();
        if self.restore_folio(machine, cpu, folio, how).is_err() {
            self.add_back_as_surplus(machine, cpu, h, &[folio]);
            return false;
        }
        if optimized {
            self.clear_flags(machine, cpu, &[folio]);
        }
        self.free_to_allocator(machine, cpu, folio);
        true
    }

    /// Under one hold, makes `folios` ordinary pages to others.
    fn clear_flags(&mut self, machine: &mut Machine<Category>, cpu: Cpu, folios: &[Folio]) {
        self.hold_hugetlb_lock(machine, cpu, folios.len());
        folios.iter().for_each(|&folio| self.hugetlb.flags_mut(folio).hugetlb = false);
    }

    /// Under one hold, takes pages that cannot be restored into the pool again, as free surplus pages
    /// (`add_hugetlb_folio`).
    pub(crate) fn add_back_as_surplus(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        h: usize,
        folios: &[Folio],
    ) {
        self.hold_hugetlb_lock(machine, cpu, folios.len());
        for &folio in folios {
            let node = self.node_of(folio.pfn);
            self.hugetlb.hstates[h].enter(node, true);
            self.hugetlb.hstates[h].enqueue(node, folio.pfn);
        }
    }

    /// Takes note that pages leave the pool: those with all of their vmemmap are ordinary pages from now on, the
    /// others once it is restored.
    pub(crate) fn note_removed(&mut self, folio: Folio) {
        let flags = self.hugetlb.flags_mut(folio);
        flags.hugetlb = flags.optimized;
    }

    /// Frees what could not be freed where it was given up, one page at a time (`free_hpage_workfn`). Whether there is
    /// more.
    pub fn step_deferred(&mut self, machine: &mut Machine<Category>, cpu: Cpu) -> bool {
        if let Some(folio) = self.hugetlb.deferred.pop() {
            let h = self.hugetlb.hstate_of(folio.order);
            self.release_single(machine, cpu, h, folio);
        }
        !self.hugetlb.deferred.is_empty()
    }
}
