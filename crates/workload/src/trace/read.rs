//! Reading a trace, a batch of rows at a time.
//!
//! The file is not trusted. The schema is checked when it is opened, each value when it is decoded, the order
//! of times as rows go by, and at the end the hash of all that was read; the first error ends the iteration. The Parquet crate checks much, but there are files
//! that make it panic (an offset below zero is one); such a panic is caught here and becomes the error that it
//! should have been. What cannot be caught: a forged page header can make the Parquet crate ask for up to
//! 16 GiB of memory, which ends the process where there is less.

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, PrimitiveArray, RecordBatch, RecordBatchReader};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::ChunkReader;

use super::{Event, FIRST_HASHED_FORMAT, FORMAT, METADATA_KEY, Metadata, Operation, TraceError, schema};
use crate::content_hash::ContentCheck;
use crate::parquet_size;

/// Rows decoded at a time.
const BATCH: usize = 1 << 16;

/// Reads a trace: its metadata at once, its events as an iterator.
pub struct TraceReader {
    file: String,
    metadata: Metadata,
    batches: ParquetRecordBatchReader,
    content: ContentCheck,
    events: Vec<Event>,
    next: usize,
    row: u64,
    time: u64,
    ended: bool,
}

impl TraceReader {
    /// Opens the trace at `path` and checks its schema and metadata.
    pub fn open(path: impl AsRef<Path>) -> Result<TraceReader, TraceError> {
        let name = path.as_ref().display().to_string();
        let io = |source| TraceError::Io { file: name.clone(), source };
        let file = File::open(&path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(io(std::io::ErrorKind::IsADirectory.into()));
        }
        TraceReader::new(file, name)
    }

    /// Reads a trace that is in memory.
    pub fn from_bytes(bytes: Bytes) -> Result<TraceReader, TraceError> {
        TraceReader::new(bytes, "trace in memory".to_string())
    }

    fn new<T: ChunkReader + 'static>(input: T, file: String) -> Result<TraceReader, TraceError> {
        let corrupt = |detail: String| TraceError::Corrupt { file: file.clone(), detail };
        let mut magic = Vec::new();
        let start = input.get_read(0).map_err(|error| corrupt(error.to_string()))?;
        start
            .take(4)
            .read_to_end(&mut magic)
            .map_err(|source| TraceError::Io { file: file.clone(), source })?;
        if magic != b"PAR1" {
            return Err(TraceError::NotParquet { file });
        }

        let bytes = input.len();
        let builder = unpanicked(|| ParquetRecordBatchReaderBuilder::try_new(input)).map_err(corrupt)?;
        parquet_size::check(builder.metadata(), bytes).map_err(corrupt)?;
        let metadata = read_metadata(&builder, &file)?;
        check_schema(&builder, &file)?;
        let rows = builder.metadata().file_metadata().num_rows();
        if u64::try_from(rows) != Ok(metadata.events) {
            return Err(corrupt(format!("{rows} rows, its metadata says {}", metadata.events)));
        }
        let file_metadata = builder.metadata().file_metadata().clone();
        let columns = ProjectionMask::columns(builder.parquet_schema(), schema::COLUMNS);
        let builder = builder.with_projection(columns).with_batch_size(BATCH);
        let batches = unpanicked(|| builder.build()).map_err(corrupt)?;
        let required = metadata.format >= FIRST_HASHED_FORMAT;
        let content = ContentCheck::begin(&file_metadata, &batches.schema(), &[METADATA_KEY], required)
            .map_err(|error| corrupt(error.to_string()))?;
        Ok(TraceReader {
            file,
            metadata,
            batches,
            content,
            events: Vec::new(),
            next: 0,
            row: 0,
            time: 0,
            ended: false,
        })
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Refuses a trace that lost events.
    pub fn require_lossless(&self) -> Result<(), TraceError> {
        let Metadata { lost, events, ref losses, .. } = self.metadata;
        match lost {
            0 => Ok(()),
            _ => Err(TraceError::Lost {
                file: self.file.clone(),
                lost,
                events,
                first: losses.first().copied(),
            }),
        }
    }

    /// The next rows, or an empty slice at the end. Rows that the iterator has given out do not come again.
    pub fn next_batch(&mut self) -> Result<&[Event], TraceError> {
        if self.next == self.events.len() {
            self.refill()?;
        }
        let start = std::mem::replace(&mut self.next, self.events.len());
        Ok(&self.events[start..])
    }

    /// Decodes the next batch into `self.events`, which stays empty at the end of the file and after an error.
    fn refill(&mut self) -> Result<(), TraceError> {
        self.next = 0;
        self.events.clear();
        while self.events.is_empty() && !self.ended {
            let result = match unpanicked(|| self.batches.next().transpose()) {
                Ok(None) => {
                    self.ended = true;
                    self.check_content()
                }
                Ok(Some(batch)) => self.decode(&batch),
                Err(detail) => Err(TraceError::Corrupt { file: self.file.clone(), detail }),
            };
            if let Err(error) = result {
                self.ended = true;
                self.events.clear();
                return Err(error);
            }
        }
        Ok(())
    }

    fn check_content(&self) -> Result<(), TraceError> {
        let detail = if self.row != self.metadata.events {
            format!("{} rows, its metadata says {}", self.row, self.metadata.events)
        } else {
            match self.content.finish() {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            }
        };
        Err(TraceError::Corrupt { file: self.file.clone(), detail })
    }

