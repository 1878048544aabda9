//! Allocation and freeing of page blocks: the path of a request through the zones, and of a page back to its
//! zone.
//!
//! ```text
//!   alloc(order, type, placement)
//!     for each zone of the zonelist, nearest node first, highest zone first:
//!        above HIGH?  ─ yes ─► take from here             (since patch 8; no ─► sets ZONE_BELOW_HIGH)
//!        above LOW?   ─ yes ─► take from here
//!     no zone: wake kswapd, retry with MIN; no zone: compact, reclaim, or fail
//!   take: order 0-3 and 9 through the CPU's pageset, others from the buddy lists
//! ```
//!
//! Single requests go through [`Kernel::alloc`] and [`Kernel::free`]. These may take a zone's lock, so only
//! the CPU that is furthest behind may call them. [`Kernel::alloc_private`] and [`Kernel::free_private`] do
//! many order-0 requests in one go, with the same result, as long as the CPU's own pageset serves them all.
//! Gigantic pages, which are larger than any free block, come from [`Kernel::alloc_contig`] and
//! [`PageAllocator::alloc_at_boot`].
//! In the kernel: `get_page_from_freelist`, `__alloc_pages_slowpath`, `rmqueue`, `free_frozen_pages`,
//! `alloc_contig_pages` and `build_zonelists` in mm/page_alloc.c.

use super::PageAllocator;
use crate::Features;
use crate::allocator::buddy::Wanted;
use crate::allocator::compaction::{self, CompactMode, CompactResult};
use crate::allocator::memory_map::ZoneType;
use crate::allocator::page::{Geometry, Pfn};
use crate::allocator::pcp::{is_order_allowed, list_index};
use crate::allocator::policy;
use crate::allocator::request::{Effort, PAGE_ALLOC_COSTLY_ORDER, Placement, Request};
use crate::allocator::watermark::{Mark, Reserves};
use crate::allocator::zone::Zone;
use crate::counters::Event;
use crate::delayacct::Cause;
use crate::kernel::Kernel;
use crate::on_cpu::OnCpu;
use machine::{Cpu, Node, PageSize};
use std::ops::Range;

/// One pass over the zonelist of a request.
#[derive(Clone, Copy)]
struct Pass {
    /// The watermark that a zone must stay above.
    mark: Mark,
    /// Zones in which the request would mix migrate types within a pageblock are skipped
    /// (`ALLOC_NOFRAGMENT`).
    no_fragment: bool,
    /// Zones that kswapd is reclaiming from are skipped.
    skip_reclaiming: bool,
}

impl OnCpu<'_> {
    /// The node from which a request with this `placement` is served first.
    #[inline]
    pub(crate) fn preferred_node(&self, placement: Placement) -> Node {
        match placement {
            Placement::Local => self.machine.node(self.cpu),
            Placement::Bind(node) | Placement::Prefer(node) => node,
        }
    }
}

