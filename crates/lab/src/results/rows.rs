//! The rows of a run: one value per row, with columns for everything by which values must be distinguished.
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
//! The columns left of the line are the same in all rows of a run and take next to no space in the file.

use super::Program;
use super::identity::DescribedRun;
use super::record::{Record, SeriesPoint};
use super::summary::Summary;
use sim::Run;
use std::collections::BTreeMap;
use std::iter::repeat_n;
use workload::table::{Column, Field, Rows, Type, Values};

/// The kinds of rows.
mod kind {
    pub const RUN: &str = "run";
    pub const METRIC: &str = "metric";
    pub const CPU_SECONDS: &str = "cpu_seconds";
    pub const TIME_BY_CPU: &str = "time_by_cpu";
    pub const COUNTER: &str = "counter";
    pub const SERIES: &str = "series";
    pub const HISTOGRAM: &str = "histogram";
    pub const NOTE: &str = "note";
    pub const EVENT: &str = "event";
    pub const AREA: &str = "area";
    pub const PROGRAM: &str = "program";
}

const DESCRIPTION: &str = "description";
const VIRTUAL_SECONDS: &str = "virtual_seconds";
const PAGE_OPERATIONS: &str = "page_operations";

/// Columns that say who made a run. They may differ between equal runs, which are identified by the build
/// hash.
pub(super) const MAKER: [&str; 2] = ["mmtwin", "commit"];

/// The columns. Most of a small file is texts.
pub(super) const FIELDS: [Field; 18] = [
    Field::new("run", Type::Text),
    Field::new("scenario", Type::Text),
    Field::new("series", Type::Text),
    Field::new("variant", Type::Text),
    Field::new("seed", Type::U64),
    Field::new("machine", Type::Text),
    Field::new("settings", Type::Text),
    Field::new("inputs", Type::Text),
    Field::new("build", Type::Text),
    Field::new(MAKER[0], Type::Text),
    Field::new(MAKER[1], Type::Text),
    Field::new("kind", Type::Text),
    Field::new("name", Type::Text),
    Field::new("seconds", Type::F64).optional(),
    Field::new("upper_ns", Type::F64).optional(),
    Field::new("value", Type::F64).optional(),
    Field::new("count", Type::U64).optional(),
    Field::new("text", Type::Text).optional().distinct(),
];

/// Number of columns that are the same in all rows of a run.
const OF_THE_RUN: usize = 11;

/// The values of a row besides kind and name.
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

/// The rows of the `record` that `program` made of `described`.
pub(super) fn rows(described: &DescribedRun, program: &Program, record: &Record) -> Rows {
    let events = texts(&record.events);
    let areas = texts(&record.areas);
    let programs = texts(&record.programs);
    let times = texts(record.time_by_cpu.values());
    let mut rows: Vec<(&str, &str, Row)> = vec![
        (kind::RUN, DESCRIPTION, Row::text(&described.description)),
        (kind::RUN, VIRTUAL_SECONDS, Row::value(record.virtual_seconds)),
        (kind::RUN, PAGE_OPERATIONS, Row::count(record.page_operations)),
    ];
    rows.extend(record.metrics.iter().map(|(name, &value)| (kind::METRIC, name.as_str(), Row::value(value))));
    rows.extend(
        record.cpu_seconds.iter().map(|(name, &value)| (kind::CPU_SECONDS, name.as_str(), Row::value(value))),
    );
    let categories = record.time_by_cpu.keys().map(String::as_str);
    rows.extend(categories.zip(&times).map(|(name, parts)| (kind::TIME_BY_CPU, name, Row::text(parts))));
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
    rows.extend(events.iter().map(|event| (kind::EVENT, "event", Row::text(event))));
    rows.extend(areas.iter().map(|area| (kind::AREA, "area", Row::text(area))));
    let names = record.programs.iter().map(|program| program.name.as_str());
    rows.extend(names.zip(&programs).map(|(name, program)| (kind::PROGRAM, name, Row::text(program))));

    columns(described, program, &rows)
}

/// Values of several numbers and names, as JSON.
fn texts<T: serde::Serialize>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values
        .into_iter()
        .map(|value| serde_json::to_string(&value).expect("numbers and texts are JSON"))
        .collect()
}

