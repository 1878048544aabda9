//! Calibration: computes the figures that baseline rows of published tables pin, and no others.
//!
//! ```text
//!   pcp.batch-latency.M   5 baseline cells ─► 4 figures of machine M by closed formulas; then the throughput pins the
//!                         cost of a page fault, as times pin costs below
//!   pcp.kbuild.*          lock% of base    ─► intensity of the scenario ┐ one cell, one parameter:
//!   pcp.netperf, pcp.lmbench3  lock% of base ─► calls of the scenario    ┘ bisection over runs of `base`
//!   hugetlb.hugetlb.M   times of hvo-off, base ─► costs of machine M: one cell pins one figure, in turn;
//!                                            times are linear in a cost, so two runs give the line
//!   numa.autonumabench.amean   times of NUMA02 on numa-base ─► bandwidth of a node of machine numa-256, cost of a page fault
//! ```
//!
//! A table has at most as many free parameters as baseline cells. Rows of kind `predicted` are never read
//! here.

use crate::published::{Kind, Printed, Publication};
use crate::scenario::{Scenario, ScenarioError, load_machine};
use machine::Profile;
use machine::profile::Figure;
use schemars::JsonSchema;
use serde::Serialize;
use sim::metric::{self, ELAPSED, GROW_TIME, Metric, SCORE, SHRINK_TIME, SYSTEM_TIME};
use sim::{RunError, Workload};
use std::collections::BTreeMap;
use thiserror::Error;
use workload::tasks::ProgramSpec;

