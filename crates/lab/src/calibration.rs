//! Calibration: the figures that baseline rows of published tables pin, and nothing else.
//!
//! ```text
//!   s0.batch-latency.M   5 baseline cells ─► 5 figures of machine M: closed formulas
//!   s0.kbuild.*          lock% of base    ─► intensity of the scenario ┐ one cell, one parameter:
//!   s0.netperf, s0.lmbench3  lock% of base ─► calls of the scenario    ┘ bisection over runs of `base`
//! ```
//!
//! A table has at most as many free parameters as baseline cells. Rows marked `predicted` are never read
//! here.

use crate::metric;
use crate::published::{Kind, Mechanism};
use crate::scenario::{Scenario, ScenarioError, Workload, load_machine};
use crate::simulation::{self, RunError};
use machine::Profile;
use serde::Serialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a table cannot be calibrated.
#[derive(Debug, Error)]
pub enum CalibrationError {
    /// No parameter belongs to the table.
    #[error("{id}: nothing is calibrated on this table; tables with free parameters: {}", tables().join(", "))]
    NoParameter {
        /// The table.
        id: String,
    },
    /// The table has no such baseline cell.
    #[error("{id}: no baseline cell {column}")]
    NoCell {
        /// The table.
        id: String,
        /// The column.
        column: &'static str,
    },
    /// A file is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// One calibrated figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibrated {
    /// The table whose baseline row pins it.
    pub table: String,
    /// The file that holds the figure.
    pub file: String,
    /// Its key.
    pub key: &'static str,
    /// What the file says now.
    pub current: f64,
    /// What calibration gives.
    pub calibrated: f64,
    /// The baseline cell, as printed.
    pub published: f64,
    /// What the twin gives for that cell with the calibrated figure; closed formulas are not run.
    pub reached: Option<f64>,
}

const MACHINES: [&str; 5] = ["spr-server", "icl-server", "csl-server", "cml-desktop", "cfl-desktop"];

/// Tables whose lock share of the unpatched kernel pins a parameter of a scenario.
const SCENARIOS: [(&str, &str); 5] = [
    ("s0.kbuild.numactl", "kbuild"),
    ("s0.kbuild.j224", "kbuild-j224"),
    ("s0.kbuild.8cg-j28.v2", "kbuild-8cg"),
    ("s0.netperf.sctp_stream_many", "sctp_stream_many"),
    ("s0.lmbench3.unix", "af_unix"),
];

/// The tables that have free parameters.
pub fn tables() -> Vec<String> {
    let latency = MACHINES.iter().map(|machine| format!("s0.batch-latency.{machine}"));
    latency.chain(SCENARIOS.iter().map(|(table, _)| table.to_string())).collect()
}

/// A cell of the baseline row of a table.
fn baseline(id: &str, column: &'static str) -> Result<f64, CalibrationError> {
    let missing = || CalibrationError::NoCell { id: id.into(), column };
    let mechanism = Mechanism::find("pcp").map_err(|_| missing())?;
    let tables = mechanism.tables(&[id.to_string()]).map_err(|_| missing())?;
    let row = tables.first().and_then(|table| table.rows.iter().find(|row| row.kind == Kind::Baseline));
    row.and_then(|row| row.v.get(column)).and_then(|text| text.parse().ok()).ok_or_else(missing)
}

/// Calibrates what the table `id` pins.
pub fn calibrate(id: &str) -> Result<Vec<Calibrated>, CalibrationError> {
    if let Some(machine) = MACHINES.iter().find(|machine| id == format!("s0.batch-latency.{machine}")) {
        return batch_latency(id, machine);
    }
    match SCENARIOS.iter().find(|(table, _)| *table == id) {
        Some((_, scenario)) => Ok(vec![lock_share(id, scenario)?]),
        None => Err(CalibrationError::NoParameter { id: id.into() }),
    }
}

/// The width of a lognormal factor with mean 1 whose 99th percentile is `ratio` times its mean.
fn spread_of(ratio: f64) -> f64 {
    // exp(z*s - s*s/2) = ratio, z being the normal distribution's 99th percentile.
    const Z: f64 = 2.326_347_874;
    Z - (Z * Z - 2.0 * ratio.ln()).max(0.0).sqrt()
}

/// Batch of the table's baseline row, blocks in each section.
const BASELINE_BATCH: f64 = 63.0;

fn batch_latency(id: &str, name: &str) -> Result<Vec<Calibrated>, CalibrationError> {
    let profile: Profile = load_machine(name)?;
    let costs = &profile.costs;
    let (take, put) = (baseline(id, "alloc_avg")?, baseline(id, "free_avg")?);
    let (take_p99, put_p99) = (baseline(id, "alloc_p99")?, baseline(id, "free_p99")?);
    let throughput = baseline(id, "throughput")?;
    let section = costs.lock_section_ns.value;
    let each = |mean_us: f64| (mean_us * 1e3 - section) / BASELINE_BATCH;
    let under_lock = (take + put) * 1e3 / BASELINE_BATCH;
    let fault = 1e9 / throughput - under_lock - costs.page_clear_ns.value - costs.page_unmap_ns.value;
    let figures = [
        ("list_take_ns", costs.list_take_ns.value, each(take), take),
        ("list_put_ns", costs.list_put_ns.value, each(put), put),
        ("take_spread", costs.take_spread.value, spread_of(take_p99 / take), take_p99),
        ("put_spread", costs.put_spread.value, spread_of(put_p99 / put), put_p99),
        ("page_fault_ns", costs.page_fault_ns.value, fault, throughput),
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
    Ok(figures.into_iter().map(calibrated).collect())
}

/// Steps of a bisection; the last changes the parameter by a few parts in a thousand.
const STEPS: usize = 9;

/// Finds the value of the scenario's parameter at which `base` spends the published share of cycles spinning.
fn lock_share(id: &str, name: &str) -> Result<Calibrated, CalibrationError> {
    let scenario = Scenario::load(name)?;
    let machine = load_machine(&scenario.machine)?;
    let published = baseline(id, "lock")?;
    // More intensity, more contention; more calls a message, less.
    let (key, current, rises) = match &scenario.workload {
        Workload::Kbuild(w) => ("workload.intensity", w.intensity.value, true),
        Workload::SocketStream(w) => ("workload.calls", w.calls.value, false),
        _ => return Err(CalibrationError::NoParameter { id: id.into() }),
    };
    let share = |value: f64| -> Result<f64, CalibrationError> {
        let mut run = scenario.run("base", 1, &machine, &BTreeMap::new())?;
        match &mut run.workload {
            Workload::Kbuild(w) => w.intensity.value = value,
            Workload::SocketStream(w) => w.calls.value = value,
            _ => {}
        }
        Ok(simulation::run(&run)?.get(metric::LOCK).unwrap_or(0.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_profiles_hold_what_their_baseline_rows_pin() {
        for machine in MACHINES {
            for figure in calibrate(&format!("s0.batch-latency.{machine}")).unwrap() {
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
    fn a_spread_gives_its_percentile() {
        let spread = spread_of(1.5);
        let p99 = (2.326_347_874 * spread - spread * spread / 2.0).exp();
        assert!((p99 - 1.5).abs() < 1e-6);
    }
}
