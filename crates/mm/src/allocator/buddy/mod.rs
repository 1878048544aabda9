//! The buddy allocator of one zone: free blocks of 2^0 to 2^10 pages, with a list for each order and migrate
//! type.
//!
//! ```text
//!   order 10  ● ── ● ──┊ untouched 4 MiB areas, ascending ┊      lists run head to tail
//!   order 9   ●                                                   take: smallest fitting order, from the head;
//!   ...                                                           split halves go to the heads below
//!   order 0   ● ── ● ── ● ── ●                                    put: merge with the buddy while it is free
//! ```
//!
//! Memory that was never used is only ranges of page numbers at the end of the movable order-10 list. A block
//! is linked when its turn comes, in the order of the kernel's initial list. Gigantic pages may take whole
//! blocks off the lists and out of the middle of those ranges. All of this happens under the zone's lock;
//! [`Visit`] adds up the cost of the cache lines touched.
//! In the kernel: `__rmqueue`, `__rmqueue_smallest`, `__rmqueue_claim`, `__rmqueue_steal`, `__free_one_page`,
//! `alloc_contig_pages` and `split_large_buddy` in mm/page_alloc.c.

mod isolation;
pub mod policy;

use crate::account::Category;
use crate::allocator::page::{
    Geometry, MigrateType, NO_PAGE, NR_PAGE_ORDERS, PageMap, PageRecord, Pfn, RecordIndex,
};
use crate::features::Features;
use machine::{Cpu, Machine, Time};
use policy::{Claim, Fallback, Stolen};
use std::collections::VecDeque;
use std::ops::Range;

/// One CPU's walk over free lists, and the cost of the cache lines it touches.
pub struct Visit<'a> {
    machine: &'a Machine<Category>,
    cpu: Cpu,
    pub cost: Time,
}

impl<'a> Visit<'a> {
    /// A walk by `cpu` without cost so far.
    pub fn new(machine: &'a Machine<Category>, cpu: Cpu) -> Visit<'a> {
        Visit { machine, cpu, cost: Time::ZERO }
    }

    /// Writes to the cache line of `record`, transferring it from its owner.
    #[inline]
    fn write(&mut self, record: &mut PageRecord) {
        self.read(record);
        record.line_owner = self.cpu;
    }

    /// Reads the cache line of `record`, which stays with its owner.
    #[inline]
    fn read(&mut self, record: &PageRecord) {
        if let Some(owner) = record.cached_by()
            && owner != self.cpu
        {
            self.cost += self.machine.line_transfer(owner, self.cpu);
        }
    }
}

/// Where the last block of a batch was found, and so where the search for the next one starts (`enum
/// rmqueue_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The lists of the wanted type.
    #[default]
    Normal,
    /// Claiming pageblocks of other types.
    Claim,
    /// Stealing single blocks of other types.
    Steal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// Blocks here are allocated first.
    Head,
    /// Blocks here are allocated last.
    Tail,
}

/// A request to the free lists.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// log2 of the number of pages.
    pub order: u8,
    pub migrate_type: MigrateType,
    /// Pageblocks of other types may only be claimed whole (`ALLOC_NOFRAGMENT`).
    pub no_fragment: bool,
}

/// What fallback did to serve a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackOutcome {
    /// Requests served from another migrate type (`mm_page_alloc_extfrag`).
    pub fallbacks: u64,
    /// The watermarks were boosted, and kswapd should wake up (`ZONE_BOOSTED_WATERMARK`).
    pub boosted: bool,
}

/// The zone's values that boosting its watermarks needs.
#[derive(Clone, Copy, Debug)]
pub struct BoostContext {
    /// `vm.watermark_boost_factor`.
    pub boost_factor: u64,
    /// High watermark without boost, pages.
    pub high: u64,
    pub managed: u64,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: Pfn,
    tail: Pfn,
    blocks: u32,
}

const EMPTY: List = List { head: NO_PAGE, tail: NO_PAGE, blocks: 0 };

