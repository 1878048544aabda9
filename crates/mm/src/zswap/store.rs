//! Storing pages and giving them back (`zswap_store`, `zswap_load`, `zswap_invalidate`).

use super::{Entry, Zswap, policy};
use crate::account::Category;
use crate::address_space::huge_memory::policy::SwapInPath;
use crate::allocator::page::{MigrateType, Pfn};
use crate::allocator::request::{Effort, Placement, Request};
use crate::counters::Event;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId, LruvecId};
use crate::lru::memcontrol::{Memcg, UNLIMITED};
use crate::swapfile::SwapEntry;

impl Kernel<'_> {
    /// Whether zswap takes a folio that would be written to its swap entries. It takes all of its pages or none (`zswap_store`).
    pub(crate) fn zswap_store(&mut self, id: FolioId) -> bool {
        let (f, settings) = (self.on.features.zswap, self.on.settings.zswap);
        let order = self.parts.lrus.folios.flags[id].order();
        self.parts.zswap.was_enabled |= settings.enabled;
        if settings.enabled && policy::takes(&f, order) && self.has_room_in_zswap(id) && self.store_pages(id)
        {
            return true;
        }
        let zswap = &mut self.parts.zswap;
        let is_at_limit = zswap.pool.pages() >= settings.max_pages(zswap.managed);
        zswap.wants_shrinking |=
            settings.enabled && policy::asks_for_writeback(&f, is_at_limit, zswap.is_full);
        // What was stored of it before is out of date.
        self.parts.swap_entries(id).for_each(|swap| self.parts.zswap_invalidate(swap));
        self.zswap_free_emptied();
        false
    }

    /// Whether the limits of a folio's memory cgroup and of the pool let it in (`obj_cgroup_may_zswap`, `zswap_check_limits`).
    fn has_room_in_zswap(&mut self, id: FolioId) -> bool {
        let memcg = self.parts.lrus.memcg_of(id);
        let makes_room = policy::makes_room_in_memcg(&self.on.features.zswap);
        if !(self.may_zswap(memcg) || makes_room && self.shrink_zswap_of(memcg).is_ok()) {
            return false;
        }
        let zswap = &mut self.parts.zswap;
        zswap.is_full = self.on.settings.zswap.is_full(zswap.pool.pages(), zswap.managed, zswap.is_full);
        !zswap.is_full
    }

    /// Whether a memory cgroup and all above it are below `memory.zswap.max`.
    fn may_zswap(&self, memcg: Memcg) -> bool {
        self.parts.lrus.memcgs.and_above(memcg).all(|above| {
            let group = self.parts.lrus.memcgs.get(above);
            let pages = group.zswap_bytes / self.parts.zswap.page_bytes;
            group.zswap_max == UNLIMITED || pages < group.zswap_max
        })
    }

    /// Stores the pages of a folio one after the other.
    fn store_pages(&mut self, id: FolioId) -> bool {
        let Some(compressor) = self.parts.zswap.compressor else { return false };
        let (f, page) = (self.on.features.zswap, self.parts.zswap.page_bytes as u32);
        let lruvec = self.parts.lrus.folios[id].lruvec;
        let writes_back = self.parts.lrus.memcgs.zswap_writes_back(self.parts.lrus.lruvecs[lruvec].memcg);
        for swap in self.parts.swap_entries(id) {
            let known = self.parts.zswap.lengths.get(swap as usize).copied();
            let known = known.unwrap_or(compressor.bytes);
            let length = policy::length_of_content(&self.on.features.folios, known);
            let charged = if length == 0 { self.on.machine.costs.page_miss } else { compressor.compress };
            self.on.machine.charge(self.on.cpu, Category::Zswap, charged);
            let Some(length) = policy::stored_length(&f, length, page, writes_back) else {
                return false;
            };
            self.parts.zswap_invalidate(swap);
            if !self.store_page(swap, lruvec, length) {
                return false;
            }
        }
        self.on.counters.add(Event::Zswpout, self.parts.lrus.folios.flags[id].nr_pages());
        true
    }

    /// Puts a compressed page into the pool, if there is memory for it (`zs_malloc`).
    fn store_page(&mut self, swap: SwapEntry, lruvec: LruvecId, length: u32) -> bool {
        let zspage = match length {
            0 => None,
            _ => match self.parts.zswap.pool.put(length.into()) {
                Some(zspage) => Some(zspage),
                None => {
                    let wanted = self.parts.zswap.pool.pages_for(length.into());
                    let Some(frames) = self.alloc_zspage(wanted, lruvec) else { return false };
                    Some(self.parts.zswap.pool.put_into(length.into(), frames))
                }
            },
        };
        let entry = Entry {
            length,
            zspage,
            lruvec,
            turn: 0,
            referenced: policy::has_second_chance(&self.on.features.zswap),
        };
        let zswap = &mut self.parts.zswap;
        if zswap.entries.len() <= swap as usize {
            zswap.entries.resize(swap as usize + 1, None);
        }
        zswap.entries[swap as usize] = Some(entry);
        zswap.stored += 1;
        if zspage.is_some() {
            zswap.rotate(swap);
            let list = zswap.list_mut(lruvec);
            let on_list = list.entries.len() as u64;
            list.protected = policy::protected_after_store(&self.on.features.zswap, list.protected, on_list);
        }
        let memcg = self.parts.lrus.lruvecs[lruvec].memcg;
        self.parts.lrus.memcgs.charge_zswap(memcg, 1, length.into(), self.parts.zswap.page_bytes);
        true
    }

    /// Frames for a zspage on the node of the page to be stored, or none (`alloc_zspage`).
    fn alloc_zspage(&mut self, wanted: u64, lruvec: LruvecId) -> Option<Vec<Pfn>> {
        let placement = Placement::Prefer(self.parts.lrus.lruvecs[lruvec].node);
        let request =
            Request { effort: Effort::OF_RECLAIM, ..Request::new(0, MigrateType::Movable, placement) };
        let mut frames = Vec::new();
        for _ in 0..wanted {
            match self.alloc(&request) {
                Some(pfn) => frames.push(pfn),
                None => {
                    self.free_singles(&frames);
                    return None;
                }
            }
        }
        Some(frames)
    }

    /// Fills a page from zswap, if its entry is there. Returns whether it was (`zswap_load`).
    pub(crate) fn zswap_load(&mut self, id: FolioId, swap: SwapEntry, path: SwapInPath) -> bool {
        let Some(&Entry { length, .. }) = self.parts.zswap.entry(swap) else { return false };
        let cost = match (length, self.parts.zswap.compressor) {
            (1.., Some(compressor)) => compressor.decompress,
            _ => self.on.machine.costs.clear(1),
        };
        self.on.machine.charge(self.on.cpu, Category::Zswap, cost);
        let cost = self.on.machine.costs.paging().swap_in;
        self.on.machine.charge(self.on.cpu, Category::PageFault, cost);
        self.on.counters.add(Event::Zswpin, 1);
        if policy::leaves_pool(&self.on.features.zswap, path) {
            self.parts.zswap_invalidate(swap);
            self.zswap_free_emptied();
            // There is no other copy of it now.
            self.parts.lrus.folios.flags[id].set(FolioFlags::DIRTY);
        }
        true
    }

    /// Notes that a page had to be read from the device, which protects entries from the shrinker (`zswap_folio_swapin`).
    pub(crate) fn note_swapin_from_device(&mut self, id: FolioId) {
        if self.parts.zswap.was_enabled() && policy::counts_swapins(&self.on.features.zswap) {
            let lruvec = self.parts.lrus.folios[id].lruvec;
            self.parts.zswap.list_mut(lruvec).protected += 1;
        }
    }

    /// Frees the frames of zspages that became empty.
    pub(crate) fn zswap_free_emptied(&mut self) {
        if !self.parts.zswap.emptied.is_empty() {
            let frames = std::mem::take(&mut self.parts.zswap.emptied);
            self.free_singles(&frames);
        }
    }
}

