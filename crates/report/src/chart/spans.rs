//! A mean and its interval for each variant, the value in words beside it.
//!
//! ```text
//!   pcp-base   ─┼─                        410 k/s
//!   patch9            ┊        ─┼─        535 k/s  +30.7 % *
//!                     └ the first one's mean
//! ```
//!
//! The axis begins at 0 unless that would make all alike; then its title says so.

use super::axis::{Axis, Scale};
use super::{WIDTH, palette, rounded};
use serde_json::{Value, json};

/// Height of a row, in pixels.
const ROW: f64 = 24.0;

/// Means with intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Spans {
    pub axis: Axis,
    pub spans: Vec<Span>,
}

/// A mean with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub name: String,
    pub mean: f64,
    pub interval: Option<(f64, f64)>,
    /// What it is in words.
    pub label: String,
}

/// An axis from 0 on is worth it if the values are apart by this part of the largest.
const APART: f64 = 0.2;

impl Spans {
    pub(super) fn spec(&self) -> Value {
        let spans: Vec<&Span> = self.spans.iter().filter(|span| span.mean.is_finite()).collect();
        let ends = spans.iter().flat_map(|span| {
            let (low, high) = span.interval.unwrap_or((span.mean, span.mean));
            [low.min(span.mean), high.max(span.mean)]
        });
        let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
        let (low, high) =
            ends.iter().fold((f64::MAX, f64::MIN), |(low, high), &end| (low.min(end), high.max(end)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let from_zero = low < 0.0 || high - low >= APART * high || high == low;
        let mut axis = Axis { scale: Scale::Linear, ..self.axis.clone() };
        if !from_zero {
            axis.title += " (this axis does not begin at 0)";
        }
        let axis = axis.over(if from_zero { low.min(0.0) } else { low }, high.max(0.0));
        let names: Vec<&str> = self.spans.iter().map(|span| span.name.as_str()).collect();
        let row = json!({ "field": "of", "type": "nominal", "sort": names, "axis": { "title": null, "ticks": false, "domain": false, "labelPadding": 10 } });
        let colour = json!({ "value": palette::colour(1) });
        let mut layers = Vec::new();
        if let Some(first) = spans.first() {
            layers.push(json!({
                "data": { "values": [{ "mean": rounded(first.mean) }] },
                "mark": { "type": "rule", "strokeDash": [4, 4], "opacity": 0.6 },
                "encoding": { "x": axis.encoding("mean"), "color": { "value": "currentColor" } },
            }));
        }
        let values: Vec<Value> = spans.iter().map(|span| value(span)).collect();
        layers.extend([
            json!({
                "mark": { "type": "rule", "strokeWidth": 2 },
                "encoding": { "x": axis.encoding("low"), "x2": { "field": "high" }, "y": row, "color": colour },
            }),
            json!({
                "mark": { "type": "point", "filled": true, "size": 60, "opacity": 1 },
                "encoding": { "x": axis.encoding("mean"), "y": row, "color": colour },
            }),
            json!({
                "mark": { "type": "text", "align": "left", "dx": 14 },
                "encoding": { "x": { "value": WIDTH }, "y": row, "text": { "field": "label" } },
            }),
        ]);
        json!({ "width": WIDTH, "height": { "step": ROW }, "data": { "values": values }, "layer": layers })
    }
}

fn value(span: &Span) -> Value {
    let (low, high) = span.interval.unwrap_or((span.mean, span.mean));
    json!({
        "of": span.name, "mean": rounded(span.mean), "low": rounded(low), "high": rounded(high), "label": span.label,
    })
}
