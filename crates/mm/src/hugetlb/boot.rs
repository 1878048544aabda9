//! Huge pages of boot time (`hugepagesz=1G hugepages=16` on the kernel's command line,
//! here the setting `hugepages-1048576kB/boot`).
//!
//! ```text
//!   2 MiB   from the buddy allocator; one list, from 6.9 on a list for each of two threads a node
//!   1 GiB   from memblock, top down, round robin; one list, from 6.9 on one a node
//!           their struct pages: all made, then given back (6.15: only the first page of them is ever made)
//! ```
//!
//! In the kernel: `hugetlb_hstate_alloc_pages`, `gather_bootmem_prealloc`, `prep_and_add_bootmem_folios` in
//! mm/hugetlb.c.

use super::ORDERS;
use super::folio::{Folio, is_gigantic};
use crate::account::Category;
use crate::page_alloc::MemoryManager;
use crate::vmemmap::list::OptimizeList;
use machine::{Cpu, Machine};

impl MemoryManager {
    /// Fills all pools as the settings of boot ask for, gigantic pages first. Nothing else may have run before.
    pub fn boot_huge_pages(&mut self, machine: &mut Machine<Category>, cpu: Cpu) {
        for (order, count) in ORDERS.into_iter().zip(self.settings.boot_huge_pages).rev() {
            if count > 0 {
                self.fill_pool_at_boot(machine, cpu, order, count);
            }
        }
    }

    fn fill_pool_at_boot(&mut self, machine: &mut Machine<Category>, cpu: Cpu, order: u8, count: u64) {
        let h = self.hugetlb.hstate_of(order);
        let lists = if is_gigantic(order) {
            self.gigantic_at_boot(order, h, count)
        } else {
            self.lists_of_threads(machine, cpu, h, count)
        };
        let f = self.features().hugetlb;
        for folios in lists {
            if f.optimized_at_boot && is_gigantic(order) && self.settings().hugetlb_optimize_vmemmap {
                self.adopt_optimized(machine, cpu, &folios);
            } else if f.add_list {
                OptimizeList::new(self, machine, folios.clone()).finish(self, machine, cpu);
            } else {
                for &folio in &folios {
                    OptimizeList::single(self, folio).finish(self, machine, cpu);
                }
            }
            let at_once = if f.boot_lists_by_node && is_gigantic(order) { 1 } else { folios.len().max(1) };
            folios.chunks(at_once).for_each(|folios| self.add_new_to_pool(machine, cpu, h, folios));
        }
        let hstate = &mut self.hugetlb.hstates[h];
        hstate.max = hstate.counters().persistent();
    }

    fn lists_of_threads(
        &mut self,
        machine: &mut Machine<Category>,
        cpu: Cpu,
        h: usize,
        count: u64,
    ) -> Vec<Vec<Folio>> {
        let nodes = self.nodes_with_memory();
        let threads = if self.features().hugetlb.boot_lists_by_node { 2 * nodes.len() as u64 } else { 1 };
        let chunk = (count / threads).max(1);
        let mut lists = Vec::new();
        let mut remaining = count;
        while remaining > 0 {
            let wanted = if lists.len() as u64 + 1 >= threads { remaining } else { chunk.min(remaining) };
            // Each thread begins at the first node.
            self.hugetlb.hstates[h].next_to_alloc = nodes[0];
            let list: Vec<Folio> =
                (0..wanted).map_while(|_| self.alloc_fresh_by_turns(machine, cpu, h, &nodes)).collect();
            remaining -= wanted;
            let short = (list.len() as u64) < wanted;
            lists.push(list);
            if short {
                break;
            }
        }
        lists
    }

    fn gigantic_at_boot(&mut self, order: u8, h: usize, count: u64) -> Vec<Vec<Folio>> {
        let nodes = self.nodes_with_memory();
        let of_boot =
            |mm: &mut MemoryManager, node| Some(Folio { pfn: mm.alloc_at_boot(order, node)?, order });
        let mut folios: Vec<Folio> =
            (0..count).map_while(|_| self.alloc_by_turns(h, &nodes, of_boot)).collect();
        for &folio in &folios {
            self.hugetlb.held += folio.pages();
            self.hugetlb.note_fresh(folio);
        }
        if !self.features().hugetlb.boot_lists_by_node {
            return vec![folios];
        }
        folios.sort_by_key(|folio| self.node_of(folio.pfn));
        let by_node = folios.chunk_by(|a, b| self.node_of(a.pfn) == self.node_of(b.pfn));
        by_node.map(<[Folio]>::to_vec).collect()
    }

    /// Pages whose vmemmap boot made in its final shape: no frame is replaced, the tails only become read-only, which
    /// one flush makes known.
    fn adopt_optimized(&mut self, machine: &mut Machine<Category>, cpu: Cpu, folios: &[Folio]) {
        for &folio in folios {
            if self.should_optimize(folio) {
                self.adopt_vmemmap(machine, cpu, folio);
            }
        }
        self.flush_all(machine, cpu);
    }
}
