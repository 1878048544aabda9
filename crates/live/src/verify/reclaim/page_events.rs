//! Pages of one file that are added to and deleted from the page cache, from the kernel's tracepoints.
//!
//! ```text
//!   accesses    a  b  a  c  d          a
//!   events     +a +b    +c  -b -a +d  +a      filemap:mm_filemap_add_to_page_cache, ..._delete_from_page_cache
//!   hits        .  .  x  .  .          .
//! ```
//!
//! When a page is added to a full cgroup, other pages are evicted while the miss is served, before the page
//! is added. Above memory.high they are evicted after it, and a write to memory.reclaim evicts before the access that follows it.
//! So every access is known to be a hit or a miss. Where
//! DAMON_RECLAIM evicts, at any time, events are only counted. mincore(2), which would show the same, needs a
//! mapping of the file, and does not show which pages were evicted.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::{self, ErrorKind, Read};
use std::iter::Peekable;
use std::os::unix::fs::MetadataExt;
use std::slice::Iter;

use mm::memcontrol::MemcgFile;
use rustix::fs::{major, minor};
use workload::access::sequences::Operation;

use super::case::Case;
use super::residency::{Residency, batches};
use crate::record::RecordError;
use crate::tracefs::{EventFormat, Instance, SubBufferLayout, Tracefs};
use crate::verify::VerifyError;
use crate::verify::failed;

const ADDED: &str = "events/filemap/mm_filemap_add_to_page_cache";
const DELETED: &str = "events/filemap/mm_filemap_delete_from_page_cache";
/// Ring buffer in KiB per CPU: an event takes 44 bytes, and a sequence causes up to 400,000.
const BUFFER_KIB: u64 = 32 << 10;

/// An event of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEvent {
    /// The page was added to the page cache.
    Added(u32),
    /// The page was deleted from the page cache.
    Deleted(u32),
}

/// An event of a folio of `1 << order` pages that begins with the event's page.
#[derive(Clone, Copy, Debug)]
pub struct TimedEvent {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time: u64,
    pub event: PageEvent,
    pub order: u32,
}

/// Traces the events of a file.
pub struct PageEvents {
    instance: Instance,
    /// Formats of [`PageEvent::Added`] and [`PageEvent::Deleted`].
    formats: [EventFormat; 2],
}

impl PageEvents {
    /// Starts to trace the events of the file that `file` describes.
    pub fn start(tracefs: &Tracefs, file: &Metadata) -> Result<PageEvents, RecordError> {
        let instance = Instance::create(tracefs)?;
        instance.write("trace_clock", "mono")?;
        instance
            .write("buffer_size_kb", &BUFFER_KIB.to_string())
            .map_err(|source| RecordError::Buffer { kib: BUFFER_KIB, source })?;
        let device = file.dev();
        // The kernel's encoding of a device number (`MKDEV`).
        let device = u64::from(major(device)) << 20 | u64::from(minor(device));
        let filter = format!("i_ino == {} && s_dev == {device}", file.ino());
        let enable = |event: &str| -> Result<EventFormat, RecordError> {
            let format = EventFormat::parse(&instance.read(&format!("{event}/format"))?)?;
            instance.write(&format!("{event}/filter"), &filter)?;
            instance.write(&format!("{event}/enable"), "1")?;
            Ok(format)
        };
        let formats = [enable(ADDED)?, enable(DELETED)?];
        instance.write("tracing_on", "1")?;
        Ok(PageEvents { instance, formats })
    }

    /// Stops tracing and returns the events in order of time.
    pub fn end(self) -> Result<Vec<PageEvent>, VerifyError> {
        let single = |event: TimedEvent| match event.order {
            0 => Ok(event.event),
            _ => Err(wrong("the file was added in folios of several pages; readahead is on".into())),
        };
        self.end_timed()?.into_iter().map(single).collect()
    }

