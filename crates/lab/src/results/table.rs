//! Parquet files that stand by themselves, without runs.

use super::{ResultsError, whole_file};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

/// A column.
pub(crate) enum Column {
    Text(Vec<String>),
    Number(Vec<f64>),
    Count(Vec<u64>),
}

impl Column {
    fn array(self) -> ArrayRef {
        match self {
            Column::Text(values) => Arc::new(StringArray::from(values)),
            Column::Number(values) => Arc::new(Float64Array::from(values)),
            Column::Count(values) => Arc::new(UInt64Array::from(values)),
        }
    }
}

/// Writes a table, whose file says that it is one of `kind`. Only a file of that kind is replaced.
pub(crate) fn write_table(path: &Path, kind: &str, columns: Vec<(&str, Column)>) -> Result<(), ResultsError> {
    if !may_replace(path, kind)? {
        return Err(ResultsError::Foreign { path: path.into() });
    }
    let columns = columns.into_iter().map(|(name, column)| (name, column.array()));
    let failed = |error: ParquetError| ResultsError::io(path, io::Error::other(error.to_string()));
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| failed(error.into()))?;
    whole_file::write(path, |file| encode(file, kind, &batch).map_err(failed))
}

fn encode(output: impl Write + Send, kind: &str, batch: &RecordBatch) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![KeyValue::new(kind.into(), None)]))
        .build();
    let mut writer = ArrowWriter::try_new(output, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

/// Whether there is nothing at `path`, or a table of this kind.
fn may_replace(path: &Path, kind: &str) -> Result<bool, ResultsError> {
    let io = |error| ResultsError::io(path, error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        found if !found.as_ref().is_ok_and(|found| found.is_file()) => {
            return found.map(|_| false).map_err(io);
        }
        _ => {}
    }
    let file = fs::File::open(path).map_err(io)?;
    let footer = workload::trace::unpanicked(|| ParquetMetaDataReader::new().parse_and_finish(&file));
    let Ok(footer) = footer else { return Ok(false) };
    Ok(footer.file_metadata().key_value_metadata().into_iter().flatten().any(|pair| pair.key == kind))
}
