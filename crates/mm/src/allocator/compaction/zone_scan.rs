//! One compaction run through a zone: the migrate scanner, the free scanner, and the migration between them.

use super::{CompactFor, CompactMode, policy};
use crate::account::Category;
use crate::allocator::page::{Geometry, MigrateType, NO_PAGE, NR_PAGE_ORDERS, Pfn};
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::FolioId;

/// How many pageblocks a step may go over, as the kernel lets others run after as many (`COMPACT_CLUSTER_MAX`).
const COMPACT_CLUSTER_MAX: usize = 32;

/// A compaction run through a zone (`struct compact_control`).
#[derive(Debug)]
pub(super) struct ZoneScan {
    geometry: Geometry,
    zone: usize,
    /// The wanted order.
    order: u8,
    mode: CompactMode,
    purpose: CompactFor,
    /// The next page of the migrate scanner.
    migrate: Pfn,
    /// The end of the next pageblock of the free scanner.
    free: Pfn,
    /// Isolated free blocks by order.
    isolated: [Vec<Pfn>; NR_PAGE_ORDERS],
}

impl ZoneScan {
    /// A run that continues where the last one in the zone ended.
    pub fn new(mm: &Parts, zone: usize, (order, mode): (u8, CompactMode), purpose: CompactFor) -> ZoneScan {
        let (migrate, free) = mm.allocator.zones()[zone].compaction.scanners.unwrap_or(Self::ends(mm, zone));
        let geometry = mm.allocator.geometry();
        ZoneScan { geometry, zone, order, mode, purpose, migrate, free, isolated: Default::default() }
    }

    /// A run through the whole zone, for blocks of 2 MiB.
    pub fn whole(mm: &Parts, zone: usize) -> ZoneScan {
        let (migrate, free) = Self::ends(mm, zone);
        let (geometry, mode) = (mm.allocator.geometry(), CompactMode::SyncLight);
        let (order, purpose) = (geometry.pageblock_order, CompactFor::Later);
        ZoneScan { geometry, zone, order, mode, purpose, migrate, free, isolated: Default::default() }
    }

    fn ends(mm: &Parts, zone: usize) -> (Pfn, Pfn) {
        let span = mm.allocator.zones()[zone].buddy.span();
        let geometry = mm.allocator.geometry();
        // A zone may end within a pageblock.
        (span.start, geometry.block_start(span.end - 1) + geometry.pageblock_nr_pages())
    }

    fn have_met(&self) -> bool {
        self.geometry.block_start(self.migrate) >= self.free
    }

    /// Goes on to the next pageblock from which folios can be migrated, if it is not far, and migrates them. Returns whether `is_done`
    /// once it is, or the scanners have met.
    pub fn step(&mut self, kernel: &mut Kernel, is_done: impl Fn(&Parts) -> bool) -> Option<bool> {
        for passed_over in 0..COMPACT_CLUSTER_MAX {
            if self.have_met() {
                return Some(false);
            }
            let end = self.geometry.block_start(self.migrate) + self.geometry.pageblock_nr_pages();
            if !self.is_source(kernel.parts) {
                self.migrate = end;
                continue;
            }
            let costs = kernel.on.machine.costs.paging();
            kernel.on.machine.charge(
                kernel.on.cpu,
                Category::Compaction,
                costs.compact_scan * passed_over as u64,
            );
            self.empty_block(kernel, end);
            self.migrate = end;
            return is_done(kernel.parts).then_some(true);
        }
        let cost = kernel.on.machine.costs.paging().compact_scan * COMPACT_CLUSTER_MAX as u64;
        kernel.on.machine.charge(kernel.on.cpu, Category::Compaction, cost);
        None
    }

    /// Whether folios may be migrated out of the migrate scanner's pageblock (`isolation_suitable`, `suitable_migration_source`).
    fn is_source(&self, mm: &Parts) -> bool {
        let start = self.migrate;
        let buddy = &mm.allocator.zones()[self.zone].buddy;
        let movable = buddy.block_type(start) == MigrateType::Movable;
        self.looks_at(mm, start)
            && (movable || self.mode == CompactMode::SyncLight)
            && !buddy.is_block_free(start)
            && !buddy.is_compound(start)
    }

    /// Whether the pageblock at `start` is not passed over (`isolation_suitable`).
    fn looks_at(&self, mm: &Parts, start: Pfn) -> bool {
        self.purpose == CompactFor::Later || !mm.allocator.zones()[self.zone].buddy.is_block_skipped(start)
    }

    /// Migrates folios from the migrate scanner's place up to `end`.
    fn empty_block(&mut self, kernel: &mut Kernel, end: Pfn) {
        let start = self.migrate;
        let end = end.min(kernel.parts.allocator.zones()[self.zone].buddy.span().end);
        let (mut scanned, mut taken) = (0, 0);
        while self.migrate < end {
            scanned += 1;
            let buddy = &kernel.parts.allocator.zones()[self.zone].buddy;
            if let Some(order) = buddy.free_order(self.migrate) {
                self.migrate += 1 << order;
                continue;
            }
            let Some(id) = kernel.parts.folio_at(self.zone, self.migrate) else {
                // Hugetlb pages stay in place. If one begins here, the rest of the pageblock is skipped;
                // further pageblocks of a gigantic page are scanned page by page.
                self.migrate =
                    if kernel.parts.hugetlb.begins_at(self.migrate) { end } else { self.migrate + 1 };
                continue;
            };
            let order = kernel.parts.lrus.folios.flags[id].order();
            if policy::migrates(kernel.on.features, order, self.order) && kernel.parts.lrus.is_migratable(id)
            {
                if kernel.is_split_to_migrate(id) && kernel.split_folio(id).is_ok() {
                    // The scan continues with the split folio's pages one by one.
                    continue;
                }
                let Some(target) = self.target(kernel, order) else { break };
                kernel.migrate_folio(self.zone, id, target);
                taken += 1;
            }
            self.migrate += 1 << order;
        }
        if taken == 0 || self.purpose != CompactFor::Later {
            kernel.parts.allocator.zones[self.zone].buddy.skip_block(start);
        }
        kernel.on.counters.add(Event::CompactMigrateScanned, scanned);
        let costs = kernel.on.machine.costs.paging();
        let cost = costs.compact_scan * scanned + costs.lru_scan * taken;
        kernel.on.machine.charge(kernel.on.cpu, Category::Compaction, cost);
    }

