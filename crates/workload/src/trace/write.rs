//! Writing a trace.
//!
//! Rows go to `FILE.partial`, which takes the name `FILE` only when the last row, the metadata and the footer
//! are on disk: a file that bears the name is whole. A writer that is dropped unfinished removes its file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int8Array, Int32Array, RecordBatch, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::{Event, FORMAT, METADATA_KEY, Metadata, Operation, TraceError, schema};

/// Rows handed to the Parquet writer at a time.
const BATCH: usize = 1 << 16;

/// Writes a trace, row by row.
pub struct TraceWriter {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<ArrowWriter<File>>,
    operation_names: ArrayRef,
    batch: Vec<Event>,
    events: u64,
    time: u64,
}

impl TraceWriter {
    /// Starts `PATH.partial`. What stands at `path` stays until [`finish`](Self::finish) replaces it.
    pub fn create(path: impl Into<PathBuf>) -> Result<TraceWriter, TraceError> {
        let path = path.into();
        let partial = partial_path(&path);
        let file = File::create(&partial).map_err(|source| io_error(&partial, source))?;
        let writer = ArrowWriter::try_new(file, schema::schema(), Some(schema::properties()))
            .map_err(|source| TraceError::Write { file: path.display().to_string(), source })?;
        let operation_names =
            Arc::new(StringArray::from_iter_values(Operation::ALL.map(Operation::name))) as ArrayRef;
        let batch = Vec::with_capacity(BATCH);
        Ok(TraceWriter { path, partial, writer: Some(writer), operation_names, batch, events: 0, time: 0 })
    }

    /// Adds one row. Its time must not be before that of the row before.
    pub fn push(&mut self, event: Event) -> Result<(), TraceError> {
        if event.time < self.time {
            return Err(TraceError::TimeBackwards {
                file: self.path.display().to_string(),
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
            .map_err(|source| TraceError::Metadata { file: self.path.display().to_string(), source })?;
        let file = self.with_writer(|writer| {
            writer.append_key_value_metadata(KeyValue::new(METADATA_KEY.to_string(), document));
            writer.finish()?;
            Ok(writer.inner().try_clone()?)
        })?;
        file.sync_all().map_err(|source| io_error(&self.partial, source))?;
        let bytes = file.metadata().map_err(|source| io_error(&self.partial, source))?.len();
        fs::rename(&self.partial, &self.path).map_err(|source| io_error(&self.path, source))?;
        self.writer = None;
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
        self.with_writer(|writer| writer.write(&batch?))?;
        self.batch.clear();
        Ok(())
    }

    fn with_writer<T>(
        &mut self,
        action: impl FnOnce(&mut ArrowWriter<File>) -> Result<T, ParquetError>,
    ) -> Result<T, TraceError> {
        let writer = self.writer.as_mut().ok_or(ParquetError::EOF("already finished".to_string()));
        writer
            .and_then(action)
            .map_err(|source| TraceError::Write { file: self.path.display().to_string(), source })
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        if self.writer.is_some() {
            // Nothing is left to tell it to: the error that led here is already on its way to the caller.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn io_error(path: &Path, source: std::io::Error) -> TraceError {
    TraceError::Io { file: path.display().to_string(), source }
}
