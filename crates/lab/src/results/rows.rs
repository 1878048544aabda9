//! The rows of a run: one value each, beside everything by which values must be kept apart.
//!
//! ```text
//!   run     scenario  ...  build  │ kind         name              seconds  upper_ns  value   count  text
//!   5c1e..  kbuild    ...  9a40.. │ run          description                                         {"build":...
//!   5c1e..  kbuild    ...  9a40.. │ run          virtual_seconds                      210.5
//!   5c1e..  kbuild    ...  9a40.. │ metric       build_time                           206.1
//!   5c1e..  kbuild    ...  9a40.. │ counter      pgfree                                       8841
//!   5c1e..  kbuild    ...  9a40.. │ series       pcp_pages         0.05                 361
//!   5c1e..  kbuild    ...  9a40.. │ histogram    alloc_slow                 127.25            4
//!   5c1e..  kbuild    ...  9a40.. │ note         note                                                fewer huge pages ...
//! ```
//!
//! What is left of the line is the same in all rows of a run, and takes next to no room in the file.

use super::Program;
use super::identity::DescribedRun;
use super::record::{Record, SeriesPoint};
use super::summary::Summary;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::{Arc, LazyLock};

/// What a row is.
mod kind {
    pub const RUN: &str = "run";
    pub const METRIC: &str = "metric";
    pub const CPU_SECONDS: &str = "cpu_seconds";
    pub const COUNTER: &str = "counter";
    pub const SERIES: &str = "series";
    pub const HISTOGRAM: &str = "histogram";
    pub const NOTE: &str = "note";
    pub const AREA: &str = "area";
}

const DESCRIPTION: &str = "description";
const VIRTUAL_SECONDS: &str = "virtual_seconds";
const PAGE_OPERATIONS: &str = "page_operations";

/// The column with what makes most of a small file.
pub(super) const TEXT: &str = "text";

/// Columns that say who made a run, which decides nothing: those that know one another's runs by their build hash may differ
/// here.
pub(super) const MAKER: [&str; 2] = ["mmtwin", "commit"];

/// The columns.
pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name, data_type| Field::new(name, data_type, false);
    let text = |name| field(name, DataType::Utf8);
    let perhaps = |name, data_type| Field::new(name, data_type, true);
    let [mmtwin, commit] = MAKER;
    Arc::new(Schema::new(vec![
        text("run"),
        text("scenario"),
        text("series"),
        text("variant"),
        field("seed", DataType::UInt64),
        text("machine"),
        text("settings"),
        text("inputs"),
        text("build"),
        text(mmtwin),
        text(commit),
        text("kind"),
        text("name"),
        perhaps("seconds", DataType::Float64),
        perhaps("upper_ns", DataType::Float64),
        perhaps("value", DataType::Float64),
        perhaps("count", DataType::UInt64),
        perhaps(TEXT, DataType::Utf8),
    ]))
});

/// How many columns are the same in all rows of a run.
const OF_THE_RUN: usize = 11;

/// What a row has besides its kind and name.
#[derive(Clone, Copy, Default)]
struct Row<'a> {
    seconds: Option<f64>,
    upper_ns: Option<f64>,
    value: Option<f64>,
    count: Option<u64>,
    text: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn value(value: f64) -> Row<'a> {
        Row { value: Some(value), ..Row::default() }
    }

    fn count(count: u64) -> Row<'a> {
        Row { count: Some(count), ..Row::default() }
    }

    fn text(text: &'a str) -> Row<'a> {
        Row { text: Some(text), ..Row::default() }
    }
}

/// All rows of `record`, which `program` made of `described`.
pub(super) fn batch(described: &DescribedRun, program: &Program, record: &Record) -> RecordBatch {
    let areas: Vec<String> = record
        .areas
        .iter()
        .map(|area| serde_json::to_string(area).expect("numbers and texts are JSON"))
        .collect();
    let mut rows: Vec<(&str, &str, Row)> = vec![
        (kind::RUN, DESCRIPTION, Row::text(&described.description)),
        (kind::RUN, VIRTUAL_SECONDS, Row::value(record.virtual_seconds)),
        (kind::RUN, PAGE_OPERATIONS, Row::count(record.page_operations)),
    ];
    rows.extend(record.metrics.iter().map(|(name, &value)| (kind::METRIC, name.as_str(), Row::value(value))));
    rows.extend(
        record.cpu_seconds.iter().map(|(name, &value)| (kind::CPU_SECONDS, name.as_str(), Row::value(value))),
    );
    rows.extend(
        record.counters.iter().map(|(name, &count)| (kind::COUNTER, name.as_str(), Row::count(count))),
    );
    rows.extend(record.series.iter().map(|SeriesPoint { seconds, name, value }| {
        (kind::SERIES, name.as_str(), Row { seconds: Some(*seconds), ..Row::value(*value) })
    }));
    for (name, buckets) in &record.histograms {
        rows.extend(buckets.iter().map(|&(upper, count)| {
            (kind::HISTOGRAM, name.as_str(), Row { upper_ns: Some(upper), ..Row::count(count) })
        }));
    }
    rows.extend(record.notes.iter().map(|note| (kind::NOTE, "note", Row::text(note))));
    rows.extend(areas.iter().map(|area| (kind::AREA, "area", Row::text(area))));

    let same =
        |value: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(repeat_n(value, rows.len()))) };
    let numbers = |of: fn(&Row) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(.., row)| of(row)).collect::<Float64Array>())
    };
    let Summary { run, scenario, series, variant, seed, machine, settings, inputs, build } =
        &described.summary;
    let columns: Vec<ArrayRef> = vec![
        same(run),
        same(scenario),
        same(series),
        same(variant),
        Arc::new(UInt64Array::from_iter_values(repeat_n(*seed, rows.len()))),
        same(machine),
        same(settings),
        same(inputs),
        same(build),
        same(&program.version),
        same(&program.commit),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|(kind, ..)| kind))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, name, _)| name))),
        numbers(|row| row.seconds),
        numbers(|row| row.upper_ns),
        numbers(|row| row.value),
        Arc::new(rows.iter().map(|(.., row)| row.count).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|(.., row)| row.text).collect::<StringArray>()),
    ];
    RecordBatch::try_new(SCHEMA.clone(), columns).expect("the columns that the schema has, of one length")
}

