//! Lookups in the page cache of a running kernel, as `mmtwin record --page-cache` writes them.
//!
//! ```text
//!   time  cpu  task  object  index  pages  write  kind
//!      0    1   812       0      0      4  false  read      read(2) of four pages of file 0
//!   9120    0   812       1     16     16  false  map       a fault mapped what is cached around it
//!   ...                                                     add, delete: what the kernel did, not accesses
//! ```
//!
//! One row per event, ordered by time, without nulls. [`PageCacheKind`] says which tracepoint a row comes
//! from. Files have numbers; the JSON document under the Parquet key [`PAGE_CACHE_KEY`] gives the device and
//! inode of each, and the same [`Metadata`] as a trace of the page allocator.

use std::path::PathBuf;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use serde::{Deserialize, Serialize};

use super::{Access, AccessError, BLOCK, Decode};
use crate::content_hash::ContentCheck;
use crate::output::{Existing, Output, OutputFile};
use crate::parquet_file::{BATCH, ParquetFile};
use crate::table::{Field, Footer, Rows, TableReader, Texts, Type, Values};
use crate::trace::{METADATA_KEY, Metadata, TraceError};

/// Version of this format.
pub const PAGE_CACHE_FORMAT: u32 = 2;

/// The first format version whose files have a content hash.
const FIRST_HASHED_FORMAT: u32 = 2;

/// Key of the JSON document in the Parquet file's metadata.
pub const PAGE_CACHE_KEY: &str = "mmtwin.page_cache";

/// What happened to pages of the page cache, one variant per group of tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageCacheKind {
    /// read(2) and its relatives looked pages up (`filemap:mm_filemap_get_pages`).
    Read,
    /// A page fault looked a page up (`filemap:mm_filemap_fault`).
    Fault,
    /// A page fault found its page cached and mapped what is cached around it (`filemap:mm_filemap_map_pages`).
    Map,
    /// write(2) and its relatives (`ext4:ext4_da_write_begin`, `ext4:ext4_write_begin`, `xfs:xfs_file_buffered_write`).
    Write,
    /// Pages were added to the cache (`filemap:mm_filemap_add_to_page_cache`).
    Add,
    /// Pages were removed from the cache (`filemap:mm_filemap_delete_from_page_cache`).
    Delete,
}

impl PageCacheKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [PageCacheKind; 6] = [
        PageCacheKind::Read,
        PageCacheKind::Fault,
        PageCacheKind::Map,
        PageCacheKind::Write,
        PageCacheKind::Add,
        PageCacheKind::Delete,
    ];

    /// The kind's name in the file.
    pub fn name(self) -> &'static str {
        match self {
            PageCacheKind::Read => "read",
            PageCacheKind::Fault => "fault",
            PageCacheKind::Map => "map",
            PageCacheKind::Write => "write",
            PageCacheKind::Add => "add",
            PageCacheKind::Delete => "delete",
        }
    }

    /// Whether the event is an access by a program, not an addition or removal by the kernel.
    pub fn is_access(self) -> bool {
        !matches!(self, PageCacheKind::Add | PageCacheKind::Delete)
    }

    fn from_name(name: &str) -> Option<PageCacheKind> {
        PageCacheKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCacheEvent {
    /// Nanoseconds since the first event.
    pub time: u64,
    pub cpu: u16,
    /// The task's pid in the root namespace.
    pub task: i32,
    /// The file, an index into [`PageCacheDocument::objects`].
    pub object: u32,
    /// First page, counted from the start of the file.
    pub index: u64,
    /// Number of pages, at least one.
    pub pages: u32,
    pub kind: PageCacheKind,
}

/// A file in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCacheObject {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    pub inode: u64,
}

/// The JSON document of a trace of the page cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageCacheDocument {
    /// As in a trace of the page allocator, except that `format` is [`PAGE_CACHE_FORMAT`].
    pub metadata: Metadata,
    /// Files by number; empty if the trace is anonymized. A deleted file and a later one that reused its
    /// inode are the same object.
    pub objects: Vec<PageCacheObject>,
    /// Tracepoints, as `system:name`, that the recorded kernel did not have; events of theirs are missing.
    pub missing: Vec<String>,
}

const TIME: Field = Field::new("time", Type::U64).ascending();
const OBJECT: Field = Field::new("object", Type::U32);
const INDEX: Field = Field::new("index", Type::U64).ascending();
const PAGES: Field = Field::new("pages", Type::U32);
const KIND: Field = Field::new("kind", Type::Text);

/// The columns. Times and indices are close to the values before them; the other columns repeat a few values.
const FIELDS: [Field; 8] = [
    TIME,
    Field::new("cpu", Type::U16),
    Field::new("task", Type::I32),
    OBJECT,
    INDEX,
    PAGES,
    Field::new("write", Type::Bool),
    KIND,
];

