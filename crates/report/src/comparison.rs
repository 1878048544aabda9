//! The page of a comparison: the judged metric with intervals, all that differs, where the time went, how it came about over virtual time,
//! and the tails.
//!
//! Charts show the variants that differ from the one before them, as tables do; the sentence about what is left out names the others.

mod time;

use crate::chart::{Axis, Chart, Drawing, Heat, Line, Lines, Measure, Point, Scale, Span, Spans};
use crate::number::{Told, percent, quantity, title};
use crate::page::{Cell, Data, Part, Section, Table, Tone};
use crate::series;
use lab::comparison::shown::Shown;
use lab::comparison::verdict::is_better;
use lab::comparison::{Comparison, MetricSummary, VariantSummary};
use lab::results::Record;
use sim::metric::Metric;
use std::collections::BTreeMap;

/// A comparison and the runs that it is of; of documents none, of results directories those of the first seed.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    pub comparison: &'a Comparison,
    /// What may be shown of it, in this order; the judged metric comes first.
    pub metrics: &'a [Metric],
    /// What is shown: charts and the table have this, the folded table has all.
    pub shown: &'a Shown<'a>,
    pub records: &'a [Record],
    /// What a reader of the table has to know, a sentence or two each.
    pub notes: &'a [String],
}

/// Variants of which charts show how their runs went: more lines nobody tells apart.
const VARIANTS: usize = 24;
/// Points of a line that a chart has at most.
const SAMPLES: usize = 250;

impl Compared<'_> {
    /// Its sections.
    pub fn sections(&self) -> Vec<Section> {
        [self.differences()].into_iter().chain(self.course()).collect()
    }

    /// How the runs went: where the time went, over virtual time, the tails.
    pub fn course(&self) -> Vec<Section> {
        let charts = |title: &str, charts: Vec<Chart>| Section {
            title: title.into(),
            parts: charts.into_iter().map(Part::Chart).collect(),
        };
        let sections = [
            charts("Where CPU time went", self.time()),
            charts("Over virtual time", self.series()),
            charts("Latencies, with their tails", self.tails()),
            charts("Who touched and who scanned", self.heat()),
        ];
        sections.into_iter().filter(|section| !section.parts.is_empty()).collect()
    }

    /// All figures, a line for each variant, metric and seed.
    pub fn data(&self) -> Data {
        let mut data = Data::of(&["scenario", "machine", "variant", "metric", "unit", "seed", "value"]);
        for variant in &self.comparison.variants {
            for metric in &self.comparison.metrics {
                let values = variant.metrics.get(metric.name).into_iter().flat_map(|summary| &summary.values);
                for (seed, value) in self.comparison.seeds.iter().zip(values) {
                    let Comparison { scenario, machine, .. } = self.comparison;
                    let texts = [scenario, machine, &variant.name, metric.name, metric.unit];
                    let texts = texts.map(String::from).into_iter();
                    data.rows.push(texts.chain([seed.to_string(), value.to_string()]).collect());
                }
            }
        }
        data
    }

    fn differences(&self) -> Section {
        let is_judged = |metric: &Metric| self.comparison.judged.as_deref() == Some(metric.name);
        let mut metrics: Vec<&Metric> = self.shown.metrics.iter().collect();
        metrics.sort_by_key(|metric| !is_judged(metric));
        let mut charts = metrics.into_iter().map(|metric| Part::Chart(spans(self.shown, metric)));
        let mut parts: Vec<Part> = charts.next().into_iter().collect();
        parts.push(Part::Table(table(self.shown)));
        parts.extend(self.notes.iter().cloned().map(Part::Text));
        parts.extend(charts);
        let all = Shown::all(self.comparison, self.metrics);
        parts.push(Part::Table(figures(&all)));
        Section { title: "What differs".into(), parts }
    }

    /// The first record of each variant that is shown, of the first [`VARIANTS`] of them.
    fn first_records(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.shown.variants.iter().take(VARIANTS).filter_map(|variant| {
            let record = self.records.iter().find(|record| record.identity == variant.first_run)?;
            Some((variant.name.as_str(), record))
        })
    }

    fn first_seed(&self) -> String {
        self.comparison.seeds.first().map_or(String::new(), |seed| format!("seed {seed}"))
    }

    /// A chart for each series that some run sampled.
    fn series(&self) -> Vec<Chart> {
        let mut lines: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
        let mut page_bytes = 4096;
        for (variant, record) in self.first_records() {
            page_bytes = record.run.machine.page_size.kib() * 1024;
            let mut own: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
            for point in &record.series {
                let (_, times) = series::measure(series::unit_of(&point.name), page_bytes);
                own.entry(&point.name).or_default().push(Point::at(point.seconds, point.value * times));
            }
            for (name, points) in own {
                lines.entry(name).or_default().push(Line { name: variant.into(), points: few(points) });
            }
        }
        let is_empty =
            |lines: &Vec<Line>| lines.iter().flat_map(|line| &line.points).all(|point| point.y == 0.0);
        let drawn = lines.into_iter().filter(|(_, lines)| !is_empty(lines));
        drawn.map(|(name, lines)| self.over_time(name, lines, page_bytes)).collect()
    }

    fn over_time(&self, name: &str, lines: Vec<Line>, page_bytes: u64) -> Chart {
        let title = series::title_of(name);
        let axis = |title: &str, measure| Axis { title: title.into(), measure, scale: Scale::Linear };
        let drawing = Lines {
            x: axis("virtual time", Measure::Seconds),
            y: axis("", series::measure(series::unit_of(name), page_bytes).0),
            y_ends: None,
            lines,
        };
        let caption = format!(
            "{title} over virtual time since boot, warm-up included, {}; at most {SAMPLES} samples a line.",
            self.first_seed()
        );
        Chart { title, caption, drawing: Drawing::Lines(drawing) }
    }

    /// For each histogram, which part of all was slower than a time.
    fn tails(&self) -> Vec<Chart> {
        let mut lines: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
        for (variant, record) in self.first_records() {
            for (name, buckets) in &record.histograms {
                let points = slower(buckets);
                if !points.is_empty() {
                    lines.entry(name).or_default().push(Line { name: variant.into(), points });
                }
            }
        }
        let chart = |(name, lines): (&str, Vec<Line>)| {
            let axis =
                |title: &str, measure| Axis { title: title.into(), measure, scale: Scale::Logarithmic };
            let drawing = Lines {
                x: axis("latency", Measure::Seconds),
                y: axis("part of those recorded that took longer", Measure::Fraction),
                y_ends: None,
                lines,
            };
            let caption = format!(
                "Histogram {name}, {}: which part of what was recorded took longer than the time below. Further down and further left is better.",
                self.first_seed()
            );
            Chart { title: name.into(), caption, drawing: Drawing::Lines(drawing) }
        };
        lines.into_iter().map(chart).collect()
    }

    /// For each variant with a heat map of areas, who touched and who scanned.
    fn heat(&self) -> Vec<Chart> {
        let of = |(variant, record): (&str, &Record)| {
            let has_areas = !record.areas.is_empty();
            has_areas.then(|| heat_of(variant, record, &self.first_seed()))
        };
        self.first_records().filter_map(of).flatten().collect()
    }
}

