//! Pools of huge pages (hugetlbfs).
//!
//! ```text
//!   echo N > nr_hugepages ─► write ─► resize ── grow:   allocate ─► prepare ─► into the pool
//!                                            └─ shrink: out of the pool ─► release: restore vmemmap ─► free
//!   mmap, fault, munmap   ─► reservation     promises, surplus pages, pages that come back
//!   hugepages=N           ─► boot            demote: large ones into small ones
//!   hstate: counters, free lists, cursors    policy: whose turn, how many stay, how to flush
//! ```
//!
//! Huge pages come from the twin's own buddy allocator and pagesets and go back there; their struct pages are memory
//! of its own ([`crate::vmemmap`]). Everything that changes a pool is a walk of bounded steps on behalf of one CPU:
//! between two of them other CPUs act, and what a step costs is charged where the kernel pays it.
//! In the kernel: mm/hugetlb.c.

pub mod boot;
pub mod demote;
pub mod features;
pub mod folio;
pub mod hstate;
pub mod policy;
pub(crate) mod prepare;
pub(crate) mod release;
pub mod reservation;
pub(crate) mod resize;
pub mod write;

use crate::account::Category;
use crate::counters::Event;
use crate::fault_injection::Injection;
use crate::kernel::Kernel;
use crate::memory_map::MemoryRange;
use crate::page::{MigrateType, PAGEBLOCK_ORDER, Pfn};
use crate::page_alloc::{MemoryManager, Placement, Request};
use crate::vmemmap::Vmemmap;
use folio::{Folio, is_gigantic};
use hstate::Hstate;
use machine::{Node, SpinLock};
use rand_pcg::Pcg64Mcg;

pub use reservation::{NoHugePage, Use};
pub use write::{Write, WriteError};

/// Orders of the sizes that x86-64 has, default size first: 2 MiB and 1 GiB.
pub const ORDERS: [u8; 2] = [9, 18];

/// What a pool knows of one huge page (`enum hugetlb_page_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    /// It is a hugetlb page to others; from then on nobody writes to its tails.
    hugetlb: bool,
    /// It has given back its vmemmap.
    optimized: bool,
    /// It leaves with its last user.
    temporary: bool,
}

/// All pools, and the map of struct pages that their pages give back.
#[derive(Clone, Debug)]
pub struct HugetlbPools {
    hstates: Vec<Hstate>,
    /// hugetlb_lock, of all pools.
    pub lock: SpinLock,
    /// The map of struct pages.
    pub vmemmap: Vmemmap,
    /// Pages that could not be freed where their last user went away (`hpage_freelist`), the latest last.
    deferred: Vec<Folio>,
    /// Pages that have given back vmemmap (`hugetlb_optimize_vmemmap_key`).
    pub(crate) optimize_key: u64,
    /// By page number in units of 2 MiB.
    flags: Vec<Flags>,
    /// Base pages that pools, page tables and restored struct pages have from the allocator.
    pub(crate) held: u64,
    pub(crate) injection: Injection,
}

impl HugetlbPools {
    /// Empty pools; `random` decides which allocations fail if some are to.
    pub(crate) fn new(memory: &[MemoryRange], nodes: u8, random: Pcg64Mcg) -> HugetlbPools {
        HugetlbPools {
            hstates: ORDERS.iter().map(|&order| Hstate::new(order, nodes)).collect(),
            lock: SpinLock::default(),
            vmemmap: Vmemmap::new(memory),
            deferred: Vec::new(),
            optimize_key: 0,
            flags: Vec::new(),
            held: 0,
            injection: Injection::new(random),
        }
    }

    /// The pools, default size first.
    pub fn hstates(&self) -> &[Hstate] {
        &self.hstates
    }

    /// Pages that have given back their vmemmap.
    pub fn nr_optimized(&self) -> u64 {
        self.optimize_key
    }

    /// Pages that wait to be freed by the worker.
    pub fn nr_deferred(&self) -> usize {
        self.deferred.len()
    }

    /// How many allocations could have been made to fail so far (`fail_page_alloc/nth`).
    pub fn nr_allocations(&self) -> u64 {
        self.injection.calls()
    }

    fn flags(&self, folio: Folio) -> Flags {
        self.flags.get((folio.pfn >> PAGEBLOCK_ORDER) as usize).copied().unwrap_or_default()
    }

    fn flags_mut(&mut self, folio: Folio) -> &mut Flags {
        let at = (folio.pfn >> PAGEBLOCK_ORDER) as usize;
        if at >= self.flags.len() {
            self.flags.resize(at + 1, Flags::default());
        }
        &mut self.flags[at]
    }

    /// Takes `folio` for a hugetlb page that nothing else is known of.
    fn note_fresh(&mut self, folio: Folio) {
        *self.flags_mut(folio) = Flags { hugetlb: true, ..Flags::default() };
    }

    /// Whether `folio` has given back its vmemmap.
    pub fn is_optimized(&self, folio: Folio) -> bool {
        self.flags(folio).optimized
    }

    /// Whether others take `folio` for a hugetlb page; until its vmemmap is restored they must.
    pub fn is_hugetlb(&self, folio: Folio) -> bool {
        self.flags(folio).hugetlb
    }

    /// Whether a hugetlb page begins at `pfn`.
    pub(crate) fn begins_at(&self, pfn: Pfn) -> bool {
        pfn.is_multiple_of(1 << PAGEBLOCK_ORDER) && self.is_hugetlb(Folio { pfn, order: PAGEBLOCK_ORDER })
    }

    pub(crate) fn set_optimized(&mut self, folio: Folio, optimized: bool) {
        self.flags_mut(folio).optimized = optimized;
    }

