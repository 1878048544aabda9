//! A Parquet file with one or many runs, which pandas, DuckDB and polars can read.
//!
//! ```text
//!   row group   rows of whole runs, see `rows.rs`; the file of a single run has one group
//!   ...
//!   footer      mmtwin.results        {"schema":"mmtwin-results/2","runs":[{"run":"5c1e..",..,"rows":212,"content":"81f0.."}]}
//!               mmtwin.results.hash   hash of the text above
//! ```
//!
//! Three hashes are checked at every read: the one in the footer covers the list of runs, `content` in the
//! list covers the values of a run, and the run's identity, a hash of its description, covers what the values
//! belong to. A flipped bit is therefore never read as another number, nor one run's file as another's.

use super::directory;
use super::identity::{DescribedRun, hash};
use super::record::Record;
use super::rows::{self, FIELDS};
use super::summary::Entry;
use super::{Program, ResultsError};
use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, Length};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use workload::content_hash::ContentHasher;
use workload::table::{Footer, Rows, TableReader, TableWriter};

/// Name and version of the layout.
pub const SCHEMA_NAME: &str = "mmtwin-results/2";

const INDEX: &str = "mmtwin.results";
const INDEX_HASH: &str = "mmtwin.results.hash";

/// A row group is closed after the run with which it reaches this length. Reading one run decodes its whole
/// row group.
const ROWS_OF_A_GROUP: usize = 1 << 15;

/// Compression levels of zstd: the highest useful one for files of up to [`FEW_ROWS`] rows, where it takes no
/// noticeable time, and a fast one for larger files.
const SMALLEST: i32 = 19;
const QUICK: i32 = 3;
const FEW_ROWS: usize = 1 << 12;

/// The list of runs in a file.
#[derive(Serialize, Deserialize)]
struct Index {
    schema: String,
    runs: Vec<Entry>,
}

/// The part of the list of runs that all layouts have.
#[derive(Deserialize)]
struct Layout {
    #[serde(default)]
    schema: String,
}

/// A run as stored in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredRun {
    pub entry: Entry,
    pub rows: Rows,
}

/// The hash of a run's values and of its entry in the list of runs.
pub(super) fn content(entry: &Entry, rows: &Rows) -> Result<String, String> {
    let unhashed = Entry { content: String::new(), ..entry.clone() };
    let summary = serde_json::to_string(&unhashed).map_err(|error| error.to_string())?;
    let mut hasher = ContentHasher::new(&FIELDS);
    hasher.add(rows).map_err(|error| error.to_string())?;
    Ok(hasher.finish(&[("run", &summary)]).digest())
}

impl StoredRun {
    /// Encodes the `record` that `program` made of `described`.
    pub fn new(described: &DescribedRun, program: &Program, record: &Record) -> StoredRun {
        let rows = rows::rows(described, program, record);
        let mut entry = Entry {
            summary: described.summary.clone(),
            mmtwin: program.version.clone(),
            commit: program.commit.clone(),
            rows: rows.count(),
            content: String::new(),
        };
        entry.content = content(&entry, &rows).expect("all columns have a hash");
        StoredRun { entry, rows }
    }

    /// Whether both have the same values for the same run; who made them does not matter.
    pub fn says_the_same(&self, other: &StoredRun) -> bool {
        let mut columns = FIELDS.iter().zip(self.rows.columns().iter().zip(other.rows.columns()));
        columns.all(|(field, (own, others))| rows::MAKER.contains(&field.name()) || own == others)
    }
}

/// Writes `runs` into one file.
pub(super) fn write(path: &Path, runs: &[&StoredRun]) -> Result<(), ResultsError> {
    let failed = |error: ParquetError| ResultsError::io(path, std::io::Error::other(error.to_string()));
    directory::write_whole(path, |file| encode(file, runs).map_err(failed))
}

/// The content of the file of a single run, which was read from `path`.
pub(super) fn encoded(path: &Path, run: &StoredRun) -> Result<Bytes, ResultsError> {
    let mut content = Vec::new();
    let failed = |error: ParquetError| ResultsError::io(path, std::io::Error::other(error.to_string()));
    encode(&mut content, &[run]).map_err(failed)?;
    Ok(content.into())
}

