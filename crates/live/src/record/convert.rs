//! From the spool to the trace: decode each CPU's file, merge them by time.
//!
//! ```text
//!   cpu0.raw -> a sub-buffer's events \
//!   cpu1.raw -> a sub-buffer's events  +-- the earliest first, the lower CPU where times are equal --> Parquet
//!   ...                               /
//! ```
//!
//! One sub-buffer of each CPU is in memory, and one row group of the trace: the length of a recording does
//! not matter. The trace ends where not all CPUs' events are there any more ([`Spool::complete_until`]); where the
//! kernel dropped some in between, it says so ([`Loss`]). A CPU's own order is kept always. Should its clock step back by a little, as the kernel's
//! lockless monotonic clock may when it is read from an interrupt, the event gets the time of the one before.
//! What a record is and where events go is the business of the demand that was recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use workload::output::OutputFile;
use workload::trace::{Event, Loss, Metadata, Operation, TraceWriter};

use super::names::TaskNames;
use super::spool::{Manifest, Spool};
use super::tracepoints::{DecodeError, Decoder, TRACEPOINTS};
use super::{Demand, Progress, RecordError, page_cache};
use crate::tracefs::SubBufferLayout;

/// Events between two calls of the progress function.
const PROGRESS_EVENTS: u64 = 1 << 20;