impl Kernel<'_> {
    /// The zone that an order-0 request prefers; `None` if another CPU holds this CPU's pageset of it.
    #[inline]
    fn preferred_zone(&self, request: &Request) -> Option<usize> {
        debug_assert_eq!(request.order, 0);
        let node = self.on.preferred_node(request.placement);
        let mut zones = self.parts.allocator.own_zones[node.index()].iter();
        let &preferred = zones.find(|&&z| self.parts.allocator.zones[z].kind <= request.highest)?;
        let held = self.parts.allocator.zones[preferred]
            .pageset_is_held(self.on.cpu, self.on.machine.now(self.on.cpu));
        (!held).then_some(preferred)
    }

    /// Allocates one block. May take locks, so the CPU must be the one furthest behind. `None` if no memory
    /// is left that the request may use.
    pub fn alloc(&mut self, request: &Request) -> Option<Pfn> {
        self.alloc_pages(request).map(|(pfn, _)| pfn)
    }

    /// Like [`Kernel::alloc`], but also returns the zone's index: compaction resets that zone's deferral.
    pub(crate) fn alloc_pages(&mut self, request: &Request) -> Option<(Pfn, usize)> {
        let before = self.on.machine.now(self.on.cpu);
        let node = self.on.preferred_node(request.placement);
        let found = match self.get_page_from_freelist(&request.of_fast_path(), node, Mark::Low) {
            None => self.alloc_slowpath(request, node),
            found => found,
        };
        let waited = self.on.machine.now(self.on.cpu) - before;
        if waited > machine::Time::ZERO {
            self.on.latencies.slow_alloc.saturating_record(waited.picoseconds());
        }
        match found {
            Some((_, zone)) => self.count_alloc(node, zone, 1 << request.order, 1),
            None if self.parts.allocator.needs_resched() => {}
            None => self.on.counters.add(Event::AllocFail, 1),
        }
        found
    }

    /// The slow path of an allocation, entered when no zone is above its low watermark
    /// (`__alloc_pages_slowpath`).
    #[inline(never)]
    fn alloc_slowpath(&mut self, request: &Request, node: Node) -> Option<(Pfn, usize)> {
        if request.effort.wakes {
            self.on.counters.add(Event::KswapdWake, 1);
            self.wake_all_kswapds(request.order, request.highest, request.effort.direct);
        }
        let found = self.get_page_from_freelist(request, node, Mark::Min);
        if found.is_some() || !request.effort.direct {
            return found;
        }
        let costly = request.order > PAGE_ALLOC_COSTLY_ORDER;
        let (found, result) = match costly {
            true => self.compact_and_retry(request, node, CompactMode::Async),
            false => (None, CompactResult::Skipped),
        };
        let in_vain = [CompactResult::Skipped, CompactResult::Deferred].contains(&result);
        if costly && request.effort.no_retry && in_vain {
            return found;
        }
        found.or_else(|| self.reclaim_and_compact(request, node))
    }

    /// Allocates one order-0 page: from the CPU's own pageset if the preferred zone passes its watermark and
    /// the pageset has pages, otherwise as [`Kernel::alloc_pages`] does.
    #[inline]
    pub(crate) fn alloc_single(&mut self, request: &Request) -> Option<(Pfn, usize)> {
        if let Some(z) = self.preferred_zone(request)
            && (self.parts.allocator.zones[z].is_plentiful(request.highest)
                || self.is_first_choice(z, request))
        {
            let f = self.on.features;
            let index = list_index(f, 0, request.migrate_type);
            if let Some(pfn) =
                self.parts.allocator.zones[z].pagesets[self.on.cpu.index()].take_plain_page(f, index)
            {
                self.count_alloc(self.parts.allocator.zones[z].node, z, 1, 1);
                return Some((pfn, z));
            }
        }
        self.alloc_pages(request)
    }

    /// Direct compaction, then another pass over the zonelist (`__alloc_pages_direct_compact`).
    fn compact_and_retry(
        &mut self,
        request: &Request,
        node: Node,
        mode: CompactMode,
    ) -> (Option<(Pfn, usize)>, CompactResult) {
        let zones = self.parts.allocator.zonelist(node, request.placement).iter().copied();
        let zones: Vec<usize> =
            zones.filter(|&z| self.parts.allocator.zones[z].kind <= request.highest).collect();
        let result = self.delays_task(Cause::DirectCompaction, |kernel| {
            kernel.try_to_compact_pages(request, &zones, mode)
        });
        if result == CompactResult::Skipped {
            return (None, result);
        }
        self.on.counters.add(Event::CompactStall, 1);
        let found = self.get_page_from_freelist(request, node, Mark::Min);
        if let Some((_, zone)) = found {
            self.parts.allocator.zones[zone].compaction.deferral.reset(request.order);
        }
        let event = if found.is_some() { Event::CompactSuccess } else { Event::CompactFail };
        self.on.counters.add(event, 1);
        (found, result)
    }

    /// Direct reclaim and direct compaction in turns, until the allocation succeeds, others are to run, or another turn is not worth it: then
    /// pagesets are drained for a last attempt.
    fn reclaim_and_compact(&mut self, request: &Request, node: Node) -> Option<(Pfn, usize)> {
        let nothing_to_reclaim = self.parts.lrus.folios.is_empty()
            && self.parts.address_spaces.nr_huge_zero_pages(self.on.settings) == 0;
        let may_reclaim = !nothing_to_reclaim;
        let (mut result, mut successes) = (CompactResult::Skipped, 0);
        loop {
            let mut found = None;
            let progress = may_reclaim && self.try_to_free_pages(request, node) > 0;
            if progress {
                found = self.get_page_from_freelist(request, node, Mark::Min);
                // A kernel drains for single pages too, after 23 to 81 % of direct reclaims as recorded (6.1 to 6.18). Here it would be
                // nearly all of them on a full host from 6.12 on; why is not known.
                if found.is_none() && request.order > 0 {
                    found = self.drain_and_retry(request, node);
                }
            }
            if found.is_none() && request.order > 0 {
                (found, result) = self.compact_and_retry(request, node, CompactMode::SyncLight);
                successes += u32::from(result == CompactResult::Success);
            }
            if found.is_some() {
                return found;
            }
            if !progress || !self.should_retry(request, node, result, successes) {
                return self.drain_and_retry(request, node);
            }
            if request.effort.of_fault && self.parts.allocator.lets_faults_reschedule {
                self.parts.allocator.need_resched = true;
                return None;
            }
        }
    }

    /// Whether an allocation goes on after direct reclaim made progress and compaction came to `result`, the `successes`th time
    /// to success (`should_reclaim_retry`, `should_compact_retry`).
    fn should_retry(&self, request: &Request, node: Node, result: CompactResult, successes: u32) -> bool {
        match request.order > PAGE_ALLOC_COSTLY_ORDER {
            _ if request.effort.no_retry => false,
            false => true,
            true => {
                request.effort.retry_may_fail
                    && compaction::policy::is_worth_a_retry(result, successes, || {
                        self.compaction_zonelist_suitable(request, node)
                    })
            }
        }
    }

    /// Whether some zone would be suitable for compaction if reclaim freed what it can (`compaction_zonelist_suitable`). Reclaimable pages
    /// are not counted by zone: those of its node are taken.
    fn compaction_zonelist_suitable(&self, request: &Request, node: Node) -> bool {
        let zones = self.parts.allocator.zonelist(node, request.placement).iter();
        let mut zones = zones
            .map(|&z| (z, &self.parts.allocator.zones[z]))
            .filter(|(_, zone)| zone.kind <= request.highest);
        zones.any(|(z, zone)| {
            let reclaimable = self.reclaimable_pages(zone.node) / u64::from(request.order);
            self.is_suitable_with(z, (request.order, request.highest), reclaimable)
        })
    }

    /// An attempt after direct reclaim freed no usable page: returns a high-atomic pageblock to
    /// ordinary use, drains all pagesets and walks the zonelist once more (`__alloc_pages_direct_reclaim`).
    fn drain_and_retry(&mut self, request: &Request, node: Node) -> Option<(Pfn, usize)> {
        let (zones, on) = (&mut self.parts.allocator.zones, &mut self.on);
        for zone in zones {
            if zone.unreserve_highatomic(on, request.migrate_type) {
                break;
            }
        }
        // Who finds another CPU draining goes on without.
        if self.on.machine.now(self.on.cpu) >= self.parts.allocator.draining_until {
            self.drain_all_pages();
            self.parts.allocator.draining_until = self.on.machine.now(self.on.cpu);
        }
        self.get_page_from_freelist(request, node, Mark::Min)
    }

    fn get_page_from_freelist(&mut self, request: &Request, node: Node, mark: Mark) -> Option<(Pfn, usize)> {
        let low = mark == Mark::Low;
        let pass = Pass {
            mark,
            no_fragment: low && self.parts.allocator.avoids_fragments(node, request),
            skip_reclaiming: self.skips_reclaiming(mark),
        };
        let found = self.try_zones(request, node, pass);
        if found.is_some() || !pass.no_fragment && !pass.skip_reclaiming {
            return found;
        }
        let pass = Pass { no_fragment: false, skip_reclaiming: false, ..pass };
        self.try_zones(request, node, pass)
    }

    fn try_zones(&mut self, request: &Request, node: Node, pass: Pass) -> Option<(Pfn, usize)> {
        for i in 0..self.parts.allocator.zonelist(node, request.placement).len() {
            let z = self.parts.allocator.zonelist(node, request.placement)[i];
            let zone = &self.parts.allocator.zones[z];
            if zone.kind > request.highest {
                continue;
            }
            // A page from a remote node is worse than mixed migrate types on the local one.
            if pass.no_fragment && zone.node != node {
                break;
            }
            if pass.skip_reclaiming && zone.pressure.reclaim_active
                || !self.may_take_from(z, request, pass.mark)
            {
                continue;
            }
            if let Some(pfn) = self.rmqueue(z, request, pass.no_fragment) {
                return Some((pfn, z));
            }
        }
        None
    }

    fn rmqueue(&mut self, z: usize, request: &Request, no_fragment: bool) -> Option<Pfn> {
        let Request { order, migrate_type, .. } = *request;
        let wanted = Wanted { order, migrate_type, no_fragment };
        let allowed = is_order_allowed(order, self.parts.allocator.geometry.pageblock_order);
        let (zone, on) = (&mut self.parts.allocator.zones[z], &mut self.on);
        if allowed && !zone.pageset_is_held(on.cpu, on.machine.now(on.cpu)) {
            let pfn = zone.alloc_through_pageset(on, wanted);
            if pfn.is_some() {
                self.wake_kswapd_of_boosted(z, request);
                return pfn;
            }
        }
        let pfn = zone.alloc_direct(on, wanted, request.is_high_atomic());
        self.wake_kswapd_of_boosted(z, request);
        pfn
    }

    /// Allocates a block of a pageblock or more that stays in use as a whole to the end, as a guest's huge pages do.
    pub fn alloc_lasting(&mut self, request: &Request) -> Option<Pfn> {
        let pfn = self.alloc(request)?;
        let z = self.parts.allocator.zone_of(pfn);
        self.parts.allocator.zones[z].buddy.keep_compound(pfn, request.order);
        Some(pfn)
    }

    /// Frees order-0 pages one after the other, with the result of that many calls of [`Kernel::free`].
    pub(crate) fn free_singles(&mut self, pages: &[Pfn]) {
        let mut rest = pages;
        while !rest.is_empty() {
            rest = &rest[self.free_private(rest)..];
            if let Some((&pfn, behind)) = rest.split_first() {
                self.free(pfn, 0);
                rest = behind;
            }
        }
    }

    /// Frees one block. May take a zone's lock, so the CPU must be the one furthest behind.
    pub fn free(&mut self, pfn: Pfn, order: u8) {
        let z = self.parts.allocator.zone_of(pfn);
        self.on.counters.add(Event::Pgfree, 1 << order);
        let (zone, on) = (&mut self.parts.allocator.zones[z], &mut self.on);
        zone.free(on, pfn, order);
    }

    /// Frees a page that boot reserved for struct pages ([`Zone::memmap`]): the zone then manages one page
    /// more (`free_bootmem_page`).
    pub fn free_reserved(&mut self, pfn: Pfn) {
        let z = self.parts.allocator.zone_of(pfn);
        self.on.counters.add(Event::Pgfree, 1);
        let (zone, on) = (&mut self.parts.allocator.zones[z], &mut self.on);
        zone.free_reserved(on, pfn);
    }

    /// Allocates 2^order pages, at least a largest buddy block, as one aligned range of `node`
    /// (`alloc_contig_pages`): the lowest free range of the highest zone that has one. Watermarks are not
    /// tested, and no pgalloc event is counted.
    ///
    /// Only ranges qualify whose pages are all on free lists once the pagesets are drained. The kernel would
    /// also migrate pages that are in use; neither that nor the cost of examining each struct page and
    /// isolating pageblocks is modelled. Unlike the kernel, this skips high-atomic pageblocks.
    pub fn alloc_contig(&mut self, order: u8, node: Node) -> Option<Pfn> {
        (0..self.parts.allocator.own_zones[node.index()].len()).find_map(|place| {
            let (zone, on) = (
                &mut self.parts.allocator.zones[self.parts.allocator.own_zones[node.index()][place]],
                &mut self.on,
            );
            zone.alloc_contig(on, order)
        })
    }

    /// Frees 2^order pages of [`Kernel::alloc_contig`] or [`PageAllocator::alloc_at_boot`] as blocks of the
    /// largest order. Kernels before 6.12 free them page by page, which is not modelled.
    pub fn free_contig(&mut self, pfn: Pfn, order: u8) {
        let z = self.parts.allocator.zone_of(pfn);
        self.on.counters.add(Event::Pgfree, 1 << order);
        let (zone, on) = (&mut self.parts.allocator.zones[z], &mut self.on);
        zone.free_contig(on, pfn, order);
    }

    /// Drains the pagesets of all CPUs into their zones; this CPU pays (`drain_all_pages`).
    pub fn drain_all_pages(&mut self) {
        (0..self.parts.allocator.zones.len()).for_each(|z| self.drain_zone(z));
    }

    /// Like `drain_all_pages`, but of one zone.
    pub(crate) fn drain_zone(&mut self, z: usize) {
        let owners = self.on.machine.topology.all_cpus();
        let (zone, on) = (&mut self.parts.allocator.zones[z], &mut self.on);
        owners.for_each(|owner| zone.drain_pageset(on, owner));
    }

    /// Runs the CPU's vmstat worker once. Returns whether it has to run again.
    pub fn vmstat_update(&mut self) -> bool {
        self.on.counters.add(Event::VmstatUpdate, 1);
        let (zones, on) = (&mut self.parts.allocator.zones, &mut self.on);
        let mut again = false;
        for zone in zones {
            again |= zone.vmstat_tick(on);
        }
        again
    }

    /// Serves up to `wanted` order-0 requests from the CPU's pageset of the preferred zone, touching nothing
    /// shared. Returns how many it served; after 0 the caller must use [`Kernel::alloc`].
    #[inline]
    pub fn alloc_private(&mut self, request: &Request, wanted: usize, out: &mut Vec<Pfn>) -> usize {
        let Some(z) = self.preferred_zone(request) else { return 0 };
        if !self.parts.allocator.zones[z].is_plentiful(request.highest) {
            return 0;
        }
        let f = self.on.features;
        let index = list_index(f, 0, request.migrate_type);
        let taken =
            self.parts.allocator.zones[z].pagesets[self.on.cpu.index()].take_plain(f, index, wanted, out);
        if taken > 0 {
            // The preferred zone is on the preferred node.
            self.count_alloc(self.parts.allocator.zones[z].node, z, taken as u64, taken as u64);
        }
        taken
    }

    #[inline]
    fn count_alloc(&mut self, wanted: Node, zone: usize, pages: u64, calls: u64) {
        let (kind, got) = (self.parts.allocator.zones[zone].kind, self.parts.allocator.zones[zone].node);
        let event = [Event::PgallocDma, Event::PgallocDma32, Event::PgallocNormal, Event::PgallocMovable]
            [kind as usize];
        self.on.counters.add(event, pages);
        if wanted == got {
            self.on.counters.add(Event::NumaHit, calls);
        } else {
            self.on.counters.add(Event::NumaMiss, calls);
            self.on.counters.add(Event::NumaForeign, calls);
        }
        let local = self.on.machine.node(self.on.cpu) == got;
        self.on.counters.add(if local { Event::NumaLocal } else { Event::NumaOther }, calls);
    }

    /// Whether the preferred zone serves a request in the first pass.
    #[inline]
    fn is_first_choice(&mut self, z: usize, request: &Request) -> bool {
        let passed_over =
            self.skips_reclaiming(Mark::Low) && self.parts.allocator.zones[z].pressure.reclaim_active;
        !passed_over && self.may_take_from(z, &request.of_fast_path(), Mark::Low)
    }

    fn skips_reclaiming(&self, mark: Mark) -> bool {
        policy::passes_over_reclaiming(self.on.features, mark, self.parts.allocator.nodes())
    }

    #[inline]
    fn may_take_from(&mut self, z: usize, request: &Request, mark: Mark) -> bool {
        let f = self.on.features;
        let zone = &mut self.parts.allocator.zones[z];
        if policy::tests_high_first(f, zone.pressure) {
            if zone.is_above(f, Mark::High, request.order, request.highest, request.reserves) {
                return true;
            }
            zone.pressure.below_high = true;
        }
        // `ALLOC_NO_WATERMARKS`, which the slow path gives.
        if mark == Mark::Min && request.effort.memalloc {
            return true;
        }
        zone.is_above(f, mark, request.order, request.highest, request.reserves)
    }

    /// Wakes kswapd if the zone's watermarks were boosted since it was last woken: for order 0 and as if by a
    /// request that does not reclaim, because the allocation that caused the boost may not have been allowed
    /// to wake it.
    fn wake_kswapd_of_boosted(&mut self, z: usize, request: &Request) {
        let zone = &mut self.parts.allocator.zones[z];
        if zone.boosted && policy::wakes_for_boost(self.on.features, request.effort) {
            zone.boosted = false;
            let (node, kind) = (zone.node, zone.kind);
            self.on.counters.add(Event::KswapdWake, 1);
            self.wake_kswapd(node, 0, kind, Effort::LIGHT.direct);
        }
    }

    /// Frees pages (order 0, in this order) into the CPU's pageset as long as that needs no lock. Returns how
    /// many were freed, which may be 0; the caller frees the rest with [`Kernel::free`].
    #[inline]
    pub fn free_private(&mut self, pages: &[Pfn]) -> usize {
        let cpu = self.on.cpu;
        let mut done = 0;
        while done < pages.len() {
            let first = pages[done];
            let z = self.parts.allocator.zone_of(first);
            let f = self.on.features;
            let zone = &mut self.parts.allocator.zones[z];
            if zone.pageset_is_held(cpu, self.on.machine.now(cpu)) {
                break;
            }
            let pageset = &mut zone.pagesets[cpu.index()];
            let decisions = &self.on.decisions.pcp;
            let plain = decisions.plain_frees(&pageset.tuning, f, zone.pressure, pages.len() - done);
            if plain == 0 {
                break;
            }
            let span = zone.buddy.span();
            let block_type = zone.buddy.block_type(first);
            let run = &pages[done..done + plain];
            let same = run
                .iter()
                .position(|pfn| !span.contains(pfn) || zone.buddy.block_type(*pfn) != block_type)
                .unwrap_or(plain);
            let list = list_index(f, 0, block_type);
            let put = pageset.put_plain(f, decisions, zone.pressure, list, &run[..same]);
            if put == 0 {
                break;
            }
            done += put;
        }
        self.on.counters.add(Event::Pgfree, done as u64);
        done
    }
}

