//! Statistics over seeds: means, and how far one variant is from another, with intervals over pairs of the same seed.
//!
//! ```text
//!   seed      1     2     3          Variants with the same seed see the same demand, so what differs between two
//!   base    10.1  12.0   9.8         seeds mostly cancels in a pair. Of the pairs come
//!   patch    9.0  10.9   8.7           the difference of means   mean(patch) - mean(base)
//!            └──── paired ────┘        the ratio of means        mean(patch) / mean(base)
//!
//!   pairs     95 % interval          test
//!   1         none                   none
//!   2         the range              none
//!   3 to 9    Student's t            Student's t
//!   10 on     BCa bootstrap          the level at which the interval reaches "no change"
//! ```
//!
//! Student's t of a ratio takes the residuals `patch - ratio * base` of the pairs for its standard error, as a ratio
//! estimator does (Cochran, Sampling Techniques, chapter 6): a patch that gains the same part of every seed has a narrow
//! interval however much seeds differ. BCa is the bias-corrected and accelerated bootstrap (Efron, 1987) over whole
//! pairs; with fewer than ten pairs a bootstrap is too narrow. The resamples come from a generator with a fixed seed of its
//! own: the same values give the same interval.
//!
//! Several comparisons with one base are judged together by Holm's procedure ([`holm`]), so that of all that is marked
//! one in twenty tables has a mark by chance, however many columns it has.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Number of resamples of a bootstrap.
pub const RESAMPLES: usize = 10_000;

/// Seed of the bootstrap's generator.
const BOOTSTRAP_SEED: u128 = 0x6d6d_7477_696e;

/// Intervals leave out this part of the probability, and tests call less than it significant.
const ALPHA: f64 = 0.05;

/// How intervals are made, which depends on how many pairs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// One value: nothing can be said.
    None,
    /// Two: the smaller and the larger one.
    Range,
    /// Student's t.
    StudentsT,
    /// The bias-corrected and accelerated bootstrap.
    Bca,
}

impl Method {
    /// The method for so many pairs or values.
    pub fn of(pairs: usize) -> Method {
        match pairs {
            0 | 1 => Method::None,
            2 => Method::Range,
            3..=9 => Method::StudentsT,
            _ => Method::Bca,
        }
    }
}

/// Lower and upper end of a 95 % interval, or of a range.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// How far a variant is from the first one, over pairs of the same seed.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Change {
    /// Difference of means, in the unit of the metric.
    pub difference: f64,
    /// 95 % interval of the difference; `None` with a single pair.
    pub difference_interval: Option<Interval>,
    /// Ratio of means; `None` if the mean of the first variant is zero.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ratio_interval: Option<Interval>,
    /// How likely so large a change is by chance alone, of the ratio where there is one, else of the difference; none with
    /// fewer than three pairs.
    pub p_value: Option<f64>,
}

impl Change {
    /// Whether chance alone is unlikely to have made it, looked at by itself.
    pub fn is_significant(&self) -> bool {
        self.p_value.is_some_and(|p| p < ALPHA)
    }

    /// Whether all pairs have the same difference.
    pub fn is_exact(&self) -> bool {
        self.difference_interval.is_some_and(|Interval { low, high }| low == high)
    }
}

/// Arithmetic mean; 0 for no values. Of equal values it is that value to the last bit, so that none of them deviates from it.
pub fn mean(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        [first, others @ ..] if others.iter().all(|other| other == first) => *first,
        _ => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// The variance of what values were drawn from; `None` for fewer than two.
pub fn variance(values: &[f64]) -> Option<f64> {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// The `q`-quantile, interpolated linearly; `None` for no values.
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

/// The 95 % interval of the mean; `None` for fewer than two values.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    let mean = mean(values);
    let residuals: Vec<f64> = values.iter().map(|value| value - mean).collect();
    Estimate {
        value: mean,
        unchanged: 0.0,
        residuals,
        of: Box::new(|drawn| Some(mean_of(drawn, |i| values[i]))),
    }
    .interval_and_p_value()
    .0
}

/// The change from `first` to `values`, which have the same seeds in the same order.
pub fn change(first: &[f64], values: &[f64]) -> Change {
    assert_eq!(first.len(), values.len(), "pairs have two sides");
    let pairs = || first.iter().zip(values);
    let base = mean(first);
    let difference = mean(values) - base;
    let of_difference = Estimate {
        value: difference,
        unchanged: 0.0,
        residuals: pairs().map(|(a, b)| b - a - difference).collect(),
        of: Box::new(|drawn| Some(mean_of(drawn, |i| values[i] - first[i]))),
    };
    let ratio = (base != 0.0).then(|| mean(values) / base);
    let of_ratio = ratio.map(|ratio| Estimate {
        value: ratio,
        unchanged: 1.0,
        residuals: pairs().map(|(a, b)| (b - ratio * a) / base).collect(),
        of: Box::new(|drawn| {
            let (a, b) = drawn.fold((0.0, 0.0), |(a, b), i| (a + first[i], b + values[i]));
            (a != 0.0).then(|| b / a)
        }),
    });
    let (difference_interval, p_of_difference) = of_difference.interval_and_p_value();
    let (ratio_interval, p_value) =
        of_ratio.map_or((None, p_of_difference), |ratio| ratio.interval_and_p_value());
    Change { difference, difference_interval, ratio, ratio_interval, p_value }
}

fn mean_of(drawn: &mut dyn Iterator<Item = usize>, value: impl Fn(usize) -> f64) -> f64 {
    let (sum, count) = drawn.fold((0.0, 0.0), |(sum, count), i| (sum + value(i), count + 1.0));
    sum / count
}

/// Which of several comparisons with one base are significant together: the p-values adjusted by Holm's procedure, each in the
/// place of its own.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        least = least.max(p_values[at] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[at] = least;
    }
    adjusted
}