/// The free blocks of a zone.
#[derive(Clone, Debug)]
pub struct Buddy {
    geometry: Geometry,
    pages: PageMap,
    span: Range<Pfn>,
    lists: [[List; MigrateType::COUNT]; NR_PAGE_ORDERS],
    /// Ranges of largest blocks that were never used; the last range is used first.
    untouched: Vec<Range<Pfn>>,
    block_types: Vec<MigrateType>,
    /// By pageblock, whether compaction passes over it (`PB_migrate_skip`); empty before the first run.
    skipped_blocks: Vec<bool>,
    /// Pageblocks that are part of one block in use, to the end; empty as long as there is none.
    compound_blocks: Vec<bool>,
    /// The zone's `watermark_boost`, pages.
    pub watermark_boost: u64,
}

impl Buddy {
    /// A zone after boot: all pages of `managed` are free and movable, in ascending blocks as large as
    /// alignment allows. The zone spans pages up to `end`; those not managed are neither free nor allocated
    /// until [`Buddy::put`] frees them.
    pub fn new(geometry: Geometry, managed: Range<Pfn>, end: Pfn) -> Buddy {
        let span = managed.start..end.max(managed.end);
        let Geometry { max_page_order, pageblock_order, .. } = geometry;
        let blocks = span.end.div_ceil(geometry.pageblock_nr_pages()) - (span.start >> pageblock_order);
        let mut whole = managed.start.next_multiple_of(geometry.max_order_nr_pages())
            ..managed.end >> max_page_order << max_page_order;
        if whole.is_empty() {
            whole = managed.end..managed.end;
        }
        let edges = [managed.start..whole.start, whole.end..managed.end];
        let mut buddy = Buddy {
            geometry,
            pages: PageMap::new(geometry, span.start, span.end),
            lists: [[EMPTY; MigrateType::COUNT]; NR_PAGE_ORDERS],
            untouched: vec![whole],
            block_types: vec![MigrateType::Movable; blocks as usize],
            skipped_blocks: Vec::new(),
            compound_blocks: Vec::new(),
            watermark_boost: 0,
            span,
        };
        for edge in edges {
            let mut pfn = edge.start;
            while pfn < edge.end {
                let aligned = pfn.trailing_zeros().min(max_page_order.into()) as u8;
                let order = (0..=aligned).rev().find(|&o| pfn + (1 << o) <= edge.end).unwrap_or(0);
                if order < pageblock_order {
                    buddy.pages.split(pfn);
                }
                buddy.link(pfn, order, MigrateType::Movable, ListEnd::Tail);
                pfn += 1 << order;
            }
        }
        buddy
    }

    /// The page size and the orders that follow from it.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The pages that the zone spans.
    pub fn span(&self) -> Range<Pfn> {
        self.span.clone()
    }

    #[inline]
    fn block_index(&self, pfn: Pfn) -> usize {
        let order = self.geometry.pageblock_order;
        ((pfn >> order) - (self.span.start >> order)) as usize
    }

    /// The migrate type of `pfn`'s pageblock.
    #[inline]
    pub fn block_type(&self, pfn: Pfn) -> MigrateType {
        self.block_types[self.block_index(pfn)]
    }

    fn set_block_types(&mut self, pfn: Pfn, order: u8, migrate_type: MigrateType) {
        let first = self.block_index(pfn);
        let blocks = 1usize << order.saturating_sub(self.geometry.pageblock_order);
        let last = (first + blocks).min(self.block_types.len());
        self.block_types[first..last].fill(migrate_type);
    }

    /// Number of free blocks of `order`, all types (/proc/buddyinfo).
    pub fn nr_free(&self, order: u8) -> u64 {
        MigrateType::ALL.iter().map(|&t| self.nr_free_of(order, t)).sum()
    }

