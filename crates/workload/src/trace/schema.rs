//! The columns of a trace, their types and encodings.

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use crate::table::{Field, Type};

/// Times and page frames are close to the values before them; the other columns repeat a few values.
pub(super) const FIELDS: [Field; 9] = [
    Field::new("time", Type::U64).ascending(),
    Field::new("cpu", Type::U16),
    Field::new("task", Type::I32),
    Field::new("operation", Type::Text),
    Field::new("order", Type::U8),
    Field::new("migratetype", Type::I8),
    Field::new("pfn", Type::U32).ascending(),
    Field::new("argument", Type::U32),
    Field::new("blocked", Type::Bool),
];

pub(super) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()))
}
