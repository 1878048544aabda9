//! Fast path for programs that go through memory page by page without faulting.
//!
//! ```text
//!   table   │ ok │ ok │ ok │ PROT_NONE │ ...        512 entries
//!             └── pages by node ──┘  └─ stops: a fault, which is handled in the order of all CPUs
//!
//!   unchanged since it was swept without a stop ─► the same pages by node, in one go
//! ```
//!
//! A sweep of gigabytes by hundreds of threads is billions of accesses, few of which fault. An access without
//! a fault changes only accessed bits, so it is just counted.

use crate::account::Category;
use crate::address_space::huge_memory::policy::window;
use crate::address_space::{MmId, Pte, Vpn};
use crate::kernel::Parts;
use crate::numa::placement::TaskId;
use machine::topology::MAX_NODES;
use machine::{Cpu, Machine, Node};
use std::ops::Range;

/// A page table that was swept without a stop.
#[derive(Clone, Copy, Debug)]
struct Mark {
    version: u32,
    writes: bool,
}

/// The page tables that were swept without a stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Swept {
    /// By page table.
    marks: Vec<Option<Mark>>,
    /// Pages of each table by node.
    by_node: Vec<u16>,
}

impl Swept {
    /// The pages by node of a table that is unchanged since it was swept, with stores if `write`; `None` if
    /// it must be swept again.
    fn get(&self, table: usize, version: u32, write: bool, nodes: usize) -> Option<&[u16]> {
        let mark = self.marks.get(table).copied().flatten()?;
        (mark.version == version && mark.writes >= write).then(|| &self.by_node[table * nodes..][..nodes])
    }

    fn note(&mut self, table: usize, mark: Mark, by_node: &[u16]) {
        let nodes = by_node.len();
        if self.marks.len() <= table {
            self.marks.resize(table + 1, None);
            self.by_node.resize((table + 1) * nodes, 0);
        }
        self.marks[table] = Some(mark);
        self.by_node[table * nodes..][..nodes].copy_from_slice(by_node);
    }
}

impl Parts {
    /// Reports to the heat map that `task` touched `pages` pages of the VMA at `page`.
    pub fn note_touched(&mut self, task: TaskId, page: Vpn, pages: u64) {
        let mm = self.numa.mm_of(task);
        if let Some(vma) = self.address_spaces.mms[mm].vmas.find(page) {
            self.numa.note_touched(mm, &vma.pages(), task, pages);
        }
    }

    /// Sweeps the part of `pages` in one page table, as a program on `cpu` that reads or writes each page, up
    /// to a page that would fault, or on which another CPU takes a hint fault, or which another CPU still
    /// clears. Adds the pages to `by_node`, and returns the first page that was not swept.
    pub fn sweep(
        &mut self,
        machine: &Machine<Category>,
        cpu: Cpu,
        mm: MmId,
        pages: Range<Vpn>,
        write: bool,
        by_node: &mut [u64],
    ) -> Vpn {
        let Range { start: from, end } = pages;
        let now = machine.now(cpu);
        let Range { start: first, end: behind } = window(from, self.allocator.geometry().pmd_order);
        let end = end.min(behind);
        let Some(table) = self.address_spaces.mms[mm].directory.table(from) else { return from };
        self.address_spaces.mms[mm].ran = u64::MAX;
        self.address_spaces.page_tables[table].young = true;
        if write && self.address_spaces.page_tables.cleared_by_another(table, cpu, now).is_some() {
            return from;
        }
        let (place, whole) = (table.index(), from == first && end == behind);
        let version = self.address_spaces.page_tables[table].version();
        let busy = self.numa.faulting_until(place) > now;
        let nodes = self.allocator.nodes();
        if whole
            && !busy
            && let Some(swept) = self.numa.swept.get(place, version, write, nodes)
        {
            by_node.iter_mut().zip(swept).for_each(|(pages, &more)| *pages += u64::from(more));
            return end;
        }
        let mut sums = [0u16; MAX_NODES as usize];
        let mut page = from;
        while page < end {
            let number = table.entry((page - first) as usize);
            let entry = self.address_spaces.page_tables[number];
            let is_busy = || busy && self.numa.in_progress(number).is_some_and(|fault| fault.stops(cpu, now));
            let Some(node) = self.node_reached(entry, write) else { break };
            if is_busy() {
                break;
            }
            if entry != Pte::ZERO && !entry.has(Pte::YOUNG) {
                self.address_spaces.page_tables[number].set(Pte::YOUNG);
            }
            if write && !entry.has(Pte::STORED) {
                self.address_spaces.page_tables.note_store(number);
            }
            sums[node.index()] += 1;
            page += 1;
        }
        by_node.iter_mut().zip(sums).for_each(|(pages, more)| *pages += u64::from(more));
        if whole && page == end {
            let version = self.address_spaces.page_tables[table].version();
            self.numa.swept.note(place, Mark { version, writes: write }, &sums[..nodes]);
        }
        page
    }

    /// The node of the page that a PTE gives access to without a fault.
    #[inline]
    fn node_reached(&self, entry: Pte, write: bool) -> Option<Node> {
        match entry.folio() {
            Some(id) if entry.lets(write) => Some(self.folio_node(id)),
            // The zero page is on the first node.
            None if entry == Pte::ZERO && !write => Some(Node(0)),
            _ => None,
        }
    }
}
