//! Parquet files that are written row by row, with a document and a hash of all that they say.
//!
//! ```text
//!   create   what stands there stays
//!   write    row groups                                  hashed as they pass
//!   finish   document, hash, footer ──► the file's name
//! ```

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::content_hash::ContentHasher;
use crate::output::OutputFile;
use crate::trace::TraceError;

/// A Parquet file that is being written. Dropped unfinished, it leaves what was there.
pub(crate) struct ParquetFile {
    name: String,
    hasher: ContentHasher,
    writer: ArrowWriter<OutputFile>,
}

impl ParquetFile {
    /// Begins to write rows of `schema` to `output`.
    pub fn create(
        output: OutputFile,
        schema: Arc<Schema>,
        properties: WriterProperties,
    ) -> Result<ParquetFile, TraceError> {
        let name = output.path().display().to_string();
        let failed = |source| TraceError::Write { file: name.clone(), source };
        let hasher =
            ContentHasher::new(&schema).map_err(|error| failed(ParquetError::External(error.into())))?;
        let writer = ArrowWriter::try_new(output, schema, Some(properties)).map_err(failed)?;
        Ok(ParquetFile { name, hasher, writer })
    }

    /// The name that it will bear.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Adds rows.
    pub fn write(&mut self, batch: Result<RecordBatch, ParquetError>) -> Result<(), TraceError> {
        let write = || {
            let batch = batch?;
            self.hasher.add(&batch).map_err(|error| ParquetError::External(error.into()))?;
            self.writer.write(&batch)
        };
        write().map_err(|source| TraceError::Write { file: self.name.clone(), source })
    }

    /// Adds `document` under `key` and gives the file its name. Returns its size in bytes.
    pub fn finish(self, key: &str, document: String) -> Result<u64, TraceError> {
        let ParquetFile { name, hasher, mut writer } = self;
        let hash = hasher.finish(&[(key, &document)]);
        writer.append_key_value_metadata(KeyValue::new(key.to_string(), document));
        writer.append_key_value_metadata(hash.key_value());
        let output = writer.into_inner().map_err(|source| TraceError::Write { file: name, source })?;
        Ok(output.finish()?)
    }
}