/// What conversion found.
pub struct Converted {
    /// The metadata as written.
    pub metadata: Metadata,
    /// Bytes of the trace.
    pub bytes: u64,
    /// How many events of each operation or kind that occurred, by its name.
    pub by_operation: Vec<(&'static str, u64)>,
}

/// Makes the trace `output` of `spool`.
pub fn convert(
    spool: &Spool,
    manifest: &Manifest,
    output: OutputFile,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted, RecordError> {
    match manifest.demand {
        Demand::PageAllocator => page_allocator(spool, manifest, output, progress),
        Demand::PageCache => page_cache::convert(spool, manifest, output, progress),
    }
}

fn page_allocator(
    spool: &Spool,
    manifest: &Manifest,
    output: OutputFile,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted, RecordError> {
    let decoder = Decoder::new(&TRACEPOINTS, &manifest.parsed_formats()?)?;
    let mut names = TaskNames::default();
    let mut writer = TraceWriter::to(output)?;
    let mut counts = [0; Operation::ALL.len()];
    let merged = merge(
        spool,
        manifest,
        |cpu, time, record| decoder.decode(cpu, time, record, &mut names),
        |time, event: Event| {
            counts[event.operation as usize] += 1;
            Ok(writer.push(Event { time, ..event })?)
        },
        progress,
    )?;
    let mut metadata = metadata(manifest, merged);
    metadata.tasks = names.finish(manifest.anonymize);
    let (metadata, bytes) = writer.finish(metadata)?;
    Ok(Converted { metadata, bytes, by_operation: occurred(Operation::ALL.map(Operation::name), counts) })
}

/// What is known once all has been read.
pub fn metadata(manifest: &Manifest, merged: Merged) -> Metadata {
    let Merged { losses, left_out } = merged;
    let lost = losses.iter().fold(0, |lost: u64, loss| lost.saturating_add(loss.events));
    let anonymized = manifest.anonymize;
    Metadata { lost, losses, left_out, anonymized, ..manifest.metadata.clone() }
}

/// What the trace does not have of what was recorded.
#[derive(Default)]
pub struct Merged {
    /// What the kernel dropped.
    losses: Vec<Loss>,
    /// Events after the end of the trace.
    left_out: u64,
}

/// Names and counts of those that were counted.
pub fn occurred<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Vec<(&'static str, u64)> {
    names.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
}

/// Decodes `spool` and gives all events to `sink` in the order of time, with the time since the first.
pub fn merge<E: Copy>(
    spool: &Spool,
    manifest: &Manifest,
    mut decode: impl FnMut(u16, u64, &[u8]) -> Result<Option<E>, DecodeError>,
    mut sink: impl FnMut(u64, E) -> Result<(), RecordError>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Merged, RecordError> {
    let layout = SubBufferLayout::parse(&manifest.header_page)?;
    let complete_until = spool.complete_until(manifest)?;
    let mut streams = Vec::new();
    let mut heads = BinaryHeap::new();
    let mut total_bytes = 0;
    for &cpu in &manifest.cpus {
        let mut stream = CpuStream::open(spool, cpu, layout.size)?;
        total_bytes += stream.input.get_ref().metadata().map_err(|source| stream.error(source))?.len();
        if let Some((time, _)) = stream.next(&layout, &mut decode)? {
            heads.push(Reverse((time, streams.len())));
            stream.next -= 1;
        }
        streams.push(stream);
    }

    let start = heads.peek().map_or(0, |Reverse((time, _))| *time);
    let (mut events, mut left_out, mut end): (u64, u64, u64) = (0, 0, start);
    while let Some(Reverse((_, index))) = heads.pop() {
        // As long as this CPU is the earliest, its events follow one another.
        while let Some((time, event)) = streams[index].next(&layout, &mut decode)? {
            if heads.peek().is_some_and(|Reverse(other)| *other < (time, index)) {
                heads.push(Reverse((time, index)));
                streams[index].next -= 1;
                break;
            }
            if time >= complete_until {
                left_out += 1;
                continue;
            }
            sink(time - start, event)?;
            (events, end) = (events + 1, time);
            if events.is_multiple_of(PROGRESS_EVENTS) {
                let read: u64 = streams.iter().map(|stream| stream.index).sum::<u64>() * layout.size as u64;
                progress(Progress::Converting { events, fraction: read as f64 / total_bytes.max(1) as f64 });
            }
        }
    }
    let mut losses = Vec::new();
    for (index, stream) in streams.into_iter().enumerate() {
        let told = manifest.lost.get(index).copied().unwrap_or(0);
        losses.extend(stream.losses_before(end, told));
    }
    // As rows have it, their time is since the first event.
    for loss in &mut losses {
        (loss.after, loss.before) = (loss.after.max(start) - start, loss.before.max(start) - start);
    }
    losses.sort_by_key(|loss| (loss.after, loss.cpu));
    Ok(Merged { losses, left_out })
}

/// One CPU's file, and the events of the sub-buffer it is at.
struct CpuStream<E> {
    cpu: u16,
    path: PathBuf,
    input: BufReader<File>,
    sub_buffer: Vec<u8>,
    index: u64,
    events: Vec<(u64, E)>,
    next: usize,
    time: u64,
    /// With times of the trace clock.
    losses: Vec<Loss>,
}

impl<E: Copy> CpuStream<E> {
    fn open(spool: &Spool, cpu: u16, sub_buffer_bytes: usize) -> Result<CpuStream<E>, RecordError> {
        let (path, file) = spool.cpu(cpu)?;
        Ok(CpuStream {
            cpu,
            path,
            input: BufReader::with_capacity(1 << 18, file),
            sub_buffer: vec![0; sub_buffer_bytes],
            index: 0,
            events: Vec::new(),
            next: 0,
            time: 0,
            losses: Vec::new(),
        })
    }

    /// The next event with its time; `None` at the end of the file. A recorder that was killed may have left a part of
    /// a sub-buffer there, which is passed over.
    fn next(
        &mut self,
        layout: &SubBufferLayout,
        decode: &mut impl FnMut(u16, u64, &[u8]) -> Result<Option<E>, DecodeError>,
    ) -> Result<Option<(u64, E)>, RecordError> {
        while self.next == self.events.len() {
            match self.input.read_exact(&mut self.sub_buffer) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                result => result.map_err(|source| self.error(source))?,
            }
            self.fill(layout, decode)?;
        }
        self.next += 1;
        Ok(self.events.get(self.next - 1).copied())
    }

    fn fill(
        &mut self,
        layout: &SubBufferLayout,
        decode: &mut impl FnMut(u16, u64, &[u8]) -> Result<Option<E>, DecodeError>,
    ) -> Result<(), RecordError> {
        self.events.clear();
        self.next = 0;
        let (path, index) = (&self.path, self.index);
        let damaged = |source| RecordError::SubBuffer { path: path.clone(), index, source };
        let sub_buffer = layout.open(&self.sub_buffer).map_err(damaged)?;
        let (missed, after) = (sub_buffer.missed, self.time);
        if missed > 0 {
            self.losses.push(Loss { cpu: self.cpu, after, before: after, events: missed });
        }
        let mut is_first = missed > 0;
        for record in sub_buffer {
            let (time, record) = record.map_err(damaged)?;
            self.time = self.time.max(time);
            if std::mem::take(&mut is_first) {
                self.losses.iter_mut().last().into_iter().for_each(|loss| loss.before = self.time);
            }
            let event = decode(self.cpu, self.time, record).map_err(|source| RecordError::Record {
                path: path.clone(),
                index,
                source,
            })?;
            self.events.extend(event.map(|event| (self.time, event)));
        }
        self.index += 1;
        Ok(())
    }

    /// What was lost before the trace ends, with its last event at `end`. The kernel says how many events it lost in all, but not always how
    /// many at which place, nor that it lost some after the last that is there.
    fn losses_before(mut self, end: u64, told: u64) -> Vec<Loss> {
        let known = self.losses.iter().fold(0, |sum: u64, loss| sum.saturating_add(loss.events));
        let more = told.saturating_sub(known);
        match self.losses.last_mut() {
            Some(last) => last.events = last.events.saturating_add(more),
            None if more > 0 => {
                self.losses.push(Loss { cpu: self.cpu, after: self.time, before: end, events: more });
            }
            None => {}
        }
        self.losses.retain(|loss| loss.after < end);
        self.losses
    }

    fn error(&self, source: io::Error) -> RecordError {
        RecordError::Spool { path: self.path.clone(), source }
    }
}
