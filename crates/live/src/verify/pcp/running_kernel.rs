//! The open loop on the kernel that runs here.
//!
//! ```text
//!   for each workload x vm.percpu_pagelist_high_fraction of 0, 8, 1000
//!     record it (live::record); it empties the pagesets first, so that the twin can start where the kernel does
//!     replay allocations, frees and vmstat runs through the twin, with this machine's zones and bounds
//!     pages refilled, pages drained, high and count of each CPU: the kernel's, the twin's
//! ```
//!
//! Without root or tracefs the recordings that come with mmtwin are judged instead, and the report says so.

use std::collections::BTreeMap;
use std::fs;

use machine::PageSize;
use mm::pcp::list_index;
use mm::pcp::policy::{self, Pageset};
use mm::{Features, MigrateType};
use workload::trace::{Cache, Ending, Event, Metadata, Operation, TraceReader};

use super::Pcp;
use super::closed_loop::{EmptyLists, Followed, follow};
use super::drain;
use super::history::History;
use super::open_loop::{Demand, kind};
use super::programs::{FINAL_STATE, Program, STARTING_STATE, WORKLOAD};
use super::replay::{Replay, ReplayZone};
use crate::proc::{Zone, ZoneInfo, parse_zoneinfo};
use crate::record;
use crate::recordings::{Description, Record, ZoneDescription};
use crate::rollback::{Guard, sysctl};
use crate::snapshot::cpus_in_range;
use crate::tracefs::Tracefs;
use crate::verify::{Asked, Cause, Causes, Entry, Hearing, Recorder, Subject, VerifyError, failed};

const FRACTION: &str = "vm.percpu_pagelist_high_fraction";
/// Settings under which each workload runs: auto-tuned, the largest fixed lists, small fixed lists.
const FRACTIONS: [u64; 3] = [0, 8, 1000];
/// Ring buffer, KiB per CPU: a page-fault loop fills the recorder's default in half a second.
const BUFFER_KIB: u64 = 128 << 10;

/// What records workloads here, or why none can be.
pub fn recorder() -> Result<Recorder<Pcp>, String> {
    match Tracefs::open() {
        Ok(_) => Ok(record),
        Err(error) => Err(error.to_string()),
    }
}

/// Records workloads under all settings and replays them.
fn record(_: &mut Pcp, subject: &Subject, asked: &Asked, hearing: &mut Hearing) -> Result<(), VerifyError> {
    let guard = Guard::take()?;
    // Emptying the pagesets begins to take these offline, and does not get far.
    for state in drain::states() {
        guard.setting(state)?;
    }
    let setting = guard.setting(sysctl(FRACTION))?;
    let workloads = if asked.workloads.is_empty() { &Program::ALL[..] } else { &asked.workloads };
    for &program in workloads {
        if let Some(obstacle) = program.obstacle() {
            hearing.note([format!("{} was skipped: {obstacle}", program.name())]);
            continue;
        }
        for fraction in FRACTIONS {
            let case = format!("{} fraction={fraction}", program.name());
            (hearing.progress)(&format!("recording {case}"));
            setting.set(&fraction.to_string()).map_err(|source| failed(FRACTION, source))?;
            let recorded = RecordedCase::record(&guard, asked.words(WORKLOAD), program, hearing.progress)?;
            (hearing.progress)(&format!("replaying {case}"));
            hearing.enter(recorded.judge(&case, &subject.features, fraction)?);
        }
    }
    Ok(())
}

/// One workload on the real kernel.
struct RecordedCase {
    metadata: Metadata,
    records: Vec<Record>,
    start: ZoneInfo,
    end: ZoneInfo,
}

