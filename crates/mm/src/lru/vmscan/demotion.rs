//! Demotion: reclaim moves folios of a fast node to a slow one instead of evicting them.
//!
//! ```text
//!   node with CPUs ─ isolated, not used ─► room on the nearest node without CPUs?
//!                                             │ yes                 │ no
//!                                             ▼                     ▼
//!                           migrated, counts as reclaimed        reclaimed as without demotion
//! ```
//!
//! `numa/demotion_enabled` turns it on. Memory comes back by promotion ([`crate::numa::migrate`]), for which
//! kswapd keeps fast memory free up to the promotion watermark. There are two tiers: nodes with CPUs and
//! nodes without. In the kernel: `can_demote`, `demote_folio_list` in mm/vmscan.c; `next_demotion_node` in
//! mm/memory-tiers.c, which chooses at random among several nodes at the same distance, where this model
//! takes the first.

use super::ScanControl;
use crate::account::Category;
use crate::address_space::Pte;
use crate::allocator::page::MigrateType;
use crate::allocator::request::{Effort, Placement, Request};
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::folio::{FolioFlags, FolioId};
use machine::Node;
use std::collections::VecDeque;

impl Kernel<'_> {
    /// Migrates isolated folios of one node to a slower one, as long as that has free memory: it is not
    /// reclaimed from for this. Leaves the folios that found no room in `folios`. Returns the number of pages
    /// migrated.
    pub(super) fn demote_folio_list(&mut self, folios: &mut Vec<FolioId>, sc: &ScanControl) -> u64 {
        let Some(&first) = folios.first() else { return 0 };
        let Some(target) = self.demotion_target(self.parts.folio_node(first)) else { return 0 };
        let mut demoted = 0;
        let mut candidates = VecDeque::from(std::mem::take(folios));
        while let Some(id) = candidates.pop_front() {
            // Migration finds one reference too many and fails.
            if self.parts.lrus.folios.flags[id].has(FolioFlags::HELD) {
                folios.push(id);
                continue;
            }
            if self.is_split_to_migrate(id)
                && let Ok(pages) = self.split_folio(id)
            {
                candidates.extend(pages);
                continue;
            }
            let order = self.parts.lrus.folios.flags[id].order();
            let effort = Effort { wakes: true, no_retry: true, ..Effort::LIGHT };
            let request =
                Request { effort, ..Request::new(order, MigrateType::Movable, Placement::Bind(target)) };
            let Some(pages) = self.alloc(&request) else {
                folios.push(id);
                continue;
            };
            // Its PTEs are set to the new page, and are old: `folio_referenced` has just cleared their
            // accessed bits.
            let entries = self.parts.mappings_of(id);
            let unmap = self.on.machine.costs.paging().pte_unmap * entries.len() as u64;
            self.on.machine.charge(self.on.cpu, Category::PageMigration, unmap);
            entries.iter().for_each(|&entry| self.parts.address_spaces.page_tables[entry].clear(Pte::YOUNG));
            self.move_to_node(id, pages, target);
            demoted += 1 << order;
        }
        let event = if sc.kswapd { Event::PgdemoteKswapd } else { Event::PgdemoteDirect };
        self.on.counters.add(event, demoted);
        self.on.counters.add(Event::PgmigrateSuccess, demoted);
        demoted
    }

    /// Whether folios of a node can be migrated to a slower one (`can_demote`).
    pub(crate) fn can_demote(&self, node: Node) -> bool {
        self.demotion_target(node).is_some()
    }

    fn demotion_target(&self, node: Node) -> Option<Node> {
        self.parts.numa.slower_than(node).filter(|_| self.on.settings.numa.demotion)
    }
}
