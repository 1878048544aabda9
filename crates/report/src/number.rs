//! Numbers as tables and messages print them.
//!
//! [`number`] is four digits of anything. [`quantity`] is a value of a metric with its unit, in the size of unit that reads best:
//! `14.0 GiB`, `535 k/s`. A change is told as [`change`] does where changes add up, and as [`Told`] where they are looked at: from three
//! times more on as a factor, `58x` and not `+5677 %`.

use lab::statistics::{Change, Interval};
use sim::metric::Metric;

/// Four significant digits, with the suffix k, M or G from ten thousand on; `-` if not finite.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let (value, suffix) = scaled(value);
    format!("{}{}", significant(value), spaced(suffix))
}

fn significant(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 999.95 || size == 0.0 => 0,
        _ if size >= 99.995 => 1,
        _ if size >= 9.9995 => 2,
        _ if size >= 0.1 => 3,
        _ => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Units of one kind, each so many of the one before it.
type Ladder = &'static [(&'static str, f64)];

const MEMORY: Ladder = &[("KiB", 1.0), ("MiB", 1024.0), ("GiB", 1024.0), ("TiB", 1024.0)];
const TIME: Ladder = &[("ns", 1.0), ("us", 1000.0), ("ms", 1000.0), ("s", 1000.0)];

/// The next larger unit is taken from so many on, and the next smaller one below [`FEWEST`].
const MOST: f64 = 10_000.0;
const FEWEST: f64 = 0.1;

/// A value of a metric with its unit. What is counted has none: the metric's title says what it is.
pub fn quantity(value: f64, metric: &Metric) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let unit = metric.unit;
    for ladder in [MEMORY, TIME] {
        if let Some(at) = ladder.iter().position(|(name, _)| *name == unit) {
            return on_ladder(value, ladder, at);
        }
    }
    match unit.strip_prefix("1/") {
        Some(time) => {
            let (value, suffix) = scaled(value);
            format!("{}{}/{time}", three_digits(value), spaced(suffix))
        }
        None if unit == "MB/s" => format!("{} MB/s", three_digits(value)),
        None if unit.starts_with('%') => format!("{} %", three_digits(value)),
        None if unit == "points" => format!("{} pt", three_digits(value)),
        None => {
            let (value, suffix) = scaled(value);
            format!("{}{}", three_digits(value), spaced(suffix))
        }
    }
}

/// Bytes in the unit that reads best.
pub fn memory(bytes: f64) -> String {
    if !bytes.is_finite() {
        return "-".into();
    }
    on_ladder(bytes / 1024.0, MEMORY, 0)
}

/// A time in the unit that reads best.
pub fn time(seconds: f64) -> String {
    on_ladder(seconds * 1e3, TIME, 2)
}

/// A metric's name in tables, with its unit where [`quantity`] prints none and the name does not say it.
pub fn title(metric: &Metric) -> String {
    match has_unit(metric) || metric.label.contains(metric.unit) {
        true => metric.label.into(),
        false => format!("{} ({})", metric.label, metric.unit),
    }
}

/// Whether [`quantity`] prints a unit.
fn has_unit(metric: &Metric) -> bool {
    quantity(1.0, metric).contains(|c: char| c.is_alphabetic() || c == '%')
}

fn spaced(suffix: &str) -> String {
    if suffix.is_empty() { String::new() } else { format!(" {suffix}") }
}

fn on_ladder(value: f64, ladder: Ladder, at: usize) -> String {
    let (mut value, mut at) = (value, at);
    while value.abs() >= MOST && at + 1 < ladder.len() {
        at += 1;
        value /= ladder[at].1;
    }
    while value != 0.0 && value.abs() < FEWEST && at > 0 {
        value *= ladder[at].1;
        at -= 1;
    }
    let (value, suffix) = scaled(value);
    format!("{}{} {}", three_digits(value), spaced(suffix), ladder[at].0)
}

