//! The open loop: the recorded starting lists, then nothing but demand. How many pages move in the end?
//!
//! The twin sees allocations, frees and the runs of the vmstat worker; it never learns what the kernel decided.
//! A small difference early can grow, as in any simulation: this is what a user of the twin gets.

use std::collections::{BTreeMap, HashMap};

use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::is_order_allowed;
use mm::pcp::policy::Pageset;
use mm::{MigrateType, ZoneType};
use workload::trace::{Event, NO_PAGE, Operation};

use super::history::{History, is_order};
use super::replay::{Replay, ReplayZone};
use crate::recordings::{Hidden, Record, Recording, State, ZoneDescription};
use crate::verify::{Cause, Causes, Entry, VerifyError, features};

/// Whether the twin is told what no tracepoint shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    /// Demand is what the tracepoints show.
    No,
    /// Bulk allocations and frees past held locks are part of the demand.
    Yes,
}

/// Pages refilled and drained by the kernel and by the twin under the same demand.
pub fn open_loop(recording: &Recording, annotated: Annotated) -> Result<Vec<Entry>, VerifyError> {
    let description = &recording.description;
    let features = features(&recording.name, &description.kernel)?;
    let history = History::load(recording)?;
    let zones = description.zones.iter().map(zone).collect();
    let replay = Replay::new(features, description.cpus, zones, history.first_types());
    let states: BTreeMap<_, _> = recording.states()?.iter().map(|state| (state.record, *state)).collect();
    let hidden: BTreeMap<_, _> = match annotated {
        Annotated::No => BTreeMap::new(),
        Annotated::Yes => recording.annotations()?.iter().map(|note| (note.record, note.hidden)).collect(),
    };

    let mut demand = Demand::new(replay);
    for (number, record) in history.records().iter().enumerate() {
        let number = number as u32;
        match *record {
            Record::Listed { cpu, zone, list, .. } => {
                if cpu < description.cpus && usize::from(zone) < description.zones.len() {
                    demand.replay.add_to_list(cpu, zone.into(), list.into());
                }
            }
            Record::ListsEnd { cpu, zone } => {
                if cpu < description.cpus && usize::from(zone) < description.zones.len() {
                    if let Some(state) = states.get(&number) {
                        take_over(demand.replay.pageset(cpu, zone.into()), state);
                    }
                    // Zones come in ascending order: the last one completes the CPU.
                    if usize::from(zone) + 1 == description.zones.len() {
                        demand.begin(cpu);
                    }
                }
            }
            Record::Event(event) if event.cpu < description.cpus => {
                demand.event(&event, history.is_batched(number), hidden.get(&number).copied());
            }
            Record::Event(_) => {}
        }
    }
    let suffix = if annotated == Annotated::Yes { " (annotated)" } else { "" };
    let Demand { replay, refilled, drained, causes, .. } = demand;
    Ok(vec![
        Entry::new(
            &recording.name,
            format!("refilled pages{suffix}"),
            refilled,
            replay.refilled(),
            causes.clone(),
        ),
        Entry::new(&recording.name, format!("drained pages{suffix}"), drained, replay.drained(), causes),
    ])
}

/// The twin's zone for a recorded one.
fn zone(zone: &ZoneDescription) -> ReplayZone {
    ReplayZone {
        kind: kind(&zone.name),
        node: 0,
        pages: zone.pages.0..zone.pages.1,
        managed: zone.managed,
        batch: zone.batch,
        high_min: zone.high_min,
        high_max: zone.high_max,
    }
}

/// Puts a pageset into the recorded state.
fn take_over(pageset: &mut Pageset, state: &State) {
    pageset.high = state.high;
    pageset.free_count = state.free_count;
    pageset.alloc_factor = state.alloc_factor;
    pageset.prev_free_high_order = state.flags & 1 != 0;
    pageset.free_high_batch = state.flags & 2 != 0;
}

/// The kind of zone of that name in /proc/zoneinfo.
pub fn kind(name: &str) -> ZoneType {
    ZoneType::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(ZoneType::Normal)
}

/// Events given to the twin, and what the kernel did meanwhile.
#[derive(Clone)]
pub struct Demand {
    /// The twin.
    pub replay: Replay,
    /// Base pages that the kernel refilled.
    pub refilled: u64,
    /// Base pages that the kernel drained.
    pub drained: u64,
    /// What the twin was told beyond the tracepoints.
    pub causes: Causes,
    /// Orders of freed blocks that wait for their `free_batched`.
    orders: HashMap<u32, u8>,
    /// For each CPU, whether its lists are the twin's already.
    begun: Vec<bool>,
    /// For each CPU, the block of an `extfrag` event that a `zone_locked` may still repeat.
    claimed: Vec<Option<(u32, u8)>>,
    /// The zone that served the latest allocation of each CPU.
    zones: HashMap<u16, usize>,
}

