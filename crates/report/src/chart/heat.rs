//! A shade for each pair of a row and a column, on the scale viridis, whose steps everybody sees, printed grey too.

use super::{WIDTH, rounded};
use serde_json::{Value, json};

/// Height of a row, in pixels.
const ROW: f64 = 18.0;

/// Shades.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// What columns are.
    pub x: String,
    /// What shades are.
    pub shade: String,
    /// Names of rows, from above.
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// Row, column, value; pairs without one have no shade.
    pub cells: Vec<(usize, usize, f64)>,
}

/// More columns than this have no names.
const NAMED: usize = 40;

impl Heat {
    pub(super) fn spec(&self) -> Value {
        let cell = |&(row, column, value): &(usize, usize, f64)| {
            let (row, column) = (self.rows.get(row)?, self.columns.get(column)?);
            Some(json!({ "row": row, "column": column, "value": rounded(value) }))
        };
        let values: Vec<Value> = self.cells.iter().filter_map(cell).collect();
        let names = self.columns.len() <= NAMED;
        json!({
            "width": WIDTH, "height": { "step": ROW }, "data": { "values": values },
            "mark": { "type": "rect" },
            "encoding": {
                "x": {
                    "field": "column", "type": "nominal", "sort": self.columns, "scale": { "domain": self.columns },
                    "axis": { "title": self.x, "labels": names, "ticks": false, "labelAngle": 0 },
                },
                "y": {
                    "field": "row", "type": "nominal", "sort": self.rows, "scale": { "domain": self.rows },
                    "axis": { "title": null, "ticks": false },
                },
                "color": {
                    "field": "value", "type": "quantitative", "scale": { "scheme": "viridis" },
                    "legend": { "title": self.shade, "format": ".3~s" },
                },
            },
        })
    }
}
