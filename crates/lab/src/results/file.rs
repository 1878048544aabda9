//! A Parquet file with one run or many. pandas, DuckDB and polars read it as it is.
//!
//! ```text
//!   row group   rows of whole runs, see `rows.rs`; one group in the file of a single run
//!   ...
//!   footer      mmtwin.results        {"schema":"mmtwin-results/2","runs":[{"run":"5c1e..",..,"rows":212,"content":"81f0.."}]}
//!               mmtwin.results.hash   hash of that text
//! ```
//!
//! The hash in the footer vouches for the list of runs, `content` in the list for a run's values, and the run's identity, which
//! is the hash of its description, for what the values are of. All three are checked at every read, so no flipped bit
//! comes back as another number, and no file under another's name as the other's.

use super::ResultsError;
use super::directory;
use super::identity::{DescribedRun, hash};
use super::record::Record;
use super::rows::{self, SCHEMA, TEXT};
use super::summary::Entry;
use super::{Program, whole_file};
use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use workload::content_hash::ContentHasher;
use workload::trace::unpanicked;

/// Name and version of the layout.
pub const SCHEMA_NAME: &str = "mmtwin-results/2";

const INDEX: &str = "mmtwin.results";
const INDEX_HASH: &str = "mmtwin.results.hash";

/// A row group is closed behind the run that makes it as long as this. Reading one run decodes its row group.
const ROWS_OF_A_GROUP: usize = 1 << 15;

/// Levels of zstd: the smaller of files is taken while it costs no time, up to so many rows.
const SMALLEST: i32 = 19;
const QUICK: i32 = 3;
const FEW_ROWS: usize = 1 << 12;

/// Which runs are in a file.
#[derive(Serialize, Deserialize)]
struct Index {
    schema: String,
    runs: Vec<Entry>,
}

/// A run as it is in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredRun {
    pub entry: Entry,
    pub rows: RecordBatch,
}

fn content(entry: &Entry, rows: &RecordBatch) -> Result<String, String> {
    let unhashed = Entry { content: String::new(), ..entry.clone() };
    let summary = serde_json::to_string(&unhashed).map_err(|error| error.to_string())?;
    let mut hasher = ContentHasher::new(&SCHEMA).map_err(|error| error.to_string())?;
    hasher.add(rows).map_err(|error| error.to_string())?;
    Ok(hasher.finish(&[("run", &summary)]).digest())
}

impl StoredRun {
    /// `record`, which `program` made of `described`.
    pub fn new(described: &DescribedRun, program: &Program, record: &Record) -> StoredRun {
        let rows = rows::batch(described, program, record);
        let mut entry = Entry {
            summary: described.summary.clone(),
            mmtwin: program.version.clone(),
            commit: program.commit.clone(),
            rows: rows.num_rows(),
            content: String::new(),
        };
        entry.content = content(&entry, &rows).expect("all columns have a hash");
        StoredRun { entry, rows }
    }

    /// Leaves the first `rows` rows, as if there had never been more.
    #[cfg(test)]
    pub fn cut(&mut self, rows: usize) {
        self.rows = self.rows.slice(0, rows);
        self.entry.rows = rows;
        self.entry.content = content(&self.entry, &self.rows).unwrap();
    }

    /// Whether the other says the same of the same run, whoever made it.
    pub fn says_the_same(&self, other: &StoredRun) -> bool {
        let columns = SCHEMA.fields().iter().map(|field| field.name().as_str());
        let deciding = columns.filter(|name| !rows::MAKER.contains(name));
        deciding.into_iter().all(|name| self.rows.column_by_name(name) == other.rows.column_by_name(name))
    }
}

/// Writes `runs` into one file.
pub(super) fn write(path: &Path, runs: &[&StoredRun]) -> Result<(), ResultsError> {
    let failed = |error: ParquetError| ResultsError::io(path, std::io::Error::other(error.to_string()));
    whole_file::write(path, |file| encode(file, runs).map_err(failed))
}

fn encode(output: impl Write + Send, runs: &[&StoredRun]) -> Result<(), ParquetError> {
    let rows: usize = runs.iter().map(|run| run.entry.rows).sum();
    let level = if rows <= FEW_ROWS { SMALLEST } else { QUICK };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None)
        .set_column_dictionary_enabled(ColumnPath::from(TEXT), false)
        .build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(output, SCHEMA.clone(), options)?;
    for run in runs {
        writer.write(&run.rows)?;
        if writer.in_progress_rows() >= ROWS_OF_A_GROUP {
            writer.flush()?;
        }
    }
    let index =
        Index { schema: SCHEMA_NAME.into(), runs: runs.iter().map(|run| run.entry.clone()).collect() };
    let index = serde_json::to_string(&index).map_err(|error| ParquetError::External(error.into()))?;
    writer.append_key_value_metadata(KeyValue::new(INDEX_HASH.into(), hash(index.as_bytes())));
    writer.append_key_value_metadata(KeyValue::new(INDEX.into(), index));
    writer.close()?;
    Ok(())
}

