//! Zones: ranges of a node's memory, each with its own free lists, lock, watermarks and pagesets.
//!
//! ```text
//!   node 0   │ DMA │ DMA32 │ Normal ............│       requests have a highest zone;
//!   node 1   │ Normal ..........................│       higher zones are used first, and each zone has
//!                                                       a reserve against requests that could go higher
//!   zone  ── Buddy (free blocks)  ── lock
//!         ── PerCpuPages × CPUs   ── private to each CPU, or locked by a CPU that drains it
//!         ── NR_FREE_PAGES, split into a global part and small per-CPU differences
//!
//!   span      │ managed ................ │ memmap │    struct pages of the node's memory, reserved at boot,
//!                                                    behind its last zone; freed frames become managed
//! ```
//!
//! In the kernel: `struct zone` in include/linux/mmzone.h; `rmqueue_bulk`, `free_pcppages_bulk`,
//! `zone_set_pageset_high_and_batch`, `free_reserved_page`, `alloc_contig_pages` in mm/page_alloc.c; `__mod_zone_page_state` in mm/vmstat.c.

use crate::account::Category;
use crate::allocator::buddy::{BoostContext, Buddy, FallbackOutcome, Mode, Visit, Wanted};
use crate::allocator::compaction::CompactState;
use crate::allocator::memory_map::{MemoryRange, ZoneType};
use crate::allocator::page::{Geometry, MigrateType, Pfn};
use crate::allocator::pcp::policy::{
    self as pcp_policy, Accounting, BulkFree, Expiry, Pageset, TypeOf, ZonePressure,
};
use crate::allocator::pcp::{Decayed, DrainedBlock, PerCpuPages, ZoneSize, is_order_allowed, list_index};
use crate::allocator::policy;
use crate::allocator::watermark::{self, Mark, Reserves};
use crate::counters::Event;
use crate::decisions::PcpDecisions;
use crate::features::Features;
use crate::on_cpu::OnCpu;
use crate::sysctl::Settings;
use machine::{Cpu, Machine, Node, SpinLock, Time};
use std::ops::Range;

/// Cache lines of `struct zone` that a path under the lock writes besides the lock's: the order-0 free
/// area, the counters and the pageblock bits (layout of struct zone, include/linux/mmzone.h).
const ZONE_LINES: u64 = 3;

/// A zone (`struct zone`).
#[derive(Clone, Debug)]
pub struct Zone {
    pub kind: ZoneType,
    pub node: Node,
    /// First to last page, holes included (`spanned_pages`).
    pub spanned: Range<Pfn>,
    /// Number of spanned pages that exist (`present_pages`).
    pub present: u64,
    /// Number of pages that the allocator was given (`managed_pages`).
    pub managed: u64,
    /// Free blocks, protected by `lock`.
    pub buddy: Buddy,
    /// `zone->lock`.
    pub lock: SpinLock,
    /// The pageset of each CPU.
    pub pagesets: Vec<PerCpuPages>,
    /// `ZONE_RECLAIM_ACTIVE` and `ZONE_BELOW_HIGH`.
    pub pressure: ZonePressure,
    /// The watermarks were boosted and kswapd has yet to be woken for it (`ZONE_BOOSTED_WATERMARK`).
    pub boosted: bool,
    /// Watermarks in pages without boost, by [`Mark`].
    pub marks: [u64; 4],
    /// Pages withheld from requests that could use a higher zone, by the highest zone they may use.
    pub lowmem_reserve: [u64; ZoneType::COUNT],
    /// `pageset_high_min`.
    pub high_min: i32,
    /// `pageset_high_max`.
    pub high_max: i32,
    /// `pageset_batch`.
    pub batch: i32,
    /// Drift in pages from which a CPU's counter is folded into the zone's.
    pub stat_threshold: i32,
    /// State that compaction keeps between runs.
    pub compaction: CompactState,
    /// Pages of the pageblocks reserved for high-atomic allocations.
    pub nr_reserved_highatomic: u64,
    memmap: Range<Pfn>,
    nr_free: i64,
    nr_free_diffs: Vec<i32>,
    /// Until when another CPU holds each pageset's lock.
    remote_holds: Vec<Time>,
    scratch: Vec<DrainedBlock>,
}

