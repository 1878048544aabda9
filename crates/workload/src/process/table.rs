//! The profile file: a Parquet table with one row per operation, and a JSON document with the origin of the
//! profile.
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
//! | `first` | i32 | of frees: distance from the end of the process's previous free (for the first free: from 0) |
//! | `count` | u32 | how many |
//! | `nanoseconds` | u32 | CPU time, rounded to 4 significant bits |
//!
//! Rounding changes a total by less than 1% and halves the size of the file.

use super::error::ProcessError;
use super::operation::Operation;
use super::profile::{Document, FIRST_HASHED_FORMAT, FORMAT, ProcessProfile};
use crate::content_hash::{ContentCheck, ContentHashError};
use crate::output::{Existing, Output};
use crate::parquet_file::{BATCH, ParquetFile};
use crate::table::{Field, Footer, Rows, TableReader, Type, Values};
use crate::trace::TraceError;
use bytes::Bytes;
use mm::MigrateType;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::path::Path;

/// Key of the JSON document in the Parquet file's metadata.
pub(super) const KEY: &str = "mmtwin.processes";

const FIELDS: [Field; 7] = [
    Field::new("process", Type::U32),
    Field::new("operation", Type::U8),
    Field::new("order", Type::U8),
    Field::new("migratetype", Type::U8),
    Field::new("first", Type::I32),
    Field::new("count", Type::U32),
    Field::new("nanoseconds", Type::U32),
];

/// Significant bits of times in the file.
const TIME_BITS: u32 = 4;

/// Rounds to the [`TIME_BITS`] highest bits.
fn rounded(nanoseconds: u32) -> u32 {
    let drop = (u32::BITS - nanoseconds.leading_zeros()).saturating_sub(TIME_BITS);
    let half = (1u64 << drop) / 2;
    u32::try_from((u64::from(nanoseconds) + half) >> drop << drop).unwrap_or(u32::MAX)
}

/// A row to be written.
struct Row {
    process: u32,
    operation: u8,
    order: u8,
    migratetype: u8,
    first: i32,
    count: u32,
    nanoseconds: u32,
}

impl Row {
    /// Encodes `operation` of `process`, whose previous free ended with allocation `freed_until`.
    fn new(process: u32, operation: Operation, freed_until: &mut i64) -> Result<Row, ParquetError> {
        let (number, order, migratetype, first, count) = match operation {
            Operation::Run { .. } => (0, 0, 0, 0, 0),
            Operation::Allocate { order, migrate_type, count, .. } => {
                (1, order, migrate_type as u8, 0, count)
            }
            Operation::Free { first, count, .. } => {
                let distance = i64::from(first) - *freed_until;
                *freed_until = i64::from(first) + i64::from(count);
                let distance = i32::try_from(distance).map_err(|_| {
                    ParquetError::General(format!("process {process} made over 2^31 allocations"))
                })?;
                (2, 0, 0, distance, count)
            }
            Operation::FreeShared { order, count, .. } => (3, order, 0, 0, count),
        };
        let nanoseconds = rounded(operation.nanoseconds());
        Ok(Row { process, operation: number, order, migratetype, first, count, nanoseconds })
    }
}

