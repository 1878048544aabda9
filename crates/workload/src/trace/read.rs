//! Reads traces, a batch of rows at a time.
//!
//! The file is not trusted. The schema is checked on opening, each value and the order of times while
//! decoding, and the content hash at the end; the first error ends the iteration. [`crate::table`] adds the
//! checks that the Parquet crate does not make.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use parquet::file::reader::ChunkReader;

use super::schema::FIELDS;
use super::{Event, FIRST_HASHED_FORMAT, FORMAT, METADATA_KEY, Metadata, Operation, TraceError};
use crate::content_hash::ContentCheck;
use crate::parquet_file::BATCH;
use crate::table::{Footer, Rows, TableReader, Values};

/// Reads a trace: its metadata on opening, its events as an iterator.
pub struct TraceReader {
    file: String,
    metadata: Metadata,
    table: TableReader,
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

    /// Reads a trace from memory.
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

        let footer = Footer::read(&input).map_err(corrupt)?;
        let metadata = read_metadata(&footer, &file)?;
        check_schema(&footer, &file)?;
        let rows = footer.rows();
        if u64::try_from(rows) != Ok(metadata.events) {
            return Err(corrupt(format!("{rows} rows, its metadata says {}", metadata.events)));
        }
        let table = TableReader::new(input, &footer, &FIELDS).map_err(corrupt)?;
        let required = metadata.format >= FIRST_HASHED_FORMAT;
        let content = ContentCheck::begin(&footer, &FIELDS, &[METADATA_KEY], required)
            .map_err(|error| corrupt(error.to_string()))?;
        Ok(TraceReader {
            file,
            metadata,
            table,
            content,
            events: Vec::new(),
            next: 0,
            row: 0,
            time: 0,
            ended: false,
        })
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns an error if events were lost.
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

    /// The next rows, or an empty slice at the end. Rows that the iterator has returned are not repeated.
    pub fn next_batch(&mut self) -> Result<&[Event], TraceError> {
        if self.next == self.events.len() {
            self.refill()?;
        }
        let start = std::mem::replace(&mut self.next, self.events.len());
        Ok(&self.events[start..])
    }

    /// Decodes the next batch into `self.events`; it stays empty at the end of the file and after an error.
    fn refill(&mut self) -> Result<(), TraceError> {
        self.next = 0;
        self.events.clear();
        while self.events.is_empty() && !self.ended {
            let result = match self.table.next(BATCH) {
                Ok(None) => {
                    self.ended = true;
                    self.check_content()
                }
                Ok(Some(rows)) => self.decode(&rows),
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

    fn decode(&mut self, rows: &Rows) -> Result<(), TraceError> {
        if let Some((column, row)) = rows.first_null() {
            let (row, column) = (self.row + row as u64, FIELDS[column].name());
            return Err(TraceError::Null { file: self.file.clone(), row, column });
        }
        let [
            Values::U64(time),
            Values::U16(cpu),
            Values::I32(task),
            Values::Text(operation),
            Values::U8(order),
            Values::I8(migratetype),
            Values::U32(pfn),
            Values::U32(argument),
            Values::Bool(blocked),
        ] = &rows.values()[..]
        else {
            let detail = format!("its columns change their types at row {}", self.row);
            return Err(TraceError::Corrupt { file: self.file.clone(), detail });
        };
        let operations: Vec<Option<Operation>> = operation.distinct().map(Operation::from_name).collect();
        for (index, &key) in operation.keys().iter().enumerate() {
            let row = self.row + index as u64;
            let Some(operation) = operations[key as usize] else {
                let value = operation.iter().nth(index).unwrap_or_default().to_string();
                let file = self.file.clone();
                return Err(TraceError::UnknownOperation { file, row, value });
            };
            let time = time[index];
            if time < self.time {
                let (file, previous) = (self.file.clone(), self.time);
                return Err(TraceError::TimeBackwards { file, row, time, previous });
            }
            self.time = time;
            self.events.push(Event {
                time,
                pfn: pfn[index],
                argument: argument[index],
                task: task[index],
                cpu: cpu[index],
                operation,
                order: order[index],
                migratetype: migratetype[index],
                blocked: blocked[index],
            });
        }
        self.row += rows.count() as u64;
        self.content.add(rows).map_err(|error| {
            let (file, detail) = (self.file.clone(), error.to_string());
            TraceError::Corrupt { file, detail }
        })
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

fn read_metadata(footer: &Footer, file: &str) -> Result<Metadata, TraceError> {
    let Some(document) = footer.text(METADATA_KEY) else {
        let names: Vec<&str> = footer.columns().take(12).map(|column| column.name).collect();
        return Err(TraceError::Foreign { file: file.to_string(), columns: names.join(", ") });
    };
    let wrong = |source| TraceError::Metadata { file: file.to_string(), source };
    // The format number is checked first, because a newer document need not have this one's fields.
    let value: serde_json::Value = serde_json::from_str(document).map_err(wrong)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => {
            Err(TraceError::Newer { file: file.to_string(), format, supported: FORMAT })
        }
        _ => serde_json::from_value(value).map_err(wrong),
    }
}

fn check_schema(footer: &Footer, file: &str) -> Result<(), TraceError> {
    let Some((field, found)) = footer.differing(&FIELDS) else { return Ok(()) };
    let (file, column, expected) = (file.to_string(), field.name(), field.column_type().to_string());
    Err(match found {
        None => TraceError::MissingColumn { file, column, expected },
        Some(actual) => TraceError::ColumnType { file, column, expected, actual },
    })
}