    /// Number of free blocks of `order` and type (/proc/pagetypeinfo).
    pub fn nr_free_of(&self, order: u8, migrate_type: MigrateType) -> u64 {
        let untouched = if order == self.geometry.max_page_order && migrate_type == MigrateType::Movable {
            self.untouched.iter().map(|range| range.len() as u64 >> self.geometry.max_page_order).sum()
        } else {
            0
        };
        u64::from(self.lists[order as usize][migrate_type as usize].blocks) + untouched
    }

    /// Pages in free blocks, computed from the lists.
    pub fn free_pages(&self) -> u64 {
        (0..=self.geometry.max_page_order).map(|order| self.nr_free(order) << order).sum()
    }

    /// Whether a block of `order` or larger is free, high-atomic ones excepted.
    pub fn has_block(&self, order: u8) -> bool {
        (order..=self.geometry.max_page_order)
            .any(|o| MigrateType::ALL[..MigrateType::PCP_TYPES].iter().any(|&t| self.nr_free_of(o, t) > 0))
    }

    /// The forward link out of `prev`, or the list's head if `prev` is no page.
    #[inline]
    fn forward(&mut self, order: u8, migrate_type: MigrateType, prev: Pfn) -> &mut Pfn {
        if prev == NO_PAGE {
            &mut self.lists[order as usize][migrate_type as usize].head
        } else {
            &mut self.pages.get_mut(prev).next
        }
    }

    /// The backward link out of `next`, or the list's tail if `next` is no page.
    #[inline]
    fn backward(&mut self, order: u8, migrate_type: MigrateType, next: Pfn) -> &mut Pfn {
        if next == NO_PAGE {
            &mut self.lists[order as usize][migrate_type as usize].tail
        } else {
            &mut self.pages.get_mut(next).prev
        }
    }

    fn link(&mut self, pfn: Pfn, order: u8, migrate_type: MigrateType, end: ListEnd) {
        self.link_at(self.pages.index(pfn), pfn, order, migrate_type, end);
    }

    /// Like [`Buddy::link`], with the place of the record already known.
    #[inline]
    fn link_at(&mut self, index: RecordIndex, pfn: Pfn, order: u8, migrate_type: MigrateType, end: ListEnd) {
        let list = &mut self.lists[order as usize][migrate_type as usize];
        list.blocks += 1;
        let (prev, next) = match end {
            ListEnd::Head => (NO_PAGE, list.head),
            ListEnd::Tail => (list.tail, NO_PAGE),
        };
        *self.forward(order, migrate_type, prev) = pfn;
        *self.backward(order, migrate_type, next) = pfn;
        let record = &mut self.pages[index];
        record.prev = prev;
        record.next = next;
        record.order = order;
        record.list_type = migrate_type;
    }

    fn unlink(&mut self, pfn: Pfn) {
        self.unlink_at(self.pages.index(pfn));
    }

    /// Like [`Buddy::unlink`], with the place of the record already known.
    #[inline]
    fn unlink_at(&mut self, index: RecordIndex) {
        let record = &mut self.pages[index];
        let PageRecord { prev, next, order, list_type, .. } = *record;
        record.order = PageRecord::NOT_FREE;
        self.lists[order as usize][list_type as usize].blocks -= 1;
        *self.forward(order, list_type, prev) = next;
        *self.backward(order, list_type, next) = prev;
    }

    /// The head of a list. If the list is empty and never-used memory is next, links its next block.
    #[inline]
    fn head(&mut self, order: u8, migrate_type: MigrateType) -> Option<Pfn> {
        let head = self.lists[order as usize][migrate_type as usize].head;
        if head != NO_PAGE {
            return Some(head);
        }
        if order == self.geometry.max_page_order && migrate_type == MigrateType::Movable {
            return self.link_untouched();
        }
        None
    }

    /// Links the next block of never-used memory.
    #[cold]
    fn link_untouched(&mut self) -> Option<Pfn> {
        while let Some(range) = self.untouched.last_mut() {
            if range.start < range.end {
                let pfn = range.start;
                range.start += self.geometry.max_order_nr_pages();
                self.link(pfn, self.geometry.max_page_order, MigrateType::Movable, ListEnd::Head);
                return Some(pfn);
            }
            self.untouched.pop();
        }
        None
    }