    /// Checks what must always hold; panics with what does not.
    pub(crate) fn validate(&self) {
        self.hstates.iter().for_each(Hstate::validate);
        for h in &self.hstates {
            for node in (0..h.nr_nodes() as u8).map(Node) {
                for &pfn in h.free_list(node) {
                    let folio = Folio { pfn, order: h.order };
                    assert!(self.is_hugetlb(folio), "free page {pfn} is no hugetlb page");
                    if folio::is_optimizable(h.order) && self.vmemmap.contains(&folio.vmemmap()) {
                        let shared = self.vmemmap.is_shared(&folio.vmemmap());
                        assert_eq!(
                            shared,
                            self.is_optimized(folio),
                            "page {pfn}: flag and page table disagree"
                        );
                    }
                }
            }
        }
        let optimized = self.flags.iter().filter(|flags| flags.optimized).count() as u64;
        assert_eq!(optimized, self.optimize_key, "optimised pages and their count disagree");
    }
}

impl Kernel<'_> {
    /// Takes hugetlb_lock for `changes` changes to counters and lists.
    pub(crate) fn hold_hugetlb_lock(&mut self, changes: usize) {
        self.mm.hugetlb.lock.acquire(self.machine, self.cpu, Category::HugetlbLockWait);
        let hold = self.machine.costs.list_move * (1 + changes as u64);
        self.mm.hugetlb.lock.hold(self.machine, self.cpu, hold, Category::HUGETLB_LOCK);
        self.mm.counters_mut().add(Event::HugetlbLockHolds, 1);
    }

    /// A fresh huge page from the node whose turn it is, or from the next one that has one (`alloc_pool_huge_folio`).
    pub(crate) fn alloc_fresh_by_turns(&mut self, h: usize, nodes: &[Node]) -> Option<Folio> {
        self.alloc_by_turns(h, nodes, |kernel, node| kernel.alloc_fresh(h, Placement::Bind(node)))
    }

    /// A huge page from the first node of `nodes` from which `alloc` gets one, beginning with the one whose turn it is
    /// (`for_each_node_mask_to_alloc`).
    pub(crate) fn alloc_by_turns(
        &mut self,
        h: usize,
        nodes: &[Node],
        mut alloc: impl FnMut(&mut Kernel, Node) -> Option<Folio>,
    ) -> Option<Folio> {
        nodes.iter().find_map(|_| {
            let node = policy::take_turn(nodes, &mut self.mm.hugetlb.hstates[h].next_to_alloc);
            alloc(self, node)
        })
    }

    /// A huge page from the allocator, its struct pages prepared (`alloc_fresh_hugetlb_folio`).
    pub(crate) fn alloc_fresh(&mut self, h: usize, placement: Placement) -> Option<Folio> {
        let order = self.mm.hugetlb.hstates[h].order;
        let injected = self.mm.is_made_to_fail();
        let pfn = match placement {
            _ if injected => None,
            Placement::Bind(node) | Placement::Prefer(node) if is_gigantic(order) => {
                self.alloc_contig(order, node)
            }
            Placement::Local if is_gigantic(order) => self.alloc_contig(order, self.machine.node(self.cpu)),
            _ => {
                self.machine.charge(self.cpu, Category::HugePagePrep, self.machine.costs.page_alloc);
                self.alloc(&Request::new(order, MigrateType::Movable, placement))
            }
        };
        if !is_gigantic(order) {
            let event = if pfn.is_some() { Event::HtlbBuddyAllocSuccess } else { Event::HtlbBuddyAllocFail };
            self.mm.counters_mut().add(event, 1);
        }
        let folio = Folio { pfn: pfn?, order };
        self.machine.charge(
            self.cpu,
            Category::HugePagePrep,
            self.machine.costs.struct_page_init * folio.pages(),
        );
        self.mm.hugetlb.held += folio.pages();
        self.mm.hugetlb.note_fresh(folio);
        Some(folio)
    }

    /// Gives a huge page, with all of its vmemmap and no hugetlb page any more, to the allocator. The kernel clears its
    /// struct pages first; the time for that is charged afterwards, as the zone is shared.
    pub(crate) fn free_to_allocator(&mut self, folio: Folio) {
        debug_assert!(!self.mm.hugetlb.is_optimized(folio) && !self.mm.hugetlb.is_hugetlb(folio));
        self.mm.hugetlb.held -= folio.pages();
        if is_gigantic(folio.order) {
            self.free_contig(folio.pfn, folio.order);
        } else {
            self.free(folio.pfn, folio.order);
            self.machine.charge(self.cpu, Category::HugePageFree, self.machine.costs.page_free);
        }
        self.machine.charge(
            self.cpu,
            Category::HugePageFree,
            self.machine.costs.struct_page_free * folio.pages(),
        );
    }
}

impl MemoryManager {
    /// The pools.
    pub fn hugetlb(&self) -> &HugetlbPools {
        &self.hugetlb
    }

    /// Whether the allocation that is about to be made fails because a test wants it.
    pub(crate) fn is_made_to_fail(&mut self) -> bool {
        self.hugetlb.injection.fails(self.settings.fail_page_alloc)
    }

    /// Takes the whole vmemmap for split into page tables already, as earlier resizes may have left it.
    pub fn assume_split_vmemmap(&mut self) {
        self.hugetlb.vmemmap.split_all();
    }

    /// All nodes that have memory.
    pub(crate) fn nodes_with_memory(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.zones().iter().map(|zone| zone.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    pub(crate) fn node_of(&self, pfn: Pfn) -> Node {
        self.zones()[self.zone_of(pfn)].node
    }
}
