//! The columns, their types, and how the file stores them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

/// Rows in one row group: what a reader must decode at least, and a writer holds in memory.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 20;

pub(super) const COLUMNS: [&str; 9] =
    ["time", "cpu", "task", "operation", "order", "migratetype", "pfn", "argument", "blocked"];

pub(super) fn column_type(column: &str) -> DataType {
    match column {
        "time" => DataType::UInt64,
        "cpu" => DataType::UInt16,
        "task" => DataType::Int32,
        "operation" => DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8)),
        "order" => DataType::UInt8,
        "migratetype" => DataType::Int8,
        "blocked" => DataType::Boolean,
        _ => DataType::UInt32,
    }
}

pub(super) fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(COLUMNS.map(|column| Field::new(column, column_type(column), false)).to_vec()))
}

/// Times and frames are stored as differences, which are small; the other columns repeat a few values.
pub(super) fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for column in ["time", "pfn"] {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