fn encode(output: impl Write + Send, runs: &[&StoredRun]) -> Result<(), ParquetError> {
    let rows: usize = runs.iter().map(|run| run.entry.rows).sum();
    let level = if rows <= FEW_ROWS { SMALLEST } else { QUICK };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    let mut table = TableWriter::new(output, &FIELDS, properties)?;
    let (mut group, mut rows) = (Vec::new(), 0);
    for run in runs {
        group.push(&run.rows);
        rows += run.entry.rows;
        if rows >= ROWS_OF_A_GROUP {
            table.write(&group)?;
            (group, rows) = (Vec::new(), 0);
        }
    }
    table.write(&group)?;
    let index =
        Index { schema: SCHEMA_NAME.into(), runs: runs.iter().map(|run| run.entry.clone()).collect() };
    let index = serde_json::to_string(&index).map_err(|error| ParquetError::External(error.into()))?;
    let hash = KeyValue::new(INDEX_HASH.into(), hash(index.as_bytes()));
    table.finish([hash, KeyValue::new(INDEX.into(), index)])?;
    Ok(())
}

fn open(path: &Path) -> Result<File, ResultsError> {
    directory::require_file(path)?;
    File::open(path).map_err(|error| ResultsError::io(path, error))
}

/// A file whose last bytes were read at once. They contain the footer of a run, so listing a directory takes
/// one read per file, instead of four system calls for every piece that the Parquet crate asks for.
struct Tail {
    file: File,
    /// Offset of the first of these bytes.
    start: u64,
    end: Bytes,
}

impl Tail {
    /// A page of memory, which is more than the footer of a run.
    const BYTES: u64 = 4096;

    fn of(file: File) -> io::Result<Tail> {
        let bytes = file.metadata()?.len();
        let start = bytes.saturating_sub(Self::BYTES);
        let mut end = vec![0; (bytes - start) as usize];
        file.read_exact_at(&mut end, start)?;
        Ok(Tail { file, start, end: end.into() })
    }
}

impl Length for Tail {
    fn len(&self) -> u64 {
        self.start + self.end.len() as u64
    }
}