/// Evenly spaced points of many, the first and the last among them.
fn few(points: Vec<Point>) -> Vec<Point> {
    match points.len() {
        all if all <= SAMPLES => points,
        all => (0..SAMPLES).map(|at| points[at * (all - 1) / (SAMPLES - 1)]).collect(),
    }
}

/// What part of a histogram is above each upper bound of a bucket (in nanoseconds), by the bound in seconds.
fn slower(buckets: &[(f64, u64)]) -> Vec<Point> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut above = all;
    let mut points = Vec::new();
    for &(upper, count) in buckets {
        points.push(Point::at(upper * 1e-9, above as f64 / all as f64));
        above -= count;
    }
    few(points)
}

/// Means of a metric with their intervals.
fn spans(shown: &Shown, metric: &Metric) -> Chart {
    let (measure, times) = crate::chart::of_metric(metric);
    // Of few seeds an interval may reach where no value can be.
    let least = metric.kind.least().unwrap_or(f64::MIN);
    let most = metric.kind.most().unwrap_or(f64::MAX);
    let span = |variant: &&VariantSummary| {
        let summary = variant.metrics.get(metric.name)?;
        Some(Span {
            name: variant.name.clone(),
            mean: summary.mean * times,
            interval: summary
                .interval
                .map(|interval| (interval.low.max(least) * times, interval.high.min(most) * times)),
            label: label(summary, metric),
        })
    };
    let axis = Axis { title: String::new(), measure, scale: Scale::Linear };
    Chart {
        title: metric.label.into(),
        caption: format!("{}: {}. {}.", metric.label, metric.description, better(metric)),
        drawing: Drawing::Spans(Spans { axis, spans: shown.variants.iter().filter_map(span).collect() }),
    }
}

fn better(metric: &Metric) -> String {
    match metric.better {
        sim::metric::Better::Neutral => "Neither more nor less of it is better: it explains".into(),
        way => format!("{}{} is better", way.name()[..1].to_uppercase(), &way.name()[1..]),
    }
}

/// Mean and change in words.
fn label(summary: &MetricSummary, metric: &Metric) -> String {
    let mean = quantity(summary.mean, metric);
    match &summary.change {
        Some(change) => format!("{mean}  {}", told(change, summary, metric)),
        None => mean,
    }
}