fn open(path: &Path) -> Result<File, ResultsError> {
    directory::require_file(path)?;
    File::open(path).map_err(|error| ResultsError::io(path, error))
}

/// A file whose footer has been read.
#[derive(Debug)]
pub(super) struct ResultsFile {
    path: PathBuf,
    footer: Arc<ParquetMetaData>,
    entries: Vec<Entry>,
}

impl ResultsFile {
    /// Reads the footer of the file at `path`.
    pub fn open(path: &Path) -> Result<ResultsFile, ResultsError> {
        ResultsFile::read(path, &open(path)?)
    }

    /// Reads the footer of `input`, which errors call `path`.
    pub fn read(path: &Path, input: &impl ChunkReader) -> Result<ResultsFile, ResultsError> {
        let damaged = |text: String| ResultsError::damaged(path, text);
        let footer = unpanicked(|| ParquetMetaDataReader::new().parse_and_finish(input))
            .map_err(|error| damaged(format!("not a whole Parquet file: {error}")))?;
        let pairs = footer.file_metadata().key_value_metadata().into_iter().flatten();
        let text_of = |key: &str| {
            let found = pairs.clone().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
            found.ok_or_else(|| damaged(format!("it lacks {key}, so these are no results of mmtwin")))
        };
        let index = text_of(INDEX)?;
        if hash(index.as_bytes()) != text_of(INDEX_HASH)? {
            return Err(damaged("its list of runs is not what was written".into()));
        }
        let unreadable =
            |error: serde_json::Error| damaged(format!("its list of runs cannot be read: {error}"));
        // The schema comes first: a later list need not have the fields of this one.
        let value: serde_json::Value = serde_json::from_str(index).map_err(unreadable)?;
        let schema = value.get("schema").and_then(|schema| schema.as_str()).unwrap_or_default();
        if schema != SCHEMA_NAME {
            return Err(damaged(format!("its layout is {schema:?}, this mmtwin reads {SCHEMA_NAME}")));
        }
        let entries = serde_json::from_value::<Index>(value).map_err(unreadable)?.runs;
        let rows = entries.iter().try_fold(0usize, |sum, entry| sum.checked_add(entry.rows));
        let found = footer
            .row_groups()
            .iter()
            .try_fold(0usize, |sum, group| sum.checked_add(usize::try_from(group.num_rows()).ok()?));
        if rows.is_none() || rows != found {
            return Err(damaged("it does not have as many rows as its runs".into()));
        }
        Ok(ResultsFile { path: path.into(), footer: Arc::new(footer), entries })
    }

    /// The runs that it has.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Reads and checks all of `content`, which errors call `path`; the runs that it has.
    pub fn check(path: &Path, content: &Bytes) -> Result<Vec<Entry>, ResultsError> {
        let file = ResultsFile::read(path, content)?;
        (0..file.entries.len()).try_for_each(|position| file.run(content.clone(), position).map(drop))?;
        Ok(file.entries)
    }

    /// Its runs alone.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run at `position` of the list, checked against it. `input` is the file once more.
    pub fn run(&self, input: impl ChunkReader + 'static, position: usize) -> Result<StoredRun, ResultsError> {
        let run = unpanicked(|| self.rows(input, position)).and_then(|rows| {
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

    /// The same, of the file that was opened by its path. It is opened again, since those who read it at the same time do
    /// not share a position in it.
    pub fn run_on_disk(&self, position: usize) -> Result<StoredRun, ResultsError> {
        self.run(open(&self.path)?, position)
    }

    fn rows(&self, input: impl ChunkReader + 'static, position: usize) -> Result<RecordBatch, String> {
        let text = |error: ParquetError| error.to_string();
        let mut before: usize = self.entries[..position].iter().map(|entry| entry.rows).sum();
        let rows = self.entries[position].rows;
        if rows == 0 {
            return Err("it has a run without rows".into());
        }
        let mut group = 0;
        // The row counts were added up when the footer was read.
        while let Some(length) = self.footer.row_groups().get(group).map(|group| group.num_rows() as usize)
            && before >= length
        {
            before -= length;
            group += 1;
        }
        let metadata =
            ArrowReaderMetadata::try_new(self.footer.clone(), ArrowReaderOptions::new()).map_err(text)?;
        let fields = metadata.schema().fields();
        if *fields != *SCHEMA.fields() {
            let found: Vec<String> =
                fields.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
            return Err(format!("its columns are {}", found.join(", ")));
        }
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata)
            .with_row_groups(vec![group])
            .with_offset(before)
            .with_limit(rows)
            .with_batch_size(rows)
            .build()
            .map_err(text)?;
        let batches: Vec<RecordBatch> =
            reader.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        match batches.as_slice() {
            [batch] if batch.num_rows() == rows => Ok(batch.clone()),
            _ => {
                Err(format!("it does not have the {rows} rows of run {}", self.entries[position].summary.run))
            }
        }
    }
}
