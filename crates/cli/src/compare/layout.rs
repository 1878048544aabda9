//! The table of a comparison: one line for each variant or one for each metric, whichever takes fewer lines, and records where nobody
//! looks at a terminal.
//!
//! ```text
//!   a variant a line                               a metric a line                    a record a line
//!             score           in PCP, maximum              pcp-base   patch9          variant   metric   mean ...
//!   pcp-base  410 k/s         24 MiB               score   410 k/s    535 k/s +30.7 % pcp-base  score    410 k/s
//!   patch9    535 k/s +30.7 % 1388 MiB 58x         in PCP  24 MiB     1388 MiB    58x pcp-base  pcp_max  24 MiB
//! ```
//!
//! Each cell is one line: the mean, the change against the first variant, how far its interval reaches, and the mark. Columns that do
//! not fit beside each other come below, each with the whole of its rows. Records are aligned with two spaces or more between fields, and
//! `-` for none, so that `grep` and `awk -F '  +'` find their way.

use super::{Tone, tone_of};
use crate::number::{Told, quantity, title};
use crate::table::{Entry, Grid, folded};
use lab::comparison::shown::Shown;
use lab::comparison::{MetricSummary, VariantSummary};
use sim::metric::Metric;

/// What a relevant and significant change of the judged metric is marked with.
const MARK: &str = "*";

/// A cell before it is known how wide its column is.
struct Parts {
    /// Mean, change, reach and mark.
    texts: [String; 4],
    tone: Tone,
}