fn columns(described: &DescribedRun, program: &Program, rows: &[(&str, &str, Row)]) -> Rows {
    let same = |value: &str| Values::Text(repeat_n(value, rows.len()).collect()).into();
    let numbers = |of: fn(&Row) -> Option<f64>| {
        Column::optional(rows.iter().map(|(.., row)| of(row)), |values| Values::F64(values.collect()))
    };
    let Summary { run, scenario, series, variant, seed, machine, settings, inputs, build } =
        &described.summary;
    Rows::new([
        same(run),
        same(scenario),
        same(series),
        same(variant),
        Values::U64(vec![*seed; rows.len()]).into(),
        same(machine),
        same(settings),
        same(inputs),
        same(build),
        same(&program.version),
        same(&program.commit),
        Values::Text(rows.iter().map(|(kind, ..)| kind).collect()).into(),
        Values::Text(rows.iter().map(|(_, name, _)| name).collect()).into(),
        numbers(|row| row.seconds),
        numbers(|row| row.upper_ns),
        numbers(|row| row.value),
        Column::optional(rows.iter().map(|(.., row)| row.count), |values| Values::U64(values.collect())),
        Column::optional(rows.iter().map(|(.., row)| row.text), |values| Values::Text(values.collect())),
    ])
}

/// Decodes the rows of a run into kind, name and values.
fn decoded(rows: &Rows) -> Result<Vec<(&str, &str, Row<'_>)>, String> {
    let columns = &rows.columns()[OF_THE_RUN..];
    let values: Vec<&Values> = columns.iter().map(Column::values).collect();
    let [
        Values::Text(kinds),
        Values::Text(names),
        Values::F64(seconds),
        Values::F64(upper_ns),
        Values::F64(value),
        Values::U64(count),
        Values::Text(text),
    ] = values[..]
    else {
        return Err("its columns are not those of a run".into());
    };
    let mut seconds = columns[2].rows_of(seconds.iter().copied());
    let mut upper_ns = columns[3].rows_of(upper_ns.iter().copied());
    let mut value = columns[4].rows_of(value.iter().copied());
    let mut count = columns[5].rows_of(count.iter().copied());
    let mut text = columns[6].rows_of(text.iter());
    let row = |(kind, name)| {
        let row = Row {
            seconds: seconds.next().flatten(),
            upper_ns: upper_ns.next().flatten(),
            value: value.next().flatten(),
            count: count.next().flatten(),
            text: text.next().flatten(),
        };
        (kind, name, row)
    };
    Ok(kinds.iter().zip(names.iter()).map(row).collect())
}

/// The description in the rows of a run.
pub(super) fn description(rows: &Rows) -> Option<&str> {
    let rows = decoded(rows).ok()?;
    rows.into_iter()
        .find(|(kind, name, _)| (*kind, *name) == (kind::RUN, DESCRIPTION))
        .and_then(|(.., row)| row.text)
}

/// Values by name.
type Named = BTreeMap<String, f64>;

/// Decodes the metrics of a run and its CPU time by category.
pub(super) fn measured(rows: &Rows) -> Result<(Named, Named), String> {
    let (mut metrics, mut cpu_seconds) = (Named::new(), Named::new());
    for (at, (kind, name, row)) in decoded(rows)?.into_iter().enumerate() {
        let values = match kind {
            kind::METRIC => &mut metrics,
            kind::CPU_SECONDS => &mut cpu_seconds,
            _ => continue,
        };
        let value = row.value.ok_or_else(|| format!("row {at}, {kind} {name}, has no value"))?;
        values.insert(name.into(), value);
    }
    Ok((metrics, cpu_seconds))
}

/// Decodes the text of a row.
fn json<T: serde::de::DeserializeOwned>(at: usize, what: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("row {at}: no {what}: {error}"))
}

/// Decodes the record of a run of this identity from its rows.
pub(super) fn record(rows: &Rows, identity: &str, run: &Run) -> Result<Record, String> {
    let (mut virtual_seconds, mut page_operations) = (None, None);
    let mut record = Record {
        identity: identity.into(),
        run: run.clone(),
        metrics: BTreeMap::new(),
        cpu_seconds: BTreeMap::new(),
        time_by_cpu: BTreeMap::new(),
        counters: BTreeMap::new(),
        virtual_seconds: 0.0,
        page_operations: 0,
        series: Vec::new(),
        histograms: BTreeMap::new(),
        notes: Vec::new(),
        events: Vec::new(),
        areas: Vec::new(),
        programs: Vec::new(),
    };
    for (at, (kind, name, row)) in decoded(rows)?.into_iter().enumerate() {
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
            (kind::TIME_BY_CPU, _) => {
                let parts = json(at, "parts of CPUs' time", text()?)?;
                record.time_by_cpu.insert(name.into(), parts);
            }
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
            (kind::EVENT, _) => record.events.push(json(at, "event", text()?)?),
            (kind::AREA, _) => record.areas.push(json(at, "area", text()?)?),
            (kind::PROGRAM, _) => record.programs.push(json(at, "program", text()?)?),
            _ => return Err(format!("row {at}: unknown kind {kind}, name {name}")),
        }
    }
    record.virtual_seconds = virtual_seconds.ok_or("it does not say how long the run took")?;
    record.page_operations = page_operations.ok_or("it does not say how many pages the run asked for")?;
    Ok(record)
}
