//! Resizing a pool (`set_max_huge_pages`).
//!
//! ```text
//!   deferred work ─► L ─► surplus pages count as persistent ─► grow  ─► L ─► shrink ─► release ─► L ─► in use beyond the
//!                                                               │                                      size: surplus ─► publish
//!   grow, page by page   allocate ─► optimise ─► L account ─► L enqueue ─► L
//!   grow, as a list      (allocate ─► L) ... ─► optimise list ─► L account and enqueue all ─► L
//! ```
//!
//! L is a hold of hugetlb_lock. If no more pages can be allocated, growing ends without an error.

use super::folio::Folio;
use super::hstate::Page;
use super::policy::{self, Per};
use super::prepare::Preparing;
use super::release::Release;
use crate::kernel::Kernel;
use crate::kernel::Parts;
use machine::Node;

/// What a resize changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The pool, with pages allocated on and freed from these nodes.
    Pool(Vec<Node>),
    /// One node's part of the pool.
    Node(Node),
}

#[derive(Clone, Debug)]
enum Phase {
    Deferred,
    ReleaseDeferred(Release),
    Begin,
    Grow,
    Prepare(Preparing),
    Shrink,
    Release(Release),
    Publish,
    Done,
}

/// A resize in progress.
#[derive(Clone, Debug)]
pub(crate) struct Resize {
    h: usize,
    target: Target,
    count: u64,
    nodes: Vec<Node>,
    fresh: Vec<Folio>,
    /// Nodes that had no page though the allocation tried hard.
    in_vain: Vec<Node>,
    /// An allocation failed.
    short: bool,
    phase: Phase,
}

impl Resize {
    /// A resize to `count` pages.
    pub fn new(h: usize, target: Target, count: u64) -> Resize {
        Resize {
            h,
            target,
            count,
            nodes: Vec::new(),
            fresh: Vec::new(),
            in_vain: Vec::new(),
            short: false,
            phase: Phase::Deferred,
        }
    }

    /// The size wanted for the whole pool.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// One step: a page, a flush or a hold of the lock. Returns whether the resize has ended.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        let h = self.h;
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Deferred => match kernel.parts.hugetlb.release_deferred() {
                Some(release) => Phase::ReleaseDeferred(release),
                None => Phase::Begin,
            },
            Phase::ReleaseDeferred(mut release) => {
                if release.step(kernel) {
                    Phase::Deferred
                } else {
                    Phase::ReleaseDeferred(release)
                }
            }
            Phase::Begin => {
                self.begin(kernel);
                Phase::Grow
            }
            Phase::Grow => self.grow(kernel),
            Phase::Prepare(mut preparing) => {
                if preparing.step(kernel) {
                    kernel.hold_hugetlb_lock(0);
                    match policy::prepared_per(&kernel.on.features.hugetlb) {
                        Per::Page => Phase::Grow,
                        Per::List if self.short => Phase::Publish,
                        Per::List => Phase::Shrink,
                    }
                } else {
                    Phase::Prepare(preparing)
                }
            }
            Phase::Shrink => {
                let removed = self.remove(kernel);
                Phase::Release(Release::new(&kernel.on.features.hugetlb, h, removed))
            }
            Phase::Release(mut release) => {
                if release.step(kernel) {
                    kernel.hold_hugetlb_lock(1);
                    Phase::Publish
                } else {
                    Phase::Release(release)
                }
            }
            Phase::Publish => {
                self.publish(kernel.parts);
                Phase::Done
            }
            Phase::Done => Phase::Done,
        };
        matches!(self.phase, Phase::Done)
    }

    /// The first hold: computes the size of the whole pool, and turns surplus pages into persistent ones.
    fn begin(&mut self, kernel: &mut Kernel) {
        kernel.hold_hugetlb_lock(0);
        let hstate = &mut kernel.parts.hugetlb.hstates[self.h];
        self.nodes = match &self.target {
            Target::Pool(nodes) => nodes.clone(),
            Target::Node(node) => {
                self.count = policy::count_for_node(self.count, hstate.counters(), hstate.counters_of(*node));
                vec![*node]
            }
        };
        while hstate.counters().surplus > 0
            && self.count > hstate.counters().persistent()
            && hstate.make_persistent(&self.nodes)
        {}
    }

    fn grow(&mut self, kernel: &mut Kernel) -> Phase {
        let h = self.h;
        let collected = self.fresh.len() as u64;
        if self.count <= kernel.parts.hugetlb.hstates[h].counters().persistent() + collected {
            return if self.fresh.is_empty() { Phase::Shrink } else { self.prepare(kernel) };
        }
        let folio = kernel.alloc_fresh_by_turns(h, &self.nodes, &mut self.in_vain);
        self.short = folio.is_none();
        match (policy::prepared_per(&kernel.on.features.hugetlb), folio) {
            (Per::List, None) => return self.prepare(kernel),
            (Per::List, Some(folio)) => self.fresh.push(folio),
            (Per::Page, Some(folio)) => return Phase::Prepare(Preparing::new(kernel, h, vec![folio])),
            (Per::Page, None) => {}
        }
        kernel.hold_hugetlb_lock(0);
        if self.short { Phase::Publish } else { Phase::Grow }
    }

    /// Prepares the new pages, the latest first.
    fn prepare(&mut self, kernel: &Kernel) -> Phase {
        let mut folios = std::mem::take(&mut self.fresh);
        folios.reverse();
        Phase::Prepare(Preparing::new(kernel, self.h, folios))
    }

    /// Takes free pages out of the pool; the latest is first in the list.
    fn remove(&self, kernel: &mut Kernel) -> Vec<Folio> {
        let f = &kernel.on.features.hugetlb;
        let mut removed = Vec::new();
        let hstate = &kernel.parts.hugetlb.hstates[self.h];
        let least = policy::least_count(f, self.count, hstate.resv, hstate.counters());
        while least < kernel.parts.hugetlb.hstates[self.h].counters().persistent() {
            let Some(folio) = kernel.parts.hugetlb.hstates[self.h].remove(&self.nodes, Page::Persistent)
            else {
                break;
            };
            kernel.parts.hugetlb.note_removed(folio);
            removed.push(folio);
        }
        removed.reverse();
        removed
    }

    /// The last hold: pages in use beyond the wanted size become surplus, and `max_huge_pages` is set.
    fn publish(&mut self, mm: &mut Parts) {
        let hstate = &mut mm.hugetlb.hstates[self.h];
        while !self.short && self.count < hstate.counters().persistent() && hstate.make_surplus(&self.nodes) {
        }
        hstate.max = hstate.counters().persistent();
    }
}

impl Kernel<'_> {
    /// Counts pages and puts them on their free lists, under one hold.
    pub(crate) fn add_to_pool(&mut self, h: usize, folios: &[Folio]) {
        self.hold_hugetlb_lock(2 * folios.len());
        for &folio in folios {
            let node = self.parts.allocator.node_of(folio.pfn);
            self.parts.hugetlb.hstates[h].enter(node, Page::Persistent);
            self.parts.hugetlb.hstates[h].enqueue(node, folio.pfn);
        }
    }
}
