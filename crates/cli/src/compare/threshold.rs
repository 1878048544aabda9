//! `--fail-if`: the limit of a change from the first column, for scripts that stop at a regression.

use crate::failure::Failure;
use crate::number::change;
use crate::terminal;
use lab::comparison::Comparison;
use sim::metric::Metric;
use std::str::FromStr;

/// A metric and the change beyond which a comparison fails, such as `score < -2 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    metric: Metric,
    side: Side,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Above,
    Below,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// Relative to the first column's value.
    Percent(f64),
    /// In the metric's unit, or in percentage points.
    Difference(f64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let expected = "expected METRIC > CHANGE or METRIC < CHANGE, for example 'build_time > +2 %'";
        let at = text.find(['<', '>']).ok_or(expected)?;
        let (name, limit) = (text[..at].trim(), text[at + 1..].trim());
        let metric = Metric::find(name).ok_or_else(|| {
            let like = Metric::most_like(name);
            format!("{name}: no such metric; most like it: {like}; `mmtwin list metrics` has all")
        })?;
        let side = if text[at..].starts_with('>') { Side::Above } else { Side::Below };
        let number = limit.trim_end_matches('%').trim_end().parse::<f64>();
        let number = number.ok().filter(|number| number.is_finite()).ok_or(expected)?;
        let limit = if limit.ends_with('%') { Limit::Percent(number) } else { Limit::Difference(number) };
        let threshold = Threshold { metric, side, limit };
        match threshold.can_be_exceeded() {
            true => Ok(threshold),
            false => Err(format!(
                "{} is {}, so no change is beyond {}",
                metric.name,
                metric.bounds(),
                threshold.text()
            )),
        }
    }
}

/// Refuses a limit of a metric that `scenario` does not compare.
pub fn check<'a>(
    limits: &[Threshold],
    scenario: &str,
    metrics: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let metrics: Vec<&str> = metrics.collect();
    match limits.iter().find(|limit| !metrics.contains(&limit.metric.name)) {
        Some(Threshold { metric, .. }) => Err(Failure::input(format!(
            "--fail-if {}: {scenario} does not compare this metric; it compares {}",
            metric.name,
            metrics.join(", ")
        ))),
        None => Ok(()),
    }
}

/// Says which columns are beyond a limit, and fails if one is.
pub fn keep_within(limits: &[Threshold], comparisons: &[Comparison]) -> Result<(), Failure> {
    let beyond = |comparison| limits.iter().flat_map(move |limit| limit.exceeded(comparison));
    let lines: Vec<String> = comparisons.iter().flat_map(beyond).collect();
    lines.iter().for_each(terminal::say);
    if lines.is_empty() { Ok(()) } else { Err(Failure::Outside) }
}

impl Threshold {
    /// A line for each column whose change is beyond the limit. If there are enough seeds for a test, only significant changes
    /// count.
    fn exceeded(&self, comparison: &Comparison) -> Vec<String> {
        let beyond = |value: f64, limit: f64| match self.side {
            Side::Above => value > limit,
            Side::Below => value < limit,
        };
        let columns = comparison.variants.iter().filter_map(|variant| {
            let found = variant.metrics.get(self.metric.name)?.change?;
            let is_beyond = match self.limit {
                Limit::Percent(limit) => beyond(100.0 * (found.ratio? - 1.0), limit),
                Limit::Difference(limit) => beyond(found.difference, limit),
            };
            let by_chance = found.p_value.is_some() && !found.is_significant();
            let unit = match self.limit {
                Limit::Percent(_) => None,
                Limit::Difference(_) => Some(self.metric.unit_of_change().unwrap_or(self.metric.unit)),
            };
            (is_beyond && !by_chance).then(|| {
                let (value, interval) = change(&found, unit, "");
                let interval = interval.map_or(String::new(), |interval| format!(" {interval}"));
                format!(
                    "failed: {}: {} of {} changed by {value}{interval}",
                    self.text(),
                    self.metric.name,
                    variant.name
                )
            })
        });
        columns.collect()
    }

    /// Whether a change can be beyond the limit, the metric being within its bounds.
    fn can_be_exceeded(&self) -> bool {
        let (least, most) = (self.metric.kind.least(), self.metric.kind.most());
        match (self.limit, self.side) {
            // Where the least is 0, no more than all of it can be lost.
            (Limit::Percent(limit), Side::Below) => limit > -100.0 || least != Some(0.0),
            (Limit::Percent(_), Side::Above) => true,
            (Limit::Difference(limit), side) => least.zip(most).is_none_or(|(least, most)| match side {
                Side::Below => limit > least - most,
                Side::Above => limit < most - least,
            }),
        }
    }

    fn text(&self) -> String {
        let side = if self.side == Side::Above { '>' } else { '<' };
        match self.limit {
            Limit::Percent(limit) => format!("{} {side} {limit:+} %", self.metric.name),
            Limit::Difference(limit) => format!("{} {side} {limit:+}", self.metric.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_and_written() {
        for (text, written) in [
            ("build_time > +2 %", "build_time > +2 %"),
            ("score<-2%", "score < -2 %"),
            ("pcp_max > 100", "pcp_max > +100"),
            ("lock > 99.5", "lock > +99.5"),
            ("vmemmap_freed < -150 %", "vmemmap_freed < -150 %"),
        ] {
            assert_eq!(text.parse::<Threshold>().unwrap().text(), written);
        }
        for (text, says) in [
            ("build_time", "METRIC > CHANGE"),
            ("build_time > ", "METRIC > CHANGE"),
            ("build_time > inf %", "METRIC > CHANGE"),
            ("buildtime > 2 %", "build_time"),
            ("score < -100 %", "score is 0 and more"),
            ("lock > +100", "lock is 0 to 100"),
        ] {
            let error = text.parse::<Threshold>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
