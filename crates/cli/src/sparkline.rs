//! Charts of a line for the terminal: how a value goes over time, and how large a part of a whole is.
//!
//! ```text
//!   ▁▁▂▃▅▆▇██████▇▇▆▆▅▅   from the least to the most that it has
//!   ███████▌              a share, in eighths of a character
//! ```

/// From the least to the most.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eighths of a character, from none on.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Values in `width` characters at most, each the mean of the values in its part; the lowest level is the least of these, the highest the
/// most.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let parts = values.len().min(width);
    let mean = |part: usize| {
        let of = &values[part * values.len() / parts..(part + 1) * values.len() / parts];
        of.iter().sum::<f64>() / of.len() as f64
    };
    let means: Vec<f64> = (0..parts).map(mean).collect();
    let [least, most] = ends(&means);
    let level = |value: &f64| match most > least {
        true => LEVELS[(((value - least) / (most - least) * 7.0).round() as usize).min(7)],
        false => LEVELS[0],
    };
    means.iter().map(level).collect()
}

/// The least and the most of some values; 0 of none.
pub fn ends(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
    [least, values.iter().copied().reduce(f64::max).unwrap_or(0.0)]
}

/// A share, from 0 to 1, of `width` characters.
pub fn bar(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * width as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_goes_from_the_least_to_the_most() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[5.0, 5.0, 5.0], 8), "▁▁▁");
        assert_eq!(sparkline(&[0.0, 2.0, 10.0, 10.0], 2), "▁█", "parts are means");
        assert_eq!((sparkline(&[], 8), sparkline(&[-1e300, 1e300], 8)), (String::new(), "▁█".into()));
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(sparkline(&many, 30).chars().count(), 30);
    }

    #[test]
    fn a_bar_is_exact_to_an_eighth() {
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.5, 5), "██▌");
        assert_eq!([bar(0.0, 4), bar(1.0, 4), bar(2.0, 4), bar(-1.0, 4)], ["", "████", "████", ""]);
    }
}
