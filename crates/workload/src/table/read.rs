//! Reads tables: the footer, then rows in batches, with panics of the Parquet crate turned into errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::Type as PhysicalType;
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::{ColumnDescriptor, Type as ParquetType};

use super::input::Input;
use super::pages::{PageTexts, Pages};
use super::{Column, Field, Rows, Texts, Type, Values, size};

/// Most rows to reserve memory for in advance; a damaged file may claim more rows than it has.
const MOST_AT_ONCE: usize = 1 << 16;

/// Runs a call of the Parquet crate and returns its error or its panic as text. What the call worked on is
/// not used again after an error.
fn unpanicked<T, E: ToString>(step: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the Parquet reader cannot make sense of it".to_string()),
    }
}

/// The footer of a table's file: its columns, their positions, and the key-value metadata.
#[derive(Clone, Debug)]
pub struct Footer(Arc<ParquetMetaData>);

/// A column that a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundColumn<'a> {
    pub name: &'a str,
    /// Its type, or the Parquet name of a type that mmtwin does not have.
    pub column_type: Result<Type, String>,
    /// Whether rows may be null.
    pub optional: bool,
}

impl FoundColumn<'_> {
    /// Name of the type for messages.
    pub fn type_name(&self) -> String {
        self.column_type.as_ref().map_or_else(String::clone, |found| found.to_string())
    }
}

impl Footer {
    /// Reads the footer of `input` and refuses a file that claims to hold more than its length allows.
    pub fn read(input: &impl ChunkReader) -> Result<Footer, String> {
        let metadata = unpanicked(|| ParquetMetaDataReader::new().parse_and_finish(input))?;
        unpanicked(|| size::check(&metadata, input.len()))?;
        Ok(Footer(Arc::new(metadata)))
    }

    /// Whether the metadata has the key `key`, even with a value that is not text.
    pub fn has(&self, key: &str) -> bool {
        self.0.file_metadata().key_value_metadata().into_iter().flatten().any(|pair| pair.key == key)
    }

    /// The metadata text under `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        let mut pairs = self.0.file_metadata().key_value_metadata().into_iter().flatten();
        pairs.find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref())
    }

    /// The number of rows that the file claims; a damaged file may claim a negative one.
    pub fn rows(&self) -> i64 {
        self.0.file_metadata().num_rows()
    }

    /// The sum of the rows of all row groups; `None` if a count is negative or the sum overflows.
    pub fn rows_of_groups(&self) -> Option<usize> {
        let mut groups = self.0.row_groups().iter();
        groups.try_fold(0usize, |sum, group| sum.checked_add(usize::try_from(group.num_rows()).ok()?))
    }

    /// The top-level columns.
    pub fn columns(&self) -> impl Iterator<Item = FoundColumn<'_>> {
        let schema = self.0.file_metadata().schema_descr();
        schema.root_schema().get_fields().iter().map(|field| {
            let name = field.name();
            let column_type = self.place(name).map(|at| Type::of(&schema.column(at)));
            FoundColumn {
                name,
                column_type: column_type.unwrap_or_else(|| Err("nested".into())),
                optional: field.is_optional(),
            }
        })
    }

    /// The first of `fields` that is missing or has another type in the file, and the type that it has there.
    pub fn differing(&self, fields: &[Field]) -> Option<(Field, Option<String>)> {
        fields.iter().find_map(|field| match self.columns().find(|column| column.name == field.name) {
            None => Some((*field, None)),
            Some(found) if found.column_type == Ok(field.column_type) => None,
            Some(found) => Some((*field, Some(found.type_name()))),
        })
    }

    /// The index of a column that is not nested.
    fn place(&self, name: &str) -> Option<usize> {
        let columns = self.0.file_metadata().schema_descr().columns();
        columns.iter().position(|column| column.path().parts() == [name])
    }
}

type OpenPages =
    dyn Fn(&ColumnChunkMetaData, usize, Option<PageTexts>) -> ParquetResult<Box<dyn PageReader>> + Send;