    /// The place of the record of a block's first page; splits the pageblock's records if the block is
    /// smaller than the pageblock.
    #[inline]
    fn record_of_block(&mut self, pfn: Pfn, order: u8) -> RecordIndex {
        match order < self.geometry.pageblock_order {
            true => self.pages.split(pfn),
            false => self.pages.index(pfn),
        }
    }

    /// Takes a block off its list and allocates its first `blocks` blocks of `order`, which must be in one
    /// pageblock if they are several. The rest is split in halves, which go to the heads of the lists of
    /// `remainder_type`.
    #[inline]
    fn take_from_block(
        &mut self,
        pfn: Pfn,
        order: u8,
        blocks: usize,
        wanted_type: MigrateType,
        remainder_type: MigrateType,
        visit: &mut Visit,
    ) {
        let index = self.record_of_block(pfn, order);
        let end = pfn + (1 << self.pages[index].order);
        self.unlink_at(index);
        // The range ends at the first page of the last block, whose record may be the only one of its
        // pageblock.
        let records = self.pages.run_mut(index, ((blocks - 1) << order) + 1);
        for record in records.iter_mut().step_by(1 << order) {
            visit.write(record);
            record.order = PageRecord::NOT_FREE;
            record.list_type = wanted_type;
        }
        let mut rest = pfn + ((blocks as u32) << order);
        while rest < end {
            let rest_order = (rest - pfn).trailing_zeros() as u8;
            let rest_index = self.pages.index_beside((pfn, index), rest);
            self.link_at(rest_index, rest, rest_order, remainder_type, ListEnd::Head);
            visit.write(&mut self.pages[rest_index]);
            rest += 1 << rest_order;
        }
    }

    /// Like [`Buddy::take_from_block`] for one block of `order`, which it returns.
    #[inline]
    fn take_block(
        &mut self,
        pfn: Pfn,
        order: u8,
        wanted_type: MigrateType,
        remainder_type: MigrateType,
        visit: &mut Visit,
    ) -> Pfn {
        self.take_from_block(pfn, order, 1, wanted_type, remainder_type, visit);
        pfn
    }

    /// Takes the smallest fitting block from the lists of the migrate type (`__rmqueue_smallest`).
    #[inline]
    pub fn take(&mut self, order: u8, migrate_type: MigrateType, visit: &mut Visit) -> Option<Pfn> {
        for o in order..=self.geometry.max_page_order {
            if let Some(pfn) = self.head(o, migrate_type) {
                return Some(self.take_block(pfn, order, migrate_type, migrate_type, visit));
            }
        }
        None
    }

    /// Takes up to `most` blocks of `order`, all out of the smallest fitting block of the type's lists, and
    /// appends them to `taken`. Returns how many; 0 if the fitting block is larger than a pageblock. The
    /// blocks and the cost are those of as many calls of [`Buddy::take`], each of which takes the lowest rest
    /// of the block that the first call splits.
    #[inline]
    pub fn take_run(
        &mut self,
        order: u8,
        migrate_type: MigrateType,
        most: usize,
        visit: &mut Visit,
        taken: &mut VecDeque<Pfn>,
    ) -> usize {
        let largest = self.geometry.pageblock_order;
        let found = (order..=largest).find_map(|o| Some((o, self.head(o, migrate_type)?)));
        let Some((found_order, pfn)) = found else { return 0 };
        let blocks = most.min(1 << (found_order - order));
        self.take_from_block(pfn, order, blocks, migrate_type, migrate_type, visit);
        taken.extend((pfn..).step_by(1 << order).take(blocks));
        blocks
    }