    /// Like [`Self::end`], with times and folio sizes.
    pub fn end_timed(self) -> Result<Vec<TimedEvent>, VerifyError> {
        self.instance.write("tracing_on", "0").map_err(RecordError::from)?;
        let mut timed = Vec::new();
        for cpu in self.instance.cpus().map_err(RecordError::from)? {
            let lost = self.instance.statistics(cpu).map_err(RecordError::from)?.lost;
            if lost > 0 {
                return Err(wrong(format!("{lost} events of CPU {cpu} were lost; try again")));
            }
            self.read(cpu, &mut timed)?;
        }
        // The sort is stable, so the order of a CPU's events is kept if times are equal.
        timed.sort_by_key(|event: &TimedEvent| event.time);
        Ok(timed)
    }

    /// Reads a CPU's whole buffer, sub-buffer by sub-buffer.
    fn read(&self, cpu: u16, events: &mut Vec<TimedEvent>) -> Result<(), VerifyError> {
        let header = self.instance.read("events/header_page").map_err(RecordError::from)?;
        let layout = SubBufferLayout::parse(&header).map_err(RecordError::from)?;
        let mut buffer = self.instance.open_buffer(cpu).map_err(RecordError::from)?;
        let mut bytes = vec![0; layout.size];
        loop {
            match buffer.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(failed(format!("the buffer of CPU {cpu}"), error)),
                Ok(0) => return Ok(()),
                Ok(length) => {
                    for record in layout.open(&bytes[..length]).map_err(RecordError::from)? {
                        let (time, record) = record.map_err(RecordError::from)?;
                        events.extend(self.decode(time, record)?);
                    }
                }
            }
        }
    }

    /// `None` for events of other tracepoints, which do not occur.
    fn decode(&self, time: u64, record: &[u8]) -> Result<Option<TimedEvent>, VerifyError> {
        let makers = [PageEvent::Added, PageEvent::Deleted];
        for (format, make) in self.formats.iter().zip(makers) {
            let number = |name: &str| -> Result<u64, VerifyError> {
                let field = format.field(name).map_err(RecordError::from)?;
                field.number(record).ok_or_else(|| wrong(format!("an event has no {name}")))
            };
            if number("common_type")? != u64::from(format.id) {
                continue;
            }
            let (index, order) = (u32::try_from(number("index")?), number("order")? as u32);
            return Ok(index.ok().map(|index| TimedEvent { time, event: make(index), order }));
        }
        Ok(None)
    }
}

fn wrong(problem: String) -> VerifyError {
    failed("the tracepoints of the page cache", io::Error::other(problem))
}

/// How many pages came in, and how many were evicted.
pub fn counts(events: &[PageEvent]) -> [u64; 2] {
    let added = events.iter().filter(|event| matches!(event, PageEvent::Added(_))).count() as u64;
    [added, events.len() as u64 - added]
}

/// What the events of a file came to so far.
struct Observed<'a> {
    events: Peekable<Iter<'a, PageEvent>>,
    resident: BTreeSet<u32>,
    evicted: Vec<u32>,
    /// How many pages had come in, for each that was evicted.
    begun: Vec<u32>,
    came_in: u32,
    /// Pages that were resident at the first eviction.
    when_full: Option<u64>,
}

impl Observed<'_> {
    /// Takes the pages that are deleted before the next one is added.
    fn evict(&mut self) {
        while let Some(PageEvent::Deleted(gone)) =
            self.events.next_if(|event| matches!(event, PageEvent::Deleted(_)))
        {
            self.when_full.get_or_insert(self.resident.len() as u64);
            self.resident.remove(gone);
            self.evicted.push(*gone);
            self.begun.push(self.came_in);
        }
    }
}