impl Zswap {
    /// Takes an entry out of the pool. Returns it, if there was one (`zswap_entry_free`).
    fn take(&mut self, swap: SwapEntry) -> Option<Entry> {
        let entry = self.entries.get_mut(swap as usize)?.take()?;
        self.stored -= 1;
        if let Some(zspage) = entry.zspage {
            self.list_mut(entry.lruvec).entries.remove(&entry.turn);
            self.emptied.extend(self.pool.free(zspage));
        }
        Some(entry)
    }
}

impl Parts {
    /// Forgets what zswap has of a swap entry (`zswap_invalidate`). Pages of the pool that are free then are freed by
    /// [`Kernel::zswap_free_emptied`].
    pub(crate) fn zswap_invalidate(&mut self, swap: SwapEntry) {
        if let Some(entry) = self.zswap.take(swap) {
            let memcg = self.lrus.lruvecs[entry.lruvec].memcg;
            self.lrus.memcgs.charge_zswap(memcg, -1, -i64::from(entry.length), self.zswap.page_bytes);
        }
    }

    /// Panics unless lists, pool and stored pages agree. Returns the pages charged to each memory cgroup, and those of the pool.
    pub(crate) fn validate_zswap(&self) -> (Vec<u64>, u64) {
        let mut bytes = vec![0; self.lrus.memcgs.len()];
        let (mut stored, mut objects, mut listed) = (0, 0, 0);
        for (swap, entry) in (0..).zip(&self.zswap.entries) {
            let Some(entry) = entry else { continue };
            let memcg = self.lrus.lruvecs[entry.lruvec].memcg;
            bytes[memcg.index()] += u64::from(entry.length);
            stored += 1;
            objects += u64::from(entry.zspage.is_some());
            if entry.zspage.is_some() {
                listed += 1;
                assert_eq!(
                    self.zswap.lists[usize::from(entry.lruvec.0)].entries.get(&entry.turn),
                    Some(&swap)
                );
            }
            assert!(self.swap.is_used(swap), "swap entry {swap} is in zswap");
        }
        let lists: usize = self.zswap.lists.iter().map(|list| list.entries.len()).sum();
        assert_eq!((lists, stored), (listed, self.zswap.stored), "entries on lists, and stored");
        self.zswap.pool.validate(objects);
        let page = self.zswap.page_bytes;
        let charged = bytes.iter().map(|bytes: &u64| bytes.div_ceil(page)).collect();
        for memcg in (0..bytes.len()).rev() {
            let group = self.lrus.memcgs.get(Memcg(memcg as u16));
            assert_eq!(group.zswap_bytes, bytes[memcg], "zswap of group {memcg}");
            if let Some(parent) = group.parent {
                bytes[parent.index()] += bytes[memcg];
            }
        }
        (charged, self.zswap.pool.pages() + self.zswap.emptied.len() as u64)
    }
}
