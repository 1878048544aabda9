//! Tables in Parquet files, the format of mmtwin's recordings and results.
//!
//! ```text
//!   FIELDS     time, U64, ascending     operation, Text     text, Text, optional
//!   Rows       0 964 1210               0 1 1               0 .              indices of texts, for rows that are not null
//!                                       "alloc" "free"      "{...}"          the texts
//!     │                 ▲
//!     ▼ write.rs        │ read.rs       a batch of rows at a time, from any row on
//!   row groups ──► input.rs             page headers, checked before the Parquet crate parses them
//!                  pages.rs             pages, decompressed within bounds, with texts as numbers
//!   footer     ──► size.rs              columns and their positions, key-value metadata
//! ```
//!
//! The Parquet crate reads and writes columns of the five physical types of a file. This module converts
//! between those and the types of the fields, and trusts no file: the sizes that a file claims are compared
//! with its length, the decompressed size of pages with the size that their column claims, page headers may
//! not contain lists, and a panic of the Parquet crate becomes an error.
//!
//! The crate could also decode files into Arrow arrays. mmtwin does not need them, and without Arrow the
//! crate and its dependencies build in a third of the time.

mod input;
mod pages;
mod read;
mod size;
#[cfg(test)]
mod tests;
mod values;
mod write;

pub use read::{Footer, FoundColumn, TableReader};
pub use values::{Column, Rows, Texts};
pub use write::TableWriter;

use std::fmt;

use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::schema::types::ColumnDescriptor;

/// Declares the column types: the values in memory, Arrow's name of the type (which users of pandas and
/// DuckDB know), its name in content hashes, and its physical and logical type in a Parquet file.
macro_rules! types {
    ($($variant:ident($values:ty) $name:literal $hashed:literal $physical:ident $logical:expr;)*) => {
        /// Type of the values of a column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Type {
            $($variant,)*
        }

        impl Type {
            const ALL: &[Type] = &[$(Type::$variant),*];

            /// Arrow's name of the type.
            pub fn name(self) -> &'static str {
                match self {
                    $(Type::$variant => $name,)*
                }
            }

            /// The name of the type in content hashes, which must never change.
            pub(crate) fn hashed_name(self) -> &'static str {
                match self {
                    $(Type::$variant => $hashed,)*
                }
            }

            fn in_parquet(self) -> (PhysicalType, Option<LogicalType>) {
                match self {
                    $(Type::$variant => (PhysicalType::$physical, $logical),)*
                }
            }
        }

        /// The values of a column, without nulls.
        #[derive(Clone, Debug)]
        pub enum Values {
            $($variant($values),)*
        }

        impl Values {
            pub fn column_type(&self) -> Type {
                match self {
                    $(Values::$variant(_) => Type::$variant,)*
                }
            }

            fn len(&self) -> usize {
                match self {
                    $(Values::$variant(values) => values.len(),)*
                }
            }
        }
    };
}

types! {
    U8(Vec<u8>) "UInt8" "u8" INT32 Some(LogicalType::integer(8, false));
    U16(Vec<u16>) "UInt16" "u16" INT32 Some(LogicalType::integer(16, false));
    U32(Vec<u32>) "UInt32" "u32" INT32 Some(LogicalType::integer(32, false));
    U64(Vec<u64>) "UInt64" "u64" INT64 Some(LogicalType::integer(64, false));
    I8(Vec<i8>) "Int8" "i8" INT32 Some(LogicalType::integer(8, true));
    I32(Vec<i32>) "Int32" "i32" INT32 None;
    F64(Vec<f64>) "Float64" "f64" DOUBLE None;
    Bool(Vec<bool>) "Boolean" "bool" BOOLEAN None;
    Text(Texts) "Utf8" "text" BYTE_ARRAY Some(LogicalType::String);
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Type {
    /// The type of a column in a file, or the Parquet name of a type that mmtwin does not have.
    fn of(column: &ColumnDescriptor) -> Result<Type, String> {
        let physical = column.physical_type();
        let converted = match column.converted_type() {
            ConvertedType::INT_32 => ConvertedType::NONE,
            other => other,
        };
        if column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return Err("nested".into());
        }
        let is_it = |found: &Type| {
            let (expected, logical) = found.in_parquet();
            physical == expected && converted == ConvertedType::from(logical)
        };
        Type::ALL.iter().copied().find(is_it).ok_or_else(|| match (physical, converted) {
            (PhysicalType::INT32, ConvertedType::INT_16) => "Int16".into(),
            (PhysicalType::INT64, ConvertedType::NONE | ConvertedType::INT_64) => "Int64".into(),
            (PhysicalType::FLOAT, ConvertedType::NONE) => "Float32".into(),
            (PhysicalType::BYTE_ARRAY, ConvertedType::NONE) => "Binary".into(),
            (physical, ConvertedType::NONE) => physical.to_string(),
            (_, converted) => converted.to_string(),
        })
    }
}

/// How a file encodes the values of a column, before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// By a dictionary of distinct values, for a few values that repeat.
    Numbered,
    /// As differences between successive values, for values that ascend.
    Differences,
    /// One after the other, for values that rarely repeat.
    Plain,
}

/// A column of a table: its name, its type and how it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    column_type: Type,
    optional: bool,
    stored: Stored,
}

impl Field {
    /// A column without nulls that is encoded with a dictionary.
    pub const fn new(name: &'static str, column_type: Type) -> Field {
        Field { name, column_type, optional: false, stored: Stored::Numbered }
    }

    /// Allows nulls.
    pub const fn optional(self) -> Field {
        Field { optional: true, ..self }
    }

    /// Encodes values as differences, for values close to those of the rows before.
    pub const fn ascending(self) -> Field {
        Field { stored: Stored::Differences, ..self }
    }

    /// Encodes values plainly, for values that do not repeat.
    pub const fn distinct(self) -> Field {
        Field { stored: Stored::Plain, ..self }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub const fn column_type(&self) -> Type {
        self.column_type
    }

    /// Whether rows may be null.
    pub const fn is_optional(&self) -> bool {
        self.optional
    }
}
