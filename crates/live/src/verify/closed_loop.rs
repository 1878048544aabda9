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
//! that the zone gave are taken from the recording. What has no event is inferred from what is seen later: a block
//! in front of the one that is allocated, whose next event is a free, was taken by the bulk interface; a freed
//! block that is next taken from the buddy lists never was on a list; a block that is allocated without having been
//! freed had a free that the recorder missed. It is applied and counted ([`Cause`]). A decision or state that differs
//! is counted first, and then the lists are made the kernel's again, which is counted too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::{self, Pageset, ZonePressure};
use mm::pcp::{DrainedBlock, PerCpuPages, is_order_allowed, list_index};
use mm::{Features, MigrateType};
use workload::trace::{Event, NO_PAGE, Operation};

use super::history::{Destination, Fate, History, is_order, page_of};
use super::tally::{Field, Tally};
use super::{Cause, VerifyError, features};
use crate::recordings::{Description, Hidden, Record, Recording, State};

/// How many events of a CPU an interrupt may put between an operation and its event.
const INTERRUPT_EVENTS: usize = 200;

/// Stands for a block that the kernel has on its lists and that is never seen.
const UNSEEN: u32 = NO_PAGE;

/// Decision by decision through a recording.
pub fn closed_loop(recording: &Recording) -> Result<Tally, VerifyError> {
    let description = &recording.description;
    let features = features(&recording.name, &description.kernel)?;
    let history = History::load(recording)?;
    let annotations = recording.annotations()?;
    let past_lists = annotations.iter().filter(|annotation| annotation.hidden == Hidden::FreeToBuddy);
    let past_lists = past_lists.map(|annotation| annotation.record).collect();
    let states = recording.states()?;
    let mut judge = Judge::new(features, description, &history);
    judge.past_lists = past_lists;
    judge.states = states.iter().map(|state| (state.record, *state)).collect();
    for (number, record) in history.records().iter().enumerate() {
        judge.step(number as u32, record);
    }
    Ok(judge.tally)
}

/// What is known of a CPU's lists of a zone when they were emptied.
pub struct EmptyLists {
    /// Whose lists.
    pub cpu: u16,
    /// Index of the zone.
    pub zone: usize,
    /// Their numbers.
    pub pageset: Pageset,
}

/// What following a recording shows.
pub struct Followed {
    /// Agreement, decision by decision.
    pub tally: Tally,
    /// What no tracepoint shows, by record.
    pub hidden: BTreeMap<u32, Hidden>,
    /// `alloc_factor` at the start, by CPU and zone, where the first refill told it.
    pub factors: Vec<(u16, usize, u8)>,
}

/// Decision by decision through the records of `range`, from empty lists on and without recorded states. The first
/// order-0 refill of a CPU is not judged: it tells the CPU's `alloc_factor`, which no file shows.
pub fn follow(
    features: Features,
    description: &Description,
    history: &History,
    starts: Vec<EmptyLists>,
    range: Range<u32>,
) -> Followed {
    let mut judge = Judge::new(features, description, history);
    judge.whole_vmstat_runs = true;
    for start in starts {
        if let Some(place) = judge.place(start.cpu, start.zone) {
            judge.unknown_factors.insert(place.slot, 0);
            judge.lists[place.slot] = Some(PerCpuPages::new(Pageset { count: 0, ..start.pageset }));
        }
    }
    for (number, record) in history.records().iter().enumerate().take(range.end as usize) {
        let number = number as u32;
        if number >= range.start {
            judge.step(number, record);
        } else if let Some(pfn) = page_of(record) {
            judge.latest.insert(pfn, number);
        }
    }
    Followed { tally: judge.tally, hidden: judge.hidden, factors: judge.factors }
}

