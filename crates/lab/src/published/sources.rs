//! Which scenario and metric each cell is predicted from.

use super::prediction::{CellValue, Observations};
use super::tables::{Kind, Row, Table};
use super::{Printed, claims};
use crate::scenario::Scenario;
use mm::{Event, Series};
use sim::metric::{
    ALLOC_ZONE, AUTONUMA_COST, BUILD_TIME, CACHE_MISS, DURATION, ELAPSED, FREE_HIGH, GROW_TIME,
    HINT_FAULTS_LOCAL, LOCK, MEM_AVAILABLE, MEM_BUFF_CACHE, MEM_FREE, MEM_SHARED, MEM_TOTAL, MEM_USED,
    Metric, PUT_MEAN, PUT_P99, QUERY_RATE, RUNS_PER_MINUTE, SCORE, SHARE_4K, SHARE_16K, SHARE_32K, SHARE_64K,
    SHRINK_TIME, SWAP_FREE, SWAP_TOTAL, SWAP_USED, SYSTEM_TIME, TAKE_MEAN, TAKE_P99, TRANSACTION_RATE,
    TRANSACTION_TIME, TRANSACTIONS, USER_TIME,
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
    columns: Columns,
    rows: Rows,
}

/// What the columns are.
enum Columns {
    /// Metrics of this scenario, those that [`COLUMNS`] says.
    Of(&'static str),
    /// Each of them by itself.
    Listed(&'static [Column]),
    /// Each a column's id and the metric or counter that is added up over these scenarios, run so many times.
    Summed(&'static [&'static str], f64, &'static [(&'static str, &'static str)]),
}

/// A column: its id, a part of its rows' names, the scenario, the metric or counter, and how it is printed.
type Column = (&'static str, &'static str, &'static str, &'static str, PrintedAs);

/// How a column prints what a run measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrintedAs {
    Itself,
    PercentOfBase,
    ChangeFromBase,
    Thousands,
}
use PrintedAs::{ChangeFromBase, Itself, PercentOfBase, Thousands};

/// Which variant a row is.
enum Rows {
    /// A patch on pagesets or what these were before, as its name says; with this in front, a kernel with any batch.
    Named(&'static str),
    /// Row, variant, and the row that it is compared with; then two rows that run to run differences alone tell apart,
    /// if there are such.
    Listed(&'static [(&'static str, &'static str, &'static str)], Option<[&'static str; 2]>),
}

/// What a cell is the mean of.
#[derive(Clone, Copy)]
struct Source {
    /// One, or several that are added up.
    scenarios: &'static [&'static str],
    times: f64,
    /// A metric's name or a counter's.
    quantity: &'static str,
    printed_as: PrintedAs,
}

const UNMODIFIED_OFF: &str = "Unmodified next-20230824, vm.hugetlb_optimize_vmemmap = 0";
const UNMODIFIED_ON: &str = "Unmodified next-20230824, vm.hugetlb_optimize_vmemmap = 1";
const BATCHING_OFF: &str = "next-20230824 + Batching patches, vm.hugetlb_optimize_vmemmap = 0";
const BATCHING_ON: &str = "next-20230824 + Batching patches, vm.hugetlb_optimize_vmemmap = 1";

/// The patches were measured before they were posted as v3, with the figures of earlier versions: the slip of v3's
/// patch 10 is not in them.
const BATCHING: Rows = Rows::Listed(
    &[
        (UNMODIFIED_OFF, "hugetlb-base-hvo-off", UNMODIFIED_OFF),
        (UNMODIFIED_ON, "hugetlb-base", UNMODIFIED_OFF),
        (BATCHING_OFF, "patch12-hvo-off", UNMODIFIED_OFF),
        (BATCHING_ON, "patch12", UNMODIFIED_ON),
    ],
    Some([UNMODIFIED_OFF, BATCHING_OFF]),
);

/// The mails of v3 print what v3 as posted did.
const REFAULT_DISTANCE: Rows =
    Rows::Listed(&[("Before", "mglru-6.5", "Before"), ("Patched", "refault-distance-6-v3", "Before")], None);

const REFAULT_DISTANCE_FREE: Rows = Rows::Listed(
    &[
        ("Before Mem", "mglru-6.5", "Before Mem"),
        ("Before Swap", "mglru-6.5", "Before Swap"),
        ("Patched Mem", "refault-distance-6-v3", "Before Mem"),
        ("Patched Swap", "refault-distance-6-v3", "Before Swap"),
    ],
    None,
);

const REFAULT_DISTANCE_LAST: Rows = Rows::Listed(
    &[
        ("Before this patch", "refault-distance-5", "Before this patch"),
        ("After this patch", "refault-distance-6-v3", "Before this patch"),
    ],
    None,
);

/// The mail prints the series as a whole.
const VMA_SCANNING: Rows = Rows::Listed(
    &[
        ("6.2.0-mmunstable-base", "numa-base", "6.2.0-mmunstable-base"),
        ("6.2.0-mmunstable-patched", "vma-scanning-4", "6.2.0-mmunstable-base"),
    ],
    None,
);

/// Kernels of the test of anonymous folios, as the mail's tables call them.
const ANON_FOLIOS: Rows = Rows::Listed(
    &[
        ("baseline-4k", "folios-base", "baseline-4k"),
        ("anonfolio-lkml-v1", "folios-v1", "baseline-4k"),
        ("anonfolio-lkml-v2-simple-order", "folios-v2-simple", "baseline-4k"),
        ("anonfolio-lkml-v2", "folios-v2", "baseline-4k"),
        ("anonfolio-lkml-v2-32k", "folios-v2-32k", "baseline-4k"),
        ("anonfolio-v1", "folios-v1", "baseline-4k"),
        ("anonfolio-v2-simple-order", "folios-v2-simple", "baseline-4k"),
        ("anonfolio-v2", "folios-v2", "baseline-4k"),
    ],
    None,
);

const FOLIO_BUCKETS: Rows = Rows::Listed(
    &[
        ("anonfolio-v2", "folios-v2", "anonfolio-v2"),
        (
            "anonfolio-v2-simple-order (derived from the printed sentence: 32K and 16K fold into 4K)",
            "folios-v2-simple",
            "anonfolio-v2",
        ),
    ],
    None,
);

/// The programs of autonumabench. The elapsed time of all iterations is 7.03 times the sum of the means.
const AUTONUMABENCH: &[&str] = &["numa01", "numa01-threadlocal", "numa02", "numa02-smt"];
const ITERATIONS: f64 = 7.0;
/// Builds of kernbench: user and system time of all are three times the means.
const KERNBENCH_BUILDS: f64 = 3.0;

/// What mmtests prints of /proc/vmstat.
const NUMA_OPERATIONS: &[(&str, &str)] = &[
    ("NUMA alloc hit", "numa_hit"),
    ("NUMA alloc miss", "numa_miss"),
    ("NUMA interleave hit", "numa_interleave"),
    ("NUMA alloc local", "numa_local"),
    ("NUMA base-page range updates", "numa_pte_updates"),
    ("NUMA PTE updates", "numa_pte_updates"),
    ("NUMA PMD updates", "numa_huge_pte_updates"),
    ("NUMA hint faults", "numa_hint_faults"),
    ("NUMA hint local faults %", "numa_hint_faults_local"),
    ("NUMA hint local percent", HINT_FAULTS_LOCAL.name),
    ("NUMA pages migrated", "numa_pages_migrated"),
    ("AutoNUMA cost", AUTONUMA_COST.name),
];

const DURATIONS: &[(&str, &str)] =
    &[("User", USER_TIME.name), ("System", SYSTEM_TIME.name), ("Elapsed", ELAPSED.name)];

const REFAULT_DISTANCE_FIRST: Rows =
    Rows::Listed(&[("Before", "classic", "Before"), ("After", "refault-distance-1-classic", "Before")], None);

/// A column that prints a metric of `scenario` as it is.
const fn of(id: &'static str, scenario: &'static str, metric: Metric) -> Column {
    (id, "", scenario, metric.name, Itself)
}

/// By how many percent a metric of Speedometer differs from the base row's.
const fn change(id: &'static str, metric: Metric) -> Column {
    (id, "", "speedometer", metric.name, ChangeFromBase)
}

/// The same in thousands.
const fn thousands(id: &'static str, scenario: &'static str, metric: Metric) -> Column {
    (id, "", scenario, metric.name, Thousands)
}

/// A line of /proc/vmstat after MongoDB's run.
const fn vmstat(name: &'static str) -> Column {
    (name, "", "mongodb-tpcc", name, Itself)
}

/// A column of free(1) after it, in the line `line`.
const fn free(id: &'static str, line: &'static str, metric: Metric) -> Column {
    (id, line, "mongodb-tpcc", metric.name, Itself)
}

const fn measured_as(table: &'static str, scenario: &'static str, rows: Rows) -> Measured {
    Measured { table, columns: Columns::Of(scenario), rows }
}

const fn measured(table: &'static str, columns: &'static [Column], rows: Rows) -> Measured {
    Measured { table, columns: Columns::Listed(columns), rows }
}

/// Sums over all iterations of autonumabench.
const fn summed(table: &'static str, columns: &'static [(&'static str, &'static str)]) -> Measured {
    Measured { table, columns: Columns::Summed(AUTONUMABENCH, ITERATIONS, columns), rows: VMA_SCANNING }
}

const MEASURED: &[Measured] = &[
    measured_as("pcp.kbuild.numactl", "kbuild", Rows::Named("")),
    measured_as("pcp.kbuild.j224", "kbuild-j224", Rows::Named("")),
    measured_as("pcp.kbuild.8cg-j28.v1reply", "kbuild-8cg", Rows::Named("")),
    measured_as("pcp.kbuild.8cg-j28.v2", "kbuild-8cg", Rows::Named("")),
    measured_as("pcp.netperf.sctp_stream_many", "sctp_stream_many", Rows::Named("")),
    measured_as("pcp.lmbench3.unix", "af_unix", Rows::Named("")),
    measured_as("pcp.batch-latency.spr-server", "batch-latency-spr-server", Rows::Named("batch-")),
    measured_as("pcp.batch-latency.icl-server", "batch-latency-icl-server", Rows::Named("batch-")),
    measured_as("pcp.batch-latency.csl-server", "batch-latency-csl-server", Rows::Named("batch-")),
    measured_as("pcp.batch-latency.cml-desktop", "batch-latency-cml-desktop", Rows::Named("batch-")),
    measured_as("pcp.batch-latency.cfl-desktop", "batch-latency-cfl-desktop", Rows::Named("batch-")),
    measured_as("pcp.claims.baseline", "kbuild", Rows::Named("")),
    measured_as("hugetlb.e7-8895-8s", "hugetlb-8s", BATCHING),
    measured_as("hugetlb.milan-vm-252", "hugetlb-vm252", BATCHING),
    measured(
        "reclaim.mongodb.tpcc",
        &[
            of("executed", "mongodb-tpcc", TRANSACTIONS),
            of("time_us", "mongodb-tpcc", TRANSACTION_TIME),
            of("rate", "mongodb-tpcc", TRANSACTION_RATE),
            of("duration_s", "mongodb-tpcc", DURATION),
        ],
        REFAULT_DISTANCE,
    ),
    measured(
        "reclaim.mongodb.vmstat",
        &[
            vmstat("workingset_nodes"),
            vmstat("workingset_refault_anon"),
            vmstat("workingset_refault_file"),
            vmstat("workingset_activate_anon"),
            vmstat("workingset_activate_file"),
            vmstat("workingset_restore_anon"),
            vmstat("workingset_restore_file"),
            vmstat("workingset_nodereclaim"),
        ],
        REFAULT_DISTANCE,
    ),
    measured(
        "reclaim.mongodb.free-m",
        &[
            free("total", "Mem", MEM_TOTAL),
            free("used", "Mem", MEM_USED),
            free("free", "Mem", MEM_FREE),
            free("shared", "Mem", MEM_SHARED),
            free("buff_cache", "Mem", MEM_BUFF_CACHE),
            free("available", "Mem", MEM_AVAILABLE),
            free("total", "Swap", SWAP_TOTAL),
            free("used", "Swap", SWAP_USED),
            free("free", "Swap", SWAP_FREE),
        ],
        REFAULT_DISTANCE_FREE,
    ),
    measured(
        "reclaim.patch6.misc",
        &[
            of("memtier", "memcached-memtier", SCORE),
            thousands("fio1", "fio-zipf", SCORE),
            thousands("fio2", "fio-zipf-2g", SCORE),
            of("mysql", "mysql-readonly", QUERY_RATE),
        ],
        REFAULT_DISTANCE_LAST,
    ),
    measured("folios.speedometer.v2cover", &[change("runs_per_min", RUNS_PER_MINUTE)], ANON_FOLIOS),
    measured(
        "folios.speedometer.stddev",
        &[of("mean_abs", "speedometer", RUNS_PER_MINUTE), change("mean_rel", RUNS_PER_MINUTE)],
        ANON_FOLIOS,
    ),
    measured("folios.speedometer.large-run", &[change("runs_per_min", RUNS_PER_MINUTE)], ANON_FOLIOS),
    measured(
        "folios.folio-buckets",
        &[
            of("64K", "speedometer", SHARE_64K),
            of("32K", "speedometer", SHARE_32K),
            of("16K", "speedometer", SHARE_16K),
            of("4K", "speedometer", SHARE_4K),
        ],
        FOLIO_BUCKETS,
    ),
    measured(
        "reclaim.patch1.misc",
        &[
            thousands("fio", "fio-uniform", SCORE),
            thousands("fio2", "fio-zipf-i7-9700", SCORE),
            of("memcached", "memcached-memtier-i7-9700", SCORE),
            of("mysql", "mysql-readonly-i7-9700", SCORE),
            of("kernel_build", "kernel-build-3g", BUILD_TIME),
        ],
        REFAULT_DISTANCE_FIRST,
    ),
    measured(
        "numa.autonumabench.amean",
        &[
            of("syst-NUMA01", "numa01", SYSTEM_TIME),
            of("syst-NUMA01_THREADLOCAL", "numa01-threadlocal", SYSTEM_TIME),
            of("syst-NUMA02", "numa02", SYSTEM_TIME),
            of("syst-NUMA02_SMT", "numa02-smt", SYSTEM_TIME),
            of("elsp-NUMA01", "numa01", ELAPSED),
            of("elsp-NUMA01_THREADLOCAL", "numa01-threadlocal", ELAPSED),
            of("elsp-NUMA02", "numa02", ELAPSED),
            of("elsp-NUMA02_SMT", "numa02-smt", ELAPSED),
        ],
        VMA_SCANNING,
    ),
    summed("numa.autonumabench.ops", NUMA_OPERATIONS),
    summed("numa.autonumabench.duration", DURATIONS),
    measured(
        "numa.kernbench.amean",
        &[
            of("user-256", "kernbench", USER_TIME),
            of("syst-256", "kernbench", SYSTEM_TIME),
            of("elsp-256", "kernbench", ELAPSED),
        ],
        VMA_SCANNING,
    ),
    Measured {
        table: "numa.kernbench.ops",
        columns: Columns::Summed(&["kernbench"], KERNBENCH_BUILDS, NUMA_OPERATIONS),
        rows: VMA_SCANNING,
    },
    Measured {
        table: "numa.kernbench.duration",
        columns: Columns::Summed(&["kernbench"], KERNBENCH_BUILDS, DURATIONS),
        rows: VMA_SCANNING,
    },
];

impl Measured {
    /// The table of this id, if its rows are kernels.
    pub fn find(table: &str) -> Option<&'static Measured> {
        MEASURED.iter().find(|measured| measured.table == table)
    }

