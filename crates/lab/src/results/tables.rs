//! The Parquet files of a results directory. pandas, DuckDB and polars read them as they are.
//!
//! ```text
//!   counters    run  variant  seed  kind (metric | cpu_seconds | counter | run)  name  value
//!   series      run  variant  seed  seconds  name  value
//!   histograms  run  variant  seed  name  upper_ns  count
//! ```
//!
//! `run` is the identity that the manifest lists. Rows of runs that the manifest does not list are ignored:
//! the Parquet files are written first.

use super::{ManifestRun, Record, ResultsError, SeriesPoint, write_atomically};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const COUNTERS: &str = "counters.parquet";
const SERIES: &str = "series.parquet";
const HISTOGRAMS: &str = "histograms.parquet";

/// What the rows of `counters` are.
mod kind {
    pub const METRIC: &str = "metric";
    pub const CPU_SECONDS: &str = "cpu_seconds";
    pub const COUNTER: &str = "counter";
    pub const RUN: &str = "run";
}

const VIRTUAL_SECONDS: &str = "virtual_seconds";
const PAGE_OPERATIONS: &str = "page_operations";

/// A column as it is being filled or read.
pub(crate) enum Column {
    Text(Vec<String>),
    Number(Vec<f64>),
    Count(Vec<u64>),
}

impl Column {
    fn array(self) -> ArrayRef {
        match self {
            Column::Text(values) => Arc::new(StringArray::from(values)),
            Column::Number(values) => Arc::new(Float64Array::from(values)),
            Column::Count(values) => Arc::new(UInt64Array::from(values)),
        }
    }
}

/// Writes the three files.
pub(super) fn write(directory: &Path, records: &[Record]) -> Result<(), ResultsError> {
    write_file(&directory.join(COUNTERS), records, &["kind", "name"], &["value"], &[], |record, row| {
        let mut put = |kind: &str, name: &str, value: f64| row(&[kind, name], &[value], &[]);
        record.metrics.iter().for_each(|(name, &value)| put(kind::METRIC, name, value));
        record.cpu_seconds.iter().for_each(|(name, &value)| put(kind::CPU_SECONDS, name, value));
        record.counters.iter().for_each(|(name, &value)| put(kind::COUNTER, name, value as f64));
        put(kind::RUN, VIRTUAL_SECONDS, record.virtual_seconds);
        put(kind::RUN, PAGE_OPERATIONS, record.page_operations as f64);
    })?;
    write_file(&directory.join(SERIES), records, &["name"], &["seconds", "value"], &[], |record, row| {
        record.series.iter().for_each(|point| row(&[&point.name], &[point.seconds, point.value], &[]));
    })?;
    write_file(&directory.join(HISTOGRAMS), records, &["name"], &["upper_ns"], &["count"], |record, row| {
        for (name, buckets) in &record.histograms {
            buckets.iter().for_each(|&(upper, count)| row(&[name], &[upper], &[count]));
        }
    })
}

type PutRow<'a> = dyn FnMut(&[&str], &[f64], &[u64]) + 'a;

fn write_file(
    path: &Path,
    records: &[Record],
    texts: &[&str],
    numbers: &[&str],
    counts: &[&str],
    fill: impl Fn(&Record, &mut PutRow),
) -> Result<(), ResultsError> {
    let (mut runs, mut variants, mut seeds) = (Vec::new(), Vec::new(), Vec::new());
    let mut text_values = vec![Vec::new(); texts.len()];
    let mut number_values = vec![Vec::new(); numbers.len()];
    let mut count_values = vec![Vec::new(); counts.len()];
    for record in records {
        fill(record, &mut |texts, numbers, counts| {
            runs.push(record.identity.clone());
            variants.push(record.run.variant.clone());
            seeds.push(record.run.seed);
            text_values.iter_mut().zip(texts).for_each(|(column, &value)| column.push(value.to_string()));
            number_values.iter_mut().zip(numbers).for_each(|(column, &value)| column.push(value));
            count_values.iter_mut().zip(counts).for_each(|(column, &value)| column.push(value));
        });
    }
    let mut columns = vec![
        ("run", Column::Text(runs)),
        ("variant", Column::Text(variants)),
        ("seed", Column::Count(seeds)),
    ];
    columns.extend(texts.iter().copied().zip(text_values.into_iter().map(Column::Text)));
    columns.extend(numbers.iter().copied().zip(number_values.into_iter().map(Column::Number)));
    columns.extend(counts.iter().copied().zip(count_values.into_iter().map(Column::Count)));
    write_columns(path, columns)
}

/// Writes one file.
pub(super) fn write_columns(path: &Path, columns: Vec<(&str, Column)>) -> Result<(), ResultsError> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, column)| {
            let array = column.array();
            (Field::new(name, array.data_type().clone(), false), array)
        })
        .unzip();
    let schema = Arc::new(Schema::new(fields));
    let failed =
        |error: &dyn std::fmt::Display| ResultsError::io(path, std::io::Error::other(error.to_string()));
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(|e| failed(&e))?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    write_atomically(path, |file| {
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(|e| failed(&e))?;
        writer.write(&batch).map_err(|e| failed(&e))?;
        writer.close().map_err(|e| failed(&e))?;
        Ok(())
    })
}

