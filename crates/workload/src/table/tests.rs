//! Tests of tables in Parquet files: files written here, by other programs, and with malicious contents.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use proptest::prelude::*;

use super::*;

fn packed() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()))
}

fn written(fields: &[Field], groups: &[Vec<&Rows>], properties: WriterPropertiesBuilder) -> Bytes {
    let mut writer = TableWriter::new(Vec::new(), fields, properties).unwrap();
    groups.iter().for_each(|batches| writer.write(batches).unwrap());
    writer.finish([]).unwrap().into()
}

fn reader(file: &Bytes, fields: &[Field]) -> Result<TableReader, String> {
    TableReader::new(file.clone(), &Footer::read(file)?, fields)
}

/// A column of any type, with a number or a null for each row.
fn column(column_type: Type, rows: &[Option<u64>]) -> Column {
    Column::optional(rows.iter().copied(), |numbers| match column_type {
        Type::U8 => Values::U8(numbers.map(|number| number as u8).collect()),
        Type::U16 => Values::U16(numbers.map(|number| number as u16).collect()),
        Type::U32 => Values::U32(numbers.map(|number| number as u32).collect()),
        Type::U64 => Values::U64(numbers.collect()),
        Type::I8 => Values::I8(numbers.map(|number| number as i8).collect()),
        Type::I32 => Values::I32(numbers.map(|number| number as i32).collect()),
        Type::F64 => Values::F64(numbers.map(f64::from_bits).collect()),
        Type::Bool => Values::Bool(numbers.map(|number| number % 2 == 1).collect()),
        Type::Text => Values::Text(numbers.map(|number| "ü".repeat(number as usize % 40)).collect()),
    })
}

fn any_field(name: &'static str) -> impl Strategy<Value = Field> {
    let stored = prop::sample::select(vec![Stored::Numbered, Stored::Differences, Stored::Plain]);
    (prop::sample::select(Type::ALL.to_vec()), any::<bool>(), stored).prop_map(
        move |(column_type, optional, stored)| {
            let stored = match column_type {
                Type::F64 | Type::Bool | Type::Text if stored == Stored::Differences => Stored::Plain,
                _ => stored,
            };
            Field { name, column_type, optional, stored }
        },
    )
}

/// A table of three columns, with a number for each row and nulls in the optional columns.
fn any_table() -> impl Strategy<Value = (Vec<Field>, Vec<Vec<Option<u64>>>)> {
    let fields = [any_field("a"), any_field("b"), any_field("c")];
    let number = prop_oneof![0..4_u64, any::<u64>()];
    let rows = prop::collection::vec([(); 3].map(|()| prop::option::weighted(0.8, number.clone())), 0..200);
    (fields, rows).prop_map(|(fields, rows)| {
        let of_field = |(at, field): (usize, &Field)| {
            let there = |row: &[Option<u64>; 3]| if field.optional { row[at] } else { row[at].or(Some(0)) };
            rows.iter().map(there).collect()
        };
        (fields.to_vec(), fields.iter().enumerate().map(of_field).collect())
    })
}

/// Rows `from..to`.
fn rows(fields: &[Field], numbers: &[Vec<Option<u64>>], from: usize, to: usize) -> Rows {
    Rows::new(
        fields.iter().zip(numbers).map(|(field, numbers)| column(field.column_type, &numbers[from..to])),
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        (fields, numbers) in any_table(),
        batch in 1..90_usize,
        batches_of_a_group in 1..4_usize,
        most in 1..50_usize,
        skipped in 0..200_usize,
        version in prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]),
        rows_of_a_page in 1..100_usize,
    ) {
        let count = numbers[0].len();
        let batches: Vec<Rows> = (0..count)
            .step_by(batch)
            .map(|from| rows(&fields, &numbers, from, count.min(from + batch)))
            .collect();
        let groups: Vec<Vec<&Rows>> =
            batches.chunks(batches_of_a_group).map(|group| group.iter().collect()).collect();
        let properties = packed()
            .set_writer_version(version)
            .set_encoding(Encoding::PLAIN)
            .set_write_batch_size(rows_of_a_page)
            .set_data_page_row_count_limit(rows_of_a_page)
            .set_dictionary_page_size_limit(100);
        let file = written(&fields, &groups, properties);
        prop_assert_eq!(Footer::read(&file).unwrap().rows(), count as i64);

        // Reads all columns from any row on, and some columns in another order.
        for (fields, numbers, mut row) in [
            (fields.clone(), numbers.clone(), skipped.min(count)),
            (vec![fields[2], fields[0]], vec![numbers[2].clone(), numbers[0].clone()], 0),
        ] {
            let mut table = reader(&file, &fields).unwrap();
            table.skip(row).unwrap();
            while let Some(read) = table.next(most).unwrap() {
                prop_assert!((1..=most).contains(&read.count()));
                prop_assert_eq!(&read, &rows(&fields, &numbers, row, row + read.count()));
                row += read.count();
            }
            prop_assert_eq!(row, count);
        }
    }
}

#[test]
fn rows_past_the_end_are_refused() {
    let fields = [Field::new("a", Type::U8)];
    let file = written(&fields, &[vec![&Rows::new([Values::U8(vec![1, 2])])]], packed());
    let error = reader(&file, &fields).unwrap().skip(3).unwrap_err();
    assert!(error.contains("rows end before those that are asked for"), "{error}");
}

#[test]
fn columns_are_what_their_fields_say() {
    let field = Field::new("a", Type::U8);
    let write = |column: Column| {
        let mut writer = TableWriter::new(Vec::new(), &[field], packed()).unwrap();
        writer.write(&[&Rows::new([column])]).unwrap_err().to_string()
    };
    let wide = write(Values::U16(vec![1]).into());
    assert!(wide.contains("column `a` is UInt16, must be UInt8"), "{wide}");
    let holes = write(column(Type::U8, &[Some(1), None]));
    assert!(holes.contains("column `a` lacks values"), "{holes}");

    let file = written(&[field], &[], packed());
    for (name, column_type, problem) in [
        ("a", Type::U16, "column `a` is UInt8, must be UInt16"),
        ("b", Type::U8, "column `b` is missing, must be UInt8"),
    ] {
        assert_eq!(reader(&file, &[Field::new(name, column_type)]).err().unwrap(), problem);
    }
}

/// The footer of a file with a column of `rows` zeroes in one page.
fn zeroes(rows: usize) -> Result<Footer, String> {
    let fields = [Field::new("zero", Type::U8)];
    let properties = WriterProperties::builder().set_data_page_row_count_limit(usize::MAX);
    let file = written(&fields, &[vec![&Rows::new([Values::U8(vec![0; rows])])]], properties);
    assert!(file.len() < 2000, "{}", file.len());
    Footer::read(&file)
}

#[test]
fn a_short_file_has_no_millions_of_rows() {
    assert!(zeroes(100_000).is_ok());
    let refused = zeroes(4_000_000).unwrap_err();
    assert!(refused.starts_with("it claims 4000000 rows in a file of"), "{refused}");
}
