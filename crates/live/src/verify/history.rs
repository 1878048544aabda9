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

use workload::trace::{Event, Operation};

use super::VerifyError;
use crate::recordings::{Record, Recording};
use mm::page::{MAX_PAGE_ORDER, PAGEBLOCK_ORDER};

/// No further record.
const END: u32 = u32::MAX;
const UNKNOWN: u8 = u8::MAX;
const MOVABLE: u8 = 1;

/// Events of a recording, by record number.
pub struct History {
    records: Vec<Record>,
    next: Vec<u32>,
    batched: Vec<bool>,
    past_lists: Vec<bool>,
    /// First evidence of each pageblock's type.
    first_types: Vec<u8>,
}

impl History {
    /// Loads a recording.
    pub fn load(recording: &Recording) -> Result<History, VerifyError> {
        let records = recording.records()?.collect::<Result<Vec<_>, _>>()?;
        let zones = &recording.description.zones;
        let pages = zones.last().map_or(0, |zone| zone.pages.1);
        let events =
            records.iter().map(|record| if let Record::Event(event) = record { Some(event) } else { None });
        let batched = batched_frees(events);
        let events = records.iter().map(|record| if let Record::Event(event) = record { Some(event) } else { None });
        let past_lists = frees_past_lists(events, &batched);
        let mut history = History { next: Vec::new(), batched, past_lists, first_types: Vec::new(), records };
        history.link();
        history.first_types = history.first_evidence(pages);
        Ok(history)
    }

    fn link(&mut self) {
        let mut latest = [END; 256];
        self.next = vec![END; self.records.len()];
        for (number, record) in self.records.iter().enumerate().rev() {
            if let Record::Event(event) = record
                && is_of_pages(event.operation)
            {
                let latest = &mut latest[usize::from(event.cpu) % 256];
                self.next[number] = std::mem::replace(latest, number as u32);
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

    /// Whether the free of record `number` is completed by a later `free_batched`.
    pub fn is_batched(&self, number: u32) -> bool {
        self.batched[number as usize]
    }

    /// Whether the block that record `number` frees never was on a list: it came back from the buddy lists without
    /// having been drained.
    pub fn is_past_lists(&self, number: u32) -> bool {
        self.past_lists[number as usize]
    }

    /// The pageblock types as first seen; movable where nothing tells.
    pub fn first_types(&self) -> Vec<u8> {
        self.first_types.iter().map(|&t| if t == UNKNOWN { MOVABLE } else { t }).collect()
    }
}

/// Which frees are completed by a later `free_batched` of the same page, before it is allocated again.
pub fn batched_frees<'a>(events: impl Iterator<Item = Option<&'a Event>>) -> Vec<bool> {
    let mut batched = Vec::new();
    let mut frees = std::collections::HashMap::new();
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

/// Which frees, or `free_batched` where that completes them, passed the lists by: the next that is seen of the block
/// is that it was taken from the buddy lists.
pub fn frees_past_lists<'a>(
    events: impl Iterator<Item = Option<&'a Event>>,
    batched: &[bool],
) -> Vec<bool> {
    let mut past_lists = vec![false; batched.len()];
    let mut listed = std::collections::HashMap::new();
    for (number, event) in events.enumerate() {
        let Some(event) = event else { continue };
        match event.operation {
            Operation::Free if !batched[number] => {
                listed.insert(event.pfn, number);
            }
            Operation::FreeBatched => {
                listed.insert(event.pfn, number);
            }
            Operation::Alloc | Operation::PcpuDrain => {
                listed.remove(&event.pfn);
            }
            Operation::ZoneLocked | Operation::Extfrag if is_order(event.order) => {
                for pfn in event.pfn..event.pfn.saturating_add(1 << event.order) {
                    if let Some(free) = listed.remove(&pfn) {
                        past_lists[free] = true;
                    }
                }
            }
            _ => {}
        }
    }
    past_lists
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
