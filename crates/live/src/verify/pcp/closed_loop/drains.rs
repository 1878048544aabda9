//! Bulk frees: the same number of pages, and the same blocks in the same order?
//!
//! ```text
//!   twin      a b c d e      which blocks its lists give, round robin from the tails
//!   kernel    a b   d e f    the pcpu_drain events that follow
//!             = =   = =      in order; c goes back to the list, f is taken off it: two corrections
//! ```
//!
//! A drain that the twin did not predict was asked for by another CPU, or the kernel had more on its lists. One that it
//! predicted and the kernel did not make shows that the kernel has fewer, but not how many: that is one difference, and the
//! same one at each free until the kernel drains, which shows its count again. Where no recorded states show it before,
//! those in between are left out and counted.
//!
//! ```text
//!   kernel's count   ....... high - 300 ............................. high: drains
//!   twin's           ....... high: drains │ high - 1, high - 1, ..... high: drains, judged again
//!                                a difference   left out
//! ```

use std::collections::{BTreeMap, BTreeSet};

use mm::MigrateType;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::Pageset;
use mm::pcp::{DrainedBlock, is_order_allowed, list_index};
use workload::trace::{Event, Operation};

use super::{INTERRUPT_EVENTS, Judge, Place, pcp_type};
use crate::verify::Cause;