/// Why a table cannot be calibrated.
#[derive(Debug, Error)]
pub enum CalibrationError {
    /// No parameter is calibrated on this table.
    #[error("{id}: nothing is calibrated on this table; tables with free parameters: {}", tables().join(", "))]
    NoParameter { id: String },
    /// The table lacks a baseline cell.
    #[error("{id}: no baseline cell {column}")]
    NoCell { id: String, column: &'static str },
    /// No value of the figure reproduces the published one.
    #[error("{id}: no {key} gives {published}: at {value} the twin gives {reached}")]
    OutOfReach {
        id: String,
        /// Key of the figure.
        key: &'static str,
        /// Value of the baseline cell.
        published: f64,
        /// The last value tried.
        value: f64,
        /// The twin's result for that value.
        reached: f64,
    },
    /// A scenario or machine file is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// One calibrated figure.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Calibrated {
    /// The table whose baseline row pins it.
    pub table: String,
    /// The file that contains the figure.
    pub file: String,
    /// Key of the figure, with its table.
    pub key: &'static str,
    /// Its value in the file.
    pub current: f64,
    /// Its calibrated value.
    pub calibrated: f64,
    /// The baseline cell, as printed.
    pub published: f64,
    /// The twin's result for that cell with the calibrated figure; `None` for closed formulas, which need no
    /// run.
    pub reached: Option<f64>,
}

const MACHINES: [&str; 5] = ["spr-server", "icl-server", "csl-server", "cml-desktop", "cfl-desktop"];

/// Tables, with their scenarios, whose lock share of the unpatched kernel pins a parameter of the scenario.
const SCENARIOS: [(&str, &str); 5] = [
    ("pcp.kbuild.numactl", "kbuild"),
    ("pcp.kbuild.j224", "kbuild-j224"),
    ("pcp.kbuild.8cg-j28.v2", "kbuild-8cg"),
    ("pcp.netperf.sctp_stream_many", "sctp_stream_many"),
    ("pcp.lmbench3.unix", "af_unix"),
];

/// A cost of a machine that a baseline cell pins, as the cell is linear in it.
struct Cost {
    key: &'static str,
    /// Number of the baseline row, from 0.
    row: usize,
    column: &'static str,
    variant: &'static str,
    metric: Metric,
}

const fn cost(
    key: &'static str,
    row: usize,
    column: &'static str,
    variant: &'static str,
    metric: Metric,
) -> Cost {
    Cost { key, row, column, variant, metric }
}

const STRUCT_PAGE_INIT: Cost =
    cost("costs.struct_page_init_ns", 0, "alloc_real", "hugetlb-base-hvo-off", GROW_TIME);
const STRUCT_PAGE_FREE: Cost =
    cost("costs.struct_page_free_ns", 0, "free_real", "hugetlb-base-hvo-off", SHRINK_TIME);

/// Tables whose times pin costs, with the scenario and the costs in the order in which they are pinned.
///
/// Restoring vmemmap has cache misses, removing it has none: `page_miss_ns` follows from the difference
/// between the times of freeing and of allocating with HVO. On the virtual machine this is 1.6 % of 150 s,
/// less than two runs differ by, so there it remains an assumption.
///
/// The system time of NUMA02 is first touches of 1 GiB and ticks, and hardly anything else; its elapsed time
/// depends on how fast all CPUs together store to their own nodes. NUMA01 would pin the cost of a hint fault,
/// but its runs are chaotic, so no line fits two of them.
const COSTS: [(&str, &str, &[Cost]); 3] = [
    (
        "hugetlb.e7-8895-8s",
        "hugetlb-8s",
        &[
            STRUCT_PAGE_INIT,
            STRUCT_PAGE_FREE,
            cost("costs.ipi_send_ns", 1, "alloc_real", "hugetlb-base", GROW_TIME),
            cost("costs.page_miss_ns", 1, "free_real", "hugetlb-base", SHRINK_TIME),
        ],
    ),
    (
        "hugetlb.milan-vm-252",
        "hugetlb-vm252",
        &[
            STRUCT_PAGE_INIT,
            STRUCT_PAGE_FREE,
            cost("costs.ipi_trap_ns", 1, "alloc_real", "hugetlb-base", GROW_TIME),
        ],
    ),
    (
        "numa.autonumabench.amean",
        "numa02",
        &[
            cost("numa.node_gb_per_second", 0, "elsp-NUMA02", "numa-base", ELAPSED),
            cost("costs.page_fault_ns", 0, "syst-NUMA02", "numa-base", SYSTEM_TIME),
        ],
    ),
];

/// The tables with free parameters.
pub fn tables() -> Vec<String> {
    let latency = MACHINES.iter().map(|machine| format!("pcp.batch-latency.{machine}"));
    let others = SCENARIOS.iter().map(|(table, _)| *table).chain(COSTS.iter().map(|(table, ..)| *table));
    latency.chain(others.map(String::from)).collect()
}

/// A cell of baseline row number `row` of a table.
fn baseline_of_row(id: &str, row: usize, column: &'static str) -> Result<f64, CalibrationError> {
    let missing = || CalibrationError::NoCell { id: id.into(), column };
    let publication = Publication::of_table(id).ok_or_else(missing)?;
    let tables = publication.tables(&[id.to_string()]).map_err(|_| missing())?;
    let mut rows = tables.iter().flat_map(|table| &table.rows).filter(|row| row.kind == Kind::Baseline);
    let cell = rows.nth(row).and_then(|row| row.v.get(column));
    cell.and_then(|text| Printed::parse(text)).map(|printed| printed.value).ok_or_else(missing)
}

/// A cell of the first baseline row of a table.
fn baseline(id: &str, column: &'static str) -> Result<f64, CalibrationError> {
    baseline_of_row(id, 0, column)
}

/// Calibrates the figures that table `id` pins.
pub fn calibrate(id: &str) -> Result<Vec<Calibrated>, CalibrationError> {
    if let Some(machine) = MACHINES.iter().find(|machine| id == format!("pcp.batch-latency.{machine}")) {
        return batch_latency(id, machine);
    }
    if let Some((_, scenario, costs)) = COSTS.iter().find(|(table, ..)| *table == id) {
        return costs_of_machine(id, scenario, costs);
    }
    match SCENARIOS.iter().find(|(table, _)| *table == id) {
        Some((_, scenario)) => Ok(vec![lock_share(id, scenario)?]),
        None => Err(CalibrationError::NoParameter { id: id.into() }),
    }
}

/// The sigma of a lognormal factor with mean 1 whose 99th percentile is `ratio` times the mean.
fn spread_of(ratio: f64) -> f64 {
    // Solves exp(z*s - s*s/2) = ratio, where z is the normal distribution's 99th percentile.
    const Z: f64 = 2.326_347_874;
    Z - (Z * Z - 2.0 * ratio.ln()).max(0.0).sqrt()
}

/// Pages a second that a task touches pin what a page fault costs, once times under the lock are known.
const PAGE_FAULT: Cost = cost("costs.page_fault_ns", 0, "throughput", "batch-63", SCORE);
/// Batch of the table's baseline row, which is the number of blocks per critical section.
const BASELINE_BATCH: f64 = 63.0;

fn batch_latency(id: &str, name: &str) -> Result<Vec<Calibrated>, CalibrationError> {
    let profile: Profile = load_machine(name)?;
    let costs = &profile.costs;
    let (take, put) = (baseline(id, "alloc_avg")?, baseline(id, "free_avg")?);
    let (take_p99, put_p99) = (baseline(id, "alloc_p99")?, baseline(id, "free_p99")?);
    let section = costs.lock_section_ns.value;
    let each = |mean_us: f64| (mean_us * 1e3 - section) / BASELINE_BATCH;
    let figures = [
        ("costs.list_take_ns", costs.list_take_ns.value, each(take), take),
        ("costs.list_put_ns", costs.list_put_ns.value, each(put), put),
        ("costs.take_spread", costs.take_spread.value, spread_of(take_p99 / take), take_p99),
        ("costs.put_spread", costs.put_spread.value, spread_of(put_p99 / put), put_p99),
    ];
    let calibrated = |(key, current, calibrated, published)| Calibrated {
        table: id.into(),
        file: format!("machines/{name}.toml"),
        key,
        current,
        calibrated,
        published,
        reached: None,
    };
    let mut figures: Vec<Calibrated> = figures.into_iter().map(calibrated).collect();
    let mut machine = profile.clone();
    for figure in &figures {
        machine.figure_mut(figure.key).expect("a figure of every machine").value = figure.calibrated;
    }
    let scenario = Scenario::load(&format!("batch-latency-{name}"))?;
    figures.extend(sweep_costs(id, &scenario, &profile, &mut machine, &[PAGE_FAULT])?);
    Ok(figures)
}

/// Steps of the bisection; the last one changes the parameter by a few parts per thousand.
const STEPS: usize = 9;

/// A parameter of the first program of a host.
struct Parameter<'a> {
    key: &'static str,
    figure: &'a mut Figure,
    /// Whether more of it means more contention.
    rises: bool,
}

