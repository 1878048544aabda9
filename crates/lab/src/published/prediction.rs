//! What the twin has for a cell, and the means of runs that it comes from.

use crate::results::Record;
use crate::statistics::mean;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the twin has for a cell.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum CellValue {
    /// A number in the printed unit.
    Number(f64),
    /// A word or formula.
    Text(String),
    /// Nothing, and why.
    #[serde(serialize_with = "as_null")]
    Missing(String),
}

fn as_null<S: serde::Serializer>(_: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_none()
}

impl From<Result<f64, String>> for CellValue {
    fn from(result: Result<f64, String>) -> CellValue {
        result.map_or_else(CellValue::Missing, CellValue::Number)
    }
}

impl From<Result<String, String>> for CellValue {
    fn from(result: Result<String, String>) -> CellValue {
        result.map_or_else(CellValue::Missing, CellValue::Text)
    }
}

/// Means over seeds, by scenario, variant and the name of a metric or counter; or why a scenario could not be run.
#[derive(Clone, Debug, Default)]
pub struct Observations(BTreeMap<String, Result<Means, String>>);

type Means = BTreeMap<String, BTreeMap<String, f64>>;

impl Observations {
    /// Enters the runs of a scenario.
    pub fn enter(&mut self, scenario: &str, records: &[Record]) {
        let mut values: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for record in records {
            let variant = values.entry(record.run.variant.clone()).or_default();
            // Where a metric and a counter share a name, they are the same.
            let counters = record.counters.iter().map(|(name, &count)| (name.clone(), count as f64));
            let mut quantities: BTreeMap<String, f64> = counters.collect();
            quantities.extend(record.metrics.clone());
            quantities.into_iter().for_each(|(name, v)| variant.entry(name).or_default().push(v));
        }
        let means = values.into_iter().map(|(variant, metrics)| {
            (variant, metrics.into_iter().map(|(name, values)| (name, mean(&values))).collect())
        });
        self.0.insert(scenario.into(), Ok(means.collect()));
    }

    /// Enters that a scenario could not be run.
    pub fn enter_failure(&mut self, scenario: &str, reason: &str) {
        self.0.insert(scenario.into(), Err(reason.into()));
    }

    /// The mean of a metric or counter, or why there is none.
    pub(super) fn mean(&self, scenario: &str, variant: &str, quantity: &str) -> Result<f64, String> {
        let means = match self.0.get(scenario) {
            None => return Err(format!("scenario {scenario} was not run")),
            Some(Err(reason)) => return Err(reason.clone()),
            Some(Ok(means)) => means,
        };
        let quantities = means
            .get(variant)
            .ok_or_else(|| format!("scenario {scenario}: variant {variant} was not run"))?;
        match quantities.get(quantity) {
            Some(value) if value.is_finite() => Ok(*value),
            _ => Err(format!("scenario {scenario} does not measure {quantity}")),
        }
    }
}