/// The table for a terminal of this width.
pub fn table(shown: &Shown, width: usize) -> String {
    let by_metric = by_metric(shown).render_for(width);
    let by_variant = by_variant(shown).render_for(width);
    // Of a metric in a line one sees all that a variant does.
    if by_metric.lines().count() <= by_variant.lines().count() && widest(&by_metric) <= width {
        by_metric
    } else {
        by_variant
    }
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn by_variant(shown: &Shown) -> Grid {
    let mut header = vec![String::new()];
    let mut columns = Vec::new();
    for metric in &shown.metrics {
        let cells = aligned(shown.variants.iter().map(|variant| parts(variant, metric)).collect());
        let cell_width = cells.iter().map(|cell| cell.text.chars().count()).max().unwrap_or(0);
        header.push(folded(&title(metric), cell_width));
        columns.push(cells);
    }
    let mut grid = Grid { header, is_padded: true, ..Grid::default() };
    for (at, variant) in shown.variants.iter().enumerate() {
        let cells = columns.iter().map(|cells| cells[at].clone());
        grid.row([Entry::from(variant.name.clone())].into_iter().chain(cells));
    }
    grid
}

fn by_metric(shown: &Shown) -> Grid {
    let columns: Vec<Vec<Entry>> = shown
        .variants
        .iter()
        .map(|variant| aligned(shown.metrics.iter().map(|metric| parts(variant, metric)).collect()))
        .collect();
    let header =
        std::iter::once(String::new()).chain(shown.variants.iter().map(|variant| variant.name.clone()));
    let mut grid = Grid { header: header.collect(), is_padded: true, ..Grid::default() };
    for (at, metric) in shown.metrics.iter().enumerate() {
        let cells = columns.iter().map(|cells| cells[at].clone());
        grid.row([Entry::from(title(metric))].into_iter().chain(cells));
    }
    grid
}

fn parts(variant: &VariantSummary, metric: &Metric) -> Parts {
    let Some(summary) = variant.metrics.get(metric.name) else {
        return Parts { texts: ["-".into(), String::new(), String::new(), String::new()], tone: Tone::Plain };
    };
    let mut texts = [quantity(summary.mean, metric), String::new(), String::new(), String::new()];
    let mut tone = Tone::Plain;
    if let Some(change) = &summary.change {
        let told = Told::of(change, metric);
        texts[1] = told.value;
        texts[2] = told.reach.map_or(String::new(), |reach| format!("±{reach}"));
        if is_marked(summary) {
            texts[3] = MARK.into();
            tone = tone_of(metric, change.difference);
        }
    }
    Parts { texts, tone }
}

fn is_marked(summary: &MetricSummary) -> bool {
    summary.verdict.is_some_and(|tested| tested.counts())
}

/// The cells of a column: means and changes end below each other, intervals begin below each other.
fn aligned(cells: Vec<Parts>) -> Vec<Entry> {
    let widths: [usize; 4] = std::array::from_fn(|part| {
        cells.iter().map(|cell| cell.texts[part].chars().count()).max().unwrap_or(0)
    });
    let cell = |Parts { texts, tone }: Parts| {
        let mut text = String::new();
        for (part, (own, width)) in texts.iter().zip(widths).enumerate().filter(|(_, (_, width))| *width > 0)
        {
            let space = if text.is_empty() { "" } else { " " };
            text += space;
            text += &match part {
                0 | 1 => format!("{own:>width$}"),
                _ => format!("{own:<width$}"),
            };
        }
        Entry { text: text.trim_end().into(), tone }
    };
    cells.into_iter().map(cell).collect()
}

/// A line for each variant and metric.
pub fn records(shown: &Shown) -> String {
    let header = ["variant", "metric", "mean", "interval", "change", "interval of change", "mark"];
    let mut lines = vec![header.map(String::from)];
    for variant in &shown.variants {
        for metric in &shown.metrics {
            if let Some(summary) = variant.metrics.get(metric.name) {
                lines.push(record(&variant.name, metric, summary));
            }
        }
    }
    let widths: [usize; 7] =
        std::array::from_fn(|field| lines.iter().map(|line| line[field].chars().count()).max().unwrap_or(0));
    let line = |fields: &[String; 7]| {
        let padded = fields.iter().zip(widths).map(|(field, width)| format!("{field:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn record(variant: &str, metric: &Metric, summary: &MetricSummary) -> [String; 7] {
    let none = || "-".to_string();
    let interval = summary
        .interval
        .map(|interval| format!("[{}, {}]", quantity(interval.low, metric), quantity(interval.high, metric)));
    let told = summary.change.as_ref().map(|change| Told::of(change, metric));
    let (change, of_change) = told.map_or((None, None), |told| (Some(told.value), told.interval));
    [
        variant.into(),
        metric.name.into(),
        quantity(summary.mean, metric),
        interval.unwrap_or_else(none),
        change.unwrap_or_else(none),
        of_change.unwrap_or_else(none),
        if is_marked(summary) { MARK.into() } else { none() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::statistics::change;
    use sim::metric::{
        ALLOC_P99, ALLOC_ZONE, BUILD_TIME, FREE_HIGH, LOCK, MEMORY_MAX, PCP_END, PCP_MAX, ZONE_LOCK,
    };
    use std::collections::BTreeMap;

    const METRICS: [Metric; 9] =
        [BUILD_TIME, ZONE_LOCK, LOCK, FREE_HIGH, ALLOC_ZONE, PCP_MAX, PCP_END, MEMORY_MAX, ALLOC_P99];

    /// A variant whose metrics are so many times those of a kernel build.
    fn variant(name: &str, times: f64) -> VariantSummary {
        let base = [8.9451, 43.1656, 43.6773, 736.3, 22_186_467.0, 211.09, 102.4, 4442.2, 529_268.7];
        let metrics = METRICS.iter().zip(base).map(|(metric, base)| {
            let first = [0.99, 1.0, 1.01].map(|seed| base * seed);
            let values = [0.985, 1.0, 1.02].map(|seed| base * seed * times);
            let summary = MetricSummary {
                mean: values[1],
                interval: None,
                values: values.into(),
                change: (times != 1.0).then(|| change(&first, &values)),
                verdict: None,
            };
            (metric.name.to_string(), summary)
        });
        let metrics: BTreeMap<String, MetricSummary> = metrics.collect();
        VariantSummary {
            name: name.into(),
            variant: name.into(),
            levels: BTreeMap::new(),
            metrics,
            cpu_seconds: BTreeMap::new(),
            first_run: String::new(),
        }
    }

    fn all_of(variants: &[VariantSummary]) -> Shown<'_> {
        Shown {
            variants: variants.iter().collect(),
            metrics: METRICS.into(),
            equal: Vec::new(),
            empty: Vec::new(),
            unchanged: Vec::new(),
        }
    }

    #[test]
    fn many_variants_of_many_metrics_fit_every_width() {
        let variants: Vec<VariantSummary> =
            (0..13).map(|at| variant(&format!("mainline-6.{at}"), 1.0 + f64::from(at) / 2.0)).collect();
        let shown = all_of(&variants);
        for width in [60, 80, 100, 120, 200] {
            let text = table(&shown, width);
            assert!(widest(&text) <= width, "{width}:\n{text}");
        }
        // Of the 13 variants of `kbuild` nine differ from the one before; with the sentences around it, some 16 lines, that is
        // less than 60.
        let nine = Shown { variants: variants.iter().take(9).collect(), ..shown.clone() };
        let lines = table(&nine, 120).lines().count();
        assert!(lines <= 40, "{lines}");
        let records = records(&shown);
        assert_eq!(records.lines().count(), 1 + 13 * 9);
        assert!(records.lines().all(|line| line.split("  ").filter(|field| !field.is_empty()).count() == 7));
    }

    #[test]
    fn two_variants_are_two_columns() {
        let variants = [variant("6.12", 1.0), variant("6.18", 6.0)];
        let shown = all_of(&variants);
        let text = table(&shown, 80);
        assert_eq!(text.lines().count(), 2 + METRICS.len(), "{text}");
        let pcp = text.lines().find(|line| line.contains("in PCP, maximum")).unwrap();
        assert!(pcp.contains("211 MiB") && pcp.contains("1267 MiB") && pcp.contains("6.01x ±"), "{pcp}");
    }
}