/// The columns of a batch that has the [`SCHEMA`].
struct Columns<'a> {
    kind: &'a StringArray,
    name: &'a StringArray,
    seconds: &'a Float64Array,
    upper_ns: &'a Float64Array,
    value: &'a Float64Array,
    count: &'a UInt64Array,
    text: &'a StringArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Columns<'a> {
        let text = |at: usize| batch.column(OF_THE_RUN + at).as_string::<i32>();
        let number = |at: usize| batch.column(OF_THE_RUN + at).as_primitive::<Float64Type>();
        Columns {
            kind: text(0),
            name: text(1),
            seconds: number(2),
            upper_ns: number(3),
            value: number(4),
            count: batch.column(OF_THE_RUN + 5).as_primitive::<UInt64Type>(),
            text: text(6),
        }
    }

    /// Row `at`.
    fn row(&self, at: usize) -> Row<'a> {
        let number = |column: &Float64Array| column.is_valid(at).then(|| column.value(at));
        Row {
            seconds: number(self.seconds),
            upper_ns: number(self.upper_ns),
            value: number(self.value),
            count: self.count.is_valid(at).then(|| self.count.value(at)),
            text: self.text.is_valid(at).then(|| self.text.value(at)),
        }
    }
}

/// The description in the rows of a run.
pub(super) fn description(batch: &RecordBatch) -> Option<&str> {
    let columns = Columns::of(batch);
    let is_it = |&at: &usize| (columns.kind.value(at), columns.name.value(at)) == (kind::RUN, DESCRIPTION);
    (0..batch.num_rows()).find(is_it).and_then(|at| columns.row(at).text)
}

/// The record of `described` in its rows.
pub(super) fn record(batch: &RecordBatch, described: &DescribedRun) -> Result<Record, String> {
    let columns = Columns::of(batch);
    let (mut virtual_seconds, mut page_operations) = (None, None);
    let mut record = Record {
        identity: described.identity().into(),
        run: described.run.clone(),
        metrics: BTreeMap::new(),
        cpu_seconds: BTreeMap::new(),
        counters: BTreeMap::new(),
        virtual_seconds: 0.0,
        page_operations: 0,
        series: Vec::new(),
        histograms: BTreeMap::new(),
        notes: Vec::new(),
        areas: Vec::new(),
    };
    for at in 0..batch.num_rows() {
        let (kind, name) = (columns.kind.value(at), columns.name.value(at));
        let row = columns.row(at);
        let lacks = |what: &str| format!("row {at}, {kind} {name}, has no {what}");
        let value = || row.value.ok_or_else(|| lacks("value"));
        let count = || row.count.ok_or_else(|| lacks("count"));
        let text = || row.text.ok_or_else(|| lacks("text"));
        match (kind, name) {
            (kind::RUN, DESCRIPTION) => {}
            (kind::RUN, VIRTUAL_SECONDS) => virtual_seconds = Some(value()?),
            (kind::RUN, PAGE_OPERATIONS) => page_operations = Some(count()?),
            (kind::METRIC, _) => drop(record.metrics.insert(name.into(), value()?)),
            (kind::CPU_SECONDS, _) => drop(record.cpu_seconds.insert(name.into(), value()?)),
            (kind::COUNTER, _) => drop(record.counters.insert(name.into(), count()?)),
            (kind::SERIES, _) => {
                let seconds = row.seconds.ok_or_else(|| lacks("seconds"))?;
                record.series.push(SeriesPoint { seconds, name: name.into(), value: value()? });
            }
            (kind::HISTOGRAM, _) => {
                let upper = row.upper_ns.ok_or_else(|| lacks("upper_ns"))?;
                record.histograms.entry(name.into()).or_default().push((upper, count()?));
            }
            (kind::NOTE, _) => record.notes.push(text()?.into()),
            (kind::AREA, _) => {
                let area =
                    serde_json::from_str(text()?).map_err(|error| format!("row {at}: no area: {error}"))?;
                record.areas.push(area);
            }
            _ => return Err(format!("row {at}: unknown kind {kind}, name {name}")),
        }
    }
    record.virtual_seconds = virtual_seconds.ok_or("it does not say how long the run took")?;
    record.page_operations = page_operations.ok_or("it does not say how many pages the run asked for")?;
    Ok(record)
}
