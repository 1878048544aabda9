//! Pools of huge pages (hugetlbfs).
//!
//! ```text
//!   echo N > nr_hugepages ─► write ─► resize ── grow:   allocate ─► prepare ─► into the pool
//!                                            └─ shrink: out of the pool ─► release: restore vmemmap ─► free
//!   mmap, fault, munmap   ─► reservation     reservations, surplus pages, freed pages
//!   hugepages=N           ─► boot            demote: 1 GiB pages into 2 MiB pages
//!   hstate: counters, free lists, cursors    policy: whose turn, how many stay, what is batched
//! ```
//!
//! Huge pages come from the twin's own buddy allocator and pagesets and return there; the memory of their
//! struct pages is modelled too ([`crate::hugetlb::vmemmap`]). Every change of a pool is a walk of bounded
//! steps on one CPU: other CPUs act between two steps, and a step's cost is charged where the kernel pays it.
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

/// The orders of huge pages on x86-64, default size first: 2 MiB and 1 GiB.
pub const ORDERS: [u8; 2] = [9, 18];

/// Flags of one huge page (`enum hugetlb_page_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    /// It is a hugetlb page to the rest of the kernel, which therefore does not write to its tail struct
    /// pages.
    hugetlb: bool,
    /// Its vmemmap is optimised (`HPG_vmemmap_optimized`).
    optimized: bool,
    /// It is freed by its last user (`HPG_temporary`).
    temporary: bool,
}

/// All pools of huge pages, and their vmemmap.
#[derive(Clone, Debug)]
pub struct HugetlbPools {
    hstates: Vec<Hstate>,
    /// hugetlb_lock, shared by all pools.
    pub lock: SpinLock,
    pub vmemmap: Vmemmap,
    /// Pages that could not be freed by their last user and wait for the worker (`hpage_freelist`), the
    /// latest last.
    deferred: Vec<Folio>,
    /// Number of optimised huge pages (`hugetlb_optimize_vmemmap_key`).
    pub(crate) optimize_key: u64,
    /// By page frame number in units of 2 MiB.
    flags: Vec<Flags>,
    /// Base pages that pools, page tables and restored struct pages hold.
    held: u64,
    pub(crate) injection: Injection,
}

impl HugetlbPools {
    /// Base pages in pools, or taken out of them.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Empty pools. `random` is the random stream of injected allocation failures.
    pub(crate) fn new(memory: &[MemoryRange], nodes: u8, random: Pcg64Mcg) -> HugetlbPools {
        HugetlbPools {
            hstates: ORDERS.iter().map(|&order| Hstate::new(order, nodes)).collect(),
            lock: SpinLock::numbered(0),
            vmemmap: Vmemmap::new(memory),
            deferred: Vec::new(),
            optimize_key: 0,
            flags: Vec::new(),
            held: 0,
            injection: Injection::new(random),
        }
    }

    pub fn hstates(&self) -> &[Hstate] {
        &self.hstates
    }

    /// Number of optimised huge pages.
    pub fn nr_optimized(&self) -> u64 {
        self.optimize_key
    }

    /// Number of pages that wait for the worker to free them.
    pub fn nr_deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Number of allocations so far, as `fail_page_alloc/nth` counts them.
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

    /// Makes `folio` a hugetlb page without further flags.
    fn note_fresh(&mut self, folio: Folio) {
        *self.flags_mut(folio) = Flags { hugetlb: true, ..Flags::default() };
    }

    /// Whether the vmemmap of `folio` is optimised.
    pub fn is_optimized(&self, folio: Folio) -> bool {
        self.flags(folio).optimized
    }

    /// Whether `folio` is a hugetlb page to the rest of the kernel, as it must be until its vmemmap is
    /// restored.
    pub fn is_hugetlb(&self, folio: Folio) -> bool {
        self.flags(folio).hugetlb
    }

    /// Whether a hugetlb page begins at `pfn`.
    pub(crate) fn begins_at(&self, pfn: Pfn) -> bool {
        pfn.is_multiple_of(1 << PAGEBLOCK_ORDER) && self.is_hugetlb(Folio { pfn, order: PAGEBLOCK_ORDER })
    }

    /// Sets the flag for optimised vmemmap.
    pub(crate) fn note_optimized(&mut self, folio: Folio) {
        self.flags_mut(folio).optimized = true;
    }

    /// Clears the flag for optimised vmemmap.
    pub(crate) fn note_restored(&mut self, folio: Folio) {
        self.flags_mut(folio).optimized = false;
    }

    /// Checks the invariants of all pools and panics with the one that is broken.
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

    /// Splits all PMD mappings of the vmemmap at no cost, as earlier resizes may have left it.
    pub fn assume_split_vmemmap(&mut self) {
        self.vmemmap.split_all();
    }
}

impl PageAllocator {
    /// The nodes that have memory, ascending.
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