    /// Takes a block of `order` for `migrate_type`, from lists of other types if necessary (`__rmqueue`).
    #[inline]
    pub fn take_or_fall_back(
        &mut self,
        f: &Features,
        wanted: Wanted,
        mode: &mut Mode,
        context: &BoostContext,
        outcome: &mut FallbackOutcome,
        visit: &mut Visit,
    ) -> Option<Pfn> {
        let Wanted { order, migrate_type, no_fragment } = wanted;
        if *mode == Mode::Normal
            && let Some(pfn) = self.take(order, migrate_type, visit)
        {
            return Some(pfn);
        }
        if policy::fallback(f) == Fallback::OneSearch {
            return self.take_from_other_type(f, wanted, context, outcome, visit);
        }
        if *mode != Mode::Steal
            && let Some(pfn) = self.claim(f, wanted, context, outcome, visit)
        {
            *mode = Mode::Normal;
            return Some(pfn);
        }
        if !no_fragment && let Some(pfn) = self.steal(order, migrate_type, outcome, visit) {
            *mode = Mode::Steal;
            return Some(pfn);
        }
        None
    }

    fn fallback_at(&self, order: u8, migrate_type: MigrateType) -> Option<MigrateType> {
        policy::fallbacks(migrate_type).iter().copied().find(|&t| self.nr_free_of(order, t) > 0)
    }

    fn least_claimed_order(&self, order: u8, no_fragment: bool) -> u8 {
        if no_fragment { order.max(self.geometry.pageblock_order) } else { order }
    }

    /// Claims the largest free block of another type, and its pageblock if enough of it is free or compatible
    /// (`__rmqueue_claim`).
    fn claim(
        &mut self,
        f: &Features,
        wanted: Wanted,
        context: &BoostContext,
        outcome: &mut FallbackOutcome,
        visit: &mut Visit,
    ) -> Option<Pfn> {
        let Wanted { order, migrate_type, no_fragment } = wanted;
        let least = self.least_claimed_order(order, no_fragment);
        for o in (least..=self.geometry.max_page_order).rev() {
            let Some(other) = self.fallback_at(o, migrate_type) else { continue };
            if !policy::may_claim(self.geometry, o, migrate_type) {
                return None;
            }
            let pfn = self.head(o, other)?;
            if o >= self.geometry.pageblock_order {
                self.set_block_types(pfn, o, migrate_type);
                outcome.fallbacks += 1;
                return Some(self.take_block(pfn, order, migrate_type, migrate_type, visit));
            }
            self.boost(context, outcome);
            if self.claim_block(f, pfn, migrate_type, visit) {
                outcome.fallbacks += 1;
                return self.take(order, migrate_type, visit);
            }
        }
        None
    }

    /// Takes the smallest free block of another type; the rest of the block keeps that type (6.15,
    /// `__rmqueue_steal`).
    fn steal(
        &mut self,
        order: u8,
        migrate_type: MigrateType,
        outcome: &mut FallbackOutcome,
        visit: &mut Visit,
    ) -> Option<Pfn> {
        for o in order..=self.geometry.max_page_order {
            if let Some(other) = self.fallback_at(o, migrate_type) {
                let pfn = self.head(o, other)?;
                outcome.fallbacks += 1;
                return Some(self.take_block(pfn, order, migrate_type, other, visit));
            }
        }
        None
    }

