//! Writing a trace.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int8Array, Int32Array, RecordBatch, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use parquet::errors::ParquetError;

use super::{Event, FORMAT, METADATA_KEY, Metadata, Operation, TraceError, schema};
use crate::output::{Existing, Output, OutputFile};
use crate::parquet_file::ParquetFile;

/// Rows handed to the Parquet writer at a time.
const BATCH: usize = 1 << 16;

/// Writes a trace, row by row.
pub struct TraceWriter {
    file: ParquetFile,
    operation_names: ArrayRef,
    batch: Vec<Event>,
    events: u64,
    time: u64,
}

impl TraceWriter {
    /// Writes to `path`. What stands there stays until [`finish`](Self::finish) replaces it.
    pub fn create(path: impl Into<PathBuf>) -> Result<TraceWriter, TraceError> {
        TraceWriter::to(Output::at(path, Existing::Replace)?.create()?)
    }

    /// Writes to `output`.
    pub fn to(output: OutputFile) -> Result<TraceWriter, TraceError> {
        let file = ParquetFile::create(output, schema::schema(), schema::properties())?;
        let operation_names =
            Arc::new(StringArray::from_iter_values(Operation::ALL.map(Operation::name))) as ArrayRef;
        let batch = Vec::with_capacity(BATCH);
        Ok(TraceWriter { file, operation_names, batch, events: 0, time: 0 })
    }

    /// Adds one row. Its time must not be before that of the row before.
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

    /// Completes the file and gives it its name. `format`, `events` and `seconds` are filled in here.
    /// Returns the metadata as written and the size of the file in bytes.
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
        let keys = UInt8Array::from_iter_values(rows.iter().map(|event| event.operation as u8));
        let names = self.operation_names.clone();
        let batch = || -> Result<RecordBatch, ParquetError> {
            let operation = DictionaryArray::<UInt8Type>::try_new(keys, names)?;
            let columns: Vec<ArrayRef> = vec![
                Arc::new(UInt64Array::from_iter_values(rows.iter().map(|event| event.time))),
                Arc::new(UInt16Array::from_iter_values(rows.iter().map(|event| event.cpu))),
                Arc::new(Int32Array::from_iter_values(rows.iter().map(|event| event.task))),
                Arc::new(operation),
                Arc::new(UInt8Array::from_iter_values(rows.iter().map(|event| event.order))),
                Arc::new(Int8Array::from_iter_values(rows.iter().map(|event| event.migratetype))),
                Arc::new(UInt32Array::from_iter_values(rows.iter().map(|event| event.pfn))),
                Arc::new(UInt32Array::from_iter_values(rows.iter().map(|event| event.argument))),
                Arc::new(BooleanArray::from_iter(rows.iter().map(|event| Some(event.blocked)))),
            ];
            Ok(RecordBatch::try_new(schema::schema(), columns)?)
        }();
        self.file.write(batch)?;
        self.batch.clear();
        Ok(())
    }
}