    /// The variant that a row is.
    fn variant(&self, row: &str) -> Option<String> {
        match self.rows {
            Rows::Named("") => Series::PCP.variant(row).map(|variant| variant.name.into()),
            Rows::Named(prefix) => Some(format!("{prefix}{row}")),
            Rows::Listed(rows, _) => {
                rows.iter().find(|(name, ..)| *name == row).map(|(_, v, _)| v.to_string())
            }
        }
    }

    /// What the cells of a row are the means of.
    fn source(&'static self, row: &str, column: &str) -> Option<Source> {
        let of = |scenario, quantity, printed_as| Source {
            scenarios: std::slice::from_ref(scenario),
            times: 1.0,
            quantity,
            printed_as,
        };
        match &self.columns {
            Columns::Of(scenario) => {
                let &(_, metric, printed_as) = COLUMNS.iter().find(|(id, ..)| *id == column)?;
                Some(of(scenario, metric.name, printed_as))
            }
            Columns::Listed(columns) => {
                let (_, _, scenario, quantity, printed_as) =
                    columns.iter().find(|(id, part, ..)| *id == column && row.contains(part))?;
                Some(of(scenario, quantity, *printed_as))
            }
            &Columns::Summed(scenarios, times, columns) => {
                let &(_, quantity) = columns.iter().find(|(id, _)| *id == column)?;
                Some(Source { scenarios, times, quantity, printed_as: Itself })
            }
        }
    }

