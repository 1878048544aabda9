//! The numbers of a pageset, where a recording has them: equal to the twin's?
//!
//! ```text
//!   starting lists ─► count = what is on them; the rest as recorded
//!   later states   ─► count, high, free_count, alloc_factor, flags: counted field by field, then taken over
//! ```
//!
//! A count that differs means that blocks came or went without an event, which [`super::corrections`] makes up for.

use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::PerCpuPages;
use mm::pcp::policy::Pageset;

use super::{Judge, Place};
use crate::recordings::State;
use crate::verify::Cause;
use crate::verify::pcp::tally::Field;

impl Judge<'_> {
    /// The lists of a CPU and zone are complete.
    pub(super) fn begin(&mut self, number: u32, cpu: u16, zone: u8) {
        let Some(place) = self.place(cpu, zone.into()) else { return };
        let bounds = &self.description.zones[place.zone];
        let (high_min, high_max, batch) = (bounds.high_min, bounds.high_max, bounds.batch);
        let pageset = Pageset { high_min, high_max, batch, ..Pageset::default() };
        let mut pages = PerCpuPages::new(pageset, PAGEBLOCK_ORDER);
        for &(_, _, list, pfn) in self.starting.iter().filter(|entry| (entry.0, entry.1) == (cpu, zone)) {
            pages.list_mut(list.into()).push_back(pfn);
        }
        self.starting.retain(|entry| (entry.0, entry.1) != (cpu, zone));
        pages.tuning.count = pages.counted(&self.features);
        if let Some(state) = self.states.get(&number) {
            take_over(&mut pages.tuning, state);
        }
        self.lists[place.slot] = Some(pages);
    }

    /// Compares the twin's state at record `number` with the recorded one, if there is one, and takes that over.
    pub(super) fn compare(&mut self, number: u32, place: Place, pageset: &Pageset) {
        let Some(state) = self.states.get(&number).copied() else { return };
        if (state.cpu, usize::from(state.zone)) != (place.cpu, place.zone) {
            return;
        }
        let flags = u8::from(pageset.prev_free_high_order) | u8::from(pageset.free_high_batch) << 1;
        let equal = [
            (Field::Count, pageset.count == state.count),
            (Field::High, pageset.high == state.high),
            (Field::FreeCount, pageset.free_count == state.free_count),
            (Field::AllocFactor, pageset.alloc_factor == state.alloc_factor),
            (Field::Flags, flags == state.flags),
        ];
        let exact = equal.iter().all(|&(_, equal)| equal);
        self.tally.states.note(exact);
        for (field, equal) in equal {
            self.tally.differing_fields[field as usize] += u64::from(!equal);
        }
        if !exact {
            self.add_foundlings(number, place, state.count - pageset.count);
            self.take_bulk_allocated(place, pageset.count - state.count);
            self.unknown_counts.remove(&place.slot);
            self.tally.causes.add(Cause::StateTakenOver, 1);
            take_over(&mut self.pages(place).tuning, &state);
        }
    }
}

/// Everything but the count, which is that of the lists.
fn take_over(pageset: &mut Pageset, state: &State) {
    pageset.high = state.high;
    pageset.free_count = state.free_count;
    pageset.alloc_factor = state.alloc_factor;
    pageset.prev_free_high_order = state.flags & 1 != 0;
    pageset.free_high_batch = state.flags & 2 != 0;
}
