//! Preparing new huge pages: optimising their vmemmap and adding them to the pool.
//!
//! ```text
//!   page by page   optimise ─► L account ─► L enqueue;  optimise ─► L ─► L;  ...       before patch 6; demotion until 6.11
//!   as a list      optimise, optimise, ... ─► L account and enqueue all
//!                                          ─► L account and enqueue, for each          gigantic pages at boot, since 6.9
//! ```
//!
//! L is a hold of hugetlb_lock. In the kernel: `prep_and_add_allocated_folios`, `prep_new_hugetlb_folio` in
//! mm/hugetlb.c.

use super::folio::Folio;
use super::policy::{self, Per};
use crate::hugetlb::vmemmap::list::OptimizeList;
use crate::kernel::Kernel;

/// How prepared pages are added to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entering {
    /// All under one hold.
    Together,
    /// Each under a hold of its own.
    Each,
    /// Each under two holds, one to count it and one to put it on its free list.
    Twice,
}

/// Pages being prepared.
#[derive(Clone, Debug)]
pub(crate) struct Preparing {
    h: usize,
    list: OptimizeList,
    /// Pages to prepare after the current list, the next one last.
    rest: Vec<Folio>,
    entering: Entering,
}

impl Preparing {
    /// Prepares new pages of pool `h` as this kernel does.
    pub fn new(kernel: &Kernel, h: usize, folios: Vec<Folio>) -> Preparing {
        match policy::prepared_per(&kernel.on.features.hugetlb) {
            Per::List => Preparing::list(kernel, h, folios),
            Per::Page => Preparing::page_by_page(kernel, h, folios),
        }
    }

    /// Prepares `folios` as one list, in this order.
    pub fn list(kernel: &Kernel, h: usize, folios: Vec<Folio>) -> Preparing {
        let list = OptimizeList::new(kernel, folios);
        Preparing { h, list, rest: Vec::new(), entering: Entering::Together }
    }

    /// Prepares `folios` one by one, in this order.
    pub fn page_by_page(kernel: &Kernel, h: usize, mut folios: Vec<Folio>) -> Preparing {
        folios.reverse();
        let list = match folios.pop() {
            Some(folio) => OptimizeList::single(&kernel.on.features.hugetlb, folio),
            None => OptimizeList::new(kernel, Vec::new()),
        };
        Preparing { h, list, rest: folios, entering: Entering::Twice }
    }

    /// The same preparation, with each page added to the pool by itself.
    pub fn entering_each(self) -> Preparing {
        Preparing { entering: Entering::Each, ..self }
    }

    /// One step: a page, a flush or a hold of the lock. Returns whether all pages are in the pool.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        if !self.list.step(kernel) {
            return false;
        }
        let folios = self.list.folios();
        match self.entering {
            Entering::Together => kernel.add_to_pool(self.h, folios),
            Entering::Each => folios.chunks(1).for_each(|folio| kernel.add_to_pool(self.h, folio)),
            Entering::Twice => {
                for folio in folios.chunks(1) {
                    kernel.hold_hugetlb_lock(1);
                    kernel.add_to_pool(self.h, folio);
                }
            }
        }
        match self.rest.pop() {
            Some(folio) => {
                self.list = OptimizeList::single(&kernel.on.features.hugetlb, folio);
                false
            }
            None => true,
        }
    }
}