impl ChunkReader for Tail {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Reader<Bytes>, ParquetError> {
        let length = self.len().saturating_sub(start);
        Ok(self.get_bytes(start, length as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if let Some(skipped) = start.checked_sub(self.start) {
            let from = (skipped as usize).min(self.end.len());
            return match self.end.len() - from {
                rest if rest >= length => Ok(self.end.slice(from..from + length)),
                _ => Err(ParquetError::EOF("the file ends before what it is said to hold".into())),
            };
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// A results file whose footer has been read.
#[derive(Debug)]
pub(super) struct ResultsFile {
    path: PathBuf,
    footer: Footer,
    entries: Vec<Entry>,
}

impl ResultsFile {
    /// Reads the footer of the file at `path`.
    pub fn open(path: &Path) -> Result<ResultsFile, ResultsError> {
        let file = Tail::of(open(path)?).map_err(|error| ResultsError::io(path, error))?;
        ResultsFile::read(path, &file)
    }

    /// Reads the footer of `input`; errors name it `path`.
    pub fn read(path: &Path, input: &impl ChunkReader) -> Result<ResultsFile, ResultsError> {
        let damaged = |text: String| ResultsError::damaged(path, text);
        let footer =
            Footer::read(input).map_err(|error| damaged(format!("not a whole Parquet file: {error}")))?;
        let text_of = |key: &str| {
            let found = footer.text(key);
            found.ok_or_else(|| damaged(format!("it lacks {key}, so it is not a results file of mmtwin")))
        };
        let index = text_of(INDEX)?;
        if hash(index.as_bytes()) != text_of(INDEX_HASH)? {
            return Err(damaged("its list of runs is not what was written".into()));
        }
        let unreadable =
            |error: serde_json::Error| damaged(format!("its list of runs cannot be read: {error}"));
        // The schema is checked first, because a newer list need not have this one's fields.
        let Layout { schema } = serde_json::from_str(index).map_err(unreadable)?;
        if schema != SCHEMA_NAME {
            return Err(damaged(format!("its layout is {schema:?}, this mmtwin reads {SCHEMA_NAME}")));
        }
        let entries = serde_json::from_str::<Index>(index).map_err(unreadable)?.runs;
        let rows = entries.iter().try_fold(0usize, |sum, entry| sum.checked_add(entry.rows));
        if rows.is_none() || rows != footer.rows_of_groups() {
            return Err(damaged("it does not have as many rows as its runs".into()));
        }
        Ok(ResultsFile { path: path.into(), footer, entries })
    }

    /// The runs in the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Reads and checks all of `content`, which errors name `path`. Returns the runs in it.
    pub fn check(path: &Path, content: &Bytes) -> Result<Vec<Entry>, ResultsError> {
        let file = ResultsFile::read(path, content)?;
        (0..file.entries.len()).try_for_each(|position| file.run(content.clone(), position).map(drop))?;
        Ok(file.entries)
    }

    /// The runs in the file.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and checks the run at `position` in the list; `input` is the same file.
    pub fn run(&self, input: impl ChunkReader + 'static, position: usize) -> Result<StoredRun, ResultsError> {
        let run = self.rows(input, position).and_then(|rows| {
            let entry = self.entries[position].clone();
            if content(&entry, &rows)? != entry.content {
                return Err(format!("the values of run {} are not what was written", entry.summary.run));
            }
            let description = rows::description(&rows).ok_or("it does not say what was run")?;
            if hash(description.as_bytes()) != entry.summary.run {
                return Err(format!("its values are not those of run {}", entry.summary.run));
            }
            Ok(StoredRun { entry, rows })
        });
        run.map_err(|text| ResultsError::damaged(&self.path, text))
    }

    /// Like [`run`](Self::run), for a file that was opened by its path. The file is opened again, because
    /// concurrent readers must not share a file position.
    pub fn run_on_disk(&self, position: usize) -> Result<StoredRun, ResultsError> {
        self.run(open(&self.path)?, position)
    }

    fn rows(&self, input: impl ChunkReader + 'static, position: usize) -> Result<Rows, String> {
        let before: usize = self.entries[..position].iter().map(|entry| entry.rows).sum();
        let rows = self.entries[position].rows;
        if rows == 0 {
            return Err("it has a run without rows".into());
        }
        let expected = FIELDS.map(|field| (field.name(), Ok(field.column_type()), field.is_optional()));
        let found = self.footer.columns().map(|column| (column.name, column.column_type, column.optional));
        if !found.eq(expected) {
            let found = self.footer.columns().map(|column| format!("{} {}", column.name, column.type_name()));
            return Err(format!("its columns are {}", found.collect::<Vec<_>>().join(", ")));
        }
        let mut table = TableReader::new(input, &self.footer, &FIELDS)?;
        table.skip(before)?;
        match table.next(rows)? {
            Some(found) if found.count() == rows => Ok(found),
            _ => {
                Err(format!("it does not have the {rows} rows of run {}", self.entries[position].summary.run))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_end_of_a_file_and_what_is_before_it_read_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for bytes in [0, 10, Tail::BYTES, Tail::BYTES + 1, 3 * Tail::BYTES] {
            let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            let tail = Tail::of(File::open(&path).unwrap()).unwrap();
            assert_eq!(tail.len(), bytes);
            for start in (0..bytes).step_by(97) {
                let from = &content[start as usize..];
                assert_eq!(tail.get_bytes(start, from.len()).unwrap(), from);
                assert_eq!(tail.get_bytes(start, 1).unwrap(), from[..1]);
                let mut read = Vec::new();
                tail.get_read(start).unwrap().read_to_end(&mut read).unwrap();
                assert_eq!(read, from);
                assert!(tail.get_bytes(start, from.len() + 1).is_err());
            }
            assert!(tail.get_bytes(bytes + 1, 1).is_err());
        }
    }
}