/// Reads rows of a table from first to last. It must not be used again after an error.
pub struct TableReader {
    footer: Footer,
    /// Type of each column and its index in the file.
    columns: Vec<(Type, usize)>,
    open: Box<OpenPages>,
    next_group: usize,
    /// The columns of the current row group.
    group: Vec<GroupColumn>,
    /// Rows of the current row group that have not been read.
    left: usize,
}

impl TableReader {
    /// Reads the columns `fields` of `input`, whose footer is `footer`.
    pub fn new(
        input: impl ChunkReader + 'static,
        footer: &Footer,
        fields: &[Field],
    ) -> Result<TableReader, String> {
        if let Some((field, found)) = footer.differing(fields) {
            let found = found.unwrap_or_else(|| "missing".into());
            return Err(format!("column `{}` is {found}, must be {}", field.name, field.column_type));
        }
        let places = fields.iter().filter_map(|field| Some((field.column_type, footer.place(field.name)?)));
        let input = Arc::new(Input(input));
        Ok(TableReader {
            footer: footer.clone(),
            columns: places.collect(),
            open: Box::new(move |column, rows, texts| {
                Ok(Box::new(Pages::new(input.clone(), column, rows, texts)?))
            }),
            next_group: 0,
            group: Vec::new(),
            left: 0,
        })
    }

    /// The next rows, at most `most` and of one row group; `None` at the end.
    pub fn next(&mut self, most: usize) -> Result<Option<Rows>, String> {
        unpanicked(|| self.read(most))
    }

    fn read(&mut self, most: usize) -> ParquetResult<Option<Rows>> {
        while self.left == 0 {
            if !self.open_group()? {
                return Ok(None);
            }
        }
        let rows = most.min(self.left);
        self.left -= rows;
        let columns = self.group.iter_mut().map(|column| column.read(rows));
        Ok(Some(Rows { columns: columns.collect::<Result<_, _>>()? }))
    }

    /// Skips rows without reading them.
    pub fn skip(&mut self, mut rows: usize) -> Result<(), String> {
        unpanicked(|| {
            while rows > 0 {
                if self.left == 0 && !self.open_group()? {
                    return Err(ParquetError::EOF("rows end before those that are asked for".into()));
                }
                let skipped = rows.min(self.left);
                // A row group that is skipped entirely need not be decoded.
                if skipped < self.left {
                    self.group.iter_mut().try_for_each(|column| column.skip(skipped))?;
                }
                self.left -= skipped;
                rows -= skipped;
            }
            Ok(())
        })
    }

    /// Opens the next row group; false if there is none.
    fn open_group(&mut self) -> ParquetResult<bool> {
        let Some(group) = self.footer.0.row_groups().get(self.next_group) else { return Ok(false) };
        self.next_group += 1;
        self.left = usize::try_from(group.num_rows())?;
        let rows = self.left;
        let columns = self.columns.iter().map(|&(column_type, at)| {
            let texts = (column_type == Type::Text).then(|| PageTexts::new(rows));
            let pages = (self.open)(group.column(at), rows, texts.clone())?;
            GroupColumn::new(column_type, group.column(at).column_descr(), pages, texts)
        });
        self.group = columns.collect::<Result<_, _>>()?;
        Ok(true)
    }
}

/// A column of the current row group.
struct GroupColumn {
    column_type: Type,
    reader: ColumnReader,
    texts: Option<PageTexts>,
}

impl GroupColumn {
    fn new(
        column_type: Type,
        descriptor: &ColumnDescriptor,
        pages: Box<dyn PageReader>,
        texts: Option<PageTexts>,
    ) -> ParquetResult<GroupColumn> {
        // `Pages` replaces texts by numbers.
        let stored = if texts.is_some() { PhysicalType::INT32 } else { descriptor.physical_type() };
        let stored = ParquetType::primitive_type_builder(descriptor.name(), stored).build()?;
        let (levels, path) = (descriptor.max_def_level(), descriptor.path().clone());
        let descriptor = Arc::new(ColumnDescriptor::new(Arc::new(stored), levels, 0, path));
        let reader = get_column_reader(descriptor, pages);
        Ok(GroupColumn { column_type, reader, texts })
    }

