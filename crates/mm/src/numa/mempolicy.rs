//! Memory policies of VMAs and threads: on which node new memory is allocated.
//!
//! ```text
//!   MPOL_INTERLEAVE of nodes 0 and 1, VMA from page 0 on
//!     single pages     0 1 0 1 0 1 0 1 ...
//!     64 KiB           0               1               0 ...      the index is that of the folio: its page number divided
//!                                                                 by its size, so larger folios interleave more coarsely
//! ```
//!
//! The interleave index is the offset of the folio in the mapped object, in units of its size, computed as
//! the kernel does: a VMA that does not start at a multiple of the folio size is one turn behind. If the node
//! on turn has no memory, the next one by distance serves. A VMA without a policy has that of the thread that
//! faults, or that scans for NUMA balancing. So threads with MPOL_BIND scan nothing, unless their policy has
//! `MPOL_F_NUMA_BALANCING`. Not modelled: swap readahead allocates on the CPU's node, and of several nodes
//! that a VMA is bound to only the nearest serves. In the kernel: `get_vma_policy`, `interleave_nid`,
//! `vma_alloc_folio` in mm/mempolicy.c.

use crate::address_space::AddressSpaces;
use crate::address_space::huge_memory::policy::{Failure, window};
use crate::address_space::{Backing, MmId, Vma, VmaId, Vpn};
use crate::allocator::request::{Effort, Placement};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::folio::{FolioFlags, FolioId};
use crate::numa::NumaBalancing;
use crate::numa::migrate::policy::{Mempolicy, Mode, Nodes};
use crate::numa::placement::TaskId;
use machine::Cpu;
use std::ops::Range;

/// Interleave index of the folio of `order` at `page`: its number in the mapped object (`interleave_nid`).
pub fn interleave_index(vma: &Vma, page: Vpn, order: u8) -> u64 {
    let first = match vma.backing {
        Backing::Anonymous => vma.start,
        Backing::File(_, first) => first.into(),
    };
    (first >> order) + ((page - vma.start) >> order)
}

impl Kernel<'_> {
    /// Allocates a folio for a page fault at `page`, of the order in `flags`, on the node that the memory
    /// policy asks for (`vma_alloc_folio`).
    #[inline]
    pub(crate) fn vma_alloc_folio(
        &mut self,
        (mm, vma, page): (MmId, VmaId, Vpn),
        flags: FolioFlags,
        effort: Effort,
    ) -> Result<FolioId, Failure> {
        let space = &self.parts.address_spaces.mms[mm];
        let vma = &space.vmas[vma];
        let nearest = |nodes: Nodes| {
            nodes.nearest(&self.on.machine.topology.node_distances[self.on.machine.node(self.on.cpu).index()])
        };
        let mut turn = None;
        let placement =
            self.parts.numa.get_vma_policy(self.on.cpu, vma).and_then(|policy| match policy.mode {
                Mode::Interleave(nodes) => {
                    let first = window(page, flags.order()).start;
                    turn = nodes.on_turn(interleave_index(vma, first, flags.order()));
                    turn.map(Placement::Prefer)
                }
                Mode::Bind(nodes) => nearest(nodes).map(Placement::Bind),
                Mode::PreferredMany(nodes) => nearest(nodes).map(Placement::Prefer),
                Mode::Preferred(nodes) => nodes.first().map(Placement::Prefer),
                Mode::Local => None,
            });
        let placement = placement.unwrap_or(Placement::Local);
        let id = self.try_alloc_folio(space.memcg, flags, effort, placement)?;
        if turn.is_some_and(|turn| turn == self.parts.folio_node(id)) {
            self.on.counters.add(Event::NumaInterleave, 1);
        }
        Ok(id)
    }
}

impl AddressSpaces {
    /// Sets or removes the memory policy of `pages` (`mbind`). It affects new pages, whether NUMA balancing
    /// scans, and where hint faults migrate pages. Existing pages are not moved.
    pub fn mbind(&mut self, mm: MmId, pages: Range<Vpn>, policy: Option<Mempolicy>) {
        self.mms[mm].vmas.change(pages, |vma| vma.policy = policy.map(Box::new));
    }
}

impl NumaBalancing {
    /// Sets or removes the memory policy of a thread (`set_mempolicy`). Threads it creates later inherit it.
    pub fn set_mempolicy(&mut self, task: TaskId, policy: Option<Mempolicy>) {
        self.tasks.get_mut(task).policy = policy;
    }

    /// The policy of a VMA, or that of the thread that runs on `cpu`; `None` for the default policy
    /// (`get_vma_policy`).
    #[inline]
    pub(crate) fn get_vma_policy(&self, cpu: Cpu, vma: &Vma) -> Option<Mempolicy> {
        vma.policy.as_deref().copied().or_else(|| self.tasks.get(self.running(cpu)?).policy)
    }
}