impl ProcessProfile {
    /// Writes the profile; an existing file is replaced only once the new one is complete.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ProcessError> {
        let file = path.as_ref().display().to_string();
        let write = |source| TraceError::Write { file: file.clone(), source };
        let document = serde_json::to_string(&self.document)
            .map_err(|source| ProcessError::Document { file: file.clone(), source })?;
        let level = ZstdLevel::try_new(19).map_err(write)?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
        let rows = self.rows().map_err(write)?;
        let output = Output::at(path.as_ref(), Existing::Replace).and_then(|output| output.create());
        let mut table = ParquetFile::create(output.map_err(TraceError::from)?, &FIELDS, properties)?;
        for rows in rows.chunks(BATCH) {
            table.write(Rows::new([
                Values::U32(rows.iter().map(|row| row.process).collect()),
                Values::U8(rows.iter().map(|row| row.operation).collect()),
                Values::U8(rows.iter().map(|row| row.order).collect()),
                Values::U8(rows.iter().map(|row| row.migratetype).collect()),
                Values::I32(rows.iter().map(|row| row.first).collect()),
                Values::U32(rows.iter().map(|row| row.count).collect()),
                Values::U32(rows.iter().map(|row| row.nanoseconds).collect()),
            ]))?;
        }
        table.finish(KEY, document)?;
        Ok(())
    }

    fn rows(&self) -> Result<Vec<Row>, ParquetError> {
        let mut rows = Vec::with_capacity(self.operations.len());
        for process in 0..self.len() as u32 {
            let mut freed_until = 0;
            for &operation in self.process(process) {
                rows.push(Row::new(process, operation, &mut freed_until)?);
            }
        }
        Ok(rows)
    }

    /// Reads a profile from memory.
    pub fn load(bytes: impl Into<Bytes>) -> Result<ProcessProfile, ProcessError> {
        read(bytes.into(), "profile in memory".to_string())
    }

    /// Reads the profile at `path`.
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
    let footer = Footer::read(&bytes).map_err(damaged)?;
    let Some(json) = footer.text(KEY) else { return Err(ProcessError::Foreign { file }) };
    let wrong = |source| ProcessError::Document { file: file.clone(), source };
    // The format number is checked first, because a newer document need not have this one's fields.
    let value: serde_json::Value = serde_json::from_str(json).map_err(wrong)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => {
            return Err(ProcessError::Newer { file, format, supported: FORMAT });
        }
        _ => {}
    }
    let document: Document = serde_json::from_value(value).map_err(wrong)?;
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
    if let Some((field, found)) = footer.differing(&FIELDS) {
        let text = match found {
            None => "the column is missing".into(),
            Some(found) => format!("is {found}, should be {}", field.column_type()),
        };
        return Err(reading.refuse(0, field.name(), text));
    }
    let mut check = ContentCheck::begin(&footer, &FIELDS, &[KEY], required).map_err(content)?;
    let mut table = TableReader::new(bytes, &footer, &FIELDS).map_err(damaged)?;
    while let Some(rows) = table.next(BATCH).map_err(damaged)? {
        reading.rows(&rows)?;
        check.add(&rows).map_err(content)?;
    }
    check.finish().map_err(content)?;
    reading.finish(document)
}

/// A profile being read, row by row.
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

    fn rows(&mut self, rows: &Rows) -> Result<(), ProcessError> {
        if let Some((column, _)) = rows.first_null() {
            return Err(self.refuse(self.operations.len(), FIELDS[column].name(), "a value is null".into()));
        }
        let [
            Values::U32(processes),
            Values::U8(operations),
            Values::U8(orders),
            Values::U8(types),
            Values::I32(firsts),
            Values::U32(counts),
            Values::U32(times),
        ] = &rows.values()[..]
        else {
            return Err(self.refuse(self.operations.len(), KEY, "columns change their types".into()));
        };
        for i in 0..rows.count() {
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
                2 => self.free(firsts[i], count, nanoseconds)?,
                3 => Operation::FreeShared { order, count, nanoseconds },
                other => {
                    return Err(self.refuse(row, "operation", format!("{other}: operations go from 0 to 3")));
                }
            };
            self.operations.push(operation);
        }
        Ok(())
    }

    /// Decodes a free of `count` allocations; `distance` is that of the first one from the end of the
    /// previous free.
    fn free(&mut self, distance: i32, count: u32, nanoseconds: u32) -> Result<Operation, ProcessError> {
        let first = self.freed_until + i64::from(distance);
        self.freed_until = first + i64::from(count);
        if first < 0 || self.freed_until > self.allocated {
            let text = format!("frees allocations {first}..{} of {}", self.freed_until, self.allocated);
            return Err(self.refuse(self.operations.len(), "first", text));
        }
        Ok(Operation::Free { first: first as u32, count, nanoseconds })
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