    fn read(&mut self, rows: usize) -> ParquetResult<Column> {
        use ColumnReader::{BoolColumnReader, DoubleColumnReader, Int32ColumnReader, Int64ColumnReader};
        let mut levels = Vec::new();
        let values = match (self.column_type, &mut self.reader) {
            (Type::U8, Int32ColumnReader(reader)) => Values::U8(narrow(take(reader, rows, &mut levels)?)?),
            (Type::U16, Int32ColumnReader(reader)) => Values::U16(narrow(take(reader, rows, &mut levels)?)?),
            (Type::U32, Int32ColumnReader(reader)) => {
                Values::U32(take(reader, rows, &mut levels)?.into_iter().map(i32::cast_unsigned).collect())
            }
            (Type::U64, Int64ColumnReader(reader)) => {
                Values::U64(take(reader, rows, &mut levels)?.into_iter().map(i64::cast_unsigned).collect())
            }
            (Type::I8, Int32ColumnReader(reader)) => Values::I8(narrow(take(reader, rows, &mut levels)?)?),
            (Type::I32, Int32ColumnReader(reader)) => Values::I32(take(reader, rows, &mut levels)?),
            (Type::F64, DoubleColumnReader(reader)) => Values::F64(take(reader, rows, &mut levels)?),
            (Type::Bool, BoolColumnReader(reader)) => Values::Bool(take(reader, rows, &mut levels)?),
            (Type::Text, Int32ColumnReader(reader)) => {
                let keys = take(reader, rows, &mut levels)?.into_iter().map(i32::cast_unsigned).collect();
                Values::Text(Texts {
                    distinct: self.texts.as_ref().map_or_else(Vec::new, PageTexts::so_far),
                    keys,
                })
            }
            (expected, _) => {
                return Err(ParquetError::General(format!("a column changes its type from {expected}")));
            }
        };
        Ok(Column::with_levels(values, levels))
    }

    fn skip(&mut self, rows: usize) -> ParquetResult<()> {
        let skipped = match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::DoubleColumnReader(reader) => reader.skip_records(rows),
            _ => Ok(0),
        };
        if skipped? == rows { Ok(()) } else { Err(ends()) }
    }
}

/// Reads `rows` rows: the values that exist, and the definition levels, if the column has them, that say
/// which rows have a value.
fn take<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Vec<i16>,
) -> ParquetResult<Vec<T::T>> {
    let mut values = Vec::with_capacity(rows.min(MOST_AT_ONCE));
    let (read, _, _) = reader.read_records(rows, Some(levels), None, &mut values)?;
    if read == rows { Ok(values) } else { Err(ends()) }
}

fn ends() -> ParquetError {
    ParquetError::EOF("a column ends before its row group".into())
}

/// Converts numbers that Parquet stores as 32-bit integers to their narrower type.
fn narrow<T: TryFrom<i32> + Default>(stored: Vec<i32>) -> ParquetResult<Vec<T>> {
    let mut fit = true;
    let narrow = |value| {
        T::try_from(value).unwrap_or_else(|_| {
            fit = false;
            T::default()
        })
    };
    let narrowed = stored.into_iter().map(narrow).collect();
    if fit { Ok(narrowed) } else { Err(ParquetError::General("a number is too large for its column".into())) }
}

#[cfg(test)]
mod tests {
    use super::narrow;

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(narrow::<i8>(vec![-128, 0, 127]).unwrap(), [-128, 0, 127]);
        for wrong in [-1, 1 << 16, i32::MIN] {
            let error = narrow::<u16>(vec![1, wrong, 2]).unwrap_err().to_string();
            assert!(error.contains("too large for its column"), "{error}");
        }
    }
}