struct Judge<'a> {
    features: Features,
    description: &'a Description,
    history: &'a History,
    /// Frees that are annotated as having passed the lists by.
    past_lists: BTreeSet<u32>,
    states: BTreeMap<u32, State>,
    /// A vmstat event stands for all zones, not for one each.
    whole_vmstat_runs: bool,
    /// For lists whose `alloc_factor` is not known yet: how often it was halved so far.
    unknown_factors: BTreeMap<usize, u32>,
    /// What these turned out to be at the start, by CPU and zone.
    factors: Vec<(u16, usize, u8)>,
    /// What was inferred, by record.
    hidden: BTreeMap<u32, Hidden>,
    /// Type of each pageblock as far as known.
    types: Vec<u8>,
    /// By CPU and zone; `None` until its starting lists are complete.
    lists: Vec<Option<PerCpuPages>>,
    /// Blocks of starting lists that are not complete yet: CPU, zone, list, page frame.
    starting: Vec<(u16, u8, u8, u32)>,
    /// The latest record about each page.
    latest: HashMap<u32, u32>,
    /// Orders of freed blocks that wait for their `free_batched`.
    orders: BTreeMap<u32, u8>,
    /// Allocations that were served from the buddy lists.
    direct: BTreeSet<u32>,
    /// Blocks that an interrupted operation has taken already; their allocations are yet to come.
    early: BTreeSet<u32>,
    /// Allocations whose effect on the counters has been entered, at their refill.
    noted: BTreeSet<u32>,
    /// Records of blocks whose unseen way to a list has been made up for.
    added: BTreeSet<u32>,
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

