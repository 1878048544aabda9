//! From the spool to the trace: decode each CPU's file, merge them by time.
//!
//! ```text
//!   cpu0.raw -> a sub-buffer's events \
//!   cpu1.raw -> a sub-buffer's events  +-- the earliest first, the lower CPU where times are equal --> Parquet
//!   ...                               /
//! ```
//!
//! One sub-buffer of each CPU is in memory, and one row group of the trace: the length of a recording does
//! not matter. A CPU's own order is kept always. Should its clock step back by a little, as the kernel's
//! lockless monotonic clock may when it is read from an interrupt, the event gets the time of the one before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use workload::trace::{Event, Metadata, Operation, TraceWriter};

use super::names::TaskNames;
use super::spool::{Manifest, cpu_file};
use super::tracepoints::Decoder;
use super::{Progress, RecordError};
use crate::tracefs::{EventFormat, SubBufferLayout};

/// Events between two calls of the progress function.
const PROGRESS_EVENTS: u64 = 1 << 20;

/// What conversion found.
pub struct Converted {
    /// The metadata as written.
    pub metadata: Metadata,
    /// Bytes of the trace.
    pub bytes: u64,
    /// How many events of each operation, by its number.
    pub by_operation: [u64; Operation::ALL.len()],
}

/// One CPU's file, and the events of the sub-buffer it is at.
struct CpuStream {
    cpu: u16,
    path: PathBuf,
    input: BufReader<File>,
    sub_buffer: Vec<u8>,
    index: u64,
    events: Vec<Event>,
    next: usize,
    time: u64,
    missed: u64,
}

/// Makes the trace `output` of the spool in `directory`.
pub fn convert(
    directory: &Path,
    manifest: &Manifest,
    output: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted, RecordError> {
    let layout = SubBufferLayout::parse(&manifest.header_page)?;
    let formats =
        manifest.formats.iter().map(|text| EventFormat::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let decoder = Decoder::new(&formats)?;
    let mut names = TaskNames::default();
    let mut streams = Vec::new();
    let mut heads = BinaryHeap::new();
    let mut total_bytes = 0;
    for &cpu in &manifest.cpus {
        let mut stream = CpuStream::open(directory, cpu, layout.size)?;
        total_bytes += stream.input.get_ref().metadata().map_err(|source| stream.error(source))?.len();
        if let Some(event) = stream.next(&layout, &decoder, &mut names)? {
            heads.push(Reverse((event.time, streams.len())));
            stream.next -= 1;
        }
        streams.push(stream);
    }

    let start = heads.peek().map_or(0, |Reverse((time, _))| *time);
    let mut writer = TraceWriter::create(output)?;
    let mut by_operation = [0; Operation::ALL.len()];
    let mut events: u64 = 0;
    while let Some(Reverse((_, index))) = heads.pop() {
        // As long as this CPU is the earliest, its events follow one another.
        while let Some(event) = streams[index].next(&layout, &decoder, &mut names)? {
            if heads.peek().is_some_and(|Reverse(other)| *other < (event.time, index)) {
                heads.push(Reverse((event.time, index)));
                streams[index].next -= 1;
                break;
            }
            by_operation[event.operation as usize] += 1;
            writer.push(Event { time: event.time - start, ..event })?;
            events += 1;
            if events.is_multiple_of(PROGRESS_EVENTS) {
                let read: u64 = streams.iter().map(|stream| stream.index).sum::<u64>() * layout.size as u64;
                progress(Progress::Converting { events, fraction: read as f64 / total_bytes.max(1) as f64 });
            }
        }
    }

    let mut metadata = manifest.metadata.clone();
    metadata.lost = metadata.lost.max(streams.iter().map(|stream| stream.missed).sum());
    metadata.anonymized = manifest.anonymize;
    if manifest.anonymize {
        metadata.command.clear();
    }
    metadata.tasks = names.finish(manifest.anonymize);
    let (metadata, bytes) = writer.finish(metadata)?;
    Ok(Converted { metadata, bytes, by_operation })
}

impl CpuStream {
    fn open(directory: &Path, cpu: u16, sub_buffer_bytes: usize) -> Result<CpuStream, RecordError> {
        let path = cpu_file(directory, cpu);
        let file = File::open(&path).map_err(|source| RecordError::Spool { path: path.clone(), source })?;
        Ok(CpuStream {
            cpu,
            path,
            input: BufReader::with_capacity(1 << 18, file),
            sub_buffer: vec![0; sub_buffer_bytes],
            index: 0,
            events: Vec::new(),
            next: 0,
            time: 0,
            missed: 0,
        })
    }

    /// The next event; `None` at the end of the file. A recorder that was killed may have left a part of a
    /// sub-buffer there, which is passed over.
    fn next(
        &mut self,
        layout: &SubBufferLayout,
        decoder: &Decoder,
        names: &mut TaskNames,
    ) -> Result<Option<Event>, RecordError> {
        while self.next == self.events.len() {
            match self.input.read_exact(&mut self.sub_buffer) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                result => result.map_err(|source| self.error(source))?,
            }
            self.fill(layout, decoder, names)?;
        }
        self.next += 1;
        Ok(self.events.get(self.next - 1).copied())
    }

    fn fill(
        &mut self,
        layout: &SubBufferLayout,
        decoder: &Decoder,
        names: &mut TaskNames,
    ) -> Result<(), RecordError> {
        self.events.clear();
        self.next = 0;
        let (path, index) = (&self.path, self.index);
        let damaged = |source| RecordError::SubBuffer { path: path.clone(), index, source };
        let sub_buffer = layout.open(&self.sub_buffer).map_err(damaged)?;
        self.missed = self.missed.saturating_add(sub_buffer.missed);
        for record in sub_buffer {
            let (time, record) = record.map_err(damaged)?;
            self.time = self.time.max(time);
            let event = decoder
                .decode(self.cpu, self.time, record, names)
                .map_err(|source| RecordError::Record { path: path.clone(), index, source })?;
            self.events.extend(event);
        }
        self.index += 1;
        Ok(())
    }

    fn error(&self, source: io::Error) -> RecordError {
        RecordError::Spool { path: self.path.clone(), source }
    }
}