impl Zone {
    /// A zone after boot, with the memmap behind the free pages. Watermarks are unset, pagesets too until
    /// [`Zone::configure_pagesets`].
    pub fn new(geometry: Geometry, range: &MemoryRange, cpus: usize, number: u32) -> Zone {
        let MemoryRange { node, kind, spanned, present, managed, free, memmap } = range.clone();
        let end = if memmap.is_empty() { free.end } else { memmap.end };
        let buddy = Buddy::new(geometry, free, end);
        let pageset = PerCpuPages::new(Pageset { batch: 1, ..Pageset::default() }, geometry.pageblock_order);
        Zone {
            kind,
            node,
            spanned,
            present,
            managed,
            memmap,
            nr_free: buddy.free_pages() as i64,
            buddy,
            lock: SpinLock::numbered(number),
            pagesets: vec![pageset; cpus],
            pressure: ZonePressure::default(),
            boosted: false,
            marks: [0; 4],
            lowmem_reserve: [0; ZoneType::COUNT],
            high_min: 0,
            high_max: 0,
            batch: 1,
            stat_threshold: 0,
            compaction: CompactState::default(),
            nr_reserved_highatomic: 0,
            nr_free_diffs: vec![0; cpus],
            remote_holds: vec![Time::ZERO; cpus],
            scratch: Vec::new(),
        }
    }

    /// The page frames that boot reserved for the struct pages of the node's memory; empty except in the
    /// node's last zone.
    pub fn memmap(&self) -> Range<Pfn> {
        self.memmap.clone()
    }

    /// Recomputes `batch` and the bounds of `high`, as at boot, after a sysctl write or CPU hotplug.
    pub fn configure_pagesets(
        &mut self,
        f: &Features,
        decisions: &PcpDecisions,
        settings: &Settings,
        local_cpus: u64,
        online_cpus: u64,
    ) {
        let fraction = settings.percpu_pagelist_high_fraction;
        let page_size = self.buddy.geometry().page_size;
        let low = self.wmark(Mark::Low);
        let size = ZoneSize { page_size, managed: self.managed, low, local_cpus, online_cpus };
        let batch = decisions.zone_batchsize(page_size, self.managed);
        let (high_min, high_max) = decisions.high_bounds(f, &size, fraction, batch);
        self.set_pagesets(f, batch, high_min, high_max);
    }

    /// Sets the batch and bounds of all pagesets.
    pub fn set_pagesets(&mut self, f: &Features, batch: i32, high_min: i32, high_max: i32) {
        (self.batch, self.high_min, self.high_max) = (batch, high_min, high_max);
        for pageset in &mut self.pagesets {
            pcp_policy::set_bounds(&mut pageset.tuning, f, batch, high_min, high_max);
        }
    }

    /// A watermark in pages, boost included.
    #[inline]
    pub fn wmark(&self, mark: Mark) -> u64 {
        self.marks[mark as usize] + self.buddy.watermark_boost
    }

    /// `NR_FREE_PAGES` as other CPUs read it: without the per-CPU differences that are not folded yet.
    #[inline]
    pub fn free_pages(&self) -> i64 {
        self.nr_free.max(0)
    }

    /// Whether `pages` more movable pages can be allocated with the zone staying above `mark`
    /// (`zone_watermark_ok`).
    pub(crate) fn has_room(&self, f: &Features, mark: Mark, pages: u64) -> bool {
        let free = self.free_pages() - self.kept_highatomic(f) as i64;
        let reserve = self.lowmem_reserve[ZoneType::Movable as usize];
        watermark::is_above(free, self.wmark(mark) + pages, reserve, Reserves::default())
    }

    /// `NR_FREE_PAGES` including all per-CPU differences.
    pub fn exact_free_pages(&self) -> i64 {
        self.nr_free + self.nr_free_diffs.iter().map(|&d| i64::from(d)).sum::<i64>()
    }

    pub fn pages_in_pagesets(&self) -> u64 {
        self.pagesets.iter().map(|p| p.tuning.count as u64).sum()
    }

