//! Writes a trace to a Parquet file, row by row, in batches.

use std::path::PathBuf;

use super::{Event, FORMAT, METADATA_KEY, Metadata, Operation, TraceError, schema};
use crate::output::{Existing, Output, OutputFile};
use crate::parquet_file::{BATCH, ParquetFile};
use crate::table::{Rows, Texts, Values};

/// Writes a trace row by row.
pub struct TraceWriter {
    file: ParquetFile,
    batch: Vec<Event>,
    events: u64,
    time: u64,
}

impl TraceWriter {
    /// Starts writing to `path`. A file there stays until [`finish`](Self::finish) replaces it.
    pub fn create(path: impl Into<PathBuf>) -> Result<TraceWriter, TraceError> {
        TraceWriter::to(Output::at(path, Existing::Replace)?.create()?)
    }

    pub fn to(output: OutputFile) -> Result<TraceWriter, TraceError> {
        let file = ParquetFile::create(output, &schema::FIELDS, schema::properties())?;
        let batch = Vec::with_capacity(BATCH);
        Ok(TraceWriter { file, batch, events: 0, time: 0 })
    }

    /// Adds one row, whose time must not be before that of the previous row.
    pub fn push(&mut self, event: Event) -> Result<(), TraceError> {
        if event.time < self.time {
            return Err(TraceError::TimeBackwards {
                file: self.file.name(),
                row: self.events,
                time: event.time,
                previous: self.time,
            });
        }
        self.time = event.time;
        self.events += 1;
        self.batch.push(event);
        if self.batch.len() == BATCH { self.write_batch() } else { Ok(()) }
    }

    /// Completes the file and renames it to its path. Fills in `format`, `events` and `seconds` of the
    /// metadata. Returns the metadata as written and the size of the file in bytes.
    pub fn finish(mut self, mut metadata: Metadata) -> Result<(Metadata, u64), TraceError> {
        self.write_batch()?;
        metadata.format = FORMAT;
        metadata.events = self.events;
        metadata.seconds = self.time as f64 / 1e9;
        let document = serde_json::to_string(&metadata)
            .map_err(|source| TraceError::Metadata { file: self.file.name(), source })?;
        let bytes = self.file.finish(METADATA_KEY, document)?;
        Ok((metadata, bytes))
    }

    fn write_batch(&mut self) -> Result<(), TraceError> {
        let rows = &self.batch;
        let operations = rows.iter().map(|event| event.operation as u32).collect();
        self.file.write(Rows::new([
            Values::U64(rows.iter().map(|event| event.time).collect()),
            Values::U16(rows.iter().map(|event| event.cpu).collect()),
            Values::I32(rows.iter().map(|event| event.task).collect()),
            Values::Text(Texts::of_names(Operation::ALL.map(Operation::name), operations)),
            Values::U8(rows.iter().map(|event| event.order).collect()),
            Values::I8(rows.iter().map(|event| event.migratetype).collect()),
            Values::U32(rows.iter().map(|event| event.pfn).collect()),
            Values::U32(rows.iter().map(|event| event.argument).collect()),
            Values::Bool(rows.iter().map(|event| event.blocked).collect()),
        ]))?;
        self.batch.clear();
        Ok(())
    }
}
