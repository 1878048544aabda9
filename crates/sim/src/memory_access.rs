//! What threads pay for the memory that they access, page by page, and which page has to fault first.
//!
//! ```text
//!   Span: pages left ──► sweep (mm): mapped pages, by node ──► Machine::stream, memory_line: controllers and links
//!                          │ the first that is not, or that balancing has made inaccessible
//!                          ▼
//!                        the caller lets it fault
//! ```
//!
//! Time that memory takes because it is on another node is accounted apart (`RemoteMemory`).

use crate::System;
use machine::{Cpu, Node, Time};
use mm::Category;
use mm::address_space::{MmId, Vpn};
use std::ops::Range;
use workload::operation::Extent;

/// How a thread accesses pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    pub fn of(write: bool) -> Access {
        if write { Access::Write } else { Access::Read }
    }

    pub fn is_write(self) -> bool {
        self == Access::Write
    }
}

/// Pages that a thread is about to access, in order.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub pages: Range<Vpn>,
    pub access: Access,
    pub extent: Extent,
}

impl Default for Span {
    fn default() -> Span {
        Span { pages: 0..0, access: Access::Write, extent: Extent::Pages }
    }
}

/// Accesses of all threads.
pub(crate) struct MemoryAccesses {
    /// Pages of the access under way, by node.
    by_node: Vec<u64>,
    /// Pages accessed: on other nodes, and on the thread's own.
    counted: [u64; 2],
}

impl MemoryAccesses {
    pub fn new(nodes: usize) -> MemoryAccesses {
        MemoryAccesses { by_node: vec![0; nodes], counted: [0; 2] }
    }

    /// Pages accessed so far: on other nodes, and on the thread's own.
    pub fn counted(&self) -> [u64; 2] {
        self.counted
    }

    /// Goes on with a span in the address space `mm` whose accesses take time. Returns the page that has to fault before it can go on, if one has to.
    pub fn advance(&mut self, system: &mut System, cpu: Cpu, mm: MmId, span: &mut Span) -> Option<Vpn> {
        let Span { pages, access, extent } = span.clone();
        let from = pages.start;
        let next =
            system.mm.parts.sweep(&system.machine, cpu, mm, pages, access.is_write(), &mut self.by_node);
        self.charge(system, cpu, extent);
        span.pages.start = next;
        if next > from || system.mm.enter(&mut system.machine, cpu).wait_for_hint_fault(mm, next) {
            return None;
        }
        if access.is_write() && system.mm.enter(&mut system.machine, cpu).lose_huge_page(mm, next) {
            let cost = system.machine.costs.page_fault;
            system.machine.work(cpu, Category::PageFault, cost);
            return None;
        }
        Some(next)
    }

    /// Charges for the pages in `by_node` that a thread has accessed.
    fn charge(&mut self, system: &mut System, cpu: Cpu, extent: Extent) {
        let here = system.machine.node(cpu);
        for node in 0..self.by_node.len() {
            let pages = std::mem::take(&mut self.by_node[node]);
            if pages == 0 {
                continue;
            }
            let node = Node(node as u8);
            let machine = &mut system.machine;
            let (near, took) = match extent {
                Extent::Lines => {
                    (machine.own_memory_line(cpu) * pages, machine.memory_line(cpu, node) * pages)
                }
                Extent::Pages => (machine.stream_alone(cpu, here, pages), machine.stream(cpu, node, pages)),
                Extent::Nothing => (Time::ZERO, Time::ZERO),
            };
            let own = if node == here { took } else { took.min(near) };
            system.machine.charge(cpu, Category::Program, own);
            system.machine.charge(cpu, Category::RemoteMemory, took - own);
            self.counted[usize::from(node == here)] += pages;
        }
    }
}