    #[inline]
    fn account_free(&mut self, cpu: Cpu, pages: i32) {
        let diff = &mut self.nr_free_diffs[cpu.index()];
        *diff += pages;
        if diff.abs() > self.stat_threshold {
            self.nr_free += i64::from(*diff);
            *diff = 0;
        }
    }

    /// Folds `cpu`'s difference into `NR_FREE_PAGES`. Returns whether there was one.
    pub fn fold(&mut self, cpu: Cpu) -> bool {
        let diff = std::mem::take(&mut self.nr_free_diffs[cpu.index()]);
        self.nr_free += i64::from(diff);
        diff != 0
    }

    /// Whether allocating a block of `order` leaves the zone above `mark` (`zone_watermark_fast`,
    /// `zone_watermark_ok`).
    #[inline]
    pub fn is_above(
        &self,
        f: &Features,
        mark: Mark,
        order: u8,
        highest: ZoneType,
        reserves: Reserves,
    ) -> bool {
        let free = self.free_pages();
        let reserved = if reserves == Reserves::default() { self.kept_highatomic(f) } else { 0 };
        let unusable = (1i64 << order) - 1 + reserved as i64;
        let reserve = self.lowmem_reserve[highest as usize];
        let enough = watermark::is_above(free - unusable, self.wmark(mark), reserve, reserves)
            // A boost does not hold back an order-0 request that may use the reserve.
            || (order == 0 && mark == Mark::Min && reserves.min_reserve
                && watermark::is_above(free - unusable, self.marks[Mark::Min as usize], reserve, reserves));
        enough && (order == 0 || self.buddy.has_block(order))
    }

    /// Pages of high-atomic pageblocks that other requests cannot have.
    pub(crate) fn kept_highatomic(&self, f: &Features) -> u64 {
        policy::kept_for_atomic(f, self.nr_reserved_highatomic, || self.free_highatomic())
    }

    fn free_highatomic(&self) -> u64 {
        if self.nr_reserved_highatomic == 0 {
            return 0;
        }
        (0..=self.buddy.geometry().max_page_order)
            .map(|o| self.buddy.nr_free_of(o, MigrateType::HighAtomic) << o)
            .sum()
    }

    /// Whether free pages exceed the high watermark and all reserves, so that no watermark test can fail.
    #[inline]
    pub fn is_plentiful(&self, highest: ZoneType) -> bool {
        let slack = self.nr_reserved_highatomic + self.lowmem_reserve[highest as usize];
        self.free_pages() as u64 > self.wmark(Mark::High) + slack
    }

    /// Cost of a section under the lock before it touches any page.
    fn section_cost(&self, machine: &Machine<Category>, cpu: Cpu) -> Time {
        machine.costs.lock_section + self.lock.line_to(machine, cpu) * ZONE_LINES
    }

    fn boost_context(&self, settings: &Settings) -> BoostContext {
        BoostContext {
            boost_factor: settings.watermark_boost_factor,
            high: self.marks[Mark::High as usize],
            managed: self.managed,
        }
    }

    /// Whether another CPU is draining `cpu`'s pageset now, so that a trylock of it fails.
    #[inline]
    pub fn pageset_is_held(&self, cpu: Cpu, now: Time) -> bool {
        self.remote_holds[cpu.index()] > now
    }

    /// Allocates one block through the CPU's pageset, refilling its list from the zone if it is empty.
    pub fn alloc_through_pageset(&mut self, on: &mut OnCpu, wanted: Wanted) -> Option<Pfn> {
        let f = on.features;
        let Wanted { order, migrate_type, .. } = wanted;
        let index = list_index(f, order, migrate_type);
        pcp_policy::note_alloc(&mut self.pagesets[on.cpu.index()].tuning, f);
        if let Some(pfn) = self.pagesets[on.cpu.index()].take(f, index, order) {
            return Some(pfn);
        }
        let tuning = &mut self.pagesets[on.cpu.index()].tuning;
        let blocks = on.decisions.pcp.nr_pcp_alloc(tuning, f, self.pressure, order);
        let got = self.refill(on, wanted, blocks as usize);
        let pageset = &mut self.pagesets[on.cpu.index()];
        pageset.note_refilled(got, order);
        pageset.take(f, index, order)
    }

