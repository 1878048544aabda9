//! The profile file: a Parquet table with one row an operation, and a JSON document about where it is from.
//!
//! Columns: `process` u32 (rows of a process are consecutive), `operation` u8 (0 run, 1 allocate, 2 free,
//! 3 free_shared), `order` u8, `migratetype` u8, `first` i32 (for frees: distance from the end of the
//! process's previous free), `count` u32, `nanoseconds` u32 (rounded to 4 significant bits, which changes no
//! total by more than a few parts in a thousand and makes the file half as large).

use super::operation::Operation;
use crate::trace::Metadata;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, Int32Array, RecordBatch, UInt8Array, UInt32Array};
use mm::MigrateType;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

const KEY: &str = "mmtwin.processes";
const FORMAT: u32 = 1;

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// Not a Parquet file, or a damaged one.
    #[error("not a readable Parquet file ({0}); make a profile with: mmtwin distil TRACE -o FILE")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// Damaged data.
    #[error("damaged data: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A Parquet file of something else.
    #[error("no `{KEY}` in the file's metadata: this is not a process profile; make one with: mmtwin distil TRACE -o FILE")]
    Foreign,
    /// The JSON document cannot be read.
    #[error("`{KEY}` in the file's metadata: {0}")]
    Document(#[from] serde_json::Error),
    /// A newer format.
    #[error("format {0}, this mmtwin reads format {FORMAT}: use a newer mmtwin")]
    Newer(u32),
    /// A value that no profile has.
    #[error("row {row}, column {column}: {text}")]
    Value {
        /// Row in the table, from 0.
        row: usize,
        /// The column.
        column: &'static str,
        /// What is wrong.
        text: String,
    },
    /// A file cannot be written or read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its name (comm) when it ended.
    pub kind: String,
    /// Its pid in the recording.
    pub task: i32,
    /// What it did.
    pub operations: Vec<Operation>,
}

/// What the recording held, for comparison with what the profile gives back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Jobs of make, those left out of the profile included.
    pub units: u64,
    /// CPU seconds of the build's processes.
    pub cpu_seconds: f64,
    /// Base pages that the build's processes allocated.
    pub allocated_pages: u64,
    /// Base pages that they freed and had allocated themselves.
    pub freed_own_pages: u64,
    /// Base pages that they, or others for them, freed and that another process had allocated.
    pub freed_shared_pages: u64,
    /// Allocations by order and type.
    pub allocations: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Document {
    format: u32,
    kernel_release: String,
    command: Vec<String>,
    seconds: f64,
    totals: Totals,
    kinds: Vec<String>,
    units: Vec<Vec<u32>>,
    tail: Vec<u32>,
}

/// The processes of a recorded build.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessProfile {
    document: Document,
    operations: Vec<Operation>,
    /// For each process, where its operations end.
    ends: Vec<u32>,
}

/// What the processes of one kind do, summed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Processes of the kind.
    pub processes: u64,
    /// CPU seconds.
    pub cpu_seconds: f64,
    /// Base pages allocated.
    pub allocated_pages: u64,
    /// Base pages of own allocations freed.
    pub freed_own_pages: u64,
    /// Base pages of others freed.
    pub freed_shared_pages: u64,
    /// Operations.
    pub operations: u64,
}

/// Keeps the four highest bits, rounded to nearest.
fn rounded(nanoseconds: u32) -> u32 {
    let drop = (32 - nanoseconds.leading_zeros()).saturating_sub(4);
    if drop == 0 {
        return nanoseconds;
    }
    (((u64::from(nanoseconds) + (1 << (drop - 1))) >> drop) << drop).min(u32::MAX.into()) as u32
}

