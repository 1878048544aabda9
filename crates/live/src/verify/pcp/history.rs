//! A recording in memory, with the questions that judging it asks: what comes next on this CPU, which free is a
//! batched one, of which type is this pageblock.
//!
//! ```text
//!   cpu 0   alloc ------------> alloc -> drain -> drain -> free        next() leads along one CPU
//!   cpu 1            free -----------------------> free
//! ```
//!
//! A free's tracepoint does not say the type of its pageblock, which decides on whose list it goes. It is known
//! from other events in the same 2 MiB: the last one before, or, when there was none yet, the first one after.

use std::collections::{HashMap, HashSet};

use workload::trace::{Event, NO_PAGE, Operation};

use crate::recordings::{Record, Recording};
use crate::verify::VerifyError;
use mm::MigrateType;
use mm::page::{MAX_PAGE_ORDER, PAGEBLOCK_ORDER};

/// No further record.
const END: u32 = u32::MAX;
const UNKNOWN: u8 = u8::MAX;
const MOVABLE: u8 = 1;

/// Events of a recording, by record number.
pub struct History {
    records: Vec<Record>,
    next: Vec<u32>,
    next_of_page: Vec<u32>,
    batched: Vec<bool>,
    destinations: Vec<Destination>,
    foundlings: Vec<Foundling>,
    /// First evidence of each pageblock's type.
    first_types: Vec<u8>,
}

impl History {
    /// Loads a recording.
    pub fn load(recording: &Recording) -> Result<History, VerifyError> {
        let records = recording.records()?.collect::<Result<Vec<_>, _>>()?;
        let zones = &recording.description.zones;
        Ok(History::new(records, zones.last().map_or(0, |zone| zone.pages.1)))
    }

    /// Events of a machine with page frames below `pages`.
    pub fn new(records: Vec<Record>, pages: u32) -> History {
        let batched = batched_frees(events(&records));
        let destinations = destinations(events(&records), &batched);
        let initial: Vec<u32> = records
            .iter()
            .filter_map(|record| if let Record::Listed { pfn, .. } = record { Some(*pfn) } else { None })
            .collect();
        let foundlings = foundlings(events(&records), &initial);
        let (next, next_of_page) = Default::default();
        let mut history = History {
            next,
            next_of_page,
            batched,
            destinations,
            foundlings,
            first_types: Vec::new(),
            records,
        };
        history.link();
        history.first_types = history.first_evidence(pages);
        history
    }

    fn link(&mut self) {
        let mut latest = [END; 256];
        let mut latest_of_page = HashMap::new();
        self.next = vec![END; self.records.len()];
        self.next_of_page = self.next.clone();
        for (number, record) in self.records.iter().enumerate().rev() {
            if let Record::Event(event) = record
                && is_of_pages(event.operation)
            {
                let latest = &mut latest[usize::from(event.cpu) % 256];
                self.next[number] = std::mem::replace(latest, number as u32);
            }
            if let Some(pfn) = page_of(record) {
                self.next_of_page[number] = latest_of_page.insert(pfn, number as u32).unwrap_or(END);
            }
        }
    }

    fn first_evidence(&self, pages: u32) -> Vec<u8> {
        let mut certain = vec![UNKNOWN; (pages >> PAGEBLOCK_ORDER) as usize + 1];
        let mut likely = certain.clone();
        for record in &self.records {
            let (types, pfn, found) = match record {
                Record::Listed { list, pfn, .. } if *list < 12 => (&mut certain, *pfn, list % 3),
                Record::Event(event) => match (event.operation, u8::try_from(event.migratetype)) {
                    (Operation::ZoneLocked | Operation::PcpuDrain, Ok(found)) => {
                        (&mut certain, event.pfn, found)
                    }
                    (Operation::Alloc, Ok(found)) => (&mut likely, event.pfn, found),
                    _ => continue,
                },
                _ => continue,
            };
            if let Some(known) = types.get_mut((pfn >> PAGEBLOCK_ORDER) as usize)
                && *known == UNKNOWN
                && MigrateType::from_number(found).is_some()
            {
                *known = found;
            }
        }
        let both = certain.into_iter().zip(likely);
        both.map(|(certain, likely)| if certain == UNKNOWN { likely } else { certain }).collect()
    }

    /// All records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The event of record `number`.
    pub fn event(&self, number: u32) -> Option<&Event> {
        match self.records.get(number as usize)? {
            Record::Event(event) => Some(event),
            _ => None,
        }
    }

    /// The events about pages that follow record `number` on its CPU.
    pub fn following(&self, number: u32) -> impl Iterator<Item = (u32, &Event)> {
        let mut at = number;
        std::iter::from_fn(move || {
            at = *self.next.get(at as usize)?;
            Some((at, self.event(at)?))
        })
    }

    /// What becomes of a block, record `number` being the latest about it and the block being on a list.
    pub fn fate(&self, number: u32) -> Fate {
        let next = self.next_of_page.get(number as usize).and_then(|&next| self.event(next));
        match next.map(|event| event.operation) {
            // A batched free is two records of one event.
            Some(Operation::FreeBatched) => self.fate(self.next_of_page[number as usize]),
            Some(Operation::Alloc | Operation::PcpuDrain) => Fate::Listed,
            Some(_) => Fate::Taken,
            None => Fate::Unknown,
        }
    }

