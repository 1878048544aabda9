//! Limits on what a Parquet file may claim to hold.
//!
//! The footer gives numbers of rows and sizes of columns, which determine how long a reader runs and how much
//! memory it takes. A run of equal values takes a few bytes whatever its length, so a file of a kilobyte can
//! claim billions of rows. The rows of real recordings differ from each other: no recording has more than a
//! few rows per byte.

use parquet::file::metadata::ParquetMetaData;

/// Most rows per byte of the file; a recorded event takes at least five bytes.
const ROWS_PER_BYTE: u64 = 100;

/// Most decompressed column bytes per byte of the file.
const UNPACKED_PER_BYTE: u64 = 1000;

/// Bytes added to the length of every file: small files take little work and memory whatever they claim.
const ROOM: u64 = 1 << 12;

/// Refuses a file of `bytes` bytes that claims more than it can hold, or column chunks past its end.
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
