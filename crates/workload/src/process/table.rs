//! The profile file: a Parquet table with one row an operation, and a JSON document about where it is from.
//!
//! ```text
//!   process  operation  order  migratetype  first  count  nanoseconds
//!         7          1      0            1      0     41        98304    41 pages in 98 us of CPU time
//!         7          0      0            0      0      0       393216    no demand for 393 us
//!         7          2      0            0     -3     38         7168    frees allocations 12..50 ...
//! ```
//!
//! | column | type | |
//! |---|---|---|
//! | `process` | u32 | rows of a process are consecutive, processes ascend |
//! | `operation` | u8 | 0 run, 1 allocate, 2 free, 3 free_shared |
//! | `order` | u8 | of allocations and shared frees |
//! | `migratetype` | u8 | of allocations |
//! | `first` | i32 | of frees: distance from the end of the process's previous free (at first: from 0) |
//! | `count` | u32 | how many |
//! | `nanoseconds` | u32 | CPU time, rounded to 4 significant bits |
//!
//! The rounding changes a total by less than a part in a hundred and makes the file half as large.

use super::error::ProcessError;
use super::operation::Operation;
use super::profile::{Document, FIRST_HASHED_FORMAT, FORMAT, ProcessProfile};
use crate::content_hash::{ContentCheck, ContentHashError};
use crate::output::{Existing, Output};
use crate::parquet_file::ParquetFile;
use crate::parquet_size;
use crate::trace::{TraceError, unpanicked};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt8Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, RecordBatchReader, UInt8Array, UInt32Array};
use bytes::Bytes;
use mm::MigrateType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::path::Path;
use std::sync::Arc;

/// Key of the JSON document in the Parquet file's metadata.
pub(super) const KEY: &str = "mmtwin.processes";

/// Rows decoded at a time.
const BATCH: usize = 1 << 16;

/// Significant bits of a time in the file.
const TIME_BITS: u32 = 4;

/// Keeps the highest bits, rounded to nearest.
fn rounded(nanoseconds: u32) -> u32 {
    let drop = (u32::BITS - nanoseconds.leading_zeros()).saturating_sub(TIME_BITS);
    let half = (1u64 << drop) / 2;
    u32::try_from((u64::from(nanoseconds) + half) >> drop << drop).unwrap_or(u32::MAX)
}

impl ProcessProfile {
    /// Writes the profile; an existing file is replaced only by a complete one.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ProcessError> {
        let file = path.as_ref().display().to_string();
        let write = |source| TraceError::Write { file: file.clone(), source };
        let document = serde_json::to_string(&self.document)
            .map_err(|source| ProcessError::Document { file: file.clone(), source })?;
        let level = ZstdLevel::try_new(19).map_err(write)?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let rows = self.rows().map_err(write)?;
        let output = Output::at(path.as_ref(), Existing::Replace).and_then(|output| output.create());
        let mut table = ParquetFile::create(output.map_err(TraceError::from)?, rows.schema(), properties)?;
        table.write(Ok(rows))?;
        table.finish(KEY, document)?;
        Ok(())
    }

    fn rows(&self) -> Result<RecordBatch, ParquetError> {
        let (mut processes, mut operations, mut orders, mut types) = (vec![], vec![], vec![], vec![]);
        let (mut firsts, mut counts, mut times) = (vec![], vec![], vec![]);
        for process in 0..self.len() as u32 {
            let mut freed_until = 0;
            for &operation in self.process(process) {
                let (number, order, migrate_type, first, count) = match operation {
                    Operation::Run { .. } => (0, 0, 0, 0, 0),
                    Operation::Allocate { order, migrate_type, count, .. } => {
                        (1, order, migrate_type as u8, 0, count)
                    }
                    Operation::Free { first, count, .. } => {
                        let distance = i64::from(first) - freed_until;
                        freed_until = i64::from(first) + i64::from(count);
                        let distance = i32::try_from(distance).map_err(|_| {
                            ParquetError::General(format!("process {process} made over 2^31 allocations"))
                        })?;
                        (2, 0, 0, distance, count)
                    }
                    Operation::FreeShared { order, count, .. } => (3, order, 0, 0, count),
                };
                processes.push(process);
                operations.push(number);
                orders.push(order);
                types.push(migrate_type);
                firsts.push(first);
                counts.push(count);
                times.push(rounded(operation.nanoseconds()));
            }
        }
        let columns: [(&str, ArrayRef); 7] = [
            ("process", Arc::new(UInt32Array::from(processes))),
            ("operation", Arc::new(UInt8Array::from(operations))),
            ("order", Arc::new(UInt8Array::from(orders))),
            ("migratetype", Arc::new(UInt8Array::from(types))),
            ("first", Arc::new(Int32Array::from(firsts))),
            ("count", Arc::new(UInt32Array::from(counts))),
            ("nanoseconds", Arc::new(UInt32Array::from(times))),
        ];
        Ok(RecordBatch::try_from_iter(columns)?)
    }

    /// Reads a profile that is in memory.
    pub fn load(bytes: impl Into<Bytes>) -> Result<ProcessProfile, ProcessError> {
        read(bytes.into(), "profile in memory".to_string())
    }

    /// Reads the profile in `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<ProcessProfile, ProcessError> {
        let file = path.as_ref().display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => read(bytes.into(), file),
            Err(source) => Err(ProcessError::Io { file, source }),
        }
    }
}