    /// Whether a column of two rows is the same quantity.
    pub fn are_comparable(&'static self, column: &str, a: &str, b: &str) -> bool {
        let quantity = |row| self.source(row, column).map(|source| source.quantity);
        quantity(a) == quantity(b)
    }

    /// The row that a row's direction is judged against.
    pub fn base<'a>(&self, table: &'a Table, row: &Row) -> Option<(usize, &'a Row)> {
        let mut rows = table.rows.iter().enumerate();
        match self.rows {
            Rows::Named(_) => rows.find(|(_, row)| row.kind == Kind::Baseline),
            Rows::Listed(listed, _) => {
                let (_, _, base) = listed.iter().find(|(name, ..)| *name == row.variant)?;
                rows.find(|(_, row)| row.variant == *base)
            }
        }
    }

    /// How far two runs of one kernel differ in a column as printed, as a part of the smaller value; 0 if the table
    /// does not tell.
    pub fn run_to_run(&self, table: &Table, column: &str) -> f64 {
        let Rows::Listed(_, Some(alike)) = &self.rows else { return 0.0 };
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

impl Source {
    /// What runs of a variant gave. A percentage of several scenarios is that of their sums.
    fn value(&self, observations: &Observations, variant: &str) -> Result<f64, String> {
        let sum = |quantity: &str| {
            let means = self.scenarios.iter().map(|scenario| observations.mean(scenario, variant, quantity));
            means.sum::<Result<f64, String>>()
        };
        if self.quantity == HINT_FAULTS_LOCAL.name {
            let [all, local] =
                [Event::NumaHintFaults, Event::NumaHintFaultsLocal].map(|event| sum(event.name()));
            return Ok(100.0 * local? / all?.max(1.0));
        }
        Ok(self.times * sum(self.quantity)?)
    }
}

/// The difference of two values as a part of the smaller one.
pub(super) fn relative_difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().min(b.abs())
}