    /// Moves up to `blocks` blocks to the tail of the CPU's list under one hold of the lock (`rmqueue_bulk`).
    /// Returns how many.
    #[inline(never)]
    fn refill(&mut self, on: &mut OnCpu, wanted: Wanted, blocks: usize) -> usize {
        let f = on.features;
        let Wanted { order, migrate_type, .. } = wanted;
        let index = list_index(f, order, migrate_type);
        let context = self.boost_context(on.settings);
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut outcome = FallbackOutcome::default();
        let mut mode = Mode::default();
        let mut visit = Visit::new(on.machine, on.cpu);
        let list = self.pagesets[on.cpu.index()].list_mut(index);
        let mut got = 0;
        while got < blocks {
            if mode == Mode::Normal {
                let run = self.buddy.take_run(order, migrate_type, blocks - got, &mut visit, list);
                got += run;
                if run > 0 {
                    continue;
                }
            }
            let Some(pfn) =
                self.buddy.take_or_fall_back(f, wanted, &mut mode, &context, &mut outcome, &mut visit)
            else {
                break;
            };
            list.push_back(pfn);
            got += 1;
        }
        let hold = section + on.machine.costs.list_take * got as u64 + visit.cost;
        match pcp_policy::refill_accounting(f) {
            Accounting::EachBlock => (0..got).for_each(|_| self.account_free(on.cpu, -(1 << order))),
            Accounting::Once => self.account_free(on.cpu, -((got as i32) << order)),
        }
        let hold = on.latencies.take_section(hold, on.machine.costs.take_spread);
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        on.counters.add(Event::PcpRefills, 1);
        on.counters.add(Event::PcpRefilledPages, (got as u64) << order);
        on.note_fallback(self, outcome);
        got
    }

    /// Allocates one block from the buddy lists (`rmqueue_buddy`).
    #[inline(never)]
    pub fn alloc_direct(&mut self, on: &mut OnCpu, wanted: Wanted, high_atomic: bool) -> Option<Pfn> {
        let order = wanted.order;
        let context = self.boost_context(on.settings);
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut outcome = FallbackOutcome::default();
        let mut visit = Visit::new(on.machine, on.cpu);
        let reserved =
            if high_atomic { self.buddy.take(order, MigrateType::HighAtomic, &mut visit) } else { None };
        let pfn = reserved.or_else(|| {
            self.buddy.take_or_fall_back(
                on.features,
                wanted,
                &mut Mode::default(),
                &context,
                &mut outcome,
                &mut visit,
            )
        });
        let hold = section + on.machine.costs.list_take + visit.cost;
        if pfn.is_some() {
            self.account_free(on.cpu, -(1 << order));
            on.counters.add(Event::ZoneDirectAllocPages, 1 << order);
        }
        let hold = on.latencies.take_section(hold, on.machine.costs.take_spread);
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        on.note_fallback(self, outcome);
        if let Some(pfn) = pfn
            && high_atomic
        {
            self.reserve_highatomic(on, pfn, order);
        }
        pfn
    }

    /// Reserves the pageblocks of a block for high-atomic allocations, up to 1 % of the zone
    /// (`reserve_highatomic_pageblock`).
    fn reserve_highatomic(&mut self, on: &mut OnCpu, pfn: Pfn, order: u8) {
        let block = u64::from(self.buddy.geometry().pageblock_nr_pages());
        let most = (self.managed / 100).next_multiple_of(block);
        if self.managed / 100 < block
            || self.nr_reserved_highatomic >= most
            || !self.buddy.block_type(pfn).is_mergeable()
        {
            return;
        }
        let mut visit = Visit::new(on.machine, on.cpu);
        let order = policy::set_aside_order(on.features, order);
        self.nr_reserved_highatomic +=
            self.buddy.retag_blocks(pfn, order, MigrateType::HighAtomic, &mut visit);
    }

