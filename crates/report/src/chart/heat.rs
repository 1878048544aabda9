//! A shade for each pair of a row and a column, on the scale viridis, whose steps everybody sees, printed grey too. Shades go with a
//! root of values, so that what is small beside the largest is still seen.

use super::{WIDTH, rounded};
use serde_json::{Value, json};

/// Height of a row, in pixels.
const ROW: f64 = 18.0;

/// A hundredth of the largest value is a fifth of the way from dark to bright.
const EXPONENT: f64 = 0.35;

/// Shades.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// What columns are.
    pub x: String,
    /// What shades are.
    pub shade: String,
    /// What the brightest shade stands for.
    pub most: f64,
    /// Names of rows, from above.
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// Those of them whose names are written below, as far as there is room.
    pub named: Vec<String>,
    /// Row, column, value; pairs without one have no shade.
    pub cells: Vec<(usize, usize, f64)>,
}

impl Heat {
    pub(super) fn spec(&self) -> Value {
        let cell = |&(row, column, value): &(usize, usize, f64)| {
            let (row, column) = (self.rows.get(row)?, self.columns.get(column)?);
            Some(json!({ "row": row, "column": column, "value": rounded(value) }))
        };
        let values: Vec<Value> = self.cells.iter().filter_map(cell).collect();
        json!({
            "width": WIDTH, "height": { "step": ROW }, "data": { "values": values },
            "mark": { "type": "rect" },
            "encoding": {
                "x": {
                    "field": "column", "type": "nominal", "sort": self.columns, "scale": { "domain": self.columns },
                    "axis": { "title": self.x, "values": self.named, "labelOverlap": true, "ticks": false, "labelAngle": 0 },
                },
                "y": {
                    "field": "row", "type": "nominal", "sort": self.rows, "scale": { "domain": self.rows },
                    "axis": { "title": null, "ticks": false },
                },
                "color": {
                    "field": "value", "type": "quantitative", "scale": { "scheme": "viridis", "type": "pow", "exponent": EXPONENT, "domain": [0, rounded(self.most)] },
                    "legend": { "title": self.shade, "format": ".3~s" },
                },
            },
        })
    }
}