impl PageAllocator {
    pub(crate) fn online_cpus(&self) -> u64 {
        self.online_cpus
    }

    /// The page size and the orders that follow from it.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline]
    pub fn page_size(&self) -> PageSize {
        self.geometry.page_size
    }

    /// The value of `vm.min_free_kbytes` in force, set or computed.
    pub fn min_free_kbytes(&self) -> u64 {
        self.min_free_kbytes
    }

    /// Number of nodes.
    #[inline]
    pub(crate) fn nodes(&self) -> usize {
        self.own_zones.len()
    }

    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.own_zones.len() as u8).map(Node)
    }

    /// The zones of a node, highest first.
    pub(crate) fn zones_of(&self, node: Node) -> impl Iterator<Item = &Zone> + use<'_> {
        self.own_zones[node.index()].iter().map(|&z| &self.zones[z])
    }

    /// The zones of `node`, from the lowest up.
    pub(crate) fn zones_from_lowest(&self, node: Node) -> Vec<usize> {
        self.own_zones[node.index()].iter().rev().copied().collect()
    }

    /// All zones, by node and within a node from the lowest up.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// A zone by index, for tests and replays that set it to a recorded state.
    pub fn zone_mut(&mut self, index: usize) -> &mut Zone {
        &mut self.zones[index]
    }

    /// Base pages in the pagesets of all CPUs and zones.
    pub fn pages_in_pagesets(&self) -> u64 {
        self.zones.iter().map(Zone::pages_in_pagesets).sum()
    }

    /// Base pages on the buddy lists of all zones.
    pub fn free_pages(&self) -> u64 {
        self.zones.iter().map(|zone| zone.exact_free_pages() as u64).sum()
    }

    /// Index of the zone that `pfn` belongs to.
    #[inline]
    pub fn zone_of(&self, pfn: Pfn) -> usize {
        self.zone_at(pfn).expect("a page of this machine")
    }

    /// Index of the zone that `pfn` belongs to, unless it is in a hole.
    pub(crate) fn zone_at(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.buddy.span().contains(&pfn))
    }

    /// The longest run of zones without a hole between them, which is taken to be the largest resource "System RAM" of /proc/iomem.
    pub(crate) fn largest_range(&self) -> Range<Pfn> {
        let mut spans: Vec<Range<Pfn>> = self.zones.iter().map(|zone| zone.buddy.span()).collect();
        spans.sort_by_key(|span| span.start);
        spans.dedup_by(|next, span| {
            let follows = next.start == span.end;
            if follows {
                span.end = next.end;
            }
            follows
        });
        spans.into_iter().max_by_key(|span| span.end - span.start).unwrap_or_default()
    }

    /// Whether a movable block of `order` could be allocated for a CPU of `node` without reclaim or compaction
    /// (`get_page_from_freelist` with `ALLOC_WMARK_LOW`).
    pub fn could_allocate(&self, features: &Features, node: Node, order: u8) -> bool {
        let mut zones = self.zonelists[node.index()].iter().map(|&z| &self.zones[z]);
        zones.any(|zone| zone.is_above(features, Mark::Low, order, ZoneType::Movable, Reserves::default()))
    }

    fn zonelist(&self, node: Node, placement: Placement) -> &[usize] {
        match placement {
            Placement::Local | Placement::Prefer(_) => &self.zonelists[node.index()],
            Placement::Bind(_) => &self.own_zones[node.index()],
        }
    }

    /// The nodes that serve a request, in the order in which it tries them.
    pub(crate) fn nodes_for(&self, node: Node, request: &Request) -> Vec<Node> {
        let zones = self.zonelist(node, request.placement).iter().map(|&z| &self.zones[z]);
        let mut nodes: Vec<Node> =
            zones.filter(|zone| zone.kind <= request.highest).map(|zone| zone.node).collect();
        nodes.dedup();
        nodes
    }

    /// Whether the first pass avoids mixing migrate types within pageblocks (`alloc_flags_nofragment`).
    fn avoids_fragments(&self, node: Node, request: &Request) -> bool {
        let mut zones = self.zonelist(node, request.placement).iter().map(|&z| &self.zones[z]);
        let Some(zone) = zones.find(|zone| zone.kind <= request.highest) else { return false };
        let is_dma32 = |z: &Zone| z.node == zone.node && z.kind == ZoneType::Dma32;
        zone.kind == ZoneType::Normal && (self.own_zones.len() == 1 || self.zones.iter().any(is_dma32))
    }

    /// Allocates 2^order pages, at least a largest buddy block, as boot code does from memblock before this
    /// allocator exists: the highest aligned range of `node`, at no cost. Must be called before any other
    /// allocation. The pages are managed and count as allocated; [`Kernel::free_contig`] frees them.
    pub fn alloc_at_boot(&mut self, order: u8, node: Node) -> Option<Pfn> {
        let zones = &self.own_zones[node.index()];
        zones.iter().find_map(|&z| self.zones[z].alloc_at_boot(order))
    }

    /// Whether [`Kernel::vmstat_update`] on `cpu` would find work.
    pub fn vmstat_has_work(&self, cpu: Cpu) -> bool {
        self.zones.iter().any(|zone| zone.has_vmstat_work(cpu))
    }

    /// Sets `ZONE_RECLAIM_ACTIVE` of a node's zones.
    pub fn begin_reclaim(&mut self, node: Node) {
        self.change_zones(node, |zone| zone.pressure.reclaim_active = true);
    }

    /// Clears `ZONE_RECLAIM_ACTIVE` of a node's zones.
    pub fn end_reclaim(&mut self, node: Node) {
        self.change_zones(node, |zone| zone.pressure.reclaim_active = false);
    }

    /// Whether the kswapd of `node` runs.
    pub(crate) fn is_kswapd_running(&self, node: Node) -> bool {
        self.zones_of(node).any(|zone| zone.pressure.reclaim_active)
    }

    fn change_zones(&mut self, node: Node, change: impl Fn(&mut Zone)) {
        for &z in &self.own_zones[node.index()] {
            change(&mut self.zones[z]);
        }
    }
}