impl RecordedCase {
    /// `command`: this program, and the word that leads it to [`super::programs::run`]; the name of a workload and a directory follow.
    fn record(
        guard: &Guard,
        mut command: Vec<String>,
        program: Program,
        progress: &mut dyn FnMut(&str),
    ) -> Result<RecordedCase, VerifyError> {
        let temporary = std::env::temp_dir();
        let place = guard.directory(&temporary);
        let place = place.map_err(|source| failed(temporary.display().to_string(), source))?;
        let trace = place.path().join("trace.parquet");
        command.extend([program.name().to_string(), place.path().display().to_string()]);
        let record = record::Options { buffer_kib: BUFFER_KIB, ..record::Options::new(&trace, command) };
        let summary = record::record(&record, &mut |event| {
            if let record::Progress::Notice(notice) = event {
                progress(&notice);
            }
        })?;
        if summary.ended == Ending::Interrupted {
            return Err(VerifyError::Interrupted);
        }
        if !summary.status.is_some_and(|status| status.success()) {
            let status = summary.status.map_or("unknown status".into(), |status| status.to_string());
            return Err(VerifyError::Program { program: program.name(), status });
        }
        let state = |name: &str| -> Result<ZoneInfo, VerifyError> {
            let text = fs::read_to_string(place.path().join(name)).map_err(|source| failed(name, source))?;
            Ok(parse_zoneinfo(&text)?)
        };
        let (start, end) = (state(STARTING_STATE)?, state(FINAL_STATE)?);
        let reader = TraceReader::open(&trace)?;
        reader.require_lossless()?;
        let metadata = reader.metadata().clone();
        let records = reader.map(|event| event.map(Record::Event)).collect::<Result<Vec<_>, _>>()?;
        Ok(RecordedCase { metadata, records, start, end })
    }

    fn judge(self, case: &str, features: &Features, fraction: u64) -> Result<Vec<Entry>, VerifyError> {
        let RecordedCase { metadata, records, start, end } = self;
        let cpus = start.populated().flat_map(|zone| &zone.pagesets).map(|pageset| pageset.cpu + 1).max();
        let cpus = cpus.unwrap_or(1);
        let populated: Vec<&Zone> = start.populated().filter(|zone| zone.start_pfn.is_some()).collect();
        let zones: Vec<ReplayZone> = populated.iter().map(|zone| replay_zone(zone, fraction)).collect();
        let pages = zones.iter().map(|zone| zone.pages.end).max().unwrap_or(0);
        let history = History::new(records, pages);
        let (first, emptied) = starting_point(&history, &zones, metadata.command_task);
        let last = end_point(&history, first, metadata.command_task);

        let mut plain = Demand::new(Replay::new(*features, cpus, zones.clone(), history.first_types()));
        let mut starts = Vec::new();
        for (index, zone) in populated.iter().enumerate() {
            let emptied = emptied.contains(&index);
            start_zone(&mut plain, features, &metadata.caches, index, zone, emptied);
            for pageset in zone.pagesets.iter().filter(|pageset| emptied || pageset.count == 0) {
                let numbers = *plain.replay.pageset(pageset.cpu, index);
                starts.push(EmptyLists { cpu: pageset.cpu, zone: index, pageset: numbers });
            }
        }
        (0..cpus).for_each(|cpu| plain.begin(cpu));
        let description = description(&metadata.kernel_release, cpus, &populated, &zones);
        let Followed { tally, hidden, factors } =
            follow(*features, &description, &history, starts, first..last);
        for (cpu, zone, factor) in factors {
            plain.replay.pageset(cpu, zone).alloc_factor = factor;
        }
        let mut informed = plain.clone();
        for number in first..last {
            if let Some(event) = history.event(number).filter(|event| event.cpu < cpus) {
                let batched = history.is_batched(number);
                plain.event(event, batched, None);
                informed.event(event, batched, hidden.get(&number).copied());
            }
        }
        let mut told = std::mem::take(&mut informed.causes);
        told.add(Cause::MissedEvent, tally.causes.get(Cause::MissedEvent));
        let causes = std::mem::take(&mut plain.causes);
        let mut entries = vec![
            Entry::new(case, "refilled pages", informed.refilled, informed.replay.refilled(), told.clone()),
            Entry::new(case, "drained pages", informed.drained, informed.replay.drained(), told),
        ];
        entries.extend(final_states(case, &mut informed.replay, &populated, &end));
        let alone = "(tracepoints alone)";
        entries.extend([
            Entry::new(
                case,
                format!("refilled pages {alone}"),
                plain.refilled,
                plain.replay.refilled(),
                causes.clone(),
            ),
            Entry::new(case, format!("drained pages {alone}"), plain.drained, plain.replay.drained(), causes),
        ]);
        entries.extend(tally.decisions(case));
        Ok(entries)
    }
}

fn is_of(event: &Event, operation: Operation, task: i32) -> bool {
    (event.operation, event.task) == (operation, task)
}