    /// Returns one high-atomic pageblock to ordinary use. Returns whether there was one
    /// (`unreserve_highatomic_pageblock`).
    pub fn unreserve_highatomic(&mut self, on: &mut OnCpu, migrate_type: MigrateType) -> bool {
        let Some((pfn, order)) = self.buddy.first_highatomic() else { return false };
        let mut visit = Visit::new(on.machine, on.cpu);
        let pages = self.buddy.retag_blocks(pfn, order, migrate_type, &mut visit);
        // Without strict free lists, a free block may extend beyond the pageblocks that were counted.
        self.nr_reserved_highatomic = self.nr_reserved_highatomic.saturating_sub(pages);
        true
    }

    /// Frees a block through the CPU's pageset, or to the buddy lists if pagesets do not keep its order or
    /// the pageset is locked (`__free_frozen_pages`).
    pub fn free(&mut self, on: &mut OnCpu, pfn: Pfn, order: u8) {
        if is_order_allowed(order, self.buddy.geometry().pageblock_order)
            && !self.pageset_is_held(on.cpu, on.machine.now(on.cpu))
        {
            self.free_through_pageset(on, pfn, order);
        } else {
            self.free_direct(on, pfn, order);
        }
    }

    /// Gives a frame of [`Zone::memmap`] that no longer holds struct pages to the allocator, which manages it
    /// from now on. Watermarks do not change (`free_bootmem_page`, `free_reserved_page`).
    pub fn free_reserved(&mut self, on: &mut OnCpu, pfn: Pfn) {
        debug_assert!(self.memmap.contains(&pfn), "page {pfn} was not reserved at boot");
        self.managed += 1;
        self.free(on, pfn, 0);
    }

    /// Takes an aligned range of 2^order free pages after draining all pagesets of the zone; see
    /// [`Kernel::alloc_contig`](crate::kernel::Kernel::alloc_contig).
    pub fn alloc_contig(&mut self, on: &mut OnCpu, order: u8) -> Option<Pfn> {
        if self.buddy.runs(order).is_empty() {
            return None;
        }
        for owner in on.machine.topology.all_cpus() {
            self.drain_pageset(on, owner);
        }
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut visit = Visit::new(on.machine, on.cpu);
        let taken = self.buddy.take_contiguous(order, &mut visit);
        let blocks = taken.map_or(0, |(_, blocks)| blocks);
        let hold = section + on.machine.costs.list_take * blocks + visit.cost;
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        let (pfn, _) = taken?;
        self.account_free(on.cpu, -(1 << order));
        on.counters.add(Event::ZoneDirectAllocPages, 1 << order);
        Some(pfn)
    }

    /// Takes an aligned range of 2^order pages before any other allocation. Its pages count as managed and
    /// allocated, as they do in the kernel once the pool has them.
    pub fn alloc_at_boot(&mut self, order: u8) -> Option<Pfn> {
        let pfn = self.buddy.take_at_boot(order)?;
        self.nr_free -= 1i64 << order;
        Some(pfn)
    }

    /// Frees a range of 2^order pages one pageblock at a time, under one hold of the lock.
    pub fn free_contig(&mut self, on: &mut OnCpu, pfn: Pfn, order: u8) {
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut visit = Visit::new(on.machine, on.cpu);
        self.buddy.put_contiguous(pfn, order, &mut visit);
        let blocks = 1u64 << (order - self.buddy.geometry().pageblock_order);
        let hold = section + on.machine.costs.list_put * blocks + visit.cost;
        self.account_free(on.cpu, 1 << order);
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        on.counters.add(Event::ZoneDirectFreePages, 1 << order);
    }

    /// Frees a block through the CPU's pageset, and does the bulk free if one is due.
    pub fn free_through_pageset(&mut self, on: &mut OnCpu, pfn: Pfn, order: u8) {
        let f = on.features;
        let index = list_index(f, order, self.buddy.block_type(pfn));
        let pageset = &mut self.pagesets[on.cpu.index()];
        let due = pageset.put(f, &on.decisions.pcp, self.pressure, index, order, pfn);
        let Some(BulkFree { pages, portion, free_high }) = due else { return };
        on.counters.add(if free_high { Event::PcpFreeHighDrains } else { Event::PcpHighDrains }, 1);
        self.give_back_in_portions(on, pages, portion, index);
        if policy::retests_high(f, self.pressure)
            && self.is_above(f, Mark::High, 0, ZoneType::Movable, Reserves::default())
        {
            self.pressure.below_high = false;
        }
    }