/// The outcome of each read, if the page cache had no page of the file before, under what `case` says; and
/// the number of pages that were resident at the first eviction, if there was one.
pub fn residency(
    operations: &[Operation],
    case: &Case,
    events: &[PageEvent],
) -> Result<(Residency, Option<u64>), VerifyError> {
    let events = events.iter().peekable();
    let (resident, evicted, begun) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut observed = Observed { events, resident, evicted, begun, came_in: 0, when_full: None };
    let evicts_after = case.writes.iter().any(|write| write.file == MemcgFile::High);
    let mut hits = Vec::new();
    for (access, &operation) in (0u32..).zip(operations) {
        let Operation::Read(page) = operation else {
            return Err(wrong(format!("access {access} is not a read, and no event shows its outcome")));
        };
        if case.writes.iter().any(|write| write.access == access) {
            observed.evict();
        }
        let hit = observed.resident.contains(&page);
        hits.push(hit);
        if hit {
            continue;
        }
        observed.evict();
        match observed.events.next() {
            Some(PageEvent::Added(came)) if *came == page => {
                observed.resident.insert(page);
                observed.came_in += 1;
            }
            Some(PageEvent::Added(other) | PageEvent::Deleted(other)) => {
                return Err(VerifyError::Disturbed(format!(
                    "access {access} reads page {page}, and page {other} comes in"
                )));
            }
            None if observed.resident.is_empty() => {
                let nothing = "reading the file left no trace, as on overlay, btrfs or tmpfs; set TMPDIR to a \
                               directory on ext4 or xfs";
                return Err(wrong(nothing.into()));
            }
            None => {
                let ended = format!("access {access} reads page {page}, which is never added");
                return Err(VerifyError::Disturbed(ended));
            }
        }
        if evicts_after {
            observed.evict();
        }
    }
    let Observed { evicted, begun, when_full, .. } = observed;
    let residency = Residency::new(operations, hits, None, &evicted).map_err(wrong)?;
    Ok((Residency { batches: Some(batches(begun)), ..residency }, when_full))
}

#[cfg(test)]
mod tests {
    use workload::access::sequences::Sequence;

    use super::super::case::Lru;
    use super::super::group_write::GroupWrite;
    use super::super::pressure::Pressure;
    use super::PageEvent::{Added, Deleted};
    use super::*;

    fn of_writes(writes: &[GroupWrite]) -> Case {
        let sequence = Sequence::named("loop").unwrap();
        let case = Case::of_sequence(sequence, Pressure::Max, Lru::Classic, 0, 0);
        Case { writes: writes.to_vec(), ..case }
    }

    #[test]
    fn the_picture_above() {
        let operations = [0, 1, 0, 2, 3, 0].map(Operation::Read);
        let events = [Added(0), Added(1), Added(2), Deleted(1), Deleted(0), Added(3), Added(0), Deleted(2)];
        let (residency, when_full) = residency(&operations, &of_writes(&[]), &events).unwrap();
        assert_eq!(residency.hits, [false, false, true, false, false, false]);
        assert_eq!((residency.evictions, when_full), (vec![1, 0], Some(3)));
        assert_eq!(residency.batches, Some(batches([3, 3])));
    }

    #[test]
    fn writes_evict_where_they_are_made() {
        let operations = [0, 1, 0, 1, 2].map(Operation::Read);
        let of = |file: &str, access: u32, events: &[PageEvent]| {
            let file = MemcgFile::find(file).unwrap();
            let write = GroupWrite { access, file, bytes: 4096 };
            let (residency, _) = residency(&operations, &of_writes(&[write]), events).unwrap();
            (residency.hits, residency.batches.unwrap())
        };
        let (hits, evictions) =
            of("memory.high", 0, &[Added(0), Added(1), Deleted(0), Added(0), Added(2), Deleted(1)]);
        assert_eq!((hits, evictions), (vec![false, false, false, true, false], batches([2, 4])));
        let (hits, evictions) =
            of("memory.reclaim", 3, &[Added(0), Added(1), Deleted(0), Deleted(1), Added(1), Added(2)]);
        assert_eq!((hits, evictions), (vec![false, false, true, false, false], batches([2, 2])));
    }

    #[test]
    fn events_that_do_not_fit_are_an_error() {
        let error = |events: &[PageEvent]| {
            let operations = [0, 1].map(Operation::Read);
            residency(&operations, &of_writes(&[]), events).unwrap_err()
        };
        let disturbed = |events: &[PageEvent]| match error(events) {
            VerifyError::Disturbed(what) => what,
            other => panic!("{other}"),
        };
        assert_eq!(disturbed(&[Added(0), Added(2)]), "access 1 reads page 1, and page 2 comes in");
        assert_eq!(disturbed(&[Added(0)]), "access 1 reads page 1, which is never added");
        assert!(error(&[]).to_string().contains("set TMPDIR"));
    }
}
