//! Numbers as tables and messages print them.

use lab::statistics::{Change, Interval};

/// Four significant digits, with the suffix k, M or G from ten thousand on; `-` if not finite.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".into();
    }
    let (scale, suffix) = match size {
        _ if size >= 1e10 => (1e9, " G"),
        _ if size >= 1e7 => (1e6, " M"),
        _ if size >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{}{suffix}", significant(value / scale))
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
    let decimals = match value.abs() {
        size if size < 1.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    let rounded = format!("{value:+.decimals$}");
    match rounded.as_str() {
        "+0.00" | "-0.00" => "0".into(),
        _ if value.abs() >= 1e4 => format!("{}{}", if value < 0.0 { "" } else { "+" }, number(value)),
        _ => rounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
