//! Predicted against published, and what the misses add up to.
//!
//! ```text
//!   error      |predicted - published| / |published|, of predicted cells that are numbers
//!   points     |predicted - published| in percentage points, of changes and shares, which are printed with their %: a part
//!              of a change that may be next to nothing says nothing
//!   direction  if the published change against the base row exceeds 2 %: has the predicted one the same sign?
//!   resolved   whether that change exceeds 2 % whatever the printed digits were rounded from, and what two runs of
//!              one kernel differ by, where the table tells that
//!   ordering   of all pairs of rows that differ as printed: how many does the twin put in the same order?
//! ```

use super::prediction::{CellValue, Observations};
use super::sources::relative_difference;
use super::tables::{Kind, Row, Table};
use super::{Printed, claims, layout, parameters, sources};
use crate::statistics::{mean, quantile};
use schemars::JsonSchema;
use serde::Serialize;

/// Published changes up to this part of the base row's value say nothing about a direction.
const CHANGE: f64 = 0.02;

/// What predictions rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Runs of scenarios.
    Simulated,
    /// Constants and rules of the twin.
    Computed,
}

/// Whether a predicted change has the sign of the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// It has.
    Right,
    /// It has not, or is none at all.
    Wrong,
}

/// One printed value.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Cell {
    /// Its table.
    pub table: String,
    /// Its row.
    pub row: String,
    /// Its column.
    pub metric: String,
    /// The column's unit as printed.
    pub unit: String,
    /// Whether it may be used for calibration; then it takes no part in the statistics.
    pub kind: Kind,
    /// The value as printed.
    pub published: String,
    /// The twin's.
    pub predicted: CellValue,
    /// Why nothing is predicted.
    pub reason: Option<String>,
    /// Relative error, a fraction; none of baseline cells, percentages, words and what is not predicted.
    pub error: Option<f64>,
    /// Error of a percentage, in points; none of other cells.
    pub error_points: Option<f64>,
    /// Of words and formulas: whether they are the same.
    pub same: Option<bool>,
    /// See the module's text; none where the published change is too small or there is no base row.
    pub direction: Option<Direction>,
    /// Whether the published change exceeds 2 % by the printed digits, and what two runs of one kernel differ by where
    /// the table tells that; none without a direction.
    pub resolved: Option<bool>,
}

/// Errors of several cells.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Statistics {
    /// Cells, baseline ones included.
    pub cells: usize,
    /// Baseline cells.
    pub baseline: usize,
    /// Cells whose error is counted.
    pub errors: usize,
    /// Cells that are not predicted.
    pub not_predicted: usize,
    /// Words and formulas that differ.
    pub texts_wrong: usize,
    /// Median of the errors, a fraction; none without errors.
    pub median_abs_error: Option<f64>,
    /// Mean of the errors, a fraction.
    pub mean_abs_error: Option<f64>,
    /// 90th percentile of the errors, a fraction.
    pub p90_abs_error: Option<f64>,
    /// Cells whose error is counted in percentage points.
    pub percentages: usize,
    /// Median of their errors, percentage points; none without such cells.
    pub median_abs_points: Option<f64>,
    /// 90th percentile of their errors, percentage points.
    pub p90_abs_points: Option<f64>,
    /// Cells with a direction.
    pub directions: usize,
    /// Those whose direction is wrong.
    pub direction_wrong: usize,
    /// Cells with a direction that the printed digits can tell.
    pub directions_resolved: usize,
    /// Those of them whose direction is wrong.
    pub direction_wrong_resolved: usize,
}

/// One table.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TableReport {
    /// Its id.
    pub id: String,
    /// Where it was printed.
    pub mail: String,
    /// What was run.
    pub workload: String,
    /// What the predictions rest on.
    pub basis: Basis,
    /// Its errors.
    pub statistics: Statistics,
    /// Whether its rows are in the published order, by column; none if its rows are no kernels.
    pub orderings: Vec<Ordering>,
    /// Its cells.
    pub cells: Vec<Cell>,
}