/// Columns of tables of one scenario, the metric each one is, and how it is printed.
const COLUMNS: &[(&str, Metric, PrintedAs)] = &[
    ("build_time", BUILD_TIME, PercentOfBase),
    ("score", SCORE, PercentOfBase),
    ("lock", LOCK, Itself),
    ("free_high", FREE_HIGH, PercentOfBase),
    ("alloc_zone", ALLOC_ZONE, PercentOfBase),
    ("cache_miss", CACHE_MISS, Itself),
    ("throughput", SCORE, Itself),
    ("free_avg", PUT_MEAN, Itself),
    ("free_p99", PUT_P99, Itself),
    ("alloc_avg", TAKE_MEAN, Itself),
    ("alloc_p99", TAKE_P99, Itself),
    ("build_time_abs", BUILD_TIME, Itself),
    ("alloc_real", GROW_TIME, Itself),
    ("free_real", SHRINK_TIME, Itself),
];

/// Whether a column is printed in percent of the base row, which then is 100 exactly.
pub(super) fn is_percent_of_base(column: &str) -> bool {
    COLUMNS.iter().any(|&(id, _, printed_as)| id == column && printed_as == PercentOfBase)
}

/// What the twin predicts for a cell of a measured table.
pub(super) fn predict(table: &Table, row: &Row, column: &str, observations: &Observations) -> CellValue {
    let Some(measured) = Measured::find(&table.id) else {
        return CellValue::Missing("no scenario stands for this table".into());
    };
    let Some(source) = measured.source(&row.variant, column) else {
        return CellValue::Missing("no metric stands for this column".into());
    };
    let Source { quantity, printed_as, .. } = source;
    let mean = |row: &Row| match measured.variant(&row.variant) {
        Some(variant) => source.value(observations, &variant),
        None => Err("no variant stands for this row".into()),
    };
    let own = mean(row);
    let value = match (printed_as, table.rows.first()) {
        (PercentOfBase, Some(base)) => own.and_then(|own| match mean(base)? {
            0.0 => Err(format!("{quantity} of the base is zero, so there is no percentage of it")),
            base => Ok(100.0 * own / base),
        }),
        (ChangeFromBase, Some(base)) => own.and_then(|own| Ok(100.0 * (own / mean(base)? - 1.0))),
        (Thousands, _) => own.map(|own| own / 1000.0),
        _ => own,
    };
    value.into()
}

/// The runs that `tables` need, of scenarios that there are; cells of others are not simulated yet, and say so.
pub fn needs(tables: &[Table]) -> Vec<Need> {
    let mut needs = wanted(tables);
    needs.retain(|need| Scenario::names().any(|name| name == need.scenario));
    needs
}

/// The runs that `tables` want.
pub(super) fn wanted(tables: &[Table]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    let mut need =
        |scenario: &'static str, variant: String| match needs.iter_mut().find(|n| n.scenario == scenario) {
            Some(need) if need.variants.contains(&variant) => {}
            Some(need) => need.variants.push(variant),
            None => needs.push(Need { scenario, variants: vec![variant] }),
        };
    for table in tables {
        for row in &table.rows {
            if let Some(measured) = Measured::find(&table.id)
                && let Some(variant) = measured.variant(&row.variant)
            {
                let sources = row.columns(table).filter_map(|column| measured.source(&row.variant, column));
                let scenarios = sources.flat_map(|source| source.scenarios);
                scenarios.for_each(|scenario| need(scenario, variant.clone()));
            }
            let needed = claims::needs(&table.id, &row.variant);
            needed.into_iter().for_each(|(scenario, variant)| need(scenario, variant.into()));
        }
    }
    needs
}
