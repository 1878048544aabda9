//! Converts a spool to a trace: decodes each CPU's file, and merges the events by time.
//!
//! ```text
//!   cpu0.raw -> events of one sub-buffer \
//!   cpu1.raw -> events of one sub-buffer  +-- the earliest first, the lower CPU if times are equal --> Parquet
//!   ...                                  /
//! ```
//!
//! Memory holds one sub-buffer per CPU and one row group of the trace, whatever the length of the recording.
//! The trace ends where the events of some CPU are no longer complete ([`Spool::complete_until`]); events
//! that the kernel dropped before that are noted ([`Loss`]). The order of each CPU's events is always kept:
//! if its clock steps back a little, as the kernel's lockless monotonic clock may when it is read in an
//! interrupt, the event gets the time of the previous one. Decoding records and writing rows is up to the
//! callers, the two kinds of recorded demand.

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

/// Number of events between two calls of the progress function.
const PROGRESS_EVENTS: u64 = 1 << 20;

/// The result of a conversion.
pub struct Converted {
    /// The metadata as written.
    pub metadata: Metadata,
    /// Size of the trace in bytes.
    pub bytes: u64,
    /// Number of events of each operation or kind that occurred, by name.
    pub by_operation: Vec<(&'static str, u64)>,
}

/// Converts `spool` to the trace `output`.
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

/// Adds what is known only after all events have been read.
pub fn metadata(manifest: &Manifest, merged: Merged) -> Metadata {
    let Merged { losses, left_out } = merged;
    let lost = losses.iter().fold(0, |lost: u64, loss| lost.saturating_add(loss.events));
    let anonymized = manifest.anonymize;
    Metadata { lost, losses, left_out, anonymized, ..manifest.metadata.clone() }
}

/// The events that are missing in the trace.
#[derive(Default)]
pub struct Merged {
    /// Events that the kernel dropped.
    losses: Vec<Loss>,
    /// Number of events after the end of the trace.
    left_out: u64,
}

/// Pairs of name and count with a count above zero.
pub fn occurred<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Vec<(&'static str, u64)> {
    names.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
}

/// Decodes `spool` and passes all events to `sink` in the order of time, with the time since the first event.
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
        // As long as this CPU is the earliest, its next event is the next one overall.
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
    // Times of losses become relative to the first event, like those of events.
    for loss in &mut losses {
        (loss.after, loss.before) = (loss.after.max(start) - start, loss.before.max(start) - start);
    }
    losses.sort_by_key(|loss| (loss.after, loss.cpu));
    Ok(Merged { losses, left_out })
}

/// One CPU's file, and the events of its current sub-buffer.
struct CpuStream<E> {
    cpu: u16,
    path: PathBuf,
    input: BufReader<File>,
    sub_buffer: Vec<u8>,
    index: u64,
    events: Vec<(u64, E)>,
    next: usize,
    time: u64,
    /// Times are those of the trace clock.
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

    /// The next event and its time; `None` at the end of the file. A partial sub-buffer at the end, from a
    /// killed recorder, is ignored.
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

    /// Losses before the end of the trace, whose last event is at `end`. The kernel reports how many events
    /// it lost in total, but not always how many at which place, nor that it lost events after the last one.
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
