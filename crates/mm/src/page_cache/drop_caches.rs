//! A write to `vm.drop_caches`: takes out of memory what can be had again.
//!
//! ```text
//!   1   folio batches of all CPUs (since 6.6) ─► each file: clean folios that nobody maps, shadow entries
//!   2   each node, each memcg: the shrinkers, at the highest priority
//!   3   both     4 more: no line in the kernel's log
//! ```
//!
//! Who reads a dropped page again does not refault, as its shadow entry is gone too. In the kernel: `drop_caches_sysctl_handler` in
//! fs/drop_caches.c, `mapping_try_invalidate` in mm/truncate.c. Not modelled: that dirty folios go to the end of the inactive list,
//! slabs of dentries and inodes, and that the shrinkers are run again while they free much.

use super::policy;
use super::xarray::{Entry, FileId};
use crate::account::Category;
use crate::counters::Event;
use crate::kernel::Kernel;
use crate::lru::policy::folio_batch;

/// What is written for page cache, and for the shrinkers.
const PAGE_CACHE: u64 = 1;
const SLAB: u64 = 2;

/// Values that the file takes.
pub(crate) const VALUES: std::ops::RangeInclusive<u64> = 1..=4;

/// A write in progress, which is made in steps: each goes over as many folios of a file as a folio batch holds.
#[derive(Debug)]
pub(crate) struct DropCaches {
    value: u64,
    /// Whether the folio batches have been drained, if they are.
    drained: bool,
    /// The next page.
    at: (FileId, u32),
}

impl DropCaches {
    pub fn new(value: u64) -> DropCaches {
        DropCaches { value, drained: false, at: (FileId(0), 0) }
    }

    /// Goes over some folios, or runs the shrinkers. Returns whether that was all.
    pub fn step(&mut self, kernel: &mut Kernel) -> bool {
        if self.value & PAGE_CACHE != 0 && self.drop_page_cache(kernel) {
            return false;
        }
        if self.value & PAGE_CACHE != 0 {
            kernel.on.counters.add(Event::DropPagecache, 1);
        }
        if self.value & SLAB != 0 {
            let lruvecs = kernel.parts.lrus.lruvecs.iter().map(|lruvec| (lruvec.memcg, lruvec.node));
            for (memcg, node) in lruvecs.collect::<Vec<_>>() {
                kernel.shrink_slab(memcg, node, 0);
            }
            kernel.on.counters.add(Event::DropSlab, 1);
        }
        true
    }

    /// Goes over some folios of a file. Returns whether there were some.
    fn drop_page_cache(&mut self, kernel: &mut Kernel) -> bool {
        if !std::mem::replace(&mut self.drained, true)
            && policy::drains_before_dropping(&kernel.on.features.reclaim)
        {
            kernel.lru_add_drain_all();
        }
        for _ in 0..folio_batch(kernel.on.features) {
            let Some((place, entry)) = kernel.parts.page_cache.files.next_entry(self.at) else {
                return false;
            };
            let pages = match entry {
                Entry::Folio(id) => kernel.parts.lrus.folios.flags[id].nr_pages() as u32,
                _ => 1,
            };
            self.at = (place.0, place.1 + pages);
            kernel.drop_entry(place, entry);
        }
        true
    }
}

impl Kernel<'_> {
    /// Drops what a file has at a place, a folio or a shadow entry, if it may be dropped.
    fn drop_entry(&mut self, (file, index): (FileId, u32), entry: Entry) {
        let costs = self.on.machine.costs.paging();
        self.on.machine.charge(self.on.cpu, Category::Reclaim, costs.lru_scan);
        let Entry::Folio(id) = entry else {
            let slot = self.parts.page_cache.files.slot(file, index).expect("it has an entry");
            self.parts.page_cache.files.store(slot, Entry::Empty);
            return;
        };
        let (flags, mapped) = (self.parts.lrus.folios.flags[id], self.parts.lrus.folios[id].mapcount > 0);
        if policy::is_dropped(flags, mapped) {
            self.on.machine.charge(self.on.cpu, Category::Reclaim, costs.file_remove * flags.nr_pages());
            self.remove_from_page_cache(id, Entry::Empty);
            self.parts.lrus.folio_leave_lru(id);
            self.free_folio(id);
        }
    }
}
