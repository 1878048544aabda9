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

/// Refuses a file of so many bytes that claims more than it can hold, or to have what lies past its end.
pub(super) fn check(metadata: &ParquetMetaData, bytes: u64) -> Result<(), String> {
    let positive = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
    let of_groups = metadata.row_groups().iter().map(|group| positive(group.num_rows()));
    let rows = positive(metadata.file_metadata().num_rows()).max(of_groups.fold(0, u64::saturating_add));
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let sizes = columns.clone().map(|column| positive(column.uncompressed_size()));
    let unpacked = sizes.fold(0, u64::saturating_add);
    for (what, claimed, most) in
        [("rows", rows, ROWS_PER_BYTE), ("bytes unpacked", unpacked, UNPACKED_PER_BYTE)]
    {
        if claimed > (bytes.saturating_mul(most)).saturating_add(ROOM * most) {
            return Err(format!("it claims {claimed} {what} in a file of {bytes} bytes"));
        }
    }
    match columns
        .map(|column| column.byte_range())
        .find(|&(start, length)| start.saturating_add(length) > bytes)
    {
        Some((start, length)) => {
            Err(format!("it claims {length} bytes from byte {start} on in a file of {bytes} bytes"))
        }
        None => Ok(()),
    }
}
