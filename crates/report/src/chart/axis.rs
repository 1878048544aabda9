//! Axes: what is measured decides units and ticks. Bytes have powers of two, `64 MiB` and `1 GiB`, and not `6.87e7`.

use serde_json::{Value, json};
use sim::metric::Metric;

/// What numbers on an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes.
    Bytes,
    Seconds,
    /// Hundredths of all.
    Percent,
    /// How many a second.
    PerSecond,
    /// A part of all: from 0 to 1.
    Fraction,
    Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub title: String,
    pub measure: Measure,
    pub scale: Scale,
}

/// The measure of units of metrics, and how much of it one of the unit is; what is not here is a number.
const UNITS: [(&str, Measure, f64); 8] = [
    ("KiB", Measure::Bytes, 1024.0),
    ("MiB", Measure::Bytes, 1048576.0),
    ("GiB", Measure::Bytes, 1073741824.0),
    ("ns", Measure::Seconds, 1e-9),
    ("us", Measure::Seconds, 1e-6),
    ("ms", Measure::Seconds, 1e-3),
    ("s", Measure::Seconds, 1.0),
    ("1/s", Measure::PerSecond, 1.0),
];

/// The measure of a metric, and what its values are multiplied with.
pub fn of_metric(metric: &Metric) -> (Measure, f64) {
    match UNITS.iter().find(|(unit, ..)| *unit == metric.unit) {
        Some(&(_, measure, times)) => (measure, times),
        None if metric.unit.starts_with('%') || metric.unit == "points" => (Measure::Percent, 1.0),
        None => (Measure::Number, 1.0),
    }
}

impl Measure {
    /// Units from the largest on, each with how much it is; the last is for all that is smaller too.
    fn units(self) -> &'static [(f64, &'static str)] {
        match self {
            Measure::Bytes => &[
                (1099511627776.0, " TiB"),
                (1073741824.0, " GiB"),
                (1048576.0, " MiB"),
                (1024.0, " KiB"),
                (1.0, " B"),
            ],
            Measure::Seconds => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns")],
            Measure::Percent => &[(1.0, " %")],
            Measure::PerSecond => &[(1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s"), (1.0, "/s")],
            Measure::Fraction => &[(1.0, "")],
            Measure::Number => &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")],
        }
    }

    /// A Vega expression for the label of a tick.
    pub(super) fn label(self) -> String {
        let text = |&(size, unit): &(f64, &str)| format!("format(datum.value / {size:e}, '.6~r') + '{unit}'");
        let (last, others) = self.units().split_last().unwrap_or((&(1.0, ""), &[]));
        let steps = others.iter().map(|step| format!("abs(datum.value) >= {:e} ? {} : ", step.0, text(step)));
        format!("datum.value == 0 ? '0' : {}{}", steps.collect::<String>(), text(last))
    }
}

/// About how many ticks an axis has.
const TICKS: f64 = 6.0;
/// Logarithmic axes have no more labels than this.
const MOST_LABELS: usize = 9;
/// And no fewer, if there are as many.
const FEWEST_LABELS: usize = 3;

impl Axis {
    /// The ends of the axis for values between these, and a definition of it for Vega-Lite.
    pub(super) fn over(&self, low: f64, high: f64) -> Placed {
        // Nothing that can be drawn: any axis will do, but a logarithmic one never comes to 0.
        let is_possible = self.scale == Scale::Linear || low > 0.0;
        let (low, high) = if is_possible { (low, high) } else { (1.0, 10.0) };
        let ticks = match self.scale {
            Scale::Linear => self.even_ticks(low, high),
            Scale::Logarithmic => self.powers(low, high),
        };
        let ends = match self.scale {
            Scale::Linear => (
                low.min(ticks.first().copied().unwrap_or(low)),
                high.max(ticks.last().copied().unwrap_or(high)),
            ),
            Scale::Logarithmic if low < high => (low, high),
            // A logarithmic axis must not be empty.
            Scale::Logarithmic => (low / 2.0, high * 2.0),
        };
        Placed { axis: self.clone(), ends, ticks }
    }

    /// Ticks at 1, 2 or 5 times a power of ten; of bytes at powers of two.
    fn even_ticks(&self, low: f64, high: f64) -> Vec<f64> {
        let range = if high > low { high - low } else { high.abs().max(1.0) };
        let rough = range / TICKS;
        let step = match self.measure {
            Measure::Bytes => 2f64.powf(rough.log2().ceil()),
            _ => {
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough * 0.999);
                step.unwrap_or(10.0) * power
            }
        };
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let count = (last - first) as usize;
        (0..=count.min(50)).map(|at| (first + at as f64) * step).collect()
    }

    /// Ticks at powers, of bytes of two; where there are few of them also between, and then as on an even axis.
    fn powers(&self, low: f64, high: f64) -> Vec<f64> {
        let base: f64 = if self.measure == Measure::Bytes { 2.0 } else { 10.0 };
        let (first, last) = (low.log(base).ceil() as i32, high.log(base).floor() as i32);
        let each = (last - first).max(0) as usize / MOST_LABELS + 1;
        let powers: Vec<f64> = (first..=last).step_by(each).map(|power| base.powi(power)).collect();
        if powers.len() >= FEWEST_LABELS {
            return powers;
        }
        let is_there = |tick: &f64| (low..=high).contains(tick);
        let between =
            (first - 1..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * base.powi(power)));
        let between: Vec<f64> = between.filter(is_there).collect();
        match between.len() >= FEWEST_LABELS {
            true => between,
            false => self.even_ticks(low, high).into_iter().filter(is_there).collect(),
        }
    }
}

/// An axis whose ends are known.
pub(super) struct Placed {
    axis: Axis,
    pub ends: (f64, f64),
    ticks: Vec<f64>,
}

impl Placed {
    /// The encoding of a field by this axis.
    pub fn encoding(&self, field: &str) -> Value {
        let (low, high) = self.ends;
        let scale = match self.axis.scale {
            Scale::Linear => json!({ "domain": [low, high], "nice": false, "zero": false }),
            Scale::Logarithmic => json!({ "type": "log", "domain": [low, high], "nice": false }),
        };
        let mut axis = json!({ "title": self.axis.title, "labelExpr": self.axis.measure.label() });
        if !self.ticks.is_empty() {
            axis["values"] = self.ticks.clone().into();
        }
        json!({ "field": field, "type": "quantitative", "axis": axis, "scale": scale })
    }

    /// Where a value is, as a part of the axis from its beginning.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let part = match self.axis.scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Logarithmic => (value / low).ln() / (high / low).ln(),
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}