/// The columns that an [`Access`] needs.
const ACCESS_FIELDS: [Field; 5] = [TIME, OBJECT, INDEX, PAGES, KIND];

/// Writes a trace of the page cache, row by row.
pub struct PageCacheWriter {
    file: ParquetFile,
    batch: Vec<PageCacheEvent>,
    events: u64,
    time: u64,
}

impl PageCacheWriter {
    /// Starts writing to `path`. A file there stays until [`finish`](Self::finish) replaces it.
    pub fn create(path: impl Into<PathBuf>) -> Result<PageCacheWriter, TraceError> {
        PageCacheWriter::to(Output::at(path, Existing::Replace)?.create()?)
    }

    pub fn to(output: OutputFile) -> Result<PageCacheWriter, TraceError> {
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
        let file = ParquetFile::create(output, &FIELDS, properties)?;
        Ok(PageCacheWriter { file, batch: Vec::with_capacity(BATCH), events: 0, time: 0 })
    }

    /// Adds one row, whose time must not be before that of the previous row.
    pub fn push(&mut self, event: PageCacheEvent) -> Result<(), TraceError> {
        let PageCacheEvent { time, .. } = event;
        if time < self.time {
            let (file, row, previous) = (self.file.name(), self.events, self.time);
            return Err(TraceError::TimeBackwards { file, row, time, previous });
        }
        self.time = time;
        self.events += 1;
        self.batch.push(event);
        if self.batch.len() == BATCH { self.write_batch() } else { Ok(()) }
    }

    /// Completes the file and renames it to its path. Fills in `format`, `events` and `seconds` of the
    /// metadata. Returns the document as written and the size of the file in bytes.
    pub fn finish(mut self, mut document: PageCacheDocument) -> Result<(PageCacheDocument, u64), TraceError> {
        self.write_batch()?;
        document.metadata.format = PAGE_CACHE_FORMAT;
        document.metadata.events = self.events;
        document.metadata.seconds = self.time as f64 / 1e9;
        let text = serde_json::to_string(&document)
            .map_err(|source| TraceError::Metadata { file: self.file.name(), source })?;
        let bytes = self.file.finish(PAGE_CACHE_KEY, text)?;
        Ok((document, bytes))
    }

    fn write_batch(&mut self) -> Result<(), TraceError> {
        let rows = &self.batch;
        let kinds = rows.iter().map(|row| row.kind as u32).collect();
        self.file.write(Rows::new([
            Values::U64(rows.iter().map(|row| row.time).collect()),
            Values::U16(rows.iter().map(|row| row.cpu).collect()),
            Values::I32(rows.iter().map(|row| row.task).collect()),
            Values::U32(rows.iter().map(|row| row.object).collect()),
            Values::U64(rows.iter().map(|row| row.index).collect()),
            Values::U32(rows.iter().map(|row| row.pages).collect()),
            Values::Bool(rows.iter().map(|row| row.kind == PageCacheKind::Write).collect()),
            Values::Text(Texts::of_names(PageCacheKind::ALL.map(PageCacheKind::name), kinds)),
        ]))?;
        self.batch.clear();
        Ok(())
    }
}

/// Reads the accesses of such a trace. The file is not trusted, as with [`crate::trace::TraceReader`].
pub(super) struct PageCache {
    file: String,
    table: TableReader,
    content: ContentCheck,
    rows: u64,
    row: u64,
    time: u64,
}

