//! Demotion: a 1 GiB page becomes 512 pages of 2 MiB.
//!
//! ```text
//!   until 6.11   a free page ─► restore 4095 vmemmap pages ─► 512 × (optimise ─► pool of 2 MiB) ─► the next page
//!   since 6.12   a node's free pages ─► restore all ─► 512 each ─► optimise all ─► pool of 2 MiB ─► the next node
//! ```
//!
//! From 6.10 to 7.0 each restore and each optimisation waits for an RCU grace period: 513 times for a page,
//! since 6.12 twice for a node.
//! In the kernel: `demote_pool_huge_page`, `demote_free_hugetlb_folios` in mm/hugetlb.c.

use super::folio::Folio;
use super::hstate::Page;
use super::policy::{Per, demoted_per, take_turn};
use super::prepare::Preparing;
use crate::account::Category;
use crate::allocator::page::Pfn;
use crate::hugetlb::vmemmap::list::RestoreList;
use crate::kernel::Kernel;
use machine::Node;

#[derive(Clone, Debug)]
enum Phase {
    Take,
    Restore(RestoreList),
    /// The pages being prepared, and whether demotion ends after them because some could not be restored.
    Prepare(Preparing, bool),
    Done,
}

/// A demotion in progress.
#[derive(Clone, Debug)]
pub(crate) struct Demote {
    from: usize,
    to: usize,
    nodes: Vec<Node>,
    remaining: u64,
    phase: Phase,
}

impl Demote {
    /// Demotes `count` free pages of pool `from` on `nodes` into pool `to`.
    pub fn new(from: usize, to: usize, nodes: Vec<Node>, count: u64) -> Demote {
        Demote { from, to, nodes, remaining: count, phase: Phase::Take }
    }

    /// Number of pages not demoted yet.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// One step: a page, a flush or a hold of the lock. Returns whether the demotion has ended.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Take => self.take(kernel),
            Phase::Restore(mut list) => {
                if list.step(kernel) {
                    self.split(kernel, list)
                } else {
                    Phase::Restore(list)
                }
            }
            Phase::Prepare(mut preparing, ends) => match preparing.step(kernel) {
                false => Phase::Prepare(preparing, ends),
                true if ends => Phase::Done,
                true => Phase::Take,
            },
            Phase::Done => Phase::Done,
        };
        matches!(self.phase, Phase::Done)
    }

    /// Takes the free pages to be demoted together out of the pool: those of the next node in turn.
    fn take(&mut self, kernel: &mut Kernel) -> Phase {
        let f = &kernel.on.features.hugetlb;
        let hstate = &mut kernel.parts.hugetlb.hstates[self.from];
        if self.remaining == 0 || hstate.available() == 0 {
            return Phase::Done;
        }
        let per = demoted_per(f);
        let most = match per {
            Per::Page => 1,
            Per::List => self.remaining,
        };
        let mut taken = Vec::new();
        for _ in &self.nodes {
            let node = take_turn(&self.nodes, &mut hstate.next_to_free);
            taken.extend((0..most).map_while(|_| hstate.remove_from(node, Page::Persistent)));
            if !taken.is_empty() {
                break;
            }
        }
        kernel.hold_hugetlb_lock(taken.len());
        for &folio in &taken {
            kernel.parts.hugetlb.note_removed(folio);
        }
        match (per, &taken[..]) {
            (_, []) => Phase::Done,
            (Per::Page, &[folio]) => Phase::Restore(RestoreList::single(f, folio)),
            _ => Phase::Restore(RestoreList::new(f, taken)),
        }
    }

    fn split(&mut self, kernel: &mut Kernel, list: RestoreList) -> Phase {
        let RestoreList { waiting, complete, failed, .. } = list;
        // Pages that could not be restored return to their pool, and the demotion ends.
        let ends = !(waiting.is_empty() && failed.is_empty());
        for folio in waiting.into_iter().chain(failed) {
            kernel.parts.hugetlb.flags_mut(folio).hugetlb = true;
            kernel.add_to_pool(self.from, &[folio]);
        }
        if complete.is_empty() {
            return Phase::Done;
        }
        let order = kernel.parts.hugetlb.hstates[self.to].order;
        let parts = |folio: Folio| {
            let parts = 1u32 << (folio.order - order);
            (0..parts).map(move |i| Folio { pfn: folio.pfn + (i << order) as Pfn, order })
        };
        let mut small: Vec<Folio> = complete.iter().rev().flat_map(|&folio| parts(folio)).collect();
        for &folio in &small {
            kernel.parts.hugetlb.note_fresh(folio);
            kernel.on.machine.charge(
                kernel.on.cpu,
                Category::HugePagePrep,
                kernel.on.machine.costs.struct_page_init * folio.pages(),
            );
        }
        self.remaining -= complete.len() as u64;
        kernel.parts.hugetlb.hstates[self.from].max -= complete.len() as u64;
        kernel.parts.hugetlb.hstates[self.to].max += small.len() as u64;
        let preparing = match demoted_per(&kernel.on.features.hugetlb) {
            Per::List => {
                // The parts are put before the existing pages.
                small.reverse();
                Preparing::list(kernel, self.to, small)
            }
            Per::Page => Preparing::page_by_page(kernel, self.to, small),
        };
        Phase::Prepare(preparing, ends)
    }
}