fn read(bytes: Bytes, file: String) -> Result<ProcessProfile, ProcessError> {
    let damaged = |detail| ProcessError::Parquet { file: file.clone(), detail };
    let length = bytes.len() as u64;
    let builder = unpanicked(|| ParquetRecordBatchReaderBuilder::try_new(bytes)).map_err(damaged)?;
    parquet_size::check(builder.metadata(), length).map_err(damaged)?;
    let pairs = builder.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let Some(json) = pairs.filter(|pair| pair.key == KEY).find_map(|pair| pair.value.clone()) else {
        return Err(ProcessError::Foreign { file });
    };
    let wrong = |source| ProcessError::Document { file: file.clone(), source };
    // The format number comes first: a newer document need not have the fields of this one.
    let value: serde_json::Value = serde_json::from_str(&json).map_err(wrong)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => {
            return Err(ProcessError::Newer { file, format, supported: FORMAT });
        }
        _ => {}
    }
    let document: Document = serde_json::from_value(value).map_err(wrong)?;
    let metadata = builder.metadata().file_metadata().clone();
    let content = |error: ContentHashError| damaged(error.to_string());
    let required = document.format >= FIRST_HASHED_FORMAT;
    let mut reading = Reading {
        file: file.clone(),
        operations: Vec::new(),
        ends: vec![0; document.kinds.len()],
        process: 0,
        freed_until: 0,
        allocated: 0,
    };
    let mut batches = unpanicked(|| builder.with_batch_size(BATCH).build()).map_err(damaged)?;
    let mut check = ContentCheck::begin(&metadata, &batches.schema(), &[KEY], required).map_err(content)?;
    while let Some(batch) = unpanicked(|| batches.next().transpose()).map_err(damaged)? {
        reading.batch(&batch)?;
        check.add(&batch).map_err(content)?;
    }
    check.finish().map_err(content)?;
    reading.finish(document)
}

/// A profile while its rows arrive.
struct Reading {
    file: String,
    operations: Vec<Operation>,
    ends: Vec<u32>,
    process: usize,
    freed_until: i64,
    allocated: i64,
}

impl Reading {
    fn refuse(&self, row: usize, column: &'static str, text: String) -> ProcessError {
        ProcessError::Value { file: self.file.clone(), row, column, text }
    }