/// The parameter of a workload that the lock share of the unpatched kernel pins, if it has one.
fn parameter(workload: &mut Workload) -> Option<Parameter<'_>> {
    match &mut workload.programs.first_mut()?.program {
        ProgramSpec::SocketStream(streams) => Some(Parameter {
            key: "workload.programs[0].program.calls",
            figure: &mut streams.calls,
            rises: false,
        }),
        ProgramSpec::KernelBuild(build) => Some(Parameter {
            key: "workload.programs[0].program.intensity",
            figure: &mut build.intensity,
            rises: true,
        }),
        _ => None,
    }
}

/// Finds the value of the scenario's parameter for which `base` spends the published share of cycles
/// spinning.
fn lock_share(id: &str, name: &str) -> Result<Calibrated, CalibrationError> {
    let scenario = Scenario::load(name)?;
    let machine = load_machine(&scenario.machine)?;
    let published = baseline(id, "lock")?;
    let missing = || CalibrationError::NoParameter { id: id.into() };
    let mut workload = scenario.workload.clone();
    let Parameter { key, figure, rises } = parameter(&mut workload).ok_or_else(missing)?;
    let current = figure.value;
    let share = |value: f64| -> Result<f64, CalibrationError> {
        let mut run = scenario.run("pcp-base", 1, &machine, &BTreeMap::new())?;
        parameter(&mut run.workload).ok_or_else(missing)?.figure.value = value;
        Ok(sim::run(&run)?.get(metric::LOCK).unwrap_or(0.0))
    };
    let (mut low, mut high) = (current / 4.0, current * 4.0);
    let mut reached = 0.0;
    let mut middle = current;
    for _ in 0..STEPS {
        middle = (low * high).sqrt();
        reached = share(middle)?;
        if (reached < published) == rises { low = middle } else { high = middle }
    }
    Ok(Calibrated {
        table: id.into(),
        file: format!("scenarios/{name}.toml"),
        key,
        current,
        calibrated: middle,
        published,
        reached: Some(reached),
    })
}

/// Pins costs of the scenario's machine. Pinning a cost may change the cells of earlier ones, so all costs
/// are pinned repeatedly until none changes any more.
fn costs_of_machine(id: &str, name: &str, costs: &[Cost]) -> Result<Vec<Calibrated>, CalibrationError> {
    let scenario = Scenario::load(name)?;
    let mut machine = load_machine(&scenario.machine)?;
    let file = machine.clone();
    let mut figures: Vec<Calibrated> = Vec::new();
    for _ in 0..SWEEPS {
        let before: Vec<f64> = figures.iter().map(|figure| figure.calibrated).collect();
        figures = sweep_costs(id, &scenario, &file, &mut machine, costs)?;
        let moved = |(now, then): (&Calibrated, &f64)| (now.calibrated - then).abs() > TOLERANCE * then;
        if !before.is_empty() && !figures.iter().zip(&before).any(moved) {
            break;
        }
    }
    Ok(figures)
}