    /// Moves `pages` pages of the CPU's pageset back to the zone, in portions with a hold of the lock each.
    fn give_back_in_portions(&mut self, on: &mut OnCpu, pages: i32, portion: i32, first_list: usize) {
        for pages in pcp_policy::portions(pages, portion) {
            if self.pagesets[on.cpu.index()].tuning.count > 0 {
                self.give_back(on, on.cpu, pages, first_list);
            }
        }
    }

    /// Moves pages of `owner`'s pageset back to the zone under one hold of the lock (`free_pcppages_bulk`).
    fn give_back(&mut self, on: &mut OnCpu, owner: Cpu, pages: i32, first_list: usize) {
        let f = on.features;
        let mut blocks = std::mem::take(&mut self.scratch);
        self.pagesets[owner.index()].take_for_zone(f, pages, first_list, &mut blocks);
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut visit = Visit::new(on.machine, on.cpu);
        let mut given = 0;
        let pageblock_order = self.buddy.geometry().pageblock_order;
        // A chunk is small enough that its prefetched records are still in the host's cache when they are
        // used.
        for chunk in blocks.chunks(32) {
            chunk.iter().for_each(|block| self.buddy.prefetch_put(block.pfn));
            chunk.iter().for_each(|block| self.buddy.prefetch_merge(block.pfn, block.order));
            for block in chunk {
                let migrate_type = match pcp_policy::type_on_bulk_free(f, block.order, pageblock_order) {
                    TypeOf::Pageblock => self.buddy.block_type(block.pfn),
                    TypeOf::PagesetList => block.list_type,
                };
                self.buddy.put(block.pfn, block.order, migrate_type, &mut visit);
                given += 1u64 << block.order;
            }
        }
        let hold = section + on.machine.costs.list_put * blocks.len() as u64 + visit.cost;
        for block in &blocks {
            self.account_free(on.cpu, 1 << block.order);
        }
        blocks.clear();
        self.scratch = blocks;
        let hold = on.latencies.put_section(hold, on.machine.costs.put_spread);
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        on.counters.add(Event::PcpDrainedPages, given);
    }

    /// Frees a block to the buddy lists (`free_one_page`).
    pub fn free_direct(&mut self, on: &mut OnCpu, pfn: Pfn, order: u8) {
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let migrate_type = self.buddy.block_type(pfn);
        let mut visit = Visit::new(on.machine, on.cpu);
        self.buddy.put(pfn, order, migrate_type, &mut visit);
        let hold = section + on.machine.costs.list_put + visit.cost;
        self.account_free(on.cpu, 1 << order);
        let hold = on.latencies.put_section(hold, on.machine.costs.put_spread);
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        on.counters.add(Event::ZoneDirectFreePages, 1 << order);
    }

    /// Takes the free blocks of the pageblock at `start` off the buddy lists, as targets for compaction.
    pub(crate) fn isolate_free_blocks(&mut self, on: &mut OnCpu, start: Pfn) -> Vec<(Pfn, u8)> {
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut visit = Visit::new(on.machine, on.cpu);
        let taken = self.buddy.isolate_block(start, &mut visit);
        let hold = section + on.machine.costs.list_take * taken.len() as u64 + visit.cost;
        taken.iter().for_each(|&(_, order)| self.account_free(on.cpu, -(1 << order)));
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
        taken
    }

    /// Frees blocks to the buddy lists under one hold of the lock.
    pub(crate) fn release_free_blocks(&mut self, on: &mut OnCpu, blocks: impl Iterator<Item = (Pfn, u8)>) {
        let section = self.section_cost(on.machine, on.cpu);
        self.lock.acquire(on.machine, on.cpu, Category::ZoneLockWait);
        let mut visit = Visit::new(on.machine, on.cpu);
        let mut released = 0;
        for (pfn, order) in blocks {
            let migrate_type = self.buddy.block_type(pfn);
            self.buddy.put(pfn, order, migrate_type, &mut visit);
            let diff = &mut self.nr_free_diffs[on.cpu.index()];
            *diff += 1 << order;
            released += 1;
        }
        let hold = section + on.machine.costs.list_put * released + visit.cost;
        self.account_free(on.cpu, 0);
        self.lock.hold(on.machine, on.cpu, hold, Category::ZONE_LOCK);
    }

