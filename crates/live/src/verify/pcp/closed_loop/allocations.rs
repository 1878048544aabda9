//! Allocations: is the block the one that the twin would have taken, the first of its list?
//!
//! ```text
//!   list of the twin   a  b  c  d      the kernel allocates c
//!                      `--' a and b went before, without an event; if they come off a list later, an interrupt
//!                           put its events in between
//! ```

use mm::MigrateType;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::{is_order_allowed, list_index, policy};
use workload::trace::{Event, NO_PAGE};

use super::{Judge, Place, pcp_type};
use crate::recordings::Hidden;
use crate::verify::Cause;
use crate::verify::pcp::history::Fate;

impl Judge<'_> {
    pub(super) fn alloc(&mut self, number: u32, event: &Event) {
        self.zones.extend(self.description.zone_of(event.pfn).map(|zone| (event.cpu, zone)));
        if self.direct.remove(&number)
            || event.pfn == NO_PAGE
            || !is_order_allowed(event.order, PAGEBLOCK_ORDER)
        {
            return;
        }
        let (Some(migrate_type), Some(place)) = (pcp_type(event), self.place_of(event)) else { return };
        let f = self.features;
        if !self.noted.remove(&number) {
            policy::note_alloc(&mut self.pages(place).tuning, &f);
        }
        let list = list_index(&f, event.order, migrate_type);
        if self.early.remove(&event.pfn) {
            return;
        }
        if self.pages(place).list(list).front() == Some(&event.pfn) {
            self.pages(place).take(&f, list, event.order);
        } else {
            self.take_deeper(number, place, list, event);
        }
        let pageset = self.pages(place).tuning;
        self.compare(number, place, &pageset);
    }

    /// `alloc_pages_bulk` takes the pages of a kernel stack from the front of the unmovable list; what the list
    /// lacks, from the refill that follows. No event tells the zone: it is that of other allocations at the time.
    pub(super) fn take_stack(&mut self, event: &Event) {
        let zone = self.zones.get(&event.cpu).copied();
        let Some(place) = zone.and_then(|zone| self.place(event.cpu, zone)) else { return };
        if self.lists[place.slot].is_some() {
            self.owed_to_stacks.insert(place.slot, event.stack_pages() as usize);
            self.give_to_stack(place);
        }
    }

    /// Takes from the unmovable list what a kernel stack is still owed.
    pub(super) fn give_to_stack(&mut self, place: Place) {
        let Some(owed) = self.owed_to_stacks.remove(&place.slot) else { return };
        let list = list_index(&self.features, 0, MigrateType::Unmovable);
        let pages = self.pages(place);
        let given = owed.min(pages.list(list).len());
        pages.list_mut(list).drain(..given);
        pages.tuning.count -= given as i32;
        if given < owed {
            self.owed_to_stacks.insert(place.slot, owed - given);
        }
    }

    /// The allocated block is not where the twin would have taken it from.
    fn take_deeper(&mut self, number: u32, place: Place, list: usize, event: &Event) {
        let f = self.features;
        let found = self.pages(place).list(list).iter().position(|&pfn| pfn == event.pfn);
        if let Some(depth) = found {
            let before: Vec<u32> = self.pages(place).list(list).iter().take(depth).copied().collect();
            let kept: Vec<u32> =
                before.iter().copied().filter(|&pfn| self.fate(pfn) == Fate::Listed).collect();
            let taken = before.len() - kept.len();
            let cause = if taken == 0 { Cause::InterruptBeforeEvent } else { Cause::BulkAllocation };
            self.tally.causes.add(cause, taken.max(1) as u64);
            self.note_skipped(number, taken, event.order);
            let pages = self.pages(place);
            pages.tuning.count -= ((taken as i32) + 1) << event.order;
            pages.list_mut(list).drain(..=depth);
            kept.iter().rev().for_each(|&pfn| pages.list_mut(list).push_front(pfn));
            return;
        }
        for other in MigrateType::ALL.into_iter().take(MigrateType::PCP_TYPES) {
            let other = list_index(&f, event.order, other);
            let pages = self.pages(place);
            if let Some(depth) = pages.list(other).iter().position(|&pfn| pfn == event.pfn) {
                pages.list_mut(other).remove(depth);
                pages.tuning.count -= 1 << event.order;
                self.tally.causes.add(Cause::UnknownPageblockType, 1);
                return;
            }
        }
        self.tally.causes.add(Cause::UnknownOrigin, 1);
    }

    pub(super) fn note_skipped(&mut self, number: u32, blocks: usize, order: u8) {
        if blocks > 0 {
            let before = match self.hidden.get(&number) {
                Some(Hidden::Skipped(pages)) => *pages,
                _ => 0,
            };
            self.hidden.insert(number, Hidden::Skipped(before + ((blocks as u32) << order)));
        }
    }
}
