//! Charts: what they show, as typed descriptions, and how Vega-Lite is told to draw them.
//!
//! ```text
//!   Lines    a line for each variant, named at its end     time series, curves of miss ratios, tails of latencies
//!   Spans    a mean and its interval for each variant      the judged metric
//!   Stacks   a bar for each variant, in parts              where CPU time went
//!   Dots     many values around the one they should have   predicted against published
//!   Heat     a shade for each pair                         which thread touched which area
//!            │
//!            └─► spec() ─► Vega-Lite (JSON) ─► browser, SVG, Altair
//! ```
//!
//! Text, axes and the first line have `currentColor`: whoever embeds the picture decides between light and dark. Positions of labels
//! are computed here, because Vega-Lite cannot keep them apart.

mod axis;
mod dots;
mod heat;
mod labels;
mod lines;
mod palette;
mod spans;
mod stacks;

pub use axis::{Axis, Measure, Scale, of_metric};
pub use dots::{Dot, Dots};
pub use heat::Heat;
pub use lines::{Line, Lines, Point};
pub use spans::{Span, Spans};
pub use stacks::{Stack, Stacks};

use serde_json::{Value, json};

/// The language that specifications are in.
const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v6.json";

/// Width of what axes span, in pixels.
pub(crate) const WIDTH: f64 = 560.0;

/// A chart, and what is said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// What it shows and how to read it, for those who look and for those who cannot.
    pub caption: String,
    pub drawing: Drawing,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    Lines(Lines),
    Spans(Spans),
    Stacks(Stacks),
    Dots(Dots),
    Heat(Heat),
}

impl Chart {
    /// The Vega-Lite specification.
    pub fn spec(&self) -> Value {
        let mut spec = match &self.drawing {
            Drawing::Lines(lines) => lines.spec(),
            Drawing::Spans(spans) => spans.spec(),
            Drawing::Stacks(stacks) => stacks.spec(),
            Drawing::Dots(dots) => dots.spec(),
            Drawing::Heat(heat) => heat.spec(),
        };
        spec["$schema"] = SCHEMA.into();
        spec["config"] = config();
        spec["title"] = self.title.as_str().into();
        spec["description"] = self.caption.as_str().into();
        spec
    }
}

/// What all charts look like.
fn config() -> Value {
    let ink = "currentColor";
    json!({
        "font": "DejaVu Sans, Verdana, sans-serif",
        "background": null,
        "padding": 8,
        "view": { "stroke": null },
        "title": { "anchor": "start", "color": ink, "fontSize": 14, "fontWeight": "bold", "offset": 12 },
        "axis": {
            "labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink,
            "gridColor": ink, "gridOpacity": 0.15, "domainOpacity": 0.5, "tickOpacity": 0.5,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 260,
        },
        "legend": {
            "labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11, "labelLimit": 260,
            "titleFontWeight": "normal",
        },
        "text": { "color": ink, "fontSize": 11 },
    })
}

/// A number with six significant digits: nobody sees more of it, and it is half as long.
pub(crate) fn rounded(value: f64) -> Value {
    let short: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    // 12 rather than 12.0.
    if short.fract() == 0.0 && short.abs() < 1e15 { json!(short as i64) } else { json!(short) }
}

#[cfg(test)]
mod tests;