/// Whether an adjusted p-value is significant.
pub fn is_significant(adjusted: f64) -> bool {
    adjusted < ALPHA
}

/// A statistic of draws of pairs, by their positions; none if a draw has no such value.
type Statistic<'a> = Box<dyn Fn(&mut dyn Iterator<Item = usize>) -> Option<f64> + 'a>;

/// What was computed of some pairs or values, and how it varies with them.
struct Estimate<'a> {
    value: f64,
    /// What it would be if nothing had changed.
    unchanged: f64,
    /// By pair, what it would add to the estimate if all were as this one; they add up to zero.
    residuals: Vec<f64>,
    /// The same statistic of other draws of the pairs.
    of: Statistic<'a>,
}

impl Estimate<'_> {
    /// The 95 % interval, and how likely an estimate so far from no change is by chance.
    fn interval_and_p_value(&self) -> (Option<Interval>, Option<f64>) {
        let pairs = self.residuals.len();
        match Method::of(pairs) {
            Method::None => (None, None),
            Method::Range => {
                let values = || self.residuals.iter().map(|residual| self.value + residual);
                let range = Interval {
                    low: values().fold(f64::INFINITY, f64::min),
                    high: values().fold(f64::NEG_INFINITY, f64::max),
                };
                (Some(range), None)
            }
            Method::StudentsT => {
                let (t, error) = (students_t(pairs), self.standard_error());
                let reach = t.inverse_cdf(1.0 - ALPHA / 2.0) * error;
                let away = (self.value - self.unchanged).abs();
                let p = match away / error {
                    // All pairs agree: the change is certain, or there is none.
                    away_in_errors if !away_in_errors.is_finite() => f64::from(away == 0.0),
                    away_in_errors => 2.0 * t.sf(away_in_errors),
                };
                (Some(Interval { low: self.value - reach, high: self.value + reach }), Some(p))
            }
            Method::Bca => {
                let bootstrap = self.bootstrap();
                let interval = bootstrap.as_ref().map(Bootstrap::interval);
                (interval, bootstrap.map(|bootstrap| bootstrap.p_value(self.unchanged)))
            }
        }
    }

    fn standard_error(&self) -> f64 {
        let pairs = self.residuals.len() as f64;
        let squares: f64 = self.residuals.iter().map(|residual| residual.powi(2)).sum();
        (squares / (pairs - 1.0) / pairs).sqrt()
    }

    /// None if no draw has a value, as ratios to nothing.
    fn bootstrap(&self) -> Option<Bootstrap> {
        let pairs = self.residuals.len();
        let mut generator = Pcg64Mcg::new(BOOTSTRAP_SEED);
        let mut drawn: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| (self.of)(&mut (0..pairs).map(|_| generator.random_range(0..pairs))))
            .collect();
        drawn.sort_by(f64::total_cmp);
        let left_out: Vec<f64> =
            (0..pairs).filter_map(|out| (self.of)(&mut (0..pairs).filter(|&i| i != out))).collect();
        let centre = mean(&left_out);
        let moment = |power| left_out.iter().map(|value| (centre - value).powi(power)).sum::<f64>();
        let acceleration = moment(3) / (6.0 * moment(2).powf(1.5));
        (!drawn.is_empty()).then(|| Bootstrap {
            bias: normal().inverse_cdf(part_below(&drawn, self.value)),
            acceleration: if acceleration.is_finite() { acceleration } else { 0.0 },
            drawn,
        })
    }
}

/// The bias-corrected and accelerated bootstrap: which quantile of the draws stands for which level.
struct Bootstrap {
    /// Statistics of all draws, sorted.
    drawn: Vec<f64>,
    /// How far the median of the draws is from the estimate, in standard deviations.
    bias: f64,
    /// How fast the standard error changes with the estimate, from leaving out one pair after the other.
    acceleration: f64,
}

impl Bootstrap {
    fn interval(&self) -> Interval {
        let end = |level: f64| {
            let z = self.bias + normal().inverse_cdf(level);
            let quantile = normal().cdf(self.bias + z / (1.0 - self.acceleration * z));
            quantile_of_sorted(&self.drawn, quantile).unwrap_or(f64::NAN)
        };
        Interval { low: end(ALPHA / 2.0), high: end(1.0 - ALPHA / 2.0) }
    }

