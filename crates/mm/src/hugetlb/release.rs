//! Releasing huge pages that left the pool: restoring their vmemmap and freeing them.
//!
//! ```text
//!   page by page       restore ─► hold: clear flag ─► free        a page that fails returns to the pool as surplus
//!   patch 5            restore all ─► one hold: clear all flags ─► free all
//!   as merged          restore until one fails ─► free the restored pages, which frees memory ─► retry
//!                                     └─ none restored: one by one, failed pages return to the pool, until one succeeds
//! ```
//!
//! In the kernel: `update_and_free_pages_bulk`, `bulk_vmemmap_restore_error` in mm/hugetlb.c.

use super::folio::Folio;
use super::hstate::Page;
use super::policy::{FreeOrder, Per, release_plan};
use crate::hugetlb::HugetlbPools;
use crate::hugetlb::features::HugetlbFeatures;
use crate::hugetlb::vmemmap::list::RestoreList;
use crate::kernel::Kernel;

/// The state of a release; in every list the next page is last.
#[derive(Clone, Debug)]
enum Phase {
    /// Page by page.
    EachPage(Vec<Folio>),
    /// One page by itself, then the rest.
    Single(RestoreList, Vec<Folio>),
    /// All pages are restored first.
    Restore(RestoreList),
    /// Memory is short: restored pages are freed one by one, then the rest is retried.
    FreeComplete(Vec<Folio>, Vec<Folio>),
    /// All flags are cleared; the pages are freed.
    Free(Vec<Folio>),
    Done,
}

/// A list of pages being released.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    h: usize,
    phase: Phase,
    /// Every page is restored and freed by itself.
    each: bool,
}

impl Release {
    /// Releases `folios`, in this order, as this kernel does.
    pub fn new(features: &HugetlbFeatures, h: usize, mut folios: Vec<Folio>) -> Release {
        folios.reverse();
        match release_plan(features).restore {
            Per::Page => Release { h, phase: Phase::EachPage(folios), each: true },
            Per::List => {
                Release { h, phase: Phase::Restore(RestoreList::new(features, folios)), each: false }
            }
        }
    }

    /// Releases `folios` page by page, in whatever way the kernel releases lists.
    pub fn each(h: usize, folios: Vec<Folio>) -> Release {
        Release { h, phase: Phase::EachPage(folios), each: true }
    }

    /// Runs all steps.
    pub fn finish(mut self, kernel: &mut Kernel) {
        while !self.step(kernel) {}
    }

    /// One step: an allocation, a page, a flush or a hold of the lock. Returns whether all is done.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::EachPage(mut folios) => match folios.pop() {
                Some(folio) => Phase::Single(RestoreList::single(&kernel.on.features.hugetlb, folio), folios),
                None if self.each => Phase::Done,
                None => Phase::Restore(RestoreList::new(&kernel.on.features.hugetlb, folios)),
            },
            Phase::Single(mut list, rest) => {
                if list.step(kernel) {
                    self.one_done(kernel, &list, rest)
                } else {
                    Phase::Single(list, rest)
                }
            }
            Phase::Restore(mut list) => {
                if list.step(kernel) {
                    self.restored(kernel, list)
                } else {
                    Phase::Restore(list)
                }
            }
            Phase::FreeComplete(mut complete, waiting) => match complete.pop() {
                Some(folio) => {
                    kernel.clear_flags(&[folio]);
                    kernel.free_to_allocator(folio);
                    Phase::FreeComplete(complete, waiting)
                }
                None => Phase::Restore(RestoreList::new(&kernel.on.features.hugetlb, waiting)),
            },
            Phase::Free(mut folios) => match folios.pop() {
                Some(folio) => {
                    kernel.free_to_allocator(folio);
                    Phase::Free(folios)
                }
                None => Phase::Done,
            },
            Phase::Done => Phase::Done,
        };
        matches!(self.phase, Phase::Done)
    }

    /// A single page was restored and is freed, or returns to the pool. When memory is short, one success is
    /// enough to retry the rest as a list.
    fn one_done(&self, kernel: &mut Kernel, list: &RestoreList, rest: Vec<Folio>) -> Phase {
        match list.complete.first() {
            Some(&folio) => {
                if list.restored > 0 {
                    kernel.clear_flags(&[folio]);
                }
                kernel.free_to_allocator(folio);
                if self.each {
                    Phase::EachPage(rest)
                } else {
                    Phase::Restore(RestoreList::new(&kernel.on.features.hugetlb, rest))
                }
            }
            None => {
                kernel.add_back_as_surplus(self.h, &list.failed);
                Phase::EachPage(rest)
            }
        }
    }

    fn restored(&self, kernel: &mut Kernel, list: RestoreList) -> Phase {
        let RestoreList { waiting, mut complete, failed, restored, .. } = list;
        if !waiting.is_empty() {
            return if complete.is_empty() {
                Phase::EachPage(waiting)
            } else {
                Phase::FreeComplete(complete, waiting)
            };
        }
        let plan = release_plan(&kernel.on.features.hugetlb);
        let under_one_hold = match plan.add_back {
            Per::Page => 1,
            Per::List => failed.len().max(1),
        };
        failed.chunks(under_one_hold).for_each(|folios| kernel.add_back_as_surplus(self.h, folios));
        if restored > 0 && !complete.is_empty() {
            kernel.clear_flags(&complete);
        }
        if plan.order == FreeOrder::FirstRestored {
            complete.reverse();
        }
        Phase::Free(complete)
    }
}

impl Kernel<'_> {
    /// Clears the hugetlb flag of `folios` under one hold.
    fn clear_flags(&mut self, folios: &[Folio]) {
        self.hold_hugetlb_lock(folios.len());
        folios.iter().for_each(|&folio| self.parts.hugetlb.flags_mut(folio).hugetlb = false);
    }

    /// Returns pages that cannot be restored to the pool as free surplus pages, under one hold
    /// (`add_hugetlb_folio`).
    fn add_back_as_surplus(&mut self, h: usize, folios: &[Folio]) {
        self.hold_hugetlb_lock(folios.len());
        for &folio in folios {
            let node = self.parts.allocator.node_of(folio.pfn);
            self.parts.hugetlb.flags_mut(folio).temporary = false;
            self.parts.hugetlb.hstates[h].enter(node, Page::Surplus);
            self.parts.hugetlb.hstates[h].enqueue(node, folio.pfn);
        }
    }

    /// Runs the worker that frees deferred pages until none is left (`free_hpage_workfn`).
    pub fn run_deferred_work(&mut self) {
        while let Some(release) = self.parts.hugetlb.release_deferred() {
            release.finish(self);
        }
    }
}

impl HugetlbPools {
    /// Notes that a page left the pool. With full vmemmap it is an ordinary page from now on, otherwise once
    /// its vmemmap is restored.
    pub(crate) fn note_removed(&mut self, folio: Folio) {
        let flags = self.flags_mut(folio);
        flags.hugetlb = flags.optimized;
    }

    /// The release of one page that its last user could not free (`free_hpage_workfn`).
    pub(crate) fn release_deferred(&mut self) -> Option<Release> {
        let folio = self.deferred.pop()?;
        Some(Release::each(self.hstate_of(folio.order), vec![folio]))
    }
}