impl<'a> Judge<'a> {
    fn new(features: Features, description: &'a Description, history: &'a History) -> Judge<'a> {
        Judge {
            features,
            description,
            history,
            past_lists: BTreeSet::new(),
            states: BTreeMap::new(),
            whole_vmstat_runs: false,
            unknown_factors: BTreeMap::new(),
            factors: Vec::new(),
            hidden: BTreeMap::new(),
            types: history.first_types(),
            lists: (0..description.zones.len() * usize::from(description.cpus)).map(|_| None).collect(),
            starting: Vec::new(),
            latest: HashMap::new(),
            orders: BTreeMap::new(),
            direct: BTreeSet::new(),
            early: BTreeSet::new(),
            noted: BTreeSet::new(),
            added: BTreeSet::new(),
            handled: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    fn step(&mut self, number: u32, record: &Record) {
        if let Some(pfn) = page_of(record) {
            self.latest.insert(pfn, number);
        }
        match *record {
            Record::Listed { cpu, zone, list, pfn } => self.starting.push((cpu, zone, list, pfn)),
            Record::ListsEnd { cpu, zone } => self.begin(number, cpu, zone),
            Record::Event(event) => {
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
            Operation::VmstatUpdateStart if self.whole_vmstat_runs => {
                (0..self.description.zones.len()).for_each(|zone| self.decay(number, event.cpu, zone));
            }
            Operation::VmstatUpdateStart => self.decay(number, event.cpu, event.argument as usize),
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

    /// Which `alloc_factor` makes the first refill one of `blocks` blocks.
    fn infer_factor(&mut self, place: Place, halved: u32, blocks: usize) {
        let f = self.features;
        let pageset = self.pages(place).tuning;
        let fits = |factor: &u8| {
            let mut tried = Pageset { alloc_factor: *factor, ..pageset };
            policy::nr_pcp_alloc(&mut tried, &f, ZonePressure::default(), 0) as usize == blocks
        };
        if let Some(factor) = (0..=policy::BATCH_SCALE_MAX).find(fits) {
            self.pages(place).tuning.alloc_factor = factor;
            let before =
                u32::from(factor).checked_shl(halved).unwrap_or(0).min(policy::BATCH_SCALE_MAX.into());
            self.factors.push((place.cpu, place.zone, before as u8));
        }
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

    fn fate(&self, pfn: u32) -> Fate {
        self.latest.get(&pfn).map_or(Fate::Unknown, |&number| self.history.fate(number))
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

    fn note_skipped(&mut self, number: u32, blocks: usize, order: u8) {
        if blocks > 0 {
            let before = match self.hidden.get(&number) {
                Some(Hidden::Skipped(pages)) => *pages,
                _ => 0,
            };
            self.hidden.insert(number, Hidden::Skipped(before + ((blocks as u32) << order)));
        }
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

    // Frees and drains

    fn free(&mut self, number: u32, event: &Event) {
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
    fn commit(&mut self, number: u32, event: &Event, order: u8) {
        let Some(place) = self.place_of(event) else { return };
        let Some(migrate_type) = MigrateType::from_number(self.type_of(event.pfn)) else { return };
        if !is_order_allowed(order) {
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
        let due = self.pages(place).put(&f, ZonePressure::default(), list, order, event.pfn);
        if let Some(due) = due {
            let mut predicted = Vec::new();
            let count = self.pages(place).tuning.count;
            let portion = policy::bulk_free_portion(&self.pages(place).tuning, &f, due.pages);
            for pages in policy::portions(due.pages, portion) {
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
    fn decay(&mut self, number: u32, cpu: u16, zone: usize) {
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
    fn compare_drain(&mut self, number: u32, place: Place, count: i32, predicted: Vec<DrainedBlock>) {
        let Some(first) = predicted.first() else { return };
        let numbers = self.recorded_drain(number, place, first.pfn);
        let pages = |event: &Event| 1u64 << event.order;
        let kernel_pages: u64 = numbers.iter().filter_map(|&at| self.history.event(at)).map(pages).sum();
        let twin_pages: u64 = predicted.iter().map(|block| 1 << block.order).sum();
        self.tally.bulk_frees.note(kernel_pages == twin_pages);
        self.tally.drained[1] += twin_pages;
        self.settle_drain(&numbers, place, count, predicted);
        let Pageset { count, high, .. } = self.pages(place).tuning;
        if kernel_pages == 0 && count >= high {
            // The kernel has fewer pages than that on its lists; which ones are gone may not be known.
            self.take_bulk_allocated(place, count - high + 1);
            let f = self.features;
            let Pageset { count, high, .. } = self.pages(place).tuning;
            let mut gone = Vec::new();
            self.pages(place).take_for_zone(&f, (count - high + 1).max(0), 0, &mut gone);
            self.tally.causes.add(Cause::ListsCorrected, gone.len() as u64);
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
    fn unexpected_drain(&mut self, number: u32, event: &Event) {
        if self.handled.remove(&number) || !is_order_allowed(event.order) {
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

    fn holds(&self, place: Place, pfn: u32, order: u8) -> bool {
        let types = MigrateType::ALL.into_iter().take(MigrateType::PCP_TYPES);
        let mut lists = types.map(|migrate_type| list_index(&self.features, order, migrate_type));
        let pages = self.lists[place.slot].as_ref();
        pages.is_some_and(|pages| lists.any(|list| pages.list(list).contains(&pfn)))
    }

    /// Adds pages that are never seen.
    fn add_unseen(&mut self, place: Place, pages: i32) {
        let list = list_index(&self.features, 0, MigrateType::Reclaimable);
        let pageset = self.pages(place);
        pageset.list_mut(list).extend((0..pages.max(0)).map(|_| UNSEEN));
        pageset.tuning.count += pages.max(0);
        self.tally.causes.add(Cause::MissedEvent, pages.max(0) as u64);
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
            self.add_foundlings(number, place, state.count - pageset.count);
            self.take_bulk_allocated(place, pageset.count - state.count);
            self.tally.causes.add(Cause::StateTakenOver, 1);
            take_over(&mut self.pages(place).tuning, &state);
        }
    }

    /// The kernel has `pages` fewer on its lists than the twin: takes blocks that are gone without an event, from
    /// the heads on, first those that are seen elsewhere later.
    fn take_bulk_allocated(&mut self, place: Place, pages: i32) {
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
    fn add_foundlings(&mut self, number: u32, place: Place, pages: i32) {
        let mut missing = pages;
        let mut found = Vec::new();
        for &(taken, cpu, pfn) in self.history.foundlings_after(number) {
            let event = self.history.event(taken).copied();
            let Some(event) = event.filter(|event| cpu == place.cpu && is_order_allowed(event.order)) else {
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

    fn type_of(&self, pfn: u32) -> u8 {
        self.types.get((pfn >> PAGEBLOCK_ORDER) as usize).copied().unwrap_or(MigrateType::Movable as u8)
    }

    /// Isolation is temporary and says nothing of the type that a pageblock has before and after.
    fn set_type(&mut self, pfn: u32, found: u8) {
        if MigrateType::from_number(found).is_some()
            && let Some(known) = self.types.get_mut((pfn >> PAGEBLOCK_ORDER) as usize)
        {
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
