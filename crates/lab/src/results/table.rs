//! Parquet files with tables other than runs.

use super::ResultsError;
use super::directory::write_whole;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use workload::table::{Field, Footer, Rows, TableWriter, Values};

/// Writes a table of this `kind`, which is noted in the file. An existing file is replaced only if it has the
/// same kind.
pub(crate) fn write_table(
    path: &Path,
    kind: &str,
    columns: Vec<(&'static str, Values)>,
) -> Result<(), ResultsError> {
    if !may_replace(path, kind)? {
        return Err(ResultsError::Foreign { path: path.into() });
    }
    let fields: Vec<Field> =
        columns.iter().map(|(name, values)| Field::new(name, values.column_type())).collect();
    let rows = Rows::new(columns.into_iter().map(|(_, values)| values));
    let failed = |error: ParquetError| ResultsError::io(path, io::Error::other(error.to_string()));
    write_whole(path, |file| encode(file, kind, &fields, &rows).map_err(failed))
}

fn encode(output: impl Write + Send, kind: &str, fields: &[Field], rows: &Rows) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let mut table = TableWriter::new(output, fields, properties)?;
    table.write(&[rows])?;
    table.finish([KeyValue::new(kind.into(), None)])?;
    Ok(())
}

/// Whether `path` does not exist or is a table of this kind.
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
    Ok(Footer::read(&file).is_ok_and(|footer| footer.has(kind)))
}