/// Reads back the runs that a manifest lists; those whose rows are missing are left out, to be made again.
pub(super) fn read(directory: &Path, runs: Vec<ManifestRun>) -> Result<Vec<Record>, ResultsError> {
    let empty = |run: ManifestRun| Record {
        identity: run.identity.clone(),
        program: run.program,
        run: run.run,
        metrics: BTreeMap::new(),
        cpu_seconds: BTreeMap::new(),
        counters: BTreeMap::new(),
        virtual_seconds: f64::NAN,
        page_operations: 0,
        series: Vec::new(),
        histograms: BTreeMap::new(),
        notes: run.notes,
        areas: run.areas,
    };
    let mut records: BTreeMap<String, Record> =
        runs.into_iter().map(|run| (run.identity.clone(), empty(run))).collect();

    let path = directory.join(COUNTERS);
    for batch in batches(&path)? {
        let [run, kinds, names] = ["run", "kind", "name"].map(|column| text(&path, &batch, column));
        let (run, kinds, names, values) = (run?, kinds?, names?, numbers(&path, &batch, "value")?);
        for row in 0..batch.num_rows() {
            let Some(record) = records.get_mut(run.value(row)) else { continue };
            let (name, value) = (names.value(row).to_string(), values.value(row));
            match (kinds.value(row), name.as_str()) {
                (kind::METRIC, _) => drop(record.metrics.insert(name, value)),
                (kind::CPU_SECONDS, _) => drop(record.cpu_seconds.insert(name, value)),
                (kind::COUNTER, _) => drop(record.counters.insert(name, value as u64)),
                (kind::RUN, VIRTUAL_SECONDS) => record.virtual_seconds = value,
                (kind::RUN, PAGE_OPERATIONS) => record.page_operations = value as u64,
                (other, _) => {
                    return Err(ResultsError::damaged(
                        &path,
                        format!("row {row}: unknown kind {other}, name {name}"),
                    ));
                }
            }
        }
    }
    let path = directory.join(SERIES);
    for batch in batches(&path)? {
        let (run, names) = (text(&path, &batch, "run")?, text(&path, &batch, "name")?);
        let (seconds, values) = (numbers(&path, &batch, "seconds")?, numbers(&path, &batch, "value")?);
        for row in 0..batch.num_rows() {
            let Some(record) = records.get_mut(run.value(row)) else { continue };
            let (name, seconds, value) = (names.value(row).into(), seconds.value(row), values.value(row));
            record.series.push(SeriesPoint { seconds, name, value });
        }
    }
    let path = directory.join(HISTOGRAMS);
    for batch in batches(&path)? {
        let (run, names) = (text(&path, &batch, "run")?, text(&path, &batch, "name")?);
        let uppers = numbers(&path, &batch, "upper_ns")?;
        let counts = column(&path, &batch, "count")?
            .as_primitive_opt::<UInt64Type>()
            .ok_or_else(|| wrong_type(&path, "count", "unsigned 64-bit integers"))?;
        for row in 0..batch.num_rows() {
            let Some(record) = records.get_mut(run.value(row)) else { continue };
            let buckets = record.histograms.entry(names.value(row).into()).or_default();
            buckets.push((uppers.value(row), counts.value(row)));
        }
    }
    Ok(records.into_values().filter(|record| record.virtual_seconds.is_finite()).collect())
}

fn batches(path: &Path) -> Result<Vec<RecordBatch>, ResultsError> {
    let damaged = |error: &dyn std::fmt::Display| {
        ResultsError::damaged(path, format!("not a whole Parquet file: {error}"))
    };
    let file = File::open(path).map_err(|error| ResultsError::damaged(path, error))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|e| damaged(&e))?
        .build()
        .map_err(|e| damaged(&e))?;
    let batches: Result<Vec<RecordBatch>, _> = reader.collect();
    batches.map_err(|e| damaged(&e))
}

fn column<'a>(path: &Path, batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, ResultsError> {
    let column = batch.column_by_name(name).ok_or_else(|| {
        let schema = batch.schema();
        let found: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        ResultsError::damaged(path, format!("no column {name}; its columns are {}", found.join(", ")))
    })?;
    match column.null_count() {
        0 => Ok(column),
        nulls => Err(ResultsError::damaged(path, format!("column {name} has {nulls} nulls"))),
    }
}

fn wrong_type(path: &Path, name: &str, expected: &str) -> ResultsError {
    ResultsError::damaged(path, format!("column {name} does not hold {expected}"))
}

fn text<'a>(path: &Path, batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray, ResultsError> {
    let column = column(path, batch, name)?;
    match column.data_type() {
        DataType::Utf8 => Ok(column.as_string::<i32>()),
        _ => Err(wrong_type(path, name, "text")),
    }
}

fn numbers<'a>(path: &Path, batch: &'a RecordBatch, name: &str) -> Result<&'a Float64Array, ResultsError> {
    column(path, batch, name)?
        .as_primitive_opt::<Float64Type>()
        .ok_or_else(|| wrong_type(path, name, "64-bit numbers"))
}
