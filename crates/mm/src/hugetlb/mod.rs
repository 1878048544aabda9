//! Pools of huge pages (hugetlbfs).
//!
//! ```text
//!   echo N > nr_hugepages ─► write ─► resize ── grow:   allocate ─► prepare ─► into the pool
//!                                            └─ shrink: out of the pool ─► release: restore vmemmap ─► free
//!   mmap, fault, munmap   ─► reservation     promises, surplus pages, pages that come back
//!   hugepages=N           ─► boot            demote: large ones into small ones
//!   hstate: counters, free lists, cursors    policy: whose turn, how many stay, what is done together
//! ```
//!
//! Huge pages come from the twin's own buddy allocator and pagesets and go back there; their struct pages are memory
//! of its own ([`crate::hugetlb::vmemmap`]). Everything that changes a pool is a walk of bounded steps on behalf of one CPU:
//! between two of them other CPUs act, and what a step costs is charged where the kernel pays it.
//! In the kernel: mm/hugetlb.c.

mod alloc;
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
pub mod vmemmap;
pub mod write;

use crate::allocator::PageAllocator;
use crate::allocator::fault_injection::Injection;
use crate::allocator::memory_map::MemoryRange;
use crate::allocator::page::{PAGEBLOCK_ORDER, Pfn};
use crate::hugetlb::vmemmap::Vmemmap;
use folio::Folio;
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
    held: u64,
    pub(crate) injection: Injection,
}

impl HugetlbPools {
    /// Base pages that are in pools, or have been taken from them.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

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

    /// Takes note that `folio` has given back its vmemmap.
    pub(crate) fn note_optimized(&mut self, folio: Folio) {
        self.flags_mut(folio).optimized = true;
    }

    /// Takes note that `folio` has all of its vmemmap again.
    pub(crate) fn note_restored(&mut self, folio: Folio) {
        self.flags_mut(folio).optimized = false;
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

    /// Takes the whole vmemmap for split into page tables already, as earlier resizes may have left it.
    pub fn assume_split_vmemmap(&mut self) {
        self.vmemmap.split_all();
    }
}

impl PageAllocator {
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
