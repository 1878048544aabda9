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
//! freed had a free that the recorder missed. It is applied and counted ([`crate::verify::Cause`]). A decision or state that differs
//! is counted first, and then the lists are made the kernel's again, which is counted too.
//!
//! Here events find the lists they are about. Each kind of decision has a module: [`refills`], [`allocations`],
//! [`frees`], [`drains`], [`states`]; [`corrections`] brings lists back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::PerCpuPages;
use mm::pcp::policy::Pageset;
use mm::{Features, MigrateType};
use workload::trace::{Event, NO_PAGE, Operation};

use super::history::{History, page_of};
use super::tally::Tally;
use crate::recordings::{Description, Hidden, Record, Recording, State};
use crate::verify::{VerifyError, features};

mod allocations;
mod corrections;
mod drains;
mod frees;
mod refills;
mod states;
#[cfg(test)]
mod tests;

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
    judge.counts_are_recorded = true;
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
            judge.lists[place.slot] =
                Some(PerCpuPages::new(Pageset { count: 0, ..start.pageset }, PAGEBLOCK_ORDER));
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
    /// States come often enough to say how many pages are on the lists.
    counts_are_recorded: bool,
    /// Lists of which no more is known than that the kernel's are shorter than `high`.
    unknown_counts: BTreeSet<usize>,
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
    /// The zone that served the latest allocation of each CPU.
    zones: HashMap<u16, usize>,
    /// Pages of kernel stacks that the next refill of an unmovable list still has to give, by slot.
    owed_to_stacks: BTreeMap<usize, usize>,
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
            counts_are_recorded: false,
            unknown_counts: BTreeSet::new(),
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
            zones: HashMap::new(),
            owed_to_stacks: BTreeMap::new(),
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

    fn pages(&mut self, place: Place) -> &mut PerCpuPages {
        self.lists[place.slot].as_mut().expect("a place is only made for lists that have begun")
    }

    fn event(&mut self, number: u32, event: &Event) {
        match event.operation {
            Operation::Alloc => self.alloc(number, event),
            Operation::KernelStack => self.take_stack(event),
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

/// The type that an event asks for, if pagesets have lists of it.
fn pcp_type(event: &Event) -> Option<MigrateType> {
    let number = u8::try_from(event.migratetype).ok()?;
    MigrateType::from_number(number).filter(|migrate_type| migrate_type.is_mergeable())
}
