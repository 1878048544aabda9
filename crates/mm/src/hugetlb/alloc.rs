//! Allocating fresh huge pages from the page allocator, and freeing them to it (`alloc_fresh_hugetlb_folio`,
//! `__update_and_free_hugetlb_folio` in mm/hugetlb.c).

use super::folio::{Folio, is_gigantic};
use super::policy;
use crate::account::Category;
use crate::allocator::page::MigrateType;
use crate::allocator::request::{Effort, Placement, Request};
use crate::counters::Event;
use crate::kernel::Kernel;
use machine::Node;

impl Kernel<'_> {
    /// Takes hugetlb_lock for `changes` changes to counters and lists.
    pub(crate) fn hold_hugetlb_lock(&mut self, changes: usize) {
        self.parts.hugetlb.lock.acquire(self.on.machine, self.on.cpu, Category::HugetlbLockWait);
        let hold = self.on.machine.costs.list_move * (1 + changes as u64);
        self.parts.hugetlb.lock.hold(self.on.machine, self.on.cpu, hold, Category::HUGETLB_LOCK);
        self.on.counters.add(Event::HugetlbLockHolds, 1);
    }

    /// Allocates a fresh huge page on the next node in turn, or on the first one after it that has one. Nodes where trying hard was
    /// `in_vain` are tried less hard until they have one (`alloc_pool_huge_folio`, `node_alloc_noretry`).
    pub(crate) fn alloc_fresh_by_turns(
        &mut self,
        h: usize,
        nodes: &[Node],
        in_vain: &mut Vec<Node>,
    ) -> Option<Folio> {
        self.alloc_by_turns(h, nodes, |kernel, node| {
            let retry_may_fail = !in_vain.contains(&node);
            let effort = Effort { retry_may_fail, ..Effort::ORDINARY };
            let folio = kernel.alloc_fresh_with(h, Placement::Bind(node), effort);
            match (&folio, retry_may_fail) {
                (None, true) => in_vain.push(node),
                (Some(_), false) => in_vain.retain(|&other| other != node),
                _ => {}
            }
            folio
        })
    }

    /// Calls `alloc` for the nodes in turn until it returns a page (`for_each_node_mask_to_alloc`).
    pub(crate) fn alloc_by_turns(
        &mut self,
        h: usize,
        nodes: &[Node],
        mut alloc: impl FnMut(&mut Kernel, Node) -> Option<Folio>,
    ) -> Option<Folio> {
        nodes.iter().find_map(|_| {
            let node = policy::take_turn(nodes, &mut self.parts.hugetlb.hstates[h].next_to_alloc);
            alloc(self, node)
        })
    }

    /// Allocates a huge page and initialises its struct pages; it goes on while reclaim helps (`alloc_fresh_hugetlb_folio`).
    pub(crate) fn alloc_fresh(&mut self, h: usize, placement: Placement) -> Option<Folio> {
        self.alloc_fresh_with(h, placement, Effort { retry_may_fail: true, ..Effort::ORDINARY })
    }

    fn alloc_fresh_with(&mut self, h: usize, placement: Placement, effort: Effort) -> Option<Folio> {
        let order = self.parts.hugetlb.hstates[h].order;
        let injected = self.is_made_to_fail();
        let pfn = match placement {
            _ if injected => None,
            Placement::Bind(node) | Placement::Prefer(node) if is_gigantic(order) => {
                self.alloc_contig(order, node)
            }
            Placement::Local if is_gigantic(order) => {
                self.alloc_contig(order, self.on.machine.node(self.on.cpu))
            }
            _ => {
                self.on.machine.charge(self.on.cpu, Category::HugePagePrep, self.on.machine.costs.page_alloc);
                self.alloc(&Request { effort, ..Request::new(order, MigrateType::Movable, placement) })
            }
        };
        if !is_gigantic(order) {
            let event = if pfn.is_some() { Event::HtlbBuddyAllocSuccess } else { Event::HtlbBuddyAllocFail };
            self.on.counters.add(event, 1);
        }
        let folio = Folio { pfn: pfn?, order };
        self.on.machine.charge(
            self.on.cpu,
            Category::HugePagePrep,
            self.on.machine.costs.struct_page_init * folio.pages(),
        );
        self.parts.hugetlb.held += folio.pages();
        self.parts.hugetlb.note_fresh(folio);
        Some(folio)
    }

    /// Frees a huge page, which must have all its vmemmap and no hugetlb flag. The kernel clears its struct
    /// pages first; here that time is charged afterwards, because the zone is shared.
    pub(crate) fn free_to_allocator(&mut self, folio: Folio) {
        debug_assert!(!self.parts.hugetlb.is_optimized(folio) && !self.parts.hugetlb.is_hugetlb(folio));
        self.parts.hugetlb.held -= folio.pages();
        if is_gigantic(folio.order) {
            self.free_contig(folio.pfn, folio.order);
        } else {
            self.free(folio.pfn, folio.order);
            self.on.machine.charge(self.on.cpu, Category::HugePageFree, self.on.machine.costs.page_free);
        }
        self.on.machine.charge(
            self.on.cpu,
            Category::HugePageFree,
            self.on.machine.costs.struct_page_free * folio.pages(),
        );
    }

    /// Whether fault injection makes the next allocation fail; counts it.
    pub(crate) fn is_made_to_fail(&mut self) -> bool {
        self.parts.hugetlb.injection.fails(self.on.settings.fail_page_alloc)
    }
}
