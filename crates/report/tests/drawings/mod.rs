//! Drawings of every kind, for tests that have them drawn, and what is in a picture of one.

use report::chart::{
    Axis, Dot, Dots, Drawing, Heat, Line, Lines, Measure, Point, Scale, Span, Spans, Stack, Stacks,
};
use std::collections::BTreeMap;

fn axis(title: &str, measure: Measure, scale: Scale) -> Axis {
    Axis { title: title.into(), measure, scale }
}

fn lines(scale: Scale) -> Drawing {
    let line = |name: &str, times: f64| Line {
        name: name.into(),
        points: (1..=20)
            .map(|x| Point { interval: Some((1.0, times)), ..Point::at(f64::from(x), f64::from(x) * times) })
            .collect(),
    };
    let lines = vec![line("lru", 1e6), line("<script>alert(1)</script>", 1e6), line("clock", 5e8)];
    Drawing::Lines(Lines {
        x: axis("time", Measure::Seconds, scale),
        y: axis("memory", Measure::Bytes, scale),
        y_ends: None,
        lines,
    })
}

/// One of each kind, lines on both scales. A name among them is markup.
pub fn drawings() -> Vec<Drawing> {
    let span = |name: &str, mean| Span {
        name: name.into(),
        mean,
        interval: Some((mean * 0.9, mean * 1.1)),
        label: "1 s".into(),
    };
    let spans = Spans {
        axis: axis("score", Measure::PerSecond, Scale::Linear),
        spans: vec![span("a", 4e5), span("b", 5e5)],
    };
    let parts = |many: u32| {
        (0..many).map(|part| (format!("part{part}"), f64::from(part + 1))).collect::<BTreeMap<_, _>>()
    };
    let stack = |name: &str, many| Stack { name: name.into(), parts: parts(many) };
    let stacks = Stacks {
        axis: axis("CPU time", Measure::Seconds, Scale::Linear),
        stacks: vec![stack("a", 10), stack("b", 3)],
    };
    let heat = Heat {
        x: "thread".into(),
        shade: "pages".into(),
        most: 5.0,
        rows: vec!["first".into(), "second".into()],
        named: vec!["0".into(), "3".into()],
        columns: (0..6).map(|column| column.to_string()).collect(),
        cells: (0..6).map(|column| (column % 2, column, column as f64)).collect(),
    };
    let dot = |row, kind, value| Dot { row, kind, value, name: format!("{value}") };
    let dots = Dots {
        axis: axis("predicted / published", Measure::Number, Scale::Logarithmic),
        at_least: (0.5, 2.0),
        rule: 1.0,
        kinds: ["predicted".into(), "base".into()],
        rows: vec!["first".into(), "second".into()],
        dots: vec![dot(0, 0, 0.5), dot(0, 1, 1.0), dot(1, 0, 2.0), dot(1, 0, f64::NAN), dot(1, 0, 0.0)],
    };
    let (linear, logarithmic) = (lines(Scale::Linear), lines(Scale::Logarithmic));
    vec![
        linear,
        logarithmic,
        Drawing::Spans(spans),
        Drawing::Stacks(stacks),
        Drawing::Heat(heat),
        Drawing::Dots(dots),
    ]
}

/// How many marks of a kind a picture has, as Vega names their groups: `line`, `rect`, `symbol`, `text`.
pub fn marks(picture: &str, kind: &str) -> usize {
    let element = if kind == "text" { "<text" } else { "<path" };
    let name = format!("mark-{kind} role-mark");
    let groups = picture.split(&name).skip(1);
    groups.map(|group| group.split("</g>").next().unwrap().matches(element).count()).sum()
}