    /// One tick of the CPU's vmstat worker for this zone (`refresh_cpu_vm_stats`): folds counters, lowers
    /// `high`, and drains a remote pageset that was unused for [`pcp_policy::EXPIRE_TICKS`] ticks. Returns
    /// whether the worker has to return.
    pub fn vmstat_tick(&mut self, on: &mut OnCpu) -> bool {
        let f = on.features;
        let folded = self.fold(on.cpu);
        if folded {
            self.pagesets[on.cpu.index()].tuning.expire = pcp_policy::EXPIRE_TICKS;
        }
        let Decayed { pages, portion, more } =
            on.decisions.pcp.decay(&mut self.pagesets[on.cpu.index()].tuning, f);
        if pages > 0 {
            let before = self.pagesets[on.cpu.index()].tuning.count;
            self.give_back_in_portions(on, pages, portion, 0);
            let given = before - self.pagesets[on.cpu.index()].tuning.count;
            on.counters.add(Event::PcpDecayedPages, given as u64);
        }
        pcp_policy::note_decayed(&mut self.pagesets[on.cpu.index()].tuning, f);
        let local = on.machine.node(on.cpu) == self.node;
        let expiry = pcp_policy::expire(&mut self.pagesets[on.cpu.index()].tuning, f, local);
        if let Expiry::Drains(pages) = expiry {
            self.give_back(on, on.cpu, pages, 0);
        }
        folded || more || expiry != Expiry::None
    }

    /// Whether a vmstat tick on `cpu` would do anything in this zone.
    pub fn has_vmstat_work(&self, cpu: Cpu) -> bool {
        let p = &self.pagesets[cpu.index()].tuning;
        self.nr_free_diffs[cpu.index()] != 0 || p.high > p.high_min || p.count > p.high || p.expire > 0
    }

    /// Checks the invariants of the zone and panics with the one that is broken.
    pub fn validate(&self, f: &Features) {
        self.buddy.validate(f);
        assert_eq!(
            self.exact_free_pages() as u64,
            self.buddy.free_pages(),
            "NR_FREE_PAGES and free lists disagree"
        );
        for pageset in &self.pagesets {
            let p = &pageset.tuning;
            assert_eq!(p.count, pageset.counted(f), "count and lists disagree");
            assert!(p.alloc_factor <= pcp_policy::BATCH_SCALE_MAX, "alloc_factor {}", p.alloc_factor);
            let most =
                (p.batch << pcp_policy::BATCH_SCALE_MAX) + (1 << self.buddy.geometry().pageblock_order);
            assert!((0..=most).contains(&p.free_count), "free_count {}", p.free_count);
        }
        let gap = self.marks[1] - self.marks[0];
        assert!(self.marks.windows(2).all(|pair| pair[1] - pair[0] == gap), "watermarks are equally spaced");
    }

    /// Drains `owner`'s pageset; this CPU pays (`drain_pages_zone`). Until it is done, trylocks by the owner
    /// fail.
    pub fn drain_pageset(&mut self, on: &mut OnCpu, owner: Cpu) {
        let most = pcp_policy::drain_portion(on.features, self.batch);
        while self.pagesets[owner.index()].tuning.count > 0 {
            let pages = self.pagesets[owner.index()].tuning.count.min(most);
            self.give_back(on, owner, pages, 0);
            if on.cpu != owner {
                self.remote_holds[owner.index()] = on.machine.now(on.cpu);
            }
        }
    }
}

impl OnCpu<'_> {
    fn note_fallback(&mut self, zone: &mut Zone, outcome: FallbackOutcome) {
        self.counters.add(Event::Extfrag, outcome.fallbacks);
        zone.boosted |= outcome.boosted;
    }
}