    fn decode(&mut self, batch: &RecordBatch) -> Result<(), TraceError> {
        let time = self.numbers::<UInt64Type>(batch, "time")?;
        let cpu = self.numbers::<UInt16Type>(batch, "cpu")?;
        let task = self.numbers::<Int32Type>(batch, "task")?;
        let order = self.numbers::<UInt8Type>(batch, "order")?;
        let migratetype = self.numbers::<Int8Type>(batch, "migratetype")?;
        let pfn = self.numbers::<UInt32Type>(batch, "pfn")?;
        let argument = self.numbers::<UInt32Type>(batch, "argument")?;
        let blocked =
            self.column(batch, "blocked")?.as_boolean_opt().ok_or_else(|| self.undecoded("blocked"))?;
        let operation = self
            .column(batch, "operation")?
            .as_dictionary_opt::<UInt8Type>()
            .ok_or_else(|| self.undecoded("operation"))?;
        let names = operation.values().as_string_opt::<i32>().ok_or_else(|| self.undecoded("operation"))?;
        let operations: Vec<Option<Operation>> =
            names.iter().map(|name| name.and_then(Operation::from_name)).collect();

        for index in 0..batch.num_rows() {
            let row = self.row + index as u64;
            let key = usize::from(operation.keys().value(index));
            let Some(operation) = operations.get(key).copied().flatten() else {
                let value = if key < names.len() && names.is_valid(key) { names.value(key) } else { "" };
                return Err(TraceError::UnknownOperation {
                    file: self.file.clone(),
                    row,
                    value: value.to_string(),
                });
            };
            let time = time.value(index);
            if time < self.time {
                let (file, previous) = (self.file.clone(), self.time);
                return Err(TraceError::TimeBackwards { file, row, time, previous });
            }
            self.time = time;
            self.events.push(Event {
                time,
                pfn: pfn.value(index),
                argument: argument.value(index),
                task: task.value(index),
                cpu: cpu.value(index),
                operation,
                order: order.value(index),
                migratetype: migratetype.value(index),
                blocked: blocked.value(index),
            });
        }
        self.row += batch.num_rows() as u64;
        self.content.add(batch).map_err(|error| {
            let (file, detail) = (self.file.clone(), error.to_string());
            TraceError::Corrupt { file, detail }
        })
    }

    fn numbers<'a, T: ArrowPrimitiveType>(
        &self,
        batch: &'a RecordBatch,
        column: &'static str,
    ) -> Result<&'a PrimitiveArray<T>, TraceError> {
        self.column(batch, column)?.as_primitive_opt::<T>().ok_or_else(|| self.undecoded(column))
    }

    fn column<'a>(&self, batch: &'a RecordBatch, column: &'static str) -> Result<&'a dyn Array, TraceError> {
        let array = batch.column_by_name(column).ok_or_else(|| self.undecoded(column))?;
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            let first = nulls.iter().position(|valid| !valid).unwrap_or(0);
            let row = self.row + first as u64;
            return Err(TraceError::Null { file: self.file.clone(), row, column });
        }
        Ok(array.as_ref())
    }

    /// The batch is not of the type that the schema promised.
    fn undecoded(&self, column: &str) -> TraceError {
        let detail = format!("column `{column}` changes its type at row {}", self.row);
        TraceError::Corrupt { file: self.file.clone(), detail }
    }
}

impl Iterator for TraceReader {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.events.len()
            && let Err(error) = self.refill()
        {
            return Some(Err(error));
        }
        let event = *self.events.get(self.next)?;
        self.next += 1;
        Some(Ok(event))
    }
}

/// Runs a step of the Parquet crate; its error, or the fact that it panicked, as text. Whatever the step
/// worked on is not used again after an error.
pub fn unpanicked<T, E: ToString>(step: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the Parquet reader cannot make sense of it".to_string()),
    }
}

fn read_metadata<T: ChunkReader + 'static>(
    builder: &ParquetRecordBatchReaderBuilder<T>,
    file: &str,
) -> Result<Metadata, TraceError> {
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let document = pairs.into_iter().flatten().find(|pair| pair.key == METADATA_KEY);
    let Some(document) = document.and_then(|pair| pair.value.as_deref()) else {
        let names: Vec<&str> =
            builder.schema().fields().iter().take(12).map(|field| field.name().as_str()).collect();
        return Err(TraceError::Foreign { file: file.to_string(), columns: names.join(", ") });
    };
    let wrong = |source| TraceError::Metadata { file: file.to_string(), source };
    // The format number comes first: a newer document need not have the fields of this one.
    let value: serde_json::Value = serde_json::from_str(document).map_err(wrong)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => {
            Err(TraceError::Newer { file: file.to_string(), format, supported: FORMAT })
        }
        _ => serde_json::from_value(value).map_err(wrong),
    }
}

fn check_schema<T: ChunkReader + 'static>(
    builder: &ParquetRecordBatchReaderBuilder<T>,
    file: &str,
) -> Result<(), TraceError> {
    for column in schema::COLUMNS {
        let expected = schema::column_type(column);
        let Ok(field) = builder.schema().field_with_name(column) else {
            let (file, expected) = (file.to_string(), expected.to_string());
            return Err(TraceError::MissingColumn { file, column, expected });
        };
        if *field.data_type() != expected {
            return Err(TraceError::ColumnType {
                file: file.to_string(),
                column,
                expected: expected.to_string(),
                actual: field.data_type().to_string(),
            });
        }
    }
    Ok(())
}