impl Judge<'_> {
    /// The drain events that belong to the operation of record `number` on lists at `place`.
    fn recorded_drain(&mut self, number: u32, place: Place, first: u32) -> Vec<u32> {
        let zone = |event: &Event| self.description.zone_of(event.pfn);
        let mut numbers = Vec::new();
        let mut interrupted = false;
        for (at, event) in self.history.following(number).take(INTERRUPT_EVENTS * 50) {
            match event.operation {
                Operation::PcpuDrain if self.handled.contains(&at) => {}
                Operation::PcpuDrain if numbers.is_empty() && interrupted && event.pfn != first => {}
                Operation::PcpuDrain if zone(event) == Some(place.zone) => numbers.push(at),
                Operation::PcpuDrain | Operation::VmstatUpdateStart => {}
                _ if !numbers.is_empty() => break,
                Operation::VmstatUpdateEnd => break,
                // An interrupt's own operations came first.
                _ if at - number > INTERRUPT_EVENTS as u32 => break,
                _ => interrupted = true,
            }
        }
        if interrupted && !numbers.is_empty() {
            self.tally.causes.add(Cause::InterruptBeforeEvent, 1);
        }
        numbers
    }

    /// Compares a predicted bulk free with the recorded one, and makes the lists the kernel's. `count` is that
    /// before the bulk free.
    pub(super) fn compare_drain(
        &mut self,
        number: u32,
        place: Place,
        count: i32,
        predicted: Vec<DrainedBlock>,
    ) {
        let Some(first) = predicted.first() else { return };
        let numbers = self.recorded_drain(number, place, first.pfn);
        let pages = |event: &Event| 1u64 << event.order;
        let kernel_pages: u64 = numbers.iter().filter_map(|&at| self.history.event(at)).map(pages).sum();
        let twin_pages: u64 = predicted.iter().map(|block| 1 << block.order).sum();
        if kernel_pages == 0 && self.unknown_counts.contains(&place.slot) {
            self.tally.causes.add(Cause::UnknownCount, 1);
        } else {
            self.tally.bulk_frees.note(kernel_pages == twin_pages);
            self.tally.drained[1] += twin_pages;
            self.unknown_counts.remove(&place.slot);
        }
        self.settle_drain(&numbers, place, count, predicted);
        let Pageset { count, high, .. } = self.pages(place).tuning;
        if kernel_pages == 0 && count >= high {
            if !self.counts_are_recorded {
                self.unknown_counts.insert(place.slot);
            }
            self.shorten(place, high - 1);
        }
    }

    /// Compares the blocks of a bulk free, one by one, and makes the lists the kernel's.
    fn settle_drain(&mut self, numbers: &[u32], place: Place, mut count: i32, predicted: Vec<DrainedBlock>) {
        let recorded: Vec<(u32, u8)> = numbers
            .iter()
            .filter_map(|&at| self.history.event(at))
            .map(|event| (event.pfn, event.order))
            .collect();
        self.tally.drained[0] += recorded.iter().map(|&(_, order)| 1u64 << order).sum::<u64>();
        let expected: BTreeMap<u32, usize> =
            predicted.iter().enumerate().map(|(turn, block)| (block.pfn, turn)).collect();
        let mut turn = 0;
        for (index, &(pfn, order)) in recorded.iter().enumerate() {
            let own_turn = expected.get(&pfn).copied();
            let in_order = own_turn.is_some_and(|own_turn| own_turn >= turn);
            if in_order {
                turn = own_turn.map_or(turn, |own_turn| own_turn + 1);
            }
            self.tally.drained_in_order.note(in_order);
            self.tally.drained_in_burst.note(own_turn.is_some());
            count -= 1 << order;
            let pageset = Pageset { count, ..self.pages(place).tuning };
            self.compare(numbers[index], place, &pageset);
        }
        self.note_types(numbers);
        // What the kernel kept goes back, what it gave goes too.
        let given: BTreeSet<u32> = recorded.iter().map(|&(pfn, _)| pfn).collect();
        let f = self.features;
        let mut corrected = 0;
        for block in predicted.iter().rev().filter(|block| !given.contains(&block.pfn)) {
            let list = list_index(&f, block.order, block.list_type);
            self.pages(place).list_mut(list).push_back(block.pfn);
            self.pages(place).tuning.count += 1 << block.order;
            corrected += 1;
        }
        for &(pfn, order) in recorded.iter().filter(|(pfn, _)| !expected.contains_key(pfn)) {
            corrected += u64::from(self.remove(place, pfn, order));
        }
        self.tally.causes.add(Cause::ListsCorrected, corrected);
    }

    fn note_types(&mut self, numbers: &[u32]) {
        for &at in numbers {
            self.handled.insert(at);
            if let Some(event) = self.history.event(at)
                && let Ok(found) = u8::try_from(event.migratetype)
            {
                self.set_type(event.pfn, found);
            }
        }
    }

    /// A drain that nothing on this CPU called for: of another CPU's lists, or one that the twin did not predict. The
    /// kernel then had more pages on its lists, and as many as are missing to `high` are added.
    pub(super) fn unexpected_drain(&mut self, number: u32, event: &Event) {
        if self.handled.remove(&number) || !is_order_allowed(event.order, PAGEBLOCK_ORDER) {
            return;
        }
        let Some(place) = self.place_of(event) else { return };
        let others: Vec<Place> = (0..self.description.cpus)
            .filter(|&cpu| cpu != place.cpu)
            .filter_map(|cpu| self.place(cpu, place.zone).filter(|other| self.lists[other.slot].is_some()))
            .collect();
        if !self.holds(place, event.pfn, event.order)
            && others.iter().any(|&other| self.remove(other, event.pfn, event.order))
        {
            self.tally.causes.add(Cause::RemoteDrain, 1);
            self.note_types(&[number]);
            self.handled.remove(&number);
            return;
        }
        let same = |event: &Event| {
            event.operation == Operation::PcpuDrain && self.description.zone_of(event.pfn) == Some(place.zone)
        };
        let following = self.history.following(number).take_while(|(_, event)| same(event));
        let numbers: Vec<u32> = std::iter::once(number).chain(following.map(|(at, _)| at)).collect();
        self.tally.bulk_frees.note(false);
        let f = self.features;
        let Pageset { count, high, .. } = self.pages(place).tuning;
        let missing = (high - count).max(0);
        self.add_unseen(place, missing);
        let count = self.pages(place).tuning.count;
        let pages: i32 =
            numbers.iter().filter_map(|&at| self.history.event(at)).map(|event| 1 << event.order).sum();
        let first_list = list_index(&f, event.order, pcp_type(event).unwrap_or(MigrateType::Movable));
        let mut predicted = Vec::new();
        self.pages(place).take_for_zone(&f, pages, first_list, &mut predicted);
        self.settle_drain(&numbers, place, count, predicted);
        self.handled.remove(&number);
    }
}