    /// Takes an isolated free block of `order`, splitting a larger one if necessary (`compaction_alloc`).
    fn target(&mut self, kernel: &mut Kernel, order: u8) -> Option<Pfn> {
        loop {
            let found = (order..NR_PAGE_ORDERS as u8).find(|&o| !self.isolated[usize::from(o)].is_empty());
            if let Some(mut larger) = found {
                let pfn = self.isolated[usize::from(larger)].pop()?;
                kernel.parts.allocator.zones[self.zone].compaction.isolated -= 1 << order;
                while larger > order {
                    larger -= 1;
                    self.isolated[usize::from(larger)].push(pfn + (1 << larger));
                }
                return Some(pfn);
            }
            if !self.isolate_free_pages(kernel) {
                return None;
            }
        }
    }

    /// Isolates the free pages of the next movable pageblock that has some (`isolate_freepages`). Returns
    /// whether there was one.
    fn isolate_free_pages(&mut self, kernel: &mut Kernel) -> bool {
        while self.free > self.geometry.block_start(self.migrate) + self.geometry.pageblock_nr_pages() {
            self.free -= self.geometry.pageblock_nr_pages();
            let looks = self.looks_at(kernel.parts, self.free);
            let (zone, on) = (&mut kernel.parts.allocator.zones[self.zone], &mut kernel.on);
            let movable = zone.buddy.block_type(self.free) == MigrateType::Movable;
            let is_whole = zone.buddy.is_block_free(self.free) || zone.buddy.is_compound(self.free);
            if !looks || !movable || is_whole {
                continue;
            }
            let taken = zone.isolate_free_blocks(on, self.free);
            zone.buddy.skip_block(self.free);
            zone.compaction.isolated += taken.iter().map(|&(_, order)| 1 << order).sum::<u64>();
            kernel.on.counters.add(Event::CompactFreeScanned, self.geometry.pageblock_nr_pages().into());
            if !taken.is_empty() {
                taken.into_iter().for_each(|(pfn, order)| self.isolated[usize::from(order)].push(pfn));
                return true;
            }
        }
        false
    }

    /// Frees the unused isolated pages and remembers where the scanners stopped.
    pub fn finish(self, kernel: &mut Kernel) {
        let have_met = self.have_met();
        let (zone, on) = (&mut kernel.parts.allocator.zones[self.zone], &mut kernel.on);
        // A block with free pages that were not needed is where the free scanner goes on.
        let unused = self.isolated.iter().flatten().map(|&pfn| self.geometry.block_start(pfn)).max();
        if let Some(block) = unused {
            zone.buddy.look_at_block(block);
        }
        let free = unused.map_or(self.free, |block| block + self.geometry.pageblock_nr_pages());
        zone.compaction.scanners = (!have_met).then_some((self.migrate, free));
        zone.compaction.flush_skipped |= have_met && self.purpose == CompactFor::Allocation;
        let isolated =
            self.isolated.iter().zip(0..).map(|(blocks, order): (_, u32)| (blocks.len() as u64) << order);
        zone.compaction.isolated -= isolated.sum::<u64>();
        let blocks = self
            .isolated
            .iter()
            .zip(0..)
            .flat_map(|(blocks, order)| blocks.iter().map(move |&pfn| (pfn, order)));
        zone.release_free_blocks(on, blocks);
    }
}

impl Kernel<'_> {
    /// Migrates a folio to free pages that were isolated for it; its old pages become free.
    fn migrate_folio(&mut self, zone: usize, id: FolioId, target: Pfn) {
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        let mappings = self.parts.lrus.folios.mapcount(id);
        let costs = self.on.machine.costs.paging();
        let cost = self.on.machine.costs.page_copy * pages + (costs.rmap_walk + costs.pte_unmap) * mappings;
        self.on.machine.charge(
            self.on.cpu,
            Category::Compaction,
            cost + self.on.machine.costs.pte_write * mappings,
        );
        let old = self.replace_pages(id, target, self.parts.lrus.folios[id].lruvec);
        self.on.counters.add(Event::PgmigrateSuccess, pages);
        let order = self.parts.lrus.folios.flags[id].order();
        let (zone, on) = (&mut self.parts.allocator.zones[zone], &mut self.on);
        zone.release_free_blocks(on, [(old, order)].into_iter());
    }
}

impl Parts {
    /// The folio whose first page is `pfn`.
    pub(crate) fn folio_at(&self, zone: usize, pfn: Pfn) -> Option<FolioId> {
        let id = FolioId(self.allocator.zones()[zone].buddy.user(pfn)?);
        (self.lrus.folios.pfn_of(id) == Some(pfn)).then_some(id)
    }
}

const _: () = assert!(NO_PAGE == u32::MAX);