    /// Whether the free of record `number` is completed by a later `free_batched`.
    pub fn is_batched(&self, number: u32) -> bool {
        self.batched[number as usize]
    }

    /// Where the block went that record `number` frees.
    pub fn destination(&self, number: u32) -> Destination {
        self.destinations[number as usize]
    }

    /// Blocks that come off lists after record `number` without having been seen to get there.
    pub fn foundlings_after(&self, number: u32) -> &[Foundling] {
        let first = self.foundlings.partition_point(|&(taken, ..)| taken <= number);
        &self.foundlings[first..]
    }

    /// The pageblock types as first seen; movable where nothing tells.
    pub fn first_types(&self) -> Vec<u8> {
        self.first_types.iter().map(|&t| if t == UNKNOWN { MOVABLE } else { t }).collect()
    }
}

/// Which frees are completed by a later `free_batched` of the same page, before it is allocated again.
pub fn batched_frees<'a>(events: impl Iterator<Item = Option<&'a Event>>) -> Vec<bool> {
    let mut batched = Vec::new();
    let mut frees = HashMap::new();
    for (number, event) in events.enumerate() {
        batched.push(false);
        let Some(event) = event else { continue };
        match event.operation {
            Operation::Free => {
                frees.insert(event.pfn, number);
            }
            Operation::FreeBatched => {
                if let Some(free) = frees.remove(&event.pfn) {
                    batched[free] = true;
                }
            }
            Operation::Alloc => {
                frees.remove(&event.pfn);
            }
            _ => {}
        }
    }
    batched
}

/// Record, CPU and page frame of an event that takes a block off a list to which none has brought it.
pub type Foundling = (u32, u16, u32);

/// Blocks that are allocated or drained although nothing was seen that brought them to a list: the recorder missed
/// a free, or a refill by the bulk interface.
fn foundlings<'a>(events: impl Iterator<Item = Option<&'a Event>>, initial: &[u32]) -> Vec<Foundling> {
    let mut found = Vec::new();
    let mut at_hand: HashSet<u32> = initial.iter().copied().collect();
    for (number, event) in events.enumerate() {
        let Some(event) = event.filter(|event| event.pfn != NO_PAGE) else { continue };
        match event.operation {
            Operation::Alloc | Operation::PcpuDrain if !at_hand.remove(&event.pfn) => {
                found.push((number as u32, event.cpu, event.pfn));
            }
            Operation::Free | Operation::FreeBatched | Operation::ZoneLocked | Operation::Extfrag => {
                at_hand.insert(event.pfn);
            }
            _ => {}
        }
    }
    found
}

/// What becomes of a block on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays until an event takes it off.
    Listed,
    /// It is gone without an event: the next one frees it, or takes it from the buddy lists.
    Taken,
    /// It is not seen again.
    Unknown,
}

/// The page that a record is about.
pub fn page_of(record: &Record) -> Option<u32> {
    match record {
        Record::Listed { pfn, .. } => Some(*pfn),
        Record::Event(event) => Some(event.pfn).filter(|&pfn| pfn != NO_PAGE),
        Record::ListsEnd { .. } => None,
    }
}

/// Where a freed block went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// It was not seen again.
    Unknown,
    /// On a list: it was allocated from there, or drained.
    List,
    /// Past the lists: it came back from the buddy lists without having been drained.
    Buddy,
}

/// Where each free led, or `free_batched` where that completes it, by what is seen next of the block.
pub fn destinations<'a>(
    events: impl Iterator<Item = Option<&'a Event>>,
    batched: &[bool],
) -> Vec<Destination> {
    let mut destinations = vec![Destination::Unknown; batched.len()];
    let mut freed = HashMap::new();
    for (number, event) in events.enumerate() {
        let Some(event) = event else { continue };
        match event.operation {
            Operation::Free if !batched[number] => {
                freed.insert(event.pfn, number);
            }
            Operation::FreeBatched => {
                freed.insert(event.pfn, number);
            }
            Operation::Alloc | Operation::PcpuDrain => {
                if let Some(free) = freed.remove(&event.pfn) {
                    destinations[free] = Destination::List;
                }
            }
            Operation::ZoneLocked | Operation::Extfrag if is_order(event.order) => {
                for pfn in event.pfn..event.pfn.saturating_add(1 << event.order) {
                    if let Some(free) = freed.remove(&pfn) {
                        destinations[free] = Destination::Buddy;
                    }
                }
            }
            _ => {}
        }
    }
    destinations
}

/// The event of each record, if it is one.
fn events(records: &[Record]) -> impl Iterator<Item = Option<&Event>> {
    records.iter().map(|record| if let Record::Event(event) = record { Some(event) } else { None })
}

/// Events that say something about pages or their lists.
fn is_of_pages(operation: Operation) -> bool {
    use Operation::*;
    matches!(
        operation,
        Alloc | Free | FreeBatched | PcpuDrain | ZoneLocked | Extfrag | VmstatUpdateStart | VmstatUpdateEnd
    )
}

/// Whether a block of this order can exist at all; streams are not to be trusted.
pub fn is_order(order: u8) -> bool {
    order <= MAX_PAGE_ORDER
}
