//! What DAMON asks of physical memory: whether a page has been accessed, and to page out those of a region.
//!
//! ```text
//!   mkold     folio ─► rmap ─► the accessed bits of its PTEs cleared, and the folio idle
//!   young     folio ─► rmap ─► is one of the bits set again, or the folio no longer idle?
//!   pageout   folios of the region ─► (from 6.10 on without those that are young) ─► isolated ─► shrink_folio_list
//! ```
//!
//! In the kernel: `damon_pa_mkold`, `damon_pa_young`, `damon_pa_pageout` in mm/damon/paddr.c, `reclaim_pages` in mm/vmscan.c.

use super::policy::judges_pages;
use crate::Pfn;
use crate::account::Category;
use crate::address_space::Pte;
use crate::allocator::memory_map::ZoneType;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::lru::memcontrol::Memcg;
use crate::lru::vmscan::ScanControl;
use machine::Node;
use std::ops::Range;

impl Kernel<'_> {
    /// Forgets that the folio of a page has been accessed (`damon_pa_mkold`).
    pub(super) fn damon_mkold(&mut self, pfn: Pfn) {
        if let Some(id) = self.parts.lru_folio_of(pfn) {
            self.damon_folio_mkold(id);
        }
    }

    fn damon_folio_mkold(&mut self, id: FolioId) {
        self.charge_rmap_walk(id);
        let mut was_young = false;
        for entry in self.parts.mappings_of(id) {
            let pte = &mut self.parts.address_spaces.page_tables[entry];
            was_young |= pte.has(Pte::YOUNG);
            pte.clear(Pte::YOUNG);
        }
        self.parts.lrus.folios.page_idle.set_idle(id, was_young);
    }

    /// Whether the folio of a page has been accessed since (`damon_pa_young`).
    pub(super) fn damon_young(&mut self, pfn: Pfn) -> bool {
        self.parts.lru_folio_of(pfn).is_some_and(|id| self.damon_folio_young(id))
    }

    fn damon_folio_young(&mut self, id: FolioId) -> bool {
        self.charge_rmap_walk(id);
        let tables = &self.parts.address_spaces.page_tables;
        self.parts.mappings_of(id).iter().any(|&entry| tables[entry].has(Pte::YOUNG))
            || !self.parts.lrus.folios.page_idle.is_idle(id)
    }

    fn charge_rmap_walk(&mut self, id: FolioId) {
        let cost = self.on.machine.costs.paging().rmap_walk * self.parts.lrus.folios.mapcount(id).max(1);
        self.on.machine.charge(self.on.cpu, Category::Damon, cost);
    }

    /// Pages out what it can of a region. Returns how many pages (`damon_pa_pageout`).
    pub(super) fn damon_pageout(&mut self, place: Range<Pfn>) -> u64 {
        let judges = judges_pages(&self.on.features.damon);
        let mut folios = Vec::new();
        let mut pfn = place.start;
        while pfn < place.end {
            let Some(id) = self.parts.lru_folio_of(pfn) else {
                pfn += 1;
                continue;
            };
            pfn += self.parts.lrus.folios.flags[id].nr_pages() as Pfn;
            if judges && self.damon_folio_young(id) {
                self.damon_folio_mkold(id);
                continue;
            }
            self.parts.lrus.folios.flags[id].clear(FolioFlags::REFERENCED);
            self.parts.lrus.folios.page_idle.take_young(id);
            if !self.parts.lrus.folios.flags[id].has(FolioFlags::UNEVICTABLE) {
                self.folio_isolate_lru(id);
                folios.push(id);
            }
        }
        self.reclaim_pages(&folios, judges)
    }

    /// Reclaims isolated folios, node by node, whether reclaim would take them or not (`ignore_references`), and puts the others back
    /// (`reclaim_pages`). Returns how many pages it has reclaimed.
    fn reclaim_pages(&mut self, folios: &[FolioId], ignore_references: bool) -> u64 {
        let nodes: Vec<Node> = folios.iter().map(|&id| self.parts.folio_node(id)).collect();
        let (mut reclaimed, mut rest) = (0, folios);
        for of_node in nodes.chunk_by(|a, b| a == b) {
            let (mut left, behind) = (rest[..of_node.len()].to_vec(), &rest[of_node.len()..]);
            rest = behind;
            left.iter().for_each(|&id| self.parts.lrus.folios.flags[id].clear(FolioFlags::ACTIVE));
            let sc = ScanControl::new(Memcg::ROOT, 0, 0, ZoneType::Movable);
            let mut sc = ScanControl { ignore_references, no_demotion: true, ..sc };
            reclaimed += self.shrink_folio_list(&mut left, &mut sc).reclaimed;
            left.into_iter().for_each(|id| self.folio_putback_lru(id));
        }
        reclaimed
    }

    /// Takes a folio off its list (`folio_isolate_lru`).
    fn folio_isolate_lru(&mut self, id: FolioId) {
        let lruvec = self.parts.lrus.folios[id].lruvec;
        self.parts.lrus.lruvecs[lruvec].remove(&mut self.parts.lrus.folios, id, false);
        self.parts.lrus.folios.flags[id].clear(FolioFlags::LRU);
        self.hold_lru_lock(lruvec, 1);
    }
}

impl Parts {
    /// The folio that a page belongs to, if it is on a LRU list (`damon_get_folio`).
    fn lru_folio_of(&self, pfn: Pfn) -> Option<FolioId> {
        let zone = self.allocator.zone_at(pfn)?;
        let of_order = |order: u8| {
            let id = self.folio_at(zone, pfn >> order << order)?;
            let flags = self.lrus.folios.flags[id];
            (flags.order() >= order && flags.has(FolioFlags::LRU)).then_some(id)
        };
        (0..=self.allocator.geometry().max_page_order).find_map(of_order)
    }
}
