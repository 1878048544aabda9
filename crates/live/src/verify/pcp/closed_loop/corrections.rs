//! Making the twin's lists the kernel's again, after a difference has been counted.
//!
//! ```text
//!   twin has more   ─► unseen blocks go first, then those that are seen allocated later: bulk allocation
//!   kernel has more ─► blocks that come off its lists later without having come onto them: foundlings,
//!                      then stand-ins that are never seen
//! ```

use mm::MigrateType;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::{is_order_allowed, list_index};
use workload::trace::Operation;

use super::{Judge, Place, UNSEEN, pcp_type};
use crate::verify::Cause;
use crate::verify::pcp::history::Fate;

impl Judge<'_> {
    pub(super) fn fate(&self, pfn: u32) -> Fate {
        self.latest.get(&pfn).map_or(Fate::Unknown, |&number| self.history.fate(number))
    }

    pub(super) fn holds(&self, place: Place, pfn: u32, order: u8) -> bool {
        let types = MigrateType::ALL.into_iter().take(MigrateType::PCP_TYPES);
        let mut lists = types.map(|migrate_type| list_index(&self.features, order, migrate_type));
        let pages = self.lists[place.slot].as_ref();
        pages.is_some_and(|pages| lists.any(|list| pages.list(list).contains(&pfn)))
    }

    /// Takes a block off whichever list it is on, the cold end first.
    pub(super) fn remove(&mut self, place: Place, pfn: u32, order: u8) -> bool {
        let f = self.features;
        for migrate_type in MigrateType::ALL.into_iter().take(MigrateType::PCP_TYPES) {
            if !is_order_allowed(order, PAGEBLOCK_ORDER) {
                return false;
            }
            let list = list_index(&f, order, migrate_type);
            let pages = self.pages(place);
            if let Some(depth) = pages.list(list).iter().rposition(|&listed| listed == pfn) {
                pages.list_mut(list).remove(depth);
                pages.tuning.count -= 1 << order;
                return true;
            }
        }
        false
    }

    /// Adds pages that are never seen.
    pub(super) fn add_unseen(&mut self, place: Place, pages: i32) {
        let list = list_index(&self.features, 0, MigrateType::Reclaimable);
        let pageset = self.pages(place);
        pageset.list_mut(list).extend((0..pages.max(0)).map(|_| UNSEEN));
        pageset.tuning.count += pages.max(0);
        self.tally.causes.add(Cause::MissedEvent, pages.max(0) as u64);
    }

    /// The kernel has `count` pages on its lists, whichever they are.
    pub(super) fn set_count(&mut self, number: u32, place: Place, count: i32) {
        let twin = self.pages(place).tuning.count;
        self.add_foundlings(number, place, count - twin);
        self.shorten(place, count);
        self.unknown_counts.remove(&place.slot);
    }

    /// The kernel has at most `count` pages on its lists; which ones are gone may not be known.
    pub(super) fn shorten(&mut self, place: Place, count: i32) {
        let surplus = |judge: &mut Judge| judge.pages(place).tuning.count - count;
        let missing = surplus(self);
        self.take_bulk_allocated(place, missing);
        let (missing, f) = (surplus(self).max(0), self.features);
        let mut gone = Vec::new();
        self.pages(place).take_for_zone(&f, missing, 0, &mut gone);
        self.tally.causes.add(Cause::ListsCorrected, gone.len() as u64);
    }

    /// The kernel has `pages` fewer on its lists than the twin: takes blocks that are gone without an event, from
    /// the heads on, first those that are seen elsewhere later.
    pub(super) fn take_bulk_allocated(&mut self, place: Place, pages: i32) {
        let f = self.features;
        let mut missing = pages;
        while missing > 0 && self.remove(place, UNSEEN, 0) {
            missing -= 1;
        }
        for fate in [Fate::Taken, Fate::Unknown] {
            for migrate_type in MigrateType::ALL.into_iter().take(MigrateType::PCP_TYPES) {
                let list = list_index(&f, 0, migrate_type);
                if missing <= 0 {
                    return;
                }
                let listed = self.lists[place.slot].iter().flat_map(|pages| pages.list(list).iter().copied());
                let gone: Vec<u32> =
                    listed.filter(|&pfn| self.fate(pfn) == fate).take(missing as usize).collect();
                for pfn in gone {
                    missing -= i32::from(self.remove(place, pfn, 0));
                    self.tally.causes.add(Cause::BulkAllocation, 1);
                }
            }
        }
    }

    /// The kernel has `pages` more on its lists than the twin: puts there blocks that come off them later although
    /// nothing was seen that brought them, what will be allocated to the head, what will be drained to the tail. Where
    /// there are not enough of them, pages that are never seen stand in.
    pub(super) fn add_foundlings(&mut self, number: u32, place: Place, pages: i32) {
        let mut missing = pages;
        let mut found = Vec::new();
        for &(taken, cpu, pfn) in self.history.foundlings_after(number) {
            let event = self.history.event(taken).copied();
            let Some(event) =
                event.filter(|event| cpu == place.cpu && is_order_allowed(event.order, PAGEBLOCK_ORDER))
            else {
                continue;
            };
            if missing < 1 << event.order {
                break;
            }
            if self.description.zone_of(pfn) == Some(place.zone) && self.added.insert(taken) {
                missing -= 1 << event.order;
                found.push(event);
            }
        }
        let f = self.features;
        for event in found.iter().rev() {
            let Some(migrate_type) = pcp_type(event) else { continue };
            let list = list_index(&f, event.order, migrate_type);
            let pages = self.pages(place);
            match event.operation {
                Operation::Alloc => pages.list_mut(list).push_front(event.pfn),
                _ => pages.list_mut(list).push_back(event.pfn),
            }
            pages.tuning.count += 1 << event.order;
            self.tally.causes.add(Cause::MissedEvent, 1);
        }
        self.add_unseen(place, missing);
    }
}