impl ProcessProfile {
    /// A profile of those of `recorded` that `units` and `tail` name.
    pub(super) fn assemble(recorded: Vec<Process>, units: Vec<Vec<u32>>, tail: Vec<u32>, mut totals: Totals, metadata: &Metadata) -> ProcessProfile {
        let spent = recorded.iter().flat_map(|process| &process.operations).map(|o| f64::from(o.nanoseconds()));
        totals.cpu_seconds = spent.sum::<f64>() / 1e9;
        let (mut kinds, mut operations, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut keep = |old: &u32| {
            let process = &recorded[*old as usize];
            kinds.push(process.kind.clone());
            operations.extend_from_slice(&process.operations);
            ends.push(operations.len() as u32);
            ends.len() as u32 - 1
        };
        let units = units.iter().map(|unit| unit.iter().map(&mut keep).collect()).collect();
        let tail = tail.iter().map(&mut keep).collect();
        let document = Document {
            format: FORMAT,
            kernel_release: metadata.kernel_release.clone(),
            command: metadata.command.clone(),
            seconds: metadata.seconds,
            totals,
            kinds,
            units,
            tail,
        };
        ProcessProfile { document, operations, ends }
    }

    /// Jobs that may run at the same time; each is a list of processes for [`ProcessProfile::process`].
    pub fn units(&self) -> &[Vec<u32>] {
        &self.document.units
    }

    /// Processes that ran one at a time at the end.
    pub fn tail(&self) -> &[u32] {
        &self.document.tail
    }

    /// What process `index` does.
    pub fn process(&self, index: u32) -> &[Operation] {
        let index = index as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.operations[start..self.ends[index] as usize]
    }

    /// Number of processes.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no processes.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name of process `index`.
    pub fn kind(&self, index: u32) -> &str {
        &self.document.kinds[index as usize]
    }

    /// What the recording held.
    pub fn totals(&self) -> &Totals {
        &self.document.totals
    }

    /// The command that was recorded.
    pub fn command(&self) -> &[String] {
        &self.document.command
    }

    /// Sums of `processes` by kind.
    pub fn summary(&self, processes: impl Iterator<Item = u32>) -> BTreeMap<&str, Summary> {
        let mut kinds: BTreeMap<&str, Summary> = BTreeMap::new();
        let mut orders = Vec::new();
        for index in processes {
            let sum = kinds.entry(self.kind(index)).or_default();
            sum.processes += 1;
            orders.clear();
            for &operation in self.process(index) {
                sum.operations += 1;
                sum.cpu_seconds += f64::from(operation.nanoseconds()) / 1e9;
                match operation {
                    Operation::Run { .. } => {}
                    Operation::Allocate { order, count, .. } => {
                        sum.allocated_pages += u64::from(count) << order;
                        orders.resize(orders.len() + count as usize, order);
                    }
                    Operation::Free { first, count, .. } => {
                        let freed = &orders[first as usize..(first + count) as usize];
                        sum.freed_own_pages += freed.iter().map(|&order| 1u64 << order).sum::<u64>();
                    }
                    Operation::FreeShared { order, count, .. } => sum.freed_shared_pages += u64::from(count) << order,
                }
            }
        }
        kinds
    }

    /// Writes the profile; an existing file is replaced only by a complete one.
    pub fn write(&self, path: &Path) -> Result<(), ProcessError> {
        let io = |error| ProcessError::Io { path: path.display().to_string(), error };
        let partial = path.with_extension("partial");
        let batch = self.to_batch()?;
        let document = KeyValue::new(KEY.to_string(), serde_json::to_string(&self.document)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(19)?))
            .set_key_value_metadata(Some(vec![document]))
            .build();
        let file = std::fs::File::create(&partial).map_err(io)?;
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.close()?;
        std::fs::rename(&partial, path).map_err(io)
    }

    fn to_batch(&self) -> Result<RecordBatch, ProcessError> {
        let mut columns: (Vec<u32>, Vec<u8>, Vec<u8>, Vec<u8>) = Default::default();
        let (mut firsts, mut counts, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for process in 0..self.len() as u32 {
            let mut freed_until = 0i64;
            for &operation in self.process(process) {
                let (number, order, migratetype, first, count) = match operation {
                    Operation::Run { .. } => (0, 0, 0, 0, 0),
                    Operation::Allocate { order, migrate_type, count, .. } => (1, order, migrate_type as u8, 0, count),
                    Operation::Free { first, count, .. } => {
                        let distance = i64::from(first) - freed_until;
                        freed_until = i64::from(first) + i64::from(count);
                        (2, 0, 0, distance as i32, count)
                    }
                    Operation::FreeShared { order, count, .. } => (3, order, 0, 0, count),
                };
                columns.0.push(process);
                columns.1.push(number);
                columns.2.push(order);
                columns.3.push(migratetype);
                firsts.push(first);
                counts.push(count);
                times.push(rounded(operation.nanoseconds()));
            }
        }
        let arrays: Vec<(&str, ArrayRef)> = vec![
            ("process", Arc::new(UInt32Array::from(columns.0))),
            ("operation", Arc::new(UInt8Array::from(columns.1))),
            ("order", Arc::new(UInt8Array::from(columns.2))),
            ("migratetype", Arc::new(UInt8Array::from(columns.3))),
            ("first", Arc::new(Int32Array::from(firsts))),
            ("count", Arc::new(UInt32Array::from(counts))),
            ("nanoseconds", Arc::new(UInt32Array::from(times))),
        ];
        Ok(RecordBatch::try_from_iter(arrays)?)
    }

    /// Reads a profile from the bytes of its file.
    pub fn load(bytes: &'static [u8]) -> Result<ProcessProfile, ProcessError> {
        ProcessProfile::read(bytes::Bytes::from_static(bytes))
    }

    /// Reads the profile in `path`.
    pub fn open(path: &Path) -> Result<ProcessProfile, ProcessError> {
        let bytes = std::fs::read(path).map_err(|error| ProcessError::Io { path: path.display().to_string(), error })?;
        ProcessProfile::read(bytes.into())
    }

    fn read(bytes: bytes::Bytes) -> Result<ProcessProfile, ProcessError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?.with_batch_size(1 << 16);
        let pairs = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
        let text = pairs.into_iter().find(|pair| pair.key == KEY).and_then(|pair| pair.value);
        let document: Document = serde_json::from_str(&text.ok_or(ProcessError::Foreign)?)?;
        if document.format > FORMAT {
            return Err(ProcessError::Newer(document.format));
        }
        let mut reading = Reading { ends: vec![0; document.kinds.len()], ..Reading::default() };
        for batch in builder.build()? {
            reading.batch(&batch?)?;
        }
        reading.finish(document)
    }
}

