//! How much a Parquet file may claim to hold.
//!
//! Counts of rows and sizes of columns are numbers in the file's footer, and decide how long a reader works and how much memory
//! it takes. Runs of equal values take a few bytes however long they are, so a file of a kilobyte can claim billions of rows.
//! Rows of recordings differ: none that was recorded has more than a few for each byte.

use parquet::file::metadata::ParquetMetaData;

/// Rows that a byte may stand for; a recorded event takes five bytes and more.
const ROWS_PER_BYTE: u64 = 100;

/// Bytes of columns, unpacked, that a byte may stand for.
const UNPACKED_PER_BYTE: u64 = 1000;

/// Short files are let off: it is long work and much memory that is refused.
const ROOM: u64 = 1 << 12;

/// Refuses a file of so many bytes that claims more than it can hold.
pub(crate) fn check(metadata: &ParquetMetaData, bytes: u64) -> Result<(), String> {
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(u64::MAX);
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let sizes = columns.map(|column| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
    let unpacked = sizes.fold(0, u64::saturating_add);
    for (what, claimed, most) in
        [("rows", rows, ROWS_PER_BYTE), ("bytes unpacked", unpacked, UNPACKED_PER_BYTE)]
    {
        if claimed > (bytes.saturating_mul(most)).saturating_add(ROOM * most) {
            return Err(format!("it claims {claimed} {what} in a file of {bytes} bytes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, RecordBatch, UInt8Array};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::properties::WriterProperties;
    use std::sync::Arc;

    /// What is said of a column of so many zeroes in one page.
    fn zeroes(rows: usize) -> Result<(), String> {
        let column: ArrayRef = Arc::new(UInt8Array::from(vec![0; rows]));
        let batch = RecordBatch::try_from_iter([("zero", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(usize::MAX)
            .set_max_row_group_row_count(None)
            .build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let bytes = file.len() as u64;
        assert!(bytes < 2000, "{bytes}");
        let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).unwrap();
        check(builder.metadata(), bytes)
    }

    #[test]
    fn a_short_file_has_no_millions_of_rows() {
        assert_eq!(zeroes(100_000), Ok(()));
        let refused = zeroes(4_000_000).unwrap_err();
        assert!(refused.starts_with("it claims 4000000 rows in a file of"), "{refused}");
    }
}