    /// Fallback before 6.15: one search decides between claiming and stealing. The rest of the block goes to
    /// the requested type or keeps its own, as [`policy::stolen`] says.
    fn take_from_other_type(
        &mut self,
        f: &Features,
        wanted: Wanted,
        context: &BoostContext,
        outcome: &mut FallbackOutcome,
        visit: &mut Visit,
    ) -> Option<Pfn> {
        let Wanted { order, migrate_type, no_fragment } = wanted;
        let least = self.least_claimed_order(order, no_fragment);
        let mut found = (least..=self.geometry.max_page_order)
            .rev()
            .find_map(|o| self.fallback_at(o, migrate_type).map(|other| (o, other)))?;
        let claimable = policy::may_claim(self.geometry, found.0, migrate_type);
        if !claimable && migrate_type == MigrateType::Movable && found.0 > order {
            found = (order..=self.geometry.max_page_order)
                .find_map(|o| self.fallback_at(o, migrate_type).map(|other| (o, other)))?;
        }
        let (o, other) = found;
        let pfn = self.head(o, other)?;
        outcome.fallbacks += 1;
        if o >= self.geometry.pageblock_order {
            self.set_block_types(pfn, o, migrate_type);
            self.unlink(pfn);
            self.link(pfn, o, migrate_type, ListEnd::Head);
        } else {
            self.boost(context, outcome);
            if !(claimable && self.claim_block(f, pfn, migrate_type, visit)) {
                if policy::stolen(f) == Stolen::Wanted {
                    return Some(self.take_block(pfn, order, migrate_type, other, visit));
                }
                self.unlink(pfn);
                self.link(pfn, o, migrate_type, ListEnd::Tail);
            }
        }
        self.take(order, migrate_type, visit)
    }

    fn boost(&mut self, context: &BoostContext, outcome: &mut FallbackOutcome) {
        if let Some(boost) = policy::boosted(self.geometry, self.watermark_boost, context) {
            self.watermark_boost = boost;
            outcome.boosted = true;
        }
    }

    /// Moves the free blocks of `pfn`'s pageblock to the lists of `migrate_type` if enough of the pageblock
    /// is free or compatible. An allocated page counts as the type it was allocated for.
    fn claim_block(&mut self, f: &Features, pfn: Pfn, migrate_type: MigrateType, visit: &mut Visit) -> bool {
        let start = self.geometry.block_start(pfn);
        let end = start + self.geometry.pageblock_nr_pages();
        if start < self.span.start || end > self.span.end {
            return false;
        }
        let (mut free, mut movable) = (0, 0);
        let mut page = start;
        while page < end {
            let record = self.pages.get(page);
            if record.order != PageRecord::NOT_FREE {
                free += 1 << record.order;
                page += 1 << record.order;
            } else {
                movable += u32::from(record.list_type == MigrateType::Movable);
                page += 1;
            }
        }
        let claim = policy::claim(f, self.geometry, migrate_type, self.block_type(pfn), free, movable);
        if claim == Claim::Nothing {
            return false;
        }
        self.move_free_blocks(start, migrate_type, visit);
        if claim == Claim::Pageblock {
            self.set_block_types(start, self.geometry.pageblock_order, migrate_type);
        }
        true
    }

    /// Moves the free blocks of the pageblock at `start` to the tails of the lists of `migrate_type`.
    fn move_free_blocks(&mut self, start: Pfn, migrate_type: MigrateType, visit: &mut Visit) {
        let mut page = start;
        while page < start + self.geometry.pageblock_nr_pages() {
            let order = self.pages.get(page).order;
            if order == PageRecord::NOT_FREE {
                page += 1;
                continue;
            }
            self.unlink(page);
            self.link(page, order, migrate_type, ListEnd::Tail);
            visit.write(self.pages.get_mut(page));
            page += 1 << order;
        }
    }

    /// Sets the migrate type of the pageblocks that a block of `order` at `pfn` touches. Returns their number
    /// of pages; 0 if they extend beyond the zone.
    pub fn retag_blocks(&mut self, pfn: Pfn, order: u8, migrate_type: MigrateType, visit: &mut Visit) -> u64 {
        let order = order.max(self.geometry.pageblock_order);
        let start = pfn & !((1 << order) - 1);
        if start < self.span.start || start + (1 << order) > self.span.end {
            return 0;
        }
        self.move_free_blocks(start, migrate_type, visit);
        self.set_block_types(start, order, migrate_type);
        1 << order
    }

    /// A free high-atomic block and its order.
    pub fn first_highatomic(&self) -> Option<(Pfn, u8)> {
        let heads = self.lists.iter().map(|lists| lists[MigrateType::HighAtomic as usize].head);
        heads.zip(0..).find(|&(head, _)| head != NO_PAGE)
    }

