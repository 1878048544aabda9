//! Demoting: one 1 GiB page becomes 512 pages of 2 MiB.
//!
//! ```text
//!   1 GiB free, optimised ─► restore 4095 vmemmap pages ─► 512 × 2 MiB ─► optimise each ─► pool of 2 MiB
//! ```
//!
//! In the kernel: `demote_pool_huge_page`, `demote_free_hugetlb_folios` in mm/hugetlb.c.

use super::folio::Folio;
use crate::account::Category;
use crate::page::Pfn;
use crate::page_alloc::MemoryManager;
use crate::vmemmap::list::{OptimizeList, RestoreList};
use machine::{Cpu, Machine, Node};

#[derive(Clone, Debug)]
enum Phase {
    Remove,
    Restore(RestoreList),
    /// The list at hand; what is left of the page, the next one last.
    Optimize(OptimizeList, Vec<Folio>),
    Done,
}

/// Demoting pages of a pool, under way; one page at a time, its parts as one list, before patch 6 one by one.
#[derive(Clone, Debug)]
pub(crate) struct Demote {
    from: usize,
    to: usize,
    nodes: Vec<Node>,
    remaining: u64,
    phase: Phase,
}

impl Demote {
    /// `count` free pages of pool `from`, taken from `nodes`, into pool `to`.
    pub fn new(from: usize, to: usize, nodes: Vec<Node>, count: u64) -> Demote {
        Demote { from, to, nodes, remaining: count, phase: Phase::Remove }
    }

    /// How many pages have not been demoted.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// One page, flush or hold; whether all is done.
    pub fn step(&mut self, mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Remove => self.remove(mm, machine, cpu),
            Phase::Restore(mut list) => {
                if list.step(mm, machine, cpu) {
                    self.split(mm, machine, cpu, list)
                } else {
                    Phase::Restore(list)
                }
            }
            Phase::Optimize(mut list, rest) => {
                if list.step(mm, machine, cpu) {
                    let folios = list.into_folios();
                    mm.add_new_to_pool(machine, cpu, self.to, &folios);
                    mm.hugetlb.hstates[self.to].max += folios.len() as u64;
                    Demote::optimize_next(mm, rest)
                } else {
                    Phase::Optimize(list, rest)
                }
            }
            Phase::Done => Phase::Done,
        };
        matches!(self.phase, Phase::Done)
    }

    fn remove(&mut self, mm: &mut MemoryManager, machine: &mut Machine<Category>, cpu: Cpu) -> Phase {
        if self.remaining == 0 || mm.hugetlb.hstates[self.from].available() == 0 {
            return Phase::Done;
        }
        mm.hold_hugetlb_lock(machine, cpu, 1);
        match mm.hugetlb.hstates[self.from].remove(&self.nodes, false) {
            Some(folio) => {
                mm.note_removed(folio);
                Phase::Restore(RestoreList::new(mm, vec![folio]))
            }
            None => Phase::Done,
        }
    }

    fn split(
        &mut self,
        mm: &mut MemoryManager,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        list: RestoreList,
    ) -> Phase {
        let Some(&folio) = list.complete.first() else {
            // It stays what it was.
            let folios: Vec<Folio> = list.waiting.into_iter().chain(list.failed).collect();
            for folio in folios {
                mm.hugetlb.flags_mut(folio).hugetlb = true;
                mm.add_to_pool(machine, cpu, self.from, &[folio]);
            }
            return Phase::Done;
        };
        self.remaining -= 1;
        mm.hugetlb.hstates[self.from].max -= 1;
        let order = mm.hugetlb.hstates[self.to].order;
        let mut small: Vec<Folio> = (0..1u32 << (folio.order - order))
            .map(|i| Folio { pfn: folio.pfn + (i << order) as Pfn, order })
            .collect();
        for &folio in &small {
            mm.hugetlb.note_fresh(folio);
        }
        machine.charge(cpu, Category::HugePagePrep, machine.costs.struct_page_init * folio.pages());
        if mm.features().hugetlb.add_list {
            return Phase::Optimize(OptimizeList::new(mm, machine, small), Vec::new());
        }
        small.reverse();
        Demote::optimize_next(mm, small)
    }

    /// The next part by itself, or the next page to demote.
    fn optimize_next(mm: &MemoryManager, mut rest: Vec<Folio>) -> Phase {
        match rest.pop() {
            Some(folio) => Phase::Optimize(OptimizeList::single(mm, folio), rest),
            None => Phase::Remove,
        }
    }
}