/// Pins each cost once, keeping the others.
fn sweep_costs(
    id: &str,
    scenario: &Scenario,
    file: &Profile,
    machine: &mut Profile,
    costs: &[Cost],
) -> Result<Vec<Calibrated>, CalibrationError> {
    let mut figures = Vec::new();
    for &Cost { key, row, column, variant, metric } in costs {
        let published = baseline_of_row(id, row, column)?;
        let missing = || CalibrationError::NoCell { id: id.into(), column };
        let start = machine.figure_mut(key).ok_or_else(missing)?.value;
        // Times are linear in a cost; what is done in a time is so by its reciprocal.
        let as_time = |value: f64| if metric.kind == metric::Kind::Rate { 1.0 / value } else { value };
        let mut time = |value: f64| -> Result<f64, CalibrationError> {
            machine.figure_mut(key).ok_or_else(missing)?.value = value;
            let run = scenario.run(variant, 1, machine, &BTreeMap::new())?;
            Ok(as_time(sim::run(&run)?.get(metric).unwrap_or(0.0)))
        };
        let (calibrated, reached) = solve(as_time(published), start, &mut time)?;
        let reached = as_time(reached);
        if (reached - published).abs() > TOLERANCE * published {
            return Err(CalibrationError::OutOfReach {
                id: id.into(),
                key,
                published,
                value: calibrated,
                reached,
            });
        }
        figures.push(Calibrated {
            table: id.into(),
            file: format!("machines/{}.toml", scenario.machine),
            key,
            current: file
                .figures()
                .into_iter()
                .find(|entry| entry.0 == key)
                .map_or(start, |entry| entry.1.value),
            calibrated,
            published,
            reached: Some(reached),
        });
    }
    Ok(figures)
}

/// Most repetitions over all costs of a machine.
const SWEEPS: usize = 8;
/// Relative tolerance of a calibrated result.
const TOLERANCE: f64 = 1e-3;
/// Most lines tried through two points, if the function is not quite linear.
const LINES: usize = 5;

/// Solves `f(x) = wanted` for a nearly linear `f` and x >= 0. Returns x and `f(x)`.
fn solve<E>(wanted: f64, start: f64, f: &mut impl FnMut(f64) -> Result<f64, E>) -> Result<(f64, f64), E> {
    let is_solved = |reached: f64| (reached - wanted).abs() <= 0.1 * TOLERANCE * wanted;
    let mut before = (start, f(start)?);
    if is_solved(before.1) {
        return Ok(before);
    }
    let next = if start > 0.0 { 1.5 * start } else { 1.0 };
    let mut last = (next, f(next)?);
    for _ in 0..LINES {
        let slope = (last.1 - before.1) / (last.0 - before.0);
        let next = last.0 + (wanted - last.1) / slope;
        if is_solved(last.1) || !next.is_finite() {
            break;
        }
        let next = next.max(0.0);
        if next == last.0 {
            break;
        }
        (before, last) = (last, (next, f(next)?));
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_profiles_hold_what_their_baseline_rows_pin() {
        for machine in MACHINES {
            for figure in calibrate(&format!("pcp.batch-latency.{machine}")).unwrap() {
                let off = (figure.current - figure.calibrated).abs() / figure.calibrated;
                assert!(
                    off < 0.01,
                    "{}: {} is {}, calibrated {}",
                    figure.file,
                    figure.key,
                    figure.current,
                    figure.calibrated
                );
            }
        }
    }

    #[test]
    fn lines_are_solved_with_three_points_and_bent_ones_with_a_few_more() {
        let mut calls = 0;
        let mut line = |x: f64| {
            calls += 1;
            Ok::<f64, ()>(3.0 * x + 2.0)
        };
        let (value, reached) = solve(17.0, 1.0, &mut line).unwrap();
        assert!((value - 5.0).abs() < 1e-9 && (reached - 17.0).abs() < 1e-9);
        assert_eq!(calls, 3);
        let (value, _) = solve(10.0, 1.0, &mut |x: f64| Ok::<f64, ()>(x + 0.01 * x * x)).unwrap();
        assert!((value + 0.01 * value * value - 10.0).abs() < 1e-3 * 10.0);
        // A cost cannot be negative, and a result that does not depend on a cost cannot pin it.
        assert_eq!(solve(1.0, 1.0, &mut |x: f64| Ok::<f64, ()>(3.0 * x + 2.0)), Ok((0.0, 2.0)));
        assert_eq!(solve(1.0, 1.0, &mut |_| Ok::<f64, ()>(2.0)), Ok((1.5, 2.0)));
    }

    #[test]
    fn every_table_names_baseline_cells_only() {
        for (id, _, costs) in COSTS {
            for cost in costs {
                assert!(baseline_of_row(id, cost.row, cost.column).unwrap() > 0.0, "{id} {}", cost.key);
            }
            assert!(baseline_of_row(id, 2, costs[0].column).is_err(), "{id} has two baseline rows at most");
        }
    }

    #[test]
    fn a_spread_gives_its_percentile() {
        let spread = spread_of(1.5);
        let p99 = (2.326_347_874 * spread - spread * spread / 2.0).exp();
        assert!((p99 - 1.5).abs() < 1e-6);
    }
}