/// The first event after the workload has emptied the pagesets, and the zones that it has emptied, which it does
/// between the first and the second thread that it starts. Until shortly before, the kernel keeps the lists empty: it fetches single
/// blocks and returns every page, and the last sign of that before the first ordinary refill is where the twin begins.
///
/// ```text
///   lists are kept empty    zone_locked A, alloc A      free A, pcpu_drain A       signs: the twin begins behind the last one
///   an ordinary refill      zone_locked A, B, C         free A                     A stays on its list
/// ```
///
/// Two single blocks that are fetched one after the other, as for two pages of one system call, look like a refill of two.
/// A page that is drained as soon as it is freed shows that they were not.
fn starting_point(history: &History, zones: &[ReplayZone], task: i32) -> (u32, Vec<usize>) {
    let mut start = 0;
    let mut emptied = Vec::new();
    let mut before = vec![None; 1 + usize::from(u16::MAX)];
    let (mut refilled, mut forks) = (false, 0);
    for number in 0..history.records().len() as u32 {
        let Some(event) = history.event(number) else { continue };
        let previous = before[usize::from(event.cpu)].replace((event.operation, event.pfn));
        let is_after = |operation| previous == Some((operation, event.pfn));
        match event.operation {
            Operation::Fork if event.task == task => {
                forks += 1;
                if forks == 2 {
                    start = if emptied.is_empty() { number } else { start };
                    break;
                }
            }
            _ if forks == 0 => {}
            Operation::PcpuDrain => {
                let as_it_is_freed =
                    event.order == 0 && (is_after(Operation::Free) || is_after(Operation::FreeBatched));
                if !refilled || as_it_is_freed {
                    (refilled, start) = (false, number + 1);
                    if event.task == task {
                        emptied.extend(zones.iter().position(|zone| zone.pages.contains(&event.pfn)));
                    }
                }
            }
            _ if refilled => {}
            Operation::ZoneLocked
                if event.argument == 1
                    && previous.is_none_or(|(operation, _)| operation != Operation::ZoneLocked) =>
            {
                let next = history.following(number).next();
                if next.is_some_and(|(_, next)| next.operation != Operation::ZoneLocked) {
                    start = number + 1;
                } else {
                    refilled = !emptied.is_empty();
                }
            }
            _ => {}
        }
    }
    emptied.sort_unstable();
    emptied.dedup();
    (start, emptied)
}

/// The last thread that the workload starts; the end of the recording if there is none.
fn end_point(history: &History, first: u32, task: i32) -> u32 {
    let end = history.records().len() as u32;
    let is_fork =
        |number: &u32| history.event(*number).is_some_and(|event| is_of(event, Operation::Fork, task));
    (first..end).rev().find(is_fork).unwrap_or(end)
}

/// The machine in the words of a recording.
pub(in crate::verify) fn description(
    release: &str,
    cpus: u16,
    populated: &[&Zone],
    zones: &[ReplayZone],
) -> Description {
    let zones = populated.iter().zip(zones).map(|(zone, replay)| ZoneDescription {
        name: zone.name.clone(),
        pages: (replay.pages.start, replay.pages.end),
        managed: replay.managed,
        batch: replay.batch,
        high_min: replay.high_min,
        high_max: replay.high_max,
    });
    Description {
        workload: String::new(),
        kernel: release.to_string(),
        cpus,
        settings: BTreeMap::new(),
        zones: zones.collect(),
    }
}

/// The twin's zone for a zone of this machine. Kernels that do not print the bounds of `high` compute them as the
/// twin does.
pub(in crate::verify) fn replay_zone(zone: &Zone, fraction: u64) -> ReplayZone {
    let start = zone.start_pfn.unwrap_or(0) as u32;
    let cpus = zone.pagesets.len() as u64;
    let first = zone.pagesets.first().cloned().unwrap_or_default();
    let batch = first.batch as i32;
    let part = if fraction == 0 { mm::sysctl::MIN_PERCPU_PAGELIST_HIGH_FRACTION } else { fraction };
    let most = policy::zone_highsize(zone.managed / part, cpus, cpus, batch);
    let least = if fraction == 0 { policy::zone_highsize(zone.low, cpus, cpus, batch) } else { most };
    ReplayZone {
        kind: kind(&zone.name),
        node: zone.node as u8,
        pages: start..start.saturating_add(zone.spanned as u32),
        managed: zone.present.min(zone.spanned) as u32,
        batch,
        high_min: first.high_min.map_or(least, |pages| pages as i32),
        high_max: first.high_max.map_or(most, |pages| pages as i32),
    }
}

