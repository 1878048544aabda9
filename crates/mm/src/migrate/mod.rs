//! Folio migration: gives a folio other pages.
//!
//! ```text
//!   folio ─► old pages        the folio keeps its id, its mappings, its place in files and swap,
//!      └───► new pages        its flags and, on the same node, its place on an LRU list
//! ```
//!
//! Compaction migrates folios within a zone, NUMA balancing to the node that uses them, and demotion from
//! fast to slow memory. They share the test whether a folio can be migrated and the exchange of its pages.
//! The kernel makes a new `struct folio` and puts migration entries into page tables meanwhile
//! (mm/migrate.c); here the folio keeps its id and only its pages change.

pub mod policy;

use crate::account::Category;
use crate::allocator::page::Pfn;
use crate::kernel::Kernel;
use crate::lru::Lrus;
use crate::lru::folio::{FolioFlags, FolioId, LruvecId};
use crate::lru::policy::AddedBy;
use machine::Node;

impl Kernel<'_> {
    /// Copies a folio, which is isolated from its list, to `pages` on node `target`, and adds it to the folio
    /// batch of an lruvec there.
    pub(crate) fn move_to_node(&mut self, id: FolioId, pages: Pfn, target: Node) {
        let order = self.parts.lrus.folios.flags[id].order();
        let copy = self.on.machine.stream(self.on.cpu, self.parts.folio_node(id), 1 << order);
        self.on.machine.charge(
            self.on.cpu,
            Category::PageMigration,
            self.on.machine.costs.numa().page_migrate + copy,
        );
        let memcg = self.parts.lrus.memcg_of(id);
        let zone = self.parts.allocator.zones()[self.parts.allocator.zone_of(pages)].kind as usize;
        let lruvec = self.parts.lrus.lruvec_of(memcg, target);
        let old = self.replace_pages(id, pages, lruvec);
        self.parts.lrus.folios.flags[id].set_zone(zone);
        self.folio_add_lru(id, AddedBy::Other);
        self.free(old, order);
    }

    /// Whether migration splits this folio first, because some of its pages are unmapped.
    pub(crate) fn is_split_to_migrate(&self, id: FolioId) -> bool {
        let is_partially_mapped = self.parts.lrus.folios.flags[id].has(FolioFlags::PARTIALLY_MAPPED);
        policy::splits_first(&self.on.features.folios, is_partially_mapped)
    }

    /// Replaces the pages of a folio by `pages`, which are allocated already, and assigns it to `lruvec`.
    /// Returns the old pages, which now belong to nobody: the caller frees them.
    pub(crate) fn replace_pages(&mut self, id: FolioId, pages: Pfn, lruvec: LruvecId) -> Pfn {
        self.migrate_deferred_split(id, lruvec);
        let zone = self.parts.allocator.zone_of(pages);
        self.parts.allocator.zone_mut(zone).buddy.set_user(pages, id.0);
        std::mem::replace(&mut self.parts.lrus.folios[id].pfn, pages)
    }
}

impl Lrus {
    /// Whether a folio can be migrated now: it is on an LRU list, and nobody holds it, locks it or writes it
    /// back.
    pub(crate) fn is_migratable(&self, id: FolioId) -> bool {
        let flags = self.folios.flags[id];
        let busy = FolioFlags::HELD | FolioFlags::LOCKED | FolioFlags::WRITEBACK;
        flags.has(FolioFlags::LRU) && !flags.any(busy)
    }
}
