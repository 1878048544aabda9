//! Parquet files written row by row, with a JSON document and a content hash in the metadata.
//!
//! ```text
//!   create   a partial file; a file at the path stays
//!   write    row groups, whose values are hashed
//!   finish   document, hash, footer ──► renamed to the path
//! ```

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesBuilder;

use crate::content_hash::ContentHasher;
use crate::output::OutputFile;
use crate::table::{Field, Rows, TableWriter};
use crate::trace::TraceError;

/// Rows passed to [`ParquetFile::write`] at a time.
pub(crate) const BATCH: usize = 1 << 16;

/// Rows in a row group; a writer holds one row group in memory.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// A Parquet file being written. If it is dropped before [`finish`](Self::finish), the file at its path stays
/// as it was.
pub(crate) struct ParquetFile {
    name: String,
    hasher: ContentHasher,
    writer: TableWriter<OutputFile>,
    /// Rows collected for the next row group.
    rows: Vec<Rows>,
}

impl ParquetFile {
    /// Starts writing rows with columns `fields` to `output`.
    pub fn create(
        output: OutputFile,
        fields: &[Field],
        properties: WriterPropertiesBuilder,
    ) -> Result<ParquetFile, TraceError> {
        let name = output.path().display().to_string();
        let writer = TableWriter::new(output, fields, properties)
            .map_err(|source| TraceError::Write { file: name.clone(), source })?;
        Ok(ParquetFile { name, hasher: ContentHasher::new(fields), writer, rows: Vec::new() })
    }

    /// The path under which the finished file will appear.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    pub fn write(&mut self, rows: Rows) -> Result<(), TraceError> {
        let hashed = self.hasher.add(&rows).map_err(|error| ParquetError::External(error.into()));
        hashed.map_err(|source| TraceError::Write { file: self.name.clone(), source })?;
        self.rows.push(rows);
        if self.rows.iter().map(Rows::count).sum::<usize>() < ROW_GROUP_ROWS {
            Ok(())
        } else {
            self.write_group()
        }
    }

    fn write_group(&mut self) -> Result<(), TraceError> {
        let rows = std::mem::take(&mut self.rows);
        self.writer
            .write(&rows.iter().collect::<Vec<_>>())
            .map_err(|source| TraceError::Write { file: self.name.clone(), source })
    }

    /// Stores `document` under the metadata key `key`, writes the footer and renames the file to its path.
    /// Returns its size in bytes.
    pub fn finish(mut self, key: &str, document: String) -> Result<u64, TraceError> {
        self.write_group()?;
        let ParquetFile { name, hasher, writer, .. } = self;
        let hash = hasher.finish(&[(key, &document)]);
        let texts = [KeyValue::new(key.to_string(), document), hash.key_value()];
        let output = writer.finish(texts).map_err(|source| TraceError::Write { file: name, source })?;
        Ok(output.finish()?)
    }
}
