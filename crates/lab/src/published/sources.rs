//! Which scenario and metric each cell is predicted from.

use super::claims;
use super::report::CellValue;
use super::tables::{Row, Table};
use crate::metric::{
    ALLOC_ZONE, BUILD_TIME, CACHE_MISS, FREE_HIGH, LOCK, Metric, PUT_MEAN, PUT_P99, SCORE, TAKE_MEAN,
    TAKE_P99,
};
use crate::results::Record;
use crate::statistics::mean;
use std::collections::BTreeMap;

/// A scenario and the variants of it that tables need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The scenario.
    pub scenario: &'static str,
    /// The variants, first the base.
    pub variants: Vec<String>,
}

/// Means over seeds, by scenario, variant and metric; or why a scenario could not be run.
#[derive(Clone, Debug, Default)]
pub struct Observations(BTreeMap<String, Result<Means, String>>);

type Means = BTreeMap<String, BTreeMap<String, f64>>;

impl Observations {
    /// Enters the runs of a scenario.
    pub fn enter(&mut self, scenario: &str, records: &[Record]) {
        let mut values: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for record in records {
            let variant = values.entry(record.run.variant.clone()).or_default();
            record.metrics.iter().for_each(|(name, &v)| variant.entry(name.clone()).or_default().push(v));
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

    /// The mean of a metric, or why there is none.
    pub(super) fn mean(&self, scenario: &str, variant: &str, metric: Metric) -> Result<f64, String> {
        let means = match self.0.get(scenario) {
            None => return Err(format!("scenario {scenario} was not run")),
            Some(Err(reason)) => return Err(reason.clone()),
            Some(Ok(means)) => means,
        };
        let metrics = means
            .get(variant)
            .ok_or_else(|| format!("scenario {scenario}: variant {variant} was not run"))?;
        match metrics.get(metric.name) {
            Some(value) if value.is_finite() => Ok(*value),
            _ => Err(format!("scenario {scenario} does not measure {}", metric.name)),
        }
    }
}

/// Tables whose rows are kernels and whose columns are metrics: table, scenario, prefix of its variants' names.
const MEASURED: &[(&str, &str, &str)] = &[
    ("s0.kbuild.numactl", "kbuild", ""),
    ("s0.kbuild.j224", "kbuild-j224", ""),
    ("s0.kbuild.8cg-j28.v1reply", "kbuild-8cg", ""),
    ("s0.kbuild.8cg-j28.v2", "kbuild-8cg", ""),
    ("s0.netperf.sctp_stream_many", "sctp_stream_many", ""),
    ("s0.lmbench3.unix", "af_unix", ""),
    ("s0.batch-latency.spr-server", "batch-latency-spr-server", "batch-"),
    ("s0.batch-latency.icl-server", "batch-latency-icl-server", "batch-"),
    ("s0.batch-latency.csl-server", "batch-latency-csl-server", "batch-"),
    ("s0.batch-latency.cml-desktop", "batch-latency-cml-desktop", "batch-"),
    ("s0.batch-latency.cfl-desktop", "batch-latency-cfl-desktop", "batch-"),
    ("s0.claims.baseline", "kbuild", ""),
];

/// Columns of those tables, the metric each one is, and whether it is printed in percent of the base row.
const COLUMNS: &[(&str, Metric, bool)] = &[
    ("build_time", BUILD_TIME, true),
    ("score", SCORE, true),
    ("lock", LOCK, false),
    ("free_high", FREE_HIGH, true),
    ("alloc_zone", ALLOC_ZONE, true),
    ("cache_miss", CACHE_MISS, false),
    ("throughput", SCORE, false),
    ("free_avg", PUT_MEAN, false),
    ("free_p99", PUT_P99, false),
    ("alloc_avg", TAKE_MEAN, false),
    ("alloc_p99", TAKE_P99, false),
    ("build_time_abs", BUILD_TIME, false),
];

/// Scenario and prefix of a measured table.
pub(super) fn measured(table: &str) -> Option<(&'static str, &'static str)> {
    MEASURED.iter().find(|(id, ..)| *id == table).map(|&(_, scenario, prefix)| (scenario, prefix))
}

/// Whether a column is printed in percent of the base row, which then is 100 exactly.
pub(super) fn is_percent_of_base(column: &str) -> bool {
    COLUMNS.iter().any(|&(id, _, percent)| id == column && percent)
}

/// What the twin predicts for a cell of a measured table.
pub(super) fn predict(table: &Table, row: &Row, column: &str, observations: &Observations) -> CellValue {
    let Some((scenario, prefix)) = measured(&table.id) else {
        return CellValue::Missing("no scenario stands for this table".into());
    };
    let Some(&(_, metric, percent)) = COLUMNS.iter().find(|(id, ..)| *id == column) else {
        return CellValue::Missing("no metric stands for this column".into());
    };
    let variant = |row: &Row| format!("{prefix}{}", row.variant);
    let own = observations.mean(scenario, &variant(row), metric);
    let value = match (percent, table.rows.first()) {
        (true, Some(base)) => {
            own.and_then(|own| match observations.mean(scenario, &variant(base), metric)? {
                0.0 => Err(format!("{} of the base is zero, so there is no percentage of it", metric.name)),
                base => Ok(100.0 * own / base),
            })
        }
        _ => own,
    };
    value.into()
}

/// The runs that `tables` need.
pub fn needs(tables: &[Table]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    let mut need =
        |scenario: &'static str, variant: String| match needs.iter_mut().find(|n| n.scenario == scenario) {
            Some(need) if need.variants.contains(&variant) => {}
            Some(need) => need.variants.push(variant),
            None => needs.push(Need { scenario, variants: vec![variant] }),
        };
    for table in tables {
        if let Some((scenario, prefix)) = measured(&table.id) {
            table.rows.iter().for_each(|row| need(scenario, format!("{prefix}{}", row.variant)));
        }
        if table.id == claims::TABLE {
            for row in &table.rows {
                claims::needs(&row.variant)
                    .into_iter()
                    .for_each(|(scenario, variant)| need(scenario, variant));
            }
        }
    }
    needs
}
