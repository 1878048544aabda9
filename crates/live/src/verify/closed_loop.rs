//! The closed loop: after every operation of the kernel, what would the twin do now?
//!
//! ```text
//!   recorded                          twin
//!   zone_locked x 126, alloc          nr_pcp_alloc() = 126 ?     the blocks of the recording are refilled
//!   free, pcpu_drain x 63             put() -> 63 pages ?        and the same 63, in this order ?
//!   vmstat_update, pcpu_drain x 12    decay() -> 12 pages ?
//!   state in some events              count, high, free_count, alloc_factor, flags ?
//! ```
//!
//! Each CPU's lists of each zone start as recorded. The twin decides by itself from there on; only the page frames
//! that the zone gave are taken from the recording. Three things have no event: bulk allocations and frees past a
//! held lock are taken from the recording's annotations, or from a block being allocated that was not at the head
//! of its list; an interrupt between an operation and its event shows when the order of two events is not that
//! of the list. They are applied and counted ([`Cause`]). A decision that differs is counted, and then the lists are
//! made the kernel's again, which is counted too.

use std::collections::{BTreeMap, BTreeSet};

use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::{self, Pageset, ZonePressure};
use mm::pcp::{DrainedBlock, PerCpuPages, is_order_allowed, list_index};
use mm::{Features, MigrateType};
use workload::trace::{Event, NO_PAGE, Operation};

use super::history::{History, is_order};
use super::tally::{Field, Tally};
use super::{Cause, VerifyError, features};
use crate::recordings::{Description, Hidden, Record, Recording, State};

/// How many events of a CPU an interrupt may put between an operation and its event.
const INTERRUPT_EVENTS: usize = 200;

/// Decision by decision through a recording.
pub fn closed_loop(recording: &Recording) -> Result<Tally, VerifyError> {
    let description = &recording.description;
    let features = features(&recording.name, &description.kernel)?;
    let history = History::load(recording)?;
    let annotations = recording.annotations()?;
    let annotations = annotations.iter().map(|annotation| (annotation.record, annotation.hidden)).collect();
    let states = recording.states()?;
    let mut judge = Judge {
        features,
        description,
        history: &history,
        annotations,
        states: states.iter().map(|state| (state.record, *state)).collect(),
        types: history.first_types(),
        lists: (0..description.zones.len() * usize::from(description.cpus)).map(|_| None).collect(),
        starting: Vec::new(),
        orders: BTreeMap::new(),
        direct: BTreeSet::new(),
        noted: BTreeSet::new(),
        handled: BTreeSet::new(),
        tally: Tally::default(),
    };
    for (number, record) in history.records().iter().enumerate() {
        judge.step(number as u32, record);
    }
    Ok(judge.tally)
}

struct Judge<'a> {
    features: Features,
    description: &'a Description,
    history: &'a History,
    annotations: BTreeMap<u32, Hidden>,
    states: BTreeMap<u32, State>,
    /// Type of each pageblock as far as known.
    types: Vec<u8>,
    /// By CPU and zone; `None` until its starting lists are complete.
    lists: Vec<Option<PerCpuPages>>,
    /// Blocks of starting lists that are not complete yet: CPU, zone, list, page frame.
    starting: Vec<(u16, u8, u8, u32)>,
    /// Orders of freed blocks that wait for their `free_batched`.
    orders: BTreeMap<u32, u8>,
    /// Allocations that were served from the buddy lists.
    direct: BTreeSet<u32>,
    /// Allocations whose effect on the counters has been entered, at their refill.
    noted: BTreeSet<u32>,
    /// Drain and refill events that have been dealt with.
    handled: BTreeSet<u32>,
    tally: Tally,
}

/// Where a block's lists are.
#[derive(Clone, Copy)]
struct Place {
    cpu: u16,
    zone: usize,
    slot: usize,
}

