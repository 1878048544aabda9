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

/// Samples of time and value in `width` characters, which go over the times `from` to `until`: each is the mean of the values in its part
/// of the time, or the last before it, or blank before the first. The lowest level is the least of these, the highest the most.
pub fn sparkline(samples: &[[f64; 2]], [from, until]: [f64; 2], width: usize) -> String {
    let part = |time: f64| (((time - from) / (until - from) * width as f64) as usize).min(width - 1);
    let mut sums = vec![(0.0, 0usize); width];
    for [time, value] in samples {
        let (sum, count) = &mut sums[part(*time)];
        (*sum, *count) = (*sum + value, *count + 1);
    }
    let mut last = None;
    let means: Vec<Option<f64>> = sums
        .into_iter()
        .map(|(sum, count)| {
            last = if count > 0 { Some(sum / count as f64) } else { last };
            last
        })
        .collect();
    let [least, most] = ends(&means.iter().flatten().copied().collect::<Vec<_>>());
    let level = |mean: &Option<f64>| match mean {
        None => ' ',
        Some(value) if most > least => {
            LEVELS[(((value - least) / (most - least) * 7.0).round() as usize).min(7)]
        }
        Some(_) => LEVELS[0],
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
        let every = |values: &[f64]| -> Vec<[f64; 2]> {
            values.iter().enumerate().map(|(at, &value)| [at as f64, value]).collect()
        };
        assert_eq!(sparkline(&every(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), [0.0, 8.0], 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&every(&[5.0, 5.0, 5.0]), [0.0, 2.0], 3), "▁▁▁");
        assert_eq!(sparkline(&every(&[0.0, 2.0, 10.0, 10.0]), [0.0, 4.0], 2), "▁█", "parts are means");
        assert_eq!(sparkline(&[[2.0, 0.0], [5.0, 1.0]], [0.0, 8.0], 8), "  ▁▁▁███", "blank before the first");
        assert_eq!(sparkline(&[[0.0, -1e300], [1.0, 1e300]], [0.0, 1.0], 2), "▁█");
        assert_eq!(sparkline(&[[1.0, 3.0]], [1.0, 1.0], 2), "▁▁", "no time has passed");
    }

    #[test]
    fn a_bar_is_exact_to_an_eighth() {
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.5, 5), "██▌");
        assert_eq!([bar(0.0, 4), bar(1.0, 4), bar(2.0, 4), bar(-1.0, 4)], ["", "████", "████", ""]);
    }
}
