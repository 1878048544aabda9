//! Statistics over seeds: means, and intervals by bootstrap over pairs.
//!
//! ```text
//!   seed      1     2     3            a resample draws seeds with replacement, for both variants at once:
//!   base    10.1  12.0   9.8             {1, 1, 3} ─► mean(base), mean(patch), difference, ratio
//!   patch    9.0  10.9   8.7             {2, 3, 3} ─► ...
//!            └──── paired ────┘          10,000 of them, sorted; the middle 95 % are the interval
//! ```
//!
//! Variants with the same seed see the same demand, so what differs between two seeds mostly cancels in a
//! pair. The bootstrap is the percentile one. With few pairs it is too narrow: three pairs of one sign always
//! give an interval beyond zero, which chance alone does in one of four cases. So a change counts as significant
//! only if Student's t over the same pairs agrees: over the logarithms of their ratios, since a patch gains a part
//! of what there is rather than a fixed amount, or over their differences where a value is not positive.
//!
//! The resamples come from a generator with a fixed seed of its own: the same values give the same interval.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Resamples of one bootstrap.
pub const RESAMPLES: usize = 10_000;

/// Seed of the bootstrap's generator.
const BOOTSTRAP_SEED: u128 = 0x6d6d_7477_696e;

/// Lower and upper end of a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How far a variant is from the first one, over pairs of the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Difference of means, in the metric's unit.
    pub difference: f64,
    /// Its 95 % interval; none with a single pair.
    pub difference_interval: Option<Interval>,
    /// Ratio of means; none if the first variant's is zero.
    pub ratio: Option<f64>,
    /// Its 95 % interval.
    pub ratio_interval: Option<Interval>,
    /// Whether both the bootstrap and Student's t exclude that nothing changed.
    pub significant: bool,
}

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The `q`-quantile, interpolated between neighbours; none of nothing.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64))
}

/// The 95 % interval of the mean; none with fewer than two values.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    let means =
        resample(values.len(), |drawn| Some(drawn.map(|i| values[i]).sum::<f64>() / values.len() as f64));
    interval(means)
}

/// How `values` differ from `first`, seed by seed. Both have the same length.
pub fn change(first: &[f64], values: &[f64]) -> Change {
    assert_eq!(first.len(), values.len(), "pairs have two sides");
    let n = first.len() as f64;
    let base = mean(first);
    let differences: Vec<f64> = first.iter().zip(values).map(|(a, b)| b - a).collect();
    let difference = mean(values) - base;
    let difference_interval =
        interval(resample(first.len(), |drawn| Some(drawn.map(|i| differences[i]).sum::<f64>() / n)));
    let ratio_interval = interval(resample(first.len(), |drawn| {
        let (a, b) = drawn.fold((0.0, 0.0), |(a, b), i| (a + first[i], b + values[i]));
        (a != 0.0).then(|| b / a)
    }));
    let logarithms: Option<Vec<f64>> =
        first.iter().zip(values).map(|(&a, &b)| (a > 0.0 && b > 0.0).then(|| (b / a).ln())).collect();
    let excludes_zero = |i: Interval| i.low > 0.0 || i.high < 0.0;
    Change {
        difference,
        difference_interval,
        ratio: (base != 0.0).then(|| mean(values) / base),
        ratio_interval: ratio_interval.filter(|_| base != 0.0),
        significant: difference_interval.is_some_and(excludes_zero)
            && student_interval(&logarithms.unwrap_or(differences)).is_some_and(excludes_zero),
    }
}

fn resample(
    values: usize,
    mut statistic: impl FnMut(&mut dyn Iterator<Item = usize>) -> Option<f64>,
) -> Vec<f64> {
    if values < 2 {
        return Vec::new();
    }
    let mut generator = Pcg64Mcg::new(BOOTSTRAP_SEED);
    (0..RESAMPLES)
        .filter_map(|_| statistic(&mut (0..values).map(|_| generator.random_range(0..values))))
        .collect()
}

fn interval(mut statistics: Vec<f64>) -> Option<Interval> {
    statistics.sort_by(f64::total_cmp);
    Some(Interval {
        low: quantile_of_sorted(&statistics, 0.025)?,
        high: quantile_of_sorted(&statistics, 0.975)?,
    })
}

/// Student's t, 97.5 %, for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

fn student_interval(values: &[f64]) -> Option<Interval> {
    let freedom = values.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
    let centre = mean(values);
    let variance = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / freedom as f64;
    let reach = STUDENT[freedom.min(30) - 1] * (variance / values.len() as f64).sqrt();
    Some(Interval { low: centre - reach, high: centre + reach })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn intervals_repeat_and_contain_the_mean() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * i % 17)).collect();
        let first = mean_interval(&values).unwrap();
        assert_eq!(Some(first), mean_interval(&values));
        assert!(first.low < mean(&values) && mean(&values) < first.high, "{first:?}");
    }

    #[test]
    fn one_pair_has_no_interval_and_no_mark() {
        let change = change(&[1.0], &[2.0]);
        assert_eq!((change.difference, change.ratio), (1.0, Some(2.0)));
        assert_eq!(
            (change.difference_interval, change.ratio_interval, change.significant),
            (None, None, false)
        );
    }

    #[test]
    fn a_constant_shift_is_significant_although_seeds_differ_more() {
        let first = [10.0, 20.0, 30.0];
        let change = change(&first, &first.map(|v| v * 0.9));
        assert!(change.significant);
        let interval = change.ratio_interval.unwrap();
        assert!((interval.low - 0.9).abs() < 1e-12 && (interval.high - 0.9).abs() < 1e-12, "{interval:?}");
    }

    #[test]
    fn three_pairs_that_only_happen_to_agree_in_sign_get_no_mark() {
        let change = change(&[10.0, 10.0, 10.0], &[10.1, 10.2, 14.0]);
        assert!(change.difference_interval.unwrap().low > 0.0);
        assert!(!change.significant);
    }

    #[test]
    fn noise_of_equal_variants_is_rarely_marked() {
        let mut generator = Pcg64Mcg::new(7);
        let marked = (0..200)
            .filter(|_| {
                let mut draw = || (0..5).map(|_| generator.random::<f64>()).collect::<Vec<_>>();
                change(&draw(), &draw()).significant
            })
            .count();
        assert!(marked <= 20, "{marked} of 200 marked, about 10 expected");
    }

    #[test]
    fn a_first_variant_of_zero_has_no_ratio() {
        let change = change(&[0.0, 0.0, 0.0], &[2.0, 2.0, 2.0]);
        assert_eq!((change.ratio, change.ratio_interval), (None, None));
        assert!(change.significant);
    }
}