/// A number with the suffix k, M or G from ten thousand on.
fn scaled(value: f64) -> (f64, &'static str) {
    match value.abs() {
        size if size >= 1e10 => (value / 1e9, "G"),
        size if size >= 1e7 => (value / 1e6, "M"),
        size if size >= MOST => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

/// Three digits, or all of a larger whole number.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if value.fract() == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    format!("{value:.decimals$}")
}

/// From this ratio on a change is told as a factor.
const FACTOR: f64 = 4.0;

/// A change of a metric in words that fit into a cell.
pub struct Told {
    /// `-14.0 %`, `-4.6 pt`, `58x`; `=` if the values are the same with every seed.
    pub value: String,
    /// How far the interval reaches from it at most, in the same unit: `0.3`; none if all pairs of seeds have the same change.
    pub reach: Option<String>,
    /// The interval, in the same unit: `[-14.3, -13.7]`.
    pub interval: Option<String>,
}

impl Told {
    pub fn of(by: &Change, metric: &Metric) -> Told {
        let is_same = by.difference == 0.0
            && by.difference_interval.is_none_or(|interval| interval.low == 0.0 && interval.high == 0.0);
        if is_same {
            return Told { value: "=".into(), reach: None, interval: None };
        }
        match (metric.unit_of_change(), by.ratio) {
            (None, Some(ratio)) if ratio >= FACTOR => {
                let factor = |value: f64| format!("{}x", three_digits(value));
                Told {
                    value: factor(ratio),
                    reach: by.ratio_interval.and_then(|interval| reach(ratio, interval)),
                    interval: by
                        .ratio_interval
                        .map(|interval| format!("[{}, {}]", factor(interval.low), factor(interval.high))),
                }
            }
            (None, Some(ratio)) => {
                let (value, interval) = change(by, None, "");
                let interval_in_percent = by.ratio_interval.map(in_percent);
                let reach = interval_in_percent.and_then(|interval| reach(100.0 * (ratio - 1.0), interval));
                Told { value, reach, interval }
            }
            (unit, ratio) => {
                // Of nothing there is no ratio.
                let unit = unit.or((ratio.is_none() && has_unit(metric)).then_some(metric.unit));
                let (value, interval) = change(by, unit, "");
                let reach = by.difference_interval.and_then(|interval| reach(by.difference, interval));
                Told { value, reach, interval }
            }
        }
    }

    /// The change with its interval behind it, as sentences have it: `-14.0 % [-14.3, -13.7]`.
    pub fn in_a_sentence(&self) -> String {
        match (&self.interval, &self.reach) {
            (Some(interval), Some(_)) => format!("{} {interval}", self.value),
            _ => self.value.clone(),
        }
    }
}

/// How far an interval reaches from a value to its farther end, rounded up; `None` if it is the value alone.
fn reach(value: f64, Interval { low, high }: Interval) -> Option<String> {
    let far = (high - value).max(value - low);
    let decimals = decimals_of_change(far);
    let digits = 10f64.powi(decimals as i32);
    let up = (far * digits).ceil() / digits;
    // What an interval of one value is off by is rounding of its ends.
    let is_one_value = far.abs() < 1e-9 * value.abs().max(1.0);
    (!is_one_value).then(|| if up >= MOST { number(up) } else { format!("{up:.decimals$}") })
}

pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

/// A change relative to the first variant with `mark` behind it, and its interval: absolute in `unit`, or in percent of the
/// first variant's value if there is no unit.
pub fn change(change: &Change, unit: Option<&str>, mark: &str) -> (String, Option<String>) {
    let (value, interval, suffix) = match (unit, change.ratio) {
        (Some(unit), _) => (change.difference, change.difference_interval, format!(" {unit}")),
        (None, None) => (change.difference, change.difference_interval, String::new()),
        (None, Some(ratio)) => {
            (100.0 * (ratio - 1.0), change.ratio_interval.map(in_percent), " %".to_string())
        }
    };
    let mark = if mark.is_empty() { String::new() } else { format!(" {mark}") };
    let spread = |interval: Interval| format!("[{}, {}]", signed(interval.low), signed(interval.high));
    (format!("{}{suffix}{mark}", signed(value)), interval.map(spread))
}

fn in_percent(interval: Interval) -> Interval {
    Interval { low: 100.0 * (interval.low - 1.0), high: 100.0 * (interval.high - 1.0) }
}

fn signed(value: f64) -> String {
    let decimals = decimals_of_change(value);
    let rounded = format!("{value:+.decimals$}");
    match rounded.as_str() {
        "+0.00" | "-0.00" => "0".into(),
        _ if value.abs() >= 1e4 => format!("{}{}", if value < 0.0 { "" } else { "+" }, number(value)),
        _ => rounded,
    }
}

fn decimals_of_change(value: f64) -> usize {
    match value.abs() {
        size if size < 1.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::metric::{
        ALLOC_P99, ALLOC_ZONE, BUILD_TIME, FREE_HIGH, IPIS, LOCK, PCP_MAX, RUNS_PER_MINUTE, SCORE,
    };

    #[test]
    fn quantities_have_units_that_read() {
        for (metric, value, text) in [
            (PCP_MAX, 14_330.0, "14.0 GiB"),
            (PCP_MAX, 1382.8672, "1383 MiB"),
            (PCP_MAX, 24.0, "24 MiB"),
            (PCP_MAX, 0.05, "51.2 KiB"),
            (PCP_MAX, 0.0, "0 MiB"),
            (SCORE, 535_362.0, "535 k/s"),
            (SCORE, 98.76, "98.8/s"),
            (RUNS_PER_MINUTE, 210.4, "210/min"),
            (BUILD_TIME, 206.04, "206 s"),
            (BUILD_TIME, 0.0123, "12.3 ms"),
            (ALLOC_P99, 6991.87, "6992 ns"),
            (ALLOC_P99, 69_918.7, "69.9 us"),
            (LOCK, 17.4387, "17.4 %"),
            (ALLOC_ZONE, 2_603_538.0, "2604 k"),
            (ALLOC_ZONE, f64::NAN, "-"),
        ] {
            assert_eq!(quantity(value, &metric), text);
        }
        assert_eq!(
            [ALLOC_ZONE, FREE_HIGH, IPIS, PCP_MAX].map(|metric| title(&metric)),
            ["pages from zone", "free_high drains", "IPIs (calls)", "in PCP, maximum"]
        );
    }

    #[test]
    fn large_changes_are_factors_and_no_change_is_a_sign() {
        let told = |first: &[f64], values: &[f64], metric: Metric| {
            let Told { value, reach, interval } = Told::of(&lab::statistics::change(first, values), &metric);
            [Some(value), reach, interval].map(Option::unwrap_or_default)
        };
        assert_eq!(told(&[24.0, 24.0], &[1383.0, 1393.0], PCP_MAX), ["57.8x", "0.21", "[57.6x, 58.0x]"]);
        assert_eq!(told(&[100.0; 3], &[399.0; 3], PCP_MAX), ["+299 %", "", "[+299, +299]"]);
        assert_eq!(told(&[5.0; 3], &[0.4, 0.5, 0.6], LOCK), ["-4.5 pt", "0.25", "[-4.7, -4.3]"]);
        assert_eq!(told(&[0.0], &[12.0], ALLOC_ZONE), ["+12.0", "", ""]);
        assert_eq!(told(&[7.0; 3], &[7.0; 3], SCORE), ["=", "", ""]);
    }

    #[test]
    fn numbers_keep_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (206.04, "206"),
            (43.61, "43.61"),
            (1.25, "1.25"),
            (0.01234, "0.0123"),
            (361.0, "361"),
            (9999.6, "10000"),
            (12345.0, "12.35 k"),
            (210_345_678.0, "210.3 M"),
            (-5.0, "-5"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn changes_say_what_they_are_in() {
        let interval = |low, high| Some(Interval { low, high });
        let of = |ratio| Change {
            difference: -33.8,
            difference_interval: interval(-34.0, -33.0),
            ratio,
            ratio_interval: interval(0.2, 0.25),
            p_value: Some(0.01),
        };
        let text = |c: &Change, unit| change(c, unit, "*");
        assert_eq!(text(&of(Some(0.225)), None), ("-77.5 % *".into(), Some("[-80.0, -75.0]".into())));
        let in_own_unit = |unit| text(&of(Some(0.225)), Some(unit)).0;
        assert_eq!(["pt", "MiB"].map(in_own_unit), ["-33.8 pt *", "-33.8 MiB *"]);
        let units = [sim::metric::SHARE_4K, sim::metric::ANON_MAX, sim::metric::FAULT_TIME]
            .map(|m| m.unit_of_change());
        assert_eq!(units, [Some("pt"), Some("MiB"), None]);
        assert_eq!(change(&of(None), None, ""), ("-33.8".into(), Some("[-34.0, -33.0]".into())));
    }
}