    /// Prefetches the record of a block that is about to be freed into the host's cache; the records of its
    /// first buddies are near it.
    #[inline]
    pub fn prefetch_put(&self, pfn: Pfn) {
        self.pages.prefetch(pfn);
    }

    /// A second step, when the records are cached: prefetches the list neighbours of a buddy that will be
    /// merged.
    #[inline]
    pub fn prefetch_merge(&self, pfn: Pfn, order: u8) {
        let buddy = pfn ^ (1 << order);
        if self.span.contains(&buddy) {
            let record = self.pages.get(buddy);
            if record.order == order {
                for pfn in [record.prev, record.next] {
                    if pfn != NO_PAGE {
                        self.pages.prefetch(pfn);
                    }
                }
            }
        }
    }

    /// Frees a block, merging it with its buddy as long as the buddy is free (`__free_one_page`).
    #[inline]
    pub fn put(&mut self, mut pfn: Pfn, mut order: u8, migrate_type: MigrateType, visit: &mut Visit) {
        let mut index = self.record_of_block(pfn, order);
        self.pages[index].line_owner = visit.cpu;
        while order < self.geometry.max_page_order {
            let buddy = pfn ^ (1 << order);
            if !self.span.contains(&buddy) {
                break;
            }
            let buddy_index = self.pages.index_beside((pfn, index), buddy);
            let record = &self.pages[buddy_index];
            visit.read(record);
            if record.order != order {
                break;
            }
            if order >= self.geometry.pageblock_order {
                let other = self.block_type(buddy);
                if other != migrate_type {
                    if !(other.is_mergeable() && migrate_type.is_mergeable()) {
                        break;
                    }
                    self.set_block_types(buddy, order, migrate_type);
                }
            }
            self.unlink_at(buddy_index);
            visit.write(&mut self.pages[buddy_index]);
            if buddy < pfn {
                (pfn, index) = (buddy, buddy_index);
            }
            order += 1;
        }
        let end = {
            let next_buddy = (pfn & !(1 << order)) ^ (1 << (order + 1));
            let near = order < self.geometry.max_page_order - 1
                && self.span.contains(&next_buddy)
                && self.pages[self.pages.index_beside((pfn, index), next_buddy)].order == order + 1;
            policy::end_of_list(self.geometry, order, near)
        };
        if end == ListEnd::Head {
            let head = self.lists[order as usize][migrate_type as usize].head;
            if head != NO_PAGE {
                visit.write(self.pages.get_mut(head));
            }
        }
        self.link_at(index, pfn, order, migrate_type, end);
    }

    /// The indices of the aligned ranges of 2^order pages that lie in the zone.
    pub fn runs(&self, order: u8) -> Range<u32> {
        self.span.start.div_ceil(1 << order)..self.span.end >> order
    }

    fn is_untouched(&self, pfn: Pfn) -> bool {
        self.untouched.iter().any(|range| range.contains(&pfn))
    }

    /// Whether all pages of `range`, which consists of largest blocks, are free and not high-atomic.
    fn is_run_free(&self, range: &Range<Pfn>) -> bool {
        let mut pfn = range.start;
        while pfn < range.end {
            if self.is_untouched(pfn) {
                pfn += self.geometry.max_order_nr_pages();
                continue;
            }
            let record = self.pages.get(pfn);
            let set_aside = [record.list_type, self.block_type(pfn)].contains(&MigrateType::HighAtomic);
            if record.order == PageRecord::NOT_FREE || set_aside {
                return false;
            }
            pfn += 1 << record.order;
        }
        true
    }

    /// Removes `range`, which consists of largest blocks, from the never-used memory as far as it is part of
    /// it.
    fn take_untouched(&mut self, range: &Range<Pfn>) {
        let rest = self
            .untouched
            .iter()
            .flat_map(|old| [old.start.max(range.end)..old.end, old.start..old.end.min(range.start)]);
        self.untouched = rest.filter(|part| !part.is_empty()).collect();
    }