/// Puts a zone's pagesets where the kernel's were.
fn start_zone(demand: &mut Demand, f: &Features, caches: &[Cache], index: usize, zone: &Zone, emptied: bool) {
    for pageset in &zone.pagesets {
        if !emptied && pageset.count > 0 {
            let list = list_index(f, 0, MigrateType::Movable);
            (0..pageset.count).for_each(|_| demand.replay.add_to_list(pageset.cpu, index, list));
            demand.causes.add(Cause::UnknownStartingLists, pageset.count);
        }
        let tuning: &mut Pageset = demand.replay.pageset(pageset.cpu, index);
        tuning.high = pageset.high as i32;
        tuning.free_high_batch =
            policy::is_cache_large(f, PageSize::Kib4, last_level_slice(caches), tuning.batch);
    }
}

/// Bytes of the last-level cache for each CPU that shares it.
fn last_level_slice(caches: &[Cache]) -> u64 {
    let data = caches.iter().filter(|cache| cache.kind != "Instruction");
    let Some(last) = data.max_by_key(|cache| cache.level) else { return 0 };
    let kib = last.size.trim_end_matches('K').parse::<u64>().unwrap_or(0);
    let sharers: u64 = last.shared_cpu_list.split(',').map(cpus_in_range).sum();
    kib * 1024 / sharers.max(1)
}

/// `high` and `count` of each CPU's pageset in the zone that is used most, at the end.
fn final_states(case: &str, replay: &mut Replay, zones: &[&Zone], end: &ZoneInfo) -> Vec<Entry> {
    let mut entries = Vec::new();
    let largest = zones.iter().enumerate().max_by_key(|(_, zone)| zone.present);
    let Some((index, zone)) = largest else { return entries };
    let kernel = end.zones.iter().find(|other| (other.node, &other.name) == (zone.node, &zone.name));
    for pageset in kernel.iter().flat_map(|zone| &zone.pagesets) {
        if !zone.pagesets.iter().any(|known| known.cpu == pageset.cpu) {
            continue;
        }
        let twin = *replay.pageset(pageset.cpu, index);
        for (field, kernel, twin) in [("high", pageset.high, twin.high), ("count", pageset.count, twin.count)]
        {
            let counter = format!("final {field}, cpu {}", pageset.cpu);
            entries.push(Entry::new(case, counter, kernel, twin.max(0) as u64, Causes::default()));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: i32 = 100;

    fn event(cpu: u16, operation: Operation, pfn: u32) -> Record {
        let argument = u32::from(operation == Operation::ZoneLocked);
        let task = if operation == Operation::Fork { TASK } else { TASK + i32::from(cpu) };
        let migratetype = MigrateType::Movable as i8;
        Record::Event(Event { pfn, argument, task, cpu, migratetype, ..Event::of(operation) })
    }

    fn zone(pages: std::ops::Range<u32>) -> ReplayZone {
        let (kind, managed) = (kind("Normal"), pages.end - pages.start);
        ReplayZone { kind, node: 0, pages, managed, batch: 63, high_min: 100, high_max: 100 }
    }

    /// What is recorded while the lists are kept empty on CPU 1, and then a refill of two.
    fn emptied(while_empty: &[(Operation, u32)]) -> (u32, Vec<usize>) {
        use Operation::{Alloc, Fork, PcpuDrain, ZoneLocked};
        let mut records = vec![event(0, Fork, workload::trace::NO_PAGE), event(0, PcpuDrain, 10)];
        records.extend(while_empty.iter().map(|&(operation, pfn)| event(1, operation, pfn)));
        records.extend([event(1, ZoneLocked, 40), event(1, ZoneLocked, 41), event(1, Alloc, 40)]);
        records.push(event(0, Fork, workload::trace::NO_PAGE));
        starting_point(&History::new(records, 64), &[zone(0..64)], TASK)
    }

    #[test]
    fn single_blocks_fetched_in_a_row_are_no_refill_when_they_are_drained_as_they_are_freed() {
        use Operation::{Alloc, Free, FreeBatched, PcpuDrain, ZoneLocked};
        assert_eq!(emptied(&[]), (2, vec![0]));
        assert_eq!(emptied(&[(ZoneLocked, 30), (Alloc, 30), (Free, 30), (PcpuDrain, 30)]), (6, vec![0]));
        let in_a_row = [(ZoneLocked, 30), (ZoneLocked, 31), (Alloc, 30), (Alloc, 31)];
        // Nothing says that this was not a refill.
        assert_eq!(emptied(&in_a_row), (2, vec![0]));
        for free in [Free, FreeBatched] {
            let drained = [(free, 30), (PcpuDrain, 30), (free, 31), (PcpuDrain, 31), (free, 32)];
            assert_eq!(emptied(&[&in_a_row[..], &drained].concat()), (10, vec![0]));
        }
    }
}
