//! Bars in parts: what each variant's whole is made of. Parts wide enough have their name in them, and all are in the legend.

use super::axis::{Axis, Scale};
use super::{WIDTH, palette, rounded};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Height of a bar with the space below it, in pixels.
const ROW: f64 = 26.0;
/// About how wide a letter is.
const LETTER: f64 = 6.5;
/// What the smaller parts are together.
const OTHERS: &str = "all others";

/// Bars in parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacks {
    pub axis: Axis,
    pub stacks: Vec<Stack>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    pub name: String,
    /// Its parts by name; they are drawn in the order of their sum over all bars.
    pub parts: BTreeMap<String, f64>,
}

impl Stacks {
    pub(super) fn spec(&self) -> Value {
        let parts = self.largest();
        let whole = |stack: &Stack| stack.parts.values().filter(|part| part.is_finite()).sum::<f64>();
        let most = self.stacks.iter().map(whole).fold(0.0, f64::max);
        let axis = Axis { scale: Scale::Linear, ..self.axis.clone() }.over(0.0, most);
        let names: Vec<&str> = self.stacks.iter().map(|stack| stack.name.as_str()).collect();
        let row = json!({ "field": "of", "type": "nominal", "sort": names, "axis": { "title": null, "ticks": false, "domain": false, "labelPadding": 10 } });
        let colours: Vec<&str> = (0..parts.len()).map(palette::part).collect();
        let colour = json!({
            "field": "part", "type": "nominal", "scale": { "domain": parts, "range": colours },
            "legend": { "title": null, "orient": "bottom", "columns": 4, "symbolType": "square" },
        });
        let values: Vec<Value> = self
            .stacks
            .iter()
            .flat_map(|stack| bars(stack, &parts, |value| axis.place(value) * WIDTH))
            .collect();
        let names = |ink: &str| {
            json!({
                "transform": [{ "filter": format!("datum.label != '' && datum.ink == '{ink}'") }],
                "mark": { "type": "text", "baseline": "middle", "fontSize": 10, "color": ink },
                "encoding": { "x": axis.encoding("middle"), "y": row, "text": { "field": "label" } },
            })
        };
        let layers = [
            json!({
                "mark": { "type": "bar", "height": ROW - 6.0 },
                "encoding": { "x": axis.encoding("from"), "x2": { "field": "to" }, "y": row, "color": colour },
            }),
            names("white"),
            names("black"),
        ];
        json!({ "width": WIDTH, "height": { "step": ROW }, "data": { "values": values }, "layer": layers })
    }

    /// The names of the parts that have a colour, the largest first; with [`OTHERS`] at the end if there are more.
    fn largest(&self) -> Vec<String> {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for (name, part) in self.stacks.iter().flat_map(|stack| &stack.parts) {
            *sums.entry(name).or_default() += part;
        }
        let mut sums: Vec<(&str, f64)> = sums.into_iter().filter(|(_, sum)| *sum > 0.0).collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        let has_others = sums.len() > palette::PARTS;
        let mut names: Vec<String> =
            sums.iter().take(palette::PARTS).map(|(name, _)| name.to_string()).collect();
        names.extend(has_others.then(|| OTHERS.into()));
        names
    }
}

/// The parts of a bar, one behind the other.
fn bars(stack: &Stack, parts: &[String], pixels: impl Fn(f64) -> f64) -> Vec<Value> {
    let named = |name: &str| stack.parts.get(name).copied().unwrap_or(0.0);
    let rest =
        stack.parts.iter().filter(|(name, _)| !parts.contains(name)).map(|(_, part)| part).sum::<f64>();
    let mut from = 0.0;
    let mut bar = |(at, name): (usize, &String)| {
        let size = if name == OTHERS { rest } else { named(name) };
        let to = from + size;
        let fits = pixels(to) - pixels(from) > LETTER * name.chars().count() as f64;
        let label = if fits { name.as_str() } else { "" };
        let bar = json!({
            "of": stack.name, "part": name, "label": label, "ink": palette::on_part(at),
            "from": rounded(from), "to": rounded(to), "middle": rounded((from + to) / 2.0),
        });
        from = to;
        (size > 0.0).then_some(bar)
    };
    parts.iter().enumerate().filter_map(&mut bar).collect()
}