fn told(change: &lab::statistics::Change, summary: &MetricSummary, metric: &Metric) -> String {
    let Told { value, reach, .. } = Told::of(change, metric);
    let reach = reach.map_or(String::new(), |reach| format!(" ±{reach}"));
    let mark = if counts(summary) { " *" } else { "" };
    format!("{value}{reach}{mark}")
}

fn counts(summary: &MetricSummary) -> bool {
    summary.verdict.is_some_and(|tested| tested.counts())
}

/// A line for each variant.
fn table(shown: &Shown) -> Table {
    let mut header = vec![String::new()];
    header.extend(shown.metrics.iter().map(title));
    let cell = |variant: &VariantSummary, metric: &Metric| {
        let Some(summary) = variant.metrics.get(metric.name) else { return Cell::from("-") };
        let note = summary.change.as_ref().map(|change| told(change, summary, metric));
        let good = summary.change.and_then(|change| is_better(metric, change.difference));
        let tone = match good {
            Some(true) if counts(summary) => Tone::Good,
            Some(false) if counts(summary) => Tone::Bad,
            _ => Tone::Plain,
        };
        Cell { text: quantity(summary.mean, metric), note: note.unwrap_or_default(), tone }
    };
    let row = |variant: &&VariantSummary| {
        let cells = shown.metrics.iter().map(|metric| cell(variant, metric));
        [Cell::from(variant.name.as_str())].into_iter().chain(cells).collect()
    };
    Table {
        caption: "What differs between variants".into(),
        header,
        rows: shown.variants.iter().map(row).collect(),
        is_folded: false,
    }
}

/// All figures with intervals, a line for each variant and metric.
fn figures(shown: &Shown) -> Table {
    let header = [
        "variant",
        "metric",
        "mean",
        "95 % interval",
        "change",
        "interval of the change",
        "adjusted p-value",
    ];
    let mut rows = Vec::new();
    for variant in &shown.variants {
        for metric in &shown.metrics {
            let Some(summary) = variant.metrics.get(metric.name) else { continue };
            let interval = summary.interval.map(|interval| {
                format!("{} to {}", quantity(interval.low, metric), quantity(interval.high, metric))
            });
            let told = summary.change.as_ref().map(|change| Told::of(change, metric));
            let (change, of_change) = told.map_or((None, None), |told| (Some(told.value), told.interval));
            let p = summary.verdict.map(|tested| format!("{:.2}", percent(tested.adjusted_p_value)));
            let texts = [Some(quantity(summary.mean, metric)), interval, change, of_change, p];
            let texts = texts.map(|text| Cell::from(text.unwrap_or("-".into())));
            let names = [Cell::from(variant.name.as_str()), Cell::from(title(metric))];
            rows.push(names.into_iter().chain(texts).collect());
        }
    }
    Table {
        caption: "All variants and metrics, with intervals".into(),
        header: header.map(String::from).into(),
        rows,
        is_folded: true,
    }
}

/// Threads from left to right, areas from above: pages touched, and pages scanned.
fn heat_of(variant: &str, record: &Record, seed: &str) -> [Chart; 2] {
    let threads = record.areas.iter().flat_map(|area| &area.threads).map(|heat| heat.thread as usize + 1);
    let columns: Vec<String> = (0..threads.max().unwrap_or(0)).map(|thread| thread.to_string()).collect();
    let page_bytes = record.run.machine.page_size.kib() * 1024;
    let name = |area: &sim::outcome::AreaHeat| {
        format!("process {}, {:#x}, {} KiB", area.process, area.address, area.pages * page_bytes / 1024)
    };
    let rows: Vec<String> = record.areas.iter().map(name).collect();
    let chart = |what: &str, of: fn(&sim::outcome::ThreadHeat) -> u64| {
        let cells = record.areas.iter().enumerate().flat_map(|(row, area)| {
            let cell = move |heat: &sim::outcome::ThreadHeat| (row, heat.thread as usize, of(heat) as f64);
            area.threads.iter().map(cell).filter(|(.., pages)| *pages > 0.0)
        });
        let cells: Vec<(usize, usize, f64)> = cells.collect();
        let heat = Heat {
            x: "thread".into(),
            shade: format!("pages {what}"),
            most: cells.iter().map(|(.., pages)| *pages).fold(0.0, f64::max),
            rows: rows.clone(),
            named: columns.clone(),
            columns: columns.clone(),
            cells,
        };
        Chart {
            title: format!("Pages {what}: {variant}"),
            caption: format!("Pages that each thread {what} in each area, {variant}, {seed}."),
            drawing: Drawing::Heat(heat),
        }
    };
    [chart("touched", |heat| heat.touched), chart("scanned", |heat| heat.scanned)]
}
