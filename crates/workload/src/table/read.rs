//! Reading a table.

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

/// Rows for which there is room before any is read; more are asked for by a file that may not have them.
const MOST_AT_ONCE: usize = 1 << 16;

/// Runs a step of the Parquet crate; its error, or the fact that it panicked, as text. Whatever the step
/// worked on is not used again after an error.
fn unpanicked<T, E: ToString>(step: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the Parquet reader cannot make sense of it".to_string()),
    }
}

/// What stands at the end of a table's file: its columns, where they are, and what it says about itself.
#[derive(Clone, Debug)]
pub struct Footer(Arc<ParquetMetaData>);

/// A column that a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundColumn<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type, or what others call one that mmtwin does not have.
    pub column_type: Result<Type, String>,
    /// Whether rows may be without a value.
    pub optional: bool,
}

impl FoundColumn<'_> {
    /// What its type is called.
    pub fn type_name(&self) -> String {
        self.column_type.as_ref().map_or_else(String::clone, |found| found.to_string())
    }
}

impl Footer {
    /// Reads the footer of `input`, which is refused if it claims to hold more than it can.
    pub fn read(input: &impl ChunkReader) -> Result<Footer, String> {
        let metadata = unpanicked(|| ParquetMetaDataReader::new().parse_and_finish(input))?;
        unpanicked(|| size::check(&metadata, input.len()))?;
        Ok(Footer(Arc::new(metadata)))
    }

    /// Whether something stands under `key`, be it no text.
    pub fn has(&self, key: &str) -> bool {
        self.0.file_metadata().key_value_metadata().into_iter().flatten().any(|pair| pair.key == key)
    }

    /// What stands under `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        let mut pairs = self.0.file_metadata().key_value_metadata().into_iter().flatten();
        pairs.find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref())
    }

    /// How many rows the file claims, below zero perhaps.
    pub fn rows(&self) -> i64 {
        self.0.file_metadata().num_rows()
    }

    /// How many rows its row groups have, if that can be counted.
    pub fn rows_of_groups(&self) -> Option<usize> {
        let mut groups = self.0.row_groups().iter();
        groups.try_fold(0usize, |sum, group| sum.checked_add(usize::try_from(group.num_rows()).ok()?))
    }

    /// Its columns; of nested ones the outermost.
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

    /// The first of `fields` that the file does not have so, and the type that it has there instead.
    pub fn differing(&self, fields: &[Field]) -> Option<(Field, Option<String>)> {
        fields.iter().find_map(|field| match self.columns().find(|column| column.name == field.name) {
            None => Some((*field, None)),
            Some(found) if found.column_type == Ok(field.column_type) => None,
            Some(found) => Some((*field, Some(found.type_name()))),
        })
    }

    /// Where among the columns that one stands which is not nested.
    fn place(&self, name: &str) -> Option<usize> {
        let columns = self.0.file_metadata().schema_descr().columns();
        columns.iter().position(|column| column.path().parts() == [name])
    }
}

type OpenPages =
    dyn Fn(&ColumnChunkMetaData, usize, Option<PageTexts>) -> ParquetResult<Box<dyn PageReader>> + Send;

/// Reads rows of a table from top to bottom. After an error it is not used again.
pub struct TableReader {
    footer: Footer,
    /// Each column's type and place in the file.
    columns: Vec<(Type, usize)>,
    open: Box<OpenPages>,
    next_group: usize,
    /// The columns of the row group that is being read.
    group: Vec<GroupColumn>,
    /// Its rows that have not been read.
    left: usize,
}

impl TableReader {
    /// Reads `fields` of `input`, whose footer is `footer`.
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

    /// The next rows, `most` at most and of one row group; nothing at the end.
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

    /// Goes past rows without reading them.
    pub fn skip(&mut self, mut rows: usize) -> Result<(), String> {
        unpanicked(|| {
            while rows > 0 {
                if self.left == 0 && !self.open_group()? {
                    return Err(ParquetError::EOF("rows end before those that are asked for".into()));
                }
                let skipped = rows.min(self.left);
                // A row group of which nothing is read is not looked at.
                if skipped < self.left {
                    self.group.iter_mut().try_for_each(|column| column.skip(skipped))?;
                }
                self.left -= skipped;
                rows -= skipped;
            }
            Ok(())
        })
    }

    /// Goes on to the next row group, if there is one.
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

/// A column of the row group that is being read.
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
        // Texts come as numbers.
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

/// Reads so many rows: the values that are there, and where `levels` are stored, which rows have them.
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

/// Numbers that a file stores as wider ones.
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
