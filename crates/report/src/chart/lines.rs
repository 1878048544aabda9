//! Lines over an axis, each named at its end.
//!
//! ```text
//!     │  ____────── pcp-base, patch1   lines that are the same have one label
//!     │ /  ____──── patch9             labels that would lie on each other are moved apart, with a rule to the line's end
//!     └──────────
//! ```
//!
//! A line that lies on another hides it. So the first is the widest and each later one is thinner: whatever lies below shows on
//! both sides of what lies above, and all names are in the label.

use super::axis::{Axis, Scale};
use super::{WIDTH, labels, palette, rounded};
use serde_json::{Value, json};

const HEIGHT: f64 = 260.0;
/// What the vertical axis spans at least, as a part of the largest value.
const LEAST_RANGE: f64 = 0.02;

/// Width of the first line and of the last one of several, in pixels.
const WIDEST: f64 = 5.0;
const THINNEST: f64 = 1.5;

/// Lines over an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    /// Ends of the vertical axis if the values are not to decide.
    pub y_ends: Option<(f64, f64)>,
    pub lines: Vec<Line>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<Point>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Where the value may be as well.
    pub interval: Option<(f64, f64)>,
}

impl Point {
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, y, interval: None }
    }

    /// Whether it can be drawn on these axes.
    fn is_drawable(&self, lines: &Lines) -> bool {
        fits(self.x, &lines.x) && fits(self.y, &lines.y)
    }
}

impl Lines {
    pub(super) fn spec(&self) -> Value {
        let drawn = self.drawable();
        let all = || drawn.iter().flat_map(|line| &line.points);
        let (x_low, x_high) = ends(all().map(|point| point.x));
        let bounds = all().flat_map(|point| point.interval.map_or([point.y; 2], |(low, high)| [low, high]));
        let (y_low, y_high) = self.y_ends.unwrap_or_else(|| wide(ends(bounds), self.y.scale));
        let (x, y) = (self.x.over(x_low, x_high), self.y.over(y_low, y_high));
        let (x_field, y_field) = (x.encoding("x"), y.encoding("y"));
        let by_line = by_line(&drawn);
        let mut layers = vec![json!({
            "data": { "values": points(&drawn) },
            "mark": { "type": "line", "clip": true, "point": all().count() <= drawn.len() },
            "encoding": {
                "x": x_field, "y": y_field, "color": by_line[0], "strokeDash": by_line[1], "strokeWidth": by_line[2],
            },
        })];
        let intervals = intervals(&drawn);
        if !intervals.is_empty() {
            layers.push(json!({
                "data": { "values": intervals },
                "mark": { "type": "rule", "opacity": 0.6 },
                "encoding": { "x": x_field, "y": y_field, "y2": { "field": "to" }, "color": by_line[0] },
            }));
        }
        let height = |point: &Point| (1.0 - y.place(point.y)) * HEIGHT;
        let labels = labels_of(&drawn, |point| [x.place(point.x) * WIDTH, height(point)]);
        layers.push(json!({
            "data": { "values": labels },
            "mark": { "type": "rule", "strokeWidth": 1.5, "opacity": 0.8 },
            "encoding": {
                "x": pixels("x"), "x2": { "value": WIDTH + 14.0 }, "y": pixels("y"), "y2": { "field": "label_y" },
                "color": by_line[0],
            },
        }));
        layers.push(json!({
            "data": { "values": labels },
            "mark": { "type": "text", "align": "left", "baseline": "middle", "dx": 18 },
            "encoding": { "x": { "value": WIDTH }, "y": pixels("label_y"), "text": { "field": "label" } },
        }));
        json!({ "width": WIDTH, "height": HEIGHT, "layer": layers })
    }

    /// The lines without points that their axes do not have.
    fn drawable(&self) -> Vec<Line> {
        let of = |line: &Line| {
            let points = line.points.iter().filter(|point| point.is_drawable(self));
            let with_interval = |point: &Point| Point {
                interval: point.interval.filter(|&(low, high)| fits(low, &self.y) && fits(high, &self.y)),
                ..*point
            };
            Line { name: line.name.clone(), points: points.map(with_interval).collect() }
        };
        self.lines.iter().map(of).filter(|line| !line.points.is_empty()).collect()
    }
}

/// Whether an axis has a value.
fn fits(value: f64, axis: &Axis) -> bool {
    value.is_finite() && (axis.scale == Scale::Linear || value > 0.0)
}

/// A field that is in pixels already.
fn pixels(field: &str) -> Value {
    json!({ "field": field, "type": "quantitative", "scale": null, "axis": null })
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Ends far enough apart that what hardly changes looks so.
fn wide((low, high): (f64, f64), scale: Scale) -> (f64, f64) {
    let (middle, half) = ((low + high) / 2.0, low.abs().max(high.abs()) * LEAST_RANGE / 2.0);
    match scale {
        Scale::Linear if high - low < 2.0 * half => (middle - half, middle + half),
        _ => (low, high),
    }
}

/// Colour, dash and width of each line.
fn by_line(lines: &[Line]) -> [Value; 3] {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let last = lines.len().saturating_sub(1).max(1) as f64;
    let widths = (0..lines.len()).map(|at| WIDEST - (WIDEST - THINNEST) * at as f64 / last);
    let widths: Vec<f64> = if lines.len() == 1 { vec![2.0] } else { widths.collect() };
    let colours: Vec<&str> = (0..lines.len()).map(palette::colour).collect();
    let dashes: Vec<&[u32]> = (0..lines.len()).map(palette::dash).collect();
    [json!(colours), json!(dashes), json!(widths)].map(|range| {
        json!({ "field": "of", "type": "ordinal", "legend": null, "scale": { "domain": names, "range": range } })
    })
}

fn points(lines: &[Line]) -> Vec<Value> {
    let of = |line: &Line| -> Vec<Value> {
        let point = |point: &Point| json!({ "of": line.name, "x": rounded(point.x), "y": rounded(point.y) });
        line.points.iter().map(point).collect()
    };
    lines.iter().flat_map(of).collect()
}

fn intervals(lines: &[Line]) -> Vec<Value> {
    let of = |line: &Line| -> Vec<Value> {
        let interval = |point: &Point| {
            let (low, high) = point.interval?;
            Some(json!({ "of": line.name, "x": rounded(point.x), "y": rounded(low), "to": rounded(high) }))
        };
        line.points.iter().filter_map(interval).collect()
    };
    lines.iter().flat_map(of).collect()
}

/// One label for lines that are the same, beside where they end.
fn labels_of(lines: &[Line], place: impl Fn(&Point) -> [f64; 2]) -> Vec<Value> {
    let mut groups: Vec<Vec<&Line>> = Vec::new();
    for line in lines {
        match groups.iter_mut().find(|group| group[0].points == line.points) {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    let ends: Vec<[f64; 2]> = groups.iter().filter_map(|group| group[0].points.last()).map(place).collect();
    let heights: Vec<f64> = ends.iter().map(|&[_, y]| y).collect();
    let moved = labels::apart(&heights, HEIGHT);
    let label = |((group, [x, y]), label_y): ((&Vec<&Line>, &[f64; 2]), f64)| {
        let names: Vec<&str> = group.iter().map(|line| line.name.as_str()).collect();
        json!({
            "of": group[0].name, "label": labels::joined(&names),
            "x": rounded(*x), "y": rounded(*y), "label_y": rounded(label_y),
        })
    };
    groups.iter().zip(&ends).zip(moved).map(label).collect()
}