    fn column<'a, T: ArrowPrimitiveType>(
        &self,
        batch: &'a RecordBatch,
        name: &'static str,
    ) -> Result<&'a [T::Native], ProcessError> {
        let row = self.operations.len();
        let Some(column) = batch.column_by_name(name) else {
            return Err(self.refuse(row, name, "the column is missing".into()));
        };
        match column.as_primitive_opt::<T>() {
            Some(column) if column.null_count() == 0 => Ok(column.values()),
            Some(_) => Err(self.refuse(row, name, "a value is null".into())),
            None => {
                Err(self.refuse(row, name, format!("is {}, should be {}", column.data_type(), T::DATA_TYPE)))
            }
        }
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ProcessError> {
        let processes = self.column::<UInt32Type>(batch, "process")?;
        let operations = self.column::<UInt8Type>(batch, "operation")?;
        let orders = self.column::<UInt8Type>(batch, "order")?;
        let types = self.column::<UInt8Type>(batch, "migratetype")?;
        let firsts = self.column::<Int32Type>(batch, "first")?;
        let counts = self.column::<UInt32Type>(batch, "count")?;
        let times = self.column::<UInt32Type>(batch, "nanoseconds")?;
        for i in 0..batch.num_rows() {
            let row = self.operations.len();
            let process = processes[i] as usize;
            if process < self.process || process >= self.ends.len() {
                let text = format!("{process}: processes must ascend, up to {}", self.ends.len());
                return Err(self.refuse(row, "process", text));
            }
            if process > self.process {
                self.ends[self.process..process].fill(row as u32);
                (self.process, self.freed_until, self.allocated) = (process, 0, 0);
            }
            let (order, count, nanoseconds) = (orders[i], counts[i], times[i]);
            if order > mm::page::MAX_PAGE_ORDER {
                let text = format!("{order}: orders go from 0 to {}", mm::page::MAX_PAGE_ORDER);
                return Err(self.refuse(row, "order", text));
            }
            let operation = match operations[i] {
                0 => Operation::Run { nanoseconds },
                1 => {
                    let Some(migrate_type) = MigrateType::from_number(types[i]) else {
                        return Err(self.refuse(
                            row,
                            "migratetype",
                            format!("{}: types go from 0 to 3", types[i]),
                        ));
                    };
                    self.allocated += i64::from(count);
                    if self.allocated > i64::from(i32::MAX) {
                        let text = format!("process {process} makes over 2^31 allocations");
                        return Err(self.refuse(row, "count", text));
                    }
                    Operation::Allocate { order, migrate_type, count, nanoseconds }
                }
                2 => {
                    let first = self.freed_until + i64::from(firsts[i]);
                    self.freed_until = first + i64::from(count);
                    if first < 0 || self.freed_until > self.allocated {
                        let text =
                            format!("frees allocations {first}..{} of {}", self.freed_until, self.allocated);
                        return Err(self.refuse(row, "first", text));
                    }
                    Operation::Free { first: first as u32, count, nanoseconds }
                }
                3 => Operation::FreeShared { order, count, nanoseconds },
                other => {
                    return Err(self.refuse(row, "operation", format!("{other}: operations go from 0 to 3")));
                }
            };
            self.operations.push(operation);
        }
        Ok(())
    }

    fn finish(mut self, document: Document) -> Result<ProcessProfile, ProcessError> {
        let rows = self.operations.len();
        self.ends.iter_mut().skip(self.process).for_each(|end| *end = rows as u32);
        let mut named = document.units.iter().flatten().chain(&document.tail);
        if let Some(index) = named.find(|&&index| index as usize >= document.kinds.len()) {
            let text = format!("names process {index} of {}", document.kinds.len());
            return Err(self.refuse(rows, "units (metadata)", text));
        }
        if let Some(unit) = document.units.iter().position(Vec::is_empty) {
            return Err(self.refuse(rows, "units (metadata)", format!("unit {unit} has no processes")));
        }
        Ok(ProcessProfile { document, operations: self.operations, ends: self.ends })
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn times_keep_their_highest_bits() {
        assert_eq!(
            [0, 1, 15, 16, 17, 33, 1_000_000, u32::MAX].map(rounded),
            [0, 1, 15, 16, 18, 32, 983_040, u32::MAX]
        );
    }
}
