//! Parquet files that bear their name only when they are whole.
//!
//! ```text
//!   create   FILE.partial          what stands at FILE stays
//!   write    row groups            dropped unfinished, FILE.partial goes
//!   finish   document, footer, on disk ─► FILE
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::trace::TraceError;

/// A Parquet file that is being written.
pub(crate) struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<ArrowWriter<File>>,
}

impl PartialFile {
    /// Starts `PATH.partial`.
    pub fn create(
        path: PathBuf,
        schema: Arc<Schema>,
        properties: WriterProperties,
    ) -> Result<PartialFile, TraceError> {
        let partial = partial_path(&path);
        let file = File::create(&partial).map_err(|source| io_error(&partial, source))?;
        let writer = ArrowWriter::try_new(file, schema, Some(properties))
            .map_err(|source| TraceError::Write { file: path.display().to_string(), source })?;
        Ok(PartialFile { path, partial, writer: Some(writer) })
    }

    /// The name that it will bear.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Adds rows.
    pub fn write(&mut self, batch: Result<RecordBatch, ParquetError>) -> Result<(), TraceError> {
        self.with_writer(|writer| writer.write(&batch?))
    }

    /// Adds `document` under `key` and gives the file its name. Returns its size in bytes.
    pub fn finish(mut self, key: &str, document: String) -> Result<u64, TraceError> {
        let file = self.with_writer(|writer| {
            writer.append_key_value_metadata(KeyValue::new(key.to_string(), document));
            writer.finish()?;
            Ok(writer.inner().try_clone()?)
        })?;
        file.sync_all().map_err(|source| io_error(&self.partial, source))?;
        let bytes = file.metadata().map_err(|source| io_error(&self.partial, source))?.len();
        fs::rename(&self.partial, &self.path).map_err(|source| io_error(&self.path, source))?;
        self.writer = None;
        Ok(bytes)
    }

    fn with_writer<T>(
        &mut self,
        action: impl FnOnce(&mut ArrowWriter<File>) -> Result<T, ParquetError>,
    ) -> Result<T, TraceError> {
        let writer = self.writer.as_mut().ok_or(ParquetError::EOF("already finished".to_string()));
        writer.and_then(action).map_err(|source| TraceError::Write { file: self.name(), source })
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.writer.is_some() {
            // Nothing is left to tell it to: the error that led here is already on its way to the caller.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn io_error(path: &Path, source: std::io::Error) -> TraceError {
    TraceError::Io { file: path.display().to_string(), source }
}
