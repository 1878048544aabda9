//! Refills: how many blocks does a list get when it is empty?
//!
//! ```text
//!   extfrag A, zone_locked A, zone_locked B, zone_locked C ─ then, of the same CPU ─► alloc A
//!   `─────────── burst: blocks A, B, C ───────────────────'                           owner, none if bulk
//! ```
//!
//! The blocks themselves are the recording's; how many, is the twin's to predict. A refill of another size tells of the
//! kernel's lists, and the twin goes on with that: of how often refills have doubled, or, near `high`, how many pages there
//! are.

use mm::MigrateType;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::{self, Pageset, ZonePressure};
use mm::pcp::{is_order_allowed, list_index};
use workload::trace::{Event, Operation};

use super::{INTERRUPT_EVENTS, Judge, Place, UNSEEN, pcp_type};
use crate::recordings::Hidden;
use crate::verify::Cause;
use crate::verify::pcp::history::{Fate, is_order};

impl Judge<'_> {
    /// The first event of a burst of blocks taken from the zone.
    pub(super) fn refill(&mut self, number: u32, event: &Event) {
        if self.handled.remove(&number) || !is_order(event.order) {
            return;
        }
        let (numbers, blocks) = self.burst(number, event);
        self.handled.extend(&numbers[1..]);
        let Some(migrate_type) = pcp_type(event) else { return };
        let listed = event.operation == Operation::Extfrag || event.argument == 1;
        if !listed || !is_order_allowed(event.order, PAGEBLOCK_ORDER) || blocks.is_empty() {
            return;
        }
        let Some(place) = self.place_of(event) else { return };
        for &pfn in &blocks {
            self.set_type(pfn, migrate_type as u8);
        }
        let owner = self.owner(*numbers.last().unwrap_or(&number), event, blocks[0]);
        let f = self.features;
        let list = list_index(&f, event.order, migrate_type);
        if blocks.len() == 1
            && let Some(owner) = owner
            && !self.pages(place).list(list).is_empty()
        {
            self.direct.insert(owner);
            self.hidden.insert(owner, Hidden::AllocFromBuddy);
            self.tally.causes.add(Cause::AllocationPastHeldLock, 1);
            return;
        }
        self.empty_before_refill(number, place, list, event.order);
        if let Some(owner) = owner {
            policy::note_alloc(&mut self.pages(place).tuning, &f);
            self.noted.insert(owner);
        }
        let halved = if event.order == 0 { self.unknown_factors.remove(&place.slot) } else { None };
        if let Some(halved) = halved {
            self.infer_factor(place, halved, blocks.len());
        }
        let before = self.pages(place).tuning;
        let predicted =
            policy::nr_pcp_alloc(&mut self.pages(place).tuning, &f, ZonePressure::default(), event.order);
        self.tally.refills.note(predicted as usize == blocks.len());
        self.tally.refilled[0] += (blocks.len() as u64) << event.order;
        self.tally.refilled[1] += (predicted.max(0) as u64) << event.order;
        let pageset = self.pages(place).tuning;
        for &at in &numbers {
            self.compare(at, place, &pageset);
        }
        let is_state_known = numbers.iter().any(|at| self.states.contains_key(at));
        if predicted as usize != blocks.len() && event.order == 0 && !is_state_known {
            self.learn_from_refill(number, place, &before, (predicted, blocks.len() as i32));
        }
        let pages = self.pages(place);
        pages.list_mut(list).extend(&blocks);
        pages.note_refilled(blocks.len(), event.order);
        if list == list_index(&f, 0, MigrateType::Unmovable) {
            self.give_to_stack(place);
        }
    }

    /// The `alloc_factor` that makes a refill of the lists one of `blocks` blocks.
    fn factor_for(&self, pageset: &Pageset, blocks: i32) -> Option<u8> {
        (0..=policy::BATCH_SCALE_MAX)
            .find(|&alloc_factor| self.is_refilled_with(Pageset { alloc_factor, ..*pageset }, blocks))
    }

    fn is_refilled_with(&self, mut pageset: Pageset, blocks: i32) -> bool {
        policy::nr_pcp_alloc(&mut pageset, &self.features, ZonePressure::default(), 0) == blocks
    }

    /// The first refill tells the `alloc_factor` that the lists started with, which was `halved` so often since.
    fn infer_factor(&mut self, place: Place, halved: u32, blocks: usize) {
        let pageset = self.pages(place).tuning;
        if let Some(factor) = self.factor_for(&pageset, blocks as i32) {
            self.pages(place).tuning.alloc_factor = factor;
            let before =
                u32::from(factor).checked_shl(halved).unwrap_or(0).min(policy::BATCH_SCALE_MAX.into());
            self.factors.push((place.cpu, place.zone, before as u8));
        }
    }

    /// What the refill `number` tells of lists that were in the state `before` in the twin, which predicted another size.
    fn learn_from_refill(&mut self, number: u32, place: Place, before: &Pageset, sizes: (i32, i32)) {
        let (predicted, blocks) = sizes;
        let missing = predicted - blocks;
        let factor = self.factor_for(before, blocks);
        let mut learnt = Pageset { alloc_factor: factor.unwrap_or(before.alloc_factor), ..*before };
        if factor.is_none() {
            if !self.is_refilled_with(Pageset { count: before.count + missing, ..*before }, blocks) {
                return;
            }
            self.set_count(number, place, before.count + missing);
            learnt.count += missing;
        }
        policy::nr_pcp_alloc(&mut learnt, &self.features, ZonePressure::default(), 0);
        let Pageset { alloc_factor, high, .. } = learnt;
        let tuning = &mut self.pages(place).tuning;
        (tuning.alloc_factor, tuning.high) = (alloc_factor, high);
        self.tally.causes.add(Cause::StateTakenOver, 1);
    }

    /// The events of a burst, and its blocks. A claimed pageblock shows as `extfrag` alone, or as `extfrag` and
    /// `zone_locked` of the same block.
    fn burst(&mut self, number: u32, first: &Event) -> (Vec<u32>, Vec<u32>) {
        let mut numbers = vec![number];
        let mut blocks = Vec::new();
        let mut last = *first;
        let following = self.history.following(number);
        let same = |event: &Event| {
            matches!(event.operation, Operation::ZoneLocked | Operation::Extfrag)
                && (event.order, event.migratetype, event.task)
                    == (first.order, first.migratetype, first.task)
        };
        for (at, event) in following.take_while(|(_, event)| same(event)) {
            if !(last.operation == Operation::Extfrag && last.pfn == event.pfn) {
                blocks.push(last.pfn);
                self.tally.causes.add(Cause::ClaimedBlock, u64::from(last.operation == Operation::Extfrag));
            }
            last = *event;
            numbers.push(at);
        }
        blocks.push(last.pfn);
        self.tally.causes.add(Cause::ClaimedBlock, u64::from(last.operation == Operation::Extfrag));
        (numbers, blocks)
    }

    /// The allocation that a burst was made for. A bulk allocation has none.
    fn owner(&self, last: u32, burst: &Event, first_block: u32) -> Option<u32> {
        let mut soon = self.history.following(last).take(INTERRUPT_EVENTS);
        let is_owner = |event: &Event| {
            event.operation == Operation::Alloc && (event.pfn, event.order) == (first_block, burst.order)
        };
        soon.find(|(_, event)| is_owner(event)).map(|(number, _)| number)
    }

    /// The kernel refills empty lists only: what the twin still has there was taken without an event, or its
    /// event is yet to come.
    fn empty_before_refill(&mut self, number: u32, place: Place, list: usize, order: u8) {
        let left: Vec<u32> = self.pages(place).list_mut(list).drain(..).collect();
        for pfn in left {
            if pfn == UNSEEN {
                // It is on another list then.
                self.pages(place).list_mut((list + 1) % MigrateType::PCP_TYPES).push_back(UNSEEN);
                continue;
            }
            let early = self.fate(pfn) == Fate::Listed;
            self.note_skipped(number, usize::from(!early), order);
            if early {
                self.early.insert(pfn);
            }
            self.tally.causes.add(if early { Cause::InterruptBeforeEvent } else { Cause::BulkAllocation }, 1);
            self.pages(place).tuning.count -= 1 << order;
        }
    }
}
