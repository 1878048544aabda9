//! A row of dots for each group, around the value that all would have if nothing were wrong.
//!
//! ```text
//!   pcp.kbuild         •  •┊• ◦
//!   pcp.lmbench3.unix    • ┊•••    •
//!                          └ the rule
//!                 0.5     1      2
//! ```

use super::axis::{Axis, Scale};
use super::{WIDTH, palette, rounded};
use serde_json::{Value, json};

/// Height of a row, in pixels.
const ROW: f64 = 24.0;

/// Dots in rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Dots {
    pub axis: Axis,
    /// What the axis has at least, so that small misses look small.
    pub at_least: (f64, f64),
    /// Where a line goes through all rows.
    pub rule: f64,
    /// Names of kinds of dots; each has a colour.
    pub kinds: [String; 2],
    /// Names of rows, from above.
    pub rows: Vec<String>,
    pub dots: Vec<Dot>,
}

/// A dot.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Which row it is in.
    pub row: usize,
    /// Which kind it is of.
    pub kind: usize,
    pub value: f64,
    /// What it is, for those who point at it.
    pub name: String,
}

impl Dots {
    pub(super) fn spec(&self) -> Value {
        let is_drawn =
            |dot: &&Dot| dot.value.is_finite() && (self.axis.scale == Scale::Linear || dot.value > 0.0);
        let drawn: Vec<&Dot> = self.dots.iter().filter(is_drawn).collect();
        let ends =
            drawn.iter().fold(self.at_least, |(low, high), dot| (low.min(dot.value), high.max(dot.value)));
        let axis = self.axis.over(ends.0, ends.1);
        let value = |dot: &&Dot| {
            let (row, kind) = (self.rows.get(dot.row)?, self.kinds.get(dot.kind)?);
            Some(json!({ "row": row, "kind": kind, "value": rounded(dot.value), "name": dot.name }))
        };
        let values: Vec<Value> = drawn.iter().filter_map(value).collect();
        let row = json!({
            "field": "row", "type": "nominal", "sort": self.rows, "scale": { "domain": self.rows },
            "axis": { "title": null, "ticks": false, "domain": false, "labelPadding": 10 },
        });
        let colours = [palette::colour(1), palette::colour(2)];
        let kind = json!({
            "field": "kind", "type": "nominal", "scale": { "domain": self.kinds, "range": colours },
            "legend": { "title": null, "orient": "bottom" },
        });
        json!({
            "width": WIDTH, "height": { "step": ROW }, "data": { "values": values },
            "layer": [
                {
                    "data": { "values": [{ "value": rounded(self.rule) }] },
                    "mark": { "type": "rule", "strokeDash": [4, 4], "opacity": 0.6 },
                    "encoding": { "x": axis.encoding("value"), "color": { "value": "currentColor" } },
                },
                {
                    "mark": { "type": "point", "filled": true, "size": 50, "opacity": 0.6 },
                    "encoding": {
                        "x": axis.encoding("value"), "y": row, "color": kind,
                        "tooltip": { "field": "name", "type": "nominal" },
                    },
                },
            ],
        })
    }
}