impl Judge<'_> {
    fn step(&mut self, number: u32, record: &Record) {
        match *record {
            Record::Listed { cpu, zone, list, pfn } => self.starting.push((cpu, zone, list, pfn)),
            Record::ListsEnd { cpu, zone } => self.begin(number, cpu, zone),
            Record::Event(event) => {
                if let Some(&Hidden::BulkAlloc(pages)) = self.annotations.get(&number) {
                    self.bulk_alloc(number, event.cpu, pages);
                }
                self.event(number, &event);
            }
        }
    }

    fn place(&self, cpu: u16, zone: usize) -> Option<Place> {
        let known = cpu < self.description.cpus && zone < self.description.zones.len();
        known.then(|| Place { cpu, zone, slot: usize::from(cpu) * self.description.zones.len() + zone })
    }

    /// Where the lists are that a block of `event` would be on, if they have begun.
    fn place_of(&self, event: &Event) -> Option<Place> {
        let place = self.place(event.cpu, self.description.zone_of(event.pfn)?)?;
        self.lists[place.slot].is_some().then_some(place)
    }

    /// The lists of a CPU and zone are complete.
    fn begin(&mut self, number: u32, cpu: u16, zone: u8) {
        let Some(place) = self.place(cpu, zone.into()) else { return };
        let bounds = &self.description.zones[place.zone];
        let mut pages = PerCpuPages::new(Pageset {
            high_min: bounds.high_min,
            high_max: bounds.high_max,
            batch: bounds.batch,
            ..Pageset::default()
        });
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

    fn pages(&mut self, place: Place) -> &mut PerCpuPages {
        self.lists[place.slot].as_mut().expect("a place is only made for lists that have begun")
    }

    fn event(&mut self, number: u32, event: &Event) {
        match event.operation {
            Operation::Alloc => self.alloc(number, event),
            Operation::Free => self.free(number, event),
            Operation::FreeBatched => {
                let order = self.orders.remove(&event.pfn).unwrap_or(0);
                self.commit(number, event, order);
            }
            Operation::ZoneLocked | Operation::Extfrag => self.refill(number, event),
            Operation::PcpuDrain => self.unexpected_drain(number, event),
            Operation::VmstatUpdateStart => self.decay(number, event),
            Operation::VmstatUpdateEnd => {
                if let Some(place) = self.place(event.cpu, event.argument as usize)
                    && self.lists[place.slot].is_some()
                {
                    let pageset = self.pages(place).tuning;
                    self.compare(number, place, &pageset);
                }
            }
            _ => {}
        }
    }

    // Refills and allocations

    /// The first event of a burst of blocks taken from the zone.
    fn refill(&mut self, number: u32, event: &Event) {
        if self.handled.remove(&number) || !is_order(event.order) {
            return;
        }
        let (numbers, blocks) = self.burst(number, event);
        self.handled.extend(&numbers[1..]);
        let Some(migrate_type) = pcp_type(event) else { return };
        let listed = event.operation == Operation::Extfrag || event.argument == 1;
        if !listed || !is_order_allowed(event.order) || blocks.is_empty() {
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
            self.tally.causes.add(Cause::AllocationPastHeldLock, 1);
            return;
        }
        self.empty_before_refill(number, place, list, event.order);
        if let Some(owner) = owner {
            policy::note_alloc(&mut self.pages(place).tuning, &f);
            self.noted.insert(owner);
        }
        let predicted =
            policy::nr_pcp_alloc(&mut self.pages(place).tuning, &f, ZonePressure::default(), event.order);
        self.tally.refills.note(predicted as usize == blocks.len());
        self.tally.refilled[0] += (blocks.len() as u64) << event.order;
        self.tally.refilled[1] += (predicted.max(0) as u64) << event.order;
        let pageset = self.pages(place).tuning;
        for &at in &numbers {
            self.compare(at, place, &pageset);
        }
        let pages = self.pages(place);
        pages.list_mut(list).extend(&blocks);
        pages.note_refilled(blocks.len(), event.order);
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
        let left: Vec<u32> = self.pages(place).list(list).iter().copied().collect();
        for pfn in left {
            if std::env::var("DBG2").is_ok() {
                eprintln!("{number} left cpu {} list {list} pfn {pfn}", place.cpu);
            }
            if let Some(owner) = self.event_to_come(number, place.cpu, pfn) {
                // Its own event will find it gone.
                self.direct.insert(owner);
                self.tally.causes.add(Cause::InterruptBeforeEvent, 1);
            } else {
                self.tally.causes.add(Cause::BulkAllocation, 1);
            }
            self.pages(place).tuning.count -= 1 << order;
        }
        self.pages(place).list_mut(list).clear();
    }

    /// The event of an allocation of `pfn` that an interrupt keeps back.
    fn event_to_come(&self, number: u32, cpu: u16, pfn: u32) -> Option<u32> {
        debug_assert!(cpu < self.description.cpus);
        let soon = self.history.following(number).take(INTERRUPT_EVENTS);
        for (at, event) in soon {
            match event.operation {
                Operation::Alloc if event.pfn == pfn => return Some(at),
                Operation::Free if event.pfn == pfn => return None,
                _ => {}
            }
        }
        None
    }

    fn alloc(&mut self, number: u32, event: &Event) {
        if self.direct.remove(&number) || event.pfn == NO_PAGE || !is_order_allowed(event.order) {
            return;
        }
        let (Some(migrate_type), Some(place)) = (pcp_type(event), self.place_of(event)) else { return };
        let f = self.features;
        if !self.noted.remove(&number) {
            policy::note_alloc(&mut self.pages(place).tuning, &f);
        }
        let list = list_index(&f, event.order, migrate_type);
        if self.pages(place).list(list).front() == Some(&event.pfn) {
            self.pages(place).take(&f, list, event.order);
        } else {
            self.take_deeper(number, place, list, event);
        }
        let pageset = self.pages(place).tuning;
        self.compare(number, place, &pageset);
    }

    /// The allocated block is not where the twin would have taken it from.
    fn take_deeper(&mut self, number: u32, place: Place, list: usize, event: &Event) {
        if std::env::var("DBG2").is_ok() {
            eprintln!(
                "{number} deeper cpu {} list {list} pfn {} at {:?} of {}",
                place.cpu,
                event.pfn,
                self.lists[place.slot].as_ref().unwrap().list(list).iter().position(|&p| p == event.pfn),
                self.lists[place.slot].as_ref().unwrap().list(list).len()
            );
        }
        let f = self.features;
        let found = self.pages(place).list(list).iter().position(|&pfn| pfn == event.pfn);
        if let Some(depth) = found {
            let before: Vec<u32> = self.pages(place).list(list).iter().take(depth).copied().collect();
            let kept: Vec<u32> = before
                .iter()
                .copied()
                .filter(|&pfn| self.event_to_come(number, place.cpu, pfn).is_some())
                .collect();
            let taken = before.len() - kept.len();
            let cause = if taken == 0 { Cause::InterruptBeforeEvent } else { Cause::BulkAllocation };
            self.tally.causes.add(cause, taken.max(1) as u64);
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

    /// `pages` base pages left some list of this CPU before record `number`. Which list shows at the next
    /// allocations from each: the one whose next block is that deep.
    fn bulk_alloc(&mut self, number: u32, cpu: u16, pages: u32) {
        let zone = self.description.zones.len() - 1;
        let Some(place) = self.place(cpu, zone).filter(|place| self.lists[place.slot].is_some()) else {
            return;
        };
        let f = self.features;
        let wanted = pages as usize;
        let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        let list = types.into_iter().find(|&migrate_type| {
            let list = list_index(&f, 0, migrate_type);
            let here = self.event_is_alloc(number, migrate_type);
            let next = here.or_else(|| self.next_alloc_of(number, migrate_type));
            let depth = next.and_then(|next| {
                self.lists[place.slot].as_ref()?.list(list).iter().position(|&pfn| pfn == next)
            });
            depth.is_some_and(|depth| depth >= wanted)
        });
        let list = list_index(&f, 0, list.unwrap_or(MigrateType::Unmovable));
        let lists = self.pages(place);
        let taken = wanted.min(lists.list(list).len());
        lists.list_mut(list).drain(..taken);
        lists.tuning.count -= taken as i32;
        self.tally.causes.add(Cause::BulkAllocation, taken as u64);
    }

    fn event_is_alloc(&self, number: u32, migrate_type: MigrateType) -> Option<u32> {
        self.history.event(number).filter(|event| is_alloc_of(event, migrate_type)).map(|event| event.pfn)
    }

    fn next_alloc_of(&self, number: u32, migrate_type: MigrateType) -> Option<u32> {
        let mut soon = self.history.following(number).take(10 * INTERRUPT_EVENTS);
        soon.find(|(_, event)| is_alloc_of(event, migrate_type)).map(|(_, event)| event.pfn)
    }

    // Frees and drains

    fn free(&mut self, number: u32, event: &Event) {
        if self.annotations.get(&number) == Some(&Hidden::FreeToBuddy) {
            self.tally.causes.add(Cause::FreePastHeldLock, 1);
        } else if self.history.is_batched(number) {
            self.orders.insert(event.pfn, event.order);
        } else {
            self.commit(number, event, event.order);
        }
    }

    /// A block goes onto its list.
    fn commit(&mut self, number: u32, event: &Event, order: u8) {
        let Some(place) = self.place_of(event) else { return };
        let Some(migrate_type) = MigrateType::from_number(self.type_of(event.pfn)) else { return };
        if !is_order_allowed(order) {
            return;
        }
        let before = self.pages(place).tuning;
        self.compare(number, place, &before);
        if self.history.is_past_lists(number) {
            self.tally.causes.add(Cause::FreePastHeldLock, 1);
            return;
        }
        let f = self.features;
        let list = list_index(&f, order, migrate_type);
        let due = self.pages(place).put(&f, ZonePressure::default(), list, order, event.pfn);
        if let Some(due) = due {
            let mut predicted = Vec::new();
            let count = self.pages(place).tuning.count;
            self.pages(place).take_for_zone(&f, due.pages, list, &mut predicted);
            self.compare_drain(number, place, count, predicted);
        }
    }

    /// The vmstat worker looks at one zone's lists.
    fn decay(&mut self, number: u32, event: &Event) {
        let Some(place) = self.place(event.cpu, event.argument as usize) else { return };
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
            self.pages(place).take_for_zone(&f, surplus, 0, &mut predicted);
            self.compare_drain(number, place, count, predicted);
        }
        policy::note_decayed(&mut self.pages(place).tuning, &f);
    }

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
    fn compare_drain(&mut self, number: u32, place: Place, mut count: i32, predicted: Vec<DrainedBlock>) {
        let Some(first) = predicted.first() else { return };
        let numbers = self.recorded_drain(number, place, first.pfn);
        let recorded: Vec<(u32, u8)> = numbers
            .iter()
            .filter_map(|&at| self.history.event(at))
            .map(|event| (event.pfn, event.order))
            .collect();
        let kernel_pages: u64 = recorded.iter().map(|&(_, order)| 1 << order).sum();
        let twin_pages: u64 = predicted.iter().map(|block| 1 << block.order).sum();
        self.tally.bulk_frees.note(kernel_pages == twin_pages);
        self.tally.drained[0] += kernel_pages;
        self.tally.drained[1] += twin_pages;
        let expected: BTreeMap<u32, DrainedBlock> =
            predicted.iter().map(|block| (block.pfn, *block)).collect();
        for (index, &(pfn, order)) in recorded.iter().enumerate() {
            self.tally.drained_in_order.note(predicted.get(index).is_some_and(|block| block.pfn == pfn));
            self.tally.drained_in_burst.note(expected.contains_key(&pfn));
            count -= 1 << order;
            let pageset = Pageset { count, ..self.pages(place).tuning };
            self.compare(numbers[index], place, &pageset);
        }
        self.note_types(&numbers);
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

    /// A drain that nothing on this CPU called for: of another CPU's lists, or one that the twin did not predict.
    fn unexpected_drain(&mut self, number: u32, event: &Event) {
        if self.handled.remove(&number) {
            return;
        }
        let Some(place) = self.place_of(event) else { return };
        let own = self.remove(place, event.pfn, event.order);
        let others = (0..self.description.cpus).filter(|&cpu| cpu != place.cpu);
        let others: Vec<Place> = others.filter_map(|cpu| self.place(cpu, place.zone)).collect();
        let remote = !own
            && others
                .iter()
                .any(|&other| self.lists[other.slot].is_some() && self.remove(other, event.pfn, event.order));
        if remote {
            self.tally.causes.add(Cause::RemoteDrain, 1);
        } else {
            self.tally.drained[0] += 1 << event.order;
            self.tally.drained_in_order.note(false);
            self.tally.drained_in_burst.note(false);
            self.tally.causes.add(Cause::ListsCorrected, u64::from(own));
        }
        if let Ok(found) = u8::try_from(event.migratetype) {
            self.set_type(event.pfn, found);
        }
    }

    /// Takes a block off whichever list it is on, the cold end first.
    fn remove(&mut self, place: Place, pfn: u32, order: u8) -> bool {
        let f = self.features;
        for migrate_type in MigrateType::ALL.into_iter().take(MigrateType::PCP_TYPES) {
            if !is_order_allowed(order) {
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

    // States and pageblocks

    /// Compares the twin's state at record `number` with the recorded one, if there is one, and takes that over.
    fn compare(&mut self, number: u32, place: Place, pageset: &Pageset) {
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
            if std::env::var("DBG").is_ok() {
                eprintln!(
                    "{number} cpu {} zone {} twin {pageset:?} kernel {state:?} {:?}",
                    place.cpu,
                    place.zone,
                    self.history.event(number)
                );
            }
            self.tally.causes.add(Cause::StateTakenOver, 1);
            take_over(&mut self.pages(place).tuning, &state);
        }
    }

    fn type_of(&self, pfn: u32) -> u8 {
        self.types.get((pfn >> PAGEBLOCK_ORDER) as usize).copied().unwrap_or(MigrateType::Movable as u8)
    }

    fn set_type(&mut self, pfn: u32, found: u8) {
        if let Some(known) = self.types.get_mut((pfn >> PAGEBLOCK_ORDER) as usize) {
            *known = found;
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

/// The type that an event asks for, if pagesets have lists of it.
fn pcp_type(event: &Event) -> Option<MigrateType> {
    let number = u8::try_from(event.migratetype).ok()?;
    MigrateType::from_number(number).filter(|migrate_type| migrate_type.is_mergeable())
}

fn is_alloc_of(event: &Event, migrate_type: MigrateType) -> bool {
    event.operation == Operation::Alloc && event.order == 0 && pcp_type(event) == Some(migrate_type)
}
