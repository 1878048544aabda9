//! Writes tables, one row group per call.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Encoding, Repetition};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as ParquetType};

use super::values::AT_A_TIME;
use super::{Column, Field, Rows, Stored, Texts, Values};

/// A table being written.
pub struct TableWriter<W: Write + Send> {
    fields: Vec<Field>,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a table with columns `fields` in `output`; `properties` give the compression.
    pub fn new(
        output: W,
        fields: &[Field],
        mut properties: WriterPropertiesBuilder,
    ) -> Result<TableWriter<W>> {
        for field in fields {
            let column = ColumnPath::from(field.name);
            if field.stored != Stored::Numbered {
                properties = properties.set_column_dictionary_enabled(column.clone(), false);
            }
            if field.stored == Stored::Differences {
                properties = properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let columns = fields.iter().map(parquet_type).collect::<Result<_>>()?;
        let schema = ParquetType::group_type_builder("table").with_fields(columns).build()?;
        let writer = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(TableWriter { fields: fields.to_vec(), writer })
    }

    /// Adds a row group with the rows of all `batches`.
    pub fn write(&mut self, batches: &[&Rows]) -> Result<()> {
        if batches.iter().all(|rows| rows.count() == 0) {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (at, field) in self.fields.iter().enumerate() {
            let lacks = || ParquetError::General(format!("rows lack column `{}`", field.name));
            let mut writer = group.next_column()?.ok_or_else(lacks)?;
            for rows in batches {
                let column = rows.columns.get(at).ok_or_else(lacks)?;
                write_column(writer.untyped(), field, column)?;
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the footer with the metadata `texts`. Returns the output.
    pub fn finish(mut self, texts: impl IntoIterator<Item = KeyValue>) -> Result<W> {
        texts.into_iter().for_each(|text| self.writer.append_key_value_metadata(text));
        self.writer.into_inner()
    }
}

fn parquet_type(field: &Field) -> Result<Arc<ParquetType>> {
    let (physical, logical) = field.column_type.in_parquet();
    let repetition = if field.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let builder = ParquetType::primitive_type_builder(field.name, physical);
    Ok(Arc::new(builder.with_repetition(repetition).with_logical_type(logical).build()?))
}

fn write_column(writer: &mut ColumnWriter, field: &Field, column: &Column) -> Result<()> {
    use ColumnWriter::{
        BoolColumnWriter, ByteArrayColumnWriter, DoubleColumnWriter, Int32ColumnWriter, Int64ColumnWriter,
    };
    let (found, expected) = (column.values.column_type(), field.column_type);
    let other = || ParquetError::General(format!("column `{}` is {found}, must be {expected}", field.name));
    if found != expected {
        return Err(other());
    }
    let all_there: Vec<i16>;
    let levels = match &column.levels {
        Some(_) if !field.optional => {
            return Err(ParquetError::General(format!("column `{}` lacks values", field.name)));
        }
        None if field.optional => {
            all_there = vec![1; column.rows()];
            Some(all_there.as_slice())
        }
        levels => levels.as_deref(),
    };
    match (&column.values, writer) {
        (Values::U8(values), Int32ColumnWriter(writer)) => put(writer, levels, values, i32::from),
        (Values::U16(values), Int32ColumnWriter(writer)) => put(writer, levels, values, i32::from),
        (Values::U32(values), Int32ColumnWriter(writer)) => put(writer, levels, values, u32::cast_signed),
        (Values::U64(values), Int64ColumnWriter(writer)) => put(writer, levels, values, u64::cast_signed),
        (Values::I8(values), Int32ColumnWriter(writer)) => put(writer, levels, values, i32::from),
        (Values::I32(values), Int32ColumnWriter(writer)) => put(writer, levels, values, i32::from),
        (Values::F64(values), DoubleColumnWriter(writer)) => put(writer, levels, values, f64::from),
        (Values::Bool(values), BoolColumnWriter(writer)) => put(writer, levels, values, bool::from),
        (Values::Text(Texts { distinct, keys }), ByteArrayColumnWriter(writer)) => {
            let distinct: Vec<ByteArray> = distinct.iter().cloned().map(ByteArray::from).collect();
            put(writer, levels, keys, |key| distinct[key as usize].clone())
        }
        _ => Err(other()),
    }
}

fn put<V: Copy, T: DataType>(
    writer: &mut ColumnWriterImpl<T>,
    levels: Option<&[i16]>,
    values: &[V],
    stored: impl Fn(V) -> T::T,
) -> Result<()> {
    if levels.is_some() {
        let values: Vec<T::T> = values.iter().map(|&value| stored(value)).collect();
        return writer.write_batch(&values, levels, None).map(drop);
    }
    let mut piece = Vec::with_capacity(AT_A_TIME);
    for values in values.chunks(AT_A_TIME) {
        piece.clear();
        piece.extend(values.iter().map(|&value| stored(value)));
        writer.write_batch(&piece, None, None)?;
    }
    Ok(())
}
