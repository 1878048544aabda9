//! Frees and decay: what makes a list give blocks back to the zone, and how many?
//!
//! ```text
//!   free ─► (free_batched) ─► onto its list ─► count above high? ─► bulk free      compared in drains
//!   vmstat_update ──────────► high decays ───► pages beyond it? ──► decay
//! ```

use mm::MigrateType;
use mm::decisions::PcpDecisions;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::{self, ZonePressure};
use mm::pcp::{is_order_allowed, list_index};
use workload::trace::Event;

use super::Judge;
use crate::recordings::Hidden;
use crate::verify::Cause;
use crate::verify::pcp::history::Destination;

impl Judge<'_> {
    pub(super) fn free(&mut self, number: u32, event: &Event) {
        if self.history.is_batched(number) {
            if let Some(place) = self.place_of(event) {
                let pageset = self.pages(place).tuning;
                self.compare(number, place, &pageset);
            }
            self.orders.insert(event.pfn, event.order);
        } else {
            self.commit(number, event, event.order);
        }
    }

    /// A block goes onto its list.
    pub(super) fn commit(&mut self, number: u32, event: &Event, order: u8) {
        let Some(place) = self.place_of(event) else { return };
        let Some(migrate_type) = MigrateType::from_number(self.type_of(event.pfn)) else { return };
        if !is_order_allowed(order, PAGEBLOCK_ORDER) {
            return;
        }
        if self.is_past_lists(number) {
            // The lists are in the middle of the operation that holds the lock: no state to compare.
            self.hidden.insert(number, Hidden::FreeToBuddy);
            self.tally.causes.add(Cause::FreePastHeldLock, 1);
            return;
        }
        let before = self.pages(place).tuning;
        self.compare(number, place, &before);
        let f = self.features;
        let list = list_index(&f, order, migrate_type);
        if let Some(halved) = self.unknown_factors.get_mut(&place.slot) {
            *halved += 1;
        }
        let own = PcpDecisions::default();
        let due = self.pages(place).put(&f, &own, ZonePressure::default(), list, order, event.pfn);
        if let Some(due) = due {
            let mut predicted = Vec::new();
            let count = self.pages(place).tuning.count;
            for pages in policy::portions(due.pages, due.portion) {
                self.pages(place).take_for_zone(&f, pages, list, &mut predicted);
            }
            self.compare_drain(number, place, count, predicted);
        }
    }

    /// Whether a free passed the lists by: what became of the block tells, else the recording's annotation.
    fn is_past_lists(&self, number: u32) -> bool {
        match self.history.destination(number) {
            Destination::List => false,
            Destination::Buddy => true,
            Destination::Unknown => self.past_lists.contains(&number),
        }
    }

    /// The vmstat worker looks at one zone's lists.
    pub(super) fn decay(&mut self, number: u32, cpu: u16, zone: usize) {
        let Some(place) = self.place(cpu, zone) else { return };
        if self.lists[place.slot].is_none() {
            return;
        }
        let before = self.pages(place).tuning;
        self.compare(number, place, &before);
        let f = self.features;
        let (surplus, _) = policy::decay(&mut self.pages(place).tuning, &f);
        if surplus > 0 {
            let mut predicted = Vec::new();
            let count = self.pages(place).tuning.count;
            let portion = policy::decay_portion(&self.pages(place).tuning, &f, surplus);
            for pages in policy::portions(surplus, portion) {
                self.pages(place).take_for_zone(&f, pages, 0, &mut predicted);
            }
            self.compare_drain(number, place, count, predicted);
        }
        policy::note_decayed(&mut self.pages(place).tuning, &f);
    }
}