/// Pairs of rows of a column of which at least one is predicted.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Ordering {
    /// The column.
    pub metric: String,
    /// Pairs whose published values differ, and both of which the twin has a value for.
    pub pairs: usize,
    /// Those that it puts in the same order.
    pub alike: usize,
    /// Pairs that differ by more than rounding and more than two runs of one kernel.
    pub pairs_resolved: usize,
    /// Those that it puts in the same order.
    pub alike_resolved: usize,
}

/// All tables.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Report {
    /// The tables.
    pub tables: Vec<TableReport>,
    /// Over all simulated tables.
    pub summary: Statistics,
    /// Over all computed tables.
    pub computed: Statistics,
}

impl Report {
    /// Compares `tables` with what was observed.
    pub fn new(tables: &[Table], observations: &Observations) -> Report {
        let tables: Vec<TableReport> =
            tables.iter().map(|table| TableReport::new(table, observations)).collect();
        let over = |basis| {
            let cells = tables.iter().filter(|table| table.basis == basis).flat_map(|table| &table.cells);
            Statistics::new(cells)
        };
        Report { summary: over(Basis::Simulated), computed: over(Basis::Computed), tables }
    }
}

impl TableReport {
    fn new(table: &Table, observations: &Observations) -> TableReport {
        let simulated = table.is_measured() || claims::is_table(&table.id);
        let mut cells = Vec::new();
        for (index, row) in table.rows.iter().enumerate() {
            for column in row.columns(table) {
                cells.push(Cell::new(table, index, row, column, observations));
            }
        }
        TableReport {
            id: table.id.clone(),
            mail: table.mail.clone(),
            workload: table.workload.clone(),
            basis: if simulated { Basis::Simulated } else { Basis::Computed },
            statistics: Statistics::new(cells.iter()),
            orderings: if table.is_measured() { Ordering::of_columns(table, &cells) } else { Vec::new() },
            cells,
        }
    }
}

impl Ordering {
    fn of_columns(table: &Table, cells: &[Cell]) -> Vec<Ordering> {
        let columns = table.columns.iter().map(|column| column.id.as_str());
        let orderings = columns.map(|column| {
            let cells = cells.iter().filter(|cell| cell.metric == column);
            let values = cells.filter_map(|cell| match (Printed::parse(&cell.published), &cell.predicted) {
                (Some(printed), CellValue::Number(value)) => {
                    Some((cell.row.as_str(), cell.kind, printed, *value))
                }
                _ => None,
            });
            Ordering::new(table, column, &values.collect::<Vec<_>>())
        });
        orderings.filter(|ordering| ordering.pairs > 0).collect()
    }

    /// Of rows with a name, a kind, a published and a predicted value.
    fn new(table: &Table, column: &str, rows: &[(&str, Kind, Printed, f64)]) -> Ordering {
        let run_to_run = table.run_to_run(column);
        let mut ordering =
            Ordering { metric: column.into(), pairs: 0, alike: 0, pairs_resolved: 0, alike_resolved: 0 };
        for (index, &(row_a, kind, a, twin_a)) in rows.iter().enumerate() {
            for &(row_b, other, b, twin_b) in &rows[index + 1..] {
                if a.value == b.value
                    || (kind, other) == (Kind::Baseline, Kind::Baseline)
                    || !table.are_comparable(column, row_a, row_b)
                {
                    continue;
                }
                let alike = usize::from((a.value - b.value) * (twin_a - twin_b) > 0.0);
                ordering.pairs += 1;
                ordering.alike += alike;
                let rounding = a.half_unit + b.half_unit;
                if (a.value - b.value).abs() > rounding && relative_difference(a.value, b.value) > run_to_run
                {
                    ordering.pairs_resolved += 1;
                    ordering.alike_resolved += alike;
                }
            }
        }
        ordering
    }
}

fn predict(table: &Table, index: usize, column: &str, observations: &Observations) -> CellValue {
    let row = &table.rows[index];
    match table.id.as_str() {
        id if claims::is_table(id) => claims::predict(table, row, column, observations),
        parameters::TABLE => parameters::predict(&row.name),
        id if layout::is_layout(id) => layout::predict(table, index, column),
        _ => sources::predict(table, row, column, observations),
    }
}

