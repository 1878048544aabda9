//! What of a comparison a table has to show so that no difference is lost.
//!
//! ```text
//!             score   pcp_max   alloc_p50
//!   pcp-base   410      24          0        shown
//!   patch1     410      24          0        left out: equal to pcp-base
//!   patch5     432      24          0        shown
//!                └ shown           └ left out: empty
//!                         └ left out: no variant changes it
//! ```
//!
//! Equal means the same value with every seed, to the last digit. The judged metric is always shown: that it did not move is an answer.
//! Documents have all variants and metrics, whatever a table leaves out.

use super::{Comparison, VariantSummary};
use sim::metric::Metric;

/// What is shown of a comparison, and what is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown<'a> {
    pub variants: Vec<&'a VariantSummary>,
    pub metrics: Vec<Metric>,
    /// Variants that are left out, in the order of the table.
    pub equal: Vec<Equal<'a>>,
    /// Metrics that are left out because they are zero in all variants.
    pub empty: Vec<Metric>,
    /// Metrics that are left out because all variants have the first one's values.
    pub unchanged: Vec<Metric>,
}

/// Variants that follow each other, and have the values of the one before them.
#[derive(Clone, Debug, PartialEq)]
pub struct Equal<'a> {
    pub names: Vec<&'a str>,
    pub to: &'a str,
}

impl<'a> Shown<'a> {
    /// Everything that some run has of these metrics.
    pub fn all(comparison: &'a Comparison, metrics: &[Metric]) -> Shown<'a> {
        let variants: Vec<&VariantSummary> = comparison.variants.iter().collect();
        let metrics = metrics.iter().filter(|metric| is_measured(&variants, metric)).copied().collect();
        Shown { variants, metrics, equal: Vec::new(), empty: Vec::new(), unchanged: Vec::new() }
    }

    /// What differs in these metrics.
    pub fn differing(comparison: &'a Comparison, metrics: &[Metric]) -> Shown<'a> {
        let all = Shown::all(comparison, metrics);
        let is_judged = |metric: &Metric| comparison.judged.as_deref() == Some(metric.name);
        let (mut kept, mut empty, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
        for metric in &all.metrics {
            let values = |variant: &VariantSummary| values(variant, metric).map(<[f64]>::to_vec);
            let first = all.variants.first().and_then(|variant| values(variant));
            let is_zero =
                all.variants.iter().filter_map(|variant| values(variant)).flatten().all(|v| v == 0.0);
            let is_same =
                all.variants.len() > 1 && all.variants.iter().all(|variant| values(variant) == first);
            match () {
                () if is_judged(metric) => kept.push(*metric),
                () if is_zero => empty.push(*metric),
                () if is_same => unchanged.push(*metric),
                () => kept.push(*metric),
            }
        }
        let (variants, equal) = differing_variants(&all.variants, &all.metrics);
        Shown { variants, metrics: kept, equal, empty, unchanged }
    }
}

/// Variants that differ from the one before them, and those that do not.
fn differing_variants<'a>(
    all: &[&'a VariantSummary],
    metrics: &[Metric],
) -> (Vec<&'a VariantSummary>, Vec<Equal<'a>>) {
    let mut shown: Vec<&VariantSummary> = Vec::new();
    let mut equal: Vec<Equal> = Vec::new();
    for variant in all {
        let last = shown
            .last()
            .filter(|last| metrics.iter().all(|metric| values(last, metric) == values(variant, metric)));
        match (last, equal.last_mut()) {
            (None, _) => shown.push(variant),
            (Some(last), Some(run)) if run.to == last.name => run.names.push(&variant.name),
            (Some(last), _) => equal.push(Equal { names: vec![&variant.name], to: &last.name }),
        }
    }
    (shown, equal)
}

fn values<'a>(variant: &'a VariantSummary, metric: &Metric) -> Option<&'a [f64]> {
    variant.metrics.get(metric.name).map(|summary| summary.values.as_slice())
}

fn is_measured(variants: &[&VariantSummary], metric: &Metric) -> bool {
    variants.iter().any(|variant| variant.metrics.contains_key(metric.name))
}

#[cfg(test)]
mod tests {
    use super::super::tests::arbitrary;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is left out can be read off what is shown.
        #[test]
        fn nothing_that_differs_is_left_out(comparison in arbitrary()) {
            let shown = Shown::differing(&comparison, &comparison.metrics);
            let is_shown = |name: &str| shown.variants.iter().any(|variant| variant.name == name);
            for pair in comparison.variants.windows(2) {
                let same = comparison.metrics.iter().all(|metric| values(&pair[0], metric) == values(&pair[1], metric));
                prop_assert_eq!(is_shown(&pair[1].name), !same);
            }
            prop_assert!(is_shown(&comparison.variants[0].name));
            for Equal { names, to } in &shown.equal {
                prop_assert!(is_shown(to) && names.iter().all(|name| !is_shown(name)));
            }
            for metric in &comparison.metrics {
                let first = values(&comparison.variants[0], metric);
                let differs = comparison.variants.iter().any(|variant| values(variant, metric) != first);
                let kept = shown.metrics.contains(metric);
                prop_assert!(kept || !differs, "{} differs", metric.name);
                let places = [&shown.metrics, &shown.empty, &shown.unchanged].map(|list| list.contains(metric));
                prop_assert_eq!(places.iter().filter(|there| **there).count(), 1);
                prop_assert!(kept || comparison.judged.as_deref() != Some(metric.name));
            }
        }
    }

    #[test]
    fn equal_variants_are_told_of_the_one_before_them() {
        let values = [("pcp-base", 1.0), ("patch1", 1.0), ("patch2", 1.0), ("patch5", 2.0), ("patch6", 2.0)];
        let comparison = super::super::tests::alike(&values);
        let shown = Shown::differing(&comparison, &comparison.metrics);
        let equal: Vec<(Vec<&str>, &str)> =
            shown.equal.into_iter().map(|equal| (equal.names, equal.to)).collect();
        assert_eq!(equal, [(vec!["patch1", "patch2"], "pcp-base"), (vec!["patch6"], "patch5")]);
        assert_eq!(
            shown.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(),
            ["pcp-base", "patch5"]
        );
    }
}