    /// Twice the level at which an end of the interval is at `unchanged`.
    fn p_value(&self, unchanged: f64) -> f64 {
        let z = normal().inverse_cdf(part_below(&self.drawn, unchanged)) - self.bias;
        let level = normal().cdf(z / (1.0 + self.acceleration * z) - self.bias);
        2.0 * level.min(1.0 - level)
    }
}

/// Which part of sorted values is below `value`, those equal to it counting half; never nothing or all.
fn part_below(sorted: &[f64], value: f64) -> f64 {
    let below = sorted.partition_point(|&other| other < value) as f64;
    let not_above = sorted.partition_point(|&other| other <= value) as f64;
    let count = sorted.len() as f64;
    ((below + not_above) / 2.0 / count).clamp(0.5 / count, 1.0 - 0.5 / count)
}

fn normal() -> Normal {
    Normal::standard()
}

fn students_t(pairs: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, pairs as f64 - 1.0).expect("positive degrees of freedom")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_deviate_by_nothing() {
        // The sum of eight of them is rounded.
        let value = 0.153_559_783_070_789_77;
        for count in 1..20 {
            assert_eq!(mean(&vec![value; count]), value);
        }
        let (first, second) = ([409688.6469515717; 8], [472600.1; 8]);
        let change = change(&first, &second);
        assert!(change.is_exact(), "{change:?}");
    }

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
        assert_eq!((change.difference_interval, change.ratio_interval, change.p_value), (None, None, None));
    }

    #[test]
    fn a_constant_shift_is_significant_although_seeds_differ_more() {
        let first = [10.0, 20.0, 30.0];
        let change = change(&first, &first.map(|v| v * 0.9));
        assert!(change.is_significant());
        let interval = change.ratio_interval.unwrap();
        assert!((interval.low - 0.9).abs() < 1e-12 && (interval.high - 0.9).abs() < 1e-12, "{interval:?}");
    }

    #[test]
    fn three_pairs_that_only_happen_to_agree_in_sign_get_no_mark() {
        let change = change(&[10.0, 10.0, 10.0], &[10.1, 10.2, 14.0]);
        assert!(!change.is_significant());
    }

    #[test]
    fn noise_of_equal_variants_is_rarely_marked() {
        let mut generator = Pcg64Mcg::new(7);
        let marked = (0..200)
            .filter(|_| {
                let mut draw = || (0..5).map(|_| generator.random::<f64>()).collect::<Vec<_>>();
                change(&draw(), &draw()).is_significant()
            })
            .count();
        assert!(marked <= 20, "{marked} of 200 marked, about 10 expected");
    }

    #[test]
    fn a_first_variant_of_zero_has_no_ratio() {
        let change = change(&[0.0, 0.0, 0.0], &[2.0, 2.0, 2.0]);
        assert_eq!((change.ratio, change.ratio_interval), (None, None));
        assert!(change.is_significant());
    }

    #[test]
    fn two_pairs_have_a_range_and_no_test() {
        let change = change(&[10.0, 20.0], &[11.0, 23.0]);
        assert_eq!(change.difference_interval, Some(Interval { low: 1.0, high: 3.0 }));
        assert!(change.p_value.is_none() && !change.is_significant());
    }

    #[test]
    fn student_s_t_is_that_of_the_tables() {
        // Differences 1 to 5: mean 3, standard error sqrt(2.5 / 5), t(4) = 2.776 for 95 %.
        let change = change(&[0.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let interval = change.difference_interval.unwrap();
        let reach = 2.776 * 0.5f64.sqrt();
        assert!((interval.low - (3.0 - reach)).abs() < 1e-3 && (interval.high - (3.0 + reach)).abs() < 1e-3);
        // t = 4.243 with 4 degrees of freedom.
        assert!((change.p_value.unwrap() - 0.0132).abs() < 1e-4);
    }

    #[test]
    fn bca_of_skewed_values_reaches_further_up() {
        let values: Vec<f64> = (0..30).map(|i| f64::from(i) / 10.0).map(f64::exp).collect();
        let mean = mean(&values);
        let interval = mean_interval(&values).unwrap();
        assert!(interval.high - mean > 1.1 * (mean - interval.low), "{interval:?} of {mean}");
    }

    #[test]
    fn the_p_value_of_bca_is_the_level_of_its_interval() {
        let first: Vec<f64> = (0..20).map(|i| f64::from(10 + i * 7 % 11)).collect();
        for shift in [0.0, 0.1, 0.2, 0.3, 0.4, 0.8] {
            let noise = (0..20).map(|i| f64::from(i * 13 % 17) / 10.0 - 0.8);
            let values: Vec<f64> = first.iter().zip(noise).map(|(a, noise)| a + noise + shift).collect();
            let change = change(&first, &values);
            let Interval { low, high } = change.ratio_interval.unwrap();
            let excluded = low > 1.0 || high < 1.0;
            assert_eq!(change.is_significant(), excluded, "{shift}: {change:?}");
        }
    }

    #[test]
    fn holm_gives_the_least_the_hardest_test() {
        assert_eq!(holm(&[0.03, 0.01, 0.04]), [0.06, 0.03, 0.06]);
        assert_eq!(holm(&[0.7, 0.6]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
