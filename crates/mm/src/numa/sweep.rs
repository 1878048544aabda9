//! Programs that go through memory page by page, as long as nothing faults.
//!
//! ```text
//!   table   │ ok │ ok │ ok │ PROT_NONE │ ...        512 entries
//!             └── pages by node ──┘  └─ stops: a fault, which takes its turn among all CPUs
//!
//!   unchanged since it was gone through without a stop ─► the same pages by node, in one go
//! ```
//!
//! A sweep of gigabytes by hundreds of threads is billions of accesses of which a few fault. What does not fault changes
//! nothing but accessed bits, so it is only counted.

use crate::account::Category;
use crate::address_space::huge_memory::policy::window;
use crate::address_space::{MmId, Pte, Vpn};
use crate::kernel::Parts;
use crate::numa::placement::TaskId;
use machine::topology::MAX_NODES;
use machine::{Cpu, Machine, Node};
use std::ops::Range;

/// A table that was gone through without a stop.
#[derive(Clone, Copy, Debug)]
struct Mark {
    version: u32,
    writes: bool,
}

/// What is known of tables that were gone through without a stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Swept {
    /// By table.
    marks: Vec<Option<Mark>>,
    /// Their pages: of each table those of each node.
    by_node: Vec<u16>,
}

impl Swept {
    /// The pages by node of a table that is as it was, if whoever went through it stored there or nobody is to store.
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
    /// `task` has gone through so many pages of the area that `page` is in, for the heat map.
    pub fn note_touched(&mut self, task: TaskId, page: Vpn, pages: u64) {
        let mm = self.numa.mm_of(task);
        if let Some(vma) = self.address_spaces.mms[mm].vmas.find(page) {
            self.numa.note_touched(mm, &vma.pages(), task, pages);
        }
    }

    /// Goes through those of `pages` that are within one page table as a program on `cpu` does that writes to or reads from
    /// each of them, until one faults or somebody else takes a hint fault on it or still clears it. Adds pages to `by_node`; returns the
    /// page that it did not get past.
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

    /// The node of the page that a program gets through an entry without a fault.
    #[inline]
    fn node_reached(&self, entry: Pte, write: bool) -> Option<Node> {
        match entry.folio() {
            Some(id) if entry.lets(write) => Some(self.folio_node(id)),
            // The page of zeroes that all share lies on the first node.
            None if entry == Pte::ZERO && !write => Some(Node(0)),
            _ => None,
        }
    }
}