    /// Takes the lowest aligned range of 2^order pages, at least a largest block, whose pages are all free,
    /// and makes its pageblocks movable. Returns the first page and the number of blocks it consisted of.
    pub fn take_contiguous(&mut self, order: u8, visit: &mut Visit) -> Option<(Pfn, u64)> {
        debug_assert!(order >= self.geometry.max_page_order);
        let mut runs = self.runs(order).map(|run| run << order..(run + 1) << order);
        let range = runs.find(|range| self.is_run_free(range))?;
        let (mut pfn, mut blocks) = (range.start, 0);
        while pfn < range.end {
            let mut taken = self.geometry.max_page_order;
            if !self.is_untouched(pfn) {
                taken = self.pages.get(pfn).order;
                self.unlink(pfn);
            }
            let record = self.pages.get_mut(pfn);
            record.list_type = MigrateType::Movable;
            visit.write(record);
            pfn += 1 << taken;
            blocks += 1;
        }
        self.take_untouched(&range);
        self.set_block_types(range.start, order, MigrateType::Movable);
        Some((range.start, blocks))
    }

    /// Takes the highest aligned range of 2^order pages, at least a largest block, out of never-used memory,
    /// as memblock does before this allocator exists.
    pub fn take_at_boot(&mut self, order: u8) -> Option<Pfn> {
        debug_assert!(order >= self.geometry.max_page_order);
        let pfn = self.untouched.iter().find_map(|range| {
            let highest = (range.end >> order).checked_sub(1)? << order;
            (highest >= range.start).then_some(highest)
        })?;
        self.take_untouched(&(pfn..pfn + (1 << order)));
        Some(pfn)
    }

    /// Frees a range of 2^order pages, at least a pageblock, one pageblock at a time.
    pub fn put_contiguous(&mut self, pfn: Pfn, order: u8, visit: &mut Visit) {
        debug_assert!(order >= self.geometry.pageblock_order);
        for block in (pfn..pfn + (1 << order)).step_by(1 << self.geometry.pageblock_order) {
            self.put(block, self.geometry.pageblock_order, self.block_type(block), visit);
        }
    }

    /// Memory of the page records, bytes.
    pub fn record_bytes(&self) -> usize {
        self.pages.bytes()
    }

    /// Checks the invariants between lists, records and pageblocks, and panics with the one that is broken.
    pub fn validate(&self, f: &Features) {
        for order in 0..=self.geometry.max_page_order {
            for migrate_type in MigrateType::ALL {
                let list = self.lists[order as usize][migrate_type as usize];
                let (mut pfn, mut prev, mut blocks) = (list.head, NO_PAGE, 0);
                while pfn != NO_PAGE {
                    let record = self.pages.get(pfn);
                    assert_eq!((record.order, record.list_type), (order, migrate_type), "page {pfn}");
                    assert_eq!(record.prev, prev, "page {pfn}: links disagree");
                    assert_eq!(pfn % (1 << order), 0, "page {pfn} is not aligned to order {order}");
                    assert!(
                        self.span.start <= pfn && pfn + (1 << order) <= self.span.end,
                        "page {pfn} leaves its zone"
                    );
                    if f.strict_freelists {
                        assert_eq!(
                            self.block_type(pfn),
                            migrate_type,
                            "page {pfn}: list and pageblock disagree"
                        );
                    }
                    let buddy = pfn ^ (1 << order);
                    if order < self.geometry.pageblock_order && self.span.contains(&buddy) {
                        assert_ne!(
                            self.pages.get(buddy).order,
                            order,
                            "pages {pfn} and {buddy} should have merged"
                        );
                    }
                    blocks += 1;
                    (prev, pfn) = (pfn, record.next);
                }
                assert_eq!((list.tail, list.blocks), (prev, blocks), "order {order} {migrate_type:?}");
            }
        }
    }
}
