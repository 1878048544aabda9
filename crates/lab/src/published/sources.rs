//! Which scenario and metric each cell is predicted from.

use super::prediction::{CellValue, Observations};
use super::tables::{Kind, Row, Table};
use super::{Printed, claims};
use crate::metric::{
    ALLOC_ZONE, BUILD_TIME, CACHE_MISS, FREE_HIGH, GROW_TIME, LOCK, Metric, PUT_MEAN, PUT_P99, SCORE,
    SHRINK_TIME, TAKE_MEAN, TAKE_P99,
};

/// A scenario and the variants of it that tables need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The scenario.
    pub scenario: &'static str,
    /// The variants, first the base.
    pub variants: Vec<String>,
}

/// A table whose rows are kernels and whose columns are metrics.
pub(super) struct Measured {
    table: &'static str,
    scenario: &'static str,
    rows: Rows,
}

/// Which variant a row is.
enum Rows {
    /// The one of its name, with this in front.
    Named(&'static str),
    /// Row, variant, and the variant that it is compared with; then two rows that run to run differences alone
    /// tell apart.
    Listed(&'static [(&'static str, &'static str, &'static str)], [&'static str; 2]),
}

const UNMODIFIED_OFF: &str = "Unmodified next-20230824, vm.hugetlb_optimize_vmemmap = 0";
const UNMODIFIED_ON: &str = "Unmodified next-20230824, vm.hugetlb_optimize_vmemmap = 1";
const BATCHING_OFF: &str = "next-20230824 + Batching patches, vm.hugetlb_optimize_vmemmap = 0";
const BATCHING_ON: &str = "next-20230824 + Batching patches, vm.hugetlb_optimize_vmemmap = 1";

/// The patches were measured before they were posted as v3, with the figures of earlier versions: the slip of v3's
/// patch 10 is not in them.
const BATCHING: Rows = Rows::Listed(
    &[
        (UNMODIFIED_OFF, "hvo-off", "hvo-off"),
        (UNMODIFIED_ON, "base", "hvo-off"),
        (BATCHING_OFF, "patch12-hvo-off", "hvo-off"),
        (BATCHING_ON, "patch12", "base"),
    ],
    [UNMODIFIED_OFF, BATCHING_OFF],
);

const fn measured_as(table: &'static str, scenario: &'static str, rows: Rows) -> Measured {
    Measured { table, scenario, rows }
}

const MEASURED: &[Measured] = &[
    measured_as("s0.kbuild.numactl", "kbuild", Rows::Named("")),
    measured_as("s0.kbuild.j224", "kbuild-j224", Rows::Named("")),
    measured_as("s0.kbuild.8cg-j28.v1reply", "kbuild-8cg", Rows::Named("")),
    measured_as("s0.kbuild.8cg-j28.v2", "kbuild-8cg", Rows::Named("")),
    measured_as("s0.netperf.sctp_stream_many", "sctp_stream_many", Rows::Named("")),
    measured_as("s0.lmbench3.unix", "af_unix", Rows::Named("")),
    measured_as("s0.batch-latency.spr-server", "batch-latency-spr-server", Rows::Named("batch-")),
    measured_as("s0.batch-latency.icl-server", "batch-latency-icl-server", Rows::Named("batch-")),
    measured_as("s0.batch-latency.csl-server", "batch-latency-csl-server", Rows::Named("batch-")),
    measured_as("s0.batch-latency.cml-desktop", "batch-latency-cml-desktop", Rows::Named("batch-")),
    measured_as("s0.batch-latency.cfl-desktop", "batch-latency-cfl-desktop", Rows::Named("batch-")),
    measured_as("s0.claims.baseline", "kbuild", Rows::Named("")),
    measured_as("s1.hugetlb.e7-8895-8s", "hugetlb-8s", BATCHING),
    measured_as("s1.hugetlb.milan-vm-252", "hugetlb-vm252", BATCHING),
];

impl Measured {
    /// The table of this id, if its rows are kernels.
    pub fn find(table: &str) -> Option<&'static Measured> {
        MEASURED.iter().find(|measured| measured.table == table)
    }

    /// The variant that a row is.
    fn variant(&self, row: &str) -> Option<String> {
        match self.rows {
            Rows::Named(prefix) => Some(format!("{prefix}{row}")),
            Rows::Listed(rows, _) => {
                rows.iter().find(|(name, ..)| *name == row).map(|(_, v, _)| v.to_string())
            }
        }
    }

    /// The row that a row's direction is judged against.
    pub fn base<'a>(&self, table: &'a Table, row: &Row) -> Option<(usize, &'a Row)> {
        let mut rows = table.rows.iter().enumerate();
        match self.rows {
            Rows::Named(_) => rows.find(|(_, row)| row.kind == Kind::Baseline),
            Rows::Listed(listed, _) => {
                let (_, _, base) = listed.iter().find(|(name, ..)| *name == row.variant)?;
                rows.find(|(_, row)| self.variant(&row.variant).as_deref() == Some(*base))
            }
        }
    }

    /// How far two runs of one kernel differ in a column as printed, as a part of the smaller value; 0 if the table
    /// does not tell.
    pub fn run_to_run(&self, table: &Table, column: &str) -> f64 {
        let Rows::Listed(_, alike) = &self.rows else { return 0.0 };
        let value = |name: &str| {
            let row = table.rows.iter().find(|row| row.variant == name)?;
            Some(Printed::parse(row.v.get(column)?)?.value)
        };
        match (value(alike[0]), value(alike[1])) {
            (Some(a), Some(b)) => relative_difference(a, b),
            _ => 0.0,
        }
    }
}

/// The difference of two values as a part of the smaller one.
pub(super) fn relative_difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().min(b.abs())
}

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
    ("alloc_real", GROW_TIME, false),
    ("free_real", SHRINK_TIME, false),
];

/// Whether a column is printed in percent of the base row, which then is 100 exactly.
pub(super) fn is_percent_of_base(column: &str) -> bool {
    COLUMNS.iter().any(|&(id, _, percent)| id == column && percent)
}

/// What the twin predicts for a cell of a measured table.
pub(super) fn predict(table: &Table, row: &Row, column: &str, observations: &Observations) -> CellValue {
    let Some(measured) = Measured::find(&table.id) else {
        return CellValue::Missing("no scenario stands for this table".into());
    };
    let Some(&(_, metric, percent)) = COLUMNS.iter().find(|(id, ..)| *id == column) else {
        return CellValue::Missing("no metric stands for this column".into());
    };
    let mean = |row: &Row| match measured.variant(&row.variant) {
        Some(variant) => observations.mean(measured.scenario, &variant, metric),
        None => Err("no variant stands for this row".into()),
    };
    let own = mean(row);
    let value = match (percent, table.rows.first()) {
        (true, Some(base)) => own.and_then(|own| match mean(base)? {
            0.0 => Err(format!("{} of the base is zero, so there is no percentage of it", metric.name)),
            base => Ok(100.0 * own / base),
        }),
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
        if let Some(measured) = Measured::find(&table.id) {
            let variants = table.rows.iter().filter_map(|row| measured.variant(&row.variant));
            variants.for_each(|variant| need(measured.scenario, variant));
        }
        for row in &table.rows {
            let needed = claims::needs(&table.id, &row.variant);
            needed.into_iter().for_each(|(scenario, variant)| need(scenario, variant.into()));
        }
    }
    needs
}