impl Cell {
    fn new(table: &Table, index: usize, row: &Row, column: &str, observations: &Observations) -> Cell {
        let published = &row.v[column];
        let kind = claims::kind(table, row, column);
        let predicted = predict(table, index, column, observations);
        let mut cell = Cell {
            table: table.id.clone(),
            row: row.name.clone(),
            metric: column.into(),
            unit: table.column(column).map_or(String::new(), |column| column.unit.clone()),
            kind,
            published: published.clone(),
            reason: None,
            error: None,
            error_points: None,
            same: None,
            direction: None,
            resolved: None,
            predicted: predicted.clone(),
        };
        match (predicted, Printed::parse(published)) {
            (CellValue::Missing(reason), _) => cell.reason = Some(reason),
            (CellValue::Number(value), Some(printed)) => {
                let off = (value - printed.value).abs();
                match kind {
                    Kind::Baseline => {}
                    Kind::Predicted if Printed::is_percentage(published) => cell.error_points = Some(off),
                    Kind::Predicted if printed.value != 0.0 => cell.error = Some(off / printed.value.abs()),
                    Kind::Predicted => {}
                }
                if kind == Kind::Predicted && table.is_measured() {
                    cell.judge_direction(table, row, value, printed, observations);
                }
            }
            (CellValue::Number(value), None) => cell.same = Some(value.to_string() == *published),
            (CellValue::Text(text), _) => cell.same = Some(text == *published),
        }
        cell
    }

    /// Enters direction and resolution.
    fn judge_direction(
        &mut self,
        table: &Table,
        row: &Row,
        value: f64,
        printed: Printed,
        observations: &Observations,
    ) {
        let column = self.metric.as_str();
        let Some((base_index, base)) = table.base(row) else { return };
        let Some(base) = base.v.get(column).and_then(|text| Printed::parse(text)) else { return };
        let CellValue::Number(predicted_base) = predict(table, base_index, column, observations) else {
            return;
        };
        // A percentage of the base is rounded, the base's own 100 is not.
        let base_half_unit = if table.is_percent_of_base(column) { 0.0 } else { base.half_unit };
        let change = printed.value - base.value;
        if change.abs() <= CHANGE * base.value.abs() * (1.0 + 1e-9) {
            return;
        }
        let least = change.abs() - printed.half_unit - base_half_unit;
        let is_more_than_noise = relative_difference(printed.value, base.value) > table.run_to_run(column);
        self.resolved = Some(is_more_than_noise && least > CHANGE * (base.value.abs() + base_half_unit));
        let right = (value - predicted_base) * change > 0.0;
        self.direction = Some(if right { Direction::Right } else { Direction::Wrong });
    }
}

impl Statistics {
    fn new<'a>(cells: impl Iterator<Item = &'a Cell>) -> Statistics {
        let mut statistics = Statistics::default();
        let (mut errors, mut points) = (Vec::new(), Vec::new());
        for cell in cells {
            statistics.cells += 1;
            if cell.kind == Kind::Baseline {
                statistics.baseline += 1;
                continue;
            }
            errors.extend(cell.error);
            points.extend(cell.error_points);
            statistics.not_predicted += usize::from(cell.reason.is_some());
            statistics.texts_wrong += usize::from(cell.same == Some(false));
            let wrong = usize::from(cell.direction == Some(Direction::Wrong));
            statistics.directions += usize::from(cell.direction.is_some());
            statistics.direction_wrong += wrong;
            if cell.resolved == Some(true) {
                statistics.directions_resolved += 1;
                statistics.direction_wrong_resolved += wrong;
            }
        }
        statistics.errors = errors.len();
        statistics.median_abs_error = quantile(&errors, 0.5);
        statistics.mean_abs_error = (!errors.is_empty()).then(|| mean(&errors));
        statistics.p90_abs_error = quantile(&errors, 0.9);
        statistics.percentages = points.len();
        statistics.median_abs_points = quantile(&points, 0.5);
        statistics.p90_abs_points = quantile(&points, 0.9);
        statistics
    }
}