impl Demand {
    /// Nothing was asked yet.
    pub fn new(replay: Replay) -> Demand {
        let causes = Causes::default();
        let (orders, begun, claimed, zones) = Default::default();
        Demand { replay, refilled: 0, drained: 0, causes, orders, begun, claimed, zones }
    }

    /// From now on the events of `cpu` count.
    pub fn begin(&mut self, cpu: u16) {
        let cpu = usize::from(cpu);
        self.begun.resize(self.begun.len().max(cpu + 1), false);
        self.begun[cpu] = true;
    }

    /// One event. A batched free waits for its `free_batched`.
    pub fn event(&mut self, event: &Event, batched: bool, hidden: Option<Hidden>) {
        let cpu = usize::from(event.cpu);
        if !self.begun.get(cpu).copied().unwrap_or(false) || !is_order(event.order) {
            return;
        }
        self.count_claimed(event);
        self.tell(event, hidden);
        match event.operation {
            Operation::Alloc if hidden == Some(Hidden::AllocFromBuddy) => {
                self.causes.add(Cause::AllocationPastHeldLock, 1);
                self.replay.alloc_past_lists(event.cpu, event.pfn, event.order, event.migratetype);
            }
            Operation::Alloc if event.pfn != NO_PAGE => {
                if let Some(migrate_type) =
                    u8::try_from(event.migratetype).ok().and_then(MigrateType::from_number)
                {
                    self.zones.extend(self.replay.zone_of(event.pfn).map(|zone| (event.cpu, zone)));
                    self.replay.alloc(event.cpu, event.pfn, event.order, migrate_type);
                }
            }
            // No event tells the zone of a stack's pages: it is that of other allocations at the time.
            Operation::KernelStack => {
                if let Some(&zone) = self.zones.get(&event.cpu) {
                    let unmovable = MigrateType::Unmovable;
                    self.replay.alloc_bulk(event.cpu, zone, 0, unmovable, event.stack_pages());
                }
            }
            Operation::Free if hidden == Some(Hidden::FreeToBuddy) => {
                self.causes.add(Cause::FreePastHeldLock, 1);
                self.replay.free_past_lists(event.cpu, event.pfn, event.order);
            }
            Operation::Free if batched => {
                self.orders.insert(event.pfn, event.order);
            }
            Operation::Free => self.replay.free(event.cpu, event.pfn, event.order),
            Operation::FreeBatched => {
                let order = self.orders.remove(&event.pfn).unwrap_or(0);
                if hidden == Some(Hidden::FreeToBuddy) {
                    self.causes.add(Cause::FreePastHeldLock, 1);
                    self.replay.free_past_lists(event.cpu, event.pfn, order);
                } else {
                    self.replay.free(event.cpu, event.pfn, order);
                }
            }
            // A run of the worker covers all zones; recordings have a record for each.
            Operation::VmstatUpdateStart if event.argument == 0 => self.replay.vmstat_update(event.cpu),
            Operation::ZoneLocked if event.argument == 1 => self.refilled += 1 << event.order,
            Operation::Extfrag if is_order_allowed(event.order, PAGEBLOCK_ORDER) => {
                self.note_claim(cpu, event);
            }
            Operation::PcpuDrain => self.drained += 1 << event.order,
            _ => {}
        }
    }

    fn note_claim(&mut self, cpu: usize, event: &Event) {
        self.claimed.resize(self.claimed.len().max(cpu + 1), None);
        self.claimed[cpu] = Some((event.pfn, event.order));
    }

    /// A claimed block counts as refilled unless `zone_locked` follows and counts it.
    fn count_claimed(&mut self, event: &Event) {
        let Some(claimed) = self.claimed.get_mut(usize::from(event.cpu)) else { return };
        if let Some((pfn, order)) = claimed.take()
            && !(event.operation == Operation::ZoneLocked && event.pfn == pfn)
        {
            self.refilled += 1 << order;
        }
    }

    fn tell(&mut self, event: &Event, hidden: Option<Hidden>) {
        let (order, migrate_type, pages) = match hidden {
            Some(Hidden::BulkAlloc(pages)) => (0, Some(MigrateType::Unmovable), pages),
            Some(Hidden::Skipped(pages)) => {
                (event.order, u8::try_from(event.migratetype).ok().and_then(MigrateType::from_number), pages)
            }
            _ => return,
        };
        let (Some(zone), Some(migrate_type)) = (self.replay.zone_of(event.pfn), migrate_type) else { return };
        let blocks = pages >> order;
        self.causes.add(Cause::BulkAllocation, blocks.into());
        self.replay.alloc_bulk(event.cpu, zone, order, migrate_type, blocks);
    }
}