impl PageCache {
    /// Checks the schema and the document of `input`; `file` names the trace in errors.
    pub fn new<T: ChunkReader + 'static>(input: T, file: String) -> Result<PageCache, AccessError> {
        let wrong = |problem: String| AccessError::Table { file: file.clone(), problem };
        let corrupt =
            |detail: String| wrong(format!("cut short or damaged ({detail}); copy or record it again"));
        let footer = Footer::read(&input).map_err(corrupt)?;
        let PageCacheDocument { metadata, .. } = document(&footer).map_err(wrong)?;
        if metadata.lost > 0 {
            let (lost, events) = (metadata.lost, metadata.events);
            return Err(wrong(format!(
                "{lost} events were lost when it was recorded, besides the {events} that it has; record it again \
                 with a larger --buffer"
            )));
        }
        if let Some((field, found)) = footer.differing(&ACCESS_FIELDS) {
            let (column, found) = (field.name(), found.unwrap_or_else(|| "missing".to_string()));
            return Err(wrong(format!("column `{column}` is {found}, must be {}", field.column_type())));
        }
        let table = TableReader::new(input, &footer, &ACCESS_FIELDS).map_err(corrupt)?;
        let required = metadata.format >= FIRST_HASHED_FORMAT;
        let content = ContentCheck::begin(&footer, &ACCESS_FIELDS, &[PAGE_CACHE_KEY], required)
            .map_err(|error| corrupt(error.to_string()))?;
        Ok(PageCache { file, table, content, rows: metadata.events, row: 0, time: 0 })
    }

    /// Like [`new`](Self::new), for a file that is already in memory.
    pub fn of_bytes(bytes: Vec<u8>, file: String) -> Result<PageCache, AccessError> {
        PageCache::new(Bytes::from(bytes), file)
    }

    fn accesses(&mut self, rows: &Rows, out: &mut Vec<Access>) -> Result<(), String> {
        if let Some((column, _)) = rows.first_null() {
            let (column, row) = (ACCESS_FIELDS[column].name(), self.row);
            return Err(format!("column `{column}` has a null after row {row}; no value may be null"));
        }
        let [
            Values::U64(time),
            Values::U32(object),
            Values::U64(index),
            Values::U32(pages),
            Values::Text(kind),
        ] = &rows.values()[..]
        else {
            return Err(format!(
                "its columns change their types at row {}; copy or record it again",
                self.row
            ));
        };
        let kinds: Vec<Option<PageCacheKind>> = kind.distinct().map(PageCacheKind::from_name).collect();
        for (at, &key) in kind.keys().iter().enumerate() {
            let Some(kind) = kinds[key as usize] else {
                let known = PageCacheKind::ALL.map(PageCacheKind::name).join(", ");
                return Err(format!("row {}: unknown kind; it must be one of {known}", self.row));
            };
            let (time, index, pages) = (time[at], index[at], pages[at]);
            if time < self.time {
                return Err(format!(
                    "row {}: time {time} is before the {} of the row above; sort it by time",
                    self.row, self.time
                ));
            }
            if pages == 0 || index.checked_add(pages.into()).is_none() {
                return Err(format!(
                    "row {}: {pages} pages from page {index}; at least one, and none past 2^64, can be accessed",
                    self.row
                ));
            }
            self.time = time;
            self.row += 1;
            if kind.is_access() {
                let (object, write) = (object[at].into(), kind == PageCacheKind::Write);
                out.push(Access { time_ns: time, object, index, pages, write });
            }
        }
        Ok(())
    }
}

impl Decode for PageCache {
    fn decode(&mut self, out: &mut Vec<Access>) -> Result<(), AccessError> {
        // A batch may contain only additions and removals.
        while out.is_empty() {
            let file = self.file.clone();
            let wrong = |problem: String| AccessError::Table { file: file.clone(), problem };
            let damaged =
                |detail: String| wrong(format!("cut short or damaged ({detail}); copy or record it again"));
            match self.table.next(BLOCK) {
                Ok(Some(rows)) => {
                    let file = self.file.clone();
                    self.accesses(&rows, out).map_err(|problem| AccessError::Table { file, problem })?;
                    self.content.add(&rows).map_err(|error| damaged(error.to_string()))?;
                }
                Ok(None) if self.row == self.rows => {
                    return self.content.finish().map_err(|error| damaged(error.to_string()));
                }
                Ok(None) => {
                    let (row, rows) = (self.row, self.rows);
                    return Err(wrong(format!(
                        "{row} rows, its document says {rows}: cut short or damaged; copy or record it again"
                    )));
                }
                Err(detail) => return Err(damaged(detail)),
            }
        }
        Ok(())
    }
}

/// Reads the JSON document; the error says what the file is instead.
fn document(footer: &Footer) -> Result<PageCacheDocument, String> {
    let remedy = "record one with `mmtwin record --page-cache -o cache.parquet -- COMMAND`";
    let Some(text) = footer.text(PAGE_CACHE_KEY) else {
        return Err(match footer.text(METADATA_KEY) {
            Some(_) => format!("is a trace of the page allocator, not of the page cache; {remedy}"),
            None => format!("is a Parquet file, but not a trace of the page cache; {remedy}"),
        });
    };
    let wrong = |error: serde_json::Error| {
        format!("the `{PAGE_CACHE_KEY}` document is not what format {PAGE_CACHE_FORMAT} says: {error}")
    };
    // The format number is checked first, because a newer document need not have this one's fields.
    let value: serde_json::Value = serde_json::from_str(text).map_err(wrong)?;
    match value.pointer("/metadata/format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > PAGE_CACHE_FORMAT.into() => {
            Err(format!("has format {format}, this mmtwin reads up to {PAGE_CACHE_FORMAT}; update mmtwin"))
        }
        _ => serde_json::from_value(value).map_err(wrong),
    }
}