/// A profile while its rows arrive.
#[derive(Default)]
struct Reading {
    operations: Vec<Operation>,
    ends: Vec<u32>,
    process: usize,
    freed_until: i64,
    allocated: i64,
}

impl Reading {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ProcessError> {
        let start = self.operations.len();
        let column = |name: &'static str| {
            batch.column_by_name(name).filter(|column| column.null_count() == 0).ok_or(ProcessError::Value {
                row: start,
                column: name,
                text: "the column is missing or has nulls".into(),
            })
        };
        let kind = |column: &'static str| ProcessError::Value { row: start, column, text: "wrong type".into() };
        macro_rules! values {
            ($name:literal, $type:ty) => {
                column($name)?.as_primitive_opt::<$type>().ok_or_else(|| kind($name))?.values()
            };
        }
        let processes = values!("process", UInt32Type);
        let operations = values!("operation", UInt8Type);
        let orders = values!("order", UInt8Type);
        let types = values!("migratetype", UInt8Type);
        let firsts = values!("first", Int32Type);
        let counts = values!("count", UInt32Type);
        let times = values!("nanoseconds", UInt32Type);
        for i in 0..batch.num_rows() {
            let refuse = |column, text: String| Err(ProcessError::Value { row: start + i, column, text });
            let process = processes[i] as usize;
            if process < self.process || process >= self.ends.len() {
                return refuse("process", format!("{process}: processes must come in order and be listed"));
            }
            if process > self.process {
                self.ends[self.process..process].fill(self.operations.len() as u32);
                (self.process, self.freed_until, self.allocated) = (process, 0, 0);
            }
            let (order, count, nanoseconds) = (orders[i], counts[i], times[i]);
            if order > mm::page::MAX_PAGE_ORDER {
                return refuse("order", format!("{order}: orders go from 0 to 10"));
            }
            self.operations.push(match operations[i] {
                0 => Operation::Run { nanoseconds },
                1 => {
                    let Some(migrate_type) = MigrateType::from_number(types[i]) else {
                        return refuse("migratetype", format!("{}: types go from 0 to 3", types[i]));
                    };
                    self.allocated += i64::from(count);
                    Operation::Allocate { order, migrate_type, count, nanoseconds }
                }
                2 => {
                    let first = self.freed_until + i64::from(firsts[i]);
                    self.freed_until = first + i64::from(count);
                    if first < 0 || self.freed_until > self.allocated {
                        return refuse("first", format!("frees allocations {first}..{} of {}", self.freed_until, self.allocated));
                    }
                    Operation::Free { first: first as u32, count, nanoseconds }
                }
                3 => Operation::FreeShared { order, count, nanoseconds },
                other => return refuse("operation", format!("{other}: operations go from 0 to 3")),
            });
        }
        Ok(())
    }

    fn finish(mut self, document: Document) -> Result<ProcessProfile, ProcessError> {
        let rows = self.operations.len();
        self.ends[self.process.min(document.kinds.len().saturating_sub(1))..].fill(rows as u32);
        let known = |index: &u32| (*index as usize) < document.kinds.len();
        if !document.units.iter().flatten().chain(&document.tail).all(known) || document.units.iter().any(Vec::is_empty) {
            let text = "units name processes that are not in the file, or none".into();
            return Err(ProcessError::Value { row: rows, column: "units (metadata)", text });
        }
        Ok(ProcessProfile { document, operations: self.operations, ends: self.ends })
    }
}
