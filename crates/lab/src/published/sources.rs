//! What each cell of a table of measurements is predicted from: the scenarios, variant and quantity that its table, row and column
//! name.
//!
//! ```text
//!   variant of the row ──────┐
//!   scenarios of the column ─┼─► mean of the quantity, added up ──► as the column prints it: itself, or against the base row
//!   quantity of the column ──┘
//! ```

use super::prediction::{CellValue, Observations};
use super::tables::{PrintedAs, Row, Table};
use super::{Printed, claims};
use mm::Event;
use sim::metric::HINT_FAULTS_LOCAL;

/// A scenario and the variants of it that tables need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The scenario.
    pub scenario: String,
    /// The variants, first the base.
    pub variants: Vec<String>,
}

/// What a cell is the mean of.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// One, or several that are added up.
    scenarios: &'a [String],
    times: u32,
    /// A metric's name or a counter's.
    quantity: &'a str,
    printed_as: PrintedAs,
}

impl Table {
    /// Whether its rows are kernels and its columns what runs of them measure.
    pub(super) fn is_measured(&self) -> bool {
        !self.scenarios.is_empty() || self.columns.iter().any(|column| !column.scenarios.is_empty())
    }

    /// What a row's cell is the mean of, or why there is nothing.
    fn source<'a>(&'a self, row: &'a Row, column: &str) -> Result<Source<'a>, String> {
        if !self.is_measured() {
            return Err("no scenario stands for this table".into());
        }
        let missing = || String::from("no metric stands for this column");
        let column = self.column(column).ok_or_else(missing)?;
        let own = row.quantities.get(&column.id).or(column.quantity.as_ref());
        let quantity = own.ok_or_else(|| column.not_predicted.clone().unwrap_or_else(missing))?;
        let scenarios = if column.scenarios.is_empty() { &self.scenarios } else { &column.scenarios };
        Ok(Source { scenarios, times: self.times, quantity, printed_as: column.printed_as })
    }

    /// Whether a column of two rows is the same quantity.
    pub(super) fn are_comparable(&self, column: &str, a: &str, b: &str) -> bool {
        let quantity = |row| self.row(row).and_then(|row| Some(self.source(row, column).ok()?.quantity));
        quantity(a) == quantity(b)
    }

    /// The row that a row is compared with.
    pub(super) fn base(&self, row: &Row) -> Option<(usize, &Row)> {
        let mut rows = self.rows.iter().enumerate();
        match &row.base {
            Some(base) => rows.find(|(_, row)| row.name == *base),
            None => rows.next(),
        }
    }

    /// How far two runs of one kernel differ in a column as printed, as a part of the smaller value; 0 if the table
    /// does not tell.
    pub(super) fn run_to_run(&self, column: &str) -> f64 {
        let Some(alike) = &self.run_to_run else { return 0.0 };
        let value = |name: &String| Some(Printed::parse(self.row(name)?.v.get(column)?)?.value);
        match alike.each_ref().map(value) {
            [Some(a), Some(b)] => relative_difference(a, b),
            _ => 0.0,
        }
    }

    /// Whether a column is printed in percent of the base row, which then is 100 exactly.
    pub(super) fn is_percent_of_base(&self, column: &str) -> bool {
        self.column(column).is_some_and(|column| column.printed_as == PrintedAs::PercentOfBase)
    }
}

impl Source<'_> {
    /// What runs of the variant that a row is gave. A percentage of several scenarios is that of their sums.
    fn mean(&self, row: &Row, observations: &Observations) -> Result<f64, String> {
        let variant = row.variant.as_ref().ok_or("no variant stands for this row")?;
        let sum = |quantity: &str| {
            let means = self.scenarios.iter().map(|scenario| observations.mean(scenario, variant, quantity));
            means.sum::<Result<f64, String>>()
        };
        if self.quantity == HINT_FAULTS_LOCAL.name {
            let [all, local] =
                [Event::NumaHintFaults, Event::NumaHintFaultsLocal].map(|event| sum(event.name()));
            return Ok(100.0 * local? / all?.max(1.0));
        }
        Ok(f64::from(self.times) * sum(self.quantity)?)
    }

    /// The same as the column prints it.
    fn printed(&self, row: &Row, base: &Row, observations: &Observations) -> Result<f64, String> {
        let own = self.mean(row, observations)?;
        match self.printed_as {
            PrintedAs::Itself => Ok(own),
            PrintedAs::Thousands => Ok(own / 1000.0),
            PrintedAs::PercentOfBase => match self.mean(base, observations)? {
                0.0 => Err(format!("{} of the base is zero, so there is no percentage of it", self.quantity)),
                base => Ok(100.0 * own / base),
            },
            PrintedAs::ChangeFromBase => Ok(100.0 * (own / self.mean(base, observations)? - 1.0)),
        }
    }
}

/// The difference of two values as a part of the smaller one.
pub(super) fn relative_difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().min(b.abs())
}

/// What the twin predicts for a cell of a table of measurements.
pub(super) fn predict(table: &Table, row: &Row, column: &str, observations: &Observations) -> CellValue {
    let base = table.base(row).map_or(row, |(_, base)| base);
    table.source(row, column).and_then(|source| source.printed(row, base, observations)).into()
}

/// The runs that `tables` need.
pub fn needs(tables: &[Table]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    let mut need = |scenario: &str, variant: &str| match needs.iter_mut().find(|n| n.scenario == scenario) {
        Some(need) if need.variants.iter().any(|known| known == variant) => {}
        Some(need) => need.variants.push(variant.into()),
        None => needs.push(Need { scenario: scenario.into(), variants: vec![variant.into()] }),
    };
    for table in tables {
        for row in &table.rows {
            if let Some(variant) = &row.variant {
                let sources = row.columns(table).filter_map(|column| table.source(row, column).ok());
                let scenarios = sources.flat_map(|source| source.scenarios);
                scenarios.for_each(|scenario| need(scenario, variant));
            }
            let needed = claims::needs(&table.id, &row.name);
            needed.into_iter().for_each(|(scenario, variant)| need(scenario, variant));
        }
    }
    needs
}
